#!/usr/bin/env python3
"""The tools that agents use, unmodified, in a default box of the host template, offline."""
from cove import Cove, done, need_root, note, ok, same, skip

need_root()
cove = Cove()
box = cove.create(network={"mode": "off"})


def has(program):
    return cove.run(box, "command -v " + program)["exitCode"] == 0


def works(program, script, want, sentence, **fields):
    if not has(program):
        return skip(sentence, program + " is not installed on this host")
    answer = cove.run(box, script, **fields)
    return ok(answer["exitCode"] == 0 and want in answer["stdout"], sentence, answer)


works("python3", "python3 -c 'import ssl, sqlite3, json, ctypes, multiprocessing as m; print(6*7)'", "42", "python3 and its libraries")
works("python3", "python3 -m venv --without-pip /workspace/v && /workspace/v/bin/python -c 'print(1)'", "1", "python3 makes a virtual environment")
works("python3", "python3 -c \"import socket as s; a=s.socket(); a.bind(('127.0.0.1', 80)); a.listen(); b=s.create_connection(('127.0.0.1', 80)); print('up')\"",
      "up", "a server on port 80 of the box's loopback")
works("node", "node -e 'console.log([1,2,3].map(x => x * 2).join())'", "2,4,6", "node")
works("node", "node -e 'const {Worker, isMainThread} = require(\"worker_threads\"); console.log(isMainThread)'", "true", "node has threads")
works("npm", "npm --version && mkdir -p /workspace/n && cd /workspace/n && npm init -y >/dev/null && npm pkg get name", '"n"', "npm, offline")
works("git", "cd /workspace && git init -q r && cd r && git config user.email a@b && git config user.name a && echo x > f && git add f &&"
             " git commit -qm one && git clone -q . ../r2 && git -C ../r2 log --format=%s", "one", "git commits and clones")
works("gcc", "cd /workspace && printf '#include <stdio.h>\\nint main(void){puts(\"built\");}' > a.c && gcc -O2 a.c -o a && ./a", "built", "gcc builds a program")
works("make", "cd /workspace && printf 'all:\\n\\t@echo made\\n' > Makefile && make", "made", "make")
works("dpkg", "dpkg -s bash | grep Status", "install ok installed", "dpkg knows what is there")
works("dpkg-deb", "mkdir -p /workspace/d/DEBIAN /workspace/d/usr/bin && printf 'Package: hello-box\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: x\\n'"
                  " > /workspace/d/DEBIAN/control && printf '#!/bin/sh\\necho hello-box\\n' > /workspace/d/usr/bin/hello-box && chmod 755 /workspace/d/usr/bin/hello-box &&"
                  " dpkg-deb -b /workspace/d /workspace/h.deb >/dev/null && dpkg -i /workspace/h.deb >/dev/null && hello-box", "hello-box", "dpkg installs a package")
works("apt-get", "apt-get --version | head -1 && apt-get -s install bash 2>&1 | tail -1", "", "apt-get looks at what is installed")
works("apt-get", "apt-get install -y /workspace/h.deb 2>&1 | tail -2; apt-get remove -y hello-box >/dev/null && ! command -v hello-box && echo removed", "removed",
      "apt-get removes it again")
works("useradd", "useradd -m somebody && su somebody -c 'id -un'", "somebody", "useradd and su")
works("perl", "perl -e 'print 6*7'", "42", "perl")
works("tar", "cd /workspace && mkdir -p t && echo x > t/f && chown 1000:1000 t/f && tar czf t.tgz t && rm -r t && tar xzf t.tgz && stat -c %u t/f", "1000", "tar keeps owners")
works("strace", "strace -o /dev/null true && echo traced", "traced", "strace")
works("gdb", "gdb -batch -ex run -ex quit true 2>&1 | tail -3", "exited normally", "gdb")
for large in ("java -version", "cargo --version"):  # too large to be brought along for one line
    if has(large.split()[0]):
        works("sh", large + " && echo started", "started", large.split()[0] + " starts")
    else:
        note(large.split()[0] + " is not on this host")
works("bash", "echo $((6*7)); ulimit -u; nproc; free -m | awk '/Mem/{print $2}'", "512", "free shows the box's own memory")
# Every address may be the box's own, so none of them answers: else all the world would seem to be there.
works("ping", "ping -c 1 -W 1 127.0.0.1 | grep -c '1 packets transmitted, 0 received'", "1", "ping works, and is not answered")
works("bash", "mkdir -p /tmp/x /var/tmp/y && touch /root/z /home/agent/w && df / /tmp >/dev/null && mktemp && echo writable", "writable", "the usual directories are writable")
works("bash", "script -qc 'tty' /dev/null", "/dev/pts/", "a terminal can be made")
cove.delete(box)
same(cove.stop(), 0, "cove stops cleanly")
cove.close()
done()
