#!/usr/bin/env python3
"""Sandboxes outlive the daemon, the warden and the supervisor: kill -9 of each and of all, a stop
that hands them on, a new binary under their feet, a reboot. And what shall end them does."""
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import live  # noqa: E402

BOXES = 4 if c.SHORT else 10
SWAPS = 2 if c.SHORT else 5


def run_dir(cove):
    return os.path.join(cove.data, "run")


def note(cove, box):
    """The warden's note of a sandbox as a dictionary; {} when there is none."""
    try:
        with open(os.path.join(run_dir(cove), "cells", box["id"])) as file:
            return dict(line.split(" ", 1) for line in file.read().splitlines() if " " in line)
    except OSError:
        return {}


def cells(cove, boxes):
    """Who is pid 1 of each sandbox: number and start time, as the kernel tells them."""
    found = {}
    for box in boxes:
        told = note(cove, box)
        try:
            with open("/proc/%s/stat" % told["pid"]) as file:
                fields = file.read().rsplit(")", 1)[1].split()
            alive = fields[0] not in "ZX" and fields[19] == told["started"]
        except (OSError, KeyError):
            alive = False
        found[box["id"]] = told.get("pid") if alive else None
    return found


def said(cove, box, command):
    """What a command wrote; None when it could not be run now."""
    try:
        reply = cove.execute(box, command)
        return reply.json["stdout"] if reply.status == 200 else None
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return None


def make(cove, count=BOXES):
    boxes = [cove.create(limits={"memoryMB": 64}) for _ in range(count)]
    for i, box in enumerate(boxes):
        cove.run(box, "echo %d > /workspace/mark; (sleep 1000 & echo $! > /run/sleeper)" % i)
    return boxes


def whole(cove, boxes, seconds=20):
    """Each sandbox runs commands, has its files and what ran in it before."""
    wrong = []
    for i, box in enumerate(boxes):
        test = "cat /workspace/mark; kill -0 $(cat /run/sleeper) && echo runs"
        if not c.until(lambda: said(cove, box, test) == "%d\nruns\n" % i, seconds, 0.05):
            wrong.append((i, said(cove, box, test)))
    return wrong


def strike(cove, roles):
    pids = cove.children()
    for role in roles:
        os.kill(pids[role], signal.SIGKILL)
    c.until(lambda: all(cove.children().get(r, pids[r]) != pids[r] for r in roles), 30, 0.01)


def kill_all(cove):
    for pid in list(cove.children().values()) + [cove.process.pid]:
        os.kill(pid, signal.SIGKILL)
    cove.process.wait()
    cove.process = None
    cove.log.close()


def kills(cove, boxes):
    before = cells(cove, boxes)
    c.ok(None not in before.values(), "every sandbox has a note, and the kernel agrees with it", before)
    for roles in (["warden"], ["daemon"], ["warden", "daemon"], ["daemon", "warden"]):
        begin = time.monotonic()
        strike(cove, roles)
        c.same(whole(cove, boxes), [], "END-7 after kill -9 of %s all sandboxes go on" % " and ".join(roles))
        c.note("%.2f s" % (time.monotonic() - begin))
        c.same(cells(cove, boxes), before, "END-4 their pid 1s are the same processes")
    kill_all(cove)
    time.sleep(0.5)
    c.same(cells(cove, boxes), before, "with all three gone they run on")
    begin = time.monotonic()
    cove.start()
    c.note("back after %.2f s" % (time.monotonic() - begin))
    c.same(whole(cove, boxes), [], "and the next start finds them all")
    c.same(cells(cove, boxes), before, "as they were")
    c.same(sorted(item["state"] for item in cove.get("/v1/sandboxes").json["items"]),
           ["running"] * len(boxes), "and lists them as running")


def away(cove, boxes):
    """The warden is alone for a while: that changes nothing, and it makes boxes again after."""
    before = cells(cove, boxes)
    for _ in range(3):
        strike(cove, ["daemon"])
    c.same(cells(cove, boxes), before, "three daemons in a row that are shot change nothing")
    box = c.until(lambda: made(cove), 30, 0.05)
    c.ok(box and said(cove, box, "echo new") == "new\n", "and new sandboxes are made")
    c.same(cove.delete(box).status, 204, "and deleted, verified")


def made(cove):
    try:
        reply = cove.post("/v1/sandboxes", {})
        return reply.json if reply.status == 201 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None


def hands_on(cove, boxes):
    before = cells(cove, boxes)
    c.same(cove.stop(), 0, "with --on-term=handoff SIGTERM ends cove with status 0")
    c.same(cells(cove, boxes), before, "and leaves the sandboxes running")
    c.ok(not os.path.exists(os.path.join(cove.data, "url")), "its URL is withdrawn")
    done = subprocess.run([c.BIN, "upgrade", "--data", cove.data], capture_output=True, text=True)
    c.ok(done.returncode == 3 and "no cove serves" in done.stderr,
         "there is nothing to upgrade then", done.stderr)
    cove.start()
    c.same(whole(cove, boxes), [], "the next start has them again")


def swap(binary, source):
    """As a package does it: a new file under the old name."""
    shutil.copy(source, binary + ".new")
    os.rename(binary + ".new", binary)


def upgrade(cove):
    return subprocess.run([cove.binary, "upgrade", "--data", cove.data], capture_output=True,
                          text=True, timeout=150)


def upgrades(cove, boxes):
    before, supervisor = cells(cove, boxes), cove.process.pid
    visitor = live.Visitor(cove)
    for i in range(SWAPS):
        old = cove.children()
        swap(cove.binary, c.BIN)
        done = upgrade(cove)
        c.same((done.returncode, cove.process.poll()), (0, None), "cove upgrade, the %d. time" % (i + 1))
        if done.returncode:
            c.note(done.stderr)
        new = cove.children()
        c.ok(set(old) == set(new) and not set(old.values()) & set(new.values()),
             "warden and daemon are new", old, new)
        c.note(done.stderr.strip())
    links = {os.readlink("/proc/%d/exe" % pid) for pid in [supervisor] + list(cove.children().values())}
    c.same(links, {cove.binary}, "all three run the file that lies there now")
    c.same(cells(cove, boxes), before, "no sandbox has noticed")
    c.same(whole(cove, boxes), [], "and all go on")
    with open(cove.binary + ".new", "w") as file:
        file.write("#!/bin/false\n")
    os.chmod(cove.binary + ".new", 0o755)
    os.rename(cove.binary + ".new", cove.binary)
    pids = cove.children()
    done = subprocess.run([c.BIN, "upgrade", "--data", cove.data], capture_output=True, text=True)
    c.ok(done.returncode == 8 and "does not start" in done.stderr,
         "a binary that does not start is refused", done.stderr)
    c.same(cove.children(), pids, "and nothing has happened")
    swap(cove.binary, c.BIN)
    c.same(upgrade(cove).returncode, 0, "the next one is taken")
    visitor.stopping = True
    visitor.join()
    c.ok(visitor.done > 10, "meanwhile a client was answered %d times" % visitor.done)
    c.same(visitor.faults[:3], [], "and never refused: the listeners were not closed")


def reboot(cove, boxes):
    """All processes end without a word and RUN is empty: disks are all that is left."""
    before = cells(cove, boxes)
    kill_all(cove)
    for pid in before.values():
        os.kill(int(pid), signal.SIGKILL)
    for folder in ("cells", "box"):
        for name in os.listdir(os.path.join(run_dir(cove), folder)):
            os.unlink(os.path.join(run_dir(cove), folder, name))
    cove.start()
    states = {item["state"] for item in cove.get("/v1/sandboxes").json["items"]}
    c.same(states, {"stopped"}, "after a reboot every sandbox is stopped")
    left = [path for path in c._groups(cove.instance()) if any(box["id"] in path for box in boxes)]
    c.same(left, [], "and nothing of it is in the kernel")
    wrong = [i for i, box in enumerate(boxes)
             if c.until(lambda: said(cove, box, "cat /workspace/mark")) != "%d\n" % i]
    c.same(wrong, [], "the first request starts it again, on its own disk")
    c.ok(None not in cells(cove, boxes).values(), "and it runs")
    c.same(verify(cove), 0, "and all agree")


def next_boot(cove, boxes):
    """The notes are still there, but of another boot: their numbers mean somebody else now, who must not be touched."""
    innocent = subprocess.Popen(["sleep", "1000"])
    before = cells(cove, boxes)
    kill_all(cove)
    for pid in before.values():
        os.kill(int(pid), signal.SIGKILL)
    with open("/proc/%d/stat" % innocent.pid) as file:
        started = file.read().rsplit(")", 1)[1].split()[19]
    for box in boxes:
        path = os.path.join(run_dir(cove), "cells", box["id"])
        told = dict(note(cove, box), pid=innocent.pid, started=started)
        with open(path, "w") as file:
            file.write("".join("%s %s\n" % pair for pair in told.items()) + "end\n")
    real, cove.binary = cove.binary, os.path.join(home, "boot")
    with open(os.path.join(home, "boot_id"), "w") as file:
        file.write("00000000-1111-2222-3333-444444444444\n")
    with open(cove.binary, "w") as file:
        file.write("#!/bin/sh\nexec unshare -m sh -c 'mount --bind %s/boot_id /proc/sys/kernel/random/boot_id && "
                   "exec %s \"$@\"' cove \"$@\"\n" % (home, real))
    os.chmod(cove.binary, 0o755)
    cove.start()
    cove.binary = real
    states = {item["state"] for item in cove.get("/v1/sandboxes").json["items"]}
    c.same(states, {"stopped"}, "END-3 after the next boot every sandbox is stopped, whatever its note says")
    wrong = [i for i, box in enumerate(boxes)
             if c.until(lambda: said(cove, box, "cat /workspace/mark")) != "%d\n" % i]
    c.same(wrong, [], "and the first request starts it again")
    c.ok(innocent.poll() is None, "END-3 who has its number now was not signalled")
    c.same(verify(cove), 0, "and all agree")
    innocent.kill()
    innocent.wait()
    kill_all(cove)  # back to the boot that it is
    for pid in cells(cove, boxes).values():
        os.kill(int(pid), signal.SIGKILL)
    cove.start()


def verify(cove):
    return subprocess.run([c.BIN, "verify", "--data", cove.data], capture_output=True, timeout=60).returncode


def rests(cove, box):
    """PAUSE and THAW, STOP and BUILD again, through the API."""
    path = "/v1/sandboxes/" + box["id"]
    cove.run(box, "rm -f /workspace/count; (while :; do echo x >> /workspace/count; sleep 0.02; done) >/dev/null 2>&1 &")
    c.ok(cove.post(path + "/pause").status in (200, 202, 204), "a sandbox is paused")
    strike(cove, ["warden", "daemon"])
    c.ok(c.until(lambda: cove.get(path).json.get("state") == "paused"), "and still is after kill -9 of both")
    c.ok(cove.post(path + "/resume").status in (200, 202, 204), "the sandbox is resumed")
    first = c.until(lambda: said(cove, box, "wc -l < /workspace/count"))
    c.ok(first and c.until(lambda: int(said(cove, box, "wc -l < /workspace/count") or 0) > int(first)),
         "and what ran in it goes on", first)
    c.ok(cove.post(path + "/stop").status in (200, 202, 204), "the sandbox is stopped")
    c.ok(c.until(lambda: cove.get(path).json["state"] == "stopped") and not note(cove, box),
         "nothing of it runs")
    strike(cove, ["warden"])
    c.ok(cove.get(path).json["state"] == "stopped", "a new warden keeps its disk")
    c.ok(c.until(lambda: cove.post(path + "/start").status in (200, 202, 204)), "the sandbox is started")
    c.ok(c.until(lambda: said(cove, box, "test -s /workspace/count && echo kept") == "kept\n"),
         "with its files")


def drains(cove, boxes):
    done = subprocess.run([c.BIN, "drain", "--data", cove.data], capture_output=True, text=True,
                          timeout=150)
    c.same(done.returncode, 0, "cove drain ends everything")
    if done.returncode:
        c.note(done.stderr)
    c.same(cove.process.wait(10), 0, "cove with it, status 0")
    cove.process = None
    cove.log.close()
    c.same(c.remains(cove), {}, "and no process, cgroup, namespace or loop device is left")
    c.same([f for f in ("cells", "box") if os.listdir(os.path.join(run_dir(cove), f))], [],
           "nor a note, nor a socket")


c.need_root()
home = tempfile.mkdtemp(prefix="cove-test-bin-")
os.chmod(home, 0o755)
binary = os.path.join(home, "cove")
swap(binary, c.BIN)
cove = c.Cove("--on-term=handoff", "--grace", "500ms", binary=binary)
cove.delete(cove.create())
before = c.calm(cove)
boxes = make(cove)
kills(cove, boxes)
away(cove, boxes)
hands_on(cove, boxes)
upgrades(cove, boxes)
rests(cove, boxes[0])
reboot(cove, boxes)
next_boot(cove, boxes)
for box in boxes:
    c.same(cove.delete(box).status, 204, "a sandbox of many lives is deleted, verified")
left = c.settled(before, cove, 15)
left = {k: v for k, v in left.items() if not (k.startswith("fds of") and v[1] - v[0] < 8)}
c.same(left, {}, "the census is as before")
boxes = make(cove, 3)
drains(cove, boxes)
cove.start()
c.same([item["state"] for item in cove.get("/v1/sandboxes").json["items"]], ["stopped"] * 3,
       "what was drained is stopped, and known to the next start")
c.same([cove.delete(box).status for box in boxes], [204] * 3, "and can be deleted")
cove.process.send_signal(signal.SIGINT)
c.same(cove.process.wait(30), 0, "Ctrl-C ends cove and all sandboxes")
cove.process = None
c.same(c.remains(cove), {}, "and nothing is left")
shutil.rmtree(home)
c.done()
