#!/usr/bin/env python3
"""Executions, each check named by its id: what is not tried again (D-9), what sandboxes see of each other (D-7, D-13), steps of warm starts (D-14), profiles (G-7), suggestions after 100 runs (G-10), clocks that jump."""
import concurrent.futures
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
STEPS = ["sandbox_provision", "disk_check", "workspace_setup", "runner_start"]


def post(cove, **body):
    return cove.post("/v1/executions", body)


def get(cove, ident):
    return cove.get("/v1/executions/" + ident).json


def done(cove, ident, ms=240000):
    return cove.get("/v1/executions/%s/wait?timeoutMs=%d" % (ident, ms), timeout=ms / 1000 + 60).json


def run(cove, **body):
    return done(cove, post(cove, **body).json["id"])


def fault(cove, point, mode="fail", count=1):
    cove.post("/v1/dev/faults", {"point": point, "mode": mode, "count": count})


def once(cove):
    """D-9: exit codes, exceeded limits, capacity and bad requests have exactly one try."""
    for what, body, want in (
            ("a non-zero exit", {"command": "exit 3"}, "exit_nonzero"),
            ("memory", {"argv": ["python3", "-c", "x = 'x' * (400 << 20)"], "limits": {"memoryMB": 64}}, "limit_memory"),
            ("CPU time", {"command": "while :; do :; done", "limits": {"cpuTimeMs": 300}}, "limit_cpu_time"),
            ("wall time", {"command": "sleep 600", "limits": {"wallTimeMs": 500}}, "timeout"),
            ("files that do not fit on the disk", {"command": "true", "limits": {"storageMB": 16}, "files": [{"path": "big", "content": "x" * (24 << 20)}]}, "limit_storage"),
            ("a command that is not there", {"argv": ["no-such-program"]}, "exit_nonzero")):
        got = run(cove, **body)
        c.same((got["state"], got["outcome"], got["attempt"]), ("failed", want, 1), "D-9 not tried again: " + what)
    fault(cove, "capacity", count=2)
    got = run(cove, command="cat a", files=[{"path": "a", "content": "x"}])
    c.same((got["outcome"], got["attempt"], len(got["attempts"])), ("completed", 1, 1), "D-9 capacity that is unknown is no attempt: it waits for its turn again")
    cove.request("DELETE", "/v1/dev/faults")


def refused(cove):
    """D-9: what the request asks for has gone before its sandbox is made."""
    fault(cove, "launch", "hang")
    made = post(cove, command="true", secrets=[]).json["id"]
    c.until(lambda: get(cove, made)["state"] == "initializing", 60)
    cove.request("DELETE", "/v1/dev/faults")
    c.same(done(cove, made)["outcome"], "completed", "a start that hung goes on")
    for body, reason in (({"command": "true", "template": "no-such"}, 404), ({"agentType": "FOO", "command": "true"}, 400), ({"command": "true", "profile": "nope"}, 400)):
        before = len(cove.get("/v1/executions?limit=1000").json["items"])
        c.same((post(cove, **body).status, len(cove.get("/v1/executions?limit=1000").json["items"])), (reason, before), "D-4, D-9 a bad request makes no execution: %s" % body)


def apart(cove):
    """D-7, D-13: variables, files, processes and ports of one are not in another."""
    script = ("echo $$-$TOKEN > mine; python3 -c 'import socket, os, time\ns = socket.socket(); s.bind((\"127.0.0.1\", 7777)); s.listen()\nopen(\"up\", \"w\")\n"
              "while not os.path.exists(\"end\"): time.sleep(0.05)' & until test -e up; do sleep 0.05; done; ls; tr '\\0' '\\n' < /proc/1/environ | grep -c TOKEN; "
              "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^TOKEN= | sort -u; touch end; wait; echo ended")
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        got = list(pool.map(lambda n: run(cove, command=script, env={"TOKEN": "t%d" % n}, limits={"memoryMB": 96}), range(12)))
    c.same([one["outcome"] for one in got], ["completed"] * 12, "D-13 twelve at once listen at the same port")
    logs = [cove.get("/v1/executions/%s/logs?stream=stdout" % one["id"]).body.decode().split("\n") for one in got]
    c.same([[line for line in log if line.startswith("TOKEN=")] for log in logs], [["TOKEN=t%d" % n] for n in range(12)], "D-7 each sees its own variable alone")
    c.ok(all(log[:2] == ["mine", "up"] and "ended" in log for log in logs), "D-13 and its own files and processes", logs[0])


def warm(cove):
    """D-14: the steps come in order on a start that finds everything ready, too."""
    for what in ("cold", "warm"):
        made = post(cove, command="true", files=[{"path": "a", "content": "x"}]).json["id"]
        done(cove, made)
        page = cove.get("/v1/executions/%s/events?after=0" % made).json["items"]
        c.same([e["name"] for e in page if e.get("name") in STEPS], STEPS, "D-14 the steps of a %s start, in order" % what)
        c.ok(all(step["durationMs"] is not None for step in get(cove, made)["steps"]), "each with its duration")


def jumps(cove):
    """The host's clock jumps while executions wait for a retry, in the queue and in their wall time."""
    fault(cove, "launch", count=1)
    made = post(cove, command="true").json["id"]
    c.until(lambda: get(cove, made)["attempts"] and get(cove, made)["attempts"][0]["outcome"], 60)
    held = [post(cove, command="sleep 600", limits={"wallTimeMs": 5000}).json["id"]]
    cove.get("/v1/executions/%s/wait?for=running" % held[0])
    for step, back in ((86400000, False), (2 * 86400000, True), (86400000, False)):
        c.same(cove.post("/v1/dev/clock", {"stepMs": step, "back": back}).status, 204, "the clock is set by %d ms" % (-step if back else step))
    got = done(cove, made)
    c.same((got["outcome"], got["attempt"]), ("completed", 2), "a retry comes in its time")
    got = done(cove, held[0])
    c.ok(got["outcome"] == "timeout" and 5000 <= got["durations"]["runMs"] < 20000, "the wall time ends in its time", got["outcome"], got["durations"])
    c.ok(all(got["durations"][k] >= 0 for k in ("queuedMs", "provisionMs", "runMs", "cleanupMs")), "no duration is negative", got["durations"])
    c.ok(got["createdAt"] <= got["startedAt"] <= got["endedAt"], "and times are in order", got["createdAt"], got["startedAt"], got["endedAt"])


def queued():
    cove = c.Cove("--dev=on", "--executions-concurrency=1")
    try:
        first = post(cove, command="sleep 600").json["id"]
        cove.get("/v1/executions/%s/wait?for=running" % first)
        waiting = post(cove, command="true", queueTimeoutMs=3000).json["id"]
        patient = post(cove, command="true").json["id"]
        began = time.monotonic()
        for step, back in ((86400000, False), (86400000, True)):
            cove.post("/v1/dev/clock", {"stepMs": step, "back": back})
        got = done(cove, waiting)
        c.ok(got["outcome"] == "queue_timeout" and time.monotonic() - began > 1.5, "a clock that jumps a day does not end the wait in the queue early", got["outcome"], time.monotonic() - began)
        c.same(get(cove, patient)["state"], "queued", "nor that of one with more patience")
        cove.post("/v1/executions/%s/cancel" % first)
        c.same(done(cove, patient)["outcome"], "completed", "which has its turn")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()


def out_of_reach(cove):
    """Results of a sandbox that is there and does not answer are waited for: its files are not missing."""
    fault(cove, "probe", count=2)
    got = run(cove, command="echo kept > a; echo log", artifacts={"paths": ["a"], "required": True})
    c.same((got["outcome"], got["attempt"], got["artifacts"]["count"], got["artifacts"]["missing"]), ("completed", 1, 1, []), "D-11 results that were out of reach twice are kept")
    c.same(cove.get("/v1/executions/%s/artifacts/a" % got["id"]).body, b"kept\n", "and are whole")
    fault(cove, "probe", "hang")
    made = post(cove, command="echo kept > a", artifacts={"paths": ["a"], "required": True}).json["id"]
    c.ok(c.until(lambda: any(item["hanging"] for item in cove.get("/v1/dev/faults").json["items"]), 60), "a sandbox that hangs is met")
    c.same(get(cove, made)["outcome"], None, "and nothing is judged meanwhile")
    cove.request("DELETE", "/v1/dev/faults")
    c.same(done(cove, made)["outcome"], "completed", "it ends when the sandbox answers")


def late_start(cove):
    """Lifecycle 10.7: the wall time is not reset by retries; a start past it ends as timeout."""
    made = post(cove, command="sleep 600", limits={"wallTimeMs": 6000}).json["id"]
    cove.get("/v1/executions/%s/wait?for=running" % made)
    fault(cove, "launch", "hang", 4)
    cove.request("DELETE", "/v1/sandboxes/" + get(cove, made)["sandbox"])
    got = done(cove, made)
    c.same((got["outcome"], got["attempt"], got["attempts"][0]["outcome"]), ("timeout", 2, "infra"), "D-9, 10.7 a second start past the wall time is a timeout")
    c.ok(6000 <= got["durations"]["runMs"] < 12000, "at the end of the first attempt's wall time", got["durations"])
    cove.request("DELETE", "/v1/dev/faults")


def gone_meanwhile(cove):
    """D-9: what a request asks for is gone when its turn comes: one try."""
    cove.request("PUT", "/v1/secrets/SOON", {"value": "x" * 20, "hosts": ["api.test"]})
    fault(cove, "launch", "hang")
    made = post(cove, command="true", secrets=["SOON"]).json["id"]
    c.until(lambda: get(cove, made)["state"] == "initializing", 60)
    cove.request("DELETE", "/v1/secrets/SOON")
    cove.request("DELETE", "/v1/dev/faults")
    got = done(cove, made)
    c.same((got["state"], got["outcome"], got["attempt"], got["reason"]), ("failed", "infra", 1, "no_secret"), "D-9 a request that became bad is not tried again")


def ceilings(cove):
    """G-7: requests change limits within the profile's ceiling."""
    for field, over in (("memoryMB", 513), ("cpuTimeMs", 60001), ("wallTimeMs", 600001), ("networkRequests", 21), ("storageMB", 201)):
        got = post(cove, agentType="VALIDATION", command="true", limits={field: over})
        c.same((got.status, got.json["reason"]), (400, "above_ceiling"), "G-7 %s above the ceiling" % field)
        made = post(cove, agentType="VALIDATION", limits={field: over - 1})
        c.same((made.status, made.json["limits"][field]), (202, over - 1), "G-7 and at the ceiling")
        cove.post("/v1/executions/%s/cancel" % made.json["id"])


def suggestions(cove):
    """G-10: after 100 runs, of two repositories, the suggestions bracket the true peak of each."""
    code = "x = bytearray(%d << 20); x[::4096] = b'x' * len(x[::4096])"
    kinds = (("acme/small", 30), ("acme/large", 120))

    def one(n):
        name, size = kinds[n % 2]
        return run(cove, agentType="TEST_WRITER", argv=["python3", "-c", code % size], labels={"repository": name})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(one, range(100)))
    c.same({one["outcome"] for one in runs}, {"completed"}, "a hundred runs complete")
    peaks = []
    for n, (name, _) in enumerate(kinds):
        peaks.append(max(one["usage"]["memoryPeakBytes"] for one in runs[n::2]) / (1 << 20))
        got = cove.get("/v1/executions/%s/suggestion" % runs[n]["id"]).json
        c.ok((got["repository"], got["executions"]) == (name, 50) and peaks[n] <= got["suggested"]["memoryMB"] <= max(64, 2 * peaks[n]),
             "G-10 suggestions after 50 runs of %s bracket their true peak" % name, got, peaks)
    for labels in ({}, {"repository": "acme/new"}):
        got = cove.get("/v1/executions/%s/suggestion" % run(cove, agentType="TEST_WRITER", command="true", labels=labels)["id"]).json
        c.ok(got["repository"] is None and got["executions"] >= 101 and peaks[1] <= got["suggested"]["memoryMB"] <= 2 * peaks[1],
             "G-10 without enough of its repository, those of its type are told", got, peaks)


def main():
    cove = c.Cove("--dev=on")
    try:
        once(cove)
        refused(cove)
        apart(cove)
        warm(cove)
        out_of_reach(cove)
        late_start(cove)
        gone_meanwhile(cove)
        ceilings(cove)
        suggestions(cove)
        jumps(cove)
        c.ok(c.until(lambda: not cove.get("/v1/sandboxes").json["items"], 90), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    queued()
    c.done()


main()
