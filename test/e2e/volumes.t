#!/usr/bin/env python3
"""Volumes on every disk driver: shared, owned by the sandbox's users, kept over stops, kills and restarts, refused where they must be,
and gone when they are deleted."""
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

CUT = (OSError, ValueError, KeyError, RuntimeError, c.http.client.HTTPException)


def at(box):
    return "/v1/sandboxes/" + box["id"]


def mount(name, path="/data", **more):
    return dict(name=name, path=path, **more)


def make(cove, name, **more):
    return cove.post("/v1/volumes", dict(name=name, **more))


def volume(cove, name):
    return cove.get("/v1/volumes/" + name)


def remove(cove, name):
    return cove.request("DELETE", "/v1/volumes/" + name)


def clean(cove, why):
    got = cove.get("/v1/verify").json
    c.ok(got["ok"], why, got)


def surely(ask, good, seconds=60):
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            last = ask()
            if good(last):
                return last
        except CUT as error:
            last = error
        time.sleep(0.05)
    return last


def basics(cove, word):
    reply = make(cove, "cache")
    got = reply.json
    c.same((reply.status, got["name"], got["state"], got["usedBy"], reply.headers["Location"]),
           (201, "cache", "ready", [], "/v1/volumes/cache"), word + ": a volume is made")
    c.ok(got["id"].startswith("vol-") and len(got["id"]) == 52, word + ": with an id", got)
    c.same(got["sizeMB"], None if word == "directory" else 2048, word + ": its limit is the default, or said to be none")
    c.same(make(cove, "cache").json["reason"], "volume_exists", word + ": a name is taken once")
    one = cove.create(name="one", volumes=[mount("cache")])
    two = cove.create(volumes=[mount("cache", "/srv/shared/deep"), ])
    c.same([one["volumes"][0][key] for key in ("id", "name", "path", "readOnly")], [got["id"], "cache", "/data", False],
           word + ": the sandbox shows it")
    c.same(cove.out(one, "stat -c '%a %u %g' /data"), "1777 0 0\n", word + ": every user may write to a new volume")
    cove.run(one, "echo hello >/data/f; mkdir /data/d; chown 1234:77 /data/d")
    c.same(cove.out(two, "cat /srv/shared/deep/f; stat -c '%u %g' /srv/shared/deep/f /srv/shared/deep/d"), "hello\n0 0\n1234 77\n",
           word + ": another sandbox reads it, with the same owners")
    cove.run(two, "echo own >/srv/shared/deep/n; chmod 600 /srv/shared/deep/n", user="nobody")
    c.same(cove.out(one, "stat -c '%U' /data/n; mv /data/n /data/d/m; cat /data/d/m"), "nobody\nown\n",
           word + ": a user owns what it writes, and rename works")
    c.same(cove.run(two, "echo x >/srv/shared/deep/f", user="nobody")["exitCode"], 1, word + ": users are kept apart within it")
    lock = "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.flock(f, fcntl.LOCK_EX|fcntl.LOCK_NB); print('locked', flush=True); "
    holder = cove.post(at(one) + "/api/process/start", {"command": "python3 -c \"%simport time; time.sleep(600)\" /data/lock" % lock}).json
    c.until(lambda: b"locked" in cove.get(at(one) + "/api/process/%s/logs" % holder["processId"]).body, 60)
    held = cove.run(two, "python3 -c \"%s\" /srv/shared/deep/lock" % lock)["exitCode"] == 1
    c.ok(held, word + ": a lock of one sandbox holds in the other", holder)
    cove.run(one, "cp /bin/sleep /data/suid; chmod 4755 /data/suid; ln -s /etc/passwd /data/link")
    options = cove.out(one, "grep ' /data ' /proc/self/mountinfo")
    c.ok(all(flag in options for flag in ("nosuid", "nodev")), word + ": mounted nosuid and nodev", options)
    note = options.split()[3]
    c.ok(note.endswith("/r/u") and (word == "directory" or cove.data not in options), word + ": of the host it shows no path", options)
    c.same(cove.run(one, "mknod /data/null c 1 3 && cat /data/null")["exitCode"] != 0, True, word + ": no device works in it")
    return one, two


def readonly(cove, word, one):
    box = cove.create(volumes=[mount("cache", "/ro", readOnly=True), mount("cache", "/part", subpath="d/new")])
    c.same(cove.out(box, "cat /ro/f; touch /ro/x 2>&1 | grep -c 'Read-only'; mount -o remount,rw /ro 2>/dev/null; "
                         "touch /ro/x 2>/dev/null || echo no"), "hello\n1\nno\n", word + ": a read-only volume stays read-only")
    cove.run(box, "echo part >/part/p")
    c.same(cove.out(one, "cat /data/d/new/p"), "part\n", word + ": a subpath is a directory of the volume, made if absent")
    c.same(cove.out(box, "ls /part; ls /part/../f 2>&1 | wc -l; grep -c ' /part ' /proc/self/mountinfo"), "p\n1\n1\n",
           word + ": and nothing above it")
    cove.delete(box)


def refusals(cove, word):
    def why(**spec):
        reply = cove.post("/v1/sandboxes", spec)
        return reply.status, reply.json.get("reason")

    c.same(why(volumes=[mount("none")]), (404, "no_volume"), word + ": a volume that does not exist is a 404")
    for path in ("/", "/proc", "/proc/self", "/sys/x", "/dev", "/run/x", "data", "/a/../b", "/a/./b", "/a//b", "/a/", "", "/" + "x" * 127, "/a\nb"):
        c.same(why(volumes=[mount("cache", path)]), (400, "bad_field"), word + ": not at %r" % path[:20])
    for path in ("..", "/d", "d/../..", "d//e", "."):
        c.same(why(volumes=[mount("cache", subpath=path)]), (400, "bad_field"), word + ": no subpath %r" % path)
    c.same(why(volumes=[mount("cache", "/a"), mount("cache", "/a/b")]), (400, "bad_field"), word + ": none within another")
    c.same(why(volumes=[mount("cache", "/m%d" % i) for i in range(17)]), (400, "bad_field"), word + ": not 17 of them")
    c.same(why(volumes=[dict(mount("cache"), other=1)]), (400, "unknown_field"), word + ": no other field")
    c.same(why(volumes=[mount("../x")]), (400, "bad_name"), word + ": no path as a name")
    for bad in ({"name": ""}, {"name": "A"}, {"name": "vol-" + "0" * 48}, {"name": "x", "sizeMB": 1}, {"name": "x", "mode": 1}, {}):
        c.same(cove.post("/v1/volumes", bad).status, 400, word + ": no volume %r" % list(bad.items()))
    many = cove.create(volumes=[mount("cache", "/m%d" % i) for i in range(16)])
    c.same(cove.out(many, "cat /m*/f | sort -u"), "hello\n", word + ": 16 work")
    cove.delete(many)


def links(cove, word, one):
    """A volume and a stopped sandbox hold what their commands wrote."""
    cove.run(one, "ln -s / /data/out; ln -s /etc /data/d/up; mkdir -p /data/real")
    reply = cove.post("/v1/sandboxes", {"volumes": [mount("cache", "/x", subpath="out")]})
    c.same((reply.status, reply.json["reason"]), (400, "bad_volume_path"), word + ": a link in a volume is no subpath")
    reply = cove.post("/v1/sandboxes", {"volumes": [mount("cache", "/x", subpath="d/up/skel")]})
    c.same((reply.status, reply.json["reason"]), (400, "bad_volume_path"), word + ": nor on the way to one")
    reply = cove.post("/v1/sandboxes", {"volumes": [mount("cache", "/etc/passwd")]})
    c.same((reply.status, reply.json["reason"]), (400, "bad_volume_path"), word + ": a file is no place for a volume")
    box = cove.create(volumes=[mount("cache", "/mnt/v")])
    cove.run(box, "echo disk >/mnt/own")
    cove.post(at(box) + "/stop")
    cove.post(at(box) + "/start")
    c.same(cove.out(box, "cat /mnt/v/f"), "hello\n", word + ": a started sandbox has its volume again")
    cove.delete(box)
    trap = cove.create(volumes=[mount("cache", "/mnt/v/w")])
    cove.delete(trap)
    trap = cove.create(name="trap", volumes=[mount("cache", "/opt/a/b")])
    cove.run(trap, "umount /opt/a/b 2>/dev/null; mv /opt/a /opt/z; ln -s /etc /opt/a; ls -ld /opt/a")
    cove.post(at(trap) + "/stop")
    reply = cove.post(at(trap) + "/start")
    c.ok(reply.status != 200 and reply.json["reason"] == "bad_volume_path", word + ": a link in the sandbox is not followed", reply)
    c.same(cove.out(one, "ls /data/passwd 2>&1 | wc -l; cat /data/f"), "1\nhello\n", word + ": and the volume is as it was")
    cove.delete(trap)


def kept(cove, word, one, two):
    volume_id = volume(cove, "cache").json["id"]
    c.same(remove(cove, "cache").json["reason"], "in_use", word + ": a volume in use is not deleted")
    c.same(sorted(volume(cove, "cache").json["usedBy"]), sorted([one["id"], two["id"]]), word + ": it says who uses it")
    cove.post(at(two) + "/stop")
    cove.delete(one)
    c.same(remove(cove, "cache").json["reason"], "in_use", word + ": nor one of a stopped sandbox")
    cove.post(at(two) + "/start")
    c.same(cove.out(two, "cat /srv/shared/deep/f"), "hello\n", word + ": it has outlived a sandbox, and a stop")
    for role in ("warden", "daemon"):
        os.kill(cove.children()[role], signal.SIGKILL)
        got = surely(lambda: cove.out(two, "cat /srv/shared/deep/f; echo %s >>/srv/shared/deep/log" % role), lambda out: out == "hello\n")
        c.same(got, "hello\n", word + ": a sandbox has it after a kill of the " + role)
        third = surely(lambda: cove.create(volumes=[mount("cache", "/again")]), lambda made: "id" in made)
        c.same(cove.out(third, "cat /again/f; tail -n 1 /again/log"), "hello\n%s\n" % role, word + ": and a new one shares it")
        cove.run(third, "echo %s back >/again/back" % role)
        c.same(cove.out(two, "cat /srv/shared/deep/back"), role + " back\n", word + ": both ways")
        cove.delete(third)
    cove.stop()
    if word == "ext4-image":  # as after a power cut
        image = os.path.join(cove.data, "boxes", volume_id + ".img")
        with open(image, "r+b") as file:
            file.seek(1024 + 0x3a)
            file.write(b"\0\0")
    cove.start()
    started = surely(lambda: cove.post(at(two) + "/start"), lambda reply: reply.status in (200, 409))
    c.ok(getattr(started, "status", 0) == 200, word + ": its sandbox starts" + (", after a repair" if word == "ext4-image" else ""), started)
    c.same(cove.out(two, "cat /srv/shared/deep/f"), "hello\n", word + ": it is there after a restart of cove")
    snap = cove.post(at(two) + "/snapshot", {"name": "without"})
    child = cove.create(snapshot="without")
    c.same((snap.status, cove.out(child, "ls -A /srv/shared/deep | wc -l")), (201, "0\n"), word + ": no snapshot has its files")
    cove.delete(child)
    cove.request("DELETE", "/v1/templates/without")
    clean(cove, word + ": verify is clean with volumes")
    cove.delete(two)


def sizes(cove, word):
    if word == "directory":
        c.same(make(cove, "small", sizeMB=16).json["reason"], "no_disk_limit", word + ": a size that cannot be kept is refused")
        return
    reply = make(cove, "small", sizeMB=16)
    box = cove.create(volumes=[mount("small"), mount("cache", "/other")])
    got = cove.run(box, "dd if=/dev/urandom of=/data/big bs=1M count=64 2>&1; stat -c %s /data/big; echo more >/other/after && echo ok")
    c.ok(int(got["stdout"].split("\n")[-3]) < 17 << 20 and got["stdout"].endswith("ok\n"), word + ": its size is kept, and fills nothing else", got)
    used = c.until(lambda: (volume(cove, "small").json["bytes"] or 0) > 8 << 20, 15, 0.3)
    c.ok(used, word + ": its bytes are counted", volume(cove, "small").json)
    cove.run(box, "rm /data/big; echo x >/data/y")
    cove.delete(box)
    c.same((reply.status, remove(cove, "small").status), (201, 204), word + ": it is deleted")


def tenants(cove):
    for name in ("acme", "beta"):
        cove.request("PUT", "/v1/tenants/" + name, {"host": True, "quota": {"diskMB": 3000}})
    keys = {name: cove.post("/v1/keys", {"tenant": name}).json["key"] for name in ("acme", "beta")}

    def ask(who, method, path, body=None):
        return cove.request(method, path, body, key=keys[who])

    made = ask("acme", "POST", "/v1/volumes", {"name": "mine", "sizeMB": 100}).json
    c.same(ask("beta", "POST", "/v1/volumes", {"name": "mine", "sizeMB": 100}).status, 201, "another tenant has the same name")
    ask("beta", "DELETE", "/v1/volumes/mine")
    for key in ("mine", made["id"]):
        for method in ("GET", "DELETE"):
            c.same(ask("beta", method, "/v1/volumes/" + key).status, 404, "%s of another tenant's volume by %s is a 404" % (method, key[:4]))
    c.same(ask("beta", "POST", "/v1/sandboxes", {"volumes": [mount("mine")]}).json["reason"], "no_volume", "nor can it be mounted")
    c.same(ask("beta", "POST", "/v1/sandboxes", {"volumes": [mount(made["id"])]}).json["reason"], "no_volume", "nor by its id")
    c.same(ask("beta", "GET", "/v1/volumes").json["items"], [], "nor is it listed")
    c.same(cove.get("/v1/tenants/acme").json["used"]["volumesMB"], 100, "it counts for its tenant")
    c.same(ask("acme", "POST", "/v1/volumes", {"name": "big", "sizeMB": 2950}).json["reason"], "quota", "a quota of disk covers volumes")
    reader = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read"]}).json["key"]
    c.same(cove.request("POST", "/v1/volumes", {"name": "no"}, key=reader).status, 403, "a key that may only read makes none")
    c.same(cove.request("DELETE", "/v1/volumes/mine", key=reader).status, 403, "nor deletes one")
    c.same(cove.request("DELETE", "/v1/tenants/acme").json["reason"], "tenant_in_use", "a tenant with volumes is not removed")
    c.same(cove.request("DELETE", "/v1/volumes/" + made["id"]).status, 204, "the operator deletes it by its id")
    names = [event["kind"] for event in cove.get("/v1/events?kind=volume").json["items"]]
    c.ok("volume.created" in names and "volume.deleted" in names, "there are events", names)
    audit = [row for row in cove.get("/v1/audit").json["items"] if "volumes" in str(row)]
    c.ok(audit, "and rows of the audit log")


def commands(cove):
    cli = c.Cli(cove.data)
    c.same((cli("volume", "create", "tool", "--size", "32m").out), b"tool\n", "cove volume create prints the name")
    c.same(cli("run", "--volume", "tool:/t", "--", "sh", "-c", "echo cli >/t/f").status, 0, "cove run --volume")
    c.same(cli("run", "--volume", "tool:/t:ro", "--", "sh", "-c", "cat /t/f; touch /t/g 2>/dev/null || echo no").out, b"cli\nno\n",
           "the next one has the file, and with :ro only reads")
    done = cli("create", "--volume", "tool:/t", "--name", "boxed")
    c.ok(done.status == 0, "cove create --volume", done)
    for bad in ("tool", "tool:/t:rw", ":/t", "tool:relative", "tool:/proc"):
        c.ok(cli("create", "--volume", bad).status == 2, "--volume %s is refused" % bad)
    out = cli("volume", "ls").out.decode()
    c.ok("tool" in out and "32 MB" in out, "cove volume ls lists it", out)
    c.ok(b'"usedBy"' in cli("volume", "inspect", "tool").out, "cove volume inspect prints it")
    c.same(cli("volume", "rm", "tool").status, 5, "cove volume rm refuses one in use")
    cli("rm", "boxed")
    c.same((cli("volume", "rm", "tool").status, cli("volume", "rm", "tool").status), (0, 3), "and removes it afterwards")


def meanwhile(cove, word):
    """What comes while a volume is being deleted waits for that, and is answered by what came of it."""
    def ask(call, *args):
        def run():
            said.append((call.__name__, call(cove, *args).status))
        thread = threading.Thread(target=run)
        thread.start()
        return thread

    said = []
    make(cove, "late")
    warden = cove.children()["warden"]
    os.kill(warden, signal.SIGSTOP)
    try:
        threads = [ask(remove, "late")]
        c.until(lambda: b"deleting" in cove.get("/v1/volumes").body, 20)
        threads += [ask(remove, "late"), ask(make, "late")]
        threads[2].join(1)
        c.same(said, [], word + ": a second delete and a create of its name wait for the first")
    finally:
        os.kill(warden, signal.SIGCONT)
    for thread in threads:
        thread.join(60)
    c.same(sorted(said), [("make", 201), ("remove", 204), ("remove", 204)], word + ": each has its own answer")
    c.same(cove.get("/v1/volumes/late").json["state"], "ready", word + ": the new one is there")
    c.same(remove(cove, "late").status, 204, word + ": and can be deleted")


def kills(cove, word):
    """kill -9 of one process at some moment of creates and deletes: each volume is there whole, or not at all."""
    known = {}
    for turn in range(6):
        stop = threading.Event()

        def churn():
            n = 0
            while not stop.is_set():
                name = "k%d-%d" % (turn, n)
                n += 1
                try:
                    known[name] = "asked"
                    if make(cove, name).status != 201:
                        continue
                    known[name] = "made"
                    if n % 2:
                        known[name] = "deleting"
                        if remove(cove, name).status == 204:
                            known[name] = "deleted"
                except CUT:
                    pass
                time.sleep(0.01)

        thread = threading.Thread(target=churn)
        thread.start()
        time.sleep(0.4 + 0.13 * turn)
        os.kill(cove.children()[("warden", "daemon")[turn % 2]], signal.SIGKILL)
        time.sleep(0.7)
        stop.set()
        thread.join()
    got = surely(lambda: cove.get("/v1/verify"), lambda reply: reply.status == 200 and reply.json["ok"])
    c.ok(getattr(got, "status", 0) == 200 and got.json["ok"], word + ": after kills verify is clean", got)
    there = {one["name"]: one for one in cove.get("/v1/volumes").json["items"]}
    wrong = [(name, state) for name, state in known.items() if (state == "made" and name not in there) or (state == "deleted" and name in there)]
    c.same(wrong, [], word + ": a volume that was told is there, one that was told gone is not")
    c.same({one["state"] for one in there.values() if one["name"][0] == "k"} - {"ready"}, set(), word + ": none is half-made")
    for name in there:
        if name[0] == "k":
            c.ok(surely(lambda: remove(cove, name), lambda reply: reply.status in (204, 404)).status in (204, 404), word + ": " + name + " is deleted")
    c.ok(c.until(lambda: cove.get("/v1/verify").json["counts"]["volumes"] == len(cove.get("/v1/volumes").json["items"]), 20),
         word + ": the disk holds no other")


def jobs(cove):
    """Volumes of executions and agent sessions."""
    make(cove, "jobs")
    refused = cove.post("/v1/executions", {"command": "true", "volumes": [mount("none")]})
    c.same((refused.status, refused.json["reason"]), (404, "no_volume"), "I-46: an execution with a volume that does not exist is a 404")
    for bad in ([mount("jobs", "/proc")], [mount("jobs", "/a"), mount("jobs", "/a/b")], {}, [{"name": "jobs"}]):
        c.same(cove.post("/v1/executions", {"command": "true", "volumes": bad}).status, 400, "I-46: volumes %r of an execution are refused" % (bad,))
    for turn in (1, 2):
        done = cove.post("/v1/executions?wait=60", {"command": "echo %d >>/data/log; cat /data/log" % turn, "volumes": [mount("jobs")]}).json
        c.same((done["outcome"], done["exitCode"]), ("completed", 0), "I-46: execution %d writes to its volume" % turn)
    again = cove.post("/v1/executions/%s/retry" % done["id"]).json
    ended = surely(lambda: cove.get("/v1/executions/%s/wait?for=done" % again["id"]), lambda reply: reply.status == 200 and reply.json["outcome"])
    c.same(ended.json["outcome"], "completed", "I-46: one that is retried has its volumes again")
    fixed = cove.post("/v1/executions?wait=60", {"command": "touch /data/x", "volumes": [mount("jobs", readOnly=True)]}).json
    c.same(fixed["exitCode"], 1, "I-46: a read-only one is read-only in an execution")
    out = c.Cli(cove.data)("submit", "--volume", "jobs:/data:ro", "--", "cat", "/data/log")
    c.same((out.status, out.out), (0, b"1\n2\n2\n"), "I-46: 'cove submit --volume' reads what they wrote")
    refused = cove.post("/v1/agent-sessions", {"user": "u", "volumes": [mount("none")], "runner": {"argv": ["sleep", "600"]}})
    c.same((refused.status, refused.json["reason"]), (404, "no_volume"), "I-46: an agent session with an unknown volume is a 404")
    spec = {"user": "u", "volumes": [mount("jobs")], "runner": {"argv": ["sleep", "600"]}}
    session = cove.post("/v1/agent-sessions", spec)
    c.same((session.status, session.json["volumes"]), (201, [mount("jobs")]), "I-46: an agent session has volumes, and shows them")
    cove.post("/v1/agent-sessions/%s/runs" % session.json["id"], {"input": "x"})
    where = "/v1/sandboxes/" + session.json["sandbox"]
    box = surely(lambda: cove.get(where), lambda reply: reply.status == 200 and reply.json["state"] == "running")
    c.same([(one["name"], one["path"]) for one in box.json["volumes"]], [("jobs", "/data")], "I-46: its sandbox has them")
    c.same(cove.out(box.json, "cat /data/log"), "1\n2\n2\n", "I-46: with what is in them")
    other = cove.post("/v1/agent-sessions", dict(spec, volumes=[mount("jobs", "/other")]))
    c.same((other.status, other.json["reason"]), (409, "sandbox_differs"), "I-46: a session that shares its sandbox shares its volumes")
    c.same(cove.post("/v1/agent-sessions", {"user": "u", "runner": spec["runner"]}).status, 201, "I-46: or does not choose any")
    for one in cove.get("/v1/agent-sessions").json["items"]:
        surely(lambda: cove.request("DELETE", "/v1/agent-sessions/" + one["id"]), lambda reply: reply.status in (204, 404))
    surely(lambda: cove.delete(box.json), lambda reply: reply.status in (204, 404))
    gone = surely(lambda: remove(cove, "jobs"), lambda reply: reply.status == 204)
    c.same(gone.status, 204, "I-46: the volume is deleted when none of them is left")


c.need_root()
for driver in (os.environ.get("VOLUME_DRIVERS") or "btrfs ext4-image directory").split():
    cove = c.Cove("--disk", driver, start=False)
    try:
        cove.start()
    except Exception as err:  # noqa: BLE001
        c.skip(driver, "this host cannot: %s" % err)
        continue
    before = subprocess.run(["losetup", "-a"], capture_output=True).stdout.count(cove.data.encode())
    one, two = basics(cove, driver)
    readonly(cove, driver, one)
    refusals(cove, driver)
    links(cove, driver, one)
    sizes(cove, driver)
    kept(cove, driver, one, two)
    c.same(remove(cove, "cache").status, 204, driver + ": the volume is deleted when nobody has it")
    c.same((volume(cove, "cache").status, remove(cove, "cache").json["reason"]), (404, "no_volume"), driver + ": and gone")
    meanwhile(cove, driver)
    kills(cove, driver)
    if driver == "btrfs":
        tenants(cove)
        jobs(cove)
        commands(cove)
    boxes = os.path.join(cove.data, "boxes")
    c.ok(c.until(lambda: not [n for n in os.listdir(boxes) if n.startswith("vol-")] and not os.listdir(os.path.join(cove.data, "volumes")), 20),
         driver + ": no file is left", os.listdir(boxes))
    clean(cove, driver + ": verify is clean at the end")
    cove.close()
    c.ok(c.until(lambda: subprocess.run(["losetup", "-a"], capture_output=True).stdout.count(cove.data.encode()) == 0, 20),
         driver + ": no loop device is left", before)
c.done()
