#!/usr/bin/env python3
"""The tree of a pulled image is that of `umoci raw unpack`: whiteouts, opaque marks, links through lower layers, replaced files."""
import os
import random
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402
from trees import DIR, LNK, REG, SYM, d, f, layer, tree  # noqa: E402

CASES = {
    "a directory, then its whiteout: the lower one is hidden": [[d("d"), f("d/x", b"low")], [d("d"), f("d/z", b"up"), f(".wh.d")]],
    "the whiteout first": [[d("d"), f("d/x", b"low")], [f(".wh.d"), d("d"), f("d/z", b"up")]],
    "an opaque mark after the entries": [[d("d"), f("d/x"), d("d/s"), f("d/s/y")], [d("d"), f("d/z"), f("d/.wh..wh..opq")]],
    "and before": [[d("d"), f("d/x")], [d("d"), f("d/.wh..wh..opq"), f("d/z")]],
    "a path through a lower link": [[d("e"), ("lnk", SYM, "e")], [f("lnk/via", b"1")]],
    "a hard link to a lower file": [[f("a", b"same")], [("b", LNK, "a")]],
    "hard links within a layer": [[f("a", b"same"), ("b", LNK, "a"), d("x"), ("x/c", LNK, "b")], [f("z")]],
    "a file over a directory": [[d("d"), f("d/x")], [f("d", b"file")]],
    "a directory over a file": [[f("d", b"file")], [d("d"), f("d/x")]],
    "parents without entries": [[f("p/q/r", b"1")], [f("p/q/s/t", b"2")]],
    "an entry twice: the last": [[f("a", b"1"), f("a", b"22")], [f("b")]],
    "a whiteout of what is not there": [[f("a")], [f(".wh.none"), d("n"), f("n/.wh.none")]],
    "a file that a lower link has the name of": [[f("t", b"t"), ("s", SYM, "t")], [f("s", b"own")]],
    "set-id and sticky bits, owners": [[f("s", b"", 0o4755, 1000, 1001), d("t", 0o1777, 0, 50)], [f("s2", b"", 0o2711, 3, 4)]],
    "names of any bytes": [[f("caf\u00e9"), f("a b\n\t")], [f(".wh.a b\n\t")]],
}


def some_layers(seed):
    """Two layers over a handful of names."""
    dice = random.Random(seed)
    names = ["a", "b", "a/b", "a/c", "b/a", "a/b/c", "b/c/a"]
    layers = []
    for depth in range(2):
        entries, dirs = [], set()
        for _ in range(dice.randint(1, 7)):
            name = dice.choice(names)
            parents = ["/".join(name.split("/")[:i]) for i in range(1, name.count("/") + 1)]
            if any(entry[0] == parent and entry[1] != DIR for entry in entries for parent in parents):
                continue
            for parent in parents:
                if parent not in dirs:
                    dirs.add(parent)
                    entries.append(d(parent))
            kind = dice.choice("fffdw" if depth else "fffd")
            if any(entry[0].startswith(name + "/") or entry[0] == name for entry in entries):
                continue
            if kind == "d":
                dirs.add(name)
                entries.append(d(name))
            elif kind == "w":
                head, _, last = name.rpartition("/")
                entries.append(f((head + "/" if head else "") + ".wh." + last))
            else:
                entries.append(f(name, b"%d-%d" % (depth, dice.randint(0, 9))))
        layers.append(entries or [f("x")])
    return layers


def unpack(home, image):
    layout, to = os.path.join(home, "layout"), os.path.join(home, "bundle")
    shutil.rmtree(layout, ignore_errors=True)
    shutil.rmtree(to, ignore_errors=True)
    image.layout(layout)
    subprocess.run(["umoci", "raw", "unpack", "--image", layout + ":latest", to], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return tree(to)


def pulled(cove, registry, image):
    registry.add(image)
    reply = cove.post("/v1/templates", {"image": registry.host + "/app", "name": "tree"})
    if reply.status != 201:
        return reply
    layers = os.path.join(cove.data, "layers")
    names = [name for name in os.listdir(layers) if name.startswith(".layer-")]
    newest = max(names, key=lambda name: os.stat(os.path.join(layers, name, "meta")).st_mtime_ns)
    found = tree(os.path.join(layers, newest, "root"))
    cove.request("DELETE", "/v1/templates/tree")
    return found


cove = c.Cove()
registry = r.StandIn()
for what, layers in CASES.items():
    image = r.Image([layer(*entries) for entries in layers])
    c.same(pulled(cove, registry, image), unpack(cove.home, image), what)
failed = []
for seed in range(60):
    image = r.Image([layer(*entries) for entries in some_layers(seed)])
    if pulled(cove, registry, image) != unpack(cove.home, image):
        failed.append(seed)
c.same(failed, [], "60 random pairs of layers")
odd = []
for name, kind, number in (("dev", tarfile.CHRTYPE, (1, 3)), ("fifo", tarfile.FIFOTYPE, (0, 0))):
    info = tarfile.TarInfo(name)
    info.type, (info.devmajor, info.devminor) = kind, number
    odd.append(info)
owner = tarfile.TarInfo("owner")
owner.uid = 70000
registry.add(r.Image([r.tar(odd + [owner])]))
c.same(cove.post("/v1/templates", {"image": registry.host + "/app", "name": "odd"}).json["dropped"],
       {"devices": 1, "fifos": 1, "sockets": 0, "xattrs": 0, "ids": 1}, "what a sandbox cannot have is counted")
registry.add(r.Image([layer(f("../x"))]))
reply = cove.post("/v1/templates", {"image": registry.host + "/app", "name": "dots"})
c.same((reply.status, reply.json["reason"]), (400, "bad_archive"), "a path that leads out is refused")
registry.stop()
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
