// The addresses that a box is told instead of real ones: 198.18.0.0/15, one per name that it asked
// for, so that a connection without any name in it still has one. An address that was forgotten is
// given to another name only after all others were. Memory is bounded: the name that was not asked
// for or connected to the longest is forgotten first. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/address.h"
#include "model/hostname.h"

// The stub answers 100 questions a second for 60 s before an answer may be forgotten by the box: a
// table of this size never forgets one earlier.
#define NAMES_MAX 8192

struct names;

struct names *names_new(size_t max); // NAMES_MAX, or less
void names_free(struct names *names);
// The address of `name` (as hostname_read() gives it), a new one if it has none.
void names_give(struct names *names, const char *name, struct address *out);
// The name behind an address, also if it came as ::ffff:198.18.0.1. NULL: there is none. Lives
// until the next names_give().
const char *names_find(struct names *names, const struct address *address);
size_t names_count(const struct names *names);
bool names_is_synthetic(const struct address *address);
