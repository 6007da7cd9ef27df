// Java's store of trusted certificates (cacerts), with one more in it.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

// Appends `certificate` (DER) under `alias` to `old`: JKS, or PKCS #12 whose certificates are not
// encrypted, as JDK 18 and later have it. *out is JKS, which every JDK reads in its place; empty:
// the alias is there already. INVALID bad_keystore: another form, or another password than Java's
// default. No I/O; for workers.
fallible keystore_add(struct str old, const char *alias, struct str certificate, struct buf *out);
