// Requests to a file worker about one file.
#pragma once

#include "protocol/fileop.h"

bool file_stat(const struct fileop_request *ask, struct fileop_reply *reply);
bool file_read(const struct fileop_request *ask, struct fileop_reply *reply);
bool file_readlink(const struct fileop_request *ask, struct fileop_reply *reply);
bool file_space(const struct fileop_request *ask, struct fileop_reply *reply);
// In write.c.
bool file_write(const struct fileop_request *ask, struct fileop_reply *reply);
bool file_begin(const struct fileop_request *ask, struct fileop_reply *reply);
bool file_commit(const struct fileop_request *ask, struct fileop_reply *reply);
bool file_abort(const struct fileop_request *ask, struct fileop_reply *reply);
// Removes the temporary file of a write or upload under way. Called from a signal handler too.
void file_undo(void);

// Accepts only a regular file. False: with errno EISDIR, or `why`.
bool file_must_be_regular(uint32_t mode, struct fileop_reply *reply);
