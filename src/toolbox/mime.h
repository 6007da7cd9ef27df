// What a file is called in Content-Type: by its extension, else by its first bytes.
#pragma once

#include <stdbool.h>

#include "base/str.h"

#define MIME_SNIFF 4096 // so many first bytes are looked at

// By the extension of a path; NULL: unknown.
const char *mime_by_name(struct str path);
// By the first bytes, as `file --mime-type` would say for what is common. `whole`: there are no
// more.
const char *mime_by_bytes(struct str head, bool whole);
// Is content of this type sent as text?
bool mime_is_text(const char *type);
