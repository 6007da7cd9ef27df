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
#include "cli/forward.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
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
	 "Run a command in a new sandbox, then remove the sandbox.",
	 "The command gets the arguments as they are given; no shell parses them. -c runs a line by "
	 "bash. Output is printed as the command writes it. The exit status of the command becomes "
	 "ours. The sandbox is removed when the command ends, fails or is interrupted, unless --keep "
	 "is given. Without a command the entry point of the template's image runs.\n"
	 "If no daemon runs on this host and none is named, 'cove run' starts one for the time of the "
	 "command. That needs root.\n"
	 "With --sync the command runs in the sandbox of the worktree ('cove help sync'), which stays. "
	 "The exit status is 2 when the sync fails.\n",
	 0, -1},
	{VERB_CREATE, 0, "create", "",
	 "Create a sandbox and print its id.",
	 "The sandbox exists until it is removed or --ttl is over. A restart of the daemon does not "
	 "end it. A sandbox that was idle for --sleep-after is frozen, and later stopped with its "
	 "files kept. The next request thaws or starts it. --timeout and --cpu-time limit every "
	 "command in it.\n"
	 "Without --template the sandbox starts from 'host', which shows this host's own /usr. Name an "
	 "imported or frozen template for code that you do not trust. Without --network the sandbox "
	 "may reach the whole internet, but not this host and its networks.\n",
	 0, 0},
	{VERB_EXEC, VERB_STOPS | VERB_RUNNER, "exec", "BOX [--] COMMAND [ARG...]",
	 "Run a command in an existing sandbox.",
	 "BOX is a name, an id or the short id that 'cove ps' shows. The command runs as the sandbox's "
	 "user in its directory: root and /workspace unless its image or create set others. "
	 "Interrupting 'cove exec' does not stop the command.\n"
	 "With -i the command reads our standard input, as it comes. With -it the command has a "
	 "terminal of its own, shown on ours. A lost connection is opened again, and the screen is "
	 "drawn again. ctrl-p ctrl-q detaches; 'cove attach' shows the terminal again. With -d the "
	 "command runs in the background, and its process id is printed.\n",
	 1, -1},
	{VERB_SHELL, VERB_RUNNER, "shell", "BOX [SHELL]",
	 "Open a shell on a terminal of a sandbox.",
	 "The shell is bash unless another one is named. ctrl-p ctrl-q detaches and leaves the shell "
	 "running.\n",
	 1, 2},
	{VERB_ATTACH, VERB_RUNNER, "attach", "BOX [TERMINAL|PROCESS]",
	 "Attach to a terminal, or follow a process.",
	 "A terminal shows its last output first. Without a name the terminal that was opened last is "
	 "taken. The exit status is that of the program on the terminal, or of the process. ctrl-p "
	 "ctrl-q detaches and leaves the program running.\n",
	 1, 2},
	{VERB_LOGS, 0, "logs", "BOX [PROCESS]",
	 "Show the output of a process.",
	 "The output is shown from its start. Without a name the process that was started last is "
	 "taken. -f follows the output to its end, over lost connections too. --tail starts with the "
	 "last lines. A timestamp is the time at which the line reached the daemon, to a tenth of a "
	 "second. Lines that were written before the daemon started have no known time: -t shows -, "
	 "and --since does not omit them.\n",
	 1, 2},
	{VERB_KILL, 0, "kill", "BOX [PROCESS...]",
	 "End processes of a sandbox, or send them a signal.",
	 "Without -s the whole process tree gets TERM, and after 5 seconds KILL. The verb returns when "
	 "all of the tree is gone.\n",
	 1, -1},
	{VERB_PYTHON, VERB_RUNNER, "python", "BOX",
	 "Open a Python prompt in a sandbox.",
	 "The interpreter keeps its state from line to line. Lines can be edited and have a history. "
	 "ctrl-c interrupts the running code and not the interpreter. ctrl-d leaves. A picture is "
	 "shown if the terminal can show it, else it is saved in a file whose name is printed. If "
	 "standard input is not a terminal, all of it runs as one cell, and the exit status is 1 when "
	 "the cell fails.\n",
	 1, 1},
	{VERB_JS, VERB_RUNNER, "js", "BOX",
	 "Open a JavaScript prompt in a sandbox.",
	 "The prompt works as that of 'cove python'.\n",
	 1, 1},
	{VERB_RUN_CODE, VERB_RUNNER, "run-code", "[BOX] FILE|-",
	 "Run a file of code by an interpreter, and show its results.",
	 "The code runs in the default context of its language, which keeps the state of earlier "
	 "cells. --context names another context; -e and -w make a new one. Without BOX the code runs "
	 "in a new sandbox, which is removed afterwards. The exit status is 1 when the code fails. "
	 "With --json each event is a line. Interrupting 'cove run-code' does not end a cell in an "
	 "existing sandbox.\n",
	 1, 2},
	{VERB_CP, 0, "cp", "BOX:PATH|FILE|- BOX:PATH|FILE|-",
	 "Copy files and directories into a sandbox, or out of it.",
	 "One of the two arguments is BOX:PATH. A relative path starts at the sandbox's working "
	 "directory. A directory is copied into an existing directory under its own name; if the "
	 "destination does not exist the copy gets its name. DIR/. means the content of DIR. - is a "
	 "tar stream: standard input is unpacked into a directory, a tree is packed to standard "
	 "output.\n",
	 2, 2},
	{VERB_LS, 0, "ls", "BOX:PATH",
	 "List files of a sandbox.",
	 "BOX: alone is the sandbox's working directory.\n",
	 1, 1},
	{VERB_CAT, 0, "cat", "BOX:PATH...",
	 "Print files of a sandbox.", NULL,
	 1, -1},
	{VERB_SYNC_IN, 0, "sync in", "",
	 "Send what changed in a worktree to its sandbox.",
	 "The worktree is the directory of --worktree, else the repository around the current directory, "
	 "else that directory. It has one sandbox, which the first 'cove sync in' makes; --sandbox names "
	 "another one. Files that git tracks or does not ignore travel to /workspace, with modes and "
	 "symbolic links. '.git' and ignored files never do. Later syncs send what changed since the last "
	 "one, and commit it to a repository in the sandbox.\n"
	 "A file that changed on both sides is a conflict: all are named, nothing is changed, and the exit "
	 "status is 2, as of every failure. --ours takes this host's file, --theirs the sandbox's. --full "
	 "makes the sandbox equal to the worktree, and removes other files that git does not ignore.\n",
	 0, 0},
	{VERB_SYNC_OUT, 0, "sync out", "",
	 "Bring what changed in a sandbox back to its worktree.",
	 "Changes are measured against the last sync, whatever was committed in the sandbox. All of them are "
	 "made, or none. A file that changed on both sides, or that exists on this host and never travelled, "
	 "is a conflict, as with 'cove sync in'.\n",
	 0, 0},
	{VERB_SYNC_STATUS, 0, "sync status", "",
	 "Show what 'cove sync in' and 'cove sync out' would do.", NULL,
	 0, 0},
	{VERB_SYNC_GC, 0, "sync gc", "",
	 "Remove sandboxes whose worktree on this host is gone.",
	 "A sandbox with changes that were not brought back is named and kept, unless --force is given.\n",
	 0, 0},
	{VERB_AGENT_RUN, VERB_STOPS, "agent run", "[--] COMMAND|PROMPT [ARG...]",
	 "Let a coding agent, or any command, work on a worktree in its sandbox.",
	 "The worktree goes to its sandbox as with 'cove sync in', the command runs there, and what it "
	 "changed comes back as with 'cove sync out', also when it failed. The command gets the arguments "
	 "as they are given, no terminal and no input, unless -t or -it is given; then ctrl-p ctrl-q "
	 "detaches. Its directory is the one that ours is a copy of. '.git' and ignored files stay here, "
	 "and so do credentials that --file does not name. Interrupting stops the command, and brings its "
	 "changes back.\n"
	 "The command outlives 'cove agent run': 'cove agent reconnect' shows its output from the start, "
	 "and brings the changes back. What happens is told in lines of stderr, as [sandbox:EVENT] TEXT; "
	 "lines of the command's stderr are [sandbox:stderr]. With --json each event and each piece of "
	 "output is a line of JSON. The exit status is 0, or 1 when the command failed, 2 of a failure of "
	 "cove, 124 after --timeout, 130 when it was stopped.\n"
	 "--provider daytona runs it in a sandbox of a server that speaks Daytona's API over HTTP; local, "
	 "with --allow-local, in a copy of the worktree on this host, with all rights of the caller. Both "
	 "keep the manifest in ~/.local/state/cove, and have no -t, --preview and --user. When a provider "
	 "cannot be reached, [sandbox:fallback] says what runs without it.\n",
	 0, -1},
	{VERB_AGENT_RECONNECT, 0, "agent reconnect", "RUN",
	 "Show a run from its start to its end, then bring its changes back.", NULL,
	 1, 1},
	{VERB_AGENT_STATUS, 0, "agent status", "RUN",
	 "Show whether a run goes on.", NULL,
	 1, 1},
	{VERB_AGENT_STOP, 0, "agent stop", "RUN",
	 "End a run.",
	 "The whole process tree gets TERM, and after 5 seconds KILL. Its changes stay in the sandbox "
	 "until 'cove agent run', which waits for it, or 'cove agent reconnect' brings them back.\n",
	 1, 1},
	{VERB_AGENT_LIST, 0, "agent list", "",
	 "List the runs in sandboxes of worktrees of this machine.", NULL,
	 0, 0},
	{VERB_AGENT_SERVE, VERB_STOPS, "agent serve", "--root DIR [--] [COMMAND [ARG...]]",
	 "Serve Thor's route /exec/sandbox-coder on loopback.",
	 "POST {\"args\": [...], \"cwd\": DIR} runs the agent of this command line, or of --agent, on the "
	 "worktree of cwd, which has to be beneath a --root. The args are the prompt, which replaces the "
	 "word {prompt} and is COVE_AGENT_PROMPT; --session ID before it continues a session; --reconnect "
	 "RUN and --pull BOX are 'cove agent reconnect' and 'cove sync out'. The answer is lines of JSON: "
	 "{\"stream\": \"stdout\"|\"stderr\", \"data\"}, at last {\"exitCode\"}. Empty lines keep "
	 "the connection alive. A request of another Host or Origin is refused. Options of 'cove agent "
	 "run' hold for every run.\n",
	 0, -1},
	{VERB_PS, 0, "ps", "[BOX]",
	 "List the sandboxes with their resource usage, or the processes and terminals of one.",
	 "Memory includes the page cache of the sandbox's files. CPU is the CPU time since the start "
	 "of the sandbox. Disk is the space of the files that it has written. The verb wakes no "
	 "sandbox. Memory and CPU of a stopped sandbox are not shown.\n",
	 0, 1},
	{VERB_INSPECT, 0, "inspect", "BOX...",
	 "Show all fields of sandboxes, as JSON.",
	 "The fields include the usage of this moment: memory, CPU time, processes, disk. The verb "
	 "wakes no sandbox.\n",
	 1, -1},
	{VERB_TOP, 0, "top", "",
	 "Show what sandboxes use now, again and again.",
	 "On a terminal the verb shows a live table, the busiest sandbox first, until it is interrupted. "
	 "Else, or with --json, it prints an object of the host and one for each sandbox, a line each.\n",
	 0, 0},
	{VERB_STATS, 0, "stats", "[BOX]",
	 "Show what a sandbox, or the whole host, uses now.",
	 "--every repeats it, a JSON object a line. The verb wakes no sandbox.\n",
	 0, 1},
	{VERB_USAGE, 0, "usage", "",
	 "Show what was used in a period, and what it cost.",
	 "Sums are of whole hours: CPU time as the kernel counted it, memory and disk over time, and "
	 "network requests. Prices are in the section [prices] of the server's configuration.\n",
	 0, 0},
	{VERB_RM, 0, "rm", "BOX...",
	 "Remove sandboxes with all their processes.",
	 "The verb returns when processes, control groups, mounts and namespaces are verified gone.\n"
	 "A sandbox with changes that were not brought back ('cove agent run') needs --force.\n",
	 0, -1},
	{VERB_PAUSE, 0, "pause", "BOX...",
	 "Freeze sandboxes until they are resumed.",
	 "No process of a paused sandbox runs. A request to a paused sandbox is refused with the "
	 "reason 'paused'.\n",
	 1, -1},
	{VERB_RESUME, 0, "resume", "BOX...",
	 "Thaw paused sandboxes.", NULL,
	 1, -1},
	{VERB_ROTATE_TOKEN, 0, "rotate-token", "BOX...",
	 "Replace the path token of sandboxes, and print the new URL.",
	 "A client that has a URL with the old token is refused at its next request.\n",
	 1, -1},
	{VERB_STOP, 0, "stop", "BOX...",
	 "Stop sandboxes and keep their files.",
	 "All processes end. 'cove start' or the next request starts the sandbox on its files.\n",
	 1, -1},
	{VERB_START, 0, "start", "BOX...",
	 "Start stopped sandboxes on their files.", NULL,
	 1, -1},
	{VERB_ARCHIVE, 0, "archive", "BOX...",
	 "Pack the files of stopped sandboxes, so that they take less disk.",
	 "The files of a sandbox become one packed file; its disk is freed when that was read back. 'cove "
	 "start' or the next request brings them back. A snapshot or a fork works without. 'cove create "
	 "--archive-after TIME' has it done by itself.\n",
	 1, -1},
	{VERB_UPDATE, 0, "update", "BOX...",
	 "Change the limits of sandboxes, running or not.",
	 "The options that are given replace the limits of that name; all of them, or none. A limit "
	 "below what is in use is refused. Where the disk of a sandbox is an image ('cove doctor'), "
	 "--disk needs a stopped sandbox.\n",
	 1, -1},
	{VERB_SNAPSHOT, 0, "snapshot", "BOX [NAME]",
	 "Make a template of the files of a sandbox, and print its name.",
	 "'cove run --template NAME' and 'cove create --template NAME' start from it; 'cove template ls' "
	 "lists it, 'cove template rm' removes it. A running sandbox is frozen while its files are "
	 "copied, and runs on: the files are those of one moment. User, working directory and limits "
	 "of the sandbox are the defaults of those that start from the snapshot. Processes, sessions, "
	 "environment, secrets, ports and what is in /run and /dev/shm are not part of it.\n",
	 1, 2},
	{VERB_FORK, 0, "fork", "BOX",
	 "Make sandboxes with the files of a sandbox, and print their ids.",
	 "All of them have the files of one moment, and the limits, environment, labels and network of "
	 "the sandbox, with its secrets. Processes and ports are not copied. The sandbox runs on.\n",
	 1, 1},
	{VERB_PORT, 0, "port", "BOX",
	 "List the ports of a sandbox: exposed, or with a listener.", NULL,
	 1, 1},
	{VERB_EXPOSE, 0, "expose", "BOX PORT",
	 "Expose a port of a sandbox, and print the address of its preview.",
	 "The address holds a token: everybody who has the address may use the preview. The address "
	 "stays the same over restarts of the daemon and while the sandbox sleeps. It ends when the "
	 "port is unexposed, --expires is over or the sandbox is removed. A port that is exposed "
	 "already keeps its token unless --token names another.\n",
	 2, 2},
	{VERB_UNEXPOSE, 0, "unexpose", "BOX PORT...",
	 "Unexpose ports: their previews end.", NULL,
	 2, -1},
	{VERB_OPEN, 0, "open", "BOX PORT",
	 "Print the address of a port's preview, or open it in a browser.",
	 "The port is exposed if it is not yet. With --expires the address is a link that expires.\n",
	 2, 2},
	{VERB_FORWARD, 0, "forward", "BOX [ADDRESS:]LOCAL:PORT...",
	 "Forward local TCP ports into a sandbox, until interrupted.",
	 "Each connection to LOCAL on this machine (ADDRESS is 127.0.0.1 unless it is given) becomes "
	 "one to PORT in the sandbox. LOCAL 0 takes any free port. PORT alone means the same number on "
	 "both sides.\n",
	 2, -1},
	{VERB_POLICY, 0, "policy", "BOX",
	 "Show or change the network policy of a sandbox.",
	 "A name is name, *.suffix or name:port; without a port it means 80 and 443. ADDRESS/BITS is a range. A change applies "
	 "from the next connection on, and ends the connections that it does not allow. --inspect "
	 "terminates TLS to a name at the daemon, with a certificate of the sandbox's own authority, "
	 "so that requests are visible. --rule and --secret imply --inspect. A secret is a placeholder "
	 "in the environment of new commands of the sandbox; the daemon replaces the placeholder by "
	 "the value in requests to the secret's hosts. Addresses of this host and its networks cannot "
	 "be allowed here: the operator does that with --egress-exceptions.\n",
	 1, 1},
	{VERB_EGRESS, 0, "egress", "BOX",
	 "Show the outbound connections of a sandbox, allowed and denied.",
	 "Each connection is a line. A denied connection has a second line with the command that would "
	 "allow it. -f goes on with new connections until the sandbox ends.\n",
	 1, 1},
	{VERB_SECRET_SET, 0, "secret set", "SECRET --for HOST",
	 "Set a secret of the tenant, or replace it.",
	 "The value is read from standard input; on a terminal it is typed without echo. A sandbox that "
	 "is created with --secret SECRET has a placeholder in the variable of that name. The value takes the "
	 "placeholder's place in requests to the hosts, or is sent as a header (--header) or as a query "
	 "parameter (--query). A new value is in force from the next request on.\n",
	 1, 1},
	{VERB_SECRET_LS, 0, "secret ls", "",
	 "List the secrets of the tenant, without values.", NULL,
	 0, 0},
	{VERB_SECRET_INSPECT, 0, "secret inspect", "SECRET...",
	 "Print everything about secrets but their values, as JSON.", NULL,
	 1, -1},
	{VERB_SECRET_RM, 0, "secret rm", "SECRET...",
	 "Remove secrets. No sandbox sends them any more.", NULL,
	 1, -1},
	{VERB_TEMPLATE_LS, 0, "template ls", "",
	 "List the templates of sandboxes.", NULL,
	 0, 0},
	{VERB_TEMPLATE_PULL, 0, "template pull", "IMAGE",
	 "Pull an image from a registry as a template.",
	 "IMAGE is a name as docker takes it: python:3.12, ghcr.io/org/app@sha256:DIGEST. Its layers are "
	 "checked, unpacked and shared with other images; its environment, user and directory hold in "
	 "sandboxes. Credentials are those of 'docker login' and 'podman login', for this request only.\n",
	 1, 1},
	{VERB_TEMPLATE_BUILD, 0, "template build", "DIR | --from IMAGE --setup FILE",
	 "Build a template from a Dockerfile, or by a script.",
	 "DIR is the context of COPY, without what its .dockerignore leaves out. Each RUN is a command "
	 "in a sandbox, with the limits and the network policy of one. The log is printed on stderr as "
	 "it comes, and the name of the template at the end. Interrupting the verb cancels the build. "
	 "docs/API.md lists what a Dockerfile may contain. --setup FILE stands for a Dockerfile that runs "
	 "the script in the image or template of --from; the same script is not run twice.\n",
	 0, 1},
	{VERB_TEMPLATE_IMPORT, 0, "template import", "NAME FILE|DIR|-",
	 "Make a template from an archive or a directory.",
	 "FILE is a tar archive of a root file system, compressed or not, or an OCI image layout in a "
	 "tar file. - reads it from standard input. A directory is packed on the way.\n",
	 2, 2},
	{VERB_TEMPLATE_EXPORT, 0, "template export", "NAME",
	 "Write a template or snapshot as an OCI image layout in a tar file.",
	 "podman, skopeo and umoci read the file, and 'cove template import' does on any host. An image has "
	 "its layers, a snapshot two: its template and what was changed. Processes, tmpfs and volumes are in "
	 "none. To push: skopeo copy oci-archive:FILE docker://REGISTRY/NAME:TAG.\n",
	 1, 1},
	{VERB_TEMPLATE_FREEZE, 0, "template freeze", "NAME",
	 "Copy the host template once, under a name.",
	 "The template 'host' shows this host's own /usr and changes with it. A package that the host "
	 "installs is in every sandbox made after that, and in a running one after 'cove stop' and "
	 "'cove start'. A frozen copy does not change.\n",
	 1, 1},
	{VERB_TEMPLATE_RM, 0, "template rm", "TEMPLATE...",
	 "Remove templates. Sandboxes made from them go on.", NULL,
	 1, -1},
	{VERB_TEMPLATE_PRUNE, 0, "template prune", "",
	 "Remove images that only creates have pulled, and layers that nothing holds.", NULL,
	 0, 0},
	{VERB_POOL_SET, 0, "pool set", "POOL",
	 "Make a pool of prepared sandboxes, or change it.",
	 "A sandbox that is created with --pool POOL is a member that was made, started and found ready "
	 "before. For templates that start slowly; a plain sandbox needs no pool.\n",
	 1, 1},
	{VERB_POOL_LS, 0, "pool ls", "",
	 "List the pools of the tenant.", NULL,
	 0, 0},
	{VERB_POOL_INSPECT, 0, "pool inspect", "POOL...",
	 "Print everything about pools, as JSON.", NULL,
	 1, -1},
	{VERB_POOL_RM, 0, "pool rm", "POOL...",
	 "Delete pools with their members. Sandboxes that were claimed live on.", NULL,
	 1, -1},
	{VERB_VOLUME_CREATE, 0, "volume create", "VOLUME",
	 "Create a volume: a directory that outlives sandboxes.",
	 "A sandbox that is created with --volume VOLUME:PATH has it at PATH. Several sandboxes may "
	 "have the same volume at once.\n",
	 1, 1},
	{VERB_VOLUME_LS, 0, "volume ls", "",
	 "List the volumes of the tenant.", NULL,
	 0, 0},
	{VERB_VOLUME_INSPECT, 0, "volume inspect", "VOLUME...",
	 "Print everything about volumes, as JSON.", NULL,
	 1, -1},
	{VERB_VOLUME_RM, 0, "volume rm", "VOLUME...",
	 "Delete volumes with their files. One that a sandbox has, also a stopped one, is refused.", NULL,
	 1, -1},
	{VERB_REGISTRY_LOGIN, 0, "registry login", "HOST",
	 "Store a credential for a registry; pulls of the tenant use it.",
	 "The registry is asked first whether it accepts the credential. The password is read from "
	 "standard input; on a terminal it is typed without echo. Without --username the credential of "
	 "docker's files is stored.\n",
	 1, 1},
	{VERB_REGISTRY_LS, 0, "registry ls", "",
	 "List the registries that the tenant has a credential for.", NULL,
	 0, 0},
	{VERB_REGISTRY_LOGOUT, 0, "registry logout", "HOST...",
	 "Remove credentials for registries.", NULL,
	 1, -1},
	{VERB_KEY_CREATE, 0, "key create", "",
	 "Create a key and print its secret, this once.",
	 "Without --tenant the key is for the operator's own sandboxes. Scopes are read, make, use, "
	 "templates and admin. Without --scope the key has the first three.\n",
	 0, 0},
	{VERB_KEY_LS, 0, "key ls", "",
	 "List the keys.", NULL,
	 0, 0},
	{VERB_KEY_RM, 0, "key rm", "KEY...",
	 "Revoke keys at once.", NULL,
	 1, -1},
	{VERB_TENANT_SET, 0, "tenant set", "TENANT",
	 "Create a tenant, or replace all of its settings.",
	 "A limit that is not given is not set. A permission that is not given is denied.\n",
	 1, 1},
	{VERB_TENANT_LS, 0, "tenant ls", "",
	 "List the tenants, with their usage.", NULL,
	 0, 0},
	{VERB_TENANT_RM, 0, "tenant rm", "TENANT...",
	 "Remove tenants that have no sandboxes, and their keys.", NULL,
	 1, -1},
	{VERB_BUDGET_SET, 0, "budget set", "BUDGET",
	 "Set a budget of a tenant, a label or an agent session, or replace it.",
	 "At 80 % there is an event. At 100 % idle sandboxes are paused, the oldest first, and new ones "
	 "are refused, until the period ends or the budget is raised. For the operator.\n",
	 1, 1},
	{VERB_BUDGET_LS, 0, "budget ls", "",
	 "List budgets and what is used of them.", NULL,
	 0, 0},
	{VERB_BUDGET_INSPECT, 0, "budget inspect", "BUDGET...",
	 "Show all fields of budgets, as JSON.", NULL,
	 1, -1},
	{VERB_BUDGET_RM, 0, "budget rm", "BUDGET...",
	 "Remove budgets; sandboxes that they paused go on.", NULL,
	 1, -1},
	{VERB_SESSION_CREATE, VERB_STOPS, "agent-session create", "--user USER [--] COMMAND [ARG...]",
	 "Create a session and print its id, or that of its alias.",
	 "A session is the long-lived owner of runs. The command is its runner, which takes one run "
	 "after another. The owner of the session (organisation, user, bot) decides its sandbox, which "
	 "is created when it is needed, with the template, network and secrets of its first session. "
	 "--file brings the runner along.\n",
	 1, -1},
	{VERB_SESSION_LS, 0, "agent-session ls", "",
	 "List the sessions.", NULL,
	 0, 0},
	{VERB_SESSION_INSPECT, 0, "agent-session inspect", "SESSION...",
	 "Show all fields of sessions, as JSON.", NULL,
	 1, -1},
	{VERB_SESSION_RUN, 0, "agent-session run", "SESSION [INPUT|-]",
	 "Send a run to the runner of a session, and follow it.",
	 "INPUT is JSON, or else a text. - reads it from standard input. The exit status is 0 when the "
	 "run completes, 1 when it fails and 130 when it is interrupted. Leaving does not end the run.\n",
	 1, 2},
	{VERB_SESSION_RUNS, 0, "agent-session runs", "SESSION [RUN...]",
	 "List the runs that have not ended, or those that are named.", NULL,
	 1, -1},
	{VERB_SESSION_EVENTS, 0, "agent-session events", "SESSION [RUN]",
	 "Show the events of a run to its end, as lines of JSON.",
	 "Without a name the run that was sent last is taken.\n",
	 1, 2},
	{VERB_SESSION_ANSWER, 0, "agent-session answer", "SESSION ANSWER",
	 "Answer the question of a run.",
	 "ANSWER is JSON, or else a text.\n",
	 2, 2},
	{VERB_SESSION_INTERRUPT, 0, "agent-session interrupt", "SESSION",
	 "Interrupt the current run.", NULL,
	 1, 1},
	{VERB_SESSION_LOGS, 0, "agent-session logs", "SESSION",
	 "Show the last output of the runner.", NULL,
	 1, 1},
	{VERB_SESSION_ATTACH, VERB_RUNNER, "agent-session attach", "SESSION [SHELL]",
	 "Open a shell on the session's terminal, in the session's directory.",
	 "The sandbox is created or woken as for a run. ctrl-p ctrl-q detaches and leaves the terminal "
	 "running.\n",
	 1, 2},
	{VERB_SESSION_RM, 0, "agent-session rm", "SESSION...",
	 "Remove sessions: runner, files and records, verified.", NULL,
	 1, -1},
	{VERB_SUBMIT, VERB_STOPS | VERB_RUNNER, "submit", "[--] [COMMAND [ARG...]]",
	 "Submit an execution, and follow it to its end.",
	 "An execution runs a command, or what its type runs, in a sandbox of its own within the "
	 "limits of its type: memory, CPU time, wall time, storage and network requests of all of it. "
	 "The sandbox is removed at the end; logs and artifacts stay until 'cove executions rm'. "
	 "The steps are shown on a terminal, then the output. The exit status of the execution becomes "
	 "ours: 124 when its time is over, 130 when it was cancelled. Leaving does not end the "
	 "execution. -d prints its id at once.\n"
	 "Without a command, and a type that has none, the execution is provisioned and waits for "
	 "'cove executions exec', 'complete' and 'fail'.\n",
	 0, -1},
	{VERB_EXECUTIONS_LS, 0, "executions ls", "",
	 "List the executions.", NULL,
	 0, 0},
	{VERB_EXECUTIONS_INSPECT, 0, "executions inspect", "EXECUTION...",
	 "Show all fields of executions, as JSON.",
	 "The fields include attempts, steps, usage and artifacts. `suggestion` has what past executions "
	 "of its profile and of its label `repository` used, and limits above that; 'cove submit --suggested' applies them.\n",
	 1, -1},
	{VERB_EXECUTIONS_LOGS, 0, "executions logs", "EXECUTION",
	 "Show the output of an execution.",
	 "The output is kept when the sandbox is gone. -f follows it to the end, over lost connections "
	 "too.\n",
	 1, 1},
	{VERB_EXECUTIONS_WAIT, VERB_RUNNER, "executions wait", "EXECUTION",
	 "Wait for the end of an execution, and exit with its status.", NULL,
	 1, 1},
	{VERB_EXECUTIONS_EXEC, VERB_STOPS | VERB_RUNNER, "executions exec", "EXECUTION [--] COMMAND [ARG...]",
	 "Run a command in an execution that is ready.", NULL,
	 1, -1},
	{VERB_EXECUTIONS_COMPLETE, 0, "executions complete", "EXECUTION [RESULT]",
	 "End an execution that is ready or running, as completed.",
	 "RESULT is JSON, or else a text.\n",
	 1, 2},
	{VERB_EXECUTIONS_FAIL, 0, "executions fail", "EXECUTION REASON",
	 "End an execution that is ready or running, as failed.", NULL,
	 2, 2},
	{VERB_EXECUTIONS_CANCEL, 0, "executions cancel", "EXECUTION...",
	 "Cancel executions that have not ended.", NULL,
	 1, -1},
	{VERB_EXECUTIONS_RETRY, VERB_RUNNER, "executions retry", "EXECUTION",
	 "Submit an execution again, and follow it as 'cove submit'.", NULL,
	 1, 1},
	{VERB_EXECUTIONS_REPLAY, VERB_RUNNER, "executions replay", "EXECUTION",
	 "Repeat an execution in a fresh sandbox, and follow it as 'cove submit'.",
	 "The replay has the inputs, environment, limits and command that were recorded. 'cove executions "
	 "diff' shows what came out differently.\n",
	 1, 1},
	{VERB_EXECUTIONS_DIFF, 0, "executions diff", "EXECUTION EXECUTION",
	 "Compare the outcomes of two executions, as JSON.", NULL,
	 2, 2},
	{VERB_EXECUTIONS_ARTIFACTS, 0, "executions artifacts", "EXECUTION [PATH...]",
	 "List the artifacts of an execution, or print some.",
	 "--to unpacks all of them into a directory. The content of each PATH is printed.\n",
	 1, -1},
	{VERB_EXECUTIONS_RM, 0, "executions rm", "EXECUTION...",
	 "Remove executions that have ended, with their logs and artifacts.", NULL,
	 1, -1},
	{VERB_PLAY, 0, "play", "FILE|EXECUTION|-",
	 "Play a recording of a terminal.",
	 "A recording is an asciicast file of version 2, as the API gives it, or "
	 "an execution's id, or - for standard input. Output keeps its pace. Space pauses and goes on, "
	 "q ends.\n",
	 1, 1},
	{VERB_LOGIN, 0, "login", "URL",
	 "Save the address of a daemon and a key to it.",
	 "The key is read from standard input, or asked for at the terminal without echo. The key is "
	 "tried first. Then address and key are saved as a context in ~/.config/cove/contexts.json (or "
	 "beneath XDG_CONFIG_HOME), which only you can read. The context is in use from then on.\n"
	 "A verb finds its daemon by its options, then by COVE_URL and COVE_TOKEN, then by the context "
	 "in use, then on this host. On this host root has the operator's key, and members of the "
	 "group cove-users connect by a socket, without a key.\n",
	 1, 1},
	{VERB_CONTEXT_LS, 0, "context ls", "",
	 "List the contexts that 'cove login' saved.", NULL,
	 0, 0},
	{VERB_CONTEXT_USE, 0, "context use", "NAME",
	 "Use another context; local: the daemon of this host.",
	 "COVE_CONTEXT names another context for a single command.\n",
	 1, 1},
	{VERB_CONTEXT_RM, 0, "context rm", "NAME...",
	 "Remove contexts and their keys.", NULL,
	 1, -1},
	{VERB_DASHBOARD, 0, "dashboard", "",
	 "Print a link that signs a browser in to the dashboard.",
	 "The link works once, within a minute, and gives the rights of the credential in use, or "
	 "less. The session of the browser ends after 12 hours, after 30 minutes without a request, "
	 "or with the key.\n",
	 0, 0},
	{VERB_CLEANUP, 0, "cleanup", "",
	 "Run the janitor now, and show its counts.", NULL,
	 0, 0},
	{VERB_ALERTS_LS, 0, "alerts ls", "",
	 "List alerts.",
	 "An alert is a condition of the host that needs the operator, or did until lately.\n",
	 0, 0},
	{VERB_ALERTS_ACK, 0, "alerts ack", "ALERT",
	 "Acknowledge an alert.", NULL,
	 1, 1},
	{VERB_ALERTS_SILENCE, 0, "alerts silence", "ALERT [TIME|off]",
	 "Send no notices of an alert for some time.",
	 "TIME is 1h without it; off ends the silence.\n",
	 1, 2},
	{VERB_ALERTS_RULES, 0, "alerts rules", "[RULE]",
	 "List the rules of alerts, or change one.", NULL,
	 0, 1},
	{VERB_ALERTS_TEST, 0, "alerts test", "SINK",
	 "Send a test notice to a sink of the configuration.", NULL,
	 1, 1},
	{VERB_EVENTS, 0, "events", "",
	 "Show past events, or follow new ones.",
	 "Events are: sandboxes created, started, frozen, woken and ended; keys and tenants changed; "
	 "attacks and alerts. -f goes on with new events, over restarts of the daemon, until it is "
	 "interrupted. --json prints an object for each line.\n",
	 0, 0},
	{VERB_AUDIT, 0, "audit", "",
	 "Show the audit log.",
	 "Each row holds the hash of the row before. --check reads all rows and fails when one was "
	 "changed, removed or inserted.\n",
	 0, 0},
	{VERB_VERIFY, 0, "verify", "",
	 "Cross-check the records against the real state.",
	 "The verb compares the store, the daemon, the warden, the kernel and the disk. Each "
	 "difference is a line, and the exit status is 1 when there is one.\n",
	 0, 0},
	{VERB_SERVE, 0, "serve", "",
	 "Run the daemon: hold the sandboxes and serve the API.",
	 "The start needs root. The process that faces the network runs as the user cove, without any "
	 "privilege. Ctrl-C ends the daemon and the sandboxes. TERM does the same, or leaves the "
	 "sandboxes to the next start: see --on-term. Sandboxes outlive a daemon that crashes.\n",
	 0, 0},
	{VERB_DRAIN, 0, "drain", "",
	 "End the daemon of this host and all processes of its sandboxes.",
	 "The verb ignores --on-term. It returns when processes, control groups, mounts and namespaces "
	 "are verified gone. Disks of sandboxes that can be started again stay. Needs root.\n",
	 0, 0},
	{VERB_RELOAD, 0, "reload", "",
	 "Reload the configuration of this host's daemon.",
	 "Settings that docs/CONFIGURATION.md marks as live apply from then on. A bad file is refused: "
	 "the log has the reason, and all settings stay. Needs root.\n",
	 0, 0},
	{VERB_UPGRADE, 0, "upgrade", "",
	 "Switch the daemon of this host to the new binary at its path.",
	 "Install the new binary over the old one by a rename, then call this verb. No listener is "
	 "closed, no sandbox ends, and current requests get a grace period. A binary that cannot be "
	 "started is refused, and the old one goes on. Needs root.\n",
	 0, 0},
	{VERB_DOCTOR, 0, "doctor", "",
	 "Check this host for the features that cove needs.",
	 "The verb tries each kernel feature once, and prints a fix for each that is missing. Needs "
	 "root. The exit status is 1 when a required feature is missing.\n",
	 0, 0},
	{VERB_COMPLETION, 0, "completion", "bash|zsh|fish",
	 "Print a completion script for a shell.",
	 "For bash: source <(cove completion bash)\n",
	 1, 1},
	{VERB_VERSION, 0, "version", "",
	 "Print the version.", NULL,
	 0, 0},
	{VERB_HELP, 0, "help", "[VERB]",
	 "Explain a verb, or list them all.", NULL,
	 0, 2},
	{VERB_WORDS, VERB_HIDDEN, "words", "boxes|templates|sessions|executions|secrets|budgets|processes|files [BOX|BOX:PATH]", "Names, for completion.", NULL,
	 1, 2},
	{.name = NULL},
};
// clang-format on

static const struct alias aliases[] = {
	{"list", "ps"},
	{"delete", "rm"},
	{"remove", "rm"},
	{"destroy", "rm"},
	{"new", "create"},
	{"images", "template ls"},
	{"templates", "template ls"},
	{"keys", "key ls"},
	{"agent-sessions", "agent-session ls"},
	{"execution", "executions ls"},
	{"execute", "submit"},
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
	{VERB_SYNC_IN, "A worktree and its sandbox"},
	{VERB_AGENT_RUN, "Coding agents on a worktree"},
	{VERB_PS, "Manage sandboxes"},
	{VERB_PORT, "Ports and previews"},
	{VERB_POLICY, "Network policy of a sandbox"},
	{VERB_TEMPLATE_LS, "Templates of sandboxes"},
	{VERB_KEY_CREATE, "Keys, tenants and budgets"},
	{VERB_SESSION_CREATE, "Agent sessions"},
	{VERB_SUBMIT, "Executions: tasks with limits, logs and artifacts"},
	{VERB_LOGIN, "Choose a daemon"},
	{VERB_DASHBOARD, "The daemon and its host"},
	{VERB_COMPLETION, "Help"},
	{.title = NULL},
};

// Further sections of the man page, in its order.
// clang-format off
static const struct remark remarks[] = {
	{"EXIT STATUS", "0", "Success. 'run', 'exec', 'shell' and 'attach' exit with the command's own status, or 128 + N when signal N ended it."},
	{"EXIT STATUS", "124", "The command, or the execution, ran longer than --timeout."},
	{"EXIT STATUS", "125", "'run', 'exec', 'shell', 'attach', 'python', 'js', 'run-code' or 'submit' itself failed, or the infrastructure of an execution."},
	{"EXIT STATUS", "126, 127", "The command cannot be executed, or does not exist."},
	{"EXIT STATUS", "130", "Interrupted; the sandbox of 'run' was removed. Or the execution was cancelled."},
	{"EXIT STATUS", "1 to 8", "Other verbs: 1 failed, 2 a mistake in the command line or the request, 3 not found, 4 not allowed, 5 conflict with an existing object, 6 too large or too many, 7 too slow, 8 not reachable."},
	{"ENVIRONMENT", "COVE_URL", "Address of the daemon, for example http://127.0.0.1:8484. Without it the context in use, then the file url in the data directory names the daemon. unix:PATH names a socket."},
	{"ENVIRONMENT", "COVE_TOKEN", "Key to the daemon. Without it the file operator.key in the data directory is used, for a daemon on this machine."},
	{"ENVIRONMENT", "COVE_CONTEXT", "The context to use instead of that of 'cove context use'; local: the daemon of this host."},
	{"ENVIRONMENT", "COVE_DATA", "The data directory, as --data."},
	{"ENVIRONMENT", "DAYTONA_API_URL, DAYTONA_API_KEY", "The server of --provider daytona, for example http://127.0.0.1:8484/daytona, and its key."},
	{"ENVIRONMENT", "COVE_AGENT_ROOTS", "Directories, with colons, beneath which 'cove sync' and 'cove agent' take worktrees. Without it every directory but /."},
	{"ENVIRONMENT", "COVE_PICTURES", "How 'python', 'js' and 'run-code' show a picture: kitty, iterm, or none, which saves it in a file. Without it the terminal is asked."},
	{"ENVIRONMENT", "NO_COLOR", "When set, nothing is coloured."},
	{"FILES", "/var/lib/cove", "The data directory of the daemon."},
	{"FILES", "/var/lib/cove/operator.key", "The operator's key, made at the first start, readable by root."},
	{"FILES", "~/.config/cove/contexts.json", "The contexts of 'cove login', with their keys."},
	{"FILES", "~/.config/cove/agents.conf", "Agents of 'cove agent run --agent': sections [agent NAME] with argv (words, {prompt}, {session}, {model}; words in [ ] are left out without a value), template, image, setup, allow, secrets, and session, the member of JSON lines that is the id of the agent's session."},
	{"FILES", "/run/cove/api.sock", "The socket of the API for members of the group cove-users, who need no key; users-scopes, users-tenant and users-host of cove.conf set their rights."},
	{"FILES", "~/.local/state/cove", "The histories of 'python' and 'js'."},
	{"FILES", "/var/lib/cove/url", "The address of the running daemon."},
	{"EXAMPLES", "cove run -- python3 -c 'print(6*7)'", "One command in a sandbox of its own."},
	{"EXAMPLES", "cove run -it bash", "A shell in a sandbox that is removed afterwards."},
	{"EXAMPLES", "cove run -i -m 256m --timeout 10s -- python3 - < job.py", "A script from standard input, with limits."},
	{"EXAMPLES", "cove create --name web -l team=a && cove exec web -- npm test", "A sandbox that stays."},
	{"EXAMPLES", "cove shell web", "A shell in the sandbox."},
	{"EXAMPLES", "cove cp src web:/workspace && cove exec web make && cove cp web:src/out .", "Files copied in and out."},
	{"EXAMPLES", "cove logs -f web $(cove exec -d web npm start)", "A background process, and its output."},
	{"EXAMPLES", "cove open -b web 3000", "The page of its server on port 3000, in a browser."},
	{"EXAMPLES", "cove forward web 5432:5432", "Its database, on a port of this machine."},
	{"EXAMPLES", "cove policy web --mode allow --allow pypi.org --allow '*.pythonhosted.org'", "The names that it may reach; all others are denied."},
	{"EXAMPLES", "cove egress -f --denied web", "Denied connections, as they happen."},
	{"EXAMPLES", "cove python web", "A Python prompt that keeps its state from line to line."},
	{"EXAMPLES", "cove run-code plot.py", "A file of code in a sandbox of its own; figures are shown, or saved."},
	{"EXAMPLES", "cove logs --tail 20 --timestamps web", "The last lines of the process that was started last."},
	{"EXAMPLES", "cove sync in && cove sync out", "The repository around the current directory, to its sandbox and back."},
	{"EXAMPLES", "cove agent run --setup agent.sh -- myagent --task 'fix the tests'", "An agent on the repository around the current directory; its changes come back."},
	{"EXAMPLES", "cove agent run --agent claude --secret ANTHROPIC_API_KEY -- 'fix the tests'", "An agent that is known by name, with a key of 'cove secret set'."},
	{"EXAMPLES", "cove run --sync -- make test", "A command in the sandbox of the repository, with the files as they are here."},
	{"EXAMPLES", "cove ls -l web:/etc", "A directory of the sandbox. web: alone is its working directory, /workspace unless its image sets another."},
	{"EXAMPLES", "cove cat web:/etc/hosts", "A file of the sandbox."},
	{"EXAMPLES", "cove ps -q | xargs -r cove inspect", "All fields of every sandbox."},
	{"EXAMPLES", "cove ps web", "The processes and terminals of the sandbox."},
	{"EXAMPLES", "cove expose web 3000 --expires 1h", "The address of a preview that expires."},
	{"EXAMPLES", "cove submit --type VALIDATION --file main.py --artifact 'out/**' -- python3 main.py", "A task with limits, whose files out/ are kept."},
	{"EXAMPLES", "cove executions artifacts EXECUTION --to results", "The files that it left."},
	{"EXAMPLES", "cove events -f --kind sandbox", "Events of sandboxes, as they happen."},
	{"EXAMPLES", "cove key create --tenant acme --scope make --scope use", "A key for somebody else's program."},
	{"EXAMPLES", "cove rm -f web", "Removal of the sandbox."},
	{"EXAMPLES", "cove login http://127.0.0.1:8484 --name work", "A daemon behind a tunnel, with a key that is asked for. The context is in use from then on."},
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

#define OPTIONS_MAX 512 // with the settings of serve

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
