#!/usr/bin/env python3
"""kill -9 of the daemon at every point of a lease at once: each session is held at one of them, by a fault that
hangs, when the daemon is shot. Afterwards each is where the table says, and no run has ended twice."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

SCALE = 10
cove = s.start(scale=SCALE)


def quietly(ask, *args):
    """In a thread of its own: the daemon may be shot before it answers."""
    def run():
        try:
            ask(*args)
        except s.BROKEN:
            pass
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


class Point:
    """A session that is held somewhere; `fate` of its run, and the generation that it ends under."""
    fate, generation, run, before, tried = "completed", 1, None, None, 0

    def __init__(self, name, **env):
        self.name = name
        self.session = s.Session(cove, user="points", env=env, argv=s.slow())

    def post(self, do="ok", **fields):
        return quietly(cove.post, self.session.path + "/runs", {"input": dict(fields, do=do)})

    def begin(self, do="ok", **fields):
        self.run = self.session.run(do, **fields)

    def arrive(self, reached):
        c.ok(reached, "%s: the daemon is held there" % self.name, self.session.get())
        self.before = self.session.roots()

    def stop(self, ask, *args):
        """Asked to stop, its attempts hang: each of them, for it may take longer than one lasts until all are arranged."""
        held = s.hold(cove, self.session, "stop", 5)
        quietly(ask, *args)
        reached = held()
        self.tried = self.session.lease()["attempts"]
        return reached

    def interrupt(self):
        return self.stop(cove.post, self.session.path + "/interrupt")

    def pass_on(self, point, next_point):
        """What hangs at one point goes on, and is held at the next."""
        held = s.hold(cove, self.session, next_point)
        if point != next_point:
            s.release(cove, self.session, point)
        return held()


def arrange():
    unasked = Point("before the commit of a run")
    held = s.hold(cove, unasked.session, "persist")
    unasked.post()
    unasked.arrive(held())

    unstarted = Point("before the commit of STARTING")
    held = s.hold(cove, unstarted.session, "persist")
    posted = unstarted.post()
    held()
    reached = unstarted.pass_on("persist", "persist")
    posted.join()
    unstarted.run = unstarted.session.get()["runs"][0]
    unstarted.arrive(reached and unstarted.session.state() == "none")

    unborn = Point("after its commit, before the fork")
    unborn.generation = 2
    held = s.hold(cove, unborn.session, "launch")
    unborn.begin()
    unborn.arrive(held() and unborn.session.state() == "starting")

    unready = Point("after the fork, before the commit of READY", RUNNER_SLOW="0.7")
    unready.begin()
    c.until(lambda: unready.session.roots())
    held = s.hold(cove, unready.session, "persist")
    unready.arrive(held() and unready.session.state() == "starting")

    shy = Point("after the fork, before the runner's first word", RUNNER_SHY="1")
    shy.begin()
    shy.arrive(c.until(lambda: shy.session.roots()) and shy.session.state() == "starting")

    doubled = Point("after the fork, with two that bear the mark", RUNNER_SHY="1")
    doubled.generation = 2
    doubled.begin()
    c.until(lambda: doubled.session.roots())
    quietly(lambda: cove.execute(doubled.session.made["sandbox_id"], ["sleep", "600"],
                                 env={"COVE_SESSION": doubled.session.id}))
    doubled.arrive(c.until(lambda: len(doubled.session.roots()) == 2))

    accepted = Point("after the run was taken, before that commit", RUNNER_LATE="0.7")
    accepted.begin()
    accepted.session.await_state("ready")
    held = s.hold(cove, accepted.session, "persist")
    accepted.arrive(held() and accepted.session.look(accepted.run)["state"] == "queued")

    result = Point("after the result, before its commit")
    result.begin("sleep", seconds=0.5)
    result.session.await_state("active")
    held = s.hold(cove, result.session, "persist")
    result.arrive(held() and result.session.look(result.run)["state"] == "running")

    cut = Point("before the commit of STOP_NEEDED")
    cut.fate = "interrupted runner_interrupted"
    cut.begin("hang")
    stopping = Point("after the commit of STOPPING, before the kill")
    stopping.begin("hang")
    killed = Point("after the kill, before the commit of NONE")
    killed.begin("hang")
    stopping.fate = killed.fate = "interrupted user_interrupt"
    doomed = Point("during a deletion, before its stop")
    doomed.begin()
    purged = Point("during a deletion, before the purge")
    purged.begin()
    doomed.fate = purged.fate = None
    active = Point("while ACTIVE")
    active.begin("sleep", seconds=5)
    for point in cut, stopping, killed, active:
        point.session.await_state("active")
    for point in doomed, purged:
        point.session.fate(point.run)

    held = s.hold(cove, cut.session, "persist")
    quietly(cove.post, cut.session.path + "/interrupt")
    cut.arrive(held() and cut.session.state() == "active" and cut.session.look(cut.run)["state"] == "running")
    killed.interrupt()
    killed.arrive(killed.pass_on("stop", "persist") and killed.session.state() == "stopping" and
                  not killed.session.pids())
    purged.stop(purged.session.delete)
    purged.pass_on("stop", "persist")  # the commit of NONE
    purged.arrive(purged.pass_on("persist", "persist") and not purged.session.pids())
    purged.tried = 0
    doomed.arrive(doomed.stop(doomed.session.delete) and doomed.session.get()["status"] == "deleting")
    stopping.arrive(stopping.interrupt() and stopping.session.state() == "stopping" and stopping.session.roots())
    active.arrive(active.session.look(active.run)["state"] == "running")
    return locals()


points = arrange()
everyone = list({id(p): p for p in points.values() if isinstance(p, Point)}.values())
sampler = s.Sampler(cove)
said = len(cove.log_text())
s.kill_daemon(cove)
sick = Point("frozen")
sick.begin("hang")
sick.session.await_state("active")
os.kill(sick.session.roots()[0], signal.SIGSTOP)

for point in everyone:
    session, name = point.session, "kill -9 %s: " % point.name
    if point.fate is None:
        c.ok(c.until(lambda: cove.get(session.path).status == 404), name + "the deletion ends by itself", cove.get(session.path))
        names = cove.out(session.made["sandbox_id"], "ls /workspace /home").split()
        c.ok(session.made["directory"] not in names, name + "and its files are gone", names)
    elif point.run is None:
        c.same((session.state(), session.get()["runs"], session.pids()), ("none", [], []), name + "nothing is there")
        c.same(session.fate(session.run()), "completed", name + "the client tries again")
    else:
        c.same(session.fate(point.run, 30), point.fate, name + "its run ends")
        ends = [e for e in session.events(point.run) if e["type"] == "end"]
        c.same(len(ends), 1, name + "its end is told once")
        c.same(session.look(point.run)["generation"], point.generation, name + "under the generation that is due")
    if point.before and point.generation == 1 and point.fate == "completed":
        c.same(session.roots(), point.before, name + "the runner was adopted")
    if point.tried:
        gone = c.until(lambda: cove.get(session.path).status == 404 or session.state() == "none")
        c.ok(gone and not session.pids(), name + "none, and no process", session.pids())
        counts = [int(r["attempts"]) for r in s.lease_log(cove, session.id) if r["row"] == "18"]
        c.ok(counts == list(range(1, len(counts) + 1)) and len(counts) > point.tried,
             name + "attempts are kept, not begun anew", counts, point.tried)
    born = [int(r["generation"]) for r in s.lease_log(cove, session.id) if r["row"] in ("1", "14") and r["to"] == "starting"]
    c.ok(born == sorted(set(born)), name + "no generation is used twice", born)

# ------------------------------------------------------------------------------------ 2.7
run = sick.run
c.same(sick.session.fate(run, 20), "failed runner_ping_timeout", "a stopped runner fails by its ping")
events = sick.session.events(run)
took = (events[-1]["time"] - [e for e in events if e["type"] == "output"][-1]["time"]) * SCALE / 1000
c.ok(90 - 2 * SCALE / 1000 <= took <= 95,  # times of events are whole milliseconds, before they are scaled
      "within 90 to 95 s (scaled)", took)
c.ok(sick.session.await_state("none") and not sick.session.pids(), "the stopped process is gone", sick.session.lease())
c.same(sick.session.fate(sick.session.run()), "completed", "the next run works")

# ---------------------------------------------------------------------- without a crash
late = Point("the commit fails", RUNNER_LATE="0.5")
late.begin()
late.session.await_state("ready")
s.fault(cove, "persist", count=3, session=late.session.id)
c.same(late.session.fate(late.run), "completed", "the commit of a run that was taken fails: the run goes on, the client sees no failure")
c.same([r["row"] for r in s.lease_log(cove, late.session.id)], ["1", "4", "8", "9"], "and the lease is mended")

most = sampler.end()
c.ok(sampler.samples > 100 and all(count == 1 or session == points["doubled"].session.id for session, count in most.items()),
     "never two runners of one session, looked at every 10 ms", most)
for point in everyone + [sick, late]:
    c.until(lambda: point.session.delete().status in (204, 404))
c.same(s.runners(cove), {}, "no runner outlives its session")
c.same(cove.close(), 0, "cove ends well")
c.done()
