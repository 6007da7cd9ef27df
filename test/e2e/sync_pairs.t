#!/usr/bin/env python3
"""The 36 pairs of failure and recovery of delegated work, each once, by number and name: exit code, message, and at the end no
sandbox or process that nobody asked for. Failures are made by a proxy between command line and server, by kills, and by disks."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("git", "python3")
c.need_mounts()
HOME = tempfile.mkdtemp(prefix="cove-pairs-")
BOX = "/v1/sandboxes/"
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": HOME, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t",
       "GIT_COMMITTER_EMAIL": "t@t"}


def pair(number, name, condition, *notes):
    return c.ok(condition, "pair %d: %s" % (number, name), *notes)


def git(work, *words):
    return subprocess.run(["git", *words], cwd=work, env=dict(os.environ, **GIT), check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w" if isinstance(text, str) else "wb") as file:
        file.write(text)


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


class Proxy:
    """Relays connections to cove. A rule is [pattern of a request's head, action, how often]; actions: a status, "cut" after so
    many bytes of the request, "end" after so many bytes of its answer, or "junk" before the second event of its answer."""

    def __init__(self, cove):
        self.cove, self.rules, self.seen, self.lock = cove, [], [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def rule(self, pattern, action, times=1000, size=0, reason="starting"):
        self.rules, self.seen = [[pattern.encode(), action, times, size, reason]], []

    def count(self, pattern):
        return len([head for head in self.seen if re.search(pattern.encode(), head)])

    def accept(self):
        while True:
            try:
                ours = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(ours,), daemon=True).start()

    def match(self, head):
        with self.lock:
            self.seen.append(head)
            for rule in self.rules:
                if rule[2] and re.search(rule[0], head):
                    rule[2] -= 1
                    return rule
        return None

    def serve(self, ours):
        try:
            theirs = socket.create_connection(("127.0.0.1", self.cove.port))
        except OSError:
            return ours.close()
        how = {"rule": None, "left": 0}
        back = threading.Thread(target=self.answer, args=(ours, theirs, how), daemon=True)
        back.start()
        try:
            while True:
                data = ours.recv(65536)
                if not data:
                    break
                if re.match(rb"(GET|PUT|POST|PATCH|DELETE) /", data):
                    data = data.replace(b"\r\nHost: " + self.url[7:].encode(), b"\r\nHost: 127.0.0.1:%d" % self.cove.port, 1)
                    how["rule"] = rule = self.match(data.split(b"\r\n", 1)[0])
                    if rule:
                        how["left"] = rule[3]
                        if isinstance(rule[1], int):
                            body = json.dumps({"code": "X", "reason": rule[4], "message": "not now (%s)" % rule[4]}).encode()
                            ours.sendall(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" %
                                         (rule[1], len(body)) + body)
                            ours.shutdown(socket.SHUT_WR)
                            while ours.recv(65536):
                                pass
                            break
                if how["rule"] and how["rule"][1] == "cut":
                    how["left"] -= len(data)
                    if how["left"] <= 0:
                        break
                theirs.sendall(data)
        except OSError:
            pass
        for each in (theirs, ours):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        back.join(10)
        ours.close()
        theirs.close()

    def answer(self, ours, theirs, how):
        try:
            while True:
                data = theirs.recv(65536)
                if not data:
                    break
                rule = how["rule"]
                if rule and rule[1] == "end":
                    how["left"] -= len(data)
                    if how["left"] <= 0:
                        break
                if rule and rule[1] == "junk" and b"stdout" in data:
                    text = b"id: 0\ndata: {\"type\": \"stdout\", oops\n\n"
                    head = data.index(b"\r\n\r\n") + 4 if data.startswith(b"HTTP/1.1 ") else 0
                    data = data[:head] + b"%x\r\n%s\r\n" % (len(text), text) + data[head:]
                    how["rule"] = None
                ours.sendall(data)
        except OSError:
            pass
        for each in (theirs, ours):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Agent:
    def __init__(self, cove, name, proxy=None, init=False, **env):
        self.cove, self.work = cove, os.path.join(HOME, name)
        if not os.path.exists(self.work):
            put(self.work + "/a", "base\n")
            if init:
                git(self.work, "init", "-q")
                git(self.work, "add", "-A")
                git(self.work, "commit", "-q", "-m", "one")
        if proxy:
            env = dict(env, COVE_URL=proxy.url, COVE_TOKEN=cove.key)
        self.cli = c.Cli(cove.data, cwd=self.work, HOME=HOME, **env)

    def run(self, script, *options, **kw):
        return self.cli("agent", "run", *options, "--", "sh", "-c", script, **kw)

    def popen(self, script, *options):
        return self.cli.popen("agent", "run", *options, "--", "sh", "-c", script)

    def sync(self, *words):
        return self.cli("sync", *words)


def marks(got, event):
    return re.findall(r"^\[sandbox:%s\] (.*)$" % event, got if isinstance(got, str) else got.err, re.M)


def boxes(cove):
    return {box["id"] for box in cove.get("/v1/sandboxes").json["items"]}


def begun(child):
    """Box and run of a run whose command has printed its first line."""
    box = run = None
    while run is None:
        line = child.stderr.readline().decode()
        if not line:
            raise RuntimeError("the run did not begin")
        box = line.split()[1] if line.startswith("[sandbox:id]") else box
        run = line.split()[1] if line.startswith("[sandbox:session]") else None
    child.stdout.readline()
    return box, run


def kill_box(cove, box):
    """kill -9 of the sandbox's pid 1."""
    for pid in c._pids():
        if c._comm(pid) == "cove-init" and c._is_boxed(pid, cove.instance()) and box in read("/proc/%d/cgroup" % pid):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def creating(cove, proxy):
    """1 to 6, 8, 23, 30, 31, 34, 35."""
    agent = Agent(cove, "creating", proxy)
    before = boxes(cove)
    proxy.rule("^PUT /v1/sandboxes/wt-[0-9a-f]+ ", 504, reason="timeout")
    begin = time.monotonic()
    got = agent.run("true")
    pair(1, "create times out: one retry with backoff, then exit 2", got.returncode == 2 and proxy.count("^PUT /v1/sandboxes/wt-") == 2 and
         time.monotonic() - begin >= 0.25 and len(marks(got, "retry")) == 1 and "not now" in got.err and boxes(cove) == before, got, proxy.seen)
    proxy.rule("^PUT /v1/sandboxes/wt-[0-9a-f]+ ", 429, 2, reason="too_many_sandboxes")
    got = agent.run("true")
    pair(2, "quota exceeded: retried with backoff, and it is said", got.returncode == 0 and len(marks(got, "retry")) == 2 and "too_many" in got.err, got)
    cove.delete(marks(got, "id")[0])
    proxy.rule("^PUT /v1/sandboxes/wt-[0-9a-f]+ ", 400, reason="bad_value")
    got = agent.run("true")
    pair(3, "invalid configuration: fails at once", got.returncode == 2 and proxy.count("^PUT /v1/sandboxes/wt-") == 1 and not marks(got, "retry"), got)
    got = agent.run("true", "--memory", "1")
    pair(3, "an option that the server refuses: so, too", got.returncode == 2 and not marks(got, "retry") and boxes(cove) == before, got)
    proxy.rule("^", 503)
    begin = time.monotonic()
    got = agent.run("true")
    pair(4, "provider down for long: exit 2 after the retries", got.returncode == 2 and len(marks(got, "retry")) == 3 and time.monotonic() - begin < 30 and
         boxes(cove) == before, got)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    got = Agent(cove, "creating", None, COVE_URL="http://127.0.0.1:%d" % port, COVE_TOKEN=cove.key).run("true")
    pair(4, "a provider that does not listen: exit 2", got.returncode == 2 and not marks(got, "id"), got)
    got = Agent(cove, "creating", None, COVE_URL=cove.url, COVE_TOKEN="wrong").run("true")
    pair(5, "authentication fails: a clear error, no sandbox", got.returncode == 2 and "token is not valid" in got.err and not marks(got, "retry") and
         boxes(cove) == before, got)
    put(HOME + "/lost/.git", "gitdir: %s/nonesuch\n" % HOME)
    for work in ("lost", "nowhere"):
        got = agent.run("true", "--worktree", os.path.join(HOME, work))
        pair(6, "the repository is not found: a clear error, no sandbox", got.returncode == 2 and ("cannot read '.git'" in got.err or work in got.err) and
             boxes(cove) == before, got)
    proxy.rule("^GET /v1/sandboxes/wt-", 503, 1)
    agent.sync("in")
    known = boxes(cove)
    pair(35, "one 503 of a lookup is retried, and is not 'not found'", len(known - before) == 1, known, before)
    got = agent.sync("out")
    proxy.rule("^GET /v1/sandboxes/wt-", 503, 1)
    got = agent.sync("out")
    pair(35, "so for sync out, which makes nothing", got.returncode == 0 and len(marks(got, "retry")) == 1 and boxes(cove) == known, got)
    proxy.rule("^GET /v1/sandboxes/wt-", 503)
    got = agent.sync("out")
    pair(35, "exit 2 when it lasts", got.returncode == 2 and boxes(cove) == known, got)
    box = (known - before).pop()
    reply = cove.post(BOX + box + "/api/git/checkout", {"repoUrl": "file:///workspace/.git", "branch": "nonesuch", "targetDir": "/tmp/b"})
    pair(8, "a branch that does not exist is named", reply.status >= 400 and b"nonesuch" in reply.body and boxes(cove) == known, reply)
    proxy.rule("^PUT /v1/sandboxes/wt-[0-9a-f]+ ", "end", 1)
    other = Agent(cove, "twice", proxy)
    got = other.run("echo x > x")
    pair(23, "a create whose answer is lost: one sandbox for the worktree", got.returncode == 0 and len(boxes(cove) - known) == 1, got, proxy.seen)
    for i in range(5):
        made = cove.create(labels={"n": str(i)})["id"]
        listed = [item["id"] for item in cove.get("/v1/sandboxes?label=n=%d" % i).json["items"]]
        ran = cove.execute(made, ["true"])
        cove.delete(made)
        if listed != [made] or ran.status != 200 or ran.json["exitCode"]:
            break
    pair(30, "the first command of a sandbox that was just made runs", ran.status == 200 and ran.json["exitCode"] == 0, ran)
    pair(31, "a list has what was just made", listed == [made], listed, made)
    one, two = Agent(cove, "feature/x", init=True), Agent(cove, "feature-x", init=True)
    ids = {marks(each.sync("in"), "id")[0] for each in (one, two)}
    pair(34, "two branches of like names have two sandboxes", len(ids) == 2, ids)
    return agent, box


def moving(cove, proxy, agent, box):
    """7, 9 to 11, 21, 22, 24, 32, 33."""
    put(agent.work + "/big", os.urandom(3_000_000))
    proxy.rule("^PUT [^ ]*/api/tar", "cut", size=500_000)
    got = agent.sync("in")
    pair(7, "an upload is cut off: one retry, then exit 2 with its size", got.returncode == 2 and proxy.count("^PUT [^ ]*/api/tar") == 2 and
         "3000000 bytes" in got.err and len(marks(got, "retry")) == 1, got, proxy.seen)
    proxy.rule("^PUT [^ ]*/api/tar", "cut", 1, size=500_000)
    got = agent.sync("in")
    pair(7, "cut off once, the retry completes it", got.returncode == 0 and marks(got, "done") == ["files_changed=1 files_deleted=0"], got)
    proxy.rule("^nothing", 503)
    cove.request("DELETE", BOX + box + "?force=true")
    got = agent.run("wc -c < big")
    box = marks(got, "id")[0]
    pair(9, "the sandbox is gone: a new one, with a full sync", got.returncode == 0 and got.text.strip() == "3000000", got)
    kill_box(cove, box)
    c.until(lambda: cove.get(BOX + box).json.get("state") == "failed")
    got = agent.run("wc -c < big")
    pair(10, "the sandbox failed: another one for the same worktree, which is told", got.returncode == 0 and got.text.strip() == "3000000" and
         box not in boxes(cove) and marks(got, "id") != [box], got)
    box = marks(got, "id")[0]
    cove.delete(box)
    got = agent.run("echo on", "--snapshot", "nonesuch")
    pair(11, "the snapshot is lost: from the base, which is told", got.returncode == 0 and marks(got, "no_snapshot") == ["nonesuch"], got)
    box = marks(got, "id")[0]
    child = agent.popen("mkfifo /tmp/go; echo work > work; echo begun; read x < /tmp/go")
    begun(child)
    proxy.rule("^GET [^ ]*/api/tar", 500, reason="io_error")
    cove.run(box, "echo go > /tmp/go")
    out, err = child.communicate(timeout=60)
    pair(32, "sync out fails after a good command: exit 2, and how to retry", child.returncode == 2 and b"cove sync out --sandbox " + box.encode() in err and
         not os.path.exists(agent.work + "/work"), child.returncode, err)
    proxy.rule("^nothing", 503)
    reply = cove.delete(box)
    pair(22, "work that was not brought back: no destroy", reply.status == 409 and reply.json["reason"] == "unsynced", reply)
    got = agent.sync("out")
    pair(22, "sync out brings it, and then it goes", got.returncode == 0 and read(agent.work, "work") == "work\n" and cove.delete(box).status == 204, got)
    gone = Agent(cove, "gone", proxy)
    box = marks(gone.sync("in"), "id")[0]
    shutil.rmtree(gone.work)
    proxy.rule("^DELETE /v1/sandboxes/", 503, 2)
    got = agent.sync("gc")
    pair(21, "a destroy that fails is retried with backoff", got.returncode == 0 and box not in boxes(cove) and len(marks(got, "retry")) == 2, got)
    put(gone.work + "/a", "base\n")
    box = marks(gone.sync("in"), "id")[0]
    shutil.rmtree(gone.work)
    proxy.rule("^DELETE /v1/sandboxes/", 503)
    got = agent.sync("gc")
    pair(21, "exit 2 when it lasts, and the sandbox stays", got.returncode == 2 and "not now" in got.err and box in boxes(cove), got)
    proxy.rule("^nothing", 503)
    agent.sync("gc")
    both = Agent(cove, "both")
    ids = [cove.create()["id"] for _ in range(2)]
    for number, each in enumerate(ids):
        both.sync("in", "--sandbox", each)
    for number, each in enumerate(ids):
        cove.run(each, "echo of-%d > /workspace/a" % number)
    first, second = [both.sync("out", "--sandbox", each) for each in ids]
    pair(24, "two sandboxes change one file: a conflict, both versions stay", first.returncode == 0 and second.returncode == 2 and marks(second, "conflict") == ["a"] and
         read(both.work, "a") == "of-0\n" and cove.run(ids[1], "cat /workspace/a")["stdout"] == "of-1\n", first, second)
    for each in ids:
        cove.request("DELETE", BOX + each + "?force=true")
    back = Agent(cove, "back", init=True)
    put(back.work + "/later", "later\n")
    git(back.work, "add", "-A")
    git(back.work, "commit", "-q", "-m", "two")
    back.sync("in")
    git(back.work, "reset", "-q", "--hard", "HEAD~1")
    got = back.run("ls")
    pair(33, "a reset to an older commit of the host arrives", got.returncode == 0 and got.text == "a\n", got)


def running(cove, proxy):
    """12 to 20, 25, 28, 29, 36."""
    agent = Agent(cove, "running", proxy)
    silent = agent.popen("echo begun; sleep 17; echo over")
    box, silent_run = begun(silent)
    beats = []

    def listen():
        conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=40)
        conn.request("GET", "/v1/agent-runs/%s/stream" % silent_run, headers={"Authorization": "Bearer " + cove.key})
        beats.extend(line for line in conn.getresponse() if line.startswith(b":"))
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    reply = cove.get("%s%s/api/process/%s/wait?timeoutMs=100" % (BOX, box, silent_run))
    changes = cove.get("/v1/agent-runs/%s/changes" % silent_run)
    pair(25, "a wait for another run ends in time, and what there is can be had", reply.status in (408, 504) and changes.status == 200, reply, changes.status)
    begin = time.monotonic()
    got = agent.run("echo last words; sleep 999 & sleep 999", "--timeout", "500ms")
    left = cove.run(box, "ps ax 2>/dev/null | grep -c '[s]leep 999'")["stdout"].strip()
    pair(12, "the time is over: the tree is killed, the last output shown", got.returncode == 124 and got.text == "last words\n" and "ran out of time" in got.err and
         left == "0" and time.monotonic() - begin < 30, got, left)
    small = Agent(cove, "small")
    got = small.run("python3 -c 'x = bytearray(300 << 20)'; exit $?", "--memory", "64m")
    pair(13, "R44 out of memory is the task's failure, 1: it says memory limit", got.returncode == 1 and "memory limit" in got.err, got)
    proxy.rule("^GET [^ ]*/stream", "end", 1, size=600)
    got = agent.run("for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.05; done")
    pair(15, "the stream is cut off: it goes on from the last offset, nothing twice", got.returncode == 0 and
         got.text == "".join("line %d\n" % i for i in range(1, 9)) and proxy.count("^GET [^ ]*/stream") == 2, got, proxy.seen)
    proxy.rule("^nothing", 503)
    got = agent.run("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end")
    pair(16, "much output: none of a run's is lost", got.returncode == 0 and len(got.text) == 20_000_005 and got.text.endswith("x\nend\n"), got.returncode, len(got.text), got.err)
    proxy.rule("^GET [^ ]*/stream", "junk", 1)
    got = agent.run("echo good; sleep 0.2; echo better")
    pair(17, "malformed data of the stream: skipped, told, counted", got.returncode == 0 and got.text == "good\nbetter\n" and len(marks(got, "malformed")) == 1 and
         marks(got, "malformed")[0].startswith("1:"), got)
    proxy.rule("^nothing", 503)
    got = agent.run("echo '{\"type\": broken'; echo '{\"session_id\": \"s\"}'")
    pair(17, "a malformed line of the agent is shown as it is", got.text.startswith("{\"type\": broken\n") and marks(got, "agent_session") == ["s"], got)
    child = agent.popen("python3 -m http.server 3210 >/dev/null 2>&1 & p=$!; until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 3210))' 2>/dev/null; do :; done; "
                        "echo up; sleep 1.5", "--preview", "3211")
    out, err = child.communicate(timeout=60)
    pair(18, "the port does not listen: it says which do", child.returncode == 0 and b"nothing listens on port 3211; ports with a listener: 3210" in err, child.returncode, err)
    previewed = cove.create()["id"]
    cove.post(BOX + previewed + "/ports", {"port": 3000})
    url = cove.get(BOX + previewed + "/ports").json["items"][0]["pathUrl"]
    cove.delete(previewed)
    place = url.split("/", 3)

    def look(path):
        conn = http.client.HTTPConnection(place[2].split(":")[0], int(place[2].rsplit(":", 1)[1]), timeout=30)
        conn.request("GET", path)
        reply = conn.getresponse()
        reply.read()
        conn.close()
        return reply
    status = look("/" + place[3]).status
    pair(19, "a preview outlives its sandbox: 404 or 410", status in (404, 410), status)
    wrong = re.sub(r"3000-[^/]*", "3000-ffffffffffff-wrong00000000000", "/" + place[3])
    for _ in range(1200):
        reply = look(wrong)
        if reply.status == 429:
            break
    pair(20, "the rate limit of previews says when to retry", reply.status == 429 and int(reply.headers["Retry-After"]) > 0, wrong, reply.status, reply.headers)
    child = agent.cli.popen("agent", "run", "--", "sh", "-c", "cat; echo ok", stdin=subprocess.PIPE)
    pair(28, "an agent that reads its input ends", child.wait(60) == 0 and child.stdout.read() == b"ok\n", child.returncode)
    child.stdin.close()
    got = agent.run("sh -c 'kill -9 $PPID'; echo never")
    pair(36, "the shell of a run is killed: it has a code, and the stream ends", got.returncode == 1 and "137" in got.err and got.text == "", got)
    dying = Agent(cove, "dying")
    child = dying.popen("echo part > part; sync; echo begun; sleep 999")
    dead, run = begun(child)
    kill_box(cove, dead)
    out, err = child.communicate(timeout=60)
    pair(14, "R44 the sandbox dies in mid-run: exit 2 and not 1, it is said, and what it wrote comes back", child.returncode == 2 and b"sandbox was lost" in err and
         os.path.exists(dying.work + "/part"), child.returncode, err)
    out, err = silent.communicate(timeout=60)
    listener.join(20)
    pair(29, "R28 a silent run: heartbeats on its stream, and its end arrives", silent.returncode == 0 and out == b"over\n" and len(beats) >= 1, silent.returncode, err, beats)


class Sweep:
    """26 and 27: begun early, for they take their time."""

    def __init__(self, cove):
        self.cove = cove
        self.held, self.free = cove.create(ttl="1s")["id"], cove.create(ttl="1s")["id"]
        cove.request("PATCH", BOX + self.held, {"unsynced": True})
        self.red = cove.create(labels={"team": "red"})["id"]
        cove.request("PUT", "/v1/budgets/reds", {"match": {"label": "team=red"}, "period": "day", "cpuSeconds": 0.2})
        cove.run(self.red, "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done")

    def state(self, box):
        reply = self.cove.get(BOX + box)
        return reply.json["state"] if reply.status == 200 else reply.status

    def end(self):
        events = c.until(lambda: self.cove.get("/v1/events?kind=budget.warning&limit=100").json["items"], 30)
        pair(26, "a budget is exceeded: warned, and the idle sandbox paused", events and c.until(lambda: self.state(self.red) == "paused", 30), events)
        self.cove.request("DELETE", "/v1/budgets/reds")
        pair(27, "a forgotten sandbox goes; one with work is stopped", c.until(lambda: self.state(self.free) == 404, 60) and
             c.until(lambda: self.state(self.held) == "stopped", 60), self.state(self.free), self.state(self.held))


def main():
    cove = c.Cove()
    proxy = Proxy(cove)
    try:
        queue = Proxy(cove)
        queue.rule("^PUT /v1/sandboxes/wt-[0-9a-f]+ ", 429, reason="too_many_sandboxes")
        lasting = Agent(cove, "lasting", queue).popen("true")
        agent, box = creating(cove, proxy)
        sweep = Sweep(cove)
        moving(cove, proxy, agent, box)
        running(cove, proxy)
        sweep.end()
        out, err = lasting.communicate(timeout=60)
        pair(2, "a quota that lasts: exit 2, and it is said", lasting.returncode == 2 and err.count(b"[sandbox:retry]") == 5 and b"too_many" in err, err)
        for each in boxes(cove):
            cove.request("DELETE", BOX + each + "?force=true")
        cove.stop(number=signal.SIGINT)
        c.same(c.remains(cove), {}, "no sandbox and no process is left over")
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
