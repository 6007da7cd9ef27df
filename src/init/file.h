// A hand's verbs on one file.
#pragma once

#include "model/reach.h"

bool file_stat(const struct reach_ask *ask, struct reach_say *say);
bool file_read(const struct reach_ask *ask, struct reach_say *say);
bool file_readlink(const struct reach_ask *ask, struct reach_say *say);
bool file_space(const struct reach_ask *ask, struct reach_say *say);
// In write.c.
bool file_write(const struct reach_ask *ask, struct reach_say *say);
bool file_begin(const struct reach_ask *ask, struct reach_say *say);
bool file_commit(const struct reach_ask *ask, struct reach_say *say);
bool file_abort(const struct reach_ask *ask, struct reach_say *say);
// Removes what a write or an upload has left under way. Called from a signal handler too.
void file_undo(void);

// Nothing but a regular file will do. False: with errno EISDIR, or `why`.
bool file_must_be_regular(uint32_t mode, struct reach_say *say);
