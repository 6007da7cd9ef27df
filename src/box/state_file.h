// Small files of a box's folder, named "BOX/", a letter and a number: state that the next daemon
// needs. Written to a temporary name and renamed, so that a complete one always exists. All calls
// wait for the disk.
#pragma once

#include "box/private.h"

// A failing disk is logged: the object of the file then ends with the daemon.
void state_file_write_file(struct box *box, char letter, uint32_t number, const char *bytes,
			   size_t len);
void state_file_erase_file(struct box *box, char letter, uint32_t number);
// *out is the caller's; *out_len = 0: no such file. An error does not mean that there is none.
fallible state_file_read_file(struct box *box, char letter, uint32_t number, char **out,
			      size_t *out_len);
