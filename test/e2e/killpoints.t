#!/usr/bin/env python3
"""Every kill point of supervisor, warden and daemon (base/fault.h), one after another, and pairs of them, the second during
the recovery from the first, under a small load of every kind. After each: nothing that was acknowledged is lost, doubled or
told gone, and `cove verify` is clean. Then every point of a first start, in a data directory that is new: cove serves, and
leaves nothing when it ends.

The points are those that a dry run meets. A pair is reachable when its second point was met between the kill at the first
one and the end of the recovery: any other pair is the walk of its first point again. KILLPOINTS_SEED repeats a walk;
KILLPOINTS names points, PAIRS how many of the reachable pairs (COVE_SOAK: all of them); KILLPOINTS_SECONDS bounds the walk."""
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
import agent_sessions  # noqa: E402
from killpoints import Points  # noqa: E402
from live import api  # noqa: E402
from wsclient import Closed, Refused, Terminal  # noqa: E402

SOAK = bool(os.environ.get("COVE_SOAK"))
SEED = int(os.environ.get("KILLPOINTS_SEED") or random.randrange(1 << 30))
PAIRS = int(os.environ.get("PAIRS") or 100)
SECONDS = int(os.environ.get("KILLPOINTS_SECONDS") or (1 << 30 if SOAK else 120 if c.SHORT else 240))
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
                "runner": {"argv": agent_sessions.runner.argv(), "env": {}}}
        made = surely(lambda: self.cove.post("/v1/agent-sessions", body), status(200, 201)).json
        path = "/v1/agent-sessions/" + made["id"]
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
                     lambda reply: reply.status in (404, 410) or reply.status == 200 and reply.json["state"] in agent_sessions.OVER)
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


def verified(cove, seconds=60):
    """None once `cove verify` finds no difference; what it finds until the end of that time."""
    end = time.monotonic() + seconds
    while True:
        said = subprocess.run([cove.binary, "verify", "--data", cove.data], capture_output=True, text=True, timeout=60)
        if said.returncode == 0:
            return None
        if time.monotonic() > end:
            return said.stdout + said.stderr
        time.sleep(0.25)


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


def recovered(cove, points, over):
    """Waits for the first kill, then until supervisor, warden and daemon serve again. Returns the points met in between."""
    while not points.fired():
        if over.wait(0.005):
            return set()
    try:
        surely(lambda: cove.get("/v1/health"), lambda reply: reply.status == 200 and reply.json["warden"])
        surely(lambda: cove.get("/v1/sandboxes"), status(200))
    except AssertionError:  # the audit says what is wrong
        pass
    return set(points.met())


def walk(cove, points, number, first, second, left, reached):
    """One round under a kill when `first` is met the `left`-th time, and at `second` in the recovery. What is wrong after
    it, and how many of them have killed. Points of the recovery are added to `reached`."""
    turn = Round(cove, number)
    want = 2 if second else 1
    points.arm(first, second, left)
    over = threading.Event()
    watcher = threading.Thread(target=lambda: reached.update(recovered(cove, points, over)), daemon=True)
    watcher.start()
    wrong = turn.run()
    # Points of a recovery are met in one.
    for role in ("daemon", "warden", "supervisor"):
        if points.fired() >= want:
            break
        kill(cove, role)
        c.until(lambda: points.fired() >= want, 3, 0.02)
        quiet(cove, points, 0)
    fired = points.fired()
    over.set()
    watcher.join()
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


class Walker:
    """Takes one after another off the list, with a cove of its own."""

    def __init__(self, times, until):
        self.times, self.until, self.bad, self.unmet, self.done, self.reached = times, until, [], [], 0, {}
        self.path = tempfile.mktemp(prefix="cove-killpoints-")
        self.points = Points(self.path)
        self.cove = House(self.path)

    def run(self, todo):
        while time.monotonic() < self.until:
            try:
                number, first, second = todo.pop(0)
            except IndexError:
                return
            left = random.Random(SEED + number).randint(1, max(1, self.times.get(first, 1) // ROUNDS))
            reached = self.reached.setdefault(first, set())
            try:
                wrong, fired = walk(self.cove, self.points, 100 + number, first, second, left, reached)
                if not fired and left > 1:  # it was not met so often
                    more, fired = walk(self.cove, self.points, 100000 + number, first, second, 1, reached)
                    wrong += more
            except Exception as error:  # noqa: BLE001
                wrong, fired = [repr(error)], 1
            self.done += 1
            if fired < (2 if second else 1):
                self.unmet.append((first, second))
            if wrong:
                self.bad.append((first, second))
                c.note("killed at %s, time %d%s: %s" % (first, left, second and ", then " + second, "\n".join(wrong)[:3000]))

    def close(self):
        self.cove.close()
        os.unlink(self.path)


def first_start(point):
    """A start in a new data directory under a kill at that point; none without one. What is wrong after it, how many points
    have killed, and how often each was met."""
    path = tempfile.mktemp(prefix="cove-killpoints-")
    points = Points(path)
    if point:
        points.arm(point)
    met, wrong, cove = {}, [], c.Cove("--dev", start=False, binary=WEAK, env={"COVE_KILL_POINTS": path})
    try:
        for _ in range(3):
            if cove.await_ready(cove.launch()):
                break
            cove.process.wait()  # it was the supervisor that was killed
            cove.log.close()
        # The last point of a start comes behind its readiness.
        c.until(lambda: points.fired() if point else "supervisor.url_written" in points.met(), 5, 0.02)
        met = points.met()
        if cove.process.poll() is not None:
            cove.log.close()
            cove.await_ready(cove.launch())
        points.disarm()
        box = surely(lambda: cove.post("/v1/sandboxes", {}), status(201)).json
        surely(lambda: cove.execute(box, "echo works"), lambda reply: reply.status == 200 and reply.json["stdout"] == "works\n")
        said = verified(cove)
        if said:
            wrong.append("verify: " + said)
        if cove.stop(number=signal.SIGINT) != 0:
            wrong.append("the end is not clean")
        left = {kind: count for kind, count in c.remains(cove, 5).items() if count}
        if left:
            wrong.append("left: %r" % left)
    except Exception as error:  # noqa: BLE001
        wrong.append(repr(error))
    fired = points.fired()
    cove.close()
    os.unlink(path)
    return wrong, fired, met


def first_starts(chance, until):
    wrong, _, met = first_start(None)
    bad, unmet, done, todo = [("none", wrong)] if wrong else [], [], [], sorted(met)
    chance.shuffle(todo)

    def run():
        while todo and time.monotonic() < until:
            point = todo.pop()
            wrong, fired, _ = first_start(point)
            done.append(point)
            if wrong:
                bad.append((point, wrong))
            if not fired:
                unmet.append(point)
    threads = [threading.Thread(target=run, daemon=True) for _ in range(WALKERS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    c.note("%d of %d points of a first start; never met: %s" % (len(done), len(met), " ".join(unmet) or "none"))
    c.same(bad, [], "killed at each point of a first start: cove serves, and ends clean")
    c.ok(done and len(unmet) <= len(done) // 4, "the points of a first start were met", unmet)


def work(walkers, wanted):
    """All walkers on one list. Returns how many were walked."""
    before = sum(walker.done for walker in walkers)
    todo = [(before + number, first, second) for number, (first, second) in enumerate(wanted)]
    threads = [threading.Thread(target=walker.run, args=(todo,), daemon=True) for walker in walkers]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return sum(walker.done for walker in walkers) - before


def main():
    c.need_root()
    if not os.path.exists(WEAK):
        c.skip_all("there is no weak build of cove: make weak")
    chance = random.Random(SEED)
    c.note("KILLPOINTS_SEED=%d" % SEED)
    begin = time.monotonic()
    if not os.environ.get("KILLPOINTS"):
        first_starts(chance, begin + SECONDS // 4)
    times = {}
    walkers = [Walker(times, begin + SECONDS) for _ in range(WALKERS)]
    times.update(dry(walkers[0].cove, walkers[0].points))
    names = sorted(os.environ["KILLPOINTS"].split() if os.environ.get("KILLPOINTS") else times)
    c.note("%d points: %s" % (len(names), " ".join(names)))
    done = work(walkers, [(name, "") for name in chance.sample(names, len(names))])  # which are walked in time is chance
    unmet = sorted(first for walker in walkers for first, _ in walker.unmet)
    c.note("%d of %d points walked in %d s; never met: %s" % (done, len(names), time.monotonic() - begin, " ".join(unmet) or "none"))
    c.ok(len(unmet) <= len(names) // 4, "the points were met", unmet)

    pairs = sorted({(first, second) for walker in walkers for first, seconds in walker.reached.items() for second in seconds
                    if second in names})
    chance.shuffle(pairs)
    wanted = pairs if SOAK else pairs[:PAIRS]
    [walker.unmet.clear() for walker in walkers]
    done = work(walkers, wanted)
    unmet = sorted(pair for walker in walkers for pair in walker.unmet)
    c.note("%d of %d pairs are reachable; %d walked in %d s, both points killed in %d" %
           (len(pairs), len(names) ** 2, done, time.monotonic() - begin, done - len(unmet)))
    bad = sum((walker.bad for walker in walkers), [])
    c.same(bad, [], "killed at each point and at pairs of them: nothing that was told is lost, doubled or told gone")
    [walker.close() for walker in walkers]
    c.done()


main()
