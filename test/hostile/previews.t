#!/usr/bin/env python3
"""Group V: servers, visitors and guessers against previews; and the rows of group A that concern them."""
# alone: medians of times are compared
import contextlib
import re
import socket
import statistics
import threading
import time

from rows import c, PATIENCE, play, row
from visits import Site, expose, serve  # noqa: E402
import wsclient  # noqa: E402

# Answers with what it was told to, whatever is asked: one reply for each line of the file, by path.
PUPPET = r'''
import base64, hashlib, re, socket, sys, threading, time
REPLIES = %r
def greet(sock, head):
    key = re.search(rb"(?i)sec-websocket-key: *(\S+)", head)[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: " + base64.b64encode(hashlib.sha1(key).digest()) + b"\r\n\r\n")
def serve(sock):
    head = b""
    while b"\r\n\r\n" not in head:
        got = sock.recv(65536)
        if not got: return
        head += got
    name = head.split(b" ")[1].decode().lstrip("/")
    reply = REPLIES.get(name, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
    if type(reply) == tuple: reply = reply[0] + reply[1] * reply[2] + reply[3]
    try:
        if name in ("deaf", "loud"): greet(sock, head)
        if name == "deaf": time.sleep(600)
        while name == "loud": sock.sendall(b"\x82\x7f" + (1 << 16).to_bytes(8, "big") + bytes(1 << 16))
        if name == "endless":
            while True: sock.sendall(b"X-More: %%s\r\n" %% (b"a" * 900))
        if name == "silent": time.sleep(60)
        sock.sendall(reply)
    except OSError: pass
    sock.close()
main = socket.socket()
main.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
main.bind(("127.0.0.1", int(sys.argv[1])))
main.listen(100)
while True:
    threading.Thread(target=serve, args=(main.accept()[0],), daemon=True).start()
'''
OK = b"HTTP/1.1 200 OK\r\n"
FOREIGN = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nFOREIGN"
# Heads that are none: 502, and nothing of them is passed on.
BAD_HEADS = {
    "cl-te": OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + FOREIGN,
    "two-lengths": OK + b"Content-Length: 4\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "length-list": OK + b"Content-Length: 4, 7\r\n\r\nFOREIGN",
    "plus-length": OK + b"Content-Length: +7\r\n\r\nFOREIGN",
    "minus-length": OK + b"Content-Length: -7\r\n\r\nFOREIGN",
    "hex-length": OK + b"Content-Length: 0x7\r\n\r\nFOREIGN",
    "huge-length": OK + b"Content-Length: 99999999999999999999999\r\n\r\nFOREIGN",
    "identity": OK + b"Transfer-Encoding: identity\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "gzip-chunked": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n7\r\nFOREIGN\r\n0\r\n\r\n",
    "chunked-twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + FOREIGN,
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 7\n\nFOREIGN",
    "bare-cr": OK + b"X: a\rContent-Length: 7\r\n\r\nFOREIGN",
    "folded": OK + b"X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "space-colon": OK + b"Transfer-Encoding : chunked\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "nul": OK + b"X: a\0b\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "no-name": OK + b": x\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "http-2": b"HTTP/2.0 200 OK\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "status-99": b"HTTP/1.1 99 Odd\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "status-1000": b"HTTP/1.1 1000 Odd\r\nContent-Length: 7\r\n\r\nFOREIGN",
    "switched": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nFOREIGN",
    "hints": (b"", b"HTTP/1.1 103 Early Hints\r\nX: FOREIGN\r\n\r\n", 1000, FOREIGN),
    "large-head": (OK + b"X: ", b"a", 1 << 20, b"\r\nContent-Length: 7\r\n\r\nFOREIGN"),
    "many-fields": (OK, b"X: a\r\n", 10000, b"Content-Length: 7\r\n\r\nFOREIGN"),
    "endless": b"",
    "garbage": b"SSH-2.0-FOREIGN\r\n",
    "http-0.9": b"<html>FOREIGN</html>",
    "nothing": b"",
    "half-a-head": OK + b"X: FOREIGN",
}
# Bodies that break off: the reply has begun, and all that can be told is that it is not whole.
BAD_BODIES = {
    "cut": OK + b"Content-Length: 100\r\n\r\nabc",
    "no-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nZZ\r\nFOREIGN\r\n0\r\n\r\n",
    "hex-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0x7\r\nFOREIGN\r\n0\r\n\r\n",
    "huge-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nfffffffffffffffff\r\nFOREIGN",
    "chunk-no-crlf": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcFOREIGN\r\n0\r\n\r\n",
    "chunk-lf": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\nabc\r\n0\r\n\r\nFOREIGN",
    "cut-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10\r\nabc",
}
# What is odd, but has one meaning only: the client hears that and no more.
GOOD = {
    "longer": (OK + b"Content-Length: 4\r\n\r\ngood" + FOREIGN, b"good"),
    "extension": (OK + b"Transfer-Encoding: chunked\r\n\r\n4;a=\"b\"\r\ngood\r\n0\r\nX-Trailer: FOREIGN\r\n\r\n" + FOREIGN, b"good"),
    "to-close": (OK + b"\r\ngood", b"good"),
    "plain": (OK + b"Content-Length: 4\r\nConnection: close, X-Hop\r\nX-Hop: FOREIGN\r\nKeep-Alive: FOREIGN\r\n\r\ngood", b"good"),
    "a-hint": (b"HTTP/1.1 103 Early Hints\r\nLink: FOREIGN\r\n\r\n" + OK + b"Content-Length: 4\r\n\r\ngood", b"good"),
}


def near(stage):
    """Where the cove's loopback is."""
    return stage.cove.inside() if hasattr(stage.cove, "inside") else contextlib.nullcontext()


def raw(stage, site, data, seconds=20, source=None):
    """Sends bytes as they are; everything that comes back until the server closes, and whether it did."""
    got, ended = b"", False
    with near(stage):
        sock = socket.create_connection(("127.0.0.1", site.port), seconds, source_address=source)
    with sock:
        try:
            sock.sendall(data)
            while True:
                piece = sock.recv(65536)
                if not piece:
                    ended = True
                    break
                got += piece
        except ConnectionError:
            ended = True
        except socket.timeout:
            pass
    return got, ended


def rss(pid):
    return int([line for line in open("/proc/%d/status" % pid, errors="replace") if line.startswith("VmRSS")][0].split()[1])


@row("V-01", "a preview leads into its own sandbox, to no port of the host")
def host_ports(stage):
    def attack(stage):
        with near(stage), socket.socket() as host:
            host.bind(("127.0.0.1", 0))
            host.listen()
            host.settimeout(2)
            site = Site(expose(stage.cove, stage.box(), host.getsockname()[1])["url"])
            got = []

            def visit():
                with near(stage), contextlib.suppress(OSError):
                    got.append(raw(stage, site, ("GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % site.host).encode())[0])
            visitor = threading.Thread(target=visit)
            visitor.start()
            try:
                met = host.accept()[0]
                met.sendall(OK + b"Content-Length: 5\r\n\r\nsshd!")
                met.close()
                came = True
            except socket.timeout:
                came = False
            visitor.join()
            return came, got[0]
    stage.control_weak("netns", attack, lambda seen: seen[0] and b"sshd!" in seen[1], apart=True)
    came, got = attack(stage)
    c.ok(not came and got.startswith(b"HTTP/1.1 502"), "V-01: nobody comes to a port of the host", got)
    box = stage.box()
    for port in (0, 65536, -1, 1.5, "22", "127.0.0.1:22", None, [22], 1 << 40):
        reply = stage.cove.post("/v1/sandboxes/%s/ports" % box["id"], {"port": port})
        c.same(reply.status, 400, "V-01: %r is no port" % (port,))
    site = Site(expose(stage.cove, box, 8000)["url"])
    token = site.host.split(".")[0].split("-")[2]
    for label in ("0", "65536", "08000", "+8000", "8000x", "-8000", "127.0.0.1:8000", "8000%2f", "0x1f40"):
        host = "%s-%s-%s.localhost" % (label, box["shortId"], token)
        got = raw(stage, site, ("GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host).encode())[0]
        c.ok(re.match(rb"HTTP/1.1 (400|404|421|429) ", got), "V-01: nor is %s in a name" % label, got[:80])


@row("V-03", "a hostile server is 502, and its visitors hear nothing of it")
def hostile_server(stage):
    box = stage.box()
    replies = dict(BAD_HEADS, **BAD_BODIES, **{name: pair[0] for name, pair in GOOD.items()})
    serve(stage.cove, box, 8000, server=PUPPET % replies)
    site = Site(expose(stage.cove, box, 8000)["url"])

    def ask(name):
        """That reply, and behind it in the same breath a good one."""
        both = "".join("GET /%s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (path, site.host, end)
                       for path, end in ((name, ""), ("last", "Connection: close\r\n")))
        return raw(stage, site, both.encode())
    for name, (_, body) in GOOD.items():
        got, ended = ask(name)
        stage.twin(got.count(b"HTTP/1.1 200 ") == 2 and got.count(b"good") == 2 and b"FOREIGN" not in got and ended,
                   "a reply with one meaning is passed on: " + name, got[:400])
    for name in BAD_HEADS:
        got, ended = ask(name)
        c.ok(got.startswith(b"HTTP/1.1 502 ") and got.count(b"HTTP/1.1 ") == 1 and b"FOREIGN" not in got and ended,
             "V-03: %s: 502, closed, no foreign byte" % name, got[:400], ended)
    for name in BAD_BODIES:
        got, ended = ask(name)
        c.ok(got.startswith(OK) and got.count(b"HTTP/1.1 ") == 1 and b"FOREIGN" not in got and b"good" not in got and ended and
             not got.endswith(b"\r\n0\r\n\r\n"), "V-03: %s: cut off, closed, no foreign byte" % name, got[:400], ended)


@row("V-05", "a page of a preview cannot use the API with its visitor's rights")
def foreign_page(stage):
    def attack(stage):
        site = Site(expose(stage.cove, stage.box(), 8000)["url"])
        head = {"Origin": "http://" + site.host}
        return stage.cove.get("/v1/sandboxes", headers=head)
    stage.control_weak("origin", attack, lambda reply: reply.status == 200)
    reply = attack(stage)
    c.same(reply.status, 403, "V-05: its origin is refused, even with the key")
    c.ok(not any(name.lower().startswith("access-control") or name.lower() == "set-cookie" for name in reply.headers),
         "V-05: and there is neither CORS nor a cookie", reply.headers.items())
    box = stage.box()
    made = expose(stage.cove, box, 8000)
    for form in ("url", "pathUrl"):
        site = Site(made[form])
        got = raw(stage, site, ("GET /v1/sandboxes HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n"
                                % (site.host, stage.cove.key)).encode())[0]
        c.ok(b"items" not in got and not got.startswith(b"HTTP/1.1 2"), "V-05: %s: the API is not there, not even for its key" % form, got[:200])
    got = stage.cove.raw(("GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % Site(made["url"]).host).encode())
    c.ok(got.startswith(b"HTTP/1.1 421 "), "V-05: nor is a preview on the API's listener", got[:200])
    page = Site(made["url"]).ask("/")
    c.ok("frame-ancestors 'none'" in page.headers["Content-Security-Policy"], "V-05: cove's own pages are in no frame")


@row("V-07", "a flood through a WebSocket is slowed down, not stored")
def flood(stage):
    box = stage.box(limits={"memoryMB": 256})
    serve(stage.cove, box, 8000)
    site = Site(expose(stage.cove, box, 8000)["url"])
    daemon = stage.cove.children()["daemon"]
    ws = site.socket()
    ws.send(b"x" * (4 << 20))
    stage.twin(len(ws.recv()) == 4 << 20, "who reads what comes back gets all of it")
    for n in range(2000 if c.SHORT else 10000):
        ws.raw(ws.frame(wsclient.PING, b"%d" % n))
        if n % 200 == 199:  # the echo has no end of its own: it is read now and then
            seen = [ws._frame() for _ in range(200)]
    c.same(seen[-1][2], b"%d" % n, "V-07: a flood of pings passes, in its order")
    ws.sock.close()
    serve(stage.cove, box, 8001, server=PUPPET % {})
    puppet = Site(expose(stage.cove, box, 8001)["url"])
    count, before = 20, rss(daemon)
    deaf = [puppet.socket("/deaf") for _ in range(count)]
    loud = [puppet.socket("/loud") for _ in range(count)]  # nobody reads what comes from there
    opened, sent = rss(daemon), []
    for n, one in enumerate(deaf):  # a message of a GiB, or one in pieces that never end
        one.sock.settimeout(0.3)
        piece = b"\x55" * 60000 if n % 2 else one.frame(0, b"\x55" * 60000, final=False)
        sent.append(0)
        try:
            one.raw(b"\x82\xff" + (1 << 30).to_bytes(8, "big") + b"mask" if n % 2 else one.frame(2, b"", final=False))
            while sent[-1] < 1 << 30:
                one.raw(piece)
                sent[-1] += len(piece)
        except socket.timeout:
            pass
    grown = rss(daemon) - before
    c.ok(max(sent) < 64 << 20, "V-07: who sends to a server that never reads is held up", sent)
    c.ok(grown < 2 * count * 256, "V-07: less than 256 KiB a connection", "KiB: %d, of which %d by opening" % (grown, opened - before))
    c.note("V-07: %d KiB for %d connections" % (grown, 2 * count))
    stage.cove.run(box, "true")
    begin = time.monotonic()
    c.same(site.ask("/").status, 200, "V-07: others are served meanwhile")
    c.ok(time.monotonic() - begin < 2 * PATIENCE, "V-07: at once", time.monotonic() - begin)
    for one in deaf + loud:
        one.cut()


@row("V-09", "a visit ends when its port is taken back, and with its sandbox")
def left_open(stage):
    def attack(stage):
        """Whether a socket is still answered after its port was taken back."""
        box = stage.box()
        serve(stage.cove, box, 8000)
        with near(stage):
            ws = Site(expose(stage.cove, box, 8000)["url"]).socket()
        ws.send("x")
        ws.recv()
        stage.cove.request("DELETE", "/v1/sandboxes/%s/ports/8000" % box["id"])
        ws.sock.settimeout(12 * PATIENCE)
        try:
            ws.send("y")
            return ws.recv()
        except (wsclient.Closed, ConnectionError):
            return None
    stage.control_weak("cancel_on_delete", attack, lambda got: got == "y")
    c.same(attack(stage), None, "V-09: not after its port was taken back")
    box = stage.box()
    serve(stage.cove, box, 8000)
    site = Site(expose(stage.cove, box, 8000)["url"])
    ws = site.socket()
    ws.send("x")
    ws.recv()
    begin = time.monotonic()
    stage.cove.delete(box)
    stage.boxes.remove(box)
    ws.sock.settimeout(12 * PATIENCE)
    try:
        ended = not ws.sock.recv(100)
    except ConnectionError:
        ended = True
    c.ok(ended and time.monotonic() - begin < 6 * PATIENCE, "V-09: nor after its sandbox was deleted", time.monotonic() - begin)
    c.same(site.ask("/").status, 404, "V-09: and its name leads nowhere")


@row("V-09", "a visitor that does not read keeps no deleted sandbox's page")
def unread(stage):
    def attack(stage, seconds):
        """Whether the connection is still there."""
        box = stage.box()
        serve(stage.cove, box, 8000)
        with near(stage):
            site = Site(expose(stage.cove, box, 8000)["url"])
            sock = site.connect()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(("GET /big/%d HTTP/1.1\r\nHost: %s\r\n\r\n" % (256 << 20, site.host)).encode())
        sock.recv(1, socket.MSG_PEEK)
        stage.cove.delete(box)
        stage.boxes.remove(box)

        def closed():
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1
        return not c.until(closed, seconds)
    stage.control_weak("cancel_on_delete", lambda weak: attack(weak, 3), lambda left: left)
    c.ok(not attack(stage, 12 * PATIENCE), "V-09: the visit ends, and what was not read is dropped")


def shape(got):
    """An answer without what differs from one request to the next."""
    return re.sub(rb"(?mi)^(Date|X-Request-Id|X-Trace-Id): .*$", b"", got)


def wrong(stage, site, label, source=None):
    """One wrong name; the answer and the time."""
    host = "%s.localhost:%d" % (label, site.port)
    begin = time.perf_counter()
    got = raw(stage, site, ("GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host).encode(), source=source and (source, 0))[0]
    return got, time.perf_counter() - begin


@row("A-09", "a wrong token tells nothing, and who guesses is held up")
def guess(stage):
    def attack(stage):
        site = Site(expose(stage.cove, stage.box(), 8000)["url"])
        label = site.host.split(".")[0]
        return [wrong(stage, site, label.rsplit("-", 1)[0] + "-guess%d" % n, "127.0.9.9")[0].split(b" ")[1] for n in range(60)]
    stage.control_weak("strikes", attack, lambda seen: set(seen) == {b"404"})
    # Everything that can be wrong, and a sandbox of another tenant, of which even the token would be right for another port.
    cove = stage.cove
    cove.request("PUT", "/v1/tenants/other", {"host": True})
    key = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use"]}).json["key"]
    theirs = cove.post("/v1/sandboxes", {"limits": {"memoryMB": 64}}, key=key).json
    stage.boxes.append(theirs)
    token = cove.post("/v1/sandboxes/%s/ports" % theirs["id"], {"port": 8000}, key=key).json["token"]
    box = stage.box()
    serve(cove, box, 8000)
    site = Site(expose(cove, box, 8000)["url"])
    mine, right = box["shortId"], site.host.split(".")[0].split("-")[2]
    other = lambda at: token[:at] + ("a" if token[at] != "a" else "b") + token[at + 1:]  # noqa: E731
    labels = {
        "first letter": "8000-%s-%s" % (mine, ("a" if right[0] != "a" else "b") + right[1:]),
        "last letter": "8000-%s-%s" % (mine, right[:-1] + ("a" if right[-1] != "a" else "b")),
        "short token": "8000-%s-x" % mine,
        "another port": "8001-%s-%s" % (mine, right),
        "no sandbox": "8000-%s-%s" % ("f" * 12, right),
        "another tenant's": "8000-%s-%s" % (theirs["shortId"], other(15)),
        "another tenant's port": "8001-%s-%s" % (theirs["shortId"], token),
        "a forged link": "8000-%s-%s" % (mine, "0zzzzzz" + "a" * 32),
    }
    answers, times = {}, {name: [] for name in labels}
    rounds = 30 if c.SHORT else 130
    for n in range(rounds):  # in turn, so that a slow moment is slow for all; from ever new addresses, none of which is held up
        source = "127.0.%d.%d" % (10 + n // 250, 1 + n % 250)
        for name, label in labels.items():
            got, took = wrong(stage, site, label, source)
            answers.setdefault(shape(got), set()).add(name)
            times[name].append(took)
    c.same(list(map(sorted, answers.values())), [sorted(labels)], "A-09: %d wrong ones have one answer, byte for byte" % (rounds * len(labels)))
    c.ok(list(answers)[0].startswith(b"HTTP/1.1 404 "), "A-09: 404", list(answers)[0])
    medians = {name: statistics.median(found) for name, found in times.items()}
    c.note("medians in ms: " + ", ".join("%s %.3f" % (name, 1000 * took) for name, took in medians.items()))
    c.ok(max(medians.values()) < 1.5 * min(medians.values()), "A-09: and take one time", medians)
    seen = [wrong(stage, site, labels["short token"])[0] for _ in range(200 if c.SHORT else 1000)]
    held = [got for got in seen if got.startswith(b"HTTP/1.1 429 ")]
    c.ok(len(seen) - len(held) < 100 and all(b"\r\nRetry-After: " in got for got in held), "A-09: who guesses on is held up",
         len(seen) - len(held), held[:1])
    c.ok(len(set(map(shape, held))) == 1 and shape(wrong(stage, site, labels["another tenant's"])[0]) == shape(held[0]),
         "A-09: and told one thing then, too", set(map(shape, held)))
    c.same(site.ask("/").status, 200, "A-09: but not the right token, from the same address")
    told = cove.get("/v1/events?limit=1000&kind=security").json["items"]
    c.ok(any(one["fields"].get("event") == "failed_preview_token" for one in told), "A-09: the operator hears of it", told[:2])
    c.ok(right not in cove.log_text() and token not in cove.log_text(), "A-09: and no log holds a token")
    cove.delete(theirs)
    stage.boxes.remove(theirs)
    cove.request("DELETE", "/v1/tenants/other")


@row("A-11", "another tenant cannot see, change or take a port that is not its own")
def tenants(stage):
    def attack(stage):
        cove = stage.cove
        keys = []
        for name in ("left", "right"):
            cove.request("PUT", "/v1/tenants/" + name, {"host": True})
            keys.append(cove.post("/v1/keys", {"tenant": name, "scopes": ["read", "make", "use"]}).json["key"])
        box = cove.post("/v1/sandboxes", {"limits": {"memoryMB": 64}}, key=keys[0]).json
        stage.boxes.append(box)
        at = "/v1/sandboxes/%s/ports" % box["id"]
        cove.post(at, {"port": 8000}, key=keys[0])
        seen = []
        for id in (box["id"], "box-" + "0" * 48):
            at = "/v1/sandboxes/%s/ports" % id
            ways = (("GET", at, None), ("POST", at, {"port": 8001}), ("POST", at + "/8000/links", {"expiresIn": 60}),
                    ("DELETE", at + "/8000", None), ("GET", at.replace("/ports", "/proxy/8000/"), None))
            seen.append([cove.request(*way, key=keys[1]).status for way in ways])
        for name in ("left", "right"):
            cove.delete(box)
            cove.request("DELETE", "/v1/tenants/" + name)
        stage.boxes.remove(box)
        return seen
    stage.control_weak("tenants", attack, lambda seen: seen[0][0] == 200)
    theirs, absent = attack(stage)
    c.same((theirs, absent), ([404] * 5, [404] * 5), "A-11: as if it were not there")


@row("A-07", "one request in is one request out")
def smuggle(stage):
    box = stage.box()
    serve(stage.cove, box, 8000)
    site = Site(expose(stage.cove, box, 8000)["url"])
    inner = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    chunks = "5\r\nhello\r\n0\r\n\r\n"
    good = {
        "length": "Content-Length: 5\r\n\r\nhello",
        "chunks": "Transfer-Encoding: chunked\r\n\r\n" + chunks,
        "extension": "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
        "trailer": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: smuggled\r\n\r\n",
    }
    bad = {
        "length and chunks": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
        "chunks and length": "Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n%s" % (5 + len(inner), inner),
        "two lengths": "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + inner,
        "two equal lengths": "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" + inner,
        "a list of lengths": "Content-Length: 5, 5\r\n\r\nhello" + inner,
        "signed": "Content-Length: +5\r\n\r\nhello",
        "negative": "Content-Length: -5\r\n\r\nhello",
        "hexadecimal": "Content-Length: 0x5\r\n\r\nhello",
        "too long": "Content-Length: 18446744073709551621\r\n\r\nhello",
        "identity": "Transfer-Encoding: identity\r\n\r\nhello",
        "identity and length": "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
        "chunked, identity": "Transfer-Encoding: chunked, identity\r\n\r\n" + chunks,
        "gzip, chunked": "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks,
        "xchunked": "Transfer-Encoding: xchunked\r\n\r\n" + chunks,
        "chunked twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
        "a space before the colon": "Transfer-Encoding : chunked\r\n\r\n" + chunks,
        "a folded line": "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello",
        "a folded value": "Transfer-Encoding:\r\n chunked\r\n\r\n" + chunks,
        "a bare LF": "X: a\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
        "a bare CR": "X: a\rTransfer-Encoding: chunked\r\n\r\n" + chunks,
        "a NUL": "X: a\0\r\nContent-Length: 5\r\n\r\nhello",
        "another Host": "Host: localhost\r\nContent-Length: 5\r\n\r\nhello",
        "0x5 as a chunk": "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "a chunk without its end": "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n" + inner,
        "LF in a chunk's line": "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n" + inner,
        "a huge chunk": "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\nhello\r\n0\r\n\r\n" + inner,
    }
    head = "POST /up HTTP/1.1\r\nHost: %s\r\n" % site.host
    for name, rest in good.items():
        got, _ = raw(stage, site, (head + "Connection: close\r\n" + rest).encode())
        stage.twin(got.startswith(b"HTTP/1.1 201 ") and got.endswith(b"\r\n\r\n5"), "what has one meaning passes: " + name, got[:300])
    for name, rest in bad.items():
        got, ended = raw(stage, site, (head + rest).encode())
        c.ok(got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1 ") == 1 and ended and b"smuggled" not in got,
             "A-07: %s: 400, and closed" % name, got[:300], ended)


play()
