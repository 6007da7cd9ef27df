#!/usr/bin/env python3
"""Registries that cut, refuse, redirect, want passwords or tokens, or lie: a pull goes on where it can, and else leaves nothing."""
import base64
import gzip
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402

SMALL = r.tar([("etc", None), ("etc/motd", b"hello\n", 0o644)])
BIG = r.tar([("opt", None), ("opt/big", os.urandom(1 << 20), 0o644)])
number = iter(range(10000))


def pull(cove, registry, name="app", key=True, **more):
    body = {"image": "%s/%s" % (registry.host, name), "name": "t%d" % next(number), **more}
    return cove.request("POST", "/v1/templates", body, key=key)


def clean(cove):
    return [name for name in os.listdir(os.path.join(cove.data, "daemon/blobs"))] == []


def refused(cove, registry, status, reason, what, **more):
    reply = pull(cove, registry, **more)
    c.ok(reply.status == status and reply.json["reason"] == reason, what, reply)
    if status != 401:
        c.ok(reply.json.get("hint"), "… with a hint", reply)


# ------------------------------------------------------------------------------------------- references

def references(cove, registry):
    before = len(registry.requests)
    for bad in ("", "UPPER/x", "a b", "app:", "app:" + "t" * 129, "app@sha256:12", "app@md5:" + "0" * 32, "a//b", "/app", "app/", "host:99999/app",
                "-a", "a__-b", "x" * 700):
        reply = cove.post("/v1/templates", {"image": bad})
        c.same((reply.status, reply.json["reason"]), (400, "bad_reference"), "%.20r is no reference" % bad)
    c.same(len(registry.requests), before, "and no request leaves")
    c.same(cove.post("/v1/templates", {"image": "app", "platform": "linux"}).json["reason"], "wrong_platform", "half a platform is refused")


# ---------------------------------------------------------------------------------------- types, platforms

def forms(cove, registry):
    for what, image in (("an OCI manifest", r.Image([SMALL])), ("a Docker manifest", r.Image([SMALL], docker=True)),
                        ("gzip of two members", r.Image([SMALL], pack=lambda data: gzip.compress(data[:512]) + gzip.compress(data[512:]))),
                        ("plain tar", r.Image([SMALL], pack=bytes))):
        registry.add(image)
        reply = pull(cove, registry)
        c.ok(reply.status == 201 and reply.json["files"] == 2, what, reply)
    other = r.Image([SMALL], arch="s390x")
    mine = r.Image([SMALL], {"Env": ["A=b"]})
    unknown = {"os": "unknown", "architecture": "unknown"}
    for kind in (r.INDEX, r.DOCKER + "list.v2+json"):
        top = registry.add_index([(other, {"os": "linux", "architecture": "s390x"}), (mine, unknown), (mine, {"os": "linux", "architecture": r.ARCH})], kind=kind)
        reply = pull(cove, registry)
        c.ok(reply.status == 201 and reply.json["digest"] == top and reply.json["config"] == {"Env": ["A=b"]}, "an index: " + kind[12:], reply)
    registry.add_index([(other, {"os": "linux", "architecture": "s390x"})])
    reply = pull(cove, registry)
    c.ok(reply.json["reason"] == "wrong_platform" and "linux/s390x" in reply.json["message"], "an index without this platform says what it has", reply)
    reply = pull(cove, registry, platform="linux/s390x")
    c.ok(reply.status == 201 and reply.json["platform"] == "linux/s390x", "which can be asked for", reply)
    c.same(cove.post("/v1/sandboxes", {"template": reply.json["name"]}).json["reason"], "wrong_platform", "but starts no sandbox")
    registry.add(other)
    refused(cove, registry, 400, "wrong_platform", "a lone manifest is judged by its configuration")
    for what, change in (("schema 1", {"mediaType": "application/vnd.docker.distribution.manifest.v1+json"}), ("index and manifest at once", {"manifests": []})):
        image = r.Image([SMALL])
        data = json.dumps(dict(json.loads(image.manifest), **change)).encode()
        image.manifest, image.digest = data, r.digest(data)
        registry.add(image)
        refused(cove, registry, 400, "bad_media_type", what + " is refused")


# ------------------------------------------------------------------------------------------ verification

def lies(cove, registry):
    image = registry.add(r.Image([SMALL, BIG]))
    for what, of in (("the configuration", image.config), ("a layer", image.packed[1])):
        bent = bytearray(of)
        bent[len(bent) // 2] ^= 1
        registry.blobs[r.digest(of)] = bytes(bent)
        refused(cove, registry, 400, "digest_mismatch", "one bit of %s is noticed" % what)
        registry.blobs[r.digest(of)] = of + b"x"
        refused(cove, registry, 400, "digest_mismatch", "and one byte more")
        registry.blobs[r.digest(of)] = of
    registry.manifests[image.digest] = (image.type, image.manifest + b" ")
    refused(cove, registry, 400, "digest_mismatch", "a manifest that was asked for by its digest, too", image="%s/app@%s" % (registry.host, image.digest))
    registry.add(r.Image([SMALL], diff_ids=[r.digest(b"other")]))
    refused(cove, registry, 400, "digest_mismatch", "and a layer that unpacks to something else")
    registry.add(r.Image([SMALL[:-600]], pack=bytes))
    reply = pull(cove, registry)
    c.ok(reply.status == 400 or reply.status == 201, "a layer without its end is right by its digest or refused", reply)
    registry.manifests["big"] = (r.MANIFEST, b" " * (9 << 20))
    registry.tags["app", "latest"] = "big"
    refused(cove, registry, 413, "archive_too_large", "a manifest of 9 MiB is too large")
    c.ok(clean(cove), "no part of an image is left")


# ---------------------------------------------------------------------------------------------- transfer

class Cuts:
    """Answers the first requests for a blob in another way."""

    def __init__(self, digest, *ways):
        self.digest, self.ways, self.ranges = digest, list(ways), []

    def __call__(self, handler, kind, name):
        if name != self.digest:
            return False
        self.ranges.append(handler.headers.get("Range"))
        if not self.ways:
            return False
        return self.ways.pop(0)(handler)


def cut(data, at):
    def run(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:at])
        handler.wfile.flush()
        handler.connection.close()
        return True
    return run


def says(status, **headers):
    return lambda handler: handler.send(status, b"{}", **headers) or True


def transfers(cove, registry):
    image = r.Image([r.tar([("opt", None), ("opt/%d" % next(number), os.urandom(1 << 20), 0o644)])])
    data = image.packed[0]
    registry.add(image)

    def goes(what, want, *ways):
        fresh = r.Image([r.tar([("opt", None), ("opt/%d" % next(number), os.urandom(1 << 20), 0o644)])])
        registry.add(fresh)
        body = fresh.packed[0]
        registry.hook = Cuts(r.digest(body), *[way(body) for way in ways])
        reply = pull(cove, registry)
        c.ok(reply.status == 201 and registry.hook.ranges == want(len(body)), what, (reply, registry.hook.ranges))
        registry.hook = None
    del data
    half = 1 << 19
    goes("a layer that is cut goes on where it was cut", lambda n: [None, "bytes=%d-" % half], lambda d: cut(d, half))
    goes("and without ranges is read again", lambda n: [None, "bytes=%d-" % half], lambda d: cut(d, half),
         lambda d: lambda handler: handler.send(200, d) or True)
    goes("a busy registry is asked again", lambda n: [None, None, None], lambda d: says(503), lambda d: says(429, Retry_After="1"))
    goes("a part that overlaps is not believed, and asked for again", lambda n: [None] + ["bytes=%d-" % half] * 2, lambda d: cut(d, half),
         lambda d: lambda handler: handler.send(206, d[5:], Content_Range="bytes 5-%d/%d" % (len(d) - 1, len(d))) or True)
    fresh = registry.add(r.Image([r.tar([("x", b"%d" % next(number), 0o644)])]))
    registry.hook = Cuts(r.digest(fresh.packed[0]), says(403))
    refused(cove, registry, 403, "registry_denied", "403 is final")
    c.same(len(registry.hook.ranges), 1, "and asked once")
    registry.hook = None


def once(cove, registry):
    """Ten requests for one image share its download; a cancel ends it."""
    image = registry.add(r.Image([r.tar([("opt", None), ("opt/once", os.urandom(1 << 20), 0o644)])]))
    gate = threading.Event()

    def held(handler, kind, name):
        if name == r.digest(image.packed[0]):
            gate.wait(60)
        return False
    registry.hook = held
    replies = []
    body = {"image": registry.host + "/app", "name": "once"}
    threads = [threading.Thread(target=lambda: replies.append(cove.post("/v1/templates", body))) for _ in range(10)]
    for thread in threads:
        thread.start()
    c.ok(c.until(lambda: registry.asked(r.digest(image.packed[0])), 60), "ten pulls begin")
    running = [one for one in cove.get("/v1/operations").json["items"] if one["state"] == "running"]
    c.same((len(running), running[0]["progress"]["phase"]), (1, "fetch"), "as one operation")
    gate.set()
    for thread in threads:
        thread.join()
    c.ok(all(reply.status == 201 for reply in replies), "and end well", replies)
    c.same(len(registry.asked(r.digest(image.packed[0]))), 1, "with one download")
    gate.clear()
    image = registry.add(r.Image([r.tar([("opt", None), ("opt/never", os.urandom(1 << 20), 0o644)])]))
    reply = cove.request("POST", "/v1/templates?wait=false", {"image": registry.host + "/app", "name": "never"})
    c.same((reply.status, reply.json["kind"]), (202, "pull"), "?wait=false answers with the operation")
    at = reply.headers["Location"] if "Location" in reply.headers else "/v1/operations/" + reply.json["id"]
    feed = c.Stream(cove, at + "/events")
    c.ok(c.until(lambda: any(event.get("phase") == "fetch" for event in feed.got), 60), "whose events tell of progress", feed.got)
    c.same(cove.request("DELETE", at).json["state"], "cancelled", "DELETE cancels it")
    c.ok(c.until(lambda: feed.got and feed.got[-1].get("state") == "cancelled", 60), "which its events tell", feed.got[-1:])
    c.ok(clean(cove) and cove.get("/v1/templates/never").status == 404, "and nothing is left")
    gate.set()
    registry.hook = None
    c.same(cove.get("/v1/operations/op-none").status, 404, "an unknown operation is not there")


def waits(cove, registry):
    """I-3: a sandbox whose create waits for a pull is shown, holds its name, can be deleted, and is gone with the daemon; the pull goes on."""
    gate = threading.Event()

    def begin(name, method="POST", image=None):
        image = image or registry.add(r.Image([r.base(), r.tar([("opt", None), ("opt/%d" % next(number), b"x", 0o644)])], {"Env": ["FROM=image"], "WorkingDir": "/opt"}), name)
        registry.hook = lambda handler, kind, what: kind == "blobs" and what == r.digest(image.packed[1]) and gate.wait(120) and False
        got = []
        body = {"image": "%s/%s" % (registry.host, name), "env": {"MINE": "1"}}

        def ask():
            try:
                got.append(cove.request(method, "/v1/sandboxes" + ("/" + name if method == "PUT" else ""), dict(body, name=name)))
            except (OSError, http.client.HTTPException):
                got.append(None)
        thread = threading.Thread(target=ask)
        thread.start()
        return got, thread, image

    def shown(name):
        found = cove.get("/v1/sandboxes/" + name)
        return found.status == 200 and found.json.get("waiting")

    got, thread, image = begin("wait-one")
    c.ok(c.until(lambda: shown("wait-one"), 60), "a sandbox that waits for its image is shown")
    one = cove.get("/v1/sandboxes/wait-one").json
    c.same((one["state"], one["waiting"]["reason"], cove.get("/v1/operations/" + one["waiting"]["operation"]).json["state"]), ("creating", "pull", "running"), "as creating, with its pull")
    c.same([item["waiting"]["reason"] for item in cove.get("/v1/sandboxes").json["items"] if item["name"] == "wait-one"], ["pull"], "also in the list")
    c.same(cove.post("/v1/sandboxes", {"name": "wait-one"}).json["reason"], "name_taken", "it holds its name")
    same, second, _ = begin("wait-one", "PUT", image)
    gate.set()
    thread.join()
    second.join()
    box = got[0].json
    c.same((got[0].status, same[0].status, same[0].json["id"], box["state"], box.get("waiting")), (201, 200, box["id"], "running", None), "then it runs; who asked for that name gets it, too")
    c.same(cove.out(box, "echo $FROM $MINE $PWD"), "image 1 /opt\n", "with the image's configuration and what the create says")
    cove.delete(box)
    gate.clear()
    got, thread, _ = begin("wait-two")
    c.until(lambda: shown("wait-two"), 60)
    operation = cove.get("/v1/sandboxes/wait-two").json["waiting"]["operation"]
    c.same((cove.request("DELETE", "/v1/sandboxes/wait-two").status, cove.get("/v1/sandboxes/wait-two").status), (204, 404), "one that waits is deleted at once")
    gate.set()
    thread.join()
    c.same((got[0].status, got[0].json["reason"], cove.get("/v1/operations/" + operation).json["state"]), (499, "deleted", "succeeded"), "its create ends, and the pull goes on")
    gate.clear()
    got, thread, _ = begin("wait-three")
    c.until(lambda: shown("wait-three"), 60)
    operation = cove.get("/v1/sandboxes/wait-three").json["waiting"]["operation"]
    pid = cove.children()["daemon"]
    os.kill(pid, signal.SIGKILL)
    thread.join()
    c.until(lambda: cove.children().get("daemon") not in (None, pid), 60)
    gate.set()
    c.same(c.patiently(lambda: cove.get("/v1/sandboxes/wait-three")).status, 404, "after kill -9 nothing is left of a create that waited")
    c.ok(c.until(lambda: cove.get("/v1/operations/" + operation).json.get("state") == "succeeded", 120, 0.2), "and its pull goes on")
    registry.hook = None
    got = cove.post("/v1/sandboxes", {"name": "wait-four", "image": registry.host + "/none"})
    c.same((got.json["reason"], cove.get("/v1/sandboxes/wait-four").status), ("no_image", 404), "a pull that fails leaves no sandbox")
    cove.post("/v1/templates/prune", {})


def many(cove, registry):
    """More pulls than the warden unpacks at a time, and the cancel of one that is being unpacked."""
    ids = []
    for i in range(7):
        registry.add(r.Image([r.tar([("f%d-%d" % (i, next(number)), os.urandom(100000), 0o644)])]), "many%d" % i)
        ids.append(cove.request("POST", "/v1/templates?wait=false", {"image": "%s/many%d" % (registry.host, i)}).json["id"])
    c.ok(c.until(lambda: all(cove.get("/v1/operations/" + one).json["state"] == "succeeded" for one in ids), 120, 0.2), "seven pulls at once end well",
         [cove.get("/v1/operations/" + one).json for one in ids])
    registry.add(r.Image([r.tar([("d%d/%d" % (i % 50, i), b"x", 0o644) for i in range(60000)])]), "files")
    at = "/v1/operations/" + cove.request("POST", "/v1/templates?wait=false", {"image": registry.host + "/files", "name": "files"}).json["id"]
    c.ok(c.until(lambda: cove.get(at).json["progress"]["layers"][:1] and cove.get(at).json["progress"]["layers"][0]["state"] == "unpacking", 120, 0.01), "an image of 60,000 files is unpacked")
    c.same((cove.request("DELETE", at).json["state"], cove.get("/v1/templates/files").status), ("cancelled", 404), "and cancelled meanwhile")

    def is_clean():
        cove.post("/v1/templates/prune", {})
        held = {layer["diffId"] for one in cove.get("/v1/templates").json["items"] for layer in one.get("layers", [])}
        return len([name for name in os.listdir(os.path.join(cove.data, "layers")) if name.startswith((".layer-", ".new-"))]) == len(held)
    c.ok(c.until(is_clean, 120, 0.5), "whose layer is removed")


# --------------------------------------------------------------------------------------- authentication

def passwords(cove):
    registry = r.StandIn(basic="me:secret-word")
    registry.add(r.Image([SMALL]))
    refused(cove, registry, 403, "registry_denied", "a private image is denied without a password")
    refused(cove, registry, 403, "registry_denied", "and with a wrong one", auth={"username": "me", "password": "no"})
    reply = pull(cove, registry, auth={"username": "me", "password": "secret-word"})
    c.same(reply.status, 201, "and pulled with the right one, by Basic")
    refused(cove, registry, 403, "registry_denied", "which is not kept")
    config = os.path.join(cove.home, "docker")
    os.makedirs(config)

    def by_files(content, what):
        with open(config + "/config.json", "w") as file:
            json.dump(content, file)
        got = c.Cli(cove.data, DOCKER_CONFIG=config, PATH=config + ":" + os.environ["PATH"])("template", "pull", registry.host + "/app", "--name", "cli%d" % next(number))
        c.ok(got.status == 0, what, got)
    by_files({"auths": {registry.host: {"auth": base64.b64encode(b"me:secret-word").decode()}}}, "the command line takes it from docker's file")
    with open(config + "/docker-credential-test", "w") as file:
        file.write('#!/bin/sh\nread host\n[ "$1 $host" = "get %s" ] && echo \'{"Username":"me","Secret":"secret-word"}\'\n' % registry.host)
    os.chmod(config + "/docker-credential-test", 0o755)
    by_files({"auths": {registry.host: {}}, "credsStore": "test"}, "and from docker's helpers")
    by_files({"credHelpers": {registry.host: "test"}}, "of that host, too")
    found = subprocess.run(["grep", "-rlE", "secret-word|" + base64.b64encode(b"me:secret-word").decode(), cove.data, cove.log_path], stdout=subprocess.PIPE, text=True)
    c.same(found.stdout, "", "the password is nowhere in the log and the state")
    registry.stop()


def tokens(cove):
    registry = r.StandIn(token=True)
    image = registry.add(r.Image([SMALL, BIG]))
    c.same(pull(cove, registry).status, 201, "an anonymous token")
    c.same(registry.asked("/token")[0][1], "/token?service=stand-in&scope=repository%3Aapp%3Apull", "is asked for with service and scope")

    def expire(handler, kind, name):
        if kind == "blobs" and name == r.digest(image.packed[0]):
            registry.hook = None
            registry.tokens += 1  # what is out there is void now
        return False
    registry.add(r.Image([r.tar([("a", b"1", 0o644)])]))
    image = registry.add(r.Image([r.tar([("a", b"2", 0o644)])]))
    registry.hook = expire
    c.same(pull(cove, registry).status, 201, "a token that expires in the middle is renewed")
    registry.token = "me:word"
    refused(cove, registry, 403, "registry_denied", "the token server wants a password")
    reply = pull(cove, registry, auth={"username": "me", "password": "word"})
    c.same(reply.status, 201, "which it gets")
    registry.stop()


def redirects(cove, registry):
    other = r.StandIn(basic="me:word")
    target = r.StandIn()
    image = other.add(r.Image([r.tar([("r", b"%d" % next(number), 0o644)])]))
    target.blobs.update(image.blobs)

    def away(handler, kind, name):
        if kind == "blobs" and other.is_authorized(handler):
            handler.send(307, Location="http://%s/v2/x/blobs/%s" % (target.host, name))
        return kind == "blobs"
    other.hook = away
    c.same(pull(cove, other, auth={"username": "me", "password": "word"}).status, 201, "a blob is fetched where the registry sends us")
    c.same([request for request in target.requests if "Authorization" in request[2]], [], "which sees no password")
    other.hook = lambda handler, kind, name: handler.send(307, Location=handler.path) or True
    refused(cove, other, 502, "registry_unreachable", "a circle of redirects ends")
    other.hook = lambda handler, kind, name: handler.send(302, Location="file:///etc/passwd") or True
    refused(cove, other, 502, "registry_unreachable", "and file: is no redirect")
    other.stop()
    target.stop()


def addresses(cove, registry):
    cove.request("PUT", "/v1/tenants/acme", {})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use", "templates"]}).json["key"]
    before = len(registry.requests)
    for host in (registry.host, "localhost:%d" % registry.port):
        reply = cove.request("POST", "/v1/templates", {"image": host + "/app"}, key=key)
        c.ok(reply.status == 403 and reply.json["reason"] in ("not_global", "insecure_registry"), "a tenant does not reach %s" % host.split(":")[0], reply)
    for host in ("10.0.0.1", "169.254.169.254", "192.168.1.1:5000"):
        reply = cove.post("/v1/templates", {"image": host + "/app"})
        c.ok(reply.status == 403 and reply.json["reason"] == "not_global", "nobody reaches " + host, reply)
    c.same(len(registry.requests), before, "and no connection was made")
    reply = cove.request("POST", "/v1/templates", {"image": "x"}, key=cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use"]}).json["key"])
    c.same((reply.status, reply.json["reason"]), (403, "not_allowed"), "a pull needs the scope templates")
    mine = pull(cove, registry)
    c.same(cove.request("GET", "/v1/templates/" + mine.json["name"], key=key).status, 404, "another tenant does not see the image")
    c.same(cove.request("GET", "/v1/operations", key=key).json["items"] != [], True, "a tenant sees its own operations")
    c.same([one for one in cove.request("GET", "/v1/operations", key=key).json["items"] if one["image"].startswith("127.0.0.1") and one["state"] == "succeeded"], [], "and no others")


def quota(cove, secure):
    big = secure.add(r.Image([r.tar([("opt", None), ("opt/big", os.urandom(20 << 20), 0o644)])]), "big")
    cove.request("PUT", "/v1/tenants/small", {"quota": {"diskMB": 8}})
    key = cove.post("/v1/keys", {"tenant": "small", "scopes": ["read", "make", "use", "templates"]}).json["key"]
    refused(cove, secure, 429, "quota", "an image larger than the tenant's quota is refused", name="big", key=key)
    c.same(secure.asked(r.digest(big.packed[0])), [], "before it is fetched")
    reply = pull(cove, secure, key=key)
    c.same(reply.status, 201, "a small one is pulled")
    used = cove.get("/v1/tenants/small").json["used"]
    c.ok("imagesMB" in used, "and counted", used)


def patterns(cove, secure):
    """I-9: a tenant pulls what the patterns of its terms match, and starts nothing else that was pulled before."""
    cove.request("PUT", "/v1/tenants/few", {})
    key = cove.post("/v1/keys", {"tenant": "few", "scopes": ["read", "make", "use", "templates"]}).json["key"]
    c.same((cove.get("/v1/tenants/few").json["images"], pull(cove, secure, key=key).status), (["*"], 201), "without patterns a tenant may pull every image")
    for images, status in (([secure.host + "/other*"], 403), ([], 403), ([secure.host + "/app:2"], 403), ([secure.host + "/a*:latest"], 200), ([secure.host + "/app"], 200)):
        cove.request("PUT", "/v1/tenants/few", {"images": images})
        before = len(secure.requests)
        reply = cove.request("POST", "/v1/templates", {"image": secure.host + "/app", "name": "one"}, key=key)
        c.ok(reply.status in (status, 201 if status == 200 else 403), "with %s a pull is %d" % (images, status), reply)
        if status == 403:
            made = cove.request("POST", "/v1/sandboxes", {"image": secure.host + "/app"}, key=key)
            c.same([reply.json["reason"], made.json["reason"], len(secure.requests) - before], ["image_not_allowed"] * 2 + [0],
                   "as is a create, also of an image that is there, and nothing is asked")
    c.same(cove.request("PUT", "/v1/tenants/few", {"images": ["a b"]}).json["reason"], "bad_field", "what is no pattern is refused")
    cli = c.Cli(cove.data)
    got = cli("tenant", "set", "few", "--image", "docker.io/library/*", "--image", secure.host + "/app")
    c.same((got.status, cove.get("/v1/tenants/few").json["images"]), (0, ["docker.io/library/*", secure.host + "/app"]), "cove tenant set --image")
    c.same(cove.request("POST", "/v1/templates", {"image": "%s/app@%s" % (secure.host, "sha256:" + "0" * 64)}, key=key).json["reason"], "no_image",
           "a pattern without a tag also permits digests")


def transport(home):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry.test", "-addext",
                    "subjectAltName=DNS:registry.test", "-keyout", home + "/key.pem", "-out", home + "/ca.pem"], check=True, stderr=subprocess.DEVNULL)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(home + "/ca.pem", home + "/key.pem")
    secure, mirror = r.StandIn(tls=tls), r.StandIn()
    image = secure.add(r.Image([SMALL]))
    secure.host = "registry.test:%d" % secure.port
    common = ["--egress-hosts", "registry.test=127.0.0.1, lone.test=127.0.0.1", "--registry-exceptions", "127.0.0.1"]
    plain = c.Cove(*common)
    refused(plain, secure, 502, "tls_untrusted", "a private CA is not trusted")
    plain.stop()
    cove = c.Cove(*common, "--registry-ca", home + "/ca.pem", "--registry-insecure", "lone.test:%d" % mirror.port,
                  "--registry-mirrors", "%s=http://lone.test:%d/cache" % (secure.host, mirror.port))
    mirror.manifests, mirror.blobs, mirror.tags = secure.manifests, secure.blobs, {("cache/app", "latest"): image.digest}

    def without_prefix(handler, kind, name):
        handler.path = handler.path.replace("/cache/v2/", "/v2/cache/")
        return False
    mirror.hook = None
    answer = mirror.answer

    def prefixed(handler):
        without_prefix(handler, "", "")
        return answer(handler)
    mirror.answer = prefixed
    reply = pull(cove, secure)
    c.ok(reply.status == 201 and reply.json["image"] == secure.host + "/app:latest", "a mirror serves the image, under the registry's name", reply)
    c.same((bool(mirror.requests), secure.requests), (True, []), "and the registry is not asked")
    image = secure.add(r.Image([r.tar([("m", b"1", 0o644)])]))
    mirror.stop()
    reply = pull(cove, secure)
    quota(cove, secure)
    patterns(cove, secure)
    c.ok(reply.status == 201 and len(secure.requests) >= 3, "a mirror that is down is passed over; registry-ca makes the registry trusted", reply)
    c.same(cove.stop(), 0, "cove stops")


def remote():
    """A registry elsewhere (127.0.0.2 by another name) that leads to this host's loopback."""
    away, hidden = r.StandIn(address="127.0.0.2"), r.StandIn()
    away.host = "remote.test:%d" % away.port
    cove = c.Cove("--egress-hosts", "remote.test=127.0.0.2", "--registry-exceptions", "127.0.0.2", "--registry-insecure", away.host)
    away.add(hidden.add(r.Image([SMALL])))
    c.same(pull(cove, away).status, 201, "a registry elsewhere")
    me = {"username": "me", "password": "word"}
    for scheme, host, plain, secret in (("http", "127.0.0.1", "insecure_registry", "registry_denied"), ("http", "localhost", "insecure_registry", "registry_denied"),
                                        ("https", "127.0.0.1", "not_global", "not_global")):
        place = "%s://%s:%d" % (scheme, host, hidden.port)
        away.hook = lambda handler, kind, name: handler.send(307, Location=place + handler.path) or True
        refused(cove, away, 403, plain, "does not redirect the operator to " + place)
        away.hook = lambda handler, kind, name: handler.send(401, b"{}", WWW_Authenticate='Bearer realm="%s/token",service="s"' % place) or True
        refused(cove, away, 403, plain, "nor names it as its realm")
        refused(cove, away, 403, secret, "nor gets a password there", auth=me)
    c.same(hidden.requests, [], "and no request came")
    c.same(pull(cove, hidden).status, 201, "which the operator may name")
    c.same(cove.stop(), 0, "cove stops")
    away.stop()
    hidden.stop()
    mirror = r.StandIn()
    mirror.add(r.Image([SMALL]))
    cove = c.Cove("--registry-mirrors", "remote.test=http://127.0.0.1:%d" % mirror.port)
    c.same(cove.post("/v1/templates", {"image": "remote.test/app", "name": "mirrored"}).status, 201, "or configure as a mirror")
    c.same(cove.stop(), 0, "cove stops")
    mirror.stop()


cove = c.Cove()
registry = r.StandIn()
references(cove, registry)
forms(cove, registry)
lies(cove, registry)
transfers(cove, registry)
once(cove, registry)
waits(cove, registry)
many(cove, registry)
passwords(cove)
tokens(cove)
redirects(cove, registry)
addresses(cove, registry)
c.same(cove.get("/v1/verify").json["ok"], True, "cove verify is clean")
registry.stop()
remote()
transport(cove.home)
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
