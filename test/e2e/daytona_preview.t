#!/usr/bin/env python3
"""daytona 2, 11: previews with the tokens of Daytona's clients."""
import http.client
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import daytona_sdk as sdk  # noqa: E402
import wsclient  # noqa: E402


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


sdk.install()
cove = c.Cove(env={"COVE_PREVIEW_LISTEN": "127.0.0.1:%d" % free_port()})
sdk.drive(cove, "preview.mjs")


def ask(method, path, body=None, key=None, **headers):
    return sdk.ask(cove, method, path, body, key, **headers)


class Site:
    """The listener of previews, for Cove.request."""

    def __init__(self, port):
        self.port, self.count = port, 0

    def get(self, host, path="/", **headers):
        self.count += 1  # wrong tokens slow an address down
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=("127.0.%d.1" % self.count, 0))
        conn.request("GET", path, headers={"Host": host, **headers})
        reply = conn.getresponse()
        return reply.status, reply.read().decode(errors="replace")


box = ask("POST", "/sandbox", {}).json["id"]
link = ask("GET", "/sandbox/%s/ports/3000/preview-url" % box).json
toolbox = "/toolbox/%s" % box
for headers, status in (({"X-Daytona-Preview-Token": link["token"]}, 200), ({"X-Daytona-Preview-Token": link["token"][:-1]}, 401), ({}, 401)):
    got = cove.request("GET", "/daytona%s/work-dir" % toolbox, headers=headers, key=False)
    c.same((got.status, got.json.get("source")), (status, None if status == 200 else "DAYTONA_DAEMON"), "daytona 2: the toolbox with %s" % (list(headers) or "nothing"))
got = cove.request("GET", "/daytona%s/work-dir?DAYTONA_SANDBOX_AUTH_KEY=%s" % (toolbox, link["token"]), key=False)
c.same(got.status, 200, "daytona 2: the toolbox with the token in the query")
other = ask("POST", "/sandbox", {}).json["id"]
for path in ("/daytona/toolbox/%s/work-dir" % other, "/daytona/sandbox/%s" % box, "/v1/sandboxes/%s" % box):
    c.same(cove.request("GET", path, headers={"X-Daytona-Preview-Token": link["token"]}, key=False).status, 401, "daytona 2: the token opens nothing else: %s" % path.replace(box, "ID").replace(other, "OTHER"))
ws = wsclient.WebSocket(cove, "/daytona%s/process/pty/create-connect?id=b&DAYTONA_SANDBOX_AUTH_KEY=%s" % (toolbox, link["token"]), key=False)
c.ok("connected" in ws.recv(), "daytona 2: a browser's WebSocket has the token in the query")
ws.cut()

c.same(ask("POST", "/sandbox/%s/public/maybe" % box).status, 400, "daytona 11: a flag that is none")
got = ask("POST", "/sandbox/%s/public/true" % box)
c.same((got.status, got.json["public"]), (200, True), "daytona 5: a sandbox is made public")
site = Site(int(link["url"].split("/")[2].split(":")[1]))
own = "127.0.0.1:%d" % site.port


def path_of(made):
    """The same preview on the listener's own name: http://3000-ID.localhost:PORT becomes /3000-ID."""
    return made["url"].split("/")[2].split(".")[0]


path = path_of(link)
c.same(site.get(own, "/%s/" % path)[0], 502, "daytona 11: its previews need no token then")
c.same(ask("POST", "/sandbox/%s/public/false" % box).json["public"], False, "daytona 5: and private again")
c.same(site.get(own, "/%s/" % path)[0], 401, "daytona 11: at once")
c.same(site.get(own, "/%s" % path, **{"X-Daytona-Preview-Token": link["token"]})[0], 308, "daytona 11: without its slash the address is completed")
unknown = "/3000-%s/" % ("0" * 12)
c.same(site.get(own, unknown, **{"X-Daytona-Preview-Token": link["token"]})[0], 401, "daytona 11: an unknown sandbox is no other answer")
cove.request("PUT", "/v1/tenants/other", {"host": True})
key = cove.post("/v1/keys", {"tenant": "other", "scopes": ["read", "make", "use"]}).json["key"]
reader = cove.post("/v1/keys", {"scopes": ["read"]}).json["key"]
for bearer, what in ((key, "another tenant's key"), (reader, "a key without the scope")):
    c.same(site.get(own, "/%s/" % path, Authorization="Bearer " + bearer)[0], 401, "daytona 11: %s does not open it" % what)
c.same([ask(method, "/sandbox/%s%s" % (box, rest), key=key).status for method, rest in (("GET", "/ports/80/preview-url"), ("GET", "/ports/80/signed-preview-url"), ("POST", "/public/true"))], [404] * 3,
       "daytona 2: a sandbox of another tenant is absent")
signed = ask("GET", "/sandbox/%s/ports/3000/signed-preview-url" % box).json
for number in range(64):
    one = ask("GET", "/sandbox/%s/ports/3000/signed-preview-url?expiresInSeconds=%d" % (box, 3600 + number)).json
    got = ask("POST", "/sandbox/%s/ports/3000/signed-preview-url/%s/expire" % (box, one["token"]))
c.same(got.status, 200, "daytona 11: 64 signed addresses are taken back")
got = ask("POST", "/sandbox/%s/ports/3000/signed-preview-url/%s/expire" % (box, signed["token"]))
c.same((got.status, got.json["reason"]), (429, "too_many_signed"), "daytona 11: more are refused")
os.kill(cove.children()["daemon"], 9)
c.patiently(lambda: ask("GET", "/sandbox/" + box))
c.same(site.get(own, "/%s/" % path_of(one))[0], 404, "daytona 11: what was taken back stays so when the daemon is killed")
c.same(site.get(own, "/%s/" % path_of(signed))[0], 502, "daytona 11: and what was not holds")
c.same(site.get(own, "/%s/" % path, **{"X-Daytona-Preview-Token": link["token"]})[0], 502, "daytona 11: so does the token")
sdk.remove_all(cove)
c.same(cove.stop(), 0, "cove stops")
cove.close()

cove = c.Cove("--preview-domain", "preview.test", env={"COVE_PREVIEW_LISTEN": "127.0.0.1:%d" % free_port()})
box = ask("POST", "/sandbox", {}).json["id"]
link = ask("GET", "/sandbox/%s/ports/3000/preview-url" % box).json
host = link["url"].split("/")[2]
c.same(link["url"].split(".", 1)[0], "http://3000-" + box[4:16], "daytona 11: with a domain the address is a host of its own")
site = Site(int(host.split(":")[1]))
c.same([site.get(host, **headers)[0] for headers in ({}, {"X-Daytona-Preview-Token": link["token"]})], [401, 502], "daytona 11: with the same rules")
signed = ask("GET", "/sandbox/%s/ports/3000/signed-preview-url" % box).json
c.same(site.get(signed["url"].split("/")[2])[0], 502, "daytona 11: a signed one, too")
sdk.finish(cove)
