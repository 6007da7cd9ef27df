#!/usr/bin/env python3
"""The first minute with the source tree: make says nothing before it has a compiler, TypeScript that cannot be fetched is an error of the
build, and `cove serve` on a terminal writes for people. test/bare/readme.t goes the whole way on a bare Debian."""
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def make():
    sentence = "without a compiler make prints nothing before the dependencies are installed"
    lacking = [] if shutil.which("make") else ["make"]
    lacking += [] if os.path.exists(os.path.join(c.ROOT, "Makefile")) else ["the Makefile of a source tree"]
    if lacking:
        return c.skip(sentence, "not here: " + ", ".join(lacking))
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    got = subprocess.run(["make", "-n", "CC=/nonexistent/gcc", "deps"], cwd=c.ROOT, env=env, capture_output=True, text=True, timeout=60)
    return c.same((got.returncode, got.stderr), (0, ""), sentence)


def typescript(home):
    tool = os.path.join(c.ROOT, "tools", "typescript")
    if not os.path.exists(tool):
        return c.skip("TypeScript that cannot be fetched is an error", "tools/typescript of a source tree is not here")
    with open(os.path.join(home, "npm"), "w") as file:
        file.write("#!/bin/sh\necho 'npm ERR! network' >&2\nexit 1\n")
    os.chmod(os.path.join(home, "npm"), 0o755)
    out = os.path.join(home, "made.js")
    env = dict(os.environ, PATH=home + ":" + os.environ["PATH"])
    got = subprocess.run([tool, out], env=env, capture_output=True, text=True, timeout=60)
    c.ok(got.returncode == 1 and "make TYPESCRIPT=no" in got.stderr and "npm ERR! network" in got.stderr,
         "TypeScript that cannot be fetched is an error, with npm's words and the way around", got)
    c.same(sorted(os.listdir(home)), ["npm"], "and leaves nothing behind that the next make would take for it")
    got = subprocess.run([tool, out], env=dict(env, TYPESCRIPT="no"), capture_output=True, text=True, timeout=60)
    return c.same((got.returncode, got.stdout + got.stderr, os.path.getsize(out)), (0, "", 0), "TYPESCRIPT=no builds without it")


def terminal(home):
    """The log of a cove whose stderr is a terminal."""
    if os.geteuid() != 0:
        return c.skip("on a terminal the log is text", "needs root")
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVE_")}
    pid, tty = pty.fork()
    if pid == 0:
        os.execve(c.BIN, [c.BIN, "serve", "--data", os.path.join(home, "data"), "--listen", "127.0.0.1:0"],
                  dict(env, COVE_PREVIEW_LISTEN="127.0.0.1:0"))
    log, end = "", time.monotonic() + 60
    while "serve.ready" not in log and select.select([tty], [], [], max(0, end - time.monotonic()))[0]:
        try:
            log += os.read(tty, 65536).decode(errors="replace")
        except OSError:
            break
    os.kill(pid, signal.SIGINT)
    while select.select([tty], [], [], 60)[0]:
        try:
            os.read(tty, 65536)
        except OSError:
            break
    c.same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "a cove on a terminal ends by SIGINT")
    components = {line.split()[2] for line in log.splitlines() if len(line.split()) > 3}
    return c.ok("{" not in log and {"serve", "daemon", "warden"} <= components, "on a terminal the log of every process is text", log)


home = tempfile.mkdtemp(prefix="cove-minute-")
os.chmod(home, 0o711)
try:
    make()
    typescript(home)
    terminal(home)
finally:
    shutil.rmtree(home, ignore_errors=True)
c.done()
