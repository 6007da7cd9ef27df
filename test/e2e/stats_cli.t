#!/usr/bin/env python3
"""The verbs top, stats, usage and budget: tables for people, JSON for programs, a live picture on a terminal."""
import csv
import io
import json
import os
import pty
import select
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
cove = c.Cove()
cli = c.Cli(cove.data)
WAIT = 60
busy, idle = cove.create(name="busy", labels={"team": "red"}), cove.create(name="idle")
cove.run(busy, "(while :; do :; done) > /dev/null 2>&1 &")
c.until(lambda: (cove.get("/v1/sandboxes/busy/stats").json["cpu"]["cores"] or 0) > 0.3, WAIT, 0.6)

# The rows behind it
rows = cove.get("/v1/sandboxes?view=summary").json["items"]
c.same({key for key in rows[0]}, {"id", "shortId", "name", "state", "reason", "tenant", "template", "labels", "createdAt", "cpu", "memory", "pids",
                                  "disk", "requests", "limits"}, "a summary has a row for each sandbox")
c.ok(all(len(json.dumps(row)) < 600 for row in rows), "a short one", rows)
c.same(cove.get("/v1/sandboxes?view=cheese").status, 400, "there is one view")

# top
lines = [json.loads(line) for line in cli("top").out.decode().splitlines()]
c.ok("cpu" in lines[0] and lines[0]["sandboxes"]["running"] == 2, "top prints the host's line without a terminal", lines[0])
c.same([line["name"] for line in lines[1:]], ["busy", "idle"], "and one a sandbox, the busiest first")
c.same(len(cli("top", "-l", "team=red", "--json").out.decode().splitlines()), 2, "only those with a label")
pid, fd = pty.fork()
if pid == 0:
    os.environ.update({"TERM": "xterm", "COLUMNS": "120"})
    os.execv(c.BIN, [c.BIN, "top", "--data", cove.data, "--every", "200ms"])
seen, end = b"", time.monotonic() + WAIT
while seen.count(b"\x1b[2J") < 3 and time.monotonic() < end:
    if select.select([fd], [], [], 0.5)[0]:
        seen += os.read(fd, 65536)
os.kill(pid, 2)
os.waitpid(pid, 0)
os.close(fd)
c.ok(seen.count(b"\x1b[2J") >= 3 and b"busy" in seen and b"2 running" in seen, "on a terminal it is a picture that is drawn again and again", seen[-600:])

# stats
c.ok("CPU" in cli("stats", "busy").out.decode() and " of 1.00" in cli("stats", "busy").out.decode(), "stats of a sandbox are lines", cli("stats", "busy"))
c.same(json.loads(cli("stats", "busy", "--json").out.decode())["sandbox"], busy["id"], "or JSON")
c.ok("CPU, host" in cli("stats").out.decode() and "Memory, all sandboxes" in cli("stats").out.decode(), "of the host, too", cli("stats"))
c.ok(cli("stats", "nobody").status != 0, "of an unknown one it fails")

# usage
table = cli("usage", "--by", "label:team").out.decode()
c.ok("CPU S" in table and "red" in table and "total:" in table, "usage is a table", table)
c.ok(json.loads(cli("usage", "--json").out.decode())["total"]["cpuSeconds"] > 0.3, "or JSON")
parsed = list(csv.DictReader(io.StringIO(cli("usage", "--format", "csv").out.decode())))
c.same(len(parsed), 2, "or CSV")
c.ok("bad_field" in cli("usage", "--by", "cheese", "--json").err or cli("usage", "--by", "cheese").status != 0, "a bad key fails")

# budget
c.same(cli("budget", "set", "reds", "--label", "team=red", "--period", "day", "--cpu-time", "100h").status, 0, "a budget is set")
c.same(cove.get("/v1/budgets/reds").json["cpuSeconds"], 360000, "in seconds")
c.ok("label team=red" in cli("budget", "ls").out.decode() and "360000 cpuSeconds" in cli("budget", "ls").out.decode(), "and listed", cli("budget", "ls"))
c.same(json.loads(cli("budget", "inspect", "reds").out.decode())[0]["state"], "ok", "and shown")
c.ok(cli("budget", "set", "x", "--cost", "1").status != 0 and "--tenant" in cli("budget", "set", "x", "--cost", "1").err, "it is of one thing")
c.ok("reds" in cli("words", "budgets").out.decode(), "completion knows it")
c.same(cli("budget", "rm", "reds").status, 0, "and removed")
c.same(cove.get("/v1/budgets/reds").status, 404, "it is gone")
cove.close()
c.done()
