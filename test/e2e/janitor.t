#!/usr/bin/env python3
"""The janitor: goes round by itself and on demand, never twice at once, and ends what nobody needs, by the proper ways."""
import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
FIELDS = {"scanned", "orphansFound", "orphansTerminated", "stuckTerminated", "oldDeleted", "failedAttempts", "backlog", "startedAt", "durationMs"}


def look(cove):
    return cove.get("/v1/cleanup").json


def pid1(cove, box):
    """The host's number of a sandbox's pid 1."""
    for pid in c._pids():
        try:
            with open("/proc/%d/cgroup" % pid) as groups, open("/proc/%d/status" % pid) as status:
                text = status.read()
                numbers = [line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:")][0]
                if box["id"] in groups.read() and numbers[-1] == "1":
                    return pid
        except (OSError, IndexError):
            pass
    return None


# On demand, and never two at once
cove = c.Cove()
c.ok(c.until(lambda: look(cove)["rounds"] >= 1), "E-1 the first round is at the start")
box = cove.create()
before = look(cove)["rounds"]
swept = cove.post("/v1/cleanup")
c.ok(swept.status == 200 and set(swept.json) == FIELDS and swept.json["scanned"] >= 2, "E-6 a round on demand tells what it did", swept)
c.same(look(cove)["rounds"], before + 1, "E-1 one request is one round")
answers = []
threads = [threading.Thread(target=lambda: answers.append(cove.post("/v1/cleanup").json)) for _ in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
rounds = look(cove)
c.ok(len({json.dumps(a) for a in answers}) <= rounds["rounds"] - before - 1 and len(answers) == 8, "E-1 eight at once are no eight rounds at a time", rounds["rounds"], before)
c.ok(len(rounds["history"]) == rounds["rounds"] and rounds["history"][0] == rounds["last"] and
     rounds["total"]["scanned"] >= rounds["last"]["scanned"], "E-6 last, total and history", rounds)
c.same(cove.out(box, "echo alive"), "alive\n", "E-2 what lives and is young is left alone")
c.same(cove.stop(), 0, "cove ends")

# By the clock
cove = c.Cove("--dev", "--time-scale", "300", "--sleep-after", "10m")
c.ok(c.until(lambda: look(cove)["rounds"] >= 3, 15), "E-1 it goes round by itself: every 5 minutes, a second at this scale")
name = "box-" + os.urandom(24).hex()
stray = [os.path.join(root, "cove", cove.instance(), name) for root in c.cgroup_roots()
         if "devices" not in root and os.path.isdir(os.path.join(root, "cove", cove.instance()))]
foreign = [os.path.join(root, name) for root in c.cgroup_roots() if "pids" in root or "unified" in root]
for path in stray + foreign:
    try:
        os.mkdir(path)
    except OSError:
        pass
stray, foreign = [p for p in stray if os.path.isdir(p)], [p for p in foreign if os.path.isdir(p)]
began = time.monotonic()
c.ok(stray and c.until(lambda: not any(map(os.path.isdir, stray)), 20), "E-5 a control group of nobody's is removed", stray)
c.ok(time.monotonic() - began > 1.5, "E-5 after 10 minutes, not before", time.monotonic() - began)
c.ok(all(map(os.path.isdir, foreign)), "E-5 what is not cove's is untouched", foreign)
for path in foreign:
    os.rmdir(path)
c.ok(look(cove)["total"]["orphansTerminated"] >= 1, "E-6 and counted", look(cove)["total"])
keeper = cove.create(keepAlive=True)
gone = cove.create(name="gone")
victim = pid1(cove, gone)
c.ok(victim is not None, "a sandbox has a pid 1")
os.kill(victim, signal.SIGKILL)
c.ok(c.until(lambda: cove.get("/v1/sandboxes/gone").json["state"] in ("failed", "stopped")), "a sandbox whose pid 1 dies has failed")
lost = cove.get("/v1/sandboxes/gone").json
c.same(lost.get("reason"), "box_lost", "and says so")
time.sleep(4)
c.same(cove.get("/v1/sandboxes/gone").status, 200, "RULINGS 15 its files are not swept away")
c.same(cove.post("/v1/sandboxes/gone/start").json.get("state"), "running", "it starts again on them")
c.same(cove.out(keeper, "echo alive"), "alive\n", "E-3 a healthy one outlives all the timers")
c.same(cove.stop(), 0, "cove ends")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
