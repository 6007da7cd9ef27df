// A watch as an event stream. A file worker in the box uses inotify; its events are forwarded one
// at a time. A slow client blocks its own file worker, which merges and counts events meanwhile.
#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/handlers.h"
#include "toolbox/watch_ask.h"
#include "toolbox/watch_state.h"

#define EVENT_MAX (64 * 1024)

static struct json_out toolbox_watch_begin_event(struct buf *event, const char *type)
{
	struct json_out out;

	buf_clear(event);
	buf_text(event, "data: ");
	out = json_to(event);
	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	return out;
}

static fallible toolbox_watch_send_event(struct http *x, struct json_out *out)
{
	json_end(out, '}');
	buf_text(out->buf, "\n\n");
	if (!buf_ok(out->buf))
		return err_new(INTERNAL, "internal", "an event did not fit");
	return http_write(x, out->buf->at, out->buf->len);
}

static void put_path(struct json_out *out, const char *root, struct str path)
{
	auto_buf text = BUF_INIT(4 * PATH_ARG_PATH_MAX);

	buf_text(&text, root);
	if (path.len)
		buf_char(&text, '/');
	buf_str(&text, path);
	path_arg_put_name(out, "path", buf_view(&text));
}

// A queue overflow is reported as a change of the whole tree, so that the client rescans it.
static fallible toolbox_watch_tell(struct http *x, const struct watch_ask *ask,
				   const struct fileop_event *event, struct buf *room)
{
	bool lost = event->type == FILEOP_OVERFLOW;
	struct json_out out = toolbox_watch_begin_event(room, "event");

	json_put_text(&out, "eventType", watch_event_word(event->type));
	put_path(&out, ask->root, lost ? STR("") : event->path);
	json_put_bool(&out, "isDirectory", lost || event->is_directory);
	if (lost)
		json_put_bool(&out, "overflow", true);
	gateway_put_now(&out);
	return toolbox_watch_send_event(x, &out);
}

static fallible next_event(struct http *x, struct files_walk *walk, struct fileop_event *out)
{
	struct err *err;

	TRY(http_away(x, HTTP_PROBE_EVENT));
	err = files_next_event(walk, CLOCK_NEVER, out);
	http_back(x);
	return err;
}

static fallible send_start(struct http *x, const struct path_arg *path_arg, struct buf *room)
{
	struct json_out out = toolbox_watch_begin_event(room, "watching");
	char id[32];

	watch_state_name(watch_state_of(x), id);
	path_arg_put_name(&out, "path", path_arg->shown);
	json_put_text(&out, "watchId", id);
	return toolbox_watch_send_event(x, &out);
}

static fallible send_end(struct http *x, const struct err *err, struct buf *room)
{
	struct json_out out = toolbox_watch_begin_event(room, err ? "error" : "stopped");

	if (err)
		json_put_text(&out, "error", err_message(err));
	else
		json_put_text(&out, "reason", "what was watched is gone");
	return toolbox_watch_send_event(x, &out);
}

static fallible toolbox_watch_follow(struct http *x, const struct watch_ask *ask,
				     struct files_walk *walk, struct buf *room)
{
	for (;;) {
		struct fileop_event event;
		auto_err err = next_event(x, walk, &event);

		if (err && err_kind(err) == ERR_CANCELLED)
			return take_ptr(err);
		if (err || event.type == FILEOP_STOPPED)
			return send_end(x, err, room);
		if (event.type != FILEOP_CAUGHT_UP && watch_ask_wants(ask, &event))
			TRY(toolbox_watch_tell(x, ask, &event, room));
	}
}

static void drop_walk(struct files_walk **walk)
{
	files_drop(*walk);
}

static fallible toolbox_watch_watch(struct path_arg *path_arg)
{
	on_exit_call(drop_walk) struct files_walk *walk = NULL;
	auto_buf room = BUF_INIT(EVENT_MAX);
	struct http *x = path_arg->x;
	struct watch_ask ask;
	auto_json json = NULL;

	TRY(path_arg_json(path_arg, &json));
	TRY(watch_ask_read(path_arg, json, &ask));
	TRY(watch_ask_begin(path_arg, &ask, &walk));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(path_arg->ref.entry,
									       x);

	http_set(x, "Cache-Control", STR("no-cache"));
	http_be_patient(x);
	TRY(http_begin(x, 200, "text/event-stream"));
	TRY(send_start(x, path_arg, &room));
	TRY(toolbox_watch_follow(x, &ask, walk, &room));
	return http_end(x);
}

fallible toolbox_watch(struct http *x)
{
	return path_arg_serve(x, "file.watch", toolbox_watch_watch);
}
