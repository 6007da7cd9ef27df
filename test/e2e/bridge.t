#!/usr/bin/env python3
"""The bridge: many sandboxes by REST, compatible with Cloudflare's."""
import base64
import http.client
import io
import json
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import wsclient  # noqa: E402


def says(reply, status, code, name):
    return c.ok(reply.status == status and reply.json["code"] == code and reply.json["error"], name,
                reply)


def run(cove, room, argv, headers=None, **fields):
    """Output and end of a command: {stdout, stderr, exit} or {error}; a Reply when refused."""
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=60)
    head = {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"}
    conn.request("POST", "/v1/sandbox/%s/exec" % room, json.dumps(dict(fields, argv=argv)),
                 dict(head, **(headers or {})))
    answer = conn.getresponse()
    if answer.status != 200:
        return c.Reply(answer.status, answer.headers, answer.read())
    got = {"stdout": b"", "stderr": b"", "events": 0, "type": answer.headers["Content-Type"]}
    event = None
    for line in answer:
        line = line.rstrip(b"\n")
        if line.startswith(b"event: "):
            event = line[7:].decode()
        elif line.startswith(b"data: "):
            got["events"] += 1
            if event in ("stdout", "stderr"):
                got[event] += base64.b64decode(line[6:], validate=True)
            else:
                got[event] = json.loads(line[6:])
    conn.close()
    return got


def ids(cove):
    reply = cove.get("/health", key=False)
    c.ok(reply.status == 200 and reply.json == {"ok": True}, "anybody learns that it is well", reply)
    says(cove.post("/v1/sandbox", key=False), 401, "unauthorized", "all else needs the key")
    reply = cove.post("/v1/sandbox")
    room = reply.json["id"]
    c.ok(reply.status == 200 and len(room) == 26 and set(room) <= set("abcdefghijklmnopqrstuvwxyz234567"),
         "an id is 26 characters of base32", reply)
    path = "/v1/sandbox/" + room
    c.same(cove.get(path + "/running").json, {"running": False}, "nothing runs behind a new id")
    c.same(cove.request("DELETE", path).status, 204, "deleting nothing is 204")
    nobody = "/v1/sandbox/" + "a" * 26  # it looks like a short id, and so is nobody's name
    c.same(cove.get(nobody + "/running").json, {"running": False}, "nothing runs behind any other")
    c.same(cove.request("DELETE", nobody).status, 204, "nor is there anything to delete")
    for bad in ("A", "a1", "a-b", "..", "x" * 63):
        says(cove.get("/v1/sandbox/%s/running" % bad), 400, "invalid_request",
             "%s is no id" % bad)
    return room


def commands(cove, room):
    path = "/v1/sandbox/" + room
    got = run(cove, room, ["sh", "-c", "printf 'a\\0\\377'; echo oops >&2; exit 3"])
    c.ok(got["stdout"] == b"a\0\xff" and got["stderr"] == b"oops\n" and
         got.get("exit") == {"exit_code": 3} and got["type"] == "text/event-stream",
         "a command's bytes and its end come as events", got)
    c.same(cove.get(path + "/running").json, {"running": True}, "the sandbox was made on first use")
    c.same(cove.get("/v1/sandboxes/" + room).json["name"], room, "and is one like all others")
    got = run(cove, room, ["printf", "%s|", "a b", "$HOME", "it's", "*", ""])
    c.same(got["stdout"], b"a b|$HOME|it's|*||", "words are passed as they are")
    c.same(run(cove, room, ["no-such-program"]).get("exit"), {"exit_code": 127},
           "a program that is not there is 127")
    c.same(run(cove, room, ["pwd"])["stdout"], b"/workspace\n", "a command starts in the workspace")
    run(cove, room, ["mkdir", "-p", "sub"])
    c.same(run(cove, room, ["pwd"], cwd="sub/../sub")["stdout"], b"/workspace/sub\n",
           "or beneath it")
    says(run(cove, room, ["pwd"], cwd="/etc"), 403, "invalid_request", "not elsewhere")
    says(run(cove, room, ["pwd"], cwd="../etc"), 403, "invalid_request", "by dots neither")
    got = run(cove, room, ["sleep", "30"], timeout_ms=300)
    c.ok(got.get("exit", {}).get("exit_code") not in (0, None) or "error" in got,
         "a time-out ends it", got)
    for bad in ([], None, "ls", [1], [["a"]]):
        says(run(cove, room, bad), 400, "invalid_request", "argv %r is refused" % (bad,))
    says(cove.post(path + "/exec", "{", headers={"Content-Type": "application/json"}), 400,
         "invalid_request", "and so is what is no JSON")
    got = run(cove, room, ["seq", "1", "20000"])
    c.same(got["stdout"], b"".join(b"%d\n" % n for n in range(1, 20001)), "every byte comes")


def sessions(cove, room):
    path = "/v1/sandbox/" + room
    made = cove.post(path + "/session", {"id": "s.1", "env": {"WHO": "me"}, "cwd": "/workspace/sub"})
    c.same(made.json, {"id": "s.1"}, "a session is made")
    got = run(cove, room, ["sh", "-c", "echo $WHO; pwd"], headers={"Session-Id": "s.1"})
    c.same(got["stdout"], b"me\n/workspace/sub\n", "commands run in it")
    c.same(run(cove, room, ["sh", "-c", "echo \"<$WHO>\""])["stdout"], b"<>\n", "or in none")
    says(cove.post(path + "/session", {"id": "a b"}), 400, "invalid_request", "a bad name is refused")
    says(cove.post(path + "/session", {"id": "out", "cwd": "/workspace/../etc"}), 403,
         "invalid_request", "and so is a place outside of the workspace")
    says(run(cove, room, ["ls"], headers={"Session-Id": "../x"}), 400, "invalid_request",
         "in the header, too")
    ended = cove.request("DELETE", path + "/session/s.1")
    c.ok(ended.status == 200 and ended.json["success"] and ended.json["sessionId"] == "s.1",
         "a session is ended", ended)


def files(cove, room):
    path = "/v1/sandbox/%s/file/" % room
    data = os.urandom(300000)
    raw = {"Content-Type": "application/octet-stream"}
    reply = cove.request("PUT", path + "workspace/a%20dir/b.bin", data, headers=raw, raw=True)
    c.ok(reply.status == 200 and reply.json == {"ok": True}, "a file is written", reply)
    reply = cove.get(path + "workspace/a%20dir/b.bin")
    c.ok(reply.status == 200 and reply.body == data, "and read", reply.status)
    c.same(run(cove, room, ["wc", "-c", "a dir/b.bin"])["stdout"], b"300000 a dir/b.bin\n",
           "the file is in the workspace")
    reply = cove.request("PUT", path + "workspace/empty", b"", headers=raw, raw=True)
    c.same(cove.get(path + "workspace/empty").body, b"", "an empty one, too")
    says(cove.get(path + "workspace/none"), 404, "workspace_read_not_found", "an absent one is 404")
    for outside in ("etc/passwd", "workspace/../etc/passwd", "workspace/%2e%2e/etc/passwd"):
        says(cove.get(path + outside), 403, "invalid_request", "%s is refused" % outside)
        says(cove.request("PUT", path + outside, b"x", headers=raw, raw=True), 403, "invalid_request",
             "also for writing")
    head = "PUT %sworkspace/empty HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n" % (
        path, cove.port, cove.key)
    reply = cove.raw((head + "Content-Length: %d\r\n\r\n" % (33 << 20)).encode(), seconds=4)
    c.ok(b" 413 " in reply and b"payload_too_large" in reply, "more than 32 MiB is too large", reply)
    chunk = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    reply = cove.raw((head + "Transfer-Encoding: chunked\r\n\r\n").encode() + chunk * 33, seconds=20)
    c.ok(b" 413 " in reply and b"payload_too_large" in reply, "known or not beforehand", reply[:300])
    c.same(cove.get(path + "workspace/empty").body, b"", "and the old file stays")


def trees(cove, room):
    path = "/v1/sandbox/" + room
    run(cove, room, ["sh", "-c", "rm -rf /workspace/*; mkdir -p d/e skip; echo 1 >d/e/f; echo 2 >skip/g"])
    reply = cove.post(path + "/persist?excludes=skip")
    names = {m.name.strip("./"): m for m in tarfile.open(fileobj=io.BytesIO(reply.body)).getmembers()}
    c.ok(reply.status == 200 and "d/e/f" in names and "skip/g" not in names,
         "the workspace is packed, without what is excluded", sorted(names))
    says(cove.post(path + "/persist?excludes=../x"), 400, "invalid_request", "dots are refused")
    other = cove.post("/v1/sandbox").json["id"]
    tar = {"Content-Type": "application/x-tar"}
    done = cove.request("POST", "/v1/sandbox/%s/hydrate" % other, reply.body, headers=tar, raw=True)
    c.ok(done.status == 200 and done.json == {"ok": True}, "and unpacked elsewhere", done)
    c.same(run(cove, other, ["cat", "d/e/f"])["stdout"], b"1\n", "with its files")
    says(cove.request("POST", "/v1/sandbox/%s/hydrate" % other, b"", headers=tar, raw=True), 400,
         "invalid_request", "nothing is no archive")
    says(cove.request("POST", "/v1/sandbox/%s/hydrate" % other, b"x" * 5000, headers=tar, raw=True), 502,
         "workspace_archive_write_error", "nor is anything")
    c.same(cove.request("DELETE", "/v1/sandbox/" + other).status, 204, "the sandbox is deleted")
    c.same(cove.get("/v1/sandboxes/" + other).status, 404, "and gone")


def terminal(cove, room):
    ws = wsclient.WebSocket(cove, "/v1/sandbox/%s/pty?cols=100&rows=30&session=t1" % room)
    seen, ready = b"", False
    while b"30 100" not in seen:
        message = ws.recv()
        if isinstance(message, bytes):
            seen += message
        elif json.loads(message)["type"] == "ready" and not ready:
            ready = True
            ws.send(b"stty size\n")
    c.ok(ready, "a terminal of the size that was asked for")
    ws.close()


def the_rest(cove, room):
    path = "/v1/sandbox/" + room
    stats = cove.get("/v1/pool/stats").json
    c.ok(stats["warm"] == 0 and stats["assigned"] == stats["total"] == 1, "the pool is empty", stats)
    c.same(cove.post("/v1/pool/prime").json, {"ok": True}, "and stays so")
    about = cove.get("/v1/openapi.json").json
    c.ok(about["openapi"].startswith("3.1") and "post" in about["paths"]["/v1/sandbox/{id}/exec"] and
         "put" in about["paths"]["/v1/sandbox/{id}/file/{path}"],
         "the routes are described", list(about["paths"])[:5])
    c.same(cove.get("/v1/openapi.json?token=" + cove.key, key=False).status, 200, "to a token in the query")
    c.same(cove.get("/v1/openapi.json?token=wrong", key=False).status, 401, "but not to a wrong one")
    c.ok(cove.key not in cove.log_text(), "which no log line holds")
    terminal(cove, room)
    says(cove.post(path + "/mount", {"bucket": "b", "mountPath": "/mnt/x", "options": {}}), 501,
         "not_offered", "buckets are not offered")
    says(cove.post(path + "/mount", {"bucket": "b"}), 400, "invalid_request", "a path is asked for")
    says(cove.post(path + "/unmount", {"mountPath": "/mnt/x"}), 501, "not_offered", "nor here")
    says(cove.post(path + "/tunnel/8080", {}), 501, "not_offered", "tunnels neither")
    says(cove.post(path + "/tunnel/0", {}), 400, "invalid_request", "a port is a port")
    says(cove.get(path + "/pty"), 400, "invalid_request", "a terminal needs a WebSocket")
    c.same(cove.request("DELETE", path).status, 204, "the sandbox is deleted")
    c.same(cove.get(path + "/running").json, {"running": False}, "and no longer runs")


def main():
    c.need_root()
    cove = c.Cove()
    cove.delete(cove.create())
    before = c.calm(cove)
    room = ids(cove)
    commands(cove, room)
    sessions(cove, room)
    files(cove, room)
    trees(cove, room)
    the_rest(cove, room)
    c.same(c.settled(before, cove), {}, "the census is as before")
    c.same(cove.close(), 0, "cove ends with status 0")
    c.done()


if __name__ == "__main__":
    main()
