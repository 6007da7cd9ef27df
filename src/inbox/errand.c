#include "inbox/errand.h"

#include "base/clock.h"

#define RUN (4 * 1024)

static void keep(struct buf *to, const char *bytes, size_t len, size_t max)
{
	size_t room = max > to->len ? max - to->len : 0;

	buf_add(to, bytes, len < room ? len : room);
}

static fallible errand_gather(struct errand *errand, struct use *use, size_t max, char *room)
{
	uint64_t offset = 0;
	size_t got;

	do {
		enum tape_stream stream = TAPE_STDOUT;

		TRY(tape_read(use_tape(use), &offset, &stream, room, RUN, &got, CLOCK_NEVER));
		keep(stream == TAPE_STDOUT ? &errand->out : &errand->err, room, got, max);
	} while (got);
	return OK;
}

fallible errand_run(struct http *x, struct errand *errand)
{
	size_t max = errand->output_max ? errand->output_max : ERRAND_OUTPUT_MAX;
	char *room = arena_take(x->arena, RUN);
	struct use_spec spec = {
		.argv = errand->argv,
		.env = errand->env,
		.cwd = errand->cwd,
		.wall_ms = errand->wall_ms,
	};
	auto_use use = NULL;
	struct err *err;

	errand->out = BUF_INIT(max);
	errand->err = BUF_INIT(max);
	TRY(use_start(door_of(x)->fleet, door_who(x), x->params[0], &spec, &use));
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = use_wait(use, &errand->result);
	http_back(x);
	TRY(err);
	return errand_gather(errand, use, max, room);
}

void errand_done(struct errand *errand)
{
	buf_done(&errand->out);
	buf_done(&errand->err);
}
