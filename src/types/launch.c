// Reads and writes `start` and `ready`. A text that was stored is read by the same rules as a
// request: that of a template is a file of it.
#include "types/launch.h"

#include <string.h>

#include "base/mem.h"

#define COMMAND_MAX (32 * 1024)
#define ARGV_MAX 256
#define TEXT_MAX (128 * 1024)

void launch_done(struct launch *launch)
{
	json_free(launch->body);
	*launch = (struct launch){0};
}

static fallible launch_read_command(const struct json *value, const char *key, struct str *out)
{
	TRY(json_str(value, key, out));
	return out->len && out->len <= COMMAND_MAX && !memchr(out->at, 0, out->len)
		       ? OK
		       : err_new(INVALID, "bad_field", "'%s' is empty or too long", key);
}

static fallible launch_read_start(const struct json *value, struct launch *out)
{
	if (!value)
		return OK;
	if (json_type(value) == JSON_BOOL)
		return json_bool(value, "start", &out->of_image);
	if (json_type(value) != JSON_ARRAY)
		return launch_read_command(value, "start", &out->start);
	if (!json_count(value) || json_count(value) > ARGV_MAX)
		return err_new(INVALID, "bad_field", "'start' has 1 to %d words", ARGV_MAX);
	for (size_t i = 0; i < json_count(value); i++) {
		struct str word = {0};

		TRY(json_str(json_at(value, i), "start", &word));
		if (!word.at || memchr(word.at, 0, word.len) || word.len > COMMAND_MAX)
			return err_new(INVALID, "bad_field", "'start' has a bad word");
	}
	out->start_argv = value;
	return OK;
}

static fallible launch_read_ready(const struct json *value, struct launch *out)
{
	static const char *const known[] = {"port", "file", NULL};

	if (!value || json_type(value) != JSON_OBJECT)
		return value ? launch_read_command(value, "ready", &out->ready) : OK;
	TRY(json_only(value, known));
	if (json_get(value, "port"))
		TRY(json_u64(json_get(value, "port"), "ready.port", 1, UINT16_MAX, &out->port));
	if (json_get(value, "file"))
		TRY(launch_read_command(json_get(value, "file"), "ready.file", &out->file));
	return out->port || out->file.at
		       ? OK
		       : err_new(INVALID, "bad_field", "'ready' is a command, {port} or {file}");
}

static fallible launch_read_object(const struct json *object, struct launch *out)
{
	TRY(launch_read_start(json_get(object, "start"), out));
	return launch_read_ready(json_get(object, "ready"), out);
}

static fallible launch_write(const struct json *start, const char *argv, const struct json *ready,
			     char **out)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out json = json_to(&text);

	json_begin(&json, '{');
	if (start || argv)
		json_key(&json, "start");
	if (argv)
		json_add_raw(&json, str_of(argv));
	else if (start)
		json_add_value(&json, start);
	if (ready) {
		json_key(&json, "ready");
		json_add_value(&json, ready);
	}
	json_end(&json, '}');
	if (!buf_ok(&text))
		return err_new(INVALID, "bad_field", "'start' and 'ready' are too long");
	buf_text(&text, "");
	*out = buf_take(&text);
	return OK;
}

fallible launch_take(const struct json *object, char **out)
{
	const struct json *start = json_get(object, "start"), *ready = json_get(object, "ready");
	struct launch launch = {0}; // borrows from the object

	if (start && json_type(start) == JSON_BOOL)
		TRY(json_bool(start, "start", &launch.of_image));
	if (start && json_type(start) == JSON_BOOL && !launch.of_image)
		start = NULL;
	if (!start && !ready)
		return OK;
	TRY(launch_read_object(object, &launch));
	return launch_write(start, NULL, ready, out);
}

fallible launch_read(const char *text, struct launch *out)
{
	auto_launch launch = {0};

	if (!text)
		return OK;
	TRY(json_read(str_of(text), &launch.body));
	TRY(json_want(launch.body, "launch", JSON_OBJECT));
	TRY(launch_read_object(launch.body, &launch));
	*out = launch;
	launch = (struct launch){0};
	return OK;
}

void launch_put(struct json_out *out, const char *text)
{
	static const char *const keys[] = {"start", "ready"};
	auto_launch launch = {0};
	auto_err bad = launch_read(text, &launch);

	for (size_t i = 0; !bad && launch.body && i < sizeof(keys) / sizeof(*keys); i++) {
		const struct json *value = json_get(launch.body, keys[i]);

		if (!value)
			continue;
		json_key(out, keys[i]);
		json_add_value(out, value);
	}
}

fallible launch_fill(char **to, const char *image_launch, const char *image_argv)
{
	auto_launch launch = {0};
	char *text = NULL;

	if (!*to && image_launch)
		*to = mem_str(image_launch);
	TRY(launch_read(*to, &launch));
	if (!launch.of_image)
		return OK;
	if (!image_argv)
		return err_hint(
			err_new(INVALID, "no_start", "the image has neither Entrypoint nor Cmd"),
			"give 'start' a command or a list of words");
	TRY(launch_write(NULL, image_argv, json_get(launch.body, "ready"), &text));
	free(*to);
	*to = text;
	return OK;
}
