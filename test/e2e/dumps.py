"""What a core file of a process would have, and other places where a value could be left."""
import os
import re


def mappings(pid, with_excluded=False):
    """(start, end, what) of what a dump would have: readable, and not excluded (VM_DONTDUMP)."""
    found, head = [], None
    with open("/proc/%d/smaps" % pid) as smaps:
        for line in smaps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (....) \S+ \S+ (\d+) *(.*)", line)
            if match:
                head = (int(match[1], 16), int(match[2], 16), match[3], match[5].strip())
            elif line.startswith("VmFlags:"):
                flags = line.split()[1:]
                if head[2][0] == "r" and head[3] not in ("[vvar]", "[vsyscall]") and (with_excluded or "dd" not in flags) and "io" not in flags:
                    found.append((head[0], head[1], head[3]))
    return found


def in_memory(pid, needles, with_excluded=False):
    """Which of the needles a dump of the process would have, and where."""
    found = {}
    try:
        ranges = mappings(pid, with_excluded)
        memory = open("/proc/%d/mem" % pid, "rb", 0)
    except OSError:
        return found
    with memory:
        for start, end, what in ranges:
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except (OSError, ValueError, OverflowError):
                continue
            for needle in needles:
                at = data.find(needle)
                if at >= 0:
                    found.setdefault(needle, []).append((what or "anonymous", hex(start + at), data[max(0, at - 24):at + 8]))
    return found


def in_files(top, needles):
    """Which of the needles any file below has, by path."""
    found = {}
    for place, _, names in os.walk(top):
        for name in names:
            path = os.path.join(place, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            try:
                with open(path, "rb") as file:
                    data = file.read(64 << 20)
            except OSError:
                continue
            for needle in needles:
                if needle in data:
                    found.setdefault(needle, []).append(path)
    return found
