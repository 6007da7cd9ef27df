"""The rows of hostility: each a test with a control run, a census and an innocent neighbour.

`@row("K-01", "sentence")` registers a function that is given a Stage. `stage.control(...)` shows the
attack at work without the defence: on the host, but in namespaces of its own and inside a cgroup
with hard limits, so that it harms nobody. Rows that cannot have one say why with
`stage.no_control(reason)`. After each row the census must equal the one before, an innocent box must
answer within a second, and so must the health route.
"""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cove as c  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 5  # latency bounds of the rows, times this: the machine may be busy
_rows = []


def row(name, sentence):
    def keep(function):
        _rows.append((name, sentence, function))
        return function
    return keep


class Fence:
    """A cgroup with hard limits for control runs, on whatever hierarchy there is."""

    def __init__(self, memory=512 << 20, pids=600):
        self.dirs = []
        name = "cove-control-%d" % os.getpid()
        for root in c.cgroup_roots():
            files = {"memory.limit_in_bytes": memory, "memory.max": memory, "pids.max": pids,
                     "memory.swap.max": 0}
            path = os.path.join(root, name)
            try:
                os.mkdir(path)
            except FileExistsError:
                pass
            except OSError:
                continue
            useful = False
            for file, value in files.items():
                target = os.path.join(path, file)
                if os.path.exists(target):
                    with open(target, "w") as handle:
                        handle.write(str(value))
                    useful = True
            if useful:
                self.dirs.append(path)
            else:
                os.rmdir(path)

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
            c.until(gone, 10)


class Stage:
    def __init__(self, cove):
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

    def control_python(self, program, worked, **kw):
        return self.control(["python3", "-I", "-"], worked, stdin=program, **kw)

    def no_control(self, reason):
        self.controlled = True
        c.note("%s has no control run: %s" % (self.name, reason))


def innocent(stage, bystander):
    begin = time.monotonic()
    answer = stage.cove.out(bystander, "echo ok")
    took = time.monotonic() - begin
    c.ok(answer == "ok\n" and took < 1 * PATIENCE,
         stage.name + ": an innocent box runs echo ok", answer, took)
    begin = time.monotonic()
    status = stage.cove.get("/v1/health").status
    took = time.monotonic() - begin
    c.ok(status == 200 and took < 0.1 * PATIENCE, stage.name + ": health answers", status, took)


def play(only=None, **cove_args):
    """Runs every registered row of this file."""
    c.need_root()
    wanted = set(filter(None, os.environ.get("ROWS", "").split(",")))
    with_cove = c.Cove(**cove_args)
    bystander = with_cove.create(name="bystander")
    with_cove.run(bystander, "true")
    full = [0]

    def steady():  # the warden's pools are being filled in its idle time
        now, full[0] = full[0], c.census(with_cove).get("fds of warden", 0)
        return now == full[0]
    c.until(steady, 10, 0.3)
    for name, sentence, function in _rows:
        if wanted and name not in wanted:
            continue
        stage = Stage(with_cove)
        stage.name = name
        before = c.census(with_cove)
        try:
            function(stage)
            c.ok(stage.controlled, "%s: %s" % (name, sentence), "the row has no control run")
        except Exception as failure:  # a row that breaks is a row that fails, and the next one runs
            import traceback
            c.ok(False, "%s: %s" % (name, sentence), traceback.format_exc(), failure)
        for box in stage.boxes:
            with_cove.delete(box)
        left = c.settled(before, with_cove)
        c.ok(not left, name + ": nothing is left behind", left)
        innocent(stage, bystander)
    with_cove.delete(bystander)
    c.same(with_cove.stop(), 0, "cove stops cleanly after all of it")
    c.done()
