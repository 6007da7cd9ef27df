#!/usr/bin/env python3
"""A house full of clients: streams, terminals, uploads, short processes, new sandboxes, previews. The daemon is killed under them,
then the binary is swapped by `cove upgrade`, again and again. Nobody sees more than a lost connection: every byte comes
once and in its place, every exit code is told, no file is torn, and every sandbox is the one that it was.

The counts are small; with COVE_SOAK=1 they are a release's: 200 sandboxes, 100 streams, 20 terminals, 40 previews, ten swaps.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import live  # noqa: E402
from visits import Site, expose, serve  # noqa: E402

FULL, SMALL, SHORT = (200, 100, 20, 20, 8, 10, 10, 40), (20, 20, 5, 5, 3, 2, 3, 6), (4, 4, 2, 2, 1, 1, 1, 2)
BOXES, STREAMS, TERMINALS, UPLOADS, WORKERS, KILLS, SWAPS, PREVIEWS = \
    FULL if os.environ.get("COVE_SOAK") else SHORT if c.SHORT else SMALL
GRACE_MS = 500
REST = " and a few words more, so that a line is a line"


def pids(cove, boxes):
    """Who is pid 1 of each sandbox, as the warden has noted it."""
    found = {}
    for box in boxes:
        with open(os.path.join(cove.data, "run", "cells", box["id"])) as file:
            told = dict(line.split(" ", 1) for line in file.read().splitlines() if " " in line)
        found[box["id"]] = (told["pid"], told["started"])
    return found


class House:
    """Every sort of client, in sandboxes that take turns."""

    def __init__(self, cove, boxes, sites):
        self.cove, self.boxes = cove, boxes
        place = lambda i: boxes[i % len(boxes)]  # noqa: E731
        self.codes = [i % 200 for i in range(STREAMS)]
        names = [live.start(cove, place(i), live.counting(REST, code=code)) for i, code in enumerate(self.codes)]
        self.streams = [live.Follower(cove, place(i), name, 600) for i, name in enumerate(names)]
        # A screen remembers 256 KiB, and that must be all of it.
        slow = [live.counting(lines=2, pause="0.2", code=100 + i) for i in range(TERMINALS)]
        self.terminals = [live.Watcher(cove, place(7 * i), command) for i, command in enumerate(slow)]
        self.uploads = [live.Uploader(cove, place(3 * i), "up-%d" % i) for i in range(UPLOADS)]
        self.workers = [live.Worker(cove, place(5 * i), "w%d" % i) for i in range(WORKERS)]
        self.workers += [live.Typist(cove, place(11 * i)) for i in range(WORKERS)]
        self.others = [live.Maker(cove), live.Visitor(cove)]
        self.lookers = [live.Looker(cove, site, "look%d" % i, GRACE_MS / 1000) for i, site in enumerate(sites)]

    def clients(self):
        return self.streams + self.terminals + self.uploads + self.workers + self.others + self.lookers

    def is_busy(self):
        return all(f.got for f in self.streams) and all(w.where for w in self.terminals) and all(v.done for v in self.lookers)

    def faults(self):
        return [fault for client in self.clients() for fault in client.faults]

    def end(self):
        for client in self.uploads + self.workers + self.others + self.lookers:
            client.stopping = True
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda box: live.patiently(lambda: self.cove.execute(box, ": > /run/over")), self.boxes))
        until = time.monotonic() + 90
        for client in self.clients():
            client.join(max(0.1, until - time.monotonic()))
        return [(type(client).__name__, client.faults[-1:]) for client in self.clients() if client.is_alive()]

    def cut(self):
        return sum(v.cuts for v in self.lookers)

    def cut_early(self):
        return sum(v.early for v in self.lookers)

    def judge(self, what):
        c.same(self.faults()[:10], [], what + ": no client has seen more than a lost connection")
        wrong = [(i, fault) for i, fault in enumerate(live.miscounted(f.text(), REST) for f in self.streams) if fault]
        c.same(wrong, [], what + ": every byte of %d streams came once, in its place" % STREAMS)
        c.same([f.end and f.end.get("exitCode") for f in self.streams], self.codes, what + ": with every exit code")
        wrong = [(i, fault) for i, fault in enumerate(live.miscounted(w.seen) for w in self.terminals) if fault]
        c.same(wrong, [], what + ": %d terminals have every line on their screens" % TERMINALS)
        c.same([w.end and w.end.get("code") for w in self.terminals], [100 + i for i in range(TERMINALS)],
               what + ": and their exit codes")
        c.ok(all(w.done for w in self.workers + self.others) and any(u.done for u in self.uploads),
             what + ": work was done meanwhile", [(type(w).__name__, w.done) for w in self.workers + self.others])
        c.ok(all(v.done > 1 for v in self.lookers), what + ": %d previews were looked at" % PREVIEWS, [v.done for v in self.lookers])
        c.note("%d looks at previews, %.2f s at most, %d cut" % (sum(v.done for v in self.lookers),
               max(v.slowest for v in self.lookers), self.cut()))
        c.note("%d reconnects, %d processes and terminals, %d sandboxes and %d files made, %.2f s until an answer at most" % (
            sum(client.cuts for client in self.clients()), sum(w.done for w in self.workers), self.others[0].done,
            sum(u.done for u in self.uploads), self.others[1].slowest))


def kill(cove):
    pid = cove.children()["daemon"]
    os.kill(pid, signal.SIGKILL)
    c.until(lambda: cove.children().get("daemon", pid) != pid, 30, 0.01)


def swap(cove):
    """As a package does it: a new file under the old name, then the word."""
    shutil.copy(c.BIN, cove.binary + ".new")
    os.rename(cove.binary + ".new", cove.binary)
    done = subprocess.run([cove.binary, "upgrade", "--data", cove.data], capture_output=True, text=True, timeout=150)
    if done.returncode:
        c.ok(False, "cove upgrade", done.stdout, done.stderr)


def story(cove, boxes, sites, what, strike, times):
    before = pids(cove, boxes)
    house = House(cove, boxes, sites)
    c.ok(c.until(house.is_busy, 60), what + ": the house is full", house.faults())
    took = []
    for _ in range(times):
        time.sleep(random.uniform(0.3, 1.0))
        begin = time.monotonic()
        strike(cove)
        live.patiently(lambda: cove.get("/v1/sandboxes?limit=1"))
        took.append("%.2f" % (time.monotonic() - begin))
    time.sleep(0.5)
    c.note("%s, %d times: back after %s s" % (what, times, ", ".join(took)))
    c.same(house.end(), [], what + ": all come to their end")
    house.judge(what)
    if strike == swap:
        c.same(house.cut_early(), 0, what + ": every request to a preview got its answer, if it came within the grace")
    c.same(pids(cove, boxes), before, what + ": every sandbox is the one that it was")
    said = subprocess.run([cove.binary, "verify", "--data", cove.data], capture_output=True, text=True, timeout=120)
    c.same(said.returncode, 0, what + ": all agree")
    if said.returncode:
        c.note(said.stdout + said.stderr)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda box: cove.execute(box, "rm /run/over"), boxes))


c.need_root()
home = tempfile.mkdtemp(prefix="cove-test-bin-")
os.chmod(home, 0o755)
shutil.copy(c.BIN, os.path.join(home, "cove"))
cove = c.Cove("--on-term=handoff", "--grace", "%dms" % GRACE_MS, binary=os.path.join(home, "cove"))
with ThreadPoolExecutor(8) as pool:
    boxes = list(pool.map(lambda _: cove.create(limits={"memoryMB": 128}), range(BOXES)))
sites = []
for i in range(PREVIEWS):
    serve(cove, boxes[i % BOXES], 8000 + i)
    sites.append(Site(expose(cove, boxes[i % BOXES], 8000 + i)[("url", "pathUrl")[i % 2]]))
story(cove, boxes, sites, "kill -9", kill, KILLS)
story(cove, boxes, sites, "upgrade", swap, SWAPS)
with ThreadPoolExecutor(8) as pool:
    gone = list(pool.map(lambda box: cove.delete(box).status, boxes))
c.same(set(gone), {204}, "they are deleted")
c.same(cove.close(), 0, "and cove ends well")
shutil.rmtree(home)
c.done()
