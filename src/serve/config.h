// What the operator decides: file < environment < flags, all from one table.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/setting.h"

#define CONFIG_FILE "/etc/cove/cove.conf"
#define CONFIG_DATA "/var/lib/cove"
#define CONFIG_RUN "/run/cove"

struct config {
	char *data, *run, *listen, *hosts, *disk, *steer, *log_level, *log_format, *on_term, *store;
	char *warm;
	uint64_t pool_start, pool_max;				      // bytes
	char *users_group, *users_scopes, *users_tenant, *users_host; // of the Unix socket
	uint64_t boxes_max, loops_max, conns_max, threads, warm_max;
	uint64_t output_max; // bytes
	uint64_t grace_ms;
	uint64_t sleep_ms, frozen_ms, sweep_ms; // 0: as types/timers says
	uint64_t queue_ms;
	char *isolate, *tag, *class_standard, *class_small; // of conversations
	uint64_t session_space, session_input;		    // bytes
	uint64_t retention_ms;				    // 0: as types/timers says
	uint64_t audit_ms, audit_rows;			    // 0: as types/timers says; no bound
	char *exceptions, *names, *ca;			    // of what is sent for tenants
	uint64_t egress_rate;				    // the most that a policy may ask for
	char *preview_listen, *preview_domain, *preview_cert, *preview_key;
	char *dev;
	uint64_t time_scale;
	// How serve and its children speak; not for people.
	char *fd_listen, *fd_preview;
	uint64_t fd_users;
	uint64_t fd_cert;
	uint64_t fd_ready, fd_key, fd_lock, fd_live, fd_holds, uid, gid; // 0: not given
};

// Reads argv behind the verb. INVALID bad_config, naming file, line and key, or the flag.
fallible config_read(int argc, char **argv, struct config *out);
// The same from flags alone, as config_args() writes them.
fallible config_read_flags(int argc, char **argv, struct config *out);
void config_done(struct config *config);
#define auto_config on_exit_call(config_done) struct config

// The bits of enum who_scope that users-scopes names. INVALID bad_config.
fallible config_users_scopes(const struct config *config, unsigned *out);

// What of `from` can change while cove runs goes to `to`. The names of what did so are added to
// `changed`, of what differs and can not to `fixed`, with commas; either may be NULL.
void config_adopt(struct config *to, const struct config *from, struct buf *changed,
		  struct buf *fixed);

// The words that give a child the same configuration: "--name=value" for each row, added behind
// argv[*count], which has room for CONFIG_ARGS_MAX. The caller frees them.
#define CONFIG_ARGS_MAX 96
void config_args(const struct config *config, char **argv, int *count);
// The table as people read it: one line an option, and as rows for the command line's help.
void config_describe(struct buf *out);
void config_example(struct buf *out); // a configuration file with everything in comments
const struct setting *config_settings(void);
// The same row by row, for the document; false: there are no more.
struct config_option {
	const char *name, *env, *arg, *otherwise, *help; // env NULL: none
	bool live;					 // can change while cove runs
};
bool config_option(size_t at, struct config_option *out);
