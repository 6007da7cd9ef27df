// Small routes of Cloudflare's API: greeting, ping, version, the executables on PATH, and answers
// of status 501 for features that cove does not have. Every route first checks that the caller may
// use the sandbox.
#include "base/clock.h"
#include "base/log.h"
#include "gateway/gateway.h"
#include "toolbox/handlers.h"
#include "toolbox/helper_exec.h"

#define CLIENT_MAX 64
#define NAMES_BYTES (512 * 1024)
#define NAMES_MAX 8192
#define SEARCH_MS 10000

static fallible misc_enter(struct http *x)
{
	auto_box_ref ref = {0};

	return gateway_box(x, &ref);
}

fallible toolbox_misc_greet(struct http *x)
{
	TRY(misc_enter(x));
	return http_reply(x, 200, "text/plain; charset=utf-8", STR("Hello from cove!\n"));
}

fallible toolbox_misc_ping(struct http *x)
{
	auto_buf body = BUF_INIT(256);
	struct json_out out = gateway_success(&body);

	TRY(misc_enter(x));
	json_put_text(&out, "status", "healthy");
	json_put_text(&out, "message", "healthy"); // the value that the SDK returns to its caller
	return gateway_answer(x, &out);
}

static bool is_version(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] <= ' ' || text.at[i] > '~' || strchr("\"<>\\", text.at[i]))
			return false;
	return text.len && text.len <= CLIENT_MAX;
}

// The version that the client claims, in a header or the query.
static struct str client_of(struct http *x)
{
	struct str told = http_field(x, "X-Client-Version");

	if (!told.at)
		told = http_query(x, "client");
	return is_version(told) && !str_is(told, "unknown") ? told : (struct str){0};
}

// A version mismatch is a warning, never an error: different versions may be compatible.
static const char *warning_for(struct http *x, struct str client)
{
	const char *ours = gateway_of(x)->version;

	if (!client.at)
		return "the client's version is not known: it was not compared";
	if (str_is(client, ours))
		return NULL;
	return arena_fmt(x->arena, "the client is version " STR_FMT ", the server is cove %s",
			 STR_ARG(client), ours);
}

fallible toolbox_misc_version(struct http *x)
{
	struct str client = client_of(x);
	const char *warning = warning_for(x, client);
	auto_buf body = BUF_INIT(1024);
	struct json_out out = gateway_success(&body);

	TRY(misc_enter(x));
	if (warning)
		log_event(client.at ? LOG_WARN : LOG_DEBUG, "client.version", "message", warning,
			  NULL);
	json_put_text(&out, "version", gateway_of(x)->version);
	json_put_text(&out, "server", "cove");
	if (client.at)
		json_put_str(&out, "clientVersion", client);
	if (warning)
		json_put_text(&out, "warning", warning);
	return gateway_answer(x, &out);
}

// Finds executables as a shell does: in the directories of PATH, except relative ones. It starts no
// program but the shell.
static const char *const search[] = {"/bin/sh", "-c",
				     "IFS=:; set -f; for d in $PATH; do set +f; case $d in /*) cd "
				     "\"$d\" 2>/dev/null || continue;;"
				     " *) continue;; esac; for f in *; do [ -f \"$f\" ] && [ -x "
				     "\"$f\" ] && printf '%s\\0' \"$f\";"
				     " done; done; exit 0",
				     NULL};

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t misc_split(struct str text, const char **names)
{
	size_t count = 0;

	while (text.len && count < NAMES_MAX) {
		size_t len = strnlen(text.at, text.len);

		if (len == text.len)
			break; // an incomplete name at the output limit
		names[count++] = text.at;
		text = str_skip(text, len + 1);
	}
	qsort(names, count, sizeof(*names), by_bytes);
	return count;
}

fallible toolbox_misc_commands(struct http *x)
{
	auto_helper_exec helper = {.argv = search, .wall_ms = SEARCH_MS, .output_max = NAMES_BYTES};
	const char **names = arena_take(x->arena, NAMES_MAX * sizeof(*names));
	auto_buf body = BUF_INIT(8 * NAMES_BYTES);
	struct json_out out = gateway_success(&body);
	size_t count;

	TRY(helper_exec_run(x, &helper));
	count = misc_split(buf_view(&helper.out), names);
	json_put_begin(&out, "availableCommands", '[');
	for (size_t i = 0; i < count; i++)
		if (!i || strcmp(names[i - 1], names[i]) != 0)
			json_add_text(&out, names[i]);
	json_end(&out, ']');
	return gateway_answer(x, &out);
}

fallible toolbox_misc_no_desktop(struct http *x)
{
	TRY(misc_enter(x));
	return err_hint(
		err_new(NOT_OFFERED, "not_offered", "cove has no desktop"),
		"start an X server of your own in the sandbox, or drive a headless browser");
}

fallible toolbox_misc_no_tunnels(struct http *x)
{
	TRY(misc_enter(x));
	return err_hint(err_new(NOT_OFFERED, "not_offered", "cove opens no tunnels"),
			"reach a port of the sandbox through /proxy/PORT/");
}

fallible toolbox_misc_no_buckets(struct http *x)
{
	TRY(misc_enter(x));
	return err_hint(err_new(NOT_OFFERED, "not_offered", "cove mounts no buckets"),
			"copy the files in and out: /api/files/PATH, or a tar archive");
}
