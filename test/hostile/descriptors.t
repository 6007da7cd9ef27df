#!/usr/bin/env python3
"""Group D: descriptors that are given to a less trusted process lead nowhere, and carry no more rights than it has.

The rows look at /proc/PID/fd from the host, and act as a daemon or a pid 1 that was taken over: they copy its
descriptors with pidfd_getfd(2) and speak to the warden over the daemon's own socket while the daemon is stopped.
"""
import array
import contextlib
import ctypes
import errno
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tarfile
import tempfile
import threading

from rows import LO_UP, WEAK, WeakCove, c, play, row

LIBC = ctypes.CDLL(None, use_errno=True)
ORDER_LEAF, ORDER_NETWORK = 3, 15
CGROUP_TYPES = {0x27e0eb, 0x63677270}
# As the bench hides it from crun: this cove sees a host with cgroup v1 alone.
HIDE_V2 = "awk '$3 == \"cgroup2\" {print $2}' /proc/mounts | xargs -r -n 1 umount -l"


def is_hybrid():
    kinds = {line.split()[2] for line in open("/proc/self/mounts")}
    return {"cgroup", "cgroup2"} <= kinds


def fs_type(fd):
    room = ctypes.create_string_buffer(256)
    if LIBC.fstatfs(fd, room):
        return 0
    return struct.unpack_from("l", room)[0]


def fds_of(pid):
    """A copy of every descriptor of a process, by its number."""
    copies = {}
    pidfd = os.pidfd_open(pid)
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            copy = LIBC.syscall(438, pidfd, int(name), 0)  # pidfd_getfd
            if copy >= 0:
                copies[int(name)] = copy
    finally:
        os.close(pidfd)
    return copies


def close_all(fds):
    for fd in fds:
        os.close(fd)


def daemon_of(cove):
    return cove.children()["daemon"]


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        c.until(lambda: open("/proc/%d/stat" % pid, errors="replace").read().rsplit(")", 1)[1].split()[0] == "T")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Warden:
    """The daemon's own connection to the warden. Only while the daemon is stopped."""

    def __init__(self, daemon):
        self.sock, self.id = None, 1 << 30
        copies = fds_of(daemon)
        for fd in copies.values():
            with contextlib.suppress(OSError):
                sock = socket.socket(fileno=os.dup(fd))
                if sock.family == socket.AF_UNIX and str(sock.getpeername()).endswith("warden.sock"):
                    self.sock = sock
                    continue
                sock.close()
        close_all(copies.values())

    @staticmethod
    def text(value):
        return struct.pack("<I", len(value)) + value.encode() + b"\0"

    def order(self, kind, fields, fds=()):
        """The kind of the answer (0: done), and the descriptors that came with it."""
        self.id += 1
        head = struct.pack("<BI", kind, self.id) + self.text("")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.setblocking(True)
        self.sock.sendmsg([head + fields], rights)
        while True:
            data, ancillary, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(64))
            came = array.array("i")
            for _, _, part in ancillary:
                came.frombytes(part[:len(part) - len(part) % came.itemsize])
            if struct.unpack_from("<BBI", data)[2] == self.id:
                return data[0], list(came), data
            close_all(came)

    def leaf(self, box):
        return self.order(ORDER_LEAF, self.text(box) + self.text("") + struct.pack("<BI", 0, 0))

    def network(self, box, fd):
        return self.order(ORDER_NETWORK, self.text(box) + struct.pack("<B", 1), [fd])

    def close(self):
        self.sock.close()


def as_user(uid, function):
    """What `function` returns (text) in a child with that uid and no capabilities."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(write, function().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        got = answer.read()
    os.waitpid(pid, 0)
    return got


def members(box):
    """The processes of a box, pid 1 first."""
    found = {}
    for pid in c._pids():
        with contextlib.suppress(OSError):
            if box["id"] in open("/proc/%d/cgroup" % pid).read():
                status = open("/proc/%d/status" % pid, errors="replace").read()
                found[pid] = int(status.split("NSpid:")[1].split("\n")[0].split()[-1])
    return sorted(found, key=found.get)


def identity(fd):
    at = os.fstat(fd)
    return at.st_dev, at.st_ino


def walk_up(fd):
    """Where ".." ends from a directory."""
    at = os.dup(fd)
    while True:
        parent = os.open("..", os.O_PATH | os.O_DIRECTORY, dir_fd=at)
        same = identity(parent) == identity(at) and mount_of(parent) == mount_of(at)
        os.close(at)
        at = parent
        if same:
            return at


def mount_of(fd):
    return open("/proc/self/fdinfo/%d" % fd).read().split("mnt_id:")[1].split()[0]


def inside_ends(box, pid):
    """Where ".." may end: the box's root, and its own cgroups."""
    ends = set()
    root = os.open("/proc/%d/root" % pid, os.O_PATH | os.O_DIRECTORY)
    ends.add(identity(root))
    os.close(root)
    for group in c._groups(None):
        if box["id"] in group:
            with contextlib.suppress(OSError):
                found = os.stat(group)
                ends.add((found.st_dev, found.st_ino))
    return ends


def directories(pid):
    for name in ["fd/" + number for number in os.listdir("/proc/%d/fd" % pid)] + ["cwd", "root"]:
        with contextlib.suppress(OSError):
            fd = os.open("/proc/%d/%s" % (pid, name), os.O_PATH)
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                yield name, fd
            os.close(fd)


def populate(stage):
    """A box with a command, a shell session, an interpreter, a file worker, and two exec cgroups at least."""
    box = stage.box()
    at = "/v1/sandboxes/%s/api" % box["id"]
    stage.cove.out(box, "mkfifo /tmp/fifo")
    started = stage.cove.post(at + "/process/start", {"command": "sleep 600"})
    stage.cove.post(at + "/session/create", {"id": "s"})
    stage.cove.run(box, "sleep 600 &", sessionId="s")
    context = stage.cove.post(at + "/contexts", {"language": "python"})
    watch = http.client.HTTPConnection("127.0.0.1", stage.cove.port, timeout=60)
    watch.request("POST", at + "/watch", json.dumps({"path": "/workspace"}),
                  {"Authorization": "Bearer " + stage.cove.key, "Content-Type": "application/json"})
    watching = watch.getresponse()
    watching.fp.readline()
    stage.cove.get(at + "/list-files?path=/workspace")
    kinds = [started.status, context.status, watching.status]
    return box, watch, kinds


def escapes(stage):
    """Directory descriptors of a box's processes whose ".." ends outside, what was looked at, and the host's own
    password file as read through them."""
    with stage.cove.inside() if hasattr(stage.cove, "inside") else contextlib.nullcontext():
        box, watch, kinds = populate(stage)
    out, seen = [], []
    pids = members(box)
    for pid in pids:
        ends = inside_ends(box, pids[0])
        name = "%s(%d)" % (open("/proc/%d/comm" % pid, errors="replace").read().strip(), pid)
        for path, fd in directories(pid):
            end = walk_up(fd)
            seen.append((name, path, os.readlink("/proc/self/fd/%d" % end)))
            if identity(end) not in ends:
                host = os.path.exists("/proc/self/fd/%d/etc/passwd" % end)
                out.append((name, path, os.readlink("/proc/%d/%s" % (pid, path)), host))
            os.close(end)
    watch.close()
    return out, seen, kinds, len(pids)


@row("D-01", "no directory descriptor of a process in a box leads out of it")
def directory_descriptors(stage):
    def inside(got, how):
        out, seen, kinds, count = got
        c.ok(count >= 4 and kinds == [200, 200, 200], "D-01: %s: pid 1, commands, interpreter and file workers are there" % how, kinds, count)
        c.ok(len(seen) >= 2 * count, "D-01: %s: every one has a root and a working directory to walk from" % how, seen)
        c.same(out, [], "D-01: %s: \"..\" stays inside from each" % how)

    if "cgroup2" in open("/proc/self/mounts").read():
        stage.control_weak("cgroup_dir", escapes, lambda got: any(each[3] for each in got[0]))
    else:
        stage.no_control("on cgroup v1 no process is given a directory")
    inside(escapes(stage), "as this host is")
    if is_hybrid() and stage.can_weaken(""):
        with stage.weakened("", before=HIDE_V2) as old:
            inside(escapes(old), "pure cgroup v1")


def foreign_writes(stage):
    """What a daemon that was taken over can do to a process of the host's root through its descriptors:
    {descriptor: error} of those that lie on a cgroup file system, and the victim's cgroups."""
    box = stage.box()
    victim = subprocess.Popen(["sleep", "600"])
    daemon = daemon_of(stage.cove)
    uid = os.stat("/proc/%d" % daemon).st_uid
    held = {}
    try:
        stage.cove.out(box, "true")
        with stopped(daemon):
            warden = Warden(daemon)
            kind, came, _ = warden.leaf(box["id"])
            warden.close()
            held = {"held %d" % number: fd for number, fd in fds_of(daemon).items()}
            held.update({"came %d" % i: fd for i, fd in enumerate(came)})

            def attack(fd):
                def reason(function):
                    try:
                        function()
                        return "written"
                    except OSError as error:
                        return errno.errorcode[error.errno]

                def put(dir_fd, path):
                    target = os.open(path, os.O_WRONLY, dir_fd=dir_fd)
                    os.write(target, b"%d" % victim.pid)
                if stat.S_ISDIR(os.fstat(fd).st_mode):
                    return [reason(lambda name=name: put(fd, name)) for name in ("tasks", "cgroup.procs", "../cgroup.procs", "../tasks")]
                return [reason(lambda: os.write(fd, b"%d" % victim.pid)), reason(lambda: put(None, "/proc/self/fd/%d" % fd))]
            got = {name: as_user(uid, lambda fd=fd: " ".join(attack(fd))) for name, fd in held.items() if fs_type(fd) in CGROUP_TYPES}
        groups = open("/proc/%d/cgroup" % victim.pid).read()
        return kind, len(came), got, box["id"] in groups
    finally:
        close_all(held.values())
        victim.kill()
        victim.wait()


@row("D-02", "a daemon that was taken over moves no process of the host into a cgroup")
def foreign_process(stage):
    def refused(got, how):
        kind, came, tried, moved = got
        c.ok(kind == 0 and came >= 2 and len(tried) >= came, "D-02: %s: the warden gives it the descriptors of an exec's cgroup" % how, got)
        c.ok(not moved and not any("written" in each for each in tried.values()), "D-02: %s: none takes a foreign pid" % how, tried)
        return tried

    if is_hybrid() and stage.can_weaken("cgroup_tasks"):
        stage.control_weak("cgroup_tasks", foreign_writes, lambda got: got[3], before=HIDE_V2)
        with stage.weakened("", before=HIDE_V2) as old:
            tried = refused(foreign_writes(old), "pure cgroup v1")
            c.ok(any(each.startswith("EACCES") for each in tried.values()), "D-02: pure cgroup v1: EACCES, by the opener's uid", tried)
    else:
        stage.no_control("only cgroup v1 judges by the opener")
    refused(foreign_writes(stage), "as this host is")


def socket_in(enter):
    """A UDP socket that a child makes after `enter()`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            enter()
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            socket.send_fds(theirs, [b"s"], [made.fileno()])
        finally:
            os._exit(0)
    theirs.close()
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    os.waitpid(pid, 0)
    return fds[0]


def enter_net(pid):
    if LIBC.setns(os.open("/proc/%d/ns/net" % pid, os.O_RDONLY), 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")


def new_net():
    """A namespace that the warden could listen in: lo is up, and port 53 is for everybody."""
    LIBC.unshare(0x40000000)
    exec(LO_UP)
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as first:
        first.write("0")


def ways_out(stage):
    """The warden's answers when the way out of a box is to be opened in its own, another box's, a foreign and the
    host's network namespace: 0 is done, 2 refused."""
    one, other = stage.box(network={"mode": "off"}), stage.box(network={"mode": "off"})
    daemon = daemon_of(stage.cove)
    for box in (one, other):
        stage.cove.out(box, "true")
    sockets = [socket_in(lambda: enter_net(members(one)[0])), socket_in(lambda: enter_net(members(other)[0])),
               socket_in(new_net), socket_in(lambda: None)]
    answers = []
    with stopped(daemon):
        warden = Warden(daemon)
        for fd in sockets:
            kind, came, _ = warden.network(one["id"], fd)
            answers.append(kind)
            close_all(came)
        warden.close()
    close_all(sockets)
    return answers


@row("D-03", "a daemon that was taken over leads the warden into no network namespace but the box's own")
def foreign_network(stage):
    stage.control_weak("netns_own", ways_out, lambda got: got == [0, 0, 0, 2])
    c.same(ways_out(stage), [0, 2, 2, 2], "D-03: the box's own is taken; another box's, a foreign one and the host's are refused")


def cli_of(stage, off):
    weak = isinstance(stage.cove, WeakCove)
    return WEAK if weak else c.BIN, dict(os.environ, COVE_WEAKEN=off) if weak else dict(os.environ)


def signalled(stage, off, write):
    """How `write(words)` into the lock went, and what became of a process of root's whose pid stands there when root
    reloads, upgrades and drains: (written, [(refused, the victim's end)])."""
    lock = os.path.join(stage.cove.data, "lock")
    words = open(lock).read()
    binary, env = cli_of(stage, off)
    written, ends = None, []
    try:
        for verb in ("reload", "upgrade", "drain"):
            victim = subprocess.Popen(["sleep", "600"])
            try:
                written = write(("%d 1 serving" % victim.pid).ljust(47) + "\n")
                if "written" not in written:
                    break
                told = subprocess.run([binary, verb, "--data", stage.cove.data], env=env, capture_output=True, timeout=60)
                ends.append((told.returncode != 0, c.until(victim.poll, 0.2)))
            finally:
                victim.kill()
                victim.wait()
    finally:
        with open(lock, "r+") as file:
            file.write(words)
    return written, ends


def forge(stage, off):
    """By the daemon's own descriptor."""
    lock = os.stat(os.path.join(stage.cove.data, "lock"))
    daemon = daemon_of(stage.cove)
    uid = os.stat("/proc/%d" % daemon).st_uid

    def write(text):
        def put():
            said = []
            for fd in copies.values():
                at = os.fstat(fd)
                if (at.st_dev, at.st_ino) != (lock.st_dev, lock.st_ino):
                    continue
                for again in (lambda: fd, lambda: os.open("/proc/self/fd/%d" % fd, os.O_WRONLY)):
                    try:
                        os.pwrite(again(), text.encode(), 0)
                        said.append("written")
                    except OSError as error:
                        said.append(errno.errorcode[error.errno])
            return " ".join(said)
        copies = fds_of(daemon)
        try:
            return as_user(uid, put)
        finally:
            close_all(copies.values())
    return signalled(stage, off, write)


@row("D-04", "a daemon that was taken over has no process signalled by root's own command line")
def forged_lock(stage):
    off = "lock_readonly,lock_holder"
    stage.control_weak(off, lambda stage: forge(stage, off), lambda got: "written" in got[0] and got[1][0][1] == -signal.SIGHUP)
    stage.depth("lock_readonly", lambda stage: forge(stage, "lock_readonly"), lambda got: "written" in got[0] and all(end is None for _, end in got[1]))
    written, _ = forge(stage, "")
    c.same(written, "EBADF EACCES", "D-04: the daemon's descriptor of the lock cannot be written, nor opened again for it")

    def by_root(text):
        with open(os.path.join(stage.cove.data, "lock"), "r+") as file:
            file.write(text)
        return "written"
    _, ends = signalled(stage, "", by_root)
    c.same(ends, [(True, None)] * 3, "D-04: reload, upgrade and drain refuse a pid that does not hold the lock")
    told = subprocess.run([c.BIN, "reload", "--data", stage.cove.data], capture_output=True, text=True, timeout=60)
    c.ok(told.returncode == 0, "D-04: and still reach the one that does", told)


def program_uses(stage):
    """What a box can do with the file of its pid 1's program, which it runs as a command of its own."""
    box = stage.box()
    script = r'''
import ctypes, fcntl, glob, os
libc = ctypes.CDLL(None)
got = set()
for turn in range(TURNS):
    for path in glob.glob("/proc/[0-9]*/exe"):
        try:
            if "cove-init" not in os.readlink(path):
                continue
            got.add("seen")
            if turn % 2:
                watch = libc.inotify_init1(0)
                if libc.inotify_add_watch(watch, path.encode(), 0xfff) >= 0:
                    got.add("watched")
                os.close(watch)
                continue
            fd = os.open(path, os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            got.add("locked")
            os.close(fd)
        except OSError:
            pass
    if {"locked", "watched"} <= got:
        break
print(*sorted(got))
'''.replace("TURNS", "60" if os.environ.get("COVE_VM") else "1500")
    over = threading.Event()
    ends = set()

    def storm():
        while not over.is_set():
            reply = stage.cove.execute(box, ["/proc/self/exe"])
            ends.add((reply.status, reply.json.get("exitCode")))
    threads = [threading.Thread(target=storm) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        got = stage.python(box, script)["stdout"].split()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return got, ends


@row("D-05", "the program of pid 1, one file for all boxes, can be neither locked nor watched in a box")
def one_program(stage):
    stage.control_weak("program", program_uses, lambda got: {"locked", "watched"} & set(got[0]))
    got, ends = program_uses(stage)
    c.ok(not {"locked", "watched"} & set(got), "D-05: no lock and no watch on it", got, ends)


def jail_descriptors(stage):
    """Where the descriptors of the process that unpacks an archive lead, while it waits for more of one."""
    warden = stage.cove.children()["warden"]
    before = set(children_of(warden))
    half = tarfile.TarInfo("file")
    half.size = 1 << 20
    with stage.cove.inside() if hasattr(stage.cove, "inside") else contextlib.nullcontext():
        sock = socket.create_connection(("127.0.0.1", stage.cove.port), timeout=60)
    sock.sendall(("POST /v1/templates?name=slow HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-tar\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n" % (stage.cove.port, stage.cove.key)).encode() + b"200\r\n" + half.tobuf() + b"\r\n")

    def jailed():
        """Its filter is loaded last of all."""
        for pid in set(children_of(warden)) - before:
            with contextlib.suppress(OSError):
                if "Seccomp_filters:\t2" in open("/proc/%d/status" % pid, errors="replace").read() and os.readlink("/proc/%d/ns/net" % pid) != os.readlink("/proc/self/ns/net"):
                    return pid
        return None
    try:
        pid = c.until(jailed)
        ends = inside_ends({"id": "no box"}, pid)
        outside = [os.readlink("/proc/%d/%s" % (pid, path)) for path, fd in directories(pid) if identity(walk_up(fd)) not in ends]
        files = [os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in sorted(os.listdir("/proc/%d/fd" % pid), key=int)]
        return outside, files
    finally:
        sock.close()
        c.until(lambda: not set(children_of(warden)) - before)


def children_of(pid):
    return [int(each) for each in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]


@row("D-06", "the process that unpacks an archive has no descriptor of the warden's log")
def jail_log(stage):
    stage.control_weak("jail_stdio", jail_descriptors, lambda got: any(each.endswith(".log") for each in got[1]))
    outside, files = jail_descriptors(stage)
    c.same(outside, [], "D-06: no directory leads out of the jail")
    c.ok(len(files) >= 5 and all(re.match(r"pipe:|/dev/null$|/root(/file)?$", each) for each in files),
         "D-06: nothing but pipes, /dev/null and what is being unpacked", files)


@row("D-07", "the daemon has no capability, nor can any exec give it one; each data directory has a daemon's user of its own")
def daemon_rights(stage):
    def rights(cove):
        status = open("/proc/%d/status" % daemon_of(cove)).read()
        return {word: int(re.search(word + r":\s+(\w+)", status).group(1), 16) for word in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    c.ok(not any(rights(stage.cove).values()), "D-07: every set is empty, the bounding set, too", rights(stage.cove))
    stage.no_control("rights that are not there have no switch; an unknown directory's user was `cove`'s before")
    if os.environ.get("COVE_VM"):
        return  # the rest depends on no kernel, and is long there
    # With a user `cove` on the host, which the default data directory alone has.
    home = tempfile.mkdtemp(prefix="cove-users-")
    os.chmod(home, 0o711)
    shutil.copy("/etc/passwd", home + "/passwd")
    with open(home + "/passwd", "a") as file:
        file.write("cove:x:61111:61111::/nonexistent:/usr/sbin/nologin\n" if "\ncove:" not in open("/etc/passwd").read() else "")
    user = int(re.search(r"^cove:x:(\d+)", open(home + "/passwd").read(), re.M).group(1))
    coves = [WeakCove((), home + "/%d" % i, before="mount --bind %s/passwd /etc/passwd" % home, binary=c.BIN) for i in range(2)]
    uids = [user]
    for cove in coves:
        uids.append(int(re.search(r"Uid:\s+(\d+)", open("/proc/%d/status" % daemon_of(cove)).read()).group(1)))
    c.ok(len(set(uids)) == 3, "D-07: two data directories have two users, neither of them `cove`", uids)
    for cove in coves:
        cove.close()
    shutil.rmtree(home)


if __name__ == "__main__":
    play()
