#!/usr/bin/env python3
"""Room for a cold start, on a 6 GB file system of its own, whose image is sparse; and what else is
counted before a sandbox is made."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import runner  # noqa: E402

c.need_root()
MB = 1 << 20
place = tempfile.mkdtemp(prefix="cove-admission-")
image, mount = os.path.join(place, "image"), os.path.join(place, "fs")


def sh(*argv):
    return subprocess.run(argv, capture_output=True, text=True)


def clean_up():
    sh("umount", mount)
    sh("rm", "-rf", place)


failure = c.mount_image(image, mount, 6000 * MB)
if failure:
    clean_up()
    c.skip_all(failure)
os.chmod(mount, 0o711)
os.chmod(place, 0o711)

THRESHOLD = 2048
cove = s.start("--session-space=%dM" % THRESHOLD, "--disk=directory", data=os.path.join(mount, "data"))


def free_mb():
    got = os.statvfs(mount)
    return got.f_bavail * got.f_frsize // MB


def fill_to(mb):
    """Takes space without writing to it."""
    with open(os.path.join(mount, "filler"), "wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, max(free_mb() - mb, 1) * MB)


def drain():
    os.unlink(os.path.join(mount, "filler"))


def ask(**body):
    body.setdefault("runner", {"argv": runner.argv()})
    return cove.post("/v1/agent-sessions", body)


def shell(session, command):
    run = session.run("shell", command=command)
    fate = session.fate(run)
    return session.look(run)["result"]["output"] if fate == "completed" else fate


# Ages are scaled, as every timer is: 20 minutes are 20 s.
def dead(session, name, age="30 seconds ago", size=400):
    return shell(session, "d=/workspace/%s; mkdir -p $d && fallocate -l %dM $d/big && touch -d '%s' $d" % (name, size, age))


def there(session):
    return shell(session, "ls /workspace")["text"].split()


def forget(reply):
    """What was promised to it is free again."""
    path = "/v1/agent-sessions/" + reply.json["id"]
    cove.request("DELETE", path)
    c.until(lambda: cove.get(path).status == 404)


def alive(session):
    return cove.get("/v1/sandboxes/" + session.made["sandbox_id"]).json.get("state") in ("running", "frozen")


def on_the_host():
    keeper = s.Session(cove, user="owner")
    c.same(keeper.fate(keeper.run()), "completed", "a sandbox on a 6 GB file system")
    names = ["ses-" + ch * 48 for ch in "abc"]
    for name in names:
        dead(keeper, name)
    fill_to(1000)
    reply = ask(user="owner")
    c.same(reply.status, 201, "1 GB free and three dead siblings: accepted")
    c.same(reply.json.get("capacity", {}).get("cleaned"), 3, "three were cleaned")
    c.same([n for n in there(keeper) if n in names], [], "and are gone")
    forget(reply)
    drain()

    live = s.Session(cove, user="owner")
    live.run("sleep", seconds=60)
    live.await_state("active")
    dead(keeper, names[0], size=10)
    dead(keeper, names[1], age="5 seconds ago", size=10)
    dead(keeper, "x'; touch pwned;'".replace("'", "'\\''").join("''"), size=1)
    fill_to(1000)
    leases = {one.id: one.lease() for one in (live,)}
    reply = ask(user="owner")
    c.same((reply.status, reply.json["reason"]), (507, "capacity_rejected"), "still low: rejected")
    context = reply.json["context"]
    c.same((context["cleaned"], context["threshold_mb"]), (1, THRESHOLD), "one directory was removed")
    c.ok(context["skipped"] >= 2 and 0 <= context["available_mb"] < THRESHOLD, "and the answer tells the numbers", context)
    left = there(keeper)
    c.ok(names[1] in left and names[0] not in left and live.made["directory"] in left,
         "what is young, or has a live runner, survives", left)
    c.ok("pwned" not in left and not cove.run(keeper.made["sandbox_id"], "ls / /root | grep pwned")["stdout"],
         "an odd name is neither run nor removed")
    c.same({one.id: one.lease() for one in (live,)}, leases, "no lease was changed")

    dead(keeper, names[2], size=1)
    s.fault(cove, "observe", "fail", count=1)
    reply = ask(user="owner")
    c.same((reply.status, reply.json["context"]["cleaned"]), (507, 0), "when the look fails, nothing is cleaned up")
    s.clear(cove)
    c.ok(names[2] in there(keeper), "the directory is still there")

    drain()
    fill_to(2)
    reply = ask(user="else")
    c.ok(reply.status in (503, 507), "with the host's disk full: refused", reply)
    c.ok(alive(keeper), "and no sandbox is destroyed")
    c.same(live.state(), "active", "running work goes on")
    c.ok(live.delete().status in (202, 204), "deletes still work")
    drain()
    reply = c.until(lambda: (lambda r: r if r.status == 201 else None)(ask(user="else")), 30, 0.3)
    c.ok(reply, "with room again it goes on by itself")
    forget(reply)

    s.fault(cove, "capacity", "fail")
    reply = ask(user="other")
    c.same((reply.status, reply.json["reason"]), (503, "capacity_unknown"), "a measurement that fails: unknown")
    s.fault(cove, "capacity", "hang")
    reply = ask(user="other")
    c.same((reply.status, reply.json["reason"]), (503, "capacity_unknown"), "a hanging measurement is unknown after its deadline")
    c.ok(alive(keeper), "and the sandbox lives")
    s.clear(cove)

    said = shell(keeper, "echo 'no space left on device' >&2; exit 1")
    c.same((said["exit"], said["text"]), (1, "no space left on device\n"), "a tool that says so")
    reply = ask(user="owner")
    c.ok(reply.status == 201 and alive(keeper), "is no evidence", reply)
    forget(reply)

    fill_to(5000)
    answers = []
    threads = [threading.Thread(target=lambda i=i: answers.append(ask(user="many%d" % i))) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [a for a in answers if a.status == 201]
    c.same((len(taken), sum(a.status == 507 for a in answers)), (2, 18), "20 cold starts at 5 GB: as many as fit are accepted")
    runs = []
    for reply in taken:
        one = object.__new__(s.Session)
        one.cove, one.made, one.id, one.path = cove, reply.json, reply.json["id"], "/v1/agent-sessions/" + reply.json["id"]
        runs.append(shell(one, "fallocate -l 1500M $COVE_WORKSPACE/work && echo fits"))
    c.same([run["text"] if isinstance(run, dict) else run for run in runs], ["fits\n"] * 2, "and none of them dies of ENOSPC")
    drain()
    c.same(cove.close(), 0, "cove ends well")


def on_its_own_image():
    """Each sandbox has a file system of its own; what is proven of that one is held against no other."""
    keeper, sibling = s.Session(cove, user="owner"), s.Session(cove, user="owner")
    other = s.Session(cove, user="other")
    for one in (keeper, sibling, other):
        c.same(one.fate(one.run()), "completed", "a session works")
    shell(keeper, "echo kept > $COVE_WORKSPACE/note")
    # By no run: one without output is ended after 5 s here, and a busy disk takes longer.
    cove.run(keeper.made["sandbox_id"], "cd /workspace; for i in 1 2 3; do dd if=/dev/zero of=fill$i bs=64k; dd if=/dev/zero of=last$i bs=4k oflag=dsync; done; true")
    c.same(shell(keeper, "head -c 8192 /dev/zero > $COVE_WORKSPACE/more && echo written || echo full")["text"].split()[-1], "full", "an image filled to the last byte")
    reply = ask(user="owner")
    c.same((reply.status, reply.json["reason"]), (507, "capacity_rejected"), "full is low: rejected")
    c.same(shell(keeper, "cat $COVE_WORKSPACE/note")["text"], "kept\n", "its files stay")
    cove.run(keeper.made["sandbox_id"], "rm /workspace/fill* /workspace/last*")

    busy = sibling.run("sleep", seconds=60)
    sibling.await_state("active")
    first = pid1(keeper.made["sandbox_id"])
    bystander = pid1(other.made["sandbox_id"])
    c.same(sh("nsenter", "-t", str(first), "-m", "mount", "-o", "remount,ro", "/").returncode, 0, "the file system is remounted read-only")
    late = s.Session(cove, user="owner")
    run = late.run()
    c.same(sibling.fate(busy), "failed sandbox_destroyed", "a sibling's run ends, and is told why")
    c.same(late.fate(run, 40), "completed", "the sandbox is rebuilt, and works")
    c.ok(pid1(keeper.made["sandbox_id"]) != first and pid1(other.made["sandbox_id"]) == bystander, "only it is rebuilt")
    c.same(sibling.fate(sibling.run()), "completed", "the sibling works in the new one")

    busy = sibling.run("sleep", seconds=60)
    sibling.await_state("active")
    first = pid1(keeper.made["sandbox_id"])
    s.fault(cove, "capacity", "enospc")
    reply = ask(user="owner")
    c.same((reply.status, reply.json["reason"]), (507, "filesystem_unusable"), "ENOSPC while probing its own file system: unusable")
    c.same(sibling.fate(busy), "failed sandbox_destroyed", "the sibling's run ends, it does not hang")
    c.ok(pid1(keeper.made["sandbox_id"]) is None or pid1(keeper.made["sandbox_id"]) != first, "that sandbox is removed")
    c.ok(alive(other), "and no other")
    c.same(sibling.fate(sibling.run()), "completed", "and made anew for whoever wants it")


def facts():
    """What the setup of a workspace finds out about a sandbox: it does not answer, it cannot be controlled, no directory can be
    made in it. Each fails the setup, and that sandbox is made again for the same run."""
    def held(**owner):
        """A session with a run that waits before the setup, its sandbox having been looked at."""
        one = s.Session(cove, user="facts", **owner)
        waits = s.hold(cove, one, "launch")
        run = one.run()
        waits()
        return one, run

    def rebuilt(what, one, run, first, reason):
        c.same(one.fate(run, 90), "completed", "%s: the run completes" % what)
        c.ok(pid1(one.made["sandbox_id"]) not in (first, None), "%s: in a sandbox that was made again" % what)
        c.ok('"event":"sandbox.setup_failed"' in cove.log_text() and reason in cove.log_text(), "%s: the log has the reason" % what)

    neighbour = s.Session(cove, user="facts")
    c.same(neighbour.fate(neighbour.run()), "completed", "a sandbox with a session")
    bystander = s.Session(cove, user="bystander")
    c.same(bystander.fate(bystander.run()), "completed", "and another sandbox")
    aside = pid1(bystander.made["sandbox_id"])
    box = neighbour.made["sandbox_id"]

    one, run = held()
    first = pid1(box)
    os.kill(first, signal.SIGSTOP)
    s.release(cove, one, "launch")
    rebuilt("pid 1 is stopped", one, run, first, "the sandbox did not answer")

    one, run = held()
    first = pid1(box)
    s.fault(cove, "probe", "fail", session=one.id)
    s.release(cove, one, "launch")
    rebuilt("control of the sandbox fails", one, run, first, "a fault was set at 'probe'")

    busy = neighbour.run("sleep", seconds=600)
    c.ok(neighbour.await_state("active", seconds=60), "a sibling works")
    one, run = held()
    first = pid1(box)
    cove.run(box, "cp -a /workspace /was && rm -rf /workspace && echo x > /workspace", cwd="/")
    s.release(cove, one, "launch")
    c.same(neighbour.fate(busy, 90), "failed sandbox_destroyed", "the workspace is a file: a sibling's run ends, and is told why")
    rebuilt("the workspace is a file", one, run, first, "prepare the workspace")
    c.same(neighbour.fate(neighbour.run(), 90), "completed", "the sibling works in the new sandbox")

    one, run = held(files=[{"path": "/etc", "content": "x"}])
    first = pid1(box)
    s.release(cove, one, "launch")
    c.same((one.fate(run, 90), pid1(box)), ("failed files_not_written", first), "a file that cannot be written ends the run, and no sandbox")
    c.same(pid1(bystander.made["sandbox_id"]), aside, "no other sandbox was touched")


def pid1(box):
    for pid in c._pids():
        try:
            with open("/proc/%d/cgroup" % pid) as groups, open("/proc/%d/status" % pid, errors="replace") as status:
                numbers = [line.split()[1:] for line in status if line.startswith("NSpid:")][0]
                if box in groups.read() and numbers[-1] == "1":
                    return pid
        except (OSError, IndexError):
            pass
    return None


def refused(reply, reason):
    return reply.status in (429, 503, 507) and reply.json["reason"] == reason and re.search(r"; position 1 in line", reply.json["message"])


def counted():
    """What is counted before a sandbox is made; each refusal has its reason and a position."""
    boxes = [cove.create() for _ in range(3)]
    reply = cove.post("/v1/sandboxes", {})
    c.ok(refused(reply, "host_loops"), "loop devices are counted ahead: refused, with a position", reply)
    threads = [threading.Thread(target=lambda: cove.post("/v1/sandboxes", {})) for _ in range(3)]
    for thread in threads:
        thread.start()
    seen = []

    def all_wait():
        seen[:] = [i["waiting"] for i in cove.get("/v1/sandboxes").json["items"] if i.get("waiting")]
        return len(seen) == 3
    c.until(all_wait, 10)
    for thread in threads:
        thread.join()
    c.ok(all(w["reason"] == "host_loops" for w in seen) and sorted(w["position"] for w in seen) == [1, 2, 3],
         "who waits is shown, with reason and position", seen)
    cove.post("/v1/sandboxes/%s/stop" % boxes[0]["id"])
    c.ok(c.until(lambda: cove.post("/v1/sandboxes", {}).status == 201), "a stopped sandbox gives its device back")
    c.ok(refused(cove.execute(boxes[0], "true"), "host_loops"), "waking one takes a device, too")
    for item in cove.get("/v1/sandboxes").json["items"]:
        cove.delete(item)


try:
    on_the_host()
    cove = s.start("--disk=ext4-image", "--class-standard=disk=64M", data=os.path.join(mount, "data2"))
    on_its_own_image()
    c.same(cove.close(), 0, "cove ends well")
    cove = s.start()
    facts()
    c.same(cove.close(), 0, "cove ends well")
    cove = c.Cove("--disk=ext4-image", "--loops-max=3", "--queue-wait=2s")
    counted()
    c.same(cove.stop(), 0, "cove ends well")
    c.same(c.remains(cove), {}, "nothing is left behind")
finally:
    cove.close()
    c.until(lambda: sh("umount", mount).returncode == 0, 30, 0.2)
    clean_up()
c.done()
