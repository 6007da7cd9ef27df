#!/usr/bin/env python3
"""No stream of events stays silent: each that the API describes sends a comment line after 15 s without an event, whatever its
handler waits for, so that proxies do not close it. The comments stand between events. A stream that is not in STREAMS fails here."""
import http.client
import json
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import agent_sessions  # noqa: E402
import cove as c  # noqa: E402
import routes  # noqa: E402

c.need_root()
c.need_programs("python3")
SCALE = 25  # 0.6 s of silence; a port's watch looks twice a second, and has nothing to say
BEATS = 3

with open(os.path.join(c.ROOT, "docs", "openapi.json")) as file:
    DOC = json.load(file)


def described():
    """(method, path) of every operation that answers with events."""
    for path, item in DOC["paths"].items():
        for method, operation in item.items():
            if isinstance(operation, dict) and any("text/event-stream" in reply.get("content", {}) or "application/x-ndjson" in reply.get("content", {})
                                                   for reply in operation.get("responses", {}).values()):
                yield method.upper(), path


class Open:
    """A stream, line by line."""

    def __init__(self, method, path, body=None):
        self.conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=60)
        self.conn.request(method, path, json.dumps(body) if body is not None else None,
                          {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json", "Accept": "text/event-stream"})
        self.reply = self.conn.getresponse()
        self.lines = []

    def line(self):
        line = self.reply.readline()
        if line:
            self.lines.append(line.rstrip(b"\r\n"))
        return line

    def beats(self, wanted=BEATS):
        """Reads until that many comments came in a row."""
        beats = 0
        while beats < wanted:
            line = self.line()
            if not line:
                return False
            beats = beats + 1 if line.startswith(b":") else beats if line == b"\n" else 0
        return True

    def between(self):
        """Whether each comment follows a whole event."""
        return all(not line.startswith(b":") or n == 0 or self.lines[n - 1] == b"" for n, line in enumerate(self.lines))

    def close(self):
        self.conn.close()


registry = socket.create_server(("127.0.0.1", 0))
cove = agent_sessions.start(scale=SCALE)
box = cove.create(name="silent", keepAlive=True)
base = "/v1/sandboxes/silent"
cove.post(base + "/api/process/start", {"processId": "quiet", "command": "sleep 600"})
cove.post(base + "/api/session/create", {"id": "shell"})
cove.run(box, "(sleep 600; echo) &", sessionId="shell")
python = cove.post(base + "/api/contexts", {"language": "python"}).json
python = python.get("id") or python.get("contextId")
CELL = {"context_id": python, "code": "import time; time.sleep(600)"}
talk = agent_sessions.Session(cove)
run = talk.run("silent")
bridge = cove.post("/v1/sandbox").json["id"]
execution = "/v1/executions/" + cove.post("/v1/executions", {"command": "echo begun; sleep 600"}).json["id"]
cove.get(execution + "/wait?for=running")
agent = cove.post("/v1/agent-runs", {"sandbox": "silent", "argv": ["sleep", "600"]}).json["id"]
c.until(lambda: cove.get(execution + "/logs").status == 200, 60)


def cell():
    """The events of the cell that runs."""
    path = "%s/api/contexts/%s/cells" % (base, python)
    c.until(lambda: cove.get(path).json["cells"], 60)
    return "GET", "%s/%s" % (path, cove.get(path).json["cells"][-1]["cell"])


def pull():
    """The events of a pull from a registry that takes the connection and says nothing."""
    image = "127.0.0.1:%d/app" % registry.getsockname()[1]
    return "GET", "/v1/operations/%s/events" % cove.post("/v1/templates?wait=false", {"image": image, "name": "never"}).json["id"]


# How each stream is made silent: method and pattern to a request of it. The cell comes before its events.
STREAMS = {
    ("GET", "/v1/events"): lambda: ("GET", "/v1/events?follow=true&kind=no.such.kind"),
    ("GET", "/v1/sandboxes/{id}/egress"): lambda: ("GET", base + "/egress?follow=true"),
    ("GET", "/v1/agent-sessions/{id}/runs/{run}/events"): lambda: ("GET", "%s/runs/%s/events" % (talk.path, run)),
    ("POST", "/v1/sandboxes/{id}/api/execute/stream"): lambda: ("POST", base + "/api/execute/stream", {"command": "echo one; sleep 600"}),
    ("GET", "/v1/sandboxes/{id}/api/process/{process}/stream"): lambda: ("GET", base + "/api/process/quiet/stream"),
    ("GET", "/v1/sandboxes/{id}/api/session/{session}/output"): lambda: ("GET", base + "/api/session/shell/output"),
    ("POST", "/v1/sandboxes/{id}/api/port-watch"): lambda: ("POST", base + "/api/port-watch", {"port": 9, "processId": "quiet", "interval": 100}),
    ("POST", "/v1/sandboxes/{id}/api/execute/code"): lambda: ("POST", base + "/api/execute/code", CELL),
    ("GET", "/v1/sandboxes/{id}/api/contexts/{context}/cells/{cell}"): cell,
    ("POST", "/v1/sandboxes/{id}/api/watch"): lambda: ("POST", base + "/api/watch", {"path": "/workspace"}),
    ("GET", "/v1/agent-runs/{id}/stream"): lambda: ("GET", "/v1/agent-runs/%s/stream" % agent),
    ("GET", "/v1/executions/{id}/logs"): lambda: ("GET", execution + "/logs"),
    ("GET", "/v1/executions/{id}/events"): lambda: ("GET", execution + "/events"),
    ("GET", "/v1/operations/{id}/events"): pull,
    ("POST", "/v1/sandbox/{id}/exec"): lambda: ("POST", "/v1/sandbox/%s/exec" % bridge, {"argv": ["sh", "-lc", "echo one; sleep 600"]}),
}
# These are never silent: they send a file that is there, or numbers each second.
LOUD = {("POST", "/v1/sandboxes/{id}/api/read/stream"), ("GET", "/v1/sandboxes/{id}/stats"), ("GET", "/v1/stats")}

known = {(route.method, route.pattern) for route in routes.table()}
streams = list(described())
c.same([each for each in streams if each not in known], [], "every described stream is a route")
c.same(sorted(each for each in streams if each not in STREAMS and each not in LOUD), [], "every described stream is tried here")
c.same(sorted(each for each in STREAMS if each not in streams), [], "and every one that is tried is described")

opened = {}
for where, ask in STREAMS.items():
    opened[where] = Open(*ask())
    c.same(opened[where].reply.status, 200, "%s %s is a stream" % where)
for where, stream in opened.items():
    c.ok(stream.beats() and stream.between(), "%s %s sends comments while it is silent, between events" % where, stream.lines[-20:])

# An event after the comments arrives whole.
cove.run(box, "touch /workspace/late")
late = opened["POST", "/v1/sandboxes/{id}/api/watch"]
while not any(b"late" in line for line in late.lines) and late.line():
    pass
c.ok(any(line.startswith(b"data: ") and json.loads(line[6:])["path"].endswith("late") for line in late.lines if b"late" in line),
     "an event after the comments is whole", late.lines[-5:])

# The handler is woken all the time and has nothing to send: others' events are not its own.
busy = threading.Event()


def stir():
    while not busy.is_set():
        cove.request("PATCH", base, {"labels": {"n": "x"}})


stirrer = threading.Thread(target=stir, daemon=True)
stirrer.start()
c.ok(opened["GET", "/v1/events"].beats(5), "others' events do not keep a stream silent")
busy.set()
stirrer.join()

# The stream of a server in the sandbox is passed on as it is.
APP = """
import http.server, time
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: 1\\n\\n")
        self.wfile.flush()
        time.sleep(0 if self.path == "/quick" else 3)
        self.wfile.write(b"data: 2\\n\\n")
http.server.HTTPServer(("127.0.0.1", 8123), App).serve_forever()
"""
cove.post(base + "/api/process/start", {"processId": "app", "argv": ["python3", "-c", APP]})
c.until(lambda: cove.get(base + "/proxy/8123/quick").status == 200, 60)
c.same(cove.get(base + "/proxy/8123/slow").body, b"data: 1\n\ndata: 2\n\n", "the stream of a server in the sandbox is passed on as it is")

# HTTP/1.0: a reply without chunks.
got = b""
with __import__("socket").create_connection(("127.0.0.1", cove.port), timeout=60) as old:
    old.sendall(("GET /v1/events?follow=true&kind=no.such.kind HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % cove.key)
                .replace("Host: x", "Host: 127.0.0.1:%d" % cove.port).encode())
    while got.count(b":\n\n") < BEATS + 1:
        more = old.recv(4096)
        if not more:
            break
        got += more
c.ok(got.count(b":\n\n") > BEATS and b"chunked" not in got, "so does the stream of an HTTP/1.0 client", got[-200:])

for stream in opened.values():
    stream.close()
cove.post(execution + "/cancel")
for each in ("silent", bridge):
    cove.delete(each)
cove.request("DELETE", talk.path)
c.same(cove.close(), 0, "cove ends well")
c.done()
