// Encodings: base64, hex, percent, UTF-8, times. A decoder that returns false may have appended to
// `out`; it also returns false when `out` is full.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

void text_base64(struct buf *out, const void *bytes, size_t len); // padded, no line breaks
bool text_unbase64(struct buf *out, struct str text);		  // strict; false: malformed
void text_hex(struct buf *out, const void *bytes, size_t len);
int text_hex_digit(char c);			       // its value; -1: none
bool text_unpercent(struct buf *out, struct str text); // false: malformed or a NUL
// Decodes one character from the front; false: at the end, malformed or a NUL.
bool text_percent_next(struct str *rest, char *out);
void text_percent(struct buf *out,
		  struct str text); // everything but unreserved characters is escaped
bool text_is_utf8(struct str text);
// A control character of ASCII (C0, DEL) or of UTF-8 (C1, U+0080 to U+009F).
bool text_has_control(struct str text);
// Length of the longest prefix that does not end inside a sequence (at most 3 bytes shorter).
size_t text_utf8_whole(struct str text);
// How many bytes at the start are printable ASCII without quote and backslash: a JSON string holds
// them as they are.
size_t text_plain(const void *bytes, size_t len);
// "2027-01-31T08:00:00Z", with a fraction of the second or without, with Z or +hh:mm. False:
// something else, or before 1970.
bool text_read_time(struct str text, int64_t *out_wall_ms);
