#!/usr/bin/env python3
"""The documents tell the truth: every curl line of docs/API.md works, every route is there, and the
tables of docs/SPECIFICATION.md are those of the sources."""
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

import cove as c


def read(*path):
    with open(os.path.join(c.ROOT, *path)) as file:
        return file.read()


def routes():
    documented = set(re.findall(r"^\| (\w+) \| `(/v1[^`]*)` \|", read("docs", "API.md"), re.M))
    table = read("src", "api", "api.c").replace('BOX "', '"/v1/sandboxes/{id}').replace("BOX,", '"/v1/sandboxes/{id}",')
    real = set(re.findall(r'\{"(\w+)", +"(/v1[^"]*)",', table))
    c.same(documented, real, "docs/API.md lists the routes of the table")


def kinds():
    documented = re.findall(r"^\| (\w+) \| (\d+) \| (\d) \| (yes|no) \|", read("docs", "SPECIFICATION.md"), re.M)
    real = re.findall(r'X\(\w+, +"(\w+)", +(\d+), +(\d), +(true|false)\)', read("src", "base", "err.h"))
    real = [(word, http, status, {"true": "yes", "false": "no"}[retry]) for word, http, status, retry in real]
    c.same(documented, real, "the table of errors is that of base/err.h")


def promises():
    documented = set(re.findall(r"^\| ([\w./-]+) \| ([<>]=) ([\d.]+) \| (\S+) \|", read("docs", "SPECIFICATION.md"), re.M))
    real = set()
    for match in re.finditer(r'promise\("([^"]+)",(.*?)\);', read("test", "bench", "bench.c"), re.S):
        limit, most, unit = re.search(r'([\d.]+),\s*([01]),\s*"([^"]+)"$', match.group(2).strip()).groups()
        real.add((match.group(1), "<=" if most == "1" else ">=", limit, unit))
    c.same(documented, real, "the promises are those that the bench checks")


def blocks():
    """The indented blocks of docs/API.md that ask something."""
    for block in re.findall(r"(?m)(?:^    .*\n)+", read("docs", "API.md")):
        text = re.sub(r"(?m)^    ", "", block)
        if text.startswith(("cc ", "curl ")):
            yield re.split(r"(?m)^(?=cc |curl )", text)[1:]


def requests(cove):
    setup = ('cc() { curl -sS -H "Authorization: Bearer $COVE_TOKEN" '
             '-H "Content-Type: application/json" "$@"; }\n')
    with tempfile.TemporaryDirectory() as home:
        with tarfile.open(os.path.join(home, "debian.tar.gz"), "w:gz") as tar:
            tar.addfile(tarfile.TarInfo("empty"))
        env = dict(os.environ, COVE_URL=cove.url, COVE_TOKEN=cove.key)
        for lines in blocks():
            for line in lines:
                if '"from": "host"' in line or "wait=false" in line:
                    continue  # copies all of /usr; deletes what the line before deleted
                got = subprocess.run(["bash", "-c", setup + line], cwd=home, env=env,
                                     capture_output=True, text=True, timeout=120)
                c.ok(got.returncode == 0 and '"httpStatus"' not in got.stdout, line.strip().splitlines()[0][:90],
                     got.stdout, got.stderr)


def main():
    routes()
    kinds()
    promises()
    if os.geteuid() != 0:
        c.skip("every curl line works", "needs root")
    elif not shutil.which("curl"):
        c.skip("every curl line works", "curl is not installed")
    else:
        cove = c.Cove()
        requests(cove)
        cove.close()
    c.done()


main()
