// The verbs create, ps, inspect and rm, and the listing shared by all collections: pages of the API
// as a table, as ids or as JSON. A failure of one word does not stop the others.
#include "cli/boxes.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/body.h"
#include "cli/jobs.h"
#include "cli/print.h"
#include "cli/stdio.h"
#include "cli/verbs.h"
#include "codec/text.h"

// json-c keeps its strings NUL-terminated, so a slice of the tree serves as text.
const char *boxes_text(const struct json *object, const char *key)
{
	struct json *value = json_get(object, key);
	struct str text = STR("");

	if (value && json_type(value) == JSON_STRING) {
		err_free(json_str(value, key, &text)); // it is a string
	}
	return text.at;
}

fallible boxes_create(struct call *call)
{
	auto_body body = {0};
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	struct cove_box_info info;

	TRY(body_box(call, &body));
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

// Appends the content of the page's "items" to `raw`.
static void add_raw(struct buf *raw, struct str page)
{
	struct str items = print_member(page, "items");

	if (items.len <= 2)
		return;
	if (raw->len)
		buf_char(raw, ',');
	buf_add(raw, items.at + 1, items.len - 2);
}

fallible boxes_each(struct remote *remote, const char *collection, const char *query,
		    boxes_fn *each, void *arg, struct buf *raw)
{
	auto_free char *cursor = NULL;

	do {
		auto_buf path = BUF_INIT(1 << 20), text = BUF_INIT(REMOTE_REPLY_MAX);
		auto_json page = NULL;
		struct json *items;

		buf_fmt(&path, "%s%s%s", collection, *query || cursor ? "?" : "", query);
		if (cursor) {
			buf_text(&path, *query ? "&cursor=" : "cursor=");
			text_percent(&path, str_of(cursor));
		}
		TRY(remote_ask(remote, "GET", path.at, NULL, &text, &page), "list %s", collection);
		items = page ? json_get(page, "items") : NULL;
		for (size_t i = 0; each && items && i < json_count(items); i++)
			TRY(each(json_at(items, i), arg));
		if (raw)
			add_raw(raw, buf_view(&text));
		free(cursor);
		cursor = page && *boxes_text(page, "cursor") ? mem_str(boxes_text(page, "cursor"))
							     : NULL;
	} while (cursor);
	return OK;
}

fallible boxes_dump(struct remote *remote, const char *collection, const char *query)
{
	auto_buf raw = BUF_INIT(REMOTE_REPLY_MAX), all = BUF_INIT(REMOTE_REPLY_MAX);

	TRY(boxes_each(remote, collection, query, NULL, NULL, &raw));
	buf_char(&all, '[');
	buf_str(&all, buf_view(&raw));
	buf_char(&all, ']');
	print_json(buf_view(&all));
	return OK;
}

static bool usage_of(const struct json *box, const char *key, uint64_t *out)
{
	struct json *usage = json_get(box, "usage"), *value = usage ? json_get(usage, key) : NULL;
	auto_err err = NULL;

	if (!value || json_type(value) != JSON_NUMBER)
		return false;
	err = json_u64(value, key, 0, INT64_MAX, out);
	return !err;
}

static void cli_boxes_add_size(struct grid *grid, const struct json *box, const char *key)
{
	auto_buf text = BUF_INIT(32);
	uint64_t bytes;

	if (usage_of(box, key, &bytes))
		print_size(bytes, &text);
	grid_add(grid, text.len ? text.at : "-");
}

static void add_cpu(struct grid *grid, const struct json *box)
{
	auto_buf text = BUF_INIT(32);
	uint64_t ms;

	if (usage_of(box, "cpuMs", &ms) && ms < 120000)
		buf_fmt(&text, "%.2f s", (double)ms / 1000);
	else if (usage_of(box, "cpuMs", &ms))
		print_age((int64_t)ms, &text);
	grid_add(grid, text.len ? text.at : "-");
}

static fallible cli_boxes_add_row(const struct json *box, void *arg)
{
	struct grid *grid = arg;
	const char *name = boxes_text(box, "name");
	int64_t since = print_when(str_of(boxes_text(box, "createdAt")));
	auto_buf age = BUF_INIT(32);

	if (since >= 0)
		print_age(clock_wall_ms() - since, &age);
	grid_add(grid, boxes_text(box, "shortId"));
	grid_add(grid, *name ? name : "-");
	grid_add(grid, boxes_text(box, "template"));
	grid_add(grid, boxes_text(box, "state"));
	grid_add(grid, age.len ? age.at : "-");
	cli_boxes_add_size(grid, box, "memoryBytes");
	add_cpu(grid, box);
	cli_boxes_add_size(grid, box, "diskBytes");
	return OK;
}

static fallible print_id(const struct json *box, void *arg)
{
	(void)arg;
	print_line("%s", boxes_text(box, "id"));
	return OK;
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

fallible boxes_list(struct call *call, struct remote *remote, const struct boxes_table *table)
{
	auto_grid grid = {.columns = table->columns};

	if (call_has(call, OPT_JSON))
		return boxes_dump(remote, table->collection, table->query);
	if (call_has(call, OPT_QUIET))
		return boxes_each(remote, table->collection, table->query, print_id, NULL, NULL);
	for (size_t i = 0; i < grid.columns; i++)
		grid_add(&grid, table->heads[i]);
	TRY(boxes_each(remote, table->collection, table->query, table->add_row, &grid, NULL));
	grid_print(&grid, stdout);
	return OK;
}

fallible boxes_ps(struct call *call)
{
	static const char *const heads[] = {"ID",  "NAME",   "TEMPLATE", "STATE",
					    "AGE", "MEMORY", "CPU",	 "DISK"};
	auto_remote remote = {0};
	auto_buf query = BUF_INIT(1 << 20);

	ps_query(call, &query);
	TRY(remote_open(&remote, call));
	if (call->word_count) {
		auto_cove_box box = cove_box_at(remote.cove, call->words[0]);

		return jobs_list(call, &remote, box);
	}
	return boxes_list(call, &remote,
			  &(struct boxes_table){BOXES_PATH, query.at, heads,
						sizeof(heads) / sizeof(*heads), cli_boxes_add_row});
}

void boxes_tell(struct call *call, struct err *failure)
{
	auto_err err = failure;

	print_error(err, call_has(call, OPT_JSON));
	if (!call->exit)
		call->exit = err_exit(err);
}

fallible boxes_show(struct call *call, const char *collection)
{
	auto_free char *at = mem_fmt("%s/", collection);
	auto_remote remote = {0};
	auto_buf all = BUF_INIT(REMOTE_REPLY_MAX);

	TRY(remote_open(&remote, call));
	buf_char(&all, '[');
	for (int i = 0; i < call->word_count; i++) {
		auto_free char *path = remote_path(at, call->words[i], "");
		auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
		struct err *err = remote_ask(&remote, "GET", path, NULL, &text, NULL);

		if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
			return err;
		if (err)
			boxes_tell(call, err);
		else
			buf_fmt(&all, "%s%s", all.len > 1 ? "," : "", text.at);
	}
	buf_char(&all, ']');
	print_json(buf_view(&all));
	return OK;
}

fallible boxes_inspect(struct call *call)
{
	return boxes_show(call, BOXES_PATH);
}

static fallible cli_boxes_remove_one(struct call *call, struct remote *remote, const char *box)
{
	auto_free char *path = remote_path(BOXES_PATH "/", box, "");
	struct err *err = remote_ask(remote, "DELETE", path, NULL, NULL, NULL);

	if (err && err_kind(err) == ERR_NOT_FOUND && call_has(call, OPT_FORCE)) {
		err_free(err);
		return OK;
	}
	if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
		return err;
	if (err)
		boxes_tell(call, err);
	else if (!call_has(call, OPT_QUIET))
		print_line("%s", box);
	return OK;
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
	names->at[names->count++] = mem_str(boxes_text(box, "id"));
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
		TRY(boxes_each(&remote, BOXES_PATH, "", note_id, &names, NULL));
		if (names.count && !call_has(call, OPT_YES))
			TRY(confirm(names.count));
	}
	for (size_t i = 0; i < names.count; i++)
		TRY(cli_boxes_remove_one(call, &remote, names.at[i]));
	for (int i = 0; i < call->word_count; i++)
		TRY(cli_boxes_remove_one(call, &remote, call->words[i]));
	return OK;
}
