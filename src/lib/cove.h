// libcove: sandboxes from C and C++.
//
//	struct cove *cove;
//	struct cove_box *box;
//	struct cove_output out;
//	struct cove_error error;
//
//	if (cove_open(NULL, &cove, &error) || cove_box_ensure(cove, "web", NULL, &box, &error) ||
//	    cove_exec_line(box, "echo hello", &out, &error))
//		return complain(&error);
//
// Every call that can fail returns 0 or the kind of the failure, and writes the details to *error,
// which may be NULL. Results are untouched on failure. Calls block; cove_set_timeout() limits each
// of them, cove_cancel() ends the waiting call from another thread, a signal handler or a callback.
// A handle made from another one must be freed before it. A client and all its handles belong to
// one thread at a time; several clients in several threads are fine. Nothing here prints, exits or
// keeps global state; the process is aborted only when memory runs out.
//
// Strings passed in are copied. Strings returned in a struct live as long as the handle that
// returned them, or as long as the callback runs, unless a free function is named.
#ifndef COVE_H
#define COVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define COVE_ZERO                                                                                  \
	{                                                                                          \
	}
#else
#define COVE_ZERO                                                                                  \
	{                                                                                          \
		0                                                                                  \
	}
#endif
#if defined(__GNUC__)
#define COVE_API __attribute__((visibility("default")))
#define COVE_MUST __attribute__((warn_unused_result))
#else
#define COVE_API
#define COVE_MUST
#endif

// ------------------------------------------------------------------------------------- failures

enum cove_kind {
	COVE_OK = 0,
	COVE_INVALID,	      // the request is invalid
	COVE_UNAUTHENTICATED, // no key, or a wrong one
	COVE_FORBIDDEN,	      // not allowed
	COVE_NOT_FOUND,	      // no such sandbox, process, file
	COVE_CONFLICT,	      // exists already, is busy
	COVE_GONE,	      // existed, has ended
	COVE_TOO_LARGE,
	COVE_EXHAUSTED,	  // a limit is reached
	COVE_CANCELLED,	  // cove_cancel(), or a callback returned nonzero
	COVE_TIMEOUT,	  // the time of this call ran out
	COVE_NO_SPACE,	  // a disk is full
	COVE_NOT_OFFERED, // this server cannot do that
	COVE_UNAVAILABLE, // no server, or it is not ready
	COVE_BROKEN,	  // the connection was lost, or the answer was invalid
	COVE_INTERNAL,	  // a failure of the server or of this library
};

struct cove_error {
	enum cove_kind kind;
	int status;	   // HTTP status; 0: the failure is local
	bool retryable;	   // the same call may succeed later
	char code[48];	   // the server's code: "FILE_NOT_FOUND"; may be empty
	char reason[48];   // a finer, stable code: "no_file"
	char message[512]; // for people
	char hint[512];	   // what they can do; may be empty
};

COVE_API const char *cove_kind_word(enum cove_kind kind); // "not_found"
COVE_API const char *cove_version(void);

// --------------------------------------------------------------------------------------- client

struct cove;

// A field that is 0 is found as the command line finds it: the URL in COVE_URL and the key in
// COVE_TOKEN; if neither is set, both in the context that 'cove login' made; else the URL in the
// file `url` of the data directory, and the key in the file `operator.key` there, which is used for
// a server on this machine only. A user who may not read that file uses the Unix socket that the
// file `socket` names. The data directory is in COVE_DATA, else /var/lib/cove. A URL is
// http://HOST:PORT or unix:PATH.
struct cove_options {
	const char *url, *token, *data;
	int64_t timeout_ms; // of each call; 0: none
};

// Connects at the first call. `options` may be NULL.
COVE_API COVE_MUST enum cove_kind cove_open(const struct cove_options *options, struct cove **out,
					    struct cove_error *error);
COVE_API void cove_close(struct cove *cove); // NULL is fine, here and in every free function
COVE_API const char *cove_url(const struct cove *cove);
COVE_API const char *cove_token(const struct cove *cove);	       // NULL: none
COVE_API void cove_set_timeout(struct cove *cove, int64_t timeout_ms); // of each call from now on

// Ends the waiting call with COVE_CANCELLED; if none is waiting, the next one. May be called from
// any thread and from signal handlers.
COVE_API void cove_cancel(struct cove *cove);

// Any request of the API, for routes without a function here. `path` begins with "/v1/". The body
// of a 2xx reply is NUL-terminated and freed by the caller with cove_free(); `out_reply` and
// `out_len` may be NULL. Other statuses become the error that they describe.
COVE_API COVE_MUST enum cove_kind cove_ask(struct cove *cove, const char *method, const char *path,
					   const void *body, size_t body_len, char **out_reply,
					   size_t *out_len, struct cove_error *error);
COVE_API void cove_free(void *what); // frees memory that the library returned

// A secret of the tenant, for the field `secrets` of a sandbox. A new value is in force from the
// next request on. `value` NULL keeps it, for the hosts that it had.
struct cove_secret_spec {
	const char *value;
	const char *const *hosts;    // names and "*.suffix" that may get it
	const char *header, *format; // send it as this header; "Bearer {}", NULL: the value alone
	const char *query;	     // send it as this query parameter
	const char *expires_at;	     // "2027-01-31T08:00:00Z"; NULL: never
};
COVE_API COVE_MUST enum cove_kind cove_secret_set(struct cove *cove, const char *name,
						  const struct cove_secret_spec *spec,
						  struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_secret_remove(struct cove *cove, const char *name,
						     struct cove_error *error);

// A volume of the tenant: a directory that outlives sandboxes, for the field `volumes` of a
// sandbox. `size_mb` 0: the daemon's default. Listed by cove_items() at "/v1/volumes".
COVE_API COVE_MUST enum cove_kind cove_volume_create(struct cove *cove, const char *name,
						     uint64_t size_mb, struct cove_error *error);
// COVE_CONFLICT while a sandbox has it.
COVE_API COVE_MUST enum cove_kind cove_volume_delete(struct cove *cove, const char *name,
						     struct cove_error *error);

// All items of a list of the API, page by page: "/v1/executions?state=running". `json` lives as
// long as the call. Nonzero ends the listing with COVE_CANCELLED.
typedef int cove_item_fn(void *arg, const char *json);
COVE_API COVE_MUST enum cove_kind cove_items(struct cove *cove, const char *path,
					     cove_item_fn *each, void *arg,
					     struct cove_error *error);

// A stream of events of the API: "/v1/events?kind=sandbox", ".../egress", ".../runs/ID/events".
// `after`: the id of the last event that the caller has; NULL: from where the route begins. A lost
// connection is reopened after the last event.
struct cove_events;
struct cove_event {
	const char *id, *type; // "" without
	const char *json;      // its data
};
COVE_API COVE_MUST enum cove_kind cove_events_open(struct cove *cove, const char *path,
						   const char *after, struct cove_events **out,
						   struct cove_error *error);
// `timeout_ms` as with cove_process_next(). The strings live until the next call. COVE_GONE: the
// stream has ended.
COVE_API COVE_MUST enum cove_kind cove_events_next(struct cove_events *events, int64_t timeout_ms,
						   struct cove_event *out,
						   struct cove_error *error);
COVE_API int cove_events_fd(const struct cove_events *events); // as cove_process_fd()
COVE_API void cove_events_close(struct cove_events *events);

// What a sandbox uses now. A count that is unknown is -1.
struct cove_stats {
	double cores;	// CPUs over the last interval; negative: unknown
	int64_t epoch;	// counts the starts of the sandbox: counters begin at 0 in each
	int64_t cpu_us; // CPU time
	int64_t memory; // bytes, working set
	int64_t pids;	// processes and threads
	int64_t disk;	// bytes
	int64_t requests, bytes_in, bytes_out; // of the network, since the sandbox was made
	int64_t inodes, inode_limit;	       // of the disk; -1: it has no fixed number of them
};
struct cove_box;
COVE_API COVE_MUST enum cove_kind cove_box_stats(struct cove_box *box, struct cove_stats *out,
						 struct cove_error *error);

// What was used in a period of whole hours. A nonzero return ends the listing.
struct cove_usage {
	const char *key; // "": what has none
	double cpu_seconds, memory_gib_seconds, disk_gib_hours;
	int64_t requests, bytes_in, bytes_out;
	const char *cost; // "0.123456"
};
typedef int cove_usage_fn(void *arg, const struct cove_usage *usage);
// `by`: "sandbox", "tenant", "label:NAME", "day" …; NULL: "sandbox". `from` and `to`:
// "2027-01-31T08:00:00Z"; NULL: 30 days ago, now.
COVE_API COVE_MUST enum cove_kind cove_usage(struct cove *cove, const char *by, const char *from,
					     const char *to, cove_usage_fn *each, void *arg,
					     struct cove_error *error);

// What the host uses now; with a tenant's key, the sums of its sandboxes. Unknown counts are -1.
struct cove_host_stats {
	double cores_used, cores_sandboxes; // negative: unknown
	int64_t memory_available, memory_sandboxes;
	int64_t disk_free, disk_sandboxes, disk_templates, disk_output, disk_trash; // bytes
	int64_t running;							    // sandboxes
	int64_t executions_queued, executions_running;
	int64_t requests, bytes_in, bytes_out;
};
COVE_API COVE_MUST enum cove_kind cove_stats(struct cove *cove, struct cove_host_stats *out,
					     struct cove_error *error);

// Points of the history of the last seven days. A nonzero return ends the listing.
struct cove_point {
	const char *metric, *unit;
	int64_t time_ms; // its begin, since 1970
	int64_t step_ms; // its length
	double avg, max; // NaN: nothing was seen
	double covered;	 // the part of it that was seen: 0 to 1
};
typedef int cove_point_fn(void *arg, const struct cove_point *point);
struct cove_history_query {
	const char *scope;	    // "host" (NULL), "tenant:NAME", "type:NAME", "sandbox:ID"
	const char *const *metrics; // "cpu", "memory", "requests" …; NULL: all
	const char *from, *to;	    // as in cove_usage(); NULL: an hour ago, now
	const char *step;	    // "5m"; NULL: what fits
};
COVE_API COVE_MUST enum cove_kind cove_history(struct cove *cove,
					       const struct cove_history_query *query,
					       cove_point_fn *each, void *arg,
					       struct cove_error *error);

// An alert: a rule whose condition holds, or held. Texts without a value are "".
struct cove_alert {
	const char *id, *rule;
	const char *severity; // "warning", "critical"
	const char *state;    // "pending", "firing", "resolved"
	double value, threshold;
	const char *unit, *summary, *hint;
	const char *sandbox;		 // that it is about
	const char *since, *resolved_at; // "2027-01-31T08:00:00Z"
	const char *acknowledged_by, *silenced_until, *comment;
};
typedef int cove_alert_fn(void *arg, const struct cove_alert *alert);
// Those in `state`; NULL: all. A nonzero return of `each` ends the listing.
COVE_API COVE_MUST enum cove_kind cove_alerts(struct cove *cove, const char *state,
					      cove_alert_fn *each, void *arg,
					      struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_alert_acknowledge(struct cove *cove, const char *id,
							 struct cove_error *error);
// Sends no notices of it for so long; 0: ends the silence. `comment` may be NULL.
COVE_API COVE_MUST enum cove_kind cove_alert_silence(struct cove *cove, const char *id,
						     uint64_t seconds, const char *comment,
						     struct cove_error *error);
// Settings of a rule; NULL: unchanged. The rules are listed by cove_items() at "/v1/alerts/rules".
struct cove_alert_rule {
	const double *threshold;
	const uint64_t *for_seconds; // the condition must hold so long
	const bool *enabled;
};
COVE_API COVE_MUST enum cove_kind cove_alert_rule_set(struct cove *cove, const char *name,
						      const struct cove_alert_rule *rule,
						      struct cove_error *error);
// Sends a test notice to a sink of the configuration. COVE_NOT_FOUND; the failure of the delivery.
COVE_API COVE_MUST enum cove_kind cove_alert_test(struct cove *cove, const char *sink,
						  struct cove_error *error);

// A budget of a tenant, a label ("NAME=VALUE") or an agent session: one of the three, and one
// limit. Listed by cove_items() at "/v1/budgets", with what is used.
struct cove_budget_spec {
	const char *tenant, *label, *agent_session;
	bool daily; // else for each month
	double cost, cpu_seconds;
	uint64_t requests;
};
COVE_API COVE_MUST enum cove_kind cove_budget_set(struct cove *cove, const char *name,
						  const struct cove_budget_spec *spec,
						  struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_budget_remove(struct cove *cove, const char *name,
						     struct cove_error *error);

// A request whose body or reply is streamed: open, write any number of times, finish, read until
// *out_len is 0, free. `type` NULL: no body, nothing is written.
struct cove_request;
COVE_API COVE_MUST enum cove_kind cove_request_open(struct cove *cove, const char *method,
						    const char *path, const char *type,
						    struct cove_request **out,
						    struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_request_write(struct cove_request *request,
						     const void *bytes, size_t len,
						     struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_request_finish(struct cove_request *request,
						      struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_request_read(struct cove_request *request, void *room,
						    size_t size, size_t *out_len,
						    struct cove_error *error);
COVE_API void cove_request_free(struct cove_request *request);

// ------------------------------------------------------------------------------------ sandboxes

struct cove_box;

// Lists of strings end with NULL. 0 means the server's default.
struct cove_box_spec {
	const char *name;
	const char *from;	   // template
	const char *const *env;	   // "NAME=VALUE"
	const char *const *labels; // "NAME=VALUE"
	uint64_t memory_mb, pids, disk_mb, inodes, output_mb;
	double cpus;
	int64_t cpu_time_ms, wall_time_ms; // of every command in it
	const char *key;		   // Idempotency-Key: a repeated create gets the same box
	int64_t sleep_after_ms;		   // frozen after this idle time; 0: the daemon's default
	int64_t ttl_ms;			   // deleted after this time; 0: never
	bool keep_alive;		   // never frozen or stopped for idleness
	bool ephemeral;			   // keeps no files: it cannot be stopped, only deleted
	const char *network;		   // what it may reach: "off", "allow" or "all"
	const char *const *allow;	   // names: "pypi.org", "*.github.com", "db.test:5432"
	uint64_t kept_output_mb;	   // limit of kept output of all its commands together
	uint64_t io_mbps;		   // MiB per second, for reading and for writing its disk
	const char *user;		   // of its commands: "name", "uid", with ":group"
	const char *workdir;		   // their directory
	const char *const *secrets;	   // names of secrets of the tenant
	const char *image;		   // instead of `from`: pulled by name if need be
	const char *pull;		   // "missing" (NULL), "always" or "never"
	const char *const *volumes;	   // "NAME:PATH", "NAME:PATH:ro"
	const char *pool;	  // claim a member of it, with name, labels, TTL and network
				  // of this spec; NULL: none
	int64_t archive_after_ms; // archived so long after it was stopped; 0: never
	// Commands for bash. The first is run at each start of the sandbox, and the create answers
	// once the second ends with 0. NULL: the template's.
	const char *start, *ready;
};

struct cove_box_info {
	const char *id, *short_id;
	const char *name; // "" when it has none
	const char *from; // its template
	const char *state;
	const char *created_at; // ISO 8601, UTC
	const char *json;	// the server's whole answer
};

// Get or create by name.
COVE_API COVE_MUST enum cove_kind cove_box_ensure(struct cove *cove, const char *name,
						  const struct cove_box_spec *spec,
						  struct cove_box **out, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_box_create(struct cove *cove,
						  const struct cove_box_spec *spec,
						  struct cove_box **out, struct cove_error *error);
// An existing sandbox, by id, short id or name.
COVE_API COVE_MUST enum cove_kind cove_box_find(struct cove *cove, const char *key,
						struct cove_box **out, struct cove_error *error);
// The same without a request: whether it exists shows at the first use.
COVE_API struct cove_box *cove_box_at(struct cove *cove, const char *key);
// Requests the info again; the strings of the last answer become invalid.
COVE_API COVE_MUST enum cove_kind cove_box_info(struct cove_box *box, struct cove_box_info *out,
						struct cove_error *error);
COVE_API const char *cove_box_id(const struct cove_box *box);
// Deletes the sandbox; the handle still has to be freed.
COVE_API COVE_MUST enum cove_kind cove_box_delete(struct cove_box *box, struct cove_error *error);
// Also one whose changes were not brought back ('cove sync out'); the other is COVE_CONFLICT then.
COVE_API COVE_MUST enum cove_kind cove_box_delete_unsynced(struct cove_box *box,
							   struct cove_error *error);
COVE_API void cove_box_free(struct cove_box *box); // the handle only

// Freezes it until it is resumed; any other use is COVE_CONFLICT `paused`.
COVE_API COVE_MUST enum cove_kind cove_box_pause(struct cove_box *box, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_box_resume(struct cove_box *box, struct cove_error *error);
// Ends its processes and keeps its files; a start, or any use, continues from these.
COVE_API COVE_MUST enum cove_kind cove_box_stop(struct cove_box *box, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_box_start(struct cove_box *box, struct cove_error *error);

// Changes limits of a sandbox, at once, whether it runs or not: those of *limits that are not 0.
// Its other members are ignored. COVE_CONFLICT `below_use`, `running`: nothing was changed.
COVE_API COVE_MUST enum cove_kind cove_box_limit(struct cove_box *box,
						 const struct cove_box_spec *limits,
						 struct cove_error *error);

// The network policy, replaced as a whole: from the next connection on. A secret is the name of one
// of the tenant.
struct cove_network {
	const char *mode; // "off", "allow", "all"
	const char *const *allow, *const *inspect, *const *secrets;
};
COVE_API COVE_MUST enum cove_kind cove_box_network(struct cove_box *box,
						   const struct cove_network *network,
						   struct cove_error *error);

// Nonzero ends the listing with COVE_CANCELLED. May make other calls with the same client.
typedef int cove_box_fn(void *arg, const struct cove_box_info *info);
COVE_API COVE_MUST enum cove_kind cove_box_list(struct cove *cove, const char *const *labels,
						cove_box_fn *each, void *arg,
						struct cove_error *error);
// Packs the files of a stopped sandbox; the next use brings them back. Answers when it is done.
COVE_API COVE_MUST enum cove_kind cove_box_archive(struct cove_box *box, struct cove_error *error);
// Makes the template `name` of its files as they are now. A running sandbox runs on.
COVE_API COVE_MUST enum cove_kind cove_box_snapshot(struct cove_box *box, const char *name,
						    struct cove_error *error);
// Makes `count` sandboxes of its files as they are now, and calls `each` for those that were made.
// The error is that of the first one that was not.
COVE_API COVE_MUST enum cove_kind cove_box_fork(struct cove_box *box, unsigned int count,
						cove_box_fn *each, void *arg,
						struct cove_error *error);

// --------------------------------------------------------------------------------------- images

struct cove_pull_options {
	const char *image;    // "python:3.12", "registry.example.com/team/app@sha256:…"
	const char *name;     // of the template; NULL: python-3.12
	const char *platform; // "linux/arm64"; NULL: the host's
	// The registry's credential: either both or the token; NULL: none. It is not stored.
	const char *username, *password, *identity_token;
	bool cache; // the server may remove it when space is short
};

struct cove_pull_layer {
	const char *digest;
	const char *state; // "waiting", "present", "fetching", "fetched", "unpacking", "done"
	uint64_t bytes, total;
};

struct cove_pull_progress {
	const char *phase; // "queued", "resolve", "fetch", "unpack", "ended"
	uint64_t bytes, total;
	const struct cove_pull_layer *layers;
	size_t layer_count;
};

// Called at most five times a second. Nonzero cancels the pull: COVE_CANCELLED.
typedef int cove_pull_fn(void *arg, const struct cove_pull_progress *progress);
// Pulls an image as a template, and waits for its end; cove_cancel() cancels the pull, too. `each`
// may be NULL. *out_json is the template, as the server describes it; the caller frees it.
COVE_API COVE_MUST enum cove_kind cove_image_pull(struct cove *cove,
						  const struct cove_pull_options *options,
						  cove_pull_fn *each, void *arg, char **out_json,
						  struct cove_error *error);

// --------------------------------------------------------------------------------------- builds

struct cove_build_options {
	const char *name;	 // of the template; one that was built before is replaced
	const char *dockerfile;	 // its text
	const char *context;	 // of cove_build_context(); NULL: none
	const char *target;	 // build this stage; NULL: the last one
	const char *const *args; // build arguments, "NAME=VALUE"; NULL: none
	const char *network;	 // of its commands: "off", "allow" or "all"; NULL: the default
	bool pull;		 // ask the registry for images that are there
	bool no_cache;		 // run all steps
	bool keep_failed;	 // leave the sandbox of a step that failed
	// Of RUN --mount=type=secret: "ID=VALUE", NULL-ended; in no layer and no log. NULL: none
	const char *const *secrets;
	const char *start, *ready; // of sandboxes of the template, as in cove_box_spec
};

// A part of the log: UTF-8, not terminated. Nonzero cancels the build: COVE_CANCELLED.
typedef int cove_build_fn(void *arg, const char *text, size_t len);
// Builds a template, and waits for its end; cove_cancel() cancels the build, too. `each` may be
// NULL. *out_json is the template, as the server describes it; the caller frees it.
COVE_API COVE_MUST enum cove_kind cove_template_build(struct cove *cove,
						      const struct cove_build_options *options,
						      cove_build_fn *each, void *arg,
						      char **out_json, struct cove_error *error);
// Sends a tar, which is read from the begin of a regular file, as the context of builds, unless the
// server has it. The server keeps it for a day after its last use. The caller frees *out_digest.
COVE_API COVE_MUST enum cove_kind cove_build_context(struct cove *cove, int fd, char **out_digest,
						     struct cove_error *error);

// ------------------------------------------------------------------------------------- commands

struct cove_command {
	const char *line;	 // for bash, or
	const char *const *argv; // a program and its exact arguments
	const char *cwd;	 // NULL: /workspace
	const char *user;	 // name, uid or uid:gid; NULL: root of the sandbox
	const char *const *env;	 // "NAME=VALUE"
	const void *input;	 // for its standard input; NULL: none
	size_t input_len;
	int64_t timeout_ms, cpu_time_ms;
};

struct cove_result {
	int exit_code;	// 128 + N when signal N ended it
	int signal;	// 0: none
	char ended[24]; // "exited", "signaled", "oom", "cpu_limit", "wall_limit", "killed_by_api",
			// "box_lost"
	bool stdout_truncated, stderr_truncated; // a part of it is missing
	bool session_restarted;			 // the session's shell had to be replaced
	int64_t duration_ms, cpu_ms;
	uint64_t max_rss;
	uint64_t output_bytes,
		missed_bytes; // when truncated: written; of that not given, as far as known
};

// Receive output as it arrives; either may be NULL. Nonzero ends the call with COVE_CANCELLED. They
// run on the caller's stack and may make other calls.
typedef int cove_output_fn(void *arg, const void *bytes, size_t len);
struct cove_sink {
	cove_output_fn *on_stdout, *on_stderr;
	void *arg;
};

// Runs a command to its end. Its output is passed on completely, at the caller's pace: a command
// whose output is not read blocks. When the call is cancelled or times out, the command is killed
// too (INT, after 2 s TERM, after 5 s KILL), unless `detach`; if that fails the reason is
// "still_running". A lost connection does not kill it. A command that exceeded its own timeout has
// status 124 and ended as "wall_limit", in a session as without one; COVE_INVALID "no_cwd": `cwd`
// is not a directory.
struct cove_exec_options {
	struct cove_command command;
	struct cove_sink sink;
	bool detach;
	bool bare; // without the message that the server adds to stderr at a timeout
};
COVE_API COVE_MUST enum cove_kind cove_exec(struct cove_box *box,
					    const struct cove_exec_options *options,
					    struct cove_result *out, struct cove_error *error);

// The whole output, NUL-terminated; free it with cove_output_free().
struct cove_output {
	struct cove_result result;
	char *out, *err;
	size_t out_len, err_len;
};
COVE_API COVE_MUST enum cove_kind cove_exec_line(struct cove_box *box, const char *line,
						 struct cove_output *out, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_exec_output(struct cove_box *box,
						   const struct cove_command *command,
						   struct cove_output *out,
						   struct cove_error *error);
COVE_API void cove_output_free(struct cove_output *output);

// ------------------------------------------------------------------------------------- sessions

// A shell that keeps its state: directory, variables, functions. Its commands run one after
// another.
struct cove_session;

struct cove_session_options {
	const char *id;	 // NULL: one is made
	const char *cwd; // NULL: /workspace
	const char *const *env;
	int64_t timeout_ms; // of each of its commands; 0: none
};

COVE_API COVE_MUST enum cove_kind cove_session_create(struct cove_box *box,
						      const struct cove_session_options *options,
						      struct cove_session **out,
						      struct cove_error *error);
// An existing session, or one that is created by its first command.
COVE_API struct cove_session *cove_session_at(struct cove_box *box, const char *id);
COVE_API const char *cove_session_id(const struct cove_session *session);
// Only `line`, `cwd`, `env` and `timeout_ms` of a command are used here.
COVE_API COVE_MUST enum cove_kind cove_session_exec(struct cove_session *session,
						    const struct cove_command *command,
						    struct cove_output *out,
						    struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_session_delete(struct cove_session *session,
						      struct cove_error *error);
COVE_API void cove_session_free(struct cove_session *session); // the handle only

// ------------------------------------------------------------------------------------ processes

// A command that runs in the background. Its output is kept, so that it can be read from the start,
// and resumed after a lost connection without a gap.
struct cove_process;

struct cove_process_options {
	struct cove_command command; // `input` is not used
	const char *id;		     // NULL: one is made
	bool open_stdin;	     // to be written with cove_process_write()
	bool auto_cleanup;	     // delete its record when it has ended
};

struct cove_process_info {
	const char *id, *command;
	const char *status;		   // "running", "completed", "failed", "killed", "error"
	const char *start_time, *end_time; // ISO 8601, UTC; end_time "" while it runs
	int64_t pid;
	bool ended;
	int exit_code;	// once it has ended
	bool truncated; // some of its output was not kept
	uint64_t kept_bytes, output_bytes;
};

COVE_API COVE_MUST enum cove_kind cove_process_start(struct cove_box *box,
						     const struct cove_process_options *options,
						     struct cove_process **out,
						     struct cove_error *error);
COVE_API struct cove_process *cove_process_at(struct cove_box *box, const char *id);
COVE_API const char *cove_process_id(const struct cove_process *process);
COVE_API COVE_MUST enum cove_kind cove_process_info(struct cove_process *process,
						    struct cove_process_info *out,
						    struct cove_error *error);
COVE_API void cove_process_free(struct cove_process *process); // the handle only

typedef int cove_process_fn(void *arg, const struct cove_process_info *info);
COVE_API COVE_MUST enum cove_kind cove_process_list(struct cove_box *box, cove_process_fn *each,
						    void *arg, struct cove_error *error);

// To all its processes. cove_process_kill: TERM, after 5 s KILL, and returns when all have ended.
COVE_API COVE_MUST enum cove_kind cove_process_signal(struct cove_process *process, int signal,
						      struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_process_kill(struct cove_process *process,
						    struct cove_error *error);
// As Ctrl-C, but final: INT, after 2 s as cove_process_kill.
COVE_API COVE_MUST enum cove_kind cove_process_interrupt(struct cove_process *process,
							 struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_process_kill_all(struct cove_box *box, uint64_t *out_count,
							struct cove_error *error);

COVE_API COVE_MUST enum cove_kind cove_process_write(struct cove_process *process,
						     const void *bytes, size_t len,
						     struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_process_close_stdin(struct cove_process *process,
							   struct cove_error *error);

// A piece of output. `bytes` lives until the next call.
struct cove_piece {
	bool is_stderr;
	bool ended; // no piece: the process has ended; cove_process_wait() returns how, at once
	const void *bytes;
	size_t len;
};
// The next piece of its output, from the start on. `timeout_ms`: how long to wait, 0 not at all, -1
// without limit; COVE_TIMEOUT then, and the next call goes on. Lost connections are reopened.
COVE_API COVE_MUST enum cove_kind cove_process_next(struct cove_process *process,
						    int64_t timeout_ms, struct cove_piece *out,
						    struct cove_error *error);
// To be polled for reading; read with a timeout of 0 until COVE_TIMEOUT before each poll. -1: not
// connected.
COVE_API int cove_process_fd(const struct cove_process *process);
// Its output so far, or with `follow` until its end.
COVE_API COVE_MUST enum cove_kind cove_process_logs(struct cove_process *process, bool follow,
						    const struct cove_sink *sink,
						    struct cove_error *error);
// Waits for its end without reading its output.
COVE_API COVE_MUST enum cove_kind cove_process_wait(struct cove_process *process,
						    int64_t timeout_ms, struct cove_result *out,
						    struct cove_error *error);
// Waits until a line of its output matches the extended regular expression; *out_line, if
// requested, is freed by the caller. COVE_GONE when it ends first.
COVE_API COVE_MUST enum cove_kind cove_process_wait_log(struct cove_process *process,
							const char *pattern, int64_t timeout_ms,
							char **out_line, struct cove_error *error);

// ---------------------------------------------------------------------------------------- ports

struct cove_port_wait {
	uint16_t port;
	const char *path;	    // request this path by HTTP; NULL: a connection suffices
	int status_min, status_max; // 0: 200 and 399
	int64_t timeout_ms;	    // -1: none
};
// Waits until a port inside the sandbox answers. `process` may be NULL; COVE_GONE when it ends
// first.
COVE_API COVE_MUST enum cove_kind cove_port_ready(struct cove_box *box,
						  const struct cove_port_wait *wait,
						  const struct cove_process *process,
						  struct cove_error *error);

// Previews: an exposed port has an address with a token, for everybody who has the address.
struct cove_port_info {
	uint16_t port;
	bool exposed, listening;
	const char *name, *url, *token; // "" without
	const char *expires_at;		// ISO 8601, UTC; "": never
};
typedef int cove_port_fn(void *arg, const struct cove_port_info *info);
struct cove_port_options {
	const char *name, *token; // token NULL: random
	int64_t expires_ms;	  // 0: never
};
// *out_url, if requested, is the address, freed by the caller. `options` may be NULL.
COVE_API COVE_MUST enum cove_kind cove_port_expose(struct cove_box *box, uint16_t port,
						   const struct cove_port_options *options,
						   char **out_url, struct cove_error *error);
// Ports that are exposed or have a listener.
COVE_API COVE_MUST enum cove_kind cove_port_list(struct cove_box *box, cove_port_fn *each,
						 void *arg, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_port_unexpose(struct cove_box *box, uint16_t port,
						     struct cove_error *error);

// ---------------------------------------------------------------------------------------- files

// Paths are those of the sandbox; relative ones start at its directory (workdir, else /workspace).
// A file stream:
struct cove_file;

// From `offset` on.
COVE_API COVE_MUST enum cove_kind cove_file_open(struct cove_box *box, const char *path,
						 uint64_t offset, struct cove_file **out,
						 struct cove_error *error);
// A new file, or new content: the old file stays until cove_file_commit(). Missing directories are
// made. `mode` 0: unchanged, else 0644.
COVE_API COVE_MUST enum cove_kind cove_file_create(struct cove_box *box, const char *path,
						   unsigned mode, struct cove_file **out,
						   struct cove_error *error);
// A directory's tree as a tar stream; and one to be unpacked into a directory.
COVE_API COVE_MUST enum cove_kind cove_tree_get(struct cove_box *box, const char *path,
						struct cove_file **out, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_tree_put(struct cove_box *box, const char *path,
						struct cove_file **out, struct cove_error *error);
COVE_API uint64_t cove_file_size(const struct cove_file *file); // when opened; UINT64_MAX: unknown
// *out_len 0: the end.
COVE_API COVE_MUST enum cove_kind cove_file_read(struct cove_file *file, void *room, size_t size,
						 size_t *out_len, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_file_write(struct cove_file *file, const void *bytes,
						  size_t len, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_file_commit(struct cove_file *file,
						   struct cove_error *error);
COVE_API void cove_file_free(struct cove_file *file); // without a commit: the old file stays

// Whole files. *out is NUL-terminated and freed with cove_free().
COVE_API COVE_MUST enum cove_kind cove_read_file(struct cove_box *box, const char *path, char **out,
						 size_t *out_len, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_write_file(struct cove_box *box, const char *path,
						  const void *bytes, size_t len,
						  struct cove_error *error);

struct cove_entry {
	const char *name, *path; // its own name; the absolute path
	const char *relative;	 // relative to the listed directory
	const char *type;	 // "file", "directory", "symlink", "other"
	const char *mode;	 // "rwxr-x---"
	const char *modified_at; // ISO 8601, UTC
	const char *target;	 // of a symlink, if known; ""
	uint64_t size;
};
typedef int cove_entry_fn(void *arg, const struct cove_entry *entry);
COVE_API COVE_MUST enum cove_kind cove_list(struct cove_box *box, const char *path, bool recursive,
					    bool hidden, cove_entry_fn *each, void *arg,
					    struct cove_error *error);
// `each` is called once.
COVE_API COVE_MUST enum cove_kind cove_stat(struct cove_box *box, const char *path,
					    cove_entry_fn *each, void *arg,
					    struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_exists(struct cove_box *box, const char *path, bool *out,
					      struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_mkdir(struct cove_box *box, const char *path, bool parents,
					     struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_remove(struct cove_box *box, const char *path,
					      bool recursive, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_rename(struct cove_box *box, const char *from,
					      const char *to, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_chmod(struct cove_box *box, const char *path, unsigned mode,
					     struct cove_error *error);

// ---------------------------------------------------------------------------------------- watch

struct cove_watch;

struct cove_watch_options {
	const char *path;	    // a directory or file beneath /workspace
	bool shallow;		    // without subdirectories
	const char *const *include; // patterns; or
	const char *const *exclude;
};
struct cove_watch_event {
	const char *type; // "create", "modify", "delete", "move_from", "move_to"
	const char *path;
	bool is_directory;
};
// Returns when the watch is set up: every later change is reported.
COVE_API COVE_MUST enum cove_kind cove_watch_open(struct cove_box *box,
						  const struct cove_watch_options *options,
						  struct cove_watch **out,
						  struct cove_error *error);
// `timeout_ms` as with cove_process_next(). The strings live until the next call. COVE_GONE: the
// watch was stopped.
COVE_API COVE_MUST enum cove_kind cove_watch_next(struct cove_watch *watch, int64_t timeout_ms,
						  struct cove_watch_event *out,
						  struct cove_error *error);
COVE_API int cove_watch_fd(const struct cove_watch *watch); // as cove_process_fd()
COVE_API void cove_watch_close(struct cove_watch *watch);

// ------------------------------------------------------------------------------------- terminal

// A shell or a command on a terminal of the sandbox. It outlives its connection: on reattach, its
// last output is shown again.
struct cove_terminal;

struct cove_terminal_options {
	const char *id;		 // NULL: generated; the id of a running terminal attaches to it
	bool existing;		 // only attach: COVE_NOT_FOUND when no terminal has this id
	const char *const *argv; // its program; NULL: bash
	const char *session;	 // the terminal of a session instead, with its state; no id
	const char *
		agent_session; // one of /v1/agent-sessions that lives in this sandbox: its terminal
	uint16_t cols, rows;   // 0: 80, 24
	const char *cwd, *user;
	const char *const *env;
};
COVE_API COVE_MUST enum cove_kind cove_terminal_open(struct cove_box *box,
						     const struct cove_terminal_options *options,
						     struct cove_terminal **out,
						     struct cove_error *error);
COVE_API const char *cove_terminal_id(const struct cove_terminal *terminal);

struct cove_terminal_info {
	const char *id, *command;
	const char *started_at; // ISO 8601, UTC
	bool ended;
	int64_t pid;
	unsigned attached; // number of attached clients
};
typedef int cove_terminal_fn(void *arg, const struct cove_terminal_info *info);
// In the order of creation.
COVE_API COVE_MUST enum cove_kind cove_terminal_list(struct cove_box *box, cove_terminal_fn *each,
						     void *arg, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_terminal_write(struct cove_terminal *terminal,
						      const void *bytes, size_t len,
						      struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_terminal_resize(struct cove_terminal *terminal,
						       uint16_t cols, uint16_t rows,
						       struct cove_error *error);
// Its output; *out_len 0: its program has ended, with this code. `timeout_ms` as with
// cove_process_next(). COVE_BROKEN: the connection was lost, cove_terminal_reattach() opens a new
// one.
COVE_API COVE_MUST enum cove_kind cove_terminal_read(struct cove_terminal *terminal, void *room,
						     size_t size, int64_t timeout_ms,
						     size_t *out_len, struct cove_error *error);
COVE_API bool cove_terminal_ended(const struct cove_terminal *terminal, int *out_exit_code);
COVE_API COVE_MUST enum cove_kind cove_terminal_reattach(struct cove_terminal *terminal,
							 struct cove_error *error);
// What a terminal has shown so far, as a recording, asciicast v2.
COVE_API COVE_MUST enum cove_kind cove_terminal_cast(struct cove_box *box, const char *id,
						     struct cove_file **out,
						     struct cove_error *error);
COVE_API int cove_terminal_fd(const struct cove_terminal *terminal); // as cove_process_fd()
COVE_API void cove_terminal_close(struct cove_terminal *terminal);   // the program runs on

// --------------------------------------------------------------------------------------- code

// Cells of code by an interpreter that keeps its state.
struct cove_code {
	const char *code, *language; // NULL: "python"
	const char *context;	     // NULL: the default one of the language
	int64_t timeout_ms;
};
// Each event is JSON: {"type": "stdout", "text": ...}, "stderr", "result" with one representation
// ("text", "html", "png", ...), and last "execution_complete" or "error". `failed`: the cell raised
// an error.
COVE_API COVE_MUST enum cove_kind cove_code_run(struct cove_box *box, const struct cove_code *code,
						cove_item_fn *each, void *arg, bool *out_failed,
						struct cove_error *error);
// A new context; its id is freed by the caller.
COVE_API COVE_MUST enum cove_kind cove_code_context(struct cove_box *box, const char *language,
						    const char *cwd, const char *const *env,
						    char **out_id, struct cove_error *error);
// Interrupts its cell; its state is kept.
COVE_API COVE_MUST enum cove_kind cove_code_interrupt(struct cove_box *box, const char *context,
						      struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_code_delete(struct cove_box *box, const char *context,
						   struct cove_error *error);

// ---------------------------------------------------------------------------------------- git

struct cove_git_clone {
	const char *url, *branch, *directory; // NULL: the default branch; /workspace/NAME
	unsigned depth;			      // 0: everything
	int64_t timeout_ms;
};
COVE_API COVE_MUST enum cove_kind cove_git_clone(struct cove_box *box,
						 const struct cove_git_clone *clone,
						 struct cove_error *error);

// --------------------------------------------------------------------------------- executions

// A task for an agent: provisioned, limited, logged and cleaned up by the server.
struct cove_execution;

struct cove_execution_file {
	const char *path;
	const void *bytes;
	size_t len;
	unsigned mode; // 0: 0644
};

// One of agent_type, profile, line and argv suffices. 0 means the profile's value.
struct cove_execution_spec {
	const char *task_id;
	const char *agent_type; // "VALIDATION"; or
	const char *profile;
	const char *line;	 // for bash, or
	const char *const *argv; // a program and its exact arguments
	const char *const *env;	 // "NAME=VALUE"
	const char *cwd;
	const char *input; // text for its standard input; NULL: none
	size_t input_len;
	const char *context; // JSON, for the file $COVE_CONTEXT
	const struct cove_execution_file *files;
	size_t file_count;
	const char *const *artifacts; // globs
	bool artifacts_required;
	uint64_t artifacts_mb;
	const char *network; // "off", "allow" or "all"
	const char *const *allow, *const *secrets;
	uint64_t memory_mb, storage_mb, network_requests, pids; // of the whole execution
	double cpus;
	int64_t cpu_time_ms, wall_time_ms;
	const char *from;  // template
	const char *image; // instead of `from`: pulled by name if need be
	const char *const *labels;
	bool no_queue; // COVE_EXHAUSTED instead of waiting
	int64_t queue_timeout_ms;
	const char *retry;	    // "infra", "notStarted", "never"
	const char *key;	    // Idempotency-Key
	const char *pull;	    // of the image: "missing", "always", "never"
	const char *const *volumes; // "NAME:PATH", "NAME:PATH:ro"
};

struct cove_execution_info {
	const char *id, *task_id, *state, *outcome, *reason, *sandbox; // "" without
	bool ended;						       // state completed or failed
	int exit_code; // of the command, once it has ended
	const char *json;
};

// Without a command, and a profile without one, it is provisioned and stays "ready" for
// cove_execution_exec(), _complete() and _fail().
COVE_API COVE_MUST enum cove_kind cove_execution_submit(struct cove *cove,
							const struct cove_execution_spec *spec,
							struct cove_execution **out,
							struct cove_error *error);
COVE_API struct cove_execution *cove_execution_at(struct cove *cove, const char *id);
COVE_API const char *cove_execution_id(const struct cove_execution *execution);
COVE_API void cove_execution_free(struct cove_execution *execution); // the handle only
COVE_API COVE_MUST enum cove_kind cove_execution_info(struct cove_execution *execution,
						      struct cove_execution_info *out,
						      struct cove_error *error);
// Waits until it is "ready", "running" or "done" (or ends); `timeout_ms` -1: without limit.
// COVE_TIMEOUT. `out` may be NULL.
COVE_API COVE_MUST enum cove_kind cove_execution_wait(struct cove_execution *execution,
						      const char *what, int64_t timeout_ms,
						      struct cove_execution_info *out,
						      struct cove_error *error);
// Output of an attempt of its command (0: the last) so far, or with `follow` until the end of the
// execution. Lost connections are reopened.
COVE_API COVE_MUST enum cove_kind cove_execution_logs(struct cove_execution *execution, int attempt,
						      bool follow, const struct cove_sink *sink,
						      struct cove_error *error);
// An artifact as a file stream, from `offset` on; NULL: all of them as a tar stream.
COVE_API COVE_MUST enum cove_kind cove_execution_artifact(struct cove_execution *execution,
							  const char *path, uint64_t offset,
							  struct cove_file **out,
							  struct cove_error *error);
// {"path": ..., "size": ..., "mode": ..., "sha256": ...}
COVE_API COVE_MUST enum cove_kind cove_execution_artifacts(struct cove_execution *execution,
							   cove_item_fn *each, void *arg,
							   struct cove_error *error);
// A command in an execution that is ready.
COVE_API COVE_MUST enum cove_kind cove_execution_exec(struct cove_execution *execution,
						      const struct cove_command *command,
						      struct cove_output *out,
						      struct cove_error *error);
// Ends it: with a result, as JSON (NULL: none), or a reason.
COVE_API COVE_MUST enum cove_kind cove_execution_complete(struct cove_execution *execution,
							  const char *result,
							  struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_execution_fail(struct cove_execution *execution,
						      const char *reason, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_execution_cancel(struct cove_execution *execution,
							struct cove_error *error);
// The same again in a fresh sandbox, as a new execution.
COVE_API COVE_MUST enum cove_kind cove_execution_retry(struct cove_execution *execution,
						       struct cove_execution **out,
						       struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_execution_replay(struct cove_execution *execution,
							struct cove_execution **out,
							struct cove_error *error);
// Limits that past executions of its profile suggest, as JSON; freed by the caller.
COVE_API COVE_MUST enum cove_kind cove_execution_suggestion(struct cove_execution *execution,
							    char **out_json,
							    struct cove_error *error);
// Its output as a recording, asciicast v2; of a terminal: cove_terminal_cast().
COVE_API COVE_MUST enum cove_kind cove_execution_cast(struct cove_execution *execution,
						      struct cove_file **out,
						      struct cove_error *error);
// The differences of their outcomes, as JSON; freed by the caller.
COVE_API COVE_MUST enum cove_kind cove_execution_diff(struct cove_execution *execution,
						      const char *with, char **out_json,
						      struct cove_error *error);
// Removes record, logs and artifacts; COVE_CONFLICT while it runs.
COVE_API COVE_MUST enum cove_kind cove_execution_delete(struct cove_execution *execution,
							struct cove_error *error);

// ------------------------------------------------------------------------------- agent sessions

// The long-lived owner of runs: a runner in a sandbox takes one run after another.
struct cove_agent;

struct cove_agent_spec {
	const char *org, *user, *bot;
	const char *id;		    // NULL: a new one
	const char *const *aliases; // one that exists resumes its session
	bool isolated;
	const char *const *argv, *const *env; // of the runner
	const char *from, *profile;	      // template
	const char *image;		      // instead of `from`: pulled by name if need be
	const char *network;		      // "off", "allow" or "all"
	const char *const *allow, *const *secrets;
	const struct cove_execution_file *files;
	size_t file_count;
	const char *const *volumes; // "NAME:PATH", "NAME:PATH:ro"
};
COVE_API COVE_MUST enum cove_kind cove_agent_create(struct cove *cove,
						    const struct cove_agent_spec *spec,
						    struct cove_agent **out,
						    struct cove_error *error);
COVE_API struct cove_agent *cove_agent_at(struct cove *cove, const char *id);
COVE_API const char *cove_agent_id(const struct cove_agent *agent);
COVE_API void cove_agent_free(struct cove_agent *agent); // the handle only
// Everything about it, or about one of its runs, as JSON; freed by the caller.
COVE_API COVE_MUST enum cove_kind cove_agent_info(struct cove_agent *agent, const char *run,
						  char **out_json, struct cove_error *error);
// Queues a run. `input`: JSON, NULL: none. Its id is freed by the caller.
COVE_API COVE_MUST enum cove_kind cove_agent_run(struct cove_agent *agent, const char *input,
						 int64_t timeout_ms, char **out_run,
						 struct cove_error *error);
// Events of a run to its end: "state", "step", "output", "question", and last "end". As
// cove_events_open().
COVE_API COVE_MUST enum cove_kind cove_agent_events(struct cove_agent *agent, const char *run,
						    const char *after, struct cove_events **out,
						    struct cove_error *error);
// `question` NULL: the one that waits. `answer` is JSON.
COVE_API COVE_MUST enum cove_kind cove_agent_answer(struct cove_agent *agent, const char *question,
						    const char *answer, struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_agent_interrupt(struct cove_agent *agent,
						       struct cove_error *error);
// The last output of its runner; freed by the caller.
COVE_API COVE_MUST enum cove_kind cove_agent_logs(struct cove_agent *agent, char **out_log,
						  struct cove_error *error);
COVE_API COVE_MUST enum cove_kind cove_agent_delete(struct cove_agent *agent,
						    struct cove_error *error);

#ifdef __cplusplus
}
#endif
#endif
