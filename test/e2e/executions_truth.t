#!/usr/bin/env python3
"""Outcomes of executions say what happened: memory is of the whole execution, whichever process the kernel killed (D-5, D-6), also while
no daemon runs; a command that ends because its sandbox is ended has not failed; exit codes are those of the command over kills."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402

c.need_root()
EAT = "python3 -c 'x = bytearray(400 << 20)'"


def post(cove, **body):
    return cove.post("/v1/executions", body).json["id"]


def get(cove, ident):
    return patiently(lambda: cove.get("/v1/executions/" + ident)).json


def done(cove, ident):
    return patiently(lambda: cove.get("/v1/executions/%s/wait?timeoutMs=60000" % ident, timeout=90)).json


def memory(cove):
    """D-5: a build cannot dodge the limit by forking, whatever it makes of the end of its children."""
    for command in (EAT + "; exit 1", EAT + "; echo went on; exit 0", "(%s) & wait; exit 2" % EAT, EAT + "; sleep 50"):
        got = done(cove, post(cove, command=command, limits={"memoryMB": 64, "wallTimeMs": 60000}))
        c.same((got["state"], got["outcome"], got["attempt"]), ("failed", "limit_memory", 1), "D-6 a child that the kernel killed: %s" % command.replace(EAT, "EAT"))
    made = post(cove, profile="VALIDATION", limits={"memoryMB": 64})
    cove.get("/v1/executions/%s/wait?for=ready" % made)
    cove.post("/v1/executions/%s/exec" % made, {"command": EAT + "; true"})
    c.same(done(cove, made)["outcome"], "limit_memory", "D-6 also in a command of its client")


def pid_of(box):
    """pid 1 of a sandbox."""
    for pid in c._pids():
        try:
            with open("/proc/%d/cgroup" % pid, encoding="utf-8") as groups, open("/proc/%d/status" % pid, errors="replace") as status:
                if "/" + box in groups.read() and any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in status):
                    return pid
        except OSError:
            pass
    return None


def unseen(cove):
    """Commands end while nothing of cove runs."""
    ends = {EAT: ("limit_memory", None), EAT + "; exit 4": ("limit_memory", None), "exit 5": ("exit_nonzero", 5), "true": ("completed", 0), "kill -9 $$": ("exit_nonzero", None)}
    made = {how: post(cove, command="touch begun; while test -e held; do sleep 0.05; done; touch went; %s" % how, limits={"memoryMB": 64},
                      files=[{"path": "held", "content": ""}]) for how in ends}
    inside = {}
    for how, ident in made.items():
        cove.get("/v1/executions/%s/wait?for=running" % ident)
        inside[how] = "/proc/%d/root" % c.until(lambda at=get(cove, ident)["sandbox"]: pid_of(at), 60)
        c.until(lambda at=inside[how]: os.path.exists(at + "/workspace/begun"), 60)
    c.kill_all(cove)
    for root in inside.values():
        os.unlink(root + "/workspace/held")
    for how, root in inside.items():
        c.ok(c.until(lambda at=root: os.path.exists(at + "/workspace/went") and len([n for n in os.listdir(at + "/proc") if n.isdigit()]) == 1, 60), "it ended unseen: %s" % how.replace(EAT, "EAT"))
    cove.start()
    for how, (outcome, code) in ends.items():
        got = done(cove, made[how])
        c.same((got["outcome"], got["attempt"]), (outcome, 1), "its outcome is known: %s" % how.replace(EAT, "EAT"))
        if code is not None:
            c.same(got["exitCode"], code, "and its exit code")


def told(cove):
    """D-11: what went wrong is in the record: a sentence, and the last output, where a stack trace is."""
    secret = "sk-" + os.urandom(12).hex()
    cove.request("PUT", "/v1/secrets/TOLD", {"value": secret, "hosts": ["api.test"]})
    for body, message, output in (
            ({"command": "exit 3"}, "the command ended with status 3", None),
            ({"argv": ["python3", "-c", "print('out')\ndef inner(): return 1 / 0\ninner()"]}, "the command ended with status 1", "ZeroDivisionError: division by zero\n"),
            ({"command": "echo out; kill -SEGV $$"}, "the command was killed by signal 11, SIGSEGV", "out\n"),
            ({"command": "sh -c 'kill -SEGV $$'; exit $?"}, "the command ended with status 139, as after signal 11, SIGSEGV", "sh -c 'kill -SEGV $$'\n"),
            ({"command": "exit 255"}, "the command ended with status 255", None),
            ({"argv": ["no-such-program"]}, "the command could not be started: command_not_found", None),
            ({"command": "head -c 5000 /dev/zero; printf 'end\\377'; exit 1"}, "the command ended with status 1", "?end\ufffd"),
            ({"command": "echo %s >&2; exit 1" % secret, "secrets": ["TOLD"]}, "the command ended with status 1", "*" * len(secret) + "\n"),
            ({"command": "sleep 60", "limits": {"wallTimeMs": 700}}, "it did not end within 700 ms", None),
            ({"command": "true", "artifacts": {"paths": ["x"], "required": True}}, "required artifacts are missing: artifacts_missing", None),
            ({"command": "true"}, None, None)):
        got = done(cove, post(cove, **body))
        error = got["error"] or {"message": None, "output": None}
        said = (error["output"] or "").endswith(output) if output else error["output"] is None
        c.ok(error["message"] == message and said and len(error["output"] or "") <= 2048, "D-11 %s" % (message or "no error"), got["error"])
        c.same(get(cove, got["id"])["error"], got["error"], "which stays")
    run = c.Cli(cove.data)
    got = run("submit", "--", "sh", "-c", "exit 3")
    c.same((got.returncode, got.err), (3, ""), "cove submit ends as the command does, without a word of its own")
    got = run("submit", "--timeout", "500ms", "--", "sleep", "60")
    c.ok(got.returncode == 124 and "it did not end within 500 ms" in got.err, "and says which limit ended it", got)


def ended_box(cove):
    """The sandbox is ended under a command that makes an exit of its own from that."""
    command = "trap 'exit 7' TERM; while :; do sleep 0.05; done"
    made = post(cove, command=command, retry="never")
    cove.get("/v1/executions/%s/wait?for=running" % made)
    c.same(cove.request("DELETE", "/v1/sandboxes/" + get(cove, made)["sandbox"]).status, 204, "its sandbox is deleted")
    c.same(done(cove, made)["outcome"], "infra", "then its command has not failed")


def main():
    cove = c.Cove("--dev=on")
    try:
        memory(cove)
        told(cove)
        unseen(cove)
        ended_box(cove)
        made = post(cove, command="trap 'exit 7' TERM; while :; do sleep 0.05; done", retry="never")
        cove.get("/v1/executions/%s/wait?for=running" % made)
        c.same(cove.stop(), 0, "cove stops")
        cove.start()
        c.same(done(cove, made)["outcome"], "infra", "the stop of cove is no failure of a command")
        c.ok(c.until(lambda: not patiently(lambda: cove.get("/v1/sandboxes")).json["items"], 60), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    c.done()


main()
