#!/usr/bin/env python3
"""Taking up what there is: every pair of record and cell that a crash can leave, and many at once."""
import json
import os
import signal
import sqlite3
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

MANY = 10 if c.SHORT else 500 if os.environ.get("COVE_SOAK") else 60
SOON_MS = 20000 if c.SHORT else 1000 if os.environ.get("COVE_SOAK") else 3000


def up(cove):
    try:
        return cove.get("/v1/health").json["status"] == "ok"
    except (OSError, ValueError, c.http.client.HTTPException):
        return False


def away(cove, meanwhile, *roles):
    """Those roles are shot, and while nobody is there to notice, something happens."""
    roles = roles or ("daemon",)
    pids = cove.children()
    os.kill(cove.process.pid, signal.SIGSTOP)
    for role in roles:
        os.kill(pids[role], signal.SIGKILL)
    meanwhile()
    os.kill(cove.process.pid, signal.SIGCONT)
    c.until(lambda: all(cove.children().get(r, pids[r]) != pids[r] for r in roles))
    return c.until(lambda: up(cove), 30)


def first_process(box):
    """The host's number of a sandbox's pid 1."""
    return min(pid for pid in c._pids() if c._comm(pid) == "cove-init"
               and box["id"] in open("/proc/%d/cgroup" % pid).read())


def show(cove, name):
    got = cove.get("/v1/sandboxes/" + name).json
    return got.get("state"), got.get("reason")


def pairs(cove):
    names = ("paused", "dead", "plain")
    boxes = {name: cove.create(name=name) for name in names}
    for name in names:
        cove.run(name, "echo %s > /workspace/note; setsid sleep 1000 >/dev/null 2>&1 &" % name)
    cove.post("/v1/sandboxes/paused/pause")
    c.same(show(cove, "paused")[0], "paused", "one sandbox is paused")
    victim = first_process(boxes["dead"])

    c.ok(away(cove, lambda: os.kill(victim, signal.SIGKILL)), "the daemon is shot, and a pid 1 while it is away")
    c.same(show(cove, "plain"), ("running", None), "running and alive: adopted")
    c.same(cove.out("plain", "pgrep -c sleep"), "1\n", "with what runs in it")
    c.same(show(cove, "paused"), ("paused", None), "paused and frozen: as it was")
    c.same(cove.execute("paused", "true").json["reason"], "paused", "requests are refused until it is resumed")
    c.same(cove.post("/v1/sandboxes/paused/resume").json["state"], "running", "the sandbox is resumed")
    c.same(cove.out("paused", "pgrep -c sleep; cat /workspace/note"), "1\npaused\n", "and goes on where it was")
    c.until(lambda: show(cove, "dead")[0] == "stopped")  # the warden may hear of the end after it was asked
    c.same(show(cove, "dead"), ("stopped", "box_lost"), "running and dead: stopped, with its files")
    c.same(cove.out("dead", "cat /workspace/note; pgrep -c sleep; true"), "dead\n0\n", "a request starts it again")

    c.ok(away(cove, lambda: None, "daemon", "warden"), "daemon and warden are shot together")
    c.same([show(cove, name)[0] for name in names], ["running"] * 3, "all are adopted")
    c.same(cove.out("plain", "pgrep -c sleep"), "1\n", "with what runs in them")
    cove.post("/v1/sandboxes/plain/stop")
    c.same(show(cove, "plain")[0], "stopped", "one sandbox is stopped")
    c.ok(away(cove, lambda: None), "the daemon is shot again")
    c.same(show(cove, "plain")[0], "stopped", "stopped and kept: stopped")
    c.same(cove.out("plain", "cat /workspace/note"), "plain\n", "and starts with its files")


def plant(cove, words, another_boot=False):
    with sqlite3.connect(os.path.join(cove.data, "daemon", "cove.db")) as db:
        for at, word in enumerate(words):
            db.execute("INSERT INTO boxes SELECT 'box-%048d', %d, tenant, 'no-%s', '%s', body FROM boxes"
                       " WHERE name = 'plain'" % (at, 1000 + at, word, word))
        if another_boot:
            db.execute("UPDATE kv SET value = '{\"boot\":\"another\",\"base\":1}' WHERE name = 'clock/steady'")
    db.close()


def fresh(cove, name):
    """A sandbox whose files are lost is started on a fresh disk by whoever asks for that, and by nobody else."""
    reply = cove.execute(name, "true")
    c.same((reply.status, reply.json["reason"]), (410, "files_lost"), "a request does not start it on an empty disk")
    c.ok("power" in reply.json["message"] and "start" in reply.json["hint"], "but says why, and how it is started", reply)
    reply = cove.post("/v1/sandboxes/%s/start" % name)
    c.same((reply.status, reply.json.get("state"), reply.json.get("reason")), (200, "running", None), "start gives it a fresh disk")
    c.same(cove.out(name, "ls /workspace; echo new > /workspace/note; cat /workspace/note"), "new\n", "which is empty, and its own")
    cove.post("/v1/sandboxes/%s/stop" % name)
    c.same(cove.out(name, "cat /workspace/note"), "new\n", "and stays with it")


def planted(cove):
    """Records whose boxes are not there."""
    words = ("running", "stopped", "frozen", "failed")
    c.same(cove.stop(), 0, "everything stops")
    plant(cove, words + ("creating",))
    cove.start()
    lost = ("failed", "files_lost")
    c.same(show(cove, "no-running"), lost, "running and not there: failed, and said")
    c.same(show(cove, "no-frozen"), lost, "frozen and not there: failed, and said")
    c.same(show(cove, "no-stopped"), lost, "stopped, but its files are gone: failed, and said")
    c.same(show(cove, "no-failed")[0], "failed", "failed stays failed")
    c.same(cove.get("/v1/sandboxes/no-creating").status, 404, "creating and not there, in the same boot: it was promised to nobody")
    fresh(cove, "no-running")
    c.same([cove.request("DELETE", "/v1/sandboxes/no-" + word).status for word in words], [204] * 4, "they can be deleted")
    c.same(cove.stop(), 0, "everything stops")
    plant(cove, ("creating",), another_boot=True)
    cove.start()
    c.same(show(cove, "no-creating"), lost, "creating and not there, after a boot: somebody may have been told of it, so it is failed")
    c.same(cove.delete("no-creating").status, 204, "the sandbox can be deleted")
    after = cove.create()
    c.same(cove.get("/v1/sandboxes").json["items"][-1]["id"], after["id"], "numbers go on behind the highest that was given")
    cove.delete(after)


def many(cove):
    boxes = []

    def client(count):
        for _ in range(count):
            boxes.append(cove.create(limits={"memoryMB": 64}))
    threads = [threading.Thread(target=client, args=(MANY // 5,)) for _ in range(5)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    said = len(cove.log_text())
    c.ok(away(cove, lambda: None), "the daemon is shot with %d sandboxes" % len(boxes))
    lines = [json.loads(line) for line in cove.log_text()[said:].splitlines() if '"manager.settled"' in line]
    c.note("%s boxes in %s ms" % (lines[-1]["boxes"], lines[-1]["ms"]))
    c.ok(int(lines[-1]["ms"]) < SOON_MS, "they are taken up soon", lines)
    states = {cove.get("/v1/sandboxes/" + box["id"]).json["state"] for box in boxes}
    c.same(states, {"running"}, "every one of them runs")
    c.same(cove.out(boxes[-1], "echo hi"), "hi\n", "and works")
    for item in cove.get("/v1/sandboxes?limit=1000").json["items"]:
        cove.delete(item)


c.need_root()
house = c.Cove()
pairs(house)
planted(house)
many(house)
c.same(house.stop(), 0, "the end is clean")
c.same(c.remains(house), {}, "nothing is left behind")
house.close()
c.done()
