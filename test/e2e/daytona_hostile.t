#!/usr/bin/env python3
"""Daytona's API under hostile use: another tenant on every route, the token of a sandbox on another's,
ids and names that are none, lists that are huge, forms that are cut or lead elsewhere, control characters."""
import json
import os
import re
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import daytona_sdk as sdk  # noqa: E402
import routes  # noqa: E402

c.need_root()
cove = c.Cove()
ABSENT = {"sandbox": "box-" + "0123456789ab" * 4, "volume": "vol-" + "0123456789ab" * 4, "snapshot": "none"}
BODY = {"command": "id", "code": "1", "path": "/tmp/x", "sessionId": "s", "id": "p", "cols": 80, "rows": 24, "url": "file:///x", "name": "n", "files": ["/x"], "paths": ["/x"],
        "pattern": "x", "newValue": "y", "labels": {}, "networkBlockAll": True, "data": "x", "cpu": 2, "message": "m", "author": "a", "email": "e", "branch": "b", "remote": "r",
        "key": "k", "value": "v", "mode": "hard", "username": "u", "password": "p", "host": "h"}


def ask(method, path, body=None, key=None, **headers):
    return sdk.ask(cove, method, path, body, key, **headers)


def plain(reply, *ids):
    """What a reply says, without what differs from request to request."""
    text = reply.body.decode(errors="replace")
    for word in ids:
        text = text.replace(word, "ID")
    return reply.status, re.sub(r'"(timestamp|requestId)":"[^"]*"', "", text), sorted(k.lower() for k in reply.headers.keys())


def is_well():
    return cove.get("/v1/health").status == 200


cove.request("PUT", "/v1/tenants/other", {"host": True})
stranger = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use", "templates", "admin"]}).json["key"]
box = ask("POST", "/sandbox", {"name": "mine"}).json["id"]
second = ask("POST", "/sandbox", {}).json["id"]
volume = ask("POST", "/volumes", {"name": "mine"}).json["id"]
c.same(ask("POST", "/sandbox/%s/snapshot" % box, {"name": "mine"}).status, 200, "there is a sandbox, a volume and a snapshot")
with open(os.path.join(c.ROOT, "src", "daytona", "daytona.c")) as file:
    table = [route for route in routes.parse(file.read()) if re.search(r"\{(id|name)/\}", route.pattern)]
tried, leaks, opened = 0, [], []
token = ask("GET", "/sandbox/%s/ports/3000/preview-url" % box).json["token"]
for route in table:
    kind = "volume" if "/volumes/" in route.pattern else "snapshot" if "/snapshots/" in route.pattern else "sandbox"
    own = {"volume": volume, "snapshot": "mine", "sandbox": box}[kind]
    path = re.sub(r"\{[^}]*\}", "1234", re.sub(r"\{(id|name)/\}", "THIS", route.pattern, count=1)).replace("/daytona", "", 1) + "?path=/tmp/x&pattern=x&source=/a&destination=/b&id=p&key=k"
    method, body = "GET" if route.method == "*" else route.method, None if route.method in ("GET", "DELETE", "*") else BODY
    theirs, nobody = (ask(method, path.replace("THIS", one), body, stranger) for one in (own, ABSENT[kind]))
    tried += 1
    if plain(theirs, own, ABSENT[kind]) != plain(nobody, own, ABSENT[kind]) or (theirs.status < 400 and not path.startswith("/toolbox/THIS/version")):
        leaks.append((method, path, theirs.status, theirs.body[:200], nobody.status, nobody.body[:200]))
    if kind == "sandbox":
        got = cove.request(method, "/daytona" + path.replace("THIS", second), body, headers={"X-Daytona-Preview-Token": token}, key=False)
        if got.status != 401:
            opened.append((method, path, got.status, got.body[:200]))
c.ok(tried > 90 and not leaks, "daytona 2: to another tenant each of %d routes answers as to one whose sandbox, volume or snapshot is not there" % tried, *leaks[:8])
c.ok(not opened, "daytona 2: the token of a sandbox opens no route of another", *opened[:8])
c.same([ask("GET", "/sandbox/" + one).json["state"] for one in (box, second)], ["started", "started"], "daytona 2: and both are as they were")
c.same([ask("GET", "/sandbox/mine", key=stranger).status, ask("GET", "/volumes/by-name/mine", key=stranger).status], [404, 404], "daytona 2: nor by name")

for word in ("..%2f..%2fetc", "%2e%2e", "..", "a%2fb", "%00", "%0a", "box-", "box-%2e", "x" * 3000, "%c3%28", "dn--", "dn---00", "*", "mine%00", "mine/", "%6dine%20"):
    for path in ("/sandbox/" + word, "/toolbox/%s/work-dir" % word, "/volumes/" + word, "/snapshots/" + word, "/sandbox/%s/process" % word):
        got = ask("GET", path)
        if got.status not in (400, 404, 501):
            c.ok(False, "daytona 2: %s is no sandbox, volume or snapshot" % path[:60], got.status, got.body[:200])
for word in ("%", "%zz", "%2"):
    c.same(ask("GET", "/sandbox/" + word).status, 400, "daytona 2: %s is malformed" % word)
c.same(ask("GET", "/sandbox/%6dine").json["id"], box, "daytona 2: an id in any spelling is itself")
c.ok(is_well(), "daytona 2: strange ids harm nobody")

toolbox = "/toolbox/" + box
deep = "[" * 100000 + "]" * 100000
for label, method, path, body in (
        ("labels", "PUT", "/sandbox/%s/labels" % box, {"labels": {"k%d" % i: "v" for i in range(20000)}}),
        ("env", "POST", toolbox + "/env", {"set": {"K%d" % i: "v" for i in range(20000)}}),
        ("env of a create", "POST", "/sandbox", {"env": {"K%d" % i: "v" for i in range(20000)}}),
        ("volumes", "POST", "/sandbox", {"volumes": [{"volumeId": volume, "mountPath": "/v%d" % i} for i in range(20000)]}),
        ("secrets", "POST", "/sandbox", {"secrets": [{"K%d" % i: "K%d" % i} for i in range(20000)]}),
        ("hashes of contexts", "POST", "/sandbox", {"buildInfo": {"dockerfileContent": "FROM x\nCOPY a b", "contextHashes": ["ab"] * 20000}}),
        ("files to replace in", "POST", toolbox + "/files/replace", {"files": ["/x"] * 20000, "pattern": "a", "newValue": "b"}),
        ("arguments", "POST", toolbox + "/process/code-run", {"code": "1", "language": "python", "argv": ["a"] * 20000}),
        ("variables of a command", "POST", toolbox + "/process/execute", {"command": "true", "envs": {"K%d" % i: "v" for i in range(20000)}}),
        ("addresses", "POST", "/sandbox/%s/network-settings" % box, {"networkAllowList": ",".join(["192.0.2.1/32"] * 20000)}),
        ("brackets", "POST", toolbox + "/process/execute", deep)):
    got = cove.request(method, "/daytona" + path, body, headers={"Content-Type": "application/json"})
    c.same((got.status in (400, 413), "message" in got.json), (True, True), "daytona 3: too many %s are refused" % label)
for query in ("states=" + "x" * 40000, "&".join(["states=a"] * 9000), "labels=" + urllib.parse.quote(json.dumps({"k%d" % i: "" for i in range(65)})), "limit=99999999999999999999", "cursor=" + "9" * 400):
    c.ok(ask("GET", "/sandbox?" + query).status in (400, 414, 431), "daytona 5: a list with %s… is refused" % query[:12])
got = ask("POST", toolbox + "/files/bulk-download", {"paths": ["/no/%d" % i for i in range(30000)]})
c.ok(got.status == 400 or got.body.count(b'name="error"') == 30000, "daytona 9: a download of very many files is refused, or answers each", got.status, got.body[:200])
c.ok(is_well(), "daytona 3: huge lists harm nobody")


def part(name, content, more=b""):
    return b'--b\r\nContent-Disposition: form-data; name="' + name.encode() + b'"' + more + b"\r\n\r\n" + content + b"\r\n"


def send(*parts, end=b"--b--\r\n"):
    return cove.request("POST", "/daytona%s/files/bulk-upload" % toolbox, b"".join(parts) + end, headers={"Content-Type": "multipart/form-data; boundary=b"})


for label, parts in (("a path without a file", (part("files[0].path", b"/tmp/f"),)), ("a file without a path", (part("files[0].file", b"x"),)),
                     ("a file before its path", (part("files[0].file", b"x"), part("files[0].path", b"/tmp/f"))), ("an empty path", (part("files[0].path", b""), part("files[0].file", b"x"))),
                     ("a path with a NUL", (part("files[0].path", b"/tmp/f\0g"), part("files[0].file", b"x"))), ("a part without a name", (b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n",)),
                     ("a path twice", (part("files[0].path", b"/tmp/g"), part("files[1].path", b"/tmp/f"), part("files[1].file", b"x"))),
                     ("a head without an end", (b"--b\r\nX: " + b"y" * 100000,)), ("a path that is long", (part("files[0].path", b"/tmp/" + b"f" * 100000), part("files[0].file", b"x")))):
    got = send(*parts)
    c.same((got.status in (400, 413), "message" in got.json or "errors" in got.json), (True, True), "daytona 9: a form with %s is refused" % label)
c.same(ask("GET", toolbox + "/files/info?path=/tmp/g").status, 404, "daytona 9: and writes nothing that has no path")
mark = "cove-escape-%d" % os.getpid()
ask("POST", toolbox + "/process/execute", {"command": "ln -s /proc/1/root/tmp /tmp/link; ln -s ../../../../../../tmp /tmp/up"})
for path in ("/tmp/../../../../../../../tmp/" + mark, "../../../../../../../../tmp/%s" % mark, "/tmp/link/" + mark, "/tmp/up/" + mark, "/proc/self/root/tmp/" + mark, "/proc/1/root/tmp/" + mark):
    got = send(part("files[0].path", path.encode()), part("files[0].file", b"out"))
    c.ok(got.status in (200, 400, 403, 404) and not os.path.exists("/tmp/" + mark), "daytona 9: an upload to %s stays in the sandbox" % path, got.status, got.body[:300])
c.ok(is_well(), "daytona 9: forms harm nobody")

for word in ("a\nb", "a\x1b[2Jb", "a\tb", "a/b", "..", "a%2fb", "é", "a b\"'", "a\x00b", "s" * 5000):
    made = ask("POST", toolbox + "/process/session", {"sessionId": word})
    if made.status == 400:
        continue
    at = toolbox + "/process/session/" + urllib.parse.quote(word, safe="").replace("..", "%2e%2e")
    listed = [one["sessionId"] for one in ask("GET", toolbox + "/process/session").json]
    got = ask("POST", at + "/exec", {"command": "echo in"})
    c.same((made.status, word in listed, got.status, ask("DELETE", at).status), (201, True, 200, 204), "daytona 7: a session named %r is made, listed, used and deleted, or refused" % word)
for word in ("a\nb", "a\x1b[2Jb", "a/b", "..", "é", "a\x00b", "s" * 5000):
    made = ask("POST", toolbox + "/process/pty", {"id": word})
    if made.status == 400:
        continue
    at = toolbox + "/process/pty/" + urllib.parse.quote(word, safe="").replace("..", "%2e%2e")
    listed = [one["id"] for one in ask("GET", toolbox + "/process/pty").json["sessions"]]
    c.same((made.status, word in listed, ask("DELETE", at).status), (201, True, 200), "daytona 8: a terminal named %r is made, listed and ended, or refused" % word)
c.ok(is_well() and ask("GET", toolbox + "/process/session").json == [], "daytona 7: control characters harm nobody")
ask("DELETE", "/sandbox/" + box)
ask("DELETE", "/sandbox/" + second)
ask("DELETE", "/volumes/" + volume)
ask("DELETE", "/snapshots/mine")
sdk.finish(cove)
