// Options of RUN --mount: "type=secret,id=npm,target=/root/.npmrc". No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define BUILD_MOUNTS_MAX 32 // of a step
#define BUILD_MOUNT_MAX 8192

// clang-format off
#define BUILD_MOUNT_TYPES(X) X(BIND, "bind") X(CACHE, "cache") X(SECRET, "secret") X(TMPFS, "tmpfs")
//	  field    key         other keys of the same
#define BUILD_MOUNT_TEXTS(X) \
	X(target,  "target",   "dst", "destination") \
	X(source,  "source",   "src", "source") \
	X(from,    "from",     "from", "from") \
	X(id,      "id",       "id", "id") \
	X(env,     "env",      "env", "env")
// clang-format on

enum build_mount_type {
#define X(name, word) BUILD_MOUNT_##name,
	BUILD_MOUNT_TYPES(X)
#undef X
};

struct build_mount {
	enum build_mount_type type;
#define X(field, ...) char *field; // NULL: not given
	BUILD_MOUNT_TEXTS(X)
#undef X
	uint32_t mode, uid, gid; // mode UINT32_MAX: the default of the type
	bool required;		 // of a secret
};

void build_mount_done(struct build_mount *mount);
#define auto_build_mount on_exit_call(build_mount_done) struct build_mount

// INVALID bad_mount: an unknown option, a type without what it needs, a target that cannot be one.
fallible build_mount_read(struct str text, struct build_mount *out);
