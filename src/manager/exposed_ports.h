// The exposed ports of one box with the token of each preview. A register only: access is decided
// elsewhere.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "types/preview_token.h"

struct store;

#define EXPOSED_PORTS_MAX 256
#define EXPOSED_PORTS_NAME_MAX 255

struct exposed_ports_entry {
	uint16_t port;
	char *name;				 // NULL: none
	char token[PREVIEW_TOKEN_TOKEN_MAX + 1]; // of its preview
	int64_t ends_ms;			 // steady clock: the token's end; 0: never
};

struct exposed_ports {
	struct exposed_ports_entry *at; // by number
	size_t count;
};

const struct exposed_ports_entry *exposed_ports_find(const struct exposed_ports *book,
						     uint16_t port);
// Adds a port with a random token. NULL: the register is full. The port must not be there yet.
// Borrowed until the next change.
struct exposed_ports_entry *exposed_ports_add(struct exposed_ports *book, uint16_t port,
					      struct str name);
struct exposed_ports_entry *exposed_ports_get(struct exposed_ports *book,
					      uint16_t port); // NULL: absent
// True if another port has this token: a token, or a signed link with it, must not open two ports.
bool exposed_ports_has_token(const struct exposed_ports *book, struct str token, uint16_t but_port);
bool exposed_ports_drop(struct exposed_ports *book, uint16_t port); // false: it was not there
void exposed_ports_done(struct exposed_ports *book);

// The register of a box to the store, durable on return; and back, for each box that has any. NULL:
// nothing is kept.
fallible exposed_ports_save(struct store *store, const char *id, const struct exposed_ports *book);
fallible exposed_ports_load(struct store *store,
			    void (*each)(void *arg, struct str id, struct exposed_ports *book),
			    void *arg);
