#!/usr/bin/env python3
"""The shortest story: start, make a sandbox, run a command in it, delete it, stop."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
cove = c.Cove()
c.same(cove.get("/v1/health", key=False).json["status"], "ok", "health answers without a key")
box = cove.create()
answer = cove.run(box, "echo hello; id -u; pwd")
c.same((answer["stdout"], answer["exitCode"]), ("hello\n0\n/workspace\n", 0),
       "a command runs in a fresh sandbox")
c.same(cove.delete(box).status, 204, "the sandbox is deleted")
c.same(cove.stop(), 0, "SIGTERM ends cove with status 0")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
