#!/usr/bin/env python3
"""What happens is told in one order to whoever may know it, who did it is in a log that shows when it was touched, and
whether all of it is true can be asked."""
import http.client
import json
import os
import sqlite3
import subprocess
import threading

import cove as c

c.need_root()


def items(cove, query="", **kw):
    return cove.get("/v1/events?limit=1000&" + query, **kw).json["items"]


def kinds(cove, box, **kw):
    return [item["kind"] for item in items(cove, "sandbox=%s" % box, **kw)]


def until_kinds(cove, box, want, name):
    c.until(lambda: kinds(cove, box) == want)
    c.same(kinds(cove, box), want, name)


class Stream(c.Stream):
    def __init__(self, cove, path="/v1/events", **kw):
        super().__init__(cove, path, **kw)

    def kinds(self):
        return [event["kind"] for event in self.got]


def cli(cove, *args):
    return subprocess.run([cove.binary, *args, "--data", cove.data], capture_output=True, text=True, timeout=60)


def life(cove):
    live = Stream(cove)
    c.same(live.reply.status, 200, "a stream of events is opened")
    box = cove.create(name="told")
    until_kinds(cove, box["id"], ["sandbox.created", "sandbox.running"], "a create is told: created, running")
    cove.post("/v1/sandboxes/told/pause")
    cove.post("/v1/sandboxes/told/resume")
    cove.post("/v1/sandboxes/told/stop")
    cove.post("/v1/sandboxes/told/start")
    want = ["sandbox.created", "sandbox.running", "sandbox.paused", "sandbox.woken", "sandbox.stopped", "sandbox.woken"]
    until_kinds(cove, box["id"], want, "so is every step of its life")
    woken = [item["fields"].get("from") for item in items(cove, "kind=sandbox.woken")]
    c.same(woken, ["paused", "stopped"], "and what it woke from")
    cove.delete(box)
    want += ["sandbox.deleting", "sandbox.deleted"]
    until_kinds(cove, box["id"], want, "and its end")
    told = c.until(lambda: [e["kind"] for e in live.got if e.get("sandbox") == box["id"]] == want)
    c.ok(told, "a stream tells the same, as it happens", live.got)
    c.same(live.ids, sorted(set(live.ids)), "in one order, each with its number")
    middle = live.ids[3]
    again = Stream(cove, headers={"Last-Event-ID": str(middle)})
    c.until(lambda: len(again.ids) >= len(live.ids) - 4)
    c.same(again.ids[:len(live.ids) - 4], live.ids[4:], "a client that reconnects with Last-Event-ID misses nothing")
    first = cove.get("/v1/events?limit=2").json
    second = cove.get("/v1/events?limit=2&after=%d" % first["last"]).json
    c.ok(first["more"] and [i["id"] for i in first["items"] + second["items"]] == [1, 2, 3, 4], "pages follow each other", first, second)
    c.same(cove.get("/v1/events?after=x").status, 400, "a place that is none is refused")


def failure(cove):
    box = cove.create(ephemeral=True)
    pids = [pid for pid in c._pids() if c._is_boxed(pid, cove.instance()) and box["id"] in open("/proc/%d/cgroup" % pid).read()]
    os.kill(min(pids), 9)
    c.until(lambda: "sandbox.failed" in kinds(cove, box["id"]))
    lost = items(cove, "kind=sandbox.failed&sandbox=" + box["id"])
    c.ok(lost and lost[0]["fields"].get("reason") == "box_lost", "a sandbox that is lost is told of, with the reason", lost)
    cove.delete(box)


def security(cove):
    cove.get("/v1/sandboxes", key="wrong")
    box = cove.create(limits={"memoryMB": 64})
    cove.execute(box, "sleep 60", timeoutMs=300)
    c.until(lambda: len(items(cove, "kind=security")) >= 2)
    told = {item["fields"]["event"]: item for item in items(cove, "kind=security")}
    c.ok("failed_bearer" in told and told["failed_bearer"]["fields"]["severity"] == "medium", "a wrong token is a security event", told)
    c.ok("limit_hit" in told and told["limit_hit"]["sandbox"] == box["id"], "so is a limit that was hit, with its sandbox", told)
    cove.delete(box)


def tenants(cove):
    for name in ("ada", "bob"):
        cove.request("PUT", "/v1/tenants/" + name, {"host": True})
    keys = {}
    for name in ("ada", "bob"):
        keys[name] = cove.post("/v1/keys", {"tenant": name, "host": True, "scopes": ["read", "make", "use", "admin"]}).json
    plain = cove.post("/v1/keys", {"tenant": "ada", "scopes": ["read"]}).json["key"]
    box = cove.request("POST", "/v1/sandboxes", {}, key=keys["ada"]["key"]).json
    c.until(lambda: "sandbox.running" in kinds(cove, box["id"]))
    own = items(cove, key=keys["ada"]["key"])
    c.ok(own and {item["tenant"] for item in own} == {"ada"}, "a tenant is told of its own alone", own)
    c.ok("key.made" in [item["kind"] for item in own] and "tenant.made" in [item["kind"] for item in own], "of its keys and terms, too", own)
    c.same([i for i in items(cove, key=keys["bob"]["key"]) if i.get("sandbox") == box["id"]], [], "another is not")
    live = Stream(cove, key=keys["bob"]["key"])
    cove.request("DELETE", "/v1/sandboxes/" + box["id"], key=keys["ada"]["key"])
    cove.request("DELETE", "/v1/keys/" + keys["bob"]["id"])
    c.until(lambda: live.ended)
    c.same([event for event in live.got if event["tenant"] != "bob"], [], "nor by a stream")
    c.ok(live.ended, "a stream ends when its key is revoked")
    c.same(cove.get("/v1/audit", key=plain).status, 403, "the audit log is for admins")
    rows = cove.get("/v1/audit?limit=1000", key=keys["ada"]["key"]).json["items"]
    c.ok(rows and {row["tenant"] for row in rows} == {"ada"}, "a tenant's admin sees its own rows", rows)
    made = [row for row in rows if row["action"] == "POST /v1/sandboxes"]
    c.same([(row["target"], row["who"], row["outcome"]) for row in made],
           [(box["id"], keys["ada"]["id"], word) for word in ("begun", "ok")], "who made which sandbox: that it was begun, and how it ended")
    c.ok(made[0]["fields"]["requestId"] == made[1]["fields"]["requestId"] != "", "by which request", made)
    c.ok([row for row in rows if row["action"].startswith("DELETE") and row["target"] == box["id"]], "and who ended it", rows)
    c.same(cove.get("/v1/verify", key=keys["ada"]["key"]).status, 403, "the comparison is the operator's")


def rows_of(cove, target, word=""):
    rows, after = [], 0
    while True:
        page = cove.get("/v1/audit?limit=1000&after=%d" % after).json
        rows += [row for row in page["items"] if row["target"] == target and word in row["action"]]
        after = page["last"]
        if not page["more"]:
            return rows


def audit(cove):
    box = cove.create(name="watched")
    ids = [cove.execute(box, "true").headers["X-Request-Id"] for _ in range(3)]
    c.until(lambda: len(rows_of(cove, box["id"], "api/execute")) >= 3)
    rows = rows_of(cove, box["id"], "api/execute")
    c.same([(row["outcome"], row["fields"]["requestId"]) for row in rows], [("begun", i) for i in ids], "each command has its row")
    bad = cove.execute(box, ["/no/such/program"])
    c.until(lambda: len(rows_of(cove, box["id"], "api/execute")) >= 5)
    rows = rows_of(cove, box["id"], "api/execute")[3:]
    c.same({(row["outcome"], row["fields"]["requestId"]) for row in rows},
           {(word, bad.headers["X-Request-Id"]) for word in ("begun", "404")}, "one that fails has a second, saying why")
    for _ in range(5):
        cove.post("/v1/sandboxes/watched/api/list-files", {"path": "/workspace"})
    c.same(rows_of(cove, box["id"], "list-files"), [], "reads are summed up, and come later")
    more = [cove.execute(box, "true").headers["X-Request-Id"] for _ in range(30)]
    c.until(lambda: [row for row in rows_of(cove, box["id"], "api/execute") if "count" in row["fields"]])
    rows = [row["fields"] for row in rows_of(cove, box["id"], "api/execute")]
    own = {row["requestId"] for row in rows}
    c.same(sum(row.get("count", 0) for row in rows), len([i for i in more if i not in own]),
           "of thirty at once some have rows of their own, and the others are counted")
    got = cli(cove, "audit", "--check")
    c.ok(got.returncode == 0 and "whole" in got.stdout, "cove audit --check: the chain is whole", got)
    return box


def up(cove):
    try:
        return cove.get("/v1/health").json["status"] == "ok"
    except (OSError, ValueError, http.client.HTTPException):
        return False


def shot(cove, box):
    """What changed the house is in the log, though the daemon is killed the moment the answer is there. What
    was done inside of a sandbox follows with the next commit, which commands do not wait for."""
    where = "/v1/sandboxes/" + box["id"]
    json_type = {"Content-Type": "application/json"}
    deeds = [
        ("POST", "/v1/sandboxes", "{}", json_type),
        ("POST", where + "/api/expose-port", '{"port": 8080}', json_type),
        ("PUT", "/v1/tenants/shot", '{"host": true}', json_type),
        ("POST", "/v1/keys", '{"tenant": "shot"}', json_type),
        ("POST", where + "/stop", None, {}),
        ("DELETE", where, None, {}),
    ]
    done = []
    for method, path, body, headers in deeds:
        daemon = cove.children()["daemon"]
        reply = cove.request(method, path, body, headers=headers, raw=True)
        os.kill(daemon, 9)
        done.append((method, path, reply.status, reply.headers["X-Request-Id"]))
        c.until(lambda: cove.children().get("daemon", daemon) != daemon and up(cove))
    known = {row["fields"].get("requestId") for row in cove.get("/v1/audit?limit=1000").json["items"]}
    lost = [deed for deed in done if deed[3] not in known or deed[2] >= 400]
    c.same(lost, [], "kill -9 after each of %d answers: every deed is in the log" % len(done))
    made = [row for row in cove.get("/v1/audit?limit=1000").json["items"] if row["fields"].get("requestId") == done[0][3]]
    c.ok(made and made[0]["target"].startswith("box-") and cove.delete(made[0]["target"]).status == 204, "a create names what was made", made)
    c.same(cli(cove, "audit", "--check").returncode, 0, "and the chain is whole")


def sql(cove, statement):
    with sqlite3.connect(os.path.join(cove.data, "daemon", "cove.db"), timeout=10) as db:
        db.execute(statement)
    db.close()


def first(cove, **kw):
    """What a stream begins with."""
    stream = Stream(cove, **kw)
    c.until(lambda: stream.got)
    return stream.got[0] if stream.got else None


def gaps(cove):
    """Events that are forgotten are told as such, to whomever they were."""
    for name in ("ivy", "joe"):
        cove.request("PUT", "/v1/tenants/" + name, {"host": True})
    ivy, joe = [cove.post("/v1/keys", {"tenant": name, "scopes": ["read", "admin"]}).json["key"] for name in ("ivy", "joe")]
    for _ in range(4):
        cove.post("/v1/keys", {"tenant": "ivy", "scopes": ["read"]})
    c.until(lambda: len(items(cove, key=ivy)) == 6 and len(items(cove, key=joe)) == 2)
    c.same([i["id"] for i in items(cove, key=ivy)], [1, 2, 3, 4, 5, 6], "I-01 a tenant's events count its own")
    c.same(first(cove, key=ivy, headers={"Last-Event-ID": "2"})["id"], 3, "a place that is kept is gone on from")
    newest = cove.get("/v1/events?limit=1000").json["last"]
    sql(cove, "UPDATE events SET time = 1 WHERE tenant <> 'joe' AND NOT (tenant = 'ivy' AND own > 4)")
    cove.post("/v1/cleanup")
    told = c.until(lambda: cove.get("/v1/events?after=1&limit=1000").json["missed"])
    page = cove.get("/v1/events?after=2", key=ivy).json
    c.ok(told and page["missed"] and [i["id"] for i in page["items"]] == [5, 6], "a pruned event is reported as missed", told, page)
    c.ok(not cove.get("/v1/events?after=4", key=ivy).json["missed"] and not cove.get("/v1/events?after=1", key=joe).json["missed"],
         "and by nobody else")
    gap = first(cove, key=ivy, headers={"Last-Event-ID": "2"})
    c.ok(gap["kind"] == "events.missed" and gap["after"] == 2 and gap["oldest"] == 5, "Last-Event-ID of one that is forgotten: a stream begins by saying so", gap)
    c.same(first(cove, headers={"Last-Event-ID": "1"})["kind"], "events.missed", "the operator's, too")
    beyond = Stream(cove, headers={"Last-Event-ID": str(newest + 1000)})
    c.until(lambda: beyond.got)
    cove.request("PUT", "/v1/tenants/late", {})
    c.until(lambda: "tenant.made" in beyond.kinds())
    c.same(beyond.kinds()[0], "events.missed", "a number that was never given is no place")
    c.ok("tenant.made" in beyond.kinds(), "later events are delivered all the same", beyond.got)


def verify(cove):
    box = cove.create(name="seen")
    asleep = cove.create(name="asleep")
    cove.post("/v1/sandboxes/asleep/stop")
    cove.run(box, "true")
    got = cli(cove, "verify")
    c.ok(got.returncode == 0 and got.stdout == "all agree\n", "cove verify finds nothing after work", got)
    stray = "box-" + "0f" * 24
    place = [r for r in c.cgroup_roots() if os.path.isdir(os.path.join(r, "cove", cove.instance()))][0]
    path = os.path.join(place, "cove", cove.instance(), stray)
    os.mkdir(path)
    got = cli(cove, "verify")
    c.ok(got.returncode == 1 and "group_without_box " + stray in got.stdout, "a stray control group is named", got)
    told = json.loads(cli(cove, "verify", "--json").stdout)
    c.ok(not told["ok"] and told["differences"][0]["name"] == stray, "in JSON, too", told)
    os.rmdir(path)
    cove.delete(box)
    cove.delete(asleep)
    c.same(cli(cove, "verify").returncode, 0, "and is forgotten when it is gone")


def restart(cove):
    opened = cove.get("/v1/health").json["http"]["open"]
    follow = subprocess.Popen([cove.binary, "events", "-f", "--json", "--data", cove.data], stdout=subprocess.PIPE, text=True)
    c.until(lambda: cove.get("/v1/health").json["http"]["open"] > opened)
    before = items(cove)
    for _ in range(5):
        cove.post("/v1/sandboxes/none/api/list-files", {"path": "/workspace"})
    cove.stop()
    data = os.path.join(cove.data, "daemon", "cove.db")
    with sqlite3.connect(data) as db:
        db.execute("UPDATE audit SET who = 'mallory' WHERE id = 3")
        columns = [row[1] for row in db.execute("PRAGMA table_info(boxes)")]
        values = {"id": "stray-row", "tenant": "", "name": "", "state": "running", "seq": 1, "body": "{}"}
        db.execute("INSERT INTO boxes (%s) VALUES (%s)" % (",".join(columns), ",".join("?" * len(columns))),
                   [values.get(name, 0) for name in columns])
    db.close()
    cove.start()
    c.same(items(cove)[:len(before)], before, "events survive a restart")
    sums = rows_of(cove, "none", "list-files")
    c.same([row["fields"]["count"] for row in sums], [5], "reads that were summed up are in the log by then")
    got = cli(cove, "verify")
    c.ok(got.returncode == 1 and "stray-row" in got.stdout, "a stray row of the store is named", got)
    got = cli(cove, "audit", "--check")
    c.ok(got.returncode == 1 and "row 3 " in got.stdout, "a row of the audit log that was changed is named", got)
    box = cove.create()
    c.until(lambda: "sandbox.running" in kinds(cove, box["id"]))
    lines = []
    reader = threading.Thread(target=lambda: [lines.append(line) for line in follow.stdout], daemon=True)
    reader.start()
    c.until(lambda: any(box["id"] in line and "sandbox.running" in line for line in lines))
    c.ok(any(box["id"] in line and "sandbox.running" in line for line in lines), "cove events -f goes on after a restart", lines)
    follow.kill()
    follow.wait()


def pruned():
    """The audit log forgets by age and size, and what is left can still be verified."""
    cove = c.Cove("--audit-max=100")
    for _ in range(120):
        cove.request("PUT", "/v1/tenants/acme", {})
    cove.post("/v1/cleanup")
    check = cove.get("/v1/audit/check").json
    c.ok(check["ok"] and check["cut"]["id"] > 0 and check["rows"] <= 110, "an audit log that grew too long is cut, and is whole from there on", check)
    rows = cove.get("/v1/audit?limit=1000").json["items"]
    c.same([(row["id"] > check["cut"]["id"], row["target"]) for row in rows if row["action"] == "audit.prune"],
           [(True, "%d %s" % (check["cut"]["id"], check["cut"]["hash"]))], "a row of it says where")
    c.same(rows[0]["id"], check["cut"]["id"] + 1, "the first that is left follows from what went")
    got = cli(cove, "audit", "--check")
    c.ok(got.returncode == 0 and "up to %d" % check["cut"]["id"] in got.stdout, "cove audit --check says so", got)
    c.same(cli(cove, "verify").returncode, 0, "cove verify agrees")
    cove.stop()
    with sqlite3.connect(os.path.join(cove.data, "daemon", "cove.db")) as db:
        last, mark = db.execute("SELECT id, lower(hex(hash)) FROM audit WHERE action <> 'audit.prune' ORDER BY id DESC LIMIT 1").fetchone()
        db.execute("UPDATE kv SET value = ? WHERE name = 'audit/cut'", (("%d %s" % (last, mark)).encode(),))
        db.execute("DELETE FROM audit WHERE id <= ?", (last,))
    db.close()
    cove.start()
    got = cli(cove, "audit", "--check")
    c.ok(got.returncode == 1 and "does not follow" in got.stdout, "a cut that the log does not tell of shows", got)
    cove.close()
    cove = c.Cove("--audit-retention=1s", "--sweep-every=1s")
    cove.request("PUT", "/v1/tenants/acme", {})
    c.ok(c.until(lambda: cove.get("/v1/audit/check").json["cut"]), "rows that are old enough are forgotten")
    c.ok(cove.get("/v1/audit/check").json["ok"], "and the rest is whole")
    cove.close()


cove = c.Cove()
life(cove)
failure(cove)
security(cove)
tenants(cove)
shot(cove, audit(cove))
gaps(cove)
verify(cove)
restart(cove)
cove.close()
pruned()
c.done()
