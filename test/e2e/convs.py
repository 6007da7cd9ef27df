"""Sessions of a cove under test: made, given runs, watched, killed under."""
import http.client
import json
import os
import signal
import sqlite3
import time

import cove as c
import runner

SCALE = 60
BROKEN = (OSError, ValueError, http.client.HTTPException)
OVER = ("completed", "failed", "interrupted")


def start(*args, scale=SCALE, **kw):
    return c.Cove("--dev", "--time-scale=%d" % scale, "--session-space=16M", *args, **kw)


def patiently(ask, seconds=40):
    """The answer of a request that may find nobody, or a daemon that is just starting."""
    end = time.monotonic() + seconds
    while True:
        try:
            reply = ask()
            if reply.status != 503 or time.monotonic() > end:
                return reply
        except BROKEN:
            if time.monotonic() > end:
                raise
        time.sleep(0.02)


class Session:
    def __init__(self, cove, env=None, argv=None, **owner):
        self.cove = cove
        owner.setdefault("user", "u")
        body = dict(owner, runner={"argv": argv or runner.argv(), "env": env or {}})
        reply = patiently(lambda: cove.post("/v1/sessions", body), 5)
        if reply.status not in (200, 201):
            raise RuntimeError("session: %r" % reply)
        self.made = reply.json
        self.id = self.made["id"]
        self.path = "/v1/sessions/" + self.id

    def get(self):
        return patiently(lambda: self.cove.get(self.path)).json

    def lease(self):
        return self.get()["lease"]

    def state(self):
        return self.lease()["state"]

    def await_state(self, *states, seconds=20):
        return c.until(lambda: self.state() in states, seconds, 0.005)

    def run(self, do="ok", **fields):
        reply = patiently(lambda: self.cove.post(self.path + "/runs", {"input": dict(fields, do=do)}), 1)
        if reply.status != 202:
            raise RuntimeError("run: %r" % reply)
        return reply.json["id"]

    def look(self, run):
        return patiently(lambda: self.cove.get("%s/runs/%s" % (self.path, run))).json

    def fate(self, run, seconds=20):
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
                state = open("/proc/%s/stat" % pid).read().rsplit(")", 1)[1].split()[0]
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
                parent = int(open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent not in pids:
                found.append(pid)
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
    c.until(lambda: cove.children().get("daemon", pid) != pid, 20, 0.005)
    patiently(lambda: cove.get("/v1/sessions"))


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
