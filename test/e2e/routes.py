"""The route tables of the sources, read as C reads them: macros expanded, literals joined."""
import collections
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLES = (("src", "api", "api.c"), ("src", "toolbox", "toolbox.c"), ("src", "cloudflare", "bridge.c"))
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|[^\s\w]')

Route = collections.namedtuple("Route", "method pattern handler flags what")


def _rows(text):
    """The tokens of each {…} of the table, split at its commas."""
    body = re.search(r"const struct route \w+\[\] = \{(.*?)\n\};", text, re.S).group(1)
    for row in re.findall(r"\{((?:\"(?:\\.|[^\"\\])*\"|[^{}\"])*)\}", body):
        fields = [[]]
        for token in TOKEN.findall(row):
            if token == ",":
                fields.append([])
            else:
                fields[-1].append(token)
        yield fields


def _join(tokens, macros):
    """Adjacent literals and macros of literals are one string."""
    whole = ""
    for token in tokens:
        whole += _join(macros[token], macros) if token in macros else token[1:-1]
    return whole


def parse(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*', lambda m: m.group(1) or "", text)
    macros = {name: TOKEN.findall(body) for name, body in
              re.findall(r'(?m)^#define (\w+) +((?:"[^"\n]*"|\w+| )+)$', text)}
    routes = []
    for fields in _rows(text):
        if fields[0] != ["0"]:
            method, pattern, handler, flags, what = fields[:5]
            routes.append(Route(_join(method, macros), _join(pattern, macros), handler[0],
                                set(flags) - {"0", "|"}, _join(what, macros)))
    return routes


def table():
    """All routes, in the order in which they are tried."""
    found = []
    for path in TABLES:
        with open(os.path.join(ROOT, *path)) as file:
            found += parse(file.read())
    return found


def shape(pattern):
    """A pattern as a regular expression over paths; the router's rules."""
    parts = re.split(r"(\{[^}]*\})", pattern)
    return re.compile("".join(re.escape(part) if not part.startswith("{") else
                              ".+" if part.endswith("*}") else "[^/]+" for part in parts) + r"\Z")


def find(routes, method, path):
    """The route that serves a request; None when there is none."""
    for route in routes:
        takes = route.method in (method, "*") or (method == "HEAD" and route.method == "GET")
        if takes and shape(route.pattern).match(path):
            return route
    return None
