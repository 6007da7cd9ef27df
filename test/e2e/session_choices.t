#!/usr/bin/env python3
"""What an agent session chooses: template, network, secrets and files of its sandbox are as asked, durable, and the same when the
sandbox is made again; sessions of one sandbox agree or are told so; what may not be had is refused with a hint; the default template
of a tenant."""
import base64
import ctypes
import io
import os
import re
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402

c.need_root()
if not os.path.exists("/bin/busybox"):
    c.skip_all("this host has no busybox")

# A runner for a template that has nothing but busybox: it tells where it is.
RUNNER = r'''
field() { echo "$1" | sed -n "s/.*\"$2\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }
while IFS= read -r line; do
	case "$line" in
	*'"type":"attach"'*)
		connection=$(field "$line" connection)
		printf '{"type":"hello","protocol":1,"version":"1","session":"%s","instance":"%s","generation":%s,"connection":%s,"run":null}\n' \
			"$COVE_SESSION" "$COVE_INSTANCE" "$COVE_GENERATION" "$connection" >&"$COVE_RUNNER_FD" ;;
	*'"type":"run"'*)
		about="\"run\":\"$(field "$line" run)\",\"run_generation\":$(field "$line" run_generation),\"connection\":$connection"
		echo "{\"type\":\"accepted\",$about}" >&"$COVE_RUNNER_FD"
		motd=$(cat /etc/motd 2>/dev/null); extra=$(cat note.txt sub/deep.bin /opt/abs 2>/dev/null | tr -d '\n')
		echo "{\"type\":\"result\",$about,\"seq\":1,\"status\":\"completed\",\"output\":{\"motd\":\"$motd\",\"token\":\"$TOKEN\",\"extra\":\"$extra\",\"mode\":\"$(stat -c %a note.txt)\"}}" >&"$COVE_RUNNER_FD" ;;
	*'"type":"ping"'*)
		echo "{\"type\":\"pong\",\"number\":$(field "$line" number)}" >&"$COVE_RUNNER_FD" ;;
	esac
done
'''
FILES = [{"path": "runner.sh", "content": RUNNER, "mode": "0755"}, {"path": "note.txt", "content": "a note\n", "mode": "0600"},
         {"path": "sub/deep.bin", "contentBase64": base64.b64encode(b"deep").decode()}, {"path": "/opt/abs", "content": "abs"}]
ARGV = ["/bin/busybox", "sh", "runner.sh"]
SETUP = ["/bin/busybox", "sh", "-c", "busybox --install -s /bin; exec sh runner.sh"]


def template(cove, name, key=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in ("bin", "etc", "tmp", "workspace", "root", "proc", "sys", "dev", "run"):
            info = tarfile.TarInfo(path)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        with open("/bin/busybox", "rb") as file:
            busybox = file.read()
        for path, data in (("bin/busybox", busybox), ("etc/motd", b"this is " + name.encode())):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return cove.request("POST", "/v1/templates?name=" + name, out.getvalue(), raw=True, key=key, headers={"Content-Type": "application/x-tar"})


def ask(cove, key=True, **body):
    body.setdefault("user", "u")
    body.setdefault("runner", {"argv": SETUP})
    return cove.request("POST", "/v1/agent-sessions", body, key=key)


def output(cove, session):
    """What a run of it tells."""
    path = "/v1/agent-sessions/%s/runs" % session["id"]
    run = s.patiently(lambda: cove.post(path, {"input": 1})).json["id"]
    got = c.until(lambda: (lambda g: g if g["state"] in s.OVER else None)(s.patiently(lambda: cove.get(path + "/" + run)).json), 90, 0.05)
    return got and (got["result"] or {}).get("output") or got


def chosen(cove):
    cove.request("PUT", "/v1/secrets/TOKEN", {"value": "v-" + os.urandom(12).hex(), "hosts": ["api.test"]})
    made = ask(cove, user="a", template="tiny", network={"mode": "allow", "allow": ["api.test"]}, secrets=["TOKEN"], files=FILES)
    c.same(made.status, 201, "a session chooses template, network, secrets and files")
    own = made.json
    c.same((own["template"], own["network"], own["secrets"]), ("tiny", {"mode": "allow", "allow": ["api.test"]}, ["TOKEN"]), "which GET shows")
    c.same([(f["path"], f["size"], f["mode"]) for f in own["files"]],
           [("runner.sh", len(RUNNER), "0755"), ("note.txt", 7, "0600"), ("sub/deep.bin", 4, "0644"), ("/opt/abs", 3, "0644")],
           "with paths, sizes and modes of the files, and not what is in them")
    want = {"motd": "this is tiny", "extra": "a notedeepabs", "mode": "600"}

    def same(when):
        got = output(cove, own)
        c.ok({k: got.get(k) for k in want} == want and got.get("token", "").startswith("cove-secret-"), "%s: template, files and secret are there" % when, got)
        box = cove.get("/v1/sandboxes/" + own["sandbox_id"]).json
        c.same((box["template"], box["network"]["mode"], box["network"]["allow"], box["network"]["secrets"]),
               ("tiny", "allow", ["api.test"], ["TOKEN"]), "%s: the sandbox is as it was asked for" % when)
    same("the first run")
    cove.run(own["sandbox_id"], ["/bin/busybox", "sh", "-c", "echo changed > /workspace/%s/note.txt" % own["directory"]])
    got = output(cove, own)
    c.same(got["extra"], "changeddeepabs", "files are written once: what the runner makes of them stays")
    return own, same


def again(cove, own, same):
    c.same(cove.request("DELETE", "/v1/sandboxes/" + own["sandbox_id"]).status, 204, "the sandbox is deleted under the session")
    same("in a sandbox that was made again")
    before = cove.get("/v1/agent-sessions/" + own["id"]).json
    s.kill_daemon(cove)
    after = s.patiently(lambda: cove.get("/v1/agent-sessions/" + own["id"])).json
    keys = ("template", "network", "secrets", "files")
    c.same({k: after.get(k) for k in keys}, {k: before.get(k) for k in keys}, "after kill -9 the session has the same choices")
    cove.request("DELETE", "/v1/sandboxes/" + own["sandbox_id"])
    same("made again by the next daemon")
    pid = pid1(cove, own["sandbox_id"])
    c.same(read_only(pid), 0, "its file system is remounted read-only")
    late = ask(cove, user="a", files=FILES).json
    got = output(cove, late)
    c.same((got.get("motd"), got.get("extra")), ("this is tiny", "a notedeepabs"), "the sandbox is rebuilt for a sibling, as it was")
    same("and for itself")
    cove.request("DELETE", "/v1/agent-sessions/" + late["id"])


def read_only(pid):
    """Remounts the root of that process, from a child: the sandbox has no program for it."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY)
    failed = libc.setns(fd, 0) or libc.mount(b"none", b"/", None, 32 | 1, None)  # MS_REMOUNT | MS_RDONLY
    os._exit(ctypes.get_errno() if failed else 0)


def pid1(cove, box):
    for pid in c._pids():
        try:
            with open("/proc/%d/cgroup" % pid) as groups, open("/proc/%d/status" % pid, errors="replace") as status:
                numbers = [line.split()[1:] for line in status if line.startswith("NSpid:")][0]
                if "/%s/%s" % (cove.instance(), box) in groups.read() and numbers[-1] == "1":
                    return pid
        except (OSError, IndexError):
            pass
    return None


def shared(cove, own):
    reply = ask(cove, user="a")
    c.ok(reply.status == 201 and reply.json["sandbox"] == own["sandbox"] and reply.json["template"] == "tiny" and
         reply.json["secrets"] == ["TOKEN"] and "files" not in reply.json, "a sibling that chooses nothing lives in the sandbox as it is", reply)
    for what, body in (("template", {"template": "host"}), ("network", {"network": {"mode": "off"}}), ("secrets", {"secrets": []})):
        other = ask(cove, user="a", **body)
        c.ok(other.status == 409 and other.json["reason"] == "sandbox_differs" and what in other.json["message"] and "isolation" in other.json["hint"],
             "one that asks for another %s is told so" % what, other)
    c.same(ask(cove, user="a", template="tiny").status, 201, "one that asks for the same is welcome")
    alone = ask(cove, user="a", template="host", isolation="session")
    c.ok(alone.status == 201 and alone.json["template"] == "host" and alone.json["sandbox"] != own["sandbox"], "in a sandbox of its own it has its own", alone)
    first = ask(cove, user="alias", template="tiny", aliases=["t-1"])
    c.same((first.status, ask(cove, user="alias", template="tiny", aliases=["t-1"]).status, ask(cove, user="alias", aliases=["t-1"]).status),
           (201, 200, 200), "an alias resumes the session, with the same choices or none")
    c.same(ask(cove, user="alias", template="host", aliases=["t-1"]).status, 409, "and not with others")
    for item in cove.get("/v1/agent-sessions").json["items"]:
        if item["id"] != own["id"]:
            cove.request("DELETE", "/v1/agent-sessions/" + item["id"])
    path = "/v1/agent-sessions/" + own["id"]
    cove.request("DELETE", path)
    c.until(lambda: cove.get(path).status == 404, 60)
    left = ask(cove, user="a", template="host")
    c.ok(left.status == 409 and left.json["reason"] == "sandbox_differs", "the sandbox outlives its sessions, and is still of its template", left)
    took = ask(cove, user="a")
    c.ok(took.status == 201 and took.json["template"] == "tiny", "a session that chooses nothing gets that", took)


def refused(cove):
    big = "x" * (128 * 1024 + 1)
    for what, body, status, reason in (
            ("an absent template", {"template": "none"}, 404, "no_template"), ("a template's bad name", {"template": "../x"}, 400, "bad_template"),
            ("an absent profile", {"profile": "NONE"}, 400, "no_profile"), ("a profile that is no name", {"profile": 3}, 400, "bad_field"),
            ("an absent secret", {"secrets": ["NO_SUCH"]}, 400, "no_secret"),
            ("a secret with its value", {"network": {"mode": "off", "secrets": [{"name": "A", "value": "b", "hosts": ["api.test"]}]}}, 400, "bad_field"),
            ("a network that is none", {"network": {"mode": "some"}}, 400, "bad_field"), ("a path that leads out", {"files": [{"path": "../x", "content": ""}]}, 400, "bad_path"),
            ("one that does so later", {"files": [{"path": "a/../../x", "content": ""}]}, 400, "bad_path"),
            ("a file without content", {"files": [{"path": "x"}]}, 400, "bad_field"), ("a file that is too large", {"files": [{"path": "x", "content": big}]}, 413, "file_too_large"),
            ("no base64", {"files": [{"path": "x", "contentBase64": "?"}]}, 400, "bad_field"), ("no mode", {"files": [{"path": "x", "content": "", "mode": "rw"}]}, 400, "bad_field"),
            ("too many files", {"files": [{"path": "x", "content": ""}] * 65}, 400, "bad_field"),
            ("too much in all", {"files": [{"path": "x%d" % i, "content": big[1:]} for i in range(5)]}, 413, "too_large")):
        reply = ask(cove, user="no", **body)
        c.ok(reply.status == status and reply.json["reason"] == reason, "refused: " + what, reply)
    c.same([i for i in cove.get("/v1/agent-sessions").json["items"] if i["user"] == "no"], [], "and no session was made")


def tenants(cove):
    cove.request("PUT", "/v1/tenants/acme", {"network": "allow", "templates": ["tiny"]})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use", "templates"]}).json["key"]
    reply = ask(cove, key)
    c.ok(reply.status == 403 and reply.json["reason"] == "host_not_allowed" and reply.json["hint"], "a tenant without `host` and default is refused", reply)
    c.same(ask(cove, key, template="tiny", user="t1").status, 201, "a template that it may use is accepted")
    reply = ask(cove, key, template="tiny", user="t2", network={"mode": "all"})
    c.ok(reply.status == 403 and reply.json["reason"] == "network_not_allowed" and reply.json["hint"], "a network beyond its own is refused", reply)
    c.same(cove.request("PUT", "/v1/tenants/acme", {"defaultTemplate": "../x"}).status, 400, "a default template must be a name")
    reply = cove.request("PUT", "/v1/tenants/acme", {"network": "allow", "templates": ["tiny"], "defaultTemplate": "tiny"})
    c.same((reply.status, reply.json["defaultTemplate"]), (200, "tiny"), "the operator sets its default template")
    reply = ask(cove, key, user="t3", files=FILES)
    c.ok(reply.status == 201 and reply.json["template"] == "tiny", "then a session that chooses none gets it", reply)
    box = cove.request("POST", "/v1/sandboxes", {}, key=key)
    c.ok(box.status == 201 and box.json["template"] == "tiny", "and so does a sandbox", box)
    cove.delete(box.json)
    s.kill_daemon(cove)
    c.same(s.patiently(lambda: cove.get("/v1/tenants/acme")).json["defaultTemplate"], "tiny", "after kill -9, too")
    c.same(template(cove, "own", key).status, 201, "a template of the tenant's own")
    cove.request("PUT", "/v1/tenants/acme", {"network": "allow", "defaultTemplate": "own"})
    reply = ask(cove, key, user="t4")
    c.ok(reply.status == 201 and reply.json["template"] == "own", "may be its default", reply)
    cove.request("DELETE", "/v1/templates/own", key=key)
    reply = ask(cove, key, user="t5")
    c.ok(reply.status == 404 and reply.json["reason"] == "no_template", "a default that is gone is told", reply)


def documents(cove):
    """The examples of docs/RUNNER.md and docs/API.md, literally."""
    with open(os.path.join(c.ROOT, "docs", "RUNNER.md")) as file:
        text = file.read()
    lines = [line[4:] for line in re.findall(r"^    cove agent-session .*$", text, re.M)]
    c.ok(len(lines) >= 2, "docs/RUNNER.md shows how a runner is started", lines)
    env = dict(cove.env, COVE_DATA=cove.data, PATH=os.path.dirname(cove.binary) + ":" + os.environ["PATH"])
    done = subprocess.run(["bash", "-ec", "\n".join(lines)], cwd=c.ROOT, env=env, capture_output=True, text=True, timeout=120)
    c.ok(done.returncode == 0 and "hello from a runner" in done.stdout, "which works as it stands", done)


def main():
    cove = s.start()
    try:
        c.same(template(cove, "tiny").status, 201, "a template with busybox alone")
        own, same = chosen(cove)
        again(cove, own, same)
        shared(cove, own)
        refused(cove)
        tenants(cove)
        documents(cove)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
    c.done()


main()
