// MIME types: by a file's extension, else by its first bytes.
#pragma once

#include <stdbool.h>

#include "base/str.h"

#define MIME_SNIFF 4096 // first bytes that are examined

// By the extension of a path; NULL: unknown.
const char *mime_by_name(struct str path);
// By the first bytes, as `file --mime-type` reports for common types. `whole`: `head` is the whole
// file.
const char *mime_by_bytes(struct str head, bool whole);
// Whether content of this type is sent as text.
bool mime_is_text(const char *type);
