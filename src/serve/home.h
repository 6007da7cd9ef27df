// The directories of a cove, its lock and its key: made at the first start, checked at each. Only
// the supervisor comes here, as root.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/secret.h"
#include "serve/config.h"

struct home {
	int data;
	int lock;  // for the children, too
	int tell;  // the same file, to be written; the supervisor's alone
	uid_t uid; // of the daemon
	gid_t gid;
	uint8_t key_hash[SECRET_HASH];
};

// CONFLICT data_taken, naming the process that holds it; FORBIDDEN when the directory is not
// root's. The lock is held until the last copy of home->lock is closed.
fallible home_open(const struct config *config, struct home *out);
// The same for a process that has the lock already.
fallible home_open_again(const struct config *config, int lock, struct home *out);
// The lock's file says who holds it, which life of it this is, and how far that has come: "PID
// GENERATION WORD". The command line reads it (cli/host.c).
void home_tell(const struct home *home, unsigned generation, const char *word);
// The file `url` tells the command line of this host where the API is; the file `socket`, the path
// of the Unix socket for those who may not read operator.key ("": there is none).
fallible home_publish(const struct home *home, const char *url, const char *socket);
void home_withdraw(const struct home *home);
void home_close(struct home *home);
