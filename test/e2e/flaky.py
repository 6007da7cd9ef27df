"""A connection that cannot be relied on: a proxy in front of cove that cuts streams and terminals."""
import random
import socket
import threading


class Flaky:
    """Passes bytes both ways. Event streams are cut after `bytes_max` bytes at most (0: never);
    cut() ends every connection at once."""

    def __init__(self, port, bytes_max=0, seed=1):
        self.target, self.bytes_max, self.random = port, bytes_max, random.Random(seed)
        self.cuts, self.open, self.lock = 0, set(), threading.Lock()
        self.refuse = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.refuse:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            with self.lock:
                self.open.add((client, server))
            threading.Thread(target=self.pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, True), daemon=True).start()

    def end(self, *sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def pump(self, source, sink, is_reply):
        left = None
        try:
            while True:
                piece = source.recv(65536)
                if not piece:
                    break
                if not is_reply:  # cove only answers to its own name
                    piece = piece.replace(b"Host: 127.0.0.1:%d\r\n" % self.port,
                                          b"Host: 127.0.0.1:%d\r\n" % self.target)
                if is_reply and self.bytes_max and left is None and b"text/event-stream" in piece:
                    left = self.random.randrange(200, self.bytes_max)
                if left is not None:
                    piece = piece[:left]
                    left -= len(piece)
                sink.sendall(piece)
                if left == 0:
                    self.cuts += 1
                    break
        except OSError:
            pass
        self.end(source, sink)

    def cut(self):
        with self.lock:
            for pair in self.open:
                self.end(*pair)
            self.open.clear()
        self.cuts += 1

    def close(self):
        self.listener.close()
        self.cut()
