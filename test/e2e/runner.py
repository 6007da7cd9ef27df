"""A runner for tests: the reference runner's dialogue, with work that misbehaves on demand.

The input of a run is {"do": WORD, ...}; see Runner.work(). It is handed to a sandbox as the text of
an argument: argv = runner.argv().
"""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

BEHAVIOUR = r'''
import threading
if os.environ.get("RUNNER_NOBEAT"):
    HEARTBEAT = 1e9
class Odd(Runner):
    over = True
    port = None
    lock = threading.RLock()  # timers write beside the main thread: words go out in the order of their numbers
    def about(self, kind, **fields):
        with self.lock:
            super().about(kind, **fields)
    def on_ack(self, word):
        with self.lock:
            super().on_ack(word)
    def is_over(self):
        return self.over
    def on_attach(self, word):
        if os.environ.get("RUNNER_MUTE"):
            return
        if os.environ.get("RUNNER_LEGACY"):
            self.connection = word["connection"]
            self.send({"type": "hello", "protocol": 1, "connection": self.connection, "run": None})
            return
        with self.lock:
            self.attach(word)
    def attach(self, word):
        self.connection = word["connection"]
        hello = {"type": "hello", "protocol": PROTOCOL, "version": VERSION, "session": self.session,
                 "instance": self.instance, "generation": self.generation,
                 "connection": self.connection, "run": self.run and self.run["run"]}
        if self.port:
            hello["port"] = self.port
        hello.update(json.loads(os.environ.get("RUNNER_HELLO", "{}")))
        self.send(hello)
        for kept in self.unsaid:
            if kept["seq"] > word.get("seq", 0):
                self.send(dict(kept, connection=self.connection))
    def done(self, output=None):
        with self.lock:  # an acknowledgement between the two would end the run before its result
            self.over = True
            self.result("completed", output=output if output is not None else {"pid": os.getpid()})
    def later(self, seconds, then):
        timer = threading.Timer(seconds, then)
        timer.daemon = True
        timer.start()
    def work(self, word):
        what = word.get("input") or {}
        self.over = False
        do = what.get("do", "ok")
        if do == "ok":
            self.output("working")
            self.done({"pid": os.getpid(), "instance": self.instance, "generation": self.generation,
                       "echo": what.get("echo")})
        elif do == "fail":
            self.output("failing")
            self.over = True
            self.result("failed", error={"code": "test_failed", "message": "as asked"})
        elif do == "sleep":
            self.output("sleeping")
            self.later(what["seconds"], self.done)
        elif do == "print":
            self.left = what["times"]
            def again():
                self.left -= 1
                self.output("tick %d" % self.left)
                if self.left > 0:
                    self.later(what["every"], again)
                else:
                    self.done()
            again()
        elif do == "silent":
            pass
        elif do == "hang":
            self.output("hanging")
        elif do == "ask":
            self.about("question", question="q1", text="may I?")
        elif do == "exit":
            if what.get("result"):
                self.done({"last": "words"})
            else:
                self.output("leaving")
            os._exit(what.get("code", 1))
        elif do == "babble":
            self.output("x")
            self.sock.sendall(b"this is no word\n")
        elif do == "replay":
            self.output("old news")
            old = dict(self.run, connection=self.connection - 1)
            self.send(dict(old, type="result", seq=99, status="completed", output="stale"))
            self.send({"type": "hello", "protocol": 1, "session": self.session,
                       "instance": self.instance, "generation": self.generation,
                       "connection": self.connection - 1, "run": self.run["run"]})
            self.later(what.get("seconds", 0.3), lambda: self.done("fresh"))
        elif do == "cut":
            self.cut(what["seconds"])
        elif do == "shell":
            done = subprocess.run(what["command"], shell=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.done({"exit": done.returncode, "text": done.stdout.decode(errors="replace")})
        elif do == "child":
            subprocess.Popen(["sleep", "1000"])
            self.done()
    def cut(self, seconds):
        """Closes the dialogue and listens for the daemon, after so long."""
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        self.port = server.getsockname()[1]
        self.output("cutting")
        self.send({"type": "hello", "protocol": PROTOCOL, "session": self.session,
                   "instance": self.instance, "generation": self.generation,
                   "connection": self.connection, "run": self.run["run"], "port": self.port})
        time.sleep(0.2)
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        for fd in (0, 240):
            try:
                os.close(fd)
            except OSError:
                pass
        time.sleep(seconds)
        server.listen(1)
        self.sock, _ = server.accept()
        self.pending = b""
        self.later(0.3, self.done)
    def on_answer(self, word):
        self.done({"answer": word["answer"]})
    def on_interrupt(self, word):
        with self.lock:
            self.over = True
            self.result("interrupted")

signal.signal(signal.SIGTERM, signal.SIG_IGN if os.environ.get("RUNNER_STUBBORN") else lambda *_: os._exit(0))
for name, fd in (("stdout", 241), ("stderr", 242)):
    try:
        os.dup2(fd, 1 if name == "stdout" else 2)
    except OSError:
        pass
print("runner up", os.getpid(), flush=True)
Odd().live()
'''


def source():
    with open(os.path.join(ROOT, "examples", "runner.py")) as file:
        text = file.read()
    return text.split('if __name__ == "__main__":')[0] + BEHAVIOUR


def argv():
    return ["/usr/bin/python3", "-c", source()]
