#!/usr/bin/env python3
"""The command line, as people and scripts use it: statuses, streams, tables, a daemon of its own."""
# alone: its census is of the whole host
import json
import os
import pty
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import time

import cove as c

c.need_root()


def grammar(cli):
    for words, status, hint in (
            (["rnu"], 2, "did you mean 'cove run'"),
            (["run", "--memroy", "1m", "true"], 125, "did you mean '--memory'"),
            (["ps", "--nonsense"], 2, "cove help ps"),
            (["template", "lst"], 2, "cove template ls"),
            (["run"], 125, "COMMAND"),
            (["run", "-m", "512", "true"], 125, "512m"),
            (["rm"], 2, "cove ps"),
            (["completion", "tcsh"], 2, "bash, zsh and fish")):
        got = cli(*words)
        c.ok(got.status == status and hint in got.err and not got.out,
             "'%s' is refused with %d and a hint" % (" ".join(words), status), got)
    got = cli("ps", "--json", "--nonsense")
    c.ok(got.status == 2 and json.loads(got.err)["reason"] == "unknown_option",
         "with --json an error is JSON", got)


def manuals(cli):
    got = cli()
    c.ok(got.status == 0 and "template import" in got.text and "warden" not in got.text,
         "alone it lists the verbs, and not the hidden ones", got)
    for words in (["help", "run"], ["run", "--help"], ["serve", "--help"], ["template"],
                  ["help", "template", "import"], ["--version"], ["version"]):
        got = cli(*words)
        c.ok(got.status == 0 and got.out and not got.err, "'%s' answers" % " ".join(words), got)
    page = os.path.join(c.ROOT, "man", "cove.1")
    c.ok(cli("help", "--man").out == open(page, "rb").read(),
         "man/cove.1 is what 'cove help --man' prints", "make it again: build/cove help --man > man/cove.1")
    for shell in ("bash", "zsh", "fish"):
        script = cli("completion", shell).out
        if not shutil.which(shell):
            c.skip("the completion of %s is well-formed" % shell, shell + " is not installed")
            continue
        check = subprocess.run([shell, "-n"], input=script, capture_output=True)
        c.ok(script and check.returncode == 0, "the completion of %s is well-formed" % shell, check.stderr)
    probe = ("source <(%s completion bash); COMP_WORDS=(cove template im); COMP_CWORD=2; _cove;"
             "echo ${COMPREPLY[@]}; COMP_WORDS=(cove run --mem); _cove; echo ${COMPREPLY[@]}" % c.BIN)
    got = subprocess.run(["bash", "-c", probe], capture_output=True, text=True)
    c.same(got.stdout, "import\n--memory\n", "bash completes verbs and options")


def statuses(cli):
    for words, want in (
            (["true"], 0), (["sh", "-c", "exit 3"], 3), (["sh", "-c", "kill -9 $$"], 137),
            (["nonesuch"], 127), (["/etc/passwd"], 126), (["-w", "/nonesuch", "true"], 125),
            (["--template", "nonesuch", "true"], 125), (["--timeout", "300ms", "sleep", "60"], 124),
            (["-m", "32m", "--", "python3", "-c", "x = b'x' * 2**30"], 137)):
        got = cli("run", *words)
        c.ok(got.status == want, "'run %s' ends with %d" % (" ".join(words), want), got)
    c.ok("memory" in got.err, "and says that memory was short", got)
    got = cli("run", "-q", "-m", "32m", "--", "python3", "-c", "x = b'x' * 2**30")
    c.ok("cove:" not in got.err, "with -q it says nothing of its own", got)


def full_disks(cli):
    """Output that could not be written is no success."""
    for words, want in ((["version"], 1), (["help"], 1), (["ps"], 1), (["create"], 1),
                        (["run", "echo", "x"], 125), (["run", "--json", "echo", "x"], 125)):
        with open("/dev/full", "w") as full:
            got = subprocess.run([c.BIN, *words], env=cli.env, stdout=full, stderr=subprocess.PIPE,
                                 text=True, timeout=60)
        c.ok(got.returncode == want and "No space left" in got.stderr,
             "'%s > /dev/full' ends with %d" % (" ".join(words), want), got)
    cli("rm", "--all", "-y")


def streams(cli):
    got = cli("run", "--", "python3", "-c", "import os; os.write(1, bytes(range(256)) * 999); os.write(2, b'e')")
    c.ok(got.out == bytes(range(256)) * 999 and got.err == "e",
         "every byte of stdout and stderr arrives, apart", got)
    got = cli("run", "-i", "cat", stdin=b"\xff\0in\n")
    c.ok(got.out == b"\xff\0in\n", "-i gives our stdin to the command", got)
    got = cli("run", "cat", stdin=b"unread")
    c.ok(got.status == 0 and got.out == b"", "without -i there is none", got)
    got = cli("run", "-i", "cat", stdin=b"x" * (2 << 20))
    c.ok(got.status == 0 and got.out == b"x" * (2 << 20), "as much of it as there is", got)
    got = cli("run", "-i", "--json", "cat", stdin=b"x" * (2 << 20))
    c.ok(got.status == 125 and "1 MiB" in got.err, "with --json too much of it is refused", got)
    got = cli("run", "echo", "a b", "$HOME", "*", ";", "|")
    c.same(got.text, "a b $HOME * ; |\n", "no shell looks at the words")
    got = cli("run", "-c", "echo $((6*7)) | rev")
    c.same(got.text, "24\n", "-c runs a line by bash")
    child = cli.popen("run", "-c", "echo one; sleep 300")
    began = time.monotonic()
    c.ok(child.stdout.readline() == b"one\n" and time.monotonic() - began < 100,
         "output comes while the command runs")
    child.stdout.close()
    child.send_signal(signal.SIGINT)
    child.stderr.read()
    c.same(child.wait(30), 130, "Ctrl-C ends it with 130")
    c.same(cli("ps", "-q").out, b"", "and its sandbox is gone")
    pipe = subprocess.run(["bash", "-c", "'%s' run yes | head -n 1; echo ${PIPESTATUS[0]}" % c.BIN],
                          env=cli.env, capture_output=True, text=True, timeout=60)
    c.ok(pipe.stdout == "y\n141\n" and not pipe.stderr, "a reader that leaves ends it quietly", pipe)
    c.same(cli("ps", "-q").out, b"", "and its sandbox is gone, too")


def options(cli):
    with tempfile.NamedTemporaryFile("w", suffix=".env") as file:
        file.write("# a file\nB=from file\n")
        file.flush()
        got = cli("run", "-e", "A=1", "--env-file", file.name, "-c", 'echo "$A $B"')
    c.same(got.text, "1 from file\n", "variables come from -e and --env-file")
    got = cli("run", "-w", "/tmp", "-u", "1000", "--name", "named", "-c", "pwd; id -u; hostname")
    c.same(got.text, "/tmp\n1000\nnamed\n", "-w, -u and --name hold")
    got = cli("run", "--json", "--", "sh", "-c", "echo out; exit 4")
    answer = json.loads(got.out)
    c.ok(got.status == 4 and answer["stdout"] == "out\n" and answer["ended"] == "exited",
         "--json answers in one document", got)
    got = cli("run", "--keep", "true")
    box = got.err.split()[-1]
    c.ok(box.startswith("box-") and cli("exec", box, "--", "echo", "alive").text == "alive\n",
         "--keep keeps the sandbox and tells its id", got)
    c.same(cli("rm", box).text, box + "\n", "rm prints what it removed")


def boxes(cli):
    got = cli("create", "--name", "web", "-l", "team=a", "-m", "64m")
    box = got.text.strip()
    c.ok(got.text == box + "\n" and len(box) == 52, "create prints the id and nothing else", got)
    lines = cli("ps").text.splitlines()
    c.ok(lines[0].split() == ["ID", "NAME", "TEMPLATE", "STATE", "AGE", "MEMORY", "CPU", "DISK"] and len(lines) == 2 and
         lines[1].split()[1:4] == ["web", "host", "running"], "ps is a table", lines)
    c.same(cli("ps", "-q", "-l", "team=a").text, box + "\n", "ps finds by label")
    c.same(cli("ps", "-q", "-l", "team=b").text, "", "and finds nothing by another")
    c.same([b["name"] for b in json.loads(cli("ps", "--json").out)], ["web"], "ps --json is an array")
    seen = json.loads(cli("inspect", "web").out)
    c.ok(len(seen) == 1 and seen[0]["id"] == box and seen[0]["limits"]["memoryMB"] == 64,
         "inspect shows all that is known", seen)
    for key in ("web", box, box[4:16]):
        c.same(cli("exec", key, "echo", "hi").text, "hi\n", "exec finds a sandbox by '%s'" % key[:12])
    c.ok(cli("exec", "web", "sh", "-c", "exit 9").status == 9, "exec hands the status on")
    c.ok(cli("exec", "nobody", "true").status == 125, "exec in no sandbox is 125")
    got = cli("inspect", "nobody")
    c.ok(got.status == 3 and got.text == "[]\n" and got.err,
         "inspect of none is 3", got)
    c.ok(cli("create", "--name", "web").status == 5, "a name that is taken is 5")
    c.ok(cli("rm", "nobody").status == 3 and cli("rm", "-f", "nobody").status == 0,
         "rm of none is 3, and 0 with -f")
    got = cli("rm", "--all")
    c.ok(got.status == 2 and "-y" in got.err, "rm --all asks first", got)
    c.ok(box in cli("rm", "--all", "-y").text and cli("ps", "-q").text == "", "rm --all -y removes all")


def templates(cli, home):
    root = os.path.join(home, "tree")
    os.makedirs(os.path.join(root, "bin"))
    busybox = shutil.which("busybox")
    static = busybox and b"statically" in subprocess.run(["file", busybox], capture_output=True).stdout \
        if shutil.which("file") else bool(busybox)
    if static:
        shutil.copy(busybox, os.path.join(root, "bin", "busybox"))
        os.symlink("busybox", os.path.join(root, "bin", "sh"))
    got = cli("template", "import", "tree", root)
    c.ok(got.status == 0 and got.text == "tree\n", "a directory becomes a template", got)
    if static:
        c.same(cli("run", "--template", "tree", "/bin/sh", "-c", "echo hi").text, "hi\n", "and a sandbox starts from it")
    else:
        c.skip("and a sandbox starts from it", "there is no static busybox")
    archive = os.path.join(home, "tree.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root, ".")
    c.same(cli("template", "import", "packed", archive).text, "packed\n", "a file becomes a template")
    got = cli("template", "import", "piped", "-", stdin=open(archive, "rb").read())
    c.same(got.text, "piped\n", "so does standard input")
    c.ok(cli("template", "import", "packed", archive).status == 5, "a name that is taken is 5")
    c.ok(cli("template", "import", "bad", "/etc/passwd").status == 2, "a file that is no archive is status 2")
    c.ok(cli("template", "import", "bad", "/nonesuch").status == 2, "an absent file is status 2")
    names = cli("template", "ls", "-q").text.split()
    c.ok(set(names) == {"host", "tree", "packed", "piped"}, "template ls names them all", names)
    table = cli("template", "ls").text.splitlines()
    c.ok(table[0].split() == ["NAME", "KIND", "SIZE", "CREATED"], "and as a table", table)
    c.same(cli("template", "rm", "tree", "packed", "piped").text, "tree\npacked\npiped\n", "template rm removes")
    c.ok(cli("template", "rm", "tree").status == 3, "once")


def on_a_terminal(cli):
    env = {k: v for k, v in cli.env.items() if k != "NO_COLOR"}
    env["TERM"] = "xterm"
    outcome = []
    for extra in ({}, {"NO_COLOR": "1"}):
        master, slave = pty.openpty()
        child = subprocess.Popen([c.BIN, "ps"], env=dict(env, **extra), stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        text = b""
        try:
            while True:
                piece = os.read(master, 4096)
                if not piece:
                    break
                text += piece
        except OSError:
            pass
        child.wait()
        os.close(master)
        outcome.append(b"\033[" in text)
    c.same(outcome, [True, False], "colours are for terminals, unless NO_COLOR is set")


def keys(cli, cove):
    other = c.Cli("/nonesuch", COVE_URL=cove.url, COVE_TOKEN=cove.key)
    c.ok(other("ps").status == 0, "COVE_URL and COVE_TOKEN suffice")
    got = c.Cli("/nonesuch", COVE_URL=cove.url, COVE_TOKEN="wrong")("ps")
    c.ok(got.status == 4 and "hint" in got.err, "a wrong key is 4", got)
    got = c.Cli("/nonesuch")("ps")
    c.ok(got.status == 8 and "cove serve" in got.err, "no daemon is 8, with a hint", got)
    got = c.Cli("/nonesuch", COVE_URL="http://127.0.0.1:1")("run", "true")
    c.ok(got.status == 125, "a named daemon that is away is no reason to start one", got)
    user = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", c.BIN, "ps"],
                          env=cli.env, capture_output=True, text=True)
    c.ok(user.returncode == 4 and "COVE_TOKEN" in user.stderr, "others may not read the key, and are told", user)


def doctor(cli):
    got = cli("doctor", "--json")
    report = json.loads(got.out)
    c.ok(got.status == 0 and report["ok"] and report["daemon"]["reachable"],
         "doctor finds this host fit and the daemon awake", got)
    c.ok(all({"feature", "required", "ok", "found"} <= set(row) for row in report["features"]),
         "and tells of each feature", report)
    c.ok("This host can run cove." in cli("doctor").text, "in words, too")


def alone(home):
    """cove run without any daemon."""
    data = os.path.join(home, "lone")
    cli = c.Cli(data)
    before = c.census()
    got = cli("run", "-c", "echo lone; exit 5")
    c.ok(got.status == 5 and got.out == b"lone\n" and not got.err, "run works without a daemon, quietly", got)
    c.same(c.settled(before), {}, "and leaves nothing behind")
    c.ok(cli("run", "--keep", "true").status == 125, "without a daemon nothing can be kept")
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append(cli("run", "-c", "sleep 1; echo %d" % i)))
               for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    c.ok(sorted(r.out for r in results) == [b"0\n", b"1\n"], "two at once do not disturb each other", results)
    child = cli.popen("run", "-c", "echo up; sleep 60")
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    c.same(child.wait(60), 143, "TERM ends run and its daemon")
    c.same(c.settled(before), {}, "and again nothing is left")
    child = cli.popen("run", "-c", "echo up; sleep 60")
    child.stdout.readline()
    child.kill()
    child.wait()
    c.same(c.settled(before, seconds=30), {}, "even kill -9 leaves nothing alive")
    left = [name for name in os.listdir(home) if name.startswith("cove-run-")]
    c.same(left, [], "private directories are removed")
    user = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", c.BIN, "run", "true"],
                          env=cli.env, capture_output=True, text=True)
    c.ok(user.returncode == 125 and "root" in user.stderr, "a user who may not start a daemon gets an error", user)


def main():
    home = tempfile.mkdtemp(prefix="cove-cli-", dir=os.environ.get("COVE_TEST_DIR"))
    os.chmod(home, 0o711)
    try:
        cove = c.Cove(data=os.path.join(home, "data"))
        cli = c.Cli(cove.data)
        grammar(cli)
        manuals(cli)
        statuses(cli)
        full_disks(cli)
        streams(cli)
        options(cli)
        boxes(cli)
        templates(cli, home)
        on_a_terminal(cli)
        keys(cli, cove)
        doctor(cli)
        c.same(cove.close(), 0, "the daemon ends in peace")
        alone(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    c.done()


main()
