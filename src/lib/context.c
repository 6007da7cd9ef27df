// The file is one object: {"current": NAME, "contexts": {NAME: {"url": URL, "key": KEY}}}. It
// contains keys: mode 0600 in a directory of mode 0700. It is replaced by rename, so it is never
// read half-written.
#include "lib/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "base/secret.h"
#include "os/path.h"

#define CONTEXT_FILE "contexts.json"
#define CONTEXT_BYTES_MAX (1 << 20)

static void secret_free(char *text)
{
	if (text)
		secret_wipe(text, strlen(text));
	free(text);
}

static void context_done(struct context *context)
{
	free(context->name);
	free(context->url);
	secret_free(context->key);
	*context = (struct context){0};
}

void contexts_done(struct contexts *contexts)
{
	while (contexts->count)
		context_done(&contexts->items[--contexts->count]);
	free(contexts->current);
	contexts->current = NULL;
}

// NULL: neither XDG_CONFIG_HOME nor HOME is an absolute path.
static char *config_home(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (xdg && *xdg == '/')
		return mem_str(xdg);
	return home && *home == '/' ? mem_fmt("%s/.config", home) : NULL;
}

static void wipe_buf(struct buf *text)
{
	if (text->at)
		secret_wipe(text->at, text->len);
}

static fallible bad_file(void)
{
	return err_hint(err_new(INVALID, "bad_contexts", "the contexts file cannot be read"),
			"remove contexts.json of ~/.config/cove, then 'cove login' again");
}

static fallible contexts_read(const struct json *file, struct contexts *out)
{
	const struct json *all = json_get(file, "contexts");
	struct str current = {0}, url, key, name;
	struct json *one;

	if (json_type(file) != JSON_OBJECT || !all || json_type(all) != JSON_OBJECT)
		return bad_file();
	TRY(json_str(json_get(file, "current"), "current", &current));
	for (size_t at = 0; json_next(all, &at, &name, &one);) {
		auto_free char *word = mem_dup(name.at, name.len);
		auto_free char *link = NULL, *secret = NULL;

		url = key = (struct str){0};
		TRY(json_str(json_get(one, "url"), "url", &url));
		TRY(json_str(json_get(one, "key"), "key", &key));
		if (!url.len)
			return bad_file();
		link = mem_dup(url.at, url.len);
		secret = key.len ? mem_dup(key.at, key.len) : NULL;
		TRY(contexts_put(out, word, link, secret));
		if (secret)
			secret_wipe(secret, key.len);
	}
	if (current.len)
		out->current = mem_dup(current.at, current.len);
	return OK;
}

fallible contexts_load(struct contexts *out)
{
	auto_free char *home = config_home();
	auto_free char *dir = home ? mem_fmt("%s/cove", home) : NULL;
	auto_buf text = BUF_INIT(CONTEXT_BYTES_MAX);
	auto_json file = NULL;
	auto_fd at = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct err *err;

	*out = (struct contexts){0};
	if (at < 0)
		return OK;
	err = path_read(at, CONTEXT_FILE, &text);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	TRY(err, "read the contexts");
	err = json_read(buf_view(&text), &file);
	if (!err)
		err = contexts_read(file, out);
	wipe_buf(&text);
	if (!err)
		return OK;
	err_free(err);
	contexts_done(out);
	return bad_file();
}

static fallible make_home(int *out)
{
	auto_free char *home = config_home();
	auto_free char *dir = home ? mem_fmt("%s/cove", home) : NULL;
	auto_fd at = -1;

	if (!dir)
		return err_hint(err_new(UNAVAILABLE, "no_home", "there is no home directory"),
				"set HOME or XDG_CONFIG_HOME, or use COVE_URL and COVE_TOKEN");
	if ((mkdir(home, 0700) && errno != EEXIST) || (mkdir(dir, 0700) && errno != EEXIST))
		return err_sys(errno, "make %s", dir);
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return err_sys(errno, "open %s", dir);
	*out = take_fd(&at);
	return OK;
}

fallible contexts_save(const struct contexts *contexts)
{
	auto_buf text = BUF_INIT(CONTEXT_BYTES_MAX);
	struct json_out out = json_to(&text);
	struct err *err;
	auto_fd dir = -1;

	json_begin(&out, '{');
	if (contexts->current)
		json_put_text(&out, "current", contexts->current);
	json_key(&out, "contexts");
	json_begin(&out, '{');
	for (size_t i = 0; i < contexts->count; i++) {
		json_key(&out, contexts->items[i].name);
		json_begin(&out, '{');
		json_put_text(&out, "url", contexts->items[i].url);
		if (contexts->items[i].key)
			json_put_text(&out, "key", contexts->items[i].key);
		json_end(&out, '}');
	}
	json_end(&out, '}');
	json_end(&out, '}');
	buf_char(&text, '\n');
	if (!buf_ok(&text))
		return err_new(TOO_LARGE, "too_many_contexts", "the contexts are too large");
	TRY(make_home(&dir));
	err = path_write_sync(dir, CONTEXT_FILE, 0600, buf_view(&text));
	wipe_buf(&text);
	return err_while(err, "write the contexts");
}

struct context *contexts_find(const struct contexts *contexts, const char *name)
{
	for (size_t i = 0; i < contexts->count; i++)
		if (!strcmp(contexts->items[i].name, name))
			return (struct context *)&contexts->items[i];
	return NULL;
}

fallible contexts_put(struct contexts *contexts, const char *name, const char *url, const char *key)
{
	struct context *context = contexts_find(contexts, name);

	if (!context && contexts->count == CONTEXT_COUNT_MAX)
		return err_new(EXHAUSTED, "too_many_contexts", "there are %d contexts already",
			       CONTEXT_COUNT_MAX);
	if (!context)
		context = &contexts->items[contexts->count++];
	context_done(context);
	*context = (struct context){mem_str(name), mem_str(url), key ? mem_str(key) : NULL};
	return OK;
}

void contexts_take(struct contexts *contexts, struct context *context)
{
	context_done(context);
	*context = contexts->items[--contexts->count];
	contexts->items[contexts->count] = (struct context){0};
}
