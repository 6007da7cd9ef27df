#!/usr/bin/env python3
"""libcove as its users meet it: the examples compiled as C and as C++, run under valgrind, and the
stories of test/lib told over good and bad connections."""
import os
import re
import shutil
import subprocess
import tempfile

import cove as c
from flaky import Flaky

c.need_root()
LIBS = os.path.dirname(os.path.realpath(c.BIN))
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]
PRIVATE = ["-ljson-c", "-lwslay", "-lcrypto", "-lpthread"]
# Calls wait on small stacks of their own, which in a process with threads may lie close to others.
VALGRIND = ["valgrind", "-q", "--max-stackframe=30000", "--leak-check=full", "--show-leak-kinds=all",
            "--errors-for-leak-kinds=all", "--error-exitcode=99"]


def run(words, env=None, timeout=300, **kw):
    return subprocess.run(words, env=env, capture_output=True, text=True, errors="replace",
                          timeout=timeout, **kw)


def build(home):
    """The header as it is installed, and each example in both languages."""
    include = os.path.join(home, "include")
    os.mkdir(include)
    shutil.copy(os.path.join(c.ROOT, "src", "lib", "cove.h"), include)
    made = {}
    for name in ("run", "build", "live", "submit"):
        source = os.path.join(c.ROOT, "examples", name + ".c")
        for kind, words in (("c", ["gcc", "-std=c11", *STRICT, "-I" + include, source, "-L" + LIBS, "-lcove",
                                   "-Wl,-rpath," + LIBS]),
                            ("cc", ["g++", "-std=c++17", *STRICT, "-I" + include, "-x", "c++", source, "-x", "none",
                                    os.path.join(LIBS, "libcove.a"), *PRIVATE])):
            out = os.path.join(home, "%s.%s" % (name, kind))
            got = run([*words, "-o", out])
            c.ok(got.returncode == 0, "the example '%s' compiles as %s" %
                 (name, "C11, shared" if kind == "c" else "C++17, static"), got.stderr)
            made[name, kind] = out
    return made


def names():
    shared = run(["nm", "-D", "--defined-only", os.path.join(LIBS, "libcove.so")]).stdout.split("\n")
    seen = [line.split()[-1] for line in shared if line and " A " not in line]
    c.ok(len(seen) > 50 and all(name.startswith("cove_") for name in seen),
         "the shared library shows nothing but cove_*", [s for s in seen if not s.startswith("cove_")])
    static = run(["nm", "-g", "--defined-only", os.path.join(LIBS, "libcove.a")]).stdout.split("\n")
    loud = [line for line in static if len(line.split()) == 3 and not line.split()[-1].startswith("cove_")]
    c.same(loud, [], "nor does the static one")
    header = open(os.path.join(c.ROOT, "src", "lib", "cove.h")).read()
    declared = set(re.findall(r"\b(cove_[a-z_]+)\(", header)) - set(re.findall(r"typedef int (cove_[a-z_]+)\(", header))
    c.same(sorted(declared - {s.split("@")[0] for s in seen}), [], "all that the header declares is there")
    page = run(["awk", "-f", os.path.join(c.ROOT, "tools", "libman.awk"),
                os.path.join(c.ROOT, "src", "lib", "cove.h")], env=dict(os.environ, LC_ALL="C")).stdout
    c.ok(page == open(os.path.join(c.ROOT, "man", "libcove.3")).read(), "man/libcove.3 is made from the header",
         "make it again: LC_ALL=C awk -f tools/libman.awk src/lib/cove.h > man/libcove.3")
    if not shutil.which("pkg-config"):
        c.skip("pkg-config knows it", "pkg-config is not installed")
        return
    got = run(["pkg-config", "--cflags", "--libs", "libcove"], env=dict(os.environ, PKG_CONFIG_PATH=LIBS))
    c.ok(got.returncode == 0 and "-lcove" in got.stdout, "pkg-config knows it", got)


def watched(words, env, home):
    """Under valgrind: the program's own answer, and what valgrind had to say."""
    log = os.path.join(home, "valgrind.log")
    got = run([*VALGRIND, "--log-file=" + log, *words], env=env)
    return got, open(log).read()


def examples(made, env, home):
    source = os.path.join(home, "hello.c")
    with open(source, "w") as file:
        file.write('#include <stdio.h>\nint main(void) { puts("from inside"); return 0; }\n')
    program = os.path.join(home, "hello")
    job = os.path.join(home, "job.py")
    with open(job, "w") as file:
        file.write("import os, sys\nos.mkdir('out')\nopen('out/x', 'w').write('y')\nprint('from the job', flush=True)\nsys.exit(4)\n")
    stories = (("submit", [job], 4, "from the job\n"),
               ("run", ["sh", "-c", "echo out; echo err >&2; exit 5"], 5, "out\n"),
               ("run", ["nonesuch"], 125, ""),
               ("build", [source, program], 0, "from inside\n"),
               ("live", [], 0, "terminal ended with 3\n"))
    for kind in ("c", "cc"):
        for name, words, status, text in stories:
            got, said = watched([made[name, kind], *words], env, home)
            c.ok(got.returncode == status and text in got.stdout and not said,
                 "the example '%s' (%s) works without a leak: %s" % (name, kind, " ".join(words)[:30]), got, said)
    c.ok(os.path.getsize(program) > 1000, "what it built came back")
    got = run([c.BIN, "exec", "example-build", "src/program"], env=env)
    c.same(got.stdout, "from inside\n", "and the command line finds the same sandbox")
    got = run([c.BIN, "rm", "example-build"], env=env)


def stories(cove, env, home):
    out = os.path.join(home, "story")
    got = run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", *STRICT[:2], "-Werror", "-g", "-iquote",
               os.path.join(c.ROOT, "src"), "-iquote", os.path.join(c.ROOT, "test"),
               os.path.join(c.ROOT, "test", "lib", "story.c"), "-L" + LIBS, "-lcove", "-Wl,-rpath," + LIBS,
               "-lpthread", "-o", out])
    if not c.ok(got.returncode == 0, "the stories compile", got.stderr):
        return
    for how, words in (("", []), (" under valgrind", [*VALGRIND, "--log-file=" + os.path.join(home, "log")])):
        got = run([*words, out], env=env)
        for line in got.stdout.splitlines():
            if re.match(r"(not )?ok ", line):
                c.ok(line.startswith("ok"), line.split(" - ", 1)[1] + how, got.stdout, got.stderr)
        c.ok(got.returncode == 0, "the stories end well" + how, got.stdout[-2000:], got.stderr[-2000:],
             open(os.path.join(home, "log")).read() if words else "")
    scaled = c.Cove("--dev", "--time-scale=30", data=os.path.join(home, "scaled"))
    got = run([*VALGRIND, "--log-file=" + os.path.join(home, "log"), out], env=dict(env, COVE_DATA=scaled.data, COVE_SCALED="1"))
    c.ok(got.returncode == 0, "alerts and history of a host", got.stdout[-2000:], got.stderr[-2000:], open(os.path.join(home, "log")).read())
    c.same(scaled.close(), 0, "whose daemon ends in peace")
    flaky = Flaky(cove.port, bytes_max=150000)
    got = run([out], env=dict(env, COVE_URL=flaky.url, COVE_TOKEN=cove.key, COVE_FLAKY="1", COVE_STORY="streamed"))
    c.ok(got.returncode == 0 and flaky.cuts > 5, "streams that are cut at random are whole all the same (%d cuts)" %
         flaky.cuts, got.stdout, got.stderr)
    flaky.close()


def main():
    for tool in ("gcc", "g++", "valgrind", "nm"):
        if not shutil.which(tool):
            c.skip_all(tool + " is not installed")
    if not os.path.exists(os.path.join(LIBS, "libcove.so")):
        c.skip_all("the library is not built: make lib")
    home = tempfile.mkdtemp(prefix="cove-lib-", dir=os.environ.get("COVE_TEST_DIR"))
    os.chmod(home, 0o711)
    try:
        made = build(home)
        names()
        cove = c.Cove(data=os.path.join(home, "data"))
        env = {k: v for k, v in os.environ.items() if not k.startswith("COVE_")}
        env["COVE_DATA"] = cove.data
        with open(os.path.join(c.ROOT, "examples", "runner.py")) as file:
            env["COVE_RUNNER"] = file.read()
        examples(made, env, home)
        stories(cove, env, home)
        c.same(cove.close(), 0, "the daemon ends in peace")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    c.done()


main()
