#!/usr/bin/env python3
"""Terminals: job control, sizes, replay, several clients of one terminal, its end, lost
connections, commands with an exit code, and how long one takes."""
import os
import sys
import time
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cove import Cove, SHORT, done, note, ok, same, until  # noqa: E402
from wsclient import Refused, Terminal  # noqa: E402

cove = Cove()
box = cove.create()
ROOT = "/v1/sandboxes/%s" % box["id"]
NONE = "__DISABLE_SESSION__"


def terminal(query="sessionId=t", **kw):
    return Terminal(cove, box, query, **kw)


def start(line, mark):
    """Types a command that prints a mark, which is not in the typed text: the command runs now, outside the line editor."""
    t.type(line + "\n")
    return ok(t.until(mark), "%s runs" % line, t.seen[-300:])


def refused(query, **kw):
    try:
        terminal(query, **kw).close()
    except Refused as answer:
        return answer.status
    return 101


def terminals():
    return cove.get(ROOT + "/api/terminals").json["terminals"]


# ---- a shell
t = terminal()
ok(t.until(event="ready"), "a new terminal is ready", t.events)
same(t.events, [{"type": "ready", "offset": 0}], "and says just that")
t.type("echo $((6*7))\n")
ok(t.until(b"42\r\n"), "typed input is run, and its output is shown", t.seen)
t.type("stty size; echo term=$TERM; tty; pwd\n")
ok(t.until(b"24 80\r\n") and t.until(b"term=xterm-256color"), "the terminal is 80 by 24, and TERM is set", t.seen)
ok(t.until(b"/dev/pts/") and t.until(b"/workspace"), "the tty is in the sandbox's own devpts", t.seen)
t.resize(132, 50)
t.type("stty size\n")
ok(t.until(b"50 132\r\n"), "a resize is seen", t.seen)
start("trap 'echo winch-$(stty size)' WINCH; echo $((10+1))-set", b"11-set\r\n")
t.resize(100, 40)
t.type("\n")
ok(t.until(b"winch-40 100"), "and told by a signal", t.seen)
t.type("trap - WINCH\n")

# ---- job control
start("sh -c 'echo $((20+2))-runs; exec sleep 100'", b"22-runs\r\n")
begin = time.monotonic()
t.type("\x03")
t.type("echo status=$?\n")
ok(t.until(b"status=130\r\n"), "Ctrl-C ends what runs", t.seen[-300:])
ok(time.monotonic() - begin < 50, "at once")
start("sh -c 'echo $((30+3))-runs; exec sleep 99'", b"33-runs\r\n")
t.type("\x1a")
ok(t.until(b"Stopped"), "Ctrl-Z stops it", t.seen[-300:])
t.type("jobs; kill %1; wait; echo gone\n")
ok(t.until(b"gone\r\n"), "and jobs are jobs", t.seen[-300:])
ok(b"no job control" not in t.seen, "the shell has job control", t.seen)
start("sh -c 'echo $((40+4))-runs; exec cat'", b"44-runs\r\n")
t.type("hello\n\x04")
t.type("echo after-cat\n")
ok(t.until(b"after-cat\r\n"), "Ctrl-D is the end of input", t.seen[-300:])

# ---- bad control input
for text in ("nonsense", "{}", '{"type":"dance"}', '{"type":"resize","cols":0,"rows":5}',
             '{"type":"resize","cols":5}', '{"type":"resize","cols":5000,"rows":5}', "[1]"):
    t.events.clear()
    t.send(text)
    ok(t.until(event="error") and t.last("error").get("message"), "%s is answered with an error" % text, t.events)
t.type("echo still-here\n")
ok(t.until(b"still-here\r\n"), "and the terminal works on")

# ---- two clients of one terminal
other = terminal()
ok(other.until(event="ready"), "another one comes to the same terminal")
ok(b"still-here" in other.seen and b"winch" in other.seen, "and sees what was shown before", other.seen[-300:])
same(other.seen[:len(t.seen)][-100:], t.seen[-100:], "byte by byte")
other.type("echo from-other\n")
ok(t.until(b"from-other\r\n") and other.until(b"from-other\r\n"), "both see what one types")
same([each["attached"] for each in terminals()], [2], "the list tells who is there")
other.close()

# ---- lost connection
# One process instead of a shell loop: a Ctrl-C that arrives while bash starts the next command of a loop may be lost.
t.type("sh -c 'i=0; while sleep 0.05; do i=$((i+1)); echo tick-$i; done'\n")
ok(t.until(b"tick-3\r\n"), "something runs")
t.cut()
time.sleep(0.5)
t = terminal()
ok(t.until(event="ready") and b"tick-3\r\n" in t.seen, "after a lost connection the screen is there again")
ok(t.until(b"tick-12\r\n"), "and the program has gone on", t.seen[-300:])
t.type("\x03")
t.type("cd /tmp; export MARK=kept\n")
t.close()
t = terminal()
t.type("echo $PWD-$MARK\n")
ok(t.until(b"/tmp-kept"), "closing the socket leaves the shell as it was", t.seen[-300:])

# ---- the end
t.type("exit 7\n")
ok(t.until(event="exit"), "the end is told", t.events)
same(t.last("exit"), {"type": "exit", "code": 7}, "with the exit code")
same(t.end() if t.closed is None else t.closed, 1000, "and the socket closes with 1000")
same(terminals(), [], "an ended shell is not listed any more")
t = terminal()
ok(t.until(event="ready"), "a new connection gets a new shell")
t.type("echo mark=$MARK.\n")
ok(t.until(b"mark=.\r\n"), "a fresh one", t.seen)
t.type("kill -9 $$\n")
ok(t.until(event="exit"), "a killed shell is told", t.events)
same(t.last("exit"), {"type": "exit", "code": 137, "signal": "SIGKILL"}, "with its signal")

# ---- other shells, bad queries
t = terminal("sessionId=s2&shell=sh&cols=40&rows=10")
t.type("echo $0; stty size\n")
ok(t.until(b"sh\r\n") and t.until(b"10 40\r\n"), "another shell, another size", t.seen)
t.close()
t = terminal("sessionId=s3&shell=/no/such/shell")
ok(t.until(event="error"), "a shell that cannot start is told", t.events)
same(t.end() if t.closed is None else t.closed, 1011, "and the socket closes with 1011")
same(refused(""), 400, "without a session there is no terminal")
same(refused("sessionId=%20"), 400, "nor with a blank one")
same(refused("sessionId=a&cols=0"), 400, "no columns are no terminal")
same(refused("sessionId=a&rows=4097"), 400, "too many rows neither")
same(refused("sessionId=a&cols=x"), 400, "nor what is no number")
same(refused("terminal=unknown"), 404, "a terminal that is not there cannot be attached to")
same(refused("sessionId=a", key=False), 401, "a request without a key is refused")
same(refused("sessionId=a", headers={"Origin": "http://evil.example"}), 403, "no page of another site")
same(cove.get(ROOT + "/ws/pty?sessionId=a").status, 404, "a plain request finds nothing")

# ---- the state of a session
cove.post(ROOT + "/api/session/create", {"id": "work", "env": {"FROM_SESSION": "yes"}, "cwd": "/tmp"})
made = cove.post(ROOT + "/api/execute", {"command": "cd /var; export LATER='it is'; echo ok", "sessionId": "work"})
if made.status == 200:
    t = terminal("sessionId=work")
    t.type("echo \"$PWD|$FROM_SESSION|$LATER|$TERM\"\n")
    ok(t.until(b"/var|yes|it is|xterm-256color\r\n"), "a terminal starts where its session stands", t.seen)
    t.type("exit\n")
    t.until(event="exit")
else:
    note("sessions: %r" % made)

# ---- commands
t = terminal("command=bash&command=-c&command=" + quote("echo \"a  b\" +$X; exit 5") + "&env=" + quote("X=1 2"))
ok(t.until(event="exit"), "a command ends", t.events)
same(t.last("exit"), {"type": "exit", "code": 5}, "with its own exit code")
ok(b"a  b +1 2\r\n" in t.seen, "its words and variables are as they were sent", t.seen)
ok(t.events[0].get("terminal", "").startswith("term-"), "the terminal has an id of its own", t.events)
t = terminal("command=sh&command=-c&command=" + quote("sleep 0.4; echo late; exit 9"))
t.until(event="ready")
name = t.last("ready")["terminal"]
t.cut()
time.sleep(0.8)
t = terminal("terminal=" + name)
ok(t.until(event="exit") and t.last("exit")["code"] == 9 and b"late" in t.seen,
   "the end of a command is kept for one whose connection was lost", t.events, t.seen)
same(refused("terminal=" + name), 404, "until it was told")
t = terminal("command=no-such-program")
ok(t.until(event="error"), "a program that is not there is told", t.events)
same(t.end() if t.closed is None else t.closed, 1011, "and closes with 1011")
t = terminal("command=id&command=-u&user=1000&cwd=/")
t.until(event="exit")
ok(b"1000\r\n" in t.seen, "a command runs as the user that is named", t.seen)

# ---- ending one from outside
t = terminal("sessionId=doomed")
t.until(event="ready")
start("trap '' TERM HUP INT; sleep 1000 & echo $((50+5))-runs; sleep 1001", b"55-runs\r\n")
same(cove.request("DELETE", ROOT + "/api/terminals/doomed").status, 200, "a terminal can be ended")
ok(t.until(event="exit") and t.last("exit").get("signal") == "SIGKILL", "its watchers are told", t.events)
ok(until(lambda: "100" not in cove.out(box, "pgrep -af '^sleep 100' || true")), "and nothing of it is left")
same(cove.request("DELETE", ROOT + "/api/terminals/doomed").status, 404, "once")

# ---- floods and slow readers
slow = terminal("sessionId=flood", rcvbuf=4096)
slow.until(event="ready")
size = 20  # read within the 30 s after which a reader that takes nothing is detached
slow.type("head -c %d000000 /dev/zero | tr '\\0' z; echo; echo end-of-''flood\n" % size)
quick = terminal("sessionId=flood")
begin = time.monotonic()
end = begin + 60
while b"end-of-flood\r\n" not in quick.seen and time.monotonic() < end:
    quick.seen = quick.seen[-1000:]
    if not quick.step():
        break
took = time.monotonic() - begin
ok(b"end-of-flood\r\n" in quick.seen, "a client that does not read slows no other: %d MB in %.2f s" % (size, took))
rest = b""
while b"end-of-flood\r\n" not in slow.seen and slow.step():
    slow.seen = slow.seen[-400000:] if b"skipped" not in slow.seen else slow.seen
ok(b"bytes were skipped" in slow.seen, "the skipped bytes are reported on its screen")
again = terminal("sessionId=flood")
again.until(event="ready")
same(len(again.seen), 262144, "the last 256 KiB are kept")
log = cove.get(ROOT + "/api/terminals/flood/log")
ok(log.status == 200 and len(log.body) > 262144, "and more of it on the tape: %d bytes" % len(log.body))
for each in (slow, quick, again):
    each.cut()
t = terminal("sessionId=paste")
t.until(event="ready")
start("stty -echo -icanon; echo $((60+6))-raw; head -c 3000000 | md5sum; stty echo icanon", b"66-raw\r\n")
for _ in range(30):
    t.type(b"q" * 100000)
ok(t.until(b"  -\r\n", seconds=30), "three megabytes are pasted", t.seen[-200:])
import hashlib  # noqa: E402
ok(hashlib.md5(b"q" * 3000000).hexdigest().encode() in t.seen, "and none is lost", t.seen[-200:])
t.close()

# ---- how many
many, refusal = [], None
while refusal is None and len(many) < 70:
    try:
        each = terminal("sessionId=m%d&shell=cat" % len(many))
        many.append(each)
        each.until(event="ready")
    except Refused as answer:
        refusal = (answer.status, answer.json["reason"])
ok(50 <= len(many) <= 64 and refusal == (429, "too_many_terminals"), "a sandbox has 64 terminals at most: %d" % len(many), refusal)
for each in terminals():
    cove.request("DELETE", ROOT + "/api/terminals/" + each["id"])
ok(until(lambda: terminals() == []), "they can all be ended")
for each in many:
    each.cut()

# ---- pace
times = []
for i in range(30 if SHORT else 200):
    begin = time.monotonic()
    t = terminal("command=/bin/true")
    if not t.until(event="exit"):
        break
    times.append(time.monotonic() - begin)
    t.cut()
times.sort()
note("a command on a terminal, connect to exit event: p50 %.2f ms, p90 %.2f ms" %
     (1000 * times[len(times) // 2], 1000 * times[len(times) * 9 // 10]))
same(len(times), 30 if SHORT else 200, "each has ended")

# ---- the end of its session
cove.post(ROOT + "/api/session/create", {"id": "short"})
t = terminal("sessionId=short")
t.until(event="ready")
same(cove.post(ROOT + "/api/session/delete", {"sessionId": "short"}).status, 200, "a session is deleted")
ok(t.until(event="exit"), "and its terminal ends with it", t.events)

# ---- the end of the sandbox
t = terminal("sessionId=last")
t.until(event="ready")
same(cove.delete(box).status, 204, "a sandbox with a terminal is deleted")
same(t.end() if t.closed is None else t.closed, 4410, "and its terminal closes with 4410")
same(cove.close(), 0, "all ends well")
done()
