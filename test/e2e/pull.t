#!/usr/bin/env python3
"""Images by name, from Debian's docker-registry: pull, create, run, configuration, shared layers, removal."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402

CONFIG = {"Env": ["PATH=/opt/tools:/usr/bin:/bin", "GREETING=from the image"], "User": "agent", "WorkingDir": "/srv/app",
          "Entrypoint": ["/bin/bash", "-c"], "Cmd": ["echo entry of $(id -un) in $PWD"], "ExposedPorts": {"8080/tcp": {}}, "Labels": {"made": "by hand"}}
BASE, BIG = r.base(), os.urandom(3 << 20)
COMMON = r.tar([("opt", None), ("opt/big", BIG, 0o644)])


def pulls(cove, debian):
    image = r.Image([BASE, COMMON, r.tar([("etc/motd", b"one\n", 0o644)])], CONFIG)
    debian.push(image, "app:1.0")
    reply = cove.post("/v1/templates", {"image": debian.host + "/app:1.0"})
    c.same(reply.status, 201, "an image is pulled by its name")
    got = reply.json
    c.same((got["name"], got["kind"], got["image"], got["digest"], got["platform"]),
           ("app-1.0", "image", debian.host + "/app:1.0", image.digest, "linux/" + r.ARCH), "and described: name, digest, platform")
    c.same([layer["diffId"] for layer in got["layers"]], [r.digest(layer) for layer in (BASE, COMMON, r.tar([("etc/motd", b"one\n", 0o644)]))],
           "with its layers")
    c.ok(got["bytes"] >= len(BIG) and got["exclusiveBytes"] == got["bytes"], "their bytes", got)
    c.same((got["config"]["Labels"], got["config"]["ExposedPorts"]), ({"made": "by hand"}, {"8080/tcp": {}}), "its labels and ports are shown")
    c.same(cove.post("/v1/templates", {"image": debian.host + "/app:1.0"}).status, 200, "a second pull finds the same digest")
    c.same(cove.get("/v1/templates/app-1.0").json["digest"], image.digest, "the template is found by its name")
    c.ok("app-1.0" in [one["name"] for one in cove.get("/v1/templates").json["items"]], "and listed")
    c.same([cove.post("/v1/templates", {"image": debian.host + "/" + name}).json["reason"] for name in ("app:none", "no/such:1")],
           ["no_image", "no_image"], "what the registry does not have is no_image")
    by_digest = cove.post("/v1/templates", {"image": "%s/app@%s" % (debian.host, image.digest)})
    c.same((by_digest.status, by_digest.json["name"]), (201, "app-" + image.digest[7:19]), "an image is pulled by its digest, too")
    c.same(cove.request("DELETE", "/v1/templates/" + by_digest.json["name"]).status, 204, "and that name is removed")
    return image


def runs(cove):
    box = cove.create(template="app-1.0", env={"KEPT": "create"})
    c.same((box["template"], box["user"], box["workdir"]), ("app-1.0", "agent", "/srv/app"), "a sandbox starts from the template")
    c.same(cove.out(box, 'echo "$(id -u):$(id -g) $PWD $HOME $GREETING $PATH $KEPT"'),
           "1000:1001 /srv/app /home/agent from the image /opt/tools:/usr/bin:/bin create\n", "with the image's configuration, and what the create says")
    c.same(cove.out(box, "cat /etc/motd; stat -c %s /opt/big"), "one\n%d\n" % len(BIG), "and its files, of all layers")
    c.same(cove.run(box, "echo changed > /etc/passwd")["exitCode"] != 0, True, "which are root's")
    c.same(cove.request("POST", "/v1/sandboxes/%s/stop" % box["id"]).status, 200, "it stops")
    c.same(cove.out(box, "pwd"), "/srv/app\n", "and starts again on the same layer")
    cove.delete(box)


def by_image(cove, debian):
    def count():
        return debian.log().count("/v2/app/manifests/1.0")
    before = count()
    reply = cove.post("/v1/sandboxes", {"image": debian.host + "/app:1.0"})
    c.same((reply.status, count() - before), (201, 0), "a create by image opens no connection when the image is there")
    c.ok(reply.json["image"].startswith(debian.host + "/app:1.0@sha256:"), "and shows the image with its digest", reply.json["image"])
    cove.delete(reply.json)
    reply = cove.post("/v1/sandboxes", {"image": debian.host + "/app:1.0", "pull": "always"})
    c.ok(reply.status == 201 and count() > before, "`always` asks for the manifest", (reply, count(), before))
    cove.delete(reply.json)
    debian.push(r.Image([BASE], {"Env": ["X=1"]}), "fresh:2")
    reply = cove.post("/v1/sandboxes", {"image": debian.host + "/fresh:2", "pull": "never"})
    c.same((reply.status, reply.json["reason"]), (404, "no_image"), "`never` does not pull")
    reply = cove.post("/v1/sandboxes", {"image": debian.host + "/fresh:2"})
    c.same((reply.status, cove.out(reply.json, "echo $X $PWD $(id -u)")), (201, "1 /workspace 0\n"), "`missing` does, and what the image does not say is cove's own")
    cove.delete(reply.json)
    c.same(cove.get("/v1/templates/fresh-2").json["cache"], True, "the template is cache: a create has pulled it")
    reply = cove.post("/v1/sandboxes", {"image": "x", "template": "host"})
    c.same((reply.status, reply.json["reason"]), (400, "bad_field"), "image and template exclude each other")
    c.same(cove.post("/v1/templates/prune", {}).json["templates"], 1, "prune removes what only creates have pulled")
    c.same([cove.get("/v1/templates/" + name).status for name in ("fresh-2", "app-1.0")], [404, 200], "and leaves what has a name")


def shares(cove, debian):
    other = r.Image([BASE, COMMON, r.tar([("etc/motd", b"two\n", 0o644)])])
    debian.push(other, "other:1")
    before = layers(cove)
    reply = cove.post("/v1/templates", {"image": debian.host + "/other:1", "name": "other"})
    c.same(reply.status, 201, "an image with a common beginning")
    c.same(debian.log().count("GET /v2/other/blobs/" + r.digest(other.packed[1])), 0,
           "does not fetch the layers that are there")
    c.same((len(layers(cove)) - len(before), reply.json["exclusiveBytes"]), (1, 4), "and adds one layer of four bytes")
    box = cove.create(template="other")
    c.same(cove.out(box, "cat /etc/motd; sha256sum < /opt/big"), "two\n%s  -\n" % r.digest(BIG)[7:], "its files are right")
    c.same(cove.request("DELETE", "/v1/templates/app-1.0").status, 204, "the first one is removed")
    c.same(cove.out(cove.create(template="other", name="second"), "cat /etc/motd; sha256sum < /opt/big"), "two\n%s  -\n" % r.digest(BIG)[7:],
           "what the second one needs stays")
    c.same(cove.request("DELETE", "/v1/templates/other").status, 204, "the second one, too, under two sandboxes")
    cove.post("/v1/sandboxes/%s/stop" % box["id"])
    c.same(cove.out(box, "cat /etc/motd"), "two\n", "which go on, and start again")
    cove.delete(box)
    cove.delete({"id": "second"})
    cove.request("PUT", "/v1/tenants/acme", {})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["templates"]}).json["key"]
    c.same((cove.request("POST", "/v1/templates/prune", {}, key=key).json, bool(layers(cove))), ({"templates": 0, "bytes": 0}, True), "another tenant's prune leaves them")
    cove.post("/v1/templates/prune", {})
    c.ok(c.until(lambda: not layers(cove), 60), "when the last of them is gone, so are the layers", layers(cove))
    c.same(os.listdir(os.path.join(cove.data, "daemon/blobs")), [], "no part of an image is left")


def copies(cove, debian):
    """A snapshot, and a fork, of a sandbox whose image is removed meanwhile: its layer stays while one of them needs it."""
    before = set(layers(cove))
    debian.push(r.Image([BASE, r.tar([("etc/motd", b"three\n", 0o644)])], CONFIG), "copied:1")
    c.same(cove.post("/v1/templates", {"image": debian.host + "/copied:1", "name": "copied"}).status, 201, "an image to be copied from")
    added = set(layers(cove)) - before
    box = cove.create(template="copied")
    c.same(cove.request("DELETE", "/v1/templates/copied").status, 204, "it is removed under its sandbox")
    c.same(cove.out(box, "echo mine > /etc/f && cat /etc/f", user="root"), "mine\n", "its sandbox writes a file")
    forks = cove.post("/v1/sandboxes/%s/fork" % box["id"], {"count": 2}).json["items"]
    heirs = [item["sandbox"] for item in forks]
    c.same([cove.out(heir, "cat /etc/f /etc/motd; echo $GREETING $(id -u)") for heir in heirs], ["mine\nthree\nfrom the image 1000\n"] * 2,
           "forks have its files, those of the layer, and the image's configuration")
    c.same([heir["image"] for heir in heirs], [box["image"]] * 2, "and name the image")
    made = cove.post("/v1/sandboxes/%s/snapshot" % box["id"], {"name": "kept"})
    c.same((made.status, made.json.get("kind"), made.json.get("lineage", {}).get("template")), (201, "snapshot", "copied"), "it is copied as a snapshot")
    reply = cove.post("/v1/templates", {"image": debian.host + "/copied:1", "name": "copied"})
    taken = cove.post("/v1/sandboxes/%s/snapshot" % box["id"], {"name": "copied"})
    c.same((reply.status, taken.status, taken.json["reason"]), (201, 409, "template_exists"), "a snapshot has no name of an image")
    kinds = {one["name"]: one["kind"] for one in cove.get("/v1/templates").json["items"]}
    c.same((kinds.get("kept"), kinds.get("copied")), ("snapshot", "image"), "snapshots and images are in one list")
    cove.request("DELETE", "/v1/templates/copied")
    cove.delete(box)
    cove.delete(heirs.pop())
    cove.post("/v1/templates/prune", {})
    c.same(added - set(layers(cove)), set(), "a fork holds the layer")
    cove.post("/v1/sandboxes/%s/stop" % heirs[0]["id"])
    c.same(cove.out(heirs[0], "cat /etc/f /etc/motd"), "mine\nthree\n", "and starts again on it")
    cove.delete(heirs[0])
    cove.post("/v1/templates/prune", {})
    c.ok(c.until(lambda: not added & set(layers(cove)), 60), "without it the daemon lets the layer go", layers(cove))
    late = cove.create(snapshot="kept")
    c.same((cove.out(late, "cat /etc/f /etc/motd"), late["workdir"]), ("mine\nthree\n", "/srv/app"), "the snapshot still stands on it")
    c.same(cove.request("DELETE", "/v1/templates/kept").status, 204, "the snapshot is removed")
    cove.post("/v1/sandboxes/%s/stop" % late["id"])
    c.same(cove.out(late, "cat /etc/f /etc/motd"), "mine\nthree\n", "and its sandbox starts again")
    c.same(cove.get("/v1/verify").json["ok"], True, "cove verify is clean meanwhile")
    cove.delete(late)
    gone = os.path.join(cove.data, "layers")
    c.ok(c.until(lambda: not [name for name in os.listdir(gone) if name.startswith(".gone-")], 60), "then the layer goes, too", os.listdir(gone))


def layers(cove):
    return [name for name in os.listdir(os.path.join(cove.data, "layers")) if name.startswith(".layer-")]


def command_line(cove, debian):
    cli = c.Cli(cove.data)
    got = cli("template", "pull", debian.host + "/app:1.0", "--name", "mine")
    c.ok(got.status == 0 and "mine" in got.text, "cove template pull", got)
    c.ok("mine" in cli("template", "ls").text, "cove template ls shows it")
    got = cli("run", "--image", debian.host + "/app:1.0")
    c.same((got.status, got.text), (0, "entry of agent in /srv/app\n"), "cove run --image runs the entry point")
    got = cli("run", "--template", "mine", "--", "id", "-u")
    c.same((got.status, got.text), (0, "1000\n"), "and a command by the image's user")
    got = cli("template", "pull", debian.host + "/none:1")
    c.ok(got.status == 3 and "none" in got.err, "an unknown image is told", got)
    c.same(cli("template", "prune", "-q").status, 0, "cove template prune")
    c.same(cli("template", "rm", "mine").status, 0, "cove template rm")


cove = c.Cove()
debian = r.Debian(cove.home)
pulls(cove, debian)
runs(cove)
by_image(cove, debian)
copies(cove, debian)
shares(cove, debian)
command_line(cove, debian) if "--image" in subprocess.run([c.BIN, "help", "run"], stdout=subprocess.PIPE, text=True).stdout else None
c.same(cove.get("/v1/verify").json["ok"], True, "cove verify is clean")
debian.stop()
reply = cove.post("/v1/templates", {"image": debian.host + "/app:1.0"})
c.same((reply.status, reply.json["reason"]), (502, "registry_unreachable"), "a registry that is down is told")
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
