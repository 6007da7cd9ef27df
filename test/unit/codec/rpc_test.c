#include "codec/rpc.h"

#include "tap.h"

static struct json *doc(const char *text)
{
	struct json *json = NULL;

	if (json_read(str_of(text), &json))
		abort();
	return json;
}

// The kind of a message, or -1.
static int kind_of(const char *text, struct rpc_message *out)
{
	auto_json json = doc(text);
	auto_err err = rpc_read(json, out);

	return err ? -1 : (int)out->kind;
}

TEST(messages, "each kind of message is read, and nothing else")
{
	struct rpc_message m = {0};

	CHECK(kind_of("[\"push\",[\"pipeline\",0,[\"a\"]]]", &m) == RPC_PUSH);
	CHECK(kind_of("[\"pull\",7]", &m) == RPC_PULL);
	CHECK(m.id == 7);
	CHECK(kind_of("[\"resolve\",1,null]", &m) == RPC_RESOLVE);
	CHECK(kind_of("[\"reject\",-1,[\"error\",\"E\",\"m\"]]", &m) == RPC_REJECT);
	CHECK(m.id == -1);
	CHECK(kind_of("[\"release\",3,2]", &m) == RPC_RELEASE);
	CHECK(m.count == 2);
	CHECK(kind_of("[\"pipe\"]", &m) == RPC_PIPE);
	CHECK(kind_of("[\"stream\",[\"pipeline\",2,[\"close\"],[]]]", &m) == RPC_STREAM);
	CHECK(kind_of("[\"abort\",null]", &m) == RPC_ABORT);
	CHECK(kind_of("[\"push\"]", &m) == -1);
	CHECK(kind_of("[\"pull\",\"1\"]", &m) == -1);
	CHECK(kind_of("[\"pull\",1.5]", &m) == -1);
	CHECK(kind_of("[\"pull\",1e18]", &m) == -1);
	CHECK(kind_of("[\"release\",1,-1]", &m) == -1);
	CHECK(kind_of("[\"steal\",1]", &m) == -1);
	CHECK(kind_of("{}", &m) == -1);
	CHECK(kind_of("[]", &m) == -1);
	CHECK(kind_of("[[\"pull\",1]]", &m) == -1);
}

TEST(calls, "a call names its target, its path and its arguments")
{
	auto_json json = doc("[\"pipeline\",0,[\"files\",\"readFile\"],[\"/x\",[\"undefined\"]]]");
	auto_json bare = doc("[\"pipeline\",4]");
	struct rpc_value v = {0};

	CHECK_OK(rpc_value(json, &v));
	CHECK(v.type == RPC_PIPELINE && v.id == 0 && json_count(v.path) == 2);
	CHECK(json_count(v.args) == 2);
	CHECK_OK(rpc_value(bare, &v));
	CHECK(v.type == RPC_PIPELINE && v.id == 4 && !v.path && !v.args);
}

TEST(malformed, "an array of an unknown kind is refused")
{
	static const char *const texts[] = {
		"[]",
		"[1]",
		"[1,2]",
		"[\"gone\"]",
		"[\"bytes\",1]",
		"[\"error\",\"E\"]",
		"[\"pipeline\"]",
		"[\"export\"]",
		"[\"pipeline\",0,\"a\"]",
		"[\"date\",\"x\"]",
		"[\"readable\",{}]",
		"[\"pipeline\",0,[{}],[]]",
		"[\"pipeline\",0,[],{}]",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		auto_json json = doc(texts[i]);
		struct rpc_value v = {0};

		CHECK_ERR(rpc_value(json, &v), INVALID);
	}
}

static void check_plain(const char *text, const char *want)
{
	auto_json json = doc(text);
	auto_buf buf = BUF_INIT(4096);
	struct json_out out = json_to(&buf);

	CHECK_OK(rpc_plain(json, &out));
	CHECK_STR(buf.at, want);
}

TEST(plain, "values become plain JSON: arrays single, undefined left out, dates as text")
{
	check_plain("{\"a\":[[1,[[\"x\"]]]],\"b\":[\"undefined\"],\"c\":null,\"d\":true,\"e\":1.5}",
		    "{\"a\":[1,[\"x\"]],\"c\":null,\"d\":true,\"e\":1.5}");
	check_plain("[\"date\",1000]", "\"1970-01-01T00:00:01.000Z\"");
	check_plain("[[[\"undefined\"]]]", "[null]");
	check_plain("[\"bytes\",\"aGk\"]", "\"aGk\"");
	check_plain("[\"nan\"]", "null");
}

TEST(not_plain, "stubs and streams have no plain form")
{
	static const char *const texts[] = {"{\"f\":[\"export\",-1]}", "[[[\"readable\",2]]]",
					    "[\"pipeline\",1,[\"x\"]]", "[\"headers\",[]]"};

	for (size_t i = 0; i < 4; i++) {
		auto_json json = doc(texts[i]);
		auto_buf buf = BUF_INIT(4096);
		struct json_out out = json_to(&buf);

		CHECK_ERR(rpc_plain(json, &out), INVALID);
	}
}

TEST(wrap, "wrapping doubles every array and touches no string")
{
	auto_buf out = BUF_INIT(4096);
	struct rpc_wrapper wrapper = {0};

	rpc_wrap(&wrapper, &out, STR("{\"a\":[1,[]],\"b\":\"[\\\"]\\\\\",\"c\":{\"d\":[\"]\"]}}"));
	CHECK_STR(out.at, "{\"a\":[[1,[[]]]],\"b\":\"[\\\"]\\\\\",\"c\":{\"d\":[[\"]\"]]}}");
}

TEST(bytes, "bytes go without padding and come with or without")
{
	auto_buf text = BUF_INIT(64), back = BUF_INIT(64), full = BUF_INIT(64), tight = BUF_INIT(1);
	struct json_out out = json_to(&text);

	rpc_put_bytes(&out, "hi", 2);
	CHECK_STR(text.at, "[\"bytes\",\"aGk\"]");
	CHECK(rpc_bytes(STR("aGk"), &back) && str_is(buf_view(&back), "hi"));
	CHECK(rpc_bytes(STR("aGk="), &full) && str_is(buf_view(&full), "hi"));
	CHECK(!rpc_bytes(STR("a"), &back));
	CHECK(!rpc_bytes(STR("a!!!"), &back));
	CHECK(!rpc_bytes(STR("aGk"), &tight));
}
