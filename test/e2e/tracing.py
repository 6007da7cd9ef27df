"""System calls of a cove under test, told by strace."""
import os
import re
import shutil
import signal
import subprocess

import cove as c


def need():
    if not shutil.which("strace"):
        c.skip_all("strace is not installed")


class Trace:
    """What some processes, their threads and children call, as lines of (who, moment, call)."""

    def __init__(self, cove, calls, pids, more=()):
        self.path = os.path.join(cove.home, "trace")
        self.args = ["strace", "-f", "-ttt", "-y", "--decode-pids=comm", "-o", self.path, "-e", "trace=" + calls] + list(more)
        for pid in pids:
            self.args += ["-p", str(pid)]
        self.process = subprocess.Popen(self.args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.whole = c.until(lambda: all(self.watches(pid) for pid in pids))

    def watches(self, pid):
        try:
            with open("/proc/%d/status" % pid, errors="replace") as status:
                return "TracerPid:\t%d\n" % self.process.pid in status.read()
        except OSError:
            return True  # it has ended meanwhile, as helpers do

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        return read(self.path)


def read(path):
    lines = []
    with open(path) as file:
        for line in file:
            got = re.match(r"(\d+)(?:<([^>]*)>)? +([\d.]+) (\w+\(.*)", line)
            if got:
                lines.append((int(got[1]), got[2], float(got[3]), got[4]))
    return lines
