#!/usr/bin/env python3
"""Rounds of work and sudden death: twenty runs at once, kill -9 of the daemon, the warden or both in the midst of them,
or of all and a new start; each run has run once and its result is told, nothing is left over, and all that is known
agrees.

COVE_LOOP_ROUNDS says how many rounds (3, with COVE_SOAK 200); COVE_LOOP_SEED repeats a sequence.
"""
import os
import random
import signal
import subprocess
import threading
import time

import cove as c
import live

ROUNDS = int(os.environ.get("COVE_LOOP_ROUNDS", "200" if os.environ.get("COVE_SOAK") else "3"))
SEED = int(os.environ.get("COVE_LOOP_SEED", str(random.randrange(1 << 32))))
RUNS = 10 if c.SHORT else 20

c.need_root()
c.note("seed %d" % SEED)
chance = random.Random(SEED)
chance_of = random.Random()  # of threads, whose order is nobody's


def start_once(cove, box, body):
    """Who does not know whether a start was heard asks before it says it again: the id of one that has ended is free."""
    tries = []

    def ask():
        tries.append(1)
        known = cove.get(live.api(box, "process/" + body["processId"])) if len(tries) > 1 else None
        return known if known and known.status != 404 else cove.post(live.api(box, "process/start"), body)
    return ask


def work(cove, number, stay, found):
    """One run, as a client sees it to whom its result matters: it says everything again until it is answered. The
    command must have run once, and its exit code and output must come, whatever died meanwhile."""
    name, code = "r%x" % chance_of.getrandbits(64), 1 + number
    body = {"command": "echo x >> /workspace/ran; echo out %d; sleep 0.%d; exit %d" % (number, number % 5, code), "processId": "p"}
    try:
        made, _ = live.surely(lambda: cove.request("POST", "/v1/sandboxes", {} if stay else {"ephemeral": True},
                                                   headers={"Idempotency-Key": name}), lambda often: (200, 201))
        box = made.json
        live.surely(start_once(cove, box, body), lambda often: (200,))
        path = live.api(box, "process/p/wait?timeoutMs=60000")
        got, _ = live.surely(lambda: cove.get(path), lambda often: (200,))
        said, _ = live.surely(lambda: cove.get(live.api(box, "process/p/logs")), lambda often: (200,))
        ran, _ = live.surely(lambda: cove.execute(box, "wc -l < /workspace/ran"), lambda often: (200,))
        result = (got.json["exitCode"], said.json["stdout"], ran.json["stdout"].strip())
        if result != (code, "out %d\n" % number, "1"):
            found.append("run %d: %r" % (number, result))
        live.surely(lambda: cove.delete(box), lambda often: (204, 404) if often else (204,))
    except Exception as fault:  # noqa: BLE001
        found.append("run %d: %r" % (number, fault))


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


def watched(cove):
    found = c.census(cove)
    return {key: found[key] for key in ("processes", "cgroups", "namespaces", "mounts", "loops", "boxes", "trash")}


def round_of(cove, number):
    way = chance.choice(["daemon", "warden", "both", "all"])
    found = []
    threads = [threading.Thread(target=work, args=(cove, i, chance.random() < 0.3, found)) for i in range(RUNS)]
    for thread in threads:
        thread.start()
    time.sleep(chance.uniform(0.0, 0.8))
    if way == "all":
        cove.process.kill()
        cove.process.wait()
        c.until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in last.values()), 30)
        cove.start()
    else:
        victims = ["daemon", "warden"] if way == "both" else [way]
        shoot(cove, victims)
        c.until(lambda: renewed(cove, victims), 30)
    for thread in threads:
        thread.join(120)
    name = "round %d, kill -9 of %s: " % (number, way)
    c.same(found, [], name + "every run ran once, and its result was told")
    if not c.ok(c.until(lambda: healthy(cove), 30, 0.1), name + "cove is well again"):
        return
    c.ok(clear(cove), name + "every sandbox that is left can be ended")
    got = subprocess.run([cove.binary, "verify", "--data", cove.data], capture_output=True, text=True, timeout=60)
    c.ok(got.returncode == 0, name + "all agree", got.stdout, got.stderr)
    c.until(lambda: watched(cove) == before, 30, 0.05)
    c.same(watched(cove), before, name + "nothing is left over")


cove = c.Cove()
box = cove.create()
cove.run(box, "true")
cove.delete(box)
c.calm(cove)
before = watched(cove)
for at in range(ROUNDS):
    last = cove.children()
    round_of(cove, at + 1)
audit = subprocess.run([cove.binary, "audit", "--check", "--data", cove.data], capture_output=True, text=True, timeout=60)
c.ok(audit.returncode == 0, "the audit log is whole after all of that", audit.stdout, audit.stderr)
c.same(cove.close(), 0, "and cove ends well")
c.done()
