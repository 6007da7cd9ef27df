#!/usr/bin/env python3
"""Rows W-48 to W-59 of the dashboard: what a page loads, a list of 5,000 sandboxes, a long log, a terminal, and what ten
dashboards cost the daemon. Times of the page are CPU times of its main thread where a row is about long tasks: the wall
clock of a busy machine says nothing about the page.

	test/bench/dashboard.py COVE_BINARY"""
import json
import os
import sys
import time

os.environ["COVE_BIN"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import chromium  # noqa: E402
import cove as c  # noqa: E402
import wsclient  # noqa: E402
from dashboard_tab import FEED, Ui, sign_in  # noqa: E402

ROWS, LINES = 5000, 200000
BOXES = int(os.environ.get("BENCH_BOXES", "100"))
TERMINAL_MIB = int(os.environ.get("BENCH_TERMINAL_MIB", "50"))
broken = []


def promise(name, value, limit, unit):
    kept = value <= limit
    if not kept:
        broken.append(name)
    print("%-28s %10.1f %-5s %s %g" % (name, value, unit, "<=" if kept else "NOT <=", limit), flush=True)


def traced(ui, work):
    """Runs it; (CPU ms, wall ms) of the longest tasks of the main thread of a page meanwhile."""
    ui.browser.call("Tracing.start", transferMode="ReturnAsStream", traceConfig={"includedCategories": ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"]})
    work()
    ui.browser.events.clear()
    ui.browser.call("Tracing.end")
    stream = ui.browser.event("Tracing.tracingComplete")["stream"]
    text = []
    while True:
        part = ui.browser.call("IO.read", handle=stream, size=1 << 22)
        text.append(part["data"])
        if part["eof"]:
            break
    ui.browser.call("IO.close", handle=stream)
    events = json.loads("".join(text))["traceEvents"]
    main = {(one["pid"], one["tid"]) for one in events if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"}
    tasks = [one for one in events if one["name"] in ("RunTask", "ThreadControllerImpl::RunTask") and one.get("ph") == "X" and (one["pid"], one["tid"]) in main]
    return max([one.get("tdur", one["dur"]) / 1000 for one in tasks] + [0]), max([one["dur"] / 1000 for one in tasks] + [0])


def first_load(browser, cove, cli):
    ui = Ui(browser, cove)
    ui.page.call("Network.setCacheDisabled", cacheDisabled=True)
    sign_in(ui, cli)
    ui.heading("Overview")
    for throttle, limit in ((1, 400), (4, 1500)):
        ui.page.call("Emulation.setCPUThrottlingRate", rate=throttle)
        browser.events.clear()
        ui.page.go(cove.url + "/ui/")
        ui.until("document.querySelectorAll('figure').length == 4")
        took = ui.eval("performance.getEntriesByType('navigation')[0].domInteractive")
        shown = ui.eval("Math.max(...performance.getEntriesByType('paint').map((e) => e.startTime))")
        if throttle == 1:
            done = [one["params"] for one in browser.events if one["method"] == "Network.loadingFinished"]
            # The API's own answers are not of the first load: assets and the page.
            sizes = ui.eval("performance.getEntriesByType('resource').filter((e) => e.name.includes('/ui/')).map((e) => e.encodedBodySize)"
                            ".concat(performance.getEntriesByType('navigation')[0].encodedBodySize)")
            promise("dashboard.load.kb", sum(sizes) / 1000, 150, "KB")
            promise("dashboard.load.requests", len(sizes), 8, "")
            c.note("%d answers in all" % len(done))
        promise("dashboard.interactive.%dx" % throttle, max(took, shown), limit, "ms")
    ui.close()


def rows(browser, cove, cli):
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    ui.page.call("Page.addScriptToEvaluateOnNewDocument", source=FEED % ROWS)
    ui.page.call("Page.addScriptToEvaluateOnNewDocument", source="""window.__seen = {};
        window.__shift = 0; new PerformanceObserver((l) => l.getEntries().forEach((e) => { if (!e.hadRecentInput) __shift += e.value; })).observe({type: 'layout-shift', buffered: true});
        requestAnimationFrame(function look() { const grid = document.querySelector('[role=grid]');
            if (grid && !__seen.first) __seen.first = performance.now();
            if (grid && +grid.getAttribute('aria-rowcount') === %d) __seen.all = performance.now(); else requestAnimationFrame(look); });""" % (ROWS + 1))
    ui.page.go(cove.url + "/ui/sandboxes")
    ui.until("!!__seen.all", 90)
    promise("dashboard.rows.first", ui.eval("__seen.first"), 500, "ms")
    promise("dashboard.rows.all", ui.eval("__seen.all"), 2000, "ms")
    promise("dashboard.shift", ui.eval("__shift"), 0.05, "")
    scroll = """new Promise((go) => { const begun = performance.now(), most = document.documentElement.scrollHeight;
        requestAnimationFrame(function step() { const part = Math.min(1, (performance.now() - begun) / 5000);
            scrollTo(0, most * part); window.__rows = Math.max(window.__rows || 0, document.querySelectorAll('tr[data-id]').length);
            if (part < 1) requestAnimationFrame(step); else go(); }); })"""
    cpu, wall = traced(ui, lambda: ui.eval(scroll))
    promise("dashboard.scroll.task", cpu, 100, "ms")
    print("  by the wall clock %.0f ms, load %.1f" % (wall, os.getloadavg()[0]))
    promise("dashboard.scroll.rows", ui.eval("__rows"), 100, "")
    cpu, wall = traced(ui, lambda: ui.eval("new Promise((go) => setTimeout(go, 3000))"))
    promise("dashboard.deltas.task", cpu, 100, "ms")
    took = ui.eval("""new Promise((go) => { const e = document.querySelector('[type=search]'), begun = performance.now(); e.value = 'name-4321';
        e.dispatchEvent(new Event('input', {bubbles: true}));
        requestAnimationFrame(function look() { if (document.querySelectorAll('tr[data-id]').length === 1) go(performance.now() - begun); else requestAnimationFrame(look); }); })""")
    promise("dashboard.filter", took, 50, "ms")
    ui.page.call("HeapProfiler.collectGarbage")
    promise("dashboard.rows.heap", ui.page.call("Runtime.getHeapUsage")["usedSize"] / 1e6, 80, "MB")
    ui.close()


def log(browser, cove, cli):
    made = cove.post("/v1/executions", {"command": "awk 'BEGIN { for (i = 0; i < %d; i++) print \"line\", i, \"some words of a log that is long enough\" }'" % LINES}).json["id"]
    c.until(lambda: cove.get("/v1/executions/" + made).json["state"] in ("completed", "failed"), 90)
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    ui.go("/ui/executions/" + made)
    ui.until("+(document.querySelector('[role=log]') || {dataset: {}}).dataset.lines == %d" % LINES, 90)
    ui.page.call("HeapProfiler.collectGarbage")
    promise("dashboard.log.heap", ui.page.call("Runtime.getHeapUsage")["usedSize"] / 1e6, 150, "MB")
    ui.close()


def terminal(browser, cove, cli, box):
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    ui.page.call("Page.bringToFront")
    ui.go("/ui/sandboxes/%s/terminal" % box["id"])
    ui.until("(document.querySelector('[data-testid=terminal]') || {dataset: {}}).dataset.status == 'connected'")
    rows = "document.querySelector('.xterm-rows').innerText"
    ui.type("stty -echo; printf 'go %s\\n' on; while read -r l && [ $l != q ]; do echo $l; done")
    ui.key("Enter", text="\r")
    ui.until(rows + ".includes('go on')")
    took = []
    for i in range(20):
        begun = ui.eval("performance.now()")
        ui.type("k%d." % i)
        ui.key("Enter", text="\r")
        took.append(ui.eval("""new Promise((go) => requestAnimationFrame(function look() {
            if (%s.includes('k%d.')) go(performance.now() - %f); else requestAnimationFrame(look); }))""" % (rows, i, begun)))
    promise("dashboard.echo", sorted(took)[10], 30, "ms")
    ui.type("q")
    ui.key("Enter", text="\r")
    ui.type("yes 0123456789012345678901234567890123456789012345678 | head -c %d; printf 'at %%s\\n' end" % (TERMINAL_MIB << 20))
    ui.key("Enter", text="\r")
    cpu, wall = traced(ui, lambda: ui.until(rows + ".includes('at end')", 240))
    promise("dashboard.terminal.task", cpu, 200, "ms")
    ui.close()


def ten(cove):
    """W-56: the CPU time of the daemon with ten feeds, each of a page's topics, less that without."""
    boxes = [cove.create(limits={"memoryMB": 64}) for _ in range(BOXES)]
    daemon = cove.children()["daemon"]
    ticks = lambda: sum(int(word) for word in open("/proc/%d/stat" % daemon).read().rsplit(")", 1)[1].split()[11:13])
    rss = lambda: int(open("/proc/%d/statm" % daemon).read().split()[1]) * 4096 / 1e6

    def used(seconds):
        before = ticks()
        time.sleep(seconds)
        return (ticks() - before) / 100 / seconds * 100

    time.sleep(3)
    alone, memory = used(10), rss()
    feeds = [wsclient.WebSocket(cove, "/v1/live") for _ in range(10)]
    for feed in feeds:
        for i, topic in enumerate((dict(topic="sandboxes"), dict(topic="events"), dict(topic="host", everyMs=2000),
                                   dict(topic="stats", sandboxes=[one["id"] for one in boxes[:40]], everyMs=1000))):
            feed.send(dict(op="sub", id="t%d" % i, **topic))
    for feed in feeds:  # each has its rows and its figures
        topics = set()
        while not {"set", "stats", "host"} <= topics:
            topics |= set(feed.json())
    watched = used(10)
    print("  %d sandboxes: %.1f %% of a core without, %.1f %% with ten feeds" % (BOXES, alone, watched))
    promise("dashboard.feeds.cpu", max(0, watched - alone), 5, "%")
    promise("dashboard.feeds.memory", (rss() - memory) / 10, 2, "MB")
    for feed in feeds:
        feed.close()
    for box in boxes:
        cove.delete(box)


def main():
    cove = c.Cove()
    browser = None
    try:
        if cove.request("GET", "/ui/", key=False).status == 503:
            print("# this cove was built without the dashboard")
            return 0
        cli = c.Cli(cove.data)
        box = cove.create(name="web")
        browser = chromium.Chromium("localhost")
        print("dashboard: in %s" % browser.version)
        first_load(browser, cove, cli)
        rows(browser, cove, cli)
        log(browser, cove, cli)
        terminal(browser, cove, cli, box)
        browser.close()
        browser = None
        ten(cove)
    finally:
        if browser:
            browser.close()
        cove.close()
    print("%d promises of the dashboard broken%s" % (len(broken), ": " + " ".join(broken) if broken else ""))
    return 1 if broken else 0


sys.exit(main())
