#!/usr/bin/env python3
"""A live runner, watched, and found again after every crash."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

cove = s.start()

# half an hour is awaited beside all the rest, under a daemon that nobody kills: the grace of a lost connection is
# a sixth of a second (scaled), in which a busy host may not run the runner
calm = s.start()
long = {beats: s.Session(calm, user="beats %s" % beats, env={} if beats else {"RUNNER_NOBEAT": "1"}) for beats in (True, False)}
lasting = {beats: session.run("print", times=900, every=1.0) for beats, session in long.items()}

# ---------------------------------------------------------------------------------------
one = s.Session(cove)
run = one.run("hang")
one.await_state("active")
c.until(lambda: [e for e in one.look(run).get("events", ())] or True)
time.sleep(0.1)
began = time.monotonic()
os.kill(one.roots()[0], signal.SIGSTOP)
c.same(one.fate(run), "failed runner_ping_timeout", "a stopped runner fails by its ping")
took = time.monotonic() - began
c.ok(1.2 < took, "not before 60 and 30 s (scaled)", took)
c.ok(one.await_state("none"), "its lease is brought to none")
c.same(one.pids(), [], "and the stopped process is gone")
c.same(one.fate(one.run()), "completed", "the next run works")
c.same(one.fate(one.run("silent")), "failed runner_no_output", "a run without output fails")
c.same(one.fate(one.run("exit", code=3)), "failed runner_error_after_activity", "a runner that dies after activity")
c.same(one.fate(one.run("babble")), "failed runner_protocol_error", "row 10: a runner that breaks the protocol")
c.same(one.fate(one.run("exit", result=True)), "completed", "a result that was sent counts, though its runner died")

two = s.Session(cove, user="prints")
minutes = 60 if os.environ.get("COVE_SOAK") else 20
run = two.run("print", times=minutes, every=1.0)
three = s.Session(cove, user="asks")
question = three.run("ask")
c.same(two.fate(run, minutes + 20), "completed", "a run that prints once a minute lives past 15 minutes (scaled)")
c.same(three.look(question)["question"], {"id": "q1", "text": "may I?"}, "a question waits for its answer")
c.same(three.look(question)["state"], "running", "waiting for a human is not silence")
c.same(cove.post(three.path + "/answer", {"question": "q1", "answer": "yes"}).status, 202, "the question is answered")
c.same(three.fate(question), "completed", "and the run goes on")
c.same(three.look(question)["result"]["output"], {"answer": "yes"}, "with the answer")
c.same(cove.post(three.path + "/answer", {"question": "q1", "answer": "yes"}).status, 409, "a second answer is refused")

# ------------------------------------------------------------------------------ events resume
events = two.events(run)
c.same([e["type"] for e in events][-1], "end", "the events of a run end with its end")
c.same(len([e for e in events if e["type"] == "end"]), 1, "which is told once")
reply = cove.get("%s/runs/%s/events" % (two.path, run))
offsets = [int(line[4:]) for line in reply.body.decode().splitlines() if line.startswith("id: ")]
tail = two.events(run, offsets[4])
c.same(tail, events[5:], "they are resumed from any offset")

# -------------------------------------------------------------- kill -9 at each point
# At a scale at which a busy host runs a runner before the grace of its connection is over.
shot = s.start(scale=10)
four = s.Session(shot, user="active")
run = four.run("ask")
c.ok(c.until(lambda: four.look(run).get("question")), "a run waits for its answer")
pid = four.roots()
s.kill_daemon(shot)
c.same(four.roots(), pid, "the runner outlives its daemon")
c.same(c.patiently(lambda: shot.post(four.path + "/answer", {"question": "q1", "answer": "yes"})).status, 202, "the next daemon is told the answer")
c.same(four.fate(run), "completed", "kill -9 while active: adopted, and the run completes")
c.same(four.look(run)["generation"], 1, "by the same runner")
c.same(len([e for e in four.events(run) if e["type"] == "end"]), 1, "its result is delivered once")

five = s.Session(shot, user="done while away")
run = five.run("sleep", seconds=0.5)
five.await_state("active")
os.kill(shot.process.pid, signal.SIGSTOP)  # nobody starts another daemon yet
os.kill(shot.children()["daemon"], signal.SIGKILL)
time.sleep(1.5)
os.kill(shot.process.pid, signal.SIGCONT)
c.same(five.fate(run), "completed", "a run that ends while no daemon lives completes when one returns")

six = s.Session(shot, user="dies while away")
run = six.run("hang")
six.await_state("active")
time.sleep(0.2)
os.kill(shot.process.pid, signal.SIGSTOP)
os.kill(shot.children()["daemon"], signal.SIGKILL)
os.kill(six.roots()[0], signal.SIGKILL)
time.sleep(0.3)
os.kill(shot.process.pid, signal.SIGCONT)
c.same(six.fate(run), "failed runner_error_after_activity", "a runner that died with no daemon: the run fails")
c.ok(six.await_state("none"), "and the lease is none", six.lease())

seven = s.Session(shot, user="before fork")
s.fault(shot, "launch", "hang", session=seven.id)
run = seven.run()
seven.await_state("starting")
s.kill_daemon(shot)
c.same(seven.fate(run), "completed", "after commit, before fork: observed absent, launched anew")
c.same(seven.look(run)["generation"], 2, "the generation is not used again")

eight = s.Session(shot, user="before ready", env={"RUNNER_MUTE": "1"})
run = eight.run()
eight.await_state("starting")
c.until(lambda: eight.roots())
pid = eight.roots()
s.kill_daemon(shot)
time.sleep(0.5)
c.same(eight.roots(), pid, "after fork, before ready: found by its marks, and left alive")
c.same((eight.state(), eight.lease()["generation"]), ("starting", 1), "the runner is attached to, not launched twice")
shot.post(eight.path + "/interrupt")

nine = s.Session(shot, user="before kill")
run = nine.run("hang")
nine.await_state("active")
s.fault(shot, "stop", "hang", session=nine.id)
shot.post(nine.path + "/interrupt")
nine.await_state("stopping")
s.kill_daemon(shot)
c.same(nine.lease()["attempts"] >= 1 or nine.state() == "none", True, "after stopping was committed: attempts are kept")
c.ok(nine.await_state("none", seconds=30), "the deadline expires, the next attempt ends it", nine.lease())
c.same(nine.pids(), [], "no process is left after none")
c.same(nine.look(run)["state"], "interrupted", "its run is interrupted, once")

ten = s.Session(shot, user="before commit")
s.fault(shot, "persist", "hang", session=ten.id)
try:
    shot.request("POST", ten.path + "/runs", {"input": {"do": "ok"}}, timeout=0.5)
except OSError:
    pass
s.kill_daemon(shot)
c.same((ten.state(), ten.pids()), ("none", []), "before the commit: nothing is there")
c.same(ten.fate(ten.run()), "completed", "and the client tries again")

# -------------------------------------------------------------------------------------
bad = s.Session(cove, user="garbage")
bad.fate(bad.run())
orphan = s.Session(cove, user="orphan")
orphan.fate(orphan.run())
fine = s.Session(cove, user="fine")
fine.fate(fine.run())
bare, unknown = s.Session(cove, user="fine"), s.Session(cove, user="fine")
for session in (bare, unknown):
    session.fate(session.run())
s.offline(cove, ("UPDATE leases SET body = ? WHERE id = ?", (b"garbage", bad.id)),
          ("DELETE FROM sessions WHERE id IN (?, ?)", (orphan.id, unknown.id)),
          ("DELETE FROM leases WHERE id IN (?, ?)", (bare.id, unknown.id)))
c.same(bad.state(), "quarantined", "row 27: a lease that does not parse is quarantined")
c.same(bad.fate(bad.run()), "failed cleanup_exhausted", "row 27: its runs are refused while its runner lives")
c.same(fine.fate(fine.run()), "completed", "row 27: other sessions are unaffected")
c.ok(c.until(lambda: not orphan.pids()), "a lease without its session: the runner is stopped")
c.ok(any('"alert":"lease_without_session"' in line and orphan.id in line for line in cove.log_text().splitlines()), "and an alert names it")
c.ok(c.until(lambda: not bare.pids() and not unknown.pids()), "a runner without a lease, its session known or not: it is stopped")
for session in (bare, unknown):
    def rows():
        """Of the last lease, which begins with row 2."""
        told = [(r["row"], r.get("reason")) for r in s.lease_log(cove, session.id)]
        return told[max((i for i, row in enumerate(told) if row[0] == "2"), default=0):]
    c.until(lambda: rows()[-1:] == [("20", None)])  # an attempt that is too slow is followed by another
    c.same((rows()[:2], rows()[-1:]), ([("2", "unexpected-runner"), ("18", "unexpected-runner")], [("20", None)]),
           "by a lease that says so")
c.ok(any('"alert":"runner_without_lease"' in line and unknown.id in line for line in cove.log_text().splitlines()), "and an alert names it")
c.same(fine.fate(fine.run()), "completed", "their sibling works on")
c.same(long[False].fate(lasting[False], 60), "failed stuck", "a run without heartbeats is stuck after half an hour (scaled)")
got = long[False].look(lasting[False])
c.ok(29000 < got["ended_at"] - got["started_at"], "not sooner", got)
c.ok(long[False].await_state("none"), "its lease brings it to an end", long[False].lease())
c.until(lambda: time.time() * 1000 > long[True].look(lasting[True])["started_at"] + 33000, 40)
c.same(long[True].look(lasting[True])["state"], "running", "a run with heartbeats goes on")
calm.post(long[True].path + "/interrupt")
c.same((calm.close(), cove.close()), (0, 0), "cove ends well")

# ----------------------------------------------------------------------------------------
cut = s.Session(shot)
c.same(cut.fate(cut.run("cut", seconds=0.5)), "completed", "a connection cut for 5 s: the run survives")
c.same(cut.fate(cut.run("cut", seconds=1.5)), "failed runner_disconnected", "cut for 15 s: it fails")
c.same(shot.close(), 0, "cove ends well")
c.done()
