// Counters that only grow, raised in the transaction of the rows that they number: a failed batch
// leaves no gap. A name is "WHAT/OF", each part of any length.
#pragma once

#include "store/db.h"

fallible counter_next(struct db *db, const char *what, const char *of, uint64_t *out);
fallible counter_raise(struct db *db, const char *name, uint64_t least); // the whole name
// 0: none. `of` NULL: the maximum of all counters of `what`.
fallible counter_read(struct db *db, const char *what, const char *of, uint64_t *out);
