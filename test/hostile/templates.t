#!/usr/bin/env python3
"""Groups F, G: hostile archives and images, imported as templates."""
import contextlib
import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import tempfile

from rows import c, play, row


def tar(entries):
    """(name, kind, payload): kind is a tarfile type; payload bytes, or a link's target."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, payload in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mode = 0o755
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = payload
            if kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
                info.devmajor, info.devminor = payload
            data = payload if kind == tarfile.REGTYPE else b""
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


REG, DIR, SYM, LNK, CHR, FIFO = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE,
                                 tarfile.CHRTYPE, tarfile.FIFOTYPE)


def probe_program():
    """A static program for roots without anything: the box-audit of the build, or busybox."""
    for path in (os.environ.get("COVE_AUDIT", ""), os.path.join(c.INMATES, "box-audit"), "/bin/busybox"):
        if path and os.path.exists(path):
            return open(path, "rb").read()
    return None


def send(stage, name, body, kind="application/x-tar"):
    return stage.cove.request("POST", "/v1/templates?name=" + name, body, headers={"Content-Type": kind}, raw=True)


def forget(stage, name):
    return stage.cove.request("DELETE", "/v1/templates/" + name).status


@row("F-11", "an archive writes nothing outside of its template")
def escapes(stage):
    with tempfile.TemporaryDirectory() as outside:
        sentinel = os.path.join(outside, "sentinel")
        with open(sentinel, "w") as file:
            file.write("good")
        depth = "../" * 40
        attempts = {
            "dots": [(depth + sentinel.lstrip("/"), REG, b"evil")],
            "absolute": [(sentinel, REG, b"evil")],
            "link-then-file": [("out", SYM, outside), ("out/sentinel", REG, b"evil")],
            "relative-link": [("a/out", SYM, depth + outside.lstrip("/")), ("a/out/sentinel", REG, b"evil")],
            "hardlink": [("h", LNK, sentinel), ("h", REG, b"evil")],
            "hard-dots": [("h", LNK, depth + sentinel.lstrip("/")), ("h", REG, b"evil")],
            "dir-replaced": [("d", DIR, b""), ("d", SYM, outside), ("d/sentinel", REG, b"evil")],
        }

        def attack(stage):
            send(stage, "evil-absolute", tar([("ok", REG, b"x")] + attempts["absolute"]))
            with open(sentinel) as file:
                left = file.read()
            with open(sentinel, "w") as file:
                file.write("good")
            forget(stage, "evil-absolute")
            return left
        # Whoever unpacks outside of the jail must have the host's ids as well, or can write nothing.
        stage.control_weak("jail,userns,paths", attack, lambda left: left == "evil")
        stage.depth("jail,userns", attack, lambda left: left == "good")
        stage.depth("paths", attack, lambda left: left == "good")
        for name, entries in attempts.items():
            reply = send(stage, "evil-" + name, tar([("ok", REG, b"x")] + entries))
            c.ok(reply.status in (201, 400, 403), "F-11: %s is answered" % name, reply)
            if reply.status == 201:
                forget(stage, "evil-" + name)
            c.same(open(sentinel).read(), "good", "F-11: %s left the sentinel alone" % name)
            c.same(os.listdir(outside), ["sentinel"], "F-11: %s made no file outside" % name)


def on_disk(top):
    """Bytes that a directory takes of its file system; others write there, too."""
    total = 0
    for folder, _, names in os.walk(top):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


@row("F-13", "a bomb is stopped by its ratio, and nothing stays")
def bomb(stage):
    # 256 MiB of zeros in 256 KiB: past what may grow freely, and a thousandfold.
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as squeezed:
        info = tarfile.TarInfo("bomb")
        info.size = 256 << 20
        squeezed.write(info.tobuf())
        block = bytes(1 << 20)
        for _ in range(256):
            squeezed.write(block)
        squeezed.write(bytes(1024))

    def attack(stage):
        before = on_disk(stage.cove.data)
        reply = send(stage, "bomb", out.getvalue(), "application/gzip")
        grown = on_disk(stage.cove.data) - before
        if reply.status == 201:
            forget(stage, "bomb")
        return reply, grown
    stage.control_weak("ratio", attack, lambda got: got[0].status == 201 and got[1] > 200 << 20)
    before = on_disk(stage.cove.data)
    reply, _ = attack(stage)
    c.ok(reply.status in (413, 507), "F-13: refused", reply)
    c.ok("bomb" not in [t["name"] for t in stage.cove.get("/v1/templates").json["items"]], "F-13: no template stays")
    c.ok(c.until(lambda: on_disk(stage.cove.data) < before + (64 << 20)), "F-13: the space comes back",
         before, on_disk(stage.cove.data))


@row("K-27", "device nodes of an archive are dropped")
def nodes(stage):
    program = probe_program()
    if not program:
        stage.controlled = True
        return c.skip("K-27: an image with a node", "neither box-audit nor busybox is here")

    def attack(stage):
        """Device nodes in the layers, after an import that went well."""
        reply = send(stage, "nodes", tar([("bin", DIR, b""), ("bin/busybox", REG, program), ("mem", CHR, (1, 1)), ("pipe", FIFO, b"")]))
        c.same(reply.status, 201, "K-27: the rest of the image is fine")
        layers = os.path.join(stage.cove.data, "layers")
        found = [os.path.join(top, f) for top, _, files in os.walk(layers) for f in files
                 if stat.S_ISCHR(os.lstat(os.path.join(top, f)).st_mode) or stat.S_ISBLK(os.lstat(os.path.join(top, f)).st_mode)]
        c.same(forget(stage, "nodes"), 204, "K-27: it can be removed")
        return found
    stage.control_weak("jail,userns,nodes", attack, lambda found: len(found) == 1)
    stage.depth("nodes", attack, lambda found: not found)
    c.same(attack(stage), [], "K-27: no node in any layer")


def oci(layers, tamper=None):
    """An OCI layout as a tar: layers are tars; `tamper` may change the dict of files."""
    files = {}

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        files["blobs/sha256/" + digest] = data
        return {"digest": "sha256:" + digest, "size": len(data)}
    machine = {"aarch64": "arm64", "x86_64": "amd64"}[os.uname().machine]
    config = blob(json.dumps({"architecture": machine, "os": "linux", "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(l).hexdigest() for l in layers]}}).encode())
    config["mediaType"] = "application/vnd.oci.image.config.v1+json"
    parts = [dict(blob(gzip.compress(l)), mediaType="application/vnd.oci.image.layer.v1.tar+gzip") for l in layers]
    manifest = dict(blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                                     "config": config, "layers": parts}).encode()),
                    mediaType="application/vnd.oci.image.manifest.v1+json")
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()
    files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    if tamper:
        tamper(files)
    return tar([("blobs", DIR, b""), ("blobs/sha256", DIR, b"")] + [(n, REG, d) for n, d in files.items()])


@row("G-03", "images that lie are refused, and an honest one is unpacked in order")
def images(stage):
    program = probe_program() or b"#!/bin/sh\n"
    base = tar([("bin", DIR, b""), ("bin/busybox", REG, program), ("gone", REG, b"x"), ("dir", DIR, b""), ("dir/old", REG, b"x"), ("keep", REG, b"1")])
    top = tar([(".wh.gone", REG, b""), ("dir", DIR, b""), ("dir/.wh..wh..opq", REG, b""), ("dir/new", REG, b"y"), ("keep", REG, b"2")])
    reply = send(stage, "honest", oci([base, top]))
    if c.ok(reply.status == 201, "G-03: an honest image", reply):
        root = [os.path.join(d, "root") for d in (os.path.join(stage.cove.data, "layers", "honest"),) if os.path.isdir(d)]
        if root:
            got = sorted(os.path.relpath(os.path.join(t, f), root[0]) for t, _, fs in os.walk(root[0]) for f in fs)
            c.same(got, [".cove-image.json", "bin/busybox", "dir/new", "keep"], "G-03: whiteouts and order are kept")
            c.same(open(os.path.join(root[0], "keep")).read(), "2", "G-03: the upper layer wins")
        forget(stage, "honest")

    def swap_blob(files):
        name = [n for n in files if n.startswith("blobs") and files[n][:2] == b"\x1f\x8b"][0]
        files[name] = gzip.compress(tar([("evil", REG, b"evil")]))
    lies = {
        "digest": oci([base], swap_blob),
        "no-manifest": oci([base], lambda f: f.update({"index.json": b'{"schemaVersion":2,"manifests":[]}'})),
        "bad-index": oci([base], lambda f: f.update({"index.json": b"{"})),
        "media-type": oci([base], lambda f: f.update({"index.json": f["index.json"].replace(b"manifest.v1", b"novel.v9")})),
        "escape": oci([base, tar([("../.wh.x", REG, b"")])]),
        "missing-blob": oci([base], lambda f: [f.pop(n) for n in list(f) if n.startswith("blobs") and f[n][:2] == b"\x1f\x8b"]),
        "digest-path": oci([base], lambda f: f.update({"index.json": f["index.json"].replace(b"sha256:", b"sha256:../../", 1)})),
    }
    def swapped(stage):
        status = send(stage, "lie-digest", lies["digest"]).status
        if status == 201:
            forget(stage, "lie-digest")
        return status
    stage.control_weak("digest", swapped, lambda status: status == 201)
    for name, body in lies.items():
        reply = send(stage, "lie-" + name, body)
        c.ok(400 <= reply.status < 500, "G-03: %s is refused with a reason" % name, reply)
        c.ok(reply.json.get("reason"), "G-03: %s says why" % name)
    names = [t["name"] for t in stage.cove.get("/v1/templates").json["items"]]
    c.same([n for n in names if n.startswith("lie-")], [], "G-03: nothing is kept of them")


@row("G-05", "names are names, not paths")
def names(stage):
    body = tar([("x", REG, b"x")])
    for name in ("..%2f..%2fx", "%2e%2e", ".hidden", "-rf", "A", "caf%C3%A9", "a" * 300, "a%00b", "a%0ab", "a/b", "", "host", "con%20", "%", "x;id"):
        reply = stage.cove.request("POST", "/v1/templates?name=" + name, body, headers={"Content-Type": "application/x-tar"}, raw=True)
        c.ok(reply.status in (400, 409), "G-05: %r is refused" % name[:20], reply)
    reply = send(stage, "a.b_c-9", body)
    stage.twin(reply.status == 201 and forget(stage, "a.b_c-9") == 204, "an honest name is taken", reply)


@row("G-04", "what is not an archive is refused")
def garbage(stage):
    for what, body in {"nothing": b"", "text": b"hello world" * 100, "cut": tar([("a", REG, b"x" * 100000)])[:50000],
                       "gzip of garbage": gzip.compress(b"garbage" * 1000), "cut gzip": gzip.compress(os.urandom(100000))[:5000]}.items():
        reply = send(stage, "garbage", body)
        c.ok(reply.status == 400, "G-04: %s is a 400" % what, reply)
    reply = send(stage, "whole", gzip.compress(tar([("a", REG, b"x" * 100000)])))
    stage.twin(reply.status == 201 and forget(stage, "whole") == 204, "the same, whole, is taken", reply)


@row("G-06", "an image whose mount points are links is refused")
def links(stage):
    if not os.path.exists("/bin/busybox"):
        stage.controlled = True
        return c.skip("G-06: an image with links", "there is no /bin/busybox")
    with open("/bin/busybox", "rb") as file:
        root = [("bin", DIR, b""), ("bin/busybox", REG, file.read()), ("bin/sh", SYM, "busybox"), ("etc", DIR, b"")]

    def create(entries, on=stage):
        reply = send(on, "links", tar(root + entries))
        c.same(reply.status, 201, "G-06: an image with %s is an archive like others" % [e[0] for e in entries])
        return on.cove.request("POST", "/v1/sandboxes", {"template": "links"})

    def attack(stage):  # /run is mounted where the image's link leads
        reply = create([("run", SYM, "/etc")], stage)
        if reply.status != 201:
            return reply
        stage.boxes.append(reply.json["id"])
        seen = stage.cove.out(reply.json["id"], ["/bin/busybox", "ls", "/etc"], cwd="/")
        stage.cove.delete(reply.json["id"])
        forget(stage, "links")
        return seen
    stage.control_weak("nofollow", attack, lambda seen: seen == "lock\n")
    hurdles = [(point, SYM, to) for point in ("proc", "dev", "sys", "run") for to in ("/etc", "../../../etc", "/nowhere")]
    for point, kind, to in hurdles + [("dev", REG, b"x"), ("proc", SYM, "proc")]:
        reply = create([(point, kind, to)])
        c.ok(reply.status == 400 and reply.json["reason"] == "bad_image" and reply.json.get("hint"),
             "G-06: /%s as %r is refused with a reason" % (point, to), reply)
        forget(stage, "links")
    before = sorted(os.listdir("/etc"))
    for point in ("workspace", "tmp"):
        reply = create([(point, SYM, "/etc")])
        if c.ok(reply.status == 201, "G-06: /%s may be a link of the image" % point, reply):
            stage.boxes.append(reply.json["id"])
            wrote = stage.cove.run(reply.json["id"], ["/bin/busybox", "sh", "-c", "echo x >/%s/cove-g06; /bin/busybox ls /etc" % point], cwd="/")
            c.ok("cove-g06" in wrote["stdout"], "G-06: it leads into the box's own /etc", wrote)
            stage.cove.delete(reply.json["id"])
        forget(stage, "links")
    c.same(sorted(os.listdir("/etc")), before, "G-06: nothing was written to the host's")


play()
