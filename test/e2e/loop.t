#!/usr/bin/env python3
"""Rounds of work and sudden death: twenty runs at once, kill -9 of the daemon, the warden or both in the midst of them,
or of all and a new start; afterwards nothing is left over and all that is known agrees.

COVE_LOOP_ROUNDS says how many rounds (3, with COVE_SOAK 200); COVE_LOOP_SEED repeats a sequence.
"""
import os
import random
import signal
import subprocess
import threading
import time

import cove as c

ROUNDS = int(os.environ.get("COVE_LOOP_ROUNDS", "200" if os.environ.get("COVE_SOAK") else "3"))
SEED = int(os.environ.get("COVE_LOOP_SEED", str(random.randrange(1 << 32))))
RUNS = 10 if c.SHORT else 20

c.need_root()
c.note("seed %d" % SEED)
chance = random.Random(SEED)


def work(cove, number, stay):
    """One run: whatever fails on the way may fail; what must not is checked at the end."""
    try:
        made = cove.post("/v1/sandboxes", {"ephemeral": True} if not stay else {}, timeout=60)
        if made.status != 201:
            return
        box = made.json["id"]
        cove.post("/v1/sandboxes/%s/api/execute" % box, {"argv": ["sh", "-c", "echo %d; sleep 0.%d" % (number, number % 5)],
                                                       "encoding": "auto"}, timeout=60)
        cove.request("DELETE", "/v1/sandboxes/" + box, timeout=60)
    except OSError:
        pass
    except Exception as surprise:  # a cut reply
        if "http.client" not in type(surprise).__module__:
            raise


def shoot(cove, victims):
    children = cove.children()
    for role in victims:
        if role in children:
            try:
                os.kill(children[role], signal.SIGKILL)
            except ProcessLookupError:
                pass


def renewed(cove, victims):
    now = cove.children()
    return all(role in now and now[role] != last.get(role) for role in victims)


def healthy(cove):
    try:
        return cove.get("/v1/health", timeout=5).json["status"] == "ok"
    except (OSError, ValueError, KeyError):
        return False
    except Exception:
        return False


def clear(cove):
    """Ends what a run could not end."""
    for _ in range(20):
        left = cove.get("/v1/sandboxes?limit=1000").json["items"]
        if not left:
            return True
        for box in left:
            cove.delete(box)
    return False


def round_of(cove, number):
    way = chance.choice(["daemon", "warden", "both", "all"])
    threads = [threading.Thread(target=work, args=(cove, i, chance.random() < 0.3)) for i in range(RUNS)]
    for thread in threads:
        thread.start()
    time.sleep(chance.uniform(0.0, 0.8))
    if way == "all":
        cove.process.kill()
        cove.process.wait()
        for thread in threads:
            thread.join(90)
        c.until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in last.values()), 30)
        cove.start()
    else:
        victims = ["daemon", "warden"] if way == "both" else [way]
        shoot(cove, victims)
        for thread in threads:
            thread.join(90)
        c.until(lambda: renewed(cove, victims), 30)
    name = "round %d, kill -9 of %s: " % (number, way)
    if not c.ok(c.until(lambda: healthy(cove), 30, 0.1), name + "cove is well again"):
        return
    c.ok(clear(cove), name + "every sandbox that is left can be ended")
    got = subprocess.run([cove.binary, "verify", "--data", cove.data], capture_output=True, text=True, timeout=60)
    c.ok(got.returncode == 0, name + "all agree", got.stdout, got.stderr)
    now = c.until(lambda: c.census(cove)["processes"] == before["processes"] and c.census(cove), 20) or c.census(cove)
    c.same({k: now[k] for k in WATCHED}, {k: before[k] for k in WATCHED}, name + "nothing is left over")


cove = c.Cove()
box = cove.create()
cove.run(box, "true")
cove.delete(box)
before = c.census(cove)
WATCHED = [key for key in ("processes", "cgroups", "namespaces", "mounts", "loops") if key in before]
for at in range(ROUNDS):
    last = cove.children()
    round_of(cove, at + 1)
audit = subprocess.run([cove.binary, "audit", "--check", "--data", cove.data], capture_output=True, text=True, timeout=60)
c.ok(audit.returncode == 0, "the audit log is whole after all of that", audit.stdout, audit.stderr)
c.same(cove.close(), 0, "and cove ends well")
c.done()
