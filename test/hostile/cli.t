#!/usr/bin/env python3
"""Group C: sandboxes and tenants against the person at the command line, by names and bytes of their choice. The control
runs are of the weak build's own command line."""
import binascii
import os
import shutil
import subprocess
import tempfile

from rows import c, play, row, WEAK, WeakCove

ESC = "\x1b]0;owned\x07\x1b[2J"
C1 = "\u009b2J"  # CSI in one character
FORGED = "\nFORGED line"


class Client:
    """The command line of the build that the stage's cove is of, in a directory of its own. `programs` are found in PATH."""

    def __init__(self, stage, programs=()):
        self.home = tempfile.mkdtemp(prefix="cove-client-")
        self.ran = os.path.join(self.home, "ran")
        self.binary = WEAK if isinstance(stage.cove, WeakCove) else c.BIN
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("COVE_")}
        self.env.update({"COVE_DATA": stage.cove.data, "NO_COLOR": "1", "PATH": self.home + ":" + os.environ["PATH"]})
        if isinstance(stage.cove, WeakCove):
            self.env["COVE_WEAKEN"] = "@" + stage.cove.switches
        for name in programs:
            with open(os.path.join(self.home, name), "w") as file:
                file.write("#!/bin/sh\necho %s >> %s\n" % (name, self.ran))
            os.chmod(file.name, 0o755)

    def __call__(self, *words):
        done = subprocess.run([self.binary, *words], env=self.env, cwd=self.home, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return done.stdout.decode(errors="surrogateescape")

    def close(self):
        shutil.rmtree(self.home)


@row("C-01", "the first bytes of a copied tree do not start a program of the operator's")
def copy_filters(stage):
    # The archive begins with the name of the first file: uuencoded text, whose content has the magic number of lrzip.
    name = "begin 644 a\n" + binascii.b2a_uu(b"LRZI\0\6".ljust(45, b"\0"), backtick=True).decode() + "`\nend\n"

    def attack(stage):
        client = Client(stage, ("lrzip",))
        box = stage.box()
        try:
            stage.python(box, "import os\nos.mkdir('tree')\nopen('tree/' + %r, 'w').write('x')" % name)
            client("cp", box["id"] + ":/workspace/tree", "copied")
            return os.path.exists(client.ran), os.path.exists(os.path.join(client.home, "copied", name))
        finally:
            client.close()
    stage.control_weak("copy_filters", attack, lambda got: got[0])
    c.same(attack(stage), (False, True), "C-01: none is started, and the file is copied")


def steers(text):
    """Whether it has a control character but for the ends of lines, or a line that somebody forged."""
    return any(ord(char) < 32 and char != "\n" or 127 <= ord(char) < 160 or "\udc80" <= char <= "\udc9f" for char in text) \
        or "FORGED" in [line[:6] for line in text.split("\n")]


@row("C-02", "names of a sandbox's choice do not steer the operator's terminal")
def control_characters(stage):
    def attack(stage):
        client, box = Client(stage), stage.box()
        name = box["id"]
        try:
            stage.python(box, "import os\nfor n in (%r, %r, b'\\x9b2J'):\n    open(n, 'w')\n    os.symlink(n, b'l' + os.fsencode(n))\n"
                         % ("a" + ESC + FORGED, "b" + C1))
            stage.cove.post("/v1/sandboxes/%s/api/process/start" % name, {"command": "sleep 600 '%s'" % (ESC + C1 + FORGED)})
            said = {words: client(*words) for words in (
                ("ls", name + ":/workspace"), ("ls", "-l", name + ":/workspace"), ("ls", "--json", name + ":/workspace"),
                ("ps", name), ("ps", "--json", name), ("inspect", name), ("audit",), ("audit", "--json"), ("events",),
                ("events", "--json"), ("cat", name + ":/workspace/none" + ESC + C1), ("exec", name + ESC, "true"))}
            return {words[0]: text for words, text in said.items() if steers(text)}, said
        finally:
            client.close()
    stage.control_weak("print_escape", attack, lambda got: {"ls", "ps"} <= set(got[0]))
    steered, said = attack(stage)
    c.same(steered, {}, "C-02: ls, ps, inspect, audit, events, errors")
    c.ok("\\x1b]0;owned" in said[next(iter(said))], "C-02: the name is shown, escaped", said)


@row("C-03", "a name with a control character is refused where it is chosen")
def chosen(stage):
    box = stage.box()
    at = "/v1/sandboxes/%s" % box["id"]

    ports = iter(range(8000, 8100))

    def choose(text):
        return {
            "port": stage.cove.post(at + "/ports", {"port": next(ports), "name": "n" + text}).status,
            "port of the container API": stage.cove.post(at + "/api/expose-port", {"port": next(ports), "name": "n" + text}).status,
            "process": stage.cove.post(at + "/api/process/start", {"command": "true", "processId": "p" + text}).status,
            "session": stage.cove.post(at + "/api/session/create", {"id": "s" + text}).status,
            "label": stage.cove.request("PATCH", at, {"labels": {"l": "v" + text}}).status,
        }
    plain = choose("ame")
    stage.twin(all(200 <= status < 300 for status in plain.values()), "plain names are taken", plain)
    for text in ("\x1b[2J", "\n", "\u0085", "\x7f"):
        c.same(set(choose(text).values()), {400}, "C-03: %r" % text)


play()
