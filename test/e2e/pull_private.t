#!/usr/bin/env python3
"""I-7, I-8: Debian's docker-registry with a certificate of a private authority and passwords: stored credentials of tenants, shared ones, those of mirrors."""
import base64
import json
import os
import subprocess
import sys
import warnings

warnings.simplefilter("ignore", DeprecationWarning)
import crypt  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import certificate  # noqa: E402
import cove as c  # noqa: E402
import registry as r  # noqa: E402

PASSWORD, OTHER = "the-word-of-me", "the-word-of-you"
number = iter(range(10000))


def tenant(cove, name):
    cove.request("PUT", "/v1/tenants/" + name, {})
    return cove.post("/v1/keys", {"tenant": name, "scopes": ["read", "make", "use", "templates"]}).json["key"]


def verdict(cove, key, image, **more):
    reply = cove.request("POST", "/v1/templates", {"image": image, "name": "t%d" % next(number), **more}, key=key)
    return reply.status, (reply.json or {}).get("reason")


def login(cove, key, host, password, username="me", **more):
    reply = cove.request("PUT", "/v1/registries/" + host, {"username": username, "password": password, **more}, key=key)
    return reply.status, (reply.json or {}).get("reason")


DENIED, PULLED = (403, "registry_denied"), (201, None)


def stored(cove, host, acme, beta):
    image = host + "/app"
    c.same(verdict(cove, acme, image), DENIED, "a private image is denied without a credential")
    c.same(login(cove, acme, host, "wrong"), DENIED, "a wrong credential is refused by the registry")
    c.same((cove.request("GET", "/v1/registries/" + host, key=acme).json["reason"], cove.request("GET", "/v1/registries", key=acme).json["items"]),
           ("no_registry", []), "and not stored")
    c.same(login(cove, acme, host, PASSWORD), (201, None), "a right one is stored")
    shown = cove.request("GET", "/v1/registries/" + host, key=acme).json
    c.same(({name: shown[name] for name in ("host", "username", "shared")}, sorted(shown)),
           ({"host": host, "username": "me", "shared": False}, ["createdAt", "host", "shared", "username"]), "and shown without its secret")
    c.same(verdict(cove, acme, image), PULLED, "pulls of the tenant use it")
    made = cove.request("POST", "/v1/sandboxes", {"image": host + "/second"}, key=acme)
    c.same(made.status, 201, "as does a create by image")
    cove.delete(made.json)
    c.same(verdict(cove, beta, image), DENIED, "another tenant's do not")
    c.same(verdict(cove, acme, image, auth={"username": "me", "password": "wrong"}), DENIED, "a credential of the request comes first")
    c.same((login(cove, acme, host, OTHER, "you"), cove.request("GET", "/v1/registries/" + host, key=acme).json["username"]), ((200, None), "you"), "it is replaced")
    for host_of, what in (("-x.test", "a dash"), ("UPPER CASE", "a space"), ("lone", "no dot")):
        c.same(login(cove, acme, host_of.replace(" ", "%20"), "x"), (400, "bad_reference"), "%s names no registry" % what)
    c.same(cove.request("PUT", "/v1/registries/" + host, {"username": "me"}, key=acme).json["reason"], "bad_field", "a name alone is no credential")
    reader = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read"]}).json["key"]
    c.same((login(cove, reader, host, PASSWORD), cove.request("GET", "/v1/registries", key=reader).status), ((403, "not_allowed"), 200), "a key needs the scope templates to store one")
    c.same(login(cove, acme, "10.0.0.1", "x"), (403, "not_global"), "and no credential leaves for a private address")


def shared(cove, host, beta):
    c.same(login(cove, beta, host, PASSWORD, shared=True), (403, "not_allowed"), "only the operator shares a credential")
    c.same((login(cove, True, host, PASSWORD), verdict(cove, beta, host + "/app")), ((201, None), DENIED), "the operator's own one is not the tenants'")
    c.same((login(cove, True, host, PASSWORD, shared=True), verdict(cove, beta, host + "/app")), ((200, None), PULLED), "unless it is shared")
    c.same((cove.request("GET", "/v1/registries", key=beta).json["items"], cove.request("DELETE", "/v1/registries/" + host, key=beta).json["reason"]),
           ([], "no_registry"), "a tenant neither sees nor removes it")
    c.same(cove.request("DELETE", "/v1/registries/" + host).status, 204, "the operator removes it")
    c.same(verdict(cove, beta, host + "/app"), DENIED, "and tenants are denied again")


def lasting(cove, host, acme, beta):
    c.kill_all(cove)
    cove.start()
    c.same((cove.request("GET", "/v1/registries/" + host, key=acme).json["username"], verdict(cove, acme, host + "/app")), ("you", PULLED), "a credential survives kill -9")
    c.same(verdict(cove, acme, "mirrored.test/app"), PULLED, "a mirror gets the credential for its own host")
    c.same(verdict(cove, beta, "mirrored.test/app")[0] >= 400, True, "and none of another tenant")
    words = "|".join([PASSWORD, OTHER, base64.b64encode(b"me:" + PASSWORD.encode()).decode(), base64.b64encode(b"you:" + OTHER.encode()).decode()])
    found = subprocess.run(["grep", "-rlaE", words, cove.data, cove.log_path], stdout=subprocess.PIPE, text=True)
    c.same(found.stdout, "", "no password is in the log or the state")
    rows = [(row["action"], row["target"], row["outcome"]) for row in cove.get("/v1/audit?limit=500").json["items"] if "/v1/registries" in json.dumps(row)]
    c.ok(len(rows) >= 4 and {outcome for _, _, outcome in rows} > {"ok"}, "the audit log has who stored one", rows)


def command_line(cove, host, acme):
    home = os.path.join(cove.home, "docker")
    os.makedirs(home)
    cli = c.Cli(cove.data, COVE_TOKEN=acme, COVE_URL=cove.url, DOCKER_CONFIG=home)
    got = cli("registry", "login", host, "--username", "me", stdin=b"wrong\n")
    c.ok(got.status and "does not accept" in got.err, "cove registry login tells of a wrong password", got)
    got = cli("registry", "login", host, "--username", "me", stdin=PASSWORD.encode() + b"\n")
    c.same(got.status, 0, "and stores a right one, from standard input")
    got = cli("registry", "ls")
    c.ok(host in got.text and "me" in got.text and PASSWORD not in got.text, "cove registry ls", got)
    c.same(cli("registry", "ls", "-q").text, host + "\n", "cove registry ls -q")
    got = cli("registry", "login", "none.test")
    c.ok(got.status == 2 and "--username" in got.err, "without a name docker's files are asked", got)
    with open(home + "/config.json", "w") as file:
        json.dump({"auths": {host: {"auth": base64.b64encode(b"you:" + OTHER.encode()).decode()}}}, file)
    c.same((cli("registry", "login", host).status, cove.request("GET", "/v1/registries/" + host, key=acme).json["username"]), (0, "you"), "whose credential is stored")
    c.same((cli("registry", "logout", host).status, cli("registry", "logout", host).status, cli("registry", "logout", "-f", host).status), (0, 3, 0), "cove registry logout")
    c.same(verdict(cove, acme, host + "/app"), DENIED, "after which the tenant is denied")


def ends(cove, host, acme, beta):
    login(cove, acme, host, PASSWORD)
    login(cove, beta, host, PASSWORD)
    for one in cove.request("GET", "/v1/templates", key=beta).json["items"]:
        cove.request("DELETE", "/v1/templates/" + one["name"], key=beta)
    c.same(cove.request("DELETE", "/v1/tenants/beta").status, 204, "a tenant is removed")
    again = tenant(cove, "beta")
    c.same((cove.request("GET", "/v1/registries", key=again).json["items"], verdict(cove, again, host + "/app")), ([], DENIED), "and a new one of that name has no credential")
    c.kill_all(cove)
    os.unlink(os.path.join(cove.data, "daemon", "egress.key"))
    cove.start()
    c.same((cove.request("GET", "/v1/registries", key=again).json["items"], verdict(cove, acme, host + "/app"), login(cove, acme, host, PASSWORD), verdict(cove, acme, host + "/app")),
           ([], DENIED, (200, None), PULLED), "without its key a credential is lost, and can be stored again")


work = c.Cove(start=False)
os.makedirs(work.home, exist_ok=True)
ca, cert, key = certificate.certify(work.home, "private authority", ["registry.test"])
passwords = os.path.join(work.home, "htpasswd")
with open(passwords, "w") as file:
    for name, word in (("me", PASSWORD), ("you", OTHER)):
        file.write("%s:%s\n" % (name, crypt.crypt(word, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))))
debian = r.Debian(work.home, "auth: {htpasswd: {realm: test, path: '%s'}}\n" % passwords, tls=(cert, key))
for name in ("app", "second"):
    debian.push(r.Image([r.base() if name == "second" else r.tar([("etc", None), ("etc/name", name.encode(), 0o644)])]), name + ":latest", "me:" + PASSWORD)
host = "registry.test:%d" % debian.port
work.args += ["--egress-hosts", "registry.test=127.0.0.1", "--registry-exceptions", "127.0.0.1", "--registry-mirrors", "mirrored.test=https://" + host]
work.start()
reply = work.post("/v1/templates", {"image": host + "/app"})
c.ok((reply.status, reply.json["reason"]) == (502, "tls_untrusted") and "registry-ca" in reply.json["hint"], "a private authority is not trusted, and the answer names the setting", reply)
c.same(login(work, True, host, PASSWORD), (502, "tls_untrusted"), "nor does it get a password")
work.stop()
work.args += ["--registry-ca", ca]
work.start()
acme, beta = tenant(work, "acme"), tenant(work, "beta")
stored(work, host, acme, beta)
shared(work, host, beta)
lasting(work, host, acme, beta)
command_line(work, host, acme)
ends(work, host, acme, beta)
c.same(work.get("/v1/verify").json["ok"], True, "cove verify is clean")
debian.stop()
c.same(work.stop(), 0, "cove stops")
c.same(c.remains(work), {}, "nothing is left behind")
c.done()
