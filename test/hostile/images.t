#!/usr/bin/env python3
"""Group I: hostile registries and images that are pulled by name; hostile builds, snapshots and volumes (I-54)."""
import base64
import contextlib
import gzip
import hashlib
import io
import os
import shutil
import socket
import tarfile
import tempfile
import threading
import time

from rows import WeakCove, c, play, row

import registry as r

SMALL = r.tar([("etc", None), ("etc/motd", b"hello\n", 0o644)])
number = iter(range(10000))


def pull(stage, host, key=True, **more):
    name = "hostile-%d" % next(number)
    reply = stage.cove.request("POST", "/v1/templates", {"image": host + "/app", "name": name, **more}, key=key)
    if reply.status in (200, 201):
        stage.cove.request("DELETE", "/v1/templates/" + name)
    return reply


def leaves_nothing(stage):
    data = stage.cove.data
    c.same(os.listdir(os.path.join(data, "daemon/blobs")), [], stage.name + ": no part of an image is left")
    c.ok(c.until(lambda: not [name for name in os.listdir(os.path.join(data, "layers")) if name.startswith((".layer-", ".new-"))], 60),
         stage.name + ": and no layer", os.listdir(os.path.join(data, "layers")))


@row("I-06", "a password for a registry is not sent to the server that a redirect leads to")
def redirected(stage):
    def attack(stage):
        thief, registry = r.StandIn(), r.StandIn(basic="me:word")
        image = registry.add(r.Image([r.tar([("x", b"%d" % next(number), 0o644)])]))
        thief.blobs.update(image.blobs)

        def away(handler, kind, name):
            if kind == "blobs" and registry.is_authorized(handler):
                handler.send(307, Location="http://%s/v2/x/blobs/%s" % (thief.host, name))
            return kind == "blobs"
        registry.hook = away
        reply = pull(stage, registry.host, auth={"username": "me", "password": "word"})
        seen = [request for request in thief.requests if "Authorization" in request[2]]
        registry.stop()
        thief.stop()
        return reply.status, seen
    stage.control_weak("registry_auth", attack, lambda got: got[0] == 201 and got[1])
    c.same(attack(stage), (201, []), "I-06: the image is pulled, and the password is not seen")


def own_address():
    """An address of this host on a network; None: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return sock.getsockname()[0]


@row("I-09", "a registry, its token server and its redirects do not lead into the host's networks")
def private(stage):
    address = own_address()
    if not address:
        stage.no_control("this host has no network")
        return c.skip("I-09: a private address", "this host has none")
    sentinel = socket.create_server((address, 0))
    sentinel.settimeout(0.1)
    inner = "%s:%d" % (address, sentinel.getsockname()[1])

    def listens(work):
        seen, over = [], threading.Event()

        def run():
            while not over.is_set():
                try:
                    conn, _ = sentinel.accept()
                    seen.append(1)
                    conn.close()
                except TimeoutError:
                    pass
        thread = threading.Thread(target=run)
        thread.start()
        replies = work()
        over.set()
        thread.join()
        return replies, len(seen)

    def attack(stage):
        def work():
            registry = r.StandIn()
            replies = [pull(stage, inner)]
            registry.hook = lambda handler, kind, name: handler.send(307, Location="http://%s/x" % inner) or True
            replies.append(pull(stage, registry.host))
            registry.hook = lambda handler, kind, name: handler.send(401, WWW_Authenticate='Bearer realm="http://%s/token"' % inner) or True
            replies.append(pull(stage, registry.host))
            registry.stop()
            return replies
        return listens(work)
    stage.control_weak("outbound,neighbours", attack, lambda got: got[1] >= 3)
    replies, seen = attack(stage)
    c.same(seen, 0, "I-09: no connection is made")
    c.ok(all(reply.status == 403 for reply in replies), "I-09: each is refused", replies)
    sentinel.close()


@row("I-11a", "what a registry sends is what the digests say")
def digests(stage):
    def attack(stage):
        registry = r.StandIn()
        image = registry.add(r.Image([SMALL], pack=bytes))
        registry.blobs[r.digest(image.packed[0])] = image.packed[0].replace(b"hello", b"adieu")
        reply = pull(stage, registry.host)
        registry.stop()
        return reply
    stage.control_weak("digest", attack, lambda reply: reply.status == 201)
    reply = attack(stage)
    c.same((reply.status, reply.json["reason"]), (400, "digest_mismatch"), "I-11a: other bytes are refused")
    leaves_nothing(stage)


@row("I-11b", "a layer that is a bomb is stopped by its ratio, and nothing stays")
def bomb(stage):
    packed = gzip.compress(r.tar([("bomb", bytes(256 << 20), 0o644)]))
    diff = r.digest(gzip.decompress(packed))

    def attack(stage):
        registry = r.StandIn()
        registry.add(r.Image([b""], pack=lambda _: packed, diff_ids=[diff]))
        reply = pull(stage, registry.host)
        registry.stop()
        return reply
    stage.control_weak("ratio", attack, lambda reply: reply.status == 201)
    reply = attack(stage)
    c.ok(reply.status == 413 and reply.json["reason"] == "archive_bomb", "I-11b: refused", reply)
    leaves_nothing(stage)


@row("I-12", "a registry that sends heads, names or documents without end is refused within bounds")
def endless(stage):
    registry = r.StandIn()
    registry.add(r.Image([SMALL]))
    stage.twin(pull(stage, registry.host).status == 201, "the same registry without its sting serves the image")

    def heads(handler, kind, name):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(10000)) + b"\r\n")
        return True

    def continues(handler, kind, name):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
        return True

    def flood(handler, kind, name):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        try:
            while True:
                handler.wfile.write(b" " * 65536)
        except OSError:
            return True

    def nested(handler, kind, name):
        handler.send(200, b"[" * 1000000, r.INDEX)
        return True

    def circle(handler, kind, name):
        """Each index leads to the next one."""
        index = registry.add_index([])
        data = b'{"schemaVersion":2,"mediaType":"%s","manifests":[{"mediaType":"%s","digest":"%s","size":0,"platform":{"os":"linux","architecture":"%s"}}]}' % (
            r.INDEX.encode(), r.INDEX.encode(), index.encode(), r.ARCH.encode())
        handler.send(200, data, r.INDEX)
        return True
    for hook in (heads, continues, flood, nested, circle):
        registry.hook = hook
        reply = pull(stage, registry.host)
        c.ok(reply.status in (400, 413, 502) and reply.json["reason"] != "internal", "I-12: %s is refused" % hook.__name__, reply)
    registry.stop()
    leaves_nothing(stage)


@row("I-17", "a digest alone opens no layer of another tenant")
def tenants(stage):
    registry = r.StandIn(basic="me:word")
    image = registry.add(r.Image([SMALL]))
    mine = stage.cove.request("POST", "/v1/templates", {"image": registry.host + "/app", "name": "mine", "auth": {"username": "me", "password": "word"}})
    stage.twin(mine.status == 201, "with the password the image is pulled")
    stage.cove.request("PUT", "/v1/tenants/other", {})
    key = stage.cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use", "templates"]}).json["key"]
    for words in ({"template": "mine"}, {"image": "%s/app@%s" % (registry.host, image.digest), "pull": "never"}, {"image": "%s/app@%s" % (registry.host, image.digest)}):
        reply = stage.cove.request("POST", "/v1/sandboxes", words, key=key)
        c.ok(reply.status in (403, 404), "I-17: %s is refused" % list(words), reply)
    reply = pull(stage, registry.host, key=key)
    c.same(reply.status, 403, "I-17: and so is its pull")
    stage.cove.request("DELETE", "/v1/templates/mine")
    stage.cove.request("DELETE", "/v1/tenants/other")
    registry.stop()
    leaves_nothing(stage)


# ------------------------------------------------------------------------------------------- I-54

@row("I-54a", "a registry that is slow without end holds a pull for a bounded time")
def slow(stage):
    cove = c.Cove("--dev=on", "--time-scale", "120")  # half a second of silence, one second for an answer
    registry = r.StandIn()
    registry.add(r.Image([SMALL]))
    over = threading.Event()

    def ask():
        began = time.monotonic()
        return cove.post("/v1/templates", {"image": registry.host + "/app", "name": "slow"}), time.monotonic() - began
    stage.twin(ask()[0].status == 201, "the same registry without its sting serves the image")
    cove.request("DELETE", "/v1/templates/slow")

    def head(handler, kind, name):  # a byte every tenth of a second: never silent, never done
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        return drip(handler)

    def document(handler, kind, name):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nContent-Type: %s\r\n\r\n" % r.MANIFEST.encode())
        return drip(handler)

    def drip(handler):
        with contextlib.suppress(OSError):
            while not over.wait(0.1):
                handler.wfile.write(b" ")
        return True
    for hook in (head, document):
        registry.hook = hook
        reply, took = ask()
        c.ok((reply.status, reply.json["reason"]) == (502, "registry_unreachable") and reply.json["hint"] and took < 60, "I-54a: a slow %s is given up" % hook.__name__, reply, took)
    over.set()
    registry.stop()
    c.ok(c.until(lambda: os.listdir(os.path.join(cove.data, "daemon/blobs")) == [], 30), "I-54a: no part of an image is left")
    c.same(cove.stop(), 0, "I-54a: cove stops")
    c.same(c.remains(cove), {}, "I-54a: and leaves nothing")


@row("I-54b", "redirects in a loop end after a few")
def loops(stage):
    registry = r.StandIn()
    registry.add(r.Image([SMALL]))

    def chain(length):
        def hook(handler, kind, name):
            hop = int((handler.path.split("hop=") + ["0"])[1])
            if hop < length:
                handler.send(307, Location="http://%s%s?hop=%d" % (registry.host, handler.path.split("?")[0], hop + 1))
            return hop < length
        return hook
    registry.hook = chain(5)
    stage.twin(pull(stage, registry.host).status == 201, "five redirects are followed")
    other = r.StandIn()
    for what, target in (("to itself", lambda path: path), ("between two hosts", lambda path: "http://%s%s" % (other.host, path))):
        registry.hook = lambda handler, kind, name, to=target: handler.send(302, Location=to(handler.path)) or True
        other.hook = lambda handler, kind, name: handler.send(302, Location="http://%s%s" % (registry.host, handler.path)) or True
        before = len(registry.requests) + len(other.requests)
        reply = pull(stage, registry.host)
        asked = len(registry.requests) + len(other.requests) - before
        c.ok(reply.status == 502 and asked <= 18, "I-54b: a loop %s is refused, after at most three tries of six requests" % what, reply, asked)
    registry.stop()
    other.stop()
    leaves_nothing(stage)


@row("I-54c", "a name that leads to a private address at its second lookup is not connected to")
def rebinding(stage):
    address = own_address()
    if not address:
        stage.no_control("this host has no network")
        return c.skip("I-54c: a private address", "this host has none")
    home = tempfile.mkdtemp(prefix="cove-rebind-")
    os.chmod(home, 0o755)
    hosts = os.path.join(home, "hosts")

    def name(where):
        with open(hosts, "w") as file:  # bound over /etc/hosts: the same file, not a new one
            file.write("127.0.0.1 localhost\n%s rebind.test\n" % where)
    name("127.0.0.2")
    registry = r.StandIn(address="127.0.0.2")
    registry.add(r.Image([SMALL]))
    inner = socket.create_server((address, registry.port))
    inner.settimeout(0.1)

    def attack(off):
        """The reply, and whether the inner server was connected to."""
        args = ["--registry-exceptions", "127.0.0.2", "--registry-insecure", "rebind.test:%d" % registry.port]
        name("127.0.0.2")
        cove = WeakCove((), home + "/data-%d" % len(off), before="mount --bind %s /etc/hosts" % hosts, **({} if off else {"binary": c.BIN}))
        try:
            cove.stop()
            cove.args += args
            cove.start()
            if off:
                cove.switch(off)
            registry.hook = lambda handler, kind, what: kind == "blobs" and name(address) and False
            path = "/v1/operations/" + cove.post("/v1/templates?wait=false", {"image": "rebind.test:%d/app" % registry.port, "name": "t"}).json["id"]
            seen = []
            c.until(lambda: seen.append(accepted()) or seen[-1] or cove.get(path).json["state"] == "failed", 60)
            return (cove.get(path).json["error"] or {}).get("reason"), any(seen) or accepted()
        finally:
            registry.hook = None
            cove.close()

    def accepted():
        try:
            inner.accept()[0].close()
            return True
        except TimeoutError:
            return False
    registry.hook = None
    if stage.can_weaken("outbound,neighbours"):
        stage.worked("outbound,neighbours", attack(["outbound", "neighbours"])[1])
    c.same(attack([]), ("not_global", False), "I-54c: the second address is judged, too")
    inner.close()
    registry.stop()
    shutil.rmtree(home, ignore_errors=True)


def plan(stage, name, dockerfile, **fields):
    return stage.cove.post("/v1/builds", dict(fields, name=name, dockerfile=dockerfile))


def brought(stage, name, archive):
    reply = stage.cove.request("POST", "/v1/templates?name=" + name, archive, headers={"Content-Type": "application/x-tar"}, raw=True)
    c.same(reply.status, 201, stage.name + ": a template to build on")


def busy_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@row("I-54d", "bombs in Dockerfiles, patterns and ignore files cost a bounded time")
def parsers(stage):
    context = r.tar([("a" * 120, b"x", 0o644)])
    digest = "sha256:" + hashlib.sha256(context).hexdigest()
    c.same(stage.cove.request("PUT", "/v1/blobs/" + digest, context, headers={"Content-Type": "application/x-tar"}, raw=True).status, 201, "I-54d: a context")
    doubling = "FROM cove://host\nENV A=" + "x" * 1000 + "\n" + "ENV A=$A$A\n" * 40
    bombs = {
        "doubling variables": doubling, "nested defaults": "ARG A=" + "${B:-" * 20000 + "x" + "}" * 20000 + "\nFROM cove://host\nENV A=$A\n",
        "stages": "".join("FROM cove://host AS s%d\n" % i for i in range(20000)), "steps": "FROM cove://host\n" + "ENV A=b\n" * 60000,
        "a line without end": "FROM cove://host\nRUN " + "a \\\n" * 200000, "heredocs": "FROM cove://host\nRUN " + "<<A " * 20000 + "\n",
        "a list": "FROM cove://host\nSHELL [" + "[" * 100000, "flags": "FROM cove://host\nCOPY " + "--chown=1 " * 20000 + "a b\n",
        "stars": "FROM cove://host\nCOPY " + "*a" * 50 + "b /x/\n", "brackets": "FROM cove://host\nCOPY " + "[a-" * 2000 + " /x/\n",
    }
    twin = plan(stage, "twin", "FROM cove://host\nARG A=${B:-x}\nENV A=$A$A\nCOPY a*a /x/\n", context=digest)
    stage.twin(twin.status == 201, "the same forms, small, are built", twin)
    pid = stage.cove.children()["daemon"]
    for what, text in bombs.items():
        before, began = busy_seconds(pid), time.monotonic()
        reply = plan(stage, "bomb", text, context=digest)
        took = busy_seconds(pid) - before
        c.ok(400 <= reply.status < 500 and reply.json["reason"] not in ("internal", "timeout") and took < 5, "I-54d: %s are refused" % what, reply, took, time.monotonic() - began)
    c.same(stage.cove.request("DELETE", "/v1/templates/twin").status, 204, "I-54d: the twin is removed")
    with tempfile.TemporaryDirectory() as home:
        for i in range(200):
            with open(os.path.join(home, "a" * 100 + "%03d" % i), "w"):
                pass
        for name, text in (("Dockerfile", "FROM cove://host\nCOPY . /x/\n"), (".dockerignore", "*a" * 100 + "b\n" + "**/" * 100 + "b\n" + "!x\n" * 2000)):
            with open(os.path.join(home, name), "w") as file:
                file.write(text)
        began = time.monotonic()
        got = c.Cli(stage.cove.data)("template", "build", "-t", "ignored", home)
        took = time.monotonic() - began
        c.ok(got.status == 0 and took < 60, "I-54d: an ignore file of stars takes a bounded time", got.err[-300:], took)
        stage.cove.request("DELETE", "/v1/templates/ignored")
    stage.cove.post("/v1/templates/prune", {"cache": True})


@row("I-54e", "RUN does not change what its base is made of")
def lower(stage):
    base = io.BytesIO(r.base())
    with tarfile.open(fileobj=base, mode="a") as archive:
        motd = tarfile.TarInfo("etc/motd")
        motd.size = 6
        archive.addfile(motd, io.BytesIO(b"first\n"))
    run = "FROM cove://lowly\nSHELL [\"/bin/bash\", \"-c\"]\nRUN printf evil >>/etc/motd; rm /etc/motd; printf evil >/etc/motd\n"

    def attack(stage):
        brought(stage, "lowly", base.getvalue())
        reply = plan(stage, "high", run)
        path = os.path.join(stage.cove.data, "layers/lowly/root/etc/motd")
        with open(path) as file:
            left = file.read()
        for name in ("high", "lowly"):
            stage.cove.request("DELETE", "/v1/templates/" + name)
        stage.cove.post("/v1/templates/prune", {"cache": True})
        return left, reply
    stage.control_weak("overlay", attack, lambda got: got[0] != "first\n", fresh=True)
    left, reply = attack(stage)
    c.same((left, reply.status), ("first\n", 201), "I-54e: the template's file is as it was")


@row("I-54f", "what RUN leaves running changes no later step, and ends with the build")
def leftovers(stage):
    loop = "(setsid sh -c 'while :; do echo x >>/srv/grown; sleep 0.01; done' >/dev/null 2>&1 &) ; while ! test -s /srv/grown; do sleep 0.01; done"
    box = stage.box()
    grows = "stat -c %s /srv/grown; sleep 0.3; stat -c %s /srv/grown"
    sizes = stage.cove.out(box, loop + "; true") or stage.cove.out(box, grows).split()
    stage.twin(len(set(sizes)) == 2, "in a sandbox, where it may stay, it goes on", sizes)
    reply = plan(stage, "left", "FROM cove://host\nRUN mkdir -p /srv; %s\nRUN (%s) >/sizes\nRUN sh -c 'trap \"\" TERM INT HUP; sleep 3600' & disown -a 2>/dev/null; true\nRUN ps ax >/ps || true\n"
                 % (loop, grows))
    c.same(reply.status, 201, "I-54f: the template is built")
    made = stage.box(template="left")
    sizes = stage.cove.out(made, "cat /sizes").split()
    c.same((len(sizes), len(set(sizes))), (2, 1), "I-54f: what the first step left has ended before the second")
    c.ok("3600" not in stage.cove.out(made, "cat /ps"), "I-54f: also what ignores signals")
    stage.cove.request("DELETE", "/v1/templates/left")
    stage.cove.post("/v1/templates/prune", {"cache": True})


@row("I-54g", "a RUN that fills the disk fails at its limit, and the space comes back")
def fills(stage):
    if not stage.box(limits={"diskMB": 64})["limits"].get("diskMB"):
        stage.no_control("this host has no disk limit")
        return c.skip("I-54g: the limit holds", "no disk limit on this host")

    def attack(stage):
        return plan(stage, "full", "FROM cove://host\nRUN dd if=/dev/zero of=/f bs=1M count=90 2>/dev/null && test $(stat -c %s /f) -eq 94371840\n", limits={"diskMB": 64})
    stage.control_weak("disk", attack, lambda reply: reply.status == 201)
    before = stage.cove.get("/v1/templates").json["items"]
    reply = attack(stage)
    c.same((reply.status, reply.json["reason"]), (400, "build_failed"), "I-54g: it ends at the limit")
    c.same([t["name"] for t in stage.cove.get("/v1/templates").json["items"]], [t["name"] for t in before], "I-54g: no template is made")
    c.same([box for box in stage.cove.get("/v1/sandboxes").json["items"] if "cove/build" in box["labels"]], [], "I-54g: and no sandbox stays")


STORM = """import os, itertools
os.makedirs('/workspace/s', exist_ok=True); os.chdir('/workspace/s')
for d in 'ab':
    os.makedirs(d, exist_ok=True)
for i in range(100):
    open('a/%d' % i, 'w').write('%d' % i)
open('begun', 'w')
for at, to in itertools.cycle((('a', 'b'), ('b', 'a'))):
    for i in range(100):
        os.rename('%s/%d' % (at, i), '%s/%d' % (to, i))
"""
COUNT = "cd /workspace/s && ls a b | grep -E '^[0-9]+$' | sort | uniq -c | awk '{n[$1]++} END {for (k in n) print k, n[k]}'; cat a/* b/* 2>/dev/null | wc -c"


@row("I-54h", "a snapshot under renames and a fork bomb is of one moment, in a bounded time")
def storms(stage):
    box = stage.box(limits={"memoryMB": 256, "pids": 200})
    stage.cove.run(box, "python3 -c '1'")

    def begin(argv, **more):
        reply = stage.cove.request("POST", "/v1/sandboxes/%s/api/process/start" % box["id"], dict({"command": argv}, **more))
        c.ok(reply.status < 300, stage.name + ": it is started", reply)
    begin("python3 -c \"exec(__import__('base64').b64decode('%s'))\"" % base64.b64encode(STORM.encode()).decode())
    c.ok(c.until(lambda: stage.cove.run(box, "test -e /workspace/s/begun")["exitCode"] == 0, 60), "I-54h: files are renamed without end")

    def snapshot(name, where=stage):
        began = time.monotonic()
        reply = where.cove.post("/v1/sandboxes/%s/snapshot" % box["id"], {"name": name})
        return reply, time.monotonic() - began

    def count(name):
        made = stage.box(template=name)
        return stage.cove.out(made, COUNT)
    # Without a moment of its own a copy has some twice, and others not at all.
    torn = [stage.cove.out(box, "rm -rf /tmp/copy; cp -a /workspace/s /tmp/copy 2>/dev/null; cd /tmp/copy && ls a b | grep -cE '^[0-9]+$'").strip() for _ in range(20)]
    stage.twin(set(torn) != {"100"}, "a copy of the running sandbox is torn", torn)
    for i in range(3):
        reply, took = snapshot("storm")
        c.ok(reply.status == 201 and took < 60, "I-54h: a snapshot under renames", reply, took)
        c.same(count("storm").split("\n")[0], "1 100", "I-54h: has each file once")
        stage.cove.request("DELETE", "/v1/templates/storm")
    begin("bomb() { bomb | bomb & }; bomb")
    c.ok(c.until(lambda: stage.cove.get("/v1/sandboxes/" + box["id"]).json["usage"]["pids"] > 150, 60), "I-54h: and a fork bomb goes off")
    reply, took = snapshot("bombed")
    c.ok(reply.status == 201 and took < 60, "I-54h: a snapshot under a fork bomb", reply, took)
    c.same(count("bombed").split("\n")[0], "1 100", "I-54h: has each file once, too")
    stage.cove.request("DELETE", "/v1/templates/bombed")


@row("I-54i", "links that race on a shared volume lead no request of another sandbox out of it")
def races(stage):
    path = "/tmp/cove-sentinel-%d" % os.getpid()
    text = "sentinel-" + os.urandom(12).hex()
    with open(path, "w") as file:
        file.write(text)
    c.same(stage.cove.post("/v1/volumes", {"name": "shared", "sizeMB": 64}).status, 201, "I-54i: a volume")
    mounts = [{"name": "shared", "path": "/shared"}]
    evil, good = stage.box(volumes=mounts), stage.box(volumes=mounts)
    other = stage.box()
    stage.cove.run(good, "mkdir -p /inner && echo of-good >/inner/f")
    stage.cove.run(evil, "mkdir -p /inner && echo of-evil >/inner/f")
    stage.cove.run(other, "true")
    race = """import os
os.chdir('/shared'); os.makedirs('real', exist_ok=True); open('real/f', 'w').write('real'); open('begun', 'w')
links = ['/inner', '../inner', '/proc/1/root/inner', '/proc/1/root', '/proc/self/root', '../../../../..', '/proc/1/cwd', '/proc/2/root/tmp']
while True:
    for to in links:
        os.symlink(to, 'new'); os.rename('new', 'd'); os.unlink('d'); os.mkdir('d'); open('d/f', 'w').write('real'); os.unlink('d/f'); os.rmdir('d')
"""
    reply = stage.cove.request("POST", "/v1/sandboxes/%s/api/process/start" % evil["id"],
                               {"command": "python3 -c \"exec(__import__('base64').b64decode('%s'))\"" % base64.b64encode(race.encode()).decode()})
    c.ok(reply.status < 300 and c.until(lambda: stage.cove.run(good, "test -e /shared/begun")["exitCode"] == 0, 60), "I-54i: one sandbox swaps directory and links")
    seen, wrote = set(), 0
    api = "/v1/sandboxes/%s/api/" % good["id"]
    for i in range(150):
        for at in ("/shared/d/f", "/shared/d" + path, "/shared/d/tmp/" + os.path.basename(path)):
            reply = stage.cove.request("POST", api + "read", {"path": at})
            seen.add((reply.json or {}).get("content", "").strip() if reply.status == 200 else str(reply.status))
        reply = stage.cove.request("POST", api + "write", {"path": "/shared/d" + path, "content": "evil"})
        wrote += reply.status == 200
    stage.twin("of-good" in seen or "404" in seen, "requests do meet the links: some lead within the own root", seen)
    c.ok(not any(text in word for word in seen) and "of-evil" not in seen, "I-54i: nothing of the host, nothing of the other sandbox is read", seen)
    with open(path) as file:
        c.same(file.read(), text, "I-54i: nor is the host's file written (%d writes went somewhere of its own)" % wrote)
    for one in (evil, good):
        stage.cove.delete(one)
        stage.boxes.remove(one)
    c.ok(c.until(lambda: stage.cove.request("DELETE", "/v1/volumes/shared").status == 204, 30), "I-54i: the volume is removed")
    os.unlink(path)


play()
