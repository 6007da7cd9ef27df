#!/usr/bin/env python3
"""I-32: `start` and `ready` of creates and templates: 201 after ready, 504 with the output's end, again after a stop and in a fork."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402

SERVER = ["python3", "-c", "import http.server, time; time.sleep(2); open('/workspace/starts', 'a').write('x'); "
          "http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()"]
ASK = "python3 -c \"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/').status)\""


def drop(cove, *names):
    for name in names:
        c.same(cove.request("DELETE", "/v1/templates/" + name).status, 204, "the template %s is removed" % name)


def bad(cove):
    for body, reason in (({"start": ""}, "bad_field"), ({"start": []}, "bad_field"), ({"start": [1]}, "bad_field"), ({"start": 7}, "bad_field"), ({"ready": {}}, "bad_field"),
                         ({"ready": {"port": 0}}, "bad_field"), ({"ready": {"port": 1, "fly": 1}}, "unknown_field"), ({"ready": ""}, "bad_field"), ({"start": "a\0b"}, "bad_field"),
                         ({"start": True}, "no_start"), ({"start": "x" * 40000}, "bad_field")):
        reply = cove.post("/v1/sandboxes", body)
        c.same((reply.status, reply.json["reason"]), (400, reason), "I-32: %.40s is refused" % body)
    reply = cove.post("/v1/sandboxes", {"start": ["/none/such"]})
    c.ok(reply.status >= 400 and reply.json["reason"] != "internal", "I-32: what cannot be started fails the create", reply)
    c.same(cove.get("/v1/sandboxes").json["items"], [], "I-32: and none of these leaves a sandbox")
    box = cove.create(start=False)
    c.same(cove.get("/v1/sandboxes/" + box["id"]).json.get("start"), None, "I-32: false starts nothing")
    cove.delete(box)


def serves(cove):
    """A server that needs two seconds."""
    box = cove.create(name="server", start=SERVER, ready={"port": 8000})
    c.same(cove.out(box, ASK), "200\n", "I-32: 201 comes once the server listens")
    shown = cove.get("/v1/sandboxes/server").json
    c.same((shown["start"], shown["ready"]), (SERVER, {"port": 8000}), "I-32: both are shown")
    c.same(cove.post("/v1/sandboxes/server/stop").status, 200, "the sandbox is stopped")
    c.same(cove.post("/v1/sandboxes/server/start").status, 200, "and started")
    c.same(cove.out(box, ASK + "; cat /workspace/starts"), "200\nxx", "I-32: start answers once it listens again")
    c.same(cove.post("/v1/sandboxes/server/stop").status, 200, "after another stop")
    c.same(cove.out(box, ASK + "; cat /workspace/starts"), "200\nxxx", "I-32: a command that wakes it finds it ready")
    child = cove.post("/v1/sandboxes/server/fork", {}).json["items"][0]["sandbox"]
    c.same(cove.out(child, ASK + "; cat /workspace/starts"), "200\nxxxx", "I-32: and so does a fork")
    c.kill_all(cove)
    cove.start()
    c.same(c.patiently(lambda: cove.get("/v1/sandboxes/server")).json["start"], SERVER, "I-32: it is known after kill -9")
    for one in (box, child):
        cove.delete(one)


def ways(cove):
    box = cove.create(start="sleep 0.3; touch /run/there; exec sleep 3600", ready={"file": "/run/there"})
    c.same(cove.out(box, "ls /run/there"), "/run/there\n", "I-32: ready by a file")
    cove.delete(box)
    box = cove.create(start="sleep 0.3; touch /tmp/done", ready="test -e /tmp/done")
    c.same(cove.out(box, "ls /tmp/done"), "/tmp/done\n", "I-32: ready by a command")
    cove.delete(box)
    registry = r.StandIn()
    registry.add(r.Image([r.base()], {"Entrypoint": ["/bin/bash", "-c"], "Cmd": ["echo $0 >/tmp/ran; exec sleep 3600", "arg"]}))
    box = cove.create(image=registry.host + "/app", start=True, ready={"file": "/tmp/ran"})
    c.same(cove.out(box, ["/bin/bash", "-c", "cat /tmp/ran"], cwd="/"), "arg\n", "I-32: true starts Entrypoint and Cmd of the image")
    cove.delete(box)
    registry.stop()


def templates(cove):
    reply = cove.post("/v1/builds", {"name": "served", "dockerfile": "FROM cove://host\nRUN echo built >/built\n", "start": "cat /built >>/tmp/log; touch /run/up; exec sleep 3600",
                                     "ready": {"file": "/run/up"}})
    c.same(reply.status, 201, "I-32: a template with start and ready is built")
    box = cove.create(template="served")
    c.same(cove.out(box, "cat /tmp/log"), "built\n", "I-32: its sandboxes are started, and ready at 201")
    cove.post("/v1/sandboxes/%s/snapshot" % box["id"], {"name": "snapped"})
    cove.delete(box)
    box = cove.create(template="snapped")
    c.same(cove.out(box, "cat /tmp/log"), "built\nbuilt\n", "I-32: those of a snapshot, too")
    cove.delete(box)
    box = cove.create(template="served", start="touch /tmp/mine", ready="test -e /tmp/mine")
    c.same(cove.out(box, "ls /tmp"), "mine\n", "I-32: what the create says stands above it")
    cove.delete(box)
    reply = cove.post("/v1/builds", {"name": "above", "dockerfile": "FROM cove://served\nRUN ls /tmp >/seen\n"})
    c.same(reply.status, 201, "a template is built on it")
    box = cove.create(template="above")
    c.same(cove.out(box, "cat /seen /tmp/log"), "built\n", "I-32: a build starts nothing, its template inherits both")
    cove.delete(box)
    cli = c.Cli(cove.data)
    with open(os.path.join(cove.home, "Dockerfile"), "w") as file:
        file.write("FROM cove://host\n")
    got = cli("template", "build", "-t", "by-cli", "--start", "touch /tmp/cli", "--ready", "test -e /tmp/cli", cove.home)
    c.same(got.status, 0, "cove template build --start --ready")
    got = cli("create", "--template", "by-cli", "--name", "one")
    c.same((got.status, cove.out({"id": "one"}, "ls /tmp")), (0, "cli\n"), "and cove create")
    got = cli("create", "--name", "two", "--start", "touch /tmp/two", "--ready", "test -e /tmp/two")
    c.same((got.status, cove.out({"id": "two"}, "ls /tmp")), (0, "two\n"), "cove create --start --ready")
    for name in ("one", "two"):
        cove.delete({"id": name})
    drop(cove, "served", "snapped", "above", "by-cli")


def late():
    cove = c.Cove("--dev=on", "--time-scale", "300")
    for body, words in (({"start": "echo begun; exec sleep 3600", "ready": "echo not yet; false"}, "not yet"), ({"start": "echo begun; exec sleep 3600", "ready": {"port": 9}}, "begun"),
                        ({"ready": {"file": "/none"}}, "")):
        reply = cove.post("/v1/sandboxes", body)
        c.ok(reply.status == 504 and reply.json["reason"] == "not_ready" and words in reply.json["hint"], "I-32: never ready is 504 not_ready, with the end of the output", reply)
    c.same(cove.get("/v1/sandboxes").json["items"], [], "I-32: and no sandbox stays")
    box = cove.create(start="true", ready="test ! -e /workspace/broken")
    cove.run(box, "touch /workspace/broken")
    cove.post("/v1/sandboxes/%s/stop" % box["id"])
    reply = cove.post("/v1/sandboxes/%s/start" % box["id"])
    c.same((reply.status, reply.json["reason"]), (504, "not_ready"), "I-32: a start that does not get ready says so")
    c.same((cove.get("/v1/sandboxes/" + box["id"]).json["state"], cove.out(box, "ls /workspace")), ("running", "broken\n"), "I-32: the sandbox runs, and can be looked at")
    cove.delete(box)
    c.same(cove.get("/v1/verify").json["ok"], True, "verify is clean")
    cove.close()


c.need_root()
work = c.Cove()
bad(work)
serves(work)
ways(work)
templates(work)
c.same(work.get("/v1/verify").json["ok"], True, "verify is clean")
work.close()
late()
c.done()
