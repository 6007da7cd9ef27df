#!/usr/bin/env python3
"""kill -9 of daemon, warden and all of cove in every phase of a pull: it goes on, nothing is asked or kept twice, `cove verify` is clean."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402

number = iter(range(10000))


def layer(size=1 << 18, files=1):
    tag = next(number)
    return r.tar([("opt", None)] + [("opt/%d-%d" % (tag, i), os.urandom(size), 0o644) for i in range(files)])


class Gate:
    """Holds the request for one blob after half of it, or a manifest, until it is opened."""

    def __init__(self, registry, name):
        self.registry, self.name, self.open, self.reached = registry, name, threading.Event(), threading.Event()
        registry.hook = self

    def __call__(self, handler, kind, name):
        if name != self.name or self.reached.is_set():
            return False
        self.reached.set()
        data = self.registry.blobs.get(name, b"")
        if data:
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data[:len(data) // 2])
            handler.wfile.flush()
        self.open.wait(120)
        if data:
            handler.wfile.write(data[len(data) // 2:])
        return bool(data)


def operation(cove, at):
    return cove.request("GET", at).json


def ended(cove, at):
    return c.until(lambda: operation(cove, at)["state"] not in ("queued", "running"), 180, 0.2) and operation(cove, at)["state"]


def strike(cove, whom):
    if whom == "all":
        c.kill_all(cove)
        cove.start()
        return
    pid = cove.children()[whom]
    os.kill(pid, signal.SIGKILL)
    c.until(lambda: cove.children().get(whom) not in (None, pid) and is_up(cove), 120, 0.2)


def is_up(cove):
    try:
        return cove.get("/v1/health").status == 200 and cove.get("/v1/templates").status == 200
    except OSError:
        return False


def check(cove, registry, name, contents):
    c.ok(c.until(lambda: cove.get("/v1/verify").json.get("ok"), 120, 0.5), "cove verify is clean", cove.get("/v1/verify").body)
    c.same(os.listdir(os.path.join(cove.data, "daemon/blobs")), [], "no part of an image is left")
    held = set()
    for one in cove.get("/v1/templates").json["items"]:
        held.update(layer["diffId"] for layer in one.get("layers", []))
    dirs = [name for name in os.listdir(os.path.join(cove.data, "layers")) if name.startswith((".layer-", ".new-"))]
    c.same(len(dirs), len(held), "each layer on disk is an image's")
    root = cove.get("/v1/templates/" + name).json
    c.same(root["digest"], contents.digest, "the image is the right one")


def round_of(cove, registry, whom, phase):
    image = registry.add(r.Image([layer(), layer(1 << 12, 2000) if phase == "unpack" else layer(), layer()]))
    name = "t%d" % next(number)
    first, second = (r.digest(data) for data in image.packed[:2])
    gate = Gate(registry, {"resolve": "latest", "fetch": second, "unpack": None}[phase])
    del registry.requests[:]
    at = "/v1/operations/" + cove.request("POST", "/v1/templates?wait=false", {"image": registry.host + "/app", "name": name}).json["id"]
    if phase == "unpack":
        c.until(lambda: any(one["state"] == "unpacking" for one in operation(cove, at)["progress"]["layers"]) or operation(cove, at)["endedAt"], 60, 0.01)
    else:
        gate.reached.wait(60)
        if phase == "fetch":
            c.until(lambda: operation(cove, at)["progress"]["layers"][0]["state"] == "done", 60)
    strike(cove, whom)
    gate.open.set()
    c.same(ended(cove, at), "succeeded", "kill -9 of %s in the phase %s: the pull goes on" % (whom, phase))
    if phase == "fetch":
        c.same(len(registry.asked(first)), 1, "the first layer is not asked for again")
        if whom != "warden":
            c.ok(registry.asked(second)[-1][2].get("Range", "").startswith("bytes="), "and the second where it was", registry.asked(second)[-1][2])
    check(cove, registry, name, image)
    c.same(cove.request("DELETE", "/v1/templates/" + name).status, 204, "it is removed")


cove = c.Cove()
registry = r.StandIn()
for phase in ("resolve", "fetch", "unpack"):
    for whom in ("daemon", "warden", "all"):
        round_of(cove, registry, whom, phase)
image = registry.add(r.Image([layer()]))
gate = Gate(registry, r.digest(image.packed[0]))
at = "/v1/operations/" + cove.request("POST", "/v1/templates?wait=false", {"image": registry.host + "/app", "name": "private",
                                                                          "auth": {"username": "a", "password": "b"}}).json["id"]
gate.reached.wait(60)
strike(cove, "daemon")
gate.open.set()
c.same((ended(cove, at), operation(cove, at)["error"]["reason"]), ("failed", "interrupted"), "a pull whose credential came with the request is interrupted")
c.same(os.listdir(os.path.join(cove.data, "daemon/blobs")), [], "and nothing of it is left")
registry.stop()
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
