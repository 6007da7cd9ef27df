#!/usr/bin/env python3
"""tools/bare-root leaves nothing behind when it is ended by a signal: no process, mount, loop device, cgroup or file of its root."""
import hashlib
import os
import shutil
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cove as c  # noqa: E402

TOOL = os.path.join(c.ROOT, "tools", "bare-root")
MAIN = os.path.join(c.ROOT, "build", "bare")
HOME = os.path.join(c.ROOT, "build", "bare-signals")
# A process that has left its session and ignores signals, a mounted image, and a cgroup as a cove makes it, whose name comes from outside.
INSIDE = r"""
truncate -s 4M /image && device=$(losetup --find --show /image) && mkdir /data
setsid sh -c 'trap "" HUP INT TERM; while :; do sleep 1; done' %(mark)s &
read name
mkdir -p %(group)s/cove/$name
echo up $device
wait
"""


def processes(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in open("/proc/%s/cmdline" % pid).read().split("\0"):
                found.append(pid)
        except OSError:
            pass
    return found


def backing(device):
    """The file behind a loop device, which somebody else may have by now."""
    return subprocess.run(["losetup", "-n", "-O", "BACK-MAJ:MIN,BACK-INO,BACK-FILE", "-l", device], capture_output=True, text=True).stdout.split()


def ends(number):
    name = number.name
    mark = "cove-bare-%d-%s" % (os.getpid(), name)
    group = c.cgroup_roots()[0]
    made = subprocess.run([TOOL, "make"], env=dict(os.environ, BARE_HOME=HOME), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not c.ok(made.returncode == 0, name + ": a root is made", made.stdout):
        return
    run = subprocess.Popen([TOOL, "run", "sh", "-c", INSIDE % {"mark": mark, "group": group}], env=dict(os.environ, BARE_HOME=HOME),
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True)
    data = os.path.join(HOME, "root", "data")
    c.until(lambda: os.path.isdir(data), 60)
    found = os.stat(data)
    instance = hashlib.sha256(struct.pack("QQ", found.st_dev, found.st_ino)).hexdigest()[:8]
    run.stdin.write(instance + "\n")
    run.stdin.flush()
    word, device = run.stdout.readline().split()
    inode = backing(device)
    c.ok(word == "up" and processes(mark) and inode and os.path.isdir(os.path.join(group, "cove", instance)), name + ": it runs")
    run.send_signal(number)
    c.same(run.wait(120), 130, name + ": it ends")
    c.same(processes(mark), [], name + ": and every process in it")
    c.same(backing(device) == inode, False, name + ": its loop device is detached")
    c.ok(not os.path.isdir(os.path.join(group, "cove", instance)), name + ": its cgroup is removed")
    c.ok(not os.path.exists(os.path.join(HOME, "root")), name + ": its files are removed")
    c.ok(HOME not in open("/proc/self/mountinfo").read(), name + ": nothing of it is mounted")


c.need_root()
os.makedirs(HOME, exist_ok=True)
for part in ("minbase.tar", "key"):
    if os.path.exists(os.path.join(MAIN, part)):
        shutil.copy(os.path.join(MAIN, part), HOME)
try:
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        ends(each)
finally:
    shutil.rmtree(HOME, ignore_errors=True)
c.done()
