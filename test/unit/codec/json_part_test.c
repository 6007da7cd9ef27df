#include "codec/json_part.h"

#include "tap.h"

static bool parts(const char *text, const char *rest, const char *body)
{
	auto_buf out = BUF_INIT(1024);
	struct str found = {NULL, 0};

	if (!json_part(str_of(text), "body", &out, &found))
		return !rest;
	if (!rest || !str_is(buf_view(&out), rest))
		return false;
	return body ? str_is(found, body) : !found.at;
}

TEST(parts_, "one member is taken out as it is written")
{
	CHECK(parts("{}", "{}", NULL));
	CHECK(parts("{ \"a\" : 1 }", "{\"a\" : 1}", NULL));
	CHECK(parts("{\"a\":1,\"body\":{\"x\":[1,\"}\\\"\"]} ,\"b\":\"body\"}",
		    "{\"a\":1,\"b\":\"body\"}", "{\"x\":[1,\"}\\\"\"]}"));
	CHECK(parts("{\"body\":\"a,b\"}", "{}", "\"a,b\""));
	CHECK(parts("{\"body\": 12 }", "{}", "12"));
	CHECK(parts("{\"b\":{\"body\":1}}", "{\"b\":{\"body\":1}}", NULL));
	CHECK(parts("[1]", NULL, NULL) && parts("\"body\"", NULL, NULL));
	CHECK(parts("{\"body\":1,\"body\":2}", NULL, NULL));
}
