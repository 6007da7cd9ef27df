// What the daemon needs of the host it opens as root, then it drops every right, and only then it
// builds the house: loop, threads, link to the warden, fleet, doors. It works in the run directory,
// so that the warden's socket is reached by a relative name whatever lies above.
//
// SIGTERM: no new requests; those under way have their grace; all boxes are ended and verified
// gone; then the loop stops. A second SIGTERM ends the grace.
//
// syscalls: signalfd4 read write close madvise
#include "serve/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "box/tape.h"
#include "bridge/bridge.h"
#include "door/door.h"
#include "gen/version.h"
#include "inbox/inbox.h"
#include "loop/offload.h"
#include "os/fd.h"
#include "serve/config.h"
#include "serve/drop.h"
#include "serve/keep.h"

#define DRAIN_BOXES_MS 25000
#define DRAIN_ORPHAN_MS 1000 // the supervisor is gone, and the warden is going
#define DRAIN_REPLIES_MS 2000
#define DRAIN_STEP_MS 10
#define TIDY_MS 10000
#define TIDY_BYTES (8u << 20)
#define WARDEN_SOCKET "warden.sock" // in the run directory, where we are

struct house {
	struct config config;
	struct loop *loop;
	struct ask *ask;
	struct admit *admit;
	struct door door;
	int tapes_dir, daemon_dir;
	struct watch signals;
	struct timer tidy;
	bool draining, hurried, drained;
	pid_t parent;
};

static struct house *house_of(struct watch *watch)
{
	return link_of(watch, struct house, signals);
}

static void wait_idle(struct house *house, int64_t until)
{
	while (!http_server_idle(house->door.server) && loop_now(house->loop) < until &&
	       !house->hurried)
		err_free(task_sleep_until(loop_now(house->loop) + DRAIN_STEP_MS));
}

static void drain(void *arg)
{
	struct house *house = arg;
	struct loop *loop = house->loop;

	log_event(LOG_INFO, "daemon.draining", NULL);
	house->door.fleet->closing = true;
	http_server_drain(house->door.server);
	wait_idle(house, loop_now(loop) + (int64_t)house->config.grace_ms);

	// Without a supervisor the warden buries everything by itself and ends.
	int64_t patience = getppid() == house->parent ? DRAIN_BOXES_MS : DRAIN_ORPHAN_MS;
	auto_err err = life_drain(house->door.fleet, loop_now(loop) + patience);

	if (err)
		log_event(LOG_ERROR, "daemon.drain_failed", "trail", err_trail(err), NULL);
	house->drained = !err;
	house->hurried = false;
	wait_idle(house, loop_now(loop) + DRAIN_REPLIES_MS);
	loop_stop(loop);
}

static void on_signal(struct watch *watch, uint32_t events)
{
	struct house *house = house_of(watch);
	struct signalfd_siginfo info;

	(void)events;
	if (read(watch->fd, &info, sizeof(info)) != sizeof(info))
		return;
	house->hurried = house->draining;
	if (!house->draining)
		task_start(house->loop, "drain", drain, house);
	house->draining = true;
}

static fallible watch_signals(struct house *house)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_sys(errno, "block signals");
	house->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (house->signals.fd < 0)
		return err_sys(errno, "make a signalfd");
	house->signals.ready = on_signal;
	return loop_watch(house->loop, &house->signals, EPOLLIN);
}

static fallible read_hash(int fd, uint8_t hash[SECRET_HASH])
{
	if (pread(fd, hash, SECRET_HASH, 0) != SECRET_HASH)
		return err_sys(errno, "read the hash of the key");
	close(fd);
	return OK;
}

// All that has to be opened while we may: directories, accounts of the kernel, the place to work
// in.
static fallible open_outside(struct house *house)
{
	auto_free char *tapes = mem_fmt("%s/daemon/tapes", house->config.data);
	auto_free char *daemon = mem_fmt("%s/daemon", house->config.data);
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return err_sys(errno, "read the limit on files");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files))
		return err_sys(errno, "raise the limit on files");
	house->tapes_dir = open(tapes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (house->tapes_dir < 0)
		return err_sys(errno, "open %s", tapes);
	house->daemon_dir = open(daemon, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (house->daemon_dir < 0)
		return err_sys(errno, "open %s", daemon);
	return admit_open(&house->admit);
}

static fallible confine(struct house *house)
{
	auto_free char *daemon_dir = mem_fmt("%s/daemon", house->config.data);
	struct drop drop = {
		.uid = (uid_t)house->config.uid,
		.gid = (gid_t)house->config.gid,
		.daemon_dir = daemon_dir,
		.run_dir = ".",
	};

	if (!drop.uid || !drop.gid)
		return err_new(INVALID, "bad_config", "the daemon is started by 'cove serve' only");
	if (chdir(house->config.run))
		return err_sys(errno, "go to %s", house->config.run);
	return drop_rights(&drop);
}

static fallible open_doors(struct house *house, const struct guard_options *guard)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct door *door = &house->door;
	struct str rest = str_of(house->config.fd_listen), word;

	limits.conns_max = (uint32_t)house->config.conns_max;
	if (weak(HEAD_TIME))
		limits.head_ms = INT32_MAX;
	door->loop = house->loop;
	door->guard = guard_new(house->loop, guard);
	door->pledges = pledges_new(house->loop);
	door->routes = router_join(
		(const struct route *const[]){api_routes, inbox_routes, bridge_routes, NULL});
	door->version = COVE_VERSION;
	door->started_ms = loop_now(house->loop);
	TRY(http_server_open(house->loop, &limits, door_serve, door_refuse, door, &door->server));
	while (rest.len && str_cut(&rest, ',', &word)) {
		uint64_t fd;

		if (!str_to_u64(word, 3, INT32_MAX, &fd))
			return err_new(INVALID, "bad_config", "--fd-listen is malformed");
		TRY(http_server_listen(door->server, (int)fd), "listen");
	}
	return OK;
}

// Tells the supervisor once a box could be made.
static void announce(void *arg)
{
	struct house *house = arg;
	auto_err err = ask_wait_linked(house->ask, CLOCK_NEVER);

	if (err)
		return;
	log_event(LOG_INFO, "daemon.ready", "version", COVE_VERSION, NULL);
	if (house->config.fd_ready && write((int)house->config.fd_ready, "", 1) != 1)
		log_event(LOG_WARN, "daemon.unheard", NULL);
}

// What a rush of clients leaves behind lies in holes between what lives on: the C library gives
// those back only when it is told to.
static void on_tidy(struct timer *timer)
{
	struct house *house = link_of(timer, struct house, tidy);

	if (mallinfo2().fordblks > TIDY_BYTES)
		malloc_trim(0);
	loop_set_timer(house->loop, timer, loop_now(house->loop) + TIDY_MS);
}

static fallible build(struct house *house)
{
	struct guard_options guard = {
		.bound = str_of(house->config.listen),
		.names = str_of(house->config.hosts),
	};

	TRY(read_hash((int)house->config.fd_key, guard.key_hash));
	TRY(open_outside(house));
	TRY(confine(house), "give up rights");
	TRY(keep_key(house->daemon_dir, "box.key", house->door.pass_key));
	TRY(loop_new(&house->loop));
	TRY(watch_signals(house));
	TRY(offload_open(house->loop, (int)house->config.threads));
	// No box survives its daemon, so nobody owns the tapes of an earlier life.
	tape_remove_all(house->loop, house->tapes_dir);
	house->ask = ask_open(house->loop, WARDEN_SOCKET);
	house->door.fleet = fleet_new(&(struct fleet_options){
		.loop = house->loop,
		.ask = house->ask,
		.admit = house->admit,
		.tapes_dir = house->tapes_dir,
		.boxes_max = (uint32_t)house->config.boxes_max,
		.output_max = house->config.output_max,
	});
	TRY(open_doors(house, &guard));
	task_start(house->loop, "announce", announce, house);
	house->tidy.due = on_tidy;
	loop_set_timer(house->loop, &house->tidy, loop_now(house->loop) + TIDY_MS);
	return OK;
}

// A daemon lives for months. Large blocks go back to the kernel when they are freed, whatever was
// large before, and the workers share the loop's heap instead of keeping one each.
static void bound_heap(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	mallopt(M_TRIM_THRESHOLD, 256 * 1024);
}

int daemon_main(int argc, char **argv)
{
	struct house *house = mem_new_of(struct house);
	struct err *failed;

	bound_heap();
	weak_open();
	log_open("daemon", STDERR_FILENO);
	house->parent = getppid();
	signal(SIGPIPE, SIG_IGN);
	failed = config_read(argc - 2, argv + 2, &house->config);
	if (!failed)
		failed = build(house);
	if (failed) {
		auto_err err = failed;

		log_event(LOG_ERROR, "daemon.failed", "message", err_message(err), "trail",
			  err_trail(err), NULL);
		return err_exit(err);
	}
	loop_run(house->loop);
	log_event(LOG_INFO, "daemon.stopped", NULL);
	// What is left is memory: the kernel frees it faster than we could.
	return house->drained ? 0 : 1;
}
