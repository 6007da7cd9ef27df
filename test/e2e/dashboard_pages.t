#!/usr/bin/env python3
"""All pages of the dashboard in a real browser, on a desk and on a phone, light and dark: executions with log, search and
artifacts, templates, volumes, secrets, alerts, usage, keys, audit, nodes, settings; dialogs with copies as CLI and curl that
do what the dialog does; the command palette and keys. axe-core finds nothing on any of them."""
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
from dashboard_tab import Ui, sign_in  # noqa: E402

c.need_root()
c.need_programs("chromium", "curl")
PAGES = [("", "Overview"), ("sandboxes", "Sandboxes"), ("executions", "Executions"), ("agent-sessions", "Agent sessions"), ("agent-runs", "Agent runs"), ("templates", "Templates"),
         ("volumes", "Volumes"), ("secrets", "Secrets"), ("alerts", "Alerts"), ("usage", "Usage"), ("keys", "Keys"), ("nodes", "Nodes"), ("audit", "Audit"),
         ("settings", "Settings")]
ODD = "a'b\"c $(id) `id` \\ é"
AXE = os.path.join(c.ROOT, "test", "browser", "axe")
WORK = os.path.join(c.ROOT, "build", "axe")


def open_page(ui, path, heading):
    ui.go("/ui/" + path)
    return ui.heading(heading)


def audit(ui, axe, what):
    """What axe-core finds of WCAG 2.2 A and AA in the page as it is."""
    ui.eval(axe + "; true")
    return ["%s: %s: %s" % (what, one["id"], one["node"]) for one in ui.eval(
        """axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations']})
           .then((r) => r.violations.flatMap((v) => v.nodes.slice(0, 2).map((n) => ({id: v.id, node: n.html.slice(0, 200) + ' ' + (n.failureSummary || '').slice(0, 300)}))))""")]


def everywhere(browser, cove, cli, axe, box, execution, session):
    """W-7, W-15, W-22: each page directly, at both widths and in both themes, by its name; with axe-core."""
    more = [("sandboxes/%s/%s" % (box["id"], tab), "web") for tab in ("overview", "terminal", "processes", "files", "network", "ports", "code", "events", "settings")]
    more += [("executions/" + execution, "task-1"), ("agent-sessions/" + session, "helper")]
    for width, height in ((1440, 900), (390, 844)):
        for theme in ("light", "dark"):
            ui = Ui(browser, cove, width, height, theme)
            what = "%d %s" % (width, theme)
            sign_in(ui, cli)
            ui.heading("Overview")
            wrong, found = [], []
            for path, heading in PAGES + more:
                good = open_page(ui, path, heading) and ui.until("document.title == %s" % json.dumps(heading + " · cove")) and \
                    ui.until("!document.querySelector('main [role=status].dim')")
                if not good or ui.eval("document.documentElement.dataset.theme") != theme or ui.eval("!!document.querySelector('main [role=alert]')"):
                    wrong.append(path + ": " + ui.eval("document.body.innerText")[:300])
                if ui.eval("document.documentElement.scrollWidth - innerWidth") > 0:
                    wrong.append(path + " scrolls sideways")
                if axe:
                    found += audit(ui, axe, path)
            c.same(wrong, [], "W-15 %s: each page opens directly" % what)
            if axe:
                c.same(found, [], "W-7 %s: axe-core finds nothing on %d pages" % (what, len(PAGES + more)))
            faults, asked = ui.close()
            c.same(faults, [], "W-4 %s: no fault, no violation of the policy" % what)
            c.same([url for url in asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc], [], "W-1 %s: no request to another origin" % what)


def executions(ui, cove, execution):
    open_page(ui, "executions", "Executions")
    c.ok(ui.says("grid", "Executions", "task-1"), "W-15 executions are listed")
    open_page(ui, "executions/" + execution, "task-1")
    lines = "+(document.querySelector('[role=log]')||{dataset:{}}).dataset.lines"
    c.ok(ui.until(lines + " == 20001"), "W-26 the log has all its lines", ui.eval(lines))
    c.ok(ui.until("document.querySelector('[role=log]').innerText.includes('the last line')"), "W-26 it opens at its end")
    c.ok(ui.eval("document.querySelectorAll('[role=log] .line').length") < 200, "W-26 with the lines that are seen alone in the page")
    ui.write("searchbox", "Search log", "needle")
    c.ok(ui.until("[...document.querySelectorAll('[role=status]')].some((e) => e.textContent == '%d matching lines')" % want), "W-26 a search counts the lines of all of it",
         ui.eval("document.body.innerText")[:500])
    ui.on("searchbox", "Search log", "function() { this.focus(); }")
    ui.key("Enter", text="\r")
    c.ok(ui.until("!!document.querySelector('.line.now')"), "W-26 Enter goes to a hit")
    ui.press("button", "Jump to latest")
    c.ok(ui.until("document.querySelector('[role=log]').innerText.includes('the last line')"), "W-26 and back to the end")
    c.ok(ui.says("grid", "Artifacts", "out/result.txt"), "W-15 artifacts are listed")
    ui.press("button", "Retry")
    c.ok(ui.until("location.pathname.startsWith('/ui/executions/') && !location.pathname.includes(%s)" % json.dumps(execution)), "W-15 a retry is another execution")


def copied(ui):
    """What "Copy as" gave last."""
    ui.until("window.__copied.length > 0")
    return ui.eval("__copied.pop()")


def run(text, cove):
    env = {"PATH": os.path.dirname(c.BIN) + ":" + os.environ["PATH"], "COVE_URL": cove.url, "COVE_TOKEN": cove.key, "HOME": cove.home, "LANG": "C.UTF-8"}
    return subprocess.run(["bash", "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, cwd=cove.home)


def copies(ui, cove, browser):
    """W-19: a copy does what the dialog would, with any text in it."""
    ui.page.call("Page.addScriptToEvaluateOnNewDocument", source="window.__copied = []; navigator.clipboard.writeText = async (text) => { __copied.push(text); };")
    made = cove.create(name="like", labels={"odd": ODD, "plain": "1"}, limits={"memoryMB": 96}, network={"mode": "allow", "allow": ["a.test"]})
    open_page(ui, "sandboxes/" + made["id"], "like")
    before = {one["id"] for one in cove.get("/v1/sandboxes").json["items"]}
    for name in ("Copy as CLI", "Copy as curl"):
        ui.press("button", "Copy as")
        ui.press("menuitem", name)
        text = copied(ui)
        done = run(text, cove)
        fresh = [one for one in cove.get("/v1/sandboxes").json["items"] if one["id"] not in before]
        before |= {one["id"] for one in fresh}
        c.ok(done.returncode == 0 and len(fresh) == 1, "W-19 %s of a sandbox makes one" % name, text, done)
        if len(fresh) == 1:
            c.same((fresh[0]["labels"], fresh[0]["limits"]["memoryMB"], fresh[0]["network"]["allow"], fresh[0]["name"]), (made["labels"], 96, ["a.test"], None),
                   "W-19 an equal one without its name")
            cove.delete(fresh[0])
    open_page(ui, "sandboxes", "Sandboxes")
    ui.press("button", "Create sandbox")
    ui.write("textbox", "Name", "copied")
    ui.write("textbox", "Labels", "x=%s" % ODD)
    ui.press("button", "Copy as CLI")
    text = copied(ui)
    done = run(text, cove)
    c.ok(done.returncode == 0 and cove.get("/v1/sandboxes/copied").json["labels"] == {"x": ODD}, "W-19 a dialog's copy does what it would do", text, done)
    ui.key("Escape", "Escape")
    for name in ("like", "copied"):
        cove.request("DELETE", "/v1/sandboxes/" + name)


def dialogs(ui, cove, axe):
    """Each dialog opens by its button, is named, finds axe-core content, and does its work."""
    found = []
    look = lambda name: found.extend(audit(ui, axe, "dialog " + name) if axe and ui.has("dialog", name) else [] if ui.has("dialog", name) else ["no dialog " + name])
    open_page(ui, "keys", "Keys")
    ui.press("button", "Create key")
    look("Create key")
    ui.write("textbox", "Name", "from-ui")
    ui.press("button", "Create")
    look("Key created")
    secret = ui.on("textbox", "Secret", "function() { return this.value; }")
    c.same(cove.request("GET", "/v1/sandboxes", key=secret).status, 200, "W-15 a key is made and shown once")
    ui.press("button", "Close")
    ui.press("button", "Revoke from-ui")
    look("Revoke key")
    c.ok(ui.on("button", "Revoke", "function() { return this.disabled; }"), "W-18 revoking needs the name")
    ui.write("textbox", "Type from-ui to confirm", "from-ui")
    ui.press("button", "Revoke")
    c.ok(c.until(lambda: cove.request("GET", "/v1/sandboxes", key=secret).status == 401, 30), "W-15 and revoked")
    open_page(ui, "secrets", "Secrets")
    ui.press("button", "Set secret")
    look("Set secret")
    ui.write("textbox", "Name", "API_KEY")
    ui.write("textbox", "Hosts", "api.test")
    ui.write("textbox", "Value", "never-shown-again")
    ui.press("button", "Save")
    c.ok(ui.says("grid", "Secrets", "API_KEY") and not ui.eval("document.documentElement.outerHTML.includes('never-shown-again')"), "W-15 a secret is set, its value shown nowhere")
    open_page(ui, "volumes", "Volumes")
    ui.press("button", "Create volume")
    look("Create volume")
    ui.write("textbox", "Name", "data")
    ui.press("button", "Create")
    c.ok(ui.says("grid", "Volumes", "data"), "W-15 a volume is made")
    ui.press("button", "Delete data")
    ui.write("textbox", "Type data to confirm", "data")
    ui.press("button", "Delete")
    c.ok(c.until(lambda: not cove.get("/v1/volumes").json["items"], 30), "W-15 and deleted")
    open_page(ui, "templates", "Templates")
    ui.press("button", "Pull image")
    look("Pull image")
    ui.write("textbox", "Image", "127.0.0.1:9/none:1")
    ui.press("button", "Pull")
    c.ok(ui.says("grid", "Operations", "failed", 60), "W-15 an operation shows its progress and why it failed", ui.eval("document.body.innerText")[:400])
    open_page(ui, "alerts", "Alerts")
    ui.press("button", "Change sandboxes_many")
    look("Change sandboxes_many")
    ui.write("textbox", "Threshold", "7")
    ui.press("button", "Save")
    rule = lambda: [one for one in cove.get("/v1/alerts/rules").json["items"] if one["name"] == "sandboxes_many"][0]
    c.ok(c.until(lambda: rule()["threshold"] == 7, 30), "W-39 a rule is changed")
    ui.press("button", "Disable sandboxes_many")
    c.ok(c.until(lambda: not rule()["enabled"], 30), "W-39 and disabled")
    ui.undo("Disable")
    c.ok(c.until(lambda: rule()["enabled"], 30), "W-18 which can be undone")
    open_page(ui, "usage", "Usage")
    ui.press("button", "Set budget")
    look("Set budget")
    ui.write("textbox", "Name", "team")
    ui.write("textbox", "Label", "team=a")
    ui.write("textbox", "CPU (seconds)", "36000")
    ui.press("button", "Save")
    c.ok(ui.says("grid", "Budgets", "team") and ui.has("meter", "team"), "W-15 a budget is set, with a bar")
    ui.pick("Group by", "sandbox")
    c.ok(ui.until("location.search.includes('by=sandbox')") and ui.has("grid", "Usage"), "W-15 usage by sandbox, in the address")
    open_page(ui, "audit", "Audit")
    ui.press("button", "Check chain")
    c.ok(ui.until("document.body.innerText.includes('rows is whole')"), "W-15 the chain of the audit log is checked")
    open_page(ui, "nodes", "Nodes")
    ui.press("button", "Verify")
    c.ok(ui.until("/kernel (agree|differ)/.test(document.body.innerText)"), "W-15 the host is verified")
    for path, heading in (("nodes", "Nodes"), ("settings", "Settings")):
        open_page(ui, path, heading)
        ui.press("button", "Run doctor")
        c.ok(ui.says("grid", "Features", "warden") and ui.says("status", "Doctor", "This host can run sandboxes."), "W-33 the doctor runs on the page " + heading,
             ui.eval("document.body.innerText")[:600])
    open_page(ui, "executions", "Executions")
    ui.press("button", "New execution")
    look("New execution")
    ui.write("textbox", "Command", "echo made here")
    ui.press("button", "Create")
    c.ok(ui.until("/^.ui.executions.exe-/.test(location.pathname)") and ui.until("(document.querySelector('[role=log]')||{}).innerText.includes('made here')", 60), "W-15 an execution is made")
    open_page(ui, "sandboxes", "Sandboxes")
    ui.press("button", "Create sandbox")
    look("Create sandbox")
    ui.key("Escape", "Escape")
    c.same(found, [], "W-7 axe-core finds nothing in the dialogs")


def keys(ui, cove, axe):
    """W-21: from creating to deleting a sandbox by keys alone."""
    open_page(ui, "", "Overview")
    ui.eval("document.activeElement.blur()")
    ui.page.call("Page.bringToFront")
    ui.key("?", text="?")
    c.ok(ui.has("dialog", "Keyboard shortcuts"), "W-21 ? shows the keys")
    ui.key("Escape", "Escape")
    ui.lacks("dialog", "Keyboard shortcuts")
    ui.key("g", text="g")
    ui.key("s", text="s")
    c.ok(ui.heading("Sandboxes"), "W-21 g s goes to the sandboxes")
    ui.has("button", "Create sandbox")
    ui.key("c", text="c")
    c.ok(ui.has("dialog", "Create sandbox"), "W-21 c creates")
    ui.on("textbox", "Name", "function() { this.focus(); }")
    ui.type("by-keys")
    ui.key("Enter", text="\r")
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/by-keys").status == 200, 30), "W-21 Enter makes it")
    ui.lacks("dialog", "Create sandbox")
    ui.key("/", text="/")
    c.ok(ui.has("dialog", "Command palette") and ui.has("combobox", "Search commands"), "W-21 / opens the palette")
    if axe:
        c.same(audit(ui, axe, "palette"), [], "W-7 axe-core finds nothing in the palette")
    ui.type("delete by-keys")
    c.ok(ui.until("(document.querySelector('[role=option][aria-selected=true] bdi')||{}).textContent == 'Delete by-keys'"), "W-21 it finds what can be done with a sandbox",
         ui.eval("document.querySelector('dialog').innerText")[:300])
    ui.key("Enter", text="\r")
    c.ok(ui.has("dialog", "Delete sandbox"), "W-21 and does it")
    c.same(ui.until("document.activeElement.textContent"), "Cancel", "W-18 with the focus on Cancel")
    ui.on("textbox", "Type by-keys to confirm", "function() { this.focus(); }")
    ui.type("by-keys")
    ui.until("![...document.querySelectorAll('dialog button.danger')].some((e) => e.disabled)")
    for _ in range(4):
        ui.key("Tab", "Tab")
        if ui.eval("document.activeElement.textContent") == "Delete":
            break
    ui.key("Enter", text="\r")
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/by-keys").status == 404, 30), "W-21 it is deleted by keys")


def tenant(browser, cove, cli):
    """W-13: a tenant sees its own pages, and no 403."""
    ui = Ui(browser, cove)
    sign_in(ui, cli, "--tenant", "acme")
    ui.heading("Overview")
    names = ui.eval("[...document.querySelectorAll('nav[aria-label=Main] a')].map((e) => e.textContent)")
    c.ok("Nodes" not in names and "Alerts" not in names and "Sandboxes" in names, "W-13 a tenant has no pages of the host", names)
    for path, heading in PAGES:
        if heading in names:
            open_page(ui, path, heading)
            ui.until("!document.querySelector('main [role=status].dim')")
            if ui.eval("!!document.querySelector('main [role=alert]')"):
                c.ok(False, "W-13 %s is refused" % path, ui.eval("document.body.innerText")[:400])
    faults, _ = ui.close()
    c.same(faults, [], "W-13 nothing is refused to a tenant")


cove = c.Cove()
if cove.request("GET", "/ui/", key=False).status == 503:
    c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
    c.done()
axe = None
if c.npm_install(AXE, WORK):
    axe = open(os.path.join(WORK, "node_modules", "axe-core", "axe.min.js")).read()
else:
    c.skip("axe-core", "npm could not install test/browser/axe")
cli = c.Cli(cove.data)
box = cove.create(name="web", labels={"team": "a"})
cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "exec python3 -m http.server 8000"})
cove.post("/v1/sandboxes/%s/ports" % box["id"], {"port": 8000})
cove.request("PUT", "/v1/tenants/acme", {"quota": {"boxes": 5, "memoryMB": 1024}})
session = cove.post("/v1/agent-sessions", {"user": "ada", "aliases": ["helper"], "runner": {"argv": ["/bin/sh", "-c", "sleep 600"]}})
c.ok(session.status in (200, 201), "an agent session for the pages", session)
made = cove.post("/v1/executions", {"taskId": "task-1", "artifacts": {"paths": ["out/**"]},
                                    "command": "mkdir out; echo ok >out/result.txt; seq 1 20000 | sed 's/^\\(.*9.*7\\)$/\\1 needle/; s/^/line /' | head -20000; echo the last line"})
want = sum(1 for i in range(1, 20001) if re.fullmatch(".*9.*7", str(i)))
browser = chromium.Chromium("dashboard.test")
try:
    c.until(lambda: cove.get("/v1/executions/" + made.json["id"]).json["state"] in ("completed", "failed"), 60)
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    executions(ui, cove, made.json["id"])
    copies(ui, cove, browser)
    dialogs(ui, cove, axe)
    keys(ui, cove, axe)
    faults, _ = ui.close()
    c.same(faults, [], "no fault, no violation of the policy")
    everywhere(browser, cove, cli, axe, box, made.json["id"], session.json["id"])
    tenant(browser, cove, cli)
finally:
    browser.close()
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
