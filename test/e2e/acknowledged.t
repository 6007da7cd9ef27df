#!/usr/bin/env python3
"""What a reply tells is known to the next daemon: the daemon is killed the moment that the head of the reply is there. Cells
by their number, variables, processes, sessions, contexts, terminals, exposed ports, the terms of a sandbox."""
import http.client
import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import api, patiently  # noqa: E402

ROUNDS = 20 if os.environ.get("COVE_SOAK") else 3


def told_and_killed(cove, method, path, body):
    """The status and the fields of a reply, of which nothing but the head was needed; then the daemon is dead."""
    pid = cove.children()["daemon"]
    conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=60)
    head = {"Authorization": "Bearer " + cove.key, "Content-Type": "application/json"}
    conn.request(method, path, json.dumps(body), head)
    reply = conn.getresponse()
    os.kill(pid, signal.SIGKILL)
    try:
        text = reply.read()
    except (OSError, http.client.HTTPException):
        text = b""
    conn.close()
    c.until(lambda: cove.children().get("daemon", pid) != pid, 30, 0.01)
    try:
        fields = json.loads(text)
    except ValueError:
        fields = {}
    return reply, fields


def cells(cove, box):
    context = patiently(lambda: cove.post(api(box, "contexts"), {"language": "python"})).json["contextId"]
    lost = []
    for i in range(ROUNDS):
        reply, _ = told_and_killed(cove, "POST", api(box, "execute/code"),
                                   {"context_id": context, "code": "import time; time.sleep(0.3); %d" % i})
        number = reply.headers.get("X-Cell")
        again = patiently(lambda: cove.get(api(box, "contexts/%s/cells/%s" % (context, number))))
        if reply.status != 200 or again.status != 200 or b"execution_complete" not in again.body:
            lost.append((reply.status, number, again.status, again.body[:200]))
    c.same(lost, [], "a cell that was told by its number is found by it, and comes to its end")


def variables(cove, box):
    lost = []
    patiently(lambda: cove.execute(box, "true", sessionId="vars"))
    for i in range(ROUNDS):
        reply, _ = told_and_killed(cove, "POST", api(box, "env"), {"envVars": {"TOLD": "v%d" % i}})
        got = [patiently(lambda: cove.execute(box, "echo $TOLD", sessionId=name)).json["stdout"].strip()
               for name in ("vars", "later%d" % i)]
        if reply.status != 200 or got != ["v%d" % i] * 2:
            lost.append((reply.status, i, got))
    c.same(lost, [], "a variable that was set is set, in a session that lives and in a later one")


def processes(cove, box):
    lost = []
    for i in range(ROUNDS):
        reply, fields = told_and_killed(cove, "POST", api(box, "process/start"),
                                        {"command": "echo p%d; exit %d" % (i, i), "processId": "told-%d" % i})
        end = patiently(lambda: cove.get(api(box, "process/told-%d/wait?timeoutMs=20000" % i)))
        logs = patiently(lambda: cove.get(api(box, "process/told-%d/logs" % i)))
        if reply.status != 200 or end.json.get("exitCode") != i or logs.json.get("stdout") != "p%d\n" % i:
            lost.append((reply.status, end.body[:200], logs.body[:200]))
    c.same(lost, [], "a process that was started has its record, its exit code and its output")


def sessions(cove, box):
    lost = []
    for i in range(ROUNDS):
        reply, _ = told_and_killed(cove, "POST", api(box, "session/create"), {"id": "told-%d" % i, "env": {"MINE": "m%d" % i}})
        names = patiently(lambda: cove.get(api(box, "session/list"))).json["data"]
        got = patiently(lambda: cove.execute(box, "echo $MINE", sessionId="told-%d" % i)).json["stdout"].strip()
        if reply.status != 200 or "told-%d" % i not in names or got != "m%d" % i:
            lost.append((reply.status, names, got))
    c.same(lost, [], "a session that was made is listed, with its variables")


def contexts(cove, box):
    lost = []
    for _ in range(2):
        reply, fields = told_and_killed(cove, "POST", api(box, "contexts"), {"language": "python"})
        known = patiently(lambda: cove.get(api(box, "contexts"))).json["contexts"]
        if reply.status != 200 or (fields and fields["contextId"] not in [each["id"] for each in known]):
            lost.append((reply.status, fields, known))
    c.same(lost, [], "a context that was made is listed")


def ports(cove, box):
    lost = []
    for i in range(ROUNDS):
        reply, fields = told_and_killed(cove, "POST", "/v1/sandboxes/%s/ports" % box["id"], {"port": 8000 + i})
        items = patiently(lambda: cove.get("/v1/sandboxes/%s/ports" % box["id"])).json["items"]
        token = {each["port"]: each.get("token") for each in items}.get(8000 + i)
        if reply.status != 201 or not token or (fields and fields["token"] != token):
            lost.append((reply.status, fields, items))
    c.same(lost, [], "a port that was exposed is exposed, with its token")


def terms(cove, box):
    lost = []
    for i in range(ROUNDS):
        reply, _ = told_and_killed(cove, "PATCH", "/v1/sandboxes/" + box["id"], {"labels": {"told": str(i)}})
        got = patiently(lambda: cove.get("/v1/sandboxes/" + box["id"])).json["labels"].get("told")
        if reply.status != 200 or got != str(i):
            lost.append((reply.status, got, i))
    c.same(lost, [], "a label that was set is set")


def boxes(cove):
    lost = []
    for _ in range(ROUNDS):
        reply, fields = told_and_killed(cove, "POST", "/v1/sandboxes", {})
        made = fields.get("id", "")
        ran = not made or c.until(lambda: patiently(lambda: cove.get("/v1/sandboxes/" + made)).json.get("state") == "running")
        if reply.status != 201 or not ran:
            lost.append((reply.status, made))
    c.same(lost, [], "a sandbox that was made runs")


def pid_1(box):
    """The host's number of a sandbox's first process."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            status, group = open("/proc/%s/status" % pid, errors="replace").read(), open("/proc/%s/cgroup" % pid).read()
        except OSError:
            continue
        if box["id"] in group and status.split("NSpid:")[1].split("\n")[0].split()[1:] == ["1"]:
            return int(pid)
    return None


def failed(cove):
    """A sandbox ends, and everything of cove before its end is verified."""
    box = cove.create()
    cove.run(box, "echo kept >/root/kept; sync /root/kept")
    warden = cove.children()["warden"]
    os.kill(warden, signal.SIGSTOP)
    os.kill(pid_1(box), signal.SIGKILL)
    c.until(lambda: cove.get("/v1/sandboxes/" + box["id"]).json["state"] == "failed")
    cove.get("/v1/events")  # which waits for what is being written
    for pid in (cove.process.pid, cove.children()["daemon"], warden):
        os.kill(pid, signal.SIGKILL)
    cove.process.wait()
    cove.start()
    reply = patiently(lambda: cove.post("/v1/sandboxes/%s/start" % box["id"]))
    c.same(reply.status, 200, "a sandbox that failed, and whose end nobody could write down, is started on its files")
    c.same(reply.status == 200 and cove.out(box, "cat /root/kept"), "kept\n", "and has them")


def main():
    c.need_root()
    cove = c.Cove()
    box = cove.create()
    cells(cove, box)
    variables(cove, box)
    processes(cove, box)
    sessions(cove, box)
    contexts(cove, box)
    ports(cove, box)
    terms(cove, box)
    boxes(cove)
    failed(cove)
    cove.close()
    c.done()


main()
