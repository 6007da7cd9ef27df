#!/usr/bin/env python3
"""Idempotency keys: nothing is done twice."""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


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
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
