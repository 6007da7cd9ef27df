#!/usr/bin/env python3
"""Remote calls (capnweb): the same handlers as over HTTP, streams both ways with their flow control,
and a connection that survives any input."""
import base64
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import wsclient  # noqa: E402


def unpad(text):
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def plain(value):
    """A decoded value."""
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], list):
            return [plain(item) for item in value[0]]
        if value[0] == "undefined":
            return None
        if value[0] == "bytes":
            return unpad(value[1])
        return tuple(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


class Failed(Exception):
    def __init__(self, error):
        super().__init__(error[2])
        self.props = plain(error[4]) if len(error) > 4 else {}


class Rpc:
    def __init__(self, cove, box, path=None, **kw):
        self.ws = wsclient.WebSocket(cove, path or "/v1/sandboxes/%s/rpc" % box["id"], **kw)
        self.sent = 0      # numbers that we gave out
        self.theirs = 0    # numbers that the server did
        self.answers = {}
        self.pipes = {}    # by number: [bytes, closed]
        self.acks = True
        self.unacked = []

    def number(self):
        self.sent += 1
        return self.sent

    def push(self, path, *args, target=0):
        self.ws.send(["push", ["pipeline", target, path.split("."), list(args)]])
        return self.number()

    def pull(self, id):
        self.ws.send(["pull", id])

    def step(self):
        message = self.ws.json()
        kind = message[0]
        if kind == "pipe":
            self.theirs += 1
            self.pipes[self.theirs] = [b"", None]
        elif kind == "stream":
            self.theirs += 1
            _, pipe, (verb,), args = message[1]
            if verb == "write":
                self.pipes[pipe][0] += plain(args[0])
            else:
                self.pipes[pipe][1] = verb
            if self.acks:
                self.ws.send(["resolve", self.theirs, ["undefined"]])
            else:
                self.unacked.append(self.theirs)
        elif kind in ("resolve", "reject"):
            self.answers[message[1]] = (kind, message[2])
        elif kind == "release":
            self.pipes[message[1]].append("released")
        elif kind == "abort":
            raise Failed(message[1])
        else:
            raise RuntimeError("what is %r" % message)

    def wait(self, id):
        while id not in self.answers:
            self.step()
        kind, value = self.answers.pop(id)
        self.ws.send(["release", id, 1])
        if kind == "reject":
            raise Failed(value)
        return plain(value)

    def call(self, path, *args):
        id = self.push(path, *args)
        self.pull(id)
        return self.wait(id)

    def drain(self, readable):
        """All bytes of a stream."""
        pipe = self.pipes[readable[1]]
        while len(pipe) < 3:
            self.step()
        return pipe[0], pipe[1]

    def upload(self, path, data, step, session="__DISABLE_SESSION__", end="close"):
        self.ws.send(["pipe"])
        pipe = self.number()
        id = self.push("files.writeFileStream", path, ["readable", pipe], session)
        self.pull(id)
        flying = []
        for at in range(0, len(data), step):
            code = base64.b64encode(data[at:at + step]).decode().rstrip("=")
            self.ws.send(["stream", ["pipeline", pipe, ["write"], [["bytes", code]]]])
            flying.append(self.number())
            while len(flying) * step > 1 << 18:
                if flying[0] in self.answers:
                    self.answers.pop(flying.pop(0))
                else:
                    self.step()
        self.ws.send(["stream", ["pipeline", pipe, [end], []]])
        self.number()
        self.ws.send(["release", pipe, 1])
        return self.wait(id)


UNDEFINED = ["undefined"]
NONE = "__DISABLE_SESSION__"


def fails(call, code, name):
    try:
        got = call()
    except Failed as failed:
        return c.ok(failed.props.get("code") == code and isinstance(failed.props.get("details"), dict),
                    name, failed, failed.props)
    return c.ok(False, name, got)


def calls(cove, box):
    rpc = Rpc(cove, box)
    c.same(rpc.call("utils.ping"), "healthy", "ping")
    c.same(rpc.call("utils.getVersion"), cove.get("/v1/health").json["version"], "version")
    c.ok("bash" in rpc.call("utils.getCommands"), "commands")
    got = rpc.call("commands.execute", "echo hi; echo oops >&2; exit 3", NONE, UNDEFINED)
    c.ok(got["stdout"] == "hi\n" and got["stderr"] == "oops\n" and got["exitCode"] == 3 and
         got["success"] is False, "a command", got)
    got = rpc.call("commands.execute", "pwd; echo $A", NONE, {"cwd": "/tmp", "env": {"A": "1", "B": UNDEFINED}})
    c.same(got["stdout"], "/tmp\n1\n", "with options")
    first, second = rpc.push("commands.execute", "sleep 0.5; echo slow", NONE), rpc.push("utils.ping")
    rpc.pull(first)
    rpc.pull(second)
    c.same(rpc.wait(second), "healthy", "calls run side by side")
    c.same(rpc.wait(first)["stdout"], "slow\n", "and each has its answer")
    late = rpc.push("commands.execute", "echo late", NONE)
    c.same(rpc.call("utils.ping"), "healthy", "an answer waits for its pull")
    rpc.pull(late)
    c.same(rpc.wait(late)["stdout"], "late\n", "and comes then")
    fails(lambda: rpc.call("files.readFile", "/none", NONE), "FILE_NOT_FOUND", "an error has its code")
    fails(lambda: rpc.call("commands.execute", "", NONE), "INVALID_COMMAND", "and another")
    fails(lambda: rpc.call("files.fly", "/x"), "UNKNOWN_ERROR", "an unknown method is refused")
    fails(lambda: rpc.call("fly.away"), "UNKNOWN_ERROR", "and an unknown object")
    fails(lambda: rpc.call("commands.execute", ["export", -1], NONE), "VALIDATION_FAILED",
          "a function is no command")
    fails(lambda: rpc.call("tunnels.listTunnels"), "NOT_OFFERED", "there are no tunnels")
    rpc.ws.send(["push", ["pipeline", 0, ["utils"]]])
    part = rpc.number()
    held = rpc.push("ping", target=part)
    rpc.pull(held)
    c.same(rpc.wait(held), "healthy", "a part of the main object can be held")
    rpc.ws.send(["release", part, 1])
    made = rpc.call("utils.createSession", {"id": "r1", "env": {"A": "x"}})
    c.ok(made["success"] and made["id"] == "r1" and "containerPlacementId" in made, "a session", made)
    rpc.call("commands.execute", "cd /tmp; B=y", "r1")
    c.same(rpc.call("commands.execute", "echo $A$B $PWD", "r1")["stdout"], "xy /tmp", "keeps its state")
    c.ok("r1" in rpc.call("utils.listSessions")["sessions"], "is listed")
    c.ok(rpc.call("utils.deleteSession", "r1")["success"], "and deleted")
    c.same(rpc.ws.close(), 1000, "the connection is closed")


def files(cove, box):
    rpc = Rpc(cove, box)
    got = rpc.call("files.writeFile", "/workspace/a.txt", "h\u00e4[1]\n", NONE)
    c.ok(got["success"] and got["bytesWritten"] == 7, "a file is written", got)
    got = rpc.call("files.readFile", "/workspace/a.txt", NONE)
    c.ok(got["content"] == "h\u00e4[1]\n" and got["encoding"] == "utf-8", "and read", got)
    c.ok(rpc.call("files.exists", "/workspace/a.txt", NONE)["exists"], "exists")
    got = rpc.call("files.writeFile", "/workspace/nul", "a\0b", NONE)
    c.same((got["bytesWritten"], rpc.call("files.readFile", "/workspace/nul", NONE,
                                          {"encoding": "utf-8"})["content"]), (3, "a\0b"),
           "a NUL is a character like any other")
    fails(lambda: rpc.call("files.writeFile", "/workspace/nul", 7, NONE), "VALIDATION_FAILED",
          "a message that is not text is refused")
    rpc.call("files.mkdir", "/workspace/d/e", NONE, {"recursive": True})
    rpc.call("files.renameFile", "/workspace/a.txt", "/workspace/d/b.txt", NONE)
    rpc.call("files.moveFile", "/workspace/d/b.txt", "/workspace/d/e/c.txt", NONE)
    got = rpc.call("files.listFiles", "/workspace", NONE, {"recursive": True})
    c.ok({"c.txt", "d", "e"} <= {f["name"] for f in got["files"]}, "listed", got)
    rpc.call("files.deleteFile", "/workspace/d/e/c.txt", NONE)
    c.ok(not rpc.call("files.exists", "/workspace/d/e/c.txt", NONE)["exists"], "and deleted")

    data = os.urandom(3 << 20 | 77)
    got = rpc.upload("/workspace/big", data, 65536)
    c.ok(got["success"] and got["bytesWritten"] == len(data), "a stream is written", got)
    got = rpc.call("files.readFile", "/workspace/big", NONE, {"encoding": "none"})
    c.ok(got["size"] == len(data) and got["path"] == "/workspace/big" and got["mimeType"], "and read", got)
    body, how = rpc.drain(got["content"])
    c.ok(body == data and how == "close", "byte for byte", len(body), how)
    events, _ = rpc.drain(rpc.call("files.readFileStream", "/workspace/big", NONE))
    c.ok(b'"type":"metadata"' in events and b'"type":"complete"' in events, "or as events")
    rpc.call("commands.execute", "mkdir -p /tmp/there; cd /tmp/there", "place")
    got = rpc.upload("by.bin", b"here", 4, session="place")
    c.ok(got["success"], "a relative path", got)
    c.same(cove.out(box, "cat /tmp/there/by.bin"), "here", "begins where the session stands")
    got = rpc.call("files.readFile", "by.bin", "place", {"encoding": "none"})
    c.same((got["path"], rpc.drain(got["content"])[0]), ("by.bin", b"here"), "in both directions")
    rpc.upload("by.bin", b"there", 5)
    c.same(cove.out(box, "cat /workspace/by.bin"), "there", "and without one in the workspace")
    rpc.upload("/workspace/big", b"old", 3)
    fails(lambda: rpc.upload("/workspace/big", b"new", 3, end="abort"), "INTERNAL_ERROR",
          "an aborted stream fails")
    c.same(rpc.call("files.readFile", "/workspace/big", NONE, {"encoding": "utf-8"})["content"], "old",
           "and leaves the old file")
    rpc.ws.close()


def streams(cove, box):
    rpc = Rpc(cove, box)
    stream = rpc.call("commands.executeStream", "seq 1 5000; exit 4", NONE)
    text, how = rpc.drain(stream)
    events = [json.loads(line[6:]) for line in text.decode().split("\n") if line.startswith("data: ")]
    out = "".join(e["data"] for e in events if e["type"] == "stdout")
    c.ok(out == "".join("%d\n" % n for n in range(1, 5001)) and events[-1]["exitCode"] == 4 and
         how == "close", "a command's events, whole", events[-1])
    c.ok(b"event: start\ndata: " in text[:80], "each with its name", text[:60])

    rpc.acks = False
    stream = rpc.call("commands.executeStream", "head -c 3000000 /dev/zero | tr '\\0' x", NONE)
    pipe = rpc.pipes[stream[1]]
    rpc.ws.sock.settimeout(1.5)
    try:
        while True:
            rpc.step()
    except OSError:
        pass
    rpc.ws.sock.settimeout(20)
    c.ok(100000 < len(pipe[0]) < 600000, "a client that does not acknowledge gets one window and no more", len(pipe[0]))
    rpc.acks = True
    for id in rpc.unacked:
        rpc.ws.send(["resolve", id, ["undefined"]])
    text, how = rpc.drain(stream)
    c.ok(text.count(b"x") >= 3000000 and how == "close", "and the rest once it does", len(text))

    stream = rpc.call("commands.executeStream", "while :; do echo tick; sleep 0.05; done", NONE)
    pipe = rpc.pipes[stream[1]]
    while not pipe[0].count(b"tick"):
        rpc.step()
    rpc.acks = False
    while not rpc.unacked or rpc.unacked[-1] != rpc.theirs:
        rpc.step()
    rpc.ws.send(["reject", rpc.theirs, ["error", "Error", "no more"]])
    rpc.acks = True
    while len(pipe) < 3:
        rpc.step()
    c.ok(True, "a stream that is refused ends")
    c.same(rpc.call("utils.ping"), "healthy", "and the connection goes on")
    rpc.ws.close()


def processes(cove, box):
    rpc = Rpc(cove, box)
    made = rpc.call("processes.startProcess", "echo up; sleep 30", NONE, {"processId": "p1"})
    c.same(made["processId"], "p1", "a process starts")
    c.ok("p1" in [p["id"] for p in rpc.call("processes.listProcesses")["processes"]], "is listed")
    c.same(rpc.call("processes.getProcess", "p1")["process"]["status"], "running", "runs")
    stream = rpc.call("processes.streamProcessLogs", "p1")
    pipe = rpc.pipes[stream[1]]
    while b"up" not in pipe[0]:
        rpc.step()
    c.ok(b"process_info" not in pipe[0], "its log has output only", pipe[0])
    c.ok(rpc.call("processes.killProcess", "p1")["success"], "is killed")
    text, how = rpc.drain(stream)
    c.ok(b'"exit"' in text and how == "close", "which ends the log", text[-200:])
    c.ok("up" in rpc.call("processes.getProcessLogs", "p1")["stdout"], "and stays in the logs")
    fails(lambda: rpc.call("processes.getProcess", "none"), "PROCESS_NOT_FOUND", "no such process")
    stream = rpc.call("ports.watchPort", {"port": 1, "mode": "tcp", "processId": "p1"})
    text, _ = rpc.drain(stream)
    c.ok(b'"process_exited"' in text, "a watch of its port tells of its end", text)
    rpc.ws.close()


def manners(cove, box):
    path = "/v1/sandboxes/%s/rpc" % box["id"]
    c.same(cove.get(path).status, 404, "without an upgrade there is nothing here")
    for bad in ("{", "[]", '["fly"]', '["pull",99]', '["release",5,1]', '["push",["pipeline",7,["x"],[]]]',
                '["push",["pipeline",0,["a"],{}]]', '["pull","x"]', '[["push"]]'):
        rpc = Rpc(cove, box)
        rpc.ws.send(bad)
        try:
            while True:
                rpc.step()
        except Failed as failed:
            c.ok(rpc.ws.end() == 1008, "%s ends the connection, with a word" % bad, failed)
    rpc = Rpc(cove, box)
    rpc.ws.send(b"\0\1")
    try:
        while True:
            rpc.step()
    except Failed:
        c.ok(True, "messages are text")
    rpc = Rpc(cove, box)
    ids = [rpc.push("commands.execute", "sleep 1; echo %d" % i, NONE) for i in range(80)]
    for id in ids:
        rpc.pull(id)
    c.same([rpc.wait(id)["stdout"] for id in ids], ["%d\n" % i for i in range(80)], "80 commands at once all run")
    ids = [rpc.push("files.writeFile", "/tmp/many/%d" % i, "x" * i, NONE) for i in range(200)]
    for id in ids:
        rpc.pull(id)
    c.same([rpc.wait(id)["bytesWritten"] for id in ids], list(range(200)), "200 writes at once wait for one another")
    c.same(cove.out(box, "ls /tmp/many | wc -l; cat /tmp/many/* | wc -c"), "200\n19900\n", "and all are done")
    ids = [rpc.push("files.writeFile", "/tmp/large/%d" % i, "y" * (1 << 20), NONE) for i in range(100)]
    for id in ids:
        rpc.pull(id)
    c.same([rpc.wait(id)["success"] for id in ids], [True] * 100, "also when they hold more than may wait: 100 of 1 MiB")
    streams = [rpc.push("commands.executeStream", "echo %d" % i, NONE) for i in range(100)]
    for id in streams:
        rpc.pull(id)
    c.same([rpc.drain(rpc.wait(id))[1] for id in streams], ["close"] * 100, "and 100 streams")
    ids = [rpc.push("utils.ping") for _ in range(2000)]
    for id in ids:
        rpc.pull(id)
    ends = []
    for id in ids:
        try:
            ends.append(rpc.wait(id))
        except Failed as failed:
            ends.append(failed.props["code"])
    c.ok(set(ends) <= {"healthy", "RESOURCE_BUSY"} and ends.count("healthy") >= 1000, "a thousand wait at most, and the others are told", set(ends))
    rpc.ws.cut()
    rpc = Rpc(cove, box, timeout=60)
    for content in ("z" * (32 << 20), "\n\"" * (8 << 20)):
        c.same(rpc.call("files.writeFile", "/tmp/whole", content, NONE)["bytesWritten"], len(content),
               "a file of %d MiB is written by one call" % (len(content) >> 20))
        c.same(cove.out(box, "stat -c %s /tmp/whole"), "%d\n" % len(content), "whole")
    rpc.ws.cut()
    rpc = Rpc(cove, box)
    rpc.push("commands.execute", "sleep 60", NONE)
    id = rpc.push("commands.executeStream", "sleep 60", NONE)
    rpc.pull(id)
    time.sleep(0.3)
    rpc.ws.cut()
    headless = Rpc(cove, box, path="/" + box["baseUrl"].split("/", 3)[3] + "/rpc", key=False)
    c.same(headless.call("utils.ping"), "healthy", "the credential in the path opens it, too")
    headless.ws.close()


def main():
    c.need_root()
    cove = c.Cove()
    cove.delete(cove.create())
    before = c.calm(cove)
    box = cove.create(name="first")
    parts = sys.argv[1:] or ["calls", "files", "streams", "processes", "manners"]
    for part in parts:
        globals()[part](cove, box)
    cove.delete(box)
    c.same(c.settled(before, cove), {}, "the census is as before")
    c.same(cove.close(), 0, "cove ends with status 0")
    c.done()


if __name__ == "__main__":
    main()
