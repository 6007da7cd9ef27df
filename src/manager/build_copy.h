// The copy step of a build: entries of an archive, into a sandbox. The archive is read here, its
// entries get their new names and owners, and a file worker of the sandbox unpacks them: links of
// the sandbox are followed inside of its root only.
#pragma once

#include "box/files.h"

struct build_copy {
	int archive; // a tar, read with pread()
	uint64_t bytes;
	char *const *sources; // patterns, beneath the archive's root
	size_t count;
	const char *to;	   // absolute; with a slash at its end: a directory
	const char *chown; // NULL: 0:0
	const char *chmod; // NULL: as they are
};

// INVALID bad_plan: a source that is not there or leads out, a destination that cannot be; INVALID
// bad_archive, no_user; NO_SPACE. Waits.
fallible build_copy(const struct files *files, const struct build_copy *copy, uint64_t *out_count);
