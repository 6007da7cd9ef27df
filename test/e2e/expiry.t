#!/usr/bin/env python3
"""A key that ends, by its time or by being revoked, takes with it whatever it had open: streams, sockets, terminals.
What others have open goes on."""
import http.client
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import wsclient  # noqa: E402

cove = s.start()
cove.request("PUT", "/v1/tenants/acme", {"host": True})
maker = cove.post("/v1/keys", {"tenant": "acme"}).json["key"]
box = cove.request("POST", "/v1/sandboxes", {}, key=maker).json
inside = "/v1/sandboxes/%s" % box["id"]
made = cove.request("POST", "/v1/agent-sessions", {"user": "u", "runner": {"argv": s.runner.argv()}}, key=maker).json
talk = "/v1/agent-sessions/" + made["id"]
run = cove.request("POST", talk + "/runs", {"input": {"do": "hang"}}, key=maker).json["id"]
c.ok(c.until(lambda: cove.get(talk, key=maker).json["lease"]["state"] == "active"), "a run that lasts")
job = cove.request("POST", inside + "/api/process/start", {"command": "sleep 600"}, key=maker).json["processId"]


class Open:
    """Something that a key has open; `ended` is when it was cut."""

    def __init__(self, name, secret, method, path, body=None):
        self.name, self.ended, self.got = name, None, b""
        if method == "WS":
            self.ws = wsclient.WebSocket(cove, path, key=secret, timeout=60)
            self.sock, self.got = self.ws.sock, self.ws.rest
        else:
            self.conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=60)
            head = {"Authorization": "Bearer " + secret, "Content-Type": "application/json"}
            self.conn.request(method, path, body, head)
            self.sock = self.conn.sock
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        try:
            while True:
                got = self.sock.recv(65536)
                if not got:
                    break
                self.got += got
        except OSError:
            pass
        self.ended = time.time()


WAYS = (
    ("events of the tenant", "GET", "/v1/events?follow=true", None),
    ("a command as events", "POST", inside + "/api/execute/stream", '{"command": "echo on; sleep 600"}'),
    ("a command that is waited for", "POST", inside + "/api/execute", '{"command": "sleep 600", "sessionId": "__DISABLE_SESSION__"}'),
    ("a process's output", "GET", inside + "/api/process/%s/stream" % job, None),
    ("events of a run", "GET", "%s/runs/%s/events" % (talk, run), None),
    ("requests on a WebSocket", "WS", inside + "/ws", None),
    ("a terminal", "WS", inside + "/ws/pty?command=cat&terminal=mine", None),
    ("a session's terminal", "WS", talk + "/terminal", None),
)


def open_all(secret):
    return [Open(name, secret, method, path, body) for name, method, path, body in WAYS]


def key(**fields):
    return cove.post("/v1/keys", dict(fields, tenant="acme")).json


witness = open_all(maker)
lasting = open_all(key(expiresIn=600)["key"])
begun = time.time()
short = key(expiresIn=3)
doomed = open_all(short["key"])
c.ok(time.time() < begun + 2.5, "all is open before the key expires")
c.ok(c.until(lambda: all(o.got or o.name.startswith("a command that") or o.name in ("events of the tenant", "requests on a WebSocket")
                         for o in doomed)), "and working", [(o.name, o.got[:40]) for o in doomed])
c.ok(not any(o.ended for o in doomed), "nothing is cut before its time", [(o.name, o.got[-100:]) for o in doomed if o.ended])
c.until(lambda: all(o.ended for o in doomed))
for o in doomed:
    c.ok(o.ended and 2.8 < o.ended - begun < 6, "expiry cuts %s" % o.name, o.ended and o.ended - begun)
c.same(cove.get(inside, key=short["key"]).status, 401, "and opens nothing more")

second = key()
doomed = open_all(second["key"])
time.sleep(0.3)
c.ok(not any(o.ended for o in doomed), "another key has it all open")
begun = time.time()
c.same(cove.request("DELETE", "/v1/keys/" + second["id"]).status, 204, "the key is revoked")
c.until(lambda: all(o.ended for o in doomed))
for o in doomed:
    c.ok(o.ended and o.ended - begun < 3, "revocation cuts %s" % o.name, o.ended and o.ended - begun)

c.same([o.name for o in witness + lasting if o.ended], [], "streams of other keys go on")
c.same(cove.request("GET", inside + "/api/process/%s" % job, key=maker).json["process"]["status"], "running",
       "and so does what runs: it belongs to the sandbox")

# ------------------------------------------------------------------- over a restart the time still counts
begun = time.time()
third = key(expiresIn=5)
s.kill_daemon(cove)
late = Open("late", third["key"], "WS", inside + "/ws/pty?command=cat&terminal=late", None)
c.until(lambda: late.ended)
c.ok(late.ended and 4.8 < late.ended - begun < 9, "a daemon that was started since cuts it, too", late.ended and late.ended - begun)
c.done()
