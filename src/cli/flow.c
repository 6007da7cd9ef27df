// An event is lines until an empty one; only `data:` lines matter, and each of ours holds one JSON
// object with a type. Output travels as base64, so that every byte survives.
#include "cli/flow.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "loop/task.h"
#include "wire/json.h"
#include "wire/text.h"

void flow_init(struct flow *flow, int out, int err)
{
	*flow = (struct flow){.out = out,
			      .err = err,
			      .pending = BUF_INIT(FLOW_EVENT_MAX),
			      .bytes = BUF_INIT(FLOW_EVENT_MAX)};
}

void flow_done(struct flow *flow)
{
	buf_done(&flow->pending);
	buf_done(&flow->bytes);
}

fallible flow_write(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n >= 0) {
			at += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) { // somebody shares the terminal and made it so
			struct pollfd wait = {.fd = fd, .events = POLLOUT};

			poll(&wait, 1, 1000);
		} else if (errno == EPIPE) {
			return err_new(CANCELLED, "pipe_closed",
				       "nobody reads the output any more");
		} else if (errno != EINTR) {
			return err_new(NO_SPACE, "cannot_write", "cannot write the output: %s",
				       strerror(errno));
		}
		if (interrupt_signal())
			return err_new(CANCELLED, "interrupted", "interrupted");
	}
	return OK;
}

fallible flow_read(int fd, void *room, size_t size, size_t *out)
{
	struct stat st;
	uint32_t events;
	ssize_t n;

	// Files are always ready, and epoll refuses them and their like (/dev/null).
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode) && task_current()) {
		struct err *err = task_wait_fd(fd, EPOLLIN, CLOCK_NEVER, &events);

		if (err && err_kind(err) == ERR_CANCELLED)
			return err;
		err_free(err);
	}
	do {
		n = read(fd, room, size);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return err_new(INVALID, "cannot_read", "cannot read: %s", strerror(errno));
	*out = (size_t)n;
	return OK;
}

static fallible output(struct flow *flow, int fd, const struct json *event)
{
	struct str data = STR(""), encoding = STR("base64");

	TRY(json_str(json_get(event, "data"), "data", &data));
	TRY(json_str(json_get(event, "encoding"), "encoding", &encoding));
	if (!str_is(encoding, "base64"))
		return flow_write(fd, data.at, data.len);
	buf_clear(&flow->bytes);
	if (!text_unbase64(&flow->bytes, data))
		return err_new(BAD_PEER, "bad_event", "the daemon sent output that is no base64");
	return flow_write(fd, flow->bytes.at, flow->bytes.len);
}

static fallible complete(struct flow *flow, const struct json *event)
{
	uint64_t code = 0;
	struct str ended = STR("exited");
	bool cut = false, also = false;

	TRY(json_u64(json_get(event, "exitCode"), "exitCode", 0, 255, &code));
	TRY(json_str(json_get(event, "ended"), "ended", &ended));
	TRY(json_bool(json_get(event, "stdoutTruncated"), "stdoutTruncated", &cut));
	TRY(json_bool(json_get(event, "stderrTruncated"), "stderrTruncated", &also));
	flow->exit_code = (int)code;
	snprintf(flow->ended, sizeof(flow->ended), STR_FMT, STR_ARG(ended));
	flow->truncated = cut || also;
	flow->done = true;
	return OK;
}

static fallible event_of(struct flow *flow, struct str text)
{
	auto_json event = NULL;
	struct str type = {0}, words = STR("the command could not be followed to its end");

	TRY(json_read(text, &event));
	TRY(json_want(event, "event", JSON_OBJECT));
	TRY(json_str(json_get(event, "type"), "type", &type));
	if (str_is(type, "stdout"))
		return output(flow, flow->out, event);
	if (str_is(type, "stderr"))
		return output(flow, flow->err, event);
	if (str_is(type, "complete"))
		return complete(flow, event);
	if (str_is(type, "error")) {
		TRY(json_str(json_get(event, "error"), "error", &words));
		return err_new(BAD_PEER, "stream_error", STR_FMT, STR_ARG(words));
	}
	return OK; // "start", and what later versions may add
}

fallible flow_feed(struct flow *flow, struct str bytes)
{
	buf_str(&flow->pending, bytes);
	if (!buf_ok(&flow->pending))
		return err_new(BAD_PEER, "bad_event", "the daemon sent an event without an end");
	for (;;) {
		struct str rest = buf_view(&flow->pending), line;
		const char *end = rest.len ? memchr(rest.at, '\n', rest.len) : NULL;

		if (!end)
			return OK;
		line = (struct str){rest.at, (size_t)(end - rest.at)};
		if (str_ends(line, "\r"))
			line.len--;
		if (str_starts(line, "data:"))
			TRY(event_of(flow, str_trim(str_skip(line, 5))));
		buf_drop_front(&flow->pending, (size_t)(end - rest.at) + 1);
	}
}
