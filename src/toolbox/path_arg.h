// Where a request about files acts: the sandbox, the user, the path; and how it fails, in the words
// of Cloudflare's container server.
#pragma once

#include "gateway/gateway.h"

#define PATH_ARG_PATH_MAX 4096
#define PATH_ARG_DEFAULT "/workspace"
#define PATH_ARG_SHORT_MS 30000 // of one verb
#define PATH_ARG_LONG_MS 600000 // of a walk through a tree

struct path_arg {
	struct http *x;
	const char *operation; // "file.read"
	struct box_ref ref;
	struct files files;
	struct str session;	  // of the request; at == NULL: none
	struct session_run *lock; // of that session; NULL: not held
	struct str shown;	  // the path as it was given: bytes, with a NUL behind it
	const char *path;	  // the same
	// What was wrong when reading failed: a field, and Cloudflare's word for it.
	const char *field, *code;
	// What an error may tell beside path and operation.
	const char *stderr_text;
	uint64_t actual_size, max_size;
	bool is_relative; // the path of the URL, to a session's directory
};

// Enters the sandbox, has the work done, and answers its error.
typedef fallible path_arg_fn(struct path_arg *path_arg);
fallible path_arg_serve(struct http *x, const char *operation, path_arg_fn *work);
// From now on its verbs may take so long.
void path_arg_within(struct path_arg *path_arg, int64_t ms);
#define auto_path_arg on_exit_call(path_arg_end) struct path_arg

// Its turn among the commands of its session, and from then on that session's directory; nothing
// without a session. Waits. Held until the request ends, or path_arg_unlock().
fallible path_arg_lock(struct path_arg *path_arg);
void path_arg_unlock(struct path_arg *path_arg);

// `sessionId` and `user` of a body; NULL is an empty one. Then its paths. `path_arg_path` reads
// `name`, or the bytes in `nameBase64`, into shown and path; `out` may be NULL.
fallible path_arg_user(struct path_arg *path_arg, const struct json *json);
fallible path_arg_path(struct path_arg *path_arg, const struct json *json, const char *name,
		       const char **out);
// The body, its session and user. The caller owns *json, which is an object.
fallible path_arg_json(struct path_arg *path_arg, struct json **json);
// The same and its `path`, under path_arg_lock().
fallible path_arg_read(struct path_arg *path_arg, struct json **json);
// A path that came otherwise: as text, or in the URL without its first slash.
fallible path_arg_text(struct path_arg *path_arg, const char *field, struct str path);
fallible path_arg_raw(struct path_arg *path_arg, struct str path);
// The query's `user`.
fallible path_arg_query(struct path_arg *path_arg);

// Whatever the file system refused becomes one code, FILESYSTEM_ERROR, with its words as stderr; a
// full disk, too long a name and what is no file keep theirs.
fallible path_arg_refused(struct path_arg *path_arg, struct err *err);

// `name` as text; a name that is not UTF-8 also as `nameBase64`.
void path_arg_put_name(struct json_out *out, const char *name, struct str bytes);
// `path` as an absolute one, without double slashes, single dots, and a slash at its end; what dots
// and links it has on the way is the box's to know. In the exchange's arena.
const char *path_arg_absolute(const struct path_arg *path_arg, const char *path);
