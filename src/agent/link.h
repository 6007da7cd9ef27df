// The connection to a runner: JSON lines both ways over one socket. A reader task and a writer task
// keep a flood, or a runner that does not read, from blocking the actor.
#pragma once

#include "agent/runner_protocol.h"
#include "loop/stream.h"

#define LINK_HEARD_MAX 64	// messages that wait for the actor; then the runner waits
#define LINK_HEARD_BYTES 262144 // and their bytes, unless it is a single message
#define LINK_OUT_MAX (8u << 20) // bytes that wait for a runner that does not read

struct link_to {
	struct agent_session *agent;
	struct stream stream;
	uint64_t connection;
	bool greeted; // a valid hello was received
	bool closed;  // closed by the runner, or for a violation of the protocol
	bool broken;  // a violation of the protocol
	char why[LEASE_ERROR_MAX];
	struct link heard; // struct runner, oldest first
	size_t heard_count, heard_bytes;
	struct buf in, out;
	struct condition room, more; // `heard` has room; `out` has more
	struct task *reader, *writer;
	bool dropped;
	int refs;
};

// Takes the fd over, also on failure.
fallible link_open(struct agent_session *agent, int fd, struct link_to **out);
// Requests another hello on the same socket, under a new connection number.
void link_greet(struct link_to *link);
// Queues the bytes of the buffer. A connection that cannot take them counts as closed.
void link_say(struct link_to *link, const struct buf *message);
// The oldest unhandled message; NULL: none. link_done() frees it.
struct runner *link_heard(struct link_to *link);
void link_done(struct link_to *link);
void link_drop_to(struct link_to *link); // closes; takes NULL
