// Names of images: [HOST[:PORT]/]PATH[:TAG][@DIGEST], as docker and podman read them. No I/O.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define REFERENCE_MAX 640
#define REFERENCE_DIGEST 71 // "sha256:" and 64 hex digits

struct reference {
	char host[256];			   // "docker.io", "localhost:5000"
	char path[256];			   // "library/python"
	char tag[129];			   // "": the digest decides
	char digest[REFERENCE_DIGEST + 1]; // "": the tag decides
};

// INVALID bad_reference with a hint. *out is untouched on failure.
fallible reference_read(struct str text, struct reference *out);
// "sha256:" and 64 lower-case hex digits.
bool reference_is_digest(struct str text);
// The canonical form: always with a host, and with a tag or a digest.
void reference_write(const struct reference *reference, struct buf *out);
// True for "*", and for HOST/PATH with or without :TAG or @DIGEST, in which `*` stands for any
// characters.
bool reference_is_pattern(struct str text);
// True if the pattern is that of the canonical form, or of its HOST/PATH.
bool reference_matches(const struct reference *reference, const char *pattern);
// The template's name if none is given: python-3.12; of a digest its first 12 digits.
void reference_template(const struct reference *reference, struct buf *out);
