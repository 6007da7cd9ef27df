// Messages of a feed to its client. Tasks take turns; each waits until the one before is on its
// way.
#include "api/live.h"

#define TEXT_MAX (4u << 20)

struct json_out live_begin(struct buf *room, const struct live_sub *sub)
{
	struct json_out out;

	buf_clear(room);
	out = json_to(room);
	json_begin(&out, '{');
	json_put_text(&out, "id", sub->id);
	return out;
}

fallible live_write(struct live_feed *feed, const struct buf *text)
{
	struct loop *loop = gateway_of(feed->x)->loop;
	struct err *err;

	if (!buf_ok(text))
		return err_new(INTERNAL, "internal", "a message did not fit");
	if (feed->is_slow)
		return err_new(CANCELLED, "slow_client", "the reader is too slow");
	if (!feed->sending++)
		feed->moved_ms = loop_now(loop);
	// A subscription that ends between two bytes of a message would end the feed.
	task_shield(true);
	err = wsock_send(feed->ws, WSOCK_TEXT, buf_view(text));
	task_shield(false);
	feed->sending--;
	feed->moved_ms = loop_now(loop);
	return err;
}

fallible live_send(const struct live_sub *sub, struct json_out *out)
{
	json_end(out, '}');
	return live_write(sub->feed, out->buf);
}

fallible live_send_error(struct live_feed *feed, const char *id, const struct err *err)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "id", id[0] ? id : NULL);
	json_put_begin(&out, "error", '{');
	json_put_text(&out, "reason", err_reason(err));
	json_put_text(&out, "message", err_message(err));
	json_put_text(&out, "hint", err_hint_of(err));
	json_put_int(&out, "status", err_http(err));
	json_end(&out, '}');
	json_end(&out, '}');
	return live_write(feed, &text);
}
