#!/usr/bin/env python3
"""daytona 8: PTYs, by the official clients and on the wire."""
import base64
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import daytona_sdk as sdk  # noqa: E402
import wsclient  # noqa: E402

EXIT = "X-Daytona-Pty-Exit-Control"
sdk.install()
cove = c.Cove()
sdk.drive(cove, "pty.mjs")
box = sdk.ask(cove, "POST", "/sandbox", {}).json["id"]
at = "/toolbox/%s/process/pty" % box


def connect(path, protocols=None, key=True):
    return wsclient.WebSocket(cove, "/daytona" + at + path, headers={"Sec-WebSocket-Protocol": protocols}, key=key, timeout=60)


def refused(path, protocols=None, key=True):
    try:
        connect(path, protocols, key)
    except wsclient.Refused as error:
        return error.status
    return 101


def gather(ws):
    """All frames until the close: texts, bytes, the close."""
    texts, data = [], b""
    while True:
        try:
            message = ws.recv()
        except wsclient.Closed as closed:
            return texts, data, (closed.code, closed.reason)
        if isinstance(message, str):
            texts.append(json.loads(message))
        else:
            data += message


def gather_until(ws, word):
    data = b""
    while word not in data:
        message = ws.recv()
        data += message if isinstance(message, bytes) else b""
    return data


envs = "X-Daytona-Pty-Envs~" + base64.urlsafe_b64encode(json.dumps({"A": "sécret?>"}).encode()).decode().rstrip("=")
ws = connect("/create-connect?id=a&cols=70&rows=20&cwd=%2Ftmp", envs + ", X-Daytona-SDK-Version~0.218.0, " + EXIT)
c.same(ws.fields.get("sec-websocket-protocol"), EXIT, "daytona 8: the answer names the exit-control protocol")
ws.send(b'echo "$A $PWD"; exit 3\n')
texts, data, closed = gather(ws)
c.same(texts[0], {"type": "control", "status": "connected"}, "daytona 8: the first frame says connected")
c.same(texts[-1], {"type": "control", "status": "exited", "exitCode": 3, "exitReason": "non-zero exit"}, "daytona 8: the last one has the exit code")
c.ok("sécret?> /tmp".encode() in data, "daytona 8: the environment comes by a subprotocol", data)
c.same((closed[0], json.loads(closed[1])), (1011, {"exitCode": 3, "exitReason": "non-zero exit"}), "daytona 8: the close frame has it, too")
ws = connect("/create-connect?id=b", envs + ", X-Daytona-SDK-Version~0.218.0")
c.same(ws.fields.get("sec-websocket-protocol"), "X-Daytona-SDK-Version~0.218.0", "daytona 8: never the one that has the environment")
ws.send("exit\n")
texts, data, closed = gather(ws)
c.same((len(texts), closed[0], json.loads(closed[1])), (1, 1000, {"exitCode": 0}), "daytona 8: who did not offer exit-control gets no such message; text is input, too")

made = sdk.ask(cove, "POST", at, {"id": "lazy", "cols": 100, "rows": 50, "lazyStart": True, "envs": {"B": "2"}})
c.same((made.status, made.json), (201, {"sessionId": "lazy"}), "daytona 8: the older way to make one")
c.same(sdk.ask(cove, "POST", at, {"id": "lazy"}).status, 409, "daytona 8: an id that is taken")
info = sdk.ask(cove, "GET", at + "/lazy").json
c.same((info["cols"], info["rows"], info["envs"]["B"], info["lazyStart"], info["cwd"]), (100, 50, "2", True, "/home/daytona"), "daytona 8: what was asked for")
ws = connect("/lazy/connect")
c.same(ws.fields.get("sec-websocket-protocol"), None, "daytona 8: who offers none is told none")
ws.send("echo $B; echo e''nd\n")
data = gather_until(ws, b"end\r\n")
c.ok(b"\r2\r\n" in data, "daytona 8: the first client sees it from the start", data)

for path, status in (("/create-connect?cols=80", 400), ("/create-connect?id=x&cols=1001", 400), ("/create-connect?id=x&rows=a", 400), ("/create-connect?id=lazy", 409), ("/none/connect", 404)):
    c.same(refused(path), status, "daytona 8: %s is refused" % path)
c.same(refused("/create-connect?id=x", "X-Daytona-Pty-Envs~!!"), 400, "daytona 8: an environment that is not base64url")
c.same(refused("/create-connect?id=x", "X-Daytona-Pty-Envs~" + base64.urlsafe_b64encode(b'{"A B":"1"}').decode()), 400, "daytona 8: a variable without a name")
for method, path, body, status in (("POST", "", {}, 400), ("POST", "", {"id": "x", "rows": 1001}, 400), ("GET", "/none", None, 404), ("DELETE", "/none", None, 404),
                                   ("POST", "/none/resize", {"cols": 1, "rows": 1}, 410), ("POST", "/lazy/resize", {"cols": 0, "rows": 1}, 400), ("POST", "/lazy/resize", {"cols": 1001, "rows": 1}, 400)):
    got = sdk.ask(cove, method, at + path, body)
    c.same((got.status, got.json["source"]), (status, "DAYTONA_DAEMON"), "daytona 8: %s %s %s" % (method, path or "/", json.dumps(body)))
cove.request("PUT", "/v1/tenants/other", {"host": True})
key = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use"]}).json["key"]
c.same([refused("/lazy/connect", key=key), refused("/create-connect?id=x", key=key), sdk.ask(cove, "GET", at, key=key).status, sdk.ask(cove, "DELETE", at + "/lazy", key=key).status], [404] * 4,
       "daytona 2: a terminal of another tenant is absent")
c.same(refused("/lazy/connect", key="wrong"), 401, "daytona 2: a wrong key")

ws.send("C=later; echo s''et\n")
gather_until(ws, b"set\r\n")
os.kill(cove.children()["daemon"], 9)
c.same(c.patiently(lambda: sdk.ask(cove, "GET", at + "/lazy")).json["active"], True, "daytona 8: a terminal is there after a kill of the daemon")
info = sdk.ask(cove, "GET", at + "/lazy").json
c.same((info["cwd"], info["envs"], info["cols"]), ("/home/daytona", {}, 100), "daytona 8: with its size, without what was asked for")
c.ok("lazy" in [one["id"] for one in cove.get("/v1/sandboxes/%s/api/terminals" % box).json["terminals"]], "daytona 8: it is a terminal as any other")
ws = connect("/lazy/connect", EXIT)
ws.send("echo [$C]; exit 4\n")
texts, data, closed = gather(ws)
c.ok(b"[later]" in data and texts[-1].get("exitCode") == 4, "daytona 8: a terminal survives the daemon", texts, data)
sdk.finish(cove)
