#!/usr/bin/env python3
"""/v1/agent-runs: runs that outlive their caller and a kill of cove, found and followed by anyone who may see their sandbox."""
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
HOME = tempfile.mkdtemp(prefix="cove-runs-")
RUNS, BOX = "/v1/agent-runs", "/v1/sandboxes/"


def begin(cove, box, script, *words, **fields):
    return cove.post(RUNS, dict(fields, sandbox=box, argv=["sh", "-c", script, "sh", *words]))


def get(cove, run):
    return cove.get("%s/%s" % (RUNS, run)).json


def ended(cove, run):
    return c.until(lambda: [r for r in [get(cove, run)] if "endedAt" in r], 60)[0]


def events(cove, run, offset=None):
    text = cove.get("%s/%s/stream%s" % (RUNS, run, "?offset=%s" % offset if offset is not None else "")).body.decode()
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in lines:
            found.append((lines.get("id"), json.loads(lines["data"])))
    return found


def output(found, kind="stdout"):
    return "".join(event["data"] for _, event in found if event.get("type") == kind)


def plain(cove):
    box = cove.create()["id"]
    odd = "'; touch /tmp/pwned; '$(id) {model}"
    got = begin(cove, box, 'printf "%s|" "$@" "$COVE_AGENT_PROMPT" "$COVE_AGENT_SESSION" "$A"; pwd; ls /tmp/pwned; echo made > made; exit 3', "{prompt}", "{session}",
                "{model}", prompt=odd, session="s 1", env={"A": "b"}, cwd="/workspace")
    run = got.json["id"]
    c.ok(got.status == 202 and run.startswith("run-") and got.json["sandbox"] == box and got.headers["Location"] == RUNS + "/" + run, "a run is started", got)
    c.ok(cove.get(BOX + box).json.get("unsynced"), "and its sandbox is marked")
    end = ended(cove, run)
    c.ok(end["exitCode"] == 3 and end["state"] == "failed" and end["startedAt"] <= end["endedAt"], "R24 the exit code is there afterwards", end)
    found = events(cove, run)
    c.ok(output(found) == "|".join([odd, "s 1", "{model}", odd, "s 1", "b", "/workspace\n"]), "R18 texts arrive as they are given", found)
    c.ok("pwned" in output(found, "stderr") and found[-1][1]["type"] == "exit", "5.9 stderr is told apart, and the stream ends with the exit", found)
    last = [number for number, event in found if event["type"] in ("stdout", "stderr")][-1]
    c.ok(output(events(cove, run, last)) == "" and output(events(cove, run, 4)) == output(found)[4:], "R26 the stream goes on from an offset")
    tar = tarfile.open(fileobj=io.BytesIO(cove.get("%s/%s/changes" % (RUNS, run)).body))
    c.ok(tar.extractfile([m for m in tar.getmembers() if os.path.basename(m.name) == "made"][0]).read() == b"made\n", "changes has the files")
    c.ok([r["id"] for r in cove.get(RUNS).json["items"]] == [run] and cove.get(RUNS + "?state=running").json["items"] == [], "the list has it, by state, too")
    for body, reason in (({"sandbox": box}, "bad_field"), ({"argv": ["true"]}, "bad_field"), ({"sandbox": box, "argv": []}, "bad_command"), ({"sandbox": box, "argv": ["true"], "id": "run-1\u00002"}, "bad_field"),
                         ({"sandbox": box, "argv": ["true"], "command": "true"}, "unknown_field"), ({"sandbox": box, "argv": ["true"], "prompt": 1}, "bad_field")):
        got = cove.post(RUNS, body)
        c.ok(got.status == 400 and got.json["reason"] == reason, "%s is refused" % json.dumps(body)[-40:], got)
    c.ok(cove.post(RUNS, {"sandbox": "nonesuch", "argv": ["true"]}).status == 404, "as is a sandbox that is not there")
    for path in ("/run-0123456789ab-01234567", "/main", "/run-0123456789ab-01234567/stream", "/run-0123456789ab-01234567/changes"):
        c.ok(cove.get(RUNS + path).status == 404, "GET %s: 404" % path)
    fresh = cove.create()["id"]
    got = cove.post(RUNS, {"sandbox": fresh, "argv": ["/nonesuch"]})
    c.ok(got.status >= 400 and "unsynced" not in cove.get(BOX + fresh).json, "a command that cannot start leaves no mark", got)
    got = cove.post(RUNS, {"sandbox": cove.create(ephemeral=True)["id"], "argv": ["true"]})
    c.ok(got.status == 409 and got.json["reason"] == "ephemeral", "a sandbox without files takes no run", got)
    run = begin(cove, box, "echo up; sleep 999 & sleep 999").json["id"]
    got = cove.post("%s/%s/stop" % (RUNS, run))
    c.ok(got.status == 200 and got.json["state"] == "killed" and got.json["exitCode"] in (137, 143), "stop ends the tree", got)
    c.ok(cove.post("%s/%s/stop" % (RUNS, run)).json["state"] == "killed" and cove.run(box, "pgrep sleep || true")["stdout"] == "", "and again is harmless")
    run = begin(cove, box, "sleep 999", timeoutMs=200).json["id"]
    c.ok(ended(cove, run)["state"] in ("failed", "killed"), "R24 timeoutMs ends it", get(cove, run))
    return box


def strangers(cove, box):
    run = begin(cove, box, "echo secret").json["id"]
    cove.request("PUT", "/v1/tenants/other", {})
    key = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "use", "make"]}).json
    key = key.get("key") or key.get("secret")
    c.same(cove.get(RUNS, key=key).json["items"], [], "another tenant's list is empty")
    for method, path in (("GET", ""), ("GET", "/stream"), ("GET", "/changes"), ("POST", "/stop")):
        got = cove.request(method, "%s/%s%s" % (RUNS, run, path), key=key)
        c.ok(got.status == 404 and b"secret" not in got.body, "%s %s of another tenant's run: 404" % (method, path), got)
    key = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read"]}).json
    key = key.get("key") or key.get("secret")
    c.ok(cove.get(RUNS, key=key).status == 403 and cove.post(RUNS, {"sandbox": box, "argv": ["true"]}, key=key).status == 403, "a key that may only read has no runs")
    return key


def survives(cove, box):
    run = begin(cove, box, "for i in 1 2 3 4 5 6 7 8; do echo line-$i; sleep 0.4; done; exit 7").json["id"]
    for role in ("daemon", "warden"):
        pid = cove.children()[role]
        os.kill(pid, 9)
        c.until(lambda: cove.children().get(role, pid) != pid, 60)
        got = c.until(lambda: [r for r in [cove.get("%s/%s" % (RUNS, run))] if r.status != 503], 60)[0]
        c.ok(got.status == 200 and got.json["id"] == run, "R3 it is never absent after a kill of the %s" % role, got)
    end = ended(cove, run)
    c.ok(end["exitCode"] == 7 and output(events(cove, run)) == "".join("line-%d\n" % i for i in range(1, 9)),
         "R26 a run outlives kills of cove's processes, with all output and its exit code", end)


def worktree(cove):
    work = os.path.join(HOME, "work")
    os.makedirs(work)
    with open(work + "/a", "w") as file:
        file.write("base\n")
    cli = c.Cli(cove.data, cwd=work, HOME=HOME)
    box = json.loads(cli("sync", "in", "--json").text.splitlines()[0])["sandbox"]
    run = begin(cove, box, "echo started; echo changed > a; exit 5", cwd="/workspace").json["id"]
    got = cli("agent", "reconnect", run)
    c.ok(got.returncode == 1 and got.text == "started\n" and open(work + "/a").read() == "changed\n", "R26 cove agent reconnect takes a run of the API", got)
    c.ok(run in cli("agent", "list").text and "unsynced" not in cove.get(BOX + box).json, "cove agent list names it, and its changes are back")
    names, threads = [], []
    for _ in range(10):
        threads.append(threading.Thread(target=lambda: names.append(cove.request("PUT", BOX + "wt-many", {}).json["id"])))
        threads[-1].start()
    for each in threads:
        each.join()
    runs = [begin(cove, "wt-many", "true").status for _ in range(3)]
    c.ok(len(set(names)) == 1 and runs == [202] * 3, "R4 ten creates of one worktree's name make one sandbox, which takes runs", names, runs)


def terminals(cove):
    """A run on a terminal is one of the runs for as long as its sandbox has it."""
    work = os.path.join(HOME, "terminal")
    os.makedirs(work)
    with open(work + "/a", "w") as file:
        file.write("base\n")
    cli = c.Cli(cove.data, cwd=work, HOME=HOME)

    def running():
        return [r for r in cove.get(RUNS + "?state=running").json["items"] if r.get("terminal")]
    for ending in ("stop", "kill"):
        child = cli.popen("agent", "run", "-t", "--", "sh", "-c", "echo up; echo %s > a; until [ -e /tmp/%s ]; do sleep 0.05; done; exit 6" % (ending, ending))
        seen = b""
        while b"up" not in seen:
            seen += os.read(child.stdout.fileno(), 4096)
        runs = running()
        c.ok(len(runs) == 1 and runs[0]["command"] and runs[0]["startedAt"], "a run on a terminal is listed", runs)
        run, box = runs[0]["id"], runs[0]["sandbox"]
        c.same(get(cove, run), runs[0], "and found by its id")
        c.ok(cove.get(BOX + box).json.get("unsynced") and cove.get("%s/%s/changes" % (RUNS, run)).status == 200, "its sandbox is marked; its files can be had")
        got = cove.get("%s/%s/stream" % (RUNS, run))
        c.ok(got.status == 409 and got.json["reason"] == "on_terminal", "its output is that of the terminal", got)
        if ending == "stop":
            got = cove.post("%s/%s/stop" % (RUNS, run))
            out, err = child.communicate(timeout=60)
            c.ok(got.status == 200 and got.json["state"] == "killed" and child.returncode in (1, 130), "stop ends it, and its caller", got, child.returncode, err)
        else:
            child.kill()
            child.communicate()
            c.ok([r["id"] for r in running()] == [run], "R26 it outlives its caller", running())
            back = cli.popen("agent", "reconnect", run)
            cove.run(box, "touch /tmp/kill")
            out, err = back.communicate(timeout=60)
            c.ok(back.returncode == 1 and b"up" in out, "R26 reconnect attaches again: its output, its status", back.returncode, out, err)
        c.ok(open(work + "/a").read() == ending + "\n", "its changes come back")
        c.ok(c.until(lambda: not running(), 30) and "unsynced" not in cove.get(BOX + box).json, "and it is no longer one of the runs that go on")


def labels(cove):
    rounds = 100 if os.environ.get("COVE_SOAK") else 20
    good = 0
    for i in range(rounds):
        made = cove.create(labels={"read-your-writes": str(i)})["id"]
        good += [item["id"] for item in cove.get("/v1/sandboxes?label=read-your-writes=%d" % i).json["items"]] == [made]
        cove.delete(made)
    c.same(good, rounds, "R6 a list by label has the sandbox that was just made, every time")


def busy(cove):
    box = cove.create(sleepAfter="1s")["id"]
    run = begin(cove, box, "i=0; while [ $i -lt 30 ]; do sleep 0.1; i=$((i+1)); done; echo over").json["id"]
    last = events(cove, run)[-1][1]
    slept = [e for e in cove.get("/v1/events?limit=200").json["items"] if e.get("sandbox") == box and e["kind"] in ("sandbox.frozen", "sandbox.stopped")]
    c.ok(last["type"] == "exit" and not slept, "R30 a sandbox with an active run is not frozen or stopped", last, slept)
    c.ok(c.until(lambda: [e for e in cove.get("/v1/events?limit=200").json["items"] if e.get("sandbox") == box and e["kind"] == "sandbox.frozen"], 60),
         "R30 control: it is, once the run has ended")


def main():
    cove = c.Cove()
    try:
        box = plain(cove)
        terminals(cove)
        labels(cove)
        busy(cove)
        strangers(cove, box)
        survives(cove, box)
        worktree(cove)
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
