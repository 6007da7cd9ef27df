#!/usr/bin/env python3
"""I-56: random images, by seed, unpack to the same tree as skopeo and umoci make of them: over gzip, zstd, Docker's types, plain tars, both archives,
from Debian's docker-registry. COVE_SOAK: 1,000 of them, in place of 40."""
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402
from trees import LNK, SYM, d, f, layer, tree  # noqa: E402

c.need_programs("docker-registry", "skopeo", "umoci", "zstd")
COUNT = 1000 if os.environ.get("COVE_SOAK") else 40
NAMES = ["a", "b", "c", "a/b", "a/c", "b/a", "b/c", "c/a", "a/b/c", "b/c/a", "c/a/b"]
MODES = [0o644, 0o600, 0o755, 0o4755, 0o2711, 0o1777, 0o000]


def headers(dice):
    found = {}
    if dice.random() < 0.5:
        found["mtime"] = "%d.%09d" % (1500000000 + dice.randint(0, 99), dice.randint(1, 999999999))
    if dice.random() < 0.2:
        found["SCHILY.xattr.user.k%d" % dice.randint(0, 2)] = "v%d" % dice.randint(0, 9)
    return found


def entry(dice, name, kind, below, own):
    owner = (dice.choice(MODES), dice.choice((0, 1, 1000, 65533)), dice.choice((0, 50, 1001)))
    if kind == "d":
        return d(name, *owner, headers(dice))
    if kind == "l":
        return (name, SYM, dice.choice(("a", "b/c", "../b", "/c", "nowhere", "c/a")), *owner, {})
    targets = [one for one in own + below if one != name]
    if kind == "h" and targets:
        return (name, LNK, dice.choice(targets), *owner, {})
    return f(name, b"%d" % dice.randint(0, 10 ** dice.randint(0, 5)) * dice.choice((1, 1, 3000)), *owner, headers(dice))


def layers_of(seed):
    """Two or three layers over a handful of names. Directories have entries, so that none is made of a lower file."""
    dice, layers, below = random.Random(seed), [], []
    for depth in range(dice.choice((2, 2, 3))):
        entries, dirs, own, used = [], set(), [], set()
        for _ in range(dice.randint(1, 9)):
            name, kind = dice.choice(NAMES), dice.choice("fffdlhwwo" if depth else "fffdlh")
            parents = ["/".join(name.split("/")[:i]) for i in range(1, name.count("/") + 1)]
            if any(one in used and one not in dirs for one in parents) or name in used or any(one.startswith(name + "/") for one in used):
                continue
            for one in parents:
                if one not in dirs:
                    dirs.add(one)
                    used.add(one)
                    entries.append(d(one, 0o755, 0, 0))
            head = name.rpartition("/")[0]
            if kind == "w":
                entries.append(f((head + "/" if head else "") + ".wh." + name.rpartition("/")[2]))
            elif kind == "o" and head:
                entries.append(f(head + "/.wh..wh..opq"))
            elif kind != "o":
                used.add(name)
                entries.append(entry(dice, name, kind, below if depth else [], own))
                if kind == "d":
                    dirs.add(name)
                elif kind == "f":
                    own.append(name)
        layers.append(layer(*entries) if entries else layer(f("x")))
        below = own
    return layers


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def skopeo(*words):
    subprocess.run(["skopeo", "copy", "-q", "--insecure-policy", "--src-tls-verify=false", "--dest-tls-verify=false", *words], check=True, stdout=subprocess.DEVNULL)


class Pair:
    """What cove makes of an image, and what its peers make of it."""

    def __init__(self, cove, debian):
        self.cove, self.debian, self.work = cove, debian, os.path.join(cove.home, "work")

    def at(self, name):
        return os.path.join(self.work, name)

    def peers(self):
        """The tree of the layout; None: umoci refuses it."""
        done = subprocess.run(["umoci", "raw", "unpack", "--image", self.at("layout") + ":latest", self.at("tree")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return tree(self.at("tree")) if done.returncode == 0 else None

    def tops(self):
        where = os.path.join(self.cove.data, "layers")
        return {name: os.stat(os.path.join(where, name, "meta")).st_mtime_ns for name in os.listdir(where) if os.path.exists(os.path.join(where, name, "meta"))}

    def made(self, reply):
        if reply.status not in (200, 201):
            return None if reply.json["reason"] == "bad_archive" else reply
        tops = self.tops()
        newest = max(tops, key=tops.get)
        found = tree(os.path.join(self.cove.data, "layers", newest, "root"))
        found[0].pop(b".cove-image.json", None)  # the configuration of an import
        self.cove.request("DELETE", "/v1/templates/pair")
        self.cove.post("/v1/templates/prune", {})
        return found

    def pull(self, name):
        return self.made(self.cove.post("/v1/templates", {"image": "%s/%s" % (self.debian.host, name), "name": "pair"}))

    def archive(self, path):
        with open(path, "rb") as file:
            return self.made(self.cove.request("POST", "/v1/templates?name=pair", file.read(), headers={"Content-Type": "application/x-tar"}, raw=True))

    def run(self, seed, form):
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        image = r.Image(layers_of(seed))
        image.layout(self.at("layout"))
        layout, name, there = "oci:%s:latest" % self.at("layout"), "app%d:1" % seed, "docker://%s/app%d:1" % (self.debian.host, seed)
        if form == "oci-archive" or form == "docker-archive":
            skopeo(layout, "%s:%s:app:1" % (form, self.at("file")))
            return self.archive(self.at("file")), self.peers()
        if form == "zstd" or form == "tar":
            other = r.Image(layers_of(seed), pack=zstd if form == "zstd" else bytes, form=form)
            other.layout(self.at("other"))
            skopeo("--preserve-digests", "oci:%s:latest" % self.at("other"), there)
            return self.pull(name), self.peers()
        skopeo(*(["--format", "v2s2"] if form == "docker" else []), layout, there)
        if form == "gzip":  # the peers take it from the registry, too
            shutil.rmtree(self.at("layout"))
            skopeo(there, layout)
        return self.pull(name), self.peers()


FORMS = ("gzip", "zstd", "docker", "tar", "oci-archive", "docker-archive")
cove = c.Cove()
debian = r.Debian(cove.home)
pair = Pair(cove, debian)
wrong, refused = {form: [] for form in FORMS}, 0
for seed in range(COUNT):
    form = FORMS[seed % len(FORMS)]
    mine, theirs = pair.run(seed, form)
    refused += theirs is None
    if mine != theirs:
        wrong[form].append(seed)
        c.note("seed %d: %s" % (seed, [one for one in zip(sorted(mine[0].items()), sorted(theirs[0].items())) if one[0] != one[1]][:3] if isinstance(mine, tuple) else mine))
for form in FORMS:
    c.same(wrong[form], [], "random images, %s: the tree is that of umoci, and what that refuses is refused" % form)
c.ok(refused <= COUNT / 5, "umoci takes most of them", refused)
c.same(cove.get("/v1/verify").json["ok"], True, "cove verify is clean")
debian.stop()
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
