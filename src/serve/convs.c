// syscalls: mkdirat openat read close
#include "serve/convs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "conv/conv.h"
#include "conv/faults.h"
#include "conv/site.h"
#include "http/http.h"
#include "model/timers.h"

#define RUNS "runs"

struct serve_convs {
	struct site *site;
	struct convs *convs;
};

static fallible open_runs(int daemon_dir, int *out)
{
	if (mkdirat(daemon_dir, RUNS, 0700) && errno != EEXIST)
		return err_sys(errno, "make the directory of runs");
	*out = openat(daemon_dir, RUNS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *out < 0 ? err_sys(errno, "open the directory of runs") : OK;
}

// A class asks for more than this host has only on paper: it gets what there is.
static void fit(const struct fleet *fleet, struct limits *limits)
{
	const struct spec_bounds *bounds = fleet_bounds(fleet);
	uint64_t disk = admit_disk(fleet->admit);

	if (limits->memory > bounds->memory_max)
		limits->memory = bounds->memory_max;
	if (limits->cpu_milli > bounds->cpu_milli_max)
		limits->cpu_milli = bounds->cpu_milli_max;
	if (disk && limits->disk > disk)
		limits->disk = disk;
}

// `fleet` NULL: only to see whether they are well-formed.
static fallible read_classes(const struct config *config, struct fleet *fleet,
			     struct limits classes[OWNER_CLASSES], uint64_t max[OWNER_CLASSES])
{
	static const struct {
		uint32_t cpu_milli;
		uint64_t memory, disk;
	} defaults[] = {
		[OWNER_STANDARD] = {4000, 12ull << 30, 20ull << 30},
		[OWNER_SMALL] = {1000, 6ull << 30, 12ull << 30},
	};
	const char *words[] = {
		[OWNER_STANDARD] = config->class_standard,
		[OWNER_SMALL] = config->class_small,
	};

	for (int i = 0; i < OWNER_CLASSES; i++) {
		struct limits *limits = &classes[i];

		*limits = LIMITS_DEFAULT;
		limits->pids = 1024;
		limits->cpu_milli = defaults[i].cpu_milli;
		limits->memory = defaults[i].memory;
		limits->disk = defaults[i].disk;
		max[i] = 0;
		TRY(site_read_class(str_of(words[i]), limits, &max[i]));
		if (fleet)
			fit(fleet, limits);
	}
	return OK;
}

static struct tape_quota *output_of(void *arg, const char *tenant)
{
	struct fleet *fleet = arg;

	return &accounts_get(&fleet->accounts, tenant)->output;
}

static void read_boot(char room[LEASE_BOOT_LEN + 1])
{
	auto_fd fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, room, LEASE_BOOT_LEN) != LEASE_BOOT_LEN)
		room[0] = '\0';
	room[LEASE_BOOT_LEN] = '\0';
}

fallible serve_convs_open(const struct config *config, struct door *door, struct store *store,
			  int daemon_dir, struct serve_convs **out)
{
	struct serve_convs *room = mem_new_of(struct serve_convs);
	struct site_options site = {.fleet = door->fleet, .data = daemon_dir};
	struct convs_options options = {
		.loop = door->fleet->loop,
		.store = store,
		.isolate = config->isolate,
		.tag = config->tag,
		.threshold = config->session_space,
		.input_share = config->session_input,
		.output_of = output_of,
		.output_arg = door->fleet,
	};
	auto_err err = OK;

	if (!strcmp(config->dev, "on"))
		faults_open(door->fleet->loop);
	timers_scale((uint32_t)config->time_scale);
	http_keepalive((uint32_t)timer_ms(TIMER_QUIET));
	TRY(read_classes(config, door->fleet, site.classes, options.class_max));
	TRY(open_runs(daemon_dir, &options.dir));
	read_boot(site.boot);
	room->site = site_new(&site);
	options.seam = site_seam(room->site);
	*out = room;
	err = convs_open(&options, &room->convs);
	if (!err) {
		door->convs = room->convs;
		sweep_add(door->sweep, "sessions", convs_sweep, room->convs);
	} else if (store_health(store) == STORE_FINE) {
		return take_ptr(err);
	} else {
		log_event(LOG_ERROR, "daemon.no_sessions", "trail", err_trail(err), NULL);
	}
	return OK;
}

fallible serve_convs_check(const struct config *config)
{
	struct limits classes[OWNER_CLASSES];
	uint64_t max[OWNER_CLASSES];

	return read_classes(config, NULL, classes, max);
}

void serve_convs_heed(struct serve_convs *room, const struct config *config, struct fleet *fleet)
{
	struct convs_options options = {
		.isolate = config->isolate,
		.tag = config->tag,
		.threshold = config->session_space,
		.input_share = config->session_input,
	};
	struct limits classes[OWNER_CLASSES];
	auto_err err = read_classes(config, fleet, classes, options.class_max);

	if (!room || err)
		return;
	site_set_classes(room->site, classes);
	if (room->convs)
		convs_configure(room->convs, &options);
}

void serve_convs_start(struct serve_convs *room)
{
	if (room && room->convs)
		convs_start(room->convs);
}

void serve_convs_drain(struct serve_convs *room, int64_t deadline)
{
	auto_err err = room && room->convs ? convs_drain(room->convs, deadline) : OK;

	if (err)
		log_event(LOG_WARN, "daemon.runners_left", "trail", err_trail(err), NULL);
}
