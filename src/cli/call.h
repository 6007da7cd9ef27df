// One invocation: its verb, options and words. The grammar is the table in cli.c; this parses by
// it. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

// Every verb with its function, in the order of the help.
// clang-format off
#define VERBS(V) \
	V(RUN, run_run) \
	V(CREATE, boxes_create) \
	V(EXEC, run_exec) \
	V(SHELL, run_shell) \
	V(ATTACH, run_attach) \
	V(LOGS, jobs_logs) \
	V(KILL, jobs_kill) \
	V(PYTHON, code_python) \
	V(JS, code_js) \
	V(RUN_CODE, code_run) \
	V(CP, files_cp) \
	V(LS, files_ls) \
	V(CAT, files_cat) \
	V(SYNC_IN, cli_sync_in) \
	V(SYNC_OUT, cli_sync_out) \
	V(SYNC_STATUS, cli_sync_status) \
	V(SYNC_GC, cli_sync_gc) \
	V(AGENT_RUN, cli_agent_run) \
	V(AGENT_RECONNECT, cli_agent_reconnect) \
	V(AGENT_STATUS, cli_agent_status) \
	V(AGENT_STOP, cli_agent_stop) \
	V(AGENT_LIST, cli_agent_list) \
	V(AGENT_SERVE, cli_agent_serve) \
	V(PS, boxes_ps) \
	V(INSPECT, boxes_inspect) \
	V(TOP, stats_top) \
	V(STATS, stats_show) \
	V(USAGE, stats_usage) \
	V(RM, boxes_rm) \
	V(PAUSE, boxes_change) \
	V(RESUME, boxes_change) \
	V(ROTATE_TOKEN, boxes_rotate) \
	V(STOP, boxes_change) \
	V(START, boxes_change) \
	V(ARCHIVE, boxes_change) \
	V(UPDATE, boxes_update) \
	V(SNAPSHOT, snapshot_make) \
	V(FORK, snapshot_fork) \
	V(PORT, ports_list) \
	V(EXPOSE, ports_expose) \
	V(UNEXPOSE, ports_unexpose) \
	V(OPEN, ports_open) \
	V(FORWARD, forward_run) \
	V(POLICY, cli_policy) \
	V(EGRESS, cli_egress) \
	V(SECRET_SET, secrets_set) \
	V(SECRET_LS, secrets_ls) \
	V(SECRET_INSPECT, secrets_inspect) \
	V(SECRET_RM, secrets_rm) \
	V(TEMPLATE_LS, cli_template_ls) \
	V(TEMPLATE_PULL, image_pull) \
	V(TEMPLATE_BUILD, cli_build) \
	V(TEMPLATE_IMPORT, cli_template_import) \
	V(TEMPLATE_EXPORT, cli_template_export) \
	V(TEMPLATE_FREEZE, cli_template_freeze) \
	V(TEMPLATE_RM, cli_template_rm) \
	V(TEMPLATE_PRUNE, image_prune) \
	V(POOL_SET, cli_pool_set) \
	V(POOL_LS, cli_pool_ls) \
	V(POOL_INSPECT, cli_pool_inspect) \
	V(POOL_RM, cli_pool_rm) \
	V(VOLUME_CREATE, cli_volume_create) \
	V(VOLUME_LS, cli_volume_ls) \
	V(VOLUME_INSPECT, cli_volume_inspect) \
	V(VOLUME_RM, cli_volume_rm) \
	V(REGISTRY_LOGIN, cli_registry_login) \
	V(REGISTRY_LS, cli_registry_ls) \
	V(REGISTRY_LOGOUT, cli_registry_logout) \
	V(KEY_CREATE, keys_create) \
	V(KEY_LS, keys_ls) \
	V(KEY_RM, keys_rm) \
	V(TENANT_SET, keys_tenant_set) \
	V(TENANT_LS, keys_tenant_ls) \
	V(TENANT_RM, keys_tenant_rm) \
	V(BUDGET_SET, cli_budget_set) \
	V(BUDGET_LS, cli_budget_ls) \
	V(BUDGET_INSPECT, cli_budget_inspect) \
	V(BUDGET_RM, cli_budget_rm) \
	V(SESSION_CREATE, cli_session_create) \
	V(SESSION_LS, cli_session_ls) \
	V(SESSION_INSPECT, cli_session_inspect) \
	V(SESSION_RUN, cli_session_run) \
	V(SESSION_RUNS, cli_session_runs) \
	V(SESSION_EVENTS, cli_session_events) \
	V(SESSION_ANSWER, cli_session_answer) \
	V(SESSION_INTERRUPT, cli_session_interrupt) \
	V(SESSION_LOGS, cli_session_logs) \
	V(SESSION_ATTACH, cli_session_attach) \
	V(SESSION_RM, cli_session_rm) \
	V(SUBMIT, cli_submit) \
	V(EXECUTIONS_LS, cli_executions_ls) \
	V(EXECUTIONS_INSPECT, cli_executions_inspect) \
	V(EXECUTIONS_LOGS, cli_executions_logs) \
	V(EXECUTIONS_WAIT, cli_executions_wait) \
	V(EXECUTIONS_EXEC, cli_executions_exec) \
	V(EXECUTIONS_COMPLETE, cli_executions_complete) \
	V(EXECUTIONS_FAIL, cli_executions_fail) \
	V(EXECUTIONS_CANCEL, cli_executions_cancel) \
	V(EXECUTIONS_RETRY, cli_executions_again) \
	V(EXECUTIONS_REPLAY, cli_executions_again) \
	V(EXECUTIONS_DIFF, cli_executions_diff) \
	V(EXECUTIONS_ARTIFACTS, cli_executions_artifacts) \
	V(EXECUTIONS_RM, cli_executions_rm) \
	V(PLAY, play_run) \
	V(LOGIN, login_run) \
	V(CONTEXT_LS, context_ls) \
	V(CONTEXT_USE, context_use) \
	V(CONTEXT_RM, context_rm) \
	V(DASHBOARD, cli_dashboard) \
	V(CLEANUP, boxes_cleanup) \
	V(ALERTS_LS, cli_alerts_ls) \
	V(ALERTS_ACK, cli_alerts_ack) \
	V(ALERTS_SILENCE, cli_alerts_silence) \
	V(ALERTS_RULES, cli_alerts_rules) \
	V(ALERTS_TEST, cli_alerts_test) \
	V(EVENTS, events_show) \
	V(AUDIT, events_audit) \
	V(VERIFY, events_verify) \
	V(SERVE, cli_serve) \
	V(DRAIN, host_drain) \
	V(RELOAD, host_reload) \
	V(UPGRADE, host_upgrade) \
	V(DOCTOR, doctor_look) \
	V(COMPLETION, cli_complete) \
	V(VERSION, cli_version) \
	V(HELP, cli_help) \
	V(WORDS, names_print)
// clang-format on

enum verb_id {
#define V(id, run) VERB_##id,
	VERBS(V)
#undef V
		VERB_COUNT
};

enum opt {
	OPT_AFTER,
	OPT_AGENT,
	OPT_ALIAS,
	OPT_ALLOW_LOCAL,
	OPT_ALL,
	OPT_ALLOW,
	OPT_ARTIFACT,
	OPT_ATTEMPT,
	OPT_BOT,
	OPT_BOXES,
	OPT_BROWSE,
	OPT_BUDGET,
	OPT_BUILD_ARG,
	OPT_BY,
	OPT_CHECK,
	OPT_COMMENT,
	OPT_CONFIG,
	OPT_CONTEXT,
	OPT_COST,
	OPT_COUNT,
	OPT_COMPRESSION,
	OPT_CPUS,
	OPT_CPU_TIME,
	OPT_DATA,
	OPT_DEFAULT_TEMPLATE,
	OPT_DENIED,
	OPT_DENY,
	OPT_DETACH,
	OPT_DISK,
	OPT_ENV,
	OPT_EVERY,
	OPT_ENV_FILE,
	OPT_EXECS,
	OPT_EXPIRES,
	OPT_FILE,
	OPT_FILTER,
	OPT_FOLLOW,
	OPT_FOR,
	OPT_FORCE,
	OPT_FORMAT,
	OPT_FULL,
	OPT_FROM,
	OPT_HEADER,
	OPT_HELP,
	OPT_HOST,
	OPT_ID,
	OPT_IMAGE,
	OPT_IDLE,
	OPT_INODES,
	OPT_INSPECT,
	OPT_IO,
	OPT_INTERACTIVE,
	OPT_ISOLATED,
	OPT_JSON,
	OPT_KEEP,
	OPT_KEEP_ALIVE,
	OPT_KEEP_FAILED,
	OPT_NO_CACHE,
	OPT_KEPT_OUTPUT,
	OPT_KIND,
	OPT_LABEL,
	OPT_LANGUAGE,
	OPT_LISTEN,
	OPT_LONG,
	OPT_MAN,
	OPT_MAX_FILE,
	OPT_MAX_FILES,
	OPT_MEMORY,
	OPT_MODEL,
	OPT_NAME,
	OPT_NETWORK,
	OPT_NO_SYNC,
	OPT_OFF,
	OPT_OFFSET,
	OPT_ON,
	OPT_ORG,
	OPT_OURS,
	OPT_OUTPUT,
	OPT_PERIOD,
	OPT_PIDS,
	OPT_PLATFORM,
	OPT_POOL,
	OPT_PRINT_PLAN,
	OPT_PREVIEW,
	OPT_PROVIDER,
	OPT_PULL,
	OPT_PROFILE,
	OPT_QUERY,
	OPT_QUESTION,
	OPT_QUEUE,
	OPT_QUEUE_TIMEOUT,
	OPT_QUIET,
	OPT_READ_ONLY,
	OPT_RECURSIVE,
	OPT_REQUESTS,
	OPT_REQUIRED,
	OPT_RETRY,
	OPT_RM,
	OPT_ROOT,
	OPT_RULE,
	OPT_SANDBOX,
	OPT_SCOPE,
	OPT_SECRET,
	OPT_SESSION,
	OPT_SETTING, // of serve, which parses it itself
	OPT_SETUP,
	OPT_SHARED,
	OPT_SHELL,
	OPT_SIGNAL,
	OPT_SINCE,
	OPT_SIZE,
	OPT_SLEEP_AFTER,
	OPT_SNAPSHOT,
	OPT_ARCHIVE_AFTER,
	OPT_SPEED,
	OPT_SQUASH,
	OPT_STATE,
	OPT_STREAM,
	OPT_SUGGESTED,
	OPT_SYNC,
	OPT_TAIL,
	OPT_TARGET,
	OPT_TASK,
	OPT_TEMPLATE,
	OPT_TENANT,
	OPT_THEIRS,
	OPT_THRESHOLD,
	OPT_TIMEOUT,
	OPT_TIMESTAMPS,
	OPT_TO,
	OPT_TOKEN,
	OPT_TTL,
	OPT_TTY,
	OPT_TYPE,
	OPT_TYPESCRIPT,
	OPT_UNUSED,
	OPT_CACHE,
	OPT_URL,
	OPT_USER,
	OPT_START,
	OPT_READY,
	OPT_VOLUME,
	OPT_WAIT,
	OPT_WORKDIR,
	OPT_WORKTREE,
	OPT_YES,
};

enum verb_flags {
	VERB_HIDDEN = 1, // not in help, man page or completion
	VERB_STOPS = 2,	 // options end at the first word: the rest is the command
	VERB_RUNNER = 8, // the exit status is the command's; failures of cove are 125
};

struct verb {
	enum verb_id id;
	unsigned flags;
	const char *name;  // "run", "template import"
	const char *words; // "BOX [--] COMMAND [ARG...]"
	const char *brief; // one line
	const char *story; // paragraphs, each ended by a newline; NULL: none
	int min, max;	   // how many words; max -1: any number
};

#define ON_ID(id) ((unsigned __int128)1 << (id))
#define ON(verb) ON_ID(VERB_##verb)
_Static_assert(VERB_COUNT <= 128, "a verb is a bit of a word");

struct option {
	enum opt opt;
	char letter;	  // 0: none
	const char *name; // "memory"
	const char *arg;  // "SIZE"; NULL: a flag
	const char *help;
	unsigned __int128 verbs; // ON(RUN) | ON(CREATE)
};

// Further sections of the manual: environment, files, exit statuses, examples.
struct remark {
	const char *section, *term, *text;
};

// Another name for a verb, as in other tools; not in help or completion.
struct alias {
	const char *word, *verb;
};

// An option of other tools that cove lacks, and the one to use instead.
struct stranger {
	const char *option; // "-p"
	const char *hint;
};

// A heading of the overview, before this verb.
struct heading {
	enum verb_id from;
	const char *title;
};

struct grammar {
	const struct verb *verbs; // each ended by a row without a name
	const struct option *options;
	const struct remark *remarks;
	const struct alias *aliases; // NULL: none, as below
	const struct stranger *strangers;
	const struct heading *headings;
};

struct given {
	enum opt opt;
	const char *value; // NULL for a flag
};

struct call {
	const struct grammar *grammar;
	const struct verb *verb; // NULL: none given
	struct given *given;	 // in the order of the command line
	size_t given_count;
	char **words; // borrowed from argv
	int word_count;
	int exit; // of a verb that passes on the command's status
};

typedef fallible verb_fn(struct call *call);
#define V(id, run) verb_fn run;
VERBS(V)
#undef V

// `argv` without the program's name. INVALID unknown_verb, unknown_option, no_value, bad_words,
// each with a hint. On failure too call->verb is set once it is known. call_done() in every case.
fallible call_read(struct call *call, const struct grammar *grammar, int argc, char **argv);
void call_done(struct call *call);

bool call_has(const struct call *call, enum opt opt);
const char *call_value(const struct call *call, enum opt opt); // the last one; NULL: not given
// Steps through the values of a repeated option: start with *at = 0.
bool call_next(const struct call *call, enum opt opt, size_t *at, const char **out);

// The verb that the words name, "template import" or "run", or an alias of one; *out_used is how
// many words that took. NULL: none; a group's bare name ("template") is none too.
const struct verb *call_verb(const struct grammar *grammar, int argc, char **argv, int *out_used);
bool call_takes(const struct verb *verb, const struct option *option);
// How many letters must change to turn one word into the other.
size_t call_distance(const char *a, const char *b);

// options.c: the options of all verbs, in alphabetical order. cli.c adds those of serve.
extern const struct option cli_options[]; // ended by a row without a name

struct option_field {
	const char *field; // "limits.memoryMB"
	enum opt opt;
	const char *unit; // of the numbers in a message about it; NULL: none
};
extern const struct option_field cli_fields[]; // ended by a row without a field

// help.c: help texts and man page from the table of verbs. Knows no verb by name.
void help_overview(const struct grammar *grammar, struct buf *out);
void help_group(const struct grammar *grammar, const char *group, struct buf *out); // "template"
void help_verb(const struct grammar *grammar, const struct verb *verb, struct buf *out);
void help_man(const struct grammar *grammar, struct buf *out); // roff, section 1

// complete.c: a completion script for "bash", "zsh" or "fish", from the table of verbs. Names of
// sandboxes and templates come from the hidden verb `cove words`. INVALID unknown_shell.
fallible complete_script(const struct grammar *grammar, const char *shell, struct buf *out);
