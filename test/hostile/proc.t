#!/usr/bin/env python3
"""Group P, I: what /proc, /sys and /dev tell and take, and what a box can learn of others."""
import os
import re
import subprocess

from rows import c, play, row


@row("P-01", "the kernel's secrets are empty or closed")
def secrets(stage):
    names = ("kcore kallsyms kmsg keys key-users timer_list slabinfo config.gz iomem ioports cmdline "
             "modules vmallocinfo pagetypeinfo kpagecount kpageflags sched_debug partitions diskstats "
             "interrupts consoles cgroups zoneinfo").split()
    script = "for f in %s; do [ -e /proc/$f ] && echo $f $(timeout 2 head -c 4096 /proc/$f 2>/dev/null | wc -c); done; true" % " ".join(names)
    got = dict(line.split() for line in stage.cove.out(stage.box(), script).splitlines())
    c.ok(got and set(got.values()) == {"0"}, "P-01: nothing can be read", got)
    stage.control(["bash", "-c", "head -c 10 /proc/cmdline | wc -c"], lambda r: int(r.stdout) > 0)


@row("P-03", "no kernel setting can be written")
def sysctls(stage):
    box = stage.box()
    got = stage.cove.out(box, "find /proc -type f -not -path '/proc/[0-9]*' -not -path '/proc/self/*'"
                              " -not -path '/proc/thread-self/*' -writable 2>/dev/null")
    c.same(got, "", "P-03: no writable file outside of the processes' own")
    program = r'''
import os
opened = []
for top, dirs, files in os.walk("/proc"):
    if top == "/proc":
        dirs[:] = [d for d in dirs if not d.isdigit() and d not in ("self", "thread-self")]
    for name in files:
        path = os.path.join(top, name)
        if os.path.islink(path):
            continue
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            opened.append(path)
        except OSError:
            pass
print(opened)
'''
    c.same(stage.python(box, program)["stdout"], "[]\n", "P-03: none opens for writing either")
    stage.control(["bash", "-c", "test -w /proc/sys/kernel/panic && echo open"],
                  lambda r: r.stdout == "open\n")


@row("P-05", "no mask can be lifted")
def masks(stage):
    box = stage.box()
    answer = stage.cove.run(box, "for t in /proc/kcore /proc/sys /proc/keys /sys /dev; do"
                                 " umount -l $t && echo lifted $t; mount -o remount,rw $t && echo rw $t;"
                                 " mount --bind /tmp $t && echo bound $t; done; true")
    c.same(answer["stdout"], "", "P-05: neither unmounted, nor remounted, nor covered")
    stage.control(["bash", "-c", "mount --bind /dev/null /proc/keys && umount -l /proc/keys && echo lifted"],
                  lambda r: r.stdout == "lifted\n")


@row("P-07", "no path of the host is shown")
def paths(stage):
    box = stage.box()
    got = stage.cove.out(box, "cat /proc/self/mountinfo /proc/self/mounts /proc/1/cmdline;"
                              " readlink /proc/self/fd/* /proc/self/cwd /proc/self/root; cat /proc/self/environ")
    words = [stage.cove.data, os.path.dirname(stage.cove.data), "/var/lib/cove", stage.cove.binary]
    c.ok(not [w for w in words if w in got], "P-07: no state directory in sight", got)
    c.ok("cove-init" in got, "P-07: pid 1 has its constant name")
    c.ok(re.search(r"pipe:\[", got), "P-07: stdio is pipes", got)
    stage.control(["cat", "/proc/self/mountinfo"], lambda r: "/dev/" in r.stdout)


@row("P-09", "only the box's own processes exist")
def others(stage):
    box = stage.box()
    got = stage.cove.out(box, "ls -d /proc/[0-9]* | wc -l; for p in $(seq 2 400); do"
                              " kill -0 $p 2>/dev/null && echo $p; done | wc -l")
    listed, alive = map(int, got.split())
    c.ok(listed <= 5 and alive <= 4, "P-09: a handful of own pids", got)
    stage.control(["bash", "-c", "ls -d /proc/[0-9]* | wc -l"], lambda r: int(r.stdout) > 5,
                  namespaces=("-u",))


@row("P-11", "/dev holds exactly six devices")
def devices(stage):
    box = stage.box()
    got = stage.cove.out(box, "find /dev -type c -o -type b | sort | grep -v '^/dev/pts/[0-9]'").split()
    c.same(got, ["/dev/full", "/dev/null", "/dev/pts/ptmx", "/dev/random", "/dev/tty",
                 "/dev/urandom", "/dev/zero"], "P-11: the list is the contract's")
    answer = stage.cove.run(box, "head -c 4 /dev/zero | od -An -tx1; echo x > /dev/null && echo ok;"
                                 " echo x > /dev/full; ls -l /dev/fd /dev/stdin /dev/ptmx > /dev/null && echo links")
    c.ok("00 00 00 00" in answer["stdout"] and "links" in answer["stdout"], "P-11: and they work", answer)
    stage.control(["bash", "-c", "find /dev -type c -o -type b | wc -l"], lambda r: int(r.stdout) > 7)


@row("P-14", "no kernel log")
def klog(stage):
    box = stage.box()
    answer = stage.cove.run(box, "dmesg; test -e /dev/kmsg && echo there")
    c.same(answer["stdout"], "", "P-14: neither by dmesg nor by a device")
    stage.control(["dmesg"], lambda r: r.returncode == 0)


@row("I-01", "a box learns nothing of its neighbours")
def neighbours(stage):
    other = stage.box(name="secret-neighbour", labels={"project": "hidden-label"})
    box = stage.box()
    got = stage.cove.out(box, "cat /proc/self/mountinfo /proc/mounts /proc/loadavg /proc/meminfo"
                              " /proc/pressure/* /proc/diskstats /proc/net/unix /proc/net/tcp"
                              " /proc/self/cgroup /proc/locks 2>/dev/null; df -a; hostname; env; ps aux")
    for word in ("secret-neighbour", "hidden-label", other["id"], other["shortId"]):
        c.ok(word not in got, "I-01: no trace of the neighbour's " + word[:6], got[:2000])
    meminfo = stage.cove.out(box, "grep MemTotal /proc/meminfo").split()
    c.same(int(meminfo[1]), 512 * 1024, "I-01: memory is the box's own limit")
    loads = stage.cove.out(box, "cut -d' ' -f1-3 /proc/loadavg")
    c.same(loads, "0.00 0.00 0.00\n", "I-01: no load of others")
    stage.control(["cat", "/proc/meminfo"], lambda r: "MemTotal" in r.stdout)


@row("I-03", "a new box finds no data of an old one")
def recycled(stage):
    secret = "covesecret%d" % os.getpid()
    first = stage.cove.create()
    stage.cove.run(first, "for i in $(seq 2000); do echo %s; done > /workspace/f; cp /workspace/f /dev/shm/f; sync" % secret)
    stage.cove.delete(first)
    second = stage.box()
    got = stage.cove.out(second, "find / -xdev -type f -newer /proc/1/stat 2>/dev/null | head; ls /dev/shm /run /workspace;"
                                 " fallocate -l 50M /workspace/big && grep -c %s /workspace/big" % secret)
    c.ok(secret not in got and not re.search(r"^[1-9]\d*$", got, re.M), "I-03: zeros only", got)
    stage.no_control("the row compares a new box with an old one; nothing is attacked")


@row("I-05", "no secret of the operator is in a box")
def operator(stage):
    box = stage.box()
    got = stage.cove.out(box, "grep -rl 'PRIVATE KEY' /etc /root /opt /home /var 2>/dev/null; "
                              "ls -A /root /home/agent; cat /etc/shadow | grep -v ':[*!]' ; ls /etc/ssh 2>/dev/null")
    c.ok("PRIVATE" not in got and "id_" not in got and "$" not in got, "I-05: no keys, no hashes", got)
    env = sorted(line.split("=")[0] for line in stage.cove.out(box, ["env"]).splitlines())
    c.same(env, ["HOME", "JAVA_TOOL_OPTIONS", "LANG", "PATH"], "I-05: only documented variables")
    stage.control(["cat", "/etc/shadow"], lambda r: "root:" in r.stdout)


@row("N-12", "the host's services cannot be reached, nor the API")
def host_services(stage):
    box = stage.box()
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    program = "PORT = %d\nADDRESSES = %r\n" % (stage.cove.port, ["127.0.0.1", "::1", "0.0.0.0"] + addresses) + r'''
import errno, socket
for a in ADDRESSES:
    s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET)
    s.settimeout(2)
    try:
        s.connect((a, PORT)); print("REACHED", a)
    except OSError as e:
        print("refused")
'''
    got = stage.python(box, program)["stdout"]
    c.ok("REACHED" not in got and "refused" in got, "N-12: every address refuses", got)
    c.same(stage.cove.out(box, "cat /proc/net/dev | grep -c :"), "1\n", "N-12: lo is the only device")
    stage.control_python(program, lambda r: "REACHED 127.0.0.1" in r.stdout, namespaces=("-u",))


@row("N-14", "the box's network cannot be changed from inside")
def netns(stage):
    box = stage.box()
    if stage.cove.run(box, "command -v ip")["exitCode"]:
        stage.no_control("no ip program in the template")
        return c.skip("N-14: ip is refused", "iproute2 is not on this host")
    answer = stage.cove.run(box, "ip link set lo down && echo down; ip addr add 10.9.9.9/32 dev lo && echo added;"
                                 " ip link add d0 type dummy && echo made; ip route add default dev lo && echo routed; true")
    c.same(answer["stdout"], "", "N-14: every change is refused")
    stage.control(["bash", "-c", "ip link set lo up && ip addr add 10.9.9.9/32 dev lo && echo added"],
                  lambda r: r.stdout == "added\n")


@row("N-18", "boxes do not share a network or abstract sockets")
def between(stage):
    a, b = stage.box(), stage.box()
    server = ("import socket, threading, time\n"
              "t = socket.socket(); t.bind(('0.0.0.0', 9000)); t.listen()\n"
              "u = socket.socket(socket.AF_UNIX); u.bind('\\0abs'); u.listen()\n"
              "print('up', flush=True); time.sleep(3)\n")
    client = ("import socket\n"
              "for family, to in ((2, ('127.0.0.1', 9000)), (1, '\\0abs')):\n"
              "    s = socket.socket(family)\n"
              "    try:\n        s.connect(to); print('REACHED')\n"
              "    except OSError: print('refused')\n")
    import threading
    holder = threading.Thread(target=lambda: stage.python(a, server))
    holder.start()
    c.until(lambda: "REACHED" in stage.python(a, client)["stdout"], 3)
    own = stage.python(a, client)["stdout"]
    other = stage.python(b, client)["stdout"]
    holder.join()
    c.same(own, "REACHED\nREACHED\n", "N-18: within a box both work (this is the control)")
    c.same(other, "refused\nrefused\n", "N-18: from another box neither does")
    stage.controlled = True


play()
