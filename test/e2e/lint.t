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


def calls(rows, sources):
    """tools/calls on a tree of those floors and sources."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"src/FLOORS": rows, **sources}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as out:
                out.write(text)
            if name.endswith(".c"):
                subprocess.run(["gcc", "-O2", "-c", "-o", name[:-2] + ".o", name], cwd=folder, check=True, timeout=60)
        symbols = subprocess.run(["nm", "-A", "-P", *[name[:-2] + ".o" for name in sources]], cwd=folder,
                                 stdout=subprocess.PIPE, check=True, timeout=60).stdout
        done = subprocess.run([os.path.join(c.ROOT, "tools", "calls"), "src/FLOORS"], cwd=folder,
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
    c.ok("src/low/a.c calls src/low/b.c (b)\n" in said and "src/low/b.c calls src/low/a.c (a)\n" in said,
         "with its calls", said)
    status, said = calls(rows, {**ring("a", "b", "d"), "src/low/e.c": call % ("a", "e", "a")})
    c.same((status, said.count("\n"), "src/low/e.c" in said), (1, 3, False), "a longer one as well, and nothing beside it")
    c.same(calls(rows, {"src/low/a.c": call % ("a", "a", "a"), "src/low/b.c": call % ("a", "b", "a")}), (0, ""),
           "a function that calls itself is none")


def run_on(tool, sources, *lists):
    """A tool of tools/, awk or not, on files of those names, which are said as they are here."""
    path = os.path.join(c.ROOT, "tools", tool)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "wb") as out:
                out.write(text if isinstance(text, bytes) else text.encode())
        done = subprocess.run([*(["awk", "-f", path] if tool.endswith(".awk") else [path]), *lists,
                               *[name for name in sources if name not in lists]], cwd=folder,
                              env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=60)
    return done.returncode, done.stdout.decode()


def words():
    def check(rows, sources):
        return run_on("check-words", {"list": rows, **sources}, "list")

    never = "never berth bury # and what it was\n"
    c.same(check(never, {"src/low/a.c": "int number, berthed_by, reburying;\n"})[0], 1, "a word that may not occur is found")
    c.same(check(never, {"src/low/a.c": "// Some\n// Berths.\n"})[1], "src/low/a.c:2: 'Berths' (berth)\n", "with its place, in any form")
    for text in ("box_berth_lost", "BERTH_MAX", '"berthLost"', '"theBerths"', "buried", "burying", "x_buries"):
        c.same(check(never, {"src/low/a.c": text})[0], 1, "so is %s" % text)
    for text in ("birth", "rebury", "berthold", "BERTHOLD", "auburied", "a\0berth"):
        c.same(check(never, {"src/low/a.c": text})[0], 0, "%r is something else" % text)
    c.same(check(never, {"src/low/berth.c": ""})[1], "src/low/berth.c: 'berth' in the path\n", "a path counts, too")
    c.same(check(never + "except src/low/a.c berth\n", {"src/low/a.c": "berth"})[0], 0, "a file that is excepted may have it")
    rows = "retired low cell\n"
    c.same(check(rows, {"src/low/cell.c": ""})[0], 1, "a retired name is none for a file")
    c.same(check(rows, {"src/low/cell_run.h": ""})[0], 1, "nor the beginning of one")
    c.same(check(rows, {"src/low/a.h": "struct cell {\n\tint n;\n};\n"})[1],
           "src/low/a.h:1: struct cell: that name is retired there\n", "nor for a struct")
    c.same(check(rows, {"src/low/a.c": "int cell_find(int n)\n{\n}\n"})[1],
           "src/low/a.c:1: cell_find(): that name is retired there\n", "nor for a function")
    c.same(check(rows, {"src/low/a.c": "static int cell_find(int n)\n{\n}\n"})[0], 0, "that others call")
    c.same(check(rows, {"src/low/a.c": "static int excel(int cell)\n{\n\treturn cell;\n}\n", "src/high/cell.c": ""})[0], 0,
           "in another folder, or for a variable, it is a word like any other")
    c.same(check("sometimes berth\n", {"src/low/a.c": ""})[0], 1, "a list that says something else is refused")


def openings():
    def check(**texts):
        return run_on("openings.awk", {n + ".c": t for n, t in texts.items()})

    good = "// Does this.\n// Needs that.\n//\n// syscalls: read\n#include <stdio.h>\n"
    c.same(check(a=good, b=good), (0, ""), "files that open with a comment pass")
    c.same(check(a="#include <stdio.h>\n// Does this.\n")[0], 1, "one that does not is refused")
    c.same(check(a="// Does this.\n//\n// syscalls: read\nint n;\n")[1],
           "a.c: opens with 1 lines of comment, not with 2 to 10\n", "so is one of one line")
    c.same(check(a="// Does this.\n" * 11)[0], 1, "and one of eleven")
    c.same(check(a="")[0], 1, "and an empty file")


def one_way_to_a_box():
    call = "int f(void)\n{\n\treturn box_ref_begin(0);\n}\n"
    c.same(run_on("bans.awk", {"src/api/a.c": call}),
           (1, "src/api/a.c:3: box_ref_begin() is for gateway/: gateway_box(), gateway_entry()\n"),
           "a route that looks a sandbox up itself is refused")
    for name in ("box_ref_look", "access_find"):
        c.same(run_on("bans.awk", {"src/toolbox/a.c": call.replace("box_ref_begin", name)})[0], 1, "by %s(), too" % name)
    c.same(run_on("bans.awk", {"src/gateway/a.c": call, "src/cloudflare/b.c": call.replace("box_ref_begin", "gateway_box")}),
           (0, ""), "gateway/ may, and its functions are for all")


def width():
    def check(text):
        return run_on("width.awk", {"a.md": text})

    wide = "word " * 24
    c.same(check("word " * 20 + "\n")[0], 0, "a line of 100 columns passes")
    c.same(check("short\n%s\n" % wide), (1, "a.md:2: 120 columns\n"), "a longer one is refused")
    c.same(check("- %s\n" % wide)[0], 1, "in a list, too")
    c.same(check("| %s |\n" % wide)[0], 0, "a table may be wider")
    c.same(check("```\n%s\n```\n" % wide)[0], 0, "so may code")
    c.same(check("```\ncode\n```\n%s\n" % wide)[0], 1, "but not what comes behind it")
    c.same(check("text\n\n    %s\n" % wide)[0], 0, "indented code, too")
    c.same(check("text\n    %s\n" % wide)[0], 1, "but not a paragraph that is indented")
    c.same(check("see https://example.com/%s there\n" % ("x" * 100))[0], 0, "so may an address")
    c.same(check("\u00e9" * 100 + "\n")[0], 0, "a character is a column")


def web():
    """What the sources of the dashboard must not do."""
    def check(text, name="a.tsx"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "w") as out:
                out.write(text)
            done = subprocess.run(["awk", "-f", os.path.join(c.ROOT, "tools", "web_bans.awk"), path], stdout=subprocess.PIPE, text=True, timeout=20)
        return done.returncode
    c.same(check("e.textContent = text;\n"), 0, "text of an element passes")
    for text in ("e.innerHTML = x", "e.outerHTML = x", "e.insertAdjacentHTML('a', x)", "<p dangerouslySetInnerHTML={x} />", "document.write(x)",
                 "eval(x)", "new Function(x)", "href='javascript:x'", "localStorage.x = 1", "document.cookie = x", "fetch('https://a.test/')"):
        c.same(check(text + "\n"), 1, "%s is refused" % text.split("(")[0])
    c.same(check("localStorage.x = 1\n", "preferences.ts"), 0, "preferences are kept")
    c.same(check("<p onclick=x>\n", "index.html"), 1, "an inline handler is refused")


def main():
    web()
    floors_by_calls()
    circles_by_calls()
    words()
    openings()
    one_way_to_a_box()
    width()
    status, said = statics(LONG % "begin", LONG % "begin")
    c.same(status, 1, "two files with a static function of one name are refused")
    c.ok("1.c:1: begin() is also at" in said, "with name and place", said)
    c.same(statics(LONG % "exec_begin", LONG % "run_begin")[0], 0, "names that differ pass")
    c.same(statics(SHORT % "next", LONG % "next")[0], 0, "so does one of three lines")
    c.same(statics(LONG % "begin", (LONG % "begin").replace("static ", ""))[0], 0,
           "so does one that is not static")
    c.done()


main()
