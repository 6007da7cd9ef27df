// A feed of /v1/live: one WebSocket of a page with its subscriptions. Each subscription is a task
// that reads the present state when the last message is on its way: nothing is queued but what the
// kernel holds for the connection, however slow the page is.
#pragma once

#include "gateway/gateway.h"
#include "http/wsock.h"
#include "types/live.h"

#define LIVE_FEEDS_MAX 16 // of one dashboard session, or one key
#define LIVE_SUBS_MAX 256 // of all of them
#define LIVE_PING_MS 15000
#define LIVE_SLOW_MS 5000	 // a reader that takes nothing for so long is closed …
#define LIVE_CODE_SLOW 4408	 // … with this code
#define LIVE_WINDOW (256 * 1024) // bytes of a log that are not acknowledged
#define LIVE_TICK_MS 250	 // between two messages of `sandboxes`

struct live_feed {
	struct http *x;
	struct wsock *ws;
	struct link link;  // of gateway.feeds
	struct link subs;  // of struct live_sub
	struct task *ping; // NULL: it has ended
	uint32_t sub_count, tasks;
	struct condition left; // signalled when a task has ended
	uint32_t sending;      // tasks that send, or wait for their turn
	int64_t moved_ms;      // loop time of the last message that was taken
	bool is_slow;
};

struct live_sub {
	struct live_feed *feed;
	struct link link;
	struct task *task;
	char id[LIVE_ID_MAX + 1];
	enum live_topic topic;
	struct live_terms terms;  // replaced by SET …
	uint32_t terms_count;	  // … which counts them
	struct condition changed; // signalled by SET and ACK
	uint64_t sent, acked;	  // bytes of a log
};

// The object of a message of `sub`, begun with its id. live_send() ends and sends it: CANCELLED,
// SLOW_CLIENT when the feed is over.
struct json_out live_begin(struct buf *room, const struct live_sub *sub);
fallible live_send(const struct live_sub *sub, struct json_out *out);
// A message of the feed itself, and the refusal of what names the subscription `id`, "" for none.
fallible live_write(struct live_feed *feed, const struct buf *text);
fallible live_send_error(struct live_feed *feed, const char *id, const struct err *err);
// The topic `log`.
fallible live_run_log(struct live_sub *sub);
