// The dialogue with a runner: lines both ways over one socket. Reading and writing have a task
// each, so that neither a flood nor a runner that reads nothing holds the keeper up.
#pragma once

#include "agent/runner_protocol.h"
#include "loop/stream.h"

#define LINK_HEARD_MAX 64	// words that wait for the keeper; then the runner waits
#define LINK_HEARD_BYTES 262144 // and their bytes, if they are more than one: trees are larger
#define LINK_OUT_MAX (8u << 20) // bytes that wait for a runner that does not read

struct link_to {
	struct agent_session *agent;
	struct stream stream;
	uint64_t connection;
	bool greeted; // its hello was right
	bool closed;  // the runner's end is gone, or it broke the rules
	bool broken;  // the latter
	char why[LEASE_ERROR_MAX];
	struct link heard; // struct words, oldest first
	size_t heard_count, heard_bytes;
	struct buf in, out;
	struct condition room, more; // `heard` has room; `out` has more
	struct task *reader, *writer;
	bool dropped;
	int refs;
};

// Takes the fd over, also on failure.
fallible link_open(struct agent_session *agent, int fd, struct link_to **out);
// Another hello is asked for over the same socket, under a new number.
void link_greet(struct link_to *link);
// The words of `buf` go out; one that cannot take them counts as closed.
void link_say(struct link_to *link, const struct buf *words);
// The oldest word that was not handled; NULL: none. link_done() frees it.
struct runner *link_heard(struct link_to *link);
void link_done(struct link_to *link);
void link_drop_to(struct link_to *link); // closes; takes NULL
