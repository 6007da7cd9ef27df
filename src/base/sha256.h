// SHA-256 of bytes that come in pieces.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_HEX 64

struct sha256 {
	uint64_t state[16]; // OpenSSL's
};
void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t len);
void sha256_end(struct sha256 *hash, char out[SHA256_HEX + 1]); // lower case
