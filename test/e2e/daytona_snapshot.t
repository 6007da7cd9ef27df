#!/usr/bin/env python3
"""daytona 5, 12: snapshots, builds, forks and pauses, by the official clients and on the wire."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import daytona_sdk as sdk  # noqa: E402

sdk.install()
cove = c.Cove()
sdk.drive(cove, "snapshot.mjs")


def ask(method, path, body=None, key=None):
    return sdk.ask(cove, method, path, body, key)


for body, status in (({}, 400), ({"name": "a"}, 400), ({"name": "a", "imageName": "x", "buildInfo": {"dockerfileContent": "FROM x"}}, 400),
                     ({"name": "a", "buildInfo": {"dockerfileContent": "FROM cove://host\nFLY\n"}}, 400), ({"name": "a", "buildInfo": {"dockerfileContent": "FROM x", "contextHashes": ["h"]}}, 400),
                     ({"name": "a", "imageName": "x", "entrypoint": ["sh"]}, 501)):
    c.same(ask("POST", "/snapshots", body).status, status, "daytona 12: create with %s" % body)
for query, status in (("limit=0", 400), ("limit=201", 400), ("page=x", 400), ("limit=1&page=2", 200)):
    c.same(ask("GET", "/snapshots?" + query).status, status, "daytona 12: list with %s" % query)
box = ask("POST", "/sandbox", {}).json["id"]
c.same(ask("POST", "/sandbox/%s/snapshot" % box, {"name": "w1"}).json["id"], box, "daytona 12: the answer is the sandbox")
c.same(ask("POST", "/sandbox/%s/snapshot" % box, {"name": "w1"}).status, 409, "daytona 12: a name that is taken")
items = ask("GET", "/snapshots?sourceSandboxId=" + box).json
c.same(([one["name"] for one in items["items"]], items["total"]), (["w1"], 1), "daytona 12: those of one sandbox")
c.ok("w1" in [one["name"] for one in cove.get("/v1/templates").json["items"]], "daytona 12: it is a template of cove")
cove.request("PUT", "/v1/tenants/other", {"host": True})
key = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use"]}).json["key"]
c.same(ask("GET", "/snapshots/w1", key=key).status, 404, "daytona 2: a snapshot of another tenant is absent")
c.same([ask("POST", "/sandbox/%s/%s" % (box, verb), {"name": "x"}, key=key).status for verb in ("snapshot", "fork", "pause")], [403, 404, 404], "daytona 2: as is its sandbox")
c.same(ask("POST", "/snapshots", {"name": "x", "imageName": "x"}, key=key).status, 403, "daytona 2: a key without the scope makes none")
c.same(ask("DELETE", "/snapshots/w1").status, 200, "daytona 12: it is removed")
sdk.finish(cove)
