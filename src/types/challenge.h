// What a registry asks for in WWW-Authenticate (RFC 9110, 11.3). No I/O.
#pragma once

#include "base/err.h"
#include "base/str.h"

enum challenge_kind { CHALLENGE_NONE, CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
	enum challenge_kind kind;
	char realm[1024], service[256], scope[1024]; // of Bearer
};

// Reads one header, which may hold several challenges, and keeps in *out the best one so far:
// Bearer, then Basic. Unknown schemes are skipped; a parameter that is too long voids its
// challenge.
void challenge_read(struct str header, struct challenge *out);
