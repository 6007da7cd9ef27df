#!/usr/bin/env python3
"""Two tenants on one host: keys with scopes, quotas, names of their own, and nothing of one is seen by the other."""
import http.client
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import wsclient  # noqa: E402

c.need_root()
cove = c.Cove()


def tenant(name, **terms):
    return cove.request("PUT", "/v1/tenants/" + name, terms)


def key(**fields):
    reply = cove.post("/v1/keys", fields)
    if reply.status != 201:
        raise RuntimeError("key: %r" % reply)
    return reply.json


def ask(secret, method, path, body=None, **kw):
    return cove.request(method, path, body, key=secret, **kw)


def archive(secret, name):
    """Imports a template that holds next to nothing."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("etc")
        info.type = tarfile.DIRTYPE
        info.mode = 0o755
        tar.addfile(info)
    return ask(secret, "POST", "/v1/templates?name=" + name, out.getvalue(), raw=True,
               headers={"Content-Type": "application/x-tar"})


# Tenants
made = tenant("acme", quota={"boxes": 3, "memoryMB": 1024, "execs": 2}, host=True)
c.ok(made.status == 201 and made.json["quota"]["boxes"] == 3 and made.json["host"] is True and
     made.json["used"]["boxes"] == 0, "PUT makes a tenant with its quota", made)
again = tenant("acme", quota={"boxes": 3, "memoryMB": 1024, "execs": 2}, host=True)
c.ok(again.status == 200 and again.json["createdAt"] == made.json["createdAt"], "PUT again changes it", again)
tenant("beta", host=True)
c.same([t["name"] for t in cove.get("/v1/tenants").json["items"]], ["acme", "beta"], "tenants are listed by name")
for bad in ("-x", "X", "a_b", "a" * 32, "a.b"):
    c.same(tenant(bad).status, 400, "'%s' is no tenant's name" % bad)
for bad in ({"quota": {"boxes": 0}}, {"quota": {"cats": 1}}, {"quota": 3}, {"host": "yes"}, {"templates": ["../x"]},
            {"other": 1}):
    c.same(cove.request("PUT", "/v1/tenants/acme", bad).status, 400, "terms %s are refused" % json.dumps(bad))
c.same(cove.get("/v1/tenants/none").json["reason"], "no_tenant", "a tenant that is not there is 404")

# Keys
a = key(tenant="acme", name="ci")
b = key(tenant="beta")
c.ok(re.fullmatch(r"cove_[0-9a-f]{64}", a["key"]) and a["id"].startswith("key-") and
     a["scopes"] == ["read", "make", "use"] and a["tenant"] == "acme", "a key has a secret, an id and scopes", a)
listed = cove.get("/v1/keys")
c.ok(len(listed.json["items"]) == 2 and a["key"] not in listed.body.decode() and
     not any("hash" in k or "key" in k for k in listed.json["items"][0]), "the list tells no secret", listed)
c.ok(a["key"] not in cove.log_text(), "no secret is in the log")
for bad in ({"tenant": "none"}, {"scopes": []}, {"scopes": ["fly"]}, {"sandbox": "none"}, {"expiresIn": 0},
            {"name": "x\n"}, {"x": 1}, {"tenant": "A"}):
    c.ok(cove.post("/v1/keys", bad).status in (400, 404), "a key with %s is refused" % json.dumps(bad))
c.same(ask("cove_" + "0" * 64, "GET", "/v1/sandboxes").status, 401, "another secret opens nothing")

A, B = a["key"], b["key"]
box = ask(A, "POST", "/v1/sandboxes", {"name": "work", "labels": {"of": "acme"}})
c.ok(box.status == 201 and box.json["tenant"] == "acme", "a tenant makes a sandbox", box)
abox = box.json["id"]
c.same(ask(A, "POST", "/v1/sandboxes/work/api/execute", {"command": "echo hi"}).json["stdout"], "hi",
       "and works in it, by name")
twin = ask(B, "POST", "/v1/sandboxes", {"name": "work"})
c.same(twin.status, 201, "names are unique per tenant only")
c.same(ask(A, "POST", "/v1/sandboxes", {"name": "work"}).status, 409, "but unique there")
c.same([x["id"] for x in ask(A, "GET", "/v1/sandboxes").json["items"]], [abox], "a list shows a tenant its own")
c.same(len(cove.get("/v1/sandboxes").json["items"]), 2, "and the operator all")
c.same(cove.get("/v1/sandboxes/work").status, 404, "the operator's names are its own, too")
c.same(cove.get("/v1/sandboxes/" + abox).status, 200, "but every id is the operator's to see")
health = ask(A, "GET", "/v1/health").json
c.ok(health["boxes"]["total"] == 1 and not {"host", "http", "loop", "uptimeMs", "queue"} & set(health),
     "health counts a tenant's own, and nothing of the host", health)
c.ok(ask(A, "PUT", "/v1/sandboxes/work", {}).json["id"] == abox, "get-or-create by name is per tenant")

# Scopes
reader = key(tenant="acme", scopes=["read"])["key"]
user = key(tenant="acme", scopes=["use"])["key"]
c.ok(ask(reader, "GET", "/v1/sandboxes/work").status == 200 and
     ask(reader, "POST", "/v1/sandboxes", {}).status == 403 and
     ask(reader, "POST", "/v1/sandboxes/work/api/execute", {"command": "id"}).status == 403 and
     ask(reader, "DELETE", "/v1/sandboxes/work").status == 403 and
     ask(reader, "POST", "/v1/sandboxes/work/pause").status == 403, "scope read reads only")
c.ok(ask(user, "GET", "/v1/sandboxes/work").status == 403 and
     ask(user, "POST", "/v1/sandboxes/work/api/execute", {"command": "echo u"}).status == 200, "scope use uses only")
c.ok(ask(A, "GET", "/v1/keys").status == 403 and ask(A, "POST", "/v1/keys", {}).status == 403 and
     ask(A, "GET", "/v1/tenants").status == 403 and ask(A, "PUT", "/v1/tenants/acme", {}).status == 403 and
     ask(A, "POST", "/v1/cleanup").status == 403 and
     ask(A, "POST", "/v1/templates", {"name": "x", "from": "host"}).status == 403, "without admin and templates none of that")
c.ok(ask(A, "GET", "/v1/tenants/acme").status == 200 and ask(A, "GET", "/v1/tenants/beta").status == 403 and
     ask(A, "GET", "/v1/tenants/none").status == 403, "a tenant sees its own terms, and no other's")
seen = ask(reader, "GET", "/v1/sandboxes/work").json
c.ok(seen["id"] == abox and seen["token"] is None and seen["baseUrl"] is None,
     "nor is it told the credential with which anybody could use the sandbox", seen)
once = {"Idempotency-Key": "tenants-once"}
first = ask(A, "POST", "/v1/sandboxes", {"name": "once", "limits": {"memoryMB": 16}}, headers=once)
c.ok(first.status == 201 and ask(A, "POST", "/v1/sandboxes", {"name": "once", "limits": {"memoryMB": 16}}, headers=once).status == 201,
     "an answer under an idempotency key is given again to who may make", first)
maker = key(tenant="acme", scopes=["make"])["key"]
c.same([ask(k, "POST", "/v1/sandboxes", {"name": "once", "limits": {"memoryMB": 16}}, headers=once).status
        for k in (reader, user, maker)], [403, 403, 409], "and to nobody who may not make, or not use it")
ask(A, "DELETE", "/v1/sandboxes/once")
admin = key(tenant="acme", scopes=["read", "make", "admin"])["key"]
brief = key(tenant="acme", scopes=["read", "admin"], expiresIn=3600)
c.ok(ask(brief["key"], "POST", "/v1/keys", {"scopes": ["read"], "expiresIn": 7200}).json["expiresAt"] == brief["expiresAt"] and
     ask(brief["key"], "POST", "/v1/keys", {"scopes": ["read"]}).json["expiresAt"] == brief["expiresAt"],
     "a key that expires makes none that lasts longer")
sub = ask(admin, "POST", "/v1/keys", {"scopes": ["read"]})
c.ok(sub.status == 201 and sub.json["tenant"] == "acme", "an admin makes keys of its own tenant", sub)
c.ok(ask(admin, "POST", "/v1/keys", {"scopes": ["use"]}).status == 403 and
     ask(admin, "POST", "/v1/keys", {"tenant": "beta"}).status == 404 and
     ask(admin, "POST", "/v1/keys", {"tenant": "none"}).status == 404 and
     ask(admin, "POST", "/v1/keys", {"tenant": ""}).status == 404 and
     ask(admin, "PUT", "/v1/tenants/acme", {}).status == 403, "but gives no more than it has, and to nobody else")
c.ok(all(k["tenant"] == "acme" for k in ask(admin, "GET", "/v1/keys").json["items"]), "and sees only those")
c.ok(ask(admin, "DELETE", "/v1/keys/" + b["id"]).status == 404, "nor ends another's")
second = key(scopes=["read", "make", "use", "templates", "admin"], name="second", host=True)["key"]
c.ok(len(ask(second, "GET", "/v1/sandboxes").json["items"]) == 2 and ask(second, "GET", "/v1/tenants").status == 200,
     "an admin key without a tenant is as good as the operator's")
own = key(scopes=["read"])["key"]
c.same(ask(own, "GET", "/v1/sandboxes").json["items"], [], "a key of the operator's own space sees that alone")

# One sandbox
one = key(tenant="acme", sandbox="work")["key"]
other = ask(A, "POST", "/v1/sandboxes", {"name": "other"}).json["id"]
c.ok(ask(one, "GET", "/v1/sandboxes/work").status == 200 and ask(one, "GET", "/v1/sandboxes/" + other).status == 404 and
     len(ask(one, "GET", "/v1/sandboxes").json["items"]) == 1 and ask(one, "POST", "/v1/sandboxes", {}).status == 403,
     "a key for one sandbox knows no other")
began = ask(key(tenant="acme", scopes=["templates"])["key"], "POST", "/v1/templates?wait=false", {"image": "10.0.0.1/x"}).json["id"]
cove.request("PUT", "/v1/budgets/all", {"match": {"tenant": "acme"}, "period": "month", "requests": 1000000})
c.same([(len(ask(of, "GET", "/v1/operations").json["items"]), len(ask(of, "GET", "/v1/budgets").json["items"]), ask(of, "GET", "/v1/operations/" + began).status,
         ask(of, "GET", "/v1/budgets/all").status, ask(of, "GET", "/v1/executions").status) for of in (A, one)],
       [(1, 1, 200, 200, 200), (0, 0, 404, 404, 403)], "nor the tenant's operations, budgets and executions")
c.same(cove.request("DELETE", "/v1/budgets/all").status, 204, "a budget is removed")
c.same(ask(one, "POST", "/v1/agent-sessions", {"user": "u", "runner": {"argv": ["/bin/true"]}}).status, 403, "nor makes one by way of a session")
allof = dict(scopes=["read", "make", "use", "templates", "admin"], host=True)
c.same([ask(key(sandbox=made.json["id"], **allof)["key"], *what).status for made in [cove.post("/v1/sandboxes", {"limits": {"memoryMB": 64}})]
        for what in (("GET", "/v1/tenants"), ("GET", "/v1/keys"), ("GET", "/v1/audit"), ("POST", "/v1/cleanup"),
                     ("POST", "/v1/templates", {"name": "x", "from": "host"}), ("GET", "/v1/sandboxes/" + made.json["id"]))],
       [403, 403, 403, 403, 403, 200], "whatever its scopes, it is for nothing beside that sandbox")

# Quotas
third = ask(A, "POST", "/v1/sandboxes", {"name": "third", "limits": {"memoryMB": 64}})
c.ok(third.status == 429 and third.json["reason"] == "quota" and "memory" in third.json["message"] and
     "1024 of 1024" in third.json["message"], "429 quota names what is used", third)
c.same(ask(A, "POST", "/v1/sandboxes/other/stop").json["state"], "stopped", "a stopped sandbox gives its memory back")
third = ask(A, "POST", "/v1/sandboxes", {"name": "third", "limits": {"memoryMB": 64}})
c.same(third.status, 201, "so that another may run")
c.same(ask(A, "POST", "/v1/sandboxes/other/start").json.get("reason"), "quota", "and it cannot start beside that")
c.same(ask(A, "POST", "/v1/sandboxes/other/api/execute", {"command": "id"}).json.get("reason"), "quota",
       "nor be woken by a request")
c.same(ask(A, "POST", "/v1/sandboxes", {"limits": {"memoryMB": 16}}).json["reason"], "quota", "boxes are counted, stopped or not")
ask(A, "DELETE", "/v1/sandboxes/third")
c.same(ask(A, "POST", "/v1/sandboxes/other/api/execute", {"command": "echo back"}).json["stdout"], "back",
       "what was deleted counts no more")
runs = [threading.Thread(target=ask, args=(A, "POST", "/v1/sandboxes/work/api/execute", {"argv": ["sleep", "6"], "encoding": "auto"}))
        for _ in range(2)]
for r in runs:
    r.start()
c.until(lambda: len([pid for pid in c._pids() if c._is_boxed(pid, cove.instance() + "/" + abox) and c._comm(pid) == "sleep"]) == 2)
c.same(ask(A, "POST", "/v1/sandboxes/other/api/execute", {"command": "echo", "encoding": "auto"}).json.get("reason"), "quota",
       "commands are counted over all of a tenant's sandboxes")
c.same(ask(B, "POST", "/v1/sandboxes/work/api/execute", {"command": "echo b"}).status, 200, "another tenant has its own count")
for r in runs:
    r.join()

# The credential of a sandbox keeps its tenant
token = ask(A, "GET", "/v1/sandboxes/work").json["token"]
c.same(cove.request("POST", "/v1/t/%s/sandboxes/%s/api/execute" % (token, abox), {"command": "echo t"}, key=False).json["stdout"],
       "t", "the token in a path opens a tenant's sandbox")
c.same(cove.request("GET", "/v1/t/%s/sandboxes/%s" % (token, other), key=False).status, 401, "and no other")

# Sessions
runner = {"argv": ["/bin/true"]}
made = [ask(k, "POST", "/v1/agent-sessions", {"user": "u", "session": name, "runner": runner}) for k, name in ((A, "of-acme"), (B, "of-beta"))]
if c.ok(all(m.status == 201 for m in made), "tenants have sessions", *made):
    c.same([x["id"] for x in ask(B, "GET", "/v1/agent-sessions").json["items"]], ["of-beta"], "and see their own")
    c.same([ask(B, "GET", "/v1/agent-sessions/of-acme").status, ask(B, "DELETE", "/v1/agent-sessions/of-acme").status], [404, 404], "alone")
    c.same(ask(B, "GET", "/v1/agent-sessions?cursor=of-acme").json["items"], ask(B, "GET", "/v1/agent-sessions?cursor=of-nobody").json["items"],
           "another's id is no cursor, as one that is not there")
    same = {"user": "u", "session": "plan", "isolation": "session", "runner": runner}
    pair = [ask(k, "POST", "/v1/agent-sessions", same) for k in (A, B)]
    if c.ok([r.status for r in pair] == [201, 201], "ids are a tenant's own: the second of an id is another session", *pair):
        c.same([r.json["id"] for r in pair], ["plan", "plan"], "each is called as it was asked for")
        c.same(pair[0].headers["location"], "/v1/agent-sessions/plan", "and found there")
        c.ok(pair[0].json["sandbox"] != pair[1].json["sandbox"] and pair[0].json["directory"] != pair[1].json["directory"],
             "with a sandbox and directories of its own", *pair)
        c.same([ask(A, "POST", "/v1/agent-sessions", same).json["reason"], ask(B, "POST", "/v1/agent-sessions", same).json["reason"]],
               ["session_taken"] * 2, "within a tenant it is used once")
        seen = [x["id"] for x in cove.get("/v1/agent-sessions").json["items"] if x["id"].endswith("plan")]
        c.same(sorted(seen), ["acme__plan", "beta__plan"], "the operator tells them apart")
        c.same([cove.get("/v1/agent-sessions/" + x).json["tenant"] for x in ("acme__plan", "beta__plan")], ["acme", "beta"], "and reaches each")
        c.same(cove.get("/v1/agent-sessions/plan").status, 404, "the bare id is the operator's own, who has none")
        c.same(cove.post("/v1/agent-sessions", same).status, 201, "and is free for it")
        c.same([ask(k, "GET", "/v1/agent-sessions/" + x).status for k in (A, B) for x in ("acme__plan", "beta__plan")], [404] * 4,
               "tenants have no such names")
        c.ok(ask(B, "DELETE", "/v1/agent-sessions/plan").status in (202, 204), "the session of one tenant is deleted")
        c.same(ask(A, "GET", "/v1/agent-sessions/plan").json["status"], "live", "and the other is not")
        for k in (A, True):
            c.ok(cove.request("DELETE", "/v1/agent-sessions/plan", key=k).status in (202, 204), "they end them")
    house = key(scopes=["read", "make", "use"], host=True)["key"]
    c.same(ask(house, "POST", "/v1/agent-sessions", {"org": "tenant-acme:x", "user": "u", "runner": runner}).json["reason"], "invalid_owner",
           "nobody else's organisation is called like one of a tenant's")
    tenant("delta", host=True)
    D = key(tenant="delta", scopes=["read", "make", "use", "templates", "admin"])["key"]
    c.same(archive(D, "base").status, 201, "a tenant has a template")
    c.until(lambda: ask(D, "GET", "/v1/audit").json["items"] and ask(D, "GET", "/v1/events").json["items"])
    ask(D, "POST", "/v1/agent-sessions", {"user": "u", "session": "of-delta", "runner": runner})
    c.same(cove.request("DELETE", "/v1/tenants/delta").json["reason"], "tenant_in_use", "a tenant with sessions stays")
    ran = ask(D, "POST", "/v1/executions?wait=60", {"command": "echo of-delta", "template": "host"}).json["id"]
    runs = ask(D, "POST", "/v1/executions", {"command": "sleep 600", "template": "host"}).json["id"]
    c.same(ask(D, "GET", "/v1/executions/%s/logs" % ran).body, b"of-delta\n", "it has an execution that has ended, and one that has not")
    ask(D, "DELETE", "/v1/agent-sessions/of-delta")
    for _ in range(50):
        if ask(D, "GET", "/v1/agent-sessions/of-delta").status == 404:
            break
        time.sleep(0.1)
    c.same(cove.request("DELETE", "/v1/tenants/delta").json["reason"], "tenant_in_use", "nor does one with an execution that runs go")
    ask(D, "POST", "/v1/executions/%s/cancel" % runs)
    ask(D, "GET", "/v1/executions/%s/wait?timeoutMs=60000" % runs)
    c.ok(c.until(lambda: ask(D, "DELETE", "/v1/executions/" + runs).status == 204, 30), "it is cancelled")
    past = [x["kind"] for x in ask(D, "GET", "/v1/events").json["items"]]
    c.same(cove.request("DELETE", "/v1/tenants/delta").status, 204, "until they are gone")
    c.same([cove.get("/v1/executions/" + ran).status, os.listdir(os.path.join(cove.data, "daemon", "blobs", "t-delta"))], [404, []],
           "its executions go with it, and their logs")
    c.same([t["name"] for t in cove.get("/v1/templates").json["items"] if t["name"].startswith("delta.")], [],
           "templates of a tenant go with it")
    c.same([x["kind"] for x in cove.get("/v1/events?tenant=delta&limit=1000").json["items"]][:len(past)], past,
           "its events are left to the operator")
    c.ok(cove.get("/v1/audit?tenant=delta&limit=1000").json["items"], "as are its rows of the audit log")
    tenant("delta", host=True)
    D = key(tenant="delta", scopes=["read", "make", "use", "templates", "admin"])["key"]
    c.same([ask(D, "GET", "/v1/templates/base").status, [t["name"] for t in ask(D, "GET", "/v1/templates").json["items"]]],
           [404, ["host"]], "a new tenant of that name has none of its templates")
    c.same(ask(D, "GET", "/v1/executions").json["items"], [], "nor of its executions")
    late = ask(D, "GET", "/v1/events?limit=1000").json
    c.ok(not [x for x in late["items"] if x["kind"] in past and x["kind"].startswith("session")] and
         all(x["kind"] in ("tenant.made", "key.made") for x in late["items"]) and not late["missed"], "nor of its events", late)
    c.same([x["target"] for x in ask(D, "GET", "/v1/audit?limit=1000").json["items"] if "of-delta" in x["target"]], [],
           "nor of its rows of the audit log")
    c.same(ask(D, "POST", "/v1/agent-sessions", {"user": "u", "session": "of-delta", "runner": runner}).status, 201, "and ids are free again")
    ask(D, "DELETE", "/v1/agent-sessions/of-delta")
    c.ok(c.until(lambda: cove.request("DELETE", "/v1/tenants/delta").status == 204), "the second tenant of that name is removed as well")
    for k, name in ((A, "of-acme"), (B, "of-beta")):
        c.ok(ask(k, "DELETE", "/v1/agent-sessions/" + name).status in (202, 204), "they end them")

# Imports: one tenant's share of what the host makes at a time
def slow_import(secret, name):
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=60)
    conn.putrequest("POST", "/v1/templates?name=" + name)
    for head in (("Authorization", "Bearer " + secret), ("Content-Type", "application/x-tar"), ("Transfer-Encoding", "chunked")):
        conn.putheader(*head)
    conn.endheaders()
    conn.send(b"200\r\n" + b"\0" * 512 + b"\r\n")
    return conn


TA, TB = [key(tenant=name, scopes=["read", "templates"])["key"] for name in ("acme", "beta")]
slow = [slow_import(TA, "slow%d" % i) for i in range(2)]
c.ok(c.until(lambda: archive(TA, "more").json.get("reason") in ("too_many_imports", "template_exists") and
             archive(TA, "third").json.get("reason") == "too_many_imports"), "a tenant makes two templates at a time")
c.same(archive(TB, "other").status, 201, "and another is not held up by that")
c.same(ask(TB, "DELETE", "/v1/templates/other").status, 204, "its tenant removes the template again")
for conn in slow:
    conn.close()
c.ok(c.until(lambda: archive(TA, "after").status == 201), "the share is free again when they are given up")
for name in ("more", "third", "after"):
    ask(TA, "DELETE", "/v1/templates/" + name)

# The bridge
room = ask(B, "POST", "/v1/sandbox")
c.ok(room.status == 200, "the bridge knows tenants' keys", room)
rid = room.json["id"]
c.same(ask(B, "GET", "/v1/sandbox/%s/running" % rid).status, 200, "and asks in their name")
names = [x["name"] for x in ask(B, "GET", "/v1/sandboxes").json["items"]]
mine = [x["name"] for x in ask(A, "GET", "/v1/sandboxes").json["items"]]
c.ok(rid not in mine, "a room of the bridge is its tenant's alone", names, mine)

# Templates
ten = key(tenant="acme", scopes=["read", "make", "use", "templates"])["key"]
nohost = tenant("gamma")
g = key(tenant="gamma", scopes=["read", "make", "use", "templates"])["key"]
refused = ask(g, "POST", "/v1/sandboxes", {})
c.ok(refused.status == 403 and refused.json["reason"] == "host_not_allowed", "the template host is for those who may", refused)
c.same([t["name"] for t in ask(g, "GET", "/v1/templates").json["items"]], [], "a tenant without permission does not see the template")
allowed = key(tenant="gamma", host=True)
c.same(ask(allowed["key"], "POST", "/v1/sandboxes", {"limits": {"memoryMB": 64}}).status, 201, "a key may be allowed it alone")
c.same(ask(key(tenant="gamma", scopes=["admin", "read", "make", "use"])["key"], "POST", "/v1/keys", {"host": True}).status, 403,
       "nobody allows it who is not allowed")
frozen = archive(ten, "base")
c.ok(frozen.status == 201 and frozen.json["name"] == "base", "a tenant makes a template", frozen)
c.ok("base" in [t["name"] for t in ask(ten, "GET", "/v1/templates").json["items"]] and
     "acme.base" in [t["name"] for t in cove.get("/v1/templates").json["items"]] and
     ask(g, "GET", "/v1/templates/base").status == 404 and ask(g, "GET", "/v1/templates/acme.base").status == 404 and
     ask(g, "POST", "/v1/sandboxes", {"template": "acme.base"}).status == 404, "which nobody else knows but the operator")
used = ask(ten, "PUT", "/v1/sandboxes/other", {})
tbox = ask(B, "POST", "/v1/sandboxes", {"template": "base"})
c.same((tbox.status, tbox.json["reason"]), (404, "no_template"), "another tenant cannot start from it")
ask(A, "DELETE", "/v1/sandboxes/other")
tbox = ask(ten, "POST", "/v1/sandboxes", {"template": "base", "name": "tb", "limits": {"memoryMB": 64}})
c.ok(tbox.status == 201 and tbox.json["template"] == "base", "its owner can", tbox)
c.same(tenant("gamma", templates=["acme.base"]).status, 200, "(another's template cannot be lent)")
c.same(ask(g, "POST", "/v1/sandboxes", {"template": "acme.base"}).status, 404, "not even by the operator's list")
c.same(ask(g, "DELETE", "/v1/templates/base").status, 404, "nor removed")
ask(ten, "DELETE", "/v1/sandboxes/tb")
c.same(ask(ten, "DELETE", "/v1/templates/base").status, 204, "its owner removes it")
archive(cove.key, "shared")
tenant("gamma", templates=["shared"])
c.ok([t["name"] for t in ask(g, "GET", "/v1/templates").json["items"]] == ["shared"] and
     ask(g, "POST", "/v1/sandboxes", {"template": "shared", "limits": {"memoryMB": 64}}).status == 201, "the operator lends templates by name")
c.same(ask(g, "DELETE", "/v1/templates/shared").status, 404, "which stay the operator's")
c.same(archive(cove.key, "delta.x").status, 201, "a template with a dot")
c.same(tenant("delta").json["reason"], "tenant_shadows", "is not given away by a new tenant's name")

# Idempotency keys are a tenant's own
head = {"Idempotency-Key": "once"}
tenant("acme", host=True)
first = ask(A, "POST", "/v1/sandboxes", {"limits": {"memoryMB": 64}}, headers=head)
theirs = ask(B, "POST", "/v1/sandboxes", {"limits": {"memoryMB": 64}}, headers=head)
c.ok(first.status == 201 and theirs.status == 201 and first.json["id"] != theirs.json["id"],
     "an idempotency key is a tenant's own", first, theirs)
c.ok(ask(A, "POST", "/v1/sandboxes", {"limits": {"memoryMB": 64}}, headers=head).json["id"] == first.json["id"], "and repeats there")

# Revocation and expiry
short = key(tenant="acme", expiresIn=4)
c.same(ask(short["key"], "GET", "/v1/sandboxes").status, 200, "a key that expires opens")
c.ok(c.until(lambda: ask(short["key"], "GET", "/v1/sandboxes").status == 401), "until then")
conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=200)
conn.request("POST", "/v1/sandboxes/work/api/execute/stream", json.dumps({"command": "echo on; sleep 300"}),
             {"Authorization": "Bearer " + one, "Content-Type": "application/json"})
answer = conn.getresponse()
line = b""
while b"on" not in line:
    line = answer.readline()
socks = [wsclient.WebSocket(cove, "/v1/sandboxes/work" + way, key=one) for way in ("/ws/pty?sessionId=t&cols=80&rows=24", "/ws")]
ended = [k for k in cove.get("/v1/keys").json["items"] if k["sandbox"] == abox][0]
began = time.monotonic()
c.same(cove.request("DELETE", "/v1/keys/" + ended["id"]).status, 204, "a key is revoked")
try:
    answer.read()
except http.client.HTTPException:
    pass
c.ok(time.monotonic() - began < 100, "revoked at once: its open stream ends", time.monotonic() - began)
cut = []
for sock in socks:
    try:
        sock.sock.settimeout(60)
        while sock.sock.recv(65536):
            pass
        cut.append(True)
    except OSError as err:
        cut.append(not isinstance(err, TimeoutError))
c.same(cut, [True, True], "and its terminals and sockets")
c.same(ask(one, "GET", "/v1/sandboxes/work").status, 401, "and its next request is nobody's")
c.same(cove.request("DELETE", "/v1/keys/" + ended["id"]).status, 204, "to revoke it again is harmless")

# The command line
env = dict(os.environ, COVE_URL=cove.url, COVE_TOKEN=cove.key)


def cli(*words):
    done = subprocess.run([c.BIN] + list(words), env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


c.same(cli("tenant", "set", "zeta", "--boxes", "4", "-m", "1g", "--cpus", "2", "--disk", "8g", "--execs", "5", "--host", "--template", "*"),
       (0, "zeta\n"), "cove tenant set")
zeta = cove.get("/v1/tenants/zeta").json
c.same((zeta["quota"], zeta["host"], zeta["templates"]),
       ({"boxes": 4, "memoryMB": 1024, "cpus": 2, "diskMB": 8192, "execs": 5}, True, ["*"]), "as it was told")
code, secret = cli("key", "create", "--tenant", "zeta", "--scope", "read", "--scope", "make", "--expires", "1h", "-q")
c.ok(code == 0 and ask(secret.strip(), "GET", "/v1/sandboxes").status == 200, "cove key create prints a secret that opens", secret)
c.ok("zeta" in cli("tenant", "ls")[1] and "0/4" in cli("tenant", "ls")[1] and "read,make" in cli("key", "ls")[1], "both are listed",
     cli("tenant", "ls"), cli("key", "ls"))
last = [k for k in json.loads(cli("key", "ls", "--json")[1]) if k["tenant"] == "zeta"][0]["id"]
c.same(cli("key", "rm", last), (0, last + "\n"), "cove key rm")
c.same(ask(secret.strip(), "GET", "/v1/sandboxes").status, 401, "and it opens no more")
c.same((cli("tenant", "rm", "zeta"), cli("tenant", "rm", "zeta")[0], cli("tenant", "rm", "-f", "zeta")[0]), ((0, "zeta\n"), 3, 0),
       "cove tenant rm")

# They survive a restart
c.same(cove.request("DELETE", "/v1/tenants/acme").json["reason"], "tenant_in_use", "a tenant with sandboxes stays")
cove.stop()
cove.start()
c.ok(ask(A, "GET", "/v1/sandboxes").status == 200 and ask(one, "GET", "/v1/sandboxes").status == 401 and
     ask(short["key"], "GET", "/v1/sandboxes").status == 401, "keys survive a restart, revoked ones do not come back")
c.same(cove.get("/v1/tenants/gamma").json["templates"], ["shared"], "and so do tenants")
for x in cove.get("/v1/sandboxes").json["items"]:
    cove.delete(x["id"])
c.same(cove.request("DELETE", "/v1/tenants/acme").status, 204, "a tenant without sandboxes goes")
c.same(ask(A, "GET", "/v1/sandboxes").status, 401, "and its keys with it")
tenant("acme", quota={"boxes": 3}, host=True)
heir_key = key(tenant="acme")["key"]
heir = ask(heir_key, "POST", "/v1/sandboxes", {"name": "once", "limits": {"memoryMB": 16}}, headers=once)
c.ok(heir.status == 201 and heir.json["id"] != first.json["id"], "the next of its name is not given its answers", heir)
cove.delete(heir.json["id"])
c.same(ask(heir_key, "POST", "/v1/sandboxes/none/api/execute", {"command": "true"}).status, 404, "a request that is counted")
c.same(cove.request("DELETE", "/v1/tenants/acme").status, 204, "a tenant with counted requests goes")
tenant("acme", host=True)
latest = key(tenant="acme", scopes=["read", "admin"])["key"]
c.same(cove.stop(), 0, "cove ends")
cove.start()
c.same(ask(latest, "GET", "/v1/audit").json["items"], [], "and the next of its name is not shown them")
c.same(cove.stop(), 0, "cove ends")
c.done()
