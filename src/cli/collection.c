// Lists collections of the API page by page, as a table of columns, as names or as JSON; shows and
// removes items. A failure of one word does not stop the others where a verb says so.
#include "cli/collection.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/print.h"
#include "codec/text.h"
#include "lib/fields.h"

// Calls each(page, text, arg) for every page of the collection.
typedef fallible page_fn(const struct json *page, struct str text, void *arg);
static fallible collection_pages(struct remote *remote, const char *path, const char *query,
				 page_fn *each, void *arg)
{
	auto_free char *cursor = NULL;

	do {
		auto_buf ask = BUF_INIT(1 << 20), text = BUF_INIT(REMOTE_REPLY_MAX);
		auto_json page = NULL;

		buf_fmt(&ask, "%s%s%s", path, *query || cursor ? "?" : "", query);
		if (cursor) {
			buf_text(&ask, *query ? "&cursor=" : "cursor=");
			text_percent(&ask, str_of(cursor));
		}
		TRY(remote_ask(remote, "GET", ask.at, NULL, &text, &page), "list %s", path);
		TRY(each(page, buf_view(&text), arg));
		free(cursor);
		cursor = *fields_text(page, "cursor") ? mem_str(fields_text(page, "cursor")) : NULL;
	} while (cursor);
	return OK;
}

struct walk {
	collection_fn *each;
	void *arg;
};

static fallible walk_page(const struct json *page, struct str text, void *arg)
{
	const struct json *items = page ? json_get(page, "items") : NULL;
	const struct walk *walk = arg;

	(void)text;
	for (size_t i = 0; items && i < json_count(items); i++)
		TRY(walk->each(json_at(items, i), walk->arg));
	return OK;
}

fallible collection_each(struct remote *remote, const char *path, const char *query,
			 collection_fn *each, void *arg)
{
	return collection_pages(remote, path, query, walk_page, &(struct walk){each, arg});
}

// Appends the items as they came.
// The parts of the items that a list takes.
struct picked {
	const struct collection *collection;
	const struct map *only; // NULL: all
	struct json_out out;
	struct grid grid;
};

static void picked_done(struct picked *picked)
{
	grid_done(&picked->grid);
}

static bool picked_has(const struct picked *picked, const struct json *item)
{
	return !picked->only || map_get(picked->only, json_chars(json_get(item, "id")));
}

static fallible print_name(const struct json *item, void *arg)
{
	const struct picked *picked = arg;

	if (picked_has(picked, item))
		print_line("%s", fields_text(item, picked->collection->name));
	return OK;
}

static fallible dump_item(const struct json *item, void *arg)
{
	struct picked *picked = arg;

	if (picked_has(picked, item))
		json_add_value(&picked->out, item);
	return OK;
}

static fallible dump_page(const struct json *page, struct str text, void *arg)
{
	struct str items = print_member(text, "items");
	struct buf *all = arg;

	(void)page;
	if (items.len <= 2)
		return OK;
	if (all->len > 1)
		buf_char(all, ',');
	buf_add(all, items.at + 1, items.len - 2);
	return OK;
}

void collection_heads(const struct column *columns, struct grid *grid)
{
	for (grid->columns = 0; columns[grid->columns].head; grid->columns++)
		grid_add(grid, columns[grid->columns].head);
}

void collection_row(const struct column *columns, const struct json *item, struct grid *grid)
{
	for (const struct column *at = columns; at->head; at++) {
		auto_buf cell = BUF_INIT(1 << 20);

		if (at->put)
			at->put(item, at->key, &cell);
		else
			buf_text(&cell, fields_text(item, at->key));
		grid_add(grid, cell.len ? cell.at : "-");
	}
}

static fallible add_row(const struct json *item, void *arg)
{
	struct picked *picked = arg;

	if (picked_has(picked, item))
		collection_row(picked->collection->columns, item, &picked->grid);
	return OK;
}

fallible collection_list_only(const struct call *call, struct remote *remote,
			      const struct collection *collection, const struct map *only)
{
	const char *path = collection->path, *query = collection->query;
	on_exit_call(picked_done) struct picked picked = {.collection = collection, .only = only};

	if (call_has(call, OPT_JSON)) {
		auto_buf all = BUF_INIT(REMOTE_REPLY_MAX);

		picked.out = json_to(&all);
		json_begin(&picked.out, '[');
		if (only)
			TRY(collection_each(remote, path, query, dump_item, &picked));
		else
			TRY(collection_pages(remote, path, query, dump_page, &all));
		json_end(&picked.out, ']');
		print_json(buf_view(&all));
		return OK;
	}
	if (call_has(call, OPT_QUIET))
		return collection_each(remote, path, query, print_name, &picked);
	collection_heads(collection->columns, &picked.grid);
	TRY(collection_each(remote, path, query, add_row, &picked));
	grid_print(&picked.grid, stdout);
	return OK;
}

fallible collection_list(const struct call *call, struct remote *remote,
			 const struct collection *collection)
{
	return collection_list_only(call, remote, collection, NULL);
}

fallible collection_ls(struct call *call, const struct collection *collection)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	return collection_list(call, &remote, collection);
}

void collection_report(struct call *call, struct err *failure)
{
	auto_err err = failure;

	print_error(err, call_has(call, OPT_JSON));
	if (!call->exit)
		call->exit = err_exit(err);
}

// Reports an absent item or a bad name; returns any other error.
static fallible tell_absent(struct call *call, struct err *err)
{
	if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
		return err;
	if (err)
		collection_report(call, err);
	return OK;
}

// Appends an object, with that of its part as the last member.
static fallible show_item(struct remote *remote, const char *path, const char *word,
			  const char *part, struct buf *all)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX), more = BUF_INIT(REMOTE_REPLY_MAX);
	auto_free char *item = remote_path(path, word, ""), *under = NULL;
	auto_buf tail = BUF_INIT(256);
	struct str object;

	TRY(remote_ask(remote, "GET", item, NULL, &text, NULL));
	object = str_trim(buf_view(&text));
	if (part && object.len > 2 && object.at[object.len - 1] == '}') {
		buf_fmt(&tail, "/%s", part);
		under = remote_path(path, word, tail.at);
		TRY(remote_ask(remote, "GET", under, NULL, &more, NULL));
		object.len--;
	}
	buf_fmt(all, "%s" STR_FMT, all->len > 1 ? "," : "", STR_ARG(object));
	if (under)
		buf_fmt(all, ",\"%s\":" STR_FMT "}", part, STR_ARG(str_trim(buf_view(&more))));
	return OK;
}

fallible collection_show(struct call *call, const char *path, const char *part)
{
	auto_remote remote = {0};
	auto_buf all = BUF_INIT(REMOTE_REPLY_MAX);

	TRY(remote_open(&remote, call));
	buf_char(&all, '[');
	for (int i = 0; i < call->word_count; i++)
		TRY(tell_absent(call, show_item(&remote, path, call->words[i], part, &all)));
	buf_char(&all, ']');
	print_json(buf_view(&all));
	return OK;
}

fallible collection_remove(struct call *call, struct remote *remote, const char *path,
			   const char *name, bool goes_on, struct buf *reply)
{
	bool forced = call->verb->id == VERB_RM && call_has(call, OPT_FORCE);
	auto_free char *item = remote_path(path, name, forced ? "?force=true" : "");
	struct err *err = remote_ask(remote, "DELETE", item, NULL, reply, NULL);

	if (err && err_kind(err) == ERR_NOT_FOUND && call_has(call, OPT_FORCE)) {
		err_free(err);
		return OK;
	}
	if (err)
		return goes_on ? tell_absent(call, err) : err;
	if (!call_has(call, OPT_QUIET))
		print_line("%s", name);
	return OK;
}

fallible collection_rm(struct call *call, const char *path)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++)
		TRY(collection_remove(call, &remote, path, call->words[i], false, NULL));
	return OK;
}

void column_age(const struct json *item, const char *key, struct buf *out)
{
	const struct json *at = json_get(item, key);
	int64_t since = json_type(at) == JSON_NUMBER ? fields_number(item, key, -1)
						     : print_when(str_of(fields_text(item, key)));

	if (since >= 0)
		print_age(clock_wall_ms() - since, out);
}

void column_list(const struct json *item, const char *key, struct buf *out)
{
	const struct json *array = json_get(item, key);

	for (size_t i = 0; array && i < json_count(array); i++) {
		if (i)
			buf_char(out, ',');
		buf_str(out, json_chars(json_at(array, i)));
	}
}
