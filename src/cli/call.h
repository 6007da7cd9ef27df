// One invocation: its verb, options and words. The grammar is the table in cli.c; this parses by
// it. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum verb_id {
	VERB_RUN,
	VERB_CREATE,
	VERB_EXEC,
	VERB_SHELL,
	VERB_ATTACH,
	VERB_LOGS,
	VERB_KILL,
	VERB_PYTHON,
	VERB_JS,
	VERB_RUN_CODE,
	VERB_CP,
	VERB_LS,
	VERB_CAT,
	VERB_PS,
	VERB_INSPECT,
	VERB_RM,
	VERB_PAUSE,
	VERB_ROTATE_TOKEN,
	VERB_RESUME,
	VERB_STOP,
	VERB_START,
	VERB_PORT,
	VERB_EXPOSE,
	VERB_UNEXPOSE,
	VERB_OPEN,
	VERB_FORWARD,
	VERB_POLICY,
	VERB_EGRESS,
	VERB_TEMPLATE_LS,
	VERB_TEMPLATE_IMPORT,
	VERB_TEMPLATE_FREEZE,
	VERB_TEMPLATE_RM,
	VERB_KEY_CREATE,
	VERB_KEY_LS,
	VERB_KEY_RM,
	VERB_TENANT_SET,
	VERB_TENANT_LS,
	VERB_TENANT_RM,
	VERB_SESSION_CREATE,
	VERB_SESSION_LS,
	VERB_SESSION_INSPECT,
	VERB_SESSION_RUN,
	VERB_SESSION_RUNS,
	VERB_SESSION_EVENTS,
	VERB_SESSION_ANSWER,
	VERB_SESSION_INTERRUPT,
	VERB_SESSION_LOGS,
	VERB_SESSION_ATTACH,
	VERB_SESSION_RM,
	VERB_LOGIN,
	VERB_CONTEXT_LS,
	VERB_CONTEXT_USE,
	VERB_CONTEXT_RM,
	VERB_CLEANUP,
	VERB_EVENTS,
	VERB_AUDIT,
	VERB_VERIFY,
	VERB_SERVE,
	VERB_DRAIN,
	VERB_RELOAD,
	VERB_UPGRADE,
	VERB_DOCTOR,
	VERB_COMPLETION,
	VERB_VERSION,
	VERB_HELP,
	VERB_WORDS,
	VERB_COUNT
};

enum opt {
	OPT_ALIAS,
	OPT_ALL,
	OPT_ALLOW,
	OPT_BOT,
	OPT_BOXES,
	OPT_BROWSE,
	OPT_BUDGET,
	OPT_CHECK,
	OPT_CONFIG,
	OPT_CONTEXT,
	OPT_CPUS,
	OPT_CPU_TIME,
	OPT_DATA,
	OPT_DENIED,
	OPT_DENY,
	OPT_DETACH,
	OPT_DISK,
	OPT_ENV,
	OPT_ENV_FILE,
	OPT_EXECS,
	OPT_EXPIRES,
	OPT_FOLLOW,
	OPT_FORCE,
	OPT_HELP,
	OPT_HOST,
	OPT_ID,
	OPT_INODES,
	OPT_INSPECT,
	OPT_IO,
	OPT_INTERACTIVE,
	OPT_ISOLATED,
	OPT_JSON,
	OPT_KEEP,
	OPT_KEEP_ALIVE,
	OPT_KEPT_OUTPUT,
	OPT_KIND,
	OPT_LABEL,
	OPT_LANGUAGE,
	OPT_LONG,
	OPT_MAN,
	OPT_MEMORY,
	OPT_NAME,
	OPT_NETWORK,
	OPT_ORG,
	OPT_OUTPUT,
	OPT_PIDS,
	OPT_QUESTION,
	OPT_QUIET,
	OPT_RECURSIVE,
	OPT_RM,
	OPT_RULE,
	OPT_SANDBOX,
	OPT_SCOPE,
	OPT_SECRET,
	OPT_SETTING, // of serve, which parses it itself
	OPT_SHELL,
	OPT_SIGNAL,
	OPT_SINCE,
	OPT_SLEEP_AFTER,
	OPT_TAIL,
	OPT_TEMPLATE,
	OPT_TENANT,
	OPT_TIMEOUT,
	OPT_TIMESTAMPS,
	OPT_TOKEN,
	OPT_TTL,
	OPT_TTY,
	OPT_TYPESCRIPT,
	OPT_URL,
	OPT_USER,
	OPT_WORKDIR,
	OPT_YES,
};

enum verb_flags {
	VERB_HIDDEN = 1, // not in help, man page or completion
	VERB_STOPS = 2,	 // options end at the first word: the rest is the command
	VERB_RUNNER = 8, // the exit status is the command's; failures of cove are 125
};

struct call;
typedef fallible verb_fn(struct call *call);

struct verb {
	enum verb_id id;
	unsigned flags;
	const char *name;  // "run", "template import"
	const char *words; // "BOX [--] COMMAND [ARG...]"
	const char *brief; // one line
	const char *story; // paragraphs, each ended by a newline; NULL: none
	int min, max;	   // how many words; max -1: any number
	verb_fn *run;	   // NULL: handled by main
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
