#!/usr/bin/env python3
"""Group A: strangers, tenants and web pages at the API's door."""
import json
import os
import socket
import statistics
import threading
import time

from rows import c, PATIENCE, play, row


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
    return int([l for l in open("/proc/%d/status" % pid) if l.startswith("VmRSS")][0].split()[1])


@row("A-01", "slow heads are cut off, and a healthy client does not notice")
def slow_loris(stage):
    socks = []
    for _ in range(200 if c.SHORT else 600):
        sock = socket.create_connection(("127.0.0.1", stage.cove.port))
        sock.sendall(b"GET /v1/health HTTP/1.1\r\nHost: loc")
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
    stage.no_control("a deadline that is switched off shows nothing within a test's time")


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
    stage.no_control("without the bound the daemon's memory would be the victim")


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
        c.ok((reply.status in (400, 404, 413) or good) and took < 0.05 * PATIENCE,
             "A-05: %s gets %d" % (what, reply.status), reply, took)
        if reply.status >= 400:
            answer = reply.json
            c.ok(answer.get("httpStatus") == reply.status and answer.get("message") and "context" in answer,
                 "A-05: %s has the one error shape" % what, answer)
    reply = raw(stage, b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost:%d\r\nAuthorization: Bearer %s\r\n"
                b"Content-Type: application/json\r\nContent-Length: 104857600\r\n\r\n{" %
                (stage.cove.port, stage.cove.key.encode()))
    c.ok(b" 413 " in reply.split(b"\r\n")[0], "A-05: 100 MiB is refused before it is sent", reply[:200])
    stage.no_control("a parser's refusal has no defence to switch off")


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
    stage.no_control("a grammar has no defence to switch off")


@row("A-09", "a wrong key tells nothing by its time")
def timing(stage):
    right = stage.cove.key
    wrong = {"first": ("x" if right[5] != "x" else "y").join([right[:5], right[6:]]), "last": right[:-1] + ("0" if right[-1] != "0" else "1")}
    times = {name: [] for name in wrong}
    sock = socket.create_connection(("127.0.0.1", stage.cove.port))
    for i in range(600 if c.SHORT else 3000):
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
    c.ok(welch < 4.5 * PATIENCE, "A-09: no difference beyond noise", welch)
    c.same(stage.cove.get("/v1/sandboxes").status, 200, "A-09: the right key still passes")
    stage.no_control("a comparison that leaks is not built, so cannot be switched on")


@row("A-13", "neither a foreign Host nor a foreign page gets through")
def rebinding(stage):
    for host in ("attacker.test", "attacker.test:%d" % stage.cove.port, "127.0.0.1.attacker.test", "localhost.attacker.test", ""):
        c.same(stage.cove.get("/v1/sandboxes", headers={"Host": host}).status in (400, 421), True, "A-13: Host %r" % host)
    for origin in ("null", "http://attacker.test", "https://localhost.attacker.test"):
        c.same(stage.cove.get("/v1/sandboxes", headers={"Origin": origin}).status, 403, "A-13: Origin %r" % origin)
    c.same(stage.cove.get("/v1/sandboxes", key=False).status, 401, "A-13: no key, no answer")
    c.same(stage.cove.request("POST", "/v1/sandboxes", b"name=x", headers={"Content-Type": "application/x-www-form-urlencoded"}, raw=True).status,
           400, "A-13: a form is not JSON")
    reply = stage.cove.request("OPTIONS", "/v1/sandboxes", headers={"Origin": "http://attacker.test"})
    c.ok("access-control-allow-origin" not in {k.lower() for k in reply.headers.keys()}, "A-13: no CORS")
    stage.no_control("a check of a header has no defence to switch off")


@row("A-15", "the log is one JSON line per event, whatever is sent")
def log_injection(stage):
    evil = "a\nFAKE {\"level\":\"error\"}\x1b[31m%n%s"
    raw(stage, b"GET /v1/sandboxes/%s HTTP/1.1\r\nHost: localhost:%d\r\nUser-Agent: " % (b"x%0aFAKE", stage.cove.port) + b"u" * 20000 +
        b"\r\nAuthorization: Bearer " + stage.cove.key.encode() + b"\r\n\r\n", 1)
    stage.cove.post("/v1/sandboxes", {"name": evil})
    stage.cove.get("/v1/health", headers={"X-Trace-Id": "x\x1b[31m"})
    for line in stage.cove.log_text().splitlines():
        if not line.startswith("{"):
            continue
        try:
            json.loads(line)
        except ValueError:
            c.ok(False, "A-15: every line parses", line)
            break
    else:
        c.ok("\nFAKE" not in stage.cove.log_text(), "A-15: every line parses, none is forged")
    stage.no_control("an encoder has no defence to switch off")


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
    stage.no_control("there is no shell to switch on")


@row("A-23", "a flood of connections is refused, and passes")
def fd_flood(stage):
    socks, refused = [], 0
    daemon = stage.cove.children()["daemon"]
    for _ in range(1000 if c.SHORT else 6000):
        try:
            sock = socket.socket()
            sock.settimeout(2)
            sock.connect(("127.0.0.1", stage.cove.port))
            socks.append(sock)
        except OSError:
            refused += 1
            sock.close()
            break
    fds = len(os.listdir("/proc/%d/fd" % daemon))
    limit = [l for l in open("/proc/%d/limits" % daemon) if "open files" in l][0].split()[3]
    c.ok(fds < int(limit) * 0.95, "A-23: fds are kept in reserve", fds, limit)
    for sock in socks:
        sock.close()
    c.ok(c.until(lambda: stage.cove.get("/v1/health").status == 200, 10), "A-23: it recovers")
    stage.no_control("a cap that is off would only take longer to reach")


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
    c.same((statuses.count(201), statuses.count(200), len(set(made))), (1, 39, 1), "A-21: exactly one was made")
    stage.no_control("a race has no defence to switch off")


play()
