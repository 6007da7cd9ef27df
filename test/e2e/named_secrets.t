#!/usr/bin/env python3
"""Named secrets of a tenant: written, never read; referred to by name from sandboxes; sent in place of a placeholder, as a header or
as a query parameter to the hosts that they are for; rotated for the next request; kept over a kill; named in ledger and audit log."""
import os
import signal
import sqlite3
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
from live import patiently  # noqa: E402
from outside import ledger, Outside  # noqa: E402

c.need_root()
ONE, TWO, THREE = ("tk." + os.urandom(24).hex() for _ in range(3))
ODD = "a+b/c=&d?" + os.urandom(12).hex()  # must be escaped in a query
ALLOW = {"mode": "allow", "allow": ["api.test", "q.test", "see.test"]}


def curl(cove, box, words):
    return cove.run(box, "curl -sS -m 30 " + words)


def fields(cove):
    made = cove.request("PUT", "/v1/secrets/API_TOKEN", {"value": ONE, "hosts": ["api.test"]})
    c.ok(made.status == 201 and ONE.encode() not in made.body, "PUT makes a secret and does not return the value", made)
    c.same(sorted(made.json), ["createdAt", "expiresAt", "hosts", "lastUsedAt", "lastUsedHost", "name", "rotatedAt"], "fields of a secret")
    c.ok(made.json["lastUsedAt"] is None and made.json["hosts"] == ["api.test"], "it was never used", made.json)
    again = cove.request("PUT", "/v1/secrets/API_TOKEN", {"hosts": ["api.test"]})
    c.ok(again.status == 200 and again.json["rotatedAt"] == made.json["rotatedAt"], "PUT without a value keeps the value", again)
    listed = cove.get("/v1/secrets")
    c.ok([s["name"] for s in listed.json["items"]] == ["API_TOKEN"] and ONE.encode() not in listed.body, "the list has it, without the value", listed)
    for name, body, reason in (
            ("API_TOKEN", {"hosts": ["api.test", "see.test"]}, "secret_without_value"), ("NEW", {"hosts": ["a.test"]}, "secret_without_value"),
            ("NEW", {"value": "x" * 8, "hosts": []}, "bad_field"), ("NEW", {"value": "x\ny", "hosts": ["a.test"]}, "bad_field"),
            ("1BAD", {"value": "x", "hosts": ["a.test"]}, "bad_field"), ("a-b", {"value": "x", "hosts": ["a.test"]}, "bad_field"),
            ("NEW", {"value": "x", "hosts": ["a.test"], "header": {"name": "Host"}}, "bad_field"),
            ("NEW", {"value": "x", "hosts": ["a.test"], "header": {"name": "A", "format": "Bearer"}}, "bad_field"),
            ("NEW", {"value": "x", "hosts": ["a.test"], "header": {"name": "A"}, "query": "k"}, "bad_field"),
            ("NEW", {"value": "x", "hosts": ["a.test"], "expiresAt": "tomorrow"}, "bad_field"),
            ("NEW", {"value": "x", "hosts": ["a.test"], "more": 1}, "unknown_field")):
        reply = cove.request("PUT", "/v1/secrets/" + name, body)
        c.ok(reply.status == 400 and reply.json["reason"] == reason, "refused: %s %s" % (name, sorted(body)), reply)
    c.same(cove.get("/v1/secrets/NEW").status, 404, "nothing of those was kept")
    reply = cove.post("/v1/sandboxes", {"secrets": ["NO_SUCH"]})
    c.ok(reply.status == 400 and reply.json["reason"] == "no_secret", "a sandbox cannot refer to what does not exist", reply)


def forms(cove, outside, box):
    c.same(cove.get("/v1/sandboxes/" + box["id"]).json["network"]["secrets"], ["API_TOKEN", "HEAD_KEY", "QUERY_KEY"], "the policy shows names")
    holder = cove.out(box, "printf %s \"$API_TOKEN\"")
    c.ok(holder.startswith("cove-secret-") and len(holder) == 44, "the variable has a placeholder", holder)
    got = curl(cove, box, "-H \"Authorization: Bearer $API_TOKEN\" https://api.test/a")
    last = outside.seen[-1]
    c.ok(got["stdout"] == "hello from api.test /a\n" and last.headers["Authorization"] == "Bearer " + ONE, "a placeholder is replaced", got, last.headers)
    c.ok(last.headers.get("X-Api-Key") == "key " + TWO, "a header is added", last.headers)
    curl(cove, box, "-H 'x-api-key: mine' https://api.test/b")
    last = outside.seen[-1]
    c.ok([v for k, v in last.headers.items() if k.lower() == "x-api-key"] == ["key " + TWO], "in place of the client's own", last.headers)
    curl(cove, box, "'https://q.test/c?a=1&token=mine&b=2'")
    last = outside.seen[-1]
    c.same(urllib.parse.parse_qsl(last.path.partition("?")[2]), [("a", "1"), ("b", "2"), ("token", ODD)], "a query parameter is set, escaped")
    curl(cove, box, "https://q.test/d")
    c.same(outside.seen[-1].path.partition("?")[2], "token=" + urllib.parse.quote(ODD, safe=""), "also where there was none")
    got = curl(cove, box, "-H \"X-Key: $API_TOKEN\" http://see.test/e")
    last = outside.seen[-1]
    c.ok(got["stdout"] == "hello from see.test /e\n" and last.headers["X-Key"] == holder and "X-Api-Key" not in last.headers,
         "another host gets none of them", last.headers)
    rows, _ = ledger(cove, box, name="api.test")
    c.same(sorted(set(sum((row.get("secrets", []) for row in rows), []))), ["API_TOKEN", "HEAD_KEY"], "the ledger names those that were sent")
    rows, _ = ledger(cove, box, name="see.test")
    c.ok(rows and not any("secrets" in row for row in rows), "and only where they were sent", rows)
    used = cove.get("/v1/secrets/HEAD_KEY").json
    c.ok(used["lastUsedAt"] and used["lastUsedHost"] == "api.test", "its last use is known", used)
    audit = [row for row in cove.get("/v1/audit?limit=1000").json["items"] if row["action"] == "secret.use"]
    c.same(sorted((row["target"] == box["id"], row["fields"]["secret"], row["fields"]["host"]) for row in audit),
           [(True, "API_TOKEN", "api.test"), (True, "HEAD_KEY", "api.test"), (True, "QUERY_KEY", "q.test")], "the audit log has each use once")
    return holder


def rotation(cove, outside, box, holder):
    before = cove.get("/v1/secrets/API_TOKEN").json["rotatedAt"]
    got = cove.request("PUT", "/v1/secrets/API_TOKEN", {"value": THREE, "hosts": ["api.test"]})
    c.ok(got.status == 200 and got.json["rotatedAt"] > before, "PUT of another value rotates it", got)
    curl(cove, box, "-H \"Authorization: Bearer $API_TOKEN\" https://api.test/r")
    c.same(outside.seen[-1].headers["Authorization"], "Bearer " + THREE, "the next connection has the new value")
    for pid in cove.children().values():
        os.kill(pid, signal.SIGKILL)
    c.until(lambda: patiently(lambda: cove.get("/v1/sandboxes/" + box["id"])).json["state"] == "running", 30)
    c.until(lambda: patiently(lambda: cove.execute(box, "getent ahosts api.test")).json["stdout"], 30)
    curl(cove, box, "-H \"Authorization: Bearer $API_TOKEN\" https://api.test/k")
    c.same(outside.seen[-1].headers["Authorization"], "Bearer " + THREE, "as does the next daemon")
    c.same(cove.out(box, "printf %s \"$API_TOKEN\""), holder, "with the same placeholder")
    cove.request("PUT", "/v1/secrets/HEAD_KEY", {"hosts": ["api.test"], "header": {"name": "X-Api-Key", "format": "key {}"},
                                                 "expiresAt": "2020-01-01T00:00:00Z"})
    curl(cove, box, "https://api.test/x")
    c.ok("X-Api-Key" not in outside.seen[-1].headers, "an expired secret is not sent", outside.seen[-1].headers)
    c.same(cove.request("DELETE", "/v1/secrets/API_TOKEN").status, 204, "DELETE")
    c.same(cove.request("DELETE", "/v1/secrets/API_TOKEN").status, 404, "it is gone")
    curl(cove, box, "-H \"X-Key: $API_TOKEN\" https://api.test/d")
    c.same(outside.seen[-1].headers["X-Key"], holder, "a removed secret is not sent any more")
    reply = cove.request("PATCH", "/v1/sandboxes/" + box["id"], {"network": dict(ALLOW, secrets=["QUERY_KEY"])})
    c.ok(reply.status == 200 and reply.json["network"]["secrets"] == ["QUERY_KEY"], "a PATCH replaces the references", reply)


def tenants(cove):
    cove.request("PUT", "/v1/tenants/acme", {"network": "all"})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read", "make", "use", "admin"], "host": True}).json["key"]
    makes = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["make", "use"], "host": True}).json["key"]
    reads = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read"]}).json["key"]
    c.same(cove.request("GET", "/v1/secrets", key=key).json["items"], [], "a tenant sees none of the operator's")
    c.same(cove.request("GET", "/v1/secrets/QUERY_KEY", key=key).status, 404, "nor by name")
    c.same(cove.request("POST", "/v1/sandboxes", {"secrets": ["QUERY_KEY"]}, key=key).status, 400, "nor can its sandboxes refer to them")
    c.same(cove.request("PUT", "/v1/secrets/OWN", {"value": "own-value", "hosts": ["api.test"]}, key=key).status, 201, "it has its own")
    c.same(cove.get("/v1/secrets/OWN").status, 404, "which are not among the operator's")
    c.same(cove.request("GET", "/v1/secrets/OWN", key=reads).status, 200, "a key that reads sees it")
    c.same(cove.request("PUT", "/v1/secrets/OWN", {"value": "x" * 9, "hosts": ["api.test"]}, key=reads).status, 403, "and may not set it")
    c.same(cove.request("PUT", "/v1/secrets/OWN", {"value": "x" * 9, "hosts": ["api.test"]}, key=makes).status, 403, "nor may one that makes")
    made = cove.request("POST", "/v1/sandboxes", {"secrets": ["OWN"]}, key=makes)
    c.same(made.status, 201, "which may refer to it")
    cove.delete(made.json)
    c.same(cove.request("DELETE", "/v1/tenants/acme").status, 204, "the tenant goes")
    cove.request("PUT", "/v1/tenants/acme", {"network": "all"})
    key = cove.post("/v1/keys", {"tenant": "acme", "scopes": ["read"]}).json["key"]
    c.same(cove.request("GET", "/v1/secrets", key=key).json["items"], [], "a later tenant of that name has no secret of it")


def command_line(cove, outside):
    """The verbs, and --secret of create and policy."""
    run = c.Cli(cove.data)

    def cli(*words, value="", want=0):
        got = run(*words, stdin=value.encode())
        c.same(got.returncode, want, "cove " + " ".join(words[:3]))
        return got

    cli("secret", "set", "CLI_KEY", "--for", "api.test,*.deep.test", "--header", "Authorization: Token {}", value=TWO + "\n")
    c.same(cove.get("/v1/secrets/CLI_KEY").json["header"], {"name": "Authorization", "format": "Token {}"}, "the header was set")
    c.same(cove.get("/v1/secrets/CLI_KEY").json["hosts"], ["api.test", "*.deep.test"], "and the hosts")
    got = cli("secret", "ls")
    c.ok("CLI_KEY" in got.text and "Authorization: Token {}" in got.text and TWO not in got.text, "ls shows it", got.text)
    c.same(cli("secret", "ls", "-q").text.split(), ["CLI_KEY", "HEAD_KEY", "QUERY_KEY"], "names alone")
    cli("secret", "set", "SAME_HEADER", "--for", "api.test", "--header", "authorization: Other {}", value=THREE)
    cli("create", "--name", "by-cli", "--network", "allow", "--allow", "api.test", "--secret", "CLI_KEY", "--secret", "SAME_HEADER")
    box = cove.get("/v1/sandboxes/by-cli").json
    c.same(box["network"]["secrets"], ["CLI_KEY", "SAME_HEADER"], "create --secret refers to them")
    outside.trusted(cove, box)
    curl(cove, box, "https://api.test/cli")
    c.same([v for k, v in outside.seen[-1].headers.items() if k.lower() == "authorization"], ["Token " + TWO],
           "its header is sent, and not that of the second")
    cli("policy", "by-cli", "--secret", "SAME_HEADER@")
    cli("secret", "rm", "SAME_HEADER")
    cli("secret", "set", "CLI_KEY", "--for", "api.test", "--keep")
    c.ok("header" not in cove.get("/v1/secrets/CLI_KEY").json, "--keep sets the rest", cove.get("/v1/secrets/CLI_KEY").json)
    cli("policy", "by-cli", "--secret", "QUERY_KEY")
    c.same(cove.get("/v1/sandboxes/by-cli").json["network"]["secrets"], ["CLI_KEY", "QUERY_KEY"], "policy --secret NAME adds one")
    cli("policy", "by-cli", "--secret", "CLI_KEY@")
    c.same(cove.get("/v1/sandboxes/by-cli").json["network"]["secrets"], ["QUERY_KEY"], "NAME@ takes it out")
    c.ok("QUERY_KEY" in cli("policy", "by-cli").text, "policy shows it")
    cli("secret", "set", "NO_HOST", want=2, value="x")
    for verb, rest, want in ((("create",), (), 2), (("run",), ("--", "true"), 125), (("agent-session", "create"), ("--user", "me", "--", "true"), 2)):
        got = cli(*verb, "--secret", "A:b", *rest, want=want)
        c.ok("no name of a secret" in got.err, "%s --secret NAME:… is another thing" % verb[0], got.err)
    cli("secret", "rm", "CLI_KEY")
    cli("secret", "rm", "CLI_KEY", want=3)
    cli("secret", "rm", "-f", "CLI_KEY")
    cli("rm", "-y", "by-cli")


def lost_key(cove):
    """The file that values are sealed with is gone, as after a restore of the database alone."""
    c.kill_all(cove)
    os.unlink(os.path.join(cove.data, "daemon", "egress.key"))
    cove.start()
    c.ok("egress.secret_lost" in cove.log_text(), "without its key a value is lost, and the log says so")
    c.ok("QUERY_KEY" in [s["name"] for s in cove.get("/v1/secrets").json["items"]], "the secret is still listed")
    reply = cove.request("PUT", "/v1/secrets/QUERY_KEY", {"hosts": ["q.test"], "query": "token"})
    c.ok(reply.status == 400 and reply.json["reason"] == "secret_without_value", "its value must be sent again", reply)
    c.same(cove.request("PUT", "/v1/secrets/QUERY_KEY", {"value": ODD, "hosts": ["q.test"], "query": "token"}).status, 200, "and is taken")


def unread(cove):
    """The table of secrets cannot be read: what is not known is not absent."""
    c.kill_all(cove)
    path = os.path.join(cove.data, "daemon", "cove.db")
    db = sqlite3.connect(path)
    db.execute("ALTER TABLE secrets RENAME COLUMN body TO lost")
    db.commit()
    db.close()
    cove.start()
    replies = [cove.get("/v1/secrets"), cove.get("/v1/secrets/QUERY_KEY"), cove.request("PUT", "/v1/secrets/QUERY_KEY", {"value": ODD, "hosts": ["q.test"]}),
               cove.request("DELETE", "/v1/secrets/QUERY_KEY"), cove.post("/v1/sandboxes", {"secrets": ["QUERY_KEY"]})]
    c.same([(reply.status, reply.json["reason"]) for reply in replies], [(503, "state_corrupt")] * 5, "secrets that could not be read answer 503, not 404")
    c.kill_all(cove)
    db = sqlite3.connect(path)
    db.execute("ALTER TABLE secrets RENAME COLUMN lost TO body")
    db.commit()
    db.close()
    cove.start()
    c.same(cove.get("/v1/secrets/QUERY_KEY").status, 200, "and are there again when they can")


def many(cove, outside):
    """More sandboxes refer to a secret than get a new value in one turn of the loop."""
    cove.request("PUT", "/v1/secrets/MANY", {"value": "first-value", "hosts": ["api.test"], "header": {"name": "X-Many"}})
    boxes = [cove.create(network=ALLOW, secrets=["MANY"]) for _ in range(40)]
    cove.request("PUT", "/v1/secrets/MANY", {"value": "second-value", "hosts": ["api.test"], "header": {"name": "X-Many"}})
    sent = []
    for box in (boxes[0], boxes[31], boxes[32], boxes[39]):
        outside.trusted(cove, box)
        curl(cove, box, "https://api.test/many")
        sent.append(outside.seen[-1].headers.get("X-Many"))
    c.same(sent, ["second-value"] * 4, "every sandbox sends the value of the PUT that was answered")
    c.same(cove.request("DELETE", "/v1/secrets/MANY").status, 204, "it is removed")
    curl(cove, boxes[39], "-k https://api.test/none")
    c.ok("X-Many" not in outside.seen[-1].headers, "and the last of them sends it no more", outside.seen[-1].headers)
    for box in boxes:
        cove.delete(box)


def nowhere(cove):
    os.sync()
    for value in (ONE, TWO, THREE):
        found = []
        for top, _, names in os.walk(os.path.join(cove.data, "daemon")):
            for name in names:
                with open(os.path.join(top, name), "rb") as file:
                    if value.encode() in file.read():
                        found.append(name)
        c.same(found, [], "no file of the daemon has a value")
        c.ok(value not in cove.log_text(), "nor the log")


def main():
    outside = Outside("api.test", "q.test", "see.test", "a.deep.test")
    cove = c.Cove(*outside.options(), env={"COVE_LOG_LEVEL": "debug"})
    try:
        fields(cove)
        cove.request("PUT", "/v1/secrets/HEAD_KEY", {"value": TWO, "hosts": ["api.test"], "header": {"name": "X-Api-Key", "format": "key {}"}})
        cove.request("PUT", "/v1/secrets/QUERY_KEY", {"value": ODD, "hosts": ["q.test"], "query": "token"})
        box = cove.create(network=ALLOW, secrets=["API_TOKEN", "HEAD_KEY", "QUERY_KEY"])
        outside.trusted(cove, box)
        holder = forms(cove, outside, box)
        nowhere(cove)
        rotation(cove, outside, box, holder)
        tenants(cove)
        command_line(cove, outside)
        nowhere(cove)
        many(cove, outside)
        unread(cove)
        lost_key(cove)
        cove.delete(box)
        c.same(cove.stop(), 0, "cove stops cleanly")
    finally:
        cove.close()
        outside.close()
    c.done()


main()
