#!/usr/bin/env python3
"""The power is cut (docs/SPECIFICATION.md, "After a power cut"): the disk keeps what was flushed to it, or that and a part of
the rest, every process ends, and the host boots again. The data directory lies on a device of cutdisk.py.

COVE_POWER_CUTS says how many cuts (3, with COVE_SOAK 100), COVE_POWER_SEED repeats a sequence; every fourth cut, and the first, comes
within the first second of the first start of a new data directory."""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import cutdisk  # noqa: E402
from live import CUT, api, patiently  # noqa: E402

SOAK = os.environ.get("COVE_SOAK") == "1"
CUTS = int(os.environ.get("COVE_POWER_CUTS", "100" if SOAK else "3"))
SEED = int(os.environ.get("COVE_POWER_SEED", random.SystemRandom().randrange(1 << 32)))
DRIVERS = os.environ.get("COVE_POWER_DRIVERS", "").split() or [None, "ext4-image", "directory"]
SIZE = 60 << 30
AGE = 5.0  # what is older than this survives
BOXES = 40

c.need_root()
if not os.path.exists("/dev/fuse") or "\tfuse\n" not in open("/proc/filesystems").read():
    c.skip_all("/dev/fuse is not there, or the kernel has no FUSE")
c.need_mounts()
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda *_: sys.exit(1))  # and what was made is undone


class Host:
    """A host that can lose its power: a disk, and for each boot an id and an empty run directory."""

    def __init__(self, driver):
        self.home = tempfile.mkdtemp(prefix="cove-test-")
        os.chmod(self.home, 0o711)
        self.disk = cutdisk.CutDisk(self.home, SIZE)
        self.run, self.boot_id = os.path.join(self.home, "run"), os.path.join(self.home, "boot_id")
        args = ["--run", self.run, "--session-space=16M"] + (["--disk", driver] if driver else [])
        self.cove = c.Cove(*args, data=os.path.join(self.disk.where, "data"), start=False)
        self.cove.log_path = os.path.join(self.home, "log")
        self.booted = False

    def boot(self):
        """Everything but cove itself."""
        self.disk.on()
        with open(self.boot_id, "w") as file:
            file.write("%s\n" % uuid.uuid4())
        os.mkdir(self.run)
        subprocess.run(["mount", "-t", "tmpfs", "run", self.run], check=True)
        subprocess.run(["mount", "--bind", self.boot_id, "/proc/sys/kernel/random/boot_id"], check=True)
        self.booted = True

    def cut(self, seed, keep):
        """The moment of the cut, and how many blocks had not been flushed."""
        moment = time.monotonic()
        return moment, self.disk.cut(seed, keep)

    def shut(self):
        """What is left of the boot goes. False: somebody holds on."""
        if self.cove.process:
            s.power_off(self.cove)
            self.cove.process = None
        if not self.booted:
            return True
        cutdisk.umount("/proc/sys/kernel/random/boot_id")
        if not c.until(lambda: cutdisk.umount(self.run), 30, 0.05):  # processes that were killed a moment ago may still be ending
            return False
        os.rmdir(self.run)
        self.booted = False
        return self.disk.off()

    def holders(self):
        """Processes that see the disk, and loop devices that lie on it."""
        found = []
        for pid in c._pids():
            try:
                with open("/proc/%d/mountinfo" % pid) as mounts, open("/proc/%d/status" % pid, errors="replace") as status:
                    if pid != os.getpid() and self.disk.where in mounts.read():
                        found.append(" ".join(line.strip() for line in status if line.startswith(("Name", "State", "Pid", "PPid"))))
            except OSError:
                pass
        return "\n".join(found + subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout.splitlines())

    def close(self):
        status = self.cove.stop(number=signal.SIGINT) if self.cove.process else 0
        self.shut()
        self.disk.close()
        if c._failed:
            c.note("log of cove:\n" + self.cove.log_text()[-6000:])
        shutil.rmtree(self.home, ignore_errors=True)
        return status


class Load:
    """Clients at work, and what they were told: by kind, [(moment, what)]."""

    def __init__(self, cove, seed):
        self.cove, self.stopping, self.faults = cove, False, []
        self.told = {kind: [] for kind in ("box", "deleted", "synced", "plain", "process", "cell", "key", "session", "run")}
        self.kinds = random.Random(seed).choice((("plain",), ("synced", "plain")))  # a sync of one writes out much of the others
        self.random, self.tenant = random.Random(seed), "t%d" % random.Random(seed).randrange(1 << 30)
        self.cove.request("PUT", "/v1/tenants/" + self.tenant, {})
        self.threads = [threading.Thread(target=self.work, args=(step,), daemon=True)
                        for step in (self.make, self.make, self.write, self.process, self.cells, self.agent)]
        for thread in self.threads:
            thread.start()

    def tell(self, kind, what):
        self.told[kind].append((time.monotonic(), what))

    def work(self, step):
        while not self.stopping:
            try:
                step()
            except CUT + (ValueError, KeyError, RuntimeError) as fault:
                if not self.stopping:
                    self.faults.append(repr(fault))
                return

    def pause(self, seconds):
        time.sleep(seconds * self.random.uniform(0.5, 1.5))

    def boxes(self):
        return [what for _, what in list(self.told["box"])]

    def make(self):
        if len(self.told["box"]) >= BOXES:
            return self.pause(0.1)
        box = self.cove.create()["id"]
        self.tell("box", box)
        if self.random.random() < 0.15:
            self.told["box"] = [item for item in self.told["box"] if item[1] != box]
            if self.cove.delete(box).status == 204:
                self.tell("deleted", box)
        self.pause(0.5)

    def write(self):
        boxes = self.boxes()
        if not boxes:
            return self.pause(0.05)
        box, name = self.random.choice(boxes), "f%d" % self.random.randrange(1 << 30)
        kind = self.random.choice(self.kinds)
        sync = " && sync %s" % name if kind == "synced" else ""
        if self.cove.run(box, "mkdir -p d && cd d && seq -s ' ' %s 2000 >%s%s" % (name[1:3], name, sync))["exitCode"] == 0:
            self.tell(kind, (box, name))
        self.pause(0.1)

    def process(self):
        if not self.boxes():
            return self.pause(0.05)
        box = {"id": self.boxes()[0]}
        reply = self.cove.post(api(box, "process/start"), {"command": "seq 1 3000"})
        if reply.status == 200:
            self.tell("process", (box["id"], reply.json["processId"]))
        self.pause(0.5)

    def cells(self):
        if not self.boxes():
            return self.pause(0.05)
        box = {"id": self.boxes()[0]}
        if not getattr(self, "context", None):
            self.context = self.cove.post(api(box, "contexts"), {"language": "python"}).json["contextId"]
        reply = self.cove.post(api(box, "execute/code"), {"code": "print('x' * 100)", "context_id": self.context})
        if reply.status == 200 and reply.headers["X-Cell"]:
            self.tell("cell", (box["id"], self.context, int(reply.headers["X-Cell"])))
        self.pause(0.6)  # the last 32 are kept

    def agent(self):
        name = "a%d" % self.random.randrange(1 << 30)
        reply = self.cove.post("/v1/keys", {"tenant": self.tenant, "scopes": ["read"]})
        if reply.status == 201:
            self.tell("key", reply.json["key"])
        reply = self.cove.post("/v1/agent-sessions", {"user": "u", "session": name, "runner": {"argv": ["/bin/true"]}})
        if reply.status == 201:
            self.tell("session", reply.json["id"])
        if self.random.random() < 0.2:
            run = self.cove.post("/v1/agent-sessions/%s/runs" % name, {"input": {"do": "ok"}})
            if run.status == 202:
                self.tell("run", (name, run.json["id"]))
        self.pause(0.3)

    def end(self):
        self.stopping = True
        for thread in self.threads:
            thread.join(60)


class Audit:
    """What was told before the moment of the cut, against what is there afterwards."""

    def __init__(self, host, load, moment):
        self.cove, self.load, self.moment, self.wrong, self.counts = host.cove, load, moment, [], {}

    def told(self, kind, age=0.0):
        return [(self.moment - when, what) for when, what in self.load.told[kind] if when <= self.moment - age]

    def check(self, good, kind, *words):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if not good:
            self.wrong.append((kind,) + words)
        return good

    def ask(self, path, **kw):
        return patiently(lambda: self.cove.get(path, **kw))

    def boxes(self):
        """Those that have their files, by id."""
        whole, synced = [], {box for _, (box, _) in self.told("synced")}
        for age, box in self.told("box"):
            reply = self.ask("/v1/sandboxes/" + box)
            if not self.check(reply.status == 200, "sandbox", age, box, reply):
                continue
            state = (reply.json["state"], reply.json.get("reason"))
            # One whose disk was being made may be found out only when it is started.
            if state[0] == "stopped" and patiently(lambda: self.cove.execute(box, "true")).status == 410:
                state = tuple(self.ask("/v1/sandboxes/" + box).json.get(name) for name in ("state", "reason"))
            if state == ("failed", "files_lost"):
                self.check(age < AGE and box not in synced, "sandbox with its files", age, box, state)
                self.lost(box)
            else:
                self.check(state[0] in ("stopped", "running"), "state", age, box, state)
                whole.append(box)
        for age, box in self.told("deleted"):
            reply = self.ask("/v1/sandboxes/" + box)
            self.check(reply.status == 404, "deletion", age, box, reply)
        return whole

    def lost(self, box):
        reply = patiently(lambda: self.cove.execute(box, "true"))
        self.check(reply.status == 410 and reply.json["reason"] == "files_lost" and "power" in reply.json["message"], "410", box, reply)
        reply = patiently(lambda: self.cove.post("/v1/sandboxes/%s/start" % box))
        self.check(reply.status == 200 and reply.json["state"] == "running", "start of a lost one", box, reply)
        self.check(self.cove.run(box, "ls /workspace && touch new")["stdout"] == "", "a fresh disk", box)

    def files(self, whole):
        due = [item for item in self.told("synced") + self.told("plain", AGE) if item[1][0] in whole]
        for age, (box, name) in due:
            reply = patiently(lambda: self.cove.execute(box, "cmp d/%s <(seq -s ' ' %s 2000)" % (name, name[1:3])))
            self.check(reply.status == 200 and reply.json["exitCode"] == 0, "file", age, box, name, reply)

    def records(self, whole):
        for age, (box, process) in self.told("process", AGE):
            if box in whole:
                reply = self.ask("/v1/sandboxes/%s/api/process/%s/logs" % (box, process))
                want = "".join("%d\n" % i for i in range(1, 3001))
                self.check(reply.status == 200 and reply.json.get("stdout") == want, "process", age, box, process, reply)
        for age, (box, context, cell) in self.told("cell", AGE):
            if box in whole:
                reply = self.ask("/v1/sandboxes/%s/api/contexts/%s/cells/%d" % (box, context, cell))
                self.check(reply.status == 200 and b"x" * 100 in reply.body, "cell", age, box, context, cell, reply)

    def state(self):
        for age, key in self.told("key"):
            self.check(self.ask("/v1/sandboxes", key=key).status == 200, "key", age)
        for age, session in self.told("session"):
            self.check(self.ask("/v1/agent-sessions/" + session).status == 200, "agent session", age, session)
        for age, (session, run) in self.told("run"):
            self.check(self.ask("/v1/agent-sessions/%s/runs/%s" % (session, run)).status == 200, "run", age, session, run)

    def run(self):
        whole = self.boxes()
        self.files(whole)
        self.records(whole)
        self.state()
        done = subprocess.run([c.BIN, "verify", "--data", self.cove.data], capture_output=True, text=True, timeout=60)
        self.check(done.returncode == 0, "verify", done.stdout + done.stderr)
        return self.wrong[:5]


def torn(data):
    """cove's own files that hold nothing, or not all of what they should."""
    found = []
    for folder in ("", "daemon"):
        for name in os.listdir(os.path.join(data, folder)):
            path = os.path.join(data, folder, name)
            if os.path.isfile(path) and (not os.path.getsize(path) or name.endswith("~")):
                found.append(path)
    return found


def clear(cove):
    """Room for the next round."""
    for box in cove.get("/v1/sandboxes?limit=1000").json["items"]:
        cove.delete(box["id"])


def first(host, rng, keep):
    """Within the first second of the first start; returns what had been told."""
    host.boot()
    started = threading.Thread(target=start_quietly, args=(host.cove,))
    delay, wanted = rng.uniform(0, 1), rng.randrange(3)
    begin = time.monotonic()
    started.start()
    boxes = []
    while time.monotonic() - begin < delay or len(boxes) < wanted and time.monotonic() - begin < 15:
        time.sleep(0.005)
        if not started.is_alive() and host.cove.process:
            boxes.append((time.monotonic(), host.cove.create()["id"]))
    c.until(lambda: os.path.isdir(host.cove.data), 30, 0.005)  # before that there is nothing to cut, nor a name to find it by
    moment, lost = host.cut(rng.randrange(1 << 30), keep)
    s.power_off(host.cove)
    started.join()
    host.cove.process = None
    return delay, moment, lost, [box for when, box in boxes if when <= moment]


def start_quietly(cove):
    try:
        cove.start()
    except RuntimeError:
        pass  # the power went


def start_again(host, name):
    host.boot()
    try:
        host.cove.start()
    except RuntimeError as fault:
        c.ok(False, name + "cove starts without help", fault)
        return False
    return c.ok(True, name + "cove starts without help")


def one_first(number, rng):
    """A cut right after a first start."""
    name, keep = "cut %d, right after the first start: " % number, rng.choice((0, 0, 0.5))
    host = Host(rng.choice(DRIVERS))
    try:
        delay, _, lost, boxes = first(host, rng, keep)
        c.note("cut %d: %.3f s after the start, %d blocks not flushed, %d sandboxes" % (number, delay, lost, len(boxes)))
        c.ok(host.shut(), name + "the device is gone", host.holders())
        if not start_again(host, name):
            return
        c.same(torn(host.cove.data), [], name + "no file is torn")
        got = [patiently(lambda: host.cove.get("/v1/sandboxes/" + box)).json for box in boxes]
        c.ok(all(box.get("state") == "stopped" or (box.get("state"), box.get("reason")) == ("failed", "files_lost") for box in got),
             name + "its sandboxes are there, or say that their files are lost", got)
        box = host.cove.create()
        c.same(host.cove.out(box, "echo well"), "well\n", name + "and it works")
    finally:
        c.same(host.close(), 0, name + "cove ends well")


def one(host, number, rng):
    """A cut under load."""
    name, keep = "cut %d: " % number, rng.choice((0, 0, 0.5))
    load = Load(host.cove, rng.random())
    length = rng.uniform(AGE + 2, AGE + 7)
    time.sleep(length)
    load.stopping = True
    moment, lost = host.cut(rng.randrange(1 << 30), keep)
    faults = list(load.faults)
    c.ok(s.power_off(host.cove), name + "every process ends")
    host.cove.process = None
    load.end()
    c.same(faults, [], name + "nothing failed before")
    c.ok(host.shut(), name + "the device is gone", host.holders())
    if not start_again(host, name):
        return False
    c.same(torn(host.cove.data), [], name + "no file is torn")
    audit = Audit(host, load, moment)
    c.same(audit.run(), [], name + "what was told is there")
    c.note("cut %d: after %.3f s, %d blocks not flushed; checked %s" % (number, length, lost, audit.counts))
    clear(host.cove)
    return True


def mended():
    """Files that an older cove left torn at a power cut."""
    cove = c.Cove()
    old = cove.key
    path = os.path.join(cove.data, "operator.key")
    for text in (b"", b"\0" * 70):
        c.same(cove.stop(), 0, "cove stops")
        with open(path, "wb") as file:
            file.write(text)
        for name in ("box.key", "preview.key", "egress.key"):
            with open(os.path.join(cove.data, "daemon", name), "wb") as file:
                file.write(text[:32])
        cove.start()
        c.ok(cove.key != old and len(cove.key) == 69 and cove.get("/v1/sandboxes").status == 200, "an empty operator.key is made anew", cove.key)
        c.same(os.stat(path).st_mode & 0o777, 0o600, "for its owner alone")
        told = [line for line in cove.log_text().splitlines() if '"key.made_anew"' in line]
        c.same([name for name in ("operator.key", "box.key", "preview.key", "egress.key") if not any(name in line for line in told)], [],
               "and the log says so, of the daemon's keys, too")
        old = cove.key
    cove.stop()
    with open(path, "w") as file:
        file.write("short")
    try:
        cove.start()
        c.ok(False, "a key that somebody wrote, too short, is refused")
    except RuntimeError as fault:
        c.ok("operator.key holds no key" in str(fault) and "remove the file" in str(fault), "a key that somebody wrote, too short, is refused with a hint", fault)
        cove.process = None
    c.same(open(path).read(), "short", "and is not written over")
    cove.close()


def main():
    rng = random.Random(SEED)
    c.note("COVE_POWER_SEED=%d" % SEED)
    host = None
    try:
        for number in range(CUTS):
            if number % 4 == 0:
                # One at a time: the processes of another host would see, and hold, the mounts of this one.
                if host:
                    c.same(host.close(), 0, "cove ends well")
                host = None
                one_first(number, rng)
                continue
            if not host:
                host = Host(DRIVERS[number // 4 % len(DRIVERS)])
                host.boot()
                host.cove.start()
            if not one(host, number, rng):
                host.close()
                host = None
    finally:
        if host:
            c.same(host.close(), 0, "cove ends well")


mended()
main()
c.done()
