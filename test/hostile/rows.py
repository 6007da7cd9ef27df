"""The rows of hostility: each a test with a control run, an inventory and an innocent second box.

`@row("K-01", "sentence")` registers a function that is given a Stage. It first shows the attack at
work without the defence, so that it cannot be refused by accident:

- `stage.control_weak("masks", attack, worked)`: the same attack in a box of a second cove, made of the
  weak build (`make weak`, COVE_WEAK_BIN) with that defence off. Where several stand one behind another
  they are all named, and `stage.depth(...)` shows that with one of them back it fails again. That cove
  lives in a cgroup with hard limits, and its boxes in another.
- `stage.control(...)`: the attack on the host, in namespaces of its own and in such a cgroup; for what a
  weak box could do to the machine itself.
- `stage.twin(...)`: for a refusal of malformed input, which has no switch: the same without its sting
  is accepted.
- `stage.no_control(reason)`: there is none, and why.

After each row the census must equal the one before, an innocent box must answer within a second,
and so must the health route. In an emulated machine, where that takes longer than many a row, after all of them.
"""
import contextlib
import ctypes
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cove as c  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 20 if os.environ.get("COVE_VM") else 5  # latency bounds of the rows, times this: the machine may be busy, or emulated
EACH = not os.environ.get("COVE_VM")
WEAK = os.environ.get("COVE_WEAK_BIN", os.path.join(c.ROOT, "build", "weak", "cove"))
# What a cove decides when it starts, or keeps ready; all others are switched while it runs.
AT_START = {"users_socket", "program", "lock_readonly", "userns", "owner", "ceilings", "pidns", "devices", "private_dir", "etc", "jail", "lock", "inventory", "head_time",
            "daemon_calls", "sync_pace", "hugetlb", "secret_dumps"}
LO_UP = ("import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, "
         "struct.pack('16sH22x', b'lo', 0x41))")  # SIOCSIFFLAGS, UP | RUNNING
_rows = []


def row(name, sentence):
    def keep(function):
        _rows.append((name, sentence, function))
        return function
    return keep


class Fence:
    """A cgroup with hard limits for control runs, on whatever hierarchy there is."""
    count = 0

    def __init__(self, memory=512 << 20, pids=600):
        self.dirs = []
        Fence.count += 1
        name = "cove-control-%d-%d" % (os.getpid(), Fence.count)
        for root in c.cgroup_roots():
            path = os.path.join(root, name)
            try:
                os.mkdir(path)
            except FileExistsError:
                pass
            except OSError:
                continue
            if Fence.limit(path, memory, pids):
                self.dirs.append(path)
            else:
                os.rmdir(path)

    @staticmethod
    def limit(path, memory, pids):
        """Limits a group as far as its hierarchy can; whether it can."""
        useful = False
        for file, value in {"memory.limit_in_bytes": memory, "memory.max": memory, "pids.max": pids,
                            "memory.swap.max": 0}.items():
            target = os.path.join(path, file)
            if os.path.exists(target):
                with open(target, "w") as handle:
                    handle.write(str(value))
                useful = True
        return useful

    def enter(self):
        for path in self.dirs:
            with open(os.path.join(path, "cgroup.procs"), "w") as handle:
                handle.write("0")

    def close(self):
        for path in self.dirs:
            def gone(path=path):
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    return True
                except OSError:
                    return False
                return True
            c.until(gone)


def adopt(orphans):
    """Whether processes whose parents end become our children (PR_SET_CHILD_SUBREAPER)."""
    ctypes.CDLL(None).prctl(36, int(orphans), 0, 0, 0)


@functools.cache
def defences():
    """The words of the weak build, in the order of its switches, and what each means."""
    said = subprocess.run([WEAK, "serve"], env=dict(os.environ, COVE_WEAKEN="?"), capture_output=True, text=True, timeout=60)
    return dict(re.findall(r"^  (\w+) +(.*)$", said.stderr, re.M))


class WeakCove(c.Cove):
    """A cove of the weak build in a fence, without the defences `off`, which belong to AT_START;
    `switch` changes the others. Its boxes are fenced as well.

    `apart`: in a network namespace of its own, with nothing but loopback. `before`: a line for the
    shell that starts it, in a mount namespace of its own.
    """

    def __init__(self, off, data, apart=False, before="", binary=WEAK):
        self.apart, self.off = apart, off
        self.fence = Fence()
        self.switches = data + "-switches"
        self.words = list(defences()) if binary == WEAK else []
        self.switch([])
        starter = data + "-start"
        with open(starter, "w") as file:
            file.write("#!/bin/sh -e\n" + "".join("echo 0 > %s/cgroup.procs\n" % d for d in self.fence.dirs))
            if apart:
                file.write("python3 -c \"%s\"\n" % LO_UP)
            file.write(before + "\nexec %s \"$@\"\n" % binary)
        os.chmod(starter, 0o755)
        if "pidns" in off:
            adopt(True)
        self.ways = (["-n"] if apart else []) + (["-m"] if before else [])
        super().__init__(data=data, env={"COVE_WEAKEN": ",".join([*off, "@" + self.switches])}, binary=self._wrapped(starter))
        for root in c.cgroup_roots():  # a fence around all its boxes, too
            Fence.limit(os.path.join(root, "cove", self.instance()), 1 << 30, 800)

    def switch(self, off):
        """All defences but these work from now on."""
        with open(self.switches, "r+b" if os.path.exists(self.switches) else "wb", 0) as file:
            file.write(b"".join(b"1" if word in off else b"0" for word in self.words))

    def _wrapped(self, starter):
        if not self.ways:
            return starter
        with open(starter + "-apart", "w") as file:
            file.write("#!/bin/sh\nexec unshare %s %s \"$@\"\n" % (" ".join(self.ways), starter))
        os.chmod(starter + "-apart", 0o755)
        return starter + "-apart"

    @contextlib.contextmanager
    def inside(self):
        """The calling thread's new sockets are in the cove's network."""
        libc = ctypes.CDLL(None, use_errno=True)
        if not self.apart:
            yield
            return
        own, other = os.open("/proc/thread-self/ns/net", os.O_RDONLY), os.open("/proc/%d/ns/net" % self.process.pid, os.O_RDONLY)
        try:
            if libc.setns(other, 0x40000000):
                raise OSError(ctypes.get_errno(), "setns")
            yield
        finally:
            libc.setns(own, 0x40000000)
            os.close(own)
            os.close(other)

    def request(self, *args, **kw):
        with self.inside():
            return super().request(*args, **kw)

    def close(self):
        status = super().close()
        self.fence.close()
        c.until(self.reap)
        if "pidns" in self.off:
            adopt(False)
        return status

    def reap(self):
        """Without a pid namespace the processes of a box outlive it and become ours: reaps them. True: nothing is left."""
        left = [pid for pid in c._pids() if c._is_boxed(pid, self.instance())]
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return not left


class Weakness:
    """The weak coves of one test file. What needs no start of its own is switched; the fresh ones,
    which are there to be spoilt, live until another is wanted."""

    def __init__(self):
        self.coves = {}
        self.home, self.count = None, 0
        self.left = []

    def get(self, off, fresh=False, **how):
        words = set(filter(None, off.split(",")))
        start = tuple(sorted(words & AT_START))
        key = (start, fresh, tuple(sorted(how.items())))
        for other in [k for k in self.coves if k[1] and k != key]:
            self.drop(other)
        if not self.home:
            self.home = tempfile.mkdtemp(prefix="cove-weak-")
            os.chmod(self.home, 0o711)
        if key not in self.coves:
            self.count += 1
            data = os.path.join(self.home, "%d" % self.count)
            self.coves[key] = WeakCove(start, data, **how)
        self.coves[key].switch(words - AT_START)
        return self.coves[key]

    def drop(self, key):
        cove = self.coves.pop(key)
        cove.switch([])
        cove.close()
        left = c.remains(cove)
        if left:
            self.left.append((cove.off, left, cove.log_text()[-2000:]))
        if key[1]:
            shutil.rmtree(cove.data, ignore_errors=True)

    def close(self):
        for key in list(self.coves):
            self.drop(key)
        if self.home:
            shutil.rmtree(self.home, ignore_errors=True)
        return self.left


_weakness = Weakness()


class Stage:
    def __init__(self, cove, name=None):
        self.name = name
        self.cove = cove
        self.boxes = []
        self.controlled = False

    def box(self, **spec):
        made = self.cove.create(**spec)
        self.boxes.append(made)
        return made

    def python(self, box, program, **fields):
        """Runs a Python program in the box; its answer."""
        return self.cove.run(box, ["python3", "-I", "-"], stdin=program, **fields)

    def put(self, box, host_file, path):
        """A file of the host into the box, executable."""
        import base64
        with open(host_file, "rb") as handle:
            data = base64.b64encode(handle.read()).decode()
        answer = self.cove.run(box, "base64 -d > %s && chmod 755 %s" % (path, path), stdin=data)
        if answer["exitCode"]:
            raise RuntimeError(answer)

    def control(self, argv, worked, stdin=None, seconds=30, memory=512 << 20, pids=600,
                namespaces=("-m", "-p", "-n", "-i", "-u", "--fork", "--mount-proc", "--kill-child")):
        """The attack on the bare host, fenced. `worked(result)` says whether it succeeded."""
        fence = Fence(memory, pids)
        try:
            result = subprocess.run(
                ["unshare"] + list(namespaces) + list(argv), input=stdin, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds,
                preexec_fn=fence.enter, errors="replace")
        except subprocess.TimeoutExpired as late:
            result = subprocess.CompletedProcess(argv, -1, late.stdout or "", late.stderr or "")
        finally:
            fence.close()
        self.controlled = True
        return c.ok(worked(result), self.name + " control: without the wall the attack works",
                    result)

    @contextlib.contextmanager
    def weakened(self, off, **how):
        """A stage whose cove lacks the defences `off`; its boxes go when it ends. fresh, apart, before:
        see Weakness and WeakCove."""
        stage = Stage(_weakness.get(off, **how), self.name)
        try:
            yield stage
        finally:
            for box in stage.boxes:
                stage.cove.delete(box)

    def control_weak(self, off, attack, worked, **how):
        """The attack in a box without the defences `off`. `attack(stage)` is what the row does to its
        own stage, `worked(result)` says whether it succeeded."""
        if self.can_weaken(off):
            with self.weakened(off, **how) as weak:
                result = attack(weak)
            self.worked(off, worked(result), result)

    def can_weaken(self, off):
        self.controlled = True
        if not os.path.exists(WEAK):
            c.skip("%s control: without %s" % (self.name, off), "there is no %s: make weak" % WEAK)
        return os.path.exists(WEAK)

    def worked(self, off, condition, *notes):
        c.ok(condition, "%s control: without %s the attack works" % (self.name, off.replace(",", ", ")), *notes)

    def depth(self, off, attack, failed, **how):
        """A second wall: without `off` alone the attack still fails. Not where time is short."""
        if os.path.exists(WEAK) and not c.SHORT:
            with self.weakened(off, **how) as weak:
                result = attack(weak)
            c.ok(failed(result), "%s depth: without %s alone it still fails" % (self.name, off.replace(",", ", ")),
                 result)

    def twin(self, accepted, sentence, *notes):
        """What is refused here is accepted without its sting."""
        self.controlled = True
        return c.ok(accepted, "%s control: %s" % (self.name, sentence), *notes)

    def control_python(self, program, worked, **kw):
        return self.control(["python3", "-I", "-"], worked, stdin=program, **kw)

    def no_control(self, reason):
        self.controlled = True
        c.note("%s has no control run: %s" % (self.name, reason))


def innocent(stage, bystander):
    begin = time.monotonic()
    answer = stage.cove.out(bystander, "echo ok")
    took = time.monotonic() - begin
    c.ok(answer == "ok\n" and took < 6 * PATIENCE,
         stage.name + ": an innocent box runs echo ok", answer, took)
    begin = time.monotonic()
    status = stage.cove.get("/v1/health").status
    took = time.monotonic() - begin
    c.ok(status == 200 and took < 4 * PATIENCE, stage.name + ": health answers", status, took)


def aftermath(stage, before, bystander):
    left = c.settled(before, stage.cove)
    c.ok(not left, stage.name + ": nothing is left behind", left)
    innocent(stage, bystander)


def play(warm=None, **cove_args):
    """Runs every registered row of this file. `warm`: what is done to the cove before anything is counted."""
    c.need_root()
    wanted = set(filter(None, os.environ.get("ROWS", "").split(",")))
    with_cove = c.Cove(**cove_args)
    bystander = with_cove.create(name="bystander")
    with_cove.run(bystander, "true")
    if warm:
        warm(with_cove)
    held = []

    def steady():  # the warden fills its pools in its idle time, of which a busy host leaves it little
        held.append(c.census(with_cove).get("fds of warden", 0))
        return len(held) > 4 and len(set(held[-5:])) == 1
    c.until(steady, 30, 0.3)
    first = c.calm(with_cove)
    for name, sentence, function in _rows:
        if wanted and name not in wanted:
            continue
        stage = Stage(with_cove, name)
        before = c.calm(with_cove) if EACH else first
        try:
            function(stage)
            c.ok(stage.controlled, "%s: %s" % (name, sentence), "the row has no control run")
        except Exception as failure:  # a row that breaks is a row that fails, and the next one runs
            import traceback
            c.ok(False, "%s: %s" % (name, sentence), traceback.format_exc(), failure)
        for box in stage.boxes:
            with_cove.delete(box)
        if EACH:
            aftermath(stage, before, bystander)
    if not EACH:
        aftermath(Stage(with_cove, "all rows"), first, bystander)
    with_cove.delete(bystander)
    c.same(with_cove.stop(), 0, "cove stops cleanly after all of it")
    c.same(_weakness.close(), [], "the weak coves left nothing behind")
    c.done()
