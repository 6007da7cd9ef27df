#!/usr/bin/env python3
"""cove sync: a worktree and its sandbox. Rows are named by the requirement that they prove; R36 has a server between that sends
archives of a hostile sandbox."""
import hashlib
import http.client
import http.server
import io
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("git")
HOME = tempfile.mkdtemp(prefix="cove-sync-")
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": HOME, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t",
       "GIT_COMMITTER_EMAIL": "t@t"}


def git(work, *words):
    return subprocess.run(["git", *words], cwd=work, env=dict(os.environ, **GIT), check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE).stdout


def put(work, name, content=b"", mode=0o644):
    path = os.path.join(os.fsencode(work), os.fsencode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.islink(path) or os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    os.chmod(path, mode)


def repository(name, files=()):
    work = os.path.join(HOME, name)
    os.makedirs(work)
    git(work, "init", "-q")
    for each in files:
        put(work, *each)
    git(work, "add", "-A")
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    return work


def tree(work):
    """Files and links: type, mode and content, by name; without .git."""
    found = {}
    for top, dirs, names in os.walk(os.fsencode(work)):
        if b".git" in dirs:
            dirs.remove(b".git")
        for name in names + [d for d in dirs if os.path.islink(os.path.join(top, d))]:
            path = os.path.join(top, name)
            info = os.lstat(path)
            rel = os.path.relpath(path, os.fsencode(work))
            if stat.S_ISLNK(info.st_mode):
                found[rel] = ("link", os.readlink(path))
            elif stat.S_ISREG(info.st_mode) and rel != b".git":
                found[rel] = (info.st_mode & 0o777, open(path, "rb").read())
    return found


def inside(cove, box):
    """The same of /workspace, as a tar tells it."""
    reply = cove.get("/v1/sandboxes/%s/api/tar?path=/workspace&exclude=.git" % box)
    found = {}
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as archive:
        for member in archive:
            name = os.fsencode(member.name)
            if member.issym():
                found[name] = ("link", os.fsencode(member.linkname))
            elif member.isfile() or member.islnk():
                found[name] = (member.mode & 0o777, archive.extractfile(member).read())
    return found


def less(found, *names):
    return {k: v for k, v in found.items() if k not in names}


class Sync:
    """The verbs in one worktree."""

    def __init__(self, cove, work, **env):
        self.cli, self.cove, self.work = c.Cli(cove.data, cwd=work, HOME=HOME, **env), cove, work

    def __call__(self, *words, **kw):
        return self.cli("sync", *words, **kw)

    def run(self, *words):
        got = self(words[0], "--json", *words[1:])
        self.events = [json.loads(line) for line in got.text.splitlines() if line.startswith("{\"")]
        done = [e for e in self.events if e.get("event") == "done"]
        self.counts = (done[0]["filesChanged"], done[0]["filesDeleted"]) if done else None
        self.id = next((e["sandbox"] for e in self.events if e.get("event") == "id"), None)
        return got

    def both(self, name, *in_words):
        """In, and whether both trees are equal."""
        got = self.run("in", *in_words)
        return c.ok(got.returncode == 0 and inside(self.cove, self.id) == tree(self.work), name, got, diff(inside(self.cove, self.id),
                    tree(self.work)) if self.id else "")

    def sh(self, line):
        got = self.cove.run(self.id, "cd /workspace && " + line)
        if got["exitCode"]:
            raise RuntimeError("%s: %r" % (line, got))
        return got["stdout"]


def diff(a, b):
    return {k: (a.get(k), b.get(k)) for k in set(a) | set(b) if a.get(k) != b.get(k)}


def first(cove):
    work = repository("first", [("src/a.c", b"int a;\n"), ("run.sh", b"#!/bin/sh\n", 0o755), (".gitignore", b"*.log\n.env\nbuild/\n"),
                                ("bin", bytes(range(256)) * 5000)])
    os.symlink("src/a.c", work + "/link")
    put(work, "force.log", b"tracked though ignored")
    git(work, "add", "-f", "force.log")
    put(work, ".env", b"SECRET=1")
    put(work, "build/x.o", b"object")
    put(work, "new.txt", b"untracked", 0o640)
    put(work, "src/a.c", b"int a = 1;\n")
    os.makedirs(work + "/nested/.git")
    put(work, "nested/file", b"nested")
    os.mkfifo(work + "/pipe")
    sync = Sync(cove, work)
    got = sync.run("in")
    c.ok(got.returncode == 0 and sync.counts == (8, 0), "R9 the first sync sends everything", got)
    want = less(tree(work), b".env", b"build/x.o")
    c.same(diff(inside(cove, sync.id), want), {}, "R9 trees are equal, without what git ignores, with a tracked file that it ignores")
    c.ok({"event": "special", "path": "pipe"} in sync.events and {"event": "nested_repository", "path": "nested/.git"} in sync.events,
         "5.1 a FIFO and the .git of a nested repository stay, and are named", sync.events)
    c.ok(sync.sh("git remote -v; git rev-list --count HEAD; cat .git/objects/info/alternates 2>/dev/null || true") == "1\n" and
         sync.sh("grep -rlF %s . || true; env | grep -F %s || true" % (HOME, HOME)) == "", "R10 a repository of its own, no host path")
    c.same(sync.sh("git status --porcelain"), "", "R15 git status is clean inside")
    os.unlink(work + "/pipe")
    shutil.rmtree(work + "/nested")
    one = sync.id
    sub = Sync(cove, work + "/src")
    c.ok(sub.run("in").returncode == 0 and sub.id == one and sub.counts == (0, 1), "R7 the same sandbox from a subdirectory", sub.id, one, sub.events)
    return sync


def later(cove, sync):
    work, ignored = sync.work, (b".env", b"build/x.o")

    def equal(name, counts):
        got = sync.run("in")
        want = less(tree(work), *ignored)
        c.ok(got.returncode == 0 and inside(cove, sync.id) == want and sync.counts == counts, name, got, sync.counts, diff(inside(cove, sync.id), want))
        c.same(sync.sh("git status --porcelain"), "", "R15 clean after: " + name)
    put(work, "src/b.c", b"int b;\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "two")
    equal("R11 files that were committed on the host", (1, 0))
    git(work, "checkout", "-q", "-b", "other", "HEAD^")
    equal("R11 a branch switch", (1, 4))
    git(work, "checkout", "-q", "-")
    put(work, "src/a.c", b"edited\n")
    equal("R11 an edit", (5, 0))
    git(work, "checkout", "src/a.c")
    equal("R11 an edit that is reverted to HEAD", (1, 0))
    put(work, "once", b"1")
    equal("R11 an untracked file", (1, 0))
    os.unlink(work + "/once")
    equal("R11 its deletion", (0, 1))
    equal("R39 nothing changed", (0, 0))
    os.rename(work + "/src", work + "/lib")
    put(work, "bin", b"smaller")
    os.chmod(work + "/run.sh", 0o700)
    equal("R13 a renamed directory, a mode", (4, 2))
    shutil.rmtree(work + "/lib")
    put(work, "lib", b"now a file")
    os.unlink(work + "/link")
    put(work, "link/deep/er", b"now a directory")
    equal("R13 a directory becomes a file, a link a directory", (2, 3))
    names = [b"--checkpoint-action=exec=touch pwned", b"a\nb", b"sp ace 'q\" $(id)", b"\xff\xfe raw", b"-rf", b"x" * 255, b"d/\xe9t\xe9",
             b"a" * 120 + b"/" + b"b" * 120 + b"/\xffz", b"git~1", b"\\back", b"tab\there"]
    for name in names:
        put(work, name, b"odd " + name)
    equal("R14 names are bytes", (len(names), 0))
    for name in names:
        os.unlink(os.path.join(os.fsencode(work), name))
    equal("R14 and are deleted by bytes", (0, len(names)))
    put(work, "big", b"")
    os.truncate(work + "/big", (100 << 20) + 1)
    got = sync.run("in")
    c.ok(got.returncode == 2 and "'big'" in got.err, "R16 a file over the limit is refused and named", got)
    os.truncate(work + "/big", 1 << 20)
    got = sync.run("in", "--max-file", "512k")
    c.ok(got.returncode == 2 and "'big'" in got.err, "R16 the limit is an option", got)
    got = sync.run("in", "--max-files", "2")
    c.ok(got.returncode == 2 and "is one too many" in got.err, "R16 and that of files", got)
    os.unlink(work + "/big")


def out(cove, sync):
    work = sync.work
    sync.run("in")
    sync.sh("echo agent >> run.sh; mkdir -p new/dir; echo hi > new/dir/f; ln -s f new/dir/l; rm bin; chmod 600 new.txt; git mv lib moved;"
            "git add -A; git -c user.name=a -c user.email=a@a commit -q -m agent; mkdir build; echo o > build/y.o; echo no > .env;"
            "printf x > \"$(printf 'odd\\nname')\"; mkdir inner; git init -q inner; echo i > inner/i")
    got = sync.run("out")
    c.ok(got.returncode == 0 and sync.counts == (7, 2), "R34 R35 committed work, new files, links, modes, renames and deletions come back", got, sync.events)
    want = less(inside(cove, sync.id), b"build/y.o", b".env")
    c.same(diff(less(tree(work), b".env", b"build/x.o"), want), {}, "R35 trees are equal")
    c.ok(open(work + "/.env").read() == "SECRET=1" and not os.path.exists(work + "/build/y.o"), "5.11 ignored files stay on their side")
    c.ok({"event": "left_out", "path": "inner/.git/"} in sync.events and not os.path.exists(work + "/inner/.git"), "5.2 a nested .git is left out and told", sync.events)
    got = sync.run("out")
    c.ok(got.returncode == 0 and sync.counts == (0, 0), "R39 nothing changed is 0/0", got)
    got = sync.run("in")
    c.ok(got.returncode == 0 and sync.counts == (0, 0), "5.3 in after out has nothing to do", got)
    sync.sh("rm force.log; echo changed > link/deep/er")
    c.ok(sync.run("out").returncode == 0 and sync.counts == (1, 1) and not os.path.exists(work + "/force.log"), "R13 a tracked file that git ignores is deleted too", sync.events)
    sync.sh("rm -r link; ln -s moved link; rm moved; mkdir moved; echo 1 > moved/one")
    c.ok(sync.run("out").returncode == 0 and os.readlink(work + "/link") == "moved" and os.listdir(work + "/moved") == ["one"],
         "R13 types change on the way out", sync.events)


def conflicts(cove, sync):
    work = sync.work
    put(work, "both", b"base")
    put(work, "mine", b"base")
    put(work, "theirs", b"base")
    sync.run("in")
    sync.sh("echo box > both; echo box > theirs; echo n > fresh")
    put(work, "both", b"host")
    put(work, "mine", b"host")
    before = tree(work), inside(cove, sync.id)
    for way in ("in", "out"):
        got = sync.run(way)
        c.ok(got.returncode == 2 and {"event": "conflict", "path": "both"} in sync.events and
             len([e for e in sync.events if e["event"] == "conflict"]) == 1 and (tree(work), inside(cove, sync.id)) == before,
             "R38 sync %s names the conflict and changes neither side" % way, got)
    got = sync("status", "--json").text
    state = json.loads(got)
    c.ok(state["conflicts"] == [{"path": "both"}] and state["in"]["filesChanged"] == 1 and state["out"]["filesChanged"] == 2, "status tells it", got)
    c.ok(sync.run("out", "--ours").returncode == 0 and open(work + "/both").read() == "host" and open(work + "/theirs").read() == "box\n",
         "R38 --ours keeps the host's file, and brings the others", sync.events)
    c.ok(sync.run("in").returncode == 0 and inside(cove, sync.id)[b"both"][1] == b"host", "R38 which the next sync in sends", sync.events)
    sync.sh("echo box2 > both")
    put(work, "both", b"host2")
    c.ok(sync.run("out", "--theirs").returncode == 0 and open(work + "/both").read() == "box2\n", "R38 --theirs takes the sandbox's", sync.events)
    put(work, ".env", b"SECRET=2")
    sync.sh("sed -i /env/d .gitignore; echo leaked > .env")
    before = tree(work)
    got = sync.run("out")
    c.ok(got.returncode == 2 and ".env" in got.err and tree(work) == before, "5.11 a file that never travelled is a conflict", got)
    sync.sh("rm .env")
    c.ok(sync.run("out").returncode == 0 and b".env" not in open(work + "/.gitignore", "rb").read(), "and without it the rest comes", sync.events)
    os.unlink(work + "/.env")
    sync.run("in")
    sync.sh("chmod 000 mine; echo stray > stray")
    got = sync("in", "--full")
    c.ok(got.returncode == 0 and "stray" not in sync.sh("ls"), "R12 --full removes what the host does not have", got)


def restarts(cove, sync):
    one = sync.id
    put(sync.work, "restart", b"1")
    cove.stop(number=signal.SIGTERM)
    cove.start()
    c.ok(sync.run("in").returncode == 0 and sync.id == one and sync.counts == (1, 0), "R2 R12 the manifest survives a restart", sync.events)
    cove.request("PUT", "/v1/sandboxes/%s/sync" % one, b"cove-sync 1\0junk", raw=True)
    got = sync.run("in")
    c.ok(got.returncode == 2 and "manifest" in got.err, "an invalid manifest is an error", got)
    cove.request("PUT", "/v1/sandboxes/%s/sync" % one, b"cove-sync 1\0m\0/elsewhere\0-\0-\0", raw=True)
    c.ok(sync.run("in").returncode == 2, "a sandbox of another worktree is refused")
    cove.delete(one)
    c.same(cove.get("/v1/sandboxes/%s/sync" % one).status, 404, "the manifest goes with its sandbox")
    c.ok(sync.run("out").returncode == 2, "sync out without a sandbox is an error")
    c.ok(sync.run("in").returncode == 0 and sync.id != one, "pair 9 a sandbox that is gone is made again", sync.events)
    c.same(diff(inside(cove, sync.id), less(tree(sync.work), b".env", b"build/x.o")), {}, "pair 9 with a full sync")


def many(cove):
    work = repository("many", [("a", b"1")])
    syncs = [Sync(cove, work).cli.popen("sync", "in", "--json") for _ in range(10)]
    done = [child.communicate() + (child.returncode,) for child in syncs]
    ids = {json.loads(out.splitlines()[0])["sandbox"] for out, _, _ in done}
    c.ok(len(ids) == 1 and all(status == 0 for _, _, status in done), "R4 ten at once have one sandbox", done)
    other = repository("other", [("a", b"1")])
    bad = os.path.join(HOME, "roots")
    os.mkdir(bad)
    os.symlink(other, bad + "/out")
    count = len(cove.get("/v1/sandboxes").json["items"])
    for words, env in ((("--worktree", "/"), {}), (("--worktree", bad + "/../other"), {"COVE_AGENT_ROOTS": bad}),
                       (("--worktree", bad + "/out"), {"COVE_AGENT_ROOTS": bad}), (("--worktree", HOME + "/nonesuch"), {})):
        got = Sync(cove, work, **env)("in", *words)
        c.ok(got.returncode == 2 and len(cove.get("/v1/sandboxes").json["items"]) == count, "R8 refused: %s" % words[1].replace(HOME, "~"), got)
    c.ok(Sync(cove, work, COVE_AGENT_ROOTS=HOME)("in").returncode == 0, "R8 a worktree beneath a root is taken")
    gone, dirty = Sync(cove, repository("gone", [("a", b"1")])), Sync(cove, repository("dirty", [("a", b"1")]))
    for sync in (gone, dirty):
        sync.run("in")
    dirty.sh("echo work > b")
    for sync in (gone, dirty):
        shutil.rmtree(sync.work)
    got = Sync(cove, work)("gc")
    left = {box["id"] for box in cove.get("/v1/sandboxes").json["items"]}
    c.ok(got.returncode == 0 and gone.id not in left and dirty.id in left and ids <= left and dirty.id in got.err,
         "R5 gc removes the sandbox of a worktree that is gone; one with work is kept and named", got)
    got = Sync(cove, work)("gc", "--force")
    left = {box["id"] for box in cove.get("/v1/sandboxes").json["items"]}
    c.ok(got.returncode == 0 and dirty.id not in left and ids <= left, "5.5 gc --force takes it", got)


class Between(http.server.ThreadingHTTPServer):
    """A server between, which answers some requests itself."""

    def __init__(self, cove):
        self.cove, self.archive, self.status, self.listing, self.contents = cove, None, None, None, []
        between = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else b""
                while self.headers.get("Transfer-Encoding"):
                    size = int(self.rfile.readline(), 16)
                    body += self.rfile.read(size)
                    self.rfile.readline()
                    if not size:
                        break
                if self.command == "GET" and "/api/tar" in self.path and "stats=true" not in self.path:
                    between.contents.append(self.path.partition("/api/tar")[2])
                if between.listing == "old" and "stats=true" in self.path:
                    return self.answer(501, b'{"code": "NOT_OFFERED", "message": "old", "reason": "old_box"}')
                if between.listing is not None and self.command == "GET" and "stats=true" in self.path:
                    return self.answer(200, between.listing)
                if between.archive is not None and self.command == "GET" and "/api/tar" in self.path:
                    return self.answer(200, between.archive)
                if between.status and self.path.startswith("/v1/sandboxes"):
                    return self.answer(between.status, json.dumps({"code": "UNAVAILABLE", "message": "no", "reason": "starting"}).encode())
                kind = self.headers.get("Content-Type")
                reply = between.cove.request(self.command, self.path, body or None, {"Content-Type": kind} if kind else None, raw=True)
                self.answer(reply.status, reply.body)

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = handle_any

            def log_message(self, *_):
                pass
        super().__init__(("127.0.0.1", 0), Handler)
        self.handle_error = lambda *_: None  # a client that goes in the middle of an answer
        threading.Thread(target=self.serve_forever, daemon=True).start()


def archive(*members):
    room = io.BytesIO()
    with tarfile.open(fileobj=room, mode="w") as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname, content = content, b""
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return room.getvalue()


def hostile(cove):
    work = repository("hostile", [("keep", b"base"), ("sub/file", b"base")])
    sync = Sync(cove, work)
    sync.run("in")
    between = Between(cove)
    through = Sync(cove, work, COVE_URL="http://127.0.0.1:%d" % between.server_address[1], COVE_TOKEN=cove.key)
    outside = os.path.join(HOME, "outside")
    os.mkdir(outside)
    put(outside, "victim", b"whole")
    good = [("keep", tarfile.REGTYPE, b"evil"), ("sub/file", tarfile.REGTYPE, b"base")]
    put(work, ".git/hooks/mine", b"hook")
    before = tree(work), tree(outside), sorted(os.listdir(work + "/.git/hooks"))
    for name, members in (
            ("..", [("../outside/victim", tarfile.REGTYPE, b"x")]), ("a path with ..", [("sub/../../outside/new", tarfile.REGTYPE, b"x")]),
            ("an absolute name", [("/" + outside.strip("/") + "/new", tarfile.REGTYPE, b"x")]), ("a device", [("dev", tarfile.CHRTYPE, b"")]),
            ("a FIFO", [("fifo", tarfile.FIFOTYPE, b"")]), ("a file beneath a link", [("d", tarfile.SYMTYPE, outside), ("d/victim", tarfile.REGTYPE, b"x")]),
            ("a name twice", [("twice", tarfile.REGTYPE, b"1"), ("twice", tarfile.REGTYPE, b"2")]),
            ("a hard link to elsewhere", [("hard", tarfile.LNKTYPE, outside + "/victim")])):
        between.archive = archive(*(good + members))
        got = through.run("out")
        c.ok(got.returncode == 2 and (tree(work), tree(outside), sorted(os.listdir(work + "/.git/hooks"))) == before,
             "R36 %s: exit 2, host untouched" % name, got)
    between.archive = archive(*good)[:700]
    got = through.run("out")
    c.ok(got.returncode == 2 and tree(work) == before[0], "R37 an archive that is cut off: worktree unchanged", got)
    between.archive = archive(*(good + [(".git/hooks/post-checkout", tarfile.REGTYPE, b"x"), (".GIT/config", tarfile.REGTYPE, b"x")]))
    os.rename(work + "/sub", work + "/sub.real")
    os.symlink(outside, work + "/sub")
    before = tree(work), tree(outside), sorted(os.listdir(work + "/.git/hooks"))
    between.archive = archive(("keep", tarfile.REGTYPE, b"base"), ("sub/file", tarfile.REGTYPE, b"base"), ("sub/new", tarfile.REGTYPE, b"x"))
    got = through.run("out")
    c.ok(got.returncode == 2 and (tree(work), tree(outside)) == before[:2], "R36 a link of the host is not followed", got)
    os.unlink(work + "/sub")
    os.rename(work + "/sub.real", work + "/sub")
    between.archive = archive(*(good + [(".git/hooks/post-checkout", tarfile.REGTYPE, b"x"), (".GIT/config", tarfile.REGTYPE, b"x")]))
    got = through.run("out")
    c.ok(got.returncode == 0 and through.counts == (1, 0) and sorted(os.listdir(work + "/.git/hooks")) == before[2] and
         sorted(os.listdir(work)) == [".git", "keep", "sub"] and open(work + "/keep").read() == "evil", "R36 what is in .git stays there", got)
    before = tree(work), tree(outside)
    start, entry = b"stats 1000\0", b"f 420 4 1 1 1 %s\0"
    for name, text in (("a path with ..", start + entry % b"sub/../../outside/new"), ("an absolute name", start + entry % b"/new"),
                       ("a name twice", start + 2 * (entry % b"twice")), ("a cut record", start + b"f 420 4 1"),
                       ("no target", start + b"l 511 1 1 1 1 link\0"), ("an endless record", start + entry % (b"x" * 9000)),
                       ("an unknown type", start + b"x 420 4 1 1 1 new\0"), ("a bad number", start + b"f 420 -4 1 1 1 new\0"),
                       ("a huge file", start + b"f 420 999999999999 1 1 1 new\0"), ("no time", b"stats \0")):
        between.archive, between.listing = None, text
        got = through.run("out")
        c.ok(got.returncode == 2 and (tree(work), tree(outside)) == before, "R36 a list with %s: exit 2, host untouched" % name, got)
    between.archive, between.listing, between.status = None, None, 503
    count = len(cove.get("/v1/sandboxes").json["items"])
    got = through.run("in")
    c.ok(got.returncode == 2 and len(cove.get("/v1/sandboxes").json["items"]) == count, "R3 a failed lookup is an error, and makes nothing", got)
    between.shutdown()
    between.server_close()


def all_or_nothing(cove):
    work = repository("whole", [("a", b"1"), ("locked/x", b"1"), ("z", b"1")])
    put(work, "locked/ignored/.gitignore", b"*\n")
    sync = Sync(cove, work)
    sync.run("in")
    sync.sh("echo 2 > a; rm z; mkdir -p more/dirs; echo n > more/dirs/n; rm -r locked; echo 2 > locked")
    before = tree(work)
    got = sync.run("out")
    c.ok(got.returncode == 2 and "'locked'" in got.err and tree(work) == before and not os.path.exists(work + "/more") and
         not [n for n in os.listdir(work) if n.startswith(".cove-sync")], "R37 what cannot be placed undoes all", got)
    c.ok("cove sync out" in got.err or "hint" in got.err, "R37 how to go on is told", got)
    shutil.rmtree(work + "/locked/ignored")
    c.ok(sync.run("out").returncode == 0 and tree(work)[b"locked"][1] == b"2\n" and b"z" not in tree(work), "R37 the retry works", sync.events)
    ran = os.path.join(HOME, "ran")
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external", "filter.x.clean", "filter.x.smudge",
                "credential.helper", "core.gitProxy", "uploadpack.packObjectsHook"):
        git(work, "config", key, "touch " + ran)
    put(work, ".gitattributes", b"* filter=x diff=x\n")
    for hook in ("pre-commit", "post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
        put(work, ".git/hooks/" + hook, b"#!/bin/sh\ntouch %s\n" % ran.encode(), 0o755)
    put(work, "a", b"3")
    sync.run("in")
    sync.sh("echo 4 > a")
    c.ok(sync.run("out").returncode == 0 and open(work + "/a").read() == "4\n" and not os.path.exists(ran), "5.2 nothing of the repository's configuration runs")
    excludes = os.path.join(HOME, "my-excludes")
    put(HOME, "my-excludes", b"private*\n")
    put(HOME, ".gitconfig", b"[core]\n\texcludesFile = ~/my-excludes\n")
    put(work, "private.key", b"k")
    put(work, ".git/info/exclude", b"local\n")
    put(work, "local", b"l")
    c.ok(sync.run("in").returncode == 0 and not {b"private.key", b"local"} & set(inside(cove, sync.id)), "R9 the user's own exclude files hold", sync.events)
    os.unlink(os.path.join(HOME, ".gitconfig"))
    os.unlink(excludes)
    linked = os.path.join(HOME, "linked")
    git(work, "worktree", "add", "-q", linked, "HEAD")
    two = Sync(cove, linked)
    c.ok(two.run("in").returncode == 0 and two.id != sync.id and inside(cove, two.id) == less(tree(linked), b".git"), "a linked worktree has a sandbox of its own", two.events)


def overtaken(cove):
    """The client of a sync in is gone, and the sandbox still unpacks what it sent."""
    work = repository("overtaken", [("f", b"0" * 30000)])
    sync = Sync(cove, work)
    sync.run("in")
    state = cove.get("/v1/sandboxes/%s/sync" % sync.id).body
    put(work, "f", b"1" * 30000)
    row = b"f %d 30000 %s 0 0 f\0" % (0o644, hashlib.sha256(b"1" * 30000).hexdigest().encode())
    cove.request("PUT", "/v1/sandboxes/%s/sync" % sync.id, state.rsplit(b"\0", 3)[0] + b"\0001\0" + row + b"\0", raw=True)
    sent = archive(("f", tarfile.REGTYPE, b"1" * 30000))
    old = http.client.HTTPConnection("127.0.0.1", cove.port)
    old.putrequest("PUT", "/v1/sandboxes/%s/api/tar?path=/workspace&sync=true" % sync.id)
    old.putheader("Authorization", "Bearer " + cove.key)
    old.putheader("Content-Length", str(len(sent)))
    old.endheaders()
    old.send(sent[:100])
    new = sync.cli.popen("sync", "in", "--json")
    try:
        new.wait(1)
    except subprocess.TimeoutExpired:
        pass
    old.send(sent[100:20000])
    old.close()
    got = new.communicate()
    c.ok(new.returncode == 0 and inside(cove, sync.id) == tree(work), "R17 sync in waits for what a client that is gone has sent", new.returncode, got,
         list(diff(inside(cove, sync.id), tree(work))))


def read_by(sync):
    """Bytes that one sync in reads."""
    child = sync.cli.popen("sync", "in", "--quiet")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    moved = int([l for l in open("/proc/%d/io" % child.pid) if l.startswith("rchar")][0].split()[1])
    child.communicate()
    return moved if child.returncode == 0 else None


def stamps(cove, box):
    """Those of the host and of the sandbox, by path."""
    state = cove.get("/v1/sandboxes/%s/sync" % box).body.split(b"\0")
    rows = [row.split(b" ", 6) for row in state[4:4 + int(state[3])]]
    return {row[6]: (row[4] != b"0", row[5] != b"0") for row in rows}


def unread(cove):
    """A file with the times of the last sync is not read; each other one is."""
    work = repository("unread", [("d/f%02d" % i, os.urandom(100000)) for i in range(80)] + [("host", b"AAAA"), ("box", b"AAAA")])
    between = Between(cove)
    sync = Sync(cove, work)
    through = Sync(cove, work, COVE_URL="http://127.0.0.1:%d" % between.server_address[1], COVE_TOKEN=cove.key)
    sync.run("in")
    c.ok(all(box for _, box in stamps(cove, sync.id).values()), "R11 a first sync knows the sandbox's files from then on", stamps(cove, sync.id))
    c.ok(c.until(lambda: sync.run("in").returncode == 0 and all(host for host, _ in stamps(cove, sync.id).values()), 20),
         "R11 files of the host are known when they are no longer fresh")
    moved = read_by(sync)
    c.ok(moved is not None and moved < 4_000_000, "R11 a sync without changes reads no file of the host", moved)
    c.ok(through.run("in").returncode == 0 and through.counts == (0, 0) and not between.contents, "R11 and none of the sandbox", between.contents)
    info = os.stat(work + "/host")
    with open(work + "/host", "r+b") as file:
        file.write(b"BBBB")
    os.utime(work + "/host", ns=(info.st_atime_ns, info.st_mtime_ns))
    sync.sh("touch -r box /tmp/t; printf BBBB > box; touch -r /tmp/t box")
    got = sync.run("out")
    c.ok(got.returncode == 0 and sync.counts == (1, 0) and open(work + "/box").read() == "BBBB", "R35 a change in the sandbox whose time was set back comes back", got)
    sync.both("R11 and one of the host travels")
    c.ok(sync.counts == (1, 0) and not stamps(cove, sync.id)[b"host"][0], "R11 a fresh file of the host is read by the next sync, too", sync.counts)
    c.same(sync.sh("git status --porcelain"), "", "R15 clean after it")
    sync.sh("git rm -q --cached box")
    c.ok(sync.run("in").returncode == 0 and sync.counts == (0, 0) and sync.sh("git status --porcelain") == "", "R15 clean when only the index had changed")
    sync.sh("i=0; while :; do i=$((i + 1)); printf %08d $i > spin; done >/dev/null 2>&1 & echo $! > /tmp/pid")
    for _ in range(5):
        sync.run("out")
    sync.sh("kill $(cat /tmp/pid); while kill -0 $(cat /tmp/pid) 2>/dev/null; do :; done")
    got = sync.run("out")
    c.ok(got.returncode == 0 and inside(cove, sync.id) == tree(work), "R35 a file that changes all the time is right in the end", got)
    between.listing = "old"
    between.contents.clear()
    put(work, "host", b"newer")
    c.ok(through.run("in").returncode == 0 and through.counts == (1, 0) and len(between.contents) == 1 and inside(cove, sync.id) == tree(work),
         "R11 a sandbox of an older cove, which has no lists, is read as a whole", through.events, between.contents)
    small = repository("fresh", [("keep", b"base")])
    sync = Sync(cove, small)
    through = Sync(cove, small, COVE_URL=through.cli.env["COVE_URL"], COVE_TOKEN=cove.key)
    sync.run("in")
    for changed, wanted in ((1000, (1, 1)), (999, (1, 0))):
        between.listing, fetched = b"stats 1000\0f 420 4 5 %d 7 keep\0" % changed, []
        for _ in range(2):
            between.contents.clear()
            c.ok(through.run("in").returncode == 0, "a list of the same file")
            fetched.append(len(between.contents))
        c.same(tuple(fetched), wanted, "R35 a file that changed %s is read %s" % (("in the tick of the list", "again") if changed == 1000 else ("before it", "once")))
    between.shutdown()
    between.server_close()


def killed(cove):
    work = repository("killed", [("f%03d" % i, os.urandom(30000)) for i in range(60)])
    sync = Sync(cove, work)
    sync.run("in")
    rounds = 4 if c.SHORT else 12
    interrupted = 0
    for i in range(rounds):
        for j in range(60):
            put(work, "f%03d" % j, os.urandom(30000 + i))
        put(work, "n%d" % i, b"new")
        if i:
            os.unlink(work + "/n%d" % (i - 1))
        child = sync.cli.popen("sync", "in")
        child.stderr.readline()
        while child.poll() is None:  # killed when it has read so much of the worktree
            try:
                moved = int([l for l in open("/proc/%d/io" % child.pid) if l.startswith("rchar")][0].split()[1])
            except OSError:
                break
            if moved > (i + 1) * 5_000_000 / rounds + 200_000:
                child.kill()
        child.communicate()
        interrupted += child.returncode == -9
        got = sync.run("in")
        if not c.ok(got.returncode == 0 and inside(cove, sync.id) == tree(work), "R17 sync in completes one that was killed (%d)" % i, got,
                    list(diff(inside(cove, sync.id), tree(work)))):
            break
    c.ok(interrupted >= rounds // 2, "R17 most of them were killed in the middle", interrupted)
    for i in range(rounds // 2):
        sync.sh("for f in f*; do head -c 30000 /dev/urandom > $f; done; echo %d > out%d; rm -f out%d" % (i, i, i - 1))
        child = sync.cli.popen("sync", "out")
        child.stderr.readline()
        while child.poll() is None:
            if [n for n in os.listdir(work) if n.startswith(".cove-sync")]:
                child.kill()
        child.communicate()
        got = sync.run("out")
        if not c.ok(got.returncode == 0 and inside(cove, sync.id) == tree(work), "R37 sync out completes one that was killed (%d)" % i, got,
                    list(diff(inside(cove, sync.id), tree(work)))):
            break


def main():
    cove = c.Cove()
    try:
        sync = first(cove)
        later(cove, sync)
        out(cove, sync)
        conflicts(cove, sync)
        restarts(cove, sync)
        many(cove)
        hostile(cove)
        all_or_nothing(cove)
        overtaken(cove)
        unread(cove)
        killed(cove)
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
