// Writes the files of a template as one layer of an OCI image. Runs in the jail: the files are a
// sandbox's or an image's. Equal trees give equal bytes.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "protocol/order.h"

// Detached mounts, read-only, idmapped for the jail; -1: none.
struct export_trees {
	int base, usr; // of a template; /usr of the host
	int disk;      // of a snapshot, on top of those
	int parent;    // the layer below, of an image
	bool changes;  // of a snapshot: over its base
};
void export_trees_close(struct export_trees *trees);

// In a mount namespace of the caller's own: mounts them, and changes the root to what holds them.
fallible export_mount(const struct export_trees *trees);
// Writes the layer to `out`, and after it the file IMAGE_FILE, if there is one. Of *sums: files,
// bytes of the layer as written, its digest and that of its tar. INVALID bad_archive: a name that
// no layer can have; TOO_LARGE; NO_SPACE.
fallible export_write(const struct export_trees *trees, int out, bool zstd, struct answer *sums);
