// Sandboxes: create, ps, inspect, rm, pause, resume, stop, start, rotate-token, cleanup. A failure
// of one sandbox does not stop the others.
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/image.h"
#include "cli/jobs.h"
#include "cli/print.h"
#include "cli/stdio.h"
#include "codec/filter.h"
#include "codec/text.h"
#include "lib/fields.h"

fallible boxes_create(struct call *call)
{
	auto_body body = {0};
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	struct cove_box_info info;

	TRY(body_box(call, &body));
	TRY(image_prepare(call));
	TRY(remote_open(&remote, call));
	TRY(remote_did(&remote, cove_box_create(remote.cove, &body.box, &box, &remote.error)));
	if (!call_has(call, OPT_JSON)) {
		print_line("%s", cove_box_id(box));
		return OK;
	}
	TRY(remote_did(&remote, cove_box_info(box, &info, &remote.error)));
	print_json(str_of(info.json));
	return OK;
}

static void put_size(const struct json *box, const char *key, struct buf *out)
{
	int64_t bytes = fields_number(json_get(box, "usage"), key, -1);

	if (bytes >= 0)
		print_size((uint64_t)bytes, out);
}

static void put_cpu(const struct json *box, const char *key, struct buf *out)
{
	int64_t ms = fields_number(json_get(box, "usage"), key, -1);

	if (ms >= 120000)
		print_age(ms, out);
	else if (ms >= 0)
		buf_fmt(out, "%.2f s", (double)ms / 1000);
}

// -l k=v: each one a box must have.
static void ps_query(const struct call *call, struct buf *out)
{
	const char *label;

	// Ids alone do not need the usage, which costs one order per sandbox.
	buf_text(out, call_has(call, OPT_QUIET) ? "limit=1000" : "usage=true");
	for (size_t at = 0; call_next(call, OPT_LABEL, &at, &label);) {
		buf_text(out, "&label=");
		text_percent(out, str_of(label));
	}
}

struct ps_filter {
	struct str text;
	struct map *ids; // of the rows that match
};

static fallible ps_note(const struct json *row, void *arg)
{
	const struct ps_filter *filter = arg;
	int64_t since = print_when(str_of(fields_text(row, "createdAt")));

	if (filter_matches(filter->text, row, (double)(clock_wall_ms() - since) / 1000))
		map_put(filter->ids, str_of(fields_text(row, "id")), filter->ids);
	return OK;
}

static void ps_filter_done(struct ps_filter *filter)
{
	if (filter->ids)
		map_free(filter->ids);
}

fallible boxes_ps(struct call *call)
{
	static const struct column columns[] = {
		{"ID", "shortId", NULL},
		{"NAME", "name", NULL},
		{"TEMPLATE", "template", NULL},
		{"STATE", "state", NULL},
		{"AGE", "createdAt", column_age},
		{"MEMORY", "memoryBytes", put_size},
		{"CPU", "cpuMs", put_cpu},
		{"DISK", "diskBytes", put_size},
		{.head = NULL},
	};
	auto_remote remote = {0};
	auto_buf query = BUF_INIT(1 << 20);
	auto_cove_box box = NULL;
	on_exit_call(ps_filter_done) struct ps_filter filter = {0};

	ps_query(call, &query);
	TRY(remote_open(&remote, call));
	if (call_has(call, OPT_FILTER)) {
		filter = (struct ps_filter){str_of(call_value(call, OPT_FILTER)), map_new()};
		TRY(collection_each(&remote, BOXES_PATH, "view=summary&limit=1000", ps_note,
				    &filter));
	}
	if (!call->word_count)
		return collection_list_only(
			call, &remote, &(struct collection){BOXES_PATH, query.at, "id", columns},
			filter.ids);
	box = cove_box_at(remote.cove, call->words[0]);
	return jobs_list(call, &remote, box);
}

fallible boxes_inspect(struct call *call)
{
	return collection_show(call, BOXES_PATH, NULL);
}

struct names {
	char **at;
	size_t count;
};

static void names_done(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->at[i]);
	free(names->at);
}

static fallible note_id(const struct json *box, void *arg)
{
	struct names *names = arg;

	names->at = mem_grow(names->at, names->count + 1, sizeof(char *));
	names->at[names->count++] = mem_str(fields_text(box, "id"));
	return OK;
}

static fallible confirm(size_t count)
{
	char answer[64] = "";
	size_t n = 0;

	if (!isatty(STDIN_FILENO))
		return err_hint(err_new(INVALID, "not_confirmed",
					"there is no terminal to ask for confirmation"),
				"add -y");
	fprintf(stderr, "Remove %zu sandboxes? [y/N] ", count);
	TRY(stdio_read(STDIN_FILENO, answer, sizeof(answer), &n));
	if (n == 0 || (answer[0] != 'y' && answer[0] != 'Y'))
		return err_new(CANCELLED, "not_confirmed", "nothing was removed");
	return OK;
}

fallible boxes_rm(struct call *call)
{
	auto_remote remote = {0};
	on_exit_call(names_done) struct names names = {0};
	bool all = call_has(call, OPT_ALL);

	if (all == (call->word_count > 0))
		return err_hint(err_new(INVALID, "bad_words", "'cove rm' needs BOX... or --all"),
				"'cove ps' lists the sandboxes");
	TRY(remote_open(&remote, call));
	if (all) {
		TRY(collection_each(&remote, BOXES_PATH, "", note_id, &names));
		if (names.count && !call_has(call, OPT_YES))
			TRY(confirm(names.count));
	}
	for (size_t i = 0; i < names.count; i++)
		TRY(collection_remove(call, &remote, BOXES_PATH, names.at[i], true, NULL));
	for (int i = 0; i < call->word_count; i++)
		TRY(collection_remove(call, &remote, BOXES_PATH, call->words[i], true, NULL));
	return OK;
}

// pause, resume, stop, start, archive: the route has the name of the verb.
fallible boxes_change(struct call *call)
{
	auto_free char *rest = mem_fmt("/%s", call->verb->name);
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		auto_free char *path = remote_path(BOXES_PATH, call->words[i], rest);
		struct err *err = remote_ask(&remote, "POST", path, NULL, NULL, NULL);

		if (err && err_kind(err) == ERR_UNAVAILABLE)
			return err;
		if (err)
			collection_report(call, err);
		else if (!call_has(call, OPT_QUIET))
			print_line("%s", call->words[i]);
	}
	return OK;
}

fallible boxes_update(struct call *call)
{
	static const struct body_row rows[] = {
		{OPT_MEMORY, BODY_MIB, "memoryMB"},
		{OPT_CPUS, BODY_CPUS, "cpus"},
		{OPT_PIDS, BODY_COUNT, "pids"},
		{OPT_DISK, BODY_MIB, "diskMB"},
		{OPT_IO, BODY_MIB, "ioMBps"},
		{OPT_OUTPUT, BODY_MIB, "outputMB"},
		{OPT_KEPT_OUTPUT, BODY_MIB, "keptOutputMB"},
		{.key = NULL},
	};
	auto_buf body = BUF_INIT(1024);
	struct json_out out = json_to(&body);
	auto_remote remote = {0};
	size_t empty;

	json_begin(&out, '{');
	json_key(&out, "limits");
	json_begin(&out, '{');
	empty = body.len;
	TRY(body_put(&out, call, rows));
	if (body.len == empty)
		return err_hint(err_new(INVALID, "no_option", "no limit is given"),
				"for example --memory 1g; 'cove update --help' lists them");
	json_end(&out, '}');
	json_end(&out, '}');
	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		auto_free char *path = remote_path(BOXES_PATH, call->words[i], "");
		auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
		struct err *err = remote_ask(&remote, "PATCH", path, &body, &text, NULL);

		if (err && err_kind(err) == ERR_UNAVAILABLE)
			return err;
		if (err)
			collection_report(call, err);
		else
			remote_print(call, &text, call->words[i]);
	}
	return OK;
}

fallible boxes_rotate(struct call *call)
{
	auto_buf body = BUF_INIT(64);
	auto_remote remote = {0};

	buf_text(&body, "{\"rotateToken\":true}");
	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		auto_free char *path = remote_path(BOXES_PATH, call->words[i], "");
		auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
		auto_json box = NULL;

		TRY(remote_ask(&remote, "PATCH", path, &body, &text, &box));
		remote_print(call, &text, fields_text(box, "baseUrl"));
	}
	return OK;
}

fallible boxes_cleanup(struct call *call)
{
	static const struct {
		const char *key, *words;
	} rows[] = {
		{"scanned", "looked at"},
		{"orphansTerminated", "orphans ended"},
		{"stuckTerminated", "stuck ones ended"},
		{"oldDeleted", "old ones deleted"},
		{"failedAttempts", "could not be ended"},
		{"backlog", "left for the next round"},
	};
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};
	auto_json round = NULL;

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", "/v1/cleanup", NULL, &text, &round));
	if (call_has(call, OPT_JSON))
		print_json(buf_view(&text));
	for (size_t i = 0; !call_has(call, OPT_JSON) && i < sizeof(rows) / sizeof(*rows); i++)
		print_line("%lld %s", (long long)fields_number(round, rows[i].key, 0),
			   rows[i].words);
	return OK;
}
