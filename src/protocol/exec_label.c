// Encodes and decodes the label of a command with codec/pack. A command that does not fit is cut
// and marked with EXEC_LABEL_CUT. Labels of older versions are decoded too; any other bytes are
// refused.
#include "protocol/exec_label.h"

#include "codec/pack.h"

#define VERSION 2
#define VERSION_NO_SENDER 1
#define SENDER_AT (1 + 1 + 1 + 4 + 7 * 8)
#define NUMBER_MAX (1ull << 53)
#define TEXT_EXTRA 8 // a text's length and NUL

size_t exec_label_encode(const struct exec_label *label, void *room, size_t size)
{
	struct str session = label->session.at ? label->session : STR("");
	struct str command = label->command;
	struct pack pack;
	size_t fixed = SENDER_AT + 4 + 1 + label->id.len + session.len + 3 * TEXT_EXTRA;
	uint32_t flags = label->flags;

	if (fixed > size)
		return 0;
	if (command.len > size - fixed) {
		command.len = size - fixed;
		flags |= EXEC_LABEL_CUT;
	}
	pack_init(&pack, room, size);
	pack_u8(&pack, VERSION);
	pack_u8(&pack, (uint8_t)label->kind);
	pack_u8(&pack, (uint8_t)flags);
	pack_u32(&pack, label->file);
	pack_u64(&pack, (uint64_t)label->begun_us);
	pack_u64(&pack, (uint64_t)label->started_ms);
	pack_u64(&pack, label->cap);
	pack_u64(&pack, label->cpu_ms);
	pack_u64(&pack, label->wall_ms);
	pack_u64(&pack, label->meter_us);
	pack_u64(&pack, label->oom_kills);
	pack_u32(&pack, label->sender);
	pack_u8(&pack, label->session.at != NULL);
	pack_text(&pack, label->id);
	pack_text(&pack, session);
	pack_text(&pack, command);
	return pack.failed ? 0 : pack.len;
}

static uint64_t exec_label_number(struct unpack *in)
{
	uint64_t value = unpack_u64(in);

	if (value > NUMBER_MAX)
		in->failed = true;
	return in->failed ? 0 : value;
}

bool exec_label_decode(struct str bytes, struct exec_label *out)
{
	struct exec_label label = {0};
	struct unpack in;
	uint8_t kind, version, has_session;

	unpack_init(&in, bytes.at, bytes.len);
	version = unpack_u8(&in);
	kind = unpack_u8(&in);
	label.flags = unpack_u8(&in);
	label.file = unpack_u32(&in);
	label.begun_us = (int64_t)exec_label_number(&in);
	label.started_ms = (int64_t)exec_label_number(&in);
	label.cap = exec_label_number(&in);
	label.cpu_ms = exec_label_number(&in);
	label.wall_ms = exec_label_number(&in);
	label.meter_us = exec_label_number(&in);
	label.oom_kills = exec_label_number(&in);
	if (version != VERSION_NO_SENDER)
		label.sender = unpack_u32(&in);
	has_session = unpack_u8(&in);
	label.id = unpack_text(&in, EXEC_LABEL_ID_MAX);
	label.session = unpack_text(&in, EXEC_LABEL_ID_MAX);
	label.command = unpack_text(&in, bytes.len);
	if (!unpack_end(&in) || version < VERSION_NO_SENDER || version > VERSION ||
	    kind >= EXEC_LABEL_KINDS || has_session > 1 ||
	    label.flags >
		    (EXEC_LABEL_AUTO | EXEC_LABEL_COMMAND | EXEC_LABEL_CUT | EXEC_LABEL_HALF) ||
	    (kind == EXEC_LABEL_EXEC) != (label.id.len == 0) || (!has_session && label.session.len))
		return false;
	label.kind = (enum exec_label_kind)kind;
	if (!has_session)
		label.session = (struct str){0};
	*out = label;
	return true;
}

bool exec_label_set_sender(void *bytes, size_t len, uint32_t sender)
{
	struct pack pack;

	if (len < SENDER_AT + 4 || *(const uint8_t *)bytes != VERSION)
		return false;
	pack_init(&pack, (char *)bytes + SENDER_AT, 4);
	pack_u32(&pack, sender);
	return true;
}
