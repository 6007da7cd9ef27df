// The path of each inotify watch descriptor.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Adds it, or changes its path. False: no memory.
bool watched_add(int wd, const char *path);
const char *watched_path(int wd); // NULL: none
void watched_drop(int wd);	  // the kernel has removed it
// Removes the watches of a directory and of everything beneath it.
void watched_drop_tree(int inotify, const char *path);
// The directory, and everything beneath it, has a new path.
void watched_rename(const char *path, const char *to);
void watched_clear(void);
uint64_t watched_count(void);
