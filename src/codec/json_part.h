// An object taken apart without building a tree: for messages that carry another document inside.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

// `object` is one strict JSON value (json_scan() said so, and gave it without the white space
// around it). *out is the value of its member `key` as it is written, at == NULL: it has none;
// `rest` gets the object without it. False: it is no object, or has the member twice.
bool json_part(struct str object, const char *key, struct buf *rest, struct str *out);
