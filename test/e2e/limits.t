#!/usr/bin/env python3
"""I-48, live limits: memory, CPUs, processes and disk of a sandbox change at once, all or nothing, never below what is in use, within
quota, on every disk driver; a change that was told holds after kills, restarts, stop and start."""
import json
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

HOLD = "import sys,time; b=bytearray(int(sys.argv[1])<<20); b[::4096]=b'x'*len(b[::4096]); print('held', flush=True); time.sleep(600)"


def at(box):
    return "/v1/sandboxes/" + box["id"]


def change(cove, box, **limits):
    key = limits.pop("key", True)
    return cove.request("PATCH", at(box), {"limits": limits}, key=key)


def shown(cove, box):
    return cove.get(at(box)).json["limits"]


def step(cove, box, verb):
    reply = cove.post(at(box) + "/" + verb)
    assert reply.status == 200, reply
    return reply


def hold(cove, box, megabytes):
    """Starts a process in the sandbox that holds so much memory; True: it does, False: it died."""
    name = "hold%d" % megabytes
    reply = cove.post(at(box) + "/api/process/start", {"command": "python3 -c \"%s\" %d" % (HOLD, megabytes), "processId": name})
    assert reply.status in (200, 201), reply

    def outcome():
        if "held" in cove.get(at(box) + "/api/process/%s/logs" % name).json["stdout"]:
            return "held"
        state = cove.get(at(box) + "/api/process/" + name).json
        return "died" if (state.get("process") or state)["status"] not in ("starting", "running") else None

    result = []
    c.until(lambda: result.append(outcome()) or result[-1], 40, 0.1)
    return result[-1] == "held"


def drop(cove, box, megabytes):
    cove.request("DELETE", at(box) + "/api/process/hold%d" % megabytes)
    c.ok(c.until(lambda: cove.run(box, "pgrep -f hold >/dev/null || ! pgrep -f bytearray")["exitCode"] == 0, 30, 0.1), "the process has ended")


def kernel(cove, box, *files):
    """The numbers that the kernel enforces: files are those of cgroup v2 and v1."""
    for root in c.cgroup_roots():
        for name in files:
            for where, _, _ in os.walk(root):
                if os.path.basename(where) == box["id"] and os.path.exists(os.path.join(where, name)):
                    return open(os.path.join(where, name)).read().split()
    return None


def fills(cove, box, megabytes):
    return cove.run(box, "dd if=/dev/urandom of=/workspace/fill bs=1M count=%d 2>/dev/null && sync" % megabytes)["exitCode"] == 0


def running(cove):
    box = cove.create(limits={"memoryMB": 128, "pids": 40, "cpus": 0.5})
    c.same(hold(cove, box, 200), False, "200 MB do not fit in 128")
    reply = change(cove, box, memoryMB=400, pids=80, cpus=1)
    c.same((reply.status, [reply.json["limits"][k] for k in ("memoryMB", "pids", "cpus")]), (200, [400, 80, 1]),
           "a running sandbox gets other limits, and the answer has them")
    c.same(kernel(cove, box, "memory.max", "memory.limit_in_bytes"), [str(400 << 20)], "the kernel enforces the memory")
    c.same(kernel(cove, box, "pids.max"), ["80"], "and the processes")
    c.same((kernel(cove, box, "cpu.max") or kernel(cove, box, "cpu.cfs_quota_us"))[0], "100000", "and the CPUs")
    c.same(hold(cove, box, 201), True, "200 MB fit in 400")
    reply = change(cove, box, memoryMB=128, pids=60)
    c.same((reply.status, reply.json["code"], reply.json["reason"], bool(reply.json["hint"])), (409, "CONFLICT", "below_use", True),
           "memory below what is in use is refused, with a hint")
    c.same([shown(cove, box)[k] for k in ("memoryMB", "pids")], [400, 80], "all or nothing: the other limit of that request is not changed")
    c.same((kernel(cove, box, "memory.max", "memory.limit_in_bytes"), kernel(cove, box, "pids.max")), ([str(400 << 20)], ["80"]),
           "in the kernel neither")
    cove.run(box, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 600 >/dev/null 2>&1 & done; true")
    reply = change(cove, box, pids=8)
    c.same((reply.status, reply.json["reason"]), (409, "below_use"), "so are processes below those that run")
    drop(cove, box, 201)
    c.same(change(cove, box, memoryMB=100).status, 200, "when the memory is free, it shrinks")
    c.same(hold(cove, box, 150), False, "and 150 MB do not fit in 100")
    c.same(cove.run(box, "cat /dev/zero | head -c 60000000 >/workspace/cached; cat /workspace/cached >/dev/null")["exitCode"], 0,
           "page cache fills what is left")
    c.same(change(cove, box, memoryMB=64).status, 200, "page cache gives way to a smaller limit")
    return box


def refused(cove, box):
    for body, reason in (({"memoryMB": 1}, "bad_field"), ({"cpus": 4096}, "bad_field"), ({"pids": "8"}, "bad_field"),
                         ({"inodes": 5000}, "bad_field"), ({"memory": 5}, "unknown_field"), ([], "bad_field")):
        reply = cove.request("PATCH", at(box), {"limits": body})
        c.same((reply.status, reply.json["reason"]), (400, reason), "limits %s are refused" % json.dumps(body))
    reply = cove.request("PATCH", at(box), {"limits": {"pids": 50}, "labels": {"a": "b"}})
    c.same((reply.status, reply.json["reason"]), (400, "bad_field"), "limits are changed by a request of their own")
    if cove.get("/v1/health").json.get("cgroup") != "v2":
        reply = change(cove, box, ioMBps=20)
        c.ok(reply.status == 200 or reply.json["reason"] == "no_io_limit", "disk bandwidth is limited, or refused in words", reply)
    c.same(cove.request("PATCH", "/v1/sandboxes/none", {"limits": {"pids": 50}}).status, 404, "a sandbox that does not exist is a 404")


def quota(cove):
    cove.request("PUT", "/v1/tenants/acme", {"host": True, "quota": {"memoryMB": 300, "cpus": 2, "diskMB": 600}})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "use", "make"]}).json["key"]
    box = cove.post("/v1/sandboxes", {"limits": {"memoryMB": 100, "cpus": 0.5, "diskMB": 100}}, key=key).json
    for limits in ({"memoryMB": 301}, {"cpus": 2.5}, {"diskMB": 900}):
        reply = change(cove, box, key=key, **limits)
        c.ok(reply.status in (429, 400) and reply.json["reason"] in ("quota", "bad_field"), "the quota refuses %s" % limits, reply)
    c.same(change(cove, box, key=key, memoryMB=290).status, 200, "within the quota it grows")
    used = cove.get("/v1/tenants/acme").json["used"]
    c.same((used["memoryMB"], used["diskMB"], used["boxes"]), (290, 100, 1), "and is counted as it is now")
    c.same(cove.post("/v1/sandboxes", {"limits": {"memoryMB": 100, "diskMB": 100}}, key=key).json["reason"], "quota", "a create sees it")
    c.same(change(cove, box, key=key, memoryMB=100).status, 200, "it shrinks")
    c.same(cove.post("/v1/sandboxes", {"limits": {"memoryMB": 100, "diskMB": 100}}, key=key).status, 201, "and another has room")
    other = cove.create()
    c.same(change(cove, other, key=key, pids=50).status, 404, "another tenant's sandbox is a 404")
    for one in cove.get("/v1/sandboxes", key=key).json["items"]:
        cove.delete(one)
    cove.delete(other)


def disks(cove, word):
    box = cove.create(limits={"diskMB": 64})
    c.same(fills(cove, box, 100), False, word + ": 100 MB do not fit in 64")
    cove.run(box, "rm -f /workspace/fill; echo kept >/workspace/kept; sync")
    if word == "ext4-image":
        reply = change(cove, box, diskMB=200)
        c.same((reply.status, reply.json["reason"], "stop" in reply.json["hint"]), (409, "running", True),
               word + ": an image is not resized while it is mounted, and the answer says what to do")
        c.same(change(cove, box, memoryMB=256).status, 200, word + ": other limits of the running sandbox are")
        step(cove, box, "stop")
    c.same(change(cove, box, diskMB=200).status, 200, word + ": the disk grows")
    c.same(fills(cove, box, 150), True, word + ": 150 MB fit in 200")
    if word == "ext4-image":
        step(cove, box, "stop")
    reply = change(cove, box, diskMB=100)
    c.same((reply.status, reply.json["reason"]), (409, "below_use"), word + ": it does not shrink below what is on it")
    c.same(shown(cove, box)["diskMB"], 200, word + ": the limit is as it was")
    c.same(cove.out(box, "stat -c %s /workspace/fill; rm /workspace/fill; cat /workspace/kept"), "%d\nkept\n" % (150 << 20),
           word + ": nor is anything lost")
    step(cove, box, "stop")
    c.same(change(cove, box, diskMB=100, memoryMB=300).status, 200, word + ": emptied and stopped it shrinks")
    c.same(fills(cove, box, 150), False, word + ": 150 MB do not fit in 100")
    c.same(cove.out(box, "rm /workspace/fill; cat /workspace/kept"), "kept\n", word + ": its files are there")
    c.same(kernel(cove, box, "memory.max", "memory.limit_in_bytes"), [str(300 << 20)], word + ": it was started with its other new limits")
    cove.delete(box)


def lasting(cove, driver):
    box = cove.create(limits={"memoryMB": 128, "diskMB": 64 if driver == "btrfs" else 128}, name="lasting")
    c.same(change(cove, box, memoryMB=256, diskMB=128).status, 200, "a sandbox grows")
    for who in ("daemon", "warden"):
        os.kill(cove.children()[who], signal.SIGKILL)
        c.ok(c.until(lambda: c.patiently(lambda: cove.execute(box, "true")).status == 200, 40, 0.2), "the %s is killed and back" % who)
        c.same([shown(cove, box)[k] for k in ("memoryMB", "diskMB")], [256, 128], "the limits are the new ones after that")
        c.same(kernel(cove, box, "memory.max", "memory.limit_in_bytes"), [str(256 << 20)], "in the kernel, too")
        c.same(fills(cove, box, 100), True, "100 MB fit on its disk")
    step(cove, box, "stop")
    step(cove, box, "start")
    c.same(kernel(cove, box, "memory.max", "memory.limit_in_bytes"), [str(256 << 20)], "and after stop and start")
    c.same(fills(cove, box, 100), True, "its disk, too")
    step(cove, box, "pause")
    c.same(change(cove, box, memoryMB=200).status, 200, "a paused sandbox is changed")
    c.same(step(cove, box, "resume").json["limits"]["memoryMB"], 200, "and stays paused until it is resumed")
    return box


def kills(cove, box):
    """kill -9 during changes: what was told holds; else the limits are the former or the wanted ones, and the same in record and kernel."""
    for turn in range(4):
        want, was = (160, 320)[turn % 2], shown(cove, box)["memoryMB"]
        told = []

        def ask():
            try:
                told.append(change(cove, box, memoryMB=want).status)
            except (OSError, ValueError, KeyError, RuntimeError, c.http.client.HTTPException):
                pass

        thread = threading.Thread(target=ask)
        pid = c.until(lambda: cove.children().get(("warden", "daemon")[turn // 2]), 30)  # after the kill before
        thread.start()
        if turn % 3:
            c.until(lambda: not thread.is_alive(), 0.002 * turn, 0.001)
        os.kill(pid, signal.SIGKILL)
        thread.join()
        c.ok(c.until(lambda: c.patiently(lambda: cove.execute(box, "true")).status == 200, 40, 0.2), "it is back (%d)" % turn)
        # A sweep settles what is open. One that finds no warden yet leaves it to the next.
        agrees = c.until(lambda: c.patiently(lambda: cove.post("/v1/cleanup")) and
                         kernel(cove, box, "memory.max", "memory.limit_in_bytes") == [str(shown(cove, box)["memoryMB"] << 20)], 30, 0.2)
        now = shown(cove, box)["memoryMB"]
        c.ok(now == want if told == [200] else now in (want, was), "what was told holds", told, now, want, was)
        c.ok(agrees, "record and kernel agree", kernel(cove, box, "memory.max", "memory.limit_in_bytes"), now)


def words(cove, box, driver):
    cli, disk = c.Cli(cove.data), "150" if driver == "btrfs" else "128"
    out = cli("update", "lasting", "--memory", "192m", "--cpus", "0.5", "--pids", "64", "--disk", disk + "m")
    c.same((out.status, out.out), (0, b"lasting\n"), "'cove update' changes limits")
    c.same([shown(cove, box)[k] for k in ("memoryMB", "cpus", "pids", "diskMB")], [192, 0.5, 64, int(disk)], "all of them")
    out = cli("update", "lasting")
    c.ok(out.status != 0 and "--memory" in out.err, "without an option it says what is missing", out)
    out = cli("update", "lasting", "--pids", "0")
    c.ok(out.status != 0, "a malformed limit is refused", out)
    out = json.loads(cli("inspect", "lasting").out)
    c.same((out[0] if isinstance(out, list) else out)["limits"]["memoryMB"], 192, "'cove inspect' shows them")
    events = [e for e in cove.get("/v1/events?kind=sandbox.limits&limit=1000").json["items"] if e["sandbox"] == box["id"]]
    c.ok(events and events[-1].get("memoryMB", events[-1].get("fields", {}).get("memoryMB")) == "192", "an event tells of each change", events[-1:])


c.need_root()
done = False
for driver in ("btrfs", "ext4-image"):
    cove = c.Cove("--disk", driver, start=False)
    try:
        cove.start()
    except Exception as err:  # noqa: BLE001
        c.skip(driver, "this host cannot: %s" % err)
        cove.close()
        continue
    disks(cove, driver)
    if not done:
        box = running(cove)
        refused(cove, box)
        cove.delete(box)
        quota(cove)
        box = lasting(cove, driver)
        kills(cove, box)
        words(cove, box, driver)
        done = True
    c.ok(cove.get("/v1/verify").json["ok"], driver + ": verify is clean", cove.get("/v1/verify"))
    c.ok(not [name for name in os.listdir(os.path.join(cove.data, "boxes")) if name.startswith(".resize")], driver + ": nothing is left over")
    cove.close()
c.done()
