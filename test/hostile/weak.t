#!/usr/bin/env python3
"""The weak build, which the other files' controls stand on: it says what it is, every switch of it is
used by a row, and nothing of it is in the build that is shipped."""
import glob
import os
import re
import subprocess

from rows import c, defences, HERE, WEAK

c.need_root()
if not os.path.exists(WEAK):
    c.skip_all("there is no %s: make weak" % WEAK)


def said(*words, binary=WEAK, **env):
    run = subprocess.run([binary, *words], capture_output=True, text=True, env=dict(os.environ, **env), timeout=60)
    return run.returncode, run.stdout + run.stderr


code, table = said("serve", COVE_WEAKEN="no-such-defence")
rows = list(defences().items())
c.ok(code == 2 and len(rows) > 30, "a word that names no defence is refused, with a table of those that do", table)
code, text = said("serve", COVE_WEAKEN="@" + os.devnull)
c.ok(code == 2 and "%d switches" % len(rows) in text, "so is a file that does not have as many switches", code, text)
c.ok("WEAK" in said("version")[1] and "-weak" in said("version")[1], "its version says that it is weak")
c.ok("WEAK" in said("doctor")[1] and said("doctor")[0] == 1, "so does its doctor, who does not find it well")

tests = "".join(open(path).read() for path in glob.glob(os.path.join(HERE, "*.t")) if path != os.path.abspath(__file__))
named = set(re.findall(r"\w+", " ".join(re.findall(r'"[\w,]+"', tests))))
c.same([word for word, _ in rows if word not in named], [], "every defence is switched off by some row")

with open(c.BIN, "rb") as file:
    shipped = file.read()
c.ok(b"COVE_WEAKEN" not in shipped, "the build that is shipped does not know the variable")
c.same([what for _, what in rows if what.encode() in shipped], [], "nor a word of the table")
c.ok("weak" not in said("version", binary=c.BIN)[1].lower(), "nor calls itself weak")

cove = c.Cove(env={"COVE_WEAKEN": ",".join(word for word, _ in rows)})
box = cove.create()
c.same(cove.out(box, "wc -c < /proc/cmdline; grep -E 'Seccomp:|NoNewPrivs' /proc/self/status; ls /proc/self/fd"),
       "0\nNoNewPrivs:\t1\nSeccomp:\t2\n0\n1\n2\n3\n", "told to switch all off, it switches off nothing")
cove.delete(box)
c.same(cove.stop(), 0, "and stops cleanly")

if os.path.exists(os.path.join(c.ROOT, "Makefile")):
    def make(*words):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        run = subprocess.run(["make", "-C", c.ROOT, "-n", "DESTDIR=/nowhere", *words], capture_output=True, text=True, env=env)
        return run.returncode, run.stdout + run.stderr
    code, text = make("install", "V=release", "O=build/release")
    laid = [line for line in text.splitlines() if line.startswith(("install ", "cp ", "ln "))]
    c.ok(code == 0 and any(" build/cove " in line for line in laid) and not any("weak" in line for line in laid),
         "what is installed is another build", code, laid)
    code, text = make("install", "V=weak")
    c.ok(code != 0 and "for tests alone" in text, "the weak one is not installed even by request", code, text[-2000:])
c.done()
