#!/usr/bin/env python3
"""Idempotency keys: nothing is done twice."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import agent_sessions  # noqa: E402
import cove as c  # noqa: E402
from cove import patiently  # noqa: E402


def create(key, body):
    return cove.request("POST", "/v1/sandboxes", body, headers={"Idempotency-Key": key})


c.need_root()
cove = c.Cove()
first = create("k1", {"labels": {"a": "1"}})
again = create("k1", {"labels": {"a": "1"}})
c.same((first.status, again.status), (201, 201), "a create and its repetition answer 201")
c.same(again.body, first.body, "with the same answer")
c.same(again.headers["Idempotency-Replayed"], "true", "the second says it is a repetition")
other = create("k1", {"labels": {"a": "2"}})
c.same((other.status, other.json["reason"]), (409, "idempotency_mismatch"),
       "another body under the same key is refused")
c.same(create("k 2", {}).status, 400, "a key is printable characters")

answers = []
many = [threading.Thread(target=lambda: answers.append(create("k2", {}))) for _ in range(10)]
[one.start() for one in many]
[one.join() for one in many]
c.same(({a.status for a in answers}, len({a.json["id"] for a in answers})), ({201}, 1),
       "ten at once are one sandbox")
c.same(len(cove.get("/v1/sandboxes").json["items"]), 2, "and no other was made")

failed = create("k3", {"template": "no-such"})
c.same(failed.status, 404, "a create that fails")
cove.delete(first.json)
c.same(create("k1", {"labels": {"a": "1"}}).body, first.body,
       "a key is remembered beyond its sandbox")
c.same(create("k3", {"template": "no-such"}).status, 404, "a failure is not remembered")

# A daemon that was killed in the midst of a create: its intent is on record, the sandbox lives, nobody was told.
box = create("k4", {}).json["id"]
pid1 = agent_sessions.programs(cove, box, "cove-init")[0]
children = cove.children().values()
cove.stop(number=signal.SIGKILL)
c.until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in children), 30)
db = agent_sessions.database(cove)
db.execute("UPDATE boxes SET state = 'creating' WHERE id = ?", (box,))
db.execute("DELETE FROM idempotency")
db.commit()
db.close()
os.kill(pid1, signal.SIGSTOP)  # it cannot be taken up yet
try:
    cove.start()
    answers = []
    asking = [threading.Thread(target=lambda: answers.append(create("k4", {}))) for _ in range(3)]
    [one.start() for one in asking]
    c.until(lambda: answers, 2)
    c.same([a for a in answers if a.status != 503], [], "a sandbox that is not taken up yet is not promised")
finally:
    os.kill(pid1, signal.SIGCONT)
[one.join() for one in asking]
last = patiently(lambda: create("k4", {}))
c.same((last.status, last.json["id"], last.json["state"]), (201, box, "running"), "once it is, it is the answer")
c.same({a.body for a in answers if a.status != 503} - {last.body}, set(), "the same one to all who asked")
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
