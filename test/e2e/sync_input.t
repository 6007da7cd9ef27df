#!/usr/bin/env python3
"""Bad input of cove agent and cove sync, on both sides: what cannot travel is named and left out, disks that are full or read-only
lose nothing, odd repositories travel as the bytes that they are, and nothing of a repository's configuration runs."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("git", "mount", "umount")
c.need_mounts()
HOME = tempfile.mkdtemp(prefix="cove-input-")
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": HOME, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t",
       "GIT_COMMITTER_EMAIL": "t@t", "GIT_EDITOR": "true"}
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 12345\n" % ("4d" * 32)


def git(work, *words, check=True):
    return subprocess.run(["git", *words], cwd=work, env=dict(os.environ, **GIT), check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout.decode()


def put(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w" if isinstance(text, str) else "wb") as file:
        file.write(text)
    os.chmod(path, mode)


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def commit(work, text):
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", text)


def repository(name):
    work = os.path.join(HOME, name)
    put(work + "/a", "base\n")
    git(work, "init", "-q", "-b", "main")
    commit(work, "one")
    return work


def run(cove, work, script, *options):
    return c.Cli(cove.data, cwd=work, HOME=HOME)("agent", "run", *options, "--", "sh", "-c", script)


def sync(cove, work, *words):
    return c.Cli(cove.data, cwd=work, HOME=HOME)("sync", *words)


def marks(got, event):
    return re.findall(r"^\[sandbox:%s\] (.*)$" % event, got.err, re.M)


def special(cove):
    work = repository("special")
    put(work + "/.gitignore", "*.sock\n!open.sock\n")
    got = run(cove, work, "mkdir sub; mkfifo sub/pipe; python3 -c 'import socket; [socket.socket(socket.AF_UNIX).bind(n) for n in (\"door\", \"own.sock\", \"open.sock\")]'; echo y > y")
    c.ok(got.returncode == 2 and sorted(marks(got, "special")) == ["door", "open.sock", "sub/pipe"] and "3 FIFOs, sockets or devices" in got.err,
         "a FIFO and a socket that the agent made are named, exit 2; an ignored one is not", got)
    c.ok(read(work, "y") == "y\n" and sorted(os.listdir(work)) == [".git", ".gitignore", "a", "y"], "the other changes come back", os.listdir(work))
    got = run(cove, work, "rm -r sub door open.sock; mknod dev c 1 3")
    c.ok(not os.path.lexists(work + "/dev"), "a device is not made, and does not come", got)
    got = sync(cove, work, "out")
    c.ok(got.returncode == 0 and not marks(got, "special"), "without them sync out is 0", got)


def disks(cove):
    work = repository("disks")
    put(work + "/big", os.urandom(30_000_000))
    box = cove.create(limits={"diskMB": 16})["id"]
    got = sync(cove, work, "in", "--sandbox", box)
    c.ok(got.returncode == 2 and "No space left" in got.err, "a full disk of the sandbox: exit 2", got)
    os.unlink(work + "/big")
    got = sync(cove, work, "in", "--sandbox", box)
    c.ok(got.returncode == 0 and cove.run(box, "cat /workspace/a; ls /workspace")["stdout"] == "base\na\n", "the next sync in completes it", got)
    cove.request("DELETE", "/v1/sandboxes/%s?force=true" % box)
    run(cove, work, "true")
    subprocess.run(["mount", "--bind", work, work], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", work], check=True)
    try:
        got = run(cove, work, "echo kept > kept")
        c.ok(got.returncode == 2 and "Read-only file system" in got.err and "internal" not in got.err, "a worktree that is read-only: exit 2", got)
    finally:
        subprocess.run(["umount", work], check=True)
    got = sync(cove, work, "out")
    c.ok(got.returncode == 0 and read(work, "kept") == "kept\n", "and sync out brings it when it is not", got)


def repositories(cove):
    work = repository("rebase")
    git(work, "checkout", "-q", "-b", "topic")
    put(work + "/a", "topic\n")
    commit(work, "topic")
    git(work, "checkout", "-q", "main")
    put(work + "/a", "main\n")
    commit(work, "main")
    git(work, "rebase", "topic", check=False)
    state, text = git(work, "status"), read(work, "a")
    got = run(cove, work, "cat a; sed -i '/^[<=>]/d' a")
    c.ok(os.path.isdir(work + "/.git/rebase-merge") and "<<<<<<<" in text and got.returncode == 0 and got.text == text, "a rebase in progress travels as it is on disk", got)
    c.ok(read(work, "a") == "topic\nmain\n" and git(work, "status") == state, "and comes back without a change of its state", read(work, "a"))
    git(work, "add", "a")
    git(work, "rebase", "--continue")
    c.ok(not os.path.isdir(work + "/.git/rebase-merge") and git(work, "log", "-1", "--format=%s") == "main\n", "which goes on here")
    inner, work = repository("inner"), repository("outer")
    git(work, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "module")
    put(work + "/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    put(work + "/asset.bin", POINTER)
    git(work, "-c", "filter.lfs.clean=cat", "add", "-A")
    git(work, "commit", "-q", "-m", "module")
    got = run(cove, work, "cat module/a asset.bin; ls -A module; echo more >> module/a")
    c.ok(got.returncode == 0 and got.text == "base\n" + POINTER + "a\n", "a submodule without its .git, and an LFS pointer, travel as they are on disk", got)
    c.ok("module/.git" in " ".join(marks(got, "nested_repository")), "which is told", got)
    c.ok(read(work, "module/a") == "base\nmore\n" and read(work, "asset.bin") == POINTER and os.path.exists(work + "/module/.git"),
         "and the submodule is one afterwards")


def configuration(cove):
    work, ran = repository("config"), os.path.join(HOME, "ran")
    put(HOME + "/tool", "#!/bin/sh\necho \"$0 $*\" >> %s\ncat\n" % ran, 0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external", "diff.x.textconv", "filter.x.clean", "filter.x.smudge",
                "filter.x.process", "credential.helper", "core.gitProxy", "core.askPass", "gpg.program", "alias.status"):
        git(work, "config", key, ("!" if key.startswith(("credential", "alias")) else "") + HOME + "/tool")
    put(work + "/.gitattributes", "* filter=x diff=x\n")
    for hook in ("pre-commit", "post-commit", "post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman", "pre-push", "post-merge"):
        put(work + "/.git/hooks/" + hook, "#!/bin/sh\necho %s >> %s\n" % (hook, ran), 0o755)
    put(work + "/a", "changed\n")
    got = run(cove, work, "cat a; echo box >> a; git add -A; git -c user.name=a -c user.email=a@a commit -q -m x; "
              "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch %s\\n' > .git/hooks/post-checkout; git config --list; ls .git/hooks" % ran)
    c.ok(got.returncode == 0 and got.text.startswith("changed\n") and read(work, "a") == "changed\nbox\n" and not os.path.exists(ran),
         "filters, hooks, fsmonitor, credential helper, ssh command: none is run", got, os.path.exists(ran) and read(ran))
    c.ok(HOME not in got.text, "and none travels", got.text)
    c.ok("touch" not in read(work, ".git/hooks/post-checkout"), "a hook that the agent wrote stays there")
    for verb in (("status",), ("in",), ("out",)):
        sync(cove, work, *verb)
    c.ok(not os.path.exists(ran), "nor by sync status, in and out")


def main():
    cove = c.Cove()
    try:
        special(cove)
        disks(cove)
        repositories(cove)
        configuration(cove)
    finally:
        cove.close()
        shutil.rmtree(HOME, ignore_errors=True)
    c.done()


main()
