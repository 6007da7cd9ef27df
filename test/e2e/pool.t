#!/usr/bin/env python3
"""The size of the pool of disks (btrfs): it starts small, grows ahead of what sandboxes write, gives back what they freed, has
no hole that the host could not fill, and survives a kill at each step of both. With COVE_SOAK the counts are the full ones."""
# alone: it counts what a disk has free, and writes as fast as that goes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from killpoints import Points  # noqa: E402

c.need_root()
MB, MIB = 10 ** 6, 1 << 20
SOAK = bool(os.environ.get("COVE_SOAK"))
COUNT, EACH = (100, 200) if SOAK else (20, 60)
AT_ONCE = 10
WEAK = os.environ.get("COVE_WEAK_BIN", os.path.join(c.ROOT, "build", "weak", "cove"))


def sh(*argv):
    return subprocess.run(argv, capture_output=True, text=True)


def du(path):
    """Bytes that a directory takes on its disk, as du counts them."""
    return int(sh("du", "-xs", "-B1", path).stdout.split()[0])


def pool(cove):
    return os.stat(os.path.join(cove.data, "pool.img"))


def holes(cove):
    """Bytes of the pool file that no block of the disk stands for."""
    found = pool(cove)
    return max(0, found.st_size - found.st_blocks * 512)


def driver(cove):
    return cove.get("/v1/health").json["host"].get("disk")


def fill(cove, box, mb, path="/workspace/f"):
    """Writes as fast as the page cache takes it; the answer of the command."""
    return cove.run(box, "head -c %d /dev/zero > %s" % (mb * MB, path))


def seeded(cove, box, mb):
    """A file whose contents are known, and its hash."""
    cove.run(box, "i=0; while [ $i -lt %d ]; do head -c 1000000 /dev/urandom; i=$((i+1)); done > /workspace/known; sync" % mb)
    return hash_of(cove, box)


def hash_of(cove, box):
    return cove.out(box, "sha256sum < /workspace/known").split()[0]


def small():
    cove = c.Cove()
    if driver(cove) != "btrfs":
        c.skip_all("the disks are of the driver '%s': no btrfs pool" % driver(cove))
    first = du(cove.data)
    # The copy of dpkg's database is as large as the host has packages: 18 MB of 1,100 of them.
    host = du(os.path.join(cove.data, "layers"))
    c.note("%d MB, of which the host's own template has %d MB" % (first // MB, host // MB))
    c.ok(first - max(0, host - 22 * MB) <= 300 * MB, "a fresh data directory takes at most 300 MB", first // MB, host // MB)
    c.same(holes(cove), 0, "and all of the pool is preallocated")
    return cove, first


def empty(cove):
    """Sandboxes that write nothing."""
    def client(_):
        for _ in range(50 if SOAK else 15):
            cove.delete(cove.create())
    with ThreadPoolExecutor(6) as six:
        list(six.map(client, range(6)))
    c.ok(pool(cove).st_size <= 512 * MIB, "empty sandboxes by six clients do not make it grow by more than a step",
         pool(cove).st_size // MIB)


def churn(cove, first):
    kept = cove.create(name="kept")["id"]
    known = seeded(cove, kept, 4)
    failed, most = [], [0]
    over = threading.Event()

    def watch():
        while not over.wait(0.05):
            most[0] = max(most[0], pool(cove).st_size)

    def one(_):
        box = cove.create()
        answer = fill(cove, box, EACH)
        if answer["exitCode"]:
            failed.append(answer["stderr"])
        size = int(cove.out(box, "stat -c %s /workspace/f"))
        if size != EACH * MB:
            failed.append(size)
        cove.delete(box)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(AT_ONCE) as ten:
            list(ten.map(one, range(COUNT)))
    finally:
        over.set()
        watcher.join()
    c.same(failed[:3], [], "%d sandboxes of %d MB, ten at a time, write all of it" % (COUNT, EACH))
    c.note("the pool had %d MB at most" % (most[0] // MB))
    c.ok(most[0] >= 512 * MIB, "the pool grew for them", most[0] // MIB)
    back = c.until(lambda: du(cove.data) <= first * 1.2, 60, 0.5)
    c.ok(back, "a minute after they were deleted the data directory is back within 20 %%", "%d MB of %d MB" % (du(cove.data) // MB, first // MB))
    c.same(holes(cove), 0, "the pool has no holes")
    c.same(hash_of(cove, kept), known, "the files of the sandbox that stayed are whole")
    return kept, known


def large(cove):
    """A limit far beyond what the pool has."""
    box = cove.create(limits={"diskMB": 4096})
    answer = fill(cove, box, 1500)
    c.same((answer["exitCode"], answer["stderr"]), (0, ""), "a sandbox writes 1.5 GB at once into a pool of a fifth of that")
    cove.run(box, "rm /workspace/f")
    other = cove.create(limits={"diskMB": 4096})
    c.until(lambda: pool(cove).st_size < 600 * MIB, 60, 0.5)
    took = c.until(lambda: cove.run(other, "fallocate -l 1500M /workspace/g")["exitCode"] == 0, 30, 0.2)
    c.ok(took, "a single request for more than the pool has is met soon after it was refused")
    for each in (box, other):
        cove.delete(each)


def again(cove, kept, known):
    """The next start takes the pool as it is."""
    c.until(lambda: pool(cove).st_size == 256 * MIB, 60, 0.5)
    size = pool(cove).st_size
    cove.stop()
    cove.start()
    c.ok(pool(cove).st_size <= size, "a start leaves the size as it is", pool(cove).st_size // MIB, size // MIB)
    cove.post("/v1/sandboxes/%s/start" % kept)
    c.same(hash_of(cove, kept), known, "and the files are whole")


def doctor(cove):
    env = dict(os.environ, COVE_DATA=cove.data, COVE_URL=cove.url, COVE_TOKEN=cove.key)
    said = subprocess.run([c.BIN, "doctor"], env=env, capture_output=True, text=True).stdout
    c.ok("disk: " in said and "pool.img" in said, "doctor says what the disks of sandboxes take", said[-800:])
    found = json.loads(subprocess.run([c.BIN, "doctor", "--json"], env=env, capture_output=True, text=True).stdout)
    c.same(found["disk"].get("poolBytes"), pool(cove).st_blocks * 512, "in JSON too")


def settings():
    """The operator's sizes."""
    cove = c.Cove("--pool-start=512M", "--pool-max=768M")
    c.same(pool(cove).st_size, 512 * MIB, "--pool-start: the pool starts as large as the operator says")
    box = cove.create()
    answer = fill(cove, box, 1200)
    c.ok(answer["exitCode"] != 0 and "No space" in answer["stderr"], "--pool-max: a sandbox that wants more meets ENOSPC", answer["stderr"])
    c.same(pool(cove).st_size, 768 * MIB, "and the pool ends there")
    cove.delete(box)
    c.ok(c.until(lambda: pool(cove).st_size == 512 * MIB, 60, 0.5), "given back, down to --pool-start", pool(cove).st_size // MIB)
    c.same(cove.close(), 0, "cove ends well")


def full():
    """The host's disk is full when the pool would grow."""
    place = tempfile.mkdtemp(prefix="cove-pool-")
    image, mount = os.path.join(place, "image"), os.path.join(place, "fs")
    os.chmod(place, 0o711)
    failure = c.mount_image(image, mount, 1200 * MIB)
    if failure:
        sh("rm", "-rf", place)
        c.skip("a full disk", failure)
        return
    cove = None
    try:
        os.chmod(mount, 0o711)
        cove = c.Cove(data=os.path.join(mount, "data"))
        one, two = cove.create(), cove.create()
        known = seeded(cove, two, 3)
        free = os.statvfs(mount)
        with open(os.path.join(mount, "filler"), "wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, max(free.f_bavail * free.f_frsize - 150 * MIB, MIB))
        answer = fill(cove, one, 800)
        c.ok(answer["exitCode"] != 0 and "No space" in answer["stderr"], "on a full disk a sandbox meets ENOSPC, never EIO",
             answer["stderr"])
        c.same(holes(cove), 0, "the pool has no holes there")
        c.same(hash_of(cove, two), known, "its neighbour's files are whole")
        sh("sync", "-f", mount)
        c.same(cove.run(two, "sync -f /workspace && echo well")["stdout"], "well\n", "and can be written out")
        cove.run(one, "rm /workspace/f")
        os.unlink(os.path.join(mount, "filler"))
        c.ok(c.until(lambda: fill(cove, one, 500)["exitCode"] == 0, 30, 0.5), "with room again it grows again")
        c.same(cove.close(), 0, "cove ends well")
    finally:
        if cove:
            cove.close()
        sh("umount", mount)
        sh("rm", "-rf", place)


def kills():
    """SIGKILL at each step, of the process that takes it; then of the warden, in the middle of growing and of shrinking."""
    if not os.path.exists(WEAK):
        c.skip("kill points", "there is no %s: make weak" % WEAK)
        return
    home = tempfile.mkdtemp(prefix="cove-pool-")
    os.chmod(home, 0o711)
    points = Points(os.path.join(home, "points"))
    cove = c.Cove(binary=WEAK, env={"COVE_KILL_POINTS": os.path.join(home, "points")})
    try:
        kept = cove.create(name="kept")["id"]
        known = seeded(cove, kept, 3)
        for point in ("grow.allocated", "grow.device", "grow.done", "shrink.compacted", "shrink.resized", "shrink.synced",
                      "shrink.truncated"):
            points.arm("pool." + point)
            box = cove.create()
            answer = fill(cove, box, 300)
            cove.run(box, "sync; rm /workspace/f")
            cove.delete(box)
            # Only chunks that are neither full nor empty are compacted: this point need not be met.
            met = c.until(points.fired, 5 if point == "shrink.compacted" else 40, 0.1)
            points.disarm()
            c.ok(met or point == "shrink.compacted", "pool.%s: killed there" % point, points.met())
            c.same(answer["exitCode"], 0, "pool.%s: the sandbox wrote all the same" % point)
            shrunk = c.until(lambda: pool(cove).st_size == 256 * MIB, 60, 0.2)
            c.ok(shrunk and holes(cove) == 0, "pool.%s: the next process goes on and gives it back" % point, pool(cove).st_size // MIB)
            c.same(hash_of(cove, kept), known, "pool.%s: the files are whole" % point)
        for number in range(6 if SOAK else 3):
            box = cove.create()
            writer = threading.Thread(target=lambda: fill(cove, box, 400))
            writer.start()
            c.until(lambda: pool(cove).st_size > 256 * MIB, 30, 0.005)
            os.kill(cove.children()["warden"], signal.SIGKILL)
            writer.join()
            c.patiently(lambda: cove.delete(box))
            before = pool(cove).st_size
            c.until(lambda: pool(cove).st_size < before or pool(cove).st_size == 256 * MIB, 60, 0.005)
            os.kill(cove.children()["warden"], signal.SIGKILL)
            c.ok(c.until(lambda: pool(cove).st_size == 256 * MIB, 60, 0.2), "a kill of the warden while it grows and while it shrinks, %d" %
                 number, pool(cove).st_size // MIB)
            reply = c.patiently(lambda: cove.execute(kept, "sha256sum < /workspace/known"))
            c.same(reply.json["stdout"].split()[0], known, "the files are whole, %d" % number)
        c.same(cove.close(), 0, "cove ends well")
    finally:
        cove.close()
        sh("rm", "-rf", home)


main, first = small()
empty(main)
kept, known = churn(main, first)
large(main)
again(main, kept, known)
doctor(main)
c.same(main.close(), 0, "cove ends well")
settings()
full()
kills()
c.done()
