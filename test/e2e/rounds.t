#!/usr/bin/env python3
"""Rounds of conversations and sudden death: twenty runs of four sessions, kill -9 of the daemon, the warden, both or all in
the midst of them; each run that was taken has ended, once, leases and processes agree, and nothing is left over.

COVE_LOOP_ROUNDS says how many rounds, of which one in ten is of this kind (2, with COVE_SOAK 200); COVE_LOOP_SEED repeats one.
"""
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

ROUNDS = 200 if os.environ.get("COVE_SOAK") else max(int(os.environ.get("COVE_LOOP_ROUNDS", "20")) // 10, 1)
SEED = int(os.environ.get("COVE_LOOP_SEED", str(random.randrange(1 << 32))))
RUNS = 8 if c.SHORT else 20
WAYS = {"daemon": ["daemon"], "warden": ["warden"], "daemon and warden": ["daemon", "warden"], "all": []}

c.need_root()
c.note("seed %d" % SEED)
chance = random.Random(SEED)


def give(session, number, taken):
    """One run: from its 202 on an end is owed to it."""
    body = {"input": {"do": "sleep", "seconds": number % 5 / 20}}
    try:
        reply = s.patiently(lambda: session.cove.post(session.path + "/runs", body))
        if reply.status == 202:
            taken.append((session, reply.json["id"]))
    except s.BROKEN:
        pass


def shoot(cove, way):
    was = cove.children()
    if way == "all":
        cove.process.kill()
        cove.process.wait()
        c.until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in was.values()), 30)
        cove.start()
        return
    for role in WAYS[way]:
        os.kill(was[role], signal.SIGKILL)
    c.until(lambda: all(cove.children().get(role, was[role]) != was[role] for role in WAYS[way]), 30)


def watched(cove):
    found = c.census(cove)
    found = {key: found[key] for key in ("processes", "cgroups", "namespaces", "mounts", "loops", "boxes", "trash")}
    return dict(found, interfaces=os.listdir("/sys/class/net"))


def round_of(cove, number):
    way = chance.choice(sorted(WAYS))
    name = "round %d, kill -9 of %s: " % (number, way)
    sessions = [s.Session(cove, user="loop", isolation="session" if i == 0 else "shared") for i in range(4)]
    taken = []
    threads = [threading.Thread(target=give, args=(sessions[i % 4], i, taken)) for i in range(RUNS)]
    for thread in threads:
        thread.start()
    time.sleep(chance.uniform(0.0, 1.0))
    shoot(cove, way)
    for thread in threads:
        thread.join(60)
    fates = [(session.fate(run, 60), [e["type"] for e in session.events(run)].count("end")) for session, run in taken]
    c.ok(taken and all(fate.split()[0] in s.OVER and ends == 1 for fate, ends in fates), name + "every run that was taken has one end", fates)
    bad = [fate for fate, _ in fates if fate != "completed"]
    c.same(bad, [], name + "and is completed: its runner outlived the crash")
    agree = [(x.state(), len(x.roots())) for x in sessions]
    c.ok(all(count == (state != "none") for state, count in agree), name + "leases and processes agree", agree)
    c.ok(all(c.until(lambda: x.delete().status in (204, 404), 30) for x in sessions), name + "the sessions are deleted")
    for box in cove.get("/v1/sandboxes").json["items"]:
        cove.delete(box)
    got = subprocess.run([cove.binary, "verify", "--data", cove.data], capture_output=True, text=True, timeout=60)
    c.ok(got.returncode == 0, name + "all agree", got.stdout, got.stderr)
    c.until(lambda: watched(cove) == before, 30, 0.05)
    c.same(watched(cove), before, name + "nothing is left over")


cove = c.Cove("--session-space=16M")
box = cove.create()
cove.run(box, "true")
cove.delete(box)
c.calm(cove)
before = watched(cove)
for at in range(ROUNDS):
    round_of(cove, at + 1)
c.same(cove.close(), 0, "and cove ends well")
c.done()
