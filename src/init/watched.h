// Which directory an inotify watch stands for.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Adds it, or gives it another path. False: no memory.
bool watched_add(int wd, const char *path);
const char *watched_path(int wd); // NULL: none
void watched_drop(int wd);	  // the kernel has dropped it
// Ends the watches of a directory and of all beneath it.
void watched_drop_tree(int inotify, const char *path);
// The directory, and all beneath it, has another path now.
void watched_rename(const char *path, const char *to);
void watched_clear(void);
uint64_t watched_count(void);
