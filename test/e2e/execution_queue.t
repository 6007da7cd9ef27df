#!/usr/bin/env python3
"""The queue of executions, and large requests (lifecycle D-2, 10.1, 10.3, 10.10): owners take turns, positions are true; what a quota can
never hold is refused, what it cannot hold now waits; files up to the bound arrive, are counted in the quota, and are there in a replay."""
import base64
import hashlib
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
SCOPES = ["read", "make", "use"]
MIB = 1 << 20
MANY = 1000


def tenant(cove, name, **quota):
    cove.request("PUT", "/v1/tenants/" + name, dict({"host": True, "network": "off"}, **({"quota": quota} if quota else {})))
    return cove.post("/v1/keys", {"tenant": name, "scopes": SCOPES, "host": True}).json["key"]


def post(cove, key=True, **body):
    return cove.request("POST", "/v1/executions", dict({"command": "true"}, **body), key=key)


def done(cove, ident, key=True):
    return cove.request("GET", "/v1/executions/%s/wait?timeoutMs=300000" % ident, key=key, timeout=330).json


def position(cove, ident):
    return (cove.get("/v1/executions/" + ident).json["queue"] or {}).get("position")


def turns(cove):
    """10.1: one owner with a thousand in the queue delays another by one turn."""
    keys = {name: tenant(cove, name) for name in ("many", "some", "one", "gate")}
    gate = post(cove, keys["gate"], command=None, profile="VALIDATION").json["id"]
    cove.get("/v1/executions/%s/wait?for=ready" % gate)
    made = {name: [post(cove, keys[name], taskId=name).json["id"] for _ in range(count)] for name, count in (("many", MANY), ("some", 3), ("one", 1))}
    c.same([position(cove, made["many"][at]) for at in (0, 1, 2, 9, MANY - 1)], [1, 4, 6, 14, MANY + 4], "10.1 positions are by turns: of the first owner")
    c.same([position(cove, ident) for ident in made["some"]], [2, 5, 7], "of the second")
    c.same(position(cove, made["one"][0]), 3, "and of who came last, behind a thousand")
    last = post(cove, keys["one"], queue=False)
    c.same((last.status, last.json["reason"]), (429, "at_capacity"), "who would not wait is refused")
    cove.post("/v1/executions/%s/complete" % gate)
    for name in ("one", "some"):
        c.same([done(cove, ident)["outcome"] for ident in made[name]], ["completed"] * len(made[name]), "all of %s complete" % name)
    first = sorted((cove.get("/v1/executions/" + ident).json for ident in made["one"] + made["some"] + made["many"][:3]), key=lambda e: e["startedAt"])
    c.same([e["taskId"] for e in first], ["many", "some", "one", "many", "some", "many", "some"], "10.1 each owner in its turn")
    for ident in reversed(made["many"]):
        cove.post("/v1/executions/%s/cancel" % ident)
    c.ok(c.until(lambda: not cove.get("/v1/executions?state=queued").json["items"], 120), "the others are cancelled")


def files(count, size):
    """Files whose content, base64, is close to the bound of the body; and their hashes."""
    data = [os.urandom(size) for _ in range(count)]
    return [{"path": "f%d" % at, "contentBase64": base64.b64encode(one).decode()} for at, one in enumerate(data)], [hashlib.sha256(one).hexdigest() for one in data]


def output(cove, ident, key=True):
    return cove.request("GET", "/v1/executions/%s/logs?stream=stdout" % ident, key=key).body.decode()


def large(cove):
    whole, sums = files(4, 8 * MIB)
    command = "sha256sum f0 f1 f2 f3"
    want = "".join("%s  f%d\n" % (one, at) for at, one in enumerate(sums))
    got = post(cove, command=command, files=whole, limits={"storageMB": 64}, artifacts={"paths": ["f3"]})
    c.same(got.status, 202, "10.3 files of 32 MiB, a body of 43 MiB")
    first = done(cove, got.json["id"])
    c.same((first["outcome"], output(cove, first["id"])), ("completed", want), "arrive as they were sent")
    again = done(cove, cove.post("/v1/executions/%s/replay" % first["id"]).json["id"])
    c.same((again["outcome"], output(cove, again["id"]), again["replayOf"]), ("completed", want, first["id"]), "10.10 and again in a replay")
    c.same(cove.get("/v1/executions/%s/diff?with=%s" % (first["id"], again["id"])).json.get("same"), True, "whose outcome is the same")
    got = post(cove, command=command, files=whole, limits={"storageMB": 16})
    got = done(cove, got.json["id"])
    c.same((got["outcome"], got["reason"], got["attempt"]), ("limit_storage", "files_too_large", 1), "files that its disk cannot hold are its limit, and no retry")
    over, _ = files(1, 1)
    got = post(cove, files=whole + over)
    c.same((got.status, got.json["reason"]), (413, "files_too_large"), "10.3 one byte more is refused")
    got = cove.request("POST", "/v1/executions", b'{"command":"true","stdin":"' + b" " * (48 * MIB) + b'"}', headers={"Content-Type": "application/json"}, raw=True)
    c.same((got.status, got.json["reason"]), (413, "body_too_large"), "so is a body of more than 48 MiB")
    c.same(cove.get("/v1/health").status, 200, "and cove goes on")
    return first["id"], again["id"]


def quota(cove):
    key = tenant(cove, "small", diskMB=100, memoryMB=600)
    for what, limits in (("memory", {"memoryMB": 601}), ("disk", {"storageMB": 101})):
        got = post(cove, key, limits=limits)
        c.same((got.status, got.json["reason"]), (429, "quota"), "10.1 more %s than the quota of its tenant has is refused at once" % what)
    first = post(cove, key, command=None, profile="VALIDATION", limits={"storageMB": 40}).json["id"]
    cove.get("/v1/executions/%s/wait?for=ready" % first)
    second = post(cove, key, limits={"storageMB": 40}).json["id"]
    c.ok(c.until(lambda: (cove.get("/v1/executions/" + second).json["queue"] or {}).get("reason") == "quota", 60), "what has no room now waits")
    got = post(cove, key, limits={"storageMB": 40}, queue=False)
    c.same((got.status, got.json["reason"]), (429, "at_capacity"), "unless it would not")
    cove.post("/v1/executions/%s/complete" % first)
    c.same(done(cove, second)["outcome"], "completed", "and runs when there is room")
    used = cove.get("/v1/tenants/small").json["used"]["diskMB"]
    some, sums = files(1, 24 * MIB)
    body = {"command": "sha256sum < f0", "files": some, "limits": {"storageMB": 40}}
    made = post(cove, key, **body)
    c.same(output(cove, done(cove, made.json["id"])["id"]), sums[0] + "  -\n", "10.3 files within the quota")
    kept = cove.get("/v1/tenants/small").json["used"]["diskMB"]
    c.ok(kept >= used + 32, "the stored request counts in the tenant's disk", used, kept)
    cove.request("PUT", "/v1/tenants/small", {"host": True, "network": "off", "quota": {"diskMB": kept + 10}})
    got = post(cove, key, **body)
    c.same((got.status, got.json["reason"]), (429, "quota"), "10.3 another such request without room in the quota is refused")
    got = cove.request("POST", "/v1/executions/%s/replay" % made.json["id"], key=key)
    c.same((got.status, got.json["reason"]), (429, "quota"), "10.10 so is a replay")
    cove.stop()
    cove.start()
    counted = cove.get("/v1/tenants/small").json["used"]["diskMB"]
    c.ok(counted >= kept, "a restart counts them again", kept, counted)
    for one in cove.get("/v1/executions?limit=1000").json["items"]:
        cove.request("DELETE", "/v1/executions/" + one["id"])
    c.ok(c.until(lambda: cove.get("/v1/tenants/small").json["used"]["diskMB"] <= used, 60), "deleted, they count no more", cove.get("/v1/tenants/small").json)


def main():
    cove = c.Cove(start=False)
    cove.args.append("--config=" + os.path.join(cove.home, "cove.conf"))
    try:
        with open(os.path.join(cove.home, "cove.conf"), "w", encoding="utf-8") as file:
            file.write("[executions]\nconcurrency = 1\nqueue_max = 2000\n")
        cove.start()
        turns(cove)
        with open(os.path.join(cove.home, "cove.conf"), "w", encoding="utf-8") as file:
            file.write("[executions]\nconcurrency = 4\n")
        os.kill(cove.process.pid, signal.SIGHUP)
        large(cove)
        quota(cove)
        c.ok(c.until(lambda: not cove.get("/v1/sandboxes").json["items"], 60), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    c.done()


main()
