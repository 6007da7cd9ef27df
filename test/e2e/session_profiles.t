#!/usr/bin/env python3
"""Profiles of agent sessions: what a profile gives is chosen with it, where the request chooses nothing, and stays when the profile
changes; a limit of the class is never exceeded."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import agent_sessions as s  # noqa: E402
import runner  # noqa: E402

c.need_root()
FIRST = """[profile review]
memory_mb = 256
cpus = 0.5
pids = 200
allow = api.test, docs.test
secrets = TOKEN
"""
SECOND = FIRST.replace("256", "300")


def ask(cove, **body):
    return cove.post("/v1/agent-sessions", dict({"user": "p", "runner": {"argv": runner.argv()}}, **body))


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(FIRST)
        conf.flush()
        os.chmod(conf.name, 0o644)
        cove = s.start("--config=" + conf.name)
        try:
            cove.request("PUT", "/v1/secrets/TOKEN", {"value": "profile-value", "hosts": ["api.test"]})
            made = ask(cove, profile="review")
            c.ok(made.status == 201 and made.json["profile"] == "review", "a session names a profile", made)
            own = made.json
            c.same((own["limits"], own["network"], own["secrets"]),
                   ({"memoryMB": 256, "cpus": 0.5, "pids": 200}, {"mode": "allow", "allow": ["api.test", "docs.test"]}, ["TOKEN"]), "and gets what it gives")
            session = object.__new__(s.Session)
            session.cove, session.made, session.id, session.path = cove, own, own["id"], "/v1/agent-sessions/" + own["id"]
            c.same(session.fate(session.run(), 90), "completed", "its runner works")

            def box():
                got = cove.get("/v1/sandboxes/" + own["sandbox_id"]).json
                return got["limits"]["memoryMB"], got["limits"]["cpus"], got["limits"]["pids"], got["network"]["allow"], got["network"]["secrets"]
            want = (256, 0.5, 200, ["api.test", "docs.test"], ["TOKEN"])
            c.same(box(), want, "the sandbox has its limits, network and secrets")
            with open(conf.name, "w") as file:
                file.write(SECOND)
            s.kill_daemon(cove)
            cove.request("DELETE", "/v1/sandboxes/" + own["sandbox_id"])
            c.same(session.fate(session.run(), 90), "completed", "made again after the profile was changed")
            c.same(box(), want, "it is as it was chosen")
            off = ask(cove, user="q", profile="review", network={"mode": "off"}, secrets=[])
            c.ok(off.status == 201 and off.json["network"] == {"mode": "off"} and off.json["secrets"] == [], "a request's own choice wins", off)
            c.same(ask(cove, profile="review").status, 201, "a sibling may name the profile")
            c.same(ask(cove, profile="VALIDATION").status, 409, "and no other")
            c.same(ask(cove, user="r", profile="VALIDATION").status, 201, "an agent type is a profile")
            none = ask(cove, user="n", profile="none")
            c.ok(none.status == 400 and none.json["reason"] == "no_profile" and none.json["hint"], "an unknown one is refused", none)
            c.same(cove.stop(), 0, "cove stops cleanly")
        finally:
            cove.close()
    c.done()


main()
