#!/usr/bin/env python3
"""A frozen template: the host's /usr copied once, so that what the host upgrades later changes no sandbox.

The /usr of a grown machine has gigabytes. So this cove lives in a mount namespace of its own, where /usr is
a small one, made of a shell, some programs and what they and cove load."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

PROGRAMS = ("bash", "sh", "cat", "ls", "mkdir", "true", "env", "stat", "mount", "mkfs.btrfs", "mke2fs")


def bring(path, root):
    """A file of /usr, and whatever a name on the way to it points to."""
    while True:
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if not path.startswith("/usr/"):
            return
        target = root + path[len("/usr"):]
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.lexists(target):
            return
        if not os.path.islink(path):
            shutil.copy2(path, target)
            return
        os.symlink(os.readlink(path), target)
        path = os.path.join(os.path.dirname(path), os.readlink(path))


def small_usr(root):
    os.chmod(root, 0o755)
    for name in ("bin", "sbin", "lib", "share/empty"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for link in ("lib64", "lib32"):
        if os.path.isdir("/usr/" + link):
            os.makedirs(os.path.join(root, link), exist_ok=True)
    found = [c.BIN] + [path for path in map(shutil.which, PROGRAMS) if path]
    for path in found:
        bring(path, root)
        out = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        for word in out.split():
            if word.startswith("/"):
                bring(word, root)
    with open(os.path.join(root, "share", "word"), "w") as file:
        file.write("first\n")


def wrapper(home, usr):
    path = os.path.join(home, "cove")
    with open(path, "w") as file:
        file.write("#!/bin/sh\nexec unshare --mount --propagation private sh -c "
                   "'mount --bind \"$0\" /usr && exec \"$@\"' %s %s \"$@\"\n" % (usr, c.BIN))
    os.chmod(path, 0o755)
    return path


def freeze(cove, usr):
    reply = cove.request("POST", "/v1/templates", {"name": "still", "from": "host"})
    c.same(reply.status, 201, "the host is frozen under a name")
    c.ok(reply.json["kind"] == "frozen" and reply.json["files"] > 20 and reply.json["bytes"] > 1 << 20,
         "and the copy is described", reply.json)
    c.same(cove.request("POST", "/v1/templates", {"name": "still", "from": "host"}).json["reason"], "template_exists",
           "it is not made twice")
    with open(os.path.join(usr, "share", "word"), "w") as file:
        file.write("second\n")
    old, new = cove.create(template="still"), cove.create(template="host")
    c.same(cove.out(old, ["cat", "/usr/share/word"]), "first\n", "a change of the host does not reach the copy")
    c.same(cove.out(new, ["cat", "/usr/share/word"]), "second\n", "the change reaches the host's own template")
    for name in ("bash", "cat"):
        c.same(cove.out(old, ["stat", "-Lc", "%a %u %s", "/usr/bin/" + name]),
               cove.out(new, ["stat", "-Lc", "%a %u %s", "/usr/bin/" + name]), "%s is the same file in both" % name)
    c.same(cove.out(old, ["bash", "-c", "readlink /bin 2>/dev/null; echo $((6*7))"]).split()[-1], "42", "a shell works there")
    c.same(cove.request("DELETE", "/v1/templates/still").status, 204, "the template can be removed")
    c.same(cove.out(old, ["cat", "/usr/share/word"]), "first\n", "while a sandbox stands on it")
    cove.delete(old)
    cove.delete(new)


c.need_root()
home = tempfile.mkdtemp(prefix="cove-freeze-")
try:
    usr = os.path.join(home, "usr")
    os.makedirs(usr)
    small_usr(usr)
    cove = c.Cove(binary=wrapper(home, usr))
    cove.delete(cove.create())
    before = c.calm(cove)
    freeze(cove, usr)
    c.same(c.settled(before, cove), {}, "the census is as before")
    c.same(cove.stop(), 0, "cove ends with status 0")
finally:
    shutil.rmtree(home, ignore_errors=True)
c.done()
