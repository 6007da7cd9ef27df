// What every fuzzer needs: the entry that libFuzzer calls, and a law that must hold for any input.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define MUST(law)                                                                                  \
	do {                                                                                       \
		if (!(law)) {                                                                      \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #law);          \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

// Whether a slice lies inside of another, or points nowhere.
static inline bool is_within(struct str part, struct str whole)
{
	return part.len == 0 || (part.at >= whole.at && part.at + part.len <= whole.at + whole.len);
}
