"""Writes the archives that template_test imports, good and hostile, into the current directory."""
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile

ARCH = {"aarch64": "arm64", "x86_64": "amd64"}[platform.machine()]
DIR, SYM, LNK = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def tar(entries, **options):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as t:
        for name, data, *more in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in (more[0] if more else {}).items():
                setattr(info, key, value)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def put(name, data):
    with open(name, "wb") as f:
        f.write(data)


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def named(data, kind, **more):
    return {"mediaType": kind, "digest": digest(data), "size": len(data), **more}


OCI = "application/vnd.oci.image."
TAR, GZ = OCI + "layer.v1.tar", OCI + "layer.v1.tar+gzip"


def image(layers, media=GZ, config=None, count=None, break_blob=None, manifest_pad=0, plat=None,
          version="1.0.0", wrap=False, size_off=0):
    blobs = {}

    def blob(data):
        blobs["blobs/sha256/" + digest(data)[7:]] = data
        return data

    packed = [blob(gzip.compress(x, mtime=0) if media == GZ else x) for x in layers]
    if config is None:
        config = {"architecture": ARCH, "os": "linux", "config": {"Env": ["A=b"]},
                  "rootfs": {"type": "layers", "diff_ids": [digest(x) for x in layers]}}
    conf = blob(json.dumps(config).encode())
    listed = [named(x, media) for x in packed] * (count or 1)
    for entry in listed:
        entry["size"] += size_off
    manifest = blob(json.dumps({"schemaVersion": 2, "pad": "x" * manifest_pad,
                                "config": named(conf, OCI + "config.v1+json"),
                                "layers": listed}).encode())
    entry = named(manifest, OCI + "manifest.v1+json")
    others = []
    if plat:
        entry["platform"] = plat
        others = [dict(named(b"absent", OCI + "manifest.v1+json"),
                       platform={"os": "linux", "architecture": "sparc"})]
    index = {"schemaVersion": 2, "manifests": others + [entry]}
    if wrap:
        inner = blob(json.dumps(index).encode())
        index = {"schemaVersion": 2, "manifests": [named(inner, OCI + "index.v1+json")]}
    if break_blob is not None:
        key = "blobs/sha256/" + digest(packed[break_blob])[7:]
        blobs[key] = blobs[key][:-1] + bytes([blobs[key][-1] ^ 1])
    files = [("oci-layout", json.dumps({"imageLayoutVersion": version}).encode()),
             ("index.json", json.dumps(index).encode())] + sorted(blobs.items())
    return tar(files)


BASE = tar([("etc/", b"", {"type": DIR, "mode": 0o755}), ("etc/a", b"a1"), ("etc/b", b"b1"),
            ("opt/", b"", {"type": DIR, "mode": 0o755}), ("opt/x", b"x", {"uid": 1000, "gid": 1000}),
            ("opt/deep/old", b"old"), ("usr/bin/su", b"#!/bin/sh\n", {"mode": 0o4755}),
            ("bin", b"", {"type": SYM, "linkname": "usr/bin"}), ("was-dir/f", b"f")])
TOP = tar([("etc/.wh.a", b""), ("opt/deep/new", b"new"), ("opt/.wh..wh..opq", b""), ("opt/y", b"y"),
           ("bin/tool", b"t", {"mode": 0o755}), ("was-dir", b"now a file"),
           ("etc/b", b"b2"), ("gone/.wh.nothing", b"")])

put("good.tar", tar([("./", b"", {"type": DIR, "mode": 0o755}),
                     ("./etc/", b"", {"type": DIR, "mode": 0o750, "uid": 7, "gid": 8}),
                     ("./etc/f", b"hello", {"uid": 1000, "gid": 50, "mode": 0o640, "mtime": 1e9}),
                     ("/abs", b"abs"), ("su", b"s", {"mode": 0o4755}),
                     ("l", b"", {"type": SYM, "linkname": "/etc/f"}),
                     ("h", b"", {"type": LNK, "linkname": "./etc/f"}),
                     ("far", b"", {"uid": 4000000, "gid": 4000000}),
                     ("\u00e4/\u00f6", b"utf8"),
                     ("null", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}),
                     ("disk", b"", {"type": tarfile.BLKTYPE, "devmajor": 254}),
                     ("pipe", b"", {"type": tarfile.FIFOTYPE}),
                     ("x", b"x", {"pax_headers": {"SCHILY.xattr.user.note": "kept",
                                                  "SCHILY.xattr.user.overlay.opaque": "y",
                                                  "SCHILY.xattr.security.capability": "bad",
                                                  "SCHILY.xattr.trusted.overlay.opaque": "y"}})],
                    format=tarfile.PAX_FORMAT))
good = open("good.tar", "rb").read()
put("good.tar.gz", gzip.compress(good))
for tool in ("xz", "bzip2", "zstd"):
    os.system(f"{tool} -q -k -f good.tar 2>/dev/null")
put("cut.tar", good[:len(good) // 1024 * 512])
put("cut.tar.gz", gzip.compress(good)[:-20])
put("empty", b"")
put("noise", os.urandom(100000))
put("nothing.tar", tar([]))
put("nodes.tar", tar([("null", b"", {"type": tarfile.CHRTYPE})]))

put("dotdot.tar", tar([("../evil", b"1")]))
put("dotdot2.tar", tar([("a/../../evil", b"1")]))
put("hard-out.tar", tar([("h", b"", {"type": LNK, "linkname": "/etc/shadow"})]))
put("hard-up.tar", tar([("h", b"", {"type": LNK, "linkname": "../../../../../etc/hostname"})]))
put("sym-up.tar", tar([("lnk", b"", {"type": SYM, "linkname": "../../../../.."}),
                       ("lnk/evil_up", b"1"), ("ok", b"fine"),
                       ("abs", b"", {"type": SYM, "linkname": "/"}), ("abs/evil_abs", b"1"),
                       ("proc", b"", {"type": SYM, "linkname": "/proc/self/root"}),
                       ("h", b"", {"type": LNK, "linkname": "lnk/ok"})]))
put("swap.tar", tar([("d/", b"", {"type": DIR, "mode": 0o755}), ("d/f", b"1"),
                     ("d", b"", {"type": SYM, "linkname": "/tmp"}), ("d/evil_swap", b"1")]))
put("sym-file.tar", tar([("lnk", b"", {"type": SYM, "linkname": "/etc/passwd"}), ("lnk", b"new")]))
put("through-file.tar", tar([("f", b"1"), ("f/g", b"2")]))
put("deep.tar", tar([("d/" * 300 + "f", b"1")]))
put("long.tar", tar([("n" * 300, b"1")]))
put("device-dir.tar", tar([("root/../../stage/x", b"1")]))

with gzip.open("bomb.tar.gz", "wb", compresslevel=9) as f:
    info = tarfile.TarInfo("zeros")
    info.size = 10 << 30
    f.write(info.tobuf())
    block = bytes(1 << 20)
    for i in range(300):
        f.write(block)
info = tarfile.TarInfo("huge")
info.size = 1 << 62
put("claims.tar", info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))

put("image.tar", image([BASE, TOP]))
put("image-plain.tar", image([BASE, TOP], media=TAR, wrap=True))
put("image-platform.tar", image([BASE, TOP], plat={"os": "linux", "architecture": ARCH}))
put("image-foreign.tar", image([BASE], plat={"os": "linux", "architecture": "mips"}))
put("image-digest.tar", image([BASE, TOP], break_blob=1))
put("image-size.tar", image([BASE], size_off=1))
put("image-type.tar", image([BASE], media="application/x-sh"))
put("image-many.tar", image([BASE], count=10000))
put("image-huge.tar", image([BASE], manifest_pad=5 << 20))
put("image-version.tar", image([BASE], version="2.0.0"))
put("image-noise.tar", tar([("oci-layout", b"{"), ("index.json", b"[]")]))
put("image-escape.tar", image([BASE, tar([("../.wh.x", b"")])]))
put("image-escape2.tar", image([BASE, tar([("etc/.wh...", b"")])]))
put("image-escape3.tar", image([BASE, tar([(".wh..", b"")])]))
put("image-layer.tar", image([BASE, b"no tar at all" * 100]))
bad = {"rootfs": {"diff_ids": [digest(BASE)]}}
put("image-env.tar", image([BASE], config=dict(bad, config={"Env": ["=x"]})))
put("image-user.tar", image([BASE], config=dict(bad, config={"User": "root;rm -rf /"})))
put("image-diffs.tar", image([BASE, TOP], config=bad))

config = json.dumps({"rootfs": {"diff_ids": [digest(BASE), digest(TOP)]}}).encode()
name = digest(config)[7:] + ".json"
saved = json.dumps([{"Config": name, "Layers": ["one/layer.tar", "two/layer.tar"]}]).encode()
put("saved.tar", tar([(name, config), ("one/layer.tar", BASE), ("two/layer.tar", TOP),
                      ("manifest.json", saved)]))
put("saved-digest.tar", tar([(name, config), ("one/layer.tar", TOP), ("two/layer.tar", TOP),
                             ("manifest.json", saved)]))
evil = json.dumps([{"Config": name, "Layers": ["/etc/passwd", "../two"]}]).encode()
put("saved-escape.tar", tar([(name, config), ("manifest.json", evil)]))
