// SHA-256 in pieces, as hex digits: the names of blobs. OpenSSL's plain functions, for the reason
// given in secret.c. The state is OpenSSL's, without its header in ours.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include <openssl/sha.h>

_Static_assert(sizeof(SHA256_CTX) <= sizeof(struct sha256), "the state has room");

void sha256_begin(struct sha256 *hash)
{
	SHA256_Init((SHA256_CTX *)hash->state);
}

void sha256_add(struct sha256 *hash, const void *bytes, size_t len)
{
	if (len)
		SHA256_Update((SHA256_CTX *)hash->state, bytes, len);
}

void sha256_end(struct sha256 *hash, char out[SHA256_HEX + 1])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[SHA256_DIGEST_LENGTH];

	SHA256_Final(bytes, (SHA256_CTX *)hash->state);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[SHA256_HEX] = '\0';
}
