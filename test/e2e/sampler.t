#!/usr/bin/env python3
"""The sampler: every running sandbox is read about every ten seconds, at little cost, and its memory does not grow. With
COVE_SOAK=1 there are 2,000 of them, and they cost less than 3 % of one core."""
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
SOAK = os.environ.get("COVE_SOAK") == "1"
COUNT, SPAN, ROUNDS = (2000, 60, 5) if SOAK else (60, 25, 2)
cove = c.Cove("--sleep-after=1h")
HZ = os.sysconf("SC_CLK_TCK")


def spent(pid):
    with open("/proc/%d/stat" % pid, errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HZ


def resident(pid):
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


daemon, warden = (cove.children()[role] for role in ("daemon", "warden"))
time.sleep(2)
began = spent(daemon) + spent(warden)
time.sleep(SPAN)
bare = (spent(daemon) + spent(warden) - began) / SPAN
with ThreadPoolExecutor(8) as pool:
    boxes = list(pool.map(lambda _: cove.create(limits={"memoryMB": 32}, network={"mode": "off"}, ephemeral=True), range(COUNT)))


def rows():
    found, cursor = [], ""
    while True:
        page = cove.get("/v1/sandboxes?view=summary&limit=1000" + cursor).json
        found += page["items"]
        if not page["cursor"]:
            return found
        cursor = "&cursor=" + page["cursor"]


c.ok(c.until(lambda: all(row["memory"] for row in rows()), 120, 1), "every one of %d sandboxes has a sample" % COUNT)
time.sleep(15)  # what the creates left to do
shares, sizes = [], [resident(daemon)]
for _ in range(ROUNDS):
    before = spent(daemon) + spent(warden)
    time.sleep(SPAN)
    shares.append((spent(daemon) + spent(warden) - before) / SPAN)
    sizes.append(resident(daemon))
c.note("%d sandboxes: %s %% of a core, %.2f %% without any; %s KiB" %
       (COUNT, ["%.2f" % (share * 100) for share in shares], bare * 100, [size >> 10 for size in sizes]))
c.ok(min(shares) < (0.03 if SOAK else 0.05), "Must show 3: all that the daemon and the warden do for them is less than 3 % of one core", shares)
c.ok(sizes[-1] - sizes[0] < (4 << 20), "and the daemon does not grow", sizes)
scrapes = []
for _ in range(20):
    began = time.monotonic()
    cove.get("/metrics")
    scrapes.append(time.monotonic() - began)
c.ok(sorted(scrapes)[10] < (0.05 if SOAK else 0.2), "Must show 3: a scrape of all of them takes less than 50 ms", scrapes)
old = cove.get("/v1/sandboxes/%s/stats" % boxes[0]["id"]).json
c.ok(old["ageMs"] < 60000 and old["epoch"] == 1, "a sample is fresh", old)
cove.close()
c.done()
