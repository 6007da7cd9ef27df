#!/usr/bin/env python3
"""Files as bodies: raw up and down, ranges, resumed and broken uploads, archives, large amounts, and
the daemon's memory meanwhile."""
import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import socket
import sys
import tarfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

MIB = 1 << 20
BIG = (1024 if os.environ.get("COVE_SOAK") == "1" else 256) * MIB


class Stream(io.RawIOBase):
    """Bytes generated as they are read, and hashed; no two parts are alike."""

    def __init__(self, size):
        self.left, self.sha, self.seed, self.n = size, hashlib.sha1(), os.urandom(MIB), 0

    def read(self, size=-1):
        size = min(self.left, MIB if size < 0 else size)
        if not size:
            return b""
        at = self.n % 4096
        part = (self.n.to_bytes(8, "big") + self.seed[at:] + self.seed[:at])[:size]
        self.n += 1
        self.left -= len(part)
        self.sha.update(part)
        return part


def rss(cove):
    """Resident memory of the daemon, in MiB."""
    with open("/proc/%d/status" % cove.children()["daemon"]) as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


class Meter:
    """The peak resident memory of the daemon during a call."""

    def __init__(self, cove):
        self.cove, self.most, self.on, self.idle = cove, 0, True, cove.idle

    def __enter__(self):
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def fits(self):
        """32 MiB; a sanitizer begins with more, and may not grow by more than half of that."""
        return self.most <= max(32, self.idle + 16)

    def look(self):
        while self.on:
            self.most = max(self.most, rss(self.cove))
            time.sleep(0.02)

    def __exit__(self, *_):
        self.on = False
        self.thread.join()


def held_files(cove):
    """Files of sandboxes that the daemon has open."""
    folder, found = "/proc/%d/fd" % cove.children()["daemon"], []
    for fd in os.listdir(folder):
        try:
            found += [link for link in [os.readlink(os.path.join(folder, fd))]
                      if link.endswith("/huge") or "/workspace/" in link]
        except OSError:
            pass
    return found


class Raw:
    def __init__(self, cove, box):
        self.cove, self.box, self.at = cove, box, "/v1/sandboxes/%s/api/" % box["id"]

    def ask(self, method, path, body=None, **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.cove.request(method, self.at + "files/" + path, body, headers, raw=True,
                                 timeout=600)

    def out(self, command):
        return self.cove.out(self.box, command, sessionId="__DISABLE_SESSION__")

    def open(self, method, path, headers=None, body=None):
        conn = http.client.HTTPConnection("127.0.0.1", self.cove.port, timeout=600)
        head = dict(headers or {}, Authorization="Bearer " + self.cove.key)
        conn.request(method, self.at + path, body, head,
                     encode_chunked="Transfer-Encoding" in head)
        return conn, conn.getresponse()

    def put(self, path, stream, size):
        conn, answer = self.open("PUT", path, {"Content-Length": str(size)}, stream)
        with contextlib.closing(conn):
            return answer.status, answer.read()

    def hash_of(self, answer):
        sha = hashlib.sha1()
        while True:
            part = answer.read(MIB)
            if not part:
                return sha.hexdigest()
            sha.update(part)

    def cut(self, path, announced, sent):
        """An upload whose client vanishes."""
        with socket.create_connection(("127.0.0.1", self.cove.port)) as sock:
            sock.sendall(("PUT %sfiles/%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                          "Content-Length: %d\r\n\r\n" % (self.at, path, self.cove.port, self.cove.key,
                                                           announced)).encode() + sent)
            time.sleep(0.2)


def ups_and_downs(r):
    reply = r.ask("PUT", "workspace/x/y/a.txt", b"hello", Content_Type="text/plain")
    answer = reply.json
    c.ok(reply.status == 200 and answer["size"] == 5 and answer["etag"] == reply.headers["ETag"] and
         answer["mode"] == "rw-r--r--", "PUT makes the directories", reply)
    reply = r.ask("GET", "workspace/x/y/a.txt")
    c.same((reply.status, reply.body, reply.headers["Content-Type"], reply.headers["Content-Length"],
            reply.headers["Accept-Ranges"], reply.headers["ETag"]),
           (200, b"hello", "text/plain", "5", "bytes", answer["etag"]), "GET")
    c.ok(reply.headers["Last-Modified"].endswith("GMT") and
         reply.headers["X-Content-Type-Options"] == "nosniff", "with what a client wants to know")
    c.same(r.ask("GET", "workspace/x/y/a.txt", If_None_Match=answer["etag"]).status, 304,
           "a file that the client has is not sent again")
    c.same(r.ask("GET", "workspace/x/y/a.txt", If_None_Match='"other"').status, 200, "else it is")
    for text, want in (("bytes=1-2", (206, b"el")), ("bytes=3-", (206, b"lo")),
                       ("bytes=-2", (206, b"lo")), ("bytes=0-999", (206, b"hello")),
                       ("bytes=0-1,3-4", (200, b"hello")), ("furlongs=1-2", (200, b"hello"))):
        reply = r.ask("GET", "workspace/x/y/a.txt", Range=text)
        c.same((reply.status, reply.body), want, text)
    reply = r.ask("GET", "workspace/x/y/a.txt", Range="bytes=5-")
    c.same((reply.status, reply.headers["Content-Range"]), (416, "bytes */5"), "past the end")
    reply = r.ask("GET", "workspace/x/y/a.txt", Range="bytes=1-2", If_Range='"old"')
    c.same((reply.status, reply.body), (200, b"hello"), "a part of another version is all of this")
    r.ask("PUT", "workspace/x/run?mode=0755", b"#!/bin/sh\necho ran\n")
    c.same(r.out("x/run"), "ran\n", "PUT with a mode")
    c.same(r.ask("PUT", "workspace/x/run?mode=9", b"").status, 400, "or not")
    reply = r.ask("PUT", "workspace/x/run", b"new", If_None_Match="*")
    c.same((reply.status, reply.json["code"]), (409, "FILE_EXISTS"), "only if there is none")
    conn, answer = r.open("PUT", "files/workspace/chunked", {"Transfer-Encoding": "chunked"},
                          iter([b"a" * 70000, b"b" * 3, b"c" * 300000]))
    with contextlib.closing(conn):
        c.same((answer.status, json.loads(answer.read())["size"]), (200, 370003), "a chunked PUT")
    c.same(r.out("sha1sum < chunked").split()[0],
           hashlib.sha1(b"a" * 70000 + b"bbb" + b"c" * 300000).hexdigest(), "arrives")
    c.same(r.ask("PUT", "workspace/zero", b"").json["size"], 0, "an empty PUT")
    c.same((r.ask("DELETE", "workspace/zero").status, r.ask("DELETE", "workspace/zero").status),
           (204, 404), "DELETE")
    c.same((r.ask("DELETE", "workspace/x").status, r.ask("DELETE", "workspace/x?recursive=1").status),
           (400, 204), "of a directory only when told")
    c.same(r.ask("GET", "workspace").json["code"], "IS_DIRECTORY", "a directory is no file")
    c.same(r.ask("GET", "etc/shadow?user=nobody").json["code"], "PERMISSION_DENIED", "as a user")
    c.same(r.ask("GET", "none").json["code"], "FILE_NOT_FOUND", "a missing one")


def broken(r):
    r.ask("PUT", "workspace/safe", b"old content")
    r.cut("workspace/safe", 50 * MIB, b"n" * 3 * MIB)
    c.same(r.out("cat safe; ls -A | grep -c cove; true"), "old content0\n",
           "a client that vanishes leaves the old file whole, and nothing beside it")
    reply = r.ask("PUT", "workspace/safe", b"", Content_Range="bytes */%d" % (50 * MIB))
    got = reply.json["received"]
    c.ok(reply.status == 202 and 0 < got <= 3 * MIB, "how far it came can be asked", reply)
    rest = b"r" * (50 * MIB - got)
    reply = r.ask("PUT", "workspace/safe", rest,
                  Content_Range="bytes %d-%d/%d" % (got, 50 * MIB - 1, 50 * MIB))
    c.same((reply.status, reply.json.get("size")), (200, 50 * MIB), "and the upload resumes there")
    c.same(r.out("sha1sum safe").split()[0], hashlib.sha1(b"n" * got + rest).hexdigest(), "exactly")
    reply = r.ask("PUT", "workspace/safe", b"x", Content_Range="bytes 5-5/10")
    c.same((reply.status, reply.json["reason"]), (409, "no_upload"), "nothing to go on with")
    for text in ("bytes 5-4/10", "bytes 0-9/*", "nonsense"):
        c.same(r.ask("PUT", "workspace/safe", b"", Content_Range=text).status, 400, text)
    for at in range(0, 30, 10):
        reply = r.ask("PUT", "workspace/parts", b"%010d" % at,
                      Content_Range="bytes %d-%d/30" % (at, at + 9))
    c.same((reply.status, r.out("cat parts")), (200, "000000000000000000100000000020"),
           "a file in three parts")
    small = r.cove.create(limits={"diskMB": 16})
    s = Raw(r.cove, small)
    s.ask("PUT", "workspace/keep", b"kept")
    reply = s.ask("PUT", "workspace/keep", b"\xa5" * 64 * MIB)
    c.same((reply.status, reply.json["code"]), (500, "NO_SPACE"), "a full disk says so")
    c.same(s.out("cat keep"), "kept", "and keeps what was there")
    reply = r.cove.post(s.at + "write", {"path": "keep", "content": "y" * 30 * MIB})
    c.same((reply.status, reply.json["code"], s.out("cat keep")), (500, "NO_SPACE", "kept"),
           "in JSON too")
    c.same(s.ask("PUT", "workspace/after", b"fits").status, 200, "and a small file still fits")
    c.same(r.cove.delete(small).status, 204, "the file is deleted")


def json_both_ways(r):
    cove = r.cove
    for encoding, size in (("utf-8", 33554432), ("base64", 33554432)):
        raw = (os.urandom(64) + b"") if encoding == "base64" else None
        if encoding == "base64":
            blob = os.urandom(MIB) * 32
            content = base64.b64encode(blob).decode()
        else:
            blob = ("line of text, ä and \\ and \"quotes\" %04d\n" * 900000).encode()[:size - 1]
            blob = blob.decode(errors="ignore").encode()
            blob += b"." * (size - len(blob))
            content = blob.decode()
        del raw
        with Meter(cove) as meter:
            reply = cove.post(r.at + "write", {"path": "json.txt", "content": content,
                                               "encoding": encoding})
            c.same(reply.status, 200, "32 MiB of %s are written" % encoding)
            c.same(r.out("sha1sum json.txt").split()[0], hashlib.sha1(blob).hexdigest(), "exactly")
            reply = cove.post(r.at + "read", {"path": "json.txt", "encoding": encoding})
            got = reply.json["content"]
        c.ok((got.encode() if encoding == "utf-8" else base64.b64decode(got)) == blob, "and read")
        c.ok(meter.fits(), "in bounded memory: %.1f MiB" % meter.most)
    reply = cove.post(r.at + "write", {"path": "json.txt", "content": "z" * 33554433})
    c.same((reply.status, reply.json["code"], reply.json["context"]["actualSize"],
            reply.json["context"]["maxSize"]), (413, "FILE_TOO_LARGE", 33554433, 33554432),
           "a body one byte larger is refused")
    c.same(r.out("stat -c %s json.txt"), "33554432\n", "and the old file is whole")
    r.out("printf . >> json.txt")
    reply = cove.post(r.at + "read", {"path": "json.txt"})
    c.same((reply.status, reply.json["context"]["actualSize"]), (413, 33554433), "so is reading it")
    r.out("rm json.txt")


def big(r):
    cove = r.cove
    with Meter(cove) as meter:
        stream = Stream(BIG)
        status, body = r.put("files/workspace/big.bin", stream, BIG)
        c.same((status, json.loads(body).get("size")), (200, BIG), "%d MiB go up raw" % (BIG // MIB))
        want = stream.sha.hexdigest()
        c.same(r.out("sha1sum big.bin").split()[0], want, "and are the same in the sandbox")
        conn, answer = r.open("GET", "files/workspace/big.bin")
        with contextlib.closing(conn):
            c.same(r.hash_of(answer), want, "and down again")
    c.ok(meter.fits(), "raw: daemon within 32 MiB: %.1f" % meter.most)
    with Meter(cove) as meter:
        sha, total, last = hashlib.sha1(), 0, {}
        conn, answer = r.open("POST", "read/stream", {"Content-Type": "application/json"},
                              json.dumps({"path": "big.bin"}))
        with contextlib.closing(conn):
            for line in answer:
                if line.startswith(b'data: {"type":"chunk","data":"'):
                    part = base64.b64decode(line[30:-3])
                    sha.update(part)
                    total += len(part)
                elif line.startswith(b"data: "):
                    last = json.loads(line[6:])
        c.same((sha.hexdigest(), total, last), (want, BIG, {"type": "complete", "bytesRead": BIG}),
               "as events")
    c.ok(meter.fits(), "events: daemon within 32 MiB: %.1f" % meter.most)
    with Meter(cove) as meter:
        r.out("mkdir tree; mv big.bin tree/")
        conn, answer = r.open("GET", "tar?path=/workspace/tree")
        copied = r.cove.create(limits={"diskMB": 2 * BIG // MIB})
        other = Raw(cove, copied)
        up, done = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=600), None
        with contextlib.closing(conn):
            up.request("PUT", other.at + "tar?path=/workspace/copy", iter(lambda: answer.read(MIB), b""),
                       {"Authorization": "Bearer " + cove.key, "Transfer-Encoding": "chunked"},
                       encode_chunked=True)
            done = up.getresponse()
            reply = json.loads(done.read())
        up.close()
        c.ok(done.status == 200 and reply["count"] >= 1 and reply["skipped"] == 0, "as an archive", reply)
        c.same(other.out("cd copy; sha1sum $(find . -name big.bin)").split()[0], want,
               "from one sandbox into another")
    c.ok(meter.fits(), "tar: daemon within 32 MiB: %.1f" % meter.most)
    cove.delete(copied)
    r.out("rm -r tree")


def archives(r):
    r.out("mkdir -p t/sub t/skip; echo one > t/one; ln -s one t/link; ln t/one t/hard; mkfifo t/pipe;"
          " ln -s loop t/loop; echo x > t/skip/x; echo y > t/sub/y.log; touch \"t/$(printf 'n%0150d' 7)\";"
          " chmod 750 t/sub; truncate -s 3M t/sparse")
    reply = r.cove.get(r.at + "tar?path=/workspace/t&exclude=skip&exclude=*.log")
    c.same((reply.status, reply.headers["Content-Type"]), (200, "application/x-tar"), "a tree as a tar")
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        kinds = {m.name.rstrip("/").split("/", 1)[-1]: m for m in tar.getmembers()}
        content = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isreg()}
    c.ok("pipe" not in kinds and "skip" not in kinds and "sub/y.log" not in kinds and
         "n" + "%0150d" % 7 in kinds and kinds["link"].issym() and kinds["sub"].mode & 0o777 == 0o750,
         "with what belongs in it", sorted(kinds))
    c.ok(any(v == b"one\n" for v in content.values()), "and its content")
    reply = r.cove.request("PUT", r.at + "tar?path=/workspace/un", reply.body, raw=True)
    c.ok(reply.status == 200 and reply.json["skipped"] == 0, "unpacked again", reply)
    c.same(r.out("cd un; cat $(find . -name one -type f)"), "one\n", "the file is there")
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w") as tar:
        for name, kind, target in (("../out", tarfile.REGTYPE, ""), ("/abs", tarfile.REGTYPE, ""),
                                   ("ln", tarfile.SYMTYPE, "/etc"), ("ln/in", tarfile.REGTYPE, ""),
                                   ("hl", tarfile.LNKTYPE, "/etc/passwd"),
                                   ("dev", tarfile.CHRTYPE, ""), ("good", tarfile.REGTYPE, "")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            info.size = 4 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"evil") if info.size else None)
    reply = r.cove.request("POST", r.at + "tar?path=/workspace/evil", evil.getvalue(), raw=True)
    c.ok(reply.status == 200 and reply.json["skipped"] >= 4, "members that lead out are skipped and counted", reply)
    c.same(r.out("ls -d out /abs /etc/in evil/dev 2>/dev/null; cat evil/good"), "evil", "and not there")
    reply = r.cove.request("PUT", r.at + "tar?path=/workspace/bad", b"no archive at all" * 100, raw=True)
    c.same((reply.status, reply.json["reason"]), (400, "bad_archive"), "a body that is not an archive")
    reply = r.cove.get(r.at + "tar?path=/nowhere")
    c.same((reply.status, reply.json["code"]), (404, "FILE_NOT_FOUND"), "a tree that is not there")
    c.same(r.cove.get(r.at + "tar").json["code"], "VALIDATION_FAILED", "no path at all")


def slow_reader(r):
    """A client that does not read blocks neither the sandbox nor its deletion."""
    size = (4 if c.SHORT else 10) << 30
    r.out("truncate -s %d huge" % size)
    box = r.cove.create(limits={"diskMB": 64})
    s = Raw(r.cove, box)
    s.out("truncate -s 4G huge")
    with socket.create_connection(("127.0.0.1", r.cove.port)) as sock:
        sock.sendall(("GET %sfiles/workspace/huge HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: "
                      "Bearer %s\r\n\r\n" % (s.at, r.cove.port, r.cove.key)).encode())
        sock.recv(1000)
        time.sleep(0.3)
        begin = time.monotonic()
        c.same(s.ask("GET", "etc/hostname").status, 200, "others are served meanwhile")
        c.ok(time.monotonic() - begin < 20, "at once")
        c.same(r.cove.delete(box).status, 204, "a sandbox with a stalled download is deleted")
        c.ok(time.monotonic() - begin < 10, "soon", time.monotonic() - begin)
        c.ok(c.until(lambda: not held_files(r.cove)), "and no file of it is held", held_files(r.cove))
    conn, answer = r.open("GET", "files/workspace/huge")
    total = 0
    with contextlib.closing(conn):
        while True:
            part = answer.read(4 * MIB)
            if not part:
                break
            total += len(part)
    c.same(total, size, "%d GB of nothing come down whole" % (size >> 30))
    r.out("rm huge")


def main():
    cove = c.Cove()
    r = Raw(cove, cove.create(limits={"diskMB": 2 * BIG // MIB + 256}))
    cove.idle = idle = rss(cove)
    before = c.calm(cove)
    for part in (ups_and_downs, broken, json_both_ways, archives, big, slow_reader):
        c.note(part.__name__)
        part(r)
    c.note("daemon: %.1f MiB at first, %.1f MiB at last" % (idle, rss(cove)))
    c.ok(c.until(lambda: c.fds(cove.children()["daemon"]) <= before["fds of daemon"] + 12),
         "no file stays open", before["fds of daemon"], c.fds(cove.children()["daemon"]))
    c.same(cove.delete(r.box).status, 204, "the sandbox goes, and what was parked with it")
    c.same(cove.close(), 0, "and cove stops cleanly")
    c.done()


main()
