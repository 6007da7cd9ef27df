#!/usr/bin/env python3
"""SIGTERM at any moment of a start: cove ends with status 0 and leaves no process, cgroup, mount or loop device. So does
SIGINT. A sandbox of an earlier start lives on when it is handed on, and is ended when it is to be ended. A helper process of
the warden that is killed during a start costs another start of the warden, never cove."""
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

SOAK = os.environ.get("COVE_SOAK") == "1"
DELAYS_MS = range(0, 201, 20 if SOAK else 50)
HELPER_ROUNDS = 20 if SOAK else 6
HELPER_KILLS = 3


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


def said(cove, event):
    """The last line of that event in the log."""
    lines = [line for line in cove.log_text().splitlines() if '"event":"%s"' % event in line]
    return json.loads(lines[-1]) if lines else None


def helpers(warden, wanted):
    """Children of the warden, by their name; all of them without one."""
    try:
        with open("/proc/%d/task/%d/children" % (warden, warden)) as file:
            pids = [int(word) for word in file.read().split()]
        return [pid for pid in pids if not wanted or open("/proc/%d/comm" % pid, errors="replace").read().strip() == wanted]
    except OSError:
        return []


def kill_helpers(cove, wanted, delay_ms):
    """Kills the first helpers that are found, HELPER_KILLS of them, one at a time. Returns how many were killed before cove
    served or ended."""
    ready, killed, seen, end = cove.launch(), 0, set(), time.monotonic() + 60
    while killed < HELPER_KILLS and time.monotonic() < end and cove.process.poll() is None and not said(cove, "serve.ready"):
        for pid in helpers(cove.children().get("warden", 0), wanted):
            if pid in seen:
                continue
            seen.add(pid)
            time.sleep(delay_ms / 1000)
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
                break
            except ProcessLookupError:
                pass
    ready.close()
    return killed


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
driver = said(cove, "warden.ready")["disk"]
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

for wanted in ("cove-zygote", None):
    bad, killed = [], 0
    for turn in range(HELPER_ROUNDS):
        cove = c.Cove(start=False)
        killed += kill_helpers(cove, wanted, turn * 2)
        c.until(lambda: cove.process.poll() is not None or said(cove, "serve.ready"), 60)
        ready, status = said(cove, "warden.ready"), cove.process.poll()
        if status is not None or not said(cove, "serve.ready") or ready["disk"] != driver:
            bad.append((turn, status, ready, said(cove, "start.failed")))
        cove.close()
    c.same(bad, [], "%s killed during a first start: cove serves" % (wanted or "any child of the warden"))
    c.ok(killed >= HELPER_ROUNDS, "there were helpers to kill", killed)
c.done()
