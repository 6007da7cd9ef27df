#!/usr/bin/env python3
"""What survives: records over restarts and kills, answers under a key, ends that were promised; and
what happens when the state is full, read-only, corrupt or of a newer cove. Real faults: a loop file
system that is filled, bytes that are written over, processes that are shot."""
import asyncio
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import cove as c


def state(cove):
    return os.path.join(cove.data, "daemon", "cove.db")


def edit(cove, *statements):
    """Offline, as an operator could."""
    with sqlite3.connect(state(cove)) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def health(cove):
    return cove.get("/v1/health").json["store"]


def up(cove):
    try:
        return cove.get("/v1/health").json["status"] == "ok"
    except (OSError, ValueError, c.http.client.HTTPException):
        return False


def shoot(cove, *roles):
    """kill -9 of children; returns when others are there and the manager is whole again."""
    pids = cove.children()
    for role in roles:
        os.kill(pids[role], signal.SIGKILL)
    c.until(lambda: all(cove.children().get(r, pids[r]) != pids[r] for r in roles))
    return c.until(lambda: up(cove))


def record(cove, box):
    return cove.get("/v1/sandboxes/" + box["id"])


def reason(reply):
    return reply.status, reply.json.get("reason")


def kept_over_restarts():
    cove = c.Cove()
    box = cove.create(name="web", labels={"team": "red"}, env={"A": "1"}, limits={"memoryMB": 128})
    other = cove.create()
    cove.run(box, "echo kept > /workspace/note; setsid sleep 1000 >/dev/null 2>&1 &")
    first = record(cove, box).json
    cove.request("PATCH", "/v1/sandboxes/web", {"labels": {"shift": "late"}})
    first["labels"]["shift"] = "late"

    c.ok(shoot(cove, "daemon"), "the daemon is shot and comes back")
    c.same({**record(cove, box).json, "usage": None}, {**first, "usage": None}, "the record is the same, word for word")
    c.same([item["id"] for item in cove.get("/v1/sandboxes").json["items"]], [box["id"], other["id"]],
           "the list has its order")
    c.same(cove.out(box, "cat /workspace/note; pgrep -c sleep"), "kept\n1\n", "files and processes lived on")
    c.ok(shoot(cove, "warden"), "the warden is shot and comes back")
    c.same(cove.out(box, "cat /workspace/note; pgrep -c sleep"), "kept\n1\n", "files and processes lived on")
    c.kill_all(cove)
    cove.start()
    c.ok(c.until(lambda: up(cove)), "everything is shot, and started again")
    c.same(cove.out("web", "cat /workspace/note; pgrep -c sleep; echo $A"), "kept\n1\n1\n",
           "files, processes and environment are there")

    c.same(cove.delete(other).status, 204, "one sandbox is deleted")
    c.same(cove.stop(), 0, "SIGTERM stops everything")
    c.same(c.remains(cove), {}, "nothing runs, nothing is mounted")
    cove.start()
    got = record(cove, box).json
    c.same((got["state"], got["labels"]), ("stopped", {"team": "red", "shift": "late"}), "its record says stopped")
    c.same(record(cove, other).status, 404, "the deleted one stays deleted")
    c.same(cove.out(box, "cat /workspace/note; pgrep -c sleep; true"), "kept\n0\n", "a request starts it, with its files")
    c.same(record(cove, box).json["state"], "running", "and it runs")
    return cove


def promises(cove):
    """Idempotency keys and intents."""
    head = {"Idempotency-Key": "order-1"}
    made = cove.post("/v1/sandboxes", {"name": "once"}, headers=head)
    c.ok(shoot(cove, "daemon"), "the daemon is shot after an answer under a key")
    again = cove.post("/v1/sandboxes", {"name": "once"}, headers=head)
    c.same((again.status, again.json, again.headers.get("Idempotency-Replayed")), (201, made.json, "true"),
           "the same key has the same answer")
    c.same(reason(cove.post("/v1/sandboxes", {"name": "twice"}, headers=head)), (409, "idempotency_mismatch"),
           "and is still refused for another request")

    c.kill_all(cove)
    edit(cove, "DELETE FROM idempotency")
    cove.start()
    again = cove.post("/v1/sandboxes", {"name": "once"}, headers=head)
    c.same((again.status, again.json["id"]), (201, made.json["id"]),
           "made, but never answered: the retry gets that one, not another")

    # As a crash between the intent and its deed leaves it.
    cove.stop()
    ghost = "box-" + "0" * 48
    edit(cove,
         "UPDATE boxes SET state = 'deleting' WHERE name = 'once'",
         "INSERT INTO boxes SELECT '%s', 900, tenant, 'ghost', 'creating', body FROM boxes WHERE name = 'once'" % ghost)
    cove.start()
    gone = [c.until(lambda: cove.get("/v1/sandboxes/" + name).status == 404) for name in ("once", "ghost")]
    c.same(gone, [True, True], "an end that was intended is carried out; what was never made is forgotten")
    c.ok(c.until(lambda: not sql(cove, "SELECT id FROM boxes WHERE name IN ('once', 'ghost')")), "their records are gone")

    # A cell that no record names, and a record that cannot be read.
    cove.run("web", "true")
    c.kill_all(cove)
    bad = sql(cove, "SELECT id FROM boxes WHERE name = 'web'")[0][0]
    edit(cove, "UPDATE boxes SET body = 'garbage' WHERE name = 'web'")
    cove.start()
    got = cove.get("/v1/sandboxes/" + bad).json
    c.same((got["state"], got["reason"]), ("failed", "record_unreadable"), "27: a record that cannot be read is failed, not absent")
    c.ok(any(bad in group for group in c._groups(cove.instance())), "and nothing of it is ended")
    c.same(cove.request("DELETE", "/v1/sandboxes/" + bad).status, 204, "but it can be deleted")
    c.same(cove.get("/v1/sandboxes/" + bad).status, 404, "then it is gone")

    stray = cove.create()
    c.kill_all(cove)
    edit(cove, "DELETE FROM boxes")
    cove.start()
    c.same(cove.get("/v1/sandboxes/" + stray["id"]).status, 404, "a box without a record was never promised")
    c.ok(c.until(lambda: not any(stray["id"] in group for group in c._groups(cove.instance()))), "and is destroyed")


def sql(cove, question):
    """Reads a copy: the state is the daemon's alone while it runs."""
    copy = cove.data + ".copy"
    for end in ("", "-wal"):
        if os.path.exists(state(cove) + end):
            shutil.copy(state(cove) + end, copy + end)
    db = sqlite3.connect(copy)
    rows = db.execute(question).fetchall()
    db.close()
    return rows


async def burst(cove, count):
    """That many creates in one instant: every connection is there before the first request is sent."""
    body = b"{}"
    head = ("POST /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
            "Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
            % (cove.port, cove.key, len(body))).encode()
    pairs = [await asyncio.open_connection("127.0.0.1", cove.port) for _ in range(count)]
    for _, writer in pairs:
        writer.write(head + body)
    answers = await asyncio.gather(*[reader.read() for reader, _ in pairs])
    for _, writer in pairs:
        writer.close()
    return [int(answer.split(b" ", 2)[1]) if answer else 0 for answer in answers]


def few_syncs(cove):
    """Each create writes its intent and its result; a host that is busy may refuse some in between."""
    count = 20 if c.SHORT else 100
    before = health(cove)
    statuses = asyncio.run(burst(cove, count))
    c.until(lambda: not health(cove)["waiting"])
    after = health(cove)
    deeds, commits = after["deeds"] - before["deeds"], after["commits"] - before["commits"]
    c.note("%d creates: %d deeds in %d commits" % (count, deeds, commits))
    c.ok(set(statuses) <= {201, 429} and 201 in statuses, "%d creates at once" % count, statuses)
    c.ok(deeds > count and commits * 2 <= deeds, "fewer syncs than deeds", deeds, commits)
    for item in cove.get("/v1/sandboxes?limit=1000").json["items"]:
        cove.delete(item)


class Loop:
    """A small ext4 of our own for DATA/daemon, taken down again whatever happens."""

    def __init__(self, home, megabytes=16):
        self.image, self.where = os.path.join(home, "state.img"), os.path.join(home, "data", "daemon")
        os.makedirs(self.where)
        os.chmod(os.path.dirname(self.where), 0o711)
        with open(self.image, "wb") as file:
            file.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", self.image], check=True)
        subprocess.run(["mount", "-o", "loop", self.image, self.where], check=True)

    def fill(self):
        with open(os.path.join(self.where, "fill"), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass

    def free(self):
        os.unlink(os.path.join(self.where, "fill"))

    def close(self):
        subprocess.run(["umount", self.where], check=False)


def full_disk():
    home = c.tempfile.mkdtemp(prefix="cove-test-")
    os.chmod(home, 0o711)
    loop = Loop(home)
    cove = c.Cove(data=os.path.join(home, "data"))
    try:
        full_story(cove, loop)
    finally:
        cove.stop()
        loop.close()
        shutil.rmtree(home, ignore_errors=True)


def grouped(cove):
    """The ids that have a cgroup, but for the one whose ground is laid ahead."""
    laid = set()
    for pid in c._pids():
        try:
            if c._comm(pid) == "cove-prebuilt" and c._is_boxed(pid, cove.instance()):
                laid.add(open("/proc/%s/cgroup" % pid).read().split("box-")[1][:48])
        except (OSError, IndexError):
            pass
    return {group.split("box-")[1][:48] for group in c._groups(cove.instance()) if "box-" in group} - laid


def full_story(cove, loop):
    box, doomed = cove.create(name="runs"), cove.create()
    cove.run(box, "setsid sleep 1000 >/dev/null 2>&1 &")
    loop.fill()
    # The journal has a little room in itself: until that is used up, changes are good ones. Meanwhile admission may have seen
    # that the disk is full, and say that.
    replies = []

    def refused():
        cove.request("PATCH", "/v1/sandboxes/runs", {"labels": {"n": "x" * 200 + str(len(replies))}})
        replies.append(cove.post("/v1/sandboxes", {}))
        return reason(replies[-1]) == (503, "state_unwritable")
    c.ok(c.until(refused, 30, 0), "a full state refuses new sandboxes at last, and says why", replies[-1])
    c.ok({reply.status for reply in replies} <= {201, 503, 507}, "and nothing else is said on the way", replies)
    c.ok(replies[-1].json["retryable"], "the request is retryable")
    c.same(health(cove)["health"], "unwritable", "health says so")
    made = [box["id"], doomed["id"]] + [reply.json["id"] for reply in replies if reply.status == 201]
    made = {name.split("box-")[1] for name in made}
    c.ok(c.until(lambda: grouped(cove) == made), "nothing was started unrecorded", (grouped(cove), made))
    c.same(cove.out(box, "pgrep -c sleep"), "1\n", "running work goes on")
    c.same(record(cove, box).status, 200, "reads are answered")
    c.same(cove.delete(doomed).status, 204, "a delete has its reserve")
    c.ok(shoot(cove, "daemon") or True, "the daemon is shot meanwhile")
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/runs").status == 200), "the next one knows its boxes")
    c.same(record(cove, doomed).status, 404, "and its deletes")
    c.same(cove.out(box, "pgrep -c sleep"), "1\n", "and nothing was ended")
    loop.free()
    c.ok(c.until(lambda: cove.post("/v1/sandboxes", {}).status == 201), "with room it resumes by itself")
    c.same(health(cove)["health"], "fine", "and is fine again")

    # Read-only: what is known is known, nothing new is done, and it resumes.
    c.kill_all(cove)
    c.ok(c.until(lambda: subprocess.run(["mount", "-o", "remount,ro", loop.where], stderr=subprocess.DEVNULL).returncode == 0),
         "the state becomes read-only")
    cove.start()
    c.same(cove.get("/v1/sandboxes/runs").status, 200, "read-only: the records are known")
    c.same(reason(cove.post("/v1/sandboxes", {})), (503, "state_unwritable"), "and nothing new is made")
    c.same(cove.out(box, "pgrep -c sleep"), "1\n", "running sandboxes keep running")
    subprocess.run(["mount", "-o", "remount,rw", loop.where], check=True)
    c.ok(c.until(lambda: cove.post("/v1/sandboxes", {}).status == 201), "writable again: it resumes by itself")


def tapes(cove):
    """What was run, what it wrote and how it ended is found by its folder: after a stop, a kill, a restart."""
    box = cove.create(name="taped")
    where = "/v1/sandboxes/taped/api/process"
    cove.post(where + "/start", {"command": "echo one; echo two >&2", "processId": "brief"})
    cove.post(where + "/start", {"command": "echo begun; sleep 1000", "processId": "long"})

    def seen():
        found = {p["id"]: (p["status"], p.get("exitCode")) for p in cove.get(where + "/list").json["processes"]}
        logs = [cove.get(where + "/%s/logs" % name).json for name in ("brief", "long")]
        return found, [(log["stdout"], log["stderr"], log["offset"]) for log in logs]
    output = [("one\n", "two\n", 8), ("begun\n", "", 6)]
    c.until(lambda: seen()[1] == output and seen()[0]["brief"][0] == "completed")
    cove.post("/v1/sandboxes/taped/stop")
    shoot(cove, "daemon")
    ended = {"brief": ("completed", 0), "long": ("killed", 137)}
    c.same(seen(), (ended, output), "stopped, and the daemon is shot: outputs and ends are known")
    cove.post("/v1/sandboxes/taped/stop")
    c.kill_all(cove)
    cove.start()
    c.same(seen(), (ended, output), "stopped, and all is shot: still")
    cove.delete(box)
    folder = os.path.join(cove.data, "daemon", "tapes", box["id"])
    c.ok(c.until(lambda: not os.path.exists(folder)), "they go with their sandbox")


def corrupt(cove):
    box = cove.create(name="patient")
    cove.run(box, "setsid sleep 1000 >/dev/null 2>&1 &")
    c.kill_all(cove)
    good = [end for end in ("", "-wal") if os.path.exists(state(cove) + end)]
    for end in good:
        subprocess.run(["cp", "-p", state(cove) + end, cove.data + ".good" + end], check=True)
    with open(state(cove), "r+b") as file:
        file.write(b"\x5a" * 4096)
    if os.path.exists(state(cove) + "-wal"):
        os.unlink(state(cove) + "-wal")
    cove.start()
    c.same(health(cove)["health"], "corrupt", "a corrupt state is told in health")
    c.same(reason(cove.post("/v1/sandboxes", {})), (503, "state_corrupt"), "new work is refused")
    c.same(reason(record(cove, box)), (503, "state_corrupt"), "with an unreadable state no request gets 404")
    c.same(reason(cove.get("/v1/sandboxes")), (503, "state_corrupt"), "nor that there is nothing")
    time.sleep(1)
    c.ok(any(box["id"] in group for group in c._groups(cove.instance())), "nothing is reaped")
    c.kill_all(cove)
    for end in good:
        subprocess.run(["cp", "-p", cove.data + ".good" + end, state(cove) + end], check=True)
    cove.start()
    c.same(cove.out("patient", "pgrep -c sleep"), "1\n", "restored, the box is there with what runs in it")


def refused(cove, what):
    """Does not start, soon, and says why: to the log, and by its exit status."""
    said = os.path.getsize(cove.log_path)
    begin = time.monotonic()
    try:
        cove.start()
        c.ok(False, "%s is refused" % what)
        c.kill_all(cove)
    except RuntimeError:
        c.ok(cove.process.returncode != 0 and time.monotonic() - begin < 20, "%s is refused, soon" % what, cove.process.returncode)
    cove.process = None
    return cove.log_text()[said:]


def too_new(cove):
    """An older cove leaves alone what a newer one wrote: the state, and the notes of what runs."""
    c.kill_all(cove)
    now = sqlite3.connect(state(cove)).execute("SELECT version FROM schema").fetchone()[0]
    edit(cove, "UPDATE schema SET version = 999", "CREATE TABLE of_the_future (x)")
    words = refused(cove, "the state of a newer cove")
    c.ok("state_too_new" in words and "999" in words and "knows %d" % now in words, "with a clear word: both versions", words[-2000:])
    c.ok(sqlite3.connect(state(cove)).execute("SELECT version FROM schema").fetchone()[0] == 999, "and left as it is")
    edit(cove, "UPDATE schema SET version = %d" % now, "DROP TABLE of_the_future")

    box = sqlite3.connect(state(cove)).execute("SELECT id FROM boxes WHERE name = 'patient'").fetchone()[0]
    note = os.path.join(cove.data, "run", "cells", box)
    text = open(note).read()
    with open(note, "w") as file:
        file.write(text.replace("cove-cell 1\n", "cove-cell 9\n", 1))
    words = refused(cove, "the note of a newer cove")
    c.ok("state_too_new" in words and box in words, "with a clear word: whose it is", words[-2000:])
    c.ok(any(box in group for group in c._groups(cove.instance())), "and what runs is left alone")
    with open(note, "w") as file:
        file.write(text)
    cove.start()
    c.same(cove.out("patient", "pgrep -c sleep"), "1\n", "nothing was touched")


def older_state(cove):
    """The tables of the first version, with what is in them now: brought to today's, and nothing is missed."""
    events = cove.get("/v1/events?limit=1000").json["items"]
    c.kill_all(cove)
    edit(cove, "DROP INDEX events_of_tenant", "DROP INDEX audit_of_tenant",
         "ALTER TABLE events DROP COLUMN own", "ALTER TABLE audit DROP COLUMN own",
         "CREATE INDEX events_of_tenant ON events (tenant, id)", "CREATE INDEX audit_of_tenant ON audit (tenant, id)",
         "DELETE FROM counters WHERE name LIKE 'event/%' OR name LIKE 'audit/%' OR name LIKE 'gone/%'",
         "UPDATE counters SET name = 'event' WHERE name = 'events/'",
         "DROP TABLE egress", "DROP TABLE egress_sums", "DROP INDEX runs_by_age", "ALTER TABLE sessions DROP COLUMN made",
         "ALTER TABLE leases DROP COLUMN made", "ALTER TABLE runs DROP COLUMN made",
         "CREATE TABLE tapes (sandbox TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (sandbox, id))",
         "DROP TABLE usage_charges", "DROP TABLE usage_labels", "DROP TABLE usage_hours", "DROP TABLE usage_meters", "DROP TABLE budgets", "CREATE TABLE usage (tenant TEXT)",
         "DROP TABLE images", "DROP TABLE layers", "DROP TABLE operations", "DROP TABLE execution_ends", "DROP TABLE execution_totals",
         "DROP TABLE alerts", "DROP TABLE alert_rules", "DROP TABLE notices", "DROP TABLE executions", "DROP TABLE execution_requests",
         "DROP TABLE results", "DROP TABLE result_files", "DROP TABLE registries", "DROP TABLE volumes",
         "DROP TABLE secrets", "DROP INDEX idempotency_by_age", "ALTER TABLE idempotency RENAME TO pledges", "CREATE INDEX pledges_by_age ON pledges (kept)",
         "UPDATE schema SET version = 1")
    cove.start()
    c.same(cove.out("patient", "pgrep -c sleep"), "1\n", "the state of the first version: its sandboxes are there")
    c.same(cove.get("/v1/events?limit=1000").json["items"][:len(events)], events, "and its events")
    check = cove.get("/v1/audit/check").json
    c.ok(check["ok"] and check["rows"] > 0, "the audit log is whole", check)
    c.same(sql(cove, "SELECT version FROM schema"), [(8,)], "the database has the current version")


def portable():
    """What every database reads: only SQLite's own files may speak its dialect."""
    words = ("PRAGMA", "AUTOINCREMENT", "INSERT OR", "REPLACE INTO", "WITHOUT ROWID", "rowid", "strftime", "datetime(", "ifnull(",
             "GLOB ", "sqlite_", "INTEGER PRIMARY", "IS NOT DISTINCT", "printf(", "json_extract")
    where = os.path.join(c.ROOT, "src", "store")
    found, statements = [], 0
    for name in sorted(os.listdir(where)):
        if not name.endswith(".c") or name.startswith("sqlite"):
            continue
        text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', open(os.path.join(where, name)).read()))
        statements += len(re.findall(r"SELECT|INSERT|UPDATE|DELETE", text))
        found += [(name, word) for word in words if word.lower() in text.lower()]
    c.ok(statements > 40 and not found, "no question speaks a dialect", statements, found)


def in_memory():
    cove = c.Cove("--store=memory")
    cove.create(name="brief")
    c.ok(not os.path.exists(state(cove)), "--store=memory writes no file")
    c.same(cove.stop(), 0, "and ends well")
    cove.close()


c.need_root()
house = kept_over_restarts()
promises(house)
few_syncs(house)
tapes(house)
corrupt(house)
too_new(house)
older_state(house)
c.same(house.stop(), 0, "the end is clean")
c.same(c.remains(house), {}, "nothing is left behind")
house.close()
full_disk()
in_memory()
portable()
c.done()
