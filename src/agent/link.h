// The connection to a runner: JSON lines both ways over one socket. A reader task and a writer task
// keep a flood, or a runner that does not read, from blocking the actor.
#pragma once

#include "agent/runner_protocol.h"
#include "loop/stream.h"

#define LINK_RECEIVED_MAX 64	   // messages that wait for the actor; then the runner waits
#define LINK_RECEIVED_BYTES 262144 // and their bytes, unless it is a single message
#define LINK_OUT_MAX (8u << 20)	   // bytes that wait for a runner that does not read

struct runner_link {
	struct agent_session *agent;
	struct stream stream;
	uint64_t connection;
	bool greeted; // a valid hello was received
	bool closed;  // closed by the runner, or for a violation of the protocol
	bool broken;  // a violation of the protocol
	char why[LEASE_ERROR_MAX];
	struct link received; // struct runner_message, oldest first
	size_t received_count, received_bytes;
	struct buf in, out;
	struct condition room, more; // `received` has room; `out` has more
	struct task *reader, *writer;
	bool dropped;
	int refs;
};

// Takes the fd over, also on failure.
fallible link_open(struct agent_session *agent, int fd, struct runner_link **out);
// Requests another hello on the same socket, under a new connection number.
void link_greet(struct runner_link *link);
// Queues the bytes of the buffer. A connection that cannot take them counts as closed.
void link_send(struct runner_link *link, const struct buf *message);
// The oldest unhandled message; NULL: none. link_pop() frees it.
struct runner_message *link_first(struct runner_link *link);
void link_pop(struct runner_link *link);
void link_end(struct runner_link *link); // closes; takes NULL
