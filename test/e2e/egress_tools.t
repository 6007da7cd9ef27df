#!/usr/bin/env python3
"""Tools as they are, through a policy that has just the names that they need: requests, git, apt-get, npm, each against a
server of its own kind on the host's side."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from outside import ledger, Outside  # noqa: E402

c.need_root()
HERE = os.path.join(c.ROOT, "test", "registry")
WORK = os.path.join(c.ROOT, "build", "registry")
PORT = 4873
NAMES = ("api.test", "git.test", "deb.test", "npm.test", "elsewhere.test")


def registry(outside):
    """verdaccio with TLS, that knows no other registry."""
    home = os.path.join(outside.home, "registry")
    os.mkdir(home)
    with open(os.path.join(home, "config.yaml"), "w") as file:
        file.write(json.dumps({
            "storage": os.path.join(home, "storage"), "auth": {"htpasswd": {"file": os.path.join(home, "users")}}, "uplinks": {},
            "packages": {"**": {"access": "$all", "publish": "$all"}}, "web": {"enable": False},
            "https": {"key": outside.key, "cert": outside.cert, "ca": outside.ca},
            "log": {"type": "stdout", "format": "pretty", "level": "http"}}))
    outside.start(["node", os.path.join(WORK, "node_modules", "verdaccio", "bin", "verdaccio"), "-c",
                   os.path.join(home, "config.yaml"), "-l", "https://%s:%d" % (outside.address, PORT)],
                  cwd=home, env={"PATH": os.environ["PATH"], "HOME": home})
    return outside.answers(PORT)


def publish(outside):
    """Two packages, one of which needs the other."""
    for name, needs, text in (("cove-lower", {}, "module.exports = 'from below'"),
                              ("cove-upper", {"cove-lower": "^1.0.0"}, "module.exports = 'up ' + require('cove-lower')")):
        tree = os.path.join(outside.home, name)
        os.mkdir(tree)
        with open(os.path.join(tree, "package.json"), "w") as file:
            json.dump({"name": name, "version": "1.0.0", "main": "index.js", "dependencies": needs}, file)
        with open(os.path.join(tree, "index.js"), "w") as file:
            file.write(text)
        url = "%s:%d/" % (outside.address, PORT)
        done = subprocess.run(["npm", "publish", "--registry", "https://" + url, "--//%s:_authToken=x" % url, "--strict-ssl=false"],
                              cwd=tree, capture_output=True, text=True, timeout=60,
                              env={"PATH": os.environ["PATH"], "HOME": outside.home})
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)


def only(cove, box, name, what):
    rows, _ = ledger(cove, box)
    c.ok(rows and {row["name"] for row in rows if row["verdict"] == "allow"} == {name}, what + ": its name is in the ledger, alone", rows)


def box_for(cove, outside, *allow):
    box = cove.create(network={"mode": "allow", "allow": list(allow)}, limits={"memoryMB": 1024})
    return box, outside.trusted(cove, box)


def requests(cove, outside):
    box, env = box_for(cove, outside, "api.test")
    got = cove.run(box, ["/usr/bin/python3", "-c", "import requests\n"
                         "with requests.Session() as s:\n"
                         "    for n in range(3): print(s.post('https://api.test/r%d' % n, data='x' * 5000).text, end='')\n"
                         "print(requests.get('http://api.test/plain').text, end='')"], env=env)
    c.same(got["stdout"], "".join("hello from api.test /%s\n" % w for w in ("r0", "r1", "r2", "plain")), "requests, on a kept connection") or \
        c.note(got["stderr"][-1500:])
    only(cove, box, "api.test", "requests")
    cove.delete(box)


def git(cove, outside):
    outside.repository("project", {"README": "text of the project\n" * 1000})
    box, env = box_for(cove, outside, "git.test")
    got = cove.run(box, "git clone -q https://git.test/git/project.git && cat project/README | md5sum && "
                        "cd project && git fetch origin && git log --oneline | wc -l", env=env)
    c.ok(got["exitCode"] == 0 and got["stdout"].split()[-1] == "1" and "project.git" in
         " ".join(s.path for s in outside.seen), "git clone and fetch over https", got)
    got = cove.run(box, "git clone -q https://elsewhere.test/git/project.git again", env=env)
    c.ok(got["exitCode"] and "resolve" in got["stderr"], "git clone of another name is refused, in git's own words", got)
    only(cove, box, "git.test", "git")
    cove.delete(box)


def apt(cove, outside):
    outside.package("cove-greeting", "/usr/share/cove-greeting/text", "greetings from a package\n")
    box, env = box_for(cove, outside, "deb.test")
    script = """set -e
mkdir -p /etc/apt/sources.list.d /var/lib/apt/lists/partial /var/cache/apt/archives/partial /var/lib/dpkg
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] %s://deb.test/files/debian ./' > /etc/apt/sources.list
echo 'Acquire::https::CAInfo "%s";' > /etc/apt/apt.conf.d/99authority
apt-get -q update
apt-get -q -y --no-install-recommends install cove-greeting
cat /usr/share/cove-greeting/text
"""
    got = cove.run(box, script % ("https", env["SSL_CERT_FILE"]), env=dict(env, DEBIAN_FRONTEND="noninteractive"))
    c.ok(got["stdout"].endswith("greetings from a package\n"), "apt-get update and install over https", got["stdout"][-1500:], got["stderr"][-1500:])
    got = cove.run(box, script % ("http", "none") + "apt-get -q -y remove cove-greeting", env=dict(env, DEBIAN_FRONTEND="noninteractive"))
    c.ok("greetings from a package\n" in got["stdout"] and got["exitCode"] == 0, "and over http", got["stdout"][-1500:], got["stderr"][-1500:])
    only(cove, box, "deb.test", "apt-get")
    cove.delete(box)


def npm(cove, outside):
    # verdaccio-audit asks for node-fetch by a tag, which npm 9.2 refuses without a download address: the lock file has the version there.
    if not c.ok(c.npm_install(HERE, WORK, options=["--omit=optional"]), "the packages of the lock file install"):
        return
    c.ok(registry(outside), "the registry is up")
    publish(outside)
    box, env = box_for(cove, outside, "npm.test:%d" % PORT)
    got = cove.run(box, "echo '{}' > package.json && npm install --no-audit --no-fund --registry https://npm.test:%d/ cove-upper && "
                        "node -p \"require('cove-upper')\"" % PORT, env=env, timeout=90000)
    c.ok(got["stdout"].endswith("up from below\n"), "npm install of a package and what it needs", got["stdout"][-1500:], got["stderr"][-1500:])
    only(cove, box, "npm.test", "npm")
    cove.delete(box)


def main():
    outside = Outside(*NAMES)
    cove = c.Cove(*outside.options())
    try:
        for tool in (requests, git, apt, npm):
            tool(cove, outside)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
        outside.close()
    c.done()


main()
