#!/usr/bin/env python3
"""The tabs of one sandbox in a real browser, by roles and accessible names: processes, files with editor, upload and
download, network with the ledger, ports with a preview, code, events, settings; on a desk and on a phone, light and dark."""
import hashlib
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
from dashboard_tab import Ui, sign_in  # noqa: E402

c.need_root()
c.need_programs("chromium", "python3")
TABS = ["Overview", "Terminal", "Processes", "Files", "Network", "Ports", "Code", "Events", "Settings"]


def tab(ui, name):
    ui.press("tab", name)
    return ui.has("tabpanel", name)


def overview(ui, cove, box):
    c.ok(all(ui.has("figure", name) for name in ("CPU", "Memory", "Network", "Disk")), "W-15 four charts", ui.eval("document.body.innerText"))
    busy = "+[...document.querySelectorAll('figure')].find((e) => e.querySelector('figcaption span').textContent == 'CPU').dataset.last > 0.05"
    c.ok(ui.until(busy), "W-15 the CPU chart moves while the sandbox works")
    cove.request("DELETE", "/v1/sandboxes/%s/api/process/kill-all" % box["id"])
    ui.press("button", "Show as table")
    c.ok(ui.until("!!document.querySelector('figure table tbody tr')"), "W-25 a chart is a table, too")


def processes(ui, cove, box):
    tab(ui, "Processes")
    ui.press("button", "Start process")
    ui.write("textbox", "Command", "echo said by a process; exec sleep 300")
    ui.press("button", "Start")
    c.ok(ui.says("grid", "Processes", "said by a process"), "W-15 a process is started and listed")
    ui.press("button", "Show output")
    c.ok(ui.says("log", "Output", "said by a process") or ui.has("log", "Output"), "W-15 with its output")
    ui.press("button", "End echo said by a process; exec sleep 300")
    c.ok(c.until(lambda: all(one["status"] != "running" for one in cove.get("/v1/sandboxes/%s/api/process/list" % box["id"]).json["processes"]
                             if "said by" in one["command"]), 30), "W-15 and ended")
    cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "sleep 1234 & (while :; do :; done) & wait"})
    rows = "[...document.querySelectorAll('[aria-label=Processes] tbody tr')].map((e) => ({text: e.innerText, deep: (e.querySelector('code') || {}).className}))"
    child = rows + ".find((one) => one.text.startsWith('sleep 1234\\t') && one.deep == 'deep deep-2')"
    c.ok(ui.until("!!" + child), "W-33 all processes stand as a tree", ui.eval(rows))
    c.ok(ui.until(rows + ".some((one) => +(/([0-9.]+) ?%/.exec(one.text) || [])[1] > 0.3)"), "W-33 with their CPU since the last look", ui.eval(rows))
    c.ok(ui.eval(rows + ".filter((one) => / [KM]iB/.test(one.text)).length") >= 4, "W-33 and their memory", ui.eval(rows))
    ui.press("button", "End sleep 1234")
    c.ok(ui.until("!" + child), "W-33 one that the API did not start is ended", ui.eval(rows))
    cove.request("DELETE", "/v1/sandboxes/%s/api/process/kill-all" % box["id"])


def choose(ui, path):
    at = ui.page.call("Runtime.evaluate", expression="document.querySelector('input[type=file][aria-label=\"Choose files\"]')")["result"]["objectId"]
    ui.page.call("DOM.setFileInputFiles", files=[path], objectId=at)


def files(ui, cove, box, downloads):
    cove.request("PUT", "/v1/sandboxes/%s/api/files/workspace/app.py" % box["id"], b"print('one')\n", raw=True)
    tab(ui, "Files")
    c.ok(ui.says("grid", "Files", "app.py") and ui.has("navigation", "Path"), "W-15 files of the working directory")
    ui.press("link", "app.py")
    c.ok(ui.has("region", "File app.py") and ui.has("textbox", "File app.py"), "W-15 a file opens in the editor")
    ui.on("textbox", "File app.py", "function() { this.focus(); }")
    ui.key("End", "End")
    ui.type("# edited <b>")
    c.ok(ui.until("document.querySelector('[aria-label=\"File app.py\"]').innerText.includes('Not saved')"), "W-15 which says what is not saved")
    ui.press("button", "Save")
    path = "/v1/sandboxes/%s/api/files/workspace/" % box["id"]
    c.ok(c.until(lambda: cove.get(path + "app.py").body == b"print('one')# edited <b>\n", 30), "W-15 and saves it", cove.get(path + "app.py"))
    ui.press("button", "Close")
    # What a user drops or chooses: 9 MiB go in parts.
    made = os.path.join(downloads, "up load.bin")
    with open(made, "wb") as file:
        file.write(os.urandom(9 << 20))
    choose(ui, made)
    name = urllib.parse.quote("up load.bin")
    c.ok(c.until(lambda: cove.get(path + name).status == 200, 30), "W-46 a file is uploaded")
    c.ok(cove.get(path + name).body == open(made, "rb").read(), "W-46 as it was")
    choose(ui, made)
    c.ok(ui.has("dialog", "Replace up load.bin?"), "W-46 replacing asks")
    ui.press("button", "Cancel")
    os.unlink(made)
    resume(ui, cove, box, downloads)
    ui.page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=downloads)
    ui.press("button", "Download app.py")
    saved = os.path.join(downloads, "app.py")
    c.ok(c.until(lambda: os.path.exists(saved) and open(saved).read().startswith("print('one')"), 30), "W-15 a file is downloaded", os.listdir(downloads))
    ui.press("button", "New folder")
    ui.write("textbox", "Folder name", "made <i>")
    ui.press("button", "Create")
    c.ok(ui.has("link", "made <i>/"), "W-15 a directory is made")
    ui.press("button", "Delete up load.bin")
    ui.write("textbox", "Type up load.bin to confirm", "up load.bin")
    ui.press("button", "Delete")
    c.ok(c.until(lambda: cove.get(path + name).status == 404, 30), "W-18 a file is deleted by its name")


def resume(ui, cove, box, downloads):
    """W-46: the network is cut twice in the middle of an upload, and the answer to its third part is lost."""
    made, path = os.path.join(downloads, "cut.bin"), "/v1/sandboxes/%s/api/files/workspace/cut.bin" % box["id"]
    with open(made, "wb") as file:
        file.write(os.urandom((300 if os.environ.get("COVE_SOAK") else 28) << 20))
    ui.eval("""window.__puts = 0; window.__cuts = 0; window.__lose = 0; window.__fetch = fetch;
        window.fetch = async (path, options = {}) => {
            if (options.method !== 'PUT') return __fetch(path, options);
            try { const reply = await __fetch(path, options); if (__lose) { __lose = 0; throw new TypeError('lost'); } __puts++; return reply; }
            catch (fault) { __cuts++; throw fault; } }; true""")
    network = lambda offline, rate: ui.page.call("Network.emulateNetworkConditions", offline=offline, latency=0, downloadThroughput=-1, uploadThroughput=rate)
    network(False, 6 << 20)
    choose(ui, made)
    for cut in (1, 2):
        ui.until("__puts >= %d" % cut)
        network(True, 6 << 20)
        c.ok(ui.until("__cuts >= %d" % cut, 60), "W-46 an upload is cut", ui.eval("[__puts, __cuts]"))
        ui.eval("window.__lose = %d" % (cut == 2))
        network(False, 6 << 20 if cut == 1 else -1)
    c.ok(c.until(lambda: cove.get(path).status == 200, 120), "W-46 it goes on", ui.eval("[__puts, __cuts]"), ui.eval("document.body.innerText")[:500])
    c.same((ui.eval("__cuts >= 2"), hashlib.sha256(cove.get(path).body).hexdigest()), (True, hashlib.sha256(open(made, "rb").read()).hexdigest()), "W-46 what was cut arrives as it was")
    c.ok(ui.page.call("Runtime.getHeapUsage")["usedSize"] < 100e6, "W-46 and is not in memory", ui.page.call("Runtime.getHeapUsage"))
    ui.eval("window.fetch = __fetch; true")
    os.unlink(made)
    cove.request("DELETE", path)


def network(ui, cove, box):
    cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": {"mode": "allow", "allow": ["kept.test"]}})
    cove.execute(box, "getent hosts denied.test; true")
    tab(ui, "Network")
    c.ok(ui.has("form", "Network policy") and ui.says("grid", "Egress", "denied.test"), "W-15 the ledger shows a denied name")
    allowed = lambda: cove.get("/v1/sandboxes/" + box["id"]).json["network"].get("allow", [])
    ui.press("button", "Allow denied.test")
    c.ok(c.until(lambda: allowed() == ["kept.test", "denied.test"], 30), "W-15 a click allows it", allowed())
    c.ok(ui.lacks("button", "Allow denied.test"), "W-15 once")
    ui.undo("denied.test is allowed")
    c.ok(c.until(lambda: allowed() == ["kept.test"], 30), "W-18 which can be undone", allowed())
    c.ok(ui.has("button", "Allow denied.test"), "W-15 and shows it as denied again")
    ui.write("textbox", "Allowed names", "a.test\n*.b.test\n")
    ui.press("button", "Save changes")
    c.ok(c.until(lambda: allowed() == ["a.test", "*.b.test"], 30), "W-15 the policy is a form, too", allowed())


def ports(ui, cove, box, browser):
    cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "mkdir -p /srv/site && cd /srv/site && echo '<h1>hello preview</h1>' >index.html && exec python3 -m http.server 8123"})
    tab(ui, "Ports")
    c.ok(ui.has("button", "Expose 8123"), "W-15 a port with a listener is shown", ui.eval("document.body.innerText"))
    ui.press("button", "Expose port")
    ui.write("textbox", "Port", "8123")
    ui.press("button", "Expose")
    c.ok(ui.has("link", "Open preview"), "W-15 a port is exposed")
    href, target, rel = ui.on("link", "Open preview", "function() { return [this.href, this.target, this.rel]; }")
    c.same((target, "noopener" in rel), ("_blank", True), "W-61 the preview has no way back to its opener")
    shown = cove.get("/v1/sandboxes/%s/ports" % box["id"]).json["items"][0]
    c.ok(href in (shown["url"], shown["pathUrl"]), "W-15 the link is its address", href, shown)
    preview = browser.page(shown["pathUrl"])
    c.ok(preview.until("document.body && document.body.innerText.includes('hello preview')"), "W-15 the preview shows the server in the sandbox")
    preview.close()
    ui.press("button", "Unexpose 8123")
    c.ok(ui.lacks("link", "Open preview"), "W-15 and ends")


def code(ui, cove, box):
    tab(ui, "Code")
    ui.write("textbox", "Code", "x = 6 * 7\nprint('out', x)\nx")
    ui.press("button", "Run cell")
    c.ok(ui.says("log", "Output", "out 42"), "W-15 a cell runs", ui.eval("document.body.innerText"))
    ui.write("textbox", "Code", "class Page:\n    def _repr_html_(self): return '<img src=x onerror=alert(1)>'\nprint(x)\nPage()")
    ui.press("button", "Run cell")
    c.ok(ui.says("log", "Output", "<img src=x onerror=alert(1)>"), "W-60 HTML of a result is source", ui.text("log", "Output"))
    c.same(ui.eval("document.querySelectorAll('main img').length"), 0, "W-60 and no element")


def events(ui, cove, box):
    tab(ui, "Events")
    c.ok(ui.says("grid", "Events", "sandbox.created") or ui.says("grid", "Events", "sandbox"), "W-15 events of the sandbox", ui.eval("document.body.innerText"))


def settings(ui, cove, box):
    tab(ui, "Settings")
    ui.write("textbox", "Labels", "team=b, x")
    ui.write("textbox", "Sleep after", "20m")
    ui.press("button", "Save changes")
    now = lambda: cove.get("/v1/sandboxes/" + box["id"]).json
    c.ok(c.until(lambda: (now()["labels"], now()["sleepAfter"]) == ({"team": "b", "x": ""}, "20m"), 30), "W-15 labels and sleep are changed", now())
    ui.undo("The settings are changed")
    c.ok(c.until(lambda: (now()["labels"], now()["sleepAfter"]) == ({"team": "a"}, "10m"), 30), "W-18 and undone", now())
    ui.press("button", "Snapshot")
    ui.write("textbox", "Name", "from-web")
    ui.press("button", "Create")
    c.ok(c.until(lambda: cove.get("/v1/templates/from-web").status == 200, 60), "W-15 a snapshot is made")


def archive(ui, cove):
    """W-15: a stopped sandbox is archived by its header, by its menu and by the palette."""
    box = cove.create(name="attic", limits={"memoryMB": 64})
    path = "/v1/sandboxes/" + box["id"]
    state = lambda: cove.get(path).json["state"]
    shown = lambda word: ui.until("(document.querySelector('[data-testid=state]') || {}).textContent == %s" % json.dumps(word), 60)
    ui.go("/ui/sandboxes/" + box["id"])
    c.ok(ui.has("button", "Stop") and ui.lacks("button", "Archive", 0), "a running sandbox is not archived")
    ui.press("button", "Stop")
    ui.press("button", "Archive")
    c.ok(shown("archived") and state() == "archived", "its header archives it", ui.eval("document.body.innerText")[:400])
    c.ok(ui.until("!document.querySelector('[aria-label=Notifications]').innerText.includes('Archive: attic\\nUndo')"), "which has no undo")
    tab(ui, "Files")
    c.ok(ui.until("document.body.innerText.includes('The sandbox is archived')"), "a tab says so", ui.eval("document.body.innerText")[:400])
    ui.press("button", "Start sandbox")
    c.ok(shown("running") and state() == "running", "and a start brings it back")
    for way in ("menu", "palette"):
        cove.post(path + "/start")
        cove.post(path + "/stop")
        c.same(state(), "stopped", "stopped again")
        ui.go("/ui/sandboxes?q=state:stopped")
        ui.has("button", "Actions for attic")
        if way == "menu":
            ui.press("button", "Actions for attic")
            ui.press("menuitem", "Archive")
        else:
            ui.eval("document.activeElement.blur()")
            ui.page.call("Page.bringToFront")
            ui.key("/", text="/")
            ui.has("combobox", "Search commands")
            ui.type("archive attic")
            ui.until("(document.querySelector('[role=option][aria-selected=true] bdi') || {}).textContent == 'Archive attic'")
            ui.key("Enter", text="\r")
        c.ok(c.until(lambda: state() == "archived", 60), "the %s archives it" % way, ui.eval("document.body.innerText")[:600])
        ui.write("searchbox", "Filter sandboxes", "state:arch")
        ui.press("button", "state:archived")
        c.ok(ui.until("document.querySelectorAll('tr[data-id]').length == 1 && document.querySelector('tr[data-id] .state').textContent == 'archived'"),
             "W-16 the filter offers the state, and finds it", ui.eval("document.body.innerText")[:600])
    cove.request("DELETE", path)


def everywhere(browser, cove, cli, box):
    """Each tab directly, at both widths and in both themes."""
    for width, height in ((1440, 900), (390, 844)):
        for theme in ("light", "dark"):
            ui = Ui(browser, cove, width, height, theme)
            sign_in(ui, cli)
            ui.heading("Overview")
            wrong = []
            for name in TABS:
                ui.go("/ui/sandboxes/%s/%s" % (box["id"], name.lower()))
                good = ui.until("""(document.querySelector('h1') || {}).textContent == 'web' && document.title == 'web · cove'
                    && (document.querySelector('[role=tabpanel]') || {}).ariaLabel == %s && document.querySelector('[role=tab][aria-selected=true]').textContent == %s"""
                                % (json.dumps(name), json.dumps(name)))
                if not good:
                    wrong.append(name)
                if ui.eval("document.documentElement.scrollWidth - innerWidth") > 0:
                    wrong.append(name + " scrolls sideways")
                if ui.eval("document.documentElement.dataset.theme") != theme:
                    wrong.append(name + " theme")
            c.same(wrong, [], "W-15 %d %s: each tab opens directly" % (width, theme))
            faults, asked = ui.close()
            c.same(faults, [], "%d %s: no fault, no violation of the policy" % (width, theme))
            c.same([url for url in asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc and not url.startswith("blob:")], [],
                   "W-1 %d %s: no request to another origin" % (width, theme))


def reader(browser, cove, cli, box):
    ui = Ui(browser, cove)
    sign_in(ui, cli, "--read-only")
    ui.heading("Overview")
    ui.go("/ui/sandboxes/%s/files" % box["id"])
    c.ok(ui.until("document.body.innerText.includes('This needs the scope “use”.')"), "W-13 a reader sees no files")
    ui.go("/ui/sandboxes/%s/network" % box["id"])
    c.same(ui.on("button", "Save changes", "function() { return [this.ariaDisabled, this.title]; }"), ["true", "This needs the scope “make”."],
           "W-13 and changes no policy")
    faults, _ = ui.close()
    c.same(faults, [], "W-13 no fault")


cove = c.Cove()
if cove.request("GET", "/ui/", key=False).status == 503:
    c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
    c.done()
cli = c.Cli(cove.data)
box = cove.create(name="web", labels={"team": "a"})
cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "while :; do :; done", "timeout": 300000})
browser = chromium.Chromium("dashboard.test")
downloads = os.path.join(cove.home, "downloads")
os.mkdir(downloads)
try:
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    ui.go("/ui/sandboxes/" + box["id"])
    overview(ui, cove, box)
    processes(ui, cove, box)
    files(ui, cove, box, downloads)
    network(ui, cove, box)
    ports(ui, cove, box, browser)
    code(ui, cove, box)
    events(ui, cove, box)
    settings(ui, cove, box)
    archive(ui, cove)
    faults, asked = ui.close()
    c.same(faults, [], "W-4 no fault, no violation by the editor")
    c.ok(any("/editor-" in url for url in asked) and not any("/terminal-" in url for url in asked), "W-2 the editor is loaded on its first use, the terminal not")
    everywhere(browser, cove, cli, box)
    reader(browser, cove, cli, box)
finally:
    browser.close()
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
