// A bounded binary writer and reader for messages between cove's own processes. Numbers are
// little-endian. A text is its length, its bytes and a NUL, so that the reader can use it in place
// as a C string; a text with a NUL inside is malformed. No I/O, no allocation in the reader: pid 1
// links this.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct pack {
	uint8_t *at;
	size_t len, room;
	bool failed; // sticky: something did not fit
};

void pack_init(struct pack *pack, void *room, size_t size);
void pack_u8(struct pack *pack, uint8_t value);
void pack_u16(struct pack *pack, uint16_t value);
void pack_u32(struct pack *pack, uint32_t value);
void pack_u64(struct pack *pack, uint64_t value);
void pack_number(struct pack *pack, uint64_t value, size_t width); // its low bytes, 8 at most
void pack_bytes(struct pack *pack, const void *bytes, size_t len);
void pack_text(struct pack *pack, struct str text);

struct unpack {
	const uint8_t *at;
	size_t left;
	bool failed; // sticky: too short, or malformed; every later result is 0 or ""
};

void unpack_init(struct unpack *in, const void *bytes, size_t len);
uint8_t unpack_u8(struct unpack *in);
uint16_t unpack_u16(struct unpack *in);
uint32_t unpack_u32(struct unpack *in);
uint64_t unpack_u64(struct unpack *in);
uint64_t unpack_number(struct unpack *in, size_t width);
const uint8_t *unpack_bytes(struct unpack *in, size_t len); // NULL: fewer are left
struct str unpack_text(struct unpack *in, size_t max);	    // NUL-terminated in place; never NULL
// True when nothing failed and nothing is left over.
bool unpack_end(const struct unpack *in);
