#!/usr/bin/env python3
"""The only way out: ordinary programs reach the names that the policy has, by both ways of steering; everything else is
refused in words; each verdict is in the ledger; a policy changes live; and it all survives daemon and warden."""
import json
import os
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402
from outside import ledger, Outside, summed  # noqa: E402

c.need_root()
NAMES = ("www.test", "a.cdn.test", "cdn.test", "other.test", "echo.test", "seen.test", "forbidden.test")
POLICY = {"mode": "allow", "allow": ["www.test", "*.cdn.test", "echo.test:9000"]}
URLLIB = "import urllib.request as u; print(u.urlopen('%s').read().decode(), end='')"
TCP = r'''
import socket, sys
s = socket.create_connection((%r, %d), timeout=20)
s.sendall(b"ping"); print(s.recv(16).decode()); s.close()
'''


def patch(cove, box, network):
    return cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": network})


def python(cove, box, program, **fields):
    return cove.run(box, ["python3", "-I", "-"], stdin=program, **fields)


def reach(cove, box, env, scheme, name, program="curl"):
    """What a program of the box reads from there."""
    url = "%s://%s/%s" % (scheme, name, program)
    how = {"curl": ["curl", "-sS", "-m", "30", url],
           "urllib": ["python3", "-c", URLLIB % url],
           "node": ["node", "-e", "fetch('%s').then(r => r.text()).then(t => process.stdout.write(t))" % url]}[program]
    return cove.run(box, how, env=env)


def unmodified(cove, outside, by):
    box = cove.create(network=POLICY)
    env = outside.trusted(cove, box)
    for program in ("curl", "urllib", "node"):
        for scheme in ("http", "https"):
            got = reach(cove, box, env, scheme, "www.test", program)
            c.same(got["stdout"], "hello from www.test /%s\n" % program, "%s: %s over %s" % (by, program, scheme)) or \
                c.note(got["stderr"])
    c.same(reach(cove, box, env, "https", "a.cdn.test")["stdout"], "hello from a.cdn.test /curl\n", by + ": a name beneath *.suffix")
    c.same(python(cove, box, TCP % ("echo.test", 9000))["stdout"], "ping\n", by + ": name:port, of no known protocol")
    c.ok("echo.test" in outside.names and not [s for s in outside.seen if s.host not in ("www.test", "a.cdn.test")],
         by + ": nobody else was asked for anything", [(s.host, s.path) for s in outside.seen])
    return box, env


def refused(cove, outside, box, env, by):
    before = outside.accepted
    for name in ("other.test", "cdn.test", "a.b.other.test"):
        got = cove.run(box, ["curl", "-sS", "-m", "20", "https://%s/" % name], env=env)
        c.ok(got["exitCode"] == 6, "%s: %s does not exist there" % (by, name), got)
    got = cove.run(box, ["curl", "-sS", "-m", "20", "-i", "--resolve", "other.test:80:93.184.216.34", "http://other.test/"])
    c.ok("403" in got["stdout"].split("\n")[0] and "not_allowed" in got["stdout"] and
         "cove policy %s" % box["id"] in got["stdout"] and "other.test" in got["stdout"],
         by + ": over HTTP the refusal says the line that would allow it", got)
    got = cove.run(box, ["curl", "-sS", "-m", "20", "--resolve", "other.test:443:93.184.216.34", "https://other.test/"], env=env)
    c.ok(got["exitCode"] == 35 and "alert" in got["stderr"], by + ": over TLS it is an alert", got)
    got = python(cove, box, TCP % ("www.test", 9000))
    c.ok(got["exitCode"] and "ping" not in got["stdout"], by + ": another port of an allowed name is none", got)
    c.same(outside.accepted, before, by + ": and nothing of it left")
    rows, totals = ledger(cove, box, verdict="deny")
    found = {(row["name"], row["port"], row["reason"]) for row in rows}
    c.ok({("other.test", 80, "not_allowed"), ("other.test", 443, "not_allowed"), ("www.test", 9000, "port_not_allowed")} <= found,
         by + ": each is in the ledger with its reason", found)
    c.ok(totals["denied"] == len(rows), by + ": and counted", totals, len(rows))


def written_down(cove, box, by):
    rows, totals = ledger(cove, box, verdict="allow")
    c.same(sorted({(row["name"], row["rule"]) for row in rows}),
           [("a.cdn.test", "*.cdn.test"), ("echo.test", "echo.test:9000"), ("www.test", "www.test")],
           by + ": each name is in the ledger with the rule that let it out")
    c.ok(all(row["bytesOut"] > 0 and row["bytesIn"] > 0 and row["address"].startswith("127.") for row in rows),
         by + ": with bytes and address", rows)
    sums = summed(rows)
    c.same({key: totals[key] for key in sums}, sums, by + ": the totals are the sums of the rows")
    events = [line for line in cove.log_text().splitlines() if "egress_denied" in line and box["id"] in line]
    c.ok(events and json.loads(events[0])["reason"], by + ": denials are security events", events[:3])


HOLD = r'''
import socket, sys
s = socket.create_connection(("echo.test", 9000), timeout=60)
s.sendall(b"ping"); s.recv(16); open("/workspace/held", "w").close()
try:
    print("ended" if not s.recv(16) else "bytes")
except OSError as e:
    print("ended")
'''


def live(cove, outside, box, env):
    held = cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "python3 -c '%s' > out" % HOLD.replace("'", '"')})
    c.ok(held.status == 200 and c.until(lambda: cove.out(box, "ls held 2>/dev/null")), "a connection is open", held)
    reply = patch(cove, box, {"mode": "allow", "allow": ["other.test"]})
    c.ok(reply.status == 200 and reply.json["network"]["allow"] == ["other.test"], "the policy is replaced live", reply)
    c.same(reach(cove, box, env, "https", "other.test")["stdout"], "hello from other.test /curl\n", "a host of the new policy passes at once")
    c.same(reach(cove, box, env, "https", "www.test")["exitCode"], 6, "a host of the old policy does not")
    c.ok(c.until(lambda: cove.out(box, "cat out") == "ended\n"), "and what was open is ended", cove.out(box, "cat out"))
    c.same(patch(cove, box, {"mode": "allow", "allow": ["http://x"]}).status, 400, "a malformed one is refused")
    c.same(reach(cove, box, env, "https", "other.test")["stdout"], "hello from other.test /curl\n", "and changes nothing")
    c.same(patch(cove, box, {"mode": "off"}).status, 200, "off")
    c.ok(reach(cove, box, env, "http", "other.test")["exitCode"] == 6, "is no names")
    got = cove.run(box, ["curl", "-sS", "-m", "20", "http://198.18.0.1/"])
    c.ok(got["exitCode"] == 7, "and nobody at any address", got)
    c.same(patch(cove, box, {"mode": "all"}).status, 200, "all")
    c.same(reach(cove, box, env, "https", "forbidden.test")["stdout"], "hello from forbidden.test /curl\n", "is every name")
    c.same(patch(cove, box, POLICY).status, 200, "and back")


def born_off(cove, env):
    box = cove.create(network={"mode": "off"})
    c.same(cove.run(box, ["curl", "-sS", "-m", "20", "http://www.test/"])["exitCode"], 6, "a box without network knows no name")
    c.same(patch(cove, box, POLICY).status, 200, "the sandbox gets a network")
    c.same(reach(cove, box, env, "http", "www.test")["stdout"], "hello from www.test /curl\n", "and is out")
    cove.delete(box)


def survives(cove, outside, box, env):
    for roles in (("daemon",), ("warden",), ("daemon", "warden")):
        for role, pid in cove.children().items():
            if role in roles:
                os.kill(pid, signal.SIGKILL)
        words = " and ".join(roles)
        patiently(lambda: cove.get("/v1/sandboxes/" + box["id"]))

        def again():
            got = patiently(lambda: cove.execute(box, ["curl", "-sS", "-m", "20", "https://www.test/curl"], env=env))
            return got.status == 200 and got.json["stdout"] == "hello from www.test /curl\n"
        c.ok(c.until(again, 30, 0.2), "after the end of %s the box is out again" % words)
        got = cove.run(box, ["curl", "-sS", "-m", "20", "https://other.test/"], env=env)
        c.ok(got["exitCode"] == 6, "by the same policy", got)
    inside = patiently(lambda: cove.post("/v1/sandboxes/%s/stop" % box["id"]))
    c.ok(inside.status in (200, 202, 204), "stopped", inside)
    c.ok(c.until(lambda: reach(cove, box, env, "https", "www.test")["stdout"] == "hello from www.test /curl\n"),
         "a box that was stopped is out again when it wakes")


def attach_fails(cove, box, env):
    """A daemon that comes after another attaches the network of its boxes anew. The warden is short of descriptors then."""
    warden = cove.children()["warden"]
    most = resource.prlimit(warden, resource.RLIMIT_NOFILE)
    lines = lambda: cove.log_text().count('"event":"egress.not_open"')
    seen = False
    for spare in range(1, 9):  # enough for adoption and too few for the sockets
        used = {int(fd) for fd in os.listdir("/proc/%d/fd" % warden)}
        free = [fd for fd in range(max(used) + 10) if fd not in used]
        before = lines()
        resource.prlimit(warden, resource.RLIMIT_NOFILE, (free[spare], most[1]))
        daemon = cove.children()["daemon"]
        os.kill(daemon, signal.SIGKILL)
        c.until(lambda: cove.children().get("daemon", daemon) != daemon, 30)
        adopted = patiently(lambda: cove.get("/v1/sandboxes/" + box["id"]))
        seen = c.until(lambda: lines() > before, 3) and adopted.status == 200 and adopted.json["state"] == "running"
        if seen:
            break
        resource.prlimit(warden, resource.RLIMIT_NOFILE, most)
        c.until(lambda: patiently(lambda: cove.execute(box, ["true"])).status == 200)
    c.ok(seen, "a network that could not be attached at adoption: the box is there, and the log says so", cove.log_text()[-2000:])
    resource.prlimit(warden, resource.RLIMIT_NOFILE, most)

    def again():
        got = patiently(lambda: cove.execute(box, ["curl", "-sS", "-m", "20", "https://www.test/curl"], env=env))
        return got.status == 200 and got.json["stdout"] == "hello from www.test /curl\n"
    c.ok(c.until(again, 60, 0.2), "the network is attached when descriptors are free again")
    c.same(cove.children()["warden"], warden, "by the same warden")


def main():
    outside = Outside(*NAMES)
    outside.echo()
    try:
        for by in ("sk_lookup", "nft"):
            outside.seen.clear()
            cove = c.Cove(*outside.options("--steer=" + by))
            if patiently(lambda: cove.get("/v1/health")).status != 200:
                raise RuntimeError("no health")
            box, env = unmodified(cove, outside, by)
            refused(cove, outside, box, env, by)
            written_down(cove, box, by)
            if by == "sk_lookup":
                live(cove, outside, box, env)
                born_off(cove, env)
                attach_fails(cove, box, env)
            survives(cove, outside, box, env)
            cove.delete(box)
            c.same(cove.stop(), 0, by + ": cove stops cleanly")
            c.same(c.remains(cove), {}, by + ": nothing is left")
            cove.close()
    finally:
        outside.close()
    c.done()


main()
