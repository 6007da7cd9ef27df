#!/usr/bin/env python3
"""The configuration of an image holds for its sandboxes: environment, user and directory of all that is started there, by
command, session, process, terminal, interpreter and file; what a create or a request says wins; the entry point runs where no
command is given. For what `docker save` writes, old and new, and for OCI layouts."""
import hashlib
import io
import json
import os
import platform
import re
import signal
import subprocess
import tarfile

import cove as c

c.need_root()
ARCH = {"aarch64": "arm64", "x86_64": "amd64"}[platform.machine()]
PASSWD = "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1001:A:/home/agent:/bin/bash\n"
GROUP = "root:x:0:\nagent:x:1001:\nstaff:x:50:agent\n"


def tar(entries):
    """[(name, bytes or None for a directory or text for a link's target, mode, uid, gid)]"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for name, data, mode, uid, gid in entries:
            info = tarfile.TarInfo(name)
            info.mode, info.uid, info.gid = mode, uid, gid
            if data is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(data, str):
                info.type, info.linkname = tarfile.SYMTYPE, data
            else:
                info.size = len(data)
            file.addfile(info, io.BytesIO(data) if isinstance(data, bytes) else None)
    return out.getvalue()


def root():
    """bash with its libraries, python and some of the host's programs, in one layer."""
    files, dirs = {}, {"home/agent": (1000, 1001), "tmp": (0, 0), "root": (0, 0), "workspace": (0, 0)}
    for program in ("/bin/bash", "/usr/bin/id", "/usr/bin/env", "/bin/cat", "/bin/sleep", "/usr/bin/stat", "/bin/pwd", "/bin/mkdir",
                    "/bin/chown", "/bin/chgrp", "/bin/chmod"):
        files[program] = open(program, "rb").read()
        for line in subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True).stdout.splitlines():
            found = re.search(r"(/\S+) \(0x", line)
            if found:
                files[found.group(1)] = open(found.group(1), "rb").read()
    entries = [("bin", "usr/bin", 0o777, 0, 0), ("lib", "usr/lib", 0o777, 0, 0), ("lib64", "usr/lib64", 0o777, 0, 0)]
    moved = {("usr" + path if not path.startswith("/usr/") else path[1:]): data for path, data in files.items()}
    for path in [*moved, "etc/passwd", "etc/group"]:
        parts = path.split("/")[:-1]
        for i in range(1, len(parts) + 1):
            dirs.setdefault("/".join(parts[:i]), (0, 0))
    dirs.setdefault("usr/lib64", (0, 0))
    dirs.setdefault("home", (0, 0))
    entries = [(name, None, 0o755, *owner) for name, owner in sorted(dirs.items())] + entries
    entries += [(path, data, 0o755, 0, 0) for path, data in moved.items()]
    entries += [("etc/passwd", PASSWD.encode(), 0o644, 0, 0), ("etc/group", GROUP.encode(), 0o644, 0, 0)]
    return tar(entries)


LAYER = root()
CONFIG = {"Env": ["PATH=/opt/tools:/usr/bin:/bin", "GREETING=from the image", "KEPT=image"], "User": "agent",
          "WorkingDir": "/srv/app", "Entrypoint": ["/bin/bash", "-c"], "Cmd": ["echo entry of $(id -un) in $PWD"],
          "Labels": {"a": "b"}, "ExposedPorts": {"80/tcp": {}}}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def image_of(config):
    return json.dumps({"architecture": ARCH, "os": "linux", "config": config,
                       "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest(LAYER)]}}).encode()


def saved(config):
    """As docker save before version 25."""
    image = image_of(config)
    manifest = [{"Config": digest(image) + ".json", "RepoTags": ["x:latest"], "Layers": ["aa/layer.tar"]}]
    return tar([(digest(image) + ".json", image, 0o644, 0, 0), ("aa", None, 0o755, 0, 0), ("aa/layer.tar", LAYER, 0o644, 0, 0),
                ("manifest.json", json.dumps(manifest).encode(), 0o644, 0, 0)])


def layout(config, with_manifest):
    """An OCI layout; with docker's manifest.json beside it as docker save writes it now."""
    image = image_of(config)
    blob = lambda media, data: {"mediaType": media, "digest": "sha256:" + digest(data), "size": len(data)}  # noqa: E731
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                           "config": blob("application/vnd.oci.image.config.v1+json", image),
                           "layers": [blob("application/vnd.oci.image.layer.v1.tar", LAYER)]}).encode()
    index = json.dumps({"schemaVersion": 2, "manifests": [blob("application/vnd.oci.image.manifest.v1+json", manifest)]}).encode()
    entries = [("oci-layout", b'{"imageLayoutVersion": "1.0.0"}', 0o644, 0, 0), ("index.json", index, 0o644, 0, 0),
               ("blobs", None, 0o755, 0, 0), ("blobs/sha256", None, 0o755, 0, 0)]
    entries += [("blobs/sha256/" + digest(data), data, 0o644, 0, 0) for data in (image, manifest, LAYER)]
    if with_manifest:
        entries.append(("manifest.json", json.dumps([{"Config": "blobs/sha256/" + digest(image), "RepoTags": ["x:latest"],
                                                      "Layers": ["blobs/sha256/" + digest(LAYER)]}]).encode(), 0o644, 0, 0))
    return tar(entries)


def take(cove, name, body):
    cove.request("DELETE", "/v1/templates/" + name)
    reply = cove.request("POST", "/v1/templates?name=" + name, body, raw=True, headers={"Content-Type": "application/x-tar"})
    return c.same(reply.status, 201, "the image becomes the template " + name)


SHOW = 'echo "$(id -u):$(id -g) $PWD $HOME $GREETING $PATH"'
WANT = "1000:1001 /srv/app /home/agent from the image /opt/tools:/usr/bin:/bin\n"


def everywhere(cove):
    box = cove.create(template="app", env={"KEPT": "create"})
    at = "/v1/sandboxes/" + box["id"]
    c.same((box["user"], box["workdir"]), ("agent", "/srv/app"), "the sandbox shows the image's user and directory")
    c.same(cove.out(box, SHOW), WANT, "a command runs by the image's configuration")
    c.same(cove.out(box, ["/bin/bash", "-c", SHOW]), WANT, "by its exact arguments too")
    c.same(cove.out(box, "echo $KEPT"), "create\n", "what the create says wins over the image")
    c.same(cove.out(box, "echo $KEPT", env={"KEPT": "request"}), "request\n", "and the request over both")
    c.same(cove.out(box, SHOW, user="root", cwd="/tmp"), "0:0 /tmp /root from the image /opt/tools:/usr/bin:/bin\n",
           "user and directory of a request win")
    got = cove.request("POST", at + "/api/execute", {"command": SHOW, "sessionId": "s"}).json
    c.same(got["stdout"], WANT.strip(), "a session does likewise")
    got = cove.request("POST", at + "/api/process/start", {"command": SHOW, "processId": "p"})
    cove.request("POST", at + "/api/process/p/wait", {"timeout": 20000})
    c.ok(c.until(lambda: cove.get(at + "/api/process/p/logs").json.get("stdout") == WANT), "and a process",
         cove.get(at + "/api/process/p/logs").body)
    env = {"COVE_URL": cove.url, "COVE_TOKEN": cove.key, "PATH": os.environ["PATH"]}
    got = subprocess.run(["script", "-qec", "%s exec -t %s -- /bin/bash -c '%s'" % (c.BIN, box["id"], SHOW.replace("'", "")), "/dev/null"],
                         env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    c.ok(WANT.strip() in got.stdout, "and a terminal", got.stdout)
    groups = [cove.out(box, "id -G"), cove.out(box, "id -G", user="1000"), cove.out(box, "id -G", user="agent:agent"),
              cove.request("POST", at + "/api/execute", {"command": "id -G", "sessionId": "s"}).json["stdout"] + "\n"]
    c.same(groups, ["1001 50\n", "1001 50\n", "1001\n", "1001 50\n"], "with the groups that /etc/group of the image names it a member of")
    cove.run(box, "mkdir /srv/shared; chgrp 50 /srv/shared; chmod 775 /srv/shared", user="root")
    c.same(cove.request("POST", at + "/api/write", {"path": "/srv/shared/f", "content": "x"}).status, 200, "which count for files, too")
    cove.run(box, "chown 1000 /srv/app", user="root")
    env = {"COVE_URL": cove.url, "COVE_TOKEN": cove.key, "PATH": os.environ["PATH"]}
    with open(os.path.join(cove.data, "..", "mine.txt"), "w") as file:
        file.write("by a relative path\n")
    for words in (["cp", file.name, box["id"] + ":mine.txt"], ["cat", box["id"] + ":mine.txt"]):
        got = subprocess.run([c.BIN, *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        c.same(got.returncode, 0, "cove %s with a relative path" % words[0])
    c.same((got.stdout, cove.out(box, "cat /srv/app/mine.txt")), ("by a relative path\n",) * 2, "which begins at the image's directory")
    cove.run(box, "chown 0 /srv/app", user="root")
    c.same(cove.run(box, "stat -c '%u:%g %a' /srv/app")["stdout"], "0:0 755\n", "the missing directory was made, root's")
    reply = cove.request("PUT", at + "/api/files/home/agent/mine", b"hello", raw=True)
    c.same((reply.status in (200, 201, 204), cove.out(box, "stat -c '%u:%g' /home/agent/mine")), (True, "1000:1001\n"),
           "files that the API writes are the user's")
    reply = cove.request("POST", at + "/api/write", {"path": "/etc/passwd", "content": "x"})
    c.ok(reply.status >= 400, "with no more rights than that", reply)
    c.same(cove.request("POST", at + "/stop").status, 200, "stopped")
    c.same(cove.out(box, SHOW), WANT, "and started again it is the same")
    cove.delete(box)


def overrides(cove):
    box = cove.create(template="app", user="1234:staff", workdir="/data/in")
    c.same(cove.out(box, 'echo "$(id -u):$(id -g) $PWD"'), "1234:50 /data/in\n", "a create's own user, group and directory win")
    cove.delete(box)
    box = cove.create(user="games", workdir="/opt/made")
    c.same(cove.out(box, 'echo "$(id -un) $PWD $HOME"'), "games /opt/made /usr/games\n", "on the host's template, too")
    made = cove.post("/v1/sandboxes/%s/api/contexts" % box["id"], {"language": "python"}).json
    said = cove.post("/v1/sandboxes/%s/api/execute/code" % box["id"],
                     {"context_id": made["id"], "code": "import os; print(os.getuid(), os.getcwd())"}).body.decode()
    c.ok("5 /opt/made" in said, "for interpreters as well", said)
    cove.delete(box)
    reply = cove.post("/v1/sandboxes", {"template": "app", "user": "nobody-here"})
    c.same((reply.status, reply.json["reason"]), (400, "no_user"), "a user that is not there is refused")
    for body in ({"user": "a b"}, {"workdir": "relative"}, {"workdir": "/a/../b"}):
        c.same(cove.post("/v1/sandboxes", body).json["reason"], "bad_field", "as is %s" % json.dumps(body))
    c.ok(c.until(lambda: cove.get("/v1/sandboxes").json["items"] == []), "and leaves nothing", cove.get("/v1/sandboxes").body)


def entry(cove):
    env = dict(os.environ, COVE_URL=cove.url, COVE_TOKEN=cove.key)
    got = subprocess.run([c.BIN, "run", "--template", "app"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    c.same((got.returncode, got.stdout), (0, "entry of agent in /srv/app\n"), "cove run without a command runs the entry point")
    got = subprocess.run([c.BIN, "run", "--template", "app", "--", "id", "-u"], env=env, stdout=subprocess.PIPE, text=True, timeout=60)
    c.same((got.returncode, got.stdout), (0, "1000\n"), "which is put before no other command")
    got = subprocess.run([c.BIN, "run"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    c.ok(got.returncode == 125 and "no command" in got.stderr, "the host's template has none", got)


def bare(cove):
    take(cove, "bare", saved({"Env": None, "User": "", "WorkingDir": "/"}))
    box = cove.create(template="bare")
    c.same(cove.out(box, 'echo "$(id -u) $PWD $HOME $LANG"'), "0 /workspace /root C.UTF-8\n",
           "an image that says nothing leaves cove's own: root in /workspace")
    cove.delete(box)
    take(cove, "bare", saved({"User": "1000", "Env": ["HOME=/elsewhere"]}))
    box = cove.create(template="bare")
    c.same(cove.out(box, 'echo "$(id -u):$(id -g) $PWD $HOME"'), "1000:1001 /workspace /elsewhere\n",
           "another image of that name is another configuration; a number is a user, and a HOME of the image's is kept")
    cove.delete(box)
    reply = cove.request("POST", "/v1/templates?name=odd", saved({"User": "a;b"}), raw=True, headers={"Content-Type": "application/x-tar"})
    c.same((reply.status, reply.json["reason"]), (400, "bad_image"), "a user that is no word is refused with the image")
    take(cove, "ghost", saved({"User": "nobody-here"}))
    reply = cove.post("/v1/sandboxes", {"template": "ghost"})
    c.same((reply.status, reply.json["reason"]), (400, "no_user"), "an image's unknown user is told at the create")


def killed(cove):
    """A create that was acknowledged just before kill -9 of the daemon."""
    for _ in range(5):
        daemon = cove.children()["daemon"]
        made = cove.post("/v1/sandboxes", {"template": "app"})
        os.kill(daemon, signal.SIGKILL)
        c.until(lambda: cove.get("/v1/health").status == 200, 30)
        found = cove.get("/v1/sandboxes/" + made.json["id"]).json
        good = (found["user"], found["workdir"], cove.out(found, SHOW)) == ("agent", "/srv/app", WANT)
        cove.delete(made.json)
        if not good:
            break
    c.ok(good, "the user, directory and environment of the image outlive a kill -9 right after the create", found)


cove = c.Cove()
for form, body in (("docker save, old", saved(CONFIG)), ("docker save, new", layout(CONFIG, True)), ("an OCI layout", layout(CONFIG, False))):
    take(cove, "app", body)
    box = cove.create(template="app")
    c.same(cove.out(box, SHOW), WANT, "the configuration holds: " + form)
    cove.delete(box)
everywhere(cove)
overrides(cove)
entry(cove)
take(cove, "app", saved(CONFIG))
killed(cove)
bare(cove)
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
c.done()
