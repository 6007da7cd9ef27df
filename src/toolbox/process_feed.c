// Input of a process: bytes to its stdin, and signals. A write waits until the process reads, at
// most PATIENCE_MS; the answer says how many bytes were accepted.
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "codec/text.h"
#include "toolbox/handlers.h"
#include "toolbox/process.h"

#define PIECE (64 * 1024)
#define DATA_MAX (1 << 20)
#define PATIENCE_MS 30000 // limit for a process that does not read its stdin

static fallible process_feed_fail(struct http *x, struct err *err)
{
	struct process_failure failure = {.operation = "process.stdin"};

	if (err)
		process_fail(x, &failure, err);
	return OK;
}

struct feed {
	struct proc *proc;
	int64_t patience_ms;
	bool close;
	uint64_t bytes;
};

static fallible process_feed_write_some(struct feed *feed, struct http *x, struct str bytes)
{
	struct err *err;

	if (!bytes.len)
		return OK;
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = proc_write(feed->proc, bytes, loop_now(gateway_of(x)->loop) + feed->patience_ms);
	http_back(x);
	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_hint(err_recast(err, ERR_TIMEOUT, "stdin_full",
					   "the process does not read its input"),
				"%llu bytes were taken", (unsigned long long)feed->bytes);
	TRY(err);
	feed->bytes += bytes.len;
	return OK;
}

static fallible feed_json(struct feed *feed, struct http *x)
{
	auto_json json = NULL;
	auto_buf plain = BUF_INIT(DATA_MAX);
	struct str data = {0}, how = STR("utf8");

	TRY(gateway_json(x, &json, NULL));
	if (!json)
		return err_new(INVALID, "bad_field", "the body is empty");
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_str(json_get(json, "data"), "data", &data));
	TRY(json_str(json_get(json, "encoding"), "encoding", &how));
	TRY(json_bool(json_get(json, "close"), "close", &feed->close));
	if (!str_is(how, "utf8") && !str_is(how, "base64"))
		return err_new(INVALID, "bad_field", "'encoding' must be utf8 or base64");
	if (data.at && str_is(how, "base64")) {
		if (!text_unbase64(&plain, data))
			return err_new(INVALID, "bad_field", "'data' is not base64");
		data = buf_view(&plain);
	}
	return process_feed_write_some(feed, x, data);
}

static fallible feed_raw(struct feed *feed, struct http *x)
{
	struct str word = http_query(x, "close");
	char *room = arena_take(x->arena, PIECE);
	size_t len;

	if (word.at && !str_is(word, "true") && !str_is(word, "false"))
		return err_new(INVALID, "bad_field", "'close' must be true or false");
	feed->close = word.at && str_is(word, "true");
	do {
		TRY(http_read(x, room, PIECE, &len));
		TRY(process_feed_write_some(feed, x, (struct str){room, len}));
	} while (len);
	return OK;
}

static fallible feed_process(struct feed *feed, struct http *x)
{
	uint64_t patience = PATIENCE_MS;

	TRY(process_timeout(x, &patience));
	feed->patience_ms = (int64_t)patience;
	if (str_starts(http_field(x, "Content-Type"), "application/json"))
		TRY(feed_json(feed, x));
	else
		TRY(feed_raw(feed, x));
	return feed->close ? proc_close_stdin(feed->proc) : OK;
}

fallible toolbox_process_stdin(struct http *x)
{
	auto_process process = {0};
	auto_buf body = BUF_INIT(4096);
	struct feed feed = {0};
	struct err *err = process_find(x, &process);
	struct json_out out;

	feed.proc = process.proc;
	if (!err)
		err = feed_process(&feed, x);
	if (err)
		return process_feed_fail(x, err);
	out = process_answer(&body, proc_look(process.proc).id);
	json_put_int(&out, "bytes", (int64_t)feed.bytes);
	json_put_bool(&out, "closed", feed.close);
	return gateway_answer(x, &out);
}

// Accepts "TERM", "SIGTERM" or 15.
static fallible process_feed_read_signal(const struct json *value, int *out)
{
	struct str word = {0};
	uint64_t number = SIGTERM;

	if (value && json_type(value) == JSON_NUMBER) {
		TRY(json_u64(value, "signal", 1, 64, &number));
		*out = (int)number;
		return OK;
	}
	TRY(json_str(value, "signal", &word));
	if (str_starts(word, "SIG"))
		word = str_skip(word, 3);
	for (int i = 1; word.len && i < NSIG; i++) {
		const char *name = sigabbrev_np(i);

		if (name && str_is(word, name)) {
			*out = i;
			return OK;
		}
	}
	if (!word.at) {
		*out = SIGTERM;
		return OK;
	}
	return err_hint(err_new(INVALID, "bad_field", "there is no such signal"),
			"use a name like SIGINT, or a number from 1 to 64");
}

static fallible signal_process(struct http *x, struct process *process, int *out)
{
	auto_json json = NULL;

	TRY(gateway_json(x, &json, NULL));
	if (json)
		TRY(json_want(json, "body", JSON_OBJECT));
	TRY(process_feed_read_signal(json ? json_get(json, "signal") : NULL, out));
	TRY(process_find(x, process));
	return proc_signal(process->proc, *out);
}

fallible toolbox_process_signal(struct http *x)
{
	struct process_failure failure = {.operation = "process.kill"};
	auto_process process = {0};
	auto_buf body = BUF_INIT(4096);
	int signal = 0;
	struct err *err = signal_process(x, &process, &signal);
	struct json_out out;

	if (err) {
		process_fail(x, &failure, err);
		return OK;
	}
	out = process_answer(&body, proc_look(process.proc).id);
	json_put_int(&out, "signal", signal);
	json_put_text(&out, "status", proc_status_word(proc_look(process.proc).status));
	return gateway_answer(x, &out);
}
