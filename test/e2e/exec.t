#!/usr/bin/env python3
"""Commands: every field of a request, every field of an answer, every ending."""
import base64
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def answers(cove, box):
    reply = cove.execute(box, "echo out; echo err >&2; exit 3")
    answer = reply.json
    c.same((reply.status, answer["success"], answer["exitCode"], answer["stdout"],
            answer["stderr"]), (200, False, 3, "out\n", "err\n"), "streams and exit code are told")
    c.same((answer["command"], answer["ended"], answer["encoding"], answer["stdoutTruncated"],
            answer["stderrTruncated"]),
           ("echo out; echo err >&2; exit 3", "exited", "utf8", False, False), "and how it ended")
    c.ok(answer["durationMs"] == answer["duration"] and 0 <= answer["durationMs"] < 5000 and
         answer["cpuMs"] >= 0 and answer["maxRssBytes"] > 0, "and its resource usage", answer)
    c.ok("sessionId" not in answer and answer["timestamp"].endswith("Z"), "and when", answer)
    answer = cove.run(box, "true", sessionId="__DISABLE_SESSION__", origin="user", unknown={"x": 1})
    c.same(answer["sessionId"], "__DISABLE_SESSION__", "a session that is none is repeated")
    c.same(cove.out(box, "printf 'a\\n\\n'"), "a\n\n", "output is verbatim")
    c.same(cove.out(box, "printf x"), "x", "without a newline too")


def requests(cove, box):
    c.same(cove.out(box, ["printf", "%s|", "a b", "$HOME", "*"]), "a b|$HOME|*|",
           "argv meets no shell")
    c.same(cove.run(box, ["sh", "-c", "exit 7"])["exitCode"], 7, "and gives its exit code")
    c.same(cove.out(box, "echo $A-$B-${C-unset}", env={"A": "1", "B": "x y", "C": None}),
           "1-x y-unset\n", "env is set for the command, null values are skipped")
    c.same(cove.out(box, "echo $A"), "\n", "and for that command alone")
    c.same(cove.out(box, "pwd", cwd="/tmp"), "/tmp\n", "cwd is where it runs")
    c.same(cove.out(box, "cat", stdin="grüße\n"), "grüße\n", "stdin is given")
    c.same(cove.out(box, "cat"), "", "no stdin is an end at once")
    raw = bytes(range(256))
    answer = cove.run(box, "cat", stdin=base64.b64encode(raw).decode(), stdinEncoding="base64")
    c.same((answer["encoding"], answer["stdout"]), ("base64", raw),
           "bytes that are no UTF-8 survive both ways")
    answer = cove.execute(box, "printf '\\377'", encoding="utf8").json
    c.same((answer["encoding"], answer["stdout"]), ("utf8", "\ufffd"),
           "as text when text is asked for")
    answer = cove.run(box, "echo hi", encoding="base64")
    c.same((answer["encoding"], answer["stdout"]), ("base64", b"hi\n"), "as base64 when asked for")
    c.same(cove.out(box, "id -u; echo $HOME", user="nobody").split()[0], "65534", "as a user")
    c.same(cove.out(box, "id -u; id -g", user="1000:1001"), "1000\n1001\n", "as numbers")
    big = "x" * 600000
    c.same(cove.out(box, "wc -c", stdin=big), "600000\n", "a large stdin arrives whole")
    env = dict(line.split("=", 1) for line in cove.out(box, ["env"]).splitlines())
    c.same((env["PATH"], env["HOME"], env["LANG"], env["JAVA_TOOL_OPTIONS"]),
           ("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "/root", "C.UTF-8",
            "-XX:MaxRAM=%d" % (box["limits"]["memoryMB"] << 20)), "the environment is that of docs/SPECIFICATION.md")
    c.ok(set(env) <= {"PATH", "HOME", "LANG", "JAVA_TOOL_OPTIONS", "PWD", "SHLVL", "_", "OLDPWD"},
         "and nothing of the host's", env)


def endings(cove, box):
    c.same(cove.run(box, "kill -TERM $$")["exitCode"], 143, "a signal is 128 and its number")
    answer = cove.run(box, ["sh", "-c", "kill -9 $$"])
    c.same((answer["ended"], answer["signal"]), ("signaled", 9), "and is called signaled")
    begin = time.monotonic()
    answer = cove.run(box, "echo before; sleep 30", timeoutMs=300)
    took = time.monotonic() - begin
    c.same((answer["ended"], answer["exitCode"], answer["stdout"]), ("wall_limit", 124, "before\n"),
           "a time-out is a wall_limit with 124")
    c.ok(answer["stderr"].endswith("Command timed out after 300ms") and took < 10,
         "stderr says so", answer, took)
    answer = cove.run(box, "while :; do :; done", cpuTimeMs=200)
    c.ok(answer["ended"] == "cpu_limit" and 150 <= answer["cpuMs"] < 1500, "cpu_limit", answer)
    answer = cove.run(box, ["python3", "-c", "a=[]\nwhile 1: a.append(bytearray(1<<20))"])
    c.same(answer["ended"], "oom", "a memory bomb ends as oom")
    c.same(cove.out(box, "echo ok"), "ok\n", "and the sandbox works on")
    begin = time.monotonic()
    c.same(cove.out(box, "sleep 60 & echo now"), "now\n", "a background job delays nothing")
    c.ok(time.monotonic() - begin < 40, "not even by its pipes")
    limited = cove.create(limits={"wallTimeMs": 400, "outputMB": 1})
    answer = cove.run(limited, "sleep 30", timeoutMs=60000)
    c.ok(answer["ended"] == "wall_limit" and answer["stderr"].endswith("after 400ms"),
         "the tighter of two limits holds", answer)
    answer = cove.run(limited, "head -c 3000000 /dev/zero | tr '\\0' a; echo e >&2")
    c.ok(answer["stdoutTruncated"] and len(answer["stdout"]) <= 1 << 20 and
         len(answer["stdout"]) > 1 << 19, "output past its cap is cut and marked",
         len(answer["stdout"]))
    cove.delete(limited)


def failures(cove, box):
    def refused(status, code, name, **fields):
        reply = cove.execute(box, **fields)
        got = reply.json
        return c.ok(reply.status == status and got["code"] == code and
                    got["httpStatus"] == status and isinstance(got["context"], dict) and
                    got["requestId"] and got["message"], name, reply) and got
    got = refused(404, "COMMAND_NOT_FOUND", "a missing command is 404", argv=["no-such-command"])
    c.same(got and (got["exitCode"], got["context"]["exitCode"], got["context"]["command"]),
           (127, 127, "no-such-command"), "with 127")
    got = refused(403, "COMMAND_PERMISSION_DENIED", "a file without execute permission is 403",
                  argv=["/etc/passwd"])
    c.same(got and got["exitCode"], 126, "with 126")
    refused(500, "COMMAND_EXECUTION_ERROR", "a missing cwd is 500", command="true", cwd="/none")
    refused(500, "COMMAND_EXECUTION_ERROR", "a bad name of a variable too", command="true",
            env={"A-B": "1"})
    refused(400, "INVALID_COMMAND", "an empty command is invalid", command="")
    refused(400, "INVALID_COMMAND", "a blank one too", command=" \n\t")
    refused(400, "INVALID_COMMAND", "and an empty argv", argv=[])
    got = refused(400, "VALIDATION_FAILED", "no command at all fails validation")
    c.same(got and got["context"]["validationErrors"][0]["field"], "command", "and names the field")
    for field, value in (("command", 5), ("timeoutMs", 0), ("timeoutMs", "1"), ("cpuTimeMs", -1),
                         ("env", []), ("cwd", 1), ("stdin", {}), ("encoding", "latin1"),
                         ("stdinEncoding", "hex"), ("user", 0), ("background", "yes")):
        fields = {"command": "true", field: value}
        got = refused(400, "VALIDATION_FAILED", "%s: %r fails validation" % (field, value), **fields)
        c.same(got and got["context"]["validationErrors"][0]["field"], field, "and is named")
    refused(400, "VALIDATION_FAILED", "stdin that is not base64", command="true", stdin="*",
            stdinEncoding="base64")
    refused(400, "VALIDATION_FAILED", "a user that does not exist", command="true", user="ghost")
    refused(400, "VALIDATION_FAILED", "a uid out of range", command="true", user="65536")
    c.same(cove.run(box, "no-such-command")["exitCode"], 127, "in a shell a missing command is 127")


def floods(cove, box):
    size = 8 << 20 if c.SHORT else 40 << 20
    answer = cove.run(box, "head -c %d /dev/zero | tr '\\0' x" % size)
    c.same((len(answer["stdout"]), answer["stdoutTruncated"]), (size, False),
           "a large output arrives whole")
    c.ok(answer["stdout"].count("x") == size, "and unchanged")
    answer = cove.run(box, "head -c 5000000 /dev/urandom | tee /tmp/f; sha256sum /tmp/f >&2")
    import hashlib
    c.same(answer["stderr"].split()[0].decode(), hashlib.sha256(answer["stdout"]).hexdigest(),
           "random bytes arrive unchanged")
    daemon = cove.children()["daemon"]
    rss = int(open("/proc/%d/statm" % daemon).read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if c.SHORT:
        c.skip("the daemon stays small", "sanitizers use memory of their own")
    else:
        c.ok(rss < 24 << 20, "the daemon stays small", rss)


def streams(cove, box):
    events = list(cove.events(box, "echo a; sleep 0.3; echo b >&2; exit 4"))
    c.same([e["type"] for e in events], ["start", "stdout", "stderr", "complete"],
           "a stream has a start, its output and an end")
    c.ok(events[0]["pid"] > 0 and events[0]["command"].startswith("echo a"), "start tells the pid")
    c.same((events[1]["data"], events[2]["data"], events[3]["exitCode"], events[3]["ended"]),
           ("a\n", "b\n", 4, "exited"), "with what was written and the exit code")
    events = list(cove.events(box, r"printf '\303'; sleep 0.2; printf '\244\n'"))
    c.same("".join(e.get("data", "") for e in events), "ä\n", "a character is never cut in two")
    command = r"printf 'text\n'; sleep 0.2; printf '\377\000'; sleep 0.2; printf 'end\303'"
    got = [(e["data"], e.get("encoding")) for e in cove.events(box, command) if "data" in e]
    c.same(got, [("text\n", None), ("/wA=", "base64"), ("end", None), ("ww==", "base64")],
           "bytes that are no text come as base64, and say so")
    got = [e["data"] for e in cove.events(box, command, encoding="utf8") if "data" in e]
    c.same("".join(got), "text\n\ufffdend\ufffd", "unless text is asked for: then NUL bytes vanish")
    events = list(cove.events(box, "cat; sleep 0.1", stdin="grüße €\n" * 9000))
    c.ok("".join(e.get("data", "") for e in events) == "grüße €\n" * 9000 and
         not any("encoding" in e for e in events), "text stays text wherever it is cut")
    events = list(cove.events(box, "head -c 3000000 /dev/urandom | tee /tmp/g; sha256sum /tmp/g >&2",
                              encoding="base64"))
    import hashlib
    parts = {"stdout": b"", "stderr": b""}
    for e in events:
        if e["type"] in parts:
            parts[e["type"]] += base64.b64decode(e["data"])
    c.same(parts["stderr"].split()[0].decode(), hashlib.sha256(parts["stdout"]).hexdigest(),
           "bytes come through as base64")
    events = list(cove.events(box, "sleep 30", timeoutMs=200))
    c.same((events[-1]["exitCode"], events[-1]["ended"]), (124, "wall_limit"), "limits hold")
    reply = cove.events(box, ["no-such-command"])
    c.same((reply.status, reply.json["code"]), (404, "COMMAND_NOT_FOUND"),
           "a command that cannot start is a plain error")
    c.same(cove.events(box, " ").json["code"], "INVALID_COMMAND", "so is a blank command")
    first = next(cove.events(box, "sleep 1; touch /tmp/done"))
    c.same(first["type"], "start", "a client that leaves after the start")
    c.ok(c.until(lambda: cove.run(box, "test -e /tmp/done")["exitCode"] == 0, 30, 0.2),
         "does not stop the command")


def crowd(cove, box):
    results = []

    def one(n):
        results.append(cove.out(box, "echo %d" % n) == "%d\n" % n)
    many = [threading.Thread(target=one, args=(n,)) for n in range(40)]
    [t.start() for t in many]
    [t.join() for t in many]
    c.same(results.count(True), 40, "forty commands at once get their own answers")


c.need_root()
cove = c.Cove()
box = cove.create()
cove.run(box, "true")
before = c.calm(cove)
answers(cove, box)
requests(cove, box)
endings(cove, box)
failures(cove, box)
floods(cove, box)
streams(cove, box)
crowd(cove, box)
cove.run(box, "pkill sleep; true")
after = c.settled(before, cove, 15)
after.pop("cgroups", None)  # leaves are kept for the next commands
after = {k: v for k, v in after.items() if not k.startswith("fds of") or v[1] - v[0] > 200}
c.same(after, {}, "the census is as before")
c.same(cove.delete(box).status, 204, "the sandbox is deleted")
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
