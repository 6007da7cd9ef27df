// A streamed request, as parts of the library use it: embedded, its strings borrowed.
#pragma once

#include "lib/private.h"

struct cove_request {
	struct cove *cove;
	const char *method, *path;
	const char *type; // of the body to be written; NULL: `body`, which may be empty
	struct str body;
	char range[48], last_event[64]; // headers, when not empty
	struct http_client *http;
	int status;
	bool finished, ended, broken;
	char *own_method, *own_path, *own_type; // of one that the user opened
};

fallible request_begin(struct cove_request *r);
fallible request_write(struct cove_request *r, const void *bytes, size_t len);
fallible request_finish(struct cove_request *r);
// Reads bytes of the reply; *out = 0 at its end. A read that timed out can be repeated.
fallible request_read(struct cove_request *r, void *room, size_t size, int64_t timeout_ms,
		      size_t *out);
fallible request_body(struct cove_request *r, struct buf *out); // all that is left
int request_fd(const struct cove_request *r);			// to be polled; -1: none
void request_done(struct cove_request *r);			// a second call has no effect
