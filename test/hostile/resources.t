#!/usr/bin/env python3
"""Group R, X: one box's appetite, and the neighbours who must not feel it."""
# alone: boxes share the processors by rule
import os
import resource
import subprocess
import threading
import time

from rows import c, PATIENCE, play, row


def p95(cove, box, count=20):
    times = []
    for _ in range(count):
        begin = time.monotonic()
        cove.run(box, ["true"])
        times.append(time.monotonic() - begin)
    return sorted(times)[int(count * 0.95) - 1]


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


@row("R-01", "a fork bomb ends at pids.max, and the neighbour does not notice")
def fork_bomb(stage):
    def forks(stage, most=200):
        return stage.cove.run(stage.box(limits={"pids": 64}), ["python3", "-I", "-c", """
import os, time
made, why, kids = 0, 0, []
try:
    while made < %d:
        kid = os.fork()
        if kid == 0:
            time.sleep(60); os._exit(0)
        kids.append(kid)
        made += 1
except OSError as e:
    why = e.errno
for kid in kids:
    os.kill(kid, 9)
print(why, made)
""" % most])["stdout"].split()
    stage.control_weak("pids", forks, lambda got: got == ["0", "200"])  # bounded, and in a fence
    quiet_box = stage.box()
    quiet = p95(stage.cove, quiet_box)
    box = stage.box(limits={"pids": 64, "cpus": 0.5})
    bomb = ":(){ :|:& };:"
    thread, _ = in_background(stage, box, bomb + "; wait", timeoutMs=20000)
    time.sleep(1)
    loud = p95(stage.cove, quiet_box)
    c.ok(loud < max(2 * quiet, 0.05) * PATIENCE, "R-01: the neighbour's p95 holds", quiet, loud)
    begin = time.monotonic()
    c.same(stage.cove.delete(box).status, 204, "R-01: the box can be deleted")
    c.ok(time.monotonic() - begin < 6 * PATIENCE, "R-01: and is gone in time", time.monotonic() - begin)
    thread.join(10)
    count = forks(stage, 1 << 20)
    c.ok(count and count[0] == "11" and int(count[1]) < 64, "R-01: fork fails with EAGAIN", count)


@row("R-20", "orphans are reaped, zombies are counted")
def zombies(stage):
    def attack(stage, most=500):
        box = stage.box(limits={"pids": 128})
        return box, int(stage.cove.out(box, ["python3", "-c", (
            "import os\nfor i in range(%d):\n  try:\n    if os.fork()==0: os._exit(0)\n  except OSError: break\nprint(i)" % most)]))

    def leave(stage):
        box, _ = attack(stage, 100)
        time.sleep(0.2)
        return int(stage.cove.out(box, "ls -d /proc/[0-9]* | wc -l"))
    stage.control_weak("pids", attack, lambda got: got[1] == 499)
    stage.control_weak("reap", leave, lambda count: count > 100)
    box, made = attack(stage)
    c.ok(made < 128, "R-20: zombies count against the limit", made)
    left = c.until(lambda: stage.cove.out(box, "ls -d /proc/[0-9]* | wc -l").strip() in ("4", "5", "3"))
    c.ok(left, "R-20: once the parent is gone they are reaped", stage.cove.out(box, "ps aux; true"))


@row("X-07", "a storm of execs leaves nothing behind")
def storm(stage):
    orphans = ["sh", "-c", "(true &)"]

    def few(stage):
        box = stage.box()
        for _ in range(20):
            stage.cove.run(box, orphans)
        time.sleep(0.2)
        return int(stage.cove.out(box, "ls -d /proc/[0-9]* | wc -l"))
    stage.control_weak("reap", few, lambda count: count > 20)
    box = stage.box(limits={"pids": 512})
    before = c.census(stage.cove)
    count, each = (20, 10) if c.SHORT else (100, 10)
    codes = []

    def work():
        for _ in range(each):
            codes.append(stage.cove.execute(box, orphans).status)
    threads = [threading.Thread(target=work) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    c.ok(set(codes) <= {200, 429} and codes.count(200) > 0, "X-07: 200 or 429", sorted(set(codes)))
    few_left = c.until(lambda: int(stage.cove.out(box, "ls -d /proc/[0-9]* | wc -l")) <= 5)
    c.ok(few_left, "X-07: no zombies", stage.cove.out(box, "ps aux; true"))
    left = c.settled(before, stage.cove)
    grown = {k: v for k, v in left.items() if k not in ("cgroups",) and not k.startswith("fds")}
    c.ok(not grown, "X-07: nothing grew but the box's own exec cgroups", left)


@row("R-03", "a memory bomb ends as oom, and only itself")
def memory_bomb(stage):
    def takes(stage):  # 100 MiB, and no more
        answer = stage.cove.run(stage.box(limits={"memoryMB": 64}), ["python3", "-c", "print(len(bytearray(100 << 20)))"])
        return answer["ended"], answer["stdout"]
    stage.control_weak("memory", takes, lambda got: got == ("exited", "%d\n" % (100 << 20)))
    c.same(takes(stage)[0], "oom", "R-03: it is not given")
    box = stage.box(limits={"memoryMB": 64})
    bomb = "a=[]\nwhile 1: a.append(bytearray(1<<20))"
    answer = stage.cove.run(box, ["python3", "-c", bomb])
    c.same((answer["ended"], answer["exitCode"]), ("oom", 137), "R-03: the answer says oom")
    answer = stage.cove.run(box, "python3 -c '%s'; echo after" % bomb.replace("\n", "\n"))
    c.ok(answer["ended"] in ("oom", "exited"), "R-03: under a shell too", answer)
    c.same(stage.cove.out(box, "echo again"), "again\n", "R-03: the box is usable")
    answer = stage.cove.run(box, "kill -9 $$")
    c.same((answer["ended"], answer["exitCode"]), ("signaled", 137), "R-03: a plain SIGKILL is not oom")


@row("R-08", "memory hidden in pipes is the box's own")
def pipe_fill(stage):
    program = r'''
import fcntl, os
keep = []
try:
    for i in range(600):
        r, w = os.pipe()
        try:
            fcntl.fcntl(w, 1031, 1 << 20)
        except OSError:
            pass
        os.set_blocking(w, False)
        try:
            while os.write(w, b"x" * 65536): pass
        except BlockingIOError:
            pass
        keep.append((r, w))
    print("filled", len(keep))
except OSError as e:
    print("stopped", e.errno, len(keep))
'''
    def free():
        return int([l for l in open("/proc/meminfo") if l.startswith("MemAvailable")][0].split()[1])

    def attack(stage):  # the kernel lets one user have 64 MiB in pipes of this size: the box has less in all
        box = stage.box(limits={"memoryMB": 48})
        return box, stage.python(box, program)
    stage.control_weak("memory", attack, lambda got: got[1]["stdout"] == "filled 600\n")
    before = free()
    box, answer = attack(stage)
    lost = (before - free()) // 1024
    c.ok(lost < 300, "R-08: the host lost little", lost, answer)
    c.same(answer["ended"], "oom", "R-08: the box hit its own limit")
    c.same(stage.cove.out(box, "echo ok"), "ok\n", "R-08: and is usable")


@row("R-05", "a full disk is the box's own")
def disk_fill(stage):
    health = stage.cove.get("/v1/health").json
    box = stage.box(limits={"diskMB": 64})
    if not box["limits"].get("diskMB"):
        stage.controlled = True
        return c.skip("R-05: the limit holds", "no disk limit on this host: %r" % health)

    def fill(stage, most=90):
        made = stage.box(limits={"diskMB": 64})
        return int(stage.cove.out(made, "dd if=/dev/zero of=/workspace/f bs=1M count=%d; stat -c %%s /workspace/f" % most))
    stage.control_weak("disk", fill, lambda size: size == 90 << 20)

    def pool():  # grows ahead in steps of its own
        path = os.path.join(stage.cove.data, "pool.img")
        return os.stat(path).st_blocks * 512 if os.path.exists(path) else 0
    def taken():  # of the host's disk by this cove; other processes of the host write, too
        device = os.stat(stage.cove.data).st_dev
        total = 0
        for root, folders, files in os.walk(stage.cove.data):
            folders[:] = [name for name in folders if os.lstat(os.path.join(root, name)).st_dev == device]
            for name in files:
                try:
                    total += os.lstat(os.path.join(root, name)).st_blocks * 512
                except FileNotFoundError:
                    pass
        return total
    before, grown = taken(), pool()
    answer = stage.cove.run(box, "dd if=/dev/zero of=/workspace/f bs=1M count=200; stat -c %s /workspace/f")
    size = int(answer["stdout"])
    c.ok("space" in answer["stderr"] or "quota" in answer["stderr"], "R-05: dd is told", answer)
    c.ok(40 << 20 < size <= 64 << 20, "R-05: at the limit", size)
    lost, grown = taken() - before, pool() - grown
    c.ok(lost - max(grown, 0) <= 80 << 20 and grown <= 256 << 20, "R-05: the host lost no more than that, and a step of the pool", lost, grown)
    answer = stage.cove.run(box, "rm /workspace/f && dd if=/dev/zero of=/workspace/g bs=1M count=20 && echo fits")
    c.ok("fits" in answer["stdout"], "R-05: deleting gives the space back", answer)


@row("R-07", "fds run out in the box, not on the host")
def fd_fill(stage):
    def opens(stage):
        return stage.python(stage.box(), """
import os
n = 0
try:
    while n < 5000:
        os.open("/dev/null", os.O_RDONLY); n += 1
except OSError as e:
    print(e.errno, end=" ")
print(n > 4096)
""")["stdout"]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard > 5000:
        stage.control_weak("nofile", opens, lambda out: out == "True\n")
        c.same(opens(stage), "24 False\n", "R-07: EMFILE at 4096")
    else:
        stage.no_control("the host's own limit of %d files is below that of a box" % hard)
    box = stage.box(limits={"pids": 256})
    program = r'''
import os, resource, time
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
most = min(hard, 8192)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
kids = []
for _ in range(20):
    r, w = os.pipe()
    if os.fork() == 0:
        n = 0
        try:
            while True:
                os.open("/dev/null", os.O_RDONLY); n += 1
        except OSError as e:
            os.write(w, b"%d %d\n" % (e.errno, n))
        time.sleep(3); os._exit(0)
    os.close(w); kids.append(r)
print([os.read(r, 100).decode().strip() for r in kids])
'''
    thread, answers = in_background(stage, box, ["python3", "-I", "-"], stdin=program)
    thread.join(240)  # an emulated machine opens slowly
    used, _, top = map(int, open("/proc/sys/fs/file-nr").read().split())
    c.ok(used < top / 2, "R-07: the host has plenty", used, top)
    reply = answers[0]
    c.ok(reply.status == 200 and ("'24 " in reply.json["stdout"] or "'23 " in reply.json["stdout"]
                                  or reply.json["ended"] == "oom"),
         "R-07: EMFILE in the box", reply)


@row("R-11", "a full tmpfs stops at its own size")
def tmpfs_fill(stage):
    def fill(stage):  # less than the memory limit
        return int(stage.cove.out(stage.box(), "dd if=/dev/zero of=/dev/shm/fill bs=1M count=80; stat -c %s /dev/shm/fill"))
    stage.control_weak("scratch", fill, lambda size: size == 80 << 20)
    c.ok(fill(stage) <= 64 << 20, "R-11: /dev/shm ends at 64 MiB")
    box = stage.box()
    answer = stage.cove.run(box, "for d in /dev/shm /run /dev; do dd if=/dev/zero of=$d/fill bs=1M count=600 2>&1 | tail -1;"
                                 " ls -l $d/fill 2>/dev/null | awk '{print $5}'; done; python3 -c 'print(6*7)'")
    sizes = [int(line) for line in answer["stdout"].splitlines() if line.isdigit() and line != "42"]
    c.ok(sizes and sum(sizes) <= 64 << 20, "R-11: both together stay under 64 MiB", answer)
    c.ok(answer["stdout"].endswith("42\n"), "R-11: python3 still starts", answer)


def cpu_lines(cove, box, *names):
    """The lines of these files of the box's cgroup, in every hierarchy that has them."""
    lines = []
    for root in c.cgroup_roots():
        for name in names:
            path = os.path.join(root, "cove", cove.instance(), box["id"], name)
            if os.path.exists(path):
                with open(path) as file:
                    lines += file.read().splitlines()
    return lines


def throttled(cove, box):
    """How often the kernel has held a box back."""
    found = [line for line in cpu_lines(cove, box, "cpu.stat") if line.startswith("nr_throttled")]
    return int(found[0].split()[1]) if found else 0


@row("R-13", "CPU time past the limit ends as cpu_limit, and is counted right")
def cpu_hog(stage):
    half = ["python3", "-c", "import time\nwhile time.process_time() < 0.5: pass"]  # of CPU time

    def burn(stage):
        return stage.cove.run(stage.box(), half, cpuTimeMs=100)
    stage.control_weak("cpu_time", burn, lambda answer: answer["ended"] == "exited" and answer["cpuMs"] > 400)
    answer = burn(stage)
    c.ok(answer["ended"] == "cpu_limit" and answer["cpuMs"] < 100 + 50 * PATIENCE, "R-13: a command ends at its limit", answer)

    def share(stage):
        box = stage.box(limits={"cpus": 0.2})
        stage.cove.run(box, half)
        return throttled(stage.cove, box)
    stage.control_weak("cpu", share, lambda times: times == 0)
    times = share(stage)
    c.ok(times > 5, "R-13: who has a fifth of a processor is held back", times)
    whole, half_cpu = (int(cpu_lines(stage.cove, stage.box(limits={"cpus": cpus}), "cpu.weight", "cpu.shares")[0]) for cpus in (1, 0.5))
    c.same(half_cpu * 2, whole, "R-13: half a processor has half the weight")
    box = stage.box(limits={"cpus": 2 if (os.cpu_count() or 1) > 1 else 1})
    begin = time.monotonic()
    answer = stage.cove.run(box, "yes >/dev/null & yes >/dev/null & wait", cpuTimeMs=1000)
    c.same(answer["ended"], "cpu_limit", "R-13: the one word")
    c.ok(1000 <= answer["cpuMs"] < 1000 + 50 * PATIENCE, "R-13: at the limit", answer)
    c.ok(time.monotonic() - begin < 100, "R-13: in bounded time")
    dead = c.until(lambda: stage.cove.out(box, "pgrep -c yes; true") == "0\n")
    c.ok(dead, "R-13: the whole tree is dead")
    answer = stage.cove.run(box, ["python3", "-c", "import time\nt=time.process_time()\nwhile time.process_time()-t<0.5: pass\nprint(time.process_time())"])
    own = float(answer["stdout"]) * 1000  # what the process itself was told, less its last moments
    c.ok(own * 0.95 <= answer["cpuMs"] <= own * 1.25 + 50, "R-13: accounting is right", answer)


@row("R-16", "inotify instances and timers run out in the box alone")
def inotify(stage):
    # Children of several ids take all they can get and hold it until they are told to go.
    hungry = r'''
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def take():
    n = t = 0
    while libc.inotify_init1(0) >= 0:
        n += 1
    why = ctypes.get_errno()
    timer = ctypes.c_void_p()
    while t < 1000000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0:
        t += 1
    return n, why, t, ctypes.get_errno()
for uid in (0, 1000, 2000):
    if os.fork() == 0:
        os.setgid(uid); os.setuid(uid)
        print(*take(), flush=True)
        time.sleep(60); os._exit(0)
    time.sleep(0.1)
os.wait()
'''
    modest = r'''
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
timer = ctypes.c_void_p()
print(libc.inotify_init1(0) >= 0, libc.timer_create(1, None, ctypes.byref(timer)))
'''

    def attack(stage):
        box = stage.box(limits={"memoryMB": 512})
        thread, answers = in_background(stage, box, ["sh", "-c", "python3 -I - > /workspace/took"], stdin=hungry)
        c.until(lambda: stage.cove.out(box, "cat /workspace/took").count("\n") == 3, 30)
        took = [tuple(map(int, line.split())) for line in stage.cove.out(box, "cat /workspace/took").splitlines()]
        return box, thread, answers, took

    def starve(stage):  # what a neighbour has while all of it is held
        box, thread, _, _ = attack(stage)
        left = stage.python(stage.box(), modest)["stdout"]
        stage.cove.delete(box)
        thread.join(10)
        return left
    # One id of the host that nobody has owns all namespaces there: root's own share is not touched.
    stage.control_weak("owner", starve, lambda left: left.startswith("False"))
    box, thread, answers, took = attack(stage)
    neighbour = stage.box()
    c.ok(len(took) == 3 and sum(t[0] for t in took) <= 128 and took[0][1] == 24, "R-16: at most 128 for all its ids", took)
    c.ok(took and all(t[3] == 11 for t in took), "R-16: timers end with EAGAIN", took)
    host = subprocess.run(["python3", "-I", "-"], input=modest, text=True, stdout=subprocess.PIPE)
    c.same(host.stdout, "True 0\n", "R-16: the host's root still can")
    c.same(stage.python(neighbour, modest)["stdout"], "True 0\n", "R-16: the next box still can")
    c.ok(thread.is_alive(), "R-16: while all of it was held", answers)
    c.same(stage.cove.delete(box).status, 204, "R-16: the box can be deleted")
    thread.join(10)


def loop_writes(cove):
    """Writes completed by the loop devices of a cove; None: it has none."""
    found = []
    for name in os.listdir("/sys/block"):
        try:
            with open("/sys/block/%s/loop/backing_file" % name) as file:
                if not file.read().startswith(cove.data):
                    continue
            with open("/sys/block/%s/stat" % name) as file:
                found.append(int(file.read().split()[4]))
        except OSError:
            pass
    return sum(found) if found else None


@row("R-18", "an fsync storm does not stop the neighbour")
def fsync_storm(stage):
    storm = ("import os, time\nbegin=time.time()\nn=0\nwhile time.time()<begin+4 and n<%d:\n"
             "  f=os.open('/workspace/f%%d'%%n,os.O_CREAT|os.O_WRONLY); os.write(f,b'x'*100); os.fsync(f); os.close(f); n+=1\nprint(n)")

    def written(stage):
        """How many writes of 100 fsyncs reach the device that the box's disk is on, of one that dies with its run."""
        box = stage.box(ephemeral=True)
        stage.cove.run(box, "sync")
        before = loop_writes(stage.cove)
        stage.cove.run(box, ["python3", "-c", storm % 100])
        return loop_writes(stage.cove) - before
    if loop_writes(stage.cove) is None:
        stage.no_control("boxes have no device of their own here, so that one cannot see what reaches it")
    else:
        stage.control_weak("volatile", written, lambda count: count >= 100)
        c.ok(written(stage) < 50, "R-18: fsync does not reach the disk")
    neighbour = stage.box()
    quiet = p95(stage.cove, neighbour)
    box = stage.box()
    thread, answers = in_background(stage, box, ["python3", "-c", storm % 10000])
    time.sleep(0.5)
    loud = p95(stage.cove, neighbour)
    thread.join(60)
    c.ok(loud < max(3 * quiet, 0.05) * PATIENCE, "R-18: the neighbour's p95 holds", quiet, loud)
    c.ok(answers[0].status == 200 and int(answers[0].json["stdout"]) > 0, "R-18: the storm was real", answers)


@row("X-01", "a flood of output is bounded and marked")
def flood(stage):
    def keeps(stage):
        answer = stage.cove.run(stage.box(limits={"outputMB": 2}), "head -c 5M /dev/zero", encoding="base64")
        return answer["stdoutTruncated"], len(answer["stdout"])
    stage.control_weak("output", keeps, lambda got: got == (False, 5 << 20))
    box = stage.box(limits={"outputMB": 2})
    daemon = stage.cove.children()["daemon"]

    def rss():
        return int([l for l in open("/proc/%d/status" % daemon, errors="replace") if l.startswith("VmRSS")][0].split()[1])
    before = rss()
    answer = stage.cove.run(box, "head -c 300M /dev/zero; echo -n e >&2", encoding="base64")
    c.ok(answer["stdoutTruncated"] and len(answer["stdout"]) <= 2 << 20, "X-01: cut and flagged",
         answer["stdoutTruncated"], len(answer["stdout"]))
    c.same((answer["exitCode"], answer["ended"]), (0, "exited"), "X-01: the command itself ended well")
    c.ok(rss() - before < 16 << 10, "X-01: the daemon's memory stays flat", before, rss())


def kept(stage, box):
    """Bytes of a sandbox's stored output on the host's disk."""
    folder = os.path.join(stage.cove.data, "daemon", "tapes", box)
    return sum(os.stat(os.path.join(folder, name)).st_blocks * 512 for name in os.listdir(folder))


@row("X-01", "output of many commands is bounded together, the oldest goes first")
def hold_memory(stage):
    def attack(stage):
        box = stage.box(limits={"diskMB": 64, "outputMB": 8})["id"]  # of which a quarter is kept
        for n in range(6):
            stage.cove.execute(box, ["head", "-c", "8M", "/dev/zero"], background=True, processId="p%d" % n)
            c.until(lambda n=n: stage.cove.get("/v1/sandboxes/%s/api/process/p%d" % (box, n)).json["process"]["status"] == "completed", 30)
        return box, kept(stage, box)
    stage.control_weak("output", attack, lambda got: got[1] > 40 << 20)
    box, size = attack(stage)
    c.ok(size <= 17 << 20, "X-01: kept within a quarter of the disk", size)
    have = [p["id"] for p in stage.cove.get("/v1/sandboxes/%s/api/process/list" % box).json["processes"]]
    c.ok("p5" in have and "p0" not in have, "X-01: the oldest went", have)
    limits = stage.cove.get("/v1/sandboxes/" + box).json["limits"]
    c.same(limits["keptOutputMB"], 16, "X-01: the bound is shown")


@row("X-05", "ids outside of the box's range are refused")
def ids(stage):
    def attack(stage):
        return stage.cove.execute(stage.box(), ["id", "-u"], user="70000:70000")
    stage.control_weak("user_range,userns", attack, lambda reply: reply.status == 200 and reply.json["stdout"] == "70000\n")
    stage.depth("user_range", attack, lambda reply: reply.status >= 400)  # such an id does not exist in there
    stage.depth("userns", attack, lambda reply: reply.status >= 400)
    c.ok(400 <= attack(stage).status < 500, "X-05: an id of the host is refused")
    box = stage.box()
    for user in ("65536", "4294967295", "-1", "root:x", "a:b:c", "no-such-user", "0:65536", "x" * 300):
        reply = stage.cove.execute(box, ["id"], user=user)
        c.ok(400 <= reply.status < 500, "X-05: user %r is refused" % user[:20], reply)
    answer = stage.cove.run(box, ["id"], user="1000:1000")
    c.ok("uid=1000" in answer["stdout"] and "groups=1000" in answer["stdout"].replace("(agent)", ""),
         "X-05: groups exactly as asked", answer)


play()
