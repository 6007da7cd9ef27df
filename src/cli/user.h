// Files of the host's /usr that only their owner may read, but every sandbox of the template `host`
// can: its root has the owner's rights there.
#pragma once

#include <stddef.h>

// Lists the first few such paths, separated by ", ", and returns their number. Takes some tenths of
// a second. Not reentrant.
size_t cli_user_private(char *room, size_t size);
