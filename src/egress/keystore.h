// Adds a certificate to Java's trust store (cacerts).
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

// Appends `certificate` (DER) under `alias` to `old`: JKS, or PKCS #12 with unencrypted
// certificates, as JDK 18 and later use. *out is JKS, which every JDK accepts in its place; empty:
// the alias exists. INVALID bad_keystore: another format, or a password other than Java's default.
// No I/O; call it in a worker.
fallible keystore_add(struct str old, const char *alias, struct str certificate, struct buf *out);
