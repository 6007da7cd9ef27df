// Watches files of a sandbox through an event stream. cove_watch_open() returns after the server
// has set up the watch. After a lost connection the caller must open a new watch; changes in
// between are not reported.
#include "base/mem.h"
#include "lib/box.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define BODY_MAX ((size_t)1 << 20)

struct cove_watch {
	struct cove *cove;
	struct event_reader feed;
	struct json *last; // owns the strings of the last event
};

static fallible lib_watch_put_body(struct buf *to, const struct cove_watch_options *options)
{
	struct json_out out = json_to(to);

	if (!options->path)
		return err_new(INVALID, "no_path", "there is no path to watch");
	json_begin(&out, '{');
	json_put_text(&out, "path", options->path);
	json_put_bool(&out, "recursive", !options->shallow);
	fields_list(&out, "include", options->include);
	fields_list(&out, "exclude", options->exclude);
	json_end(&out, '}');
	return OK;
}

// Reads the next change event. GONE when the watch has ended.
static fallible lib_watch_next(struct cove_watch *watch, int64_t timeout_ms, struct json **out)
{
	auto_json event = NULL;
	const char *type;

	TRY(event_reader_next(&watch->feed, timeout_ms, &event));
	type = fields_text(event, "type");
	if (!event || strcmp(type, "stopped") == 0)
		return err_new(GONE, "watch_stopped", "the watch was stopped%s%s",
			       event && *fields_text(event, "reason") ? ": " : "",
			       event ? fields_text(event, "reason") : "");
	if (strcmp(type, "error") == 0)
		return event_reader_error(event);
	*out = take_ptr(event);
	return OK;
}

static fallible lib_watch_begin(struct cove_watch *watch, struct cove_box *box,
				const struct cove_watch_options *options)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_free char *path = lib_box_path(box, "/api/watch");

	TRY(lib_watch_put_body(&body, options));
	TRY(event_reader_open(&watch->feed, box->cove, "POST", path, buf_view(&body), ""));
	for (;;) {
		auto_json event = NULL;

		TRY(lib_watch_next(watch, PRIVATE_DEFAULT, &event));
		if (strcmp(fields_text(event, "type"), "watching") == 0)
			return OK;
	}
}

enum cove_kind cove_watch_open(struct cove_box *box, const struct cove_watch_options *options,
			       struct cove_watch **out, struct cove_error *error)
{
	struct cove_watch *watch = mem_new_of(struct cove_watch);
	struct err *err;

	private_begin(box->cove);
	watch->cove = box->cove;
	err = lib_watch_begin(watch, box, options);
	if (err) {
		cove_watch_close(watch);
		return private_end(box->cove, err, error);
	}
	*out = watch;
	return COVE_OK;
}

static fallible lib_watch_await(struct cove_watch *watch, int64_t timeout_ms,
				struct cove_watch_event *out)
{
	for (;;) {
		auto_json event = NULL;

		TRY(lib_watch_next(watch, timeout_ms, &event));
		if (strcmp(fields_text(event, "type"), "event") != 0)
			continue;
		json_free(watch->last);
		watch->last = take_ptr(event);
		*out = (struct cove_watch_event){
			.type = fields_text(watch->last, "eventType"),
			.path = fields_text(watch->last, "path"),
			.is_directory = fields_flag(watch->last, "isDirectory"),
		};
		return OK;
	}
}

enum cove_kind cove_watch_next(struct cove_watch *watch, int64_t timeout_ms,
			       struct cove_watch_event *out, struct cove_error *error)
{
	return private_call(watch->cove, lib_watch_await(watch, timeout_ms, out), error);
}

int cove_watch_fd(const struct cove_watch *watch)
{
	return event_reader_fd(&watch->feed);
}

void cove_watch_close(struct cove_watch *watch)
{
	if (!watch)
		return;
	event_reader_close(&watch->feed);
	json_free(watch->last);
	free(watch);
}
