#!/usr/bin/env python3
"""Daytona's API over a kill of the daemon: commands of sessions, intervals, what a stopped sandbox was last used."""
import datetime
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import daytona_sdk as sdk  # noqa: E402

sdk.install()
cove = c.Cove()


def ask(method, path, body=None):
    return sdk.ask(cove, method, path, body)


def used(shown):
    return datetime.datetime.fromisoformat(shown["lastActivityAt"].replace("Z", "+00:00")).timestamp()


def kill(box):
    os.kill(cove.children()["daemon"], 9)
    return c.patiently(lambda: ask("GET", "/sandbox/" + box)).json


def records():
    return sum(name.startswith("q") and name[1:].isdigit() for _, _, names in os.walk(cove.data) for name in names)


sdk.drive(cove, "restart.mjs", PHASE="before")
box = ask("POST", "/sandbox", {"autoStopInterval": 20, "autoArchiveInterval": 60, "autoDeleteInterval": 30}).json["id"]
was = ask("POST", "/sandbox/%s/stop" % box).json
c.until(lambda: time.time() - used(was) > 3, 30)
is_now = kill(box)
same = ("state", "autoStopInterval", "autoArchiveInterval", "autoDeleteInterval")
c.same([is_now[key] for key in same], [was[key] for key in same], "daytona 5: state and intervals outlive the daemon")
c.ok(abs(used(is_now) - used(was)) < 1, "daytona 5: the minutes to the deletion go on from the stop", is_now["lastActivityAt"], was["lastActivityAt"])
sdk.drive(cove, "restart.mjs", PHASE="after")
kill(box)
sdk.drive(cove, "restart.mjs", PHASE="last")
c.until(lambda: records() == 0, 30)
c.same(records(), 0, "daytona 7: records go with their session")
sdk.finish(cove)
