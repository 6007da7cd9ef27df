#!/usr/bin/env python3
"""Pools of prepared sandboxes: filled, claimed once, refilled, deleted; after kill -9 (I-50 to I-52)."""
import concurrent.futures
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

WAIT = 90


def pool(cove, name="p"):
    return cove.get("/v1/pools/" + name).json


def await_ready(cove, count, name="p"):
    return c.until(lambda: pool(cove, name).get("ready") == count, WAIT)


def labelled(cove, name="p"):
    return [box for box in cove.get("/v1/sandboxes?limit=1000").json["items"] if box["labels"].get("cove/pool") == name]


def terms(**changes):
    return dict({"template": "host", "size": 3, "env": {"WHO": "pool"}, "limits": {"memoryMB": 64, "pids": 64},
                 "start": "echo started >/tmp/started; exec sleep 3600", "ready": "test -e /tmp/started"}, **changes)


def refused(cove):
    for body, reason in ((terms(size=0), "bad_field"), (terms(size=100000), "bad_field"), (terms(template="../x"), "bad_template"), (terms(template="none-such"), "no_template"),
                         (terms(ready={"port": 0}), "bad_field"), (terms(ready={}), "bad_field"), (terms(start=[]), "bad_field"), (terms(fly=1), "unknown_field"),
                         (terms(limits={"memoryMB": -1}), "bad_field"), ({"size": 1}, "bad_template")):
        reply = cove.request("PUT", "/v1/pools/p", body)
        c.ok(reply.status in (400, 404) and reply.json["reason"] == reason, "I-51: refused as %s: %s" % (reason, body), reply)
    c.same(cove.get("/v1/pools/p").json["reason"], "no_pool", "I-51: and there is no pool")
    c.same(cove.post("/v1/sandboxes", {"pool": "p"}).json["reason"], "no_pool", "I-51: a create cannot name it")


def claims(cove):
    c.same(cove.request("PUT", "/v1/pools/p", terms()).status, 201, "I-51: a pool is made")
    c.ok(await_ready(cove, 3), "I-51: it is filled", pool(cove))
    ids = {box["id"] for box in labelled(cove)}
    c.same(len(ids), 3, "I-52: its members are sandboxes of the tenant")
    reply = cove.post("/v1/sandboxes", {"pool": "p", "name": "claimed", "labels": {"a": "b"}, "ttl": "1h"})
    box = reply.json
    c.ok(reply.status == 201 and box["fromPool"] is True and box["id"] in ids, "I-51: a create claims a member", reply)
    c.same((box["name"], box["labels"], box["endsAt"] is not None, box["limits"]["memoryMB"]), ("claimed", {"a": "b"}, True, 64), "I-51: with name, labels and end of the request, limits of the pool")
    c.same(cove.out(box, "cat /tmp/started; echo $WHO"), "started\npool\n", "I-51: it was started, and has the environment")
    c.same(cove.get("/v1/sandboxes/claimed").json["id"], box["id"], "I-51: it is found by its name")
    c.ok(await_ready(cove, 3), "I-51: the pool is filled again", pool(cove))
    reply = cove.post("/v1/sandboxes", {"pool": "p", "name": "claimed"})
    c.same((reply.status, reply.json["reason"]), (409, "name_taken"), "I-51: a name that is taken is refused")
    reply = cove.post("/v1/sandboxes", {"pool": "p", "labels": {"cove/pool": "p"}})
    c.same((reply.status, reply.json["reason"]), (400, "bad_label"), "I-51: a label of cove's own, too")
    reply = cove.post("/v1/sandboxes", {"pool": "p", "env": {"A": "b"}})
    c.same((reply.status, reply.json["reason"]), (400, "unknown_field"), "I-51: and what a claim cannot change")
    c.same((pool(cove)["ready"], pool(cove)["hits"], pool(cove)["misses"]), (3, 1, 0), "I-51: these refusals took no member")
    cove.delete({"id": "claimed"})
    key = {"Idempotency-Key": "one"}
    first = cove.request("POST", "/v1/sandboxes", {"pool": "p"}, headers=key)
    again = cove.request("POST", "/v1/sandboxes", {"pool": "p"}, headers=key)
    c.same((first.json["id"], again.headers.get("Idempotency-Replayed")), (again.json["id"], "true"), "I-51: a repeated create under one key claims once")
    cove.delete(first.json)


def many(cove):
    """50 claims on 10: 50 sandboxes."""
    before = pool(cove)
    c.same(cove.request("PUT", "/v1/pools/p", terms(size=10)).status, 200, "I-51: the terms are changed")
    c.ok(await_ready(cove, 10), "I-51: members of the old terms go, ten of the new ones are ready", pool(cove))
    c.ok(c.until(lambda: len(labelled(cove)) == 10, WAIT), "I-51: and there are no others")
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        replies = list(threads.map(lambda _: c.patiently(lambda: cove.post("/v1/sandboxes", {"pool": "p"})), range(50)))
    made = [reply.json for reply in replies if reply.status == 201]
    c.same((len(made), len({box["id"] for box in made})), (50, 50), "I-51: 50 claims on 10 are 50 sandboxes")
    c.ok(all(cove.out(box, "cat /tmp/started") == "started\n" for box in made), "I-51: each is ready")
    now = pool(cove)
    hits, misses = now["hits"] - before["hits"], now["misses"] - before["misses"]
    c.same((hits, misses), (sum(box["fromPool"] for box in made), sum(not box["fromPool"] for box in made)), "I-52: the counters are what the answers say")
    c.ok(hits >= 10, "I-51: at least the ready ones were claimed", now)
    stats = cove.get("/v1/stats").json["pool"]
    c.same((stats["hits"], stats["misses"]), (now["hits"], now["misses"]), "I-52: /v1/stats sums them up")
    kinds = [event["kind"] for event in cove.get("/v1/events?limit=1000").json["items"]]
    c.ok(("pool.empty" in kinds) == (misses > 0), "I-53: an empty pool is an event")
    for box in made:
        cove.delete(box)
    c.ok(await_ready(cove, 10), "I-51: the pool is filled again", pool(cove))


def lost(cove):
    """A member is asked before its claim."""
    c.same(cove.request("PUT", "/v1/pools/p", terms(size=1)).status, 200, "I-51: a pool of one")
    c.ok(await_ready(cove, 1) and c.until(lambda: len(labelled(cove)) == 1, WAIT), "I-51: it is filled")
    member = labelled(cove)[0]
    cove.delete(member)
    box = cove.post("/v1/sandboxes", {"pool": "p"}).json
    c.ok(box["id"] != member["id"], "I-51: a member that was deleted is not claimed", box)
    c.same(cove.out(box, "cat /tmp/started"), "started\n", "I-51: the sandbox is ready all the same")
    cove.delete(box)
    c.ok(await_ready(cove, 1), "I-51: it is filled again")


def restarts(cove):
    ids = {box["id"] for box in labelled(cove)}
    os.kill(cove.children()["daemon"], signal.SIGKILL)
    c.ok(c.until(lambda: c.patiently(lambda: cove.get("/v1/pools/p")).json.get("ready") == 1, WAIT), "I-51: after kill -9 the members are ready again")
    c.ok(c.until(lambda: len(labelled(cove)) == 1, WAIT), "I-51: no other one is left", labelled(cove))
    c.note("the same members: %s" % (ids == {box["id"] for box in labelled(cove)}))
    cove.request("PUT", "/v1/pools/slow", terms(size=2, ready="false"))
    c.ok(c.until(lambda: len(labelled(cove, "slow")) == 2, WAIT), "I-51: members that are never ready")
    c.same((pool(cove, "slow")["ready"], pool(cove, "slow")["preparing"]), (0, 2), "I-51: are not ready")
    os.kill(cove.children()["daemon"], signal.SIGKILL)
    c.ok(c.until(lambda: c.patiently(lambda: cove.get("/v1/pools/slow")).json.get("preparing") == 2, WAIT), "I-51: after kill -9 two others are begun")
    c.ok(c.until(lambda: len(labelled(cove, "slow")) == 2, WAIT), "I-51: and the first ones are deleted", labelled(cove, "slow"))
    c.same(cove.request("DELETE", "/v1/pools/slow").status, 204, "I-51: the pool is deleted")
    c.ok(c.until(lambda: not labelled(cove, "slow"), WAIT), "I-51: with its members", labelled(cove, "slow"))


def tenants(cove):
    cove.request("PUT", "/v1/tenants/acme", {"host": True})
    key = cove.post("/v1/keys", {"tenant": "acme", "name": "k", "scopes": ["read", "make", "use"], "host": True}).json["key"]
    head = {"Authorization": "Bearer " + key}
    reply = cove.request("POST", "/v1/sandboxes", {"pool": "p"}, headers=head, key=False)
    c.same((reply.status, reply.json["reason"]), (404, "no_pool"), "I-51: another tenant has no such pool")
    c.same(cove.request("GET", "/v1/pools", headers=head, key=False).json["items"], [], "I-51: and sees none")


def ways(cove):
    """Ready by a port or a file."""
    cove.request("PUT", "/v1/pools/port", terms(size=1, start=["python3", "-m", "http.server", "8000"], ready={"port": 8000}))
    cove.request("PUT", "/v1/pools/file", terms(size=1, start="touch /run/there", ready={"file": "/run/there"}))
    c.ok(await_ready(cove, 1, "port"), "I-32: ready when a port listens", pool(cove, "port"))
    c.ok(await_ready(cove, 1, "file"), "I-32: ready when a file exists", pool(cove, "file"))
    for name in ("port", "file", "p"):
        c.same(cove.request("DELETE", "/v1/pools/" + name).status, 204, "the pool %s is deleted" % name)
    c.ok(c.until(lambda: not cove.get("/v1/sandboxes").json["items"], WAIT), "I-51: no member is left")


c.need_root()
cove = c.Cove()
refused(cove)
claims(cove)
many(cove)
lost(cove)
tenants(cove)
restarts(cove)
ways(cove)
got = cove.get("/v1/verify").json
c.ok(got["ok"], "verify is clean", got)
cove.close()
c.done()
