#!/usr/bin/env python3
"""Whose sandbox it is: ids that are derived from owners."""
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import runner  # noqa: E402

SMALL = "--class-small=cpus=1 memory=192M disk=256M pids=96 max=6"
STANDARD = "--class-standard=cpus=2 memory=320M disk=512M pids=128"
cove = s.start("--isolate-orgs= acme , beta ", "--session-input=256K", SMALL, STANDARD)


def ask(**body):
    body.setdefault("runner", {"argv": runner.argv()})
    return cove.post("/v1/agent-sessions", body)


def groups(box):
    """The cgroup directories of a sandbox, by controller file."""
    found = {}
    for root in c.cgroup_roots():
        path = os.path.join(root, "cove", cove.instance(), box)
        for name in ("memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us"):
            try:
                found[name] = open(os.path.join(path, name)).read().strip()
            except OSError:
                pass
    return found


# -----------------------------------------------------------------------------------
vectors = [
    (dict(org="org-id", user="user-id"), "org-aa6ba1f356e062c430f121b97b5fd9cfd64c51487e5f28c5"),
    (dict(user="user-id"), "usr-3c060fe2d53dd0b6e7a7e03084b290b64c8e0f67a8988161"),
    (dict(org="org-id", user="user-id", bot="reviewer"), "bot-4415e0ae1dcbda7236e3bf04b66f13344682f349eac4500d"),
    (dict(user="user-id", bot="reviewer"), "ubt-fb0f08bd868516e812f84fc34ddc327364046281c8e4c978"),
    (dict(org="acme", user="user-id", session="agent_abc123"), "ses-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370"),
]
for owner, want in vectors:
    c.same(ask(**owner).json["sandbox"], want, "the vector of %s" % want[:4])
c.ok(ask(org="org-id", user="other").json["sandbox"] != vectors[0][1], "two users of one organisation get different ids")
before = c.census(cove)
for owner in (dict(org="a__b", user="c"), dict(org="a", user="b__c"), dict(org="a_", user="b"), dict(user=""), dict(),
              dict(user="a\u0001b"), dict(user="x" * 257), dict(user="u", session="_s")):
    reply = ask(**owner)
    c.same((reply.status, reply.json["reason"]), (400, "invalid_owner"), "refused: %s" % json.dumps(owner)[:40])
c.same(c.census(cove)["cgroups"], before["cgroups"], "and no cgroup appears")
c.same(ask(org="beta", user="else", session="agent_abc123").status, 409, "a session id is used once, over all owners")
c.same(cove.request("DELETE", "/v1/agent-sessions/agent_abc123").status, 204, "the first is deleted")
c.same(ask(org="beta", user="else", session="agent_abc123").status, 409, "and the id stays used")

# -----------------------------------------------------------------------------------
c.ok(ask(org="acme", user="u").json["sandbox"].startswith("ses-"), "a listed organisation has a sandbox per session")
c.ok(ask(org="gamma", user="u").json["sandbox"].startswith("org-"), "another shares")
c.ok(ask(org="gamma", user="u", isolation="session").json["sandbox"].startswith("ses-"), "isolation can be asked for")
c.ok(ask(org="acme", user="u", isolation="shared").json["sandbox"].startswith("ses-"), "and never weakened")
c.same(ask(org="acme", user="u", isolation="none").status, 400, "other words are refused")
shared = s.Session(cove, org="gamma", user="u")
sibling = s.Session(cove, org="gamma", user="u")
lone = s.Session(cove, org="acme", user="v")
c.same([x.fate(x.run()) for x in (shared, sibling, lone)], ["completed"] * 3, "runs in shared and lone sandboxes")
c.same(shared.made["sandbox_id"], sibling.made["sandbox_id"], "two sessions of a shared owner, one sandbox")
for session, memory, pids in ((shared, 320, 128), (lone, 192, 96)):
    got = groups(session.made["sandbox_id"])
    real = got.get("memory.max") or got.get("memory.limit_in_bytes")
    c.same(int(real) >> 20, memory, "the memory of class %s is enforced" % session.made["class"])
    c.ok(abs(int(got["pids.max"]) - pids) <= 16, "and its processes", got)
look = "ls /proc | grep -c '^[0-9]'; pgrep -f nothing-like-this; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c COVE_SESSION=%s"
seen = lone.run("shell", command=look % shared.id)
lone.fate(seen)
text = lone.look(seen)["result"]["output"]["text"].split()[-1]
c.same(text, "0", "one sandbox sees nothing of another's processes")
cove.request("PUT", "/v1/tenants/acme", {"host": True})
acme = cove.post("/v1/keys", {"tenant": "acme"}).json["key"]
theirs = {"org": "acme", "user": "v", "session": lone.id, "runner": {"argv": runner.argv()}}
made = cove.post("/v1/agent-sessions", theirs, key=acme)
c.ok(made.status == 201 and made.json["sandbox"] != lone.made["sandbox"], "the id of a session is its tenant's own", made)
full = [ask(org="acme", user="w").status for _ in range(6)]
c.ok(429 in full, "one more than the class maximum gives 429", full)

# ---------------------------------------------------------------------------------
cove.args = [a.replace(" max=6", "") for a in cove.args if not a.startswith("--isolate-orgs")] + ["--shared-tag=shared-v2"]
old = (lone.made["sandbox"], lone.made["class"])
cove.stop(number=signal.SIGKILL)
time.sleep(0.3)
cove.start()
c.same((lone.get()["sandbox"], lone.get()["class"]), old, "another list and kill -9: the session keeps id and class")
c.same(lone.fate(lone.run()), "completed", "and runs there")
again = cove.get("/v1/agent-sessions/" + lone.id, key=acme).json
c.same([again[x] for x in ("id", "sandbox", "directory")], [made.json[x] for x in ("id", "sandbox", "directory")],
       "the tenant's of the same id keeps its own place")
c.same(cove.post("/v1/agent-sessions", theirs, key=acme).json["reason"], "session_taken", "and the id stays used there")
own = cove.post("/v1/agent-sessions/%s/runs" % lone.id, {"input": {"do": "ok"}}, key=acme).json
c.same(own["session"], lone.id, "the run belongs to the tenant's own session")
c.ok(c.until(lambda: cove.get("/v1/agent-sessions/%s/runs/%s" % (lone.id, own["id"]), key=acme).json["state"] in s.OVER),
     "to its end", cove.get("/v1/agent-sessions/%s/runs/%s" % (lone.id, own["id"]), key=acme))
c.same(cove.get(lone.path + "/runs/" + own["id"]).status, 404,
       "beside the operator's, which knows nothing of it")
c.same(ask(org="acme", user="new").json["sandbox"][:4], "org-", "the list is for new sessions")
c.same(ask(org="org-id", user="user-id").json["sandbox"], "org-7d891a9e4905bb0d5ff8dffcb99ba76973039c70340665b0",
       "with a tag new shared sessions move")
c.same(shared.get()["sandbox"], shared.made["sandbox"], "and old ones do not")
c.same(ask(org="o", user="u", isolation="session", session="tagged").json["sandbox"][4:],
       __import__("hashlib").sha256(b"tagged").hexdigest()[:48], "isolated ids know no tag")

quiet = s.Session(cove, env={"RUNNER_MUTE": "1"}, org="gamma", user="q")
big = {"input": {"do": "ok", "pad": "x" * 100000}}
got = [cove.post(quiet.path + "/runs", big) for _ in range(3)]
c.same([(r.status, r.json.get("reason")) for r in got], [(202, None), (202, None), (429, "too_much_input")],
       "what waits for one tenant is bounded")
c.same(cove.post("/v1/agent-sessions/%s/runs" % lone.id, big, key=acme).status, 202, "and another's waits beside it")
cove.request("DELETE", quiet.path)

# -------------------------------------------------------------------------------
body = {"v": 1, "org": "acme", "user": "oauth/x:1", "bot": None, "kind": "org", "key": "", "tag": "", "aliases": [],
        "argv": runner.argv(), "env": {}, "created": 1760000000000, "used": int(time.time() * 1000),
        "deleting": False, "forced": False, "prepared": False}
s.offline(cove, ("UPDATE sessions SET box = '' WHERE id = ?", (shared.id,)),
          ("INSERT INTO sessions (id, session, tenant, box, state, deadline, generation, version, body)"
           " VALUES ('old', 'old', '', 'acme__oauth/x:1', 'live', 0, 0, 1, ?)", (json.dumps(body).encode(),)))
c.same(shared.get()["sandbox"], shared.made["sandbox"], "a record without an id derives the one of its owner")
legacy = cove.get("/v1/agent-sessions/old").json
c.same((legacy["sandbox"], legacy["class"]), ("acme__oauth/x:1", "standard"), "a legacy record resolves, as shared")
c.ok("/" not in legacy["sandbox_id"] and len(legacy["sandbox_id"]) == 52, "and is kept under a hash")
old = s.Session.__new__(s.Session)
old.cove, old.id, old.path, old.made = cove, "old", "/v1/agent-sessions/old", legacy
c.same(old.fate(old.run("shell", command="echo kept > note; cat note")), "completed", "its files can be reached")
for path in ("..%2F..__x", "ses-ABC", "ses-" + "a" * 47, "xyz-" + "a" * 48):
    c.ok(cove.get("/v1/sandboxes/" + path).status in (400, 404), "no sandbox: " + path[:12])
odd = [ask(user=user).json["sandbox"] for user in ("..", ".", "/", "oauth/x:1")]
c.same(len(set(odd)), 4, "four odd users, four distinct ids")

# ----------------------------------------------------------------------------------------
wedged = s.Session(cove, org="wedge", user="u")
wedged.fate(wedged.run())
s.fault(cove, "observe", "hang", count=2, session=wedged.id)
wedged.run()
c.until(lambda: '"wedged":"yes"' in cove.log_text())
next_ = ask(org="wedge", user="u").json["sandbox"]
import hashlib  # noqa: E402
slot = "org-" + hashlib.sha256(b"shared-slot-v1:" + wedged.made["sandbox"].encode()).hexdigest()[:48]
c.same(next_, slot, "after two inspections that hang, the next new session has the second slot")
c.same(wedged.get()["sandbox"], wedged.made["sandbox"], "the old one keeps its own")
s.kill_daemon(cove)
c.same(ask(org="wedge", user="u").json["sandbox"], slot, "also after kill -9")

# -----------------------------------------------------------------------------------------
import subprocess  # noqa: E402
bad = subprocess.run([c.BIN, "serve", "--data", "/nonexistent/x", "--time-scale=60"], capture_output=True, text=True)
c.ok(bad.returncode != 0 and "--dev" in bad.stderr + bad.stdout, "a time scale is refused without --dev", bad)
c.same(cove.close(), 0, "cove ends well")
plain = c.Cove()
c.same(plain.post("/v1/dev/faults", {"point": "stop"}).status, 403, "K-2 faults are refused without --dev")
c.same(plain.close(), 0, "cove ends well")
c.done()
