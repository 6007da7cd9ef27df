// The operator's settings: file < environment < flags, all from one table.
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
	char *users_group, *users_scopes, *users_tenant, *users_host; // for the Unix socket
	uint64_t boxes_max, loops_max, conns_max, threads, warm_max;
	uint64_t output_max; // bytes
	uint64_t grace_ms;
	uint64_t sleep_ms, frozen_ms, sweep_ms; // 0: as types/timers says
	uint64_t queue_ms;
	char *isolate, *tag, *class_standard, *class_small; // of agent sessions
	uint64_t session_space, session_input;		    // bytes
	uint64_t retention_ms;				    // 0: as types/timers says
	uint64_t audit_ms, audit_rows;			    // 0: as types/timers says; no limit
	char *exceptions, *names, *ca;			    // of outbound connections for tenants
	char *registry_insecure, *registry_mirrors, *registry_exceptions, *registry_ca;
	uint64_t image_max, images_cache, pull_ms;
	uint64_t egress_rate; // the maximum that a policy may set
	uint64_t history_max; // bytes
	char *sinks;	      // of alerts: types/sink.h
	char *preview_listen, *preview_domain, *preview_cert, *preview_key;
	char *price_currency, *price_cpu_second, *price_gib_second, *price_gib_hour, *price_request;
	uint64_t executions_max, executions_queue;
	char *sections;	      // records of the file: "[profile NAME]" and "KEY = VALUE" lines
	uint64_t results_max; // bytes
	char *dev;
	uint64_t time_scale;
	// Internal, between serve and its children.
	char *fd_listen, *fd_preview;
	uint64_t fd_users;
	uint64_t fd_cert;
	uint64_t fd_ready, fd_key, fd_lock, fd_live, fd_holds, uid, gid; // 0: not given
};

// Parses argv after the verb. INVALID bad_config, naming file, line and key, or the flag.
fallible config_read(int argc, char **argv, struct config *out);
// The same from flags alone, as config_args() writes them.
fallible config_read_flags(int argc, char **argv, struct config *out);
void config_done(struct config *config);
#define auto_config on_exit_call(config_done) struct config

struct prices;
// The prices of the section [prices]. INVALID bad_config.
fallible config_prices(const struct config *config, struct prices *out);
// The bits of enum who_scope in users-scopes. INVALID bad_config.
fallible config_users_scopes(const struct config *config, unsigned *out);

// Copies the settings of `from` that a reload can change to `to`. Adds the names of changed
// settings to `changed`, and of those that differ but need a restart to `fixed`, with commas;
// either may be NULL.
void config_adopt(struct config *to, const struct config *from, struct buf *changed,
		  struct buf *fixed);

// The flags that give a child the same configuration: "--name=value" for each row, appended at
// argv[*count], which has room for CONFIG_ARGS_MAX. The caller frees them.
#define CONFIG_ARGS_MAX 96
void config_args(const struct config *config, char **argv, int *count);
// The table as help text: one line per option, and as rows for the command line's help.
void config_describe(struct buf *out);
void config_example(struct buf *out); // a configuration file with everything in comments
const struct setting *config_settings(void);
// The same row by row, for the document; false: no more rows.
struct config_option {
	const char *name, *env, *arg, *otherwise, *help; // env NULL: none
	bool live;					 // a reload changes it
};
bool config_option(size_t at, struct config_option *out);
