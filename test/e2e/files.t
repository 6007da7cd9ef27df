#!/usr/bin/env python3
"""Files: every operation, every answer, every refusal, and files that are not regular."""
import base64
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


class Files:
    """The routes of one sandbox."""

    def __init__(self, cove, box):
        self.cove, self.box, self.at = cove, box, "/v1/sandboxes/%s/api/" % box["id"]

    def ask(self, verb, **body):
        return self.cove.post(self.at + verb, body)

    def good(self, verb, **body):
        reply = self.ask(verb, **body)
        if reply.status != 200:
            raise RuntimeError("%s %r: %r" % (verb, body, reply))
        return reply.json

    def fails(self, want, name, verb, **body):
        """`want`: status, code and, if given, fields of the context."""
        reply = self.ask(verb, **body)
        answer = reply.json
        context = answer.get("context")
        ok = (reply.status, answer.get("code"), answer.get("httpStatus")) == \
            (want[0], want[1], want[0]) and isinstance(context, dict)
        for key, value in (want[2] if len(want) > 2 else {}).items():
            ok = ok and context.get(key) == value
        return c.ok(ok, name, "want %r" % (want,), reply)

    def out(self, command):
        return self.cove.out(self.box, command, sessionId="__DISABLE_SESSION__")

    def raw(self, method, path, body=None, **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.cove.request(method, self.at + "files/" + path, body, headers, raw=True)


def write_and_read(f):
    answer = f.good("write", path="/workspace/a/b/note.txt", content="grüße\n\0\x7f")
    c.ok(answer["success"] and answer["path"] == "/workspace/a/b/note.txt" and
         answer["timestamp"].endswith("Z"), "write makes the directories and says so", answer)
    answer = f.good("read", path="/workspace/a/b/note.txt")
    timestamp = answer.pop("timestamp")
    c.same(answer, {"success": True, "path": "/workspace/a/b/note.txt", "content": "grüße\n\0\x7f",
                    "encoding": "utf-8", "isBinary": False, "mimeType": "text/plain", "size": 10},
           "read gives back what was written, NUL and all")
    c.ok(timestamp.endswith("Z"), "with a time")
    raw = bytes(range(256)) * 3
    f.good("write", path="blob", content=base64.b64encode(raw).decode(), encoding="base64")
    c.same(f.out("stat -c %s /workspace/blob"), "768\n", "a relative path begins at /workspace")
    answer = f.good("read", path="blob")
    c.same((answer["encoding"], answer["isBinary"], answer["mimeType"], answer["size"],
            base64.b64decode(answer["content"])),
           ("base64", True, "application/octet-stream", 768, raw), "bytes come as base64")
    answer = f.good("read", path="/workspace/a/b/note.txt", encoding="base64")
    c.same((base64.b64decode(answer["content"]).decode(), answer["isBinary"]),
           ("grüße\n\0\x7f", True), "text as base64 when asked for")
    answer = f.good("read", path="blob", encoding="utf8")
    c.same((answer["encoding"], answer["content"][:3]), ("utf-8", "\0\1\2"), "bytes as text likewise")
    for encoding in ("utf-8", "utf8"):
        f.good("write", path="enc", content="ä", encoding=encoding)
    c.same(f.out("od -An -tx1 enc").split(), ["c3", "a4"], "both spellings of UTF-8 are known")
    f.good("write", path="unpadded", content="QQ", encoding="base64")
    c.same(f.out("cat unpadded"), "A", "padding may be missing")
    f.good("write", path="empty", content="")
    c.same((f.good("read", path="empty")["mimeType"], f.good("read", path="empty")["content"]),
           ("inode/x-empty", ""), "an empty file is x-empty")
    f.out("chmod 600 enc; ln -sf enc link")
    f.good("write", path="link", content="through")
    c.same(f.out("cat enc; stat -c %a enc; readlink link"), "through600\nenc\n",
           "a link is followed, and the mode stays")
    body = ('{"content":"\\u0041\\ud83d\\ude00","unknown":{"content":[1]},"encoding":"utf-8",'
            '"path":"late"}')
    reply = f.cove.request("POST", f.at + "write", body, {"Content-Type": "application/json"})
    c.same((reply.status, f.out("cat late")), (200, "A😀"), "the path may come behind the content")
    types = {"x.ts": "text/javascript", "x.json": "application/json", "x.svg": "image/svg+xml",
             "x.sql": "application/x-sql", "x.png": "image/png", "noext": "text/plain"}
    for name, mime in types.items():
        f.good("write", path=name, content="x")
        answer = f.good("read", path=name)
        c.same((answer["mimeType"], answer["isBinary"]),
               (mime, mime in ("application/x-sql", "image/png")), "%s is %s" % (name, mime))
    f.good("write", path="quoted", content='"\\\b\f\n\r\t/\u2028')
    c.same(f.good("read", path="quoted")["content"], '"\\\b\f\n\r\t/\u2028', "escapes both ways")


def verbs(f):
    c.same(f.good("mkdir", path="d1")["recursive"], False, "mkdir")
    f.fails((500, "FILESYSTEM_ERROR", {"path": "d1", "operation": "directory.create",
             "stderr": "mkdir: cannot create directory 'd1': File exists"}),
            "an existing directory is an error", "mkdir", path="d1")
    f.fails((500, "FILESYSTEM_ERROR"), "so is a missing parent", "mkdir", path="no/where")
    c.same(f.good("mkdir", path="d1/x/y", recursive=True)["recursive"], True, "unless recursive")
    f.good("mkdir", path="d1/x/y", recursive=True)
    f.good("write", path="d1/one", content="1")
    c.same([f.good("exists", path=p)["exists"] for p in ("d1", "d1/one", "d1/none", "/")],
           [True, True, False, True], "exists")
    f.out("ln -s nowhere d1/dangling")
    c.same(f.good("exists", path="d1/dangling")["exists"], False, "a dangling link does not")
    answer = f.good("rename", oldPath="d1/one", newPath="d1/two")
    c.same((answer["path"], answer["newPath"], f.out("cat d1/two")), ("d1/one", "d1/two", "1"),
           "rename")
    answer = f.good("move", sourcePath="d1/two", destinationPath="d1/x")
    c.same((answer["path"], answer["newPath"], f.out("cat d1/x/two")), ("d1/two", "d1/x", "1"),
           "move into a directory")
    f.good("write", path="over", content="old")
    f.good("move", sourcePath="d1/x/two", destinationPath="over")
    c.same(f.out("cat over"), "1", "and over a file")
    f.good("move", sourcePath="over", destinationPath="/dev/shm/over")
    c.same(f.out("cat /dev/shm/over; ls over 2>&1 | wc -l"), "11\n", "and to another file system")
    f.fails((404, "FILE_NOT_FOUND", {"path": "gone", "operation": "file.rename"}),
            "rename of nothing", "rename", oldPath="gone", newPath="x")
    f.fails((404, "FILE_NOT_FOUND", {"path": "gone", "operation": "file.move"}),
            "move of nothing", "move", sourcePath="gone", destinationPath="x")
    f.good("write", path="here", content="")
    f.fails((500, "FILESYSTEM_ERROR", {"path": "here", "operation": "file.rename"}),
            "into a directory that is not there", "rename", oldPath="here", newPath="no/such")
    f.fails((500, "FILESYSTEM_ERROR", {"path": "d1", "operation": "file.move"}),
            "a directory over a file", "move", sourcePath="d1", destinationPath="here")
    f.good("delete", path="/dev/shm/over")
    f.fails((404, "FILE_NOT_FOUND", {"path": "/dev/shm/over", "operation": "file.delete"}),
            "delete is once", "delete", path="/dev/shm/over")
    f.fails((400, "IS_DIRECTORY"), "a directory is not deleted", "delete", path="d1")
    f.good("delete", path="d1", recursive=True)
    c.same(f.good("exists", path="d1")["exists"], False, "unless recursive")
    f.out("mkdir t; echo keep > t/keep; mkdir s; ln -s ../t s/out")
    f.good("delete", path="s", recursive=True)
    c.same(f.out("cat t/keep"), "keep\n", "and no link is followed on the way")
    f.good("write", path="m", content="")
    for mode, want in (("0750", "rwxr-x---"), ("640", "rw-r-----"), ("rwx--x--x", "rwx--x--x"),
                       (0o4755, "rwsr-xr-x")):
        c.same(f.good("chmod", path="m", mode=mode)["mode"], want, "chmod %s" % mode)
    c.same(f.good("stat", path="m")["octal"], "4755", "stat tells the mode")
    f.out("mkdir -p tree/a; touch tree/a/b; chmod 600 tree/a/b")
    f.good("chmod", path="tree", mode="0700", recursive=True)
    c.same(f.out("stat -c %a tree tree/a tree/a/b"), "700\n700\n700\n", "chmod of a tree")
    f.out("ln -sf m sl; touch -d '2001-02-03 04:05:06.789Z' m")
    answer = f.good("stat", path="sl")
    c.same((answer["type"], answer["size"], answer["modifiedAt"], answer["uid"], answer["links"]),
           ("file", 0, "2001-02-03T04:05:06.789Z", 0, 1), "stat follows")
    answer = f.good("stat", path="sl", followSymlinks=False)
    c.same((answer["type"], answer["target"]), ("symlink", "m"), "or not")


def lists(f):
    f.out("mkdir -p l/sub/.hid l/.dot; echo abc > l/f; ln -s f l/s; mkfifo l/p; touch l/.h "
          "l/sub/in l/.dot/seen; chmod 640 l/f; chmod 750 l/sub")
    answer = f.good("list-files", path="/workspace/l")
    entries = {e["name"]: e for e in answer["files"]}
    c.same((sorted(entries), answer["count"], answer["path"]),
           (["f", "p", "s", "sub"], 4, "/workspace/l"), "a list without hidden names")
    c.same({n: entries[n]["type"] for n in entries},
           {"f": "file", "p": "other", "s": "symlink", "sub": "directory"}, "with types")
    entry = entries["f"]
    c.same((entry["absolutePath"], entry["relativePath"], entry["size"], entry["mode"],
            entry["permissions"]),
           ("/workspace/l/f", "f", 4, "rw-r-----",
            {"readable": True, "writable": True, "executable": False}), "and all that is known")
    c.ok(entry["modifiedAt"].endswith("Z") and entry["modifiedAt"][10] == "T", "times are ISO UTC")
    names = {e["relativePath"] for e in
             f.good("list-files", path="l", options={"includeHidden": True})["files"]}
    c.same(names, {"f", "p", "s", "sub", ".h", ".dot"}, "hidden ones when asked for")
    answer = f.good("list-files", path="l/", options={"recursive": True, "includeHidden": True})
    c.same({e["relativePath"] for e in answer["files"]},
           {"f", "p", "s", "sub", ".h", ".dot", ".dot/seen", "sub/in", "sub/.hid"}, "recursive")
    c.ok(all(e["absolutePath"] == "/workspace/l/" + e["relativePath"] for e in answer["files"]),
         "with paths from the top", answer["files"])
    c.same({e["relativePath"] for e in
            f.good("list-files", path="l", options={"recursive": True})["files"]},
           {"f", "p", "s", "sub", "sub/in", ".dot/seen"}, "the content of a hidden directory is not")
    f.fails((404, "FILE_NOT_FOUND", {"path": "nope", "operation": "directory.list"}),
            "a missing directory", "list-files", path="nope")
    f.fails((400, "NOT_DIRECTORY"), "a file is no directory", "list-files", path="l/f")
    f.out("mkdir many; cd many; seq -f 'a rather long name of a file, number %g' 5000 | "
          "xargs -d '\\n' touch")
    answer = f.good("list-files", path="many")
    c.same((answer["count"], len({e["name"] for e in answer["files"]})), (5000, 5000),
           "a long list is whole")
    answer = f.good("find", path="l", include=["*in*"])
    c.same([e["relativePath"] for e in answer["files"]], ["sub/in"], "find by a pattern")
    answer = f.good("find", path="l", type="directory", includeHidden=True)
    c.same({e["relativePath"] for e in answer["files"]}, {"sub", "sub/.hid", ".dot"}, "by type")
    answer = f.good("find", path="l", minSize=1, maxSize=100, type="file")
    c.same([e["relativePath"] for e in answer["files"]], ["f"], "by size")
    answer = f.good("find", path="many", limit=10)
    c.same((answer["count"], answer["truncated"]), (10, True), "up to a limit")
    f.fails((400, "VALIDATION_FAILED"), "an unknown type", "find", path="l", type="door")
    f.good("write", path="g/a.txt", content="one\nTwo two\nthree\n")
    f.good("write", path="g/b.bin", content="two\0two")
    f.good("write", path="g/sub/c.py", content="x = 'two'\n")
    answer = f.good("grep", path="g", pattern="t[vw]o")
    got = {(m["absolutePath"], m["line"], m["column"], m["text"]) for m in answer["matches"]}
    c.same(got, {("/workspace/g/a.txt", 2, 5, "Two two"),
                 ("/workspace/g/sub/c.py", 1, 6, "x = 'two'")}, "grep in text files")
    answer = f.good("grep", path="g", pattern="TWO", ignoreCase=True, fixed=True, include=["*.txt"])
    c.same([(m["line"], m["column"]) for m in answer["matches"]], [(2, 1)], "as told")
    f.fails((400, "VALIDATION_FAILED"), "a pattern that is none", "grep", path="g", pattern="(")


def refusals(f):
    field = {"validationErrors": [{"field": "path", "message": "'path' must not be empty",
                                   "code": "INVALID_PATH"}]}
    for verb in ("read", "read/stream", "delete", "mkdir", "list-files", "exists", "stat"):
        f.fails((400, "VALIDATION_FAILED", field), "%s of an empty path" % verb, verb, path="")
    for path in ("a\0b", "x" * 4097, 7, None):
        f.fails((400, "VALIDATION_FAILED"), "a path that is %.12r" % (path,), "read", path=path)
    f.fails((400, "VALIDATION_FAILED"), "write without a content", "write", path="x")
    f.fails((400, "VALIDATION_FAILED"), "a content that is no string", "write", path="x", content=5)
    f.fails((400, "VALIDATION_FAILED"), "an unknown encoding", "write", path="x", content="",
            encoding="latin1")
    reply = f.ask("write", path="x", content="a$b=", encoding="base64")
    c.same((reply.status, reply.json["context"]["validationErrors"][0]["field"],
            reply.json["context"]["validationErrors"][0]["code"]),
           (400, "content", "INVALID_BASE64"), "content that is not base64")
    f.fails((400, "VALIDATION_FAILED"), "an unknown user", "read", path="x", user="nobody-here")
    for text in ("", "{", "[]", '{"path":"x","content":"\\x"}', '{"path":"x","content":"a"} x',
                 '{"path":"x","content":"a","content":"b"}'):
        reply = f.cove.request("POST", f.at + "write", text, {"Content-Type": "application/json"})
        c.same((reply.status, reply.json["code"]), (400, "VALIDATION_FAILED"), "body %r" % text)
    reply = f.cove.request("POST", f.at + "write", '{"path":"x","content":"a"}',
                           {"Content-Type": "text/plain"})
    c.same(reply.json["code"], "VALIDATION_FAILED", "a body of another type")
    f.fails((404, "FILE_NOT_FOUND", {"path": "/none", "operation": "file.read"}), "no file",
            "read", path="/none")
    c.ok(f.ask("read", path="/none").json["message"].startswith("File not found"), "in these words",
         f.ask("read", path="/none"))
    f.fails((400, "IS_DIRECTORY"), "read of a directory", "read", path="/workspace")
    f.fails((500, "FILESYSTEM_ERROR", {"path": "/workspace", "operation": "file.write",
                                       "stderr": "Is a directory: /workspace"}),
            "write to a directory", "write", path="/workspace", content="")
    f.fails((400, "NOT_DIRECTORY"), "a path through a file", "read", path="/etc/passwd/x")
    f.fails((400, "NAME_TOO_LONG"), "a long name", "write", path="n" * 256, content="")
    f.fails((403, "PERMISSION_DENIED"), "a file that the user may not read", "read", path="/etc/shadow",
            user="nobody")
    f.fails((500, "FILESYSTEM_ERROR"), "or write", "write", path="/etc/x", content="", user="nobody")
    for verb, fields in (("read", {}), ("write", {"content": ""}), ("mkdir", {}), ("watch", {})):
        got = f.ask(verb, path="/workspace/a\0b", **fields).json
        c.ok(got["code"] == "VALIDATION_FAILED" and got["context"]["validationErrors"] == [
            {"field": "path", "message": got["message"], "code": "INVALID_PATH"}],
             "%s: a NUL in a path" % verb, got)
    c.ok(f.ask("exists", path="/", other="a\0b").json["success"], "a NUL in an unused field is ignored")
    reply = f.ask("write", path="/proc/version", content="x")
    c.ok(reply.status >= 400, "/proc is no place to write", reply)
    reply = f.ask("write", path="/sys/x", content="x")
    c.ok(reply.status in (403, 500), "nor is /sys", reply)
    f.out("ln -s loop loop")
    reply = f.ask("read", path="loop")
    c.ok(reply.status == 500 and reply.json["code"] in ("FILESYSTEM_ERROR", "TOO_MANY_LINKS"),
         "a link that leads to itself", reply)
    reply = f.cove.post("/v1/sandboxes/box-%048d/api/read" % 0, {"path": "x"})
    c.same(reply.status, 404, "a sandbox that is none")


def odd_files(f):
    f.out("mkfifo pipe; mkdir -p deep; python3 -c \"import socket; s=socket.socket(socket.AF_UNIX);"
          " s.bind('/workspace/sock')\"; ln -s /proc/1/root/etc/hostname magic")
    for path in ("pipe", "sock", "/dev/null", "/dev/zero", "/dev/tty"):
        begin = time.monotonic()
        reply = f.ask("read", path=path)
        took = time.monotonic() - begin
        c.ok(reply.status in (400, 403) and reply.json["reason"] in
             ("not_regular", "permission_denied") and took < 20, "%s is refused at once" % path, reply)
        reply = f.raw("GET", path if path[0] != "/" else path[1:])
        c.ok(reply.status >= 400, "%s raw too" % path, reply)
    reply = f.ask("write", path="pipe", content="x")
    c.ok(reply.status in (200, 400), "a FIFO is refused or replaced, and waits for nobody", reply)
    for verb, path in (("read", "/proc/self/maps"), ("read", "/proc/1/status"), ("list-files", "/proc"), ("list-files", "/proc/self")):
        reply = f.ask(verb, path=path)
        c.ok(reply.status == 403, "%s of %s is refused" % (verb, path), reply)
    reply = f.ask("read", path="magic")
    c.ok(reply.status != 200 or reply.json["content"].strip() == f.out("cat /etc/hostname").strip(),
         "a magic link leads nowhere else", reply)
    f.out("truncate -s 10G sparse; printf head 1<>sparse;"
          "printf tail | dd of=sparse bs=1 seek=$((10*1024*1024*1024-4)) status=none")
    f.fails((413, "FILE_TOO_LARGE", {"actualSize": 10 << 30, "maxSize": 33554432}),
            "10 GB do not fit into JSON", "read", path="sparse")
    reply = f.raw("GET", "workspace/sparse", Range="bytes=-4")
    c.same((reply.status, reply.body, reply.headers["Content-Range"]),
           (206, b"tail", "bytes 10737418236-10737418239/10737418240"), "but can be looked into")
    reply = f.raw("GET", "workspace/sparse", Range="bytes=0-3")
    c.same((reply.status, reply.body), (206, b"head"), "at both ends")
    reply = f.raw("HEAD", "workspace/sparse")
    c.same((reply.status, reply.headers["Content-Length"], reply.body),
           (200, str(10 << 30), b""), "and measured")


def names(f):
    raw = b"/workspace/n/\xff\xfe caf\xc3\xa9"
    f.out("mkdir n")
    coded = base64.b64encode(raw).decode()
    f.good("write", pathBase64=coded, content="odd")
    c.same(f.out("cd n; ls | od -An -tx1").split()[:2], ["ff", "fe"], "a name that is no UTF-8")
    entry = f.good("list-files", path="n")["files"][0]
    c.same((entry["name"], base64.b64decode(entry["nameBase64"]),
            base64.b64decode(entry["pathBase64"])),
           ("\ufffd\ufffd café", b"\xff\xfe caf\xc3\xa9", raw), "is listed, and as bytes")
    c.same(f.good("read", pathBase64=coded)["content"], "odd", "is read by its bytes")
    reply = f.raw("GET", "workspace/n/%ff%fe%20caf%c3%a9")
    c.same((reply.status, reply.body), (200, b"odd"), "and raw with %XX")
    f.good("rename", oldPathBase64=coded, newPath="/workspace/n/plain")
    c.same(f.good("read", path="n/plain")["content"], "odd", "and renamed")
    for name in ("a;touch pwn", "-rf", "$(id)", "new\nline", "q\"'", "sp ace", "ü", "~", "*"):
        f.good("write", path="/workspace/odd/" + name, content=name)
        c.same(f.good("read", path="/workspace/odd/" + name)["content"], name, "name %r" % name)
    c.same(f.good("list-files", path="odd")["count"], 9, "all of them are listed")
    f.good("delete", path="odd", recursive=True)
    for path in ("/../../etc/hostname", "/./etc//hostname", "/workspace/../etc/hostname"):
        c.same(f.good("read", path=path)["content"], f.out("cat /etc/hostname"), "path %s" % path)


def sessions(f):
    reply = f.cove.post(f.at + "session/create", {"id": "where"})
    c.same(reply.status, 200, "a session is made")
    f.out("mkdir -p /tmp/stand")
    f.cove.run(f.box, "cd /tmp/stand", sessionId="where")
    f.good("write", path="rel", content="here", sessionId="where")
    c.same(f.out("cat /tmp/stand/rel"), "here", "relative paths begin where the session stands")
    c.same(f.good("exists", path="rel", sessionId="never-made")["exists"], False,
           "and at /workspace for one that is not there")


def streams(f):
    def events(path):
        reply = f.ask("read/stream", path=path)
        return reply, [c.json.loads(line[6:]) for line in reply.body.split(b"\n\n")
                       if line.startswith(b"data: ")]
    text = "aä€😀" * 30000
    f.good("write", path="st.txt", content=text)
    reply, got = events("st.txt")
    c.same((reply.status, reply.headers["Content-Type"], got[0], got[-1]),
           (200, "text/event-stream", {"type": "metadata", "mimeType": "text/plain",
            "size": 300000, "isBinary": False, "encoding": "utf-8"},
            {"type": "complete", "bytesRead": 300000}), "a text as events")
    c.ok("".join(e["data"] for e in got[1:-1]) == text and len(got) == 7, "no character is cut")
    raw = os.urandom(200001)
    f.raw("PUT", "workspace/st.bin", raw)
    reply, got = events("st.bin")
    parts = [base64.b64decode(e["data"]) for e in got[1:-1]]
    c.ok(b"".join(parts) == raw and [len(p) for p in parts] == [65535, 65535, 65535, 3396] and
         got[0]["encoding"] == "base64", "bytes as events, each decodes on its own")
    f.good("write", path="st.empty", content="")
    c.same([e["type"] for e in events("st.empty")[1]], ["metadata", "complete"], "an empty file")
    reply, got = events("/none")
    c.same((reply.status, [(e["type"], e["error"]) for e in got]),
           (200, [("error", "File not found: /none")]), "a missing one is an event")


def parallel(f):
    failed = []

    def work(n):
        for i in range(30):
            path = "par/%d/%d" % (n, i)
            f.good("write", path=path, content=path * 10)
            if f.good("read", path=path)["content"] != path * 10:
                failed.append(path)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    c.ok(not failed and f.good("list-files", path="par", options={"recursive": True})["count"] == 372,
         "twelve clients at once do not disturb each other", failed)


def main():
    with_cove = c.Cove()
    f = Files(with_cove, with_cove.create(limits={"diskMB": 256}))
    before = c.calm(with_cove)
    for part in (write_and_read, verbs, lists, refusals, odd_files, names, sessions, streams, parallel):
        c.note(part.__name__)
        part(f)
    c.until(lambda: c.fds(with_cove.children()["daemon"]) <= before["fds of daemon"] + 12)
    c.ok(c.fds(with_cove.children()["daemon"]) <= before["fds of daemon"] + 12, "no file stays open",
         before["fds of daemon"], c.fds(with_cove.children()["daemon"]))
    c.same(with_cove.delete(f.box).status, 204, "the sandbox goes")
    c.same(with_cove.close(), 0, "and cove stops cleanly")
    c.done()


main()
