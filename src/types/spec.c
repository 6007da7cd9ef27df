// A create's body becomes a spec. Each limit is one row: its name, its unit and its range; the rows
// read it and name the range when it is missed.
#include "types/spec.h"

#include <stdio.h>

#include "base/mem.h"
#include "types/timers.h"

#define MIB (1ull << 20)
#define CPU_MILLI_MIN 50

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static fallible spec_read_network(const struct json *network, struct spec *spec)
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	if (!network)
		return OK;
	TRY(policy_read(network, POLICY_OFF, &policy));
	TRY(policy_inherit(&policy, NULL));
	spec->mode_said = json_get(network, "mode") || json_get(network, "allow");
	spec->network = policy_new(&policy);
	return OK;
}

static fallible out_of_range(const char *where, double min, double max)
{
	return err_new(INVALID, "bad_field", "'%s' must be within %g and %.15g", where, min, max);
}

// A whole number of `unit`s within min..max units.
static fallible read_scaled(const struct json *limits, const char *key, uint64_t unit, uint64_t min,
			    uint64_t max, uint64_t *out)
{
	const struct json *value = json_get(limits, key);
	uint64_t number = 0;
	char where[40];

	if (!value)
		return OK;
	snprintf(where, sizeof(where), "limits.%s", key);
	TRY(json_want(value, where, JSON_NUMBER));
	struct err *err = json_u64(value, where, min, max, &number);

	if (err) {
		err_free(err);
		return out_of_range(where, (double)min, (double)max);
	}
	*out = number * unit;
	return OK;
}

static fallible read_cpus(const struct json *limits, uint32_t milli_max, uint32_t *out)
{
	const struct json *value = json_get(limits, "cpus");
	double min = CPU_MILLI_MIN / 1000.0, max = milli_max / 1000.0, cpus = 0;

	if (!value)
		return OK;
	TRY(json_want(value, "limits.cpus", JSON_NUMBER));
	struct err *err = json_double(value, "limits.cpus", min, max, &cpus);

	if (err) {
		err_free(err);
		return out_of_range("limits.cpus", min, max);
	}
	*out = (uint32_t)(cpus * 1000 + 0.5);
	return OK;
}

static fallible spec_read_limits(const struct json *from, const struct spec_bounds *bounds,
				 struct spec *spec)
{
	static const char *const known[] = {"memoryMB",	    "cpus",	"pids",	     "diskMB",
					    "inodes",	    "outputMB", "cpuTimeMs", "wallTimeMs",
					    "keptOutputMB", "ioMBps",	NULL};
	const uint64_t ages = 1ull << 42; // ms, or MiB: more than anybody means
	struct limits *to = &spec->limits;
	uint64_t pids = to->pids;

	if (!from)
		return OK;
	TRY(json_want(from, "limits", JSON_OBJECT));
	TRY(json_only(from, known));
	TRY(read_scaled(from, "memoryMB", MIB, 16, bounds->memory_max / MIB, &to->memory));
	TRY(read_cpus(from, bounds->cpu_milli_max, &to->cpu_milli));
	TRY(read_scaled(from, "pids", 1, 8, 32768, &pids));
	TRY(read_scaled(from, "diskMB", MIB, 16, 1ull << 24, &to->disk)); // 16 TiB
	TRY(read_scaled(from, "inodes", 1, 64, UINT32_MAX, &to->inodes));
	TRY(read_scaled(from, "outputMB", MIB, 1, bounds->output_max / MIB, &to->output));
	TRY(read_scaled(from, "keptOutputMB", MIB, 1, most(to->disk, to->output) / MIB,
			&to->kept_output));
	TRY(read_scaled(from, "ioMBps", MIB, 1, 1 << 20, &to->io));
	TRY(read_scaled(from, "cpuTimeMs", 1, 1, ages, &to->cpu_time_ms));
	TRY(read_scaled(from, "wallTimeMs", 1, 1, ages, &to->wall_time_ms));
	to->pids = (uint32_t)pids;
	spec->disk_asked = json_get(from, "diskMB") != NULL;
	return OK;
}

static fallible spec_read_names(const struct json *object, struct spec *spec)
{
	struct str name = {0}, template = STR("host");

	TRY(json_str(json_get(object, "name"), "name", &name));
	TRY(json_str(json_get(object, "template"), "template", &template));
	if (name.at && !id_is_name(name))
		return err_hint(err_new(INVALID, "bad_name", "this is not a name for a sandbox"),
				"1 to %d of a-z, 0-9 and -, beginning with no -, and not of the "
				"form of an id",
				ID_NAME_MAX);
	if (!id_is_template(template) || template.len >= sizeof(spec->template))
		return err_hint(err_new(INVALID, "bad_template", "this is not a template's name"),
				"1 to 63 of a-z, 0-9 and ._-; 'cove template ls' shows them");
	snprintf(spec->name, sizeof(spec->name), STR_FMT, STR_ARG(name));
	snprintf(spec->template, sizeof(spec->template), STR_FMT, STR_ARG(template));
	return OK;
}

void spec_done(struct spec *spec)
{
	env_map_done(&spec->env);
	env_map_done(&spec->labels);
	free(spec->workdir);
	retention_done(&spec->retention);
	policy_free(spec->network);
}

// Reads `user` and `workdir`.
static fallible read_stance(const struct json *object, struct spec *spec)
{
	struct str user = {0}, workdir = {0};

	TRY(json_str(json_get(object, "user"), "user", &user));
	TRY(json_str(json_get(object, "workdir"), "workdir", &workdir));
	if (!image_is_user(user))
		return err_hint(err_new(INVALID, "bad_field", "'user' is no name of a user"),
				"name, uid, name:group or uid:gid");
	if (workdir.len && !image_is_workdir(workdir))
		return err_new(INVALID, "bad_field",
			       "'workdir' must be an absolute path of up to %d bytes without '..'",
			       IMAGE_WORKDIR_MAX);
	snprintf(spec->user, sizeof(spec->user), STR_FMT, STR_ARG(user));
	if (workdir.len)
		spec->workdir = mem_dup(workdir.at, workdir.len);
	return OK;
}

fallible spec_read(const struct json *object, const struct spec_bounds *bounds, struct spec *out)
{
	static const char *const known[] = {
		"name",	   "template",	 "limits",    "env",	 "labels",
		"network", "sleepAfter", "keepAlive", "ttl",	 "containerTimeouts",
		"baseUrl", "ephemeral",	 "user",      "workdir", NULL};
	auto_spec spec = {
		.limits = LIMITS_DEFAULT, .template = "host", .retention = RETENTION_DEFAULT};

	spec.retention.sleep_after_ms = (uint64_t)timer_ms(TIMER_SLEEP);
	spec.limits.memory = least(spec.limits.memory, bounds->memory_max);
	spec.limits.output = least(spec.limits.output, bounds->output_max);
	if (spec.limits.cpu_milli > bounds->cpu_milli_max)
		spec.limits.cpu_milli = bounds->cpu_milli_max;
	if (object) {
		TRY(json_want(object, "body", JSON_OBJECT));
		TRY(json_only(object, known));
		TRY(spec_read_network(json_get(object, "network"), &spec));
		TRY(spec_read_names(object, &spec));
		TRY(spec_read_limits(json_get(object, "limits"), bounds, &spec));
		TRY(env_map_read_env(json_get(object, "env"), &spec.env));
		TRY(read_stance(object, &spec));
		TRY(env_map_read_labels(json_get(object, "labels"), &spec.labels));
		TRY(retention_read(object, &spec.retention));
		TRY(json_bool(json_get(object, "ephemeral"), "ephemeral", &spec.ephemeral));
		TRY(retention_read_span(json_get(object, "ttl"), "ttl", &spec.ttl_ms));
	}
	*out = spec;
	spec.env = spec.labels = (struct env_map){0};
	spec.workdir = NULL;
	spec.retention.base_url = NULL;
	spec.network = NULL;
	return OK;
}

static void put_or_null(struct json_out *out, const char *key, uint64_t value)
{
	json_key(out, key);
	if (value)
		json_add_int(out, (int64_t)value);
	else
		json_add_null(out);
}

void spec_write_limits(struct json_out *out, const struct limits *limits)
{
	json_begin(out, '{');
	put_or_null(out, "memoryMB", limits->memory / MIB);
	json_key(out, "cpus");
	json_add_double(out, limits->cpu_milli / 1000.0);
	put_or_null(out, "pids", limits->pids);
	put_or_null(out, "diskMB", limits->disk / MIB);
	put_or_null(out, "inodes", limits->inodes);
	put_or_null(out, "outputMB", limits->output / MIB);
	put_or_null(out, "keptOutputMB", limits_kept_output(limits) / MIB);
	put_or_null(out, "ioMBps", limits->io / MIB);
	put_or_null(out, "cpuTimeMs", limits->cpu_time_ms);
	put_or_null(out, "wallTimeMs", limits->wall_time_ms);
	json_end(out, '}');
}
