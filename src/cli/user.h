// What of the host's /usr nobody but its owner was meant to read, and every sandbox of the template
// `host` can: its root has the rights of the owner there.
#pragma once

#include <stddef.h>

// Names the first few such paths, parted by ", ", and returns how many there are; what a package
// put there is public and does not count. Takes some tenths of a second. Not reentrant.
size_t cli_user_private(char *room, size_t size);
