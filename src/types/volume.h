// Volumes of a sandbox: which, where, and how they are mounted. The names and paths are checked
// here; pid 1 opens the paths without following a link.
#pragma once

#include "base/err.h"
#include "base/id.h"
#include "codec/json.h"

#define VOLUME_PATH_MAX 127
#define VOLUME_MOUNTS_MAX 16

struct volume_mount {
	char id[ID_BOX_LEN + 1];
	char name[ID_NAME_MAX + 1];
	char path[VOLUME_PATH_MAX + 1];
	char subpath[VOLUME_PATH_MAX + 1]; // of the volume; "": its root
	bool read_only;
};
struct volume_mounts {
	struct volume_mount *at;
	size_t count;
};

void volume_mounts_done(struct volume_mounts *mounts);
void volume_mounts_copy(const struct volume_mounts *from, struct volume_mounts *out);
// Absolute, without "//", ".", ".." or a slash at its end; not / and nothing in the file systems
// that cove mounts itself: /dev, /proc, /run, /sys.
bool volume_is_path(struct str path);
bool volume_is_subpath(struct str path); // the same, relative, and of any directory
bool volume_is_name(struct str name);
fallible volume_bad_name(void); // INVALID bad_name

// `volumes` of a create: [{name, path, subpath?, readOnly?}]; `name` may be an id. NULL: none.
// INVALID bad_field, bad_name, unknown_field. *out is empty before; the caller owns it.
fallible volume_mounts_read(const struct json *array, struct volume_mounts *out);
// The same with ids, as the store has them.
fallible volume_mounts_load(const struct json *array, struct volume_mounts *out);
// Whether both are the same, in the same order.
bool volume_mounts_agree(const struct volume_mounts *one, const struct volume_mounts *other);
void volume_mounts_write(struct json_out *out, const struct volume_mounts *mounts);
