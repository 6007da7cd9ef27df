#!/usr/bin/env python3
"""cove agent with the three providers: the same agent, the same files, events and exit codes with cove, with Daytona's API (which
cove serves) and on this host. Rows are named by the requirement that they prove."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("git")
HOME = tempfile.mkdtemp(prefix="cove-providers-")
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": HOME, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t",
       "GIT_COMMITTER_EMAIL": "t@t"}
WORK = ("echo one >> a; echo two > dir/b; rm gone; mv moved 'new\nname'; git add -A; git commit -q -m work; ln -s a link; chmod 755 dir/b; mkdir build; echo o > build/o; "
        "echo '{\"session_id\":\"chat-7\"}'; echo ready; echo careful >&2; cat .env; ")


def git(work, *words):
    return subprocess.run(["git", *words], cwd=work, env=dict(os.environ, **GIT), check=True, stdout=subprocess.PIPE).stdout.decode()


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def repository(name):
    work = os.path.join(HOME, name)
    for each in ("a", "dir/b", "gone", "moved", "sub/c"):
        put(os.path.join(work, each), "base %s\n" % each)
    put(work + "/.gitignore", ".env\nbuild/\n*.forced\n")
    put(work + "/.env", "TOKEN=canary")
    put(work + "/x.forced", "tracked though ignored\n")
    git(work, "init", "-q")
    git(work, "config", "user.name", "t")
    git(work, "config", "user.email", "t@t")
    git(work, "add", "-A")
    git(work, "add", "-f", "x.forced")
    git(work, "commit", "-q", "-m", "base")
    return work


def marks(text, event):
    return re.findall(r"^\[sandbox:%s\] (.*)$" % event, text, re.M)


class Agent:
    def __init__(self, cove, provider, name, **env):
        self.words = {"cove": (), "daytona": ("--provider", "daytona"), "local": ("--provider", "local", "--allow-local")}[provider]
        self.work, self.provider = repository(name), provider
        if provider == "daytona":
            env = dict({"DAYTONA_API_URL": cove.url + "/daytona", "DAYTONA_API_KEY": cove.key}, **env)
        self.cli = c.Cli(cove.data if provider == "cove" else HOME + "/nonesuch", cwd=self.work, HOME=HOME, **env)

    def ok(self, condition, name, *notes):
        return c.ok(condition, "%s: %s" % (self.provider, name), *notes)

    def verb(self, *words, **kw):
        return self.cli(*words[:2], *self.words, *words[2:], **kw)

    def run(self, script, *options):
        return self.verb("agent", "run", *options, "--", "sh", "-c", script)

    def go(self, cove, path):
        """Makes a file that a run waits for."""
        if self.provider == "local":
            put(path, "")
        else:
            cove.run(os.path.basename(path).split("-", 1)[1], "touch " + path)

    def popen(self, script):
        return self.cli.popen("agent", "run", *self.words, "--", "sh", "-c", script)


def begun(child):
    run = None
    while run is None:
        line = child.stderr.readline().decode()
        if not line:
            raise RuntimeError("the run did not begin")
        run = line.split()[1] if line.startswith("[sandbox:session]") else None
    child.stdout.readline()
    return run


def work(cove, agent):
    """What every provider does alike. Returns what is compared between them."""
    at = agent.work
    got = agent.run(WORK + "cat; exit 3")
    back = (read(at, "a"), read(at, "dir/b"), os.path.exists(at + "/gone"), os.path.exists(at + "/moved"), read(at, "new\nname"), os.readlink(at + "/link"),
            os.stat(at + "/dir/b").st_mode & 0o777, read(at, "x.forced"), read(at, ".env"), os.path.exists(at + "/build"))
    seen = {"files": back, "status": got.returncode, "output": got.text,
            "events": [(event, marks(got.err, event)) for event in ("phase", "stderr", "agent_session", "done")]}
    agent.ok(got.returncode == 1 and got.text.endswith("ready\n") and "TOKEN" not in got.text, "R1 R39 a failed agent: 1, its output, its changes", got)
    agent.ok(git(at, "rev-list", "--count", "HEAD").strip() == "1" and marks(got.err, "done") == ["files_changed=4 files_deleted=2"], "R34 what it committed comes back", got.err)
    box = marks(got.err, "id")[0]
    odd = "'; touch /tmp/pwned; '$(id)\n"
    got = agent.verb("agent", "run", "--session", odd, "-e", "GREETING=h i", "--", "sh", "-c", 'printf "%s|" "$@" "$COVE_AGENT_SESSION" "$GREETING"; pwd; git status --porcelain', "sh", odd, "{session}")
    agent.ok(got.text.startswith("|".join([odd, odd, odd, "h i", ""])) and not os.path.exists("/tmp/pwned") and got.text.count("\n") == odd.count("\n") * 3 + 1,
             "R18 R15 words arrive as they are given; git status is clean", got)
    agent.ok(marks(got.err, "id") == [box], "R2 a later run has the same sandbox", got.err)
    put(at + "/a", "host\n")
    os.unlink(at + "/link")
    os.rename(at + "/sub", at + "/sub2")
    got = agent.run("cat a sub2/c; ls -d sub link; head -c 300000 /dev/zero | tr '\\0' x; printf '\\377'")
    agent.ok(got.returncode == 0 and got.text.encode("utf-8", "surrogateescape").count(b"x") >= 300000 and got.text.startswith("host\nbase sub/c\n") and "sub\n" not in got.text[:40],
             "R11 R13 edits, deletions and renames of the host arrive; much output is whole", got.returncode, got.err, got.text[:60])
    child = agent.popen("echo begun; echo box > a; until [ -e /tmp/go-%s ]; do sleep 0.05; done" % box)
    begun(child)
    put(at + "/a", "host2\n")
    agent.go(cove, "/tmp/go-" + box)
    err = child.communicate(timeout=60)[1].decode()
    agent.ok(child.returncode == 2 and marks(err, "conflict") == ["a"] and read(at, "a") == "host2\n", "R38 a conflict: nothing overwritten, 2", child.returncode, err)
    got = agent.verb("sync", "out", "--theirs")
    agent.ok(got.returncode == 0 and read(at, "a") == "box\n", "R37 sync out --theirs", got)
    secret = HOME + "/secret.json"
    put(secret, '{"refresh_token": "r", "key": "canary-s"}')
    got = agent.run("cat .token", "--secret", secret + ":.token")
    agent.ok(json.loads(got.text) == {"refresh_token": "", "key": "canary-s"} and not os.path.lexists(at + "/.token") and "canary-s" not in got.err,
             "R31 R32 5.15 a secret for the run alone", got)
    got = agent.run("echo last words; echo slow > slow; sleep 999 & sleep 999", "--timeout", "1s")
    agent.ok(got.returncode == 124 and got.text == "last words\n" and read(at, "slow") == "slow\n", "R24 124 after --timeout", got)
    child = agent.popen("echo cut > cut; echo go; sleep 999")
    begun(child)
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=60)[1].decode()
    agent.ok(child.returncode == 130 and os.path.exists(at + "/cut") and read(at, "cut") == "cut\n", "R29 130 after ctrl-c, and its changes come back", child.returncode, err)
    child = agent.popen("echo first; until [ -e /tmp/on-%s ]; do sleep 0.05; done; echo second; echo late > late; exit 5" % box)
    run = begun(child)
    child.kill()
    child.communicate()
    state = json.loads(agent.verb("agent", "status", run, "--json").text)
    agent.ok(state["state"] == "running" and state["path"] == at and run in agent.verb("agent", "list").text, "R26 status and list of a run whose caller was killed", state)
    agent.go(cove, "/tmp/on-" + box)
    got = agent.verb("agent", "reconnect", run)
    agent.ok(got.returncode == 1 and got.text == "first\nsecond\n" and read(at, "late") == "late\n", "R26 reconnect: all output, the exit status, the files", got)
    child = agent.popen("echo up; sleep 999")
    run = begun(child)
    got = agent.verb("agent", "stop", run)
    child.communicate(timeout=60)
    agent.ok(got.returncode == 0 and child.returncode == 130, "5.14 130 after stop", got, child.returncode)
    got = agent.verb("sync", "in")
    again = agent.verb("sync", "status")
    agent.ok(got.returncode == 0 and "conflict" not in again.text and again.text.count("0 changed, 0 deleted") == 2, "5.3 in after out: both are equal", got, again)
    setup = HOME + "/setup.sh"
    put(setup, "echo once >> $HOME/setups-%s\n" % box)
    texts = [agent.run("cat $HOME/setups-%s" % box, "--setup", setup).text for _ in range(2)]
    agent.ok(texts == ["once\n"] * 2, "R41 the setup runs once", texts)
    shutil.rmtree(at)
    agent.cli.cwd = HOME
    got = agent.verb("sync", "gc")
    agent.ok(got.returncode == 0 and marks(got.err, "removed") == [box], "R5 gc removes it with its worktree", got)
    return seen


def refused(cove, local):
    os.mkdir(HOME + "/one")
    local.cli.cwd = local.work = HOME + "/one"
    for words, why in ((("--provider", "local"), "--allow-local"), (("--provider", "moon"), "none of cove, daytona and local"),
                       (("--provider", "daytona"), "DAYTONA_API_URL"), ((*local.words, "-t"), "has no -t"), ((*local.words, "--memory", "1g"), "no templates, limits"),
                       ((*local.words, "--file", "/etc/hostname:/tmp/x"), "in the worktree alone")):
        got = local.cli("agent", "run", *words, "--", "true")
        c.ok(got.returncode == 2 and why in got.err and not marks(got.err, "agent_running"), "refused: %s" % " ".join(words), got)
    for url, key, why in (("https://app.example.com/api", "k", "https is not spoken"), (cove.url + "/daytona", "wrong", "not valid"), ("http://127.0.0.1:1/x", "k", "127.0.0.1")):
        got = c.Cli(HOME + "/nonesuch", cwd=local.work, HOME=HOME, DAYTONA_API_URL=url, DAYTONA_API_KEY=key)("agent", "run", "--provider", "daytona", "--", "true")
        c.ok(got.returncode == 2 and why in got.err, "daytona: %s is an error" % why, got)
    c.ok("--provider local --allow-local" in "".join(marks(got.err, "fallback")), "pair 4: a provider that is away names the fallback", got)
    got = c.Cli(HOME + "/nonesuch", cwd=local.work, HOME=HOME, COVE_URL="http://127.0.0.1:1", COVE_TOKEN="x")("agent", "run", "--", "true")
    c.ok(got.returncode == 2 and "--allow-local" in "".join(marks(got.err, "fallback")), "pair 4: so does cove", got)


def main():
    cove = c.Cove()
    try:
        agents = [Agent(cove, provider, provider) for provider in ("cove", "daytona", "local")]
        seen = [work(cove, agent) for agent in agents]
        c.same(seen[1], seen[0], "R1 Daytona's API: the same files, output, events and status as cove")
        c.same(seen[2], seen[0], "R1 local: the same files, output, events and status as cove")
        refused(cove, agents[2])
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
        for name in os.listdir("/tmp"):
            if re.match(r"(go|on)-(wt|box)-", name):
                os.unlink("/tmp/" + name)
    c.done()


main()
