// Follows a server-sent event stream. A lost connection is opened again with the id of the last
// event, for AWAY_MS at most; any other error ends it.
#include "cli/event_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/remote.h"

#define EVENT_MAX (8 << 20)
#define PATH_MAX_BYTES 65536
#define READ 16384
#define AWAY_MS 30000 // how long the daemon may be unreachable
#define AGAIN_MS 300

static void cli_event_stream_take(struct event_stream *feed, const struct sse_event *event)
{
	if (str_to_u64(event->id, 0, INT64_MAX, &feed->last))
		feed->placed = true;
	feed->take(feed, event);
	fflush(stdout);
}

static fallible read_stream(struct event_stream *feed, struct remote *remote,
			    struct cove_request *request, struct sse_reader *reader)
{
	auto_free char *room = mem_new(READ);

	while (!feed->over) {
		struct sse_event event;
		struct str in;
		size_t got = 0;

		TRY(remote_did(remote,
			       cove_request_read(request, room, READ, &got, &remote->error)));
		if (!got)
			return OK;
		in = (struct str){room, got};
		while (!feed->over && sse_read(reader, &in, &event) == SSE_EVENT)
			cli_event_stream_take(feed, &event);
	}
	return OK;
}

static fallible stream_once(struct event_stream *feed, bool *out_begun)
{
	auto_buf path = BUF_INIT(PATH_MAX_BYTES);
	struct sse_reader reader = SSE_READER(EVENT_MAX);
	struct cove_request *request = NULL;
	auto_remote remote = {0};
	struct err *err;

	feed->path(feed, &path);
	TRY(remote_open(&remote, feed->call));
	TRY(remote_did(&remote, cove_request_open(remote.cove, "GET", path.at, NULL, &request,
						  &remote.error)));
	err = remote_did(&remote, cove_request_finish(request, &remote.error));
	*out_begun = !err;
	if (!err)
		err = read_stream(feed, &remote, request, &reader);
	cove_request_free(request);
	sse_done(&reader);
	return err;
}

static bool may_pass(const struct err *err)
{
	return !err || err_kind(err) == ERR_UNAVAILABLE || err_kind(err) == ERR_BAD_PEER ||
	       err_kind(err) == ERR_TIMEOUT;
}

fallible event_stream_follow(struct event_stream *feed)
{
	int64_t since = clock_ms();
	bool first = true;

	for (;;) {
		bool begun = false;
		struct err *err = stream_once(feed, &begun);

		if (begun)
			since = clock_ms();
		first = first && !begun;
		if (err && !feed->over && (first || !may_pass(err) || clock_ms() - since > AWAY_MS))
			return err;
		err_free(err);
		if (feed->over)
			return OK;
		nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000L}, NULL);
	}
}
