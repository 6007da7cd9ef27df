#!/usr/bin/env python3
"""W-62: somebody presses at random what is on the pages, types what breaks things, and uses the keys: no error on the
console, no violation of the policy, no request elsewhere, and the page is alive at the end. A minute with COVE_SOAK=1."""
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
from dashboard_tab import Ui, sign_in  # noqa: E402

c.need_root()
c.need_programs("chromium")
STEPS = 2500 if os.environ.get("COVE_SOAK") else 250
SEED = int(os.environ.get("SEED", "7"))
# One step of it: what is seen, enabled, and neither leads out nor signs out. Random by a seed.
ACT = """(() => {
  let seed = %d;
  const random = (most) => { seed = (seed * 1103515245 + 12345) & 0x7fffffff; return (seed >> 8) %% most; };
  const TEXTS = ['', 'a', '<img src=x onerror=alert(1)>', '\\u202e', '-state:running', '"', 'x'.repeat(5000), '0', '-1', '1e99', 'label:a=b cpu>50%%', '../..', '\\u0000', 'null'];
  const KEYS = ['Escape', 'j', 'k', 'x', '?', '/', 'c', '.', 'Tab', 'Enter', 'ArrowDown', 'ArrowRight'];
  window.__acts = {};
  window.__act = async (count) => {
    for (let i = 0; i < count; i++) {
      const open = [...document.querySelectorAll('dialog[open]')].pop() ?? document;
      const all = [...open.querySelectorAll('button, a[href^="/ui"], input, select, textarea, [role=tab], [role=menuitem], summary')].filter((e) =>
        e.checkVisibility() && !e.disabled && e.type !== 'file' && e.target !== '_blank' && !/sign out|reload|^end dash-/i.test(e.ariaLabel || e.textContent));
      const one = all[random(all.length)], what = random(10);
      if (what === 0)
        (document.activeElement || document.body).dispatchEvent(new KeyboardEvent('keydown', {key: KEYS[random(KEYS.length)], bubbles: true, cancelable: true}));
      else if (what === 1)
        history.back();
      else if (one && /^(INPUT|TEXTAREA)$/.test(one.tagName) && !/checkbox|radio/.test(one.type)) {
        one.focus(); one.value = TEXTS[random(TEXTS.length)]; one.dispatchEvent(new Event('input', {bubbles: true}));
      } else if (one && one.tagName === 'SELECT') {
        one.selectedIndex = random(one.options.length); one.dispatchEvent(new Event('change', {bubbles: true}));
      } else if (one)
        one.click();
      __acts[location.pathname.split('/')[2] || 'overview'] = (__acts[location.pathname.split('/')[2] || 'overview'] || 0) + 1;
      await new Promise((go) => setTimeout(go, 15));
      if (!location.pathname.startsWith('/ui/') || location.pathname === '/ui/login')
        return i + 1;
    }
    return count;
  };
})()"""



def console(browser):
    """The errors on it; what the API refuses is none."""
    told = []
    for event in browser.events:
        if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error" and event["params"]["entry"]["source"] != "network":
            told.append(event["params"]["entry"]["text"][:300])
        if event["method"] == "Runtime.exceptionThrown" or event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] == "error":
            told.append(str(event["params"])[:600])
    return told


cove = c.Cove()
if cove.request("GET", "/ui/", key=False).status == 503:
    c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
    c.done()
cli = c.Cli(cove.data)
for name in ("one", "two"):
    cove.create(name=name, labels={"a": "b"}, limits={"memoryMB": 64})
cove.post("/v1/executions", {"taskId": "task-1", "command": "echo said; exit 3"})
browser = chromium.Chromium("dashboard.test")
try:
    ui = Ui(browser, cove)
    ui.page.call("Log.enable")
    browser.call("Browser.setDownloadBehavior", behavior="deny")
    sign_in(ui, cli)
    ui.heading("Overview")
    done, seen, told, turn = 0, {}, [], 0
    starts = ["", "sandboxes", "sandboxes/one", "executions", "templates", "volumes", "alerts", "usage", "keys", "audit", "settings", "nodes", "secrets", "agent-runs"]
    while done < STEPS:
        ui.go("/ui/" + starts[turn % len(starts)])
        if not ui.until("!!document.querySelector('main h1')") or ui.eval("location.pathname") == "/ui/login":
            sign_in(ui, cli)  # a session was ended by hand
            ui.heading("Overview")
        turn += 1
        ui.page.call("Page.bringToFront")
        ui.eval(ACT % (SEED + turn))
        try:
            done += ui.page.eval("__act(%d)" % min(25, STEPS - done), 120) or 1
            acts = ui.eval("__acts")
        except RuntimeError:  # it went back to another document
            done, acts = done + 5, {}
        for path, count in acts.items():
            seen[path] = seen.get(path, 0) + count
        told += console(browser)
        ui.collect()
    ui.go("/ui/")
    c.ok(ui.heading("Overview"), "W-62 %d random acts: the page is alive" % done, ui.eval("document.body.innerText")[:400])
    c.ok(len(seen) >= 8, "W-62 on many pages: control", seen)
    ui.eval("console.error('control')")
    c.ok(any("control" in one for one in console(browser)), "W-62 control: an error on the console is seen")
    faults, asked = ui.close()
    c.same(told, [], "W-62 no error on the console")
    c.same(faults, [], "W-62 no fault, no violation of the policy")
    c.same([url for url in asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc and not url.startswith("blob:")], [], "W-62 no request elsewhere")
finally:
    browser.close()
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
