#!/usr/bin/env python3
"""I-25, I-27, I-55: Dockerfiles and COPY forms build to the same tree and configuration as buildah makes of them, FROM scratch over a root of busybox.
COVE_SOAK: all of them, in place of some."""
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from trees import tree  # noqa: E402

ALL = bool(os.environ.get("COVE_SOAK"))
BASE = "FROM scratch AS base\nCOPY root/ /\n"
OWN = ("dev", "proc", "sys", "run", "tmp", "workspace", ".cove-image.json", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab", "etc/machine-id", "etc/cove")
PARTS = ("User", "WorkingDir", "Entrypoint", "Cmd", "ExposedPorts", "Volumes", "StopSignal", "Labels")

# The first ones are built in each run. buildah 1.28 has no here-documents, removes backslashes in ENV whatever `# escape` says, and follows links that a source names (here they stay links).
FILES = [
    BASE + "ARG A=one\nENV B=${A:-x} C=${NONE:-none} D=${A:+set} E=\"a b\\\"c\" F='$A' G=a\\ b\nWORKDIR /w\nWORKDIR sub\nRUN echo $A $B $C $D \"$E\" $F $G >vars; pwd >>vars\n",
    BASE + "USER user\nRUN id -u >/tmp/x; cp /tmp/x /home/user/x\nUSER 0:0\nCOPY --chown=user:wheel --chmod=0640 tree /owned/\nCOPY --chown=7 a /seven\n",
    BASE + "RUN mkdir -p /p/q && echo 1 >/p/q/one && ln -s q /p/l && ln /p/q/one /p/hard && chmod 2755 /p\nFROM base\nCOPY --from=0 /p /got\nCOPY --from=base /bin/busybox /bb\n",
    BASE + "ADD archive.tar.gz /add/\nADD archive.tar /add2\nCOPY archive.tar /kept/\nADD a /plain\n",
    "ARG V=2\nARG W=${V}3\n" + BASE + "ARG V\nARG W\nARG X=$V-$W\nRUN echo $V $W $X >/v\nFROM base\nRUN echo ${X:-unset} >/x\n",
    BASE + "SHELL [\"/bin/busybox\", \"sh\", \"-c\"]\nRUN echo $((6*7)) >/shell\nENTRYPOINT [\"/bin/sh\"]\nCMD [\"-c\", \"id\"]\nSTOPSIGNAL SIGUSR1\nEXPOSE 80 81/udp\nVOLUME /data\nLABEL a=b \"c d\"=\"e f\" g='h'\nWORKDIR /srv/x\nUSER user:wheel\n",
    BASE + "USER user\nWORKDIR /home/user/made/deep\nRUN echo mine >f\nUSER 7:8\nWORKDIR /srv/number\nUSER user:wheel\nWORKDIR /srv/number/below\nUSER none\nWORKDIR /srv/unknown\nUSER root\n",
    BASE + "RUN rm -rf /etc/group && mkdir /etc/group && echo x >/etc/group/f && rm /bin/ls && ln -s sh /bin/ls\n",
    # the rest with COVE_SOAK
    "# escape=`\n" + BASE + "RUN echo `\n joined >/p\n",
    BASE + "RUN echo a \\\n# comment\n\n  b >/joined\n",
    BASE + "ENV A=1\nENV A=2 B=$A\nENV C old style value\nRUN echo $A $B $C >/e\n",
    BASE + "CMD echo shell form\nENTRYPOINT exec top -b\n",
    BASE + "ENTRYPOINT [\"a\"]\nCMD [\"b\"]\nFROM base\nENTRYPOINT [\"c\"]\n",
    BASE + "FROM base AS skipped\nRUN false\nFROM base\nRUN echo last >/last\n",
    BASE + "RUN touch /m && chmod 4711 /m && chown 3:4 /m\nRUN mkdir -m 1777 /sticky && echo x >/sticky/x\n",
    BASE + "RUN echo one >/f\nRUN rm /f && mkdir /f && echo two >/f/g\nRUN rm -r /f && ln -s bin /f\n",
    BASE + "WORKDIR /a\nRUN echo 1 >here\nWORKDIR b/c\nRUN echo 2 >here\n",
    BASE + "ARG TARGETARCH\nARG TARGETOS\nRUN echo $TARGETOS-$TARGETARCH >/arch\n",
    BASE + "ENV A=x\nCOPY a /$A/\nCOPY a ${A}y\nWORKDIR /$A\nCOPY a rel\nLABEL l=$A\nEXPOSE 8${NONE:-0}\n",
    BASE + "RUN dd if=/dev/zero of=/big bs=1024 count=2000 2>/dev/null && truncate -s 1000000 /hole\n",
    BASE + "COPY [\"with blank\", \"/blank dir/\"]\nRUN ls '/blank dir' >/list\n",
]
COPIES = ["a /x", "a /x/", "a b.txt /x/", "*.txt /x/", "tree /x", "tree/ /x/", "tree/. /x", "tree/sub /", "tree a /x/", ". /all", "tree/[fs]* /x/", "?.txt /x/", "[ab]* /x/", 
          "tree /bin", "./a ./tree/f /x/", "a /etc/new/deep/name", "--chmod=0700 tree /x", "--chown=5:6 tree /x/", "empty /x", "tree/s* /x/", "a /home/user", "/a /x", "a x"]


def write(path, content, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)


def make_context(home):
    at = os.path.join(home, "context")
    busybox = shutil.which("busybox")
    write(at + "/root/bin/busybox", open(busybox, "rb").read(), 0o755)
    for name in "sh cat id ls cp ln rm mkdir chmod chown touch echo dd truncate pwd top".split():
        os.symlink("busybox", at + "/root/bin/" + name)
    write(at + "/root/etc/passwd", b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    write(at + "/root/etc/group", b"root:x:0:\nwheel:x:10:\nuser:x:1000:\n")
    for name in ("root/home/user", "root/tmp", "empty"):
        os.makedirs(os.path.join(at, name))
    os.chown(at + "/root/home/user", 1000, 1000)
    os.chmod(at + "/root/tmp", 0o1777)
    for name, content, mode in (("a", b"a\n", 0o644), ("b.txt", b"b\n", 0o600), ("c.txt", b"c\n", 0o755), ("tree/f", b"f\n", 0o640), ("tree/sub/g", b"g\n", 0o644), ("with blank", b"w\n", 0o644),
                                ("ignored.log", b"x\n", 0o644), ("tree/sub/kept.log", b"k\n", 0o644), ("tree/sub/gone.log", b"x\n", 0o644)):
        write(os.path.join(at, name), content, mode)
    write(at + "/.dockerignore", b"**/*.log\n!tree/**/kept.log\nDockerfile*\n")
    os.symlink("a", at + "/link")
    os.symlink("sub/g", at + "/tree/link")
    for name, mode in (("archive.tar", "w"), ("archive.tar.gz", "w:gz")):
        with tarfile.open(os.path.join(at, name), mode) as tar:
            for path, kind in (("d", tarfile.DIRTYPE), ("d/one", tarfile.REGTYPE), ("d/two", tarfile.SYMTYPE)):
                info = tarfile.TarInfo(path)
                info.type, info.mode, info.uid, info.gid, info.linkname = kind, 0o750, 12, 13, "one" if kind == tarfile.SYMTYPE else ""
                info.size = 3 if kind == tarfile.REGTYPE else 0
                tar.addfile(info, io.BytesIO(b"123"))
    return at


def look(root):
    """The tree without times, and without what each builder has of its own."""
    found, groups = tree(root)
    seen = {}
    for path, what in found.items():
        name = os.fsdecode(path)
        if any(name == own or name.startswith(own + "/") for own in OWN):
            continue
        kind = what[0]
        seen[name] = what[:4] if stat.S_ISLNK(kind) else what[:5] if stat.S_ISREG(kind) else what[:4]
    return seen, [names for names in groups if not os.fsdecode(names[0]).startswith(OWN)]


class Buildah:
    def __init__(self, home):
        self.words = ["buildah", "--root", home + "/storage", "--runroot", home + "/run", "--storage-driver", "vfs"]

    def __call__(self, *words):
        done = subprocess.run(self.words + list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stdout.strip(), done.stderr

    def build(self, context, dockerfile):
        """None: refused."""
        status, _, said = self("bud", "--isolation", "chroot", "--pull-never", "--no-cache", "-q", "-t", "t", "-f", dockerfile, context)
        if status:
            return None, said
        _, name, _ = self("from", "--pull-never", "t")
        _, root, _ = self("mount", name)
        seen = look(root)
        config = json.loads(self("inspect", "--type", "image", "t")[1])["OCIv1"]["config"]
        config.get("Labels", {}).pop("io.buildah.version", None)
        self("rm", "-a")
        self("rmi", "-a", "-f")
        return (seen, config), said


def export(home):
    reply = cove.request("GET", "/v1/templates/t/export?squash=true")
    assert reply.status == 200, reply
    blobs = {}
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        for entry in tar:
            if entry.isfile():
                blobs[entry.name] = tar.extractfile(entry).read()

    def blob(descriptor):
        return blobs["blobs/sha256/" + descriptor["digest"][7:]]
    manifest = json.loads(blob(json.loads(blobs["index.json"])["manifests"][0]))
    root = os.path.join(home, "tree")
    os.mkdir(root)
    try:
        for layer in manifest["layers"]:
            subprocess.run(["tar", "-xz", "--numeric-owner", "-p", "-C", root], input=blob(layer), check=True)
        return look(root)
    finally:
        shutil.rmtree(root)


def compare(home, context, text, name):
    dockerfile = os.path.join(home, "Dockerfile")
    with open(dockerfile, "w") as file:
        file.write(text)
    want, said = buildah.build(context, dockerfile)
    done = cli("template", "build", "-t", "t", "-f", dockerfile, context)
    if want is None:
        c.ok(done.status != 0, "refused as by buildah: " + name, said, done)
        return
    if not c.ok(done.status == 0, "built as by buildah: " + name, text, done.err):
        return
    got = export(home)
    box = cove.create(template="t")
    config = json.loads(cove.out(box, ["cat", "/.cove-image.json"]))
    cove.delete(box)
    odd = {path: (got[0].get(path), want[0][0].get(path)) for path in set(got[0]) | set(want[0][0]) if got[0].get(path) != want[0][0].get(path)}
    c.same(odd, {}, "the same tree: " + name)
    c.same(got[1], want[0][1], "the same hard links: " + name)
    c.same({part: config.get(part) for part in PARTS if config.get(part)}, {part: want[1].get(part) for part in PARTS if want[1].get(part)}, "the same configuration: " + name)
    mine, theirs = (dict(pair.split("=", 1) for pair in one.get("Env") or [] if not pair.startswith("PATH=")) for one in (config, want[1]))
    c.same(mine, theirs, "the same environment: " + name)


c.need_root()
c.need_programs("buildah", "busybox")
home = tempfile.mkdtemp(prefix="cove-buildah-")
os.environ.update(HOME=home, XDG_RUNTIME_DIR=home)
buildah = Buildah(home)
try:
    context = make_context(home)
    with open(os.path.join(home, "Dockerfile"), "w") as file:
        file.write(BASE + "RUN echo works\n")
    works, said = buildah.build(context, os.path.join(home, "Dockerfile"))
    if works is None:
        c.skip_all("buildah builds nothing on this host: " + " ".join(said.split())[-300:])
    cove = c.Cove()
    cli = c.Cli(cove.data)
    for number, text in enumerate(FILES if ALL else FILES[:9]):
        compare(home, context, text, "Dockerfile %d" % number)
    for form in COPIES if ALL else COPIES[4:7]:
        compare(home, context, BASE + "WORKDIR /\nCOPY %s\n" % form, "COPY " + form)
finally:
    shutil.rmtree(home)
cove.close()
c.done()
