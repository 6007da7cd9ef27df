// Writes the files of a template as one layer of an OCI image. Runs in the jail: the files are a
// sandbox's or an image's. Equal trees give equal bytes.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "protocol/order.h"

// Detached mounts, read-only, idmapped for the jail; -1: none.
struct export_trees {
	int base, usr;	   // of a template; /usr of the host
	int disk;	   // of a snapshot, on top of those
	int parent;	   // the layer below, of an image
	bool changes;	   // of a snapshot: over its base
	bool raw;	   // `disk` alone, as it is: with its whiteouts, nodes and all attributes
	struct map *marks; // of its directories (warden/overlay_marks.h); made by export_mount()
};
void export_trees_close(struct export_trees *trees);

// In a mount namespace of the caller's own: mounts them, and changes the root to what holds them.
fallible export_mount(struct export_trees *trees);
// Writes the layer to `out`, and after it the file IMAGE_FILE, if there is one. Of *sums: files,
// bytes of the layer as written, its digest and that of its tar. INVALID bad_archive: a name that
// no layer can have; TOO_LARGE; NO_SPACE.
// With `raw` what unpack_raw() reads: r/u and usr/u of the disk, a directory after its entries. The
// file is synced and read again, and has the digest.
fallible export_write(const struct export_trees *trees, int out, bool zstd, struct answer *sums);
