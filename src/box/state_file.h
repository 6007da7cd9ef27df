// Small files of a box's folder, each "BOX/" and a letter and a number: written beside their place
// and moved there, so that there is always a whole one. For what another daemon needs to go on. All
// wait for the disk.
#pragma once

#include "box/private.h"

// A disk that fails is logged: what the card is of then ends with the daemon.
void state_file_write_file(struct box *box, char letter, uint32_t number, const char *bytes,
			   size_t len);
void state_file_erase_file(struct box *box, char letter, uint32_t number);
// The caller's; *out_len = 0: there is none. An error says nothing of that.
fallible state_file_read_file(struct box *box, char letter, uint32_t number, char **out,
			      size_t *out_len);
