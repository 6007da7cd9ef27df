#!/usr/bin/env python3
"""Group I: hostile registries and images that are pulled by name."""
import gzip
import os
import socket
import threading

from rows import c, play, row

import registry as r

SMALL = r.tar([("etc", None), ("etc/motd", b"hello\n", 0o644)])
number = iter(range(10000))


def pull(stage, host, key=True, **more):
    name = "hostile-%d" % next(number)
    reply = stage.cove.request("POST", "/v1/templates", {"image": host + "/app", "name": name, **more}, key=key)
    if reply.status in (200, 201):
        stage.cove.request("DELETE", "/v1/templates/" + name)
    return reply


def leaves_nothing(stage):
    data = stage.cove.data
    c.same(os.listdir(os.path.join(data, "daemon/blobs")), [], stage.name + ": no part of an image is left")
    c.ok(c.until(lambda: not [name for name in os.listdir(os.path.join(data, "layers")) if name.startswith((".layer-", ".new-"))], 60),
         stage.name + ": and no layer", os.listdir(os.path.join(data, "layers")))


@row("I-06", "a password for a registry is not sent to the server that a redirect leads to")
def redirected(stage):
    def attack(stage):
        thief, registry = r.StandIn(), r.StandIn(basic="me:word")
        image = registry.add(r.Image([r.tar([("x", b"%d" % next(number), 0o644)])]))
        thief.blobs.update(image.blobs)

        def away(handler, kind, name):
            if kind == "blobs" and registry.is_authorized(handler):
                handler.send(307, Location="http://%s/v2/x/blobs/%s" % (thief.host, name))
            return kind == "blobs"
        registry.hook = away
        reply = pull(stage, registry.host, auth={"username": "me", "password": "word"})
        seen = [request for request in thief.requests if "Authorization" in request[2]]
        registry.stop()
        thief.stop()
        return reply.status, seen
    stage.control_weak("registry_auth", attack, lambda got: got[0] == 201 and got[1])
    c.same(attack(stage), (201, []), "I-06: the image is pulled, and the password is not seen")


def own_address():
    """An address of this host on a network; None: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return sock.getsockname()[0]


@row("I-09", "a registry, its token server and its redirects do not lead into the host's networks")
def private(stage):
    address = own_address()
    if not address:
        stage.no_control("this host has no network")
        return c.skip("I-09: a private address", "this host has none")
    sentinel = socket.create_server((address, 0))
    sentinel.settimeout(0.1)
    inner = "%s:%d" % (address, sentinel.getsockname()[1])

    def listens(work):
        seen, over = [], threading.Event()

        def run():
            while not over.is_set():
                try:
                    conn, _ = sentinel.accept()
                    seen.append(1)
                    conn.close()
                except TimeoutError:
                    pass
        thread = threading.Thread(target=run)
        thread.start()
        replies = work()
        over.set()
        thread.join()
        return replies, len(seen)

    def attack(stage):
        def work():
            registry = r.StandIn()
            replies = [pull(stage, inner)]
            registry.hook = lambda handler, kind, name: handler.send(307, Location="http://%s/x" % inner) or True
            replies.append(pull(stage, registry.host))
            registry.hook = lambda handler, kind, name: handler.send(401, WWW_Authenticate='Bearer realm="http://%s/token"' % inner) or True
            replies.append(pull(stage, registry.host))
            registry.stop()
            return replies
        return listens(work)
    stage.control_weak("outbound,neighbours", attack, lambda got: got[1] >= 3)
    replies, seen = attack(stage)
    c.same(seen, 0, "I-09: no connection is made")
    c.ok(all(reply.status == 403 for reply in replies), "I-09: each is refused", replies)
    sentinel.close()


@row("I-11a", "what a registry sends is what the digests say")
def digests(stage):
    def attack(stage):
        registry = r.StandIn()
        image = registry.add(r.Image([SMALL], pack=bytes))
        registry.blobs[r.digest(image.packed[0])] = image.packed[0].replace(b"hello", b"adieu")
        reply = pull(stage, registry.host)
        registry.stop()
        return reply
    stage.control_weak("digest", attack, lambda reply: reply.status == 201)
    reply = attack(stage)
    c.same((reply.status, reply.json["reason"]), (400, "digest_mismatch"), "I-11a: other bytes are refused")
    leaves_nothing(stage)


@row("I-11b", "a layer that is a bomb is stopped by its ratio, and nothing stays")
def bomb(stage):
    packed = gzip.compress(r.tar([("bomb", bytes(256 << 20), 0o644)]))
    diff = r.digest(gzip.decompress(packed))

    def attack(stage):
        registry = r.StandIn()
        registry.add(r.Image([b""], pack=lambda _: packed, diff_ids=[diff]))
        reply = pull(stage, registry.host)
        registry.stop()
        return reply
    stage.control_weak("ratio", attack, lambda reply: reply.status == 201)
    reply = attack(stage)
    c.ok(reply.status == 413 and reply.json["reason"] == "archive_bomb", "I-11b: refused", reply)
    leaves_nothing(stage)


@row("I-12", "a registry that sends heads, names or documents without end is refused within bounds")
def endless(stage):
    registry = r.StandIn()
    registry.add(r.Image([SMALL]))
    stage.twin(pull(stage, registry.host).status == 201, "the same registry without its sting serves the image")

    def heads(handler, kind, name):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(10000)) + b"\r\n")
        return True

    def continues(handler, kind, name):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
        return True

    def flood(handler, kind, name):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        try:
            while True:
                handler.wfile.write(b" " * 65536)
        except OSError:
            return True

    def nested(handler, kind, name):
        handler.send(200, b"[" * 1000000, r.INDEX)
        return True

    def circle(handler, kind, name):
        """Each index leads to the next one."""
        index = registry.add_index([])
        data = b'{"schemaVersion":2,"mediaType":"%s","manifests":[{"mediaType":"%s","digest":"%s","size":0,"platform":{"os":"linux","architecture":"%s"}}]}' % (
            r.INDEX.encode(), r.INDEX.encode(), index.encode(), r.ARCH.encode())
        handler.send(200, data, r.INDEX)
        return True
    for hook in (heads, continues, flood, nested, circle):
        registry.hook = hook
        reply = pull(stage, registry.host)
        c.ok(reply.status in (400, 413, 502) and reply.json["reason"] != "internal", "I-12: %s is refused" % hook.__name__, reply)
    registry.stop()
    leaves_nothing(stage)


@row("I-17", "a digest alone opens no layer of another tenant")
def tenants(stage):
    registry = r.StandIn(basic="me:word")
    image = registry.add(r.Image([SMALL]))
    mine = stage.cove.request("POST", "/v1/templates", {"image": registry.host + "/app", "name": "mine", "auth": {"username": "me", "password": "word"}})
    stage.twin(mine.status == 201, "with the password the image is pulled")
    stage.cove.request("PUT", "/v1/tenants/other", {})
    key = stage.cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use", "templates"]}).json["key"]
    for words in ({"template": "mine"}, {"image": "%s/app@%s" % (registry.host, image.digest), "pull": "never"}, {"image": "%s/app@%s" % (registry.host, image.digest)}):
        reply = stage.cove.request("POST", "/v1/sandboxes", words, key=key)
        c.ok(reply.status in (403, 404), "I-17: %s is refused" % list(words), reply)
    reply = pull(stage, registry.host, key=key)
    c.same(reply.status, 403, "I-17: and so is its pull")
    stage.cove.request("DELETE", "/v1/templates/mine")
    stage.cove.request("DELETE", "/v1/tenants/other")
    registry.stop()
    leaves_nothing(stage)


play()
