#!/usr/bin/env python3
"""I-8, I-18: mirrors of a registry in order, down, lying, changed while cove runs; `cove doctor` asks them; the cache of images that creates pull."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402

BASE = r.base()


def write(**settings):
    with open(FILE + ".new", "w") as file:
        for name, value in settings.items():
            file.write("%s = %s\n" % (name.replace("_", "-"), value))
    os.rename(FILE + ".new", FILE)


def reload(**settings):
    write(**settings)
    done = subprocess.run([cove.binary, "reload", "--data", cove.data], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cove.env, timeout=60)
    return done.returncode


def pull(name, image="app"):
    return cove.post("/v1/templates", {"image": "origin.test/" + image, "name": name})


def mirrors(*urls):
    return {"registry_mirrors": ", ".join("origin.test=" + url for url in urls)}


def order():
    first, second = r.StandIn(), r.StandIn()
    image = r.Image([r.tar([("etc", None), ("etc/one", b"1", 0o644)])])
    for one in (first, second):
        one.add(image)
    url = ["http://" + one.host for one in (first, second)]
    c.same(reload(**mirrors(*url)), 0, "I-8: mirrors are set while cove runs")
    reply = pull("one")
    c.same((reply.status, reply.json["image"], bool(first.requests), second.requests), (201, "origin.test/app:latest", True, []), "I-8: the first one is asked, the second is not")
    image = second.add(r.Image([r.tar([("etc", None), ("etc/two", b"2", 0o644)])]), "two")
    c.same((pull("two", "two").status, bool(second.asked("/two/"))), (201, True), "I-8: what the first one has not comes from the second")
    first.hook = lambda handler, kind, name: handler.send(503, b"{}") or True
    second.add(r.Image([r.tar([("etc", None), ("etc/three", b"3", 0o644)])]), "three")
    c.same(pull("three", "three").status, 201, "I-8: an error falls through")
    first.hook = None
    lie = r.Image([r.tar([("etc", None), ("etc/four", b"4", 0o644)])], pack=bytes)
    for one in (first, second):
        one.add(lie, "four")
    first.blobs[r.digest(lie.packed[0])] = lie.packed[0].replace(b"etc/four", b"etc/evil")
    reply = pull("four", "four")
    c.same((reply.status, reply.json["reason"]), (400, "digest_mismatch"), "I-8: other bytes are refused")
    c.same(os.listdir(os.path.join(cove.data, "daemon/blobs")), [], "and leave nothing")
    first.stop()
    second.add(r.Image([r.tar([("etc", None), ("etc/five", b"5", 0o644)])]), "five")
    c.same(pull("five", "five").status, 201, "I-8: one that is down is passed over")
    return second


def debian(second):
    """The real registry as the mirror that is left, and what doctor says."""
    real = r.Debian(cove.home)
    real.push(r.Image([r.tar([("etc", None), ("etc/real", b"r", 0o644)])]), "real:latest")
    with r.socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        closed = "http://127.0.0.1:%d" % sock.getsockname()[1]
    c.same(reload(**mirrors(closed, "http://" + real.host)), 0, "I-8: other mirrors are set")
    before = len(second.requests)
    c.same((pull("real", "real").status, len(second.requests)), (201, before), "I-8: from then on they are asked, and the others are not")
    c.ok("/v2/real/manifests/latest" in real.log(), "I-8: it came from Debian's registry")
    found = cove.get("/v1/doctor").json["mirrors"]
    c.same([(one["registry"], one["url"], one["ok"]) for one in found], [("origin.test", closed, False), ("origin.test", "http://" + real.host, True)], "I-8: doctor asks each mirror")
    c.ok(found[0]["message"] and found[0]["hint"], "and says what is wrong", found)
    got = c.Cli(cove.data)("doctor")
    c.ok("mirror of origin.test: http://%s answers" % real.host in got.text and closed in got.text, "cove doctor prints them", got)
    for bad in ({"registry_mirrors": "origin.test"}, {"registry_mirrors": "origin.test=ftp:/x"}, {"registry_exceptions": "10.0.0.0/99"}):
        c.ok(reload(**bad) != 0, "I-8: %r is refused" % bad)
    c.same(len(cove.get("/v1/doctor").json["mirrors"]), 2, "and changes nothing")
    real.stop()


def names():
    return {one["name"] for one in cove.get("/v1/templates").json["items"] if one["kind"] == "image"}


def cache():
    """I-18: cached templates go, oldest use first; named ones and those under a sandbox stay."""
    for name in names():
        cove.request("DELETE", "/v1/templates/" + name)
    registry = r.StandIn()
    boxes = {}
    for i in range(4):
        registry.add(r.Image([BASE, r.tar([("opt", None), ("opt/big", os.urandom(8 << 20), 0o644)])], pack=bytes), "cached%d" % i)
    c.same(cove.post("/v1/templates", {"image": registry.host + "/cached0", "name": "named"}).status, 201, "a pull by name")
    for i in (1, 2, 3):
        boxes[i] = cove.create(image="%s/cached%d" % (registry.host, i))
    for i in (1, 2):
        cove.delete(boxes[i])
    all_of_them = {"named", "cached1-latest", "cached2-latest", "cached3-latest"}
    c.same(names(), all_of_them, "I-18: a pull and three creates leave four images")
    c.same(reload(images_cache="1G"), 0, "I-18: images-cache is live")
    bytes_of = {one["name"]: one["bytes"] for one in cove.get("/v1/templates").json["items"]}
    base = bytes_of["named"] - (8 << 20)
    c.same(reload(images_cache=str(base + (30 << 20))), 0, "room for three of them")
    c.ok(c.until(lambda: names() == all_of_them - {"cached1-latest"}, 60), "I-18: the one that was used the longest time ago goes", names())
    c.same(reload(images_cache="1M"), 0, "no room")
    c.ok(c.until(lambda: names() == {"named", "cached3-latest"}, 60), "I-18: all cached ones go but that of a sandbox; the named one stays", names())
    c.same(cove.out(boxes[3], ["/bin/bash", "-c", "echo ok"], cwd="/"), "ok\n", "whose files are there")
    cove.delete(boxes[3])
    c.ok(c.until(lambda: names() == {"named"}, 60), "and goes after it", names())
    registry.stop()


c.need_root()
cove = c.Cove(start=False)
os.makedirs(cove.home, exist_ok=True)
FILE = os.path.join(cove.home, "cove.conf")
write()
cove.args += ["--config=" + FILE, "--sweep-every=1s"]
cove.start()
left = order()
debian(left)
left.stop()
cache()
c.same(cove.get("/v1/verify").json["ok"], True, "verify is clean")
cove.close()
c.done()
