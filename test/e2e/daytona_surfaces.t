#!/usr/bin/env python3
"""daytona 12 to 14: the optional surfaces, and images with files of the client, by the official clients
and on the wire; what another tenant, a wrong signature and a key without the scope get."""
import datetime
import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import daytona_sdk as sdk  # noqa: E402

sdk.install()
cove = c.Cove()
for script in ("surfaces.mjs", "image.mjs"):
    sdk.drive(cove, script)


def ask(method, path, body=None, key=None):
    return sdk.ask(cove, method, path, body, key)


def signed(access, method, path, query="", body=b"", **options):
    return sdk.signed(cove, access, method, path, query, body, **options)


cove.request("PUT", "/v1/tenants/other", {"host": True})
other = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use", "templates"]}).json
reader = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "use"]}).json["key"]
mine, theirs = ask("GET", "/object-storage/push-access").json, ask("GET", "/object-storage/push-access", key=other["key"]).json
c.same((mine["organizationId"], theirs["organizationId"], mine["storageUrl"]), ("default", "other", cove.url + "/daytona/storage"), "daytona 14: a credential for the files of builds")
c.same(ask("GET", "/object-storage/push-access", key=reader).status, 403, "daytona 14: not without the scope")
bucket = "/daytona/storage/" + mine["bucket"]
name = bucket + "/default/ab12/context.tar"
late = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=20)
for label, got, status in (
        ("another's prefix", signed(theirs, "PUT", name, body=b"x"), 403), ("a wrong secret", signed(mine, "PUT", name, body=b"x", secret="0" * 28), 403),
        ("an old signature", signed(mine, "PUT", name, body=b"x", now=late), 403), ("another body", signed(mine, "PUT", name, body=b"x", sent=b"y"), 400),
        ("another bucket", signed(mine, "PUT", "/daytona/storage/b/default/ab12/context.tar", body=b"x"), 403), ("another name", signed(mine, "PUT", bucket + "/default/../x/context.tar", body=b"x"), 403),
        ("no signature", cove.request("PUT", name, b"x", key=False), 403), ("a key of cove", cove.request("PUT", name, b"x"), 403), ("a download", signed(mine, "GET", name), 501)):
    c.same((got.status, b"<Error>" in got.body), (status, True), "daytona 14: %s is refused" % label)


def listed(access, prefix):
    return b"<Key>" in signed(access, "GET", bucket, "list-type=2&prefix=" + prefix.replace("/", "%2F")).body


c.same(signed(mine, "PUT", name, body=b"x" * 512).status, 200, "daytona 14: an object is written")
c.same([listed(mine, "default/ab12/"), listed(theirs, "default/ab12/"), listed(theirs, "other/ab12/"), listed(mine, "default/ab13/")], [True, False, False, False], "daytona 14: it is listed to its tenant alone")
got = signed(mine, "POST", bucket + "/default/cd/context.tar", "uploads=")
upload = got.body.split(b"<UploadId>")[1].split(b"<")[0].decode()
c.same(signed(theirs, "PUT", bucket + "/other/cd/context.tar", "partNumber=1&uploadId=" + upload, b"x").status, 404, "daytona 14: an upload of another tenant is absent")
c.same(signed(mine, "PUT", bucket + "/default/ce/context.tar", "partNumber=1&uploadId=" + upload, b"x").status, 404, "daytona 14: and one of another key")
for number, text in ((2, b"world"), (1, b"hello ")):
    c.same(signed(mine, "PUT", bucket + "/default/cd/context.tar", "partNumber=%d&uploadId=%s" % (number, upload), text).status, 200, "daytona 14: part %d" % number)
c.same(signed(mine, "POST", bucket + "/default/cd/context.tar", "uploadId=" + upload, b"<CompleteMultipartUpload/>").status, 200, "daytona 14: the upload ends")
c.same(signed(mine, "PUT", bucket + "/default/cd/context.tar", "partNumber=3&uploadId=" + upload, b"x").status, 404, "daytona 14: it is over")
got = ask("POST", "/sandbox", {"buildInfo": {"dockerfileContent": "FROM cove://host\nCOPY a /b\n", "contextHashes": ["cd"]}})
c.same((got.status, "archive" in got.json["message"]), (400, True), "daytona 14: a context that is no archive")
got = ask("POST", "/sandbox", {"buildInfo": {"dockerfileContent": "FROM cove://host\nCOPY a /b\n", "contextHashes": ["cd"]}}, other["key"])
c.same(got.status, 404, "daytona 14: another tenant has no such files")
cove.request("PUT", "/v1/tenants/other", {"host": True, "quota": {"diskMB": 8}})
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode="w") as tar:
    entry = tarfile.TarInfo("a")
    entry.size = 1 << 20
    tar.addfile(entry, io.BytesIO(bytes(entry.size)))
c.same(signed(theirs, "PUT", bucket + "/other/ef/context.tar", body=packed.getvalue()).status, 200, "daytona 14: a context within the quota")
got = ask("POST", "/sandbox", {"buildInfo": {"dockerfileContent": "FROM cove://host\nCOPY a /b\n", "contextHashes": ["ef"] * 64}}, other["key"])
c.same((got.status, "too large together" in got.json["message"]), (413, True), "daytona 14: 64 contexts together are not more than one may be")
cove.request("DELETE", "/v1/keys/" + other["id"])
c.same(signed(theirs, "GET", bucket, "list-type=2&prefix=x").status, 403, "daytona 14: the credential of a key that is revoked is void")

session = cove.post("/v1/auth/sessions", {}, key=cove.post("/v1/keys", {"scopes": ["read", "make", "use", "templates"]}).json["key"]).json
access = ask("GET", "/object-storage/push-access", key=session["token"]).json
c.same(signed(access, "GET", bucket, "list-type=2&prefix=x").status, 200, "daytona 14: one of a session of the dashboard")
c.same(cove.request("DELETE", "/v1/auth/sessions/" + session["id"]).status, 204, "daytona 14: that ends")
c.same(signed(access, "GET", bucket, "list-type=2&prefix=x").status, 403, "daytona 14: is void then, too")
tls = {"X-Forwarded-Proto": "https"}
seen = [sdk.ask(cove, "GET", "/object-storage/push-access", **tls).json["storageUrl"], sdk.ask(cove, "GET", "/config", **tls).json["proxyToolboxUrl"],
        sdk.ask(cove, "POST", "/sandbox", {}, **tls).json["toolboxProxyUrl"]]
c.same(seen, [cove.url.replace("http:", "https:") + "/daytona/" + word for word in ("storage", "toolbox", "toolbox")], "daytona 1: addresses behind a proxy that ends TLS")
c.same(sdk.ask(cove, "GET", "/object-storage/push-access", **{"X-Forwarded-Proto": "gopher"}).json["storageUrl"], cove.url + "/daytona/storage", "daytona 1: no other scheme is taken")

box = ask("POST", "/sandbox", {"secrets": [{"A": "B"}]})
c.same(box.status, 501, "daytona 14: a secret under another name is refused with a hint")
cove.request("PUT", "/v1/secrets/TOKEN", {"value": "v", "hosts": ["api.example.com"]})
made = ask("POST", "/sandbox", {"secrets": [{"TOKEN": "TOKEN"}], "networkAllowList": "192.0.2.0/24"}).json
box = made["id"]
c.same(cove.get("/v1/sandboxes/" + box).json["network"].get("secrets"), ["TOKEN"], "daytona 14: secrets of a create")
c.same(ask("POST", "/sandbox/%s/network-settings" % box, {"networkBlockAll": True}).json["networkBlockAll"], True, "daytona 14: all is blocked")
policy = cove.get("/v1/sandboxes/" + box).json["network"]
c.same((policy["mode"], policy.get("secrets")), ("off", ["TOKEN"]), "daytona 14: and the rest of the policy stays")
for body, status in (({}, 400), ({"networkBlockAll": True, "networkAllowList": "192.0.2.0/24"}, 400), ({"networkAllowList": "x"}, 400), ({"domainAllowList": ",".join("a%d.example" % i for i in range(11))}, 400)):
    c.same(ask("POST", "/sandbox/%s/network-settings" % box, body).status, status, "daytona 14: settings with %s" % sorted(body))
toolbox = "/toolbox/%s" % box
c.same(ask("GET", toolbox + "/port/3333/in-use").json, {"isInUse": False}, "daytona 14: a port that nobody uses")
ask("POST", toolbox + "/process/execute", {"command": "setsid python3 -m http.server 3333 >/dev/null 2>&1 &"})
c.until(lambda: ask("GET", toolbox + "/port/3333/in-use").json["isInUse"], 30)
c.ok(3333 in ask("GET", toolbox + "/port").json["ports"], "daytona 14: a port in use is listed")
c.same(ask("GET", toolbox + "/port/80/in-use").status, 400, "daytona 14: ports from 3000 to 9999 only")
for body, status in (({"set": {"A-B": "x"}}, 400), ({"set": []}, 400), ({"unset": [1]}, 400), ({}, 200)):
    c.same(ask("POST", toolbox + "/env", body).status, status, "daytona 14: /env with %s" % body)
for path, body, status in (("resize", {"cpu": "x"}, 400), ("resize", {}, 400), ("resize", {"gpu": 1}, 400), ("recover", {}, 400), ("ttl/30", {}, 200), ("ttl/0", {}, 501), ("ttl/x", {}, 400)):
    c.same(ask("POST", "/sandbox/%s/%s" % (box, path), body).status, status, "daytona 5: %s with %s" % (path, body))
c.ok(ask("GET", "/sandbox/" + box).json["autoDestroyAt"], "daytona 5: the time of the end is shown")
stranger = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use"]}).json["key"]
volume = ask("POST", "/volumes", {"name": "private"}).json["id"]
for method, path, body in (("GET", "/volumes/" + volume, None), ("GET", "/volumes/by-name/private", None), ("DELETE", "/volumes/" + volume, None), ("GET", "/sandbox/%s/signing-key" % box, None),
                           ("POST", "/sandbox/%s/signing-key/rotate" % box, {}), ("POST", "/sandbox/%s/network-settings" % box, {"networkBlockAll": True}), ("POST", "/sandbox/%s/resize" % box, {"cpu": 1}),
                           ("POST", toolbox + "/env", {}), ("GET", toolbox + "/port", None), ("GET", toolbox + "/system/metrics", None), ("GET", toolbox + "/process/interpreter/context", None),
                           ("POST", "/sandbox", {"volumes": [{"volumeId": volume, "mountPath": "/v"}]})):
    c.same(ask(method, path, body, stranger).status, 404, "daytona 2: %s %s is absent for another tenant" % (method, path.replace(box, "ID").replace(volume, "VOL")))
sdk.finish(cove)
