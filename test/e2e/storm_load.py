"""The clients of storm.t. Each of them notes what cove acknowledged, and afterwards asks for all of it: every byte, every
exit code, every mark.

A mark is a line that a command appends to a file of its sandbox: it tells how often the command ran. An operation that was
acknowledged ran once. An operation whose reply never came ran once or never, and left either a whole record or none.
"""
import collections
import hashlib
import http.client
import json
import os
import random
import threading
import time

import agent_sessions
import cove as c
import live
from live import api, is_retryable

PATIENCE = 90  # seconds until an answer of an audit must have come
FAULTS_SHOWN = 3
CELLS_KEPT = 24  # cells of one context: the last 32 are kept


class Load(live.Client):
    """A client at work. `begun` holds every number that was asked for, `acked` what was acknowledged."""
    patient = True
    pause = 0.04

    def __init__(self, cove, box, seed):
        super().__init__(cove, box)
        self.name = type(self).__name__.lower()
        self.chance = random.Random("%s %s" % (seed, self.name))
        self.begun, self.acked = [], {}

    def run(self):
        super().run()
        self.faults += [] if self.stopping or self.is_over() else [self.name + " left early"]

    def step(self):
        time.sleep(self.pause)
        number = len(self.begun) + 1
        self.begun.append(number)
        self.work(number)

    def work(self, number):
        raise NotImplementedError

    def taken(self, reply, good=(200,)):
        """Whether it was acknowledged. A retryable error leaves it open; any other answer is a fault."""
        if reply.status in good:
            return True
        if not is_retryable(reply.body):
            self.faults.append("%s %d: %r" % (self.name, len(self.begun), reply))
        self.cuts += 1
        return False

    def sure(self, ask, good=(200,)):
        """The answer of a question that can be asked again; None, and a fault, if it is another than expected."""
        end, reply = time.monotonic() + PATIENCE, None
        while time.monotonic() < end:
            try:
                reply = ask()
            except live.CUT as cut:
                reply = cut
                time.sleep(0.05)
                continue
            if reply.status in good:
                return reply
            if not is_retryable(reply.body):
                break
            time.sleep(0.05)
        self.faults.append("%s: %r" % (self.name, reply))
        return None

    def get(self, path, good=(200,)):
        return self.sure(lambda: self.cove.get(api(self.box, path), timeout=60), good)

    def out(self, command):
        """stdout of a command of the audit, which changes nothing."""
        reply = self.sure(lambda: self.cove.execute(self.box, command))
        return reply.json["stdout"] if reply else ""

    def marks(self):
        """How often each number has run."""
        return collections.Counter(int(n) for n in self.out("cat /workspace/%s.marks || true" % self.name).split())

    def mark(self, number):
        return "echo %d >> /workspace/%s.marks" % (number, self.name)

    def check_marks(self):
        marks = self.marks()
        for number in self.begun:
            if marks[number] > 1 or (number in self.acked and marks[number] != 1):
                self.faults.append("%s %d, %s: ran %d times" %
                                   (self.name, number, "acknowledged" if number in self.acked else "unanswered", marks[number]))
        self.faults += ["%s %d was never asked for" % (self.name, n) for n in marks if n not in self.begun]
        return marks

    def audit(self):
        self.check_marks()

    def want(self, number, got, wanted):
        if got != wanted:
            self.faults.append("%s %d: %s" % (self.name, number, differ(got, wanted)))


def differ(got, wanted):
    if isinstance(got, str) and isinstance(wanted, str):
        at = next((i for i, pair in enumerate(zip(got, wanted)) if pair[0] != pair[1]), min(len(got), len(wanted)))
        return "%d characters of %d, another from %d on: %r, not %r" % (len(got), len(wanted), at, got[at:at + 60], wanted[at:at + 60])
    return "%r, not %r" % (got, wanted)


def shown(faults):
    """The first few of one client: what follows is most often its consequence."""
    rest = len(faults) - FAULTS_SHOWN
    return faults[:FAULTS_SHOWN] + (["and %d more" % rest] if rest > 0 else [])


def lines(name, number, count):
    return "".join("%s %d line %d\n" % (name, number, i) for i in range(1, count + 1))


def printing(name, number, count, pause="0.01"):
    """The command for bash that prints these lines, a few at a time."""
    return ("%s; for i in {1..%d}; do echo %s %d line $i; [ $((i %% 5)) = 0 ] && read -t %s -u 9; done" %
            (live.SLEEPER, count, name, number, pause))


class Processes(Load):
    """Background processes under names of their own. One in five runs until it is ended through the API."""

    def length(self, number):
        return 5 + number * 7 % 40

    def is_endless(self, number):
        return number % 5 == 0

    def code(self, number):
        return number % 100

    def work(self, number):
        rest = "sleep 1000" if self.is_endless(number) else "exit %d" % self.code(number)
        command = "%s; %s; %s" % (self.mark(number), printing("p", number, self.length(number)), rest)
        reply = self.cove.post(api(self.box, "process/start"), {"command": command, "processId": "p-%d" % number}, timeout=30)
        if self.taken(reply):
            self.acked[number] = reply.json["pid"]

    def end(self, number):
        """Ends an endless one; it may have ended when the reply to an earlier DELETE was lost."""
        self.sure(lambda: self.cove.request("DELETE", api(self.box, "process/p-%d" % number), timeout=60), (200, 404))

    def look(self, number, marks):
        good = (200,) if number in self.acked else (200, 404)
        reply = self.get("process/p-%d" % number, good)
        if not reply or reply.status == 404:
            return self.want(number, marks[number], 0) if reply else None
        if number not in self.acked and reply.json["process"]["status"] == "error":
            return self.want(number, marks[number], 0)  # it could not start, and says so
        wanted = lines("p", number, self.length(number))
        if self.is_endless(number):
            c.until(lambda: self.get("process/p-%d/logs" % number).json["stdout"] == wanted, 30, 0.05)
            self.end(number)
        reply = self.get("process/p-%d/wait?timeoutMs=60000" % number)
        if not reply:
            return None
        if self.is_endless(number):
            self.want(number, reply.json["exitCode"] in (143, 137), True)
        else:
            self.want(number, reply.json["exitCode"], self.code(number))
        self.want(number, self.get("process/p-%d/logs" % number).json["stdout"], wanted)
        if number in self.acked:
            self.want(number, self.get("process/p-%d" % number).json["process"]["pid"], self.acked[number])
        return self.want(number, self.marks()[number], 1) if marks[number] != 1 else None

    def audit(self):
        marks = self.marks()
        for number in self.begun:
            self.look(number, marks)
        self.check_marks()


class Commands(Load):
    """Commands with an answer. One in four is ended by its time limit, one in eight by its limit of CPU time."""

    def work(self, number):
        limits, rest, code, ended = {}, "exit %d" % (number % 100), number % 100, "exited"
        if number % 4 == 0:
            limits, rest, code, ended = {"timeoutMs": 150}, "sleep 1000", 124, "wall_limit"
        elif number % 8 == 3:
            limits, rest, code, ended = {"cpuTimeMs": 60}, "while :; do :; done", 137, "cpu_limit"
        command = "%s; echo command %d; %s" % (self.mark(number), number, rest)
        reply = self.cove.execute(self.box, command, _timeout=30, **limits)
        if self.taken(reply):
            self.acked[number] = reply.json["exitCode"]
            said = reply.json
            # A limit may come before bash has written.
            text = "command %d\n" % number if not limits or said["stdout"] else ""
            self.want(number, (said["stdout"], said["ended"]) if limits else (said["stdout"], said["exitCode"], said["ended"]),
                      (text, ended) if limits else (text, code, ended))

    def check_marks(self):
        self.acked = {n: code for n, code in self.acked.items() if n % 4 and n % 8 != 3}
        return super().check_marks()


class Streams(Load):
    """Commands whose output comes as events."""

    def work(self, number):
        count = 10 + number % 30
        command = "%s; %s; exit %d" % (self.mark(number), printing("s", number, count), number % 100)
        events = self.cove.events(self.box, command, timeout=30)
        if isinstance(events, c.Reply):
            self.taken(events)
            return
        text, last = "", None
        for event in events:
            last = event
            text += event["data"] if event["type"] == "stdout" else ""
        wanted = lines("s", number, count)
        if last and last["type"] == "complete":
            self.acked[number] = last["exitCode"]
            self.want(number, (text, last["exitCode"]), (wanted, number % 100))
        else:
            self.want(number, wanted.startswith(text), True)
            if last and last["type"] == "error":
                self.faults.append("streams %d: %r" % (number, last))


class Shell(Load):
    """Commands of one session, whose shell counts them."""

    def work(self, number):
        command = "n=$((n+1)); echo $n >> /workspace/shell.count; %s; echo $n" % self.mark(number)
        reply = self.cove.execute(self.box, command, sessionId="storm", _timeout=30)
        if self.taken(reply):
            self.acked[number] = int(reply.json["stdout"] or -1)

    def audit(self):
        self.check_marks()
        counted = [int(n) for n in self.out("cat /workspace/shell.count || true").split()]
        self.want(0, counted, list(range(1, len(counted) + 1)))
        said = [self.acked[n] for n in sorted(self.acked)]
        self.want(0, said, sorted(set(said) & set(counted)))
        reply = self.sure(lambda: self.cove.execute(self.box, "echo $n", sessionId="storm"))
        self.want(0, reply and reply.json["stdout"], str(len(counted)))


class Bulk(live.Follower):
    """Follows a process that writes much, over every cut."""
    patient = True
    REST = " " + "x" * 90

    def __init__(self, cove, box, seed):
        command = "rm -f /run/over; " + live.counting(self.REST, 40, "0.03", 7)
        super().__init__(cove, box, live.start(cove, box, command, processId="bulk"), PATIENCE + 60)
        self.name = "bulk"

    def audit(self):
        wrong = live.miscounted(self.text(), self.REST)
        if wrong or (self.end or {}).get("exitCode") != 7:
            self.faults.append("bulk: %s, %r" % (wrong, self.end))
        reply = self.cove.get(api(self.box, "process/bulk/tape?stream=stdout"))
        if reply.status != 200 or reply.body != self.text():
            self.faults.append("bulk: the tape has %d bytes, %d were streamed" % (len(reply.body), len(self.text())))


class Screen(live.Watcher):
    """Sits at a terminal whose program counts."""
    patient = True

    def __init__(self, cove, box, seed):
        super().__init__(cove, box, live.counting("", 4, "0.05", 3))
        self.name = "screen"

    def audit(self):
        wrong = live.miscounted(self.seen)
        if wrong or (self.end or {}).get("code") != 3:
            self.faults.append("screen: %s, %r" % (wrong, self.end))


class Cells(Load):
    """Python cells of a context. The number of a cell is acknowledged by the head of the reply."""
    pause = 0.02

    def __init__(self, cove, box, seed):
        super().__init__(cove, box, seed)
        self.contexts = []

    def code(self, number):
        return ("import time\nopen('/workspace/cells.marks', 'a').write('%d\\n')\n"
                "for i in range(1, %d):\n    print('x %d line', i, flush=True)\n    if i %% 10 == 0: time.sleep(0.01)\n%d" %
                (number, 11 + number % 20, number, number))

    def texts(self, number):
        return lines("x", number, 10 + number % 20), str(number)

    def context(self):
        if not self.contexts or len(self.contexts[-1][1]) >= CELLS_KEPT:
            reply = self.cove.post(api(self.box, "contexts"), {"language": "python"}, timeout=60)
            if not self.taken(reply):
                return None
            self.contexts.append((reply.json["contextId"], []))
        return self.contexts[-1]

    def work(self, number):
        context = self.context()
        if not context:
            return
        context[1].append(number)
        conn = http.client.HTTPConnection("127.0.0.1", self.cove.port, timeout=30)
        try:
            conn.request("POST", api(self.box, "execute/code"), json.dumps({"code": self.code(number), "context_id": context[0]}),
                         {"Authorization": "Bearer " + self.cove.key, "Content-Type": "application/json"})
            answer = conn.getresponse()
            if answer.status != 200:
                self.taken(c.Reply(answer.status, answer.headers, answer.read()))
                return
            self.acked[number] = (context[0], int(answer.headers["X-Cell"]))
            answer.read()
        finally:
            conn.close()

    def told(self, body):
        text, results, ends = "", [], []
        for line in body.decode().splitlines():
            event = json.loads(line[6:]) if line.startswith("data: ") else {"type": None}
            if event["type"] == "stdout":
                text += event["text"]
            elif event["type"] == "result":
                results.append(event["text"])
            elif event["type"]:
                ends.append(event["type"])
        return (text, results, ends)

    def audit(self):
        known = {}
        for context, numbers in self.contexts:
            reply = self.get("contexts/%s/cells" % context)
            for cell in [each["cell"] for each in reply.json["cells"]] if reply else ():
                reply = self.get("contexts/%s/cells/%d" % (context, cell))
                known[context, cell] = self.told(reply.body) if reply else None
        for number, place in self.acked.items():
            text, result = self.texts(number)
            if known.get(place) != (text, [result], ["execution_complete"]):
                self.faults.append("cells %d, acknowledged as %r: %r" % (number, place, known.get(place)))
        whole = {self.texts(n)[0]: n for n in self.begun}
        for place, told in known.items():
            if told and (told[0] not in whole or told[1:] != ([str(whole[told[0]])], ["execution_complete"])):
                self.faults.append("cells: half a cell at %r: %r" % (place, told))
        self.check_marks()


class Uploads(Load):
    """Files by PUT: new ones, and one that is replaced again and again."""

    def __init__(self, cove, box, seed):
        super().__init__(cove, box, seed)
        self.files, self.replaced = {}, {"none"}

    def put(self, name, body):
        return self.cove.request("PUT", api(self.box, "files/workspace/" + name), body, raw=True, timeout=30,
                                 headers={"Content-Type": "application/octet-stream"})

    def work(self, number):
        body = self.chance.randbytes(self.chance.choice((100, 5000, 300000, 2000000)))
        digest = hashlib.sha256(body).hexdigest()
        again = number % 3 == 0
        if again:
            self.replaced.add(digest)
        else:
            self.files[number] = digest
        if self.taken(self.put("replaced" if again else "up-%d" % number, body), (200, 201, 204)):
            self.acked[number] = digest
            if again:
                self.replaced = {digest}

    def audit(self):
        text = self.out("cd /workspace; sha256sum up-* replaced 2>/dev/null || true")
        there = {line.split()[1]: line.split()[0] for line in text.splitlines()}
        for number, digest in self.files.items():
            found = there.get("up-%d" % number)
            if found != digest and (number in self.acked or found):
                self.faults.append("uploads %d, %s: %s" % (number, "acknowledged" if number in self.acked else "unanswered", found))
        if there.get("replaced", "none") not in self.replaced:
            self.faults.append("uploads: the replaced file is %s" % there.get("replaced"))


class Agent(Load):
    """Runs of an agent session, a few at a time. The runner is the reference one: a command a run, its output in words that
    are said again until they are acknowledged."""
    pause = 0.1

    def __init__(self, cove, box, seed, name="agent"):
        super().__init__(cove, None, seed)
        with open(os.path.join(c.ROOT, "examples", "runner.py")) as file:
            self.session = agent_sessions.Session(cove, user=name, argv=["/usr/bin/python3", "-c", file.read()])
        self.box = {"id": self.session.made["sandbox_id"]}
        self.name = name

    def running(self):
        reply = self.cove.get(self.session.path + "/runs", timeout=30)
        return sum(run["state"] not in agent_sessions.OVER for run in reply.json["items"]) if self.taken(reply) else 99

    def work(self, number):
        if self.running() > 2:
            self.begun.pop()
            return
        command = "%s; for i in $(seq %d); do echo run %d line $i; sleep 0.0%d; done" % (
            self.mark(number), 3 + number % 20, number, number % 4)
        reply = self.cove.post(self.session.path + "/runs", {"input": {"command": command}}, timeout=30)
        if self.taken(reply, (202,)):
            self.acked[number] = reply.json["id"]

    def check_run(self, number, run):
        self.want(number, self.session.fate(run, PATIENCE), "completed")
        events = self.session.events(run)
        self.want(number, [e["type"] for e in events].count("end"), 1)
        self.want(number, "".join(e["data"] for e in events if e["type"] == "output"), lines("run", number, 3 + number % 20))
        self.want(number, (self.session.look(run)["result"] or {}).get("output"), {"exit": 0})

    def audit(self):
        for number, run in self.acked.items():
            self.check_run(number, run)
        reply = self.sure(lambda: self.cove.get(self.session.path + "/runs?limit=200"))
        for run in {run["id"] for run in reply.json["items"]} - set(self.acked.values()) if reply else ():
            self.want(0, self.session.fate(run, PATIENCE), "completed")
        self.check_marks()


class Makes(Load):
    """Sandboxes that are made, used and deleted. Each request is repeated until it is answered, with an Idempotency-Key."""

    def __init__(self, cove, box, seed):
        super().__init__(cove, box, seed)
        self.kept, self.deleted = {}, []

    def work(self, number):
        spec = {"ephemeral": True} if number % 3 == 0 else {}
        key = {"Idempotency-Key": "%s-%d" % (self.chance.random(), number)}
        made = self.sure(lambda: self.cove.request("POST", "/v1/sandboxes", spec, headers=key, timeout=60), (200, 201))
        if not made:
            return
        box = made.json
        self.acked[number] = box["id"]
        reply = self.sure(lambda: self.cove.execute(box, "echo %d > /workspace/mine; cat /workspace/mine" % number))
        self.want(number, reply and reply.json["stdout"], "%d\n" % number)
        if number % 4 == 0:
            self.kept[number] = box
            return
        self.deleted.append(box["id"])
        tries = []

        def delete():
            tries.append(1)
            return self.cove.request("DELETE", "/v1/sandboxes/" + box["id"], timeout=60)
        reply = self.sure(delete, (204, 404, 410))
        if reply and reply.status != 204 and len(tries) == 1:
            self.faults.append("makes %d: %s was gone before it was deleted: %r" % (number, box["id"], reply))

    def audit(self):
        for number, box in self.kept.items():
            reply = self.sure(lambda: self.cove.execute(box, "cat /workspace/mine"))
            self.want(number, reply and reply.json["stdout"], "%d\n" % number)
        for box in self.deleted:
            self.sure(lambda: self.cove.get("/v1/sandboxes/" + box), (404, 410))


class Executions(Load):
    """Executions, a few at a time, each asked for until it is answered. One in three fails by its own exit code."""
    pause = 0.1

    def work(self, number):
        if sum(n not in self.acked for n in self.begun) > 1 or number > 12:
            self.begun.pop()
            return
        body = {"command": "echo execution %d; exit %d" % (number, number % 3), "taskId": "storm-%d" % number,
                "limits": {"memoryMB": 64}}
        key = {"Idempotency-Key": "%s-%d" % (self.chance.random(), number)}
        made = self.sure(lambda: self.cove.post("/v1/executions", body, headers=key, timeout=60), (200, 201, 202))
        if made:
            self.acked[number] = made.json["id"]

    def audit(self):
        for number, name in self.acked.items():
            path = "/v1/executions/" + name
            reply = self.sure(lambda: self.cove.get(path + "/wait?timeoutMs=60000", timeout=90))
            if not reply:
                continue
            self.want(number, reply.json["outcome"], "exit_nonzero" if number % 3 else "completed")
            said = self.sure(lambda: self.cove.get(path + "/logs"))
            self.want(number, said and said.body.count(b"execution %d" % number), 1)
        reply = self.sure(lambda: self.cove.get("/v1/executions?limit=200"))
        if reply:
            self.want(0, sorted(each["id"] for each in reply.json["items"]), sorted(self.acked.values()))

    def clear(self):
        """Those that could not be deleted."""
        return [name for name in self.acked.values() if self.sure(
            lambda: self.cove.request("DELETE", "/v1/executions/" + name), (200, 202, 204, 404)) is None]


class Things(Load):
    """What outlives sandboxes: volumes that are made, and deleted by turns; snapshots of a sandbox that counts them."""
    pause = 0.1

    def __init__(self, cove, box, seed):
        super().__init__(cove, box, seed)
        self.deleted = set()

    def path(self, number):
        return "/v1/volumes/storm-%d" % number if number % 2 else "/v1/templates/storm-%d" % number

    def make(self, number):
        if number % 2:
            return self.cove.post("/v1/volumes", {"name": "storm-%d" % number, "sizeMB": 8}, timeout=60)
        return self.cove.post("/v1/sandboxes/%s/snapshot" % self.box["id"], {"name": "storm-%d" % number}, timeout=60)

    def work(self, number):
        if number > 16:
            self.begun.pop()
            return
        if number % 2 == 0 and not self.taken(self.cove.execute(self.box, "echo %d > /workspace/count" % number, _timeout=30)):
            return
        if self.taken(self.make(number), (200, 201)):
            self.acked[number] = True
            if number % 3 == 0:
                self.deleted.add(number)
                self.sure(lambda: self.cove.request("DELETE", self.path(number), timeout=60), (200, 204, 404))

    def audit(self):
        for number in self.acked:
            self.sure(lambda: self.cove.get(self.path(number)), (404,) if number in self.deleted else (200,))
        kept = [n for n in self.acked if n % 2 == 0 and n not in self.deleted]
        for number in kept[-1:]:
            made = self.sure(lambda: self.cove.post("/v1/sandboxes", {"template": "storm-%d" % number}, timeout=60), (201,))
            reply = self.sure(lambda: self.cove.execute(made.json, "cat /workspace/count")) if made else None
            self.want(number, reply and reply.json["stdout"], "%d\n" % number)
            if made:
                self.sure(lambda: self.cove.request("DELETE", "/v1/sandboxes/" + made.json["id"]), (204, 404, 410))

    def clear(self):
        return [self.path(n) for n in self.begun if self.sure(
            lambda: self.cove.request("DELETE", self.path(n), timeout=60), (200, 204, 404)) is None]


class Crowd:
    """The thirteen clients, in four sandboxes, two of sessions, and those that are made."""

    def __init__(self, cove, seed):
        self.cove = cove
        self.boxes = [cove.create() for _ in range(4)]
        first, second, third, fourth = self.boxes
        self.clients = [Processes(cove, first, seed), Commands(cove, first, seed), Streams(cove, first, seed),
                        Shell(cove, second, seed), Bulk(cove, second, seed), Screen(cove, second, seed),
                        Cells(cove, third, seed), Uploads(cove, third, seed), Makes(cove, None, seed),
                        Agent(cove, None, seed, "agent-a"), Agent(cove, None, seed, "agent-b"), Executions(cove, None, seed),
                        Things(cove, fourth, seed)]
        for client in self.clients:
            if not client.is_alive():
                client.start()

    def work(self):
        """How much was asked for and acknowledged so far."""
        asked = [client for client in self.clients if isinstance(client, Load)]
        return sum(len(client.begun) for client in asked), sum(len(client.acked) for client in asked)

    def told(self):
        return ", ".join("%s %d" % (client.name, len(client.acked)) for client in self.clients if isinstance(client, Load))

    def end(self):
        """All stop; what runs until it is told to end is told."""
        for client in self.clients:
            client.stopping = not isinstance(client, (Bulk, Screen))
        for client in self.clients:
            if client.stopping:
                client.join(PATIENCE + 30)
        probe = self.clients[3]
        probe.out("touch /run/over")
        for client in self.clients:
            client.join(PATIENCE)
        return [client.name for client in self.clients if client.is_alive()]

    def audit(self):
        """What is wrong, of all that was acknowledged."""
        def one(client):
            try:
                client.audit()
            except Exception as fault:  # noqa: BLE001
                client.faults.append("%s: %r" % (client.name, fault))
        threads = [threading.Thread(target=one, args=(client,)) for client in self.clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * PATIENCE)
        return [fault for client in self.clients for fault in shown(client.faults)]

    def expected(self):
        """Ids of the sandboxes that must be there."""
        found = {box["id"] for box in self.boxes}
        for client in self.clients:
            if isinstance(client, Makes):
                found |= {box["id"] for box in client.kept.values()}
            if isinstance(client, Agent):
                found.add(client.box["id"])
        return found

    def clear(self):
        """Deletes all of it; what could not be deleted."""
        left = []
        for client in self.clients:
            if isinstance(client, Agent) and not c.until(lambda: client.session.delete().status in (204, 404), 30):
                left.append(client.session.id)
            if isinstance(client, (Executions, Things)):
                left += client.clear()
        for box in sorted(self.expected()):
            reply = live.patiently(lambda: self.cove.request("DELETE", "/v1/sandboxes/" + box))
            if reply.status not in (204, 404, 410):
                left.append((box, reply))
        return left
