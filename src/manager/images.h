// The configuration of a template's image (types/image.h), copied into the records of boxes that
// start from it.
#pragma once

#include "manager/table.h"

// Fills the record of a new box with the image's settings that its create did not give, creates the
// working directory, and checks the user. The first box of a template reads the file, others use
// the cache. Waits. INVALID no_user.
fallible images_apply(struct entry *entry);
// The template of that name was removed or replaced.
void images_forget(struct manager *manager, const char *template);
void images_done(struct manager *manager);
