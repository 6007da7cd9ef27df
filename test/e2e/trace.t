#!/usr/bin/env python3
"""A trace id of a request is on every line that it causes, in the daemon and in the warden."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cove import Cove, done, ok, same, until  # noqa: E402

cove = Cove(env={"COVE_LOG_LEVEL": "debug"})


def lines(trace):
    parsed = [json.loads(line) for line in cove.log_text().splitlines() if line.startswith("{")]
    return [(line["component"], line["event"]) for line in parsed if line.get("trace") == trace]


reply = cove.post("/v1/sandboxes", {}, headers={"X-Trace-Id": "trace-of-birth"})
same(reply.status, 201, "a sandbox")
ok(until(lambda: {("warden", "box.cloned"), ("daemon", "request")} <= set(lines("trace-of-birth"))),
   "its birth is traced", lines("trace-of-birth"))
same(cove.request("DELETE", "/v1/sandboxes/" + reply.json["id"], headers={"X-Trace-Id": "trace-of-end"}).status, 204,
     "it ends")
ok(until(lambda: {("warden", "box.destroyed"), ("daemon", "box.destroyed"), ("daemon", "request")} <= set(lines("trace-of-end"))),
   "its end is traced", lines("trace-of-end"))
refused = cove.post("/v1/sandboxes", {"template": "no-such-template"}, headers={"X-Trace-Id": "trace-of-refusal"})
ok(refused.status in (400, 404) and until(lambda: ("daemon", "request") in lines("trace-of-refusal")),
   "a refusal is traced", refused, lines("trace-of-refusal"))
ok("trace-of-birth" not in json.dumps(lines("trace-of-end")), "one trace is not another")
same(cove.stop(), 0, "cove stops")
done()
