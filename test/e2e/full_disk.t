#!/usr/bin/env python3
"""Output while the host's disk is full: whoever reads live gets every byte, a later reader is told that it is cut, and it is kept
again as soon as there is room. So it is with the log of an agent run. The data directory is an ext4 image, sparse."""
import atexit
import http.client
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions  # noqa: E402

c.need_root()
MB = 1 << 20
place = tempfile.mkdtemp(prefix="cove-full-")
os.chmod(place, 0o711)
image, mount = os.path.join(place, "image"), os.path.join(place, "fs")


def sh(*argv):
    return subprocess.run(argv, capture_output=True, text=True)


def clean_up():
    sh("umount", mount)
    sh("rm", "-rf", place)


atexit.register(clean_up)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda *_: sys.exit(1))
failure = c.mount_image(image, mount, 3000 * MB)
if failure:
    c.skip_all(failure)
os.chmod(mount, 0o711)
cove = c.Cove("--session-space=16M", data=os.path.join(mount, "data"))
box = cove.create()["id"]
api = "/v1/sandboxes/%s/api/process/" % box
PART = 100000
cove.post(api + "start", {"processId": "p", "command":
          "for n in 1 2 3; do while [ ! -e /tmp/go$n ]; do sleep 0.05; done; yes $n | head -c %d; done" % PART})
live = bytearray()
session = agent_sessions.Session(cove)
run = session.run("print", times=3000, every=0.05)
told = c.Stream(cove, "%s/runs/%s/events" % (session.path, run))


def ticks(events):
    return [int(event["data"].split()[1]) for event in events if event["type"] == "output"]


def ticks_on():
    """Until the run has told something more to its live reader."""
    before = len(ticks(told.got))
    return c.until(lambda: len(ticks(told.got)) >= before + 5)


def later():
    """What is told to somebody who begins to read now, up to what there is now."""
    reader, last = c.Stream(cove, "%s/runs/%s/events" % (session.path, run)), ticks(told.got)[-1]
    c.until(lambda: reader.ended or (ticks(reader.got) and ticks(reader.got)[-1] <= last))
    return list(reader.got)


def follow():
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=120)
    conn.request("GET", api + "p/tape?follow=true", headers={"Authorization": "Bearer " + cove.key})
    answer = conn.getresponse()
    while True:
        got = answer.read1(65536)
        if not got:
            return
        live.extend(got)


def go(n):
    cove.run(box, "touch /tmp/go%d" % n)
    return c.until(lambda: len(live) >= n * PART)


def free():
    fs = os.statvfs(mount)
    return fs.f_bavail * fs.f_frsize


c.ok(ticks_on(), "with room the lines of a run are read live", told.got[-3:])
reader = threading.Thread(target=follow)
reader.start()
c.ok(go(1), "with room the first part is read live", len(live))
with open(os.path.join(mount, "filler"), "wb") as filler:
    while free() > 20 * MB:  # the pool grows meanwhile
        os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, max(free() - 16 * MB, MB))
time.sleep(0.1)  # the disk is looked at now and then
c.ok(go(2), "on a full disk the second part is read live, too", len(live))
logs = cove.get(api + "p/logs").json
c.ok(logs["stdoutTruncated"] and "1" in logs["stdout"] and "2" not in logs["stdout"], "a later reader is told that it is cut",
     logs["stdoutTruncated"], len(logs["stdout"]))
c.ok(ticks_on(), "and so are the lines of a run", told.got[-3:])
os.unlink(os.path.join(mount, "filler"))
time.sleep(0.5)  # a tape without room looks for some now and then
c.ok(go(3), "with room again the third part is read live", len(live))
reader.join(30)
c.ok(ticks_on(), "with room again the lines of a run are read live", told.got[-3:])
whole, part = ticks(told.got), c.until(lambda: (lambda got: got if "truncated" in [e["type"] for e in got] else None)(later()))
c.same(whole, list(range(2999, 2999 - len(whole), -1)), "a live reader of a run has every line of it, once and in order")
c.ok(part, "a later reader is told that the log is truncated", part and part[-3:])
part = part or later()
missing = sorted(set(whole[:-1]) - set(ticks(part)), reverse=True)
c.ok(missing and missing == list(range(missing[0], missing[-1] - 1, -1)), "and lacks lines of the full disk alone", missing)
at = [event["type"] for event in part].index("truncated")
c.same(ticks(part[at:])[0], missing[-1] - 1, "where they would stand")
cove.post(session.path + "/interrupt")
c.same(session.fate(run), "interrupted user_interrupt", "the run ends as it is told")
c.ok(c.until(lambda: told.ended) and told.got[-1]["type"] == "end", "its live reader is told the end", told.got[-1])
c.same(c.Stream(cove, "%s/runs/%s/events" % (session.path, run)).reply.status, 200, "its log can be read")
c.same(bytes(live), b"".join((b"%d\n" % n) * (PART // 2) for n in (1, 2, 3)), "a live reader has every byte, in order")
logs = cove.get(api + "p/logs").json
c.same((logs["stdout"].count("1"), logs["stdout"].count("3")), (PART // 2, PART // 2), "output that had space is kept")
c.ok(logs["stdoutTruncated"] and logs["stdout"].count("2") < PART // 2, "and it is still marked")
process = cove.get(api + "p").json["process"]
c.same((process["status"], process["exitCode"]), ("completed", 0), "the process ended well")
told = [e for e in cove.get("/v1/events?after=0&limit=1000").json["items"] if e["kind"] == "output.not_kept" and e["sandbox"] == box]
c.ok(told and told[0]["fields"]["reason"] == "disk_full", "an event tells of it", told)
c.same(cove.close(), 0, "cove ends well")
c.done()
