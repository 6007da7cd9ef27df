// The tables, and the steps that migrate an older database.
#pragma once

#include "store/db.h"

#define SCHEMA_NOW 8

// Migrates the database to SCHEMA_NOW, each step in its own transaction. UNAVAILABLE state_too_new:
// a newer cove wrote it, and nothing was changed.
fallible schema_settle(struct db *db);
