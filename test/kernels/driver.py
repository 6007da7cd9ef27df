# Starts a driver of src/kernels as the daemon does: a dialogue at fd 240, the pipes of its output at
# 241 and 242. And reads what comes back, as src/protocol/cell.c does.
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVE = os.path.join(HERE, "..", "..", "src", "kernels")
KEY = "0123456789abcdef"
PATIENCE = float(os.environ.get("PATIENCE", 60))


def source(name):
    with open(os.path.join(DRIVE, name), "rb") as file:
        return file.read()


class Died(Exception):
    pass


class Driver:
    def __init__(self, argv, text, extra, hello, **kw):
        ours, theirs = socket.socketpair()
        out, err = os.pipe(), os.pipe()

        def seats():
            high = [os.dup(fd) for fd in (theirs.fileno(), out[1], err[1])]
            none = os.open("/dev/null", os.O_RDWR)
            for fd, seat in zip(high + [high[0], none, none], (240, 241, 242, 0, 1, 2)):
                os.dup2(fd, seat)
            os.closerange(3, 240)

        self.process = subprocess.Popen(argv, preexec_fn=seats, close_fds=False, **kw)
        theirs.close()
        os.close(out[1])
        os.close(err[1])
        self.talk, self.out, self.err = ours, out[0], err[0]
        self.mark = 0
        ours.sendall(b"%d %d\n" % (len(text), len(extra)) + text + extra)
        self.tell("hello", hello)
        self.listen()

    def tell(self, verb, text):
        self.mark += 1
        text = text.encode()
        self.talk.sendall(b"%s %d %d\n" % (verb.encode(), self.mark, len(text)) + text)

    def listen(self, patience=PATIENCE):
        """(status, stdout bytes, stderr bytes) up to the end of what was told last."""
        texts, record = {self.out: b"", self.err: b""}, b""
        deadline = time.monotonic() + patience
        while not record.endswith(b"\0"):
            ready, _, _ = select.select([self.talk, self.out, self.err], [], [],
                                        max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(texts)
            for fd in ready:
                if fd is self.talk:
                    more = fd.recv(4096)
                    if not more:
                        raise Died(self.process.wait(), texts)
                    record += more
                else:
                    texts[fd] += os.read(fd, 65536)
        for fd in texts:  # what lies in the pipes now was written before
            while select.select([fd], [], [], 0)[0]:
                more = os.read(fd, 65536)
                if not more:
                    break
                texts[fd] += more
        status, mark, job, self.cwd = record[:-1].decode().split(" ", 3)
        assert mark == str(self.mark) and job == ""
        return int(status), texts[self.out], texts[self.err]

    def run(self, code, **kw):
        """The events of a cell, text included, as the wire has them."""
        self.tell("run", code)
        return self.events(**kw)

    def events(self, **kw):
        status, out, err = self.listen(**kw)
        events = split(out)
        if err:
            events.insert(0, {"type": "stderr", "text": err.decode()})
        assert events[-1]["type"] == ("error" if status else "execution_complete"), events
        return events

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def close(self):
        self.talk.close()
        for fd in (self.out, self.err):
            os.close(fd)
        self.process.wait(10)


def split(out):
    events, piece, sign = [], b"", b"\x1e" + KEY.encode()
    while out:
        at = out.find(sign)
        text, out = (out, b"") if at < 0 else (out[:at], out[at + len(sign):])
        if text:
            events.append({"type": "stdout", "text": text.decode()})
        if at >= 0:
            length = int(out[1:5], 16)
            piece += out[5:5 + length]
            if out[:1] == b".":
                events.append(json.loads(piece))
                piece = b""
            out = out[5 + length:]
    assert not piece
    return events


PYTHON = os.environ.get("COVE_TEST_PYTHON", "/usr/bin/python3")
NODE = os.environ.get("COVE_TEST_NODE", "node")


def python(*options, **kw):
    boot = source("boot.py").decode()
    return Driver([PYTHON, *options, "-c", boot], source("python.py"), source("figures.py"), KEY, **kw)


def node(language="javascript", extra=b"", **kw):
    boot = source("boot.js").decode()
    return Driver([NODE, "--expose-internals", "-e", boot], source("node.js"), extra,
                  KEY + " " + language, **kw)


# ---- TAP

tests, failed = 0, 0


def check(name, fn, *args):
    global tests, failed
    tests += 1
    try:
        skip = fn(*args)
        print("ok %d - %s%s" % (tests, name, " # SKIP " + skip if skip else ""))
    except Exception:
        import traceback
        failed += 1
        print("not ok %d - %s" % (tests, name))
        print("".join("# " + line for line in traceback.format_exc().splitlines(True)))
    sys.stdout.flush()


def same(got, wanted):
    if got != wanted:
        raise AssertionError("got %r\nwanted %r" % (got, wanted))


def texts(events, kind="stdout"):
    return "".join(event["text"] for event in events if event["type"] == kind)


def results(events):
    """[(kind, value)] of all results."""
    return [(kind, value) for event in events if event["type"] == "result"
            for kind, value in event.items() if kind not in ("type", "metadata")]


def error(events):
    same(events[-1]["type"], "error")
    return events[-1]


def done():
    print("1..%d" % tests)
    sys.exit(1 if failed else 0)
