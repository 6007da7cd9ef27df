#include "types/live.h"

#include "tap.h"

static struct live_message message;

static enum live_topic topic_of(void *arg, const char *id)
{
	(void)arg;
	return !strcmp(id, "rows") ? LIVE_BOXES : LIVE_TOPIC_COUNT;
}

static struct err *reads(const char *text)
{
	return live_message_read(str_of(text), topic_of, NULL, &message);
}

TEST(subscriptions, "each topic has its own members")
{
	CHECK_OK(reads("{\"op\":\"sub\",\"id\":\"e\",\"topic\":\"events\",\"after\":0,"
		       "\"kinds\":[\"sandbox\",\"alert\"],\"sandbox\":\"web\"}"));
	CHECK(message.op == LIVE_SUB && message.topic == LIVE_EVENTS && message.terms.has_after);
	CHECK(message.terms.kind_count == 2 && !strcmp(message.terms.kinds[1], "alert"));
	CHECK(!strcmp(message.id, "e") && !strcmp(message.terms.box, "web"));
	CHECK_OK(reads("{\"op\":\"sub\",\"id\":\"r\",\"topic\":\"sandboxes\"}"));
	CHECK(message.terms.fields == LIVE_FIELDS_ALL && !message.terms.has_after);
	CHECK_OK(reads("{\"op\":\"set\",\"id\":\"rows\",\"fields\":[\"cpu\"],\"watch\":[\"a\"]}"));
	CHECK(message.op == LIVE_SET && message.terms.fields == LIVE_FIELD_CPU);
	CHECK(message.terms.box_count == 1 && !strcmp(message.terms.boxes[0], "a"));
	CHECK_OK(reads("{\"op\":\"sub\",\"id\":\"h\",\"topic\":\"host\"}"));
	CHECK(message.terms.every_ms == 2000);
	CHECK_OK(reads("{\"op\":\"ack\",\"id\":\"h\",\"bytes\":7}"));
	CHECK(message.op == LIVE_ACK && message.bytes == 7);
	CHECK_OK(reads("{\"op\":\"unsub\",\"id\":\"h\"}"));
}

TEST(refusals, "what is malformed, unknown, of another topic or too much is refused")
{
	CHECK_ERR(reads("[]"), INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\"}"), INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"\",\"topic\":\"host\"}"), INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"a b\",\"topic\":\"host\"}"), INVALID);
	CHECK(!message.id[0]);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"123456789012345678901234567890123\","
			"\"topic\":\"host\"}"),
		  INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"a\",\"topic\":\"keys\"}"), INVALID);
	CHECK(!strcmp(message.id, "a"));
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"a\",\"topic\":\"host\",\"after\":1}"), INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"a\",\"topic\":\"host\",\"everyMs\":1}"), INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"a\",\"topic\":\"sandboxes\",\"fields\":[\"x\"]}"),
		  INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"a\",\"topic\":\"sandboxes\",\"watch\":[1]}"),
		  INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"a\",\"topic\":\"log\"}"), INVALID);
	CHECK_ERR(reads("{\"op\":\"sub\",\"id\":\"a\",\"topic\":\"log\",\"of\":\"x\","
			"\"stream\":\"stdin\"}"),
		  INVALID);
	CHECK_ERR(reads("{\"op\":\"set\",\"id\":\"other\"}"), NOT_FOUND);
	CHECK_ERR(reads("{\"op\":\"ack\",\"id\":\"a\",\"bytes\":-1}"), INVALID);
}
