// The table of verbs and options, and what is made of it. Help, the man page and the completions
// are read off these rows, so that they cannot differ from what the program does.
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/weak.h"
#include "cli/boxes.h"
#include "cli/call.h"
#include "cli/complete.h"
#include "cli/copy.h"
#include "cli/doctor.h"
#include "cli/events.h"
#include "cli/help.h"
#include "cli/host.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
#include "cli/keys.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/run.h"
#include "cli/session.h"
#include "cli/session_run.h"
#include "cli/show.h"
#include "cli/steps.h"
#include "cli/template.h"
#include "cli/words.h"
#include "gen/version.h"
#include "wire/json.h"

#define EXIT_OWN_FAILURE 125
#define TEXT_MAX ((size_t)1 << 20)

static verb_fn cli_complete, cli_version, cli_help;

// clang-format off
static const struct verb verbs[] = {
	{VERB_RUN, VERB_STOPS | VERB_RUNNER, "run", "[--] COMMAND [ARG...]",
	 "Run a command in a fresh sandbox, and remove it.",
	 "The command gets exactly the arguments given, no shell looks at them; -c runs a line by "
	 "bash. Its output comes as it is written and its exit status becomes ours. The sandbox is "
	 "removed when the command ends, fails or is interrupted, unless --keep is given.\n"
	 "When no daemon is running here and none is named, one is started for the lifetime of this "
	 "command; that needs root.\n",
	 0, -1, run_run},
	{VERB_CREATE, 0, "create", "",
	 "Make a sandbox and print its id.",
	 "It lives until it is removed or the daemon stops. --timeout and --cpu-time limit every "
	 "command that will run in it.\n",
	 0, 0, boxes_create},
	{VERB_EXEC, VERB_STOPS | VERB_RUNNER, "exec", "BOX [--] COMMAND [ARG...]",
	 "Run a command in a sandbox that is there.",
	 "BOX is a name, an id or the short id that 'cove ps' shows. The command runs as root of the "
	 "sandbox in /workspace unless told otherwise. Interrupting 'cove exec' does not stop it.\n"
	 "With -i what we read is what it reads, as it comes. With -it it has a terminal of its own, "
	 "shown on ours: when the connection is lost it is made again and the screen painted anew, "
	 "and ctrl-p ctrl-q leaves it running for 'cove attach'. With -d it runs by itself, and its "
	 "process id is printed.\n",
	 1, -1, run_exec},
	{VERB_SHELL, VERB_RUNNER, "shell", "BOX [SHELL]",
	 "Work in a sandbox: a shell on a terminal.",
	 "The shell is bash unless another one is named. ctrl-p ctrl-q leaves it running.\n",
	 1, 2, run_shell},
	{VERB_ATTACH, VERB_RUNNER, "attach", "BOX [TERMINAL|PROCESS]",
	 "Come back to a terminal, or follow a process.",
	 "A terminal shows its last output first. Without a name it is the one that was opened last. "
	 "The exit status is that of what runs there; ctrl-p ctrl-q leaves it running.\n",
	 1, 2, run_attach},
	{VERB_LOGS, 0, "logs", "BOX [PROCESS]",
	 "Show what a process wrote.",
	 "From its start on; without a name it is the process that was started last. With -f it is "
	 "followed to its end, over lost connections too.\n",
	 1, 2, jobs_logs},
	{VERB_KILL, 0, "kill", "BOX [PROCESS...]",
	 "End processes of a sandbox, or signal them.",
	 "Without -s: TERM to the whole tree, after 5 seconds KILL, and returns when all of it is "
	 "gone.\n",
	 1, -1, jobs_kill},
	{VERB_CP, 0, "cp", "BOX:PATH|FILE|- BOX:PATH|FILE|-",
	 "Copy files and directories into a sandbox, or out of it.",
	 "One of the two is BOX:PATH; relative paths of a sandbox begin at /workspace. A directory "
	 "goes into a directory that is there, under its own name, or becomes it; DIR/. means what is "
	 "in it. - is a tar stream: from standard input it is unpacked into a directory, to standard "
	 "output a tree is packed.\n",
	 2, 2, copy_cp},
	{VERB_LS, 0, "ls", "BOX:PATH",
	 "List files of a sandbox.", NULL,
	 1, 1, show_ls},
	{VERB_CAT, 0, "cat", "BOX:PATH...",
	 "Print files of a sandbox.", NULL,
	 1, -1, show_cat},
	{VERB_PS, 0, "ps", "[BOX]",
	 "List the sandboxes, or the processes of one.", NULL,
	 0, 1, boxes_ps},
	{VERB_INSPECT, 0, "inspect", "BOX...",
	 "Show all that is known of sandboxes, as JSON.", NULL,
	 1, -1, boxes_inspect},
	{VERB_RM, 0, "rm", "BOX...",
	 "Remove sandboxes, whatever runs in them.",
	 "Returns when processes, control groups, mounts and namespaces are verified gone.\n",
	 0, -1, boxes_rm},
	{VERB_PAUSE, 0, "pause", "BOX...",
	 "Freeze sandboxes until they are resumed.",
	 "Nothing in them runs, and whoever wants to work in one is told that it is paused.\n",
	 1, -1, steps_take},
	{VERB_RESUME, 0, "resume", "BOX...",
	 "Let paused sandboxes run again.", NULL,
	 1, -1, steps_take},
	{VERB_STOP, 0, "stop", "BOX...",
	 "End what runs in sandboxes and keep their files.",
	 "'cove start' or the next request starts them on those.\n",
	 1, -1, steps_take},
	{VERB_START, 0, "start", "BOX...",
	 "Start stopped sandboxes on their files.", NULL,
	 1, -1, steps_take},
	{VERB_TEMPLATE_LS, 0, "template ls", "",
	 "List what sandboxes can start from.", NULL,
	 0, 0, cli_template_ls},
	{VERB_TEMPLATE_IMPORT, 0, "template import", "NAME FILE|DIR|-",
	 "Make a template from an archive or a directory.",
	 "FILE is a tar archive of a root file system, compressed or not, or an OCI image layout in a "
	 "tar file; - reads it from standard input. A directory is packed on the way.\n",
	 2, 2, cli_template_import},
	{VERB_TEMPLATE_FREEZE, 0, "template freeze", "NAME",
	 "Copy the host template once, under a name.",
	 "The template 'host' shows this host's own /usr and changes with it. A frozen copy does "
	 "not.\n",
	 1, 1, cli_template_freeze},
	{VERB_TEMPLATE_RM, 0, "template rm", "TEMPLATE...",
	 "Remove templates. Sandboxes made from them live on.", NULL,
	 1, -1, cli_template_rm},
	{VERB_KEY_CREATE, 0, "key create", "",
	 "Make a key and print its secret, this once.",
	 "Without --tenant it is for the operator's own sandboxes. Scopes are read, make, use, "
	 "templates and admin; without --scope it has the first three.\n",
	 0, 0, keys_create},
	{VERB_KEY_LS, 0, "key ls", "",
	 "List the keys.", NULL,
	 0, 0, keys_ls},
	{VERB_KEY_RM, 0, "key rm", "KEY...",
	 "Revoke keys at once.", NULL,
	 1, -1, keys_rm},
	{VERB_TENANT_SET, 0, "tenant set", "TENANT",
	 "Make a tenant, or set all of its terms anew.",
	 "What is not given is not bounded, or not allowed.\n",
	 1, 1, keys_tenant_set},
	{VERB_TENANT_LS, 0, "tenant ls", "",
	 "List the tenants, with what they use.", NULL,
	 0, 0, keys_tenant_ls},
	{VERB_TENANT_RM, 0, "tenant rm", "TENANT...",
	 "Remove tenants that have no sandboxes, and their keys.", NULL,
	 1, -1, keys_tenant_rm},
	{VERB_SESSION_CREATE, VERB_STOPS, "session create", "--user USER [--] COMMAND [ARG...]",
	 "Make a session and print its id, or that of its alias.",
	 "A session is the long-lived owner of work: the command is its runner, which takes one run after "
	 "another. Its sandbox follows from its owner (organisation, user, bot), and is made when it is needed.\n",
	 1, -1, cli_session_create},
	{VERB_SESSION_LS, 0, "session ls", "", "List the sessions.", NULL, 0, 0, cli_session_ls},
	{VERB_SESSION_INSPECT, 0, "session inspect", "SESSION...",
	 "Show all that is known of sessions, as JSON.", NULL, 1, -1, cli_session_inspect},
	{VERB_SESSION_RUN, 0, "session run", "SESSION [INPUT|-]",
	 "Give its runner work, and follow it.",
	 "INPUT is JSON, or else a text; - reads it from standard input. The exit status is 0 when the run "
	 "completes, 1 when it fails and 130 when it is interrupted. Leaving does not end it.\n",
	 1, 2, cli_session_run},
	{VERB_SESSION_RUNS, 0, "session runs", "SESSION [RUN...]",
	 "List the runs that have not ended, or those that are named.", NULL, 1, -1, cli_session_runs},
	{VERB_SESSION_EVENTS, 0, "session events", "SESSION [RUN]",
	 "Show what happens in a run, a line of JSON each, to its end.",
	 "Without a name it is the run that was given last.\n", 1, 2, cli_session_events},
	{VERB_SESSION_ANSWER, 0, "session answer", "SESSION ANSWER",
	 "Answer the question of a run.", "ANSWER is JSON, or else a text.\n", 2, 2, cli_session_answer},
	{VERB_SESSION_INTERRUPT, 0, "session interrupt", "SESSION",
	 "End the run that is under way.", NULL, 1, 1, cli_session_interrupt},
	{VERB_SESSION_LOGS, 0, "session logs", "SESSION",
	 "Show what its runner wrote last.", NULL, 1, 1, cli_session_logs},
	{VERB_SESSION_ATTACH, VERB_RUNNER, "session attach", "SESSION [SHELL]",
	 "Work in a session: a shell on its terminal, in its own directory.",
	 "Its sandbox is made or woken as for a run. ctrl-p ctrl-q leaves the terminal running.\n",
	 1, 2, cli_session_attach},
	{VERB_SESSION_RM, 0, "session rm", "SESSION...",
	 "Remove sessions: runner, files and records, verified.", NULL, 1, -1, cli_session_rm},
	{VERB_CLEANUP, 0, "cleanup", "",
	 "Let the janitor go round now, and tell what it did.", NULL,
	 0, 0, steps_cleanup},
	{VERB_EVENTS, 0, "events", "",
	 "Show what has happened, or follow what happens.",
	 "Sandboxes that were made, ran, slept, woke and ended, keys and tenants that changed, attacks "
	 "and alerts. With -f it goes on with what happens from now on, over restarts of the daemon, "
	 "until it is interrupted; --json prints an object for each line.\n",
	 0, 0, events_show},
	{VERB_AUDIT, 0, "audit", "",
	 "Show who changed what.",
	 "Each row is bound to the one before by a hash. --check reads them all and fails when one was "
	 "changed, taken out or put in between.\n",
	 0, 0, events_audit},
	{VERB_VERIFY, 0, "verify", "",
	 "Compare what is written down with what there is.",
	 "The store, the daemon, the warden, the kernel and the disk: each difference is a line, and "
	 "the exit status is 1 when there is one.\n",
	 0, 0, events_verify},
	{VERB_SERVE, 0, "serve", "",
	 "Be the daemon: hold the sandboxes and serve the API.",
	 "Needs root to start; what faces the network runs as the user cove, without any privilege. "
	 "Ctrl-C ends it and what runs in the sandboxes; TERM does so too, or leaves the sandboxes to "
	 "the next start, as --on-term says. Sandboxes outlive a daemon that crashes.\n",
	 0, 0, NULL},
	{VERB_DRAIN, 0, "drain", "",
	 "End the daemon of this host and what runs in its sandboxes.",
	 "Whatever --on-term says. Returns when processes, control groups, mounts and namespaces are "
	 "verified gone; the disks of sandboxes that can be started again stay. Needs root.\n",
	 0, 0, host_drain},
	{VERB_RELOAD, 0, "reload", "",
	 "Have the daemon of this host read its configuration anew.",
	 "Settings that docs/CONFIGURATION.md marks as live count from then on. A file that is not right is "
	 "refused, its reason is in the log, and everything stays as it was. Needs root.\n",
	 0, 0, host_reload},
	{VERB_UPGRADE, 0, "upgrade", "",
	 "Put the daemon of this host into the binary that lies in its place now.",
	 "Install the new binary over the old one by a rename, then call this. No listener is closed, "
	 "no sandbox ends, requests under way have their grace; a binary that cannot be started is "
	 "refused and nothing happens. Needs root.\n",
	 0, 0, host_upgrade},
	{VERB_DOCTOR, 0, "doctor", "",
	 "Tell what this host can and cannot do.",
	 "Tries each kernel feature that cove needs, by using it once, and says what to do about those "
	 "that are missing. Needs root. The exit status is 1 when something required is missing.\n",
	 0, 0, doctor_look},
	{VERB_COMPLETION, 0, "completion", "bash|zsh|fish",
	 "Print a completion script for a shell.",
	 "For bash: source <(cove completion bash)\n",
	 1, 1, cli_complete},
	{VERB_VERSION, 0, "version", "", "Print the version.", NULL, 0, 0, cli_version},
	{VERB_HELP, 0, "help", "[VERB]", "Explain a verb, or list them all.", NULL, 0, 2, cli_help},
	{VERB_WORDS, VERB_HIDDEN, "words", "boxes|templates|sessions|processes [BOX]", "Names, for completion.", NULL,
	 1, 2, words_print},
	{.name = NULL},
};

#define MAKES (ON(RUN) | ON(CREATE))
#define RUNS (ON(RUN) | ON(EXEC))
#define PLACED (RUNS | ON(SHELL))
#define MAKES_OR_RUNS (ON(RUN) | ON(CREATE) | ON(EXEC))
#define TEMPLATES (ON(TEMPLATE_LS) | ON(TEMPLATE_IMPORT) | ON(TEMPLATE_FREEZE) | ON(TEMPLATE_RM))
#define INSIDE (ON(SHELL) | ON(ATTACH) | ON(LOGS) | ON(KILL) | ON(CP) | ON(LS) | ON(CAT))
#define HOST (ON(DRAIN) | ON(RELOAD) | ON(UPGRADE))
#define STEPS (ON(PAUSE) | ON(RESUME) | ON(STOP) | ON(START))
#define KEYS (ON(KEY_CREATE) | ON(KEY_LS) | ON(KEY_RM))
#define TENANTS (ON(TENANT_SET) | ON(TENANT_LS) | ON(TENANT_RM))
#define SESSION_LISTS (ON(SESSION_LS) | ON(SESSION_RUNS))
#define SESSION_ACTS (ON(SESSION_ANSWER) | ON(SESSION_INTERRUPT) | ON(SESSION_ATTACH) | ON(SESSION_RM))
#define SESSION_MAKES (ON(SESSION_CREATE) | ON(SESSION_RUN))
#define SESSIONS (SESSION_LISTS | SESSION_ACTS | SESSION_MAKES | ON(SESSION_INSPECT) | ON(SESSION_EVENTS) | ON(SESSION_LOGS))
#define LOOKS (ON(EVENTS) | ON(AUDIT) | ON(VERIFY))
#define ASKS (LOOKS | SESSIONS | STEPS | KEYS | TENANTS | ON(CLEANUP) | MAKES_OR_RUNS | INSIDE | ON(PS) | ON(INSPECT) | ON(RM) | TEMPLATES | ON(DOCTOR) | ON(WORDS))

// Those of serve are added to them, see add_settings().
static const struct option options[] = {
	{OPT_ALIAS,	  0,   "alias",	   "NAME",	 "another name for it, unique per owner: resumes the one that has it; may be repeated", ON(SESSION_CREATE)},
	{OPT_ALL,	  'a', "all",	   NULL,	 "remove every sandbox", ON(RM)},
	{OPT_ALL,	  'a', "all",	   NULL,	 "end every process", ON(KILL)},
	{OPT_ALL,	  'a', "all",	   NULL,	 "also names that begin with a dot", ON(LS)},
	{OPT_BOT,	  0,   "bot",	   "BOT",	 "the bot of its owner that it is of", ON(SESSION_CREATE)},
	{OPT_BOXES,	  0,   "boxes",	   "NUMBER",	 "how many sandboxes it may have", ON(TENANT_SET)},
	{OPT_CHECK,	  0,   "check",	   NULL,	 "only tell whether the log is whole", ON(AUDIT)},
	{OPT_CONFIG,	  0,   "config",   "FILE",	 "read settings from an INI file", ON(SERVE)},
	{OPT_SHELL,	  'c', "shell",	   "LINE",	 "run a line by bash instead of a command", RUNS},
	{OPT_CPU_TIME,	  0,   "cpu-time", "TIME",	 "kill the command after this much CPU time (10s, 5m)", MAKES_OR_RUNS},
	{OPT_CPUS,	  0,   "cpus",	   "NUMBER",	 "share of CPUs (1, 0.5)", MAKES},
	{OPT_CPUS,	  0,   "cpus",	   "NUMBER",	 "how many CPUs its running sandboxes may have together", ON(TENANT_SET)},
	{OPT_DATA,	  0,   "data",	   "DIR",	 "data directory of the daemon (default /var/lib/cove)", ASKS | HOST},
	{OPT_DETACH,	  'd', "detach",   NULL,	 "let it run by itself, and print its process id", ON(EXEC)},
	{OPT_DETACH,	  'd', "detach",   NULL,	 "do not follow it, and print its id", ON(SESSION_RUN)},
	{OPT_DISK,	  0,   "disk",	   "SIZE",	 "limit of the disk (2g)", MAKES},
	{OPT_DISK,	  0,   "disk",	   "SIZE",	 "limit of the disks of all its sandboxes", ON(TENANT_SET)},
	{OPT_ENV,	  'e', "env",	   "NAME=VALUE", "set a variable; a bare NAME copies ours", MAKES_OR_RUNS | ON(SHELL) | SESSION_MAKES},
	{OPT_ENV_FILE,	  0,   "env-file", "FILE",	 "set the variables of a file of NAME=VALUE lines", MAKES_OR_RUNS | ON(SHELL) | SESSION_MAKES},
	{OPT_EXECS,	  0,   "execs",	   "NUMBER",	 "how many commands may run at once", ON(TENANT_SET)},
	{OPT_EXPIRES,	  0,   "expires",  "TIME",	 "when it ends by itself (30m, 720h)", ON(KEY_CREATE)},
	{OPT_FOLLOW,	  'f', "follow",   NULL,	 "go on until the process ends", ON(LOGS)},
	{OPT_FOLLOW,	  'f', "follow",   NULL,	 "go on with what happens from now on", ON(EVENTS)},
	{OPT_FORCE,	  'f', "force",	   NULL,	 "be content when it is not there", ON(RM) | ON(TEMPLATE_RM) | ON(KEY_RM) | ON(TENANT_RM) | ON(SESSION_RM)},
	{OPT_HELP,	  'h', "help",	   NULL,	 "explain this verb", ~0ull},
	{OPT_HOST,	  0,   "host",	   NULL,	 "it may start sandboxes from the template host", ON(KEY_CREATE) | ON(TENANT_SET)},
	{OPT_ID,	  0,   "id",	   "ID",	 "its id, never used before (one is made)", ON(SESSION_CREATE)},
	{OPT_INODES,	  0,   "inodes",   "NUMBER",	 "limit of files", MAKES},
	{OPT_INTERACTIVE, 'i', "interactive", NULL,	 "give our standard input to the command, as it comes", RUNS},
	{OPT_ISOLATED,	  0,   "isolated", NULL,	 "give it a sandbox of its own", ON(SESSION_CREATE)},
	{OPT_JSON,	  0,   "json",	   NULL,	 "answer in JSON, errors too", ASKS | HOST | ON(VERSION)},
	{OPT_KEEP,	  0,   "keep",	   NULL,	 "do not remove the sandbox; its id is printed on stderr", ON(RUN)},
	{OPT_KEEP_ALIVE,  0,   "keep-alive", NULL,	 "never freeze or stop it for idleness", ON(CREATE)},
	{OPT_KIND,	  0,   "kind",	   "KIND",	 "only these (sandbox, sandbox.failed, security)", ON(EVENTS)},
	{OPT_LABEL,	  'l', "label",	   "NAME=VALUE", "label it", MAKES},
	{OPT_LABEL,	  'l', "label",	   "NAME=VALUE", "only those with this label", ON(PS)},
	{OPT_LONG,	  'l', "long",	   NULL,	 "with types, modes, sizes and times", ON(LS)},
	{OPT_MAN,	  0,   "man",	   NULL,	 "the whole manual, as a man page", ON(HELP)},
	{OPT_MEMORY,	  'm', "memory",   "SIZE",	 "limit of memory (512m, 2g)", MAKES},
	{OPT_MEMORY,	  'm', "memory",   "SIZE",	 "limit of memory of its running sandboxes together", ON(TENANT_SET)},
	{OPT_NAME,	  0,   "name",	   "NAME",	 "name the sandbox", MAKES},
	{OPT_NAME,	  0,   "name",	   "NAME",	 "a name for people", ON(KEY_CREATE)},
	{OPT_ORG,	  0,   "org",	   "ORG",	 "the organisation of its owner", ON(SESSION_CREATE)},
	{OPT_OUTPUT,	  0,   "output",   "SIZE",	 "how much output of a command is kept (64m)", MAKES},
	{OPT_PIDS,	  0,   "pids",	   "NUMBER",	 "limit of processes and threads", MAKES},
	{OPT_QUESTION,	  0,   "question", "ID",	 "only if this is what it asks", ON(SESSION_ANSWER)},
	{OPT_QUIET,	  'q', "quiet",	   NULL,	 "say nothing of our own", HOST | SESSION_ACTS | RUNS | STEPS | ON(KEY_CREATE) | ON(KEY_RM) | ON(TENANT_SET) | ON(TENANT_RM) | ON(RM) | TEMPLATES | ON(SHELL) | ON(ATTACH) | ON(KILL) | ON(CP)},
	{OPT_QUIET,	  'q', "quiet",	   NULL,	 "print ids only", SESSION_LISTS | ON(PS) | ON(KEY_LS) | ON(TENANT_LS)},
	{OPT_RECURSIVE,	  'R', "recursive", NULL,	 "all that lies beneath", ON(LS)},
	{OPT_RM,	  0,   "rm",	   NULL,	 "remove the sandbox afterwards (the default)", ON(RUN)},
	{OPT_SANDBOX,	  0,   "sandbox",  "BOX",	 "it is for this one alone", ON(KEY_CREATE)},
	{OPT_SANDBOX,	  0,   "sandbox",  "BOX",	 "only of this one", ON(EVENTS)},
	{OPT_SCOPE,	  0,   "scope",	   "SCOPE",	 "what it may do; may be repeated", ON(KEY_CREATE)},
	{OPT_SIGNAL,	  's', "signal",   "SIGNAL",	 "send this signal to the whole tree (KILL, HUP, 10)", ON(KILL)},
	{OPT_SLEEP_AFTER, 0,   "sleep-after", "TIME",	 "freeze it when it was idle for so long (10m)", ON(CREATE)},
	{OPT_TEMPLATE,	  0, "template", "TEMPLATE",	 "what the sandbox starts from (default host)", MAKES},
	{OPT_TEMPLATE,	  0,   "template", "TEMPLATE",	 "a template of the operator's that it may use, * for all; may be repeated", ON(TENANT_SET)},
	{OPT_TENANT,	  0,   "tenant",   "TENANT",	 "whose it is", ON(KEY_CREATE)},
	{OPT_TENANT,	  0,   "tenant",   "TENANT",	 "only of this one; for the operator", ON(EVENTS) | ON(AUDIT)},
	{OPT_TIMEOUT,	  0,   "timeout",  "TIME",	 "kill the command after this time (30s, 5m)", MAKES_OR_RUNS},
	{OPT_TIMEOUT,	  0,   "timeout",  "TIME",	 "end the run after this time (10m)", ON(SESSION_RUN)},
	{OPT_TTL,	  0,   "ttl",	   "TIME",	 "delete it after this time", ON(CREATE)},
	{OPT_TTY,	  't', "tty",	   NULL,	 "on a terminal of its own", RUNS},
	{OPT_URL,	  0,   "url",	   "URL",	 "address of the daemon", ASKS},
	{OPT_USER,	  'u', "user",	   "USER",	 "name, uid or uid:gid to run as (default root)", PLACED},
	{OPT_USER,	  'u', "user",	   "USER",	 "the user who owns it", ON(SESSION_CREATE)},
	{OPT_WORKDIR,	  'w', "workdir",  "PATH",	 "directory to run in (default /workspace)", PLACED},
	{OPT_YES,	  'y', "yes",	   NULL,	 "do not ask", ON(RM)},
	{.name = NULL},
};

static const struct remark remarks[] = {
	{"EXIT STATUS", "0", "All went well; for 'run', 'exec', 'shell' and 'attach', the command's own status is handed on, 128 + N when signal N ended it."},
	{"EXIT STATUS", "124", "The time of --timeout ran out."},
	{"EXIT STATUS", "125", "'run', 'exec', 'shell' or 'attach' itself failed."},
	{"EXIT STATUS", "126, 127", "The command cannot be executed, or is not there."},
	{"EXIT STATUS", "130", "Interrupted; the sandbox of 'run' was removed."},
	{"EXIT STATUS", "1 to 8", "Other verbs: 1 failed, 2 a mistake in the command line or the request, 3 not found, 4 not allowed, 5 in conflict with what is there, 6 too large or too many, 7 too slow, 8 not reachable."},
	{"ENVIRONMENT", "COVE_URL", "Address of the daemon, for example http://127.0.0.1:8484. Otherwise the file url in the data directory tells it."},
	{"ENVIRONMENT", "COVE_TOKEN", "Key to the daemon. Otherwise the file operator.key in the data directory is used, for a daemon on this machine."},
	{"ENVIRONMENT", "COVE_DATA", "The data directory, as --data."},
	{"ENVIRONMENT", "NO_COLOR", "When set, nothing is coloured."},
	{"FILES", "/var/lib/cove", "The data directory of the daemon."},
	{"FILES", "/var/lib/cove/operator.key", "The operator's key, made at the first start, readable by root."},
	{"FILES", "/var/lib/cove/url", "The address of the running daemon."},
	{"EXAMPLES", "cove run -- python3 -c 'print(6*7)'", "One command in a sandbox of its own."},
	{"EXAMPLES", "cove run -it bash", "A shell in a sandbox that is gone afterwards."},
	{"EXAMPLES", "cove run -i -m 256m --timeout 10s -- python3 - < job.py", "A script from standard input, with limits."},
	{"EXAMPLES", "cove create --name web -l team=a && cove exec web -- npm test", "A sandbox that stays."},
	{"EXAMPLES", "cove shell web", "A look around in it."},
	{"EXAMPLES", "cove cp src web:/workspace && cove exec web make && cove cp web:src/out .", "Files in, files out."},
	{"EXAMPLES", "cove logs -f web $(cove exec -d web npm start)", "A process of its own, followed."},
	{"EXAMPLES", "cove rm -f web", "And its end."},
	{"EXAMPLES", "docker export ID | cove template import debian -", "A root file system from elsewhere."},
	{.section = NULL},
};
// clang-format on

static struct grammar grammar = {verbs, options, remarks};

#define OPTIONS (sizeof(options) / sizeof(*options))
#define SETTINGS_MAX 64

// Behind the rows that come before it in the alphabet.
static void add_row(struct option *rows, size_t *count, const struct option *row)
{
	size_t at = *count;

	while (at > 0 && strcmp(rows[at - 1].name, row->name) > 0)
		at--;
	memmove(rows + at + 1, rows + at, (*count - at) * sizeof(*rows));
	rows[at] = *row;
	++*count;
}

// The settings of serve become its options: the table that reads them is the one that is shown.
static void add_settings(const struct setting *settings)
{
	static struct option rows[OPTIONS + SETTINGS_MAX];
	size_t count = OPTIONS - 1;

	memcpy(rows, options, sizeof(options));
	for (const struct setting *s = settings; s->name; s++) {
		struct option row = {OPT_SETTING, 0, s->name, s->arg, s->help, ON(SERVE)};

		assert(count + 1 < OPTIONS + SETTINGS_MAX);
		if (*s->otherwise)
			row.help = mem_fmt("%s (default %s)", s->help, s->otherwise);
		add_row(rows, &count, &row);
	}
	rows[count] = (struct option){.name = NULL};
	grammar.options = rows;
}

static fallible print_text(struct buf *text)
{
	fwrite(text->at, 1, text->len, stdout);
	return OK;
}

static fallible cli_complete(struct call *call)
{
	auto_buf text = BUF_INIT(TEXT_MAX);

	TRY(complete_script(&grammar, call->words[0], &text));
	return print_text(&text);
}

static fallible cli_version(struct call *call)
{
	if (call_has(call, OPT_JSON))
		printf("{\"version\": \"%s\"}\n", COVE_VERSION);
	else
		printf("cove %s\n", COVE_VERSION);
	if (WEAK_BUILD)
		print_note("this is a WEAK build: its defences can be switched off; it is for "
			   "tests alone");
	return OK;
}

static bool is_group(const char *word)
{
	for (const struct verb *v = verbs; v->name; v++)
		if (strchr(v->name, ' ') && strcspn(v->name, " ") == strlen(word) &&
		    str_starts(str_of(v->name), word))
			return true;
	return false;
}

// Of the verb or group that the words name; of everything when there is none.
static fallible explain(int count, char **words)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	const struct verb *verb;
	int used;

	if (count == 0) {
		help_overview(&grammar, &text);
		return print_text(&text);
	}
	verb = call_verb(&grammar, count, words, &used);
	if (!verb && is_group(words[0]) && (count == 1 || words[1][0] == '-')) {
		help_group(&grammar, words[0], &text);
		return print_text(&text);
	}
	if (!verb) {
		struct call unused;
		struct err *err = call_read(&unused, &grammar, count, words);

		call_done(&unused);
		return err;
	}
	help_verb(&grammar, verb, &text);
	return print_text(&text);
}

static fallible cli_help(struct call *call)
{
	auto_buf text = BUF_INIT(TEXT_MAX);

	if (!call_has(call, OPT_MAN))
		return explain(call->word_count, call->words);
	help_man(&grammar, &text);
	return print_text(&text);
}

// Words before any verb that are meant as one, and `cove template` alone.
static fallible without_verb(int argc, char **argv, bool *done)
{
	static char version[] = "version";
	const char *first = argc ? argv[0] : "";

	*done = true;
	if (argc == 0 || strcmp(first, "-h") == 0 || strcmp(first, "--help") == 0)
		return explain(0, NULL);
	if (strcmp(first, "-V") == 0 || strcmp(first, "--version") == 0)
		argv[0] = version;
	else if (is_group(first) && (argc == 1 || argv[1][0] == '-'))
		return explain(1, argv);
	*done = false;
	return OK;
}

static fallible obey(struct call *call, int argc, char **argv)
{
	bool done;

	TRY(without_verb(argc, argv, &done));
	if (done)
		return OK;
	TRY(call_read(call, &grammar, argc, argv));
	if (call_has(call, OPT_HELP)) {
		auto_buf text = BUF_INIT(TEXT_MAX);

		help_verb(&grammar, call->verb, &text);
		return print_text(&text);
	}
	if (!call->verb->run)
		return err_new(INVALID, "not_here", "'cove %s' is not run from here",
			       call->verb->name);
	return call->verb->run(call);
}

static int status_of(const struct call *call, const struct err *err)
{
	if (call->exit)
		return call->exit;
	return call->verb && call->verb->flags & VERB_RUNNER ? EXIT_OWN_FAILURE : err_exit(err);
}

// A write that fails on the way stays in the buffer, or leaves its mark on the stream.
static fallible flush_output(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO};
	int errnum = fflush(stdout) ? errno : 0;

	if (!errnum && !ferror(stdout))
		return OK;
	if (errnum == EPIPE || (poll(&out, 1, 0) == 1 && out.revents & POLLERR))
		return err_new(CANCELLED, "pipe_closed", "nobody reads the output any more");
	return err_new(NO_SPACE, "cannot_write", "cannot write the output%s%s", errnum ? ": " : "",
		       errnum ? strerror(errnum) : "");
}

static int lost_output(const struct call *call, const struct err *err)
{
	if (strcmp(err_reason(err), "pipe_closed") == 0)
		return 128 + SIGPIPE;
	return call->verb && call->verb->flags & VERB_RUNNER ? EXIT_OWN_FAILURE : 1;
}

static void tell(const struct call *call, const struct err *err)
{
	if (err && !interrupt_signal() && strcmp(err_reason(err), "pipe_closed") != 0)
		print_error(err, call_has(call, OPT_JSON));
}

int cli_main(int argc, char **argv, const struct setting *settings)
{
	struct call call = {0};
	auto_err err = NULL;
	auto_err lost = NULL;
	int status = 0;

	// A reader that goes away (| head) is a failed write, told by the exit status alone.
	signal(SIGPIPE, SIG_IGN);
	add_settings(settings);
	err = obey(&call, argc - 1, argv + 1);
	lost = flush_output();
	if (lost)
		status = lost_output(&call, lost);
	else if (err)
		status = status_of(&call, err);
	else
		status = call.exit;
	tell(&call, err);
	tell(&call, lost);
	call_done(&call);
	return status;
}
