// Random bytes, SHA-256, HMAC, constant-time comparison. Every request's bearer is hashed, and
// OpenSSL's newer interface takes longer to fetch the function, under locks, than the hash: hence
// the plain one.
//
// syscalls: getrandom
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/secret.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void secret_random(void *out, size_t len)
{
	char *at = out;

	while (len > 0) {
		ssize_t got = getrandom(at, len, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			abort(); // guessable secrets are worse than none
		at += got;
		len -= (size_t)got;
	}
}

void secret_hex(char *out, size_t bytes)
{
	static const char digits[] = "0123456789abcdef";

	// The random bytes are in the second half of the buffer and are expanded from its front on.
	secret_random(out + bytes, bytes);
	for (size_t i = 0; i < bytes; i++) {
		uint8_t byte = (uint8_t)out[bytes + i];

		out[2 * i] = digits[byte >> 4];
		out[2 * i + 1] = digits[byte & 15];
	}
	out[2 * bytes] = 0;
}

bool secret_equal(const void *a, const void *b, size_t len)
{
	return CRYPTO_memcmp(a, b, len) == 0;
}

void secret_wipe(void *at, size_t len)
{
	if (len) // memset of a NULL pointer is undefined
		explicit_bzero(at, len);
}

void secret_buf_done(struct buf *buf)
{
	if (buf->at)
		secret_wipe(buf->at, buf->room);
	buf_done(buf);
}

void secret_sha256(const void *bytes, size_t len, uint8_t out[SECRET_HASH])
{
	SHA256_CTX work;

	SHA256_Init(&work);
	SHA256_Update(&work, bytes, len);
	SHA256_Final(out, &work);
	secret_wipe(&work, sizeof(work));
}

static void hash_padded(const uint8_t key[SECRET_HASH], uint8_t pad, const void *bytes, size_t len,
			uint8_t out[SECRET_HASH])
{
	uint8_t block[SHA256_CBLOCK];
	SHA256_CTX work;

	memset(block, pad, sizeof(block));
	for (size_t i = 0; i < SECRET_HASH; i++)
		block[i] ^= key[i];
	SHA256_Init(&work);
	SHA256_Update(&work, block, sizeof(block));
	SHA256_Update(&work, bytes, len);
	SHA256_Final(out, &work);
	secret_wipe(block, sizeof(block));
	secret_wipe(&work, sizeof(work));
}

void secret_hmac(const uint8_t key[SECRET_HASH], const void *bytes, size_t len,
		 uint8_t out[SECRET_HASH])
{
	hash_padded(key, 0x36, bytes, len, out);
	hash_padded(key, 0x5c, out, SECRET_HASH, out);
}
