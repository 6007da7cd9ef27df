"""Layers of a few entries, and the trees that they unpack to."""
import hashlib
import io
import os
import stat
import tarfile

REG, DIR, SYM, LNK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def layer(*entries):
    """(name, kind, content or target, mode, uid, gid, PAX headers)…; the last four may be absent."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, payload, *rest in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mtime = kind, 1600000000
            info.pax_headers = rest.pop() if (rest := list(rest)) and isinstance(rest[-1], dict) else {}
            info.mode, info.uid, info.gid = rest if rest else ((0o755, 0, 0) if kind == DIR else (0o640, 7, 8))
            if kind in (SYM, LNK):
                info.linkname, payload = payload, b""
            info.size = len(payload)
            archive.addfile(info, io.BytesIO(payload))
    return out.getvalue()


def d(name, *rest):
    return (name, DIR, b"", *rest)


def f(name, data=b"", *rest):
    return (name, REG, data, *rest)


def tree(root):
    """Each path with type, mode, owner, content, link; hard links by their first name. Times of directories depend on order."""
    found, first = {}, {}
    for top, dirs, files in os.walk(os.fsencode(root)):
        for name in dirs + files:
            path = os.path.join(top, name)
            st = os.lstat(path)
            at = os.path.relpath(path, os.fsencode(root))
            what = [stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid]
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as file:
                    what += [hashlib.sha256(file.read()).hexdigest(), st.st_mtime_ns]
                first.setdefault(st.st_ino, []).append(at)
            elif stat.S_ISLNK(st.st_mode):
                what = [stat.S_IFMT(st.st_mode), st.st_uid, st.st_gid, os.readlink(path), st.st_mtime_ns]
            if not stat.S_ISLNK(st.st_mode):
                what += [(key, os.getxattr(path, key)) for key in sorted(os.listxattr(path)) if key.startswith("user.")]
            found[at] = what
    groups = sorted(sorted(names) for names in first.values() if len(names) > 1)
    return found, groups
