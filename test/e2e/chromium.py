"""A real browser, headless, spoken to by the DevTools protocol over a pair of pipes."""
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

BINARY = shutil.which("chromium")


class Chromium:
    """One browser with a profile of its own. All names beneath `domain` are this host."""

    def __init__(self, domain):
        self.home = tempfile.mkdtemp(prefix="cove-chromium-")
        self.serial, self.rest, self.events = 0, b"", []
        to_read, self.to = os.pipe()
        self.fro, fro_write = os.pipe()
        # The browser reads from its descriptor 3 and writes to 4. As root it has no walls of its own.
        words = ["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_read, fro_write), "sh", BINARY, "--headless=new",
                 "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
                 "--user-data-dir=" + self.home, "--remote-debugging-pipe", "--ignore-certificate-errors",
                 "--host-resolver-rules=MAP *.%s 127.0.0.1" % domain, "about:blank"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=open(os.path.join(self.home, "stderr"), "w"),
                                        pass_fds=(to_read, fro_write), start_new_session=True,
                                        env=dict(os.environ, HOME=self.home))
        os.close(to_read)
        os.close(fro_write)
        self.version = self.call("Browser.getVersion")["product"]

    def _message(self, end):
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fro], [], [], left)[0]:
                raise TimeoutError("the browser says nothing")
            got = os.read(self.fro, 1 << 20)
            if not got:
                raise RuntimeError("the browser is gone:\n" + open(os.path.join(self.home, "stderr")).read()[-2000:])
            self.rest += got
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, seconds=60, session=None, **params):
        self.serial += 1
        message = {"id": self.serial, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        end = time.monotonic() + seconds
        while True:
            got = self._message(end)
            if got.get("id") == self.serial:
                if "error" in got:
                    raise RuntimeError("%s: %s" % (method, got["error"]))
                return got["result"]
            if "method" in got:
                self.events.append(got)

    def event(self, method, good=lambda params: True, seconds=60):
        """The next event of that name which is good; those before it are forgotten."""
        end = time.monotonic() + seconds
        while True:
            got = self.events.pop(0) if self.events else self._message(end)
            if got.get("method") == method and good(got["params"]):
                return got["params"]

    def page(self, url="about:blank"):
        return Page(self, url)

    def close(self):
        try:
            self.call("Browser.close", 10)
        except (RuntimeError, OSError, TimeoutError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)  # a group of its own, which it leads
            self.process.wait()
        os.close(self.to)
        os.close(self.fro)
        shutil.rmtree(self.home, ignore_errors=True)


class Page:
    def __init__(self, browser, url):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        self.call("Page.enable")
        if url != "about:blank":
            self.go(url)

    def call(self, method, seconds=60, **params):
        return self.browser.call(method, seconds, self.session, **params)

    def go(self, url):
        """Loads an address; the document is there, its scripts may still be under way."""
        answer = self.call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise RuntimeError("%s: %s" % (url, answer["errorText"]))
        self.until("document.readyState != 'loading' && location.href != 'about:blank'")

    def eval(self, text, seconds=60):
        """The value of an expression in the page; promises are awaited."""
        answer = self.call("Runtime.evaluate", seconds, expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:1000])
        return answer["result"].get("value")

    def until(self, text, seconds=30):
        """Asks again until the expression is true; its last value."""
        end = time.monotonic() + seconds
        while True:
            try:
                value = self.eval(text)
            except RuntimeError:  # the page is just being replaced by another
                value = None
            if value or time.monotonic() > end:
                return value
            time.sleep(0.05)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
