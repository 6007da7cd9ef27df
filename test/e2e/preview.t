#!/usr/bin/env python3
"""Previews: a token in a host name or a path opens one port of one sandbox, and nothing else."""
import contextlib
import http.client
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import wsclient  # noqa: E402
from visits import Site, certificate, expose, free_port, serve  # noqa: E402


def address(cove, box):
    made = expose(cove, box, 8000, name="site")
    label = "8000-%s-%s" % (box["shortId"], made["token"])
    c.ok(re.fullmatch("[a-z0-9_]{16}", made["token"]), "a token is random, and of 16 characters", made)
    c.ok(made["url"].startswith("http://%s.localhost:" % label) and made["url"].endswith("/"), "the host form", made)
    c.ok(made["pathUrl"].endswith("/%s/" % label) and str(cove.port) not in made["pathUrl"],
         "the path form is on a listener of its own", made)
    again = cove.post("/v1/sandboxes/%s/ports" % box["id"], {"port": 8000})
    c.ok(again.status == 200 and again.json == made, "exposed again it keeps its token and its name", again)
    for port in (0, 65536, -1, "x", None, 1.5):
        c.same(cove.post("/v1/sandboxes/%s/ports" % box["id"], {"port": port}).status, 400, "V-01 %r is no port" % (port,))
    taken = cove.post("/v1/sandboxes/%s/ports" % box["id"], {"port": 8001, "token": made["token"]})
    c.same(taken.status, 409, "a token opens one port only")
    c.same(cove.post("/v1/sandboxes/%s/ports" % box["id"], {"port": 8001, "token": "a-b"}).status, 400, "a hyphen is in no token")
    listed = cove.get("/v1/sandboxes/%s/ports" % box["id"]).json["items"]
    mine = [one for one in listed if one["port"] == 8000][0]
    c.ok(mine["exposed"] and mine["listening"] and mine["url"] == made["url"], "the port is listed", listed)
    return made


def relay(cove, box, made):
    for form in ("url", "pathUrl"):
        site = Site(made[form])
        text = site.ask("/a%20b?x=1", headers={"X-Forwarded-For": "6.6.6.6", "X-Real-IP": "6.6.6.6", "Authorization": "Bearer own"}).body.decode()
        c.ok(text.startswith("GET /a%20b?x=1\n"), form + ": path and query pass", text)
        c.ok("Host: localhost:8000\n" in text.replace("\r", "") and "X-Forwarded-Host: " + site.host in text and
             "X-Forwarded-For: 127.0.0.1" in text and "X-Forwarded-Proto: http" in text and "X-Sandbox-Name: " in text and
             "X-Original-URL: http://" in text and "6.6.6.6" not in text, form + ": cove says where it came from", text)
        c.ok("Authorization: Bearer own" in text, form + ": an application's own bearer is its own", text)
        gone = site.ask("/go")
        c.ok(gone.status == 302 and gone.headers["Location"] == site.prefix + "/there" and
             gone.headers["Set-Cookie"] == "a=b; Path=%s/" % site.prefix, form + ": V-05 redirects and cookies stay", gone.headers)
        c.same(gone.headers["Referrer-Policy"], "same-origin", form + ": and no other site learns the address")
        ws = site.socket(Origin="http://" + site.host)
        for size in (5, 300, 70000):
            ws.send(os.urandom(size))
            c.same(len(ws.recv()), size, form + ": a WebSocket echoes %d bytes" % size)
        ws.sock.close()
    site = Site(made["url"])
    conn = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    began, times = time.monotonic(), []
    conn.request("GET", "/sse", headers={"Host": site.host})
    answer = conn.getresponse()
    for line in answer:
        if line.startswith(b"data"):
            times.append(time.monotonic() - began)
    c.ok(len(times) == 3 and times[2] - times[0] > 0.3, "events come one by one", times)
    size = 64 << 20
    reply = site.ask("/big/%d" % size)
    c.same(len(reply.body), size, "a large download is whole")
    c.same(site.ask("/up", "POST", b"x" * size).body, b"%d" % size, "and so is a large upload")
    c.same(site.ask("/up", "POST", (b"y" * 65536 for _ in range(64)), encode_chunked=True,
                    headers={"Transfer-Encoding": "chunked"}).body, b"%d" % (64 * 65536), "in chunks, too")
    conn = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    kept = []
    for n in range(3):
        conn.request("GET", "/%d" % n, headers={"Host": site.host})
        kept.append(conn.getresponse().read().decode().startswith("GET /%d\n" % n))
    c.ok(all(kept) and conn.sock, "a connection serves several requests")
    reply = site.ask("/die")
    c.ok(reply.status == 502 and b"FOREIGN" not in reply.body, "V-03 a server with two framings is 502", reply)
    ws = wsclient.WebSocket(cove, "/v1/sandboxes/%s/proxy/8000/ws" % box["id"])
    ws.send("through the API")
    c.same(ws.recv(), "through the API", "proxy/PORT passes a WebSocket, too")
    ws.sock.close()


ONCE = r'''
import http.server, sys
closed = 0
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answered = False
    def do_GET(self):
        global closed
        if self.answered:
            closed += 1
            self.close_connection = True
            return
        self.answered = True
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"%6d" % closed)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
'''


def closing(cove, box):
    """A server that closes a connection just when the next request comes on it."""
    serve(cove, box, 8007, server=ONCE)
    site = Site(expose(cove, box, 8007)["url"])
    conn = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    conn.connect()
    mine, seen = conn.sock, []

    def closed():
        conn.request("GET", "/", headers={"Host": site.host})
        reply = conn.getresponse()
        seen.append((reply.status, reply.getheader("Connection"), reply.read()))
        return conn.sock is not mine or int(seen[-1][2]) >= 2
    c.until(closed, 30)
    c.ok(conn.sock is mine and all(one[:2] == (200, None) for one in seen),
         "a server that closes a kept connection costs its visitor neither the reply nor the connection", seen)


def smuggle(cove, box, made):
    site = Site(made["url"])
    head = "POST /up HTTP/1.1\r\nHost: %s\r\n" % site.host
    bodies = (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhellox",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: +5\r\n\r\nhello",
        "X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    )
    for n, body in enumerate(bodies):
        with site.connect() as sock:
            sock.settimeout(10)
            sock.sendall((head + body).encode())
            got = b""
            try:
                while True:
                    piece = sock.recv(65536)
                    if not piece:
                        break
                    got += piece
            except OSError:
                pass
        c.ok(got.startswith(b"HTTP/1.1 400") and got.count(b"HTTP/1.1 ") == 1, "A-07 smuggling pair %d is 400, and closed" % n, got[:200])


def closed(cove, box):
    with socket.socket() as host:
        host.bind(("127.0.0.1", 0))
        host.listen()
        port = host.getsockname()[1]
        site = Site(expose(cove, box, port)["url"])
        reply = site.ask("/", headers={"Accept": "text/html"})
        c.ok(reply.status == 502 and b"<h1>Nothing listens on port %d yet" % port in reply.body and
             b"<code>8000</code>" in reply.body, "V-01 a port of the host is not one of the box; the page says which listen", reply)
        host.settimeout(0.2)
        try:
            host.accept()
            c.ok(False, "V-01 nobody came to the host's port")
        except socket.timeout:
            c.ok(True, "V-01 nobody came to the host's port")
        plain = site.ask("/").json
        c.ok(plain["code"] == "PORT_CLOSED" and 8000 in plain["listening"], "a program gets the same as JSON", plain)
        cove.request("DELETE", "/v1/sandboxes/%s/ports/%d" % (box["id"], port))


def links(cove, box, made):
    at = "/v1/sandboxes/%s/ports/8000/links" % box["id"]
    link = cove.post(at, {"expiresIn": "1h"}).json
    c.same(Site(link["url"]).ask("/").status, 200, "a signed link opens")
    short = cove.post(at, {"expiresIn": 1}).json
    c.ok(c.until(lambda: Site(short["url"]).ask("/").status == 410, 30, 0.2), "and ends by itself, with 410")
    forged = link["url"].replace(link["token"], link["token"][:-1] + ("0" if link["token"][-1] != "0" else "1"))
    c.same(Site(forged).ask("/").status, 404, "a forged one is none")


def waking(cove):
    box = cove.create(sleepAfter="1s")
    serve(cove, box, 8000, "left")
    site = Site(expose(cove, box, 8000)["url"])
    c.same(site.ask("/").status, 200, "a server that a command left behind is seen")
    state = lambda: cove.get("/v1/sandboxes/" + box["id"]).json["state"]
    c.ok(c.until(lambda: state() == "frozen", 30, 0.1), "the sandbox is frozen", state())
    c.same(site.ask("/").status, 200, "a visitor wakes it")
    cove.post("/v1/sandboxes/%s/stop" % box["id"])
    reply = site.ask("/")
    c.ok(reply.status == 410 and reply.json["code"] == "STALE_PREVIEW_URL", "stopped by request it is 410", reply)
    cove.post("/v1/sandboxes/%s/start" % box["id"])
    c.same(site.ask("/").json["code"], "PORT_CLOSED", "started again the token is good, and nothing listens yet")
    ws = None
    serve(cove, box, 8000)
    ws = site.socket()
    ws.send("x")
    ws.recv()
    began = time.monotonic()
    cove.delete(box)
    try:
        ws.sock.settimeout(60)
        ws.recv()
        c.ok(False, "V-09 the end of the box ends its visits")
    except (wsclient.Closed, OSError):
        c.ok(time.monotonic() - began < 25, "V-09 the end of the box ends its visits", time.monotonic() - began)
    c.same(site.ask("/").status, 404, "and its token is none")


def taken_back(cove, box, made):
    site = Site(made["url"])
    ws = site.socket()
    ws.send("x")
    ws.recv()
    c.same(cove.request("DELETE", "/v1/sandboxes/%s/ports/8000" % box["id"]).status, 204, "a port is taken back")
    c.same(cove.request("DELETE", "/v1/sandboxes/%s/ports/8000" % box["id"]).status, 204, "twice does no harm")
    try:
        ws.sock.settimeout(60)
        ws.recv()
        c.ok(False, "open connections are closed")
    except (wsclient.Closed, OSError) as end:
        c.ok(not isinstance(end, socket.timeout), "open connections are closed", end)
    c.same(site.ask("/").status, 404, "and its token opens nothing")
    fresh = expose(cove, box, 8000, token="chosen_1")
    c.ok(fresh["token"] == "chosen_1" and Site(fresh["url"]).ask("/").status == 200, "a token of one's own", fresh)
    return fresh


def visit(site):
    """Requests the page until a server answers."""
    end = time.monotonic() + 30
    while True:
        try:
            reply = site.ask("/who")
            if reply.status != 503 or time.monotonic() > end:
                return reply.status, reply.body.startswith(b"GET /who\n")
        except (OSError, http.client.HTTPException):
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def again(cove, box):
    ports = range(8100, 8120)
    serve(cove, box, ports[0], more=ports[1:])
    sites = [Site(expose(cove, box, port)[form]) for port, form in zip(ports, ("url", "pathUrl") * 10)]
    sockets = [site.socket() for site in sites]  # they are open, and looked at
    os.kill(cove.children()["daemon"], signal.SIGKILL)
    with ThreadPoolExecutor(20) as pool:
        seen = list(pool.map(visit, sites))
    c.same(seen, [(200, True)] * 20, "after kill -9 of the daemon 20 previews work at the same URLs")
    for ws in sockets:
        ws.sock.close()
    ws = sites[-1].socket()
    ws.send("again")
    c.same(ws.recv(), "again", "and a WebSocket opens anew")
    ws.sock.close()


def events(cove, box):
    cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "exec python3 -m http.server 8777", "processId": "web"})
    seen = lambda kind: [one for one in cove.get("/v1/events?limit=1000&kind=" + kind).json["items"]
                         if one["sandbox"] == box["id"] and one["fields"].get("port") == 8777]
    c.ok(c.until(lambda: seen("port.opened"), 30, 0.2), "a new listener is reported: port.opened")
    cove.request("DELETE", "/v1/sandboxes/%s/api/process/web" % box["id"])
    c.ok(c.until(lambda: seen("port.closed"), 30, 0.2), "and ended: port.closed")


def used(cove, box):
    """CPU time of all that is in a box, pid 1 and its helpers included, in microseconds."""
    for root in c.cgroup_roots():
        group = os.path.join(root, "cove", cove.instance(), box["id"])
        for name, read in (("cpu.stat", lambda text: int(re.search(r"usage_usec (\d+)", text)[1])),
                           ("cpuacct.usage", lambda text: int(text) // 1000)):
            with contextlib.suppress(OSError, TypeError):
                with open(os.path.join(group, name)) as file:
                    return read(file.read())
    raise RuntimeError("no meter")


def idle(cove):
    """An idle box with exposed, listening ports costs no CPU time."""
    box = cove.create()
    for port in (8000, 8001, 8002):
        expose(cove, box, port)
    program = "import socket; s = socket.create_server(('127.0.0.1', 8000)); s.accept(); s.accept()"
    cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "exec python3 -Ic \"%s\"" % program})
    seen = lambda: [one for one in cove.get("/v1/events?limit=1000&kind=port.opened").json["items"] if one["sandbox"] == box["id"]]
    c.ok(c.until(seen, 30, 0.1), "a server that does nothing but listen is heard of")
    before = [used(cove, box)]

    def rests():
        before.append(used(cove, box))
        return before[-1] == before[-2]
    c.until(rests, 10, 0.5)
    start = used(cove, box)
    time.sleep(3)
    c.same((start > 0, used(cove, box) - start), (True, 0), "and then its sandbox, with three previews, uses no time at all")
    cove.delete(box)


def visitors(cove, made):
    """Many clients that keep their connection open."""
    count, site = 100 if c.SHORT else 1000, Site(made["url"])
    daemon = cove.children()["daemon"]
    rss = lambda: int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % daemon, errors="replace").read())[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2 * count + 200, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
                                                resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def look(conn):
        conn.request("GET", "/kept", headers={"Host": site.host})
        return conn.getresponse().read().startswith(b"GET /kept\n") and conn.sock is not None
    before = rss()
    kept = [http.client.HTTPConnection("127.0.0.1", site.port, timeout=30) for _ in range(count)]
    c.same(sum(map(look, kept)), count, "%d visitors are served, and stay" % count)
    grown = rss() - before
    c.ok(grown < (256 if c.SHORT else 16) * count, "each costs less than 16 KiB", grown)  # sanitizers keep what was freed
    begin = time.monotonic()
    c.same(site.ask("/").status, 200, "another client is served")
    c.ok(time.monotonic() - begin < 20, "at once", time.monotonic() - begin)
    c.same(sum(map(look, kept[::7])), len(kept[::7]), "and so are those who come back to their connection")
    for conn in kept:
        conn.close()


def slow_reader(cove, made):
    """A client that never reads blocks its own server only, and costs little memory."""
    daemon = cove.children()["daemon"]
    rss = lambda: int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % daemon, errors="replace").read())[1])
    site, before, socks = Site(made["url"]), rss(), []
    for _ in range(10):
        sock = site.connect()
        sock.sendall(b"GET /big/%d HTTP/1.1\r\nHost: %s\r\n\r\n" % (1 << 30, site.host.encode()))
        socks.append(sock)
    c.ok(all(sock.recv(12) == b"HTTP/1.1 200" for sock in socks), "ten who ask for a GiB, and do not read it")
    time.sleep(1)
    grown = rss() - before
    c.ok(grown < 10 * 256, "cost less than 256 KiB each", grown)
    c.same(site.ask("/").status, 200, "others are served")
    for sock in socks:
        sock.close()


def forward(cove, box):
    client = subprocess.Popen([cove.binary, "forward", box["id"], "0:8000"], stdout=subprocess.PIPE, text=True,
                              env=dict(cove.env, COVE_URL=cove.url, COVE_TOKEN=cove.key))
    try:
        local = int(client.stdout.readline().split(" ")[0].rsplit(":", 1)[1])
        conn = http.client.HTTPConnection("127.0.0.1", local, timeout=20)
        conn.request("POST", "/up", b"z" * (8 << 20))
        c.same(conn.getresponse().read(), b"%d" % (8 << 20), "cove forward: a local port leads into the box")
        conn = http.client.HTTPConnection("127.0.0.1", local, timeout=20)
        conn.request("GET", "/big/%d" % (8 << 20))
        c.same(len(conn.getresponse().read()), 8 << 20, "and back")
    finally:
        client.send_signal(signal.SIGINT)
        c.same(client.wait(10), 0, "Ctrl-C ends it")


def cli(cove, box):
    env = dict(cove.env, COVE_URL=cove.url, COVE_TOKEN=cove.key)
    run = lambda *words: subprocess.run([cove.binary, *words], capture_output=True, text=True, env=env, timeout=30)
    url = run("expose", box["id"], "8000").stdout.strip()
    c.same(Site(url).ask("/").status, 200, "cove expose prints an address that opens")
    c.ok(url in run("port", box["id"]).stdout, "cove port lists it")
    link = run("open", "--expires", "1h", box["id"], "8000").stdout.strip()
    c.ok(link != url and Site(link).ask("/").status == 200, "cove open --expires prints a link", link)
    c.ok("8000" in run("unexpose", box["id"], "8000").stdout and Site(url).ask("/").status == 404, "cove unexpose takes it back")
    expose(cove, box, 8000)


def guessing(cove, box):
    site = Site(expose(cove, box, 8000)["url"])
    port, ident, token = site.host.split(".")[0].split("-")
    names = {"wrong": "8000-%s-wrong" % ident, "port": "8999-%s-%s" % (ident, token), "box": "8000-%s-%s" % ("f" * 12, token)}
    answers = {}
    for name, label in names.items():
        site.host = label + ".localhost:%d" % site.port
        reply = site.ask("/")
        answers[name] = (reply.status, reply.body)
    c.ok(len(set(answers.values())) == 1 and answers["box"][0] == 404, "A-09 wrong token, port and box: the same answer", answers)
    statuses = [site.ask("/").status for _ in range(1000)]
    c.ok(set(statuses) == {404, 429} and statuses[-1] == 429, "1,000 wrong tokens are held up", statuses.count(404), statuses.count(429))
    site.host = "8000-%s-%s.localhost:%d" % (ident, token, site.port)
    c.same(site.ask("/").status, 200, "but not a right one")


def deep_sleep():
    """A box that was stopped for idleness is started by a visitor; paused by request it is not."""
    cove = c.Cove("--frozen-for", "1s", "--sweep-every", "1s")
    box = cove.create(sleepAfter="1s")
    site = Site(expose(cove, box, 8000)["url"])
    state = lambda: cove.get("/v1/sandboxes/" + box["id"]).json["state"]
    c.ok(c.until(lambda: state() == "stopped", 30, 0.1), "the sandbox is stopped for idleness", state())
    reply = site.ask("/")
    c.ok(reply.status == 502 and reply.json["code"] == "PORT_CLOSED" and state() == "running", "a visitor starts it anew", reply)
    cove.post("/v1/sandboxes/%s/pause" % box["id"])
    reply = site.ask("/")
    c.ok(reply.status == 409 and reply.json["code"] == "SANDBOX_PAUSED", "but not one that was paused", reply)
    cove.delete(box)
    cove.close()


def crowd():
    """One address cannot take all connections."""
    cove = c.Cove("--conns-max", "40")
    box = cove.create()
    serve(cove, box, 8000)
    site = Site(expose(cove, box, 8000)["url"])
    greedy = []
    for _ in range(60):
        greedy.append(socket.create_connection(("127.0.0.1", site.port), 30, source_address=("127.0.0.7", 0)))
        greedy[-1].sendall(b"GET /never HTTP/1.1\r\nHost: %s\r\n\r\n" % site.host.encode())
    away = [sock for sock in greedy[40:] if sock.recv(12) == b"HTTP/1.1 503"]
    c.same(len(away), 20, "A-23 who holds half of all connections gets no more")
    c.same(site.ask("/").status, 200, "A-23 and others are served")
    for sock in greedy:
        sock.close()
    cove.delete(box)
    cove.close()


def tls():
    cove = c.Cove(start=False)
    first, second = certificate(cove.home, "first"), certificate(cove.home, "second")
    used = [os.path.join(cove.home, name) for name in ("used.pem", "used.key")]
    for n in (0, 1):
        os.link(first[n], used[n])
    cove.args = ["--preview-domain", "preview.test", "--preview-cert", used[0], "--preview-key", used[1]]
    cove.start()
    box = cove.create()
    serve(cove, box, 8000)
    site = Site(expose(cove, box, 8000)["url"])
    c.ok(site.tls and site.host.startswith("8000-%s-" % box["shortId"]), "with a certificate the address is https", site.host)
    text = site.ask("/x", trust=first[0]).body.decode()
    c.ok("X-Forwarded-Proto: https" in text and "X-Forwarded-For: 127.0.0.1" in text, "and served by TLS", text)
    c.same(len(site.ask("/big/%d" % (16 << 20), trust=first[0]).body), 16 << 20, "a large download")
    c.same(site.ask("/up", "POST", b"x" * (16 << 20), trust=first[0]).body, b"%d" % (16 << 20), "and upload")
    with socket.create_connection(("127.0.0.1", site.port), 10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            got = plain.recv(100)
        except ConnectionResetError:
            got = b""
        c.ok(not got.startswith(b"HTTP/"), "nothing is told in the clear", got)
    for n in (0, 1):
        os.unlink(used[n])
        os.link(second[n], used[n])
    subprocess.run([cove.binary, "reload", "--data", cove.data], check=True, env=cove.env, capture_output=True)
    c.same(site.ask("/", trust=second[0]).status, 200, "a reload takes the new certificate")
    deaf = site.connect(second[0])
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.sendall(("GET /big/%d HTTP/1.1\r\nHost: %s\r\n\r\n" % (256 << 20, site.host)).encode())
    deaf.read(1)
    cove.delete(box)
    ends = "%04X 0100007F:%04X 01" % (site.port, deaf.getsockname()[1])
    c.ok(c.until(lambda: ends not in open("/proc/net/tcp").read(), 30), "a visitor that does not read keeps no visit to a deleted sandbox")
    deaf.close()
    cove.close()


def main():
    c.need_root()
    if sys.argv[1:] == ["tls"]:
        tls()
        c.done()
        return
    cove = c.Cove(env={"COVE_PREVIEW_LISTEN": "127.0.0.1:%d" % free_port()})
    cove.delete(cove.create())
    before = c.calm(cove)
    box = cove.create(name="first")
    serve(cove, box, 8000)
    made = address(cove, box)
    relay(cove, box, made)
    closing(cove, box)
    smuggle(cove, box, made)
    closed(cove, box)
    links(cove, box, made)
    waking(cove)
    made = taken_back(cove, box, made)
    cli(cove, box)
    forward(cove, box)
    events(cove, box)
    idle(cove)
    visitors(cove, expose(cove, box, 8000))
    slow_reader(cove, expose(cove, box, 8000))
    again(cove, box)
    guessing(cove, box)
    cove.delete(box)
    c.same(c.settled(before, cove), {}, "the census is as before")
    c.ok(made["token"] not in cove.log_text(), "no token is in the log")
    cove.close()
    deep_sleep()
    crowd()
    tls()
    c.done()


main()
