#!/usr/bin/env python3
"""The second process of a session does not start a bash any more: a prewarmed shell waits for it."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def api(box, path):
    return "/v1/sandboxes/%s/api/%s" % (box["id"], path)


def start(cove, box, command, **fields):
    reply = cove.post(api(box, "process/start"), dict(command=command, **fields))
    if reply.status != 200:
        raise RuntimeError("start: %r" % reply)
    return reply.json["processId"]


def get(cove, box, process):
    return cove.get(api(box, "process/" + process)).json["process"]


def prewarmed_shells(cove, box):
    waits = "ps ax -o args | grep -c '^[b]ash -c __cove'"
    say = lambda command: cove.run(box, command, sessionId="u1")
    stream = lambda command, **kw: c.collect(cove.events(box, command, sessionId="u1", **kw))
    ready = lambda: c.until(lambda: cove.out(box, waits).strip() == "1")
    show = ("echo $A \"$B\" \"${arr[1]}\" \"$PWD\" $# \"$2\" $(umask) ${LANG-none}; f 5; ll; shopt -q nullglob && echo null; "
            "env | grep -c ^HOME=; echo h\u00e9; echo \"$-\"; nosuch")
    want = "1 x  'y\nz two 2 /tmp/it's 2 p 2 0077 none\nin f 5\naliased\nnull\n0\nh\u00e9\nhBc\n".encode()
    say("export A=1; f() { echo in f $1; }; alias ll='echo aliased'; B=\"x  'y\nz\"; arr=(1 'two 2'); mkdir -p \"/tmp/it's\"; "
        "cd \"/tmp/it's\"; set -- p1 'p 2'; umask 077; shopt -s nullglob; unset LANG; export -n HOME")
    for how in ("by a bash of its own", "by a prewarmed shell", "by a prewarmed shell that has restored the state before"):
        out, err, last = stream(show)
        c.same((out, last["exitCode"]), (want, 127), "all of a session's state is there, " + how)
        c.ok(err.endswith(b"nosuch: command not found\n"), "and its messages are bash's", err)
        c.ok(ready(), "then one waits")
    # One that waits may still be restoring the state: then a bash of its own runs the command.
    c.ok(c.until(lambda: stream("nosuch")[1] == b"bash: line 1: nosuch: command not found\n", 60, 0.2),
         "which count lines from the command's own first")
    c.ok(ready(), "another waits")
    out, _, last = stream("cat; echo $A $N; compgen -v | grep cove; declare -F; exit 3", env={"A": "9", "N": "it's \u00fc"})
    c.same((out, last["exitCode"]), ("9 it's \u00fc\ndeclare -f f\n".encode(), 3),
           "with an env of its own, nothing to read, and nothing of ours")
    say("echo $SECONDS $RANDOM; ls")
    c.ok(ready(), "another waits")
    out, _, _ = stream("a=$SECONDS; SECONDS=40; sleep 1.1; echo $((SECONDS - 40)) $((RANDOM != RANDOM))")
    c.ok(out in (b"1 1\n", b"2 1\n"), "variables that bash makes itself are what they are", out)
    c.same(say("echo $A; cd /; unset A; set -eu; g() { :; }; unset -f f")["stdout"], "1", "and no way back")
    c.ok(ready(), "another waits")
    out, _, last = stream("echo ${A-none}; pwd; declare -F; false; echo no")
    c.same((out, last["exitCode"]), (b"none\n/\ndeclare -f g\n", 1), "later changes of the session are known")
    say("unset -f g; unalias -a; set --")
    for how in ("by a bash of its own", "by a prewarmed shell"):
        c.ok(ready(), "another waits")
        out, _, last = stream("declare -F; echo $#; ll")
        c.same((out, last["exitCode"]), (b"0\n", 127), "and removed functions are gone, " + how)
    say("set +eu; mkdir -p /tmp/gone; cd /tmp/gone; rmdir /tmp/gone")
    c.ok(ready(), "another waits")
    reply = cove.post(api(box, "execute/stream"), {"command": "pwd", "sessionId": "u1"})
    c.same(reply.json["reason"], "no_cwd", "a directory that was removed is told")
    say("cd /tmp")
    c.ok(ready(), "another waits")
    before = time.monotonic()
    _, _, last = stream("trap '' TERM; sleep 1000 & sleep 1000", timeoutMs=300)
    c.ok(last["exitCode"] == 124 and last["ended"] == "wall_limit" and time.monotonic() - before < 100, "limits hold", last)
    c.ok(c.until(lambda: cove.out(box, "pgrep -c sleep; true").strip() == "0"), "and nothing of it is left")
    c.ok(ready(), "another waits")
    process = start(cove, box, "setsid sleep 1000 & sleep 1000", sessionId="u1")
    c.ok(c.until(lambda: cove.out(box, "pgrep -c sleep").strip() == "2"), "a process runs")
    cove.request("DELETE", api(box, "process/" + process))
    c.same((get(cove, box, process)["exitCode"], cove.out(box, "pgrep -c sleep; true").strip()), (143, "0"), "its tree is killed")
    c.ok(ready(), "another waits")
    cove.out(box, "pkill -KILL -f '^[b]ash -c __cove'; true")
    c.ok(c.until(lambda: cove.out(box, waits + "; true").strip() == "0"), "the prewarmed shell can be killed")
    out, _, last = stream("echo on")
    c.same((out, last["exitCode"]), (b"on\n", 0), "a killed prewarmed shell is replaced")
    c.ok(ready(), "another waits")
    last = stream("for ((i = 0; i < 300000; i++)); do :; done")[2]
    c.ok(last["cpuMs"] >= 100, "its CPU time is counted", last)
    last = stream("true")[2]
    c.ok(last["cpuMs"] < 100, "from its beginning on", last)
    small = cove.create(limits={"pids": 16})
    cove.run(small, "true", sessionId="u1")
    for _ in range(2):
        c.collect(cove.events(small, "echo x", sessionId="u1"))
        time.sleep(0.1)
    c.same(cove.out(small, waits + "; true").strip(), "0", "a small sandbox has none")
    cove.delete(small)
    cove.post(api(box, "session/delete"), {"sessionId": "u1"})
    c.ok(c.until(lambda: cove.out(box, waits + "; true").strip() == "0"), "after a while without use it leaves")


def main():
    c.need_root()
    cove = c.Cove()
    box = cove.create()
    prewarmed_shells(cove, box)
    cove.delete(box)
    c.done()


main()
