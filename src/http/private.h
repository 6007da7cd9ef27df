// Declarations shared by the files of an exchange only.
#pragma once

#include <stdint.h>

#include "base/err.h"

struct http;

// Marks the connection as unusable. A slow peer gets its own error kind.
fallible http_blame(struct http *x, struct err *err);
// Sends "100 Continue" to a client that waits for it, before the body is read.
fallible http_invite(struct http *x);
fallible http_too_large(uint64_t max);
// Accounts for `len` more bytes of the reply.
fallible http_pay(struct http *x, uint64_t len);
// A complete reply with the caller's Content-Type; NULL: none.
fallible http_reply_as(struct http *x, int status, const char *type, struct str body);
// Begins a reply with the caller's Content-Type; NULL: none. `length` may be TRANSPORT_UNSIZED.
fallible http_begin_as(struct http *x, int status, const char *type, uint64_t length);
