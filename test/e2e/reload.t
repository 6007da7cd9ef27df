#!/usr/bin/env python3
"""the configuration is read anew while cove runs. What is live counts for what is made from then on; a file that
is not right changes nothing."""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

home = tempfile.mkdtemp(prefix="cove-reload-")
FILE = os.path.join(home, "cove.conf")


def write(**settings):
    with open(FILE + ".new", "w") as file:
        for name, value in settings.items():
            file.write("%s = %s\n" % (name.replace("_", "-"), value))
    os.rename(FILE + ".new", FILE)


write(isolate_orgs="acme", boxes_max="50")
cove = s.start("--config=" + FILE)
children = cove.children()


def reload(*words):
    return subprocess.run([cove.binary, "reload", "--data", cove.data] + list(words), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=cove.env, timeout=60)


def lines(event):
    return [json.loads(line) for line in cove.log_text().splitlines() if line.startswith("{") and '"event":"%s"' % event in line]


def gone(sock):
    """Whether the other side has said or ended anything."""
    return bool(select.select([sock], [], [], 0)[0])


def kind(org, **fields):
    return s.Session(cove, org=org, user="u", **fields).made["sandbox_id"][:4]


old = s.Session(cove, org="acme", user="u")
shared = s.Session(cove, org="gamma", user="u")
c.same((old.made["sandbox_id"][:4], shared.made["sandbox_id"][:4]), ("ses-", "org-"), "as the file says at the start")
c.same(old.fate(old.run()), "completed", "an old session at work")
limits = cove.get("/v1/sandboxes/" + old.made["sandbox_id"]).json["limits"]

# ------------------------------------------------------------------------------------------ cove reload
write(isolate_orgs="gamma , beta", boxes_max="50", class_small="cpus=1 memory=512M pids=77", shared_tag="v2", threads="3")
done = reload()
c.ok(done.returncode == 0 and b"reloaded" in done.stderr, "cove reload returns when it counts", done)
c.same((kind("gamma"), kind("acme"), kind("beta")), ("ses-", "org-", "ses-"), "new sessions go by the new list")
c.same((old.get()["sandbox_id"], shared.get()["sandbox_id"]), (old.made["sandbox_id"], shared.made["sandbox_id"]),
       "old ones keep their id")
c.same((old.get()["class"], cove.get("/v1/sandboxes/" + old.made["sandbox_id"]).json["limits"]), ("small", limits),
       "and their class, as it was")
c.same(old.fate(old.run()), "completed", "and work on")
small = s.Session(cove, org="beta", user="u")
c.same(small.fate(small.run()), "completed", "a new one of that class")
got = cove.get("/v1/sandboxes/" + small.made["sandbox_id"]).json["limits"]
c.same((got["memoryMB"], got["pids"]), (512, 77), "has its new size")
moved = s.Session(cove, org="acme", user="moves").made["sandbox_id"]
write(isolate_orgs="gamma", boxes_max="50")
c.same(reload("-q").stderr, b"", "-q says nothing")
c.ok(s.Session(cove, org="acme", user="moves").made["sandbox_id"] != moved, "the tag moves new shared sessions, and back")
c.same(cove.children(), children, "no process of cove was started anew")
c.same(lines("serve.reload_later")[0]["settings"], "threads", "a setting that needs a restart is named in the log")
c.ok("isolate-orgs" in lines("daemon.reloaded")[0]["changed"], "and what changed", lines("daemon.reloaded"))

# ------------------------------------------------------------------------------------------- SIGHUP
write(isolate_orgs="*", boxes_max="2")
before = len(lines("daemon.reloaded"))
os.kill(cove.process.pid, signal.SIGHUP)
c.ok(c.until(lambda: len(lines("daemon.reloaded")) > before), "SIGHUP to the supervisor reaches the daemon")
c.same(kind("nobody"), "ses-", "everyone is selected now")
c.same(cove.post("/v1/sandboxes", {}).json["reason"], "too_many_boxes", "a bound counts at once")

# -------------------------------------------------------------------- names, connections, waits, the log
def called(name):
    return cove.get("/v1/health", headers={"Host": name}).status


c.same(called("cove.example"), 421, "another name is not ours")
write(isolate_orgs="*", boxes_max="2", hosts="cove.example", conns_max="16", queue_wait="1ms", log_level="debug")
c.same(reload().returncode, 0, "all of these are live")
c.same(lines("serve.reload_later")[1:], [], "none waits for a start")
c.same(called("cove.example"), 200, "hosts: a name counts at once")
c.ok(c.until(lambda: any(json.loads(line)["level"] == "debug" for line in cove.log_text().splitlines() if line.startswith("{")) or
             cove.post("/v1/cleanup").status == 0), "log-level: more is logged")
held = [socket.create_connection(("127.0.0.1", cove.port)) for _ in range(40)]
c.ok(c.until(lambda: sum(1 for sock in held if gone(sock)) >= 20), "conns-max: those above the bound are turned away")
for sock in held:
    sock.close()
write(isolate_orgs="*", boxes_max="2", log_format="text")
c.same(c.until(lambda: reload().returncode == 0), True, "and back")
c.same(called("cove.example"), 421, "the name is gone")
c.ok(c.until(lambda: any(not line.startswith("{") for line in cove.log_text().splitlines())), "log-format: the log is text")
write(isolate_orgs="*", boxes_max="2")
c.same(reload().returncode, 0, "as it was")
held = [socket.create_connection(("127.0.0.1", cove.port)) for _ in range(40)]
time.sleep(0.2)
c.same([sock for sock in held if gone(sock)], [], "there is room for more again")
for sock in held:
    sock.close()

# -------------------------------------------------------------------------------------- bad files
for name, settings, word in (("an unknown name", {"isolate_orgs": "", "cats": "1"}, "cats"),
                             ("a bad number", {"isolate_orgs": "", "boxes_max": "many"}, "boxes-max"),
                             ("a malformed class", {"isolate_orgs": "", "class_small": "cpus=lots"}, "class"),
                             ("a bad tag", {"isolate_orgs": "", "shared_tag": "a:b"}, "shared-tag")):
    write(**settings)
    before = len(lines("serve.reload_refused"))
    done = reload()
    c.ok(done.returncode == 2 and b"old one stays" in done.stderr and b"hint:" in done.stderr, "%s is refused" % name, done)
    told = lines("serve.reload_refused")[before:]
    c.ok(len(told) == 1 and word in told[0]["message"], "%s: the log says why" % name, told)
os.unlink(FILE)
c.same(reload().returncode, 2, "a file that is gone is refused, too")
c.same(kind("nobody"), "ses-", "the old values stay")

# ------------------------------------------------------------------------------ it lasts over restarts
s.kill_daemon(cove)
c.same(kind("nobody"), "ses-", "a daemon that is started anew has what counts")
c.same(cove.post("/v1/sandboxes", {}).json["reason"], "too_many_boxes", "all of it")
write(isolate_orgs="acme")
os.kill(cove.children()["daemon"], signal.SIGKILL)
c.same(reload().returncode, 0, "a reload while the daemon is just starting")
s.patiently(lambda: cove.get("/v1/agent-sessions"))
c.same((kind("acme"), kind("nobody")), ("ses-", "org-"), "is not missed by it")
c.same(subprocess.run([cove.binary, "reload", "--data", home], stderr=subprocess.PIPE, env=cove.env).returncode, 3,
       "where no cove serves, nothing is reloaded")
shutil.rmtree(home)
c.done()
