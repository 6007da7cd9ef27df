#!/usr/bin/env python3
"""Every kill point of supervisor, warden and daemon (base/fault.h), one after another, and pairs of them, the second during
the recovery from the first, under a small load of every kind. After each: nothing that was acknowledged is lost, doubled or
told gone, and `cove verify` is clean.

The points are those that a dry run meets. KILLPOINTS_SEED repeats a walk; KILLPOINTS names points, PAIRS how many pairs
(COVE_SOAK: all of them); KILLPOINTS_SECONDS bounds the walk."""
# alone: it waits for starts
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import convs  # noqa: E402
from killpoints import Points  # noqa: E402
from live import api  # noqa: E402
from wsclient import Closed, Refused, Terminal  # noqa: E402

SOAK = bool(os.environ.get("COVE_SOAK"))
SEED = int(os.environ.get("KILLPOINTS_SEED") or random.randrange(1 << 30))
PAIRS = int(os.environ.get("PAIRS") or 100)
SECONDS = int(os.environ.get("KILLPOINTS_SECONDS") or (1 << 30 if SOAK else 200 if c.SHORT else 400))
WEAK = os.environ.get("COVE_WEAK_BIN", os.path.join(c.ROOT, "build", "weak", "cove"))
LINES = 40
ROUNDS = 4  # of the dry run
WALKERS = int(os.environ.get("WALKERS") or 3)
CUT = c.BROKEN + (Closed, Refused, AssertionError)


class House(c.Cove):
    """A cove whose supervisor is started again as soon as it is dead."""

    def __init__(self, points, **kw):
        self.over = False
        super().__init__("--dev", "--time-scale=4", "--session-space=16M", "--on-term=handoff", binary=WEAK,
                         env={"COVE_KILL_POINTS": points}, **kw)
        self.guard = threading.Thread(target=self.keep, daemon=True)
        self.guard.start()

    def keep(self):
        while not self.over:
            if self.process.poll() is not None and not self.over:
                self.log.close()
                self.await_ready(self.launch())
            time.sleep(0.01)

    def close(self):
        self.over = True
        return super().close()


def surely(ask, good, seconds=60):
    """The first reply that `good` takes; None when there was none in time. Errors and cut connections are said again."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            last = ask()
            if good(last):
                return last
        except CUT as error:
            last = error
        time.sleep(0.02)
    raise AssertionError("no answer in time; the last: %r" % (last,))


def status(*wanted):
    return lambda reply: reply.status in wanted


class Round:
    """A sandbox and one piece of work of each kind in it. A method that returns was acknowledged; `audit` says what of all
    that is not so."""

    def __init__(self, cove, number):
        self.cove, self.number, self.told = cove, number, {}
        self.box = None

    def say(self, kind, fact):
        self.told[kind] = fact

    def make(self):
        reply = surely(lambda: self.cove.request("PUT", "/v1/sandboxes/round-%d" % self.number, {}), status(200, 201))
        self.box = reply.json

    def process(self):
        name, code = "p%d" % self.number, self.number % 100
        command = "for i in $(seq %d); do echo $i; done; sleep 0.3; echo end; exit %d" % (LINES, code)
        body = {"command": command, "processId": name}
        # A start whose answer was lost has begun all the same.
        surely(lambda: self.cove.post(api(self.box, "process/start"), body), status(200, 409))
        self.say("process", (name, code))

    def command(self):
        surely(lambda: self.cove.execute(self.box, "x=%d; echo $x" % self.number, sessionId="s"),
               lambda reply: reply.status == 200 and reply.json["stdout"].strip() == str(self.number))
        self.say("session", str(self.number))

    def cell(self):
        made = surely(lambda: self.cove.post(api(self.box, "contexts"), {"language": "python"}), status(200)).json
        body = {"context_id": made["contextId"], "code": "import time; time.sleep(0.2); print('cell'); %d" % self.number}
        reply = surely(lambda: self.cove.post(api(self.box, "execute/code"), body), status(200))
        self.say("cell", (made["contextId"], reply.headers.get("X-Cell")))

    def upload(self):
        self.bytes = os.urandom(3000)
        path = api(self.box, "files/tmp/up")
        surely(lambda: self.cove.request("PUT", path, self.bytes, raw=True), status(200, 201, 204))
        self.say("upload", self.bytes)

    def terminal(self):
        def speak():
            term = Terminal(self.cove, self.box, "sessionId=t")
            try:
                term.until(event="ready")
                term.type("v=%d; echo te''rm-$v\n" % self.number)
                return term.until(b"term-%d\r\n" % self.number)
            finally:
                term.close()
        surely(speak, bool)
        self.say("terminal", b"term-%d\r\n" % self.number)

    def expose(self):
        path = "/v1/sandboxes/%s/ports" % self.box["id"]
        reply = surely(lambda: self.cove.post(path, {"port": 8080, "token": "t%d" % self.number}), status(200, 201))
        self.say("port", reply.json["token"])

    def agent(self):
        body = {"user": "u%d" % self.number, "aliases": ["a%d" % self.number],
                "runner": {"argv": convs.runner.argv(), "env": {}}}
        made = surely(lambda: self.cove.post("/v1/sessions", body), status(200, 201)).json
        path = "/v1/sessions/" + made["id"]
        reply = surely(lambda: self.cove.post(path + "/runs", {"input": {"do": "print", "times": 5, "every": 0.05}}), status(202))
        self.say("run", (path, reply.json["id"]))

    def delete(self):
        name = "/v1/sandboxes/gone-%d" % self.number
        made = surely(lambda: self.cove.request("PUT", name, {}), status(200, 201)).json
        surely(lambda: self.cove.request("DELETE", "/v1/sandboxes/" + made["id"]), status(204, 404))
        self.say("deleted", made["id"])

    def rest(self):
        name = "/v1/sandboxes/rest-%d" % self.number
        made = surely(lambda: self.cove.request("PUT", name, {}), status(200, 201)).json
        surely(lambda: self.cove.execute(made, "echo kept >/tmp/kept; sync /tmp/kept"), status(200))
        at = "/v1/sandboxes/" + made["id"]
        surely(lambda: self.cove.post(at + "/stop"), status(200))
        self.say("stopped", at)
        surely(lambda: self.cove.post(at + "/start"), status(200))
        self.say("started", made)

    def run(self):
        """All kinds at once; what failed, by its name."""
        self.make()
        kinds = (self.process, self.command, self.cell, self.upload, self.terminal, self.expose, self.agent, self.delete, self.rest)
        wrong = []

        def go(kind):
            try:
                kind()
            except Exception as error:  # noqa: BLE001
                wrong.append("%s: %r" % (kind.__name__, error))
        threads = [threading.Thread(target=go, args=(kind,)) for kind in kinds]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        return wrong

    def settle(self, path, good=status(200), seconds=60):
        return surely(lambda: self.cove.get(path), lambda reply: reply.status < 500 and (not good or good(reply) or
                                                                                     reply.status in (404, 410)), seconds)

    def audit_process(self, fact):
        name, code = fact
        end = self.settle(api(self.box, "process/%s/wait?timeoutMs=20000" % name))
        if end.json.get("exitCode") != code:
            return end
        logs = self.settle(api(self.box, "process/%s/logs" % name))
        want = "".join("%d\n" % i for i in range(1, LINES + 1)) + "end\n"
        return None if logs.json.get("stdout") == want else logs

    def audit_session(self, fact):
        got = surely(lambda: self.cove.execute(self.box, "echo $x", sessionId="s"), lambda reply: reply.status < 500)
        return None if got.status == 200 and got.json["stdout"].strip() == fact else got

    def audit_cell(self, fact):
        got = self.settle(api(self.box, "contexts/%s/cells/%s" % fact))
        return None if got.status == 200 and got.body.count(b'"cell\\n"') == 1 and b"execution_complete" in got.body else got

    def audit_upload(self, fact):
        got = self.settle(api(self.box, "files/tmp/up"))
        return None if got.status == 200 and got.body == fact else (got.status, len(got.body))

    def audit_terminal(self, fact):
        def listed():
            return self.cove.get(api(self.box, "terminals"))
        names = [each["id"] for each in surely(listed, status(200)).json["terminals"]]
        shown = [surely(lambda: self.cove.get(api(self.box, "terminals/%s/log" % name)), status(200)).body for name in names]
        return None if any(fact in each for each in shown) else (names, shown)

    def audit_port(self, fact):
        got = self.settle("/v1/sandboxes/%s/ports" % self.box["id"])
        return None if fact in [each.get("token") for each in got.json["items"]] else got

    def audit_run(self, fact):
        path, run = fact
        got = surely(lambda: self.cove.get("%s/runs/%s" % (path, run)),
                     lambda reply: reply.status in (404, 410) or reply.status == 200 and reply.json["state"] in convs.OVER)
        if got.status != 200 or got.json["state"] != "completed":
            return got
        told = surely(lambda: self.cove.get("%s/runs/%s/events" % (path, run)), status(200)).body
        ticks = [json.loads(line[6:]) for line in told.decode().splitlines() if line.startswith("data: ")]
        ticks = [each["data"] for each in ticks if each["type"] == "output"]
        return None if ticks == ["tick %d" % i for i in (4, 3, 2, 1, 0)] else ticks

    def audit_deleted(self, fact):
        got = surely(lambda: self.cove.get("/v1/sandboxes/" + fact), lambda reply: reply.status < 500)
        return None if got.status == 404 else got

    def audit_stopped(self, fact):
        got = self.settle(fact)
        return None if got.status == 200 and got.json["state"] in ("stopped", "running", "frozen") else got

    def audit_started(self, fact):
        got = surely(lambda: self.cove.execute(fact, "cat /tmp/kept"), lambda reply: reply.status < 500)
        return None if got.status == 200 and got.json["stdout"] == "kept\n" else got

    def audit(self):
        wrong = []
        state = surely(lambda: self.cove.get("/v1/sandboxes/" + self.box["id"]),
                       lambda reply: reply.status in (404, 410) or reply.status == 200 and reply.json["state"] != "creating")
        if state.status != 200 or state.json["state"] not in ("running", "frozen"):
            return ["the sandbox: %r" % state]
        for kind, fact in self.told.items():
            try:
                got = getattr(self, "audit_" + kind)(fact)
            except Exception as error:  # noqa: BLE001
                got = repr(error)
            if got is not None:
                wrong.append("%s %r: %r" % (kind, fact, got))
        return wrong

    def end(self):
        if "run" in self.told:
            surely(lambda: self.cove.request("DELETE", self.told["run"][0]), status(204, 202, 404))
        for name in ("round", "rest"):
            surely(lambda: self.cove.request("DELETE", "/v1/sandboxes/%s-%d" % (name, self.number)), status(204, 404))


def verified(cove):
    said = None
    for _ in range(40):
        said = subprocess.run([cove.binary, "verify", "--data", cove.data], capture_output=True, text=True, timeout=60)
        if said.returncode == 0:
            return None
        time.sleep(0.25)
    return said.stdout + said.stderr


def kill(cove, role):
    pid = cove.process.pid if role == "supervisor" else cove.children().get(role)
    try:
        if pid:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # a point was faster
        pass


def quiet(cove, points, want):
    """Until everybody is there again."""
    c.until(lambda: points.fired() >= want, 5, 0.02)
    surely(lambda: cove.get("/v1/health"), status(200))
    surely(lambda: cove.get("/v1/sandboxes"), status(200))


def walk(cove, points, number, first, second, left):
    """One round under a kill when `first` is met the `left`-th time, and at `second` in the recovery. What is wrong after
    it, and how many of them have killed."""
    turn = Round(cove, number)
    want = 2 if second else 1
    points.arm(first, second, left)
    wrong = turn.run()
    # Points of a recovery are met in one.
    for role in ("daemon", "warden", "supervisor"):
        if points.fired() >= want:
            break
        kill(cove, role)
        c.until(lambda: points.fired() >= want, 3, 0.02)
        quiet(cove, points, 0)
    fired = points.fired()
    points.disarm()
    wrong += turn.audit()
    turn.end()
    said = verified(cove)
    if said:
        wrong.append("verify: " + said)
    return wrong, fired


def dry(cove, points):
    """A round without kills, then one under each plain kill: the points that there are."""
    wrong = []
    for number, role in enumerate((None, "daemon", "warden", "supervisor")):
        turn = Round(cove, number)
        if role:
            threading.Timer(0.3, kill, (cove, role)).start()
        wrong += turn.run()
        wrong += turn.audit()
        turn.end()
    c.same(wrong, [], "a round of every kind of work without a kill, and under a kill of each process")
    return points.met()


class Walker(threading.Thread):
    """Takes one after another off the list, with a cove of its own."""

    def __init__(self, todo, times, until):
        super().__init__(daemon=True)
        self.todo, self.times, self.until, self.bad, self.unmet, self.done = todo, times, until, [], [], 0
        self.path = tempfile.mktemp(prefix="cove-killpoints-")
        self.points = Points(self.path)
        self.cove = House(self.path)

    def run(self):
        while time.monotonic() < self.until:
            try:
                number, first, second = self.todo.pop(0)
            except IndexError:
                return
            left = random.Random(SEED + number).randint(1, max(1, self.times.get(first, 1) // ROUNDS))
            try:
                wrong, fired = walk(self.cove, self.points, 100 + number, first, second, left)
                if not fired and left > 1:  # it was not met so often
                    more, fired = walk(self.cove, self.points, 100000 + number, first, second, 1)
                    wrong += more
            except Exception as error:  # noqa: BLE001
                wrong, fired = [repr(error)], 1
            self.done += 1
            if not second and not fired:
                self.unmet.append(first)
            if wrong:
                self.bad.append((first, second))
                c.note("killed at %s, time %d%s: %s" % (first, left, second and ", then " + second, "\n".join(wrong)[:3000]))

    def close(self):
        self.cove.close()
        os.unlink(self.path)


def main():
    c.need_root()
    if not os.path.exists(WEAK):
        c.skip_all("there is no weak build: make weak")
    chance = random.Random(SEED)
    c.note("KILLPOINTS_SEED=%d" % SEED)
    begin = time.monotonic()
    todo, times = [], {}
    walkers = [Walker(todo, times, begin + SECONDS) for _ in range(WALKERS)]
    times.update(dry(walkers[0].cove, walkers[0].points))
    names = sorted(os.environ["KILLPOINTS"].split() if os.environ.get("KILLPOINTS") else times)
    c.note("%d points: %s" % (len(names), " ".join(names)))
    pairs = [(a, b) for a in names for b in names]
    chance.shuffle(pairs)
    wanted = [(name, "") for name in names] + (pairs if SOAK else pairs[:PAIRS])
    todo += [(number, first, second) for number, (first, second) in enumerate(wanted)]
    [walker.start() for walker in walkers]
    [walker.join() for walker in walkers]
    bad, unmet = sum((w.bad for w in walkers), []), sum((w.unmet for w in walkers), [])
    c.note("%d of %d walked in %d s; never met: %s" % (sum(w.done for w in walkers), len(wanted), time.monotonic() - begin,
                                                       " ".join(unmet) or "none"))
    c.same(bad, [], "killed at each point and at pairs of them: nothing that was told is lost, doubled or told gone")
    c.ok(len(unmet) <= len(names) // 4, "the points were met", unmet)
    [walker.close() for walker in walkers]
    c.done()


main()
