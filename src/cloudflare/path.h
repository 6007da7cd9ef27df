// Parsers of the bridge: ids, sessions, paths. No I/O.
#pragma once

#include "base/buf.h"

#define PATH_ID_LEN 26
#define PATH_WORKSPACE "/workspace"

void path_new_id(char out[PATH_ID_LEN + 1]); // random, [a-z2-7], valid as a sandbox's name
bool path_is_id(struct str text);
bool path_is_base32(struct str text); // an id by its characters, though it may look like a short id
bool path_is_session(struct str text); // [A-Za-z0-9._-]{1,128} without ".."

// Resolves dots textually, relative paths from the workspace; false: it leads out of the workspace.
// Symbolic links are resolved in the sandbox.
bool path_resolve(struct str path, struct buf *out);
// Percent-encodes an absolute path, except its slashes.
void path_escape(struct str path, struct buf *out);
// Quotes one word for bash.
void path_quote(struct str word, struct buf *out);
