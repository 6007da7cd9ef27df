#!/usr/bin/env python3
"""The official npm clients, as published, against a running cove: the current one over HTTP and over
the WebSocket transport, and 0.4.18, which can send no headers."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

HERE = os.path.join(c.ROOT, "test", "sdk")
WORK = os.path.join(c.ROOT, "build", "sdk")


def drive(label, script, *args, env):
    run = subprocess.Popen(["node", "--no-warnings", "--loader", "./hook.mjs", script, *args], cwd=WORK,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **env))
    count = 0
    failed = None
    notes = []

    def settle():
        if failed:
            c.ok(False, failed, *notes)

    for line in run.stdout:
        line = line.decode(errors="replace").rstrip("\n")
        if line.startswith(("ok - ", "not ok - ")):
            settle()
            failed, notes = None, []
            count += 1
            if line.startswith("ok - "):
                c.ok(True, "%s: %s" % (label, line[5:]))
            else:
                failed = "%s: %s" % (label, line[9:])
        else:
            notes.append(line.lstrip("# "))
    settle()
    run.wait()
    c.ok(run.returncode == 0 and count > 0, "%s: ran to its end" % label, *notes[-30:])


c.need_root()
c.need_programs("node", "npm")
if not c.ok(c.npm_install(HERE, WORK, "hook.mjs", "tap.mjs", "new.mjs", "old.mjs", "rpc.mjs", "object.mjs", "silent.mjs"), "the packages of the lock file are installed"):
    c.done()
cove = c.Cove()
box = cove.create(limits={"memoryMB": 1024})
cove.run(box, "git init -q -b main /tmp/repo && cd /tmp/repo && echo hello > README && git add . && "
              "git -c user.name=t -c user.email=t@example.com commit -qm first", sessionId="__DISABLE_SESSION__")
shown = cove.get("/v1/sandboxes/" + box["id"]).json
env = {
    "SDK_URL": shown.get("baseUrl") or "%s/v1/t/%s/sandboxes/%s" % (cove.url, shown.get("token"), box["id"]),
    "SDK_PLAIN_URL": "%s/v1/sandboxes/%s" % (cove.url, box["id"]),
    "SDK_KEY": cove.key,
    "SDK_REPO": "file:///tmp/repo",
}
drive("0.12.10 http", "new.mjs", "http", env=env)
drive("0.12.10 websocket", "new.mjs", "websocket", env=env)
drive("0.4.18", "old.mjs", env=env)
drive("capnweb", "rpc.mjs", env=env)
for transport in ("http", "websocket", "rpc"):
    drive("0.12.10 object " + transport, "object.mjs", transport, env=env)
c.same(cove.delete(box).status, 204, "the sandbox is deleted")
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
cove.close()
cove = c.Cove("--dev", "--time-scale=30")  # a comment line after half a second of silence
box = cove.create(limits={"memoryMB": 1024})
shown = cove.get("/v1/sandboxes/" + box["id"]).json
drive("silence", "silent.mjs", env={
    "SDK_URL": shown.get("baseUrl") or "%s/v1/t/%s/sandboxes/%s" % (cove.url, shown.get("token"), box["id"]),
    "SDK_PLAIN_URL": "%s/v1/sandboxes/%s" % (cove.url, box["id"]), "SDK_KEY": cove.key, "SDK_REPO": ""})
c.same(cove.close(), 0, "cove stops")
c.done()
