#include "types/retention.h"

#include "tap.h"

// The reason of a refusal, or "ok" with *out changed.
static const char *read_into(const char *text, struct retention *out)
{
	static char reason[64];
	auto_json json = NULL;
	auto_err bad = json_read(str_of(text), &json);
	auto_err err = bad ? NULL : retention_read(json, out);

	snprintf(reason, sizeof(reason), "%s", bad ? "json" : err ? err_reason(err) : "ok");
	return reason;
}

TEST(idle, "sleepAfter is seconds, or a number with its unit")
{
	struct retention retention = RETENTION_DEFAULT;

	CHECK_STR(read_into("{\"sleepAfter\":90}", &retention), "ok");
	CHECK(retention.sleep_after_ms == 90000);
	CHECK_STR(read_into("{\"sleepAfter\":\"10m\"}", &retention), "ok");
	CHECK(retention.sleep_after_ms == 600000);
	CHECK_STR(read_into("{\"sleepAfter\":\"1h\"}", &retention), "ok");
	CHECK(retention.sleep_after_ms == 3600000);
	CHECK_STR(read_into("{\"sleepAfter\":\"10\"}", &retention), "bad_field");
	CHECK_STR(read_into("{\"sleepAfter\":\"m\"}", &retention), "bad_field");
	CHECK_STR(read_into("{\"sleepAfter\":0}", &retention), "bad_field");
	CHECK_STR(read_into("{\"sleepAfter\":-1}", &retention), "bad_field");
	CHECK_STR(read_into("{\"sleepAfter\":true}", &retention), "bad_field");
	CHECK(retention.sleep_after_ms == 3600000);
}

TEST(waits, "the bounds of readiness have their ranges")
{
	struct retention retention = RETENTION_DEFAULT;

	CHECK_STR(read_into("{\"containerTimeouts\":{\"waitIntervalMS\":100}}", &retention), "ok");
	CHECK(retention.waits.wait_interval_ms == 100 && retention.waits.port_ready_ms == 90000);
	CHECK_STR(read_into("{\"containerTimeouts\":{\"waitIntervalMS\":99}}", &retention),
		  "bad_field");
	CHECK_STR(read_into("{\"containerTimeouts\":{\"portReadyTimeoutMS\":600001}}", &retention),
		  "bad_field");
	CHECK_STR(read_into("{\"containerTimeouts\":{\"else\":1}}", &retention), "unknown_field");
	CHECK_STR(read_into("{\"containerTimeouts\":[]}", &retention), "bad_field");
}

TEST(base, "a base URL is set once")
{
	struct retention retention = RETENTION_DEFAULT;

	CHECK_STR(read_into("{\"baseUrl\":\"https://cove.example:8/x\"}", &retention), "ok");
	CHECK_STR(read_into("{\"baseUrl\":\"https://cove.example:8/x\"}", &retention), "ok");
	CHECK_STR(read_into("{\"baseUrl\":\"https://other.example\"}", &retention), "base_url_set");
	CHECK(retention.base_url);
	CHECK_STR(retention.base_url, "https://cove.example:8/x");
	retention_done(&retention);
	CHECK_STR(read_into("{\"baseUrl\":\"file:///x\"}", &retention), "bad_field");
	CHECK_STR(read_into("{\"baseUrl\":\"http://x/\"}", &retention), "bad_field");
	CHECK_STR(read_into("{\"baseUrl\":\"http://\"}", &retention), "bad_field");
	CHECK_STR(read_into("{\"baseUrl\":\"http://a@b\"}", &retention), "bad_field");
	CHECK(!retention.base_url);
}

TEST(shown, "retention is written in the form of the API")
{
	struct retention retention = RETENTION_DEFAULT;
	auto_buf text = BUF_INIT(1024);
	struct json_out out = json_to(&text);

	retention.sleep_after_ms = 5400000;
	json_begin(&out, '{');
	retention_write(&out, &retention);
	json_end(&out, '}');
	CHECK_STR(text.at, "{\"sleepAfter\":\"90m\",\"archiveAfter\":null,\"keepAlive\":false,"
			   "\"containerTimeouts\":"
			   "{\"instanceGetTimeoutMS\":30000,\"portReadyTimeoutMS\":90000,"
			   "\"waitIntervalMS\":300}}");
}
