#!/usr/bin/env python3
"""Group W: tenants at work inside of a sandbox, through sockets, streams and expressions."""
import json
import os
import sys
import threading
import time

from rows import c, PATIENCE, play, row

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import wsclient  # noqa: E402

MIB = 1 << 20


def rss(stage):
    pid = stage.cove.children()["daemon"]
    with open("/proc/%d/status" % pid, errors="replace") as status:
        return int([line for line in status if line.startswith("VmRSS")][0].split()[1]) * 1024


def socket_to(stage, box, room):
    return wsclient.WebSocket(stage.cove, "/v1/sandboxes/%s/%s" % (box["id"], room), timeout=30)


def slowest_health(stage, during):
    """The longest that the health route took while `during` ran; seconds."""
    worst, running = [0.0], [True]

    def ask():
        while running[0]:
            begin = time.monotonic()
            stage.cove.get("/v1/health")
            worst[0] = max(worst[0], time.monotonic() - begin)
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        during()
    finally:
        running[0] = False
        asker.join()
    return worst[0]


@row("W-01", "messages that never end, on many sockets, do not fill the daemon's memory")
def half_messages(stage):
    box = stage.box()
    piece, frames = b"a" * (4 * MIB), []

    def begin(pieces):
        ws = socket_to(stage, box, "ws")
        if not frames:  # masking one takes longer than sending it
            frames.extend(ws.frame(opcode, piece, final=False) for opcode in (wsclient.TEXT, 0))
        try:
            ws.raw(frames[0])
            for _ in range(pieces - 1):
                ws.raw(frames[1])
        except OSError:  # it was told to come back later
            ws.cut()
            return None
        return ws
    whole = begin(10)
    whole.raw(whole.frame(0, b"", final=True))
    answer = json.loads(whole.recv())
    stage.twin(answer["code"] == "PARSE_ERROR", "a large message alone is read to its end", answer)
    whole.cut()
    before = rss(stage)
    count = 8 if c.SHORT else 24
    sockets = [begin(13) for _ in range(count)]
    grown = rss(stage) - before
    c.ok(grown < 340 * MIB, "W-01: %d sockets with 52 MiB each do not add up" % count, grown // MIB)
    for ws in filter(None, sockets):
        ws.cut()
    if not c.SHORT:
        c.ok(c.until(lambda: rss(stage) < before + 48 * MIB), "W-01: and it gives that back", rss(stage) // MIB)


@row("W-02", "a message of millions of values costs no more than its bytes")
def many_values(stage):
    box = stage.box()

    def message(values):
        return b'["push",["pipeline",0,["utils","ping"],[[' + b",".join([b"[]"] * values) + b"]]]]"

    # Put together before anybody looks at the clock: that takes this process itself a second.
    def call(ws, frame):
        ws.raw(frame)
        ws.raw(ws.frame(wsclient.TEXT, b'["pull",1]'))
        answer = ws.recv()
        ws.cut()
        return answer
    ws = socket_to(stage, box, "rpc")
    answer = call(ws, ws.frame(wsclient.TEXT, message(1000)))
    stage.twin(json.loads(answer)[0] != "abort", "a thousand values are read", answer)
    ws = socket_to(stage, box, "rpc")
    frame = ws.frame(wsclient.TEXT, message(7000000))
    before, answers = rss(stage), []
    took = slowest_health(stage, lambda: answers.append(call(ws, frame)))
    c.ok(json.loads(answers[0])[0] == "abort", "W-02: it is refused", answers[0][:300])
    c.ok(took < 0.3 * PATIENCE, "W-02: nobody waits for it", took)
    c.ok(rss(stage) - before < 64 * MIB, "W-02: no tree of it was made", (rss(stage) - before) // MIB)
    ended = socket_to(stage, box, "rpc")
    try:  # answers that nobody pulls, and streams that nobody reads
        for _ in range(5000):
            ended.raw(ended.frame(wsclient.TEXT, b'["push",["pipeline",0,["no","such"],[]]]'))
        farewell = ended.recv()
    except (OSError, wsclient.Closed):
        farewell = '["abort"]'
    c.ok(json.loads(farewell)[0] == "abort", "W-02: calls that nobody pulls have an end", farewell)
    ended.cut()
    pipes = socket_to(stage, box, "rpc")
    try:
        for _ in range(5000):
            pipes.raw(pipes.frame(wsclient.TEXT, b'["pipe"]'))
        farewell = pipes.recv()
    except (OSError, wsclient.Closed):
        farewell = '["abort"]'
    c.ok(json.loads(farewell)[0] == "abort", "W-02: so have streams that nobody reads", farewell)
    pipes.cut()


@row("W-03", "a field with a line in it reaches no server")
def split_field(stage):
    box = stage.box()
    stage.cove.run(box, "cat > /tmp/s.py", stdin="""
import socket
door = socket.create_server(("127.0.0.1", 8077))
while True:
    guest, _ = door.accept()
    seen = repr(guest.recv(65536)).encode()
    guest.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(seen) + seen)
    guest.close()
""")
    stage.cove.run(box, "setsid python3 /tmp/s.py >/dev/null 2>&1 </dev/null & "
                        "until (exec 3<>/dev/tcp/127.0.0.1/8077) 2>/dev/null; do sleep 0.05; done")
    ws = socket_to(stage, box, "ws")

    def ask(headers):
        ws.raw(ws.frame(wsclient.TEXT, json.dumps({"type": "request", "id": "1", "method": "GET", "path": "/proxy/8077/a",
                                                   "headers": headers}).encode()))
        return json.loads(ws.recv())
    good = ask({"X-A": "b"})
    stage.twin(good["status"] == 200 and "X-A: b" in good["body"], "a field without one does", good)
    for bad in ({"X-A": "b\r\nX-Evil: 1"}, {"X-A\r\nX-Evil": "1"}, {"X A": "1"}, {"X-A": "b\nc"}):
        answer = ask(bad)
        c.ok(answer["status"] == 400, "W-03: %r" % bad, answer)
    ws.cut()


@row("W-04", "an expression that takes long keeps its time, and no file waits for it")
def slow_expression(stage):
    box, other = stage.box(), stage.box()
    base = "/v1/sandboxes/%s/api/process/" % box["id"]
    stage.cove.post(base + "start", {"command": "while :; do head -c 15000 /dev/zero | tr '\\0' z; echo; done", "processId": "p"})

    def hunt(expression, ms):
        begin = time.monotonic()
        reply = stage.cove.post(base + "p/wait-log", {"regex": expression, "timeoutMs": ms}, timeout=60)
        return reply, time.monotonic() - begin
    reply, _ = hunt("z+", 5000)
    stage.twin(reply.status == 200, "a plain expression finds its line", reply)
    wide = "([%s]{1,400}){2}Q" % "".join(chr(0x100 + 2 * i) for i in range(300))
    reply, _ = hunt(wide, 1000)
    c.ok(reply.status == 400, "W-04: one that is held against too much is refused", reply)
    heavy = "([\u0100\u0102\u0104z]{1,450}){2}Q"
    seen = []
    hunters = [threading.Thread(target=lambda: seen.append(hunt(heavy, 2000))) for _ in range(24)]
    for hunter in hunters:
        hunter.start()
    time.sleep(0.5)
    slow = 0.0
    for _ in range(10):
        begin = time.monotonic()
        reply = stage.cove.request("PUT", "/v1/sandboxes/%s/api/files/workspace/x" % other["id"], b"x" * 300000,
                                   headers={"Content-Type": "application/octet-stream"})
        slow = max(slow, time.monotonic() - begin)
        c.ok(reply.status == 200, "W-04: a file is written meanwhile", reply)
    for hunter in hunters:
        hunter.join()
    c.ok(slow < 0.2 * PATIENCE, "W-04: at once", slow)
    c.ok(len(seen) == 24 and max(took for _, took in seen) < 2 + 1 * PATIENCE, "W-04: each wait ends in its time",
         sorted(took for _, took in seen)[-3:], seen[0])
    stage.cove.request("DELETE", base + "kill-all")


@row("W-05", "the credential of a path is in no log, however it is misspelt")
def spelled(stage):
    box = stage.box()
    token = box["token"]
    good = stage.cove.get("/v1/t/%s/sandboxes/%s/api/ping" % (token, box["id"]), key=False)
    stage.twin(good.status == 200, "spelt rightly it opens", good)
    for path in ("/v1//t/%s/sandboxes/x", "//v1/t/%s/sandboxes/x", "/v1/T/%s/sandboxes/x", "/V1/t/%s/x", "/v1/%%74/%s/sandboxes/x",
                 "/x/%s", "/v1/sandboxes/%s", "/v1/sandboxes/%s/api/ping", "/%s"):
        for key in (False, True):
            reply = stage.cove.get(path % token, key=key)
            c.ok(reply.status in (400, 401, 404, 429), "W-05: %s" % path, reply)
    c.ok(token[len("covebox_"):][:24] not in stage.cove.log_text(), "W-05: no line of the log has it")


@row("W-06", "a server behind /proxy learns no credential of the path, and a credential can be ended early")
def referred(stage):
    box = stage.box()
    stage.cove.run(box, "cat > /tmp/s.py", stdin="""
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen = repr(self.headers.items()).encode()
        self.send_response(200)
        self.send_header("Referrer-Policy", "unsafe-url")
        self.send_header("Content-Length", str(len(seen)))
        self.end_headers()
        self.wfile.write(seen)
http.server.HTTPServer(("127.0.0.1", 8078), Page).serve_forever()
""")
    stage.cove.run(box, "setsid python3 /tmp/s.py >/dev/null 2>&1 </dev/null & "
                        "until (exec 3<>/dev/tcp/127.0.0.1/8078) 2>/dev/null; do sleep 0.05; done")

    def visit(token):
        path = "/v1/t/%s/sandboxes/%s/proxy/8078/" % (token, box["id"])
        return stage.cove.get(path, key=False, headers={"Referer": stage.cove.url + path, "X-Own": "seen"})
    reply = visit(box["token"])
    stage.twin(reply.status == 200 and b"X-Own" in reply.body, "the page is shown, and other fields are passed", reply)
    c.ok(b"covebox_" not in reply.body and b"Referer" not in reply.body, "W-06: the server is not told where the page is", reply)
    c.same(reply.headers.get_all("Referrer-Policy"), ["no-referrer"], "W-06: the browser tells nobody, whatever the server says")
    told = stage.cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"rotateToken": True}).json
    c.ok(told["token"] != box["token"] and told["token"] in told["baseUrl"], "W-06: a credential is ended, and there is another", told)
    c.same((visit(box["token"]).status, visit(told["token"]).status), (401, 200), "W-06: the old one opens nothing, the new one does")


play()
