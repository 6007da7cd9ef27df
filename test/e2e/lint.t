#!/usr/bin/env python3
# Each check of the tree that lint makes with a program of its own finds what it is meant to find.
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c

LONG = "static int %s(int n)\n{\n\tint sum = 0;\n\n\twhile (n > 0)\n\t\tsum += n--;\n\treturn sum;\n}\n"
SHORT = "static int %s(int n)\n{\n\treturn n + 1;\n}\n"


def statics(*texts):
    with tempfile.TemporaryDirectory() as folder:
        for i, text in enumerate(texts):
            with open(os.path.join(folder, "%d.c" % i), "w") as out:
                out.write(text)
        done = subprocess.run(["awk", "-f", os.path.join(c.ROOT, "tools", "statics.awk"),
                               *[os.path.join(folder, "%d.c" % i) for i in range(len(texts))]],
                              stdout=subprocess.PIPE, text=True, timeout=20)
    return done.returncode, done.stdout


def calls(rows, sources, circles=""):
    """tools/calls on a tree of those floors and sources."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"src/FLOORS": rows, "src/CIRCLES": circles, **sources}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as out:
                out.write(text)
            if name.endswith(".c"):
                subprocess.run(["gcc", "-O2", "-c", "-o", name[:-2] + ".o", name], cwd=folder, check=True, timeout=60)
        symbols = subprocess.run(["nm", "-A", "-P", *[name[:-2] + ".o" for name in sources]], cwd=folder,
                                 stdout=subprocess.PIPE, check=True, timeout=60).stdout
        done = subprocess.run([os.path.join(c.ROOT, "tools", "calls"), "src/FLOORS", "src/CIRCLES"], cwd=folder,
                              input=symbols, stdout=subprocess.PIPE, timeout=60)
    return done.returncode, done.stdout.decode()


def floors_by_calls():
    rows = "main high low\nhigh low\nlow\n"
    tree = {"src/main.c": "int high(void);\nint main(void)\n{\n\treturn high();\n}\n",
            "src/high/high.c": "int low(void);\nint setting = 1;\nint high(void)\n{\n\treturn low();\n}\n",
            "src/low/low.c": "int low(void)\n{\n\treturn 1;\n}\n"}
    c.same(calls(rows, tree), (0, ""), "calls downwards pass")
    upwards = dict(tree, **{"src/low/up.c": "int high(void);\nint up(void)\n{\n\treturn high();\n}\n"})
    status, said = calls(rows, upwards)
    c.same(status, 1, "a call upwards is refused, though nothing is included")
    c.same(said, "src/low/up.c: low may not call high (high of high/high)\n", "with file and symbol")
    data = dict(tree, **{"src/low/up.c": "extern int setting;\nint up(void)\n{\n\treturn setting;\n}\n"})
    c.same(calls(rows, data)[0], 1, "so is a use of data above")
    c.same(calls("main high\nhigh\nlow\n", tree)[0], 1, "so is one that the row of the folder does not name")
    two = dict(upwards, **{"src/low/high.c": "int high(void)\n{\n\treturn 2;\n}\n"})
    c.same(calls(rows, two)[0], 0, "of two functions of one name the nearest is meant")


def circles_by_calls():
    rows = "low\n"
    call = "int %s(int n);\nint %s(int n)\n{\n\treturn n ? %s(n - 1) : 0;\n}\n"

    def ring(*names):
        return {"src/low/%s.c" % name: call % (to, name, to) for name, to in zip(names, names[1:] + names[:1])}

    status, said = calls(rows, ring("a", "b"))
    c.same(status, 1, "a circle of calls is refused")
    c.ok("not listed: low/a low/b" in said and "src/low/a.c calls src/low/b.c (b)" in said, "with its files", said)
    c.same(calls(rows, ring("a", "b"), "low/a low/b\n"), (0, ""), "unless it is listed")
    c.same(calls(rows, ring("a", "b", "d"), "low/a low/b\n")[0], 1, "a listed one may not grow")
    c.same(calls(rows, {**ring("a", "b"), **ring("d", "e")}, "low/a low/b\n")[0], 1, "nor get company")
    status, said = calls(rows, {"src/low/a.c": call % ("a", "a", "a")}, "low/a low/b\n")
    c.same(status, 1, "one that is gone must leave the list")
    c.ok("no circle now: low/a low/b" in said, "and is named", said)
    c.same(calls(rows, ring("a", "b"), "low/a low/b low/d\n")[0], 1, "so must a file that left one")


def main():
    floors_by_calls()
    circles_by_calls()
    status, said = statics(LONG % "begin", LONG % "begin")
    c.same(status, 1, "two files with a static function of one name are refused")
    c.ok("1.c:1: begin() is also at" in said, "with name and place", said)
    c.same(statics(LONG % "exec_begin", LONG % "run_begin")[0], 0, "names that differ pass")
    c.same(statics(SHORT % "next", LONG % "next")[0], 0, "so does one of three lines")
    c.same(statics(LONG % "begin", (LONG % "begin").replace("static ", ""))[0], 0,
           "so does one that is not static")
    c.done()


main()
