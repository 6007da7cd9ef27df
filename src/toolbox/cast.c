// Recordings of processes and terminals. The times are those at which output reached the daemon, to
// a tenth of a second; output that came before the daemon started has the time of its first byte
// after that.
#include "toolbox/cast.h"

#include "base/clock.h"
#include "base/mem.h"

#define PIECE (16 * 1024)
#define OUT_MAX (1u << 20)

static void cast_take_times(struct http *x, const struct tape *tape, struct cast_writer *writer)
{
	size_t count;
	const struct tape_time *times = tape_times(tape, &count);
	struct cast_time *copy = arena_take(x->arena, (count + 1) * sizeof(*copy));

	for (size_t i = 0; i < count; i++)
		copy[i] = (struct cast_time){times[i].offset, times[i].ms};
	writer->times = copy;
	writer->time_count = count;
}

fallible toolbox_cast_send(struct http *x, struct tape *tape, const struct cast_head *head,
			   bool is_terminal)
{
	struct cast_writer writer = {.is_terminal = is_terminal};
	auto_buf out = BUF_INIT(OUT_MAX);
	uint64_t until = tape_kept(tape), offset = 0;
	char *room = arena_take(x->arena, PIECE);

	cast_take_times(x, tape, &writer);
	http_be_patient(x);
	TRY(http_begin(x, 200, CAST_TYPE));
	cast_begin(&writer, head, &out);
	while (offset < until) {
		enum tape_stream stream = TAPE_STDOUT;
		uint64_t left = until - offset;
		size_t len = 0;

		TRY(tape_read(tape, &offset, &stream, room, left < PIECE ? (size_t)left : PIECE,
			      &len, CLOCK_NEVER));
		cast_add(&writer, stream, (struct str){room, len}, offset - len, &out);
		TRY(http_write(x, out.at, out.len));
		buf_clear(&out);
	}
	cast_end(&writer, &out);
	TRY(http_write(x, out.at, out.len));
	return http_end(x);
}
