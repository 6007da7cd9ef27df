#include "codec/cast.h"

#include "tap.h"

#define MAX 4096

static const struct cast_time times[] = {{0, 1500}, {4, 2000}, {6, 1000}, {8, 4250}};

TEST(written, "bytes become events by the times at which they came")
{
	struct cast_writer writer = {.times = times, .time_count = 4};
	struct cast_head head = {.width = 80, .height = 24, .command = STR("make")};
	auto_buf out = BUF_INIT(MAX);

	cast_begin(&writer, &head, &out);
	cast_add(&writer, 0, STR("one\ntwo\n"), 0, &out);
	cast_add(&writer, 1, STR("\x1b[0m"), 8, &out);
	cast_end(&writer, &out);
	CHECK_STR(out.at, "{\"version\":2,\"width\":80,\"height\":24,\"timestamp\":1,"
			  "\"command\":\"make\"}\n"
			  "[0.000,\"o\",\"one\\r\\n\"]\n"
			  "[0.500,\"o\",\"tw\"]\n"
			  "[0.500,\"o\",\"o\\r\\n\"]\n"
			  "[2.750,\"o\",\"\\u001b[0m\"]\n");
}

TEST(characters, "a character that is cut waits for its rest, other bytes become U+FFFD")
{
	struct cast_writer writer = {.is_terminal = true};
	struct cast_head head = {.width = 1, .height = 1};
	auto_buf out = BUF_INIT(MAX);

	cast_begin(&writer, &head, &out);
	buf_clear(&out);
	cast_add(&writer, 0, STR("\xc3"), 0, &out);
	CHECK(out.len == 0);
	cast_add(&writer, 1, STR("x\n"), 1, &out);
	cast_add(&writer, 0, STR("\xa4\xff\xc3"), 3, &out);
	cast_end(&writer, &out);
	CHECK_STR(out.at, "[0.000,\"o\",\"x\\n\"]\n"
			  "[0.000,\"o\",\"\xc3\xa4\xef\xbf\xbd\"]\n"
			  "[0.000,\"o\",\"\xef\xbf\xbd\"]\n");
}

TEST(returns, "a carriage return before a newline is not doubled")
{
	struct cast_writer writer = {0};
	auto_buf out = BUF_INIT(MAX);

	cast_add(&writer, 0, STR("a\r"), 0, &out);
	cast_add(&writer, 0, STR("\nb"), 2, &out);
	CHECK_STR(out.at, "[0.000,\"o\",\"a\\r\"]\n[0.000,\"o\",\"\\nb\"]\n");
}

TEST(reads, "head and events are read back")
{
	auto_json head_json = NULL;
	auto_json event_json = NULL;
	struct cast_head head;
	struct cast_event event;

	CHECK_OK(cast_read_head(STR("{\"version\":2,\"width\":80,\"height\":24,\"timestamp\":3,"
				    "\"env\":{\"TERM\":\"xterm\"}}"),
				&head_json, &head));
	CHECK(head.width == 80 && head.height == 24 && head.started_ms == 3000);
	CHECK_OK(cast_read_event(STR("[1.25, \"o\", \"hi\"]"), &event_json, &event));
	CHECK(event.at_us == 1250000 && event.kind == 'o' && str_is(event.text, "hi"));
}

static bool refuses_head(struct str line)
{
	auto_json json = NULL;
	struct cast_head head;
	auto_err err = cast_read_head(line, &json, &head);

	return err && err_kind(err) == ERR_INVALID;
}

static bool refuses_event(struct str line)
{
	auto_json json = NULL;
	struct cast_event event;
	auto_err err = cast_read_event(line, &json, &event);

	return err && err_kind(err) == ERR_INVALID;
}

TEST(refused, "other lines are refused")
{
	CHECK(refuses_head(STR("{\"version\":1,\"width\":80,\"height\":24}")));
	CHECK(refuses_head(STR("{\"version\":2,\"width\":80}")));
	CHECK(refuses_head(STR("[]")) && refuses_head(STR("x")));
	CHECK(refuses_event(STR("{}")) && refuses_event(STR("[1,\"o\"]")));
	CHECK(refuses_event(STR("[-1,\"o\",\"x\"]")) && refuses_event(STR("[1,\"oo\",\"x\"]")));
	CHECK(refuses_event(STR("[1,\"o\",2]")));
}
