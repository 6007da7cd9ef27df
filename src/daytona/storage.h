// Files of clients for builds: Daytona's object storage, an S3 subset over the contexts of builds
// (manager/build_files.h). An object is named by the hash of its key and kept like a context.
#pragma once

#include "gateway/gateway.h"

#define STORAGE_HASH_MAX 64   // characters of a context's hash
#define STORAGE_HASHES_MAX 64 // contexts of one build

// Whether a text can be the hash of a context.
bool storage_is_hash(struct str hash);
// One context of all files that the hashes name: its digest, in the exchange's arena; at NULL:
// there are no hashes. NOT_FOUND no_blob. Waits.
fallible storage_context(struct http *x, const struct json *hashes, struct str *out);
