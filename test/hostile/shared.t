#!/usr/bin/env python3
"""Group R, continued: what the host has one store of. aio contexts, huge pages, sync, open files, disk bandwidth."""
# alone: what is counted is the whole host's
import os
import resource
import threading
import time

from rows import c, PATIENCE, play, row


def in_background(stage, box, command, **fields):
    """Starts an exec and leaves it running; its reply is in the list once it ends."""
    answers = []

    def work():
        try:
            answers.append(stage.cove.execute(box, command, **fields))
        except OSError as broken:
            answers.append(broken)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, answers


def first_word(path):
    with open(path) as file:
        return int(file.read().split()[0])


HOST_WIDE = r"""
import ctypes, errno, mmap, os, platform
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_ssize_t
IO_SETUP = 0 if platform.machine() == "aarch64" else 206
def told(result):
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]
"""


@row("R-21", "a box has no part in fs.aio-max-nr")
def aio(stage):
    program = HOST_WIDE + r"""
context = ctypes.c_ulong(0)
print(told(libc.syscall(IO_SETUP, 512, ctypes.byref(context))), open("/proc/sys/fs/aio-nr").read())
"""

    def attack(stage):
        before = first_word("/proc/sys/fs/aio-nr")
        said, seen = stage.python(stage.box(limits={"memoryMB": 64}), program)["stdout"].split()
        return said, int(seen) - before
    stage.control_weak("seccomp", attack, lambda got: got[0] == "ok" and got[1] > 0)
    c.same(attack(stage)[0], "ENOSYS", "R-21: io_setup is a call that is not there")


@row("R-22", "a box has no part in the host's huge pages")
def huge_pages(stage):
    # MAP_NORESERVE, and a memfd of no size: these succeed on a host that has no huge page, too.
    program = HOST_WIDE + r"""
print(told(libc.mmap(None, ctypes.c_size_t(2 << 20), 3, 0x44022, -1, ctypes.c_long(0))),
      told(libc.memfd_create(b"x", 4)), told(libc.shmget(0, ctypes.c_size_t(2 << 20), 0o5600)))
"""
    taking = HOST_WIDE + r"""
taken = []
while len(taken) < 8:
    at = libc.mmap(None, ctypes.c_size_t(2 << 20), 3, 0x40022, -1, ctypes.c_long(0))
    if at < 0: break
    ctypes.memset(at, 1, 2 << 20)
    taken.append(at)
print(len(taken))
"""

    def attack(stage, text=program):
        return stage.python(stage.box(limits={"memoryMB": 32}), text)["stdout"].split()
    stage.control_weak("arguments", attack, lambda got: got[:2] == ["ok", "ok"])
    c.same(attack(stage), ["ENOMEM"] * 3, "R-22: they are refused as where there are none")
    if not os.environ.get("COVE_VM"):
        return
    with open("/proc/sys/vm/nr_hugepages", "w") as file:  # the machine is ours
        file.write("4")
    if first_word("/proc/sys/vm/nr_hugepages") and os.path.exists("/sys/kernel/mm/hugepages/hugepages-2048kB"):
        stage.control_weak("arguments,hugetlb", lambda stage: attack(stage, taking), lambda got: int(got[0]) > 0)
        c.same(attack(stage, taking), ["0"], "R-22: nor can they be taken where the host has some")


@row("R-23", "sync and syncfs of a box are let go on once a second, fsync always")
def sync_pace(stage):
    # syncfs of a tmpfs takes no time of its own, so what is seen is the pace.
    program = r"""
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/dev/shm", os.O_RDONLY)
begin = time.monotonic()
results = [libc.syncfs(fd) for _ in range(%d)]
print(results.count(0), time.monotonic() - begin)
"""

    def attack(stage, count=5):
        done, seconds = stage.python(stage.box(), program % count)["stdout"].split()
        return int(done), float(seconds)
    stage.control_weak("sync_pace", attack, lambda got: got[0] == 5 and got[1] < 2)
    done, seconds = attack(stage)
    c.ok(done == 5 and seconds > 3.5, "R-23: five of syncfs succeed, and take four seconds", done, seconds)
    box = stage.box()
    answer = stage.python(box, r"""
import os, time
begin = time.monotonic()
os.sync()
first = time.monotonic() - begin
os.sync(); os.sync()
print(first < %d, time.monotonic() - begin > 1.5)
f = os.open("/workspace/f", os.O_CREAT | os.O_WRONLY)
for i in range(20): os.write(f, b"x"); os.fsync(f)
print("fsync")
""" % (2 * PATIENCE))
    c.same(answer["stdout"], "True True\nfsync\n", "R-23: the first sync goes at once, the others wait")
    # Many that wait cost nobody anything, can be ended, and the box answers.
    crowd = "import os\nfor i in range(30):\n  if os.fork() == 0: os.sync(); os._exit(0)\nprint('all')"
    c.same(stage.cove.run(box, ["python3", "-c", crowd])["stdout"], "all\n", "R-23: thirty wait")
    c.same(stage.cove.out(box, "pkill -9 python3; echo ok"), "ok\n", "R-23: those that wait can be killed")
    # Who waits outlives the daemon, and goes on with the next one.
    thread, _ = in_background(stage, box, "touch /workspace/began; sync; sync; sync; touch /workspace/synced")
    c.until(lambda: stage.cove.run(box, "test -e /workspace/began")["exitCode"] == 0, 30)
    os.kill(stage.cove.children()["daemon"], 9)
    c.until(lambda: stage.cove.get("/v1/health").status == 200, 30)
    thread.join(30)
    synced = c.until(lambda: stage.cove.run(box, "test -e /workspace/synced")["exitCode"] == 0, 30)
    c.ok(synced, "R-23: after a kill of the daemon they go on", stage.cove.out(box, "ps aux"))
    # pid 1's listener is nobody's to answer, and there is no other.
    refused = stage.python(box, r"""
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("code", ctypes.c_char_p)]
allow = Program(1, bytes([6, 0, 0, 0, 0, 0, 0xff, 0x7f]))
for call in ((29 if platform.machine() == "aarch64" else 16, 0, 0xc0502100, ctypes.byref(allow)),
             (277 if platform.machine() == "aarch64" else 317, 1, 8, ctypes.byref(allow))):
    libc.syscall(*call)
    print(errno.errorcode[ctypes.get_errno()])
""")["stdout"].split()
    c.same(refused, ["EPERM", "EBUSY"], "R-23: nobody in the box may answer a listener, or have one of his own")


@row("R-24", "one box cannot open all files of fs.file-max")
def file_max(stage):
    most, pids = first_word("/proc/sys/fs/file-max"), 1500

    def may_open(stage):
        return pids * int(stage.cove.out(stage.box(limits={"pids": pids}), "ulimit -Hn"))
    inherited = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if pids * inherited > most:
        stage.control_weak("nofile", may_open, lambda count: count > most)
    else:
        stage.no_control("fs.file-max is larger than all that a process may inherit here")
    c.ok(may_open(stage) <= max(most // 2, pids * 1024), "R-24: half of it at most, or 1024 a process", may_open(stage), most)


@row("R-25", "disk bandwidth is bounded where cgroup v2 can, and the limit is refused elsewhere")
def disk_bandwidth(stage):
    def writes(stage, **limits):
        """Seconds until 24 MiB are on the disk, through the page cache."""
        box = stage.box(limits=limits)
        began = time.monotonic()
        answer = stage.cove.run(box, "dd if=/dev/zero of=/workspace/f bs=1M count=24 conv=fsync 2>&1")
        return time.monotonic() - began if answer["exitCode"] == 0 else answer
    if stage.cove.get("/v1/health").json["host"]["cgroup"] != "v2":
        reply = stage.cove.post("/v1/sandboxes", {"limits": {"ioMBps": 4}})
        c.same((reply.status, reply.json["reason"]), (400, "no_io_limit"), "R-25: a limit that cannot be kept is refused")
        stage.no_control("cgroup v1 does not cover buffered writes")
        return
    stage.control_weak("io", lambda stage: writes(stage, ioMBps=2), lambda seconds: seconds < 9)
    box = stage.box(limits={"ioMBps": 7})
    c.same(stage.cove.get("/v1/sandboxes/" + box["id"]).json["limits"]["ioMBps"], 7, "R-25: it is shown")
    seconds = writes(stage, ioMBps=2)
    c.ok(seconds >= 9, "R-25: 24 MiB at 2 MiB a second take their time", seconds)


play()
