// Splits an object without building a tree: for messages that contain another document.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

// `object` is one strict JSON value (checked by json_scan(), which trimmed it). *out is the encoded
// value of its member `key`, at == NULL: none; `rest`, if given, gets the object without it. False:
// not an object, or the member occurs twice.
bool json_part(struct str object, const char *key, struct buf *rest, struct str *out);
