#!/usr/bin/env python3
"""cove agent serve: Thor's route /exec/sandbox-coder (5.13), with requests as Thor's remote-cli sends them."""
import http.client
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
HOME = tempfile.mkdtemp(prefix="cove-serve-")
ROUTE = "/exec/sandbox-coder"
AGENT = ("sh", "-c", "printf '%s|' \"$@\" \"$COVE_AGENT_PROMPT\"; echo; echo '{\"sessionID\":\"ses_1\"}'; echo seen >&2; echo done >> made; printf '\\303\\251'; "
         "[ \"$1\" != fail ] || exit 7; [ \"$1\" != slow ] || sleep 3", "agent", "{prompt}", "{session}")


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


class Server:
    def __init__(self, cove, *words):
        self.child = c.Cli(cove.data, HOME=HOME).popen("agent", "serve", "--listen", "127.0.0.1:0", *words)
        self.url = self.child.stdout.readline().decode().strip()
        self.port = int(self.url.rsplit(":", 1)[1].split("/")[0]) if self.url else 0

    def open(self, body, method="POST", path=ROUTE, raw=False, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body if raw else json.dumps(body), dict({"Content-Type": "application/json"}, **headers))
        return connection, connection.getresponse()

    def ask(self, body, **kw):
        """Status, objects of the answer."""
        connection, reply = self.open(body, **kw)
        lines = [json.loads(line) for line in reply.read().decode().splitlines() if line]
        connection.close()
        return reply.status, lines


def text(lines, stream):
    return "".join(line["data"] for line in lines if line.get("stream") == stream)


def main():
    cove = c.Cove()
    servers = []
    try:
        work, out = os.path.join(HOME, "roots/one"), os.path.join(HOME, "other")
        put(work + "/a", "base\n")
        put(work + "/sub/b", "base\n")
        os.mkdir(work + "/.git")
        put(out + "/a", "base\n")
        os.symlink(out, HOME + "/roots/link")
        server = Server(cove, "--root", HOME + "/roots", "--", *AGENT)
        servers.append(server)
        odd = "fix '; touch /tmp/pwned; '$(id) \"it\""
        status, lines = server.ask({"args": [odd, "now"], "cwd": work})
        err = text(lines, "stderr")
        c.ok(status == 200 and text(lines, "stdout").startswith("%s now|{session}|%s now|\n" % (odd, odd)), "the args are the prompt, verbatim", lines)
        c.ok(lines[-1] == {"exitCode": 0} and text(lines, "stdout").endswith("é") and os.path.exists(work + "/made"), "the last line is the exit code, and the changes are back", lines)
        marks = ["[sandbox:phase] sandbox_create", "[sandbox:id] box-", "[sandbox:session] run-", "[sandbox:phase] agent_running", "[sandbox:stderr] seen",
                 "[sandbox:agent_session] ses_1", "[sandbox:opencode_session] ses_1", "[sandbox:phase] sync_out", "[sandbox:done] files_changed=1 files_deleted=0"]
        c.ok(all("\n" + mark in "\n" + err for mark in marks), "5.13 events are lines of stderr, with both session markers", err)
        box = err.split("[sandbox:id] ")[1].split()[0]
        run = err.split("[sandbox:session] ")[1].split()[0]
        status, lines = server.ask({"args": ["--session", "s 1", "go"], "cwd": work + "/sub"})
        c.ok(text(lines, "stdout").startswith("go|s 1|go|\n") and box in text(lines, "stderr") and os.path.exists(work + "/sub/made"), "R7 R27 --session continues one, from a subdirectory", lines)
        status, lines = server.ask({"args": ["fail"], "cwd": work})
        c.ok(lines[-1] == {"exitCode": 1}, "an agent that failed: 1", lines)
        status, lines = server.ask({"args": ["--reconnect", run], "cwd": work})
        c.ok(lines[-1] == {"exitCode": 0} and odd in text(lines, "stdout"), "--reconnect shows a run again", lines)
        cove.run(box, "echo pulled > /workspace/pulled")
        status, lines = server.ask({"args": ["--pull", box], "cwd": work})
        c.ok(lines[-1] == {"exitCode": 0} and os.path.exists(work + "/pulled"), "--pull brings the files", lines)
        connection, reply = server.open({"args": ["slow"], "cwd": work})
        while "agent_running" not in reply.readline().decode():
            pass
        connection.close()
        reply.close()
        before = open(work + "/made").read().count("done")
        c.ok(c.until(lambda: open(work + "/made").read().count("done") > before, 60), "R26 a caller that goes away ends nothing: its changes come back")
        count = len(cove.get("/v1/sandboxes").json["items"])
        for name, cwd in (("outside", out), ("a link out", HOME + "/roots/link"), ("..", work + "/../../other"), ("the root directory", "/"), ("relative", "one"), ("missing", work + "/nonesuch")):
            status, lines = server.ask({"args": ["x"], "cwd": cwd})
            c.ok(status == 400 and lines[0]["exitCode"] == 2 and lines[0]["stderr"] and lines[0]["stdout"] == "", "R8 cwd %s: 400" % name, status, lines)
        for body in ({"args": [], "cwd": work}, {"args": "x", "cwd": work}, {"args": [1], "cwd": work}, {"cwd": work}, {"args": ["x"]}, [], {"args": ["--reconnect"], "cwd": work},
                     {"args": ["--pull", "--force"], "cwd": work}, {"args": ["x" * 70000], "cwd": work}, {"args": ["a\0b"], "cwd": work}):
            status, lines = server.ask(body)
            c.ok(status == 400 and lines[0]["exitCode"] == 2, "400 for %s" % json.dumps(body).replace(HOME, "~")[:60], status, lines)
        c.same(server.ask("{", raw=True)[0], 400, "400 for what is no JSON")
        c.same(server.ask("x" * (1 << 20 | 1), raw=True)[0], 413, "413 for a body above 1 MiB")
        c.same(len(cove.get("/v1/sandboxes").json["items"]), count, "none of them made a sandbox")
        for headers, want in (({"Host": "evil.example:%d" % server.port}, 403), ({"Host": "localhost:1"}, 403), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
                              ({"Origin": "http://localhost:%d" % (server.port + 1)}, 403), ({"Host": "localhost:%d" % server.port, "Origin": "http://localhost:%d" % server.port}, 400)):
            got = server.ask({"args": ["x"], "cwd": "x"}, **headers)
            c.ok(got[0] == want, "5.13 %s: %d" % (json.dumps(headers), want), got)
        c.ok(server.ask({}, path="/exec/git")[0] == 404 and server.ask({}, method="PUT")[0] == 405 and server.ask({}, method="GET", path="/health")[0] == 200, "other routes")
        cli = c.Cli(cove.data, HOME=HOME)
        for words in (("--", "true"), ("--root", "/nonesuch", "--", "true"), ("--root", work), ("--root", work, "--listen", "0.0.0.0:0", "--", "true"),
                      ("--root", work, "--agent", "claude", "--", "true")):
            c.ok(cli("agent", "serve", *words).returncode in (2, 4), "refused: agent serve %s" % " ".join(words).replace(HOME, "~"))
        put(HOME + "/.config/cove/agents.conf", "[agent mine]\nargv = sh -c echo.$0 {prompt}\n")
        put(HOME + "/setup.sh", "echo set > /root/set\n")
        named = Server(cove, "--root", HOME + "/roots", "--agent", "mine", "--setup", HOME + "/setup.sh", "--timeout", "20s")
        servers.append(named)
        status, lines = named.ask({"args": ["hello"], "cwd": work})
        c.ok("[sandbox:phase] setup" in text(lines, "stderr") and "{\"exitCode\"" not in text(lines, "stdout") and lines[-1] == {"exitCode": 1}, "options and agents of the configuration hold for each run", lines)
        named.child.terminate()
        c.ok(named.child.wait(20) is not None and not named.child.stderr.read().decode().startswith("Trace"), "it ends by a signal", named.child.returncode)
    finally:
        for server in servers:
            server.child.kill()
            server.child.wait()
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
