#!/usr/bin/env python3
"""cove agent and cove run --sync: a scripted agent works on a worktree in its sandbox, on pipes and on a terminal. Rows are named by
the requirement that they prove. And random trees with random edits on both sides."""
import io
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("git")
HOME = tempfile.mkdtemp(prefix="cove-agent-")
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": HOME, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t",
       "GIT_COMMITTER_EMAIL": "t@t"}
WORK = ("echo one >> a; echo two > dir/b; rm gone; git add -A; git -c user.name=a -c user.email=a@a commit -q -m work; "
        "echo '{\"type\":\"system\",\"session_id\":\"chat-7\"}'; echo ready; echo careful >&2; ")


def git(work, *words):
    return subprocess.run(["git", *words], cwd=work, env=dict(os.environ, **GIT), check=True, stdout=subprocess.PIPE).stdout.decode()


def put(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


def repository(name):
    work = os.path.join(HOME, name)
    for each in ("a", "dir/b", "gone", "sub/dir/c"):
        put(os.path.join(work, each), "base\n")
    put(work + "/.gitignore", ".env\n")
    put(work + "/.env", "TOKEN=canary")
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "base")
    return work


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def popen_on(agent, theirs, *words):
    return subprocess.Popen([c.BIN, *words], env=agent.cli.env, cwd=agent.work, stdin=theirs, stdout=theirs, stderr=theirs)


class Agent:
    def __init__(self, cove, work, cwd=None, **env):
        self.cove, self.work = cove, work
        self.cli = c.Cli(cove.data, cwd=cwd or work, HOME=HOME, **env)

    def run(self, script, *options, **kw):
        return self.cli("agent", "run", *options, "--", "sh", "-c", script, **kw)

    def lines(self, *options):
        got = self.cli("agent", "run", "--json", *options)
        return got, [json.loads(line) for line in got.text.splitlines() if line.startswith("{")]

    def came_back(self):
        return (read(self.work, "a"), read(self.work, "dir/b"), os.path.exists(self.work + "/gone")) == ("base\none\n", "two\n", False)


def marks(text, event):
    return re.findall(r"^\[sandbox:%s\] (.*)$" % event, text, re.M)


def pipes(cove):
    agent = Agent(cove, repository("pipes"))
    got = agent.run(WORK + "cat .env 2>/dev/null; cat .git/config | grep -c remote; cat; echo ended")
    c.ok(got.returncode == 0 and agent.came_back(), "R34 what the agent edited, deleted and committed comes back", got)
    c.ok(git(agent.work, "rev-list", "--count", "HEAD").strip() == "1" and "TOKEN" not in got.text and "\n0\n" in got.text,
         "R9 R10 commits, remotes and ignored files stay on their side", got.text)
    c.ok(got.text.endswith("ended\n"), "R19 standard input is empty", got.text)
    c.ok(marks(got.err, "phase") == ["sandbox_create", "sync_in", "agent_running", "sync_out"], "phases are told", got.err)
    c.ok(marks(got.err, "stderr") == ["careful"] and "ready\n" in got.text, "5.9 stderr has a prefix, stdout has none", got)
    c.ok(marks(got.err, "agent_session") == ["chat-7"], "R27 the agent's own session is told", got.err)
    c.ok(marks(got.err, "done") == ["files_changed=2 files_deleted=1"], "R39 counts are exact", got.err)
    c.ok(got.err.index("[sandbox:id]") < got.err.index("[sandbox:session]") < got.err.index("agent_running"), "R25 ids come first", got.err)
    got, lines = agent.lines("--", "sh", "-c", "echo out; echo err >&2; printf '\\377'; exit 3")
    streams = {(line["stream"], line["data"], line.get("encoding")) for line in lines if "stream" in line}
    done = [line for line in lines if line.get("event") == "done"]
    text = "".join(line["data"] for line in lines if line.get("stream") == "stderr")
    c.ok(got.returncode == 1 and text == "err\n" and ("stdout", "/w==", "base64") in streams or ("stdout", "b3V0Cv8=", "base64") in streams,
         "--json: output by stream, what is not text as base64", got.returncode, lines)
    c.ok(done and done[0]["exitCode"] == 3 and done[0]["filesChanged"] == 0 and lines[-1] == {"exitCode": 3}, "R23 R24 the code of the agent is told", lines)
    odd = "'; touch /tmp/pwned; '$(id)"
    got = agent.cli("agent", "run", "--session", odd, "--model", "big one", "-e", "GREETING=hi", "--", "sh", "-c",
                    'printf "%s|" "$@"; printf "%s|" "$COVE_AGENT_SESSION" "$COVE_AGENT_MODEL" "$GREETING"; ls /tmp/pwned', "sh", odd, "{session}", "{model}")
    c.ok(got.text == "|".join([odd, odd, "big one", odd, "big one", "hi", ""]), "R18 words arrive as they are given", got)
    sub = Agent(cove, agent.work, cwd=agent.work + "/sub/dir")
    c.same(sub.run("pwd").text, "/workspace/sub/dir\n", "R7 the directory is the one that ours is a copy of")
    got = agent.run("echo step_finish; sleep 1; echo late > late; echo step_finish; echo more >> late")
    c.ok(got.returncode == 0 and read(agent.work, "late") == "late\nmore\n", "R22 the end is that of the process", got)
    got = agent.run("echo kept > failed; exit 3")
    c.ok(got.returncode == 1 and read(agent.work, "failed") == "kept\n" and "status 3" in got.err, "R39 changes of a failed agent come back", got)
    begin = time.monotonic()
    got = agent.run("echo slow > slow; sleep 999 & sleep 999", "--timeout", "1s")
    c.ok(got.returncode == 124 and time.monotonic() - begin < 60 and os.path.exists(agent.work + "/slow"), "R24 124 when the time is over", got)
    c.ok(all(agent.run("printf last-%d" % i).text == "last-%d" % i for i in range(5)), "R20 the last bytes before the end are shown")
    for words, env in ((("--worktree", "/"), {}), ((), {"COVE_AGENT_ROOTS": "/nonesuch"}), (("--timeout", "soon"), {})):
        got = Agent(cove, agent.work, **env).run("true", *words)
        c.ok(got.returncode == 2 and "[sandbox:id]" not in got.err, "R8 refused before a sandbox is used: %s%s" % (" ".join(words), list(env)), got)
    return agent


def conflict(cove, agent):
    got = agent.run("echo box > a; echo fresh > fresh")
    c.ok(got.returncode == 0, "a second run in the same sandbox", got)
    child = agent.cli.popen("agent", "run", "--", "sh", "-c", "echo begun; echo box2 > a; sleep 1")
    child.stdout.read(6)
    put(agent.work + "/a", "host\n")
    out, err = child.communicate()
    c.ok(child.returncode == 2 and marks(err.decode(), "conflict") == ["a"] and read(agent.work, "a") == "host\n", "R38 what changed on both sides is not overwritten", child.returncode, err)
    got = agent.cli("sync", "out", "--theirs")
    c.ok(got.returncode == 0 and read(agent.work, "a") == "box2\n", "R37 and comes by 'cove sync out --theirs'", got)


def recovery(cove, agent):
    child = agent.cli.popen("agent", "run", "--", "sh", "-c", "echo first; sleep 2; echo second; echo late > after-kill; exit 5")
    run = None
    while not run:
        line = child.stderr.readline().decode()
        run = line.split()[1] if line.startswith("[sandbox:session]") else None
    child.stdout.read(6)
    child.kill()
    child.communicate()
    state = json.loads(agent.cli("agent", "status", run, "--json").text)
    c.ok(state["run"] == run and state["state"] == "running" and state["path"] == agent.work, "status of a run whose caller was killed", state)
    c.ok(run in agent.cli("agent", "list").text, "list names it")
    elsewhere = Agent(cove, agent.work, cwd="/")
    got = elsewhere.cli("agent", "reconnect", run)
    c.ok(got.returncode == 1 and got.text == "first\nsecond\n" and read(agent.work, "after-kill") == "late\n",
         "R26 reconnect shows all output, syncs out, and has the exit status", got)
    c.ok(elsewhere.cli("agent", "reconnect", run).text == "first\nsecond\n", "and again after its end")
    ended = json.loads(agent.cli("agent", "status", run, "--json").text)
    c.ok(ended["exitCode"] == 5 and ended["endedAt"], "status after its end", ended)
    got = agent.cli("agent", "status", "run-0123456789ab-01234567")
    c.ok(got.returncode == 2 and "no run" in got.err, "an unknown run is an error", got)
    child = agent.cli.popen("agent", "run", "--", "sh", "-c", "echo stopped > stopped; echo go; sleep 999")
    run = None
    while not run:
        line = child.stderr.readline().decode()
        run = line.split()[1] if line.startswith("[sandbox:session]") else None
    child.stdout.read(3)
    got = agent.cli("agent", "stop", run)
    child.communicate()
    c.ok(got.returncode == 0 and child.returncode == 130 and read(agent.work, "stopped") == "stopped\n", "5.14 130 after stop; changes come back", got, child.returncode)
    for i in range(5):
        child = agent.cli.popen("agent", "run", "--", "bash", "-c", "trap 'seq 20000; echo end > end; exit 1' INT; echo cut-%d > cut; echo go; sleep 999 & wait" % i)
        child.stdout.read(3)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
        got = (child.returncode, os.path.exists(agent.work + "/cut") and read(agent.work, "cut"), os.path.exists(agent.work + "/end"), len(out.split()))
        c.same(got, (130, "cut-%d\n" % i, True, 20000), "R29 ctrl-c stops the agent, shows its last output, then syncs out")
        agent.cli("agent", "run", "--", "rm", "-f", "end", "cut")
    got = agent.run("echo left > left", "--no-sync")
    c.ok(got.returncode == 0 and not os.path.exists(agent.work + "/left"), "R29 --no-sync leaves the changes inside", got)
    c.ok(agent.cli("sync", "out").returncode == 0 and os.path.exists(agent.work + "/left"), "until sync out")
    rng, interrupted = random.Random(21), 0
    for i in range(4 if c.SHORT else 15):
        child = agent.cli.popen("agent", "run", "--", "sh", "-c", "echo %d > round; sleep 0.1" % i)
        try:
            child.wait(rng.random() * 0.35)
        except subprocess.TimeoutExpired:
            child.kill()
            interrupted += 1
        child.communicate()
        got = agent.run("echo next %d > round" % i)
        if got.returncode == 2 and "round" in got.err:  # the killed one's agent was still at work: a conflict is named
            got = agent.cli("sync", "out", "--theirs")
            got = agent.run("echo next %d > round" % i)
        if not c.ok(got.returncode == 0 and read(agent.work, "round") == "next %d\n" % i, "the next command completes after a kill (%d)" % i, got):
            break
    c.note("%d were killed" % interrupted)


def preparations(cove):
    agent = Agent(cove, repository("prepared"))
    script = os.path.join(HOME, "setup.sh")
    put(script, "echo installing; echo once >> /root/setups\n")
    for _ in range(2):
        got = agent.run("cat /root/setups", "--setup", script)
        c.ok(got.returncode == 0 and got.text == "once\n", "R41 the setup runs once", got)
    c.ok("setup" in marks(got.err, "phase"), "and is a phase", got.err)
    put(script, "echo twice >> /root/setups\n")
    c.same(agent.run("cat /root/setups", "--setup", script).text, "once\ntwice\n", "R41 another content runs")
    put(script, "echo cannot install >&2; exit 9\n")
    got = agent.run("echo never", "--setup", script)
    log = re.search(r"(\S+\.log)", got.err)
    c.ok(got.returncode == 2 and "cannot install" in got.err and "status 9" in got.err and got.text == "" and log, "R41 a setup that fails shows its output", got)
    box = marks(got.err, "id")[0]
    c.ok(log and "cannot install" in cove.run(box, "cat " + log.group(1))["stdout"], "and keeps it")
    secret = os.path.join(HOME, "netrc")
    for text in ("first", "second"):
        put(secret, text)
        got = agent.run("cat /root/.netrc; stat -c %a /root/.netrc", "--file", secret + ":/root/.netrc")
        c.ok(got.text == text + "600\n" and "second" not in got.err, "R31 files come fresh before each run, for the user alone", got)
    for word in (secret + ":/workspace/a", secret, secret + ":/root/../workspace/x", "/nonesuch:/root/x"):
        c.ok(agent.run("true", "--file", word).returncode == 2, "--file %s is refused" % word.replace(HOME, "~"))
    children = [agent.cli.popen("agent", "run", "--", "true") for _ in range(10)]
    done = [child.communicate() + (child.returncode,) for child in children]
    c.ok(all(status == 0 for _, _, status in done) and {marks(err.decode(), "id")[0] for _, err, _ in done} == {box}, "R4 ten at once have one sandbox", done)
    got = agent.cli("run", "--sync", "--", "sh", "-c", "echo built > built; cat a; exit 7")
    c.ok(got.returncode == 7 and got.text == "base\n" and read(agent.work, "built") == "built\n", "run --sync has the command's status, and syncs both ways", got)
    for words in (("--sync", "--rm"), ("--worktree", agent.work)):
        c.ok(agent.cli("run", *words, "--", "true").returncode in (2, 125), "run %s is refused" % words[0])
    cove.request("PUT", "/v1/sandboxes/%s/sync" % box, b"cove-sync 1\0junk", raw=True)
    c.ok(agent.cli("run", "--sync", "--", "true").returncode == 2, "5.14 run --sync is 2 when the sync fails")


def by_name(cove):
    agent = Agent(cove, repository("named"))
    config = os.path.join(HOME, ".config/cove/agents.conf")
    put(HOME + "/install.sh", "cat > /root/mine <<'END'\n#!/bin/sh\n" """printf "%s|" "$@"
echo
echo '{"my":"s-1"}'
printf %s "$COVE_AGENT_PROMPT" > prompt
END
chmod 755 /root/mine
""")
    put(config, "# agents\n[agent mine]\nargv = /root/mine run [--resume {session}] [-m {model}] {prompt}\nsetup = %s/install.sh\nsession = my\n"
                "allow = example.com, *.example.org\n[agent other]\ntemplate = host\n[agent claude]\nargv = /root/mine {prompt}\n" % HOME)
    prompt = "'; touch /tmp/pwned; '$(id) {model}"
    got = agent.cli("agent", "run", "--agent", "mine", "--", prompt)
    box = (marks(got.err, "id") or [""])[0]
    c.ok(got.returncode == 0 and got.text.splitlines()[0] == "run|%s|" % prompt and read(agent.work, "prompt") == prompt, "R18 an agent of the configuration gets its prompt", got)
    c.ok(marks(got.err, "agent_session") == ["s-1"], "R27 its session is read as the section says", got.err)
    network = cove.get("/v1/sandboxes/" + box).json["network"]
    c.ok(network["mode"] == "allow" and network["allow"] == ["example.com", "*.example.org"], "its sandbox reaches the names of the section", network)
    got = agent.cli("agent", "run", "--agent", "mine", "--session", "s 1", "--model", "m", "--", "go")
    c.same(got.text.splitlines()[0], "run|--resume|s 1|-m|m|go|", "R27 --session and --model are placed")
    put(HOME + "/true.sh", "true\n")
    got = agent.cli("agent", "run", "--agent", "claude", "--setup", HOME + "/true.sh", "--", "x")
    c.same(got.text.splitlines()[0], "x|", "a section changes an agent that is known")
    for words, why in ((("nonesuch", "--", "x"), "no agent 'nonesuch'"), (("other", "--", "x"), "argv"), (("mine", "--", "x", "y"), "one word")):
        got = agent.cli("agent", "run", "--agent", *words)
        c.ok(got.returncode == 2 and why in got.err, "--agent %s is refused" % " ".join(words), got)
    put(config, "[agent mine]\nargs = x\n")
    got = agent.cli("agent", "run", "--agent", "mine", "--", "x")
    c.ok(got.returncode == 2 and "line 2 of agents.conf" in got.err, "a mistake in the file is told with its line", got)
    os.unlink(config)


def on_terminal(cove):
    agent = Agent(cove, repository("terminal"))
    got = agent.run(WORK + "test -t 1 && echo tty", "-t")
    c.ok(got.returncode == 0 and "tty" in got.text and agent.came_back(), "-t: on a terminal, and all of it comes back", got)
    got = agent.run("echo f > f; exit 4", "-t")
    c.ok(got.returncode == 1 and read(agent.work, "f") == "f\n", "-t: the status of the agent", got)
    ours, theirs = pty.openpty()
    child = popen_on(agent, theirs, "agent", "run", "-it", "--", "sh", "-c", "echo name?; read name; echo $name > name; read rest; echo $rest > rest")
    os.close(theirs)
    seen = b""

    def until(words):
        nonlocal seen
        while words not in seen and select.select([ours], [], [], 60)[0]:
            try:
                seen += os.read(ours, 65536)
            except OSError:
                break
        return words in seen
    until(b"name?")
    os.write(ours, b"ada\r")
    run = re.search(rb"\[sandbox:session\] (\S+)", seen).group(1).decode()
    c.until(lambda: cove.run(marks(seen.decode(errors="replace").replace("\r", ""), "id")[0], "cat /workspace/name")["stdout"] == "ada\n")
    os.write(ours, b"\x10\x11")
    c.ok(until(b"agent reconnect") and child.wait(60) == 0 and not os.path.exists(agent.work + "/name"), "the detach keys leave it running", seen)
    state = json.loads(agent.cli("agent", "status", run, "--json").text)
    c.ok(state["state"] == "running" and run in agent.cli("agent", "list").text, "status and list know a run on a terminal", state)
    seen = b""
    ours2, theirs = pty.openpty()
    child = popen_on(agent, theirs, "agent", "reconnect", run)
    os.close(theirs)
    ours, old = ours2, ours
    until(b"ada")
    os.write(ours, b"done\r")
    until(b"[sandbox:done]")
    c.ok(child.wait(60) == 0 and read(agent.work, "name") == "ada\n" and read(agent.work, "rest") == "done\n", "reconnect attaches again, then syncs out", seen)
    os.close(ours)
    os.close(old)
    for words in (("-t", "--json"), ("-i",), ("-t", "--timeout", "3s")):
        c.ok(agent.run("true", *words).returncode == 2, "%s is refused" % " ".join(words))


# ------------------------------------------------------------------------------------ random trees

NAMES = ["a", "b", "c", "d/a", "d/b", "d/e/f", "d/e/g", "h/i", "sp ace", "x\ny", "-rf", "\xe9t\xe9", "run"]


def change(rng, work, count):
    for _ in range(count):
        path = os.path.join(work, rng.choice(NAMES))
        kind = rng.random()
        if kind < 0.3:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
            continue
        above = os.path.dirname(path)
        while above != work:  # a file has the place of a directory
            if os.path.lexists(above) and (os.path.islink(above) or not os.path.isdir(above)):
                os.unlink(above)
            above = os.path.dirname(above)
        if kind > 0.95:  # a directory becomes a file
            path = os.path.join(work, rng.choice(["d", "h", "d/e"]))
            shutil.rmtree(path, ignore_errors=True)
        if os.path.isdir(path) and not os.path.islink(path):
            continue
        if os.path.lexists(path):
            os.unlink(path)
        above = os.path.dirname(path)
        while above != work:
            if os.path.lexists(above) and (os.path.islink(above) or not os.path.isdir(above)):
                os.unlink(above)
            above = os.path.dirname(above)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if kind > 0.85:
            os.symlink(rng.choice(["a", "../x", "/nonesuch"]), path)
        else:
            with open(path, "wb") as file:
                file.write(rng.randbytes(rng.choice((0, 5, 600, 70000))) if rng.random() < 0.7 else b"same")
            os.chmod(path, rng.choice((0o644, 0o755, 0o600)))


def tree(work):
    found = {}
    for top, dirs, names in os.walk(work):
        for name in names + [d for d in dirs if os.path.islink(os.path.join(top, d))]:
            path = os.path.join(top, name)
            info = os.lstat(path)
            link = stat.S_ISLNK(info.st_mode)
            with open(os.devnull if link else path, "rb") as file:
                found[os.path.relpath(path, work)] = ("link", os.readlink(path)) if link else (info.st_mode & 0o777, file.read())
    return found


def inside(cove, box):
    found = {}
    reply = cove.get("/v1/sandboxes/%s/api/tar?path=/workspace&exclude=.git" % box)
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as archive:
        for member in archive:
            if member.issym():
                found[member.name] = ("link", member.linkname)
            elif member.isfile() or member.islnk():
                found[member.name] = (member.mode & 0o777, archive.extractfile(member).read())
    return found


def fill(cove, box, work):
    """Makes the sandbox's tree that of a directory here."""
    cove.run(box, "find /workspace -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +")
    room = io.BytesIO()
    with tarfile.open(fileobj=room, mode="w") as archive:
        for name in sorted(tree(work)):
            archive.add(os.path.join(work, name), name)
    cove.request("PUT", "/v1/sandboxes/%s/api/tar?path=/workspace" % box, room.getvalue(), raw=True)


def random_trees(cove):
    conflicts = equal = 0
    for i in range(20 if c.SHORT else 100):
        rng = random.Random(2100 + i)
        work, other = os.path.join(HOME, "random", str(i)), os.path.join(HOME, "other", str(i))
        os.makedirs(work)
        change(rng, work, 12)
        cli = c.Cli(cove.data, cwd=work, HOME=HOME)
        got = cli("sync", "in", "--json")
        box = json.loads(got.text.splitlines()[0])["sandbox"]
        base = tree(work)
        shutil.copytree(work, other, symlinks=True)
        change(rng, work, rng.choice((0, 1, 3)))
        change(rng, other, rng.choice((0, 1, 3)))
        fill(cove, box, other)
        host, theirs = tree(work), tree(other)
        if got.returncode or inside(cove, box) != theirs:
            c.ok(False, "random tree %d begins" % i, got)
            break
        out = cli("sync", "out", "--json")
        named = {e["path"] for e in (json.loads(line) for line in out.text.splitlines() if line.startswith("{\"")) if e.get("event") == "conflict"}
        if out.returncode == 0:
            back = cli("sync", "in", "--json")
            merged = {p: v for p in set(host) | set(theirs)
                      for v in [host.get(p) if theirs.get(p) == base.get(p) else theirs.get(p)] if v is not None}
            good = back.returncode == 0 and not named and tree(work) == inside(cove, box) == merged
            equal += good
        else:
            good = out.returncode == 2 and named and tree(work) == host and inside(cove, box) == theirs
            both = {p for p in set(host) | set(theirs) | set(base) if host.get(p) != base.get(p) != theirs.get(p) != host.get(p)}
            good = good and both <= named
            conflicts += bool(good)
        if not good:
            c.ok(False, "random tree %d: equal after out and in, or a conflict and both untouched" % i, out, named, sorted(set(host.items()) ^ set(base.items()))[:6],
                 sorted(set(theirs.items()) ^ set(base.items()))[:6])
            return
        cove.delete(box)
    c.ok(equal and conflicts, "random trees: equal after out and in, or a conflict is named and both are untouched (%d, %d)" % (equal, conflicts))


def main():
    cove = c.Cove()
    try:
        agent = pipes(cove)
        conflict(cove, agent)
        recovery(cove, agent)
        preparations(cove)
        by_name(cove)
        on_terminal(cove)
        random_trees(cove)
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
