// Bodies of multipart/form-data (RFC 7578): an incremental parser. No I/O.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_HEAD_MAX 8192

// Zeroed, then multipart_open().
struct multipart {
	char delimiter[MULTIPART_BOUNDARY_MAX + 4]; // CRLF "--" boundary
	size_t len;				    // of it
	size_t matched;				    // bytes of it that were read and held back
	enum { MULTIPART_BEFORE, MULTIPART_HEAD, MULTIPART_INSIDE, MULTIPART_AFTER } place;
	bool begun; // nothing of the part was read: `matched` counts the empty line of its head
	struct buf head; // of the part, with the end of the delimiter's line
};
// False: not the Content-Type of a multipart/form-data body with a boundary.
bool multipart_open(struct multipart *multipart, struct str content_type);
void multipart_done(struct multipart *multipart);

enum multipart_step {
	MULTIPART_MORE,	    // all of *in was consumed
	MULTIPART_PART,	    // a part begins: *out is its name, until the next call
	MULTIPART_DATA,	    // *out is some of its bytes, until the next call
	MULTIPART_PART_END, // it is complete
	MULTIPART_END,	    // the last part was read: what follows is of no meaning
	MULTIPART_BAD,	    // not multipart, or a head beyond its limit
};
// Consumes from the front of *in. After END or BAD it must not be called again.
enum multipart_step multipart_read(struct multipart *multipart, struct str *in, struct str *out);
