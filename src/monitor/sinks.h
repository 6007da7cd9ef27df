// The configured sinks with their secrets.
#pragma once

#include "types/sink.h"

struct sinks {
	struct sink at[SINKS_MAX];
	struct str secrets[SINKS_MAX]; // empty: none
	size_t count;
};

// Reads the secrets' files: before the process gives up its rights. INVALID bad_config.
fallible sinks_load(const char *text, struct sinks *out);
