// Any text as a range: what comes out lies within the file, and survives being written again.
#include "codec/range.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	uint64_t first = 0, count = 0, total = 0, size = len ? bytes[0] * 1000ull : 0;
	char again[96];

	if (range_read(text, size, &first, &count) == RANGE_PART) {
		uint64_t first2 = 0, count2 = 0;

		MUST(count > 0 && count <= size && first <= size - count);
		snprintf(again, sizeof(again), "bytes=%llu-%llu", (unsigned long long)first,
			 (unsigned long long)(first + count - 1));
		MUST(range_read(str_of(again), size, &first2, &count2) == RANGE_PART);
		MUST(first2 == first && count2 == count);
	}
	if (range_content(text, &first, &count, &total))
		MUST(first <= total && count <= total - first);
	return 0;
}
