#include "codec/smtp.h"

#include "tap.h"

static enum smtp_verdict reads(const char *text, struct smtp_reply *out)
{
	return smtp_reply(str_of(text), out);
}

TEST(replies, "a reply is read to its last line")
{
	struct smtp_reply reply;

	CHECK(reads("250-mail\r\n250-STARTTLS\r\n250 HELP\r\n354", &reply) == SMTP_DONE);
	CHECK(reply.code == 250 && reply.has_starttls && str_is(reply.text, "HELP"));
	CHECK(reply.size == strlen("250-mail\r\n250-STARTTLS\r\n250 HELP\r\n"));
	CHECK(reads("220\n", &reply) == SMTP_DONE && reply.code == 220 && !reply.has_starttls);
	CHECK(reads("250-mail\r\n", &reply) == SMTP_MORE && reads("", &reply) == SMTP_MORE);
	CHECK(reads("250-a\r\n251 b\r\n", &reply) == SMTP_BAD &&
	      reads("99 x\r\n", &reply) == SMTP_BAD);
	CHECK(reads("250+x\r\n", &reply) == SMTP_BAD && reads("250 \x01\r\n", &reply) == SMTP_BAD);
	CHECK(reads("650 x\r\n", &reply) == SMTP_BAD);
}

TEST(auth, "AUTH PLAIN is seen, and its argument is one line")
{
	struct smtp_reply reply;
	auto_buf out = BUF_INIT(4096);

	CHECK(reads("250-mail\r\n250-AUTH LOGIN PLAIN\r\n250 HELP\r\n", &reply) == SMTP_DONE);
	CHECK(reply.has_plain);
	CHECK(reads("250 auth=plain\r\n", &reply) == SMTP_DONE && reply.has_plain);
	CHECK(reads("250 AUTH LOGIN XPLAIN\r\n", &reply) == SMTP_DONE && !reply.has_plain);
	CHECK(reads("250 AUTHPLAIN\r\n", &reply) == SMTP_DONE && !reply.has_plain);
	CHECK(reads("250 AUTH\r\n", &reply) == SMTP_DONE && !reply.has_plain);
	CHECK(smtp_put_plain(&out, STR("tim"), STR("tanstaaftanstaaf")));
	CHECK(str_is(buf_view(&out), "AHRpbQB0YW5zdGFhZnRhbnN0YWFm")); // RFC 4616
	CHECK(!smtp_put_plain(&out, STR("a"), STR("x\0y")) &&
	      !smtp_put_plain(&out, STR(""), STR("x")));
}

TEST(message, "a message stays in its frame")
{
	auto_buf out = BUF_INIT(4096);

	smtp_put_header(&out, "Subject", STR("a\r\nBcc: x@y\xc3\xa9"));
	CHECK(str_is(buf_view(&out), "Subject: a??Bcc: x@y??\r\n"));
	buf_clear(&out);
	smtp_put_body(&out, STR(".\r\n.x\nend"));
	CHECK(str_is(buf_view(&out), "..\r\n..x\r\nend\r\n.\r\n"));
}
