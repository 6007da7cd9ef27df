// Writer and reader of pack.h. pid 1 links this file: no allocation, nothing beyond libc. Every
// read checks the remaining length first, so a malformed message never reads out of bounds.
#include "codec/pack.h"

#include <string.h>

void pack_init(struct pack *pack, void *room, size_t size)
{
	*pack = (struct pack){.at = room, .room = size};
}

void pack_bytes(struct pack *pack, const void *bytes, size_t len)
{
	if (pack->failed || len > pack->room - pack->len) {
		pack->failed = true;
		return;
	}
	if (len)
		memcpy(pack->at + pack->len, bytes, len);
	pack->len += len;
}

void pack_number(struct pack *pack, uint64_t value, size_t width)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < width; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
	pack_bytes(pack, bytes, width);
}

void pack_u8(struct pack *pack, uint8_t value)
{
	pack_number(pack, value, 1);
}

void pack_u16(struct pack *pack, uint16_t value)
{
	pack_number(pack, value, 2);
}

void pack_u32(struct pack *pack, uint32_t value)
{
	pack_number(pack, value, 4);
}

void pack_u64(struct pack *pack, uint64_t value)
{
	pack_number(pack, value, 8);
}

void pack_text(struct pack *pack, struct str text)
{
	if (text.len > UINT32_MAX || (text.len && memchr(text.at, 0, text.len))) {
		pack->failed = true;
		return;
	}
	pack_u32(pack, (uint32_t)text.len);
	pack_bytes(pack, text.at, text.len);
	pack_bytes(pack, "", 1);
}

void unpack_init(struct unpack *in, const void *bytes, size_t len)
{
	*in = (struct unpack){.at = bytes, .left = len};
}

// Takes `len` bytes, or returns NULL and fails permanently.
const uint8_t *unpack_bytes(struct unpack *in, size_t len)
{
	const uint8_t *at = in->at;

	if (in->failed || len > in->left) {
		in->failed = true;
		return NULL;
	}
	in->at += len;
	in->left -= len;
	return at;
}

uint64_t unpack_number(struct unpack *in, size_t width)
{
	const uint8_t *at = unpack_bytes(in, width);
	uint64_t value = 0;

	for (size_t i = 0; at && i < width; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

uint8_t unpack_u8(struct unpack *in)
{
	return (uint8_t)unpack_number(in, 1);
}

uint16_t unpack_u16(struct unpack *in)
{
	return (uint16_t)unpack_number(in, 2);
}

uint32_t unpack_u32(struct unpack *in)
{
	return (uint32_t)unpack_number(in, 4);
}

uint64_t unpack_u64(struct unpack *in)
{
	return unpack_number(in, 8);
}

struct str unpack_text(struct unpack *in, size_t max)
{
	size_t len = unpack_u32(in);
	const uint8_t *at;

	if (len > max)
		in->failed = true;
	at = unpack_bytes(in, len + 1);
	if (at && memchr(at, 0, len + 1) != at + len)
		in->failed = true;
	if (in->failed)
		return STR("");
	return (struct str){(const char *)at, len};
}

bool unpack_end(const struct unpack *in)
{
	return !in->failed && in->left == 0;
}
