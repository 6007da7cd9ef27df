#!/usr/bin/env python3
"""A thousand lifecycles, and a hundred at once: the census before equals the census after."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

LIVES = 60 if c.SHORT else 1000
AT_ONCE = 20 if c.SHORT else 100


def life(conn_of, faults):
    try:
        cove = conn_of
        box = cove.create(limits={"memoryMB": 64, "pids": 32})
        if cove.out(box, "echo hi > /workspace/f; cat /workspace/f") != "hi\n":
            faults.append("wrong output")
        status = cove.delete(box).status
        if status != 204:
            faults.append("delete: %d" % status)
    except Exception as fault:  # whatever it is, it is told
        faults.append(repr(fault))


def rss(pid):
    return int(open("/proc/%d/statm" % pid).read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


c.need_root()
cove = c.Cove("--queue-wait=1m")  # a busy host makes a hundred at once slowly
for _ in range(20):
    life(cove, [])
together = [threading.Thread(target=life, args=(cove, [])) for _ in range(AT_ONCE)]
[t.start() for t in together]
[t.join() for t in together]
c.until(lambda: c.census(cove)["trash"] == 0)
before = c.calm(cove)
memory = {role: rss(pid) for role, pid in cove.children().items()}

faults = []
begin = time.monotonic()
for _ in range(LIVES):
    life(cove, faults)
c.same(faults[:3], [], "%d lifecycles one after another" % LIVES)
c.note("%.2f ms each" % ((time.monotonic() - begin) * 1000 / LIVES))
c.same(c.settled(before, cove), {}, "leave the census as it was")

faults = []
together = [threading.Thread(target=life, args=(cove, faults)) for _ in range(AT_ONCE)]
begin = time.monotonic()
[t.start() for t in together]
[t.join() for t in together]
c.same(faults[:3], [], "%d lifecycles at once" % AT_ONCE)
c.note("%.0f ms in all" % ((time.monotonic() - begin) * 1000))
c.same(c.settled(before, cove), {}, "leave the census as it was")

boxes = [cove.create(limits={"memoryMB": 64}) for _ in range(AT_ONCE)]
ends = [threading.Thread(target=cove.delete, args=(box,)) for box in boxes]
[t.start() for t in ends]
[t.join() for t in ends]
c.same(c.settled(before, cove), {}, "%d alive and deleted at once leave it too" % AT_ONCE)

grown = {role: rss(pid) - memory[role] for role, pid in cove.children().items()}
if c.SHORT:
    c.skip("no process grows", "sanitizers keep freed memory")
else:
    c.ok(max(grown.values()) < 4 << 20, "no process grows", grown)
health = cove.get("/v1/health").json
c.same((health["boxes"]["total"], health["boxes"]["failed"], health["execs"]), (0, 0, 0),
       "and health agrees")
c.note("slow turns of the loop: %r" % health["loop"])
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
