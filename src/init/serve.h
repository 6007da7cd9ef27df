// The loop of a file worker: one request after another (protocol/fileop.h), until its socket
// closes. It is a process of its own: it may use the heap, and exit at any time.
#pragma once

#include "protocol/fileop.h"

// A request handler. True: `reply` is the last answer. False: errno, or reply->why and reply->text.
// Handlers with more to report send it before (init/reply.h).
typedef bool serve_verb(const struct fileop_request *ask, struct fileop_reply *reply);

void serve_run(int sock);
