#!/usr/bin/env python3
"""W-60: sixty payloads through every kind of string that a sandbox controls, in a real browser: markup, addresses, escapes of
terminals, bidi and zero-width characters, NUL, very long ones, bytes that are no UTF-8. None becomes an element, a request,
a dialog or a report of the policy; each is shown as text. The same checks find a payload that is put into the page by hand."""
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
# Each has a word of its own, by which it is found. `%s` is the word.
MARKUP = ["<img src=x onerror=alert(1) class=%s>", "<script>alert('%s')</script>", "\"'><script>alert(1)</script>%s", "'><svg onload=alert(1) class=%s>",
          "<iframe src=javascript:alert(1) name=%s>", "<a href=javascript:alert(1)>%s</a>", "javascript:alert(1)%s", "data:text/html,<script>alert(1)</script>%s",
          "<details open ontoggle=alert(1)>%s", "<body onload=alert(1)>%s", "<style>*{display:none}</style>%s", "<link rel=stylesheet href=http://127.0.0.1:9/%s.css>",
          "<meta http-equiv=refresh content=0;url=http://127.0.0.1:9/>%s", "<base href=http://127.0.0.1:9/>%s", "<object data=x>%s", "<embed src=x class=%s>",
          "<form action=http://127.0.0.1:9><input name=%s autofocus onfocus=alert(1)>", "<math><mtext><img src=x onerror=alert(1)>%s", "<!--%s--><img src=x onerror=alert(1)>",
          "&lt;b&gt;&#60;img src=x&#62;%s", "{{7*7}}%s", "${7*7}%s", "%%3Cimg src=x%%3E%s", "</title><script>alert(1)</script>%s", "]]><img src=x>%s", "<video><source onerror=alert(1)>%s",
          "<template><img src=x onerror=alert(1)></template>%s", "<img src=http://127.0.0.1:9/%s.png>", "\\x3cimg src=x\\x3e%s", "<x onclick=alert(1) style=position:fixed;inset:0>%s"]
WORDS = ["'-alert(1)-'%s", "`id`$(id);id|id&id %s", "=cmd|' /C calc'!A0%s", "@SUM(1)%s", "-rf %s", "--help %s", "../../etc/passwd %s", "C:\\%s", "%%n%%s%%d %s", "__proto__ %s",
         "constructor %s", "null %s", "%s undefined", "NaN %s", "#L1 %s?q=1&lang=en-XA", "\U0001f4a3%s", "e\u0301\u0301\u0301\u0301%s", "%s " + "W" * 180]
TURNING = ["\u202e%s gnp.exe", "\u2066%s\u2069", "\u200f%s\u200e", "\u061c%s", "zero\u200b\u200d\ufeff%s"]
CONTROL = ["\033[31m%s\033[0m", "\033]0;title-%s\007", "\033]52;c;aGk=\007%s", "\033]8;;javascript:alert(1)\033\\%s\033]8;;\033\\", "\033P+q544e\033\\%s", "\x9b31m%s", "a\rb\b%s"]
PAYLOADS = [text % ("w%02dw" % i) for i, text in enumerate(MARKUP + WORDS + TURNING + CONTROL)]
HIDDEN = "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]"
MADE = """[...document.querySelectorAll('main :is(img:not(.shot), script, iframe, object, embed, video, math, details:not([data-ours]), template, base, form[action], x), main a:not([href^="/"], [href^="#L"], [href^="http"], [href^="blob:"])'),
    ...document.querySelectorAll('main svg:not(.icon, .plot)'), ...document.querySelectorAll('body > :not(#app, noscript)'), ...document.querySelectorAll('head :is(base, meta[http-equiv=refresh])'),
    ...document.querySelectorAll('link[href*="127.0.0.1:9"]')].map((e) => location.pathname + ' ' + e.parentElement.outerHTML.slice(0, 300) + ' ' + e.outerHTML.slice(0, 200))"""
# Makes everything inside of the sandbox: files, processes, names that are looked up, a tree of output.
INSIDE = r"""
import json, os, random, socket, struct, subprocess, sys
texts = json.load(open('/workspace/payloads.json'))
as_file = lambda text: text.replace('/', '\\').encode()[:200]
for folder in ('/workspace/d', '/workspace/out'):
    os.makedirs(folder, exist_ok=True)
    for text in texts:
        with open(os.path.join(folder.encode(), as_file(text)), 'w') as file:
            file.write(text)
open(b'/workspace/d/\xff\xfe<img src=x onerror=alert(1)>', 'w').close()
with open('/workspace/all.txt', 'w') as file:
    file.write('\n'.join(texts + ['x' * 20000]))
resolver = [line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver')][0]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(2)
for text in texts:
    name = b''.join(bytes([len(part)]) + part for part in (text.encode()[:60], b'test')) + b'\0'
    try:
        sock.sendto(struct.pack('>HHHHHH', random.randrange(65536), 0x100, 1, 0, 0, 0) + name + struct.pack('>HH', 1, 1), (resolver, 53))
        sock.recv(512)
    except OSError:
        pass
"""
TITLES = r"""
import json, os, time
for text in json.load(open('/workspace/payloads.json')):
    if os.fork() == 0:
        os.execv('/bin/sleep', [text, '600'])
time.sleep(600)
"""


def look(ui, path, wait=None):
    """What a page made of the payloads, which of them it shows, and the characters that it should have hidden."""
    if path:
        ui.go(path)
        ui.until("!!document.querySelector('main h1') && !document.querySelector('main [role=status].dim')")
    if wait:
        ui.until(wait)
    text = "([...document.querySelectorAll('main *')].filter((e) => !e.closest('.xterm') && !e.children.length).map((e) => e.textContent).join('\\n') + '\\n' + document.title + [...document.querySelectorAll('[title], [aria-label]')].map((e) => e.title + e.ariaLabel).join('\\n'))"
    made = ui.eval(MADE)
    made += ["hidden characters at %s: %s" % (path, one) for one in ui.eval("(%s.match(/.{0,20}%s.{0,20}/gu) || []).slice(0, 5).map((e) => JSON.stringify(e))" % (text, HIDDEN))]
    return made, ui.eval("[...new Set((document.body.innerText + [...document.querySelectorAll('main *')].map((e) => (e.shadowRoot ? e.shadowRoot.textContent : '')).join()).match(/w[0-9][0-9]w/g) || [])].length")


cove = c.Cove()
if cove.request("GET", "/ui/", key=False).status == 503:
    c.skip("the dashboard", "no npm registry was reached when cove was built, so it has no dashboard")
    c.done()
cli = c.Cli(cove.data)
c.same(len(PAYLOADS), 60, "sixty payloads")
plain = [text for text in PAYLOADS if all(ord(char) >= 32 and not 0x7f <= ord(char) < 0xa0 for char in text)]
box = cove.create(name="odd", labels={"l%d" % i: text[:250] for i, text in enumerate(plain)}, env={"E%d" % i: text for i, text in enumerate(plain)},
                  network={"mode": "allow", "allow": ["kept.test"]})
files = "/v1/sandboxes/odd/api/files/workspace/"
for name, text in (("payloads.json", json.dumps(PAYLOADS)), ("inside.py", INSIDE), ("titles.py", TITLES)):
    c.ok(cove.request("PUT", files + name, text.encode(), raw=True).status in (200, 201, 204), "%s is written" % name)
made = cove.run(box, "cd /workspace && python3 inside.py && cat all.txt >/dev/null")
c.same(made.get("exitCode"), 0, "they are made in the sandbox")
cove.post("/v1/sandboxes/odd/api/process/start", {"command": "exec python3 /workspace/titles.py", "processId": "titles"})
for text in plain[:12]:
    cove.post("/v1/sandboxes/odd/api/process/start", {"command": "sleep 600; : " + text})
    cove.post("/v1/keys", {"name": text[:60]})
work = cove.post("/v1/executions", {"taskId": plain[0], "artifacts": {"paths": ["out/**"]}, "env": {"PAYLOADS": json.dumps(PAYLOADS)}, "command": """python3 -c "
import json, os
os.mkdir('out')
for text in json.loads(os.environ['PAYLOADS']):
    print(text, flush=True)
    open(os.path.join(b'out', text.replace('/', '|').encode()[:200]), 'w').write(text)
print('NUL \\0 ' + 'x' * 20000)
" """}).json["id"]
c.until(lambda: cove.get("/v1/executions/" + work).json["state"] in ("completed", "failed"), 60)
browser = chromium.Chromium("dashboard.test")
try:
    ui = Ui(browser, cove)
    sign_in(ui, cli)
    ui.heading("Overview")
    at = "/ui/sandboxes/%s/" % box["id"]
    q = lambda **words: "?" + urllib.parse.urlencode(words)
    text = lambda word: "document.body.innerText.includes(%s)" % json.dumps(word)
    # Path, how many payloads are to be seen there, and when it is there.
    pages = [("/ui/sandboxes" + q(q="name:odd"), 0, text("odd")), (at + "overview", 10, text("w00w")), (at + "settings", 0, None),
             (at + "files" + q(path="/workspace/d"), 60, text("w59w")), (at + "files" + q(path="/workspace", file="all.txt"), 15, "[...document.querySelectorAll('main *')].some((e) => e.shadowRoot && e.shadowRoot.textContent.includes('w00w'))"),
             (at + "files" + q(path=PAYLOADS[0]), 0, None), (at + "files" + q(path="/workspace/d", file=PAYLOADS[2]), 0, None),
             (at + "processes", 60, "document.querySelectorAll('[aria-label=Processes] tbody tr').length > 60"), (at + "network", 0, None), (at + "events", 0, None),
             ("/ui/executions", 1, text("w00w")), ("/ui/executions/" + work, 5, text("w10w")), ("/ui/keys", 0, None), ("/ui/audit", 0, None),
             ("/ui/usage" + q(by="label:l0"), 0, None), ("/ui/alerts/" + urllib.parse.quote(PAYLOADS[1], safe=""), 0, None)]
    pages += [("/ui/sandboxes" + q(q=one), 0, None) for one in (PAYLOADS[0], PAYLOADS[48])]
    wrong, hidden = [], []
    for path, least, wait in pages:
        made, seen = look(ui, path, wait)
        wrong += made
        if seen < least:
            hidden.append((path, seen, least))
    # Cells: output, result, error.
    ui.go(at + "code")
    ui.write("textbox", "Code", "import json\nt = json.load(open('/workspace/payloads.json'))\nfor x in t: print(x)\nclass P:\n    def _repr_html_(self): return ''.join(t)\n"
             "    def __repr__(self): return ''.join(t)\ndisplay = P()\ndisplay")
    ui.press("button", "Run cell")
    made, seen = look(ui, None, text("w59w"))
    wrong += made
    hidden += [("cell", seen, 59)] if seen < 59 else []  # a title is not shown
    ui.write("textbox", "Code", "raise ValueError(''.join(t))")
    ui.press("button", "Run cell")
    wrong += look(ui, None, text("ValueError"))[0]
    # A terminal: all of them on its screen and in its title.
    ui.page.call("Page.bringToFront")
    ui.go(at + "terminal")
    ui.until("(document.querySelector('[data-testid=terminal]') || {dataset: {}}).dataset.status == 'connected'")
    ui.type("python3 -c \"import json;[print(x, '\\033]0;' + x + '\\007\\033]2;' + x + '\\033\\134', sep='') for x in json.load(open('payloads.json'))]; print('at', 'end')\"")
    ui.key("Enter", text="\r")
    made, seen = look(ui, None, "document.querySelector('.xterm-rows').innerText.includes('at end')")
    wrong += [one for one in made if "xterm" not in one or "<img" in one]
    hidden += [("terminal", seen, 5)] if seen < 5 else []
    # The palette, and a notice of what failed.
    ui.go("/ui/sandboxes")
    ui.heading("Sandboxes")
    ui.key("/", text="/")
    ui.has("combobox", "Search commands")
    ui.type(PAYLOADS[0])
    wrong += look(ui, None)[0]
    ui.key("Escape", "Escape")
    c.same(wrong, [], "W-60 sixty payloads on %d pages: no element is made of them, no character turns or hides text" % (len(pages) + 4))
    c.same(hidden, [], "W-60 they are shown as text: control of the check")
    ui.collect()
    c.same(ui.faults, [], "W-60 no dialog, no fault, no violation")
    c.same([url for url in ui.asked if urllib.parse.urlsplit(url).netloc != urllib.parse.urlsplit(cove.url).netloc], [], "W-60 no request elsewhere")
    # Control: the same checks with a payload that somebody put into the page as markup.
    ui.eval("""(() => { const e = document.createElement('img'); try { e.setAttribute('onerror', 'alert(1)'); } catch { /* Trusted Types */ } e.setAttribute('src', 'http://127.0.0.1:9/x.png');
        const turned = document.createElement('p'); turned.textContent = '\\u202e'; document.querySelector('main').append(e, turned); })()""")
    made, _ = look(ui, None, "__faults.length > 1")
    ui.close()
    c.ok(any("<img" in one for one in made) and any("hidden" in one for one in made), "W-60 control: markup and turned text in the page are found", made)
    c.ok(any(one.startswith("csp require-trusted-types-for") for one in ui.faults) and any(one.startswith("csp img-src") for one in ui.faults), "W-60 control: so are handlers and requests", ui.faults)
finally:
    browser.close()
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
