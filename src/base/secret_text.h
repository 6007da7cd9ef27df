// Values of secrets in memory that no core file and no dump of a debugger has: pages of their own,
// excluded from dumps. Copies elsewhere (buffers, trees of requests) are wiped by who made them.
#pragma once

#include <stddef.h>

#define SECRET_TEXT_MAX (32 * 1024 - 16)

// A copy with a NUL behind it, of at most SECRET_TEXT_MAX bytes; freed by secret_text_free() alone.
char *secret_text_new(const void *bytes, size_t len);
void secret_text_free(char *text); // wipes; takes NULL
