#include "cli/flow.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "os/fd.h"
#include "tap.h"

static const char story[] = "data: {\"type\":\"start\",\"command\":\"x\"}\n\n"
			    "data: {\"type\":\"stdout\",\"data\":\"AP8K\"}\n\n"
			    "data: {\"type\":\"stderr\",\"data\":\"ZXJy\"}\r\n\r\n"
			    ": a comment\n\n"
			    "data: {\"type\":\"stdout\",\"data\":\"dHdv\"}\n\n"
			    "data: {\"type\":\"novelty\"}\n\n"
			    "data: {\"type\":\"complete\",\"exitCode\":137,\"ended\":\"oom\","
			    "\"stdoutTruncated\":true}\n\n";

static int out[2], err[2];

static void start(struct flow *flow)
{
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return;
	flow_init(flow, out[1], err[1]);
}

// What came out; closes the pipes.
static const char *outcome(struct flow *flow, int ends[2], char *room, size_t size)
{
	ssize_t n;

	(void)flow;
	close(ends[1]);
	n = fd_read_all(ends[0], room, size - 1);
	room[n > 0 ? n : 0] = 0;
	close(ends[0]);
	return room;
}

TEST(cut_anywhere, "a stream may be cut anywhere: the same bytes come out")
{
	for (size_t piece = 1; piece < sizeof(story); piece++) {
		on_exit_call(flow_done) struct flow flow;
		char room[64];

		start(&flow);
		for (size_t at = 0; at < sizeof(story) - 1; at += piece) {
			size_t n = sizeof(story) - 1 - at;

			CHECK_OK(flow_feed(&flow, (struct str){story + at, n < piece ? n : piece}));
		}
		outcome(&flow, out, room, sizeof(room));
		CHECK(memcmp(room, "\0\xff\ntwo", 7) == 0);
		CHECK_STR(outcome(&flow, err, room, sizeof(room)), "err");
		CHECK(flow.done && flow.exit_code == 137 && flow.truncated);
		CHECK_STR(flow.ended, "oom");
	}
}

TEST(trouble, "an error event, bad base64 and bad JSON are errors")
{
	static const char *const lines[] = {"data: {\"type\":\"error\",\"error\":\"lost\"}\n",
					    "data: {\"type\":\"stdout\",\"data\":\"?\"}\n",
					    "data: {\n", "data: []\n",
					    "data: {\"type\":\"complete\",\"exitCode\":900}\n"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		on_exit_call(flow_done) struct flow flow;

		flow_init(&flow, -1, -1);
		auto_err failure = flow_feed(&flow, str_of(lines[i]));

		CHECK(failure != NULL);
		CHECK(!flow.done);
	}
}

TEST(no_reader, "a reader that went away is told apart from other failures")
{
	on_exit_call(flow_done) struct flow flow;
	char room[8];

	signal(SIGPIPE, SIG_IGN);
	start(&flow);
	close(out[0]);
	auto_err failure = flow_feed(&flow, str_of(story));

	CHECK(failure && strcmp(err_reason(failure), "pipe_closed") == 0);
	close(out[1]);
	outcome(&flow, err, room, sizeof(room));
}
