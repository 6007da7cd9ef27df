// The server name in the first message of a TLS client, in any number of records and segments. The
// reader stores no bytes but those of the name; the caller keeps them all, to send them on. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "types/hostname.h"

#define HELLO_MAX (16 * 1024)		   // of the message
#define HELLO_BYTES_MAX (HELLO_MAX + 1024) // with its records: as much as the caller has to keep

enum hello_verdict {
	HELLO_MORE,
	HELLO_DONE,
	HELLO_NOT_TLS,	 // the first byte is not TLS
	HELLO_BAD,	 // `fault` says why
	HELLO_TOO_LARGE, // more than HELLO_BYTES_MAX without an end
};

struct hello {
	// The answer, once DONE.
	bool has_name;
	enum hostname_kind kind;     // NAME or LITERAL when it has one
	char name[HOSTNAME_MAX + 1]; // normalised
	bool has_ech;		     // an encrypted hello is inside, or pretended: they look alike
	const char *fault;	     // BAD: what was wrong
	size_t seen;		     // bytes consumed so far

	// Internal.
	int state;
	uint8_t head[5], head_len;	    // of the record
	uint32_t need, value;		    // bytes that the state takes, the number they make
	uint32_t record_left, message_left; // bytes
	uint32_t block_left;		    // of all extensions
	uint16_t extension;
	bool has_names;
	uint16_t list_len;
	char list[HOSTNAME_MAX + 16]; // the server_name extension
};

#define HELLO_INIT ((struct hello){0})
// Feeds the next bytes. After a verdict other than MORE no bytes are consumed and the verdict
// stays; bytes after the hello are not read.
enum hello_verdict hello_feed(struct hello *hello, struct str piece);

// access_denied, fatal: sent to a refused client instead of a server hello.
#define HELLO_DENIED STR("\x15\x03\x03\x00\x02\x02\x31")
// internal_error, fatal: allowed, but the server does not answer.
#define HELLO_FAILED STR("\x15\x03\x03\x00\x02\x02\x50")
