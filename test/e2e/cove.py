"""What every whole-story test stands on: TAP, a cove of its own, and a census of the host.

A test starts `Cove()`, talks to it over HTTP on loopback, and ends with `done()`. Standard library
only, so that it runs in the test machines too. COVE_BIN names the binary, COVE_TEST_MUST=1 turns
skips into failures, COVE_E2E_SHORT=1 asks for smaller counts (sanitizer builds).
"""
import atexit
import base64
import ctypes
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import struct
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("COVE_BIN", os.path.join(ROOT, "build", "cove"))
WEAK = os.environ.get("COVE_WEAK_BIN", os.path.join(ROOT, "build", "weak", "cove"))
INMATES = os.path.join(os.path.dirname(os.path.realpath(BIN)), "release" if BIN.endswith("build/cove") else "", "test", "box")
SHORT = os.environ.get("COVE_E2E_SHORT") == "1"
MUST = os.environ.get("COVE_TEST_MUST") == "1"

_count = 0
_failed = 0


def ok(condition, name, *notes):
    """One TAP line; the notes follow when it fails. Returns the condition."""
    global _count, _failed
    _count += 1
    if not condition:
        _failed += 1
    print("%sok %d - %s" % ("" if condition else "not ", _count, name), flush=True)
    if not condition:
        for note in notes:
            for line in str(note).splitlines()[:40]:
                print("# " + line, flush=True)
    return bool(condition)


def same(got, want, name):
    return ok(got == want, name, "got:  %r" % (got,), "want: %r" % (want,))


def skip(name, reason):
    if MUST:
        return ok(False, name, "skipped though COVE_TEST_MUST=1: " + reason)
    global _count
    _count += 1
    print("ok %d - %s # SKIP %s" % (_count, name, reason), flush=True)
    return True


def note(text):
    for line in str(text).splitlines():
        print("# " + line, flush=True)


def failures():
    return _failed


def done():
    print("1..%d" % _count, flush=True)
    sys.exit(1 if _failed else 0)


def skip_all(reason):
    if MUST:
        ok(False, "this file runs", reason)
        done()
    print("1..0 # SKIP " + reason, flush=True)
    sys.exit(0)


def need_programs(*names):
    lacking = [name for name in names if not shutil.which(name)]
    if lacking:
        skip_all("not installed: " + ", ".join(lacking))


def need_mounts():
    """A mount namespace of our own: nobody else sees its mounts, and they end with us."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000):
        skip_all("unshare(CLONE_NEWNS): " + os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def mount_image(image, mount, size):
    """An ext4 file system of `size` bytes in a file, mounted. Returns what failed; "": nothing."""
    os.mkdir(mount)
    with open(image, "wb") as file:
        file.truncate(size)
    for words in (["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1", image], ["mount", "-o", "loop", image, mount]):
        if not shutil.which(words[0]):
            return words[0] + " is not installed"
        ran = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ran.returncode:
            return "%s: %s" % (words[0], ran.stderr.strip())
    return ""


def until(check, seconds=30.0, step=0.02):
    """Asks again until the answer is true; returns the last answer."""
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(step)


def _surprised(kind, value, trace):
    """An exception that nobody expected is a failure, told with the log of cove."""
    ok(False, "no surprise", "".join(traceback.format_exception(kind, value, trace)))
    print("1..%d" % _count, flush=True)


sys.excepthook = _surprised


def _signalled(number, _):
    """What was begun is undone, whatever ends the test: `finally` and atexit run, by force when a thread does not end."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: (atexit._run_exitfuncs(), os._exit(1)))
    signal.alarm(20)
    sys.exit(128 + number)


for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(_number, _signalled)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return "<%d %r>" % (self.status, self.body[:600])


def _lives(pid):
    """It is there, and not only as what nobody has waited for."""
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill_all(cove):
    """kill -9 of supervisor, warden and daemon at once."""
    pids = list(cove.children().values()) + [cove.process.pid]
    os.kill(cove.process.pid, signal.SIGSTOP)  # it must not start others in between
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    cove.process.wait()
    until(lambda: not any(_lives(pid) for pid in pids[:-1]))
    cove.log.close()


class Done:
    """A command line that has ended."""

    def __init__(self, status, out, err):
        self.status = self.returncode = status
        self.out = self.stdout = out
        self.stderr, self.text, self.err = err, out.decode(errors="replace"), err.decode(errors="replace")

    def __repr__(self):
        return "<status %d, out %r, err %r>" % (self.status, self.out[-400:], self.err[-600:])


class Cli:
    """Calls the binary with an environment of its own."""

    def __init__(self, data, cwd=None, **env):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("COVE_") and k != "COLUMNS"}
        self.env.update({"COVE_DATA": data, "NO_COLOR": "1"}, **env)
        self.cwd = cwd

    def popen(self, *args, env=None, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([BIN, *args], env=dict(self.env, **(env or {})), cwd=self.cwd, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **kw)

    def __call__(self, *args, stdin=None, timeout=120, **env):
        child = self.popen(*args, env=env, **({"stdin": subprocess.PIPE} if stdin is not None else {}))
        try:
            out, err = child.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise
        return Done(child.returncode, out, err)


class Cove:
    """A cove serve with a data directory, a port and a key of its own."""

    def __init__(self, *args, data=None, env=None, start=True, binary=BIN):
        self.binary = binary
        self.home = None
        if data is None:
            self.home = tempfile.mkdtemp(prefix="cove-test-")
            os.chmod(self.home, 0o711)
            data = os.path.join(self.home, "data")
        self.data, self.args, self.env = data, list(args), dict(os.environ, **(env or {}))
        for name in ("COVE_URL", "COVE_TOKEN", "COVE_DATA", "COVE_LISTEN"):
            self.env.pop(name, None)
        self.env["COVE_PREVIEW_LISTEN"] = (env or {}).get("COVE_PREVIEW_LISTEN", "127.0.0.1:0")
        self.log_path = data.rstrip("/") + ".log"
        self.process = None
        atexit.register(self.close)
        if start:
            self.start()

    def start(self, seconds=60):
        begin = time.monotonic()
        if not self.await_ready(self.launch()):
            self.process.wait()
            raise RuntimeError("cove serve did not come up:\n" + self.log_text()[-4000:])
        self.start_seconds = time.monotonic() - begin
        return self

    def launch(self):
        """Starts the supervisor, and returns the file on which it says that it serves."""
        ready_r, ready_w = os.pipe()
        os.set_inheritable(ready_w, True)
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [self.binary, "serve", "--data", self.data, "--listen", "127.0.0.1:0",
             "--ready-fd", str(ready_w)] + self.args,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env=self.env, pass_fds=(ready_w,))
        os.close(ready_w)
        return os.fdopen(ready_r)

    def await_ready(self, ready):
        """False: the supervisor ended before it served."""
        with ready:
            line = ready.readline().strip()
        if not line:
            return False
        self.url = line
        self.port = int(line.rsplit(":", 1)[1])
        self.key = open(os.path.join(self.data, "operator.key")).read().strip()
        return True

    def log_text(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def request(self, method, path, body=None, headers=None, key=True, timeout=120, raw=False):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        head = dict(headers or {})
        if key:
            head.setdefault("Authorization", "Bearer " + (self.key if key is True else key))
        if body is not None and not raw and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            head.setdefault("Content-Type", "application/json")
        try:
            conn.request(method, path, body, head)
            answer = conn.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            conn.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, body, **kw)

    def create(self, **spec):
        """A sandbox, or an exception with the server's words."""
        reply = self.post("/v1/sandboxes", spec)
        if reply.status != 201:
            raise RuntimeError("create: %r" % reply)
        return reply.json

    def execute(self, box, command=None, **fields):
        """The reply of POST …/api/execute; `command` is a line for bash, or a list for argv."""
        if isinstance(command, (list, tuple)):
            fields["argv"] = list(command)
        elif command is not None:
            fields["command"] = command
        if "sessionId" not in fields:
            fields.setdefault("encoding", "auto")  # apart from every session
        box = box["id"] if isinstance(box, dict) else box
        return self.post("/v1/sandboxes/%s/api/execute" % box, fields,
                         timeout=fields.pop("_timeout", 180))

    def run(self, box, command, **fields):
        """As execute, but the decoded answer; an exception unless it was a 200."""
        reply = self.execute(box, command, **fields)
        if reply.status != 200:
            raise RuntimeError("execute: %r" % reply)
        answer = reply.json
        if answer.get("encoding") == "base64":
            for name in ("stdout", "stderr"):
                answer[name] = base64.b64decode(answer[name])
        return answer

    def out(self, box, command, **fields):
        return self.run(box, command, **fields)["stdout"]

    def delete(self, box):
        box = box["id"] if isinstance(box, dict) else box
        return self.request("DELETE", "/v1/sandboxes/" + box)

    def events(self, box, command, timeout=120, **fields):
        """The decoded events of POST …/api/execute/stream, one by one; a Reply when refused."""
        if isinstance(command, (list, tuple)):
            fields["argv"] = list(command)
        else:
            fields["command"] = command
        if "sessionId" not in fields:
            fields.setdefault("encoding", "auto")
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        conn.request("POST", "/v1/sandboxes/%s/api/execute/stream" % box["id"], json.dumps(fields),
                     {"Authorization": "Bearer " + self.key, "Content-Type": "application/json"})
        answer = conn.getresponse()
        if answer.status != 200:
            return Reply(answer.status, answer.headers, answer.read())

        def each():
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
            conn.close()
        return each()

    def raw(self, text, seconds=15):
        """Sends bytes as they are; all that comes back until the server closes or is silent."""
        got = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as sock:
            try:
                sock.sendall(text)
                while True:
                    more = sock.recv(65536)
                    if not more:
                        break
                    got += more
            except (ConnectionError, socket.timeout):
                pass
        return got

    def children(self):
        """Pids of the processes that the supervisor started, by role."""
        roles = {}
        for pid in os.listdir("/proc") if self.process else ():
            if not pid.isdigit():
                continue
            try:
                argv = open("/proc/%s/cmdline" % pid, errors="replace").read().split("\0")
                ppid = int(open("/proc/%s/stat" % pid, errors="replace").read().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            # Sandboxes that outlived their warden are its children too; they have no role.
            if ppid == self.process.pid and len(argv) > 1 and argv[1]:
                roles[argv[1]] = int(pid)
        return roles

    def instance(self):
        """The name of this cove's cgroups: a hash of its data directory's identity."""
        found = os.stat(self.data)
        return hashlib.sha256(struct.pack("QQ", found.st_dev, found.st_ino)).hexdigest()[:8]

    def stop(self, seconds=30, number=signal.SIGTERM):
        """SIGTERM and the exit status; None when it had to be killed."""
        if not self.process:
            return None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = None
        self.process = None
        self.log.close()
        return status

    def end_leftovers(self):
        """Sandboxes outlive a cove that was killed; those of a test that is over shall not."""
        if not os.path.isdir(self.data):
            return
        for root in cgroup_roots():
            try:
                with open(os.path.join(root, "cove", self.instance(), "cgroup.kill"), "w") as file:
                    file.write("1")
            except OSError:
                pass

    def close(self):
        atexit.unregister(self.close)
        status = self.stop(number=signal.SIGINT)  # no sandbox outlives its test, whatever TERM means
        if self.home:
            self.end_leftovers()
        if self.home:
            if status not in (0, None) or _failed:
                lines = [line for line in self.log_text().splitlines() if '"event":"request"' not in line]
                note("log of cove:\n" + "\n".join(lines)[-4000:])
            shutil.rmtree(self.home, ignore_errors=True)
            self.home = None
        return status


# What a request may meet while the server is being shot.
BROKEN = (OSError, ValueError, KeyError, http.client.HTTPException)


def patiently(ask, seconds=40):
    """The answer of a request that may find nobody, or a daemon that is just starting."""
    end = time.monotonic() + seconds
    while True:
        try:
            reply = ask()
            if reply.status != 503 or time.monotonic() > end:
                return reply
        except BROKEN:
            if time.monotonic() > end:
                raise
        time.sleep(0.02)


def npm_install(here, work, *files, options=()):
    """The packages of the lock file in `here`, once; they stay in `work`. False: it could not, and why is noted."""
    os.makedirs(work, exist_ok=True)
    for name in ("package.json", "package-lock.json") + files:
        shutil.copy(os.path.join(here, name), work)
    with open(os.path.join(here, "package-lock.json")) as file:
        lock = file.read()
    mark = os.path.join(work, "installed.json")
    if os.path.exists(mark) and open(mark).read() == lock:
        return True
    done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", *options], cwd=work,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
    if done.returncode:
        note(done.stdout.decode(errors="replace")[-1500:])
        return False
    with open(mark, "w") as file:
        file.write(lock)
    return True


class Stream:
    """A stream of events that is read in the background."""

    def __init__(self, cove, path, key=None, headers=None):
        self.conn = http.client.HTTPConnection("127.0.0.1", cove.port, timeout=60)
        head = {"Authorization": "Bearer " + (key or cove.key), "Accept": "text/event-stream"}
        head.update(headers or {})
        self.conn.request("GET", path, headers=head)
        self.reply = self.conn.getresponse()
        self.got, self.ids, self.ended = [], [], False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for line in self.reply:
                if line.startswith(b"id: "):
                    self.ids.append(int(line[4:]))
                if line.startswith(b"data: "):
                    self.got.append(json.loads(line[6:]))
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.ended = True


def data_of(event):
    """The bytes of an event of output."""
    data = event["data"]
    return base64.b64decode(data) if event.get("encoding") == "base64" else data.encode()


def collect(events):
    """stdout, stderr and the last event of a stream."""
    out, last = {"stdout": [], "stderr": []}, None
    for event in events:
        if event["type"] in out:
            out[event["type"]].append(data_of(event))
        last = event
    return b"".join(out["stdout"]), b"".join(out["stderr"]), last


def cgroup_roots():
    """Every mounted cgroup hierarchy."""
    roots = []
    for line in open("/proc/self/mounts"):
        _, where, kind = line.split()[:3]
        if kind in ("cgroup", "cgroup2") and where not in roots:
            roots.append(where)
    return roots


def cpu_us(cove, box):
    """CPU time of a sandbox by the files that the kernel keeps for it; None: it has no cgroup."""
    for name, unit in (("cpu.stat", None), ("cpuacct.usage", 1000)):
        for root in cgroup_roots():
            try:
                with open(os.path.join(root, "cove", cove.instance(), box, name)) as file:
                    text = file.read()
            except OSError:
                continue
            if unit:
                return int(text) // unit
            found = dict(line.split() for line in text.splitlines()).get("usage_usec")
            if found:
                return int(found)
    return None


def _groups(instance):
    """Directories of cgroups beneath cove/ or, given one, beneath that instance of it."""
    found = []
    for root in cgroup_roots():
        for top, dirs, _ in os.walk(os.path.join(root, "cove", instance or "")):
            found += [os.path.join(top, name) for name in dirs]
    return found


def _pids():
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit()]


def _is_boxed(pid, instance):
    """Whether a process lives in a cgroup of cove, or of that instance."""
    try:
        with open("/proc/%d/cgroup" % pid) as groups:
            return "/cove/" + (instance or "") in groups.read()
    except OSError:
        return False


def _namespaces(pids):
    seen = set()
    for pid in pids:
        for kind in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup"):
            try:
                seen.add(os.readlink("/proc/%d/ns/%s" % (pid, kind)))
            except OSError:
                pass
    return len(seen)


def _loops(beneath, stock=False):
    """Loop devices of files in a directory. Disks that stand ready and the pool of all boxes are only
    counted when asked for: they are the warden's affair, and it makes them when it has time."""
    found = 0
    for name in os.listdir("/sys/block"):
        try:
            with open("/sys/block/%s/loop/backing_file" % name) as file:
                path = file.read()
                found += path.startswith(beneath) and (stock or not re.search(r"/(\.ready-|pool\.img)", path))
        except OSError:
            pass
    return found


def _mounts(pid, cove):
    """Mounts that a process sees: all of them, or those in one cove's data directory."""
    try:
        with open("/proc/%s/mountinfo" % pid) as file:
            return sum(1 for line in file if not cove or cove.data in line)
    except OSError:
        return 0


def fds(pid):
    """Open files of a process; user namespaces and roots of detached mounts are left out, for the warden
    keeps a stock of them (a disk of a box that is held too long shows as a loop device)."""
    found = 0
    try:
        numbers = os.listdir("/proc/%d/fd" % pid)
    except OSError:
        return 0
    for fd in numbers:
        try:
            name = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            found += not name.startswith("user:") and name != "/"
        except OSError:
            pass  # closed since it was listed; the others count
    return found


def _comm(pid):
    try:
        with open("/proc/%s/comm" % pid, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


SPARES = ("cove-prefork", "cove-files", "cove-prebuilt")


def spares(cove):
    """The names of the processes that wait in the pools of one cove."""
    return {name for name in (_comm(pid) for pid in _pids() if _is_boxed(pid, cove.instance())) if name in SPARES}


def census(cove=None):
    """What there is now: of one cove alone, so that others may run beside it, or of them all."""
    instance = cove.instance() if cove else ""
    # A spare child comes and goes with the box's idle moments, a hand with what cove wants to know of it. What
    # waits to become the next box is none; its cgroups are counted, before and after.
    boxed = [pid for pid in _pids() if _is_boxed(pid, instance) and _comm(pid) not in SPARES]
    found = {"processes": len(boxed), "cgroups": len(_groups(instance)),
             "namespaces": _namespaces(boxed), "mounts": _mounts("self", cove),
             "loops": _loops(cove.data if cove else "")}
    if cove:
        for role, pid in sorted(cove.children().items()):
            found["fds of " + role] = fds(pid)
            found["mounts of " + role] = _mounts(pid, cove)
        for folder in ("boxes", "trash"):
            path = os.path.join(cove.data, folder)
            # Names with a dot are the driver's own: templates by size, disks that stand ready.
            names = os.listdir(path) if os.path.isdir(path) else []
            found[folder] = len([name for name in names if not name.startswith(".")])
    return found


def stocked(cove, seconds=10.0):
    """Waits until the warden has prebuilt the base of the next box: cgroups, descriptors and a process that a census counts.
    A weak build prebuilds nothing, and after a prebuilt box was killed there is none until the next create."""
    if os.path.realpath(cove.binary) == os.path.realpath(WEAK):
        return
    if until(lambda: "cove-prebuilt" in spares(cove), seconds, 0.05):
        cove.get("/v1/verify")  # an answer of the warden: it has taken over what the process was made with


def calm(cove, seconds=60.0, step=0.1):
    """A census that has stopped changing: what was under way before has come to its end. The warden fills its stock
    of user namespaces after a start, which takes seconds on a busy machine. An exception if the census keeps changing."""
    stocked(cove)
    seen = [census(cove)]

    def same_again():
        seen.append(census(cove))
        return len(seen) > 3 and seen[-1] == seen[-2] == seen[-3]
    if not until(same_again, seconds, step):
        raise RuntimeError("the census keeps changing: %r" % seen[-3:])
    return seen[-1]


def settled(before, cove=None, seconds=60.0):
    """Waits for the census to equal `before`; returns the differences that stay. Fewer fds and processes
    than before are no difference: pools are refilled when there is time, spare children come and go; nor
    are two fds more, for a hand that rests and a reader of the store. What leaks does so each time."""
    def differences():
        after = census(cove)
        return {k: (before.get(k), after.get(k)) for k in after if after[k] != before.get(k) and
                not (k == "processes" and after[k] < before.get(k, 0)) and
                not (k.startswith("fds") and after[k] <= before.get(k, 0) + 2)}
    until(lambda: not differences(), seconds, 0.05)
    return differences()


def remains(cove, seconds=10.0):
    """What is left of a cove that has stopped: nothing, once its end has settled."""
    def left():
        found = census(cove)
        found["loops"] = _loops(cove.data, stock=True)
        return {k: found[k] for k in ("processes", "cgroups", "namespaces", "loops", "trash")
                if found[k]}
    until(lambda: not left(), seconds, 0.05)
    return left()


def need_root():
    if os.geteuid() != 0:
        skip_all("needs root: boxes are made by a privileged warden")
