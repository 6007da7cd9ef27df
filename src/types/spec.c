// A create's body becomes a spec. Each limit is one row: its name, its unit and its range; the rows
// read it and name the range when it is missed.
#include "types/spec.h"

#include <stdio.h>

#include "base/mem.h"
#include "types/launch.h"
#include "types/reference.h"
#include "types/timers.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

// `network`, and the names in `secrets`.
static fallible spec_read_network(const struct json *object, struct spec *spec)
{
	const struct json *network = json_get(object, "network");
	const struct json *secrets = json_get(object, "secrets");
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	if (!network && !secrets)
		return OK;
	TRY(policy_read(network, POLICY_OFF, &policy));
	TRY(policy_add_named(secrets, &policy));
	TRY(policy_inherit(&policy, NULL));
	spec->mode_said = network && (json_get(network, "mode") || json_get(network, "allow"));
	spec->network = policy_new(&policy);
	return OK;
}

static fallible out_of_range(const char *where, double min, double max)
{
	return err_new(INVALID, "bad_field", "'%s' must be within %g and %.15g", where, min, max);
}

// The most of a limit, in units of its row. Some are the host's, or follow from other limits.
static uint64_t limit_max(enum limit limit, const struct spec_bounds *bounds,
			  const struct limits *limits)
{
	uint64_t unit = limit_rows[limit].unit;

	switch (limit) {
	case LIMIT_MEMORY:
		return bounds->memory_max / unit;
	case LIMIT_CPUS:
		return bounds->cpu_milli_max;
	case LIMIT_OUTPUT:
		return bounds->output_max / unit;
	case LIMIT_KEPT_OUTPUT:
		return most(limits->disk, limits->output) / unit;
	default:
		return limit_rows[limit].most;
	}
}

static fallible spec_read_limit(const struct json *from, enum limit limit, uint64_t max,
				struct limits *to)
{
	const struct limit_row *row = &limit_rows[limit];
	const struct json *value = json_get(from, row->key);
	double scale = limit == LIMIT_CPUS ? 1000 : 1, cpus = 0;
	uint64_t number = 0;
	struct err *err;
	char where[40];

	if (!value)
		return OK;
	snprintf(where, sizeof(where), "limits.%s", row->key);
	TRY(json_want(value, where, JSON_NUMBER));
	if (limit == LIMIT_CPUS)
		err = json_double(value, where, (double)row->least / scale, (double)max / scale,
				  &cpus);
	else
		err = json_u64(value, where, row->least, max, &number);
	if (err) {
		err_free(err);
		return out_of_range(where, (double)row->least / scale, (double)max / scale);
	}
	*limit_at(to, limit) = limit == LIMIT_CPUS ? (uint64_t)(cpus * scale + 0.5)
						   : number * row->unit;
	return OK;
}

fallible spec_read_limits(const struct json *from, const struct spec_bounds *bounds,
			  struct limits *to, uint32_t *out_said)
{
	const char *known[LIMIT_COUNT + 1] = {NULL};

	if (!from)
		return OK;
	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		known[i] = limit_rows[i].key;
	TRY(json_want(from, "limits", JSON_OBJECT));
	TRY(json_only(from, known));
	for (enum limit i = 0; i < LIMIT_COUNT; i++) {
		TRY(spec_read_limit(from, i, limit_max(i, bounds, to), to));
		if (json_get(from, limit_rows[i].key))
			*out_said |= 1u << i;
	}
	return OK;
}

static fallible spec_read_names(const struct json *object, struct spec *spec)
{
	struct str name = {0}, template = {0}, snapshot = {0};

	TRY(json_str(json_get(object, "name"), "name", &name));
	TRY(json_str(json_get(object, "template"), "template", &template));
	TRY(json_str(json_get(object, "snapshot"), "snapshot", &snapshot));
	if (snapshot.at && json_get(object, "template"))
		return err_hint(err_new(INVALID, "bad_field",
					"'snapshot' and 'template' exclude each other"),
				"a snapshot is a template, too: name it in one of them");
	if (snapshot.at)
		template = snapshot;
	if (name.at && !id_is_name(name))
		return err_hint(err_new(INVALID, "bad_name", "this is not a name for a sandbox"),
				"1 to %d of a-z, 0-9 and -, beginning with no -, and not of the "
				"form of an id",
				ID_NAME_MAX);
	if (template.at && (!id_is_template(template) || template.len >= sizeof(spec->template)))
		return err_hint(err_new(INVALID, "bad_template", "this is not a template's name"),
				"1 to 63 of a-z, 0-9 and ._-; 'cove template ls' shows them");
	snprintf(spec->name, sizeof(spec->name), STR_FMT, STR_ARG(name));
	snprintf(spec->template, sizeof(spec->template), STR_FMT, STR_ARG(template));
	return OK;
}

fallible spec_read_pull(const struct json *object, enum spec_pull *out)
{
	static const char *const words[] = {"missing", "always", "never"};
	struct str pull = {0};

	TRY(json_str(json_get(object, "pull"), "pull", &pull));
	for (size_t i = 0; pull.at && i < sizeof(words) / sizeof(*words); i++)
		if (str_is(pull, words[i])) {
			*out = (enum spec_pull)i;
			return OK;
		}
	return pull.at ? err_new(INVALID, "bad_field", "'pull' is missing, always or never") : OK;
}

// `image` and `pull`.
static fallible spec_read_image(const struct json *object, struct spec *spec)
{
	struct str image = {0};
	struct reference reference;

	TRY(json_str(json_get(object, "image"), "image", &image));
	TRY(spec_read_pull(object, &spec->pull));
	if (!image.at)
		return OK;
	if (json_get(object, "template") || json_get(object, "snapshot"))
		return err_hint(
			err_new(INVALID, "bad_field", "'image' and 'template' exclude each other"),
			"a template that was pulled before is named by 'template'");
	TRY(reference_read(image, &reference));
	spec->image = mem_dup(image.at, image.len);
	return OK;
}

void spec_done(struct spec *spec)
{
	env_map_done(&spec->env);
	env_map_done(&spec->labels);
	free(spec->workdir);
	free(spec->launch);
	free(spec->image);
	free(spec->image_digest);
	volume_mounts_done(&spec->volumes);
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
	static const char *const known[] = {"name",
					    "template",
					    "limits",
					    "env",
					    "labels",
					    "network",
					    "sleepAfter",
					    "archiveAfter",
					    "keepAlive",
					    "ttl",
					    "containerTimeouts",
					    "baseUrl",
					    "ephemeral",
					    "user",
					    "workdir",
					    "secrets",
					    "image",
					    "pull",
					    "snapshot",
					    "volumes",
					    "start",
					    "ready",
					    NULL};
	auto_spec spec = {.limits = LIMITS_DEFAULT, .retention = RETENTION_DEFAULT};

	spec.retention.sleep_after_ms = (uint64_t)timer_ms(TIMER_SLEEP);
	spec.limits.memory = least(spec.limits.memory, bounds->memory_max);
	spec.limits.output = least(spec.limits.output, bounds->output_max);
	if (spec.limits.cpu_milli > bounds->cpu_milli_max)
		spec.limits.cpu_milli = bounds->cpu_milli_max;
	if (object) {
		TRY(json_want(object, "body", JSON_OBJECT));
		TRY(json_only(object, known));
		TRY(spec_read_network(object, &spec));
		TRY(spec_read_names(object, &spec));
		TRY(spec_read_image(object, &spec));
		TRY(spec_read_limits(json_get(object, "limits"), bounds, &spec.limits,
				     &spec.limits_said));
		spec.disk_asked = spec.limits_said >> LIMIT_DISK & 1;
		TRY(env_map_read_env(json_get(object, "env"), &spec.env));
		TRY(read_stance(object, &spec));
		TRY(launch_take(object, &spec.launch));
		TRY(env_map_ask_labels(json_get(object, "labels"), &spec.labels));
		TRY(volume_mounts_read(json_get(object, "volumes"), &spec.volumes));
		TRY(retention_read(object, &spec.retention));
		TRY(json_bool(json_get(object, "ephemeral"), "ephemeral", &spec.ephemeral));
		TRY(retention_read_span(json_get(object, "ttl"), "ttl", &spec.ttl_ms));
	}
	*out = spec;
	spec.env = spec.labels = (struct env_map){0};
	spec.workdir = spec.launch = spec.image = NULL;
	spec.volumes = (struct volume_mounts){0};
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
	for (enum limit i = 0; i < LIMIT_COUNT; i++) {
		uint64_t value = i == LIMIT_KEPT_OUTPUT ? limits_kept_output(limits)
							: limit_of(limits, i);

		if (i != LIMIT_CPUS) {
			put_or_null(out, limit_rows[i].key, value / limit_rows[i].unit);
			continue;
		}
		json_key(out, limit_rows[i].key);
		json_add_double(out, (double)value / 1000);
	}
	json_end(out, '}');
}
