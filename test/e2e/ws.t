#!/usr/bin/env python3
"""The WebSocket transport: requests multiplexed on one socket, streams, cancellation, malformed
frames, authentication, and the end of the server."""
import json
import os
import sys
import threading
import time
from urllib.parse import urlsplit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cove import Cove, SHORT, done, note, ok, same  # noqa: E402
from wsclient import Refused, TEXT, WebSocket  # noqa: E402

cove = Cove()
box = cove.create()
ROOT = "/v1/sandboxes/%s" % box["id"]
NONE = "__DISABLE_SESSION__"


def connect(path="/ws", **kw):
    return WebSocket(cove, ROOT + path, **kw)


def request(ws, id, path, body=None, method="POST", **more):
    ws.send(dict({"type": "request", "id": id, "method": method, "path": path},
                 **dict({"body": body} if body is not None else {}, **more)))


def ask(ws, id, path, body=None, method="POST", **more):
    request(ws, id, path, body, method, **more)
    return ws.json()


def refused(path="/ws", **kw):
    try:
        connect(path, **kw).close()
    except Refused as answer:
        return answer.status
    return 101


def execute(command, **more):
    return dict({"command": command, "sessionId": NONE}, **more)


# ---- plain requests
ws = connect()
answer = ask(ws, "a", "/api/ping", method="GET")
same([answer["type"], answer["id"], answer["status"], answer["done"]], ["response", "a", 200, True],
     "a plain answer is one response frame")
same(answer["body"]["status"], "healthy", "the body is JSON inside of the frame")
answer = ask(ws, "b", "/api/execute", execute("echo out; echo err >&2; exit 3"))
same([answer["status"], answer["body"]["exitCode"], answer["body"]["stdout"], answer["body"]["stderr"]],
     [200, 3, "out\n", "err\n"], "a command runs to its end")
answer = ask(ws, "c", "/api/execute", {"command": 7})
same([answer["status"], answer["body"]["code"]], [400, "VALIDATION_FAILED"],
     "an error of the handler is a response with its status")
answer = ask(ws, "d", "/api/nothing", method="GET")
same([answer["type"], answer["status"], answer["body"]["code"]], ["response", 404, "UNKNOWN_ERROR"],
     "an unknown path is a 404")
answer = ask(ws, "nul", "/api/write", {"path": "/workspace/nul", "content": "a\0b"})
same(answer["status"], 200, "a NUL in a file is no fault of the message")
answer = ask(ws, "nul", "/api/read", {"path": "/workspace/nul", "encoding": "utf8"})
same(answer["body"]["content"], "a\0b", "and comes back")
answer = ask(ws, "ü\"\\", "/api/ping?x=1", method="GET")
same(answer["id"], "ü\"\\", "an id is repeated as it was, whatever is in it")
answer = ask(ws, "e", "/ws", method="GET")
same(answer["status"], 404, "a WebSocket path inside of a WebSocket is a 404")
answer = ask(ws, "f", "/../../../v1/sandboxes", method="GET")
same(answer["status"], 404, "no path leads out of the sandbox")
answer = ask(ws, "g", "/api/execute", execute("printf 'x%.0s' $(seq 1 600000)"))
same([answer["status"], len(answer["body"]["stdout"])], [200, 600000], "a large answer comes whole")
answer = ask(ws, "h", "/", method="GET")
ok(isinstance(answer["body"], str), "a body that is no JSON comes as a string", answer)
big = "y" * 900000
answer = ask(ws, "i", "/api/execute", execute("wc -c", stdin=big))
same(answer["body"]["stdout"].strip(), "900000", "a large request is taken")
answer = ask(ws, "j", "/api/execute", execute("echo hi"), headers={"Content-Length": "3", "X-Trace-Id": "mine"})
same(answer["body"]["stdout"], "hi\n", "headers are handed on, but for the length")

# ---- invalid requests
for text, code in (("nonsense", "PARSE_ERROR"), ('{"type":"request"', "PARSE_ERROR"), ("{}", "INVALID_REQUEST"),
                   ("[]", "INVALID_REQUEST"), ('{"type":"other","id":"x"}', "INVALID_REQUEST"),
                   ('{"type":"request","method":"GET","path":"/api/ping"}', "INVALID_REQUEST"),
                   ('{"type":"request","id":"x","method":"get","path":"/api/ping"}', "INVALID_REQUEST"),
                   ('{"type":"request","id":"x","method":"GET","path":"api/ping"}', "INVALID_REQUEST"),
                   ('{"type":"request","id":"x","method":"GET","path":"/api/ping","headers":[]}', "INVALID_REQUEST"),
                   ('{"type":"request","id":"x","type":"request"}', "PARSE_ERROR"),
                   ('{"body":1,"type":"request","id":"x","body":2}', "INVALID_REQUEST")):
    ws.send(text)
    got = ws.json()
    same([got["type"], got["code"], got["status"]], ["error", code, 400], "%s is a %s" % (text[:50], code))
ws.send(b"\x00\x01")
same(ws.json()["code"], "PARSE_ERROR", "a binary message is a PARSE_ERROR")
ws.send('{"type":"cancel","id":"unknown"}')
same(ask(ws, "z", "/api/ping", method="GET")["status"], 200, "after all of that the socket works on")

# ---- streams
request(ws, "s", "/api/execute/stream", execute("echo one; sleep 0.05; echo two >&2; exit 4"))
events = []
while True:
    got = ws.json()
    if got["type"] != "stream":
        break
    same(got["id"], "s", "a stream frame carries its id")
    events.append(json.loads(got["data"]))
same([got["type"], got["status"], got["done"], "body" in got], ["response", 200, True, False],
     "a stream ends with a response without a body")
same([event["type"] for event in events], ["start", "stdout", "stderr", "complete"], "each event is a frame")
same(events[-1]["exitCode"], 4, "the last one has the exit code")

# ---- many at once
begin = time.monotonic()
for i in range(40):
    request(ws, "p%d" % i, "/api/execute", execute("sleep 2; echo %d" % i))
answers = {}
while len(answers) < 40:
    got = ws.json()
    answers[got["id"]] = got["body"]["stdout"]
took = time.monotonic() - begin
ok(all(answers["p%d" % i] == "%d\n" % i for i in range(40)), "forty requests have their own answers")
ok(took < 60, "requests run side by side", "%.2f s" % took)
for i in range(200):
    request(ws, "q%d" % i, "/api/ping", method="GET")
seen = {ws.json()["id"] for _ in range(200)}
same(len(seen), 200, "more than may run at once are queued, and all answered")
request(ws, "twice", "/api/execute", execute("sleep 0.3"))
request(ws, "twice", "/api/ping", method="GET")
got = ws.json()
same([got["type"], got["code"]], ["error", "INVALID_REQUEST"], "an id that is in use is refused")
same(ws.json()["id"], "twice", "and the first of it is answered")

# ---- cancellation
request(ws, "long", "/api/execute/stream", execute("echo begun; sleep 30"))
while json.loads(ws.json().get("data", "{}")).get("type") != "stdout":
    pass
begin = time.monotonic()
ws.send({"type": "cancel", "id": "long"})
got = ws.json()
same([got["type"], got["id"], got["status"], got["done"]], ["response", "long", 200, True],
     "a cancelled stream ends with its response")
ok(time.monotonic() - begin < 20, "at once")
request(ws, "plain", "/api/execute", execute("sleep 30"))
time.sleep(0.1)
ws.send({"type": "cancel", "id": "plain"})
got = ws.json()
same([got["type"], got["id"], got["code"]], ["error", "plain", "OPERATION_INTERRUPTED"],
     "a cancelled request is told as such")
same(ask(ws, "after", "/api/ping", method="GET")["status"], 200, "the socket works on")
same(ws.close(), 1000, "both sides say goodbye")

# ---- closing cancels
ws = connect("/api/ws")
for i in range(80):
    request(ws, "s%d" % i, "/api/execute/stream", execute("sleep 20"))
for _ in range(64):
    ws.json()
ws.cut()
other = connect()
begin = time.monotonic()
same(ask(other, "x", "/api/ping", method="GET")["status"], 200, "a socket that vanished with 80 streams harms no other")
other.close()
cove.run(box, "pkill sleep; true")

# ---- malformed frames
def spoil(data, code, name, split=False):
    bad = connect()
    if split:
        for i in range(len(data)):
            bad.raw(data[i:i + 1])
    else:
        bad.raw(data)
    same(bad.end(), code, name)
    bad.sock.close()


probe = connect()
spoil(probe.frame(TEXT, b"x", mask=False), 1002, "an unmasked frame closes with 1002")
spoil(probe.frame(TEXT, b"x", rsv=4), 1002, "a reserved bit closes with 1002")
spoil(probe.frame(3, b"x"), 1002, "an unknown opcode closes with 1002")
spoil(probe.frame(0, b"x"), 1002, "a continuation of nothing closes with 1002")
spoil(probe.frame(9, b"x", final=False), 1002, "a ping in fragments closes with 1002")
spoil(probe.frame(9, b"x" * 126), 1002, "a long ping closes with 1002")
spoil(probe.frame(TEXT, b"\xff\xfe"), 1007, "a text that is none closes with 1007")
spoil(probe.frame(TEXT, b"\xff\xfe"), 1007, "also byte by byte", split=True)
spoil(b"\x82\xff\x00\x00\x00\x01\x00\x00\x00\x00\0\0\0\0x", 1009, "four gigabytes announced close with 1009")
spoil(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1002, "HTTP on an upgraded connection is no HTTP")
spoil(probe.frame(8, b"\x03\xee"), 1002, "a close with a forbidden code closes with 1002")
probe.raw(probe.frame(9, b"are you there"))
same(probe.recv(), ("pong", b"are you there"), "a ping is answered with its own words")
probe.raw(probe.frame(TEXT, b'{"type":"request","id":"fr",', final=False) + probe.frame(9, b"p") +
          probe.frame(0, b'"method":"GET","path":"/api/ping"}'))
same(probe.recv(), ("pong", b"p"), "a ping between fragments is answered")
same(probe.json()["status"], 200, "and the message of the fragments served")
probe.close()

# ---- authentication
same(cove.get(ROOT + "/ws").status, 404, "a plain request to a WebSocket path is a 404")
same(cove.get(ROOT + "/api/ws").status, 404, "also at /api/ws")
same(refused(key=False), 401, "without a key there is no socket")
same(refused(key="wrong"), 401, "nor with a wrong one")
same(refused(headers={"Host": "evil.example"}), 421, "a foreign Host is refused")
same(refused(headers={"Origin": "http://evil.example"}), 403, "a foreign Origin is refused")
same(refused(headers={"Origin": "http://127.0.0.1:%d" % cove.port}), 101, "our own is not")
same(refused(headers={"Sec-WebSocket-Version": "8"}), 426, "another version is told which one to use")
same(refused(headers={"Sec-WebSocket-Key": "AAAA"}), 400, "a bad key is a 400")
try:
    WebSocket(cove, "/v1/sandboxes/no-such-box/ws")
    ok(False, "an unknown sandbox has no socket")
except Refused as answer:
    same(answer.status, 404, "an unknown sandbox has no socket")

# ---- clients that send no headers
ws = WebSocket(cove, urlsplit(cove.get(ROOT).json["baseUrl"]).path + "/ws", key=False)
answer = ask(ws, "t", "/api/execute", execute("echo in"))
same([answer["status"], answer["body"].get("stdout")], [200, "in\n"], "the sandbox's token in the path opens its socket")
ws.close()

# ---- a slow reader
slow = connect(rcvbuf=4096)
for i in range(20):
    request(slow, "s%d" % i, "/api/execute/stream", execute("head -c 300000 /dev/zero | tr '\\0' x; echo; sleep 30"))
time.sleep(0.5)
quick = connect()
begin = time.monotonic()
same(ask(quick, "x", "/api/execute", execute("echo hi"))["body"]["stdout"], "hi\n", "a client that does not read slows no other")
ok(time.monotonic() - begin < 20, "not noticeably")
slow.cut()
cove.run(box, "pkill sleep; true")

# ---- pace
count = 200 if SHORT else 2000
begin = time.monotonic()
for i in range(count):
    ask(quick, "n%d" % i, "/api/ping", method="GET")
note("%.0f requests a second, one after another" % (count / (time.monotonic() - begin)))

# ---- drain
hanging = connect()
request(hanging, "s", "/api/execute/stream", execute("sleep 60"))
hanging.json()
ender = threading.Thread(target=cove.stop)
begin = time.monotonic()
ender.start()
same(quick.end(), 1001, "a server that stops closes with 1001")
same(hanging.end(), 1001, "also one that is busy")
quick.sock.close()
hanging.sock.close()
ender.join()
ok(time.monotonic() - begin < 10, "and stops soon", "%.1f s" % (time.monotonic() - begin))
done()
