"""The world outside of a sandbox, on an address of loopback of its own: servers of HTTP with and without TLS, of bytes,
of git, of Debian packages and of npm. Names lead to it by the operator's list, and it is reached by his exceptions.

Each server keeps what it saw, so that a test can tell what really left.
"""
import http.server
import os
import shutil
import socket
import socketserver
import ssl
import subprocess
import tempfile
import threading

import cove as c
from certificate import certify

SSL_NAMES = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
             "npm_config_cafile")
CA_IN_BOX = "/workspace/test-ca.pem"


class Seen:
    """One request as it arrived."""

    def __init__(self, method, path, headers, body, host, tls):
        self.method, self.path, self.headers, self.body, self.host, self.tls = method, path, headers, body, host, tls


class Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="text/plain", **fields):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            got = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                got += self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    return got
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def serve(self):
        outside, host = self.server.outside, (self.headers.get("Host") or "").split(":")[0]
        body = self.body()
        outside.seen.append(Seen(self.command, self.path, dict(self.headers.items()), body, host,
                                 isinstance(self.connection, ssl.SSLSocket)))
        path = self.path.split("?")[0]
        if path.startswith("/git/"):
            return self.git(path[4:], body)
        if path.startswith("/bytes/"):
            return self.answer(200, b"x" * int(path[7:]))
        if path.startswith("/files/"):
            return self.file(os.path.join(outside.files, path[7:]))
        return self.answer(200, ("hello from %s %s\n" % (host, path)).encode())

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = serve

    def file(self, path):
        if not os.path.isfile(path):
            return self.answer(404, b"no such file\n")
        with open(path, "rb") as file:
            return self.answer(200, file.read(), "application/octet-stream")

    def git(self, path, body):
        """git's own smart HTTP, by its CGI program."""
        query = self.path.partition("?")[2]
        run = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, timeout=60,
            env={"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.server.outside.repositories, "GIT_HTTP_EXPORT_ALL": "1",
                 "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": "127.0.0.1",
                 "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                 "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                 "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "GIT_CONFIG_NOSYSTEM": "1",
                 "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})
        head, _, rest = run.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(fields.pop("Status", "200").split()[0])
        kind = fields.pop("Content-Type", "text/plain")
        self.answer(status, rest, kind, **fields)


class Web(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256
    context = None

    def get_request(self):
        sock, where = super().get_request()
        self.outside.accepted += 1
        return sock, where

    def finish_request(self, request, client_address):
        if not self.context:
            return super().finish_request(request, client_address)
        try:  # in the connection's own thread: who is slow to greet keeps nobody waiting
            request.settimeout(60)
            request = self.context.wrap_socket(request, server_side=True)
        except OSError:
            return None
        try:
            super().finish_request(request, client_address)
        finally:
            try:
                request.unwrap()
            except (OSError, ValueError):
                pass
            request.close()
        return None

    def handle_error(self, *_):
        pass


class Echo(socketserver.ThreadingTCPServer):
    """What is sent comes back; the sums are kept. A first line "flood N" is answered with N bytes instead."""
    daemon_threads = allow_reuse_address = True
    request_queue_size = 256

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            server = self.server
            while True:
                try:
                    data = self.request.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                with server.lock:
                    server.received += len(data)
                if data.startswith(b"flood "):
                    data = b"x" * int(data.split()[1])
                try:
                    self.request.sendall(data)
                except OSError:
                    return
                with server.lock:
                    server.sent += len(data)

    def __init__(self, outside, port):
        self.lock, self.received, self.sent, self.count = threading.Lock(), 0, 0, 0
        super().__init__((outside.address, port), Echo.Handler)

    def get_request(self):
        self.count += 1
        return super().get_request()

    def handle_error(self, *_):
        pass


class Outside:
    """All of it. `names` lead here, each with a certificate; further ones lead where `hosts` says."""

    def __init__(self, *names, hosts=None, exceptions=True):
        number = os.getpid()
        self.address = "127.%d.%d.%d" % (66 + (number >> 16) % 60, number >> 8 & 255, number & 255 or 1)
        self.names, self.hosts, self.exceptions = names, dict(hosts or {}), exceptions
        self.home = tempfile.mkdtemp(prefix="cove-outside-")
        self.files, self.repositories = os.path.join(self.home, "files"), os.path.join(self.home, "git")
        os.mkdir(self.files)
        os.mkdir(self.repositories)
        self.seen, self.accepted, self.servers, self.children = [], 0, [], []
        self.certify()
        self.plain = self.listen(80, None)
        self.tls = self.listen(443, self.context)

    # ------------------------------------------------------------------------------- certificates

    def certify(self):
        self.ca, self.cert, self.key = certify(self.home, "outside of cove", self.names)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.cert, self.key)

    # ------------------------------------------------------------------------------------ servers

    def listen(self, port, context):
        server = Web((self.address, port), Pages)
        server.outside, server.context = self, context
        return self.run(server)

    def run(self, server):
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.servers.append(server)
        return server

    def echo(self, port=9000):
        return self.run(Echo(self, port))

    def repository(self, name, files):
        """A bare repository with one commit."""
        work, bare = os.path.join(self.home, "work-" + name), os.path.join(self.repositories, name + ".git")
        os.mkdir(work)
        for path, text in files.items():
            with open(os.path.join(work, path), "w") as file:
                file.write(text)
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
            subprocess.run(git + words, cwd=work, check=True, capture_output=True)
        subprocess.run(git + ["clone", "-q", "--bare", work, bare], check=True, capture_output=True)

    def package(self, name, path, text):
        """A Debian package that holds one file, and the index of it, below /files/debian."""
        tree, index = os.path.join(self.home, "deb-" + name), os.path.join(self.files, "debian")
        os.makedirs(os.path.join(tree, "DEBIAN"))
        os.makedirs(os.path.dirname(tree + path))
        os.makedirs(index, exist_ok=True)
        with open(tree + path, "w") as file:
            file.write(text)
        with open(os.path.join(tree, "DEBIAN", "control"), "w") as file:
            file.write("Package: %s\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.com>\nDescription: a test\n" % name)
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, index], check=True, capture_output=True)
        with open(os.path.join(index, "Packages"), "wb") as file:
            file.write(subprocess.run(["dpkg-scanpackages", "-m", "."], cwd=index, check=True, capture_output=True).stdout)

    def start(self, argv, **kw):
        """A server that is a program of its own; it goes with us."""
        log = open(os.path.join(self.home, "server-%d.log" % len(self.children)), "wb")
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **kw)
        self.children.append(child)
        return child

    def answers(self, port, seconds=60):
        def there():
            try:
                socket.create_connection((self.address, port), timeout=2).close()
                return True
            except OSError:
                return False
        return c.until(there, seconds, 0.1)

    # --------------------------------------------------------------------------------------- cove

    def options(self, *more):
        """How a cove finds it."""
        hosts = dict({name: self.address for name in self.names}, **self.hosts)
        words = ["--egress-hosts=" + ",".join("%s=%s" % pair for pair in hosts.items()), "--egress-ca=" + self.ca]
        return words + (["--egress-exceptions=" + self.address] if self.exceptions else []) + list(more)

    def trusted(self, cove, box):
        """Its authority, in the box; the variables by which programs find it."""
        with open(self.ca) as file:
            text = file.read()
        answer = cove.run(box, "cat > " + CA_IN_BOX, stdin=text)
        if answer["exitCode"]:
            raise RuntimeError(answer)
        return {name: CA_IN_BOX for name in SSL_NAMES}

    def close(self):
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for server in self.servers:
            server.shutdown()
            server.server_close()
        shutil.rmtree(self.home, ignore_errors=True)


def ledger(cove, box, **want):
    """Every row of a box's ledger, and its totals. `want`: only rows with these values."""
    rows, cursor = [], None
    while True:
        reply = cove.get("/v1/sandboxes/%s/egress?limit=1000%s" % (box["id"], "&cursor=" + cursor if cursor else ""))
        if reply.status != 200:
            raise RuntimeError("egress: %r" % reply)
        rows += reply.json["items"]
        cursor = reply.json["cursor"]
        if not cursor:
            break
    return [row for row in rows if all(row[key] == value for key, value in want.items())], reply.json["totals"]


def summed(rows):
    return {key: sum(row[key] for row in rows) for key in ("requests", "bytesOut", "bytesIn")}
