#!/usr/bin/env python3
"""Random sequences of pull, build, snapshot, fork, write, delete and prune with kill -9 of daemon and warden in between, against a
model (fixed seed): contents are right, layers on disk are those that something holds, nothing half-made stays, space returns.

COVE_SEQUENCES says how many, COVE_SEED where they begin."""
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import registry as r  # noqa: E402

SEQUENCES = int(os.environ.get("COVE_SEQUENCES", 2 if c.SHORT else 6))
SEED = int(os.environ.get("COVE_SEED", 1))
STEPS = 10
CUT = (OSError, ValueError, KeyError, c.http.client.HTTPException)
NAMES = ["one", "two", "three"]


def is_up(cove):
    try:
        return cove.get("/v1/health").json["status"] == "ok" and cove.get("/v1/templates").status == 200
    except CUT:
        return False


class Sequence:
    """What is known to be there: templates and sandboxes, each with the tokens that it may hold."""

    def __init__(self, cove, images, seed):
        self.cove, self.images, self.random = cove, images, random.Random(seed)
        self.templates, self.boxes, self.said, self.token = {}, {}, [], seed * 1000

    # ------------------------------------------------------------------------------------- asking

    def ask(self, method, path, body=None):
        """The reply, or None if a kill has cut it."""
        struck = []
        if self.random.random() < 0.4:
            role, delay = self.random.choice(["daemon", "warden"]), self.random.random() ** 2 * 0.4
            thread = threading.Thread(target=self.strike, args=(role, delay, struck))
            thread.start()
        else:
            thread = None
        try:
            reply = self.cove.request(method, path, body)
        except CUT:
            reply = None
        if thread:
            thread.join()
            self.settle()
        self.said.append("%s %s %s: %s%s" % (method, path, body, reply.status if reply else "cut", ", kill -9 of the %s" % struck[0] if struck else ""))
        return reply if reply is not None and (reply.status < 500 or not thread) else None

    def strike(self, role, delay, struck):
        time.sleep(delay)
        try:
            os.kill(self.cove.children()[role], signal.SIGKILL)
            struck.append(role)
        except (KeyError, ProcessLookupError):
            pass

    def settle(self):
        c.until(lambda: is_up(self.cove), 120, 0.05)
        c.until(lambda: all(one["endedAt"] for one in self.cove.get("/v1/operations").json["items"]), 120, 0.05)

    def surely(self, method, path, body=None):
        """Without a kill."""
        end = time.monotonic() + 60
        while True:
            reply = self.cove.request(method, path, body)
            if reply.status not in (500, 503) or time.monotonic() > end:
                return reply
            time.sleep(0.1)

    def new_token(self):
        self.token += 1
        return str(self.token)

    # -------------------------------------------------------------------------------------- steps

    def made(self, name, reply, tokens):
        """A template was asked for: it is there, or was not made."""
        if reply is not None and reply.status == 201:
            self.templates[name] = set(tokens)
            return
        there = self.surely("GET", "/v1/templates/" + name).status == 200
        if there:
            self.templates[name] = set(tokens) | self.templates.get(name, set())
        elif name in self.templates:
            self.said.append("the template %s is gone" % name)

    def pull(self):
        name, at = self.random.choice(NAMES), self.random.randrange(len(self.images))
        if name not in self.templates:
            self.made(name, self.ask("POST", "/v1/templates", {"image": self.images[at], "name": name}), {"image-%d" % at})

    def build(self):
        name, base, token = self.random.choice(NAMES) + "-built", self.random.choice(["host"] + sorted(self.templates)), self.new_token()
        self.made(name, self.ask("POST", "/v1/builds", {"name": name, "from": {"template": base}, "steps": [{"run": "echo %s >/token" % token}]}), {token})

    def snapshot(self):
        name = self.random.choice(NAMES) + "-snapshot"
        if self.boxes and name not in self.templates:
            box = self.random.choice(sorted(self.boxes))
            self.made(name, self.ask("POST", "/v1/sandboxes/%s/snapshot" % box, {"name": name}), self.boxes[box])

    def grown(self, tokens):
        """Sandboxes that are there and were not known."""
        for one in self.surely("GET", "/v1/sandboxes?limit=1000").json["items"]:
            if one["id"] not in self.boxes:
                self.boxes[one["id"]] = set(tokens)

    def create(self):
        if self.random.random() < 0.5:
            at = self.random.randrange(len(self.images))
            body, tokens = {"image": self.images[at]}, {"image-%d" % at}
        elif self.templates:
            name = self.random.choice(sorted(self.templates))
            body, tokens = {"template": name}, self.templates[name]
        else:
            return
        self.ask("POST", "/v1/sandboxes", body)
        self.grown(tokens)

    def fork(self):
        if self.boxes:
            box = self.random.choice(sorted(self.boxes))
            self.ask("POST", "/v1/sandboxes/%s/fork" % box, {"count": 2})
            self.grown(self.boxes[box])

    def write(self):
        if self.boxes:
            box, token = self.random.choice(sorted(self.boxes)), self.new_token()
            reply = self.ask("POST", "/v1/sandboxes/%s/api/execute" % box, {"command": "echo %s >/token" % token})
            self.boxes[box] = {token} if reply is not None and reply.status == 200 and reply.json["exitCode"] == 0 else self.boxes[box] | {token}

    def delete(self):
        if self.boxes and self.random.random() < 0.5:
            path = "/v1/sandboxes/" + self.random.choice(sorted(self.boxes))
            known = self.boxes
        elif self.templates:
            path = "/v1/templates/" + self.random.choice(sorted(self.templates))
            known = self.templates
        else:
            return
        self.ask("DELETE", path)
        again = self.surely("DELETE", path)
        if again.status in (204, 404, 410):
            del known[path.rsplit("/", 1)[1]]
        else:
            self.said.append("DELETE %s: %s" % (path, again))

    def prune(self):
        self.ask("POST", "/v1/templates/prune", {})

    # ------------------------------------------------------------------------------------- proving

    def read(self, box):
        """Of a sandbox; what its file says."""
        end = time.monotonic() + 60
        while True:
            reply = self.surely("POST", "/v1/sandboxes/%s/api/execute" % box, {"command": "cat /token"})
            if reply.status == 200 and reply.json.get("exitCode") == 0 or time.monotonic() > end:
                return reply.json.get("stdout", "").strip() if reply.status == 200 else repr(reply)
            time.sleep(0.1)

    def prove(self):
        wrong = []
        for name, tokens in sorted(self.templates.items()):
            made = self.surely("POST", "/v1/sandboxes", {"template": name})
            got = self.read(made.json["id"]) if made.status == 201 else repr(made)
            if got not in tokens:
                wrong.append(("template", name, got, sorted(tokens)))
            if made.status == 201:
                self.surely("DELETE", "/v1/sandboxes/" + made.json["id"])
        for box, tokens in sorted(self.boxes.items()):
            got = self.read(box)
            if got not in tokens:
                wrong.append(("sandbox", box, got, sorted(tokens)))
        there = {one["id"] for one in self.surely("GET", "/v1/sandboxes?limit=1000").json["items"]}
        if there != set(self.boxes):
            wrong.append(("sandboxes", sorted(there ^ set(self.boxes))))
        listed = {one["name"] for one in self.surely("GET", "/v1/templates").json["items"] if one["kind"] in ("built", "snapshot")}
        if listed != {name for name in self.templates if "-" in name}:
            wrong.append(("templates", sorted(listed), sorted(self.templates)))
        return wrong + self.stray()

    def stray(self):
        def look():
            held = set()
            for one in self.cove.get("/v1/templates").json["items"]:
                held.update(layer["diffId"] for layer in one.get("layers", []))
            dirs = os.listdir(os.path.join(self.cove.data, "layers"))
            wrong = [("unfinished", name) for name in dirs if name.startswith((".new-", ".snap-", ".fork-"))]
            layers = [name for name in dirs if name.startswith(".layer-")]
            if len(layers) < len(held):
                wrong.append(("layers", len(layers), len(held)))
            verified = self.cove.get("/v1/verify").json
            return wrong if verified.get("ok") else wrong + [("verify", verified)]
        c.until(lambda: look() == [], 60, 0.1)
        return look()

    def clear(self):
        for box in sorted(self.boxes):
            self.surely("DELETE", "/v1/sandboxes/" + box)
        for name in sorted(self.templates):
            self.surely("DELETE", "/v1/templates/" + name)
        self.boxes, self.templates = {}, {}
        self.surely("POST", "/v1/templates/prune", {"cache": True})
        wrong = self.stray()
        left = [one["name"] for one in self.surely("GET", "/v1/templates").json["items"] if one["kind"] != "host"]
        blobs = os.listdir(os.path.join(self.cove.data, "daemon/blobs"))
        layers = [name for name in os.listdir(os.path.join(self.cove.data, "layers")) if name.startswith((".layer-", ".step-"))]
        return wrong + [(word, one) for word, one in (("templates", left), ("blobs", blobs), ("layers", layers)) if one]

    def run(self):
        steps = [self.pull, self.pull, self.build, self.create, self.create, self.snapshot, self.fork, self.write, self.delete, self.prune]
        for _ in range(STEPS):
            self.random.choice(steps)()
        wrong = self.prove()
        return wrong, self.clear()


c.need_root()
base = r.base()
registry = r.StandIn()
layers = [base, r.tar([("opt", None), ("opt/shared", b"x" * 100000, 0o644)])]
images = []
for number in range(2):
    registry.add(r.Image(layers[:1 + number] + [r.tar([r.link("usr/bin/sh", "bash"), ("token", b"image-%d\n" % number, 0o644)])]), "app%d" % number)
    images.append("%s/app%d" % (registry.host, number))
cove = c.Cove()
for seed in range(SEED, SEED + SEQUENCES):
    sequence = Sequence(cove, images, seed)
    wrong, left = sequence.run()
    c.same(wrong, [], "sequence %d: contents and references are right" % seed)
    c.same(left, [], "sequence %d: everything is removed, and space returns" % seed)
    if wrong or left:
        c.note("\n".join(sequence.said))
registry.stop()
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
