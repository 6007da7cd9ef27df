// The ports of one box that were exposed by name: a register, nothing more. What reaches them is
// decided elsewhere.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define PORTBOOK_MAX 256
#define PORTBOOK_NAME_MAX 255

struct portbook_entry {
	uint16_t port;
	char *name; // NULL: none
};

struct portbook {
	struct portbook_entry *at; // by number
	size_t count;
};

const struct portbook_entry *portbook_find(const struct portbook *book, uint16_t port);
// False: the book is full. It must not be there yet.
bool portbook_add(struct portbook *book, uint16_t port, struct str name);
bool portbook_drop(struct portbook *book, uint16_t port); // false: it was not there
void portbook_done(struct portbook *book);
