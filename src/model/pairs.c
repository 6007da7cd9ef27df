#include "model/pairs.h"

#include "base/mem.h"

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

static struct pair *find(const struct pairs *pairs, struct str name)
{
	for (size_t i = 0; i < pairs->count; i++)
		if (str_is(name, pairs->at[i].name))
			return &pairs->at[i];
	return NULL;
}

void pairs_set(struct pairs *pairs, struct str name, struct str value)
{
	struct pair *pair = find(pairs, name);

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
	const struct pair *pair = find(pairs, name);

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

static bool is_env_name(struct str name)
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

		if (!is_env_name(name))
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
	if (text.len > LABEL_VALUE_MAX)
		return false;
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.at[i] < ' ' || text.at[i] == 0x7f)
			return false;
	return true;
}

fallible pairs_read_labels(const struct json *object, struct pairs *out)
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

void pairs_write(struct json_out *out, const struct pairs *pairs)
{
	json_begin(out, '{');
	for (size_t i = 0; i < pairs->count; i++)
		json_put_text(out, pairs->at[i].name, pairs->at[i].value);
	json_end(out, '}');
}
