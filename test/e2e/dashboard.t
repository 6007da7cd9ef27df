#!/usr/bin/env python3
"""The dashboard in a real browser: files and headers, login, pages at both widths and in both themes, a terminal, strings
of a sandbox that would be markup elsewhere, and what other pages may not do to it."""
import gzip
import http.server
import json
import os
import re
import shlex
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
import wsclient  # noqa: E402
from dashboard_tab import Ui, sign_in  # noqa: E402

c.need_root()
c.need_programs("chromium")

EVIL = ['<img src=x onerror=alert(1)>', '"><script>alert(1)</script>', "javascript:alert(1)", "{{7*7}}", "\u202egnp.exe", "&lt;b&gt;", "'-alert(1)-'"]
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; "
                               "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"}


def files(cove):
    reply = cove.request("GET", "/ui/", key=False)
    if reply.status == 503:
        c.ok(b"no dashboard" in reply.body and reply.headers.get("Content-Security-Policy") == HEADERS["Content-Security-Policy"],
             "a cove that was built without it says so")
        c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
        c.done()
    c.ok(reply.status == 200 and b'<div id="app">' in reply.body, "the page needs no key", reply)
    c.same({key: reply.headers.get(key) for key in HEADERS}, HEADERS, "W-3 it has the policy")
    c.same(reply.headers.get("Cache-Control"), "no-cache", "W-5 it is asked for each time")
    tag = reply.headers.get("ETag")
    again = cove.request("GET", "/ui/", key=False, headers={"If-None-Match": tag})
    c.same((again.status, again.body), (304, b""), "W-5 and not sent again")
    c.same(cove.request("GET", "/ui/sandboxes/x/events", key=False).body, reply.body, "W-5 every other path is the page")
    names = re.findall(rb'/ui/(assets/[^"]+)', reply.body)
    c.same(len(names), 3, "it names a style and two scripts")
    c.ok(not re.search(rb"<script(?![^>]* src=)|<style| on\w+=| style=", reply.body), "with nothing inline")
    total = len(cove.request("GET", "/ui/", key=False, headers={"Accept-Encoding": "gzip"}).body)
    for name in (name.decode() for name in names):
        plain = cove.request("GET", "/ui/" + name, key=False, headers={"Accept-Encoding": "identity"})
        packed = cove.request("GET", "/ui/" + name, key=False, headers={"Accept-Encoding": "gzip, deflate"})
        brotli = cove.request("GET", "/ui/" + name, key=False, headers={"Accept-Encoding": "gzip, deflate, br"})
        total += len(packed.body)
        c.ok(plain.status == 200 and "immutable" in plain.headers.get("Cache-Control", "") and
             (packed.headers.get("Content-Encoding"), brotli.headers.get("Content-Encoding")) == ("gzip", "br") and
             gzip.decompress(packed.body) == plain.body and len(brotli.body) <= len(packed.body),
             "W-5 %s: as it is, by gzip, by brotli; for ever" % name.split("-")[0], plain.headers, packed.headers)
        c.same({key: plain.headers.get(key) for key in HEADERS}, HEADERS, "W-3 with the policy")
    c.ok(total < 150 << 10, "W-48 the first load is below 150 KiB: %d" % total)
    lost = cove.request("GET", "/ui/assets/none.js", key=False)
    c.same((lost.status, lost.headers.get("X-Frame-Options")), (404, "DENY"), "W-5 a missing file is 404")
    c.same(cove.request("GET", "/ui/", key=False, headers={"Host": "evil.test"}).status, 421, "W-5 another Host is refused")
    root = cove.request("GET", "/", key=False, headers={"Accept": "text/html,*/*"})
    c.same((root.status, root.headers.get("Location")), (302, "/ui/"), "W-5 a browser is sent from / to it")
    c.same(cove.request("GET", "/", key=False, headers={"Accept": "application/json"}).status, 404, "W-5 and no other client")


def bearer(cove, token, method, path, body=None, **more):
    headers = dict({"Authorization": "Bearer " + token, "Content-Type": "application/json"}, **more)
    return cove.request(method, path, body, key=False, headers=headers)


def sessions(cove, cli):
    made = cove.post("/v1/auth/sessions", {"name": "tab"})
    token = made.json["token"]
    c.ok(made.status == 201 and re.fullmatch("cvs_[0-9a-f]{64}", token) and made.headers.get("Cache-Control") == "no-store" and
         not made.headers.get("Set-Cookie"), "W-8 a key becomes a session", made)
    c.same(made.json["who"]["role"], "operator", "W-8 of the operator")
    c.same(bearer(cove, token, "GET", "/v1/stats").status, 200, "W-8 its token is a credential")
    c.same(bearer(cove, token, "POST", "/v1/auth/sessions", {}).status, 403, "W-8 that makes no other session")
    c.same(bearer(cove, token, "POST", "/v1/auth/links", {}).status, 403, "W-8 and no link")
    listed = bearer(cove, token, "GET", "/v1/auth/sessions").json["items"]
    c.same([(one["id"], one["current"]) for one in listed], [(made.json["id"], True)], "W-14 it is listed")
    c.same(bearer(cove, token, "PUT", "/v1/tenants/acme", {}).status, 201, "W-8 it may do what the key may")
    rows = [one["fields"].get("via") for one in cove.get("/v1/audit?limit=1000").json["items"] if one["action"].startswith("PUT /v1/tenants")]
    c.ok(rows and set(rows) == {made.json["id"]}, "W-14 the audit log says by which session", rows)
    reader = cove.post("/v1/auth/sessions", {"scopes": ["read"]}).json["token"]
    c.same((bearer(cove, reader, "GET", "/v1/sandboxes").status, bearer(cove, reader, "POST", "/v1/sandboxes", {}).status), (200, 403),
           "W-8 scopes shrink")
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make"]}).json
    wide = bearer(cove, key["key"], "POST", "/v1/auth/sessions", {"scopes": ["read", "admin"]})
    c.same(wide.status, 403, "W-8 they never grow")
    own = bearer(cove, key["key"], "POST", "/v1/auth/sessions", {}).json
    c.same((own["who"]["role"], own["who"]["tenant"], own["who"]["key"]), ("tenant", "acme", key["id"]), "W-8 a tenant's key gives a tenant's session")
    c.same([one["id"] for one in bearer(cove, own["token"], "GET", "/v1/auth/sessions").json["items"]], [own["id"]], "W-14 which sees its own alone")
    c.same(bearer(cove, own["token"], "DELETE", "/v1/auth/sessions/" + made.json["id"]).status, 404, "W-14 and ends no other's")
    c.same(cove.stop(), 0, "cove ends")
    cove.start()
    c.same([bearer(cove, one, "GET", "/v1/sandboxes").status for one in (token, own["token"])], [200, 200], "W-8 sessions survive a restart")
    cove.request("DELETE", "/v1/keys/" + key["id"])
    c.same(bearer(cove, own["token"], "GET", "/v1/sandboxes").status, 401, "W-8 the end of a key ends its sessions")
    c.same(bearer(cove, token, "DELETE", "/v1/auth/sessions/" + made.json["id"]).status, 204, "W-14 signing out")
    c.same(bearer(cove, token, "GET", "/v1/sandboxes").status, 401, "W-14 ends the token")
    with open(cove.log_path) as log:
        text = log.read()
    stored = b"".join(open(os.path.join(path, name), "rb").read() for path, _, names in os.walk(cove.data) for name in names if name.startswith("cove.db"))
    c.ok(not any(one in text or one.encode() in stored for one in (token, reader, own["token"])), "W-9 no token is in the log or the store")


def links(cove, cli):
    said = cli("dashboard", "--read-only", "--json")
    link = json.loads(said.text)
    code = link["url"].split("#code=")[1]
    c.ok(said.status == 0 and link["url"].startswith(cove.url + "/ui/login#code="), "W-10 cove dashboard prints a link", said)
    first = cove.request("POST", "/v1/auth/exchange", {"code": code}, key=False, headers={"Content-Type": "application/json"})
    c.same((first.status, first.json["who"]["scopes"]), (201, ["read"]), "W-10 it signs in, with the scopes asked for")
    second = cove.request("POST", "/v1/auth/exchange", {"code": code}, key=False, headers={"Content-Type": "application/json"})
    c.same((second.status, second.json["reason"]), (401, "bad_code"), "W-10 once")
    form = cove.request("POST", "/v1/auth/exchange", b"code=" + code.encode(), key=False, raw=True,
                        headers={"Content-Type": "application/x-www-form-urlencoded"})
    c.same((form.status, form.json["reason"]), (400, "bad_content_type"), "W-12 a form of another page does not")
    tenant = json.loads(cli("dashboard", "--tenant", "acme", "--json").text)["url"].split("#code=")[1]
    made = cove.request("POST", "/v1/auth/exchange", {"code": tenant}, key=False, headers={"Content-Type": "application/json"}).json
    c.same((made["who"]["role"], made["who"]["tenant"]), ("tenant", "acme"), "W-10 as a tenant, for the operator")
    c.same(bearer(cove, made["token"], "GET", "/v1/tenants").status, 403, "W-10 with a tenant's rights")
    for site in ("cross-site", "same-site"):
        c.same(cove.request("GET", "/v1/sandboxes", headers={"Sec-Fetch-Site": site}).status, 403, "W-12 a %s fetch is refused" % site)
    c.same(cove.request("GET", "/v1/sandboxes", headers={"Sec-Fetch-Site": "same-origin"}).status, 200, "W-12 one of its own pages is not")
    c.same(cove.request("GET", "/ui/", key=False, headers={"Service-Worker": "script"}).status, 403, "W-12 there is no service worker")


def login(browser, cove, cli):
    ui = Ui(browser, cove)
    ui.go("/ui/sandboxes")
    c.ok(ui.heading("Sign in"), "without a session there is the login", ui.eval("document.body.innerText"))
    ui.fill("API key", "wrong")
    ui.click("button", "Sign in")
    c.ok(ui.until("!!document.querySelector('[role=alert]')"), "a wrong key is refused")
    ui.fill("API key", cove.key)
    ui.click("button", "Sign in")
    c.ok(ui.heading("Sandboxes"), "W-9 a key signs in", ui.eval("document.body.innerText"))
    token = json.loads(ui.eval("sessionStorage.getItem('cove.session')"))["token"]
    c.ok(not ui.eval("document.documentElement.outerHTML.includes(%s) || document.documentElement.outerHTML.includes(%s) || "
                     "JSON.stringify(localStorage).includes('cvs_') || location.href.includes('cvs_') || document.cookie != ''" %
                     (json.dumps(token), json.dumps(cove.key))), "W-9 key and token are in no element, address, cookie")
    ui.go("/ui/sandboxes")
    c.ok(ui.heading("Sandboxes"), "W-9 a reload stays signed in")
    other = Ui(browser, cove)
    other.go("/ui/executions")
    c.ok(other.heading("Executions"), "W-9 a new tab is signed in by the first", other.eval("document.body.innerText"))
    ui.page.call("Page.bringToFront")  # a tab that nobody sees asks nothing
    ui.click("button", "Account")
    ui.click("[role=menuitem]", "Sign out")
    c.ok(ui.heading("Sign in") and other.heading("Sign in"), "W-9 signing out ends both")
    c.same(bearer(cove, token, "GET", "/v1/sandboxes").status, 401, "W-9 and the token")
    other.close()
    ui.page.call("Page.bringToFront")
    code = json.loads(cli("dashboard", "--json").text)["url"].split("#code=")[1]
    ui.go("/ui/login#code=" + code)
    c.ok(ui.heading("Overview"), "W-10 a link signs in", ui.eval("document.body.innerText"))
    c.same(ui.eval("location.hash + location.pathname"), "/ui/", "W-10 and its code leaves the address")
    mine = json.loads(ui.eval("sessionStorage.getItem('cove.session')"))["id"]
    cove.request("DELETE", "/v1/auth/sessions/" + mine)
    c.ok(ui.heading("Sign in"), "W-14 a session ended elsewhere is signed out here", ui.eval("document.hidden + document.body.innerText"))
    sign_in(ui, cli, "--read-only")
    ui.heading("Overview")
    ui.go("/ui/sandboxes")
    c.same(ui.until("(document.querySelector('.head button')||{ariaDisabled:''}).ariaDisabled"), "true", "W-13 a reader cannot create")
    faults, asked = ui.close()
    c.same(faults, [], "no fault, no violation")


def pages(browser, cove, cli, box, execution):
    for width, height in ((1440, 900), (390, 844)):
        for theme in ("light", "dark"):
            ui = Ui(browser, cove, width, height, theme)
            what = "%d %s: " % (width, theme)
            sign_in(ui, cli)
            c.ok(ui.heading("Overview"), what + "overview", ui.eval("document.body.innerText"))
            c.same(ui.eval("document.documentElement.dataset.theme"), theme, what + "the theme of the system")
            c.ok(ui.until("[...document.querySelectorAll('figure')].length == 4 && +document.querySelector('figure').dataset.points > 1"), what + "charts move")
            seen = {}
            for path, heading in (("/ui/sandboxes", "Sandboxes"), ("/ui/sandboxes/" + box["id"], "web"), ("/ui/sandboxes/%s/events" % box["id"], "web"),
                                  ("/ui/sandboxes/%s/processes" % box["id"], "web"), ("/ui/executions", "Executions"),
                                  ("/ui/executions/" + execution, "task-1"), ("/ui/settings", "Settings"), ("/ui/none", "There is no such page.")):
                ui.go(path)
                seen[path] = ui.heading(heading) and ui.until("document.title == %s" % json.dumps(heading + " · cove"))
                wide = ui.eval("document.documentElement.scrollWidth - innerWidth")
                if wide > 0 or not seen[path]:
                    c.ok(False, what + path, wide, ui.eval("document.body.innerText"))
                bad = ui.eval("""[...document.querySelectorAll('button, a, input, [role=tab], figure, svg[role], table')].filter((e) => !(
                    e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim() || (e.labels && e.labels.length))).map((e) => e.outerHTML)""")
                if bad:
                    c.ok(False, what + path + ": all controls have names", bad)
            c.ok(all(seen.values()), what + "each page opens directly, named, without sideways scrolling", seen)
            faults, asked = ui.close()
            c.same(faults, [], what + "no fault, no violation of the policy")
            c.same([url for url in asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc], [],
                   what + "no request to another origin")
            c.ok(not any("terminal-" in url for url in asked), what + "nor for the terminal, which no page needed")


def work(browser, cove, cli):
    """Create, stop, undo, delete, as a user does."""
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    ui.go("/ui/sandboxes")
    ui.click("button", "Create sandbox")
    ui.until("!!document.querySelector('dialog[open]')")
    ui.fill("Name", "made-here")
    ui.fill("Memory (MiB)", "64")
    ui.fill("Labels", "team=a, tier=b")
    ui.click("dialog button", "Create")
    row = "[...document.querySelectorAll('tr[data-id]')].find((e) => e.querySelector('a').textContent == 'made-here')"
    c.ok(ui.until("!!%s" % row), "a sandbox is made", ui.eval("document.body.innerText"))
    made = cove.get("/v1/sandboxes/made-here").json
    c.same((made["labels"], made["limits"]["memoryMB"]), ({"team": "a", "tier": "b"}, 64), "as it was asked for")
    state = "%s.querySelector('.state').textContent" % row
    c.ok(ui.until(state + " == 'running'"), "it runs")
    ui.click("button", "Actions for made-here")
    ui.click("[role=menuitem]", "Stop")
    c.ok(ui.until(state + " == 'stopped'"), "W-18 it is stopped without a question")
    ui.click("[aria-label=Notifications] button", "Undo")
    c.ok(ui.until(state + " == 'running'"), "W-18 and undone")
    ui.eval("(() => { const e = document.querySelector('[type=search]'); e.value = 'label:tier=b -state:stopped'; e.dispatchEvent(new Event('input', {bubbles: true})); })()")
    c.ok(ui.until("document.querySelectorAll('tr[data-id]').length == 1"), "W-16 a filter")
    c.ok("q=label" in ui.eval("location.search"), "W-15 which is in the address")
    ui.click("button", "Actions for made-here")
    ui.click("[role=menuitem]", "Delete")
    ui.until("!!document.querySelector('dialog[open]')")
    c.same(ui.until("document.activeElement.textContent"), "Cancel", "W-18 deleting asks, with the focus on Cancel")
    c.ok(ui.eval("[...document.querySelectorAll('dialog button')].find((e) => e.textContent == 'Delete').disabled"), "W-18 and needs the name")
    ui.key("Enter", text="\r")
    c.ok(ui.until("!document.querySelector('dialog[open]')"), "W-18 Enter cancels")
    c.same(cove.get("/v1/sandboxes/made-here").status, 200, "W-18 and deletes nothing")
    ui.click("button", "Actions for made-here")
    ui.click("[role=menuitem]", "Delete")
    ui.until("!!document.querySelector('dialog[open]')")
    ui.fill("Type made-here to confirm", "made-here")
    ui.until("![...document.querySelectorAll('dialog button')].find((e) => e.textContent == 'Delete').disabled")
    ui.click("dialog button", "Delete")
    c.ok(c.until(lambda: cove.get("/v1/sandboxes/made-here").status == 404), "W-18 the name deletes it")
    faults, _ = ui.close()
    c.same(faults, [], "no fault, no violation")


def terminal(browser, cove, cli, box):
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    ui.go("/ui/sandboxes/%s/terminal" % box["id"])
    status = "(document.querySelector('[data-testid=terminal]')||{dataset:{}}).dataset.status"
    c.ok(ui.until(status + " == 'connected'"), "a terminal connects", ui.eval("document.body.innerText"))
    rows = "document.querySelector('.xterm-rows').innerText"
    ui.type("echo $((6*7))-ok; printf '\\033[31mred\\033[0m\\n'")
    ui.key("Enter", text="\r")
    c.ok(ui.until(rows + ".includes('42-ok')"), "W-43 a command runs in it", ui.eval(rows))
    c.same(ui.eval("""(() => { const red = [...document.querySelectorAll('.xterm-rows span')].find((e) => e.textContent.trim() == 'red');
        return red ? getComputedStyle(red).color != getComputedStyle(document.querySelector('.xterm-rows')).color : 'no span' })()"""), True, "W-4 in colours")
    c.ok(ui.eval("!!document.querySelector('textarea[aria-label=\"Terminal input\"]')"), "its input has a name")
    ui.type("printf '\\033]52;c;aGk=\\007\\033]0;<img src=x onerror=alert(1)>\\007'; echo '<script>alert(1)</script>'")
    ui.key("Enter", text="\r")
    c.ok(ui.until(rows + ".includes('</script>')"), "W-60 markup is text")
    c.same(ui.eval("document.querySelectorAll('.pane img, .pane script').length"), 0, "W-60 and no element")
    ui.go("/ui/sandboxes/%s/terminal" % box["id"])
    c.ok(ui.until(status + " == 'connected'") and ui.until(rows + ".includes('42-ok')"), "a reload shows the same terminal")
    ui.type("exit")
    ui.key("Enter", text="\r")
    c.ok(ui.until(status + " == 'ended'"), "and its end")
    faults, asked = ui.close()
    c.same(faults, [], "W-4 no violation by the terminal")
    c.ok(any("terminal-" in url for url in asked), "it is loaded on its first use")
    c.ok(not any("cvs_" in url for url in asked), "W-11 and no address holds the token")


def hostile(browser, cove, cli):
    """W-60: strings that a sandbox or a user of the API controls."""
    boxes = [cove.create(labels={"x%d" % i: text for i, text in enumerate(EVIL)})]
    for text in EVIL:
        cove.post("/v1/sandboxes/%s/api/process/start" % boxes[0]["id"], {"command": "sleep 300; : " + text})
    ids = [cove.post("/v1/executions", {"taskId": text, "command": "printf '%s\\n\\033]0;%s\\007\\033[31mx\\n' QUOTED QUOTED; exit 3".replace("QUOTED", shlex.quote(text))}) for text in (EVIL[0], EVIL[1], EVIL[4])]
    works = [one.json["id"] for one in ids if one.status in (200, 201, 202)]
    c.same(len(works), 3, "executions with odd names are made")
    c.until(lambda: all(cove.get("/v1/executions/" + one).json["state"] in ("completed", "failed") for one in works), 60)
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    paths = ["/ui/", "/ui/sandboxes", "/ui/sandboxes?q=" + urllib.parse.quote(EVIL[0]), "/ui/executions", "/ui/" + urllib.parse.quote(EVIL[1], safe=""),
             "/ui/sandboxes/" + urllib.parse.quote(EVIL[0], safe="")]
    paths += ["/ui/sandboxes/%s/%s" % (box["id"], tab) for box in boxes for tab in ("overview", "processes", "events")]
    paths += ["/ui/executions/" + one for one in works]
    made, shown = [], 0
    for path in paths:
        ui.go(path)
        ui.until("!!document.querySelector('main h1') && !document.querySelector('main [role=status].dim')")
        time.sleep(0.15)
        made += ui.eval("[...document.querySelectorAll('main img, main script, main iframe, main a[href^=\"javascript\" i], body > :not(#app):not(noscript)')].map((e) => e.outerHTML)")
        shown += ui.eval("document.body.innerText.includes('onerror=alert(1)')")
        if "\u202e" in ui.eval("document.body.innerText + document.title"):
            made.append("a bidirectional character at " + path)
    c.same(made, [], "W-60 %d pages: no element is made of them" % len(paths))
    c.ok(shown >= 3, "W-60 the strings are shown: control of the check", shown)
    ui.go("/ui/executions/" + works[0])
    c.ok(ui.until("document.querySelector('[role=log]') && document.querySelector('[role=log]').textContent.includes(%s)" % json.dumps(EVIL[0])), "W-60 a log line is text")
    faults, asked = ui.close()
    c.same(faults, [], "W-60 no dialog, no fault, no violation")
    c.same([url for url in asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc], [], "W-60 no request elsewhere")
    for box in boxes:
        cove.delete(box)


ATTACK = """<!doctype html><title>attack</title><script>
const at = '%s', told = {};
const frame = (id, src) => new Promise((go) => { const f = document.createElement('iframe'); f.src = src; f.id = id; f.onload = () => go('loaded'); setTimeout(() => go('silent'), 3000); document.body.appendChild(f); });
window.run = async () => {
  for (const [name, path] of [['own', '/own'], ['api', at + '/v1/sandboxes'], ['health', at + '/v1/health']])
    told[name] = await fetch(path).then(async (r) => r.status + ' ' + (await r.text()).length, (e) => e.name);
  told.post = await fetch(at + '/v1/auth/exchange', {method: 'POST', mode: 'no-cors', body: '{"code":"x"}'}).then((r) => r.type, (e) => e.name);
  told.ws = await new Promise((go) => { const s = new WebSocket(at.replace('http', 'ws') + '/v1/sandboxes/x/ws/pty', ['cove.v1', 'bearer.%s']); s.onopen = () => go('open'); s.onerror = () => go('refused'); });
  await frame('good', '/own'); await frame('ui', at + '/ui/');
  told.good = document.getElementById('good').contentDocument ? 'read' : 'opaque';
  let text; try { text = document.getElementById('ui').contentDocument.body.innerText } catch (e) { text = e.name }
  told.ui = text;
  return told;
};
</script><body>"""


def foreign(browser, cove, box):
    """W-12, W-61: a page on another port of the same host."""
    token = cove.post("/v1/auth/sessions", {}).json["token"]

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"own" if self.path == "/own" else (ATTACK % (cove.url, token)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    page = browser.page("http://127.0.0.1:%d/" % site.server_port)
    told = page.eval("run()")
    c.same(told["own"], "200 3", "W-61 control: the attacking page reads its own site")
    c.same(told["good"], "read", "W-61 control: and its own frame")
    c.same((told["api"], told["health"]), ("TypeError", "TypeError"), "W-61 it reads nothing of the API")
    c.same(told["ws"], "refused", "W-61 it opens no WebSocket, even with a token")
    c.ok(told["ui"] in ("SecurityError", "TypeError"), "W-61 a frame of the dashboard is closed to it")
    frames = [one["frame"] for one in page.call("Page.getFrameTree")["frameTree"]["childFrames"]]
    c.same([one["url"].split("/")[0] for one in frames], ["http:", "chrome-error:"], "W-61 and shows an error, not the dashboard")
    page.close()
    site.shutdown()
    # Control of the WebSocket: the same subprotocols from the page's own origin are accepted.
    ws = wsclient.WebSocket(cove, "/v1/sandboxes/%s/ws/pty?sessionId=own" % box["id"], key=False,
                            headers={"Sec-WebSocket-Protocol": "cove.v1, bearer." + token, "Origin": cove.url})
    c.ok(True, "W-11 control: from its own origin it opens")
    ws.close()


cove = c.Cove()
cli = c.Cli(cove.data)
files(cove)
sessions(cove, cli)
links(cove, cli)
box = cove.create(name="web", labels={"team": "a"})
cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "while :; do :; done", "timeout": 200000})
made = cove.post("/v1/executions", {"taskId": "task-1", "command": "for i in 1 2 3; do echo line $i; done"})
c.ok(made.status in (200, 201, 202), "an execution for the pages", made)
browser = chromium.Chromium("dashboard.test")
try:
    login(browser, cove, cli)
    pages(browser, cove, cli, box, made.json["id"])
    work(browser, cove, cli)
    terminal(browser, cove, cli, box)
    hostile(browser, cove, cli)
    foreign(browser, cove, box)
finally:
    browser.close()
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
