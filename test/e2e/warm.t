#!/usr/bin/env python3
"""Interpreters that wait: made off the way, taken by the next context as what it asks for, in no list, never in the way of a box's rest."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions  # noqa: E402

cove = c.Cove("--warm-max", "4")


class Notebook:
    def __init__(self, **spec):
        self.box = cove.create(**spec)
        self.at = "/v1/sandboxes/%s/api" % self.box["id"]

    def create(self, **kw):
        return cove.post(self.at + "/contexts", kw)

    def contexts(self):
        return cove.get(self.at + "/contexts").json["contexts"]

    def run(self, code, context=None, **kw):
        body = dict(code=code, **kw)
        if context:
            body["context_id"] = context
        reply = cove.post(self.at + "/execute/code", body)
        return [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: ")]

    def value(self, code, context=None, **kw):
        first = self.run(code, context, **kw)[0]
        return first.get("json", first.get("text"))

    def interpreters(self, name="python3"):
        """The pids of all of them, whoever's they are."""
        seen = cove.out(self.box, "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = %s ] && echo ${p#/proc/}; done; true" % name)
        return sorted(map(int, seen.split()))

    def spares(self, name="python3"):
        return [pid for pid in self.interpreters(name) if pid not in [each["pid"] for each in self.contexts()]]

    def spare(self, name="python3"):
        found = c.until(lambda: self.spares(name), 30)
        return found[0] if found else None

    def rest(self):
        cove.delete(self.box)


def settled(n):
    """One that waits has also answered: it has read all that it was told."""
    pid = n.spare()
    c.until(lambda: cove.out(n.box, "cat /proc/%d/wchan /proc/%d/syscall 2>/dev/null; true" % (pid, pid)))
    time.sleep(0.3)
    return pid


def taken():
    n = Notebook()
    c.same(n.value("1 + 1"), "2", "a first cell, without one that waits")
    pid = settled(n)
    c.ok(pid, "then one waits")
    c.same(len(n.contexts()), 1, "and is in no list of contexts")
    c.same(cove.get(n.at + "/process/list").json["processes"], [], "nor of processes")
    made = n.create(cwd="/tmp", env_vars={"GIVEN": "it's", "EMPTY": ""})
    c.ok(made.status == 200 and made.json["pid"] == pid and made.json["cwd"] == "/tmp", "the next context takes it", made, pid)
    one = made.json["contextId"]
    c.same(n.value("import os; [os.getcwd(), os.environ['GIVEN'], os.environ['EMPTY'], os.environ['HOME'], __name__]", one),
           ["/tmp", "it's", "", "/root", "__main__"], "and makes it what it asks for")
    out = n.run("import subprocess; subprocess.run(['sh', '-c', 'echo $GIVEN; pwd'])", one)
    c.same("".join(each.get("text", "") for each in out[:-1] if each["type"] == "stdout"), "it's\n/tmp\n", "for its children, too")
    second = settled(n)
    c.ok(second and second != pid, "another one waits then", second)
    other = n.create(env_vars={"PYTHONHASHSEED": "1"})
    c.ok(other.json["pid"] not in (pid, second), "settings read at the start of an interpreter need a new one", other)
    c.same(n.create(cwd="/nowhere").status, 500, "a directory that is not there is refused as ever")
    c.same(cove.get(n.at + "/interpreter/health").status, 200, "and all is well")
    n.create()
    third = settled(n)
    n.run("import os, signal; os.kill(%d, signal.SIGKILL)" % third, one)
    c.ok(c.until(lambda: third not in n.interpreters()), "a prewarmed interpreter that is killed")
    c.same(n.value("6 * 7", n.create().json["contextId"]), "42", "is missed by nobody")
    died = n.run("import os; os._exit(1)", one)
    pid = settled(n)
    again = cove.post(n.at + "/contexts/%s/restart" % one, {})
    c.ok(died[-1]["ename"] == "ContextDied" and again.status == 200, "a restart", died, again)
    c.same([each["pid"] for each in n.contexts() if each["id"] == one], [pid], "takes it as well")
    c.same(n.value("import os; os.getcwd()", one), "'/tmp'", "as what the context was")
    settled(n)
    cove.request("PATCH", "/v1/sandboxes/" + n.box["id"], {"env": {"TZ": "Asia/Tokyo"}})
    c.same(n.value("import os, time; [os.environ['TZ'], time.tzname[0]]", n.create().json["contextId"]), ["Asia/Tokyo", "JST"],
           "a change of the box's environment is not missed")
    pid = settled(n)
    made = n.create().json
    c.same((made["pid"], n.value("import os, time; [os.environ['TZ'], time.tzname[0]]", made["contextId"])), (pid, ["Asia/Tokyo", "JST"]),
           "and the next one that waits has it")
    n.rest()


def rests():
    n = Notebook(sleepAfter="1s", labels={"cove.warm": "python"})
    c.ok(n.spare(), "a label asks for one before the first context")
    state = lambda: cove.get("/v1/sandboxes/" + n.box["id"]).json["state"]  # noqa: E731
    c.ok(c.until(lambda: state() == "frozen", 30), "which keeps no box awake", state())
    c.ok(c.until(lambda: not n.interpreters()), "and is gone when the box rests", n.interpreters())
    c.same(n.value("1"), "1", "the box wakes")
    n.rest()
    small = Notebook(limits={"memoryMB": 64})
    small.value("1")
    time.sleep(0.5)
    c.same(small.spares(), [], "none waits in a box that is small")
    small.rest()


def bounded():
    boxes = [Notebook(labels={"cove.warm": "python"}) for _ in range(6)]
    c.ok(c.until(lambda: sum(len(n.spares()) for n in boxes) == 4, 30), "no more wait than the operator allows",
         [n.spares() for n in boxes])
    time.sleep(0.3)
    c.same(sum(len(n.spares()) for n in boxes), 4, "for good")
    for n in boxes[:5]:
        n.rest()
    c.same(boxes[5].value("1"), "1", "a sandbox without a prewarmed interpreter runs its first cell all the same")
    c.ok(boxes[5].spare(), "and room is made by the boxes that go")
    return boxes[5]


def adopted(n):
    before = settled(n)
    mine = n.create().json
    c.same(mine["pid"], before, "a context from one that waited")
    n.run("kept = 5", mine["contextId"])
    spare = settled(n)
    agent_sessions.kill_daemon(cove)
    c.same(n.value("kept", mine["contextId"]), "5", "outlives the daemon")
    c.ok(c.until(lambda: spare not in n.interpreters()), "a prewarmed interpreter is ended by the next daemon", n.interpreters())
    c.same(n.value("2", n.create().json["contextId"]), "2", "and contexts go on")
    n.rest()


def node():
    if not shutil.which("node"):
        return c.skip("node", "node is not installed")
    n = Notebook()
    n.value("1", language="javascript")
    pid = n.spare("node")
    time.sleep(0.5)
    made = n.create(language="javascript", env_vars={"GIVEN": "x"}).json
    c.same(made["pid"], pid, "JavaScript has its own")
    c.same(n.value("[process.env.GIVEN, process.cwd(), typeof require('fs').statSync]", made["contextId"]), ["x", "/workspace", "function"],
           "as what is asked for")
    n.spare("node")
    time.sleep(0.5)
    c.ok(n.create(language="javascript", cwd="/tmp").json["pid"] not in n.spares("node") + [pid], "another directory needs a new one")
    n.rest()
    return None


taken()
rests()
adopted(bounded())
node()
cove.stop()
bad = subprocess.run([c.BIN, "serve", "--data", cove.data, "--listen", "127.0.0.1:0", "--warm", "cobol"], capture_output=True, timeout=60)
c.ok(bad.returncode == 2 and b"cobol" in bad.stderr + bad.stdout, "a language that nobody speaks is refused at the start", bad)
c.done()
