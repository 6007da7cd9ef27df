#!/usr/bin/env python3
"""Templates as OCI layouts: skopeo and umoci read what cove writes, and what cove imports again is the same, on every disk driver."""
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402
from trees import tree  # noqa: E402

BASE = r.base()
TRICKY = r.tar([("opt", None), ("opt/d", None, 0o2775, 7), ("opt/d/x", b"low", 0o4755, 1000), ("opt/gone", b"1"), ("opt/old", None),
                ("opt/old/f", b"2"), r.link("opt/link", "d/x"), ("opt/a", b"hard", 0o640), r.link("opt/b", "opt/a", tarfile.LNKTYPE),
                ("opt/caf\u00e9 \n", b"3")])
# What a sandbox does: new, changed, removed and replaced files, another name of a lower file, a hole, a name of any bytes.
CHANGE = """cd /opt && echo new >new && echo more >>d/x && rm -r gone old && echo file >old && ln a c && chmod 600 a && \
rm -rf d2 && mkdir -p d2/e && ln new d2/e/h && ln -s ../new d2/s && printf x >$(printf 'n\\377') && \
dd if=/dev/zero of=hole bs=1 count=1 seek=268435456 2>/dev/null && touch -d @1500000000.123456789 d2/e/t && mkdir full && rm -r full"""
CONFIG = {"Env": ["GREETING=from the image", "PATH=/usr/bin"], "User": "agent:agent", "WorkingDir": "/srv/app", "Entrypoint": ["/bin/bash"],
          "Labels": {"a.b": "c d", "e": ""}, "ExposedPorts": {"80/tcp": {}, "53/udp": {}}, "Volumes": {"/data": {}}, "StopSignal": "SIGUSR1"}


def same(got, want, what):
    """c.same() of trees, telling only the difference."""
    if isinstance(got, tuple) and isinstance(want, tuple) and got != want:
        got, want = [{key: one for key, one in a[0].items() if b[0].get(key) != one} for a, b in ((got, want), (want, got))] + [got[1] == want[1]], []
    c.same(got, want, what)


def export(cove, name, **query):
    path = "/v1/templates/%s/export?%s" % (name, "&".join("%s=%s" % pair for pair in query.items()))
    return cove.get(path)


def blobs(data):
    """The files of a layout, each compared with its name."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            if member.isreg():
                found[member.name] = archive.extractfile(member).read()
    wrong = [name for name, data in found.items() if name.startswith("blobs/") and hashlib.sha256(data).hexdigest() != name[13:]]
    c.same(wrong, [], "every blob has the digest that it is named by")
    return found


def layers(data):
    files = blobs(data)
    index = json.loads(files["index.json"])
    manifest = json.loads(files["blobs/sha256/" + index["manifests"][0]["digest"][7:]])
    return manifest["layers"], json.loads(files["blobs/sha256/" + manifest["config"]["digest"][7:]])


def inspect(home, data):
    path = os.path.join(home, "export.tar")
    with open(path, "wb") as file:
        file.write(data)
    done = subprocess.run(["skopeo", "inspect", "oci-archive:" + path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def unpack(home, data, name):
    """The tree as umoci unpacks it."""
    layout, to = os.path.join(home, "layout"), os.path.join(home, "bundle")
    for path in (layout, to):
        shutil.rmtree(path, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(layout)
    subprocess.run(["umoci", "raw", "unpack", "--image", "%s:%s" % (layout, name), to], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = tree(to)
    shutil.rmtree(to)
    return found


def imported(cove, data, name):
    """The tree as cove unpacks it."""
    reply = cove.request("POST", "/v1/templates?name=" + name, data, {"Content-Type": "application/x-tar"}, raw=True)
    if reply.status != 201:
        return reply
    found, groups = tree(os.path.join(cove.data, "layers", name, "root"))
    found.pop(b".cove-image.json", None)
    return found, groups


def bring(cove, name, data):
    reply = cove.request("POST", "/v1/templates?name=" + name, data, {"Content-Type": "application/x-tar"}, raw=True)
    c.same(reply.status, 201, name + " is imported")


def layout(image):
    """An image as the tar of a layout."""
    home = os.path.join(cove.home, "made")
    shutil.rmtree(home, ignore_errors=True)
    image.layout(home)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(home, ".")
    return out.getvalue()


def templates(cove):
    data = layout(r.Image([BASE, TRICKY], CONFIG))
    want = unpack(cove.home, data, "latest")
    same(imported(cove, data, "base"), want, "an image is imported")
    reply = export(cove, "base")
    c.same((reply.status, reply.headers["Content-Type"]), (200, "application/x-tar"), "I-43: a template is exported")
    same(unpack(cove.home, reply.body, "base"), want, "I-43: umoci unpacks the same tree")
    seen = inspect(cove.home, reply.body)
    c.ok(isinstance(seen, dict) and seen["Os"] == "linux" and seen["Architecture"] == r.ARCH and seen["Env"] == CONFIG["Env"],
         "I-43: skopeo reads it, with the environment", seen)
    found, config = layers(reply.body)
    c.same((len(found), {key: config["config"].get(key) for key in CONFIG}), (1, CONFIG), "I-43: one layer, and the configuration")
    same(imported(cove, reply.body, "again"), want, "I-43: cove imports the same tree")
    box = cove.create(template="again")
    c.same(cove.out(box, "echo $GREETING; pwd; id -un"), "from the image\n/srv/app\nagent\n", "I-43: whose sandboxes have the configuration")
    cove.delete(box)
    c.same(export(cove, "base").body == reply.body, True, "I-43: the same bytes each time")
    packed = export(cove, "base", compression="zstd")
    kinds = [layer["mediaType"] for layer in layers(packed.body)[0]]
    c.same(kinds, ["application/vnd.oci.image.layer.v1.tar+zstd"], "zstd is to be had")
    c.ok(isinstance(inspect(cove.home, packed.body), dict), "I-43: skopeo reads that, too")
    same(imported(cove, packed.body, "small"), want, "and cove imports the same")


def snapshots(cove, word):
    box = cove.create(template="base", workdir="/tmp")
    cove.run(box, CHANGE, user="root")
    look = "cd /opt && find . -printf '%p %M %U %G %s %T@ %l\\n' | sort && sha256sum a b c d/x new d2/e/h old && stat -c %h a new"
    want = cove.out(box, look, user="root")
    c.same(cove.post("/v1/sandboxes/%s/snapshot" % box["id"], {"name": "snap"}).status, 201, word + ": a snapshot")
    cove.delete(box)
    reply = export(cove, "snap")
    c.same((reply.status, len(layers(reply.body)[0])), (200, 2), word + ": I-43: it is exported, in two layers")
    flat = export(cove, "snap", squash="true")
    c.same((flat.status, len(layers(flat.body)[0])), (200, 1), word + ": squashed, in one")
    tree = unpack(cove.home, flat.body, "snap")
    same(unpack(cove.home, reply.body, "snap"), tree, word + ": I-43: umoci unpacks both to the same tree")
    same(imported(cove, reply.body, "two"), tree, word + ": I-43: cove does, of two layers")
    same(imported(cove, flat.body, "one"), tree, word + ": and of one")
    for name in ("two", "one"):
        again = cove.create(template=name)
        c.same(cove.out(again, "pwd; id -un; " + look, user="root"), "/tmp\nroot\n" + want, word + ": a sandbox from it has the files of the first one")
        cove.delete(again)
    c.same(export(cove, "snap").body == reply.body, True, word + ": I-43: the same bytes each time")
    config = layers(reply.body)[1]["config"]
    c.same((config.get("User"), config.get("WorkingDir"), config["Env"]), ("agent:agent", "/tmp", CONFIG["Env"]), word + ": user and directory are the sandbox's")
    host = cove.create()
    cove.run(host, "echo mine >/workspace/f; rm -rf /etc/apt")
    cove.post("/v1/sandboxes/%s/snapshot" % host["id"], {"name": "over-host"})
    reply = export(cove, "over-host")
    c.same((reply.status, reply.json["reason"]), (400, "not_layered"), word + ": I-45: what is over the host is no layer")
    cove.delete(host)
    for name in ("two", "one", "snap"):
        c.same(cove.request("DELETE", "/v1/templates/" + name).status, 204, word + ": %s is removed" % name)


def images(cove):
    """A pulled image keeps its layers; a sandbox of the image that was imported again shows the same files."""
    registry = r.StandIn()
    upper = r.tar([("opt/d/x", b"up"), (".wh.workspace", b""), ("opt/.wh.gone", b""), r.link("opt/c", "opt/a", tarfile.LNKTYPE),
                   ("opt/old", b"file"), ("opt/new", b"1")])
    image = r.Image([BASE, TRICKY, upper, r.tar([])], CONFIG)
    registry.add(image)
    c.same(cove.post("/v1/templates", {"image": registry.host + "/app", "name": "app"}).status, 201, "an image of four layers is pulled")
    registry.stop()
    want = unpack(cove.home, layout(image), "latest")
    reply = export(cove, "app")
    found, config = layers(reply.body)
    c.same((reply.status, len(found), config["config"]), (200, 4, CONFIG), "I-43: it is exported, in its layers, with its configuration")
    same(unpack(cove.home, reply.body, "app"), want, "I-43: umoci unpacks the tree that it unpacks of the image")
    same(imported(cove, reply.body, "app-again"), want, "I-43: cove imports it")
    flat = export(cove, "app", squash="true")
    c.same((len(layers(flat.body)[0]), unpack(cove.home, flat.body, "app")), (1, want), "I-43: squashed it is the same tree in one layer")
    with tarfile.open(fileobj=io.BytesIO(blobs(reply.body)["blobs/sha256/" + found[2]["digest"][7:]])) as archive:
        names = {member.name for member in archive if not member.isdir()}
    c.same(names, {"opt/d/x", "opt/a", "opt/b", "opt/c", "opt/old", "opt/new", ".wh.workspace", "opt/.wh.gone"},
           "a layer has what it changed, and all names of a file that got another one")


def built(cove):
    """I-43: what a Dockerfile says of the image is in its export, and in what is made from that."""
    lines = ["FROM cove://base", "LABEL made.by=test \"with blank\"=yes", "EXPOSE 8080 9090/udp", "VOLUME /more", "STOPSIGNAL SIGINT", "CMD [\"-c\", \"id\"]"]
    c.same(cove.post("/v1/builds", {"name": "built", "dockerfile": "\n".join(lines)}).status, 201, "a template is built")
    want = {"Labels": dict(CONFIG["Labels"], **{"made.by": "test", "with blank": "yes"}), "ExposedPorts": {port: {} for port in ("80/tcp", "53/udp", "8080/tcp", "9090/udp")},
            "Volumes": {"/data": {}, "/more": {}}, "StopSignal": "SIGINT", "Cmd": ["-c", "id"], "Entrypoint": CONFIG["Entrypoint"]}
    reply = export(cove, "built", squash="true")
    seen = inspect(cove.home, reply.body)
    c.same(seen["Labels"], want["Labels"], "I-43: skopeo shows its labels")
    done = subprocess.run(["skopeo", "inspect", "--config", "oci-archive:" + os.path.join(cove.home, "export.tar")], stdout=subprocess.PIPE, check=True)
    config = json.loads(done.stdout)["config"]
    c.same({key: config.get(key) for key in want}, want, "I-43: and its labels, ports, volumes, signal and commands")
    bring(cove, "built-again", reply.body)
    config = layers(export(cove, "built-again").body)[1]["config"]
    c.same({key: config.get(key) for key in want}, want, "I-43: as does the export of what was imported again")
    for name in ("built", "built-again"):
        c.same(cove.request("DELETE", "/v1/templates/" + name).status, 204, name + " is removed")


def changed(data, path, change):
    """The same layout with a file of it replaced."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for member in old:
            body = old.extractfile(member).read() if member.isreg() else b""
            if member.isreg() and path in member.name:
                body = change(body)
                member.size = len(body)
            new.addfile(member, io.BytesIO(body))
    return out.getvalue()


def hostile(cove):
    """Layouts that lie: each is refused, and leaves nothing."""
    small = r.tar([("etc", None), ("etc/motd", b"hello\n")])
    image = r.Image([small])
    good = layout(image)
    names = {"layer": r.digest(image.packed[0])[7:], "configuration": r.digest(image.config)[7:], "manifest": image.digest[7:]}
    before = sorted(os.listdir(os.path.join(cove.data, "layers")))
    cases = [("one bit of the " + what, changed(good, name, lambda body: body[:-9] + bytes([body[-9] ^ 1]) + body[-8:]), "digest_mismatch")
             for what, name in names.items()]
    cases += [("a longer layer", changed(good, names["layer"], lambda body: body + b"x"), "digest_mismatch"),
              ("a layer that unpacks to something else", layout(r.Image([small], diff_ids=[r.digest(b"other")])), "digest_mismatch"),
              ("fewer digests than layers", layout(r.Image([small, small], diff_ids=[r.digest(small)])), "bad_image"),
              ("an index of another machine's", changed(good, "index.json", lambda body: body.replace(
                  b'"size"', b'"platform": {"os": "linux", "architecture": "s390x"}, "size"')), "wrong_platform"),
              ("a digest that is a path", changed(good, "index.json", lambda body: body.replace(image.digest.encode(), b"sha256:" + b"../" * 21 + b"x")),
               "bad_image"),
              ("an index without manifests", changed(good, "index.json", lambda body: b'{"schemaVersion": 2}'), "bad_image"),
              ("half a layout", good[:len(good) // 2], "bad_archive"),
              ("a layer that leads out", layout(r.Image([r.tar([("../out", b"x")])])), "bad_archive"),
              ("a layer that is no tar", layout(r.Image([b"noise" * 300])), "bad_archive")]
    for what, data, reason in cases:
        reply = cove.request("POST", "/v1/templates?name=bad", data, {"Content-Type": "application/x-tar"}, raw=True)
        c.same((reply.status, reply.json["reason"]), (400, reason), "I-22: %s is refused" % what)
    c.same(cove.request("POST", "/v1/templates?name=good", good, {"Content-Type": "application/x-tar"}, raw=True).status, 201,
           "the layout that they were made from is not")
    cove.request("DELETE", "/v1/templates/good")
    left = [name for name in os.listdir(os.path.join(cove.data, "layers")) if not name.startswith((".gone-", ".trash"))]
    c.same(sorted(left), [name for name in before if not name.startswith((".gone-", ".trash"))], "and nothing of the others is left")


def refusals(cove):
    for name, query, status, reason in (("none", {}, 404, "no_template"), ("host", {}, 400, "not_layered"), ("base", {"compression": "xz"}, 400, "bad_field"),
                                        ("base", {"squash": "maybe"}, 400, "bad_field")):
        reply = export(cove, name, **query)
        c.same((reply.status, reply.json["reason"]), (status, reason), "an export of %s%r is refused" % (name, query))
    bring(cove, "hides", r.tar([("etc", None), ("etc/.wh.passwd", b"")]))
    reply = export(cove, "hides")
    c.same((reply.status, reply.json["reason"]), (400, "bad_archive"), "a file with the name of a whiteout is in no layer")
    cove.request("PUT", "/v1/tenants/acme", {})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "templates"]}).json["key"]
    c.same(cove.get("/v1/templates/hides/export", key=key).json["reason"], "no_template", "another tenant's template is absent")
    key = cove.post("/v1/keys", {"scopes": ["make", "use"]}).json["key"]
    c.same(cove.get("/v1/templates/base/export", key=key).status, 403, "a key needs the scope templates")
    rows = [row for row in cove.get("/v1/audit").json["items"] if row["action"].endswith("/export") and row["target"] == "base"]
    c.ok(rows, "I-53: exports are in the audit log")


def commands(cove):
    cli = c.Cli(cove.data)
    path = os.path.join(cove.home, "out.tar")
    done = cli("template", "export", "base", "-o", path)
    with open(path, "rb") as file:
        c.same((done.status, file.read() == export(cove, "base").body), (0, True), "cove template export writes the file")
    c.same(cli("template", "export", "base", "--squash").out == export(cove, "base", squash="true").body, True, "or to standard output")
    done = cli("template", "import", "mine", path)
    c.ok(done.status == 0 and "mine" in cli("template", "ls").text, "cove template import reads it", done)
    gone = os.path.join(cove.home, "gone.tar")
    done = cli("template", "export", "none", "-o", gone)
    c.ok(done.status == 3 and "none" in done.err and not os.path.exists(gone), "an unknown template is told, and leaves no file", done)
    c.same(cli("template", "export", "base", "-o", path, "--compression", "zstd").status, 0, "--compression zstd")


c.need_root()
for driver in ("btrfs", "ext4-image", "directory"):
    cove = c.Cove("--disk", driver, start=False)
    try:
        cove.start()
    except Exception as err:  # noqa: BLE001
        c.skip(driver, "this host cannot: %s" % err)
        continue
    templates(cove)
    snapshots(cove, driver)
    if driver == "btrfs":
        images(cove)
        built(cove)
        hostile(cove)
        refusals(cove)
        commands(cove)
    c.same(cove.get("/v1/verify").json["ok"], True, driver + ": the host shows nothing else")
    c.same(cove.stop(), 0, driver + ": cove stops")
    c.same(c.remains(cove), {}, driver + ": nothing is left behind")
    cove.close()
c.done()
