// RFC 1035 and 6891, as far as a stub needs them. A question is echoed byte for byte, because
// clients encode a nonce in the case of its letters. An answer points back at it, so the longest
// has 12 bytes of header, 259 of question, 28 of an address and 11 of EDNS: it always fits.
#include "types/dns.h"

#include <string.h>

#define HEADER 12
#define NAME_WIRE_MAX 255
#define LABEL_MAX 63
#define RECORDS_MAX 16 // of a query's additional section: one is usual
#define CLASS_IN 1
#define TYPE_OPT 41

enum { QR = 0x8000, AA = 0x0400, RD = 0x0100, RA = 0x0080, CD = 0x0010, DO = 0x8000 };

struct reader {
	const uint8_t *all;
	size_t len, at;
	bool failed; // sticky: truncated or malformed
};

static uint32_t dns_number(struct reader *in, size_t bytes)
{
	uint32_t value = 0;

	if (in->failed || in->len - in->at < bytes) {
		in->failed = true;
		return 0;
	}
	for (; bytes > 0; bytes--)
		value = value << 8 | in->all[in->at++];
	return value;
}

static void skip(struct reader *in, size_t bytes)
{
	if (in->failed || in->len - in->at < bytes)
		in->failed = true;
	else
		in->at += bytes;
}

struct name {
	char text[NAME_WIRE_MAX + 1]; // labels with dots between; not checked
	size_t len;
	size_t wire;  // bytes when not compressed
	bool has_dot; // inside of a label: the text then differs from the labels
};

static bool add_label(struct name *name, const uint8_t *at, size_t len)
{
	if (name->wire + len + 1 > NAME_WIRE_MAX - 1) // with the root's byte
		return false;
	if (memchr(at, '.', len))
		name->has_dot = true;
	if (name->wire)
		name->text[name->len++] = '.';
	memcpy(name->text + name->len, at, len);
	name->len += len;
	name->wire += len + 1;
	return true;
}

// A pointer must lead to before the labels that it continues: so there are no loops, and no name is
// read twice.
static void dns_read_name(struct reader *in, struct name *out)
{
	size_t at = in->at, from = at, end = 0;

	*out = (struct name){0};
	while (!in->failed) {
		size_t len = at < in->len ? in->all[at] : SIZE_MAX;

		if (len == 0) {
			in->at = end ? end : at + 1;
			return;
		}
		if (len <= LABEL_MAX && in->len - at > len &&
		    add_label(out, in->all + at + 1, len)) {
			at += len + 1;
		} else if (len >= 0xc0 && len <= 0xff && in->len - at > 1) {
			size_t to = (len & 0x3f) << 8 | in->all[at + 1];

			end = end ? end : at + 2;
			in->failed = to >= from || to < HEADER;
			at = from = to;
		} else {
			in->failed = true;
		}
	}
}

// Labels that begin with an underscore name a service of the host after them (RFC 8552).
static void dns_read_owner(struct str text, struct dns_query *out)
{
	struct str host = text;

	while (host.len && host.at[0] == '_') {
		const char *dot = memchr(host.at, '.', host.len);

		host = str_skip(host, dot ? (size_t)(dot - host.at) + 1 : host.len);
	}
	out->is_service = host.len < text.len;
	if (text.len > DNS_OWNER_MAX)
		return;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (c >= 'A' && c <= 'Z')
			c |= 32;
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && !(c && strchr("._-", c)))
			return;
		out->owner[i] = c;
	}
	out->kind = hostname_read(host, out->name);
}

static void read_question(struct reader *in, struct dns_query *out)
{
	struct name name;
	size_t from = in->at;

	dns_read_name(in, &name);
	out->type = (uint16_t)dns_number(in, 2);
	out->class = (uint16_t)dns_number(in, 2);
	if (in->failed)
		return;
	out->question = (struct str){(const char *)in->all + from, in->at - from};
	if (!name.has_dot)
		dns_read_owner((struct str){name.text, name.len}, out);
	if (out->kind != HOSTNAME_NAME) { // no host is named by an address
		out->kind = HOSTNAME_BAD;
		out->name[0] = 0;
	}
}

// Records after the question. Only EDNS is used; a signature is not checked.
static void read_record(struct reader *in, struct dns_query *out, uint8_t *version)
{
	struct name name;
	uint32_t type, ttl;

	dns_read_name(in, &name);
	type = dns_number(in, 2);
	skip(in, 2); // class
	ttl = dns_number(in, 4);
	skip(in, dns_number(in, 2));
	if (in->failed || type != TYPE_OPT)
		return;
	in->failed = out->has_edns || name.wire; // once, and of the root
	out->has_edns = true;
	out->dnssec_ok = ttl & DO;
	*version = (uint8_t)(ttl >> 16);
}

static enum dns_code fault_of(struct reader *in, struct dns_query *out)
{
	uint32_t questions = dns_number(in, 2), others = dns_number(in, 2) + dns_number(in, 2);
	uint32_t records = dns_number(in, 2);
	uint8_t version = 0;

	if (out->opcode != 0)
		return DNS_NOT_OFFERED;
	if (questions != 1 || others || records > RECORDS_MAX)
		return DNS_MALFORMED;
	read_question(in, out);
	for (; records > 0 && !in->failed; records--)
		read_record(in, out, &version);
	if (in->failed || in->at != in->len) {
		out->question = (struct str){0};
		out->has_edns = false;
		return DNS_MALFORMED;
	}
	if (version != 0)
		return DNS_BAD_VERSION;
	return out->class == CLASS_IN ? DNS_OK : DNS_REFUSED;
}

bool dns_read(struct str message, struct dns_query *out)
{
	struct reader in = {.all = (const uint8_t *)message.at, .len = message.len};
	uint32_t id, flags;

	if (message.len < HEADER || message.len > DNS_QUERY_MAX)
		return false;
	id = dns_number(&in, 2);
	flags = dns_number(&in, 2);
	if (flags & QR)
		return false;
	*out = (struct dns_query){
		.id = (uint16_t)id,
		.opcode = flags >> 11 & 15,
		.wants_recursion = flags & RD,
		.checking_disabled = flags & CD,
	};
	out->fault = fault_of(&in, out);
	return true;
}

struct writer {
	uint8_t *room;
	size_t at;
};

static void put(struct writer *out, uint32_t value, size_t bytes)
{
	out->at += bytes;
	for (size_t i = 1; i <= bytes; i++, value >>= 8)
		out->room[out->at - i] = (uint8_t)value;
}

static void put_bytes(struct writer *out, const void *bytes, size_t len)
{
	if (len)
		memcpy(out->room + out->at, bytes, len);
	out->at += len;
}

size_t dns_answer(const struct dns_query *query, enum dns_code code, const struct address *address,
		  uint8_t room[DNS_ANSWER_MAX])
{
	struct writer out = {0};
	struct str question = query->question;
	uint32_t answers = 0;

	out.room = room;
	if (query->fault != DNS_OK)
		code = query->fault;
	// The name is a pointer, so the record needs the question before it.
	if (code == DNS_OK && address && question.len &&
	    query->type == (address->is_v6 ? DNS_AAAA : DNS_A))
		answers = 1;
	put(&out, query->id, 2);
	put(&out,
	    QR | RA | (code == DNS_OK || code == DNS_NO_NAME ? AA : 0) |
		    (uint32_t)query->opcode << 11 | (query->wants_recursion ? RD : 0) |
		    (query->checking_disabled ? CD : 0) | ((uint32_t)code & 15),
	    2);
	put(&out, question.len > 0, 2);
	put(&out, answers, 2);
	put(&out, 0, 2);
	put(&out, query->has_edns, 2);
	put_bytes(&out, question.at, question.len);
	if (answers) {
		put(&out, 0xc000 | HEADER, 2);
		put(&out, query->type, 2);
		put(&out, CLASS_IN, 2);
		put(&out, DNS_TTL_S, 4);
		put(&out, address->is_v6 ? 16 : 4, 2);
		put_bytes(&out, address->at, address->is_v6 ? 16 : 4);
	}
	if (query->has_edns) {
		put(&out, 0, 1);
		put(&out, TYPE_OPT, 2);
		put(&out, DNS_EDNS_SIZE, 2);
		put(&out, (uint32_t)code >> 4, 1);
		put(&out, 0, 1);
		put(&out, query->dnssec_ok ? DO : 0, 2);
		put(&out, 0, 2);
	}
	return out.at;
}

static void dns_put_name(struct writer *out, const char *name)
{
	while (*name) {
		size_t len = strcspn(name, ".");

		put(out, (uint32_t)len, 1);
		put_bytes(out, name, len);
		name += len + (name[len] == '.');
	}
	put(out, 0, 1);
}

size_t dns_answer_name(const struct dns_query *query, const char *name,
		       uint8_t room[DNS_ANSWER_MAX])
{
	struct dns_query plain = *query;
	struct writer out;

	// 12 + 259 + 12 + 255 bytes would not always fit, but an owner of this form is short.
	if (query->question.len > DNS_ANSWER_MAX - HEADER - 12 - NAME_WIRE_MAX)
		return dns_answer(query, DNS_FAILED, NULL, room);
	plain.has_edns = false;
	out = (struct writer){.room = room, .at = dns_answer(&plain, DNS_OK, NULL, room)};
	put(&out, 0xc000 | HEADER, 2);
	put(&out, DNS_PTR, 2);
	put(&out, CLASS_IN, 2);
	put(&out, DNS_TTL_S, 4);
	put(&out, (uint32_t)strlen(name) + 2, 2);
	dns_put_name(&out, name);
	room[7] = 1; // answers
	return out.at;
}

size_t dns_adopt(const struct dns_query *query, uint8_t *message, size_t len, size_t max)
{
	size_t head = HEADER + query->question.len;
	bool is_cut = len > max;

	// The reply has a single question of the same length: the same name, in other letter case.
	if (len < head || !query->question.len || !(message[2] & 0x80) || message[4] ||
	    message[5] != 1)
		return 0;
	message[0] = (uint8_t)(query->id >> 8);
	message[1] = (uint8_t)query->id;
	memcpy(message + HEADER, query->question.at, query->question.len);
	message[2] = (uint8_t)((message[2] & ~0x03) | (query->wants_recursion ? 1 : 0));
	if (!is_cut)
		return len;
	message[2] |= 0x02; // TC
	memset(message + 6, 0, 6);
	return head;
}

bool dns_reverse(const struct dns_query *query, struct address *out)
{
	const char *at = query->name;
	unsigned part[4] = {0};

	for (int i = 0; i < 4; i++) {
		int digits = 0;

		for (; *at >= '0' && *at <= '9' && digits < 3; digits++)
			part[i] = part[i] * 10 + (unsigned)(*at++ - '0');
		if (!digits || part[i] > 255 || *at++ != '.')
			return false;
	}
	*out = (struct address){
		.at = {(uint8_t)part[3], (uint8_t)part[2], (uint8_t)part[1], (uint8_t)part[0]}};
	return !strcmp(at, "in-addr.arpa");
}

enum dns_frame dns_unframe(struct str bytes, struct str *message, size_t *used)
{
	const uint8_t *at = (const uint8_t *)bytes.at;
	size_t len;

	if (bytes.len < 2)
		return DNS_FRAME_MORE;
	len = (size_t)at[0] << 8 | at[1];
	if (len < HEADER || len > DNS_QUERY_MAX)
		return DNS_FRAME_BAD;
	if (bytes.len - 2 < len)
		return DNS_FRAME_MORE;
	*message = (struct str){bytes.at + 2, len};
	*used = len + 2;
	return DNS_FRAME_DONE;
}

void dns_frame(size_t len, uint8_t out[2])
{
	out[0] = (uint8_t)(len >> 8);
	out[1] = (uint8_t)len;
}
