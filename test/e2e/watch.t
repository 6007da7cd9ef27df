#!/usr/bin/env python3
"""Watching files: events as they happen, and the question whether anything has changed."""
import hashlib
import http.client
import json
import os
import queue
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def run(cove, box, command):
    return cove.run(box, command, sessionId="__DISABLE_SESSION__")


class Watch:
    """A stream of events, read in a thread."""

    def __init__(self, cove, box, **fields):
        self.conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=60)
        self.conn.request("POST", "/v1/sandboxes/%s/api/watch" % box["id"], json.dumps(fields),
                          {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"})
        self.answer, self.queue = self.conn.getresponse(), queue.Queue()
        self.status = self.answer.status
        if self.status == 200:
            self.first = self.next_line()
            threading.Thread(target=self.read, daemon=True).start()

    def next_line(self):
        while True:
            line = self.answer.readline()
            if not line:
                return None
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def read(self):
        try:
            while True:
                event = self.next_line()
                self.queue.put(event)
                if event is None:
                    return
        except Exception:  # whatever closing a connection under a read gives
            self.queue.put(None)

    def until(self, kind, path, seconds=5):
        """The events up to one of a kind about a path; None when it did not come."""
        seen, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                event = self.queue.get(timeout=0.1)
            except queue.Empty:
                continue
            seen.append(event)
            if event and event.get("eventType") == kind and event["path"] == path:
                return seen
        c.note("seen: %r" % seen)
        return None

    def close(self):
        # The other thread sits in a read, and would keep close() waiting.
        self.conn.sock.shutdown(socket.SHUT_RDWR)
        self.conn.close()


def streams(cove, box):
    sh = lambda command: run(cove, box, command)  # noqa: E731
    sh("mkdir -p w/sub .git node_modules")
    watch = Watch(cove, box, path="/workspace")
    c.ok(watch.status == 200 and watch.first["type"] == "watching" and
         watch.first["path"] == "/workspace" and watch.first["watchId"], "the watch is in place",
         watch.first)
    sh("echo 1 > w/file")
    got = watch.until("create", "/workspace/w/file")
    c.ok(got and got[-1]["isDirectory"] is False and got[-1]["timestamp"].endswith("Z"), "create", got)
    sh("echo 2 >> w/file")
    c.ok(watch.until("modify", "/workspace/w/file"), "modify")
    sh("mv w/file w/moved")
    c.ok(watch.until("move_from", "/workspace/w/file"), "move_from")
    c.ok(watch.until("move_to", "/workspace/w/moved"), "move_to")
    sh("rm w/moved")
    c.ok(watch.until("delete", "/workspace/w/moved"), "delete")
    sh("mkdir -p w/new/deep")
    got = watch.until("create", "/workspace/w/new")
    c.ok(got and got[-1]["isDirectory"], "a new directory")
    time.sleep(0.3)
    sh("touch w/new/deep/late")
    c.ok(watch.until("create", "/workspace/w/new/deep/late"), "is watched too")
    sh("touch .git/x node_modules/y; chmod 600 w; touch w/mark")
    got = watch.until("create", "/workspace/w/mark")
    c.ok(got and not [e for e in got if "/.git/" in e["path"] or "node_modules/" in e["path"] or
                      e["eventType"] == "attrib"], "but not what is left out by default", got)
    watch.close()
    watch = Watch(cove, box, path="w", include=["*.py"], events=["create", "attrib"])
    sh("touch w/no.txt w/yes.py; chmod 600 w/yes.py; echo > w/yes.py; touch w/end.py")
    got = watch.until("create", "/workspace/w/end.py")
    c.ok(got and {e["eventType"] for e in got} == {"create", "attrib"} and
         all(e["path"].endswith(".py") for e in got), "only what is asked for", got)
    watch.close()
    watch = Watch(cove, box, path="w", recursive=False, exclude=[])
    sh("touch w/sub/inner w/outer")
    got = watch.until("create", "/workspace/w/outer")
    c.ok(got and not [e for e in got if e["path"].endswith("inner")], "one level only", got)
    put = lambda data: cove.request("PUT", "/v1/sandboxes/%s/api/files/workspace/w/large" % box["id"], data, raw=True)  # noqa: E731
    c.same(put(b"a" * (5 << 20)).status, 200, "a large file")
    c.ok(watch.until("create", "/workspace/w/large"), "is made")
    c.same(put(b"b" * (5 << 20)).status, 200, "and replaced")
    sh("touch w/behind")
    got = watch.until("create", "/workspace/w/behind")
    c.ok(got and {e["eventType"] for e in got[:-1] if e["path"].endswith("/large")} == {"modify"} and
         not [e for e in got if ".cove" in e["path"]], "which is told as a change, and as nothing else", got)
    c.same(sh("ls -A w | grep -c cove; md5sum <w/large")["stdout"].split(),
           ["0", hashlib.md5(b"b" * (5 << 20)).hexdigest(), "-"], "nothing else is left of it")
    sh("mkdir gone")
    other = Watch(cove, box, path="gone")
    sh("rm -r gone")
    end = []
    c.until(lambda: not other.queue.empty() and end.append(other.queue.get()) or
            (end and end[-1] and end[-1]["type"] == "stopped"))
    c.ok(end and end[-1] and end[-1]["type"] == "stopped", "a deleted directory is not watched any more", end)
    other.close()
    watch.close()


def storm(cove, box):
    watch = Watch(cove, box, path="/workspace/w")
    run(cove, box, "cd w; for i in $(seq 2000); do echo $i > storm$i; done; touch last")
    got = watch.until("create", "/workspace/w/last", 20)
    c.ok(got, "a storm of changes ends with its last one")
    if got:
        made = {e["path"] for e in got if e["eventType"] == "create"}
        c.ok(len(made) == 2001 or any(e.get("overflow") for e in got),
             "none is missing, or it is told", len(made))
    watch.close()


def refusals(cove, box):
    at = "/v1/sandboxes/%s/api/" % box["id"]
    for route in ("watch", "watch/check"):
        for body, want in (({"path": ""}, (400, "VALIDATION_FAILED")),
                           ({}, (400, "VALIDATION_FAILED")),
                           ({"path": 5}, (400, "VALIDATION_FAILED")),
                           ({"path": "."}, None),
                           ({"path": "w", "recursive": "yes"}, (400, "VALIDATION_FAILED")),
                           ({"path": "w", "include": "x"}, (400, "VALIDATION_FAILED")),
                           ({"path": "w", "include": ["x"], "exclude": ["y"]}, (400, "VALIDATION_FAILED")),
                           ({"path": "w", "include": ["[a]"]}, (400, "VALIDATION_FAILED")),
                           ({"path": "w", "exclude": ["{a,b}"]}, (400, "VALIDATION_FAILED")),
                           ({"path": "w", "events": ["open"]}, (400, "VALIDATION_FAILED")),
                           ({"path": "/etc"}, (403, "PERMISSION_DENIED")),
                           ({"path": "../etc"}, (403, "PERMISSION_DENIED")),
                           ({"path": "/workspace/../root"}, (403, "PERMISSION_DENIED")),
                           ({"path": "/workspacex"}, (403, "PERMISSION_DENIED")),
                           ({"path": "missing"}, (404, "FILE_NOT_FOUND"))):
            if want:
                reply = cove.post(at + route, body)
                c.same((reply.status, reply.json["code"]), want, "%s %r" % (route, body))
        reply = cove.request("POST", at + route, "{", {"Content-Type": "application/json"})
        c.same((reply.status, reply.json["code"]), (400, "VALIDATION_FAILED"), route + " of no JSON")


def checks(cove, box):
    at = "/v1/sandboxes/%s/api/watch/check" % box["id"]

    def ask(**fields):
        return cove.post(at, dict({"path": "/workspace/k"}, **fields))
    run(cove, box, "mkdir -p k/deep")
    first = ask().json
    c.ok(first["success"] and first["status"] == "unchanged" and ":" in first["version"], "a version",
         first)
    same = ask(since=first["version"]).json
    c.same((same["status"], same["version"]), ("unchanged", first["version"]), "nothing has changed")
    missed = []
    for i in range(50):
        before = ask().json["version"]
        run(cove, box, "touch k/deep/file%d" % i)
        now = ask(since=before).json
        if (now["status"], ask(since=now["version"]).json["status"]) != ("changed", "unchanged"):
            missed.append((i, now))
    c.same(missed, [], "changes before the request count, at once, and no others")
    now = ask(since=first["version"]).json
    c.same(now["status"], "changed", "for every version")
    run(cove, box, "mkdir -p k/.git; touch k/.git/x; true")
    name, count = now["version"].rsplit(":", 1)
    reply = ask(since="%s:%d" % (name, int(count) + 1000))
    c.same((reply.status, reply.json["code"]), (400, "VALIDATION_FAILED"), "a version that is too new")
    for text in ("nonsense", "a:b", ":1", "a b:1", 5):
        c.same(ask(since=text).status, 400, "since %r" % (text,))
    reply = ask(since="other-life:7").json
    c.same((reply["status"], reply["reason"]), ("resync", "restarted"), "a version of an earlier daemon")
    life = name.rsplit("-", 1)[0]
    reply = ask(since="%s-999999:7" % life).json
    c.same((reply["status"], reply["reason"]), ("resync", "expired"), "a version that was evicted")
    run(cove, box, "rm -r k")
    c.until(lambda: ask(since=now["version"]).status == 404)
    c.same(ask(since=now["version"]).status, 404, "a tree that is gone is not there")
    for i in range(20):
        run(cove, box, "mkdir -p many/%d" % i)
        reply = cove.post(at, {"path": "many/%d" % i})
        if reply.status != 200:
            break
    c.same(reply.status, 200, "more trees than are kept: the oldest make room")


def main():
    cove = c.Cove()
    box = cove.create()
    for part in (streams, storm, refusals, checks):
        c.note(part.__name__)
        part(cove, box)
    watch = Watch(cove, box, path="/workspace")
    c.same(cove.delete(box).status, 204, "a watched sandbox is deleted")
    c.ok(c.until(lambda: not watch.queue.empty() and watch.queue.queue[-1] is None),
         "and its watch ends")
    c.same(cove.close(), 0, "cove stops cleanly")
    c.done()


main()
