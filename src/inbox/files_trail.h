// A walk that becomes a JSON answer: {"success", "path", NAME: [...], "count", …}.
#pragma once

#include "inbox/place.h"

struct trail {
	struct place *place;
	struct files_walk *walk;
	const char *root; // absolute, without a slash at its end
	struct buf body;
	struct json_out out;
	uint64_t count;
	bool streams; // part of it has been sent
};

void trail_done(struct trail *trail);
#define auto_trail on_exit_call(trail_done) struct trail

// The beginning, up to the first item. Nothing is sent yet; a client that leaves until then ends
// it.
fallible trail_begin(struct trail *trail, const char *name);
// After each item: sends what has gathered when it is much.
fallible trail_flow(struct trail *trail);
// The end, with what the walk was worth.
fallible trail_end(struct trail *trail);

// "absolutePath" of a path beneath; and behind the other fields what is not UTF-8, as bytes:
// "nameBase64", "pathBase64".
void trail_put_path(struct json_out *out, const struct trail *trail, struct str path);
void trail_put_bytes(struct json_out *out, const struct trail *trail, struct str name,
		     struct str path);
