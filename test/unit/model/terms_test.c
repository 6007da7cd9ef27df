#include "model/terms.h"

#include "tap.h"

// The reason of a refusal, or "ok" with *out changed.
static const char *read_into(const char *text, struct terms *out)
{
	static char reason[64];
	auto_json json = NULL;
	auto_err bad = json_read(str_of(text), &json);
	auto_err err = bad ? NULL : terms_read(json, out);

	snprintf(reason, sizeof(reason), "%s", bad ? "json" : err ? err_reason(err) : "ok");
	return reason;
}

TEST(idle, "sleepAfter is seconds, or a number with its unit")
{
	struct terms terms = TERMS_DEFAULT;

	CHECK_STR(read_into("{\"sleepAfter\":90}", &terms), "ok");
	CHECK(terms.sleep_after_ms == 90000);
	CHECK_STR(read_into("{\"sleepAfter\":\"10m\"}", &terms), "ok");
	CHECK(terms.sleep_after_ms == 600000);
	CHECK_STR(read_into("{\"sleepAfter\":\"1h\"}", &terms), "ok");
	CHECK(terms.sleep_after_ms == 3600000);
	CHECK_STR(read_into("{\"sleepAfter\":\"10\"}", &terms), "bad_field");
	CHECK_STR(read_into("{\"sleepAfter\":\"m\"}", &terms), "bad_field");
	CHECK_STR(read_into("{\"sleepAfter\":0}", &terms), "bad_field");
	CHECK_STR(read_into("{\"sleepAfter\":-1}", &terms), "bad_field");
	CHECK_STR(read_into("{\"sleepAfter\":true}", &terms), "bad_field");
	CHECK(terms.sleep_after_ms == 3600000);
}

TEST(waits, "the bounds of readiness have their ranges")
{
	struct terms terms = TERMS_DEFAULT;

	CHECK_STR(read_into("{\"containerTimeouts\":{\"waitIntervalMS\":100}}", &terms), "ok");
	CHECK(terms.waits.wait_interval_ms == 100 && terms.waits.port_ready_ms == 90000);
	CHECK_STR(read_into("{\"containerTimeouts\":{\"waitIntervalMS\":99}}", &terms),
		  "bad_field");
	CHECK_STR(read_into("{\"containerTimeouts\":{\"portReadyTimeoutMS\":600001}}", &terms),
		  "bad_field");
	CHECK_STR(read_into("{\"containerTimeouts\":{\"else\":1}}", &terms), "unknown_field");
	CHECK_STR(read_into("{\"containerTimeouts\":[]}", &terms), "bad_field");
}

TEST(base, "a base URL is set once")
{
	struct terms terms = TERMS_DEFAULT;

	CHECK_STR(read_into("{\"baseUrl\":\"https://cove.example:8/x\"}", &terms), "ok");
	CHECK_STR(read_into("{\"baseUrl\":\"https://cove.example:8/x\"}", &terms), "ok");
	CHECK_STR(read_into("{\"baseUrl\":\"https://other.example\"}", &terms), "base_url_set");
	CHECK(terms.base_url);
	CHECK_STR(terms.base_url, "https://cove.example:8/x");
	terms_done(&terms);
	CHECK_STR(read_into("{\"baseUrl\":\"file:///x\"}", &terms), "bad_field");
	CHECK_STR(read_into("{\"baseUrl\":\"http://x/\"}", &terms), "bad_field");
	CHECK_STR(read_into("{\"baseUrl\":\"http://\"}", &terms), "bad_field");
	CHECK_STR(read_into("{\"baseUrl\":\"http://a@b\"}", &terms), "bad_field");
	CHECK(!terms.base_url);
}

TEST(shown, "terms are written as people read them")
{
	struct terms terms = TERMS_DEFAULT;
	auto_buf text = BUF_INIT(1024);
	struct json_out out = json_to(&text);

	terms.sleep_after_ms = 5400000;
	json_begin(&out, '{');
	terms_write(&out, &terms);
	json_end(&out, '}');
	CHECK_STR(text.at, "{\"sleepAfter\":\"90m\",\"keepAlive\":false,\"containerTimeouts\":"
			   "{\"instanceGetTimeoutMS\":30000,\"portReadyTimeoutMS\":90000,"
			   "\"waitIntervalMS\":300}}");
}
