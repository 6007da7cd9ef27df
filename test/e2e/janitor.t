#!/usr/bin/env python3
"""The janitor: goes round by itself and on demand, never twice at once, and ends what nobody needs, by the proper ways."""
# alone: an hour is a minute here, and a second of waiting for a processor too long for a lease
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

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


# Beside all that follows: work that takes longer than 30 minutes
slow = s.start()
busy = s.Session(slow, user="busy")
long = busy.run("print", times=62, every=0.5)

# On demand, and never two at once
cove = c.Cove()
c.ok(c.until(lambda: look(cove)["rounds"] >= 1), "E-1 the first round is at the start")
box = cove.create()
before = look(cove)["rounds"]
swept = cove.post("/v1/cleanup")
c.ok(swept.status == 200 and set(swept.json) == FIELDS and swept.json["scanned"] >= 2, "E-1, E-6 a round on demand tells what it did", swept)
c.same(look(cove)["rounds"], before + 1, "one request is one round")
answers = []
threads = [threading.Thread(target=lambda: answers.append(cove.post("/v1/cleanup").json)) for _ in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
rounds = look(cove)
c.ok(len({json.dumps(a) for a in answers}) <= rounds["rounds"] - before - 1 and len(answers) == 8, "E-1 eight at once are no eight rounds at a time", rounds["rounds"], before)
c.ok(len(rounds["history"]) == rounds["rounds"] and rounds["history"][0] == rounds["last"] and
     rounds["total"]["scanned"] >= rounds["last"]["scanned"], "last, total and history", rounds)
c.same(cove.out(box, "echo alive"), "alive\n", "live and young sandboxes are left alone")
c.same(cove.stop(), 0, "cove ends")

# By the clock
cove = c.Cove("--dev", "--time-scale", "300", "--sleep-after", "10m")
c.ok(c.until(lambda: look(cove)["rounds"] >= 3, 15), "the janitor runs by itself: every 5 minutes, a second at this scale")


def instances():
    """Directories of this cove's control groups, one a hierarchy that boxes have groups of their own in."""
    tops = [os.path.join(root, "cove", cove.instance()) for root in c.cgroup_roots() if "devices" not in root]
    return [top for top in tops if os.path.isdir(top)]


def sh(*argv):
    return subprocess.run(argv, capture_output=True, text=True)


def plant():
    """One of each kind of thing that cove makes, all of them nobody's: {kind: (is it there, path)}."""
    ids = {kind: "box-" + os.urandom(24).hex() for kind in
           ("group", "process", "disk", "mount", "inner mount", "image", "note", "socket", "tapes")}
    data, run = cove.data, os.path.join(cove.data, "run")
    found = {}
    for kind in ("group", "process"):
        for top in instances():
            os.mkdir(os.path.join(top, ids[kind]))
    victim = subprocess.Popen(["sleep", "1000"])
    for top in instances():
        try:
            with open(os.path.join(top, ids["process"], "cgroup.procs"), "w") as file:
                file.write(str(victim.pid))
        except OSError:
            pass  # on a pure v2 host with domain controllers, or where it is there already
    groups = lambda kind: lambda: any(os.path.isdir(os.path.join(top, ids[kind])) for top in instances())
    found["group"], found["process"] = groups("group"), lambda: groups("process")() or victim.poll() is None
    for kind in ("disk", "mount", "inner mount"):
        os.mkdir(os.path.join(data, "boxes", ids[kind]))
        open(os.path.join(data, "boxes", ids[kind], "bytes"), "w").close()
    where = os.path.join(data, "boxes", ids["mount"])
    sh("mount", "-t", "tmpfs", "stray", where)
    sh("nsenter", "-t", str(cove.children()["warden"]), "-m", "mount", "-t", "tmpfs", "stray", os.path.join(data, "boxes", ids["inner mount"]))
    for kind in ("disk", "mount", "inner mount"):
        found[kind] = lambda path=os.path.join(data, "boxes", ids[kind]): os.path.exists(path)
    found["mount"] = lambda was=found["mount"]: was() or ids["mount"] in open("/proc/self/mountinfo").read()
    found["inner mount"] = lambda was=found["inner mount"]: was() or \
        ids["inner mount"] in open("/proc/%d/mountinfo" % cove.children()["warden"]).read()
    image = os.path.join(data, "boxes", ids["image"] + ".img")
    with open(image, "wb") as file:
        file.truncate(4 << 20)
    sh("losetup", "-f", image)
    found["image"] = lambda: os.path.exists(image) or c._loops(image) > 0
    with open(os.path.join(run, "cells", ids["note"]), "w") as file:
        file.write("nobody")
    found["note"] = lambda: os.path.exists(os.path.join(run, "cells", ids["note"]))
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here = os.open(os.path.join(run, "box"), os.O_PATH)
    ear.bind("/proc/self/fd/%d/%s" % (here, ids["socket"]))
    os.close(here)
    found["socket"] = lambda: os.path.exists(os.path.join(run, "box", ids["socket"]))
    tapes = os.path.join(data, "daemon", "tapes", ids["tapes"])
    os.mkdir(tapes)
    shutil.chown(tapes, os.stat(os.path.join(data, "daemon")).st_uid, os.stat(os.path.join(data, "daemon")).st_gid)
    found["tapes"] = lambda: os.path.isdir(tapes)
    layer = os.path.join(data, "layers", ".new-%x" % 0xdead)
    os.makedirs(os.path.join(layer, "root", "etc"))
    found["half a template"] = lambda: os.path.isdir(layer)
    return found, victim


keeper = cove.create(keepAlive=True, name="keeper")
before = look(cove)["total"]
leaked, victim = plant()
foreign = [os.path.join(root, "box-" + os.urandom(24).hex()) for root in c.cgroup_roots() if "pids" in root or "unified" in root]
foreign += [os.path.join(cove.data, *rest) for rest in (("boxes", "operators-own"), ("daemon", "tapes", "notes"), ("run", "cells", "readme"))]
for path in list(foreign):
    try:
        os.mkdir(path)
    except OSError:
        foreign.remove(path)
c.same([kind for kind, is_there in leaked.items() if not is_there()], [], "one resource of each kind is planted")
began = time.monotonic()
c.until(lambda: not any(is_there() for is_there in leaked.values()), 20)
for kind, is_there in leaked.items():
    c.ok(not is_there(), "E-5 a leaked %s is removed" % kind)
c.ok(time.monotonic() - began > 1.5, "E-5 after 10 minutes, not before", time.monotonic() - began)
c.ok(foreign and all(map(os.path.isdir, foreign)), "E-5 a cgroup that is not cove's is untouched", foreign)
for path in foreign:
    os.rmdir(path)
victim.wait()
after = c.until(lambda: (lambda t: t if t["orphansTerminated"] - before["orphansTerminated"] >= len(leaked) else None)(look(cove)["total"]), 5) or look(cove)["total"]
c.same((after["orphansFound"] - before["orphansFound"], after["orphansTerminated"] - before["orphansTerminated"], after["failedAttempts"]),
       (len(leaked), len(leaked), before["failedAttempts"]), "and each is counted once")
rounds = look(cove)
c.same({key: sum(r[key] for r in rounds["history"]) for key in ("scanned", "orphansTerminated", "oldDeleted", "failedAttempts")},
       {key: rounds["total"][key] for key in ("scanned", "orphansTerminated", "oldDeleted", "failedAttempts")}, "the rounds add up to the total")
gone = cove.create(name="gone")
victim = pid1(cove, gone)
c.ok(victim is not None, "a sandbox has a pid 1")
os.kill(victim, signal.SIGKILL)
c.ok(c.until(lambda: cove.get("/v1/sandboxes/gone").json["state"] in ("failed", "stopped")), "a sandbox whose pid 1 dies has failed")
lost = cove.get("/v1/sandboxes/gone").json
c.same(lost.get("reason"), "box_lost", "and says so")
time.sleep(2.5)
c.same(cove.get("/v1/sandboxes/gone").status, 200, "its files are not swept away")
c.same(cove.post("/v1/sandboxes/gone/start").json.get("state"), "running", "the sandbox starts again on its files")
c.same(cove.out(keeper, "echo alive"), "alive\n", "a healthy one outlives all the timers")


def state(cove):
    return os.path.join(cove.data, "daemon", "cove.db")


# What cannot be read is no reason to end anything
c.kill_all(cove)
good = [end for end in ("", "-wal") if os.path.exists(state(cove) + end)]
for end in good:
    shutil.copy(state(cove) + end, cove.data + ".good" + end)
with open(state(cove), "r+b") as file:
    file.write(b"\x5a" * 4096)
if os.path.exists(state(cove) + "-wal"):
    os.unlink(state(cove) + "-wal")
cove.start()
c.ok(c.until(lambda: look(cove)["rounds"] >= 2), "the janitor goes round with a store that cannot be read")
time.sleep(4)
c.ok(any(keeper["id"] in group for group in c._groups(cove.instance())), "nothing is reaped because something could not be read")
c.same({r["orphansFound"] for r in look(cove)["history"]}, {0}, "nothing is called an orphan")
c.kill_all(cove)
for end in good:
    subprocess.run(["cp", cove.data + ".good" + end, state(cove) + end], check=True)
    shutil.chown(state(cove) + end, os.stat(os.path.join(cove.data, "daemon")).st_uid, os.stat(os.path.join(cove.data, "daemon")).st_gid)
cove.start()
c.same(cove.out(keeper, "echo alive"), "alive\n", "with the store restored it is all there")

# One that cannot be ended blocks nobody
span = 86400000 // 300  # the greatest age, scaled
now = int(time.time() * 1000)
c.kill_all(cove)
with sqlite3.connect(state(cove)) as db:
    body = json.loads(db.execute("SELECT body FROM boxes WHERE name = 'keeper'").fetchone()[0])
    for i in range(49):
        db.execute("INSERT INTO boxes (id, seq, tenant, name, state, body) VALUES (?, ?, '', ?, 'failed', ?)",
                   ("box-%048x" % (0xabc0000 + i), 5000 + i, "old-%d" % i, json.dumps(dict(body, reason="box_lost", diskKept=False, failed=now - span + 20000 + i))))
db.close()
cove.start()
bad = cove.create(name="bad")
holder = subprocess.Popen(["sleep", "1000"])
for top in instances():
    try:
        with open(os.path.join(top, bad["id"], "cgroup.procs"), "w") as file:
            file.write(str(holder.pid))
    except OSError:
        pass
cove.request("DELETE", "/v1/sandboxes/bad?wait=false")
c.ok(c.until(lambda: any(r["oldDeleted"] == 49 and r["failedAttempts"] == 1 for r in look(cove)["history"]), 60),
     "one cannot be ended, the other 49 go in the same round", look(cove)["history"][:3])
said = [json.loads(line) for line in cove.log_text().splitlines() if '"alert":"cleanup_failed"' in line and bad["id"] in line]
c.ok(said and said[-1]["severity"] == "warning", "E-7 an alert names it", said[-1:])
c.same(cove.get("/v1/sandboxes/" + bad["id"]).json.get("state"), "deleting", "E-4 its record stays until it is verified gone")
holder.kill()
holder.wait()
c.ok(c.until(lambda: cove.get("/v1/sandboxes/" + bad["id"]).status == 404, 20), "E-7 the delete is retried, and succeeds")
c.same(cove.stop(), 0, "cove ends")
c.same(c.remains(cove), {}, "nothing is left behind")

# 120 old records
cove = c.Cove("--sweep-every", "1h")
cove.create(name="model")
c.same(cove.stop(), 0, "cove ends")
now = int(time.time() * 1000)
with sqlite3.connect(state(cove)) as db:
    body = json.loads(db.execute("SELECT body FROM boxes WHERE name = 'model'").fetchone()[0])
    for i in range(120):
        db.execute("INSERT INTO boxes (id, seq, tenant, name, state, body) VALUES (?, ?, '', ?, 'failed', ?)",
                   ("box-%048x" % i, 1000 + (i * 37) % 120, "old-%d" % i, json.dumps(dict(body, reason="box_lost", diskKept=False, failed=now - 2 * 86400000 + i))))
    db.execute("INSERT INTO boxes (id, seq, tenant, name, state, body) VALUES (?, 2000, '', 'young', 'failed', ?)",
               ("box-%048x" % 9999, json.dumps(dict(body, reason="box_lost", diskKept=False, failed=now - 23 * 3600000))))
db.close()
cove.start()
left = lambda: sorted(int(i["name"][4:]) for i in cove.get("/v1/sandboxes?limit=1000").json["items"] if i["name"].startswith("old-"))
c.ok(c.until(lambda: look(cove)["rounds"] >= 1, 15), "120 old records: the first sweep is at the start")
c.same(left(), list(range(50, 120)), "E-2 the 50 oldest are gone")
c.same(look(cove)["last"]["backlog"], 70, "E-2 the rest is told as backlog")
cove.post("/v1/cleanup")
c.same(left(), list(range(100, 120)), "then 50 more")
cove.post("/v1/cleanup")
c.same(left(), [], "then the last 20")
c.same([r["oldDeleted"] for r in reversed(look(cove)["history"])], [50, 50, 20], "as it is counted")
c.same((cove.get("/v1/sandboxes/young").status, cove.get("/v1/sandboxes/model").status), (200, 200), "a failed sandbox younger than 24 h stays")
c.same(cove.stop(), 0, "cove ends")

# Sessions: a start that hangs, work that goes on
cove = s.start(scale=120)
orphan = s.Session(cove, user="orphan")
s.fault(cove, "launch", "hang", session=orphan.id)
began = time.monotonic()
run = orphan.run()
orphan.await_state("starting")
# By the log: the states of its end may be over between two looks.
c.ok(c.until(lambda: "startup-failed" in [row.get("reason") for row in s.lease_log(cove, orphan.id)], 15), "E-2 a start that hangs is terminated",
     orphan.lease())
took = time.monotonic() - began
c.ok(4.5 < took, "not before 10 minutes (scaled)", took)
c.same(orphan.fate(run), "completed", "its record is kept, and the run is tried anew")
c.ok("startup-failed" in [row.get("reason") for row in s.lease_log(cove, orphan.id)], "with the reason", s.lease_log(cove, orphan.id))
cove.post("/v1/cleanup")
c.same([look(cove)["total"][key] for key in ("orphansFound", "orphansTerminated")], [1, 1], "E-6 the runner is counted as one orphan")
c.same(busy.fate(long, 40), "completed", "E-3 a session with heartbeats lives past 30 minutes (scaled)")
c.same(slow.stop(60), 0, "cove ends")

# The end: with 20 runs under way. At a scale at which a busy machine starts 20 runners in the time that one has.
c.same(cove.stop(60), 0, "cove ends")
cove = s.start(scale=4)
COUNT = 6 if c.SHORT else 20
sessions = [s.Session(cove, user="end%d" % (i % 4)) for i in range(COUNT)]
runs = [one.run("sleep", seconds=600) for one in sessions]
c.ok(c.until(lambda: all(one.state() == "active" for one in sessions), 60, 0.2), "%d runs are under way" % COUNT)
c.kill_all(cove)
cove.start()
c.ok(c.until(lambda: sum(one.state() == "active" for one in sessions) == COUNT, 60, 0.2), "after kill -9 and a start they go on",
     [one.state() for one in sessions])
began = time.monotonic()
c.same(cove.stop(60), 0, "E-8 TERM: the exit status is 0")
c.ok(time.monotonic() - began < 40, "E-8 within its limit", time.monotonic() - began)
c.same(c.remains(cove), {}, "E-8 no process, control group or mount is left")
c.same(c._mounts("self", cove), 0, "nothing is mounted")
c.done()
