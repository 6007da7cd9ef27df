#!/usr/bin/env python3
"""kill -9 of the daemon, of the warden, of both, of everything, at random points under load: what
was promised lives on, what was not is destroyed, and that soon."""
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

SOAK = os.environ.get("COVE_SOAK") == "1"
POINTS = 6 if c.SHORT else 200 if SOAK else 20
SOON = 2.0 if SOAK else 20.0  # a quiet host takes 2 s at most


class Load:
    """Clients that create, execute and delete, and take whatever comes."""

    def __init__(self, cove, clients=4):
        self.cove, self.stop, self.lives = cove, False, 0
        self.threads = [threading.Thread(target=self.client) for _ in range(clients)]
        [thread.start() for thread in self.threads]

    def client(self):
        while not self.stop:
            try:
                reply = self.cove.request("POST", "/v1/sandboxes", {}, timeout=20)
                if reply.status != 201:
                    time.sleep(0.01)
                    continue
                box = reply.json
                self.cove.request("POST", "/v1/sandboxes/%s/api/execute" % box["id"],
                                  {"command": "echo hi; sleep 0.0%d" % random.randrange(5), "encoding": "auto"}, timeout=20)
                if random.random() < 0.8:
                    self.cove.request("DELETE", "/v1/sandboxes/" + box["id"], timeout=20)
                self.lives += 1
            except (OSError, ValueError, c.http.client.HTTPException):
                time.sleep(0.01)

    def end(self):
        self.stop = True
        [thread.join() for thread in self.threads]


def works(cove):
    try:
        reply = cove.request("POST", "/v1/sandboxes", {}, timeout=10)
        if reply.status != 201:
            return False
        good = cove.execute(reply.json, "echo ok").json["stdout"] == "ok\n"
        cove.delete(reply.json)
        return good
    except (OSError, ValueError, KeyError, c.http.client.HTTPException):
        return False


def leaked(cove):
    """The census against the one before. Other processes live now, so their fds may differ a little;
    that one life leaks none is another story's to prove."""
    left = c.settled(before, cove)
    return {k: v for k, v in left.items() if not (k.startswith("fds of") and v[1] - v[0] < 8)}


def strike(cove, roles):
    """Kills the children of those roles; how long until a whole lifecycle works again."""
    pids = cove.children()
    for role in roles:
        if role in pids:
            os.kill(pids[role], signal.SIGKILL)
    begin = time.monotonic()
    c.until(lambda: all(cove.children().get(r, pids.get(r)) != pids.get(r) for r in roles), 30, 0.01)
    return begin if c.until(lambda: works(cove), 30, 0.02) else None


c.need_root()
cove = c.Cove()
cove.delete(cove.create())
before = c.calm(cove)
random.seed(7)
ways = (["daemon"], ["warden"], ["daemon", "warden"])
slow, dead = [], []
for point in range(POINTS):
    load = Load(cove)
    time.sleep(0.05 + random.random() * 0.4)
    way = ways[point % 3]
    begin = strike(cove, way)
    load.end()
    if begin is None:
        dead.append((point, way))
        break
    begin = time.monotonic()
    if not works(cove) or time.monotonic() - begin > SOON:
        slow.append((point, way, time.monotonic() - begin))
c.same(dead, [], "after each of %d kills under load a lifecycle works again" % POINTS)
c.same(slow, [], "and quickly")
for box in cove.get("/v1/sandboxes?limit=1000").json["items"]:
    cove.delete(box)
c.same(leaked(cove), {}, "the census is as before")

quick = []
for way in ways:
    boxes = [cove.create() for _ in range(10)]
    pids = cove.children()
    for role in way:
        os.kill(pids[role], signal.SIGKILL)
    begin = time.monotonic()
    c.until(lambda: works(cove), 30, 0.01)
    quick.append(round(time.monotonic() - begin, 2))
    c.same([cove.out(box, "echo alive") for box in boxes], ["alive\n"] * 10,
           "after kill -9 of %s ten sandboxes are alive" % " and ".join(way))
    c.same([cove.delete(box).status for box in boxes], [204] * 10, "and can be deleted")
c.ok(max(quick) < SOON, "with ten sandboxes alive the next lifecycle works within %g s" % SOON, quick)
c.same(leaked(cove), {}, "and nothing of them is left")

boxes = [cove.create() for _ in range(10)]
pids = list(cove.children().values()) + [cove.process.pid]
for pid in pids:
    os.kill(pid, signal.SIGKILL)
cove.process.wait()
cove.log.close()
begin = time.monotonic()
cove.start()
took = time.monotonic() - begin
c.ok(took < SOON, "after kill -9 of all three the next start takes less than %g s" % SOON, took)
c.same([cove.out(box, "echo alive") for box in boxes], ["alive\n"] * 10, "and has every sandbox again")
c.ok(works(cove), "and works")
c.same([cove.delete(box).status for box in boxes], [204] * 10, "they are deleted, verified")
c.same(leaked(cove), {}, "and left nothing")

# What nobody promised: a sandbox whose record is gone while nobody served.
boxes = [cove.create() for _ in range(3)]
for pid in list(cove.children().values()) + [cove.process.pid]:
    os.kill(pid, signal.SIGKILL)
cove.process.wait()
cove.log.close()
for name in os.listdir(os.path.join(cove.data, "daemon")):
    if name.startswith("cove.db"):
        os.unlink(os.path.join(cove.data, "daemon", name))
cove.start()
c.ok(c.until(lambda: cove.get("/v1/sandboxes").json["items"] == []), "a sandbox without a record is none")
c.same(leaked(cove), {}, "and is destroyed, not left to itself")
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
