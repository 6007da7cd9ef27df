#include "model/pairs.h"

#include "base/mem.h"
#include "wire/text.h"

#define LABEL_NAME_MAX 63
#define LABEL_VALUE_MAX 255

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct pair *pairs_find(const struct pairs *pairs, struct str name)
{
	for (size_t i = 0; i < pairs->count; i++)
		if (str_is(name, pairs->at[i].name))
			return &pairs->at[i];
	return NULL;
}

void pairs_set(struct pairs *pairs, struct str name, struct str value)
{
	struct pair *pair = pairs_find(pairs, name);

	if (pair) {
		free(pair->value);
	} else {
		pairs->at = mem_grow(pairs->at, pairs->count + 1, sizeof(*pairs->at));
		pair = &pairs->at[pairs->count++];
		pair->name = mem_dup(name.at, name.len);
	}
	pair->value = mem_dup(value.at, value.len);
}

const char *pairs_get(const struct pairs *pairs, struct str name)
{
	const struct pair *pair = pairs_find(pairs, name);

	return pair ? pair->value : NULL;
}

void pairs_done(struct pairs *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		free(pairs->at[i].name);
		free(pairs->at[i].value);
	}
	free(pairs->at);
	*pairs = (struct pairs){0};
}

static bool pairs_is_env_name(struct str name)
{
	if (!name.len || name.len > LABEL_VALUE_MAX)
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

fallible pairs_read_env(const struct json *object, struct pairs *out)
{
	auto_pairs pairs = {0};
	size_t at = 0, bytes = 0;
	struct json *value;
	struct str name;

	if (is_null(object)) {
		*out = (struct pairs){0};
		return OK;
	}
	TRY(json_want(object, "env", JSON_OBJECT));
	while (json_next(object, &at, &name, &value)) {
		struct str text = {0};

		if (!pairs_is_env_name(name))
			return err_hint(err_new(INVALID, "bad_env",
						"Invalid environment variable name: " STR_FMT,
						(int)(name.len < 64 ? name.len : 64), name.at),
					"names are letters, digits and _, and begin with no digit");
		if (is_null(value))
			continue;
		TRY(json_str(value, "env", &text));
		bytes += name.len + text.len + 2;
		if (pairs.count >= PAIRS_ENV_MAX || bytes > PAIRS_ENV_BYTES)
			return err_new(INVALID, "bad_field",
				       "'env' may have %d entries and %d KiB in all", PAIRS_ENV_MAX,
				       PAIRS_ENV_BYTES / 1024);
		pairs_set(&pairs, name, text);
	}
	*out = pairs;
	pairs = (struct pairs){0};
	return OK;
}

bool pairs_is_label(struct str name)
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
	return text.len <= LABEL_VALUE_MAX && !text_has_control(text);
}

static fallible model_pairs_read_labels(const struct json *object, bool nulls, struct pairs *out)
{
	auto_pairs pairs = {0};
	struct json *value;
	struct str name;
	size_t at = 0;

	if (is_null(object)) {
		*out = (struct pairs){0};
		return OK;
	}
	TRY(json_want(object, "labels", JSON_OBJECT));
	while (json_next(object, &at, &name, &value)) {
		struct str text = {0};

		if (!is_null(value))
			TRY(json_str(value, "labels", &text));
		else if (nulls)
			continue;
		if (is_null(value) || !pairs_is_label(name) || !is_plain(text))
			return err_hint(
				err_new(INVALID, "bad_field", "'labels' has a malformed entry"),
				"names are 1 to %d letters, digits and ._/-; values up to %d "
				"bytes without control characters",
				LABEL_NAME_MAX, LABEL_VALUE_MAX);
		if (pairs.count >= PAIRS_LABELS_MAX)
			return err_new(INVALID, "bad_field", "'labels' may have %d entries",
				       PAIRS_LABELS_MAX);
		pairs_set(&pairs, name, text);
	}
	*out = pairs;
	pairs = (struct pairs){0};
	return OK;
}

fallible pairs_read_labels(const struct json *object, struct pairs *out)
{
	return model_pairs_read_labels(object, false, out);
}

static void pairs_drop(struct pairs *pairs, struct str name)
{
	struct pair *pair = pairs_find(pairs, name);

	if (!pair)
		return;
	free(pair->name);
	free(pair->value);
	*pair = pairs->at[--pairs->count];
}

static void pairs_lay_over(struct pairs *pairs, const struct json *object,
			   const struct pairs *given)
{
	struct json *value;
	struct str name;
	size_t at = 0;

	while (json_next(object, &at, &name, &value))
		if (is_null(value))
			pairs_drop(pairs, name);
	for (size_t i = 0; i < given->count; i++)
		pairs_set(pairs, str_of(given->at[i].name), str_of(given->at[i].value));
}

// The change is made on a copy, which takes the place of the original once it is found good.
static fallible pairs_change(struct pairs *pairs, const struct json *object,
			     const struct pairs *given, size_t count_max, size_t bytes_max,
			     const char *what)
{
	auto_pairs next = {0};
	struct pairs old = *pairs;
	size_t bytes = 0;

	for (size_t i = 0; i < old.count; i++)
		pairs_set(&next, str_of(old.at[i].name), str_of(old.at[i].value));
	pairs_lay_over(&next, object, given);
	for (size_t i = 0; i < next.count; i++)
		bytes += strlen(next.at[i].name) + strlen(next.at[i].value) + 2;
	if (next.count > count_max || bytes > bytes_max)
		return err_new(INVALID, "bad_field",
			       "'%s' would have more than %zu entries, or %zu KiB", what, count_max,
			       bytes_max / 1024);
	*pairs = next;
	next = old;
	return OK;
}

fallible pairs_change_env(const struct json *object, struct pairs *pairs)
{
	auto_pairs given = {0};

	if (is_null(object))
		return OK;
	TRY(pairs_read_env(object, &given));
	return pairs_change(pairs, object, &given, PAIRS_ENV_MAX, PAIRS_ENV_BYTES, "env");
}

fallible pairs_change_labels(const struct json *object, struct pairs *pairs)
{
	auto_pairs given = {0};

	if (is_null(object))
		return OK;
	TRY(model_pairs_read_labels(object, true, &given));
	return pairs_change(pairs, object, &given, PAIRS_LABELS_MAX, SIZE_MAX, "labels");
}

void pairs_write(struct json_out *out, const struct pairs *pairs)
{
	json_begin(out, '{');
	for (size_t i = 0; i < pairs->count; i++)
		json_put_text(out, pairs->at[i].name, pairs->at[i].value);
	json_end(out, '}');
}
