#!/usr/bin/env python3
"""The life of sandboxes over the API: create, get, list, get-or-create, delete, loss."""
import os
import re
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def create_and_get(cove):
    reply = cove.post("/v1/sandboxes", {"name": "web", "labels": {"team": "red"},
                                        "env": {"GREETING": "hi"},
                                        "limits": {"memoryMB": 128, "cpus": 0.5, "pids": 64}})
    c.same(reply.status, 201, "a create answers 201")
    box = reply.json
    c.ok(re.fullmatch("box-[0-9a-f]{48}", box["id"]), "its id has the form box- and 48 hex digits")
    c.same(reply.headers["Location"], "/v1/sandboxes/" + box["id"], "Location names it")
    c.same(box["shortId"], box["id"][4:16], "the short id is its beginning")
    c.same(sorted(box), sorted(["id", "shortId", "name", "state", "template", "limits", "labels",
                                "network", "createdAt", "startedAt", "endsAt", "sleepAfter",
                                "keepAlive", "archiveAfter", "containerTimeouts", "token", "baseUrl", "user", "workdir"]),
           "the answer has the fields of docs/API.md")
    c.same((box["state"], box["template"], box["labels"], box["network"], box["endsAt"]),
           ("running", "host", {"team": "red"}, {"mode": "all"}, None), "and their values")
    limits = box["limits"]
    c.same((limits["memoryMB"], limits["cpus"], limits["pids"], limits["outputMB"],
            limits["cpuTimeMs"], limits["wallTimeMs"]), (128, 0.5, 64, 64, None, None),
           "limits are shown, null when there is none")
    for key in (box["id"], box["shortId"], "web"):
        c.same(cove.get("/v1/sandboxes/" + key).json["id"], box["id"], "it is found by " + key)
        c.same(cove.out(key, "echo $GREETING"), "hi\n", "and runs commands by " + key)
    c.same(cove.out(box, "hostname"), "web\n", "its host name is its name")
    c.same(cove.post("/v1/sandboxes", {"name": "web"}).json["reason"], "name_taken",
           "a second sandbox of that name is refused")
    return box


def get_or_create(cove):
    first = cove.request("PUT", "/v1/sandboxes/mine", {"limits": {"pids": 32}})
    c.same((first.status, first.json["name"]), (201, "mine"), "PUT makes the sandbox of a name")
    again = cove.request("PUT", "/v1/sandboxes/mine", {"limits": {"pids": 99}})
    c.same((again.status, again.json["id"], again.json["limits"]["pids"]),
           (200, first.json["id"], 32), "PUT again gives the same, whatever the body wants")
    answers = []
    racers = [threading.Thread(target=lambda: answers.append(
        cove.request("PUT", "/v1/sandboxes/race"))) for _ in range(8)]
    [racer.start() for racer in racers]
    [racer.join() for racer in racers]
    c.same((sorted(a.status for a in answers), len({a.json["id"] for a in answers})),
           ([200] * 7 + [201], 1), "of eight at once one makes it, and all get the same")
    c.same(cove.request("PUT", "/v1/sandboxes/" + first.json["id"]).status, 400,
           "an id is no name to make a sandbox by")
    c.same(cove.request("PUT", "/v1/sandboxes/a", {"name": "b"}).status, 400,
           "a name in the body that differs from the path is refused")
    cove.delete("mine"), cove.delete("race")


def lists(cove):
    boxes = [cove.create(labels={"kind": "list", "n": str(i % 2)}) for i in range(5)]
    ids = [box["id"] for box in boxes]
    page = cove.get("/v1/sandboxes?label=kind=list").json
    c.same([item["id"] for item in page["items"]], ids, "a list by label, in order of creation")
    c.same(page["cursor"], None, "the last page has no cursor")
    page = cove.get("/v1/sandboxes?label=kind%3Dlist&label=n=1").json
    c.same([item["id"] for item in page["items"]], ids[1::2], "several labels must all match")
    for query in ("label=n=0&label=n=1", "label=n=1&label=n=0"):
        c.same(cove.get("/v1/sandboxes?label=kind=list&" + query).json,
               {"items": [], "cursor": None}, query + " can match nothing")
    page = cove.get("/v1/sandboxes?label=n=1&label=n=1").json
    c.same([item["id"] for item in page["items"]], ids[1::2], "the same label twice is one")
    seen, cursor = [], ""
    while cursor is not None:
        page = cove.get("/v1/sandboxes?label=kind=list&limit=2" + cursor).json
        seen += [item["id"] for item in page["items"]]
        cursor = page["cursor"] and "&cursor=" + page["cursor"]
    c.same(seen, ids, "pages meet without gap or overlap")
    c.same(cove.get("/v1/sandboxes?label=kind=none").json, {"items": [], "cursor": None},
           "no match is an empty list")
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=-1", "label=x",
                  "label=%00=1"):
        c.same(cove.get("/v1/sandboxes?" + query).status, 400, query + " is refused")
    for box in boxes:
        cove.delete(box)


def deletes(cove):
    box = cove.create()
    c.same((cove.delete(box).status, cove.delete(box).status), (204, 404),
           "a delete answers 204, the next one 404")
    c.same(cove.get("/v1/sandboxes/" + box["id"]).status, 404, "and it is no longer found")
    box = cove.create()
    c.same(cove.request("DELETE", "/v1/sandboxes/%s?wait=false" % box["id"]).status, 202,
           "without waiting it answers 202")
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/" + box["id"]).status == 404), "and it goes")
    box, statuses = cove.create(), []
    many = [threading.Thread(target=lambda: statuses.append(cove.delete(box).status))
            for _ in range(8)]
    [one.start() for one in many]
    [one.join() for one in many]
    c.ok(204 in statuses and set(statuses) <= {204, 404}, "eight deletes at once are one", statuses)

    box, ends = cove.create(), []
    runner = threading.Thread(target=lambda: ends.append(cove.execute(box, "sleep 60")))
    runner.start()
    c.until(lambda: cove.out(box, "pgrep -fxc 'sleep 60'; true") == "1\n")
    begin = time.monotonic()
    c.same(cove.delete(box).status, 204, "a delete while a command runs")
    c.ok(time.monotonic() - begin < 30, "does not wait for its end")
    runner.join(10)
    c.ok(ends and (ends[0].status == 410 or ends[0].json.get("ended") == "killed_by_api"),
         "and the command ends as killed by the API", ends)

    maker, made = threading.Thread(target=lambda: made.append(
        cove.request("PUT", "/v1/sandboxes/early"))), []
    maker.start()
    status = c.until(lambda: cove.delete("early").status == 204, 30, 0.0005)
    maker.join()
    c.ok(status and made[0].status == 201, "a delete that comes while it is made ends it", made)
    c.same(cove.get("/v1/sandboxes/early").status, 404, "and leaves nothing")


def lose(cove, box):
    victim = first_processes(cove, "cove-init")
    c.same(len(victim), 1, "the sandbox's pid 1 is seen from the host")
    os.kill(victim[0], signal.SIGKILL)
    got = c.until(lambda: cove.get("/v1/sandboxes/" + box["id"]).json["state"] == "failed")
    c.ok(got, "a sandbox whose pid 1 dies is shown as failed")


def revived(cove):
    """PUT of a name whose sandbox has failed: nobody wants the corpse."""
    first = cove.request("PUT", "/v1/sandboxes/phoenix").json
    lose(cove, first)
    answers = []
    racers = [threading.Thread(target=lambda: answers.append(
        cove.request("PUT", "/v1/sandboxes/phoenix", {"labels": {"life": "2"}}))) for _ in range(4)]
    [racer.start() for racer in racers]
    [racer.join() for racer in racers]
    ids = {a.json.get("id") for a in answers}
    c.ok(sorted(a.status for a in answers) == [200] * 3 + [201] and len(ids) == 1 and
         first["id"] not in ids and {a.json["state"] for a in answers} == {"running"},
         "PUT of a failed sandbox makes a new one, once", answers)
    c.same(cove.out("phoenix", "echo alive"), "alive\n", "that works")
    c.same(cove.get("/v1/sandboxes/" + first["id"]).status, 404, "and the failed one is gone")
    cove.delete("phoenix")


def losses(cove):
    box = cove.create()
    lose(cove, box)
    reply = cove.execute(box, "true")
    c.same((reply.status, reply.json["reason"]), (410, "box_lost"), "commands in it are refused")
    c.same(cove.delete(box).status, 204, "and it can be deleted")


def first_processes(cove, name):
    """The pids 1 of that name: one that is made ahead, to become the next sandbox, has another."""
    warden = str(cove.children()["warden"])
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_pid1(pid, warden, name)]


def is_pid1(pid, parent, name):
    try:
        status = open("/proc/%s/status" % pid, errors="replace").read()
    except OSError:
        return False
    spaces = re.search(r"NSpid:\s+(.*)", status).group(1).split()
    of = re.search(r"PPid:\s+(\d+)", status).group(1)
    return len(spaces) > 1 and spaces[-1] == "1" and of == parent and "\t%s\n" % name in status


def client_gone(cove):
    """A client that leaves during its create leaves no sandbox that nobody knows."""
    count = len(cove.get("/v1/sandboxes").json["items"])
    warden = cove.children()["warden"]
    os.kill(warden, signal.SIGSTOP)  # so that none of them is over before
    try:
        clients = [c.socket.create_connection(("127.0.0.1", cove.port)) for _ in range(10)]
        for sock in clients:
            sock.sendall(("POST /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: "
                          "Bearer %s\r\nContent-Length: 0\r\n\r\n" % (cove.port, cove.key)).encode())
        begun = c.until(lambda: len(cove.get("/v1/sandboxes").json["items"]) == count + 10)
        for sock in clients:
            sock.close()
    finally:
        os.kill(warden, signal.SIGCONT)
    c.ok(begun and c.until(lambda: len(cove.get("/v1/sandboxes").json["items"]) == count),
         "clients that leave during their create leave no sandbox")


def ahead_killed(cove):
    """What is laid ahead for the next sandbox may be killed in the very moment it is wanted."""
    replies, killed = [], 0
    for _ in range(20):
        c.until(lambda: cove.get("/v1/verify").json["counts"]["prebuilt"] == 1)
        for pid in first_processes(cove, "cove-prebuilt"):
            os.kill(pid, signal.SIGKILL)
            killed += 1
        replies.append(cove.post("/v1/sandboxes", {}))
        if replies[-1].status == 201:
            cove.delete(replies[-1].json)
    c.same([reply.json for reply in replies if reply.status != 201], [], "a create whose ground is killed is none the worse")
    c.ok(killed >= 15, "and it was killed", killed)


c.need_root()
cove = c.Cove()
cove.delete(cove.create())
before = c.calm(cove)
box = create_and_get(cove)
get_or_create(cove)
lists(cove)
deletes(cove)
cove.delete(box)
losses(cove)
revived(cove)
client_gone(cove)
ahead_killed(cove)
c.same(c.settled(before, cove), {}, "the census is as before")
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
