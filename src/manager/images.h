// The configuration of a template's image (types/image.h), put into the records of the boxes that
// start from it.
#pragma once

#include "manager/table.h"

// A box that has just been made: its record gets what the image says and its create did not; the
// directory is made, the user must be there. The image's file is read from the first box of a
// template and remembered. Waits. INVALID no_user.
fallible images_apply(struct entry *entry);
// The template of that name is gone, or another one.
void images_forget(struct manager *manager, const char *template);
void images_done(struct manager *manager);
