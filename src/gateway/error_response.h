// The end of an error: what the client reads, and what the operator finds in the log.
#pragma once

#include "http/http.h"

// What a handler knows beyond the error itself.
struct error_response_detail {
	struct str context;    // a JSON object for `context`; at == NULL: {}
	const char *operation; // "command.execute"; NULL: none
	int exit_code;	       // of a command that could not start; 0: none
	// For VALIDATION_FAILED and INVALID_GIT_URL: the field that is wrong, and what is wrong
	// with it in a word. NULL: the field that the message begins with, else the body; the
	// reason.
	const char *field, *fault;
	bool twice; // the message also as `error`, with `details`: as clients of interpreters read
		    // it
};

// Answers `failure` and frees it. `detail` may be NULL. When the reply has already begun there is
// nobody left to tell: it is logged, and the connection is cut by the missing end.
void error_response_answer(struct http *x, struct err *failure,
			   const struct error_response_detail *detail);
