// Parses the text of cgroup files. The kernel wrote them, but a file may be cut by the reader's
// room: a number that is not followed by the end of its line is not taken.
#include "types/counters.h"

struct counters counters_unknown(void)
{
	return (struct counters){
		.cpu_us = COUNTER_UNKNOWN,
		.memory_charged = COUNTER_UNKNOWN,
		.memory_working = COUNTER_UNKNOWN,
		.pids = COUNTER_UNKNOWN,
		.throttled_us = COUNTER_UNKNOWN,
		.memory_peak = COUNTER_UNKNOWN,
		.oom_kills = COUNTER_UNKNOWN,
		.read_bytes = COUNTER_UNKNOWN,
		.write_bytes = COUNTER_UNKNOWN,
	};
}

bool counters_number(struct str text, const char *label, uint64_t *out)
{
	struct str rest = text, line, word;

	while (rest.len && memchr(rest.at, '\n', rest.len) && str_cut(&rest, '\n', &line)) {
		if (label) {
			str_cut(&line, ' ', &word);
			if (!str_is(word, label))
				continue;
		}
		return str_to_u64(line, 0, COUNTER_UNKNOWN - 1, out);
	}
	return false;
}

static void counters_add_field(struct str field, const char *key, uint64_t *sum)
{
	uint64_t value;

	if (str_starts(field, key) &&
	    str_to_u64(str_skip(field, strlen(key)), 0, COUNTER_UNKNOWN - 1, &value))
		*sum += value;
}

void counters_io(struct str text, uint64_t *out_read, uint64_t *out_written)
{
	struct str rest = text, line, field;

	*out_read = *out_written = 0;
	while (rest.len && memchr(rest.at, '\n', rest.len) && str_cut(&rest, '\n', &line)) {
		while (line.len && str_cut(&line, ' ', &field)) {
			counters_add_field(field, "rbytes=", out_read);
			counters_add_field(field, "wbytes=", out_written);
		}
	}
}

uint64_t counters_working(uint64_t charged, uint64_t inactive)
{
	if (charged == COUNTER_UNKNOWN || inactive == COUNTER_UNKNOWN)
		return charged;
	return charged > inactive ? charged - inactive : 0;
}
