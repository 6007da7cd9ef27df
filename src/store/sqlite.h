// SQLite behind store/db.h.
#pragma once

#include "store/db_inner.h"

// The file `name` in the directory `dir`, made if need be, with its journal beside it; dir -1: in
// memory. Where it cannot be written it is opened for reading (db->read_only). UNAVAILABLE
// state_unwritable: not even that; state_corrupt: it is no database. Blocks.
fallible sqlite_open(int dir, const char *name, struct db **out);
