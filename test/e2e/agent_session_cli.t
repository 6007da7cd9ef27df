#!/usr/bin/env python3
"""`cove agent-session`: every verb against a live daemon, as people and as programs read it; and the terminal of a session."""
import json
import os
import re
import pty
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import runner  # noqa: E402
import wsclient  # noqa: E402

cove = s.start()
ENV = dict(cove.env, COVE_DATA=cove.data)


def cli(*words, stdin=b"", seconds=60):
    return subprocess.run([cove.binary] + list(words), input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=ENV, timeout=seconds)


def says(*words, **kw):
    done = cli(*words, **kw)
    if done.returncode:
        raise RuntimeError("%r: %r" % (words[:4], done))
    return done.stdout.decode()


# ------------------------------------------------------------------------------- create, ls, inspect
bare = cli("agent-session", "create", "--", "x")
c.ok(bare.returncode == 2 and b"no owner" in bare.stderr and b"hint:" in bare.stderr, "create without an owner says so", bare)
one = says("agent-session", "create", "--org", "acme", "--user", "me", "--alias", "thread-7", "-e", "MODEL=m", "--",
           *runner.argv()).strip()
again = says("agent-session", "create", "--org", "acme", "-u", "me", "--alias", "thread-7", "--", "other").strip()
c.same(again, one, "an alias resumes the session that has it")
own = json.loads(says("agent-session", "create", "--user", "me", "--id", "own-1", "--isolated", "--json", "--", *runner.argv()))
c.ok(own["id"] == "own-1" and own["isolation"] == "session", "--id, --isolated, --json", own)
taken = cli("agent-session", "create", "--user", "you", "--id", "own-1", "--", "x")
c.ok(taken.returncode == 5 and b"used before" in taken.stderr, "a taken id is a conflict", taken)
table = says("agent-session", "ls").splitlines()
c.same(table[0].split(), ["ID", "OWNER", "RUNNER", "CLASS", "RUNS", "USED"], "ls is a table")
c.ok(any(line.split()[:4] == [one, "acme/me", "none", "standard"] for line in table[1:]), "with a row for each", table)
c.same(sorted(says("agent-session", "ls", "-q").split()), sorted([one, "own-1"]), "ls -q prints ids")
c.same({i["id"] for i in json.loads(says("agent-session", "ls", "--json"))}, {one, "own-1"}, "ls --json is an array")
shown = json.loads(says("agent-session", "inspect", one, "own-1"))
c.ok([i["id"] for i in shown] == [one, "own-1"] and shown[0]["lease"]["state"] == "none", "inspect shows all", shown)
lost = cli("agent-session", "inspect", "nobody")
c.ok(lost.returncode == 3 and b"there is no session '" in lost.stderr, "an absent session is an error with status 3", lost)

# ------------------------------------------------------------------------------------------- run
done = cli("agent-session", "run", one, '{"do": "ok", "echo": "hi"}')
c.ok(done.returncode == 0 and b"working" in done.stdout and b'"echo":"hi"' in done.stdout,
     "run follows the output, and prints the result", done)
c.ok("runner up" in says("agent-session", "logs", one), "logs shows what the runner wrote")
done = cli("agent-session", "run", one, "-", stdin=b'{"do": "fail"}')
c.ok(done.returncode == 1 and b"failing" in done.stdout and b"test_failed" in done.stderr,
     "a run that fails ends with 1, and says why on stderr", done)
whole = cli("agent-session", "run", one, '{"do": "ok"}', "--json")
c.ok(json.loads(whole.stdout)["state"] == "completed" and b"working" not in whole.stdout[:20], "--json prints the run", whole)
bad = cli("agent-session", "run", one, "{}", "--timeout", "soon")
c.ok(bad.returncode == 2 and b"--timeout" in bad.stderr, "a bad time is refused with an example", bad)
run = says("agent-session", "run", "-d", one, '{"do": "ask"}').strip()
c.ok(run.startswith("run_"), "-d prints the run's id", run)
c.ok(c.until(lambda: cove.get("/v1/agent-sessions/%s/runs/%s" % (one, run)).json["question"]), "the run asks")
rows = says("agent-session", "runs", one).splitlines()
c.ok(rows[0].split() == ["ID", "STATE", "AGE", "ERROR"] and rows[1].split()[:2] == [run, "running"], "runs lists what is under way", rows)
wrong = cli("agent-session", "answer", one, "--question", "q9", "yes")
c.ok(wrong.returncode == 5, "an answer to another question is a conflict", wrong)
says("agent-session", "answer", one, "yes")
lines = [json.loads(line) for line in says("agent-session", "events", one, run).splitlines()]
c.ok([e["type"] for e in lines][-1] == "end" and lines[-1]["result"]["output"] == {"answer": "yes"},
     "answer answers; events shows every line to the end", lines)
c.same(says("agent-session", "runs", one, run).splitlines()[1].split()[:2], [run, "completed"], "runs shows one that has ended")
listed = cove.get("/v1/agent-sessions/%s/runs" % one).json
ages = [r["created_at"] for r in listed["items"]]
c.ok(listed["items"][0]["id"] == run and ages == sorted(ages, reverse=True) and listed["cursor"] is None and "result" not in listed["items"][0],
     "GET lists the runs of a session, the newest first", listed)
walked, cursor = [], ""
while cursor is not None:
    page = cove.get("/v1/agent-sessions/%s/runs?limit=2%s" % (one, cursor and "&cursor=" + cursor)).json
    walked, cursor = walked + page["items"], page["cursor"]
c.same(walked, listed["items"], "page by page the same")
c.same(cove.get("/v1/agent-sessions/%s/runs?cursor=run_none" % one).json["items"], [], "behind what is no run of its there is none")
c.same(says("agent-session", "runs", "--all", "-q", one).split(), [r["id"] for r in listed["items"]], "runs --all lists them")
rows = [line.split()[:2] for line in says("agent-session", "runs", "-a", one).splitlines()[1:]]
c.same(rows, [[r["id"], r["state"]] for r in listed["items"]], "with what became of them")
none = cli("agent-session", "events", one)
c.ok(none.returncode == 3 and b"hint:" in none.stderr, "events without a run says what to name", none)
follower = subprocess.Popen([cove.binary, "agent-session", "run", one, '{"do": "print", "times": 40, "every": 0.05}'], env=ENV,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
c.ok(select.select([follower.stdout], [], [], 30)[0], "a run is followed")
s.kill_daemon(cove)
out, err = follower.communicate(timeout=60)
c.same(([int(t) for t in out.decode().split("tick ")[1:41] if t.strip().isdigit()][:39], follower.returncode),
       (list(range(39, 0, -1)), 0), "over kill -9 of the daemon, every piece once")
says("agent-session", "run", "-d", one, '{"do": "hang"}')
c.ok(c.until(lambda: cove.get("/v1/agent-sessions/" + one).json["lease"]["state"] == "active"), "a hanging run")
says("agent-session", "interrupt", one)
idle = c.until(lambda: cli("agent-session", "interrupt", one).returncode == 5)
c.ok(idle, "interrupt ends it; then there is nothing to interrupt")
c.same(json.loads(says("agent-session", "logs", one, "--json"))["session"], one, "logs --json names the session")

# ------------------------------------------------------------------------------------- help, completion
c.ok("agent-session attach" in says("agent-session") and "agent-session attach" in says("help", "agent-session"), "the group explains itself")
page = says("help", "--man")
c.ok(all("session " + v in page for v in ("create", "ls", "inspect", "run", "runs", "events", "answer", "interrupt", "logs", "attach", "rm")),
     "every verb is in the manual")
for shell in ("bash", "zsh", "fish"):
    c.ok(re.search("cove[ _]words sessions", says("completion", shell)), "%s completes sessions" % shell)
c.same(sorted(says("words", "sessions").split()), sorted([one, "own-1"]), "by their ids")
typo = cli("agent-session", "creat")
c.ok(typo.returncode == 2 and b"session create" in typo.stderr, "a typo is understood", typo.stderr)

# --------------------------------------------------------------------------------------- the terminal
fresh = s.Session(cove, user="term")
box, directory = fresh.made["sandbox_id"], fresh.made["directory"]
path = fresh.path + "/terminal"


def terminal(**kw):
    return wsclient.Terminal(cove, None, "cols=90&rows=30", path=path, **kw)


def refused(**kw):
    try:
        terminal(**kw).close()
    except wsclient.Refused as answer:
        return answer.status, answer.json["reason"]
    return 101, ""


c.same(cove.get("/v1/sandboxes/" + box).status, 404, "a session that nobody used has no sandbox yet")
c.same(cove.get(path).status, 404, "the terminal is for WebSockets")
t = terminal()
t.type("pwd; echo home=$HOME; stty size; echo mark=[$COVE_SESSION] dir=$COVE_DIRECTORY\n")
c.ok(t.until(b"/workspace/%s\r\n" % directory.encode()) and t.until(b"home=/home/%s" % directory.encode()) and t.until(b"30 90"),
     "its terminal makes the sandbox, in the session's own directories", t.seen)
c.ok(t.until(b"mark=[] dir=" + directory.encode()), "the terminal has no marks of a runner", t.seen)
c.same(fresh.state(), "none", "and no runner was started for it")
other = terminal()
other.until(event="ready")
t.type("echo both-$((20+3))\n")
c.ok(other.until(b"both-23"), "all who connect see one screen", other.seen)
c.same(fresh.fate(fresh.run()), "completed", "a run beside it takes the terminal for no runner")
c.same((fresh.lease()["generation"], len(fresh.roots())), (1, 1), "no runner was stopped for it")
sibling = s.Session(cove, user="term")
c.same(sibling.fate(sibling.run("ok")), "completed", "a sibling in the same sandbox")
cove.request("PUT", "/v1/tenants/beta", {"host": True})
read = cove.post("/v1/keys", {"scopes": ["read"]}).json["key"]
theirs = cove.post("/v1/keys", {"tenant": "beta"}).json["key"]
c.same(refused(key=read)[0], 403, "a key that may only read opens none")
c.same(refused(key=theirs), (404, "no_session"), "another tenant sees no session")
s.fault(cove, "stop", count=5, session=fresh.id)
fresh.fate(fresh.run("fail"))
c.ok(fresh.await_state("quarantined", seconds=30), "a runner that cannot be stopped")
c.same(refused(), (503, "cleanup_exhausted"), "no new place beside it")
s.clear(cove)
t.type("sleep 1000 & disown; echo left\n")
c.ok(t.until(b"left\r\n"), "a job is left in the terminal")


def sleepers():
    return s.programs(cove, box, "sleep")


c.ok(c.until(sleepers), "the command in the terminal runs")
for pid in fresh.roots():
    os.kill(pid, 9)
gone = cli("agent-session", "rm", fresh.id)
c.same(gone.returncode, 0, "rm removes it")
c.ok(c.until(lambda: cove.get(fresh.path).status == 404, 30), "the session goes")
c.ok(c.until(lambda: not sleepers()), "and what ran in its terminal", sleepers())
c.same(cove.execute(box, "ls /workspace").json["stdout"].split(), [sibling.made["directory"]], "its files too; the sibling's stay")
c.same(refused(), (404, "no_session"), "a deleted session has no terminal")

# ----------------------------------------------------------------------------------------- attach, rm
pid, master = pty.fork()
if pid == 0:
    os.execve(cove.binary, [cove.binary, "agent-session", "attach", sibling.id], dict(ENV, TERM="xterm"))
seen = b""


def shows(text, seconds=20):
    global seen
    end = time.monotonic() + seconds
    while text not in seen and time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 65536)
            except OSError:
                break
    return text in seen


os.write(master, b"echo here-$((40+2)) $(basename $PWD)\n")
c.ok(shows(b"here-42 " + sibling.made["directory"].encode()), "attach shows the session's terminal", seen)
os.write(master, b"\x10\x11")
c.ok(shows(b"cove agent-session attach " + sibling.id.encode()), "ctrl-p ctrl-q leaves it, and says how to come back", seen)
c.same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "with status 0")
os.close(master)
gone = cli("agent-session", "rm", "-q", one, "own-1", sibling.id)
c.same((gone.returncode, gone.stdout), (0, b""), "rm -q says nothing")
c.same(cli("agent-session", "rm", "-f", "nobody").returncode, 0, "rm -f is content when it is not there")
c.same(cli("agent-session", "rm", "nobody").returncode, 3, "rm is not")
c.ok(c.until(lambda: says("agent-session", "ls", "-q") == "", 30), "none is left")
c.done()
