"""The official npm clients of Daytona, of three generations, driven against a running cove: what the tests daytona*.t share."""
import datetime
import fcntl
import hashlib
import hmac
import os
import subprocess
import sys

import cove as c

HERE = os.path.join(c.ROOT, "test", "daytona")
WORK = os.path.join(c.ROOT, "build", "daytona")
VERSIONS = [word for word in sys.argv[1:] if word.isdigit()] or ("218", "200", "154")


def install():
    """The packages of the lock file and the scripts, once: the tests run side by side."""
    c.need_root()
    c.need_programs("node", "npm")
    os.makedirs(WORK, exist_ok=True)
    scripts = sorted(name for name in os.listdir(HERE) if name.endswith(".mjs"))
    with open(os.path.join(WORK, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not c.ok(c.npm_install(HERE, WORK, *scripts, options=("--legacy-peer-deps",)), "the packages of the lock file are installed"):
            c.done()


def start(cove, version, script, env):
    return subprocess.Popen(["node", "--no-warnings", script], cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env=dict(os.environ, DAYTONA_VERSION=version, DAYTONA_API_KEY=cove.key, DAYTONA_API_URL=cove.url + "/daytona", **env))


def read(run, label):
    failed, notes, count = None, [], 0
    for line in list(run.stdout) + [b"ok - \n"]:
        line = line.decode(errors="replace").rstrip("\n")
        if line.startswith(("ok - ", "not ok - ")):
            if failed:
                c.ok(False, failed, *notes)
            failed, notes = None, []
            if line.startswith("not ok - "):
                failed = "%s: %s" % (label, line[9:])
            elif line[5:]:
                c.ok(True, "%s: %s" % (label, line[5:]))
            count += bool(line[5:])
        else:
            notes.append(line.lstrip("# "))
    c.ok(run.wait() == 0 and count > 0, "%s: ran to its end" % label, *notes[-30:])


def drive(cove, script, versions=VERSIONS, **env):
    """All versions at once."""
    runs = [(start(cove, version, script, env), "%s %s" % (version, script[:-4])) for version in versions]
    for run, label in runs:
        read(run, label)


def ask(cove, method, path, body=None, key=None, **headers):
    headers = {"Authorization": "Bearer " + (key or cove.key), **headers}
    return cove.request(method, "/daytona" + path, body, headers=headers, key=False)


def signed(cove, access, method, path, query="", body=b"", secret=None, now=None, sent=None):
    """A request as S3 clients sign it; `sent`: another body than the signed one."""
    now = now or datetime.datetime.now(datetime.timezone.utc)
    time, day, payload = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d"), hashlib.sha256(body).hexdigest()
    host = "127.0.0.1:%d" % cove.port
    canonical = "\n".join((method, path, query, "host:" + host, "x-amz-content-sha256:" + payload, "x-amz-date:" + time, "", "host;x-amz-content-sha256;x-amz-date", payload))
    scope = day + "/us-east-1/s3/aws4_request"
    key = ("AWS4" + (secret or access["secret"])).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = "\n".join(("AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    mark = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return cove.request(method, path + ("?" + query if query else ""), body if sent is None else sent, key=False, headers={
        "Host": host, "x-amz-date": time, "x-amz-content-sha256": payload,
        "Authorization": "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=%s" % (access["accessKey"], scope, mark)})


def remove_all(cove):
    for item in ask(cove, "GET", "/sandbox").json["items"]:
        ask(cove, "DELETE", "/sandbox/" + item["id"])


def finish(cove):
    remove_all(cove)
    c.same(cove.stop(), 0, "cove stops")
    c.same(c.remains(cove), {}, "nothing is left behind")
    cove.close()
    c.done()
