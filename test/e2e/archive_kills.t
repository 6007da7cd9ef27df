#!/usr/bin/env python3
"""kill -9 of warden and daemon at each step of an archive and of its way back (I-49, I-54): the disk or the archive is whole, nothing
half-made is left, and `cove verify` is clean."""
import os
import sys
import threading
import time
import signal

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from killpoints import Points  # noqa: E402

WEAK = os.environ.get("COVE_WEAK_BIN", os.path.join(c.ROOT, "build", "weak", "cove"))
DRIVERS = tuple((os.environ.get("ARCHIVE_DRIVERS") or "btrfs ext4-image").split())
CUT = (OSError, ValueError, KeyError, RuntimeError, c.http.client.HTTPException)
PACK = ["warden.order_heard.archive"] + ["warden.archive." + step for step in ("begun", "packed", "described", "named", "dropped")]
UNPACK = ["warden.archive." + step for step in ("disk_made", "unpacked", "removed")]


def surely(ask, good):
    """The first reply that `good` takes; the last when there was none in a minute."""
    end, last = time.monotonic() + 60, None
    while time.monotonic() < end:
        try:
            last = ask()
            if good(last):
                return last
        except CUT as error:
            last = error
        time.sleep(0.02)
    return last


def quietly(ask):
    try:
        return ask()
    except CUT as error:
        return error


def left(cove):
    for dir, dirs, _ in os.walk(cove.data):
        if "layers" in dirs:
            return [name for name in os.listdir(os.path.join(dir, "layers")) if name.startswith((".archive-", ".pack-", ".snap-"))]
    return None


def step(cove, at, verb):
    return surely(lambda: cove.post(at + "/" + verb), lambda reply: reply.status == 200)


def whole(cove, at, why):
    got = surely(lambda: cove.get("/v1/verify"), lambda reply: reply.status == 200 and reply.json["ok"])
    c.ok(getattr(got, "status", 0) == 200 and got.json["ok"], why + ": verify is clean", got)
    got = surely(lambda: cove.run({"id": at.split("/")[-1]}, "sha256sum -c sum; cat f"), lambda answer: "stdout" in answer)
    c.same(got["stdout"], "big: OK\ncontent\n", why + ": the files are whole")
    c.ok(c.until(lambda: left(cove) == [], 60), why + ": nothing is left", left(cove))
    c.same(cove.get(at).json["state"], "running", why + ": it runs")


def strike(cove, points, at, ask, place, why):
    points.arm(place)
    quietly(ask)
    fired = c.until(lambda: points.fired() > 0)
    points.disarm()
    c.ok(fired, why + ": the point is met")
    whole(cove, at, why)


def late(cove, role, delay):
    def kill():
        time.sleep(delay)
        pid = cove.children().get(role)
        if pid:
            os.kill(pid, signal.SIGKILL)
    thread = threading.Thread(target=kill)
    thread.start()
    return thread


c.need_root()
if not os.access(WEAK, os.X_OK):
    c.skip_all("there is no weak build")
for driver in DRIVERS:
    home = c.tempfile.mkdtemp(prefix="cove-points-")
    points = Points(os.path.join(home, "points"))
    cove = c.Cove("--disk", driver, binary=WEAK, env={"COVE_KILL_POINTS": os.path.join(home, "points")}, start=False)
    try:
        cove.start()
    except Exception as err:  # noqa: BLE001
        c.skip(driver, "this host cannot: %s" % err)
        continue
    box = cove.create()
    at = "/v1/sandboxes/" + box["id"]
    cove.run(box, "echo content >f; head -c 20000000 /dev/urandom >big; sha256sum big >sum; sync")
    for place in PACK:
        step(cove, at, "stop")
        strike(cove, points, at, lambda: cove.post(at + "/archive"), place, "%s, archive, %s" % (driver, place))
    for place in UNPACK:
        step(cove, at, "stop")
        step(cove, at, "archive")
        strike(cove, points, at, lambda: cove.post(at + "/start"), place, "%s, start, %s" % (driver, place))
    step(cove, at, "stop")
    step(cove, at, "archive")
    points.arm("warden.archive.disk_made")
    quietly(lambda: cove.post(at + "/snapshot", {"name": "snap"}))
    points.disarm()
    c.same(surely(lambda: cove.get(at), lambda reply: reply.status == 200).json["state"], "archived",
           driver + ": a kill in a snapshot leaves it archived")
    whole(cove, at, driver + ", snapshot")
    for role in ("daemon", "warden"):
        for number in range(int(os.environ.get("ARCHIVE_ROUNDS") or 2)):
            why = "%s, kill -9 of the %s, %d" % (driver, role, number)
            step(cove, at, "stop")
            thread = late(cove, role, 0.02 * number * number)
            quietly(lambda: cove.post(at + "/archive"))
            thread.join()
            whole(cove, at, why)
            step(cove, at, "stop")
            step(cove, at, "archive")
            thread = late(cove, role, 0.02 * number * number)
            quietly(lambda: cove.post(at + "/start"))
            thread.join()
            whole(cove, at, why + ", start")
    step(cove, at, "stop")
    step(cove, at, "archive")
    points.arm("warden.order_heard.destroy")
    quietly(lambda: cove.delete(box))
    points.disarm()
    c.ok(surely(lambda: cove.request("DELETE", at), lambda reply: reply.status in (204, 404)), driver + ": it is deleted")
    c.ok(c.until(lambda: left(cove) == [], 60), driver + ": and nothing is left", left(cove))
    cove.close()
    c.shutil.rmtree(home)
c.done()
