// Which addresses are the world's, and which are somebody's own: the operator's network, this host,
// a cloud's metadata. What cove connects to on a tenant's word has to be the former, whatever name
// led there; the operator may list exceptions.
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
// One of the world's. An IPv6 address that carries an IPv4 one is judged by that.
bool address_is_global(const struct address *address);
// The IPv4 address inside of an IPv6 one. False: it has none.
bool address_carries(const struct address *address, struct address *inner);

// "ADDRESS[/BITS][:PORT], …", an IPv6 address with a port in brackets. Is every entry well-formed?
bool address_list_is_valid(struct str list);
bool address_is_listed(struct str list, const struct address *address, uint16_t port);
// "NAME=ADDRESS, …": names that resolve without being asked for.
bool address_names_are_valid(struct str list);
bool address_of_name(struct str list, struct str name, struct address *out);
