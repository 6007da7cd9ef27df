// What the files of an exchange share with each other, and with nobody else.
#pragma once

#include <stdint.h>

#include "base/err.h"

struct http;

// The connection is spoilt. The peer's slowness is told by its own kind.
fallible http_blame(struct http *x, struct err *err);
// Says "100 Continue" to a client that waits for it: before the body is read.
fallible http_invite(struct http *x);
fallible http_too_large(uint64_t max);
// `len` more bytes of the reply are about to leave.
fallible http_pay(struct http *x, uint64_t len);
// A whole reply whose type is not ours to say; NULL: none.
fallible http_reply_as(struct http *x, int status, const char *type, struct str body);
// The beginning of a reply whose type is not ours to say; NULL: none. `length` may be
// TRANSPORT_UNSIZED.
fallible http_begin_as(struct http *x, int status, const char *type, uint64_t length);
