// A secret that the daemon makes for itself once and keeps in its own directory.
#pragma once

#include "base/err.h"
#include "base/secret.h"

// The key of that name in the directory, made if it is not there or was not finished; on the disk
// when it returns. Blocks.
fallible secret_file_key(int dir, const char *name, uint8_t out[SECRET_HASH]);
