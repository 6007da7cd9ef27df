"""A tab of the dashboard: what a user does in it, what it asks for, and what it complains of."""
import json
import time

WATCH = """window.__faults = [];
document.addEventListener('securitypolicyviolation', (e) => __faults.push('csp ' + e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sourceFile + ':' + e.lineNumber));
addEventListener('error', (e) => __faults.push('error ' + e.message));
addEventListener('unhandledrejection', (e) => __faults.push('rejected ' + e.reason));
window.alert = (text) => __faults.push('alert ' + text);"""

# Stands in for the feed of a list of %d sandboxes: 500 of them change four times a second. Long tasks are in __tasks.
FEED = """(() => {
  const Real = WebSocket, rows = [], hex = (i) => i.toString(16).padStart(48, '0');
  for (let i = 0; i < %d; i++)
    rows.push({id: 'box-' + hex(i), shortId: hex(i).slice(-12), name: 'name-' + i, state: 'running', reason: null, tenant: null, template: 'host',
      labels: {team: 't' + i %% 7}, createdAt: new Date(1.7e12 + i * 1000).toISOString(), cpu: i / 5000, memory: i << 12, pids: 1, disk: 0, requests: 0,
      limits: {memory: 1 << 29, cpu: 1}, version: 1});
  window.__tasks = []; window.__deltas = 0; window.__first = 0; window.__at = performance.now();
  new PerformanceObserver((list) => list.getEntries().forEach((one) => __tasks.push(Math.round(one.duration)))).observe({type: 'longtask', buffered: true});
  window.WebSocket = class extends EventTarget {
    static OPEN = 1;
    constructor(url, protocols) {
      super();
      if (!String(url).includes('/v1/live')) return new Real(url, protocols);
      this.readyState = 0;
      setTimeout(() => { this.readyState = 1; this.onopen(); this.say({op: 'hello', build: 'x', time: new Date().toISOString()}); }, 5);
    }
    say(message) { if (this.readyState === 1) this.onmessage({data: JSON.stringify(message)}); }
    send(text) {
      const {op, id, topic} = JSON.parse(text);
      if (op !== 'sub' || topic !== 'sandboxes') return;
      for (let i = 0; i < rows.length; i += 200)
        setTimeout(() => this.say({id, ...(i ? {} : {reset: true}), ...(i + 200 < rows.length ? {more: true} : {}), set: rows.slice(i, i + 200)}), 10);
      let version = 1;
      this.timer = setInterval(() => { version++; __deltas++;
        this.say({id, set: Array.from({length: 500}, (_, k) => ({id: rows[(version * 500 + k) %% rows.length].id, cpu: Math.random(), memory: k << 14, version})), gone: []}); }, 250);
    }
    close() { clearInterval(this.timer); this.readyState = 3; }
  };
})();"""

CODES = {"Escape": 27, "Enter": 13, "Tab": 9, "End": 35}  # without them the browser itself does nothing


class Ui:
    """One tab, with what it asked for and what it complained of."""

    def __init__(self, browser, cove, width=1440, height=900, theme="light"):
        self.cove, self.browser, self.faults, self.asked = cove, browser, [], []
        self.page = browser.page()
        self.page.call("Network.enable")
        self.page.call("Runtime.enable")
        self.page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)
        self.page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def go(self, path):
        self.collect()
        self.page.go(self.cove.url + path)

    def collect(self):
        try:
            self.faults += self.page.eval("window.__faults ? __faults.splice(0) : []") or []
        except RuntimeError:
            pass
        for event in self.browser.events:
            url = event.get("params", {}).get("request", {}).get("url") or event.get("params", {}).get("url", "")
            if event["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated") and not url.startswith(("data:", "about:")):
                self.asked.append(url)
        self.browser.events.clear()

    def until(self, text, seconds=30):
        return self.page.until(text, seconds)

    def eval(self, text):
        return self.page.eval(text)

    def heading(self, text):
        return self.until("(document.querySelector('h1')||{}).textContent == %s" % json.dumps(text))

    def click(self, selector, text=None):
        """Clicks what is seen: by CSS, and by its text or accessible name."""
        found = "[...document.querySelectorAll(%s)].find((e) => %s)" % (
            json.dumps(selector), "true" if text is None else "(e.getAttribute('aria-label') || e.textContent.trim()) == %s" % json.dumps(text))
        if not self.until("!!" + found):
            raise RuntimeError("there is no %s %r: %s" % (selector, text, self.eval("document.body.innerText")[:500]))
        self.eval("%s.click()" % found)

    def fill(self, label, value):
        found = "[...document.querySelectorAll('label')].find((e) => e.textContent == %s).control" % json.dumps(label)
        self.eval("(() => { const e = %s; e.focus(); e.value = %s; e.dispatchEvent(new Event('input', {bubbles: true})); })()" % (found, json.dumps(value)))

    def key(self, key, code=None, text=None):
        for kind in ("keyDown", "keyUp"):
            self.page.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, windowsVirtualKeyCode=CODES.get(key, 0), **({"text": text} if text and kind == "keyDown" else {}))

    def type(self, text):
        self.page.call("Input.insertText", text=text)

    # By role and accessible name, as the browser's own tree of accessibility has them.

    def find(self, role, name, seconds=30, last=False):
        """The id of the first such element, or of the last, or None."""
        end = time.monotonic() + seconds
        while True:
            try:
                root = self.page.call("Runtime.evaluate", expression="document")["result"]["objectId"]
                nodes = self.page.call("Accessibility.queryAXTree", objectId=root, role=role, accessibleName=name)["nodes"]
                for node in reversed(nodes) if last else nodes:
                    if not node.get("ignored") and "backendDOMNodeId" in node:
                        return self.page.call("DOM.resolveNode", backendNodeId=node["backendDOMNodeId"])["object"]["objectId"]
            except RuntimeError:  # the page has just changed
                pass
            if time.monotonic() > end:
                return None
            time.sleep(0.05)

    def on(self, role, name, function, *values, seconds=30, last=False):
        """Calls a function of JavaScript with that element as `this`; its value."""
        end = time.monotonic() + seconds
        while True:
            found = self.find(role, name, max(0, end - time.monotonic()), last)
            if not found:
                raise RuntimeError("there is no %s %r: %s" % (role, name, self.eval("document.body.innerText")[:1500]))
            try:
                done = self.page.call("Runtime.callFunctionOn", objectId=found, functionDeclaration=function, awaitPromise=True, returnByValue=True,
                                      arguments=[{"value": value} for value in values])
                return done["result"].get("value")
            except RuntimeError:
                if time.monotonic() > end:
                    raise

    def press(self, role, name, last=False):
        self.on(role, name, "function() { this.scrollIntoView({block: 'center'}); this.click(); }", last=last)

    def undo(self, text):
        """What a notice with that text says."""
        found = "[...document.querySelectorAll('[aria-label=Notifications] > *')].find((e) => e.textContent.includes(%s) && e.querySelector('button'))" % json.dumps(text)
        if not self.until("!!" + found):
            raise RuntimeError("no notice says %r: %s" % (text, self.eval("document.body.innerText")[:500]))
        self.eval("[...%s.querySelectorAll('button')].find((e) => e.textContent == 'Undo').click()" % found)

    def write(self, role, name, text):
        self.on(role, name, "function(text) { this.focus(); this.value = text; this.dispatchEvent(new Event('input', {bubbles: true})); }", text)

    def pick(self, name, value):
        self.on("combobox", name, "function(value) { this.value = value; this.dispatchEvent(new Event('change', {bubbles: true})); }", value)

    def has(self, role, name, seconds=30):
        return self.find(role, name, seconds) is not None

    def lacks(self, role, name, seconds=30):
        end = time.monotonic() + seconds
        while self.find(role, name, 0) is not None:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def text(self, role, name):
        return self.on(role, name, "function() { return this.innerText; }")

    def says(self, role, name, text, seconds=30):
        """True once the element has that text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if text in (self.text(role, name) or ""):
                return True
            time.sleep(0.05)
        return False

    def close(self):
        self.collect()
        self.page.close()
        return self.faults, self.asked


def sign_in(ui, cli, *options):
    ui.go("/ui/login#code=" + json.loads(cli("dashboard", "--json", *options).text)["url"].split("#code=")[1])
