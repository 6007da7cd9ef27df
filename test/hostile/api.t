#!/usr/bin/env python3
"""Group A: unauthenticated clients, tenants and web pages against the API."""
import contextlib
import json
import os
import socket
import statistics
import subprocess
import threading
import time

from rows import c, PATIENCE, play, row, WEAK

os.environ["COVE_USERS_GROUP"] = "users"  # of every Debian, and without members


def raw(stage, data, seconds=5, shut=False):
    """Sends bytes as they are; everything that comes back until the server closes or is silent."""
    sock = socket.create_connection(("127.0.0.1", stage.cove.port), timeout=seconds)
    got = b""
    try:
        sock.sendall(data)
        if shut:
            sock.shutdown(socket.SHUT_WR)
        while True:
            part = sock.recv(65536)
            if not part:
                break
            got += part
    except (socket.timeout, ConnectionError):
        pass
    finally:
        sock.close()
    return got


def rss(pid):
    return int([l for l in open("/proc/%d/status" % pid, errors="replace") if l.startswith("VmRSS")][0].split()[1])


@row("A-01", "slow heads are cut off, and a healthy client does not notice")
def slow_loris(stage):
    half = b"GET /v1/health HTTP/1.1\r\nHost: loc"
    if stage.can_weaken("head_time"):
        with stage.weakened("head_time") as weak:
            patient = socket.create_connection(("127.0.0.1", weak.cove.port))
            patient.sendall(half)
            slow_heads(stage, half)
            patient.settimeout(1)
            try:
                stage.worked("head_time", False, patient.recv(4096))
            except socket.timeout:
                stage.worked("head_time", True)
            patient.close()


def slow_heads(stage, half):
    socks = []
    for _ in range(100 if c.SHORT else 600):
        sock = socket.create_connection(("127.0.0.1", stage.cove.port))
        sock.sendall(half)
        socks.append(sock)
    times = []
    for _ in range(20):
        begin = time.monotonic()
        c_status = stage.cove.get("/v1/health").status
        times.append(time.monotonic() - begin)
    c.ok(c_status == 200 and statistics.median(times) < 0.05 * PATIENCE, "A-01: health is served", times)
    begin = time.monotonic()
    socks[0].settimeout(20)
    got = socks[0].recv(4096)
    c.ok((got == b"" or b" 408 " in got) and time.monotonic() - begin < 15, "A-01: the head's deadline holds", got)
    for sock in socks:
        sock.close()


@row("A-02", "half-sent requests of one stranger, more than there is room for, keep nobody out")
def half_heads(stage):
    key = b"Authorization: Bearer nobody\r\n"
    attacks = {"half a head": b"GET /v1/health HTTP/1.1\r\nHost: loc",
               "half a head behind a request": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHo",
               "a body that never comes": b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n" + key + b"Content-Length: 9\r\n\r\n",
               "nothing": b""}

    def attack(stage, data):
        """How often a good client is answered meanwhile, of 10 tries, and the time of the slowest."""
        socks, good, slowest = [], 0, 0
        try:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    sock = socket.create_connection(("127.0.0.1", stage.cove.port), timeout=5)
                    socks.append(sock)
                    sock.sendall(data)
            for _ in range(10):
                begin = time.monotonic()
                with contextlib.suppress(OSError):
                    good += stage.cove.get("/v1/health").status == 200
                slowest = max(slowest, time.monotonic() - begin)
        finally:
            for sock in socks:
                sock.close()
        return good, slowest
    few = "export COVE_CONNS_MAX=256"
    stage.control_weak("heads", lambda weak: attack(weak, attacks["half a head"]), lambda got: got[0] < 10, before=few)
    with stage.weakened("", before=few, binary=stage.cove.binary) as strong:
        for what, data in attacks.items():
            good, slowest = attack(strong, data)
            c.ok(good == 10 and slowest < 0.5 * PATIENCE, "A-02: " + what, good, slowest)


@row("A-03", "a reader that never reads slows nobody and costs little")
def never_reads(stage):
    box = stage.box(limits={"outputMB": 8, "wallTimeMs": 20000})
    daemon = stage.cove.children()["daemon"]
    before = rss(daemon)
    body = json.dumps({"command": "timeout 3 yes"}).encode()
    socks = []
    for _ in range(4):
        sock = socket.create_connection(("127.0.0.1", stage.cove.port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"POST /v1/sandboxes/%s/api/execute/stream HTTP/1.1\r\nHost: localhost:%d\r\n"
                     b"Authorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                     % (box["id"].encode(), stage.cove.port, stage.cove.key.encode(), len(body), body))
        socks.append(sock)
    time.sleep(4)
    grown = rss(daemon) - before
    c.ok(grown < 4 * 1024 + 4096, "A-03: about a MiB a stream at most", grown)
    c.same(stage.cove.out(box, "echo ok"), "ok\n", "A-03: the box serves others meanwhile")
    for sock in socks:
        sock.close()
    stage.no_control("what a reader does not take stays in a file: there is no buffer in memory whose bound could be off")


@row("A-05", "hostile JSON is refused at once")
def json_bombs(stage):
    bodies = {
        "nesting": b"[" * 100000, "nested objects": b'{"a":' * 50000, "garbage": b"{]", "trailing": b"{} x",
        "duplicate keys": b'{"name":"a","name":"b"}', "huge number": b'{"limits":{"memoryMB":1e308}}',
        "big int": b'{"limits":{"memoryMB":123456789012345678901234567890}}',
        "lone surrogate": b'{"name":"\\ud800"}', "NUL": b'{"name":"a\\u0000b"}', "bad UTF-8": b'{"name":"\xff"}',
        "not an object": b"[]", "a string": b'"x"', "empty": b"", "NaN": b'{"limits":{"cpus":NaN}}',
        "comment": b"{/* */}", "single quotes": b"{'name':'x'}", "unknown field": b'{"nmae":"x"}',
        "wrong type": b'{"name":5}', "negative": b'{"limits":{"memoryMB":-1}}', "float": b'{"limits":{"pids":1.5}}',
        "zero": b'{"limits":{"pids":0}}', "labels list": b'{"labels":[1]}', "env number": b'{"env":{"A":1}}',
        "env name": b'{"env":{"A=B":"x"}}', "template path": b'{"template":"../../etc"}',
        "name with newline": b'{"name":"a\\nFAKE"}', "name with dots": b'{"name":"../x"}',
        "name of an id": b'{"name":"box-000000000000000000000000000000000000000000000000"}',
    }
    for what, body in bodies.items():
        begin = time.monotonic()
        reply = stage.cove.request("POST", "/v1/sandboxes", body, headers={"Content-Type": "application/json"}, raw=True)
        took = time.monotonic() - begin
        good = what == "empty" and reply.status == 201
        if good:
            stage.boxes.append(reply.json)
        c.ok(good or reply.status in (400, 404, 413) and took < 0.4 * PATIENCE,
             "A-05: %s gets %d" % (what, reply.status), reply, took)
        if reply.status >= 400:
            answer = reply.json
            c.ok(answer.get("httpStatus") == reply.status and answer.get("message") and "context" in answer,
                 "A-05: %s has the one error shape" % what, answer)
    def promise(stage):
        return raw(stage, b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost:%d\r\nAuthorization: Bearer %s\r\n"
                   b"Content-Type: application/json\r\nContent-Length: 104857600\r\n\r\n{" %
                   (stage.cove.port, stage.cove.key.encode()), 1)
    stage.control_weak("body_size", promise, lambda reply: reply == b"")  # it waits for the rest
    reply = promise(stage)
    c.ok(b" 413 " in reply.split(b"\r\n")[0], "A-05: 100 MiB is refused before it is sent", reply[:200])
    good = {"name": "a", "env": {"A": "x"}, "labels": {"k": "1"}, "limits": {"memoryMB": 64, "pids": 8, "cpus": 0.5}}
    reply = stage.cove.post("/v1/sandboxes", good)
    stage.twin(reply.status == 201, "a body with the same fields and honest values is taken", reply)
    if reply.status == 201:
        stage.boxes.append(reply.json)


@row("A-07", "one request is one reply, and doubt is refused")
def smuggling(stage):
    host = b"Host: localhost:%d\r\n" % stage.cove.port
    get = b"GET /v1/health HTTP/1.1\r\n" + host
    bad = [
        get + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        get + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", get + b"Content-Length: +5\r\n\r\nhello",
        get + b"Content-Length: 5, 5\r\n\r\nhello", get + b"Content-Length: 0x5\r\n\r\nhello", get + b"Content-Length: -1\r\n\r\n",
        get + b"Content-Length: \r\n\r\n", get + b"Content-Length: 5 5\r\n\r\nhello",
        get + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        get + b"Transfer-Encoding: xchunked\r\n\r\n", get + b"Transfer-Encoding: chunked, identity\r\n\r\n",
        get + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        get + b"Transfer-Encoding\x0b: chunked\r\n\r\n", get + b"X : y\r\n\r\n", get + b" folded\r\n\r\n", get + b"X: a\r\n b\r\n\r\n",
        get + b"X: a\rb\r\n\r\n", get + b"X: a\nY: b\r\n\r\n", get + b"X: a\x00b\r\n\r\n", get + b": empty\r\n\r\n", get + b"NoColon\r\n\r\n",
        get + b"Host: other\r\n\r\n", b"GET /v1/health HTTP/1.1\r\n\r\n", b"GET /v1/health HTTP/2.0\r\n" + host + b"\r\n",
        b"GET /v1/health HTTP/1.1 \r\n" + host + b"\r\n", b"GET  /v1/health HTTP/1.1\r\n" + host + b"\r\n", b"GET\t/v1/health HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /v1/he alth HTTP/1.1\r\n" + host + b"\r\n", b"GET /\x00 HTTP/1.1\r\n" + host + b"\r\n", b"GET /\xff HTTP/1.1\r\n" + host + b"\r\n",
        b"G@T / HTTP/1.1\r\n" + host + b"\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
        b"GET http://evil.test/ HTTP/1.1\r\n" + host + b"\r\n", b"CONNECT evil.test:443 HTTP/1.1\r\n" + host + b"\r\n",
        get + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n", get + b"".join(b"X%d: y\r\n" % i for i in range(10000)) + b"\r\n",
        b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + host + b"\r\n",
        get + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", get + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n\r\n",
        get + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n", get + b"Transfer-Encoding: chunked\r\n\r\n5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
        get + b"Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
    ]
    second = b"GET /v1/smuggled HTTP/1.1\r\n" + host + b"\r\n"
    for n, request in enumerate(bad):
        got = raw(stage, request + second, 3)
        replies = got.count(b"HTTP/1.1 ")
        refused = got.split(b" ")[1:2] in ([b"400"], [b"431"], [b"413"], [b"404"], [b"405"], [b"421"], [b"505"])
        c.ok(replies == 1 and refused and b"smuggled" not in got.split(b"\r\n\r\n", 1)[-1].split(b"HTTP/1.1")[0:1][0] or
             (replies == 1 and got.startswith(b"HTTP/1.1 200") and b"chunked" in request),
             "A-07: corpus %d is one reply and the end" % n, request[:120], got[:300])
    many = (get + b"\r\n") * 1000
    got = raw(stage, many, 10, shut=True)
    c.same(got.count(b"HTTP/1.1 200"), 1000, "A-07: a thousand pipelined requests are a thousand replies")
    honest = get + b"Transfer-Encoding: chunked\r\nX: y\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\n\r\n"
    got = raw(stage, honest + second, 3, shut=True)
    stage.twin(got.count(b"HTTP/1.1 ") == 2 and got.startswith(b"HTTP/1.1 200"), "an honest one is served, and so is the next", got[:300])


@row("A-09", "a wrong key tells nothing by its time")
def timing(stage):
    right = stage.cove.key
    wrong = {"first": ("x" if right[5] != "x" else "y").join([right[:5], right[6:]]), "last": right[:-1] + ("0" if right[-1] != "0" else "1")}
    times = {name: [] for name in wrong}
    sock = socket.create_connection(("127.0.0.1", stage.cove.port))
    for i in range(400 if c.SHORT else 3000):
        name = ("first", "last")[i % 2]
        begin = time.perf_counter()
        sock.sendall(b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost:%d\r\nAuthorization: Bearer %s\r\n\r\n" %
                     (stage.cove.port, wrong[name].encode()))
        got = b""
        while b"\r\n\r\n" not in got:
            got += sock.recv(65536)
        times[name].append(time.perf_counter() - begin)
        if b" 401 " not in got and b" 429 " not in got:
            c.ok(False, "A-09: a wrong key is 401", got)
            return
    sock.close()
    cut = {k: sorted(v)[: int(len(v) * 0.9)] for k, v in times.items()}
    spread = [statistics.pvariance(v) / len(v) for v in cut.values()]
    welch = abs(statistics.mean(cut["first"]) - statistics.mean(cut["last"])) / (sum(spread) ** 0.5)
    c.ok(welch < 22.5, "A-09: no difference beyond noise", welch)
    c.same(stage.cove.get("/v1/sandboxes").status, 200, "A-09: the right key still passes")
    stage.no_control("hashes are compared, so that no way of comparing could tell anything of the key")


@row("A-13", "neither a foreign Host nor a foreign page gets through")
def rebinding(stage):
    def asks(stage, **headers):
        return stage.cove.get("/v1/sandboxes", headers=headers).status
    stage.control_weak("host", lambda stage: asks(stage, Host="attacker.test"), lambda status: status == 200)
    stage.control_weak("origin", lambda stage: asks(stage, Origin="http://attacker.test"), lambda status: status == 200)
    for host in ("attacker.test", "attacker.test:%d" % stage.cove.port, "127.0.0.1.attacker.test", "localhost.attacker.test", ""):
        c.same(stage.cove.get("/v1/sandboxes", headers={"Host": host}).status in (400, 421), True, "A-13: Host %r" % host)
    for origin in ("null", "http://attacker.test", "https://localhost.attacker.test"):
        c.same(stage.cove.get("/v1/sandboxes", headers={"Origin": origin}).status, 403, "A-13: Origin %r" % origin)
    c.same(stage.cove.get("/v1/sandboxes", key=False).status, 401, "A-13: no key, no answer")
    c.same(stage.cove.request("POST", "/v1/sandboxes", b"name=x", headers={"Content-Type": "application/x-www-form-urlencoded"}, raw=True).status,
           400, "A-13: a form is not JSON")
    reply = stage.cove.request("OPTIONS", "/v1/sandboxes", headers={"Origin": "http://attacker.test"})
    c.ok("access-control-allow-origin" not in {k.lower() for k in reply.headers.keys()}, "A-13: no CORS")


@row("A-31", "a local user who is not of the group reaches nothing by the socket of those who are")
def local_socket(stage):
    script = ("import errno, socket, sys\n"
              "s = socket.socket(socket.AF_UNIX)\n"
              "n = s.connect_ex(sys.argv[1])\n"
              "print(errno.errorcode[n] if n else (s.sendall(b'GET /v1/sandboxes HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'),"
              " s.recv(100).split()[1].decode())[1])")

    def asks(stage, *groups):
        path = open(os.path.join(stage.cove.data, "socket")).read().strip()
        return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", *(groups or ("--clear-groups",)), "/usr/bin/python3", "-c", script, path],
                              cwd="/", stdout=subprocess.PIPE, text=True, timeout=30).stdout.strip()

    stage.control_weak("users_socket", asks, lambda got: got == "200")
    c.same(asks(stage), "EACCES", "A-31: the kernel refuses a stranger")
    c.same(asks(stage, "--groups=100"), "200", "A-31: a member is let in")


@row("A-15", "the log is one JSON line per event, whatever is sent")
def log_injection(stage):
    evil = "a\nFAKE {\"level\":\"error\"}\x1b[31m%n%s"

    def attack(stage):
        """The lines of the log that are no JSON, or none of ours."""
        raw(stage, b"GET /v1/sandboxes/%s HTTP/1.1\r\nHost: localhost:%d\r\nUser-Agent: " % (b"x%0aFAKE", stage.cove.port) + b"u" * 20000 +
            b"\r\nAuthorization: Bearer " + stage.cove.key.encode() + b"\r\n\r\n", 1)
        stage.cove.post("/v1/sandboxes", {"name": evil})
        stage.cove.get("/v1/health", headers={"X-Trace-Id": "x\x1b[31m"})
        stage.cove.get("/v1/sandboxes/x%22%2c%22level%22%3a%22FAKE")
        stage.cove.get('/v1/sandboxes/x"y\\z')
        bad = []
        for line in stage.cove.log_text().splitlines():
            try:
                if line.startswith("{"):
                    json.loads(line)
                elif "FAKE" in line:
                    bad.append(line)
            except ValueError:
                bad.append(line)
        return bad
    stage.control_weak("log_escape", attack, lambda bad: bad)
    c.same(attack(stage), [], "A-15: every line parses, none is forged")


@row("A-17", "no field meets a shell")
def injection(stage):
    box = stage.box()
    mark = "/tmp/cove-pwn-%d" % os.getpid()
    for word in (";touch %s", "$(touch %s)", "`touch %s`", "-o %s", "\ntouch %s", "|touch %s"):
        word = word % mark
        for spec in ({"template": word}, {"name": word}, {"env": {word: "x"}}, {"labels": {"k": word}}, {"hostname": word}):
            reply = stage.cove.post("/v1/sandboxes", spec)
            if reply.status == 201:
                stage.boxes.append(reply.json)
        for fields in ({"user": word}, {"cwd": word}, {"env": {word: "x"}}, {"env": {"X": word}}):
            stage.cove.execute(box, ["true"], **fields)
    c.ok(not os.path.exists(mark), "A-17: nothing ran on the host")
    c.same(stage.cove.out(box, ["sh", "-c", "ls %s 2>/dev/null; true" % mark]), "", "A-17: nor in the box")
    stage.no_control("no shell is ever started outside of a box, so there is none that could be let in")


@row("A-23", "a flood of connections is refused, and passes")
def fd_flood(stage):
    def flood(stage, most):
        """How much of its descriptors the daemon has used, and whether it serves another client meanwhile."""
        socks = []
        daemon = stage.cove.children()["daemon"]
        for _ in range(most):
            sock = socket.socket()
            sock.settimeout(2)
            socks.append(sock)
            try:
                sock.connect(("127.0.0.1", stage.cove.port))
            except OSError:
                break
        limit = int([l for l in open("/proc/%d/limits" % daemon) if "open files" in l][0].split()[3])
        c.until(lambda: len(os.listdir("/proc/%d/fd" % daemon)) >= limit - 2, 3)
        fds = len(os.listdir("/proc/%d/fd" % daemon))
        try:
            served = stage.cove.get("/v1/health", timeout=2).status == 200
        except OSError:
            served = False
        for sock in socks:
            sock.close()
        return fds / limit, served
    few = "ulimit -n 1100; exec setpriv --bounding-set -sys_resource %s \"$@\""  # or the supervisor would raise it
    stage.control_weak("conns,heads", lambda weak: flood(weak, 1300), lambda got: got[0] > 0.95 and not got[1], before=few % WEAK)
    with stage.weakened("", before=few % stage.cove.binary, binary=stage.cove.binary) as strong:
        used, served = flood(strong, 1300)
        c.ok(used < 0.6 and served, "A-23: with as few, others are served", used, served)
    used, _ = flood(stage, 400 if c.SHORT else 6000)
    c.ok(used < 0.95, "A-23: fds are kept in reserve", used)
    c.ok(c.until(lambda: stage.cove.get("/v1/health").status == 200), "A-23: it recovers")


@row("A-21", "a thousand creates at once with one name make one box")
def race(stage):
    statuses, made = [], []

    def work():
        reply = stage.cove.request("PUT", "/v1/sandboxes/contested", {})
        statuses.append(reply.status)
        made.append(reply.json.get("id"))
    threads = [threading.Thread(target=work) for _ in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    stage.boxes.append("contested")
    apart = []
    threads = [threading.Thread(target=lambda n=n: apart.append(stage.cove.request("PUT", "/v1/sandboxes/apart%d" % n, {})))
               for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    stage.boxes += ["apart%d" % n for n in range(6)]
    stage.twin(len({reply.json.get("id") for reply in apart}) == 6, "six names at once make six boxes", apart)
    c.same((statuses.count(201), statuses.count(200), len(set(made))), (1, 39, 1), "A-21: exactly one was made")


play()
