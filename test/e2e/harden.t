#!/usr/bin/env python3
"""The binary is built as the threat model says: what a compiler and a linker can do against a bug,
they do. Read from the ELF file by readelf; pid 1 is taken out of the binary that carries it."""
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def readelf(flags, path):
    return subprocess.run(["readelf", "-W"] + flags + [path], capture_output=True,
                          text=True).stdout


def misplaced(segments):
    """Sections that are mapped executable and hold no code. A linker without -z separate-code puts the constants there."""
    code = {".init", ".plt", ".plt.got", ".plt.sec", ".text", ".fini"}
    kinds = re.findall(r"^\s+[A-Z_]+\s+0x.*", segments, re.M)
    mapped = re.findall(r"^[ \t]+\d+[ \t]*(.*)$", segments.split("Segment Sections...")[1], re.M)
    return [section for kind, sections in zip(kinds, mapped) if "LOAD" in kind and re.search(r" R[W ]?\s*E ", kind)
            for section in sections.split() if section not in code]


def branch_features(path):
    """BTI, PAC or IBT, as the ELF note tells: the processor lets an indirect branch go to marked places only."""
    return set(re.findall(r"\b(BTI|PAC|IBT)\b", readelf(["-n"], path)))


def check_branches():
    """One object without the note takes it from the program. None of ours lacks it; Debian 12's start files may."""
    objects = os.path.join(os.path.dirname(os.path.dirname(c.INMATES)))
    ours = [os.path.join(objects, name) for name in ("pid1.o", "openapi.o", "kernels_node_js.o", "src/main.o", "src/serve/serve.o")]
    if not all(map(os.path.exists, ours)):
        return c.skip("branch protection", "not built here: " + ", ".join(one for one in ours if not os.path.exists(one)))
    want = branch_features(ours[-1])
    c.ok(want, "the compiler marks where indirect branches may go", ours[-1])
    c.same([path for path in ours if branch_features(path) != want], [], "embedded files do not take it from the program")
    starts = [subprocess.run(["gcc", "-print-file-name=" + name], capture_output=True, text=True).stdout.strip()
              for name in ("Scrt1.o", "crti.o", "crtbeginS.o", "crtendS.o", "crtn.o")]
    lacking = [path for path in starts if not want <= branch_features(path)]
    if lacking:
        return c.note("this C library's own %s have no such note, so neither has cove" % ", ".join(map(os.path.basename, lacking)))
    return c.ok(want <= branch_features(c.BIN), "and cove has it")


def check(name, path, static):
    head, segments = readelf(["-h"], path), readelf(["-l"], path)
    dynamic, symbols = readelf(["-d"], path), readelf(["-s", "--dyn-syms"], path)
    c.ok(re.search(r"Type:\s+DYN", head), name + " is position independent", head)
    c.ok("GNU_RELRO" in segments and ("BIND_NOW" in dynamic or "NOW" in dynamic),
         name + " has read-only relocations, all bound at start", segments, dynamic)
    stack = re.search(r"GNU_STACK.*", segments)
    c.ok(stack and " E " not in stack.group() and "RWE" not in stack.group(),
         name + " has no executable stack", segments)
    loads = re.findall(r"^\s+LOAD.*", segments, re.M)
    c.ok(loads and not any("RWE" in line for line in loads),
         name + " has no segment that is both writable and executable", segments)
    c.same(misplaced(segments), [], name + " has nothing but code in its executable segment")
    c.ok("RPATH" not in dynamic and "RUNPATH" not in dynamic, name + " names no library path")
    c.ok("TEXTREL" not in dynamic, name + " needs no relocation of its code")
    if static:
        c.ok("INTERP" not in segments and "NEEDED" not in dynamic, name + " is static")
        return
    c.ok("__stack_chk_fail" in symbols, name + " guards its stack frames")
    c.ok(len(re.findall(r"\b__\w+_chk\b", symbols)) > 3, name + " uses fortified functions")


def embedded(path):
    """pid 1, cut out between its two symbols; None when the binary has been stripped."""
    found = {}
    for line in readelf(["-s"], path).splitlines():
        words = line.split()
        if len(words) >= 8 and words[-1] in ("pid1_start", "pid1_end"):
            found[words[-1]] = int(words[1], 16)
    if len(found) != 2:
        return None
    with open(path, "rb") as file:
        for line in readelf(["-S"], path).splitlines():
            match = re.match(r"\s*\[\s*\d+\]\s+(\S+)\s+PROGBITS\s+(\S+)\s+(\S+)\s+(\S+)", line)
            if not match:
                continue
            address, offset, size = (int(match.group(i), 16) for i in (2, 3, 4))
            if address <= found["pid1_start"] < address + size:
                file.seek(offset + found["pid1_start"] - address)
                return file.read(found["pid1_end"] - found["pid1_start"])
    return None


if not os.path.exists("/usr/bin/readelf"):
    c.skip_all("readelf (binutils) is not installed")
if c.SHORT:
    c.skip_all("a sanitizer build is hardened by other means")
check("cove", c.BIN, False)
inner = embedded(c.BIN)
if c.ok(inner and inner[:4] == b"\x7fELF", "cove carries pid 1"):
    # On arm64 its segments are 64 KiB apart, for kernels with pages as large.
    c.ok(len(inner) < 384 * 1024 and len(inner.replace(b"\0" * 4096, b"")) < 256 * 1024, "pid 1 is smaller than 256 KiB, but for zeros", len(inner))
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(inner)
        copy.flush()
        check("pid 1", copy.name, True)
    c.same(struct.unpack_from("<H", inner, 18), struct.unpack_from("<H", open(c.BIN, "rb").read(20), 18),
           "pid 1 is of the same architecture")
library = os.path.join(os.path.dirname(c.BIN), "libcove.so")
if os.path.exists(library):
    c.same(misplaced(readelf(["-l"], library)), [], "libcove has nothing but code in its executable segment")
check_branches()
c.done()
