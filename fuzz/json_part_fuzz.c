// Of every strict object: what is taken out and what is left are strict JSON again.
#include "codec/json_part.h"

#include "codec/json_scan.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_free char *copy = malloc(len + 1);
	auto_buf rest = BUF_INIT(1 << 20);
	struct json_scan scan, again;
	struct str found = {NULL, 0};

	memcpy(copy, bytes, len);
	if (!json_scan((struct str){copy, len}, &scan))
		return 0;
	if (!json_part(scan.value, "body", &rest, &found))
		return 0;
	MUST(is_within(found, scan.value));
	MUST(!buf_ok(&rest) || json_scan(buf_view(&rest), &again));
	MUST(!found.at || json_scan(found, &again));
	return 0;
}
