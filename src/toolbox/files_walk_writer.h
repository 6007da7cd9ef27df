// Writes a tree walk as a JSON answer: {"success", "path", NAME: [...], "count", …}.
#pragma once

#include "toolbox/path_arg.h"

struct walk_writer {
	struct path_arg *path_arg;
	struct files_walk *walk;
	const char *root; // absolute, without a trailing slash
	struct buf body;
	struct json_out out;
	uint64_t count;
	bool streams; // a part of the answer has been sent
};

void walk_writer_done(struct walk_writer *writer);
#define auto_walk_writer on_exit_call(walk_writer_done) struct walk_writer

// Writes the beginning, up to the first item. Nothing is sent yet. A client that disconnects before
// the first part is sent ends the walk.
fallible walk_writer_begin(struct walk_writer *writer, const char *name);
// Called after each item: sends the buffered items once they exceed one piece.
fallible walk_writer_flow(struct walk_writer *writer);
// Writes the end of the answer, with the result of the walk.
fallible walk_writer_end(struct walk_writer *writer);

// Writes "absolutePath" of a path beneath the root; and, behind the other fields, "nameBase64" and
// "pathBase64" for names that are not UTF-8.
void walk_writer_put_path(struct json_out *out, const struct walk_writer *writer, struct str path);
void walk_writer_put_bytes(struct json_out *out, const struct walk_writer *writer, struct str name,
			   struct str path);
