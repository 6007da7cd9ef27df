#!/usr/bin/env python3
"""People without root: members of a group use the API by a Unix socket, with the rights that the operator sets and
under their own names in the audit log; anybody keeps addresses and keys as contexts; and the first refusal of a
tenant's key names the command that ends it. The service manager is told when cove is ready and when it goes."""
import grp
import hashlib
import json
import os
import pty
import pwd
import select
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

import cove as c

c.need_root()
USER = pwd.getpwnam("games")  # of every Debian; not a member of the group by itself
OTHER = pwd.getpwnam("nobody")
GROUP = grp.getgrnam("users")
home = tempfile.mkdtemp(prefix="cove-users-")
os.chmod(home, 0o711)
# A build tree may lie where only its owner may look.
binary = os.path.join(home, "cove")
shutil.copy(c.BIN, binary)
os.chmod(binary, 0o755)
notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notices.bind(os.path.join(home, "notify"))
notices.settimeout(30)
daemon = c.Cove("--users-group", GROUP.gr_name, env={"NOTIFY_SOCKET": os.path.join(home, "notify")}, binary=binary)


def config_of(user):
    path = os.path.join(home, "config-" + user.pw_name)
    if not os.path.exists(path):
        os.mkdir(path, 0o700)
        os.chown(path, user.pw_uid, user.pw_gid)
    return path


def drop(user, groups):
    def become():
        os.setgroups(groups)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    return become


def cove(*words, user=USER, groups=(GROUP.gr_gid,), data=True, env=None, stdin=None):
    where = {k: v for k, v in os.environ.items() if not k.startswith("COVE_")}
    where["XDG_CONFIG_HOME"] = config_of(user)
    if data:
        where["COVE_DATA"] = daemon.data
    where.update(env or {})
    return subprocess.run([binary, *words], env=where, cwd="/", input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120, preexec_fn=drop(user, list(groups)))


def by_socket(path, method="GET", body=None, headers=None, user=USER, groups=(GROUP.gr_gid,)):
    """One exchange in a child that is that user: status and answer."""
    script = ("import http.client,socket,sys,json\n"
              "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
              "h=http.client.HTTPConnection('localhost'); h.sock=s\n"
              "h.request(sys.argv[2],sys.argv[3],sys.argv[4] or None,json.loads(sys.argv[5]))\n"
              "r=h.getresponse(); print(r.status); print(r.read().decode())")
    got = subprocess.run(["/usr/bin/python3", "-c", script, api, method, path, body or "", json.dumps(headers or {})], cwd="/",
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, preexec_fn=drop(user, list(groups)))
    if got.returncode:
        return 0, got.stderr
    status, text = got.stdout.split("\n", 1)
    return int(status), text


# ------------------------------------------------------------------------------------- the manager

c.same(notices.recv(4096), b"READY=1", "the service manager is told once cove serves")
c.same(daemon.get("/v1/health").status, 200, "and then it does")

# -------------------------------------------------------------------------------------- the socket

api = open(os.path.join(daemon.data, "socket")).read().strip()
found = os.lstat(api)
c.same((stat.S_ISSOCK(found.st_mode), oct(found.st_mode & 0o777), found.st_uid, found.st_gid), (True, "0o660", 0, GROUP.gr_gid),
       "there is a socket that is root's and the group's, 0660")
c.same(oct(os.stat(os.path.join(daemon.data, "operator.key")).st_mode & 0o777), "0o600", "the operator's key stays root's alone")
got = cove("run", "--", "sh", "-c", "echo $((6*7))")
c.same((got.returncode, got.stdout), (0, "42\n"), "a member of the group runs the README's first command without a key")
got = cove("create", "--name", "mine")
c.same(got.returncode, 0, "and makes a sandbox that stays")
c.same(cove("ps", "-q").stdout.count("\n"), 1, "which it sees")
theirs = daemon.create(name="theirs")
c.same(cove("inspect", "theirs").returncode, 3, "another's is not there for it")
got = cove("exec", "-i", "mine", "--", "cat", stdin="x" * 300000)
c.same((got.returncode, len(got.stdout)), (0, 300000), "input and output go by the socket")
large = os.path.join(home, "large")
with open(large, "wb") as file:
    file.write(os.urandom(16 << 20))
os.chmod(large, 0o644)
got = cove("cp", large, "mine:/tmp/large")
sums = cove("exec", "mine", "--", "sha256sum", "/tmp/large").stdout.split()[:1]
c.same((got.returncode, sums), (0, [hashlib.sha256(open(large, "rb").read()).hexdigest()]), "a file larger than the socket's buffer arrives whole")
got = cove("key", "create")
c.ok(got.returncode == 4 and "may not manage keys" in got.stderr, "what its scopes do not hold is refused", got)
got = cove("ps", groups=())
c.ok(got.returncode == 4 and "cove-users" in got.stderr, "who is not in the group is refused, and told of it", got)
c.same(by_socket("/v1/sandboxes", groups=())[0], 0, "because the kernel lets nobody else connect")
c.same(by_socket("/v1/sandboxes", headers={"Authorization": "Bearer wrong"})[0], 401, "a wrong key is not made good by the socket")
c.same(by_socket("/v1/sandboxes", headers={"Authorization": "Bearer " + daemon.key})[0], 200, "a right one goes before the user")
c.same(by_socket("/v1/sandboxes", headers={"Host": "evil.example"})[0], 421, "and a foreign host name is foreign there, too")
status, text = by_socket("/v1/sandboxes")
c.same([one["name"] for one in json.loads(text)["items"]], ["mine"], "any client may speak there without a key")
rows = daemon.get("/v1/audit?limit=1000").json["items"]
who = {row["who"] for row in rows if row["action"].startswith("POST /v1/sandboxes")}
c.ok("uid=%d(%s)" % (USER.pw_uid, USER.pw_name) in who, "the audit log names the user", who)
c.ok("uid-%d" % USER.pw_uid in {row.get("tenant") for row in rows}, "and a tenant of its own", rows[:3])
got = cove("create", user=OTHER)
c.same(got.returncode, 0, "another member has one, too")
c.same(cove("ps", "-q").stdout.count("\n"), 1, "so neither sees what the other makes")
daemon.request("PUT", "/v1/tenants/uid-%d" % USER.pw_uid, {"quota": {"boxes": 1}})
got = cove("create")
c.ok(got.returncode == 6 and "quota" in got.stderr, "the operator bounds a user like any tenant", got)

# ------------------------------------------------------------------------------- restart, upgrade

before = os.lstat(api).st_ino
os.kill(daemon.process.pid, signal.SIGUSR2)
c.ok(c.until(lambda: " 1 serving" in open(os.path.join(daemon.data, "lock")).read()), "cove executes itself anew")
c.same((cove("ps", "-q").stdout.count("\n"), os.lstat(api).st_ino), (1, before), "the socket is the same one, and answers")
c.ok(c.until(lambda: "daemon" in daemon.children()), "with a new daemon")
words = open("/proc/%d/environ" % daemon.children()["daemon"], "rb").read()
c.ok(words and b"NOTIFY_SOCKET" not in words, "the manager's socket is for the supervisor alone")

# --------------------------------------------------------------------------- a tenant's first word

daemon.request("PUT", "/v1/tenants/acme", {"quota": {"boxes": 3}})
made = daemon.post("/v1/keys", {"tenant": "acme"}).json
env = {"COVE_URL": "http://127.0.0.1:%d" % daemon.port, "COVE_TOKEN": made["key"]}
got = cove("run", "--", "true", env=env)
c.ok(got.returncode == 125 and "cove tenant set acme --host --boxes 3" in got.stderr,
     "a fresh tenant's refusal names the one command that ends it", got)
operator = {"COVE_URL": env["COVE_URL"], "COVE_TOKEN": daemon.key}
line = got.stderr.split("cove tenant set ", 1)[1].split("\n")[0].split()
c.same(cove("tenant", "set", *line, env=operator).returncode, 0, "the operator runs it as it stands")
c.same(cove("run", "--", "true", env=env).returncode, 0, "and the tenant's first command works")
c.same(daemon.get("/v1/tenants/acme").json["quota"].get("boxes"), 3, "its quota is what it was")

# ------------------------------------------------------------------------------------------ login


def login(*words, key, **kw):
    return cove("login", *words, data=False, stdin=key, **kw)


url = env["COVE_URL"]
got = login(url, key="cove_wrong\n")
c.ok(got.returncode == 4 and not os.path.exists(config_of(USER) + "/cove/contexts.json"), "a wrong key is not kept", got)
got = login(url, "--name", "acme", key=made["key"] + "\n")
c.same(got.returncode, 0, "login takes a key from standard input")
path = config_of(USER) + "/cove/contexts.json"
c.same(([oct(os.stat(p).st_mode & 0o777) for p in (path, os.path.dirname(path))], os.listdir(os.path.dirname(path))),
       (["0o600", "0o700"], ["contexts.json"]), "it is kept for the user alone, and nothing beside it")
got = cove("run", "--", "echo", "hi", data=False)
c.same((got.returncode, got.stdout), (0, "hi\n"), "and is used from then on")
rows = daemon.get("/v1/audit?limit=1000").json["items"]
c.ok(any(row["who"] == made["id"] for row in rows), "by its key", rows[:2])
c.same(login(url, "--name", "root", key=daemon.key).returncode, 0, "a second context has a name of its own")
c.same([line.split() for line in cove("context", "ls", data=False).stdout.splitlines()][1:],
       [["local", "the", "daemon", "of", "this", "host"], ["acme", url], ["*", "root", url]], "they are listed, without keys")
c.same(cove("inspect", "theirs", data=False).returncode, 0, "the last is in use")
c.same(cove("inspect", "theirs", data=False, env={"COVE_CONTEXT": "acme"}).returncode, 3, "a variable names another for once")
c.same(cove("context", "use", "acme", data=False).returncode, 0, "'context use' changes it")
c.same(cove("inspect", "theirs", data=False).returncode, 3, "for good")
c.same(cove("inspect", "theirs", data=False, env=operator).returncode, 0, "COVE_URL and COVE_TOKEN go before a context")
c.same(cove("inspect", "mine").returncode, 0, "as a data directory that is named does")
got = cove("ps", "--url", "http://127.0.0.1:1", data=False, env={"COVE_TOKEN": "x"})
c.ok(got.returncode == 8 and "127.0.0.1:1" in got.stderr, "and an option before all", got)
c.same(cove("context", "rm", "acme", "root", data=False).returncode, 0, "contexts are removed")
c.ok(made["key"] not in open(path).read() and daemon.key not in open(path).read(), "with their keys")
c.same(cove("context", "use", "acme", data=False).returncode, 3, "what is gone cannot be used")


def type_key(key):
    """`cove login` at a terminal: what it showed, and its status."""
    pid, fd = pty.fork()
    if pid == 0:
        drop(USER, [])()
        os.environ["XDG_CONFIG_HOME"] = config_of(USER)
        os.execv(binary, [binary, "login", url])
    shown = b""
    while b"Key: " not in shown and select.select([fd], [], [], 30)[0]:
        shown += os.read(fd, 4096)
    os.write(fd, key.encode() + b"\n")
    while select.select([fd], [], [], 30)[0]:
        try:
            more = os.read(fd, 4096)
        except OSError:
            break
        if not more:
            break
        shown += more
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


shown, status = type_key(made["key"])
c.ok(status == 0 and made["key"] not in shown, "at a terminal the key is asked for without echo", shown)

# ------------------------------------------------------------------------------------------ rights

daemon.delete(theirs)
c.same(cove("rm", "mine").returncode, 0, "a member removes what it made")
cove("rm", "--all", user=OTHER)
c.same(daemon.stop(), 0, "cove stops")
notices.setblocking(False)
said = []
try:
    while True:
        said.append(notices.recv(4096))
except BlockingIOError:
    pass
c.same(said, [b"STOPPING=1"], "the manager is told that cove goes, and was told nothing of the upgrade")
c.same((os.path.exists(os.path.join(daemon.data, "socket")), c.remains(daemon)), (False, {}), "nothing is left behind")
daemon.args += ["--users-scopes", "read", "--users-tenant", "desk", "--users-host=off"]
daemon.start()
got = cove("create")
c.ok(got.returncode == 4 and "may not make" in got.stderr, "with fewer scopes they may less", got)
daemon.request("PUT", "/v1/tenants/desk", {"host": True})
key = daemon.post("/v1/keys", {"tenant": "desk"}).json["key"]
made = daemon.request("POST", "/v1/sandboxes", {"name": "shared"}, headers={"Authorization": "Bearer " + key}, key=False)
c.same(made.status, 201, "a tenant makes a sandbox")
c.same((cove("inspect", "shared").returncode, cove("inspect", "shared", user=OTHER).returncode), (0, 0), "and those who share it see it")
daemon.request("DELETE", "/v1/sandboxes/" + made.json["id"])
daemon.stop()
daemon.args += ["--users-group", "none"]
daemon.start()
c.ok(not os.path.exists(os.path.join(daemon.data, "socket")), "where the operator wants none there is no socket")
got = cove("ps")
c.ok(got.returncode == 4 and "sudo" in got.stderr, "and the way to the key is told", got)
daemon.stop()
daemon.args += ["--users-group", "no-such-group"]
daemon.launch()
daemon.process.wait(30)
c.ok(daemon.process.returncode and "no group 'no-such-group'" in daemon.log_text(), "a group that is not there is refused at the start",
     daemon.log_text()[-300:])
daemon.close()
shutil.rmtree(home)
c.done()
