#include "types/sink.h"

#include "tap.h"

static size_t count;
static struct sink sinks[SINKS_MAX];

static struct err *reads(const char *text)
{
	count = 0;
	return sinks_read(str_of(text), sinks, &count);
}

TEST(settings, "sinks are read from their lines")
{
	CHECK_OK(reads(
		"webhook ops url=https://h.example/x?a=b\nwebhook ops severities=critical\n"
		"email mail relay=[::1]:587\nemail mail from=a@b.c\nemail mail to=c@d.e, f@g.h\n"));
	CHECK(count == 2 && !sinks[0].warnings && sinks[0].criticals && sinks[1].warnings);
	CHECK(!strcmp(sinks[0].url, "https://h.example/x?a=b") &&
	      !strcmp(sinks[1].relay, "[::1]:587"));
	sinks_done(sinks, count);
	CHECK_ERR(reads("webhook ops severities=critical\n"), INVALID);
	CHECK_ERR(reads("pager ops url=http://x/\n"), INVALID);
	CHECK_ERR(reads("slack ops url=ftp://x/\n"), INVALID);
	CHECK_ERR(reads("slack ops url=http://x/\nwebhook ops url=http://x/\n"), INVALID);
	CHECK_ERR(reads("slack ops relay=x\n"), INVALID);
	CHECK_ERR(reads("slack ops\n"), INVALID);
	CHECK_OK(reads("email m relay=x\nemail m from=a@b.c\nemail m to=c@d.e\nemail m user=me\n"
		       "email m secret_file=/etc/password\n"));
	CHECK(count == 1 && !strcmp(sinks[0].user, "me"));
	sinks_done(sinks, count);
	CHECK_ERR(reads("email m relay=x\nemail m from=a@b.c\nemail m to=c@d.e\nemail m user=me\n"),
		  INVALID);
	CHECK_ERR(reads("webhook w url=http://x/\nwebhook w user=me\n"), INVALID);
}

TEST(addresses, "an address cannot end a line, a relay has a host and a port")
{
	struct str host;
	uint16_t port;

	CHECK(sink_is_address(STR("a.b@example.com")) && !sink_is_address(STR("a@b>")));
	CHECK(!sink_is_address(STR("a@b\r\nRCPT")) && !sink_is_address(STR("@b")));
	CHECK(!sink_is_address(STR("a@")) && !sink_is_address(STR("a@b@c")) &&
	      !sink_is_address(STR("")));
	CHECK(sink_relay(STR("mail.example.com"), &host, &port) && port == 25);
	CHECK(sink_relay(STR("[::1]:2525"), &host, &port) && port == 2525 && str_is(host, "::1"));
	CHECK(!sink_relay(STR("mail:0"), &host, &port) && !sink_relay(STR("a b"), &host, &port));
	CHECK(!sink_relay(STR("[::1"), &host, &port) && !sink_relay(STR(":25"), &host, &port));
}
