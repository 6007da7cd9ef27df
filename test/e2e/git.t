#!/usr/bin/env python3
"""Clones and backups: what Cloudflare's SDK expects of requests that are wrong, and for work that
fails. That they work at all is shown by the official clients (sdk.t)."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

LISTEN = "import socket,time;s=socket.socket();s.bind(('127.0.0.1',7777));s.listen();time.sleep(60)"


def fails(reply, status, code, name):
    got = reply.json
    c.ok((reply.status, got["code"], got["httpStatus"]) == (status, code, status) and
         isinstance(got["context"], dict), name, reply)
    return got


def git(cove, box):
    def checkout(url, **fields):
        return cove.post("/v1/sandboxes/%s/api/git/checkout" % box["id"], dict(fields, repoUrl=url))

    cove.run(box, "git init -q -b main /tmp/repo && cd /tmp/repo && git -c user.name=t -c user.email=t@t "
                  "commit -q --allow-empty -m first")
    got = checkout("file:///tmp/repo", branch=None, depth=None, timeoutMs=None, targetDir=None).json
    c.same((got["success"], got["branch"], got["targetDir"]), (True, "main", "/workspace/repo"),
           "absent and null are the same")
    cove.post("/v1/sandboxes/%s/api/execute" % box["id"], {"command": "mkdir /tmp/at; cd /tmp/at", "sessionId": "g"})
    c.same([checkout("file:///tmp/repo", targetDir="rel", **who).json.get("targetDir")
            for who in ({"sessionId": "g"}, {})] +
           [cove.out(box, "ls -d /tmp/at/rel/.git")],
           ["/tmp/at/rel", "/workspace/rel", "/tmp/at/rel/.git\n"], "a relative directory begins where its session stands")
    for url in ("", "x" * 2049, "a\0b"):
        fails(checkout(url), 400, "INVALID_GIT_URL", "%.6r is no URL" % url)
    for field, value in (("timeoutMs", 0), ("timeoutMs", 1.5), ("timeoutMs", "1"), ("depth", -1)):
        got = fails(checkout("file:///tmp/repo", **{field: value}), 400, "VALIDATION_FAILED",
                    "%s cannot be %r" % (field, value))
        c.same(got["context"]["validationErrors"][0]["field"], field, "and the field is named")
    for fields, name in (({}, "a directory that is full"),
                         ({"branch": "none", "targetDir": "/tmp/b"}, "a branch that is not there")):
        got = fails(checkout("file:///tmp/repo", **fields), 500, "GIT_OPERATION_FAILED", name)
        c.ok(got["context"]["exitCode"] == 128 and got["context"]["stderr"] and
             got["context"]["repository"] == "file:///tmp/repo" and got["context"]["targetDir"],
             "git's own words are told", got)
    fails(checkout("file:///tmp/none", targetDir="/tmp/n"), 500, "GIT_OPERATION_FAILED",
          "a repository that is not there")
    reply = checkout("http://me:secret@127.0.0.1:9/r.git?token=hidden&a=1", targetDir="/tmp/s")
    got = fails(reply, 500, "GIT_OPERATION_FAILED", "a server that is not there")
    c.ok(b"secret" not in reply.body and b"hidden" not in reply.body and
         "http://******@127.0.0.1:9/r.git?token=REDACTED&a=1" in got["message"],
         "nothing of the credentials is told", reply)
    cove.post("/v1/sandboxes/%s/api/process/start" % box["id"],
              {"command": "exec python3 -c \"%s\"" % LISTEN, "processId": "mute"})
    c.until(lambda: cove.run(box, "echo >/dev/tcp/127.0.0.1/7777")["exitCode"] == 0)
    got = fails(checkout("http://127.0.0.1:7777/a/b.git", timeoutMs=1000, targetDir="/tmp/t"), 502,
                "GIT_NETWORK_ERROR", "a silent server times out")
    c.same((got["message"], got["context"]["exitCode"]),
           ("Git clone timed out after 1 seconds for 'http://127.0.0.1:7777/a/b.git'", 124),
           "in the words of Cloudflare's SDK")


def backups(cove, box):
    base = "/v1/sandboxes/%s/api/backup/" % box["id"]
    good = {"dir": "/workspace/kept", "archivePath": "/var/backups/1.sqsh"}

    cove.run(box, "mkdir -p /workspace/kept/sub; echo old > /workspace/kept/sub/a")
    for change in ({"dir": "kept"}, {"dir": "/workspace/../etc"}, {"dir": "/etc"}, {"dir": "/workspacex"},
                   {"dir": "/workspace/a\0b"}, {"dir": "/workspace/" + "x" * 4096}, {"dir": None},
                   {"archivePath": "/tmp/1.sqsh"}, {"archivePath": "/var/backups/../1.sqsh"},
                   {"archivePath": "/var/backups/"}, {"archivePath": None}):
        for verb in ("create", "restore"):
            got = fails(cove.post(base + verb, dict(good, **change)), 400, "INVALID_BACKUP_CONFIG",
                        "%s: %.60r" % (verb, change))
            c.same(got["operation"], "backup." + verb, "and the operation is named")
    fails(cove.post(base + "create", b"{", headers={"Content-Type": "application/json"}), 400,
          "VALIDATION_FAILED", "a body that is no JSON is no failure of the disk")
    fails(cove.post(base + "create", dict(good, dir="/workspace/none")), 500, "BACKUP_CREATE_FAILED",
          "a missing directory cannot be archived")
    fails(cove.post(base + "restore", dict(good, archivePath="/var/backups/none")), 500,
          "BACKUP_RESTORE_FAILED", "nor restored")
    got = cove.post(base + "create", good).json
    c.ok(got["success"] and got["sizeBytes"] > 0 and got["archivePath"] == good["archivePath"],
         "a directory is kept", got)
    cove.run(box, "echo new > /workspace/kept/sub/a; touch /workspace/kept/b; echo bad > /var/backups/2.sqsh")
    fails(cove.post(base + "restore", dict(good, archivePath="/var/backups/2.sqsh")), 500,
          "BACKUP_RESTORE_FAILED", "a damaged archive is refused")
    c.same(cove.out(box, "cat /workspace/kept/sub/a"), "new\n", "and changes nothing")
    c.same(cove.post(base + "restore", good).json["dir"], good["dir"], "a good one is restored")
    c.same(cove.out(box, "cd /workspace/kept; ls; cat sub/a"), "sub\nold\n", "as it was, and clean")


c.need_root()
cove = c.Cove()
box = cove.create()
git(cove, box)
backups(cove, box)
c.same(cove.stop(), 0, "cove stops")
c.done()
