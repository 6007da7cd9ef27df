#!/usr/bin/env python3
"""The documents tell the truth: every curl line of docs/API.md works and every verb of every route has one, the
tables of docs/SPECIFICATION.md are those of the sources, docs/ARCHITECTURE.md knows every file, and
sources cite only documents and rules that are in the tree."""
import glob
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile

import cove as c
import routes as r

# What curl cannot speak; a terminal it can at least open.
SOCKETS = {"/v1/sandboxes/{id}/ports/{port}/tcp", "/v1/sandboxes/{id}/ws", "/v1/sandboxes/{id}/api/ws", "/v1/sandboxes/{id}/rpc", "/v1/sandbox/{id}/pty"}


def read(*path):
    with open(os.path.join(c.ROOT, *path)) as file:
        return file.read()


def reference():
    """The reference of all routes is generated; openapi.t compares docs/openapi.json with the routes."""
    made = subprocess.run([os.path.join(c.ROOT, "tools", "reference"), os.path.join(c.ROOT, "docs", "openapi.json")], capture_output=True, text=True, timeout=60)
    c.ok(made.returncode == 0 and made.stdout == read("docs", "REFERENCE.md"), "docs/REFERENCE.md is what tools/reference writes", made.stderr)


def kinds():
    documented = re.findall(r"^\| (\w+) \| (\d+) \| (\d) \| (yes|no) \|", read("docs", "SPECIFICATION.md"), re.M)
    real = re.findall(r'X\(\w+, +"(\w+)", +(\d+), +(\d), +(true|false)\)', read("src", "base", "err.h"))
    real = [(word, http, status, {"true": "yes", "false": "no"}[retry]) for word, http, status, retry in real]
    c.same(documented, real, "the table of errors is that of base/err.h")


def promises():
    documented = set(re.findall(r"^\| ([\w./-]+) \| ([<>]=) ([\d.]+) \| (\S+) \|", read("docs", "SPECIFICATION.md"), re.M))
    real = set()
    for path in glob.glob(os.path.join(c.ROOT, "test", "bench", "*.c")):
        for match in re.finditer(r'promise\("([^"]+)",(.*?)\);', read(path), re.S):
            limit, most, unit = re.search(r'([\d.]+),\s*([01]),\s*"([^"]+)"$', match.group(2).strip()).groups()
            real.add((match.group(1), "<=" if most == "1" else ">=", limit, unit))
        for name, limit in re.findall(r'\{"(neighbour\.\w+)",\s*([\d.]+),', read(path)):  # rows of a table
            real.add((name, "<=", limit, "x"))
    for name, limit, unit in re.findall(r'promise\("([\w.]+)", .*, ([\d.]+), "(\w+)"\)', read("test", "bench", "sync.py")):
        real.add((name, "<=", limit, unit))
    c.same(sorted(real - documented), [], "every promise of the bench is told")
    c.same(sorted(documented - real), [], "and no other")


def folders():
    """README.md of each source folder: each of its files by name."""
    told = {}
    for path in glob.glob(os.path.join(c.ROOT, "src", "*", "README.md")):
        told[os.path.basename(os.path.dirname(path))] = set(re.findall(r"`([\w.]*)`", read(path)))
    there = {}
    for path in glob.glob(os.path.join(c.ROOT, "src", "*", "*.[chS]")):
        there.setdefault(os.path.basename(os.path.dirname(path)), set()).add(os.path.basename(path)[:-2])
    c.same(sorted(set(there) - set(told)), [], "each source folder has a README.md")
    both = set(told) & set(there)
    c.same(sorted("%s/%s" % (folder, name) for folder in both for name in there[folder] - {each.split(".")[0] for each in told[folder]}), [],
           "and it names each file")
    c.same(sorted("%s/%s" % (folder, name) for folder in both for name in told[folder]
                  if re.fullmatch(r"\w+\.[chS]", name) and not name.endswith("_fuzz.c") and name[:-2] not in there[folder]), [], "and no file that is not there")
    floors = {line.split()[0] for line in read("src", "FLOORS").splitlines() if line.strip()}
    c.same(sorted((floors - {"main"}) ^ set(there)), [], "src/FLOORS likewise")


def configuration():
    said = subprocess.run([c.BIN, "serve", "--document"], capture_output=True, text=True, timeout=30).stdout
    c.ok(read("docs", "CONFIGURATION.md") == said, "docs/CONFIGURATION.md is what 'cove serve --document' writes")


# Refusals inside of one sandbox: its tenant's business.
INSIDE = {"context_busy", "interpreter_failed", "too_many_contexts", "too_many_ports", "no_memory", "no_shell", "session_busy", "terminal_failed", "too_many_execs", "too_many_processes", "too_many_requests",
          "too_many_sessions", "too_many_terminals"}


def operations():
    told = set(re.findall(r"`([\w.]+)`", read("docs", "OPERATIONS.md")))
    due = {"state_corrupt", "state_unwritable"}
    for room in ("serve", "warden", "manager", "store", "agent", "gateway", "api", "box"):
        for path in glob.glob(os.path.join(c.ROOT, "src", room, "*.c")):
            text = read(path)
            due |= set(re.findall(r'err_new\(\s*(?:UNAVAILABLE|NO_SPACE|EXHAUSTED),\s*"(\w+)"', text))
            due |= set(re.findall(r'log_event\(LOG_ERROR, "([\w.]+)"', text)) - {"alert"}
            due |= set(re.findall(r'"alert", "alert", "(\w+)"|\balert\(agent, "(\w+)"\)', text) and
                       ["".join(both) for both in re.findall(r'"alert", "alert", "(\w+)"|\balert\(agent, "(\w+)"\)', text)])
            due |= set(re.findall(r'\balert_tell\("(\w+)"', text))
            due |= set(re.findall(r'\b\w*odd\([^,]+, "(\w+)"', text)) | set(re.findall(r'"(\w+_(?:without_box)|box_without_\w+)"', text))
    c.same(sorted(due - INSIDE - told), [], "docs/OPERATIONS.md has a cure for whatever an operator may be told")


def shadows():
    """Words that the documents have a reader's shell define, and that are programs already: cc is the compiler."""
    texts = {path: read(path) for path in ["README.md", *glob.glob(os.path.join(c.ROOT, "docs", "*.md"))]}
    made = {(os.path.basename(path), word) for path, text in texts.items() for one in re.findall(r"(?m)\balias (\w+)=|^ *(\w+)\(\) *\{", text) for word in one if word}
    programs = {"cc", "c++", "ld", "ar", "as", "nm"}
    c.same(sorted(one for one in made if one[1] in programs or shutil.which(one[1])), [], "no document redefines a program")


SOURCES = ("src/**/*.[ch]", "test/**/*.[cht]", "test/**/*.py", "fuzz/*.[ch]", "tools/*", "Makefile")


def citations():
    """Sources cite documents and rules of this tree alone."""
    rules = read("docs", "ISOLATION.md")
    known = set(re.findall(r"^- \*\*([A-Z]+-\d+)\*\*", rules, re.M))
    rule = r"\b(?:%s)-\d+\b" % "|".join(sorted({name.split("-")[0] for name in known}))
    lost = set()
    for path in {p for pattern in SOURCES for p in glob.glob(os.path.join(c.ROOT, pattern), recursive=True) if os.path.isfile(p)}:
        with open(path, errors="replace") as file:
            text = file.read()
        names = [n for n in re.findall(r"\bdocs/[\w-]+\.md\b|\b[a-z][a-z_-]{3,}\.md\b", text) if not os.path.exists(os.path.join(c.ROOT, n))]
        names += [n for n in re.findall(rule, text) if n not in known]
        lost |= {(os.path.relpath(path, c.ROOT), name) for name in names}
    c.same(sorted(lost), [], "no source cites a document or a rule that is not in the tree")
    c.same(sorted(set(re.findall(rule, rules)) - known), [], "docs/ISOLATION.md refers to rules of its own")
    rows = {os.path.basename(path): set(re.findall(r'^@row\("([A-Z]-\d\d)"', read(path), re.M))
            for path in glob.glob(os.path.join(c.ROOT, "test", "hostile", "*.t"))}
    named = [(file, row) for file, some in re.findall(r"\b(\w+\.t)((?:,?\s(?:and\s|to\s)?[A-Z]-\d\d)+)", rules) for row in re.findall(r"[A-Z]-\d\d", some)]
    c.ok(len(named) > 50, "docs/ISOLATION.md names the attacks that show its rules", len(named))
    c.same(sorted(one for one in named if one[1] not in rows.get(one[0], ())), [], "and each of them is there")
    files = re.findall(r"`((?:test|src)/[\w./]+\.\w+)`", rules)
    c.same([one for one in files if not os.path.exists(os.path.join(c.ROOT, one))], [], "and each file that it names")


def blocks():
    """The commands of the indented blocks of docs/API.md that ask something."""
    for block in re.findall(r"(?m)(?:^    .*\n)+", read("docs", "API.md")):
        text = re.sub(r"(?m)^    ", "", block)
        if text.startswith(("api ", "curl ")):
            yield from re.split(r"(?m)^(?=api |curl )", text)[1:]


def route_of(table, line):
    """Which route a command asks, or None."""
    try:
        words = shlex.split(line.replace("\\\n", " "))
    except ValueError:
        return None  # it asks twice
    url = [word for word in words if word.startswith("$COVE_URL/")]
    if not url:
        return None
    method = "GET"
    for flag, verb in (("-d", "POST"), ("--data-binary", "POST"), ("-T", "PUT"), ("-I", "HEAD")):
        method = verb if flag in words else method
    if "-X" in words:
        method = words[words.index("-X") + 1]
    return r.find(table, method, url[0][len("$COVE_URL"):].split("?")[0])


def coverage():
    table = r.table()
    asked = {(row.method, row.pattern) for row in (route_of(table, line) for line in blocks()) if row}
    lost = [(row.method, row.pattern) for row in table
            if (row.method, row.pattern) not in asked and row.pattern not in SOCKETS]
    c.same(lost, [], "every verb of every route has a curl line in docs/API.md")


def requests(cove):
    setup = ('api() { curl -sS -H "Authorization: Bearer $COVE_TOKEN" '
             '-H "Content-Type: application/json" "$@"; }\n')
    table = r.table()
    with tempfile.TemporaryDirectory() as home:
        os.symlink(os.path.join(c.ROOT, "examples"), os.path.join(home, "examples"))
        with tarfile.open(os.path.join(home, "debian.tar.gz"), "w:gz") as tar:
            tar.addfile(tarfile.TarInfo("empty"))
        env = dict(os.environ, COVE_URL=cove.url, COVE_TOKEN=cove.key)
        for line in blocks():
            name = line.strip().splitlines()[0][:90]
            if '"from": "host"' in line or '"image":' in line:
                continue  # copies all of /usr, or asks a registry on the Internet
            if "git" in line and not shutil.which("git"):
                c.skip(name, "git is not installed")
                continue
            got = subprocess.run(["bash", "-c", setup + line], cwd=home, env=env, capture_output=True, timeout=120)
            out = got.stdout.decode(errors="replace")
            row = route_of(table, line)
            if row and "not offered" in row.what:
                c.ok('"httpStatus":501' in out and '"hint"' in out, name, out)
            elif row and row.pattern.endswith("/answer"):
                c.ok('"reason":"no_question"' in out, name, out)  # nobody asked
            elif row and row.pattern.startswith("/v1/operations/"):
                c.ok('"reason":"no_operation"' in out, name, out)
            elif row and row.pattern == "/v1/registries/{host}":
                c.ok('"reason":"registry_unreachable"' in out or '"reason":"no_registry"' in out, name, out)  # nobody listens
            elif row and row.pattern.startswith(("/v1/alerts/{id}", "/v1/alerts/test")):
                c.ok('"reason":"no_alert"' in out or '"reason":"no_sink"' in out, name, out)  # all is well
            elif row and "{context}" in row.pattern:
                c.ok('"reason":"no_context"' in out, name, out)  # whose id nobody knows beforehand
            elif row and row.pattern.endswith("/upload-parts"):
                c.ok('"reason":"not_global"' in out, name, out)  # an address of documents, which nobody has
            else:
                c.ok(got.returncode == 0 and not re.search('"httpStatus":[0-9]', out) and '"type":"error"' not in out, name, out,
                     got.stderr.decode(errors="replace"))


def main():
    reference()
    kinds()
    promises()
    folders()
    configuration()
    operations()
    coverage()
    shadows()
    citations()
    if os.geteuid() != 0:
        c.skip("every curl line works", "needs root")
    elif not shutil.which("curl"):
        c.skip("every curl line works", "curl is not installed")
    else:
        cove = c.Cove("--dev", "--session-space=16M")
        requests(cove)
        cove.close()
    c.done()


main()
