#!/usr/bin/env python3
"""The daemon is killed at each step of storing and removing results (base/fault.h): a blob that was synced, named, removed; all
blobs before and after the commit; rows that were removed. After each the result is right and is there once, and no content is left
over. Also between the end of a command and that of its execution: the outcome stays. Needs the weak build."""
import hashlib
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from killpoints import Points  # noqa: E402

WEAK = os.environ.get("COVE_WEAK_BIN", os.path.join(c.ROOT, "build", "weak", "cove"))
STORING = ["daemon.blob.synced", "daemon.blob.named", "daemon.results.stored", "daemon.results.committed"]
REMOVING = ["daemon.results.dropped", "daemon.blob.removed"]
WANT = {"a": hashlib.sha256(b"same\n").hexdigest(), "d/b": hashlib.sha256(b"other\n").hexdigest()}

c.need_root()
if not os.path.exists(WEAK):
    c.skip_all("there is no weak build")


def contents():
    place = os.path.join(cove.data, "daemon", "blobs")
    return {name: sorted(os.listdir(os.path.join(place, name))) for name in os.listdir(place)}


def killed(point, left, act):
    """Does it while the point is armed for its `left`-th visit, and waits for the next daemon. False: it was not met."""
    pid = cove.children()["daemon"]
    points.arm(point, left=left)
    answer = act()
    fired = points.fired() > 0
    points.disarm()
    if fired:
        c.until(lambda: cove.children().get("daemon", pid) != pid, 60)
        c.patiently(lambda: cove.get("/v1/health"))
    return fired, answer


def submit(key):
    body = {"command": "mkdir d; echo same > a; echo other > d/b; echo same > c; echo log", "artifacts": {"paths": ["a", "d/*", "c"]}}
    made = c.patiently(lambda: cove.post("/v1/executions", body, headers={"Idempotency-Key": key})).json
    return c.patiently(lambda: cove.get("/v1/executions/%s/wait?for=done&timeoutMs=300000" % made["id"], timeout=400)).json


def storing(point):
    for left in (1, 2):
        fired, made = killed(point, left, lambda: submit("%s-%d" % (point, left)))
        if not fired and left > 1:
            c.patiently(lambda: cove.request("DELETE", "/v1/executions/" + made["id"]))
            continue
        have = {item["path"]: item["sha256"] for item in cove.get("/v1/executions/%s/artifacts" % made["id"]).json["items"]}
        log = cove.get("/v1/executions/%s/logs" % made["id"]).body
        c.ok(fired and made["outcome"] == "completed" and {name: have.get(name) for name in WANT} == WANT and len(have) == 3 and log == b"log\n" and
             made["artifacts"]["count"] == 3, "killed at %s, visit %d: the result is right" % (point, left), fired, made, have, log)
        c.ok(len(made["attempts"]) == 1, "the command ran once", made["attempts"])
        c.patiently(lambda: cove.request("DELETE", "/v1/executions/" + made["id"]))
        c.ok(c.until(lambda: not any(contents().values()), 60), "and removed, it leaves nothing", contents())


def removing(point):
    made = submit(point)
    fired, _ = killed(point, 1, lambda: c.patiently(lambda: cove.request("DELETE", "/v1/executions/" + made["id"])))
    c.patiently(lambda: cove.request("DELETE", "/v1/executions/" + made["id"]))
    c.ok(fired and c.until(lambda: not any(contents().values()), 60), "killed at %s: everything is removed" % point, fired, contents())
    c.same(cove.get("/v1/executions/" + made["id"]).status, 404, "the execution too")


def ending(how, want):
    """Its command is killed, and then the daemon before the end is stored: the next one does not judge by the signal."""
    limits = {"timeout": {"wallTimeMs": 4000}, "cpu": {"cpuTimeMs": 1000}}.get(how, {})
    made = c.patiently(lambda: cove.post("/v1/executions", {"command": "while :; do :; done", "limits": limits})).json
    c.patiently(lambda: cove.get("/v1/executions/%s/wait?for=running" % made["id"], timeout=400))

    def act():
        if not limits:
            try:
                cove.post("/v1/executions/%s/%s" % (made["id"], how), {"reason": "red"} if how == "fail" else None)
            except c.BROKEN:
                pass
        c.until(points.fired, 60)

    fired, _ = killed("daemon.execution.quiet", 1, act)
    got = c.patiently(lambda: cove.get("/v1/executions/%s/wait?for=done&timeoutMs=300000" % made["id"], timeout=400)).json
    c.ok(fired and (got["outcome"], got["reason"], got["attempt"]) == want + (1,),
         "killed after the command, which is ended by %s: the outcome is that" % how, fired, got)


path = tempfile.mktemp(prefix="cove-killpoints-")
points = Points(path)
cove = c.Cove("--dev", binary=WEAK, env={"COVE_KILL_POINTS": path})
for name in STORING:
    storing(name)
for name in REMOVING:
    removing(name)
for name, outcome in (("timeout", ("timeout", None)), ("cpu", ("limit_cpu_time", None)), ("cancel", ("cancelled", None)), ("fail", ("reported", "red"))):
    ending(name, outcome)
c.same(cove.stop(), 0, "SIGTERM ends cove with status 0")
os.unlink(path)
c.done()
