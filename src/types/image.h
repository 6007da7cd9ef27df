// The configuration of an image for its commands: environment, user and directory. The unpacker
// writes it to IMAGE_FILE in the root; there it is as untrusted as any file of the image. No I/O.
#pragma once

#include "types/env_map.h"

#define IMAGE_FILE "/.cove-image.json"
#define IMAGE_BYTES_MAX (256 * 1024) // of that file
#define IMAGE_USER_MAX 64
#define IMAGE_WORKDIR_MAX 1024

struct image {
	struct env_map env;
	char user[IMAGE_USER_MAX + 1];	     // "name", "uid", "uid:gid"; "": root
	char workdir[IMAGE_WORKDIR_MAX + 1]; // absolute; "": none
	char *argv;			     // Entrypoint and Cmd as a JSON list; NULL: neither
	char *launch;			     // of a built template, see types/launch.h; NULL: none
};

void image_done(struct image *image);
#define auto_image on_exit_call(image_done) struct image

// INVALID bad_image. Untouched on failure.
fallible image_read(struct str text, struct image *out);
// `config` of an image's configuration (OCI: Env, User, WorkingDir, Entrypoint, Cmd, Labels,
// ExposedPorts, Volumes, StopSignal) as IMAGE_FILE's text; NULL: an empty one. INVALID bad_image.
fallible image_write(const struct json *config, struct buf *out);
// A user name or number, optionally with a group: [A-Za-z0-9_.:$-], IMAGE_USER_MAX at most.
bool image_is_user(struct str word);
// An absolute path without control characters or "..".
bool image_is_workdir(struct str path);
