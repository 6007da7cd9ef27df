#!/usr/bin/env python3
"""Small disks: data directories on ext4 images of a few gigabytes, sparse, with the disk driver that cove chooses. A class is a
ceiling, and space that the pool of disks has preallocated and nobody uses is free."""
import atexit
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

c.need_root()
MB = 1 << 20
place = tempfile.mkdtemp(prefix="cove-small-")
os.chmod(place, 0o711)
mounts = []


def sh(*argv):
    return subprocess.run(argv, capture_output=True, text=True)


def clean_up():
    while mounts:
        sh("umount", mounts.pop())
    sh("rm", "-rf", place)


atexit.register(clean_up)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda *_: sys.exit(1))


def disk(name, mb):
    """A mounted file system of that size."""
    image, mount = os.path.join(place, name + ".img"), os.path.join(place, name)
    failure = c.mount_image(image, mount, mb * MB)
    if failure:
        c.skip_all(failure)
    mounts.append(mount)
    os.chmod(mount, 0o711)
    return mount


def sessions(mb):
    mount = disk("disk%d" % mb, mb)
    cove = s.start("--session-space=2048M", data=os.path.join(mount, "data"))
    driver = cove.get("/v1/health").json["host"].get("disk")
    for n, owner in enumerate(("ann", "ann", "ben")[:3 if mb > 6000 else 1]):
        try:
            session = s.Session(cove, user=owner, session="s%d" % n)
            fate = session.fate(session.run())
        except RuntimeError as refused:
            fate = str(refused)
        if mb > 9000:  # the pool takes space ahead of need, beside the first sandbox
            c.until(lambda: os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize < 2048 * MB, 30, 0.2)
            c.note("%d MB are free beside the pool" % (os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize // MB))
        c.same(fate, "completed", "%d MB (%s): run %d, of the default class, completes" % (mb, driver, n))
    c.same(cove.close(), 0, "%d MB: cove ends well" % mb)
    sh("umount", mount)
    mounts.remove(mount)


for size in (9500, 6000, 5200):
    sessions(size)
c.done()
