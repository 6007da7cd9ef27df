#!/usr/bin/env python3
"""The code interpreter over HTTP: contexts, cells, events, and every way to end. What the drivers answer is shown by test/kernels."""
import base64
import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


class Notebook:
    """The contexts of one sandbox."""

    def __init__(self, cove, box):
        self.cove, self.box = cove, box
        self.at = "/v1/sandboxes/%s/api" % box["id"]

    def create(self, **kw):
        return self.cove.post(self.at + "/contexts", kw)

    def cell(self, context, code, **kw):
        return self.cove.post(self.at + "/execute/code", dict(code=code, context_id=context, **kw))

    def run(self, context, code, **kw):
        """Its events."""
        reply = self.cell(context, code, **kw)
        if reply.status != 200:
            return [{"type": "refused", "status": reply.status, "code": reply.json["code"]}]
        return [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: ")]


def contexts(n):
    made = n.create(language="python", cwd="/tmp", env_vars={"GIVEN": "it's"})
    c.ok(made.status == 200 and len(made.json["contextId"]) == 36 and made.json["language"] == "python"
         and made.json["cwd"] == "/tmp", "a context is made", made)
    one = made.json["contextId"]
    c.same(n.run(one, "import os; [os.getcwd(), os.environ['GIVEN']]"),
           [{"type": "result", "json": ["/tmp", "it's"], "metadata": {}},
            {"type": "execution_complete", "execution_count": 1}], "it has its directory and environment")
    c.same(n.run(one, "x = 5\nprint('é')\nx"),
           [{"type": "stdout", "text": "é\n"}, {"type": "result", "text": "5", "metadata": {}},
            {"type": "execution_complete", "execution_count": 2}], "text and results come in order")
    c.same(n.run(one, "x + 1")[0]["text"], "6", "the state stays")
    two = n.create().json["contextId"]
    c.same(n.run(two, "x")[-1]["ename"], "NameError", "another context has its own")
    listed = n.cove.get(n.at + "/contexts").json["contexts"]
    c.same([(each["id"], each["language"], each["alive"]) for each in listed],
           [(one, "python", True), (two, "python", True)], "both are listed")
    c.same(n.cove.request("DELETE", n.at + "/contexts/" + two).status, 200, "one is deleted")
    reply = n.cell(two, "1")
    c.ok(reply.status == 404 and reply.json["code"] == "CONTEXT_NOT_FOUND" and reply.json["error"] and "details" in reply.json,
         "and is not there any more, in the words of the client", reply)
    c.same(n.cell(one, "1", language="javascript").json["code"], "CODE_EXECUTION_ERROR", "a context has one language")
    c.same(n.create(language="cobol").status, 400, "a language that nobody speaks")
    c.same(n.create(cwd="/nowhere").status, 500, "a directory that is not there")
    c.same(n.cove.get(n.at + "/interpreter/health").json["status"], "healthy", "the interpreter is well")
    return one


def failures(n, one):
    last = n.run(one, "print('a')\n1/0")
    c.ok([each["type"] for each in last] == ["stdout", "error"] and last[1]["ename"] == "ZeroDivisionError"
         and last[1]["evalue"] == "division by zero" and "1/0" in "".join(last[1]["traceback"]), "an exception", last)
    c.same(n.run(one, "1 +")[-1]["ename"], "SyntaxError", "a syntax error is one")
    c.same(n.run(one, "import sys; sys.exit(3)")[-1]["ename"], "SystemExit", "SystemExit is an error")
    c.same(n.run(one, "input()")[-1]["ename"], "EOFError", "input() is refused")
    c.same(n.run(one, "while True: pass", timeout_ms=300)[-1]["ename"], "TimeoutError", "a cell that is late is ended")
    c.same(n.run(one, "x")[0]["text"], "5", "the context lives on")
    events = n.run(one, "while True: print('y' * 1000)", timeout_ms=1500)
    size = sum(len(each.get("text", "")) for each in events)
    c.ok(events[-1].get("ename") == "TimeoutError" and not any("[cove:" in each.get("text", "") for each in events[-3:]),
         "output without an end is told whole to who reads it", events[-1], size)
    c.same(n.run(one, "x")[0]["text"], "5", "and again it lives on")
    dead = n.run(one, "import ctypes; print('last', flush=True); ctypes.string_at(0)")
    c.ok(dead[0] == {"type": "stdout", "text": "last\n"} and dead[-1]["ename"] == "ContextDied" and "SIGSEGV" in dead[-1]["evalue"],
         "a crash is told, behind what was written", dead)
    reply = n.cell(one, "1")
    c.ok(reply.status == 500 and reply.json["code"] == "INTERNAL_ERROR", "the context is dead, and says so", reply)
    c.same(n.cove.post(n.at + "/contexts/%s/restart" % one, {}).status, 200, "a restart revives it")
    c.same(n.run(one, "x")[-1]["ename"], "NameError", "without its state")
    oom = n.run(one, "b = b'x' * (2 << 30)")
    c.ok(oom[-1]["ename"] == "MemoryError", "memory that runs out", oom[-1])
    n.cove.post(n.at + "/contexts/%s/restart" % one, {})
    c.same(n.run(one, "1")[0]["text"], "1", "ends a context at most")


def interrupts(n, one):
    events = []
    runner = threading.Thread(target=lambda: events.extend(n.run(one, "y = 7\nprint('go', flush=True)\nimport os, time; os.mkdir('/tmp/went'); time.sleep(60)")))
    runner.start()
    c.until(lambda: n.cove.run(n.box, "test -d /tmp/went")["exitCode"] == 0)
    c.same(n.cove.post(n.at + "/contexts/%s/interrupt" % one, {}).json["interrupted"], True, "a cell is interrupted")
    runner.join(20)
    c.ok(events and events[0]["text"] == "go\n" and events[-1]["ename"] == "KeyboardInterrupt", "and says so", events)
    c.same(n.run(one, "y")[0]["text"], "7", "its context lives")
    c.same(n.cove.post(n.at + "/contexts/%s/interrupt" % one, {}).json["interrupted"], False, "nothing runs: nothing is interrupted")


def streams(n, one):
    conn = http.client.HTTPConnection("127.0.0.1", n.cove.port, timeout=20)
    begun, seen = time.monotonic(), []
    conn.request("POST", n.at + "/execute/code", json.dumps({"context_id": one, "code": "print(1)\nimport time; time.sleep(2)\nprint(2)"}),
                 {"Authorization": "Bearer " + n.cove.key, "Content-Type": "application/json"})
    for line in conn.getresponse():
        if line.startswith(b"data: "):
            seen.append((time.monotonic() - begun, json.loads(line[6:])))
    conn.close()
    c.ok(len(seen) == 3 and seen[0][0] < 1.5 and seen[1][0] > 1.5, "events come while the cell runs", seen)


def node(n):
    if not shutil.which("node"):
        c.skip("JavaScript", "node is not installed")
        return
    js = n.create(language="javascript").json["contextId"]
    c.same([each.get("json") for each in n.run(js, "const a = await 5; let b = [a]; b")][0], [5], "JavaScript: await, const")
    c.same(n.run(js, "const a = 6; a")[0]["text"], "6", "what was declared may be declared again")
    last = n.run(js, "null.x")[-1]
    c.ok(last["ename"] == "TypeError" and last["evalue"].startswith("Cannot read properties"), "errors have name and message", last)
    c.same([each.get("text") for each in n.run(js, "console.log('o'); console.error('e'); new Promise((r) => setTimeout(() => r(1), 50))")
            if each["type"] != "execution_complete"], ["o\n", "e\n", "1"], "console, and promises are awaited")
    c.same(n.run(js, "[require('path').sep, (await import('node:os')).EOL, a]")[0]["json"], ["/", "\n", 6], "require and import()")
    c.same(n.run(js, "1 +")[-1]["ename"], "SyntaxError", "a syntax error")
    c.same(n.run(js, "while (true) {}", timeout_ms=300)[-1]["ename"], "TimeoutError", "a loop without an end is ended")
    c.same(n.run(js, "process.exit(1)")[-1]["ename"], "ProcessExit", "process.exit() is an error")
    c.same(n.run(js, "a")[0]["text"], "6", "the context lives on")
    c.same(n.run(js, "process.abort()")[-1]["ename"], "ContextDied", "an abort is told")
    ts = n.create(language="typescript")
    c.same(ts.status, 200, "TypeScript is part of the build")
    c.same(n.run(ts.json["contextId"], "let x: = 1")[-1]["ename"], "TranspileError", "what is no TypeScript")
    c.same(n.run(ts.json["contextId"], "interface P { x: number }\nconst p: P = {x: 1}\np.x as number")[0]["text"], "1", "TypeScript")


def kinds(events):
    return {kind: value for each in events if each["type"] == "result" for kind, value in each.items() if kind not in ("type", "metadata")}


CHARTS = {"line": "plt.plot([1, 2], [3, 4])", "bar": "plt.bar(['a', 'b'], [3, 4])", "scatter": "plt.scatter([1, 2], [3, 4])",
          "pie": "plt.pie([1, 3], labels=['p', 'q'])", "box": "plt.boxplot([1, 2, 3, 4, 100])"}


def has(*modules):
    return subprocess.run(["/usr/bin/python3", "-c", "import " + ",".join(modules)], stderr=subprocess.DEVNULL).returncode == 0


def rich(n):
    lacking = [module for module in ("pandas", "matplotlib", "ipykernel") if not has(module)]
    if lacking:
        c.skip("tables, pictures, charts and magics", "not installed: " + ", ".join("python3-" + module for module in lacking))
        return
    py = n.create().json["contextId"]
    got = kinds(n.run(py, "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})"))
    c.ok("<table" in got["html"] and "a" in got["text"] and got["data"] == [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
         "a DataFrame is html, text and data", got)
    n.run(py, "import matplotlib.pyplot as plt")
    wrong = []
    for kind, code in CHARTS.items():
        got = kinds(n.run(py, code + "; plt.title('T'); plt.xlabel('X');"))
        chart = got.get("chart", {})
        if not (base64.b64decode(got.get("png", "")).startswith(b"\x89PNG") and (chart["type"], chart["title"], chart["library"]) ==
                (kind, "T", "matplotlib") and chart["data"]["series"] and "X" in json.dumps(chart["layout"])):
            wrong.append((kind, chart))
    c.same(wrong, [], "figures are pictures and data, without show(): " + ", ".join(CHARTS))
    c.same([each.get("text") for each in n.run(py, "display(1); print(2); await __import__('asyncio').sleep(0, 3)")[:3]], ["1", "2\n", "3"],
           "display(), and await at the top")
    c.same(n.run(py, "!echo $((6 * 7))")[0], {"type": "stdout", "text": "42\n"}, "!shell")
    c.ok("Wall time" in "".join(each.get("text", "") for each in n.run(py, "%time sum(range(10))")), "a magic")
    c.same(n.run(py, "%%bash\necho in bash")[0]["text"], "in bash\n", "a magic of the whole cell")
    c.same(n.run(py, "import os; os.abort()")[-1]["ename"], "ContextDied", "an abort of C is told")
    n.cove.request("DELETE", n.at + "/contexts/" + py)


def serial(n, one):
    """Cells of a context run one after another, in order of arrival; contexts side by side."""
    n.run(one, "import time\nlog = []")
    code = "log.append(('in', %d)); time.sleep(0.2); log.append(('out', %d))"
    threads = []
    for i in range(5):
        threads.append(threading.Thread(target=n.run, args=(one, code % (i, i))))
        threads[-1].start()
        c.until(lambda: len([each for each in n.cove.get(n.at + "/contexts/%s/cells" % one).json["cells"] if not each["ended"]]) > i or
                not threads[0].is_alive())
    for each in threads:
        each.join(20)
    c.same(n.run(one, "log")[0]["json"], [[word, i] for i in range(5) for word in ("in", "out")], "cells of one context take turns")
    two = n.create().json["contextId"]
    sleeper = threading.Thread(target=n.run, args=(one, "time.sleep(60)"))
    sleeper.start()
    c.until(lambda: n.cove.get(n.at + "/contexts").json["contexts"][0]["busy"])
    c.same(n.run(two, "1")[0]["text"], "1", "another context waits for nobody")
    waiter = threading.Thread(target=lambda: told.extend(n.run(one, "'log' in globals()")))
    told = []
    waiter.start()
    c.until(lambda: len([each for each in n.cove.get(n.at + "/contexts/%s/cells" % one).json["cells"] if not each["ended"]]) == 2)
    c.same(n.cove.post(n.at + "/contexts/%s/restart" % one, {}).status, 200, "a restart under a cell")
    waiter.join(20)
    sleeper.join(20)
    c.same(told[0].get("text"), "False", "what waited is run by the new process")
    busy = threading.Thread(target=lambda: ends.extend(n.run(two, "import time; time.sleep(60)")))
    ends = []
    busy.start()
    c.until(lambda: n.cove.get(n.at + "/contexts").json["contexts"][-1]["busy"])
    c.same(n.cove.request("DELETE", n.at + "/contexts/" + two).status, 200, "a context is deleted under its cell")
    busy.join(20)
    c.same(ends[-1]["ename"], "ContextDeleted", "who is told so")


def defaults(n):
    c.same(n.run(None, "z = 3")[-1]["type"], "execution_complete", "a cell without a context has the default one")
    c.same(n.run(None, "z")[0]["text"], "3", "each time the same")
    if shutil.which("node"):
        c.same(n.run(None, "globalThis.z = 4; z", language="javascript")[0]["text"], "4", "each language has its own")
        c.same([n.run(None, "z", language="javascript")[0]["text"], n.run(None, "z", language="python")[0]["text"]], ["4", "3"],
               "and they do not meet")
    c.same(n.run(None, "import os; os._exit(1)")[-1]["ename"], "ContextDied", "a default one can die")
    c.same(n.run(None, "z")[-1]["ename"], "NameError", "then there is another")


def many(n, one):
    for _ in range(20):
        n.run(one, "1")
    begun = time.monotonic()
    for _ in range(200):
        n.run(one, "1")
    c.note("a cell takes %.2f ms" % ((time.monotonic() - begun) * 5))
    others = [n.create().json.get("contextId") for _ in range(10)]
    c.ok(all(others), "ten contexts more", others)
    done = []
    threads = [threading.Thread(target=lambda each=each: done.append(n.run(each, "import os; os.getpid()")[0]["text"])) for each in others]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    c.same(len(set(done)), 10, "each is a process of its own, side by side")


def main():
    c.need_root()
    cove = c.Cove()
    n = Notebook(cove, cove.create())
    one = contexts(n)
    failures(n, one)
    interrupts(n, one)
    streams(n, one)
    serial(n, one)
    rich(n)
    node(n)
    defaults(n)
    many(n, one)
    cove.close()
    c.done()


main()
