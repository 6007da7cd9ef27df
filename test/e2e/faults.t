#!/usr/bin/env python3
"""What a host can do to cove: no inodes, a state that nobody can write, no file numbers, a clock that is set by a year. Each is
answered by its reason, nothing is lost, and it goes on by itself. (A full disk and a corrupt store: store.t, admission.t; a lease
that cannot be read: supervise.t.)"""
import http.client
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

c.need_root()
YEAR_MS = 366 * 86400 * 1000


def sh(*argv):
    return subprocess.run(argv, capture_output=True, text=True)


def up(cove):
    try:
        return cove.get("/v1/health").json["status"] == "ok"
    except (OSError, ValueError, http.client.HTTPException):
        return False


def reason(reply):
    return reply.status, reply.json.get("reason")


def away(cove, meanwhile, role="daemon"):
    """One is shot, and while nobody is there to notice, something happens."""
    pid = cove.children()[role]
    os.kill(cove.process.pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    c.until(lambda: open("/proc/%d/stat" % pid, errors="replace").read().split(")")[1].split()[0] == "Z")
    done = c.until(meanwhile)
    os.kill(cove.process.pid, signal.SIGCONT)
    c.until(lambda: cove.children().get(role, pid) != pid)
    c.until(lambda: up(cove))
    return done


class Disk:
    """A small ext4 of our own, taken down again whatever happens."""

    def __init__(self, *options):
        self.home = tempfile.mkdtemp(prefix="cove-test-")
        os.chmod(self.home, 0o711)
        self.where = os.path.join(self.home, "fs")
        os.mkdir(self.where)
        with open(os.path.join(self.home, "image"), "wb") as file:
            file.truncate(1500 << 20)
        made = sh("mkfs.ext4", "-q", "-m", "0", *options, os.path.join(self.home, "image"))
        if made.returncode or sh("mount", "-o", "loop", os.path.join(self.home, "image"), self.where).returncode:
            shutil.rmtree(self.home)
            raise OSError("a loop device cannot be mounted here: " + made.stderr)
        os.chmod(self.where, 0o711)

    def close(self):
        c.until(lambda: sh("umount", self.where).returncode == 0, 30, 0.2)
        shutil.rmtree(self.home, ignore_errors=True)


def inodes():
    """The data directory on a file system that has no inode left."""
    disk = Disk("-N", "12000")
    cove = s.start("--disk=ext4-image", "--class-standard=disk=64M", "--queue-wait=300ms", data=os.path.join(disk.where, "data"))
    try:
        box, doomed = cove.create(name="runs"), cove.create()
        session = s.Session(cove)
        run = session.run("sleep", seconds=3)
        session.await_state("active")
        cove.run(box, "echo kept > /workspace/note; setsid sleep 1000 >/dev/null 2>&1 &")
        full = os.path.join(disk.where, "full")
        os.mkdir(full)
        count = 0
        try:
            while True:
                open(os.path.join(full, str(count)), "w").close()
                count += 1
        except OSError as err:
            c.same(err.errno, 28, "full inodes: the file system has none left")
        reply = cove.post("/v1/sandboxes", {})
        c.ok(reason(reply) == (507, "host_disk") and "position 1 in line" in reply.json["message"], "full inodes: no new sandbox, with reason and place", reply)
        c.ok(cove.post("/v1/agent-sessions", {"user": "other", "runner": {"argv": ["true"]}}).status in (201, 503, 507), "full inodes: a session is answered")
        c.same(cove.out(box, "cat /workspace/note; pgrep -c sleep"), "kept\n1\n", "full inodes: what runs runs on, commands are run")
        reply = cove.post("/v1/sandboxes/runs/api/process/start", {"command": "echo hi"})
        c.ok(reply.status in (200, 500, 503, 507), "full inodes: a process, whose tape is a file, is answered", reply)
        c.same(session.fate(run), "completed", "full inodes: a run under way completes")
        c.same(cove.delete(doomed).status, 204, "full inodes: a delete works")
        c.ok(away(cove, lambda: True), "full inodes: the daemon is shot meanwhile")
        c.same(cove.out(box, "cat /workspace/note; pgrep -c sleep"), "kept\n1\n", "full inodes: the next one takes all of it up")
        c.same(cove.get("/v1/sandboxes/" + doomed["id"]).status, 404, "full inodes: what was deleted stays so")
        shutil.rmtree(full)
        c.ok(c.until(lambda: cove.post("/v1/sandboxes", {}).status == 201), "full inodes: with some again it goes on by itself")
        c.same(session.fate(session.run()), "completed", "full inodes: sessions, too")
        c.same(cove.close(), 0, "cove ends well")
    finally:
        cove.close()
        disk.close()


def read_only():
    """The state is there to be read and no more: for sessions, whose every step is written down."""
    disk = Disk()
    cove = c.Cove("--dev", "--time-scale=60", "--session-space=16M", "--class-standard=disk=64M", data=os.path.join(disk.where, "data"), start=False)
    where = os.path.join(cove.data, "daemon")
    try:
        os.makedirs(where)
        os.chmod(cove.data, 0o711)
        sh("mount", "--bind", where, where)
        cove.start()
        session = s.Session(cove)
        run = session.run("print", times=40, every=0.2)
        session.await_state("active")
        pids = session.roots()
        c.ok(away(cove, lambda: sh("mount", "-o", "remount,bind,ro", where).returncode == 0), "read-only state: while the daemon is away")
        c.same(session.roots(), pids, "read-only state: the runner lives on")
        c.same(cove.get(session.path).status, 200, "read-only state: what is known is told")
        c.same(reason(cove.post(session.path + "/runs", {"input": {}})), (503, "state_unwritable"), "read-only state: a run is refused, with its reason")
        c.same(reason(cove.post("/v1/agent-sessions", {"user": "new", "runner": {"argv": ["true"]}})), (503, "state_unwritable"), "read-only state: so is a session")
        c.same(reason(cove.post("/v1/sandboxes", {})), (503, "state_unwritable"), "read-only state: so is a sandbox")
        c.same(session.roots(), pids, "read-only state: nothing is ended for it")
        sh("mount", "-o", "remount,bind,rw", where)
        c.ok(c.until(lambda: cove.post("/v1/sandboxes", {}).status == 201, 30, 0.1), "read-only state: writable again, it goes on by itself")
        fate = session.fate(run, 40)
        c.same(fate, "completed", "read-only state: the run that was under way completes")
        c.same(len([e for e in session.events(run) if e["type"] == "end"]), 1, "read-only state: and is told once")
        c.same(cove.close(), 0, "cove ends well")
    finally:
        cove.close()
        c.until(lambda: sh("umount", where).returncode == 0, 30, 0.2)
        disk.close()


def as_daemon(cove, what):
    """Does something with the rights of the daemon's user: its limits are its own to change."""
    pid = cove.children()["daemon"]
    status = open("/proc/%d/status" % pid, errors="replace").read()
    uid, gid = (int(line.split()[1]) for line in status.splitlines() if line.startswith(("Uid:", "Gid:")))
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            what(pid)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def host_files():
    """Files of the whole host, of which fs.file-max allows so many: read from a file of ours."""
    home = tempfile.mkdtemp(prefix="cove-test-bin-")
    counts, starter = os.path.join(home, "file-nr"), os.path.join(home, "cove")

    def tell(text):
        with open(counts, "w") as file:
            file.write(text)
    tell("5000\t0\t100000\n")
    with open(starter, "w") as file:
        file.write("#!/bin/sh\nexec unshare -m sh -c 'mount --bind %s /proc/sys/fs/file-nr && exec %s \"$@\"' sh \"$@\"\n" % (counts, c.BIN))
    os.chmod(starter, 0o755)
    cove = c.Cove("--queue-wait=300ms", binary=starter)
    c.same(cove.get("/v1/health").json["host"]["hostFiles"], 5000, "host files: health tells")
    box = cove.create()
    tell("95000\t0\t100000\n")
    reply = c.until(lambda: (lambda r: r if r.status != 201 else None)(cove.post("/v1/sandboxes", {})))
    c.same(reason(reply), (429, "host_files"), "host files: near the end no new sandbox")
    c.same(cove.out(box, "echo ok"), "ok\n", "host files: what is there works on")
    tell("5000\t0\t100000\n")
    c.ok(c.until(lambda: cove.post("/v1/sandboxes", {}).status == 201), "host files: with some again it goes on by itself")
    c.same(cove.stop(), 0, "cove ends well")
    c.same(c.remains(cove), {}, "nothing is left behind")


def file_numbers():
    """The daemon has few file numbers, and clients take them."""
    home = tempfile.mkdtemp(prefix="cove-test-bin-")
    few = os.path.join(home, "cove")
    with open(few, "w") as file:
        file.write("#!/bin/sh\nulimit -n 1200; exec setpriv --bounding-set -sys_resource %s \"$@\"\n" % c.BIN)
    os.chmod(few, 0o755)
    cove = c.Cove("--queue-wait=300ms", binary=few)
    box = cove.create(name="works")
    cove.run(box, "setsid sleep 1000 >/dev/null 2>&1 &")
    taken, boxes, reply = [], [], None
    while len(taken) < 590:  # clients have a bound of their own: half of them
        one = socket.create_connection(("127.0.0.1", cove.port), timeout=5)
        one.sendall(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        one.recv(1)
        taken.append(one)
    while len(boxes) < 60:
        reply = cove.post("/v1/sandboxes", {"limits": {"memoryMB": 32}})
        if reply.status != 201:
            break
        boxes.append(reply.json)
        for _ in range(8):
            cove.post("/v1/sandboxes/%s/api/process/start" % reply.json["id"], {"command": "sleep 1000"})
    c.ok(reason(reply) == (429, "daemon_files") and "position 1 in line" in reply.json["message"],
         "file numbers: no new sandbox, with reason and place", reply, len(taken), len(boxes))
    reply = cove.execute(box, "true")
    c.ok(reply.status == 200 or reason(reply) == (429, "daemon_files"), "file numbers: a command is run or refused, with the reason", reply)
    health = cove.get("/v1/health").json["host"]
    c.ok(0 < health["filesMax"] - health["files"] < 200, "file numbers: health tells", health)
    for one in taken:
        one.close()
    for one in boxes:
        cove.delete(one)
    c.ok(c.until(lambda: cove.post("/v1/sandboxes", {}).status == 201), "file numbers: with some again it goes on by itself")
    c.same(cove.out(box, "pgrep -c sleep"), "1\n", "file numbers: what ran runs on")

    # None at all, which nobody could count ahead
    daemon = cove.children()["daemon"]
    soft = 1200
    used = len(os.listdir("/proc/%d/fd" % daemon))
    c.ok(as_daemon(cove, lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (used // 2, soft))), "file numbers: not one is left")
    failed = 0
    for _ in range(3):
        try:
            failed += cove.get("/v1/health", timeout=1).status >= 500
        except (OSError, http.client.HTTPException):
            failed += 1
    c.same(failed, 3, "file numbers: nobody gets in")
    c.ok(as_daemon(cove, lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, soft))), "file numbers: there are some again")
    c.ok(c.until(lambda: up(cove)), "file numbers: it goes on by itself")
    c.same((cove.children()["daemon"], cove.out(box, "pgrep -c sleep")), (daemon, "1\n"), "file numbers: the same daemon, and nothing is lost")
    c.same(cove.stop(), 0, "cove ends well")
    c.same(c.remains(cove), {}, "nothing is left behind")
    shutil.rmtree(home)


def clock():
    """The wall clock is set by a year, on and back, while cove runs and while it is away; nothing expires or is reaped by that."""
    cove = s.start()
    cove.create(name="brief", ttl="18s")
    born = time.monotonic()
    lasting = cove.create(name="lasting", ttl="1h", sleepAfter="1h")
    cove.post("/v1/sandboxes/lasting/api/process/start", {"command": "echo out", "processId": "done"})
    cove.run(lasting, "setsid sleep 1000 >/dev/null 2>&1 &")
    session, idle = s.Session(cove, user="works"), s.Session(cove, user="rests")
    run = session.run("print", times=100, every=0.2)
    session.await_state("active")
    idle.fate(idle.run())
    cove.request("PUT", "/v1/tenants/t", {})
    key = cove.post("/v1/keys", {"tenant": "t", "scopes": ["read"], "expiresIn": "1h"}).json["key"]
    head = {"Idempotency-Key": "one"}
    made = cove.post("/v1/sandboxes", {"name": "once", "sleepAfter": "1h"}, headers=head).json
    events = len(seen(cove))

    def holds(when):
        cove.post("/v1/cleanup")
        c.same([cove.get("/v1/sandboxes/" + name).status for name in ("lasting", "once")], [200, 200], "clock %s: no ttl is over by it" % when)
        c.same(cove.out("lasting", "pgrep -c sleep"), "1\n", "clock %s: what runs runs on" % when)
        c.same(cove.get("/v1/sandboxes/lasting/api/process/done").status, 200, "clock %s: what has ended is remembered" % when)
        c.same(session.lease()["state"], "active", "clock %s: the lease stands" % when)
        c.same(cove.get(idle.path).status, 200, "clock %s: no session is forgotten" % when)
        c.same(cove.get("/v1/sandboxes", key=key).status, 200, "clock %s: no key expires" % when)
        again = cove.post("/v1/sandboxes", {"name": "once", "sleepAfter": "1h"}, headers=head)
        c.same((again.status, again.json.get("id")), (201, made["id"]), "clock %s: a key of idempotency is known" % when)
        c.ok(len(seen(cove)) >= events, "clock %s: no event is forgotten" % when)

    for word, other in (("on", "back"), ("back", "on")):
        c.same(cove.post("/v1/dev/clock", {"stepMs": YEAR_MS, "back": word == "back"}).status, 204, "clock a year %s: it is set" % word)
        holds("a year %s while it runs" % word)
        s.kill_daemon(cove)  # the next one has the host's time: a step the other way, while it is away
        c.until(lambda: up(cove))
        holds("a year %s while it is away" % other)
    c.ok(cove.log_text().count('"alert":"clock_stepped"') >= 2, "clock: alerts tell of it")
    c.same(session.fate(run, 30), "completed", "clock: the run completes")
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/brief").status == 404, 60, 0.1), "clock: what is to end ends")
    c.ok(17 < time.monotonic() - born, "clock: not before its time", time.monotonic() - born)
    c.same(cove.stop(60), 0, "cove ends well")
    cove.close()


def seen(cove):
    """Events that can be read, from the first on."""
    with socket.create_connection(("127.0.0.1", cove.port), timeout=5) as sock:
        sock.sendall(("GET /v1/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n\r\n" % (cove.port, cove.key)).encode())
        got = b""
        sock.settimeout(0.7)
        try:
            while True:
                more = sock.recv(65536)
                if not more:
                    break
                got += more
        except socket.timeout:
            pass
    return [line for line in got.splitlines() if line.startswith(b"id: ")]


parts = {"inodes": inodes, "read_only": read_only, "file_numbers": file_numbers, "host_files": host_files, "clock": clock}
for part in sys.argv[1:] or parts:
    parts[part]()
c.done()
