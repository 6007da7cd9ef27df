#!/usr/bin/env python3
"""Group K: the kernel's surface, and the ways out of a box that others were broken by."""
import glob
import hashlib
import os
import subprocess
import tempfile

from rows import c, HERE, play, row
from syscalls import PROGRAM, calls, verdicts


def all_refused(stage, lines, want="EPERM", control=True):
    program = calls(*lines)
    got = verdicts(stage.python(stage.box(), program)["stdout"])
    names = [line.split("(")[0] for line in lines]
    c.same(got, {name: want for name in names}, stage.name + ": every call is refused")
    if control:
        stage.control_python(program, lambda result: len(verdicts(result.stdout)) == len(set(names))
                             and "EPERM" not in verdicts(result.stdout).values())


@row("K-19", "no raw, packet, vsock, alg socket, no netlink but route")
def sockets(stage):
    program = r'''
import errno, socket
def word(*args):
    try:
        socket.socket(*args).close()
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
for name, args in (("vsock", (40, 1, 0)), ("packet", (17, 3, 0)), ("alg", (38, 5, 0)),
                   ("audit", (16, 3, 9)), ("netfilter", (16, 3, 12)), ("uevent", (16, 3, 15)),
                   ("raw", (2, 3, 1)), ("bluetooth", (31, 3, 1)), ("xdp", (44, 3, 0)),
                   ("route", (16, 3, 0)), ("inet", (2, 1, 0)), ("unix", (1, 1, 0))):
    print(name + "=" + word(*args))
'''
    box = stage.box()
    got = verdicts(stage.python(box, program)["stdout"])
    c.same({k: got.get(k) for k in ("route", "inet", "unix")},
           {"route": "ok", "inet": "ok", "unix": "ok"}, "K-19: what programs need works")
    c.ok(all(got.get(k) == "EAFNOSUPPORT" for k in ("vsock", "packet", "alg", "bluetooth", "xdp")),
         "K-19: foreign families do not exist", got)
    c.ok(all(got.get(k) == "EPROTONOSUPPORT" for k in ("audit", "netfilter", "uevent")),
         "K-19: only route netlink", got)
    c.same(got.get("raw"), "EPERM", "K-19: no raw socket")
    stage.control_python(program, lambda result: verdicts(result.stdout).get("raw") == "ok" and
                         verdicts(result.stdout).get("netfilter") == "ok")


@row("K-01", "no nested user namespace by unshare, clone or clone3")
def nested(stage):
    box = stage.box()
    attack = "unshare -U true; echo $?"
    c.ok(stage.cove.out(box, attack) != "0\n", "K-01: unshare -U fails")
    program = PROGRAM + r'''
import struct
args = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
print("clone3=" + call("clone3", args, 88), flush=True)
print("clone=" + call("clone", 0x10000000 | 17, 0, 0, 0, 0), flush=True)
print("unshare=" + call("unshare", 0x10000000), flush=True)
'''
    got = verdicts(stage.python(box, program)["stdout"])
    c.same(got, {"clone3": "ENOSYS", "clone": "EPERM", "unshare": "EPERM"},
           "K-01: refused by the filter")
    zeros = stage.cove.out(box, "cat /proc/sys/user/max_{user,mnt,net,pid,ipc,uts,cgroup,time}_namespaces")
    c.same(zeros, "0\n" * 8, "K-01: and by the namespace itself, should the filter ever be gone")
    stage.control(["unshare", "-U", "true"], lambda result: result.returncode == 0)


@row("K-03", "no mount, by the old calls or the new")
def mounts(stage):
    all_refused(stage, ['mount(b"none", b"/mnt", b"tmpfs", 0, 0)', 'fsopen(b"tmpfs", 0)',
                        'open_tree(-100, b"/", 1)', 'move_mount(-1, b"", -100, b"/mnt", 4)',
                        'umount2(b"/mnt", 2)', 'pivot_root(b"/", b"/")',
                        'mount_setattr(-1, b"", 0, BUF, 32)', 'fsmount(-1, 0, 0)'])


@row("K-04", "no bpf, perf, userfaultfd, io_uring, keys; programs fall back")
def exotic(stage):
    all_refused(stage, ['bpf(0, BUF, 100)', 'perf_event_open(BUF, 0, -1, -1, 0)', 'userfaultfd(0)',
                        'io_uring_setup(8, BUF)', 'keyctl(0, -3, 1)',
                        'add_key(b"user", b"x", BUF, 4, -3)'])
    box = stage.box()
    if stage.cove.run(box, "command -v node")["exitCode"] == 0:
        got = stage.cove.out(box, "node -e 'require(\"fs\").promises.readFile(\"/etc/hostname\")"
                                  ".then(b => console.log(b.length > 0))'")
        c.same(got, "true\n", "K-04: node reads a file without io_uring")


@row("K-05", "no module, no kexec")
def modules(stage):
    all_refused(stage, ['init_module(BUF, 10, b"")', 'finit_module(-1, b"", 0)',
                        'delete_module(b"no-such-module", 0)'], control=False)
    stage.control_python(calls('init_module(BUF, 10, b"")', 'finit_module(-1, b"", 0)'),
                         lambda r: "EPERM" not in verdicts(r.stdout).values() and r.stdout)


@row("K-06", "no reboot, swap, accounting, host name or clock")
def machine(stage):
    lines = ['reboot(0, 0, 0, 0)', 'swapon(b"/no-such-file", 0)', 'acct(b"/no-such-file")',
             'sethostname(b"evil", 4)', 'settimeofday(BUF, 0)', 'clock_adjtime(99, BUF)']
    import time
    skew = time.time() - time.monotonic()
    got = verdicts(stage.python(stage.box(), calls(*lines))["stdout"])
    c.same(set(got.values()), {"EPERM"}, "K-06: every call is refused")
    c.ok(abs(time.time() - time.monotonic() - skew) < 1, "K-06: the clock did not move")
    # The control's own arguments are harmless: wrong magic, missing files, a clock that is none.
    harmless = [line for line in lines if not line.startswith("settimeofday")]
    stage.control_python(calls(*harmless), lambda r: verdicts(r.stdout).get("sethostname") == "ok"
                         and verdicts(r.stdout).get("reboot") == "EINVAL")


@row("K-08", "pid 1 cannot be traced, read or written")
def trace_pid1(stage):
    program = PROGRAM + r'''
print("attach=" + call("ptrace", 16, TARGET, 0, 0))
def word(path, flags):
    try:
        os.close(os.open(path, flags)); return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
print("mem=" + word("/proc/%d/mem" % TARGET, os.O_RDWR))
print("exe=" + word("/proc/%d/exe" % TARGET, os.O_RDONLY))
print("environ=" + word("/proc/%d/environ" % TARGET, os.O_RDONLY))
print("maps=" + word("/proc/%d/maps" % TARGET, os.O_RDONLY))
'''
    got = verdicts(stage.python(stage.box(), "TARGET = 1\n" + program)["stdout"])
    c.ok(len(got) == 5 and not set(got.values()) - {"EPERM", "EACCES"},
         "K-08: all ways to pid 1 are closed", got)
    stage.control_python("import os, signal, time\nTARGET = os.fork()\nif TARGET == 0:\n"
                         "    time.sleep(20)\n    os._exit(0)\n" + program +
                         "os.kill(TARGET, 9)\n",
                         lambda r: verdicts(r.stdout).get("attach") == "ok" and
                         verdicts(r.stdout).get("mem") == "ok")


@row("K-10", "pid 1 ignores every signal of its box")
def signals(stage):
    box = stage.box()
    stage.cove.run(box, "for s in 1 2 3 9 10 11 15 19 20 30 34 64; do kill -$s 1; done")
    c.same(stage.cove.out(box, "echo alive"), "alive\n", "K-10: the box lives on")
    stage.control(["bash", "-c", "sleep 30 & kill -15 $!; wait $!; echo $?"],
                  lambda r: r.stdout == "143\n")


@row("K-12", "the runtime's own program cannot be written from inside")
def own_exe(stage):
    box = stage.box()
    with open(stage.cove.binary, "rb") as file:
        before = hashlib.sha256(file.read()).hexdigest()
    program = r'''
import os
opened = []
for _ in range(200):
    for p in [x for x in os.listdir("/proc") if x.isdigit()]:
        for flags in (os.O_WRONLY, os.O_RDWR):
            try:
                fd = os.open("/proc/%s/exe" % p, flags)
                opened.append(os.readlink("/proc/self/fd/%d" % fd)); os.close(fd)
            except OSError:
                pass
print(sorted(set(opened)))
'''
    import threading
    storm = threading.Thread(target=lambda: [stage.cove.run(box, "true") for _ in range(50)])
    storm.start()
    got = stage.python(box, program)["stdout"]
    storm.join()
    c.ok("cove" not in got and "memfd" not in got, "K-12: no way to write it", got)
    with open(stage.cove.binary, "rb") as file:
        c.same(hashlib.sha256(file.read()).hexdigest(), before, "K-12: the binary is unchanged")
    with tempfile.NamedTemporaryFile() as copy:
        stage.control_python("fd = __import__('os').open('%s', 1)\nprint('open')" % copy.name,
                             lambda r: r.stdout == "open\n")


@row("K-13", "no file of the host is inherited, no cwd leads out")
def leaked(stage):
    box = stage.box()
    host_root = os.stat("/")
    for n in range(3, 24):
        reply = stage.cove.execute(box, ["stat", "-c", "%i:%d", "."],
                                   cwd="/proc/self/fd/%d/../.." % n)
        outside = reply.status == 200 and reply.json["stdout"].strip() == "%d:%d" % (
            host_root.st_ino, host_root.st_dev)
        if outside or reply.status == 200 and "unreachable" in reply.json["stdout"]:
            c.ok(False, "K-13: cwd through fd %d stays inside" % n, reply)
            break
    else:
        c.ok(True, "K-13: no cwd through /proc/self/fd leads out")
    listed = stage.cove.out(box, ["ls", "/proc/self/fd"]).split()
    c.ok(set(listed) <= {"0", "1", "2", "3"}, "K-13: a command has stdio only", listed)
    stage.control(["bash", "-c", "exec 9</; cd /proc/self/fd/9 && stat -c %i:%d ."],
                  lambda r: r.stdout.strip() == "%d:%d" % (host_root.st_ino, host_root.st_dev))


@row("K-15", "no cgroup file system, so no release agent")
def release_agent(stage):
    box = stage.box()
    answer = stage.cove.run(box, "mount -t cgroup -o rdma c /mnt; mount -t cgroup2 c /mnt; "
                                 "find / -xdev -name release_agent 2>/dev/null; "
                                 "grep -E ' cgroup2? ' /proc/self/mounts")
    c.same(answer["stdout"], "", "K-15: nothing is mounted, nothing is found")
    stage.control(["bash", "-c", "grep -cE ' cgroup2? ' /proc/self/mounts"],
                  lambda r: int(r.stdout) > 0)


@row("K-16", "no core pattern can be set, no core is written")
def core(stage):
    box = stage.box()
    answer = stage.cove.run(box, "echo '|/x' > /proc/sys/kernel/core_pattern; ulimit -c unlimited; "
                                 "ulimit -c 0; sh -c 'kill -11 $$'; ls -d core* /core* 2>/dev/null")
    c.same(answer["stdout"], "", "K-16: no core file")
    c.ok("Read-only" in answer["stderr"] or "ermission" in answer["stderr"],
         "K-16: the pattern is read-only", answer)
    limits = stage.cove.out(box, "grep core /proc/self/limits").split()
    c.same(limits[4:6], ["1", "1"], "K-16: the core limit stays 1, since 0 would start a helper")
    c.same(open("/proc/sys/kernel/core_pattern").read().strip()[:2] == "|/x", False,
           "K-16: the host's pattern is unchanged")
    stage.control(["bash", "-c", "test -w /proc/sys/kernel/core_pattern && echo writable"],
                  lambda r: r.stdout == "writable\n")


@row("K-18", "no typing into a terminal, in either spelling")
def tiocsti(stage):
    program = PROGRAM + r'''
import pty, fcntl
pid, fd = pty.fork()
if pid == 0:
    print("plain=" + call("ioctl", 0, 0x5412, b"x"))
    print("wide=" + call("ioctl", 0, 0x100005412, b"x"))
    print("linux=" + call("ioctl", 0, 0x541C, b"\x06"))
    print("cons=" + call("ioctl", 0, 0x541D, 0), flush=True)
    os._exit(0)
out = b""
try:
    while True:
        part = os.read(fd, 1000)
        if not part: break
        out += part
except OSError:
    pass
print(out.decode())
'''
    got = verdicts(stage.python(stage.box(), program)["stdout"])
    c.same(got, {k: "EPERM" for k in ("plain", "wide", "linux", "cons")}, "K-18: all refused")
    # TIOCCONS would take the host's console and TIOCLINUX may paste: the control types only.
    typing = "\n".join(line for line in program.splitlines() if "0x541C" not in line and "0x541D" not in line)
    stage.control_python(typing.replace("os._exit(0)", "sys.stdout.flush(); os._exit(0)"),
                         lambda r: "plain=ok" in r.stdout)


@row("K-21", "a set-uid file gives nothing, inside or outside")
def setuid(stage):
    box = stage.box()
    got = stage.cove.out(box, "cp /bin/bash /workspace/s && chmod 4755 /workspace/s && ls -l /workspace/s"
                              " | cut -c1-10")
    c.same(got, "-rwsr-xr-x\n", "K-21: the bit can be set")
    answer = stage.cove.run(box, ["/workspace/s", "-p", "-c", "id -u; id -ru"], user="1000")
    c.same(answer["stdout"], "1000\n1000\n", "K-21: it has no effect for another user")
    probe = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ls",
                            os.path.join(stage.cove.data, "boxes")], capture_output=True)
    c.ok(probe.returncode != 0, "K-21: nobody else can traverse the state directory")
    stage.control(["bash", "-c", "mount -t tmpfs none /mnt && cp /bin/bash /mnt/s && chmod 4755 /mnt/s"
                   " && setpriv --reuid=1000 --clear-groups /mnt/s -p -c 'id -u'"],
                  lambda r: r.stdout == "0\n")


@row("K-23", "preloads and start-up variables stay inside")
def preload(stage):
    box = stage.box()
    env = {"LD_PRELOAD": "/workspace/evil.so", "LD_AUDIT": "/workspace/evil.so",
           "BASH_ENV": "/workspace/evil.sh", "PYTHONSTARTUP": "/workspace/evil.py",
           "GIT_DIR": "/workspace/evil.git"}
    stage.cove.run(box, "echo 'echo EVIL' > /workspace/evil.sh; echo x > /workspace/evil.so")
    answer = stage.cove.run(box, "echo ok", env=env)
    c.ok("EVIL" in answer["stdout"], "K-23: they work on the command itself", answer)
    seen = [role for role, pid in stage.cove.children().items()
            if "evil" in open("/proc/%d/maps" % pid).read() + open("/proc/%d/environ" % pid).read()]
    c.same(seen, [], "K-23: daemon and warden never saw them")
    c.same(stage.cove.out(box, "echo ok"), "ok\n", "K-23: pid 1 does not keep them")
    stage.control(["env", "LD_PRELOAD=/no-such.so", "true"],
                  lambda r: "cannot be preloaded" in r.stderr)


@row("K-25", "chroot leads nowhere but the box's own root")
def chroot(stage):
    box = stage.box()
    program = r'''
import os
before = os.stat("/")
os.makedirs("/tmp/jail", exist_ok=True)
fd = os.open("/", os.O_RDONLY)
os.chroot("/tmp/jail")
os.fchdir(fd)
for _ in range(64):
    os.chdir("..")
os.chroot(".")
after = os.stat("/")
print((before.st_ino, before.st_dev) == (after.st_ino, after.st_dev), sorted(os.listdir("/")))
'''
    inside = stage.cove.run(box, ["python3", "-I", "-c", "import os; print(True, sorted(os.listdir('/')))"])
    c.same(stage.python(box, program)["stdout"], inside["stdout"], "K-25: it ends where it began")
    stage.control_python("import os\nos.mkdir('/tmp/covejail%d' % os.getppid()) if 0 else None\n"
                         "import tempfile\nt = tempfile.mkdtemp()\nfd = os.open('/', 0)\nos.chroot(t)\n"
                         "os.fchdir(fd)\nfor _ in range(64): os.chdir('..')\nos.chroot('.')\n"
                         "print('etc' in os.listdir('/'))\nos.rmdir(t)\n",
                         lambda r: r.stdout == "True\n")


@row("K-27", "no device node can be made")
def nodes(stage):
    box = stage.box()
    answer = stage.cove.run(box, "mknod /workspace/d b 259 0; mknod /workspace/c c 1 1; "
                                 "mknod /dev/x c 1 3; ls /workspace")
    c.same(answer["stdout"], "", "K-27: none was made")
    stage.control(["bash", "-c", "mount -t tmpfs none /mnt && mknod /mnt/d c 1 3 && echo made"],
                  lambda r: r.stdout == "made\n")


@row("K-29", "the lower layer stays as it was")
def lower(stage):
    box = stage.box()
    victims = ["/usr/bin/env", "/usr/bin/python3", "/usr/lib/os-release"]
    victims = [os.path.realpath(v) for v in victims if os.path.exists(v)]
    before = {v: (hashlib.sha256(open(v, "rb").read()).hexdigest(), os.stat(v).st_mtime_ns,
                  os.stat(v).st_nlink) for v in victims}
    program = "VICTIMS = %r\n" % victims + r'''
import ctypes, mmap, os
def tried(f, *a):
    try:
        return f(*a)
    except Exception as e:
        return e
for v in VICTIMS:
    def shared():
        fd = os.open(v, os.O_RDWR)
        m = mmap.mmap(fd, 0, mmap.MAP_SHARED)
        m[0:4] = b"EVIL"; m.flush(); os.close(fd)
    tried(shared)
    tried(lambda: os.posix_fallocate(os.open(v, os.O_RDWR), 0, 1 << 20))
    tried(lambda: os.link(v, "/workspace/link"))
    tried(lambda: open("/workspace/link", "ab").write(b"EVIL"))
    tried(lambda: os.truncate(v, 3))
    tried(lambda: os.chmod(v, 0o777)); tried(lambda: os.utime(v, (0, 0)))
    tried(lambda: os.open("/usr/bin", os.O_TMPFILE | os.O_RDWR))
    tried(lambda: os.unlink(v))
print("tried")
'''
    c.same(stage.python(box, program)["stdout"], "tried\n", "K-29: the attack ran")
    after = {v: (hashlib.sha256(open(v, "rb").read()).hexdigest(), os.stat(v).st_mtime_ns,
                 os.stat(v).st_nlink) for v in victims}
    c.same(after, before, "K-29: the host's files are untouched")
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(b"good")
        copy.flush()
        stage.control_python("import os\nos.truncate('%s', 1)\nprint(os.stat('%s').st_size)" %
                             (copy.name, copy.name), lambda r: r.stdout == "1\n")


@row("K-31", "random system calls do the host no harm")
def fuzz(stage):
    fuzzer = os.environ.get("COVE_SYSFUZZ", os.path.join(c.INMATES, "sysfuzz"))
    if not os.path.exists(fuzzer):
        stage.no_control("no sysfuzz program")
        return c.skip("K-31: the fuzzer ran", "%s was not built" % fuzzer)
    seconds = os.environ.get("SYSFUZZ_SECONDS", "5" if c.SHORT else "10")

    def kernel_log():
        text = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace").stdout
        return sum(word in line for line in text.splitlines() for word in ("BUG:", "WARNING:"))
    before = kernel_log()
    for user in ("0", "1000"):
        box = stage.box(limits={"pids": 128, "memoryMB": 256})
        stage.put(box, fuzzer, "/tmp/sysfuzz")
        reply = stage.cove.execute(box, ["/tmp/sysfuzz", seconds, "1"], user=user,
                                   timeoutMs=(int(seconds) + 20) * 1000)
        # Its own random SIGKILL may end it: that harms nobody else.
        c.ok(reply.status == 200 and ("calls" in reply.json["stdout"] or reply.json["ended"] == "signaled"),
             "K-31: the fuzzer ran as %s" % user, reply)
    c.same(kernel_log(), before, "K-31: the kernel said nothing of a bug")
    stage.no_control("the same calls outside would be what the wall is for")


play()
