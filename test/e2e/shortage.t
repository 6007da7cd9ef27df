#!/usr/bin/env python3
"""Admission on a host that runs out of memory or process numbers: the readings are the kernel's files, and cove is started where
files of the test lie over them. New work is refused with its reason, what runs runs on, and it resumes by itself."""
import os
import re
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
home = tempfile.mkdtemp(prefix="cove-shortage-")
MEMORY, LOAD = os.path.join(home, "meminfo"), os.path.join(home, "loadavg")
REAL = open("/proc/meminfo").read()


def write(path, text):
    """In place, as the kernel does: it is held open."""
    with open(path, "r+" if os.path.exists(path) else "w") as file:
        file.write(text.ljust(2000) if path == MEMORY else text.ljust(60))
        file.truncate()


def memory(megabytes):
    write(MEMORY, re.sub(r"MemAvailable: *\d+", "MemAvailable: %d" % (megabytes * 1024), REAL)[:1900])


def tasks(count):
    write(LOAD, "0.10 0.10 0.10 1/%d 4711\n" % count)


memory(8192)
tasks(300)
wrapper = os.path.join(home, "cove")
real = c.BIN
with open(wrapper, "w") as file:
    file.write("#!/bin/sh\n[ \"$1\" = serve ] || exec %s \"$@\"\nexec unshare -m sh -c '"
               "mount --bind %s /proc/meminfo && mount --bind %s /proc/loadavg && exec \"$0\" \"$@\"' %s \"$@\"\n" % (real, MEMORY, LOAD, real))
os.chmod(wrapper, 0o755)
cove = c.Cove("--queue-wait=1s", binary=wrapper)
box = cove.create(name="runs")
cove.run(box, "setsid sleep 1000 >/dev/null 2>&1 &")
most = min(int(open("/proc/sys/kernel/" + name).read()) for name in ("pid_max", "threads-max"))


def seen(**fields):
    """Readings are kept for a moment: until these are known."""
    host = cove.get("/v1/health").json["host"]
    return all(host[name] == value for name, value in fields.items())


def refused(reason, what):
    reply = cove.post("/v1/sandboxes", {})
    c.same((reply.status, reply.json["reason"]), (429, reason), "%s: a new sandbox is refused, with its reason" % what)
    c.ok(reply.json["retryable"] and "position 1" in reply.json["message"], "%s: it may be tried again, and knows its place" % what, reply)
    c.same(cove.out(box, "pgrep -c sleep"), "1\n", "%s: what runs runs on, and can be worked in" % what)


def resumes(relieve, what):
    """One that waits in line is made as soon as there is room."""
    replies = []
    waiting = threading.Thread(target=lambda: replies.append(cove.post("/v1/sandboxes", {"name": "late"})))
    waiting.start()
    c.until(lambda: cove.get("/v1/sandboxes/late").json.get("waiting"), 30, 0.01)
    relieve()
    waiting.join(20)
    c.ok(replies and replies[0].status == 201, "%s: whoever waits is made when it is over" % what, replies)
    c.same(cove.delete("late").status, 204, "%s: and goes again" % what)


memory(20)
c.until(lambda: seen(memoryFreeBytes=20 << 20), 30, 0.01)
refused("host_memory", "memory")
c.same(cove.get("/v1/sandboxes/runs").json["state"], "running", "nothing was ended for it")
cove.request("POST", "/v1/sandboxes/runs/pause")
c.same(cove.request("POST", "/v1/sandboxes/runs/resume").status, 200, "memory: what was paused goes on")
resumes(lambda: memory(8192), "memory")
tasks(most)
c.until(lambda: seen(tasks=most), 30, 0.01)
refused("host_pids", "process numbers")
resumes(lambda: tasks(300), "process numbers")

# As many as there is room for, however many come at once: each on its way has its reserve.
mark = cove.get("/v1/health").json["host"]["memoryMarkBytes"]
room = (mark >> 20) + 8 * 4
memory(room)
c.until(lambda: seen(memoryFreeBytes=room << 20), 30, 0.01)
replies = []
crowd = [threading.Thread(target=lambda: replies.append(cove.post("/v1/sandboxes", {}))) for _ in range(12)]
for thread in crowd:
    thread.start()
for thread in crowd:
    thread.join(60)
c.ok({r.status for r in replies} <= {201, 429} and any(r.status == 201 for r in replies), "a crowd: some are made", replies)
c.ok(all(r.json["reason"] in ("host_memory", "queue_full") for r in replies if r.status == 429), "a crowd: the others are told why", replies)
memory(8192)
c.until(lambda: seen(memoryFreeBytes=8192 << 20), 30, 0.01)
c.same(cove.post("/v1/sandboxes", {}).status, 201, "with room again there is no line")
c.same(cove.close(), 0, "cove ends well")
shutil.rmtree(home)
c.done()
