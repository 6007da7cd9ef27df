#!/usr/bin/env python3
"""The physical seam, watched by strace and by the kernel's own books: who signals whom, and when; who is not signalled;
and that nothing is started or reused that should not be."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import runner  # noqa: E402
import tracing  # noqa: E402

c.need_root()
tracing.need()
SIGNALS = "kill,tkill,tgkill,pidfd_send_signal"
BIRTHS = "clone,clone3,fork,vfork,execve,execveat"


def ours(cove, boxes=True):
    """Daemon, warden and its helpers, and what of cove lives in sandboxes."""
    pids = list(cove.children().values())
    for pid in c._pids():
        try:
            with open("/proc/%d/stat" % pid, errors="replace") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if (parent == pids[0] or parent == pids[1]) and not c._is_boxed(pid, cove.instance()):
            pids.append(pid)
        elif boxes and c._is_boxed(pid, cove.instance()) and c._comm(pid) in ("cove-init", "cove-files"):
            pids.append(pid)
    return sorted(set(pids))


def strikes(lines):
    """Signals that end something, but for those to helpers of cove's own in a sandbox."""
    return [line for line in lines if ("SIGKILL" in line[3] or "SIGTERM" in line[3] or "cgroup.kill" in line[3]) and
            "<cove-" not in line[3].split("SIG")[0] and "ESRCH" not in line[3]]


def windows(cove, session):
    """From when to when its lease said "stopping"."""
    found, began = [], None
    for row in s.lease_log(cove, session.id):
        if row["to"] == "stopping":
            began = s.moment(row)
        elif began:
            found.append((began, s.moment(row) + 0.05))
            began = None
    return found


# -----------------------------------------------------------------------------------------
cove = s.start()
asked, stubborn, deleted, swept = sessions = [
    s.Session(cove, user="watched", env={"RUNNER_STUBBORN": "1"} if i == 1 else None) for i in range(4)]
for session in sessions:
    session.fate(session.run())
trace = tracing.Trace(cove, SIGNALS + ",openat", ours(cove))
c.ok(trace.whole, "strace looks at daemon, warden and sandbox")
for session in (asked, stubborn):
    session.run("hang")
    session.await_state("active")
    c.same(cove.post(session.path + "/interrupt").status, 202, "an interrupt")
    session.await_state("none")
swept.run()
deleted.run()
deleted.await_state("warm")
c.ok(deleted.delete().status in (202, 204) and c.until(lambda: cove.get(deleted.path).status == 404), "a DELETE")
c.same(cove.post("/v1/cleanup").status, 200, "a sweep")
c.ok(swept.await_state("none"), "the sweep of what was kept warm", swept.lease())
daemon = cove.children()["daemon"]
lines = trace.end()
struck = strikes(lines)
mine = {x.id: windows(cove, x) for x in sessions}
early = [line for line in struck if not any(a <= line[2] <= b for spans in mine.values() for a, b in spans)]
c.same(early, [], "signals only while a lease says stopping")
unsigned = [x for x in mine if not any(a <= line[2] <= b for line in struck for a, b in mine[x])]
c.same(unsigned, [], "and each of them was ended by one")
c.ok(any("SIGTERM" in line[3] for line in struck) and any("cgroup.kill" in line[3] or "SIGKILL" in line[3] for line in struck),
     "politely first, then by force", struck)
c.same([line for line in struck if line[0] == daemon], [], "none of them by the daemon itself")

# -----------------------------------------------------------------------------------------
x, y = s.Session(cove, user="impostor"), s.Session(cove, user="victim")
x.fate(x.run())
y.fate(y.run())
with open("/proc/%d/environ" % y.roots()[0], "rb") as environ:
    marks = dict(v.decode().split("=", 1) for v in environ.read().split(b"\0") if v.startswith(b"COVE_"))
threading.Thread(target=lambda: cove.execute(x.made["sandbox_id"], ["sleep", "300"], env=marks), daemon=True).start()


def impostors():
    return [pid for pid in s.runners(cove).get(y.id, []) if x.made["sandbox_id"] in open("/proc/%d/cgroup" % pid).read()]


c.ok(c.until(impostors), "a process in another sandbox bears all marks of a live runner")
same = impostors()
before = y.roots()
c.same(y.fate(y.run()), "completed", "the next run of the real one")
c.same((y.roots(), y.lease()["generation"]), (before, 1), "is its own runner's: nobody takes the other for it")
c.same(y.delete().status, 204, "the session is deleted")
c.same((impostors(), y.pids()), (same, []), "the impostor lives, the runner does not")

# -----------------------------------------------------------------------------------------
box = x.made["sandbox_id"]
program = "#!/usr/bin/python3\n" + runner.source()
cove.run(box, "printf %s \"$P\" > /workspace/agent; chmod 755 /workspace/agent", env={"P": program})
agent = s.Session(cove, user="impostor", argv=["/workspace/agent"])
c.same(agent.fate(agent.run()), "completed", "a runner of one version")
first = agent.roots()
sampler = s.Sampler(cove)
cove.run(box, "sed '$a # another' /workspace/agent > /workspace/new; chmod 755 /workspace/new; mv /workspace/new /workspace/agent")
c.same(agent.state(), "warm", "is replaced while it is warm")
c.same(agent.fate(agent.run()), "completed", "the next run")
most = sampler.end()
c.ok(agent.lease()["generation"] == 2 and agent.roots() != first, "is another runner's", agent.lease())
c.same(most.get(agent.id), 1, "and they were never two at once")
rows = [r["row"] for r in s.lease_log(cove, agent.id)]
c.ok(rows[4:8] == ["15", "18", "20", "1"], "the old one was stopped, and verified gone, first", rows)

# -----------------------------------------------------------------------------------------
OLD = r'''
class Old(Odd):
    def send(self, word):
        if word.get("type") == "hello":
            with open(os.environ["COVE_WORKSPACE"] + "/hellos", "a") as file:
                file.write(json.dumps(word) + "\n")
        Odd.send(self, word)
    def work(self, word):
        if word["input"]["do"] != "again":
            return Odd.work(self, word)
        self.over = False
        self.output("working")
        with open(os.environ["COVE_WORKSPACE"] + "/hellos") as file:
            said = [json.loads(line) for line in file]
        old = [hello for hello in said if hello["connection"] != self.connection]
        for hello in old:
            Odd.send(self, hello)
        self.later(0.3, lambda: self.done([hello["connection"] for hello in old]))
Old().live()
'''
old = s.Session(cove, user="replay", argv=["/usr/bin/python3", "-c", runner.source().replace("Odd().live()", OLD)])
old.fate(old.run())
os.kill(old.roots()[0], signal.SIGKILL)
c.until(lambda: not old.roots())
for how in ("by the runner that followed it", "after a restart of the daemon"):
    run = old.run("again")
    c.same(old.fate(run), "completed", "an old hello is said again, " + how)
    told = old.look(run)["result"]["output"]
    stale = set(re.findall(r'"event":"runner.stale_message","session":"%s","connection":"(\d+)"' % old.id, cove.log_text()))
    c.ok(told and {str(n) for n in told} <= stale, "each is refused", told, stale)
    rows = [r["row"] for r in s.lease_log(cove, old.id)][-3:]
    c.same((rows, old.lease()["generation"]), (["4", "8", "9"], 2), "and changes nothing")
    s.kill_daemon(cove)

# -----------------------------------------------------------------------------------------
parked = [s.Session(cove, user="parked", isolation="session") for _ in range(10)]
for session in parked:
    cove.post("/v1/sandboxes", {"name": session.id.replace("_", "-")})
boxes = [i["id"] for i in cove.get("/v1/sandboxes?limit=100").json["items"] if (i["name"] or "").startswith("session-")]
c.same([cove.post("/v1/sandboxes/%s/stop" % box).json["state"] for box in boxes], ["stopped"] * 10, "ten sandboxes are stopped")
c.calm(cove)  # what is prepared for others is, by then
trace = tracing.Trace(cove, BIRTHS, [cove.children()["warden"]] + [p for p in ours(cove, False) if p != cove.children()["daemon"]])
rounds = cove.get("/v1/cleanup").json["rounds"]
c.same([cove.post("/v1/cleanup").status for _ in range(3)], [200] * 3, "the sweep goes over them")
c.ok(c.until(lambda: cove.get("/v1/cleanup").json["rounds"] >= rounds + 4), "by itself, too")
swept_at = time.time()
cove.run(boxes[0], "true")
lines = trace.end()
c.same([line for line in lines if line[2] < swept_at], [], "and starts no process")
c.ok([line for line in lines if line[2] >= swept_at], "which would have been seen: a request does")
c.same({cove.get("/v1/sandboxes/" + box).json["state"] for box in boxes[1:]}, {"stopped"}, "they are stopped still")
for box in boxes:
    cove.delete(box)


# -----------------------------------------------------------------------------------------
def started(pid):
    with open("/proc/%d/stat" % pid, errors="replace") as stat:
        return stat.read().rsplit(")", 1)[1].split()[19]


def give_pid(cove, session, pid, start):
    """The notes of the last boot name a process that is somebody else's by now."""
    path = os.path.join(cove.data, "run", "cells", session.made["sandbox_id"])
    with open(path, "rb+") as file:
        text = file.read()
        text = re.sub(rb"\npid \d+\n", b"\npid %d\n" % pid, text)
        text = re.sub(rb"\nstarted \d+\n", b"\nstarted %s\n" % start.encode(), text)
        text = text.rstrip(b"\n") + b"\n"
        file.seek(0)
        file.write(text.ljust(512, b"\n"))
    db = s.database(cove)
    (body,), = db.execute("SELECT body FROM leases WHERE id = ?", (session.id,)).fetchall()
    lease = json.loads(body)
    c.ok("pid" in json.dumps(lease), "the stored lease names a process", lease)
    text = re.sub(rb'"pid":\d+', b'"pid":%d' % pid, re.sub(rb'"start":\d+', b'"start":%s' % start.encode(), bytes(body)))
    db.execute("UPDATE leases SET body = ? WHERE id = ?", (text, session.id))
    db.commit()
    db.close()


def boot(cove, boot_id):
    """A start that sees another boot, watched from its first call on."""
    out, wrapper, name = (os.path.join(cove.home, n) for n in ("boot.trace", "boot.sh", "boot.id"))
    with open(name, "w") as file:
        file.write(boot_id + "\n")
    with open(wrapper, "w") as file:
        file.write("#!/usr/bin/env -S unshare -m --propagation private /bin/sh\n"
                   "mount --bind %s /proc/sys/kernel/random/boot_id || exit 1\n"
                   "exec strace -D -f -ttt -y --decode-pids=comm -o %s -e trace=%s %s \"$@\"\n" % (name, out, SIGNALS, c.BIN))
    os.chmod(wrapper, 0o755)
    cove.binary = wrapper
    cove.start()
    return out


innocent = subprocess.Popen(["sleep", "600"])
with open("/proc/sys/kernel/random/boot_id") as file:
    this_boot = file.read().strip()
for name, boot_id in (("after a reboot", "00000000-1111-2222-3333-444444444444"), ("in the same boot, with another start time", this_boot)):
    here = s.Session(cove, user="rebooted")
    c.same(here.fate(here.run()), "completed", "a runner, " + name)
    c.ok(s.power_off(cove), "everything is gone, without a word")
    give_pid(cove, here, innocent.pid, started(innocent.pid) if boot_id != this_boot else "12345")
    out = boot(cove, boot_id)
    c.ok(here.await_state("none"), "%s its lease becomes none" % name, here.lease())
    hits = [line for line in tracing.read(out) if str(innocent.pid) in line[3] and ", 0)" not in line[3]]
    c.same(hits, [], "%s the process that bears its number is not signalled" % name)
    c.same(strikes(tracing.read(out)), [], "nor anybody else")
    c.same(innocent.poll(), None, "the process that reused the pid lives")
    c.same(here.fate(here.run()), "completed", "the next run is a new runner's")
    c.same(here.lease()["generation"], 2, "of the next generation")
innocent.kill()
innocent.wait()
c.same(cove.close(), 0, "cove ends well")
c.done()
