#!/usr/bin/env python3
"""What a sandbox may reach is a policy: changed live and as a whole, each verdict in a ledger that is shown, streamed
and nobody else's, and each denial with the command that would allow it."""
import errno
import http.server
import json
import os
import shlex
import signal
import socketserver
import subprocess
import threading
import time

import cove as c

c.need_root()

SECRET = "s3cr3t-of-the-test"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = []

    def do_GET(self):
        Handler.seen.append((self.command, self.headers["Host"], self.path, str(self.headers)))
        body = b"served " + self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_GET

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


ASK = """
import sys, urllib.request, urllib.error
try:
    r = urllib.request.urlopen(urllib.request.Request(sys.argv[1], method=sys.argv[2]), timeout=20)
    print(r.status, r.read().decode())
except urllib.error.HTTPError as e:
    print(e.code, e.headers.get("X-Cove-Reason"), e.read().decode())
except Exception as e:
    print("failed", e)
"""


def ask(cove, box, url, method="GET"):
    return cove.out(box, ["python3", "-c", ASK, url, method])


def ledger(cove, box, query="", **kw):
    return cove.get("/v1/sandboxes/%s/egress?limit=1000&%s" % (box["id"], query), **kw).json


def cli(cove, *args, env=None, **kw):
    return subprocess.run([cove.binary, *args, "--data", cove.data], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, **(env or {})), **kw)


def patch(cove, box, **fields):
    return cove.request("PATCH", "/v1/sandboxes/" + box["id"], fields)


def verdicts(cove, box, port):
    good = "http://good.test:%d/" % port
    c.same(box["network"], {"mode": "allow", "allow": ["good.test:%d" % port]}, "a create answers with its policy")
    c.ok("200 served /a" in ask(cove, box, good + "a"), "an allowed host is reached", ask(cove, box, good + "a"))
    page = ledger(cove, box)
    row = page["items"][0]
    c.same((row["id"], row["name"], row["port"], row["verdict"], row["rule"], row["address"], row["requests"]),
           (1, "good.test", port, "allow", "good.test:%d" % port, "127.0.0.1", 1), "and is in the ledger, with the rule that let it")
    c.ok(row["bytesOut"] > 30 and row["bytesIn"] > 30 and row["reason"] is None and "hint" not in row, "with what was moved", row)
    c.ok(page["totals"]["connections"] >= 1 and page["totals"]["denied"] == 0 and page["totals"]["counted"] == "requests", "and in the totals", page["totals"])

    c.ok("failed" in ask(cove, box, "http://other.test:%d/" % port), "a name that is not allowed does not exist")
    told = cove.out(box, ["python3", "-c", ASK, "http://203.0.113.9:%d/" % port, "GET"])
    c.ok(told.startswith("403 not_allowed") and "to allow it: cove policy" in told, "an address neither: the client reads why", told)
    denied = ledger(cove, box, "verdict=deny")["items"]
    c.ok(denied and all(one["verdict"] == "deny" for one in denied), "the ledger can be asked for denials alone", denied)
    c.same(denied[0]["name"], "other.test", "the name that was asked for is among them")
    c.same(denied[0]["hint"], "cove policy %s --allow other.test" % box["id"], "with the command that would allow it")
    c.same(denied[-1]["hint"], "cove policy %s --allow 203.0.113.9:%d" % (box["id"], port), "also of an address")
    c.same([one["id"] for one in ledger(cove, box)["items"]], list(range(1, ledger(cove, box)["last"] + 1)), "rows are numbered without a gap")
    first = cove.get("/v1/sandboxes/%s/egress?limit=1" % box["id"]).json
    c.ok(first["cursor"] == "1" and cove.get("/v1/sandboxes/%s/egress?limit=1&cursor=1" % box["id"]).json["items"][0]["id"] == 2,
         "and come in pages", first)
    c.same(cove.get("/v1/sandboxes/%s/egress?verdict=maybe" % box["id"]).status, 400, "a verdict that there is not is refused")
    events = cove.get("/v1/events?kind=security&sandbox=%s&limit=1000" % box["id"]).json["items"]
    c.ok(any(one["fields"].get("event") == "egress_denied" and one["fields"].get("name") == "other.test" for one in events),
         "a denial is a security event", events)


def by_hand(cove, box, port):
    """The command line: what it shows, and that its hints are true."""
    shown = cli(cove, "egress", box["id"])
    c.ok(shown.returncode == 0 and "good.test:%d" % port in shown.stdout and "to allow it: cove policy" in shown.stdout and
         "denied" in shown.stdout.splitlines()[-1], "cove egress shows it", shown.stdout, shown.stderr)
    rows = [json.loads(line) for line in cli(cove, "egress", box["id"], "--denied", "--json").stdout.splitlines()]
    c.ok(rows and all(row["verdict"] == "deny" for row in rows), "as lines of JSON, too", rows)
    shown = cli(cove, "policy", box["id"])
    c.same(shown.stdout.split(), ["mode", "allow", "allow", "good.test:%d" % port], "cove policy shows what is allowed")
    follower = subprocess.Popen([cove.binary, "egress", box["id"], "-f", "--denied", "--json", "--data", cove.data], stdout=subprocess.PIPE, text=True)
    for _ in rows:
        follower.stdout.readline()

    other = "http://other.test:%d/" % port
    hint = shlex.split(rows[0]["hint"])
    c.same(cli(cove, *hint[1:]).returncode, 0, "the command of a hint can be given")
    told = ask(cove, box, other)
    c.ok(told.startswith("403 port_not_allowed"), "then the name is there, but not on this port", told)
    row = json.loads(follower.stdout.readline())
    c.same((row["name"], row["reason"]), ("other.test", "port_not_allowed"), "which cove egress -f tells at once")
    done = cli(cove, *shlex.split(row["hint"])[1:], "--json")
    c.same(json.loads(done.stdout)["allow"], ["good.test:%d" % port, "other.test", "other.test:%d" % port], "and after that hint")
    told = ask(cove, box, other + "b")
    c.ok("200 served /b" in told, "the change works in a running sandbox", told)

    done = cli(cove, "policy", box["id"], "--rule", "GET other.test/ok*")
    c.ok(done.returncode == 0 and "rule     other.test GET /ok*" in done.stdout, "a rule binds requests to a name", done.stdout, done.stderr)
    c.ok("200 served /ok1" in ask(cove, box, other + "ok1"), "an allowed request passes, without TLS as well")
    c.ok(ask(cove, box, other + "no").startswith("403 path_not_allowed"), "another path does not")
    c.ok(ask(cove, box, other + "ok", "PUT").startswith("403 method_not_allowed"), "nor another method")
    sent = cove.out(box, "exec 3<>/dev/tcp/other.test/%d; printf 'SSH-2.0-x\\r\\n' >&3; timeout 20 cat <&3; echo over" % port)
    c.same((sent, ledger(cove, box)["items"][-1]["reason"]), ("over\n", "not_inspected"), "nor what shows no request")
    c.same(Handler.seen[-1][2], "/ok1", "and none of them arrived")

    done = cli(cove, "policy", box["id"], "--budget", "requests=0", "--secret", "TOKEN@good.test", env={"TOKEN": SECRET})
    c.ok(done.returncode == 0 and "secret   TOKEN for good.test" in done.stdout and "requests 0" in done.stdout, "budgets and secrets", done.stdout, done.stderr)
    c.ok(ask(cove, box, "http://good.test:%d/" % port).startswith("429 budget_requests"), "a budget that is used up refuses")
    done = cli(cove, "policy", box["id"], "--budget", "requests=none", "--deny", "other.test")
    c.ok(done.returncode == 0 and "other.test" not in done.stdout and "TOKEN" in done.stdout, "and all of it can be taken back", done.stdout, done.stderr)
    c.ok("failed" in ask(cove, box, other), "a name that was taken out is gone")
    c.same(cli(cove, "policy", box["id"], "--deny", "nobody.test").returncode, 3, "an absent entry cannot be removed")
    shown = cove.get("/v1/sandboxes/" + box["id"])
    c.ok(SECRET.encode() not in shown.body and shown.json["network"]["secrets"] == [{"name": "TOKEN", "hosts": ["good.test"]}],
         "a secret's value is never shown", shown)
    c.ok(SECRET not in cove.out(box, "env") and "TOKEN=cove-secret-" in cove.out(box, "env"), "nor in the sandbox, which has a placeholder")
    return follower


def atomic(cove, box, port):
    before = cove.get("/v1/sandboxes/" + box["id"]).json
    bad = patch(cove, box, labels={"new": "label"}, network={"mode": "allow", "allow": ["fine.test", "not a name"]})
    now = cove.get("/v1/sandboxes/" + box["id"]).json
    c.same((bad.status, bad.json["reason"], now["network"], now["labels"]), (400, "bad_field", before["network"], before["labels"]),
           "a PATCH holds as a whole, or nothing of it does")
    wider = patch(cove, box, network={"mode": "allow", "allow": ["good.test:%d" % port], "secrets": [{"name": "TOKEN", "hosts": ["good.test", "evil.test"]}]})
    c.same((wider.status, wider.json["reason"]), (400, "secret_without_value"), "a secret goes to no other host without its value")
    fine = patch(cove, box, network={"mode": "off"})
    c.same((fine.status, fine.json["network"]), (200, {"mode": "off"}), "a policy is replaced as a whole")
    c.ok("failed" in ask(cove, box, "http://good.test:%d/" % port), "off lets nothing out")
    patch(cove, box, network={"mode": "allow", "allow": ["good.test:%d" % port]})
    told = ask(cove, box, "http://good.test:%d/again" % port)
    c.ok("200 served /again" in told, "and a network that was off can be opened", told)


def others(cove, box):
    """The ledger is its owner's, and the operator's."""
    for name in ("acme", "evil"):
        cove.request("PUT", "/v1/tenants/" + name, {"host": True})
    keys = {name: cove.post("/v1/keys", {"tenant": name}).json["key"] for name in ("acme", "evil")}
    own = cove.post("/v1/sandboxes", {"name": "own", "network": {"mode": "allow"}}, key=keys["acme"]).json
    path = "/v1/sandboxes/%s/egress" % own["id"]
    c.same([cove.get(path, key=keys[name]).status for name in ("acme", "evil")], [200, 404], "another tenant's ledger is not there")
    missing = cove.get("/v1/sandboxes/%s/egress" % ("box-" + "0" * 48), key=keys["evil"])
    strange = cove.get(path, key=keys["evil"])
    same = ("code", "message", "reason", "hint", "httpStatus")
    want = [str(missing.json[key]).replace("box-" + "0" * 48, own["id"]) for key in same]
    c.same([str(strange.json[key]) for key in same], want, "in the words for one that never was")
    c.same(cove.get(path, key=keys["evil"], headers={"Accept": "text/event-stream"}).status, 404, "as a stream neither")
    c.same(cove.get("/v1/sandboxes/own/egress", key=keys["evil"]).status, 404, "nor by its name")
    cove.request("PUT", "/v1/tenants/evil", {"host": True, "network": "allow"})
    asked = cove.post("/v1/sandboxes", {"network": {"mode": "all"}}, key=keys["evil"])
    c.same((asked.status, asked.json.get("reason")), (403, "network_not_allowed"), "a tenant gets no more than it may have")
    cove.delete(own)


def without_warden(cove, port):
    """A policy is in force when PATCH answers; the order to the warden may take another try."""
    box = cove.create(network={"mode": "off"})
    os.kill(cove.children()["warden"], signal.SIGKILL)
    reply = cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": {"mode": "allow", "allow": ["good.test:%d" % port]}})
    c.same((reply.status, reply.json.get("network", {}).get("mode")), (200, "allow"), "a change that is kept succeeds, warden or not")
    c.ok(c.until(lambda: "200 served /w" in ask(cove, box, "http://good.test:%d/w" % port), 30, 0.1), "and the way follows")
    cove.delete(box)


DIAL = "import socket; s = socket.socket(); s.settimeout(5); print(s.connect_ex(('192.0.2.1', 9)))"


def offline(cove):
    """One without a network has no address but its own, whatever the ground it stands on was laid for."""
    for _ in range(3):
        c.ok(c.until(lambda: cove.get("/v1/verify").json["counts"]["prebuilt"] == 1), "a prebuilt box stands")
        box = cove.create(network={"mode": "off"})
        said = cove.execute(box, ["python3", "-c", DIAL]).json["stdout"].strip()
        c.same(said, str(errno.ENETUNREACH), "and off is off")
        cove.delete(box)


KILLER = "import os\nwhile True:\n    try: os.kill(-1, 9)\n    except OSError: pass"


def unwilling(cove, port):
    """A box that kills what would open its way is tried again at a pace of its own; the others wait for nothing."""
    policy = {"mode": "allow", "allow": ["good.test:%d" % port]}
    box, other = cove.create(network=policy), cove.create(network=policy)
    inside = "/v1/sandboxes/%s/api/process/" % box["id"]
    job = cove.post(inside + "start", {"command": "exec python3 -c '%s'" % KILLER}).json["processId"]
    peek = lambda: cove.post("/v1/sandboxes/%s/api/read" % box["id"], {"path": "/etc/hostname"}).status
    c.ok(c.until(lambda: peek() == 500), "nothing can be asked of a box that kills all that moves")
    before = cove.log_text().count("egress.not_open")
    failed = lambda: cove.log_text().count("egress.not_open") - before
    for _ in range(5):  # now and then the other side is faster
        os.kill(cove.children()["warden"], signal.SIGKILL)
        c.ok(c.until(lambda: "200 served /o" in ask(cove, other, "http://good.test:%d/o" % port), 30, 0.1), "another warden: a way is open again")
        if c.until(failed, 3):
            break
    time.sleep(3)  # is what is measured: how often it is tried meanwhile
    c.note("prevented %d times" % failed())  # on a busy host the box may lose every race
    c.ok(failed() <= 12, "an attach that its box prevents is retried with backoff", failed())
    cove.request("DELETE", inside + job)
    c.ok(c.until(lambda: "200 served /u" in ask(cove, box, "http://good.test:%d/u" % port), 60, 0.2), "and comes back when it lets it")
    cove.delete(box)
    cove.delete(other)


def main():
    server = Server(("127.0.0.1", 0), Handler)
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cove = c.Cove("--egress-exceptions=127.0.0.1:%d" % port, "--egress-hosts=good.test=127.0.0.1, other.test=127.0.0.1")
    made = cove.post("/v1/sandboxes", {"network": {"mode": "allow", "allow": ["good.test:%d" % port]}})
    if made.status == 501:
        c.skip_all("this host offers no network: %s" % made.json["reason"])
    box = made.json
    verdicts(cove, box, port)
    stream = c.Stream(cove, "/v1/sandboxes/%s/egress?after=0" % box["id"])
    known = ledger(cove, box)["last"]
    c.ok(c.until(lambda: len(stream.got) >= known), "a stream begins with what there is", stream.got)
    late = c.Stream(cove, "/v1/sandboxes/%s/egress" % box["id"], headers={"Last-Event-ID": str(known - 1)})
    c.ok(c.until(lambda: late.ids[:1] == [known]), "or behind the last that was seen", late.ids)
    follower = by_hand(cove, box, port)
    atomic(cove, box, port)
    page = ledger(cove, box)
    c.ok(c.until(lambda: len(stream.got) >= page["last"]), "and goes on with every verdict", page["last"], len(stream.got))
    c.same(([row["id"] for row in stream.got], stream.ids), ([row["id"] for row in page["items"]],) * 2, "each once, in order, by its number")
    c.same(page["totals"]["denied"], sum(row["verdict"] == "deny" for row in page["items"]), "the totals are the sums of the rows")
    c.same([page["totals"][key] for key in ("requests", "bytesOut", "bytesIn")],
           [sum(row[key] for row in page["items"]) for key in ("requests", "bytesOut", "bytesIn")], "of bytes and requests, too")
    others(cove, box)
    cove.delete(box)
    c.ok(c.until(lambda: stream.ended and late.ended), "a stream ends with its sandbox")
    c.same(follower.wait(30), 0, "and so does cove egress -f")
    follower.stdout.close()
    c.same(cove.get("/v1/sandboxes/%s/egress" % box["id"]).status, 404, "whose ledger is gone")
    made = cli(cove, "create", "--network", "allow", "--allow", "good.test:%d" % port)
    box = {"id": made.stdout.strip()}
    c.ok("200 served /c" in ask(cove, box, "http://good.test:%d/c" % port), "cove create --allow", made.stderr)
    cove.delete(box)
    without_warden(cove, port)
    unwilling(cove, port)
    offline(cove)
    c.ok(SECRET not in cove.log_text(), "the secret is not in the log")
    c.same(cove.close(), 0, "cove ends well")
    server.shutdown()


main()
c.done()
