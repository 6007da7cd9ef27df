// Settings of this host that make its sandboxes less safe.
#pragma once

#include <stdbool.h>

#define HOST_SETTINGS_FILES 8
struct host_settings {
	int files[HOST_SETTINGS_FILES]; // of /proc and /sys, -1: the host has no such file
	bool shares_root;		// the data directory is on the root file system
};

// Opens the files: call it before the process is confined.
void host_settings_open(const char *data, struct host_settings *out);
void host_settings_close(struct host_settings *settings);
// Reads them now, and calls `each` for every one that should be changed: what it means, and how.
// Does not wait.
void host_settings_look(const struct host_settings *settings,
			void (*each)(void *arg, const char *what, const char *fix), void *arg);
