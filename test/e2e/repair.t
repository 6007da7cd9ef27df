#!/usr/bin/env python3
"""A disk image that was not put down in order is repaired before its sandbox starts again, and nobody else waits for that.

e2fsck is stopped as soon as it is seen among the warden's children: while it stands still other sandboxes are made."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

SUPERBLOCK_STATE = 1024 + 0x3a
c.need_root()
cove = c.Cove()
reply = cove.post("/v1/sandboxes", {"limits": {"inodes": 65536, "diskMB": 512}})
if reply.status != 201:
    c.skip_all("no disk images here: %r" % reply)
box = reply.json
at = "/v1/sandboxes/" + box["id"]
# The more there is to check, the longer e2fsck can be met.
c.same(cove.out(box, "mkdir /workspace/m; for i in $(seq 30000); do : > /workspace/m/$i; done; echo kept > /workspace/kept; cat /workspace/kept"), "kept\n", "a sandbox has files on an image")


def soil():
    """Stops it, and takes the file system's word that it was put down in order."""
    stopped = cove.post(at + "/stop").status
    image = os.path.join(cove.data, "boxes", box["id"] + ".img")
    c.until(lambda: image not in open_loops())
    with open(image, "r+b") as file:
        file.seek(SUPERBLOCK_STATE)
        file.write(b"\0\0")
    return stopped


def open_loops():
    found = []
    for name in os.listdir("/sys/block"):
        try:
            found.append(open("/sys/block/%s/loop/backing_file" % name).read().strip())
        except OSError:
            pass
    return found


def meet(starter):
    """The pid of e2fsck, stopped; None when the start ended before it was seen."""
    warden = cove.children()["warden"]
    while starter.is_alive():
        for pid in open("/proc/%d/task/%d/children" % (warden, warden)).read().split():
            try:
                if open("/proc/%s/comm" % pid, errors="replace").read() == "e2fsck\n":
                    os.kill(int(pid), signal.SIGSTOP)
                    return int(pid)
            except OSError:
                pass
    return None


met = None
for _ in range(20):
    c.ok(soil() in (200, 204), "the sandbox is stopped, its image unclean")
    answers = []
    starter = threading.Thread(target=lambda: answers.append(cove.post(at + "/start", timeout=60)))
    starter.start()
    met = meet(starter)
    if met:
        break
    starter.join()
if c.ok(met, "e2fsck is met at work"):
    try:
        other = cove.create()
        c.same(cove.out(other, "echo up"), "up\n", "meanwhile another sandbox is made and runs")
        c.ok(starter.is_alive() and not answers, "the start waits", answers)
    except Exception as failure:  # noqa: BLE001 - a warden that waits answers nobody
        c.ok(False, "meanwhile another sandbox is made and runs", failure)
    finally:
        os.kill(met, signal.SIGCONT)
starter.join()
c.ok(answers and answers[0].status == 200, "the start is answered when the repair is over", answers)
c.same(cove.out(box, "cat /workspace/kept; ls /workspace/m | wc -l"), "kept\n30000\n", "and every file is there")
c.ok("disk.repair" in cove.log_text(), "the log tells of the repair")
c.same(cove.stop(), 0, "cove stops cleanly")
cove.close()
c.done()
