#!/usr/bin/env python3
"""A real agent of npm, pinned and unmodified, in a sandbox without a network: a stand-in of its model API, inside the sandbox too,
lets it edit two files, delete one and commit. All of it comes back, on pipes and on a terminal."""
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "agent")
WORK = os.path.join(os.path.dirname(c.BIN), "test/agent")
PACKAGE = os.path.join(WORK, "node_modules/@anthropic-ai/claude-code")
AGENT = "/opt/agent"
c.need_root()
c.need_programs("git", "node", "npm", "python3")
HOME = tempfile.mkdtemp(prefix="cove-npm-")
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": HOME, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t",
       "GIT_COMMITTER_EMAIL": "t@t"}


def git(work, *words):
    return subprocess.run(["git", *words], cwd=work, env=dict(os.environ, **GIT), check=True, stdout=subprocess.PIPE).stdout.decode()


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def repository(name):
    work = os.path.join(HOME, name)
    os.makedirs(work + "/dir")
    for each in ("a", "dir/b", "gone"):
        with open(os.path.join(work, each), "w") as file:
            file.write("base\n")
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "base")
    return work


def program():
    room = io.BytesIO()
    with tarfile.open(fileobj=room, mode="w") as archive:
        for name in ("cli.js", "yoga.wasm", "package.json"):
            archive.add(os.path.join(PACKAGE, name), name)
        archive.add(os.path.join(HERE, "model.py"), "model.py")
    return room.getvalue()


def work(cove, way, archive):
    work = repository(way)
    cli = c.Cli(cove.data, cwd=work, HOME=HOME)
    box = json.loads(cli("sync", "in", "--json").text.splitlines()[0])["sandbox"]
    cove.request("PATCH", "/v1/sandboxes/" + box, {"network": {"mode": "off"}})
    cove.run(box, "mkdir -p " + AGENT)
    cove.request("PUT", "/v1/sandboxes/%s/api/tar?path=%s" % (box, AGENT), archive, raw=True)
    cove.run(box, "setsid python3 %s/model.py %s/port >/tmp/model.log 2>&1 </dev/null & until [ -e %s/port ]; do sleep 0.05; done" % (AGENT, AGENT, AGENT))
    port = cove.run(box, "cat %s/port" % AGENT)["stdout"]
    env = ["ANTHROPIC_BASE_URL=http://127.0.0.1:" + port, "ANTHROPIC_API_KEY=canary-key", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"]
    words = [word for each in env for word in ("-e", each)]
    got = cli("agent", "run", *words, *(("-t",) if way == "terminal" else ()), "--", "node", AGENT + "/cli.js", "-p", "'; do it $(id)", "--verbose", "--output-format", "stream-json",
              "--allowedTools", "Bash")
    text = got.text.replace("\r", "")
    c.ok(got.returncode == 0 and "the work is done" in text, "R1 %s: the agent works, and ends with 0" % way, got, cove.run(box, "cat /tmp/model.log")["stdout"][-1500:])
    c.ok((read(work, "a"), read(work, "dir/b"), os.path.exists(work + "/gone")) == ("base\none\n", "two\n", False),
         "R34 %s: two edited files and a deleted one come back, though it committed them" % way, git(work, "status", "--porcelain"))
    c.ok(cove.run(box, "git -C /workspace log -1 --format=%s")["stdout"] == "work\n" and git(work, "rev-list", "--count", "HEAD") == "1\n", "%s: the commit stays inside" % way)
    if way == "pipes":
        own = re.findall(r"^\[sandbox:agent_session\] (\S+)$", got.err, re.M)
        c.ok(len(own) == 1 and '"session_id":"%s"' % own[0] in text, "R27 the id of its session is told", got.err)
        c.ok("files_changed=2 files_deleted=1" in got.err, "R39 the counts are exact", got.err)


def main():
    if not c.ok(c.npm_install(HERE, WORK, options=("--omit=optional",)), "the packages of the lock file are installed"):
        return c.done()
    cove = c.Cove()
    try:
        archive = program()
        for way in ("pipes", "terminal"):
            work(cove, way, archive)
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
