#!/usr/bin/env python3
"""kill -9 of warden and daemon in every phase of a snapshot, of a create from one, of a fork and of a removal: the sandbox runs
on, the snapshot is there whole or not at all, nothing half-made is left, and `cove verify` is clean."""
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from killpoints import Points  # noqa: E402

WEAK = os.environ.get("COVE_WEAK_BIN", os.path.join(c.ROOT, "build", "weak", "cove"))
DRIVERS = tuple((os.environ.get("SNAPSHOT_DRIVERS") or "btrfs ext4-image directory").split())
CUT = (OSError, ValueError, KeyError, RuntimeError, c.http.client.HTTPException)
MAKES = ["warden.order_heard.snapshot"] + ["warden.snapshot." + phase for phase in
                                           ("described", "frozen", "copied", "complete", "named")]


def at(box):
    return "/v1/sandboxes/" + box["id"]


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


def layers(cove):
    for place in (os.path.join(cove.data, "warden", "layers"), os.path.join(cove.data, "layers")):
        if os.path.isdir(place):
            return place
    return None


def leftovers(cove):
    return [name for name in os.listdir(layers(cove)) if name.startswith((".snap-", ".fork-", ".new-"))]


def whole(cove, box, why):
    """The sandbox runs, all is clean, and a snapshot can be made, used and removed."""
    alive = surely(lambda: cove.run(box, "cat f"), lambda answer: answer["stdout"] == "content\n")
    c.ok(isinstance(alive, dict) and alive["exitCode"] == 0, why + ": the sandbox runs", alive)
    c.ok(c.until(lambda: leftovers(cove) == [], 60), why + ": nothing half-made is left", leftovers(cove))
    got = surely(lambda: cove.get("/v1/verify"), lambda reply: reply.status == 200 and reply.json["ok"])
    c.ok(getattr(got, "status", 0) == 200 and got.json["ok"], why + ": verify is clean", got)


def uses(cove, name, why):
    child = surely(lambda: cove.post("/v1/sandboxes", {"snapshot": name}), lambda reply: reply.status == 201)
    got = surely(lambda: cove.run(child.json, "cat f"), lambda answer: answer["exitCode"] == 0)
    c.same(got["stdout"], "content\n", why + ": what is there is whole")
    surely(lambda: cove.delete(child.json), lambda reply: reply.status in (204, 404))


def removes(cove, name):
    surely(lambda: cove.request("DELETE", "/v1/templates/" + name), lambda reply: reply.status in (204, 404))


def strikes(cove, points, box, ask, places, word):
    for place in places:
        surely(lambda: cove.get("/v1/health"), lambda reply: reply.status == 200 and reply.json["status"] == "ok")
        points.arm(place)
        reply = quietly(ask)
        fired = c.until(lambda: points.fired() > 0)
        points.disarm()
        why = "%s, %s" % (word, place)
        if not fired:
            c.ok(False, why + ": the point is met", reply)
            continue
        whole(cove, box, why)
        listed = surely(lambda: cove.get("/v1/templates"), lambda reply: reply.status == 200).json["items"]
        if any(one["name"] == "snap" for one in listed):
            uses(cove, "snap", why)
        removes(cove, "snap")


def others(cove, box):
    """Sandboxes that a cut fork has made, or none."""
    return [one for one in surely(lambda: cove.get("/v1/sandboxes?limit=1000"), lambda reply: reply.status == 200).json["items"]
            if one["id"] != box["id"]]


def late(cove, role, delay):
    def kill():
        time.sleep(delay)
        pid = cove.children().get(role)
        if pid:
            os.kill(pid, signal.SIGKILL)
    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def rebuilds(cove, points, driver):
    """A template that is built again under a kill is the old one or the new one."""
    def build(number):
        return cove.post("/v1/builds", {"name": "again", "from": {"template": "host"}, "steps": [{"run": "echo %d >/number" % number}]})

    def number():
        one = surely(lambda: cove.post("/v1/sandboxes", {"template": "again"}), lambda reply: reply.status == 201).json
        got = surely(lambda: cove.run(one, "cat /number"), lambda answer: "stdout" in answer)["stdout"].strip()
        surely(lambda: cove.delete(one), lambda reply: reply.status in (204, 404))
        return got
    now = 1
    c.same(build(now).status, 201, driver + ": a template is built")
    for point in ["daemon.build.snapshot"] + MAKES:
        points.arm(point)
        quietly(lambda: build(now + 1))
        fired = points.fired()
        points.disarm()
        got = surely(number, lambda text: text)
        c.ok(fired and got in (str(now), str(now + 1)), "%s, a build under a kill at %s: the template is the old or the new one" % (driver, point), fired, got, now)
        again = surely(lambda: build(now + 2), lambda reply: reply.status == 201)
        now += 2
        c.same((getattr(again, "status", again), number()), (201, str(now)), driver + ": and is built again")
        c.ok(surely(lambda: leftovers(cove), lambda names: not names) == [], driver + ": the replaced one is removed", leftovers(cove))
    removes(cove, "again")


def snapshot(cove, box):
    return cove.post(at(box) + "/snapshot", {"name": "snap"})


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
    cove.run(box, "echo content >f; head -c 20000000 /dev/urandom >big")
    strikes(cove, points, box, lambda: snapshot(cove, box), MAKES, driver + ", snapshot")
    strikes(cove, points, box, lambda: cove.post(at(box) + "/fork", {"count": 2}), MAKES, driver + ", fork")
    for one in others(cove, box):
        surely(lambda: cove.delete(one), lambda reply: reply.status in (204, 404))
    surely(lambda: snapshot(cove, box), lambda reply: reply.status in (201, 409))
    strikes(cove, points, box, lambda: cove.request("DELETE", "/v1/templates/snap"), ["warden.snapshot.aside"], driver + ", removal")
    rebuilds(cove, points, driver)
    for role in ("daemon", "warden"):
        for step in range(2 if c.SHORT else 4):
            thread = late(cove, role, 0.005 * step * step)
            quietly(lambda: snapshot(cove, box))
            thread.join()
            whole(cove, box, "%s, kill -9 of the %s in a snapshot" % (driver, role))
            removes(cove, "snap")
            surely(lambda: snapshot(cove, box), lambda reply: reply.status in (201, 409))
            thread = late(cove, role, 0.005 * step * step)
            quietly(lambda: cove.post("/v1/sandboxes", {"snapshot": "snap"}))
            thread.join()
            whole(cove, box, "%s, kill -9 of the %s in a create" % (driver, role))
            removes(cove, "snap")
            for one in others(cove, box):
                c.ok(surely(lambda: cove.run(one, "cat f"), lambda answer: answer["stdout"] == "content\n")["exitCode"] == 0,
                     driver + ": a sandbox that was made is whole")
                surely(lambda: cove.delete(one), lambda reply: reply.status in (204, 404))
    surely(lambda: cove.delete(box), lambda reply: reply.status in (204, 404))
    cove.close()
    c.shutil.rmtree(home)
c.done()
