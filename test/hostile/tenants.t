#!/usr/bin/env python3
"""Hostile tenants: rows A, L and I of the contract, between two tenants of one host."""
import json
import os
import re
import socket
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rows import PATIENCE, c, play, row  # noqa: E402
import routes  # noqa: E402

ABSENT = "box-" + "0123456789ab" * 4
RICH = {"command": "id", "path": "/tmp/x", "content": "x", "sessionId": "s", "id": "s", "processId": "p", "port": 8080,
        "oldPath": "/a", "newPath": "/b", "sourcePath": "/a", "destinationPath": "/b", "pattern": "x", "name": "n",
        "repoUrl": "file:///x", "envVars": {"A": "1"}, "paths": ["/tmp"], "dir": "/tmp", "backupId": "b"}


def couple(stage, **terms):
    """Two tenants with a key each; they go with their row."""
    cove, keys = stage.cove, []
    for name in ("left", "right"):
        cove.request("PUT", "/v1/tenants/" + name, dict({"host": True}, **terms))
        keys.append(cove.post("/v1/keys", {"tenant": name, "scopes": ["read", "make", "use", "templates", "admin"]}).json["key"])
    return keys


def part(stage):
    for box in stage.cove.get("/v1/sandboxes?limit=1000").json["items"]:
        if box.get("tenant") in ("left", "right"):
            stage.cove.delete(box["id"])
    for name in ("left", "right"):
        stage.cove.request("DELETE", "/v1/tenants/" + name)


def make(stage, key, **spec):
    return stage.cove.post("/v1/sandboxes", dict({"limits": {"memoryMB": 64}}, **spec), key=key)


def plain(reply, *ids):
    """What a reply says, without what differs from request to request."""
    text = reply.body.decode(errors="replace")
    for word in ids:
        text = text.replace(word, "ID")
    text = re.sub(r'"(timestamp|requestId)":"[^"]*"', "", text)
    heads = sorted((k.lower(), v) for k, v in reply.headers.items() if k.lower() not in ("date", "x-request-id", "x-trace-id"))
    return reply.status, re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "", text), [h for h in heads if h[0] != "content-length"]


def ways(box):
    """Every route that names a sandbox, as a request for that one."""
    for route in routes.table():
        if "/sandboxes/{" not in route.pattern:
            continue
        path = re.sub(r"\{(id|name)\}", box, route.pattern, count=1)
        path = re.sub(r"\{[^}]*\*\}", "tmp/x", path)
        path = re.sub(r"\{[^}]*\}", "1234", path)
        method = "GET" if route.method == "*" else route.method
        if route.pattern == "/v1/sandboxes/{name}" and method == "PUT":
            continue
        yield method, path + ("?path=/tmp/x" if method == "GET" else ""), (RICH if "/api/" in path else {}) if method not in ("GET", "DELETE") else None


@row("A-11", "another tenant's ids are like ids that are not there")
def guess(stage):
    left, right = couple(stage)
    box = make(stage, left, name="mine").json
    short = box["shortId"]
    stage.control_weak("tenants", lambda weak: weak.cove.get(
        "/v1/sandboxes/" + make(weak, couple(weak)[0]).json["id"], key=couple(weak)[1]).status, lambda status: status == 200)
    tried, leaks = 0, []
    for (method, path, body), (_, none, _) in zip(ways(box["id"]), ways(ABSENT)):
        theirs = stage.cove.request(method, path, body, key=right, timeout=30)
        nobody = stage.cove.request(method, none, body, key=right, timeout=30)
        tried += 1
        if plain(theirs, box["id"], ABSENT) != plain(nobody, box["id"], ABSENT):
            leaks.append((method, path, theirs, nobody))
    c.ok(tried > 40 and not leaks, "A-11: %d routes answer alike" % tried, *leaks[:5])
    for key in (short, "mine"):
        c.same(stage.cove.get("/v1/sandboxes/" + key, key=right).status, 404, "A-11: nor by %s" % key)
    token = box["token"]
    c.same(stage.cove.get("/v1/t/%s/sandboxes/%s/api/ping" % (token[:-1] + ("0" if token[-1] != "0" else "1"), box["id"]), key=False).status,
           401, "A-11: nor by a token that is nearly right")
    seen = json.dumps([stage.cove.get(path, key=right).json for path in ("/v1/sandboxes", "/v1/keys", "/v1/templates", "/v1/health")])
    c.ok(box["id"] not in seen and short not in seen and "mine" not in seen and "left" not in seen, "A-11: no list names them", seen)
    c.same(stage.cove.get("/v1/sandboxes/mine", key=left).status, 200, "A-11: its owner finds it")
    part(stage)


@row("A-11", "nor does the time tell")
def clock(stage):
    left, right = couple(stage)
    ids = {"theirs": make(stage, left).json["id"], "nobody": ABSENT}
    times = {name: [] for name in ids}
    sock = socket.create_connection(("127.0.0.1", stage.cove.port))
    for i in range(600 if c.SHORT else 3000):
        name = ("theirs", "nobody")[i % 2]
        begin = time.perf_counter()
        sock.sendall(b"GET /v1/sandboxes/%s HTTP/1.1\r\nHost: localhost:%d\r\nAuthorization: Bearer %s\r\n\r\n" %
                     (ids[name].encode(), stage.cove.port, right.encode()))
        got = b""
        while b'"requestId"' not in got:
            got += sock.recv(65536)
        times[name].append(time.perf_counter() - begin)
    sock.close()
    cut = {k: sorted(v)[: int(len(v) * 0.9)] for k, v in times.items()}
    spread = [statistics.pvariance(v) / len(v) for v in cut.values()]
    welch = abs(statistics.mean(cut["theirs"]) - statistics.mean(cut["nobody"])) / (sum(spread) ** 0.5)
    c.ok(welch < 4.5 * PATIENCE, "A-11: no difference beyond noise", welch)
    stage.no_control("both are one look into a table, and the same words")
    part(stage)


@row("A-09", "a wrong tenant's key tells nothing by its time, and a right one is never held up")
def keys(stage):
    left, _ = couple(stage)
    wrong = {"first": left[:5] + ("0" if left[5] != "0" else "1") + left[6:], "last": left[:-1] + ("0" if left[-1] != "0" else "1")}
    times = {name: [] for name in wrong}
    sock = socket.create_connection(("127.0.0.1", stage.cove.port))
    for i in range(600 if c.SHORT else 3000):
        name = ("first", "last")[i % 2]
        begin = time.perf_counter()
        sock.sendall(b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost:%d\r\nAuthorization: Bearer %s\r\n\r\n" %
                     (stage.cove.port, wrong[name].encode()))
        got = b""
        while b"\r\n\r\n" not in got:
            got += sock.recv(65536)
        times[name].append(time.perf_counter() - begin)
    sock.close()
    cut = {k: sorted(v)[: int(len(v) * 0.9)] for k, v in times.items()}
    spread = [statistics.pvariance(v) / len(v) for v in cut.values()]
    welch = abs(statistics.mean(cut["first"]) - statistics.mean(cut["last"])) / (sum(spread) ** 0.5)
    c.ok(welch < 4.5 * PATIENCE, "A-09: no difference beyond noise", welch)
    c.same(stage.cove.get("/v1/sandboxes", key=left).status, 200, "A-09: the right key still passes")
    stage.no_control("hashes are compared, so that no way of comparing could tell anything of the key")
    part(stage)


@row("A-09", "a key opens what its scopes say, while it is valid")
def scopes(stage):
    def attack(stage):
        couple(stage)
        reader = stage.cove.post("/v1/keys", {"tenant": "left", "scopes": ["read"]}).json["key"]
        return make(stage, reader).status

    def late(stage):
        couple(stage)
        brief = stage.cove.post("/v1/keys", {"tenant": "left", "expiresIn": 1}).json["key"]
        time.sleep(1.3)
        return stage.cove.get("/v1/sandboxes", key=brief).status

    def bare(stage):
        couple(stage, host=False)
        plain_key = stage.cove.post("/v1/keys", {"tenant": "left"}).json["key"]
        return make(stage, plain_key).status
    stage.control_weak("scopes", attack, lambda status: status == 201)
    stage.control_weak("revocation", late, lambda status: status == 200)
    stage.control_weak("host_key", bare, lambda status: status == 201)
    c.ok(attack(stage) == 403 and late(stage) in (401, 429) and bare(stage) == 403, "A-09: scopes, expiry and the host's template")
    part(stage)


def rush(stage, key, count, width=100, **spec):
    """So many creates at once; the statuses."""
    statuses, lock, todo = [], threading.Lock(), list(range(count))

    def work():
        while True:
            with lock:
                if not todo:
                    return
                todo.pop()
            try:
                status = make(stage, key, **spec).status
            except OSError as err:
                status = repr(err)
            with lock:
                statuses.append(status)
    threads = [threading.Thread(target=work) for _ in range(min(width, count))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return statuses


@row("A-21", "a quota holds, however many ask at once")
def quota(stage):
    def attack(stage):
        left, _ = couple(stage, quota={"boxes": 10})
        for _ in range(9):
            make(stage, left)
        return rush(stage, left, 200 if c.SHORT else 1000)
    stage.control_weak("quota", lambda weak: [couple(weak, quota={"boxes": 1}) and make(weak, couple(weak, quota={"boxes": 1})[0]).status for _ in range(3)],
                       lambda statuses: statuses == [201] * 3)
    statuses = attack(stage)
    c.same((statuses.count(201), statuses.count(429), len(statuses)), (1, len(statuses) - 1, len(statuses)), "A-21: exactly the quota succeeds")
    used = stage.cove.get("/v1/tenants/left").json
    c.same(used["used"]["boxes"], 10, "A-21: and is counted")
    part(stage)
    left, _ = couple(stage, quota={"memoryMB": 256})
    statuses = rush(stage, left, 100)
    c.same(statuses.count(201), 4, "A-21: the same for memory")
    boxes = [b["id"] for b in stage.cove.get("/v1/sandboxes", key=left).json["items"]]
    for box in boxes:
        stage.cove.post("/v1/sandboxes/%s/stop" % box, key=left)
    stage.cove.request("PUT", "/v1/tenants/left", {"host": True, "quota": {"memoryMB": 128}})
    woken = []
    threads = [threading.Thread(target=lambda b=b: woken.append(
        stage.cove.post("/v1/sandboxes/%s/start" % b, key=left).status)) for b in boxes for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    running = [b["state"] for b in stage.cove.get("/v1/sandboxes", key=left).json["items"]].count("running")
    c.same(running, 2, "A-21: and for those that wake")
    part(stage)


@row("A-21", "one tenant's rush does not starve another")
def turns(stage):
    left, right = couple(stage)
    over = []
    thread = threading.Thread(target=lambda: over.extend(rush(stage, left, 60 if c.SHORT else 200, width=60)))
    alone = []
    for _ in range(5):
        begin = time.monotonic()
        alone.append((make(stage, right).status, time.monotonic() - begin))
    thread.start()
    beside = []
    while thread.is_alive() and len(beside) < 20:
        begin = time.monotonic()
        beside.append((make(stage, right).status, time.monotonic() - begin))
    thread.join()
    c.ok(all(status == 201 for status, _ in beside) and max(t for _, t in beside) < 1.0 * PATIENCE,
         "A-21: the other's creates go on", max(t for _, t in beside), max(t for _, t in alone), len(over))
    c.ok(set(over) <= {201, 429, 503, 507}, "A-21: the rush is served, or told why not", set(over))
    stage.no_control("the turns themselves are shown by a unit test, where there is no other queue in between")
    part(stage)


@row("I-01", "numbers tell nothing of others")
def numbers(stage):
    left, right = couple(stage)
    cursors = []
    for _ in range(2):
        for _ in range(3):
            make(stage, right)
        cursors.append(int(stage.cove.get("/v1/sandboxes?limit=1", key=right).json["cursor"]))
        for _ in range(5):
            make(stage, left)
    c.ok(all(cursor > 1 << 20 for cursor in cursors), "I-01: a cursor does not count sandboxes", cursors)
    seen, cursor = [], None
    while True:
        page = stage.cove.get("/v1/sandboxes?limit=2" + ("&cursor=%s" % cursor if cursor else ""), key=right).json
        seen += [b["id"] for b in page["items"]]
        cursor = page["cursor"]
        if not cursor:
            break
    stage.twin(len(seen) == 6 and len(set(seen)) == 6, "but leads through one's own", seen)
    health = stage.cove.get("/v1/health", key=right).json
    c.ok(health["boxes"]["total"] == 6 and "host" not in health and "http" not in health, "I-01: health counts one's own", health)
    full = stage.cove.request("PUT", "/v1/tenants/right", {"host": True, "quota": {"boxes": 6}})
    refusal = make(stage, right).json
    c.ok("6 of 6" in refusal["message"] and "11" not in refusal["message"], "I-01: a refusal, too", refusal, full)
    part(stage)


@row("L-07", "deletion works in whatever state of the ladder, twice and beside its steps")
def ladder(stage):
    left, right = couple(stage)
    for word in ("pause", "stop"):
        box = make(stage, left).json["id"]
        stage.cove.post("/v1/sandboxes/%s/%s" % (box, word), key=left)
        begin = time.monotonic()
        statuses = []
        threads = [threading.Thread(target=lambda: statuses.append(stage.cove.request("DELETE", "/v1/sandboxes/" + box, key=left).status))
                   for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        c.ok(set(statuses) <= {204, 404} and 204 in statuses and time.monotonic() - begin < 5, "L-07: after %s" % word, statuses)
    odd = []
    for _ in range(5 if c.SHORT else 20):
        box = make(stage, left).json["id"]
        threads = [threading.Thread(target=lambda w=w: odd.append(
            stage.cove.request("DELETE" if w == "delete" else "POST", "/v1/sandboxes/%s%s" % (box, "" if w == "delete" else "/" + w), key=left)))
            for w in ("pause", "stop", "resume", "start", "delete", "pause", "api/execute")]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if stage.cove.get("/v1/sandboxes/" + box, key=left).status != 404:
            c.same(stage.cove.request("DELETE", "/v1/sandboxes/" + box, key=left).status, 204, "L-07: it is deleted in the end")
    c.ok(all(r.status < 500 or r.status == 503 for r in odd), "L-07: steps beside each other are answered",
         [r for r in odd if r.status >= 500 and r.status != 503][:3])
    box = make(stage, left).json["id"]
    c.same([stage.cove.post("/v1/sandboxes/%s/%s" % (box, w), key=right).status for w in ("pause", "stop", "start", "resume")], [404] * 4,
           "L-07: the ladder is its tenant's")
    stage.twin(stage.cove.post("/v1/sandboxes/%s/pause" % box, key=left).status == 200, "who may take a step")
    part(stage)


play()
