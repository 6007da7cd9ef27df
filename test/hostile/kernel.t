#!/usr/bin/env python3
"""Group K: the kernel's surface, and the ways out of a box that others were broken by."""
import hashlib
import os
import subprocess

from rows import c, HERE, play, row
from syscalls import PROGRAM, calls, verdicts


# What stands between box root and the kernel's own gates: a list of calls, a set of capabilities, and
# that the namespaces belong to the host. Any one of the three is enough.
WALLS = "seccomp,capabilities,userns"


def asked(program):
    """An attack that is a program of calls: which of them were refused, and how."""
    return lambda stage: verdicts(stage.python(stage.box(), program)["stdout"])


def all_refused(stage, lines, want="EPERM", off=WALLS, deep=True):
    names = {line.split("(")[0] for line in lines}
    attack = asked(calls(*lines))
    stage.control_weak(off, attack, lambda got: set(got) == names and "EPERM" not in got.values())
    if deep:
        stage.depth("seccomp,capabilities", attack, lambda got: set(got.values()) <= {want, "ENOSYS"})
    c.same(attack(stage), {name: want for name in names}, stage.name + ": every call is refused")


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
    attack = asked(program)
    stage.control_weak("arguments", attack, lambda got: got["audit"] == got["uevent"] == "ok")
    stage.control_weak(WALLS + ",arguments", attack, lambda got: got["raw"] == "ok")
    stage.depth("seccomp,capabilities", attack, lambda got: got["raw"] == "EPERM")
    got = attack(stage)
    c.same({k: got.get(k) for k in ("route", "inet", "unix")},
           {"route": "ok", "inet": "ok", "unix": "ok"}, "K-19: what programs need works")
    c.ok(all(got.get(k) == "EAFNOSUPPORT" for k in ("vsock", "packet", "alg", "bluetooth", "xdp")),
         "K-19: foreign families do not exist", got)
    c.ok(all(got.get(k) == "EPROTONOSUPPORT" for k in ("audit", "netfilter", "uevent")),
         "K-19: only route netlink", got)
    c.same(got.get("raw"), "EPERM", "K-19: no raw socket")


@row("K-03", "no mount, by the old calls or the new")
def mounts(stage):
    all_refused(stage, ['mount(b"none", b"/mnt", b"tmpfs", 0, 0)', 'fsopen(b"tmpfs", 0)',
                        'open_tree(-100, b"/", 1)', 'move_mount(-1, b"", -100, b"/mnt", 4)',
                        'umount2(b"/mnt", 2)', 'pivot_root(b"/", b"/")',
                        'mount_setattr(-1, b"", 0, BUF, 32)', 'fsmount(-1, 0, 0)'])


@row("K-05", "no module, no kexec")
def modules(stage):
    if not os.path.exists("/proc/modules"):
        c.note("K-05: this kernel has no modules at all, so that without the walls it answers ENOSYS")
    all_refused(stage, ['init_module(BUF, 10, b"")', 'finit_module(-1, b"", 0)',
                        'delete_module(b"no-such-module", 0)'])


@row("K-06", "no reboot, swap, accounting, host name or clock")
def machine(stage):
    lines = ['reboot(0, 0, 0, 0)', 'swapon(b"/no-such-file", 0)', 'acct(b"/no-such-file")',
             'sethostname(b"evil", 4)', 'settimeofday(BUF, 0)', 'clock_adjtime(99, BUF)']
    # The control's arguments are harmless: wrong magic, missing files, a clock that is none.
    harmless = asked(calls(*[line for line in lines if not line.startswith("settimeofday")]))
    stage.control_weak(WALLS, harmless, lambda got: got["sethostname"] == "ok" and got["reboot"] == "EINVAL"
                       and "EPERM" not in got.values())
    stage.depth("seccomp,capabilities", harmless, lambda got: {k for k in got if got[k] != "EPERM"} <= {"clock_adjtime"})
    import time
    skew = time.time() - time.monotonic()
    got = verdicts(stage.python(stage.box(), calls(*lines))["stdout"])
    c.same(set(got.values()), {"EPERM"}, "K-06: every call is refused")
    c.ok(abs(time.time() - time.monotonic() - skew) < 1, "K-06: the clock did not move")


@row("K-15", "no cgroup file system, so no release agent")
def release_agent(stage):
    def attack(stage):
        return stage.cove.out(stage.box(), "mount -t cgroup -o rdma c /mnt; mount -t cgroup2 c /mnt; "
                                           "find / -xdev -name release_agent 2>/dev/null; "
                                           "grep -E ' cgroup2? ' /proc/self/mounts")
    stage.control_weak(WALLS, attack, lambda found: " /mnt cgroup" in found)
    stage.depth("seccomp,capabilities", attack, lambda found: found == "")
    c.same(attack(stage), "", "K-15: nothing is mounted, nothing is found")


@row("K-04", "no bpf, perf, userfaultfd, io_uring, keys; programs fall back")
def exotic(stage):
    all_refused(stage, ['bpf(0, BUF, 100)', 'perf_event_open(BUF, 0, -1, -1, 0)', 'userfaultfd(0)',
                        'io_uring_setup(8, BUF)', 'keyctl(0, -3, 1)',
                        'add_key(b"user", b"x", BUF, 4, -3)'], deep=False)
    only_filter = calls('io_uring_setup(8, BUF)', 'keyctl(0, -3, 1)', 'add_key(b"user", b"x", BUF, 4, -3)')
    stage.control_weak("seccomp", asked(only_filter), lambda got: list(got.values()) == ["ok"] * 3)
    box = stage.box()
    if stage.cove.run(box, "command -v node")["exitCode"] == 0:
        got = stage.cove.out(box, "node -e 'require(\"fs\").promises.readFile(\"/etc/hostname\")"
                                  ".then(b => console.log(b.length > 0))'")
        c.same(got, "true\n", "K-04: node reads a file without io_uring")


@row("K-01", "no nested user namespace by unshare, clone or clone3")
def nested(stage):
    program = PROGRAM + r'''
import struct
args = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
here = os.getpid()
def born(*args):
    word = call(*args)
    if os.getpid() != here:
        os._exit(0)
    return word
print("clone3=" + born("clone3", args, 88), flush=True)
print("clone=" + born("clone", 0x10000000 | 17, 0, 0, 0, 0), flush=True)
print("unshare=" + call("unshare", 0x10000000), flush=True)
'''
    attack = asked(program)
    stage.control_weak("seccomp,clone3,ceilings", attack, lambda got: set(got.values()) == {"ok"})
    stage.depth("seccomp,clone3", attack, lambda got: set(got.values()) == {"ENOSPC"})
    refused = {"clone3": "ENOSYS", "clone": "EPERM", "unshare": "EPERM"}
    stage.depth("ceilings", attack, lambda got: got == refused)
    box = stage.box()
    c.ok(stage.cove.out(box, "unshare -U true; echo $?") != "0\n", "K-01: unshare -U fails")
    c.same(attack(stage), refused, "K-01: refused by the filter")
    zeros = stage.cove.out(box, "cat /proc/sys/user/max_{user,mnt,net,pid,ipc,uts,cgroup,time}_namespaces")
    c.same(zeros, "0\n" * 8, "K-01: and by the namespace itself, should the filter ever be gone")


@row("K-08", "pid 1 cannot be traced, read or written")
def trace_pid1(stage):
    program = PROGRAM + r'''
attached = call("ptrace", 16, 1, 0, 0)
print("attach=" + attached)
if attached == "ok":  # let it go on
    os.waitpid(1, 0x40000000)
    call("ptrace", 17, 1, 0, 0)
def word(path, flags):
    try:
        os.close(os.open(path, flags)); return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
print("mem=" + word("/proc/1/mem", os.O_RDWR))
print("exe=" + word("/proc/1/exe", os.O_RDONLY))
print("environ=" + word("/proc/1/environ", os.O_RDONLY))
print("maps=" + word("/proc/1/maps", os.O_RDONLY))
'''
    attack = asked(program)

    def closed(got):
        return len(got) == 5 and not set(got.values()) - {"EPERM", "EACCES"}
    stage.control_weak("undumpable,capabilities,program", attack, lambda got: list(got.values()) == ["ok"] * 5)
    stage.depth("capabilities", attack, closed)
    stage.depth("undumpable", attack, closed)
    got = attack(stage)
    c.ok(closed(got), "K-08: all ways to pid 1 are closed", got)


@row("K-12", "the runtime's own program cannot be written from inside")
def own_exe(stage):
    with open(stage.cove.binary, "rb") as file:
        before = hashlib.sha256(file.read()).hexdigest()
    program = r'''
import os
opened = set()
for _ in range(200):
    for p in [x for x in os.listdir("/proc") if x.isdigit()]:
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            try:
                fd = os.open("/proc/%s/exe" % p, flags)
                opened.add(os.readlink("/proc/self/fd/%d" % fd)); os.close(fd)
            except OSError:
                pass
print(sorted(opened))
'''

    def attack(stage):
        box = stage.box()
        import threading
        storm = threading.Thread(target=lambda: [stage.cove.run(box, "true") for _ in range(50)])
        storm.start()
        got = stage.python(box, program)["stdout"]
        storm.join()
        return got
    # To reach it at all is the attack's first half. The other, writing, no build of ours can allow:
    # the kernel denies it while the program runs, and pid 1 runs as long as there is a box.
    stage.control_weak("undumpable,capabilities,program", attack, lambda got: "memfd:cove-init" in got)
    got = attack(stage)
    c.ok("python3" in got and "cove" not in got and "memfd" not in got, "K-12: it cannot be reached", got)
    with open(stage.cove.binary, "rb") as file:
        c.same(hashlib.sha256(file.read()).hexdigest(), before, "K-12: the binary is unchanged")


@row("K-10", "pid 1 ignores every signal of its box")
def signals(stage):
    def attack(stage):  # the parent of a command is pid 1, whatever its number
        box = stage.box()
        stage.cove.execute(box, "for s in 1 2 3 10 11 15 19 20 30 34 64 9; do kill -$s $PPID; done")
        return stage.cove.execute(box, "echo alive as $PPID")
    stage.control_weak("pidns", attack, lambda reply: reply.status != 200)
    reply = attack(stage)
    c.ok(reply.status == 200 and reply.json["stdout"] == "alive as 1\n", "K-10: the box lives on", reply)


@row("K-13", "no file of the host is inherited, no cwd leads out")
def leaked(stage):
    host_root = os.stat("/")

    def attack(stage):
        box, ways = stage.box(), []
        for n in range(3, 24):
            reply = stage.cove.execute(box, ["stat", "-c", "%i:%d", "."], cwd="/proc/self/fd/%d%s" % (n, "/.." * 12))
            if reply.status == 200 and reply.json["stdout"].strip() == "%d:%d" % (host_root.st_ino, host_root.st_dev):
                ways.append(n)
        return ways
    stage.control_weak("fds,cwd,cgroup_dir", attack, lambda ways: ways)  # to the root of the host
    stage.depth("fds", attack, lambda ways: not ways)
    c.same(attack(stage), [], "K-13: no cwd through /proc/self/fd leads out")

    def inherited(stage):
        return set(stage.cove.out(stage.box(), ["ls", "/proc/self/fd"]).split()) - {"0", "1", "2", "3"}
    stage.control_weak("fds,cwd", inherited, lambda fds: fds)
    c.same(inherited(stage), set(), "K-13: a command has stdio only")


@row("K-16", "no core pattern can be set, no core is written")
def core(stage):
    def opens(stage):  # opened only: what is written there is the host's
        return stage.python(stage.box(), "import os\nos.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)\nprint('open')")["stdout"]
    stage.control_weak("readonly,userns", opens, lambda out: out == "open\n")
    stage.depth("readonly", opens, lambda out: out == "")

    def lowers(stage):
        return stage.cove.out(stage.box(), "ulimit -c 0; grep core /proc/self/limits").split()[4:6]
    stage.control_weak("arguments", lowers, lambda limits: limits == ["0", "0"])
    c.same((opens(stage), lowers(stage)), ("", ["1", "1"]), "K-16: neither works in a box")
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


def legacy_tiocsti():
    try:
        return open("/proc/sys/dev/tty/legacy_tiocsti").read() == "1\n"
    except OSError:
        return True


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
    # TIOCCONS would take the host's console and TIOCLINUX may paste: the control types only. Newer
    # kernels can be told to keep typing for the host's root; then that one is asked.
    typing = "\n".join(line for line in program.splitlines() if "0x541C" not in line and "0x541D" not in line)
    off = "arguments" if legacy_tiocsti() else "arguments,capabilities,userns"
    typing = typing.replace("os._exit(0)", "sys.stdout.flush(); os._exit(0)")
    stage.control_weak(off, lambda stage: stage.python(stage.box(), typing)["stdout"],
                       lambda out: "plain=ok" in out and "wide=ok" in out)
    got = asked(program)(stage)
    c.same(got, {k: "EPERM" for k in ("plain", "wide", "linux", "cons")}, "K-18: all refused")


@row("K-21", "a set-uid file gives nothing, inside or outside")
def setuid(stage):
    def attack(stage):
        box = stage.box()
        got = stage.cove.out(box, "cp /bin/bash /workspace/s && chmod 4755 /workspace/s && ls -l /workspace/s"
                                  " | cut -c1-10")
        c.same(got, "-rwsr-xr-x\n", "K-21: the bit can be set")
        return stage.cove.out(box, ["/workspace/s", "-p", "-c", "id -u; id -ru"], user="1000")
    filters = "no_new_privs,seccomp,arguments,clone3"  # without the first no filter can be loaded
    stage.control_weak("nosuid," + filters, attack, lambda ids: ids == "0\n1000\n")
    stage.depth("nosuid", attack, lambda ids: ids == "1000\n1000\n")
    stage.depth(filters, attack, lambda ids: ids == "1000\n1000\n")
    c.same(attack(stage), "1000\n1000\n", "K-21: it has no effect for another user")

    def traverse(stage):
        return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ls",
                               os.path.join(stage.cove.data, "boxes")], capture_output=True).returncode
    stage.control_weak("private_dir", traverse, lambda code: code == 0)
    c.ok(traverse(stage) != 0, "K-21: nobody else can traverse the state directory")


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
    stage.no_control("a command's environment is data to us and never becomes ours; that it bites is seen in the box")


@row("K-25", "chroot leads nowhere but the box's own root")
def chroot(stage):
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

    def attack(stage):
        box = stage.box()
        inside = stage.cove.run(box, ["python3", "-I", "-c", "import os; print(True, sorted(os.listdir('/')))"])
        return stage.python(box, program)["stdout"], inside["stdout"]
    # Out of the box, into the bare root that it was built in: 'h' is where its layers hang.
    stage.control_weak("root", attack, lambda got: got[0].startswith("False") and "'h'" in got[0])
    got, want = attack(stage)
    c.same(got, want, "K-25: it ends where it began")


@row("K-27", "no device node can be made")
def nodes(stage):
    def attack(stage):  # /dev/zero, which harms nobody
        return stage.cove.out(stage.box(), "mknod /workspace/z c 1 5; ls /workspace; head -c 2 /workspace/z | od -An -tx1")
    stage.control_weak("capabilities,userns,nodev", attack, lambda out: out == "z\n 00 00\n")
    stage.depth("capabilities,userns", attack, lambda out: out == "z\n")  # made, but not to be opened
    stage.depth("capabilities,nodev", attack, lambda out: out == "")
    c.same(attack(stage), "", "K-27: none can be made")
    answer = stage.cove.run(stage.box(), "mknod /workspace/d b 259 0; mknod /workspace/c c 1 1; "
                                         "mknod /dev/x c 1 3; ls /workspace")
    c.same(answer["stdout"], "", "K-27: nor any other")


@row("K-29", "the lower layer stays as it was")
def lower(stage):
    victims = ["/usr/bin/env", "/usr/bin/python3", "/usr/lib/os-release"]
    victims = [os.path.realpath(v) for v in victims if os.path.exists(v)]

    def look(paths):
        return {v: (hashlib.sha256(open(v, "rb").read()).hexdigest(), os.stat(v).st_mtime_ns,
                    os.stat(v).st_nlink) if os.path.exists(v) else None for v in paths}
    program = "VICTIMS = %r\n" + r'''
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

    def attack(stage, inside=("/etc/passwd",), outside=None):
        """Which files of the lower layers have changed. /etc is of cove's own making: in the control
        the host's /usr stays out of it."""
        outside = outside or [os.path.join(top, "passwd") for top, _, files in os.walk(os.path.join(stage.cove.data, "layers"))
                              if top.endswith("root/etc") and "passwd" in files]
        before = look(outside)
        ran = stage.cove.run(stage.box(), ["python3", "-I", "-"], stdin=program % (list(inside),))
        after = look(outside)
        return ran["stdout"] == "tried\n" and before and [v for v in before if before[v] != after[v]]
    stage.control_weak("overlay", attack, lambda changed: changed, fresh=True)
    c.same(attack(stage), [], "K-29: the template's files are untouched")
    c.same(attack(stage, victims, victims), [], "K-29: the host's files are untouched")


@row("K-31", "random system calls do the host no harm")
def fuzz(stage):
    fuzzer = os.environ.get("COVE_SYSFUZZ", os.path.join(c.INMATES, "sysfuzz"))
    if not os.path.exists(fuzzer):
        stage.controlled = True
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
    stage.no_control("random calls have no outcome to be expected, so none to be seen without the filters")


@row("K-41", "MPTCP, SCTP, DCCP and UDP-Lite sockets are refused, TCP, UDP and ICMP are not")
def protocols(stage):
    program = """
import errno, socket
for family in (socket.AF_INET, socket.AF_INET6):
    for kind, protocol in ((1, 262), (1, 132), (5, 0), (6, 33), (6, 0), (2, 136), (1, 6), (2, 17), (2, 1 if family == socket.AF_INET else 58)):
        try:
            socket.socket(family, kind, protocol).close()
            print("%d/%d=ok" % (kind, protocol))
        except OSError as e:
            print("%d/%d=%s" % (kind, protocol, errno.errorcode[e.errno]))
"""

    def attack(stage):
        return stage.python(stage.box(), program)["stdout"].split()
    no_protocol, no_type = "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"
    want = ["1/262=" + no_protocol, "1/132=" + no_protocol, "5/0=" + no_type, "6/33=" + no_type, "6/0=" + no_type,
            "2/136=" + no_protocol, "1/6=ok", "2/17=ok"]
    has_mptcp = os.path.exists("/proc/sys/net/mptcp")
    if has_mptcp:
        stage.control_weak("arguments", attack, lambda got: "1/262=ok" in got)
    else:
        stage.no_control("this kernel has no MPTCP, and the others are modules that few have")
    c.same(attack(stage), want + ["2/1=ok"] + want + ["2/58=ok"], "K-41: each is refused as by a kernel without it")


# What the daemon is refused, and how where it is not by EPERM (1): ENOSYS, EPROTONOSUPPORT, EAFNOSUPPORT.
DAEMON_REFUSED = dict.fromkeys("""
fork vfork clone_newuser thread_newuser unshare setns execve execveat bpf mmap_rwx mmap_exec mprotect_exec
pkey_mprotect_exec memfd_create ioctl_tiocsti ptrace process_vm_readv pidfd_open kill prctl seccomp personality
setresuid mount chroot io_uring_setup io_setup userfaultfd perf_event_open keyctl shmget""".split(), "1")
DAEMON_REFUSED.update(clone3="38", socket_mptcp="93", socketpair_inet="97", socket_netlink="93", socket_packet="97",
                      socket_vsock="97", socket_alg="97")
# Without a filter these succeed for any process.
DAEMON_GAINS = ("fork", "vfork", "unshare", "mmap_rwx", "mmap_exec", "mprotect_exec", "socket_netlink",
                "pidfd_open", "kill", "prctl", "personality", "setresuid")


@row("K-40", "a daemon that was taken over cannot fork, make namespaces, run programs or add code")
def daemon_calls(stage):
    injector = os.path.join(os.path.dirname(os.environ.get("COVE_SYSFUZZ", os.path.join(c.INMATES, "sysfuzz"))), "inject")
    if not os.path.exists(injector):
        stage.controlled = True
        return c.skip("K-40: the calls are made", "%s was not built" % injector)
    if c.SHORT and not os.environ.get("COVE_VM"):
        stage.controlled = True
        return c.skip("K-40: the calls are made", "a sanitizer build has a wider list")

    def attack(stage):
        run = subprocess.run([injector, str(stage.cove.children()["daemon"])], capture_output=True, text=True, timeout=60)
        return dict(line.split() for line in run.stdout.splitlines()), run.stderr
    stage.control_weak("daemon_calls", attack, lambda got: not [name for name in DAEMON_GAINS if got[0].get(name) != "ok"],
                       fresh=True)
    got, said = attack(stage)
    c.same(got.pop("getpid", said), "ok", "K-40: calls are made in the daemon")
    for name in ("old_fork", "old_vfork"):  # not on every architecture
        c.same(got.pop(name, "1"), "1", "K-40: %s is refused" % name)
    c.same({name: (got.get(name), want) for name, want in DAEMON_REFUSED.items() if got.get(name) != want}, {},
           "K-40: every other one is refused")
    c.same(stage.cove.out(stage.box(), "echo alive"), "alive\n", "K-40: and the daemon works on")


play()
