#!/usr/bin/env python3
"""What an execution has durable before what: no sandbox is built while its record is not stored, nothing is left of one whose record
never was, an end and its results are there together."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402

c.need_root()


def fault(cove, mode, count=1):
    cove.post("/v1/dev/faults", {"point": "persist", "mode": mode, "count": count})


def boxes(cove):
    return patiently(lambda: cove.get("/v1/sandboxes")).json["items"]


def submit(cove, answers):
    """In the background: the answer waits for the record."""
    def run():
        try:
            answers.append(cove.post("/v1/executions?wait=60", {"command": "echo done"}))
        except Exception as lost:  # the daemon was killed
            answers.append(lost)
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def kill(cove):
    old = cove.children()["daemon"]
    os.kill(old, signal.SIGKILL)
    c.until(lambda: cove.children().get("daemon", old) != old, 60)
    patiently(lambda: cove.get("/v1/health"))


def first(cove):
    """The first commit hangs: the create is under way, and no process of the sandbox may be there."""
    answers = []
    fault(cove, "hang")
    thread = submit(cove, answers)
    c.ok(c.until(lambda: boxes(cove), 30), "the sandbox is prepared while the record is being stored")
    c.ok(not c.until(lambda: [box for box in boxes(cove) if box["state"] != "creating"], 1), "and is not built before that is durable", boxes(cove))
    c.same(cove.get("/v1/executions").json["items"], [], "nothing is shown of the execution either")
    cove.request("DELETE", "/v1/dev/faults")
    thread.join()
    c.same(answers[0].json["outcome"], "completed", "then it runs")
    c.ok(c.until(lambda: not boxes(cove), 30), "and its sandbox goes")


def killed(cove):
    """The daemon ends before the record is durable."""
    answers = []
    fault(cove, "hang")
    thread = submit(cove, answers)
    c.ok(c.until(lambda: boxes(cove), 30), "a sandbox whose execution is never stored")
    kill(cove)
    thread.join()
    c.ok(c.until(lambda: not boxes(cove), 60), "is gone after a kill of the daemon", boxes(cove))
    c.same(cove.get("/v1/executions").json["items"][:-1], [], "and no execution came of it")
    c.same(c.Cli(cove.data)("verify").status, 0, "cove verify agrees")


def refused(cove):
    """The store refuses the record: the create fails, and is undone."""
    fault(cove, "enospc")
    got = cove.post("/v1/executions", {"command": "true"})
    c.ok(got.status >= 500, "a record that cannot be stored is no execution", got.status, got.json)
    c.ok(c.until(lambda: not boxes(cove), 30), "nor a sandbox", boxes(cove))
    c.same(cove.post("/v1/executions?wait=60", {"command": "true"}).json["outcome"], "completed", "the next one is not concerned")


def ended(cove):
    """The commit of the end fails twice: the end is committed all the same, its log is there when the end is."""
    got = cove.post("/v1/executions", {"argv": ["/bin/sh", "-c", "read x; echo $x"], "stdin": "said\n"}).json
    end = patiently(lambda: cove.get("/v1/executions/%s/wait?timeoutMs=60000" % got["id"])).json
    c.same((end["outcome"], cove.get("/v1/executions/%s/logs" % got["id"]).body), ("completed", b"said\n"), "the log is stored with the end")
    c.same([step["name"] for step in end["steps"]], ["sandbox_provision", "disk_check", "workspace_setup", "runner_start"], "in the usual steps")
    c.ok(c.until(lambda: cove.get("/v1/executions/" + got["id"]).json["durations"]["cleanupMs"] is not None), "the time of its cleanup follows")
    cove.stop()
    cove.start()
    again = cove.get("/v1/executions/" + got["id"]).json
    c.ok(again["durations"]["cleanupMs"] is not None and again["outcome"] == "completed", "and outlives the daemon", again)


def main():
    cove = c.Cove("--dev=on")
    try:
        first(cove)
        killed(cove)
        refused(cove)
        ended(cove)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    c.done()


main()
