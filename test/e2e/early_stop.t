#!/usr/bin/env python3
"""SIGTERM at any moment of a start: cove ends with status 0 and leaves no process, cgroup, mount or loop device. So does
SIGINT. A sandbox of an earlier start lives on when it is handed on, and is ended when it is to be ended."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

DELAYS_MS = range(0, 201, 50 if c.SHORT else 20)


def of_cove(cove):
    """Processes with this data directory in their command line."""
    found = []
    for pid in c._pids():
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                if cove.data.encode() in file.read() and pid != os.getpid():
                    found.append(pid)
        except OSError:
            pass
    return found


def left(cove):
    """What is left of a cove that has ended."""
    if not os.path.isdir(cove.data):
        return {}
    tops = [root for root in c.cgroup_roots() if os.path.isdir(os.path.join(root, "cove", cove.instance()))]
    found = dict(c.remains(cove, 5), tops=len(tops), mounts=c._mounts("self", cove), commands=len(of_cove(cove)))
    return {key: count for key, count in found.items() if count}


def end_early(cove, delay_ms, number):
    """Starts, sends the signal after that time, and returns the exit status and what is left."""
    ready = cove.launch()
    time.sleep(delay_ms / 1000)
    fresh = not os.path.isdir(cove.data)
    cove.process.send_signal(number)
    status = cove.process.wait(60)
    ready.close()
    cove.log.close()
    # Before the first instruction of main() nothing blocks the signal; nothing was made by then either.
    if status == -number and fresh and not os.path.isdir(cove.data):
        status = 0
    return status, left(cove)


c.need_root()

for number in (signal.SIGTERM, signal.SIGINT):
    name = signal.Signals(number).name
    bad = []
    for delay in DELAYS_MS:
        cove = c.Cove(start=False)
        status, rest = end_early(cove, delay, number)
        if status or rest:
            bad.append((delay, status, rest))
        cove.process = None
        cove.close()
    c.same(bad, [], "%s during a first start: status 0, and nothing is left" % name)

cove = c.Cove("--on-term=handoff")
box = cove.create()
cove.stop()
bad = []
for delay in DELAYS_MS:
    status, _ = end_early(cove, delay, signal.SIGTERM)
    # A data directory that is there says nothing of how far the start came.
    if status not in (0, -signal.SIGTERM if delay < 50 else 0):
        bad.append((delay, status))
c.same(bad, [], "SIGTERM during a start with a sandbox that was handed on: status 0")
cove.start()
c.same(cove.out(box, "echo alive"), "alive\n", "the sandbox lives on")

cove.process.kill()
cove.process.wait()
cove.log.close()
status, rest = end_early(cove, 200, signal.SIGINT)
c.same((status, rest), (0, {}), "SIGINT during the next start ends it, with status 0, and nothing is left")
cove.process = None
cove.close()
c.done()
