// The verbs ports, expose, unexpose and open: exposed ports and their preview URLs. open starts a
// browser with a signed link.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/boxes.h"
#include "cli/print.h"
#include "cli/verbs.h"

#define BODY_MAX 4096

static char *ports_path(const char *box, const char *port, const char *rest)
{
	auto_free char *tail = port ? mem_fmt("/ports/%s%s", port, rest) : mem_str("/ports");

	return remote_path(BOXES_PATH "/", box, tail);
}

static fallible check_port(const char *word)
{
	uint64_t port;

	if (!str_to_u64(str_of(word), 1, 65535, &port))
		return err_hint(err_new(INVALID, "bad_words", "'%s' is no port", word),
				"a number from 1 to 65535");
	return OK;
}

static bool is_set(const struct json *item, const char *key)
{
	bool on = false;

	err_free(json_bool(json_get(item, key), key, &on));
	return on;
}

static fallible cli_ports_add_row(const struct json *item, void *arg)
{
	struct grid *grid = arg;
	const char *name = boxes_text(item, "name"), *url = boxes_text(item, "url");
	uint64_t port = 0;
	char number[8];

	TRY(json_u64(json_get(item, "port"), "port", 1, 65535, &port));
	snprintf(number, sizeof(number), "%u", (unsigned)port);
	grid_add(grid, number);
	grid_add(grid, is_set(item, "listening") ? boxes_text(item, "address") : "-");
	grid_add(grid, *name ? name : "-");
	grid_add(grid, is_set(item, "exposed") ? url : "-");
	return OK;
}

fallible ports_list(struct call *call)
{
	static const char *const heads[] = {"PORT", "LISTENS ON", "NAME", "PREVIEW"};
	auto_free char *path = ports_path(call->words[0], NULL, NULL);
	auto_grid grid = {.columns = 4};
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	if (call_has(call, OPT_JSON))
		return boxes_dump(&remote, path, "");
	for (size_t i = 0; i < 4; i++)
		grid_add(&grid, heads[i]);
	TRY(boxes_each(&remote, path, "", cli_ports_add_row, &grid, NULL));
	grid_print(&grid, stdout);
	return OK;
}

static void put_option(struct json_out *out, const struct call *call, enum opt opt, const char *key)
{
	if (call_value(call, opt))
		json_put_text(out, key, call_value(call, opt));
}

static fallible expose(struct call *call, struct remote *remote, bool with_options,
		       struct buf *text, struct json **out)
{
	auto_free char *path = ports_path(call->words[0], NULL, NULL);
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);

	TRY(check_port(call->words[1]));
	json_begin(&json, '{');
	json_key(&json, "port");
	json_add_raw(&json, str_of(call->words[1]));
	if (with_options) {
		put_option(&json, call, OPT_NAME, "name");
		put_option(&json, call, OPT_TOKEN, "token");
		put_option(&json, call, OPT_EXPIRES, "expiresIn");
	}
	json_end(&json, '}');
	return remote_ask(remote, "POST", path, &body, text, out);
}

fallible ports_expose(struct call *call)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};
	auto_json reply = NULL;

	TRY(remote_open(&remote, call));
	TRY(expose(call, &remote, true, &text, &reply));
	if (call_has(call, OPT_JSON))
		print_json(buf_view(&text));
	else
		print_line("%s", boxes_text(reply, "url"));
	return OK;
}

fallible ports_unexpose(struct call *call)
{
	auto_remote remote = {0};

	for (int i = 1; i < call->word_count; i++)
		TRY(check_port(call->words[i]));
	TRY(remote_open(&remote, call));
	for (int i = 1; i < call->word_count; i++) {
		auto_free char *path = ports_path(call->words[0], call->words[i], "");

		TRY(remote_ask(&remote, "DELETE", path, NULL, NULL, NULL));
		if (!call_has(call, OPT_QUIET))
			print_line("%s", call->words[i]);
	}
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

static fallible cli_ports_sign(struct call *call, struct remote *remote, struct buf *text,
			       struct json **out)
{
	auto_free char *path = ports_path(call->words[0], call->words[1], "/links");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);

	json_begin(&json, '{');
	put_option(&json, call, OPT_EXPIRES, "expiresIn");
	json_end(&json, '}');
	return remote_ask(remote, "POST", path, &body, text, out);
}

fallible ports_open(struct call *call)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX), signed_text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_json reply = NULL;
	auto_json link = NULL;
	auto_remote remote = {0};
	const char *url;

	TRY(remote_open(&remote, call));
	TRY(expose(call, &remote, false, &text, &reply));
	if (call_has(call, OPT_EXPIRES))
		TRY(cli_ports_sign(call, &remote, &signed_text, &link));
	url = boxes_text(link ? link : reply, "url");
	if (call_has(call, OPT_JSON))
		print_json(buf_view(link ? &signed_text : &text));
	else
		print_line("%s", url);
	return call_has(call, OPT_BROWSE) ? browse(url) : OK;
}
