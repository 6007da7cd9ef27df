// Arrival times of output: pairs of an offset and a time, in memory for the life of the tape. A
// pair is added when 100 ms or more have passed since the last one. Past TIMES_MAX every second
// pair of the older half is dropped. Output that came under a previous daemon has no times.
#include "base/clock.h"
#include "base/mem.h"
#include "box/tape_private.h"

#define STEP_MS 100
#define TIMES_MAX 1024

static void times_thin(struct tape *tape)
{
	size_t half = tape->time_count / 2, kept = 0;

	for (size_t i = 0; i < tape->time_count; i++)
		if (i >= half || i % 2 == 0)
			tape->times[kept++] = tape->times[i];
	tape->time_count = kept;
}

void tape_note_time(struct tape *tape)
{
	int64_t now = clock_wall_ms();

	if (tape->time_count && now - tape->times[tape->time_count - 1].ms < STEP_MS &&
	    now >= tape->times[tape->time_count - 1].ms)
		return;
	if (tape->time_count == TIMES_MAX)
		times_thin(tape);
	tape->times = mem_grow(tape->times, tape->time_count + 1, sizeof(*tape->times));
	tape->times[tape->time_count++] = (struct tape_time){tape->end.offset, now};
}

const struct tape_time *tape_times(const struct tape *tape, size_t *out_count)
{
	*out_count = tape->time_count;
	return tape->times;
}
