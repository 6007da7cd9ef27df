#!/usr/bin/env python3
"""Live output has no bound: who reads it from the start gets every byte, however much is kept, at the pace of the slowest reader and
over kills of the daemon; a later reader is told what is missing; a reader that takes nothing is detached. The command line ends what
it runs when its own reader goes, or by Ctrl-C. One form for time-outs and missing directories."""
import hashlib
import http.client
import json
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
MB = 1 << 20


def too_late(*_):
    raise TimeoutError("the test takes too long")


signal.signal(signal.SIGALRM, too_late)
signal.alarm(540)


def begin(*args):
    """Another cove: `cove`, and the environment of its command line, `CLI`."""
    global cove, CLI
    cove = c.Cove(*args)
    CLI = dict(os.environ, COVE_DATA=cove.data, COVE_URL=cove.url)
    CLI.pop("COVE_TOKEN", None)


# Numbers in lines: missing or doubled bytes show. 8 bytes a line.
COUNT = "seq -f %%07.0f 0 %d"


def lines(first, count):
    return b"".join(b"%07d\n" % n for n in range(first, first + count))


def digest(count):
    got = hashlib.sha256()
    for first in range(0, count, 100000):
        got.update(lines(first, min(100000, count - first)))
    return got.hexdigest()


def cli(*argv, **kw):
    return subprocess.run([c.BIN, *argv], env=CLI, timeout=180, stdout=kw.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, **kw)


def alive(box, word):
    """Whether a process with that word in its command line runs in the box."""
    return cove.run(box, ["pgrep", "-f", word])["exitCode"] == 0


def sums(process):
    """Count and digest of a process's output."""
    got, size = hashlib.sha256(), 0
    while True:
        piece = process.stdout.read(65536)
        if not piece:
            break
        got.update(piece)
        size += len(piece)
    return size, got.hexdigest()


def kept(box):
    """Disk usage of the tapes of a box."""
    where = os.path.join(cove.data, "daemon", "tapes", box["id"])
    return sum(os.stat(os.path.join(where, name)).st_blocks * 512 for name in os.listdir(where))


class Slow:
    """A stream of a command whose socket is read only when asked, with a small buffer."""

    def __init__(self, box, command, path="execute/stream", **fields):
        body = json.dumps(dict(fields, command=command, encoding="base64")).encode()
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.sock.settimeout(120)
        self.sock.connect(("127.0.0.1", cove.port))
        self.sock.sendall(("POST /v1/sandboxes/%s/api/%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                           "Content-Length: %d\r\n\r\n" % (box["id"], path, cove.port, cove.key, len(body))).encode() + body)
        self.answer = http.client.HTTPResponse(self.sock)
        self.answer.begin()

    def events(self):
        for line in self.answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def follow(box, process, last=None):
    """The events of a process's stream, with their ids."""
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=120)
    head = {"Authorization": "Bearer " + cove.key}
    if last:
        head["Last-Event-ID"] = last
    conn.request("GET", "/v1/sandboxes/%s/api/process/%s/stream?encoding=base64" % (box["id"], process), headers=head)
    place = None
    for line in conn.getresponse():
        if line.startswith(b"id: "):
            place = line[4:].decode().strip()
        if line.startswith(b"data: "):
            yield place, json.loads(line[6:])


def records(box):
    return cove.get("/v1/sandboxes/%s/api/process/list" % box["id"]).json["processes"]


# ---------------------------------------------------------------- more than is kept

begin()
box = cove.create(limits={"outputMB": 1, "diskMB": 256})
ran = subprocess.Popen([c.BIN, "exec", box["id"], "--", "head", "-c", "100000000", "/dev/zero"], env=CLI, stdout=subprocess.PIPE)
size, _ = sums(ran)
c.same((size, ran.wait()), (100000000, 0), "cove exec shows 100,000,000 bytes of a command, and ends with 0")
LINES = 2500000  # 20 MB
ran = subprocess.Popen([c.BIN, "exec", box["id"], "--", "bash", "-c", COUNT % (LINES - 1)], env=CLI, stdout=subprocess.PIPE)
c.same((sums(ran)[1], ran.wait()), (digest(LINES), 0), "each of them, in order")
out, _, last = c.collect(cove.events(box, COUNT % (LINES - 1) + "; echo done >&2"))
c.same((hashlib.sha256(out).hexdigest(), last["type"], last["exitCode"], last["stdoutTruncated"]), (digest(LINES), "complete", 0, False),
       "execute/stream gives all of it, and says so")
cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"processId": "whole", "command": "sleep 0.3; " + COUNT % (LINES - 1)})
got = b"".join(c.data_of(e) for _, e in follow(box, "whole") if e["type"] == "stdout")
c.same(hashlib.sha256(got).hexdigest(), digest(LINES), "the stream of a process gives all of it")

later = [e for _, e in follow(box, "whole")]
kinds = [e["type"] for e in later if e["type"] != "stdout"]
shown = b"".join(c.data_of(e) for e in later if e["type"] == "stdout")
cut = [e for e in later if e["type"] == "truncated"]
c.ok(kinds[-2:] == ["truncated", "exit"] or kinds[-1] == "exit" and cut, "a later reader is told that it is cut", kinds)
c.ok(cut and cut[-1]["keptBytes"] == MB and cut[-1]["totalBytes"] == 8 * LINES, "with both byte counts", cut)
c.ok(later[-1]["stdoutTruncated"] and shown[:MB] == lines(0, MB // 8), "behind the kept part", len(shown))
process = cove.get("/v1/sandboxes/%s/api/process/whole" % box["id"]).json["process"]
c.same((process.get("keptBytes"), process.get("totalBytes"), process["stdoutTruncated"]), (MB, 8 * LINES, True), "and so does the record")
late = cli("logs", box["id"], "whole")
c.ok(late.returncode == 125 and b"incomplete" in late.stderr and str(8 * LINES).encode() in late.stderr and len(late.stdout) == MB,
     "cove logs of it ends with 125 and a message", late.returncode, late.stderr, len(late.stdout))
late = cli("logs", "-f", box["id"], "whole")
c.ok(late.returncode == 125 and b"incomplete" in late.stderr, "and so does cove logs -f", late.returncode, late.stderr)

# ---------------------------------------------------------------- a slow reader

slow = Slow(box, "head -c 60M /dev/zero; touch /tmp/written")
events = slow.events()
next(events)
time.sleep(0.5)  # long enough to write it, and less than a reader may take nothing
c.ok(cove.run(box, ["test", "-e", "/tmp/written"])["exitCode"] == 1, "a slow reader slows the writer")
total = sum(len(c.data_of(e)) for e in events if e["type"] == "stdout")
c.same(total, 60 * MB, "and gets every byte")

# ---------------------------------------------------------------- over a kill of the daemon, inside of the window

ran = subprocess.Popen([c.BIN, "exec", box["id"], "--", "bash", "-c", COUNT % (LINES - 1) + "; sleep 1; " + COUNT % 99], env=CLI,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
got, size, kills = hashlib.sha256(), 0, 0
while True:
    piece = os.read(ran.stdout.fileno(), 65536)
    if not piece:
        break
    got.update(piece)
    size += len(piece)
    if kills < 3 and size > (3 + 4 * kills) * MB:
        kills += 1
        os.kill(cove.children()["daemon"], signal.SIGKILL)
want = hashlib.sha256()
for first in range(0, LINES, 100000):
    want.update(lines(first, 100000))
want.update(lines(0, 100))
c.ok(ran.wait() == 0 and got.hexdigest() == want.hexdigest() and kills == 3,
     "kill -9 of the daemon, three times past the kept part: cove exec has every byte once", ran.returncode, size, 8 * LINES + 800, kills,
     ran.stderr.read())

# ---------------------------------------------------------------- who runs it, ends it

ran = subprocess.run("%s exec %s -- bash -c 'while :; do echo from-a-loop; sleep 0.01; done # pipe-test' | head -c 20" % (c.BIN, box["id"]), shell=True,
                     env=CLI, stdout=subprocess.PIPE, timeout=60)
c.ok(len(ran.stdout) == 20 and c.until(lambda: not alive(box, "pipe-tes[t]")), "cove exec whose reader goes ends its command", ran)
ran = subprocess.run("%s exec %s -- bash -c 'trap \"\" INT TERM; while :; do echo loop; sleep 0.01; done # deaf-test' | head -c 20" %
                     (c.BIN, box["id"]), shell=True, env=CLI, stdout=subprocess.PIPE, timeout=60)
c.ok(c.until(lambda: not alive(box, "deaf-tes[t]")), "also one that ignores INT and TERM")
ran = subprocess.run("%s exec -i %s -- bash -c 'while :; do echo loop; sleep 0.01; done # input-test' </dev/null | head -c 20" %
                     (c.BIN, box["id"]), shell=True, env=CLI, stdout=subprocess.PIPE, timeout=60)
c.ok(c.until(lambda: not alive(box, "input-tes[t]")), "and with -i")


def ctrl_c(*argv):
    """Runs cove on a terminal of its own, types Ctrl-C once the command has written, and returns the status and all that was shown."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(c.BIN, [c.BIN, *argv], CLI)
    shown, typed, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([master], [], [], 0.5)[0]:
            try:
                piece = os.read(master, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        if b"ready" in shown and not typed:
            typed = True
            os.write(master, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(master)
    return os.waitstatus_to_exitcode(status), shown


status, shown = ctrl_c("exec", box["id"], "--", "bash", "-c",
                       "trap 'echo INT >> /tmp/signals; exit 3' INT; echo ready; while :; do sleep 0.05; done # key-test")
c.ok(status == 130 and not alive(box, "key-tes[t]"), "Ctrl-C ends the command of cove exec", status, shown)
c.same(cove.out(box, ["cat", "/tmp/signals"]), "INT\n", "by INT first")
began = cli("exec", "-d", box["id"], "--", "bash", "-c", "echo ready; while :; do sleep 0.05; done # detached-test")
status, shown = ctrl_c("logs", "-f", box["id"], began.stdout.decode().strip())
c.ok(status == 130 and alive(box, "detached-tes[t]"), "a process started with -d runs on when its reader is interrupted", status, shown)
ran = subprocess.Popen([c.BIN, "exec", box["id"], "--", "bash", "-c", "echo ready; while :; do sleep 0.05; done # lost-test"], env=CLI,
                       stdout=subprocess.PIPE)
ran.stdout.readline()
ran.kill()
ran.wait()
c.ok(alive(box, "lost-tes[t]"), "a client that is merely gone ends nothing")

# ---------------------------------------------------------------- one form

alone = cli("exec", "--timeout", "300ms", box["id"], "--", "sleep", "30")
c.ok(alone.returncode == 124, "a command that runs out of time ends cove exec with 124", alone)
away = cli("exec", "-w", "/nowhere", box["id"], "--", "true")
c.ok(away.returncode == 125 and b"cannot enter '/nowhere'" in away.stderr, "a missing directory is 125 and named", away)
c.same(cove.close(), 0, "cove ends well")

# ---------------------------------------------------------------- a reader that is stuck; 30 s are 1 s, 15 s are 0.5 s

begin("--dev", "--time-scale=30")
box = cove.create(limits={"outputMB": 1, "diskMB": 256})
stuck = Slow(box, "head -c 60M /dev/zero; touch /tmp/gone-on")
events = stuck.events()
next(events)
c.ok(c.until(lambda: cove.run(box, ["test", "-e", "/tmp/gone-on"])["exitCode"] == 0, 60),
     "a reader that takes nothing is detached, and the writer goes on")
told = c.until(lambda: [e for e in cove.get("/v1/events?after=0&limit=1000").json["items"] if e["kind"] == "output.reader_detached"])
c.ok(told and told[-1]["sandbox"] == box["id"] and int(told[-1]["fields"]["offset"]) >= MB, "an event tells where", told)
rest = list(events)
cut = [e for e in rest if e["type"] == "truncated"]
gone = [e for e in rest if e["type"] == "detached"]
total = sum(len(c.data_of(e)) for e in rest if e["type"] == "stdout")
c.ok(gone and gone[0]["offset"] >= MB, "when it reads again it is told where it was detached", gone)
c.ok(cut and total + cut[-1]["missedBytes"] == 60 * MB and cut[-1]["totalBytes"] == 60 * MB, "and how many bytes it missed", cut, total)
c.ok(rest[-1]["type"] == "complete" and rest[-1]["stdoutTruncated"], "and that the rest is not whole", rest[-1])

ran = subprocess.Popen([c.BIN, "exec", box["id"], "--", "head", "-c", "60M", "/dev/zero"], env=CLI, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)
ran.stdout.read(100000)
before = len(told)
c.until(lambda: len([e for e in cove.get("/v1/events?after=0&limit=1000").json["items"] if e["kind"] == "output.reader_detached"]) > before, 60)
size, _ = sums(ran)
why = ran.stderr.read()
c.ok(ran.wait() == 125 and b"incomplete" in why and size < 60 * MB, "cove exec that could not show everything ends with 125 and a message",
     ran.returncode, why, size)

c.ok(c.until(lambda: kept(box) < 5 * MB), "dropped output is removed from the disk", kept(box))

cove.delete(box)
c.same(cove.close(), 0, "cove ends well")
c.done()
