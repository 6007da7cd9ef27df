// Uploads that were cut, kept for a while so that their client can go on where it was. The old file
// is untouched meanwhile; when nobody comes back the upload is gone without a trace.
#pragma once

#include "toolbox/watch_state.h"

#define PARKED_UPLOAD_MS 600000
#define PARKED_UPLOAD_BOX_MAX 4 // of one sandbox: each keeps one of its hands
#define PARKED_UPLOAD_MAX 64

struct parking {
	const char *user, *path; // absolute
	uint64_t total;		 // bytes that it will have
};

// Takes the upload over, and keeps the sandbox in memory with it. The one that has waited longest
// makes room.
void parked_upload_put(struct watch_state *watches, const struct box_ref *ref,
		       const struct parking *parking, struct files_upload *upload);
// The caller's again; NULL: there is none.
struct files_upload *parked_upload_take(struct watch_state *watches, const struct box_ref *ref,
					const struct parking *parking);
