// The CA that signs the certificates for a box's inspected connections: one per box, derived from
// the daemon's seed and the box's id, so that it is the same after a restart and is never stored.
// Its certificate is in the box's trust store, its key only in this process, and no other box
// trusts it.
#pragma once

#include <openssl/ssl.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/secret.h"

struct authority;

// Does not wait, but takes a millisecond: call it in a worker.
struct authority *authority_new(const uint8_t seed[SECRET_HASH], const char *box_id);
void authority_free(struct authority *authority); // takes NULL
fallible authority_write(const struct authority *authority, struct buf *out_pem);
fallible authority_write_der(const struct authority *authority, struct buf *out);
unsigned long authority_hash(const struct authority *authority); // of its name, as OpenSSL has it

// A server context for that name, owned by the authority. Waits for a worker. INTERNAL.
fallible authority_context(struct authority *authority, const char *name, SSL_CTX **out);
