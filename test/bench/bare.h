// The least that runs a command for a client over HTTP: no box, no key, no record, one client,
// blocking. What cove takes beyond it is what cove does.
#pragma once

#include <sys/types.h>

struct bare {
	pid_t pid;
	int port;
};

// A server of its own, which runs /bin/true at each request, with pipes for its output.
void bare_open(struct bare *bare);
void bare_close(struct bare *bare);
