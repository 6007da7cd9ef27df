"""Arms kill points of a weak build: base/fault.h says what the file holds."""
import mmap
import os
import struct

SIZE, NAME = 32768, 64


class Points:
    """What the processes share with us."""

    def __init__(self, path):
        with open(path, "wb") as file:
            file.write(bytes(SIZE))
        os.chmod(path, 0o666)
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), SIZE)

    def arm(self, first, second="", left=1):
        self.map[0:12] = bytes(12)
        self.map[64:128] = first.encode().ljust(NAME, b"\0")
        self.map[128:192] = second.encode().ljust(NAME, b"\0")
        self.map[4:8] = struct.pack("I", 1 if second else 0)
        self.map[0:4] = struct.pack("I", left)

    def disarm(self):
        self.map[0:8] = bytes(8)

    def fired(self):
        return struct.unpack("I", self.map[8:12])[0]

    def met(self):
        """How often each was met since the last kill."""
        rows = [struct.unpack("60sI", self.map[at:at + NAME]) for at in range(192, SIZE, NAME)]
        return {name.split(b"\0")[0].decode(): times for name, times in rows if times}
