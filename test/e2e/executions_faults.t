#!/usr/bin/env python3
"""Executions over failures (lifecycle D-8, D-9, D-13): infrastructure is retried with a persisted backoff, results are delivered once,
what a kill leaves is taken up, sandboxes do not leak; the queue has positions, bounds and an end."""
import datetime
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402

c.need_root()


def post(cove, **body):
    return patiently(lambda: cove.post("/v1/executions", body))


def get(cove, ident):
    return patiently(lambda: cove.get("/v1/executions/" + ident)).json


def done(cove, ident, ms=300000):
    return patiently(lambda: cove.get("/v1/executions/%s/wait?timeoutMs=%d" % (ident, ms), timeout=ms / 1000 + 60)).json


def fault(cove, point, mode="fail", count=1):
    cove.post("/v1/dev/faults", {"point": point, "mode": mode, "count": count})


def at(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def no_box(cove):
    return c.until(lambda: not patiently(lambda: cove.get("/v1/sandboxes")).json["items"], 90)


def kill(cove, role="daemon"):
    old = cove.children()[role]
    os.kill(old, signal.SIGKILL)
    c.until(lambda: cove.children().get(role, old) != old, 60)


def retries(cove):
    fault(cove, "launch", count=2)
    got = done(cove, post(cove, command="echo x > x", artifacts={"paths": ["x"]}).json["id"])
    c.same((got["outcome"], got["attempt"]), ("completed", 3), "D-9 launch/fail x2: it succeeds on try 3")
    c.same([a["outcome"] for a in got["attempts"]], ["infra", "infra", "completed"], "each attempt says how it ended")
    c.same(len({a["sandbox"] for a in got["attempts"]}), 3, "each had a sandbox of its own")
    gaps = [at(b["startedAt"]) - at(a["endedAt"]) for a, b in zip(got["attempts"], got["attempts"][1:])]
    c.ok(0.8 <= gaps[0] < 8 and 1.6 <= gaps[1] < 12, "D-9 the delays are 1 and 2 s, +-20 %", gaps)
    fault(cove, "launch", count=4)
    got = done(cove, post(cove, command="true").json["id"])
    c.same((got["state"], got["outcome"], got["attempt"]), ("failed", "infra", 4), "D-9 x4: failed, infra, after 4 tries")
    fault(cove, "launch", count=1)
    got = done(cove, post(cove, command="true", retry="never").json["id"])
    c.same((got["outcome"], got["attempt"]), ("infra", 1), "retry: never")
    cove.request("DELETE", "/v1/dev/faults")
    got = done(cove, post(cove, command="exit 3").json["id"])
    c.same((got["exitCode"], got["attempt"]), (3, 1), "D-9 exit 3: exactly one try")
    c.ok(no_box(cove), "no sandbox is left")


def lost(cove):
    """The sandbox is deleted under it: infrastructure, for whoever runs it."""
    for retry, want in (("infra", ("completed", 2)), ("notStarted", ("infra", 1))):
        made = post(cove, command="test \"$(cat go 2>/dev/null)\" || true; sleep 2", retry=retry).json
        cove.get("/v1/executions/%s/wait?for=running" % made["id"])
        cove.request("DELETE", "/v1/sandboxes/" + get(cove, made["id"])["sandbox"])
        got = done(cove, made["id"])
        c.same((got["outcome"], got["attempt"]), want, "its sandbox is deleted: retry %s" % retry)


def kills(cove):
    made = [post(cove, command="sleep 6; echo %d" % n).json["id"] for n in range(4)]
    for ident in made:
        cove.get("/v1/executions/%s/wait?for=running" % ident)
    kill(cove)
    for ident in made:
        got = done(cove, ident)
        c.same((got["outcome"], got["attempt"]), ("completed", 1), "the daemon is killed: the command runs on, and its end is known")
    ready = post(cove, profile="VALIDATION").json["id"]
    cove.get("/v1/executions/%s/wait?for=ready" % ready)
    kill(cove)
    got = patiently(lambda: cove.post("/v1/executions/%s/exec" % ready, {"command": "echo on"}))
    c.same(got.json.get("stdout"), "on", "one that is driven by its client goes on, too")
    kill(cove)
    c.same(patiently(lambda: cove.post("/v1/executions/%s/complete" % ready)).json["outcome"], "completed", "and ends as it is told")
    fault(cove, "launch", count=1)
    ident = post(cove, command="true").json["id"]
    c.until(lambda: get(cove, ident)["attempts"] and get(cove, ident)["attempts"][0]["outcome"], 60)
    kill(cove)
    got = done(cove, ident)
    c.same((got["outcome"], got["attempt"]), ("completed", 2), "killed in the pause between two attempts: the next one comes")
    c.ok(no_box(cove), "no sandbox is left")


def stops(cove):
    fault(cove, "stop", count=2)
    ident = post(cove, command="true").json["id"]
    c.same(done(cove, ident)["outcome"], "completed", "D-0 the result is there while its sandbox cannot be removed")
    c.ok(cove.get("/v1/sandboxes").json["items"], "which is still there")
    kill(cove)  # the backoff is persisted
    cove.request("DELETE", "/v1/dev/faults")
    c.ok(no_box(cove), "and goes by itself, after another kill of the daemon")
    c.same(get(cove, ident)["outcome"], "completed", "the result stays")


def start_bound():
    cove = c.Cove("--dev=on", "--time-scale=30")
    try:
        fault(cove, "launch", "hang", 8)
        got = done(cove, post(cove, command="true", retry="never").json["id"])
        c.same((got["outcome"], got["attempt"]), ("infra", 1), "D-8 what never becomes ready fails at the bound")
        cove.request("DELETE", "/v1/dev/faults")
        c.ok(no_box(cove), "and leaves nothing")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()


def many(cove):
    """D-13: fifty at once."""
    got, script = {}, "echo \"$MINE\" > mine; sleep 1; test \"$(cat mine)\" = \"$MINE\" && test \"$(ls)\" = mine && test -z \"$(pgrep -f other-$MINE)\""

    def one(n):
        made = post(cove, command=script, env={"MINE": "m%d" % n}, limits={"memoryMB": 64}).json
        got[n] = done(cove, made["id"])

    threads = [threading.Thread(target=one, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    c.same(sorted({(r["outcome"], r["attempt"]) for r in got.values()}), [("completed", 1)], "D-13 fifty parallel executions complete")
    c.same(len({r["sandbox"] for r in got.values()}), 50, "each in a sandbox of its own")
    c.ok(no_box(cove), "no sandbox is left")


def clock(cove):
    """The host's clock is set an hour ahead and back: limits count on."""
    made = post(cove, command="sleep 600", limits={"wallTimeMs": 4000}).json
    cove.get("/v1/executions/%s/wait?for=running" % made["id"])
    for step, back in ((3600000, False), (7200000, True)):
        c.same(cove.post("/v1/dev/clock", {"stepMs": step, "back": back}).status, 204, "the clock is set by %d ms" % step)
    got = done(cove, made["id"])
    c.ok(got["outcome"] == "timeout" and 4000 <= got["durations"]["runMs"] < 9000, "the wall time is not moved by it", got["durations"])
    cove.post("/v1/dev/clock", {"stepMs": 3600000})


def ends_with_host():
    """SIGTERM ends sandboxes: the next daemon tries again."""
    cove = c.Cove("--dev=on")
    try:
        ident = post(cove, command="test -e first || sleep 3").json["id"]
        never = post(cove, command="sleep 600", retry="never").json["id"]
        for one in (ident, never):
            cove.get("/v1/executions/%s/wait?for=running" % one)
        c.same(cove.stop(), 0, "cove stops while executions run")
        cove.start()
        got = done(cove, ident)
        c.same((got["outcome"], [a["outcome"] for a in got["attempts"]]), ("completed", ["infra", "completed"]), "the next start runs it again")
        c.same(done(cove, never)["outcome"], "infra", "but not one with retry: never")
        c.ok(no_box(cove), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()


def queue():
    cove = c.Cove("--dev=on", "--executions-concurrency=1", "--executions-queue-max=3")
    try:
        first = post(cove, command="sleep 600").json["id"]
        cove.get("/v1/executions/%s/wait?for=running" % first)
        waiting = [post(cove, command="true").json["id"] for _ in range(3)]
        c.same([get(cove, ident)["queue"] for ident in waiting],
               [{"position": n, "reason": "concurrency"} for n in (1, 2, 3)], "the queue tells position and reason")
        c.same([get(cove, ident)["state"] for ident in waiting], ["queued"] * 3, "and the state")
        got = cove.post("/v1/executions", {"command": "true"})
        c.same((got.status, got.json["reason"]), (429, "queue_full"), "it has a bound")
        got = cove.post("/v1/executions", {"command": "true", "queue": False})
        c.same((got.status, got.json["reason"]), (429, "at_capacity"), "queue: false is refused instead")
        got = cove.post("/v1/executions/%s/cancel" % waiting[0]).json
        c.same((got["outcome"], got["attempt"], got["sandbox"]), ("cancelled", 0, None), "cancel in the queue")
        c.same(get(cove, waiting[1])["queue"]["position"], 1, "the others move up")
        hasty = post(cove, command="true", queueTimeoutMs=500).json["id"]
        got = done(cove, hasty)
        c.same((got["state"], got["outcome"]), ("failed", "queue_timeout"), "queueTimeoutMs ends the wait")
        kill(cove)
        c.same(get(cove, waiting[1])["state"], "queued", "a kill of the daemon does not empty the queue")
        patiently(lambda: cove.post("/v1/executions/%s/cancel" % first))
        c.same([done(cove, ident)["outcome"] for ident in waiting[1:]], ["completed"] * 2, "then they run")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()


def phases():
    """D-9, E-4: daemon and warden are killed while executions wait in the queue and while their sandboxes are made."""
    cove = c.Cove("--dev=on", "--executions-concurrency=3")
    made = []
    try:
        for role in ("daemon", "warden"):
            held = [post(cove, command="sleep 600").json["id"] for _ in range(3)]
            for ident in held:
                cove.get("/v1/executions/%s/wait?for=running" % ident)
            queued = [post(cove, command="echo run").json["id"] for _ in range(3)]
            c.same([get(cove, ident)["state"] for ident in queued], ["queued"] * 3, "three wait in the queue")
            kill(cove, role)
            c.same([(get(cove, ident)["state"], get(cove, ident)["attempt"]) for ident in queued], [("queued", 0)] * 3, "the %s is killed: they wait on" % role)
            for ident in held:
                patiently(lambda at=ident: cove.post("/v1/executions/%s/cancel" % at))
            ended = [done(cove, ident) for ident in queued]
            c.same([(got["outcome"], got["attempt"]) for got in ended], [("completed", 1)] * 3, "and run when it is their turn")
            patiently(lambda: cove.post("/v1/dev/faults", {"point": "launch", "mode": "hang", "count": 3}))
            making = [post(cove, command="echo run").json["id"] for _ in range(3)]
            c.ok(c.until(lambda: [get(cove, ident)["state"] for ident in making] == ["initializing"] * 3 and any(item["hanging"] for item in cove.get("/v1/dev/faults").json["items"]), 60),
                 "three are being made")
            kill(cove, role)
            patiently(lambda: cove.request("DELETE", "/v1/dev/faults"))
            ended += [done(cove, ident) for ident in making]
            racing = [post(cove, command="echo run").json["id"] for _ in range(3)]
            c.until(lambda: any(get(cove, ident)["state"] != "queued" for ident in racing), 60, 0.001)
            kill(cove, role)
            ended += [done(cove, ident) for ident in racing]
            c.same([(got["state"], got["outcome"], [a["outcome"] for a in got["attempts"]][-1]) for got in ended], [("completed",) * 3] * 9, "the %s is killed while sandboxes are made: all complete" % role)
            c.same([patiently(lambda at=got["id"]: cove.get("/v1/executions/%s/logs" % at)).body for got in ended], [b"run\n"] * 9, "with the log of one run each")
            made += held + queued + making + racing
        events = [event["fields"] for event in patiently(lambda: cove.get("/v1/events?kind=execution&limit=1000")).json["items"]]
        told = [fields["execution"] for fields in events if fields.get("outcome")]
        c.ok(told and len(told) == len(set(told)) and set(told) <= set(made), "no end is told twice", told)
        text = cove.get("/metrics").body.decode()
        c.same(sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("cove_executions_total{")), len(made), "each has ended once")
        c.ok(no_box(cove), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()


def quotas():
    """One that waits for its tenant's quota holds up nobody else."""
    cove = c.Cove("--dev=on")
    try:
        cove.request("PUT", "/v1/tenants/full", {"host": True, "quota": {"boxes": 1}})
        key = cove.post("/v1/keys", {"tenant": "full", "host": True}).json["key"]
        made = [cove.request("POST", "/v1/executions", {"command": "sleep 600"}, key=key).json["id"] for _ in range(2)]
        c.ok(c.until(lambda: (get(cove, made[1])["queue"] or {}).get("reason") == "quota", 60), "the second waits for the quota")
        c.same(cove.post("/v1/executions", {"command": "true", "queue": False}).status, 202, "queue: false of another tenant is taken")
        for ident in made[::-1]:
            cove.post("/v1/executions/%s/cancel" % ident)
        c.ok(no_box(cove), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()


def profiles():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")
    conf = os.path.join(path, "executions-%d.conf" % os.getpid())
    with open(conf, "w", encoding="utf-8") as file:
        file.write("[profile lint]\nmemory_mb = 128\nmax_memory_mb = 256\nwall_time_s = 60\nargv = [\"sh\", \"-c\", \"echo $COVE_AGENT_TYPE; ls > o.txt\"]\n"
                   "artifacts = *.txt\n[profile VALIDATION]\nnetwork_requests = 7\n[executions]\nconcurrency = 3\nqueue_max = 9\n")
    cove = c.Cove("--dev=on", "--config=" + conf)
    try:
        got = done(cove, post(cove, agentType="lint").json["id"])
        c.same((got["outcome"], got["limits"]["memoryMB"], got["artifacts"]["count"]), ("completed", 128, 1), "a profile of the configuration, with its agent")
        c.same(post(cove, agentType="lint", limits={"memoryMB": 256}).status, 202, "a request within the ceiling")
        c.same(post(cove, agentType="lint", limits={"memoryMB": 257}).json["reason"], "above_ceiling", "G-7 and above")
        c.same(post(cove, agentType="VALIDATION", command="true").json["limits"]["networkRequests"], 7, "a built-in one is changed")
        with open(conf, "a", encoding="utf-8") as file:
            file.write("[profile late]\nargv = [\"true\"]\n")
        os.kill(cove.process.pid, signal.SIGHUP)
        c.ok(c.until(lambda: cove.post("/v1/executions", {"agentType": "late"}).status == 202, 60), "a reload adds one")
        c.ok(c.until(lambda: not cove.get("/v1/sandboxes").json["items"], 60), "all of them end")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
        os.unlink(conf)


def main():
    cove = c.Cove("--dev=on")
    try:
        retries(cove)
        lost(cove)
        kills(cove)
        stops(cove)
        many(cove)
        clock(cove)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    start_bound()
    ends_with_host()
    queue()
    phases()
    quotas()
    profiles()
    c.done()


main()
