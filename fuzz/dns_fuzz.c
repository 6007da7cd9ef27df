// Questions of a box, over UDP and as a stream. Whatever comes, the answer fits, is an answer to
// this question, and would itself get none.
#include "types/dns.h"

#include "fuzz.h"

// The same bytes as if another server had answered with them.
static void try_passed(const struct dns_query *query, struct str message)
{
	uint8_t room[DNS_QUERY_MAX], named[DNS_ANSWER_MAX];
	struct address asked;
	size_t len;

	memcpy(room, message.at, message.len);
	room[2] |= 0x80;
	len = dns_adopt(query, room, message.len, DNS_ANSWER_MAX);
	MUST(len <= message.len && len <= DNS_ANSWER_MAX);
	if (len)
		MUST((room[0] << 8 | room[1]) == query->id);
	if (dns_reverse(query, &asked)) {
		len = dns_answer_name(query, query->name, named);
		MUST(len >= 12 && len <= DNS_ANSWER_MAX);
	}
}

static void try_message(struct str message)
{
	static const struct address given = {.at = {198, 18, 0, 1}};
	uint8_t room[DNS_ANSWER_MAX];
	struct dns_query query, again;
	char name[HOSTNAME_MAX + 1];
	size_t len;

	if (!dns_read(message, &query))
		return;
	MUST(is_within(query.question, message));
	MUST(query.kind == HOSTNAME_BAD || query.kind == HOSTNAME_NAME);
	MUST((query.kind == HOSTNAME_BAD) == !query.name[0]);
	if (query.name[0])
		MUST(hostname_read(str_of(query.name), name) == HOSTNAME_NAME &&
		     !strcmp(name, query.name));
	if (query.fault == DNS_OK)
		MUST(query.question.len >= 5);
	len = dns_answer(&query, DNS_OK, &given, room);
	MUST(len >= 12 + query.question.len && len <= 12 + 259 + 16 + 11);
	MUST((room[3] & 15) == (query.fault & 15));
	MUST(room[7] == (query.fault == DNS_OK && query.type == DNS_A));
	MUST(!dns_read((struct str){(char *)room, len}, &again));
	// Without the bit that makes it an answer, and without records, it asks the same.
	room[2] &= 0x7f;
	memset(room + 6, 0, 6);
	if (query.fault == DNS_OK) {
		MUST(dns_read((struct str){(char *)room, 12 + query.question.len}, &again));
		MUST(again.fault == DNS_OK && !strcmp(again.name, query.name));
		MUST(again.type == query.type && again.id == query.id);
	}
	try_passed(&query, message);
	len = dns_answer(&query, DNS_NO_NAME, NULL, room);
	MUST(len >= 12 && len <= DNS_ANSWER_MAX && room[7] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len}, message = {0};
	size_t used = 0;

	try_message(text);
	while (dns_unframe(text, &message, &used) == DNS_FRAME_DONE) {
		MUST(is_within(message, text) && used == message.len + 2 && used <= text.len);
		try_message(message);
		text = str_skip(text, used);
	}
	return 0;
}
