#!/usr/bin/env python3
"""Snapshots and forks of sandboxes, on every disk driver: contents, consistency, lineage, quotas."""
import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

MARK = "mkdir -p d/e; echo one >d/e/f; ln -s f d/e/l; ln d/e/f d/e/h; rm -rf /etc/skel; chown 5:6 d/e/f; " \
       "chmod 640 d/e/f; rm -rf /etc/apt; mkdir /etc/apt; echo new >/etc/apt/own; rm -f /usr/bin/base64"
LOOK = "cat d/e/l; readlink d/e/l; stat -c '%a %u %g %h' d/e/f; ls -d /etc/skel 2>&1; ls /etc/apt; ls /usr/bin/base64 2>&1; true"
WANT = "one\nf\n640 5 6 2\nls: cannot access '/etc/skel': No such file or directory\nown\n" \
       "ls: cannot access '/usr/bin/base64': No such file or directory\n"


def at(box):
    return "/v1/sandboxes/" + box["id"]


def snap(cove, box, name=None):
    return cove.post(at(box) + "/snapshot", {"name": name} if name else None)


def clean(cove, why):
    got = cove.get("/v1/verify").json
    c.ok(got["ok"], why, got)


def running(cove, word):
    box = cove.create(name="src", user="root", workdir="/workspace")
    cove.run(box, MARK)
    reply = snap(cove, box, "one")
    c.ok(reply.status == 201, word + ": a running sandbox becomes a snapshot", reply)
    got = reply.json
    c.ok(got["kind"] == "snapshot" and got["source"] == box["id"] and got["consistency"] == "crash" and
         got["lineage"]["template"] == "host" and got["frozenMs"] >= 0, word + ": and is described", got)
    c.same(cove.get(at(box)).json["state"], "running", word + ": it runs on")
    cove.run(box, "echo two >d/e/f")
    child = cove.create(snapshot="one")
    c.same(cove.out(child, LOOK), WANT, word + ": a sandbox from it has those files, links, owners and removals")
    c.same(cove.out(box, "cat d/e/f"), "two\n", word + ": the source has its own")
    cove.run(child, "echo three >d/e/f; echo x >new")
    c.same(cove.out(box, "cat d/e/f; ls new 2>&1 | wc -l"), "two\n1\n", word + ": neither sees what the other writes")
    return box, child


def stopped(cove, word, box, child):
    for one in (box, child):
        cove.post(at(one) + "/stop")
    reply = snap(cove, child, "two")
    c.same(reply.status, 201, word + ": a stopped one becomes a snapshot")
    c.ok(reply.json["consistency"] == "clean" and reply.json["parent"] == "one" and reply.json["frozenMs"] == 0,
         word + ": with its lineage", reply.json)
    c.same(cove.get(at(child)).json["state"], "stopped", word + ": it stays stopped")
    c.same(cove.request("DELETE", "/v1/templates/one").status, 204, word + ": the first snapshot is deleted")
    cove.post(at(child) + "/start")
    c.same(cove.out(child, "cat d/e/f"), "three\n", word + ": its sandbox starts again all the same")
    cove.delete(box)
    cove.delete(child)
    last = cove.create(template="two")
    c.same(cove.out(last, "cat d/e/f; cat new; ls -d /etc/skel 2>&1 | wc -l"), "three\nx\n1\n",
           word + ": the second snapshot has outlived all of them")
    cove.delete(last)
    c.same(cove.request("DELETE", "/v1/templates/two").status, 204, word + ": and is deleted")


def forks(cove, word):
    box = cove.create(env={"A": "1"}, labels={"team": "x"}, limits={"memoryMB": 200, "diskMB": 128} if word != "directory" else
                      {"memoryMB": 200})
    cove.run(box, "echo base >f")
    reply = cove.post(at(box) + "/fork", {"count": 3, "labels": {"try": "y"}})
    c.same(reply.status, 201, word + ": a sandbox is forked three times")
    children = [item.get("sandbox") for item in reply.json["items"]]
    c.ok(len(children) == 3 and all(children) and len({one["id"] for one in children}) == 3, word + ": into three sandboxes",
         reply.json)
    one = children[0]
    c.same((one["limits"]["memoryMB"], one["labels"], one["name"]), (200, {"team": "x", "try": "y"}, None),
           word + ": limits and labels are inherited, a name is not")
    cove.delete(box)
    for number, child in enumerate(children):
        cove.run(child, "echo %d >>f" % number)
    c.same([cove.out(child, "cat f; echo $A; hostname") for child in children],
           ["base\n%d\n1\n%s\n" % (number, child["shortId"]) for number, child in enumerate(children)],
           word + ": each has the files, and writes its own, when the source is gone")
    again = cove.post(at(one) + "/fork", {"name": "heir"})
    c.same(again.json["items"][0]["sandbox"]["name"], "heir", word + ": a fork of a fork, by name")
    c.same(cove.out({"id": "heir"}, "cat f"), "base\n0\n", word + ": has its files")
    c.same(cove.post(at(one) + "/fork", {"name": "heir"}).json["reason"], "name_taken", word + ": a name is taken once")
    if word != "directory":
        cove.run(one, "head -c 40000000 /dev/urandom >big; sync")
        twin = cove.post(at(one) + "/fork").json["items"][0]["sandbox"]
        got = cove.run(twin, "head -c 100000000 /dev/zero | tr '\\0' x >more; stat -c %s more")
        size = int(got["stdout"].split()[-1])
        c.ok(60e6 < size < 95e6, word + ": what a fork inherits counts against its limit", got)
        cove.delete(twin)
    for child in children + [{"id": "heir"}]:
        cove.delete(child)
    c.same([t["name"] for t in cove.get("/v1/templates").json["items"]], ["host"], word + ": no copy is left")


def live(cove, word):
    """One moment for all files, as after a kill of every process."""
    box = cove.create()
    writer = ("i=0; while :; do i=$((i+1)); echo $i >>a; echo $i >>b; done")
    c.ok(cove.post(at(box) + "/api/process/start", {"command": writer}).status in (200, 201), word + ": a process writes")
    c.until(lambda: cove.out(box, "test -s b && echo yes") == "yes\n", 60)
    for number in range(3):
        name = "live%d" % number
        reply = snap(cove, box, name)
        c.ok(reply.status == 201 and (word != "btrfs" or reply.json["frozenMs"] < 2000),
             word + ": a snapshot while a process writes", reply)
        child = cove.create(snapshot=name)
        got = cove.out(child, "a=$(tail -n1 a); b=$(tail -n1 b); echo $((a-b)); seq $a >s; cmp s a && echo same").split()
        c.ok(got and got[0] in ("0", "1") and got[1:] == ["same"],
             word + ": has what was written before, without a gap, in the order of the writes", got)
        cove.delete(child)
        cove.request("DELETE", "/v1/templates/" + name)
    c.ok(c.until(lambda: int(cove.out(box, "tail -n1 a")) > 0, 60), word + ": the process goes on")
    first = int(cove.out(box, "tail -n1 a"))
    c.ok(c.until(lambda: int(cove.out(box, "tail -n1 a")) > first, 60), word + ": and writes")
    base = ("import sqlite3, itertools; db = sqlite3.connect('w.db', isolation_level=None); db.execute('PRAGMA journal_mode=WAL'); "
            "db.execute('CREATE TABLE IF NOT EXISTS t (n INTEGER, m INTEGER)')\nfor i in itertools.count(1):\n  db.execute('BEGIN'); "
            "db.execute('INSERT INTO t VALUES (?, 0)', (i,)); db.execute('INSERT INTO t VALUES (?, 1)', (i,)); db.execute('COMMIT')\n")
    count = "import sqlite3; print(*sqlite3.connect('w.db').execute('SELECT count(*), sum(m), max(n) FROM t').fetchone())"
    check = "import sqlite3; print(*sqlite3.connect('w.db').execute('PRAGMA integrity_check').fetchone())"
    cove.run(box, "cat >w.py <<'END'\n" + base + "END\n")
    cove.post(at(box) + "/api/process/start", {"command": "python3 w.py"})
    if c.until(lambda: cove.run(box, ["python3", "-c", count])["exitCode"] == 0, 60, 0.2):
        c.same(snap(cove, box, "wal").status, 201, word + ": a snapshot while a database is written")
        child = cove.create(snapshot="wal")
        got = cove.out(child, ["python3", "-c", count]).split()
        c.ok(len(got) == 3 and int(got[0]) == 2 * int(got[1]) == 2 * int(got[2]) and int(got[0]) > 0,
             word + ": has whole transactions, without a gap", got)
        c.same(cove.out(child, ["python3", "-c", check]), "ok\n", word + ": and is sound")
        cove.delete(child)
        cove.request("DELETE", "/v1/templates/wal")
    cove.post(at(box) + "/pause")
    c.same(snap(cove, box, "paused").status, 201, word + ": a paused one")
    c.same(cove.get(at(box)).json["state"], "paused", word + ": stays paused")
    cove.post(at(box) + "/resume")
    quick = cove.create(ephemeral=True)
    cove.run(quick, "echo q >q; rm -rf /etc/skel")
    c.same(snap(cove, quick, "quick").status, 201, word + ": an ephemeral one")
    child = cove.create(snapshot="quick")
    c.same(cove.out(child, "cat q; ls -d /etc/skel 2>/dev/null | wc -l"), "q\n0\n", word + ": has its files")
    for one in (box, quick, child):
        cove.delete(one)
    for name in ("paused", "quick"):
        cove.request("DELETE", "/v1/templates/" + name)


def leaves_out(cove):
    box = cove.create(env={"MARK": "env-mark"}, network={"mode": "all", "secrets": [
        {"name": "TOKEN", "value": "s3cr3t-mark", "hosts": ["example.com"]}]})
    cove.run(box, "echo run-mark >/run/m; echo shm-mark >/dev/shm/m; echo file >f")
    reply = snap(cove, box, "bare")
    child = cove.create(snapshot="bare")
    got = cove.out(child, "cat f; echo \"$MARK$TOKEN\"; ls /run/m /dev/shm/m 2>/dev/null; hostname")
    c.same(got, "file\n\n%s\n" % child["shortId"], "no environment, secret, tmpfs or host name is in a snapshot")
    c.ok("s3cr3t" not in str(reply.json) + str(cove.get("/v1/templates/bare").json), "nor shown with it", reply.json)
    heir = cove.post(at(box) + "/fork").json["items"][0]["sandbox"]
    c.ok(cove.out(heir, "echo $MARK $TOKEN") == cove.out(box, "echo $MARK $TOKEN"), "a fork has both")
    poor = cove.post(at(box) + "/fork", {"secrets": False}).json["items"][0]["sandbox"]
    c.same(cove.out(poor, "echo $MARK $TOKEN"), "env-mark\n", "but for secrets that are not asked for")
    for one in (box, child, heir, poor):
        cove.delete(one)
    cove.request("DELETE", "/v1/templates/bare")


def refusals(cove):
    box = cove.create()
    c.same(snap(cove, box, "Not!").json["reason"], "bad_template", "a malformed name")
    c.same(snap(cove, box, "host").json["reason"], "template_reserved", "the name of the host's template")
    c.same(snap(cove, box, "taken").status, 201, "a snapshot")
    c.same(snap(cove, box, "taken").json["reason"], "template_exists", "a name that is taken")
    c.same(cove.post(at(box) + "/fork", {"count": 65}).status, 400, "too many forks")
    c.same(cove.post(at(box) + "/fork", {"count": 2, "name": "a"}).status, 400, "one name for two")
    c.same(cove.post("/v1/sandboxes", {"snapshot": "taken", "template": "host"}).status, 400, "a snapshot and a template")
    c.same(cove.post("/v1/sandboxes", {"snapshot": "none"}).status, 404, "a snapshot that there is not")
    made = snap(cove, box)
    c.ok(made.status == 201 and made.json["name"].startswith(box["shortId"]), "without a name one is made up", made)
    for name in ("taken", made.json["name"]):
        cove.request("DELETE", "/v1/templates/" + name)
    cove.delete(box)


def tenants(cove):
    keys = {}
    for name in ("acme", "rival"):
        cove.request("PUT", "/v1/tenants/" + name, {"templates": ["*"], "host": True, "quota": {"diskMB": 1200}})
        made = cove.post("/v1/keys", {"tenant": name, "scopes": ["read", "make", "use", "templates"]})
        keys[name] = made.json["key"]
    box = cove.post("/v1/sandboxes", {"limits": {"diskMB": 64}}, key=keys["acme"]).json
    c.same(cove.post(at(box) + "/snapshot", {"name": "mine"}, key=keys["rival"]).status, 404, "no snapshot of another's sandbox")
    c.same(cove.post(at(box) + "/fork", {}, key=keys["rival"]).status, 404, "no fork of it")
    c.same(cove.post(at(box) + "/snapshot", {"name": "mine"}, key=keys["acme"]).status, 201, "a tenant's own")
    c.same([cove.get("/v1/templates/" + name, key=keys["rival"]).status for name in ("mine", "acme.mine")], [404, 404],
           "another tenant does not see it")
    c.same([cove.post("/v1/sandboxes", {"snapshot": name}, key=keys["rival"]).status for name in ("mine", "acme.mine")],
           [404, 404], "nor uses it")
    made = cove.post(at(box) + "/snapshot", {"name": "watched"})
    c.same((made.status, made.json["name"]), (201, "acme.watched"), "what the operator copies from a tenant is the tenant's")
    c.same([cove.get("/v1/templates/watched", key=keys[name]).status for name in ("acme", "rival")], [200, 404], "and seen by it alone")
    cove.request("DELETE", "/v1/templates/acme.watched")
    heir = cove.post(at(box) + "/fork").json["items"][0]["sandbox"]
    c.same([cove.get(at(heir), key=keys[name]).status for name in ("acme", "rival")], [200, 404], "likewise a fork")
    cove.delete(heir)
    child = cove.post("/v1/sandboxes", {"snapshot": "mine", "limits": {"diskMB": 64}}, key=keys["acme"])
    c.same((child.status, child.json.get("template")), (201, "mine"), "its owner does")
    bound = cove.post("/v1/sandboxes", {"limits": {"diskMB": 64}}, key=keys["acme"]).json
    cove.run(bound, "head -c 30000000 /dev/urandom >f; sync")
    tight = cove.get("/v1/tenants/acme").json["used"]["diskMB"] + 10
    cove.request("PUT", "/v1/tenants/acme", {"host": True, "quota": {"diskMB": tight}})
    full = cove.post(at(bound) + "/snapshot", {"name": "wide"}, key=keys["acme"])
    c.ok(full.status == 429 and full.json["reason"] == "quota", "a snapshot beyond the quota is refused", full)
    c.same(cove.get("/v1/templates/wide", key=keys["acme"]).status, 404, "and is not there")
    for one in (box, child.json, bound):
        cove.delete(one)
    c.same(cove.request("DELETE", "/v1/templates/mine", key=keys["acme"]).status, 204, "the snapshot is deleted")
    c.same(cove.get("/v1/tenants/acme").json["used"]["diskMB"], 0, "and counts no more")


def lineage(cove, word):
    """The base stays while somebody needs it, and its space returns then."""
    busybox = next((p for p in ("/bin/busybox", "/usr/bin/busybox") if os.path.exists(p)), None)
    if not busybox:
        c.skip(word + ": lineage", "this host has no busybox")
        return
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("bin", "etc", "tmp", "workspace", "root", "proc", "sys", "dev", "run"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        data = open(busybox, "rb").read()
        info = tarfile.TarInfo("bin/busybox")
        info.size, info.mode = len(data), 0o755
        tar.addfile(info, io.BytesIO(data))

    def post():
        return cove.request("POST", "/v1/templates?name=tiny", out.getvalue(), raw=True,
                            headers={"Content-Type": "application/x-tar"})

    def says(box, *argv):
        return cove.out(box, ["/bin/busybox"] + list(argv))

    post()
    box = cove.create(template="tiny")
    says(box, "sh", "-c", "echo first >/workspace/f")
    c.same(snap(cove, box, "gen1").status, 201, word + ": a snapshot over an imported template")
    second = cove.create(snapshot="gen1")
    says(second, "sh", "-c", "echo second >>/workspace/f")
    c.same(snap(cove, second, "gen2").json["lineage"], {"sandbox": second["id"], "snapshot": "gen1", "template": "tiny"},
           word + ": a second generation")
    cove.delete(box)
    for name in ("tiny", "gen1"):
        cove.request("DELETE", "/v1/templates/" + name)
    post()  # another template of that name
    third = cove.create(snapshot="gen2")
    c.same(says(third, "cat", "/workspace/f"), "first\nsecond\n", word + ": lives on when all before it are gone")
    cove.delete(second)
    cove.post(at(third) + "/stop")
    cove.request("DELETE", "/v1/templates/gen2")
    c.same(cove.post(at(third) + "/start").status, 200, word + ": and its sandbox starts without it")
    c.same(says(third, "cat", "/workspace/f"), "first\nsecond\n", word + ": with its files")
    cove.delete(third)
    layers = os.path.join(cove.data, "warden", "layers")
    if not os.path.isdir(layers):
        layers = os.path.join(cove.data, "layers")
    c.ok(c.until(lambda: [n for n in os.listdir(layers) if n.startswith(".gone-")] == [], 60),
         word + ": the removed template goes when nobody needs it", os.listdir(layers))
    old = cove.create(template="tiny")
    cove.request("DELETE", "/v1/templates/tiny")
    c.same(snap(cove, old, "late").json["reason"], "base_changed", word + ": without its template a sandbox is not copied")
    cove.delete(old)


def commands(cove):
    cli = c.Cli(cove.data)
    box = cove.create(name="right")
    cove.run(box, "echo here >f")
    done = cli("snapshot", "right", "just-right")
    c.same((done.status, done.out), (0, b"just-right\n"), "cove snapshot prints the name")
    c.ok(b"just-right" in cli("template", "ls").out, "cove template ls lists it")
    c.same(cli("run", "--template", "just-right", "--", "cat", "f").out, b"here\n", "cove run starts from it")
    done = cli("fork", "right", "--count", "2")
    ids = done.out.decode().split()
    c.ok(done.status == 0 and len(ids) == 2 and all(cove.out({"id": one}, "cat f") == "here\n" for one in ids),
         "cove fork prints the ids of sandboxes with the files", done)
    done = cli("snapshot", "right", "just-right")
    c.ok(done.status != 0 and "just-right" in str(done.err), "a refusal is told", done)
    c.ok(cli("fork", "right", "--count", "65").status != 0, "too many, too")
    for one in ids + [box["id"]]:
        cove.delete(one)
    c.same(cli("template", "rm", "just-right").status, 0, "cove template rm removes it")


c.need_root()
for driver in ("btrfs", "ext4-image", "directory"):
    cove = c.Cove("--disk", driver, start=False)
    try:
        cove.start()
    except Exception as err:  # noqa: BLE001
        c.skip(driver, "this host cannot: %s" % err)
        continue
    box, child = running(cove, driver)
    stopped(cove, driver, box, child)
    forks(cove, driver)
    live(cove, driver)
    lineage(cove, driver)
    if driver == "btrfs":
        leaves_out(cove)
        refusals(cove)
        commands(cove)
        tenants(cove)
    clean(cove, driver + ": the host shows nothing else")
    cove.close()
c.done()
