#!/usr/bin/env python3
"""An hour of agents, pressed into minutes: eight sandboxes, sixty-four busy sessions in the first and
eight in each other one, commands, streams and files at random. No session sticks, no output is lost,
and what the daemon holds comes back to where it was."""
import json
import http.client
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cove as c  # noqa: E402

SECONDS = int(os.environ.get("SOAK_SECONDS", "300"))
faults = []
counts = {"run": 0, "stream": 0, "file": 0}
lock = threading.Lock()


class Client:
    """One keep-alive connection."""

    def __init__(self, cove):
        self.conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=60)
        self.head = {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"}

    def post(self, path, body):
        self.conn.request("POST", path, json.dumps(body), self.head)
        answer = self.conn.getresponse()
        return answer.status, answer.read()


def run(client, base, session, dice):
    word = "%x" % dice.getrandbits(64)
    lines = dice.randrange(1, 400)
    status, body = client.post(base + "/execute", {
        "command": "seq %d; echo %s >&2; last=%s" % (lines, word, word), "sessionId": session})
    answer = json.loads(body)
    want = "\n".join(str(i) for i in range(1, lines + 1))
    assert (status, answer.get("stdout"), answer.get("stderr")) == (200, want, word), body[:300]
    status, body = client.post(base + "/execute", {"command": "echo $last", "sessionId": session})
    assert json.loads(body).get("stdout") == word, body[:300]


def stream(client, base, session, dice):
    lines = dice.randrange(1, 2000)
    status, body = client.post(base + "/execute/stream", {"command": "seq %d" % lines, "sessionId": session})
    events = [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]
    text = "".join(e["data"] for e in events if e["type"] == "stdout")
    assert text == "".join("%d\n" % i for i in range(1, lines + 1)), body[:300]
    assert events[-1]["exitCode"] == 0, events[-1]


def file(client, base, session, dice):
    text = "%x" % dice.getrandbits(dice.randrange(8, 40000))
    path = "/workspace/f-" + session
    status, body = client.post(base + "/write", {"path": path, "content": text})
    assert status == 200, body[:300]
    status, body = client.post(base + "/read", {"path": path})
    assert json.loads(body)["content"] == text, body[:300]


def worker(cove, box, session, end):
    dice = random.Random(session + box)
    client = Client(cove)
    base = "/v1/sandboxes/%s/api" % box
    while time.monotonic() < end and not faults:
        what = dice.choice((run, run, stream, file))
        try:
            what(client, base, session, dice)
        except Exception as error:  # noqa: BLE001
            faults.append("%s in %s: %r" % (what.__name__, session, error))
            return
        with lock:
            counts[what.__name__] += 1
        time.sleep(dice.random() * 0.2)


def held(cove):
    pid = cove.children()["daemon"]
    rss = int(open("/proc/%d/statm" % pid).read().split()[1]) * 4
    return len(os.listdir("/proc/%d/fd" % pid)), rss


c.need_root()
cove = c.Cove()
before = held(cove)
boxes = [cove.create(limits={"pids": 1024, "memoryMB": 1024}) for _ in range(8)]
end = time.monotonic() + SECONDS
threads = [threading.Thread(target=worker, args=(cove, box["id"], "s%d-%d" % (i, n), end))
           for i, box in enumerate(boxes) for n in range(64 if i == 0 else 8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(SECONDS + 120)
c.ok(not any(t.is_alive() for t in threads), "no session is stuck")
c.same(faults, [], "no output was lost: %r" % counts)
for box in boxes:
    c.same(cove.delete(box).status, 204, "a sandbox is deleted")
after = c.until(lambda: (lambda now: now if now[0] <= before[0] + 2 else None)(held(cove)), 45) or held(cove)
c.ok(after[0] <= before[0] + 2, "descriptors are back: %d, then %d" % (before[0], after[0]))
c.ok(after[1] <= 24 * 1024, "memory is back: %d KiB, then %d KiB" % (before[1], after[1]))
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
