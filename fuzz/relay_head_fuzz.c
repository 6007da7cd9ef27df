// What a server in a sandbox may set in its replies: a cookie loses its domain, whatever it looks
// like, and a redirect of the server to itself never leaves the preview.
#include "http/relay_head.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct relay_options way = {.host = STR("localhost:8080"), .prefix = STR("/8080-b-t")};
	auto_buf once = BUF_INIT(1 << 20), twice = BUF_INIT(1 << 20), place = BUF_INIT(1 << 20);
	struct str value = {(const char *)bytes, len};

	relay_head_cookie(value, STR(""), &once);
	relay_head_cookie(buf_view(&once), STR(""), &twice);
	MUST(str_eq(buf_view(&once), buf_view(&twice)));
	relay_head_location(value, &way, &place);
	if (len && bytes[0] == '/' && (len == 1 || bytes[1] != '/'))
		MUST(str_starts(buf_view(&place), "/8080-b-t/"));
	return 0;
}
