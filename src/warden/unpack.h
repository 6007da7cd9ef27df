// Reads an archive and unpacks it into a directory, within limits. Runs in the jail.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "protocol/order.h"

#define UNPACK_ENTRIES_MAX 1000000
#define UNPACK_BYTES_MAX (20ull << 30)
#define UNPACK_NAME_MAX 4096

// Where the entries are made.
struct extract {
	int root;
	struct map *fresh; // paths that this layer made, NULL: not recorded
	struct buf parent; // path of the parent that was used last
	int parent_fd;	   // that directory; -1: none
};

struct unpack {
	struct extract extract;
	uint64_t bytes_max;    // over all archives that go into this root
	uint64_t files, bytes; // so far
	uint64_t entries;
	struct order_dropped dropped;
};

void unpack_begin(struct unpack *unpack, int root, uint64_t bytes_max);
void unpack_done(struct unpack *unpack);

// One tar, plain or compressed by gzip, bzip2, xz or zstd, read from `archive` to its end. `layer`:
// the n-th of an image, whose whiteouts are applied; -1: no image, whiteouts are ordinary files.
// INVALID bad_archive; TOO_LARGE archive_too_large, archive_bomb; NO_SPACE disk_full.
fallible unpack_tar(struct unpack *unpack, int archive, int layer);
// The same for a layer whose tar, unpacked, must have that SHA-256, in hex. INVALID
// digest_mismatch.
fallible unpack_layer(struct unpack *unpack, int archive, int layer, const char *digest);
