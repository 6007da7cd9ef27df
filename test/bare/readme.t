#!/usr/bin/env python3
"""README.md as a newcomer follows it: every command of its ```sh blocks, as it stands and in order, on a terminal in a bare Debian 12
(tools/bare-root), from the clone to `make test`.

A comment `# => TEXT` (up to a colon) must be in the output of its command, `# exits with N` is its status; else that is 0. `make run` has a terminal of its own
until `make test`. The address in the clone line is replaced by that of this checkout; nothing else is.

    readme.t             all of it
    readme.t commands    all but `make test`, in a fresh root that is left for that
    readme.t test        `make test`, in that root; with TAP_AGAIN=1 only the tests that failed in it
    BARE_KEEP=1          keeps the root; one in which something failed is kept in any case
"""
import ctypes
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import textwrap
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cove as c  # noqa: E402

TOOL = os.path.join(c.ROOT, "tools", "bare-root")
HOME = os.environ.get("BARE_HOME", os.path.join(c.ROOT, "build", "bare"))
CLONE = "https://git.example.org/cove.git"
ROOT = os.path.join(HOME, "root")
PART = sys.argv[1] if len(sys.argv) > 1 else "all"
# What is typed at a command that waits for a person: after which output, and which keys.
TYPED = {"cove shell": [(r"[$#] (\x1b\S*)?$", "exit\r")], "cove python": [(r">>> ", "6*7\r"), (r"\b42\b", "\x04")]}


def blocks():
    with open(os.path.join(c.ROOT, "README.md")) as file:
        text = file.read()
    return [textwrap.dedent(body) for _, body in re.findall(r"^( *)```sh\n(.*?)^\1```$", text, re.M | re.S)]


def commands(block):
    """Its commands, a heredoc with the line that opens it."""
    lines = iter(block.splitlines())
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        end = re.search(r"<<'(\w+)'", line)
        if end:
            for more in lines:
                line += "\n" + more
                if more == end.group(1):
                    break
        yield line


class Terminal:
    """bash on a terminal in the root: it runs what it is sent, and says how that ended on a pipe."""
    LOOP = 'trap : INT; while IFS= read -r -d "" line <&3; do eval "$line"; echo $? >&4; done'

    def __init__(self):
        ask_r, self.ask = os.pipe()
        self.told, told_w = os.pipe()
        self.pid, self.tty = pty.fork()
        if self.pid == 0:
            for number, fd in ((3, fcntl.fcntl(ask_r, fcntl.F_DUPFD, 64)), (4, fcntl.fcntl(told_w, fcntl.F_DUPFD, 64))):
                os.dup2(fd, number)
            os.closerange(5, 128)
            os.execv(TOOL, [TOOL, "also", "setsid", "--ctty", "bash", "--norc", "-c", self.LOOP])
        os.close(ask_r)
        os.close(told_w)
        fcntl.ioctl(self.tty, termios.TIOCSWINSZ, b"\x28\x00\xa0\x00\x00\x00\x00\x00")
        self.log = ""

    def send(self, line):
        self.log = ""
        os.write(self.ask, line.encode() + b"\0")

    def read(self, seconds):
        """Output that came; the status, when the command has ended."""
        ready, _, _ = select.select([self.tty, self.told], [], [], seconds)
        if self.tty in ready:
            try:
                self.log = self.log[:-1] + (self.log[-1:] + os.read(self.tty, 65536).decode(errors="replace")).replace("\r\n", "\n")
            except OSError:
                return -1
        elif self.told in ready:
            return int(os.read(self.told, 16) or b"-1")
        return None

    def run(self, line, seconds, until=None):
        """The status; None when it did not end, or, with `until`, when that was printed."""
        typed = list(next((keys for word, keys in TYPED.items() if line.startswith(word)), ()))
        end = time.monotonic() + seconds
        self.send(line)
        while time.monotonic() < end:
            status = self.read(min(5, max(0, end - time.monotonic())))
            if status is not None:
                return status
            if until and until in self.log:
                return None
            if typed and re.search(typed[0][0], self.log):
                os.write(self.tty, typed.pop(0)[1].encode())
        return "still running after %d s" % seconds

    def wait(self, seconds):
        """The status of the command that runs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status = self.read(max(0, end - time.monotonic()))
            if status is not None:
                return status
        return "still running after %d s" % seconds

    def close(self):
        os.close(self.ask)
        os.close(self.tty)
        os.kill(self.pid, signal.SIGHUP)
        os.waitpid(self.pid, 0)


def figure(text):
    """Shown by .ci/run, whether or not something failed."""
    c.note("bare root: " + text)


def used(label, *path):
    figure("%s: %s MB" % (label, subprocess.run(["du", "-sm", os.path.join(ROOT, *path)], capture_output=True, text=True).stdout.split("\t")[0]))


def start_root():
    if PART == "test":
        if not c.ok(os.path.exists(os.path.join(ROOT, "root", "cove", "Makefile")), "there is a root with a clone", "readme.t commands makes it"):
            c.done()
    else:
        made = subprocess.run([TOOL, "make"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not c.ok(made.returncode == 0, "a bare Debian 12 is made", made.stdout[-4000:]):
            c.done()
    libc = ctypes.CDLL(None)
    root = subprocess.Popen([TOOL, "run", "sh", "-c", "echo up; exec cat"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE,
                            start_new_session=True, preexec_fn=lambda: libc.prctl(1, signal.SIGTERM))
    if not c.ok(root.stdout.readline() == b"up\n", "and entered"):
        c.note(root.communicate()[1].decode(errors="replace")[-2000:])
        c.done()
    return root


def quiet_start(terminal):
    """make run: packages, a build, a server, on a terminal."""
    status = terminal.run("make run", 3600, until="Ctrl-C\n")
    log = terminal.log
    c.same(status, None, "make run: serves until Ctrl-C") or c.note(log[-3000:])
    lines = log.splitlines()
    c.ok(lines and lines[0].startswith("installing "), "nothing is printed before the dependencies are there", *lines[:5])
    c.ok("hello from " in log, "it shows a command in a sandbox", *lines[-20:])
    odd = [line for line in lines if re.search(r"npm (notice|warn|ERR)|debconf:|^\{|warning:|No such file", line)]
    c.same(odd, [], "neither npm nor debconf nor JSON is among what it prints")


def check(terminal, line, seconds=900):
    head = line.splitlines()[0]
    want = re.search(r"#.*\bexits with (\d+)", head)
    shown = re.search(r"# => ([^:]*)", head)
    status = terminal.run(line, seconds)
    good = status == int(want.group(1) if want else 0) and (not shown or shown.group(1).strip() in terminal.log)
    c.ok(good, re.sub(r"\s+#.*", "", head), "status %s" % status, terminal.log[-3000:])
    if not isinstance(status, int):
        raise Stuck
    return status


class Stuck(Exception):
    """A command that does not end: nothing can be said of those after it."""


def tests():
    began = time.monotonic()
    shell = Terminal()
    shell.run("cd cove", 60)
    try:
        status = shell.run("make test", 8400)
        figure("make test took %d s" % (time.monotonic() - began))
        c.same(status, 0, "make test")
    finally:  # also when this is ended by a signal
        tally(shell)


def tally(shell):
    """Of the TAP in the root, which is kept outside."""
    made, tap = os.path.join(ROOT, "root", "cove", "build", "release", "tap"), os.path.join(c.ROOT, "build", "release", "tap")
    shutil.rmtree(tap, ignore_errors=True)
    if not os.path.isdir(made):
        return c.note(shell.log[-8000:])
    shutil.copytree(made, tap)
    *lines, last = subprocess.run([os.path.join(c.ROOT, "tools", "tally"), tap], capture_output=True, text=True).stdout.splitlines()
    c.note("\n".join(lines))
    print(last, flush=True)
    return None


def follow():
    """The blocks, one after another, up to `make test`."""
    server = shell = None
    began = cloned = time.monotonic()
    for line in [line for block in blocks() for line in commands(block)]:
        if line.startswith("make run"):
            server, shell = shell, Terminal()
            quiet_start(server)
            used("the data directory after the first start", "var", "lib", "cove")
        elif line != "make test":
            shell = shell or Terminal()
            if line.startswith("git clone"):
                cloned = time.monotonic()
            check(shell, line.replace(CLONE, "/srv/cove.git"))
            if line.startswith("build/cove run"):
                figure("%d s from the clone to the first sandbox" % (time.monotonic() - cloned))
        else:
            os.write(server.tty, b"\x03")
            c.ok(server.wait(120) in (0, 130), "Ctrl-C ends make run", server.log[-1000:])
            c.same(shell.run("ls /proc/*/exe -l 2>/dev/null | grep -c build/cove", 60), 1, "and cove with it") or c.note(shell.log)
            server.close()
    figure("README's commands took %d s" % (time.monotonic() - began))


def main():
    if not c.ok(os.geteuid() == 0, "this is root, who may make and enter a bare root"):
        c.done()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    root = start_root()
    try:
        if PART != "test":
            follow()
        if PART != "commands":
            tests()
    except Stuck:
        pass
    except BaseException:
        root.terminate()  # the root is removed, too
        root.wait()
        raise
    root.stdin.close()
    c.same(root.wait(), 0, "the root is left") or c.note(root.stderr.read().decode(errors="replace")[-2000:])
    used("the clone, with what was built", "root", "cove")
    used("the data directory", "var", "lib", "cove")
    used("the whole root", ".")
    if PART != "commands" and not c.failures() and os.environ.get("BARE_KEEP") != "1":
        subprocess.run([TOOL, "remove"], check=True)
    c.done()


main()
