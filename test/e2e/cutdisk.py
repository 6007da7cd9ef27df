"""A block device whose power can be cut: a loop device over the one file of a FUSE file system, served here over
/dev/fuse without a library. A write is held in memory until the device is flushed, as in the cache of a disk; cut()
drops what was not flushed, or keeps a random part of it. After the cut the mounted file system still finds a device
that takes its writes, so that it can be unmounted, but none of them reaches the backing file.

`cutdisk.py BACKING MOUNTPOINT` is the server; it is told "cut SEED KEEP" or "count" on stdin, a line each, and answers
with a line. It ends when the file system is unmounted.
"""
import ctypes
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

BLOCK = 4096
MAX_WRITE = 1 << 20
GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 3, 4, 14, 15, 16, 17, 18, 20, 25, 26
NO_REPLY = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
ENOSYS = 38
MAX_PAGES, BIG_WRITES = 1 << 22, 1 << 5


class Server:
    def __init__(self, backing):
        self.file = os.open(backing, os.O_RDWR)
        self.size = os.fstat(self.file).st_size
        self.held = {}  # number of a block: what was written to it since the last flush
        self.cut = False
        self.flushes = 0

    def read(self, at, size):
        end = min(at + size, self.size)
        first, last = at // BLOCK, (end + BLOCK - 1) // BLOCK
        data = os.pread(self.file, end - at, at)
        if not self.held or not any(number in self.held for number in range(first, last)):
            return data
        data = bytearray(os.pread(self.file, (last - first) * BLOCK, first * BLOCK))
        for number in range(first, last):
            block = self.held.get(number)
            if block is not None:
                data[(number - first) * BLOCK:(number - first + 1) * BLOCK] = block
        return bytes(data[at - first * BLOCK:end - first * BLOCK])

    def write(self, at, data):
        if at % BLOCK or len(data) % BLOCK:
            first, end = at // BLOCK * BLOCK, -(-(at + len(data)) // BLOCK) * BLOCK
            whole = bytearray(self.read(first, end - first))
            whole[at - first:at - first + len(data)] = data
            at, data = first, bytes(whole)
        for offset in range(0, len(data), BLOCK):
            self.held[(at + offset) // BLOCK] = data[offset:offset + BLOCK]

    def flush(self):
        self.flushes += 1
        if self.cut:
            return
        for number, block in self.held.items():
            os.pwrite(self.file, block, number * BLOCK)
        self.held.clear()

    def cut_power(self, seed, keep):
        """What was not flushed is lost; with `keep` each block of it is on the disk with that probability."""
        kept = random.Random(seed)
        lost = len(self.held)
        for number in sorted(self.held):
            if keep and kept.random() < keep:
                os.pwrite(self.file, self.held[number], number * BLOCK)
        self.cut = True
        return lost

    def attributes(self):
        return struct.pack("<QII", 3600, 0, 0) + struct.pack("<QQQQQQIIIIIIIIII", 1, self.size, self.size // 512, 0, 0, 0, 0, 0, 0,
                                                             0o100600, 1, 0, 0, 0, BLOCK, 0)

    def answer(self, opcode, body):
        """The error number and the bytes of the reply."""
        if opcode == INIT:
            flags = struct.unpack_from("<IIII", body)[3] & (MAX_PAGES | BIG_WRITES)
            return 0, struct.pack("<IIIIHHIIHH", 7, 31, 1 << 17, flags, 64, 48, MAX_WRITE, 1, MAX_WRITE // 4096, 0).ljust(64, b"\0")
        if opcode in (GETATTR, SETATTR):
            return 0, self.attributes()
        if opcode == OPEN:
            return 0, struct.pack("<QII", 1, 0, 0)
        if opcode == READ:
            _, at, size = struct.unpack_from("<QQI", body)
            return 0, self.read(at, size)
        if opcode == WRITE:
            _, at, size = struct.unpack_from("<QQI", body)
            self.write(at, body[40:40 + size])
            return 0, struct.pack("<II", size, 0)
        if opcode == FSYNC:
            self.flush()
            return 0, b""
        if opcode in (FLUSH, RELEASE):
            return 0, b""
        if opcode == STATFS:
            return 0, struct.pack("<QQQQQIIII", 0, 0, 0, 0, 0, BLOCK, 255, BLOCK, 0).ljust(80, b"\0")
        return ENOSYS, b""

    def turn(self, fuse):
        request = os.read(fuse, MAX_WRITE + BLOCK)
        _, opcode, unique = struct.unpack_from("<IIQ", request)
        if opcode in NO_REPLY:
            return
        error, body = self.answer(opcode, request[40:])
        try:
            os.write(fuse, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)
        except FileNotFoundError:
            pass  # the request was interrupted meanwhile


def order(server, line):
    words = line.split()
    if words[0] == "cut":
        return server.cut_power(int(words[1]), float(words[2]))
    return server.flushes


def serve(backing, where):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    server = Server(backing)
    fuse = os.open("/dev/fuse", os.O_RDWR)
    mount(b"cutdisk", where, b"fuse", 6, "fd=%d,rootmode=100600,user_id=0,group_id=0,max_read=%d" % (fuse, MAX_WRITE))
    print("ready", flush=True)
    poll = select.poll()
    poll.register(fuse, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == fuse:
                try:
                    server.turn(fuse)
                except OSError as error:
                    if error.errno == 19:  # ENODEV: unmounted
                        return
                    if error.errno not in (4, 11, 2):
                        raise
                continue
            line = sys.stdin.readline()
            if not line:
                poll.unregister(0)
                continue
            print(order(server, line), flush=True)


def mount(source, where, kind, flags, data):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, where.encode(), kind, ctypes.c_ulong(flags), data.encode()):
        raise OSError(ctypes.get_errno(), "mount %s" % where)


def umount(where):
    """False: somebody still uses it."""
    return ctypes.CDLL(None).umount2(where.encode(), 0) == 0


class CutDisk:
    """An ext4 file system on such a device, mounted at home/disk. on() and off() are the power."""

    def __init__(self, home, size):
        self.backing, self.file, self.where = (os.path.join(home, name) for name in ("backing", "device", "disk"))
        for name in (self.backing, self.file):
            with open(name, "wb") as file:
                file.truncate(size if name == self.backing else 0)
        os.mkdir(self.where)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-E", "nodiscard,lazy_itable_init=1", self.backing], check=True)
        self.server = None

    def on(self):
        self.server = subprocess.Popen([sys.executable, os.path.abspath(__file__), self.backing, self.file], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.server.stdout.readline() != "ready\n":
            raise RuntimeError("no FUSE file system")
        # The device ends with the mount: nothing of it stays behind, whoever is killed.
        subprocess.run(["mount", "-t", "ext4", "-o", "loop,noinit_itable", self.file, self.where], check=True)

    def ask(self, words):
        self.server.stdin.write(words + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())

    def cut(self, seed=0, keep=0.0):
        """From now on nothing reaches the disk. Returns how many blocks were not flushed."""
        return self.ask("cut %d %g" % (seed, keep))

    def off(self, seconds=30):
        """Takes the device away, once nobody uses it. False: somebody does."""
        end = time.monotonic() + seconds
        for where in (self.where, self.file):
            while os.path.ismount(where) or where == self.file and self.server.poll() is None:
                if umount(where) and where == self.file:
                    break
                if time.monotonic() > end:
                    return False
                time.sleep(0.05)
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()
        self.server = None
        return True

    def close(self):
        if self.server and not self.off(5):
            for where in (self.where, self.file):
                ctypes.CDLL(None).umount2(where.encode(), 2)  # MNT_DETACH
            self.server.kill()
            self.server.wait()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
