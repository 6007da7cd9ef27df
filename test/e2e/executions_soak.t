#!/usr/bin/env python3
"""Mixed executions, many at once, while daemon and warden are killed: the client's tally is the list's, each has one result, every
artifact has its bytes, and no sandbox is left. COVE_SOAK=1: 1,000 of them, 50 at once. COVE_EXECUTIONS and COVE_KILLS: others."""
import collections
import hashlib
import os
import random
import re
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402

c.need_root()
COUNT = int(os.environ.get("COVE_EXECUTIONS") or (1000 if os.environ.get("COVE_SOAK") else 40))
ABREAST = 50 if COUNT >= 300 else 10
KILLS = int(os.environ.get("COVE_KILLS", "4"))


def body_of(n):
    """What is asked, and how it may end. A kill of the warden may take sandboxes with it: then another attempt runs."""
    kind = n % 8
    if kind == 0:
        return {"command": "exit 3"}, "exit_nonzero"
    if kind == 1:
        return {"command": "sleep 600", "limits": {"wallTimeMs": 3000}}, "timeout"
    if kind == 2:
        return {"argv": ["python3", "-c", "x = 'x' * (400 << 20)"], "limits": {"memoryMB": 64}}, "limit_memory"
    if kind == 3:
        return {"agentType": "VALIDATION"}, "completed"
    return {"command": "printf %s \"$SEED\" | sha256sum > a.txt; cp a.txt b.txt; sleep 0.$((RANDOM % 9))", "env": {"SEED": "seed-%d" % n},
            "artifacts": {"paths": ["*.txt"], "required": True}}, "completed"


class Client:
    def __init__(self, cove):
        self.cove, self.next, self.lock = cove, iter(range(COUNT)), threading.Lock()
        self.tally, self.wrong, self.ended = collections.Counter(), [], 0

    def ask(self, method, path, body=None, **kw):
        return patiently(lambda: self.cove.request(method, path, body, timeout=400, **kw), 120)

    def one(self, n):
        body, want = body_of(n)
        body.update(taskId="soak-%d" % n, labels={"soak": "1"})
        made = self.ask("POST", "/v1/executions", body, headers={"Idempotency-Key": "soak-%d-%d" % (os.getpid(), n)})
        ident = made.json["id"]
        if n % 8 == 3:
            self.ask("GET", "/v1/executions/%s/wait?for=ready&timeoutMs=300000" % ident)
            self.ask("POST", "/v1/executions/%s/complete" % ident, {"result": n})
        got = self.ask("GET", "/v1/executions/%s/wait?timeoutMs=300000" % ident).json
        with self.lock:
            self.ended += 1
            self.tally[got["outcome"]] += 1
            if got["outcome"] != want:
                self.wrong.append((n, got["outcome"], got["reason"], got["attempts"]))
        if n % 8 > 3:
            line = "%s  -\n" % hashlib.sha256(b"seed-%d" % n).hexdigest()
            listed = self.ask("GET", "/v1/executions/%s/artifacts" % ident).json
            for item in listed.get("items", []):
                got = self.ask("GET", "/v1/executions/%s/artifacts/%s" % (ident, item["path"]))
                if got.body != line.encode() or item["sha256"] != hashlib.sha256(line.encode()).hexdigest():
                    self.wrong.append((n, item, got.body))
            if len(listed.get("items", [])) != 2:
                self.wrong.append((n, listed))

    def work(self):
        while True:
            with self.lock:
                n = next(self.next, None)
            if n is None:
                return
            try:
                self.one(n)
            except Exception as err:  # pylint: disable=broad-except
                self.wrong.append((n, repr(err)))


def listed(cove):
    """Outcome of each, by the list."""
    cursor, found = "", {}
    while cursor is not None:
        page = patiently(lambda at=cursor: cove.get("/v1/executions?limit=500&label=soak=1" + ("&cursor=" + at if at else ""))).json
        for item in page["items"]:
            c_id = item["taskId"]
            found.setdefault(c_id, []).append(item["outcome"])
        cursor = page["cursor"]
    return found


def counted(cove, client, when):
    """The counters of Prometheus and of the JSON metrics are the client's tally, by outcome."""
    found = collections.Counter()
    for outcome, number in re.findall(r'^cove_executions_total\{[^}]*outcome="([a-z_]+)"\} (\d+)', cove.get("/metrics").body.decode(), re.M):
        found[outcome] += int(number)
    c.same(found, client.tally, "F Verify: the client's tally equals the counters of /metrics" + when)
    seen = cove.get("/v1/metrics").json["overview"]
    c.same((seen["total"], seen["completed"], seen["failed"]), (COUNT, client.tally["completed"], COUNT - client.tally["completed"]), "F Verify: and those of /v1/metrics" + when)


def main():
    random.seed(7)
    cove = c.Cove("--dev=on")
    try:
        client = Client(cove)
        threads = [threading.Thread(target=client.work) for _ in range(ABREAST)]
        for thread in threads:
            thread.start()
        for step in range(KILLS):
            c.until(lambda at=COUNT * (step + 1) // (KILLS + 2): client.ended >= at, 3000)
            for role in (("daemon",), ("warden",), ("daemon",), ("warden",), ("daemon", "warden"))[step % 5]:
                pid = cove.children().get(role)
                if pid:
                    os.kill(pid, signal.SIGKILL)
        for thread in threads:
            thread.join()
        c.same(client.wrong, [], "each ended as it should, with its artifacts")
        found = listed(cove)
        c.same((len(found), sorted({len(all_of) for all_of in found.values()})), (COUNT, [1]), "each was made once, and ended once")
        c.same(collections.Counter(all_of[0] for all_of in found.values()), client.tally, "the client's tally is cove's")
        counted(cove, client, "")
        c.kill_all(cove)
        cove.start()
        counted(cove, client, ", after another kill -9 too")
        c.ok(c.until(lambda: not patiently(lambda: cove.get("/v1/sandboxes")).json["items"], 120), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    c.done()


main()
