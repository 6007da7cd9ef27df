#!/usr/bin/env python3
"""W-33: all processes of a sandbox, whoever started them, with parents, users, CPU and memory; signals to one of them; titles
that a process has made up. Reading them neither wakes the sandbox nor keeps it awake."""
import datetime
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("python3")
cove = c.Cove()
box = cove.create(name="tree")
path = "/v1/sandboxes/tree/ps"
before = time.time()


def listed():
    reply = cove.get(path)
    if reply.status != 200:
        raise RuntimeError(reply)
    return reply.json["items"]


def find(text):
    return next((one for one in listed() if one["command"] == text), None)


# The shell forks: a parent with two children, one of which works.
started = cove.post("/v1/sandboxes/tree/api/process/start", {"command": "sleep 1001 & (while :; do :; done) & wait", "processId": "top"})
c.same(started.status, 200, "a process with children")
c.until(lambda: (find("sleep 1001") or {"state": ""})["state"] == "S", 30)
top = next(one for one in listed() if one["processId"] == "top")
leaf = find("sleep 1001")
busy = lambda: next((one for one in listed() if one["ppid"] == top["pid"] and one["pid"] != leaf["pid"]), {"cpuMs": 0})
c.same((leaf["ppid"], leaf["user"], leaf["processId"]), (top["pid"], "root", None), "W-33 a child stands beneath its parent")
c.ok(leaf["rssBytes"] > 0 and leaf["state"] == "S" and leaf["cpuMs"] < 1000, "W-33 it sleeps, and has memory", leaf)
c.ok(c.until(lambda: busy()["cpuMs"] > 300 and busy()["cpuPercent"] > 1, 60), "W-33 another works", busy())
root = next(one for one in listed() if one["pid"] == 1)
c.ok(root["ppid"] == 0, "W-33 pid 1 has no parent", root)
c.same(len({one["pid"] for one in listed()}), len(listed()), "W-33 each is listed once")
begun = datetime.datetime.fromisoformat(leaf["startedAt"].replace("Z", "+00:00")).timestamp()
c.ok(before - 2 < begun < time.time() + 2, "W-33 with its start", leaf["startedAt"], before)

# A user of the sandbox, a title that a process made up, bytes that are no UTF-8
cove.run(box, "useradd -u 1234 someone 2>/dev/null || echo someone:x:1234:1234::/:/bin/sh >>/etc/passwd")
ODD = "<img src=x onerror=alert(1)>\u202e"
for command, user in (("exec -a '%s' sleep 1002" % ODD, "1234"), ("exec -a $'\\xff\\xfe' sleep 1003", None), ("exec -a %s sleep 1004" % ("x" * 3000), "4321")):
    body = {"command": command, "processId": "p%s" % command[-4:]}
    if user:
        body["user"] = user
    c.same(cove.post("/v1/sandboxes/tree/api/process/start", body).status, 200, "a process with a title of its own")
    c.until(lambda: any(one["processId"] == body["processId"] and "exec" not in one["command"] for one in listed()), 30)
mine = {one["processId"]: one for one in listed() if one["processId"]}
c.same((mine["p1002"]["command"], mine["p1002"]["user"]), (ODD + " 1002", "someone"), "W-33 the title is what the process says; the user by name")
c.ok("1003" in mine["p1003"]["command"], "W-33 bytes that are no UTF-8 are replaced", mine["p1003"])
c.same((len(mine["p1004"]["command"]), mine["p1004"]["user"]), (1024, "4321"), "W-33 a long one is cut; a user without a name has its number")

# Signals
ask = lambda pid, **body: cove.post("%s/%s/signal" % (path, pid), body)
c.same((ask(leaf["pid"], startedAt="2020-01-01T00:00:00Z").status, ask(leaf["pid"], startedAt="2020-01-01T00:00:00Z").json["reason"]), (409, "process_gone"),
       "W-33 a pid with another start is refused")
c.same([ask(leaf["pid"]).status, ask(leaf["pid"], startedAt="x").status, ask("x", startedAt=leaf["startedAt"]).status,
        ask(leaf["pid"], startedAt=leaf["startedAt"], signal="NONE").status, ask(leaf["pid"], startedAt=leaf["startedAt"], more=1).status], [400] * 5, "W-33 and what is malformed")
c.ok(find("sleep 1001"), "W-33 which hurts nobody")
done = ask(leaf["pid"], startedAt=leaf["startedAt"], signal="KILL")
c.same((done.status, done.json), (200, {"pid": leaf["pid"], "signal": 9}), "W-33 a signal to one process")
c.ok(c.until(lambda: not find("sleep 1001"), 30), "W-33 ends it")
c.ok(any(one["processId"] == "top" for one in listed()), "W-33 and not its parent")
c.same(ask(leaf["pid"], startedAt=leaf["startedAt"]).status, 409, "W-33 an ended one is refused")

# Without waking
cove.post("/v1/sandboxes/tree/pause")
c.same((cove.get(path).status, cove.get(path).json["reason"]), (409, "not_running"), "W-33 a paused sandbox is not asked")
c.same(cove.get("/v1/sandboxes/tree").json["state"], "paused", "W-33 nor woken")
cove.post("/v1/sandboxes/tree/resume")
c.same(cove.get("/v1/sandboxes/none/ps").status, 404, "W-33 there must be one")
key = cove.post("/v1/keys", {"scopes": ["read"]}).json
c.same(cove.request("GET", path, key=key["key"]).status, 403, "W-33 command lines need the scope use")
cove.delete(box)
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
