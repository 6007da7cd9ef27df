// Times of output lines: asks the daemon for the times of stored output, uses the clock for new
// output, and prints or filters by them.
#include "cli/stamps.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/print.h"
#include "codec/text.h"

void stamps_done(struct stamps *stamps)
{
	free(stamps->at);
	*stamps = (struct stamps){0};
}

// "10m" is a span before now, "2026-01-31T08:00:00Z" a time.
fallible stamps_read(const struct call *call, struct stamps *out)
{
	const char *since = call_value(call, OPT_SINCE);
	uint64_t span;

	out->shown = call_has(call, OPT_TIMESTAMPS);
	if (!since)
		return OK;
	if (str_to_u64(str_of(since), 0, UINT32_MAX, &span)) // bare numbers are seconds
		out->since_ms = clock_wall_ms() - (int64_t)span * 1000;
	else if (str_to_ms(str_of(since), &span))
		out->since_ms = clock_wall_ms() - (int64_t)span;
	else
		out->since_ms = print_when(str_of(since));
	if (out->since_ms > 0)
		return OK;
	return err_hint(err_new(INVALID, "bad_value", "--since '%s' is no TIME", since),
			"for example --since 10m or --since 2026-01-31T08:00:00Z");
}

static int64_t milliseconds(struct str iso)
{
	const char *dot = memchr(iso.at, '.', iso.len);
	int64_t ms = print_when(iso);

	return ms < 0 ? 0 : ms + (dot ? strtol(dot + 1, NULL, 10) % 1000 : 0);
}

fallible stamps_ask(struct remote *remote, const char *box, const char *process,
		    struct stamps *stamps)
{
	auto_buf rest = BUF_INIT(4096);
	auto_json answer = NULL;
	struct json *times;

	buf_text(&rest, "/api/process/");
	text_percent(&rest, str_of(process));
	buf_text(&rest, "?times=true");

	auto_free char *path = remote_path("/v1/sandboxes/", box, rest.at);

	TRY(remote_ask(remote, "GET", path, NULL, NULL, &answer));
	TRY(json_u64(json_get(answer, "outputBytes"), "outputBytes", 0, INT64_MAX, &stamps->old));
	times = json_get(answer, "outputTimes");
	for (size_t i = 0; times && i < json_count(times); i++) {
		struct stamp stamp = {0};
		struct str time = STR("");

		TRY(json_str(json_get(json_at(times, i), "time"), "time", &time));
		stamp.ms = milliseconds(time);
		TRY(json_u64(json_get(json_at(times, i), "offset"), "offset", 0, INT64_MAX,
			     &stamp.offset));
		stamps->at = mem_grow(stamps->at, stamps->count + 1, sizeof(*stamps->at));
		stamps->at[stamps->count++] = stamp;
	}
	return OK;
}

// The time of the byte at the offset; 0: unknown.
static int64_t time_of(const struct stamps *stamps, uint64_t offset)
{
	int64_t ms = 0;

	if (offset >= stamps->old)
		return clock_wall_ms();
	for (size_t i = 0; i < stamps->count && stamps->at[i].offset <= offset; i++)
		ms = stamps->at[i].ms;
	return ms;
}

static void stamps_put_time(int64_t ms, struct buf *out)
{
	if (ms)
		clock_iso(ms, out);
	else
		buf_char(out, '-');
	buf_char(out, ' ');
}

void stamps_pass(struct stamps *stamps, bool is_stderr, struct str bytes, struct buf *out)
{
	bool *inside = &stamps->is_inside[is_stderr], *left_out = &stamps->is_left_out[is_stderr];

	while (bytes.len) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t len = end ? (size_t)(end - bytes.at) + 1 : bytes.len;

		if (!*inside) {
			int64_t ms = time_of(stamps, stamps->offset);

			*left_out = ms && ms < stamps->since_ms; // an unknown time is not old
			if (stamps->shown && !*left_out)
				stamps_put_time(ms, out);
		}
		if (!*left_out)
			buf_add(out, bytes.at, len);
		*inside = !end;
		stamps->offset += len;
		bytes = str_skip(bytes, len);
	}
}
