// Encodes and decodes the messages of fileop.h by their rows. pid 1's program links this file: no
// allocation, nothing beyond libc. Every value is checked against its range on arrival: a decoded
// message can be used without another check.
#include "protocol/fileop.h"

#define SIGNAL_MAX 64

enum fileop_check_row { CHECK_ANY, CHECK_MODE, CHECK_SIGNAL, CHECK_GLOBS, CHECK_NOT_EMPTY };

static const struct field request_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct fileop_request, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	FILEOP_REQUEST_FIELDS(F)
#undef F
};
static const struct field reply_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct fileop_reply, stat.field, CHECK_##check, FILEOP_HAS_STAT, wire)
	FILEOP_STAT_FIELDS(F)
#undef F
#define F(type, field, wire, check, kinds)                                                         \
	FIELD_ROW(struct fileop_reply, field, CHECK_##check, kinds, wire)
		FILEOP_REPLY_FIELDS(F)
#undef F
};
static const struct field entry_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct fileop_entry, stat.field, CHECK_##check, FIELD_KINDS_ALL, wire)
	FILEOP_STAT_FIELDS(F)
#undef F
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct fileop_entry, field, CHECK_##check, FIELD_KINDS_ALL, wire)
		FILEOP_ENTRY_FIELDS(F)
#undef F
};
static const struct field match_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct fileop_match, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	FILEOP_MATCH_FIELDS(F)
#undef F
};
static const struct field event_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct fileop_event, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	FILEOP_EVENT_FIELDS(F)
#undef F
};
static const struct field port_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct fileop_port, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	FILEOP_PORT_FIELDS(F)
#undef F
};
static const struct field process_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct fileop_process, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	FILEOP_PROCESS_FIELDS(F)
#undef F
};

static bool fileop_check(uint8_t check, const void *message, const void *member)
{
	const struct fileop_request *ask = message;

	switch ((enum fileop_check_row)check) {
	case CHECK_MODE:
		return ask->mode <= 07777 || ask->mode == FILEOP_KEEP_MODE;
	case CHECK_SIGNAL:
		return (ask->verb != FILEOP_SWEEP && ask->verb != FILEOP_SIGNAL) ||
		       ask->number <= SIGNAL_MAX;
	case CHECK_GLOBS:
		return ask->includes + ask->excludes <= FILEOP_GLOBS_MAX;
	case CHECK_NOT_EMPTY:
		return ((const struct str *)member)->len > 0;
	default:
		return false;
	}
}

size_t fileop_encode_request(const struct fileop_request *ask, void *room, size_t size)
{
	struct pack pack;

	pack_init(&pack, room, size < FILEOP_SIZE_MAX ? size : FILEOP_SIZE_MAX);
	fields_put(FIELDS(request_fields), FIELD_KINDS_ALL, ask, &pack);
	if (ask->includes > FILEOP_GLOBS_MAX || ask->excludes > FILEOP_GLOBS_MAX)
		pack.failed = true;
	for (uint32_t i = 0; !pack.failed && i < ask->includes + ask->excludes; i++)
		pack_text(&pack, str_of(ask->globs[i]));
	pack_bytes(&pack, ask->bytes.at, ask->bytes.len);
	return pack.failed ? 0 : pack.len;
}

bool fileop_decode_request(const void *bytes, size_t len, struct fileop_request *ask)
{
	struct fileop_request got = {.globs = ask->globs};
	uint32_t count = 0;
	struct unpack in;

	if (len > FILEOP_SIZE_MAX)
		return false;
	unpack_init(&in, bytes, len);
	fields_get(FIELDS(request_fields), fileop_check, FIELD_KINDS_ALL, &in, &got);
	for (; !in.failed && count < got.includes + got.excludes; count++)
		got.globs[count] = unpack_text(&in, FILEOP_TEXT_MAX).at;
	if (in.failed || in.left > (got.verb == FILEOP_WRITE ? FILEOP_SMALL : 0))
		return false;
	got.globs[count] = NULL;
	got.bytes = (struct str){(const char *)in.at, in.left};
	*ask = got;
	return true;
}

size_t fileop_encode_reply(const struct fileop_reply *say, void *room, size_t size)
{
	struct pack pack;

	pack_init(&pack, room, size < FILEOP_SIZE_MAX ? size : FILEOP_SIZE_MAX);
	pack_u8(&pack, (uint8_t)say->kind);
	fields_put(FIELDS(reply_fields), 1u << say->kind, say, &pack);
	return pack.failed ? 0 : pack.len;
}

bool fileop_decode_reply(const void *bytes, size_t len, struct fileop_reply *say)
{
	struct fileop_reply got = {0};
	struct unpack in;
	size_t most = 0;

	unpack_init(&in, bytes, len);
	got.kind = (enum fileop_kind)unpack_u8(&in);
	if (len > FILEOP_SIZE_MAX || got.kind >= FILEOP_KIND_COUNT)
		return false;
	fields_get(FIELDS(reply_fields), fileop_check, 1u << got.kind, &in, &got);
	if (got.kind >= FILEOP_BYTES)
		most = got.kind == FILEOP_BYTES ? FILEOP_SMALL : FILEOP_SIZE_MAX;
	if (in.failed || in.left > most)
		return false;
	got.rest = (struct str){(const char *)in.at, in.left};
	*say = got;
	return true;
}

int fileop_fds(const struct fileop_reply *say)
{
	return say->kind == FILEOP_OPENED ? 1 : 0;
}

static bool item_get(const struct field *rows, size_t count, struct unpack *in, void *item)
{
	if (in->left == 0)
		return false;
	fields_get(rows, count, fileop_check, FIELD_KINDS_ALL, in, item);
	return !in->failed;
}

#define ITEM(item)                                                                                 \
	void fileop_put_##item(struct pack *pack, const struct fileop_##item *item)                \
	{                                                                                          \
		fields_put(FIELDS(item##_fields), FIELD_KINDS_ALL, item, pack);                    \
	}                                                                                          \
	bool fileop_get_##item(struct unpack *in, struct fileop_##item *out)                       \
	{                                                                                          \
		return item_get(FIELDS(item##_fields), in, out);                                   \
	}
ITEM(entry)
ITEM(match)
ITEM(event)
ITEM(port)
ITEM(process)
