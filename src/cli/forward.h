// Forwards local TCP ports into a sandbox.
#pragma once

#include "cli/call.h"

// "[ADDRESS:]LOCAL:PORT", or "PORT". INVALID bad_words.
struct forward_spec {
	char listen[80]; // "127.0.0.1:8080"
	uint16_t port;	 // in the sandbox
};
fallible forward_read(const char *word, struct forward_spec *out);
