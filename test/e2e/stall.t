#!/usr/bin/env python3
"""A command can hold the lock of a pipe for as long as it likes, and every call of the daemon on that pipe waits for it,
uninterruptible. Its sandbox is ended for that; its neighbours notice little, and its files stay."""
import os
import re
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

# Moves what lies in its own output to a socket that nobody reads, and sleeps in there, with the pipe's lock.
EVIL = """import os, socket
s, t = socket.socketpair()
s.setblocking(False)
try:
    while True:
        s.send(bytes(4096))
except BlockingIOError:
    s.setblocking(True)
r = os.open('/proc/self/fd/1', os.O_RDONLY)
if os.fork() == 0:
    while True:
        os.write(1, b'x')
os.splice(r, s.fileno(), 8192)
"""

c.need_root()
cove = c.Cove()


def boxes(count):
    return [cove.post("/v1/sandboxes", {"limits": {"memoryMB": 128}}).json["id"] for _ in range(count)]


def quiet(call, *args):
    try:
        call(*args)
    except OSError:
        pass


def held_up(box):
    return any("box_blocks_daemon" in line and box in line for line in cove.log_text().splitlines())


def state_of(box, want):
    """Where a disk may be what takes so long, half a minute passes first."""
    c.until(lambda: cove.get("/v1/sandboxes/" + box).json["state"] == want, 45, 0.1)
    return cove.get("/v1/sandboxes/" + box).json


evil, neighbour = boxes(2)
cove.post("/v1/sandboxes/%s/api/execute" % evil, {"command": "echo kept > /workspace/note"})
path = "/v1/sandboxes/%s/api/execute" % evil
threading.Thread(target=quiet, args=(cove.post, path, {"argv": ["python3", "-c", EVIL], "encoding": "auto"}), daemon=True).start()
slowest = 0
for _ in range(30):
    begun = time.time()
    reply = cove.request("POST", "/v1/sandboxes/%s/api/execute" % neighbour, {"command": "echo here"}, timeout=20)
    slowest = max(slowest, time.time() - begun)
    if reply.status != 200 or held_up(evil):
        break
    time.sleep(0.1)
c.ok(reply.status == 200 and reply.json["stdout"] == "here", "who holds the lock of its own pipe stops nobody else", reply)
c.ok(slowest < 10, "for long (%.1f s)" % slowest)
c.ok(held_up(evil), "it is told as an event of security", cove.log_text()[-2000:])
got = state_of(evil, "failed")
c.same((got["state"], got["reason"]), ("failed", "box_lost"), "its sandbox is ended")
again = c.until(lambda: (lambda r: r if r.status == 200 else None)(cove.post("/v1/sandboxes/%s/start" % evil)), 30, 0.1)
c.ok(again and again.json["state"] == "running", "and starts again when it is asked to", again)
c.same(cove.post("/v1/sandboxes/%s/api/execute" % evil, {"command": "cat /workspace/note"}).json["stdout"], "kept", "with its files")

# Output of processes is moved by workers: as many as there are, and more, are held up.
def gather():
    crowd = boxes(6)
    for box in crowd:
        cove.post("/v1/sandboxes/%s/api/process/start" % box,
                  {"command": "cat > /tmp/e.py <<'END'\n%sEND\nexec python3 /tmp/e.py" % EVIL})
    c.ok(c.until(lambda: held_threads(cove.children()["daemon"]), 30, 0), "the daemon is held up")
    return crowd


def asleep(pid):
    for name in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/stat" % (pid, name)) as file:
                if file.read().rpartition(")")[2].split()[0] == "D":
                    yield name
        except OSError:
            pass


def held_threads(pid):
    """Threads of a process that nothing wakes: a disk would have, meanwhile."""
    first = set(asleep(pid))
    time.sleep(0.3)
    return first & set(asleep(pid))


crowd = gather()
begun = time.time()
reply = cove.request("POST", "/v1/sandboxes/%s/api/write" % neighbour, {"path": "/workspace/a", "content": "a" * 100000}, timeout=100)
reply = cove.request("POST", "/v1/sandboxes/%s/api/read" % neighbour, {"path": "/workspace/a"}, timeout=100)
c.ok(reply.status == 200 and len(reply.json["content"]) == 100000, "nor do those who hold up every worker", reply.status)
c.ok(time.time() - begun < 60, "for long (%.1f s)" % (time.time() - begun))
c.same([state_of(box, "failed")["state"] for box in crowd], ["failed"] * 6, "their sandboxes are ended, too")

# One that does not answer the next daemon (its pid 1 is stopped here, as one that lies would be) keeps nobody waiting.
def kill_daemon():
    pid = cove.children()["daemon"]
    os.kill(pid, signal.SIGKILL)
    c.until(lambda: cove.children().get("daemon", pid) != pid, 30, 0.01)


with open(os.path.join(cove.data, "run", "cells", evil)) as note:
    first = int(re.search(r"^pid (\d+)$", note.read(), re.M).group(1))
os.kill(first, signal.SIGSTOP)
kill_daemon()
begun = time.time()
seen = []
while not seen or (seen[-1].status == 503 and time.time() - begun < 40):
    quiet(lambda: seen.append(cove.request("POST", "/v1/sandboxes", {"limits": {"memoryMB": 64}}, timeout=40)))
    time.sleep(0.05)
took = time.time() - begun
c.ok(seen[-1].status == 201 and took < 9, "a sandbox is made while one does not answer (%.1f s)" % took, seen[-1])
c.same(cove.post("/v1/sandboxes/%s/api/execute" % neighbour, {"command": "echo there"}).json["stdout"], "there", "its neighbours are back")
os.kill(first, signal.SIGCONT)
c.same(cove.post("/v1/sandboxes/%s/api/execute" % evil, {"command": "cat /workspace/note"}).json["stdout"], "kept", "and so is it, once it answers")
crowd.append(seen[-1].json["id"])

# A daemon that is killed meanwhile cannot die: what keeps it is ended all the same, and no other.
crowd += gather()
held = held_threads(cove.children()["daemon"])
begun = time.time()
kill_daemon()
c.ok(c.until(lambda: cove.request("GET", "/v1/sandboxes/" + neighbour, timeout=20).status == 200, 30), "the next daemon comes (%.1f s)" % (time.time() - begun), held)
c.same(cove.post("/v1/sandboxes/%s/api/execute" % neighbour, {"command": "cat /workspace/a | wc -c"}).json["stdout"], "100000",
       "and finds those that hold nobody up as they were")
c.ok("serve.child_held" in cove.log_text(), "it is told that it could not die", cove.log_text()[-2000:])

# Who dies closes what it has, and that takes the lock as well: of a stdin that nobody else can close.
LENT = EVIL[:EVIL.index("r = ")] + """
r, w = os.pipe()
child = os.fork()
if child == 0:
    os.write(w, b'x')
    os.splice(0, s.fileno(), 8192)
    os._exit(0)
os.read(r, 1)
while open('/proc/%%d/stat' %% child).read().split()[2] == 'R':
    pass
while %s:
    pass
"""


def waits_to_send(pid):
    try:
        with open("/proc/%d/wchan" % pid) as file:
            return "sock_alloc_send" in file.read()
    except OSError:
        return False


def lend(crowd, stays):
    box = boxes(1)[0]
    crowd.append(box)
    body = {"argv": ["python3", "-c", LENT % stays], "encoding": "auto", "stdin": "x" * 300000, "timeoutMs": 60000}
    threading.Thread(target=quiet, args=(cove.post, "/v1/sandboxes/%s/api/execute" % box, body), daemon=True).start()
    return box


box = lend(crowd, "False")
c.same(state_of(box, "failed")["state"], "failed", "one that holds its stdin when its command ends is ended")
reply = cove.request("POST", "/v1/sandboxes/%s/api/execute" % neighbour, {"command": "echo here"}, timeout=20)
c.same(reply.json["stdout"], "here", "its neighbours run on")
box = lend(crowd, "__import__('time').sleep(1) is None")
c.ok(c.until(lambda: any(waits_to_send(pid) for pid in c._pids() if c._is_boxed(pid, cove.instance() + "/" + box))), "another holds it while it runs")
kill_daemon()
c.ok(c.until(lambda: cove.request("GET", "/v1/sandboxes/" + neighbour, timeout=20).status == 200, 30), "a daemon that is killed meanwhile dies, and the next one comes")
c.ok(c.until(lambda: cove.get("/v1/sandboxes/" + box).json["state"] in ("failed", "stopped")), "what kept it is ended", cove.log_text()[-2000:])
for box in crowd + [evil, neighbour]:
    cove.request("DELETE", "/v1/sandboxes/" + box)
c.done()
