#!/usr/bin/env python3
"""/v1/live: one WebSocket with all that a page follows. Snapshots and deltas, events that go on after a cut and after a
restart of the daemon, two tenants, a reader that is too slow, the end of a key and of a session."""
import base64
import json
import os
import socket
import sys
import time
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import wsclient  # noqa: E402

c.need_root()
WAIT = 40


class Feed(wsclient.WebSocket):
    """What has come, by subscription. `rows` follows a subscription to sandboxes."""

    def __init__(self, cove, key=True, **more):
        super().__init__(cove, "/v1/live", key=key, timeout=WAIT, **more)
        self.got, self.rows, self.fresh, self.acked, self.hello = [], {}, None, False, self.json()

    def sub(self, name, topic, **members):
        self.send(dict({"op": "sub", "id": name, "topic": topic}, **members))

    def step(self):
        message = self.json()
        self.got.append(message)
        if message.get("reset"):
            self.fresh = {}
        rows = self.rows if self.fresh is None else self.fresh
        for row in message.get("set", []):
            if row["version"] >= rows.get(row["id"], {"version": 0})["version"]:
                rows[row["id"]] = dict(rows.get(row["id"], {}), **row)
        for gone in message.get("gone", []):
            rows.pop(gone, None)
        if self.fresh is not None and not message.get("more"):
            self.rows, self.fresh = self.fresh, None
        return message

    def until(self, check, seconds=WAIT):
        """The first message, of those that came or come, for which check() is true."""
        end, at = time.monotonic() + seconds, 0
        while True:
            for message in self.got[at:]:
                if check(message):
                    return message
            at = len(self.got)
            self.sock.settimeout(max(0.1, end - time.monotonic()))
            try:
                self.step()
            except socket.timeout:
                return None

    def answer(self, name):
        return self.until(lambda m: m.get("id") == name)

    def row(self, box, check):
        end = time.monotonic() + WAIT
        while not check(self.rows.get(box["id"])):
            self.sock.settimeout(max(0.1, end - time.monotonic()))
            try:
                self.step()
            except socket.timeout:
                return False
        return True


def kinds(feed, name, box):
    return [m["event"]["kind"] for m in feed.got if m.get("id") == name and m.get("event", {}).get("sandbox") == box["id"]]


def topics(cove):
    box = cove.create(name="web", labels={"team": "a"})
    feed = Feed(cove)
    c.ok(feed.hello["op"] == "hello" and feed.hello["time"] and "build" in feed.hello, "W-27 a feed begins with build and time", feed.hello)
    feed.sub("rows", "sandboxes")
    first = feed.answer("rows")
    c.ok(first.get("reset") and [row["name"] for row in first["set"]] == ["web"], "W-27 a snapshot first", first)
    listed = cove.get("/v1/sandboxes?view=summary").json["items"][0]
    c.same(sorted(set(first["set"][0]) - {"version"}), sorted(listed), "W-27 with the members of the list's rows")
    feed.sub("events", "events", kinds=["sandbox"])
    c.ok("after" in feed.answer("events"), "W-27 events say where they begin")
    feed.sub("host", "host", everyMs=500)
    c.same(feed.answer("host")["host"]["sandboxes"]["running"], 1, "W-30 the host's numbers")
    feed.sub("stats", "stats", sandboxes=[box["id"], "nobody"], everyMs=500)
    stats = feed.answer("stats")["stats"]
    c.ok(stats[0]["sandbox"] == box["id"] and stats[0]["state"] == "running" and stats[0]["memory"]["chargedBytes"] and stats[1]["state"] is None,
         "W-29 numbers of sandboxes, and of one that is not there", stats)
    feed.sub("operations", "operations")
    c.same(feed.answer("operations")["operations"], [], "W-27 operations")
    cove.post("/v1/sandboxes/web/pause")
    c.ok(feed.row(box, lambda row: row["state"] == "paused"), "W-27 a change comes", feed.rows)
    delta = [m for m in feed.got if m.get("id") == "rows"][1]
    c.ok("reset" not in delta and delta["set"][0]["version"] > first["set"][0]["version"], "W-27 as a delta with a later version", delta)
    cove.post("/v1/sandboxes/web/resume")
    other = cove.create()
    c.ok(feed.row(other, lambda row: row and row["state"] == "running"), "W-27 a new sandbox comes")
    cove.delete(other)
    c.ok(feed.row(other, lambda row: row is None), "W-27 one that is gone goes")
    c.ok(feed.until(lambda m: m.get("event", {}).get("kind") == "sandbox.deleted"), "W-27 events come")
    numbers = [m["event"]["id"] for m in feed.got if "event" in m]
    c.ok(numbers == sorted(set(numbers)) and not [m for m in feed.got if m.get("event", {}).get("kind", "sandbox.")[:8] != "sandbox."],
         "W-27 in order, of the kinds asked for", numbers)
    feed.send({"op": "set", "id": "stats", "sandboxes": [], "everyMs": 500})
    c.ok(feed.until(lambda m: m.get("stats") == []), "W-27 a subscription is changed")
    feed.send({"op": "set", "id": "rows", "fields": ["state"], "watch": [box["id"]]})
    small = feed.until(lambda m: m.get("reset") and m["set"] and "name" not in m["set"][0])
    c.same(sorted(small["set"][0]), ["id", "state", "version"], "W-27 rows have the fields asked for")
    feed.send({"op": "unsub", "id": "host"})
    feed.sub("host", "host", everyMs=60000)
    count = len(feed.got)
    c.ok(feed.until(lambda m: m.get("id") == "host" and feed.got.index(m) >= count), "W-27 an id is free after unsub")
    for bad, reason in (("x", "bad_json"), ('{"op":"sub","id":"a b","topic":"host"}', "bad_field"), ('{"op":"sub","id":"q","topic":"keys"}', "bad_field"),
                        ('{"op":"sub","id":"q","topic":"host","after":1}', "unknown_field"), ('{"op":"set","id":"none"}', "no_subscription"),
                        ('{"op":"sub","id":"rows","topic":"host"}', "subscription_taken"), ('{"op":"fly","id":"q"}', "bad_field"),
                        ('{"op":"sub","id":"q","topic":"stats","sandboxes":%s}' % json.dumps(["x"] * 65), "bad_field")):
        count = len(feed.got)
        feed.send(bad)
        told = feed.until(lambda m: "error" in m and feed.got.index(m) >= count)
        c.same(told and told["error"]["reason"], reason, "W-62 %s is refused, and the feed goes on" % bad[:60])
    c.same(feed.close(), 1000, "W-27 and closes")
    return box


def resume(cove, box):
    """W-27: cuts while events come, and a restart of the daemon: each event arrives once."""
    feed = Feed(cove)
    feed.sub("e", "events", kinds=["sandbox"])
    after, seen = feed.answer("e")["after"], []
    for turn in range(12):
        cove.post("/v1/sandboxes/web/" + ("pause" if turn % 2 == 0 else "resume"))
        if turn % 3 == 0:
            feed.cut()
            feed = Feed(cove)
            feed.sub("e", "events", kinds=["sandbox"], after=after)
        if turn == 6:
            c.same(cove.stop(), 0, "the daemon ends")
            cove.start()
            feed = Feed(cove)
            feed.sub("e", "events", kinds=["sandbox"], after=after)
            feed.sub("r", "sandboxes")
            c.ok(feed.row(box, lambda row: row and row["name"] == "web"), "W-27 rows are there after a restart")
        feed.until(lambda m: m.get("event", {}).get("sandbox") == box["id"], 0.5)
        for message in feed.got:
            if "event" in message:
                seen.append(message["event"]["id"])
                after = message["event"]["id"]
        feed.got.clear()
    feed.cut()
    want = [one["id"] for one in cove.get("/v1/events?kind=sandbox&limit=1000&after=0").json["items"]]
    feed = Feed(cove)
    feed.sub("e", "events", kinds=["sandbox"], after=after)
    feed.until(lambda m: m.get("event", {}).get("id") == want[-1] or not want or want[-1] <= after, 10)
    seen += [m["event"]["id"] for m in feed.got if "event" in m]
    c.same(seen, [one for one in want if one >= seen[0]], "W-27 each event arrives once, in order, over cuts and a restart")
    feed.send({"op": "unsub", "id": "e"})
    feed.sub("late", "events", after=want[-1] + 1000)
    c.ok(feed.until(lambda m: "missed" in m), "W-27 a number that never was is answered with `missed`")
    feed.close()


def tenants(cove, box):
    keys = {}
    for name in ("acme", "beta"):
        cove.request("PUT", "/v1/tenants/" + name, {"host": True})
        keys[name] = cove.post("/v1/keys", {"tenant": name}).json
    feeds = {name: Feed(cove, key=key["key"]) for name, key in keys.items()}
    for feed in feeds.values():
        for topic in ("events", "sandboxes", "host", "operations"):
            feed.sub(topic, topic)
            feed.answer(topic)
        feed.sub("stats", "stats", sandboxes=[box["id"], "web"], everyMs=500)
        c.same([one["state"] for one in feed.answer("stats")["stats"]], [None, None], "W-62 another's sandbox is absent from stats")
    made = {name: cove.request("POST", "/v1/sandboxes", {"name": "mine-" + name}, key=key["key"]).json for name, key in keys.items()}
    for name, feed in feeds.items():
        c.ok(feed.row(made[name], lambda row: row and row["state"] == "running"), "W-62 %s sees its own" % name)
    for name, key in keys.items():
        cove.request("DELETE", "/v1/sandboxes/" + made[name]["id"], key=key["key"])
    for name, feed in feeds.items():
        c.ok(feed.until(lambda m, feed=feed, name=name: made[name]["id"] in m.get("gone", [])) and
             feed.until(lambda m: m.get("event", {}).get("kind") == "sandbox.deleted"), "W-62 %s sees its end" % name)
    words = {name: [made[name]["id"], made[name]["shortId"], "mine-" + name] for name in made}
    for name, feed in feeds.items():
        other = "beta" if name == "acme" else "acme"
        text = json.dumps(feed.got)
        c.ok(all(word in text for word in words[name][:1]), "control: the search finds its own")
        c.same([word for word in words[other] + [other] if word in text], [], "W-62 nothing of %s is in the feed of %s" % (other, name))
    end = time.monotonic()
    cove.request("DELETE", "/v1/keys/" + keys["acme"]["id"])
    try:
        while True:
            feeds["acme"].recv()
    except (wsclient.Closed, ConnectionError):
        pass
    c.ok(time.monotonic() - end < WAIT / 2, "W-8 a feed ends with its key")
    try:
        feeds["acme"] = Feed(cove, key=keys["acme"]["key"])
        c.ok(False, "W-8 and the key opens no other")
    except wsclient.Refused as refused:
        c.same(refused.status, 401, "W-8 and the key opens no other")
    feeds["beta"].close()


def logs(cove, box):
    """Logs of executions and processes: all bytes, at their offsets, no more than the client can take."""
    lines = 6000
    command = "i=0; while [ $i -lt %d ]; do echo line-$i-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; i=$((i+1)); done; printf '\\377\\n' >&2" % lines
    made = cove.post("/v1/executions", {"command": command}).json
    c.ok(c.until(lambda: cove.get("/v1/executions/" + made["id"]).json["state"] == "completed", WAIT), "an execution has ended")
    feed = Feed(cove)
    feed.sub("l", "log", of="executions/" + made["id"])
    text, ended, offset, stopped = b"", False, 0, False
    while not ended:
        message = feed.step()
        ended = message.get("end") or message.get("error")
        if "stream" in message:
            text += base64.b64decode(message["base64"]) if "base64" in message else message["data"].encode()
        if message.get("offset", 0) > offset:
            if not stopped and message["offset"] > 256 << 10:
                stopped = True
                feed.sock.settimeout(1)
                try:
                    late = feed.step()
                except socket.timeout:
                    late = None
                c.ok(late is None, "W-27 the log waits when 256 KiB are not acknowledged", late and list(late))
                feed.sock.settimeout(WAIT)
            if stopped:
                feed.send({"op": "ack", "id": "l", "bytes": message["offset"] - (offset if feed.acked else 0)})
                feed.acked = True
            offset = message["offset"]
    want = cove.get("/v1/executions/%s/logs" % made["id"]).body
    c.ok(stopped and ended is True and text == want and len(want) > 300000, "W-27 every byte of a log arrives, then its end", len(text), len(want), ended)
    started = cove.post("/v1/sandboxes/%s/api/process/start" % box["id"], {"command": "echo one; read x </dev/zero & sleep 0.3; echo two; exit 3"}).json
    feed.sub("p", "log", of="sandboxes/%s/processes/%s" % (box["id"], started["processId"]))
    c.ok(feed.until(lambda m: m.get("id") == "p" and m.get("kind") == "exit"), "W-27 the log of a process tells its end")
    c.same("".join(m["data"] for m in feed.got if m.get("id") == "p" and m.get("stream") == "stdout"), "one\ntwo\n", "W-27 and what it writes, live")
    for i, (of, reason) in enumerate((("executions/exe-none", "no_execution"), ("operations/none", "no_operation"), ("executions/../../keys", "bad_field"),
                                      ("sandboxes/%s/processes/a?x" % box["id"], "bad_field"), ("secrets/x", "bad_field"), ("executions", "bad_field"))):
        feed.sub("b%d" % i, "log", of=of)
        c.same(feed.answer("b%d" % i)["error"]["reason"], reason, "W-62 a log of %s is refused" % of[:30])
    feed.close()


def terminal(cove, box):
    """W-43: a terminal that is cut again and again while it writes shows every byte once."""
    query = "terminal=cut&command=sh&command=-c&command=" + quote("i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo line-$i; [ $((i%400)) = 0 ] && sleep 0.05; done; echo over; read x")
    seen, offset, turns = b"", 0, 0
    while b"over" not in seen and turns < 60:
        turns += 1
        shown = wsclient.Terminal(cove, box, query + "&after=%d" % offset)
        try:
            shown.until(event="ready", seconds=WAIT)
            shown.sock.settimeout(WAIT)
            shown.step()
            if turns > 12:
                shown.until(b"over", seconds=WAIT)
        except socket.timeout:
            pass
        seen += shown.seen
        offset = len(seen)
        ready = [one for one in shown.events if one["type"] == "ready"][-1]
        if ready["offset"] > offset or [one for one in shown.events if one["type"] == "gap"]:
            break
        shown.cut()
    want = "".join("line-%d\r\n" % (i + 1) for i in range(4000)) + "over\r\n"
    c.ok(seen == want.encode() and turns > 8, "W-43 cut %d times: every byte once" % turns, len(seen), len(want), seen[-60:])
    late = wsclient.Terminal(cove, box, "terminal=cut&after=99999999")
    late.until(event="ready", seconds=WAIT)
    c.same((len(late.seen), late.last("ready")["offset"]), (len(want), len(want)), "W-43 an offset that never was shows all")
    late.cut()
    try:
        wsclient.Terminal(cove, box, "terminal=cut&after=x")
        c.ok(False, "W-43 what is no offset is refused")
    except wsclient.Refused as refused:
        c.same(refused.json["reason"], "bad_field", "W-43 what is no offset is refused")
    cove.request("DELETE", "/v1/sandboxes/%s/api/terminals/cut" % box["id"])


def session(cove):
    made = cove.post("/v1/auth/sessions", {"scopes": ["read"]}).json
    head = {"Sec-WebSocket-Protocol": "cove.v1, bearer." + made["token"], "Origin": cove.url}
    feed = Feed(cove, key=False, headers=head)
    feed.sub("log", "log", of="executions/exe-none")
    c.same(feed.answer("log")["error"]["reason"], "not_allowed", "W-13 `read` alone gets no log")
    for origin in ("http://127.0.0.1:1", "null", "http://evil.test"):
        try:
            Feed(cove, key=False, headers=dict(head, Origin=origin)).close()
            c.ok(False, "W-11 a page of %s gets no feed" % origin)
        except wsclient.Refused as refused:
            c.same(refused.status, 403, "W-11 a page of %s gets no feed" % origin)
    more = [Feed(cove, key=False, headers=head) for _ in range(15)]
    try:
        Feed(cove, key=False, headers=head)
        c.ok(False, "W-62 a session has 16 feeds")
    except wsclient.Refused as refused:
        c.same((refused.status, refused.json["reason"]), (429, "too_many_feeds"), "W-62 a session has 16 feeds")
    Feed(cove).close()
    c.ok(True, "W-62 others are not refused for that")
    for i in range(256):
        more[i % 8].sub("n%d" % i, "host", everyMs=60000)
    for i in range(256):
        more[i % 8].answer("n%d" % i)
    more[9].sub("n", "host")
    c.same(more[9].answer("n")["error"]["reason"], "too_many_subscriptions", "W-62 and 256 subscriptions")
    cove.request("DELETE", "/v1/auth/sessions/" + made["id"])
    ended = 0
    for one in [feed] + more:
        try:
            while True:
                one.recv()
        except (wsclient.Closed, ConnectionError):
            ended += 1
    c.same(ended, 16, "W-8 all of them end with the session")


def slow(cove, box):
    """A reader that takes nothing is closed; another one is not delayed, and the daemon keeps nothing for the slow one."""
    lazy = Feed(cove, rcvbuf=4096)
    good = Feed(cove)
    for i in range(24):
        lazy.sub("s%d" % i, "stats", sandboxes=[box["id"]] * 64, everyMs=250)
    good.sub("h", "host", everyMs=250)
    end, late, before = time.monotonic() + 9, 0.0, time.monotonic()
    while time.monotonic() < end:
        good.step()
        late, before = max(late, time.monotonic() - before), time.monotonic()
    c.ok(late < 5, "W-27 another feed is not delayed by it: %.1f s" % late)
    code = lazy.end()
    c.ok(code == 4408, "W-27 a reader that takes nothing for 5 s is closed with 4408", code)
    dropped = [line for line in cove.get("/metrics").body.decode().splitlines() if line.startswith('cove_live_dropped_total{topic="stats"}')]
    c.ok(dropped and float(dropped[0].split()[1]) > 0, "W-37 what it did not get is counted", dropped)
    good.close()


def main():
    cove = c.Cove()
    try:
        box = topics(cove)
        resume(cove, box)
        logs(cove, box)
        terminal(cove, box)
        tenants(cove, box)
        session(cove)
        slow(cove, box)
        c.until(lambda: not [one for one in cove.get("/v1/auth/sessions").json["items"]])
        cove.delete(box)
    finally:
        cove.close()
    c.done()


main()
