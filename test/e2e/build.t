#!/usr/bin/env python3
"""Builds: plans and Dockerfiles become templates, step by step in a sandbox; their logs, failures, cancels and leftovers (I-23 to I-29)."""
import hashlib
import io
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def context(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.uid = entry.gid = 1234
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size, entry.mode = len(content), 0o751 if path.endswith(".sh") else 0o640
            archive.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def send(cove, archive):
    digest = "sha256:" + hashlib.sha256(archive).hexdigest()
    reply = cove.request("PUT", "/v1/blobs/" + digest, archive, headers={"Content-Type": "application/x-tar"}, raw=True)
    assert reply.status == 201, reply
    return digest


def build(cove, name, dockerfile=None, **fields):
    if dockerfile:
        fields["dockerfile"] = dockerfile
    return cove.post("/v1/builds", dict(fields, name=name))


def clean(cove, why):
    got = cove.get("/v1/verify").json
    c.ok(got["ok"], why, got)


def drop(cove, *names):
    for name in names:
        c.same(cove.request("DELETE", "/v1/templates/" + name).status, 204, "the template %s is removed" % name)


def left(cove):
    return [box["id"] for box in cove.get("/v1/sandboxes").json["items"]]


def events(cove, operation):
    text = cove.get("/v1/operations/%s/events" % operation).body.decode()
    got = []
    for event in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line and not line.startswith(":"))
        if "event" in lines:
            got.append((lines["event"], json.loads(lines["data"])))
    return got


def plan(cove):
    """I-24: a plan of run, env, workdir."""
    reply = build(cove, "planned", **{"from": {"template": "host"}, "steps": [
        {"env": {"GREETING": "it's $HOME"}}, {"workdir": "/srv/app"}, {"run": "echo \"$GREETING\" >said; pwd >>said"},
        {"run": ["sh", "-c", "id -u >id"]}, {"user": "nobody"}, {"run": "id -un >/tmp/who"}, {"cmd": ["cat", "said"]}]})
    c.same(reply.status, 201, "I-24: a plan is built")
    c.same((reply.json["name"], reply.json["kind"]), ("planned", "built"), "I-24: the template is of kind built")
    box = cove.create(template="planned")
    c.same((box["user"], box["workdir"]), ("nobody", "/srv/app"), "I-21: a sandbox has its user and directory")
    c.same(cove.out(box, "cat said id /tmp/who; echo $GREETING; pwd"), "it's $HOME\n/srv/app\n0\nnobody\nit's $HOME\n/srv/app\n",
           "I-24: the files of its steps, and its environment")
    cove.delete(box)
    again = build(cove, "planned", **{"from": {"template": "planned"}, "steps": [{"user": "root"}, {"run": "echo more >>said"}]})
    c.same(again.status, 201, "I-24: a template of that name is built anew, from itself")
    box = cove.create(template="planned")
    c.same(cove.out(box, "tail -n1 said; id -un; echo $GREETING"), "more\nroot\nit's $HOME\n", "I-24: and keeps what the base has set")
    cove.delete(box)
    for body, reason in (({"from": {"template": "host"}, "steps": [{"run": ""}]}, "bad_plan"), ({"from": {}, "steps": []}, "bad_plan"),
                         ({"from": {"template": "host"}, "steps": [{"run": "a", "env": {}}]}, "bad_plan"), ({"steps": []}, "bad_plan"),
                         ({"from": {"template": "host"}, "steps": [{"fly": "a"}]}, "unknown_field"), ({"dockerfile": "FROM x", "steps": []}, "bad_plan"),
                         ({"from": {"template": "host"}, "context": "sha256:" + "0" * 64}, "no_blob"), ({"from": {"template": "host"}, "context": "x"}, "bad_digest"),
                         ({"from": {"template": "none-such"}, "steps": []}, "no_template")):
        reply = build(cove, "bad", **body)
        c.ok(reply.status in (400, 404) and reply.json["reason"] == reason, "I-24: refused as %s" % reason, reply)
    reply = build(cove, "host", **{"from": {"template": "host"}})
    c.same(reply.json["reason"], "bad_template", "I-24: the name host is refused")
    reply = cove.request("PUT", "/v1/blobs/sha256:" + "0" * 64, b"x", headers={"Content-Type": "application/x-tar"}, raw=True)
    c.same((reply.status, reply.json["reason"]), (400, "digest_mismatch"), "I-24: a context of another digest is refused")
    drop(cove, "planned")


DOCKERFILE = """# syntax=docker/dockerfile:1
ARG BASE=host
FROM cove://$BASE AS main
ARG WHO="the world"
ENV GREETING="hello ${WHO}" PLAIN=a\\
b
LABEL made.by=test "with blank"='yes'
WORKDIR /srv
WORKDIR app
# a comment
COPY one.txt tree /srv/app/
COPY --chown=7:8 --chmod=0600 *.sh link scripts/
COPY one.txt renamed
RUN echo "$GREETING" >greeting && \\
    # within
    echo $PLAIN >>greeting
RUN <<END
set -e
pwd >where
echo two >>where
END
RUN ["sh", "-c", "echo $0 >argv0"]
RUN cat >heredoc <<A && cat >>heredoc <<-'B'
first $PLAIN
A
	second $PLAIN
B
EXPOSE 80 53/udp
USER nobody
ENTRYPOINT ["cat"]
CMD ["greeting"]
"""


def dockerfile(cove):
    files = {"one.txt": b"one\n", "tree": None, "tree/a": b"a\n", "tree/sub": None, "tree/sub/b": b"b\n", "x.sh": b"#!/bin/sh\n",
             "y.sh": b"#!/bin/sh\n", "link": "/etc/passwd"}
    digest = send(cove, context(files))
    c.same(cove.request("HEAD", "/v1/blobs/" + digest).status, 200, "I-27: a context that is there need not be sent")
    c.same(cove.request("HEAD", "/v1/blobs/sha256:" + "1" * 64).status, 404, "I-27: another one is absent")
    reply = build(cove, "filed", DOCKERFILE, context=digest, args={"WHO": "cove"})
    c.same(reply.status, 201, "I-25: a Dockerfile is built")
    box = cove.create(template="filed")
    c.same(cove.out(box, "cat greeting where argv0 heredoc"), "hello cove\nab\n/srv/app\ntwo\nsh\nfirst ab\nsecond $PLAIN\n",
           "I-25: ENV, ARG, continued lines, exec form and here-documents")
    c.same(cove.out(box, "find . -printf '%P %y %m %U:%G %l\\n' | sort"),
           " d 755 0:0 \na f 640 0:0 \nargv0 f 644 0:0 \ngreeting f 644 0:0 \nheredoc f 644 0:0 \none.txt f 640 0:0 \nrenamed f 640 0:0 \n"
           "scripts d 755 7:8 \nscripts/link l 777 7:8 /etc/passwd\nscripts/x.sh f 600 7:8 \nscripts/y.sh f 600 7:8 \nsub d 755 0:0 \nsub/b f 640 0:0 \nwhere f 644 0:0 \n",
           "I-25: COPY of files, trees, patterns and links, with owner and mode")
    c.same((box["user"], box["workdir"], cove.out(box, "echo $GREETING-$PLAIN-$WHO")), ("nobody", "/srv/app", "hello cove-ab-\n"),
           "I-25: ENV holds in sandboxes, ARG does not")
    config = json.loads(cove.out(box, "cat /.cove-image.json"))
    c.same((config["Entrypoint"], config["Cmd"], config["Labels"], sorted(config["ExposedPorts"])),
           (["cat"], ["greeting"], {"made.by": "test", "with blank": "yes"}, ["53/udp", "80/tcp"]), "I-25: and the rest of the configuration is kept")
    cove.delete(box)
    drop(cove, "filed")
    return digest


def copies(cove, digest):
    """COPY resolves inside context and root."""
    for number, (line, reason) in enumerate((("COPY ../x /y", "bad_plan"), ("COPY none /y", "no_source"), ("COPY one.txt x.sh /y", "bad_plan"),
                                             ("COPY --chown=nobody-here one.txt /y", "no_user"), ("COPY --chmod=u+x one.txt /y", "bad_plan"),
                                             ("COPY *.sh /y", "bad_plan"))):
        reply = build(cove, "bad", "FROM cove://host\n" + line, context=digest)
        c.ok(reply.json["reason"] == reason and "line 2" in reply.json["message"], "I-27: %s is refused as %s, with its line" % (line, reason), reply)
    reply = build(cove, "linked", "FROM cove://host\nRUN ln -s /tmp /in && ln -s ../../../../.. /up\nCOPY one.txt /in/\nCOPY one.txt /up/two.txt\n"
                  "COPY --chown=nobody one.txt /mine", context=digest)
    c.same(reply.status, 201, "I-27: a destination behind links")
    box = cove.create(template="linked")
    c.same(cove.out(box, "cat /tmp/one.txt /two.txt; stat -c %U /mine"), "one\none\nnobody\n", "I-27: is inside of the root")
    cove.delete(box)
    c.ok(not os.path.exists("/two.txt"), "I-27: and the host has none of it")
    drop(cove, "linked")
    bad = send(cove, b"no archive" * 100)
    reply = build(cove, "bad", "FROM cove://host\nCOPY a /b", context=bad)
    c.same((reply.status, reply.json["reason"]), (400, "bad_archive"), "I-27: what is no archive is refused")
    reply = build(cove, "bad", "FROM cove://host\nCOPY a /b")
    c.same((reply.status, reply.json["reason"]), (400, "no_context"), "I-27: without a context there is nothing to copy")


def refused(cove):
    before = len(cove.get("/v1/operations").json["items"])
    for text, line in (("FROM cove://host\nONBUILD RUN true", 2), ("FROM cove://host\n\nADD http://a b", 3), ("RUN true", 1), ("FROM cove://host\nFLY", 2),
                       ("FROM cove://host AS scratch", 1), ("FROM cove://host\nCOPY --from=3 a b", 2), ("FROM cove://host\nCOPY --from=scratch a b", 2), ("FROM cove://host\nRUN --security=insecure true", 2), ("FROM cove://host\nRUN --network=host true", 2),
                       ("FROM cove://host\nRUN --mount=type=ssh true", 2), ("FROM cove://host\nCOPY a", 2), ("FROM cove://host\nENV", 2),
                       ("FROM cove://host\nRUN <<X\nno end", 2), ("FROM cove://host\nCOPY --from=later a b\nFROM cove://host AS later", 2), ("FROM --platform=plan9/x cove://host", 1),
                       ("FROM cove://host\nHEALTHCHECK curl", 2), ("FROM ${X:?}", 1), ("FROM cove://host\nSHELL sh", 2)):
        reply = build(cove, "bad", text)
        c.ok(reply.status == 400 and reply.json["reason"] == "bad_dockerfile" and "line %d:" % line in reply.json["message"],
             "I-25: refused with its line: %r" % text.split("\n")[-1], reply)
    c.same(len(cove.get("/v1/operations").json["items"]), before, "I-25: before anything has begun")


def fails(cove):
    """I-29: a failure names step, line, exit code and the last lines; no template is made."""
    reply = build(cove, "broken", "FROM cove://host\nRUN echo fine\nRUN echo the reason >&2; exit 3\nRUN echo never")
    c.same((reply.status, reply.json["reason"]), (400, "build_failed"), "I-29: a step that fails ends the build")
    c.ok("step 2/3 (line 3)" in reply.json["message"] and "exit code 3" in reply.json["message"] and "the reason" in reply.json["hint"],
         "I-29: step, line, exit code and output are named", reply)
    c.same(cove.get("/v1/templates/broken").status, 404, "I-29: no template is made")
    operation = [one for one in cove.get("/v1/operations").json["items"] if one["kind"] == "build" and one["template"] == "broken"][0]
    got = events(cove, operation["id"])
    log = "".join(data["text"] for kind, data in got if kind == "log")
    c.ok("step 1/3: RUN echo fine\nfine\nstep 2/3" in log and "the reason\n" in log and "never" not in log.replace("echo never", ""),
         "I-29: the log has each step and its output", log)
    c.same((got[-1][0], got[-1][1]["state"], got[-1][1]["error"]["reason"]), ("end", "failed", "build_failed"), "I-4: the events end with the operation")
    offset = 0
    for kind, data in got:
        if kind == "log":
            c.same(data["offset"], offset, "I-4: log events go by byte offset")
            offset += len(data["text"].encode())
    reply = build(cove, "kept", "FROM cove://host\nRUN echo there >/there; false", keepFailed=True)
    boxes = left(cove)
    c.ok(reply.status == 400 and len(boxes) == 1, "I-29: keepFailed leaves the sandbox", (reply, boxes))
    c.same(cove.out({"id": boxes[0]}, "cat /there"), "there\n", "I-29: as the step has left it")
    cove.delete({"id": boxes[0]})
    c.same(left(cove), [], "I-29: no other sandbox is left")
    reply = build(cove, "closed", "FROM cove://host\nRUN test -z \"$(cat)\" && ! getent hosts example.com && ulimit -a",
                  network={"mode": "off"}, limits={"memoryMB": 128, "pids": 64})
    c.same(reply.status, 201, "I-26: a step has no input, and the network and limits of the request")
    drop(cove, "closed")


def cancelled(cove):
    reply = cove.request("POST", "/v1/builds?wait=false", {"name": "slow", "dockerfile": "FROM cove://host\nRUN echo begun; exec sleep 3600"})
    c.same((reply.status, reply.json["kind"]), (202, "build"), "I-4: a build is begun without a wait")
    path = "/v1/operations/" + reply.json["id"]
    c.ok(c.until(lambda: cove.get(path).json["progress"]["phase"] == "run" and left(cove), 60), "I-4: its progress is shown")
    c.ok(c.until(lambda: cove.get(path).json["progress"]["logBytes"] > 40, 60), "I-29: and its log grows")
    reply = cove.request("DELETE", path)
    c.same((reply.status, reply.json["state"]), (200, "cancelled"), "I-29: it is cancelled")
    c.same(left(cove), [], "I-29: and its sandbox is gone")
    kinds = [event["kind"] for event in cove.get("/v1/events?limit=1000").json["items"]]
    c.ok("build.started" in kinds and "build.ended" in kinds and "template.made" in kinds, "I-53: builds are events")


def tenants(cove):
    cove.request("PUT", "/v1/tenants/acme", {"host": True})
    key = cove.post("/v1/keys", {"tenant": "acme", "name": "k", "scopes": ["read", "make", "use", "templates"], "host": True}).json["key"]
    digest = send(cove, context({"f": b"private"}))
    head = {"Authorization": "Bearer " + key}
    reply = cove.request("GET", "/v1/blobs/" + digest, headers=head, key=False)
    c.same((reply.status, reply.json["reason"]), (404, "no_blob"), "I-28: another tenant does not see a context")
    reply = cove.request("POST", "/v1/builds", {"name": "own", "from": {"template": "host"}, "steps": [{"run": "echo own >/own"}]}, headers=head, key=False)
    c.ok(reply.status == 201 and reply.json["name"] == "own", "I-26: a tenant builds its own template", reply)
    c.same(cove.get("/v1/templates/own").status, 404, "I-26: which others do not have")
    c.same(cove.request("DELETE", "/v1/templates/own", headers=head, key=False).status, 204, "I-26: and removes it")


def commands(cove):
    cli = c.Cli(cove.data)
    home = tempfile.mkdtemp()
    try:
        for path, text in (("Dockerfile", "ARG WHAT=nothing\nFROM cove://host\nARG WHAT\nWORKDIR /srv\nCOPY . .\nRUN echo $WHAT >what; printf 'bell\\007\\n'\nCMD cat what\n"),
                           (".dockerignore", "*.log\nbig\n!big/kept\n"), ("a.log", "x"), ("b", "y"), ("big/gone", "z"), ("big/kept", "w"), ("../outside", "no")):
            path = os.path.join(home, "in", path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        os.symlink("../outside", os.path.join(home, "in", "out"))
        done = cli("template", "build", "-t", "cli-built", "--build-arg", "WHAT=said", os.path.join(home, "in"))
        c.same((done.status, done.out), (0, b"cli-built\n"), "I-25: cove template build prints the name")
        c.ok("step 1/5: ARG WHAT" in done.err and "\x07" not in done.err and "bell\\x07" in done.err, "I-29: and shows the log, escaped", done)
        done = cli("run", "--template", "cli-built", "--", "sh", "-c", "cat what; find . | sort; readlink out")
        c.same(done.out.decode(), "said\n.\n./.dockerignore\n./Dockerfile\n./b\n./big\n./big/kept\n./out\n./what\n../outside\n",
               "I-27: the context is what .dockerignore leaves, and links stay links")
        done = cli("template", "build", "-t", "x", "--print-plan", "--target", "0", os.path.join(home, "in"))
        plan = json.loads(done.out)
        c.ok(plan["from"] == {"template": "host"} and plan["steps"][2]["copy"] == {"sources": ["."], "to": "."}, "I-24: --print-plan", done)
        del plan["steps"][2]
        c.same(build(cove, "from-plan", **plan).status, 201, "I-24: what it prints can be built")
        done = cli("template", "build", os.path.join(home, "in"))
        c.ok(done.status == 2 and "template build -t NAME" in done.err, "a build without a name is refused", done)
        done = cli("template", "build", "-t", "x", home)
        c.ok(done.status == 2 and "Dockerfile" in done.err, "and a directory without a Dockerfile", done)
        with open(os.path.join(home, "bad"), "w") as file:
            file.write("FROM cove://host\nRUN exit 7\n")
        done = cli("template", "build", "--json", "-t", "x", "-f", os.path.join(home, "bad"), home)
        c.ok(done.status == 2 and json.loads(done.err)["reason"] == "build_failed", "I-29: a failure is told as JSON", done)
    finally:
        shutil.rmtree(home)
    drop(cove, "cli-built", "from-plan")


def killed(cove):
    """I-29: after kill -9 a build is interrupted, its sandbox is gone, and verify is clean."""
    reply = cove.request("POST", "/v1/builds?wait=false", {"name": "lost", "dockerfile": "FROM cove://host\nRUN echo begun; exec sleep 3600"})
    path = "/v1/operations/" + reply.json["id"]
    c.ok(c.until(lambda: cove.get(path).json["progress"]["logBytes"] > 40, 60), "I-29: a step runs")
    os.kill(cove.children()["daemon"], signal.SIGKILL)

    def ended():
        try:
            return cove.get(path).json.get("state") == "failed"
        except Exception:  # noqa: BLE001
            return False
    c.ok(c.until(ended, 60), "I-29: after kill -9 of the daemon the build has ended")
    c.same(cove.get(path).json["error"]["reason"], "interrupted", "I-29: as interrupted")
    c.ok(c.until(lambda: left(cove) == [], 60), "I-29: its sandbox is removed")
    c.same(cove.get("/v1/templates/lost").status, 404, "I-29: there is no template")
    log = "".join(data["text"] for kind, data in events(cove, reply.json["id"]) if kind == "log")
    c.ok(log == "" or "begun" in log, "I-29: the log is whole", log)
    clean(cove, "I-29: verify is clean")


c.need_root()
cove = c.Cove()
plan(cove)
digest = dockerfile(cove)
copies(cove, digest)
refused(cove)
fails(cove)
cancelled(cove)
tenants(cove)
commands(cove)
clean(cove, "I-23: verify is clean after builds")
killed(cove)
cove.close()
c.done()
