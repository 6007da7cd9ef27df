// Synthetic addresses of a box: 198.18.0.0/15, one for each name that it resolved, so that a
// connection without a name in it still has one. A freed address is reused only after all others.
// Memory is bounded: the least recently used name is dropped first. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "types/address.h"
#include "types/hostname.h"

// A box that resolves more names than this while it keeps the answers (60 s) gets no connection at
// its least recently used addresses.
#define NAMES_MAX 8192

struct names;

struct names *names_new(size_t max); // NAMES_MAX, or less
void names_free(struct names *names);
// The address of `name` (as hostname_read() gives it), a new one if it has none.
void names_give(struct names *names, const char *name, struct address *out);
// The name's address for AAAA: fd63:6f76:65::/96 followed by the IPv4 one.
void names_six(const struct address *given, struct address *out);
// The name of an address of either family, also as ::ffff:198.18.0.1. NULL: none. Valid until the
// next names_give().
const char *names_find(struct names *names, const struct address *address);
size_t names_count(const struct names *names);
bool names_is_synthetic(const struct address *address);
