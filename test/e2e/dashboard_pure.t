#!/usr/bin/env python3
"""W-7, W-16: the code of the dashboard that does no I/O, in node, also on random input; and that the filter of `cove ps` is that
of the dashboard, by the vectors that both share."""
import glob
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

VECTORS = os.path.join(c.ROOT, "test", "filter_vectors.json")
ENTRY = "".join("export * from '%s/web/src/%s.ts';\n" % (c.ROOT, name) for name in ("filter", "ansi", "cast", "format", "copy"))


class List(http.server.BaseHTTPRequestHandler):
    """A daemon with the sandboxes of the vectors, whatever part of them is asked for."""

    def do_GET(self):
        iso = lambda age: time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - age))
        with open(VECTORS) as file:
            items = [dict(row, createdAt=iso(row["ageSeconds"])) for row in json.load(file)["rows"]]
        body = json.dumps({"items": items, "cursor": None} if urllib.parse.urlsplit(self.path).path == "/v1/sandboxes" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def node():
    modules = sorted(glob.glob(os.path.join(c.ROOT, "build", "web", "modules-*", "node_modules", "esbuild")), key=len)
    if not modules:
        return c.skip("W-7 code of the dashboard in node", "cove was built without the dashboard")
    with tempfile.TemporaryDirectory() as work:
        entry, bundle = os.path.join(work, "entry.js"), os.path.join(work, "bundle.mjs")
        with open(entry, "w") as file:
            file.write(ENTRY)
        made = subprocess.run(["node", "-e", "require(process.argv[1]).buildSync({entryPoints: [process.argv[2]], outfile: process.argv[3], bundle: true, format: 'esm', "
                               "jsx: 'automatic', jsxImportSource: 'preact', banner: {js: 'globalThis.location ??= {search: \"\"}; globalThis.sessionStorage ??= {getItem: () => null};'}})",
                               modules[0], entry, bundle], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        c.ok(made.returncode == 0, "the code is bundled", made.stdout.decode()[-800:])
        run = subprocess.run(["node", os.path.join(c.ROOT, "test", "browser", "pure.mjs"), bundle, VECTORS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        c.ok(run.returncode == 0, "it runs in node", run.stderr.decode()[-800:])
        for line in run.stdout.decode().splitlines():
            one = json.loads(line)
            c.ok(one["ok"], one["name"], one.get("told"))


def command_line():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), List)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wrong = []
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "COVE_URL": "http://127.0.0.1:%d" % server.server_address[1], "COVE_TOKEN": "x"}
        with open(VECTORS) as file:
            vectors = json.load(file)["vectors"]
        for one in vectors:
            said = subprocess.run([c.BIN, "ps", "-q", "--filter", one["filter"]], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60).stdout.decode().split()
            if said != one["ids"]:
                wrong.append((one["filter"], said, one["ids"]))
        c.same(wrong, [], "W-16 %d shared vectors by cove ps --filter" % len(vectors))
        said = subprocess.run([c.BIN, "ps", "--json", "--filter", "label:team=a -web"], env=env, stdout=subprocess.PIPE, timeout=60).stdout
        c.same([one["id"] for one in json.loads(said)], ["box-cccccccc"], "W-16 also as JSON")
    server.shutdown()


node()
command_line()
c.done()
