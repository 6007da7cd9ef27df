// Profiles: the built-in table, the operator's sections, and the limits of a request within the
// ceilings. A ceiling that is not set is the profile's own limit, so that a request can only lower
// it; the profile `default` has no ceilings but the host's.
#include "types/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "types/reference.h"

#define PROFILES_MAX 256
#define LIST_MAX 1024
#define SECTION "profile "

static const struct limit_of_profile {
	const char *key, *setting, *what;
	uint64_t unit, setting_unit, least, most;
	size_t at;
} profile_rows[] = {
#define F(field, key, unit, setting, setting_unit, least, most, otherwise, what)                   \
	{key,	       setting, what, unit,                                                        \
	 setting_unit, least,	most, offsetof(struct profile_limits, field)},
	PROFILE_LIMITS(F)
#undef F
};
#define ROWS (sizeof(profile_rows) / sizeof(*profile_rows))

static const struct {
	const char *name;
	uint64_t memory_mb, cpu_s, wall_s, requests;
} built_in[] = {
	{"ELICITATION", 256, 30, 300, 10},	{"TEST_WRITER", 512, 60, 600, 20},
	{"IMPLEMENTATION", 1024, 120, 900, 50}, {"CONTEXT_GATHERING", 256, 30, 300, 30},
	{"VALIDATION", 512, 60, 600, 20},
};

static uint64_t *profile_limit(struct profile_limits *limits, const struct limit_of_profile *row)
{
	return (uint64_t *)((char *)limits + row->at);
}

static struct profile *profiles_add(struct profiles *profiles, struct str name)
{
	struct profile *profile;

	profiles->at = mem_grow(profiles->at, profiles->count + 1, sizeof(*profiles->at));
	profile = &profiles->at[profiles->count++];
	*profile = (struct profile){.limits = {
#define F(field, key, unit, setting, setting_unit, least, most, otherwise, what)                   \
	.field = (otherwise),
					    PROFILE_LIMITS(F)
#undef F
				    }};
	snprintf(profile->name, sizeof(profile->name), STR_FMT, STR_ARG(name));
	return profile;
}

void profiles_done(struct profiles *profiles)
{
	for (size_t i = 0; i < profiles->count; i++) {
		free(profiles->at[i].image);
		mem_free_list(profiles->at[i].argv);
		mem_free_list(profiles->at[i].secrets);
		mem_free_list(profiles->at[i].allow);
		mem_free_list(profiles->at[i].artifacts);
	}
	free(profiles->at);
	*profiles = (struct profiles){0};
}

const struct profile *profiles_find(const struct profiles *profiles, struct str name)
{
	for (size_t i = 0; i < profiles->count; i++)
		if (str_is(name, profiles->at[i].name))
			return &profiles->at[i];
	return NULL;
}

// ------------------------------------------------------------------------- configuration

static fallible profile_bad(const struct profile *profile, struct str key)
{
	return err_new(INVALID, "bad_config",
		       "[profile %s]: the value of '" STR_FMT "' is malformed", profile->name,
		       STR_ARG(key));
}

static bool read_words(struct str text, char ***out)
{
	char **list = mem_new((LIST_MAX + 1) * sizeof(*list));
	size_t count = 0;
	struct str word;
	bool good = true;

	while (text.len && str_cut(&text, ',', &word)) {
		word = str_trim(word);
		good &= count < LIST_MAX;
		if (word.len && good)
			list[count++] = mem_dup(word.at, word.len);
	}
	mem_free_list(*out);
	*out = list;
	return good;
}

// A JSON array of strings.
static bool profile_read_argv(struct str text, char ***out)
{
	auto_json json = NULL;
	auto_err err = json_read(text, &json);
	size_t count;

	if (err || json_type(json) != JSON_ARRAY || !json_count(json) ||
	    json_count(json) > LIST_MAX)
		return false;
	count = json_count(json);
	mem_free_list(*out);
	*out = mem_new((count + 1) * sizeof(**out));
	for (size_t i = 0; i < count; i++) {
		struct str word = {0};
		auto_err bad = json_str(json_at(json, i), "argv", &word);

		if (bad || !word.at)
			return false;
		(*out)[i] = mem_dup(word.at, word.len);
	}
	return true;
}

static bool profile_read_image(struct str value, struct profile *profile)
{
	struct reference reference;
	auto_err err = reference_read(value, &reference);

	if (err || profile->template[0])
		return false;
	free(profile->image);
	profile->image = mem_dup(value.at, value.len);
	return true;
}

// The settings that are no limits. *out_known: there is one of that name.
static bool profile_set_word(struct profile *profile, struct str key, struct str value,
			     bool *out_known)
{
	char ***lists[] = {&profile->secrets, &profile->allow, &profile->artifacts};
	static const char *const names[] = {"secrets", "allow", "artifacts"};

	*out_known = true;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (str_is(key, names[i]))
			return read_words(value, lists[i]);
	if (str_is(key, "argv"))
		return profile_read_argv(value, &profile->argv);
	if (str_is(key, "image"))
		return profile_read_image(value, profile);
	*out_known = str_is(key, "template");
	if (!*out_known || value.len >= sizeof(profile->template) || !id_is_template(value))
		return false;
	snprintf(profile->template, sizeof(profile->template), STR_FMT, STR_ARG(value));
	return !profile->image;
}

// CPUs may be a fraction.
static bool profile_read_number(const struct limit_of_profile *row, struct str value, uint64_t *out)
{
	auto_free char *text = mem_dup(value.at, value.len);
	char *end = NULL;
	double number = strtod(text, &end);

	if (!value.len || *end || !(number >= 0) ||
	    number * (double)row->setting_unit > (double)LIMITS_MAX)
		return false;
	*out = (uint64_t)(number * (double)row->setting_unit + 0.5);
	return *out || !row->least;
}

static fallible profile_set(struct profile *profile, struct str key, struct str value)
{
	bool is_max = str_starts(key, "max_"), known = false;
	struct str name = is_max ? str_skip(key, 4) : key;

	for (size_t i = 0; i < ROWS; i++) {
		const struct limit_of_profile *row = &profile_rows[i];
		uint64_t number = 0;

		if (!str_is(name, row->setting))
			continue;
		if (!profile_read_number(row, value, &number))
			return profile_bad(profile, key);
		*profile_limit(is_max ? &profile->max : &profile->limits, row) = number;
		return OK;
	}
	if (!is_max && profile_set_word(profile, key, value, &known))
		return OK;
	if (known)
		return profile_bad(profile, key);
	return err_hint(err_new(INVALID, "bad_config",
				"[profile %s]: there is no setting '" STR_FMT "'", profile->name,
				STR_ARG(key)),
			"memory_mb, cpu_time_s, wall_time_s, network_requests, storage_mb, cpus, "
			"pids, max_…, template, image, argv, secrets, allow, artifacts");
}

static bool profile_is_name(struct str name)
{
	for (size_t i = 0; i < name.len; i++)
		if (!memchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-",
			    name.at[i], 65))
			return false;
	return name.len && name.len <= PROFILE_NAME_MAX;
}

// NULL: too many, or a bad name.
static struct profile *profiles_open(struct profiles *profiles, struct str name)
{
	struct profile *found = (struct profile *)profiles_find(profiles, name);

	if (found || !profile_is_name(name) || profiles->count >= PROFILES_MAX)
		return found;
	return profiles_add(profiles, name);
}

static fallible profiles_read_lines(struct str text, struct profiles *profiles)
{
	struct profile *profile = NULL;
	struct str line, key;

	while (text.len && str_cut(&text, '\n', &line)) {
		if (line.len > 1 && line.at[0] == '[') {
			struct str section = {line.at + 1, line.len - 2};

			profile = NULL;
			if (!str_starts(section, SECTION))
				continue;
			section = str_trim(str_skip(section, strlen(SECTION)));
			profile = profiles_open(profiles, section);
			if (!profile)
				return err_new(INVALID, "bad_config",
					       "[profile " STR_FMT
					       "]: 1 to %d letters, digits, _.-",
					       STR_ARG(section), PROFILE_NAME_MAX);
		} else if (profile && str_cut(&line, '=', &key)) {
			TRY(profile_set(profile, str_trim(key),
					line.at ? str_trim(line) : STR("")));
		}
	}
	return OK;
}

fallible profiles_read(struct str sections, struct profiles *out)
{
	auto_profiles profiles = {0};

	profiles_add(&profiles, STR(PROFILE_DEFAULT))->open = true;
	for (size_t i = 0; i < sizeof(built_in) / sizeof(*built_in); i++) {
		struct profile_limits *limits =
			&profiles_add(&profiles, str_of(built_in[i].name))->limits;

		limits->memory = built_in[i].memory_mb * LIMITS_MIB;
		limits->cpu_time_ms = built_in[i].cpu_s * 1000;
		limits->wall_time_ms = built_in[i].wall_s * 1000;
		limits->network_requests = built_in[i].requests;
	}
	TRY(profiles_read_lines(sections, &profiles));
	*out = profiles;
	profiles = (struct profiles){0};
	return OK;
}

bool profile_setting(size_t at, const char **out_name, const char **out_what)
{
	if (at >= ROWS)
		return false;
	*out_name = profile_rows[at].setting;
	*out_what = profile_rows[at].what;
	return true;
}

// ------------------------------------------------------------------------------ requests

// In the request's units; 0: as much as the host has.
static uint64_t profile_ceiling(const struct profile *profile, const struct limit_of_profile *row)
{
	uint64_t max = *profile_limit((struct profile_limits *)&profile->max, row);

	if (!max && !profile->open)
		max = *profile_limit((struct profile_limits *)&profile->limits, row);
	return max;
}

static fallible profile_read_limit(const struct profile *profile,
				   const struct limit_of_profile *row, const struct json *value,
				   struct profile_limits *out)
{
	uint64_t ceiling = profile_ceiling(profile, row), got;
	double number = 0, least = (double)row->least;
	char where[48];

	snprintf(where, sizeof(where), "limits.%s", row->key);
	if (row->at == offsetof(struct profile_limits, cpu_milli))
		least = 0.05;
	TRY(json_want(value, where, JSON_NUMBER));
	TRY(json_double(value, where, least, (double)row->most, &number));
	got = (uint64_t)(number * (double)row->unit + 0.5);
	if (ceiling && got > ceiling)
		return err_hint(err_new(INVALID, "above_ceiling",
					"'%s' is more than profile %s allows", where,
					profile->name),
				"%.15g at most; the operator sets max_%s",
				(double)ceiling / (double)row->unit, row->setting);
	*profile_limit(out, row) = got;
	return OK;
}

fallible profile_read_limits(const struct profile *profile, const struct json *object,
			     struct profile_limits *out)
{
	const char *known[ROWS + 1] = {NULL};

	if (!object)
		return OK;
	for (size_t i = 0; i < ROWS; i++)
		known[i] = profile_rows[i].key;
	TRY(json_want(object, "limits", JSON_OBJECT));
	TRY(json_only(object, known));
	for (size_t i = 0; i < ROWS; i++) {
		const struct json *value = json_get(object, profile_rows[i].key);

		if (value)
			TRY(profile_read_limit(profile, &profile_rows[i], value, out));
	}
	return OK;
}

void profile_write_limits(struct json_out *out, const struct profile_limits *limits)
{
	json_begin(out, '{');
	for (size_t i = 0; i < ROWS; i++) {
		const struct limit_of_profile *row = &profile_rows[i];
		uint64_t value = *profile_limit((struct profile_limits *)limits, row);

		json_key(out, row->key);
		if (row->unit == 1000)
			json_add_double(out, (double)value / 1000);
		else
			json_add_int(out, (int64_t)(value / row->unit));
	}
	json_end(out, '}');
}

bool profile_load_limits(const struct json *object, struct profile_limits *out)
{
	for (size_t i = 0; i < ROWS; i++) {
		const struct limit_of_profile *row = &profile_rows[i];
		double number = 0;
		auto_err err = json_double(json_get(object, row->key), row->key, 0,
					   (double)(1ull << 53), &number);

		if (err)
			return false;
		*profile_limit(out, row) = (uint64_t)(number * (double)row->unit + 0.5);
	}
	return true;
}
