#include "types/dns.h"

#include "tap.h"

static uint8_t room[DNS_ANSWER_MAX];
static const struct address given = {.at = {198, 18, 0, 1}};

#define BYTES(literal) ((struct str){literal, sizeof(literal) - 1})
#define HEAD(flags, counts) "\x12\x34" flags counts
#define ONE "\0\1\0\0\0\0\0\0"
#define ONE_EDNS "\0\1\0\0\0\0\0\1"
#define EXAMPLE "\7ExAmPle\3com\0"
#define A_IN "\0\1\0\1"
#define OPT "\0\0\x29\x04\xd0\0\0\0\0\0\0"

static unsigned two(size_t at)
{
	return (unsigned)room[at] << 8 | room[at + 1];
}

TEST(question, "NET-5 a question is read: name, type, wishes")
{
	struct dns_query query;
	struct str message = BYTES(HEAD("\1\0", ONE) EXAMPLE A_IN);

	CHECK(dns_read(message, &query));
	CHECK(query.fault == DNS_OK && query.id == 0x1234 && query.type == DNS_A);
	CHECK(query.wants_recursion && !query.has_edns && query.kind == HOSTNAME_NAME);
	CHECK_STR(query.name, "example.com");
	CHECK(query.question.at == message.at + 12 && query.question.len == message.len - 12);
}

TEST(answer, "NET-5 an address: the question as it was asked, 60 seconds")
{
	struct str message = BYTES(HEAD("\1\0", ONE) EXAMPLE A_IN);
	struct dns_query query;
	size_t len;

	CHECK(dns_read(message, &query));
	len = dns_answer(&query, DNS_OK, &given, room);
	CHECK(len == message.len + 16);
	CHECK(two(0) == 0x1234 && two(2) == 0x8580 && two(4) == 1 && two(6) == 1);
	CHECK(two(8) == 0 && two(10) == 0);
	CHECK(!memcmp(room + 12, message.at + 12, message.len - 12));
	CHECK(!memcmp(room + message.len, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\0\1", 16));
}

TEST(no_data, "NET-5 another type of a name that is there has no record, and is no error")
{
	static const char *const types[] = {"\0\x1c", "\0\x41", "\0\x40", "\0\x10", "\0\xff"};
	struct dns_query query;

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		char message[] = HEAD("\1\0", ONE) EXAMPLE A_IN;

		memcpy(message + sizeof(message) - 5, types[i], 2);
		CHECK(dns_read((struct str){message, sizeof(message) - 1}, &query));
		CHECK(query.fault == DNS_OK);
		CHECK(dns_answer(&query, DNS_OK, &given, room) == sizeof(message) - 1);
		CHECK((two(2) & 15) == DNS_OK && two(6) == 0);
	}
}

TEST(edns, "EDNS is answered with EDNS, another version of it with BADVERS")
{
	struct str message = BYTES(HEAD("\1\0", ONE_EDNS) EXAMPLE A_IN OPT);
	struct dns_query query;
	size_t len;

	CHECK(dns_read(message, &query) && query.fault == DNS_OK && query.has_edns);
	len = dns_answer(&query, DNS_NO_NAME, NULL, room);
	CHECK(len == message.len && two(10) == 1 && (two(2) & 15) == DNS_NO_NAME);
	CHECK(!memcmp(room + len - 11, "\0\0\x29\x04\xd0\0\0\0\0\0\0", 11));

	message = BYTES(HEAD("\1\0", ONE_EDNS) EXAMPLE A_IN "\0\0\x29\x04\xd0\0\1\x80\0\0\0");
	CHECK(dns_read(message, &query) && query.fault == DNS_BAD_VERSION && query.dnssec_ok);
	len = dns_answer(&query, DNS_OK, &given, room);
	CHECK((two(2) & 15) == 0 && two(6) == 0);
	CHECK(!memcmp(room + len - 11, "\0\0\x29\x04\xd0\1\0\x80\0\0\0", 11));
}

TEST(silence, "what is no question gets no answer")
{
	static char big[DNS_QUERY_MAX + 1];
	struct dns_query query;

	CHECK(!dns_read(BYTES(""), &query));
	CHECK(!dns_read(BYTES("\x12\x34\1\0\0\1\0\0\0\0\0"), &query));
	CHECK(!dns_read(BYTES(HEAD("\x81\0", ONE) EXAMPLE A_IN), &query)); // an answer
	CHECK(!dns_read((struct str){big, sizeof(big)}, &query));
	CHECK(dns_read((struct str){big, sizeof(big) - 1}, &query) && query.fault == DNS_MALFORMED);
}

TEST(malformed, "a malformed question is told so, and nothing of it comes back")
{
	static const struct str bad[] = {
		BYTES(HEAD("\1\0", ONE)),		 // no question
		BYTES(HEAD("\1\0", "\0\0\0\0\0\0\0\0")), // says so itself
		BYTES(HEAD("\1\0", "\0\2\0\0\0\0\0\0") EXAMPLE A_IN EXAMPLE A_IN),
		BYTES(HEAD("\1\0", "\0\1\0\1\0\0\0\0") EXAMPLE A_IN "\0\0\1\0\1\0\0\0\0\0\0"),
		BYTES(HEAD("\1\0", "\0\1\0\0\0\1\0\0") EXAMPLE A_IN "\0\0\1\0\1\0\0\0\0\0\0"),
		BYTES(HEAD("\1\0", ONE) EXAMPLE "\0\1\0"),   // cut
		BYTES(HEAD("\1\0", ONE) "\7exam"),	     // cut
		BYTES(HEAD("\1\0", ONE) "\x3f"),	     // a label with nothing
		BYTES(HEAD("\1\0", ONE) "\xc0\x0c" A_IN),    // points at itself
		BYTES(HEAD("\1\0", ONE) "\1a\xc0\x0c" A_IN), // round and round
		BYTES(HEAD("\1\0", ONE) "\1a\xc0\x0e" A_IN), // forth
		BYTES(HEAD("\1\0", ONE) "\xc0\x00" A_IN),    // into the header
		BYTES(HEAD("\1\0", ONE) "\1a\xc0"),	     // half a pointer
		BYTES(HEAD("\1\0", ONE) "\x41"
					"a\0" A_IN), // reserved
		BYTES(HEAD("\1\0", ONE) "\x80"
					"a\0" A_IN),	    // reserved
		BYTES(HEAD("\1\0", ONE) EXAMPLE A_IN "x"),  // something behind it
		BYTES(HEAD("\1\0", ONE_EDNS) EXAMPLE A_IN), // no EDNS
		BYTES(HEAD("\1\0", "\0\1\0\0\0\0\0\2") EXAMPLE A_IN OPT OPT),
		BYTES(HEAD("\1\0", ONE_EDNS) EXAMPLE A_IN "\1a\0\0\x29\x04\xd0\0\0\0\0\0\0"),
		BYTES(HEAD("\1\0", ONE_EDNS) EXAMPLE A_IN "\0\0\x29\x04\xd0\0\0\0\0\0\1"),
		BYTES(HEAD("\1\0", "\0\1\0\0\0\0\xff\xff") EXAMPLE A_IN OPT),
	};
	struct dns_query query;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		printf("# %zu\n", i);
		CHECK(dns_read(bad[i], &query));
		CHECK(query.fault == DNS_MALFORMED);
		CHECK(dns_answer(&query, DNS_OK, &given, room) == 12);
		CHECK((two(2) & 15) == DNS_MALFORMED && two(4) == 0 && two(6) == 0);
	}
}

TEST(others, "other operations and other classes are not offered")
{
	struct dns_query query;

	CHECK(dns_read(BYTES(HEAD("\x29\0", ONE) EXAMPLE A_IN), &query)); // UPDATE
	CHECK(query.fault == DNS_NOT_OFFERED && dns_answer(&query, DNS_OK, &given, room) == 12);
	CHECK(two(2) == (0x8000 | 5 << 11 | 0x100 | 0x80 | DNS_NOT_OFFERED));
	CHECK(dns_read(BYTES(HEAD("\1\0", ONE) EXAMPLE "\0\x10\0\3"), &query)); // CHAOS
	CHECK(query.fault == DNS_REFUSED);
	dns_answer(&query, DNS_OK, &given, room);
	CHECK((two(2) & 15) == DNS_REFUSED && two(6) == 0);
}

TEST(no_host, "a name that no host can have is read, and is none")
{
	static const struct str odd[] = {
		BYTES(HEAD("\1\0", ONE) "\0" A_IN),
		BYTES(HEAD("\1\0", ONE) "\5_http\4_tcp\0" A_IN),
		BYTES(HEAD("\1\0", ONE) "\3a.b\0" A_IN), // a dot in a label is none between two
		BYTES(HEAD("\1\0", ONE) "\3a\0b\0" A_IN),
		BYTES(HEAD("\1\0", ONE) "\1"
					"1\1"
					"2\1"
					"3\1"
					"4\0" A_IN),
		BYTES(HEAD("\1\0", ONE) "\3::1\0" A_IN),
	};
	struct dns_query query;

	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
		CHECK(dns_read(odd[i], &query) && query.fault == DNS_OK);
		CHECK(query.kind == HOSTNAME_BAD && !query.name[0]);
		CHECK(dns_answer(&query, DNS_NO_NAME, NULL, room) == odd[i].len);
	}
}

TEST(service, "labels with an underscore name a service of the host behind them")
{
	static const struct str asked = BYTES(
		HEAD("\1\0", ONE) "\5_HTTP\4_tcp\1a\4test\0\0\x21\0\1");
	struct dns_query query;

	CHECK(dns_read(asked, &query) && query.fault == DNS_OK && query.type == DNS_SRV);
	CHECK(query.kind == HOSTNAME_NAME && query.is_service);
	CHECK_STR(query.name, "a.test");
	CHECK_STR(query.owner, "_http._tcp.a.test");
}

TEST(passed,
     "another server's answer gets the id and the letters of the question; one too long is cut")
{
	static const struct str asked = BYTES("\x12\x34\1\0\0\1\0\0\0\0\0\0\1A\0\0\x10\0\1");
	uint8_t message[] = "\0\0\x81\x80\0\1\0\1\0\0\0\0\1a\0\0\x10\0\1"
			    "\xc0\x0c\0\x10\0\1\0\0\0\x3c\0\2\1x";
	size_t len = sizeof(message) - 1;
	struct dns_query query;

	CHECK(dns_read(asked, &query));
	CHECK(dns_adopt(&query, message, len, 512) == len);
	CHECK(message[0] == 0x12 && message[1] == 0x34 && message[13] == 'A' && message[7] == 1);
	CHECK(dns_adopt(&query, message, len, 20) == 12 + 7);
	CHECK((message[2] & 2) && !message[7]);
	message[2] = 1; // no answer
	CHECK(!dns_adopt(&query, message, len, 512));
	CHECK(!dns_adopt(&query, message, 11, 512));
}

TEST(reverse, "the name of an address is asked for and told")
{
	static const struct str asked = BYTES(HEAD("\1\0", ONE) "\1"
								"1\1"
								"0\2"
								"18\3"
								"198\7in-addr\4arpa\0\0\x0c\0\1");
	struct address address;
	struct dns_query query;
	size_t len;

	CHECK(dns_read(asked, &query) && dns_reverse(&query, &address));
	CHECK(address.at[0] == 198 && address.at[1] == 18 && address.at[3] == 1);
	len = dns_answer_name(&query, "a.test", room);
	CHECK(len == asked.len + 12 + 8 && room[7] == 1);
	CHECK(!memcmp(room + len - 8, "\1a\4test", 8));
}

TEST(longest, "the longest name fits into every answer; a longer one is malformed")
{
	uint8_t message[12 + 300] = "\x12\x34\1\0\0\1\0\0\0\0\0\1";
	struct dns_query query;
	size_t at = 12;

	for (int i = 0; i < 4; i++) {
		size_t len = i < 3 ? 63 : 61;

		message[at++] = (uint8_t)len;
		memset(message + at, 'a', len);
		at += len;
	}
	memcpy(message + at, "\0" A_IN OPT, 16);
	CHECK(dns_read((struct str){(char *)message, at + 16}, &query));
	CHECK(query.fault == DNS_OK && strlen(query.name) == 253);
	CHECK(dns_answer(&query, DNS_OK, &given, room) == 12 + 259 + 16 + 11);
	message[at - 62] = 62;
	message[at++] = 'a';
	memcpy(message + at, "\0" A_IN OPT, 16);
	CHECK(dns_read((struct str){(char *)message, at + 16}, &query));
	CHECK(query.fault == DNS_MALFORMED);
}

TEST(frames, "over TCP a message follows its length")
{
	struct str message = {0};
	uint8_t head[2];
	size_t used = 0;

	CHECK(dns_unframe(BYTES(""), &message, &used) == DNS_FRAME_MORE);
	CHECK(dns_unframe(BYTES("\0"), &message, &used) == DNS_FRAME_MORE);
	CHECK(dns_unframe(BYTES("\0\x0c"
				"12345678901"),
			  &message, &used) == DNS_FRAME_MORE);
	CHECK(!used && !message.at);
	CHECK(dns_unframe(BYTES("\0\x0c"
				"123456789012\0"),
			  &message, &used) == DNS_FRAME_DONE);
	CHECK(used == 14 && message.len == 12 && message.at[0] == '1');
	CHECK(dns_unframe(BYTES("\0\x0b"), &message, &used) == DNS_FRAME_BAD);
	CHECK(dns_unframe(BYTES("\x10\1"), &message, &used) == DNS_FRAME_BAD);
	dns_frame(298, head);
	CHECK(head[0] == 1 && head[1] == 42);
}
