#!/usr/bin/env python3
"""The mark `unsynced`: a sandbox with work that was not brought back is not deleted by any door without force (pair 22 and
section 5, 5 and 27). Each door is tried on a marked sandbox and, as the control, on one without the mark."""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
HOME = tempfile.mkdtemp(prefix="cove-guard-")
BOX = "/v1/sandboxes/"


def state(cove, box):
    reply = cove.get(BOX + box)
    return reply.json["state"] if reply.status == 200 else reply.status


def mark(cove, box, on=True):
    return cove.request("PATCH", BOX + box, {"unsynced": on})


def marked(cove, box):
    return cove.get(BOX + box).json.get("unsynced", False)


def worktree(name):
    work = os.path.join(HOME, name)
    os.makedirs(work)
    with open(work + "/a", "w") as file:
        file.write("base\n")
    return work


def killed_run(cove, work, script):
    """A run whose caller is killed once the script has printed a line. Its sandbox and its id."""
    child = c.Cli(cove.data, cwd=work, HOME=HOME).popen("agent", "run", "--json", "--", "sh", "-c", script)
    box = run = None
    for line in child.stdout:
        event = json.loads(line)
        box, run = event.get("sandbox", box), event.get("run", run)
        if event.get("stream"):
            break
    child.kill()
    child.communicate()
    return box, run


def doors(cove):
    for name, method, path in (("DELETE", "DELETE", BOX + "%s"), ("DELETE without waiting", "DELETE", BOX + "%s?wait=false"),
                               ("the bridge's DELETE", "DELETE", "/v1/sandbox/%s")):
        held, free = cove.create(name="abcdefghijklmn23")["id"], cove.create()["id"]
        word = "abcdefghijklmn23" if "bridge" in name else held
        mark(cove, held)
        got = cove.request(method, path % word)
        c.ok(got.status == 409 and state(cove, held) == "running", "pair 22: %s of an unsynced sandbox is refused" % name, got)
        c.ok("bridge" in name or (got.json["reason"] == "unsynced" and "force" in got.json["hint"]), "with the reason and what to do", got)
        got = cove.request(method, path % word + ("&" if "?" in path else "?") + "force=true")
        c.ok(got.status in (202, 204) and c.until(lambda: state(cove, held) == 404), "and done with force", got)
        c.ok(cove.request("DELETE", BOX + free).status == 204, "one without the mark goes")
    box = cove.create()["id"]
    c.ok(cove.request("DELETE", BOX + box + "?force=maybe").status == 400 and cove.delete(box).status == 204, "force is a flag")
    box = cove.create(ephemeral=True)["id"]
    got = mark(cove, box)
    c.ok(got.status == 409 and got.json["reason"] == "ephemeral", "a sandbox that keeps no files cannot be marked", got)
    cove.delete(box)


def failed_name(cove):
    box = cove.request("PUT", BOX + "kept", {}).json["id"]
    cove.run(box, "echo work > /workspace/work; sync")
    mark(cove, box)
    for each in c._pids():
        if c._comm(each) == "cove-init" and c._is_boxed(each, cove.instance()):
            os.kill(each, 9)
    c.ok(c.until(lambda: state(cove, box) == "failed", 30), "its pid 1 is killed: it has failed")
    got = cove.request("PUT", BOX + "kept", {})
    c.ok(got.status == 409 and got.json["reason"] == "unsynced", "pair 22: PUT of its name does not replace it", got)
    got = c.until(lambda: [x for x in [cove.post(BOX + "kept/start")] if x.status == 200], 30)  # its remains are being taken down
    c.ok(got and cove.run(box, "cat /workspace/work")["stdout"] == "work\n", "start brings the work back", got)
    mark(cove, box, False)
    c.ok(cove.delete(box).status == 204, "without the mark it goes")


def times(cove):
    held, free = cove.create(ttl="1s")["id"], cove.create(ttl="1s")["id"]
    mark(cove, held)
    c.ok(c.until(lambda: state(cove, free) == 404, 40), "control: the time to live deletes")
    c.ok(c.until(lambda: state(cove, held) == "stopped", 40), "pair 27: the time to live of an unsynced sandbox stops it", state(cove, held))
    c.ok(cove.run(held, "true")["exitCode"] == 0 and marked(cove, held), "a request wakes it")
    mark(cove, held, False)
    c.ok(c.until(lambda: state(cove, held) == 404, 40), "without the mark the time to live goes on")
    ids = []
    for number in range(2):
        box = cove.request("POST", "/daytona/sandbox", {"autoDeleteInterval": 0, "autoStopInterval": 0})
        ids.append(box.json["id"])
    mark(cove, ids[0])
    got = [cove.post("/daytona/sandbox/%s/stop" % each).status for each in ids]
    c.ok(got == [200, 200] and c.until(lambda: state(cove, ids[1]) == 404, 40), "control: auto-delete takes what is stopped", got)
    c.same(state(cove, ids[0]), "stopped", "pair 27: auto-delete leaves an unsynced sandbox stopped")
    mark(cove, ids[0], False)
    c.ok(c.until(lambda: state(cove, ids[0]) == 404, 60), "and takes it without the mark")
    box = cove.request("POST", "/daytona/sandbox", {}).json["id"]
    mark(cove, box)
    c.ok(cove.request("DELETE", "/daytona/sandbox/" + box).status == 200 and state(cove, box) == 404, "5.5: Daytona's own delete is a forced one")


def runs(cove):
    work = worktree("one")
    cli = c.Cli(cove.data, cwd=work, HOME=HOME)
    box, run = killed_run(cove, work, "echo edited > a; echo go")
    c.ok(marked(cove, box), "R37: a run marks its sandbox before its command begins")
    cove.process.kill()
    cove.process.wait()
    cove.start()
    c.ok(marked(cove, box), "the mark survives a kill of cove")
    got = cli("rm", box)
    c.ok(got.returncode != 0 and "not brought back" in got.err and "--force" in got.err and state(cove, box) != 404, "cove rm refuses", got)
    got = cli("sync", "out")
    c.ok(got.returncode == 0 and open(work + "/a").read() == "edited\n" and not marked(cove, box), "sync out removes the mark", got)
    got = cli("agent", "run", "--", "sh", "-c", "echo again > a")
    c.ok(got.returncode == 0 and not marked(cove, box), "as the sync at the end of a run does", got)
    got = cli("agent", "run", "--no-sync", "--", "sh", "-c", "echo left > a")
    c.ok(got.returncode == 0 and marked(cove, box), "--no-sync leaves the mark", got)
    cli("sync", "out")
    other, run = killed_run(cove, work, "echo begun; read x </dev/zero; sleep 999")
    got = cli("sync", "out")
    c.ok(other == box and got.returncode == 0 and marked(cove, box), "sync out while a run is active leaves the mark", got)
    cli("agent", "stop", run)
    got = cli("sync", "out")
    c.ok(got.returncode == 0 and not marked(cove, box), "and removes it after the end of the run", got)
    mark(cove, box)
    c.ok(cli("sync", "in").returncode == 0 and marked(cove, box), "sync in keeps the mark")
    c.ok(cli("sync", "in", "--full").returncode == 0 and not marked(cove, box), "sync in --full gives the sandbox's changes up, and removes it")
    box, run = killed_run(cove, work, "echo unsaved > b; echo go")
    got = cli("rm", "--force", box)
    c.ok(got.returncode == 0 and state(cove, box) == 404, "cove rm --force deletes it", got)


def collected(cove):
    boxes = {}
    for name, script in (("same", "echo go"), ("changed", "echo more > more; echo go")):
        work = worktree(name)
        boxes[name] = killed_run(cove, work, script)[0]
        shutil.rmtree(work)
    cli = c.Cli(cove.data, cwd=HOME, HOME=HOME)
    got = cli("sync", "gc")
    c.ok(got.returncode == 0 and state(cove, boxes["same"]) == 404, "R5: gc takes a marked sandbox that has no changes", got)
    c.ok(state(cove, boxes["changed"]) == "running" and "[sandbox:unsynced] " + boxes["changed"] in got.err, "5.5: and keeps and names one that has", got)
    got = cli("sync", "gc", "--force")
    c.ok(got.returncode == 0 and state(cove, boxes["changed"]) == 404, "gc --force takes it", got)


def main():
    cove = c.Cove()
    try:
        doors(cove)
        failed_name(cove)
        times(cove)
        runs(cove)
        collected(cove)
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
