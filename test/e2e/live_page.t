#!/usr/bin/env python3
"""Pages with much in them, in a real browser: W-51 and W-52, a list of 5,000 sandboxes that changes four times a second;
W-26, a log of 200,000 lines with its search. The rows of the list come from a stand-in of the feed: that many sandboxes
do not run here. The log is a real one."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
from dashboard_tab import FEED  # noqa: E402

c.need_root()
c.need_programs("chromium")
WAIT = 90
ROWS = 5000
LINES, HITS = 200000, 1922

def sign_in(page, cove):
    link = cove.post("/v1/auth/links", {}).json["url"]
    page.go(link)
    if not page.until("(document.querySelector('h1')||{}).textContent == 'Overview'", WAIT):
        raise RuntimeError("not signed in: %s" % page.eval("document.body.innerText"))


def rows(browser, cove):
    page = browser.page()
    page.call("Emulation.setDeviceMetricsOverride", width=1440, height=900, deviceScaleFactor=1, mobile=False)
    sign_in(page, cove)
    page.call("Page.addScriptToEvaluateOnNewDocument", source=FEED % ROWS)
    page.go(cove.url + "/ui/sandboxes")
    grid = "document.querySelector('[role=grid]')"
    c.ok(page.until(grid + " && +%s.getAttribute('aria-rowcount') == %d" % (grid, ROWS + 1), WAIT), "W-51 all rows are in the list", page.eval("document.body.innerText.slice(0, 300)"))
    loaded = page.eval("Math.round(performance.now() - __at)")
    most, names = 0, set()
    page.eval("__tasks.length = 0")
    for step in range(21):
        page.eval("scrollTo(0, document.documentElement.scrollHeight * %f)" % (step / 20))
        page.eval("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(go, 60))))")
        shown = page.eval("[...document.querySelectorAll('tr[data-id] td.first')].map((e) => e.textContent)")
        most, names = max(most, len(shown)), names | set(shown)
        seen = page.eval("[...document.querySelectorAll('tr[data-id]')].filter((e) => { const r = e.getBoundingClientRect(); return r.bottom > 100 && r.top < 900; }).length")
        if seen < 5:
            c.ok(False, "W-52 at %d of 20 rows are in view" % step, seen, len(shown))
    c.ok(most <= 100, "W-52 at most 100 rows are in the page", most)
    c.ok("name-0" in names and "name-%d" % (ROWS - 1) in names, "W-52 the first and the last are reached by scrolling", len(names))
    before = page.eval("__deltas")
    c.ok(page.until("__deltas > %d" % (before + 8), WAIT), "the list changes meanwhile")
    c.ok(page.until("[...document.querySelectorAll('tr[data-id]')].some((e) => e.querySelector('[data-label=CPU]').textContent != '0.00')", WAIT), "W-54 and shows it")
    tasks = sorted(page.eval("__tasks"))
    heap = page.call("Runtime.getHeapUsage")["usedSize"] >> 20
    c.note("W-51 all loaded in %d ms; W-52 long tasks while scrolling: %s ms; W-55 heap %d MiB" % (loaded, tasks[-5:], heap))
    c.ok(heap < 160, "W-55 heap", heap)
    page.eval("(() => { const e = document.querySelector('[type=search]'); e.value = 'name-4321'; e.dispatchEvent(new Event('input', {bubbles: true})); })()")
    c.ok(page.until("document.querySelectorAll('tr[data-id]').length == 1 && scrollY == 0 || document.querySelectorAll('tr[data-id]').length == 1", WAIT), "W-53 a filter of all rows")
    page.close()


def log(browser, cove):
    text = "awk 'BEGIN { for (i = 0; i < %d; i++) print \"line\", i, \"some words of a log that is long enough\", (i %% 104 == 0 && n++ < %d ? \"needle\" : \"\") }'" % (LINES, HITS)
    made = cove.post("/v1/executions", {"command": text}).json
    c.ok(c.until(lambda: cove.get("/v1/executions/" + made["id"]).json["state"] in ("completed", "failed"), WAIT), "a long log is written")
    whole = cove.get("/v1/executions/%s/logs" % made["id"]).body
    c.same((whole.count(b"\n"), whole.count(b"needle")), (LINES, HITS), "control: it has its lines and hits")
    page = browser.page()
    page.call("Emulation.setDeviceMetricsOverride", width=1440, height=900, deviceScaleFactor=1, mobile=False)
    sign_in(page, cove)
    page.go(cove.url + "/ui/executions/" + made["id"])
    at = "document.querySelector('[role=log]')"
    c.ok(page.until("%s && +%s.dataset.lines == %d" % (at, at, LINES), WAIT), "W-26 all lines come", page.eval("(%s||{dataset:{}}).dataset.lines" % at))
    c.ok(page.until("%s.textContent.includes('line %d ')" % (at, LINES - 1), WAIT), "W-26 it opens at the end")
    count = page.eval("document.querySelectorAll('[role=log] .line').length")
    c.ok(0 < count <= 120, "W-26 only lines in view are in the page", count)
    page.eval("(() => { const e = document.querySelector('[aria-label=\"Search log\"]'); e.value = 'needle'; e.dispatchEvent(new Event('input', {bubbles: true})); })()")
    c.ok(page.until("[...document.querySelectorAll('[role=status]')].some((e) => e.textContent == '1,922 matching lines')", WAIT), "W-26 the search counts the lines of the whole log",
         page.eval("[...document.querySelectorAll('[role=status]')].map((e) => e.textContent)"))
    page.eval("%s.scrollTop = 0" % at)
    c.ok(page.until("%s.textContent.includes('line 0 ') && document.querySelectorAll('[role=log] .line.hit').length > 0" % at, WAIT), "W-26 earlier lines by scrolling, hits marked")
    page.call("HeapProfiler.collectGarbage")
    heap = page.call("Runtime.getHeapUsage")["usedSize"] >> 20
    c.note("W-26 heap with %d lines: %d MiB" % (LINES, heap))
    c.ok(heap < 150, "W-26 the heap stays below 150 MB", heap)
    page.close()


def main():
    cove = c.Cove()
    browser = None
    try:
        if cove.request("GET", "/ui/", key=False).status == 503:
            c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
        else:
            browser = chromium.Chromium("localhost")
            rows(browser, cove)
            log(browser, cove)
    finally:
        if browser:
            browser.close()
        cove.close()
    c.done()


main()
