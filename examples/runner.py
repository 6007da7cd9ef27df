#!/usr/bin/env python3
"""The smallest honest runner: it speaks the protocol of docs/RUNNER.md and runs a command a run.

Start a session with it and give it work:

    POST /v1/agent-sessions        {"user": "me", "runner": {"argv": ["python3", "runner.py"]},
                                    "files": [{"path": "runner.py", "content": "..."}]}
    POST /v1/agent-sessions/ID/runs {"input": {"command": "make test"}}

Whatever the command writes becomes output of the run, its exit status the result.
"""
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

PROTOCOL, VERSION = 1, "1.0"
HEARTBEAT = int(os.environ.get("COVE_HEARTBEAT_MS", "30000")) / 1000


class Runner:
    def __init__(self):
        self.session = os.environ["COVE_SESSION"]
        self.instance = os.environ["COVE_INSTANCE"]
        self.generation = int(os.environ["COVE_GENERATION"])
        self.check_arguments(sys.argv[1:])
        self.sock = socket.socket(fileno=int(os.environ.get("COVE_RUNNER_FD", "0")))
        self.connection = None
        self.run = None        # what is worked on: {run, run_generation}
        self.seq = 0           # of the last word about it
        self.unsaid = []       # words that were not acknowledged, oldest first
        self.pending = b""
        self.child = None
        self.beat = time.monotonic()

    def check_arguments(self, argv):
        """Identity comes together or not at all, and argument and environment must agree."""
        given = dict(a[2:].split("=", 1) for a in argv if a.startswith("--") and "=" in a)
        for name, value in (("instance", self.instance), ("generation", str(self.generation))):
            if name in given and given[name] != value:
                sys.exit("runner: --%s does not agree with the environment" % name)

    def send(self, word):
        self.sock.sendall(json.dumps(word).encode() + b"\n")

    def about(self, kind, **fields):
        """A word about the run: numbered, kept until it is acknowledged."""
        self.seq += 1
        word = dict(fields, type=kind, seq=self.seq, **self.run)
        self.unsaid.append(word)
        self.send(dict(word, connection=self.connection))

    def output(self, data, stream="stdout"):
        self.about("output", stream=stream, data=data)

    def result(self, status, output=None, error=None):
        word = {"status": status}
        if output is not None:
            word["output"] = output
        if error is not None:
            word["error"] = error
        self.about("result", **word)

    # ---------------------------------------------------------------- what the daemon says

    def on_attach(self, word):
        """A new connection: who we are, what we work on, and again what nobody acknowledged."""
        self.connection = word["connection"]
        self.send({"type": "hello", "protocol": PROTOCOL, "version": VERSION,
                   "session": self.session, "instance": self.instance,
                   "generation": self.generation, "connection": self.connection,
                   "run": self.run and self.run["run"]})
        for kept in self.unsaid:
            if kept["seq"] > word.get("seq", 0):
                self.send(dict(kept, connection=self.connection))

    def on_run(self, word):
        if self.run and self.run["run"] == word["run"]:
            return  # told twice
        self.run = {"run": word["run"], "run_generation": word["run_generation"]}
        self.seq, self.unsaid = 0, []
        self.send(dict(self.run, type="accepted", connection=self.connection))
        self.work(word)

    def on_ack(self, word):
        if not self.run or word["run"] != self.run["run"]:
            return
        self.unsaid = [kept for kept in self.unsaid if kept["seq"] > word["seq"]]
        if not self.unsaid and not self.child and self.is_over():
            self.run = None

    def is_over(self):
        return True

    def on_ping(self, word):
        self.send({"type": "pong", "number": word["number"]})

    def on_interrupt(self, word):
        if self.child:
            self.child.terminate()

    def on_answer(self, word):
        pass

    # ----------------------------------------------------------------------- the work itself

    def work(self, word):
        command = (word.get("input") or {}).get("command")
        if not command:
            self.result("failed", error={"code": "no_command", "message": "the input has no command"})
            return
        self.child = subprocess.Popen(command, shell=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      env=dict(os.environ, **(word.get("env") or {})))

    def work_on(self):
        data = os.read(self.child.stdout.fileno(), 65536)
        if data:
            self.output(data.decode(errors="replace"))
            return
        status, self.child = self.child.wait(), None
        if status == 0:
            self.result("completed", output={"exit": 0})
        else:
            self.result("failed", error={"code": "exit_nonzero", "message": "exit %d" % status})

    def hear(self, line):
        try:
            word = json.loads(line)
            handler = getattr(self, "on_" + word["type"], None)
        except (ValueError, KeyError, TypeError):
            return  # the rest of what a daemon said that is no more
        if handler:
            handler(word)

    def turn(self):
        reads = [self.sock] + ([self.child.stdout] if self.child else [])
        ready, _, _ = select.select(reads, [], [], max(0, self.beat + HEARTBEAT - time.monotonic()))
        if time.monotonic() >= self.beat + HEARTBEAT:
            self.beat = time.monotonic()
            if self.connection:
                self.send({"type": "heartbeat", "connection": self.connection})
        if self.sock in ready:
            data = self.sock.recv(65536)
            if not data:
                sys.exit(0)
            lines = (self.pending + data).split(b"\n")
            self.pending = lines.pop()
            for line in lines:
                if line:
                    self.hear(line)
        if self.child and self.child.stdout in ready:
            self.work_on()

    def live(self):
        while True:
            self.turn()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Runner().live()
