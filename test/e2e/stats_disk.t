#!/usr/bin/env python3
"""What /v1/stats says of the disk: bytes of templates, of kept output and of what is being deleted, as the file system counts them."""
import io
import os
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
c.need_programs("chattr")
WAIT = 90
SIZE = 3000000


def disk(cove, key=True):
    return cove.get("/v1/stats", key=key).json["disk"]


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("usr/share/data")
        info.size = SIZE
        tar.addfile(info, io.BytesIO(os.urandom(SIZE)))
    return out.getvalue()


def template(cove, name, key=True):
    got = cove.request("POST", "/v1/templates?name=" + name, archive(), raw=True, headers={"Content-Type": "application/x-tar"}, key=key, timeout=300)
    c.ok(got.status == 201 and got.json["bytes"] >= SIZE, "a template of %d bytes" % SIZE, got)


def trash(cove):
    """One file cannot be deleted: what is left of its template stays in the trash."""
    stuck = os.path.join(cove.data, "layers", "held", "root", "usr", "share", "data")
    failed = subprocess.run(["chattr", "+i", stuck], capture_output=True, text=True, check=False)
    if failed.returncode:
        c.skip("the trash", "this file system has no immutable files: " + failed.stderr.strip())
        cove.request("DELETE", "/v1/templates/held")
        return
    blocks = os.stat(stuck).st_blocks * 512
    c.same(cove.request("DELETE", "/v1/templates/held").status, 204, "it is deleted")
    held = c.until(lambda: disk(cove)["trashBytes"], WAIT, 0.2)
    c.ok(held and blocks <= held <= blocks + (64 << 10), "its file cannot be removed yet, and is told as trash", held, blocks)
    where = [os.path.join(at, name) for at, _, names in os.walk(os.path.join(cove.data, "layers", ".trash")) for name in names]
    c.ok(where, "in the trash it lies", where)
    for name in where:
        subprocess.run(["chattr", "-i", name], check=True)
    template(cove, "again")
    c.same(cove.request("DELETE", "/v1/templates/again").status, 204, "with the next one that is deleted")
    c.ok(c.until(lambda: disk(cove)["trashBytes"] == 0, WAIT, 0.2), "it goes, too", disk(cove))


def inodes(*args):
    """Files in use where the file system of a disk has a fixed number of inodes; null where it has not."""
    cove = c.Cove("--sleep-after=1h", *args)
    driver = cove.get("/v1/health").json["host"]["disk"]
    try:
        for limits in ({}, {"inodes": 65536, "diskMB": 512}):
            made = cove.post("/v1/sandboxes", {"limits": limits})
            if made.status != 201:
                c.skip("a limit on inodes", "this host has none: %s" % made.json["reason"])
                continue
            box, what = made.json, "%s on %s" % ("limited" if limits else "not limited", driver)
            cove.run(box, "mkdir /workspace/m; cd /workspace/m; seq 3000 | xargs touch")
            files, free = (int(word) for word in cove.out(box, "stat -f -c '%c %d' /workspace").split())
            counted = bool(limits) or driver == "ext4-image"
            limit = limits.get("inodes") or (files if counted else None)
            path = "/v1/sandboxes/%s/stats" % box["id"]
            want = limit - free if counted else None

            def known(at=path, counted=counted, want=want):
                told = cove.get(at).json["disk"]
                return told["inodes"] == want if counted else told["bytes"]

            measured = c.until(known, 150 if driver != "directory" or counted else 4, 0.2)
            disk = cove.get(path).json["disk"]
            c.same((bool(measured), disk["inodes"], disk["inodeLimit"]), (driver != "directory" or counted, want, limit), "W-29 inodes of a disk, %s" % what)
            if counted:
                c.ok(disk["inodes"] >= 3001, "with every file of the sandbox", disk)
                shown = c.Cli(cove.data)("stats", box["id"]).text
                c.ok("Inodes                 %d of %d" % (disk["inodes"], limit) in shown, "and in cove stats", shown)
                sent = c.Stream(cove, path + "?everyMs=200")
                c.ok(c.until(lambda at=sent: at.got, WAIT) and sent.got[0]["disk"]["inodes"] == disk["inodes"], "in the stream, too")
            cove.delete(box)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()


def main():
    inodes()
    inodes("--disk=ext4-image")
    inodes("--disk=directory")
    cove = c.Cove("--sleep-after=1h")
    try:
        before = disk(cove)
        c.same(before["trashBytes"], 0, "nothing is being deleted")
        template(cove, "held")
        c.ok(c.until(lambda: disk(cove)["templatesBytes"] >= before["templatesBytes"] + SIZE, WAIT), "the operator's templates count", before, disk(cove))
        cove.request("PUT", "/v1/tenants/acme", {"host": True})
        key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use", "templates"], "host": True}).json["key"]
        template(cove, "own", key)
        c.ok(c.until(lambda: disk(cove, key)["templatesBytes"] >= SIZE, WAIT), "those of a tenant are in its own sum", disk(cove, key))
        c.ok(disk(cove, key)["templatesBytes"] < 2 * SIZE and disk(cove, key)["trashBytes"] is None, "and those of others are not, nor is the trash", disk(cove, key))
        c.ok(disk(cove)["templatesBytes"] >= before["templatesBytes"] + 2 * SIZE, "the host's sum has both", disk(cove))
        text = cove.get("/metrics").body.decode()
        c.ok('cove_disk_bytes{area="templates"} ' in text and 'cove_disk_bytes{area="output"} ' in text, "and so have the metrics")
        trash(cove)
        box = cove.create()
        cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "head -c %d /dev/zero" % SIZE})
        c.ok(c.until(lambda: disk(cove)["tapesBytes"] >= SIZE, WAIT, 0.2), "kept output counts, every byte of it", disk(cove))
        cove.delete(box)
        c.ok(c.until(lambda: disk(cove)["tapesBytes"] < SIZE, WAIT, 0.2), "until its sandbox is deleted", disk(cove))
        made = cove.post("/v1/executions?wait=60", {"command": "head -c %d /dev/urandom > a" % SIZE, "artifacts": {"paths": ["a"]}}).json
        c.same(made["artifacts"]["count"], 1, "an execution with an artifact")
        c.ok(c.until(lambda: disk(cove)["tapesBytes"] >= SIZE, WAIT, 0.2), "results that are kept count, too", disk(cove))
        c.same(cove.request("DELETE", "/v1/executions/" + made["id"]).status, 204, "and is deleted")
        c.ok(c.until(lambda: disk(cove)["tapesBytes"] < SIZE, WAIT, 0.2), "with its results", disk(cove))
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        subprocess.run(["chattr", "-R", "-i", cove.data], check=False, capture_output=True)
        cove.close()
    c.done()


main()
