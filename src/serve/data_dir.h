// The directories of a cove, its lock and its key: made at the first start, checked at each. Only
// the supervisor comes here, as root.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/secret.h"
#include "serve/config.h"

struct data_dir {
	int data;
	int lock;  // for the children, too
	int tell;  // the same file, to be written; the supervisor's alone
	uid_t uid; // of the daemon
	gid_t gid;
	uint8_t key_hash[SECRET_HASH];
};

// CONFLICT data_taken, naming the process that holds it; FORBIDDEN when the directory is not
// root's. The lock is held until the last copy of home->lock is closed.
fallible data_dir_open(const struct config *config, struct data_dir *out);
// The same for a process that has the lock already.
fallible data_dir_open_again(const struct config *config, int lock, struct data_dir *out);
// The lock's file says who holds it, which life of it this is, and how far that has come: "PID
// GENERATION WORD". The command line reads it (cli/host.c).
void data_dir_tell(const struct data_dir *data_dir, unsigned generation, const char *word);
// The file `url` tells the command line of this host where the API is; the file `socket`, the path
// of the Unix socket for those who may not read operator.key ("": there is none).
fallible data_dir_publish(const struct data_dir *data_dir, const char *url, const char *socket);
void data_dir_withdraw(const struct data_dir *data_dir);
void data_dir_close(struct data_dir *data_dir);
