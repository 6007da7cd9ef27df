#!/usr/bin/env python3
"""Contexts outlive the daemon, and their cells are kept. The daemon, the warden, and both are killed under cells: each cell
comes to its end, and every event of it is there afterwards, once and in its place. And what many cells and contexts cost."""
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import BROKEN, patiently  # noqa: E402

CELLS = 10000 if os.environ.get("COVE_SOAK") else 300 if c.SHORT else 1000
NODE = shutil.which("node")
CONTEXTS = 20 if c.SHORT else 100
PACED = "import time\nfor i in range(%d):\n    print(i, flush=True)\n    if i %% 50 == 0: display(i); time.sleep(0.02)\ni"


def events_of(body):
    return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")]


def told(events):
    """Text as one, and the events between: what does not depend on how it was cut."""
    text, rest = {"stdout": "", "stderr": ""}, []
    for event in events:
        if event["type"] in text:
            text[event["type"]] += event["text"]
        else:
            rest.append((len(text["stdout"]), event))
    return text, rest


class Notebook:
    def __init__(self, cove, box):
        self.cove, self.box, self.at = cove, box, "/v1/sandboxes/%s/api" % box["id"]

    def create(self, **kw):
        return self.cove.post(self.at + "/contexts", kw).json["contextId"]

    def run(self, context, code, **kw):
        reply = self.cove.post(self.at + "/execute/code", dict(code=code, context_id=context, **kw))
        return events_of(reply.body) if reply.status == 200 else [{"type": "refused", "status": reply.status}]

    def get(self, path="", **kw):
        return self.cove.get(self.at + "/contexts" + path, **kw)

    def cells(self, context):
        return self.get("/%s/cells" % context).json["cells"]

    def cell(self, context, number, **kw):
        return events_of(self.get("/%s/cells/%d" % (context, number), **kw).body)

    def busy(self, context):
        return [each["busy"] for each in self.get().json["contexts"] if each["id"] == context] == [True]


class Reader(threading.Thread):
    """Runs a cell, and goes on with what it missed as often as its connection is cut."""

    def __init__(self, n, context, code, cell, **kw):
        super().__init__(daemon=True)
        self.n, self.context, self.cell = n, context, cell
        self.body = json.dumps(dict(code=code, context_id=context, **kw))
        self.events, self.last, self.calls = [], None, 0
        self.start()

    def refused(self, why):
        """Before the first event an end is told by the status."""
        if why["reason"] not in ("context_died", "box_lost"):
            raise ValueError(why)
        self.events.append({"type": "error", "ename": "ContextDied", "evalue": why["message"]})

    def read(self, conn):
        head = {"Authorization": "Bearer " + self.n.cove.key, "Content-Type": "application/json"}
        if self.last is None:
            conn.request("POST", self.n.at + "/execute/code", self.body, head)
        else:
            head["Last-Event-ID"] = self.last
            conn.request("GET", self.n.at + "/contexts/%s/cells/%d" % (self.context, self.cell), None, head)
        reply = conn.getresponse()
        if reply.status != 200:
            self.refused(json.loads(reply.read()))
            return
        self.last = self.last or "0.0.0"
        here, data = None, None
        while True:
            line = reply.readline()
            if not line:
                return
            if line.startswith(b"id: "):
                here = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                data = json.loads(line[6:])
            elif line == b"\n" and data:
                self.events.append(data)
                self.last, data = here, None

    def run(self):
        end = time.monotonic() + 60
        while not (self.events and self.events[-1]["type"] in ("error", "execution_complete")) and time.monotonic() < end:
            conn = http.client.HTTPConnection("127.0.0.1", self.n.cove.port, timeout=60)
            self.calls += 1
            try:
                self.read(conn)
            except BROKEN:
                time.sleep(0.1)
            finally:
                conn.close()


def kill(cove, *roles):
    pids = {role: cove.children()[role] for role in roles}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    c.until(lambda: all(cove.children().get(role, pid) != pid for role, pid in pids.items()), 30, 0.01)


def replay(n):
    one = n.create()
    first = n.run(one, "print('é' * 3)\ndisplay([1])\nimport sys; print('e', file=sys.stderr)\n7")
    n.run(one, "1/0")
    c.same(n.cells(one), [{"cell": 1, "ended": True}, {"cell": 2, "ended": True}], "cells are counted and kept")
    c.same(told(n.cell(one, 1)), told(first), "a cell is read again")
    c.same(n.cell(one, 2)[-1]["ename"], "ZeroDivisionError", "with its error")
    reply = n.get("/%s/cells/1" % one)
    c.same(reply.headers.get("X-Cell"), "1", "its number comes along")
    ids = [line[4:] for line in reply.body.decode().splitlines() if line.startswith("id: ")]
    whole = n.cell(one, 1)
    wrong = [i for i, each in enumerate(ids[:-1]) if
             n.cell(one, 1, headers={"Last-Event-ID": each}) != whole[i + 1:] or
             events_of(n.get("/%s/cells/1?offset=%s" % (one, each)).body) != whole[i + 1:]]
    c.ok(len(ids) == len(whole) and not wrong, "from every id on comes what was not seen", ids, wrong)
    bad = [each for each in ("x", "1", "1.2", "1.2.3.4", "-1.0.0", "1.0.0x") if n.get("/%s/cells/1?offset=%s" % (one, each)).status != 400]
    c.same(bad, [], "an offset that is none")
    for number in ("3", "0", "x"):
        c.same(n.get("/%s/cells/%s" % (one, number)).json["code"], "CELL_NOT_FOUND", "a cell that is not: " + number)
    for i in range(40):
        n.run(one, str(i))
    kept = n.cells(one)
    c.ok(len(kept) == 32 and kept[-1]["cell"] == 42, "the last ones are kept", kept)
    return one


def waiting(n, one):
    first = Reader(n, one, "import time; time.sleep(1)\nimport os; os._exit(3)", 0)
    c.until(lambda: n.busy(one))
    second = Reader(n, one, "5", 0)
    first.join(20)
    second.join(20)
    c.same([r.events[-1]["ename"] for r in (first, second)], ["ContextDied"] * 2, "whoever waits for a context that dies is told")
    n.cove.post(n.at + "/contexts/%s/restart" % one, {})
    c.same(n.run(one, "5")[0]["text"], "5", "and it can be restarted")


def killed(n, who, *roles):
    """Under a cell that prints, one that is silent, and one that waits for nothing."""
    busy, quiet, idle = n.create(cwd="/tmp", env_vars={"A": "b"}), n.create(language="python", timeout_ms=30000), n.create()
    n.run(busy, "x = 5")
    n.run(idle, "y = 6\nimport os; os.chdir('/usr')")
    node = NODE and n.create(language="typescript")
    if node:
        n.run(node, "const k: number = 3")
        waits = Reader(n, node, "console.log('on'); await new Promise((r) => setTimeout(r, 1500)); console.log('off'); k", 2)
        c.until(lambda: waits.events)
    before = {each["id"]: each for each in n.get().json["contexts"]}
    # Half of it comes when the daemon is there again: the cell is not over before the kill, however slow that is.
    gate = "/tmp/gate-%d" % len(roles)
    gated = PACED.replace("    print", "    while i == 750 and not os.path.exists('%s'): time.sleep(0.01)\n    print" % gate)
    reader = Reader(n, busy, "import os\n" + gated % 1500, 2)
    silent = Reader(n, quiet, "import time; time.sleep(2)\nz = 8\nprint('late')\nz", 1)
    c.until(lambda: len(reader.events) > 5 and n.busy(quiet))
    kill(n.cove, *roles)
    patiently(lambda: n.get())
    n.cove.out(n.box, "touch " + gate)
    after = {each["id"]: each for each in n.get().json["contexts"]}
    c.same([(each["language"], each["pid"], each["alive"]) for each in after.values()],
           [(each["language"], each["pid"], each["alive"]) for each in before.values()], who + ": all are there, the same processes")
    c.same(n.run(idle, "import os; [y, os.getcwd()]")[0]["json"], [6, "/usr"], who + ": an idle one has its state")
    c.same([each["cwd"] for each in n.get().json["contexts"] if each["id"] == idle], ["/usr"], who + ": and its directory")
    if node:
        waits.join(30)
        c.same([each.get("text") for each in waits.events], ["on\n", "off\n", "3", None], who + ": node goes on, too")
        c.same(n.run(node, "k + 1")[0]["text"], "4", who + ": with its state")
        n.cove.request("DELETE", n.at + "/contexts/" + node)
    reader.join(60)
    silent.join(60)
    text, rest = told(reader.events)
    want = "".join("%d\n" % i for i in range(1500))
    c.ok(text["stdout"] == want and reader.calls > 1, who + ": every byte of the cell came once, in its place",
         len(text["stdout"]), len(want), reader.calls)
    places = [(len("".join("%d\n" % j for j in range(i + 1))), str(i)) for i in range(0, 1500, 50)] + [(len(want), "1499")]
    c.same([(at, each.get("text")) for at, each in rest[:-1]], places, who + ": and every result")
    c.same(rest[-1][1], {"type": "execution_complete", "execution_count": 2}, who + ": and its end")
    c.same(told(n.cell(busy, 2)), told(reader.events), who + ": it is read again as it was")
    c.same([each.get("text") for each in silent.events], ["late\n", "8", None], who + ": so it is of one that was silent")
    c.same([n.run(busy, "x")[0]["text"], n.run(quiet, "z")[0]["text"]], ["5", "8"], who + ": the contexts go on")
    numbers = [each["cell"] for each in n.cells(idle)]
    c.ok(len(numbers) == 2 and numbers[0] == 1 and numbers[1] in (2, 3), who + ": the count of cells goes on", numbers)
    c.same(n.run(busy, "while True: pass", timeout_ms=300)[-1]["ename"], "TimeoutError", who + ": a limit holds")
    for each in (busy, quiet, idle):
        n.cove.request("DELETE", n.at + "/contexts/" + each)


def away(n):
    """What happens while there is no daemon."""
    dying, late = n.create(), n.create()
    reader = Reader(n, dying, "import time\nprint('last words', flush=True)\ntime.sleep(1)\nprint('x' * 5000, flush=True)\n"
                    "import ctypes; ctypes.string_at(0)", 1)
    limited = Reader(n, late, "import time\ntime.sleep(60)", 1, timeout_ms=3000)
    c.until(lambda: reader.events and n.busy(late))
    pid = n.cove.children()["daemon"]
    supervisor = n.cove.process.pid
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    time.sleep(2)
    os.kill(supervisor, signal.SIGCONT)
    c.until(lambda: n.cove.children().get("daemon", pid) != pid, 30, 0.01)
    patiently(lambda: n.get())
    reader.join(30)
    limited.join(30)
    text, rest = told(reader.events)
    c.ok(text["stdout"] == "last words\n" + "x" * 5000 + "\n" and rest[-1][1]["ename"] == "ContextDied" and
         "SIGSEGV" in rest[-1][1]["evalue"], "one that crashed while nobody looked: its words and its end are told", rest, text["stdout"][:50])
    c.same([each["alive"] for each in n.get().json["contexts"] if each["id"] == dying], [False], "it is dead, and listed")
    c.same(limited.events[-1]["ename"], "TimeoutError", "a limit of a cell goes on")
    for each in (dying, late):
        n.cove.request("DELETE", n.at + "/contexts/" + each)


def upgraded(n):
    one = n.create()
    n.run(one, "u = 9")
    reader = Reader(n, one, PACED % 1000, 2)
    c.until(lambda: len(reader.events) > 3)
    done = subprocess.run([n.cove.binary, "upgrade", "--data", n.cove.data], capture_output=True, text=True, timeout=100)
    c.same(done.returncode, 0, "an upgrade under a cell")
    reader.join(60)
    c.same(told(reader.events)[0]["stdout"], "".join("%d\n" % i for i in range(1000)), "it is told whole")
    c.same(n.run(one, "u")[0]["text"], "9", "and the context goes on")
    n.cove.request("DELETE", n.at + "/contexts/" + one)


def stopped(n, box):
    one = n.create()
    before = n.run(one, "s = 1\nprint('kept')\ns")
    under = Reader(n, one, "import time\nprint('begun')\ntime.sleep(60)", 2)
    c.until(lambda: under.events)
    waits = Reader(n, one, "2", 3)
    c.until(lambda: len(n.cells(one)) == 3)
    n.cove.post("/v1/sandboxes/%s/stop" % box["id"], {})
    under.join(20)
    waits.join(20)
    c.ok([each.get("text") or each["ename"] for each in under.events] == ["begun\n", "ContextDied"] and "sandbox" in under.events[-1]["evalue"],
         "a stop ends the cell at work", under.events)
    c.same([each.get("ename") for each in waits.events], ["ContextDied"], "and those that wait")
    c.same(told(n.cell(one, 2)), told(under.events), "the end of it is kept")
    c.same(told(n.cell(one, 1)), told(before), "a cell of a sandbox that has stopped")
    kill(n.cove, "daemon")
    patiently(lambda: n.get("/%s/cells" % one))
    c.same(told(n.cell(one, 1)), told(before), "also after a restart")
    n.cove.post("/v1/sandboxes/%s/start" % box["id"], {})
    c.same([each["alive"] for each in n.get().json["contexts"] if each["id"] == one], [False], "its process ended with the sandbox")
    c.same(n.cove.post(n.at + "/contexts/%s/restart" % one, {}).status, 200, "a restart revives it")
    c.same(n.run(one, "s")[-1]["ename"], "NameError", "without its state")
    c.same(told(n.cell(one, 1)), told(before), "and with its cells")
    n.cove.request("DELETE", n.at + "/contexts/" + one)
    c.same(n.get("/%s/cells" % one).status, 404, "with a context its cells go")


def rss(pid):
    return [int(line.split()[1]) for line in open("/proc/%d/status" % pid, errors="replace") if line.startswith("VmRSS")][0]


def many_cells(n):
    one = n.create()
    conn = http.client.HTTPConnection("127.0.0.1", n.cove.port, timeout=60)
    head = {"Authorization": "Bearer " + n.cove.key, "Content-Type": "application/json"}
    body = json.dumps({"context_id": one, "code": "x = list(range(50))\nprint(len(x))\nx[:3]"})
    daemon = n.cove.children()["daemon"]

    def some(count):
        for _ in range(count):
            conn.request("POST", n.at + "/execute/code", body, head)
            if conn.getresponse().read().count(b"data: ") != 3:
                raise RuntimeError("a cell failed")

    def driver():
        return int(n.run(one, "[int(line.split()[1]) for line in open('/proc/self/status') if 'VmRSS' in line][0]")[0]["text"])

    some(600)
    before = rss(daemon), driver()
    begun = time.monotonic()
    some(CELLS)
    took = time.monotonic() - begun
    after = rss(daemon), driver()
    c.note("%d cells, %.2f ms each; daemon %d to %d KiB, driver %d to %d KiB" %
           (CELLS, took * 1000 / CELLS, before[0], after[0], before[1], after[1]))
    c.ok(after[1] - before[1] < 1500, "%d cells leave the driver's memory as it was" % CELLS, before, after)
    if c.SHORT:
        c.skip("and the daemon's", "sanitizers use memory of their own")
    else:
        c.ok(after[0] - before[0] < 3000, "and the daemon's", before, after)
    files = sum(len(names) for _, _, names in os.walk(os.path.join(n.cove.data, "daemon")))
    c.ok(files < 400, "and few files", files)
    conn.close()
    n.cove.request("DELETE", n.at + "/contexts/" + one)


def many_contexts(n):
    begun, made = time.monotonic(), []
    for _ in range(CONTEXTS):
        reply = n.cove.post(n.at + "/contexts", {})
        made.append(reply.json.get("contextId") or reply)
    c.note("%d contexts in %.1f s" % (CONTEXTS, time.monotonic() - begun))
    c.ok(all(isinstance(each, str) for each in made), "%d contexts in one sandbox" % CONTEXTS, made[-1])
    n.run(made[0], "import os; os.environ['W'] = '0'")
    got = [n.run(each, "v = %d\nv" % i)[0].get("text") for i, each in enumerate(made)]
    c.same(got, [str(i) for i in range(CONTEXTS)], "each runs")
    kill(n.cove, "daemon")
    patiently(lambda: n.get())
    got = [n.run(each, "v")[0].get("text") for each in made]
    c.same(got, [str(i) for i in range(CONTEXTS)], "and each has its state when the daemon was killed")
    for each in made:
        n.cove.request("DELETE", n.at + "/contexts/" + each)
    c.same(n.get().json["contexts"], [], "all go")


def main():
    c.need_root()
    cove = c.Cove()
    n = Notebook(cove, cove.create())
    waiting(n, replay(n))
    killed(n, "the daemon", "daemon")
    killed(n, "daemon and warden", "daemon", "warden")
    away(n)
    upgraded(n)
    roomy = cove.create(limits={"memoryMB": 2048, "pids": 1000})
    many_cells(n)
    many_contexts(Notebook(cove, roomy))
    box = cove.create()
    stopped(Notebook(cove, box), box)
    cove.close()
    c.done()


main()
