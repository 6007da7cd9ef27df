#!/usr/bin/env python3
"""What the command line says: which sandbox is missing, which option is wrong, one word of a time-out; help that is true, and
words that people bring along from other tools."""
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios

import cove as c

c.need_root()


def missing(cli, cove):
    reply = cove.get("/v1/sandboxes/nobody")
    c.ok(reply.status == 404 and "'nobody'" in reply.json["message"], "the API says which sandbox does not exist", reply.json)
    absent = "box-" + "0" * 48
    reply = cove.post("/v1/sandboxes/%s/api/execute" % absent, {"command": "true"})
    c.ok(absent in reply.json.get("message", reply.json.get("error", "")), "inside of one, too", reply.json)
    for words in (["exec", "nobody", "true"], ["inspect", "nobody"], ["rm", "nobody"], ["stop", "nobody"], ["ls", "nobody:/etc"],
                  ["cat", "nobody:/etc/hosts"], ["ps", "nobody"], ["logs", "nobody"], ["policy", "nobody"], ["egress", "nobody"],
                  ["port", "nobody"], ["expose", "nobody", "80"], ["cp", "nobody:/x", "/tmp/x"], ["pause", "nobody"]):
        got = cli(*words)
        c.ok(got.returncode and "'nobody'" in got.err and "cove ps" in got.err, "'cove %s' names it, and how to see those there are" % words[0], got.err)


def others_missing(cli, cove):
    """Keys, tenants, agent sessions, runs and terminals, as sandboxes."""
    body = {"Content-Type": "application/json"}
    made = cove.post("/v1/agent-sessions", {"user": "u", "session": "s1", "runner": {"argv": ["true"]}}).json.get("id", "")
    box = cove.create()
    for method, path, sent, reason, name in (
            ("GET", "/v1/tenants/nobody", None, "no_tenant", "nobody"), ("DELETE", "/v1/tenants/nobody", None, "no_tenant", "nobody"),
            ("POST", "/v1/keys", {"tenant": "nobody"}, "no_tenant", "nobody"), ("DELETE", "/v1/keys/key-0123456789abcdef", None, "no_key", "key-0123456789abcdef"),
            ("GET", "/v1/agent-sessions/nobody", None, "no_session", "nobody"),
            ("POST", "/v1/agent-sessions/nobody/runs", {"input": "x"}, "no_session", "nobody"),
            ("GET", "/v1/agent-sessions/%s/runs/run_none" % made, None, "no_run", "run_none"),
            ("DELETE", "/v1/sandboxes/%s/api/terminals/none" % box["id"], None, "no_terminal", "none")):
        reply = cove.request(method, path, sent, headers=body)
        said = reply.json.get("message", reply.json.get("error", ""))
        c.ok(reply.status == 404 and reply.json.get("reason") == reason and "'%s'" % name in said,
             "%s %s names what is missing" % (method, re.sub("box-[0-9a-f]+|ses_[0-9a-z]+", "ID", path)), reply.json)
    reply = cove.get("/v1/tenants/no%0abody")
    c.ok(reply.status == 404 and "\n" not in reply.json["message"], "a name that is none is not repeated", reply.json)
    secret = cove.key
    reply = cove.request("DELETE", "/v1/keys/" + secret)
    c.ok(reply.status == 404 and secret not in reply.body.decode(), "nor is a secret that was given instead of a key's id", reply.status)
    for words, word in ((["tenant", "rm", "nobody"], "'nobody'"),
                        (["agent-session", "inspect", "nobody"], "'nobody'")):
        got = cli(*words)
        c.ok(got.returncode and word in got.err, "'cove %s' names it" % " ".join(words[:2]), got.err)
    cove.delete(box)


def paths(cli):
    for verb in "ls", "cat":
        got = cli(verb, "web")
        c.ok(got.returncode == 2 and "path" in got.err and "cove %s web:/" % verb in got.err,
             "'cove %s web' says that it wants a path, and how" % verb, got.err)
    got = cli("ls", "/etc/hosts")
    c.ok(got.returncode == 2 and "BOX:PATH" in got.err, "a path without a sandbox is told apart", got.err)


# An option that the daemon refuses is told by its name here, not by the field of the API.
FIELDS = (
    (["create", "--memory", "1m"], "--memory", "MiB"),
    (["create", "--disk", "1m"], "--disk", "MiB"),
    (["create", "--cpus", "0.001"], "--cpus", ""),
    (["create", "--pids", "1"], "--pids", ""),
    (["create", "--network", "some"], "--network", "off, allow"),
    (["create", "--allow", "no/name"], "--allow", ""),
    (["create", "--ttl", "900h"], "--ttl", "30 days"),
    (["create", "--sleep-after", "900h"], "--sleep-after", "30 days"),
    (["create", "-l", "=x"], "--label", ""),
    (["policy", "web", "--mode", "some"], "--mode", "off, allow"),
    (["run", "--memory", "1m", "true"], "--memory", "MiB"),
)


def options(cli):
    for words, option, more in FIELDS:
        got = cli(*words)
        first = got.err.splitlines()[0] if got.err else ""
        c.ok(got.returncode and option in first and more in first and not re.search(r"limits\.|MB\b|network\.|sleepAfter|'ttl'", got.err),
             "'cove %s' is refused by the option's name" % " ".join(words), got.err)
    got = cli("create", "--name", "web")
    c.ok(got.returncode == 5 and "/v1/" not in got.err, "a hint names a command, not a request", got.err)
    cli("pause", "web")
    got = cli("exec", "web", "true")
    c.ok("cove resume" in got.err and "/v1/" not in got.err, "of a paused sandbox, too", got.err)
    cli("resume", "web")


def time_outs(cli):
    for words in (["exec", "--timeout", "500ms", "web", "sleep", "60"], ["exec", "--timeout", "500ms", "-c", "sleep 60; true", "web"],
                  ["exec", "-i", "--timeout", "500ms", "web", "sleep", "60"], ["run", "--timeout", "500ms", "sleep", "60"]):
        got = cli(*words)
        c.ok(got.returncode == 124 and len(got.err.splitlines()) == 1 and got.err.startswith("cove: ") and "ran out of time" in got.err, "'%s': one message" % " ".join(words), got)
        quiet = cli(words[0], "--quiet", *words[1:])
        c.ok(quiet.returncode == 124 and quiet.err == "", "and none with --quiet", quiet)


def aliases(cli, cove):
    table = cli("ps").text
    c.ok("web" in table and cli("list").text.split()[:5] == table.split()[:5], "'list' is ps")
    c.same(cli("images").text, cli("template", "ls").text, "'images' is template ls")
    c.same(cli("create", "--name", "gone").returncode, 0, "there is one more")
    c.same((cli("delete", "gone").text, cli("inspect", "gone").returncode), ("gone\n", 3), "'delete' is rm")
    for words, want in ((["run", "-p", "80:80", "true"], "cove forward"), (["create", "-p", "80"], "cove expose"), (["create", "--publish=80"], "cove forward"),
                        (["create", "-v", "/a:/b"], "cove cp"), (["lst"], "cove ls")):
        got = cli(*words)
        c.ok(got.returncode in (2, 125) and want in got.err, "'cove %s' points at %s" % (" ".join(words), want), got.err)
    c.ok("Usage: cove ps" in cli("help", "list").text, "help of an alias is that of its verb")


def help_texts(cli):
    whole = cli("help").text
    c.ok("Verbs:" not in whole and all(title + ":" in whole for title in ("Files of a sandbox", "Ports and previews", "Keys, tenants and budgets")),
         "the overview is in groups", whole[:400])
    c.ok("Examples:" in whole and "cove run -- python3" in whole, "and has examples")
    one = cli("help", "cp").text
    c.ok("Examples:" in one and "cove cp src web:/workspace" in one, "a verb has its own", one[-600:])
    made = json.loads(cli("create", "--json").stdout)
    text = " ".join(cli("create", "--help").text.split())
    listed = text.split("Options:", 1)[1]
    limits = made["limits"]
    for option, value in (("--memory", "%dm" % limits["memoryMB"]), ("--disk", "%dg" % (limits["diskMB"] // 1024)), ("--pids", str(limits["pids"])),
                          ("--cpus", "%g" % limits["cpus"]), ("--output", "%dm" % limits["outputMB"]),
                          ("--network", made["network"]["mode"]), ("--template", made["template"])):
        part = listed.split(option + " ", 1)[1].split(" --")[0]
        c.ok("default %s" % value in part, "create --help: %s is %s unless told otherwise" % (option, value), part)
    part = listed.split("--sleep-after ", 1)[1].split(" --")[0]
    c.ok("default 10m" in part and made["sleepAfter"] in ("10m", "600s", 600), "create --help: --sleep-after, too", part, made["sleepAfter"])
    c.ok("daemon stops" not in text and "A restart of the daemon does not end it." in text, "and how long it lives", text[:600])
    statuses = subprocess.run([c.BIN, "help", "--man"], capture_output=True, text=True, env=cli.env).stdout
    c.ok("EXIT STATUS" in statuses and "124" in statuses, "exit statuses are in the manual")
    cli("rm", made["id"])


def numbers(cli, cove):
    """Every event that has a port has it as a number."""
    c.same(cove.request("PATCH", "/v1/sandboxes/web", {"network": {"mode": "allow", "allow": ["allowed.test"]}}).status, 200, "a policy")
    for place in "203.0.113.9:4445", "denied.test":
        cli("exec", "web", "python3", "-c", "import urllib.request\ntry: urllib.request.urlopen('http://%s/', timeout=20)\nexcept Exception as e: print(e)" % place)
    c.same(cove.post("/v1/sandboxes/web/ports", {"port": 8000}).status, 201, "a port is exposed")
    cove.request("DELETE", "/v1/sandboxes/web/ports/8000")
    want = {"port.exposed", "port.unexposed", "security"}
    with_port = lambda: [e for e in cove.get("/v1/events?limit=1000").json["items"] if "port" in e["fields"]]
    c.until(lambda: want <= {e["kind"] for e in with_port()}, 30)
    got = with_port()
    c.ok(want <= {e["kind"] for e in got} and all(type(e["fields"]["port"]) is int for e in got), "port is a number in every event", got)


def widths(cli):
    """The table of egress is as wide as the terminal."""
    for columns in 60, 80, 100, 200:
        lines = cli("egress", "web", COLUMNS=str(columns)).text.splitlines()
        rows = [line for line in lines if re.match(r"(TIME|UTC|\d)", line) and "connections" not in line]
        c.ok(len(rows) > 1 and max(map(len, rows)) <= max(columns, 0), "egress fits %d columns" % columns, rows)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    child = subprocess.Popen([c.BIN, "egress", "web"], env=cli.env, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    out = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
    child.wait(60)
    os.close(master)
    rows = [line for line in out.decode().splitlines() if re.match(r"(UTC|\d\d:)", line)]
    c.ok(len(rows) > 1 and max(map(len, rows)) <= 72, "and that of a terminal without COLUMNS", rows)
    narrow, wide = cli("egress", "--json", "web", COLUMNS="40").text, cli("egress", "--json", "web").text
    c.ok(narrow == wide and len(max(wide.splitlines(), key=len)) > 80, "--json is the same at every width")


def chroots(home):
    root = os.path.join(home, "root")
    os.mkdir(root)
    inside = os.path.join(root, "cove")
    shutil.copy(c.BIN, inside)
    binds = [p for p in ("usr", "lib", "lib64", "bin", "etc", "dev", "proc") if os.path.isdir("/" + p)]
    script = "set -e; mount --make-rprivate /; "
    for name in binds:
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), os.path.join(root, name))
            continue
        os.mkdir(os.path.join(root, name))
        script += "mount --rbind /%s %s/%s; " % (name, root, name)
    os.mkdir(os.path.join(root, "data"))
    for words, status in ((["/cove", "serve", "--data", "/data", "--listen", "127.0.0.1:0"], None), (["/cove", "run", "--data", "/data", "true"], 125)):
        got = subprocess.run(["unshare", "--mount", "--", "sh", "-c", script + "exec chroot %s %s" % (root, " ".join(words))],
                             capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"], "NO_COLOR": "1"})
        c.ok(got.returncode and (status is None or got.returncode == status) and "chroot" in got.stderr and "user namespaces" in got.stderr and
             "pivot_root" in got.stderr, "'%s' in a chroot says what is missing and why" % " ".join(words[:2]), got)
    # Another root by pivot_root is none.
    pivot = script + "mount --rbind %s %s; cd %s; mkdir -p old; pivot_root . old; exec ./cove doctor --data /data" % (root, root, root)
    got = subprocess.run(["unshare", "--mount", "--", "sh", "-c", pivot], capture_output=True, text=True, timeout=120,
                         env={"PATH": os.environ["PATH"], "NO_COLOR": "1"})
    c.ok("FEATURE" in got.stdout and "this is a chroot" not in got.stdout, "a root by pivot_root is not taken for one", got)


def main():
    home = tempfile.mkdtemp(prefix="cove-messages-", dir=os.environ.get("COVE_TEST_DIR"))
    os.chmod(home, 0o711)
    try:
        cove = c.Cove(data=os.path.join(home, "data"))
        cli = c.Cli(cove.data)
        c.same(cli("create", "--name", "web").returncode, 0, "there is a sandbox")
        missing(cli, cove)
        others_missing(cli, cove)
        paths(cli)
        options(cli)
        time_outs(cli)
        aliases(cli, cove)
        help_texts(cli)
        numbers(cli, cove)
        widths(cli)
        c.same(cove.close(), 0, "the daemon ends in peace")
        chroots(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    c.done()


main()
