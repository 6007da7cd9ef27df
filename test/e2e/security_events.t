#!/usr/bin/env python3
"""Security events of sandboxes: a denied name, a limit that was hit, a path that was refused, marks of a runner that are false. Each
is one event and one line of the log; a sandbox cannot flood the store with them; what is in order causes none."""
import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

MINUTE_MAX = 60  # of each sandbox


def events(cove, box, event=None):
    found, after = [], 0
    while True:
        page = cove.get("/v1/events?kind=security&sandbox=%s&limit=1000&after=%d" % (box, after)).json
        found += [item["fields"] for item in page["items"] if event in (None, item["fields"]["event"])]
        if not page["more"]:
            return found
        after = page["last"]


def one(cove, box, event, what, **fields):
    got = c.until(lambda: events(cove, box, event), 60)
    c.ok(got and len(got) == 1 and {k: got[0].get(k) for k in fields} == fields, "F-7 %s: one event" % what, got)
    lines = [line for line in cove.log_text().splitlines() if '"event":"%s"' % event in line and box in line]
    c.same(len(lines), 1, "F-7 %s: and one line of the log" % what)


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("fine", "../../etc/out", "/abs"):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    return out.getvalue()


def each(cove):
    box = cove.create(network={"mode": "allow", "allow": ["ok.test"]})
    cove.run(box, "getent ahosts evil.test")
    one(cove, box["id"], "egress_denied", "a denied name", name="evil.test", severity="low")
    cove.execute(box, "sleep 60", timeoutMs=300)
    one(cove, box["id"], "limit_hit", "a limit", limit="wall_limit", severity="low")
    path = "/v1/sandboxes/%s/api/" % box["id"]
    reply = cove.post(path + "read", {"path": "/proc/self/environ"})
    c.same((reply.status, reply.json["code"]), (403, "PERMISSION_DENIED"), "a file of /proc is refused")
    one(cove, box["id"], "path_refused", "a path to /proc", path="/proc/self/environ", severity="medium")
    cove.run(box, "echo x > plain; chmod 0 plain; ln -s /proc/1 link")
    c.same(cove.post(path + "read", {"path": "/workspace/none"}).status, 404, "what is not there")
    c.same(len(events(cove, box["id"], "path_refused")), 1, "is no event")
    cove.delete(box)

    box = cove.create()
    reply = cove.request("PUT", "/v1/sandboxes/%s/api/tar?path=/workspace/in" % box["id"], archive(), raw=True, headers={"Content-Type": "application/x-tar"})
    c.ok(reply.status in (200, 201) and reply.json["skipped"] == 2, "entries of an archive that lead out are left out", reply)
    one(cove, box["id"], "path_refused", "an archive that leads out", path="../../etc/out", archive="/workspace/in")
    cove.delete(box)


def marks(cove):
    own, sibling = s.Session(cove, user="m"), s.Session(cove, user="m")
    box = own.made["sandbox_id"]
    c.same([own.fate(own.run(), 60), sibling.fate(sibling.run(), 60), own.fate(own.run(), 60)], ["completed"] * 3, "two runners in one sandbox")
    c.same(events(cove, box), [], "cause no event")
    other = s.Session(cove, user="elsewhere")
    lease = own.lease()
    copied = {"COVE_SESSION": own.id, "COVE_INSTANCE": lease["instance_id"], "COVE_GENERATION": str(lease["generation"] + 7)}
    foreign = {"COVE_SESSION": other.id, "COVE_INSTANCE": "instance_" + "a" * 32, "COVE_GENERATION": "1"}
    cove.post("/v1/sandboxes/%s/api/process/start" % box, {"command": "sleep 600", "env": foreign})
    c.until(lambda: s.programs(cove, box, "sleep"), 60)
    c.same(own.fate(own.run(), 60), "completed", "a process claims to be the runner of another sandbox's session")
    c.same(own.fate(own.run(), 60), "completed", "and is seen more than once")
    one(cove, box, "marker_spoofed", "false marks", claims=other.id, severity="medium")
    c.same(len(s.programs(cove, box, "sleep")), 1, "the process is left alone")
    c.same(other.delete().status, 204, "and that session can be deleted")
    cove.post("/v1/sandboxes/%s/api/process/start" % box, {"command": "sleep 601", "env": copied})
    c.until(lambda: len(s.programs(cove, box, "sleep")) == 2, 60)
    c.same(own.fate(own.run(), 90), "completed", "one that claims to be this session's runner is ended first")
    got = c.until(lambda: (lambda e: e if len(e) == 2 else None)(events(cove, box, "marker_spoofed")), 60)
    c.ok(got and [e["claims"] for e in got] == [other.id, own.id], "and is one event, too", got, events(cove, box))


def flood(cove):
    box = cove.create(network={"mode": "allow", "allow": ["ok.test"]})
    noise = cove.create()
    path = "/v1/sandboxes/%s/api/read" % box["id"]
    for _ in range(4 * MINUTE_MAX):
        cove.post(path, {"path": "/proc/self/environ"})
    cove.run(box, "python3 - <<'END'\nimport socket\nfor i in range(300):\n    try:\n        socket.getaddrinfo('n%d.test' % i, 80)\n    except OSError:\n        pass\nEND\n")
    cove.post("/v1/sandboxes/%s/api/read" % noise["id"], {"path": "/proc/self/environ"})
    c.ok(c.until(lambda: events(cove, noise["id"]), 60), "beside a sandbox that floods, another has its event")
    count = len(events(cove, box["id"]))
    c.ok(10 <= count <= 2 * MINUTE_MAX, "of some hundred refusals in a minute or two, the store has %d at most" % (2 * MINUTE_MAX), count)
    for one_box in (box, noise):
        cove.delete(one_box)


def main():
    cove = s.start()
    try:
        each(cove)
        marks(cove)
        flood(cove)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    c.done()


main()
