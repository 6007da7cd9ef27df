#!/usr/bin/env python3
"""Hostile tenants: rows A, L and I, between two tenants of one host."""
import hashlib
import io
import json
import os
import re
import select
import socket
import statistics
import sys
import tarfile
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


@row("A-11", "nor what a tenant keeps beside its sandboxes")
def keep(stage):
    def make_all(stage, key):
        """One thing of each kind: the names by which it is found, by the beginning of its routes."""
        ask = stage.cove.request
        box = make(stage, key, name="work").json["id"]
        execution = ask("POST", "/v1/executions", {"command": "echo told"}, key=key).json["id"]
        ask("GET", "/v1/executions/%s/wait" % execution, key=key, timeout=60)
        run = ask("POST", "/v1/agent-runs", {"sandbox": box, "argv": ["true"]}, key=key).json["id"]
        digest = "sha256:" + hashlib.sha256(b"told").hexdigest()
        done = [ask("PUT", "/v1/pools/told", {"size": 1, "template": "host", "limits": {"memoryMB": 32}}, key=key),
                ask("PUT", "/v1/secrets/told", {"value": "told-secret", "hosts": ["a.test"]}, key=key),
                ask("PUT", "/v1/blobs/" + digest, b"told", key=key, raw=True),
                ask("POST", "/v1/sandboxes/%s/snapshot" % box, {"name": "told"}, key=key)]
        if any(reply.status not in (200, 201, 204) for reply in done):
            raise RuntimeError(done)
        return {"volumes": [ask("POST", "/v1/volumes", {"name": "told", "sizeMB": 16}, key=key).json["id"], "told"],
                "templates": ["told"], "pools": ["told"], "secrets": ["told"], "blobs": [digest],
                "executions": [execution], "agent-runs": [run],
                "operations": [ask("POST", "/v1/templates?wait=false", {"image": "10.0.0.1/told"}, key=key).json["id"]]}

    def absent(name):
        """Another of that shape."""
        head, dash, rest = name.rpartition("-") if "-" in name else name.rpartition(":") if ":" in name else name.rpartition("_")
        return head + dash + re.sub("[0-9a-f]", "0", rest) if dash else "t0ld" if name == "told" else "x" + name

    def unmake(stage, name, key):
        for kind in ("pools", "executions", "sandboxes", "volumes", "templates"):
            for item in stage.cove.get("/v1/" + kind, key=key).json["items"]:
                if item.get("name") != "host":
                    each = item["id"] if kind in ("executions", "sandboxes") else item["name"]
                    c.until(lambda: stage.cove.request("DELETE", "/v1/%s/%s%s" % (kind, each, "?force=true" if kind == "sandboxes" else ""), key=key).status in (200, 202, 204, 404), 30)
        said = []

        def is_gone():
            said.append(stage.cove.request("DELETE", "/v1/tenants/" + name))
            return said[-1].status in (204, 404)
        c.ok(c.until(is_gone, 30), "A-11: all of it can be deleted", said[-1:])

    def used(stage, names, key):
        """What a request of another tenant says that would use one of them."""
        asks = [{"template": "told"}, {"pool": "told"}, {"volumes": [{"name": "told", "path": "/v"}]}]
        return [stage.cove.post("/v1/sandboxes", ask, key=key).status for ask in asks]

    def attack(stage):
        left, right = couple(stage)
        names = make_all(stage, left)
        tried, leaks = 0, []
        for route in routes.table():
            kind = re.match(r"/v1/([a-z-]+)/\{", route.pattern)
            if not kind or kind[1] not in names or route.method == "PUT":
                continue
            for name in names[kind[1]]:
                rest = re.sub(r"\{[^}]*\}", "1234", route.pattern.split("}", 1)[1])
                pair = [stage.cove.request(route.method, "/v1/%s/%s%s" % (kind[1], each, rest), RICH if route.method == "POST" else None,
                                           key=right, timeout=30) for each in (name, absent(name))]
                tried += 1
                if plain(pair[0], name) != plain(pair[1], absent(name)) or pair[0].status < 400:
                    leaks.append((route.method, route.pattern, *pair))
        uses = used(stage, names, right)
        lists = {path: stage.cove.get(path, key=right).body.decode(errors="replace") for path in
                 ["/v1/" + kind for kind in names if kind != "blobs"] +
                 ["/v1/events", "/v1/budgets", "/v1/usage", "/v1/stats", "/v1/pool/stats", "/v1/health", "/api/sandbox/health"]}
        seen = [path for path, text in lists.items() if "told" in text or any(name in text for of in names.values() for name in of)]
        counts = [json.loads(lists["/v1/pool/stats"])["total"], json.loads(lists["/v1/health"])["boxes"]["total"]]
        kept = [stage.cove.get("/v1/%s/%s" % (kind, names[kind][0]), key=left).status for kind in names]
        unmake(stage, "left", left)
        unmake(stage, "right", right)
        return tried, leaks, uses, seen, counts, kept
    stage.control_weak("tenants", lambda weak: len(attack(weak)[1]), lambda leaks: leaks > 10)
    tried, leaks, uses, seen, counts, kept = attack(stage)
    c.ok(tried > 30 and not leaks, "A-11: %d requests for another's things answer as for none" % tried, *leaks[:5])
    c.same(uses, [404] * 3, "A-11: nor can they be used")
    c.same((seen, counts), ([], [0, 0]), "A-11: no list names them, and no number counts them")
    c.same(set(kept), {200}, "A-11: and its owner has them all")


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
    c.ok(welch < 22.5, "A-11: no difference beyond noise", welch)
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
    c.ok(welch < 22.5, "A-09: no difference beyond noise", welch)
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


@row("A-21", "stored output counts in the tenant's disk, however many sandboxes share it")
def hold_memory(stage):
    def stored(stage, boxes):
        """Bytes on the host's disk."""
        folders = [os.path.join(stage.cove.data, "daemon", "tapes", box) for box in boxes]
        return sum(os.stat(os.path.join(f, n)).st_blocks * 512 for f in folders if os.path.isdir(f) for n in os.listdir(f))

    def attack(stage):
        left, _ = couple(stage, quota={"diskMB": 80})
        boxes = [make(stage, left, limits={"memoryMB": 64, "diskMB": 16, "outputMB": 16}).json["id"] for _ in range(4)]
        for n, box in enumerate(boxes):  # 16 of 80 MB are left beside the disks
            stage.cove.post("/v1/sandboxes/%s/api/process/start" % box, {"command": "head -c 16M /dev/zero", "processId": "p"}, key=left)
        for box in boxes:
            c.until(lambda box=box: stage.cove.get("/v1/sandboxes/%s/api/process/p" % box, key=left).json["process"]["status"] == "completed", 60)
        return left, boxes, stored(stage, boxes)
    stage.control_weak("quota", attack, lambda got: got[2] > 60 << 20)
    left, boxes, size = attack(stage)
    c.ok(8 << 20 < size < (16 + 4 + 2) << 20, "A-21: what the quota has left is kept, and a floor for each", size)
    ends = [stage.cove.get("/v1/sandboxes/%s/api/process/p" % box, key=left).json["process"] for box in boxes]
    c.ok(all(p["exitCode"] == 0 for p in ends), "A-21: no command is ended for it", ends)
    logs = [stage.cove.get("/v1/sandboxes/%s/api/process/p/logs" % box, key=left).json for box in boxes]
    c.ok(any(log["stdoutTruncated"] for log in logs), "A-21: what was not kept is marked", [log["stdoutTruncated"] for log in logs])
    used = stage.cove.get("/v1/tenants/left").json["used"]
    c.ok(used["diskMB"] <= 80 and used["outputMB"] >= 8, "A-21: it is counted", used)
    c.same(make(stage, left, limits={"memoryMB": 64, "diskMB": 16}).status, 429, "A-21: and leaves no room for another disk")
    for box in boxes:
        stage.cove.delete(box)
    c.same(stage.cove.get("/v1/tenants/left").json["used"]["diskMB"], 0, "A-21: it is given back with the sandboxes")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo("big")
        info.size = 90 << 20
        tar.addfile(info, io.BytesIO(b"x" * (90 << 20)))
    reply = stage.cove.request("POST", "/v1/templates?name=big", archive.getvalue(), key=left, raw=True)
    c.same((reply.status, reply.json["reason"]), (429, "quota"), "A-21: a template counts, too")
    c.ok(not any(t["name"] == "big" for t in stage.cove.get("/v1/templates", key=left).json["items"]), "A-21: and is not there")
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
        c.ok(set(statuses) <= {204, 404} and 204 in statuses and time.monotonic() - begin < 4 * PATIENCE, "L-07: after %s" % word, statuses)
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


def opened(stage, request):
    """A connection that has sent this much."""
    sock = socket.socket()
    sock.settimeout(5)
    sock.connect(("127.0.0.1", stage.cove.port))
    sock.sendall(request)
    return sock


def head(stage, method, path, key, *lines):
    return "\r\n".join(["%s %s HTTP/1.1" % (method, path), "Host: 127.0.0.1:%d" % stage.cove.port,
                        "Authorization: Bearer " + key, *lines, "", ""]).encode()


def answers(socks):
    """The statuses of those that were answered."""
    found = []
    for sock in socks:
        sock.settimeout(0.2 if found else 2)
        try:
            first = sock.recv(64)
        except OSError:
            first = b""
        found.append(first[9:12].decode() if first.startswith(b"HTTP/1.1") else "")
        sock.close()
    return found


def hold_streams(stage, most):
    """One tenant opens streams that it never leaves; what it is told, and what another is told meanwhile."""
    left, right = couple(stage)
    box = make(stage, left).json["id"]
    stage.cove.post("/v1/sandboxes/%s/api/process/start" % box, {"command": "sleep 60", "processId": "p"}, key=left)
    stream = head(stage, "GET", "/v1/sandboxes/%s/api/process/p/stream" % box, left)
    socks = []
    for i in range(most):
        socks.append(opened(stage, stream))
        if i < 48:  # a head that was not read yet may give way to a newer one
            select.select([socks[i]], [], [], 30)
    # A connection that was refused keeps its place for a moment: until it is found idle.
    other = bool(c.until(lambda: stage.cove.get("/v1/sandboxes", key=right, timeout=10).status == 200, 3))
    told = answers(socks)
    c.until(lambda: stage.cove.get("/v1/sandboxes", key=left).status == 200)
    again = stage.cove.get("/v1/sandboxes", key=left).status
    part(stage)
    return other, told, again


def hold_bodies(stage, most):
    """The same with large bodies of which the last byte never comes."""
    left, right = couple(stage)
    mine, yours = make(stage, left).json["id"], make(stage, right).json["id"]
    size = 1000000
    body = head(stage, "POST", "/v1/sandboxes/%s/api/execute" % mine, left, "Content-Type: application/json",
                "Content-Length: %d" % size) + b'{"command":"' + b"x" * (size - 100)
    socks = [opened(stage, body) for _ in range(most)]
    other = stage.cove.post("/v1/sandboxes/%s/api/execute" % yours, {"command": "true", "pad": "x" * 900000}, key=right)
    told = answers(socks)
    part(stage)
    return other.status, told


@row("A-23", "one tenant holds neither all connections nor all memory for requests")
def hoarder(stage):
    few = "export COVE_CONNS_MAX=64"
    stage.control_weak("fair_shares", lambda weak: hold_streams(weak, 70), lambda got: not got[0], before=few)
    with stage.weakened("", before=few, binary=stage.cove.binary) as strong:
        other, told, again = hold_streams(strong, 70)
        c.ok(other, "A-23: another tenant is served while one holds what it can")
        c.ok(20 <= told.count("200") <= 40 and told.count("429") >= 20, "A-23: that is half of them; the rest is refused with 429",
             {t: told.count(t) for t in set(told)})
        c.same(again, 200, "A-23: what it leaves is free again")
    most = 280
    stage.control_weak("fair_shares", lambda weak: hold_bodies(weak, most), lambda got: got[0] != 200)
    other, told = hold_bodies(stage, most)
    c.same(other, 200, "A-23: another's large request has room")
    c.ok("429" in told and "200" not in told, "A-23: large bodies past one's share are refused with 429", set(told))


def archive(stage, key, name):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("etc")
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(info)
    return stage.cove.request("POST", "/v1/templates?name=" + name, out.getvalue(), raw=True, key=key,
                              headers={"Content-Type": "application/x-tar"})


@row("A-11", "nor are their keys, templates, sessions, rooms and terms there")
def nouns(stage):
    left, right = couple(stage)
    archive(stage, left, "tools")
    own = [k for k in stage.cove.get("/v1/keys", key=left).json["items"]][0]["id"]
    talk = stage.cove.post("/v1/agent-sessions", {"user": "u", "runner": {"argv": ["sleep", "1000"]}}, key=left)
    room, gone = [stage.cove.post("/v1/sandbox", {}, key=left).json["id"] for _ in range(2)]
    stage.cove.request("DELETE", "/v1/sandbox/" + gone, key=left)
    known = {"/v1/keys/{key}": (own, "key-" + "0" * 16), "/v1/templates/{name}": ("tools", "none"), "/v1/tenants/{name}": ("left", "none"),
             "/v1/sandbox/{id}": (room, gone)}
    if talk.status == 201:
        known["/v1/agent-sessions/{id}"] = (talk.json["id"], "session_" + "0" * 32)
    else:
        c.note("no session here: %r" % talk)
    tried, leaks = 0, []
    for route in routes.table():
        family = [f for f in known if route.pattern.startswith(f)]
        makes = route.pattern.startswith("/v1/sandbox/") and route.method not in ("GET", "DELETE")
        if not family or makes or route.method == "*":
            continue
        said = []
        for name in known[family[0]]:
            path = re.sub(r"\{[^}]*\}", "x1", route.pattern.replace(family[0], family[0].split("{")[0] + name, 1))
            body = {"input": "x", "question": "q", "answer": "a"} if route.method in ("POST", "PUT") else None
            said.append(plain(stage.cove.request(route.method, path, body, key=right, timeout=30), *known[family[0]]))
        tried += 1
        if said[0] != said[1]:
            leaks.append((route.method, route.pattern, said))
    c.ok(tried >= 15 and not leaks, "A-11: %d more routes answer alike" % tried, *leaks[:5])
    taken = stage.cove.request("GET", "/v1/templates/tools", key=left).status, archive(stage, right, "tools").status
    c.same(taken, (200, 201), "A-11: a name that another has is free")
    stage.twin(stage.cove.get("/v1/keys", key=left).json["items"][0]["id"] == own and
               stage.cove.get("/v1/sandbox/%s/running" % room, key=left).status == 200, "their owner finds them")
    if talk.status == 201:
        stage.cove.request("DELETE", "/v1/agent-sessions/" + talk.json["id"], key=left)
    for key in (left, right):
        stage.cove.request("DELETE", "/v1/templates/tools", key=key)
    part(stage)


VIEWS = ("/v1/health", "/v1/sandboxes", "/v1/templates", "/v1/keys", "/v1/tenants/right", "/v1/agent-sessions", "/v1/events?limit=1000",
         "/v1/events?after=1", "/v1/audit?limit=1000", "/v1/audit?after=1")


def views(stage, key):
    """All that somebody can list."""
    return {path: plain(stage.cove.get(path, key=key)) for path in VIEWS}


def bustle(stage, key):
    """A tenant does what it can, rightly and wrongly."""
    cove = stage.cove
    box = make(stage, key, name="secret-name", labels={"secret": "label"}).json["id"]
    where = "/v1/sandboxes/" + box
    for path, body in (("/api/execute", {"command": "true"}), ("/api/execute", {"command": "exit 3"}), ("/api/process/start", {"command": "true"}),
                       ("/api/expose-port", {"port": 8080}), ("/api/execute", {"argv": ["/none"]}), ("/pause", None), ("/resume", None), ("/stop", None)):
        cove.post(where + path, body, key=key)
    cove.get("/v1/sandboxes/none", key=key)
    cove.post("/v1/sandboxes", {"name": "-"}, key=key)
    cove.post("/v1/keys", {"scopes": ["read"]}, key=key)
    archive(stage, key, "secret-template")
    cove.request("DELETE", where, key=key)
    return box


def follow(stage, key):
    """What a stream of events brings, as it comes."""
    sock = opened(stage, head(stage, "GET", "/v1/events", key, "Accept: text/event-stream"))
    got = []

    def read():
        try:
            while True:
                more = sock.recv(65536)
                if not more:
                    return
                got.append(more)
        except OSError:
            pass
    threading.Thread(target=read, daemon=True).start()
    c.until(lambda: b"\r\n\r\n" in b"".join(got))
    return sock, got


@row("I-01", "whatever one tenant does, another's view of the host stays the same")
def still(stage):
    def watched(stage):
        left, right = couple(stage)
        before = views(stage, right)
        make(stage, left)
        return before != views(stage, right)
    stage.control_weak("tenants", watched, lambda differs: differs)
    left, right = couple(stage)
    make(stage, right, name="mine")
    c.until(lambda: "sandbox.running" in str(views(stage, right)["/v1/events?limit=1000"]) and
            "sandbox" in str(views(stage, right)["/v1/audit?limit=1000"]))
    before, theirs = views(stage, right), stage.cove.get("/v1/events?limit=1000").json["last"]
    sock, got = follow(stage, right)
    sock.settimeout(30)
    box = bustle(stage, left)
    c.until(lambda: box in str(stage.cove.get("/v1/events?kind=sandbox.deleted&limit=1000").json))
    after = views(stage, right)
    c.ok(stage.cove.get("/v1/events?limit=1000&after=%d" % theirs).json["items"], "I-01: the operator sees that something happened")
    for path in VIEWS:
        c.same(after[path], before[path], "I-01: %s is the same" % path)
    text = b"".join(got).split(b"\r\n\r\n", 1)[1]
    c.ok(b"data:" not in text, "I-01: a stream tells nothing", text)
    last = [stage.cove.get(path, key=right).json["items"][-1]["id"] for path in ("/v1/events?limit=1000", "/v1/audit?limit=1000")]
    stage.cove.post("/v1/keys", {"scopes": ["read"]}, key=right)
    c.until(lambda: b"key.made" in b"".join(got))
    next_ = [stage.cove.get(path, key=right).json["items"][-1]["id"] for path in ("/v1/events?limit=1000", "/v1/audit?limit=1000")]
    c.same(next_, [n + 1 for n in last], "I-01: the numbers of its own events and rows go on without a gap")
    c.ok(b"key.made" in b"".join(got) and box.encode() not in b"".join(got), "I-01: and its own event comes by the stream")
    sock.close()
    for key in (left,):
        stage.cove.request("DELETE", "/v1/templates/secret-template", key=key)
    part(stage)


def sent_inwards(stage):
    """An archive is to be sent to a listener of this host, by whatever name; how often that was reached, and the answers."""
    left, _ = couple(stage)
    box = make(stage, left).json["id"]
    at = "/v1/sandboxes/%s/api/" % box
    stage.cove.post(at + "write", {"path": "/workspace/f", "content": "secret"}, key=left)
    stage.cove.post(at + "backup/create", {"dir": "/workspace", "archivePath": "/var/backups/a"}, key=left)
    with socket.create_server(("127.0.0.1", 0)) as ear:
        port, reached, replies = ear.getsockname()[1], 0, []
        ear.settimeout(0.1)
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1", "2130706433", "0x7f.1", "[::ffff:7f00:1]"):
            reply = threading.Thread(target=lambda: replies.append(stage.cove.post(at + "backup/upload-parts", {
                "archivePath": "/var/backups/a",
                "parts": [{"partNumber": 1, "url": "https://%s:%d/" % (host, port), "offset": 0, "size": 5}]}, key=left)))
            reply.start()
            while reply.is_alive():
                try:
                    ear.accept()[0].close()
                    reached += 1
                except OSError:
                    pass
            reply.join()
    part(stage)
    return reached, [(r.status, r.json.get("reason")) for r in replies]


@row("A-19", "the daemon is no way into the host's own networks")
def inwards(stage):
    stage.control_weak("outbound", sent_inwards, lambda got: got[0] > 0)
    reached, replies = sent_inwards(stage)
    c.same(reached, 0, "A-19: nothing of this host is reached, by whatever name")
    c.ok(all(status in (403, 500, 400) for status, _ in replies) and replies.count((403, "not_global")) >= 4,
         "A-19: and each is told so", replies)


play()
