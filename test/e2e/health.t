#!/usr/bin/env python3
"""Health: what it says, to whom, and that it says so at once whatever hangs."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

c.need_root()
c.need_mounts()
cove = s.start(scale=1)
seen = cove.get("/v1/health")
c.ok(seen.status == 200 and seen.json["status"] == "ok" and seen.json["reasons"] == [] and {"active", "stuck", "orphaned", "failureRate", "alerts"} <= set(seen.json), "F-1: the operator sees all", seen)
c.same((seen.json["failureRate"], seen.json["alerts"]), (None, {"critical": 0, "warning": 0}), "F-1: unknown is null")
c.same(cove.get("/api/sandbox/health").json.keys(), seen.json.keys(), "F-1: the alias")
c.same(set(cove.get("/v1/health", key=False).json), {"status", "version"}, "without a key there is the status alone")

# ------------------------------------------------------------------------------------------ ten runners that hang
sessions = [s.Session(cove, user="u%d" % i) for i in range(10)]
runs = [session.run("print", times=600, every=1) for session in sessions]
c.ok(c.until(lambda: all(session.lease()["state"] == "active" for session in sessions), 120, 0.2), "ten runners work", [session.lease()["state"] for session in sessions])
held = []
for pid in c._pids():
    try:
        with open("/proc/%d/cgroup" % pid) as groups, open("/proc/%d/cmdline" % pid, errors="replace") as line:
            if cove.instance() in groups.read() and "python3" in line.read():
                os.kill(pid, signal.SIGSTOP)
                held.append(pid)
    except (OSError, ProcessLookupError):
        pass
c.ok(len(held) >= 10, "and are stopped", len(held))
times = []
for path in ("/v1/health", "/api/sandbox/health", "/v1/metrics", "/metrics", "/v1/alerts"):
    for _ in range(20):
        began = time.monotonic()
        status = cove.get(path).status
        times.append(time.monotonic() - began)
        if status != 200:
            c.ok(False, "an answer of " + path, status)
times.sort()
c.ok(times[len(times) // 2] < 0.1, "F-1: answers take less than 100 ms while ten runners are stopped", times[len(times) // 2], times[-1])
c.ok(times[-1] < 10, "and none waits for them", times[-5:])
for pid in held:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
c.same(cove.stop(seconds=90), 0, "cove ends")

# ------------------------------------------------------------------------------------------ unhealthy
image, mount = os.path.join(cove.home, "disk"), os.path.join(cove.home, "small")
why = c.mount_image(image, mount, 400 << 20)
if why:
    c.skip("a full disk", why)
    c.done()
small = c.Cove(data=os.path.join(mount, "data"))
c.same(small.get("/v1/health").status, 200, "a cove on a small disk")
with open(os.path.join(mount, "filler"), "wb") as file:
    try:
        while True:
            file.write(b"\0" * 65536)
            file.flush()
    except OSError:
        pass
sick = c.until(lambda: (lambda r: r if r.status == 503 else None)(small.get("/v1/health")), 60)
c.ok(sick and sick.json["status"] == "unhealthy" and {r["code"] for r in sick.json["reasons"]} & {"host_disk", "state_unwritable"} and all(r["hint"] for r in sick.json["reasons"]),
     "no sandbox can be made: 503, with the reason", sick)
c.same(small.get("/v1/health", key=False).json["status"], "unhealthy", "also without a key")
os.unlink(os.path.join(mount, "filler"))
c.ok(c.until(lambda: small.get("/v1/health").status == 200, 60), "and 200 when there is room again")
c.same(small.stop(), 0, "cove ends")
small.close()
c.subprocess.run(["umount", "-l", mount])
c.done()
