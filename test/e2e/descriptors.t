#!/usr/bin/env python3
"""A daemon with few descriptors. An idle sandbox takes three of them, so a hundred fit where the limit says so; the next one is
refused, and made once another is gone. After a kill of the daemon all are there and work. Where not all can be taken up any more,
none is told to be gone: it is `not_adopted` until there is room."""
import os
import resource
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import api, patiently  # noqa: E402

BOXES = 60 if c.SHORT else 100
RESERVED = 128 + 64 + 5  # of manager/admit.c: for requests, for commands, for the sandbox that is made
SPARED = 64 + 5  # of these, while sandboxes are taken up
A_BOX = 3
SYS_RESOURCE = 1 << 24

c.need_root()
cove = c.Cove("--queue-wait=1s")


def files(role="daemon"):
    return len(os.listdir("/proc/%d/fd" % cove.children()[role]))


def limit_of(pid):
    line = next(line for line in open("/proc/%d/limits" % pid) if line.startswith("Max open files"))
    return tuple(int(word) for word in line.split()[3:5])


def kill_daemon():
    pid = cove.children()["daemon"]
    os.kill(pid, signal.SIGKILL)
    c.until(lambda: cove.children().get("daemon", pid) != pid, 30, 0.01)
    patiently(lambda: cove.get("/v1/health"))


def limit_next_daemon(count):
    """The supervisor's limit is what its children begin with."""
    resource.prlimit(cove.process.pid, resource.RLIMIT_NOFILE, (count, count))
    kill_daemon()


def reason(reply):
    return (reply.status, reply.json.get("reason"))


def run_in(boxes):
    """Those in which a command does not run, and why."""
    wrong = []
    for box in boxes:
        reply = patiently(lambda: cove.execute(box, "cat /workspace/mark"))
        if reply.status != 200 or reply.json["stdout"] != box["name"] + "\n":
            wrong.append((box["name"], reply))
    return wrong


# Where the supervisor may, it raises the hard limit to what the kernel bounds it by.
effective = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")), 16)
most = int(open("/proc/sys/fs/nr_open").read()) if effective & SYS_RESOURCE else limit_of(os.getpid())[1]
c.same([limit_of(cove.children()[role]) for role in ("daemon", "warden")], [(most, most)] * 2, "daemon and warden have all the descriptors there are")

first = cove.create(name="first")
own = files() - A_BOX
limit_next_daemon(own + RESERVED + A_BOX * BOXES)
limit = limit_of(cove.children()["daemon"])[1]
cove.run(first, "echo first >/workspace/mark")
boxes, reply = [first], None
while len(boxes) < 2 * BOXES:
    reply = cove.post("/v1/sandboxes", {"name": "n-%d" % len(boxes), "limits": {"memoryMB": 32}})
    if reply.status != 201:
        break
    boxes.append(reply.json)
    cove.run(reply.json, "echo %s >/workspace/mark" % reply.json["name"])
c.ok(reason(reply) == (429, "daemon_files") and reply.json["retryable"], "one more is refused, with the reason, and may be tried again", reply)
c.ok(BOXES * 0.9 <= len(boxes) <= BOXES * 1.1, "%d sandboxes fit into %d descriptors" % (len(boxes), limit), BOXES)
c.same(run_in(boxes), [], "a command runs in each at that edge")
c.ok(c.until(lambda: files() <= own + A_BOX * len(boxes) + 16, 30), "and when they are idle they have three each", files(), own, len(boxes))

kill_daemon()
c.same(run_in(boxes), [], "after a kill of the daemon a command runs in each")
c.ok("box.not_adopted" not in cove.log_text(), "none of them had to wait for a descriptor")
c.same(cove.delete(boxes.pop()).status, 204, "one is deleted")
c.ok(c.until(lambda: cove.post("/v1/sandboxes", {"name": "again"}).status == 201, 30), "and another is made in its place")
c.same(cove.delete("again").status, 204, "which goes again")

# Room for fewer than there are; of these some must go before commands run again.
room = BOXES * 7 // 10
limit_next_daemon(own + SPARED + A_BOX * room)
waits = c.until(lambda: cove.log_text().count('"event":"manager.settled"') >= 4 and
                [box for box in boxes if cove.get(api(box, "process/list")).status == 503], 60)
c.ok(waits, "without descriptors some cannot be taken up", cove.get("/v1/health").json["host"])
reply = cove.execute(waits[-1], "true")
# It may have been taken up since, in which case a command finds no descriptor.
c.ok(reason(reply) in ((503, "not_adopted"), (429, "daemon_files")) and reply.json["retryable"], "a request for one of them is told so, and may be tried again", reply)
c.same([box["name"] for box in boxes if cove.get("/v1/sandboxes/" + box["id"]).json.get("state") != "running"], [], "none is told to have ended")
c.same(cove.delete(waits[-1]).status, 204, "one that waits can be deleted")
gone = {waits[-1]["id"]}
for box in [box for box in boxes if box["id"] not in gone][room - (RESERVED - SPARED) // A_BOX:]:
    gone.add(box["id"])
    c.until(lambda: cove.delete(box).status in (204, 404), 30)
left = [box for box in boxes if box["id"] not in gone]
c.ok(left, "the others are left", len(boxes), len(gone))
c.same(run_in(left), [], "with room again a command runs in each of them")
c.same(cove.stop(), 0, "cove ends well")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
