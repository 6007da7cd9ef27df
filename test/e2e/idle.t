#!/usr/bin/env python3
"""The ladder of idleness: running, frozen, stopped with its files; woken by any request; and pause, which is not."""
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import wsclient  # noqa: E402

c.need_root()
cove = c.Cove("--frozen-for", "1500ms")


def state(box):
    return cove.get("/v1/sandboxes/" + box["id"]).json["state"]


def falls(box, to):
    return c.until(lambda: state(box) == to, 30, 0.05)


def woken(box):
    """How often it was woken, so far."""
    return len([e for e in cove.get("/v1/events?kind=sandbox.woken&limit=1000").json["items"] if e["sandbox"] == box["id"]])


def step(box, word):
    return cove.post("/v1/sandboxes/%s/%s" % (box["id"], word))


# Terms
box = cove.create()
c.same((box["sleepAfter"], box["keepAlive"]), ("10m", False), "the default sleepAfter is 10 minutes, and shown")

# Pause and resume
cove.run(box, "echo kept > /workspace/f; mkdir -p /opt/x; echo 7 > /opt/x/y")
session = cove.post("/v1/sandboxes/%s/api/execute" % box["id"], {"command": "cd /tmp; export V=5"})
counter = cove.post("/v1/sandboxes/%s/api/process/start" % box["id"],
                    {"command": "while :; do echo $EPOCHREALTIME >> /workspace/times; sleep 0.02; done", "processId": "clock"})
c.until(lambda: cove.run(box, "test -s /workspace/times")["exitCode"] == 0)
paused = step(box, "pause")
stood = time.time()
c.same((paused.status, paused.json["state"]), (200, "paused"), "a sandbox is paused")
refused = cove.execute(box, "echo")
c.same((refused.status, refused.json["reason"]), (409, "paused"), "a paused sandbox answers 409 paused")
c.same(cove.get("/v1/sandboxes/%s/api/files?path=/workspace/f" % box["id"]).status in (404, 409), True, "on every way in")
c.same(cove.get("/v1/sandboxes/" + box["id"]).json["state"], "paused", "looking at it does not wake it")
c.same(step(box, "pause").status, 200, "to pause it again is harmless")
time.sleep(0.5)
went = time.time()
resumed = step(box, "resume")
c.same((resumed.status, resumed.json["state"]), (200, "running"), "the sandbox is resumed")
c.ok(c.until(lambda: float(cove.out(box, "tail -n 1 /workspace/times")) > went), "it goes on")
times = [float(word) for word in cove.out(box, "cat /workspace/times").split()]
c.ok(times[0] < stood and not [at for at in times if stood < at < went], "and nothing ran meanwhile", times, stood, went)
c.same(cove.post("/v1/sandboxes/%s/api/execute" % box["id"], {"command": "echo $V $PWD"}).json["stdout"], "5 /tmp",
       "its sessions are where they were")


def timed(what):
    began = time.monotonic()
    what()
    return time.monotonic() - began


def fresh():
    made = cove.create()
    cove.run(made, "true")
    cove.delete(made)


steps, lives = [], []
for _ in range(20):
    steps.append(timed(lambda: (step(box, "pause"), step(box, "resume"))))
    lives.append(timed(fresh))
c.note("pause and resume: %.2f ms, a whole life: %.2f ms" % (sorted(steps)[10] * 1000, sorted(lives)[10] * 1000))
c.ok(sorted(steps)[10] < sorted(lives)[10], "pausing and resuming takes less than to make, use and delete one", steps, lives)
c.same(cove.delete(box).status, 204, "a sandbox with a process is deleted")
box = cove.create()
step(box, "pause")
began = time.monotonic()
c.same(cove.delete(box).status, 204, "L-07 a paused sandbox is deleted")
c.ok(time.monotonic() - began < 20, "soon", time.monotonic() - began)

# Stop and start
box = cove.create(name="stops", env={"E": "1"}, labels={"l": "1"})
cove.run(box, "echo kept > /workspace/f; mkdir -p /opt/x; echo 7 > /opt/x/y; touch /tmp/t")
cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "echo out; sleep 100", "processId": "p1"})
c.until(lambda: "out" in cove.get("/v1/sandboxes/%s/api/process/p1/logs" % box["id"]).body.decode())
stopped = step(box, "stop")
c.same((stopped.status, stopped.json.get("state")), (200, "stopped"), "a sandbox is stopped")
c.same(c.census(cove)["processes"], 0, "its processes are gone")
c.same(step(box, "stop").status, 200, "to stop it again is harmless")
c.same(step(box, "pause").json["reason"], "not_running", "a sandbox that does not run cannot be paused")
ended = cove.get("/v1/sandboxes/%s/api/process/p1" % box["id"])
c.ok(ended.status == 200 and ended.json["process"]["status"] in ("killed", "failed", "error", "completed"),
     "what ran in it is remembered as ended", ended)
c.same(state(box), "stopped", "remembering does not wake it")
c.ok("out" in cove.get("/v1/sandboxes/%s/api/process/p1/logs" % box["id"]).body.decode(), "its output is there")
began = time.monotonic()
started = step(box, "start")
c.same((started.status, started.json.get("state")), (200, "running"), "the sandbox is started")
c.note("start: %.1f ms" % ((time.monotonic() - began) * 1000))
c.same(cove.out(box, "cat /workspace/f /opt/x/y; echo $E"), "kept\n7\n1\n", "on its own files, with its environment")
c.same(step(box, "start").status, 200, "to start it again is harmless")
c.ok("out" in cove.get("/v1/sandboxes/%s/api/process/p1/logs" % box["id"]).body.decode(), "the output of its last life is there still")
step(box, "stop")
c.same(cove.out(box, "cat /workspace/f"), "kept\n", "a stopped sandbox is woken by a request")
step(box, "stop")
answers = []
threads = [threading.Thread(target=lambda: answers.append(cove.execute(box, "echo hi").status)) for _ in range(10)]
for t in threads:
    t.start()
for t in threads:
    t.join()
c.same(answers, [200] * 10, "ten at once wake it once")
step(box, "stop")
c.same(cove.request("PUT", "/v1/sandboxes/stops", {}).json["id"], box["id"], "get-or-create finds a stopped one")
c.same(cove.delete(box).status, 204, "a stopped sandbox is deleted")
c.ok(c.until(lambda: c.census(cove)["boxes"] == 0), "with its files")

# Idleness
box = cove.create(sleepAfter="1s")
cove.run(box, "echo kept > /workspace/f")
began = time.monotonic()
cove.post("/v1/sandboxes/%s/api/execute" % box["id"], {"command": "export V=6"})
c.ok(falls(box, "frozen"), "an idle sandbox is frozen")
c.ok(0.9 < time.monotonic() - began, "after its sleepAfter; asking about it is no use of it", time.monotonic() - began)
began = time.monotonic()
c.same(cove.post("/v1/sandboxes/%s/api/execute" % box["id"], {"command": "echo $V"}).json["stdout"], "6",
       "a frozen sandbox is woken by a request, with all that was in it")
c.ok(c.until(lambda: woken(box) == 1), "and runs")
c.ok(falls(box, "frozen"), "the sandbox is frozen again")
c.ok(falls(box, "stopped"), "a frozen one is stopped after a while")
c.ok(2.4 < time.monotonic() - began, "after sleepAfter and --frozen-for", time.monotonic() - began)
c.same(cove.get("/v1/sandboxes/" + box["id"]).json.get("reason"), "idle", "and says why")
c.same(cove.out(box, "cat /workspace/f"), "kept\n", "and woken on its files")

busy = cove.create(sleepAfter="1s")
cove.post("/v1/sandboxes/%s/api/process/start" % busy["id"], {"command": "sleep 100", "processId": "s"})
stream = cove.create(sleepAfter="1s")
lines = cove.events(stream, "mkfifo /tmp/gate; cat /tmp/gate; echo over")
burn = cove.create(sleepAfter="1s")
cove.post("/v1/sandboxes/%s/api/execute" % burn["id"], {"command": "(while :; do :; done) & disown; echo"})
quiet = cove.create(sleepAfter="1s")
cove.post("/v1/sandboxes/%s/api/execute" % quiet["id"], {"command": "sleep 1000 & disown; echo"})
alive = cove.create(sleepAfter="1s", keepAlive=True)
term = cove.create(sleepAfter="1s")
ws = wsclient.WebSocket(cove, "/v1/sandboxes/%s/ws/pty?sessionId=t&cols=80&rows=24" % term["id"])
time.sleep(3)
c.same(state(busy), "running", "a process that runs is use, even if it sleeps")
c.same(state(stream), "running", "an open stream is use")
c.same(state(burn), "running", "CPU time is use, whoever left it running")
c.ok(c.until(lambda: state(quiet) in ("frozen", "stopped")), "a background job that waits is none", state(quiet))
c.same(state(term), "running", "a terminal that is watched is use")
c.same(state(alive), "running", "keepAlive keeps it from that")
cove.run(stream, ": > /tmp/gate")
list(lines)
cove.request("DELETE", "/v1/sandboxes/%s/api/process/s" % busy["id"])
c.ok(falls(busy, "frozen") and falls(stream, "frozen"), "when that is over they fall asleep")
cove.request("PATCH", "/v1/sandboxes/" + alive["id"], {"keepAlive": False})
c.ok(falls(alive, "frozen"), "as does one whose keepAlive was taken back")
began = time.monotonic()
c.same([cove.delete(b).status for b in (busy, stream, burn, quiet, alive, term)], [204] * 6, "L-07 frozen ones are deleted")
c.ok(time.monotonic() - began < 40, "soon", time.monotonic() - began)

# Woken by any request; sockets count, questions do not
SERVER = ("import http.server as h, time\nclass S(h.BaseHTTPRequestHandler):\n def do_GET(s):\n  s.send_response(200); s.end_headers()\n  s.wfile.write(b'hello '); s.wfile.flush()\n"
          "  time.sleep(4 if s.path == '/slow' else 0); s.wfile.write(b'there')\nh.ThreadingHTTPServer(('127.0.0.1', 4000), S).serve_forever()")
port = cove.create(sleepAfter="1s")
base = "/v1/sandboxes/%s/" % port["id"]
cove.post(base + "api/write", {"path": "/workspace/server.py", "content": SERVER})
cove.post(base + "api/execute", {"command": "python3 /workspace/server.py > /dev/null 2>&1 & disown; echo"})
c.ok(c.until(lambda: cove.get(base + "proxy/4000/").body == b"hello there"), "a server in a background job")
asked = threading.Event()


def questions():
    while not asked.wait(0.1):
        cove.get("/v1/sandboxes/" + port["id"])
        cove.get("/v1/sandboxes?limit=10")
        cove.get(base + "api/process/list")


asking = threading.Thread(target=questions)
asking.start()
c.ok(falls(port, "frozen"), "API calls that ask about it are no use, however many")
asked.set()
asking.join()
wakers = {
    "a command": lambda: cove.execute(port, "echo hi").status,
    "a file that is read": lambda: cove.post(base + "api/read", {"path": "/workspace/server.py"}).status,
    "a file that is written": lambda: cove.post(base + "api/write", {"path": "/workspace/w", "content": "w"}).status,
    "a list of ports": lambda: cove.get(base + "api/ports").status,
    "a request to a port": lambda: cove.get(base + "proxy/4000/").status,
    "a terminal": lambda: (wsclient.WebSocket(cove, base + "ws/pty?sessionId=w&cols=80&rows=24").close(), 200)[1],
    "a stream": lambda: 200 if list(cove.events(port, "echo hi")) else 0,
    "a process": lambda: cove.post(base + "api/process/start", {"command": "true"}).status,
}
for name, wake in wakers.items():
    c.ok(falls(port, "frozen"), "frozen again")
    before = woken(port)
    c.ok(wake() in (200, 201) and c.until(lambda: woken(port) > before), "%s wakes it" % name, state(port))
held = threading.Thread(target=lambda: cove.get(base + "proxy/4000/slow"))
held.start()
time.sleep(2.5)
c.same(state(port), "running", "an open socket to one of its ports is use")
held.join()
c.ok(falls(port, "frozen") and falls(port, "stopped"), "and when it is closed, no more")
c.same(cove.post(base + "api/read", {"path": "/workspace/w"}).status, 200, "a stopped one is woken by a file")
step(port, "stop")
wsclient.WebSocket(cove, base + "ws/pty?sessionId=w&cols=80&rows=24").close()
c.same(state(port), "running", "and by a terminal")
step(port, "stop")
c.ok(cove.get(base + "proxy/4000/").status in (404, 502) and state(port) == "running", "and by a request to a port, though nobody listens there any more")
cove.delete(port)

# A daemon that dies leaves every sandbox where it was
four = {name: cove.create(name=name, sleepAfter="1s" if name == "froze" else "10m") for name in ("runs", "rests", "froze", "lies")}
for one in four.values():
    cove.run(one, "echo kept > /workspace/f")
step(four["rests"], "pause")
step(four["lies"], "stop")
falls(four["froze"], "frozen")
was = {name: state(one) for name, one in four.items()}
os.kill(cove.children()["daemon"], signal.SIGKILL)
c.until(lambda: "daemon" in cove.children())
c.until(lambda: cove.get("/v1/health", timeout=30).json["status"] == "ok")
same = {name: state(one) for name, one in four.items()}
c.ok(all(same[name] == was[name] or (name == "froze" and same[name] == "stopped") for name in four),
     "a killed daemon leaves every sandbox on its step", was, same)
c.same(cove.execute(four["rests"], "id").json["reason"], "paused", "a paused sandbox is still paused")
step(four["rests"], "resume")
c.same([cove.out(one, "cat /workspace/f") for one in four.values()], ["kept\n"] * 4, "and all of them wake")
for one in four.values():
    cove.delete(one)

# The command line
env = dict(os.environ, COVE_URL=cove.url, COVE_TOKEN=cove.key)


def cli(*words):
    done = subprocess.run([c.BIN] + list(words), env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


c.same(cli("create", "--name", "cli", "--sleep-after", "5m", "--ttl", "1h")[0], 0, "cove create takes terms")
c.same([cli(word, "cli") for word in ("pause", "resume", "stop", "start")], [(0, "cli\n")] * 4, "cove pause, resume, stop, start")
told = cove.get("/v1/sandboxes/cli").json
c.ok(told["sleepAfter"] == "5m" and told["endsAt"] and told["state"] == "running", "as it was told", told)
c.same(cli("pause", "none")[0], 3, "an absent sandbox is status 3")
c.ok("looked at" in cli("cleanup")[1], "cove cleanup")
cli("rm", "-f", "cli")

# TTL
brief = cove.create(ttl=2, name="brief")
c.ok(brief["endsAt"] is not None, "a ttl is shown as endsAt", brief)
longer = cove.create(ttl="2s")
cove.request("PATCH", "/v1/sandboxes/" + longer["id"], {"ttl": "1h"})
step(brief, "pause")
c.ok(c.until(lambda: cove.get("/v1/sandboxes/brief").status == 404), "the sandbox is deleted at the end of its ttl, whatever runs")
time.sleep(0.5)
c.same(cove.get("/v1/sandboxes/" + longer["id"]).status, 200, "a ttl can be changed")
for bad in (0, "x", -1, [], "10", "9999h"):
    c.same(cove.post("/v1/sandboxes", {"ttl": bad}).status, 400, "ttl %r is refused" % (bad,))
for b in (longer, box):
    cove.delete(b)
c.same(cove.stop(), 0, "cove ends")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
