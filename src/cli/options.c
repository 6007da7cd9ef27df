#include "cli/options.h"

// clang-format off
#define MAKES (ON(RUN) | ON(CREATE))
#define RUNS (ON(RUN) | ON(EXEC))
#define TALKS (ON(PYTHON) | ON(NODE))
#define CODE (TALKS | ON(RUN_CODE))
#define PLACED (RUNS | ON(SHELL))
#define MAKES_OR_RUNS (ON(RUN) | ON(CREATE) | ON(EXEC))
#define TEMPLATES (ON(TEMPLATE_LS) | ON(TEMPLATE_IMPORT) | ON(TEMPLATE_FREEZE) | ON(TEMPLATE_RM))
#define INSIDE (ON(SHELL) | ON(ATTACH) | ON(LOGS) | ON(KILL) | ON(CP) | ON(LS) | ON(CAT))
#define NETWORK (ON(POLICY) | ON(EGRESS))
#define PORTS (ON(PORT) | ON(EXPOSE) | ON(UNEXPOSE) | ON(OPEN) | ON(FORWARD))
#define HOST (ON(DRAIN) | ON(RELOAD) | ON(UPGRADE))
#define STEPS (ON(PAUSE) | ON(RESUME) | ON(STOP) | ON(START) | ON(ROTATE_TOKEN))
#define KEYS (ON(KEY_CREATE) | ON(KEY_LS) | ON(KEY_RM))
#define TENANTS (ON(TENANT_SET) | ON(TENANT_LS) | ON(TENANT_RM))
#define SESSION_LISTS (ON(SESSION_LS) | ON(SESSION_RUNS))
#define SESSION_ACTS (ON(SESSION_ANSWER) | ON(SESSION_INTERRUPT) | ON(SESSION_ATTACH) | ON(SESSION_RM))
#define SESSION_MAKES (ON(SESSION_CREATE) | ON(SESSION_RUN))
#define SESSIONS (SESSION_LISTS | SESSION_ACTS | SESSION_MAKES | ON(SESSION_INSPECT) | ON(SESSION_EVENTS) | ON(SESSION_LOGS))
#define LOOKS (ON(EVENTS) | ON(AUDIT) | ON(VERIFY))
#define ASKS (NETWORK | CODE | PORTS | LOOKS | SESSIONS | STEPS | KEYS | TENANTS | ON(CLEANUP) | MAKES_OR_RUNS | INSIDE | ON(PS) | ON(INSPECT) | ON(RM) | TEMPLATES | ON(DOCTOR) | ON(WORDS))

const struct option cli_options[] = {
	{OPT_ALIAS,	  0,   "alias",	   "NAME",	 "another name for it, unique per owner: resumes the one that has it; may be repeated", ON(SESSION_CREATE)},
	{OPT_ALL,	  'a', "all",	   NULL,	 "remove every sandbox", ON(RM)},
	{OPT_ALL,	  'a', "all",	   NULL,	 "end every process", ON(KILL)},
	{OPT_ALL,	  'a', "all",	   NULL,	 "also those that have ended, the newest first", ON(SESSION_RUNS)},
	{OPT_ALL,	  'a', "all",	   NULL,	 "also names that begin with a dot", ON(LS)},
	{OPT_ALLOW,	  0,   "allow",	   "NAME",	 "let it reach this name (pypi.org, *.github.com, db.example.com:5432); may be repeated", MAKES | ON(POLICY)},
	{OPT_BOT,	  0,   "bot",	   "BOT",	 "the bot of its owner that it is of", ON(SESSION_CREATE)},
	{OPT_BOXES,	  0,   "boxes",	   "NUMBER",	 "how many sandboxes it may have", ON(TENANT_SET)},
	{OPT_BROWSE,	  'b', "browse",   NULL,	 "open it in a browser", ON(OPEN)},
	{OPT_BUDGET,	  0,   "budget",   "WHAT=NUMBER", "requests, connections, bytesOut, bytesIn (10m), or rate a second; none takes it away", ON(POLICY)},
	{OPT_CHECK,	  0,   "check",	   NULL,	 "only tell whether the log is whole", ON(AUDIT)},
	{OPT_CONFIG,	  0,   "config",   "FILE",	 "read settings from an INI file", ON(SERVE)},
	{OPT_SHELL,	  'c', "shell",	   "LINE",	 "run a line by bash instead of a command", RUNS},
	{OPT_CONTEXT,	  0,   "context",  "ID",	 "the context to run in", CODE},
	{OPT_CPU_TIME,	  0,   "cpu-time", "TIME",	 "kill the command after this much CPU time (10s, 5m)", MAKES_OR_RUNS},
	{OPT_CPUS,	  0,   "cpus",	   "NUMBER",	 "share of CPUs (1, 0.5)", MAKES},
	{OPT_CPUS,	  0,   "cpus",	   "NUMBER",	 "how many CPUs its running sandboxes may have together", ON(TENANT_SET)},
	{OPT_DATA,	  0,   "data",	   "DIR",	 "data directory of the daemon (default /var/lib/cove)", ASKS | HOST},
	{OPT_DENIED,	  0,   "denied",   NULL,	 "only what was denied", ON(EGRESS)},
	{OPT_DENY,	  0,   "deny",	   "NAME",	 "take this name out of all its lists; may be repeated", ON(POLICY)},
	{OPT_DETACH,	  'd', "detach",   NULL,	 "let it run by itself, and print its process id", ON(EXEC)},
	{OPT_DETACH,	  'd', "detach",   NULL,	 "do not follow it, and print its id", ON(SESSION_RUN)},
	{OPT_DISK,	  0,   "disk",	   "SIZE",	 "limit of the disk (2g)", MAKES},
	{OPT_DISK,	  0,   "disk",	   "SIZE",	 "limit of the disks of all its sandboxes", ON(TENANT_SET)},
	{OPT_ENV,	  'e', "env",	   "NAME=VALUE", "set a variable; a bare NAME copies ours", MAKES_OR_RUNS | ON(SHELL) | CODE | SESSION_MAKES},
	{OPT_ENV_FILE,	  0,   "env-file", "FILE",	 "set the variables of a file of NAME=VALUE lines", MAKES_OR_RUNS | ON(SHELL) | CODE | SESSION_MAKES},
	{OPT_EXECS,	  0,   "execs",	   "NUMBER",	 "how many commands may run at once", ON(TENANT_SET)},
	{OPT_EXPIRES,	  0,   "expires",  "TIME",	 "when it ends by itself (30m, 720h)", ON(KEY_CREATE)},
	{OPT_EXPIRES,	  0,   "expires",  "TIME",	 "when the address ends (30m, 24h)", ON(EXPOSE) | ON(OPEN)},
	{OPT_FOLLOW,	  'f', "follow",   NULL,	 "go on until the process ends", ON(LOGS)},
	{OPT_FOLLOW,	  'f', "follow",   NULL,	 "go on with what happens from now on", ON(EVENTS)},
	{OPT_FOLLOW,	  'f', "follow",   NULL,	 "go on with what happens", ON(EGRESS)},
	{OPT_FORCE,	  'f', "force",	   NULL,	 "be content when it is not there", ON(RM) | ON(TEMPLATE_RM) | ON(KEY_RM) | ON(TENANT_RM) | ON(SESSION_RM)},
	{OPT_HELP,	  'h', "help",	   NULL,	 "explain this verb", ~0ull},
	{OPT_HOST,	  0,   "host",	   NULL,	 "it may start sandboxes from the template host", ON(KEY_CREATE) | ON(TENANT_SET)},
	{OPT_ID,	  0,   "id",	   "ID",	 "its id, never used before (one is made)", ON(SESSION_CREATE)},
	{OPT_INODES,	  0,   "inodes",   "NUMBER",	 "limit of files", MAKES},
	{OPT_INSPECT,	  0,   "inspect",  "NAME",	 "look into TLS to this name; may be repeated", ON(POLICY)},
	{OPT_INTERACTIVE, 'i', "interactive", NULL,	 "give our standard input to the command, as it comes", RUNS},
	{OPT_IO,	  0,   "io",	   "SIZE",	 "bytes a second that it reads from its disk, and as many that it writes (20m); on cgroup v2", MAKES},
	{OPT_ISOLATED,	  0,   "isolated", NULL,	 "give it a sandbox of its own", ON(SESSION_CREATE)},
	{OPT_JSON,	  0,   "json",	   NULL,	 "answer in JSON, errors too", ASKS | HOST | ON(VERSION)},
	{OPT_KEEP,	  0,   "keep",	   NULL,	 "do not remove the sandbox; its id is printed on stderr", ON(RUN) | ON(RUN_CODE)},
	{OPT_KEEP_ALIVE,  0,   "keep-alive", NULL,	 "never freeze or stop it for idleness", ON(CREATE)},
	{OPT_KEPT_OUTPUT, 0,   "kept-output", "SIZE",	 "how much output of all commands is kept; the oldest goes first (a quarter of the disk)", MAKES},
	{OPT_KIND,	  0,   "kind",	   "KIND",	 "only these (sandbox, sandbox.failed, security)", ON(EVENTS)},
	{OPT_LABEL,	  'l', "label",	   "NAME=VALUE", "label it", MAKES},
	{OPT_LABEL,	  'l', "label",	   "NAME=VALUE", "only those with this label", ON(PS)},
	{OPT_LANGUAGE,	  0,   "language", "LANGUAGE",	 "python, javascript or typescript (by the file's name, else python)", ON(RUN_CODE)},
	{OPT_LONG,	  'l', "long",	   NULL,	 "with types, modes, sizes and times", ON(LS)},
	{OPT_MAN,	  0,   "man",	   NULL,	 "the whole manual, as a man page", ON(HELP)},
	{OPT_MEMORY,	  'm', "memory",   "SIZE",	 "limit of memory (512m, 2g)", MAKES | ON(RUN_CODE)},
	{OPT_MEMORY,	  'm', "memory",   "SIZE",	 "limit of memory of its running sandboxes together", ON(TENANT_SET)},
	{OPT_NETWORK,	  0,   "mode",	   "MODE",	 "off, allow (what is named) or all", ON(POLICY)},
	{OPT_NAME,	  0,   "name",	   "NAME",	 "name the sandbox", MAKES},
	{OPT_NAME,	  0,   "name",	   "NAME",	 "a name for people", ON(KEY_CREATE) | ON(EXPOSE)},
	{OPT_NETWORK,	  0,   "network",  "MODE",	 "what it may reach: off, allow (what --allow names) or all", MAKES},
	{OPT_NETWORK,	  0,   "network",  "MODE",	 "the most that its sandboxes may reach, and what they get unless they say: off, allow or all (default)", ON(TENANT_SET)},
	{OPT_ORG,	  0,   "org",	   "ORG",	 "the organisation of its owner", ON(SESSION_CREATE)},
	{OPT_OUTPUT,	  0,   "output",   "SIZE",	 "how much output of a command is kept (64m)", MAKES},
	{OPT_PIDS,	  0,   "pids",	   "NUMBER",	 "limit of processes and threads", MAKES},
	{OPT_QUESTION,	  0,   "question", "ID",	 "only if this is what it asks", ON(SESSION_ANSWER)},
	{OPT_QUIET,	  'q', "quiet",	   NULL,	 "say nothing of our own", CODE | HOST | SESSION_ACTS | RUNS | STEPS | ON(KEY_CREATE) | ON(KEY_RM) | ON(TENANT_SET) | ON(TENANT_RM) | ON(RM) | TEMPLATES | ON(SHELL) | ON(ATTACH) | ON(KILL) | ON(CP) | ON(UNEXPOSE) | ON(FORWARD)},
	{OPT_QUIET,	  'q', "quiet",	   NULL,	 "print ids only", SESSION_LISTS | ON(PS) | ON(KEY_LS) | ON(TENANT_LS)},
	{OPT_RECURSIVE,	  'R', "recursive", NULL,	 "all that lies beneath", ON(LS)},
	{OPT_RM,	  0,   "rm",	   NULL,	 "remove the sandbox afterwards (the default)", ON(RUN)},
	{OPT_RULE,	  0,   "rule",	   "RULE",	 "requests that a name takes: 'GET,HEAD api.example.com/v1/*', '* NAME' for any; may be repeated", ON(POLICY)},
	{OPT_SANDBOX,	  0,   "sandbox",  "BOX",	 "it is for this one alone", ON(KEY_CREATE)},
	{OPT_SANDBOX,	  0,   "sandbox",  "BOX",	 "only of this one", ON(EVENTS)},
	{OPT_SCOPE,	  0,   "scope",	   "SCOPE",	 "what it may do; may be repeated", ON(KEY_CREATE)},
	{OPT_SECRET,	  0,   "secret",   "NAME@HOST",	 "a secret for hosts (with commas), its value from our variable NAME; NAME=-@HOST from standard input, NAME=VALUE@HOST from here, NAME@ forgets it", ON(POLICY)},
	{OPT_SIGNAL,	  's', "signal",   "SIGNAL",	 "send this signal to the whole tree (KILL, HUP, 10)", ON(KILL)},
	{OPT_SLEEP_AFTER, 0,   "sleep-after", "TIME",	 "freeze it when it was idle for so long (10m)", ON(CREATE)},
	{OPT_TEMPLATE,	  0, "template", "TEMPLATE",	 "what the sandbox starts from (default host)", MAKES | ON(RUN_CODE)},
	{OPT_TEMPLATE,	  0,   "template", "TEMPLATE",	 "a template of the operator's that it may use, * for all; may be repeated", ON(TENANT_SET)},
	{OPT_TENANT,	  0,   "tenant",   "TENANT",	 "whose it is", ON(KEY_CREATE)},
	{OPT_TENANT,	  0,   "tenant",   "TENANT",	 "only of this one; for the operator", ON(EVENTS) | ON(AUDIT)},
	{OPT_TIMEOUT,	  0,   "timeout",  "TIME",	 "kill the command after this time (30s, 5m)", MAKES_OR_RUNS},
	{OPT_TIMEOUT,	  0,   "timeout",  "TIME",	 "end a cell after this time (30s, 5m)", CODE},
	{OPT_TIMEOUT,	  0,   "timeout",  "TIME",	 "end the run after this time (10m)", ON(SESSION_RUN)},
	{OPT_TOKEN,	  0,   "token",	   "TOKEN",	 "1 to 16 of a-z, 0-9 and _ instead of a random token", ON(EXPOSE)},
	{OPT_TTL,	  0,   "ttl",	   "TIME",	 "delete it after this time", ON(CREATE)},
	{OPT_TTY,	  't', "tty",	   NULL,	 "on a terminal of its own", RUNS},
	{OPT_TYPESCRIPT,  0,   "typescript", NULL,	 "talk TypeScript", ON(NODE)},
	{OPT_URL,	  0,   "url",	   "URL",	 "address of the daemon", ASKS},
	{OPT_USER,	  'u', "user",	   "USER",	 "name, uid or uid:gid to run as (default root)", PLACED},
	{OPT_USER,	  'u', "user",	   "USER",	 "the user who owns it", ON(SESSION_CREATE)},
	{OPT_WORKDIR,	  'w', "workdir",  "PATH",	 "directory to run in (default /workspace)", PLACED | CODE},
	{OPT_YES,	  'y', "yes",	   NULL,	 "do not ask", ON(RM)},
	{.name = NULL},
};
// clang-format on
