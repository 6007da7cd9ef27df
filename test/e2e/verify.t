#!/usr/bin/env python3
"""`cove verify` names every difference between the store, the daemon, the warden and the kernel. Each is planted, as a
fault of the host or a hand from outside would leave it, seen, and taken away again."""
import json
import os
import socket
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
GHOST = "box-" + "0f" * 24


def run_dir(cove):
    return os.path.join(cove.data, "run")


def verify(cove, *more):
    return subprocess.run([cove.binary, "verify", *more, "--data", cove.data], capture_output=True, text=True, timeout=60)


def sql(cove, *statements):
    with sqlite3.connect(os.path.join(cove.data, "daemon", "cove.db"), timeout=10) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def groups_of(cove, box):
    """Its control groups, one in each hierarchy that it has one in."""
    where = [os.path.join(root, "cove", cove.instance(), box) for root in c.cgroup_roots()]
    return [path for path in where if os.path.isdir(path)]


def move(pid, group):
    with open(os.path.join(group, "cgroup.procs"), "w") as file:
        file.write(str(pid))


def warden_path(cove, path):
    """A path as the warden's own mounts show it."""
    return "/proc/%d/root%s" % (cove.children()["warden"], path)


def disk_place(cove, box):
    """Where a sandbox's disk lies, by whatever driver."""
    tops = [os.path.join(cove.data, top) for top in ("boxes", "pool", "pool/boxes")]
    for top in tops:
        for name in (box, box + ".img"):
            if os.path.lexists(warden_path(cove, os.path.join(top, name))):
                return warden_path(cove, os.path.join(top, name))
    for top, dirs, files in os.walk(warden_path(cove, cove.data)):
        for name in dirs + files:
            if name in (box, box + ".img"):
                return os.path.join(top, name)
        dirs[:] = [d for d in dirs if not d.startswith("box-") and d != "layers"]
    return None


class Plants:
    """Differences that live beside each other: what is expected to be told, and how each is undone."""

    def __init__(self):
        self.want, self.undo = [], []

    def add(self, what, name, undo):
        self.want.append((what, name))
        self.undo.append(undo)

    def clear(self):
        for undo in reversed(self.undo):
            undo()
        self.undo = []


def plant_kernel(cove, box, plants):
    group = os.path.join(os.path.dirname(groups_of(cove, box)[0]), GHOST)
    os.mkdir(group)
    plants.add("group_without_box", GHOST, lambda: os.rmdir(group))

    stray = subprocess.Popen(["sleep", "1000"])
    for where in groups_of(cove, box):
        try:
            move(stray.pid, where)
            break
        except OSError:  # v2 with leaves
            continue

    def end_stray():
        stray.kill()
        stray.wait()
    plants.add("process_not_of_cell", box, end_stray)


def plant_disk(cove, kept, plants):
    place = disk_place(cove, kept)
    ghost = os.path.join(os.path.dirname(place), os.path.basename(place).replace(kept, GHOST))
    if os.path.isdir(place):
        os.mkdir(ghost)
        plants.add("disk_without_box", GHOST, lambda: os.rmdir(ghost))
    else:
        open(ghost, "w").close()
        plants.add("disk_without_box", GHOST, lambda: os.unlink(ghost))
    image = os.path.join(cove.data, "boxes", "stray-disk")
    with open(image, "wb") as file:
        file.truncate(1 << 20)
    device = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)

    def free():
        if device.returncode == 0:
            subprocess.run(["losetup", "-d", device.stdout.strip()], check=False)
        os.unlink(image)
    if device.returncode == 0:
        plants.add("loop_without_box", "stray-disk", free)
    else:
        c.skip("a loop device without a cell", "no loop device is free: " + device.stderr.strip())
        free()


def plant_run(cove, box, plants):
    run = run_dir(cove)
    note = os.path.join(run, "cells", GHOST)
    open(note, "w").close()
    plants.add("state_file_without_box", GHOST, lambda: os.unlink(note))
    ear = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(os.path.join(run, "box"))
    ear.bind(GHOST)
    os.chdir(here)
    plants.add("socket_without_box", GHOST, lambda: os.unlink(os.path.join(run, "box", GHOST)))
    mine = os.path.join(run, "cells", box)
    os.rename(mine, mine + ".away")
    os.rename(mine + ".away", os.path.join(run, "note"))
    plants.add("box_without_state_file", box, lambda: os.rename(os.path.join(run, "note"), mine))


def plant_store(cove, boxes, plants):
    lost, other = boxes
    rows = "INSERT INTO boxes SELECT '%s', 900, tenant, 'ghost', 'stopped', body FROM boxes WHERE id = '%s'" % (GHOST, other)
    sql(cove, rows)
    plants.add("row_without_sandbox", GHOST, lambda: sql(cove, "DELETE FROM boxes WHERE id = '%s'" % GHOST))
    sql(cove, "CREATE TABLE aside AS SELECT * FROM boxes WHERE id = '%s'" % lost, "DELETE FROM boxes WHERE id = '%s'" % lost)
    plants.add("sandbox_without_row", lost, lambda: sql(cove, "INSERT INTO boxes SELECT * FROM aside", "DROP TABLE aside"))
    sql(cove, "UPDATE boxes SET state = 'stopped' WHERE id = '%s'" % other)
    plants.add("row_differs", other, lambda: sql(cove, "UPDATE boxes SET state = 'running' WHERE id = '%s'" % other))


def seen(got):
    return {tuple(line.split(": ")[0].split(" ")) for line in got.stdout.splitlines()}


def planted(cove):
    box, other, kept = [cove.create()["id"] for _ in range(3)]
    cove.post("/v1/sandboxes/%s/stop" % kept)
    got = verify(cove)
    c.ok(got.returncode == 0 and got.stdout == "all agree\n", "nothing is planted: nothing is told", got)
    plants = Plants()
    try:
        plant_kernel(cove, box, plants)
        plant_disk(cove, kept, plants)
        plant_run(cove, other, plants)
        plant_store(cove, (box, other), plants)
        got, told = verify(cove), json.loads(verify(cove, "--json").stdout)
    finally:
        plants.clear()
    for what, name in plants.want:
        c.ok((what, name) in seen(got), "%s is named" % what, got.stdout)
    c.same(seen(got) - set(plants.want), set(), "and nothing else")
    c.ok(got.returncode == 1 and not told["ok"], "verify exits with 1", got.returncode)
    c.same({(d["what"], d["name"]) for d in told["differences"]}, set(plants.want), "--json tells the same")
    got = verify(cove)
    c.ok(got.returncode == 0, "taken away, all agree again", got)
    return box, other, kept


def unreadable(cove, box):
    """What is there, but says something else."""
    sql(cove, "CREATE TABLE aside AS SELECT * FROM boxes WHERE id = '%s'" % box, "UPDATE boxes SET body = 'garbage' WHERE id = '%s'" % box)
    freezers = [g for g in groups_of(cove, box) if os.path.exists(os.path.join(g, "cgroup.freeze")) or os.path.exists(os.path.join(g, "freezer.state"))]
    v2 = os.path.join(freezers[0], "cgroup.freeze")
    switch, on, off = (v2, "1", "0") if os.path.exists(v2) else (os.path.join(freezers[0], "freezer.state"), "FROZEN", "THAWED")
    open(switch, "w").write(on)
    got = verify(cove)
    open(switch, "w").write(off)
    sql(cove, "DELETE FROM boxes WHERE id = '%s'" % box, "INSERT INTO boxes SELECT * FROM aside", "DROP TABLE aside")
    c.ok(("row_unreadable", box) in seen(got), "a row that cannot be read is named", got.stdout)
    c.ok(("box_differs", box) in seen(got), "so is a sandbox that stands still and should not", got.stdout)


def is_running(pid):
    try:
        return bool(os.readlink("/proc/%d/exe" % pid))
    except OSError:  # gone, or nobody has waited for it yet
        return False


def slots(cove, first, second):
    """Two sandboxes by one id range, as a damaged note could make it."""
    notes = os.path.join(run_dir(cove), "cells")

    def slot(box):
        lines = open(os.path.join(notes, box)).read().splitlines()
        return [line for line in lines if line.startswith("slot ")][0]
    warden = cove.children()["warden"]
    os.kill(cove.process.pid, 19)  # no other warden meanwhile
    os.kill(warden, 9)
    c.until(lambda: not is_running(warden))
    path = os.path.join(notes, second)
    text = open(path).read()
    with open(path, "r+") as file:
        file.write((text.replace(slot(second), slot(first), 1) + "\n" * 8)[:len(text)])
    os.kill(cove.process.pid, 18)
    c.until(lambda: cove.children().get("warden", warden) != warden)
    c.until(lambda: cove.get("/v1/health").json["status"] == "ok")
    got = verify(cove)
    doubled = {name for what, name in seen(got) if what == "box_without_slot"}
    c.ok(len(doubled) == 1 and doubled <= {first, second}, "two sandboxes by one id range: one of them is named", got.stdout)
    for box in (first, second):
        c.same(cove.delete(box).status, 204, "the sandbox can be deleted")


cove = c.Cove()
one, two, rest = planted(cove)
unreadable(cove, one)
slots(cove, one, two)
cove.delete(rest)
c.until(lambda: verify(cove).returncode == 0, 30, 0.5)
c.same(verify(cove).stdout, "all agree\n", "in the end nothing differs")
c.same(cove.stop(), 0, "cove ends")
c.same(verify(cove).returncode != 0, True, "without a cove it is no yes")
c.same(c.remains(cove), {}, "nothing is left behind")
cove.close()
c.done()
