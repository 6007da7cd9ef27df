#!/usr/bin/env python3
"""Clients that leave, fall silent, or read slowly: what they asked for is done, what they hold is
given back, and who still wants an answer gets it."""
import http.client
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def ask(cove, path, body, version="1.1"):
    """A socket on which a request has been sent, and nothing was read yet."""
    text = json.dumps(body)
    sock = c.socket.create_connection(("127.0.0.1", cove.port), timeout=60)
    sock.sendall(("POST %s HTTP/%s\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                  "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" %
                  (path, version, cove.port, cove.key, len(text), text)).encode())
    return sock


def hear(sock, enough=None):
    got = b""
    while not (enough and enough in got):
        more = sock.recv(65536)
        if not more:
            break
        got += more
    return got


def state(cove):
    health = cove.get("/v1/health").json
    return health["http"]["open"], health["loop"]["tasks"]


def vanished(cove, box, path):
    time.sleep(0.1)
    calm = state(cove)
    mark = "/tmp/left-" + path.rsplit("/", 1)[1]
    gate = mark + ".gate"
    cove.run(box, ["mkfifo", gate])
    gone = [ask(cove, path, {"command": "cat %s; touch %s" % (gate, mark), "encoding": "auto"}) for _ in range(5)]
    c.ok(c.until(lambda: cove.out(box, "pgrep -fxc 'cat %s'; true" % gate).strip() == "5"), "the commands run")
    c.ok(c.until(lambda: state(cove)[0] >= calm[0] + 5), "five clients wait on " + path)
    for sock in gone[:3]:
        sock.close()
    for sock in gone[3:]:
        sock.setsockopt(c.socket.SOL_SOCKET, c.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
    c.ok(c.until(lambda: state(cove)[0] <= calm[0]),
         "those that leave give their connection back, not when the command ends", calm, state(cove))
    c.same(cove.run(box, ["test", "-e", mark])["exitCode"], 1, "the command is not over")
    cove.run(box, ": > " + gate)
    c.ok(c.until(lambda: cove.run(box, ["test", "-e", mark])["exitCode"] == 0, 30, 0.2),
         "and runs on to its end")
    c.ok(c.until(lambda: state(cove)[1] <= calm[1]), "no task is left", calm, state(cove))


def half_closed(cove, box, path):
    for version in ("1.1", "1.0"):
        sock = ask(cove, path, {"command": "sleep 0.5; echo late", "encoding": "auto"}, version)
        sock.shutdown(c.socket.SHUT_WR)
        got = hear(sock)
        last = got[got.rfind(b"HTTP/1.1 "):]
        c.ok(last.startswith(b"HTTP/1.1 200") and b"late\\n" in last and b'"exitCode":0' in last,
             "HTTP/%s: a client that closed its sending half only gets its answer" % version, got)
        c.ok(version == "1.1" or got.count(b"HTTP/") == 1, "in one reply", got)
        sock.close()


def half_closed_create(cove):
    sock = ask(cove, "/v1/sandboxes", {})
    sock.shutdown(c.socket.SHUT_WR)
    got = hear(sock)
    sock.close()
    c.ok(b"HTTP/1.1 201" in got, "one that makes a sandbox so gets it", got)
    cove.delete(json.loads(got[got.rindex(b"\r\n\r\n"):]))


def kept(cove):
    """A head that comes in two pieces leaves a wake-up behind that means nothing."""
    conns = [http.client.HTTPConnection("127.0.0.1", cove.port, timeout=20) for _ in range(40)]
    for conn in conns:
        conn.connect()
        conn.sock.setsockopt(c.socket.IPPROTO_TCP, c.socket.TCP_NODELAY, 1)
        conn.sock.sendall(b"GET /v1/health HTTP/1.1\r\n")
        conn.sock.sendall(b"Host: 127.0.0.1:%d\r\n\r\n" % cove.port)
        hear(conn.sock, b'"version"')
    time.sleep(12)  # longer than a head may take, shorter than a connection may be idle
    alive = 0
    for conn in conns:
        try:
            conn.request("GET", "/v1/health")
            alive += conn.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            pass
        conn.close()
    c.same(alive, len(conns), "connections are kept for longer than a head may take")


def pause(cove):
    """Readers that pause for 40 s, beside all the rest."""
    if c.SHORT:
        return {}
    env = dict(os.environ, COVE_URL=cove.url, COVE_TOKEN=cove.key)
    runs = {}
    for words in ([], ["--json"]):
        line = "%s run %s -- seq 1 8000000 | (sleep 40; wc -lc)" % (c.BIN, " ".join(words))
        runs[line] = subprocess.Popen(["bash", "-o", "pipefail", "-c", line], env=env,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return runs


def paused(runs):
    if not runs:
        c.skip("a reader may pause for 40 s", "COVE_E2E_SHORT=1 leaves it out")
    for line, run in runs.items():
        out, err = run.communicate(timeout=150)
        lines, size = out.split()
        want = (0, b"8000000", 62888896) if "--json" not in line else (0, None, 62888896)
        got = (run.returncode, lines if want[1] else None, min(int(size), 62888896))
        c.ok(got == want and not err, "a reader may pause for 40 s: " + line[len(c.BIN):], got, err)


c.need_root()
cove, other = c.Cove(), c.Cove()
runs = pause(other)
box = cove.create()
cove.run(box, "true")
for way in ("execute", "execute/stream"):
    path = "/v1/sandboxes/%s/api/%s" % (box["id"], way)
    vanished(cove, box, path)
    half_closed(cove, box, path)
half_closed_create(cove)
kept(cove)
paused(runs)
cove.delete(box)
c.same((cove.stop(), other.stop()), (0, 0), "cove ends with status 0")
c.done()
