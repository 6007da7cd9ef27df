#!/usr/bin/env python3
"""The Debian packages as a host would get them: what lies in them, whose it is, what lintian says, that the unit is one and
leaves enough to run a sandbox, and, in such a sandbox, that dpkg installs, removes and purges them. DEBS is their directory."""
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
SHARE = {"usr/share/doc/{package}/changelog.gz", "usr/share/doc/{package}/copyright"}
FILES = {  # all of them; {lib} is the directory of this architecture
    "cove": {"lib/systemd/system/cove.service", "usr/bin/cove", "etc/cove/cove.conf", "usr/share/bash-completion/completions/cove",
             "usr/share/fish/vendor_completions.d/cove.fish", "usr/share/zsh/vendor-completions/_cove",
             "usr/share/lintian/overrides/cove", "usr/share/man/man1/cove.1.gz", "usr/share/doc/cove/README.md.gz",
             "usr/share/doc/cove/openapi.json.gz", "usr/share/doc/cove/examples/runner.py"},
    "libcove0": {"{lib}/libcove.so.0"},
    "libcove-dev": {"usr/include/cove.h", "{lib}/libcove.a", "{lib}/libcove.so", "{lib}/pkgconfig/libcove.pc",
                    "usr/share/man/man3/libcove.3.gz"}}
FILES["cove"] |= {"usr/share/doc/cove/%s.gz" % name for name in os.listdir(os.path.join(c.ROOT, "docs")) if name.endswith(".md")}
FILES["libcove-dev"] |= {"usr/share/doc/libcove-dev/examples/" + name for name in os.listdir(os.path.join(c.ROOT, "examples"))
                         if name.endswith(".c")}


def said(*argv, **kw):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)


def contents(package, deb, root):
    listing = said("dpkg-deb", "-c", deb).stdout.splitlines()
    c.same({line.split()[1] for line in listing}, {"root/root"}, package + ": all of it is root's")
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
    want = {name.format(lib=lib, package=package) for name in FILES[package] | SHARE}
    c.same(sorted(names ^ want), [], package + ": the files in it are those that should be")
    c.same(modes - {("cove", "0o755")}, {("directory", "0o755"), ("file", "0o644")}, package + ": and their modes too")
    licence = open(os.path.join(root, "usr/share/doc", package, "copyright")).read()
    words = " ".join(open(os.path.join(c.ROOT, "LICENSE")).read().split()).split("authors ", 1)[1]
    c.ok(words in " ".join(licence.replace("\n .\n", "\n").split()), package + ": its licence is that of the source tree", licence)
    bad = []
    where = root + ".control"
    said("dpkg-deb", "-e", deb, where)
    for line in open(os.path.join(where, "md5sums")):
        want, name = line.split()
        if hashlib.md5(open(os.path.join(root, name), "rb").read()).hexdigest() != want:
            bad.append(name)
    c.same(bad, [], package + ": the sums are right")
    c.same(said("dpkg-deb", "-f", deb, "Version").stdout.strip(), VERSION, package + ": its version is that of the tree")
    if package == "libcove-dev":
        c.same(os.readlink(os.path.join(root, lib, "libcove.so")), "libcove.so.0", "the library has its link")
        text = open(os.path.join(root, lib, "pkgconfig/libcove.pc")).read()
        c.ok("prefix=/usr\n" in text and "@" not in text and VERSION in text, "pkg-config reads where it lies", text)


def lint(debs):
    if not shutil.which("lintian"):
        return c.skip("lintian finds no fault", "lintian is not installed")
    got = said("lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", "bad-distribution-in-changes-file", *debs)
    return c.ok(got.returncode == 0 and not [line for line in got.stdout.splitlines() if line[:3] in ("E: ", "W: ")],
                "lintian finds no fault with any of them", got.stdout)


def settings(root):
    """The configuration that is installed changes nothing, and each line of it can be taken as it stands."""
    path = os.path.join(root, "etc/cove/cove.conf")
    text = open(path).read()
    c.ok(all(not line or line.startswith("#") for line in text.splitlines()), "the configuration is all comments")
    c.same(open(os.path.join(root + ".control", "conffiles")).read(), "/etc/cove/cove.conf\n", "and is kept when it was changed")
    options = said(os.path.join(root, "usr/bin/cove"), "serve", "--options").stdout
    names = {line[1:].split(" = ")[0] for line in text.splitlines() if line.startswith("#") and " = " in line and line[1] != " "}
    told = {line.split()[0][2:] for line in options.splitlines()} - {"ready-fd"}
    c.same(sorted(names ^ told), [], "every setting is in it")


def control(deb, root):
    where = root + ".control"
    depends = said("dpkg-deb", "-f", deb, "Depends").stdout
    c.ok(all(name in depends for name in ("libc6", "libseccomp2", "libssl3", "libarchive13", "e2fsprogs")),
         "it asks for what it loads", depends)
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


def hardened(root):
    """What the unit takes away is not missed: a sandbox runs with the unit's capabilities, without new privileges, in a mount
    namespace of its own where /usr, /etc and /home are read-only and /tmp is private."""
    text = open(os.path.join(root, "lib/systemd/system/cove.service")).read()
    lines = [line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#")]
    values = {}
    for name, value in lines:
        values.setdefault(name, []).append(value)
    c.same((values["Type"], values["NoNewPrivileges"], values["ProtectSystem"], values["ProtectHome"], values["PrivateTmp"]),
           (["notify"], ["yes"], ["full"], ["read-only"], ["yes"]), "the unit is hardened, and says when it is ready")
    caps = ",".join("+" + word[4:].lower() for value in values["CapabilityBoundingSet"] for word in value.split())
    data, script = os.path.join(root, "..", "hard"), os.path.join(root, "..", "hard.sh")
    os.makedirs(data, exist_ok=True)
    with open(script, "w") as file:
        file.write("""set -e
for dir in /usr /boot /etc /home /root; do
	[ -d $dir ] || continue
	mount --bind $dir $dir && mount -o remount,bind,ro $dir
done
mount --bind "$1" /mnt # what is beneath /tmp now
cp "$2" /mnt/cove
mount -t tmpfs tmpfs /tmp
export COVE_DATA=/mnt/data
exec setpriv --bounding-set=-all,%s --inh-caps=-all --no-new-privs /mnt/cove run --network all -- sh -c 'echo $((6*7)); id -u'
""" % caps)
    env = {k: v for k, v in os.environ.items() if not k.startswith("COVE_")}
    got = said("unshare", "-m", "--propagation", "private", "sh", script, data, os.path.join(root, "usr/bin/cove"), env=env)
    c.same((got.returncode, got.stdout[-5:]), (0, "42\n0\n"), "a sandbox runs in what the unit leaves")
    if got.returncode:
        c.note(got.stdout)


def install(binary, debs):
    """In a sandbox of the host's own files: dpkg's database and /usr are there, and nothing is spoilt."""
    cove = c.Cove(binary=binary)
    box = cove.create(limits={"memoryMB": 1024})
    at = "/v1/sandboxes/" + box["id"]
    for deb in debs:
        with open(deb, "rb") as file:
            reply = cove.request("PUT", at + "/api/files/tmp/debs/" + os.path.basename(deb).split("_")[0] + ".deb", file.read(), raw=True)
        c.ok(reply.status in (200, 201, 204), "a package gets into a sandbox", reply)
    all_of = "cove libcove0 libcove-dev"
    for script, want, sentence in (
            ("rm -f /usr/bin/cove; groupdel cove-users 2>/dev/null; dpkg -i /tmp/debs/*.deb >/tmp/log 2>&1 || cat /tmp/log;"
             "dpkg -s %s | grep ^Status" % all_of, "Status: install ok installed\n" * 3, "dpkg installs them"),
            ("grep -c 'cove run\\|usermod -aG cove-users\\|cove.conf\\|man cove' /tmp/log", "4\n", "and a word is said of how to begin"),
            ("dpkg -V %s; id -nu cove; getent group cove-users | cut -d: -f1; id -nG cove; cove version" % all_of,
             "cove\ncove-users\ncove\ncove " + VERSION + "\n", "it is whole, has a user, a group of users apart from that, and runs"),
            ("printf '#include <cove.h>\n#include <stdio.h>\nint main(void) { puts(cove_version()); }\n' > /tmp/x.c;"
             "cc -o /tmp/x /tmp/x.c $(pkg-config --cflags --libs libcove) && /tmp/x", VERSION + "\n", "a program is built with the library"),
            ("echo '# mine' >> /etc/cove/cove.conf; dpkg -i /tmp/debs/cove.deb >/tmp/log 2>&1 || cat /tmp/log; tail -n1 /etc/cove/cove.conf;"
             "grep -c usermod /tmp/log; cove version", "# mine\n0\ncove " + VERSION + "\n",
             "it is installed again over itself, quietly, and a configuration that was changed stays"),
            ("mkdir -p /var/lib/cove/x; dpkg -r %s >/tmp/log 2>&1 || cat /tmp/log; ls /usr/bin/cove /var/lib/cove 2>&1" % all_of,
             None, "removed, it leaves its data"),
            ("dpkg -P %s >/tmp/log 2>&1 || cat /tmp/log;"
             "ls -d /var/lib/cove /etc/cove /lib/systemd/system/cove.service 2>/dev/null; dpkg -s cove 2>/dev/null; echo gone" % all_of,
             "gone\n", "purged, it leaves nothing")):
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


debs = {}
for package in FILES:
    found = glob.glob(os.path.join(os.environ.get("DEBS", os.path.join(c.ROOT, "build")), "%s_%s_*.deb" % (package, VERSION)))
    if len(found) != 1:
        c.ok(False, "there is one package %s: make deb" % package, found)
        c.done()
    debs[package] = found[0]
home = tempfile.mkdtemp(prefix="cove-deb-")
os.chmod(home, 0o711)
try:
    for package, deb in debs.items():
        at = os.path.join(home, package)
        c.same(said("dpkg-deb", "-x", deb, at).returncode, 0, "the package %s is unpacked" % package)
        contents(package, deb, at)
    root = os.path.join(home, "cove")
    lint(debs.values())
    control(debs["cove"], root)
    settings(root)
    unit(root)
    run(os.path.join(root, "usr/bin/cove"), home)
    if os.geteuid() == 0:
        hardened(root)
        install(os.path.join(root, "usr/bin/cove"), debs.values())
    else:
        c.skip("dpkg installs it", "needs root")
finally:
    shutil.rmtree(home)
c.done()
