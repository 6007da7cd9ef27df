#!/usr/bin/env python3
"""More of the dashboard in a real browser: many sandboxes at once, agent runs, pools, recordings, panes of a terminal, downloads by
tickets; a language of no country, a narrow page, a clock that is wrong, and a daemon that is away."""
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
from dashboard_tab import Ui, sign_in  # noqa: E402

c.need_root()
c.need_programs("chromium", "curl")
PAGES = ["", "sandboxes", "executions", "agent-sessions", "agent-runs", "templates", "volumes", "secrets", "alerts", "usage", "keys", "nodes", "audit", "settings"]
SEEN = "!!document.querySelector('main h1') && !document.querySelector('main [role=status].dim')"


def tickets(cove, box):
    """W-11: an address for one download."""
    path = "/v1/sandboxes/%s/api/files/workspace/page.html" % box["id"]
    cove.request("PUT", path, b"<script>alert(1)</script>", raw=True)
    make = lambda: cove.post("/v1/auth/tickets", {"path": path}).json["url"]
    url = make()
    first, second = cove.request("GET", url, key=False), cove.request("GET", url, key=False)
    c.same((first.status, first.body, second.status), (200, b"<script>alert(1)</script>", 401), "W-11 a ticket downloads once")
    c.same((first.headers.get("Content-Disposition"), first.headers.get("Content-Security-Policy"), first.headers.get("X-Content-Type-Options")),
           ("attachment", "sandbox; default-src 'none'", "nosniff"), "W-11 as a file, never as a page")
    for other in (path[:-1], path + "?x=1", "/v1/sandboxes"):
        text = make().split("ticket=")[1]
        c.same(cove.request("GET", other + ("&" if "?" in other else "?") + "ticket=" + text, key=False).status, 401, "W-11 another path is refused: %s" % other)
        c.same(cove.request("GET", path + "?ticket=" + text, key=False).status, 401, "W-11 which ends the ticket")
    c.same(cove.request("DELETE", make(), key=False).status, 401, "W-11 it does nothing but GET")
    c.same([cove.post("/v1/auth/tickets", {"path": one}).status for one in ("/ui/", "x", "/v1/sandboxes/%s/proxy/8000/" % box["id"])], [400, 400, 400], "W-11 of downloads alone")
    session = cove.post("/v1/auth/sessions", {}).json
    url = cove.request("POST", "/v1/auth/tickets", {"path": path}, key=session["token"]).json["url"]
    cove.request("DELETE", "/v1/auth/sessions/" + session["id"])
    c.same(cove.request("GET", url, key=False).status, 401, "W-11 it ends with its session")


def many(ui, cove):
    """W-17: selection, eight at a time, what was refused; W-18: deleting many."""
    boxes = [cove.create(name="many-%d" % i, limits={"memoryMB": 64}) for i in range(6)]
    for box in boxes[:2]:
        cove.post("/v1/sandboxes/%s/stop" % box["id"])
    ui.go("/ui/sandboxes?q=name:many-*")
    c.ok(ui.until("document.querySelectorAll('tr[data-id]').length == 6"), "W-16 a filter with *", ui.eval("document.body.innerText")[:400])
    ui.press("checkbox", "Select all")
    c.ok(ui.has("toolbar", "Bulk actions") and ui.until("document.querySelector('[role=toolbar]').innerText.includes('6 selected')"), "W-17 six are selected")
    ui.write("searchbox", "Filter sandboxes", "nothing-of-this-name")
    c.ok(ui.until("document.querySelector('[role=toolbar]').innerText.includes('6 selected')"), "W-17 the selection survives filtering")
    ui.write("searchbox", "Filter sandboxes", "name:many-*")
    ui.press("button", "Pause")
    c.ok(ui.until("/4 of 6 done, 2 refused/.test(document.querySelector('[role=toolbar]').innerText)"), "W-17 two are refused", ui.eval("document.querySelector('[role=toolbar]').innerText"))
    c.same(ui.eval("[...document.querySelectorAll('[role=toolbar] li')].map((e) => e.firstChild.textContent).sort()"), ["many-0", "many-1"], "W-17 and listed with their reasons")
    c.same(sorted(one["state"] for one in cove.get("/v1/sandboxes").json["items"] if one["name"].startswith("many-")), ["paused"] * 4 + ["stopped"] * 2, "W-17 the others are done")
    ui.press("button", "Clear selection")
    ui.press("checkbox", "Select all")
    ui.press("button", "Delete")
    c.ok(ui.has("dialog", "Delete 6 sandboxes"), "W-18 deleting many asks")
    c.same(ui.until("document.activeElement.textContent"), "Cancel", "W-18 with the focus on Cancel")
    ui.write("textbox", "Type delete 6 to confirm", "delete 6")
    ui.press("button", "Delete", last=True)
    c.ok(c.until(lambda: not [one for one in cove.get("/v1/sandboxes").json["items"] if one["name"].startswith("many-")], 60), "W-18 and deletes them")
    ui.go("/ui/sandboxes")
    ui.press("button", "Columns")
    ui.press("checkbox", "Disk")
    ui.press("button", "Close")
    ui.go("/ui/sandboxes")
    c.ok(ui.has("columnheader", "Disk"), "W-15 columns are remembered")
    ui.press("button", "Actions for web")
    c.ok(ui.has("menuitem", "Copy as CLI") and ui.has("menuitem", "Copy as curl"), "W-19 a row offers copies")
    ui.key("Escape", "Escape")


def runs_and_pools(ui, cove, box):
    made = cove.post("/v1/agent-runs", {"sandbox": box["id"], "argv": ["echo", "{prompt}"], "prompt": "said by the run"})
    c.ok(made.status == 202, "an agent run", made)
    ui.go("/ui/agent-runs")
    c.ok(ui.says("grid", "Agent runs", "echo"), "W-15 agent runs are listed", ui.eval("document.body.innerText")[:400])
    ui.go("/ui/agent-runs/" + made.json["id"])
    c.ok(ui.until("(document.querySelector('[role=log]')||{innerText:''}).innerText.includes('said by the run')"), "W-15 with its output")
    c.ok(ui.until("document.querySelector('[data-testid=state]').textContent == 'exited' || document.querySelector('[data-testid=state]').textContent == 'completed'"), "and its end",
         ui.eval("document.querySelector('[data-testid=state]').textContent"))
    ui.go("/ui/volumes")
    ui.press("button", "Create pool")
    ui.write("textbox", "Name", "warm")
    ui.write("textbox", "Template", "host")
    ui.write("textbox", "Ready sandboxes", "1")
    ui.press("button", "Create")
    c.ok(ui.says("grid", "Pools", "warm"), "W-15 a pool is made", ui.eval("document.body.innerText")[:400])
    c.ok(ui.until("/1 \\/ 1/.test(document.querySelector('[aria-label=Pools]').innerText)", 60), "W-15 and ready")
    ui.press("button", "Delete warm")
    ui.write("textbox", "Type warm to confirm", "warm")
    ui.press("button", "Delete", last=True)
    c.ok(c.until(lambda: not cove.get("/v1/pools").json["items"], 60), "W-15 and deleted")


def recording(ui, cove):
    """W-47: played, faster, at a moment, by a link."""
    made = cove.post("/v1/executions", {"command": "for i in 1 2 3 4 5; do echo tick $i; sleep 0.5; done"}).json["id"]
    c.until(lambda: cove.get("/v1/executions/" + made).json["state"] == "completed", 60)
    ui.go("/ui/executions/" + made)
    ui.press("button", "Play recording")
    rows = "document.querySelector('[data-testid=player] .xterm-rows').innerText"
    player = "document.querySelector('[data-testid=player]')"
    c.ok(ui.has("region", "Recording") and ui.until("+%s.dataset.duration > 1.5" % player), "W-47 a recording of an execution", ui.eval("document.body.innerText")[:400])
    ui.pick("Speed", "16")
    ui.press("button", "Play")
    c.ok(ui.until("%s.dataset.time == %s.dataset.duration && %s.includes('tick 5')" % (player, player, rows)), "W-47 it plays, 16 times as fast", ui.eval(rows))
    took = ui.eval("""(async () => { const e = document.querySelector('[aria-label=Position]'), begun = performance.now();
        e.value = 0.9; e.dispatchEvent(new Event('input', {bubbles: true}));
        while (%s.includes('tick 3') || !%s.includes('tick 2')) { await new Promise((go) => requestAnimationFrame(go)); if (performance.now() - begun > 20000) break; }
        return performance.now() - begun; })()""" % (rows, rows))
    c.ok(took < (300 if os.environ.get("BENCH") else 15000), "W-47 seeking takes %d ms" % took)
    ui.go("/ui/executions/%s?play=1#t=1.2" % made)
    c.ok(ui.until("%s && %s.dataset.time == '1.2' && %s.includes('tick 3') && !%s.includes('tick 4')" % (player, player, rows, rows)), "W-47 a link names the moment", ui.eval("document.body.innerText")[:300])


def panes(ui, box):
    """W-44: up to four, each a terminal of its own."""
    ui.page.call("Page.bringToFront")
    ui.go("/ui/sandboxes/%s/terminal" % box["id"])
    connected = "document.querySelectorAll('[data-testid=terminal][data-status=connected]').length"
    ui.until(connected + " == 1")
    ui.press("button", "Split right")
    c.ok(ui.until(connected + " == 2"), "W-44 a second pane beside")
    ui.press("button", "Split down", last=True)
    c.ok(ui.until(connected + " == 3"), "W-44 a third below")
    ui.press("button", "Split down")
    c.ok(ui.until(connected + " == 4") and ui.lacks("button", "Split right"), "W-44 four at most")
    ui.on("textbox", "Terminal input", "function() { this.focus(); }", last=True)
    ui.type("echo $((7*6))-here")
    ui.key("Enter", text="\r")
    c.ok(ui.until("[...document.querySelectorAll('.xterm-rows')].filter((e) => e.innerText.includes('42-here')).length == 1"), "W-44 each with a program of its own")
    ui.go("/ui/sandboxes/%s/terminal" % box["id"])
    c.ok(ui.until(connected + " == 4") and ui.until("[...document.querySelectorAll('.xterm-rows')].filter((e) => e.innerText.includes('42-here')).length == 1"), "W-43 a reload finds all of them")
    for left in (3, 2, 1):
        ui.press("button", "Close pane", last=True)
        ui.until(connected + " == %d" % left)
    c.ok(ui.lacks("button", "Close pane"), "W-44 the last one stays")


def language(browser, cove, cli, box):
    """W-24: all text is of the catalogue; W-22: no sideways scrolling at 320 px, and targets of 44 px."""
    ui = Ui(browser, cove, 320, 800)
    sign_in(ui, cli)
    ui.heading("Overview")
    wide, small, bare = [], set(), set()
    pages = PAGES + ["sandboxes/%s/%s" % (box["id"], tab) for tab in ("overview", "processes", "files", "network", "ports", "code", "events", "settings")]
    for path in pages:
        ui.go("/ui/" + path)
        ui.until(SEEN)
        if ui.eval("document.documentElement.scrollWidth - innerWidth") > 0:
            wide.append(path)
        small |= set(ui.eval("""[...document.querySelectorAll('button, [role=tab], main input:not([type=checkbox], [type=radio], [type=file]), main select')]
            .filter((e) => e.getBoundingClientRect().height > 1 && e.getBoundingClientRect().height < 43.5 && !e.closest('.hidden, .cm-editor, thead')).map((e) => e.outerHTML.slice(0, 120))"""))
    c.same(wide, [], "W-22 at 320 px no page scrolls sideways")
    c.same(sorted(small), [], "W-22 targets of a touch have 44 px")
    for path in pages:
        ui.go("/ui/%s?lang=en-XA" % path)
        ui.until(SEEN)
        bare |= set(ui.eval("""(() => { const found = [], walk = document.createTreeWalker(document.getElementById('app'), NodeFilter.SHOW_TEXT);
            for (let node = walk.nextNode(); node; node = walk.nextNode())
                if (/[a-z]{3}/i.test(node.data) && !/\\[/.test(node.data) && !node.parentElement.closest('bdi, code, time, kbd, pre, option, .number, [data-data], figcaption b, figcaption .dim, .plotted, .foot > span'))
                    found.push(node.data.slice(0, 60) + ' < ' + node.parentElement.outerHTML.slice(0, 80));
            return found; })()"""))
    c.same(sorted(bare), [], "W-24 only data has no brackets")
    ui.go("/ui/?lang=&dir=rtl")
    c.ok(ui.until("document.documentElement.dir == 'rtl'") and ui.eval("document.documentElement.scrollWidth - innerWidth") <= 0, "W-24 from right to left")
    faults, _ = ui.close()
    c.same(faults, [], "no fault, no violation")


def clock(browser, cove, cli):
    """W-23: a browser in UTC+9 whose clock is an hour ahead."""
    ui = Ui(browser, cove)
    ui.page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    ui.page.call("Page.addScriptToEvaluateOnNewDocument", source="{ const now = Date.now.bind(Date); Date.now = () => now() + 3600000; }")
    sign_in(ui, cli)
    ui.heading("Overview")
    ui.go("/ui/sandboxes")
    c.ok(ui.until("/^(\\d+ s|\\d+ min)$/.test((document.querySelector('tr[data-id] time')||{textContent:''}).textContent)"), "W-23 ages are right with a clock an hour ahead",
         ui.eval("document.body.innerText")[:400])
    c.ok(ui.eval("document.querySelector('tr[data-id] time').title.includes('Tokyo')"), "W-23 the time itself is in the browser's zone", ui.eval("document.querySelector('tr[data-id] time').title"))
    ui.close()


def away(ui, cove):
    """W-20: the daemon is away; then what is shown is right again."""
    ui.go("/ui/sandboxes")
    ui.until("document.querySelectorAll('tr[data-id]').length > 0")
    cove.args += ["--listen", "127.0.0.1:%d" % cove.port]  # the last one holds
    cove.stop()
    c.ok(ui.until("[...document.querySelectorAll('[role=alert]')].some((e) => e.textContent == 'Reconnecting…') && document.documentElement.classList.contains('stale')"), "W-20 a banner says that the feed is lost")
    c.ok(ui.eval("document.querySelectorAll('tr[data-id]').length > 0"), "W-20 what was shown stays, pale")
    cove.start()
    cove.create(name="back-again", limits={"memoryMB": 64})
    c.ok(ui.until("!document.documentElement.classList.contains('stale') && [...document.querySelectorAll('tr[data-id]')].some((e) => e.innerText.includes('back-again'))", 60), "W-20 then the right rows",
         ui.eval("document.body.innerText")[:400])


cove = c.Cove()
if cove.request("GET", "/ui/", key=False).status == 503:
    c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
    c.done()
cli = c.Cli(cove.data)
box = cove.create(name="web", labels={"team": "a"})
browser = chromium.Chromium("dashboard.test")
try:
    tickets(cove, box)
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    many(ui, cove)
    runs_and_pools(ui, cove, box)
    recording(ui, cove)
    panes(ui, box)
    clock(browser, cove, cli)
    language(browser, cove, cli, box)
    faults, asked = ui.close()
    c.same(faults, [], "no fault, no violation of the policy")
    c.same([url for url in asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc], [], "W-1 no request to another origin")
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    away(ui, cove)
finally:
    browser.close()
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
