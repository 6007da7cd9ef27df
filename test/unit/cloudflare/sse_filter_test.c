#include "cloudflare/sse_filter.h"

#include "tap.h"

static const char stream[] = ": hello\n\n"
			     "id: 0\n"
			     "data: {\"type\":\"process_info\",\"processId\":\"p\",\"command\":\"a "
			     "long one, longer than what "
			     "tells its type\"}\n\n"
			     "id: 7\n"
			     "data: {\"type\":\"stdout\",\"data\":\"a\"}\n\n"
			     "data: {\"type\":\"exit\"}\n\n"
			     "data: {}";

static const char *sifted(struct sse_filter filter, size_t step)
{
	static char text[1024];
	auto_buf out = BUF_INIT(1023);
	struct str rest = {stream, sizeof(stream) - 1};

	while (rest.len) {
		size_t len = rest.len < step ? rest.len : step;

		sse_filter_add(&filter, (struct str){rest.at, len}, &out);
		rest = str_skip(rest, len);
	}
	sse_filter_end(&filter, &out);
	snprintf(text, sizeof(text), STR_FMT, STR_ARG(buf_view(&out)));
	return text;
}

TEST(names, "each event gets a line with its type, however the bytes are cut")
{
	for (size_t step = 1; step < sizeof(stream); step++)
		CHECK_STR(sifted((struct sse_filter){.names = true}, step),
			  ": hello\n\n"
			  "id: 0\n"
			  "event: process_info\n"
			  "data: {\"type\":\"process_info\",\"processId\":\"p\",\"command\":\"a "
			  "long one, "
			  "longer than what tells its type\"}\n\n"
			  "id: 7\n"
			  "event: stdout\n"
			  "data: {\"type\":\"stdout\",\"data\":\"a\"}\n\n"
			  "event: exit\n"
			  "data: {\"type\":\"exit\"}\n\n"
			  "data: {}");
}

TEST(drops, "events of one type are dropped, with the empty line after them")
{
	for (size_t step = 1; step < sizeof(stream); step++)
		CHECK_STR(sifted((struct sse_filter){.drop = "process_info"}, step),
			  ": hello\n\n"
			  "id: 7\n"
			  "data: {\"type\":\"stdout\",\"data\":\"a\"}\n\n"
			  "data: {\"type\":\"exit\"}\n\n"
			  "data: {}");
}
