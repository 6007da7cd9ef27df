#!/usr/bin/env python3
"""A daemon that cannot take up a sandbox yet knows nothing about its command: it begins no second one and ends no attempt, but asks
again. The sandbox's pid 1 is stopped while the daemon is killed, and goes on when the new daemon has looked in vain."""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402

c.need_root()


def inside(cove, box):
    """{pid in the sandbox: pid on the host}."""
    found = {}
    for pid in c._pids():
        try:
            with open("/proc/%d/cgroup" % pid, encoding="utf-8") as groups, open("/proc/%d/status" % pid, errors="replace") as status:
                if "/%s/%s" % (cove.instance(), box) in groups.read():
                    found[[int(line.split()[-1]) for line in status if line.startswith("NSpid:")][0]] = pid
        except (OSError, IndexError):
            pass
    return found


def looked(cove, ident):
    return any('"execution.not_adopted"' in line and ident in line for line in cove.log_text().splitlines())


def state(cove, ident):
    return patiently(lambda: cove.get("/v1/executions/" + ident)).json


def main():
    cove = c.Cove("--dev=on")
    try:
        made, first = {}, {}
        for what in ("runs on", "has ended meanwhile"):
            made[what] = cove.post("/v1/executions", {"command": "echo run >> runs; touch begun; while test -e held; do sleep 0.05; done; cat runs",
                                                      "limits": {"wallTimeMs": 300000}, "files": [{"path": "held", "content": ""}]}).json["id"]
        for what, ident in made.items():
            cove.get("/v1/executions/%s/wait?for=running" % ident)
            box = state(cove, ident)["sandbox"]
            first[what] = c.until(lambda at=box: inside(cove, at).get(1), 60)
            c.ok(c.until(lambda at=first[what]: os.path.exists("/proc/%d/root/workspace/begun" % at), 60), "the command that %s has begun" % what)
            os.kill(first[what], signal.SIGSTOP)
        old = cove.children()["daemon"]
        os.kill(old, signal.SIGKILL)
        c.until(lambda: cove.children().get("daemon", old) != old, 60)
        for what, ident in made.items():
            c.ok(c.until(lambda at=ident: looked(cove, at), 60), "the new daemon cannot take up its sandbox")
            got = state(cove, ident)
            c.same((got["state"], got["attempt"], got["outcome"]), ("running", 1, None), "and does not judge it")
        os.unlink("/proc/%d/root/workspace/held" % first["has ended meanwhile"])
        c.until(lambda: not os.path.exists("/proc/%d/root/workspace/held" % first["has ended meanwhile"]), 60)
        for pid in first.values():
            os.kill(pid, signal.SIGCONT)
        c.ok(c.until(lambda: state(cove, made["has ended meanwhile"])["outcome"], 60), "the end is known when the sandbox was taken up")
        os.unlink("/proc/%d/root/workspace/held" % first["runs on"])
        for what, ident in made.items():
            got = patiently(lambda at=ident: cove.get("/v1/executions/%s/wait?timeoutMs=120000" % at, timeout=180)).json
            c.same((got["outcome"], got["attempt"], got["reason"]), ("completed", 1, None), "one that %s completes in its first attempt" % what)
            c.same(cove.get("/v1/executions/%s/logs?stream=stdout" % ident).body, b"run\n", "and was begun once")
        c.ok(c.until(lambda: not cove.get("/v1/sandboxes").json["items"], 60), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    c.done()


main()
