// Numbers that only grow, in the transaction of whatever they count: a batch that fails leaves no
// gap. A name is "WHAT/OF", each part as long as it likes.
#pragma once

#include "store/db.h"

fallible counter_next(struct db *db, const char *what, const char *of, uint64_t *out);
fallible counter_raise(struct db *db, const char *what, const char *of, uint64_t least);
// 0: there is none. `of` NULL: the greatest of all of that `what`.
fallible counter_read(struct db *db, const char *what, const char *of, uint64_t *out);
