// Any text as a file of a cgroup, and as a price: nothing is read beyond the end, a number that was
// taken is in the text, and a price is written as it was read.
#include "types/counters.h"

#include "fuzz.h"
#include "types/usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);
	struct str text = {copy, len};
	uint64_t value = 0, in, out, again = 0;
	char room[PRICE_ROOM];

	memcpy(copy, bytes, len);
	if (counters_number(text, "usage_usec", &value) || counters_number(text, NULL, &value))
		MUST(value != COUNTER_UNKNOWN && memchr(copy, '\n', len));
	counters_io(text, &in, &out);
	MUST(counters_working(in, out) <= in);
	if (price_read(text, &value)) {
		price_text(value, room);
		MUST(price_read(str_of(room), &again) && again == value);
	}
	free(copy);
	return 0;
}
