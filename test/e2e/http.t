#!/usr/bin/env python3
"""The door: who may come in, by which name, with what; and every kind of bad input, which gets a
clear error and leaves nothing behind."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def explains(reply, status, reason, name):
    """An error in the shape of docs/SPECIFICATION.md."""
    try:
        body = reply.json
    except ValueError:
        return c.ok(False, name, reply)
    return c.ok(reply.status == status and body["httpStatus"] == status and
                body["reason"] == reason and body["code"].isupper() and body["message"] and
                isinstance(body["context"], dict) and body["timestamp"].endswith("Z") and
                isinstance(body["retryable"], bool) and body["requestId"], name, reply)


def keys(cove):
    health = cove.get("/v1/health", key=False)
    c.same(sorted(health.json), ["status", "version"], "without a key health tells little")
    health = cove.get("/v1/health").json
    c.ok(health["warden"] and health["boxes"]["total"] == 0 and health["host"]["cgroup"] and
         health["loop"]["turns"] > 0, "with the key it tells more", health)
    c.ok(cove.key.startswith("cove_") and len(cove.key) == 69, "the key has 256 bits")
    mode = os.stat(os.path.join(cove.data, "operator.key")).st_mode & 0o777
    c.same(mode, 0o600, "and only root reads it")
    reply = cove.get("/v1/sandboxes", key=False)
    explains(reply, 401, "no_token", "no token is 401")
    c.ok(reply.headers["WWW-Authenticate"].startswith("Bearer"), "with a challenge")
    explains(cove.get("/v1/sandboxes", key="cove_" + "0" * 64), 401, "bad_token",
             "a wrong token is 401")
    explains(cove.get("/v1/sandboxes", key=cove.key[:-1]), 401, "bad_token", "a shorter one too")
    explains(cove.get("/v1/nothing", key=False), 401, "no_token",
             "without a token nobody learns which routes exist")
    for _ in range(30):
        last = cove.get("/v1/sandboxes", key="wrong")
    c.same(last.status, 429, "guessing is slowed down")
    c.same(cove.get("/v1/sandboxes").status, 200, "while the right token passes")
    c.ok('"failed_bearer"' in cove.log_text(), "and the log tells of it")


def names(cove):
    here = "127.0.0.1:%d" % cove.port
    for host in (here, "localhost:%d" % cove.port, "[::1]:%d" % cove.port, "box.example:99"):
        c.same(cove.get("/v1/health", headers={"Host": host}).status, 200, "Host %s is ours" % host)
    for host in ("attacker.test", "127.0.0.1:1", "127.0.0.1", "localhost.attacker.test:%d" %
                 cove.port):
        explains(cove.get("/v1/health", headers={"Host": host}), 421, "wrong_host",
                 "Host '%s' is not" % host)
    for origin in ("http://attacker.test", "null", "http://%s.attacker.test" % here):
        explains(cove.get("/v1/sandboxes", headers={"Origin": origin}), 403, "wrong_origin",
                 "Origin %s is refused" % origin)
    c.same(cove.get("/v1/sandboxes", headers={"Origin": "http://" + here}).status, 200,
           "our own Origin is not")
    reply = cove.get("/v1/health", headers={"X-Request-Id": "abc-1", "X-Trace-Id": "t-2"})
    c.same((reply.headers["X-Request-Id"], reply.headers["X-Trace-Id"]), ("abc-1", "t-2"),
           "request id and trace id are repeated")
    reply = cove.get("/v1/none", headers={"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"})
    c.same(reply.headers["X-Trace-Id"], "a" * 32, "a traceparent is understood")
    c.ok("Access-Control-Allow-Origin" not in reply.headers, "there is no CORS")


def routes(cove):
    explains(cove.get("/v1/none"), 404, "no_route", "an unknown path is 404")
    explains(cove.request("PATCH", "/v1/sandboxes"), 405, "bad_method", "an unknown method is 405")
    explains(cove.get("/v1/sandboxes/box-" + "0" * 48), 404, "no_sandbox", "an absent id is 404")
    explains(cove.get("/v1/sandboxes/" + "0" * 12), 404, "no_sandbox", "an absent short id too")
    explains(cove.get("/v1/sandboxes/nobody"), 404, "no_sandbox", "an absent name too")
    for bad in ("box-xyz", "UPPER", "-a", "a" * 80, "%00", "a%0aFAKE", "..%2f..", "box-" + "0" * 47):
        reply = cove.get("/v1/sandboxes/" + bad)
        c.ok(reply.status in (400, 404) and reply.json["hint" if reply.status == 400 else "code"],
             "the malformed id %s is refused" % bad, reply)
    explains(cove.execute("box-" + "0" * 48, "true"), 404, "no_sandbox",
             "a command in an absent sandbox is 404")


def bodies(cove):
    def create(body, kind="application/json"):
        return cove.request("POST", "/v1/sandboxes", body, headers={"Content-Type": kind})
    for text in ("{", "nonsense", "{\"a\":1,\"a\":2}", "[" * 100000, "{\"name\":\"a\\u0000\"}",
                 "{\"name\":\"\ud800\"}".encode("utf-8", "surrogatepass"), b"\xff\xfe", "{} {}",
                 "{\"limits\":{\"pids\":1e308}}", "{\"limits\":{\"pids\":1e999}}", "NaN"):
        begin = time.monotonic()
        reply = create(text)
        c.ok(reply.status == 400 and time.monotonic() - begin < 20,
             "the body %.30r is refused" % (text,), reply)
    explains(create("{}", "text/plain"), 400, "bad_content_type", "a body must say it is JSON")
    explains(create("a=b", "application/x-www-form-urlencoded"), 400, "bad_content_type",
             "a form is refused")
    explains(create("{\"name\":\"%s\"}" % ("x" * (2 << 20))), 413, "body_too_large",
             "a body of 2 MiB is too large")
    explains(create(json.dumps({"colour": "red"})), 400, "unknown_field",
             "an unknown field is refused")
    explains(create(json.dumps({"template": "no-such"})), 404, "no_template",
             "an unknown template is 404")
    for limits in ({"memoryMB": 1}, {"memoryMB": 1 << 40}, {"cpus": 0}, {"cpus": 4096}, {"pids": 1},
                   {"pids": 1 << 20}, {"diskMB": 1}, {"outputMB": 0}, {"outputMB": 4096},
                   {"wallTimeMs": 0}, {"memoryMB": "64"}, {"memoryMB": 64.5}):
        explains(create(json.dumps({"limits": limits})), 400, "bad_field",
                 "limits %r are refused" % limits)
    for field in ({"ttl": -1}, {"ttl": "soon"}, {"network": {"mode": "some"}}, {"network": {"allow": ["a b"]}}):
        explains(create(json.dumps(field)), 400, "bad_field", "%r is refused" % field)
    for name in ("A", "a b", "a\nFAKE", "x" * 63, "-a", "", "0123456789ab", "$(id)", ";id>/tmp/pwn"):
        explains(create(json.dumps({"name": name})), 400, "bad_name", "the name %r is refused" % name)
    c.same(cove.get("/v1/sandboxes").json["items"], [], "and no sandbox was made")


def heads(cove):
    here = b"Host: 127.0.0.1:%d\r\n" % cove.port
    reply = cove.raw(b"GET /v1/health HTTP/1.1\r\n" + here + b"X: " + b"a" * 102400 + b"\r\n\r\n")
    c.ok(reply.startswith(b"HTTP/1.1 431"), "a head of 100 KiB is 431", reply[:300])
    bad = {
        "length and chunks": here + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        "two lengths": here + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "a signed length": here + b"Content-Length: +2\r\n\r\n{}",
        "a blank before a colon": here + b"X : 1\r\n\r\n",
        "a folded line": here + b"X: 1\r\n 2\r\n\r\n",
        "a bare newline": here.replace(b"\r", b"") + b"\n",
        "a NUL": here + b"X: \0\r\n\r\n",
        "two hosts": here + here + b"\r\n",
    }
    for name, text in bad.items():
        reply = cove.raw(b"POST /v1/sandboxes HTTP/1.1\r\n" + text)
        c.ok(reply.startswith(b"HTTP/1.1 400") and reply.count(b"HTTP/1.1 ") == 1,
             name + " is 400 and the end", reply[:300])
    c.ok(cove.raw(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400"), "nonsense is 400")
    one = b"GET /v1/health HTTP/1.1\r\n" + here + b"\r\n"
    last = b"GET /v1/health HTTP/1.1\r\n" + here + b"Connection: close\r\n\r\n"
    c.same(cove.raw(one * 99 + last).count(b"HTTP/1.1 200"), 100, "a hundred pipelined, a hundred replies")


def logs(cove):
    cove.get("/v1/sandboxes/a%0aFAKE%1b[31m", headers={"User-Agent": "x\x1b[31m" + "y" * 5000})
    broken = []
    for line in cove.log_text().splitlines():
        try:
            json.loads(line)
        except ValueError:
            broken.append(line)
    c.same(broken, [], "every line of the log is one JSON object")
    c.ok(cove.key not in cove.log_text(), "and the key is in none")


c.need_root()
cove = c.Cove("--hosts", "box.example")
cove.delete(cove.create())
before = c.calm(cove)
for part in (keys, names, routes, bodies, heads, logs):
    part(cove)
c.same(c.settled(before, cove), {}, "the census is as before")
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
