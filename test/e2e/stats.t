#!/usr/bin/env python3
"""Stats of one sandbox and of the host: exact counters of the kernel, over freeze, stop, kills of cove and restarts."""
import datetime
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
cove = c.Cove()
WAIT = 60


def stats(box, **kw):
    return cove.get("/v1/sandboxes/%s/stats" % box["id"], **kw).json


def burn(box, seconds):
    cove.run(box, ["python3", "-c", "import time\nwhile time.process_time() < %g: pass" % seconds])


SHAPE = {
    "cpu": {"usedUs", "cores", "limitCores", "throttledUs"},
    "memory": {"workingSetBytes", "chargedBytes", "peakBytes", "limitBytes", "oomKills"},
    "pids": {"count", "limit"},
    "disk": {"bytes", "limitBytes", "inodes", "inodeLimit", "readBytes", "writeBytes"},
    "network": {"connections", "requests", "bytesIn", "bytesOut", "denied"},
}

# One sandbox
box = cove.create(limits={"memoryMB": 256, "pids": 128, "cpus": 1})
one = stats(box)
c.same({key for key in one}, set(SHAPE) | {"sandbox", "time", "ageMs", "state", "epoch", "execs", "terminals"}, "the object of stats is W-29's")
c.same({key: set(one[key]) for key in SHAPE}, SHAPE, "and so are its parts")
c.same((one["sandbox"], one["state"], one["epoch"]), (box["id"], "running", 1), "a new sandbox is in its first epoch")
c.same((one["memory"]["limitBytes"], one["pids"]["limit"], one["cpu"]["limitCores"]), (256 << 20, 128, 1), "limits stand beside")
c.ok(one["pids"]["count"] >= 1 and one["memory"]["chargedBytes"] > 0, "what it has is counted", one)
burn(box, 0.5)
c.until(lambda: stats(box)["ageMs"] < 400, WAIT)
before = c.cpu_us(cove, box["id"])
two = c.until(lambda: (lambda got: got if got["cpu"]["usedUs"] >= before else None)(stats(box)), WAIT, 0.2)
after = c.cpu_us(cove, box["id"])
c.ok(two and before <= two["cpu"]["usedUs"] <= after and after >= 500000, "CPU time is the kernel's own number", before, two, after)
cove.run(box, "head -c 50000000 /dev/zero > /workspace/zeros")
held = cove.run(box, "python3 -c 'b = bytearray(60 << 20); import time; print(len(b), flush=True); time.sleep(600)' > /tmp/out 2>&1 & "
                     "until grep -q . /tmp/out; do sleep 0.05; done")
got = c.until(lambda: (lambda got: got if got["memory"]["workingSetBytes"] >= 60 << 20 else None)(stats(box)), WAIT, 0.6)
c.ok(got and got["memory"]["chargedBytes"] >= got["memory"]["workingSetBytes"], "the working set has what a process holds", got)
c.ok(c.until(lambda: (stats(box)["disk"]["bytes"] or 0) >= 45 << 20 or stats(box)["disk"]["bytes"] is None, 150, 1),
     "the disk in use is measured, or null where the host cannot", stats(box)["disk"])
cove.run(box, "pkill -f bytearray; true")

# Half a core
stream = c.Stream(cove, "/v1/sandboxes/%s/stats?everyMs=500" % box["id"])
half = threading.Thread(target=cove.run, args=(box, ["python3", "-c", """
import time
end = time.time() + 12
spent = time.process_time()
while time.time() < end:
    if time.process_time() - spent < (12 - (end - time.time())) * 0.5: pass
    else: time.sleep(0.002)
"""]))
half.start()
half.join()
sent = [event for event in stream.got if event["cpu"]["cores"] is not None]
c.ok(len(sent) >= 10, "a stream sends the object again and again", len(stream.got))
used = [(event["time"], event["cpu"]["usedUs"]) for event in stream.got]
c.ok(used == sorted(used), "its counters never fall")


def seconds(event):
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def told(before, after):
    """The cores of an event, and what its counters and times say."""
    span = seconds(after) - seconds(before)
    return (after["cpu"]["cores"], (after["cpu"]["usedUs"] - before["cpu"]["usedUs"]) / 1e6 / span) if span else (0, 0)


rates = [told(before, after) for before, after in zip(sent, sent[1:])]
c.ok(all(abs(said - true) <= 0.01 + 0.02 * true for said, true in rates), "the cores of an event are those since the event before", rates)
whole = told(sent[0], sent[-1])[1]
c.ok(0 < whole <= 0.6, "half a core reads as a part of one", whole, rates)
c.same(cove.get("/v1/sandboxes/%s/stats?everyMs=5" % box["id"]).json["reason"], "bad_field", "a stream has a bound of speed")

# Over freeze, stop, start, and kills
cove.post("/v1/sandboxes/%s/pause" % box["id"])
paused = stats(box)
c.same((paused["state"], paused["epoch"]), ("paused", 1), "a paused sandbox has stats")
c.same(stats(box)["state"], "paused", "and to read them does not wake it")
cove.post("/v1/sandboxes/%s/resume" % box["id"])
was = stats(box)["cpu"]["usedUs"]
cove.post("/v1/sandboxes/%s/stop" % box["id"])
stopped = stats(box)
c.same((stopped["state"], stopped["memory"]["chargedBytes"], stopped["pids"]["count"]), ("stopped", 0, 0), "a stopped one holds no memory")
c.ok(stopped["cpu"]["usedUs"] >= was, "and keeps its CPU time", was, stopped)
cove.post("/v1/sandboxes/%s/start" % box["id"])
again = c.until(lambda: (lambda got: got if got["epoch"] == 2 else None)(stats(box)), WAIT, 0.2)
c.ok(again and again["cpu"]["usedUs"] < stopped["cpu"]["usedUs"], "a started one is in another epoch, from 0", again)
burn(box, 0.3)
for role in ("daemon", "warden"):
    os.kill(cove.children()[role], signal.SIGKILL)
    burned = c.cpu_us(cove, box["id"])

    def same_epoch():
        try:
            got = stats(box)
        except (OSError, ValueError, KeyError):
            return None
        return got if got.get("epoch") == 2 and got["cpu"]["usedUs"] >= burned else None

    c.ok(c.until(same_epoch, WAIT, 0.2), "after kill -9 of the %s the epoch and the counters go on" % role)
c.ok(c.until(lambda: cove.get("/v1/health").json.get("status") == "ok", WAIT, 0.2), "cove is back")

# The host, and tenants
boxes = [box] + [cove.create() for _ in range(2)]
for each in boxes:
    stats(each)
host = cove.get("/v1/stats").json
c.same(set(host), {"time", "cpu", "memory", "disk", "pids", "sandboxes", "executions", "pool", "network", "latency", "failureRate"},
       "the object of the host is W-30's")
c.same(host["sandboxes"]["running"], len(boxes), "sandboxes by state")
parts = [stats(each)["memory"]["workingSetBytes"] for each in boxes]
host = cove.get("/v1/stats").json
c.ok(abs(host["memory"]["sandboxesBytes"] - sum(parts)) <= 4 << 20, "sums equal the list", host["memory"], parts)
c.ok(host["cpu"]["cores"] == os.cpu_count() and host["memory"]["totalBytes"] > host["memory"]["availableBytes"] > 0 and
     host["memory"]["daemonBytes"] > 1 << 20 and host["disk"]["freeBytes"] > 0, "the host's own numbers", host)
c.ok(c.until(lambda: cove.get("/v1/stats").json["cpu"]["daemon"] is not None, WAIT, 0.3), "the daemon's own load is measured")

# Executions: one that runs, one that waits, and how ten of them ended
for _ in range(9):
    cove.post("/v1/executions?wait=60", {"command": "true"})
cove.post("/v1/executions?wait=60", {"command": "exit 3"})
held = cove.post("/v1/executions", {"command": "sleep 600"}).json["id"]
c.same(cove.get("/v1/executions/%s/wait?for=running" % held).json["state"], "running", "an execution runs")
host = cove.get("/v1/stats").json
c.same(host["executions"], {"queued": 0, "running": 1}, "W-30: executions by state")
c.ok(b'\ncove_executions{state="running"} 1\n' in cove.get("/metrics").body, "and the gauge of Prometheus")
c.same(host["failureRate"], {"total": 0.1, "infrastructure": 0, "samples": 10}, "W-30: the failures of an hour")
for kind, least in (("create", 11), ("exec", 10)):
    seen = host["latency"][kind]
    c.ok(seen["count"] >= least and 0 < seen["p50Ms"] <= seen["p95Ms"] <= seen["p99Ms"], "W-30: the latency of %s" % kind, seen)
cove.post("/v1/executions/%s/cancel" % held)
c.ok(c.until(lambda: cove.get("/v1/stats").json["executions"]["running"] == 0, WAIT, 0.2), "one that was cancelled does not run")
cove.request("PUT", "/v1/tenants/acme", {"quota": {}})
key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use"]}).json["key"]
own = cove.get("/v1/stats", key=key).json
c.same((own["sandboxes"]["running"], own["memory"]["totalBytes"], own["cpu"]["daemon"]), (0, None, None), "a tenant sees its own sums alone")
c.same((own["executions"], own["failureRate"]["total"], own["latency"]["create"]["count"]), ({"queued": 0, "running": 0}, None, None),
       "and neither executions nor times of others")
c.same(cove.get("/v1/sandboxes/%s/stats" % box["id"], key=key).status, 404, "and no sandbox of others")
live = c.Stream(cove, "/v1/stats?everyMs=100")
c.ok(c.until(lambda: len(live.got) >= 3, WAIT), "the host's stats are a stream, too")
ends = c.Stream(cove, "/v1/sandboxes/%s/stats?everyMs=200" % boxes[1]["id"])
c.until(lambda: ends.got, WAIT)
cove.delete(boxes[1])
c.ok(c.until(lambda: ends.ended, WAIT), "a stream of stats ends with its sandbox")
c.same(cove.get("/v1/sandboxes/%s/stats" % boxes[1]["id"]).status, 404, "a deleted sandbox has none")
cove.close()
c.done()
