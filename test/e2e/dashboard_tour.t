#!/usr/bin/env python3
"""A tour as a person takes it, on a desk and on a phone: sign in by a link, create a sandbox, watch its CPU chart, type in its
terminal, upload a file, expose a port and open the preview, allow a denied name, replay a
recording, see an alert fire and resolve, delete."""
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
from dashboard_tab import Ui, sign_in  # noqa: E402

c.need_root()
c.need_programs("chromium", "python3")


def follow(ui, phone, name):
    if phone:
        ui.press("button", "Menu")
    ui.press("link", name)
    return ui.heading(name)


def terminal(ui):
    ui.press("tab", "Terminal")
    c.ok(ui.until("(document.querySelector('[data-testid=terminal]')||{dataset:{}}).dataset.status == 'connected'"), "a terminal is one click away")
    ui.page.call("Page.bringToFront")
    ui.on("textbox", "Terminal input", "function() { this.focus(); }")
    ui.type("cd /workspace; (while :; do :; done) & python3 -m http.server 8000 >/dev/null 2>&1 &\r")
    ui.type("echo $((6*7))-typed")
    ui.key("Enter", text="\r")
    c.ok(ui.until("document.querySelector('.xterm-rows').innerText.includes('42-typed')"), "what is typed runs", ui.eval("document.querySelector('.xterm-rows').innerText"))


def tour(browser, cove, cli, width, height):
    phone, what = width < 700, "tour-%d" % width
    ui = Ui(browser, cove, width, height)
    sign_in(ui, cli)
    c.ok(ui.heading("Overview"), "%d: a link signs in" % width)
    follow(ui, phone, "Sandboxes")
    ui.press("button", "Create sandbox")
    ui.write("textbox", "Name", what)
    ui.write("textbox", "Memory (MiB)", "128")
    ui.press("button", "Create")
    ui.press("link", what)
    c.ok(ui.heading(what) and ui.until("document.querySelector('[data-testid=state]').textContent == 'running'"), "a sandbox is created, and runs")
    box = cove.get("/v1/sandboxes/" + what).json
    terminal(ui)
    ui.press("tab", "Overview")
    c.ok(ui.until("+[...document.querySelectorAll('figure')].find((e) => e.querySelector('figcaption span').textContent == 'CPU').dataset.last > 0.05", 60), "its CPU chart moves")
    ui.press("tab", "Files")
    ui.has("button", "Upload")
    made = os.path.join(cove.home, "page.html")
    with open(made, "w") as file:
        file.write("<h1>uploaded by %s</h1>" % what)
    at = ui.page.call("Runtime.evaluate", expression="document.querySelector('input[type=file][aria-label=\"Choose files\"]')")["result"]["objectId"]
    ui.page.call("DOM.setFileInputFiles", files=[made], objectId=at)
    c.ok(ui.has("link", "page.html"), "a file is uploaded")
    ui.press("tab", "Ports")
    ui.press("button", "Expose 8000")
    ui.press("button", "Expose")
    c.ok(ui.has("link", "Open preview"), "a port is exposed")
    preview = browser.page(cove.get("/v1/sandboxes/%s/ports" % box["id"]).json["items"][0]["pathUrl"] + "page.html")
    c.ok(preview.until("document.body && document.body.innerText.includes('uploaded by %s')" % what), "the preview shows the uploaded file")
    preview.close()
    ui.page.call("Page.bringToFront")
    cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": {"mode": "allow", "allow": []}})
    cove.execute(box, "getent hosts wanted.test; true")
    ui.press("tab", "Network")
    ui.press("button", "Allow wanted.test")
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/" + box["id"]).json["network"].get("allow") == ["wanted.test"], 30), "a denied name is allowed from the ledger")
    cove.request("PUT", "/v1/alerts/rules/sandboxes_many", {"threshold": 0, "forSeconds": 0})
    follow(ui, phone, "Alerts")
    c.ok(ui.until("!!document.querySelector('[role=grid][aria-label=Alerts] [data-state=firing]')", 90), "an alert fires", ui.eval("document.body.innerText")[:300])
    ui.press("button", "Acknowledge")
    c.ok(c.until(lambda: any(one["acknowledgedAt"] for one in cove.get("/v1/alerts").json["items"]), 30), "it is acknowledged")
    cove.request("PUT", "/v1/alerts/rules/sandboxes_many", {"threshold": 1000, "forSeconds": 60})
    made = cove.post("/v1/executions", {"taskId": what, "command": "echo first; sleep 1; echo last-$((6*7))"}).json["id"]
    c.until(lambda: cove.get("/v1/executions/" + made).json["state"] == "completed", 60)
    follow(ui, phone, "Executions")
    ui.press("link", what)
    ui.press("button", "Play recording")
    ui.pick("Speed", "4")
    ui.press("button", "Play")
    c.ok(ui.until("document.querySelector('[data-testid=player] .xterm-rows').innerText.includes('last-42')"), "a recording is replayed")
    follow(ui, phone, "Alerts")
    c.ok(ui.until("!document.querySelector('[role=grid][aria-label=Alerts] [data-state=firing]') && !!document.querySelector('[data-state=resolved]')", 120), "and resolves")
    ui.go("/ui/sandboxes/" + box["id"])
    ui.heading(what)
    ui.press("button", "Delete")
    ui.write("textbox", "Type %s to confirm" % what, what)
    ui.press("button", "Delete", last=True)
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/" + what).status == 404, 30) and ui.heading("Sandboxes"), "the sandbox is deleted by its name")
    faults, asked = ui.close()
    c.same(faults, [], "no fault, no violation of the policy")
    c.same([url for url in asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc], [], "no request to another origin")


cove = c.Cove()
if cove.request("GET", "/ui/", key=False).status == 503:
    c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
    c.done()
cli = c.Cli(cove.data)
browser = chromium.Chromium("dashboard.test")
try:
    for width, height in ((1440, 900), (390, 844)):
        tour(browser, cove, cli, width, height)
finally:
    browser.close()
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
