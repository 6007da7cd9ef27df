#!/usr/bin/env python3
"""`cove submit` and `cove executions`: every verb against a live daemon, as people and as programs read it. An execution is followed to
its end, whose status is ours; its output and artifacts are there when its sandbox is gone."""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import agent_sessions  # noqa: E402
import cove as c  # noqa: E402

c.need_root()
HOME = tempfile.mkdtemp(prefix="cove-submit-")
cove = c.Cove()
cli = c.Cli(cove.data, cwd=HOME)
cli.env["COVE_URL"] = cove.url


def record(execution):
    return cove.get("/v1/executions/" + execution).json


def write(name, text, mode=0o644):
    path = os.path.join(HOME, name)
    with open(path, "wb") as file:
        file.write(text)
    os.chmod(path, mode)
    return name


def newest():
    return cli("executions", "ls", "-q").text.split()[0]


# ----------------------------------------------------------------------------------------- submit
got = cli("submit", "--task", "t-1", "--type", "VALIDATION", "--", "sh", "-c", "echo out; echo err >&2")
c.ok(got.status == 0 and got.out == b"out\n" and got.err == "err\n", "submit shows the output of the command, each stream apart", got)
made = record(newest())
c.ok(made["taskId"] == "t-1" and made["agentType"] == "VALIDATION" and made["state"] == "completed", "with task and type", made)
got = cli("submit", "-c", "exit 7")
c.ok(got.status == 7, "the exit status of the execution is ours", got)
got = cli("submit", "--type", "NOPE", "--", "true")
c.ok(got.status == 125 and "NOPE" in got.err and "hint:" in got.err, "an unknown type is refused with a hint", got)
got = cli("submit")
c.ok(got.status == 125 and "hint: cove submit" in got.err, "nothing to execute is refused before a request", got)
got = cli("submit", "--timeout", "1s", "--", "sleep", "60")
c.ok(got.status == 124 and "timeout" in got.err, "one whose time is over ends with 124, and says so", got)
got = cli("submit", "--queue=maybe", "--", "true")
c.ok(got.status == 125 and "--queue=false" in got.err, "a bad --queue is refused with an example", got)
got = cli("submit", "-q", "--timeout", "1s", "--", "sleep", "60")
c.ok(got.status == 124 and not got.err, "--quiet says nothing", got)

write("main.sh", b"#!/bin/sh\ncat data/in.bin | cksum; echo \"$WORD $(cat)\"; cat \"$COVE_CONTEXT\"; mkdir -p out; echo kept > out/a.txt; echo no > other\n", 0o755)
write("in.bin", bytes(range(256)))
write("context.json", b'{"issue": 42, "n": 12345678901234567890}')
want = subprocess.run(["cksum"], input=bytes(range(256)), capture_output=True).stdout
got = cli("submit", "--file", "main.sh", "--file", "in.bin:data/in.bin", "--context", "context.json", "-e", "WORD=hello", "--label", "team=a",
          "--artifact", "out/**", "--artifact", "none*", "-i", "--", "/workspace/main.sh", stdin=b"from stdin")
c.ok(got.status == 0 and got.out == want + b'hello from stdin\n{"issue": 42, "n": 12345678901234567890}',
     "files, variables, standard input and the context arrive byte for byte", got)
kept = newest()
made = record(kept)
c.ok(made["labels"] == {"team": "a"} and made["artifacts"]["count"] == 1 and made["artifacts"]["missing"] == ["none*"], "with labels and globs", made)
got = cli("submit", "--context", "-", "-c", 'cat "$COVE_CONTEXT"', stdin=b'["a"]')
c.same((got.status, got.out), (0, b'["a"]'), "the context comes from standard input")
got = cli("submit", "--context", "main.sh", "--", "true")
c.ok(got.status == 125, "a context that is no JSON is refused here", got)
got = cli("submit", "--file", "absent", "--", "true")
c.ok(got.status == 125 and "absent" in got.err, "and so is a file that is not there", got)
got = cli("submit", "--memory", "64m", "--cpu-time", "20s", "--timeout", "1m", "--cpus", "0.5", "--requests", "3", "--pids", "64",
          "--wait", "--json", "--", "echo", "unseen")
limits = json.loads(got.out)["limits"]
c.ok(limits["memoryMB"] == 64 and limits["cpuTimeMs"] == 20000 and limits["wallTimeMs"] == 60000 and limits["networkRequests"] == 3 and
     limits["pids"] == 64, "limits are those of the options; --json prints the record alone", got)
got = cli("submit", "--type", "ELICITATION", "--memory", "1g", "--", "true")
c.ok(got.status == 125 and "--memory" in got.err, "one above the ceiling is refused in the words of the command line", got)

got = cli("submit", "--wait", "-c", "echo unseen; exit 9")
c.ok(got.status == 9 and record(got.text.strip())["exitCode"] == 9, "--wait prints the id alone, and ends with the status", got)

# ------------------------------------------------------------------------------------- detached
one = cli("submit", "-d", "--task", "long", "-c", "echo begun; sleep 600").text.strip()
c.ok(re.fullmatch(r"\S+", one), "-d prints the id", one)
other = json.loads(cli("submit", "-d", "--json", "--task", "long", "--", "sleep", "600").out)
c.ok(other["state"] in ("queued", "initializing", "ready", "running"), "or the record, with --json", other)
c.until(lambda: record(one)["state"] == "running" and record(other["id"])["state"] == "running", 60)
rows = [line.split() for line in cli("executions", "ls", "--state", "running").text.splitlines()]
c.same(rows[0], ["ID", "TASK", "TYPE", "STATE", "OUTCOME", "EXIT", "RAN", "AGE"], "executions ls is a table")
c.same({row[0] for row in rows[1:]}, {one, other["id"]}, "of those that the options name")
c.same(set(cli("executions", "ls", "-q", "--task", "long").text.split()), {one, other["id"]}, "-q prints ids")
c.same([e["id"] for e in json.loads(cli("executions", "ls", "--json", "--label", "team=a").out)], [kept], "--json an array")
follow = cli.popen("executions", "logs", "-f", one)
c.same(follow.stdout.readline(), b"begun\n", "logs -f follows the output")
waits = cli.popen("executions", "wait", other["id"])
got = cli("executions", "cancel", one, other["id"])
c.same((got.status, got.text.split()), (0, [one, other["id"]]), "cancel names what it cancelled")
c.same(waits.wait(60), 130, "wait ends with 130 when the execution was cancelled")
follow.stdout.read()
c.same(follow.wait(60), 0, "logs -f ends with it")
got = cli("executions", "cancel", one)
c.same(got.status, 5, "what has ended is not cancelled")
got = cli("executions", "wait", kept)
c.ok(got.status == 0 and not got.out, "wait for one that has ended returns at once", got)

# A client that leaves does not end the execution.
watching = cli.popen("submit", "--task", "left", "-c", "echo up; sleep 600")
watching.stdout.readline()
watching.send_signal(signal.SIGINT)
out, err = watching.communicate(timeout=60)
left = cli("executions", "ls", "-q", "--task", "left").text.strip()
c.ok(watching.returncode == 130 and ("cove executions cancel " + left).encode() in err, "Ctrl-C leaves, and says how to end it", err)
c.same(record(left)["state"], "running", "the execution goes on")
got = cli("executions", "rm", left)
c.ok(got.status == 5 and "cancel" in got.err, "one that runs is not removed, with a hint", got)
cli("executions", "cancel", left)

# -------------------------------------------------------------------------------------- results
got = cli("executions", "logs", kept)
c.ok(got.out == want + b'hello from stdin\n{"issue": 42, "n": 12345678901234567890}', "logs shows the output when the sandbox is gone", got)
both = cli("submit", "-d", "-c", "echo a; echo b >&2").text.strip()
cli("executions", "wait", both)
got = cli("executions", "logs", both)
c.same((got.out, got.err), (b"a\n", "b\n"), "each stream apart")
got = cli("executions", "logs", "--stream", "stderr", both)
c.same((got.out, got.err), (b"", "b\n"), "--stream shows one")
c.same(cli("executions", "logs", "--attempt", "1", both).out, b"a\n", "--attempt names the attempt")
c.same(cli("executions", "logs", "--stream", "both", both).status, 2, "a bad stream is refused")
shown = json.loads(cli("executions", "inspect", kept, both).out)
c.same([e["id"] for e in shown], [kept, both], "inspect shows all fields")
c.ok(shown[0]["steps"] and shown[0]["durations"]["runMs"] is not None and shown[0]["usage"]["memoryPeakBytes"] > 0, "steps, durations and usage", shown[0])
# G-10: limits from what past ones used, shown by inspect, applied when they are asked for
few = shown[1]["suggestion"]
c.ok(few["executions"] < 20 and few["suggested"] is None, "inspect shows that few executions suggest no limits", few)
got = cli("submit", "--suggested", both, "-c", "true")
c.ok(got.status == 125 and "too few executions" in got.err and "hint:" in got.err, "and --suggested says so", got)
many = [cli("submit", "-d", "--type", "VALIDATION", "--label", "repository=acme/web", "-c", "true").text.strip() for _ in range(20)]
for each in many:
    cli("executions", "wait", each)
few, some = [e["suggestion"] for e in json.loads(cli("executions", "inspect", both, many[0]).out)]
c.ok(some["profile"] == "VALIDATION" and some["repository"] == "acme/web" and some["executions"] == 20 and some["suggested"]["memoryMB"] >= 16 and few["suggested"] is None,
     "twenty suggest some, for their own profile and repository", some, few)
asked = cli("submit", "-d", "--type", "VALIDATION", "--suggested", many[0], "--timeout", "33s", "-c", "true").text.strip()
plain = cli("submit", "-d", "--type", "VALIDATION", "-c", "true").text.strip()
got, rest = [e["limits"] for e in json.loads(cli("executions", "inspect", asked, plain).out)]
c.same((got["memoryMB"], got["cpuTimeMs"], got["wallTimeMs"], rest["memoryMB"]),
       (some["suggested"]["memoryMB"], some["suggested"]["cpuTimeMs"], 33000, 512), "they are applied when asked for, and none that is given")
cli("executions", "wait", asked), cli("executions", "wait", plain)
lost = cli("executions", "inspect", "exe-none")
c.ok(lost.status == 3 and "hint:" in lost.err, "an absent one is status 3, with a hint", lost)
rows = [line.split() for line in cli("executions", "artifacts", kept).text.splitlines()]
c.ok(rows[0] == ["PATH", "SIZE", "MODE", "SHA256"] and rows[1][0].endswith("out/a.txt"), "artifacts lists them", rows)
c.same(cli("executions", "artifacts", kept, rows[1][0]).out, b"kept\n", "prints one")
got = cli("executions", "artifacts", kept, "--to", "results")
found = [os.path.join(top, name) for top, _, names in os.walk(os.path.join(HOME, "results")) for name in names]
c.ok(got.status == 0 and len(found) == 1 and open(found[0]).read() == "kept\n", "and unpacks all of them", got, found)
c.same(cli("executions", "artifacts", kept, "nothing").status, 3, "an absent artifact is status 3")

# ------------------------------------------------------------------------------- again, by steps
got = cli("executions", "retry", both)
c.ok(got.status == 0 and got.out == b"a\n" and record(newest())["retryOf"] == both, "retry follows the new execution", got)
got = cli("executions", "replay", "-d", both)
again = got.text.strip()
cli("executions", "wait", again)
c.same(record(again)["replayOf"], both, "replay -d prints its id")
ready = cli("submit", "--type", "VALIDATION", "--task", "steps")
c.ok(ready.status == 0 and "cove executions exec" in ready.err, "without a command it is provisioned, and submit says how to go on", ready)
steps = ready.text.strip()
got = cli("executions", "exec", steps, "--", "sh", "-c", "echo in; echo no >&2; exit 4")
c.ok(got.status == 4 and got.out == b"in\n" and got.err == "no\n", "exec runs a command in it", got)
c.same(cli("executions", "complete", steps, '{"passed": 3}').status, 0, "complete ends it")
cli("executions", "wait", steps)
c.ok(record(steps)["state"] == "completed" and record(steps)["result"] == {"passed": 3}, "with its result", record(steps))
steps = cli("submit", "--type", "VALIDATION").text.strip()
c.same(cli("executions", "fail", steps, "it does not compile").status, 0, "fail ends another")
got = cli("executions", "wait", steps)
c.ok(got.status == 1 and "reported" in got.err and "it does not compile" in got.err, "wait says why it failed", got)

# --------------------------------------------------------------------------- over faults and restarts
def init_of(box):
    """pid 1 of a sandbox, as the host sees it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cgroup" % pid) as groups, open("/proc/%s/comm" % pid, errors="replace") as comm:
                if box in groups.read() and comm.read().strip() == "cove-init":
                    return int(pid)
        except OSError:
            pass
    return 0


child = cli.popen("submit", "--task", "lost", "-c", "echo try; [ -e /tmp/x ] || sleep 600")
c.same(child.stdout.readline(), b"try\n", "the output of the first attempt is shown")
lost = cli("executions", "ls", "-q", "--task", "lost").text.strip()
first = record(lost)["sandbox"]
os.kill(init_of(first), signal.SIGKILL)
c.same(child.stdout.readline(), b"try\n", "that of the next one follows when the sandbox was lost")
c.ok(c.until(lambda: record(lost)["attempt"] == 2 and record(lost)["sandbox"] != first, 60), "in another sandbox", record(lost))
cli("executions", "cancel", lost)
c.same(child.wait(60), 130, "and its end is that of the execution")

child = cli.popen("submit", "--task", "survivor", "-c", "echo before; until [ -e /workspace/go ]; do sleep 0.1; done; echo after; exit 6")
c.same(child.stdout.readline(), b"before\n", "a submit is followed")
survivor = cli("executions", "ls", "-q", "--task", "survivor").text.strip()
agent_sessions.kill_daemon(cove)
c.until(lambda: agent_sessions.patiently(lambda: cove.get("/v1/executions/" + survivor)).json["state"] == "running", 60)
agent_sessions.patiently(lambda: cove.execute(record(survivor)["sandbox"], "touch /workspace/go"))
out, err = child.communicate(timeout=120)
c.ok(child.returncode == 6 and out == b"after\n", "over a kill of the daemon, no byte missed or repeated", out, err)

# ------------------------------------------------------------------------------------- terminal
master, slave = pty.openpty()
child = subprocess.Popen([c.BIN, "submit", "--type", "VALIDATION", "--", "echo", "shown"], env=cli.env, cwd=HOME, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=slave)
os.close(slave)
said = b""
while True:
    try:
        more = os.read(master, 4096)
    except OSError:
        break
    if not more:
        break
    said += more
child.wait(60)
os.close(master)
c.ok(child.stdout.read() == b"shown\n" and re.search(rb"sandbox_provision +\d+ ms", said), "steps are shown on a terminal, with durations", said)

# ----------------------------------------------------------------------------- rm, help, completion
got = cli("executions", "rm", kept, both)
c.ok(got.status == 0 and got.text.split() == [kept, both] and cove.get("/v1/executions/" + kept).status == 404, "rm removes", got)
c.same(cli("executions", "rm", "-f", kept).status, 0, "rm -f of what is gone is no failure")
for shell in ("bash", "zsh", "fish"):
    c.ok(re.search("cove[ _]words executions", cli("completion", shell).text), "%s completes executions" % shell)
c.same(set(cli("words", "executions").text.split()), {e["id"] for e in cove.get("/v1/executions").json["items"]}, "by their ids")
c.ok("--artifact GLOB" in cli("help", "submit").text and "executions artifacts" in cli("executions").text, "help explains them")

for execution in cove.get("/v1/executions?state=running").json["items"]:
    cli("executions", "cancel", execution["id"])
c.same(cove.close(), 0, "cove ends well")
__import__("shutil").rmtree(HOME, ignore_errors=True)
c.done()
