#!/usr/bin/env python3
"""Ports of a sandbox: readiness by events, exposed ports, and the proxy."""
import http.client
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

SERVER = r'''
import http.server, socketserver, sys, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, status, body, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
    def do_GET(self):
        if self.path.startswith("/status/"):
            return self.reply(int(self.path[8:11]), b"")
        if self.path == "/chunks":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for n in range(5):
                self.wfile.write(b"7\r\npart %d\n\r\n" % n)
                self.wfile.flush()
                time.sleep(0.05)
            return self.wfile.write(b"0\r\n\r\n")
        if self.path == "/die":
            return self.wfile.write(b"nonsense\r\n\r\n")
        text = "%s %s\n%s" % (self.command, self.path, self.headers)
        self.reply(200, text.encode(), X_Own="yes", Connection="X-Hop", X_Hop="no", Set_Cookie="a=b")
    do_HEAD = do_GET
    do_DELETE = do_GET
    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            total = 0
            while True:
                size = int(self.rfile.readline(), 16)
                self.rfile.read(size + 2)
                total += size
                if not size:
                    break
        else:
            total = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(201, b"%d" % total)
    do_PUT = do_POST
    def log_message(self, *args):
        pass
class S(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
S(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
'''


def serve(cove, box, port, after=0):
    """Starts the server above as a process; its id."""
    base = "/v1/sandboxes/" + box["id"]
    reply = cove.post(base + "/api/process/start",
                      {"command": "exec python3 /workspace/server.py %d %g" % (port, after)})
    return reply.json["processId"]


def watch(cove, box, seconds=20, **fields):
    """The events of a watch; the Reply when it is refused."""
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=seconds)
    conn.request("POST", "/v1/sandboxes/%s/api/port-watch" % box["id"], json.dumps(fields),
                 {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"})
    answer = conn.getresponse()
    if answer.status != 200:
        return c.Reply(answer.status, answer.headers, answer.read())
    found = [json.loads(line[6:]) for line in answer if line.startswith(b"data: ")]
    conn.close()
    return found


def readiness(cove, box):
    process = serve(cove, box, 4001, after=0.7)
    begin = time.monotonic()
    events = watch(cove, box, port=4001, mode="tcp", processId=process, interval=100)
    c.ok(events == [{"type": "watching", "port": 4001}, {"type": "ready", "port": 4001}] and
         0.4 < time.monotonic() - begin < 10, "a port is waited for", events)
    events = watch(cove, box, port=4001, mode="http", path="/x?y=1")
    c.same(events[-1], {"type": "ready", "port": 4001, "statusCode": 200}, "and asked over HTTP")
    events = watch(cove, box, port=4001, mode="http", path="/status/404", statusMin=400, statusMax=499)
    c.same(events[-1], {"type": "ready", "port": 4001, "statusCode": 404}, "by its status")
    for path in ("status/404", ""):
        events = watch(cove, box, port=4001, mode="http", path=path, statusMin=200, statusMax=499)
        c.same(events[-1].get("statusCode"), 404 if path else 200, "%r begins at the root" % path)
    ended = {}

    def wait():
        ended["events"] = watch(cove, box, port=4001, mode="http", path="/status/500", interval=100,
                                processId=process)
        ended["at"] = time.monotonic()
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    cove.request("DELETE", "/v1/sandboxes/%s/api/process/%s" % (box["id"], process))
    killed = time.monotonic()
    thread.join(20)
    c.ok(ended["events"][-1]["type"] == "process_exited" and "exitCode" in ended["events"][-1] and
         ended["at"] - killed < 1, "the end of the process ends the watch, at once", ended)
    events = watch(cove, box, port=4001, mode="tcp", processId=process)
    c.same(events[-1]["type"], "process_exited", "and is known afterwards")
    events = watch(cove, box, port=4001, mode="tcp", processId="none")
    c.same(events, [{"type": "watching", "port": 4001},
                    {"type": "error", "port": 4001, "error": "Process not found"}],
           "a process that is not there is an error")
    for bad in ({"port": 0}, {"port": 70000}, {"port": "x"}, {}, {"port": 1, "mode": "udp"},
                {"port": 1, "path": "/a b"}, {"port": 1, "path": "/\r\nX: y"},
                {"port": 1, "statusMin": 5}, {"port": 1, "interval": "x"}, {"port": 1, "processId": 7}):
        reply = watch(cove, box, **bad)
        c.ok(isinstance(reply, c.Reply) and reply.status == 400 and
             reply.json["code"] == "VALIDATION_FAILED" and reply.json["context"]["validationErrors"],
             "%s is refused" % json.dumps(bad), reply)
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=5)
    conn.request("POST", "/v1/sandboxes/%s/api/port-watch" % box["id"],
                 json.dumps({"port": 9, "mode": "tcp", "interval": 100}),
                 {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"})
    conn.getresponse().readline()
    before = cove.get("/v1/health").json
    conn.close()
    c.ok(before["status"] == "ok", "a client that leaves ends its watch")


def register(cove, box):
    base = "/v1/sandboxes/" + box["id"]
    made = cove.post(base + "/api/expose-port", {"port": 4002, "name": "web"})
    c.ok(made.status == 200 and made.json["success"] and made.json["url"] == "http://localhost:4002",
         "a port is exposed", made)
    again = cove.post(base + "/api/expose-port", {"port": 4002})
    c.ok(again.status == 409 and again.json["code"] == "PORT_ALREADY_EXPOSED" and
         again.json["context"] == {"port": 4002, "portName": "web"}, "once", again)
    for bad in (0, 3000, 65536, -1, 1.5, "80", None):
        reply = cove.post(base + "/api/expose-port", {"port": bad})
        c.ok(reply.status == 400 and reply.json["code"] == "INVALID_PORT_NUMBER" and
             reply.json["context"]["reason"], "%r is no port" % bad, reply)
    cove.post(base + "/api/expose-port", {"port": 80})
    found = cove.get(base + "/api/exposed-ports?session=x").json
    c.same([(p["port"], p["url"], p["status"]) for p in found["ports"]],
           [(80, "http://localhost:80", "active"), (4002, "http://localhost:4002", "active")],
           "exposed ports are listed")
    gone = cove.request("DELETE", base + "/api/exposed-ports/80")
    c.ok(gone.status == 200 and gone.json["port"] == 80, "and taken back", gone)
    gone = cove.request("DELETE", base + "/api/exposed-ports/80")
    c.ok(gone.status == 404 and gone.json["code"] == "PORT_NOT_EXPOSED" and
         gone.json["context"] == {"port": 80}, "once", gone)
    c.same(cove.request("DELETE", base + "/api/exposed-ports/x").json["code"], "INVALID_PORT_NUMBER",
           "a word is no port")


def proxy(cove, box):
    base = "/v1/sandboxes/%s/proxy/" % box["id"]
    reply = cove.get(base + "4009")
    c.ok(reply.status == 404 and reply.json["error"] == "Port not found" and reply.json["port"] == 4009,
         "a port that nobody has is not found", reply)
    cove.post("/v1/sandboxes/%s/api/expose-port" % box["id"], {"port": 4009})
    reply = cove.get(base + "4009/x")
    c.ok(reply.status == 502 and reply.json["error"] == "Proxy error", "an exposed one does not answer", reply)
    serve(cove, box, 4003)
    watch(cove, box, port=4003, mode="tcp", interval=100)
    listed = cove.get("/v1/sandboxes/%s/api/ports" % box["id"]).json
    c.ok(listed["success"] and {"port": 4003, "address": "loopback", "exposed": False} in listed["ports"],
         "listening ports are listed", listed)
    reply = cove.get(base + "4003/a%20b/../c?x=1&y=%2f", headers={"X-Mine": "1", "Connection": "X-Gone",
                                                                  "X-Gone": "1"})
    text = reply.body.decode()
    c.ok(reply.status == 200 and text.startswith("GET /a%20b/../c?x=1&y=%2f\n"), "path and query pass", text)
    c.ok("X-Mine: 1" in text and "X-Gone" not in text and "Host: localhost:4003" in text, "headers too", text)
    c.ok("Authorization" not in text and cove.key not in text, "but not the key", text)
    c.ok(reply.headers["X-Own"] == "yes" and "X-Hop" not in reply.headers and
         "sandbox" in reply.headers["Content-Security-Policy"], "its headers come back", reply.headers)
    c.ok(cove.get(base + "4003").body.startswith(b"GET /\n"), "no path is the root")
    c.ok(cove.get(base + "4003/").body.startswith(b"GET /\n"), "nor is a slash")
    c.same(cove.request("HEAD", base + "4003/h").body, b"", "HEAD has no body")
    c.ok(cove.request("DELETE", base + "4003/d").body.startswith(b"DELETE /d\n"), "DELETE passes")
    data = os.urandom(2 << 20)
    raw = {"Content-Type": "application/octet-stream"}
    reply = cove.request("POST", base + "4003/up", data, headers=raw, raw=True)
    c.ok(reply.status == 201 and reply.body == b"%d" % len(data), "bodies stream in", reply)
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=20)
    conn.request("PUT", base + "4003/up", (b"x" * 1000 for _ in range(500)),
                 {"Authorization": "Bearer " + cove.key}, encode_chunked=True)
    c.same(conn.getresponse().read(), b"500000", "in chunks, too")
    c.same(cove.get(base + "4003/chunks").body, b"".join(b"part %d\n" % n for n in range(5)), "and out")
    c.same(cove.get(base + "4003/status/204").status, 204, "204 is 204")
    c.same(cove.get(base + "4003/status/304").status, 304, "304 is 304")
    c.same(cove.get(base + "4003/die").status, 502, "nonsense is 502")
    c.same(cove.get(base + "x/").status, 404, "a word is no port")
    path = "/" + box["baseUrl"].split("/", 3)[3] + "/proxy/4003/q"
    reply = cove.get(path, key="its-own")
    c.ok(reply.status == 200 and b"Authorization: Bearer its-own" in reply.body and
         b"covebox_" not in reply.body, "by the path's credential an application's own bearer passes", reply.body)


def main():
    c.need_root()
    cove = c.Cove()
    cove.delete(cove.create())
    before = c.calm(cove)
    box = cove.create(name="first")
    cove.run(box, ["sh", "-c", "cat > /workspace/server.py"], stdin=SERVER)
    for part in sys.argv[1:] or ["readiness", "register", "proxy"]:
        globals()[part](cove, box)
    cove.delete(box)
    c.same(c.settled(before, cove), {}, "the census is as before")
    c.same(cove.close(), 0, "cove ends with status 0")
    c.done()


if __name__ == "__main__":
    main()
