// The tables, and the steps by which an older state becomes today's.
#pragma once

#include "store/db.h"

#define SCHEMA_NOW 5

// Brings the state to SCHEMA_NOW, each step in a transaction of its own. UNAVAILABLE state_too_new:
// a newer cove wrote it, and nothing was touched.
fallible schema_settle(struct db *db);
