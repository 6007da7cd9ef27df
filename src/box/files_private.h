// Helpers shared by the file operations.
#pragma once

#include "box/file_worker.h"
#include "box/files.h"

// A request with default fields.
struct fileop_request files_ask(const struct files *files, enum fileop_verb verb, const char *path);
// INVALID bad_path for an impossible path.
fallible files_check(const char *path);
// A FAILED answer as an error. `path` is shown.
fallible files_explain(const struct fileop_reply *failed, const char *path);
// Takes a worker, sends the request and waits until it begins to answer. An idle worker may be
// dying: if it has not read the request, or the request changes nothing, another one is asked.
fallible files_put(const struct files *files, const struct fileop_request *ask,
		   enum file_worker_use use, struct box_file_worker **out);
// The same, and reads the answer. FAILED becomes an error; *out_fd is the caller's, or -1; the
// caller gives or drops *worker.
fallible files_get(const struct files *files, const struct fileop_request *ask,
		   enum file_worker_use use, struct box_file_worker **worker,
		   struct fileop_reply *say, int *out_fd);
// A request with one answer.
fallible files_once(const struct files *files, const struct fileop_request *ask,
		    struct fileop_reply *say);
// Checks an fd from a box: a regular file on a file system of a type that boxes have.
fallible files_check_fd(int fd);
// BAD_PEER: the worker broke the protocol.
fallible files_nonsense(void);
