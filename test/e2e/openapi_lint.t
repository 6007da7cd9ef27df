#!/usr/bin/env python3
"""docs/openapi.json is clean under the recommended rules of a linter that others use."""
import os
import subprocess

import cove as c

HERE = os.path.join(c.ROOT, "test", "openapi")
WORK = os.path.join(c.ROOT, "build", "openapi")

c.need_programs("node", "npm")
if not c.npm_install(HERE, WORK):
    c.skip_all("npm could not install @redocly/cli of test/openapi/package-lock.json")
env = dict(os.environ, REDOCLY_TELEMETRY="off", REDOCLY_SUPPRESS_UPDATE_NOTICE="true", CI="true")
# Routes are tried in order: /v1/alerts/rules/NAME is never the alert "rules".
got = subprocess.run([os.path.join(WORK, "node_modules", ".bin", "redocly"), "lint", "--extends=recommended", "--skip-rule=no-ambiguous-paths", "--format=stylish",
                      os.path.join(c.ROOT, "docs", "openapi.json")], cwd=WORK, env=env, stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
c.ok(got.returncode == 0 and "warning" not in got.stdout.lower(), "redocly has nothing to say against the description of the API",
     got.stdout[-3000:])
bad = os.path.join(WORK, "bad.json")
with open(os.path.join(c.ROOT, "docs", "openapi.json")) as file:
    text = file.read()
with open(bad, "w") as file:
    file.write(text.replace('"summary": "', '"sumary": "', 2))
got = subprocess.run([os.path.join(WORK, "node_modules", ".bin", "redocly"), "lint", "--extends=recommended", bad], cwd=WORK, env=env,
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
c.ok(got.returncode != 0 and "sumary" in got.stdout, "and finds a word that is not OpenAPI's", got.stdout[-1000:])
c.done()
