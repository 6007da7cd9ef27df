// How the bytes of an exchange are moved: over a connection (http/socket_transport), or
// inside the process (http/in_process). Handlers do not see it; http/http enforces the order of
// calls.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct http;

#define TRANSPORT_UNSIZED UINT64_MAX

struct http_transport {
	fallible (*read)(struct http *x, void *room, size_t size, size_t *out);
	// x->status is set; `type` NULL: none. A complete reply, or its beginning.
	fallible (*reply)(struct http *x, const char *type, struct str body);
	fallible (*begin)(struct http *x, const char *type, uint64_t length);
	fallible (*write)(struct http *x, const void *bytes, size_t len);
	fallible (*end)(struct http *x);
	// A piece together with the beginning or the end of an unsized reply; NULL: separate calls.
	fallible (*begin_with)(struct http *x, const char *type, struct str bytes);
	fallible (*end_with)(struct http *x, struct str bytes);
	fallible (*send_file)(struct http *x, int fd, uint64_t offset, uint64_t len);
	fallible (*recv_file)(struct http *x, int fd, uint64_t max, uint64_t *out_len);
	void (*be_patient)(struct http *x);
	fallible (*away)(struct http *x, struct str probe);
	void (*back)(struct http *x);
	// The unsized reply that has begun is of this type, and ours: if that is one of streams of
	// events it never stays silent. NULL: nothing closes a silent one.
	void (*keep_alive)(struct http *x, const char *type);
	bool (*is_gone)(struct http *x, struct str probe);
};

extern const struct http_transport socket_transport_way;

// Whether replies of this status never have a body.
static inline bool transport_is_bodyless(int status)
{
	return status < 200 || status == 204 || status == 304;
}

// Of http/http and the transports. http_invite() sends "100 Continue" to a client that waits for
// it, before the body is read.
fallible http_invite(struct http *x);
fallible http_too_large(uint64_t max);
// A complete reply, or its beginning, with the caller's Content-Type; NULL: none.
fallible http_reply_as(struct http *x, int status, const char *type, struct str body);
fallible http_begin_as(struct http *x, int status, const char *type, uint64_t length);
