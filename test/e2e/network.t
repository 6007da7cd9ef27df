#!/usr/bin/env python3
"""Networks as agents meet them: names with dead addresses, replies that are cut, HTTP/2 without TLS, dead ports, many
connections and lookups at once, further records of DNS, previews that end with their link."""
import os
import shlex
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world as w  # noqa: E402

w.apart()
import cove as c  # noqa: E402
import visits as v  # noqa: E402
import outside  # noqa: E402

c.need_root()
ALL = {"mode": "all"}


REASONS = set()  # every one that the ledgers of this test had


def ledger(cove, box, **want):
    rows, totals = outside.ledger(cove, box, **want)
    REASONS.update(row["reason"] for row in rows if row["reason"])
    return rows, totals


def documented():
    with open(os.path.join(c.ROOT, "docs", "OPERATIONS.md")) as file:
        table = file.read().partition("## Denials in the ledger")[2].partition("\n## ")[0]
    words = {word.strip(" `") for line in table.splitlines() if line.startswith("| `") for word in line.split("|")[1].split(",")}
    c.same(sorted(REASONS - words), [], "ledger: every reason is documented (%d were met)" % len(REASONS))


def python(cove, box, program, **fields):
    return cove.run(box, ["python3", "-I", "-"], stdin=program, **fields)


def curl(cove, box, url, *more):
    begin = time.monotonic()
    got = cove.run(box, ["curl", "-sS", "-m", "60", *more, url])
    return got, time.monotonic() - begin


# ------------------------------------------------------------------------------------------- dialing

def dialing(cove):
    box = cove.create(network=ALL)
    for name, words in (("dead-first.test", "a name whose first address is dead"),
                        ("dead-six.test", "a name whose IPv6 address is dead, on a host with an IPv6 route"),
                        ("six.test", "a name with an IPv6 address alone")):
        got, took = curl(cove, box, "http://%s/" % name)
        c.ok(got["stdout"] == "hello\n" and took < 10, "dial: %s is reached in less than 10 s" % words, got, took)
    rows, _ = ledger(cove, box, verdict="allow")
    c.same(sorted((row["name"], row["address"]) for row in rows),
           [("dead-first.test", w.FAR), ("dead-six.test", w.FAR), ("six.test", w.FAR6)], "dial: the ledger has the address that answered")
    at = "/v1/sandboxes/%s/api/backup/" % box["id"]
    cove.run(box, "mkdir d && echo x > d/x")
    made = cove.post(at + "create", {"dir": "/workspace/d", "archivePath": "/var/backups/a.sqsh"})
    begin = time.monotonic()
    sent = cove.post(at + "upload-parts", {"archivePath": "/var/backups/a.sqsh", "parts": [
        {"partNumber": 1, "url": "https://dead-first.test/part", "offset": 0, "size": made.json["sizeBytes"]}]})
    c.ok(sent.status == 200 and time.monotonic() - begin < 10, "dial: the daemon's own uploads try all addresses, too", sent)
    with open("/proc/sys/net/ipv4/ip_nonlocal_bind", "w") as file:
        file.write("1\n")
    got, _ = curl(cove, box, "http://far.test/")
    c.same(got["stdout"], "hello\n", "a host with net.ipv4.ip_nonlocal_bind=1 reaches IPv4") or c.note(got["stderr"])
    with open("/proc/sys/net/ipv4/ip_nonlocal_bind", "w") as file:
        file.write("0\n")
    cove.delete(box)


# --------------------------------------------------------------------------------------- cut replies

PLAIN = r'''
import socket, sys
def all_of(s):
    got = b""
    try:
        while True:
            more = s.recv(4096)
            if not more: return got, "end"
            got += more
    except OSError as e: return got, type(e).__name__
s = socket.create_connection(("far.test", 80), timeout=60)
s.sendall(b"GET /%s HTTP/1.1\r\nHost: far.test\r\n\r\n")
got, how = all_of(s)
print(got.endswith(b"some of it\n"), how)
'''
TLS = r'''
import socket, ssl
context = ssl.create_default_context()
context.options &= ~0x80  # SSL_OP_IGNORE_UNEXPECTED_EOF, which Python sets
s = context.wrap_socket(socket.create_connection(("seen.test", 443), timeout=60), server_hostname="seen.test", suppress_ragged_eofs=False)
s.sendall(b"GET /%s HTTP/1.1\r\nHost: seen.test\r\n\r\n")
got, how = b"", "end"
try:
    while True:
        more = s.recv(4096)
        if not more: break
        got += more
except OSError as e: how = "cut" if "EOF" in str(e) else type(e).__name__
print(got.endswith(b"some of it\n"), how)
'''
HALF = r'''
import socket
s = socket.create_connection(("far.test", 9001), timeout=60)
got = b""
while True:
    more = s.recv(100)
    if not more: break
    got += more
s.sendall(b"late bytes"); s.close()
print(got.decode(), end="")
'''
RESET = r'''
import socket
s = socket.create_connection(("far.test", 9002), timeout=60)
try: print("end" if s.recv(100) == b"" else "bytes")
except OSError as e: print(type(e).__name__)
'''


def cut(cove, world):
    box = cove.create(network=dict(ALL, inspect=["seen.test"]))
    c.same(python(cove, box, PLAIN % "end")["stdout"], "True end\n", "cut: a reply without a length that ends does end")
    c.same(python(cove, box, PLAIN % "reset")["stdout"], "True ConnectionResetError\n", "cut: one that is reset upstream is reset")
    c.same(python(cove, box, TLS % "whole")["stdout"], "True end\n", "cut: an inspected reply with a close_notify ends with one")
    got = python(cove, box, TLS % "cut")
    c.same(got["stdout"], "True cut\n", "cut: one without a close_notify ends without one") or c.note(got["stderr"])
    got = python(cove, box, TLS % "reset")["stdout"]
    c.ok(got in ("True ConnectionResetError\n", "True cut\n"), "cut: one that is reset is cut", got)
    c.same(python(cove, box, HALF)["stdout"], "hello\n", "half-close: a server speaks first and closes its half")
    c.ok(c.until(lambda: world.told("half") == b"late bytes"), "half-close: the bytes of the client still arrive", world.told("half"))
    c.same(python(cove, box, RESET)["stdout"], "ConnectionResetError\n", "reset: a reset before the first word is a reset")
    cove.delete(box)


# -------------------------------------------------------------------------------------------- HTTP/2

H2C = r'''
import socket, sys
s = socket.create_connection(("far.test", int(%d)), timeout=60)
s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
try: print(s.recv(9).hex())
except OSError as e: print(type(e).__name__)
'''
SETTINGS = "000000040000000000\n"


def http2(cove):
    for policy in (ALL, {"mode": "allow", "allow": ["far.test", "far.test:50051"]}):
        box = cove.create(network=policy)
        for port in (50051, 80):
            c.same(python(cove, box, H2C % port)["stdout"], SETTINGS, "h2c: passes in mode %s on port %d" % (policy["mode"], port))
        rows = []
        c.until(lambda: rows.__setitem__(slice(None), ledger(cove, box, verdict="allow")[0]) or len(rows) == 2)
        c.same(sorted((row["name"], row["port"]) for row in rows), [("far.test", 80), ("far.test", 50051)],
               "h2c: the rows of the ledger show the name")
        cove.delete(box)
    box = cove.create(network=dict(ALL, inspect=["far.test"]))
    c.ok(python(cove, box, H2C % 80)["stdout"] != SETTINGS, "h2c: does not pass to a name that is inspected")
    rows, _ = ledger(cove, box, verdict="deny")
    c.same([row["reason"] for row in rows], ["not_http"], "h2c: and the ledger says why")
    cove.delete(box)


# ------------------------------------------------------------------------------------- nobody there

NOBODY = r'''
import socket, ssl, sys, time
def attempt(name, port, tls):
    begin = time.monotonic()
    try:
        s = socket.create_connection((name, port), timeout=60)
        if tls:
            context = ssl._create_unverified_context()
            context.wrap_socket(s, server_hostname=name)
            how = "connected"
        else:
            s.sendall(b"\1\2\3\n")
            how = "end" if s.recv(10) == b"" else "bytes"
    except ssl.SSLError as e: how = e.reason
    except OSError as e: how = type(e).__name__
    print(how, time.monotonic() - begin < 8)
attempt("far.test", 9, False)
attempt("far.test", 4443, True)
attempt("nowhere.test", 9, False)
attempt("nowhere.test", 443, True)
'''


def nobody(cove):
    box = cove.create(network=ALL)
    words = python(cove, box, NOBODY)["stdout"].splitlines()
    names = ("a dead port", "a dead port by TLS", "an unknown name", "an unknown name by TLS")
    for name, word in zip(names, words):
        want = "TLSV1_ALERT_INTERNAL_ERROR True" if "TLS" in name else "ConnectionResetError True"
        c.same(word, want, "nobody: %s is %s, promptly" % (name, "an alert that is no denial's" if "TLS" in name else "a reset"))
    rows = []
    c.until(lambda: rows.__setitem__(slice(None), ledger(cove, box)[0]) or len(rows) == 4)
    c.same([(row["name"], row["port"], row["verdict"], row["reason"]) for row in rows],
           [("far.test", 9, "allow", "no_server"), ("far.test", 4443, "allow", "no_server"),
            ("nowhere.test", 9, "allow", "unknown_name"), ("nowhere.test", 443, "allow", "unknown_name")], "nobody: the ledger says what it was")
    got, _ = curl(cove, box, "http://nowhere.test/", "-i")
    c.ok(" 502 " in got["stdout"].split("\n")[0] and "unknown_name" in got["stdout"], "nobody: a request to an unknown name is 502", got)
    cove.delete(box)


# -------------------------------------------------------------------------------------------- limits

MANY = r'''
import socket, threading
good, bad, gate = [], [], threading.Barrier(200)
def one(i):
    gate.wait()
    try:
        s = socket.create_connection(("n%d.many.test" % i, 9000), timeout=60)
        s.sendall(b"x"); good.append(s.recv(1)); kept.append(s)
    except Exception as e: bad.append(repr(e))
kept = []
threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(good), bad[:3])
'''
LOOKUPS = r'''
import socket, threading
good, bad, gate = [], [], threading.Barrier(200)
def one(i):
    gate.wait()
    try: good.append(socket.getaddrinfo("look%d.many.test" % i, 80, type=socket.SOCK_STREAM))
    except Exception as e: bad.append(repr(e))
threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(good), bad[:3])
'''
BURST = r'''
import socket, threading, time
good, bad, begin = [], [], time.monotonic()
def one():
    try:
        s = socket.create_connection(("far.test", 9000), timeout=60)
        s.sendall(b"x"); good.append(s.recv(1)); s.close()
    except Exception as e: bad.append(repr(e))
threads = [threading.Thread(target=one) for i in range(%d)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(good), len(bad))
'''


def limits(cove):
    box = cove.create(network=ALL, limits={"pids": 1024})
    c.same(python(cove, box, MANY)["stdout"], "200 []\n", "limits: 200 connections at once, to 200 names, all succeed")
    c.same(python(cove, box, LOOKUPS)["stdout"], "200 []\n", "limits: 200 lookups at once all succeed")
    cove.delete(box)
    box = cove.create(network=dict(ALL, budgets={"perSecond": 10}))
    c.same(python(cove, box, BURST % 30)["stdout"], "30 0\n", "limits: what exceeds the rate waits for its turn")
    cove.delete(box)
    box = cove.create(network=dict(ALL, budgets={"perSecond": 1}))
    good, bad = map(int, python(cove, box, BURST % 20)["stdout"].split())
    c.ok(good + bad == 20 and 4 <= good <= 12 and bad, "limits: after 5 s of waiting it is refused", good, bad)
    rows, totals = ledger(cove, box, verdict="deny")
    c.ok(totals["denied"] == bad and {row["reason"] for row in rows} == {"rate"}, "limits: and the ledger says why", rows)
    cove.delete(box)


# ---------------------------------------------------------------------------------------------- DNS

RECORDS = r'''
import socket, struct
def wire(name): return b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0"
def ask(name, kind, tcp=False):
    q = struct.pack(">HHHHHH", 77, 0x100, 1, 0, 0, 0) + wire(name) + struct.pack(">HH", kind, 1)
    s = socket.socket(2, 1 if tcp else 2)
    s.settimeout(30)
    s.connect(("9.9.9.9", 53))
    s.sendall(struct.pack(">H", len(q)) + q if tcp else q)
    r = s.recv(2048)
    if tcp:
        while len(r) < 2 or len(r) < 2 + struct.unpack(">H", r[:2])[0]: r += s.recv(2048)
        r = r[2:]
    at = 12 + len(q) - 12
    return r[:2] == q[:2] and r[12:at] == q[12:], r[3] & 15, r[6] * 256 + r[7], r[at + 12:]
FAR = wire("far.test")
print(ask("mail.test", 15) == (True, 0, 1, b"\0\x0a" + FAR), ask("Mail.test", 16) == (True, 0, 1, b"\x0bv=spf1 -all"),
      ask("_sip._tcp.mail.test", 33) == (True, 0, 1, struct.pack(">HHH", 1, 2, 5060) + FAR), ask("_dmarc.mail.test", 16)[2] == 1,
      ask("mail.test", 15, True) == (True, 0, 1, b"\0\x0a" + FAR))
given = socket.gethostbyname("far.test")
back = ".".join(reversed(given.split("."))) + ".in-addr.arpa"
print(ask(back, 12) == (True, 0, 1, FAR), ask("6.48.175.192.in-addr.arpa", 12)[2], ask("other.test", 16)[1:3], ask("mail.test", 65)[1:3])
six = socket.getaddrinfo("far.test", 80, socket.AF_INET6, socket.SOCK_STREAM)[0][4]
s = socket.create_connection(six[:2], timeout=30)
s.sendall(b"GET / HTTP/1.1\r\nHost: far.test\r\n\r\n")
print(s.recv(12).decode())
'''


def records(cove):
    box = cove.create(network=ALL)
    got = python(cove, box, RECORDS)
    lines = got["stdout"].splitlines() + [""] * 3
    c.same(lines[0], "True True True True True", "names: MX, TXT and SRV are passed on, by UDP and TCP") or c.note(got["stderr"])
    c.same(lines[1], "True 1 (0, 0) (0, 0)", "names: PTR of a synthetic address and of another; types without records are empty")
    c.same(lines[2], "HTTP/1.1 200", "names: AAAA has an address that leads there")
    cove.delete(box)
    box = cove.create(network={"mode": "allow", "allow": ["mail.test", "far.test"]})
    lines = python(cove, box, RECORDS)["stdout"].splitlines() + [""] * 3
    c.same(lines[:2], ["True True True True True", "True 0 (3, 0) (0, 0)"], "names: with a list, records of names that it has alone")
    cove.delete(box)


# ------------------------------------------------------------------------------------------ variables

BUNDLE, OWN = "/etc/ssl/certs/ca-certificates.crt", "/usr/local/share/ca-certificates/cove.crt"
VARIABLES = {"SSL_CERT_FILE": BUNDLE, "REQUESTS_CA_BUNDLE": BUNDLE, "CURL_CA_BUNDLE": BUNDLE, "GIT_SSL_CAINFO": BUNDLE,
             "PIP_CERT": BUNDLE, "AWS_CA_BUNDLE": BUNDLE, "NODE_EXTRA_CA_CERTS": OWN}


def variables(cove):
    def env(box, **fields):
        lines = cove.out(box, "env", **fields).splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines) if name in VARIABLES}
    box = cove.create(network=dict(ALL, inspect=["seen.test"]), env={"PIP_CERT": "/of/the/box"})
    c.same(env(box, env={"CURL_CA_BUNDLE": "/of/the/command"}),
           dict(VARIABLES, PIP_CERT="/of/the/box", CURL_CA_BUNDLE="/of/the/command"), "trust: the variables are set, but not over the user's")
    c.same(cove.out(box, "grep -c 'cove: the authority' %s; ls %s" % (BUNDLE, OWN)), "1\n%s\n" % OWN, "trust: the files are there")
    cove.delete(box)
    box = cove.create(network=ALL)
    c.same(env(box), {}, "trust: where nothing is inspected none is set")
    cove.delete(box)


JAVA = r'''
public class T { public static void main(String[] a) throws Exception {
  System.out.print(new String(new java.net.URL("https://seen.test/whole").openStream().readAllBytes())); } }
'''


def java(cove):
    box = cove.create(network=dict(ALL, inspect=["seen.test"]), limits={"memoryMB": 1024})
    if cove.run(box, "command -v java && command -v keytool")["exitCode"]:
        c.skip("trust: a keystore of Java has the authority", "there is no JDK in the template")
        return
    got = cove.run(box, "keytool -list -cacerts -storepass changeit -alias cove-" + box["id"])
    c.ok(got["exitCode"] == 0 and "trustedCertEntry" in got["stdout"], "trust: a keystore of Java has the authority", got)
    got = cove.run(box, "cat > T.java && java T.java", stdin=JAVA)
    c.same(got["stdout"], "some of it\n", "trust: a Java program believes an inspected name") or c.note(got["stderr"])
    cove.delete(box)


def nss(cove):
    box = cove.create(network=ALL)
    if cove.run(box, "command -v certutil")["exitCode"]:
        c.skip("trust: a database of NSS has the authority", "there is no certutil in the template")
        return
    cove.run(box, "mkdir -p /root/.pki/nssdb && certutil -N --empty-password -d sql:/root/.pki/nssdb")
    cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": dict(ALL, inspect=["seen.test"])})
    got = cove.run(box, "certutil -L -d sql:/root/.pki/nssdb")
    c.ok("cove-" + box["id"] in got["stdout"] and "C,," in got["stdout"], "trust: a database of NSS has the authority", got)
    cove.delete(box)


# --------------------------------------------------------------------------------------------- policy

def command(cove, *words):
    return subprocess.run([cove.binary, *words], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, COVE_URL=cove.url, COVE_TOKEN=cove.key))


def policy(cove):
    box = cove.create(network=ALL)
    got = command(cove, "policy", box["id"], "--allow", "far.test")
    c.ok(got.returncode == 0 and "changes nothing" in got.stderr, "policy: --allow in mode all says that it changes nothing", got)
    cove.delete(box)
    cases = (({"mode": "allow", "allow": ["other.test"]}, "http://far.test/"),
             ({"mode": "allow", "allow": ["far.test:8080"]}, "http://far.test/"),
             (dict(ALL, inspect=["far.test"], rules=[{"name": "far.test", "methods": ["POST"]}]), "http://far.test/"),
             (dict(ALL, budgets={"requests": 0}), "http://far.test/"),
             (dict(ALL, budgets={"connections": 0}), "http://far.test/"),
             (dict(ALL, budgets={"bytesIn": 0}), "http://far.test/"))
    for network, url in cases:
        box = cove.create(network=network)
        where = ["--resolve", "far.test:80:" + w.FAR]
        got, _ = curl(cove, box, url, *where)
        c.ok(got["stdout"] != "hello\n", "cure: it is denied at first", network)
        rows = []
        c.until(lambda: rows.__setitem__(slice(None), [r for r in ledger(cove, box)[0] if r.get("hint")]) or rows)
        hint = rows[-1]["hint"] if rows else ""
        shown = command(cove, "egress", box["id"]).stdout
        c.ok(hint.startswith("cove policy ") and hint in shown, "cure: cove egress names one", network, rows, shown)
        done = command(cove, *shlex.split(hint)[1:])
        got, _ = curl(cove, box, url, *where)
        c.ok(done.returncode == 0 and got["stdout"] == "hello\n", "cure: %s really cures" % hint.split(" ", 3)[-1], hint, done, got)
        cove.delete(box)


# ------------------------------------------------------------------------------------------- previews

COUNTER = r'''
import http.server, socketserver, sys, time
count = 0
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/events":
            self.send_response(200); self.send_header("Content-Type", "text/event-stream"); self.end_headers()
            self.close_connection = True
            while True:
                self.wfile.write(b": tick\n\n"); self.wfile.flush(); time.sleep(0.2)
        body = b"%d" % count
        self.send_response(200); self.send_header("Content-Length", str(len(body)))
        if self.path == "/last": self.send_header("Connection", "close")
        self.end_headers()
        if self.path == "/quiet": self.close_connection = True  # without saying so
        self.wfile.write(body)
    def log_message(self, *args): pass
class S(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    def get_request(self):
        global count
        count += 1
        return super().get_request()
S(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
'''


def ends(read, seconds=20):
    """How long until the stream ends."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        try:
            if not read():
                return time.monotonic() - begin
        except TimeoutError:
            return None
        except OSError:
            return time.monotonic() - begin
    return None


def previews(cove):
    box = cove.create()
    v.serve(cove, box, 8000)
    v.serve(cove, box, 8100, server=COUNTER)
    v.expose(cove, box, 8000)
    links = "/v1/sandboxes/%s/ports/8000/links" % box["id"]
    by_link = v.Site(cove.post(links, {"expiresIn": 3}).json["pathUrl"])
    socket = by_link.socket("/ws")
    took = ends(lambda: socket.sock.recv(10))
    c.ok(took is not None, "expiry: a WebSocket ends with its link", took)
    shown = v.expose(cove, box, 8100, expiresIn=3)
    events = v.Site(shown["pathUrl"]).connect()
    events.sendall(("GET %s/events HTTP/1.1\r\nHost: %s\r\n\r\n" % (v.Site(shown["pathUrl"]).prefix, v.Site(shown["pathUrl"]).host)).encode())
    took = ends(lambda: events.recv(4096))
    c.ok(took is not None and took > 1, "expiry: an event stream ends with expiresIn", took)
    cove.request("DELETE", "/v1/sandboxes/%s/ports/8100" % box["id"])
    site = v.Site(v.expose(cove, box, 8100)["pathUrl"])
    first = int(site.ask("/").body)
    seen = [int(site.ask("/").body) for _ in range(20)]
    c.ok(seen[-1] - first < 10, "keepalive: connections to the server inside are reused", first, seen)
    before = int(site.ask("/last").body)
    c.ok(int(site.ask("/").body) == before + 1, "keepalive: one that the server closes is not", before)
    c.same([site.ask("/quiet").status for _ in range(20)], [200] * 20, "keepalive: one that the server closes without a word is no error")
    c.same(site.ask("/", method="HEAD").status, 501, "keepalive: a reply to HEAD")
    c.same(site.ask("/").status, 200, "keepalive: and one after it")
    begin = time.monotonic()
    cove.delete(box)
    c.ok(time.monotonic() - begin < 20, "keepalive: a deleted sandbox keeps none")


def main():
    world = w.World()
    cove = c.Cove("--egress-ca=" + world.ca)
    try:
        dialing(cove)
        cut(cove, world)
        http2(cove)
        nobody(cove)
        limits(cove)
        records(cove)
        variables(cove)
        java(cove)
        nss(cove)
        policy(cove)
        previews(cove)
        documented()
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
        world.close()
    c.done()


main()
