// SQLite opens files by path, but the confined daemon may not be able to reach the directory: it
// holds a descriptor instead. A path "/@FD/NAME" is resolved beneath that descriptor.
#pragma once

#include <stddef.h>

void sqlite_files_lead(void); // once per process; harmless twice
void sqlite_files_path(int dir, const char *name, char *room, size_t size);
