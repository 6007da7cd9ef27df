// A request passed on to another server, over a connection that stands, and its reply passed back:
// bodies stream both ways, at the pace of the slower side.
#pragma once

#include "http/http.h"

struct relay_way {
	struct loop *loop;
	int fd;		  // connected; taken over, whatever happens
	struct str host;  // "localhost:8080"
	struct str path;  // as it is sent, with its slash
	bool keep_bearer; // the Authorization is meant for that server
};

// Answers x with what the server says. Fields that concern one connection alone stay behind.
// BAD_PEER no_reply, bad_reply: it did not answer, or not in HTTP; nothing has been sent to the
// client then. Whatever fails once the reply has begun cuts it.
fallible relay_run(struct http *x, const struct relay_way *way);
