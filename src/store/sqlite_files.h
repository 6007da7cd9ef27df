// SQLite opens its files by path, but the daemon may not be able to walk there: it holds the
// directory open instead. A path of ours is "/@FD/NAME", and the calls that take a path are led to
// that directory.
#pragma once

#include <stddef.h>

void sqlite_files_lead(void); // once a process; harmless twice
void sqlite_files_path(int dir, const char *name, char *room, size_t size);
