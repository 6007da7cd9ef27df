// A walk that becomes a JSON answer: {"success", "path", NAME: [...], "count", …}.
#pragma once

#include "toolbox/path_arg.h"

struct walk_writer {
	struct path_arg *place;
	struct files_walk *walk;
	const char *root; // absolute, without a slash at its end
	struct buf body;
	struct json_out out;
	uint64_t count;
	bool streams; // part of it has been sent
};

void walk_writer_done(struct walk_writer *trail);
#define auto_walk_writer on_exit_call(walk_writer_done) struct walk_writer

// The beginning, up to the first item. Nothing is sent yet; a client that leaves until then ends
// it.
fallible walk_writer_begin(struct walk_writer *trail, const char *name);
// After each item: sends what has gathered when it is much.
fallible walk_writer_flow(struct walk_writer *trail);
// The end, with what the walk was worth.
fallible walk_writer_end(struct walk_writer *trail);

// "absolutePath" of a path beneath; and behind the other fields what is not UTF-8, as bytes:
// "nameBase64", "pathBase64".
void walk_writer_put_path(struct json_out *out, const struct walk_writer *trail, struct str path);
void walk_writer_put_bytes(struct json_out *out, const struct walk_writer *trail, struct str name,
			   struct str path);
