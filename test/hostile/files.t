#!/usr/bin/env python3
"""Group F and what terminals add to X: paths, names, archives and screens of strangers."""
import base64
import http.client
import io
import json
import os
import sys
import tarfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rows import c, row, play, PATIENCE  # noqa: E402
from wsclient import Terminal  # noqa: E402


class Api:
    """The file routes of one box."""

    def __init__(self, stage, box):
        self.cove, self.at = stage.cove, "/v1/sandboxes/%s/api/" % box["id"]

    def post(self, verb, **body):
        return self.cove.post(self.at + verb, body)

    def text(self, path, **more):
        reply = self.post("read", path=path, encoding="base64", **more)
        return base64.b64decode(reply.json["content"]) if reply.status == 200 else reply

    def raw(self, method, path, body=None, **headers):
        return self.cove.request(method, self.at + path, body, headers=headers, raw=True)


def sentinel():
    """A secret of the host, where a box must not reach. The path, and its text."""
    path = "/tmp/cove-sentinel-%d" % os.getpid()
    text = "sentinel-" + os.urandom(12).hex()
    with open(path, "w") as handle:
        handle.write(text)
    return path, text


SPELLINGS = [
    "{p}", "/{p}", "//{p}", "/./{p}", "../{p}", "../../../../../../../../..{p}", "/workspace/../..{p}",
    "/workspace/..//..{p}", "/proc/self/root{p}", "/proc/self/cwd{p}", "/proc/1/root{p}", "/proc/1/cwd{p}",
    "/proc/self/root/..{p}", "/proc/thread-self/root{p}", "/proc/self/fd/0{p}", "/proc/self/fd/3/..{p}",
    "/dev/fd/3{p}", "/proc/self/exe/..{p}", "/proc/self/task/1/root{p}", "/proc/1/fd/3{p}", "/proc/2/root{p}",
    "/sys/../..{p}", "/dev/shm/../../..{p}", "....//....//..{p}", "/workspace/%2e%2e/%2e%2e{p}",
    "/workspace/..%2f..{p}", "file://{p}", "~{p}", "~root/..{p}", "{p}/", "{p}/.", "{p}/../{n}",
    "\\..\\..{p}", "/workspace/\u2025{p}", "/link{p}", "/workspace/up{p}", "/workspace/up/up/up{p}",
    "/workspace/root{p}", "/workspace/self{p}", "/etc/..{p}",
]


# A box that is none, as far as files go: it sees the host's processes and has its root's rights over them.
FAR = "pidns,capabilities,userns,magic_links"


@row("F-01", "no spelling of a path leads out of the box, by any verb")
def traversal(stage):
    path, text = sentinel()

    def by_proc(stage):  # the root of a process of the host
        return Api(stage, stage.box()).text("/proc/%d/root%s" % (stage.cove.process.pid, path))
    stage.control_weak(FAR, by_proc, lambda got: got == text.encode())
    stage.depth(FAR.replace(",magic_links", ""), by_proc, lambda got: got != text.encode())
    stage.depth("magic_links", by_proc, lambda got: got != text.encode())
    c.ok(by_proc(stage) != text.encode(), "F-01: no process of the host has a root to go by")
    box = stage.box()
    api = Api(stage, box)
    stage.cove.run(box, "ln -s ../../../.. /workspace/up; ln -s / /workspace/root; ln -s /proc/self/root /workspace/self; ln -s / /link")
    seen, touched = [], []
    for spelling in SPELLINGS:
        name = spelling.format(p=path, n=os.path.basename(path))
        replies = [api.post("read", path=name), api.post("list-files", path=os.path.dirname(name) or "/"),
                   api.post("stat", path=name), api.post("read/stream", path=name),
                   api.raw("GET", "files/" + urllib.parse.quote(name)), api.raw("GET", "files/" + name.replace(" ", "").encode("ascii", "ignore").decode()),
                   api.raw("GET", "tar?path=" + urllib.parse.quote(name))]
        seen += [(name, r) for r in replies if text.encode() in r.body]
        api.post("write", path=name, content="pwned")
        api.raw("PUT", "files/" + urllib.parse.quote(name), b"pwned")
        api.post("delete", path=name)
        api.post("move", sourcePath=name, destinationPath="/workspace/stolen")
        with open(path) as handle:
            if handle.read() != text:
                touched.append(name)
    c.same(seen, [], "F-01: %d spellings read nothing of the host" % len(SPELLINGS))
    c.ok(os.path.exists(path) and not touched, "F-01: nor change or remove it", touched)
    for bad in ("a\0b", "", "x" * 5000):
        c.same(api.post("read", path=bad).status, 400, "F-01: %r… is refused" % bad[:5])
    c.same(api.raw("GET", "files/a%00b").status, 400, "F-01: an encoded NUL is refused")
    os.unlink(path)


@row("F-02", "a link to what looks like the host's is the box's own, or nothing")
def links(stage):
    path, text = sentinel()

    def by_link(stage):
        box = stage.box()
        stage.cove.run(box, "ln -s /proc/%d/root%s /workspace/a" % (stage.cove.process.pid, path))
        return Api(stage, box).text("/workspace/a")
    stage.control_weak(FAR, by_link, lambda got: got == text.encode())
    c.ok(by_link(stage) != text.encode(), "F-02: from a box it leads nowhere")
    box = stage.box()
    api = Api(stage, box)
    stage.cove.run(box, "cd /workspace; ln -s /proc/1/root%s a; ln -s %s b; ln -s /etc/hostname own; "
                        "ln -s /proc/1/root d; ln -s /proc/self/root e" % (path, path))
    for name in ("a", "b", "d" + path, "e" + path):
        reply = api.post("read", path="/workspace/" + name)
        c.ok(reply.status in (400, 403, 404, 500) and text.encode() not in reply.body, "F-02: %s" % name, reply)
    c.same(api.text("/workspace/own"), stage.cove.out(box, "cat /etc/hostname").encode(), "F-02: a link inside is followed")
    api.post("write", path="/workspace/b", content="pwned")
    with open(path) as handle:
        c.same(handle.read(), text, "F-02: nothing is written through a link that leads out")
    os.unlink(path)


@row("F-05", "a hard link gives no right that its user does not have")
def hardlinks(stage):
    box = stage.box()
    api = Api(stage, box)
    stage.cove.run(box, "cp /etc/passwd /tmp/before; mkdir -m 1777 /workspace/w; ln /etc/passwd /workspace/w/h; echo own > /workspace/w/own; chown 1000:1000 /workspace/w/own")
    for ask in (api.post("write", path="/workspace/w/h", content="pwned", user="1000"),
                api.raw("PUT", "files/workspace/w/h?user=1000", b"pwned")):
        c.ok(ask.status in (403, 500) and b"ermission" in ask.body, "F-05: a user of the box may not", ask)
    c.same(api.post("write", path="/workspace/w/own", content="mine", user="1000").status, 200, "F-05: but to what is his")
    c.same(stage.cove.run(box, "cmp /etc/passwd /tmp/before && cmp /workspace/w/h /tmp/before")["exitCode"], 0,
           "F-05: the file is as it was")
    stage.twin(api.post("write", path="/workspace/w/h", content="new").status == 200, "the same, by root of the box, is done")


@row("F-06", "what is no file is refused at once, and nobody waits for it")
def odd_files(stage):
    box = stage.box()
    api = Api(stage, box)
    stage.cove.run(box, "cd /workspace; mkfifo p; mkdir d; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"")
    stage.twin(stage.cove.run(box, "timeout 1 cat /workspace/p")["exitCode"] == 124, "a program that just opens it waits for ever")
    late = []
    for name in ("/workspace/p", "/workspace/s", "/workspace/d", "/dev/null", "/dev/zero", "/dev/ptmx", "/dev/tty", "/proc/self/mem"):
        for ask in (lambda: api.post("read", path=name), lambda: api.post("read/stream", path=name),
                    lambda: api.raw("GET", "files" + name), lambda: api.post("write", path=name, content="x"),
                    lambda: api.raw("PUT", "files" + name, b"x")):
            begin = time.monotonic()
            reply = ask()
            took = time.monotonic() - begin
            if took > 0.1 * PATIENCE or (reply.status == 200 and b'"error"' not in reply.body):
                late.append((name, took, reply))
    c.same(late, [], "F-06: refused, within %.1f s" % (0.1 * PATIENCE))


@row("F-08", "a file of 8 EiB costs no memory")
def huge(stage):
    stage.no_control("reading 8 EiB on the host would harm it")
    box = stage.box()
    api = Api(stage, box)
    made = stage.cove.run(box, "truncate -s 8E /workspace/s 2>/dev/null || truncate -s 15T /workspace/s; stat -c %s /workspace/s")
    size = int(made["stdout"])
    daemon = stage.cove.children()["daemon"]

    def rss():
        with open("/proc/%d/status" % daemon, errors="replace") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024
    before = rss()
    reply = api.post("read", path="/workspace/s")
    c.same((reply.status, reply.json["code"]), (413, "FILE_TOO_LARGE"), "F-08: too large for JSON")
    conn = http.client.HTTPConnection("127.0.0.1", stage.cove.port, timeout=60)
    conn.request("GET", api.at + "files/workspace/s", headers={"Authorization": "Bearer " + stage.cove.key})
    answer = conn.getresponse()
    got = 0
    while got < 256 << 20:
        got += len(answer.read(1 << 20))
    most = rss()
    conn.close()
    c.ok(answer.status == 200 and int(answer.headers["Content-Length"]) == size, "F-08: it streams", answer.status)
    c.ok(most - before < 16, "F-08: daemon grew by %d MiB" % (most - before))
    part = api.raw("GET", "files/workspace/s", Range="bytes=%d-" % (size - 5))
    c.same((part.status, len(part.body)), (206, 5), "F-08: its last bytes")


@row("F-10", "names are bytes: made, listed and deleted, and no shell sees them")
def names(stage):
    stage.control_python("import os,subprocess,tempfile;os.chdir(tempfile.mkdtemp(dir='/dev/shm'));"
                         "subprocess.run('cat a;touch pwn',shell=True,capture_output=True);print(os.listdir('.'))",
                         lambda r: "pwn" in r.stdout)
    box = stage.box()
    api = Api(stage, box)
    odd = ["a;touch pwn", "-rf", "$(touch pwn)", "`touch pwn`", "new\nline", "'quo\"te", "tab\there", " ", "…", "n" * 255]
    for name in odd:
        made = api.post("write", path="/workspace/odd/" + name, content="odd")
        c.ok(made.status == 200 and api.text("/workspace/odd/" + name) == b"odd", "F-10: %r" % name[:20], made)
    raw = urllib.parse.quote(b"/workspace/odd/\xff\xfe")
    c.same(api.raw("PUT", "files" + raw, b"bytes").status in (200, 201, 204), True, "F-10: a name that is no UTF-8")
    listed = api.post("list-files", path="/workspace/odd", options={"includeHidden": True})
    c.same(listed.json.get("count"), len(odd) + 1, "F-10: all are listed")
    for name in odd:
        api.post("delete", path="/workspace/odd/" + name)
    c.same(api.raw("GET", "files" + raw).body, b"bytes", "F-10: it reads the same")
    api.raw("DELETE", "files" + raw)
    c.same(stage.cove.out(box, "ls -A /workspace/odd; ls /workspace"), "odd\n", "F-10: all are gone, and no pwn")


def evil_tar(path):
    """Every way out that an archive can try."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        def add(name, kind=tarfile.REGTYPE, link="", **more):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            for key, value in more.items():
                setattr(info, key, value)
            if kind == tarfile.REGTYPE:
                info.size = 5
            tar.addfile(info, io.BytesIO(b"pwned"))
        add("../../.." + path)
        add(path)
        add("a/../../x")
        add("up", tarfile.SYMTYPE, "../..")
        add("up/pwned")
        add("root", tarfile.SYMTYPE, "/")
        add("root" + path)
        add("root/workspace/pwned")
        add("hard", tarfile.LNKTYPE, "/etc/shadow")
        add("hard2", tarfile.LNKTYPE, "root/etc/shadow")
        add("dir/", tarfile.DIRTYPE)
        add("dir", tarfile.SYMTYPE, "/workspace")
        add("dir/pwned")
        add("node", tarfile.CHRTYPE, devmajor=1, devminor=1)
        add("pipe", tarfile.FIFOTYPE)
        add("/".join(["d"] * 300) + "/deep")
        add("fine")
    return out.getvalue()


@row("F-11", "an uploaded archive writes in its directory and nowhere else")
def archives(stage):
    path, text = sentinel()

    def through_link(stage):  # up -> ../.., up/pwned: the root of the box
        box = stage.box()
        Api(stage, box).raw("PUT", "tar?path=/workspace/into", evil_tar(path))
        return stage.cove.out(box, "cat /pwned")
    stage.control_weak("paths", through_link, lambda got: got == "pwned")
    box = stage.box()
    api = Api(stage, box)
    reply = api.raw("PUT", "tar?path=/workspace/into", evil_tar(path))
    c.same(reply.status, 200, "F-11: the rest of it is unpacked")
    c.ok(reply.json.get("skipped", 0) >= 12, "F-11: what was refused is told", reply)
    c.same(stage.cove.out(box, "ls /workspace; ls /workspace/into; ls /workspace/into/dir; ls -d /pwned /x /tmp/cove-sentinel* 2>/dev/null; true"),
           "into\ndir\nfine\nroot\nup\npwned\n", "F-11: nothing outside of its directory")
    with open(path) as handle:
        c.same(handle.read(), text, "F-11: the host's file is as it was")
    os.unlink(path)


@row("F-15", "a tree of pipes, sockets, loops and files that shrink becomes a sound archive")
def download(stage):
    box = stage.box()
    api = Api(stage, box)
    stage.cove.run(box, "mkdir -p /workspace/t/d; cd /workspace/t; mkfifo p; ln -s . loop; ln -s ../t d/up; ln -s self self; "
                        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"; head -c 40000000 /dev/zero > shrinks; echo fine > fine")
    stage.twin(stage.cove.run(box, "timeout 1 cp -rL /workspace/t /workspace/u")["exitCode"] != 0, "a program that just copies it does not end well")
    stop = threading.Event()

    def shrink():
        while not stop.is_set():
            stage.cove.run(box, "truncate -s $((RANDOM * 1000)) /workspace/t/shrinks")
    worker = threading.Thread(target=shrink)
    worker.start()
    good = 0
    for _ in range(8):
        reply = api.raw("GET", "tar?path=/workspace/t")
        try:
            with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
                members = {m.name.rstrip("/"): m for m in tar.getmembers()}
            good += any(n.endswith("fine") for n in members) and not any(n.endswith("/p") or n == "p" for n in members)
        except tarfile.TarError as bad:
            c.note(str(bad))
    stop.set()
    worker.join()
    c.same(good, 8, "F-15: eight sound archives while a file shrinks and grows")


@row("X-03", "a terminal's bytes reach its client alone, and no size or storm of sizes does harm")
def screens(stage):
    stage.no_control("a terminal's bytes go to its client and to no other place that could be opened to them")
    box = stage.box()
    term = Terminal(stage.cove, box, "sessionId=storm&cols=80&rows=24")
    c.ok(term.until(event="ready"), "X-03: a terminal", term.events)
    term.type("printf '\\033]0;pwned\\007\\033[2J\\033[6n\\302\\233marker-%s\\n' x\n")
    c.ok(term.until(b"marker-x"), "X-03: escapes come as bytes", term.seen)
    for cols, rows in ((0, 0), (65535, 65535), (-1, 5), (4097, 1), (1e9, 1)):
        term.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))
    begin = time.monotonic()
    for i in range(1000):
        term.resize(1 + i % 4096, 1 + i * 7 % 4096)
    term.resize(120, 40)
    term.type("stty size\n")
    c.ok(term.until(b"40 120"), "X-03: a thousand sizes later it is the last one", term.seen[-200:])
    c.note("%.2f s" % (time.monotonic() - begin))
    log = stage.cove.log_text()
    c.ok("pwned" not in log and "\033" not in log and "marker-x" not in log, "X-03: nothing of it is in the log")
    term.close()


play()
