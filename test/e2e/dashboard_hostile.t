#!/usr/bin/env python3
"""W-60: names and bytes that a sandbox or a user controls, on the pages that show them: file names (also not UTF-8), file content,
output of cells and processes, egress names, artifacts, logs, keys. None becomes an element, a request or a dialog."""
import json
import os
import shlex
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
from dashboard_tab import Ui, sign_in  # noqa: E402

c.need_root()
c.need_programs("chromium", "python3")
MARK = "onerror=alert(1)"
NAMES = ["<img src=x %s>" % MARK, "\"'><svg onload=alert(1)>", "\u202egnp.exe", "javascript:alert(1)", "{{7*7}}", "a\nb\u001b[31m"]


def look(ui, path, seen):
    """Opens a page; what it made of the strings that it should have shown."""
    ui.go(path)
    ui.until("!!document.querySelector('main h1') && !document.querySelector('main [role=status].dim')")
    if seen:
        ui.until("document.querySelector('main').innerText.includes(%s)" % json.dumps(seen))
    made = ui.eval("""[...document.querySelectorAll('main img:not(.shot), main script, main iframe, main svg:not(.icon, .plot), main a[href^="javascript" i], body > :not(#app):not(noscript)')]
        .map((e) => e.outerHTML)""")
    if "\u202e" in ui.eval("document.body.innerText + document.title"):
        made.append("a bidirectional character at " + path)
    return made, not seen or ui.eval("document.querySelector('main').innerText.includes(%s)" % json.dumps(seen))


cove = c.Cove()
if cove.request("GET", "/ui/", key=False).status == 503:
    c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
    c.done()
cli = c.Cli(cove.data)
box = cove.create(name="odd")
cove.run(box, "mkdir /workspace/d; cd /workspace/d; for name in %s; do printf '%%s\\n' \"$name\" >\"$name\"; done; printf x >\"$(printf '\\377%s')\"" %
         (" ".join(shlex.quote(name) for name in NAMES), NAMES[0]))
cove.post("/v1/sandboxes/odd/api/process/start", {"command": "printf '%s\\n\\033]0;t\\007' " + shlex.quote(NAMES[0]) + "; exec sleep 300"})
cove.request("PATCH", "/v1/sandboxes/odd", {"network": {"mode": "allow", "allow": []}})
cove.execute(box, ["python3", "-c", "import socket\ntry: socket.getaddrinfo('xn--img-src.onerror.test', 80)\nexcept OSError: pass"])
key = cove.post("/v1/keys", {"name": NAMES[0]})
work = cove.post("/v1/executions", {"taskId": NAMES[0], "artifacts": {"paths": ["out/**"]},
                                    "command": "mkdir out; echo %s | tee out/%s" % (shlex.quote(NAMES[0]), shlex.quote(NAMES[0]))}).json["id"]
c.until(lambda: cove.get("/v1/executions/" + work).json["state"] in ("completed", "failed"), 60)
browser = chromium.Chromium("dashboard.test")
try:
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    at = "/ui/sandboxes/%s/" % box["id"]
    folder = at + "files?" + urllib.parse.urlencode({"path": "/workspace/d"})
    pages = [(folder, MARK), (folder + "&" + urllib.parse.urlencode({"file": NAMES[0]}), MARK), (at + "files?" + urllib.parse.urlencode({"path": NAMES[0]}), None),
             (at + "processes", MARK), (at + "network", "onerror.test"), (at + "events", None), ("/ui/executions", MARK), ("/ui/executions/" + work, MARK),
             ("/ui/audit", None), ("/ui/keys", MARK if key.status == 201 else None), ("/ui/alerts/" + urllib.parse.quote(NAMES[0], safe=""), None), ("/ui/", None),
             ("/ui/agent-sessions/" + urllib.parse.quote(NAMES[1], safe=""), None), ("/ui/usage?by=" + urllib.parse.quote(NAMES[0]), None)]
    made, hidden = [], []
    for path, seen in pages:
        found, shown = look(ui, path, seen)
        made += found
        if not shown:
            hidden.append(path)
    c.same(made, [], "W-60 %d pages: no element is made of them" % len(pages))
    c.same(hidden, [], "W-60 they are shown as text: control of the check")
    faults, asked = ui.close()
    c.same(faults, [], "W-60 no dialog, no fault, no violation")
    c.same([url for url in asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc], [], "W-60 no request elsewhere")
finally:
    browser.close()
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
