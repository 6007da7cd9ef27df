#!/usr/bin/env python3
"""The command line inside a sandbox: processes, terminals, files."""
import fcntl
import hashlib
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import tarfile
import tempfile
import termios
import time

import cove as c
from flaky import Flaky

c.need_root()

ENDLESS = ("sh", "-c", "echo up; exec sleep 100")


class Term:
    """The binary on a terminal of its own."""

    def __init__(self, cli, *args, size=(30, 100), **env):
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        self.out = b""
        self.child = subprocess.Popen([c.BIN, *args], env=dict(cli.env, TERM="xterm", **env), cwd=cli.cwd,
                                      stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True)

    def resize(self, rows, cols):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.out += os.read(self.master, 65536)

    def see(self, want, seconds=20):
        end = time.monotonic() + seconds
        while want not in self.out and time.monotonic() < end:
            self.read(0.1)
        return want in self.out

    def type(self, keys):
        os.write(self.master, keys)

    def end(self, seconds=20):
        end = time.monotonic() + seconds
        while self.child.poll() is None and time.monotonic() < end:
            self.read(0.05)
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
            return "hangs"
        self.read(0.1)
        return self.child.returncode

    def is_calm(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        os.close(self.master)
        os.close(self.slave)


def processes(cli):
    got = cli("exec", "-d", "web", "sh", "-c", "echo one; echo two >&2; sleep 0.5; echo three; exit 4")
    process = got.text.strip()
    c.ok(got.returncode == 0 and process and "\n" not in process, "exec -d prints the process id", got)
    rows = [line.split() for line in cli("ps", "web").text.splitlines()]
    c.ok(rows[0] == ["ID", "KIND", "PID", "STATUS", "EXIT", "AGE", "COMMAND"] and [process, "running"] in
         [[row[0], row[3]] for row in rows], "ps BOX is a table of its processes", rows)
    got = cli("logs", "-f", "web", process)
    c.ok(got.text == "one\nthree\n" and got.err == "two\n" and got.returncode == 0,
         "logs -f follows it to its end, stdout and stderr apart", got)
    c.same(cli("logs", "web").text, "one\nthree\n", "logs of the last one, from the start")
    c.same(cli("attach", "web", process).returncode, 4, "attach to a process hands its status on")
    item = [p for p in json.loads(cli("ps", "--json", "web").stdout) if p["id"] == process][0]
    c.ok(item["status"] == "failed" and item["exitCode"] == 4, "ps --json knows how it ended", item)
    c.ok(process in cli("ps", "-q", "web").text.split(), "ps -q names them")
    process = cli("exec", "-d", "web", "-c", "sleep 100").text.strip() or \
        cli("exec", "-d", "-c", "sleep 100", "web").text.strip()
    c.same(cli("kill", "-s", "usr1", "web", process).text, process + "\n", "kill -s sends a signal")
    c.ok(c.until(lambda: json_of(cli, process)["exitCode"] == 138), "that arrives", json_of(cli, process))
    process = cli("exec", "-d", "web", "sleep", "100").text.strip()
    c.ok(cli("kill", "web", process).returncode == 0 and json_of(cli, process)["exitCode"] == 143, "kill ends it")
    cli("exec", "-d", "web", "sleep", "100")
    c.same(cli("kill", "--all", "web").text, "1\n", "kill --all ends all that run, and counts them")
    for words, status, hint in ((["kill", "web"], 2, "cove ps"), (["kill", "-s", "NONE", "web", "x"], 2, "-s TERM"),
                                (["kill", "web", "nonesuch"], 3, "nonesuch"), (["logs", "web", "nonesuch"], 3, ""),
                                (["exec", "-d", "-i", "web", "true"], 125, ""),
                                (["exec", "-it", "web", "true"], 125, "-t"), (["ps", "nobody"], 3, "")):
        got = cli(*words)
        c.ok(got.returncode == status and hint in got.err, "'%s' is refused with %d" % (" ".join(words), status), got)


def json_of(cli, process):
    item = [p for p in json.loads(cli("ps", "--json", "web").stdout) if p["id"] == process]
    return dict({"exitCode": None}, **(item[0] if item else {}))


def input_streams(cli):
    data = os.urandom(5 << 20)
    got = cli("exec", "-i", "web", "cat", stdin=data)
    c.ok(got.stdout == data and got.returncode == 0, "exec -i passes on as much as there is", got.err)
    got = cli("exec", "-i", "web", "head", "-c", "3", stdin=b"pqr" * (3 << 20))
    c.ok(got.stdout == b"pqr" and got.returncode == 0, "a command that reads only a part of it ends well", got.err)
    c.same(cli("exec", "-i", "web", "nonesuch", stdin=b"x").returncode, 127, "an absent command is 127")
    child = cli.popen("exec", "-i", "web", "sh", "-c", "while read x; do echo got $x; done; exit 3",
                      stdin=subprocess.PIPE)
    said = []
    for word in (b"a", b"b"):
        child.stdin.write(word + b"\n")
        child.stdin.flush()
        said.append(child.stdout.readline())
    child.stdin.close()
    c.same((said, child.wait(20)), ([b"got a\n", b"got b\n"], 3), "a dialogue goes back and forth")
    child = cli.popen("exec", "-i", "web", *ENDLESS, stdin=subprocess.PIPE)
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    c.same(child.wait(20), 130, "Ctrl-C leaves with 130")
    cli("kill", "--all", "web")


def terminals(cli):
    term = Term(cli, "exec", "-it", "web", "sh", "-c", "stty size; tty; read x; echo got $x; exit 7")
    c.ok(term.see(b"30 100") and term.see(b"/dev/pts/"), "exec -it has a terminal of our size", term.out)
    term.type(b"hello\r")
    c.ok(term.end() == 7 and b"got hello" in term.out and term.is_calm(),
         "keys go in, the status comes out, our terminal is as it was", term.out)
    term.close()
    term = Term(cli, "exec", "-it", "web", *ENDLESS)
    term.see(b"up")
    term.type(b"\x03")
    c.ok(term.end() == 130 and term.is_calm(), "Ctrl-C is the command's", term.out)
    term.close()
    term = Term(cli, "run", "-it", "sh", "-c", "tty; exit 6")
    c.ok(term.end() == 6 and b"/dev/pts/" in term.out and cli("ps", "-q").text.count("\n") == 1,
         "run -it does it in a sandbox that is gone afterwards", term.out)
    term.close()
    term = Term(cli, "exec", "-it", "web", "nonesuch")
    c.ok(term.end() == 127 and term.is_calm(), "a command that is not there is 127", term.out)
    term.close()
    term = Term(cli, "exec", "-it", "web", *ENDLESS)
    term.see(b"up")
    term.child.send_signal(signal.SIGTERM)
    c.ok(term.end() == 143 and term.is_calm(), "a signal ends us, and our terminal is as it was", term.out)
    term.close()


def shells(cli):
    term = Term(cli, "shell", "web")
    c.ok(term.see(b"# "), "shell gives a prompt", term.out)
    term.type(b"mark=42\r")
    time.sleep(0.3)
    term.type(b"\x10x\x15\x10\x11")  # ctrl-p alone is a key like any other
    c.ok(term.end() == 0 and b"cove attach web" in term.out and term.is_calm(), "ctrl-p ctrl-q detaches", term.out)
    term.close()
    term = Term(cli, "attach", "web", size=(25, 77))
    c.ok(term.see(b"mark=42"), "attach shows its last output again", term.out)
    term.type(b"stty size\r")
    c.ok(term.see(b"25 77"), "in our size", term.out)
    term.type(b"echo is$mark\r")
    c.ok(term.see(b"is42"), "and it is the same shell", term.out)
    term.resize(40, 120)
    term.child.send_signal(signal.SIGWINCH)
    time.sleep(0.3)
    term.type(b"stty size\r")
    c.ok(term.see(b"40 120"), "a change of our size is passed on", term.out)
    term.type(b"exit 3\r")
    c.ok(term.end() == 3 and term.is_calm(), "its status is ours", term.out)
    term.close()
    got = cli("attach", "web", "nonesuch")
    c.ok(got.returncode == 125 and "no terminal '" in got.err, "attach to none says so", got)
    c.same(cli("shell", "web").returncode, 125, "shell needs a terminal")


def lost_lines(cli, cove):
    flaky = Flaky(cove.port, bytes_max=40000)
    process = cli("exec", "-d", "web", "seq", "1", "30000").text.strip()
    far = c.Cli(cove.data, cli.cwd, COVE_URL=flaky.url, COVE_TOKEN=cove.key)
    got = far("logs", "-f", "web", process)
    c.ok(got.stdout == b"".join(b"%d\n" % i for i in range(1, 30001)) and flaky.cuts > 2,
         "logs -f is whole over %d lost connections" % flaky.cuts, got.err)
    flaky.close()
    flaky = Flaky(cove.port)
    term = Term(cli, "exec", "-it", "web", "bash", "--norc", COVE_URL=flaky.url, COVE_TOKEN=cove.key)
    term.see(b"# ")
    for i in range(3):
        term.type(b"n=$((n+1)); echo turn$n\r")
        c.ok(term.see(b"turn%d" % (i + 1)), "the shell hears us, turn %d" % (i + 1), term.out)
        term.out = b""
        flaky.refuse = i == 1
        flaky.cut()
        if flaky.refuse:
            time.sleep(1.5)
            flaky.refuse = False
        c.ok(term.see(b"\x1b[2J") and term.see(b"turn%d" % (i + 1)),
             "the line is cut, and the screen comes back", term.out)
    term.type(b"exit 9\r")
    c.ok(term.end() == 9 and term.is_calm(), "to the end", term.out)
    term.close()
    flaky.close()


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def files(cli, home):
    os.makedirs(os.path.join(home, "src", "sub"))
    for name, text, mode in (("a.txt", "hello\n", 0o644), ("sub/run.sh", "#!/bin/sh\necho ran\n", 0o755)):
        path = os.path.join(home, "src", name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
    os.symlink("a.txt", os.path.join(home, "src", "link"))
    with open(os.path.join(home, "big"), "wb") as file:
        file.write(os.urandom(20 << 20))
    c.same(cli("cp", "src/a.txt", "web:b.txt").returncode, 0, "cp copies a file in")
    c.same(cli("cat", "web:b.txt", "web:/workspace/b.txt").text, "hello\nhello\n", "cat shows it")
    c.same(cli("cp", "src", "web:").returncode, 0, "cp copies a directory into a directory")
    c.same(cli("ls", "web:src").text, "a.txt\nlink\nsub\n", "ls lists it in order")
    c.same(cli("exec", "web", "src/sub/run.sh").text, "ran\n", "modes are kept")
    lines = cli("ls", "-l", "web:src").text.splitlines()
    c.ok(lines[0].startswith("-rw-r--r-- ") and lines[1].endswith(" link -> a.txt") and
         lines[2].startswith("drwxr-xr-x "), "ls -l tells types, modes and links", lines)
    c.ok("src/sub/run.sh" in cli("ls", "-R", "web:").text.split("\n"), "ls -R lists all that lies beneath")
    cli("exec", "web", "touch", ".hidden")
    c.ok(".hidden" not in cli("ls", "web:").text and ".hidden" in cli("ls", "-a", "web:").text,
         "ls -a shows hidden names, ls does not")
    c.ok({"name": "a.txt", "type": "file", "size": 6}.items() <=
         json.loads(cli("ls", "--json", "web:src").stdout)[0].items(), "ls --json is an array")
    c.same(cli("ls", "web:src/a.txt").text, "a.txt\n", "ls of a file is its name")
    c.same(cli("cp", "web:src", "out").returncode, 0, "cp copies a directory out, under the name given")
    c.ok(os.readlink(os.path.join(home, "out", "link")) == "a.txt" and
         os.stat(os.path.join(home, "out", "sub", "run.sh")).st_mode & 0o777 == 0o755, "with links and modes")
    c.ok(cli("cp", "web:src/.", "out").returncode == 0 and not os.path.exists(os.path.join(home, "out", "src")) and
         cli("cp", "web:src", "out").returncode == 0 and os.path.exists(os.path.join(home, "out", "src", "a.txt")),
         "into one that is there it goes under its own name, unless it ends in /.")
    cli("cp", "big", "web:big")
    cli("cp", "web:big", "big2")
    c.same(digest(os.path.join(home, "big2")), digest(os.path.join(home, "big")), "20 MiB come back as they went")
    archive = cli("cp", "web:src", "-").stdout
    path = os.path.join(home, "out.tar")
    with open(path, "wb") as file:
        file.write(archive)
    with tarfile.open(path) as tar:
        found = sorted(os.path.normpath(name) for name in tar.getnames())
    c.ok("sub/run.sh" in found and "a.txt" in found, "cp BOX:DIR - is a tar stream", found)
    c.same((cli("cp", "-", "web:/tmp/un", stdin=archive).returncode, cli("cat", "web:/tmp/un/a.txt").text),
           (0, "hello\n"), "cp - BOX:DIR unpacks one")


def strange_files(cli, home):
    for words, status in ((["ls", "web:/nonesuch"], 3), (["cat", "web:/nonesuch"], 3), (["cat", "web:/etc"], 2),
                          (["cp", "web:/nonesuch", "."], 3), (["cp", "nonesuch", "web:x"], 2), (["cp", "a", "b"], 2),
                          (["cp", "web:a", "web:b"], 2), (["ls", "nobody:/"], 3), (["ls", "web"], 2),
                          (["cp", "big", "web:none/"], 3), (["cp", "src", "web:b.txt"], 5),
                          (["cp", "-", "web:/tmp/bad"], 2)):
        got = cli(*words, stdin=b"no tar at all " * 100)
        c.ok(got.returncode == status and got.err, "'%s' fails with %d" % (" ".join(words), status), got)
    # What a sandbox packs is a stranger's.
    cli("exec", "web", "sh", "-c", "mkdir -p evil && cd evil && ln -s /tmp escape && mkfifo pipe && "
        "echo x > file && chmod 4755 file")
    got = cli("cp", "web:evil", "evil")
    c.ok(got.returncode == 0 and os.path.islink(os.path.join(home, "evil", "escape")) and
         not os.path.exists(os.path.join(home, "evil", "pipe")) and
         os.stat(os.path.join(home, "evil", "file")).st_mode & 0o7000 == 0,
         "pipes and set-id bits stay behind", got)
    with open(os.path.join(home, "keep"), "w") as file:
        file.write("old")
    got = cli("cp", "web:/proc/1/mem", "keep")
    c.ok(got.returncode != 0 and open(os.path.join(home, "keep")).read() == "old",
         "a copy that fails leaves the old file whole", got)
    c.same([n for n in os.listdir(home) if ".part-" in n], [], "and nothing else")


def words(cli):
    process = cli("exec", "-d", "web", "true").text.strip()
    c.ok("web" in cli("words", "boxes").text.split() and process in cli("words", "processes", "web").text.split(),
         "the completions know boxes and processes")
    probe = ("cove() { '%s' \"$@\"; }; source <(cove completion bash); COMP_WORDS=(cove logs w); COMP_CWORD=2; _cove;"
             "echo ${COMPREPLY[@]}; COMP_WORDS=(cove logs web %s); COMP_CWORD=3; _cove; echo ${COMPREPLY[@]};"
             "COMP_WORDS=(cove exec --det); COMP_CWORD=2; _cove; echo ${COMPREPLY[@]}" % (c.BIN, process[:-2]))
    got = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, env=cli.env)
    c.same(got.stdout, "web\n%s\n--detach\n" % process, "bash completes sandboxes, processes and options")


def tokens(cli, cove):
    def opens(token, box="web"):
        return cove.get("/v1/t/%s/sandboxes/%s/api/ping" % (token, ids[box]), key=False).status

    def token_of(url):
        return url.split("/v1/t/")[1].split("/")[0]
    cli("create", "--name", "other")
    boxes = {name: cove.get("/v1/sandboxes/" + name).json for name in ("web", "other")}
    ids = {name: box["id"] for name, box in boxes.items()}
    old = {name: box["token"] for name, box in boxes.items()}
    c.same((opens(old["web"]), opens(old["other"], "other")), (200, 200), "the credential in the path opens a sandbox")
    got = cli("rotate-token", "web")
    c.ok(got.returncode == 0 and got.text.count("\n") == 1 and got.text.startswith(cove.url + "/v1/t/"),
         "rotate-token prints the next URL", got.text, got.err)
    new = token_of(got.text)
    c.ok(new != old["web"] and cove.get("/v1/sandboxes/web").json["token"] == new, "with another credential, which the API shows", new)
    c.same((opens(old["web"]), opens(new)), (401, 200), "the old one opens nothing, the new one does")
    c.same((opens(new, "other"), opens(old["other"], "other")), (401, 200), "another sandbox has its own still")
    os.kill(cove.children()["daemon"], signal.SIGKILL)
    c.same((c.patiently(lambda: cove.get("/v1/t/%s/sandboxes/%s/api/ping" % (new, ids["web"]), key=False)).status, opens(old["web"])),
           (200, 401), "so it is after a kill of the daemon")
    got = cli("rotate-token", "web", "other")
    lines = [token_of(line) for line in got.text.splitlines()]
    c.same((got.returncode, len(lines), opens(lines[0]), opens(lines[1], "other"), opens(new), opens(old["other"], "other")),
           (0, 2, 200, 200, 401, 401), "of several sandboxes at once")
    c.same(cli("rotate-token", "--quiet", "web").text, "", "or without a word")
    shown = json.loads(cli("rotate-token", "--json", "web").text)
    c.same((shown["id"], opens(shown["token"]), opens(lines[0])), (ids["web"], 200, 401), "or as JSON")
    got = cli("rotate-token", "nobody")
    c.ok(got.returncode == 3 and "no sandbox 'nobody'" in got.err, "of a sandbox that is not there: status 3", got.returncode, got.err)
    c.ok(not any(token in cove.log_text() for token in (*old.values(), new, *lines, shown["token"])), "no credential is in the log")
    cli("rm", "other")


def main():
    home = tempfile.mkdtemp(prefix="cove-box-", dir=os.environ.get("COVE_TEST_DIR"))
    os.chmod(home, 0o711)
    try:
        cove = c.Cove(data=os.path.join(home, "data"))
        work = os.path.join(home, "work")
        os.mkdir(work)
        cli = c.Cli(cove.data, work)
        c.same(cli("create", "--name", "web").returncode, 0, "there is a sandbox")
        processes(cli)
        input_streams(cli)
        terminals(cli)
        shells(cli)
        lost_lines(cli, cove)
        files(cli, work)
        strange_files(cli, work)
        words(cli)
        tokens(cli, cove)
        c.same(cove.close(), 0, "the daemon ends in peace")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    c.done()


main()
