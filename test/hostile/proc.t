#!/usr/bin/env python3
"""Group P, I: what /proc, /sys and /dev tell and take, and what a box can learn of others."""
import json
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

    def attack(stage):
        return dict(line.split() for line in stage.cove.out(stage.box(), script).splitlines())
    stage.control_weak("masks", attack, lambda got: all(int(got[f]) > 0 for f in ("cmdline", "interrupts", "zoneinfo")))
    got = attack(stage)
    c.ok(got and set(got.values()) == {"0"}, "P-01: nothing can be read", got)


@row("I-01", "a box learns nothing of its neighbours")
def neighbours(stage):
    def host(stage):
        box = stage.box()
        return (int(stage.cove.out(box, "grep MemTotal /proc/meminfo").split()[1]),
                stage.cove.out(box, "cut -d' ' -f1-3 /proc/loadavg"))
    stage.control_weak("masks", host, lambda got: got[0] > 512 * 1024 and got[1] != "0.00 0.00 0.00\n")
    c.same(host(stage), (512 * 1024, "0.00 0.00 0.00\n"), "I-01: memory is the box's own limit, and no load is shown")

    def trace(stage):
        """Which words of a neighbour a box finds, and where it looked."""
        other = stage.box(name="secret-neighbour", labels={"project": "hidden-label"})
        got = stage.cove.out(stage.box(), "cat /proc/self/mountinfo /proc/mounts /proc/loadavg /proc/meminfo"
                                          " /proc/pressure/* /proc/diskstats /proc/net/unix /proc/net/tcp"
                                          " /proc/[0-9]*/cgroup /proc/locks 2>/dev/null; df -a; hostname; env; ps aux")
        return [word for word in ("secret-neighbour", "hidden-label", other["id"], other["shortId"]) if word in got], got
    stage.control_weak("pidns", trace, lambda got: got[0])  # its cgroup has the neighbour's id as its name
    found, got = trace(stage)
    c.ok(not found, "I-01: no trace of the neighbour", found, got[:2000])


@row("P-09", "only the box's own processes exist")
def others(stage):
    def attack(stage):
        got = stage.cove.out(stage.box(), "ls -d /proc/[0-9]* | wc -l; for p in $(seq 2 400); do"
                                          " kill -0 $p 2>/dev/null && echo $p; done | wc -l;"
                                          " cat /proc/%d/cmdline 2>/dev/null | tr -d '\\0' | grep -c serve" % stage.cove.process.pid)
        return list(map(int, got.split()))
    stage.control_weak("pidns", attack, lambda got: got[0] > 5 and got[2] == 1)  # cove itself is in sight
    listed, alive, cove = attack(stage)
    c.ok(listed <= 5 and alive <= 4 and not cove, "P-09: a handful of own pids", listed, alive, cove)


@row("P-03", "no kernel setting can be written")
def sysctls(stage):
    got = stage.cove.out(stage.box(), "find /proc -type f -not -path '/proc/[0-9]*' -not -path '/proc/self/*'"
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

    def attack(stage):
        return json.loads(stage.python(stage.box(), program)["stdout"].replace("'", '"'))

    def settings(opened):
        return {path for path in opened if path.startswith(("/proc/sys/", "/proc/irq/", "/proc/bus/"))}
    stage.control_weak("readonly,userns", attack, lambda opened: settings(opened) >= {
        "/proc/sys/kernel/panic", "/proc/sys/kernel/core_pattern", "/proc/irq/default_smp_affinity"})
    stage.depth("userns", attack, lambda opened: not settings(opened))
    # Of that one the kernel asks for capabilities when it is written, not before.
    stage.depth("readonly", attack, lambda opened: settings(opened) <= {"/proc/sys/kernel/ns_last_pid"})
    c.same(attack(stage), [], "P-03: none opens for writing either")


@row("P-05", "no mask can be lifted")
def masks(stage):
    def attack(stage):
        return stage.cove.out(stage.box(), "for t in /proc/cmdline /proc/sys /proc/keys /sys /dev; do"
                                           " mount -o remount,rw $t && echo rw $t; umount -l $t && echo lifted $t;"
                                           " mount --bind /tmp $t && echo bound $t; done; true")
    stage.control_weak("seccomp,capabilities,userns", attack, lambda done: all(
        word in done for word in ("lifted /proc/cmdline\n", "lifted /proc/sys\n", "bound /proc/sys\n")))
    stage.depth("seccomp,capabilities", attack, lambda done: done == "")  # with every capability of its own
    c.same(attack(stage), "", "P-05: neither unmounted, nor remounted, nor covered")


@row("P-16", "the file API serves neither /proc nor /sys: nobody learns how its workers' memory is laid out")
def file_api(stage):
    def ask(stage):
        box = stage.box()
        at = "/v1/sandboxes/%s/api/" % box["id"]
        return {
            "read": stage.cove.post(at + "read", {"path": "/proc/self/maps"}),
            "body": stage.cove.get(at + "files/proc/self/maps"),
            "link": (stage.cove.run(box, "ln -s /proc/self /workspace/me"), stage.cove.post(at + "read", {"path": "/workspace/me/maps"}))[1],
            "sys": stage.cove.post(at + "read", {"path": "/sys/kernel/notes"}),
            "list": stage.cove.post(at + "list-files", {"path": "/proc/self"}),
            "own": stage.cove.post(at + "read", {"path": "/etc/hostname"}),
        }
    stage.control_weak("proc_files", ask, lambda got: got["read"].status == 200 and b"[stack]" in got["read"].body)
    got = ask(stage)
    stage.twin(got.pop("own").status == 200, "a file of the box's own is read", got)
    c.ok(all(reply.status in (403, 404) for reply in got.values()), "P-16: all are refused", got)


@row("P-14", "no kernel log")
def klog(stage):
    def attack(stage):
        return stage.cove.run(stage.box(), "test -e /dev/kmsg && echo there; dmesg -S | head -c 1000")["stdout"]
    # Where dmesg_restrict is set, the kernel asks for the host's root besides.
    restricted = open("/proc/sys/kernel/dmesg_restrict").read() != "0\n"
    if subprocess.run("dmesg -S | head -c 1 | wc -c", shell=True, capture_output=True, text=True).stdout.strip() == "1":
        stage.control_weak("seccomp,capabilities,userns" if restricted else "seccomp", attack, lambda out: out)
    else:
        stage.no_control("the log of this kernel is empty")
    c.same(attack(stage), "", "P-14: neither by dmesg nor by a device")


@row("N-14", "the box's network cannot be changed from inside")
def netns(stage):
    box = stage.box()
    if stage.cove.run(box, "command -v ip")["exitCode"]:
        stage.controlled = True
        return c.skip("N-14: ip is refused", "iproute2 is not on this host")

    def attack(stage):
        return stage.cove.out(stage.box(), "ip addr add 10.9.9.9/32 dev lo && echo added; ip link add d0 type dummy && echo made;"
                                           " ip route add default dev lo && echo routed; ip link set lo down && echo down; true")
    stage.control_weak("seccomp,capabilities,userns", attack, lambda done: "added\n" in done and "down\n" in done)
    stage.depth("seccomp,capabilities", attack, lambda done: done == "")
    stage.depth("seccomp,userns", attack, lambda done: done == "")
    c.same(attack(stage), "", "N-14: every change is refused")


@row("P-07", "no path of the host is shown")
def paths(stage):
    def attack(stage):
        got = stage.cove.out(stage.box(), "cat /proc/self/mountinfo /proc/self/mounts /proc/1/cmdline;"
                                          " readlink /proc/self/fd/* /proc/self/cwd /proc/self/root; cat /proc/self/environ")
        words = ["/".join(stage.cove.data.split("/")[-2:]), "/var/lib/cove", stage.cove.binary]
        return [w for w in words if w in got], got
    # A layer that is mounted as it is tells where it lies; the names within an overlay are relative.
    stage.control_weak("overlay", attack, lambda got: got[0], fresh=True)
    seen, got = attack(stage)
    c.ok(not seen, "P-07: no state directory in sight", seen, got)
    c.ok("cove-init" in got, "P-07: pid 1 has its constant name")
    c.ok(re.search(r"pipe:\[", got), "P-07: stdio is pipes", got)


@row("P-11", "/dev holds exactly six devices")
def devices(stage):
    def attack(stage):
        return stage.cove.out(stage.box(), "find /dev -type c -o -type b | sort | grep -v '^/dev/pts/[0-9]'").split()
    host = subprocess.run(["find", "/dev", "-type", "c", "-o", "-type", "b"], capture_output=True, text=True).stdout.split()
    foreign = [d for d in host if d.count("/") == 2 and d[5:] not in "null zero full random urandom tty ptmx".split()]
    stage.control_weak("devices", attack, lambda got: foreign and set(foreign) <= set(got))
    box = stage.box()
    got = attack(stage)
    c.same(got, ["/dev/full", "/dev/null", "/dev/pts/ptmx", "/dev/random", "/dev/tty",
                 "/dev/urandom", "/dev/zero"], "P-11: the list is that of docs/ISOLATION.md DEV-1")
    answer = stage.cove.run(box, "head -c 4 /dev/zero | od -An -tx1; echo x > /dev/null && echo ok;"
                                 " echo x > /dev/full; ls -l /dev/fd /dev/stdin /dev/ptmx > /dev/null && echo links")
    c.ok("00 00 00 00" in answer["stdout"] and "links" in answer["stdout"], "P-11: and they work", answer)


@row("I-03", "a new box finds no data of an old one")
def recycled(stage):
    secret = "covesecret%d" % os.getpid()
    first = stage.cove.create()
    found = stage.cove.out(first, "for i in $(seq 2000); do echo %s; done > /workspace/f; cp /workspace/f /dev/shm/f; sync; grep -c %s /workspace/f" %
                           (secret, secret))
    c.same(found, "2000\n", "I-03: where it is, the search finds it")
    stage.cove.delete(first)
    second = stage.box()
    got = stage.cove.out(second, "find / -xdev -type f -newer /proc/1/stat 2>/dev/null | head; ls /dev/shm /run /workspace;"
                                 " fallocate -l 50M /workspace/big && grep -c %s /workspace/big" % secret)
    c.ok(secret not in got and not re.search(r"^[1-9]\d*$", got, re.M), "I-03: zeros only", got)
    stage.no_control("every disk is made for its box, empty: there is no way to hand out a used one that could be left open")


@row("I-05", "no secret of the operator is in a box")
def operator(stage):
    # An /etc of the test's own, for a cove of each build: a file that no package owns, one of the names that are
    # never taken, a key where certificates are, and a hash. None of the host's own secrets is touched.
    script = r"""
mount --make-rprivate /
work=$(mktemp -d) && mount -t tmpfs none $work
cp -P /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache $work/ 2>/dev/null || true
mkdir -p $work/ssh $work/ssl/certs
echo sentinel-unowned > $work/private.conf
echo sentinel-denied > $work/ssh/host_key
echo '-----BEGIN PRIVATE KEY----- sentinel-key' > $work/ssl/certs/server.pem
echo 'root:$6$sentinel-hash:19000:0:99999:7:::' > $work/crypt.conf
echo certificate > $work/ssl/certs/good.pem
chmod 644 $work/*.conf $work/ssh/* $work/ssl/certs/*
mount --move $work /etc && rmdir $work
""".strip()

    def attack(weak):
        return sorted(set(re.findall("sentinel-\\w+|certificate", weak.cove.out(weak.box(), "grep -rhE 'sentinel|certificate' /etc"))))
    every = ["certificate", "sentinel-denied", "sentinel-hash", "sentinel-key", "sentinel-unowned"]
    stage.control_weak("etc", attack, lambda found: found == every, before=script, fresh=True)
    with stage.weakened("", before=script, fresh=True, binary=stage.cove.binary) as strong:
        c.same(attack(strong), ["certificate"], "I-05: of all this only what is public is shown")
    box = stage.box()
    got = stage.cove.out(box, "grep -rl 'PRIVATE KEY' /etc /root /opt /home /var 2>/dev/null; "
                              "ls -A /root /home/agent; cat /etc/shadow | grep -v ':[*!]' ; ls /etc/ssh 2>/dev/null")
    c.ok("PRIVATE" not in got and "id_" not in got and "$" not in got, "I-05: no keys, no hashes", got)
    env = sorted(line.split("=")[0] for line in stage.cove.out(box, ["env"]).splitlines())
    c.same(env, ["HOME", "JAVA_TOOL_OPTIONS", "LANG", "PATH"], "I-05: only documented variables")


@row("N-12", "without a network the host's services cannot be reached, nor the API")
def host_services(stage):
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    program = "PORT = %d\nADDRESSES = %r\n" + r'''
import errno, socket
for a in ADDRESSES:
    s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET)
    s.settimeout(2)
    try:
        s.connect((a, PORT)); print("REACHED", a)
    except OSError as e:
        print("refused")
'''

    def attack(stage, where=("127.0.0.1", "::1", "0.0.0.0")):
        return stage.cove.run(stage.box(network={"mode": "off"}), ["python3", "-I", "-"], stdin=program.replace("%d", str(stage.cove.port)).replace("%r", repr(list(where))))["stdout"]
    # That cove has a network of its own, with nothing but loopback: what a weak box reaches is its API alone.
    stage.control_weak("netns", attack, lambda got: "REACHED 127.0.0.1" in got and "REACHED 0.0.0.0" in got, apart=True)
    got = attack(stage, ["127.0.0.1", "::1", "0.0.0.0"] + addresses)
    c.ok("REACHED" not in got and "refused" in got, "N-12: every address refuses", got)
    c.same(stage.cove.out(stage.box(), "cat /proc/net/dev | grep -c :"), "1\n", "N-12: lo is the only device")


@row("N-18", "boxes do not share a network or abstract sockets")
def between(stage):
    server = ("import socket\n"
              "t = socket.socket(); t.bind(('0.0.0.0', 9000)); t.listen()\n"
              "u = socket.socket(socket.AF_UNIX); u.bind('\\0abs'); u.listen()\n"
              "t.settimeout(60)\n"
              "while t.accept()[0].recv(3) != b'bye': pass\n")
    end = "import socket; socket.create_connection(('127.0.0.1', 9000)).send(b'bye')"
    client = ("import socket\n"
              "for family, to in ((2, ('127.0.0.1', 9000)), (1, '\\0abs')):\n"
              "    s = socket.socket(family)\n"
              "    try:\n        s.connect(to); print('REACHED')\n"
              "    except OSError: print('refused')\n")
    import threading

    def attack(stage):
        a, b = stage.box(), stage.box()
        holder = threading.Thread(target=lambda: stage.python(a, server))
        holder.start()
        c.until(lambda: "REACHED\nREACHED" in stage.python(a, client)["stdout"])
        own, other = stage.python(a, client)["stdout"], stage.python(b, client)["stdout"]
        stage.python(a, end)
        holder.join()
        return own, other
    stage.control_weak("netns", attack, lambda got: got[1] == "REACHED\nREACHED\n", apart=True)
    own, other = attack(stage)
    c.same(own, "REACHED\nREACHED\n", "N-18: within a box both work")
    c.same(other, "refused\nrefused\n", "N-18: from another box neither does")


play()
