#!/usr/bin/env python3
"""Group S: the value of a secret is nowhere but on its way: not in a process of the box, nor in what a dump of the daemon has, nor in
output, database, log or backups."""
import base64
import os
import urllib.parse

from rows import c, play, row
from dumps import in_files, in_memory
from outside import Outside

ALLOW = {"mode": "allow", "allow": ["api.test", "q.test", "plain.test"]}
NAMES = ("HOLDER", "HEAD", "QUERY", "INLINE")
world = Outside("api.test", "q.test", "plain.test")
for option in world.options():
    name, _, text = option.partition("=")
    os.environ["COVE_" + name[2:].upper().replace("-", "_")] = text


def values():
    return {name: name.lower() + "." + os.urandom(20).hex() for name in NAMES}


def needles(all_values):
    """The values as they are, as a URL has them, and as basic credentials."""
    found = []
    for value in all_values.values():
        found += [value.encode(), urllib.parse.quote(value, safe="").encode(), base64.b64encode(value.encode()).rstrip(b"=")[:-2]]
    return sorted(set(found))


def use(stage, all_values):
    """Named secrets of each form and one of the sandbox's own, made, rotated and sent; a box that prints what it has."""
    cove = stage.cove
    forms = {"HOLDER": {}, "HEAD": {"header": {"name": "X-Api-Key", "format": "key {}"}}, "QUERY": {"query": "token"}}
    for name, form in forms.items():
        hosts = ["q.test"] if name == "QUERY" else ["api.test"]
        cove.request("PUT", "/v1/secrets/" + name, dict(form, value=all_values[name] + "-old", hosts=hosts))
    inline = [{"name": "INLINE", "value": all_values["INLINE"], "hosts": ["api.test"]}]
    box = stage.box(network=dict(ALLOW, secrets=inline), secrets=list(forms))
    for name, form in forms.items():
        hosts = ["q.test"] if name == "QUERY" else ["api.test"]
        cove.request("PUT", "/v1/secrets/" + name, dict(form, value=all_values[name], hosts=hosts))
    cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": dict(ALLOW, secrets=["HOLDER", "HEAD", "QUERY", {"name": "INLINE", "hosts": ["api.test"]}])})
    world.trusted(cove, box)
    for _ in range(3):
        cove.run(box, "curl -sS -m 60 -H \"Authorization: Bearer $HOLDER\" -u \"me:$INLINE\" https://api.test/a; curl -sS -m 60 https://q.test/b?x=1; "
                      "curl -sS -m 60 -d \"key=$HOLDER\" https://api.test/c; echo \"$HOLDER $HEAD $QUERY $INLINE\"; env")
    cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "env; sleep 1000"})
    cove.post("/v1/sandboxes/%s/api/execute" % box["id"], {"command": "env", "sessionId": "s"})
    cove.run(box, "env > /workspace/env")
    cove.post("/v1/sandboxes/%s/api/backup/create" % box["id"], {"dir": "/workspace"})
    return box


def jobs(cove, names):
    """Executions with the same secrets: two that have ended, one of them by a limit, and one that runs and whose log is followed."""
    body = {"network": ALLOW, "secrets": names, "command": "env; curl -sS -k -m 30 -H \"X-Key: $HOLDER\" https://api.test/e; echo done", "artifacts": {"paths": ["**"]}}
    for limits in ({}, {"wallTimeMs": 3000}):
        cove.post("/v1/executions?wait=60", dict(body, limits=limits, command=body["command"] + ("; sleep 600" if limits else "")))
    made = cove.post("/v1/executions", dict(body, command=body["command"] + "; sleep 600")).json["id"]
    c.until(lambda: b"done" in cove.get("/v1/executions/%s/logs" % made).body, 60)
    return made


def processes(stage, box):
    for pid in c._pids():
        try:
            if "/%s/%s" % (stage.cove.instance(), box["id"]) in open("/proc/%d/cgroup" % pid).read():
                yield pid
        except OSError:
            pass


def boxed(stage):
    """Places in the box where a value is."""
    mine = values()
    box = use(stage, mine)
    places = ["memory of %d: %s" % (pid, where) for pid in processes(stage, box) for where in in_memory(pid, needles(mine), True).values()]
    files = stage.cove.run(box, "grep -rlF -e %s /workspace /tmp /root /var/backups 2>/dev/null; true" % " -e ".join(mine.values()))["stdout"].split()
    return places + ["file: %s" % path for path in files], mine


def kept(stage, mine):
    """Files of the daemon and its log that have a value."""
    os.sync()
    found = in_files(os.path.join(stage.cove.data, "daemon"), needles(mine))
    log = [needle for needle in needles(mine) if needle.decode() in stage.cove.log_text()]
    return {**found, **{needle: "log" for needle in log}}


def dumped(stage):
    mine = values()
    box = use(stage, mine)
    stage.cove.run(box, "true")
    runs = jobs(stage.cove, NAMES[:3])
    found = in_memory(stage.cove.children()["daemon"], needles(mine))
    found.update(in_memory(stage.cove.children()["warden"], needles(mine)))
    stage.cove.post("/v1/executions/%s/cancel" % runs)
    return found


@row("S-01", "no process and no file of a box has the value of a secret")
def in_box(stage):
    stage.control_weak("placeholder", lambda weak: boxed(weak)[0], lambda places: any("memory" in p for p in places) and any("file" in p for p in places))
    places, mine = boxed(stage)
    c.ok(any(mine["HOLDER"] in str(dict(seen.headers)) for seen in world.seen), "S-01: the values were sent", [dict(seen.headers) for seen in world.seen[-3:]])
    c.same(places, [], "S-01: nothing in the box has one")


@row("S-02", "output, database, log and backups have no value")
def in_store(stage):
    def attack(weak):
        mine = values()
        use(weak, mine)
        return kept(weak, mine)
    stage.control_weak("seal,placeholder", attack, lambda found: any(p.endswith(("cove.db", "cove.db-wal")) for ps in found.values() for p in ps) and
                       any("tapes" in p for ps in found.values() for p in ps))
    c.same(attack(stage), {}, "S-02: no file of the daemon has one")


@row("S-03", "a dump of the daemon has no value")
def in_core(stage):
    stage.control_weak("secret_dumps", dumped, lambda found: len(found) >= len(NAMES))
    c.same(dumped(stage), {}, "S-03: what a core file of it would have")


try:
    play()
finally:
    world.close()
