// Random bytes, constant-time comparison, hashes, and wiping.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define SECRET_HASH 32

void secret_random(void *out, size_t len); // from the kernel; aborts if it has none
void secret_hex(char *out, size_t bytes);  // 2*bytes hex digits and a NUL, random
bool secret_equal(const void *a, const void *b, size_t len); // in constant time
void secret_wipe(void *at, size_t len);
void secret_buf_done(struct buf *buf); // wipes what it holds, and frees it
#define auto_secret_buf on_exit_call(secret_buf_done) struct buf // = BUF_SECRET(limit)
void secret_sha256(const void *bytes, size_t len, uint8_t out[SECRET_HASH]);
// HMAC-SHA256 (RFC 2104) under a key of SECRET_HASH bytes.
void secret_hmac(const uint8_t key[SECRET_HASH], const void *bytes, size_t len,
		 uint8_t out[SECRET_HASH]);
