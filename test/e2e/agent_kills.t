#!/usr/bin/env python3
"""kill -9 of the command line, the daemon or the warden at random points of a run with its two syncs: the next command completes.
Few rounds here, 200 with COVE_SOAK=1."""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("git")
HOME = tempfile.mkdtemp(prefix="cove-kills-")
ROUNDS = 200 if os.environ.get("COVE_SOAK") else 4 if c.SHORT else 9
VICTIMS = ("cli", "daemon", "warden")


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def run(cli, script):
    """A run that completes, or names a conflict with what the killed one's agent did: then that is taken first."""
    got = cli("agent", "run", "--", "sh", "-c", script)
    if got.returncode == 2 and "[sandbox:conflict] round" in got.err:
        out = cli("sync", "out", "--theirs")
        if out.returncode:
            return out
        got = cli("agent", "run", "--", "sh", "-c", script)
    return got


def main():
    rng = random.Random(2126)
    cove = c.Cove()
    killed, longest = dict.fromkeys(VICTIMS, 0), 0.3
    try:
        work = os.path.join(HOME, "work")
        os.makedirs(work)
        for i in range(30):
            put("%s/f%d" % (work, i), "base\n" * 200)
        cli = c.Cli(cove.data, cwd=work, HOME=HOME)
        begin = time.monotonic()
        c.ok(run(cli, "true").returncode == 0 and run(cli, "true").returncode == 0, "control: two runs that nobody kills")
        longest = (time.monotonic() - begin) / 2
        for i in range(ROUNDS):
            victim = VICTIMS[i % len(VICTIMS)]
            put(work + "/host", "%d\n" % i)
            pid = None if victim == "cli" else cove.children()[victim]
            child = cli.popen("agent", "run", "--", "sh", "-c", "echo %d > round; echo %d > f%d" % (i, i, i % 30))
            try:
                child.wait(rng.random() * longest)
            except subprocess.TimeoutExpired:
                killed[victim] += 1
            if victim == "cli":
                child.kill()
            else:
                os.kill(pid, signal.SIGKILL)
            err = child.communicate(timeout=120)[1]
            if pid:
                c.until(lambda: cove.children().get(victim, pid) != pid, 60)
            put(work + "/host", "%d again\n" % i)
            got = run(cli, "cat host; echo next %d > round" % i)
            if got.returncode or got.text != "%d again\n" % i or read(work, "round") != "next %d\n" % i:
                c.ok(False, "the next command completes after a kill of the %s (round %d)" % (victim, i), got, err[-600:])
                break
        else:
            c.ok(True, "R2 R17 the next command completes after each of %d kills" % ROUNDS)
        c.note("killed before the end of their run: %s" % killed)
        c.same(len(cove.get("/v1/sandboxes").json["items"]), 1, "R2 R4 and there is one sandbox")
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
