// The start of the warden: options, privileges, host checks, recovery of boxes, cgroups, disks,
// templates, zygote, socket, then its seccomp filter. Each step is undone by start_undo() on
// failure. Only start_undo() runs under that filter.
//
// syscalls: close unlinkat
#include "warden/start.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/weak.h"
#include "os/caps.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/probe.h"
#include "os/seccomp.h"
#include "os/syscalls.h"
#include "warden/archive.h"
#include "warden/blocked.h"
#include "warden/box_network.h"
#include "warden/jail.h"
#include "warden/recover.h"
#include "warden/snapshot.h"
#include "warden/teardown.h"
#include "warden/template.h"
#include "warden/volumes.h"

#define FDS_APART 1024 // for everything but boxes
#define FDS_A_BOX 3    // pidfd, a copy of its overlays, the steering program
#define SLOTS_MAX 65000
#define SOCKET "warden.sock"

struct options {
	const char *data, *run, *disk, *steer;
	uint64_t uid, gid, lock, holds;
	struct pool_bounds pool;
};

static bool warden_start_option(const char *arg, const char *name, const char **out)
{
	size_t len = strlen(name);

	if (strncmp(arg, name, len) != 0 || arg[len] != '=')
		return false;
	*out = arg + len + 1;
	return true;
}

static bool option_number(const char *arg, const char *name, uint64_t max, uint64_t *out)
{
	const char *text;

	return warden_start_option(arg, name, &text) && str_to_u64(str_of(text), 0, max, out);
}

static fallible read_options(int argc, char **argv, struct options *out)
{
	*out = (struct options){.uid = UINT64_MAX,
				.lock = UINT64_MAX,
				.holds = UINT64_MAX,
				.pool.start = POOL_START};
	for (int i = 0; i < argc; i++) {
		if (warden_start_option(argv[i], "--data", &out->data) ||
		    warden_start_option(argv[i], "--run", &out->run) ||
		    warden_start_option(argv[i], "--disk", &out->disk) ||
		    warden_start_option(argv[i], "--steer", &out->steer) ||
		    option_number(argv[i], "--pool-start", INT64_MAX, &out->pool.start) ||
		    option_number(argv[i], "--pool-max", INT64_MAX, &out->pool.max) ||
		    option_number(argv[i], "--uid", UINT32_MAX - 1, &out->uid) ||
		    option_number(argv[i], "--gid", UINT32_MAX - 1, &out->gid) ||
		    option_number(argv[i], "--fd-lock", INT32_MAX, &out->lock) ||
		    option_number(argv[i], "--fd-holds", INT32_MAX, &out->holds))
			continue;
		return err_new(INVALID, "bad_option", "the warden has no option '%s'", argv[i]);
	}
	if (!out->data || !out->run || out->uid == UINT64_MAX)
		return err_new(INVALID, "bad_option", "the warden needs --data, --run and --uid");
	return OK;
}

// Makes our mounts private, and drops capabilities to those of docs/ISOLATION.md CAP-4.
static fallible warden_drop_capabilities(const struct options *options)
{
	struct rlimit files;

	if (options->lock != UINT64_MAX)
		fcntl((int)options->lock, F_SETFD, FD_CLOEXEC);
	umask(022);
	if (unshare(CLONE_NEWNS) || mount_private())
		return err_hint(err_sys(errno, "leave the host's mount namespace"),
				"run cove as root");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (weak(USERNS)) // a box's capabilities are then taken from ours
		return OK;
	return caps_keep(caps_warden());
}

// The best that works, or the requested one.
static enum box_network_by choose_net(const struct probe_row *rows, size_t count, const char *asked)
{
	static const struct {
		const char *feature;
		enum box_network_by by;
	} ways[] = {{PROBE_SK_LOOKUP, NETWORK_BY_SK_LOOKUP}, {PROBE_NFT, NETWORK_BY_NFT}};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (asked && strcmp(asked, box_network_word(ways[i].by)) != 0)
			continue;
		for (size_t at = 0; at < count; at++)
			if (rows[at].ok && !strcmp(rows[at].feature, ways[i].feature))
				return ways[i].by;
	}
	return NETWORK_BY_NONE;
}

static fallible check_host(struct warden *warden, const char *steer)
{
	struct probe_row rows[PROBE_ROWS_MAX];
	size_t count = probe_all(warden->data, rows, PROBE_ROWS_MAX);

	box_network_begin(&warden->network, choose_net(rows, count, steer));
	for (size_t i = 0; i < count; i++) {
		if (rows[i].ok)
			continue;
		if (rows[i].required)
			return err_hint(err_new(UNAVAILABLE, "host_lacks",
						"this host lacks %s (%s)", rows[i].feature,
						rows[i].found),
					"%s", rows[i].fix);
		log_event(LOG_INFO, "host.lacks", "feature", rows[i].feature, "found",
			  rows[i].found, "without", rows[i].without, NULL);
	}
	return OK;
}

static fallible open_groups(struct warden *warden)
{
	auto_free struct cgroup_host *host = mem_new_of(struct cgroup_host);
	char instance[CGROUP_INSTANCE_ROOM];
	struct stat st;

	TRY(cgroup_instance(warden->data, instance));
	TRY(cgroup_discover(host));
	TRY(groups_open(host, instance, &warden->groups));
	if (!fstat(warden->data, &st))
		groups_share_disk(warden->groups, st.st_dev);
	return OK;
}

static fallible destroy_rest(struct warden *warden)
{
	char text[16];
	int destroyed = 0;

	if (!weak(INVENTORY))
		TRY(groups_destroy(warden->groups, warden->boxes, &destroyed),
		    "destroy the leftovers of an earlier warden");
	snprintf(text, sizeof(text), "%d", destroyed);
	if (destroyed)
		log_event(LOG_WARN, "leftovers.destroyed", "boxes", text, NULL);
	return OK;
}

// Makes the host's own template now, so that no box waits for it. On failure other templates still
// work; a create from this one reports the error.
static void make_host_template(struct warden *warden)
{
	auto_fd root = -1;
	auto_fd usr = -1;
	auto_err err = template_find(warden->templates, "host", &root, &usr);

	if (err)
		log_event(LOG_WARN, "template.host", "trail", err_trail(err), NULL);
}

static fallible open_run(struct warden *warden, const struct options *options)
{
	auto_fd run = open(options->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (run < 0)
		return err_sys(errno, "open the run directory %s", options->run);
	TRY(box_state_boot(warden->boot));
	TRY(box_state_open_dir(run, &warden->state_dir));
	return box_listener_open_dir(run, (uid_t)options->uid, (gid_t)options->gid,
				     &warden->listeners);
}

static void open_ids(struct warden *warden)
{
	struct rlimit files = {0};
	uint64_t most, apart = FDS_APART;

	getrlimit(RLIMIT_NOFILE, &files);
	apart += files.rlim_cur / 8 < IDS_HELD ? files.rlim_cur / 8 : IDS_HELD;
	most = files.rlim_cur > apart + 512 ? (files.rlim_cur - apart) / FDS_A_BOX : 64;
	warden->usual = LIMITS_DEFAULT;
	warden->boxes_max = most < ORDER_BOXES_MAX ? (uint32_t)most : ORDER_BOXES_MAX;
	// As many again may rest, and one is the jail's.
	warden->ids = ids_open(2 * warden->boxes_max < SLOTS_MAX ? 2 * warden->boxes_max + 1
								 : SLOTS_MAX);
}

static fallible open_door(struct warden *warden, const struct options *options)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	auto_fd run = open(options->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (run < 0 || fd < 0)
		return err_sys(errno, "open the run directory %s", options->run);
	unlinkat(run, SOCKET, 0);
	// Bind by way of the fd: a run directory may be longer than sun_path, and must be the one
	// opened.
	snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/" SOCKET, run);
	umask(0177);
	if (bind(fd, (struct sockaddr *)&name, sizeof(name)) || listen(fd, 4))
		return err_sys(errno, "listen on %s/" SOCKET, options->run);
	umask(022);
	if (fchownat(run, SOCKET, (uid_t)options->uid, (gid_t)options->gid, AT_SYMLINK_NOFOLLOW))
		return err_sys(errno, "give %s/" SOCKET " to the daemon", options->run);
	warden->listener = take_fd(&fd);
	return OK;
}

static fallible warden_start_watch(struct warden *warden, int fd, enum warden_tag tag)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag};

	if (fd < 0 || epoll_ctl(warden->epoll, EPOLL_CTL_ADD, fd, &event))
		return err_sys(errno, "watch descriptor %d", fd);
	return OK;
}

// Blocked from the start, so that no signal interrupts between two steps; read when all is open.
static fallible block_signals(struct warden *warden)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	warden->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return warden->signals < 0 ? err_sys(errno, "make a signalfd") : OK;
}

// SIGTERM during the start: exit at once, and leave boxes as they are. SIGINT waits until the boxes
// that it ends are known.
static bool is_asked_to_leave(struct warden *warden)
{
	sigset_t pending;

	warden->stopping = !sigpending(&pending) && sigismember(&pending, SIGTERM) &&
			   !sigismember(&pending, SIGINT);
	return warden->stopping;
}

static fallible open_loop(struct warden *warden)
{
	TRY(warden_start_watch(warden, warden->signals, TAG_SIGNALS));
	TRY(warden_start_watch(warden, zygote_fd(warden->zygote), TAG_ZYGOTE));
	return warden_start_watch(warden, warden->listener, TAG_LISTENER);
}

static uint64_t host_files_max(void)
{
	char text[32];

	if (fd_get(AT_FDCWD, "/proc/sys/fs/file-max", text, sizeof(text)) <= 0)
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

static fallible warden_start_begin(struct warden *warden, const struct options *options)
{
	auto_recover recover = NULL;
	uint32_t slot;

	assert(options->data && options->run); // checked by read_options()
	TRY(block_signals(warden));
	TRY(warden_drop_capabilities(options));
	ns_prepare();
	if (options->holds != UINT64_MAX)
		TRY(blocked_open(warden, (int)options->holds));
	warden->uid = (uid_t)options->uid;
	warden->data = open(options->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (warden->data < 0)
		return err_sys(errno, "open the data directory %s", options->data);
	warden->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (warden->epoll < 0)
		return err_sys(errno, "make an epoll set");
	warden->files_max = host_files_max();
	TRY(check_host(warden, options->steer));
	TRY(open_groups(warden));
	TRY(open_run(warden, options));
	open_ids(warden);
	if (is_asked_to_leave(warden))
		return OK;
	TRY(recover_boxes(warden, &recover), "recover the boxes of an earlier warden");
	kill_point("warden.start", "recovered");
	TRY(destroy_rest(warden));
	kill_point("warden.start", "leaked_ended");
	// Before the filter: boxes inherit from the zygote.
	TRY(zygote_start(warden->groups->unified, &warden->zygote));
	TRY(deferred_unmount_start(&warden->unmount));
	if (is_asked_to_leave(warden))
		return OK;
	TRY(disk_open(warden->data, options->disk, &options->pool, &warden->disk),
	    "open the disks");
	TRY(recover_disks(warden, recover), "recover the disks of an earlier warden");
	TRY(templates_open(warden->data, &warden->templates), "open the templates");
	TRY(archives_open(warden, &warden->archives), "open the archives");
	TRY(snapshots_open(warden, &warden->snapshots), "open the snapshots");
	TRY(volumes_open(warden, &warden->volumes), "open the volumes");
	if (is_asked_to_leave(warden))
		return OK;
	make_host_template(warden);
	TRY(ids_take(warden->ids, &slot, &warden->jail_userns), "open the id range of the jail");
	kill_point("warden.start", "disks_recovered");
	TRY(open_door(warden, options));
	kill_point("warden.start", "listening");
	TRY(open_loop(warden));
	secret_random(&warden->epoch, sizeof(warden->epoch));
	TRY(caps_no_new_privs());
	if (weak(JAIL)) // unpacking outside of the jail would run under this filter
		return OK;
	return seccomp_confine(SECCOMP_WARDEN, syscalls_warden);
}

fallible start_warden(int argc, char **argv, struct warden **out)
{
	struct warden *warden = mem_new_of(struct warden);
	struct options options;
	struct err *err = read_options(argc, argv, &options);

	warden->jail_door.into = -1;
	warden->data = warden->epoll = warden->listener = warden->daemon = warden->signals = -1;
	warden->state_dir = warden->listeners = warden->network.home = warden->brought = -1;
	warden->boxes = map_new();
	warden->watched = map_new();
	link_init(&warden->building);
	link_init(&warden->teardowns);
	link_init(&warden->retries);
	link_init(&warden->repairs);
	link_init(&warden->limit_jobs);
	link_init(&warden->replies);
	if (!err)
		err = warden_start_begin(warden, &options);
	if (err || warden->stopping)
		start_undo(take_ptr(warden));
	if (!err)
		*out = warden;
	return err;
}

static void free_boxes(struct warden *warden)
{
	struct warden_box *box;

	for (size_t at = 0; (box = warden_box_next(warden, &at));) {
		warden_box_close(warden, box); // the box keeps its own mounts
		free(box);
	}
	map_free(warden->boxes);
}

void start_undo(struct warden *warden)
{
	if (!warden)
		return;
	zygote_stop(warden->zygote);
	free_boxes(warden);
	deferred_unmount_stop(warden->unmount);
	archives_close(warden);
	snapshots_close(warden->snapshots);
	volumes_close(warden->volumes);
	if (warden->templates)
		templates_close(warden->templates);
	if (warden->disk)
		disk_close(warden->disk);
	if (warden->groups)
		jail_close(warden->groups, &warden->jail_door);
	groups_close(warden->groups);
	ids_close(warden->ids);
	fd_drop(&warden->network.home);
	fd_drop(&warden->epoll);
	fd_drop(&warden->listener);
	fd_drop(&warden->signals);
	fd_drop(&warden->data);
	fd_drop(&warden->state_dir);
	fd_drop(&warden->listeners);
	map_free(warden->watched);
	free(warden);
}
