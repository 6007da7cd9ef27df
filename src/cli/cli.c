// The table of verbs, and main of the command line. Help, man page and completions are generated
// from these rows, so that they match the program.
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
#include "cli/call.h"
#include "cli/collection.h"
#include "cli/complete.h"
#include "cli/forward.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
#include "cli/options.h"
#include "cli/policy.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "codec/json.h"
#include "gen/version.h"

#define EXIT_OWN_FAILURE 125
#define TEXT_MAX ((size_t)1 << 20)

// clang-format off
static const struct verb verbs[] = {
	{VERB_RUN, VERB_STOPS | VERB_RUNNER, "run", "[--] [COMMAND [ARG...]]",
	 "Run a command in a fresh sandbox, and remove it.",
	 "The command gets exactly the arguments given, no shell looks at them; -c runs a line by "
	 "bash. Its output comes as it is written and its exit status becomes ours. The sandbox is "
	 "removed when the command ends, fails or is interrupted, unless --keep is given. Without a command the "
	 "entry point of the template's image runs.\n"
	 "When no daemon is running here and none is named, one is started for the lifetime of this "
	 "command; that needs root.\n",
	 0, -1},
	{VERB_CREATE, 0, "create", "",
	 "Make a sandbox and print its id.",
	 "It lives until it is removed, or --ttl is over; restarts of the daemon do not end it. When "
	 "nobody has used it for --sleep-after it is frozen, and later stopped with its files kept; the "
	 "next request wakes it. --timeout and --cpu-time limit every command that will run in it.\n"
	 "Without --template it starts from 'host', which shows this host's own /usr: for code that "
	 "you do not trust name an imported or frozen template. Without --network it may reach the "
	 "whole internet, but not this host and its networks.\n",
	 0, 0},
	{VERB_EXEC, VERB_STOPS | VERB_RUNNER, "exec", "BOX [--] COMMAND [ARG...]",
	 "Run a command in a sandbox that is there.",
	 "BOX is a name, an id or the short id that 'cove ps' shows. The command runs as the sandbox's user "
	 "in its directory: root and /workspace unless its image or create said otherwise. Interrupting 'cove exec' does not stop it.\n"
	 "With -i what we read is what it reads, as it comes. With -it it has a terminal of its own, "
	 "shown on ours: when the connection is lost it is made again and the screen painted anew, "
	 "and ctrl-p ctrl-q leaves it running for 'cove attach'. With -d it runs by itself, and its "
	 "process id is printed.\n",
	 1, -1},
	{VERB_SHELL, VERB_RUNNER, "shell", "BOX [SHELL]",
	 "Work in a sandbox: a shell on a terminal.",
	 "The shell is bash unless another one is named. ctrl-p ctrl-q leaves it running.\n",
	 1, 2},
	{VERB_ATTACH, VERB_RUNNER, "attach", "BOX [TERMINAL|PROCESS]",
	 "Come back to a terminal, or follow a process.",
	 "A terminal shows its last output first. Without a name it is the one that was opened last. "
	 "The exit status is that of what runs there; ctrl-p ctrl-q leaves it running.\n",
	 1, 2},
	{VERB_LOGS, 0, "logs", "BOX [PROCESS]",
	 "Show what a process wrote.",
	 "From its start on; without a name it is the process that was started last. With -f it is "
	 "followed to its end, over lost connections too. --tail begins with its "
	 "last lines. Times are those at which lines reached the daemon, to a tenth of a second; of what was "
	 "written before the daemon began they are not known: shown as -, and not left out by --since.\n",
	 1, 2},
	{VERB_KILL, 0, "kill", "BOX [PROCESS...]",
	 "End processes of a sandbox, or signal them.",
	 "Without -s: TERM to the whole tree, after 5 seconds KILL, and returns when all of it is "
	 "gone.\n",
	 1, -1},
	{VERB_PYTHON, VERB_RUNNER, "python", "BOX",
	 "Talk to a Python in a sandbox: it keeps its state from line to line.",
	 "Lines are edited, and there is a history of them. ctrl-c interrupts what runs and not the interpreter, ctrl-d "
	 "leaves. Pictures are shown on terminals that can, else saved in a file that is named. What is no terminal is "
	 "read to its end and run as one cell, and the exit status is 1 when that fails.\n",
	 1, 1},
	{VERB_JS, VERB_RUNNER, "js", "BOX",
	 "Talk to a JavaScript in a sandbox: it keeps its state from line to line.",
	 "As 'cove python'.\n",
	 1, 1},
	{VERB_RUN_CODE, VERB_RUNNER, "run-code", "[BOX] FILE|-",
	 "Run a file of code by an interpreter, and show its results.",
	 "In the default context of its language, which remembers what ran there before; --context names another one, -e "
	 "and -w make one of their own. Without BOX it is a fresh sandbox, which is removed afterwards. The exit status "
	 "is 1 when the code fails. With --json each event is a line. Interrupting 'cove run-code' does not end a cell in a sandbox that "
	 "was there before.\n",
	 1, 2},
	{VERB_CP, 0, "cp", "BOX:PATH|FILE|- BOX:PATH|FILE|-",
	 "Copy files and directories into a sandbox, or out of it.",
	 "One of the two is BOX:PATH; relative paths begin at the sandbox's directory, as its commands do. A directory "
	 "goes into a directory that is there, under its own name, or becomes it; DIR/. means what is "
	 "in it. - is a tar stream: from standard input it is unpacked into a directory, to standard "
	 "output a tree is packed.\n",
	 2, 2},
	{VERB_LS, 0, "ls", "BOX:PATH",
	 "List files of a sandbox.",
	 "BOX: alone is the directory that its commands begin in.\n",
	 1, 1},
	{VERB_CAT, 0, "cat", "BOX:PATH...",
	 "Print files of a sandbox.", NULL,
	 1, -1},
	{VERB_PS, 0, "ps", "[BOX]",
	 "List the sandboxes with what they use, or the processes and terminals of one.",
	 "Memory holds the page cache of its files; CPU is the time since its start; the disk is what "
	 "was written to it. No sandbox is woken for that, and memory and CPU of one that is stopped are "
	 "not shown.\n",
	 0, 1},
	{VERB_INSPECT, 0, "inspect", "BOX...",
	 "Show all that is known of sandboxes, as JSON.",
	 "With what each uses at this moment: memory, CPU time, processes, disk. None is woken for "
	 "that.\n",
	 1, -1},
	{VERB_RM, 0, "rm", "BOX...",
	 "Remove sandboxes, whatever runs in them.",
	 "Returns when processes, control groups, mounts and namespaces are verified gone.\n",
	 0, -1},
	{VERB_PAUSE, 0, "pause", "BOX...",
	 "Freeze sandboxes until they are resumed.",
	 "Nothing in them runs, and requests inside of one are told that it is paused.\n",
	 1, -1},
	{VERB_RESUME, 0, "resume", "BOX...",
	 "Let paused sandboxes run again.", NULL,
	 1, -1},
	{VERB_ROTATE_TOKEN, 0, "rotate-token", "BOX...",
	 "End the credential in the path of sandboxes, and print the next.",
	 "A client that has a URL with the old one is refused at its next request.\n",
	 1, -1},
	{VERB_STOP, 0, "stop", "BOX...",
	 "End what runs in sandboxes and keep their files.",
	 "'cove start' or the next request starts them on those.\n",
	 1, -1},
	{VERB_START, 0, "start", "BOX...",
	 "Start stopped sandboxes on their files.", NULL,
	 1, -1},
	{VERB_PORT, 0, "port", "BOX",
	 "List the ports of a sandbox: exposed, or with a listener.", NULL,
	 1, 1},
	{VERB_EXPOSE, 0, "expose", "BOX PORT",
	 "Expose a port of a sandbox, and print the address of its preview.",
	 "The address holds a token, and everybody who has it may look. It stays the same over restarts of "
	 "the daemon and while the sandbox sleeps, until the port is taken back, --expires is over or the "
	 "sandbox is removed. A port that is exposed already keeps its token unless --token names another.\n",
	 2, 2},
	{VERB_UNEXPOSE, 0, "unexpose", "BOX PORT...",
	 "Take ports back: their previews end.", NULL,
	 2, -1},
	{VERB_OPEN, 0, "open", "BOX PORT",
	 "Print the address of a port's preview, or open it in a browser.",
	 "The port is exposed if it is not yet. With --expires the address is a link that ends by itself.\n",
	 2, 2},
	{VERB_FORWARD, 0, "forward", "BOX [ADDRESS:]LOCAL:PORT...",
	 "Forward local TCP ports into a sandbox, until interrupted.",
	 "Each connection to LOCAL on this machine (ADDRESS is 127.0.0.1 unless it is given) becomes one to "
	 "PORT in the sandbox. LOCAL 0 takes any free port; PORT alone means the same number on both sides.\n",
	 2, -1},
	{VERB_POLICY, 0, "policy", "BOX",
	 "Show what a sandbox may reach, or change it.",
	 "A name is name, *.suffix or name:port; without a port it means 80 and 443. What is changed counts "
	 "from the next connection on, and ends those that it would not have let out. --inspect ends TLS to "
	 "a name at the daemon, with a certificate of the sandbox's own authority, so that requests are seen; "
	 "--rule and --secret do so by themselves. A secret is in the environment of what is started in "
	 "the sandbox as a placeholder, and its value takes that place on the way to its hosts. Addresses of "
	 "this host and its networks cannot be allowed here: that is the operator's, by --egress-exceptions.\n",
	 1, 1},
	{VERB_EGRESS, 0, "egress", "BOX",
	 "Show what a sandbox wanted from outside, and what became of it.",
	 "A line for each connection that was let out, or denied; what was denied comes with the command "
	 "that would allow it. With -f it goes on with what happens until the sandbox ends.\n",
	 1, 1},
	{VERB_TEMPLATE_LS, 0, "template ls", "",
	 "List what sandboxes can start from.", NULL,
	 0, 0},
	{VERB_TEMPLATE_IMPORT, 0, "template import", "NAME FILE|DIR|-",
	 "Make a template from an archive or a directory.",
	 "FILE is a tar archive of a root file system, compressed or not, or an OCI image layout in a "
	 "tar file; - reads it from standard input. A directory is packed on the way.\n",
	 2, 2},
	{VERB_TEMPLATE_FREEZE, 0, "template freeze", "NAME",
	 "Copy the host template once, under a name.",
	 "The template 'host' shows this host's own /usr and changes with it: what the host installs "
	 "is in every sandbox made after that, and in a running one after 'cove stop' and 'cove start'. "
	 "A frozen copy does not change.\n",
	 1, 1},
	{VERB_TEMPLATE_RM, 0, "template rm", "TEMPLATE...",
	 "Remove templates. Sandboxes made from them live on.", NULL,
	 1, -1},
	{VERB_KEY_CREATE, 0, "key create", "",
	 "Make a key and print its secret, this once.",
	 "Without --tenant it is for the operator's own sandboxes. Scopes are read, make, use, "
	 "templates and admin; without --scope it has the first three.\n",
	 0, 0},
	{VERB_KEY_LS, 0, "key ls", "",
	 "List the keys.", NULL,
	 0, 0},
	{VERB_KEY_RM, 0, "key rm", "KEY...",
	 "Revoke keys at once.", NULL,
	 1, -1},
	{VERB_TENANT_SET, 0, "tenant set", "TENANT",
	 "Create a tenant, or replace all of its settings.",
	 "What is not given is not bounded, or not allowed.\n",
	 1, 1},
	{VERB_TENANT_LS, 0, "tenant ls", "",
	 "List the tenants, with what they use.", NULL,
	 0, 0},
	{VERB_TENANT_RM, 0, "tenant rm", "TENANT...",
	 "Remove tenants that have no sandboxes, and their keys.", NULL,
	 1, -1},
	{VERB_SESSION_CREATE, VERB_STOPS, "agent-session create", "--user USER [--] COMMAND [ARG...]",
	 "Make a session and print its id, or that of its alias.",
	 "A session is the long-lived owner of work: the command is its runner, which takes one run after "
	 "another. Its sandbox follows from its owner (organisation, user, bot), and is made when it is needed.\n",
	 1, -1},
	{VERB_SESSION_LS, 0, "agent-session ls", "", "List the sessions.", NULL, 0, 0},
	{VERB_SESSION_INSPECT, 0, "agent-session inspect", "SESSION...",
	 "Show all that is known of sessions, as JSON.", NULL, 1, -1},
	{VERB_SESSION_RUN, 0, "agent-session run", "SESSION [INPUT|-]",
	 "Give its runner work, and follow it.",
	 "INPUT is JSON, or else a text; - reads it from standard input. The exit status is 0 when the run "
	 "completes, 1 when it fails and 130 when it is interrupted. Leaving does not end it.\n",
	 1, 2},
	{VERB_SESSION_RUNS, 0, "agent-session runs", "SESSION [RUN...]",
	 "List the runs that have not ended, or those that are named.", NULL, 1, -1},
	{VERB_SESSION_EVENTS, 0, "agent-session events", "SESSION [RUN]",
	 "Show what happens in a run, a line of JSON each, to its end.",
	 "Without a name it is the run that was given last.\n", 1, 2},
	{VERB_SESSION_ANSWER, 0, "agent-session answer", "SESSION ANSWER",
	 "Answer the question of a run.", "ANSWER is JSON, or else a text.\n", 2, 2},
	{VERB_SESSION_INTERRUPT, 0, "agent-session interrupt", "SESSION",
	 "End the run that is under way.", NULL, 1, 1},
	{VERB_SESSION_LOGS, 0, "agent-session logs", "SESSION",
	 "Show what its runner wrote last.", NULL, 1, 1},
	{VERB_SESSION_ATTACH, VERB_RUNNER, "agent-session attach", "SESSION [SHELL]",
	 "Work in a session: a shell on its terminal, in its own directory.",
	 "Its sandbox is made or woken as for a run. ctrl-p ctrl-q leaves the terminal running.\n",
	 1, 2},
	{VERB_SESSION_RM, 0, "agent-session rm", "SESSION...",
	 "Remove sessions: runner, files and records, verified.", NULL, 1, -1},
	{VERB_LOGIN, 0, "login", "URL",
	 "Keep the address of a daemon and a key to it.",
	 "The key is read from standard input, or asked for at the terminal without echo. It is tried, then kept "
	 "with the address as a context in ~/.config/cove/contexts.json (or beneath XDG_CONFIG_HOME), which is "
	 "readable by you alone, and is in use from then on.\n"
	 "A verb finds its daemon by its options, then by COVE_URL and COVE_TOKEN, then by the context in use, then on "
	 "this host: there root has the operator's key, and members of the group cove-users go by a socket, "
	 "without a key.\n",
	 1, 1},
	{VERB_CONTEXT_LS, 0, "context ls", "", "List the contexts that 'cove login' made.", NULL, 0, 0},
	{VERB_CONTEXT_USE, 0, "context use", "NAME", "Use another context; local: the daemon of this host.",
	 "COVE_CONTEXT names another one for a single command.\n", 1, 1},
	{VERB_CONTEXT_RM, 0, "context rm", "NAME...", "Forget contexts and their keys.", NULL, 1, -1},
	{VERB_CLEANUP, 0, "cleanup", "",
	 "Run the janitor now, and show what it did.", NULL,
	 0, 0},
	{VERB_EVENTS, 0, "events", "",
	 "Show what has happened, or follow what happens.",
	 "Sandboxes that were made, ran, slept, woke and ended, keys and tenants that changed, attacks "
	 "and alerts. With -f it goes on with what happens from now on, over restarts of the daemon, "
	 "until it is interrupted; --json prints an object for each line.\n",
	 0, 0},
	{VERB_AUDIT, 0, "audit", "",
	 "Show who changed what.",
	 "Each row is bound to the one before by a hash. --check reads them all and fails when one was "
	 "changed, taken out or put in between.\n",
	 0, 0},
	{VERB_VERIFY, 0, "verify", "",
	 "Compare what is written down with what there is.",
	 "The store, the daemon, the warden, the kernel and the disk: each difference is a line, and "
	 "the exit status is 1 when there is one.\n",
	 0, 0},
	{VERB_SERVE, 0, "serve", "",
	 "Be the daemon: hold the sandboxes and serve the API.",
	 "Needs root to start; what faces the network runs as the user cove, without any privilege. "
	 "Ctrl-C ends it and what runs in the sandboxes; TERM does so too, or leaves the sandboxes to "
	 "the next start, as --on-term says. Sandboxes outlive a daemon that crashes.\n",
	 0, 0},
	{VERB_DRAIN, 0, "drain", "",
	 "End the daemon of this host and what runs in its sandboxes.",
	 "Whatever --on-term says. Returns when processes, control groups, mounts and namespaces are "
	 "verified gone; the disks of sandboxes that can be started again stay. Needs root.\n",
	 0, 0},
	{VERB_RELOAD, 0, "reload", "",
	 "Reload the configuration of this host's daemon.",
	 "Settings that docs/CONFIGURATION.md marks as live count from then on. A file that is not right is "
	 "refused, its reason is in the log, and everything stays as it was. Needs root.\n",
	 0, 0},
	{VERB_UPGRADE, 0, "upgrade", "",
	 "Put the daemon of this host into the binary that lies in its place now.",
	 "Install the new binary over the old one by a rename, then call this. No listener is closed, "
	 "no sandbox ends, requests under way have their grace; a binary that cannot be started is "
	 "refused and nothing happens. Needs root.\n",
	 0, 0},
	{VERB_DOCTOR, 0, "doctor", "",
	 "Tell what this host can and cannot do.",
	 "Tries each kernel feature that cove needs, by using it once, and says what to do about those "
	 "that are missing. Needs root. The exit status is 1 when something required is missing.\n",
	 0, 0},
	{VERB_COMPLETION, 0, "completion", "bash|zsh|fish",
	 "Print a completion script for a shell.",
	 "For bash: source <(cove completion bash)\n",
	 1, 1},
	{VERB_VERSION, 0, "version", "", "Print the version.", NULL, 0, 0},
	{VERB_HELP, 0, "help", "[VERB]", "Explain a verb, or list them all.", NULL, 0, 2},
	{VERB_WORDS, VERB_HIDDEN, "words", "boxes|templates|sessions|processes|files [BOX|BOX:PATH]", "Names, for completion.", NULL,
	 1, 2},
	{.name = NULL},
};
// clang-format on

static const struct alias aliases[] = {
	{"list", "ps"},
	{"stats", "ps"},
	{"top", "ps"},
	{"delete", "rm"},
	{"remove", "rm"},
	{"destroy", "rm"},
	{"new", "create"},
	{"images", "template ls"},
	{"templates", "template ls"},
	{"keys", "key ls"},
	{"agent-sessions", "agent-session ls"},
	{"copy", "cp"},
	{"ports", "port"},
	{"pull", "template import"},
	{"unpause", "resume"},
	{"ssh", "shell"},
	{.word = NULL},
};

#define PORTS_HINT                                                                                 \
	"a port of a sandbox is reached by 'cove forward BOX LOCAL:PORT' on this machine, or by "  \
	"a "                                                                                       \
	"preview: 'cove expose BOX PORT'"
#define FILES_HINT "files are copied: 'cove cp FILE BOX:PATH' and 'cove cp BOX:PATH FILE'"

static const struct stranger strangers[] = {
	{"-p", PORTS_HINT},
	{"--port", PORTS_HINT},
	{"--publish", PORTS_HINT},
	{"-v", FILES_HINT},
	{"--volume", FILES_HINT},
	{"--mount", FILES_HINT},
	{"--image", "'--template' names what a sandbox starts from; 'cove template ls' lists them"},
	{"--net", "'--network' is off, allow or all"},
	{"--cpu", "'--cpus' limits the share of CPUs, '--cpu-time' the CPU time of a command"},
	{"--mem", "'--memory' limits the memory"},
	{"--format", "'--json' prints everything, for jq and the like"},
	{"--output", "'--json' prints everything, for jq and the like"},
	{.option = NULL},
};

static const struct heading headings[] = {
	{VERB_RUN, "Make sandboxes and run commands in them"},
	{VERB_PYTHON, "Run code by an interpreter"},
	{VERB_CP, "Files of a sandbox"},
	{VERB_PS, "Look after sandboxes"},
	{VERB_PORT, "Ports and previews"},
	{VERB_POLICY, "What a sandbox may reach"},
	{VERB_TEMPLATE_LS, "Templates: what sandboxes start from"},
	{VERB_KEY_CREATE, "Keys and tenants"},
	{VERB_SESSION_CREATE, "Agent sessions"},
	{VERB_LOGIN, "Which daemon is used"},
	{VERB_CLEANUP, "The daemon and its host"},
	{VERB_COMPLETION, "Help"},
	{.title = NULL},
};

// Further sections of the man page, in its order.
// clang-format off
static const struct remark remarks[] = {
	{"EXIT STATUS", "0", "All went well; for 'run', 'exec', 'shell' and 'attach', the command's own status is handed on, 128 + N when signal N ended it."},
	{"EXIT STATUS", "124", "The time of --timeout ran out."},
	{"EXIT STATUS", "125", "'run', 'exec', 'shell', 'attach', 'python', 'node' or 'run-code' itself failed."},
	{"EXIT STATUS", "126, 127", "The command cannot be executed, or is not there."},
	{"EXIT STATUS", "130", "Interrupted; the sandbox of 'run' was removed."},
	{"EXIT STATUS", "1 to 8", "Other verbs: 1 failed, 2 a mistake in the command line or the request, 3 not found, 4 not allowed, 5 in conflict with what is there, 6 too large or too many, 7 too slow, 8 not reachable."},
	{"ENVIRONMENT", "COVE_URL", "Address of the daemon, for example http://127.0.0.1:8484. Otherwise the context in use, then the file url in the data directory tells it. unix:PATH names a socket."},
	{"ENVIRONMENT", "COVE_TOKEN", "Key to the daemon. Otherwise the file operator.key in the data directory is used, for a daemon on this machine."},
	{"ENVIRONMENT", "COVE_CONTEXT", "The context to use, in place of the one that 'cove context use' chose; local: the daemon of this host."},
	{"ENVIRONMENT", "COVE_DATA", "The data directory, as --data."},
	{"ENVIRONMENT", "COVE_PICTURES", "How a picture is shown by 'python', 'js' and 'run-code': kitty, iterm, or none, which saves it in a file. Otherwise the terminal tells."},
	{"ENVIRONMENT", "NO_COLOR", "When set, nothing is coloured."},
	{"FILES", "/var/lib/cove", "The data directory of the daemon."},
	{"FILES", "/var/lib/cove/operator.key", "The operator's key, made at the first start, readable by root."},
	{"FILES", "~/.config/cove/contexts.json", "The contexts of 'cove login', with their keys."},
	{"FILES", "/run/cove/api.sock", "The socket of the API for members of the group cove-users, who need no key; users-scopes, users-tenant and users-host of cove.conf say what they may."},
	{"FILES", "~/.local/state/cove", "The histories of 'python' and 'node'."},
	{"FILES", "/var/lib/cove/url", "The address of the running daemon."},
	{"EXAMPLES", "cove run -- python3 -c 'print(6*7)'", "One command in a sandbox of its own."},
	{"EXAMPLES", "cove run -it bash", "A shell in a sandbox that is gone afterwards."},
	{"EXAMPLES", "cove run -i -m 256m --timeout 10s -- python3 - < job.py", "A script from standard input, with limits."},
	{"EXAMPLES", "cove create --name web -l team=a && cove exec web -- npm test", "A sandbox that stays."},
	{"EXAMPLES", "cove shell web", "A look around in it."},
	{"EXAMPLES", "cove cp src web:/workspace && cove exec web make && cove cp web:src/out .", "Files in, files out."},
	{"EXAMPLES", "cove logs -f web $(cove exec -d web npm start)", "A process of its own, followed."},
	{"EXAMPLES", "cove open -b web 3000", "What its server on port 3000 shows, in a browser."},
	{"EXAMPLES", "cove forward web 5432:5432", "Its database, on a port of this machine."},
	{"EXAMPLES", "cove policy web --mode allow --allow pypi.org --allow '*.pythonhosted.org'", "What it may reach, and nothing else."},
	{"EXAMPLES", "cove egress -f --denied web", "What it may not reach, as it tries."},
	{"EXAMPLES", "cove python web", "Python in it, that keeps its state from line to line."},
	{"EXAMPLES", "cove run-code plot.py", "A file of code in a sandbox of its own; figures are shown, or saved."},
	{"EXAMPLES", "cove logs --tail 20 --timestamps web", "The last lines of the process that was started last."},
	{"EXAMPLES", "cove ls -l web:/etc", "A directory of it; web: alone is its own directory, /workspace unless its image says otherwise."},
	{"EXAMPLES", "cove cat web:/etc/hosts", "A file of it."},
	{"EXAMPLES", "cove ps -q | xargs -r cove inspect", "All that is known of every sandbox."},
	{"EXAMPLES", "cove ps web", "What runs in it: processes and terminals."},
	{"EXAMPLES", "cove expose web 3000 --expires 1h", "The address of a preview that ends by itself."},
	{"EXAMPLES", "cove events -f --kind sandbox", "What happens to sandboxes, as it happens."},
	{"EXAMPLES", "cove key create --tenant acme --scope make --scope use", "A key for somebody else's program."},
	{"EXAMPLES", "cove rm -f web", "And its end."},
	{"EXAMPLES", "cove login http://127.0.0.1:8484 --name work", "A daemon at the end of a tunnel, and a key that is asked for: in use from then on."},
	{"EXAMPLES", "docker export ID | cove template import debian -", "A root file system from elsewhere."},
	{.section = NULL},
};
// clang-format on

static struct grammar grammar = {
	.verbs = verbs,
	.options = cli_options,
	.remarks = remarks,
	.aliases = aliases,
	.strangers = strangers,
	.headings = headings,
};

#define OPTIONS_MAX 256 // with the settings of serve

// Inserts the row in alphabetical order.
static void cli_add_row(struct option *rows, size_t *count, const struct option *row)
{
	size_t at = *count;

	while (at > 0 && strcmp(rows[at - 1].name, row->name) > 0)
		at--;
	memmove(rows + at + 1, rows + at, (*count - at) * sizeof(*rows));
	rows[at] = *row;
	++*count;
}

// The settings of serve become its options: one table parses and documents them.
static void add_settings(const struct setting *settings)
{
	static struct option rows[OPTIONS_MAX];
	size_t count = 0;

	for (const struct option *o = cli_options; o->name; o++) {
		assert(count + 1 < OPTIONS_MAX);
		rows[count++] = *o;
	}
	for (const struct setting *s = settings; s->name; s++) {
		struct option row = {OPT_SETTING, 0, s->name, s->arg, s->help, ON(SERVE)};

		assert(count + 1 < OPTIONS_MAX);
		if (*s->otherwise)
			row.help = mem_fmt("%s (default %s)", s->help, s->otherwise);
		cli_add_row(rows, &count, &row);
	}
	rows[count] = (struct option){.name = NULL};
	grammar.options = rows;
}

static fallible print_text(struct buf *text)
{
	fwrite(text->at, 1, text->len, stdout);
	return OK;
}

fallible cli_complete(struct call *call)
{
	auto_buf text = BUF_INIT(TEXT_MAX);

	TRY(complete_script(&grammar, call->words[0], &text));
	return print_text(&text);
}

fallible cli_version(struct call *call)
{
	if (call_has(call, OPT_JSON))
		print_line("{\"version\": \"%s\"}", COVE_VERSION);
	else
		print_line("cove %s", COVE_VERSION);
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

// Help for the verb or group that the words name; for all when there is none.
static fallible cli_explain(int count, char **words)
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

fallible cli_help(struct call *call)
{
	auto_buf text = BUF_INIT(TEXT_MAX);

	if (!call_has(call, OPT_MAN))
		return cli_explain(call->word_count, call->words);
	help_man(&grammar, &text);
	return print_text(&text);
}

// Handles `cove --help` and the like, and `cove template` alone.
static fallible without_verb(int argc, char **argv, bool *done)
{
	static char version[] = "version";
	const char *first = argc ? argv[0] : "";

	*done = true;
	if (argc == 0 || strcmp(first, "-h") == 0 || strcmp(first, "--help") == 0)
		return cli_explain(0, NULL);
	if (strcmp(first, "-V") == 0 || strcmp(first, "--version") == 0)
		argv[0] = version;
	else if (is_group(first) && (argc == 1 || argv[1][0] == '-'))
		return cli_explain(1, argv);
	*done = false;
	return OK;
}

// main calls the supervisor; the table has this verb for its help.
fallible cli_serve(struct call *call)
{
	return err_new(INVALID, "not_here", "'cove %s' is not run from here", call->verb->name);
}

static fallible cli_obey(struct call *call, int argc, char **argv)
{
#define V(id, run) [VERB_##id] = run,
	static verb_fn *const runs[] = {VERBS(V)};
#undef V
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
	return runs[call->verb->id](call);
}

static int status_of(const struct call *call, const struct err *err)
{
	if (call->exit)
		return call->exit;
	return call->verb && call->verb->flags & VERB_RUNNER ? EXIT_OWN_FAILURE : err_exit(err);
}

// An earlier write error is in the stream's error flag.
static fallible flush_output(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO};
	int errnum = fflush(stdout) ? errno : 0;

	if (!errnum && !ferror(stdout))
		return OK;
	// The errno of an earlier failure is lost: an empty write to a broken device repeats it.
	if (!errnum && write(STDOUT_FILENO, "", 0) < 0)
		errnum = errno;
	if (errnum == EPIPE || (poll(&out, 1, 0) == 1 && out.revents & POLLERR))
		return err_new(CANCELLED, "pipe_closed", "the reader of the output is gone");
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

	// A closed pipe (| head) is a failed write, reported by the exit status alone.
	signal(SIGPIPE, SIG_IGN);
	weak_open();
	add_settings(settings);
	err = cli_obey(&call, argc - 1, argv + 1);
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
