#!/usr/bin/env python3
"""Notices of alerts reach their sinks: a webhook, Slack's form, a mail relay, Alertmanager; one a transition, none lost."""
import email
import email.utils
import hashlib
import hmac
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
WAIT = 90
SECRET = b"hook-" + os.urandom(8).hex().encode()
home = tempfile.mkdtemp(prefix="cove-sinks-")


class Listener:
    """An HTTP server that records what is posted; `status` answers, "hang" says nothing."""

    def __init__(self):
        self.got, self.status = [], 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), body, outer.status))
                if outer.status == "hang":
                    time.sleep(120)
                    return
                self.send_response(outer.status)
                if outer.status == 302:
                    self.send_header("Location", "http://127.0.0.1:%d/elsewhere" % outer.port)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def bodies(self, kind=None, rule="sandboxes_many"):
        """What was taken."""
        found = [json.loads(body) for _, _, body, answered in self.got if answered == 200]
        return [body for body in found if kind in (None, body["kind"]) and rule in (None, body["rule"])]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


class Mailbox:
    """Debian's SMTP server in Python, which keeps its messages as files."""
    PYTHON = "/usr/bin/python3"

    def __init__(self):
        self.port, self.path = free_port(), os.path.join(home, "mail")
        self.child = subprocess.Popen([self.PYTHON, "-m", "aiosmtpd", "-n", "-l", "127.0.0.1:%d" % self.port, "-c", "aiosmtpd.handlers.Mailbox", self.path],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        c.until(lambda: answers(self.port), WAIT)

    @classmethod
    def there_is(cls):
        return os.path.exists(cls.PYTHON) and subprocess.run([cls.PYTHON, "-c", "import aiosmtpd"], stderr=subprocess.DEVNULL).returncode == 0

    @property
    def got(self):
        folder = os.path.join(self.path, "new")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return [email.message_from_file(open(os.path.join(folder, name))) for name in names]

    def stop(self):
        self.child.kill()
        self.child.wait()


def alertmanager():
    """Debian's, on a port of its own; None: it is not installed."""
    if not shutil.which("prometheus-alertmanager"):
        return None, 0
    port = free_port()
    config = os.path.join(home, "alertmanager.yml")
    with open(config, "w") as file:
        file.write("route:\n  receiver: none\nreceivers:\n- name: none\n")
    child = subprocess.Popen(["prometheus-alertmanager", "--config.file=" + config, "--storage.path=" + os.path.join(home, "am"), "--cluster.listen-address=",
                              "--web.listen-address=127.0.0.1:%d" % port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ready():
        try:
            return urllib.request.urlopen("http://127.0.0.1:%d/-/ready" % port, timeout=5).status == 200
        except OSError:
            return False
    c.until(ready, WAIT)
    return child, port


hook, other, slack = Listener(), Listener(), Listener()
mailbox = Mailbox() if Mailbox.there_is() else None
manager, manager_port = alertmanager()
try:
    with open(os.path.join(home, "secret"), "wb") as file:
        file.write(SECRET + b"\n")
    conf = os.path.join(home, "cove.conf")
    with open(conf, "w") as file:
        file.write("[alert.webhook hook]\nurl = http://127.0.0.1:%d/in?team=a\nsecret_file = %s/secret\n" % (hook.port, home))
        file.write("[alert.webhook critical]\nurl = http://127.0.0.1:%d/\nseverities = critical\n" % other.port)
        file.write("[alert.slack chat]\nurl = http://127.0.0.1:%d/services/T/B\n" % slack.port)
        file.write("[alert.email mail]\nrelay = 127.0.0.1:%d\nfrom = cove@example.com\nto = ops@example.com, on-call@example.com\n" % (mailbox.port if mailbox else 1))
        file.write("[alert.alertmanager am]\nurl = http://127.0.0.1:%d\n" % (manager_port or 1))
    cove = c.Cove("--config=" + conf, "--dev", "--time-scale", "100", "--sleep-after", "1h")

    def rule(name, **settings):
        if cove.request("PUT", "/v1/alerts/rules/" + name, settings).status != 200:
            raise RuntimeError(name)

    def alert(name):
        return next((item for item in cove.get("/v1/alerts").json["items"] if item["id"] == name), {})

    def delivered(name, sink):
        return [d["outcome"] for d in alert(name).get("deliveries", []) if d["sink"] == sink]

    # ------------------------------------------------------------------------- one message a transition
    rule("sandboxes_many", threshold=0, forSeconds=0)
    box = cove.create()
    c.ok(c.until(lambda: hook.bodies("firing"), WAIT), "G-2: the webhook hears that an alert fires")
    path, head, body, _ = hook.got[0]
    told = json.loads(body)
    c.ok(path == "/in?team=a" and told["rule"] == "sandboxes_many" and told["severity"] == "warning" and told["summary"] and told["hint"] and told["link"].endswith("/ui/alerts") and
         [a["id"] for a in told["alerts"]] == ["sandboxes_many"] and told["alerts"][0]["value"] == 1 and told["alerts"][0]["threshold"] == 0 and told["alerts"][0]["since"], "W-42: object, value, threshold, since, cure, link", told)
    stamp, mac = (part.split("=")[1] for part in head["X-Cove-Signature"].split(","))
    c.same(mac, hmac.new(SECRET, stamp.encode() + b"." + body, hashlib.sha256).hexdigest(), "W-41: the signature is that of time and body")
    c.ok(abs(int(stamp) - time.time()) < 600 and head["X-Cove-Delivery"] == told["id"], "with the time, and an id of the delivery", head)
    c.ok(c.until(lambda: slack.got, WAIT) and set(json.loads(slack.got[0][2])) == {"text", "attachments"} and "more sandboxes" in json.loads(slack.got[0][2])["text"], "Slack's form", slack.got[:1])
    c.ok(c.until(lambda: delivered("sandboxes_many", "hook") == ["sent"] == delivered("sandboxes_many", "chat"), WAIT), "the alert lists its deliveries", alert("sandboxes_many"))
    if mailbox:
        c.ok(c.until(lambda: mailbox.got, WAIT), "a mail arrives")
        mail = mailbox.got[0]
        text = mail.get_payload()
        c.ok(mail["X-MailFrom"] == "cove@example.com" and mail["X-RcptTo"] == "ops@example.com, on-call@example.com" and mail["Subject"].startswith("[cove] firing: more sandboxes") and
             "sandboxes_many: 1 (threshold 0" in text and "What helps: " in text and mail["Message-ID"] and email.utils.parsedate_to_datetime(mail["Date"]), "for all, with subject, object and cure", mail)
    else:
        c.skip("a mail arrives", "python3-aiosmtpd is not installed")
    c.same(other.got, [], "severities go apart: a warning is nothing for those who want the critical")

    def at_manager():
        with urllib.request.urlopen("http://127.0.0.1:%d/api/v2/alerts" % manager_port, timeout=20) as reply:
            return {a["labels"]["alertname"]: a for a in json.loads(reply.read())}
    if manager:
        c.ok(c.until(lambda: "sandboxes_many" in at_manager(), WAIT), "Debian's Alertmanager has it")
        c.same(at_manager()["sandboxes_many"]["labels"]["severity"], "warning", "with its severity")
    else:
        c.skip("Debian's Alertmanager has it", "prometheus-alertmanager is not installed")

    cove.delete(box)
    c.ok(c.until(lambda: hook.bodies("resolved"), WAIT), "the webhook hears that it has ended")
    time.sleep(2)
    c.same([(b["kind"], b["rule"]) for b in hook.bodies()], [("firing", "sandboxes_many"), ("resolved", "sandboxes_many")], "one message a transition")
    if manager:
        c.ok(c.until(lambda: "sandboxes_many" not in at_manager(), WAIT), "Alertmanager knows the end")

    # ------------------------------------------------------------------------- the quiet hour (36 s here)
    since = alert("sandboxes_many")["quietUntil"]
    for _ in range(2):
        box = cove.create()
        c.until(lambda: alert("sandboxes_many").get("state") == "firing", WAIT)
        cove.delete(box)
        c.until(lambda: alert("sandboxes_many").get("state") == "resolved", WAIT)
    box = cove.create()
    c.until(lambda: alert("sandboxes_many").get("state") == "firing", WAIT)
    fired = [e["kind"] for e in cove.get("/v1/events?kind=alert&limit=1000&after=0").json["items"] if e["kind"].startswith("alert.") and e["fields"]["alert"] == "sandboxes_many"]
    c.ok(fired == ["alert.firing", "alert.resolved"] * 3 + ["alert.firing"], "10.16: the events show every transition", fired)
    held = len(hook.bodies())
    if alert("sandboxes_many")["quietUntil"] == since:
        c.same(held, 2, "10.16: within the quiet hour they are only recorded")
    c.ok(c.until(lambda: len(hook.bodies()) > 2, WAIT), "10.16: it fires when the hour ends: one notice follows")
    c.same([b["kind"] for b in hook.bodies()], ["firing", "resolved", "firing"], "and only one")

    # ------------------------------------------------------------------------- retries, and none lost over kill -9
    hook.status = 503
    rule("sandboxes_stuck", threshold=0)
    rule("cleanup_slow", threshold=0, forSeconds=0)
    cove.post("/v1/cleanup")
    if not c.until(lambda: alert("cleanup_slow").get("state") == "firing", 10):
        c.note("the janitor takes no time")
    cove.delete(box)  # its resolution is owed
    c.ok(c.until(lambda: len([1 for g in hook.got if g[3] == 503]) >= 3, WAIT), "a sink that answers 503 is tried again")
    tries = [g for g in hook.got if g[3] == 503]
    c.ok(len({g[1]["X-Cove-Delivery"] for g in tries}) <= 2, "under the same id", [g[1]["X-Cove-Delivery"] for g in tries])
    c.ok(c.until(lambda: alert("sink_failing-hook").get("state") == "firing", WAIT), "W-41: a failing sink is an alert", cove.get("/v1/alerts?state=firing").json["items"])
    c.kill_all(cove)
    hook.status = 200
    cove.start()
    c.ok(c.until(lambda: hook.bodies("resolved")[1:], WAIT), "G-2: what was not sent before kill -9 is sent after", [b["rule"] for b in hook.bodies()])
    c.ok(c.until(lambda: alert("sink_failing-hook").get("state") in (None, "resolved"), WAIT), "and the sink is well again")
    ids = [b["id"] for b in hook.bodies(rule=None)]
    c.same(len(ids), len(set(ids)), "each notice was taken once")

    # ------------------------------------------------------------------------- tests, redirects, silence
    c.same(cove.post("/v1/alerts/test", {"sink": "hook"}).json, {"sink": "hook", "outcome": "sent"}, "a test notice")
    c.same(len(hook.bodies("test", rule="test")), 1, "arrives")
    c.same((cove.post("/v1/alerts/test", {"sink": "nobody"}).status, cove.post("/v1/alerts/test", {}).status), (404, 404), "to a sink that there is")
    hook.status = 302
    c.same(cove.post("/v1/alerts/test", {"sink": "hook"}).status, 502, "10.13: a redirect is no success")
    c.ok(not any(path == "/elsewhere" for path, *_ in hook.got), "and is not followed")
    hook.status = "hang"
    began = time.monotonic()
    c.same(cove.post("/v1/alerts/test", {"sink": "hook"}).status, 504, "a webhook that never answers is given up after 10 s")
    c.ok(9 < time.monotonic() - began < 60 and cove.get("/v1/health").status == 200, "and keeps nobody else waiting", time.monotonic() - began)
    hook.status = 200
    if mailbox:
        mailbox.stop()
        c.same(cove.post("/v1/alerts/test", {"sink": "mail"}).status, 503, "a relay that is not there")
    counted = [line for line in cove.get("/metrics").body.decode().splitlines() if line.startswith("cove_notifications_total")]
    c.ok(any('sink="webhook"' in line for line in counted), "notices are counted by kind of sink", counted)
    c.ok(SECRET.decode() not in cove.log_text() and SECRET not in cove.get("/v1/alerts").body, "the secret is shown nowhere")
    c.same(cove.stop(), 0, "cove ends")

    # ------------------------------------------------------------------------- a configuration that is not right
    for text, word in (("[alert.webhook a]\nseverities = critical\n", "missing"), ("[alert.webhook a]\nurl = ftp://x/\n", "url"), ("[alert.pager a]\nurl = http://x/\n", "pager"), ("[alert.webhook A_b]\nurl = http://x/\n", "name"),
                       ("[alert.email a]\nrelay = x\nfrom = a@b\nto = c@d>\n", "to"), ("[alert.slack a]\nurl = http://x/\nseverities = loud\n", "severities"),
                       ("[alert.webhook a]\nurl = http://x/\nsecret_file = /nowhere\n", "secret"), ("[alert.webhook]\nurl = http://x/\n", "malformed")):
        with open(conf, "w") as file:
            file.write(text)
        done = subprocess.run([c.BIN, "serve", "--config=" + conf, "--data", os.path.join(home, "data"), "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, text=True)
        c.ok(done.returncode != 0 and word in done.stdout, "refused: " + text.replace("\n", " "), done.stdout[-600:])
finally:
    if mailbox:
        mailbox.stop()
    if manager:
        manager.kill()
        manager.wait()
    shutil.rmtree(home, ignore_errors=True)
c.done()
