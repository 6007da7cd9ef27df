#!/usr/bin/env python3
"""Storms of kills: thirteen clients at work, ten kill -9 within three seconds, and one more of the daemon after the recovery.
Everything that was acknowledged is there afterwards, whole and once; no living sandbox is told to be gone; nothing is left.

STORM_ROUNDS says how many rounds (2, with COVE_SOAK 200). Each round prints its seed: STORM_SEED=N STORM_ROUNDS=1 repeats it,
as far as the kernel's scheduling lets it. With STORM_LOGS=DIR the log of a round that failed is kept there.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402
import storm_load  # noqa: E402

ROUNDS = int(os.environ.get("STORM_ROUNDS", "200" if os.environ.get("COVE_SOAK") else "2"))
SEED = int(os.environ.get("STORM_SEED", str(random.randrange(1 << 32))))
LOGS = os.environ.get("STORM_LOGS")
KILLS = 10
VICTIMS = ("daemon", "daemon", "warden", "supervisor")
HELPERS = ("cove-zygote", "cove-unmount")  # of the warden; pid 1 of a sandbox has another name
SECONDS = 60.0


class Storm:
    """Kills processes of one cove, and starts its supervisor again."""

    def __init__(self, cove, chance):
        self.cove, self.chance, self.done = cove, chance, []

    def tell(self, what, pid):
        now = time.time()
        self.done.append("%s.%03d %s %d" % (time.strftime("%H:%M:%S", time.gmtime(now)), now % 1 * 1000, what, pid))

    def launch(self):
        ready, process = self.cove.launch(), self.cove.process
        threading.Thread(target=self.cove.await_ready, args=(ready,), daemon=True).start()
        self.tell("supervisor started", process.pid)

    def kill_supervisor(self):
        self.tell("kill supervisor", self.cove.process.pid)
        self.cove.process.kill()
        self.cove.process.wait()
        self.cove.log.close()
        self.launch()
        return True

    def restart_ended(self):
        """A supervisor that ended by itself is started again, as a service manager does."""
        status = self.cove.process.poll()
        if status is not None:
            self.tell("supervisor ended by itself, status %s" % status, self.cove.process.pid)
            self.cove.log.close()
            self.launch()

    def kill_role(self, role):
        """A child of this supervisor, by a pidfd: its number cannot mean another process."""
        pid = self.cove.children().get(role)
        return pid is not None and self.kill(pid, role, lambda: self.cove.children().get(role) == pid)

    def kill(self, pid, what, is_still):
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not is_still():
                return False
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except OSError:
            return False
        finally:
            os.close(fd)
        self.tell("kill " + what, pid)
        return True

    def kill_helper(self):
        warden = self.cove.children().get("warden")
        found = [pid for pid in c._pids() if warden and c._comm(pid) in HELPERS and parent(pid) == warden]
        if found:
            pid = self.chance.choice(found)
            self.kill(pid, c._comm(pid), lambda: c._comm(pid) in HELPERS and parent(pid) == warden)

    def strike(self):
        """One kill. A role that nobody plays at this moment is waited for a little; then the supervisor takes its turn."""
        role = self.chance.choice(VICTIMS)
        helper = self.chance.random() < 0.15
        if role == "supervisor" or not c.until(lambda: self.kill_role(role), 0.3, 0.005):
            self.kill_supervisor()
        if helper:
            self.kill_helper()

    def rage(self):
        for at in range(KILLS):
            self.restart_ended()
            self.strike()
            if at + 1 < KILLS:
                time.sleep(self.chance.uniform(0, 0.3))

    def is_well(self):
        self.restart_ended()
        try:
            reply = self.cove.get("/v1/health", timeout=10)
            return reply.json["status"] == "ok" and reply.json["warden"] is True
        except Exception:  # noqa: BLE001
            return False


def parent(pid):
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return None


def watched(cove):
    found = c.census(cove)
    return {key: found[key] for key in ("processes", "cgroups", "namespaces", "mounts", "loops", "boxes", "trash")}


def verified(cove):
    return subprocess.run([cove.binary, "verify", "--data", cove.data], capture_output=True, text=True, timeout=60)


def listed(cove):
    return {box["id"] for box in cove.get("/v1/sandboxes?limit=1000").json["items"]}


def round_of(cove, seed, name):
    """One round; True if all of it held."""
    chance = random.Random(seed)
    storm = Storm(cove, chance)
    box = cove.create()
    cove.run(box, "true")
    cove.delete(box)
    c.calm(cove)
    before = watched(cove)
    crowd = storm_load.Crowd(cove, seed)
    time.sleep(chance.uniform(0.3, 0.8))
    storm.rage()
    good = c.ok(c.until(storm.is_well, SECONDS, 0.02), name + "cove is well after the storm")
    time.sleep(chance.uniform(0.1, 0.5))
    storm.kill_role("daemon")
    good &= c.ok(c.until(storm.is_well, SECONDS, 0.02), name + "and after one more kill of the daemon")
    stuck = crowd.end()
    good &= c.same(stuck, [], name + "every client comes to its end")
    asked, acked = crowd.work()
    faults = crowd.audit()
    good &= c.ok(not faults, name + "all that was acknowledged is there, whole and once", *faults)
    # Those of executions end after their results, by the lease's backoff: two attempts that were cut put the third off by 30 s.
    c.until(lambda: not listed(cove) ^ crowd.expected(), 180, 0.1)
    good &= c.same(listed(cove) ^ crowd.expected(), set(), name + "there are the sandboxes that were made, and no others")
    good &= c.same(crowd.clear(), [], name + "all of it can be deleted")
    c.until(lambda: verified(cove).returncode == 0, 30, 0.2)
    got = verified(cove)
    good &= c.ok(got.returncode == 0, name + "verify agrees", got.stdout, got.stderr)
    c.until(lambda: watched(cove) == before, 30, 0.05)
    good &= c.same(watched(cove), before, name + "nothing is left over")
    c.note("%s%d operations asked for, %d acknowledged (%s), %d kills" % (name, asked, acked, crowd.told(), len([d for d in storm.done if " kill " in d])))
    if not good:
        c.note("\n".join(storm.done))
    return good


def keep_log(cove, seed):
    if LOGS:
        os.makedirs(LOGS, exist_ok=True)
        shutil.copy(cove.log_path, os.path.join(LOGS, "storm-%d.log" % seed))


def main():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # atexit ends the cove of this round
    c.need_root()
    for at in range(ROUNDS):
        seed = (SEED + at) % (1 << 32)
        name = "round %d, seed %d: " % (at + 1, seed)
        begin = time.monotonic()
        c.note(name + "begins")
        cove = c.Cove("--session-space=16M")
        good = False
        try:
            good = round_of(cove, seed, name)
        finally:
            if not good:
                keep_log(cove, seed)
            if cove.process.poll() is not None:
                cove.start()
            status = cove.stop(number=signal.SIGINT)
        c.same(status, 0, name + "cove ends with status 0")
        c.same(c.remains(cove), {}, name + "and leaves nothing")
        cove.close()
        c.note("%s%.1f s" % (name, time.monotonic() - begin))
    c.done()


main()
