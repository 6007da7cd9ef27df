// Encodes and decodes messages by the rows of their fields. pid 1 links this file: no allocation,
// nothing beyond libc. Every value is checked against its bounds on arrival: a decoded message can
// be used without another check.
#include "protocol/field.h"

#include <assert.h>

#include "codec/pack.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a number's first bytes are its low ones");

// Numbers may be of another width in memory than on the wire; elements of an array are not.
static size_t element_size(const struct field *field)
{
	return field->size > sizeof(uint64_t) ? field->width : field->size;
}

static uint64_t numbers_put(const struct field *field, const char *member, struct pack *pack)
{
	size_t size = element_size(field);
	uint64_t bias = field->wire == FIELD_WIRE_TIME ? FIELD_TIME_MAX : 0, value = 0;

	for (size_t at = 0; at < field->size; at += size) {
		memcpy(&value, member + at, size);
		value += bias;
		if (field->width < sizeof(value) && value >> 8 * field->width)
			pack->failed = true;
		pack_number(pack, value, field->width);
	}
	return value;
}

static uint64_t numbers_get(const struct field *field, struct unpack *in, char *member)
{
	size_t size = element_size(field);
	uint64_t bias = field->wire == FIELD_WIRE_TIME ? FIELD_TIME_MAX : 0, value = 0;

	for (size_t at = 0; at < field->size; at += size) {
		value = unpack_number(in, field->width);
		if (value < field->min || value > field->max)
			in->failed = true;
		value -= bias;
		memcpy(member + at, &value, size);
	}
	return value;
}

static struct str bytes_get(struct unpack *in, size_t max)
{
	size_t len = unpack_u16(in);
	const uint8_t *at = unpack_bytes(in, len);

	if (!at || len > max) {
		in->failed = true;
		return STR("");
	}
	return (struct str){(const char *)at, len};
}

void fields_put(const struct field *rows, size_t count, uint32_t kinds, const void *message,
		struct pack *pack)
{
	uint64_t number = 0;

	for (const struct field *field = rows; field < rows + count; field++) {
		const char *member = (const char *)message + field->at;
		struct str text;

		if (!(field->kinds & kinds))
			continue;
		switch ((enum field_wire)field->wire) {
		case FIELD_WIRE_NUMBER:
		case FIELD_WIRE_TIME:
			number = numbers_put(field, member, pack);
			break;
		case FIELD_WIRE_TEXT:
			memcpy(&text, member, sizeof(text));
			pack_text(pack, text);
			break;
		case FIELD_WIRE_CHARS:
			text = (struct str){member, strnlen(member, field->size)};
			if (text.len == field->size)
				pack->failed = true;
			pack_text(pack, text);
			break;
		case FIELD_WIRE_BYTES:
			memcpy(&text, member, sizeof(text));
			if (text.len > field->max)
				pack->failed = true;
			pack_u16(pack, (uint16_t)text.len);
			pack_bytes(pack, text.at, text.len);
			break;
		case FIELD_WIRE_STRINGS:
			for (uint64_t i = 0; i < number && !pack->failed; i++)
				pack_text(pack, str_of((*(const char *const *const *)member)[i]));
			break;
		}
	}
}

void fields_get(const struct field *rows, size_t count, field_check *check, uint32_t kinds,
		struct unpack *in, void *message)
{
	uint64_t number = 0;

	for (const struct field *field = rows; field < rows + count; field++) {
		char *member = (char *)message + field->at;
		const char **strings;
		struct str text;

		if (!(field->kinds & kinds))
			continue;
		switch ((enum field_wire)field->wire) {
		case FIELD_WIRE_NUMBER:
		case FIELD_WIRE_TIME:
			number = numbers_get(field, in, member);
			break;
		case FIELD_WIRE_TEXT:
			text = unpack_text(in, field->max);
			memcpy(member, &text, sizeof(text));
			break;
		case FIELD_WIRE_CHARS:
			text = unpack_text(in, field->size - 1u);
			memset(member, 0, field->size);
			memcpy(member, text.at, text.len);
			break;
		case FIELD_WIRE_BYTES:
			text = bytes_get(in, field->max);
			memcpy(member, &text, sizeof(text));
			break;
		case FIELD_WIRE_STRINGS:
			strings = *(const char **const *)member;
			for (uint64_t i = 0; i < number && !in->failed; i++)
				strings[i] = unpack_text(in, SIZE_MAX).at;
			strings[in->failed ? 0 : number] = NULL;
			break;
		}
		if (in->failed || (field->check && !check(field->check, message, member))) {
			in->failed = true;
			return;
		}
	}
}
