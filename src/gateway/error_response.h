// Error responses: the body that the client gets, and the log entry for the operator.
#pragma once

#include "http/http.h"

// Details that a handler adds to the error.
struct error_response_detail {
	struct str context;    // a JSON object for `context`; at == NULL: {}
	const char *operation; // "command.execute"; NULL: none
	int exit_code;	       // of a command that could not start; 0: none
	// For VALIDATION_FAILED and INVALID_GIT_URL: the wrong field, and a code for what is wrong.
	// NULL: the field that the message begins with, else the body; the reason.
	const char *field, *fault;
	bool twice; // the message also as `error`, with `details`: the format of Cloudflare's
		    // interpreter
};

// Answers `failure`, frees it and returns OK, so that a handler can return the call. `detail` may
// be NULL. If the reply has already begun, the error is only logged, and the missing end of the
// reply tells the client that it is incomplete.
fallible error_response_answer(struct http *x, struct err *failure,
			       const struct error_response_detail *detail);

// The body of an error in Daytona's format: for an answer that has several.
void error_response_daytona(const struct http *x, const struct err *err, struct buf *out);
