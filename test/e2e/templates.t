#!/usr/bin/env python3
"""Templates: the host's own, imported archives, frozen copies."""
import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402


def archive(entries, close=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data, mode in entries:
            info = tarfile.TarInfo(name)
            info.mode = mode
            if data is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def host_parts():
    """A root that can run: a static program, taken from what the build made."""
    for path in ("/bin/busybox", "/usr/bin/busybox"):
        if os.path.exists(path):
            return open(path, "rb").read()
    return None


def imports(cove):
    busybox = host_parts()
    entries = [(d, None, 0o755) for d in ("bin", "etc", "tmp", "workspace", "root", "proc", "sys",
                                          "dev", "run")]
    entries.append(("etc/motd", b"imported\n", 0o644))
    if busybox:
        entries.append(("bin/busybox", busybox, 0o755))
    body = archive(entries)
    reply = cove.request("POST", "/v1/templates?name=tiny", body, raw=True,
                         headers={"Content-Type": "application/x-tar"})
    c.same(reply.status, 201, "an archive becomes a template")
    got = reply.json
    c.ok(got["name"] == "tiny" and got["kind"] == "imported" and got["files"] >= len(entries) - 1 and
         got["createdAt"], "and is described", got)
    c.same(cove.get("/v1/templates/tiny").json["kind"], "imported", "the template is found")
    if busybox:
        box = cove.create(template="tiny")
        c.same(cove.out(box, ["/bin/busybox", "cat", "/etc/motd"]), "imported\n",
               "a sandbox starts from it")
        c.same(cove.request("DELETE", "/v1/templates/tiny").status, 204, "the template can be removed")
        c.same(cove.out(box, ["/bin/busybox", "cat", "/etc/motd"]), "imported\n",
               "while the sandbox lives on")
        cove.delete(box)
    else:
        c.skip("a sandbox starts from it", "this host has no busybox")
        cove.request("DELETE", "/v1/templates/tiny")
    c.same(cove.get("/v1/templates/tiny").status, 404, "then it is gone")
    c.same(cove.request("DELETE", "/v1/templates/tiny").status, 404, "and cannot be removed twice")
    return body


def refusals(cove, body):
    def post(name, data=body, kind="application/x-tar"):
        return cove.request("POST", "/v1/templates" + name, data, raw=True,
                            headers={"Content-Type": kind})
    for name in ("..%2f..%2fx", "UPPER", "", "a" * 300, "%C3%A9", "-x", "a%00b", "a/b"):
        c.same(post("?name=" + name).status, 400, "the name %.20s is refused" % name)
    c.same(post("").status, 400, "no name is refused")
    c.same(post("?name=host").status, 409, "'host' is taken for ever")
    c.same(cove.request("DELETE", "/v1/templates/host").status, 409, "and stays")
    reply = post("?name=junk", os.urandom(100000))
    c.ok(reply.status == 400 and reply.json["hint"], "a file that is no archive is refused", reply)
    c.same(cove.get("/v1/templates/junk").status, 404, "and becomes no template")
    c.same(post("?name=x", '{"name":"x","from":"mars"}', "application/json").status, 501,
           "only the host can be frozen")
    c.same(post("?name=x", '{"from":"host"}', "application/json").status, 400, "under a name")
    c.same(post("?name=twice").status, 201, "a template")
    c.same(post("?name=twice").json["reason"], "template_exists", "is not made twice")
    c.ok(not jails(cove), "and who is refused leaves no jail", jails(cove))
    cove.request("DELETE", "/v1/templates/twice")


def broken_off(cove, body):
    head = ("POST /v1/templates?name=half HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer "
            "%s\r\nContent-Type: application/x-tar\r\nContent-Length: %d\r\n\r\n"
            % (cove.port, cove.key, len(body)))
    with c.socket.create_connection(("127.0.0.1", cove.port)) as sock:
        sock.sendall(head.encode() + body[:1024])
        c.ok(c.until(lambda: in_jail(cove), 30, 0.05), "the unpacker has a cgroup of its own, with limits")
    gone = c.until(lambda: cove.get("/v1/templates/half").status == 404 and
                   post_again(cove, body) == 201, 30, 0.2)
    c.ok(gone, "an upload that breaks off leaves nothing in the way")
    cove.request("DELETE", "/v1/templates/half")


def jails(cove):
    places = [os.path.join(root, "cove", cove.instance(), "jail") for root in c.cgroup_roots()]
    return [place for place in places if os.path.isdir(place)]


def in_jail(cove):
    """Whether somebody is in the jail's cgroup, wherever memory is bounded on this host."""
    for root in c.cgroup_roots():
        jail = os.path.join(root, "cove", cove.instance(), "jail")
        for name, limit in (("tasks", "memory.limit_in_bytes"), ("cgroup.procs", "memory.max")):
            if os.path.exists(os.path.join(jail, limit)):
                with open(os.path.join(jail, limit)) as file:
                    bound = int(file.read())
                with open(os.path.join(jail, name)) as file:
                    return bound == 256 << 20 and bool(file.read().split())
    return False


def post_again(cove, body):
    return cove.request("POST", "/v1/templates?name=half", body, raw=True,
                        headers={"Content-Type": "application/x-tar"}).status


def installs(cove):
    """A program that the host gets while sandboxes of its template run, one of which has looked for it."""
    name = "cove-installed-%d" % os.getpid()
    path = "/usr/local/bin/" + name
    looks = "command -v %s" % name
    running = cove.create()
    c.same(cove.run(running, looks)["exitCode"], 1, "a program that the host lacks is not found")
    try:
        with open(path, "w") as file:
            file.write("#!/bin/sh\necho installed\n")
        os.chmod(path, 0o755)
        fresh = cove.create()
        c.same(cove.out(fresh, name), "installed\n", "a sandbox that is made after the host has installed it runs it")
        at = "/v1/sandboxes/" + running["id"]
        c.same([cove.post(at + "/stop").status, cove.post(at + "/start").status], [200, 200], "a running one is stopped and started")
        c.same(cove.out(running, name), "installed\n", "and runs it, too, though it had looked for it in vain")
    finally:
        os.unlink(path)
    at = "/v1/sandboxes/" + fresh["id"]
    c.same([cove.post(at + "/stop").status, cove.post(at + "/start").status], [200, 200], "the host has removed it; stopped and started")
    c.same(cove.run(fresh, looks)["exitCode"], 1, "the sandbox has lost it")
    cove.delete(running)
    cove.delete(fresh)


c.need_root()
cove = c.Cove()
items = cove.get("/v1/templates").json["items"]
c.same([(t["name"], t["kind"]) for t in items], [("host", "host")], "at first there is 'host' alone")
cove.delete(cove.create())
before = c.calm(cove)
body = imports(cove)
refusals(cove, body)
broken_off(cove, body)
installs(cove)
c.same([t["name"] for t in cove.get("/v1/templates").json["items"]], ["host"],
       "in the end there is 'host' alone")
c.same(c.settled(before, cove), {}, "the census is as before")
c.same(cove.stop(), 0, "cove ends with status 0")
c.done()
