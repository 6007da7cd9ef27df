// The directories of a cove, with lock and key; used by the supervisor alone, as root.
//
// DATA/            0711 root
//   lock           flock()ed by the supervisor and its children; holds its pid. Children have it
//                  read-only: root's command line signals the pid in it
//   operator.key   0600 root: "cove_" and 64 hex digits
//   url            0644: the URL of the API while it is served
//   socket         0644: likewise the path of RUN/api.sock
//   daemon/        0700 cove, with tapes/
//   boxes/ layers/ 0700 root: the warden's
// RUN/             0711 root, with box/ 0700 cove and api.sock 0660 root:cove-users
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/secret.h"
#include "serve/config.h"

struct data_dir {
	int data;
	int lock;  // inherited by the children
	int state; // the same file, opened for writing; for the supervisor alone
	uid_t uid; // of the daemon
	gid_t gid;
	uint8_t key_hash[SECRET_HASH];
};

// CONFLICT data_taken, naming the process that holds it; FORBIDDEN when the directory is not
// root's. The lock is held until the last copy of data_dir->lock is closed.
fallible data_dir_open(const struct config *config, struct data_dir *out);
// The same for a process that already has the lock.
fallible data_dir_open_again(const struct config *config, int lock, struct data_dir *out);
// Writes to the lock's file who holds it, which image of the process this is, and its progress:
// "PID GENERATION WORD". The command line reads it (cli/host.c).
void data_dir_set_state(const struct data_dir *data_dir, unsigned generation, const char *word);
// The file `url` has the URL of the API for the command line of this host; the file `socket` the
// path of the Unix socket for users who may not read operator.key ("": there is none).
fallible data_dir_publish(const struct data_dir *data_dir, const char *url, const char *socket);
void data_dir_withdraw(const struct data_dir *data_dir);
