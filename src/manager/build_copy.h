// The copy step of a build: entries of an archive, into a sandbox. The archive is read here, its
// entries get their new names and owners, and a file worker of the sandbox unpacks them: links of
// the sandbox are followed inside of its root only.
#pragma once

#include "base/sha256.h"
#include "box/files.h"

// A tar, read with pread().
struct build_archive {
	int fd;
	uint64_t bytes;
	char *root; // what comes before its names; NULL: nothing. Of a file: its only name
	bool is_file, is_directory; // what the root is, where there is one
};

// An archive within an archive.
struct build_found {
	size_t archive; // its index
	uint64_t at, bytes;
};
#define BUILD_FOUND_MAX 64

struct build_copy {
	const struct build_archive *archives;
	size_t archive_count;
	char *const *sources; // patterns, beneath the roots of the archives
	size_t count;
	const char *to;	   // absolute; with a slash at its end: a directory
	const char *chown; // NULL: 0:0
	const char *chmod; // NULL: as they are
	bool keep_owners;
	struct build_found *found; // room for BUILD_FOUND_MAX: sources that are archives are not
	size_t *found_count;	   // copied but noted here; NULL: they are copied
};

// Adds what would be copied to a hash: paths, types, modes, targets and contents of the sources.
// Its destination is not looked at. INVALID as below. Waits.
fallible build_copy_hash(const struct build_copy *copy, struct sha256 *hash);
// INVALID bad_plan: a source that is not there or leads out, a destination that cannot be; INVALID
// bad_archive, no_user; NO_SPACE. Waits.
fallible build_copy(const struct files *files, const struct build_copy *copy, uint64_t *out_count);
// Makes a directory and those above it that are missing, for the owner USER[:GROUP], as --chown
// names one; "", or an owner that the sandbox does not know: root. Waits.
fallible build_copy_dir(const struct files *files, const char *path, const char *owner);
