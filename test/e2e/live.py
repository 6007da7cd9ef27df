"""Clients that outlive a daemon: each notices nothing of its end but a lost connection, connects again, and goes on
where it was. What else befalls them is a fault."""
import hashlib
import http.client
import json
import random
import threading
import time
from urllib.parse import quote

import cove as c
from cove import BROKEN, patiently  # noqa: F401
from wsclient import Closed, Refused, Terminal

CUT = (OSError, http.client.HTTPException, Closed)
SLEEPER = "exec 9<> <(:)"  # `read -t` on it sleeps without a process


def api(box, path):
    return "/v1/sandboxes/%s/api/%s" % (box["id"], path)


def again(ask, seconds=60):
    """The answer of a request whose connection may be cut; also how often it was."""
    end, cuts = time.monotonic() + seconds, 0
    while True:
        try:
            return ask(), cuts
        except ConnectionRefusedError:
            raise
        except CUT:
            cuts += 1
            if time.monotonic() > end:
                raise
        time.sleep(0.01)


def surely(ask, good, seconds=90):
    """The answer, one of `good`, of a request that is said again when it was cut off, found nobody, or was told to come
    back; also whether it was said more than once. Any other answer is a fault."""
    end, often = time.monotonic() + seconds, 0
    while True:
        try:
            reply = ask()
            if reply.status in good(often):
                return reply, often
            if not reply.json.get("retryable"):
                raise AssertionError(repr(reply))
        except CUT:
            reply = None
        often += 1
        if time.monotonic() > end:
            raise AssertionError("no answer: %r" % reply)
        time.sleep(0.05)


def start(cove, box, command, **fields):
    reply = cove.post(api(box, "process/start"), dict(command=command, **fields))
    if reply.status != 200:
        raise RuntimeError("start: %r" % reply)
    return reply.json["processId"]


def is_retryable(body):
    """Whether the body of an error says that the same request can be sent again."""
    try:
        return json.loads(body)["retryable"] is True
    except (ValueError, KeyError, TypeError):
        return False


class Client(threading.Thread):
    """One that works until it is told to stop. `faults` is what it saw beside lost connections."""
    patient = False  # True: the supervisor is killed, too; a refused connection and a retryable error are no faults

    def __init__(self, cove, box):
        super().__init__(daemon=True)
        self.cove, self.box = cove, box
        self.cuts, self.faults, self.stopping, self.done = 0, [], False, 0

    def run(self):
        while not self.is_over():
            try:
                self.step()
            except ConnectionRefusedError as fault:
                if self.patient:
                    self.cuts += 1
                else:
                    self.faults.append(repr(fault))
            except CUT:
                self.cuts += 1
            except Exception as fault:  # noqa: BLE001
                self.faults.append("%s: %r" % (type(self).__name__, fault))
                return
            time.sleep(0.01)

    def is_over(self):
        return self.stopping


class Follower(Client):
    """Reads a process's stream to its end, wherever it is cut off."""

    def __init__(self, cove, box, process, seconds=120):
        super().__init__(cove, box)
        self.process, self.until = process, time.monotonic() + seconds
        self.got, self.last, self.end = [], None, None
        self.start()

    def is_over(self):
        return self.end is not None or time.monotonic() > self.until

    def step(self):
        conn = http.client.HTTPConnection("127.0.0.1", self.cove.port, timeout=90)
        head = {"Authorization": "Bearer " + self.cove.key}
        if self.last:
            head["Last-Event-ID"] = self.last
        try:
            conn.request("GET", api(self.box, "process/%s/stream" % self.process), None, head)
            answer = conn.getresponse()
            if answer.status != 200:
                body = answer.read()
                if not (self.patient and is_retryable(body)):
                    self.faults.append("%d %r" % (answer.status, body[:300]))
                return
            for line in answer:
                self.hear(line)
        finally:
            conn.close()
        self.cuts += self.end is None

    def hear(self, line):
        if line.startswith(b"id: "):
            self.id = line[4:].strip().decode()
        elif line.startswith(b"data: "):
            event = json.loads(line[6:])
            if event["type"] == "stdout":
                self.got.append(event["data"].encode())
                self.last = self.id
            elif event["type"] in ("exit", "error"):
                self.end = event

    def text(self):
        return b"".join(self.got)


class Watcher(Client):
    """Sits at the terminal of a command, and comes back to it."""

    def __init__(self, cove, box, command):
        super().__init__(cove, box)
        self.query = "command=bash&command=-c&command=" + quote(command)
        self.seen, self.where, self.end, self.terminal = b"", None, None, None
        self.start()

    def is_over(self):
        return self.end is not None or self.stopping

    def connect(self):
        try:
            return Terminal(self.cove, self.box, "terminal=" + self.where if self.where else self.query, timeout=90)
        except Refused as answer:
            if self.patient and is_retryable(answer.body):
                raise Closed(answer.status)
            raise AssertionError("%s, %r" % (answer, self.seen[-40:]))

    def step(self):
        self.terminal = self.connect()
        try:
            while self.terminal.step():
                ready = self.terminal.last("ready")
                self.where = self.where or (ready and ready["terminal"])
                self.end = self.terminal.last("exit")
        finally:
            if self.where:
                self.seen = self.terminal.seen  # all of it, each time: as long as the screen's memory holds it
            self.terminal.sock.close()
        self.cuts += self.end is None


class Typist(Client):
    """Runs one short command after the other on a terminal of its own, and wants the exit code of each."""

    def __init__(self, cove, box):
        super().__init__(cove, box)
        self.start()

    def step(self):
        code = self.done % 200
        one = Watcher(self.cove, self.box, "%s; read -t 0.05 -u 9; echo out-%d; exit %d" % (SLEEPER, code, code))
        one.join(60)
        if (one.end or {}).get("code") != code or b"out-%d\r\n" % code not in one.seen:
            self.faults += one.faults or ["terminal: %r %r" % (one.end, one.seen[-80:])]
        self.cuts += one.cuts
        self.done += 1


class Uploader(Client):
    """Writes a file again and again. It is the old one or the new one, and the new one when that was told."""

    def __init__(self, cove, box, name, size=4 << 20, pieces=16, pause=0.02):
        super().__init__(cove, box)
        self.path, self.size, self.pieces, self.pause = "workspace/" + name, size, pieces, pause
        self.allowed, self.dice = {"none"}, random.Random(name)
        self.start()

    def step(self):
        body = self.dice.randbytes(self.size // self.pieces) * self.pieces
        digest = hashlib.sha256(body).hexdigest()
        self.allowed.add(digest)
        try:
            status = self.put(body)
            if status // 100 == 2:
                self.allowed = {digest}
                self.done += 1
            else:
                self.faults.append("upload: %d" % status)
        except CUT:
            self.cuts += 1
        self.look()

    def put(self, body):
        conn = http.client.HTTPConnection("127.0.0.1", self.cove.port, timeout=60)
        piece = len(body) // self.pieces
        try:
            conn.putrequest("PUT", api(self.box, "files/" + self.path))
            conn.putheader("Authorization", "Bearer " + self.cove.key)
            conn.putheader("Content-Length", str(len(body)))
            conn.endheaders()
            for at in range(self.pieces):
                conn.send(body[at * piece:(at + 1) * piece])
                time.sleep(self.pause)
            return conn.getresponse().status
        finally:
            conn.close()

    def look(self):
        command = "sha256sum < /%s || echo none" % self.path
        reply, cuts = again(lambda: self.cove.execute(self.box, command))
        self.cuts += cuts
        found = reply.json["stdout"].split()[0] if reply.status == 200 else repr(reply)
        if found not in self.allowed:
            self.faults.append("torn: %s is %s" % (self.path, found))
        self.allowed = {found}


class Worker(Client):
    """Starts short processes under names of its own, and asks for the exit code of each."""

    def __init__(self, cove, box, name):
        super().__init__(cove, box)
        self.prefix = name
        self.start()

    def step(self):
        name, code = "%s-%d" % (self.prefix, self.done), self.done % 200
        body = {"command": "echo out-%d; exit %d" % (code, code), "processId": name}
        reply, cuts = again(lambda: self.cove.post(api(self.box, "process/start"), body))
        # One that was cut may have been heard.
        heard = cuts and reply.status == 409
        if reply.status != 200 and not heard:
            self.faults.append("start: %r" % reply)
        self.cuts += cuts
        reply, cuts = again(lambda: self.cove.get(api(self.box, "process/%s/wait?timeoutMs=60000" % name)))
        self.cuts += cuts
        if reply.status != 200 or reply.json["exitCode"] != code:
            self.faults.append("exit code of %s: %r" % (name, reply))
        reply, cuts = again(lambda: self.cove.get(api(self.box, "process/%s/logs" % name)))
        self.cuts += cuts
        if reply.status != 200 or reply.json["stdout"] != "out-%d\n" % code:
            self.faults.append("output of %s: %r" % (name, reply))
        self.done += 1


class Maker(Client):
    """Makes sandboxes, runs a command in each, and deletes them."""

    def __init__(self, cove):
        super().__init__(cove, None)
        self.key = "maker-%x" % random.getrandbits(64)
        self.start()

    def step(self):
        made, cuts = again(lambda: self.cove.request("POST", "/v1/sandboxes", {},
                                                     headers={"Idempotency-Key": "%s-%d" % (self.key, self.done)}))
        self.cuts += cuts
        if made.status not in (200, 201):
            self.faults.append("create: %r" % made)
            return
        box = made.json
        reply, cuts = again(lambda: self.cove.execute(box, "echo here"))
        if reply.status != 200 or reply.json["stdout"] != "here\n":
            self.faults.append("execute: %r" % reply)
        gone, more = again(lambda: self.cove.delete(box))
        if gone.status != 204 and not (more and gone.status in (404, 410)):
            self.faults.append("delete: %r" % gone)
        self.cuts += cuts + more
        self.done += 1


class Visitor(Client):
    """Connects again and again: each time somebody must listen, and answer in the end."""

    def __init__(self, cove):
        super().__init__(cove, None)
        self.slowest = 0.0
        self.start()

    def step(self):
        begin = time.monotonic()
        with c.socket.create_connection(("127.0.0.1", self.cove.port), timeout=30) as sock:
            sock.sendall(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % self.cove.port)
            self.done += sock.recv(15).startswith(b"HTTP/1.1")
        self.slowest = max(self.slowest, time.monotonic() - begin)


class Looker(Client):
    """Looks at a preview again and again: a page, or a form that is sent. Each time the
    answer is the server's own. `cuts` counts requests that were made and not answered, `early` those of
    them that had less than `grace` seconds."""

    def __init__(self, cove, site, name, grace):
        super().__init__(cove, None)
        self.site, self.name, self.slowest, self.grace, self.early = site, name, 0.0, grace, 0
        self.start()

    def step(self):
        begin = time.monotonic()
        try:
            self.look(begin)
        except CUT:
            self.early += time.monotonic() - begin < self.grace
            raise

    def look(self, begin):
        mark = "%s-%d" % (self.name, self.done)
        if self.done % 3 == 2:
            reply = self.site.ask("/up", "POST", mark.encode() * 1000)
            good = reply.status == 201 and reply.body == b"%d" % (len(mark) * 1000)
        else:
            reply = self.site.ask("/" + mark)
            good = reply.status == 200 and reply.body.startswith(b"GET /%s\n" % mark.encode())
        if not good:
            self.faults.append("preview: %r" % reply)
        self.done += 1
        self.slowest = max(self.slowest, time.monotonic() - begin)


def counting(rest="", lines=10, pause="0.1", code=0):
    """A command that counts lines until /run/over is there, says how many there were, and ends."""
    return ("%s; i=0; until [ -e /run/over ]; do for k in {1..%d}; do echo $((++i))%s; done; read -t %s -u 9; done; "
            "echo all $i; exit %d" % (SLEEPER, lines, rest, pause, code))


def miscounted(text, rest=""):
    """What is wrong with the output of such a command; None: nothing."""
    lines = text.replace(b"\r\n", b"\n").decode(errors="replace").split("\n")
    if len(lines) < 2 or not lines[-2].startswith("all "):
        return "no end: %r" % text[-60:]
    want = ["%d%s" % (i, rest) for i in range(1, int(lines[-2][4:]) + 1)]
    if lines[:-2] == want and want:
        return None
    at = next((i for i, pair in enumerate(zip(lines, want)) if pair[0] != pair[1]), -1)
    return "%d lines of %d; the %d. is %r" % (len(lines) - 2, len(want), at + 1, lines[at][:60])
