// The grammar of the bridge: its ids, its sessions, its paths. No I/O.
#pragma once

#include "base/buf.h"

#define PATH_ID_LEN 26
#define PATH_WORKSPACE "/workspace"

void path_new_id(char out[PATH_ID_LEN + 1]); // random, [a-z2-7], good as a sandbox's name
bool path_is_id(struct str text);
bool path_is_base32(struct str text);  // an id by its letters, though it may look like a short id
bool path_is_session(struct str text); // [A-Za-z0-9._-]{1,128} without ".."

// Resolves dots by the letter, relative ones from the workspace; false: it leads out of it. A link
// on the way is the sandbox's own affair.
bool path_resolve(struct str path, struct buf *out);
// An absolute path with all but its slashes escaped.
void path_escape(struct str path, struct buf *out);
// One word for bash, quoted.
void path_quote(struct str word, struct buf *out);
