#!/usr/bin/env python3
"""Starting and stopping: drain, the lock, configuration, rights."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def serve(*args, user=None, env=None):
    """Runs cove serve to its end; (status, what it said)."""
    done = subprocess.run([c.BIN, "serve"] + list(args), capture_output=True, text=True, timeout=30,
                          user=user, env=dict(os.environ, **(env or {})))
    return done.returncode, done.stderr


def drains():
    cove = c.Cove()
    boxes = [cove.create() for _ in range(5)]
    ends = []
    runner = threading.Thread(target=lambda: ends.append(cove.execute(boxes[0], "touch /tmp/on; sleep 1; echo ok")))
    runner.start()
    c.until(lambda: cove.run(boxes[0], "test -e /tmp/on")["exitCode"] == 0)
    process, url_file = cove.process, os.path.join(cove.data, "url")
    c.same(open(url_file).read().strip(), cove.url, "the URL stands in the data directory")
    c.same(cove.stop(), 0, "SIGTERM drains and ends with status 0")
    runner.join(10)
    c.ok(ends and ends[0].status == 200 and ends[0].json["stdout"] == "ok\n",
         "a command under way is finished", ends)
    c.ok(not os.path.exists(url_file), "the URL is withdrawn")
    c.same(c.remains(cove), {}, "nothing is left behind")
    cove.close()

    cove = c.Cove("--grace", "200ms")
    box = cove.create()
    runner = threading.Thread(target=lambda: swallow(cove, box))
    runner.start()
    c.until(lambda: cove.run(box, "test -e /tmp/on")["exitCode"] == 0)
    c.same(cove.stop(), 0, "a command that does not end is ended")
    runner.join(10)
    c.same(c.remains(cove), {}, "and nothing is left behind")
    cove.close()


def swallow(cove, box):
    try:
        cove.execute(box, "touch /tmp/on; sleep 600")
    except (OSError, c.http.client.HTTPException):
        pass


def lock():
    cove = c.Cove()
    status, words = serve("--data", cove.data, "--listen", "127.0.0.1:0")
    c.ok(status == 5 and str(cove.process.pid) in words, "a second cove on one data directory is "
         "told who holds it", status, words)
    status, words = serve("--data", os.path.join(cove.home, "other"), "--listen",
                          "127.0.0.1:%d" % cove.port)
    c.ok(status == 5 and "listens" in words, "a port that is taken is said", status, words)
    c.same(cove.get("/v1/health").status, 200, "the first goes on")
    two = c.Cove()
    a, b = cove.create(), two.create()
    c.ok(cove.out(a, "echo a") == "a\n" and two.out(b, "echo b") == "b\n",
         "two coves on two directories live side by side")
    c.same(two.stop(), 0, "one of the two stops")
    two.close()
    c.same(cove.out(a, "echo a"), "a\n", "the other does not notice")
    cove.process.kill()
    cove.process.wait()
    cove.log.close()
    cove.start()
    c.same(cove.out(a, "echo a"), "a\n", "a supervisor killed outright can be started again at "
           "once, and its sandboxes are there")
    c.same(cove.stop(), 0, "and stopped")
    c.same(c.remains(cove), {}, "and leaves nothing")
    cove.close()


def bounds():
    cove = c.Cove("--boxes-max", "5")
    answers = []
    many = [threading.Thread(target=lambda: answers.append(cove.post("/v1/sandboxes")))
            for _ in range(30)]
    [one.start() for one in many]
    [one.join() for one in many]
    statuses = [a.status for a in answers]
    c.same((statuses.count(201), statuses.count(429)), (5, 25),
           "of thirty creates at once exactly as many succeed as there may be")
    refused = [a.json for a in answers if a.status == 429][0]
    c.ok(refused["reason"] == "too_many_boxes" and refused["retryable"] and refused["hint"],
         "the others are told why", refused)
    cove.delete([a.json for a in answers if a.status == 201][0])
    c.same(cove.post("/v1/sandboxes").status, 201, "a deleted sandbox makes room")
    c.same(cove.stop(), 0, "and all are drained")
    c.same(c.remains(cove), {}, "without a trace")
    cove.close()


def configuration():
    with tempfile.TemporaryDirectory() as home:
        path = os.path.join(home, "cove.conf")
        with open(path, "w") as file:
            file.write("listen = 127.0.0.1:0\ncolour = red\n")
        status, words = serve("--config", path, "--data", home + "/d")
        c.ok(status == 2 and "line 2" in words and "colour" in words,
             "an unknown setting is named with its line", words)
        status, words = serve("--listen", "nowhere", "--data", home + "/d")
        c.ok(status == 2 and "nowhere" in words, "a bad address is refused", words)
        status, words = serve("--colour", "red")
        c.ok(status == 2 and "--colour" in words, "an unknown option is refused", words)
        status, words = serve("--boxes-max", "none")
        c.ok(status == 2 and "boxes-max" in words, "a bad number is refused", words)
        for way in ("stop", "handoff"):
            status, words = serve("--on-term=" + way, "--listen", "nowhere", "--data", home + "/d")
            c.ok("nowhere" in words and "on-term" not in words, "TERM may mean %s" % way, words)
        status, words = serve("--on-term=explode", "--data", home + "/d")
        c.ok(status == 2 and "on-term" in words and "handoff" in words, "and nothing else", words)
        status, words = serve(env={"COVE_LISTEN": "x", "COVE_DATA": home + "/e"})
        c.ok(status == 2, "the environment is read", words)
    text = subprocess.run([c.BIN, "serve", "--options"], capture_output=True, text=True).stdout
    c.ok("COVE_LISTEN" in text and "boxes-max" in text, "the table of options can be printed", text)
    listed = {line.split()[0] for line in text.splitlines()} | {"--config", "--help"}
    text = subprocess.run([c.BIN, "help", "serve"], capture_output=True, text=True).stdout
    shown = {word.rstrip(".") for word in text.replace(",", " ").split() if word.startswith("--")}
    c.same(shown, listed, "and the help of serve shows the same")


def rights():
    binary = os.path.join(tempfile.mkdtemp(), "cove")
    os.chmod(os.path.dirname(binary), 0o755)
    subprocess.run(["cp", c.BIN, binary], check=True)
    done = subprocess.run([binary, "serve", "--data", "/tmp/cove-none"], capture_output=True,
                          text=True, user=65534)
    c.ok(done.returncode == 4 and "root" in done.stderr, "without root it refuses", done.stderr)
    subprocess.run(["rm", "-r", os.path.dirname(binary)])
    cove = c.Cove()
    status = open("/proc/%d/status" % cove.children()["daemon"]).read()
    field = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    c.ok("0" not in field["Uid"].split(), "the daemon is not root", field["Uid"])
    c.same((int(field["CapEff"], 16), int(field["CapPrm"], 16), int(field["CapBnd"], 16) & ~0xc0),
           (0, 0, 0), "and has no capability")
    c.same((field["NoNewPrivs"], field["Seccomp"], field["Groups"].strip()), ("1", "2", ""),
           "nor a way to one, and its system calls are filtered")
    argv = open("/proc/%d/cmdline" % cove.children()["daemon"]).read()
    c.ok(cove.key not in argv and cove.key[5:] not in argv, "the key is in no argument")
    modes = {d: oct(os.stat(os.path.join(cove.data, d)).st_mode & 0o777) for d in
             (".", "daemon", "boxes", "layers", "run")}
    c.same(modes, {".": "0o711", "daemon": "0o700", "boxes": "0o700", "layers": "0o700",
                   "run": "0o711"}, "directories have their modes")
    c.same(cove.stop(), 0, "cove ends with status 0")
    cove.close()


c.need_root()
drains()
lock()
bounds()
configuration()
rights()
c.done()
