#!/usr/bin/env python3
"""Processes and streams: every byte, every exit code, every status, for every kind of reader."""
import base64
import hashlib
import http.client
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

SOAK = os.environ.get("COVE_SOAK") == "1"
RUNS = 2000 if SOAK else 40 if c.SHORT else 100
ECHOES = 300 if SOAK else 60
SEQ = "".join("%d\n" % i for i in range(1, 2001))


def api(box, path):
    return "/v1/sandboxes/%s/api/%s" % (box["id"], path)


def start(cove, box, command, **fields):
    reply = cove.post(api(box, "process/start"), dict(command=command, **fields))
    if reply.status != 200:
        raise RuntimeError("start: %r" % reply)
    return reply.json["processId"]


def get(cove, box, process):
    return cove.get(api(box, "process/" + process)).json["process"]


def wait(cove, box, process, ms=20000):
    return cove.get(api(box, "process/%s/wait?timeoutMs=%d" % (process, ms))).json


def logs(cove, box, process, query=""):
    return cove.get(api(box, "process/%s/logs%s" % (process, query))).json


class Stream:
    """An event stream that is read event by event, and may be cut at any byte."""

    def __init__(self, cove, path, body=None, headers=None, timeout=60):
        self.conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=timeout)
        head = dict(headers or {}, Authorization="Bearer " + cove.key)
        if body is not None:
            head["Content-Type"] = "application/json"
            body = json.dumps(body)
        self.conn.request("POST" if body is not None else "GET", path, body, head)
        self.answer = self.conn.getresponse()
        self.status = self.answer.status
        self.last = None

    def events(self):
        id_ = None
        for line in self.answer:
            if line.startswith(b"id: "):
                id_ = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                event["id"], self.last = id_, id_
                yield event
        self.conn.close()

    def close(self):
        self.conn.close()


def rules(cove, box):
    reply = cove.post(api(box, "process/start"), {"command": "echo hi; echo ho >&2; sleep 0.3; exit 3"})
    answer = reply.json
    process = answer["processId"]
    c.ok(reply.status == 200 and answer["success"] and answer["pid"] > 1 and
         answer["command"].startswith("echo hi") and answer["timestamp"].endswith("Z"),
         "a start is answered with id and pid", answer)
    parts = process.split("_")
    c.ok(parts[0] == "proc" and len(parts[1]) == 13 and len(parts[2]) == 6 and parts[2].isalnum(),
         "an id has Cloudflare's form", process)
    record = get(cove, box, process)
    c.ok(record["id"] == process and record["status"] == "running" and "exitCode" not in record and
         "endTime" not in record and record["startTime"].endswith("Z"), "a running one", record)
    ended = wait(cove, box, process)
    c.same((ended["status"], ended["exitCode"], ended["ended"]), ("failed", 3, "exited"), "its end is awaited")
    record = get(cove, box, process)
    c.ok(record["status"] == "failed" and record["exitCode"] == 3 and record["endTime"] >= record["startTime"],
         "and recorded", record)
    log = logs(cove, box, process)
    c.same((log["stdout"], log["stderr"], log["processId"]), ("hi\n", "ho\n", process), "logs are kept")
    events = list(Stream(cove, api(box, "process/%s/stream" % process)).events())
    c.same([e["type"] for e in events][0::len(events) - 1], ["process_info", "exit"], "a stream has its frame")
    c.ok(events[0]["processId"] == process and events[0]["status"] == "failed" and
         events[-1]["exitCode"] == 3 and events[-1]["data"] == "Process failed with exit code 3" and
         all(e["processId"] == process for e in events), "with its fields", events)
    c.same(c.collect(events)[:2], (b"hi\n", b"ho\n"), "and its bytes")
    listed = cove.get(api(box, "process/list")).json["processes"]
    c.ok([p["id"] for p in listed] == [process] and listed[0]["exitCode"] == 3, "the process is listed", listed)
    c.same(cove.get(api(box, "process/list?status=running")).json["processes"], [], "by status")
    c.same(cove.get(api(box, "process/list?status=odd")).status, 400, "an unknown status is refused")
    for method, path in (("GET", ""), ("GET", "/logs"), ("GET", "/stream"), ("DELETE", ""), ("GET", "/wait"),
                         ("GET", "/tape")):
        reply = cove.request(method, api(box, "process/nobody" + path))
        c.ok(reply.status == 404 and reply.json["code"] == "PROCESS_NOT_FOUND" and
             reply.json["context"]["processId"] == "nobody", "unknown: %s …%s" % (method, path), reply)
    reply = cove.request("DELETE", api(box, "process/" + process))
    c.same((reply.status, reply.json["code"]), (404, "COMMAND_NOT_FOUND"), "an ended process is not killed again")
    for body in ({"command": "  "}, {"command": ""}):
        reply = cove.post(api(box, "process/start"), body)
        c.same((reply.status, reply.json["code"]), (400, "INVALID_COMMAND"), "a blank command is refused")
    reply = cove.execute(box, "echo back", background=True)
    if c.ok(reply.status == 200 and "processId" in reply.json and reply.json["pid"] > 1,
            "execute with background:true starts a process", reply):
        wait(cove, box, reply.json["processId"])
        c.same(logs(cove, box, reply.json["processId"])["stdout"], "back\n", "which runs")


def ids(cove, box):
    start(cove, box, "sleep 100", processId="my server")
    reply = cove.post(api(box, "process/start"), {"command": "true", "processId": "my server"})
    c.same((reply.status, reply.json["code"], reply.json["reason"]), (409, "RESOURCE_BUSY", "process_exists"),
           "the id of one that runs is taken")
    c.same(cove.request("DELETE", api(box, "process/my%20server")).status, 200, "the process is killed")
    start(cove, box, "echo again", processId="my server")
    c.same(wait(cove, box, "my%20server")["status"], "completed", "then its id is free")
    for bad in ("list", "a/b", "x" * 200, "kill-all", "new\nline"):
        reply = cove.post(api(box, "process/start"), {"command": "true", "processId": bad})
        c.same((reply.status, reply.json["code"]), (400, "VALIDATION_FAILED"), "no id: %.8r" % bad)


def endings(cove, box):
    for command, status, code in (("true", "completed", 0), ("exit 5", "failed", 5), ("kill -9 $$", "killed", 137),
                                  ("kill -TERM $$", "killed", 143), ("no-such-command", "failed", 127)):
        ended = wait(cove, box, start(cove, box, command))
        c.same((ended["status"], ended["exitCode"]), (status, code), "%s: %s" % (command, status))
    begin = time.monotonic()
    ended = wait(cove, box, start(cove, box, "sleep 100", timeoutMs=300))
    c.same((ended["status"], ended["exitCode"], ended["ended"]), ("failed", 124, "wall_limit"), "timeoutMs holds for processes")
    c.ok(time.monotonic() - begin < 50, "in time")
    out, err, last = c.collect(Stream(cove, api(box, "execute/stream"), {"command": "echo a; sleep 100", "timeoutMs": 300}).events())
    c.same((out, err, last["type"], last["exitCode"]), (b"a\n", b"Command timed out after 300ms", "complete", 124),
           "timeoutMs holds for streams (defect 6)")
    out, err, last = c.collect(Stream(cove, api(box, "execute/stream"), {"command": "echo a; exit 7; echo b"}).events())
    c.same((out, last["exitCode"]), (b"a\n", 7), "exit N ends a stream (defect 2)")
    ended = wait(cove, box, start(cove, box, "exit 9"), 3000)
    c.same((ended["status"], ended["exitCode"]), ("failed", 9), "exit N ends a process (defect 2)")
    begin = time.monotonic()
    for path in ("execute/stream", "process/start"):
        reply = cove.post(api(box, path), {"command": "true", "cwd": "/no/such/place", "processId": "lost"})
        c.same((reply.status, reply.json["code"], reply.json["reason"]), (500, "COMMAND_EXECUTION_ERROR", "no_cwd"),
               "a missing cwd is an error at once: %s (defect 3)" % path)
    c.ok(time.monotonic() - begin < 20, "at once")
    record = get(cove, box, "lost")
    c.ok(record["status"] == "error" and "error" in record and "exitCode" not in record,
         "and the record says so", record)
    c.same(c.collect(Stream(cove, api(box, "process/lost/stream")).events())[2]["type"], "exit", "its stream ends")
    reply = cove.post(api(box, "execute/stream"), {"argv": ["no-such-program"]})
    c.same((reply.status, reply.json["code"]), (404, "COMMAND_NOT_FOUND"), "a program that is not there is an error at once")


def kills(cove, box):
    tree = ("trap 'echo main; exit 0' TERM;"
            "(setsid sh -c 'sleep 7777 & sleep 7778' &) ;"
            "(setsid setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done; : 7779' >/dev/null 2>&1 &) ;"
            "while :; do sleep 7780 & wait $!; done")
    count = "pgrep -fc 'slee[p] 77|: 777[9]' || true"
    process = start(cove, box, tree)
    c.ok(c.until(lambda: int(cove.out(box, count)) >= 5), "a tree of sessions and groups stands", cove.out(box, count))
    begin = time.monotonic()
    reply = cove.request("DELETE", api(box, "process/" + process))
    took = time.monotonic() - begin
    c.same((reply.status, reply.json["success"], reply.json["processId"]), (200, True, process), "the process is killed")
    c.same(cove.out(box, count).strip(), "0", "and nothing of it is left")
    c.ok(4.5 < took < 30, "after the grace that one of them needed", took)
    record = get(cove, box, process)
    c.same((record["status"], record["exitCode"]), ("killed", 143), "the process is recorded as killed")
    c.same(logs(cove, box, process)["stdout"], "main\n", "TERM was sent before KILL")
    took = 0
    for _ in range(3):
        process = start(cove, box, "(setsid sleep 7781 &); sleep 7782")
        c.until(lambda: int(cove.out(box, "pgrep -fc 'slee[p] 778' || true")) >= 2)
        begin = time.monotonic()
        cove.request("DELETE", api(box, "process/" + process))
        took += time.monotonic() - begin
    c.ok(took < 15, "three processes that end on TERM take less than three times the grace", took)
    c.same(cove.out(box, "pgrep -fc 'slee[p] 778' || true").strip(), "0", "and is gone, too")
    process = start(cove, box, "trap '' TERM; while :; do sleep 0.1; done")
    time.sleep(0.2)
    cove.request("DELETE", api(box, "process/" + process))
    record = get(cove, box, process)
    c.same((record["status"], record["exitCode"]), ("killed", 137), "a process that ignores TERM is killed")


def signals(cove, box):
    process = start(cove, box, "trap 'echo usr1' USR1; echo up; while :; do sleep 0.05; done")
    cove.post(api(box, "process/%s/wait-log" % process), {"pattern": "up"})
    for count, name in enumerate(("SIGUSR1", "USR1", 10), 1):
        reply = cove.post(api(box, "process/%s/signal" % process), {"signal": name})
        c.same((reply.status, reply.json["signal"]), (200, 10), "signal %r" % name)
        c.until(lambda: logs(cove, box, process)["stdout"].count("usr1") == count)
    c.same(logs(cove, box, process)["stdout"].count("usr1"), 3, "signals arrive")
    for bad in ("SIGNOPE", 0, 65, ""):
        reply = cove.post(api(box, "process/%s/signal" % process), {"signal": bad})
        c.same(reply.status, 400, "no signal: %r" % bad)
    reply = cove.post(api(box, "process/%s/signal" % process), {"signal": "SIGKILL"})
    c.same((reply.json["status"], get(cove, box, process)["exitCode"]), ("killed", 137), "SIGKILL is answered when it is gone")
    reply = cove.post(api(box, "process/%s/signal" % process), {"signal": "TERM"})
    c.same(reply.status, 404, "and then there is nobody to signal")
    for i in range(4):
        start(cove, box, "sleep 5000")
    reply = cove.request("DELETE", api(box, "process/kill-all"))
    c.same((reply.status, reply.json["cleanedCount"]), (200, 4), "kill-all counts what it killed")
    c.same(cove.request("DELETE", api(box, "process/kill-all")).json["cleanedCount"], 0, "and is harmless twice")


def dialogue(cove, box):
    process = start(cove, box, "cat; echo end", openStdin=True)
    stream = Stream(cove, api(box, "process/%s/stream?encoding=auto" % process)).events()
    c.same(next(stream)["type"], "process_info", "a dialogue begins")
    for i in range(5):
        cove.post(api(box, "process/%s/stdin" % process), {"data": "line %d\n" % i})
        c.same(next(stream).get("data"), "line %d\n" % i, "written input comes back: %d" % i)
    raw = bytes(range(256))
    reply = cove.request("POST", api(box, "process/%s/stdin" % process), raw, raw=True,
                         headers={"Content-Type": "application/octet-stream"})
    c.same((reply.status, reply.json["bytes"]), (200, 256), "raw bytes are taken")
    event = next(stream)
    c.same((event.get("encoding"), c.data_of(event)), ("base64", raw), "and come back as they were")
    cove.post(api(box, "process/%s/stdin" % process), {"data": base64.b64encode(b"\xff\n").decode(), "encoding": "base64", "close": True})
    out, _, last = c.collect(stream)
    c.same((out, last["exitCode"]), (b"\xff\nend\n", 0), "closing it is an end")
    reply = cove.post(api(box, "process/%s/stdin" % process), {"data": "x"})
    c.same(reply.status, 404, "an ended process takes no input")
    process = start(cove, box, "sleep 100")
    reply = cove.post(api(box, "process/%s/stdin" % process), {"data": "x"})
    c.same((reply.status, reply.json["reason"]), (409, "stdin_closed"), "nor one without a stdin")
    process = start(cove, box, "sleep 100", openStdin=True)
    reply = cove.request("POST", api(box, "process/%s/stdin?timeoutMs=300" % process), b"x" * 300000, raw=True,
                         headers={"Content-Type": "application/octet-stream"})
    c.same((reply.status, reply.json["reason"]), (504, "stdin_full"), "a write to a process that does not read times out")
    cove.request("DELETE", api(box, "process/kill-all"))
    c.same(logs(cove, box, start_wait(cove, box, "cat"))["stdout"], "", "without openStdin there is nothing to read")
    c.same(logs(cove, box, start_wait(cove, box, "cat", stdin="given"))["stdout"], "given", "or what was given")


def start_wait(cove, box, command, **fields):
    process = start(cove, box, command, **fields)
    wait(cove, box, process)
    return process


def waits(cove, box):
    process = start(cove, box, "sleep 0.2; echo starting; sleep 0.2; echo 'listening on port 8080'; echo oops >&2; printf 'password: '; sleep 100")
    begin = time.monotonic()
    reply = cove.post(api(box, "process/%s/wait-log" % process), {"pattern": "listening", "timeoutMs": 60000})
    c.same((reply.status, reply.json["line"], reply.json["stream"]), (200, "listening on port 8080", "stdout"), "a line is awaited")
    c.ok(time.monotonic() - begin < 50, "and told when it comes")
    reply = cove.post(api(box, "process/%s/wait-log" % process), {"regex": "^listening on port \\d+$"})
    c.same(reply.json["line"], "listening on port 8080", "by a regular expression, also one that came before")
    reply = cove.post(api(box, "process/%s/wait-log" % process), {"regex": "OO.s", "ignoreCase": True})
    c.same((reply.json["line"], reply.json["stream"]), ("oops", "stderr"), "on stderr")
    reply = cove.post(api(box, "process/%s/wait-log" % process), {"pattern": "oops", "stream": "stdout", "timeoutMs": 300})
    c.same((reply.status, reply.json["code"], reply.json["context"]["processId"]), (408, "PROCESS_READY_TIMEOUT", process),
           "but not where it is not looked for")
    reply = cove.post(api(box, "process/%s/wait-log" % process), {"pattern": "password:"})
    c.same(reply.json["line"], "password: ", "a prompt has no end, and is found")
    for body in ({}, {"pattern": "a", "regex": "b"}, {"regex": "("}, {"pattern": "a", "stream": "x"}, {"pattern": 3}):
        reply = cove.post(api(box, "process/%s/wait-log" % process), body)
        c.same((reply.status, reply.json["code"]), (400, "VALIDATION_FAILED"), "refused: %s" % json.dumps(body))
    reply = cove.get(api(box, "process/%s/wait?timeoutMs=200" % process))
    c.same((reply.status, reply.json["code"]), (408, "PROCESS_READY_TIMEOUT"), "an end that does not come is not awaited for ever")
    cove.request("DELETE", api(box, "process/" + process))
    process = start(cove, box, "echo no; exit 4")
    reply = cove.post(api(box, "process/%s/wait-log" % process), {"pattern": "yes"})
    c.same((reply.status, reply.json["code"], reply.json["context"].get("exitCode")), (500, "PROCESS_EXITED_BEFORE_READY", 4),
           "an end before the line is told")


def whole(cove, box):
    bad = [i for i in range(RUNS) if not one_stream(cove, box, "seq 1 2000", SEQ.encode())]
    c.same(bad, [], "%d streams of seq 1 2000: every byte, every exit code (defect 1)" % RUNS)
    took, bad = [], []
    for i in range(ECHOES):
        begin = time.perf_counter()
        if not one_stream(cove, box, "echo %d" % i, b"%d\n" % i):
            bad.append(i)
        took.append(time.perf_counter() - begin)
    c.same(bad, [], "%d streams of an echo: every byte, every exit code (defect 1)" % ECHOES)
    c.note("a streamed echo to its end: p50 %.2f ms" % (sorted(took)[len(took) // 2] * 1000))
    bad = []
    for i in range(RUNS // 10):
        process = start_wait(cove, box, "seq 1 2000; exit 3")
        if logs(cove, box, process)["stdout"] != SEQ or get(cove, box, process)["exitCode"] != 3:
            bad.append(process)
    c.same(bad, [], "%d processes: every byte of their logs" % (RUNS // 10))


def one_stream(cove, box, command, want):
    out, err, last = c.collect(cove.events(box, command))
    return out == want and err == b"" and last["type"] == "complete" and last["exitCode"] == 0


def resumes(cove, box):
    script = ("for i in $(seq 1 120); do printf 'zeile %d ä€😀 ' $i; [ $((i % 3)) = 0 ] && printf 'fehler %d ü' $i >&2;"
              "printf '\\303'; printf x >&2; printf '\\251\\n'; [ $((i % 10)) = 0 ] && sleep 0.02; done; printf '\\377\\376'; exit 6")
    stream = Stream(cove, api(box, "execute/stream"), {"command": script, "encoding": "auto"})
    events = list(stream.events())
    process, whole_ = events[0]["processId"], c.collect(events)
    c.ok(events[0]["type"] == "start" and events[-1]["exitCode"] == 6 and all(e["id"] is not None for e in events),
         "a stream names its process, and every event has an id", events[:2])
    c.ok(all("\ufffd" not in e.get("data", "") for e in events), "no character is split")
    bad = []
    for cut in range(len(events) - 1):
        head, id_ = events[:cut + 1], events[cut]["id"]
        for path, headers in (("?encoding=auto&offset=" + id_, None), ("?encoding=auto", {"Last-Event-ID": id_})):
            rest = list(Stream(cove, api(box, "process/%s/stream%s" % (process, path)), headers=headers).events())
            got = c.collect([e for e in head + rest])
            if got[:2] != whole_[:2] or got[2]["type"] != "exit" or got[2]["exitCode"] != 6:
                bad.append((cut, id_, path))
        if bad:
            break
        if cut > 40 and not SOAK and random.random() < 0.6:
            continue
    c.same(bad, [], "cut behind any event and resumed: identical")
    bad = []
    for seed in range(60 if SOAK else 15):
        if not cut_and_resume(cove, box, script, whole_, random.Random(seed)):
            bad.append(seed)
    c.same(bad, [], "cut at random bytes while it runs and resumed: identical")
    raw = cove.get(api(box, "process/%s/tape" % process)).body
    c.same(len(raw), len(whole_[0]) + len(whole_[1]), "the tape has all of it")
    for name, want in (("stdout", whole_[0]), ("stderr", whole_[1])):
        got = [cove.get(api(box, "process/%s/tape?stream=%s&offset=%d" % (process, name, at))).body == want[at:]
               for at in range(0, len(want) + 1, 97)]
        c.ok(all(got), "raw bytes of %s from any offset on" % name)
    for at in range(0, len(raw) + 1, 61):
        out, err, _ = c.collect(Stream(cove, api(box, "process/%s/stream?offset=%d&encoding=base64" % (process, at))).events())
        if len(out) + len(err) != len(raw) - at:
            c.ok(False, "events from offset %d" % at)
    reply = cove.get(api(box, "process/%s/stream?offset=%d" % (process, len(raw) + 1)))
    c.same((reply.status, reply.json["reason"]), (400, "bad_offset"), "past the end there is no offset")
    c.same(cove.get(api(box, "process/%s/stream?offset=abc" % process)).status, 400, "nor is this one")


def cut_and_resume(cove, box, script, want, rng):
    """Reads a random number of events, cuts, resumes at the last id, until the end has come."""
    got, process, last = [], None, None
    while True:
        if process is None:
            stream = Stream(cove, api(box, "execute/stream"), {"command": script, "encoding": "auto"})
        else:
            stream = Stream(cove, api(box, "process/%s/stream?encoding=auto" % process), headers={"Last-Event-ID": last})
        left = rng.randrange(1, 25)
        for event in stream.events():
            got.append(event)
            process = process or event["processId"]
            last = event["id"]
            left -= 1
            if event["type"] in ("complete", "exit"):
                return c.collect(got)[:2] == want[:2] and event["exitCode"] == 6
            if left == 0:
                break
        stream.close()


def slow(cove, box):
    stream = Stream(cove, api(box, "execute/stream"), {"command": "head -c 20000000 /dev/zero | tr '\\0' x; echo done >/tmp/done"})
    first = next(stream.events())
    c.ok(c.until(lambda: cove.run(box, "test -e /tmp/done")["exitCode"] == 0), "a reader that sleeps holds nobody up")
    ended = wait(cove, box, first["processId"])
    c.same((ended["status"], ended["stdoutTruncated"]), ("completed", False), "the writer has ended")
    out, _, last = c.collect(stream.events())
    c.same((len(out), last["exitCode"]), (20000000, 0), "and the reader misses nothing")
    got = []
    process = start(cove, box, "for i in $(seq 1 200); do echo $i; sleep 0.005; done")
    def read():
        got.append(c.collect(Stream(cove, api(box, "process/%s/stream" % process)).events())[0])
    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        time.sleep(0.05)
        reader.start()
    for reader in readers:
        reader.join()
    c.same(set(got), {"".join("%d\n" % i for i in range(1, 201)).encode()}, "eight readers read the same")
    stream = Stream(cove, api(box, "execute/stream"), {"command": "sleep 0.5; echo done >/tmp/done2"})
    next(stream.events())
    stream.close()
    c.ok(c.until(lambda: cove.run(box, "test -e /tmp/done2")["exitCode"] == 0), "closing the connection does not stop the command")


def caps(cove):
    box = cove.create(limits={"outputMB": 1})
    process = start_wait(cove, box, "head -c 3000000 /dev/zero | tr '\\0' a; echo err >&2")
    ended = wait(cove, box, process)
    c.same((ended["status"], ended["exitCode"], ended["stdoutTruncated"]), ("completed", 0, True), "past the cap the output is drained")
    raw = cove.get(api(box, "process/%s/tape?stream=stdout" % process)).body
    c.ok((1 << 20) - 10 <= len(raw) <= 1 << 20, "the kept output has the size of the cap", len(raw))
    log = logs(cove, box, process)
    c.ok(log["stdoutTruncated"] and len(log["stdout"]) == len(raw), "and the logs say so", len(log["stdout"]))
    folder = os.path.join(cove.data, "daemon", "tapes", box["id"])
    c.ok(os.path.getsize(os.path.join(folder, os.listdir(folder)[0])) < 1200000, "and so is the file")
    cove.delete(box)
    c.ok(c.until(lambda: not os.path.exists(folder)), "tapes go with their box")
    box = cove.create(limits={"outputMB": 64})
    folder = os.path.join(cove.data, "daemon", "tapes", box["id"])
    first = start_wait(cove, box, "echo first")
    names = [start_wait(cove, box, "head -c 70000000 /dev/zero") for _ in range(18)]
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    c.ok(size <= 1 << 30, "a box keeps 1 GiB of tapes", size)
    left = [p["id"] for p in cove.get(api(box, "process/list")).json["processes"]]
    c.ok(first not in left and names[-1] in left and names[0] not in left and left == names[-len(left):],
         "and the oldest that has ended goes first", len(left))
    c.same(get(cove, box, names[-1]).get("stdoutTruncated"), True, "each is cut at its own cap")
    cove.delete(box)
    c.ok(c.until(lambda: not os.path.exists(folder), 30), "all of them go with the box")


def sessions(cove, box):
    say = lambda command, **kw: cove.run(box, command, sessionId="s1", **kw)
    say("export A=1; b=two; f() { echo fun $A $b; }; cd /tmp; mkdir -p sub; alias hi='echo hallo'; umask 027")
    out, _, last = c.collect(cove.events(box, "f; pwd; umask; exit 4", sessionId="s1"))
    c.same((out, last["exitCode"]), (b"fun 1 two\n/tmp\n0027\n", 4), "a stream begins where its session stands")
    out, _, _ = c.collect(cove.events(box, "echo $A $NEW; pwd", sessionId="s1", env={"A": "9", "NEW": "n"}, cwd="sub"))
    c.same(out, b"9 n\n/tmp/sub\n", "with an env and a cwd of its own")
    c.collect(cove.events(box, "A=changed; b=x; cd /; exit 1", sessionId="s1"))
    c.same(say("echo $A $b; pwd")["stdout"], "1 two\n/tmp", "and cannot change it")
    reply = cove.post(api(box, "execute/stream"), {"command": "true", "sessionId": "s1", "cwd": "/no/such"})
    c.same(reply.json["reason"], "no_cwd", "a missing cwd is an error there, too")
    process = start(cove, box, "f; sleep 1000", sessionId="s1")
    c.ok(c.until(lambda: logs(cove, box, process)["stdout"] == "fun 1 two\n"), "so does a process")
    c.same(get(cove, box, process)["sessionId"], "s1", "which knows its session")
    cove.post(api(box, "session/delete"), {"sessionId": "s1"})
    ended = wait(cove, box, process)
    c.same(ended["status"], "error", "and ends with it, in error")


def records(cove, box):
    cove.request("DELETE", api(box, "process/kill-all"))
    before = len(cove.get(api(box, "process/list")).json["processes"])
    process = start(cove, box, "echo gone", autoCleanup=True)
    c.ok(c.until(lambda: cove.get(api(box, "process/" + process)).status == 404), "autoCleanup forgets at the end")
    running = start(cove, box, "sleep 1000")
    reply = cove.request("DELETE", api(box, "process/completed"))
    c.same((reply.status, reply.json["cleanedCount"]), (200, before), "records of ended processes are deleted on request")
    c.same([p["id"] for p in cove.get(api(box, "process/list")).json["processes"]], [running], "records of running ones are not")
    folder = os.path.join(cove.data, "daemon", "tapes", box["id"])
    # One worker is forked ahead.
    c.ok(c.until(lambda: len(os.listdir(folder)) <= 2), "and their tapes are gone", os.listdir(folder))


def big(cove, box):
    command = "head -c 30000000 /dev/urandom | base64 -w 100 | tee /tmp/big"
    process = start_wait(cove, box, command)
    want = cove.out(box, "md5sum </tmp/big").split()[0]
    daemon = cove.children()["daemon"]
    def rss():
        with open("/proc/%d/status" % daemon, errors="replace") as status:
            return int([line for line in status if line.startswith("VmRSS")][0].split()[1])
    base = rss()
    log = logs(cove, box, process)["stdout"]
    c.same(hashlib.md5(log.encode()).hexdigest(), want, "40 MB of logs in one answer")
    out = c.collect(Stream(cove, api(box, "process/%s/stream" % process)).events())[0]
    c.same(hashlib.md5(out).hexdigest(), want, "and as events")
    if not c.SHORT:  # a sanitizer keeps what is freed
        c.ok(rss() - base < 8000, "without a heap of memory", "%d kB more" % (rss() - base))
    cove.request("DELETE", api(box, "process/completed"))


def lost(cove):
    box = cove.create()
    process = start_wait(cove, box, "echo remembered")
    running = start(cove, box, "echo live; sleep 1000")
    c.until(lambda: logs(cove, box, running)["stdout"] == "live\n")
    cove.execute(box, "kill -9 -1; sleep 5", _timeout=20)
    pid1 = [pid for pid in c._pids() if c._is_boxed(pid, cove.instance()) and
            box["id"] in open("/proc/%d/cgroup" % pid).read()]
    for pid in pid1:
        try:
            os.kill(pid, 9)
        except OSError:
            pass
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/" + box["id"]).json["state"] == "failed"), "a box is lost")
    c.same(logs(cove, box, process)["stdout"], "remembered\n", "its output can still be read")
    record = get(cove, box, running)
    c.ok(record["status"] in ("error", "killed"), "a running process is recorded as ended", record)
    c.same(c.collect(Stream(cove, api(box, "process/%s/stream" % running)).events())[0], b"live\n", "with its output")
    c.same(cove.post(api(box, "process/start"), {"command": "true"}).status, 410, "but nothing is started any more")
    cove.delete(box)


def leftovers(cove):
    folder = os.path.join(cove.data, "daemon", "tapes")
    old = os.path.join(folder, "box-of-an-earlier-life")
    os.makedirs(old)
    with open(os.path.join(old, "1"), "w") as file:
        file.write("x")
    owner = os.stat(folder)
    os.chown(old, owner.st_uid, owner.st_gid)
    cove.stop()
    cove.start()
    c.ok(c.until(lambda: not os.path.exists(old)), "tapes that belong to no sandbox are removed", os.listdir(folder))


def main():
    c.need_root()
    cove = c.Cove()
    box = cove.create()
    only = sys.argv[1:]
    for story in (rules, ids, endings, kills, signals, dialogue, waits, whole, resumes, slow, sessions, big, records):
        if not only or story.__name__ in only:
            story(cove, box)
    for story in (caps, lost, leftovers):
        if not only or story.__name__ in only:
            story(cove)
    cove.delete(box)
    c.done()


main()
