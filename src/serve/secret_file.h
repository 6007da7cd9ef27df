// A secret that the daemon generates once and keeps in its directory.
#pragma once

#include "base/err.h"
#include "base/secret.h"

// The key of that name in the directory, generated if it is absent or incomplete; synced on return.
// Blocks.
fallible secret_file_key(int dir, const char *name, uint8_t out[SECRET_HASH]);
