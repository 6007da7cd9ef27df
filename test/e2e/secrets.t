#!/usr/bin/env python3
"""Secrets that never enter a sandbox: its programs have a placeholder, the server that the secret is for sees the value, and
nothing else does: no process of the box, no file of cove's, no line of its log, no answer."""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402
from outside import ledger, Outside  # noqa: E402

c.need_root()
VALUE = "tk." + os.urandom(24).hex()  # never twice: whatever has it has it from this run
PATTERN = VALUE[:20] + "[" + VALUE[20] + "]" + VALUE[21:]  # finds it, and does not have it
SECRET = {"name": "API_TOKEN", "value": VALUE, "hosts": ["api.test", "*.deep.test"]}
KNOWN = {"name": "API_TOKEN", "hosts": SECRET["hosts"]}
POLICY = {"mode": "allow", "allow": ["api.test", "a.deep.test", "see.test", "opaque.test", "wrong.test"], "inspect": ["see.test", "wrong.test"],
          "secrets": [SECRET], "rules": [{"name": "see.test", "methods": ["GET"], "paths": ["/open/*"]}]}


class Last:
    """What the server saw last."""

    def __init__(self, outside):
        self.outside = outside

    def __getattr__(self, name):
        return getattr(self.outside.seen[-1], name)


def python(cove, box, program, **fields):
    return cove.run(box, ["/usr/bin/python3", "-I", "-"], stdin=program, **fields)


def swapped(cove, outside, box, when):
    last = Last(outside)
    holder = cove.out(box, "printf %s \"$API_TOKEN\"")
    c.ok(holder.startswith("cove-secret-") and len(holder) == 44, when + ": the box has a placeholder", holder)
    for http in ("--http1.1", "--http2"):
        got = cove.run(box, "curl -sS -m 30 %s -H \"Authorization: Bearer $API_TOKEN\" https://api.test/curl%s" % (http, http))
        c.ok(got["stdout"] == "hello from api.test /curl%s\n" % http and last.headers["Authorization"] == "Bearer " + VALUE,
             "%s: curl %s: the server sees the value" % (when, http), got, outside.seen and last.headers)
    return holder


def clients(cove, outside, box, holder):
    last = Last(outside)
    got = python(cove, box, "import os, urllib.request as u\n"
                            "r = u.Request('https://api.test/urllib', headers={'X-Key': os.environ['API_TOKEN']})\n"
                            "print(u.urlopen(r).read().decode(), end='')")
    c.ok(got["stdout"] == "hello from api.test /urllib\n" and last.headers["X-Key"] == VALUE, "urllib", got)
    got = python(cove, box, "import os, requests as r\nt = os.environ['API_TOKEN']\n"
                            "with r.Session() as s:\n"
                            "    for n in range(3): print(s.post('https://api.test/requests', auth=('me', t), json={'key': t}).text, end='')")
    import base64
    c.ok(got["stdout"] == "hello from api.test /requests\n" * 3 and
         base64.b64decode(last.headers["Authorization"].split()[1]).decode() == "me:" + VALUE and
         last.body == b'{"key": "%s"}' % VALUE.encode(), "requests, in Basic credentials and in a body, on a kept connection", got, last.headers, last.body)
    got = cove.run(box, "node -e \"fetch('https://a.deep.test/node?k=' + process.env.API_TOKEN).then(r => r.text()).then(t => process.stdout.write(t))\"",
                   env={"NODE_EXTRA_CA_CERTS": "/usr/local/share/ca-certificates/cove.crt"})
    c.ok(got["stdout"] == "hello from a.deep.test /node\n" and last.path == "/node?k=" + VALUE, "node, in a query, to a name beneath *.suffix", got)
    c.ok(not any(VALUE in str(part) for s in outside.seen if s.host in ("see.test", "opaque.test") for part in (s.path, s.headers, s.body)),
         "so far nobody else has it")


def kept_back(cove, outside, box, env, holder):
    last = Last(outside)
    got = cove.run(box, "curl -sS -m 30 -H \"X-Key: $API_TOKEN\" https://see.test/open/a")
    c.ok(got["stdout"] == "hello from see.test /open/a\n" and last.headers["X-Key"] == holder, "another name gets the placeholder, inspected", got)
    got = cove.run(box, "curl -sS -m 30 -H \"X-Key: $API_TOKEN\" https://opaque.test/", env=env)
    c.ok(got["stdout"] == "hello from opaque.test /\n" and last.headers["X-Key"] == holder, "or opaque", got)
    got = cove.run(box, "curl -sS -m 30 -H \"X-Key: $API_TOKEN\" http://api.test/plain")
    c.ok(last.headers["X-Key"] == holder if got["stdout"].startswith("hello") else "403" in got["stdout"] or "cove:" in got["stdout"],
         "and plain HTTP, whoever it is for", got)
    before = len(outside.seen)
    got = cove.run(box, "curl -sS -m 30 -H \"Host: see.test\" -H \"X-Key: $API_TOKEN\" https://api.test/open/front")
    c.ok("421" in got["stdout"] or "misdirected" in got["stdout"], "a request for another host than was greeted is refused", got)
    for words, reason in (("-d x https://see.test/open/b", "method_not_allowed"), ("https://see.test/closed", "path_not_allowed"),
                          ("--path-as-is https://see.test/open/../closed", "path_ambiguous")):
        got = cove.run(box, "curl -sS -m 30 -i " + words)
        c.ok("403" in got["stdout"].split("\n")[0] and reason in got["stdout"], "rules of requests: " + reason, got)
    got = cove.run(box, "curl -sS -m 30 -i https://wrong.test/")
    c.ok(" 502 " in got["stdout"].split("\n")[0] and "bad_tls" in got["stdout"], "a server that cannot prove its name is not believed", got)
    c.same(len(outside.seen), before, "none of these left")


def boxed_memory(cove, needle):
    """Processes of the box that have it in their memory."""
    found = []
    for pid in (pid for pid in c._pids() if c._is_boxed(pid, cove.instance())):
        try:
            with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as mem:
                spans = [line.split()[0].split("-") for line in maps if "r" in line.split()[1] and "[v" not in line]
                for low, high in spans:
                    mem.seek(int(low, 16))
                    try:
                        if needle.encode() in mem.read(int(high, 16) - int(low, 16)):
                            found.append((pid, low))
                    except (OSError, ValueError, OverflowError):
                        pass
        except OSError:
            pass
    return found


def has(path, needle):
    """Whether a file has it: in its data, not in its holes."""
    with open(path, "rb", 0) as file:
        size, at, tail = os.fstat(file.fileno()).st_size, 0, b""
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            except OSError:
                return False
            while at < end:
                piece = os.pread(file.fileno(), min(1 << 22, end - at), at)
                if not piece:
                    break
                if needle in tail + piece:
                    return True
                tail, at = piece[-len(needle):], at + len(piece)
    return False


def on_disk(cove, needle):
    found = []
    for top, _, names in os.walk(cove.data):
        for name in names:
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                if has(path, needle.encode()):
                    found.append(path)
    return found


def nowhere(cove, outside, box, holder, when):
    words = when + ": "
    program = ("import os, time\ntoken = os.environ['API_TOKEN']\n"
               "import urllib.request as u\n"
               "r = u.Request('https://api.test/held', headers={'X-Key': token})\nbody = u.urlopen(r).read()\n"
               "open('/workspace/held', 'wb').write(body); time.sleep(120)\n")
    cove.run(box, "rm -f held; cat > held.py", stdin=program)
    started = cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "set -x; echo $API_TOKEN; env; /usr/bin/python3 -I held.py"})
    c.ok(started.status == 200 and c.until(lambda: cove.out(box, "cat held 2>/dev/null") == "hello from api.test /held\n", 30) and
         Last(outside).headers["X-Key"] == VALUE, words + "a process that used it runs", started)
    c.ok(boxed_memory(cove, holder), words + "which has the placeholder in its memory")
    c.same(boxed_memory(cove, VALUE), [], words + "no process of the box has it in its memory")
    got = cove.run(box, "cat /proc/*/environ /proc/self/mountinfo 2>/dev/null | tr '\\0' '\\n'; find /etc /workspace /tmp /run /root "
                        "/home /usr/local /var -type f -mmin -10 -exec grep -l '%s' {} + 2>/dev/null" % PATTERN)
    c.ok(VALUE not in got["stdout"] and "cove-secret-" in got["stdout"] and "/workspace" in got["stdout"], words + "nor an environment or file of it",
         got["stdout"][-500:])
    made = cove.post("/v1/sandboxes/%s/api/backup/create" % box["id"], {"dir": "/workspace", "archivePath": "/var/backups/all.sqsh"})
    back = cove.post("/v1/sandboxes/%s/api/backup/restore" % box["id"], {"dir": "/workspace/back", "archivePath": "/var/backups/all.sqsh"})
    packed = cove.run(box, "grep -rl '%s' back /var/backups | wc -l; grep -rlF \"os.environ['API_TOKEN']\" back; rm -r back" % PATTERN)
    c.ok(made.status == 200 and back.status == 200 and packed["stdout"] == "0\nback/held.py\n", words + "nor a backup", made, back, packed)
    for path in ("", "/egress?limit=1000", "/api/process/list"):
        reply = cove.get("/v1/sandboxes/" + box["id"] + path)
        c.ok(reply.status == 200 and VALUE.encode() not in reply.body, words + "nor an answer: GET ID" + path, reply.status)
    reply = cove.get("/v1/events?after=0&limit=1000")
    c.ok(reply.status == 200 and VALUE.encode() not in reply.body, words + "nor the events", reply)
    c.ok(VALUE not in cove.log_text(), words + "nor the log")
    os.sync()
    found = on_disk(cove, holder)
    c.ok(any("/daemon/" in path for path in found) and any("/tapes/" in path for path in found), words + "store and tapes have the placeholder", found)
    c.same(on_disk(cove, VALUE), [], words + "nor any file of cove's: store, tapes, ledger, disks")
    cove.run(box, "pkill -f held.py")


def main():
    outside = Outside("api.test", "a.deep.test", "see.test", "opaque.test")
    outside.hosts["wrong.test"] = outside.address
    cove = c.Cove(*outside.options(), env={"COVE_LOG_LEVEL": "debug"})
    try:
        box = cove.create(network=POLICY)
        c.ok(VALUE not in str(box), "the answer of create does not have the value", box["network"])
        env = outside.trusted(cove, box)
        holder = swapped(cove, outside, box, "at first")
        clients(cove, outside, box, holder)
        kept_back(cove, outside, box, env, holder)
        nowhere(cove, outside, box, holder, "at first")
        reply = cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": dict(POLICY, secrets=[KNOWN])})
        c.ok(reply.status == 200 and VALUE.encode() not in reply.body, "a PATCH without the value keeps it", reply)
        c.same(swapped(cove, outside, box, "after it"), holder, "and the placeholder")
        reply = cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": dict(POLICY, secrets=[dict(KNOWN, hosts=["see.test"])])})
        c.same(reply.status, 400, "but not for hosts that it was not for")
        for pid in cove.children().values():
            os.kill(pid, signal.SIGKILL)
        c.until(lambda: patiently(lambda: cove.get("/v1/sandboxes/" + box["id"])).json["state"] == "running", 30)
        c.until(lambda: patiently(lambda: cove.execute(box, "getent ahosts api.test")).json["stdout"], 30)
        swapped(cove, outside, box, "after the end of daemon and warden")
        nowhere(cove, outside, box, holder, "then")
        rows, _ = ledger(cove, box, name="api.test")
        c.ok(rows and sum(row["requests"] for row in rows) >= 10, "the ledger has its requests, one by one", rows)
        cove.delete(box)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
        outside.close()
    c.done()


main()
