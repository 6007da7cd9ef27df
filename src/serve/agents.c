// Opens agent sessions with the operator's settings: size classes, directory of run logs, quota
// accounts. If their state cannot be read the daemon runs without agent sessions, and logs an
// error.
//
// syscalls: mkdirat openat read close
#include "serve/agents.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/faults.h"
#include "agent/local_backend.h"
#include "agent/results.h"
#include "agent/session.h"
#include "base/log.h"
#include "base/mem.h"
#include "execution/execution.h"
#include "http/http.h"
#include "types/profile.h"
#include "types/timers.h"

#define RUNS "runs"   // logs of runs
#define BLOBS "blobs" // logs and artifacts of executions

struct serve_agents {
	struct local *site;
	struct agent_sessions *agents;
	struct results *results;
	struct executions *executions;
	struct profiles profiles; // for agent sessions
};

static fallible open_directory(int daemon_dir, const char *name, int *out)
{
	if (mkdirat(daemon_dir, name, 0700) && errno != EEXIST)
		return err_sys(errno, "make the directory %s", name);
	*out = openat(daemon_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *out < 0 ? err_sys(errno, "open the directory %s", name) : OK;
}

// "cpus=4 memory=12G disk=20G max=100": the limits of a class; absent ones keep their value.
static fallible class_read(struct str text, struct limits *limits, uint64_t *max)
{
	struct str word;

	while (text.len && str_cut(&text, ' ', &word)) {
		struct str name;
		uint64_t number = 0;
		bool good;

		if (!word.len)
			continue;
		good = str_cut(&word, '=', &name) && word.at;
		if (good && str_is(name, "memory"))
			good = str_to_bytes(word, &limits->memory);
		else if (good && str_is(name, "disk"))
			good = str_to_bytes(word, &limits->disk);
		else if (good && str_is(name, "pids")) {
			good = str_to_u64(word, 1, UINT32_MAX, &number);
			limits->pids = (uint32_t)number;
		} else if (good && str_is(name, "cpus")) {
			good = str_to_u64(word, 1, 4096, &number);
			limits->cpu_milli = (uint32_t)number * 1000;
		} else if (good && str_is(name, "max"))
			good = str_to_u64(word, 0, UINT32_MAX, max);
		else
			good = false;
		if (!good)
			return err_hint(err_new(INVALID, "bad_config", "a size class is malformed"),
					"like 'cpus=4 memory=12G disk=20G pids=1024 max=100'");
	}
	return OK;
}

// A size class may ask for more than this host has: it is capped to the host.
static void fit(const struct manager *manager, struct limits *limits)
{
	const struct spec_bounds *bounds = manager_bounds(manager);
	uint64_t disk = admit_disk(manager->admit);

	if (limits->memory > bounds->memory_max)
		limits->memory = bounds->memory_max;
	if (limits->cpu_milli > bounds->cpu_milli_max)
		limits->cpu_milli = bounds->cpu_milli_max;
	if (disk && limits->disk > disk)
		limits->disk = disk;
}

// `manager` NULL: only checks the syntax.
static fallible read_classes(const struct config *config, struct manager *manager,
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
		TRY(class_read(str_of(words[i]), limits, &max[i]));
		if (manager)
			fit(manager, limits);
	}
	return OK;
}

static struct tape_quota *output_of(void *arg, const char *tenant)
{
	struct manager *manager = arg;

	return &accounts_get(&manager->accounts, tenant)->output;
}

static void read_boot(char room[LEASE_BOOT_LEN + 1])
{
	auto_fd fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, room, LEASE_BOOT_LEN) != LEASE_BOOT_LEN)
		room[0] = '\0';
	room[LEASE_BOOT_LEN] = '\0';
}

static void offer_list(struct choices *choices, enum choice choice, char **words,
		       const char *before, const char *after)
{
	auto_buf text = BUF_INIT(CHOICES_BYTES_MAX);
	struct json_out out = json_to(&text);

	if (!words || !words[0])
		return;
	buf_text(&text, before);
	json_begin(&out, '[');
	for (; *words; words++)
		json_add_text(&out, *words);
	json_end(&out, ']');
	buf_text(&text, after);
	if (buf_ok(&text))
		choices_offer(choices, choice, buf_view(&text));
}

// What a profile gives to an agent session: time, requests and storage of an execution are not its.
static struct err *offer_profile(void *arg, struct str name, struct choices *choices)
{
	const struct serve_agents *room = arg;
	const struct profile *profile = profiles_find(&room->profiles, name);
	auto_free char *limits = NULL;

	if (!profile)
		return err_hint(
			err_new(INVALID, "no_profile", "there is no profile '%.64s'", name.at),
			"a section [profile NAME] of the server's configuration makes one");
	limits = mem_fmt("{\"memoryMB\":%llu,\"cpus\":%g,\"pids\":%llu}",
			 (unsigned long long)(profile->limits.memory >> 20),
			 (double)profile->limits.cpu_milli / 1000,
			 (unsigned long long)profile->limits.pids);
	choices_offer(choices, CHOICE_LIMITS, str_of(limits));
	if (!choices->text[CHOICE_TEMPLATE] && !choices->text[CHOICE_IMAGE]) {
		if (profile->template[0])
			choices_set_template(choices, profile->template);
		if (profile->image)
			choices_set_image(choices, profile->image);
	}
	offer_list(choices, CHOICE_NETWORK, profile->allow, "{\"mode\":\"allow\",\"allow\":", "}");
	offer_list(choices, CHOICE_SECRETS, profile->secrets, "", "");
	return OK;
}

static fallible open_results(const struct config *config, struct gateway *gateway,
			     struct store *store, int daemon_dir, struct serve_agents *room)
{
	struct results_options options = {
		.loop = gateway->manager->loop,
		.store = store,
		.output_of = output_of,
		.output_arg = gateway->manager,
		.max = config->results_max,
	};

	TRY(open_directory(daemon_dir, BLOBS, &options.dir));
	TRY(results_open(&options, &room->results));
	gateway->results = room->results;
	return OK;
}

// If their state cannot be read the daemon runs without executions.
static fallible open_executions(const struct config *config, struct gateway *gateway,
				struct store *store, struct serve_agents *room)
{
	struct executions_options options = {
		.loop = gateway->manager->loop,
		.store = store,
		.manager = gateway->manager,
		.results = room->results,
	};
	auto_err err = executions_open(&options, &room->executions);

	if (err && store_health(store) == STORE_FINE)
		return take_ptr(err);
	if (err) {
		log_event(LOG_ERROR, "daemon.no_executions", "trail", err_trail(err), NULL);
		return OK;
	}
	gateway->executions = room->executions;
	return executions_configure(room->executions, str_of(config->sections),
				    config->executions_max, config->executions_queue);
}

fallible serve_agents_open(const struct config *config, struct gateway *gateway,
			   struct store *store, int daemon_dir, struct serve_agents **out)
{
	struct serve_agents *room = mem_new_of(struct serve_agents);
	struct local_options site = {.manager = gateway->manager,
				     .data = daemon_dir,
				     .profile = offer_profile,
				     .profile_arg = room};
	struct agents_options options = {
		.loop = gateway->manager->loop,
		.store = store,
		.isolate = config->isolate,
		.tag = config->tag,
		.threshold = config->session_space,
		.input_share = config->session_input,
		.output_of = output_of,
		.output_arg = gateway->manager,
	};
	auto_err err = OK;

	if (!strcmp(config->dev, "on"))
		faults_open(gateway->manager->loop);
	timers_scale((uint32_t)config->time_scale);
	http_keepalive((uint32_t)timer_ms(TIMER_QUIET));
	TRY(read_classes(config, gateway->manager, site.classes, options.class_max));
	TRY(open_directory(daemon_dir, RUNS, &options.dir));
	TRY(open_results(config, gateway, store, daemon_dir, room));
	TRY(open_executions(config, gateway, store, room));
	TRY(profiles_read(str_of(config->sections), &room->profiles));
	read_boot(site.boot);
	room->site = local_new(&site);
	options.backend = local_backend(room->site);
	*out = room;
	err = agents_open(&options, &room->agents);
	if (!err) {
		gateway->agents = room->agents;
		sweep_add(gateway->sweep, "sessions", agents_sweep, room->agents);
	} else if (store_health(store) == STORE_FINE) {
		return take_ptr(err);
	} else {
		log_event(LOG_ERROR, "daemon.no_agent_sessions", "trail", err_trail(err), NULL);
	}
	return OK;
}

fallible serve_agents_check(const struct config *config)
{
	struct limits classes[OWNER_CLASSES];
	uint64_t max[OWNER_CLASSES];

	return read_classes(config, NULL, classes, max);
}

void serve_agents_load_config(struct serve_agents *room, const struct config *config,
			      struct manager *manager)
{
	struct agents_options options = {
		.isolate = config->isolate,
		.tag = config->tag,
		.threshold = config->session_space,
		.input_share = config->session_input,
	};
	struct limits classes[OWNER_CLASSES];
	auto_err err = read_classes(config, manager, classes, options.class_max);

	if (!room || err)
		return;
	local_set_classes(room->site, classes);
	profiles_done(&room->profiles);
	err_free(profiles_read(str_of(config->sections), &room->profiles)); // it was checked
	results_configure(room->results, config->results_max);
	if (room->executions)
		err_free(executions_configure(room->executions, str_of(config->sections),
					      config->executions_max, config->executions_queue));
	if (room->agents)
		agents_configure(room->agents, &options);
}

void serve_agents_start(struct serve_agents *room)
{
	if (!room)
		return;
	results_start(room->results);
	if (room->executions)
		executions_start(room->executions);
	if (room->agents)
		agents_start(room->agents);
}

void serve_agents_drain(struct serve_agents *room, int64_t deadline)
{
	if (room && room->executions)
		executions_drain(room->executions);
	auto_err err = room && room->agents ? agents_drain(room->agents, deadline) : OK;

	if (err)
		log_event(LOG_WARN, "daemon.runners_left", "trail", err_trail(err), NULL);
}
