"""Sessions of a cove under test: made, given runs, watched, killed under."""
import json
import os
import signal
import sqlite3
import threading
import time

import cove as c
from cove import BROKEN, patiently  # noqa: F401
import runner

SCALE = 60
OVER = ("completed", "failed", "interrupted")


def start(*args, scale=SCALE, **kw):
    return c.Cove("--dev", "--time-scale=%d" % scale, "--session-space=16M", *args, **kw)


# A runner that answers late, so that a state can be met; or not at all at first.
SLOW = r'''
class Slow(Odd):
    shy = bool(os.environ.get("RUNNER_SHY")) and os.environ["COVE_GENERATION"] == "1"
    def on_attach(self, word):
        if self.shy:
            self.shy = False
            return
        time.sleep(float(os.environ.get("RUNNER_SLOW", 0)))
        Odd.on_attach(self, word)
    def on_run(self, word):
        time.sleep(float(os.environ.get("RUNNER_LATE", 0)))
        Odd.on_run(self, word)
Slow().live()
'''


def slow():
    return ["/usr/bin/python3", "-c", runner.source().replace("Odd().live()", SLOW)]


class Session:
    def __init__(self, cove, env=None, argv=None, **owner):
        self.cove = cove
        owner.setdefault("user", "u")
        body = dict(owner, runner={"argv": argv or runner.argv(), "env": env or {}})
        reply = patiently(lambda: cove.post("/v1/agent-sessions", body), 5)
        if reply.status not in (200, 201):
            raise RuntimeError("session: %r" % reply)
        self.made = reply.json
        self.id = self.made["id"]
        self.path = "/v1/agent-sessions/" + self.id

    def get(self):
        return patiently(lambda: self.cove.get(self.path)).json

    def lease(self):
        return self.get()["lease"]

    def state(self):
        return self.lease()["state"]

    def await_state(self, *states, seconds=40):
        return c.until(lambda: self.state() in states, seconds, 0.005)

    def run(self, do="ok", **fields):
        reply = patiently(lambda: self.cove.post(self.path + "/runs", {"input": dict(fields, do=do)}), 1)
        if reply.status != 202:
            raise RuntimeError("run: %r" % reply)
        return reply.json["id"]

    def look(self, run):
        return patiently(lambda: self.cove.get("%s/runs/%s" % (self.path, run))).json

    def fate(self, run, seconds=40):
        """What became of a run: "completed", or "failed runner_no_output"."""
        got = c.until(lambda: (lambda g: g if g["state"] in OVER else None)(self.look(run)), seconds, 0.01)
        if not got:
            return "still " + self.look(run)["state"]
        return got["state"] + (" " + got["error"]["code"] if got["error"] else "")

    def events(self, run, offset=0):
        body = patiently(lambda: self.cove.get("%s/runs/%s/events?offset=%d" % (self.path, run, offset))).body
        return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")]

    def delete(self):
        return self.cove.request("DELETE", self.path)

    def pids(self):
        """Host pids of this session's runner processes: in its sandbox's cgroup, with its mark."""
        found = []
        for pid in os.listdir("/proc"):
            if not pid.isdigit():
                continue
            try:
                env = open("/proc/%s/environ" % pid, "rb").read().split(b"\0")
                group = open("/proc/%s/cgroup" % pid).read()
                state = open("/proc/%s/stat" % pid, errors="replace").read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if b"COVE_SESSION=" + self.id.encode() in env and self.made["sandbox_id"] in group and state != "Z":
                found.append(int(pid))
        return found

    def roots(self):
        """Runners: processes with the mark whose parent has it not."""
        pids = self.pids()
        found = []
        for pid in pids:
            try:
                parent = int(open("/proc/%d/stat" % pid, errors="replace").read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent not in pids:
                found.append(pid)
        return found


def programs(cove, box, name):
    """Host pids of what runs under that name in a sandbox: another cove may have one of the same id."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            inside = "/%s/%s" % (cove.instance(), box) in open("/proc/%s/cgroup" % pid).read()
        except OSError:
            continue
        if inside and c._comm(pid) == name:
            found.append(int(pid))
    return found


def fault(cove, point, mode="fail", count=1, session=None):
    body = {"point": point, "mode": mode, "count": count}
    if session:
        body["session"] = session
    reply = cove.post("/v1/dev/faults", body)
    if reply.status != 200:
        raise RuntimeError("fault: %r" % reply)


def clear(cove):
    return cove.request("DELETE", "/v1/dev/faults")


def kill_daemon(cove):
    """kill -9; returns when the supervisor has started another."""
    pid = cove.children()["daemon"]
    os.kill(pid, signal.SIGKILL)
    c.until(lambda: cove.children().get("daemon", pid) != pid, 30, 0.005)
    patiently(lambda: cove.get("/v1/agent-sessions"))


def lease_log(cove, session):
    """The rows that a session's lease went through."""
    rows = []
    for line in cove.log_text().splitlines():
        if '"event":"lease"' in line and session in line:
            rows.append(json.loads(line))
    return rows


def moment(row):
    """Of a line of the log, in seconds."""
    text = row["time"]
    return time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + float("0" + text[19:-1])


def database(cove):
    return sqlite3.connect(os.path.join(cove.data, "daemon", "cove.db"))


def offline(cove, *statements):
    """Stops cove with its sandboxes left alone, changes its state, and starts it again."""
    cove.stop(number=signal.SIGKILL)
    time.sleep(0.3)
    db = database(cove)
    for statement in statements:
        db.execute(*statement) if isinstance(statement, tuple) else db.execute(statement)
    db.commit()
    db.close()
    cove.start()


def hangs(cove, session, point):
    """Whether somebody waits at a point that was set to hang."""
    items = cove.get("/v1/dev/faults").json["items"]
    return any(i["point"] == point and i["session"] == session.id and i["hanging"] for i in items)


def hold(cove, session, point, count=1):
    """Whoever comes to that point next hangs there; one that hangs there already goes on. Returns a wait for it."""
    fault(cove, point, "hang", count, session.id)
    return lambda: c.until(lambda: hangs(cove, session, point), 30, 0.005)


def release(cove, session, point):
    fault(cove, point, "hang", count=0, session=session.id)


def runners(cove):
    """Runners by session, as the kernel has them: processes in cove's cgroups with a mark that their parent has not."""
    pids = set()
    for root in c.cgroup_roots():
        for top, _, _ in os.walk(os.path.join(root, "cove", cove.instance())):
            try:
                with open(os.path.join(top, "cgroup.procs")) as procs:
                    pids.update(procs.read().split())
            except OSError:
                pass
        if pids:
            break
    seen = {}
    for pid in pids:
        try:
            with open("/proc/%s/environ" % pid, "rb") as environ, open("/proc/%s/stat" % pid, errors="replace") as stat:
                marks = [v[13:].decode() for v in environ.read().split(b"\0") if v.startswith(b"COVE_SESSION=")]
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if marks and fields[0] not in "ZX":
            seen[pid] = (marks[0], fields[1])
    found = {}
    for pid, (session, parent) in seen.items():
        if parent not in seen:
            found.setdefault(session, []).append(int(pid))
    return found


class Sampler(threading.Thread):
    """The most runners that a session had at once, looked at every 10 ms."""

    def __init__(self, cove):
        super().__init__(daemon=True)
        self.cove, self.most, self.samples, self.stop = cove, {}, 0, False
        self.start()

    def run(self):
        while not self.stop:
            for session, pids in runners(self.cove).items():
                self.most[session] = max(self.most.get(session, 0), len(pids))
            self.samples += 1
            time.sleep(0.01)

    def end(self):
        self.stop = True
        self.join()
        return self.most


def power_off(cove):
    """Everything ends without a word, and the kernel forgets its groups."""
    os.kill(cove.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, cove.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # it starts no more children
    pids = cove.children()
    for pid in list(pids.values()) + [cove.process.pid]:
        os.kill(pid, signal.SIGKILL)
    cove.process.wait()
    cove.log.close()
    cove.end_leftovers()

    def dead():
        for group in sorted(c._groups(cove.instance()), key=len, reverse=True):
            try:
                os.rmdir(group)
            except OSError:
                pass
        return not any(c._is_boxed(pid, cove.instance()) for pid in c._pids())
    return c.until(dead, 30, 0.05)
