"""A world of two network namespaces: the one of the test and its cove, and behind a router one with servers at global
addresses and a server of names. Nothing leaves the two. A test calls apart() before anything else, then makes a World."""
import contextlib
import ctypes
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

from certificate import certify

# Special purpose, global by the registry (AS112). DEAD and DEAD6 take every packet and answer none.
NEAR, NEAR6, FAR, FAR6 = "192.31.196.2", "2620:4f:8000::2", "192.175.48.6", "2001:4:112::6"
DEAD, DEAD6 = "192.175.48.66", "2001:4:112::66"
NAMES = {
    "far.test": {"A": [FAR]}, "seen.test": {"A": [FAR]}, "other.test": {"A": [FAR]},
    "dead-first.test": {"A": [DEAD, FAR]}, "dead-six.test": {"AAAA": [DEAD6], "A": [FAR]}, "six.test": {"AAAA": [FAR6]},
    "dead.test": {"A": [DEAD]},
    "mail.test": {"A": [FAR], "MX": [(10, "far.test")], "TXT": ["v=spf1 -all"]},
    "_sip._tcp.mail.test": {"SRV": [(1, 2, 5060, "far.test")]}, "_dmarc.mail.test": {"TXT": ["v=DMARC1"]},
    "6.48.175.192.in-addr.arpa": {"PTR": ["far.test"]},
}
TYPES = {1: "A", 28: "AAAA", 15: "MX", 16: "TXT", 33: "SRV", 12: "PTR"}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LO_UP = "import fcntl, socket, struct; s = socket.socket(); fcntl.ioctl(s, 0x8914, struct.pack('16sh22x', b'lo', 0x49))"


def apart():
    if os.environ.get("COVE_WORLD_APART") != "1":
        os.environ["COVE_WORLD_APART"] = "1"
        os.execvp("unshare", ["unshare", "-n", "-m", sys.executable] + sys.argv)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def record(kind, value):
    if kind in ("A", "AAAA"):
        return socket.inet_pton(socket.AF_INET if kind == "A" else socket.AF_INET6, value)
    if kind == "MX":
        return struct.pack(">H", value[0]) + wire(value[1])
    if kind == "SRV":
        return struct.pack(">HHH", *value[:3]) + wire(value[3])
    return wire(value) if kind == "PTR" else bytes([len(value)]) + value.encode()


class World:
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="cove-world-")
        self.ca, _, _ = certify(self.home, "world", ("far.test", "seen.test", "dead-first.test"))
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        path = os.path.join(self.home, "resolv.conf")
        with open(path, "w") as file:
            file.write("nameserver %s\noptions timeout:2 attempts:2\n" % NEAR)
        subprocess.run(["mount", "--bind", path, os.path.realpath("/etc/resolv.conf")], check=True)
        subprocess.run([sys.executable, "-c", LO_UP], check=True)
        made, moved, ready = os.pipe(), os.pipe(), os.pipe()
        self.child = os.fork()
        if self.child == 0:
            self.serve(made[1], moved[0], ready[1])
        os.read(made[0], 1)
        ip("link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", str(self.child))
        ip("link", "set", "v0", "up")
        ip("addr", "add", "192.31.196.1/24", "dev", "v0")
        ip("-6", "addr", "add", "2620:4f:8000::1/64", "dev", "v0", "nodad")
        os.write(moved[1], b"x")
        if os.read(ready[0], 1) != b"x":
            raise RuntimeError("no world")
        ip("route", "add", "default", "via", NEAR)
        ip("-6", "route", "add", "default", "via", NEAR6)

    def close(self):
        os.kill(self.child, 9)
        os.waitpid(self.child, 0)
        subprocess.run(["umount", os.path.realpath("/etc/resolv.conf")], check=False)
        shutil.rmtree(self.home, ignore_errors=True)

    def told(self, name):
        """What a server has written down, or nothing yet."""
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(self.home, name), "rb") as file:
                return file.read()
        return b""

    # ------------------------------------------------------------------------ in the other namespace

    def serve(self, made, moved, ready):
        libc = ctypes.CDLL(None)
        libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
        libc.unshare(0x40000000)  # CLONE_NEWNET
        os.write(made, b"x")
        os.read(moved, 1)
        subprocess.run([sys.executable, "-c", LO_UP], check=True)
        ip("link", "set", "v1", "up")
        for address in (NEAR + "/24", FAR + "/32"):
            ip("addr", "add", address, "dev", "v1")
        for address in (NEAR6 + "/64", FAR6 + "/128"):
            ip("-6", "addr", "add", address, "dev", "v1", "nodad")
        ip("route", "add", "blackhole", DEAD + "/32")
        ip("-6", "route", "add", "blackhole", DEAD6 + "/128")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(os.path.join(self.home, "server.pem"), os.path.join(self.home, "server.key"))
        threading.Thread(target=self.answer_names, daemon=True).start()
        for port, act in ((80, self.web), (443, self.web_tls), (9000, self.echo), (9001, self.half), (9002, self.reset),
                          (50051, self.http2)):
            for address in (FAR, FAR6):
                self.listen(address, port, act)
        os.write(ready, b"x")
        threading.Event().wait()
        os._exit(0)

    def listen(self, address, port, act):
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1024)

        def one(conn):
            with contextlib.suppress(OSError):
                act(conn)
            conn.close()

        def run():
            while True:
                threading.Thread(target=one, args=(sock.accept()[0],), daemon=True).start()
        threading.Thread(target=run, daemon=True).start()

    def answer_names(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.bind((NEAR, 53))
        while True:
            data, where = sock.recvfrom(2048)
            labels, at = [], 12
            while data[at]:
                labels.append(data[at + 1:at + 1 + data[at]].decode().lower())
                at += 1 + data[at]
            name, kind = ".".join(labels), struct.unpack(">H", data[at + 1:at + 3])[0]
            known = NAMES.get(name, {"A": [FAR]} if labels[-2:] == ["many", "test"] else None)
            given = (known or {}).get(TYPES.get(kind), [])
            parts = [record(TYPES[kind], value) for value in given]
            sock.sendto(data[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, len(parts), 0, 0) + data[12:at + 5] +
                        b"".join(struct.pack(">HHHIH", 0xC00C, kind, 1, 60, len(part)) + part for part in parts), where)

    @staticmethod
    def linger(conn):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @staticmethod
    def head(conn):
        got = b""
        while b"\r\n\r\n" not in got:
            more = conn.recv(4096)
            if not more:
                return got
            got += more
        return got

    def web(self, conn):
        got = self.head(conn)
        if got.startswith(PREFACE):
            return self.http2(conn, got)
        path = got.split(b" ")[1] if b" " in got else b""
        if path == b"/":
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
            return None
        conn.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome of it\n")
        if path == b"/reset":
            self.await_read(conn)
            self.linger(conn)
        return None

    @staticmethod
    def await_read(conn):
        """Until the peer has acknowledged all of it: a reset drops what is unsent."""
        while struct.unpack("i", fcntl_ioctl(conn, 0x5411))[0]:  # SIOCOUTQ
            time.sleep(0.005)

    def web_tls(self, conn):
        tls = self.context.wrap_socket(conn, server_side=True, do_handshake_on_connect=True)
        head = self.head(tls)
        path = head.split(b" ")[1]
        if head.startswith(b"PUT "):
            head, _, body = head.partition(b"\r\n\r\n")
            while len(body) < int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
                body += tls.recv(65536)
            tls.sendall(b'HTTP/1.1 200 OK\r\nETag: "part"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
            return
        tls.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome of it\n")
        if path == b"/whole":
            tls.unwrap()
        elif path == b"/reset":
            self.await_read(tls)
            self.linger(tls)
        tls.close()

    def echo(self, conn):
        while True:
            data = conn.recv(65536)
            if not data:
                return
            conn.sendall(data)

    def half(self, conn):
        conn.sendall(b"hello\n")
        conn.shutdown(socket.SHUT_WR)
        got = b""
        while True:
            data = conn.recv(4096)
            if not data:
                break
            got += data
        with open(os.path.join(self.home, "half"), "wb") as file:
            file.write(got)

    def reset(self, conn):
        self.linger(conn)

    def http2(self, conn, got=b""):
        while len(got) < len(PREFACE) + 9:
            got += conn.recv(4096)
        if got.startswith(PREFACE):
            conn.sendall(b"\0\0\0\4\0\0\0\0\0")  # an empty SETTINGS
        conn.recv(4096)


def fcntl_ioctl(conn, request):
    import fcntl
    return fcntl.ioctl(conn.fileno(), request, b"\0" * 4)
