#!/usr/bin/env python3
"""What an execution leaves when its sandbox is gone: logs byte for byte, live and later, with values of secrets masked (D-10);
artifacts by content, of hostile boxes too (D-4, D-11); recordings and comparisons. Killed daemons leave no garbage and lose
nothing; DELETE and the cap remove contents; two tenants share nothing."""
# COVE_SOAK: 100 MB of output and 20 kills, in place of 5 MB and 4.
import hashlib
import io
import json
import os
import random
import signal
import sys
import tarfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from wsclient import Terminal  # noqa: E402

c.need_root()
SOAK = bool(os.environ.get("COVE_SOAK"))
BYTES = (100 if SOAK else 5) << 20
KILLS = 20 if SOAK else 4
SECRET = "sk-" + os.urandom(12).hex()


def run(cove, key=True, status=200, **body):
    """An execution that has ended."""
    reply = cove.post("/v1/executions?wait=300", body, key=key, timeout=400)
    if reply.status != status:
        raise RuntimeError("execution: %r" % reply)
    return reply.json


def of(execution, rest=""):
    return "/v1/executions/" + execution["id"] + rest


def artifact(path):
    return "/artifacts/" + urllib.parse.quote_from_bytes(path if isinstance(path, bytes) else path.encode())


def items(cove, execution, key=True):
    return {item["path"]: item for item in cove.get(of(execution, "/artifacts"), key=key).json["items"]}


def blobs(cove):
    """Files of the store of contents, by folder."""
    place = os.path.join(cove.data, "daemon", "blobs")
    return {name: sorted(os.listdir(os.path.join(place, name))) for name in sorted(os.listdir(place))}


def rss(cove):
    with open("/proc/%d/status" % cove.children()["daemon"]) as status:
        return [int(line.split()[1]) for line in status if line.startswith("VmRSS")][0] << 10


def kept(cove):
    """D-11: the log and the artifacts are served when the sandbox is gone."""
    made = run(cove, command="mkdir -p out/deep; echo hi > out/a.txt; echo dot > out/.dot; ln -s a.txt out/link; ln -s /etc out/etc;"
               "printf '#!/bin/sh\\n' > out/deep/run; chmod 755 out/deep/run; printf x > $'out/n\\nl\\xff'; echo one; echo two >&2; echo three",
               artifacts={"paths": ["out/**", "/tmp/no*", "out/*.none"]})
    c.same((made["state"], made["outcome"]), ("completed", "completed"), "an execution completes")
    c.same(cove.get("/v1/sandboxes/" + made["attempts"][0]["sandbox"]).status, 404, "D-11 its sandbox is gone")
    c.same((made["artifacts"]["count"], made["artifacts"]["partial"], made["artifacts"]["missing"]), (6, False, ["/tmp/no*", "out/*.none"]),
           "the record counts its artifacts, and names the globs that matched nothing")
    whole = cove.get(of(made, "/logs")).body
    c.same(sorted(whole.splitlines()), [b"one", b"three", b"two"], "the log of both streams")
    for query, want in (("?stream=both", whole), ("?stream=stdout", b"one\nthree\n"), ("?stream=stderr", b"two\n"), ("?offset=5", whole[5:]),
                        ("?stream=stdout&offset=2", b"e\nthree\n"), ("?offset=14", b"")):
        c.same(cove.get(of(made, "/logs" + query)).body, want, "the log%s" % query)
    for query, reason in (("?offset=15", "bad_offset"), ("?offset=x", "bad_offset"), ("?stream=out", "bad_field"), ("?attempt=0", "bad_field")):
        c.same(cove.get(of(made, "/logs" + query)).json["reason"], reason, "the log%s is refused" % query)
    c.same(cove.get(of(made, "/logs?attempt=2")).json["reason"], "no_attempt", "an attempt that was not is absent")
    have = items(cove, made)
    c.same(sorted(have), ["out/.dot", "out/a.txt", "out/deep/run", "out/etc", "out/link", "out/n\nl\ufffd"], "dotfiles match, symlinks are not followed")
    c.same((have["out/link"]["type"], have["out/link"]["target"], have["out/etc"]["target"]), ("symlink", "a.txt", "/etc"), "a symlink is its target")
    c.same((have["out/deep/run"]["mode"], have["out/a.txt"]["size"], have["out/a.txt"]["sha256"]), ("0755", 3, hashlib.sha256(b"hi\n").hexdigest()),
           "mode, size and hash of a file")
    c.same(cove.get(of(made, artifact(b"out/n\nl\xff"))).body, b"x", "a name is bytes")
    got = cove.get(of(made, artifact("out/a.txt")), headers={"Range": "bytes=1-1"})
    c.same((got.status, got.body, got.headers["Content-Range"]), (206, b"i", "bytes 1-1/3"), "a part of an artifact")
    c.same(cove.get(of(made, artifact("out/a.txt")), headers={"Range": "bytes=3-"}).json["reason"], "bad_range", "a range past its end is refused")
    c.same(cove.get(of(made, artifact("out/a.txt")), headers={"If-None-Match": got.headers["ETag"]}).status, 304, "its tag is its hash")
    c.same(cove.get(of(made, artifact("out/link"))).json["reason"], "is_symlink", "a symlink has no content")
    c.same(cove.get(of(made, artifact("out/none"))).json["reason"], "no_artifact", "an artifact that is not there")
    with tarfile.open(fileobj=io.BytesIO(cove.get(of(made, "/artifacts.tar")).body)) as archive:
        c.same((sorted(archive.getnames()), archive.extractfile("out/a.txt").read(), archive.getmember("out/etc").linkname),
               (sorted(["out/.dot", "out/a.txt", "out/deep/run", "out/etc", "out/link", "out/n\nl\udcff"]), b"hi\n", "/etc"), "the archive has all")
    return made


def recorded(cove, made):
    lines = cove.get(of(made, "/cast")).body.decode().splitlines()
    head, events = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    c.ok(head["version"] == 2 and all(e[1] == "o" for e in events) and
         "".join(e[2] for e in events) == cove.get(of(made, "/logs")).body.decode().replace("\n", "\r\n"), "the log is an asciicast", lines)
    slow = run(cove, command="echo a; sleep 1.2; echo b")
    events = [json.loads(line) for line in cove.get(of(slow, "/cast")).body.decode().splitlines()[1:]]
    c.ok(events[-1][2] == "b\r\n" and 1 <= events[-1][0] - events[0][0], "with the times of its output", events)
    cli = c.Cli(cove.data)
    path = os.path.join(cove.home, "a.cast")
    with open(path, "wb") as file:
        file.write(cove.get(of(slow, "/cast")).body)
    played = cli("play", "--idle", "10ms", slow["id"])
    c.same((played.status, played.out), (0, b"a\r\nb\r\n"), "cove play shows an execution")
    c.same(cli("play", "--speed", "100", path).out, b"a\r\nb\r\n", "and a file")
    c.same(cli("play", "--speed", "100", "-", stdin=open(path, "rb").read()).out, b"a\r\nb\r\n", "and standard input")
    began = time.monotonic()
    cli("play", path)
    c.ok(time.monotonic() - began >= 1, "at its own pace", time.monotonic() - began)
    for words in (("play", "--speed", "0", path), ("play", "--idle", "x", path), ("play", os.path.join(cove.home, "none"))):
        c.ok(cli(*words).status in (2, 3), "refused: cove %s" % " ".join(words[:3]), cli(*words))
    c.ok(b"version" in cli("play", "-", stdin=b"{}\n").stderr, "what is no recording is refused")
    box = cove.create()
    started = cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "printf 'p\\nq\\n'"}).json["processId"]
    cove.get("/v1/sandboxes/%s/api/process/%s/wait" % (box["id"], started))
    got = cove.get("/v1/sandboxes/%s/api/process/%s/cast" % (box["id"], started))
    c.ok(got.status == 200 and got.body.decode().splitlines()[-1].endswith('"o","p\\r\\nq\\r\\n"]'), "a process of a sandbox, too", got)
    terminal = Terminal(cove, box, "command=sh&command=-c&command=printf%20%27x%5Cny%27%3Bsleep%201000&terminal=one")
    terminal.until(b"y", seconds=60)
    c.ok(c.until(lambda: "".join(json.loads(line)[2] for line in cove.get("/v1/sandboxes/%s/api/terminals/one/cast" % box["id"]).body.decode()
                                 .splitlines()[1:]) == "x\r\ny", 60), "and a terminal", cove.get("/v1/sandboxes/%s/api/terminals/one/cast" % box["id"]))
    terminal.sock.close()
    cove.delete(box)


def compared(cove, made):
    other = run(cove, command="echo one; exit 3")
    same = cove.get(of(made, "/diff?with=" + made["id"])).json
    c.ok(same["same"] and same["stdout"]["same"] and same["artifacts"]["same"], "an execution is like itself", same)
    diff = cove.get(of(made, "/diff?with=" + other["id"])).json
    c.same((diff["same"], diff["exitCode"], diff["outcome"]), (False, {"same": False, "this": 0, "with": 3},
                                                               {"same": False, "this": "completed", "with": "exit_nonzero"}), "another one is not")
    c.same((len(diff["artifacts"]["onlyThis"]), diff["artifacts"]["onlyWith"], diff["stdout"]["with"]["sha256"]),
           (6, [], hashlib.sha256(b"one\n").hexdigest()), "its artifacts and its output are named")
    again = cove.post(of(made, "/replay"), {})
    got = cove.get("/v1/executions/%s/wait?for=done&timeoutMs=300000" % again.json["id"], timeout=400).json
    diff = cove.get(of(made, "/diff?with=" + got["id"])).json
    c.ok(diff["same"], "G-8: the replay of a deterministic job has the same outcome", diff, got)
    c.same(cove.get(of(made, "/diff?with=exe-none")).status, 404, "one that is not there is absent")
    c.same(cove.get(of(made, "/diff")).json["reason"], "bad_field", "'with' is needed")


def suggested(cove):
    """G-10: what past runs used suggests limits, and nobody applies them but who asks."""
    first = run(cove, agentType="VALIDATION", command="true")
    c.same((cove.get(of(first, "/logs")).status, cove.get(of(first, "/logs")).body, cove.get(of(first, "/artifacts")).json["items"]), (200, b"", []),
           "a silent command has an empty log, and no artifacts")
    few = cove.get(of(first, "/suggestion")).json
    c.same((few["profile"], few["executions"], few["suggested"]), ("VALIDATION", 1, None), "one run suggests nothing")
    work = ("python3", "-c", "import time, sys; x = bytearray(40 << 20); x[::4096] = b'x' * len(x[::4096]); end = time.process_time() + 0.05\nwhile time.process_time() < end: pass")
    runs = [run(cove, agentType="VALIDATION", argv=list(work)) for _ in range(20)]
    many = cove.get(of(first, "/suggestion")).json
    peak = max(made["usage"]["memoryPeakBytes"] for made in runs) / (1 << 20)
    c.ok(many["executions"] == 21 and peak <= many["suggested"]["memoryMB"] <= max(64, 2 * peak) and many["limits"]["memoryMB"]["p50"] >= 40,
         "G-10 21 runs suggest a limit above their peak", many, peak)
    c.ok(many["limits"]["memoryMB"]["profile"] == 512 and many["suggested"]["cpuTimeMs"] >= 1000 and many["suggested"]["wallTimeMs"] <= 600000,
         "within the profile's bounds", many)
    again = run(cove, agentType="VALIDATION", argv=list(work), limits=many["suggested"])
    c.same((again["outcome"], again["limits"]["memoryMB"], runs[-1]["limits"]["memoryMB"]), ("completed", many["suggested"]["memoryMB"], 512),
           "they are applied when a request has them")
    c.same(cove.get("/v1/executions/exe-none/suggestion").status, 404, "an execution that is not there is absent")


def flood(cove):
    """D-10: bytes with NULs, in order, and the daemon's memory stays flat."""
    text = "import sys,os\nfor i in range(%d):\n b=bytes((i*7+j)%%256 for j in range(256))*256\n os.write(1,b)\n if i%%8==0: os.write(2,b'e%%d\\0'%%i)\n" % (BYTES >> 16)
    want = b"".join(bytes((i * 7 + j) % 256 for j in range(256)) * 256 for i in range(BYTES >> 16))
    run(cove, command="true")
    before = rss(cove)
    made = run(cove, argv=["python3", "-c", text])
    after = rss(cove)
    c.same(made["exitCode"], 0, "%d MB of output" % (BYTES >> 20))
    got = cove.get(of(made, "/logs?stream=stdout"), timeout=300)
    cut = got.headers.get("X-Log-Truncated") == "true"
    c.ok(want.startswith(got.body) and cut == (len(got.body) < len(want)) and len(got.body) >= min(len(want), 60 << 20),
         "stdout byte for byte, flagged if it is cut", len(got.body), cut)
    if not SOAK:
        c.same(cove.get(of(made, "/logs?stream=stderr")).body, b"".join(b"e%d\0" % i for i in range(0, BYTES >> 16, 8)), "D-10 stderr apart from it")
    c.ok(after - before < 48 << 20, "D-10 the daemon's memory is flat", before, after)
    long = run(cove, command="head -c 80000000 /dev/zero; echo late >&2")
    got = cove.request("HEAD", of(long, "/logs"))
    c.same((got.status, got.headers.get("X-Log-Truncated")), (200, "true"), "D-10 output past the cap is flagged")


def live(cove):
    """A reader of the running command and a reader of the stored log get the same."""
    c.same(cove.request("PUT", "/v1/secrets/KEY_ONE", {"value": SECRET, "hosts": ["api.test"]}).status, 201, "a secret")
    half = len(SECRET) // 2
    command = ("echo begin; while ! [ -e go ]; do sleep 0.05; done; printf %%s 'x%s'; sleep 0.3; printf '%s\\n'; echo mid >&2; printf '%s'; sleep 0.2; echo"
               " not; printf 'caf\\xc3'; sleep 0.2; printf '\\xa9\\n'; echo %s" % (SECRET[:half], SECRET[half:], SECRET[:5], SECRET))
    made = cove.post("/v1/executions", {"command": command, "secrets": ["KEY_ONE"], "network": {"mode": "allow", "allow": ["api.test"]}})
    c.same(made.status, 202, "an execution runs")
    made = made.json
    c.same(cove.get(of(made, "/wait?for=running&timeoutMs=60000"), timeout=90).status, 200, "it is running")
    c.ok(c.until(lambda: cove.get(of(made, "/logs")).body == b"begin\n", 60), "its log can be read")
    stream = c.Stream(cove, of(made, "/logs"))
    box = cove.get(of(made)).json["sandbox"]
    c.same(cove.get(of(made, "/artifacts")).json["reason"], "no_artifacts", "its artifacts are not there yet")
    c.same(cove.request("DELETE", of(made)).status, 409, "it cannot be deleted")
    c.same(cove.request("PUT", "/v1/sandboxes/%s/api/file/workspace/go" % box, b"", raw=True).status in (200, 201, 204) or
           cove.run({"id": box}, "touch /workspace/go")["exitCode"] == 0, True, "it goes on")
    done = cove.get(of(made, "/wait?for=done&timeoutMs=120000"), timeout=150).json
    c.same(done["outcome"], "completed", "it completes")
    c.ok(c.until(lambda: stream.ended, 60), "its stream ends")
    later = c.Stream(cove, of(made, "/logs"))
    c.ok(c.until(lambda: later.ended, 60), "and that of the stored log")
    stars = "*" * len(SECRET)
    want = "begin\nx%s\n%snot\ncafé\n%s\n" % (stars, SECRET[:5], stars)
    for name, got in (("live", stream), ("stored", later)):
        out, err, last = c.collect(got.got)
        c.same((out.decode(errors="replace"), err, last["type"]), (want, b"mid\n", "end"), "D-10 %s: values are masked, also across writes" % name)
    c.same(stream.ids[-1], later.ids[-1], "offsets are the same")
    whole = cove.get(of(made, "/logs")).body
    c.ok(SECRET.encode() not in whole and SECRET.encode() not in cove.get(of(made, "/cast")).body, "in bytes and recording, too", whole)
    resumed = c.Stream(cove, of(made, "/logs"), headers={"Last-Event-ID": str(stream.ids[0])})
    c.ok(c.until(lambda: resumed.ended, 60), "a stream is resumed")
    c.same(b"".join(c.data_of(e) for e in resumed.got if e["type"] != "end"), whole[stream.ids[0]:], "where it was")
    found = [name for name, _, files in os.walk(os.path.join(cove.data, "daemon", "blobs"))
             for file in files if SECRET.encode() in open(os.path.join(name, file), "rb").read()]
    c.same(found, [], "no value is in the store of contents")


def restarted(cove):
    """A daemon that is killed in the middle of a value masks it all the same."""
    half = len(SECRET) // 2
    made = cove.post("/v1/executions", {"command": "printf %%s '%s'; while ! [ -e go ]; do sleep 0.05; done; echo '%s'; while ! [ -e end ]; do sleep 0.05; done"
                                        % (SECRET[:half], SECRET[half:]), "secrets": ["KEY_ONE"], "network": {"mode": "allow", "allow": ["api.test"]}}).json
    cove.get(of(made, "/wait?for=running&timeoutMs=60000"), timeout=90)
    pid = cove.children()["daemon"]
    os.kill(pid, signal.SIGKILL)
    c.until(lambda: cove.children().get("daemon", pid) != pid, 60)
    box = c.patiently(lambda: cove.get(of(made))).json["sandbox"]
    c.same(c.patiently(lambda: cove.get(of(made, "/logs"))).status, 200, "its log is there when the daemon is back")
    stream = c.Stream(cove, of(made, "/logs"))
    cove.run({"id": box}, "touch /workspace/go")
    c.ok(c.until(lambda: cove.get(of(made, "/logs")).body == b"*" * len(SECRET) + b"\n", 60), "a value is masked over a kill", cove.get(of(made, "/logs")))
    cove.run({"id": box}, "touch /workspace/end")
    done = cove.get(of(made, "/wait?for=done&timeoutMs=120000"), timeout=150).json
    c.ok(c.until(lambda: stream.ended, 60), "its stream ends")
    c.same((done["outcome"], c.collect(stream.got)[0], cove.get(of(made, "/logs")).body), ("completed", b"*" * len(SECRET) + b"\n", b"*" * len(SECRET) + b"\n"),
           "live and stored")


def hostile(cove):
    made = run(cove, command="mkdir -p out/a; cd out; mkfifo fifo; mknod null c 1 3 2>/dev/null; ln -s / root; ln -s . a/loop; ln -s /proc/self/environ env;"
               "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; truncate -s 1G sparse; echo fine > fine;"
               "(while :; do head -c 65536 /dev/urandom; done > grows) & sleep 0.2; echo ok", artifacts={"paths": ["out/**", "/proc/self/**", "/dev/*"], "maxMB": 20})
    have = items(cove, made)
    c.ok("out/fine" in have and made["artifacts"]["partial"], "D-4 files over the cap are left out, and the result says so", have)
    c.ok(not set(have) & {"out/fifo", "out/null", "out/sock", "out/sparse", "out/env/x"} and have.get("out/root", {}).get("target") == "/"
         and not any(name.startswith(("out/root/", "out/a/loop/", "/dev/null")) for name in have), "FIFOs, devices and sockets are none, links lead nowhere", have)
    c.ok(made["artifacts"]["bytes"] <= 20 << 20 and sum(item["size"] for item in have.values() if item["type"] == "file") == made["artifacts"]["bytes"],
         "the cap holds", made["artifacts"])
    many = run(cove, command="mkdir many; cd many; seq 1 10100 | xargs touch; d=.; for i in $(seq 300); do d=$d/d; done; mkdir -p $d; echo deep > $d/x",
               artifacts={"paths": ["many/**"]})
    c.ok(many["artifacts"]["partial"] and many["artifacts"]["count"] == 10000 and len(items(cove, many)) == 10000, "10,000 files at most", many["artifacts"])
    changing = run(cove, command="head -c 9000000 /dev/zero > big; python3 -c 'f = open(\"big\", \"r+b\", 0)\nwhile f.seek(0) == 0: f.write(b\"x\" * 99)' & (while :; do rm -f gone;"
                   " echo a > gone; done) & (while :; do rm -f swap; ln -s /etc/passwd swap; rm -f swap; echo b > swap; done) & sleep 0.3; echo ok",
                   artifacts={"paths": ["*"]})
    have = items(cove, changing)
    c.ok(changing["outcome"] == "completed" and have.get("swap", {}).get("sha256") in (None, hashlib.sha256(b"b\n").hexdigest(), hashlib.sha256(b"").hexdigest()),
         "files that change are no failure, and a link that takes their place is not followed", changing["artifacts"], have)
    for paths in (["../x"], ["a/../b"], [""]):
        got = cove.post("/v1/executions", {"command": "true", "artifacts": {"paths": paths}})
        c.same((got.status, got.json["reason"]), (400, "bad_field"), "refused: %r" % paths)


def removed(cove):
    def contents():
        return blobs(cove).get("t-", [])
    before = contents()
    texts = ["echo same > a; echo mine-%d > b; echo log" % i for i in range(2)]
    one, two = (run(cove, command=text, artifacts={"paths": ["a", "b"]}) for text in texts)
    same, mine = hashlib.sha256(b"same\n").hexdigest(), hashlib.sha256(b"mine-0\n").hexdigest()
    c.ok(same in contents() and mine in contents() and len(contents()) == len(before) + 5, "equal contents are one file", before, contents())
    c.same(cove.request("DELETE", of(one)).status, 204, "an execution is deleted")
    c.ok(c.until(lambda: mine not in contents(), 60) and same in contents(), "its contents go, and what another one has stays", contents())
    c.same([cove.get(of(one, rest)).status for rest in ("", "/logs", "/artifacts", "/cast")], [404] * 4, "nothing of it is served")
    c.same(cove.get(of(two, artifact("a"))).body, b"same\n", "the other one is whole")
    cove.request("DELETE", of(two))
    c.ok(c.until(lambda: contents() == before, 60), "the last reference removes the file", before, contents())


def tenants(cove):
    keys = {}
    for name in ("acme", "beta"):
        cove.request("PUT", "/v1/tenants/" + name, {"host": True})
        keys[name] = cove.post("/v1/keys", {"tenant": name, "host": True}).json["key"]
    made = {name: run(cove, key=key, command="echo shared > f; echo hello", artifacts={"paths": ["f"]}) for name, key in keys.items()}
    shared = hashlib.sha256(b"shared\n").hexdigest()
    have = blobs(cove)
    c.ok(shared in have["t-acme"] and shared in have["t-beta"], "equal contents of two tenants are two files", have)
    for rest in ("", "/logs", "/artifacts", artifact("f"), "/artifacts.tar", "/cast", "/diff?with=" + made["beta"]["id"]):
        c.same((cove.get(of(made["acme"], rest), key=keys["beta"]).status, cove.get(of(made["acme"], rest), key=keys["acme"]).status in (200, 404)),
               (404, True), "%s of another tenant is absent" % (rest or "the record"))
    c.same(cove.get(of(made["acme"], "/logs")).body, b"hello\n", "the operator sees all")
    for name, key in keys.items():
        cove.request("DELETE", of(made[name]), key=key)
    c.ok(c.until(lambda: not blobs(cove)["t-acme"] and not blobs(cove)["t-beta"], 60), "and each is removed alone", blobs(cove))


def quota(cove):
    """What a tenant stores counts in its disk quota: artifacts without room are left out, and the log is kept."""
    cove.request("PUT", "/v1/tenants/gamma", {"host": True})
    key = cove.post("/v1/keys", {"tenant": "gamma", "host": True}).json["key"]
    made = cove.post("/v1/executions", {"command": "head -c 30000000 /dev/zero > big; echo small > small; while ! [ -e go ]; do sleep 0.05; done; echo end",
                                        "artifacts": {"paths": ["big", "small"]}}, key=key).json
    cove.get(of(made, "/wait?for=running&timeoutMs=60000"), timeout=90)
    used = cove.get("/v1/tenants/gamma").json["used"]["diskMB"]
    cove.request("PUT", "/v1/tenants/gamma", {"host": True, "quota": {"diskMB": used + 10}})
    cove.run({"id": cove.get(of(made)).json["sandbox"]}, "touch /workspace/go")
    done = cove.get(of(made, "/wait?for=done&timeoutMs=120000"), timeout=150).json
    c.same((done["outcome"], done["artifacts"]["partial"], sorted(items(cove, made)), cove.get(of(made, "/logs")).body),
           ("completed", True, ["small"], b"end\n"), "artifacts over the tenant's quota are left out, and the log is kept")
    cove.request("DELETE", of(made))
    c.ok(c.until(lambda: not blobs(cove)["t-gamma"], 60), "removed, they count no more", blobs(cove))


def killed(cove):
    """Results that were committed stay, others are collected again: nothing is lost, nothing is left over."""
    made, over = [], threading.Event()

    def submit(number):
        count = 0
        while not over.is_set():
            count += 1
            body = {"command": "echo %d-%d > f; head -c 70000 /dev/urandom > r; cp r s; sha256sum r; echo end" % (number, count), "artifacts": {"paths": ["f", "r", "s"]}}
            reply = c.patiently(lambda: cove.post("/v1/executions", body, timeout=60, headers={"Idempotency-Key": "results-%d-%d" % (number, count)}))
            if reply.status == 202:
                made.append((reply.json["id"], "%d-%d\n" % (number, count)))
            time.sleep(random.random() / 4)

    clients = [threading.Thread(target=submit, args=(i,), daemon=True) for i in range(3)]
    for client in clients:
        client.start()
    for _ in range(KILLS):
        count = len(made)
        c.until(lambda: len(made) > count + 2, 60)
        time.sleep(random.random())
        pid = cove.children().get("daemon")
        os.kill(pid, signal.SIGKILL)
        c.until(lambda: cove.children().get("daemon", pid) != pid, 60)
        c.patiently(lambda: cove.get("/v1/health"))
    over.set()
    for client in clients:
        client.join()
    bad = []
    for name, text in made:
        reply = c.patiently(lambda: cove.get("/v1/executions/%s/wait?for=done&timeoutMs=300000" % name, timeout=400))
        have = {i["path"]: i for i in cove.get("/v1/executions/%s/artifacts" % name).json.get("items", [])}
        log = cove.get("/v1/executions/%s/logs" % name).body.decode()
        if reply.json["outcome"] != "completed" or sorted(have) != ["f", "r", "s"] or have["f"]["sha256"] != hashlib.sha256(text.encode()).hexdigest() \
                or have["r"]["sha256"] not in log or not log.endswith("\nend\n") or have["r"]["sha256"] != have["s"]["sha256"]:
            bad.append((json.dumps(reply.json), have, log))
        elif hashlib.sha256(cove.get("/v1/executions/%s/artifacts/r" % name).body).hexdigest() != have["r"]["sha256"]:
            bad.append((name, "content"))
    c.ok(not bad and len(made) > KILLS, "%d executions over %d kills: every log and every hash is right" % (len(made), KILLS), *bad[:3])
    os.kill(cove.children()["daemon"], signal.SIGKILL)
    c.patiently(lambda: cove.get("/v1/health"))
    for name, _ in made:
        c.patiently(lambda: cove.request("DELETE", "/v1/executions/" + name))


def capped(cove):
    before = [run(cove, command="head -c 3000000 /dev/urandom > big; echo %d" % i, artifacts={"paths": ["big"]}) for i in range(4)]
    c.ok(c.until(lambda: cove.get(of(before[0], "/logs")).status == 410, 60), "past the cap the oldest contents go", cove.get(of(before[0], "/logs")))
    c.same((cove.get(of(before[0])).status, cove.get(of(before[0], "/artifacts")).json["reason"]), (200, "results_removed"), "its record stays")
    c.same(cove.get(of(before[3], artifact("big"))).status, 200, "the youngest is there")
    c.ok("results_near_cap" in cove.log_text(), "with a warning before", cove.log_text()[-2000:])


cove = c.Cove()
first = kept(cove)
recorded(cove, first)
compared(cove, first)
suggested(cove)
flood(cove)
live(cove)
restarted(cove)
hostile(cove)
removed(cove)
tenants(cove)
quota(cove)
everything = blobs(cove)
killed(cove)
c.ok(c.until(lambda: blobs(cove) == everything, 60), "no content is left over", {k: len(v) for k, v in everything.items()}, {k: len(v) for k, v in blobs(cove).items()})
c.same(cove.stop(), 0, "SIGTERM ends cove with status 0")
c.same(c.remains(cove), {}, "nothing is left behind")
small = c.Cove("--executions-results-max=8M")
capped(small)
small.stop()
c.done()
