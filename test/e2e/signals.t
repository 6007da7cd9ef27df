#!/usr/bin/env python3
"""What the tests leave when they are cut short: nothing. A story and a unit test are run as `make test` runs them, and ended by
Ctrl-C on their terminal, by SIGTERM and by SIGKILL of what started them. And `make test` says first how much space it needs."""
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
UNIT = os.path.join(os.path.dirname(os.path.realpath(c.BIN)), "" if os.path.basename(os.path.dirname(os.path.realpath(c.BIN))) != "build"
                    else "release", "test", "unit", "warden", "disk_test")
PROVE = ["setpriv", "--pdeathsig", "TERM", "prove", "--exec", "setpriv --pdeathsig TERM tools/tap", "-f"]


def processes(session):
    """Pids of a session, zombies left out."""
    found = []
    for pid in c._pids():
        try:
            with open("/proc/%d/stat" % pid, errors="replace") as file:
                state, _, _, sid = file.read().rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue
        if int(sid) == session and state != "Z":
            found.append(pid)
    return found


def traces(place, instance):
    """Whatever is left of a run whose files were in `place`."""
    left = {"files": os.listdir(place), "loops": c._loops(place, stock=True), "mounts": c._mounts("self", None) and
            [line for line in open("/proc/self/mountinfo") if place in line], "cgroups": c._groups(instance) if instance else []}
    return {name: what for name, what in left.items() if what}


def cut(test, how, started):
    """Runs a test until `started` finds something in its directory, then ends it."""
    place, taps = tempfile.mkdtemp(prefix="cove-cut-"), tempfile.mkdtemp(prefix="cove-cut-")
    os.chmod(place, 0o711)
    env = dict(os.environ, TMPDIR=place, TAP_DIR=taps)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(c.ROOT)
        os.execvpe(PROVE[0], PROVE + [test], env)
    try:
        found = c.until(lambda: started(place), 60, 0.05)
        c.ok(found, "%s, %s: it runs" % (os.path.basename(test), how))
        instance = found if isinstance(found, str) else ""
        if how == "Ctrl-C":
            os.write(terminal, b"\x03")
        else:
            os.kill(pid, how)
        os.waitpid(pid, 0)
        name = "%s, %s" % (os.path.basename(test), getattr(how, "name", how))
        c.ok(c.until(lambda: not processes(pid), 60, 0.1), name + ": no process is left", processes(pid))
        c.until(lambda: not traces(place, instance), 30, 0.1)
        c.same(traces(place, instance), {}, name + ": nothing else is left")
    finally:
        os.close(terminal)
        for each in processes(pid):
            os.kill(each, signal.SIGKILL)
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(taps, ignore_errors=True)


def has_cove(place):
    """The instance of a cove that serves."""
    for name in os.listdir(place):
        data = os.path.join(place, name, "data")
        if os.path.exists(os.path.join(data, "operator.key")) and os.path.exists(os.path.join(data, "url")):
            return c.Cove(data=data, start=False).instance()
    return None


def has_pool(place):
    return any(os.path.exists(os.path.join(place, name, "btrfs", "pool.img")) for name in os.listdir(place))


for how in ("Ctrl-C", signal.SIGTERM, signal.SIGKILL):
    cut("test/e2e/life.t", how, has_cove)
if os.path.exists(UNIT):
    for how in ("Ctrl-C", signal.SIGTERM, signal.SIGKILL):
        cut(UNIT, how, has_pool)

said = subprocess.run([os.path.join(c.ROOT, "tools", "space"), "3"], capture_output=True, text=True)
c.ok("tests need 12 GB of disk space in" in said.stdout, "the space that tests need is said", said)
said = subprocess.run([os.path.join(c.ROOT, "tools", "space"), "1000000"], capture_output=True, text=True)
c.ok(said.returncode == 1 and "too little" in said.stderr, "and where there is less, that is an error", said)
c.done()
