// Encodes and decodes the label of a command by the rows of exec_label.h. A command that does not
// fit is cut and marked with EXEC_LABEL_CUT. Labels of older versions are decoded too; any other
// bytes are refused.
#include "protocol/exec_label.h"

#include "codec/pack.h"

#define VERSION 2
#define SENDER_AT (1 + 1 + 1 + 4 + 7 * 8)
#define TEXT_EXTRA 8 // a text's length and NUL

enum exec_label_check_row { CHECK_ANY, CHECK_ID, CHECK_SESSION };

static const struct field label_fields[] = {
#define F(type, field, wire, check, versions)                                                      \
	FIELD_ROW(struct exec_label, field, CHECK_##check, versions, wire)
	EXEC_LABEL_FIELDS(F)
#undef F
};

static bool exec_label_check(uint8_t check, const void *message, const void *member)
{
	const struct exec_label *label = message;

	(void)member;
	if (check == CHECK_ID)
		return (label->kind == EXEC_LABEL_EXEC) == (label->id.len == 0);
	return label->has_session || label->session.len == 0;
}

size_t exec_label_encode(const struct exec_label *label, void *room, size_t size)
{
	struct exec_label whole = *label;
	struct pack pack;
	size_t fixed;

	whole.has_session = whole.session.at;
	if (!whole.has_session)
		whole.session = STR("");
	fixed = SENDER_AT + 4 + 1 + whole.id.len + whole.session.len + 3 * TEXT_EXTRA;
	if (fixed > size)
		return 0;
	if (whole.command.len > size - fixed) {
		whole.command.len = size - fixed;
		whole.flags |= EXEC_LABEL_CUT;
	}
	pack_init(&pack, room, size);
	pack_u8(&pack, VERSION);
	fields_put(FIELDS(label_fields), EXEC_LABEL_BIT(VERSION), &whole, &pack);
	return pack.failed ? 0 : pack.len;
}

bool exec_label_decode(struct str bytes, struct exec_label *out)
{
	struct exec_label label = {0};
	struct unpack in;
	uint8_t version;

	unpack_init(&in, bytes.at, bytes.len);
	version = unpack_u8(&in);
	if (version < 1 || version > VERSION)
		return false;
	fields_get(FIELDS(label_fields), exec_label_check, EXEC_LABEL_BIT(version), &in, &label);
	if (!unpack_end(&in))
		return false;
	if (!label.has_session)
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
