#!/usr/bin/env python3
"""Usage by the hour: CPU time as the kernel counted it and requests as the client did, over kills, restarts, stops and deletions;
every way to sum it up gives the same total; prices give its cost."""
import csv
import io
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from outside import Outside  # noqa: E402

c.need_root()
WAIT = 60
there = Outside("www.test")
PRICES = "[prices]\ncurrency = EUR\ncpu_second = 0.5\ngib_second = 0.000001\ngib_hour = 0.001\nrequest = 0.000002\n"
config = os.path.join(there.home, "cove.conf")
with open(config, "w") as file:
    file.write(PRICES)
cove = c.Cove("--config", config, *there.options())
told = {}  # CPU time by the kernel's files, by sandbox
tally = {}  # requests that the test made, by sandbox


def kernel_cpu_us(box):
    for name, part in (("cpu.stat", None), ("cpuacct.usage", 1000)):
        for root in c.cgroup_roots():
            try:
                with open(os.path.join(root, "cove", cove.instance(), box["id"], name)) as file:
                    text = file.read()
            except OSError:
                continue
            if part:
                return int(text) // part
            if "usage_usec" in text:
                return int(text.split()[text.split().index("usage_usec") + 1])
    raise RuntimeError("no cgroup of %s" % box["id"])


def usage(by, key=True, **query):
    words = "&".join(["by=" + by] + ["%s=%s" % pair for pair in query.items()])
    reply = cove.get("/v1/usage?" + words, key=key)
    if reply.status != 200:
        raise RuntimeError("usage: %r" % reply)
    return reply.json


def items(by, **kw):
    return {item["key"]: item for item in usage(by, **kw)["items"]}


def burn(box, seconds):
    patient(lambda: cove.run(box, ["python3", "-c", "import time\nwhile time.process_time() < %g: pass" % seconds]))


def patient(ask):
    def tried():
        try:
            return (ask(),)
        except (OSError, RuntimeError, ValueError):
            return None
    got = c.until(tried, WAIT, 0.2)
    if not got:
        raise RuntimeError("no answer")
    return got[0]


def visit(box, count):
    program = "for i in $(seq %d); do curl -s -o /dev/null http://www.test/ || exit 1; done" % count
    c.same(cove.run(box, program)["exitCode"], 0, "%d requests are made" % count)
    tally[box["id"]] = tally.get(box["id"], 0) + count


def close(got, want, name, part=0.01):
    c.ok(abs(got - want) <= part * want + 0.002, name, got, want)


def ended(box):
    """The kernel's number of a sandbox that only sleeps until it ends."""
    told[box["id"]] = told.get(box["id"], 0) + kernel_cpu_us(box)


# Three sandboxes: one lives, one is stopped and started, one is deleted
names = {}
for name, labels in (("lives", {"team": "red"}), ("stops", {"team": "blue"}), ("goes", {})):
    names[name] = cove.create(name=name, labels=labels, network={"mode": "all"})
for box in names.values():
    burn(box, 1.0)
for role in ("daemon", "warden"):
    os.kill(cove.children()[role], signal.SIGKILL)
    for box in names.values():
        burn(box, 0.7)
lives, stops, goes = (names[name] for name in ("lives", "stops", "goes"))
ended(stops)
c.same(cove.post("/v1/sandboxes/stops/stop").status, 200, "one is stopped")
c.same(cove.post("/v1/sandboxes/stops/start").status, 200, "and started")
burn(stops, 0.8)
visit(lives, 25)
visit(stops, 10)
burn(goes, 1.0)
visit(goes, 7)
ended(goes)
c.same(cove.delete(goes).status, 204, "one is deleted")
os.kill(cove.children()["daemon"], signal.SIGKILL)
c.until(lambda: patient(lambda: cove.get("/v1/health").json["status"]) == "ok", WAIT)
burn(lives, 0.5)
told[lives["id"]] = kernel_cpu_us(lives)
told[stops["id"]] += kernel_cpu_us(stops)
c.until(lambda: items("sandbox")[lives["id"]]["cpuSeconds"] >= told[lives["id"]] / 1e6, WAIT, 0.3)
got = items("sandbox")
c.same(set(got), set(told), "every sandbox has an item, the deleted one, too")
for name, box in names.items():
    close(got[box["id"]]["cpuSeconds"], told[box["id"]] / 1e6, "CPU time of the one that %s is the kernel's" % name)
    c.same(got[box["id"]]["requests"], tally[box["id"]], "and its requests are the client's tally")
c.ok(all(item["memoryGiBSeconds"] > 0 and item["sandboxes"] == 1 for item in got.values()), "memory is summed up over time", got)
c.ok(got[lives["id"]]["bytesIn"] > 0 and got[lives["id"]]["bytesOut"] > 0, "bytes are counted")
again = items("sandbox")
c.ok(all(again[id]["requests"] == got[id]["requests"] and again[id]["cpuSeconds"] < got[id]["cpuSeconds"] + 0.5 for id in got),
     "to ask again counts nothing twice", got, again)

# Other keys
patient(lambda: cove.stop())
cove.start()
c.until(lambda: patient(lambda: cove.get("/v1/health").json["status"]) == "ok", WAIT)
cove.post("/v1/sandboxes/lives/stop")
cove.post("/v1/sandboxes/stops/stop")
total = usage("sandbox")["total"]
for by in ("tenant", "owner", "execution", "type", "agentSession", "label:team", "day"):
    answer = usage(by)
    c.same((answer["total"]["requests"], round(answer["total"]["cpuSeconds"], 4)), (total["requests"], round(total["cpuSeconds"], 4)),
           "the total by %s is that by sandbox" % by)
    c.same(sum(item["requests"] for item in answer["items"]), total["requests"], "and that of its items")
teams = items("label:team")
c.same({key: item["requests"] for key, item in teams.items()}, {"red": tally[lives["id"]], "blue": tally[stops["id"]], None: tally[goes["id"]]},
       "by label, with null for those without it")
c.same(list(items("tenant")), [None], "the operator's own have no tenant")
days = list(items("day"))
c.ok(1 <= len(days) <= 2 and days == sorted(days) and time.strftime("%Y-", time.gmtime())[:3] == days[0][:3], "by day", days)
one = usage("sandbox", limit=1)
two = usage("sandbox", limit=1, cursor=one["cursor"])
c.ok(one["cursor"] and one["items"][0]["key"] != two["items"][0]["key"] and one["total"] == two["total"], "in pages", one, two)
c.same(usage("sandbox", to="2020-01-01T00:00:00Z")["items"], [], "nothing was used before")
for bad in ("by=cheese", "by=label", "from=yesterday", "limit=0", "cursor=x", "format=xml", "from=2000000000000&to=1000000000000"):
    c.same(cove.get("/v1/usage?" + bad).json["reason"], "bad_field", "'%s' is refused" % bad)

# A label that changes: the past stays
cove.request("PATCH", "/v1/sandboxes/lives", {"labels": {"team": "green"}})
cove.post("/v1/sandboxes/lives/start")
visit(lives, 3)
c.same({key: item["requests"] for key, item in items("label:team").items()},
       {"red": tally[lives["id"]] - 3, "green": 3, "blue": tally[stops["id"]], None: tally[goes["id"]]}, "a new label counts from now on")

# Cost
answer = usage("sandbox")
c.same((answer["currency"], answer["prices"]), ("EUR", {"cpuSecond": "0.5", "gibSecond": "0.000001", "gibHour": "0.001", "request": "0.000002"}),
       "prices are those of the configuration")
for item in answer["items"]:
    want = item["cpuSeconds"] * 0.5 + item["memoryGiBSeconds"] * 1e-6 + item["diskGiBHours"] * 1e-3 + item["requests"] * 2e-6
    c.ok(abs(float(item["cost"]) - want) < 2e-6, "G-5 cost is price times amount", item, want)
rows = list(csv.DictReader(io.StringIO(cove.get("/v1/usage?by=label:team&format=csv").body.decode())))
c.same(sorted(row["key"] for row in rows), ["", "blue", "green", "red"], "as CSV")
trap = cove.create(labels={"team": "=1+1"})
burn(trap, 0.1)
rows = list(csv.DictReader(io.StringIO(cove.get("/v1/usage?by=label:team&format=csv").body.decode())))
c.ok("'=1+1" in [row["key"] for row in rows], "a key is no formula")

# Tenants
cove.request("PUT", "/v1/tenants/acme", {"quota": {}})
key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use"], "host": True}).json["key"]
c.same(usage("sandbox", key=key)["items"], [], "a tenant sees nothing of others")
mine = cove.post("/v1/sandboxes", {}, key=key).json
burn(mine, 0.3)
c.same([item["key"] for item in usage("sandbox", key=key)["items"]], [mine["id"]], "but its own")
c.ok("acme" in items("tenant"), "the operator sees all tenants")
c.same(cove.request("DELETE", "/v1/sandboxes/" + mine["id"], key=key).status, 204, "its sandbox goes")
c.same(cove.request("DELETE", "/v1/tenants/acme").status, 204, "then the tenant")
cove.request("PUT", "/v1/tenants/acme", {"quota": {}})
key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read"]}).json["key"]
c.same(usage("sandbox", key=key)["items"], [], "a new tenant of that name finds nothing of the earlier one")
c.ok("acme~" in items("tenant"), "which the operator still sees")
cove.close()
there.close()
c.done()
