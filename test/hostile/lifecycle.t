#!/usr/bin/env python3
"""Group L: crashes at random points, deletion in every state, and two masters of one house."""
import os
import random
import signal
import socket
import subprocess
import threading
import time

from rows import PATIENCE, c, play, row


@row("L-07", "deletion works in every state, twice, and beside everything else")
def deletions(stage):
    cove = stage.cove
    box = cove.create()
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(cove.delete(box).status)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    c.ok(set(statuses) <= {204, 404} and 204 in statuses, "L-07: eight at once", statuses)
    c.same(cove.delete(box).status, 404, "L-07: and once more")
    for what, command in {"running": "sleep 100", "thrashing": "python3 -c 'a=[]\nwhile 1: a.append(bytearray(1<<20))'",
                          "busy": "yes > /dev/null & yes > /dev/null & wait", "bombing": ":(){ :|:& };:; wait",
                          "stopped": "kill -STOP -1; sleep 100"}.items():
        box = cove.create(limits={"pids": 64, "memoryMB": 64})
        replies = []
        thread = threading.Thread(target=lambda: replies.append(cove.execute(box, command)))
        thread.start()
        time.sleep(0.3)
        begin = time.monotonic()
        status = cove.delete(box).status
        took = time.monotonic() - begin
        thread.join(20)
        c.ok(status == 204 and took < 4 * PATIENCE, "L-07: while %s" % what, status, took)
        c.ok(replies and (replies[0].status != 200 or replies[0].json["ended"] in
                          ("killed_by_api", "box_lost", "oom", "exited", "signaled")), "L-07: the exec is answered", replies)
    spec = {"name": "shortlived"}
    maker = threading.Thread(target=lambda: cove.post("/v1/sandboxes", spec))
    maker.start()
    time.sleep(0.001)
    cove.delete("shortlived")
    maker.join()
    cove.delete("shortlived")
    c.same(cove.get("/v1/sandboxes/shortlived").status, 404, "L-07: while it is created")
    stage.no_control("the row asks that an end comes, whatever goes on; nothing is refused that could be let pass")


def unread(cove, path):
    """A connection that has asked, and never reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", cove.port))
    sock.sendall(("GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n\r\n" % (path, cove.port, cove.key)).encode())
    return sock


def readlink(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def is_closed(sock):
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1


@row("L-07", "streams that nobody reads end with their sandbox, and its output on disk goes")
def unread_streams(stage):
    def attack(stage, seconds):
        """What is left of a deleted sandbox after that time: its output on disk, and connections."""
        cove = stage.cove
        box = cove.create(limits={"outputMB": 64})["id"]
        api = "/v1/sandboxes/%s/api/process/" % box
        folder = os.path.join(cove.data, "daemon", "tapes", box)

        def stored():
            """Whether its output takes disk space: by a name, or by a descriptor."""
            fds = "/proc/%d/fd/" % cove.children()["daemon"]
            return os.path.exists(folder) or any("/tapes/" + box in readlink(fds + fd) for fd in os.listdir(fds))
        cove.post(api + "start", {"command": "yes | head -c 60M; sleep 1000", "processId": "p"})
        c.until(lambda: os.path.exists(folder + "/1") and os.stat(folder + "/1").st_size > 60 << 20, 30)
        socks = [unread(cove, api + "p/" + way) for way in ("stream", "tape?follow=true", "logs")]
        c.until(lambda: all(s.recv(1, socket.MSG_PEEK) for s in socks))
        cove.delete(box)
        c.until(lambda: not stored() and all(map(is_closed, socks)), seconds)
        left = stored(), [is_closed(s) for s in socks]
        for sock in socks:
            sock.close()
        c.until(lambda: not stored(), 30)
        return left
    stage.control_weak("cancel_on_delete", lambda weak: attack(weak, 6), lambda left: left == (True, [False] * 3))
    c.same(attack(stage, 30), (False, [True] * 3), "L-07: nothing is left of them")


@row("L-09", "a second master is refused")
def two_masters(stage):
    def attack(stage):
        """Whether a second one comes up on the same directory."""
        ready, theirs = os.pipe()
        os.set_inheritable(theirs, True)
        second = subprocess.Popen([stage.cove.binary, "serve", "--data", stage.cove.data, "--listen", "127.0.0.1:0",
                                   "--ready-fd", str(theirs)], env=stage.cove.env, pass_fds=(theirs,),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs)
        with os.fdopen(ready) as file:
            up = bool(file.readline())
        second.terminate()
        second.wait(30)
        return up
    stage.control_weak("lock", attack, lambda up: up, fresh=True)
    c.ok(not attack(stage), "L-09: it does not come up")
    second = subprocess.run([stage.cove.binary, "serve", "--data", stage.cove.data, "--listen", "127.0.0.1:0"],
                            capture_output=True, text=True, timeout=20, env=stage.cove.env)
    c.ok(second.returncode != 0 and str(stage.cove.process.pid) in second.stderr + second.stdout,
         "L-09: it says who holds the directory", second)


@row("L-01", "kill -9 at random points leaks nothing, and the next start is clean")
def crashes(stage):
    rounds = int(os.environ.get("CRASH_ROUNDS", "3" if c.SHORT else "12"))
    dice = random.Random(int(os.environ.get("CRASH_SEED", "7")))

    def attack(cove):
        """Groups of a box, and of what waits to be the next, that are there after it and its cove were
        shot, all at once, and cove was started again. A box that lives would be taken up: it outlives
        its cove."""
        box, roles = cove.create(), cove.children()
        c.until(lambda: cove.get("/v1/verify").json["counts"]["prebuilt"] == 1)
        groups = [path for path in c._groups(cove.instance()) if "/box-" in path]
        with open(os.path.join(cove.data, "run", "cells", box["id"])) as file:
            first = int(file.read().split("\npid ", 1)[1].split()[0])
        for pid in [cove.process.pid, roles["warden"], roles["daemon"], first]:
            os.kill(pid, signal.SIGKILL)
        cove.process.wait()
        c.until(lambda: not any(os.path.exists("/proc/%d" % p) for p in roles.values()))
        cove.start()
        return [path for path in groups if os.path.isdir(path)]
    if stage.can_weaken("inventory"):
        with stage.weakened("inventory", fresh=True) as weak:
            left = attack(weak.cove)
            stage.worked("inventory", left, left)
            for path in sorted(left, reverse=True):
                os.rmdir(path)
    cove = c.Cove()
    instance = cove.instance()
    c.same(attack(cove), [], "L-01: all killed at once, a box too, and the next warden destroys it")

    def counted():  # new processes may hold a few more or fewer fds than the old ones
        return {k: v for k, v in c.census(cove).items() if not k.startswith(("fds", "mounts"))}
    begin = time.monotonic()
    cove.delete(cove.create())
    bound = max(10, 100 * (time.monotonic() - begin))  # an emulated machine is slower in everything
    c.calm(cove)
    before = {k: 0 for k in counted()}
    before["cgroups"] = counted()["cgroups"]  # of what waits to become the next box
    slowest = 0.0
    for n in range(rounds):
        stop = threading.Event()

        def load():
            while not stop.is_set():
                try:
                    box = cove.create()
                    cove.execute(box, ["true"])
                    cove.delete(box)
                except Exception:  # the server is being shot: anything may break, nothing may stay
                    time.sleep(0.02)
        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        time.sleep(dice.uniform(0.02, 0.4))
        roles = cove.children()
        victims = dice.choice((["daemon"], ["warden"], ["daemon", "warden"], ["supervisor"]))
        for role in victims:
            pid = cove.process.pid if role == "supervisor" else roles.get(role)
            if pid:
                os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        if victims == ["supervisor"]:
            stop.set()
            for t in threads:
                t.join()
            cove.process.wait()
            c.until(lambda: not any(os.path.exists("/proc/%d" % p) for p in roles.values()))
            cove.start()

        def usable():
            try:
                box = cove.create()
                return cove.delete(box).status == 204
            except Exception:
                return False
        stop.set()
        for t in threads:
            t.join()
        up = c.until(usable, 2 * bound)
        slowest = max(slowest, time.monotonic() - begin)
        if not up:
            c.ok(False, "L-01: round %d (%s) comes back" % (n, victims), cove.log_text()[-3000:])
            return
        for item in cove.get("/v1/sandboxes").json["items"]:
            cove.delete(item["id"])
        if not c.until(lambda: counted() == before, 30, 0.05):
            c.ok(False, "L-01: round %d (%s) leaves nothing" % (n, victims), before, counted())
            return
    c.ok(True, "L-01: %d rounds left nothing" % rounds)
    c.ok(slowest < bound, "L-01: back in service in bounded time", slowest, bound)
    c.same(cove.stop(), 0, "L-01: and it stops cleanly")
    left = (c._groups(instance), c._loops(cove.data, stock=True), [p for p in c._pids() if c._is_boxed(p, instance)])
    c.same(left, ([], 0, []), "L-01: the host is as it was")
    cove.close()


play()
