// Reads and writes IMAGE_FILE, the configuration of an image. The file is untrusted: sizes and
// counts are bounded, user and directory are checked. image_write() refuses what image_read() would
// refuse.
#include "types/image.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "types/launch.h"

static fallible bad_image(const char *what)
{
	return err_new(INVALID, "bad_image", "the image's %s is not as it should be", what);
}

void image_done(struct image *image)
{
	env_map_done(&image->env);
	free(image->argv);
	free(image->launch);
	image->argv = image->launch = NULL;
}

bool image_is_user(struct str word)
{
	for (size_t i = 0; i < word.len; i++)
		if (!isalnum((unsigned char)word.at[i]) && !memchr("_.:$-", word.at[i], 5))
			return false;
	return word.len <= IMAGE_USER_MAX;
}

bool image_is_workdir(struct str path)
{
	struct str rest = path, part;

	for (size_t i = 0; i < path.len; i++)
		if ((unsigned char)path.at[i] < ' ' || path.at[i] == 0x7f)
			return false;
	while (rest.len && str_cut(&rest, '/', &part))
		if (str_is(part, ".."))
			return false;
	return path.len && path.at[0] == '/' && path.len <= IMAGE_WORKDIR_MAX;
}

// "NAME=value": a shell does not accept every name that an image may have, but execve() does.
static fallible image_read_env(const struct json *array, struct env_map *out)
{
	size_t bytes = 0;

	if (!array)
		return OK;
	if (json_type(array) != JSON_ARRAY || json_count(array) > ENV_MAP_ENV_MAX)
		return bad_image("environment");
	for (size_t i = 0; i < json_count(array); i++) {
		struct str value = {0}, name;

		TRY(json_str(json_at(array, i), "Env", &value));
		bytes += value.len;
		if (!value.len || value.at[0] == '=' || !memchr(value.at, '=', value.len) ||
		    memchr(value.at, 0, value.len) || bytes > ENV_MAP_ENV_BYTES)
			return bad_image("environment");
		str_cut(&value, '=', &name);
		env_map_set(out, name, value);
	}
	return OK;
}

static fallible image_read_text(const struct json *config, const char *key,
				bool (*is_good)(struct str), char *out)
{
	struct str text = {0};

	TRY(json_str(json_get(config, key), key, &text));
	if (text.len && !is_good(text))
		return bad_image(key);
	memcpy(out, text.at ? text.at : "", text.len);
	out[text.len] = '\0';
	return OK;
}

static fallible image_read_argv(const struct json *config, char **out)
{
	static const char *const keys[] = {"Entrypoint", "Cmd"};
	auto_buf text = BUF_INIT(IMAGE_BYTES_MAX);
	struct json_out json = json_to(&text);
	size_t count = 0;

	json_begin(&json, '[');
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const struct json *list = json_get(config, keys[i]);

		if (list && json_type(list) != JSON_ARRAY)
			return bad_image(keys[i]);
		for (size_t at = 0; list && at < json_count(list); at++, count++) {
			struct str word = {0};

			TRY(json_str(json_at(list, at), keys[i], &word));
			if (!word.at || memchr(word.at, 0, word.len))
				return bad_image(keys[i]);
			json_add_str(&json, word);
		}
	}
	json_end(&json, ']');
	if (!buf_ok(&text))
		return bad_image("command");
	buf_text(&text, "");
	*out = count ? buf_take(&text) : NULL;
	return OK;
}

fallible image_read(struct str text, struct image *out)
{
	auto_image image = {0};
	auto_json config = NULL;

	TRY(json_read(text, &config));
	if (json_type(config) != JSON_OBJECT)
		return bad_image("config");
	TRY(image_read_env(json_get(config, "Env"), &image.env));
	TRY(image_read_text(config, "User", image_is_user, image.user));
	TRY(image_read_text(config, "WorkingDir", image_is_workdir, image.workdir));
	if (!strcmp(image.workdir, "/"))
		image.workdir[0] = '\0';
	TRY(image_read_argv(config, &image.argv));
	TRY(launch_take(config, &image.launch));
	*out = image;
	image.env = (struct env_map){0};
	image.argv = image.launch = NULL;
	return OK;
}

static fallible write_list(const struct json *config, const char *key, struct json_out *out)
{
	const struct json *array = json_get(config, key);

	if (!array || json_type(array) == JSON_NULL)
		return OK;
	if (json_type(array) != JSON_ARRAY)
		return bad_image(key);
	json_key(out, key);
	json_begin(out, '[');
	for (size_t i = 0; i < json_count(array); i++) {
		struct str word = {0};

		TRY(json_str(json_at(array, i), key, &word));
		if (!word.at || memchr(word.at, 0, word.len))
			return bad_image(key);
		json_add_str(out, word);
	}
	json_end(out, ']');
	return OK;
}

// An object whose values are texts, or whose names alone count.
static fallible image_write_names(const struct json *config, const char *key, bool texts,
				  struct json_out *out)
{
	const struct json *object = json_get(config, key);
	struct json *value;
	struct str name;

	if (!object || json_type(object) == JSON_NULL)
		return OK;
	if (json_type(object) != JSON_OBJECT)
		return bad_image(key);
	json_put_begin(out, key, '{');
	for (size_t at = 0; json_next(object, &at, &name, &value);) {
		auto_free char *word = mem_dup(name.at, name.len);
		struct str text = {0};

		if (texts)
			TRY(json_str(value, key, &text));
		if (memchr(name.at, 0, name.len) || (text.at && memchr(text.at, 0, text.len)))
			return bad_image(key);
		if (texts) {
			json_put_str(out, word, text.at ? text : STR(""));
			continue;
		}
		json_put_begin(out, word, '{');
		json_end(out, '}');
	}
	json_end(out, '}');
	return OK;
}

fallible image_write(const struct json *config, struct buf *out)
{
	static const char *const lists[] = {"Env", "Entrypoint", "Cmd"};
	static const char *const words[] = {"User", "WorkingDir", "StopSignal"};
	struct json_out json = json_to(out);
	auto_image image = {0};

	json_begin(&json, '{');
	for (size_t i = 0; config && i < sizeof(lists) / sizeof(*lists); i++)
		TRY(write_list(config, lists[i], &json));
	for (size_t i = 0; config && i < sizeof(words) / sizeof(*words); i++) {
		struct str text = {0};

		TRY(json_str(json_get(config, words[i]), words[i], &text));
		if (text.len)
			json_put_str(&json, words[i], text);
	}
	if (config) {
		TRY(image_write_names(config, "Labels", true, &json));
		TRY(image_write_names(config, "ExposedPorts", false, &json));
		TRY(image_write_names(config, "Volumes", false, &json));
	}
	json_end(&json, '}');
	if (!buf_ok(out))
		return bad_image("config");
	return image_read(buf_view(out), &image); // refuse now what could not be read again
}
