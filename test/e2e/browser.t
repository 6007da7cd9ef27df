#!/usr/bin/env python3
"""Previews in a real browser: a Vite server with hot reload, a WebSocket, an event stream, a large
download, and what the pages of one preview can do to another, and to the API."""
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium  # noqa: E402
import cove as c  # noqa: E402
from visits import Site, certificate, expose, serve  # noqa: E402

HERE = os.path.join(c.ROOT, "test", "browser")
WORK = os.path.join(c.ROOT, "build", "browser")
SIZE = 64 << 20 if c.SHORT else 1 << 30
SOCKET = """new Promise((good, bad) => {
    const ws = new WebSocket("%s"), got = [];
    ws.binaryType = "arraybuffer";
    ws.onopen = () => { ws.send("hello"); ws.send(new Uint8Array(300000).fill(7)); };
    ws.onerror = () => bad(new Error("no socket"));
    ws.onmessage = (m) => {
        got.push(typeof m.data == "string" ? m.data : m.data.byteLength + ":" + new Uint8Array(m.data)[299999]);
        if (got.length == 2) { ws.close(); good(got); }
    };
})"""
TICKER = """new Promise((good) => {
    const source = new EventSource("%s"), got = [], began = performance.now();
    source.onmessage = (m) => {
        got.push([m.data, performance.now() - began]);
        if (got.length == 3) { source.close(); good(got); }
    };
})"""
TRY = """(async () => {
    try {
        const reply = await fetch("%s", {credentials: "include", headers: {Authorization: "Bearer guess"}});
        return "got " + reply.status;
    } catch (fault) { return fault.name; }
})()"""


def carry(cove, box):
    """The application and its packages into the box, which has no network."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as out:
        out.add(os.path.join(HERE, "app"), "app")
        out.add(os.path.join(WORK, "node_modules"), "app/node_modules")
    reply = cove.request("PUT", "/v1/sandboxes/%s/api/tar?path=/workspace" % box["id"], tar.getvalue(), raw=True)
    if reply.status != 200:
        raise RuntimeError(repr(reply))


def start(cove, box, command, port, **more):
    cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], dict(command=command, **more))
    seen = cove.post("/v1/sandboxes/%s/api/port-watch" % box["id"], {"port": port, "mode": "tcp", "interval": 100})
    if b'"ready"' not in seen.body:
        raise RuntimeError(repr(seen))


def hot_reload(cove, box, browser):
    start(cove, box, "cd /workspace/app && exec node node_modules/vite/bin/vite.js --port 5173 --strictPort", 5173, processId="vite")
    url = expose(cove, box, 5173)["url"]
    site = Site(url)
    # In the box itself, under the public name: Vite has a check of its own, and it is at work.
    line = "curl -s -o /dev/null -w '%%{http_code}' -H 'Host: %s' http://localhost:5173/" % site.host
    c.same(cove.out(box, line), "403", "Vite refuses the public name of the preview")
    page = browser.page(url)
    c.ok(page.until("document.getElementById('word').textContent == 'first'"), "but is shown through it: cove rewrites Host",
         cove.get("/v1/sandboxes/%s/api/process/vite/logs" % box["id"]).body)
    born = page.eval("window.born")
    for word in ("second", "third"):
        # Vite tells only pages whose WebSocket is open, and files that its watch has found: a change before that is made again.
        shown = False
        for _ in range(20):
            cove.run(box, "echo 'export const word = \"%s\";' > /workspace/app/word.js" % word)
            shown = page.until("document.getElementById('word').textContent == '%s'" % word, 3)
            if shown:
                break
        c.ok(shown, "a changed module is shown: " + word,
             page.eval("document.documentElement.outerHTML"))
    c.same(page.eval("window.born"), born, "and the page was not loaded anew for it")
    cove.run(box, "sed -i 's/<title>hot/<title>fresh/' /workspace/app/index.html")
    c.ok(page.until("document.title == 'fresh' && window.born && window.born != %r" % born),
         "a changed page is loaded anew by itself", page.eval("document.title"))
    page.close()


def streams(cove, box, browser, made):
    for form in ("url", "pathUrl"):
        page = browser.page(made[form])
        c.ok(page.eval("document.body.textContent").startswith("GET /"), form + ": the page is shown")
        socket = made[form].replace("http", "ws", 1) + "ws"
        c.same(page.eval(SOCKET % socket), ["hello", "300000:7"], form + ": a WebSocket echoes")
        got = page.eval(TICKER % (made[form] + "sse"))
        c.ok([one[0] for one in got] == ["0", "1", "2"] and got[2][1] - got[0][1] > 300,
             form + ": events come one by one", got)
        page.close()


def download(browser, made):
    home = tempfile.mkdtemp(prefix="cove-download-")
    try:
        browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=home, eventsEnabled=True)
        page = browser.page(made["url"])
        page.eval("""(() => { const a = document.createElement("a"); a.href = "/big/%d"; a.download = ""; a.click(); })()""" % SIZE)
        over = browser.event("Browser.downloadProgress", lambda one: one["state"] != "inProgress", 120)
        c.same((over["state"], over["receivedBytes"]), ("completed", SIZE), "a download of %d MiB ends well" % (SIZE >> 20))
        want, have = hashlib.sha256(b"x" * (1 << 20)).digest(), set()
        name, = os.listdir(home)
        with open(os.path.join(home, name), "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                have.add(hashlib.sha256(piece).digest())
            c.same((file.tell(), have), (SIZE, {want}), "and the file is whole")
        page.close()
    finally:
        shutil.rmtree(home)


def apart(cove, box, browser, made):
    """V-05: what a page may not do."""
    other = expose(cove, box, 8001)
    first, second = browser.page(made["url"] + "cookie"), browser.page(other["url"])
    told = lambda page, path: page.eval("fetch('%s').then((r) => r.text())" % path)  # noqa: E731
    c.ok("Cookie: mine=1" in told(first, "/x"), "V-05 a cookie comes back to the preview that set it")
    c.ok("Cookie:" not in told(second, "/x") and second.eval("document.cookie") == "", "V-05 and to no other")
    c.same(second.eval("(async () => { try { await (await fetch('%s')).text(); return 'read' } catch { return 'refused' } })()" % made["url"]),
           "refused", "V-05 a page reads no other preview, though it knows its address")
    third, fourth = browser.page(made["pathUrl"] + "cookie"), browser.page(other["pathUrl"])
    prefix = Site(made["pathUrl"]).prefix
    c.ok("Cookie: mine=1" in told(third, prefix + "/x"), "V-05 in the path form, too, it comes back")
    c.ok("Cookie:" not in told(fourth, Site(other["pathUrl"]).prefix + "/x"), "V-05 and to no other")
    at = cove.url + "/v1/sandboxes"
    asked = lambda: cove.log_text().count('"wrong_origin"')  # noqa: E731
    before = asked()
    for name, page in (("host", first), ("path", third)):
        c.same(page.eval(TRY % at), "TypeError", "V-05 %s form: a page cannot call the API" % name)
        c.same(page.eval("fetch('%s', {mode: 'no-cors', credentials: 'include'}).then((r) => r.type)" % at), "opaque",
               "V-05 %s form: nor see what it says" % name)
    c.ok(asked() >= before + 2, "V-05 and the API has refused each", asked() - before)
    first.eval("document.body.appendChild(Object.assign(document.createElement('iframe'), {id: 'api', src: '%s/v1/health'})) && 1" % cove.url)
    c.same(first.eval("new Promise((r) => setTimeout(r, 500)).then(() => { try { return document.getElementById('api')"
                      ".contentWindow.document.body.textContent } catch (fault) { return fault.name } })"), "SecurityError",
           "V-05 nor look into a frame of it")
    for page in (first, second, third, fourth):
        page.close()


def waiting(cove, box, browser):
    """The page of a port where nobody listens yet becomes the server's by itself."""
    page = browser.page(expose(cove, box, 8002)["url"])
    text = page.eval("document.body.innerText")
    c.ok("Nothing listens on port 8002 yet" in text and "8000" in text and "5173" in text, "a page says who listens", text)
    serve(cove, box, 8002)
    c.ok(page.until("document.body.textContent.startsWith('GET /')", 20), "and gives way to the server once there is one",
         page.eval("document.body.textContent"))
    page.close()


def secure(browser):
    """All of it once more by TLS."""
    cove = c.Cove(start=False)
    cert, key = certificate(cove.home, "own")
    cove.args = ["--preview-domain", "preview.test", "--preview-cert", cert, "--preview-key", key]
    cove.start()
    box = cove.create()
    serve(cove, box, 8000)
    made = expose(cove, box, 8000)
    page = browser.page(made["url"])
    c.ok(page.eval("location.protocol") == "https:" and page.eval("isSecureContext"), "by TLS: a page is shown", made)
    c.same(page.eval(SOCKET % (made["url"].replace("https", "wss", 1) + "ws")), ["hello", "300000:7"], "by TLS: a WebSocket echoes")
    c.same([one[0] for one in page.eval(TICKER % (made["url"] + "sse"))], ["0", "1", "2"], "by TLS: events come")
    size = 32 << 20
    c.same(page.eval("fetch('/big/%d').then((r) => r.arrayBuffer()).then((b) => b.byteLength)" % size), size, "by TLS: a large body comes")
    c.same(page.eval("fetch('/up', {method: 'POST', body: new Uint8Array(%d)}).then((r) => r.text())" % size), str(size),
           "by TLS: and goes")
    page.close()
    cove.delete(box)
    cove.close()


def main():
    c.need_root()
    if not chromium.BINARY:
        c.skip_all("chromium is not installed")
    if not c.npm_install(HERE, WORK):
        c.skip_all("npm could not install the packages of test/browser/package-lock.json")
    cove = c.Cove("--preview-domain", "preview.test")
    browser = chromium.Chromium("preview.test")
    try:
        box = cove.create(limits={"memoryMB": 1024, "diskMB": 2048})
        carry(cove, box)
        serve(cove, box, 8000, more=[8001])
        made = expose(cove, box, 8000)
        c.note(browser.version + json.dumps(made))
        hot_reload(cove, box, browser)
        streams(cove, box, browser, made)
        download(browser, made)
        apart(cove, box, browser, made)
        waiting(cove, box, browser)
        secure(browser)
    finally:
        browser.close()
    cove.delete(box)
    cove.close()
    c.done()


main()
