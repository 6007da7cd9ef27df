#!/usr/bin/env python3
"""What a run of 'cove agent' gets besides its worktree: secrets, files, a preview, a snapshot, an identity for commits; and the
output from an offset. Rows are named by the requirement that they prove."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("git")
HOME = tempfile.mkdtemp(prefix="cove-files-")
BOX = "/v1/sandboxes/"
CANARY = "canary-1f9e"


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


class Agent:
    def __init__(self, cove, name, **env):
        self.cove, self.work = cove, os.path.join(HOME, name)
        put(self.work + "/a", "base\n")
        put(self.work + "/.gitignore", ".env\n")
        self.cli = c.Cli(cove.data, cwd=self.work, HOME=HOME, **env)

    def run(self, script, *options, **kw):
        return self.cli("agent", "run", *options, "--", "sh", "-c", script, **kw)

    def begun(self, script, *options):
        """A run whose caller is killed once the script has printed a line: its sandbox and its id."""
        child = self.cli.popen("agent", "run", "--json", *options, "--", "sh", "-c", script)
        box = run = None
        for line in child.stdout:
            event = json.loads(line)
            box, run = event.get("sandbox", box), event.get("run", run)
            if event.get("stream"):
                break
        child.kill()
        child.communicate()
        return box, run


def marks(got, event):
    return re.findall(r"^\[sandbox:%s\] (.*)$" % event, got.err, re.M)


def found_on_host(cove, text):
    """Files of cove's data directory that have the text: disks of sandboxes, snapshots, the database, logs."""
    done = subprocess.run(["grep", "-rlaF", "--", text, cove.data], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.decode().split() + (["log"] if text in cove.log_text() else [])


def secrets(cove):
    agent = Agent(cove, "secrets")
    auth = os.path.join(HOME, "auth.json")
    words = ("--secret", auth + ":/root/.local/share/agent/auth.json", "--secret", auth + ":sub/auth.json", "--secret", HOME + "/token:.env")
    shown = "stat -Lc '%a %U' /root/.local/share/agent/auth.json; df --output=fstype /root/.local/share/agent/auth.json | tail -1; cat sub/auth.json .env"
    put(HOME + "/token", "T=" + CANARY)
    for number in (1, 2):
        put(auth, json.dumps({"a": {"access": CANARY + str(number), "refreshToken": "r", "LAST_REFRESH": 17, "list": [{"xRefreshx": {"y": "z"}}]}}))
        got = agent.run(shown, *words)
        lines = got.text.split("\n", 2)
        c.ok(got.returncode == 0 and lines[:2] == ["600 root", "tmpfs"] and lines[2].endswith("T=" + CANARY), "R31 a secret is there, mode 0600, in memory", got)
        secret = json.loads(lines[2][:-len("T=" + CANARY)]) if got.returncode == 0 else None
        c.same(secret, {"a": {"access": CANARY + str(number), "refreshToken": "", "LAST_REFRESH": 0, "list": [{"xRefreshx": {"y": ""}}]}},
               "R31 R32 fresh before each run, and what renews tokens is empty")
        c.ok(sorted(os.listdir(agent.work)) == [".gitignore", "a"] and marks(got, "done") == ["files_changed=0 files_deleted=0"], "5.15 and never comes back", got.err)
    box = marks(got, "id")[0]
    c.same(cove.run(box, "ls /root/.local/share/agent sub 2>/dev/null; ls -A /dev/shm; ls -A /workspace | grep env")["stdout"].split(), ["/root/.local/share/agent:", "sub:"],
           "R31 it is removed at the end")
    put(auth, json.dumps({"access": CANARY + "3"}))
    box, run = agent.begun("cat sub/auth.json > copied; rm sub/auth.json; echo mine > sub/auth.json; cat .env > /dev/null; echo go; sleep 999", *words)
    c.ok(cove.post(BOX + box + "/snapshot", {"name": "with-secret"}).status in (200, 201), "a snapshot during a run", cove.get("/v1/templates").json)
    listing = cove.run(box, "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '")["stdout"]
    agent.cli("sync", "out")
    c.ok(read(agent.work, "copied") and not os.path.exists(agent.work + "/.env"), "what a program copies is its own")
    agent.cli("agent", "stop", run)
    c.ok(cove.run(box, "ls -A /dev/shm; ls /workspace/sub")["stdout"] == "", "R31 agent stop removes them, also one that was replaced")
    cove.run(box, "rm -f /workspace/copied; sync")
    os.unlink(agent.work + "/copied")
    shutil.rmtree(agent.work + "/sub", ignore_errors=True)
    hits = [f for f in found_on_host(cove, CANARY + "3")]
    shots = cove.create(template="with-secret")["id"]
    c.ok(cove.run(shots, "cat /root/.local/share/agent/auth.json")["exitCode"] != 0, "R31 a snapshot has no secret")
    c.ok(CANARY not in listing and not [f for f in hits if "cove.db" in f or f == "log" or "tapes" in f], "R33 it is in no argument, variable, log, record or event", hits, listing[:2000])
    cove.delete(shots)
    for text, why in (("{\"refresh\": 1,}", "cannot be read as JSON"), ("nothing", "cannot be read as JSON")):
        put(auth, text + CANARY)
        got = agent.run("true", "--secret", auth + ":/root/x")
        c.ok(got.returncode == 2 and why in got.err and CANARY not in got.err, "R32 a secret that cannot be judged is refused", got)
    for word in (auth + ":a", auth + ":../x", auth + ":/workspace/.git/config", auth + ":", ":x", "/nonesuch:/root/x", auth + ":/root/../x"):
        got = agent.run("true", "--secret", word)
        c.ok(got.returncode == 2 and CANARY not in got.err, "--secret %s is refused" % word.replace(HOME, "~"), got)
    c.same(read(agent.work, "a"), "base\n", "and the worktree is as it was")
    got = agent.run("cat .env; cat /root/plain", "--file", HOME + "/token:/workspace/.env", "--file", HOME + "/token:/root/plain")
    c.ok(got.text == 2 * ("T=" + CANARY) and not os.path.exists(agent.work + "/.env"), "5.15 a file of --file within the worktree does not come back", got)
    return agent


def offsets(cove, agent):
    box, run = agent.begun("echo 0123456789; echo err >&2; echo more; exit 3")
    whole = agent.cli("agent", "reconnect", run)
    got = agent.cli("agent", "reconnect", run, "--offset", "4")
    c.ok(whole.text == "0123456789\nmore\n" and got.text == whole.text[4:] and got.returncode == 1, "R26 reconnect --offset goes on from there", whole, got)
    got = agent.cli("agent", "reconnect", run, "--offset", "11", "--json")
    lines = [json.loads(line) for line in got.text.splitlines()]
    c.ok("".join(x["data"] for x in lines if x.get("stream") == "stdout") == "more\n" and lines[-1] == {"exitCode": 3}, "also with --json", lines)
    c.ok(agent.cli("agent", "reconnect", run, "--offset", "x").returncode == 2, "an offset is a number")
    got = agent.cli("agent", "run", "--json", "--", "sh", "-c", "printf '\\303'; sleep 0.3; printf '\\251\\n'; printf '\\377'")
    lines = [json.loads(line) for line in got.text.splitlines()]
    text = [(x["data"], x.get("encoding")) for x in lines if x.get("stream") == "stdout"]
    c.ok("".join(data for data, how in text if not how) == "é\n" or text == [("w6kK/w==", "base64")], "R21 a character is never split", text)
    runs = [r["id"] for r in cove.get("/v1/agent-runs").json["items"]]
    c.ok(run in runs, "the run is one of /v1/agent-runs", runs)
    run = agent.cli.popen("agent", "run", "-t", "--", "sh", "-c", "echo ready; sleep 999")
    line = ""
    while not line.startswith("[sandbox:session]"):
        line = run.stderr.readline().decode()
    name = line.split()[1]
    c.until(lambda: name in agent.cli("agent", "list").text, 30)
    got = agent.cli("agent", "stop", name)
    run.communicate(timeout=60)
    c.ok(got.returncode == 0 and run.returncode in (1, 130), "agent stop ends a run on a terminal", got, run.returncode)


def preview(cove):
    agent = Agent(cove, "preview")
    child = agent.cli.popen("agent", "run", "--preview", "3000", "--", "sh", "-c", "cd /workspace; echo hello > page; exec python3 -m http.server 3000 --bind 0.0.0.0")
    url = box = None
    while not url:
        line = child.stderr.readline().decode()
        box = line.split()[1] if line.startswith("[sandbox:id]") else box
        url = line.split()[2] if line.startswith("[sandbox:preview] 3000 ") else None

    def fetch(url):
        try:
            return urllib.request.urlopen(url + ("" if url.endswith("/") else "/") + "page", timeout=10).read()
        except urllib.error.HTTPError as error:
            return error.code
        except OSError as error:
            return str(error)
    port = [p for p in cove.get(BOX + box + "/ports").json["items"] if p["port"] == 3000][0]
    ours = port["pathUrl"]
    c.ok(c.until(lambda: fetch(ours) == b"hello\n", 30), "R42 --preview: the address works", url, fetch(ours), port)
    c.ok(port["expiresAt"] and port["url"] == url, "R42 it expires, and is the one that is told", port, url)
    c.ok(fetch(re.sub(r"(3000-[^./]+?)-[a-z0-9_]+([./])", r"\1-wrongtoken00000\2", ours)) != b"hello\n", "R42 and needs its token", ours)
    child.send_signal(2)
    out, err = child.communicate(timeout=60)
    c.ok(child.returncode == 130 and b"nothing listens on port 3000" in err, "pair 18: a port without a listener is told", child.returncode, err)
    cove.post(BOX + box + "/stop")
    c.ok(fetch(ours) in (404, 410), "R42 pair 19: it is dead when the sandbox stops", fetch(ours))
    c.ok(agent.run("true", "--preview", "70000").returncode == 2, "a port is a port")


def snapshots(cove):
    agent = Agent(cove, "warm")
    base = cove.create()["id"]
    cove.run(base, "echo warm > /root/warm")
    c.ok(cove.post(BOX + base + "/snapshot", {"name": "warm"}).status in (200, 201), "a snapshot is made")
    cove.delete(base)
    got = agent.run("cat /root/warm", "--snapshot", "warm")
    c.ok(got.text == "warm\n" and not marks(got, "no_snapshot"), "R40 a run begins from a snapshot", got)
    box = marks(got, "id")[0]
    cove.delete(box)
    cove.request("DELETE", "/v1/templates/warm")
    got = agent.run("cat /root/warm; echo on", "--snapshot", "warm")
    c.ok(got.returncode == 0 and got.text == "on\n" and marks(got, "no_snapshot") == ["warm"], "R40 pair 11: from the base when it is gone, which is told", got)
    got = agent.run("true", "--template", "nonesuch", "--worktree", Agent(cove, "wrong").work)
    c.ok(got.returncode == 2 and "nonesuch" in got.err and not marks(got, "id"), "pair 3: a template that is not there fails at once", got)


def identity(cove):
    put(HOME + "/.gitconfig", "[user]\n\tname = Ada L\n\temail = ada@example.org\n[credential]\n\thelper = " + CANARY + "\n")
    agent = Agent(cove, "identity")
    got = agent.run("echo x > x; git add -A; git commit -q -m x; git log -1 --format='%%an %%ae'; grep -r %s .git/config" % CANARY)
    c.same(got.text, "Ada L ada@example.org\n", "the agent commits as we would, and gets nothing else of the configuration")
    os.unlink(HOME + "/.gitconfig")
    put(HOME + "/.config/cove/agents.conf", "[agent]\nroots = %s/identity:/nonesuch\n" % HOME)
    other = Agent(cove, "elsewhere")
    got = other.run("true")
    c.ok(agent.run("true").returncode == 0 and got.returncode == 2 and "allowed root" in got.err and not marks(got, "id"), "R8 roots of the configuration", got)
    os.unlink(HOME + "/.config/cove/agents.conf")
    got = agent.run("echo theirs > a; echo go >&2; sleep 1", "--theirs", "--ours")
    c.ok(got.returncode == 2 and "exclude each other" in got.err, "--ours and --theirs exclude each other", got)
    for option, want in (("--theirs", "theirs\n"), ("--ours", "host\n")):
        child = agent.cli.popen("agent", "run", option, "--", "sh", "-c", "echo begun; echo theirs > a; sleep 1")
        child.stdout.read(6)
        put(agent.work + "/a", "host\n")
        child.communicate()
        c.ok(child.returncode == 0 and read(agent.work, "a") == want, "R38 agent run %s" % option, child.returncode, read(agent.work, "a"))


def other_user(cove):
    work = Agent(cove, "user").work
    box = cove.request("POST", "/v1/sandboxes", {"name": "usr", "user": "1234", "workdir": "/srv"}).json["id"]
    cli = c.Cli(cove.data, cwd=work, HOME=HOME)
    got = cli("sync", "in", "--sandbox", "usr")
    ran = cove.run(box, "cd /workspace && echo more >> a && echo n > n && id -u")
    c.ok(got.returncode == 0 and ran["stdout"] == "1234\n", "a sandbox whose user is not root takes a worktree", got, ran)
    got = cli("sync", "out", "--sandbox", "usr")
    c.ok(got.returncode == 0 and read(work, "a") == "base\nmore\n" and read(work, "n") == "n\n", "and gives it back", got)


def main():
    cove = c.Cove()
    try:
        agent = secrets(cove)
        offsets(cove, agent)
        preview(cove)
        snapshots(cove)
        identity(cove)
        other_user(cove)
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
