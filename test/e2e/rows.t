#!/usr/bin/env python3
"""The lease as a client sees it: its states, retries and ends, the rows that take their time. The ladders of
attempts that fail run side by side while the rest is looked at."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

LADDER = [5, 30, 120, 300]
cove = s.start()
forgetful = s.start("--session-retention=5s")


def starts(session, house=cove):
    return [s.moment(r) for r in s.lease_log(house, session.id) if r["row"] == "18"]


def on_ladder(times):
    gaps = [b - a for a, b in zip(times, times[1:])]
    wants = [w / s.SCALE for w in LADDER[:len(gaps)]]
    return len(gaps) <= 4 and all(abs(g - w) < max(0.1 * w, 0.25) for g, w in zip(gaps, wants)), gaps, wants


def failing(house=cove, count=5, do="fail", **owner):
    """A session whose runner is to go, and does not."""
    session = s.Session(house, **owner)
    s.fault(house, "stop", count=count, session=session.id)
    session.fate(session.run(do, code=1))
    return session


# --------------------------------------------------------------------- these go on beside the rest
ladder = failing(user="ladder")
sibling = s.Session(cove, user="ladder")
c.same(sibling.fate(sibling.run()), "completed", "a sibling shares the sandbox of one that will be quarantined")
lone = failing(user="lone", isolation="session")
spent = failing(user="spent", do="exit")
kept = failing(forgetful, count=4, user="kept")
idle = s.Session(forgetful, user="idle")
idle.fate(idle.run())
began_idle = time.monotonic()
doomed = s.Session(cove, user="doomed")
doomed.fate(doomed.run())
s.fault(cove, "stop", count=4, session=doomed.id)
reply = doomed.delete()
c.same((reply.status, reply.json["status"], reply.json["lease"]["state"]), (202, "deleting", "stop_needed"),
       "DELETE of what cannot be stopped: 202, with the lease")
c.same(doomed.get()["status"], "deleting", "and GET shows deleting")
again = []
askers = [threading.Thread(target=lambda: again.append(doomed.delete().status)) for _ in range(20)]
for asker in askers:
    asker.start()
c.same(cove.post(doomed.path + "/runs", {"input": 1}).status, 404, "no run is taken any more")

# ----------------------------------------------------------------------------- rows 1 to 16
one = s.Session(cove, user="polled", argv=s.slow(), env={"RUNNER_SLOW": "0.3", "RUNNER_LATE": "0.3", "RUNNER_STUBBORN": "1"})
seen, over = [one.state()], []


def poll():
    while not over:
        state = one.state()
        if state != seen[-1]:
            seen.append(state)
        time.sleep(0.002)


poller = threading.Thread(target=poll)
poller.start()
run = one.run("sleep", seconds=0.3)
c.same(one.fate(run), "completed", "rows 1, 4, 8, 9: a job")
c.ok({"state", "instance_id", "generation", "deadline_at", "reason", "attempts", "attempt_id", "last_error"} <= set(one.lease()),
     "K-3 the lease is told in full", one.lease())

# ----------------------------------------------------------------------------------- row 24
late = s.Session(cove, user="late")
late.run("hang")
late.await_state("active")
s.fault(cove, "stop", "hang", 2, late.id)
cove.post(late.path + "/interrupt")
c.ok(c.until(lambda: late.lease()["attempts"] == 2 and late.state() == "stopping"), "row 22: an attempt that hangs is given up")
s.release(cove, late, "stop")
c.ok(late.await_state("none") and not late.pids(), "row 24: both go on at once, and the one that is under way counts", late.lease())
rows = s.lease_log(cove, late.id)
c.same([int(r["attempts"]) for r in rows if r["row"] == "18"], [1, 2], "row 24: attempts only grow")
c.same([r["row"] for r in rows][-3:], ["22", "18", "20"], "row 24: the late answer changed nothing")

# ------------------------------------------------------------------------------------
storm = s.Session(cove, user="storm")
c.same(storm.fate(storm.run()), "completed", "a session for a storm")
sampler = s.Sampler(cove)
answers = []


def strike(i):
    try:
        if i > 46:
            time.sleep(1)  # in the midst of it
            answers.append(("delete", storm.delete().status))
        elif i % 4 == 3:
            answers.append(("interrupt", cove.post(storm.path + "/interrupt").status))
        else:
            answers.append(("run", cove.post(storm.path + "/runs", {"input": {"do": "ok"}}).status))
    except s.BROKEN as broken:
        answers.append(("broken", repr(broken)))


threads = [threading.Thread(target=strike, args=(i,)) for i in range(50)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
c.same({what: {status for word, status in answers if word == what} - {202, 204, 404, 409} for what, _ in answers},
       {"run": set(), "interrupt": set(), "delete": set()}, "fifty runs, interrupts and deletes at once are answered")
c.ok(c.until(lambda: cove.get(storm.path).status == 404, 30), "the session is gone in the end", cove.get(storm.path))
most = sampler.end()
c.ok(storm.id in most and sampler.samples > 20, "its runners were looked at every 10 ms", most)
c.same(most.get(storm.id), 1, "and were never two at once")
rows = s.lease_log(cove, storm.id)
attempts = [r["row"] for r in rows if r["row"] in ("18", "20", "21", "22", "23")]
c.ok(attempts and all((row == "18") == (i % 2 == 0) for i, row in enumerate(attempts)), "no two attempts overlap", attempts)
c.same((rows[-1]["to"], storm.pids()), ("none", []), "its last state is none")

# -------------------------------------------------------------------------- row 16, and what follows
c.ok(c.until(lambda: len(seen) > 5 and seen[-1] == "none"), "row 16: keep-warm ends it", seen)
over.append(1)
poller.join()
c.ok(seen[:5] == ["none", "starting", "ready", "active", "warm"] and seen[-1] == "none" and
     set(seen[5:-1]) <= {"stop_needed", "stopping"} and len(seen) > 6, "rows 1, 4, 8, 9, 16: the states that a client polls", seen)
times = {r["row"]: s.moment(r) for r in s.lease_log(cove, one.id)}
c.ok(abs(times["16"] - times["9"] - 300 / s.SCALE) < 0.5, "row 16: 5 minutes after its last work (scaled)", times)
c.same(one.fate(one.run()), "completed", "the next job")
c.same([one.look(run)["generation"], one.lease()["generation"]], [1, 2], "has the next generation")

# ----------------------------------------------------------------------------------
for asker in askers:
    asker.join()
c.same(again, [202] * 20, "the delete may be repeated")
c.ok(c.until(lambda: cove.get(doomed.path).status == 404), "the fifth attempt ends the deletion, unasked")
good, gaps, wants = on_ladder(starts(doomed))
c.ok(good and len(gaps) == 4, "its attempts came at the times of the ladder, whoever asked meanwhile", gaps, wants)

# -----------------------------------------------------------------------------------------
c.ok(spent.await_state("quarantined"), "five attempts fail: quarantined", spent.lease())
s.fault(cove, "observe", count=1000, session=spent.id)
said = len(cove.log_text())
c.same(spent.fate(spent.run()), "failed cleanup_exhausted", "a run is refused: it could not be looked at")
lines = [line for line in cove.log_text()[said:].splitlines() if spent.id in line]
c.same(len([line for line in lines if '"event":"dev.fault"' in line]), 1, "after one observation")
s.release(cove, spent, "observe")
c.same(spent.fate(spent.run()), "completed", "the fault is gone: the next one runs")

# -----------------------------------------------------------------------------------------
box = lone.made["sandbox_id"]
c.ok(lone.await_state("quarantined") and lone.pids(), "an isolated one is quarantined, and lives", lone.lease())
lone.delete()
c.ok(c.until(lambda: cove.get(lone.path).status == 404), "the session can be deleted", cove.get(lone.path))
c.ok(cove.get("/v1/sandboxes/" + box).status == 404 and not lone.pids(), "with its whole sandbox")
c.ok('"event":"agent_session.sandbox_removed"' in cove.log_text(), "which is written down")

# ------------------------------------------------------------------------------- rows 18 to 23
c.ok(ladder.await_state("quarantined"), "rows 18 to 23: five attempts, then quarantined", ladder.lease())
good, gaps, wants = on_ladder(starts(ladder))
c.ok(good and len(gaps) == 4, "rows 18 to 23: at 0, 5, 30, 120 and 300 s (scaled)", gaps, wants)
exhausted = [s.moment(r) for r in s.lease_log(cove, ladder.id) if r["row"] == "23"][0]
c.same(ladder.delete().status, 202, "a shared one is deleted when its runner is gone")

# -----------------------------------------------------------------------------------------
c.ok(c.until(lambda: forgetful.get(idle.path).status == 404), "a session that nobody used for 5 s disappears")
c.ok(time.monotonic() - began_idle > 4.5, "not before")
c.ok(c.until(lambda: forgetful.get(kept.path).status == 404), "a session whose runner could not be stopped, later")
rows = s.lease_log(forgetful, kept.id)
expired = [i for i, line in enumerate(forgetful.log_text().splitlines()) if '"event":"agent_session.expired"' in line and kept.id in line]
deleted = [i for i, line in enumerate(forgetful.log_text().splitlines()) if '"event":"agent_session.deleted"' in line and kept.id in line]
none = [i for i, line in enumerate(forgetful.log_text().splitlines()) if '"row":"20"' in line and kept.id in line]
c.ok(len(expired) == 1 and expired[0] < none[0] < deleted[0], "it expired while its lease was stop_needed, and went after it was none",
     expired, none, deleted)
good, gaps, wants = on_ladder(starts(kept, forgetful)[:5])
c.ok(good and len(gaps) == 4, "with the backoff that it had", gaps, wants)
c.same(forgetful.close(), 0, "the second cove ends well")

c.until(lambda: time.time() > exhausted + 600 / s.SCALE, 12)
c.same(len(starts(ladder)), 5, "row 23: no sixth attempt in 10 minutes (scaled)")
c.same([cove.log_text().count('"alert":"lease_quarantined","severity":"critical","session":"%s"' % x.id) for x in (ladder, lone)],
       [1, 1], "row 23: one alert each")
c.ok(ladder.state() == "quarantined" and cove.get("/v1/sandboxes/" + ladder.made["sandbox_id"]).json["state"] == "running",
     "a shared sandbox is not destroyed for it", ladder.lease())
c.same(sibling.fate(sibling.run()), "completed", "and its sibling works on")
c.same(cove.close(), 0, "cove ends well")
c.done()
