#!/usr/bin/env python3
"""Alerts: rules over the numbers of the host, each transition stored before it is shown, and once."""
import json
import os
import sqlite3
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
WAIT = 90
cove = c.Cove("--dev", "--time-scale", "100", "--sleep-after", "1h")  # an evaluation every 150 ms, a quiet hour of 36 s


def rule(name, **settings):
    reply = cove.request("PUT", "/v1/alerts/rules/" + name, settings)
    if reply.status != 200:
        raise RuntimeError(repr(reply))
    return reply.json


def alert(name):
    return next((item for item in cove.get("/v1/alerts").json["items"] if item["id"] == name), None)


def state(name):
    found = alert(name)
    return found and found["state"]


def await_state(name, *wanted):
    return c.until(lambda: state(name) in wanted and alert(name), WAIT)


def events(name):
    """Kinds of the events about an alert, in order."""
    page = cove.get("/v1/events?kind=alert&limit=1000&after=0").json
    return [event["kind"].split(".")[1] for event in page["items"] if event["kind"].startswith("alert.") and event["fields"].get("alert") == name]


# ------------------------------------------------------------------------------------------ the rules
listed = cove.get("/v1/alerts").json
names = {each["name"]: each for each in listed["rules"]}
c.ok(listed["items"] == [] and {"failure_rate_high", "sandboxes_stuck", "sandboxes_orphaned", "sandboxes_many", "cleanup_slow", "leases_quarantined",
                                "records_unreadable", "state_unwritable", "stops_overdue", "space_low", "usage_unusual"} <= set(names), "F-3: a rule for each condition", list(names))
c.same([(names[n]["severity"], names[n]["threshold"], names[n]["forSeconds"]) for n in ("failure_rate_high", "failure_rate_raised", "sandboxes_stuck", "sandboxes_orphaned",
                                                                                       "sandboxes_many", "space_low", "leases_quarantined")],
       [("critical", 0.25, 300), ("warning", 0.1, 300), ("critical", 0, 60), ("warning", 3, 60), ("warning", 50, 60), ("warning", 2, 60), ("critical", 0, 0)], "F-3, W-39: severities, thresholds, times")
c.same(cove.get("/v1/alerts/rules").json["items"], listed["rules"], "the rules alone")
c.same(rule("sandboxes_many", threshold=1, forSeconds=0)["threshold"], 1, "a threshold is changed")
bad = [cove.request("PUT", "/v1/alerts/rules/" + name, body) for name, body in (
    ("nothing", {}), ("sandboxes_many", {"threshold": -1}), ("sandboxes_many", {"threshold": "1"}), ("sandboxes_many", {"color": 1}), ("sandboxes_many", {"forSeconds": 1e9}))]
c.same([reply.status for reply in bad], [404, 400, 400, 400, 400], "a bad change of a rule")
c.same((cove.get("/v1/alerts?state=burning").status, cove.get("/v1/alerts?state=firing").json["items"]), (400, []), "lists by state")

# ------------------------------------------------------------------------------------------ once per change
boxes = [cove.create() for _ in range(2)]
fired = await_state("sandboxes_many", "firing")
c.ok(fired and fired["severity"] == "warning" and fired["value"] == 2 and fired["threshold"] == 1 and fired["hint"] and fired["since"] and fired["firedAt"] and not fired["resolvedAt"],
     "the alert fires", fired)
seen = cove.get("/v1/health")
c.ok(seen.status == 200 and seen.json["status"] == "degraded" and seen.json["reasons"][0]["code"] == "sandboxes_many" and seen.json["alerts"] == {"critical": 0, "warning": 1},
     "health is degraded, and says why", seen)
c.ok('cove_alerts{severity="warning",state="firing"} 1' in cove.get("/metrics").body.decode(), "and so do the metrics")
time.sleep(2)  # a dozen evaluations
c.same(events("sandboxes_many"), ["firing"], "F-5: a condition that holds fires once")
cove.delete(boxes.pop())
ended = await_state("sandboxes_many", "resolved")
c.ok(ended and ended["resolvedAt"] and ended["since"] == fired["since"], "and is resolved", ended)
c.same(events("sandboxes_many"), ["firing", "resolved"], "F-5: one firing, one resolved event")
c.ok(c.until(lambda: cove.get("/v1/health").json["status"] == "ok", WAIT), "health is well again")

# ------------------------------------------------------------------------------------------ forSeconds
rule("sandboxes_many", threshold=0, forSeconds=3600)
pending = await_state("sandboxes_many", "pending")
c.ok(pending and pending["firedAt"] is None, "shorter than forSeconds it is pending", pending)
c.kill_all(cove)
cove.start()
again = await_state("sandboxes_many", "pending")
c.same((again["id"], again["since"]), (pending["id"], pending["since"]), "kill -9 while it is pending: same id and since")
c.ok(cove.get("/v1/health").json["status"] == "ok", "what is pending degrades nothing")
rule("sandboxes_many", threshold=5)
c.ok(c.until(lambda: state("sandboxes_many") in (None, "resolved"), WAIT), "and ends without having fired", alert("sandboxes_many"))
c.same(events("sandboxes_many"), ["firing", "resolved"], "with no event")
rule("sandboxes_many", threshold=0, forSeconds=0)
fired = await_state("sandboxes_many", "firing")
c.kill_all(cove)
cove.start()
again = await_state("sandboxes_many", "firing")
c.same((again["id"], again["since"], again["firedAt"]), (fired["id"], fired["since"], fired["firedAt"]), "kill -9 while it fires: same id and since")
c.same(events("sandboxes_many"), ["firing", "resolved", "firing"], "and it does not fire again")
c.same(cove.get("/v1/alerts/rules").json["items"][[r["name"] for r in cove.get("/v1/alerts/rules").json["items"]].index("sandboxes_many")]["threshold"], 0, "the rule keeps its threshold")

# ------------------------------------------------------------------------------------------ acknowledge, silence
c.same(cove.post("/v1/alerts/nothing/acknowledge").status, 404, "an alert that is not there")
taken = cove.post("/v1/alerts/sandboxes_many/acknowledge").json
c.ok(taken["acknowledgedAt"] and taken["acknowledgedBy"] == "operator", "acknowledged, by whom", taken)
quiet = cove.post("/v1/alerts/sandboxes_many/silence", {"for": "1h", "comment": "at work"}).json
c.ok(quiet["silencedUntil"] and quiet["comment"] == "at work", "silenced", quiet)
c.same([cove.post("/v1/alerts/sandboxes_many/silence", body).status for body in ({}, {"for": "x"}, {"for": "9999h00d"}, {"for": "1h", "comment": "x" * 201}, {"for": "1h", "who": 1})], [400] * 5, "a bad silence")
c.kill_all(cove)
cove.start()
kept = await_state("sandboxes_many", "firing")
c.same((kept["acknowledgedBy"], kept["comment"], kept["silencedUntil"]), ("operator", "at work", quiet["silencedUntil"]), "both survive kill -9")
c.same(cove.request("DELETE", "/v1/alerts/sandboxes_many/silence").json["silencedUntil"], None, "the silence ends")
reader = cove.post("/v1/keys", {"scopes": ["read", "monitor"]}).json["key"]
c.same([cove.request(method, path, body, key=reader).status for method, path, body in (
    ("POST", "/v1/alerts/sandboxes_many/acknowledge", None), ("POST", "/v1/alerts/sandboxes_many/silence", {"for": "1h"}), ("DELETE", "/v1/alerts/sandboxes_many/silence", None),
    ("PUT", "/v1/alerts/rules/sandboxes_many", {"threshold": 9}), ("POST", "/v1/alerts/test", {"sink": "x"}))], [403] * 5, "who only reads changes nothing")
rule("sandboxes_many", enabled=False)
c.ok(await_state("sandboxes_many", "resolved"), "a rule that is switched off resolves its alert")
cove.delete(boxes.pop())

# ------------------------------------------------------------------------------------------ rates
DB = os.path.join(cove.data, "daemon", "cove.db")


def runs(failed, infra=0, count=20):
    """So many executions of the last minutes, as their end writes them."""
    cove.stop()
    at = int(time.time() * 1000)
    with sqlite3.connect(DB) as db:
        db.execute("DELETE FROM execution_ends")
        for i in range(count):
            kind = 1 if i < infra else 0 if i < infra + failed else 2
            db.execute("INSERT INTO execution_ends VALUES (?,'VALIDATION',?,?,1,?,0,0,5,0,1,1)", ("e%d" % i, ["exit_nonzero", "infra", "completed"][kind], kind, at - 60000 + i))
    cove.start()
    return cove.get("/v1/metrics").json["overview"]["failureRate"]


for name in ("failure_rate_high", "failure_rate_raised", "infrastructure_failure_rate_high", "infrastructure_failure_rate_raised"):
    rule(name, forSeconds=0)
c.same(runs(failed=3), 0.15, "F-4 20 runs of which 3 failed: 0.15")
c.ok(await_state("failure_rate_raised", "firing"), "a warning")
c.same((state("failure_rate_high"), state("infrastructure_failure_rate_raised")), (None, None), "and only that")
c.same(runs(failed=6), 0.3, "F-4 20 runs of which 6 failed: 0.3")
critical = await_state("failure_rate_high", "firing")
c.ok(critical and critical["severity"] == "critical" and abs(critical["value"] - 0.3) < 1e-9, "is critical", critical)
c.same(state("infrastructure_failure_rate_raised"), None, "by their own fault")
c.same(runs(failed=0, infra=3), 0.15, "20 runs of which 3 failed by the host")
c.ok(await_state("infrastructure_failure_rate_raised", "firing"), "is counted apart")
c.same(runs(failed=9, count=9), None, "nine runs are too few for a rate")
c.ok(state("failure_rate_raised") == "firing", "unknown keeps the state", alert("failure_rate_raised"))

# ------------------------------------------------------------------------------------------ the command line
cli = c.Cli(cove.data)
c.ok("failure_rate_raised" in cli("alerts", "ls").text and cli("alerts", "ls", "-q").text.split() == [i["id"] for i in cove.get("/v1/alerts").json["items"]], "cove alerts ls", cli("alerts", "ls"))
c.same([i["id"] for i in json.loads(cli("alerts", "ls", "--json").text)["items"]] if cli("alerts", "ls", "--json").text.startswith("{") else [i["id"] for i in json.loads(cli("alerts", "ls", "--json").text)],
       [i["id"] for i in cove.get("/v1/alerts").json["items"]], "cove alerts ls --json")
c.ok(cli("alerts", "ack", "failure_rate_raised").status == 0 and alert("failure_rate_raised")["acknowledgedAt"], "cove alerts ack")
c.ok(cli("alerts", "silence", "failure_rate_raised", "2h", "--comment", "known").status == 0 and alert("failure_rate_raised")["comment"] == "known", "cove alerts silence")
c.ok(cli("alerts", "silence", "failure_rate_raised", "off").status == 0 and not alert("failure_rate_raised")["silencedUntil"], "cove alerts silence off")
c.ok(cli("alerts", "rules", "space_low", "--threshold", "3", "--after", "2m", "--off").status == 0 and "space_low" in cli("alerts", "rules").text, "cove alerts rules")
low = next(r for r in cove.get("/v1/alerts").json["rules"] if r["name"] == "space_low")
c.same((low["threshold"], low["forSeconds"], low["enabled"]), (3, 120, False), "changes a rule")
c.ok(cli("alerts", "test", "nobody").status == 3 and cli("alerts", "ack", "nothing").status == 3 and cli("alerts", "rules", "space_low", "--threshold", "x").status == 2, "and what is not right")

# ------------------------------------------------------------------------------------------ the end
c.same(cove.stop(), 0, "cove ends")
c.done()
