#!/usr/bin/env python3
"""docs/MIGRATING.md: what differs from Daytona, as far as daytona*.t do not show it with the official clients."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import daytona_sdk as sdk  # noqa: E402
import wsclient  # noqa: E402

c.need_root()
cove = c.Cove()


def ask(method, path, body=None, key=None, **headers):
    return sdk.ask(cove, method, path, body, key, **headers)


def run(box, command, **more):
    return ask("POST", "/toolbox/%s/process/execute" % box, dict(command=command, **more)).json


box = ask("POST", "/sandbox", {"name": "d"}).json["id"]
toolbox = "/toolbox/" + box
c.ok(box.startswith("box-") and len(box) == 52, "ids of sandboxes", box)
for body in ({"linkedSandbox": "x"}, {"outboundProxyUrl": "http://x"}, {"kvm": True}, {"autoPauseInterval": 5}, {"gpuType": ["x"]}):
    got = ask("POST", "/sandbox", body)
    c.same((got.status, "(" in got.json["message"], list(body)[0] in got.json["message"]), (501, True, True), "%s is refused with a hint" % list(body)[0])
made = ask("POST", "/sandbox/%s/snapshot" % box, {"name": "Warm Start"})
c.same((made.status, ask("GET", "/snapshots/Warm%20Start").json["id"]), (200, "Warm Start"), "the id of a snapshot is its name")
one = ask("POST", "/sandbox", {"snapshot": "Warm Start", "cpu": 2, "memory": 1}).json
c.same((one["snapshot"], one["cpu"]), ("Warm Start", 2), "resources with a snapshot are accepted")
c.same(ask("GET", "/sandbox?snapshots=Warm%20Start").json["items"][0]["id"], one["id"], "a list by snapshot takes its name")
got = ask("POST", "/sandbox", {"snapshot": "Cold Start"})
c.same((got.status, "'Cold Start'" in got.json["message"]), (400, True), "an unknown snapshot is named")
c.same(ask("POST", "/sandbox/%s/resize" % one["id"], {"cpu": 1}).json["cpu"], 1, "resize of a started sandbox: also less")
listed = [item["name"] for item in cove.get("/v1/templates").json["items"]]
c.ok("dn---57arm-20-53tart" in listed, "cove lists the form of a name", listed)
c.same(ask("DELETE", "/sandbox/%s" % one["id"]).status, 200, "a sandbox of the snapshot is deleted")
volume = ask("POST", "/volumes", {"name": "My Data"}).json
got = cove.get("/v1/volumes/" + volume["id"]).json
c.same((volume["name"], got["name"], got["sizeMB"] > 0), ("My Data", "dn---4dy-20-44ata", True), "a volume has cove's default size")
one = ask("POST", "/sandbox", {"volumes": [{"volumeId": "My Data", "mountPath": "/data"}], "networkAllowList": "192.0.2.0/24,2001:db8::/32"}).json
c.same((one["volumes"][0]["volumeId"], one["networkAllowList"]), (volume["id"], "192.0.2.0/24,2001:db8::/32"), "a volume is mounted by name; networkAllowList takes IPv6 ranges")
ask("DELETE", "/sandbox/" + one["id"])
c.same(ask("DELETE", "/volumes/My%20Data").status, 200, "and deleted by name")
cove.request("PUT", "/v1/tenants/small", {"host": True, "quota": {"boxes": 1}})
key = cove.post("/v1/keys", {"tenant": "small", "scopes": ["read", "make", "use"]}).json["key"]
first = ask("POST", "/sandbox", {}, key).json["id"]
c.same(ask("POST", "/sandbox", {}, key).status, 400, "a tenant's quota is 400")
ask("DELETE", "/sandbox/" + first, key=key)

c.same(run(box, "pwd", cwd="/no/such")["exitCode"], -1, "a missing working directory: exit code -1")
began = time.monotonic()
got = run(box, "sleep 600 & echo first")
c.ok(got == {"exitCode": 0, "result": "first\n"} and time.monotonic() - began < 300, "a background job that keeps stdout open does not hold the call", got)
run(box, "mkdir /tmp/f; yes needle | head -n 10050 > /tmp/f/many; printf 'needle%05000d' 0 > /tmp/f/long")
found = ask("GET", toolbox + "/files/find?path=/tmp/f&pattern=needle").json
c.same((len(found), max(len(one["content"]) for one in found) <= 2048), (10000, True), "findFiles: the first 10,000 matches, the first 2,048 bytes of a line")
c.same(ask("POST", toolbox + "/files/replace", {"files": ["/tmp/f/x"] * 1001, "pattern": "a", "newValue": "b"}).status, 400, "replaceInFiles: 1,000 files")
ask("POST", toolbox + "/process/session", {"sessionId": "s"})
session = toolbox + "/process/session/s"
command = ask("POST", session + "/exec", {"command": "read a; echo got $a", "runAsync": True}).json["cmdId"]
ask("POST", "%s/command/%s/input" % (session, command), {"data": "x"})
c.until(lambda: "exitCode" in ask("GET", "%s/command/%s" % (session, command)).json, 60)
c.same(ask("GET", "%s/command/%s/logs" % (session, command)).json["stdout"], "got x\n", "input of a session command is not echoed")
c.same(ask("GET", "/sandbox/%s/telemetry/metrics" % box).status, 501, "metrics of a past time are refused")
got = ask("GET", toolbox + "/system/metrics").json
c.same((got["cpuCount"], got["memTotal"]), (1, 2 ** 30), "metrics are those of the limits")
c.same(ask("POST", "/snapshots", {"name": "x", "imageName": "cove://host", "memory": 2}).status, 501, "resources of a snapshot are refused")
c.same(ask("GET", "/socket.io/?EIO=4&transport=websocket", Upgrade="websocket", Connection="Upgrade").status, 501, "state events are refused")

if run(box, "command -v git && git init -q /tmp/r && cd /tmp/r && git config user.email a@b && git config user.name a && echo 1 > f && git add f && git commit -qm one")["exitCode"] == 0:
    run(box, "cd /tmp/r && echo 2 > f")
    got = ask("POST", toolbox + "/git/branches", {"path": "/tmp/r", "name": "other"})
    c.same((got.status, run(box, "cd /tmp/r && git branch --show-current && cat f")["result"]), (201, "other\n2\n"), "createBranch takes changes of the worktree along")
    run(box, "cd /tmp/r && git checkout -q . && (echo 'reset refs/heads/long'; for i in $(seq 1005); do printf 'commit refs/heads/long\\ncommitter a <a@b> %d +0000\\ndata 1\\nx\\n' $i; done) | git fast-import --quiet && git checkout -qf long")
    c.same(len(ask("GET", toolbox + "/git/history?path=/tmp/r").json), 1000, "the history has the last 1,000 commits")
ws = wsclient.WebSocket(cove, "/daytona%s/process/interpreter/execute" % toolbox, timeout=60)
ws.send(json.dumps({"code": "import time\nprint('here', flush=True)\nwhile not __import__('os').path.exists('/tmp/go'): time.sleep(0.05)\nopen('/tmp/done', 'w').write('yes')"}))
ws.recv()
ws.cut()
run(box, "touch /tmp/go")
c.same(run(box, "until [ -s /tmp/done ]; do sleep 0.05; done; cat /tmp/done", timeout=60).get("result"), "yes", "code whose client leaves goes on")
ws = wsclient.WebSocket(cove, "/daytona%s/process/interpreter/execute" % toolbox, timeout=60)
ws.send(json.dumps({"code": "40 + 2"}))
said = []
try:
    while True:
        said.append(json.loads(ws.recv()))
except wsclient.Closed as closed:
    c.same((said, closed.code), ([{"type": "control", "text": "completed"}], 1000), "the value of the last expression is not sent")

ask("POST", "/sandbox/%s/stop" % box)
c.same((run(box, "cat /tmp/done"), ask("GET", "/sandbox/" + box).json["state"]), ({"exitCode": 0, "result": "yes"}, "started"), "a stopped sandbox is started by a request to its toolbox")
before = ask("GET", "/sandbox/" + box).json["lastActivityAt"]
ask("POST", toolbox + "/process/execute", {"command": "true"}, **{"X-Daytona-Skip-Last-Activity-Update": "true"})
c.ok(ask("GET", "/sandbox/" + box).json["lastActivityAt"] > before, "a request counts as use, whatever it says")
before = ask("GET", "/sandbox/" + box).json["lastActivityAt"]
os.kill(cove.children()["daemon"], 9)
after = c.patiently(lambda: ask("GET", "/sandbox/" + box)).json["lastActivityAt"]
c.ok(after > before, "the minutes of autoStopInterval begin anew with the daemon", before, after)
ask("DELETE", "/snapshots/Warm%20Start")
sdk.finish(cove)
