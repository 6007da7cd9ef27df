// The SQLite driver of store/db.h.
#pragma once

#include "store/db_private.h"

extern const struct db_driver sqlite_driver;
