// The ports of one box that were exposed, with what opens a preview of each: a register, nothing
// more. What reaches them is decided elsewhere.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "model/ticket.h"

#define PORTBOOK_MAX 256
#define PORTBOOK_NAME_MAX 255

struct portbook_entry {
	uint16_t port;
	char *name;			  // NULL: none
	char token[TICKET_TOKEN_MAX + 1]; // of its preview
	int64_t ends_ms;		  // steady clock: the token's end; 0: never
};

struct portbook {
	struct portbook_entry *at; // by number
	size_t count;
};

const struct portbook_entry *portbook_find(const struct portbook *book, uint16_t port);
// With a token of its own. NULL: the book is full. It must not be there yet. Borrowed until the
// next change.
struct portbook_entry *portbook_add(struct portbook *book, uint16_t port, struct str name);
struct portbook_entry *portbook_get(struct portbook *book, uint16_t port); // NULL: absent
// The same token, and a signed link with it, must not open two ports.
bool portbook_has_token(const struct portbook *book, struct str token, uint16_t but_port);
bool portbook_drop(struct portbook *book, uint16_t port); // false: it was not there
void portbook_done(struct portbook *book);
