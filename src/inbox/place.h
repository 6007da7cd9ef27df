// Where a request about files acts: the sandbox, the user, the path; and how it fails, in the words
// of Cloudflare's container server.
#pragma once

#include "door/door.h"

#define PLACE_PATH_MAX 4096
#define PLACE_DEFAULT "/workspace"
#define PLACE_SHORT_MS 30000 // of one verb
#define PLACE_LONG_MS 600000 // of a walk through a tree

struct place {
	struct http *x;
	const char *operation; // "file.read"
	struct visit visit;
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
typedef fallible place_fn(struct place *place);
fallible place_serve(struct http *x, const char *operation, place_fn *work);
// From now on its verbs may take so long.
void place_within(struct place *place, int64_t ms);
#define auto_place on_exit_call(place_end) struct place

// Its turn among the commands of its session, and from then on that session's directory; nothing
// without a session. Waits. Held until the request ends, or place_unlock().
fallible place_lock(struct place *place);
void place_unlock(struct place *place);

// `sessionId` and `user` of a body; NULL is an empty one. Then its paths. `place_path` reads
// `name`, or the bytes in `nameBase64`, into shown and path; `out` may be NULL.
fallible place_user(struct place *place, const struct json *json);
fallible place_path(struct place *place, const struct json *json, const char *name,
		    const char **out);
// The body, its session and user. The caller owns *json, which is an object.
fallible place_json(struct place *place, struct json **json);
// The same and its `path`, under place_lock().
fallible place_read(struct place *place, struct json **json);
// A path that came otherwise: as text, or in the URL without its first slash.
fallible place_text(struct place *place, const char *field, struct str path);
fallible place_raw(struct place *place, struct str path);
// The query's `user`.
fallible place_query(struct place *place);

// Whatever the file system refused becomes one code, FILESYSTEM_ERROR, with its words as stderr; a
// full disk, too long a name and what is no file keep theirs.
fallible place_refused(struct place *place, struct err *err);

// `name` as text; a name that is not UTF-8 also as `nameBase64`.
void place_put_name(struct json_out *out, const char *name, struct str bytes);
// `path` as an absolute one, without double slashes, single dots, and a slash at its end; what dots
// and links it has on the way is the box's to know. In the exchange's arena.
const char *place_absolute(const struct place *place, const char *path);
