// An image in an archive: an OCI layout, or what `docker save` writes. Runs in the jail.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "warden/unpack.h"

// Whether `dir` contains an image and not a root file system.
bool oci_is_image(int dir);

// Applies the layers of the image in `stage`, in order, to one root. Every blob that is used is
// checked against its digest first. INVALID bad_image, digest_mismatch, bad_media_type,
// too_many_layers, wrong_platform; and the errors of unpack_tar().
fallible oci_apply(int stage, struct unpack *unpack);
