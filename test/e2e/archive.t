#!/usr/bin/env python3
"""I-49: the files of a stopped sandbox become one packed file, and come back with the next request, on every disk driver."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

DRIVERS = ("btrfs", "ext4-image", "directory")
# Links, holes, times, owners, modes, attributes, whiteouts, opaque directories, a pipe, a socket, odd names.
MAKE = r"""
import os, socket
os.makedirs("/workspace/d/e/f"); os.chdir("/workspace/d")
open("one", "w").write("one\n" * 1000); os.link("one", "e/two"); os.symlink("../one", "e/three")
with open("holes", "wb") as f:
    f.truncate(300 << 20); f.seek(100 << 20); f.write(b"x" * 5000); f.seek(200 << 20); f.write(b"y")
with open("noise", "wb") as f: f.write(os.urandom(3 << 20))
os.mkfifo("pipe", 0o640); socket.socket(socket.AF_UNIX).bind("socket")
os.chown("one", 5, 65534); os.chmod("one", 0o4751); os.chown("e/three", 7, 8, follow_symlinks=False)
os.setxattr("one", "user.mark", b"\0\1value"); os.setxattr("e", "user.dir", b"x" * 3000)
open(b"name \xff\n", "w").close(); open(".wh.no", "w").write("a name"); os.mkdir("shut"); os.chmod("shut", 0)
os.system("rm -rf /etc/skel /etc/apt /usr/bin/base64; mkdir /etc/apt; echo own >/etc/apt/own; mv /etc/hostname /etc/moved 2>/dev/null")
for p in ("one", "e/f", "e", "shut", "holes", "pipe"): os.utime(p, ns=(1, 1234567890123456789))
"""
LOOK = r"""
import hashlib, json, os, stat
seen, out = {}, []
for top in ("/workspace", "/etc/apt", "/etc/skel", "/usr/local"):
    for dir, dirs, files in os.walk(top.encode()):
        for name in sorted(dirs + files) + [b"."]:
            p = os.path.join(dir, name); s = os.lstat(p)
            kind = stat.S_IFMT(s.st_mode); x = {}
            if kind in (stat.S_IFREG, stat.S_IFDIR):
                x = {a: os.getxattr(p, a).hex() for a in os.listxattr(p)}
            data = os.readlink(p).hex() if kind == stat.S_IFLNK else ""
            if kind == stat.S_IFREG and top == "/workspace":
                h = hashlib.sha256(); f = open(p, "rb")
                for piece in iter(lambda: f.read(1 << 20), b""): h.update(piece)
                data = h.hexdigest()
            first = seen.setdefault((s.st_dev, s.st_ino), p.hex()) if s.st_nlink > 1 and kind == stat.S_IFREG and top == "/workspace" else ""
            size = s.st_size if kind == stat.S_IFREG else 0
            out.append((p.hex(), oct(s.st_mode), s.st_uid, s.st_gid, size, s.st_mtime_ns, data, first, sorted(x.items())))
print(json.dumps(sorted(out)))
"""


def at(box):
    return "/v1/sandboxes/" + box["id"]


def look(cove, box):
    return json.loads(cove.run(box, ["python3", "-c", LOOK])["stdout"])


def differs(a, b):
    return [pair for pair in zip(a, b) if pair[0] != pair[1]][:3] or (len(a), len(b))


def place(cove):
    for dir, dirs, _ in os.walk(cove.data):
        if "layers" in dirs:
            return os.path.join(dir, "layers")
    return None


def left(cove):
    return sorted(name for name in os.listdir(place(cove)) if name.startswith((".archive-", ".pack-")))


def clean(cove, why):
    c.ok(c.until(lambda: cove.get("/v1/verify").json["ok"]), why, cove.get("/v1/verify").json)


def there_and_back(cove, word):
    box = cove.create(limits={"diskMB": 256} if word != "directory" else {})
    c.same(cove.post(at(box) + "/archive").json["reason"], "not_stopped", word + ": a running sandbox is not archived")
    got = cove.run(box, ["python3", "-c", MAKE])
    c.same(got["exitCode"], 0, word + ": files of all kinds are made " + got["stderr"])
    before = look(cove, box)
    c.same(cove.post(at(box) + "/stop").status, 200, word + ": it is stopped")
    reply = cove.post(at(box) + "/archive")
    c.ok(reply.status == 200 and reply.json["state"] == "archived" and 3 << 20 < reply.json["archiveBytes"] < 8 << 20,
         word + ": it is archived, and says how large the file is", reply)
    c.ok(left(cove) == [".archive-" + box["id"]] and not [name for name in os.listdir(os.path.join(place(cove), "..", "boxes"))
                                                        if name.startswith(box["id"])], word + ": the file is there, the disk is not",
         left(cove))
    clean(cove, word + ": verify is clean")
    c.same(cove.post(at(box) + "/archive").json["state"], "archived", word + ": once more changes nothing")
    c.same(cove.post(at(box) + "/stop").json["state"], "archived", word + ": nor does a stop")
    reply = cove.post(at(box) + "/snapshot", {"name": "of-archived"})
    c.ok(reply.status == 201 and reply.json["consistency"] == "clean", word + ": a snapshot of it is made (I-34)", reply)
    reply = cove.post(at(box) + "/fork")
    c.same(reply.status, 201, word + ": and a fork")
    c.same(cove.get(at(box)).json["state"], "archived", word + ": it stays archived")
    clean(cove, word + ": verify is clean")
    child = reply.json["items"][0]["sandbox"]
    after = look(cove, child)
    c.ok(before == after, word + ": the fork has the same tree", differs(before, after))
    cove.delete(child)
    got = cove.create(snapshot="of-archived")
    c.ok(look(cove, got) == before, word + ": as has what starts from the snapshot")
    cove.delete(got)
    after = look(cove, box)
    c.ok(before == after, word + ": a command brings it back: the tree is the same", differs(before, after))
    c.ok(cove.get(at(box)).json["state"] == "running" and left(cove) == [], word + ": it runs on its disk, the file is gone", left(cove))
    used = cove.run(box, "du -sk /workspace/d/holes")["stdout"].split()[0]
    c.ok(int(used) < 1000, word + ": holes stay holes", used)
    c.same(cove.run(box, "cat /etc/apt/own; ls /etc/skel 2>&1 | wc -l; echo more >>/workspace/d/one && tail -n1 /workspace/d/one")["stdout"],
           "own\n1\nmore\n", word + ": and can be written")
    events = [e["kind"] for e in cove.get("/v1/events?limit=1000").json["items"] if e.get("sandbox") == box["id"]]
    c.ok("sandbox.archived" in events and events.count("sandbox.woken") == 1, word + ": events tell of it", events)
    cove.post(at(box) + "/stop")
    c.same(cove.post(at(box) + "/archive").status, 200, word + ": it is archived again")
    c.ok(cove.delete(box) is not False and left(cove) == [], word + ": deleted, nothing is left", left(cove))
    clean(cove, word + ": verify is clean")
    c.same(cove.request("DELETE", "/v1/templates/of-archived").status, 204, word + ": the snapshot outlives it, and goes")


def stopped(cove, script="true", **spec):
    box = cove.create(**spec)
    cove.run(box, script)
    cove.post(at(box) + "/stop")
    return box


def by_itself(cove):
    box = stopped(cove, "echo kept >f", archiveAfter="1s")
    c.same(box["archiveAfter"], "1s", "archiveAfter is shown")
    c.ok(c.until(lambda: cove.get(at(box)).json["state"] == "archived", 60), "a stopped sandbox is archived after archiveAfter")
    cove.request("PATCH", at(box), {"archiveAfter": 0})
    c.same(cove.get(at(box)).json["archiveAfter"], None, "0 turns it off")
    c.same(cove.post(at(box) + "/start").json["state"], "running", "start brings it back")
    c.same(cove.out(box, "cat f"), "kept\n", "with its files")
    cove.delete(box)
    got = [op for op in cove.get("/v1/operations").json["items"] if op.get("sandbox") == box["id"]]
    c.ok(len(got) == 1 and got[0]["kind"] == "archive" and got[0]["state"] == "succeeded", "it was an operation (I-4)", got)


def interrupted(cove):
    """A request, or a delete, that comes while the files are packed."""
    box = stopped(cove, "head -c 400000000 /dev/urandom >big; sha256sum big >sum")
    reply = cove.post(at(box) + "/archive?wait=false")
    c.ok(reply.status == 202 and reply.json["sandbox"] == box["id"], "wait=false answers with the operation", reply)
    c.ok(c.until(lambda: any(n.startswith(".pack-") for n in left(cove))), "it packs", left(cove))
    c.same(cove.out(box, "sha256sum -c sum"), "big: OK\n", "a command ends it, and finds its files")
    c.same(cove.get("/v1/operations/" + reply.json["id"]).json["state"], "cancelled", "the operation was cancelled")
    cove.post(at(box) + "/stop")
    reply = cove.post(at(box) + "/archive?wait=false")
    c.ok(c.until(lambda: any(n.startswith(".pack-") for n in left(cove))), "it packs again")
    c.same(cove.request("DELETE", at(box)).status, 204, "a delete ends that, too")
    c.ok(c.until(lambda: left(cove) == []), "and nothing is left", left(cove))
    clean(cove, "verify is clean")


def damaged(cove):
    box = stopped(cove, "echo kept >f; head -c 1000000 /dev/urandom >g")
    cove.post(at(box) + "/archive")
    path = os.path.join(place(cove), ".archive-" + box["id"], "files.tar.zst")
    with open(path, "rb") as file:
        whole = file.read()
    for why, bytes_ in (("one bit is wrong", whole[:500000] + bytes([whole[500000] ^ 1]) + whole[500001:]), ("it is cut", whole[:400000]),
                        ("it is empty", b""), ("it is noise", os.urandom(100000)), ("it is missing", None)):
        os.unlink(path)
        if bytes_ is not None:
            with open(path, "wb") as file:
                file.write(bytes_)
        reply = cove.post(at(box) + "/start")
        c.ok(reply.status == 409 and reply.json["reason"] == "archive_damaged", why + ": the start is refused", reply)
        c.same((cove.get(at(box)).json["state"], cove.post(at(box) + "/snapshot").json["reason"]), ("archived", "archive_damaged"),
               why + ": it stays archived")
        clean(cove, why + ": verify is clean")
        if bytes_ is None:
            open(path, "wb").close()
    with open(path, "wb") as file:
        file.write(whole)
    c.same(cove.out(box, "cat f"), "kept\n", "with the file restored it starts")
    cove.delete(box)


def charged(cove):
    cove.request("PUT", "/v1/tenants/acme", {"quota": {"diskMB": 150}, "host": True})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["make", "use", "read"], "host": True}).json["key"]
    make = lambda: cove.request("POST", "/v1/sandboxes", {"limits": {"diskMB": 100}}, key=key)  # noqa: E731
    box = make().json
    c.same(make().json["reason"], "quota", "the quota is full")
    cove.post(at(box) + "/stop")
    cove.post(at(box) + "/archive")
    other = make()
    c.same(other.status, 201, "an archived sandbox is charged with its file, not with its disk")
    c.same(cove.post(at(box) + "/start").json["reason"], "quota", "and with its disk again when it comes back")
    cove.delete(other.json)
    c.same(cove.post(at(box) + "/start").status, 200, "which works when there is room")
    cove.delete(box)


def restarted(cove):
    box = stopped(cove, "echo kept >f")
    cove.post(at(box) + "/archive")
    cove.stop()
    cove.start()
    got = cove.get(at(box)).json
    c.ok(got["state"] == "archived" and got["archiveBytes"] > 0, "after a restart it is archived", got)
    clean(cove, "verify is clean")
    c.same(cove.out(box, "cat f"), "kept\n", "and comes back")
    cove.delete(box)


c.need_root()
c.need_mounts()
for driver in (os.environ.get("ARCHIVE_DRIVERS") or " ".join(DRIVERS)).split():
    cove = c.Cove("--disk", driver)
    there_and_back(cove, driver)
    if driver == "directory":
        by_itself(cove)
        interrupted(cove)
        damaged(cove)
    if driver == "ext4-image":
        charged(cove)
        restarted(cove)
    cove.close()
c.done()
