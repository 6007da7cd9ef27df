#!/usr/bin/env python3
"""The history of what was used: seven days in points, in bounds, over restarts."""
import os
import signal
import sqlite3
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
WAIT = 90
cove = c.Cove("--dev", "--time-scale", "10", "--sleep-after", "1h")  # a slot is a second, a point half a minute


def ask(scope="host", *metrics, key=True, **query):
    words = ["scope=" + scope] + ["metric=" + m for m in metrics] + ["%s=%s" % pair for pair in query.items()]
    return cove.get("/v1/metrics/history?" + "&".join(words), key=key)


def values(reply, metric, which="avg"):
    return next(s for s in reply.json["series"] if s["metric"] == metric)[which]


def now():
    return int(time.time() * 1000)


# ------------------------------------------------------------------------------------------ what is asked
box = cove.create()
cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "while :; do :; done"})
path = "/v1/sandboxes/%s/stats" % box["id"]


def sampled():
    cove.get(path)
    return [v for v in values(ask("sandbox:" + box["id"], "cpu", **{"from": now() - 60000}), "cpu") if v and v > 0.05]


c.ok(c.until(lambda: len(sampled()) >= 3, WAIT, 0.5), "F-6: a sandbox that computes has a history", ask("sandbox:" + box["id"], "cpu"))
seen = ask("sandbox:" + box["id"], **{"from": now() - 60000}).json
c.ok([s["metric"] for s in seen["series"]] == ["cpu", "memory", "pids", "disk", "netIn", "netOut", "requests", "denied", "sandboxes", "executions", "failures", "createP95"] and
     {"from", "to", "stepMs", "scope", "series", "marks"} == set(seen), "every metric, with its unit", seen["series"][0])
c.ok(all(len(s["avg"]) == len(s["max"]) == len(s["covered"]) for s in seen["series"]) and all(0 <= v <= 1 for v in seen["series"][0]["covered"]), "a value, a maximum and a part covered for each point")
c.ok(all((v is None) == (covered == 0) for v, covered in zip(seen["series"][0]["avg"], seen["series"][0]["covered"])), "what was not seen is null, and never 0")
memory = [v for v in values(ask("sandbox:" + box["id"], "memory", **{"from": now() - 60000}), "memory") if v]
c.ok(memory and all(1e5 < v < 512 << 20 for v in memory), "memory in bytes", memory)
host = ask("host", "sandboxes", "cpu", **{"from": now() - 20000})
c.ok(1 in values(host, "sandboxes") and host.json["scope"] == "host" and "start" in [m["kind"] for m in ask("host", **{"from": now() - 3000000}).json["marks"]], "the host's, with a mark for the start", host)
c.same(ask("host", "cpu", **{"from": now() - 60000, "step": "10s"}).json["stepMs"], 10000, "a step")
c.same(ask("host", "cpu", **{"from": now() - 3600000, "step": "1s"}).json["stepMs"], 30000, "is rounded up to what is stored")


def resources():
    return cove.get("/v1/metrics").json["resources"]


c.ok(c.until(lambda: (resources()["cpuCores"]["peak"] or 0) > 0.05, WAIT, 0.5), "F-2: the peak of the last hour", resources())
used = resources()
c.ok(0 < used["cpuCores"]["average"] <= used["cpuCores"]["peak"] <= os.cpu_count() + 1 and used["cpuSeconds"] > 0, "and the average, of CPU", used)
c.ok(1e5 < used["memoryHour"]["average"] <= used["memoryHour"]["peak"] < 512 << 20 and used["memoryBytes"] > 1e5 and used["storageBytes"] >= 0, "of memory, and what is used now", used)

# ------------------------------------------------------------------------------------------ bounds
too_many = ask("host", "cpu", **{"from": 0, "step": "1m"})
c.ok(too_many.status == 400 and too_many.json["reason"] == "too_many_points", "a query over its bound", too_many)
c.same([ask(scope, **query).status for scope, query in (("moon", {}), ("host", {"step": "x"}), ("host", {"from": "then"}), ("host", {"from": now(), "to": 5}), ("host", {"metric": "luck"}),
                                                       ("sandbox:nowhere", {}), ("type:" + "x" * 200, {}))], [400, 400, 400, 400, 400, 404, 400], "bad queries")
cove.request("PUT", "/v1/tenants/acme", {})
cove.request("PUT", "/v1/tenants/other", {})
keys = {t: cove.post("/v1/keys", {"tenant": t, "scopes": ["read", "make", "use"], "host": True}).json["key"] for t in ("acme", "other")}
theirs = cove.post("/v1/sandboxes", {}, key=keys["acme"]).json["id"]
c.same([ask(scope, key=keys["acme"]).status for scope in ("sandbox:" + theirs, "tenant:acme", "tenant:other", "host", "sandbox:" + box["id"])], [200, 200, 403, 403, 404], "a tenant sees its own")
c.same([ask(scope, key=keys["other"]).status for scope in ("sandbox:" + theirs, "tenant:acme")], [404, 403], "and nobody else's")

# ------------------------------------------------------------------------------------------ executions
def counted(scope, metric, key=True):
    """How many of them the history has: rates times the seconds that they are of."""
    reply = ask(scope, metric, key=key, **{"from": now() - 120000, "step": "1s"})
    series = reply.json["series"][0]
    return round(sum(rate * part for rate, part in zip(series["avg"], series["covered"]) if rate is not None) * reply.json["stepMs"] / 1000)


for tenant, word, number in (("acme", "exit 3", 3), ("acme", "true", 2), ("other", "exit 4", 1)):
    for _ in range(number):
        cove.post("/v1/executions?wait=60", {"command": word, "agentType": "VALIDATION" if tenant == "acme" else "ELICITATION"}, key=keys[tenant])
want = {"tenant:acme": (5, 3), "tenant:other": (1, 1), "type:VALIDATION": (5, 3), "type:ELICITATION": (1, 1), "host": (6, 4)}
have = c.until(lambda: (lambda got: got if got == want else None)({scope: (counted(scope, "executions"), counted(scope, "failures")) for scope in want}), WAIT, 0.3)
c.same(have or {scope: (counted(scope, "executions"), counted(scope, "failures")) for scope in want}, want, "W-31: executions and failures by tenant, by type and of the host")
c.same(counted("tenant:acme", "failures", key=keys["acme"]), 3, "a tenant sees its own")

# ------------------------------------------------------------------------------------------ over restarts
def points(scope="sandbox:" + box["id"]):
    return [v for v in values(ask(scope, "cpu", **{"from": now() - 3600000}), "cpu") if v is not None]


def rows(hours):
    """Rows of the file that are so many hours older than the youngest."""
    with sqlite3.connect(os.path.join(cove.data, "daemon", "history.db")) as db:
        return db.execute("SELECT count(*) FROM history WHERE hour <= (SELECT max(hour) FROM history) - ?", (hours,)).fetchone()[0]


before = points()
report = cove.post("/v1/executions?wait=60", {"command": "echo kept"}).json["id"]
c.same(cove.stop(), 0, "a clean end")
with sqlite3.connect(os.path.join(cove.data, "daemon", "history.db")) as old:
    old.execute("INSERT INTO history SELECT scope, hour - 7 * 24 - 2, body FROM history")
c.ok(rows(7 * 24) > 0, "samples of eight days ago")
gone_at = now()
cove.start()
c.ok(before and points() and max(points()) >= max(before) / 2, "what was seen is there after a restart", before, points())
c.ok(c.until(lambda: [v for v in values(ask("host", "cpu", **{"from": now() - 10000}), "cpu") if v is not None], WAIT), "and it goes on")
late = ask("host", "cpu", **{"from": now() - 600000, "step": "30s"})
c.ok(any(v < 1 for v in values(late, "cpu", "covered")), "the time without a daemon is covered less", values(late, "cpu", "covered"))
cove.delete(box["id"])
c.ok(ask("sandbox:" + box["id"], "cpu", **{"from": now() - 3600000}).status == 200 and points(), "a deleted sandbox keeps its history")
path = os.path.join(cove.data, "daemon", "history.db")
c.same(cove.get("/v1/executions/%s/logs" % report).body, b"kept\n", "F-6: a report of an execution remains")
cove.stop()
c.same(rows(7 * 24), 0, "F-6: and samples older than seven days are gone")
for name in (path + "-wal", path + "-shm"):
    if os.path.exists(name):
        os.unlink(name)
with open(path, "r+b") as file:
    file.write(os.urandom(8192))
cove.start()
c.ok(cove.get("/v1/health").status == 200 and os.path.exists(path + ".bad") and ask("host", "cpu").status == 200, "a file that cannot be read is set aside")
c.same(cove.stop(), 0, "cove ends")

# ------------------------------------------------------------------------------------------ seven days
SECONDS = 330 if os.environ.get("COVE_SOAK") == "1" else 15
cove = c.Cove("--dev", "--time-scale", "2000", "--sleep-after", "1h")
boxes = [cove.create(limits={"memoryMB": 64})["id"] for _ in range(20)]
daemon = cove.children()["daemon"]


def resident():
    return int(next(line for line in open("/proc/%d/status" % daemon, errors="replace") if line.startswith("VmRSS")).split()[1]) * 1024


end = time.monotonic() + SECONDS
first = None
while time.monotonic() < end:
    for one in boxes:
        cove.get("/v1/sandboxes/%s/stats" % one)
    cove.execute(boxes[int(time.monotonic()) % 20], "head -c 3000000 /dev/urandom | sha256sum")
    first = first or resident()
    time.sleep(0.5)
size = sum(os.path.getsize(path) for path in (os.path.join(cove.data, "daemon", name) for name in os.listdir(os.path.join(cove.data, "daemon"))) if "history.db" in path)
c.ok(0 < size <= 20 * 64 * 1024 + (2 << 20), "Must show 3: the files of %d s at 2000 times the speed stay below 20 x 64 KB + 2 MB" % SECONDS, size)
c.ok(resident() - first < 16 << 20, "and so does the memory", first, resident())
week = ask("sandbox:" + boxes[0], "cpu", "memory", **{"from": now() - 302000})
c.ok(week.status == 200 and len(values(week, "cpu")) <= 2000 and any(v is not None for v in values(week, "cpu")), "a week is one answer", week.status)
c.same(cove.stop(), 0, "cove ends")
c.done()
