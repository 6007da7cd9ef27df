// Global addresses against private ones: the operator's network, this host, a cloud's metadata. An
// address to which cove connects for a tenant must be global, whatever name led there; the operator
// may list exceptions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct address {
	bool is_v6;
	uint8_t at[16]; // the first four when it is not
};

// A numeric address, without brackets.
bool address_read(struct str text, struct address *out);
#define ADDRESS_TEXT 46
void address_write(const struct address *address, char out[ADDRESS_TEXT]);
// True if global. An IPv6 address that embeds an IPv4 one is judged by that.
bool address_is_global(const struct address *address);
// The IPv4 address embedded in an IPv6 one. False: none.
bool address_carries(const struct address *address, struct address *inner);

// "ADDRESS[/BITS][:PORT], …", an IPv6 address with a port in brackets. True: every entry is
// well-formed.
bool address_list_is_valid(struct str list);
bool address_is_listed(struct str list, const struct address *address, uint16_t port);
// "ADDRESS/BITS[:PORT]" in one form: the bits behind the prefix are zero. False: it is none.
#define ADDRESS_RANGE_TEXT (ADDRESS_TEXT + 4) // "ADDRESS/BITS"
bool address_range_read(struct str text, char out[ADDRESS_RANGE_TEXT], uint16_t *out_port);
bool address_range_has(const char *range, const char *address); // both in that form
// "NAME=ADDRESS, …": names that resolve without a query.
bool address_names_are_valid(struct str list);
bool address_of_name(struct str list, struct str name, struct address *out);
