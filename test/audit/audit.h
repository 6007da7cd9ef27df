// What a box looks like from inside, one fact a line, the same on every run: no pids, inode
// numbers, times or names of this box.
#pragma once

#include <stddef.h>

// "EPERM", or "ok" for 0.
const char *audit_errno(int errnum);
// Reads a file as text, "" if it cannot.
const char *audit_text(const char *path, char *room, size_t size);

void audit_self(void);	 // box-audit.c: ids, rights, limits, fds
void audit_places(void); // places.c: namespaces, mounts, /proc, /dev
void audit_calls(void);	 // calls.c: what the filters and the kernel refuse
