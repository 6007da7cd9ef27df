#!/usr/bin/python3
# The driver of JavaScript and TypeScript contexts, by itself: what every kind of cell answers.
import os
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from driver import Died, check, done, error, node, results, same, texts  # noqa: E402

js = node()


def value(code, driver=None):
    found = results((driver or js).run(code))
    return found[0] if found else None


def last_expression():
    same(value("1 + 1"), ("text", "2"))
    same(value("'s'"), ("text", "'s'"))
    same(value("undefined"), None)
    same(value("null"), ("text", "null"))
    same(value("var v = 5"), None)
    same(value("1; var w = 5"), None)
    same(value("if (true) { 5 }"), None)
    same(value("10n"), ("text", "10n"))
    same(value("'use strict'"), ("text", "'use strict'"))
    same(value(""), None)
    same(js.run("1")[0], {"type": "result", "text": "1", "metadata": {}})


def objects():
    same(value("({a: 1})"), ("json", {"a": 1}))
    same(value("{a: [1, 'é'], b: null}"), ("json", {"a": [1, "é"], "b": None}))
    same(value("[1, 2]"), ("json", [1, 2]))
    same(value("{ let z = 1; }"), None)
    same(value("var o = {}; o.o = o; o")[0], "text")
    same(value("[1n]"), ("text", "[ 1n ]"))
    same(value("var d = []; for (let i = 0; i < 40; i++) d = [d]; d")[0], "text")
    same(value("new Map([[1, 2]])"), ("text", "Map(1) { 1 => 2 }"))
    same(value("(function f() {})"), ("text", "[Function: f]"))
    same(value("class C { x = 1 }; new C()"), ("json", {"x": 1}))


def state():
    js.run("const a = 1; let b = 2; var c = 3; function d() { return 4 } class E { f() { return 5 } }")
    same(value("[a, b, c, d(), new E().f()]"), ("json", [1, 2, 3, 4, 5]))
    js.run("const {p, q: [r, ...s], t = 9} = {p: 1, q: [2, 3, 4]}")
    same(value("[p, r, s, t]"), ("json", [1, 2, [3, 4], 9]))
    same(value("b += 1; b"), ("text", "3"))


def declared_again():
    js.run("const again = 1")
    same(value("const again = 2; again"), ("text", "2"))
    js.run("class K { v() { return 1 } }")
    same(value("class K { v() { return 2 } }; new K().v()"), ("text", "2"))
    same(value("const fs = require('fs'); typeof fs.readFileSync"), ("text", "'function'"))
    same(value("const crypto = require('crypto'); typeof crypto.createHash"), ("text", "'function'"))
    same(value("const {performance} = require('perf_hooks'); typeof performance.now"),
         ("text", "'function'"))


def awaiting():
    same(value("await Promise.resolve(7)"), ("text", "7"))
    same(value("const w1 = await Promise.resolve(1), {w2} = {w2: 2}; let w3; w1 + w2"), ("text", "3"))
    same(value("[w1, w2, w3 === undefined]"), ("json", [1, 2, True]))
    same(value("function fa() { return 8 }\nclass Fb {}\nawait null\nfa()"), ("text", "8"))
    same(value("fa() + (new Fb() ? 1 : 0)"), ("text", "9"))
    same(value("for await (const i of [1, 2]) console.log(i)"), None)
    same(value("await null\nawait 1"), ("text", "1"))
    same(value("await null; ({w2})"), ("json", {"w2": 2}))
    same(value("await null; ((5)) ;"), ("text", "5"))
    same(value("let n1 = 1\nawait 0\nn1"), ("text", "1"))
    same(value("const arrow = async () => await 5; arrow()"), ("text", "5"))


def promises():
    same(value("Promise.resolve(3)"), ("text", "3"))
    same(value("new Promise((r) => setTimeout(() => r('late'), 20))"), ("text", "'late'"))
    failure = error(js.run("Promise.reject(new RangeError('far'))"))
    same((failure["ename"], failure["evalue"]), ("RangeError", "far"))
    events = js.run("Promise.reject(new Error('lost')); await new Promise((r) => setTimeout(r, 20))")
    assert "lost" in texts(events, "stderr"), events
    events = js.run("setTimeout(() => { throw new Error('timer') }, 1); "
                    "await new Promise((r) => setTimeout(r, 20))")
    assert "timer" in texts(events, "stderr"), events


def consoles():
    events = js.run("console.log('a', {b: 1}); console.error('c'); console.warn('d'); console.info('e')")
    same(texts(events), "a { b: 1 }\ne\n")
    same(texts(events, "stderr"), "c\nd\n")
    events = js.run("console.log('one'); display([2]); process.stdout.write('three'); 4")
    same([event.get("text", event.get("json")) for event in events[:-1]], ["one\n", [2], "three", "4"])
    same(len(texts(js.run("console.log('x'.repeat(1000000))"))), 1000001)


def modules():
    same(value("require('path').join('a', 'b')"), ("text", "'a/b'"))
    same(value("(await import('node:os')).EOL"), ("text", "'\\n'"))
    same(value("import {join, sep as s9} from 'node:path'\nimport url from 'url'\nimport * as os9 from 'os'\n"
               "[join('a', 'b'), s9, typeof url.parse, typeof os9.EOL]"),
         ("json", ["a/b", "/", "function", "string"]))
    same(value("join('c', 'd')"), ("text", "'c/d'"))
    same(value("const g = () => import('fs'); typeof (await g()).default.readFileSync"),
         ("text", "'function'"))
    same(value("export const ex = 5; ex"), ("text", "5"))
    same(value("[typeof Buffer, typeof process, typeof fetch, typeof require]"),
         ("json", ["function", "object", "function", "function"]))
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "m.mjs"), "w") as file:
            file.write("export const m = 6")
        same(value("process.chdir('%s'); (await import('./m.mjs')).m" % place), ("text", "6"))
        same(js.cwd, place)
        js.run("process.chdir('/')")


def errors():
    failure = error(js.run("function bad() {\n  throw new TypeError('wrong')\n}\nbad()"))
    same((failure["ename"], failure["evalue"]), ("TypeError", "wrong"))
    trace = "\n".join(failure["traceback"])
    assert "bad (<cell" in trace and ":2:9" in trace and "<cove>" not in trace, trace
    failure = error(js.run("nothing"))
    same((failure["ename"], failure["evalue"]), ("ReferenceError", "nothing is not defined"))
    same(error(js.run("throw 'text'"))["evalue"], "text")
    same(error(js.run("throw {a: 1}"))["evalue"], "{ a: 1 }")
    same(error(js.run("throw null"))["evalue"], "null")
    failure = error(js.run("class My extends Error { name = 'My' }; await 0; throw new My('m')"))
    same((failure["ename"], failure["evalue"]), ("My", "m"))
    same(error(js.run("(function f() { f() })()"))["ename"], "RangeError")
    same([event["type"] for event in js.run("console.log(1); null.x")], ["stdout", "error"])


def syntax_errors():
    failure = error(js.run("1 +"))
    same((failure["ename"], failure["evalue"]), ("SyntaxError", "Unexpected end of input"))
    same(error(js.run("await 1 +"))["ename"], "SyntaxError")
    same(error(js.run("let let = 1"))["ename"], "SyntaxError")


def exits():
    failure = error(js.run("process.exit(3)"))
    same(failure["ename"], "ProcessExit")
    same(value("a"), ("text", "1"))


def raw_output():
    events = js.run("console.log('a'); require('child_process').execSync('echo b; echo c >&2', "
                    "{stdio: 'inherit'}); console.log('d')")
    same(texts(events), "a\nb\nd\n")
    same(texts(events, "stderr"), "c\n")
    events = js.run("require('child_process').spawnSync('seq', ['100000'], {stdio: 'inherit'}); 1")
    assert texts(events).endswith("100000\n")
    same(value("require('fs').readFileSync(0).length"), ("text", "0"))
    same(value("process.execArgv"), ("json", []))


def interrupts():
    for code in ("while (true) {}", "await new Promise(() => setTimeout(() => {}, 1e6))",
                 "new Promise(() => {})", "while (true) console.log('yyyy')"):
        timer = threading.Timer(0.3, js.interrupt)
        timer.start()
        same(error(js.run(code))["ename"], "KeyboardInterrupt")
    js.interrupt()
    time.sleep(0.05)
    same(value("a"), ("text", "1"))


def rich():
    same(results(js.run("({[Symbol.for('Jupyter.display')]() { return {'text/html': '<b>', 'image/png': "
                        "new Uint8Array([1, 2]), 'text/plain': 'p'} }})")),
         [("html", "<b>"), ("png", "AQI="), ("text", "p")])
    same(results(js.run("display({'text/markdown': '*'}, {raw: true})")), [("markdown", "*")])
    same(len(value("'x'.repeat(300000)")[1]), 300002)
    events = js.run("'x'.repeat(17 << 20)")
    assert "left out" in texts(events, "stderr") and not results(events)


def deaths():
    for code, status in (("process.abort()", -6), ("process.reallyExit(7)", 7),
                         ("process.kill(process.pid, 'SIGKILL')", -9)):
        mine = node()
        try:
            mine.run(code)
        except Died as death:
            same(death.args[0], status)
        else:
            raise AssertionError("it lives")
        finally:
            mine.close()


NO_TRANSFORMER = "COVE_TEST_TYPESCRIPT names no transformer"


def typescript_node():
    """None: there is no transformer."""
    bundle = os.environ.get("COVE_TEST_TYPESCRIPT")
    if not bundle:
        return None
    with open(bundle, "rb") as file:
        return node("typescript", file.read())


def typescript():
    ts = typescript_node()
    if not ts:
        return NO_TRANSFORMER
    same(value("interface P { x: number }\nconst p: P = {x: 1}\nconst f = <T,>(t: T): T => t\n"
               "f<number>(p.x as number)!", ts), ("text", "1"))
    same(value("enum Color { Red, Green }\nColor[1]", ts), ("text", "'Green'"))
    same(value("type N = number; let n: N = p.x satisfies number; n", ts), ("text", "1"))
    same(value("class A { constructor(private v: string) {} get(): string { return this.v } }\n"
               "new A('z').get()", ts), ("text", "'z'"))
    same(value("import {join} from 'path'\nimport type {Stats} from 'fs'", ts), None)
    same(value("await Promise.resolve(join('a', 'b') as string)", ts), ("text", "'a/b'"))
    same(error(ts.run("const x: = 5"))["ename"], "TranspileError")
    same(error(ts.run("let x: number = (() => { throw new TypeError('t') })()"))["ename"], "TypeError")
    same(value("x9 = 1 as any; x9", ts), ("text", "1"))
    ts.close()


def namespaces():
    ts = typescript_node()
    if not ts:
        return NO_TRANSFORMER
    for code, wanted in (
            ("namespace N { export const a: number = 1; export function f(x: number): number { return x + a } }\nN.f(2)", "3"),
            ("namespace L { export let n = 1; export function up(): void { n++ } }\nL.up(); L.n", "2"),
            ("namespace A.B { export enum E { x = 7 } namespace C { const s = 'namespace Q {' } }\nA.B.E.x", "7"),
            ("export namespace T { export interface I { x: number } }\nconst t: T.I = {x: 4}; t.x", "4"),
            ("declare namespace D { const x: number; namespace I { const y: number } }\n`a ${1} namespace T {`", "'a 1 namespace T {'"),
            ("namespace N { export const b = 5 }\nN.a + N.b", "6"),
            ("module Old { export const { p, q: [r] } = { p: 1, q: [2] } }\nOld.p + Old.r", "3"),
            ("namespace Line {\n\nexport const at = new Error().stack!.match(/cell \\d+>:(\\d+)/)![1]\n}\nLine.at", "'3'")):
        same(value(code, ts), ("text", wanted))
    same(error(ts.run("namespace X { return }"))["ename"], "TranspileError")
    ts.close()


def no_typescript():
    ts = node("typescript")
    same(error(ts.run("1"))["ename"], "TranspileError")
    ts.close()


for sentence, test in {
    "the last expression is the result": last_expression,
    "objects are JSON, where JSON can say them": objects,
    "const, let, class and function stay": state,
    "what was declared may be declared again, node's own names as well": declared_again,
    "await at the top, and its names stay": awaiting,
    "a promise is awaited; one that nobody awaits does no harm": promises,
    "console and results come in the order of their making": consoles,
    "require, import() and import": modules,
    "an error has its name and message": errors,
    "a syntax error is one": syntax_errors,
    "process.exit() is an error that the context survives": exits,
    "children write where console does, and nobody reads": raw_output,
    "an interrupt ends the cell and not the context": interrupts,
    "rich values, long values": rich,
    "an abort ends the process with its signal": deaths,
    "TypeScript": typescript,
    "namespaces of TypeScript run": namespaces,
    "without its transformer TypeScript says so": no_typescript,
}.items():
    check(sentence, test)
js.close()
done()
