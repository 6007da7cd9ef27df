#!/usr/bin/env python3
"""Builds: copies between stages, archives, here-documents, mounts and secrets of RUN (I-25 to I-30)."""
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def archive(files, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.uid, entry.gid = 1234, 1235
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o750
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size, entry.mode = len(content), 0o640
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def send(cove, body):
    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    reply = cove.request("PUT", "/v1/blobs/" + digest, body, headers={"Content-Type": "application/x-tar"}, raw=True)
    assert reply.status == 201, reply
    return digest


def build(cove, name, dockerfile, **fields):
    return cove.post("/v1/builds", dict(fields, name=name, dockerfile=dockerfile))


def look(cove, name, command, *, why, want):
    box = cove.create(template=name)
    c.same(cove.out(box, command), want, why)
    cove.delete(box)


def drop(cove, *names):
    for name in names:
        c.same(cove.request("DELETE", "/v1/templates/" + name).status, 204, "the template %s is removed" % name)


def left(cove):
    return [box["id"] for box in cove.get("/v1/sandboxes").json["items"]]


def stages(cove):
    reply = build(cove, "staged", """FROM cove://host AS build
WORKDIR /out
RUN mkdir -p tree/sub && echo bin >tree/bin && echo b >tree/sub/b && ln -s bin tree/link && ln tree/bin tree/hard && chown -R 5:6 tree && chmod 700 tree/bin
RUN ln -s /out/tree/bin /out/alias && echo one >/out/x.txt && echo two >/out/y.txt

FROM cove://host AS unused
RUN false

FROM cove://host
WORKDIR /got
COPY --from=build /out/tree/bin /got/file
COPY --from=0 /out/tree dir/
COPY --from=build --chown=7:8 /out/*.txt texts/
COPY --from=build /out/alias ./
COPY --from=cove://planted /seed .
""")
    c.same(reply.status, 201, "I-25: a build of several stages") or c.note(repr(reply.json))
    look(cove, "staged", "find . -printf '%P %y %m %U:%G %l\\n' | sort; cat file alias seed", why="I-25: COPY --from of a stage, by name and number, and of a template", want=(
        " d 755 0:0 \nalias f 700 0:0 \ndir d 755 0:0 \ndir/bin f 700 0:0 \ndir/hard f 700 0:0 \ndir/link l 777 0:0 bin\ndir/sub d 755 0:0 \n"
        "dir/sub/b f 644 0:0 \nfile f 700 0:0 \nseed f 644 0:0 \ntexts d 755 7:8 \ntexts/x.txt f 644 7:8 \ntexts/y.txt f 644 7:8 \nbin\nbin\nseed\n"))
    c.same(left(cove), [], "I-25: no sandbox of a stage or a base is left")
    reply = build(cove, "bad", "FROM cove://host AS a\nFROM cove://host\nCOPY --from=a /none /x")
    c.ok(reply.json["reason"] == "no_source" and "line 3" in reply.json["message"], "I-25: an absent source is named with its line", reply)
    reply = build(cove, "bad", "FROM cove://host AS a\nRUN ln -s /etc/../../../etc/hostname /up && ln -s /two /one && ln -s /one /two\nFROM cove://host\nCOPY --from=a /one /x")
    c.same(reply.json["reason"], "no_source", "I-25: a circle of links is no source")
    reply = build(cove, "bad", "FROM cove://host\nCOPY --from=later a /x\nFROM cove://host AS later")
    c.same(reply.json["reason"], "bad_dockerfile", "I-25: a later stage is none to copy from")
    drop(cove, "staged")


def archives(cove):
    inner = {"app": None, "app/run": b"run\n", "app/to": "run"}
    plain = archive(inner)
    zstd = subprocess.run(["zstd", "-q", "-c"], input=plain, stdout=subprocess.PIPE, check=True).stdout
    digest = send(cove, archive({"a.tar": plain, "b.tar.gz": gzip.compress(plain), "c.tar.xz": lzma.compress(plain), "d.tbz2": bz2.compress(plain),
                                 "e.tar.zst": zstd, "note.txt": b"note\n", "bad.tar.gz": gzip.compress(os.urandom(2000)), "deep/f.tar": plain,
                                 "out.tar": archive({"../../escape": b"x"}), "cut.tar.xz": lzma.compress(plain)[:60] + b"x" * 60}))
    reply = build(cove, "added", "FROM cove://host\nADD a.tar note.txt /a/\nADD b.tar.gz /b\nADD c.tar.xz /c/\nADD d.tbz2 /d\nADD --chown=9 e.tar.zst /e\n"
                  "ADD deep /deep\nCOPY a.tar /plain/", context=digest)
    c.same(reply.status, 201, "I-25: ADD of archives") or c.note(repr(reply.json))
    one = "app d 750 1234:1235 \napp/run f 640 1234:1235 \napp/to l 777 1234:1235 run\n"
    look(cove, "added", "for i in a b c d; do cd /$i; find . -mindepth 1 -printf '%P %y %m %U:%G %l\\n' | sort; done", why="I-25: tar, gzip, xz and bzip2 are unpacked, with their owners",
         want=one + "note.txt f 640 0:0 \n" + one * 3)
    look(cove, "added", "cd /e; find . -mindepth 1 -printf '%P %y %m %U:%G %l\\n' | sort; ls /deep /plain", why="I-25: zstd, with --chown; one in a directory or of COPY stays as it is",
         want=one.replace("1234:1235", "9:9") + "/deep:\nf.tar\n\n/plain:\na.tar\n")
    for line, reason in (("ADD bad.tar.gz /x", "bad_archive"), ("ADD out.tar /x", "bad_archive"), ("ADD cut.tar.xz /x", "bad_archive"), ("ADD https://example.com/x /x", "bad_dockerfile")):
        reply = build(cove, "bad", "FROM cove://host\n" + line, context=digest)
        c.ok(reply.status == 400 and reply.json["reason"] == reason and "line 2" in reply.json["message"], "I-25: %s is refused as %s" % (line, reason), reply)
    c.same([one["name"] for one in cove.get("/v1/templates").json["items"] if one["name"].startswith("add-")], [], "I-25: no template of an archive is left")
    drop(cove, "added")


def heredocs(cove):
    digest = send(cove, archive({"f": b"f\n"}))
    reply = build(cove, "inline", """FROM cove://host
ENV WHO=cove
COPY <<EOF /etc/one
it's "$WHO" \\$WHO
EOF
COPY --chmod=755 --chown=3:4 f <<'a.sh' <<-b /two/
echo $WHO
a.sh
	tab
b
HEALTHCHECK --interval=90s --retries=3 CMD curl -f http://localhost/ || exit 1
MAINTAINER someone
""", context=digest)
    c.same(reply.status, 201, "I-25: here-documents in COPY") or c.note(repr(reply.json))
    look(cove, "inline", "cat /etc/one /two/f /two/a.sh /two/b; stat -c '%a %u:%g' /etc/one /two/a.sh", why="I-25: are files, with variables unless quoted",
         want="it's \"cove\" $WHO\nf\necho $WHO\ntab\n644 0:0\n755 3:4\n")
    box = cove.create(template="inline")
    config = json.loads(cove.out(box, "cat /.cove-image.json"))
    c.same((config["Healthcheck"], config["Labels"]), ({"Test": ["CMD-SHELL", "curl -f http://localhost/ || exit 1"], "Interval": 90 * 10 ** 9, "Retries": 3}, {"maintainer": "someone"}),
           "I-25: HEALTHCHECK and MAINTAINER are recorded")
    cove.delete(box)
    drop(cove, "inline")


SECRET = "s3cret-%s" % os.urandom(8).hex()


def mounts(cove):
    digest = send(cove, archive({"src": None, "src/req": b"req\n", "one": b"one\n"}))
    text = """FROM cove://host AS base
RUN mkdir /shared && echo shared >/shared/f
FROM cove://host
WORKDIR /srv
RUN mkdir /cached /root/aside && echo mine >/root/.token && echo old >/root/aside/f
RUN --mount=type=secret,id=token test "$(sha256sum </run/secrets/token)" = "%s  -" && test "$(stat -c %%a:%%u /run/secrets/token)" = 400:0
RUN --mount=type=secret,id=token,target=/root/.token,mode=0444 --mount=type=secret,id=token,env=TOKEN test "$(cat /root/.token)" = "$TOKEN" && test -n "$TOKEN"
RUN --mount=type=secret,id=other test ! -e /run/secrets/other && test -z "$TOKEN"
RUN --mount=type=tmpfs,target=/root/aside ! test -e /root/aside/f && echo new >/root/aside/g
RUN --mount=src=src,dst=in --mount=type=bind,from=base,source=/shared/f,target=/srv/file cat in/req file >both && echo lost >in/lost
RUN --mount=type=cache,target=/cached,id=%s ls /cached >seen; echo kept >/cached/kept
""" % (hashlib.sha256(SECRET.encode()).hexdigest(), "c1")
    reply = build(cove, "mounted", text, context=digest, secrets={"token": SECRET})
    c.same(reply.status, 201, "I-25: RUN with mounts") or c.note(repr(reply.json))
    look(cove, "mounted", "cat both seen /root/.token; find /srv /root /run/secrets /cached -mindepth 1 | grep -v '/\\.[bpc]' | sort", why="I-26: no mount is in the layer, and what was there comes back",
         want="req\nshared\nmine\n/root/.token\n/root/aside\n/root/aside/f\n/srv/both\n/srv/seen\n")
    reply = build(cove, "mounted", text, context=digest, secrets={"token": SECRET}, noCache=True)
    look(cove, "mounted", "cat seen; ls /cached", why="I-28: a cache is there in the next build", want="kept\n")
    cove.request("PUT", "/v1/tenants/acme", {"host": True})
    key = cove.post("/v1/keys", {"tenant": "acme", "name": "k", "scopes": ["read", "make", "use", "templates"], "host": True}).json["key"]
    reply = cove.request("POST", "/v1/builds", {"name": "x", "dockerfile": "FROM cove://host\nRUN --mount=type=cache,target=/cached,id=c1 test -z \"$(ls /cached)\""},
                         headers={"Authorization": "Bearer " + key}, key=False)
    c.same(reply.status, 201, "I-28: which another tenant does not have")
    c.same(cove.request("DELETE", "/v1/templates/x", headers={"Authorization": "Bearer " + key}, key=False).status, 204, "its template is removed")
    found = subprocess.run(["grep", "-rlF", SECRET, cove.data], stdout=subprocess.PIPE).stdout
    c.same(found, b"", "I-30: the secret is nowhere in the data directory: no layer, key or log")
    for line, reason in (("RUN --mount=type=secret,id=none,required true", "no_secret"), ("RUN --mount=type=bind,src=none,target=/x true", "no_source")):
        reply = build(cove, "bad", "FROM cove://host\n" + line, context=digest)
        c.ok(reply.status == 400 and reply.json["reason"] == reason, "I-25: %s: %s" % (line, reason), reply)
    reply = build(cove, "bad", "FROM cove://host\nRUN true", secrets={"a/b": "x"})
    c.same((reply.status, reply.json["reason"]), (400, "bad_field"), "I-30: a secret's id is no path")
    for line in ("--mount=type=ssh", "--mount=type=bind", "--mount=type=secret", "--mount=type=tmpfs,target=/", "--mount=type=tmpfs,target=/a/../b", "--mount=target=/x,flags=3",
                 "--network=host", "--network=none", "--mount=type=cache,target=/x,from=y"):
        reply = build(cove, "bad", "FROM cove://host\nRUN %s true" % line)
        c.ok(reply.status == 400 and reply.json["reason"] == "bad_dockerfile" and "line 2" in reply.json["message"], "I-25: RUN %s is refused with its line" % line, reply)
    drop(cove, "mounted")


def commands(cove):
    cli = c.Cli(cove.data)
    home = tempfile.mkdtemp()
    try:
        with open(os.path.join(home, "Dockerfile"), "w") as file:
            file.write("FROM cove://host\nRUN --mount=type=secret,id=a --mount=type=secret,id=b cat /run/secrets/a /run/secrets/b | wc -c >/len\n")
        with open(os.path.join(home, "secret"), "w") as file:
            file.write("12345")
        done = cli("template", "build", "-t", "sent", "--secret", "id=a,src=" + os.path.join(home, "secret"), "--secret", "id=b,env=OURS", home, OURS="678")
        c.same((done.status, done.out), (0, b"sent\n"), "I-30: cove template build --secret, of a file and a variable") or c.note(done.err)
        look(cove, "sent", "cat /len", why="I-30: both were there", want="8\n")
        done = cli("template", "build", "-t", "sent", "--secret", "id=none-such-variable", home)
        c.ok(done.status == 2 and "none-such-variable" in done.err, "I-30: a variable that is not set is named", done)
    finally:
        shutil.rmtree(home)
    drop(cove, "sent")


c.need_root()
c.need_programs("zstd")
cove = c.Cove()
c.same(build(cove, "planted", "FROM cove://host\nRUN echo seed >/seed").status, 201, "a template to copy from")
stages(cove)
archives(cove)
heredocs(cove)
mounts(cove)
commands(cove)
drop(cove, "planted")
got = cove.get("/v1/verify").json
c.ok(got["ok"], "verify is clean after builds", got)
cove.close()
c.done()
