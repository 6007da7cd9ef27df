#!/usr/bin/env python3
"""Budgets: a warning at 80 %, then idle sandboxes are paused and new ones refused, until the budget is raised or removed; over
kills of the daemon; the operator sets them, a tenant reads its own."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
cove = c.Cove()
WAIT = 60


def state(box):
    try:
        got = cove.get("/v1/sandboxes/" + box["id"]).json
    except (OSError, ValueError):
        return (None, None)
    return got.get("state"), got.get("reason")


def burn(box, seconds):
    return cove.execute(box, ["python3", "-c", "import time\nwhile time.process_time() < %g: pass" % seconds])


def events(kind):
    return cove.get("/v1/events?kind=%s&limit=1000" % kind).json["items"]


def put(name, **body):
    return cove.request("PUT", "/v1/budgets/" + name, body)


def budget(name, key=True):
    return cove.get("/v1/budgets/" + name, key=key)


cove.request("PUT", "/v1/tenants/acme", {"quota": {}, "host": True})
key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use"], "host": True}).json["key"]

# What is written
made = put("reds", match={"label": "team=red"}, period="day", cpuSeconds=3)
c.same((made.status, made.json["state"], made.json["match"], made.json["cpuSeconds"]), (201, "ok", {"label": "team=red"}, 3), "a budget is made")
c.same(put("reds", match={"label": "team=red"}, period="day", cpuSeconds=3).status, 200, "and replaced")
c.same(put("acme", match={"tenant": "acme"}, period="month", cost=10.5).json["cost"], 10.5, "of cost")
c.same([item["name"] for item in cove.get("/v1/budgets").json["items"]], ["reds", "acme"], "the operator lists all")
c.same([item["name"] for item in cove.get("/v1/budgets", key=key).json["items"]], ["acme"], "a tenant its own")
c.same((budget("acme", key).status, budget("reds", key).status), (200, 404), "and reads no other")
c.same(cove.request("PUT", "/v1/budgets/mine", {"match": {"tenant": "acme"}, "period": "day", "cost": 1}, key=key).status, 403, "nor sets any")
c.same(cove.request("DELETE", "/v1/budgets/acme", key=key).status, 403, "nor removes one")
for bad in ({}, {"match": {"tenant": "acme"}, "period": "week", "cost": 1}, {"match": {}, "period": "day", "cost": 1},
            {"match": {"tenant": "acme", "label": "a=b"}, "period": "day", "cost": 1}, {"match": {"label": "red"}, "period": "day", "cost": 1},
            {"match": {"tenant": "acme"}, "period": "day"}, {"match": {"tenant": "acme"}, "period": "day", "cost": 1, "requests": 1},
            {"match": {"tenant": "acme"}, "period": "day", "cost": -1}, {"match": {"agentSession": ""}, "period": "day", "cost": 1},
            {"match": {"tenant": "A B"}, "period": "day", "cost": 1}, {"match": "x", "period": "day", "cost": 1}):
    c.same(put("bad", **bad).status, 400, "%r is refused" % bad)
c.same(put("Bad%20Name", match={"tenant": "acme"}, period="day", cost=1).status, 400, "as is a bad name")
c.same(budget("none").status, 404, "one that is not there is missing")

# 80 %, then 100 %
old, young, other = cove.create(labels={"team": "red"}), cove.create(labels={"team": "red"}), cove.create(labels={"team": "blue"})
busy = cove.create(labels={"team": "red"})
c.same(burn(old, 2.5).status, 200, "a sandbox works")
c.ok(c.until(lambda: [event for event in events("budget.warning") if event["fields"]["budget"] == "reds"], WAIT, 0.3), "80 % are an event")
c.ok(2.4 <= budget("reds").json["used"]["cpuSeconds"] and budget("reds").json["state"] == "warning", "and shown", budget("reds"))
c.same(state(old)[0], "running", "nothing is paused yet")
c.same(cove.request("DELETE", "/v1/sandboxes/" + cove.create(labels={"team": "red"})["id"]).status, 204, "and new ones are made")
works = threading.Thread(target=cove.run, args=(busy, "touch /workspace/begun; until test -e /workspace/go; do sleep 0.1; done"))
works.start()
c.until(lambda: cove.get("/v1/sandboxes/%s/stats" % busy["id"]).json["execs"] >= 1, WAIT)
burn(young, 1)
c.ok(c.until(lambda: [event for event in events("budget.exceeded") if event["fields"]["budget"] == "reds"], WAIT, 0.3), "100 % are another")
c.ok(c.until(lambda: state(old) == state(young) == ("paused", "budget_exceeded"), WAIT, 0.2), "idle sandboxes are paused", state(old), state(young))
times = {event["sandbox"]: event["id"] for event in events("sandbox.paused")}
c.ok(times[old["id"]] < times[young["id"]], "the oldest first", times)
c.same((state(busy)[0], state(other)[0]), ("running", "running"), "not one that works, and none of others")
refused = cove.post("/v1/sandboxes", {"labels": {"team": "red"}})
c.same((refused.status, refused.json["reason"]), (429, "budget_exceeded"), "a new one is refused")
refused = cove.execute(old, "true")
c.same((refused.status, refused.json["reason"]), (409, "budget_exceeded"), "a paused one answers 409")
refused = cove.post("/v1/sandboxes/%s/resume" % old["id"])
c.same((refused.status, refused.json["reason"]), (409, "budget_exceeded"), "and is not resumed by hand")
c.same(cove.execute(other, "true").status, 200, "others go on")
c.same(cove.execute(busy, "touch /workspace/go").status, 200, "a working sandbox is used on")
works.join()
c.ok(c.until(lambda: state(busy) == ("paused", "budget_exceeded"), WAIT, 0.2), "and is paused when it is idle")

# Over kill -9
os.kill(cove.children()["daemon"], signal.SIGKILL)
c.ok(c.until(lambda: state(old) == ("paused", "budget_exceeded"), WAIT, 0.2), "after kill -9 it is paused still")


def refuses():
    try:
        return cove.post("/v1/sandboxes", {"labels": {"team": "red"}}).status == 429
    except OSError:
        return False


c.ok(c.until(refuses, WAIT, 0.2), "and new ones refused")
c.same(len([event for event in events("budget.exceeded") if event["fields"]["budget"] == "reds"]), 1, "without another event")

# Raised, lowered, removed
c.same(put("reds", match={"label": "team=red"}, period="day", cpuSeconds=1000).json["state"], "ok", "the budget is raised")
c.ok(c.until(lambda: state(old)[0] == state(young)[0] == state(busy)[0] == "running", WAIT, 0.2), "and all go on")
c.same(cove.execute(old, "true").status, 200, "and answer")
c.same(put("reds", match={"label": "team=red"}, period="day", cpuSeconds=1).json["state"], "exceeded", "lowered, it holds at once")
c.ok(c.until(lambda: state(old)[0] == "paused", WAIT, 0.2), "and pauses again")
c.same(cove.request("DELETE", "/v1/budgets/reds").status, 204, "removed")
c.ok(c.until(lambda: state(old)[0] == "running", WAIT, 0.2), "all go on")
c.same(cove.post("/v1/sandboxes", {"labels": {"team": "red"}}).status, 201, "and new ones are made")

# A tenant's
mine = cove.post("/v1/sandboxes", {}, key=key).json
put("acme", match={"tenant": "acme"}, period="month", requests=0)
c.ok(c.until(lambda: state(mine) == ("paused", "budget_exceeded"), WAIT, 0.2), "a budget of nothing pauses a tenant's sandboxes")
refused = cove.post("/v1/sandboxes", {}, key=key)
c.same((refused.status, refused.json["reason"]), (429, "budget_exceeded"), "and refuses it new ones")
c.same(cove.request("DELETE", "/v1/sandboxes/" + mine["id"], key=key).status, 204, "it may delete them")
cove.close()
c.done()
