#!/usr/bin/env python3
"""The Debian package as a host would get it: what lies in it, whose it is, that its unit is one, that the binary
in it runs a sandbox, and, in such a sandbox, that dpkg installs, removes and purges it. DEB names the package."""
import glob
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cove as c  # noqa: E402

VERSION = open(os.path.join(c.ROOT, "VERSION")).read().strip()
FILES = {  # all of it; {lib} is the directory of this architecture
    "lib/systemd/system/cove.service", "usr/bin/cove", "usr/include/cove.h", "{lib}/libcove.a", "{lib}/libcove.so",
    "{lib}/libcove.so.0", "{lib}/pkgconfig/libcove.pc", "usr/share/bash-completion/completions/cove",
    "usr/share/doc/cove/changelog.gz", "usr/share/doc/cove/copyright", "usr/share/fish/vendor_completions.d/cove.fish",
    "usr/share/lintian/overrides/cove", "usr/share/man/man1/cove.1.gz", "usr/share/man/man3/libcove.3.gz",
    "usr/share/zsh/vendor-completions/_cove"}


def said(*argv, **kw):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)


def contents(deb, root):
    listing = said("dpkg-deb", "-c", deb).stdout.splitlines()
    c.same({line.split()[1] for line in listing}, {"root/root"}, "all of it is root's")
    lib = "usr/lib/" + said("dpkg-architecture", "-qDEB_HOST_MULTIARCH").stdout.strip()
    names, modes = set(), set()
    for at, dirs, files in os.walk(root):
        for name in dirs + files:
            path = os.path.join(at, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                modes.add(("directory", oct(stat.S_IMODE(mode))))
                continue
            names.add(os.path.relpath(path, root))
            if not stat.S_ISLNK(mode):
                modes.add((name if name == "cove" and at.endswith("bin") else "file", oct(stat.S_IMODE(mode))))
    c.same(sorted(names ^ {name.format(lib=lib) for name in FILES}), [], "the files in it are those that should be")
    c.same(modes, {("directory", "0o755"), ("file", "0o644"), ("cove", "0o755")}, "and their modes too")
    c.same(os.readlink(os.path.join(root, lib, "libcove.so")), "libcove.so.0", "the library has its link")
    text = open(os.path.join(root, lib, "pkgconfig/libcove.pc")).read()
    c.ok("prefix=/usr\n" in text and "@" not in text and VERSION in text, "pkg-config reads where it lies", text)
    licence = open(os.path.join(root, "usr/share/doc/cove/copyright")).read()
    words = " ".join(open(os.path.join(c.ROOT, "LICENSE")).read().split()).split("authors ", 1)[1]
    c.ok(words in " ".join(licence.replace("\n .\n", "\n").split()), "its licence is that of the source tree", licence)


def control(deb, root):
    where = os.path.join(root, "..", "control")
    said("dpkg-deb", "-e", deb, where)
    c.same(said("dpkg-deb", "-f", deb, "Version").stdout.strip(), VERSION, "its version is that of the tree")
    depends = said("dpkg-deb", "-f", deb, "Depends").stdout
    c.ok(all(name in depends for name in ("libc6", "libseccomp2", "libssl3", "libarchive13", "e2fsprogs")),
         "it asks for what it loads", depends)
    bad = []
    for line in open(os.path.join(where, "md5sums")):
        want, name = line.split()
        if hashlib.md5(open(os.path.join(root, name), "rb").read()).hexdigest() != want:
            bad.append(name)
    c.same(bad, [], "the sums are right")
    for script in ("postinst", "prerm", "postrm"):
        path = os.path.join(where, script)
        got = said("sh", "-n", path)
        c.ok(os.stat(path).st_mode & 0o777 == 0o755 and got.returncode == 0, script + " is a script", got.stdout)


def unit(root):
    sentence = "systemd finds no fault with the unit"
    if not shutil.which("systemd-analyze"):
        return c.skip(sentence, "systemd-analyze is not installed")
    # Where the program lies now, so that it is found; other units of the host are not asked about.
    path = os.path.join(root, "..", "cove.service")
    text = open(os.path.join(root, "lib/systemd/system/cove.service")).read()
    c.ok("ExecStart=/usr/bin/cove serve --on-term=handoff\n" in text and "@" not in text, "the unit starts what is installed", text)
    with open(path, "w") as file:
        file.write(text.replace("/usr/bin/cove", os.path.join(root, "usr/bin/cove")))
    got = said("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path)
    return c.ok(got.returncode == 0 and "cove.service" not in got.stdout, sentence, got.stdout)


def install(binary, deb):
    """In a sandbox of the host's own files: dpkg's database and /usr are there, and nothing is spoilt."""
    cove = c.Cove(binary=binary)
    box = cove.create(limits={"memoryMB": 1024})
    at = "/v1/sandboxes/" + box["id"]
    with open(deb, "rb") as file:
        reply = cove.request("PUT", at + "/api/files/tmp/cove.deb", file.read(), raw=True)
    c.ok(reply.status in (200, 201, 204), "the package gets into a sandbox", reply)
    for script, want, sentence in (
            ("rm -f /usr/bin/cove; dpkg -i /tmp/cove.deb >/tmp/log 2>&1 || cat /tmp/log; dpkg -s cove | grep ^Status",
             "Status: install ok installed\n", "dpkg installs it"),
            ("dpkg -V cove; id -nu cove; cove version", "cove\ncove " + VERSION + "\n", "it is whole, has a user, and runs"),
            ("dpkg -i /tmp/cove.deb >/tmp/log 2>&1 || cat /tmp/log; cove version", "cove " + VERSION + "\n",
             "and is installed again over itself"),
            ("mkdir -p /var/lib/cove/x; dpkg -r cove >/tmp/log 2>&1 || cat /tmp/log; ls /usr/bin/cove /var/lib/cove 2>&1",
             None, "removed, it leaves its data"),
            ("dpkg -P cove >/tmp/log 2>&1 || cat /tmp/log; ls -d /var/lib/cove /lib/systemd/system/cove.service 2>/dev/null;"
             "dpkg -s cove 2>/dev/null; echo gone", "gone\n", "purged, it leaves nothing")):
        got = cove.run(box, script)["stdout"]
        good = got == want if want else "x\n" in got and "/usr/bin/cove': No such" in got
        c.ok(good, sentence, got)
    cove.delete(box)
    c.same(cove.stop(), 0, "cove stops")
    c.same(c.remains(cove), {}, "nothing is left behind")


def run(binary, home):
    env = {k: v for k, v in os.environ.items() if not k.startswith("COVE_")}
    env["COVE_DATA"] = os.path.join(home, "data")
    c.same(said(binary, "version", env=env).stdout, "cove %s\n" % VERSION, "the program in it tells its version")
    if os.geteuid() != 0:
        return c.skip("the program in it runs a sandbox", "needs root")
    got = said(binary, "run", "sh", "-c", "echo $((6*7)); id -u", env=env)
    return c.same((got.returncode, got.stdout), (0, "42\n0\n"), "the program in it runs a sandbox")


found = glob.glob(os.environ.get("DEB", os.path.join(c.ROOT, "build", "cove_%s_*.deb" % VERSION)))
if len(found) != 1:
    c.ok(False, "there is one package: make deb", found)
    c.done()
home = tempfile.mkdtemp(prefix="cove-deb-")
os.chmod(home, 0o711)
try:
    root = os.path.join(home, "root")
    c.same(said("dpkg-deb", "-x", found[0], root).returncode, 0, "the package is unpacked")
    contents(found[0], root)
    control(found[0], root)
    unit(root)
    run(os.path.join(root, "usr/bin/cove"), home)
    if os.geteuid() == 0:
        install(os.path.join(root, "usr/bin/cove"), found[0])
    else:
        c.skip("dpkg installs it", "needs root")
finally:
    shutil.rmtree(home)
c.done()
