// An ordered list of name-value pairs, with the rules of environments and labels. Sizes and counts
// are bounded. A change is checked on a copy, so a failure leaves the original as it was.
#include "types/env_map.h"

#include "base/mem.h"
#include "codec/text.h"

#define LABEL_NAME_MAX 63

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct env_pair *env_map_find(const struct env_map *env_map, struct str name)
{
	for (size_t i = 0; i < env_map->count; i++)
		if (str_is(name, env_map->at[i].name))
			return &env_map->at[i];
	return NULL;
}

void env_map_set(struct env_map *env_map, struct str name, struct str value)
{
	struct env_pair *pair = env_map_find(env_map, name);

	if (pair) {
		free(pair->value);
	} else {
		env_map->at = mem_grow(env_map->at, env_map->count + 1, sizeof(*env_map->at));
		pair = &env_map->at[env_map->count++];
		pair->name = mem_dup(name.at, name.len);
	}
	pair->value = mem_dup(value.at, value.len);
}

const char *env_map_get(const struct env_map *env_map, struct str name)
{
	const struct env_pair *pair = env_map_find(env_map, name);

	return pair ? pair->value : NULL;
}

void env_map_done(struct env_map *env_map)
{
	for (size_t i = 0; i < env_map->count; i++) {
		free(env_map->at[i].name);
		free(env_map->at[i].value);
	}
	free(env_map->at);
	*env_map = (struct env_map){0};
}

static bool env_map_is_env_name(struct str name)
{
	if (!name.len || name.len > ENV_MAP_LABEL_VALUE)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];

		if (!is_letter(c) && c != '_' && !(i && is_digit(c)))
			return false;
	}
	return true;
}

static bool is_null(const struct json *value)
{
	return !value || json_type(value) == JSON_NULL;
}

fallible env_map_read_env(const struct json *object, struct env_map *out)
{
	auto_pairs env_map = {0};
	size_t at = 0, bytes = 0;
	struct json *value;
	struct str name;

	if (is_null(object)) {
		*out = (struct env_map){0};
		return OK;
	}
	TRY(json_want(object, "env", JSON_OBJECT));
	while (json_next(object, &at, &name, &value)) {
		struct str text = {0};

		if (!env_map_is_env_name(name))
			return err_hint(err_new(INVALID, "bad_env",
						"Invalid environment variable name: " STR_FMT,
						(int)(name.len < 64 ? name.len : 64), name.at),
					"names are letters, digits and _, and begin with no digit");
		if (is_null(value))
			continue;
		TRY(json_str(value, "env", &text));
		bytes += name.len + text.len + 2;
		if (env_map.count >= ENV_MAP_ENV_MAX || bytes > ENV_MAP_ENV_BYTES)
			return err_new(INVALID, "bad_field",
				       "'env' may have %d entries and %d KiB in all",
				       ENV_MAP_ENV_MAX, ENV_MAP_ENV_BYTES / 1024);
		env_map_set(&env_map, name, text);
	}
	*out = env_map;
	env_map = (struct env_map){0};
	return OK;
}

bool env_map_is_label(struct str name)
{
	if (!name.len || name.len > LABEL_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];

		if (!is_letter(c) && !is_digit(c) && !(i && memchr("._/-", c, 4)))
			return false;
	}
	return true;
}

static bool is_plain(struct str text)
{
	return text.len <= ENV_MAP_LABEL_VALUE && !text_has_control(text);
}

static fallible types_env_map_read_labels(const struct json *object, bool nulls,
					  struct env_map *out)
{
	auto_pairs env_map = {0};
	struct json *value;
	struct str name;
	size_t at = 0;

	if (is_null(object)) {
		*out = (struct env_map){0};
		return OK;
	}
	TRY(json_want(object, "labels", JSON_OBJECT));
	while (json_next(object, &at, &name, &value)) {
		struct str text = {0};

		if (!is_null(value))
			TRY(json_str(value, "labels", &text));
		else if (nulls)
			continue;
		if (is_null(value) || !env_map_is_label(name) || !is_plain(text))
			return err_hint(
				err_new(INVALID, "bad_field", "'labels' has a malformed entry"),
				"names are 1 to %d letters, digits and ._/-; values up to %d "
				"bytes without control characters",
				LABEL_NAME_MAX, ENV_MAP_LABEL_VALUE);
		if (env_map.count >= ENV_MAP_LABELS_MAX)
			return err_new(INVALID, "bad_field", "'labels' may have %d entries",
				       ENV_MAP_LABELS_MAX);
		env_map_set(&env_map, name, text);
	}
	*out = env_map;
	env_map = (struct env_map){0};
	return OK;
}

fallible env_map_read_labels(const struct json *object, struct env_map *out)
{
	return types_env_map_read_labels(object, false, out);
}

void env_map_drop(struct env_map *env_map, struct str name)
{
	struct env_pair *pair = env_map_find(env_map, name);

	if (!pair)
		return;
	free(pair->name);
	free(pair->value);
	*pair = env_map->at[--env_map->count];
}

void env_map_add(struct env_map *env_map, const struct env_map *from)
{
	for (size_t i = 0; i < from->count; i++)
		env_map_set(env_map, str_of(from->at[i].name), str_of(from->at[i].value));
}

static void env_map_lay_over(struct env_map *env_map, const struct json *object,
			     const struct env_map *given)
{
	struct json *value;
	struct str name;
	size_t at = 0;

	while (json_next(object, &at, &name, &value))
		if (is_null(value))
			env_map_drop(env_map, name);
	env_map_add(env_map, given);
}

// The change is made on a copy, which replaces the original if valid.
static fallible env_map_change(struct env_map *env_map, const struct json *object,
			       const struct env_map *given, size_t count_max, size_t bytes_max,
			       const char *what)
{
	auto_pairs next = {0};
	struct env_map old = *env_map;
	size_t bytes = 0;

	env_map_add(&next, &old);
	env_map_lay_over(&next, object, given);
	for (size_t i = 0; i < next.count; i++)
		bytes += strlen(next.at[i].name) + strlen(next.at[i].value) + 2;
	if (next.count > count_max || bytes > bytes_max)
		return err_new(INVALID, "bad_field",
			       "'%s' would have more than %zu entries, or %zu KiB", what, count_max,
			       bytes_max / 1024);
	*env_map = next;
	next = old;
	return OK;
}

fallible env_map_change_env(const struct json *object, struct env_map *env_map)
{
	auto_pairs given = {0};

	if (is_null(object))
		return OK;
	TRY(env_map_read_env(object, &given));
	return env_map_change(env_map, object, &given, ENV_MAP_ENV_MAX, ENV_MAP_ENV_BYTES, "env");
}

static fallible refuse_reserved(const struct json *object)
{
	struct json *value;
	struct str name;
	size_t at = 0;

	if (is_null(object))
		return OK;
	TRY(json_want(object, "labels", JSON_OBJECT));
	while (json_next(object, &at, &name, &value))
		if (str_starts(name, ENV_MAP_RESERVED))
			return err_hint(err_new(INVALID, "bad_label", "the label '%.*s' is cove's",
						(int)(name.len < 80 ? name.len : 80), name.at),
					"choose a name that does not begin with " ENV_MAP_RESERVED);
	return OK;
}

fallible env_map_ask_labels(const struct json *object, struct env_map *out)
{
	TRY(refuse_reserved(object));
	return env_map_read_labels(object, out);
}

fallible env_map_change_labels(const struct json *object, struct env_map *env_map)
{
	auto_pairs given = {0};

	if (is_null(object))
		return OK;
	TRY(refuse_reserved(object));
	TRY(types_env_map_read_labels(object, true, &given));
	return env_map_change(env_map, object, &given, ENV_MAP_LABELS_MAX, SIZE_MAX, "labels");
}

void env_map_write(struct json_out *out, const struct env_map *env_map)
{
	json_begin(out, '{');
	for (size_t i = 0; i < env_map->count; i++)
		json_put_text(out, env_map->at[i].name, env_map->at[i].value);
	json_end(out, '}');
}
