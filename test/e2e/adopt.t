#!/usr/bin/env python3
"""The daemon is killed under streams, terminals, processes, sessions and uploads. Nothing of them
is lost: each stream goes on at its offset, each terminal has its screen, each process its exit
code, each session its state; and a file that was being written is the old one or the new."""
import http.client
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import BROKEN, Follower, api, patiently, start  # noqa: E402
from wsclient import Terminal  # noqa: E402

STREAMS = 12 if c.SHORT else 50
LINES = 8000 if c.SHORT else 20000
KILLS = 2 if c.SHORT else 4
PACED = "seq 1 %d | awk '{ print } NR %% %d == 0 { fflush(); system(\"sleep 0.1\") }'; exit %d"


def kill_daemon(cove):
    pid = cove.children()["daemon"]
    os.kill(pid, signal.SIGKILL)
    c.until(lambda: cove.children().get("daemon", pid) != pid, 30, 0.01)


def streams(cove, box):
    processes = [start(cove, box, PACED % (LINES, LINES // 8, i % 200)) for i in range(STREAMS)]
    before = {p: cove.get(api(box, "process/" + p)).json["process"] for p in processes}
    followers = [Follower(cove, box, p) for p in processes]
    times = []
    for _ in range(KILLS):
        time.sleep(random.uniform(0.1, 0.5))
        begin = time.monotonic()
        kill_daemon(cove)
        patiently(lambda: cove.get(api(box, "process/list")))
        times.append("%.2f" % (time.monotonic() - begin))
    for follower in followers:
        follower.join(150)
    c.note("answers after %s s; %d reconnects" % (", ".join(times), sum(f.cuts for f in followers)))
    want = "".join("%d\n" % i for i in range(1, LINES + 1)).encode()
    wrong = [(f.process, sum(map(len, f.got)), len(want)) for f in followers if b"".join(f.got) != want]
    c.same(wrong, [], "%d streams under %d kills: every byte came once, in its place" % (STREAMS, KILLS))
    ends = [f.end and f.end.get("exitCode") for f in followers]
    c.same(ends, [i % 200 for i in range(STREAMS)], "and every exit code")
    after = {p: cove.get(api(box, "process/" + p)).json["process"] for p in processes}
    keep = ("id", "pid", "command", "startTime", "sessionId")
    changed = [p for p in processes if any(before[p].get(k) != after[p].get(k) for k in keep)]
    c.same(changed, [], "their records are the same")
    logs = [cove.get(api(box, "process/%s/logs" % p)).json["stdout"].encode() == want for p in processes[:5]]
    c.ok(all(logs), "and what is kept of them is whole")
    return processes


def records(cove, box, processes):
    quick = [start(cove, box, "echo %d; exit %d" % (i, i)) for i in range(20)]
    late = start(cove, box, "sleep 1; echo late; exit 77")
    kill_daemon(cove)
    time.sleep(0.3)
    listed = patiently(lambda: cove.get(api(box, "process/list"))).json["processes"]
    c.ok(set(processes + quick + [late]) <= {p["id"] for p in listed}, "every record is there after a kill")
    codes = [patiently(lambda: cove.get(api(box, "process/%s/wait?timeoutMs=20000" % p))).json["exitCode"]
             for p in quick + [late]]
    c.same(codes, list(range(20)) + [77], "processes that ended just before or during the restart have their exit codes")
    c.same(cove.get(api(box, "process/%s/logs" % late)).json["stdout"], "late\n", "and its output")
    cove.request("DELETE", api(box, "process/completed"))
    kill_daemon(cove)
    listed = patiently(lambda: cove.get(api(box, "process/list"))).json["processes"]
    c.same(listed, [], "a forgotten process stays forgotten")


def sessions(cove, box):
    def run(session, command, **fields):
        return patiently(lambda: cove.execute(box, command, sessionId=session, **fields))

    run("idle", "cd /etc; x=1; f() { echo f-$x; }; (exit 9)")
    run("busy", "y=0")
    threading.Thread(target=lambda: quiet(cove, box, "busy", "cd /var; sleep 1.5; y=done")).start()
    time.sleep(0.5)
    kill_daemon(cove)
    c.same(run("idle", "echo $?; pwd; f").json["stdout"], "9\n/etc\nf-1", "an idle shell has all of its state")
    begin = time.monotonic()
    c.same(run("busy", "echo $y; pwd").json["stdout"], "done\n/var", "a busy shell finishes its command, and goes on")
    c.note("after %.2f s" % (time.monotonic() - begin))
    names = patiently(lambda: cove.get(api(box, "session/list"))).json["data"]
    c.ok({"idle", "busy"} <= set(names), "both are listed", names)


def quiet(cove, box, session, command):
    try:
        cove.execute(box, command, sessionId=session)
    except BROKEN:
        pass


def terminals(cove, box):
    first = Terminal(cove, box, "sessionId=t")
    first.until(event="ready")
    first.resize(111, 33)
    first.type("PS1='$ '; v=kept; echo be''fore; seq 1 3000\n")
    c.ok(first.until(b"before\r\n") and first.until(b"3000\r\n"), "a terminal is in use")
    kill_daemon(cove)
    patiently(lambda: cove.get("/v1/sandboxes/" + box["id"]))
    listed = cove.get(api(box, "terminals")).json["terminals"]
    c.same([(t["cols"], t["rows"]) for t in listed], [(111, 33)], "the terminal is listed, with its size")
    again = connect(cove, box, "sessionId=t&cols=111&rows=33")
    c.ok(again.until(b"before\r\n") and again.until(b"3000\r\n"), "its screen is there again", again.seen[-200:])
    lines = again.seen.replace(b"\r", b"").split(b"\n")
    numbers = [int(line) for line in lines if line.isdigit()]
    c.same(numbers, list(range(1, 3001)), "with every line once")
    again.type("echo $v; stty size\n")
    c.ok(again.until(b"kept\r\n") and again.until(b"33 111\r\n"), "and the shell behind it, its size too", again.seen[-200:])
    again.close()


def connect(cove, box, query):
    for _ in range(100):
        try:
            return Terminal(cove, box, query)
        except (Exception,):  # noqa: B902
            time.sleep(0.1)
    return Terminal(cove, box, query)


def uploads(cove, box):
    path = api(box, "files/workspace/big")
    old = b"old" * 1000
    cove.request("PUT", path, old, raw=True)
    cut, half, killed = [], threading.Event(), threading.Event()

    def slowly():
        conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=30)
        try:
            conn.putrequest("PUT", path)
            conn.putheader("Authorization", "Bearer " + cove.key)
            conn.putheader("Content-Length", str(64 << 20))
            conn.endheaders()
            for i in range(64):
                if i == 20:
                    half.set()
                    killed.wait(60)
                conn.send(b"n" * (1 << 20))
            cut.append(conn.getresponse().status)
        except BROKEN:
            cut.append("cut")

    thread = threading.Thread(target=slowly)
    thread.start()
    half.wait(60)
    kill_daemon(cove)
    killed.set()
    thread.join()
    size = patiently(lambda: cove.execute(box, "stat -c %s /workspace/big; ls -A /workspace")).json["stdout"].split()
    c.same(cut, ["cut"], "an upload is cut off")
    c.same(size[0], str(len(old)), "and the old file stays whole")
    c.same([n for n in size[1:] if "cove" in n or n.startswith(".")], [], "with nothing beside it")


def limits(cove, box):
    begin = time.monotonic()
    process = start(cove, box, "sleep 1000", timeoutMs=3000, timeout=3000)
    kill_daemon(cove)
    end = patiently(lambda: cove.get(api(box, "process/%s/wait?timeoutMs=60000" % process))).json
    took = time.monotonic() - begin
    if "exitCode" in end:
        c.ok(took > 2.9, "a time limit holds over a kill", end, took)
    else:
        c.note("this door has no time limit for processes: %r" % end)
        cove.request("DELETE", api(box, "process/" + process))


def main():
    c.need_root()
    cove = c.Cove()
    box = cove.create()
    processes = streams(cove, box)
    records(cove, box, processes)
    sessions(cove, box)
    terminals(cove, box)
    uploads(cove, box)
    limits(cove, box)
    c.same(cove.delete(box).status, 204, "the sandbox is deleted")
    c.ok(c.until(lambda: os.listdir(os.path.join(cove.data, "daemon", "tapes")) == []), "with all of its tapes")
    cove.close()
    c.done()


main()
