#!/usr/bin/env python3
"""Adoption across versions: each cove that test/old keeps makes everything that outlives a daemon, and this cove takes it
over. Once by `cove upgrade`, with sandboxes and clients alive; once after kill -9 of supervisor, daemon and warden, by a
start on the same data directory. A name on disk or between processes that changes without a migration fails here."""
import atexit
import glob
import io
import json
import lzma
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from cove import BROKEN, patiently  # noqa: E402
from live import api, counting, miscounted, start  # noqa: E402
from outside import Outside, ledger  # noqa: E402
from visits import Site, expose, free_port, serve  # noqa: E402
from wsclient import Terminal  # noqa: E402

SECRET = "tk." + os.urandom(16).hex()
# No value is a default: a field that is lost comes back as one.
POLICY = {"mode": "allow", "allow": ["www.test", "api.test"], "secrets": [{"name": "API_TOKEN", "value": SECRET, "hosts": ["api.test"]}],
          "inspect": ["*.seen.test"], "rules": [{"name": "api.test", "methods": ["GET"], "paths": ["/secret*"]}],
          "budgets": {"requests": 1000, "connections": 1001, "bytesOut": 1000002, "bytesIn": 1000003, "perSecond": 104}}
SPEC = {"labels": {"a": "b"}, "env": {"E": "of the box"}, "ttl": 86400, "sleepAfter": "11m", "network": POLICY, "baseUrl": "http://127.0.0.1:1",
        "containerTimeouts": {"instanceGetTimeoutMS": 30001, "portReadyTimeoutMS": 90001, "waitIntervalMS": 301},
        "limits": {"memoryMB": 300, "cpus": 0.9, "pids": 200, "outputMB": 63, "keptOutputMB": 400, "cpuTimeMs": 10 ** 9, "wallTimeMs": 10 ** 8}}
TENANT = {"host": True, "quota": {"boxes": 5, "memoryMB": 512, "cpus": 3, "diskMB": 9000, "execs": 7}, "network": "allow", "templates": ["*"]}
KEY = ("id", "name", "tenant", "scopes", "sandbox", "host", "createdAt", "expiresAt")
# What a client was told of a sandbox stays true, state included.
LASTING = ("id", "shortId", "name", "state", "tenant", "template", "user", "workdir", "limits", "labels", "network", "sleepAfter",
           "keepAlive", "ephemeral", "containerTimeouts", "createdAt", "startedAt", "endsAt", "token", "baseUrl")
# The agent sessions of the oldest kept cove, in two parts: that path is no name of the present.
AGENTS = ("/v1/agent-sessions", "/v1/" + "sessions")
# The size of a sandbox of agent sessions: its disk is that of the others, which an old cove can make on every host.
CLASSES = {"COVE_CLASS_" + name: "cpus=1 memory=1G disk=2G pids=256 max=0" for name in ("STANDARD", "SMALL")}
WAIT = 30  # seconds for an event, on a busy host
WRONG = BROKEN + (RuntimeError,)


class Failed(Exception):
    """A check that has failed: the checks behind it would only wait."""


GATE = "until [ -e /run/%s ]; do sleep 0.05; done"

# A runner that asks a question in each run. It knows the dialogue of docs/RUNNER.md, protocol 1, and nothing of its environment
# but the descriptor: a runner in a sandbox is as old as the sandbox.
RUNNER = r'''
import json, os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
os.dup2(241, 1)
print("runner up", flush=True)
sock = socket.socket(fileno=int(os.environ.get("COVE_RUNNER_FD", "0")))
state = {"connection": None, "run": None, "seq": 0, "kept": []}
def send(word):
    sock.sendall(json.dumps(word).encode() + b"\n")
def about(kind, **fields):
    state["seq"] += 1
    word = dict(fields, type=kind, seq=state["seq"], **state["run"])
    state["kept"].append(word)
    send(dict(word, connection=state["connection"]))
for line in sock.makefile("rb"):
    try:
        word = json.loads(line)
    except ValueError:
        continue
    kind = word["type"]
    if kind == "attach":
        state["connection"] = word["connection"]
        send({"type": "hello", "protocol": 1, "version": "1", "session": word["session"], "instance": word["instance"],
              "generation": word["generation"], "connection": word["connection"], "run": state["run"] and state["run"]["run"]})
        for kept in state["kept"]:
            if kept["seq"] > word.get("seq", 0):
                send(dict(kept, connection=state["connection"]))
    elif kind == "run" and not (state["run"] and state["run"]["run"] == word["run"]):
        state.update(run={"run": word["run"], "run_generation": word["run_generation"]}, seq=0, kept=[])
        send(dict(state["run"], type="accepted", connection=state["connection"]))
        about("output", stream="stdout", data="asking")
        about("question", question="q1", text=word["input"])
    elif kind == "answer":
        about("result", status="completed", output={"answer": word["answer"], "pid": os.getpid()})
    elif kind == "ack" and state["run"] and word["run"] == state["run"]["run"]:
        state["kept"] = [kept for kept in state["kept"] if kept["seq"] > word["seq"]]
        if not state["kept"] and state["seq"] == 3:
            state["run"] = None
    elif kind == "ping":
        send({"type": "pong", "number": word["number"]})
'''


def must(reply, *statuses):
    if reply.status not in statuses:
        raise RuntimeError(repr(reply))
    return reply.json if reply.body else None


def quietly(ask):
    """In a thread, a request whose answer is lost with its daemon."""
    def run():
        try:
            ask()
        except WRONG:
            pass
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def events_of(reply):
    return [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: ")]


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in [(d, None) for d in "bin etc tmp workspace root proc sys dev run".split()] + [("etc/motd", b"imported\n")] + \
                [("bin/busybox", open(path, "rb").read()) for path in ("/bin/busybox", "/usr/bin/busybox") if os.path.exists(path)][:1]:
            info = tarfile.TarInfo(name)
            info.mode, info.size = 0o755, len(data or b"")
            info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            tar.addfile(info, io.BytesIO(data or b""))
    return out.getvalue()


class Kept:
    """One of everything that lasts: made by the old cove, looked at through the new one."""

    def __init__(self, cove, outside, what):
        self.cove, self.outside, self.what, self.boxes = cove, outside, what, {}
        for make in (self.make_tenant, self.make_boxes, self.make_processes, self.make_sessions, self.make_terminals,
                     self.make_contexts, self.make_preview, self.make_egress, self.make_agent, self.make_template, self.make_states):
            make()

    def ok(self, condition, name, *notes):
        if not c.ok(condition, "%s: %s" % (self.what, name), *notes):
            raise Failed

    def same(self, got, want, name):
        self.ok(got == want, name, "got:  %r" % (got,), "want: %r" % (want,))

    def box(self, name, key=True, **spec):
        self.boxes[name] = must(self.cove.post("/v1/sandboxes", dict({"limits": {"memoryMB": 128}}, name=name, **spec), key=key), 201)
        return self.boxes[name]

    def shown(self, name):
        """What the API tells of a sandbox, but for how it is used just now."""
        got = must(patiently(lambda: self.cove.get("/v1/sandboxes/" + self.boxes[name]["id"])), 200)
        got["baseUrl"] = got["baseUrl"].split("/", 3)[3]  # a start of the test listens on another port
        return {field: got.get(field) for field in LASTING}

    # --------------------------------------------------------------------------------- tenants and keys

    def make_tenant(self):
        must(self.cove.request("PUT", "/v1/tenants/acme", TENANT), 201)
        asked = {"tenant": "acme", "name": "ci", "host": True, "scopes": ["read", "make", "use"], "expiresIn": 86400}
        self.key, self.gone = (must(self.cove.post("/v1/keys", dict(asked, name=name)), 201) for name in ("ci", "old"))
        must(self.cove.request("DELETE", "/v1/keys/" + self.gone["id"]), 200, 204)
        self.tenant = must(self.cove.get("/v1/tenants/acme"), 200)

    def check_tenant(self):
        got = must(self.cove.get("/v1/tenants/acme"), 200)
        self.same({k: got[k] for k in list(TENANT) + ["createdAt"]}, dict(TENANT, createdAt=self.tenant["createdAt"]), "the tenant is as it was")
        now = {k["id"]: k for k in must(self.cove.get("/v1/keys"), 200)["items"]}
        self.same([[now.get(k["id"], {}).get(f) for f in KEY] for k in (self.key, self.single)], [[k[f] for f in KEY] for k in (self.key, self.single)],
                  "its keys, too")
        self.same([i["id"] for i in must(self.cove.get("/v1/sandboxes", key=self.key["key"]), 200)["items"]], [self.boxes["tenants"]["id"]],
                  "its key sees its sandbox, and no other")
        run = lambda box: self.cove.post(api(self.boxes[box], "execute"), {"command": "true"}, key=self.single["key"]).status  # noqa: E731
        self.same([run("work"), run("once")], [200, 404], "a key of one sandbox opens that one")
        self.same(self.cove.get("/v1/sandboxes", key=self.gone["key"]).status, 401, "a revoked key stays revoked")

    # ---------------------------------------------------------------------------------------- sandboxes

    def make_boxes(self):
        self.work = self.box("work", **SPEC)
        self.single = must(self.cove.post("/v1/keys", {"sandbox": self.work["id"], "scopes": ["use"]}), 201)
        must(self.cove.request("PATCH", "/v1/sandboxes/" + self.work["id"], {"rotateToken": True}), 200)
        self.box("tenants", key=self.key["key"], user="daemon", workdir="/srv/new")
        self.box("ephemeral", ephemeral=True, keepAlive=True)
        for name in ("paused", "stopped", "frozen"):
            self.box(name, **({"sleepAfter": 1} if name == "frozen" else {}))
        for box in self.boxes.values():
            self.cove.run(box, "echo %s > /workspace/mark; (sleep 100000 & echo $! > /run/sleeper)" % box["name"], user="root")
        self.asked = {"name": "once", "labels": {"of": "a key"}}
        self.once = self.cove.post("/v1/sandboxes", self.asked, headers={"Idempotency-Key": "k-once"})
        self.boxes["once"] = must(self.once, 201)
        self.cove.run(self.once.json, "echo once > /workspace/mark")

    def make_states(self):
        """The last thing that is made: what idles, pauses and stops, and what is told of it all."""
        for verb, name in (("pause", "paused"), ("stop", "stopped")):
            must(self.cove.post("/v1/sandboxes/%s/%s" % (self.boxes[name]["id"], verb)), 200, 202, 204)
        want = {"paused": "paused", "stopped": "stopped", "frozen": "frozen"}
        if not c.until(lambda: {n: self.shown(n)["state"] for n in want} == want, 60, 0.2):
            raise RuntimeError("states: %r" % {n: self.shown(n)["state"] for n in want})
        self.told = {name: self.shown(name) for name in self.boxes}
        self.audit = must(self.cove.get("/v1/audit?limit=1000"), 200)["items"]
        self.events = must(self.cove.get("/v1/events?limit=1000"), 200)["items"]

    def check_boxes(self):
        now = {name: self.shown(name) for name in self.boxes}
        changed = {(name, field): (told[field], now[name][field]) for name, told in self.told.items() for field in LASTING if told[field] != now[name][field]}
        self.same(changed, {}, "every sandbox is told as it was, its state too")
        again = self.cove.post("/v1/sandboxes", self.asked, headers={"Idempotency-Key": "k-once"})
        self.same((again.status, again.headers["Idempotency-Replayed"], again.json["id"]), (201, "true", self.once.json["id"]),
                  "a create under an idempotency key is not done twice")
        self.same(self.cove.post("/v1/sandboxes", dict(self.asked, labels={}), headers={"Idempotency-Key": "k-once"}).status, 409,
                  "and the key belongs to its request")
        must(self.cove.post("/v1/sandboxes/%s/resume" % self.boxes["paused"]["id"]), 200, 202, 204)
        marks = {name: self.cove.execute(box, "cat /workspace/mark").json.get("stdout") for name, box in self.boxes.items() if name != "template"}
        self.same(marks, {name: name + "\n" for name in marks}, "each runs commands, and has its files")
        alive = {name: self.cove.execute(self.boxes[name], "kill -0 $(cat /run/sleeper); echo $?", user="root").json.get("stdout")
                 for name in ("work", "tenants", "ephemeral", "paused", "frozen")}
        self.same(set(alive.values()), {"0\n"}, "and those that were not stopped what ran in them")
        self.same(self.cove.out(self.work, "echo $E"), "of the box\n", "the environment of a sandbox stays")
        self.same(self.cove.out(self.boxes["tenants"], "id -un; pwd"), "daemon\n/srv/new\n", "its user and its directory, too")

    def check_records(self):
        rows = must(self.cove.get("/v1/audit?limit=1000"), 200)["items"]
        self.same([(r["id"], r["hash"]) for r in rows[:len(self.audit)]], [(r["id"], r["hash"]) for r in self.audit], "the audit log has every row")
        self.ok(must(self.cove.get("/v1/audit/check"), 200)["ok"], "and its chain of hashes holds")
        seen = {e["id"] for e in must(self.cove.get("/v1/events?limit=1000"), 200)["items"]}
        self.ok(len(self.events) > 10 and {e["id"] for e in self.events} <= seen, "every event is there")

    # ---------------------------------------------------------------------------------------- processes

    def make_processes(self):
        work = self.work
        self.counter = start(self.cove, work, counting(" lines", code=7), processId="counter")
        self.cat = start(self.cove, work, "while read -r line; do echo got $line; done; exit 5", openStdin=True)
        self.limited = start(self.cove, work, "sleep 100000", timeoutMs=86400000)
        self.ended = start(self.cove, work, "echo out; echo err >&2; exit 3", env={"X": "y"})
        must(self.cove.get(api(work, "process/%s/wait?timeoutMs=60000" % self.ended)), 200)
        must(self.cove.post(api(work, "process/%s/stdin" % self.cat), {"data": "one\n"}), 200)
        self.await_output(self.cat, "got one\n")
        self.await_output(self.counter, "10 lines\n")
        self.processes = self.listed()

    def await_output(self, process, text):
        if not c.until(lambda: text in self.logs(process), 30):
            raise RuntimeError("process %s: %r" % (process, self.logs(process)[-300:]))

    def logs(self, process):
        return must(self.cove.get(api(self.work, "process/%s/logs" % process)), 200)["stdout"]

    def listed(self):
        keep = ("id", "pid", "command", "startTime", "sessionId", "status", "exitCode")
        return {p["id"]: [p.get(k) for k in keep] for p in must(self.cove.get(api(self.work, "process/list")), 200)["processes"]}

    def check_processes(self):
        work = self.work
        now = self.listed()
        self.same({p: now.get(p) for p in self.processes}, self.processes, "processes are listed as they were")
        tree = patiently(lambda: self.cove.get("/v1/sandboxes/%s/ps" % work["id"]))
        self.same((tree.status, tree.json["reason"]), (501, "old_box"), "a sandbox of that version says that it cannot list all of its processes")
        got = must(self.cove.get(api(work, "process/%s/logs" % self.ended)), 200)
        self.same((got["stdout"], got["stderr"]), ("out\n", "err\n"), "one that has ended has its output")
        must(self.cove.post(api(work, "process/%s/stdin" % self.cat), {"data": "two\n", "close": True}), 200)
        self.same((self.exit_code(self.cat), self.logs(self.cat)), (5, "got one\ngot two\n"), "stdin of a running one is still open")
        seen = len(self.logs(self.counter))
        self.ok(c.until(lambda: len(self.logs(self.counter)) > seen, 30), "output of a running one goes on")
        self.cove.run(work, ": > /run/over")
        self.same((self.exit_code(self.counter), miscounted(self.logs(self.counter).encode(), " lines")), (7, None),
                  "and is whole when it ends, with its exit code")
        must(self.cove.request("DELETE", api(work, "process/" + self.limited)), 200)
        self.same(self.exit_code(self.limited), 143, "one can be ended by its id")

    def exit_code(self, process):
        return must(self.cove.get(api(self.work, "process/%s/wait?timeoutMs=60000" % process)), 200).get("exitCode")

    # ----------------------------------------------------------------------------------- shell sessions

    def make_sessions(self):
        must(self.cove.post(api(self.work, "session/create"), {"id": "idle", "env": {"A": "x y"}, "cwd": "/tmp", "commandTimeoutMs": 30000}), 200)
        self.shell("idle", "cd /etc; x=1; f() { echo f-$x; }; (exit 9)")
        self.shell("job", "(%s; echo from the job) & :" % (GATE % "job"))
        self.shell("busy", "y=0")
        self.busy = quietly(lambda: self.shell("busy", "cd /var; : > /run/is-busy; %s; y=done" % (GATE % "busy")))
        self.await_file("is-busy")
        self.sessions = set(must(self.cove.get(api(self.work, "session/list")), 200)["data"])

    def shell(self, session, command):
        return must(self.cove.execute(self.work, command, sessionId=session), 200)["stdout"]

    def await_file(self, name):
        if self.cove.run(self.work, "timeout 60 sh -c '%s'" % (GATE % name))["exitCode"]:
            raise RuntimeError("no /run/" + name)

    def check_sessions(self):
        work = self.work
        got = set(must(self.cove.get(api(work, "session/list")), 200)["data"])
        self.ok(self.sessions <= got, "sessions are listed", self.sessions, got)
        self.same(self.shell("idle", "echo $?; pwd; f; echo $A"), "9\n/etc\nf-1\nx y", "an idle shell has its variables, functions, directory")
        self.cove.run(work, ": > /run/busy; : > /run/job")
        self.same(self.shell("busy", "echo $y; pwd"), "done\n/var", "one at work ends its command, and goes on")
        text = c.until(lambda: self.cove.get(api(work, "session/job/output")).body, 30)
        self.same(text, b"from the job\n", "a background job of a shell is heard")

    # ---------------------------------------------------------------------------------------- terminals

    def make_terminals(self):
        shell = Terminal(self.cove, self.work, "sessionId=t&cols=111&rows=33")
        shell.type("PS1='$ '; v=kept; echo be''fore; seq 1 500\n")
        command = Terminal(self.cove, self.work, "terminal=c&command=bash&command=-c&command=" + quote("echo first; read -r x; echo second $x; exit 4"))
        if not (shell.until(b"499\r\n500\r\n", seconds=WAIT) and command.until(b"first\r\n", seconds=WAIT)):
            raise RuntimeError("terminals: %r %r" % (shell.seen, command.seen))
        self.open = (shell, command)
        self.terminals = self.shown_terminals()

    def shown_terminals(self):
        keep = ("id", "command", "isCommand", "status", "pid", "cols", "rows", "startedAt")
        return sorted([t[k] for k in keep] for t in must(self.cove.get(api(self.work, "terminals")), 200)["terminals"])

    def check_terminals(self):
        for terminal in self.open:
            terminal.sock.close()
        self.same(self.shown_terminals(), self.terminals, "terminals are listed as they were")
        shell = Terminal(self.cove, self.work, "sessionId=t&cols=111&rows=33", timeout=WAIT)
        shell.until(b"499\r\n500\r\n", seconds=WAIT)
        numbers = [int(line) for line in shell.seen.replace(b"\r", b"").split(b"\n") if line.isdigit()]
        self.same(numbers, list(range(1, 501)), "a terminal has its screen, every line once")
        shell.type("echo $v; stty size\n")
        self.ok(shell.until(b"kept\r\n", seconds=WAIT) and shell.until(b"33 111\r\n", seconds=WAIT), "its shell and its size", shell.seen[-200:])
        shell.close()
        command = Terminal(self.cove, self.work, "terminal=c", timeout=WAIT)
        command.type("word\n")
        command.until(event="exit", seconds=WAIT)
        self.ok(b"first\r\n" in command.seen and b"second word\r\n" in command.seen and (command.last("exit") or {}).get("code") == 4,
                "that of a command goes on to its end", command.seen, command.events)
        command.close()

    # ----------------------------------------------------------------------------------------- contexts

    def make_contexts(self):
        languages = ["python"] + (["javascript", "typescript"] if shutil.which("node") else [])
        self.contexts = {language: must(self.cove.post(api(self.work, "contexts"), {"language": language, "cwd": "/var", "env_vars": {"V": "w"}}), 200)["contextId"] for language in languages}
        self.cell("python", "x = 5\nimport os; os.chdir('/usr')\nprint('kept')\nx")
        for language in languages[1:]:
            self.cell(language, "const k = 3; globalThis.k2 = k; k")
        self.busy_context = must(self.cove.post(api(self.work, "contexts"), {}), 200)["contextId"]
        code = "import os, time\nprint('begun', flush=True)\nopen('/run/is-cell', 'w')\nwhile not os.path.exists('/run/cell'): time.sleep(0.05)\nprint('ended')\n6 * 7"
        self.busy_cell = quietly(lambda: self.cove.post(api(self.work, "execute/code"), {"code": code, "context_id": self.busy_context}))
        self.await_file("is-cell")
        self.context_list = self.shown_contexts()

    def cell(self, language, code):
        return events_of(self.cove.post(api(self.work, "execute/code"), {"code": code, "context_id": self.contexts[language]}))

    def shown_contexts(self):
        keep = ("id", "language", "pid", "alive", "busy", "cwd")
        return sorted([t[k] for k in keep] for t in must(self.cove.get(api(self.work, "contexts")), 200)["contexts"])

    def check_contexts(self):
        work = self.work
        self.same(self.shown_contexts(), self.context_list, "contexts are listed as they were, the busy one as busy")
        self.same(self.cell("python", "import os; [x, os.getcwd(), os.environ['V']]")[0].get("json"), [5, "/usr", "w"], "python has its state")
        for language in self.contexts:
            if language != "python":
                self.same(self.cell(language, "k + k2")[0].get("text"), "6", language + " has its state")
        first = events_of(self.cove.get(api(work, "contexts/%s/cells/1" % self.contexts["python"])))
        self.same([e.get("text") for e in first], ["kept\n", "5", None], "an old cell is read again")
        self.cove.run(work, ": > /run/cell")
        cells = lambda: must(self.cove.get(api(work, "contexts/%s/cells" % self.busy_context)), 200)["cells"]  # noqa: E731
        self.ok(c.until(lambda: cells() == [{"cell": 1, "ended": True}], WAIT), "a cell at work comes to its end", cells())
        got = events_of(self.cove.get(api(work, "contexts/%s/cells/1" % self.busy_context), timeout=WAIT))
        self.same(("".join(e["text"] for e in got if e["type"] == "stdout"), got[-2].get("text")), ("begun\nended\n", "42"), "all of it is told")

    # ------------------------------------------------------------------------------- previews and egress

    def make_preview(self):
        serve(self.cove, self.work, 8000)
        self.exposed = expose(self.cove, self.work, 8000, name="site", expiresIn=86400)
        self.link = must(self.cove.post("/v1/sandboxes/%s/ports/8000/links" % self.work["id"], {"expiresIn": 86400}), 201)
        self.look()

    def look(self):
        urls = [self.exposed["url"], self.exposed["pathUrl"]] + [v for k, v in self.link.items() if k.lower().endswith("url")]
        return [Site(url.split("?")[0]).ask("/look").body[:10] for url in urls]

    def check_preview(self):
        got = self.look()
        self.same(got, [b"GET /look\n"] * len(got), "the preview is served at its old addresses, signed links too")
        listed = must(self.cove.get("/v1/sandboxes/%s/ports" % self.work["id"]), 200)["items"]
        keep = ("port", "exposed", "name", "token", "expiresAt")
        self.same([[p.get(k) for k in keep] for p in listed if p["port"] == 8000], [[dict(self.exposed, exposed=True).get(k) for k in keep]],
                  "and listed with its token, name and end")

    def fetch(self):
        """One plain request, and one that carries the placeholder of the secret; then one that is refused."""
        program = ("import os, urllib.request as u\nprint(u.urlopen('http://www.test/plain').read().decode(), end='')\n"
                   "r = u.Request('https://api.test/secret', headers={'X-Key': os.environ['API_TOKEN']})\nprint(u.urlopen(r).read().decode(), end='')\n"
                   "try: u.urlopen('http://other.test/')\nexcept OSError: print('refused')\n")
        return self.cove.run(self.work, ["python3", "-I", "-"], stdin=program)

    def make_egress(self):
        self.egress = None
        if not self.outside:
            return
        got = self.fetch()
        if not got["stdout"].endswith("refused\n"):
            raise RuntimeError(repr(got))
        self.egress = ledger(self.cove, self.work)[0]

    def check_egress(self):
        if not self.outside:
            return c.skip(self.what + ": egress policy, secret and ledger", "openssl is not installed")
        self.same(ledger(self.cove, self.work)[0][-len(self.egress):], self.egress, "the ledger of egress has its rows")
        del self.outside.seen[:]
        got = self.fetch()
        self.same(got["stdout"], "hello from www.test /plain\nhello from api.test /secret\nrefused\n", "the policy of egress holds")
        self.same([s.headers.get("X-Key") for s in self.outside.seen if s.host == "api.test"], [SECRET], "and the secret is put in outside of the sandbox")
        return True

    # ------------------------------------------------------------------------------------ agent sessions

    def agents(self):
        return next(path for path in AGENTS if patiently(lambda: self.cove.get(path)).status == 200)

    def make_agent(self):
        path = self.agents()
        made = must(self.cove.post(path, {"user": "u", "org": "o", "bot": "b", "session": "s", "aliases": ["alias"],
                                          "runner": {"argv": ["/usr/bin/python3", "-c", RUNNER], "env": {"Z": "z"}}}), 200, 201)
        self.agent, self.owner = made["id"], self.shown_agent(made)
        self.first = self.run_begin("first?")
        self.run_answer("yes")
        self.result = self.run_end(self.first)
        self.second = self.run_begin("second?")
        self.lease = must(self.cove.get("%s/%s" % (path, self.agent)), 200)["lease"]

    def at(self, *parts):
        return "/".join((self.agents(), self.agent) + parts)

    def shown_agent(self, got):
        keep = ("id", "status", "org", "user", "bot", "sandbox", "sandbox_id", "isolation", "class", "directory", "aliases", "created_at")
        return {k: got[k] for k in keep}

    def run_begin(self, text):
        run = must(self.cove.post(self.at("runs"), {"input": text, "env": {"R": "r"}, "timeout": 86400000}), 202)["id"]
        if not c.until(lambda: must(self.cove.get(self.at("runs", run)), 200)["question"], WAIT):
            raise RuntimeError("run: %r" % self.cove.get(self.at("runs", run)))
        return run

    def run_answer(self, answer):
        must(self.cove.post(self.at("answer"), {"question": "q1", "answer": answer}), 200, 202, 204)

    def run_end(self, run):
        over = c.until(lambda: (lambda r: r if r["state"] in ("completed", "failed", "interrupted") else None)(must(self.cove.get(self.at("runs", run)), 200)), WAIT)
        if not over:
            raise RuntimeError("run: %r" % self.cove.get(self.at("runs", run)))
        return over

    def check_agent(self):
        self.same(self.shown_agent(must(self.cove.get(self.at()), 200)), self.owner, "the agent session is told as it was")
        got = must(self.cove.get(self.at("runs", self.first)), 200)
        self.same((got["state"], got["result"]), (self.result["state"], self.result["result"]), "the run of an agent session that has ended has its result")
        kinds = [e["type"] for e in events_of(self.cove.get(self.at("runs", self.first, "events")))]
        self.ok({"output", "question"} <= set(kinds), "and its events", kinds)
        lease = must(self.cove.get(self.at()), 200)["lease"]
        self.same([lease[k] for k in ("state", "instance_id", "generation", "pid")], [self.lease[k] for k in ("state", "instance_id", "generation", "pid")],
                  "its runner is the same process")
        self.run_answer("still yes")
        got = self.run_end(self.second)
        self.same((got["state"], got["result"]["output"]["answer"]), ("completed", "still yes"), "a question of a run that was under way is answered")
        third = self.run_begin("third?")
        self.run_answer("at last")
        got = self.run_end(third)
        self.same((got["state"], got["result"]["output"]["pid"]), ("completed", self.result["result"]["output"]["pid"]), "and the warm runner takes a new run")
        self.ok("runner up" in self.cove.get(self.at("logs")).body.decode(), "with its log")

    # ---------------------------------------------------------------------------------------- templates

    def make_template(self):
        must(self.cove.request("POST", "/v1/templates?name=tiny", archive(), raw=True, headers={"Content-Type": "application/x-tar"}), 201)
        self.has_busybox = any(map(os.path.exists, ("/bin/busybox", "/usr/bin/busybox")))
        if self.has_busybox:
            self.box("template", template="tiny")

    def check_template(self):
        got = must(self.cove.get("/v1/templates/tiny"), 200)
        self.same((got["name"], got["kind"]), ("tiny", "imported"), "the template is as it was")
        if not self.has_busybox:
            return c.skip(self.what + ": a sandbox of the template", "busybox is not installed")
        fresh = self.box("fresh", template="tiny")
        motd = [self.cove.out(box, ["/bin/busybox", "cat", "/etc/motd"]) for box in (self.boxes["template"], fresh)]
        return self.same(motd, ["imported\n"] * 2, "sandboxes of it run, one that was there and a new one")

    # --------------------------------------------------------------------------------------------- all

    def verify(self, when):
        said = []

        def agrees():
            said[:] = [subprocess.run([c.BIN, "verify", "--data", self.cove.data], capture_output=True, text=True, timeout=120)]
            return said[0].returncode == 0
        self.ok(c.until(agrees, 30, 0.5), "cove verify finds nothing %s" % when, said[0].stdout, said[0].stderr)

    def check(self):
        self.verify("after it")
        for check in (self.check_boxes, self.check_processes, self.check_sessions, self.check_terminals, self.check_contexts, self.check_preview,
                      self.check_egress, self.check_agent, self.check_template, self.check_tenant, self.check_records):
            try:
                check()
            except Failed:
                pass
            except WRONG as fault:
                c.ok(False, "%s: %s" % (self.what, check.__name__), repr(fault))
        self.verify("in the end")

    def leave(self):
        """Everything is deleted; then the data directory and the kernel have nothing that carries its name."""
        cove = self.cove
        agent = must(cove.get(self.at()), 200)
        cove.request("DELETE", self.at())
        self.ok(c.until(lambda: cove.get(self.at()).status == 404, WAIT), "the agent session is deleted")
        listed = must(cove.get("/v1/sandboxes"), 200)["items"]
        ids = [box["id"] for box in listed]
        self.ok(agent["sandbox_id"] in ids and {box["id"] for box in self.boxes.values()} <= set(ids), "no sandbox was forgotten", ids)
        self.same({cove.delete(id).status for id in ids}, {204}, "all sandboxes are deleted")
        must(cove.request("DELETE", "/v1/templates/tiny"), 200, 204)
        must(cove.request("DELETE", "/v1/tenants/acme"), 200, 204)

        def left():
            files = [os.path.join(top, name) for top, dirs, names in os.walk(cove.data) for name in dirs + names]
            return [path for path in files + c._groups(cove.instance()) if any(id in path for id in ids)]
        c.until(lambda: not left(), 30, 0.2)
        self.same(left(), [], "no file and no cgroup has the name of one")
        self.verify("then")


def unpack(path, binary):
    with lzma.open(path) as packed, open(binary + ".new", "wb") as file:
        shutil.copyfileobj(packed, file)
    os.chmod(binary + ".new", 0o755)
    os.rename(binary + ".new", binary)


def swap(binary):
    """As a package does it: a new file under the old name."""
    shutil.copy(c.BIN, binary + ".new")
    os.rename(binary + ".new", binary)


def upgraded(cove, kept):
    old = set(cove.children().values())
    swap(cove.binary)
    done = subprocess.run([cove.binary, "upgrade", "--data", cove.data], capture_output=True, text=True, timeout=150)
    kept.ok(done.returncode == 0 and cove.process.poll() is None, "cove upgrade takes the new file", done.stdout, done.stderr)
    kept.ok(not old & set(cove.children().values()), "daemon and warden are new")


def killed(cove, kept):
    c.kill_all(cove)
    # The answer of a create can be lost with a daemon though the sandbox was made: only its record knows the key.
    with sqlite3.connect(os.path.join(cove.data, "daemon", "cove.db")) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {table: {row[1] for row in db.execute("PRAGMA table_info(%s)" % table)} for table in tables}
        replies = [table for table in tables if {"key", "hash", "status", "body"} <= columns[table]]
        db.execute("DELETE FROM " + replies[0])
    db.close()
    swap(cove.binary)
    cove.start()


def story(path, what, change, outside):
    home = tempfile.mkdtemp(prefix="cove-test-bin-")
    os.chmod(home, 0o755)
    binary = os.path.join(home, "cove")
    begin = time.monotonic()
    try:
        unpack(path, binary)
        cove = c.Cove("--on-term=handoff", "--grace", "500ms", *(outside.options() if outside else ()), binary=binary,
                      env={"COVE_PREVIEW_LISTEN": "127.0.0.1:%d" % free_port(), "COVE_SESSION_SPACE": "16M", **CLASSES})
        kept = Kept(cove, outside, "%s, %s" % (os.path.basename(path).split(".%s" % platform.machine())[0], what))
        made = time.monotonic()
        take_over(cove, kept, change, binary)
        c.note("%.1f s to make, %.1f s in all" % (made - begin, time.monotonic() - begin))
        cove.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def take_over(cove, kept, change, binary):
    try:
        change(cove, kept)
        exes = {os.readlink("/proc/%d/exe" % pid) for pid in [cove.process.pid] + list(cove.children().values())}
        kept.same(exes, {binary}, "all three run the new file")
        kept.check()
        kept.leave()
        kept.same(cove.stop(number=2), 0, "cove ends well")
        kept.same(c.remains(cove), {}, "and no process, cgroup, namespace or loop device is left")
    except Failed:
        pass


c.need_root()
machine = platform.machine()
paths = sorted(glob.glob(os.path.join(c.ROOT, "test", "old", "cove-*.%s.xz" % machine)))
if not paths:
    c.skip_all("test/old has no cove for " + machine)
outside = Outside("www.test", "api.test", "other.test") if shutil.which("openssl") else None
if outside:
    atexit.register(outside.close)
for path in paths:
    story(path, "kill -9", killed, outside)
    if not c.SHORT:
        story(path, "upgrade", upgraded, outside)
c.done()
