#!/usr/bin/env python3
"""which runner it is can be told from outside: its cgroup's name, its environment, its own word and GET
agree; and what does not agree is not taken for it."""
import json
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import runner  # noqa: E402

cove = s.start()


def leaves(box):
    """Names of the directories of a sandbox's leaves on this host."""
    found = set()
    for root in c.cgroup_roots():
        for place, dirs, _ in os.walk(root):
            if place.endswith("/%s/%s" % (cove.instance(), box)):
                found.update(d for d in dirs if d.startswith("x-"))
    return sorted(found)


def named(box):
    return [leaf.split(".", 1)[1] for leaf in leaves(box) if "." in leaf]


def groups_of(pid):
    """The leaves that a process is in, one a hierarchy."""
    lines = open("/proc/%d/cgroup" % pid).read().splitlines()
    return {line.rsplit("/", 1)[1] for line in lines if "/x-" in line}


def environment(pid):
    return dict(pair.split("=", 1) for pair in open("/proc/%d/environ" % pid).read().split("\0") if "=" in pair)


# ------------------------------------------------------------------------------------------------
one = s.Session(cove)
box = one.made["sandbox_id"]
run = one.run()
c.same(one.fate(run), "completed", "a runner works")
lease, said = one.lease(), one.look(run)["result"]["output"]
root = one.roots()[0]
instance = lease["instance_id"]
c.ok(instance.startswith("instance_") and len(instance) == 41, "GET shows the instance", lease)
c.same(groups_of(root), {"x-%d.%s" % (lease["cgroup"], instance)}, "its cgroup's directory bears its name")
c.same(named(box), [instance], "and there is one such directory on the host")
env = environment(root)
c.same((env["COVE_SESSION"], env["COVE_INSTANCE"], env["COVE_GENERATION"]), (one.id, instance, str(lease["generation"])),
       "/proc/PID/environ agrees")
c.same((said["instance"], said["generation"]), (instance, lease["generation"]), "and so does the runner's own word")

before = leaves(box)
for _ in range(12):
    cove.run(box, ["true"])
inner = cove.out(box, "cat /proc/self/cgroup")
c.ok("instance_" not in inner, "commands beside it are in leaves without a name", inner)
c.ok(len(leaves(box)) <= len(before) + 2, "which serve again and again", before, leaves(box))

two = s.Session(cove)
c.same(two.made["sandbox_id"], box, "a sibling in the same sandbox")
two.fate(two.run())
c.same(sorted(named(box)), sorted([instance, two.lease()["instance_id"]]), "each runner has a directory of its own")
c.same(one.fate(one.run()), "completed", "row 13: the next run")
c.same((one.lease()["instance_id"], groups_of(root)), (instance, {"x-%d.%s" % (lease["cgroup"], instance)}),
       "row 13: same instance, same directory")

# ------------------------------------------------------------------------------ over crashes of cove
three = s.Session(cove, user="crash")
three.run("print", times=10000, every=0.2)
three.await_state("active")
held = three.lease()
room = three.made["sandbox_id"]
for victims in (["daemon"], ["warden"], ["daemon", "warden"]):
    pids = cove.children()
    for victim in victims:
        os.kill(pids[victim], signal.SIGKILL)
    c.until(lambda: all(cove.children().get(v, pids[v]) != pids[v] for v in victims))
    s.patiently(lambda: cove.get("/v1/agent-sessions"))
    c.ok(c.until(lambda: three.lease()["instance_id"] == held["instance_id"] and named(room) == [held["instance_id"]]),
         "kill -9 of %s: the same instance, its directory still named" % " and ".join(victims), three.lease(), leaves(room))
    plain = s.patiently(lambda: cove.execute(room, "cat /proc/self/cgroup")).json["stdout"]
    c.ok("instance_" not in plain, "nobody else is put into it", plain)
c.same(s.patiently(lambda: cove.post(three.path + "/interrupt")).status, 202, "it is interrupted")
c.ok(three.await_state("none"), "its end", three.lease())
c.ok(c.until(lambda: named(room) == []), "with the runner goes its directory", leaves(room))
c.same(three.fate(three.run()), "completed", "the next one")
c.same((three.lease()["generation"], named(room)), (held["generation"] + 1, [three.lease()["instance_id"]]),
       "has the next generation, and a name of its own")
os.kill(three.roots()[0], signal.SIGKILL)
c.ok(c.until(lambda: named(room) == []), "also when the runner is killed", leaves(room))

# ------------------------------------------------------- what a runner leaves behind is in its directory
heir = s.Session(cove, user="heir")
heir.fate(heir.run("shell", command="env -i setsid sleep 1000 >/dev/null 2>&1 &"))
room, first = heir.made["sandbox_id"], heir.lease()["instance_id"]


def sleepers():
    return s.programs(cove, room, "sleep")


left = c.until(sleepers)
c.ok(len(left) == 1 and groups_of(left[0]) == groups_of(heir.roots()[0]), "a child without marks is in its cgroup", left)
os.kill(heir.roots()[0], signal.SIGKILL)
c.until(lambda: not heir.roots())
c.same(named(room), [first], "the name stays while something lives in it")
s.kill_daemon(cove)
c.same(heir.fate(heir.run()), "completed", "a new daemon knows it by that name")
c.ok(sleepers() == [] and heir.lease()["generation"] == 2 and named(room) == [heir.lease()["instance_id"]],
     "and ended it before the next runner was started", sleepers(), heir.lease(), leaves(room))

# ------------------------------------------------------------------------------------------
liar = s.Session(cove, user="liar", env={"RUNNER_HELLO": json.dumps({"instance": "instance_" + "0" * 32})})
c.ok(liar.fate(liar.run(), 40).startswith("failed"), "a runner that says it is another is not taken for it")
half = s.Session(cove, user="half", env={"RUNNER_HELLO": json.dumps({"generation": None})})
c.ok(half.fate(half.run(), 40).startswith("failed"), "an instance without its generation is no identity")
argv = ["/usr/bin/python3", "-c", runner.source()]
marks = {"COVE_SESSION": "x", "COVE_INSTANCE": "instance_" + "a" * 32, "COVE_GENERATION": "1"}
for what, words, change in (("instance", ["--instance=instance_" + "b" * 32], {}),
                            ("generation", ["--generation=2"], {}),
                            ("half a pair", [], {"COVE_GENERATION": ""})):
    done = cove.run(box, argv + words, env=dict(marks, **change))
    c.ok(done["exitCode"] != 0, "a runner started by hand with a conflicting %s refuses" % what, done)
old = s.Session(cove, user="legacy", env={"RUNNER_LEGACY": "1"})
c.same(old.fate(old.run()), "completed", "an older runner, which tells no identity, is known by its marks")
alone = old.lease()
c.same(groups_of(old.roots()[0]), {"x-%d.%s" % (alone["cgroup"], alone["instance_id"])}, "and by its cgroup")
s.kill_daemon(cove)
c.same(old.fate(old.run()), "completed", "it is adopted when it is alone")
c.same(old.lease()["instance_id"], alone["instance_id"], "the same one")
copy = {"COVE_SESSION": old.id, "COVE_INSTANCE": alone["instance_id"], "COVE_GENERATION": str(alone["generation"] + 7)}
threading.Thread(target=lambda: cove.execute(old.made["sandbox_id"], ["sleep", "600"], env=copy), daemon=True).start()
c.until(lambda: len(old.roots()) == 2)
c.same(old.fate(old.run()), "completed", "with two of them the run is held, then it runs")
c.same((old.lease()["generation"], len(old.roots())), (alone["generation"] + 1, 1), "both were stopped first")
c.done()
