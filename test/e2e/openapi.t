#!/usr/bin/env python3
"""docs/openapi.json tells the truth: its form is that of OpenAPI 3.1, its routes are those of the tables, the
server hands it out, and what a running cove answers is what it describes, to the last field."""
import hashlib
import http.client
import io
import json
import os
import re
import tarfile

import cove as c
import registry
import routes
import schema
import wsclient

VERBS = ("get", "head", "post", "put", "patch", "delete", "options")
PASSED = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}  # of a route that takes any method
FILE = os.path.join(c.ROOT, "docs", "openapi.json")


def nameless(pattern):
    return re.sub(r"\{[^}]*\}", "{}", pattern)


def operations(doc):
    for path, item in doc.root["paths"].items():
        for verb in VERBS:
            if verb in item:
                yield verb.upper(), path, item, item[verb]


def named(doc, item, op, where):
    """Parameters of an operation in one place, its own before the path's."""
    found = {}
    for one in item.get("parameters", []) + op.get("parameters", []):
        one = doc.plain(one)
        if one["in"] == where:
            found[one["name"]] = one
    return found


def form(doc):
    root = doc.root
    with open(os.path.join(c.ROOT, "VERSION")) as file:
        c.same((root["openapi"], root["info"]["version"]), ("3.1.0", file.read().strip()), "it is OpenAPI 3.1, of this version")
    c.same(sorted(set(root) - {"openapi", "info", "servers", "security", "tags", "paths", "components"}), [], "with nothing strange at its top")
    lost = []
    for ref in set(schema.refs(root)):
        try:
            doc.at(ref)
        except KeyError:
            lost.append(ref)
    c.same(lost, [], "every reference leads somewhere")
    unused = {"#/components/%s/%s" % (kind, name) for kind in ("schemas", "parameters", "responses")
              for name in root["components"][kind]} - set(schema.refs(root))
    c.same(sorted(unused), [], "and nothing is described that nobody refers to")
    odd = []
    for name, one in root["components"]["schemas"].items():
        odd += doc.odd_words(one, name)
    c.same(odd, [], "schemas use words that are checked here")
    shapes = [nameless(path) for path in root["paths"]]
    c.same(sorted({one for one in shapes if shapes.count(one) > 1}), [], "no two paths are alike but for names")
    c.same(sorted({word for item in root["paths"].values() for word in item} - {"parameters", *VERBS}), [], "a path has parameters and verbs")


def operation_faults(doc, verb, path, item, op):
    """What is wrong with the form of one operation."""
    at = "%s %s" % (verb, path)
    missing = {"operationId", "summary", "tags", "responses"} - set(op)
    if missing:
        yield "%s lacks %s" % (at, missing)
    known = {tag["name"] for tag in doc.root["tags"]}
    if not set(op["tags"]) <= known:
        yield "%s has an unknown tag" % at
    params = named(doc, item, op, "path")
    if set(params) != set(re.findall(r"\{([^}]*)\}", path)) or not all(one.get("required") for one in params.values()):
        yield "%s declares %s" % (at, sorted(params))
    for one in item.get("parameters", []) + op.get("parameters", []):
        one = doc.plain(one)
        if not {"name", "in", "schema"} <= set(one) or doc.odd_words(one["schema"], at):
            yield "%s: parameter %s" % (at, one)
    if not op.get("security", doc.root["security"]) in ([], doc.root["security"], [{}, {"bearer": []}], [{"bearer": []}, {"query": []}]):
        yield "%s has odd security" % at
    for status, one in op["responses"].items():
        if not re.fullmatch(r"[1-5]\d\d|[1-5]XX|default", status) or "description" not in doc.plain(one):
            yield "%s: response %s" % (at, status)
    bodies = [doc.plain(one) for one in op["responses"].values()] + [op.get("requestBody", {})]
    for media in (media for one in bodies for media in one.get("content", {}).values()):
        for word in ("schema", "x-event"):
            yield from doc.odd_words(media.get(word, {}), at)


def operation_forms(doc):
    faults, ids = [], []
    for verb, path, item, op in operations(doc):
        faults += operation_faults(doc, verb, path, item, op)
        ids.append(op.get("operationId"))
    c.same(faults, [], "every operation is whole, and declares the parameters of its path")
    c.same(sorted({one for one in ids if ids.count(one) > 1}), [], "no two operations have one id")


def tables(doc):
    described = {(verb, nameless(path)): op for verb, path, _, op in operations(doc)}
    real = {}
    for row in routes.table():
        if row.pattern.endswith("/"):  # told in the description: linters take a slash at the end for a slip
            continue
        for verb in PASSED if row.method == "*" else {row.method}:
            real[verb, nameless(row.pattern)] = row
    c.same(sorted(set(real) - set(described)), [], "every route is described")
    c.same(sorted(set(described) - set(real)), [], "every description has its route")
    words = [(key, op["summary"]) for key, op in described.items() if key in real and op["summary"] != real[key].what]
    c.same(words, [], "in the words of the table")
    closed = [key for key, op in described.items() if key in real and
              ({} in op.get("security", [0]) or op.get("security") == [] or {"query": []} in op.get("security", [0])) !=
              ("ROUTE_OPEN" in real[key].flags)]
    c.same(closed, [], "those that need no key say so, and no others")


class Witness:
    """Asks a running cove and holds each answer against its description."""

    def __init__(self, doc, cove):
        self.doc, self.cove = doc, cove
        self.asked, self.seen = 0, set()
        self.by_route = {(verb, nameless(path)): (path, item, op) for verb, path, item, op in operations(doc)}
        self.table = routes.table()

    def description(self, method, path):
        row = routes.find(self.table, method, path.split("?")[0])
        return self.by_route[method, nameless(row.pattern)]

    def ask(self, method, path, body=None, want=200, raw=None, **kw):
        """The Reply; one TAP line for status, type, body and the request's own schema."""
        where, _, op = self.description(method, path)
        headers = dict(kw.pop("headers", {}))
        if raw is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
        reply = self.cove.request(method, path, raw if raw is not None else body, headers=headers, **kw)
        faults = [] if reply.status == want else ["%d, not %d: %r" % (reply.status, want, reply.body[:300])]
        if body is not None and want < 400:
            faults += self.asked_well(op, body)
        faults += self.answered_well(op, reply)
        self.asked += 1
        self.seen.add(op["operationId"])
        c.ok(not faults, "%s %s: %d as described" % (method, re.sub(r"/v1/sandbox(es)?/[^/?]*", "…", path)[:70], want),
             "operation %s of %s" % (op["operationId"], where), *faults)
        return reply

    def asked_well(self, op, body):
        media = op.get("requestBody", {}).get("content", {}).get("application/json")
        return ["nobody expects a body"] if not media else self.doc.faults(media["schema"], body, "request")

    def answered_well(self, op, reply):
        answers = op["responses"]
        one = answers.get(str(reply.status)) or answers.get("%dXX" % (reply.status // 100)) or answers["default"]
        content = self.doc.plain(one).get("content", {})
        kind = (reply.headers.get("Content-Type") or "").lower()
        if not content:
            return [] if not reply.body or "XX" in str(answers.keys()) else ["there is a body where none is described"]
        media = content.get(kind) or content.get(kind.split(";")[0]) or content.get("*/*")
        if not media:
            return ["%s is not one of %s" % (kind, sorted(content))]
        if kind.startswith("application/json"):
            return self.doc.faults(media["schema"], reply.json, "answer")
        return self.events(media, reply) if kind.startswith("text/event-stream") else []

    def events(self, media, reply):
        found = [line[6:] for line in reply.body.decode().splitlines() if line.startswith("data: ")]
        if "x-event" not in media:
            return [] if found else ["there is no event"]
        faults = [] if found else ["there is no event"]
        for text in found:
            faults += self.doc.faults(media["x-event"], json.loads(text), "event")
        return faults

    def glance(self, method, path, body, count):
        """The first events of a stream that does not end."""
        _, _, op = self.description(method, path)
        media = self.doc.plain(op["responses"]["200"])["content"]["text/event-stream"]
        conn = http.client.HTTPConnection("127.0.0.1", self.cove.port, timeout=20)
        conn.request(method, path, json.dumps(body) if body is not None else None,
                     {"Authorization": "Bearer " + self.cove.key, "Content-Type": "application/json", "Accept": "text/event-stream"})
        answer, found = conn.getresponse(), []
        for line in answer:
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
            if len(found) == count:
                break
        conn.close()
        self.asked += 1
        self.seen.add(op["operationId"])
        faults = [fault for one in found for fault in self.doc.faults(media["x-event"], one, "event")]
        c.ok(answer.status == 200 and not faults and len(found) == count, "%s: events as described" % op["operationId"], *faults)


def small_tar():
    room = io.BytesIO()
    with tarfile.open(fileobj=room, mode="w") as tar:
        entry = tarfile.TarInfo("in.txt")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"tar"))
    return room.getvalue()


def outside(w):
    w.ask("GET", "/v1/health", key=False)
    w.ask("GET", "/v1/health")
    w.ask("GET", "/health", key=False)
    w.ask("GET", "/v1/sandboxes", want=401, key=False)
    w.ask("GET", "/v1/sandboxes", want=421, headers={"Host": "elsewhere.example"})
    w.ask("POST", "/v1/sandboxes", {"name": "made", "labels": {"team": "a"}, "env": {"A": "1"}, "sleepAfter": "10m", "limits": {"memoryMB": 64}},
          201, headers={"Idempotency-Key": "k1"})
    w.ask("POST", "/v1/sandboxes", {"name": "made"}, 409)
    w.ask("POST", "/v1/sandboxes", {"limits": {"memoryMB": 1}}, 400)
    w.ask("POST", "/v1/sandboxes", {"template": "no-such-one"}, 404)
    w.ask("POST", "/v1/sandboxes", {"network": {"mode": "allow", "rules": [{"name": "a.test"}]}}, 400)
    w.ask("PUT", "/v1/sandboxes/brief", {"ttl": "1h"}, 201)
    for word in ("pause", "resume", "stop", "start"):
        w.ask("POST", "/v1/sandboxes/brief/" + word)
        w.ask("POST", "/v1/sandboxes/none/" + word, want=404)
    w.ask("POST", "/v1/sandboxes/brief/stop")
    w.ask("POST", "/v1/sandboxes/brief/pause", want=409)
    w.ask("PATCH", "/v1/sandboxes/brief", {"ttl": 3600})
    w.ask("PATCH", "/v1/sandboxes/brief", {"network": {
        "mode": "allow", "allow": ["a.test", "*.b.test:22"], "inspect": ["a.test"], "budgets": {"requests": 5, "perSecond": 9},
        "secrets": [{"name": "KEY", "value": "v", "hosts": ["a.test"]}], "rules": [{"name": "a.test", "methods": ["GET"], "paths": ["/v1/*"]}]}})
    w.ask("PATCH", "/v1/sandboxes/brief", {"network": {"mode": "some"}}, 400)
    w.ask("PUT", "/v1/secrets/TOKEN", {"value": "some-value", "hosts": ["a.test"], "header": {"name": "X-Key", "format": "k {}"}}, 201)
    w.ask("PUT", "/v1/secrets/TOKEN", {"hosts": ["a.test"], "query": "k", "expiresAt": "2099-01-01T00:00:00Z"})
    w.ask("PUT", "/v1/secrets/TOKEN", {"hosts": []}, 400)
    w.ask("GET", "/v1/secrets")
    w.ask("GET", "/v1/secrets/TOKEN")
    w.ask("GET", "/v1/secrets/NONE", want=404)
    w.ask("PATCH", "/v1/sandboxes/brief", {"network": {"mode": "allow", "secrets": ["TOKEN"]}})
    w.ask("PATCH", "/v1/sandboxes/brief", {"network": {"secrets": ["NONE"]}}, 400)
    w.ask("DELETE", "/v1/secrets/TOKEN", want=204)
    w.ask("GET", "/v1/sandboxes?view=summary")
    w.ask("GET", "/v1/sandboxes/brief/stats")
    w.ask("GET", "/v1/sandboxes/none/stats", want=404)
    w.ask("GET", "/v1/stats")
    w.ask("GET", "/v1/stats?everyMs=1", want=400)
    w.ask("GET", "/v1/usage?by=label:k")
    w.ask("GET", "/v1/usage?by=cheese", want=400)
    w.ask("PUT", "/v1/budgets/reds", {"match": {"label": "team=red"}, "period": "day", "requests": 1000}, 201)
    w.ask("PUT", "/v1/budgets/reds", {"match": {"tenant": "acme"}, "period": "month", "cost": 1.5})
    w.ask("PUT", "/v1/budgets/reds", {"match": {"tenant": "acme"}, "period": "month", "cpuSeconds": -1}, 400)
    w.ask("GET", "/v1/budgets")
    w.ask("GET", "/v1/budgets/reds")
    w.ask("GET", "/v1/budgets/none", want=404)
    w.ask("DELETE", "/v1/budgets/reds", want=204)
    w.ask("DELETE", "/v1/secrets/TOKEN", want=404)
    w.ask("PUT", "/v1/pools/few", {"template": "host", "size": 1, "ready": {"port": 9}}, 201)
    w.ask("PUT", "/v1/pools/few", {"template": "host", "size": 1, "ready": "true"}, 200)
    w.ask("PUT", "/v1/pools/few", {"size": 1}, 400)
    w.ask("GET", "/v1/pools")
    w.ask("GET", "/v1/pools/few")
    w.ask("GET", "/v1/pools/none", want=404)
    w.ask("DELETE", "/v1/pools/few", want=204)
    w.ask("POST", "/v1/volumes", {"name": "cache", "sizeMB": 64}, 201)
    w.ask("POST", "/v1/volumes", {"name": "cache"}, 409)
    w.ask("POST", "/v1/volumes", {"name": "-"}, 400)
    w.ask("GET", "/v1/volumes")
    w.ask("GET", "/v1/volumes/cache")
    w.ask("GET", "/v1/volumes/none", want=404)
    w.ask("DELETE", "/v1/volumes/cache", want=204)
    w.ask("GET", "/v1/registries")
    w.ask("PUT", "/v1/registries/10.0.0.1", {"username": "me", "password": "word"}, 403)
    w.ask("PUT", "/v1/registries/10.0.0.1", {"username": "me"}, 400)
    w.ask("GET", "/v1/registries/10.0.0.1", want=404)
    w.ask("DELETE", "/v1/registries/10.0.0.1", want=404)
    w.ask("POST", "/v1/sandboxes/brief/start")
    w.ask("POST", "/v1/sandboxes/brief/api/execute", {"command": "exec 3<>/dev/tcp/203.0.113.9/81 && echo >&3 && cat <&3; getent hosts a.test b.test; true"})
    w.ask("GET", "/v1/sandboxes/brief/sync", want=404)
    w.ask("PUT", "/v1/sandboxes/brief/sync", want=204, raw=b"bytes")
    w.ask("GET", "/v1/sandboxes/brief/sync")
    w.ask("GET", "/v1/sandboxes/brief/egress?limit=1000&after=0")
    w.glance("GET", "/v1/sandboxes/brief/egress?after=0", None, 1)
    w.ask("GET", "/v1/sandboxes/brief/egress?verdict=x", want=400)
    w.ask("GET", "/v1/sandboxes/none/egress", want=404)
    w.ask("PUT", "/v1/tenants/acme", {"quota": {"boxes": 2, "cpus": 1.5}, "host": True, "templates": ["*"]}, 201)
    w.ask("PUT", "/v1/tenants/acme", {"quota": {"boxes": 2}})
    w.ask("PUT", "/v1/tenants/A", {}, 400)
    w.ask("GET", "/v1/tenants")
    w.ask("GET", "/v1/tenants/acme")
    w.ask("GET", "/v1/tenants/none", want=404)
    w.ask("POST", "/v1/keys", {"tenant": "acme", "scopes": ["read"], "expiresIn": "1h"}, 201)
    w.ask("POST", "/v1/keys", {"tenant": "none"}, 404)
    w.ask("POST", "/v1/keys", {"scopes": ["x"]}, 400)
    w.ask("GET", "/v1/keys")
    w.ask("DELETE", "/v1/keys/none", want=404)
    w.ask("DELETE", "/v1/tenants/acme", want=204)
    w.ask("DELETE", "/v1/tenants/acme", want=404)
    w.ask("GET", "/ui", want=302, key=False)
    w.ask("GET", "/ui/sandboxes", key=False)
    w.ask("GET", "/ui/assets/none", want=404, key=False)
    w.ask("POST", "/v1/auth/sessions", {"name": "tab", "scopes": ["read"]}, 201)
    w.ask("POST", "/v1/auth/sessions", {"scopes": ["x"]}, 400)
    w.ask("GET", "/v1/auth/sessions")
    w.ask("DELETE", "/v1/auth/sessions/" + w.cove.get("/v1/auth/sessions").json["items"][0]["id"], want=204)
    w.ask("DELETE", "/v1/auth/sessions/none", want=404)
    w.ask("POST", "/v1/auth/links", {"tenant": "none"}, 404)
    link = w.ask("POST", "/v1/auth/links", {}, 201).json["url"]
    w.ask("POST", "/v1/auth/exchange", {"code": link.split("=")[1]}, 201, key=False)
    w.ask("POST", "/v1/auth/exchange", {"code": "x"}, 401, key=False)
    w.ask("POST", "/v1/auth/tickets", {"path": "/v1/health"}, 201)
    w.ask("POST", "/v1/auth/tickets", {"path": "/ui/"}, 400)
    w.ask("POST", "/v1/cleanup")
    w.ask("GET", "/v1/cleanup")
    for path in ("/metrics", "/v1/metrics", "/api/sandbox/metrics", "/api/sandbox/health", "/v1/metrics/history", "/v1/metrics/history?metric=cpu&step=1m", "/v1/alerts/rules"):
        w.ask("GET", path)
    w.ask("GET", "/v1/metrics/history?scope=moon", want=400)
    w.ask("PUT", "/v1/alerts/rules/sandboxes_many", {"threshold": 0, "forSeconds": 0})
    if c.until(lambda: w.cove.get("/v1/alerts").json["items"], 60):
        for verb, rest, body in (("POST", "acknowledge", None), ("POST", "silence", {"for": "1h"}), ("DELETE", "silence", None)):
            w.ask(verb, "/v1/alerts/sandboxes_many/" + rest, body)
    w.ask("GET", "/v1/alerts")
    w.ask("GET", "/v1/alerts?state=x", want=400)
    w.ask("PUT", "/v1/alerts/rules/sandboxes_many", {"enabled": False})
    w.seen.add("testSink")  # sinks.t
    w.ask("POST", "/v1/alerts/test", {"sink": "none"}, 404)
    w.ask("GET", "/v1/events?kind=tenant&limit=1000&after=0")
    w.ask("GET", "/v1/events?limit=0", want=400)
    w.ask("GET", "/v1/audit?limit=1000")
    w.ask("GET", "/v1/audit?after=x", want=400)
    w.ask("GET", "/v1/audit/check")
    w.ask("GET", "/v1/verify")
    w.ask("GET", "/v1/doctor")
    w.ask("GET", "/v1/nodes")
    w.ask("GET", "/v1/sandboxes?label=team=a&limit=10")
    w.ask("GET", "/v1/sandboxes?limit=0", want=400)
    w.ask("GET", "/v1/sandboxes/made")
    w.ask("GET", "/v1/sandboxes/BAD", want=400)
    w.ask("GET", "/v1/sandboxes/none", want=404)
    w.ask("PUT", "/v1/sandboxes/made", {"keepAlive": True, "containerTimeouts": {"waitIntervalMS": 200}})
    w.ask("PUT", "/v1/sandboxes/other", {}, 201)
    w.ask("PATCH", "/v1/sandboxes/made", {"labels": {"team": None}, "env": {"B": "2"}, "sleepAfter": 30})
    w.ask("PATCH", "/v1/sandboxes/made", {"limits": {"pids": 200}})
    w.ask("PATCH", "/v1/sandboxes/made", {"colour": {}}, 400)
    w.ask("DELETE", "/v1/sandboxes/other?wait=false", want=202)
    w.ask("DELETE", "/v1/sandboxes/none", want=404)
    w.ask("GET", "/v1/templates")
    w.ask("GET", "/v1/templates/host")
    w.ask("GET", "/v1/templates/none", want=404)
    w.ask("POST", "/v1/sandboxes", {"name": "right"}, 201)
    w.ask("POST", "/v1/sandboxes/right/snapshot", {"name": "snap"}, 201)
    w.ask("POST", "/v1/sandboxes/right/snapshot", {"name": "snap"}, 409)
    w.ask("POST", "/v1/sandboxes/right/snapshot", {"name": "Bad!"}, 400)
    w.ask("POST", "/v1/sandboxes/none/snapshot", want=404)
    w.ask("POST", "/v1/sandboxes/none/archive", want=404)
    w.ask("POST", "/v1/sandboxes/right/archive", want=409)
    w.ask("POST", "/v1/sandboxes/right/stop")
    w.ask("POST", "/v1/sandboxes/right/archive")
    w.ask("GET", "/v1/sandboxes/right")
    w.ask("POST", "/v1/sandboxes/right/start")
    w.ask("GET", "/v1/templates/snap")
    w.ask("GET", "/v1/templates")
    w.ask("POST", "/v1/sandboxes/right/fork", {"count": 2}, 201)
    w.ask("POST", "/v1/sandboxes/right/fork", {"count": 99}, 400)
    w.ask("POST", "/v1/sandboxes/none/fork", want=404)
    w.ask("DELETE", "/v1/templates/snap", want=204)
    w.ask("DELETE", "/v1/sandboxes/right", want=204)
    w.ask("POST", "/v1/templates", {"name": "x", "from": "y"}, 501)
    w.ask("POST", "/v1/templates?name=t", want=201, raw=small_tar(), headers={"Content-Type": "application/x-tar"})
    w.ask("GET", "/v1/templates/t/export")
    w.ask("GET", "/v1/templates/host/export", want=400)
    w.ask("POST", "/v1/templates?name=bad", want=400, raw=b"no archive", headers={"Content-Type": "application/x-tar"})
    w.ask("DELETE", "/v1/templates/t", want=204)
    w.ask("DELETE", "/v1/templates/host", want=409)
    context = small_tar()
    blob = "/v1/blobs/sha256:" + hashlib.sha256(context).hexdigest()
    w.ask("GET", blob, want=404)
    w.ask("PUT", blob, want=201, raw=context, headers={"Content-Type": "application/x-tar"})
    w.ask("PUT", blob, want=400, raw=b"other", headers={"Content-Type": "application/x-tar"})
    w.ask("GET", blob)
    steps = [{"env": {"A": "b"}}, {"workdir": "/srv"}, {"run": ["true"]}, {"user": "nobody"}, {"cmd": "true"}, {"label": {"l": "m"}}]
    w.ask("POST", "/v1/builds", {"name": "built", "from": {"template": "host"}, "steps": steps, "context": blob[10:], "limits": {"memoryMB": 128}}, 201)
    w.ask("POST", "/v1/builds", {"name": "built", "dockerfile": "FLY"}, 400)
    w.ask("POST", "/v1/builds", {"name": "built", "from": {"template": "none"}}, 404)
    at = "/v1/operations/" + w.ask("POST", "/v1/builds?wait=false", {"name": "built", "dockerfile": "FROM cove://host\nRUN sleep 60"}, 202).json["id"]
    w.ask("GET", at)
    w.ask("DELETE", at)
    w.ask("GET", "/v1/templates/built")
    w.ask("DELETE", "/v1/templates/built", want=204)
    images(w)


def images(w):
    from_here = registry.StandIn()
    from_here.add(registry.Image([registry.tar([("etc", None)])]))
    body = {"image": from_here.host + "/app", "name": "pulled"}
    w.ask("POST", "/v1/templates", dict(body, platform="linux/" + registry.ARCH, auth={"username": "a", "password": "b"}), want=201)
    w.ask("POST", "/v1/templates", body)
    w.ask("POST", "/v1/templates", {"image": "UPPER"}, want=400)
    w.ask("POST", "/v1/templates", {"image": from_here.host + "/none"}, want=404)
    at = "/v1/operations/" + w.ask("POST", "/v1/templates?wait=false", dict(body, cache=True), want=202).json["id"]
    w.ask("GET", at + "/events")
    w.ask("GET", at)
    w.ask("DELETE", at)
    w.ask("GET", "/v1/operations")
    w.ask("GET", "/v1/operations/op-0", want=404)
    w.ask("GET", "/v1/templates/pulled")
    w.ask("GET", "/v1/templates")
    w.ask("POST", "/v1/templates/prune", {"unusedFor": 1})
    w.ask("POST", "/v1/templates/prune", {"cache": "x"}, want=400)
    from_here.stop()


def commands(w, box):
    w.ask("POST", box + "/api/execute", {"command": "echo hi; echo no >&2", "sessionId": "s"})
    w.ask("POST", box + "/api/execute", {"argv": ["sh", "-c", "kill -9 $$"], "timeoutMs": 5000, "encoding": "base64"})
    w.ask("POST", box + "/api/execute", {"command": "sleep 5", "timeoutMs": 50, "sessionId": "s"}, 500)
    w.ask("POST", box + "/api/execute", {"command": "exit 3", "sessionId": "s"}, 410)
    w.ask("POST", box + "/api/execute", {"argv": ["no-such-command"]}, 404)
    w.ask("POST", box + "/api/execute", {"argv": ["/etc/passwd"]}, 403)
    w.ask("POST", box + "/api/execute", {"command": "x", "timeoutMs": "soon"}, 400)
    w.ask("POST", box + "/api/execute", {"command": "  ", "encoding": "auto"}, 400)
    w.ask("POST", box + "/api/execute", {"command": "true", "background": True, "processId": "b"})
    w.ask("POST", box + "/api/execute/stream", {"command": "echo a; printf '\\377' >&2; exit 2", "encoding": "auto"})
    w.ask("POST", box + "/api/execute/stream", {"command": "sleep 9", "timeoutMs": 50, "sessionId": "__DISABLE_SESSION__"})
    w.ask("POST", box + "/api/execute/stream", {"argv": []}, 400)
    w.ask("POST", "/v1/sandboxes/none/api/execute", {"command": "x"}, 404)
    w.ask("POST", box + "/api/session/create", {"id": "w", "cwd": "/tmp", "env": {"A": "1"}, "commandTimeoutMs": 60000})
    w.ask("POST", box + "/api/session/create", {"id": "w"}, 409)
    w.ask("GET", box + "/api/session/list")
    w.ask("GET", box + "/api/session/w")
    w.ask("GET", box + "/api/session/none", want=500)
    w.ask("POST", box + "/api/execute", {"command": "(until [ -e /tmp/on ]; do sleep 0.1; done; echo later) & true", "sessionId": "w"})
    w.ask("POST", box + "/api/execute", {"command": "touch /tmp/on", "sessionId": "__DISABLE_SESSION__"})
    w.glance("GET", box + "/api/session/w/output?follow=true", None, 1)
    w.ask("GET", box + "/api/session/w/output?offset=1")
    w.ask("GET", box + "/api/session/w/output?offset=999", want=400)
    w.ask("POST", box + "/api/session/delete", {"sessionId": "w", "force": True})
    w.ask("POST", box + "/api/session/delete", {}, 400)
    w.ask("POST", box + "/api/env", {"envVars": {"X": "1", "Y": None}})
    w.ask("POST", box + "/api/env", {}, 400)


def processes(w, box):
    at = box + "/api/process"
    w.ask("POST", at + "/start", {"command": "echo up; read line; echo got $line; sleep 60", "processId": "p", "openStdin": True})
    w.ask("POST", at + "/start", {"command": "x", "processId": "p"}, 409)
    w.ask("POST", at + "/p/wait-log", {"pattern": "up", "timeoutMs": 5000})
    w.ask("POST", at + "/p/stdin", {"data": "one\n", "close": True})
    w.ask("POST", at + "/p/stdin", want=409, raw=b"two")
    w.ask("POST", at + "/p/wait-log", {"regex": "got (one|two)", "stream": "stdout", "timeoutMs": 5000})
    w.ask("POST", at + "/p/wait-log", {"regex": "("}, 400)
    w.ask("POST", at + "/p/wait-log", {"pattern": "never", "timeoutMs": 50}, 408)
    w.ask("GET", at + "/p/wait?timeoutMs=50", want=408)
    w.glance("GET", at + "/p/stream", None, 2)
    w.ask("POST", at + "/p/signal", {"signal": "SIGKILL"})
    w.ask("GET", at + "/p/wait")
    w.ask("GET", at + "/p/cast")
    w.ask("GET", at + "/none/cast", want=404)
    w.ask("GET", at + "/p/stream?offset=3")
    w.ask("GET", at + "/p/stream?offset=9999", want=400)
    w.ask("GET", at + "/p/tape?stream=stdout")
    w.ask("GET", at + "/p/logs?encoding=base64")
    w.ask("GET", at + "/p")
    w.ask("GET", at + "/none", want=404)
    w.ask("POST", at + "/p/signal", {"signal": 15}, 404)
    w.ask("POST", at + "/start", {"argv": ["sleep", "60"], "processId": "q"})
    w.ask("DELETE", at + "/q")
    w.ask("POST", at + "/start", {"argv": ["no-such-command"], "processId": "n"}, 404)
    w.ask("POST", at + "/n/wait-log", {"pattern": "x"}, 500)
    w.ask("GET", at + "/list")
    w.ask("GET", at + "/list?status=killed")
    w.ask("GET", at + "/list?status=odd", want=400)
    w.ask("DELETE", at + "/kill-all")
    w.ask("DELETE", at + "/completed")


def files(w, box):
    at = box + "/api"
    w.ask("POST", at + "/write", {"path": "d/a.txt", "content": "hello\nworld\n"})
    w.ask("POST", at + "/write", {"path": "blob", "content": "gAEC", "encoding": "base64"})
    w.ask("POST", at + "/write", {"path": "x", "content": "!", "encoding": "base64"}, 400)
    w.ask("POST", at + "/write", {"path": "/workspace/d", "content": ""}, 500)
    w.ask("POST", at + "/read", {"path": "d/a.txt"})
    w.ask("POST", at + "/read", {"path": "none"}, 404)
    w.ask("POST", at + "/read", {"path": "/dev/null"}, 400)
    w.ask("POST", at + "/read/stream", {"path": "blob"})
    w.ask("POST", at + "/read/stream", {"path": "none"})
    w.ask("POST", box + "/api/execute", {"command": "ln -s a.txt d/link; touch \"$(printf 'd/\\351')\"", "sessionId": "__DISABLE_SESSION__"})
    w.ask("POST", at + "/list-files", {"path": ".", "options": {"recursive": True, "includeHidden": True}})
    w.ask("POST", at + "/list-files", {"path": "blob"}, 400)
    w.ask("POST", at + "/stat", {"path": "d/link", "followSymlinks": False})
    w.ask("POST", at + "/stat", {"pathBase64": "ZC/p"})
    w.ask("POST", at + "/exists", {"path": "d"})
    w.ask("POST", at + "/exists", {}, 400)
    w.ask("POST", at + "/chmod", {"path": "d", "mode": "0700", "recursive": True})
    w.ask("POST", at + "/chmod", {"path": "d", "mode": 493})
    w.ask("POST", at + "/chmod", {"path": "d", "mode": "odd"}, 400)
    w.ask("POST", at + "/find", {"path": ".", "include": ["*.txt"], "type": "file", "maxSize": 100, "limit": 1})
    w.ask("POST", at + "/grep", {"path": ".", "pattern": "HEL+O", "ignoreCase": True})
    w.ask("POST", at + "/grep", {"path": ".", "pattern": "("}, 400)
    w.ask("POST", at + "/mkdir", {"path": "m/n", "recursive": True})
    w.ask("POST", at + "/mkdir", {"path": "m"}, 500)
    w.ask("POST", at + "/rename", {"oldPath": "blob", "newPath": "blob2"})
    w.ask("POST", at + "/move", {"sourcePath": "blob2", "destinationPath": "m"})
    w.ask("POST", at + "/delete", {"path": "m", "recursive": True})
    w.ask("POST", at + "/delete", {"path": "d", "user": "65534"}, 403)
    w.ask("PUT", at + "/files/workspace/raw?mode=0640", raw=b"0123456789")
    w.ask("PUT", at + "/files/workspace/raw", want=409, raw=b"x", headers={"If-None-Match": "*"})
    w.ask("PUT", at + "/files/workspace/part", want=202, raw=b"01", headers={"Content-Range": "bytes 0-1/4"})
    w.ask("PUT", at + "/files/workspace/part", want=202, raw=b"", headers={"Content-Range": "bytes */4"})
    w.ask("GET", at + "/files/workspace/raw")
    w.ask("GET", at + "/files/workspace/raw", want=206, headers={"Range": "bytes=2-4"})
    w.ask("GET", at + "/files/workspace/raw", want=416, headers={"Range": "bytes=99-"})
    etag = w.cove.get(at + "/files/workspace/raw").headers["ETag"]
    w.ask("GET", at + "/files/workspace/raw", want=304, headers={"If-None-Match": etag})
    w.ask("DELETE", at + "/files/workspace/raw", want=204)
    w.ask("DELETE", at + "/files/workspace/raw", want=404)
    w.ask("GET", at + "/tar?path=/workspace/d&exclude=*.log")
    w.ask("GET", at + "/tar?path=/workspace/d&gitignore=true")
    w.ask("PUT", at + "/tar?path=/workspace/t", raw=small_tar())
    w.ask("POST", at + "/tar?path=/workspace/t", raw=small_tar())
    w.ask("PUT", at + "/tar?path=/workspace/t", want=400, raw=b"no archive at all" * 100)
    w.glance("POST", at + "/watch", {"path": "/workspace"}, 1)
    w.ask("POST", at + "/watch", {"path": "/etc"}, 403)
    version = w.ask("POST", at + "/watch/check", {"path": "/workspace"}).json["version"]
    w.ask("POST", at + "/watch/check", {"path": "/workspace", "since": version})
    w.ask("POST", at + "/watch/check", {"path": "/workspace", "since": "watch-old-1:0"})
    w.ask("POST", at + "/watch/check", {"path": "/workspace", "since": "odd"}, 400)


def rest(w, box):
    at = box + "/api"
    w.ask("GET", at + "/ping")
    w.ask("GET", at + "/version?client=0.12.0")
    w.ask("GET", at + "/commands")
    w.ask("POST", at + "/backup/create", {"dir": "/workspace/d", "archivePath": "/var/backups/a.tar.zst", "excludes": ["*.log"]})
    w.ask("POST", at + "/backup/create", {"dir": "/etc", "archivePath": "/var/backups/a"}, 400)
    w.ask("POST", at + "/backup/restore", {"dir": "/workspace/d", "archivePath": "/var/backups/a.tar.zst"})
    w.ask("POST", at + "/backup/restore", {"dir": "/workspace/d", "archivePath": "/var/backups/none"}, 500)
    w.ask("POST", at + "/backup/upload-parts", {"archivePath": "/var/backups/a.tar.zst", "parts": []}, 400)
    w.ask("POST", at + "/backup/upload-parts", {"archivePath": "/var/backups/a.tar.zst", "parts": [
        {"partNumber": 1, "url": "https://127.0.0.1:9/x", "offset": 0, "size": 1}]}, 403)
    w.ask("POST", at + "/git/checkout", {"repoUrl": "ext::sh -c id"}, 400)
    w.ask("POST", at + "/process/start", {"command": "exec python3 -m http.server 8000", "processId": "site"})
    w.ask("POST", at + "/port-watch", {"port": 8000, "mode": "http", "processId": "site", "interval": 100})
    w.ask("POST", at + "/port-watch", {"port": 8001, "processId": "none"})
    w.ask("POST", at + "/port-watch", {"port": 0}, 400)
    w.ask("GET", at + "/ports")
    w.ask("GET", box + "/proxy/8000")
    w.ask("HEAD", box + "/proxy/8000/d/")
    w.ask("GET", box + "/proxy/8001/x", want=404)
    w.ask("POST", box + "/ports", {"port": 8001, "name": "site", "expiresIn": "1h"}, 201)
    w.ask("POST", box + "/ports", {"port": 8001, "token": "mine"})
    w.ask("POST", box + "/ports", {"port": 8002, "token": "mine"}, 409)
    w.ask("POST", box + "/ports", {"port": 0}, 400)
    w.ask("GET", box + "/ports")
    one = w.ask("GET", box + "/ps").json["items"][-1]
    w.ask("POST", box + "/ps/%d/signal" % one["pid"], {"startedAt": "2020-01-01T00:00:00Z"}, 409)
    w.ask("POST", box + "/ps/%d/signal" % one["pid"], {"startedAt": one["startedAt"], "signal": "CONT"})
    w.ask("POST", box + "/ps/x/signal", {"startedAt": one["startedAt"]}, 400)
    w.ask("POST", box + "/ports/8001/links", {"expiresIn": 60}, 201)
    w.ask("POST", box + "/ports/8002/links", {"expiresIn": 60}, 404)
    w.ask("GET", box + "/ports/8001/tcp", want=404)
    w.ask("DELETE", box + "/ports/8001", want=204)
    w.ask("DELETE", box + "/ports/8001", want=204)
    w.ask("POST", at + "/expose-port", {"port": 8001, "name": "site"})
    w.ask("POST", at + "/expose-port", {"port": 8001}, 409)
    w.ask("POST", at + "/expose-port", {"port": 3000}, 400)
    w.ask("GET", box + "/proxy/8001/x", want=502)
    w.ask("GET", at + "/exposed-ports")
    w.ask("DELETE", at + "/exposed-ports/8001")
    w.ask("DELETE", at + "/exposed-ports/8001", want=404)
    w.ask("GET", at + "/terminals")
    w.ask("GET", at + "/terminals/none/log", want=404)
    w.ask("GET", at + "/terminals/none/cast", want=404)
    w.ask("DELETE", at + "/terminals/none", want=404)
    for path in ("/ws", "/api/ws", "/ws/pty", "/rpc"):
        w.ask("GET", box + path, want=404)
    for method, path in (("GET", "/desktop/x"), ("POST", "/desktop/x"), ("POST", "/tunnels/x"), ("POST", "/mount"), ("POST", "/unmount")):
        w.ask(method, at + path, want=501)


def interpreter(w, box):
    at = box + "/api"
    w.ask("GET", at + "/interpreter/health")
    made = w.ask("POST", at + "/contexts", {"language": "python", "cwd": "/tmp", "env_vars": {"A": "b"}, "timeout_ms": 60000}).json
    w.ask("POST", at + "/contexts", {"language": "cobol"}, 400)
    w.ask("GET", at + "/contexts")
    w.ask("POST", at + "/execute/code", {"context_id": made["contextId"], "code": "import sys\nprint(1)\nprint(2, file=sys.stderr)\n[3]"})
    w.ask("POST", at + "/execute/code", {"context_id": made["contextId"], "code": "1/0"})
    w.ask("POST", at + "/execute/code", {"context_id": made["contextId"], "code": "1", "language": "js"}, 500)
    w.ask("POST", at + "/execute/code", {"context_id": "none", "code": "1"}, 404)
    w.ask("POST", at + "/execute/code", {}, 400)
    one = at + "/contexts/" + made["contextId"]
    w.ask("GET", one + "/cells")
    w.ask("GET", one + "/cells/1")
    w.ask("GET", one + "/cells/1?offset=x", want=400)
    w.ask("GET", one + "/cells/9", want=404)
    w.ask("POST", one + "/interrupt")
    w.ask("POST", one + "/restart")
    w.ask("DELETE", one)
    for method, path in (("DELETE", ""), ("POST", "/interrupt"), ("POST", "/restart"), ("GET", "/cells")):
        w.ask(method, one + path, want=404)


def sockets(w, box):
    """The text frames of a terminal and of the transport, as described."""
    def faults(path, messages):
        _, _, op = w.description("GET", path)
        w.seen.add(op["operationId"])
        return [fault for one in messages for fault in w.doc.faults(op["responses"]["101"]["x-message"], one, "message")]

    term = wsclient.Terminal(w.cove, {"id": box.rsplit("/", 1)[1]}, "command=true")
    term.until(event="exit")
    wrong = faults(box + "/ws/pty", term.events + [{"type": "resize", "cols": 80, "rows": 24}])
    c.ok(not wrong and len(term.events) == 2, "a terminal's messages are as described", term.events, *wrong)
    term.close()
    asked = [{"type": "request", "id": "1", "method": "GET", "path": "/api/ping"}, {"type": "request", "id": "1"},
             {"type": "request", "id": "2", "method": "POST", "path": "/api/execute/stream", "body": {"command": "echo hi"}},
             {"type": "cancel", "id": "2"}]
    socket = wsclient.WebSocket(w.cove, box + "/ws")
    told = []
    for one in asked[:3]:
        socket.send(one)
        told.append(socket.json())
    while told[-1]["type"] == "stream":
        told.append(socket.json())
    socket.close()
    wrong = faults(box + "/ws", told + asked[:1] + asked[2:])
    c.ok(not wrong and {one["type"] for one in told} == {"response", "error", "stream"}, "and so are those of the transport", told, *wrong)
    feed = wsclient.WebSocket(w.cove, "/v1/live")
    asked = [{"op": "sub", "id": topic, "topic": topic} for topic in ("events", "sandboxes", "stats", "host", "operations", "none")]
    told = [feed.json()]
    for one in asked:
        feed.send(one)
        told.append(feed.json())
    feed.close()
    wrong = faults("/v1/live", told + asked[:-1])
    c.ok(not wrong and len({one.get("id") for one in told}) == len(told), "and those of a feed", told, *wrong)
    for path in ("/api/ws", "/rpc"):
        wsclient.WebSocket(w.cove, box + path).close()
    c.ok(True, "the other sockets open")


def bridge(w):
    room = w.ask("POST", "/v1/sandbox").json["id"]
    at = "/v1/sandbox/" + room
    w.ask("GET", at + "/running")
    w.ask("POST", at + "/exec", {"argv": ["echo", "hi"], "cwd": "/workspace", "timeout_ms": 5000})
    w.ask("POST", at + "/exec", {"argv": []}, 400)
    w.ask("POST", at + "/exec", {"argv": ["id"], "cwd": "/etc"}, 403)
    w.ask("PUT", at + "/file/workspace/a.txt", raw=b"hello")
    w.ask("GET", at + "/file/workspace/a.txt")
    w.ask("GET", at + "/file/workspace/none", want=404)
    w.ask("POST", at + "/session", {"id": "s1"})
    w.ask("DELETE", at + "/session/s1")
    tar = w.ask("POST", at + "/persist?excludes=node_modules").body
    w.ask("POST", at + "/hydrate", raw=tar)
    w.ask("POST", at + "/mount", {"mountPath": "/m"}, 501)
    w.ask("POST", at + "/unmount", {}, 400)
    w.ask("POST", at + "/tunnel/80", want=501)
    w.ask("DELETE", at + "/tunnel/80", want=501)
    w.ask("GET", at + "/pty", want=400)
    w.ask("DELETE", at, want=204)
    w.ask("GET", "/v1/sandbox/" + "!" * 3 + "/running", want=400)
    w.ask("GET", "/v1/pool/stats")
    w.ask("POST", "/v1/pool/prime")
    w.ask("POST", "/v1/pool/shutdown-prewarmed")
    w.ask("POST", "/v1/pool/prime", want=401, key=False)


def agent_runs(w, box):
    at = "/v1/agent-runs"
    run = w.ask("POST", at, {"sandbox": box.rsplit("/", 1)[1], "argv": ["echo", "{prompt}"], "prompt": "hi", "env": {"A": "b"}, "timeoutMs": 60000}, 202).json["id"]
    w.ask("POST", at, {"argv": ["true"]}, 400)
    w.ask("POST", at, {"sandbox": "none", "argv": ["true"]}, 404)
    w.ask("GET", at + "?state=completed")
    w.ask("GET", "%s/%s/stream?offset=0" % (at, run))
    w.ask("GET", "%s/%s/changes" % (at, run))
    w.ask("POST", "%s/%s/stop" % (at, run))
    w.ask("GET", "%s/%s" % (at, run))
    w.ask("GET", at + "/run-none", want=404)


def conversations(w):
    asked = {"org": "acme", "user": "u", "session": "talk", "aliases": ["a"], "runner": {"argv": ["/bin/false"], "env": {"A": "1"}}}
    w.ask("POST", "/v1/agent-sessions", asked, 201)
    w.ask("POST", "/v1/agent-sessions", dict(asked, session="other"))
    w.ask("POST", "/v1/agent-sessions", dict(asked, aliases=[]), 409)
    w.ask("POST", "/v1/agent-sessions", dict(asked, user="a__b"), 400)
    w.ask("GET", "/v1/agent-sessions?limit=10")
    at = "/v1/agent-sessions/talk"
    w.ask("GET", at)
    w.ask("GET", "/v1/agent-sessions/none", want=404)
    run = w.ask("POST", at + "/runs", {"input": {"a": [1]}, "env": {"B": "2"}, "timeout": 60000}, 202).json["id"]
    w.ask("POST", at + "/runs", {"inputs": 1}, 400)
    w.ask("POST", at + "/answer", {"question": "q", "answer": 1}, 409)
    w.ask("POST", at + "/interrupt", want=202)
    w.ask("POST", at + "/interrupt", want=409)
    w.ask("GET", at + "/runs/" + run)
    w.ask("GET", at + "/runs/none", want=404)
    w.ask("GET", at + "/runs?limit=1")
    w.ask("GET", at + "/runs?limit=0", want=400)
    w.ask("GET", at + "/runs/%s/events?offset=0" % run)
    w.ask("GET", at + "/runs/%s/events?offset=x" % run, want=400)
    w.ask("GET", at + "/logs")
    w.ask("GET", at + "/terminal", want=404)
    w.ask("POST", "/v1/dev/faults", {"point": "stop", "count": 1, "session": "none"})
    w.ask("GET", "/v1/dev/faults")
    w.ask("DELETE", "/v1/dev/faults", want=204)
    w.ask("POST", "/v1/dev/clock", {"stepMs": 0}, want=204)
    w.ask("DELETE", at, want=204)


def executions(w):
    whole = {"taskId": "t", "agentType": "VALIDATION", "command": "echo out; printf '\\377' >&2; mkdir out; echo a > out/a; ln -s a out/b; cat \"$COVE_CONTEXT\"",
             "context": {"n": [1]}, "env": {"A": "1"}, "files": [{"path": "in", "content": "x", "mode": "0600"}], "labels": {"team": "a"},
             "artifacts": {"paths": ["out/**", "none"], "maxMB": 1}, "limits": {"memoryMB": 64, "cpus": 0.5}, "queueTimeoutMs": 60000, "retry": "never"}
    at = "/v1/executions/" + w.ask("POST", "/v1/executions?wait=300", whole, 200, headers={"Idempotency-Key": "execution"}, timeout=310).json["id"]
    w.ask("POST", "/v1/executions", {"agentType": "NOPE"}, 400)
    w.ask("POST", "/v1/executions", {"command": "true", "image": "x y"}, 400)
    w.ask("POST", "/api/agents/execute", {"taskId": "t", "profile": "default", "argv": ["false"]}, 200, timeout=310)
    w.ask("POST", "/api/agents/execute", {"taskId": "t", "agentType": "VALIDATION", "context": {}}, 400)
    w.ask("GET", at)
    w.ask("GET", "/v1/executions/none", want=404)
    w.ask("GET", "/v1/executions?state=completed&agentType=VALIDATION&taskId=t&label=team=a&limit=1")
    w.ask("GET", "/v1/executions?limit=0", want=400)
    w.ask("GET", at + "/wait?for=running&timeoutMs=10")
    w.ask("GET", at + "/wait?for=x", want=400)
    w.ask("GET", at + "/events?after=0")
    w.glance("GET", at + "/events", None, 3)
    w.ask("GET", at + "/events?after=x", want=400)
    w.ask("GET", at + "/logs?stream=stdout&offset=1")
    w.ask("GET", at + "/logs", headers={"Accept": "text/event-stream"})
    w.ask("GET", at + "/logs?stream=x", want=400)
    w.ask("GET", at + "/logs?attempt=9", want=404)
    w.ask("GET", at + "/cast")
    w.ask("GET", at + "/artifacts")
    w.ask("GET", at + "/artifacts.tar")
    w.ask("GET", at + "/artifacts/out/a")
    w.ask("GET", at + "/artifacts/out/a", want=206, headers={"Range": "bytes=0-0"})
    w.ask("GET", at + "/artifacts/out/b", want=409)
    w.ask("GET", at + "/artifacts/none", want=404)
    again = w.ask("POST", at + "/replay?wait=300", want=200, timeout=310).json["id"]
    w.ask("GET", at + "/diff?with=" + again)
    w.ask("GET", at + "/diff", want=400)
    w.ask("GET", at + "/suggestion")
    w.ask("GET", "/v1/executions/exe-none/suggestion", want=404)
    w.ask("DELETE", "/v1/executions/" + again, want=204)
    w.ask("POST", at + "/retry?wait=300", want=200, timeout=310)
    w.ask("POST", at + "/cancel", want=409)
    steps = [w.ask("POST", "/v1/executions", {"agentType": "VALIDATION"}, 202).json["id"] for _ in range(3)]
    for one in steps:
        w.ask("GET", "/v1/executions/%s/wait?for=ready&timeoutMs=60000" % one)
    w.ask("GET", "/v1/executions/%s/wait?timeoutMs=1" % steps[0], want=202)
    w.ask("DELETE", "/v1/executions/" + steps[0], want=409)
    w.ask("POST", "/v1/executions/%s/exec" % steps[0], {"command": "echo in", "sessionId": "__DISABLE_SESSION__"})
    w.ask("POST", "/v1/executions/%s/complete" % steps[0], {"result": {"passed": 1}})
    w.ask("POST", "/v1/executions/%s/fail" % steps[1], {"reason": "no"})
    w.ask("POST", "/v1/executions/%s/cancel" % steps[2])
    for one in steps:
        w.ask("GET", "/v1/executions/%s/wait?timeoutMs=60000" % one)


def live(doc, text):
    cove = c.Cove("--dev", "--session-space=16M")
    w = Witness(doc, cove)
    served = w.ask("GET", "/v1/openapi.json")
    c.ok(served.body == text.encode(), "the server hands out this very file", served.body[:200])
    outside(w)
    box = "/v1/sandboxes/" + cove.create()["id"]
    for part in (commands, processes, files, rest, interpreter, sockets):
        part(w, box)
    agent_runs(w, box)
    bridge(w)
    conversations(w)
    executions(w)
    cove.create(name="path")
    guest = json.loads(cove.get("/v1/sandboxes/path").body)["baseUrl"].split("/v1/", 1)[1]
    c.same(cove.get("/v1/%s/api/ping" % guest, key=False).status, 200, "and a credential in the path opens it")
    unseen = {op["operationId"] for _, _, _, op in operations(doc)} - w.seen
    c.note("%d requests; not asked: %s" % (w.asked, " ".join(sorted(unseen))))
    c.ok(not [one for one in unseen if "Proxy" not in one], "every operation was asked, but for methods of the proxy", unseen)
    cove.close()


def main():
    with open(FILE) as file:
        text = file.read()
    doc = schema.Document(text)
    form(doc)
    operation_forms(doc)
    tables(doc)
    if os.geteuid() == 0:
        live(doc, text)
    else:
        c.skip("answers are as described", "needs root")
    c.done()


main()
