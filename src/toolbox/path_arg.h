// The target of a file request: sandbox, user, path; and its errors, in the format of Cloudflare's
// container server.
#pragma once

#include "gateway/gateway.h"

#define PATH_ARG_PATH_MAX 4096
#define PATH_ARG_DEFAULT "/workspace"
#define PATH_ARG_SHORT_MS 30000 // time limit of one operation
#define PATH_ARG_LONG_MS 600000 // time limit of a tree walk

struct path_arg {
	struct http *x;
	const char *operation; // "file.read"
	struct box_ref ref;
	struct files files;
	struct str session;	   // of the request; at == NULL: none
	struct session_run *lock;  // turn in that session's queue; NULL: not held
	struct str shown;	   // the path as given: bytes, NUL-terminated
	const char *path;	   // the same
	struct json *json;	   // the body, once it was read; NULL: none
	const struct json *fields; // the object whose members are read: the body, if not set
	struct buf body;	   // the answer
	struct json_out out;
	// Set when reading failed: the field, and Cloudflare's code for the error.
	const char *field, *code;
	// Extra details of an error, beside path and operation.
	const char *stderr_text;
	uint64_t actual_size, max_size;
	bool is_relative; // a relative path in the URL, to a session's directory
};

// Gets a reference to the sandbox, runs `work`, and answers its error.
typedef fallible path_arg_fn(struct path_arg *path_arg);
fallible path_arg_serve(struct http *x, const char *operation, path_arg_fn *work);
// Sets the time limit of the operations that follow.
void path_arg_within(struct path_arg *path_arg, int64_t ms);

// Waits for its turn in the command queue of its session, then takes that session's directory; does
// nothing without a session. Held until the request ends or path_arg_unlock() is called.
fallible path_arg_lock(struct path_arg *path_arg);
void path_arg_unlock(struct path_arg *path_arg);

// path_arg_user() reads `sessionId` and `user` of the body. path_arg_path() reads `name`, or the
// bytes in `nameBase64`, into `shown` and `path`; `out` may be NULL.
fallible path_arg_user(struct path_arg *path_arg);
fallible path_arg_path(struct path_arg *path_arg, const char *name, const char **out);
// Reads the body, which must be an object, its session and user.
fallible path_arg_json(struct path_arg *path_arg);
// The same, with its `path`, under path_arg_lock().
fallible path_arg_read(struct path_arg *path_arg);
// A path from elsewhere: as text, or from the URL without its first slash.
fallible path_arg_text(struct path_arg *path_arg, const char *field, struct str path);
fallible path_arg_raw(struct path_arg *path_arg, struct str path);
// Reads `user` from the query.
fallible path_arg_query(struct path_arg *path_arg);

// Notes which field is read next, and the code of an error in it; NULL: none.
static inline void path_arg_at(struct path_arg *path_arg, const char *field, const char *code)
{
	path_arg->field = field;
	path_arg->code = code;
}
// INVALID bad_field: "'field' why".
fallible path_arg_bad(struct path_arg *path_arg, const char *field, const char *code,
		      const char *why);
// Members of a body; *out is unchanged if the field is missing. path_arg_globs() reads a list of
// strings, or one string, as a NULL-terminated array in the exchange's arena.
#define PATH_ARG_GLOBS_MAX 256
#define PATH_ARG_GLOB_BYTES 1024
fallible path_arg_flag(struct path_arg *path_arg, const char *name, bool *out);
fallible path_arg_number(struct path_arg *path_arg, const char *name, uint64_t min, uint64_t max,
			 uint64_t *out);
fallible path_arg_globs(struct path_arg *path_arg, const char *name, const char *const **out);
// utf-8 or base64. *out_named (may be NULL): the body names one.
fallible path_arg_encoding(struct path_arg *path_arg, bool *out_base64, bool *out_named);

// Maps an error of the file system to the code FILESYSTEM_ERROR, with its message as stderr. A full
// disk, too long a name and a file of the wrong type keep their codes.
fallible path_arg_refused(struct path_arg *path_arg, struct err *err);

// Begins the answer {"success": true, "path": …; the caller adds members; path_arg_answer() ends
// and sends it.
struct json_out *path_arg_success(struct path_arg *path_arg);
fallible path_arg_answer(struct path_arg *path_arg);
// Writes `name` as text; a name that is not UTF-8 also as `nameBase64`.
void path_arg_put_name(struct json_out *out, const char *name, struct str bytes);
// Makes `path` absolute, without double slashes, "." components and trailing slash; ".." and
// symbolic links are left for the box to resolve. In the exchange's arena.
const char *path_arg_absolute(const struct path_arg *path_arg, const char *path);
