// What the daemon needs of the host it opens as root, then it drops every right, and only then it
// builds the house: loop, threads, link to the warden, fleet, doors. It works in the run directory,
// so that the warden's socket is reached by a relative name whatever lies above.
//
// SIGTERM: no new requests; those under way have their grace; what runs in boxes is ended,
// verified, unless they are handed to the next daemon; then the loop stops. A second signal ends
// the grace. The supervisor says which of the two it wants: SIGINT ends the boxes, SIGUSR2 hands
// them on. SIGTERM comes when it has died: then they are handed on, too. SIGHUP: the settings have
// changed, and the supervisor has written down how.
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
#include "box/brink.h"
#include "box/tape.h"
#include "box/tape_sync.h"
#include "bridge/bridge.h"
#include "door/door.h"
#include "egress/sealed.h"
#include "fleet/adopt.h"
#include "fleet/ear.h"
#include "fleet/hark.h"
#include "fleet/idle.h"
#include "fleet/queue.h"
#include "fleet/warm.h"
#include "fleet/ways.h"
#include "gen/version.h"
#include "inbox/inbox.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "model/timers.h"
#include "os/fd.h"
#include "serve/config.h"
#include "serve/convs.h"
#include "serve/drop.h"
#include "serve/hours.h"
#include "serve/keep.h"
#include "serve/previews.h"
#include "serve/reload.h"
#include "store/audit.h"
#include "store/egress.h"
#include "store/pledges.h"

#define DRAIN_BOXES_MS 25000
#define DRAIN_REPLIES_MS 2000
#define DRAIN_STEP_MS 10
#define TIDY_MS 10000
#define TIDY_BYTES (8u << 20)
#define WARDEN_SOCKET "warden.sock" // in the run directory, where we are
#define BOX_SOCKETS "box"	    // likewise

struct house {
	struct config config;
	struct loop *loop;
	struct ask *ask;
	struct admit *admit;
	struct store *store;
	struct serve_convs *convs;
	struct hours *hours;
	struct door door;
	struct preview *preview; // NULL: nobody listens for visitors
	struct egress *egress;
	int tapes_dir, daemon_dir;
	struct watch signals;
	struct timer tidy;
	bool draining, hurried, drained;
	bool leave;	  // the boxes, to the next daemon
	bool settled;	  // it is known what boxes there are, or that it cannot be known
	struct bell bell; // rings then
	pid_t parent;
};

static struct house *house_of(struct watch *watch)
{
	return link_of(watch, struct house, signals);
}

// Those who follow something are served on by the next daemon.
static bool daemon_is_idle(const struct house *house)
{
	const struct http_server *server = house->door.server;

	if (!preview_is_idle(house->preview))
		return false;
	return http_server_idle(server) || (house->leave && http_server_feeds_only(server));
}

static void wait_idle(struct house *house, int64_t until)
{
	while (!daemon_is_idle(house) && loop_now(house->loop) < until && !house->hurried)
		err_free(task_sleep_until(loop_now(house->loop) + DRAIN_STEP_MS));
}

static void drain(void *arg)
{
	struct house *house = arg;
	struct loop *loop = house->loop;

	log_event(LOG_INFO, "daemon.draining", NULL);
	house->door.fleet->closing = true;
	house->door.fleet->leaving = house->leave;
	bell_ring(&house->door.fleet->tell.told); // streams of events end
	http_server_drain(house->door.server);
	preview_drain(house->preview);
	wait_idle(house, loop_now(loop) + (int64_t)house->config.grace_ms);

	// Runners that are left behind go on with the next daemon; others are stopped by their
	// leases.
	if (!house->leave)
		serve_convs_drain(house->convs, loop_now(loop) + DRAIN_BOXES_MS);
	auto_err err = house->leave
			       ? OK
			       : life_drain(house->door.fleet, loop_now(loop) + DRAIN_BOXES_MS);

	if (err)
		log_event(LOG_ERROR, "daemon.drain_failed", "trail", err_trail(err), NULL);
	house->drained = !err;
	house->hurried = false;
	if (!house->leave) // whoever waited in a box learns of its end
		wait_idle(house, loop_now(loop) + DRAIN_REPLIES_MS);
	loop_stop(loop);
}

static void set_users(struct house *house)
{
	const struct config *config = &house->config;
	struct guard_users users = {.may_host = !strcmp(config->users_host, "on")};

	err_free(config_users_scopes(config, &users.scopes)); // was checked when it was read
	snprintf(users.tenant, sizeof(users.tenant), "%s", config->users_tenant);
	guard_set_users(house->door.guard, &users);
}

// What the operator may change while we live, wherever it is used.
static void heed(struct house *house)
{
	const struct config *config = &house->config;
	struct fleet *fleet = house->door.fleet;

	timer_set(TIMER_SLEEP, (int64_t)config->sleep_ms);
	timer_set(TIMER_FROZEN, (int64_t)config->frozen_ms);
	timer_set(TIMER_SWEEP, (int64_t)config->sweep_ms);
	timer_set(TIMER_RETENTION, (int64_t)config->retention_ms);
	timer_set(TIMER_AUDIT, (int64_t)config->audit_ms);
	fleet->boxes_max = (uint32_t)config->boxes_max;
	fleet->bounds.output_max = config->output_max;
	fleet->queue_wait_ms = (int64_t)config->queue_ms;
	queue_set_wait(fleet->queue, fleet->queue_wait_ms);
	log_set(config->log_level, config->log_format);
	serve_convs_heed(house->convs, config, fleet);
	if (!house->door.server)
		return; // the doors open by what is said here
	http_server_bound(house->door.server, (uint32_t)config->conns_max,
			  HTTP_LIMITS_DEFAULT.conns_per_peer);
	guard_set_names(house->door.guard, str_of(config->hosts));
	set_users(house);
	preview_bound(house->preview, (uint32_t)config->conns_max, str_of(config->hosts));
}

static fallible daemon_reload(struct house *house)
{
	auto_buf changed = BUF_INIT(4096);

	TRY(reload_hear((int)house->config.fd_live, &house->config, &changed));
	previews_reload(&house->config, &house->door, house->preview);
	if (!changed.len)
		return OK;
	heed(house);
	log_event(LOG_INFO, "daemon.reloaded", "changed", changed.at, NULL);
	return OK;
}

static void on_reload(struct house *house)
{
	auto_err err = daemon_reload(house);

	if (err)
		log_event(LOG_ERROR, "daemon.reload_refused", "trail", err_trail(err), NULL);
	else if (house->config.fd_ready &&
		 write((int)house->config.fd_ready, &(char){DAEMON_RELOADED}, 1) != 1)
		log_event(LOG_WARN, "daemon.unheard", NULL);
}

static void daemon_on_signal(struct watch *watch, uint32_t events)
{
	struct house *house = house_of(watch);
	struct signalfd_siginfo info;

	(void)events;
	if (read(watch->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		on_reload(house);
		return;
	}
	house->hurried = house->draining;
	// Nobody asked for the end of the boxes when the supervisor died.
	if (!house->draining || info.ssi_signo == SIGINT)
		house->leave = info.ssi_signo == SIGUSR2 ||
			       (info.ssi_signo == SIGTERM &&
				(getppid() != house->parent ||
				 !strcmp(house->config.on_term, "handoff")));
	if (!house->draining)
		task_start(house->loop, "drain", drain, house);
	house->draining = true;
}

static fallible daemon_watch_signals(struct house *house)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_sys(errno, "block signals");
	house->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (house->signals.fd < 0)
		return err_sys(errno, "make a signalfd");
	house->signals.ready = daemon_on_signal;
	return loop_watch(house->loop, &house->signals, EPOLLIN);
}

static fallible daemon_read_hash(int fd, uint8_t hash[SECRET_HASH])
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
	TRY(brink_prepare((int)house->config.fd_holds));
	return admit_open(&house->admit);
}

#define CA_MAX (1 << 20)

// What the operator lets the daemon reach for others.
static fallible read_egress(struct house *house)
{
	const char *path = house->config.ca;
	auto_free char *text = NULL;
	struct outward *outward = &house->door.outward;
	auto_fd fd = -1;
	ssize_t len;

	outward->exceptions = str_of(house->config.exceptions);
	outward->hosts = str_of(house->config.names);
	if (!*path) {
		outward->trust = trust_new((struct str){0});
		return OK;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	text = mem_new(CA_MAX);
	len = fd < 0 ? -1 : read(fd, text, CA_MAX);
	if (len < 0)
		return err_new(INVALID, "bad_config", "egress-ca: %s cannot be read", path);
	outward->ca = (struct str){take_ptr(text), (size_t)len};
	outward->trust = trust_new(outward->ca);
	return OK;
}

static fallible daemon_confine(struct house *house)
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

static struct err *prune_events(void *arg, struct sweep_round *round)
{
	(void)round;
	return store_events_prune(arg, clock_steady_ms() - timer_ms(TIMER_EVENTS), TELL_KEEP, NULL);
}

static struct err *prune_egress(void *arg, struct sweep_round *round)
{
	uint64_t count = 0;

	(void)round;
	TRY(store_egress_forget_gone(arg));
	return store_egress_prune(arg, clock_wall_ms() - timer_ms(TIMER_EVENTS), STORE_EGRESS_KEEP,
				  &count);
}

static struct err *prune_pledges(void *arg, struct sweep_round *round)
{
	(void)round;
	return store_pledges_prune(arg, clock_steady_ms() - PLEDGE_AGE_MS, PLEDGE_MAX);
}

static struct err *prune_audit(void *arg, struct sweep_round *round)
{
	const struct house *house = arg;

	(void)round;
	return store_audit_prune(house->store, clock_steady_ms(), timer_ms(TIMER_AUDIT),
				 house->config.audit_rows, NULL);
}

// Keys, the idle ladder and the janitor: whatever stands on the fleet and beneath the doors.
static fallible staff(struct house *house)
{
	struct door *door = &house->door;

	admit_watch_disk(house->admit, house->daemon_dir);
	door->ring = keyring_new(door->fleet, house->store);
	// What cannot be read opens nothing; the operator's key is none of those.
	auto_err err = keyring_load(door->ring);
	if (err && store_health(house->store) == STORE_FINE)
		return take_ptr(err);
	if (err)
		log_event(LOG_ERROR, "daemon.no_keys", "trail", err_trail(err), NULL);
	door->sweep = sweep_new(door->fleet);
	sweep_add(door->sweep, "clock", hours_follow, house->hours);
	sweep_add(door->sweep, "events", prune_events, house->store);
	sweep_add(door->sweep, "egress", prune_egress, house->store);
	sweep_add(door->sweep, "audit", prune_audit, house);
	sweep_add(door->sweep, "idempotency", prune_pledges, house->store);
	door->ledger = ledger_new(house->loop, house->store);
	ear_open(door->fleet);
	return OK;
}

// Answers that were given before, and boxes that were made but perhaps not told of.
static void recall_pledges(struct house *house)
{
	struct door *door = &house->door;
	int64_t oldest = clock_steady_ms() - PLEDGE_AGE_MS;
	auto_err err = pledges_load(door->pledges, house->store);

	if (err)
		log_event(LOG_ERROR, "daemon.no_pledges", "trail", err_trail(err), NULL);
	list_each (at, &door->fleet->entries) {
		const struct record *record = &link_of(at, struct entry, link)->record;

		if (record->pledge[0] && record->created_ms > oldest)
			pledges_made(door->pledges, record->pledge, record->id);
	}
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
	set_users(house);
	door_open(door);
	door->pledges = pledges_new(house->loop);
	recall_pledges(house);
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
	if (house->config.fd_users)
		TRY(http_server_listen(door->server, (int)house->config.fd_users), "listen");
	return OK;
}

// Tells the supervisor once a box could be made.
static void daemon_announce(void *arg)
{
	struct house *house = arg;
	auto_err err = ask_wait_linked(house->ask, CLOCK_NEVER);

	// A state that cannot be read now may take for ever: meanwhile we say so.
	while (!err && !house->settled && !house->door.fleet->unknown)
		err = bell_wait(&house->bell, CLOCK_NEVER);
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

static fallible open_store(struct house *house)
{
	bool in_memory = !strcmp(house->config.store, "memory");

	return store_open(
		&(struct store_options){
			.loop = house->loop,
			.dir = in_memory ? -1 : house->daemon_dir,
		},
		&house->store);
}

// What is under way lies in a file that outlives us, unless nothing is to.
static fallible open_egress(struct house *house)
{
	const struct outward *outward = &house->door.outward;
	struct egress_config config = {
		.exceptions = outward->exceptions,
		.hosts = outward->hosts,
		.ca = outward->ca,
		.live = -1,
		.per_second_max = house->config.egress_rate,
	};

	TRY(keep_key(house->daemon_dir, "egress.key", config.seed));
	if (strcmp(house->config.store, "memory") != 0) {
		config.live = openat(house->daemon_dir, "egress.live",
				     O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		// Then what is under way is lost with us, and nothing else.
		if (config.live < 0)
			log_event(LOG_WARN, "egress.no_file", "why", strerror(errno), NULL);
	}
	return egress_open(house->loop, house->store, &config, &house->egress);
}

static void on_settled(void *arg)
{
	struct house *house = arg;

	house->settled = true;
	hours_settled(house->hours);
	serve_convs_start(house->convs);
	bell_ring(&house->bell);
}

static fallible daemon_build(struct house *house)
{
	struct guard_options guard = {
		.bound = str_of(house->config.listen),
		.names = str_of(house->config.hosts),
	};
	char boot[HOURS_BOOT];
	uint32_t warm = 0;

	TRY(daemon_read_hash((int)house->config.fd_key, guard.key_hash));
	TRY(open_outside(house));
	TRY(read_egress(house));
	hours_boot(boot);
	TRY(daemon_confine(house), "give up rights");
	TRY(keep_key(house->daemon_dir, "box.key", house->door.pass_key));
	TRY(keep_key(house->daemon_dir, "preview.key", house->door.link_key));
	bell_init(&house->bell);
	TRY(loop_new(&house->loop));
	TRY(daemon_watch_signals(house));
	TRY(brink_start());
	TRY(tape_sync_start(house->tapes_dir));
	TRY(offload_open(house->loop, (int)house->config.threads));
	TRY(closer_open(house->loop));
	TRY(open_store(house));
	house->hours = hours_open(house->store, boot);
	TRY(open_egress(house));
	house->ask = ask_open(house->loop, WARDEN_SOCKET);
	house->door.fleet = fleet_new(&(struct fleet_options){
		.loop = house->loop,
		.ask = house->ask,
		.admit = house->admit,
		.store = house->store,
		.egress = house->egress,
		.sockets = BOX_SOCKETS,
		.tapes_dir = house->tapes_dir,
		.boxes_max = (uint32_t)house->config.boxes_max,
		.output_max = house->config.output_max,
		.queue_wait_ms = (int64_t)house->config.queue_ms,
		.loops_max = (uint32_t)house->config.loops_max,
		.rebooted = hours_rebooted(house->hours),
	});
	TRY(warm_read(house->config.warm, &warm));
	warm_set(house->door.fleet, warm, (uint32_t)house->config.warm_max);
	TRY(staff(house));
	TRY(serve_convs_open(&house->config, &house->door, house->store, house->daemon_dir,
			     &house->convs));
	heed(house);
	TRY(daemon_reload(house)); // since we were started
	adopt_load(house->door.fleet);
	adopt_start(house->door.fleet, on_settled, house);
	TRY(open_doors(house, &guard));
	TRY(previews_open(&house->config, &house->door, &house->preview));
	ways_open(house->door.fleet);
	idle_open(house->door.fleet);
	hark_open(house->door.fleet);
	sweep_open(house->door.sweep);
	task_start(house->loop, "announce", daemon_announce, house);
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
		failed = daemon_build(house);
	if (failed) {
		auto_err err = failed;

		log_event(LOG_ERROR, "daemon.failed", "message", err_message(err), "trail",
			  err_trail(err), NULL);
		return err_exit(err);
	}
	loop_run(house->loop);
	ledger_flush(house->door.ledger);
	store_close(house->store);
	log_event(LOG_INFO, "daemon.stopped", NULL);
	// What is left is memory: the kernel frees it faster than we could.
	return house->drained ? 0 : 1;
}
