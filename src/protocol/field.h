// The fields of a message as rows of a table, from which its struct, its encoder and its decoder
// are made. A message has a macro with one row F(type, member, wire, check) a field, in the order
// of the wire, as TALK_READY_FIELDS: the member and its type, the encoding with the bounds that the
// decoder enforces, and a check by the message's own code for what bounds cannot say (ANY: none).
// Rows have no pointers: pid 1 is relocated at its start, and pages without relocations are shared
// by all boxes. No I/O, no allocation.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct pack; // codec/pack.h
struct unpack;

enum field_wire {
	FIELD_WIRE_NUMBER,  // little-endian; of an array each element
	FIELD_WIRE_TIME,    // int64_t of microseconds, plus FIELD_TIME_MAX
	FIELD_WIRE_TEXT,    // struct str; decoded in place
	FIELD_WIRE_CHARS,   // a text in a char array, filled up with NULs
	FIELD_WIRE_BYTES,   // struct str of any bytes after a u16 length; decoded in place
	FIELD_WIRE_STRINGS, // const char **, ended by NULL: as many texts as the number before says
};

struct field {
	uint8_t wire, width; // NUMBER, TIME: width in bytes
	uint8_t check;	     // 0: none
	uint16_t at, size;   // of the member
	uint16_t min;
	uint32_t kinds; // bits: the kinds of the message that have it
	uint64_t max;	// NUMBER: bounds; TEXT, BYTES: of the length
};

#define FIELD_NUMBER(bytes, least, most)                                                           \
	.wire = FIELD_WIRE_NUMBER, .width = (bytes), .min = (least), .max = (most)
#define FIELD_U8(least, most) FIELD_NUMBER(1, least, most)
#define FIELD_U16(least, most) FIELD_NUMBER(2, least, most)
#define FIELD_U32(least, most) FIELD_NUMBER(4, least, most)
#define FIELD_U64(least, most) FIELD_NUMBER(8, least, most)
#define FIELD_BOOL FIELD_NUMBER(1, 0, 1)
#define FIELD_TIME_MAX (1ull << 60) // past any calendar
#define FIELD_TIME .wire = FIELD_WIRE_TIME, .width = 8, .max = 2 * FIELD_TIME_MAX
#define FIELD_TEXT(longest) .wire = FIELD_WIRE_TEXT, .max = (longest)
#define FIELD_CHARS .wire = FIELD_WIRE_CHARS
#define FIELD_BYTES(longest) .wire = FIELD_WIRE_BYTES, .max = (longest)
#define FIELD_STRINGS .wire = FIELD_WIRE_STRINGS
// An array as member type.
#define FIELD_ARRAY(type, count) __typeof__(type[count])
// A row of a table; the encoding comes last.
#define FIELD_ROW(message, member, check_, kinds_, ...)                                            \
	{.at = offsetof(message, member),                                                          \
	 .size = sizeof(((message *)NULL)->member),                                                \
	 .check = (check_),                                                                        \
	 .kinds = (kinds_),                                                                        \
	 __VA_ARGS__},
#define FIELD_KINDS_ALL UINT32_MAX

#define FIELDS(table) table, sizeof(table) / sizeof(*(table)) // rows and their number

// Encodes and decodes the members of `message` whose rows have a bit of `kinds`. A value that its
// encoding cannot carry, or one out of bounds, fails `pack` or `in`. STRINGS are decoded into the
// array that the member points to, which has room for as many as the number before may say, and
// NULL.
void fields_put(const struct field *rows, size_t count, uint32_t kinds, const void *message,
		struct pack *pack);
// The check of a row, after its member is decoded. True: the value may pass.
typedef bool field_check(uint8_t check, const void *message, const void *member);
void fields_get(const struct field *rows, size_t count, field_check *check, uint32_t kinds,
		struct unpack *in, void *message);
