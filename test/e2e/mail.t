#!/usr/bin/env python3
"""W-41: notices by e-mail, through relays that ask for STARTTLS and for a password. In a network namespace of its own, for a relay
on this host needs no TLS."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import certificate  # noqa: E402
import cove as c  # noqa: E402

PYTHON = "/usr/bin/python3"
WAIT = 60
PASSWORD = "pass word \\ 7"
FAR = "10.77.0.1"
# argv: address, port, mailbox, certificate and key or "". One who sends mail must be the user.
RELAY = """
import ssl, sys, threading
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Mailbox
from aiosmtpd.smtp import AuthResult
host, port, path, cert, key, offers = sys.argv[1:]
def who(server, session, envelope, mechanism, data):
    good = (data.login, data.password) == (b"cove", %r)
    return AuthResult(success=good, handled=False)
tls = None
if cert:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
auth = dict(auth_required=True, authenticator=who) if offers == "auth" else dict(auth_exclude_mechanism=["PLAIN"])
control = Controller(Mailbox(path), hostname=host, port=int(port), tls_context=tls, require_starttls=bool(tls),
                     auth_require_tls=bool(tls), **auth)
control.start()
print("ready", flush=True)
threading.Event().wait()
""" % PASSWORD.encode()

c.need_root()
if subprocess.run([PYTHON, "-c", "import aiosmtpd"], stderr=subprocess.DEVNULL).returncode:
    c.skip_all("python3-aiosmtpd is not installed")
if os.environ.get("COVE_TEST_MAIL") != "inside":
    os.execvpe("unshare", ["unshare", "-n", sys.executable, os.path.abspath(__file__)], dict(os.environ, COVE_TEST_MAIL="inside"))
for words in ("link set lo up", "address add %s/32 dev lo" % FAR):
    subprocess.run(["ip"] + words.split(), check=True)

home = tempfile.mkdtemp(prefix="cove-mail-")
relays = []


def relay(name, host, port, tls, offers):
    """The folder with what it was given."""
    path = os.path.join(home, name)
    child = subprocess.Popen([PYTHON, "-c", RELAY, host, str(port), path] + (tls or ["", ""]) + [offers], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    relays.append(child)
    if child.stdout.readline() != "ready\n":
        raise RuntimeError("the relay did not come up")
    return os.path.join(path, "new")


def sink(name, to, user="cove", secret="password"):
    return ("[alert.email %s]\nrelay = %s\nfrom = cove@example.com\nto = ops@example.com\n" % (name, to) +
            ("user = %s\nsecret_file = %s/%s\n" % (user, home, secret) if user else ""))


try:
    ca, cert, key = certificate.certify(home, "test authority", ["mail.test"])
    for name, text in (("password", PASSWORD + "\n"), ("wrong", "wrong\n")):
        with open(os.path.join(home, name), "w") as file:
            file.write(text)
    far = relay("far", FAR, 2525, [cert, key], "auth")
    near = relay("near", "127.0.0.1", 2526, None, "auth")
    bare = relay("bare", FAR, 2527, None, "auth")
    open_to_all = relay("open", FAR, 2528, [cert, key], "")
    conf = os.path.join(home, "cove.conf")
    with open(conf, "w") as file:
        file.write("".join([sink("far", "mail.test:2525"), sink("near", "127.0.0.1:2526"), sink("stranger", "mail.test:2525", secret="wrong"),
                            sink("bare", "mail.test:2527"), sink("nobody", "mail.test:2525", user=None), sink("other", "other.test:2525"),
                            sink("open", "mail.test:2528", user=None), sink("mute", "mail.test:2528")]))
    cove = c.Cove("--config=" + conf, "--egress-ca", ca, "--egress-hosts", "mail.test=%s, other.test=%s" % (FAR, FAR))

    def send(name):
        reply = cove.post("/v1/alerts/test", {"sink": name}, timeout=WAIT)
        return reply.status, "" if reply.status < 300 else reply.json["reason"]

    def count(folder):
        return len(os.listdir(folder)) if os.path.isdir(folder) else 0

    c.ok(send("far")[0] < 300 and count(far) == 1, "a relay with STARTTLS and a password takes it", count(far))
    c.ok(send("near")[0] < 300 and count(near) == 1, "one on this host without TLS, too", count(near))
    c.ok(send("open")[0] < 300 and count(open_to_all) == 1, "one that wants no password gets none")
    c.same(send("stranger"), (502, "refused"), "a wrong password is refused")
    c.same(send("nobody"), (502, "refused"), "as no password is")
    c.same(send("bare"), (502, "no_starttls"), "a password is not sent without TLS")
    c.same(send("mute"), (502, "no_auth"), "a relay that offers no AUTH PLAIN is an error")
    c.same(send("other"), (502, "bad_tls"), "so is a certificate of another name")
    c.same((count(far), count(near), count(bare), count(open_to_all)), (1, 1, 0, 1), "and nothing more has arrived")
    c.ok(PASSWORD not in cove.log_text() and PASSWORD.encode() not in cove.get("/v1/alerts").body, "the password is shown nowhere")
    c.same(cove.stop(), 0, "cove ends")
finally:
    for child in relays:
        child.kill()
        child.communicate()
    shutil.rmtree(home, ignore_errors=True)
c.done()
