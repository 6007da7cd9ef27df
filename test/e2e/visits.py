"""Previews as their visitors see them, and a server in a sandbox to be visited: the tests of previews
stand on it."""
import http.client
import os
import socket
import ssl
import subprocess

import cove as c
import wsclient

SERVER = r'''
import base64, hashlib, http.server, socketserver, struct, sys, threading, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, status, body, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def frame(self):
        first, second = self.rfile.read(2)
        size = second & 127
        if size == 126: size, = struct.unpack(">H", self.rfile.read(2))
        elif size == 127: size, = struct.unpack(">Q", self.rfile.read(8))
        key = self.rfile.read(4)
        data = self.rfile.read(size)
        pad = (key * (size // 4 + 1))[:size]
        return first & 0x8f, (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(size, "big")
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            if self.headers.get("Origin", "http://" + self.headers["Host"]) != "http://" + self.headers["Host"]:
                return self.reply(403, b"another origin")
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.end_headers()
            self.close_connection = True
            while True:
                code, data = self.frame()
                if code & 15 == 8: return
                head = bytes([code])  # the end of a message is where it was
                size = len(data)
                head += bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size) if size < 65536 else b"\x7f" + struct.pack(">Q", size)
                self.wfile.write(head + data)
                self.wfile.flush()
        if self.path == "/sse":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.close_connection = True
            for n in range(3):
                self.wfile.write(b"data: %d\n\n" % n)
                self.wfile.flush()
                time.sleep(0.3)
            return
        if self.path.startswith("/big/"):
            size = int(self.path[5:])
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            piece = b"x" * 65536
            while size > 0:
                self.wfile.write(piece[:size])
                size -= len(piece)
            return
        if self.path == "/go":
            return self.reply(302, b"", Location="http://localhost:%d/there" % PORT, Set_Cookie="a=b; Domain=localhost; Path=/")
        if self.path == "/cookie":
            return self.reply(200, b"baked", Set_Cookie="mine=1; Domain=preview.test; Path=/")
        if self.path == "/die":
            return self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nFOREIGN")
        if self.path == "/never":
            return time.sleep(60)
        text = "%s %s\n%s" % (self.command, self.path, self.headers)
        self.reply(200, text.encode(), Content_Type="text/plain")
    def do_POST(self):
        total = 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while True:
                size = int(self.rfile.readline(), 16)
                self.rfile.read(size + 2)
                total += size
                if not size: break
        else:
            left = int(self.headers["Content-Length"])
            while left:
                left -= len(self.rfile.read(min(left, 1 << 20)))
            total = int(self.headers["Content-Length"])
        self.reply(201, b"%d" % total)
    def log_message(self, *args): pass
class S(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
PORT = int(sys.argv[1])
for more in sys.argv[2:]:
    threading.Thread(target=S(("127.0.0.1", int(more)), H).serve_forever, daemon=True).start()
S(("127.0.0.1", PORT), H).serve_forever()
'''


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Site:
    """A preview as a browser sees it: where to connect, which Host to send, what stands before the path."""

    def __init__(self, url):
        proto, _, self.host, path = url.split("/", 3)
        self.prefix = "/" + path.rstrip("/") if path else ""
        self.tls = proto == "https:"
        self.port = int(self.host.rsplit(":", 1)[1])

    def connect(self, trust=None):
        sock = socket.create_connection(("127.0.0.1", self.port), 30)
        if self.tls:
            context = ssl.create_default_context(cafile=trust)
            sock = context.wrap_socket(sock, server_hostname=self.host.rsplit(":", 1)[0])
        return sock

    def ask(self, path="/", method="GET", body=None, headers=None, trust=None, **kw):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        conn.sock = self.connect(trust)
        conn.request(method, self.prefix + path, body, dict({"Host": self.host}, **(headers or {})), **kw)
        answer = conn.getresponse()
        reply = c.Reply(answer.status, answer.headers, answer.read())
        conn.close()
        return reply

    def socket(self, path="/ws", **headers):
        at = type("At", (), {"port": self.port, "key": ""})
        return wsclient.WebSocket(at, self.prefix + path, dict({"Host": self.host}, **headers), key=False)


def serve(cove, box, port, how="process", more=(), server=SERVER):
    """Starts the server on a port, and on `more` of them; returns when somebody listens."""
    cove.run(box, ["sh", "-c", "cat > /workspace/server-%d.py" % port], stdin=server)
    line = " ".join(map(str, ["exec python3 /workspace/server-%d.py" % port, port, *more]))
    if how == "process":
        cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": line})
    else:  # left behind by a command that has ended
        cove.run(box, "setsid sh -c '%s' </dev/null >/dev/null 2>&1 &" % line)
    cove.post("/v1/sandboxes/%s/api/port-watch" % box["id"], {"port": port, "mode": "tcp", "interval": 100})


def expose(cove, box, port, **more):
    reply = cove.post("/v1/sandboxes/%s/ports" % box["id"], dict({"port": port}, **more))
    if reply.status not in (200, 201):
        raise RuntimeError(repr(reply))
    return reply.json


def certificate(home, name):
    """One for all names beneath preview.test, which nobody has signed but itself, and its key."""
    cert, key = os.path.join(home, name + ".pem"), os.path.join(home, name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:*.preview.test", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return cert, key
