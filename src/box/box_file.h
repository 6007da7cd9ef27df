// Files of a box's folder, named "BOX/", a letter (0: none) and a number: tapes, and the state that
// the next daemon needs. All calls but box_file_remove_later() wait for the disk.
#pragma once

#include "box/private.h"

char *box_file_name(const struct box *box, char letter, uint32_t number); // the caller's
// Writes to a temporary name and renames, so that a complete file always exists. A failing disk is
// logged: the object of the file then ends with the daemon.
void box_file_write(struct box *box, char letter, uint32_t number, const char *bytes, size_t len);
// *out is the caller's; *out_len = 0: no such file. An error does not mean that there is none.
fallible box_file_read(struct box *box, char letter, uint32_t number, char **out, size_t *out_len);
void box_file_remove(struct box *box, char letter, uint32_t number);
void box_file_remove_later(struct box *box, char letter, uint32_t number); // in the background
