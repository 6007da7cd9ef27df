#!/usr/bin/env python3
"""The state's disk under conversations: full, so that nothing new may begin and nothing that runs may
end; and gone in the midst of a write, cut off at every sector of the journal."""
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import tracing  # noqa: E402

SECTOR, FRAME = 512, 4096 + 24  # of a disk; of the journal
c.need_root()
tracing.need()
c.need_mounts()


# ------------------------------------------------------------------------------------ full
def fill(where):
    with open(os.path.join(where, "fill"), "wb", buffering=0) as file:
        for size in (1 << 16, 4096, 512):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass


def full():
    home = tempfile.mkdtemp(prefix="cove-test-")
    where = os.path.join(home, "data", "daemon")
    os.makedirs(where)
    os.chmod(home, 0o711)
    os.chmod(os.path.dirname(where), 0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m,mode=700", "state", where], check=True)
    cove = s.start(data=os.path.join(home, "data"), scale=10)
    try:
        full_story(cove, where)
    finally:
        cove.stop()
        subprocess.run(["umount", where], check=False)
        cove.end_leftovers()
        shutil.rmtree(home, ignore_errors=True)


def full_story(cove, where):
    busy, warm, cold = (s.Session(cove, user=name) for name in ("busy", "warm", "cold"))
    warm.fate(warm.run())
    cold.fate(cold.run("exit"))
    cold.await_state("none")
    ticks = 12
    run = busy.run("print", times=ticks, every=0.3)
    busy.await_state("active")
    pids, children = busy.roots(), cove.children()
    fill(where)
    refused = []

    def is_refused():
        refused.append(cove.post(warm.path + "/runs", {"input": {"do": "ok"}}))
        return refused[-1].status != 202
    c.ok(c.until(is_refused, 30, 0), "a full state refuses runs at last")  # the journal has a little room in itself
    c.same((refused[-1].status, refused[-1].json["reason"]), (503, "state_unwritable"), "with 503 state_unwritable")
    c.same(cove.post(cold.path + "/runs", {"input": {"do": "ok"}}).status, 503, "and those that would start a runner")
    c.same(s.runners(cove).get(cold.id, []), [], "nothing starts")
    c.same(cove.post("/v1/agent-sessions", {"user": "new", "runner": {"argv": ["/bin/true"]}}).status, 503, "nor is a session made")
    c.same(busy.look(run)["state"], "running", "the known state is reported")
    time.sleep(0.3 * ticks)  # longer than the run takes: its end cannot be kept now
    c.ok(busy.roots() == pids and busy.look(run)["state"] == "running", "running work goes on", busy.look(run))
    os.unlink(os.path.join(where, "fill"))
    c.ok(c.until(lambda: cove.post(cold.path + "/runs", {"input": {"do": "ok"}}).status == 202), "with room it resumes")
    c.same(busy.fate(run), "completed", "the work that ended meanwhile has its end")
    events = busy.events(run)
    told, every = [e["data"] for e in events if e["type"] == "output"], ["tick %d" % i for i in reversed(range(ticks))]
    c.ok(told == every or (set(told) <= set(every) and any(e["type"] == "truncated" for e in events)),
         "and all that it said, or where lines were not kept", events)
    c.same(len([e for e in busy.events(run) if e["type"] == "end"]), 1, "which is told once")
    c.same(cove.children(), children, "without a restart")


# ------------------------------------------------------------------------------- power loss
def load(cove, acked, count):
    """Sessions are made; each that was acknowledged is noted with its moment."""
    def client(number):
        for i in range(count):
            name = "power-%d-%d" % (number, i)
            reply = cove.post("/v1/agent-sessions", {"user": "u%d" % number, "session": name, "runner": {"argv": ["/bin/true"]}})
            if reply.status == 201:
                acked[name] = time.time()
    threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    return threads


def synced(lines):
    """[(moment, bytes)]: from that moment on so much of the journal is on the disk."""
    marks, written = [], 0
    for _, _, moment, call in lines:
        wrote = re.match(r"pwrite64\(.*, (\d+), (\d+)\) = (\d+)", call)
        if wrote:
            written = max(written, int(wrote[2]) + int(wrote[3]))
        took = re.match(r"f(?:data)?sync\(.*\) = 0 <([\d.]+)>", call)
        if took:
            marks.append((moment + float(took[1]), written))
    return marks


def sessions_of(folder, db, journal):
    """What a store that is opened after the cut knows."""
    path = os.path.join(folder, "cove.db")
    with open(path, "wb") as file:
        file.write(db)
    with open(path + "-wal", "wb") as file:
        file.write(journal)
    for end in ("-shm", "-journal"):
        if os.path.exists(path + end):
            os.unlink(path + end)
    at = sqlite3.connect(path)
    try:
        return at.execute("PRAGMA quick_check").fetchall() == [("ok",)], {row[0] for row in at.execute("SELECT id FROM sessions")}
    finally:
        at.close()


def power():
    cove = s.start()
    state = os.path.join(cove.data, "daemon", "cove.db")
    work = s.Session(cove, user="at work")
    work.run("hang")
    work.await_state("active")
    trace = tracing.Trace(cove, "pwrite64,fdatasync,fsync,ftruncate", [cove.children()["daemon"]], ["-T", "-s", "0", "-P", state + "-wal"])
    c.ok(trace.whole, "strace looks at what is written to the journal")
    acked = {}
    threads = load(cove, acked, 4 if c.SHORT else 8)
    for thread in threads:
        thread.join()
    lines = trace.end()
    c.ok(s.power_off(cove), "the power fails")
    with open(state, "rb") as file, open(state + "-wal", "rb") as journal:
        db, wal = file.read(), journal.read()
    marks = synced(lines)
    size = marks[0][1]  # of what the journal held by then; its file is longer
    c.ok(len(acked) > 10 and len(marks) > 3 and marks[-1][1] > marks[0][1] and not any(", 0) = " in line[3] for line in lines),
         "there were commits, one after another", len(acked), marks[-3:])
    safe = {name: max([mark[1] for mark in marks if mark[0] <= moment] or [size]) for name, moment in acked.items()}
    end = marks[-1][1]
    cuts = sorted({size + i for i in range(0, end - size, FRAME)} | set(range(max(size, end - 40 * SECTOR) // SECTOR * SECTOR, end, SECTOR)) |
                  set(range(size // SECTOR * SECTOR, end, 16 * SECTOR)) | set(safe.values()) | {end})
    lost, broken = [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for at, cut in enumerate(cuts):
            # What the disk has in place of what was not written: nothing, zeros, or what lay there before.
            for tail in (b"", b"\0" * (len(wal) - cut), b"\xa5" * SECTOR)[at % 3:at % 3 + 1] if at % 8 else (b"", b"\0" * SECTOR, b"\xa5" * SECTOR):
                whole, known = sessions_of(folder, db, wal[:cut] + tail)
                if not whole:
                    broken.append((cut, tail[:1]))
                lost += [(cut, name) for name in acked if safe[name] <= cut and name not in known]
    c.note("%d cuts of a journal of %d bytes, %d sessions, %d syncs" % (len(cuts), end, len(acked), len(marks)))
    c.same(broken[:5], [], "power loss: cut off anywhere, the store opens, whole")
    c.same(lost[:5], [], "power loss: nothing that was acknowledged is lost")
    middle = sorted(safe.values())[len(safe) // 2]
    for cut in (middle + SECTOR, end):
        with open(state, "wb") as file, open(state + "-wal", "wb") as journal:
            file.write(db)
            journal.write(wal[:cut])
        cove.start()
        due = [name for name in acked if safe[name] <= cut]
        c.same([name for name in due if s.patiently(lambda: cove.get("/v1/agent-sessions/" + name)).status != 200], [],
               "booted from it at %d: the sessions are there" % cut)
        c.ok(work.await_state("none") and not work.pids(), "a run under way has failed, and its lease says so", work.lease())
        c.same(work.fate(work.run()), "completed", "and runs again")
        done = subprocess.run([c.BIN, "verify", "--data", cove.data], capture_output=True, text=True, timeout=60)
        c.same(done.returncode, 0, "record and machine agree")
        if done.returncode:
            c.note(done.stdout + done.stderr)
        s.power_off(cove)
    cove.process = None
    cove.start()
    c.same(cove.close(), 0, "cove ends well")


full()
power()
c.done()
