// login and context. The key comes from stdin, or is typed without echo: never from argv, which
// every user of the host can read. It is tried before it is saved.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/tty.h"
#include "http/client.h"
#include "lib/context.h"

#define KEY_MAX 1024
#define NAME_DEFAULT "default"

static fallible login_check_name(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
			len = 0;
	if (len && len <= CONTEXT_NAME_MAX && strcmp(name, CONTEXT_LOCAL) != 0)
		return OK;
	return err_hint(err_new(INVALID, "bad_name", "'%s' is not a valid context name", name),
			"letters, digits, '-', '_' and '.'; 'local' is the daemon of this host");
}

// The caller wipes *out.
static fallible ask_key(struct buf *out)
{
	TRY(tty_read_secret("Key", false, out));
	buf_char(out, 0);
	if (!buf_ok(out) || !str_trim(str_of(out->at)).len)
		return err_hint(err_new(INVALID, "no_key", "no key was given"),
				"'cove key create --tenant NAME' of the operator prints one");
	return OK;
}

// A key without the scope `read` gets 403 here, which shows that it is valid.
static fallible try_key(const char *url, const char *key)
{
	auto_remote remote = {0};
	struct err *err;

	TRY(remote_open_at(&remote, url, key));
	err = remote_ask(&remote, "GET", "/v1/sandboxes?limit=1", NULL, NULL, NULL);
	if (err && err_kind(err) == ERR_FORBIDDEN) {
		err_free(err);
		return OK;
	}
	return err;
}

static fallible keep_context(const char *name, const char *url, const char *key)
{
	auto_contexts contexts = {0};

	TRY(contexts_load(&contexts));
	TRY(contexts_put(&contexts, name, url, key));
	free(contexts.current);
	contexts.current = mem_str(name);
	return contexts_save(&contexts);
}

fallible login_run(struct call *call)
{
	const char *url = call->words[0], *name = call_value(call, OPT_NAME);
	auto_secret_buf text = BUF_SECRET(KEY_MAX);
	struct str key;

	if (!name)
		name = NAME_DEFAULT;
	TRY(login_check_name(name));
	TRY(ask_key(&text));
	key = str_trim(str_of(text.at));
	text.at[key.at - text.at + (ptrdiff_t)key.len] = 0;
	TRY(try_key(url, key.at));
	TRY(keep_context(name, url, key.at));
	if (!call_has(call, OPT_QUIET))
		print_note("the context '%s' is in use: %s", name, url);
	return OK;
}

static void context_row(struct grid *grid, const char *current, const char *name, const char *url)
{
	grid_add(grid, strcmp(current, name) == 0 ? "*" : "");
	grid_add(grid, name);
	grid_add(grid, url);
}

static void context_json(const struct contexts *contexts)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "current", contexts->current ? contexts->current : CONTEXT_LOCAL);
	json_key(&out, "items");
	json_begin(&out, '[');
	for (size_t i = 0; i < contexts->count; i++) {
		json_begin(&out, '{');
		json_put_text(&out, "name", contexts->items[i].name);
		json_put_text(&out, "url", contexts->items[i].url);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	json_end(&out, '}');
	print_json(buf_view(&text));
}

fallible context_ls(struct call *call)
{
	auto_contexts contexts = {0};
	auto_grid grid = {.columns = 3};
	const char *current;

	TRY(contexts_load(&contexts));
	current = contexts.current ? contexts.current : CONTEXT_LOCAL;
	if (call_has(call, OPT_JSON)) {
		context_json(&contexts);
		return OK;
	}
	if (call_has(call, OPT_QUIET)) {
		for (size_t i = 0; i < contexts.count; i++)
			print_line("%s", contexts.items[i].name);
		return OK;
	}
	grid_add(&grid, "");
	grid_add(&grid, "NAME");
	grid_add(&grid, "URL");
	context_row(&grid, current, CONTEXT_LOCAL, "the daemon of this host");
	for (size_t i = 0; i < contexts.count; i++)
		context_row(&grid, current, contexts.items[i].name, contexts.items[i].url);
	grid_print(&grid, stdout);
	return OK;
}

static fallible no_context(const char *name)
{
	return err_hint(err_new(NOT_FOUND, "no_context", "there is no context '%s'", name),
			"'cove context ls' lists them, 'cove login' makes one");
}

fallible context_use(struct call *call)
{
	const char *name = call->words[0];
	bool is_local = strcmp(name, CONTEXT_LOCAL) == 0;
	auto_contexts contexts = {0};

	TRY(contexts_load(&contexts));
	if (!is_local && !contexts_find(&contexts, name))
		return no_context(name);
	free(contexts.current);
	contexts.current = is_local ? NULL : mem_str(name);
	TRY(contexts_save(&contexts));
	if (!call_has(call, OPT_QUIET))
		print_line("%s", name);
	return OK;
}

fallible context_rm(struct call *call)
{
	auto_contexts contexts = {0};

	TRY(contexts_load(&contexts));
	for (int i = 0; i < call->word_count; i++) {
		struct context *context = contexts_find(&contexts, call->words[i]);

		if (!context && call_has(call, OPT_FORCE))
			continue;
		if (!context)
			return no_context(call->words[i]);
		if (contexts.current && strcmp(contexts.current, call->words[i]) == 0) {
			free(contexts.current);
			contexts.current = NULL;
		}
		contexts_take(&contexts, context);
	}
	TRY(contexts_save(&contexts));
	for (int i = 0; i < call->word_count && !call_has(call, OPT_QUIET); i++)
		print_line("%s", call->words[i]);
	return OK;
}
