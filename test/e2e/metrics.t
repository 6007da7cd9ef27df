#!/usr/bin/env python3
"""Metrics of the host: the text that Prometheus reads, as its own checker judges it, and the same as JSON."""
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
cove = c.Cove("--prices-cpu-second", "0.5")
OK = 200


def scrape(key=True):
    return cove.get("/metrics", key=key)


def series():
    """{name{labels}: value} of one scrape."""
    found = {}
    for line in scrape().body.decode().splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name] = float(value)
    return found


def checked(text):
    """What promtool says against a scrape; None: it is not installed."""
    if not shutil.which("promtool"):
        return None
    done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return "" if done.returncode == 0 else done.stdout.decode()


# ------------------------------------------------------------------------------------------ the text
first = scrape()
c.ok(first.status == OK and first.headers["Content-Type"].startswith("text/plain; version=0.0.4"), "G-1: the text format 0.0.4", first)
verdict = checked(first.body)
if verdict is None:
    c.skip("promtool checks it", "promtool is not installed")
else:
    c.same(verdict, "", "promtool has nothing to say against it")

box = cove.create()
c.same([cove.execute(box, "exit %d" % (i % 2)).status for i in range(6)], [200] * 6, "six commands")
cove.execute(box, "tail /dev/zero", timeoutMs=60000)
cove.execute(box, "timeout 0.3 sh -c 'while :; do :; done'")
cove.get("/v1/sandboxes/%s/stats" % box["id"])
sampled = series()
cost, used = sampled['cove_cost_total{kind="cpu"}'], sampled["cove_sandbox_cpu_seconds_total"]
c.ok(used > 0.1 and abs(cost - 0.5 * used) < 1e-6 and 'cove_cost_total{kind="memory"}' not in sampled, "W-37: cost is price times amount, for what has a price", cost, used)
c.ok(sampled["cove_sampler_seconds_count"] >= 1 and sampled["cove_live_clients"] >= 1, "readings of the sampler, and open connections", sampled["cove_live_clients"])
memory = {k: v for k, v in sampled.items() if k.startswith("cove_sandbox_memory_bytes")}
c.ok(memory['cove_sandbox_memory_bytes{kind="charged"}'] >= memory['cove_sandbox_memory_bytes{kind="working_set"}'] > 1e5 and 'cove_disk_bytes{area="sandboxes"}' in sampled,
     "memory and disk of sandboxes", memory)
c.same(cove.post("/v1/sandboxes", {"limits": {"memoryMB": 1}}).status, 400, "a create that is refused")
cove.delete(box)
now = series()
c.same((now['cove_sandboxes_created_total{outcome="created"}'], now['cove_sandbox_create_seconds_count{path="direct"}']), (1, 1), "one sandbox was made")
c.ok(sum(v for k, v in now.items() if k.startswith("cove_execs_total")) >= 7 and now["cove_exec_start_seconds_count"] >= 7, "commands are counted, by how they ended",
     {k: v for k, v in now.items() if "exec" in k})
c.ok(c.until(lambda: series().get('cove_sandboxes_ended_total{reason="deleted"}') == 1, 60), "its end is counted")
c.ok(now['cove_http_requests_total{group="toolbox",code="200"}'] >= 7 and now['cove_http_requests_total{group="sandboxes",code="201"}'] == 1, "requests by group and code",
     {k: v for k, v in now.items() if "http_requests" in k})
c.ok(now["cove_sandbox_oom_total"] >= 1, "a command that ran out of memory", now["cove_sandbox_oom_total"])
c.ok(now["process_cpu_seconds_total"] > 0 and now["process_resident_memory_bytes"] > 1e6 and now["cove_start_time_seconds"] > 1.6e9, "the process")
text = scrape().body.decode()
buckets = [float(v) for k, v in re.findall(r'cove_sandbox_create_seconds_bucket\{path="direct",le="([^"]+)"\} (\d+)', text)]
c.ok(len(buckets) == 15 and buckets == sorted(buckets), "buckets are cumulative", buckets)
names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
c.ok(len(names) == len(set(names)) > 30 and all(re.match("(cove|process)_[a-z_]+$", name) for name in names), "every metric is described once", names)

# ------------------------------------------------------------------------------------------ cardinality
secret = "sekret" + os.urandom(4).hex()
boxes = [cove.create(name="%s-%d" % (secret, i), labels={"team": secret}) for i in range(5)]
cove.get("/v1/nowhere")
cove.get("/v1/sandboxes/nowhere")
before = len(series())
for made in boxes:
    cove.execute(made, "echo " + secret)
    cove.get("/v1/sandboxes/%s-nowhere" % secret)
    cove.get("/v1/%s/%s" % (secret, made["id"]))
text = scrape().body.decode()
c.ok(secret not in text and not any(made["id"] in text or made["shortId"] in text for made in boxes), "no label holds a name, a path or an id")
c.ok(len(series()) <= before + 8, "the number of series does not grow with sandboxes and requests", before, len(series()))
for made in boxes:
    cove.delete(made)

# ------------------------------------------------------------------------------------------ who may
cove.request("PUT", "/v1/tenants/acme", {})
keys = {name: cove.post("/v1/keys", spec).json["key"] for name, spec in {
    "read": {"scopes": ["read"]}, "monitor": {"scopes": ["monitor"]}, "use": {"scopes": ["use"]}, "tenant": {"scopes": ["read", "admin"], "tenant": "acme"}}.items()}
for path in ("/metrics", "/v1/metrics", "/api/sandbox/metrics", "/v1/alerts"):
    c.same({name: cove.get(path, key=key).status for name, key in keys.items()}, {"read": 200, "monitor": 200, "use": 403, "tenant": 403}, "who may read " + path)
c.same((scrape(key=False).status, cove.get("/v1/sandboxes", key=keys["monitor"]).status), (401, 403), "the scope monitor is for nothing else")

# ------------------------------------------------------------------------------------------ JSON
seen = cove.get("/v1/metrics").json
c.ok({"overview", "byType", "resources", "cleanup", "leases", "capacity"} <= set(seen), "F-2: the members", list(seen))
c.ok({"active", "total", "completed", "failed", "averageLifetimeMs", "failureRate", "timeoutRate"} <= set(seen["overview"]), "F-2: overview", seen["overview"])
c.same((seen["overview"]["failureRate"], seen["overview"]["averageLifetimeMs"]), (None, None), "unknown is null, not 0")
c.ok(seen["latency"]["create"]["5m"]["count"] == 6 and 0 < seen["latency"]["create"]["5m"]["p50Ms"] <= seen["latency"]["create"]["24h"]["p99Ms"], "latency of creates", seen["latency"]["create"])
c.same(cove.get("/api/sandbox/metrics").json.keys(), seen.keys(), "the alias")

# ---------------------------------------------------- executions: from durable rows, with their quantiles
# Rows as the end of an execution writes them; ten thousand of two types within the last hours.
DB = os.path.join(cove.data, "daemon", "cove.db")
RUNS = {"IMPLEMENTATION": [int(40 * 1.003 ** i) for i in range(2000)], "VALIDATION": [5 + 7 * i for i in range(1000)]}


def plant():
    """Each type: ended evenly over the last four minutes; the last tenth failed, half of that by the host."""
    at = int(time.time() * 1000)
    with sqlite3.connect(DB) as db:
        for kind, runs in RUNS.items():
            for i, run in enumerate(runs):
                bad = i >= len(runs) * 9 // 10
                kind_of = (1 if i % 2 else 0) if bad else 2
                db.execute("INSERT INTO execution_ends VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                           ("%s-%d" % (kind, i), kind, ["exit_nonzero", "infra", "completed"][kind_of], kind_of, 1,
                            at - 240000 * (len(runs) - i) // len(runs), 5, 10, run, 3, run // 2, 1 << 20))
            for kind_of, outcome in ((0, "exit_nonzero"), (1, "infra"), (2, "completed")):
                count = db.execute("SELECT count(*) FROM execution_ends WHERE type = ? AND kind = ?", (kind, kind_of)).fetchone()[0]
                db.execute("INSERT INTO execution_totals VALUES (?,?,?,?)", (kind, outcome, kind_of, count))


cove.stop()
plant()
cove.start()


def near(got, want):
    """Less than one bucket off: the buckets grow by the fourth root of two."""
    return want / 1.2 <= got <= want * 1.2


seen = cove.get("/v1/metrics").json
for kind, runs in RUNS.items():
    ordered = sorted(runs)
    for span in ("5m", "1h", "24h"):
        window = seen["byType"][kind]["windows"][span]
        want = [ordered[max(0, int(len(ordered) * q + 0.999999) - 1)] for q in (0.5, 0.95, 0.99)]
        got = [window[key] for key in ("p50Ms", "p95Ms", "p99Ms")]
        c.ok(window["count"] == len(runs) and all(near(g, w) for g, w in zip(got, want)), "G-4: p50, p95, p99 of %s in %s" % (kind, span), window["count"], got, want)
c.ok(seen["overview"]["total"] == 3000 and seen["overview"]["completed"] == 2700 and seen["overview"]["failed"] == 300 and abs(seen["overview"]["failureRate"] - 0.1) < 1e-9,
     "totals and the failure rate of the hour", seen["overview"])
c.ok(seen["byType"]["VALIDATION"]["failureRate"] == 0.1 and seen["byType"]["VALIDATION"]["averageMemoryBytes"] == 1 << 20, "by type", seen["byType"]["VALIDATION"])
now = series()
c.same((now['cove_executions_total{type="VALIDATION",outcome="completed"}'], now['cove_executions_total{type="IMPLEMENTATION",outcome="infra"}']), (900, 100), "executions by type and outcome")
c.ok(abs(now['cove_failure_ratio{kind="infrastructure"}'] - 0.05) < 1e-9, "failures of the host apart", now['cove_failure_ratio{kind="infrastructure"}'])
c.kill_all(cove)
cove.start()
again = series()
c.same({k: v for k, v in again.items() if k.startswith("cove_executions_total")}, {k: v for k, v in now.items() if k.startswith("cove_executions_total")},
       "F Verify: after kill -9 no execution is lost or counted twice")

long = cove.post("/v1/executions", {"command": "sleep 1000"}).json["id"]
c.ok(c.until(lambda: series()['cove_executions{state="running"}'] == 1, 60), "executions by state", series()['cove_executions{state="running"}'])
c.same(cove.get("/v1/stats").json["executions"], {"queued": 0, "running": 1}, "W-30: GET /v1/stats has them, too")
cove.post("/v1/executions/%s/cancel" % long)
c.ok(c.until(lambda: series()['cove_executions{state="running"}'] == 0, 60), "to their end")

# ------------------------------------------------------------------------------------------ load
busy = [cove.create() for _ in range(8)]
times, loaded = [], threading.Event()


def load(made):
    while not loaded.is_set():
        cove.execute(made, "true")


clients = [threading.Thread(target=load, args=(made,)) for made in busy[:4]]
for client in clients:
    client.start()
for _ in range(60):
    began = time.monotonic()
    reply = scrape()
    times.append(time.monotonic() - began)
loaded.set()
for client in clients:
    client.join()
times.sort()
c.note("a scrape under the commands of four clients: median %.1f ms, slowest %.1f ms" % (times[len(times) // 2] * 1000, times[-1] * 1000))
c.ok(reply.status == OK and times[len(times) // 2] < 0.2 and len(reply.body) < 256 * 1024, "G-1, Must show 3: a scrape under load takes 50 ms (fourfold in CI), and is small", times[-5:], len(reply.body))
verdict = checked(reply.body)
if verdict is not None:
    c.same(verdict, "", "promtool has nothing to say against it, with all of this in it")
for made in busy:
    cove.delete(made)

# ------------------------------------------------------------------------------------------ what is shipped
DIST = os.path.join(c.ROOT, "dist")
live = {line.split()[2] for line in reply.body.decode().splitlines() if line.startswith("# TYPE")}
live |= {name + end for name in live for end in ("_bucket", "_sum", "_count")}
with open(os.path.join(DIST, "grafana", "cove.json")) as file:
    expressions = [target["expr"] for panel in json.load(file)["panels"] for target in panel["targets"]]
with open(os.path.join(DIST, "prometheus", "cove.rules.yml")) as file:
    rules = file.read()
expressions += re.findall(r"expr: (.*)", rules)
named = {name for text in expressions for name in re.findall(r"\b(?:cove|process)_[a-z_]+", text)}
c.ok(len(expressions) > 20 and named <= live, "G-3: every query of the dashboard and of the rules names a metric of a live scrape", sorted(named - live))
if shutil.which("promtool"):
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write("groups:\n- name: x\n  rules:\n" + "".join("  - record: x:%d\n    expr: %s\n" % (i, json.dumps(text)) for i, text in enumerate(expressions)))
        file.flush()
        for words in (["check", "rules", file.name], ["check", "rules", os.path.join(DIST, "prometheus", "cove.rules.yml")], ["test", "rules", os.path.join(DIST, "prometheus", "cove.rules.test.yml")]):
            done = subprocess.run(["promtool", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            c.ok(done.returncode == 0, "W-38: promtool " + " ".join(words[:2]), done.stdout)
else:
    c.skip("W-38: promtool check rules", "promtool is not installed")
c.same(cove.stop(), 0, "cove ends")
c.done()
