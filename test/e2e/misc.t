#!/usr/bin/env python3
"""What a client asks first, what is not offered, clients that send no headers, and what a sandbox
remembers on its owner's behalf."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def says(reply, status, reason, name):
    return c.ok(reply.status == status and reply.json["reason"] == reason, name, reply)


def first_words(cove, box):
    base = "/v1/sandboxes/" + box["id"]
    hello = cove.get(base + "/")
    c.ok(hello.status == 200 and hello.headers["Content-Type"].startswith("text/plain") and
         b"cove" in hello.body, "a sandbox greets", hello)
    ping = cove.get(base + "/api/ping").json
    c.ok(ping["success"] and ping["status"] == "healthy" and ping["timestamp"].endswith("Z"),
         "and is healthy", ping)
    version = cove.get(base + "/api/version").json
    ours = version["version"]
    c.ok(version["success"] and ours and "not known" in version["warning"],
         "an unknown client is warned about", version)
    version = cove.get(base + "/api/version?client=0.12.10").json
    c.ok("0.12.10" in version["warning"] and ours in version["warning"],
         "a different one too, and both are named", version)
    version = cove.get(base + "/api/version", headers={"X-Client-Version": ours}).json
    c.ok("warning" not in version and version["clientVersion"] == ours, "the same one is not")
    says(cove.get("/v1/sandboxes/nobody/api/ping"), 404, "no_sandbox", "nobody is not healthy")


def nowhere(cove, box):
    base = "/v1/sandboxes/" + box["id"]
    token = cove.get(base).json["baseUrl"].split("/", 3)[3]
    for method, path, name in (("GET", base + "/api/none", "an unknown path"),
                               ("POST", base + "/none", "one outside of api"),
                               ("GET", "/" + token + "/api/none", "one behind a token"),
                               ("GET", base + "/api/execute", "an unknown method"),
                               ("OPTIONS", base + "/api/ping", "OPTIONS"),
                               ("GET", base + "/ws", "a plain request to a WebSocket"),
                               ("GET", base + "/rpc", "or to RPC")):
        reply = cove.request(method, path)
        got = reply.json
        c.ok((reply.status, got["code"], got["message"], got["context"], got["httpStatus"]) ==
             (404, "UNKNOWN_ERROR", "The requested endpoint was not found", {}, 404),
             "%s is 404 in the words of Cloudflare's SDK" % name, reply)
    c.same(cove.request("HEAD", base + "/api/none").status, 404, "HEAD, too")
    c.same(cove.request("PUT", base + "/api/execute").headers["Allow"], "POST", "what it takes is told")


def commands(cove, box):
    base = "/v1/sandboxes/" + box["id"]
    found = cove.get(base + "/api/commands").json
    c.ok(found["success"] and {"bash", "ls", "cat"} <= set(found["availableCommands"]) and
         found["availableCommands"] == sorted(set(found["availableCommands"])),
         "the commands on its PATH are told", found)
    cove.run(box, "mkdir -p /workspace/bin; printf '#!/bin/sh\n' >/workspace/bin/mine;"
                  "cp /workspace/bin/mine /workspace/bin/not; chmod +x /workspace/bin/mine")
    cove.request("PATCH", base, {"env": {"PATH": "/workspace/bin:/nowhere:relative"}})
    found = cove.get(base + "/api/commands").json
    c.same(found["availableCommands"], ["mine"], "by the PATH that it has, executables only")
    cove.request("PATCH", base, {"env": {"PATH": None}})


def not_offered(cove, box):
    base = "/v1/sandboxes/" + box["id"]
    for method, path in (("POST", "/api/desktop/start"), ("GET", "/api/desktop/status"),
                         ("POST", "/api/tunnels/quick"), ("POST", "/api/mount"),
                         ("POST", "/api/unmount")):
        reply = cove.request(method, base + path, {} if method == "POST" else None)
        c.ok(reply.status == 501 and reply.json["reason"] == "not_offered" and reply.json["hint"],
             "%s is not offered, with a hint" % path, reply)


def headless(cove, box):
    """Clients that send no headers: the credential of one box stands in the path."""
    token = box["token"]
    path = box["baseUrl"].split("/", 3)[3]
    c.ok(box["baseUrl"].startswith("http://127.0.0.1:%d/v1/t/%s/" % (cove.port, token)) and
         len(token) == 72, "a sandbox comes with its own base URL", box)
    seen = cove.get("/v1/sandboxes/" + box["id"]).json
    c.same((seen["token"], seen["baseUrl"]), (token, box["baseUrl"]), "which GET shows again")
    listed = cove.get("/v1/sandboxes").json["items"]
    c.ok(listed and all("token" not in item for item in listed), "and lists do not")
    base = "/" + path
    c.same(cove.get(base + "/api/ping", key=False).status, 200, "it opens the sandbox's inside")
    reply = cove.post(base + "/api/execute", {"command": "echo $((6*7))"}, key=False)
    c.ok(reply.status == 200 and reply.json["stdout"].strip() == "42", "commands run", reply)
    by_name = base.replace(box["id"], box["name"])
    c.same(cove.get(by_name + "/api/ping", key=False).status, 200, "by the box's name too")
    reply = cove.post(base + "/api/execute", {"command": "echo hi"}, key="some-session")
    c.same(reply.status, 200, "whatever bearer comes beside it")

    other = cove.create(name="other")
    c.ok(other["token"] != token, "another sandbox has another")
    wrong = "/v1/t/%s/sandboxes/%s/api/ping" % (token, other["id"])
    says(cove.get(wrong, key=False), 401, "bad_token", "which this one does not open")
    says(cove.get(wrong), 401, "bad_token", "not even beside the operator's key")
    says(cove.get("/v1/t/%s/sandboxes/nobody/api/ping" % token, key=False), 401, "bad_token",
         "an absent sandbox is no different")
    for bad in (token[:-1], token + "0", token[:-1] + ("0" if token[-1] != "0" else "1"), "x", "%00",
                cove.key):
        says(cove.get("/v1/t/%s/sandboxes/%s/api/ping" % (bad, box["id"]), key=False), 401,
             "bad_token", "a wrong credential is refused")
    for outside in ("/v1/t/%s/sandboxes" % token, "/v1/t/%s/health" % token, "/v1/t/%s" % token,
                    "/v1/t/", "/v1/t/%s/templates" % token):
        c.ok(cove.get(outside, key=False).status == 401, "nothing else is behind it", outside)
    for method, inside in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("PUT", "")):
        reply = cove.request(method, base + inside, {} if method in ("PATCH", "PUT") else None,
                             key=False)
        c.ok(reply.status in (400, 403), "%s of the sandbox itself is the operator's" % method, reply)
    c.same(cove.get("/v1/sandboxes/" + box["id"]).status, 200, "who still has it")
    for _ in range(30):
        last = cove.get("/v1/t/wrong/sandboxes/%s/api/ping" % box["id"], key=False)
    c.same(last.status, 429, "guessing is slowed down")
    c.same(cove.get(base + "/api/ping", key=False).status, 200, "while the right one passes")
    log = cove.log_text()
    c.ok("failed_path_token" in log, "the log tells of the attempt")
    c.ok(token not in log and token[8:40] not in log and cove.key not in log,
         "and no line of it holds a credential")
    cove.delete(other)


def terms(cove):
    made = cove.request("PUT", "/v1/sandboxes/kept", {
        "sleepAfter": "10m", "keepAlive": True, "labels": {"a": "1"}, "env": {"A": "1", "B": "2"},
        "containerTimeouts": {"portReadyTimeoutMS": 20000}}).json
    c.ok(made["sleepAfter"] == "10m" and made["keepAlive"] is True and
         made["containerTimeouts"] == {"instanceGetTimeoutMS": 30000, "portReadyTimeoutMS": 20000,
                                       "waitIntervalMS": 300}, "terms are kept and shown", made)
    again = cove.request("PUT", "/v1/sandboxes/kept", {"sleepAfter": 90})
    c.ok(again.status == 200 and again.json["sleepAfter"] == "90s" and again.json["id"] == made["id"],
         "asking for it again changes them, as getSandbox does", again)
    for bad in ({"sleepAfter": "soon"}, {"sleepAfter": 0}, {"sleepAfter": "10"}, {"sleepAfter": []},
                {"sleepAfter": "9999h"}, {"keepAlive": "yes"}, {"containerTimeouts": 5},
                {"containerTimeouts": {"waitIntervalMS": 1}},
                {"containerTimeouts": {"instanceGetTimeoutMS": 400000}},
                {"baseUrl": "ftp://x"}, {"baseUrl": "http://x/"}, {"baseUrl": "http://u@x"},
                {"baseUrl": "http://x/?a=1"}, {"baseUrl": ""}):
        says(cove.post("/v1/sandboxes", bad), 400, "bad_field", "%s is refused" % json.dumps(bad))
    says(cove.post("/v1/sandboxes", {"containerTimeouts": {"x": 1}}), 400, "unknown_field",
         "and so is a bound that nobody knows")

    path = "/v1/sandboxes/kept"
    changed = cove.request("PATCH", path, {"labels": {"b": "2", "a": None},
                                           "env": {"A": None, "C": "3"}, "keepAlive": False})
    c.ok(changed.status == 200 and changed.json["labels"] == {"b": "2"} and
         changed.json["keepAlive"] is False and changed.json["sleepAfter"] == "90s",
         "a PATCH changes what it names", changed)
    c.same(cove.out("kept", "echo \"$A/$B/$C\"").strip(), "/2/3", "later commands see the new env")
    found = cove.get("/v1/sandboxes?label=b=2").json["items"]
    c.same([item["name"] for item in found], ["kept"], "it is found by its new label")
    says(cove.request("PATCH", path, {"colour": {}}), 400, "unknown_field",
         "what cannot be changed is refused")
    for value in ("x", None):
        says(cove.request("PATCH", path, {"labels": {"cove/owner": value}}), 400, "bad_label", "a label of cove's own is not changed")
    says(cove.request("PATCH", path, {"labels": {"c": "1"}, "env": {"1": "x"}}), 400, "bad_env",
         "a bad part refuses the whole")
    c.same(cove.get(path).json["labels"], {"b": "2"}, "and nothing has changed")
    says(cove.request("PATCH", path, {"env": {"E%d" % i: "" for i in range(255)}}), 400, "bad_field",
         "the bounds hold for what comes out")
    says(cove.request("PATCH", "/v1/sandboxes/nobody", {}), 404, "no_sandbox", "nobody is not changed")

    first = cove.request("PATCH", path, {"baseUrl": "https://cove.example"})
    c.ok(first.status == 200 and first.json["baseUrl"].startswith("https://cove.example/v1/t/"),
         "a base URL can be set", first)
    c.same(cove.request("PATCH", path, {"baseUrl": "https://cove.example"}).status, 200,
           "again to the same")
    says(cove.request("PATCH", path, {"baseUrl": "https://else.example"}), 409, "base_url_set",
         "but not to another")
    says(cove.request("PUT", path, {"baseUrl": "https://else.example"}), 409, "base_url_set",
         "nor by get-or-create")


def main():
    c.need_root()
    cove = c.Cove()
    box = cove.create(name="first")
    first_words(cove, box)
    nowhere(cove, box)
    commands(cove, box)
    not_offered(cove, box)
    headless(cove, box)
    terms(cove)
    key = os.stat(os.path.join(cove.data, "daemon", "box.key"))
    c.ok(key.st_mode & 0o777 == 0o600 and key.st_uid != 0 and key.st_size == 32,
         "the key behind the credentials is the daemon's alone")
    c.same(cove.stop(), 0, "it stops")
    cove.start()
    c.same(cove.get("/v1/sandboxes/first").json["token"], box["token"], "a sandbox that comes back has the credential it had")
    cove.delete("first")
    again = cove.create(name="first")
    c.ok(again["token"] != box["token"], "a new sandbox of that name has a new credential")
    cove.close()
    c.done()


if __name__ == "__main__":
    main()
