#!/usr/bin/env python3
"""Group D: what a box does to those who serve it: the channel over which a shell or an interpreter is told and answers, the
children of pid 1 before they execute, the descriptors that the daemon has of it."""
import contextlib
import os
import signal
import socket
import threading
import time

from rows import c, PATIENCE, play, row

# A subshell of bash has copies of what the shell saved of its own descriptors. As stdin one survives an execve.
TAKE_DIALOGUE = """for n in {3..30}; do if [ -S /proc/self/fd/$n ]; then exec <&$n; break; fi; done"""

# Takes connections and never reads from them.
PEER = """
import socket, time
door = socket.create_server(("127.0.0.1", 7070))
guests = []
while True:
    guests.append(door.accept())
"""

# Passes a socket whose close() waits for that peer, and keeps no copy of it; when it is told to.
LINGER = """
import array, os, signal, socket, struct
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
dialogue = socket.socket(fileno=os.dup(0))
slow = socket.create_connection(("127.0.0.1", 7070))
slow.setblocking(False)
try:
    while True:
        slow.send(b"x" * 65536)
except BlockingIOError:
    pass
slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3))
inner, outer = socket.socketpair()


def give(sock, passed):
    sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [passed.fileno()]))])
    passed.close()


open("/tmp/ready", "w").close()
signal.sigwait([signal.SIGUSR1])
if NESTED:
    give(inner, slow)
give(dialogue, outer if NESTED else slow)
"""
START_LINGER = "exec python3 -I /tmp/linger.py %s"
UNTIL_READY = "until [ -e /tmp/ready ]; do sleep 0.01; done"

# Waits until the shell is told its next command, and answers in its place.
FORGE = """
import os, re, signal, socket, sys, time
shell, dialogue = int(sys.argv[1]), socket.socket(fileno=os.dup(0))
os.close(1), os.close(2)
os.setsid()
open("/tmp/ready", "w").close()
while not os.path.exists("/tmp/go"):
    time.sleep(0.01)
os.kill(shell, signal.SIGSTOP)
open("/tmp/stopped", "w").close()
told = b""
while b"__cove_end" not in told or not told.endswith(b"\\n"):
    told = dialogue.recv(1 << 16, socket.MSG_PEEK)
    time.sleep(0.01)
mark = re.findall(rb'__cove_end "[^ ]*" (\\d+)', told)[-1]
dialogue.send(b"42 " + mark + b"  /forged\\0")
time.sleep(1)
os.kill(shell, signal.SIGCONT)
"""

FORGE_CELL = """
import os, re, socket, sys, time, signal
parent = os.getpid()
dialogue = socket.socket(fileno=os.dup(FD))
if not os.fork():
    try:
        os.setsid()
        open("/tmp/ready", "w").close()
        while not os.path.exists("/tmp/go"):
            time.sleep(0.01)
        os.kill(parent, signal.SIGSTOP)
        open("/tmp/stopped", "w").close()
        told = b""
        while not told:
            told = dialogue.recv(1 << 16, socket.MSG_PEEK)
            time.sleep(0.05)
        mark = re.search(rb"\\d{12,}", told).group()
        dialogue.send(b"0 " + mark + b"  /forged\\0")
        time.sleep(1)
        os.kill(parent, signal.SIGCONT)
    finally:
        os._exit(0)
"""


def api(stage, box, verb, body, **kw):
    return stage.cove.post("/v1/sandboxes/%s/api/%s" % (box["id"], verb), body, **kw)


def put(stage, box, path, text):
    stage.cove.run(box, "cat > %s" % path, stdin=text)


def find_process(words):
    """The process of the host with these words in its command line."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/cmdline" % pid, "rb") as file:
            if words.encode() in file.read().replace(b"\0", b" "):
                return int(pid)
    return None


def is_gone(pid):
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as file:
            return ") Z " in file.read()
    except OSError:
        return True


def pass_socket(stage, box, nested, start):
    """How long health takes when a socket was passed that nobody else holds. The daemon stands still meanwhile: it is to be
    the one that closes it last."""
    put(stage, box, "/tmp/peer.py", PEER)
    put(stage, box, "/tmp/linger.py", LINGER.replace("NESTED", str(nested)))
    api(stage, box, "process/start", {"command": "exec python3 -I /tmp/peer.py", "processId": "peer"})
    stage.cove.run(box, "until (exec 3<>/dev/tcp/127.0.0.1/7070) 2>/dev/null; do sleep 0.05; done")
    start()
    pid, daemon = find_process("/tmp/linger.py " + box["id"]), stage.cove.children()["daemon"]
    os.kill(daemon, signal.SIGSTOP)
    try:
        os.kill(pid, signal.SIGUSR1)
        c.until(lambda: is_gone(pid), 3)
    finally:
        os.kill(daemon, signal.SIGCONT)
    begin = time.monotonic()
    stage.cove.get("/v1/health")
    return time.monotonic() - begin


def linger_in_shell(stage, nested=False):
    box = stage.box()
    api(stage, box, "session/create", {"id": "s"})
    return pass_socket(stage, box, nested, lambda: api(stage, box, "execute", {
        "sessionId": "s", "command": "( %s; %s ) & %s" % (TAKE_DIALOGUE, START_LINGER % box["id"], UNTIL_READY)}))


def linger_in_cell(stage):
    box = stage.box()
    context = api(stage, box, "contexts", {"language": "python"}).json["contextId"]
    code = "import os, subprocess; subprocess.Popen(%r.split(), stdin=os.dup(240)); os.system(%r)" % (
        (START_LINGER % box["id"])[5:], UNTIL_READY)
    return pass_socket(stage, box, False, lambda: api(stage, box, "execute/code", {"code": code, "context_id": context}))


@row("D-01", "a socket that a box passes over a dialogue holds nobody up when it is closed")
def linger(stage):
    for name, attack in (("a shell", linger_in_shell), ("a shell, inside of another socket", lambda stage: linger_in_shell(stage, True)),
                         ("an interpreter", linger_in_cell)):
        stage.control_weak("closer,passrights", attack, lambda took: took > 1.5)
        took = attack(stage)
        c.ok(took < 0.2 * PATIENCE, "D-01: %s: health is answered at once" % name, took)
        stage.depth("passrights", attack, lambda took: took < 0.2 * PATIENCE)
        stage.depth("closer", attack, lambda took: took < 0.2 * PATIENCE)


def forge_in_shell(stage):
    box = stage.box()
    put(stage, box, "/tmp/forge.py", FORGE)
    api(stage, box, "session/create", {"id": "s"})
    api(stage, box, "execute", {"sessionId": "s", "command":
                                "( %s; exec python3 -I /tmp/forge.py $$ ) & until [ -e /tmp/ready ]; do sleep 0.01; done"
                                % TAKE_DIALOGUE})
    stage.cove.run(box, "touch /tmp/go; until [ -e /tmp/stopped ]; do sleep 0.01; done")
    return api(stage, box, "execute", {"sessionId": "s", "command": "echo mine; (exit 7)", "timeoutMs": 20000}).json


def forge_in_cell(stage):
    box = stage.box()
    context = api(stage, box, "contexts", {"language": "python"}).json["contextId"]
    api(stage, box, "execute/code", {"code": FORGE_CELL.replace("FD", "240"), "context_id": context})
    stage.cove.run(box, "until [ -e /tmp/ready ]; do sleep 0.01; done; touch /tmp/go; until [ -e /tmp/stopped ]; do sleep 0.01; done")
    return api(stage, box, "execute/code", {"code": "print('mi' + 'ne')", "context_id": context, "timeoutMs": 20000}).body.decode()


@row("D-02", "a job that an earlier command left running answers no later command")
def forged_end(stage):
    stage.control_weak("sender", forge_in_shell, lambda got: got["exitCode"] == 42)
    got = forge_in_shell(stage)
    c.ok((got.get("exitCode"), got.get("stdout")) == (7, "mine"), "D-02: the answer is the command's own", got)


@row("D-03", "nor does a child of an earlier cell answer a later one")
def forged_cell(stage):
    stage.control_weak("sender", forge_in_cell, lambda body: "mine" not in body)
    body = forge_in_cell(stage)
    c.ok("mine" in body, "D-03: the answer is the cell's own", body)


# A write lease makes execve() wait, so that the child of pid 1 can be caught before it. Modes: kill it; or kill the process
# that it was forked from, stop it, and let it go on when its command has been forgotten.
CATCH = """
import fcntl, os, signal, sys, time


def find(name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open("/proc/%s/comm" % pid, errors="replace").read().strip() == name:
                return int(pid)
        except OSError:
            pass
    return 0


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
fd = os.open("/tmp/prog", os.O_RDONLY)
fcntl.fcntl(fd, 1024, fcntl.F_WRLCK)
open("/tmp/ready", "w").close()
signal.sigwait([signal.SIGIO])
child, parent = find("cove-prefork"), find("cove-template")
if sys.argv[1] == "kill" and child:
    os.kill(child, signal.SIGKILL)
elif child and parent:
    os.kill(child, signal.SIGSTOP)
    os.kill(parent, signal.SIGKILL)
    time.sleep(0.5)
fcntl.fcntl(fd, 1024, fcntl.F_UNLCK)
os.close(fd)
open("/tmp/caught", "w").close()
if sys.argv[1] == "stop" and child:
    time.sleep(4)
    try:
        os.kill(child, signal.SIGCONT)
    except OSError:
        pass
"""


def has_waiting_child(box):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if open("/proc/%s/comm" % pid, errors="replace").read() == "cove-prefork\n" and box["id"] in open("/proc/%s/cgroup" % pid).read():
                return True
    return False


def catch_child(mode):
    def attack(stage):
        box = stage.box()
        put(stage, box, "/tmp/catch.py", CATCH)
        put(stage, box, "/tmp/prog", "#!/bin/sh\necho $1 >> /tmp/ran\nexit $1\n")
        stage.cove.run(box, "chmod 755 /tmp/prog")
        api(stage, box, "process/start", {"command": "exec python3 -I /tmp/catch.py " + mode, "processId": "catch"})
        stage.cove.run(box, "until [ -e /tmp/ready ]; do sleep 0.01; done")
        for _ in range(20):  # the next command has a child that waits for it
            stage.cove.run(box, "true")
            if c.until(lambda: has_waiting_child(box), 0.5):
                break
        first = []
        asker = threading.Thread(target=lambda: first.append(stage.cove.execute(box, ["/tmp/prog", "5"], timeoutMs=20000)))
        asker.start()
        if mode == "kill":
            asker.join()
        time.sleep(0.2)  # the child that waits is the first command's
        stage.cove.run(box, "until [ -e /tmp/caught ]; do sleep 0.01; done")
        for _ in range(6):
            time.sleep(0.3)  # each has a child that waits for it, and takes the place of another's words
            second = stage.cove.execute(box, ["/bin/sh", "-c", "echo second >> /tmp/ran; exit 6"], timeoutMs=20000)
        asker.join()
        ran = stage.cove.out(box, "sort /tmp/ran | tr '\\n' ' '")
        return first[0], second, ran
    return attack


def told_falsely(result):
    """A result for a command that did not run, or none for one that did; or a command that ran twice."""
    first, second, ran = result
    runs = ran.split()
    if first.status == 200 and (first.json["exitCode"] != 5 or runs.count("5") != 1):
        return True
    if first.status != 200 and runs.count("5") != 0:
        return True
    return second.status != 200 or second.json["exitCode"] != 6 or runs.count("second") != 6


@row("D-04", "a child of pid 1 that is killed or stopped before execve is never told as a command that ended")
def caught_child(stage):
    def at_last(mode):
        def attack(stage):
            for _ in range(5):  # a slow machine may not catch the child
                result = catch_child(mode)(stage)
                if told_falsely(result):
                    break
            return result
        return attack
    for mode in ("kill", "stop"):
        stage.control_weak("executed", at_last(mode), told_falsely)
        result = catch_child(mode)(stage)
        c.ok(not told_falsely(result), "D-04: %s: results are those of commands that ran" % mode, result)


# A file of many extents: freeing it takes the kernel long.
SPREAD = """
import os
fd = os.open("/workspace/spread", os.O_CREAT | os.O_RDWR, 0o644)
for i in range(110000):
    os.pwrite(fd, b"x" * 4096, i * 8192)
os.fsync(fd)
"""


def last_close(stage):
    """How long health takes while the daemon closes a file that has no name any more."""
    box = stage.box(limits={"diskMB": 2048})
    stage.python(box, SPREAD)
    host, port = "127.0.0.1", stage.cove.port
    with socket.create_connection((host, port)) as client:
        client.sendall(("GET /v1/sandboxes/%s/api/files/workspace/spread HTTP/1.1\r\nHost: %s:%d\r\nAuthorization: Bearer %s\r\n\r\n"
                        % (box["id"], host, port, stage.cove.key)).encode())
        client.recv(65536)
        stage.cove.run(box, "rm /workspace/spread; sync")
    worst, end = 0.0, time.monotonic() + 3
    while time.monotonic() < end:
        begin = time.monotonic()
        stage.cove.get("/v1/health")
        worst = max(worst, time.monotonic() - begin)
    return worst


@row("D-05", "the last close of a file of many extents holds nobody up")
def many_extents(stage):
    stage.control_weak("closer", last_close, lambda took: took > 0.25)
    took = last_close(stage)
    c.ok(took < 0.04 * PATIENCE, "D-05: health is answered at once", took)


def denied_lines(stage):
    """How many lines a box causes that is denied connections for some seconds."""
    box = stage.box(network={"mode": "allow", "allow": ["allowed.example"]})
    stage.python(box, "import socket, time\nend = time.monotonic() + 6\nn = 0\nwhile time.monotonic() < end:\n    n += 1\n"
                      "    try:\n        socket.getaddrinfo('n%d.denied.example' % n, 80)\n    except OSError:\n        time.sleep(0.02)\n")
    return len([line for line in stage.cove.log_text().splitlines() if box["id"] in line and '"egress_denied"' in line])


@row("D-06", "a box does not fill the log: sixty lines a minute, whatever it does")
def log_lines(stage):
    stage.control_weak("log_lines", denied_lines, lambda count: count > 60)
    count = denied_lines(stage)
    c.ok(0 < count <= 60, "D-06: no more than sixty lines", count)


# One byte a packet, on a pipe that gives one packet a read.
PACKETS = """
import fcntl, os, time
fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_DIRECT)
end = time.monotonic() + 4
while time.monotonic() < end:
    for _ in range(200):
        os.write(1, b"x")
"""


def packets(stage):
    """Packets of a box that the daemon takes in a second, each by a read of its own."""
    box = stage.box()
    put(stage, box, "/tmp/packets.py", PACKETS)
    begin = time.monotonic()
    reply = stage.cove.run(box, "exec python3 -I /tmp/packets.py", timeoutMs=60000)
    return len(reply["stdout"]) / (time.monotonic() - begin)


# The same between two processes of the box: what the kernel can do here.
OWN_PACKETS = """
import os, time
r, w = os.pipe2(os.O_DIRECT)
if os.fork() == 0:
    os.close(r)
    while True:
        os.write(w, b"x")
os.close(w)
end, count = time.monotonic() + 2, 0
while time.monotonic() < end:
    count += len(os.read(r, 4096))
print(count // 2, flush=True)
os._exit(0)
"""


@row("D-07", "a pipe in packet mode does not make the daemon read without end")
def packet_pipe(stage):
    own = int(stage.python(stage.box(), OWN_PACKETS)["stdout"])
    if own > 4000:
        stage.control_weak("pace", packets, lambda rate: rate > 800)
    else:
        stage.no_control("two processes pass %d packets a second here: the daemon cannot take many more than 700" % own)
    rate = packets(stage)
    c.ok(0 < rate < 700, "D-07: 16 small reads in 25 ms, for all pipes of a box", rate)


play()
