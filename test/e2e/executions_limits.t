#!/usr/bin/env python3
"""Limits of the whole execution bite, and the outcome names them (lifecycle D-3 to D-7): memory, CPU time, wall time also over a kill
of the daemon, network requests, storage. COVE_SOAK=1 runs the default values of the five profiles side by side."""
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402
from outside import Outside  # noqa: E402

c.need_root()
TYPES = {  # D-3: memory MB, CPU s, wall s, requests
    "ELICITATION": (256, 30, 300, 10), "TEST_WRITER": (512, 60, 600, 20), "IMPLEMENTATION": (1024, 120, 900, 50),
    "CONTEXT_GATHERING": (256, 30, 300, 30), "VALIDATION": (512, 60, 600, 20),
}
ALLOCATE = "import os, sys, time\nx = []\nwhile True:\n    x.append(b'x' * (1 << 20))\n"
BOMB = "import os\nfor _ in range(6):\n    if os.fork() == 0: break\nx = []\nwhile True:\n    x.append(b'x' * (1 << 20))\n"
BURN = "while :; do :; done"


def run(cove, wait=300, **body):
    return patiently(lambda: cove.request("POST", "/v1/executions?wait=%d" % wait, body, timeout=wait + 60)).json


def defaults(cove):
    for name, (memory, cpu, wall, requests) in TYPES.items():
        made = cove.post("/v1/executions", {"agentType": name}).json
        limits = made["limits"]
        c.same((limits["memoryMB"], limits["cpuTimeMs"], limits["wallTimeMs"], limits["networkRequests"], limits["storageMB"]),
               (memory, cpu * 1000, wall * 1000, requests, 200), "D-3 the limits of " + name)
        cove.get("/v1/executions/%s/wait?for=ready" % made["id"])
        box = cove.get("/v1/executions/" + made["id"]).json["sandbox"]
        c.same(cove.get("/v1/sandboxes/" + box).json["limits"]["memoryMB"], memory, "D-5 its sandbox has them")
        cove.post("/v1/executions/%s/cancel" % made["id"])


def memory(cove):
    for name, code in (("an allocator", ALLOCATE), ("D-5 a fork bomb of allocators dies as one", BOMB)):
        got = run(cove, argv=["python3", "-c", code], limits={"memoryMB": 64})
        c.same((got["state"], got["outcome"]), ("failed", "limit_memory"), "D-6 " + name)
        c.same(got["attempt"], 1, "and is not tried again")


def cpu(cove):
    began = time.monotonic()
    got = run(cove, command=BURN, limits={"cpuTimeMs": 2000})
    c.same(got["outcome"], "limit_cpu_time", "D-6 a busy loop")
    c.ok(1900 <= got["usage"]["cpuMs"] <= 3000, "D-5 it got its two seconds", got["usage"], time.monotonic() - began)
    made = cove.post("/v1/executions", {"profile": "VALIDATION", "limits": {"cpuTimeMs": 2000}}).json
    cove.get("/v1/executions/%s/wait?for=ready" % made["id"])
    cove.post("/v1/executions/%s/exec" % made["id"], {"command": "(%s) >/dev/null 2>&1 &" % BURN})
    got = cove.get("/v1/executions/%s/wait?timeoutMs=120000" % made["id"]).json
    c.same(got["outcome"], "limit_cpu_time", "also for what is left in the background of commands")


def both(cove):
    """CPU and wall time pass while nobody looks: the budget that was used up is named."""
    made = cove.post("/v1/executions", {"profile": "VALIDATION", "limits": {"cpuTimeMs": 1000, "wallTimeMs": 3000}}).json
    cove.get("/v1/executions/%s/wait?for=ready" % made["id"])
    box = cove.get("/v1/executions/" + made["id"]).json["sandbox"]
    cove.post("/v1/executions/%s/exec" % made["id"], {"command": "(%s) >/dev/null 2>&1 &" % BURN})
    daemon = cove.children()["daemon"]
    os.kill(daemon, signal.SIGSTOP)
    began = time.monotonic()
    spent = c.until(lambda: time.monotonic() - began > 3.2 and (c.cpu_us(cove, box) or 0) >= 1100000, 120)
    os.kill(daemon, signal.SIGCONT)
    got = patiently(lambda: cove.get("/v1/executions/%s/wait?timeoutMs=120000" % made["id"], timeout=180)).json
    c.ok(spent and got["outcome"] == "limit_cpu_time", "D-6 both limits are passed when the daemon looks: the CPU time is named", got["outcome"], got["usage"], got["durations"])


def wall(cove):
    got = run(cove, command="sleep 600", limits={"wallTimeMs": 4000})
    c.same(got["outcome"], "timeout", "D-6 a sleeper")
    c.ok(4000 <= got["durations"]["runMs"] < 6000, "D-5 it got its four seconds", got["durations"])
    made = cove.post("/v1/executions", {"profile": "VALIDATION", "limits": {"wallTimeMs": 2000}}).json
    got = cove.get("/v1/executions/%s/wait?timeoutMs=120000" % made["id"]).json
    c.same(got["outcome"], "timeout", "one that waits for its client has the same limit")


def wall_over_kill(cove):
    made = cove.post("/v1/executions", {"command": "sleep 600", "limits": {"wallTimeMs": 8000}}).json
    cove.get("/v1/executions/%s/wait?for=running" % made["id"])
    time.sleep(4)
    os.kill(cove.children()["daemon"], signal.SIGKILL)
    got = patiently(lambda: cove.get("/v1/executions/%s/wait?timeoutMs=120000" % made["id"], timeout=180)).json
    c.same((got["outcome"], got["attempt"]), ("timeout", 1), "D-5 the daemon is killed at half time: the end is the limit's")
    c.ok(8000 <= got["durations"]["runMs"] < 11000, "at the original time", got["durations"])


def network(cove, outside):
    net = {"mode": "allow", "allow": ["api.test"]}
    got = run(cove, command="for n in 1 2 3 4; do curl -sSf -o /dev/null http://api.test/$n || exit 9; done", network=net, limits={"networkRequests": 3})
    c.same((got["outcome"], got["exitCode"]), ("limit_network", 9), "D-6 the fourth of three requests is refused")
    c.same([seen.path for seen in outside.seen], ["/1", "/2", "/3"], "and never left")
    c.same(got["usage"]["networkRequests"], 3, "the count is the client's")
    got = run(cove, command="for n in 1 2 3 4; do curl -sS -o /dev/null http://api.test/$n; done; exit 0", network=net, limits={"networkRequests": 3})
    c.same((got["outcome"], got["exitCode"]), ("completed", 0), "D-6 a refusal alone is no failure")
    got = run(cove, command="for n in 1 2; do curl -sS -o /dev/null http://api.test/$n; done; exit 7", network=net, limits={"networkRequests": 3})
    c.same(got["outcome"], "exit_nonzero", "nor is the budget blamed when it was not used up")
    made = run(cove, command="curl -sS -m 5 http://other.test/; curl -sS -m 5 http://192.0.2.7/; exit 0", network=net)
    c.same(made["outcome"], "completed", "D-7 a host outside of the list is refused")
    events = [e for e in cove.get("/v1/events?kind=security&limit=1000").json["items"] if e["sandbox"] == made["sandbox"]]
    c.ok(len(events) >= 2, "by name and by address, each a security event", events)


def storage(cove):
    got = run(cove, command="head -c 40000000 /dev/urandom > big", limits={"storageMB": 32})
    c.same((got["state"], got["outcome"]), ("failed", "limit_storage"), "D-4, D-6 a full disk")
    got = run(cove, command="head -c 40000000 /dev/urandom > big; sleep 3; exit 5", limits={"storageMB": 32})
    c.same(got["outcome"], "limit_storage", "which is named though the disk got a little room since, from what is held back of its limit")
    got = run(cove, command="head -c 10000000 /dev/urandom > big; exit 4", limits={"storageMB": 64})
    c.same(got["outcome"], "exit_nonzero", "which is not blamed while there is room")


def everyday(cove, outside):
    defaults(cove)
    memory(cove)
    cpu(cove)
    both(cove)
    wall(cove)
    wall_over_kill(cove)
    network(cove, outside)
    storage(cove)


def soak(cove, outside):
    """Verify D-1/3/5/6: five types, five ways to exceed a limit, all with default values, side by side."""
    net, got = {"mode": "allow", "allow": ["api.test"]}, {}

    def one(name, way, want, **body):
        got[name, way] = (run(cove, wait=600, agentType=name, **body), want)

    ask = "for n in $(seq %d); do curl -sSf -o /dev/null http://api.test/ || exit 9; done"
    threads = []
    for name, (_, _, _, requests) in TYPES.items():
        for way, want, body in (("memory", "limit_memory", {"argv": ["python3", "-c", ALLOCATE]}), ("cpu", "limit_cpu_time", {"command": BURN}),
                                ("wall", "timeout", {"command": "sleep 3000"}), ("network", "limit_network", {"command": ask % (requests + 1), "network": net}),
                                ("storage", "limit_storage", {"command": "head -c 420000000 /dev/urandom > big"})):  # far over it: a quota counts late what is being written
            threads.append(threading.Thread(target=one, args=(name, way, want), kwargs=body))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (name, way), (record, want) in sorted(got.items()):
        while record["state"] not in ("completed", "failed"):
            record = cove.get("/v1/executions/%s/wait?timeoutMs=600000" % record["id"], timeout=700).json
        starved = way == "cpu" and record["outcome"] == "timeout" and record["usage"]["cpuMs"] < TYPES[name][1] * 1000
        if starved:
            c.note("%s: the host gave it %d ms of CPU time in its wall time" % (name, record["usage"]["cpuMs"]))
        c.ok(record["outcome"] == want or starved, "%s: %s" % (name, way), record["outcome"], record["usage"], record["durations"])
        if way == "wall":
            limit = TYPES[name][2] * 1000
            c.ok(limit <= record["durations"]["runMs"] <= limit * 1.05 + 1000, "%s ended at its time" % name, record["durations"])


def main():
    outside = Outside("api.test", "other.test")
    cove = c.Cove("--dev=on", *outside.options())
    try:
        (soak if os.environ.get("COVE_SOAK") else everyday)(cove, outside)
        c.ok(c.until(lambda: not cove.get("/v1/sandboxes").json["items"], 60), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
        outside.close()
    c.done()


main()
