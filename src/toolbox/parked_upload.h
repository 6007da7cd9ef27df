// Interrupted uploads, kept for PARKED_UPLOAD_MS so that their client can resume. The old file is
// untouched meanwhile; an upload that is not resumed leaves nothing behind.
#pragma once

#include "toolbox/watch_state.h"

#define PARKED_UPLOAD_MS 600000
#define PARKED_UPLOAD_BOX_MAX 4 // per sandbox: each occupies one of its file workers
#define PARKED_UPLOAD_MAX 64

struct parking {
	const char *user, *path; // absolute
	uint64_t total;		 // total length of the file
};

// Takes ownership of the upload and keeps the sandbox in memory. At a limit the oldest parked
// upload is dropped.
void parked_upload_put(struct watch_state *watches, const struct box_ref *ref,
		       const struct parking *parking, struct files_upload *upload);
// Gives ownership back to the caller; NULL: no such upload.
struct files_upload *parked_upload_take(struct watch_state *watches, const struct box_ref *ref,
					const struct parking *parking);
