// The addresses that a box is told instead of real ones: 198.18.0.0/15, one per name that it asked
// for, so that a connection without any name in it still has one. An address that was forgotten is
// given to another name only after all others were. Memory is bounded: the name that was not asked
// for or connected to the longest is forgotten first. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "types/address.h"
#include "types/hostname.h"

// A box that asks for more names than this while it keeps the answers (60 s) reaches nobody at the
// addresses that it used the longest ago.
#define NAMES_MAX 8192

struct names;

struct names *names_new(size_t max); // NAMES_MAX, or less
void names_free(struct names *names);
// The address of `name` (as hostname_read() gives it), a new one if it has none.
void names_give(struct names *names, const char *name, struct address *out);
// The same name's address for AAAA: fd63:6f76:65::/96 with the other one behind it.
void names_six(const struct address *given, struct address *out);
// The name behind an address of either family, also if it came as ::ffff:198.18.0.1. NULL: there is
// none. Lives until the next names_give().
const char *names_find(struct names *names, const struct address *address);
size_t names_count(const struct names *names);
bool names_is_synthetic(const struct address *address);
