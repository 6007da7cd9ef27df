#!/usr/bin/env python3
"""Room for a cold start: lifecycle.md section 3, on a small file system of its own."""
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import convs as s  # noqa: E402
import runner  # noqa: E402

MB = 1 << 20
place = tempfile.mkdtemp(prefix="cove-admission-")
image, mount = os.path.join(place, "image"), os.path.join(place, "fs")


def sh(*argv):
    return subprocess.run(argv, capture_output=True, text=True)


def clean_up():
    sh("umount", mount)
    sh("rm", "-rf", place)


os.mkdir(mount)
with open(image, "wb") as file:
    file.truncate(1200 * MB)
if sh("mkfs.ext4", "-q", "-m", "0", image).returncode or sh("mount", "-o", "loop", image, mount).returncode:
    clean_up()
    c.skip_all("a loop device cannot be mounted here")
os.chmod(mount, 0o711)
os.chmod(place, 0o711)

THRESHOLD = 200
cove = s.start("--session-space=%dM" % THRESHOLD, "--disk=directory", data=os.path.join(mount, "data"))


def free_mb():
    got = os.statvfs(mount)
    return got.f_bavail * got.f_frsize // MB


def fill_to(mb):
    with open(os.path.join(mount, "filler"), "wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, max(free_mb() - mb, 1) * MB)


def drain():
    os.unlink(os.path.join(mount, "filler"))


def ask(**body):
    body.setdefault("runner", {"argv": runner.argv()})
    return cove.post("/v1/sessions", body)


def dead(session, name, age="1 hour ago", size=60):
    command = ("d=/workspace/%s; mkdir -p $d && head -c %d /dev/zero > $d/big && touch -d '%s' $d" % (name, size * MB, age))
    run = session.run("shell", command=command)
    session.fate(run)
    return session.look(run)["result"]["output"]


def there(session):
    run = session.run("shell", command="ls /workspace")
    session.fate(run)
    return session.look(run)["result"]["output"]["text"].split()


try:
    keeper = s.Session(cove, user="owner")
    c.same(keeper.fate(keeper.run()), "completed", "a sandbox on a small file system")
    names = ["ses-" + ch * 48 for ch in "abc"]
    for name in names:
        dead(keeper, name)
    fill_to(THRESHOLD - 100)
    reply = ask(user="owner")
    c.same(reply.status, 201, "C-2 (1) low, enough after dead siblings were cleaned up: accepted")
    c.same(reply.json.get("capacity", {}).get("cleaned"), 3, "C-3 (1) three were cleaned")
    c.same([n for n in there(keeper) if n in names], [], "C-3 (1) and are gone")
    cove.request("DELETE", "/v1/sessions/" + reply.json["id"])
    drain()

    live = s.Session(cove, user="owner")
    live.run("sleep", seconds=60)
    live.await_state("active")
    dead(keeper, names[0], size=10)
    dead(keeper, names[1], age="now", size=10)
    dead(keeper, "x'; touch pwned;'".replace("'", "'\\''").join("''"), size=1)
    fill_to(60)
    reply = ask(user="owner")
    c.same((reply.status, reply.json["reason"]), (507, "capacity_rejected"), "C-6 (2) still low: rejected")
    context = reply.json["context"]
    c.same(context["cleaned"], 1, "C-3 (2) one was cleaned")
    c.ok(context["skipped"] >= 2 and context["threshold_mb"] == THRESHOLD and 0 <= context["available_mb"] < THRESHOLD,
         "C-6 (2) and the answer tells the numbers", context)
    left = there(keeper)
    c.ok(names[1] in left and names[0] not in left and live.made["directory"] in left,
         "C-3 (2) what is young, or has a live runner, survives", left)
    c.ok("pwned" not in left and not cove.run(keeper.made["sandbox_id"], "ls / /root | grep pwned")["stdout"],
         "C-3 (7) an odd name is neither run nor removed")
    c.same(live.state(), "active", "C-6 (2) no lease was changed")

    dead(keeper, names[2], size=1)
    s.fault(cove, "observe", "fail", count=1)
    reply = ask(user="owner")
    c.same(reply.status, 507, "C-4 (3) when the look fails")
    s.clear(cove)
    c.ok(names[2] in there(keeper), "C-4 (3) nothing is cleaned up")

    drain()
    fill_to(2)
    reply = ask(user="else")
    c.ok(reply.status in (503, 507), "C-7 (5) with the host's disk full: refused", reply)
    c.same(cove.get("/v1/sandboxes/" + keeper.made["sandbox_id"]).status, 200, "C-7 (5) and no sandbox is destroyed")
    c.same(live.state(), "active", "C-7 (5) running work goes on")
    c.ok(live.delete().status in (202, 204), "C-7 (5) deletes still work")
    drain()
    c.ok(c.until(lambda: ask(user="else").status == 201, 20, 0.3), "C-7 (5) with room again it goes on by itself")

    s.fault(cove, "capacity", "fail")
    reply = ask(user="other")
    c.same((reply.status, reply.json["reason"]), (503, "capacity_unknown"), "C-6 (6) a measurement that fails: unknown")
    c.same(cove.get("/v1/sandboxes/" + keeper.made["sandbox_id"]).json["state"] in ("running", "frozen"), True,
           "C-6 (6) and the sandbox lives")
    s.clear(cove)

    time.sleep(16)  # promises that nobody came for are forgotten after 15 minutes (scaled)
    fill_to(3 * THRESHOLD + 40)
    answers = []
    threads = [threading.Thread(target=lambda i=i: answers.append(ask(user="many%d" % i).status)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    c.same((answers.count(201), answers.count(507)), (3, 17), "C-9 (9) twenty cold starts: as many as fit are accepted")
    c.same(cove.close(), 0, "cove ends well")
finally:
    cove.close()
    c.until(lambda: sh("umount", mount).returncode == 0, 10, 0.2)
    clean_up()
c.done()
