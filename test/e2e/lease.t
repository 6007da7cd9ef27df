#!/usr/bin/env python3
"""Durable runner leases, from none to none and through every crash."""
import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

cove = s.start()

# --------------------------------------------------------------------------- rows 1 to 16
one = s.Session(cove)
run = one.run(echo="hello")
c.same(one.fate(run), "completed", "rows 1, 4, 8, 9: a run completes")
result = one.look(run)["result"]["output"]
lease = one.lease()
c.same((lease["state"], lease["generation"], lease["instance_id"]), ("warm", 1, result["instance"]),
       "the lease, the runner's own word and its environment agree")
pid = one.roots()
c.ok(len(pid) == 1, "one runner lives in the sandbox's cgroup", pid)
leaf = "/x-%d" % lease["cgroup"]
c.ok(leaf in open("/proc/%d/cgroup" % pid[0]).read(), "in the leased cgroup", lease)
steps = [e.get("step") for e in one.events(run) if e["type"] == "step"]
c.same(steps, ["sandbox_provision", "disk_check", "workspace_setup", "runner_start"],
       "the steps of a cold start, in order")
again = one.run()
c.same(one.fate(again), "completed", "row 13: a second run within keep-warm")
c.same(one.look(again)["result"]["output"]["pid"], result["pid"], "row 13: the same process")
steps = [e.get("step") for e in one.events(again) if e["type"] == "step"]
c.same(steps, ["sandbox_provision", "disk_check", "workspace_setup", "runner_start"],
       "the same steps on a warm start")
os.kill(one.roots()[0], signal.SIGKILL)
c.until(lambda: not one.roots())
third = one.run()
c.same(one.fate(third), "completed", "row 14: the runner was killed while warm, the client sees no error")
c.same(one.look(third)["generation"], 2, "row 14: with the next generation")
c.ok(one.await_state("none"), "row 16: keep-warm is over, the lease is none")
c.same(one.pids(), [], "row 16: and nothing lives")
rows = [int(r["row"]) for r in s.lease_log(cove, one.id)]
c.ok(rows[:4] == [1, 4, 8, 9] and rows[-3:] == [16, 18, 20], "the log tells the rows", rows)

# ------------------------------------------------------------------------------- row 15
two = s.Session(cove, user="stray")
c.same(two.fate(two.run()), "completed", "a runner for a stray to join")
box = two.made["sandbox_id"]
threading.Thread(target=lambda: cove.execute(box, ["sleep", "600"], env={"COVE_SESSION": two.id}),
                 daemon=True).start()
c.until(lambda: len(two.roots()) == 2)
c.same(len(two.roots()), 2, "row 15: a second process has the session's mark")
c.same(two.fate(two.run()), "completed", "row 15: the run is held, then it runs")
c.same((two.lease()["generation"], len(two.roots())), (2, 1), "row 15: a new generation, alone")

# --------------------------------------------------------------------------
three = s.Session(cove, user="ladder")
s.fault(cove, "stop", count=5, session=three.id)
c.same(three.fate(three.run("fail")), "failed test_failed", "row 10: a run fails, its runner is to go")
c.ok(three.await_state("quarantined", seconds=30), "rows 18 to 23: five attempts, then quarantined", three.lease())
starts = [s.moment(r) for r in s.lease_log(cove, three.id) if r["row"] == "18"]
gaps = [b - a for a, b in zip(starts, starts[1:])]
want = [5 / s.SCALE, 30 / s.SCALE, 120 / s.SCALE, 300 / s.SCALE]
# An attempt is never early; how late it is the load of the host decides.
c.ok(len(gaps) == 4 and all(0.9 * w < g < w + 10 for g, w in zip(gaps, want)),
     "the gaps between attempts are 5, 30, 120, 300 s (scaled)", gaps, want)
c.same(cove.log_text().count('"alert":"lease_quarantined"'), 1, "row 23: one alert")
c.same(three.fate(three.run()), "failed cleanup_exhausted", "a run is refused after one look")
c.same(len([r for r in s.lease_log(cove, three.id) if r["row"] == "18"]), 5, "row 23: no sixth attempt")
os.kill(three.roots()[0], signal.SIGKILL)
c.until(lambda: not three.roots())
c.same(three.fate(three.run()), "completed", "when it is gone, the next run looks, and runs")

# -----------------------------------------------------------------------------------
four = s.Session(cove, user="held")
s.fault(cove, "stop", count=2, session=four.id)
four.fate(four.run("fail"))
held = four.run()
blocked = four.look(held)
c.ok(blocked["state"] == "queued" and blocked["blocked_until"], "a run is held, and says until when", blocked)
c.same(four.fate(held), "completed", "the queue drains by itself")
c.same(len([r for r in s.lease_log(cove, four.id) if r["row"] == "21"]), 2, "after the third attempt")

five = s.Session(cove, user="late")
five.run("hang")
five.await_state("active")
s.fault(cove, "stop", "hang", session=five.id)
cove.post(five.path + "/interrupt")
c.ok(c.until(lambda: five.lease()["last_error"] == "attempt deadline expired"), "row 22: an attempt that hangs is given up")
c.ok(five.await_state("none"), "row 22: the next attempt ends it")
five.run("hang")
five.await_state("active")
s.clear(cove)
time.sleep(0.5)
c.same((five.state(), len(five.roots())), ("active", 1), "row 24: the late attempt hurts nobody")

# -----------------------------------------------------------------------------------
legacy = s.Session(cove, user="legacy", env={"RUNNER_LEGACY": "1"})
legacy.run("silent")
c.ok(legacy.await_state("ready", "active"), "a runner that tells no identity is known by its marks", legacy.lease())
probe = s.Session(cove, user="pair")
probe.fate(probe.run())  # a sandbox to try in
code = cove.run(probe.made["sandbox_id"], ["/usr/bin/python3", "-c", __import__("runner").source(), "--instance=instance_x"],
                env={"COVE_SESSION": "x", "COVE_INSTANCE": "instance_y", "COVE_GENERATION": "1"})["exitCode"]
c.ok(code != 0, "a runner whose argument and environment conflict refuses to start", code)

# -------------------------------------------------------------------------------------
six = s.Session(cove, user="replay")
c.same(six.look(six.run("replay"))["state"] in ("queued", "running"), True, "a runner replays an old triple")
run = six.get()["runs"][0] if six.get()["runs"] else None
c.same(six.fate(run), "completed", "the run goes on")
c.same(six.look(run)["result"]["output"], "fresh", "an old hello and an old result change nothing")

# ------------------------------------------------------------------------------- deletion
seven = s.Session(cove, user="shared")
sibling = s.Session(cove, user="shared")
seven.fate(seven.run())
sibling.run("sleep", seconds=30)
sibling.await_state("active")
pid = sibling.roots()
c.same(seven.made["sandbox_id"], sibling.made["sandbox_id"], "two sessions of one owner share a sandbox")
c.same(seven.delete().status, 204, "DELETE answers 204 when all of it is gone")
c.same(cove.get(seven.path).status, 404, "and then it is not there")
c.same(sibling.roots(), pid, "the sibling's process keeps its pid")
names = cove.out(sibling.made["sandbox_id"], "ls /workspace").split()
c.ok(seven.made["directory"] not in names and sibling.made["directory"] in names, "only its own files went", names)

eight = s.Session(cove, user="deleting")
eight.run("hang")
eight.await_state("active")
s.fault(cove, "stop", count=1000, session=eight.id)
reply = eight.delete()
c.same((reply.status, reply.json["status"]), (202, "deleting"), "while it cannot be stopped: 202")
c.same(cove.post(eight.path + "/runs", {"input": 1}).status, 404, "no run is taken any more")
c.same(eight.delete().status in (202, 204), True, "and DELETE may be said again")
s.kill_daemon(cove)
c.ok(c.until(lambda: cove.get(eight.path).status == 404), "after kill -9 the deletion goes on by itself")
c.same(eight.pids(), [], "and its runner is gone")

lone = s.Session(cove, user="lone", isolation="session")
lone.fate(lone.run("child"))
box = lone.made["sandbox_id"]
c.ok(box.startswith("ses-"), "isolation can be asked for", box)
c.same(lone.delete().status, 204, "an isolated session is deleted")
c.same(cove.get("/v1/sandboxes/" + box).status, 404, "with its whole sandbox")

# -----------------------------------------------------------------------------------
y = s.Session(cove, user="victim")
x = s.Session(cove, user="impostor")
x.fate(x.run())
y.fate(y.run())
threading.Thread(target=lambda: cove.execute(x.made["sandbox_id"], ["sleep", "300"], env={"COVE_SESSION": y.id}),
                 daemon=True).start()


def impostors():
    found = []
    for pid in os.listdir("/proc"):
        try:
            env = open("/proc/%s/environ" % pid, "rb").read()
            group = open("/proc/%s/cgroup" % pid).read()
        except (OSError, ValueError):
            continue
        if b"COVE_SESSION=" + y.id.encode() in env and x.made["sandbox_id"] in group:
            found.append(pid)
    return found


c.until(impostors)
c.same(y.delete().status, 204, "a session is deleted though another sandbox carries its mark")
c.ok(impostors(), "the impostor in the other sandbox lives")

# -----------------------------------------------------------------------------------
storm = s.Session(cove, user="storm")
most, stop = [0], []


def sample():
    while not stop:
        most[0] = max(most[0], len(storm.roots()))
        time.sleep(0.01)


def strike(i):
    try:
        if i % 5 == 4:
            cove.post(storm.path + "/interrupt")
        else:
            cove.post(storm.path + "/runs", {"input": {"do": "ok"}})
    except s.BROKEN:
        pass


watcher = threading.Thread(target=sample)
watcher.start()
threads = [threading.Thread(target=strike, args=(i,)) for i in range(50)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
c.until(lambda: not storm.get()["runs"], 60, 0.05)
c.same(storm.get()["runs"], [], "fifty runs and interrupts at once: all of them end")
c.ok(storm.await_state("none", seconds=30), "and the lease is none in the end", storm.lease())
stop.append(1)
watcher.join()
c.ok(most[0] <= 1, "never two runners at once, sampled every 10 ms", most)

c.same(cove.close(), 0, "cove ends well")
c.done()
