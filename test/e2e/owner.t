#!/usr/bin/env python3
"""Owners of sandboxes, what identity.t leaves: everybody isolated, the walls of a class, what is never made or touched,
records of older versions, and the second slot through a crash."""
import hashlib
import json
import os
import re
import shutil
import sqlite3
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import runner  # noqa: E402
import tracing  # noqa: E402

c.need_root()
tracing.need()
SMALL = "--class-small=cpus=1 memory=192M disk=256M pids=96"
STANDARD = "--class-standard=cpus=2 memory=320M disk=512M pids=128"
cove = s.start("--isolate-orgs=*", SMALL, STANDARD, scale=20)


def ask(house, **body):
    body.setdefault("runner", {"argv": runner.argv()})
    return house.post("/v1/agent-sessions", body)


def derived(prefix, text):
    return prefix + hashlib.sha256(text.encode()).hexdigest()[:48]


def traces():
    """Every name that cove has made for somebody."""
    names = set(c._groups(cove.instance()))
    for folder in ("boxes", "trash", "daemon/runs", "daemon/tapes", "run/cells", "run/box"):
        path = os.path.join(cove.data, folder)
        names |= {os.path.join(folder, n) for n in (os.listdir(path) if os.path.isdir(path) else ())}
    return names


# -----------------------------------------------------------------------------------
before = traces()
bad = [dict(org="a__b", user="c"), dict(org="a", user="b__c"), dict(org="a_", user="b"), dict(user=""), dict(user="_x"),
       dict(user="u", bot="b__c"), dict(user="u", session="s__t"), dict(user="x" * 257), dict(user="a\nb"),
       dict(user="a\0b"), dict(user="\0"), dict(org="a\0", user="u"), dict(user="u", bot="\0b"), dict(user="u", session="s\0t"),
       dict(user="u", aliases=["a\0b"])]
c.same([(r.status, r.json["reason"]) for r in (ask(cove, **owner) for owner in bad)], [(400, "invalid_owner")] * len(bad),
       "ids that could be another's are refused")
c.same(cove.request("POST", "/v1/agent-sessions", b'{"user":"\xff\xfe","runner":{"argv":["/bin/true"]}}', raw=True,
                    headers={"Content-Type": "application/json"}).status, 400, "and what is not UTF-8")
c.same(traces(), before, "no directory, cgroup or file of them appears")
c.same(ask(cove, user="nobody", session="alone").json["sandbox"], derived("ses-", "alone"),
       "with * a user without an organisation has a sandbox per session")
first = ask(cove, org="zebra", user="ann-bell", session="taken")
c.same(first.status, 201, "a session id is proposed")
second = ask(cove, org="two", user="bob", session="taken")
c.same((second.status, second.json["reason"]), (409, "session_taken"), "and by another owner under *: 409")
c.ok(not re.search("ann-bell|zebra", json.dumps({k: second.json[k] for k in ("message", "hint", "context")})), "without telling whose", second)
c.same(cove.request("DELETE", "/v1/agent-sessions/taken").status, 204, "the first is deleted")
s.kill_daemon(cove)
c.same([ask(cove, org=org, user=user, session="taken").status for org, user in (("two", "bob"), ("zebra", "ann-bell"))], [409, 409],
       "the id stays used, for everybody, also after kill -9")

# -----------------------------------------------------------------------------------------
near, far = s.Session(cove, user="near"), s.Session(cove, user="near")
c.same([x.fate(x.run()) for x in (near, far)], ["completed"] * 2, "two isolated sessions of one user")
c.ok(near.made["sandbox_id"] != far.made["sandbox_id"], "have two sandboxes", near.made)


def limits(box):
    """What the kernel holds the sandbox to."""
    found = {}
    for root in c.cgroup_roots():
        path = os.path.join(root, "cove", cove.instance(), box)
        for name in ("memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"):
            try:
                with open(os.path.join(path, name)) as file:
                    found[name] = file.read().split()
            except OSError:
                pass
    quota, period = found.get("cpu.max") or (found["cpu.cfs_quota_us"][0], found["cpu.cfs_period_us"][0])
    return int((found.get("memory.max") or found["memory.limit_in_bytes"])[0]) >> 20, int(quota) / int(period), int(found["pids.max"][0])


memory, cpus, pids = limits(near.made["sandbox_id"])
c.same((memory, cpus), (192, 1.0), "the memory and the processors of class small are enforced")
c.ok(abs(pids - 96) <= 16, "and its number of processes", pids)
full = cove.run(near.made["sandbox_id"], "dd if=/dev/urandom of=/workspace/big bs=1M count=400 oflag=direct 2>&1; "
                "stat -c %s /workspace/big; rm -f /workspace/big")["stdout"]
c.ok("No space left" in full or "quota" in full, "and its disk: it is full at last", full)
c.ok(128 <= int(full.split()[-1]) >> 20 <= 256, "when it is", full)
victim = near.roots()
host = str(victim[0])
cove.execute(far.made["sandbox_id"], "kill -9 %s; kill -9 -1" % host)
c.ok(c.until(lambda: not far.roots()) and near.roots() == victim, "one cannot signal what lives in the other")

# ---------------------------------------------------------------------------------
trace = tracing.Trace(cove, "%file", list(cove.children().values()))
names = ("..%2F..__x", "ses-ABC", "ses-" + "a" * 47, "xyz-" + "a" * 48, "%2e%2e", "a__b__c")
c.same([n for n in names if cove.get("/v1/sandboxes/" + n).status not in (400, 404)], [], "a malformed id is no sandbox")
c.same([n for n in names if cove.get("/v1/agent-sessions/" + n).status not in (400, 404)], [], "nor a session")
touched = [line[3] for line in trace.end() if any(word in line[3].replace("...", "") for word in ("..", "__x", "ses-ABC", "aaaa", "O_CREAT", "mkdir", "unlink", "rename"))
           and cove.data not in line[3]]
c.same(touched, [], "and no file is touched for it")
users = ("..", ".", "/", "oauth/x:1")
odd = [s.Session(cove, user=user, session="odd%d" % i) for i, user in enumerate(users)]
c.same([x.fate(x.run()) for x in odd], ["completed"] * 4, "users with odd names work")
where = "/proc/%d/root%s/" % (cove.children()["warden"], cove.data)  # as the warden sees it
below = [name for folder in ("boxes", "pool") if os.path.isdir(where + folder) for name in os.listdir(where + folder)]
homes = {x.made["sandbox_id"]: [name for name in below if x.made["sandbox_id"] in name] for x in odd}
c.ok(len(homes) == 4 and all(homes.values()), "in four directories, all of them below the data directory", homes)
for x in odd:
    x.delete()
c.same(cove.close(), 0, "cove ends well")

# -------------------------------------------------------------------------------------
cove = s.start(scale=20)
kinds = [dict(org="org-id", user="user-id", bot="reviewer"), dict(user="user-id", bot="reviewer"), dict(user="user-id"),
         dict(org="org-id", user="user-id"), dict(user="user-id", isolation="session")]
made = [ask(cove, **owner).json for owner in kinds]
s.offline(cove, *[("UPDATE sessions SET box = '' WHERE id = ?", (m["id"],)) for m in made])
got = [s.patiently(lambda: cove.get("/v1/agent-sessions/" + m["id"])).json["sandbox"] for m in made]
c.same(got, [m["sandbox"] for m in made], "records without an id derive it from their own bot, org, user and session")
c.same([g[:4] for g in got], ["bot-", "ubt-", "usr-", "org-", "ses-"], "of every kind")


def stored():
    """Reads a copy: the state is the daemon's alone while it runs."""
    copy = os.path.join(cove.home, "copy")
    for end in ("", "-wal"):
        shutil.copy(os.path.join(cove.data, "daemon", "cove.db" + end), copy + end)
    db = sqlite3.connect(copy)
    rows = dict(db.execute("SELECT id, box FROM sessions").fetchall())
    db.close()
    return [rows[m["id"]] for m in made]


c.ok(c.until(lambda: stored() == got), "and it is stored at once", got)

wedged = s.Session(cove, org="org-id", user="user-id")
wedged.fate(wedged.run())
box = wedged.made["sandbox"]
s.fault(cove, "observe", "hang", 2, wedged.id)
wedged.run()
looks = '"event":"dev.fault","point":"observe","mode":"hang","session":"%s"' % wedged.id
c.ok(c.until(lambda: cove.log_text().count(looks) == 2), "the second inspection hangs")
s.fault(cove, "persist", "hang", session=box)
c.ok(c.until(lambda: any(i["session"] == box and i["hanging"] for i in cove.get("/v1/dev/faults").json["items"])),
     "it timed out, and is not published yet")
s.kill_daemon(cove)
c.same(ask(cove, org="org-id", user="user-id").json["sandbox"], "org-b9e1f02739c1b7385f15c7dcee85e90768d49adaf2c82509",
       "kill -9 in between: the next new session has the slot id all the same")
c.same(wedged.get()["sandbox"], box, "the old one keeps its own")
s.kill_daemon(cove)
c.same(ask(cove, org="org-id", user="user-id").json["sandbox"], "org-b9e1f02739c1b7385f15c7dcee85e90768d49adaf2c82509",
       "one way, for good")
c.same(cove.close(), 0, "cove ends well")
c.done()
