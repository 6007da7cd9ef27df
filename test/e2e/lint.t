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


def main():
    status, said = statics(LONG % "begin", LONG % "begin")
    c.same(status, 1, "two files with a static function of one name are refused")
    c.ok("1.c:1: begin() is also at" in said, "with name and place", said)
    c.same(statics(LONG % "exec_begin", LONG % "run_begin")[0], 0, "names that differ pass")
    c.same(statics(SHORT % "next", LONG % "next")[0], 0, "so does one of three lines")
    c.same(statics(LONG % "begin", (LONG % "begin").replace("static ", ""))[0], 0,
           "so does one that is not static")
    c.done()


main()
