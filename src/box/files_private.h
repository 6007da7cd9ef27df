// What the verbs on files have in common, for the files of this room.
#pragma once

#include "box/file_worker.h"
#include "box/files.h"

// The request that all of them begin with.
struct fileop_request files_ask(const struct files *files, enum fileop_verb verb, const char *path);
// INVALID bad_path for what no path can be.
fallible files_check(const char *path);
// A FAILED answer as an error. `path` is shown.
fallible files_explain(const struct fileop_reply *failed, const char *path);
// Takes a hand and asks it, and waits until it begins to answer. One that was at rest may be dying
// already: if it has not read the request, or the request changes nothing, another is asked.
fallible files_put(const struct files *files, const struct fileop_request *ask,
		   enum file_worker_use use, struct box_file_worker **out);
// The same, and the answer. FAILED is an error; *out_fd is the caller's, or -1; *hand is the
// caller's to give or drop.
fallible files_get(const struct files *files, const struct fileop_request *ask,
		   enum file_worker_use use, struct box_file_worker **worker,
		   struct fileop_reply *say, int *out_fd);
// A request with one answer.
fallible files_once(const struct files *files, const struct fileop_request *ask,
		    struct fileop_reply *say);
// What an fd from a box must be: a regular file of a kind of file system that boxes have.
fallible files_check_fd(int fd);
// BAD_PEER: the hand says what it should not.
fallible files_nonsense(void);
