#!/usr/bin/env python3
"""What a fresh box looks like from inside, line by line, against the golden file.

AUDIT_GOLDEN=write writes it anew: read the difference before you commit it.
"""
import base64
import difflib
import os
import platform

from cove import INMATES, ROOT, Cove, done, need_root, ok, same

need_root()
program = os.environ.get("COVE_AUDIT", os.path.join(INMATES, "box-audit"))
golden = os.path.join(ROOT, "test", "audit", "golden." + platform.machine())
cove = Cove()
box = cove.create()
with open(program, "rb") as file:
    data = base64.b64encode(file.read()).decode()
put = cove.run(box, "base64 -d > /tmp/box-audit && chmod 755 /tmp/box-audit", stdin=data)
same(put["exitCode"], 0, "the audit is carried into the box")
answer = cove.run(box, ["/tmp/box-audit"])
same(answer["exitCode"], 0, "the audit runs to its end")
if os.environ.get("AUDIT_GOLDEN") == "write":
    with open(golden, "w") as file:
        file.write(answer["stdout"])
with open(golden) as file:
    want = file.read()
difference = "".join(difflib.unified_diff(want.splitlines(True), answer["stdout"].splitlines(True), "golden", "this box"))
ok(not difference, "the box is exactly as the golden file says", difference)
cove.delete(box)
same(cove.stop(), 0, "cove stops cleanly")
cove.close()
done()
