// A row of the history that can be read is written again as the same points.
#include "types/history_row.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct history_point points[HISTORY_POINTS] = {0}, again[HISTORY_POINTS] = {0};
	auto_buf out = BUF_INIT(1 << 16);

	if (!history_row_read((struct str){(const char *)bytes, len}, points))
		return 0;
	history_row_write(points, &out);
	MUST(buf_ok(&out) && history_row_read(buf_view(&out), again));
	for (int i = 0; i < HISTORY_POINTS; i++) {
		MUST(points[i].covered == again[i].covered);
		MUST(!memcmp(points[i].value, again[i].value, sizeof(points[i].value)));
		MUST(!memcmp(points[i].max, again[i].max, sizeof(points[i].max)));
	}
	return 0;
}
