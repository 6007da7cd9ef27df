#!/usr/bin/env python3
"""`cove python`, `cove js` and `cove run-code`: conversations on a terminal, files of code, their results, pictures and ends."""
import base64
import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

cove = c.Cove()
HOME = tempfile.mkdtemp()
ENV = {k: v for k, v in cove.env.items() if k not in ("KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL", "XDG_STATE_HOME", "COVE_PICTURES")}
ENV.update(COVE_DATA=cove.data, HOME=HOME, TERM="xterm", NO_COLOR="1")
box = cove.create(name="code")


def cli(*words, stdin=b"", seconds=60, **env):
    return subprocess.run([cove.binary] + list(words), input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(ENV, **env), timeout=seconds, cwd=HOME)


def contexts():
    return cove.get("/v1/sandboxes/%s/api/contexts" % box["id"]).json["contexts"]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0))
       + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0\0\xff\0")) + chunk(b"IEND", b""))
DRAW = "class P:\n def _repr_png_(self): return %r\nP()\n" % PNG


class Talk:
    """A conversation on a terminal of its own."""

    def __init__(self, *words, answers=b"", **env):
        self.seen, self.answers, self.from_here = b"", answers, 0
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(HOME)
            os.execve(cove.binary, [cove.binary] + list(words), dict(ENV, **env))
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def see(self, text, seconds=30):
        """Whether it comes; what was seen before does not count again."""
        end = time.monotonic() + seconds
        while self.seen.find(text, self.from_here) < 0 and time.monotonic() < end:
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    break
                if self.answers and b"\033[c" in self.seen:
                    os.write(self.master, self.answers)
                    self.answers = b""
        at = self.seen.find(text, self.from_here)
        if at >= 0:
            self.from_here = at + len(text)
        return at >= 0

    def type(self, keys):
        os.write(self.master, keys)

    def ask(self, keys, answer, prompt=b">>> "):
        self.see(prompt)
        self.type(keys)
        return self.see(answer)

    def end(self):
        self.see(b"\0 never", 0.1)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.master)
                return os.waitstatus_to_exitcode(status)
            self.see(b"\0 never", 0.05)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        return "hangs"


def files():
    done = cli("run-code", "code", "-", stdin=b"import sys\nx = 6\nprint('out')\nprint('err', file=sys.stderr)\nx * 7\n")
    c.same((done.returncode, done.stdout, done.stderr), (0, b"out\n42\n", b"err\n"), "run-code shows output and result")
    c.same(cli("run-code", "code", "-", stdin=b"[x]").stdout, b"[\n  6\n]\n", "the default context remembers; JSON is shown as such")
    bad = cli("run-code", "code", "-", stdin=b"print(1)\n1/0")
    c.ok(bad.returncode == 1 and bad.stdout == b"1\n" and bad.stderr.rstrip().endswith(b"ZeroDivisionError: division by zero"),
         "an error has its traceback on stderr and status 1", bad)
    lines = [json.loads(line) for line in cli("run-code", "--json", "code", "-", stdin=b"print(1)\n2").stdout.splitlines()]
    c.same([line["type"] for line in lines], ["stdout", "result", "execution_complete"], "--json prints the events")
    c.same(cli("run-code", "--json", "code", "-", stdin=b"1/0").returncode, 1, "and has the same status")
    own = cli("run-code", "-w", "/tmp", "-e", "A=it's", "code", "-", stdin=b"import os\nprint(os.getcwd(), os.environ['A'])\nx")
    c.ok(own.returncode == 1 and own.stdout == b"/tmp it's\n" and b"NameError" in own.stderr, "-e and -w make a context of their own", own)
    c.same(len(contexts()), 1, "which is gone afterwards")
    late = cli("run-code", "--timeout", "300ms", "code", "-", stdin=b"while True: pass")
    c.ok(late.returncode == 1 and b"TimeoutError" in late.stderr, "--timeout ends a cell", late)
    named = contexts()[0]["id"]
    c.same(cli("run-code", "--context", named, "code", "-", stdin=b"x").stdout, b"6\n", "--context names one")
    c.same(cli("run-code", "--context", named, "-", stdin=b"x").returncode, 125, "which needs its sandbox")
    lost = cli("run-code", "code", "nowhere.py")
    c.ok(lost.returncode == 125 and b"nowhere.py" in lost.stderr, "a file that is not there", lost)
    with open(os.path.join(HOME, "fresh.py"), "w") as file:
        file.write("import os\nos.listdir('/workspace')")
    before = len(cove.get("/v1/sandboxes").json["items"])
    fresh = cli("run-code", "-m", "256m", "fresh.py")
    c.same((fresh.returncode, fresh.stdout), (0, b"[]\n"), "without a sandbox it is a fresh one")
    c.same(len(cove.get("/v1/sandboxes").json["items"]), before, "which is gone afterwards")
    c.same(cli("run-code", "-m", "256m", "code", "-").returncode, 125, "limits are for a fresh one")
    c.same(cli("python", "code", stdin=b"y = 1\nprint(y)\n").stdout, b"1\n", "python without a terminal runs what it reads")


def pictures():
    saved = cli("run-code", "code", "-", stdin=DRAW.encode())
    c.ok(saved.returncode == 0 and b"./cell-1.png" in saved.stderr, "a picture is saved, and its name told", saved)
    with open(os.path.join(HOME, "cell-1.png"), "rb") as file:
        c.same(file.read(), PNG, "as it is")
    shown = cli("run-code", "code", "-", stdin=DRAW.encode(), COVE_PICTURES="kitty").stdout
    c.ok(b"\033_Ga=T,f=100,m=0;" + base64.b64encode(PNG) + b"\033\\" in shown, "or shown: kitty", shown)
    shown = cli("run-code", "code", "-", stdin=DRAW.encode(), COVE_PICTURES="iterm").stdout
    c.ok(b"\033]1337;File=inline=1" in shown and b":" + base64.b64encode(PNG) + b"\a" in shown, "iTerm", shown)
    for answer, sign in ((b"\033_Gi=31;OK\033\\\033[?62;c", b"\033_Ga=T"), (b"\033[?62c", b"cell-2.png")):
        talk = Talk("python", "code", answers=answer)
        c.ok(talk.ask(b"class P: _repr_png_ = lambda self: %s\r" % repr(PNG).encode(), b">>> ")
             and talk.type(b"P()\r") is None and talk.see(sign), "a terminal that answers %r is believed" % answer, talk.seen)
        talk.see(b">>> ")
        talk.type(b"\x04")
        c.same(talk.end(), 0, "and typed keys go on")
    forged = cli("run-code", "code", "-", stdin=b"class P:\n def _repr_png_(self): return '\\033]0;x\\a'\nP()", COVE_PICTURES="kitty")
    c.ok(b"\033" not in forged.stdout + forged.stderr, "bytes that are no picture do not reach the terminal", forged)


def conversation():
    t = Talk("python", "code")
    c.ok(t.ask(b"a = 5\r", b"\r\n") and t.ask(b"a + 37\r", b"\r\n42\r\n"), "a line is run, and the state stays", t.seen)
    c.ok(t.ask(b"for i in range(2):\r", b"... ") and t.type(b"    print('n', i)\r\r") is None and t.see(b"n 0\r\nn 1\r\n"),
         "a block goes on until an empty line", t.seen)
    c.ok(t.ask(b"prin\x1b[D\x1b[D\x1b[D\x1b[D\x01x\x7f\x05t('ed\xc3\xa9\x7fit')\x1b[D\x1b[C\r", b"\r\nedit\r\n"), "lines are edited", t.seen)
    c.ok(t.ask(b"\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\x10\x0e\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[A\r", b"\r\nedit\r\n"), "and found again in the history", t.seen)
    c.ok(t.ask(b"\x1b[200~if a:\n    print('pasted')\n\n    print('whole')\n\x1b[201~\r", b"pasted\r\nwhole\r\n"), "pasted text is one cell", t.seen)
    t.ask(b"import time; print('go', flush=True); time.sleep(60)\r", b"\r\ngo\r\n")
    t.type(b"\x03")
    c.ok(t.see(b"KeyboardInterrupt"), "ctrl-c interrupts the cell", t.seen)
    c.ok(t.ask(b"while True: pass\r", b"\r\n"), "also one that")
    time.sleep(0.3)
    t.type(b"\x03")
    c.ok(t.see(b"KeyboardInterrupt") and t.ask(b"a\r", b"\r\n5\r\n"), "says nothing; and the context lives", t.seen)
    c.ok(t.ask(b"unfinished(\x03", b"^C") and t.ask(b"a\r", b"\r\n5\r\n"), "at the prompt it drops the line", t.seen)
    c.ok(t.ask(b"import os; os._exit(3)\r", b"exited with status 3") and t.ask(b"a\r", b"a new one") and t.ask(b"a\r", b"NameError"),
         "an interpreter that exits is reported, and replaced", t.seen)
    c.ok(t.see(b">>> ") and len(contexts()) == 2, "its context is one of its own")
    t.type(b"\x04")
    c.same(t.end(), 0, "ctrl-d leaves")
    c.same(len(contexts()), 1, "and takes it along")
    with open(os.path.join(HOME, ".local/state/cove/python_history")) as file:
        lines = file.read().splitlines()
    c.ok("a + 37" in lines and "print('edit')" in lines, "the history is kept", lines)
    again = Talk("python", "code", "--context", contexts()[0]["id"])
    c.ok(again.ask(b"\x1b[A\x15x\r", b"\r\n6\r\n"), "--context joins one", again.seen)
    again.see(b">>> ")
    os.kill(again.pid, 15)
    c.same((again.end(), len(contexts())), (143, 1), "a signal ends the conversation and not that context")


def type_ahead():
    """Keys that are typed while a cell runs are for the next prompt, ctrl-d among them."""
    for keys, sign in ((b"\x04", None), (b"'ahe' + 'ad'\r\x04", b"ahead")):
        t = Talk("python", "code")
        t.ask(b"import os, time\r", b"\r\n")
        t.ask(b"print('be' + 'gun', flush=True)\rwhile not os.path.exists('go'): time.sleep(0.01)\r\r", b"begun")
        t.type(keys)
        c.same(cli("exec", "-w", "/workspace", "code", "--", "touch", "go").returncode, 0, "a cell ends after %r was typed" % keys)
        c.ok(not sign or t.see(sign), "typed text is run", t.seen)
        c.same(t.end(), 0, "ctrl-d that was typed while a cell ran leaves") or c.note(t.seen)
        cli("exec", "-w", "/workspace", "code", "--", "rm", "go")


def node():
    if not shutil.which("node"):
        return c.skip("node", "node is not installed")
    t = Talk("js", "code")
    c.ok(t.ask(b"const f = (n) => {\r", b"... ", b"> ") and t.type(b"  return n * 2 }\r") is None and t.ask(b"f(21)\r", b"\r\n42\r\n", b"> "),
         "JavaScript, in several lines", t.seen)
    c.ok(t.ask(b"while (true);\r", b"\r\n", b"> "), "an endless loop")
    time.sleep(0.3)
    t.type(b"\x03")
    c.ok(t.see(b"> ") and t.type(b"f(2)\r") is None and t.see(b"\r\n4\r\n"), "is interrupted", t.seen)
    t.see(b"> ")
    t.type(b"\x04")
    c.same(t.end(), 0, "ctrl-d leaves")
    with open(os.path.join(HOME, "a.js"), "w") as file:
        file.write("const x = await 5; console.log(x); ({x})")
    done = cli("run-code", "code", "a.js")
    c.ok(done.stdout == b'5\n{\n  "x": 5\n}\n', "a .js is JavaScript", done)
    return None


def rest():
    page = cli("help", "--man").stdout.decode()
    c.ok(all(verb in page for verb in ("cove python", "run\\-code", "COVE_PICTURES")), "the manual has them")
    c.ok(b"run-code" in cli("completion", "bash").stdout, "so has the completion")
    none = cli("python", "nobody", stdin=b"1")
    c.ok(none.returncode == 125 and b"there is no sandbox" in none.stderr, "a sandbox that is not there", none)


files()
pictures()
conversation()
type_ahead()
node()
rest()
shutil.rmtree(HOME)
cove.stop()
c.done()
