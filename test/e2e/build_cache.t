#!/usr/bin/env python3
"""I-28, I-29: what a build need not run again: keys, context, arguments, stages, prune, tenants, and a build that was killed; FROM scratch (I-25)."""
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def context(files, mtime=0, mode=0o644):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), mode, mtime
            tar.addfile(entry, io.BytesIO(content))
    body = out.getvalue()
    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    reply = cove.request("PUT", "/v1/blobs/" + digest, body, headers={"Content-Type": "application/x-tar"}, raw=True)
    assert reply.status == 201, reply
    return digest


def build(name, dockerfile=None, head=None, **fields):
    """The reply, and which steps have run: their numbers."""
    if dockerfile:
        fields["dockerfile"] = dockerfile
    reply = cove.request("POST", "/v1/builds?wait=false", dict(fields, name=name), headers=head, key=head is None)
    if reply.status != 202:
        return reply, None
    path = "/v1/operations/" + reply.json["id"]
    text = cove.request("GET", path + "/events", headers=head, key=head is None).body.decode()
    log = "".join(json.loads(line[6:])["text"] for event in text.split("\n\n") if "event: log" in event for line in event.split("\n") if line.startswith("data: "))
    return cove.request("GET", path, headers=head, key=head is None), log


def ran(log):
    """The numbers of RUN and COPY steps that were not cached."""
    steps, numbers = log.split("step ")[1:], []
    for step in steps:
        number, rest = step.split("/", 1)
        if any(" %s " % word in rest.split("\n")[0] for word in ("RUN", "COPY", "ADD", "run", "copy")) and "\ncached\n" not in rest:
            numbers.append(int(number))
    return numbers


def same(name, dockerfile, want, why, **fields):
    reply, log = build(name, dockerfile, **fields)
    if reply.json.get("state") != "succeeded":
        c.ok(False, why, reply.json)
        return None
    c.same(ran(log), want, why)
    return reply.json["progress"]


def out(template, command):
    box = cove.create(template=template)
    try:
        return cove.out(box, command)
    finally:
        cove.delete(box)


LINES = "FROM cove://host\nARG WHO=one\nRUN head -c 16 /dev/urandom | od -An -tx1 >/random\nENV A=b\nWORKDIR /srv\nCOPY a b/ ./\nRUN cat a >>all; echo $A $WHO >>all\nCMD cat all\n"


def keys():
    first = context({"a": b"a\n", "b/c": b"c\n", "other": b"1"})
    same("keyed", LINES, [2, 5, 6], "I-28: the first build runs all steps", context=first)
    random = out("keyed", "cat /random all")
    progress = same("keyed", LINES, [], "I-28: the same build again runs nothing", context=first)
    c.same(progress and progress["cached"], 3, "I-28: events say what was cached")
    c.same(out("keyed", "cat /random all; pwd"), random + "/srv\n", "I-28: and its files are the same")
    same("keyed", LINES.replace("CMD", "# more\nCMD"), [], "I-28: comments and lines are not in the key", context=first)
    same("keyed", LINES, [], "I-28: nor are times, and files that are not copied", context=context({"a": b"a\n", "b/c": b"c\n", "other": b"2"}, mtime=77))
    same("keyed", LINES, [5, 6], "I-28: one file changed", context=context({"a": b"x\n", "b/c": b"c\n"}))
    same("keyed", LINES, [5, 6], "I-28: one mode changed", context=context({"a": b"a\n", "b/c": b"c\n"}, mode=0o600))
    same("keyed", LINES, [2, 5, 6], "I-28: an argument is in the key of what sees it", context=first, args={"WHO": "two"})
    same("keyed", LINES, [], "I-28: one that no step declares is not", context=first, args={"NOT": "two"})
    same("keyed", LINES.replace("A=b", "A=c"), [5, 6], "I-28: a changed ENV makes the steps after it new", context=first)
    same("keyed", LINES, [2, 5, 6], "I-28: noCache runs all steps", context=first, noCache=True)
    c.ok(out("keyed", "cat /random all") != random, "I-28: with other results")
    random = out("keyed", "cat /random all")
    same("keyed", LINES, [], "I-28: which the cache has from then on", context=first)
    c.same(out("keyed", "cat /random all"), random, "I-28: and not those of before")
    plan = {"from": {"template": "host"}, "steps": [{"run": "echo 1 >/1"}, {"run": "echo 2 >/2", "noCache": True}, {"run": "echo 3 >/3"}]}
    same("planned", None, [1, 2, 3], "I-24: a plan", **plan)
    same("planned", None, [2, 3], "I-28: noCache of a step, and what follows it", **plan)
    same("keyed", "FROM cove://host\nSHELL [\"/bin/sh\", \"-ec\"]\nRUN echo $0 >/one\nRUN --mount=type=bind,src=a,target=/m cat /m >/two\n", [2, 3], "a bind mount", context=first)
    same("keyed", "FROM cove://host\nSHELL [\"/bin/sh\", \"-ec\"]\nRUN echo $0 >/one\nRUN --mount=type=bind,src=a,target=/m cat /m >/two\n", [3], "I-28: what a bind mount shows is in the key",
         context=context({"a": b"z\n"}))


STAGES = """FROM cove://host AS base
RUN echo %s >/side; echo made >/made
FROM base AS more
RUN echo more >>/made
FROM cove://host AS unused
RUN false
FROM cove://host
COPY --from=more /made /got
RUN cat /got >/copied
"""


def stages():
    same("staged", STAGES % 1, [1, 2, 3, 4], "I-28: stages")
    same("staged", STAGES % 1, [], "I-28: are cached, with what is copied between them")
    same("staged", STAGES % 2, [1, 2], "I-28: a copy has what its sources are in its key, not how they were made")
    c.same(out("staged", "cat /copied; test -e /side || echo none"), "made\nmore\nnone\n", "I-28: and the result is right")


def scratch():
    same("empty", "FROM scratch\nCOPY <<X /etc/one\n1\nX\nUSER 7:8\nENV A=b\nENTRYPOINT [\"/none\"]\n", [1], "I-25: FROM scratch")
    same("full", "FROM cove://host AS root\nRUN mkdir -p /r/bin /r/lib && cp -a /bin/busybox /r/bin/sh 2>/dev/null || cp /bin/sh /r/bin/sh && "
         "ldd /r/bin/sh | grep -o '/[^ ]*' | sort -u | while read f; do mkdir -p /r${f%/*}; cp $f /r$f; done\n"
         "FROM scratch\nCOPY --from=root /r /\nCOPY --from=cove://empty /etc/one /two\nRUN echo /* >/list\n", [1, 2, 3, 4], "I-25: with a root of its own")
    box = cove.create(template="full")
    names = cove.out(box, "read x </list; echo $x; read y </two; echo $y").split("\n")
    c.ok(names[1] == "1" and "/bin" in names[0].split() and "/usr" not in names[0].split() and "/root" not in names[0].split(), "I-25: a sandbox of it has its files and no others of the host", names)
    cove.delete(box)
    reply, log = build("planned", **{"from": {"scratch": True}, "steps": [{"copy": {"to": "/x", "files": [{"name": "x", "content": "y"}]}}]})
    c.same(reply.json["state"], "succeeded", "I-24: from scratch in a plan")
    for name in ("empty", "full", "planned"):
        c.same(cove.request("DELETE", "/v1/templates/" + name).status, 204, "the template %s is removed" % name)


def prune():
    text = "FROM cove://host\nRUN echo pruned >/p\n"
    same("pruned", text, [1], "a build")
    c.ok(cove.post("/v1/templates/prune", {}).status == 200, "a prune without cache")
    same("pruned", text, [], "I-28: leaves the cache")
    reply = cove.post("/v1/templates/prune", {"cache": True})
    c.ok(reply.status == 200 and reply.json["bytes"] > 0, "I-28: prune of the cache tells what it freed", reply)
    same("pruned", text, [1], "I-28: after it the steps run again")
    got = cove.get("/v1/verify").json
    c.ok(got["ok"], "I-18: verify is clean after a prune", got)


def tenants():
    text = "FROM cove://host\nRUN echo shared >/s; echo $RANDOM\n"
    same("shared", text, [1], "a build of the operator")
    cove.request("PUT", "/v1/tenants/acme", {"host": True, "quota": {"diskMB": 4096}})
    key = cove.post("/v1/keys", {"tenant": "acme", "name": "k", "scopes": ["read", "make", "use", "templates"], "host": True}).json["key"]
    head = {"Authorization": "Bearer " + key}
    limits = {"diskMB": 128}
    same("shared", text, [1], "I-28: another tenant has no hit", head=head, limits=limits)
    same("shared", text, [], "I-28: but of its own", head=head, limits=limits)
    cove.request("DELETE", "/v1/templates/shared", headers=head, key=False)
    cove.request("POST", "/v1/templates/prune", {"cache": True}, headers=head, key=False)
    same("shared", text, [], "I-28: whose prune leaves those of others")
    same("shared", text, [1], "a build of the tenant", head=head, limits=limits)
    cove.request("DELETE", "/v1/templates/shared", headers=head, key=False)
    c.same(cove.request("DELETE", "/v1/tenants/acme").status, 204, "the tenant is removed")
    got = cove.get("/v1/verify").json
    c.ok(got["ok"], "I-18: with what it had cached", got)


def setup():
    """I-31: FROM, bind, RUN."""
    cli, script = c.Cli(cove.data), os.path.join(cove.home, "setup.sh")

    def made(name, text, *words):
        with open(script, "w") as file:
            file.write(text)
        got = cli("template", "build", "-t", name, "--from", "cove://host", "--setup", script, *words)
        c.same(got.status, 0, "I-31: cove template build --from --setup")
        return "\ncached\n" in got.err
    text = "head -c 16 /dev/urandom | od -An -tx1 >/random; echo $0 >/name\n"
    c.same(made("set", text), False, "I-31: a script is run")
    random = out("set", "cat /random; cat /name; ls -A /tmp")
    c.ok(random.endswith("/tmp/.cove-setup\n"), "I-31: by sh, and is not in the template", random)
    c.same((made("set", text), out("set", "cat /random; cat /name")), (True, random), "I-31: twice: the second time it is cached")
    c.same(made("set", "#!/usr/bin/env python3\nopen('/by', 'w').write('python')\n"), False, "I-31: another script is not")
    c.same(out("set", "cat /by"), "python", "I-31: and is run by what its first line names")
    for words in (("--setup", script), ("--from", "cove://host"), ("--from", "cove://host", "--setup", script, cove.home), ("--from", "a b", "--setup", script),
                  ("--from", "x\nRUN y", "--setup", script), ("--from", "cove://host", "--setup", "/none"), ()):
        got = cli("template", "build", "-t", "bad", *words)
        c.ok(got.status == 2, "I-31: refused: %r" % (words,), got)
    with open(script, "w") as file:
        file.write("exit 3\n")
    got = cli("template", "build", "-t", "bad", "--from", "cove://host", "--setup", script)
    c.ok(got.status and "exit code 3" in got.err, "I-31: a script that fails", got)
    c.same(cove.request("DELETE", "/v1/templates/set").status, 204, "the template set is removed")


def settles():
    """What cannot be removed keeps the rest from nothing."""
    same("settled", "FROM cove://host\nRUN echo settled >/s\n", [1], "a build")
    layers = os.path.join(cove.data, "layers")
    one = next(name for name in os.listdir(layers) if name.startswith(".step-"))
    names = [one[:-4] + "%04x" % i for i in range(8)]
    cove.stop()
    for name in names:
        shutil.copytree(os.path.join(layers, one), os.path.join(layers, name), symlinks=True, ignore=lambda at, files: [f for f in files if f in ("root", "disk.img")])
    fixed = names[:4]
    try:
        for name in fixed:
            subprocess.run(["chattr", "+i", os.path.join(layers, name)], check=True)
        cove.start()
        c.ok(c.until(lambda: not [name for name in names[4:] if os.path.exists(os.path.join(layers, name))], 60),
             "steps that nobody knows are removed, though others cannot be", os.listdir(layers))
        c.same([name for name in fixed if not os.path.exists(os.path.join(layers, name))], [], "which stay for the next start")
        same("settled", "FROM cove://host\nRUN echo settled >/s\n", [], "and what is known is there")
    finally:
        for name in fixed:
            subprocess.run(["chattr", "-i", os.path.join(layers, name)], check=False)
    cove.stop()
    cove.start()
    c.ok(c.until(lambda: not [name for name in names if os.path.exists(os.path.join(layers, name))], 60), "and go then", os.listdir(layers))


def killed():
    """I-29: after kill -9 in step 3 of 4 the repeat runs 3 and 4."""
    text = "FROM cove://host\nRUN echo 1 >/1\nRUN echo 2 >/2\nRUN test -e /go || { echo begun; %s; }\nRUN echo 4 >/4\n"
    reply = cove.request("POST", "/v1/builds?wait=false", {"name": "cut", "dockerfile": text % "sleep 3600"})
    path = "/v1/operations/" + reply.json["id"]
    c.ok(c.until(lambda: cove.get(path).json["progress"]["step"] == 3, 60), "the third step is under way")
    os.kill(cove.children()["daemon"], signal.SIGKILL)

    def ended():
        try:
            return cove.get(path).json.get("state") == "failed"
        except c.BROKEN:
            return False
    c.ok(c.until(ended, 60), "I-29: after kill -9 of the daemon the build has ended")
    c.same(cove.get(path).json["error"]["reason"], "interrupted", "I-29: the build is interrupted")
    same("cut", text % "true", [3, 4], "I-29: the repeat runs the third and the fourth step")
    c.ok(c.until(lambda: cove.get("/v1/sandboxes").json["items"] == [], 60), "no sandbox is left")
    got = cove.get("/v1/verify").json
    c.ok(got["ok"], "I-29: verify is clean", got)


c.need_root()
cove = c.Cove()
keys()
stages()
scratch()
prune()
tenants()
setup()
settles()
killed()
got = cove.get("/v1/verify").json
c.ok(got["ok"], "verify is clean", got)
cove.close()
c.done()
