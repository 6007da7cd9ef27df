#!/usr/bin/env python3
"""daytona 2 to 10, 16: the official npm clients of Daytona, as published, of three generations, against
a running cove."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import daytona_sdk as sdk  # noqa: E402

sdk.install()
cove = c.Cove()
for script in [word for word in sys.argv[1:] if not word.isdigit()] or ("sandbox.mjs", "files.mjs", "session.mjs", "git.mjs"):
    for version in sdk.VERSIONS:
        sdk.drive(cove, script, [version])


def ask(method, path, body=None, key=None):
    return sdk.ask(cove, method, path, body, key)


made = ask("POST", "/sandbox", {"labels": {"wire": "1"}, "autoStopInterval": 0})
c.same((made.status, made.json["state"], made.json["toolboxProxyUrl"]), (200, "started", cove.url + "/daytona/toolbox"), "daytona 4: a create answers 200 with the object")
box = made.json["id"]
c.same(ask("GET", "/sandbox/%s/toolbox-proxy-url" % box).json, {"url": cove.url + "/daytona/toolbox"}, "daytona 4: the base of the toolbox")
got = ask("GET", "/sandbox/none")
c.same({key: got.json.get(key) for key in ("statusCode", "error", "path")}, {"statusCode": 404, "error": "Not Found", "path": "/daytona/sandbox/none"}, "daytona 3: an error of the control plane")
got = ask("POST", "/toolbox/%s/process/execute" % box, {"command": ""})
c.same({key: got.json.get(key) for key in ("statusCode", "code", "method", "source")},
       {"statusCode": 400, "code": "BAD_REQUEST", "method": "POST", "source": "DAYTONA_DAEMON"}, "daytona 3: an error of the toolbox")
got = ask("POST", "/toolbox/%s/process/execute" % box, {"command": "sleep 100", "timeout": 1})
c.same((got.status, got.json["code"]), (408, "PROCESS_EXECUTION_TIMEOUT"), "daytona 6: the time limit")
c.same(ask("GET", "/toolbox/%s/version" % box).status, 200, "daytona 6: the version")
got = cove.request("GET", "/daytona/config", key=False)
c.same((got.status, got.json["proxyToolboxUrl"], got.json["defaultSnapshot"]), (200, cove.url + "/daytona/toolbox", "host"), "daytona 14: the configuration, without a key")
c.same(cove.request("GET", "/daytona/health", key=False).json, {"status": "ok"}, "daytona 14: health, without a key")
for method, path, status in (("POST", "/lsp/start", 501), ("GET", "/computeruse/status", 503), ("POST", "/computeruse/mouse/click", 503)):
    got = ask(method, "/toolbox/%s%s" % (box, path), {} if method == "POST" else None)
    c.same((got.status, got.json["source"], "(" in got.json["message"]), (status, "DAYTONA_DAEMON", True), "daytona 14: %s is refused with a hint" % path)
for method, path in (("POST", "/sandbox/%s/ssh-access" % box), ("GET", "/warm-pools"), ("GET", "/secret"),
                     ("POST", "/sandbox/%s/autopause/5" % box), ("PUT", "/sandbox/%s/secrets" % box)):
    got = ask(method, path)
    c.same((got.status, got.json["error"], "(" in got.json["message"]), (501, "Not Implemented", True), "daytona 14: %s is refused with a hint" % path.replace(box, "ID"))
got = ask("POST", "/toolbox/%s/process/code-run" % box, {"code": "print(1)", "language": "cobol"})
c.same(got.status, 400, "daytona 13: an unknown language")
got = ask("POST", "/toolbox/%s/process/code-run" % box, {"code": "console.log(process.argv.slice(2).join())", "language": "javascript", "argv": ["a", "b"]})
c.same(got.json, {"exitCode": 0, "result": "a,b\n"}, "daytona 13: JavaScript")
for path, body, status, code in (("/files?path=", None, 400, "INVALID_FILE_PATH"), ("/files?path=/&depth=0", None, 400, "BAD_REQUEST"), ("/files/info?path=/no", None, 404, "FILE_NOT_FOUND"),
                                 ("/files/find?path=/tmp", None, 400, "BAD_REQUEST"), ("/files/download?path=/no", None, 404, "FILE_NOT_FOUND"),
                                 ("/files/bulk-download", {"paths": []}, 400, "BAD_REQUEST"), ("/files/bulk-download", {"paths": [1]}, 400, "BAD_REQUEST"),
                                 ("/files/bulk-upload", {}, 400, "BAD_REQUEST"), ("/files/replace", {"files": []}, 400, "BAD_REQUEST")):
    got = ask("GET" if body is None else "POST", "/toolbox/%s%s" % (box, path), body)
    c.same((got.status, got.json["code"], got.json["source"]), (status, code, "DAYTONA_DAEMON"), "daytona 9: %s is refused in the toolbox's format" % path)


def send_form(body):
    return cove.request("POST", "/daytona/toolbox/%s/files/bulk-upload" % box, body, headers={"Content-Type": "multipart/form-data; boundary=b"})


FORM = b'--b\r\nContent-Disposition: form-data; name="files[0].path"\r\n\r\n/tmp/cut\r\n--b\r\nContent-Disposition: form-data; name="files[0].file"\r\n\r\nbytes'
c.same(send_form(FORM).status, 400, "daytona 9: a form that is cut is refused")
c.same(ask("GET", "/toolbox/%s/files/info?path=/tmp/cut" % box).status, 404, "daytona 9: and leaves no file")
c.same(send_form(FORM.replace(b"[0].path", b"[1].path") + b"\r\n--b--").status, 400, "daytona 9: so is a file whose path is another's")
c.same(send_form(FORM + b"\r\n--b--").json, {"files": [{"path": "/tmp/cut", "bytes": 5}]}, "daytona 9: a whole one is written")
got = cove.raw(("POST /daytona/toolbox/%s/files/bulk-upload HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"
                % (box, cove.port, cove.key)).encode())
c.ok(b" 400 " in got.split(b"\r\n")[0] and cove.get("/v1/health").status == 200, "files: a bulk upload without Content-Type is 400", got[:300])
got = cove.request("POST", "/daytona/toolbox/%s/files/upload?path=/tmp/raw" % box, b"raw", headers={"Content-Type": "application/octet-stream"})
c.same(got.json, {"path": "/tmp/raw", "bytes": 3}, "daytona 9: a raw upload")
c.same(ask("GET", "/toolbox/%s/files/download?path=/tmp/raw" % box).body, b"raw", "daytona 9: a raw download")
c.same(ask("GET", "/toolbox/%s/process/session/entrypoint" % box).status, 501, "daytona 7: there is no entrypoint session")
c.same(ask("POST", "/toolbox/%s/git/stash" % box, {"path": "/"}).status, 501, "daytona 10: what is left out of git is refused with a hint")
c.same(ask("POST", "/toolbox/%s/git/clone" % box, {"path": "/tmp/x", "url": "--upload-pack=id"}).status, 400, "daytona 10: an option is no URL")
ask("POST", "/toolbox/%s/process/session" % box, {"sessionId": "w"})
got = ask("POST", "/toolbox/%s/process/session/w/exec" % box, {"command": "echo a; echo b >&2; echo c", "async": True})
c.same(got.status, 202, "daytona 7: the older name of runAsync")
logs = "/toolbox/%s/process/session/w/command/%s/logs" % (box, got.json["cmdId"])
c.until(lambda: "exitCode" in ask("GET", logs[:-5]).json, 30)
got = cove.request("GET", "/daytona" + logs, headers={"X-Daytona-SDK-Version": "0.166.0"})
c.ok(b"\1\1\1a\n" in got.body and b"\2\2\2b\n" in got.body and got.body.count(b"\1\1\1") <= 2, "daytona 7: an older client gets the log with marks", repr(got.body))
got = cove.request("GET", "/daytona" + logs, headers={"X-Daytona-SDK-Version": "0.167.0"}).json
c.same((got["stdout"], got["stderr"]), ("a\nc\n", "b\n"), "daytona 7: a newer one gets it split")
for query, status in (("labels=%7Bx", 400), ("labels=%5B%5D", 400), ("limit=0", 400), ("limit=201", 400), ("cursor=x", 400),
                      ("order=up", 400), ("minCpu=1", 501), ("sort=name", 501)):
    c.same(ask("GET", "/sandbox?" + query).status, status, "daytona 5: list with %s" % query)
more = [ask("POST", "/sandbox", {"labels": {"wire": "1"}}).json["id"] for _ in range(2)]
labels = "labels=%7B%22wire%22%3A%221%22%7D"
pages, cursor = [], ""
while cursor is not None:
    page = ask("GET", "/sandbox?%s&limit=1%s" % (labels, "&cursor=" + cursor if cursor else "")).json
    pages += [item["id"] for item in page["items"]]
    cursor = page["nextCursor"]
c.same(sorted(pages), sorted([box] + more), "daytona 5: pages by cursor have each sandbox once")
c.same(pages[-1], box, "daytona 5: the oldest is the last")
c.ok("env" not in page["items"][0] and "volumes" not in page["items"][0], "daytona 4: items of a list omit env and volumes")
whole = ask("GET", "/sandbox?%s&order=asc" % labels).json["items"]
c.same([item["id"] for item in whole], pages[::-1], "daytona 5: the other order")
c.same(ask("POST", "/sandbox/%s/stop" % more[0]).json["state"], "stopped", "daytona 5: stop answers with the final state")
c.same([item["id"] for item in ask("GET", "/sandbox?%s&states=stopped&states=error" % labels).json["items"]], [more[0]], "daytona 5: a list by states")
c.same(ask("POST", "/sandbox/%s/start" % more[0]).json["state"], "started", "daytona 5: so does start")
got = ask("DELETE", "/sandbox/" + more[0])
c.same((got.status, got.json["state"]), (200, "destroyed"), "daytona 5: delete answers 200 with the object")
for minutes, kind, status in (("-1", "autostop", 400), ("-1", "autoarchive", 400), ("-1", "autodelete", 200), ("x", "autodelete", 400), ("43201", "autostop", 400)):
    c.same(ask("POST", "/sandbox/%s/%s/%s" % (more[1], kind, minutes)).status, status, "daytona 5: %s %s" % (kind, minutes))
c.same(ask("PUT", "/sandbox/%s/labels" % more[1], {"labels": {"cove/type": "x"}}).status, 400, "daytona 5: labels of cove's own are refused")
for body, status in (({"buildInfo": {"dockerfileContent": "FROM cove://host\nFLY b\n"}}, 400), ({"snapshot": "a", "buildInfo": {"dockerfileContent": "FROM a"}}, 400),
                     ({"gpu": 1}, 501), ({"cpu": 10000}, 400), ({"autoDeleteInterval": "x"}, 400), ({"name": "a\nb"}, 400)):
    c.same(ask("POST", "/sandbox", body).status, status, "daytona 5: create with %s" % json.dumps(body))
got = ask("POST", "/sandbox", {"networkBlockAll": True}).json
c.same((got["networkBlockAll"], cove.get("/v1/sandboxes/" + got["id"]).json["network"]["mode"]), (True, "off"), "daytona 14: networkBlockAll is mode off")
got = ask("POST", "/sandbox", {"domainAllowList": "example.org, *.example.com", "ttlMinutes": 5}).json
c.same((got["networkBlockAll"], got["domainAllowList"]), (False, "example.org,*.example.com"), "daytona 14: a list of domains")
c.ok(cove.get("/v1/sandboxes/" + got["id"]).json["endsAt"], "daytona 14: ttlMinutes is its ttl")

cove.request("PUT", "/v1/tenants/other", {"host": True})
key = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use"]}).json["key"]
c.same([item["id"] for item in ask("GET", "/sandbox", key=key).json["items"]], [], "daytona 2: a tenant sees no sandbox of others")
for method, path in (("GET", "/sandbox/" + box), ("DELETE", "/sandbox/" + box), ("POST", "/sandbox/%s/stop" % box), ("POST", "/sandbox/%s/autodelete/0" % box),
                     ("GET", "/toolbox/%s/files?path=/" % box), ("GET", "/toolbox/%s/process/session" % box), ("GET", logs),
                     ("GET", "/toolbox/%s/git/status?path=/" % box), ("GET", "/toolbox/%s/work-dir" % box), ("GET", "/toolbox/%s/user-home-dir" % box)):
    c.same(ask(method, path, key=key).status, 404, "daytona 2: %s %s is absent for another tenant" % (method, path.replace(box, "ID")))
c.same(ask("POST", "/toolbox/%s/process/execute" % box, {"command": "true"}, key=key).status, 404, "daytona 2: nor does it run commands there")
reader = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read"]}).json["key"]
c.same(ask("POST", "/sandbox", {}, key=reader).status, 403, "daytona 2: a key without the scope makes none")
for item in ask("GET", "/sandbox").json["items"]:
    ask("DELETE", "/sandbox/" + item["id"])
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
cove.close()

cove = c.Cove("--dev", "--time-scale=600")
access = ask("GET", "/object-storage/push-access").json
name = "/daytona/storage/%s/default/ab/context.tar" % access["bucket"]
uploads = [sdk.signed(cove, access, "POST", name, "uploads=") for _ in range(4)]
uploads = [got.body.split(b"<UploadId>")[1].split(b"<")[0].decode() for got in uploads if got.status == 200]
c.until(lambda: {sdk.signed(cove, access, "PUT", name, "partNumber=1&uploadId=" + one).status for one in uploads} == {404}, 30, 0.5)
c.same([sdk.signed(cove, access, "PUT", name, "partNumber=1&uploadId=" + one).status for one in uploads], [404] * len(uploads), "daytona 14: uploads that are abandoned are dropped")
c.same([name for _, _, names in os.walk(cove.data) for name in names if name.startswith("new-")], [], "daytona 14: with what they had received")
kept, brief = (ask("POST", "/sandbox", {"autoStopInterval": 10, "autoDeleteInterval": minutes}).json["id"] for minutes in (30, 0))
for one in (kept, brief):
    c.same(cove.request("PATCH", "/v1/sandboxes/" + one, {"sleepAfter": 1}).status, 200, "a sandbox falls asleep after a second")
c.until(lambda: ask("GET", "/sandbox/" + brief).status == 404 and ask("GET", "/sandbox/" + kept).json["state"] == "stopped", 60)
c.same(ask("GET", "/sandbox/" + brief).status, 404, "daytona 5: an idle ephemeral sandbox is stopped, and then deleted")
c.same(ask("GET", "/sandbox/" + kept).json["state"], "stopped", "daytona 5: one with autoDeleteInterval 30 is not yet")
c.same(ask("POST", "/sandbox/%s/autodelete/0" % kept).status, 200, "daytona 5: the interval of a stopped sandbox is changed")
c.until(lambda: ask("GET", "/sandbox/" + kept).status == 404, 60)
c.same(ask("GET", "/sandbox/" + kept).status, 404, "daytona 5: and holds at once")
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
cove.close()
c.done()
