// Images by name: what run and create need of them.
#pragma once

#include "cli/remote.h"

// Before a create by --image: pulls it with our credential for its registry, if we have one and the
// image is not there. Without one the daemon pulls it.
fallible image_prepare(struct call *call);
// Entrypoint and Cmd of the box's image, NULL-ended, added to `argv`; nothing if it has no image.
fallible image_words(struct remote *remote, struct cove_box *box, struct json **out_config);
