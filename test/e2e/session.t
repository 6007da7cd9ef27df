#!/usr/bin/env python3
"""Sessions: every ending of docs/SPECIFICATION.md, every message, and their cost."""
import base64
import http.client
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

NONE = "__DISABLE_SESSION__"


def api(cove, box, verb, body=None, method="POST", **kw):
    return cove.request(method, "/v1/sandboxes/%s/api/%s" % (box["id"], verb), body, **kw)


def run(cove, box, command, session="s", **fields):
    return api(cove, box, "execute", dict({"command": command, "sessionId": session}, **fields))


def gives(cove, box, name, command, stdout="", stderr="", code=0, session="s", **fields):
    reply = run(cove, box, command, session, **fields)
    got = reply.json
    return c.ok(reply.status == 200 and
                (got["exitCode"], got["stdout"], got["stderr"]) == (code, stdout, stderr) and
                got["success"] == (code == 0) and got["sessionId"] == session and
                got["command"] == command and got["timestamp"].endswith("Z") and
                got["encoding"] == "utf8", name, reply)


def refuses(reply, status, code, name, **context):
    got = reply.json
    return c.ok(reply.status == status and got["code"] == code and got["httpStatus"] == status and
                all(got["context"].get(key) == value for key, value in context.items()) and
                got["requestId"] and got["message"] and got["reason"], name, reply) and got


def made(cove, box):
    reply = api(cove, box, "session/create", {"id": "one", "env": {"A": "x y", "B": None},
                                              "cwd": "/tmp"})
    got = reply.json
    c.ok(reply.status == 200 and got["success"] and got["id"] == "one" and got["message"] and
         got["containerPlacementId"] is None and got["timestamp"].endswith("Z"),
         "a session is made", reply)
    gives(cove, box, "with its environment and directory", "echo $A-${B-none}; pwd; echo $LC_ALL",
          "x y-none\n/tmp\nC.UTF-8", session="one")
    refuses(api(cove, box, "session/create", {"id": "one"}), 409, "SESSION_ALREADY_EXISTS",
            "an existing session is not created again", sessionId="one", containerPlacementId=None)
    for body, name in ((None, "no body"), (b"not json", "a body that is no JSON"), ({}, "no id")):
        got = api(cove, box, "session/create", body, raw=isinstance(body, bytes)).json
        kind, stamp, tail = got["id"].split("_")
        c.ok(kind == "session" and stamp.isdigit() and len(tail) == 12, name + " gets an id", got)
    for body, field in (({"id": 5}, "id"), ({"cwd": 5}, "cwd"), ({"env": []}, "env"),
                        ({"commandTimeoutMs": 0}, "commandTimeoutMs")):
        got = refuses(api(cove, box, "session/create", body), 400, "VALIDATION_FAILED",
                      "a wrong %s is refused" % field)
        c.same(got and got["context"]["validationErrors"][0]["field"], field, "and named")
    got = api(cove, box, "session/create", {"id": "lost", "cwd": "/no/such"}).json
    c.same(got["cwd"], "/root", "a directory that is not there becomes $HOME, silently")
    listed = api(cove, box, "session/list", method="GET").json
    c.ok(listed["success"] and {"one", "lost"} <= set(listed["data"]) and len(listed["data"]) == 5,
         "they are listed", listed)
    refuses(api(cove, box, "session/create", {"id": "e", "env": {"A-B": "1"}}), 500,
            "COMMAND_EXECUTION_ERROR", "a bad name of a variable is refused")
    refuses(api(cove, box, "session/create", {"id": "x" * 300}), 400, "VALIDATION_FAILED",
            "so is an id that is too long")
    refuses(api(cove, box, "session/create", {"id": " "}), 500, "COMMAND_EXECUTION_ERROR",
            "and a blank one")
    run(cove, box, "exit 0", "one")
    c.ok("one" not in api(cove, box, "session/list", method="GET").json["data"],
         "a session whose shell has ended is not listed")
    c.same(api(cove, box, "session/create", {"id": "one"}).status, 200, "and can be made again")
    gives(cove, box, "with its new settings", "echo ${A-none}; pwd", "none\n/workspace",
          session="one")


def deleted(cove, box):
    run(cove, box, "sleep 4711 & sleep 4712 &", "gone")
    begun = time.monotonic()
    results = []
    busy = threading.Thread(target=lambda: results.append(run(cove, box, "sleep 0.6; echo whole", "gone")))
    busy.start()
    time.sleep(0.2)
    reply = api(cove, box, "session/delete", {"sessionId": "gone"})
    busy.join()
    got = reply.json
    c.ok(reply.status == 200 and got["success"] and got["sessionId"] == "gone" and got["timestamp"],
         "a session is deleted", reply)
    c.ok(results[0].json["stdout"] == "whole" and time.monotonic() - begun > 0.5,
         "after the command that was running", results)
    c.same(cove.out(box, "pgrep -fc '^sleep 471[12]'"), "0\n", "its background jobs are killed")
    got = refuses(api(cove, box, "session/delete", {"sessionId": "gone"}), 500, "INTERNAL_ERROR",
                  "an unknown session is 500")
    c.same(got and got["message"], "Session 'gone' not found", "in the words of Cloudflare's SDK")
    for body, raw in (({}, False), (b"no json", True), (None, False), ({"sessionId": 7}, False)):
        refuses(api(cove, box, "session/delete", body, raw=raw), 400, "VALIDATION_FAILED",
                "a body of %r is 400" % (body,))
    results = []
    threads = [threading.Thread(target=lambda: results.append(run(cove, box, "sleep 60", "stuck")))
               for _ in range(2)]
    [t.start() for t in threads]
    c.until(lambda: cove.out(box, "pgrep -fc '^sleep 60'") == "1\n")
    time.sleep(1)  # the other one waits by now
    c.same(api(cove, box, "session/delete", {"sessionId": "stuck", "force": True}).status, 200,
           "force waits for nothing")
    [t.join() for t in threads]
    c.ok(all(refuses(r, 410, "SESSION_DESTROYED", "running and waiting commands get the error", sessionId="stuck")
             for r in results), "both of them")


def state(cove, box):
    gives(cove, box, "a session that is not known is made, in /workspace", "pwd", "/workspace")
    run(cove, box, "cd /tmp; x=1; export Y=2; f() { echo f$1; }; set -o noglob; false")
    gives(cove, box, "a session keeps its state", "echo $?; pwd; echo $x; sh -c 'echo $Y'; f 3; echo *",
          "1\n/tmp\n1\n2\nf3\n*")
    gives(cove, box, "which is nobody else's", "pwd; echo ${x-none}", "/workspace\nnone",
          session="other")
    answer = cove.run(box, "pwd; echo ${x-none}", sessionId=NONE)
    c.same(answer["stdout"], "/workspace\nnone\n", "nor that of a command without a session")
    run(cove, box, "set +o noglob")


def output(cove, box):
    gives(cove, box, "one trailing newline is removed from each stream", "printf 'a\\n\\n'; printf 'b\\n' >&2",
          "a\n", "b")
    gives(cove, box, "a missing one makes no difference", "printf a; printf b >&2", "a", "b")
    gives(cove, box, "output is text: bad bytes become U+FFFD, NUL bytes vanish",
          "printf 'a\\377b\\0c'", "a\ufffdbc")
    got = run(cove, box, "printf 'a\\377\\0'", encoding="base64").json
    c.same((got["encoding"], base64.b64decode(got["stdout"])), ("base64", b"a\xff\0"),
           "base64 keeps them")
    gives(cove, box, "stdin is at its end", "cat; read x; echo $?", "1")
    gives(cove, box, "lines and here-documents work", "cat <<E\none 'two'\nE\necho \"a\nb\"",
          "one 'two'\na\nb")
    gives(cove, box, "a long command works", "echo ${#s}; : " + "x" * 100000, "0")
    gives(cove, box, "a command full of quotes too", "echo \"" + "'" * 20000 + "\" | wc -c", "20001")
    gives(cove, box, "an empty one is 0", "")
    size = 2 << 20 if c.SHORT else 20 << 20
    got = run(cove, box, "head -c %d /dev/zero | tr '\\0' x; echo; echo e >&2" % size).json
    c.ok(len(got["stdout"]) == size and got["stdout"].count("x") == size and got["stderr"] == "e" and
         not got["stdoutTruncated"], "a large output arrives whole", len(got["stdout"]))
    small = cove.create(limits={"outputMB": 1})
    got = run(cove, small, "head -c 3000000 /dev/zero | tr '\\0' x; echo e >&2").json
    c.ok(got["stdoutTruncated"] and len(got["stdout"]) <= 1 << 20, "past the cap it is cut and marked")
    gives(cove, small, "and the session goes on", "echo ok", "ok")
    cove.delete(small)


def one_command(cove, box):
    run(cove, box, "cd /tmp; A=before")
    gives(cove, box, "cwd and env are for one command", "pwd; echo $A; sh -c 'echo $N'; cd /etc",
          "/usr\nnow\nit's", cwd="/usr", env={"A": "now", "N": "it's", "SKIP": None})
    gives(cove, box, "the earlier state comes back", "pwd; echo $A ${N-none}", "/tmp\nbefore none")
    gives(cove, box, "a relative cwd is found from where the session stands", "pwd", "/var",
          cwd="../var")
    gives(cove, box, "a missing one is an answer", "pwd", "",
          "Failed to change directory to '/no'", 1, cwd="/no")
    got = refuses(run(cove, box, "true", env={"1A": "x"}), 500, "COMMAND_EXECUTION_ERROR",
                  "a bad name of a variable is 500")
    c.same(got and got["message"], "Invalid environment variable name: 1A", "in the words of Cloudflare's SDK")
    refuses(run(cove, box, "true", " \t"), 500, "COMMAND_EXECUTION_ERROR", "so is a blank session")
    refuses(api(cove, box, "execute", {"command": "true", "sessionId": ""}), 500,
            "COMMAND_EXECUTION_ERROR", "and an empty one")
    refuses(api(cove, box, "execute", {"argv": ["true"], "sessionId": "s"}), 400,
            "VALIDATION_FAILED", "argv is for no session")
    refuses(api(cove, box, "execute", {"sessionId": "s"}), 400, "VALIDATION_FAILED",
            "a command is needed")
    gives(cove, box, "an unknown command is 127", "nosuch", "", "bash: nosuch: command not found", 127)
    gives(cove, box, "a signal is 128 and its number", "sh -c 'kill -9 $$'", "", "", 137)


def named(cove, box):
    def place(path="execute", body=None, **kw):
        body = dict({"command": "pwd"}, **(body or {}))
        return api(cove, box, path, body, **kw).json
    run(cove, box, "cd /var", "by-name")
    c.same(place(headers={"X-Session-Id": "by-name"})["stdout"], "/var", "a header names a session")
    c.same(place("execute?session=by-name")["stdout"], "/var", "so does the query")
    c.same(place("execute?sessionId=by-name")["stdout"], "/var", "by either word")
    c.same(place(body={"sessionId": "other"}, headers={"X-Session-Id": "by-name"})["stdout"],
           "/workspace", "the body goes first")
    run(cove, box, "cd /usr", "default")
    got = place()
    c.ok(got["stdout"] == "/usr" and "sessionId" not in got, "without a name it is the default one",
         got)
    c.same(place(body={"encoding": "utf8"})["stdout"], "/workspace\n",
           "unless only a command of its own can have what is asked for")
    c.ok(cove.key not in api(cove, box, "session/list", method="GET").json["data"],
         "a bearer is no session")


def endings(cove, box):
    for command, code in (("exit 3", 3), ("echo a; exit 0", 0), ("set -e; false", 1),
                          ("exec false", 1), ("kill -9 $$", 137)):
        got = refuses(run(cove, box, "echo out; echo err >&2; " + command, "e"), 410,
                      "SESSION_TERMINATED", "%s ends the session" % command, sessionId="e",
                      exitCode=code)
        c.ok(got and got["message"] == "Session 'e' shell exited (exit code: %d)" % code and
             got["context"]["stdout"].startswith("out") and got["context"]["stderr"] == "err",
             "and tells what was written", got)
    gives(cove, box, "the next command has a new shell", "echo new", "new", session="e")
    for command in ("set -u; echo $nope; echo on", "set -u\necho $nope\necho on"):
        refuses(run(cove, box, command, "e"), 410, "SESSION_TERMINATED",
                "an unset variable ends it under set -u", sessionId="e", exitCode=1, stdout="",
                stderr="bash: nope: unbound variable")
    gives(cove, box, "without it, ${x?} ends the command and no more", "echo ${nope?gone}\necho on", "",
          "bash: nope: gone", 1)
    gives(cove, box, "false under set -u is no end", "set -u; false", code=1, session="e")
    gives(cove, box, "nor what a subshell does", "(echo $nope) 2>&-", code=1, session="e")
    refuses(run(cove, box, "set -u; sleep 9", "e", timeoutMs=200), 500, "COMMAND_EXECUTION_ERROR",
            "nor is a time-out", sessionRestarted=False)
    refuses(run(cove, box, "enable -n printf builtin; echo a", "e"), 410, "SESSION_TERMINATED",
            "a shell that can no longer tell the end is one that ended", stdout="a")
    gives(cove, box, "a backslash at the end is a newline's", "echo a\\", "a")
    gives(cove, box, "a comment is nothing", "# a\n  # b\n")
    gives(cove, box, "a comment or & at the end is no harm", "echo a # b", "a")
    gives(cove, box, "nothing is run of what cannot be read", "echo a\nif then", "",
          "bash: syntax error near unexpected token `then'", 2)
    gives(cove, box, "an unclosed quote is 2", "set +u; echo 'abc", "",
          "bash: unexpected EOF while looking for matching `''", 2)
    gives(cove, box, "and swallows nothing", "echo next", "next")
    gives(cove, box, "a syntax error is 2", "if then", "",
          "bash: syntax error near unexpected token `then'", 2)
    gives(cove, box, "exec of what is not there is 127", "exec nosuch", "",
          "bash: exec: nosuch: not found", 127)
    gives(cove, box, "closing stdout does no harm", "exec >&-; true")
    gives(cove, box, "nor does redirecting it", "exec >/tmp/exec-out 2>&1; echo x")
    gives(cove, box, "the next command is heard", "echo heard; cat /tmp/exec-out", "heard\nx")


def jobs(cove, box):
    # The job ends on request, after the answer.
    gives(cove, box, "a background job delays nothing, not even by its pipes",
          "(while [ ! -e /tmp/late ]; do sleep 0.05; done; echo late; echo bad >&2) & echo now", "now", session="jobs")
    cove.run(box, "touch /tmp/late")
    c.until(lambda: len(api(cove, box, "session/jobs/output", method="GET").body) == 9)
    gives(cove, box, "later output of the job is not in the next answer", "echo next", "next",
          session="jobs")
    reply = api(cove, box, "session/jobs/output", method="GET")
    c.ok(reply.status == 200 and sorted(reply.body.split()) == [b"bad", b"late"] and
         reply.headers["X-Next-Offset"] == "9", "but can be read", reply)
    c.same(api(cove, box, "session/jobs/output?offset=9", method="GET").body, b"", "from any offset")
    reply = api(cove, box, "session/jobs/output?offset=10", method="GET")
    refuses(reply, 400, "VALIDATION_FAILED", "that there is")
    refuses(api(cove, box, "session/nobody/output", method="GET"), 500, "INTERNAL_ERROR",
            "of a session that there is")
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=20)
    conn.request("GET", "/v1/sandboxes/%s/api/session/jobs/output?follow=true&offset=9" % box["id"],
                 headers={"Authorization": "Bearer " + cove.key})
    events = conn.getresponse()
    run(cove, box, "(sleep 0.3; echo live) & ", "jobs")
    seen = b""
    while b"live" not in seen:
        seen += events.readline()
    c.ok(b'"type":"stdout"' in seen and b'"data":"live\\n"' in seen, "or followed as it comes", seen)
    api(cove, box, "session/delete", {"sessionId": "jobs"})
    rest = events.read()
    c.ok(rest is not None, "until the session is deleted")
    conn.close()


def timed(cove, box):
    run(cove, box, "kept=yes; cd /usr; sleep 4713 &", "t")
    time.sleep(0.05)
    for command in ("sleep 4714", "while :; do :; done", "(trap '' INT; sleep 4715); sleep 4716",
                    "setsid sleep 4717 & setsid -w sleep 4718", "trap '' INT TERM; sleep 4719",
                    "python3 -c 'import time; time.sleep(99)'"):
        begun = time.monotonic()
        reply = run(cove, box, "echo some; trap - INT; " + command, "t", timeoutMs=200)
        took = time.monotonic() - begun
        got = refuses(reply, 500, "COMMAND_EXECUTION_ERROR", "%s is timed out" % command,
                      sessionRestarted=False, stdout="some",
                      command="echo some; trap - INT; " + command)
        c.ok(took < 20 and got and got["message"] == "Failed to execute command 'echo some; trap - "
             "INT; %s' in session 't': Command timeout after 200ms" % command, "soon, in the words of Cloudflare's SDK",
             took, got)
    # A shell that is not scheduled until after the last look starts the rest of its line then: another job stops it so long. A
    # host that is busy itself may make it so late that it is given up: then the next try counts.
    job = ("import os, sys, time\nshell = int(sys.argv[1])\nopen(\"/tmp/ready\", \"w\").close()\n"
           "while not os.path.exists(\"/tmp/began\"): time.sleep(0.005)\n"
           "time.sleep(0.2)\nos.kill(shell, 19)\ntime.sleep(0.48)\nos.kill(shell, 18)")
    for _ in range(5):
        run(cove, box, "rm -f /tmp/ready /tmp/began; python3 -c '%s' $$ & while [ ! -e /tmp/ready ]; do sleep 0.02; done" % job, "late")
        reply = run(cove, box, "touch /tmp/began; (trap '' INT; sleep 4715); sleep 4716", "late", timeoutMs=200)
        if not reply.json.get("context", reply.json).get("sessionRestarted"):
            break
    refuses(reply, 500, "COMMAND_EXECUTION_ERROR", "a shell that goes on late is timed out", sessionRestarted=False)
    gives(cove, box, "the session goes on with its state", "trap - INT TERM; echo $kept; pwd",
          "yes\n/usr", session="t")
    c.same(cove.out(box, "pgrep -fc '^sleep 471[4-9]'"), "0\n", "nothing of the commands is left")
    c.same(cove.out(box, "pgrep -fc '^sleep 4713'"), "1\n", "older background jobs live on")
    got = refuses(run(cove, box, "trap '' INT; while :; do :; done", "t", timeoutMs=200), 500,
                  "COMMAND_EXECUTION_ERROR", "a shell that cannot be interrupted",
                  sessionRestarted=True)
    gives(cove, box, "is replaced", "echo ${kept-lost}", "lost", session="t")
    api(cove, box, "session/create", {"id": "short", "commandTimeoutMs": 300})
    refuses(run(cove, box, "sleep 9", "short"), 500, "COMMAND_EXECUTION_ERROR",
            "a session has a limit of its own")
    gives(cove, box, "a command's own goes first", "sleep 0.5; echo slow", "slow", session="short",
          timeoutMs=5000)
    refuses(run(cove, box, "sleep 9", "first", timeoutMs=200), 500, "COMMAND_EXECUTION_ERROR",
            "the limit of the call that makes a session")
    gives(cove, box, "is not the session's", "sleep 0.5; echo slow", "slow", session="first")
    got = run(cove, box, "while :; do :; done", "t", cpuTimeMs=200).json
    c.same((got.get("ended"), got.get("exitCode")), ("cpu_limit", 130), "CPU time has its limit too")
    got = run(cove, box, "python3 -c 'a=[]\nwhile 1: a.append(bytearray(1<<20))'; echo $?", "t").json
    c.ok("137" in got.get("stdout", "") or got.get("code") == "SESSION_TERMINATED",
         "a memory bomb dies", got)
    gives(cove, box, "and the session can be used", "echo ok", "ok", session="t")


def ordered(cove, box):
    results = {}

    def one(n):
        results[n] = run(cove, box, "sleep 0.3; n=$((n+1)); echo $n", "line").json["stdout"]
    threads = []
    for n in range(8):
        threads.append(threading.Thread(target=one, args=(n,)))
        threads[-1].start()
        time.sleep(0.2)
    [t.join() for t in threads]
    c.same([results[n] for n in range(8)], [str(n + 1) for n in range(8)],
           "commands of a session run in order of arrival")
    # Each command ends when all of them run.
    meet = "touch /tmp/side.%s; for i in $(seq 600); do [ $(ls -d /tmp/side.* | wc -l) = 9 ] && echo met && break; sleep 0.1; done"
    met = []
    threads = [threading.Thread(target=lambda n=n: met.append(run(cove, box, meet % n, "side-%d" % n).json["stdout"])) for n in range(8)]
    threads.append(threading.Thread(target=lambda: met.append(cove.out(box, meet % 8).strip())))
    [t.start() for t in threads]
    [t.join() for t in threads]
    c.same(met, ["met"] * 9, "sessions run side by side")


def beside(cove, box):
    run(cove, box, "cd /tmp; v=\"it's\"; f() { echo f-$v; }; export E=e; false", "seat")
    events = list(cove.events(box, "f; pwd; echo $E; v=other; cd /; exit 4", sessionId="seat"))
    c.same(("".join(e.get("data", "") for e in events if e["type"] == "stdout"), events[-1].get("exitCode")),
           ("f-it's\n/tmp\ne\n", 4), "a stream sees the session's state")
    gives(cove, box, "and cannot change it", "echo $? $v; pwd", "1 it's\n/tmp", session="seat")
    started = api(cove, box, "execute", {"command": "f; sleep 99", "sessionId": "seat",
                                         "background": True}).json
    c.ok(started["success"] and started["processId"] and started["pid"] > 1,
         "background:true starts a process", started)
    got = c.until(lambda: "f-it's" in api(cove, box, "process/%s/logs" % started["processId"],
                                          method="GET").json.get("stdout", ""))
    c.ok(got, "which sees it as well")
    api(cove, box, "session/delete", {"sessionId": "seat"})
    status = lambda: api(cove, box, "process/" + started["processId"], method="GET").json["process"]["status"]
    c.ok(c.until(lambda: status() == "error"), "and ends with its session", status())


class Gate:
    """A command of a session that continues on request."""

    def __init__(self, cove, box, then, session="files"):
        self.cove, self.box, self.answer = cove, box, []
        cove.run(box, "rm -f /tmp/gate /tmp/there; mkfifo /tmp/gate")
        self.thread = threading.Thread(target=lambda: self.answer.append(
            run(cove, box, "touch /tmp/there; read -r x < /tmp/gate; " + then, session)))
        self.thread.start()
        c.until(lambda: cove.run(box, "test -e /tmp/there")["exitCode"] == 0)

    def open(self):
        self.cove.run(self.box, "echo > /tmp/gate")
        self.thread.join(20)
        return self.answer[0]


def later(call):
    """Runs in a thread; whether it waits shows in .is_alive()."""
    thread = threading.Thread(target=lambda: thread.got.append(call()))
    thread.got = []
    thread.start()
    thread.join(0.4)
    return thread


def write(cove, box, path, content="file", session="files"):
    return api(cove, box, "write", {"path": path, "content": content, "sessionId": session})


def filed(cove, box):
    run(cove, box, "mkdir -p /tmp/deep; echo in-deep > /tmp/deep/rel", "files")
    for verb, body, want in (
            ("write", {"path": "/tmp/f", "content": "file"}, None),
            ("read", {"path": "rel"}, ("content", "in-deep\n")), ("exists", {"path": "rel"}, ("exists", True)),
            ("list-files", {"path": "."}, ("count", 1)), ("mkdir", {"path": "made"}, ("path", "made")),
            ("rename", {"oldPath": "made", "newPath": "other"}, ("newPath", "other")),
            ("move", {"sourcePath": "rel", "destinationPath": "other"}, ("path", "rel")),
            ("delete", {"path": "other/rel"}, ("path", "other/rel"))):
        run(cove, box, "cd /", "files")
        gate = Gate(cove, box, "echo cmd > /tmp/f; cd /tmp/deep")
        call = later(lambda: api(cove, box, verb, dict(body, sessionId="files")))
        waits = call.is_alive()
        gate.open()
        call.join(20)
        got = call.got[0]
        c.ok(waits and got.status == 200 and (not want or got.json[want[0]] == want[1]),
             "5.3 %s waits for the commands before it, and begins where they left off" % verb, waits, got)
        if verb == "write":
            c.same(cove.out(box, "cat /tmp/f"), "file", "5.3 so the last one wins")
    gate = Gate(cove, box, "true")
    c.same((write(cove, box, "/tmp/g", session="others").status, write(cove, box, "/tmp/g", session=NONE).status,
            api(cove, box, "write", {"path": "/tmp/g", "content": ""}).status), (200, 200, 200),
           "5.3 files of other sessions, and of none, do not wait")
    waiting = http.client.HTTPConnection("127.0.0.1", cove.port)
    waiting.request("POST", "/v1/sandboxes/%s/api/write" % box["id"],
                    json.dumps({"path": "/tmp/left", "content": "x", "sessionId": "files"}),
                    {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"})
    time.sleep(0.2)
    waiting.close()
    behind = later(lambda: write(cove, box, "/tmp/behind"))
    gate.open()
    behind.join(20)
    c.same((behind.got[0].status, cove.out(box, "cat /tmp/behind; ls /tmp/left 2>&1 | wc -l; test -e /tmp/left; echo $?")),
           (200, "file1\n1\n"), "5.3 one who leaves the line writes nothing, and the next has its turn")
    gate = Gate(cove, box, "exit 3")
    call = later(lambda: write(cove, box, "/tmp/after-exit"))
    c.same(gate.open().status, 410, "5.3 a shell that ends under its command")
    call.join(20)
    c.same(call.got[0].status, 200, "does not take the file that waits along")
    gate = Gate(cove, box, "true")
    call = later(lambda: write(cove, box, "/tmp/destroyed"))
    api(cove, box, "session/delete", {"sessionId": "files", "force": True})
    call.join(20)
    refuses(call.got[0], 410, "SESSION_DESTROYED", "5.3 a session that is deleted by force ends what waits for it")
    gate.thread.join(20)
    c.same(cove.run(box, "test -e /tmp/destroyed")["exitCode"], 1, "and the command did not run")
    c.same(write(cove, box, "new-session.txt", session="unheard-of").status, 200, "5.1 a file verb may name a session first")
    c.same(cove.out(box, "cat /workspace/new-session.txt"), "file", "which stands in /workspace")
    refuses(write(cove, box, "/tmp/x", session="  "), 500, "COMMAND_EXECUTION_ERROR", "5.1 a blank session is none")


def unhurried(cove, box):
    """A stream holds its session's lock until it has started, for every reader."""
    cove.run(box, "head -c 30000000 /dev/zero > /tmp/zeroes")
    slow = http.client.HTTPConnection("127.0.0.1", cove.port)
    slow.request("POST", "/v1/sandboxes/%s/api/read/stream" % box["id"], json.dumps({"path": "/tmp/zeroes", "sessionId": "slow"}),
                 {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"})
    c.same(slow.getresponse().status, 200, "5.3 a stream of a file that nobody reads")
    gives(cove, box, "does not hold up its session", "echo on", "on", session="slow")
    slow.close()


def environment(cove, box):
    run(cove, box, "LOCAL=1; false", "env-live")
    reply = api(cove, box, "env", {"envVars": {"SHARED": "it's", "PATH2": "x"}})
    c.ok(reply.status == 200 and reply.json["success"], "the environment of a sandbox is changed", reply)
    gives(cove, box, "for sessions that live", "echo $? $SHARED; sh -c 'echo $SHARED'",
          "1 it's\nit's", session="env-live")
    gives(cove, box, "for new ones", "echo $SHARED", "it's", session="env-new")
    c.same(cove.out(box, "echo $SHARED"), "it's\n", "and for commands without one")
    api(cove, box, "env", {"envVars": {"SHARED": None}})
    gives(cove, box, "null takes it away", "echo ${SHARED-none} $PATH2", "none x", session="env-live")
    c.same(cove.out(box, "echo ${SHARED-none}"), "none\n", "everywhere")
    reply = cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"env": {"SHARED": "by terms", "PATH2": None}})
    c.same(reply.status, 200, "the limit can be changed with the sandbox's retention")
    gives(cove, box, "and reaches the same", "echo $SHARED ${PATH2-none}", "by terms none", session="env-live")
    gives(cove, box, "and new ones", "echo $SHARED", "by terms", session="env-newer")
    cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"env": {"SHARED": None}})
    refuses(api(cove, box, "env", {"envVars": {"ok": "1", "not-ok": "2"}}), 500,
                  "COMMAND_EXECUTION_ERROR", "a bad name changes nothing")
    c.same(cove.out(box, "echo ${ok-none}"), "none\n", "not even the good ones")
    refuses(api(cove, box, "env", {}), 400, "VALIDATION_FAILED", "envVars are needed")


def leaving(cove, box):
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=20)
    body = json.dumps({"command": "sleep 1; mark=done", "sessionId": "leave"})
    conn.request("POST", "/v1/sandboxes/%s/api/execute" % box["id"], body,
                 {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"})
    time.sleep(0.3)
    conn.close()
    gives(cove, box, "a client that leaves does not disturb its command", "echo $mark", "done",
          session="leave")


def daemon_size(cove):
    pid = cove.children()["daemon"]
    pages = int(open("/proc/%d/statm" % pid).read().split()[1])
    return len(os.listdir("/proc/%d/fd" % pid)), pages * os.sysconf("SC_PAGE_SIZE")


def crowd(cove):
    box = cove.create(limits={"pids": 1024})
    run(cove, box, "true", "warm")
    before = daemon_size(cove)
    count, rounds = (16, 5) if c.SHORT else (64, 20)
    wrong = []

    def one(n):
        conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=120)
        for i in range(rounds):
            command = ":; echo %d-%d; echo e >&2; x=$((x+1))" % (n, i)
            conn.request("POST", "/v1/sandboxes/%s/api/execute" % box["id"],
                         json.dumps({"command": command, "sessionId": "crowd-%d" % n}),
                         {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"})
            got = json.loads(conn.getresponse().read())
            if (got.get("stdout"), got.get("stderr")) != ("%d-%d" % (n, i), "e"):
                wrong.append(got)
        conn.close()
    begun = time.monotonic()
    threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    took = time.monotonic() - begun
    c.ok(not wrong, "%d busy sessions give %d right answers" % (count, count * rounds), wrong[:3])
    c.ok(took < 60, "in bounded time", took)
    print("# %.0f commands a second over %d sessions, python included" % (count * rounds / took, count))
    c.same(len(api(cove, box, "session/list", method="GET").json["data"]), count + 1, "all are listed")
    for n in range(count):
        api(cove, box, "session/delete", {"sessionId": "crowd-%d" % n})
    after = daemon_size(cove)
    c.ok(after[0] <= before[0] + 4, "fds return to what they were", before, after)
    c.ok(after[1] <= before[1] + (16 << 20), "memory too", before, after)
    for n in range(257):
        reply = run(cove, box, "true", "full-%d" % n)
        if reply.status != 200:
            break
    got = reply.json
    c.ok(reply.status == 429 and got["reason"] in ("too_many_sessions", "too_many_execs"),
         "there is a bound to them", reply)
    cove.delete(box)
    return None


def bare(cove):
    box = cove.create()
    cove.run(box, ["mv", "/usr/bin/bash", "/usr/bin/hidden"])
    for reply in (run(cove, box, "true", "x"), api(cove, box, "session/create", {"id": "y"})):
        got = refuses(reply, 500, "COMMAND_EXECUTION_ERROR", "without bash there is no session")
        c.same(got and got["reason"], "no_bash", "and the reason is told")
    c.same(cove.out(box, ["echo", "ok"]), "ok\n", "commands of their own still run")
    c.same(write(cove, box, "/tmp/f", session="z").status, 200, "and so do files, of whatever session")
    cove.run(box, ["mv", "/usr/bin/hidden", "/usr/bin/bash"])
    gives(cove, box, "with bash there is", "echo ok", "ok", session="x")
    cove.delete(box)


def lost(cove):
    box = cove.create()
    results = []
    busy = threading.Thread(target=lambda: results.append(run(cove, box, "sleep 60", "x")))
    busy.start()
    c.until(lambda: cove.out(box, "pgrep -fc '^sleep 60'") == "1\n")
    cove.delete(box)
    busy.join(20)
    c.ok(results and results[0].status == 410 and results[0].json["reason"] in ("box_lost", "box_deleted"),
         "a sandbox that ends under a command says so", results)


c.need_root()
cove = c.Cove()
box = cove.create(limits={"memoryMB": 512, "pids": 512})
for part in (made, deleted, state, output, one_command, named, endings, jobs, timed, ordered, beside,
             filed, unhurried, environment, leaving):
    part(cove, box)
cove.delete(box)
crowd(cove)
bare(cove)
lost(cove)
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
