#!/usr/bin/env python3
"""Budgets are exact, however many ask at once, and the ledger is what the client counted itself: also after daemon and
warden were killed in the middle of it."""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402
from outside import ledger, Outside, summed  # noqa: E402

c.need_root()
MANY = 64
QUICK = 100000  # connections a second: no bound here
ALLOW = ["www.test", "echo.test:9000"]

# 64 threads; each does its share and the sums are printed as one line of JSON.
CROWD = r'''
import http.client, json, random, socket, sys, threading, time
MANY = %d
sums, lock, start = {}, threading.Lock(), threading.Barrier(MANY)
WWW, ECHO = (socket.gethostbyname(name) for name in ("www.test", "echo.test"))  # once: a box has 100 questions a second
def count(**more):
    with lock:
        for name, number in more.items(): sums[name] = sums.get(name, 0) + number
def tell(where):
    with lock:
        import os
        with open(where + ".new", "w") as file: json.dump(sums, file)
        os.rename(where + ".new", where)
def crowd(each):
    threads = [threading.Thread(target=lambda n=n: (start.wait(), each(n)), daemon=True) for n in range(MANY)]
    for t in threads: t.start()
    for t in threads: t.join(120)
''' % MANY

# Each asks so often, on one connection or on one each, and counts the answers by status; a refusal has words.
ASK = CROWD + r'''
def ask(times, kept):
    conn = None
    for n in range(times):
        conn = conn or http.client.HTTPConnection(WWW, 80, timeout=60)
        try:
            conn.request("GET", "/bytes/10", headers=dict({"Host": "www.test"}, **{} if kept else {"Connection": "close"}))
            reply = conn.getresponse()
            words = reply.read().decode()
        except (OSError, http.client.HTTPException) as e:
            count(**{repr(e): 1}); conn.close(); conn = None
            continue
        count(**{str(reply.status): 1})
        if reply.status == 429 and REASON in words and "of its budget" in words: count(worded=1)
        if reply.status != 200 or not kept: conn.close(); conn = None
crowd(lambda n: ask(TIMES, KEPT))
print(json.dumps(sums))
'''

# Each sends, or is sent, more than its share of what there is.
STREAM = CROWD + r'''
def stream(n):
    s = socket.create_connection((ECHO, 9000), timeout=60)
    got = 0
    try:
        s.sendall(b"flood %d\n" % SIZE if FLOOD else b"x" * SIZE)
        s.shutdown(1)
        while True:
            more = s.recv(65536)
            if not more: break
            got += len(more)
    except OSError: pass
    count(got=got)
crowd(stream)
print(json.dumps(sums))
'''

# Each exchanges a random number of messages and counts; then it holds its connection until that is cut.
HOLD = CROWD + r'''
ready = threading.Barrier(MANY + 1)
def hold(n):
    s = socket.create_connection((ECHO, 9000), timeout=120)
    chance = random.Random(n)
    for _ in range(chance.randint(1, 20)):
        size = chance.randint(1, 20000)
        s.sendall(b"x" * size)
        got = 0
        while got < size:
            more = s.recv(65536)
            if not more: raise OSError("cut")
            got += len(more)
        count(out=size, back=got)
    count(connections=1)
    ready.wait()
    try: s.recv(1)
    except OSError: pass
threads = [threading.Thread(target=lambda: (ready.wait(), tell(WHERE)))]
threads[0].start()
crowd(hold)
'''


def python(cove, box, program, **values):
    program = "".join("%s = %r\n" % pair for pair in values.items()) + program
    return json.loads(cove.run(box, ["python3", "-I", "-"], stdin=program, timeout=150000)["stdout"] or "{}")


def box_with(cove, **budgets):
    return cove.create(network={"mode": "allow", "allow": ALLOW, "budgets": dict(budgets, perSecond=QUICK)})


def of_connections(cove, outside):
    box, before = box_with(cove, connections=100), outside.accepted
    got = python(cove, box, ASK, TIMES=4, KEPT=False, REASON="budget_connections")
    c.same(got, {"200": 100, "429": 156, "worded": 156}, "100 connections: the 101st, of 64 at once, is told that they are used up")
    c.same(outside.accepted - before, 100, "and never left")
    rows, totals = ledger(cove, box)
    c.ok(totals["connections"] == 100 and totals["denied"] == 156, "the ledger knows both numbers", totals)
    kinds = {row["reason"] for row in rows if row["verdict"] == "deny"}
    c.ok("budget_connections" in kinds and kinds <= {"budget_connections", "more"}, "and the reason", kinds)
    kill(cove, box, "daemon")
    got = python(cove, box, ASK, TIMES=1, KEPT=False, REASON="budget_connections")
    c.same(got, {"429": 64, "worded": 64}, "a used-up budget stays used up after a restart")
    cove.request("PATCH", "/v1/sandboxes/" + box["id"],
                 {"network": {"mode": "allow", "allow": ALLOW, "budgets": {"connections": 130, "perSecond": QUICK}}})
    got = python(cove, box, ASK, TIMES=1, KEPT=False, REASON="budget_connections")
    c.same(got, {"200": 30, "429": 34, "worded": 34}, "and 30 more are 30 more")
    cove.delete(box)


def of_requests(cove, outside):
    box, before = box_with(cove, requests=200), len(outside.seen)
    got = python(cove, box, ASK, TIMES=5, KEPT=True, REASON="budget_requests")
    c.same(got, {"200": 200, "429": 120, "worded": 120}, "200 requests on kept connections: the 201st is refused")
    c.same(len(outside.seen) - before, 200, "and 200 arrived")
    c.same(ledger(cove, box)[1]["requests"], 200, "as the ledger has it")
    cove.delete(box)


def of_bytes(cove, outside, echo):
    box, before = box_with(cove, bytesOut=1000000), echo.received
    python(cove, box, STREAM, SIZE=50000, FLOOD=False)
    c.ok(c.until(lambda: echo.received - before == 1000000), "1,000,000 bytes out: no more, no less", echo.received - before)
    totals = ledger(cove, box)[1]
    c.same(totals["bytesOut"], 1000000, "as the ledger has it")
    got = python(cove, box, ASK, TIMES=1, KEPT=False, REASON="budget_bytes_out")
    c.ok(got.get("200") is None and got.get("worded") == 64, "later requests get the budget's error", got)
    cove.delete(box)
    box = box_with(cove, bytesIn=1000000)
    got = python(cove, box, STREAM, SIZE=50000, FLOOD=True)
    c.same(got["got"], 1000000, "1,000,000 bytes in: the client got so many")
    c.same(ledger(cove, box)[1]["bytesIn"], 1000000, "as the ledger has it")
    cove.delete(box)


def kill(cove, box, *roles):
    for role, pid in cove.children().items():
        if role in roles:
            os.kill(pid, signal.SIGKILL)
    c.until(lambda: set(cove.children()) >= {"daemon", "warden"} and
            patiently(lambda: cove.get("/v1/sandboxes/" + box["id"])).json["state"] == "running", 30)

    def out():
        reply = patiently(lambda: cove.execute(box, "getent ahosts echo.test"))
        return reply.status == 200 and "198.18." in reply.json["stdout"]
    if not c.until(out, 30, 0.1):
        raise RuntimeError("the box is not out again")


def tally(cove, outside):
    """The same box through it all: each life adds to what was before."""
    box, mine = box_with(cove), {"out": 0, "back": 0, "connections": 0}
    for turn, roles in enumerate((("daemon",), ("daemon", "warden"), ())):
        where = "/workspace/tally-%d" % turn
        program = "WHERE = %r\n" % where + HOLD
        cove.run(box, "cat > hold.py", stdin=program)
        reply = cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "python3 -I hold.py"})
        c.ok(reply.status == 200 and c.until(lambda: cove.out(box, "cat %s 2>/dev/null" % where), 60),
             "%d connections are open, each with bytes behind it" % MANY, reply)
        for key, number in json.loads(cove.out(box, "cat " + where)).items():
            mine[key] += number
        counts = ledger(cove, box)[1]
        c.same((counts["connections"], counts["bytesOut"], counts["bytesIn"]), (mine["connections"], mine["out"], mine["back"]),
               "the totals are what the client counted, while they are open")
        if roles:
            kill(cove, box, *roles)
        else:
            cove.run(box, "pkill -f hold.py")
        c.until(lambda: ledger(cove, box)[1]["open"] == 0)
        rows, totals = ledger(cove, box)
        words = "kill -9 of %s" % " and ".join(roles) if roles else "their end"
        c.same((totals["connections"], totals["bytesOut"], totals["bytesIn"]), (mine["connections"], mine["out"], mine["back"]),
               "and after " + words)
        sums = summed([row for row in rows if row["name"] == "echo.test"])
        c.same((sums["requests"], sums["bytesOut"], sums["bytesIn"]), (mine["connections"], mine["out"], mine["back"]),
               "so are the rows, each once")
    cove.delete(box)


# Questions by TCP that never come to their end, a byte now and then. All connections are asked for at once: those that are
# opened slowly find room again, for the first are cut off after ten seconds.
DRIP = r'''
import json, resource, select, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
mine, poll, since = {}, select.poll(), time.monotonic()
for _ in range(1100):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("8.8.8.8", 53))
    mine[s.fileno()] = s
    poll.register(s, select.POLLIN | select.POLLOUT)
cut = None
while mine and time.monotonic() - since < 60:
    for fd, _ in poll.poll(1000):
        try:
            if mine[fd].send(b"\x0f") and mine[fd].recv(1) != b"": continue
        except BlockingIOError:
            continue
        except OSError: pass
        poll.unregister(fd)
        mine.pop(fd).close()
    if mine: time.sleep(1)
    else: cut = time.monotonic() - since
print(json.dumps({"cut": cut}))
'''


def of_names(cove):
    box = box_with(cove)
    got = python(cove, box, DRIP)
    totals = ledger(cove, box)[1]
    c.ok(got["cut"] and got["cut"] > 9, "each has ten seconds, however it drips", got)
    c.ok(totals["connections"] == 0 and totals["open"] == 0 and 0 < totals["denied"] <= 76,
         "of questions by TCP 1,024 are open at once, and none counts as a connection", totals)
    cove.delete(box)


def main():
    outside = Outside("www.test", "echo.test")
    echo = outside.echo()
    cove = c.Cove(*outside.options("--egress-rate=%d" % QUICK))
    try:
        of_connections(cove, outside)
        of_requests(cove, outside)
        of_bytes(cove, outside, echo)
        tally(cove, outside)
        of_names(cove)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
        outside.close()
    c.done()


main()
