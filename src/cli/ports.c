// The verbs ports, expose, unexpose and open: exposed ports and their preview URLs. open starts a
// browser with a signed link.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "lib/fields.h"

#define BODY_MAX 4096

static fallible check_port(const char *word)
{
	uint64_t port;

	if (!str_to_u64(str_of(word), 1, 65535, &port))
		return err_hint(err_new(INVALID, "bad_words", "'%s' is no port", word),
				"a number from 1 to 65535");
	return OK;
}

static void put_port(const struct json *item, const char *key, struct buf *out)
{
	buf_fmt(out, "%lld", (long long)fields_number(item, key, 0));
}

static void put_listener(const struct json *item, const char *key, struct buf *out)
{
	if (fields_flag(item, "listening"))
		buf_text(out, fields_text(item, key));
}

static void put_preview(const struct json *item, const char *key, struct buf *out)
{
	if (fields_flag(item, "exposed"))
		buf_text(out, fields_text(item, key));
}

fallible ports_list(struct call *call)
{
	static const struct column columns[] = {
		{"PORT", "port", put_port},
		{"LISTENS ON", "address", put_listener},
		{"NAME", "name", NULL},
		{"PREVIEW", "url", put_preview},
		{.head = NULL},
	};
	auto_free char *path = remote_path(BOXES_PATH, call->words[0], "/ports");

	return collection_ls(call, &(struct collection){path, "", "port", columns});
}

// {"port": PORT, the options of the rows}
static fallible put_port_body(const struct call *call, const struct body_row *rows,
			      struct buf *body)
{
	struct json_out json = json_to(body);

	TRY(check_port(call->words[1]));
	json_begin(&json, '{');
	json_key(&json, "port");
	json_add_raw(&json, str_of(call->words[1]));
	TRY(body_put(&json, call, rows));
	json_end(&json, '}');
	return OK;
}

fallible ports_expose(struct call *call)
{
	static const struct body_row rows[] = {
		{OPT_NAME, BODY_TEXT, "name"},
		{OPT_TOKEN, BODY_TEXT, "token"},
		{OPT_EXPIRES, BODY_TEXT, "expiresIn"},
		{.key = NULL},
	};
	auto_free char *path = remote_path(BOXES_PATH, call->words[0], "/ports");
	auto_buf body = BUF_INIT(BODY_MAX);

	TRY(put_port_body(call, rows, &body));
	return remote_act(call, "POST", path, &body, "url");
}

fallible ports_unexpose(struct call *call)
{
	auto_free char *path = remote_path(BOXES_PATH, call->words[0], "/ports");
	auto_remote remote = {0};

	for (int i = 1; i < call->word_count; i++)
		TRY(check_port(call->words[i]));
	TRY(remote_open(&remote, call));
	for (int i = 1; i < call->word_count; i++)
		TRY(collection_remove(call, &remote, path, call->words[i], false, NULL));
	return OK;
}

// A child that is waited for only until it has started: browsers stay.
static fallible browse(const char *url)
{
	const char *own = getenv("BROWSER");
	const char *const programs[] = {own && *own ? own : "xdg-open", "xdg-open", "open", NULL};
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		for (size_t i = 0; programs[i]; i++)
			execlp(programs[i], programs[i], url, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 ||
	    (WIFEXITED(status) && WEXITSTATUS(status) == 127))
		return err_hint(err_new(NOT_FOUND, "no_browser", "no browser could be started"),
				"set BROWSER, or open %s yourself", url);
	return OK;
}

fallible ports_open(struct call *call)
{
	static const struct body_row none[] = {{.key = NULL}};
	static const struct body_row expires[] = {
		{OPT_EXPIRES, BODY_TEXT, "expiresIn"},
		{.key = NULL},
	};
	auto_free char *rest = mem_fmt("/ports/%s/links", call->words[1]);
	auto_free char *path = remote_path(BOXES_PATH, call->words[0], "/ports");
	auto_free char *links = remote_path(BOXES_PATH, call->words[0], rest);
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out json = json_to(&body);
	auto_json reply = NULL;
	auto_remote remote = {0};

	TRY(put_port_body(call, none, &body));
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", path, &body, &text, &reply));
	if (call_has(call, OPT_EXPIRES)) { // a signed link instead of the address
		buf_clear(&body);
		buf_clear(&text);
		json_free(take_ptr(reply));
		json_begin(&json, '{');
		TRY(body_put(&json, call, expires));
		json_end(&json, '}');
		TRY(remote_ask(&remote, "POST", links, &body, &text, &reply));
	}
	remote_print(call, &text, fields_text(reply, "url"));
	return call_has(call, OPT_BROWSE) ? browse(fields_text(reply, "url")) : OK;
}
