#!/usr/bin/env python3
"""The speed of `cove sync` beside `rsync -a` to a daemon on loopback and `git bundle`, in the same run: a first sync, one
without changes, one changed file; and what `cove agent run` adds. BENCH_SYNC=full: 20,000 files of 25 KiB, else of 2 KiB.

	test/bench/sync.py COVE_BINARY"""
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["COVE_BIN"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cove as c  # noqa: E402

FULL = os.environ.get("BENCH_SYNC") == "full"
FILES, SIZE, ROUNDS = 20000, 25 * 1024 if FULL else 2048, 7
FRESH_S = 2  # src/sync/scan.c
broken = []


def promise(name, value, limit, unit):
    kept = value <= limit
    if not kept:
        broken.append(name)
    print("%-28s %10.1f %-5s %s %g" % (name, value, unit, "<=" if kept else "NOT <=", limit), flush=True)


def took(work):
    began = time.monotonic()
    work()
    return (time.monotonic() - began) * 1000


def run(*argv, **kw):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw)
    if done.returncode:
        raise RuntimeError("%r: %d: %s" % (argv, done.returncode, done.stdout[-500:]))


class Rsync:
    """A daemon of it, which has a directory to write to."""

    def __init__(self, home):
        os.mkdir(home + "/there")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        with open(home + "/rsyncd.conf", "w") as file:
            file.write("use chroot = no\nuid = root\ngid = root\n[there]\npath = %s/there\nread only = no\n" % home)
        self.child = subprocess.Popen(["rsync", "--daemon", "--no-detach", "--address=127.0.0.1", "--port=%d" % self.port, "--config=%s/rsyncd.conf" % home],
                                      stdin=subprocess.DEVNULL)
        c.until(self.answers)

    def answers(self):
        with socket.socket() as there:
            return there.connect_ex(("127.0.0.1", self.port)) == 0

    def __call__(self, work):
        return took(lambda: run("rsync", "-a", "--delete", "--exclude=.git", work + "/", "rsync://127.0.0.1:%d/there/" % self.port))

    def close(self):
        self.child.terminate()
        self.child.wait()


def rows(cove, home, rsync):
    work = home + "/work"
    for i in range(FILES):
        if i % 100 == 0:
            os.makedirs("%s/d%03d" % (work, i // 100))
        with open("%s/d%03d/f%d" % (work, i // 100, i), "wb") as file:
            file.write(os.urandom(SIZE // 2) * 2)
    run("git", "init", "-q", work)
    time.sleep(FRESH_S)  # a worktree that was just made is read again, by promise
    cli = c.Cli(cove.data, cwd=work, HOME=home)

    def sync(*words):
        done = cli("sync", "in", *words)
        if done.returncode:
            raise RuntimeError(done.err)

    def change(i):
        with open(work + "/d000/f0", "w") as file:
            file.write("%d" % i)

    def one(way):
        times = []
        for i in range(ROUNDS):
            change(i)
            times.append(way())
            way()
        return statistics.median(times)

    print("sync: %d files of %d bytes, medians of %d" % (FILES, SIZE, ROUNDS))
    ours, theirs = took(sync), rsync(work)
    run("git", "-C", work, "add", "-A")
    run("git", "-C", work, "-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "-m", "b")
    c.note("first: cove %d ms, rsync %d ms, git bundle %d ms" % (ours, theirs, took(lambda: run("git", "-C", work, "bundle", "create", home + "/b", "HEAD"))))
    promise("sync.first.rsync", ours / theirs, 1.5, "x")
    sync()
    ours, theirs = [statistics.median([way() for _ in range(ROUNDS)]) for way in (lambda: took(sync), lambda: rsync(work))]
    promise("sync.none", ours, 150, "ms")
    promise("sync.none.rsync", ours / theirs, 1, "x")
    promise("sync.one", one(lambda: took(sync)), 200, "ms")
    c.note("one changed file: rsync %d ms" % one(lambda: rsync(work)))
    time.sleep(FRESH_S)
    sync()

    def agent():
        done = cli("agent", "run", "--", "true")
        if done.returncode:
            raise RuntimeError(done.err)
    agent()
    both = [took(sync) + took(lambda: cli("sync", "out")) for _ in range(ROUNDS)]
    promise("agent.run.warm", statistics.median([took(agent) for _ in range(ROUNDS)]) - statistics.median(both), 100, "ms")


def main():
    if not shutil.which("rsync"):
        print("# sync: this host has no rsync")
        return 0
    home = tempfile.mkdtemp(prefix="cove-bench-sync-")
    cove, rsync = c.Cove(), None
    try:
        rsync = Rsync(home)
        rows(cove, home, rsync)
    finally:
        if rsync:
            rsync.close()
        cove.close()
        shutil.rmtree(home)
    print("%d promises of sync broken%s" % (len(broken), ": " + " ".join(broken) if broken else ""))
    return 1 if broken else 0


sys.exit(main())
