// What can be called by RPC: a table of objects and their methods, each the same as a route of this
// sandbox. Arguments by position become a request.
#pragma once

#include "wire/rpc.h"

enum callee_shape {
	CALLEE_PLAIN,	 // the answer as it is
	CALLEE_PICK,	 // one member of it
	CALLEE_SESSIONS, // `data` as `sessions`
	CALLEE_WRITTEN,	 // with `bytesWritten`
	CALLEE_STREAM,	 // a stream of bytes
	CALLEE_EVENTS,	 // the same, with an event: line before each data: line
	CALLEE_LOGS,	 // the same without events of type process_info
	CALLEE_DOWNLOAD, // an object with a stream in it
	CALLEE_UPLOAD,	 // takes a stream
	CALLEE_CALLS,	 // events of a cell, to functions of the client
};
#define CALLEE_FUNCTIONS 4 // onStdout, onStderr, onResult, onError

struct callee {
	const char *object, *name;
	const char *method, *path; // {0} stands for the first argument
	const char *args;	   // members of the body, in order; "*" is an object of members;
				   // "-" is left out
	enum callee_shape shape;
	const char *pick;
};

struct callee_request {
	enum callee_shape shape;
	const char *method;
	struct buf target; // behind the sandbox's own path
	struct buf body;
	bool has_body;
	int64_t pipe;			     // UPLOAD: the number of the stream
	uint64_t written;		     // WRITTEN
	int64_t functions[CALLEE_FUNCTIONS]; // CALLS: their numbers; 0: none
};

// NULL: there is none.
const struct callee *callee_find(struct str object, struct str name);
// INVALID bad_rpc, bad_field. callee_done() is due in any case.
fallible callee_write(const struct callee *callee, const struct json *args,
		      struct callee_request *out);
void callee_done(struct callee_request *request);
