#!/usr/bin/python3
# The driver of Python contexts, by itself: what every kind of cell answers.
import base64
import importlib.util
import os
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from driver import PYTHON, Died, check, done, error, python, results, same, texts  # noqa: E402

py = python()


def has(*modules):
    import subprocess
    return subprocess.run([PYTHON, "-c", "import " + ",".join(modules)],
                          stderr=subprocess.DEVNULL).returncode == 0


def last_expression():
    same(results(py.run("x = 20\nx + 1")), [("text", "21")])
    same(results(py.run("x")), [("text", "20")])
    same(results(py.run("None")), [])
    same(results(py.run("x;")), [])
    same(results(py.run("y = 3")), [])
    same(results(py.run("_ * 2")), [("text", "40")])
    same(py.run("")[-1]["type"], "execution_complete")
    same(py.run("# nothing")[-1]["type"], "execution_complete")


def nothing_twice():
    same(py.run("'a'")[0], {"type": "result", "text": "'a'", "metadata": {}})
    same(texts(py.run("'a'")), "")


def count():
    one = py.run("1")[-1]["execution_count"]
    same(py.run("1")[-1]["execution_count"], one + 1)


def json_results():
    same(results(py.run("{'a': [1, None, 'é']}")), [("json", {"a": [1, None, "é"]})])
    same(results(py.run("[1, 2]")), [("json", [1, 2])])
    same(results(py.run("[float('nan')]")), [("text", "[nan]")])
    same(results(py.run("{1, }")), [("text", "{1}")])
    same(results(py.run("[object]")), [("text", "[<class 'object'>]")])
    same(results(py.run("l = []; l.append(l); l")), [("text", "[[...]]")])
    same(results(py.run("d = []\nfor i in range(40): d = [d]\nd")), [("text", "[" * 41 + "]" * 41)])


def order():
    events = py.run("print('one'); display('two'); print('three', end=''); 4")
    same([event.get("text") for event in events[:-1]], ["one\n", "'two'", "three", "4"])


def rich():
    py.run("""
class Rich:
    def _repr_html_(self): return '<b>é</b>'
    def _repr_markdown_(self): return '**b**'
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_jpeg_(self): return b'\\xff\\xd8'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'k': 1}
    def _repr_javascript_(self): return 'alert(1)'
    def __repr__(self): return 'Rich()'
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/html': '<i>', 'text/plain': 'B'}, {}
class Broken:
    def _repr_html_(self): raise ValueError('no')
    def __repr__(self): return 'Broken()'
""")
    same(results(py.run("Rich()")), [
        ("html", "<b>é</b>"), ("markdown", "**b**"), ("svg", "<svg/>"),
        ("png", base64.b64encode(b"\x89PNG").decode()), ("jpeg", "/9g="), ("latex", "$x$"),
        ("json", {"k": 1}), ("javascript", "alert(1)"), ("text", "Rich()")])
    same(results(py.run("Bundle()")), [("html", "<i>"), ("text", "B")])
    events = py.run("Broken()")
    same(results(events), [("text", "Broken()")])
    assert "no" in texts(events, "stderr")
    same([kind for kind, _ in results(py.run("Rich"))], ["text"])
    same(results(py.run("display({'text/html': '<u>'}, raw=True)")), [("html", "<u>")])


def long_result():
    same(results(py.run("'x' * 300000"))[0][1], repr("x" * 300000))
    events = py.run("'x' * (17 << 20)")
    same(results(events), [])
    assert "left out" in texts(events, "stderr")
    same(events[-1]["type"], "execution_complete")


def awaiting():
    py.run("import asyncio\nasync def f():\n await asyncio.sleep(0.01)\n return 5")
    same(results(py.run("await f()")), [("text", "5")])
    same(results(py.run("z = await f()\nz + 1")), [("text", "6")])
    same(results(py.run("asyncio.run(f())")), [("text", "5")])
    same(results(py.run("t = asyncio.create_task(f())\nawait t")), [("text", "5")])


def syntax_errors():
    failure = error(py.run("1 +"))
    same(failure["ename"], "SyntaxError")
    assert "invalid syntax" in failure["evalue"], failure
    assert "1 +" in "\n".join(failure["traceback"]), failure
    same(error(py.run("if 1:\nx"))["ename"], "IndentationError")
    same(error(py.run("x = '\0'"))["type"], "error")


def exceptions():
    py.run("def bad(n):\n    return 1 / n")
    failure = error(py.run("print('before')\nbad(0)"))
    same((failure["ename"], failure["evalue"]), ("ZeroDivisionError", "division by zero"))
    trace = "\n".join(failure["traceback"])
    assert "return 1 / n" in trace and "bad(0)" in trace and "<cove>" not in trace, trace
    failure = error(py.run("class E(Exception):\n def __str__(self): raise KeyError\nraise E"))
    same(failure["ename"], "E")
    same(error(py.run("def f(): f()\nf()"))["ename"], "RecursionError")
    same(error(py.run("class R:\n def __repr__(self): raise ValueError('r')\nR()"))["ename"],
         "ValueError")
    same(error(py.run("raise ValueError('a') from KeyError('b')"))["ename"], "ValueError")
    same(error(py.run("x = bytearray(1 << 62)"))["ename"], "MemoryError")


def exits():
    failure = error(py.run("import sys\nsys.exit(3)"))
    same((failure["ename"], failure["evalue"]), ("SystemExit", "3"))
    same(error(py.run("exit()"))["ename"], "SystemExit")
    same(results(py.run("1+1")), [("text", "2")])


def no_input():
    failure = error(py.run("input('name? ')"))
    same(failure["ename"], "EOFError")
    assert "input() is not available" in failure["evalue"]
    same(results(py.run("import sys; sys.stdin.read()")), [("text", "''")])


def raw_output():
    events = py.run("import os\nprint('a')\nos.system('echo b; echo c >&2')\nprint('d')")
    same(texts(events), "a\nb\nd\n")
    same(texts(events, "stderr"), "c\n")
    same(texts(py.run("import sys; print('e', file=sys.stderr)"), "stderr"), "e\n")
    events = py.run("import ctypes; _ = ctypes.CDLL(None).puts(b'from C'); 1")
    same((texts(events), events[0]["type"]), ("from C\n", "stdout"))


def streams_mended():
    py.run("import sys; sys.stdout.close()")
    same(texts(py.run("print('again')")), "again\n")
    py.run("import os; os.set_blocking(1, False)")
    same(len(texts(py.run("print('x' * 1000000)"))), 1000001)


def output_is_streamed():
    import select
    py.tell("run", "import time\nprint('now')\ntime.sleep(0.5)")
    begun = time.monotonic()
    assert select.select([py.out], [], [], 5)[0]
    early = time.monotonic() - begun
    same(texts(py.events()), "now\n")
    assert early < 0.45 or time.monotonic() - begun - early > 0.3, early


def interrupts():
    for code in ("while True: pass", "import time; time.sleep(60)",
                 "import asyncio\nawait asyncio.sleep(60)",
                 "import subprocess; subprocess.run(['sleep', '60'])",
                 "while True: print('y' * 100)"):
        timer = threading.Timer(0.3, py.interrupt)
        timer.start()
        same(error(py.run(code))["ename"], "KeyboardInterrupt")
    py.interrupt()
    time.sleep(0.05)
    same(results(py.run("x")), [("text", "20")])


def forked():
    events = py.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: x = 0\npid > 0")
    same(results(events)[-1], ("text", "True"))
    same(results(py.run("x")), [("text", "20")])


def child_cannot_speak():
    same(py.run("import subprocess\nsubprocess.run(['ls', '/proc/self/fd'], stdout=-1).stdout.split()")
         [-1]["type"], "execution_complete")
    shown = texts(py.run("import subprocess; _ = subprocess.run(['ls', '/proc/self/fd'], "
                         "close_fds=False)"))
    assert "24" not in shown, shown


def forged():
    events = py.run("print('\\x1e' + 'f' * 16 + '.0002{}')")
    same(events[0]["type"], "stdout")


def sources():
    same(results(py.run("def g():\n    return 7\nimport inspect\nprint(inspect.getsource(g))")), [])
    same(texts(py.run("print(inspect.getsource(g))")), "def g():\n    return 7\n\n")
    same(results(py.run("import pickle\nclass P: pass\ntype(pickle.loads(pickle.dumps(P()))) is P")),
         [("text", "True")])
    same(results(py.run("__name__")), [("text", "'__main__'")])


def cwd():
    py.run("import os; os.chdir('/tmp')")
    same(py.cwd, "/tmp")


def threads():
    same(texts(py.run("import threading\nt = threading.Thread(target=lambda: print('t'))\n"
                      "t.start(); t.join()")), "t\n")


def dies(code, status):
    mine = python()
    try:
        mine.run(code)
    except Died as death:
        same(death.args[0], status)
        return death.args[1]
    finally:
        mine.close()
    raise AssertionError("it lives")


def deaths():
    dies("import os; os._exit(7)", 7)
    dies("import ctypes; ctypes.string_at(0)", -11)
    dies("import os; os.abort()", -6)


def flat():
    def size():
        with open("/proc/%d/statm" % py.process.pid) as file:
            return int(file.read().split()[1])
    for i in range(600):
        py.run("a = %d; a" % i)
    before = size()
    for i in range(2000):
        py.run("a = %d; a" % i)
    assert size() - before < 64, (before, size())  # pages


def quick():
    mine = python()
    import subprocess
    loaded = results(mine.run("import sys; sorted(sys.modules)"))[0][1]
    mine.close()
    bare = subprocess.run([PYTHON, "-c", "import sys; print(sorted(sys.modules))"],
                          stdout=subprocess.PIPE).stdout.decode()
    more = set(loaded) - set(eval(bare))
    # json is there because the answer is a list
    assert not {name for name in more if not name.startswith(("json", "_json", "re", "_ast", "_sre",
                "enum", "types", "functools", "collections", "operator", "keyword", "reprlib",
                "copyreg", "_collections", "_functools", "itertools", "_operator"))}, more


def frames():
    if not has("pandas"):
        return "no pandas"
    events = py.run("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})")
    kinds = dict(results(events))
    same([kind for kind, _ in results(events)], ["html", "text", "data"])
    assert "<table" in kinds["html"] and "a" in kinds["text"]
    same(kinds["data"], [{"a": 1, "b": "x"}, {"a": 2, "b": None}])
    events = py.run("pd.DataFrame({'n': range(1500)})")
    same(events[-2]["metadata"], {"rows": 1500, "truncated": True})


def png(value):
    data = base64.b64decode(value)
    same(data[:8], b"\x89PNG\r\n\x1a\n")


def drawings():
    if not has("matplotlib"):
        return "no matplotlib"
    events = py.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [4, 5, 6], label='up')\n"
                    "plt.title('T'); plt.xlabel('X'); plt.ylabel('Y');")
    (one, picture), (two, chart) = results(events)
    same((one, two), ("png", "chart"))
    png(picture)
    same((chart["type"], chart["title"], chart["library"]), ("line", "T", "matplotlib"))
    same(chart["layout"]["xaxis"]["title"], "X")
    same(chart["data"]["series"], [{"label": "up", "x": [1, 2, 3], "y": [4, 5, 6]}])
    same(results(py.run("1")), [("text", "1")])


def shown_once():
    if not has("matplotlib"):
        return "no matplotlib"
    events = py.run("plt.plot([1])\nplt.show()\nprint('after')")
    same([event["type"] for event in events], ["result", "result", "stdout", "execution_complete"])
    events = py.run("fig, ax = plt.subplots()\nax.plot([1, 2])\nfig")
    same([kind for kind, _ in results(events)], ["png", "chart"])
    events = py.run("fig, ax = plt.subplots()\n1/0")
    same([event["type"] for event in events], ["result", "result", "error"])
    same([kind for kind, _ in results(py.run("plt.figure(); plt.figure();"))], ["png", "png"])


CHARTS = {
    "plt.bar(['a', 'b'], [3, 4])": ("bar", [{"label": "series 1", "x": ["a", "b"], "y": [3, 4]}]),
    "plt.barh(['a', 'b'], [3, 4])": ("bar", [{"label": "series 1", "x": ["a", "b"], "y": [3, 4]}]),
    "plt.scatter([1, 2], [3, 4], label='s')":
        ("scatter", [{"label": "s", "x": [1, 2], "y": [3, 4]}]),
    "plt.pie([1, 3], labels=['p', 'q'], autopct='%d')":
        ("pie", [{"label": "p", "value": 0.25}, {"label": "q", "value": 0.75}]),
    "plt.boxplot([1, 2, 3, 4, 100])":
        ("box", [{"label": "1", "min": 1, "q1": 2, "median": 3, "q3": 4, "max": 4,
                  "outliers": [100]}]),
    "plt.hist([1, 1, 2], bins=2)":
        ("histogram", [{"label": "series 1", "x": [1.25, 1.75], "y": [2, 1]}]),
    "plt.imshow([[1, 2], [3, 4]])":
        ("heatmap", [{"label": "series 1", "values": [[1, 2], [3, 4]]}]),
}


def charts():
    if not has("matplotlib"):
        return "no matplotlib"
    for code, (kind, series) in CHARTS.items():
        chart = dict(results(py.run(code + ";")))["chart"]
        same((chart["type"], chart["data"]["series"]), (kind, series))
    chart = dict(results(py.run("f, (a, b) = plt.subplots(1, 2)\na.plot([1]); b.bar([1], [2]);")))
    same([one["type"] for one in chart["chart"]["data"]["charts"]], ["line", "bar"])


def chosen_backend():
    if not has("matplotlib"):
        return "no matplotlib"
    mine = python()
    same([kind for kind, _ in results(mine.run(
        "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([1]);"))],
        ["png", "chart"])
    mine.close()


def magics():
    if not has("IPython.core.interactiveshell"):
        return "no IPython"
    with tempfile.TemporaryDirectory() as home:
        mine = python(env=dict(os.environ, HOME=home))
        same(results(mine.run("a = 5\n1")), [("text", "1")])
        same(texts(mine.run("print('a'); w = 'hi'\n!echo $w {w}; (exit 3)\nprint(_exit_code)")), "a\nhi hi\n3\n")
        same(results(mine.run("b = !echo one\nlen(b)")), [("text", "1")])
        same(results(mine.run("a")), [("text", "5")])
        same(texts(mine.run("%%bash\necho $((1 + 1))")), "2\n")
        assert "Wall time" in texts(mine.run("%time sum(range(10))"))
        same(results(mine.run("from IPython.display import HTML, display\ndisplay(HTML('<b>'))"))[0],
             ("html", "<b>"))
        same(results(mine.run("HTML('<i>')"))[0], ("html", "<i>"))
        same(error(mine.run("1/0"))["ename"], "ZeroDivisionError")
        same(error(mine.run("1 +"))["ename"], "SyntaxError")
        same(results(mine.run("{'a': 1}")), [("json", {"a": 1})])
        same(mine.run("%matplotlib inline")[-1]["type"], "execution_complete")
        same(results(mine.run("import asyncio\nawait asyncio.sleep(0, 3)")), [("text", "3")])
        mine.close()


def no_magics():
    mine = python("-S")
    failure = error(mine.run("!echo hi"))
    same(failure["ename"], "SyntaxError")
    assert "IPython" in failure["evalue"], failure
    mine.close()


for sentence, test in {
    "the last expression is the result, and the state stays": last_expression,
    "a result is not printed as well": nothing_twice,
    "cells are counted": count,
    "dict and list are JSON, where JSON can say them": json_results,
    "text and results come in the order of their making": order,
    "every representation is an event, and a broken one is none": rich,
    "a long result is whole; one past the limit is left out, and that is said": long_result,
    "await at the top, and asyncio.run": awaiting,
    "a syntax error is an error": syntax_errors,
    "an exception has name, message and the lines of the cells": exceptions,
    "SystemExit is an error that the context survives": exits,
    "input() is refused": no_input,
    "children and C write where print does": raw_output,
    "closed and changed streams are mended": streams_mended,
    "output is seen while the cell runs": output_is_streamed,
    "an interrupt ends the cell and not the context, whatever it does": interrupts,
    "a forked child does not speak for its parent": forked,
    "no child has the dialogue": child_cannot_speak,
    "an event with another key is text": forged,
    "inspect and pickle know what was defined in cells": sources,
    "the directory is told": cwd,
    "threads print": threads,
    "a crash ends the process with its signal": deaths,
    "cells leave nothing behind": flat,
    "a plain cell loads no module beyond the start": quick,
    "a DataFrame is html, text and data": frames,
    "a figure is a picture and data, without show()": drawings,
    "a figure is sent once": shown_once,
    "bar, scatter, pie, box, histogram, heatmap as data": charts,
    "a backend that was chosen is kept": chosen_backend,
    "magics, !shell and display() of IPython": magics,
    "without IPython a magic is a syntax error that says why": no_magics,
}.items():
    check(sentence, test)
py.close()
done()
