"""A WebSocket client of the standard library's parts alone: RFC 6455 as a client speaks it, with
doors for whatever a good client would not do."""
import base64
import hashlib
import json
import os
import socket
import struct
import time

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    def __init__(self, status, head, body):
        super().__init__("%d %r" % (status, body[:300]))
        self.status, self.head, self.body = status, head, body

    @property
    def json(self):
        return json.loads(self.body)


class Closed(Exception):
    def __init__(self, code, reason=""):
        super().__init__("closed %s %s" % (code, reason))
        self.code, self.reason = code, reason


class WebSocket:
    """`cove` is a Cove of cove.py; `path` has the query in it."""
    deadline = None  # of a wait for more than pings

    def __init__(self, cove, path, headers=None, key=True, timeout=20, rcvbuf=None):
        self.sock = socket.socket()
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(timeout)
        self.sock.connect(("127.0.0.1", cove.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        nonce = base64.b64encode(os.urandom(16)).decode()
        head = {"Host": "127.0.0.1:%d" % cove.port, "Connection": "Upgrade", "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": nonce}
        if key:
            head["Authorization"] = "Bearer " + (cove.key if key is True else key)
        for name, value in (headers or {}).items():
            if value is None:
                head.pop(name, None)
            else:
                head[name] = value
        lines = ["GET %s HTTP/1.1" % path] + ["%s: %s" % pair for pair in head.items()]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._answer(nonce)

    def _more(self):
        got = self.sock.recv(1 << 18)
        if not got:
            raise Closed(1006)
        self.rest += got

    def _answer(self, nonce):
        while b"\r\n\r\n" not in self.rest:
            self._more()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        status = int(lines[0].split()[1])
        fields = {line.split(":", 1)[0].lower(): line.split(":", 1)[1].strip() for line in lines[1:]}
        if status != 101:
            want = int(fields.get("content-length", 0))
            while len(self.rest) < want:
                self._more()
            self.sock.close()
            raise Refused(status, fields, self.rest[:want])
        digest = hashlib.sha1((nonce + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        assert fields["sec-websocket-accept"] == base64.b64encode(digest).decode()
        self.fields = fields

    def frame(self, opcode, body=b"", final=True, mask=True, rsv=0):
        head = bytes([(0x80 if final else 0) | rsv << 4 | opcode])
        bit = 0x80 if mask else 0
        if len(body) < 126:
            head += bytes([bit | len(body)])
        elif len(body) < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", len(body))
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", len(body))
        if not mask:
            return head + body
        key = os.urandom(4)
        pad = key * (len(body) // 4 + 1)
        masked = (int.from_bytes(body, "big") ^ int.from_bytes(pad[:len(body)], "big")).to_bytes(len(body), "big")
        return head + key + masked

    def send(self, body):
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            self.sock.sendall(self.frame(TEXT, body.encode()))
        else:
            self.sock.sendall(self.frame(BINARY, body))

    def raw(self, data):
        self.sock.sendall(data)

    def _take(self, count):
        while len(self.rest) < count:
            self._more()
        got, self.rest = self.rest[:count], self.rest[count:]
        return got

    def _frame(self):
        first, second = self._take(2)
        assert not second & 0x80, "a server must not mask"
        length = second & 0x7F
        if length == 126:
            length, = struct.unpack(">H", self._take(2))
        elif length == 127:
            length, = struct.unpack(">Q", self._take(8))
        return first & 0x80, first & 15, self._take(length)

    def recv(self):
        """The next message: str or bytes. Closed when the server says so."""
        whole, kind = b"", None
        while True:
            final, opcode, body = self._frame()
            if opcode == CLOSE:
                code = struct.unpack(">H", body[:2])[0] if len(body) >= 2 else 1005
                try:
                    self.sock.sendall(self.frame(CLOSE, body[:2]))
                except OSError:
                    pass
                raise Closed(code, body[2:].decode())
            if opcode == PING:
                self.sock.sendall(self.frame(PONG, body))
                if self.deadline and time.monotonic() > self.deadline:
                    raise socket.timeout("pings, and nothing else")
                continue
            if opcode == PONG:
                self.pong = body
                return ("pong", body)
            kind = kind or opcode
            whole += body
            if final:
                return whole.decode() if kind == TEXT else whole

    def json(self):
        return json.loads(self.recv())

    def end(self):
        """What the server closes with."""
        try:
            while True:
                self.recv()
        except Closed as closed:
            return closed.code
        except ConnectionError:
            return 1006

    def close(self, code=1000):
        try:
            self.sock.sendall(self.frame(CLOSE, struct.pack(">H", code)))
            code = self.end()
        except OSError:
            code = 1006
        self.sock.close()
        return code

    def cut(self):
        """Gone without a word."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Terminal(WebSocket):
    """/ws/pty, or another path to a terminal, with what has been shown so far."""

    def __init__(self, cove, box, query, path=None, **kw):
        super().__init__(cove, "%s?%s" % (path or "/v1/sandboxes/%s/ws/pty" % box["id"], query), **kw)
        self.seen = b""
        self.events = []
        self.closed = None

    def step(self):
        try:
            message = self.recv()
        except Closed as closed:
            self.closed = closed.code
            return False
        if isinstance(message, str):
            self.events.append(json.loads(message))
        else:
            self.seen += message
        return True

    def until(self, text=None, event=None, seconds=30):
        """Reads until the screen has shown `text`, or an event of that type came."""
        self.deadline = end = time.monotonic() + seconds
        self.sock.settimeout(seconds)
        while time.monotonic() < end:
            if (text is not None and text in self.seen) or (event is not None and self.last(event)):
                break
            try:
                if not self.step():
                    break
            except (socket.timeout, ConnectionError):
                break
        self.deadline = None
        return (text is not None and text in self.seen) or (event is not None and bool(self.last(event)))

    def last(self, event):
        found = [each for each in self.events if each["type"] == event]
        return found[-1] if found else None

    def type(self, text):
        self.send(text.encode() if isinstance(text, str) else text)

    def resize(self, cols, rows):
        self.send({"type": "resize", "cols": cols, "rows": rows})
