// Reads an archive and unpacks it into a directory, within limits. Runs in the jail.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/sysmacros.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "protocol/order.h"

#define UNPACK_ENTRIES_MAX 1000000
#define UNPACK_BYTES_MAX (20ull << 30)
#define UNPACK_NAME_MAX 4096
#define UNPACK_RAW_MAX (1ll << 40)	// bytes of a file in an archive of a disk
#define UNPACK_RAW_SOCKET makedev(0, 1) // stands for a socket there

// Where the entries are made.
struct extract {
	int root;
	struct map *fresh; // paths that this layer made, NULL: not recorded
	struct buf parent; // path of the parent that was used last
	int parent_fd;	   // that directory; -1: none
	bool raw;	   // ids as they are: see unpack_raw()
};

struct unpack {
	struct extract extract;
	uint64_t bytes_max;    // over all archives that go into this root
	uint64_t files, bytes; // so far
	uint64_t entries;
	struct order_dropped dropped;
	struct buf marks; // of a disk: the text of the file OVERLAY_MARKS
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

// What export_write() has written of a disk: whiteouts, pipes and sockets are made, holes stay
// holes, and every attribute is set or, of overlays, in the file OVERLAY_MARKS; else it fails.
// INVALID digest_mismatch, bad_archive; NO_SPACE.
fallible unpack_raw(struct unpack *unpack, int archive, const char *digest);
bool unpack_is_raw_xattr(const char *name);
