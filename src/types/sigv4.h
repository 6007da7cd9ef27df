// AWS Signature Version 4 in the Authorization field, as S3 clients send it. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

// "AWS4" and the secret are the first key of an HMAC, which takes SECRET_HASH bytes here.
#define SIGV4_SECRET_LEN 28
#define SIGV4_HEADERS_MAX 32
#define SIGV4_QUERY_MAX 16 // pairs

struct sigv4 {
	struct str access_key, day, region, service; // day: 20260131
	struct str headers;			     // "host;x-amz-date"
	struct str signature;			     // 64 hex digits
};
// "AWS4-HMAC-SHA256 Credential=KEY/DAY/REGION/SERVICE/aws4_request, SignedHeaders=…, Signature=…".
// False: it is not of that form.
bool sigv4_read(struct str authorization, struct sigv4 *out);

struct sigv4_request {
	struct str method, path, query;			  // as they were sent
	struct str (*field)(void *arg, const char *name); // a header; at NULL: absent
	void *arg;
};
// The text that is hashed and signed. False: a signed header is absent, the query is malformed, or
// what must be signed is not: host, x-amz-date, x-amz-content-sha256.
bool sigv4_canonical(const struct sigv4 *sigv4, const struct sigv4_request *request,
		     struct buf *out);
// Whether the request was signed with that secret, within 15 minutes of `now_s` (wall clock). The
// time of a wrong one is that of a right one.
bool sigv4_is_good(const struct sigv4 *sigv4, const struct sigv4_request *request,
		   const char secret[SIGV4_SECRET_LEN + 1], int64_t now_s);
