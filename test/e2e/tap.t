#!/usr/bin/env python3
"""What runs the tests ends with them: tools/tap ends what a test leaves behind, .ci/run ends what takes too long. Either is a failure
that says what it was. What counts for the tests counts exactly."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="cove-tap-")
# A test that says nothing more than that it is there.
SCRIPT = "#!/bin/sh\necho 1..1\necho ok 1 - it runs\n%s\n"


def write(name, text):
    path = os.path.join(FOLDER, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(text)
    os.chmod(path, 0o755)
    return path


def tap(last, **env):
    """The status, the output, the record and what tools/tally says of it, of a test with that last line."""
    taps = os.path.join(FOLDER, "taps")
    shutil.rmtree(taps, ignore_errors=True)
    test = write("some.t", SCRIPT % last)
    run = subprocess.run([os.path.join(c.ROOT, "tools", "tap"), test], stdout=subprocess.PIPE, text=True, timeout=100,
                         env=dict(os.environ, TAP_DIR=taps, **env))
    (name,) = os.listdir(taps)
    with open(os.path.join(taps, name)) as file:
        record = file.read()
    tally = subprocess.run([os.path.join(c.ROOT, "tools", "tally"), taps], stdout=subprocess.PIPE, text=True, timeout=100)
    return run.returncode, run.stdout, record, tally.stdout


def is_there(pid):
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def left_behind():
    status, said, record, tally = tap("exit 0")
    c.same((status, said), (0, "1..1\nok 1 - it runs\n"), "a test that ends well is shown as it is")
    c.ok(record.startswith(said + "# took ") and record.endswith("\n# exit 0\n"), "and recorded, with its time and status", record)
    pid = os.path.join(FOLDER, "pid")
    status, _, record, tally = tap("setsid sleep 1007 & echo $! > %s" % pid)
    with open(pid) as file:
        pid = int(file.read())
    c.same(status, 1, "a test that leaves a process behind with its stdout has failed")
    c.ok(re.search(r"^# tap: left behind with its stdout: %d sleep 1007" % pid, record, re.M), "its record names the process", record)
    c.ok("sleep 1007" in tally and tally.endswith("\n1 passed, 1 failed\n"), "so does the tally", tally)
    c.ok(not is_there(pid), "and the process is ended")
    status, _, record, _ = tap("sleep 2 & exit 0")
    c.same((status, "left behind" in record), (0, False), "one that ends by itself soon is none")
    status, _, record, _ = tap("setsid sleep 1007 >/dev/null & echo $! > %s/pid" % FOLDER)
    with open(os.path.join(FOLDER, "pid")) as file:
        os.kill(int(file.read()), signal.SIGKILL)
    c.same(status, 0, "nor is one that does not have its stdout")
    status, _, record, tally = tap("exec sleep 1007", TEST_SECONDS="1")
    c.same((status, "# tap: still running after 1 s\n" in record), (124, True), "a test has TEST_SECONDS")
    c.ok("still running after 1 s" in tally, "which the tally says", tally)


# A tree that has nothing but what .ci/run calls. `make all tests weak` is its step gcc, `make lint` comes behind it.
MAKEFILE = """all:
	@%s
tests weak: all
lint:
	@echo 3 passed, 0 failed
"""


def ci(recipe, **env):
    for name in (".ci/run", "tools/tap", "tools/tally"):
        os.makedirs(os.path.dirname(os.path.join(FOLDER, name)), exist_ok=True)
        shutil.copy(os.path.join(c.ROOT, name), os.path.join(FOLDER, name))
    write("tools/bare-root", "#!/bin/sh\n")
    write("Makefile", MAKEFILE % recipe)
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"} | env
    begun = time.monotonic()
    run = subprocess.run([os.path.join(FOLDER, ".ci", "run")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=200,
                         env=dict(env, CI_ONLY="gcc lint"))
    return run.returncode, run.stdout, time.monotonic() - begun


def too_late():
    status, said, _ = ci("true")
    c.same((status, said.splitlines()[-1]), (0, "2 passed, 0 failed"), ".ci/run counts its steps") or c.note(said)
    slow = write("slow.t", SCRIPT % "exec sleep 1008")
    status, said, took = ci("TAP_DIR=build/release/tap setpriv --pdeathsig TERM tools/tap " + slow, CI_SECONDS="3")
    c.same(status, 1, ".ci/run whose time is over fails")
    c.ok(took < 90, "and ends", took)
    c.ok(re.search(r"^# still running: build/ci/gcc, for \d+ s$", said, re.M), "it names the step that was under way", said)
    c.ok(re.search(r"^# still running: build/release/tap/\S*slow\.t, for \d+ s$", said, re.M), "and the test", said)
    c.ok("not ok 1 - lint, which was not run in time\n" in said, "a step that did not come is said", said)
    c.ok(re.search(r"^\d+ passed, [3-9] failed$", said.splitlines()[-1]), "each is counted as failed", said)
    c.ok(c.until(lambda: subprocess.run(["pgrep", "-fx", "sleep 1008"], stdout=subprocess.DEVNULL).returncode), "and nothing of it runs on")


# Opens 20 files that stay open, and a lower number again and again.
BUSY = """import os
os.dup2(0, 40)
low = os.open("/dev/null", os.O_RDONLY)
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
print("ready", flush=True)
while True:
    os.close(low)
    os.dup2(40, low)
"""


def open_files():
    child = subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        child.stdout.readline()
        counts = {c.fds(child.pid) for _ in range(5000)}
    finally:
        child.kill()
        child.communicate()
    c.ok(max(counts) - min(counts) <= 1, "a file that is closed while files are counted hides no other", sorted(counts))


try:
    open_files()
    left_behind()
    too_late()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
c.done()
