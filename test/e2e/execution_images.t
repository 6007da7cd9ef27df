#!/usr/bin/env python3
"""`image` of executions, profiles and agent sessions (lifecycle 10.2): pulled by name, checked as a create of a sandbox checks it, before
the first attempt however long the pull takes; kept over a retry, a restart of the daemon and a new sandbox of the session."""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402

c.need_root()
CONFIG = {"Env": ["PATH=/usr/bin:/bin", "GREETING=from the image"], "User": "agent", "WorkingDir": "/srv/app"}
BASE = r.base()
# Answers each run with what a file of the image has.
RUNNER = r'''
while read -r line; do
  [[ $line =~ \"connection\":([0-9]+) ]] && connection=${BASH_REMATCH[1]}
  case $line in
    *'"type":"attach"'*)
      echo "{\"type\":\"hello\",\"protocol\":1,\"version\":\"1\",\"session\":\"$COVE_SESSION\",\"instance\":\"$COVE_INSTANCE\",\"generation\":$COVE_GENERATION,\"connection\":$connection,\"run\":null}";;
    *'"type":"run"'*)
      [[ $line =~ \"run\":\"([^\"]*)\" ]] && run=${BASH_REMATCH[1]}
      [[ $line =~ \"run_generation\":([0-9]+) ]] && about="\"run\":\"$run\",\"run_generation\":${BASH_REMATCH[1]},\"connection\":$connection"
      echo "{\"type\":\"accepted\",$about}"
      echo "{\"type\":\"result\",\"seq\":1,\"status\":\"completed\",\"output\":\"$(cat /etc/motd)\",$about}";;
  esac
done >&$COVE_RUNNER_FD
'''


def run(cove, wait=120, key=True, **body):
    return cove.request("POST", "/v1/executions?wait=%d" % wait, body, key=key)


def output(cove, record):
    return cove.get("/v1/executions/%s/logs?stream=stdout" % record["id"]).body.decode()


def motd(word):
    return r.Image([BASE, r.tar([("etc/motd", word.encode(), 0o644), ("srv/app", None)])], CONFIG)


def executions(cove, debian):
    image = debian.host + "/app:1"
    debian.push(motd("one"), "app:1")
    got = run(cove, image=image, command="cat /etc/motd; echo \" $(id -un) $PWD $GREETING\"")
    c.same((got.status, got.json["outcome"]), (200, "completed"), "an execution of an image that is not there yet")
    c.same(output(cove, got.json), "one agent /srv/app from the image\n", "has its files and its configuration")
    c.same([step["name"] for step in got.json["steps"]][0], "sandbox_provision", "in the usual steps")
    debian.push(motd("two"), "app:1")
    again = cove.request("POST", "/v1/executions/%s/replay?wait=120" % got.json["id"])
    c.same((again.json["outcome"], output(cove, again.json)[:3]), ("completed", "one"), "a replay has the image that was pulled")
    got = run(cove, profile="IMAGED")
    c.same((got.json["outcome"], output(cove, got.json)), ("completed", "one"), "a profile names an image")
    got = run(cove, profile="IMAGED", template="host", command="test ! -d /srv/app")
    c.same(got.json["outcome"], "completed", "and the request's template stands before it")
    asked = debian.log().count("/v2/app/manifests/1")
    c.same(run(cove, image=image, command="true").json["outcome"], "completed", "an image that is there")
    c.same(debian.log().count("/v2/app/manifests/1"), asked, "is not asked for again")
    cli = c.Cli(cove.data)
    got = cli("submit", "--image", image, "--", "cat", "/etc/motd")
    c.same((got.status, got.text), (0, "one"), "cove submit --image")


def pinned(cove, debian):
    """The digest is settled when the execution is accepted; `pull` says when the registry is asked."""
    image = debian.host + "/pin:1"
    debian.push(motd("first"), "pin:1")
    got = run(cove, image=image, pull="never", command="true")
    c.same((got.status, got.json["reason"]), (404, "no_image"), "pull: never does not ask the registry")
    c.same(run(cove, image=image, pull="often", command="true").status, 400, "another word is refused")
    path = "/v1/executions/" + cove.post("/v1/executions", {"image": image, "command": "cat /etc/motd; read < /tmp/never || sleep 600"}).json["id"]
    first = cove.get(path + "/wait?for=running&timeoutMs=120000").json
    c.ok(first["image"].startswith(debian.host + "/pin@sha256:"), "the record names the digest", first["image"])
    debian.push(motd("second"), "pin:1")
    got = run(cove, image=image, command="cat /etc/motd")
    c.same((output(cove, got.json), got.json["image"]), ("first", first["image"]), "pull: missing takes what is there")
    got = run(cove, image=image, pull="always", command="cat /etc/motd")
    c.same(output(cove, got.json), "second", "pull: always asks again")
    c.ok(got.json["image"] != first["image"], "and pins what it was told", got.json["image"])
    c.same(run(cove, image=image, pull="never", command="true").json["outcome"], "completed", "pull: never takes what is there, too")
    cove.request("DELETE", "/v1/sandboxes/" + first["sandbox"])
    c.ok(c.until(lambda: (cove.get(path).json["attempt"], cove.get(path).json["state"]) == (2, "running"), 120), "another attempt of the first one", cove.get(path).json)
    c.ok(c.until(lambda: output(cove, first) == "first", 30), "has the same digest, though the tag has moved", output(cove, first))
    c.same(cove.post(path + "/cancel").json["image"], first["image"], "its record says so")
    again = "/v1/executions/" + cove.post(path + "/retry").json["id"]
    got = cove.get(again + "/wait?for=running&timeoutMs=120000").json
    c.same(got["image"], first["image"], "a retry has it, too")
    cove.post(again + "/cancel")
    cli = c.Cli(cove.data)
    got = cli("submit", "--image", image, "--pull", "always", "--", "cat", "/etc/motd")
    c.same((got.status, got.text), (0, "second"), "cove submit --pull")


def errors(cove, debian):
    """What a create of a sandbox answers."""
    cove.request("PUT", "/v1/tenants/acme", {"host": True})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use"]}).json["key"]
    for what, body, who in (("no reference", {"image": "x y"}, True), ("an image that the registry does not have", {"image": debian.host + "/none:1"}, True),
                            ("a template besides", {"image": "x", "template": "host"}, True), ("a key that may not pull", {"image": "x"}, key),
                            ("a registry that is not there", {"image": "127.0.0.1:1/x"}, True)):
        want = cove.request("POST", "/v1/sandboxes", body, key=who)
        for path, more in (("/v1/executions", {"command": "true"}), ("/v1/agent-sessions", {"user": "u", "runner": {"argv": ["x"]}})):
            got = cove.request("POST", path, dict(body, **more), key=who)
            c.same((got.status, got.json["reason"]), (want.status, want.json["reason"]), "%s: %s answers as for a sandbox" % (what, path))
    c.ok(not cove.get("/v1/executions?state=queued").json["items"] and not cove.get("/v1/agent-sessions").json["items"], "and nothing was made")


def slow(cove):
    """A pull that lasts: nothing is provisioned meanwhile, others go ahead, and it may fail."""
    registry = r.StandIn()
    gate = threading.Event()
    image = registry.add(motd("slow"))
    fail = []

    def held(handler, kind, name):
        if name != r.digest(image.packed[1]):
            return False
        gate.wait(120)
        if fail:
            handler.send(404, b"{}")
        return bool(fail)
    registry.hook = held
    body = {"image": registry.host + "/app", "command": "cat /etc/motd"}
    got = cove.post("/v1/executions", body)
    c.same((got.status, got.json["state"]), (202, "queued"), "the answer does not wait for the layers")
    path = "/v1/executions/" + got.json["id"]
    c.ok(c.until(lambda: cove.get(path).json["queue"] == {"position": 1, "reason": "image_pull"}, 60), "the record says what it waits for", cove.get(path).json)
    c.same(run(cove, command="true").json["outcome"], "completed", "another one overtakes it")
    c.ok(c.until(lambda: registry.asked(r.digest(image.packed[1])), 60), "its layer is asked for")
    cove.stop()
    cove.start()
    c.ok(c.until(lambda: (cove.get(path).json.get("queue") or {}).get("reason") == "image_pull", 60), "a restart of the daemon forgets neither", cove.get(path).json)
    gate.set()
    got = cove.get(path + "/wait?timeoutMs=120000").json
    c.same((got["outcome"], got["attempt"], output(cove, got)), ("completed", 1, "slow"), "then it runs, at its first attempt")
    cove.request("DELETE", "/v1/templates/app-latest")
    cove.request("POST", "/v1/templates/prune", {})
    image = registry.add(motd("gone"))
    gate.clear()
    fail.append(True)
    path = "/v1/executions/" + cove.post("/v1/executions", body).json["id"]
    c.ok(c.until(lambda: registry.asked(r.digest(image.packed[1])), 60), "a layer that the registry has lost")
    gate.set()
    got = cove.get(path + "/wait?timeoutMs=120000").json
    c.same((got["state"], got["outcome"], got["attempt"], got["attempts"]), ("failed", "infra", 0, []), "fails the execution before any attempt")
    c.ok(got["reason"], "with the reason of the pull", got)
    registry.stop()


def gone(cove):
    """The sandbox of an attempt dies: the next attempt has the same image."""
    got = cove.post("/v1/executions", {"profile": "IMAGED", "command": "cat /etc/motd; read < /tmp/never || sleep 600"})
    path = "/v1/executions/" + got.json["id"]
    got = cove.get(path + "/wait?for=running&timeoutMs=60000").json
    cove.request("DELETE", "/v1/sandboxes/" + got["sandbox"])
    c.ok(c.until(lambda: (cove.get(path).json["attempt"], cove.get(path).json["state"]) == (2, "running"), 120), "a second attempt", cove.get(path).json)
    box = cove.get("/v1/sandboxes/" + cove.get(path).json["sandbox"]).json
    c.ok("/app:1@sha256:" in box["image"], "is of the same image", box)
    c.same(cove.post(path + "/cancel").json["outcome"], "cancelled", "and is cancelled")


def sessions(cove, debian):
    image = debian.host + "/app:1"
    body = {"user": "u", "session": "imaged", "image": image, "runner": {"argv": ["/usr/bin/bash", "-c", RUNNER]}}
    got = cove.post("/v1/agent-sessions", body)
    c.same((got.status, got.json.get("image"), got.json.get("template")), (201, image, None), "an agent session of an image shows it")

    def answer():
        path = "/v1/agent-sessions/imaged/runs/" + cove.post("/v1/agent-sessions/imaged/runs", {"input": {}}).json["id"]
        c.until(lambda: cove.get(path).json["state"] in ("completed", "failed"), 120)
        return cove.get(path).json
    c.same(answer()["result"]["output"], "one", "its runner has the files of the image")
    box = got.json["sandbox_id"]
    c.ok("/app:1@sha256:" in cove.get("/v1/sandboxes/" + box).json["image"], "its sandbox is of the image")
    c.same(cove.request("DELETE", "/v1/sandboxes/" + box).status, 204, "its sandbox is lost")
    c.same(answer()["result"]["output"], "one", "and made again of the same image")
    c.same(cove.post("/v1/agent-sessions", {"user": "u", "template": "host", "runner": {"argv": ["x"]}}).json["reason"], "sandbox_differs", "its owner cannot share it with a template")
    c.same(cove.post("/v1/agent-sessions", {"user": "u", "image": image, "runner": {"argv": ["x"]}}).status, 201, "but with the same image")
    got = cove.post("/v1/agent-sessions", {"user": "v", "profile": "IMAGED", "runner": {"argv": ["x"]}})
    c.same((got.status, got.json.get("image")), (201, image), "a profile gives its image to a session")
    cli = c.Cli(cove.data)
    got = cli("agent-session", "create", "--user", "w", "--image", image, "--", "x")
    c.same((got.status, cove.get("/v1/agent-sessions/" + got.text.strip()).json.get("image")), (0, image), "cove agent-session create --image")
    for one in cove.get("/v1/agent-sessions").json["items"]:
        cove.request("DELETE", "/v1/agent-sessions/" + one["id"])
    c.ok(c.until(lambda: not cove.get("/v1/agent-sessions").json["items"], 120), "they are deleted")


def main():
    cove = c.Cove(start=False)
    debian = r.Debian(cove.home)
    cove.args.append("--config=" + os.path.join(cove.home, "cove.conf"))
    try:
        with open(os.path.join(cove.home, "cove.conf"), "w", encoding="utf-8") as file:
            file.write("[profile IMAGED]\nimage = %s/app:1\nargv = [\"/usr/bin/cat\", \"/etc/motd\"]\n" % debian.host)
        cove.start()
        executions(cove, debian)
        pinned(cove, debian)
        errors(cove, debian)
        gone(cove)
        sessions(cove, debian)
        slow(cove)
        c.same(cove.get("/v1/verify").json["ok"], True, "cove verify is clean")
        c.same(cove.stop(), 0, "cove stops")
        c.same(c.remains(cove), {}, "nothing is left behind")
    finally:
        debian.stop()
        cove.close()
    c.done()


main()
