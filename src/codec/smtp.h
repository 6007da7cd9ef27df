// Replies of an SMTP server (RFC 5321), and the text of a message on its way to one. No I/O.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

#define SMTP_REPLY_MAX 8192 // bytes of a reply

enum smtp_verdict { SMTP_MORE, SMTP_DONE, SMTP_BAD, SMTP_TOO_LARGE };

struct smtp_reply {
	int code;	   // 200 to 599
	struct str text;   // of the last line, without control characters at its ends
	bool has_starttls; // a line of the reply is the extension STARTTLS
	bool has_plain;	   // a line of the reply is AUTH, with the mechanism PLAIN
	size_t size;	   // bytes of the reply
};

// Parses a reply of one or more lines at the start of `bytes`. Slices point into `bytes`. Lines may
// end with LF alone; all lines must have the same code.
enum smtp_verdict smtp_reply(struct str bytes, struct smtp_reply *out);

// The argument of AUTH PLAIN (RFC 4616), base64. False: user or password has a NUL, or is empty.
bool smtp_put_plain(struct buf *out, struct str user, struct str password);

// A header line. What could end the line, or is not ASCII, becomes '?'.
void smtp_put_header(struct buf *out, const char *name, struct str value);
// A body: lines end with CRLF, a leading dot is doubled, other bytes than ASCII text become '?',
// lines are broken after 900 bytes. Ends with the line ".".
void smtp_put_body(struct buf *out, struct str text);
