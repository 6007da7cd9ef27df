// Archives of stopped sandboxes: the files are packed by zstd, and come back with the next request.
#pragma once

#include "manager/operations.h"

// Begins it; the caller holds *out. NOT_FOUND no_sandbox; CONFLICT not_stopped. The operation ends
// with those of the warden: NO_SPACE; TOO_LARGE archive_too_large; CANCELLED by a request that
// wakes the sandbox, or by its end.
fallible archives_begin(struct manager *manager, const struct who *who, struct str key,
			struct operation **out);
// The same for a sandbox whose archiveAfter is over.
fallible archives_idle(struct entry *entry);
// Goes on with what an earlier daemon has begun, when adoption is done.
void archives_resume(struct manager *manager);
