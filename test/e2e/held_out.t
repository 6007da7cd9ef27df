#!/usr/bin/env python3
"""What suites of others met with the official client's protocol: large states of sessions, limits,
backups, terminals, previews over a restart of cove, and the words of errors."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from agent_sessions import kill_daemon  # noqa: E402
from visits import Site, free_port  # noqa: E402
from wsclient import Refused, Terminal  # noqa: E402

NONE = "__DISABLE_SESSION__"


class Box:
    def __init__(self, cove, **spec):
        self.cove, self.box = cove, cove.create(**spec)
        self.base = "/v1/sandboxes/%s" % self.box["id"]

    def post(self, path, body, **kw):
        return self.cove.post(self.base + path, body, headers={"Content-Type": "application/json"}, **kw)

    def say(self, session, command, **fields):
        return self.post("/api/execute", dict(fields, command=command, sessionId=session)).json

    def stream(self, session, command, **fields):
        """stdout, stderr and the last event of a streamed command."""
        events = self.cove.events(self.box, command, sessionId=session, **fields)
        if isinstance(events, c.Reply):
            return events.json["message"], "", events.json
        out, err, last = c.collect(events)
        return out.decode(), err.decode(), last

    def process(self, session, command, **fields):
        """stdout of a process that has ended."""
        made = self.post("/api/process/start", dict(fields, command=command, sessionId=session)).json
        if "processId" not in made:
            return made["message"]
        path = self.base + "/api/process/" + made["processId"]
        c.until(lambda: self.cove.get(path).json["process"]["status"] != "running", 60)
        return self.cove.get(path + "/logs").json["stdout"]


def large_states(box):
    lengths = []
    for size in (50000, 200000, 1 << 20, 7 << 20):
        name = "big%d" % size
        box.say(name, "V=$(head -c %d /dev/zero | tr '\\0' \"'\"); f(){ echo \"it's $1 ${#V}\"; }; cd /tmp; W=é" % size)
        out, err, last = box.stream(name, "f stream $W; pwd; cat")
        lengths.append((out, err, last.get("exitCode")))
        c.same(box.process(name, "f process"), "it's process %d\n" % size,
               "a session with %d bytes of variables starts a process, which has them" % size)
    c.same(lengths, [("it's stream %d\n/tmp\n" % n, "", 0) for n in (50000, 200000, 1 << 20, 7 << 20)],
           "and a stream, with an empty stdin")
    box.say("many", "for i in $(seq 4000); do eval \"fn$i(){ echo number $i of many functions with some words in it; }\"; done")
    c.same(box.stream("many", "fn3999; echo $?")[0], "number 3999 of many functions with some words in it\n0\n",
           "so do four thousand functions")
    made = box.post("/api/process/start", {"command": "read -r a; echo \"$a ${#V}\"; cat", "sessionId": "big1048576",
                                           "stdin": "first\nrest\n"}).json
    path = box.base + "/api/process/" + made["processId"]
    c.until(lambda: box.cove.get(path).json["process"]["status"] != "running", 60)
    c.same(box.cove.get(path + "/logs").json["stdout"], "first 1048576\nrest\n", "the input of such a process is its own")
    box.say("huge", "V=$(head -c 9000000 /dev/zero | tr '\\0' x)")
    got = box.post("/api/execute/stream", {"command": "true", "sessionId": "huge"})
    c.same((got.status, got.json["reason"], "8 MiB" in got.json["hint"]), (413, "state_too_large", True),
           "more than 8 MiB is refused, with the bound in the hint")
    c.same(box.say("huge", "echo ${#V}")["stdout"], "9000000", "and the session lives on")


def state_edges(box):
    kib, mib = 1 << 10, 1 << 20
    got = {}
    # `declare -p` and the rest of a fresh shell's state are below 64 KiB.
    for size in (96 * kib - 1, 96 * kib + 1, 128 * kib - 1, 128 * kib + 1, 8 * mib - 64 * kib):
        name = "edge%d" % size
        box.say(name, "V=$(head -c %d /dev/zero | tr '\\0' v); cd /tmp" % size)
        got[size] = (box.stream(name, "echo ${#V}; pwd")[0], box.process(name, "echo ${#V}; pwd"))
    c.same(got, {size: ("%d\n/tmp\n" % size,) * 2 for size in got},
           "streams and processes have states of 96 KiB, 128 KiB and nearly 8 MiB, on both sides of each bound")
    box.say("over", "V=$(head -c %d /dev/zero | tr '\\0' v)" % (8 * mib + 1))
    got = [box.post(path, {"command": "true", "sessionId": "over"}) for path in ("/api/execute/stream", "/api/process/start")]
    c.same([(one.status, one.json["reason"]) for one in got], [(413, "state_too_large")] * 2, "one byte over 8 MiB is refused to both")


def state_outlives(cove):
    """A start that was told is a start with all of the state, whatever becomes of the daemon."""
    box = Box(cove)
    box.say("kept", "V=$(head -c 7000000 /dev/zero | tr '\\0' v)")
    got = []
    for i in range(3):
        made = box.post("/api/process/start", {"command": "echo ${#V}", "sessionId": "kept"}).json["processId"]
        kill_daemon(cove)
        path = box.base + "/api/process/" + made
        c.until(lambda: cove.get(path).json["process"]["status"] != "running", 60)
        got.append((cove.get(path).json["process"].get("exitCode"), cove.get(path + "/logs").json["stdout"]))
    c.same(got, [(0, "7000000\n")] * 3, "a process with a large state runs, though the daemon is killed as soon as it is told")
    cove.delete(box.box)


def terminal_state(box):
    def shown(name, command, end):
        one = Terminal(box.cove, box.box, "sessionId=" + name)
        one.until(event="ready")
        one.type("stty -echo; PS1=; %s; echo e''nd\n" % command)
        one.until(b"end\r\n")
        seen = one.seen
        one.close()
        return end in seen, seen[-300:]

    for size in (96 << 10, 200000, 7 << 20, 9 << 20):
        name = "term%d" % size
        box.say(name, "V=$(head -c %d /dev/zero | tr '\\0' x); f(){ :; }; g(){ echo from-g; }; export -f g; cd /tmp; "
                      "umask 027; ulimit -n 200; export PATH=/own:$PATH WORD='it is'; unset LANG" % size)
        found, seen = shown(name, "echo \"${PATH%%:*}|$WORD|$PWD|$(umask)|$(ulimit -n)|${LANG-none}|$(g)|\"", b"/own|it is|/tmp|0027|200|none|from-g|\r\n")
        c.ok(found, "a terminal has the exports, directory, umask and limits of a session with %d bytes of other state" % size, seen)
    box.say("wide", "export A=$(head -c 60000 /dev/zero | tr '\\0' a) B=$(head -c 60000 /dev/zero | tr '\\0' b)")
    found, seen = shown("wide", "echo ${#A}-${#B}-", b"60000-60000-\r\n")
    c.ok(found, "and exports that are too long for one argument", seen)
    box.say("wider", "cd /var; export A=$(head -c 100000 /dev/zero | tr '\\0' a) B=$(head -c 100000 /dev/zero | tr '\\0' b)")
    found, seen = shown("wider", "echo $PWD-${#A}-", b"/var-0-\r\n")
    c.ok(found, "beyond 128 KiB of them it starts all the same, in the directory", seen)


def limits_travel(box):
    box.say("lim", "ulimit -n 200; ulimit -S -s 4096; ulimit -t 500")
    c.same([box.stream("lim", "ulimit -n; ulimit -Hn; ulimit -Ss; ulimit -t")[0],
            box.process("lim", "ulimit -n; ulimit -Hn; ulimit -Ss; ulimit -t")],
           ["200\n200\n4096\n500\n"] * 2, "the limits of a session go with its streams and processes")
    box.stream("lim", "true")
    c.same(box.stream("lim", "ulimit -n")[0], "200\n", "also by a shell that was kept ready")
    box.say("free", ":")
    c.ok(int(box.stream("free", "ulimit -n")[0]) > 200, "and with nobody else's")


def few_files(box):
    for files in (128, 64):
        name = "files%d" % files
        box.say(name, "X=1; ulimit -n %d" % files)
        got = [box.say(name, "echo $X; X=$((X+1)); echo err >&2"), box.say(name, "echo $X; ulimit -n; cd /tmp"), box.say(name, "pwd")]
        c.same([(one.get("stdout"), one.get("stderr")) for one in got], [("1", "err"), ("2\n%d" % files, ""), ("/tmp", "")],
               "a session lives on with ulimit -n %d" % files)


def verbose(box):
    got = [box.say("v", "set -v"), box.say("v", "echo one\necho two >&2"), box.say("v", "{ false; }"), box.say("v", "echo last \\")]
    c.same([(one["stdout"], one["stderr"], one["exitCode"]) for one in got],
           [("", "", 0), ("one", "echo one\necho two >&2\ntwo", 0), ("", "{ false; }", 1), ("last", "echo last \\", 0)],
           "set -v shows what was sent, and nothing of cove's")
    c.same(box.stream("v", "echo s")[:2], ("s\n", "echo s\n"), "in a stream, too")
    c.same([box.say("plain", "echo '{ x' >&2")["stderr"], box.say("plain", "echo '{ echo' >&2")["stderr"]], ["{ x", "{ echo"],
           "what merely looks like it is shown")


def surrogates(box):
    text = b'{"path":"/tmp/half","content":"a\\ud800b\\udc00\\ud83d\\ude00\\ud83d"}'
    c.same(box.post("/api/write", text).status, 200, "half of a surrogate pair is taken, as JavaScript takes it")
    got = box.post("/api/read", {"path": "/tmp/half"}).json["content"]
    c.same(got, "a\ufffdb\ufffd\U0001f600\ufffd", "as U+FFFD")
    c.same(box.post("/api/execute", b'{"command":"printf %s x\\udfff"}').json["stdout"], "x\ufffd", "in a command, too")
    c.same(box.post("/api/execute", b'{"comm\\ud800and":"x"}').status, 400, "in the name of a member it is refused")


def terminals(cove):
    box = Box(cove, limits={"pids": 512})
    opened, refusals = [], []
    for i in range(70):
        try:
            one = Terminal(cove, box.box, "sessionId=t%d" % i)
            if one.until(event="ready"):
                opened.append(one)
        except Refused as refused:
            refusals.append((refused.status, refused.json["reason"]))
    listed = cove.get(box.base + "/api/terminals").json["terminals"]
    c.same((len(opened), len([one for one in listed if not one.get("hasEnded")]), set(refusals)),
           (64, 64, {(429, "too_many_terminals")}), "a sandbox has 64 terminals, and the others are refused")
    for one in opened:
        one.close()
    cove.delete(box.box)


def environment(box):
    box.post("/api/env", {"envVars": {"WIDE": "1", "OTHER": "1"}})
    box.post("/api/session/create", {"id": "own", "env": {"WIDE": "1", "MINE": "m"}})
    box.say("set", "export OTHER=mine NEW=mine")
    box.say("plain", ":")
    before = box.say("plain", "echo $PATH")["stdout"]
    box.post("/api/env", {"envVars": {"WIDE": "2", "OTHER": "2", "NEW": "2", "PATH": before + ":/x"}})
    c.same([box.say(name, "echo $WIDE $OTHER $NEW $MINE ${PATH##*:}")["stdout"] for name in ("own", "set", "plain", "fresh")],
           ["1 2 2 m /x", "2 mine mine /x", "2 2 2 /x", "2 2 2 /x"],
           "what a session was made with, or has set, wins over the box's; the rest changes in it")
    box.say("set", "unset WIDE")
    box.post("/api/env", {"envVars": {"WIDE": "3", "OTHER": None}})
    c.same([box.say(name, "echo ${WIDE-none} ${OTHER-none}")["stdout"] for name in ("own", "set", "plain")],
           ["1 none", "none mine", "3 none"], "also what it has unset, and what the box takes away")


def proxied(box):
    box.post("/api/process/start", {"command": "python3 -c \"\nimport http.server as h\nclass H(h.BaseHTTPRequestHandler):\n"
                                               "  def do_GET(s):\n    s.send_response(200); s.end_headers(); s.wfile.write(str(s.headers).encode())\n"
                                               "h.HTTPServer(('127.0.0.1', 9123), H).serve_forever()\"", "sessionId": NONE})
    sent = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "public.example", "X-Forwarded-For": "9.9.9.9",
            "X-Original-URL": "https://public.example/a", "X-Sandbox-Name": "theirs"}

    def ask(headers):
        return box.cove.get(box.base + "/proxy/9123/", headers=headers)

    c.until(lambda: ask({}).status == 200, 30)
    got = dict(line.split(": ", 1) for line in ask(sent).body.decode().splitlines() if ": " in line)
    c.same({name: got.get(name) for name in sent}, sent, "/proxy passes on who the client says it speaks for, unchanged")
    got = dict(line.split(": ", 1) for line in ask({}).body.decode().splitlines() if ": " in line)
    c.same((got["X-Forwarded-For"], got["X-Forwarded-Proto"]), ("127.0.0.1", "http"), "and says it where the client does not")


def errors(box):
    got = box.post("/api/read", {"path": "/none"}).json
    c.ok(got["code"] == "FILE_NOT_FOUND" and got["suggestion"], "errors in a sandbox come with a suggestion", got)
    c.ok("suggestion" not in box.cove.get("/v1/sandboxes/none").json, "cove's own do not")
    got = box.post("/api/git/checkout", {"repoUrl": "a\0b"}).json
    c.same((got["code"], [(one["field"], bool(one["message"]), bool(one["code"])) for one in got["context"]["validationErrors"]]),
           ("INVALID_GIT_URL", [("repoUrl", True, True)]), "a URL that is none is a validation error")
    box.post("/api/process/start", {"command": "python3 -c \"import socket,time;s=socket.socket();s.bind(('127.0.0.1',7777));"
                                               "s.listen();time.sleep(100)\"", "sessionId": NONE})
    c.until(lambda: "7777" in box.cove.out(box.box, "cat /proc/net/tcp | grep -i :1E61 && echo 7777; true"), 30)
    got = box.post("/api/git/checkout", {"repoUrl": "http://127.0.0.1:7777/a/b.git", "timeoutMs": 1500, "targetDir": "/tmp/late"}).json
    c.same(got["message"], "Git clone timed out after 1.5 seconds for 'http://127.0.0.1:7777/a/b.git'", "a limit of 1,500 ms is 1.5 seconds")


def freezing(cove):
    box = Box(cove, sleepAfter="1s")
    box.say("s", "X=1")
    box.stream("s", "echo $X")
    box.stream("s", "echo $X")
    states = []
    begun = c.time.monotonic()
    c.until(lambda: states.append(cove.get(box.base).json["state"]) or states[-1] == "frozen", 30, 0.1)
    took = c.time.monotonic() - begun
    c.ok(states[-1] == "frozen" and took < 9.5, "a shell that is kept ready does not keep a sandbox awake", took, states[-1])
    c.same(box.stream("s", "echo $X")[0], "1\n", "and it is woken as it was")
    cove.delete(box.box)


def previews(cove):
    """Shown before and after SIGTERM and a start of cove."""
    box, stopped = Box(cove), Box(cove)
    sites = [Site(cove.post(one.base + "/ports", {"port": 8000}).json["pathUrl"]) for one in (box, stopped)]
    c.same(cove.post(stopped.base + "/stop", {}).status, 200, "one sandbox is stopped by request")
    c.same(cove.stop(), 0, "cove ends by SIGTERM")
    cove.start()
    got = cove.get(box.base).json
    c.same((got["state"], got.get("reason")), ("stopped", "cove_stopped"), "a sandbox that nobody stopped says why it is")
    answers = [site.ask() for site in sites]
    c.same([one.status for one in answers], [502, 410], "its preview is not gone; that of the other one is")
    c.ok(b"PORT_CLOSED" in answers[0].body or b"Nothing listens" in answers[0].body, "the reply says that no server listens yet", answers[0])
    c.same(cove.get(box.base).json["state"], "running", "for the visit woke it")
    box.post("/api/process/start", {"command": "cd /tmp && python3 -m http.server 8000", "sessionId": NONE})
    c.ok(c.until(lambda: sites[0].ask().status == 200, 30), "and the same link shows the server once it runs")


c.need_root()
cove = c.Cove(env={"COVE_PREVIEW_LISTEN": "127.0.0.1:%d" % free_port()})
box = Box(cove)
large_states(box)
state_edges(box)
terminal_state(box)
state_outlives(cove)
limits_travel(box)
few_files(box)
verbose(box)
surrogates(box)
environment(box)
proxied(box)
errors(box)
terminals(cove)
freezing(cove)
previews(cove)
c.same(cove.stop(), 0, "cove stops")
c.done()
