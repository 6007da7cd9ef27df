// The daemon. It opens what it needs of the host as root, drops all privileges, and only then
// builds loop, threads, connection to the warden, manager and gateway. Its working directory is the
// run directory, so that the warden's socket has a short relative name.
//
// SIGINT or SIGUSR2 drain: no new requests; running ones get a grace period; then boxes are stopped
// and verified (SIGINT), or left to the next daemon (SIGUSR2), and the loop ends. A second signal
// ends the grace period. SIGTERM comes when the supervisor has died: boxes are left, too. SIGHUP:
// the settings have changed; the supervisor has written them to the shared memfd.
//
// syscalls: signalfd4 read write close madvise
// syscalls: openat fsync fchmod renameat renameat2 unlinkat
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
#include "base/metric.h"
#include "base/weak.h"
#include "box/stall.h"
#include "box/tape.h"
#include "box/tape_sync.h"
#include "cloudflare/bridge.h"
#include "daytona/daytona.h"
#include "egress/tls_stream.h"
#include "execution/execution.h"
#include "gateway/gateway.h"
#include "gen/version.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "manager/adopt.h"
#include "manager/archives.h"
#include "manager/box_launch.h"
#include "manager/budgets.h"
#include "manager/build_files.h"
#include "manager/build_steps.h"
#include "manager/builds.h"
#include "manager/contexts.h"
#include "manager/enforce_budgets.h"
#include "manager/host_load.h"
#include "manager/idle.h"
#include "manager/limits.h"
#include "manager/network_attach.h"
#include "manager/pools.h"
#include "manager/port_scan.h"
#include "manager/publish.h"
#include "manager/pull.h"
#include "manager/queue.h"
#include "manager/sampler.h"
#include "manager/volumes.h"
#include "monitor/monitor.h"
#include "os/fd.h"
#include "os/host_settings.h"
#include "os/path.h"
#include "serve/agents.h"
#include "serve/config.h"
#include "serve/drop.h"
#include "serve/previews.h"
#include "serve/reload.h"
#include "serve/steady_clock.h"
#include "store/audit.h"
#include "store/egress.h"
#include "store/events.h"
#include "store/idempotency.h"
#include "store/usage.h"
#include "toolbox/toolbox.h"
#include "types/address.h"
#include "types/timers.h"

#define DRAIN_BOXES_MS 25000
#define DRAIN_REPLIES_MS 2000
#define DRAIN_STEP_MS 10
#define TIDY_MS 10000
#define LAYERS_KEPT_MS (10 * 60 * 1000) // of layers that nothing holds
#define TIDY_BYTES (8u << 20)
#define WARDEN_SOCKET "warden.sock" // in the run directory, our working directory
#define BOX_SOCKETS "box"	    // likewise

struct app {
	struct config config;
	struct loop *loop;
	struct ask *ask;
	struct admit *admit;
	struct store *store;
	struct serve_agents *agents;
	struct steady_clock *steady_clock;
	struct cgroup_files cgroup_files;
	struct host_load *host_load;
	struct host_settings host_settings;
	char boot[STEADY_CLOCK_BOOT];
	struct sinks sinks;
	char link[256]; // to this cove, for notices
	struct gateway gateway;
	struct preview *preview; // NULL: no preview listener
	struct egress *egress;
	struct pull_settings pull;
	char **registry_texts; // of `pull`, also those of before: a pull may have them. To the end
	size_t registry_text_count;
	int tapes_dir, daemon_dir;
	struct watch signals;
	struct timer tidy;
	enum { DRAIN_NOT, DRAIN_GRACE, DRAIN_HURRIED } drain; // by a signal; by a second one
	bool drained;					      // and no process is left
	bool leave;					      // leave the boxes to the next daemon
	bool settled;		    // the existing boxes are known, or known to be unreadable
	struct condition condition; // signalled then
	pid_t parent;
};

// Streams are continued by the next daemon.
static bool daemon_is_idle(const struct app *app)
{
	const struct http_server *server = app->gateway.server;

	return preview_is_idle(app->preview) &&
	       (http_server_idle(server) || (app->leave && http_server_feeds_only(server)));
}

static void wait_idle(struct app *app, int64_t until)
{
	while (!daemon_is_idle(app) && loop_now(app->loop) < until && app->drain != DRAIN_HURRIED)
		err_free(task_sleep_until(loop_now(app->loop) + DRAIN_STEP_MS));
}

static void drain(void *arg)
{
	struct app *app = arg;
	struct loop *loop = app->loop;

	log_event(LOG_INFO, "daemon.draining", NULL);
	app->gateway.manager->closing = true;
	app->gateway.manager->leaving = app->leave;
	condition_signal(&app->gateway.manager->event_written); // event streams end
	http_server_drain(app->gateway.server);
	preview_drain(app->preview);
	wait_idle(app, loop_now(loop) + (int64_t)app->config.grace_ms);

	// Runners that are left continue with the next daemon; otherwise their leases stop them.
	if (!app->leave)
		serve_agents_drain(app->agents, loop_now(loop) + DRAIN_BOXES_MS);
	auto_err err = app->leave
			       ? OK
			       : life_drain(app->gateway.manager, loop_now(loop) + DRAIN_BOXES_MS);

	if (err)
		log_event(LOG_ERROR, "daemon.drain_failed", "trail", err_trail(err), NULL);
	app->drained = !err;
	app->drain = DRAIN_GRACE;
	if (!app->leave) // requests that wait in a box learn of its end
		wait_idle(app, loop_now(loop) + DRAIN_REPLIES_MS);
	loop_stop(loop);
}

static void set_users(struct app *app)
{
	const struct config *config = &app->config;
	struct authenticate_users users = {.may_host = !strcmp(config->users_host, "on")};

	err_free(config_users_scopes(config,
				     &users.scopes)); // checked when the configuration was read
	snprintf(users.tenant, sizeof(users.tenant), "%s", config->users_tenant);
	authenticate_set_users(app->gateway.auth, &users);
	if (app->gateway.web)
		web_sessions_end_users(app->gateway.web);
}

static struct str registry_text(struct app *app, struct str now, const char *text)
{
	if (now.at && str_is(now, text))
		return now;
	app->registry_texts = mem_grow(app->registry_texts, app->registry_text_count + 1,
				       sizeof(*app->registry_texts));
	app->registry_texts[app->registry_text_count] = mem_str(text);
	return str_of(app->registry_texts[app->registry_text_count++]);
}

static void load_registries(struct app *app)
{
	const struct config *config = &app->config;
	struct pull_settings *pull = &app->pull;

	pull->insecure = registry_text(app, pull->insecure, config->registry_insecure);
	pull->mirrors = registry_text(app, pull->mirrors, config->registry_mirrors);
	pull->outbound.exceptions = registry_text(app, pull->outbound.exceptions,
						  config->registry_exceptions);
	pull->image_max = config->image_max;
	pull->cache_max = config->images_cache;
	pull->wait_ms = (int64_t)config->pull_ms;
}

// Applies the settings that a reload can change.
static void load_config(struct app *app)
{
	const struct config *config = &app->config;
	struct manager *manager = app->gateway.manager;

	timer_set(TIMER_SLEEP, (int64_t)config->sleep_ms);
	timer_set(TIMER_FROZEN, (int64_t)config->frozen_ms);
	timer_set(TIMER_SWEEP, (int64_t)config->sweep_ms);
	timer_set(TIMER_RETENTION, (int64_t)config->retention_ms);
	timer_set(TIMER_AUDIT, (int64_t)config->audit_ms);
	manager->boxes_max = (uint32_t)config->boxes_max;
	manager->bounds.output_max = config->output_max;
	manager->queue_wait_ms = (int64_t)config->queue_ms;
	queue_set_wait(manager->queue, manager->queue_wait_ms);
	err_free(config_prices(config, &manager->prices)); // checked when it was read
	log_set(config->log_level, config->log_format);
	load_registries(app);
	serve_agents_load_config(app->agents, config, manager);
	if (!app->gateway.server)
		return; // not open yet: they will use these settings
	http_server_bound(app->gateway.server, (uint32_t)config->conns_max,
			  HTTP_LIMITS_DEFAULT.conns_per_peer);
	authenticate_set_names(app->gateway.auth, str_of(config->hosts));
	set_users(app);
	preview_bound(app->preview, (uint32_t)config->conns_max, str_of(config->hosts));
}

static fallible daemon_reload(struct app *app)
{
	auto_buf changed = BUF_INIT(4096);

	TRY(reload_read((int)app->config.fd_live, &app->config, &changed));
	previews_reload(&app->config, &app->gateway, app->preview);
	if (!changed.len)
		return OK;
	load_config(app);
	log_event(LOG_INFO, "daemon.reloaded", "changed", changed.at, NULL);
	return OK;
}

static void on_reload(struct app *app)
{
	auto_err err = daemon_reload(app);

	if (err)
		log_event(LOG_ERROR, "daemon.reload_refused", "trail", err_trail(err), NULL);
	else if (app->config.fd_ready &&
		 write((int)app->config.fd_ready, &(char){DAEMON_RELOADED}, 1) != 1)
		log_event(LOG_WARN, "daemon.unheard", NULL);
}

static void daemon_on_signal(struct watch *watch, uint32_t events)
{
	struct app *app = link_of(watch, struct app, signals);
	struct signalfd_siginfo info;

	(void)events;
	if (read(watch->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		on_reload(app);
		return;
	}
	// The supervisor's death is no request to stop the boxes.
	if (!app->drain || info.ssi_signo == SIGINT)
		app->leave = info.ssi_signo == SIGUSR2 ||
			     (info.ssi_signo == SIGTERM &&
			      (getppid() != app->parent ||
			       !strcmp(app->config.on_term, "handoff")));
	if (!app->drain)
		task_start(app->loop, "drain", drain, app);
	app->drain = app->drain ? DRAIN_HURRIED : DRAIN_GRACE;
}

static fallible daemon_watch_signals(struct app *app)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_sys(errno, "block signals");
	app->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (app->signals.fd < 0)
		return err_sys(errno, "make a signalfd");
	app->signals.ready = daemon_on_signal;
	return loop_watch(app->loop, &app->signals, EPOLLIN);
}

// The cgroups of the boxes, by the same name as in the warden.
static fallible open_cgroup_files(struct app *app)
{
	auto_fd data = open(app->config.data, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char instance[CGROUP_INSTANCE_ROOM];

	if (data < 0)
		return err_sys(errno, "open %s", app->config.data);
	TRY(cgroup_instance(data, instance));
	return cgroup_files_open(instance, &app->cgroup_files);
}

// Opens everything that needs root: directories, files of /proc, the working directory.
static fallible open_outside(struct app *app)
{
	auto_free char *tapes = mem_fmt("%s/daemon/tapes", app->config.data);
	auto_free char *daemon = mem_fmt("%s/daemon", app->config.data);
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return err_sys(errno, "read the limit on files");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files))
		return err_sys(errno, "raise the limit on files");
	app->tapes_dir = open(tapes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (app->tapes_dir < 0)
		return err_sys(errno, "open %s", tapes);
	app->daemon_dir = open(daemon, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (app->daemon_dir < 0)
		return err_sys(errno, "open %s", daemon);
	TRY(stall_prepare((int)app->config.fd_holds));
	TRY(open_cgroup_files(app));
	TRY(host_load_open(&app->host_load));
	host_settings_open(app->config.data, &app->host_settings);
	return admit_open(&app->admit);
}

#define CA_MAX (1 << 20)

static fallible read_ca(const char *path, const char *setting, struct outbound *outbound)
{
	auto_free char *text = NULL;
	auto_fd fd = -1;
	ssize_t len;

	if (!*path) {
		outbound->trust = trust_new((struct str){0});
		return OK;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	text = mem_new(CA_MAX);
	len = fd < 0 ? -1 : read(fd, text, CA_MAX);
	if (len < 0)
		return err_new(INVALID, "bad_config", "%s: %s cannot be read", setting, path);
	outbound->ca = (struct str){take_ptr(text), (size_t)len};
	outbound->trust = trust_new(outbound->ca);
	return OK;
}

// The operator's settings for outbound connections.
static fallible read_egress(struct app *app)
{
	struct outbound *outbound = &app->gateway.outbound, *registries = &app->pull.outbound;

	TRY(read_ca(app->config.ca, "egress-ca", outbound));
	outbound->exceptions = str_of(app->config.exceptions);
	outbound->hosts = str_of(app->config.names);
	TRY(read_ca(app->config.registry_ca, "registry-ca", registries));
	registries->hosts = str_of(app->config.names);
	load_registries(app);
	return OK;
}

static fallible daemon_confine(struct app *app)
{
	auto_free char *daemon_dir = mem_fmt("%s/daemon", app->config.data);
	const char *readable[DROP_READABLE_MAX + 1] = {NULL};
	struct drop drop = {
		.readable = readable,
		.uid = (uid_t)app->config.uid,
		.gid = (gid_t)app->config.gid,
		.daemon_dir = daemon_dir,
		.run_dir = ".",
	};

	if (!drop.uid || !drop.gid)
		return err_new(INVALID, "bad_config", "the daemon is started by 'cove serve' only");
	for (int i = 0; i < app->cgroup_files.host.count && i < DROP_READABLE_MAX; i++)
		readable[i] = app->cgroup_files.host.mounts[i].path;
	if (chdir(app->config.run))
		return err_sys(errno, "go to %s", app->config.run);
	return drop_rights(&drop);
}

static struct err *prune_events(void *arg, struct sweep_round *round)
{
	(void)round;
	return store_events_prune(arg, clock_steady_ms() - timer_ms(TIMER_EVENTS), PUBLISH_KEEP,
				  NULL);
}

static struct err *prune_egress(void *arg, struct sweep_round *round)
{
	uint64_t count = 0;

	(void)round;
	TRY(store_egress_forget_gone(arg));
	return store_egress_prune(arg, clock_wall_ms() - timer_ms(TIMER_EVENTS), STORE_EGRESS_KEEP,
				  &count);
}

static struct err *prune_idempotency_keys(void *arg, struct sweep_round *round)
{
	(void)round;
	return store_idempotency_rows_prune(arg, clock_steady_ms() - IDEMPOTENCY_AGE_MS,
					    IDEMPOTENCY_MAX);
}

static struct err *prune_usage(void *arg, struct sweep_round *round)
{
	(void)round;
	return store_usage_prune(arg, clock_steady_ms() - timer_ms(TIMER_USAGE));
}

static struct err *prune_audit(void *arg, struct sweep_round *round)
{
	const struct app *app = arg;

	(void)round;
	return store_audit_prune(app->store, clock_steady_ms(), timer_ms(TIMER_AUDIT),
				 app->config.audit_rows, NULL);
}

// Images, their layers, and the directory of partial blobs. While they cannot be read, none is
// pulled, and no layer is removed.
static fallible open_images(struct app *app)
{
	struct manager *manager = app->gateway.manager;
	struct err *err = path_dir(app->daemon_dir, "blobs", 0700, &app->pull.blobs);

	TRY(err);
	TRY(path_dir(app->daemon_dir, "builds", 0700, &app->pull.builds));
	err = pulled_open(manager);
	if (!err)
		err = operations_open(manager);
	if (!err)
		err = build_steps_open(manager);
	if (err)
		log_event(LOG_ERROR, "manager.no_images", "trail", err_trail(err), NULL);
	else
		manager->pull = &app->pull;
	err_free(err);
	return OK;
}

static struct err *collect_layers(void *arg, struct sweep_round *round)
{
	uint64_t bytes = 0;

	(void)round;
	TRY(operations_prune(arg));
	build_files_prune(arg, false);
	TRY(build_steps_sweep(arg));
	TRY(pulled_evict(arg));
	return pulled_collect(arg, NULL, LAYERS_KEPT_MS, &bytes);
}

static struct err *remove_volumes_left(void *arg, struct sweep_round *round)
{
	(void)round;
	return volumes_settle(arg);
}

// Keys, idle task and janitor: above the manager and below the APIs.
static fallible start_services(struct app *app)
{
	struct gateway *gateway = &app->gateway;

	admit_watch_disk(app->admit, app->daemon_dir);
	TRY(open_images(app));
	gateway->ring = keyring_new(gateway->manager, app->store);
	// An unreadable key grants nothing; the operator's key is not in the store.
	auto_err err = keyring_load(gateway->ring);
	if (err && store_health(app->store) == STORE_FINE)
		return take_ptr(err);
	if (err)
		log_event(LOG_ERROR, "daemon.no_keys", "trail", err_trail(err), NULL);
	gateway->sweep = sweep_new(gateway->manager);
	sweep_add(gateway->sweep, "clock", steady_clock_follow, app->steady_clock);
	sweep_add(gateway->sweep, "events", prune_events, app->store);
	sweep_add(gateway->sweep, "egress", prune_egress, app->store);
	sweep_add(gateway->sweep, "audit", prune_audit, app);
	sweep_add(gateway->sweep, "layers", collect_layers, gateway->manager);
	sweep_add(gateway->sweep, "volumes", remove_volumes_left, gateway->manager);
	sweep_add(gateway->sweep, "limits", limits_sweep, gateway->manager);
	sweep_add(gateway->sweep, "usage", prune_usage, app->store);
	sweep_add(gateway->sweep, "idempotency", prune_idempotency_keys, app->store);
	gateway->audit = audit_log_new(app->loop, app->store);
	return OK;
}

static void recover_execution(void *arg, const char *mark, const char *id)
{
	const struct gateway *gateway = arg;

	idempotency_keys_made(gateway->idempotency_keys, mark, id);
}

// Loads stored responses, and boxes and executions whose create may not have been answered.
static void recover_idempotency_keys(struct app *app)
{
	struct gateway *gateway = &app->gateway;
	int64_t oldest = clock_steady_ms() - IDEMPOTENCY_AGE_MS;
	auto_err err = idempotency_keys_load(gateway->idempotency_keys, app->store);

	if (err)
		log_event(LOG_ERROR, "daemon.no_idempotency_keys", "trail", err_trail(err), NULL);
	list_each (at, &gateway->manager->entries) {
		const struct record *record = &link_of(at, struct entry, link)->record;

		if (record->idempotency[0] && record->created_ms > oldest)
			idempotency_keys_made(gateway->idempotency_keys, record->idempotency,
					      record->id);
	}
	err_free(err);
	err = gateway->executions
		      ? executions_marks(gateway->executions, oldest, recover_execution, gateway)
		      : OK;
	if (err)
		log_event(LOG_ERROR, "daemon.no_idempotency_keys", "trail", err_trail(err), NULL);
}

static fallible open_doors(struct app *app, const struct authenticate_options *guard)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct gateway *gateway = &app->gateway;
	struct str rest = str_of(app->config.fd_listen), word;

	limits.conns_max = (uint32_t)app->config.conns_max;
	if (weak(HEAD_TIME))
		limits.head_ms = INT32_MAX;
	gateway->loop = app->loop;
	gateway->auth = authenticate_new(app->loop, guard);
	set_users(app);
	gateway->web = web_sessions_new(gateway->manager, app->store, gateway->ring,
					guard->key_hash);
	auto_err err = web_sessions_load(gateway->web);
	if (err) // nobody is signed in
		log_event(LOG_ERROR, "daemon.no_web_sessions", "trail", err_trail(err), NULL);
	gateway_open(gateway);
	gateway->idempotency_keys = idempotency_keys_new(app->loop);
	recover_idempotency_keys(app);
	gateway->routes = router_join((const struct route *const[]){
		api_routes, toolbox_routes, cloudflare_routes, daytona_routes, NULL});
	gateway->version = COVE_VERSION;
	gateway->look_at_host = host_settings_look;
	gateway->host_settings = &app->host_settings;
	gateway->started_ms = loop_now(app->loop);
	TRY(http_server_open(app->loop, &limits, gateway_serve, gateway_refuse, gateway,
			     &gateway->server));
	while (rest.len && str_cut(&rest, ',', &word)) {
		uint64_t fd;

		if (!str_to_u64(word, 3, INT32_MAX, &fd))
			return err_new(INVALID, "bad_config", "--fd-listen is malformed");
		TRY(http_server_listen(gateway->server, (int)fd), "listen");
	}
	if (app->config.fd_users)
		TRY(http_server_listen(gateway->server, (int)app->config.fd_users), "listen");
	return OK;
}

// Tells the supervisor once a box could be created.
static void daemon_announce(void *arg)
{
	struct app *app = arg;
	auto_err err = ask_wait_linked(app->ask, CLOCK_NEVER);

	// An unreadable state may last for ever: announce anyway; requests get errors.
	while (!err && !app->settled && !app->gateway.manager->unknown)
		err = condition_wait(&app->condition, CLOCK_NEVER);
	if (err)
		return;
	log_event(LOG_INFO, "daemon.ready", "version", COVE_VERSION, NULL);
	if (app->config.fd_ready && write((int)app->config.fd_ready, "", 1) != 1)
		log_event(LOG_WARN, "daemon.unheard", NULL);
}

// After a burst of clients free memory is scattered between live blocks: malloc_trim() returns it.
static void on_tidy(struct timer *timer)
{
	struct app *app = link_of(timer, struct app, tidy);

	if (mallinfo2().fordblks > TIDY_BYTES)
		malloc_trim(0);
	loop_set_timer(app->loop, timer, loop_now(app->loop) + TIDY_MS);
}

// The daemon's own key of that name, generated if it is absent or incomplete; synced before
// anything is made with it. A truncated or zeroed key was left by an older version at a power cut:
// it is useless, and replaced.
static fallible daemon_key(int dir, const char *name, uint8_t out[SECRET_HASH])
{
	static const uint8_t torn[SECRET_HASH];
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint8_t key[SECRET_HASH];

	if (fd < 0 && errno != ENOENT)
		return err_sys(errno, "open the key %s", name);
	if (fd >= 0 && read(fd, out, SECRET_HASH) == SECRET_HASH &&
	    memcmp(out, torn, sizeof(torn)) != 0)
		return OK;
	if (fd >= 0)
		log_event(LOG_ERROR, "key.made_anew", "file", name, "message",
			  "it was cut short: what was made with the old one is void", NULL);
	secret_random(key, sizeof(key));
	TRY(path_write_sync(dir, name, 0600, (struct str){(const char *)key, sizeof(key)}),
	    "make the key %s", name);
	memcpy(out, key, sizeof(key));
	secret_wipe(key, sizeof(key));
	return OK;
}

// Open verdicts are in a file that outlives the process, unless the state is in memory only.
static fallible open_egress(struct app *app)
{
	const struct outbound *outbound = &app->gateway.outbound;
	struct egress_config config = {
		.exceptions = outbound->exceptions,
		.hosts = outbound->hosts,
		.ca = outbound->ca,
		.live = -1,
		.per_second_max = app->config.egress_rate,
	};

	TRY(daemon_key(app->daemon_dir, "egress.key", config.seed));
	if (strcmp(app->config.store, "memory") != 0) {
		config.live = openat(app->daemon_dir, "egress.live",
				     O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		// Then only the open verdicts are lost with the process.
		if (config.live < 0)
			log_event(LOG_WARN, "egress.no_file", "why", strerror(errno), NULL);
	}
	return egress_open(app->loop, app->store, &config, &app->egress);
}

static fallible open_monitor(struct app *app)
{
	struct gateway *gateway = &app->gateway;
	struct str rest = str_of(app->config.listen), first = {0};

	str_cut(&rest, ',', &first);
	snprintf(app->link, sizeof(app->link), "http://" STR_FMT, STR_ARG(first));
	return monitor_new(
		&(struct monitor_options){
			.loop = app->loop,
			.manager = gateway->manager,
			.agents = gateway->agents,
			.sweep = gateway->sweep,
			.store = app->store,
			.version = COVE_VERSION,
			.sinks = &app->sinks,
			.trust = gateway->outbound.trust,
			.hosts = gateway->outbound.hosts,
			.link = app->link,
			.dir = !strcmp(app->config.store, "memory") ? -1 : app->daemon_dir,
			.history_max = app->config.history_max,
		},
		&gateway->monitor);
}

static void on_settled(void *arg)
{
	struct app *app = arg;

	app->settled = true;
	steady_clock_settled(app->steady_clock);
	serve_agents_start(app->agents);
	pull_resume(app->gateway.manager);
	builds_resume(app->gateway.manager);
	archives_resume(app->gateway.manager);
	box_launch_open(app->gateway.manager);
	pools_open(app->gateway.manager);
	condition_signal(&app->condition);
}

static void note_stall(double seconds)
{
	metric_observe(METRIC_LOOP_STALL, NULL, seconds);
}

static fallible daemon_build(struct app *app)
{
	struct authenticate_options guard = {
		.bound = str_of(app->config.listen),
		.names = str_of(app->config.hosts),
	};
	uint32_t warm = 0;

	if (pread((int)app->config.fd_key, guard.key_hash, SECRET_HASH, 0) != SECRET_HASH)
		return err_sys(errno, "read the hash of the key");
	close((int)app->config.fd_key);
	TRY(open_outside(app));
	TRY(read_egress(app));
	steady_clock_boot(app->boot);
	TRY(sinks_load(app->config.sinks, &app->sinks));
	TRY(daemon_confine(app), "give up rights");
	TRY(daemon_key(app->daemon_dir, "box.key", app->gateway.path_token_key));
	TRY(daemon_key(app->daemon_dir, "preview.key", app->gateway.link_key));
	condition_init(&app->condition);
	TRY(loop_new(&app->loop));
	loop_on_slow(app->loop, note_stall);
	TRY(daemon_watch_signals(app));
	TRY(stall_start());
	TRY(tape_sync_start(app->tapes_dir));
	TRY(offload_open(app->loop, (int)app->config.threads));
	TRY(closer_open(app->loop));
	TRY(store_open(
		&(struct store_options){
			.loop = app->loop,
			.dir = !strcmp(app->config.store, "memory") ? -1 : app->daemon_dir,
		},
		&app->store));
	app->steady_clock = steady_clock_open(app->store, app->boot);
	TRY(open_egress(app));
	app->ask = ask_open(app->loop, WARDEN_SOCKET);
	app->gateway.manager = manager_new(&(struct manager_options){
		.loop = app->loop,
		.ask = app->ask,
		.admit = app->admit,
		.store = app->store,
		.egress = app->egress,
		.sockets = BOX_SOCKETS,
		.tapes_dir = app->tapes_dir,
		.boxes_max = (uint32_t)app->config.boxes_max,
		.output_max = app->config.output_max,
		.queue_wait_ms = (int64_t)app->config.queue_ms,
		.loops_max = (uint32_t)app->config.loops_max,
		.rebooted = steady_clock_rebooted(app->steady_clock),
	});
	app->gateway.manager->host_load = app->host_load;
	sampler_open(&(struct sampler_options){
		.manager = app->gateway.manager, .files = &app->cgroup_files, .boot = app->boot});
	budgets_open(app->gateway.manager);
	TRY(warm_read(app->config.warm, &warm));
	warm_set(app->gateway.manager, warm, (uint32_t)app->config.warm_max);
	TRY(start_services(app));
	TRY(serve_agents_open(&app->config, &app->gateway, app->store, app->daemon_dir,
			      &app->agents));
	TRY(open_monitor(app));
	load_config(app);
	TRY(daemon_reload(app)); // changed since we were started
	adopt_load(app->gateway.manager);
	adopt_start(app->gateway.manager, on_settled, app);
	TRY(open_doors(app, &guard));
	TRY(previews_open(&app->config, &app->gateway, &app->preview));
	attach_open(app->gateway.manager);
	idle_open(app->gateway.manager);
	enforce_budgets_open(app->gateway.manager);
	port_scan_open(app->gateway.manager);
	sweep_open(app->gateway.sweep);
	monitor_start(app->gateway.monitor);
	task_start(app->loop, "announce", daemon_announce, app);
	app->tidy.due = on_tidy;
	loop_set_timer(app->loop, &app->tidy, loop_now(app->loop) + TIDY_MS);
	return OK;
}

int daemon_main(int argc, char **argv)
{
	struct app *app = mem_new_of(struct app);
	struct err *failed;

	// A daemon lives for months. Large blocks are always mmapped and returned when freed, and
	// workers share one heap instead of an arena each.
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	mallopt(M_TRIM_THRESHOLD, 256 * 1024);
	weak_open();
	log_open("daemon", STDERR_FILENO);
	app->parent = getppid();
	signal(SIGPIPE, SIG_IGN);
	failed = config_read(argc - 2, argv + 2, &app->config);
	if (!failed)
		failed = daemon_build(app);
	if (failed) {
		auto_err err = failed;

		log_event(LOG_ERROR, "daemon.failed", "message", err_message(err), "trail",
			  err_trail(err), NULL);
		return err_exit(err);
	}
	loop_run(app->loop);
	audit_log_flush(app->gateway.audit);
	monitor_stop(app->gateway.monitor);
	store_close(app->store);
	log_event(LOG_INFO, "daemon.stopped", NULL);
	// Only memory is left, which the kernel frees faster.
	return app->drained ? 0 : 1;
}
