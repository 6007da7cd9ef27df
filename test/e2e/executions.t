#!/usr/bin/env python3
"""Executions: one POST gives a sandbox, a run, a record that outlives it (lifecycle D-0, D-1, D-2, D-11, D-12, D-14); driven step by
step; followed as events; cancelled in every state; retried and replayed; bad input."""
import base64
import json
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
STEPS = ["sandbox_provision", "disk_check", "workspace_setup", "runner_start"]
FIELDS = ["agentType", "artifacts", "attempt", "attempts", "createdAt", "durations", "endedAt", "error", "exitCode", "id", "image", "labels", "limits", "outcome",
          "profile", "queue", "reason", "replayOf", "result", "retryOf", "sandbox", "signal", "startedAt", "state", "steps", "taskId", "usage"]


def run(cove, wait=60, key=True, headers=None, **body):
    return cove.request("POST", "/v1/executions?wait=%d" % wait, body, key=key, headers=headers)


def wait(cove, ident, until="done", ms=120000):
    return cove.get("/v1/executions/%s/wait?for=%s&timeoutMs=%d" % (ident, until, ms))


def no_box(cove):
    return c.until(lambda: not cove.get("/v1/sandboxes").json["items"], 60)


def whole(cove):
    got = run(cove, taskId="t-1", agentType="TEST_WRITER", command="echo out; echo err >&2; cat in/a.txt > out.txt; printf %s \"$GREETING\"",
              env={"GREETING": "hello"}, files=[{"path": "in/a.txt", "content": "from the request\n"}, {"path": "/workspace/b.bin", "mode": "0755",
              "contentBase64": base64.b64encode(b"\0\1").decode()}], artifacts={"paths": ["*.txt", "no/such"]}, labels={"team": "a"})
    c.same(got.status, 200, "D-2 one POST with a task id and a type is enough, and ?wait holds the answer to the end")
    record = got.json
    c.same(sorted(record), FIELDS, "fields of the record")
    c.same((record["state"], record["outcome"], record["exitCode"], record["signal"]), ("completed", "completed", 0, None), "it completed")
    c.ok(record["sandbox"] == record["attempts"][0]["sandbox"] and record["sandbox"].startswith("box-"), "D-12 the answer names the sandbox", record)
    c.ok(all(isinstance(record["durations"][k], int) for k in ("queuedMs", "provisionMs", "runMs", "cleanupMs")), "D-12 and durations",
         record["durations"])
    c.ok(record["usage"]["memoryPeakBytes"] > 0 and record["usage"]["networkRequests"] == 0, "D-12 and usage", record["usage"])
    c.same([step["name"] for step in record["steps"]], STEPS, "D-14 the steps, in order")
    c.ok(all(step["durationMs"] is not None for step in record["steps"]), "each with its duration", record["steps"])
    c.same((record["artifacts"]["count"], record["artifacts"]["missing"]), (1, ["no/such"]), "a glob without a match is named, and no failure")
    c.ok(no_box(cove), "the sandbox is gone")
    c.same(cove.get("/v1/sandboxes/" + record["sandbox"]).status, 404, "D-11 also for its id")
    c.same(cove.get("/v1/executions/" + record["id"]).json, record, "D-11 the record outlives it")
    c.same(got.headers.get("Location"), "/v1/executions/" + record["id"], "Location")
    return record


def seed(cove):
    text = '{"taskId":"seed-1","agentType":"ELICITATION","context":  {"n":123456789012345678901234567890, "z":[1.50,"\\u00e9"] }}'
    got = cove.request("POST", "/api/agents/execute", text.encode(), headers={"Content-Type": "application/json"}, raw=True)
    c.same((got.status, got.json.get("reason")), (400, "no_command"), "the alias needs a command: it waits for an end")
    c.ok("argv" in got.json["hint"], "and says where one comes from", got.json)
    got = cove.request("POST", "/v1/executions", text.encode(), headers={"Content-Type": "application/json"}, raw=True)
    c.same((got.status, got.json["taskId"], got.json["agentType"]), (202, "seed-1", "ELICITATION"), "the seed's request is taken verbatim")
    ident = got.json["id"]
    c.same(wait(cove, ident, "ready").json["state"], "ready", "without a command it provisions and stays ready")
    got = cove.post("/v1/executions/%s/exec" % ident, {"command": "stat -c %a $COVE_CONTEXT && cat $COVE_CONTEXT"})
    c.same(got.json["stdout"], "600\n" + text[text.index("{", 1):-1].rstrip("\n"), "the context is a file of mode 0600, byte for byte")
    c.same(cove.get("/v1/executions/" + ident).json["state"], "running", "a command makes it running")
    deep = "[" * 128 + "]" * 128
    for context, status in ((deep, 202), ("[" + deep + "]", 400), ('"' + "x" * (1 << 20) + '"', 413)):
        got = cove.request("POST", "/v1/executions", ('{"command":"true","context":%s}' % context).encode(),
                           headers={"Content-Type": "application/json"}, raw=True)
        c.same(got.status, status, "a context of %d bytes, %s" % (len(context), context[:3]))
        if status == 202:
            c.same(wait(cove, got.json["id"]).json["outcome"], "completed", "128 levels are fine")
    return ident


def steps(cove, ident):
    got = cove.post("/v1/executions/%s/complete" % ident, {"result": {"answer": [42]}})
    c.same((got.status, got.json["state"], got.json["outcome"], got.json["result"]), (200, "completed", "completed", {"answer": [42]}), "/complete ends it")
    c.same(cove.post("/v1/executions/%s/exec" % ident, {"command": "true"}).status, 409, "and it is final")
    got = cove.post("/v1/executions/%s/fail" % ident, {"reason": "late"})
    c.same((got.status, got.json["reason"]), (409, "ended"), "D-1 terminal states are final")
    made = cove.post("/v1/executions", {"profile": "VALIDATION"}).json
    wait(cove, made["id"], "ready")
    got = cove.post("/v1/executions/%s/fail" % made["id"], {"reason": "tests_red"})
    c.same((got.json["state"], got.json["outcome"], got.json["reason"]), ("failed", "reported", "tests_red"), "/fail says why")
    made = cove.post("/v1/executions", {"command": "sleep 600"}).json
    wait(cove, made["id"], "running")
    c.same(cove.post("/v1/executions/%s/complete" % made["id"]).status, 409, "one with a command of its own ends with it")
    c.same(cove.request("DELETE", "/v1/executions/" + made["id"]).status, 409, "DELETE while it runs is refused")
    got = cove.post("/v1/executions/%s/cancel" % made["id"])
    c.same((got.json["state"], got.json["outcome"]), ("failed", "cancelled"), "cancel while it runs")
    c.same(cove.post("/v1/executions/%s/cancel" % made["id"]).status, 409, "cancel of an ended one")


def escapes(cove):
    """What is escaped twice in the store must still fit there: an end that does not would never come."""
    globs = ['"' * 4000] * 200
    got = cove.post("/v1/executions", {"profile": "VALIDATION", "artifacts": {"paths": globs}})
    c.ok((got.status, got.json["reason"]) == (400, "bad_field") and got.json["hint"], "globs of 800 kB are refused", got)
    made = cove.post("/v1/executions", {"profile": "VALIDATION", "artifacts": {"paths": globs[:16]}}).json
    wait(cove, made["id"], "ready")
    got = cove.post("/v1/executions/%s/complete" % made["id"], {"result": '"' * 500000})
    c.same((got.status, got.json["reason"]), (413, "result_too_large"), "so is a result of 1 MB")
    got = cove.post("/v1/executions/%s/complete" % made["id"], {"result": '"' * 130000})
    c.same((got.status, got.json["outcome"], len(got.json["artifacts"]["missing"])), (200, "completed", 16), "what is within the bounds ends it")


def events(cove):
    made = cove.post("/v1/executions", {"command": "cat", "profile": "VALIDATION"}).json
    stream = c.Stream(cove, "/v1/executions/%s/events" % made["id"])
    c.ok(c.until(lambda: stream.ended, 60), "the stream of events ends with it")
    seen = stream.got
    kinds = [event.get("state") or event["name"] for event in seen]
    c.same(kinds, ["queued", "initializing"] + STEPS + ["ready", "running", "completed"], "D-1 every change is an event, in order")
    c.ok(all(event["at"] for event in seen), "with its time", seen)
    c.same([event["id"] for event in seen], list(range(1, len(seen) + 1)), "and a number")
    page = cove.get("/v1/executions/%s/events?after=6" % made["id"]).json
    c.same([event["id"] for event in page["items"]], [7, 8, 9], "a client resumes after the last one it has")
    published = [e["fields"]["state"] for e in cove.get("/v1/events?kind=execution&limit=1000").json["items"] if e["fields"].get("execution") == made["id"]]
    c.same(published[-1], "completed", "and published for everybody")


def cancels(cove):
    got = cove.post("/v1/executions", {"command": "sleep 600"})
    done = cove.post("/v1/executions/%s/cancel" % got.json["id"])
    c.same((done.status, done.json["outcome"]), (200, "cancelled"), "cancel right after the POST")
    cove.post("/v1/dev/faults", {"point": "launch", "mode": "hang"})
    made = cove.post("/v1/executions", {"command": "true"}).json
    c.until(lambda: cove.get("/v1/executions/" + made["id"]).json["state"] == "initializing", 60)
    done = cove.post("/v1/executions/%s/cancel" % made["id"])
    c.same((done.status, done.json["outcome"], done.json["attempts"][0]["outcome"]), (200, "cancelled", "cancelled"), "cancel while it is initializing")
    cove.request("DELETE", "/v1/dev/faults")
    made = cove.post("/v1/executions", {"agentType": "VALIDATION"}).json
    wait(cove, made["id"], "ready")
    c.same(cove.post("/v1/executions/%s/cancel" % made["id"]).json["outcome"], "cancelled", "cancel while it is ready")
    c.ok(no_box(cove), "no sandbox is left of any of them")


def again(cove, first):
    got = cove.post("/v1/executions/%s/retry?wait=60" % first["id"])
    c.ok(got.status == 200 and got.json["retryOf"] == first["id"] and got.json["outcome"] == "completed", "retry makes a new one", got)
    got = cove.post("/v1/executions/%s/replay?wait=60" % first["id"])
    c.ok(got.json["replayOf"] == first["id"] and got.json["id"] != first["id"], "so does replay", got)
    c.same((got.json["artifacts"]["bytes"], got.json["labels"]), (first["artifacts"]["bytes"], {"team": "a"}), "with the same request")
    c.same(cove.post("/v1/executions/exe-%s/retry" % ("0" * 32)).status, 404, "retry of nothing")


def once(cove):
    key = {"Idempotency-Key": "same-" + os.urandom(4).hex()}
    one = run(cove, headers=key, command="date +%N > x", artifacts={"paths": ["x"]})
    two = run(cove, headers=key, command="date +%N > x", artifacts={"paths": ["x"]})
    c.ok(one.json["id"] == two.json["id"] and two.headers.get("Idempotency-Replayed") == "true", "a repeated key gets the same execution", two)
    c.same(run(cove, headers=key, command="true").status, 409, "the key with another body is refused")
    got = []
    key = {"Idempotency-Key": "many-" + os.urandom(4).hex()}
    threads = [threading.Thread(target=lambda: got.append(run(cove, headers=key, command="true").json["id"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    c.same(len(set(got)), 1, "also when eight ask at once")


def bad(cove):
    for body, reason in (
            ({}, "no_command"), ({"agentType": "FOO"}, "unknown_agent_type"), ({"profile": "nope", "command": "true"}, "unknown_profile"),
            ({"command": "true", "argv": ["true"]}, "bad_field"), ({"command": " "}, "bad_field"), ({"argv": []}, "bad_field"),
            ({"command": "true", "more": 1}, "unknown_field"), ({"command": "true", "files": [{"path": "../x", "content": ""}]}, "path_outside"),
            ({"command": "true", "files": [{"path": "/etc/x", "content": ""}]}, "path_outside"),
            ({"command": "true", "files": [{"path": "a/../../x", "content": ""}]}, "path_outside"),
            ({"command": "true", "files": [{"path": "a"}]}, "bad_field"), ({"command": "true", "files": [{"path": "a", "content": "", "contentBase64": ""}]}, "bad_field"),
            ({"command": "true", "files": [{"path": "a", "contentBase64": "%%"}]}, "bad_field"), ({"command": "true", "files": {}}, "bad_field"),
            ({"command": "true", "files": [{"path": "a", "content": "", "mode": "99"}]}, "bad_field"),
            ({"command": "true", "retry": "always"}, "bad_field"), ({"command": "true", "queueTimeoutMs": 0}, "bad_field"),
            ({"command": "true", "env": {"1": "x"}}, "bad_env"), ({"command": "true", "labels": {"": "x"}}, "bad_field"),
            ({"command": "true", "labels": {"cove/owner": "x"}}, "bad_label"),
            ({"command": "true", "secrets": ["NO_SUCH"]}, "no_secret"), ({"command": "true", "network": {"mode": "maybe"}}, "bad_field"),
            ({"agentType": "VALIDATION", "limits": {"memoryMB": 513}}, "above_ceiling"), ({"command": "true", "limits": {"memoryMB": 1}}, "bad_field"),
            ({"command": "true", "limits": {"cats": 1}}, "unknown_field"), ({"command": "true", "artifacts": {"paths": [""]}}, "bad_field")):
        got = cove.post("/v1/executions", body)
        c.same((got.status, got.json.get("reason")), (400, reason), "refused: %s" % json.dumps(body)[:90])
    c.same(cove.post("/v1/executions", {"command": "true", "template": "no-such"}).status, 404, "a template that does not exist")
    for text in (b"", b"[]", b"{", b'{"context":1,"context":2}', b'{"command":"true","files":[],"files":[]}'):
        got = cove.request("POST", "/v1/executions", text, headers={"Content-Type": "application/json"}, raw=True)
        c.same(got.status, 400, "no request: %r" % text)
    for path, status in (("/v1/executions/x", 404), ("/v1/executions/exe-zz", 404), ("/v1/executions?limit=0", 400), ("/v1/executions/x/wait?for=never", 400)):
        c.same(cove.get(path).status, status, "GET " + path)
    got = run(cove, command="no-such-command-here", retry="infra")
    c.same((got.json["outcome"], got.json["exitCode"], got.json["attempt"]), ("exit_nonzero", 127, 1), "a command that does not exist")
    got = run(cove, argv=["/etc/passwd"])
    c.same((got.json["outcome"], got.json["exitCode"]), ("exit_nonzero", 126), "one that is not executable")
    got = run(cove, command="true", artifacts={"paths": ["none"], "required": True})
    c.same((got.json["state"], got.json["outcome"], got.json["artifacts"]["missing"]), ("failed", "artifacts_missing", ["none"]), "required artifacts are required")
    big = base64.b64encode(os.urandom(20 << 20)).decode()
    got = run(cove, command="stat -c %s big", files=[{"path": "big", "contentBase64": big}])
    c.same((got.status, got.json["outcome"]), (200, "completed"), "a file of 20 MiB comes in")
    got = run(cove, command="true", files=[{"path": "big", "contentBase64": big}, {"path": "more", "contentBase64": big}])
    c.same(got.status, 413, "files of 40 MiB do not")


def lists(cove):
    ids = [run(cove, command="true", taskId="list", agentType="VALIDATION", labels={"n": str(n)}).json["id"] for n in range(5)]
    got = cove.get("/v1/executions?taskId=list&limit=2").json
    found = [e["id"] for e in got["items"]]
    while got["cursor"]:
        got = cove.get("/v1/executions?taskId=list&limit=2&cursor=" + got["cursor"]).json
        found += [e["id"] for e in got["items"]]
    c.same(found, ids[::-1], "a list in pages, newest first")
    c.same([e["id"] for e in cove.get("/v1/executions?label=n=3&taskId=list").json["items"]], [ids[3]], "by label")
    c.same(cove.get("/v1/executions?taskId=list&state=failed").json["items"], [], "by state")
    c.same(len(cove.get("/v1/executions?taskId=list&agentType=VALIDATION").json["items"]), 5, "by agent type")
    c.same(cove.request("DELETE", "/v1/executions/" + ids[0]).status, 204, "DELETE")
    c.same(cove.get("/v1/executions/" + ids[0]).status, 404, "it is gone")


def large(cove):
    """A page ends by bytes, too, and its cursor leads on."""
    def one():
        made = cove.post("/v1/executions", {"profile": "VALIDATION", "taskId": "large", "artifacts": {"paths": ['"' * 4000] * 16}}).json
        wait(cove, made["id"], "ready")
        ids.append(cove.post("/v1/executions/%s/complete" % made["id"], {"result": "x" * 260000}).json["id"])

    ids, found = [], []
    threads = [threading.Thread(target=one) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = cove.get("/v1/executions?taskId=large&limit=1000")
    c.ok(got.status == 200 and 0 < len(got.json["items"]) < 12 and got.json["cursor"], "a page of large records ends early", len(got.body))
    while True:
        found += [e["id"] for e in got.json["items"]]
        if not got.json["cursor"]:
            break
        got = cove.get("/v1/executions?taskId=large&limit=1000&cursor=" + got.json["cursor"])
    c.same(sorted(found), sorted(ids), "its cursor leads to the others")


def tenants(cove):
    for name in ("one", "two"):
        cove.request("PUT", "/v1/tenants/" + name, {"network": "off", "host": True})
    keys = [cove.post("/v1/keys", {"tenant": name, "scopes": ["read", "make", "use"], "host": True}).json["key"] for name in ("one", "two")]
    got = run(cove, key=keys[0], command="true")
    c.same((got.status, got.json["outcome"]), (200, "completed"), "a tenant without a network has executions without one")
    for path in ("", "/events", "/wait"):
        c.same(cove.request("GET", "/v1/executions/" + got.json["id"] + path, key=keys[1]).status, 404, "another tenant does not see it" + path)
    c.same(cove.request("GET", "/v1/executions", key=keys[1]).json["items"], [], "nor in its list")
    c.same(cove.request("POST", "/v1/executions/%s/retry" % got.json["id"], key=keys[1]).status, 404, "nor can it retry it")
    c.same(cove.request("DELETE", "/v1/executions/" + got.json["id"], key=keys[1]).status, 404, "nor delete it")
    c.same(run(cove, key=keys[0], command="true", network={"mode": "all"}).status, 403, "a network that the tenant may not have")
    reads = cove.post("/v1/keys", {"tenant": "one", "scopes": ["read"]}).json["key"]
    c.same(run(cove, key=reads, command="true").status, 403, "a key that only reads makes none")
    c.same(cove.request("GET", "/v1/executions/" + got.json["id"], key=reads).status, 200, "and sees them")


def main():
    cove = c.Cove("--dev=on")
    try:
        first = whole(cove)
        steps(cove, seed(cove))
        escapes(cove)
        events(cove)
        cancels(cove)
        again(cove, first)
        once(cove)
        bad(cove)
        lists(cove)
        large(cove)
        tenants(cove)
        c.ok(no_box(cove), "no sandbox is left")
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    c.done()


main()
