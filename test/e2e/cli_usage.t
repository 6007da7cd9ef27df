#!/usr/bin/env python3
"""What sandboxes use, at the command line and in the API; terminals in ps; the last lines of logs; completion of paths."""
import datetime
import json
import os
import pty
import shutil
import subprocess
import tempfile
import time

import cove as c
from agent_sessions import kill_daemon

c.need_root()


class Cli(c.Cli):
    def shell(self, name, script):
        env = dict(self.env, PATH=os.path.dirname(c.BIN) + ":" + self.env["PATH"])
        got = subprocess.run([name, "-c", script], env=env, cwd=self.cwd, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        return got.stdout


MIB = 1 << 20


def usage_of(cove, box):
    return cove.get("/v1/sandboxes/" + box).json["usage"]


def usage(cli, cove):
    c.same(cli("create", "--name", "idle", "--sleep-after", "1s").returncode, 0, "a sandbox that soon sleeps")
    busy = "head -c 40M /dev/urandom > big; sync -f big; x=$(head -c 20M /dev/zero | tr '\\0' a); i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo up; sleep 600"
    cli("exec", "-d", "web", "bash", "-c", busy)
    c.until(lambda: "up" in cli("logs", "web").text, 60)
    c.until(lambda: (usage_of(cove, "web")["diskBytes"] or 0) >= 40 * MIB, 60)
    used = usage_of(cove, "web")
    c.ok(20 * MIB <= used["memoryBytes"] <= 512 * MIB, "GET tells the memory that it uses", used)
    c.ok(50 <= used["cpuMs"] <= 600000, "and its CPU time", used)
    c.ok(40 * MIB <= used["diskBytes"] <= 200 * MIB, "and its disk", used)
    c.ok(2 <= used["pids"] <= 256, "and its processes", used)
    item = json.loads(cli("inspect", "web").stdout)[0]
    c.ok(item["usage"]["memoryBytes"] >= 20 * MIB and item["usage"]["diskBytes"] >= 40 * MIB, "inspect shows it", item["usage"])
    lines = [line.split("   ") for line in cli("ps").text.splitlines()]
    heads = [cell.strip() for cell in lines[0] if cell.strip()]
    c.same(heads, ["ID", "NAME", "TEMPLATE", "STATE", "AGE", "MEMORY", "CPU", "DISK"], "ps has columns for it")
    row = [cell.strip() for cell in [line for line in lines if "web" in "".join(line)][0] if cell.strip()]
    c.ok(row[5].endswith("MiB") and row[6].endswith((" s", " min")) and row[7].endswith("MiB"), "with sizes and times", row)
    c.ok("usage" not in cove.get("/v1/sandboxes").json["items"][0] and "usage" in cove.get("/v1/sandboxes?usage=true").json["items"][0],
         "a list has it only where it is asked for")
    c.ok("usage" not in cove.get("/v1/sandboxes/web?usage=false").json, "and a GET can do without")
    c.same(cove.get("/v1/sandboxes?usage=maybe").status, 400, "anything else is refused")


def asleep(cli, cove):
    """Neither a frozen sandbox nor a stopped one is woken by the question."""
    c.until(lambda: cove.get("/v1/sandboxes/idle?usage=false").json["state"] == "frozen", 60)
    for _ in range(5):
        cli("inspect", "idle")
        cli("ps")
    box = cove.get("/v1/sandboxes/idle").json
    c.ok(box["state"] == "frozen" and box["usage"]["memoryBytes"] > 0, "a frozen one stays frozen, and tells its memory", box["state"], box["usage"])
    cli("stop", "idle")
    box = json.loads(cli("inspect", "idle").stdout)[0]
    c.ok(box["state"] == "stopped" and box["usage"]["memoryBytes"] is None and box["usage"]["diskBytes"] is not None,
         "of a stopped one the disk alone is known", box["state"], box["usage"])
    c.same(cove.get("/v1/sandboxes/idle").json["state"], "stopped", "and it stays stopped")
    row = [line for line in cli("ps").text.splitlines() if "idle" in line][0].split()
    c.ok("stopped" in row and "-" in row, "ps shows so", row)


def terminals(cli):
    master, slave = pty.openpty()
    child = subprocess.Popen([c.BIN, "exec", "-it", "web", "bash", "--norc"], env=dict(cli.env, TERM="xterm"), stdin=slave, stdout=slave, stderr=slave,
                             start_new_session=True)
    os.close(slave)
    find = lambda: [p for p in json.loads(cli("ps", "--json", "web").stdout) if p["kind"] == "terminal"]
    c.ok(c.until(lambda: [t for t in find() if t["attached"] == 1], 40), "a terminal is in ps --json", find())
    rows = [line.split() for line in cli("ps", "web").text.splitlines()]
    c.ok(rows[0][:3] == ["ID", "KIND", "PID"] and any(row[1] == "terminal" and "attached" in row for row in rows[1:]) and
         any(row[1] == "process" for row in rows[1:]), "and in the table, beside the processes", rows)
    os.write(master, b"exit\n")
    child.wait(60)
    os.close(master)


def logs(cli):
    process = cli("exec", "-d", "web", "sh", "-c", "for i in 1 2 3 4 5; do echo out$i; done; printf part").text.strip()
    cli("attach", "web", process)
    whole = ["out1", "out2", "out3", "out4", "out5", "part"]
    for count in 1, 2, 0, 1000:
        got = cli("logs", "--tail", str(count), "web", process)
        c.same((got.returncode, got.text.splitlines()), (0, whole[-count:] if count else []), "logs --tail %d" % count)
    process = cli("exec", "-d", "web", "sh", "-c", "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done").text.strip()
    cli("attach", "web", process)
    got = cli("logs", "--tail", "7", "web", process)
    c.ok(len(got.text.splitlines()) + len(got.err.splitlines()) == 7, "the lines of both streams count together", got)
    cli("exec", "web", "mkfifo", "/tmp/go")
    live = cli("exec", "-d", "web", "sh", "-c", "echo old1; echo old2; read x < /tmp/go; echo new").text.strip()
    c.until(lambda: "old2" in cli("logs", "web", live).text, 30)
    child = subprocess.Popen([c.BIN, "logs", "-f", "-n", "1", "web", live], env=cli.env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    first = child.stdout.readline()
    cli("exec", "web", "sh", "-c", "echo > /tmp/go")
    c.same((first, child.communicate(timeout=60)[0]), (b"old2\n", b"new\n"), "logs -f --tail 1 begins at the last line and goes on")
    c.same(cli("logs", "--tail", "few", "web").returncode, 2, "a tail of no number is refused")
    times(cli)


def times(cli):
    """When a line came is known to a tenth of a second."""
    cli("exec", "web", "mkfifo", "/tmp/on")  # one a line: who opens the same once more may meet the writer of before
    process = cli("exec", "-d", "web", "sh", "-c", "echo first; read x < /tmp/go; echo second; read x < /tmp/on; echo third").text.strip()
    c.until(lambda: "first" in cli("logs", "web", process).text, 30)
    time.sleep(1.2)  # what comes now is more than a second younger
    between = time.time()
    cli("exec", "web", "sh", "-c", "echo > /tmp/go")
    c.until(lambda: "second" in cli("logs", "web", process).text, 30)
    got = cli("logs", "--timestamps", "web", process)
    rows = [line.split(" ", 1) for line in got.text.splitlines()]
    c.same([row[-1] for row in rows], ["first", "second"], "logs --timestamps shows the lines")
    when = [datetime.datetime.strptime(row[0], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc).timestamp() for row in rows]
    c.ok(when[0] <= between - 1 and when[1] >= between - 0.2, "each with the time at which it came", rows, between)
    since = datetime.datetime.fromtimestamp(between, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    c.same(cli("logs", "--since", since, "web", process).text, "second\n", "logs --since a time leaves out what is older")
    c.same(cli("logs", "--since", "1h", "web", process).text, "first\nsecond\n", "and since a span ago")
    child = subprocess.Popen([c.BIN, "logs", "-f", "-t", "-n", "1", "web", process], env=cli.env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    first = child.stdout.readline()
    cli("exec", "web", "sh", "-c", "echo > /tmp/on")
    rest = child.communicate(timeout=60)[0]
    c.ok(first.endswith("Z second\n") and rest.endswith("Z third\n"), "with -f and --tail, too", first, rest)
    c.same(cli("logs", "--since", "yesterday", "web", process).returncode, 2, "a time that is none is refused")


def times_lost(cli, cove):
    """Times are in the daemon's memory: a line whose time is unknown is not taken for an old one."""
    process = cli("exec", "-d", "web", "sh", "-c", "echo before; read x < /tmp/go; echo after").text.strip()
    c.until(lambda: "before" in cli("logs", "web", process).text, 30)
    kill_daemon(cove)
    cli("exec", "web", "sh", "-c", "echo > /tmp/go")
    c.until(lambda: "after" in cli("logs", "web", process).text, 30)
    c.same(cli("logs", "--since", "1h", "web", process).text, "before\nafter\n", "after a restart logs --since shows what has no time")
    rows = cli("logs", "--timestamps", "web", process).text.splitlines()
    c.ok(rows[0] == "- before" and rows[1].endswith("Z after"), "and --timestamps a dash before it", rows)


BASH = """source <(cove completion bash)
complete_line() { COMP_LINE="$1"; COMP_POINT=${#1}; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _cove; printf '%s,' "${COMPREPLY[@]}"; echo; }
complete_line 'cove cat web:/etc/host' 'cove cat web : /etc/host'
complete_line 'cove ls web:/workspace/some' 'cove ls web : /workspace/some'
complete_line 'cove ls web:sub/' 'cove ls web : sub/'
complete_line 'cove cp web:/etc/passw' 'cove cp web : /etc/passw'
complete_line 'cove cp loc' 'cove cp loc'
complete_line 'cove cat we' 'cove cat we'
complete_line 'cove create --network a' 'cove create --network a'
complete_line 'cove cat web:evil' 'cove cat web : evil'
complete_line 'cove cat idle:/etc/host' 'cove cat idle : /etc/host'
"""


def completion(cli, work):
    cli("exec", "web", "sh", "-c", "mkdir -p sub some-dir; touch sub/one sub/two some-file; touch 'evil$(touch pwned)'")
    open(os.path.join(work, "local-file"), "w").close()
    want = ["/etc/hostname", "/workspace/some-dir/,/workspace/some-file,", "sub/one,sub/two,", "/etc/passwd,", "local-file,", "web:,", "allow,all,",
            "evil\\$\\(touch\\ pwned\\),"]
    got = cli.shell("bash", BASH).splitlines()
    for i, (line, name) in enumerate(zip(want, ("a file of a sandbox", "files and directories", "a relative path", "for cp", "for cp files of this host, too", "a sandbox's name",
                                                "the values of --network", "a hostile name is quoted"))):
        c.ok(len(got) > i and (line in got[i] if i == 0 else sorted(got[i].split(",")) == sorted(line.split(","))), "bash completes %s" % name, got)
    c.ok(not os.path.exists(os.path.join(work, "pwned")), "and nothing of it is run", os.listdir(work))
    text = cli("words", "files", "web:/etc/pass").text
    c.ok("web:/etc/passwd\n" in text and all(line.startswith("web:/etc/pass") for line in text.splitlines()), "the hidden verb lists what begins so", text)
    if shutil.which("fish"):
        got = cli.shell("fish", "cove completion fish | source; complete -C'cove cat web:/etc/passw'; complete -C'cove create --network o'")
        c.ok("web:/etc/passwd" in got and "off" in got, "fish completes paths and values", got)
    else:
        c.skip("fish completes paths and values", "fish is not installed")
    if shutil.which("zsh"):
        got = cli.shell("zsh", "autoload -Uz compinit; compinit -u -d %s/dump; source <(cove completion zsh); print ok $functions[_cove]" % work)
        c.ok("ok" in got and "cove words files $PREFIX" in got and "(off allow all)" in got, "zsh takes the script, with paths and values", got[:300])
    else:
        c.skip("zsh takes the script", "zsh is not installed")


def deadline(cli, work):
    """A daemon that does not answer does not hold the shell up."""
    import socket
    import time
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        begun = time.monotonic()
        got = subprocess.run([c.BIN, "words", "files", "web:/e", "--url", "http://127.0.0.1:%d" % deaf.getsockname()[1]], env=dict(cli.env, COVE_TOKEN="x"),
                             capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        c.ok(got.stdout == b"" and time.monotonic() - begun < 30, "completion gives up soon when the daemon is silent", got)


def main():
    home = tempfile.mkdtemp(prefix="cove-usage-", dir=os.environ.get("COVE_TEST_DIR"))
    os.chmod(home, 0o711)
    try:
        cove = c.Cove(data=os.path.join(home, "data"))
        work = os.path.join(home, "work")
        os.mkdir(work)
        cli = Cli(cove.data, work)
        c.same(cli("create", "--name", "web").returncode, 0, "there is a sandbox")
        usage(cli, cove)
        asleep(cli, cove)
        terminals(cli)
        logs(cli)
        times_lost(cli, cove)
        completion(cli, work)
        deadline(cli, work)
        c.same(cove.close(), 0, "the daemon ends in peace")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    c.done()


main()
