#include "toolbox/toolbox.h"

#include "toolbox/backup.h"
#include "toolbox/exec.h"
#include "toolbox/files.h"
#include "toolbox/git.h"
#include "toolbox/interpreter.h"
#include "toolbox/misc.h"
#include "toolbox/parts.h"
#include "toolbox/ports.h"
#include "toolbox/process.h"
#include "toolbox/rpc.h"
#include "toolbox/session.h"
#include "toolbox/stream.h"
#include "toolbox/term.h"
#include "toolbox/watch.h"
#include "toolbox/ws.h"

#define BOX "/v1/sandboxes/{id}"

// A literal stands before a {name} that would match it.
// clang-format off
const struct route toolbox_routes[] = {
	{"POST",   BOX "/api/execute",          toolbox_exec_run,      0,            "run a command, answer when it has ended"},
	{"POST",   BOX "/api/execute/stream",   toolbox_exec_stream,   0,            "run a command, its output as events"},
	{"POST",   BOX "/api/session/create",   toolbox_session_create, 0,           "a session: a shell that keeps its state"},
	{"GET",    BOX "/api/session/list",     toolbox_session_list,  0,            "the sessions whose shell lives"},
	{"POST",   BOX "/api/session/delete",   toolbox_session_delete, 0,           "end a session and its background jobs"},
	{"GET",    BOX "/api/session/{session}", toolbox_session_get,  0,            "where a session stands"},
	{"GET",    BOX "/api/session/{session}/output", toolbox_session_output, 0,   "what its background jobs wrote between commands"},
	{"POST",   BOX "/api/env",              toolbox_session_env,   0,            "environment of all that is run from now on"},
	{"POST",   BOX "/api/process/start",    toolbox_process_start, 0,            "start a process that runs on its own"},
	{"GET",    BOX "/api/process/list",     toolbox_process_list,  0,            "the processes, those that have ended too"},
	{"DELETE", BOX "/api/process/kill-all", toolbox_process_kill_all, 0,         "end every process that runs"},
	{"DELETE", BOX "/api/process/completed", toolbox_process_clean, 0,           "forget the processes that have ended"},
	{"GET",    BOX "/api/process/{process}", toolbox_process_get,  0,            "one process"},
	{"DELETE", BOX "/api/process/{process}", toolbox_process_delete, 0,          "end a process and all it has started"},
	{"GET",    BOX "/api/process/{process}/logs", toolbox_process_logs, 0,       "its output so far"},
	{"GET",    BOX "/api/process/{process}/stream", toolbox_process_stream, 0,   "its output as events, from any offset on"},
	{"GET",    BOX "/api/process/{process}/tape", toolbox_process_tape, 0,       "its output as bytes, from any offset on"},
	{"GET",    BOX "/api/process/{process}/wait", toolbox_process_wait, 0,       "wait for its end"},
	{"POST",   BOX "/api/process/{process}/wait-log", toolbox_process_wait_log, ROUTE_READONLY, "wait for a line of its output"},
	{"POST",   BOX "/api/process/{process}/signal", toolbox_process_signal, 0,   "send it a signal, and all it has started"},
	{"POST",   BOX "/api/process/{process}/stdin", toolbox_process_stdin, ROUTE_STREAM, "write to its stdin"},
	{"POST",   BOX "/api/git/checkout",     toolbox_git_checkout,  0,            "clone a repository into the sandbox"},
	{"POST",   BOX "/api/backup/create",    toolbox_backup_create, 0,            "pack a directory into an archive in the sandbox"},
	{"POST",   BOX "/api/backup/restore",   toolbox_backup_restore, 0,           "put a directory back as an archive has it"},
	{"POST",   BOX "/api/backup/upload-parts", toolbox_backup_upload, 0,         "an archive to URLs that were signed for it"},
	{"GET",    BOX "/",                     toolbox_misc_greet,    0,            "a greeting: something answers here"},
	{"GET",    BOX "/ws",                   toolbox_ws,            0,            "WebSocket: these routes, multiplexed"},
	{"GET",    BOX "/api/ws",               toolbox_ws,            0,            "WebSocket: the same"},
	{"GET",    BOX "/ws/pty",               toolbox_term_pty,      ROUTE_AUDITED,   "WebSocket: a terminal"},
	{"GET",    BOX "/api/terminals",        toolbox_term_list,     0,            "the terminals"},
	{"GET",    BOX "/api/terminals/{terminal}/log", toolbox_term_log, 0,         "what a terminal has shown, raw"},
	{"DELETE", BOX "/api/terminals/{terminal}", toolbox_term_kill, 0,            "end a terminal and all that runs in it"},
	{"GET",    BOX "/rpc",                  toolbox_rpc,           0,            "WebSocket: remote calls, capnweb"},
	{"GET",    BOX "/api/ping",             toolbox_misc_ping,     0,            "is the sandbox up"},
	{"GET",    BOX "/api/version",          toolbox_misc_version,  0,            "the server's version, held against the client's"},
	{"GET",    BOX "/api/commands",         toolbox_misc_commands, 0,            "the executables on its PATH"},
	{"GET",    BOX "/api/ports",            toolbox_ports_list,    0,            "ports that somebody listens on"},
	{"POST",   BOX "/api/port-watch",       toolbox_ports_watch,   ROUTE_READONLY,   "until a port is ready, as events"},
	{"POST",   BOX "/api/expose-port",      toolbox_ports_expose,  ROUTE_AUDITED,   "enter a port into the register"},
	{"GET",    BOX "/api/exposed-ports",    toolbox_ports_exposed, 0,            "the register of ports"},
	{"DELETE", BOX "/api/exposed-ports/{port}", toolbox_ports_unexpose, ROUTE_AUDITED, "take a port out of the register"},
	{"*",      BOX "/proxy/{port}",         toolbox_ports_proxy,   ROUTE_STREAM | ROUTE_READONLY, "pass a request on to a port"},
	{"*",      BOX "/proxy/{port}/",        toolbox_ports_proxy,   ROUTE_STREAM | ROUTE_READONLY, "pass a request on to a port"},
	{"*",      BOX "/proxy/{port}/{path*}", toolbox_ports_proxy,   ROUTE_STREAM | ROUTE_READONLY, "pass a request on to a port"},
	{"GET",    BOX "/api/desktop/{path*}",  toolbox_misc_no_desktop, 0,          "not offered: a desktop"},
	{"POST",   BOX "/api/desktop/{path*}",  toolbox_misc_no_desktop, ROUTE_READONLY, "not offered: a desktop"},
	{"POST",   BOX "/api/tunnels/{path*}",  toolbox_misc_no_tunnels, ROUTE_READONLY, "not offered: tunnels"},
	{"POST",   BOX "/api/mount",            toolbox_misc_no_buckets, ROUTE_READONLY, "not offered: buckets as directories"},
	{"POST",   BOX "/api/unmount",          toolbox_misc_no_buckets, ROUTE_READONLY, "not offered: buckets as directories"},
	{"GET",    BOX "/api/interpreter/health", toolbox_interpreter_health, 0,     "is the code interpreter up"},
	{"GET",    BOX "/api/contexts",         toolbox_interpreter_list, 0,         "the contexts: interpreters that keep their state"},
	{"POST",   BOX "/api/contexts",         toolbox_interpreter_create, 0,       "a new context, of python, javascript or typescript"},
	{"DELETE", BOX "/api/contexts/{context}", toolbox_interpreter_delete, 0,     "end a context"},
	{"POST",   BOX "/api/contexts/{context}/interrupt", toolbox_interpreter_interrupt, 0, "interrupt the cell that runs; the context lives on"},
	{"POST",   BOX "/api/contexts/{context}/restart", toolbox_interpreter_restart, 0, "a new process for a context: its state is lost"},
	{"GET",    BOX "/api/contexts/{context}/cells", toolbox_interpreter_cells, 0, "the cells of a context that can be read again"},
	{"GET",    BOX "/api/contexts/{context}/cells/{cell}", toolbox_interpreter_cell, 0, "the events of a cell, from the beginning or from an id on"},
	{"POST",   BOX "/api/execute/code",     toolbox_interpreter_run, 0,          "run a cell, its output and results as events"},
	{"POST",   BOX "/api/read",             toolbox_files_read,    ROUTE_READONLY,   "a file inside of JSON"},
	{"POST",   BOX "/api/read/stream",      toolbox_files_stream,  ROUTE_READONLY,   "a file of any size as events"},
	{"POST",   BOX "/api/write",            toolbox_files_write,   ROUTE_STREAM, "write a file that comes inside of JSON"},
	{"POST",   BOX "/api/delete",           toolbox_files_delete,  0,            "delete a file, or with recursive a tree"},
	{"POST",   BOX "/api/rename",           toolbox_files_rename,  0,            "rename a file or directory"},
	{"POST",   BOX "/api/move",             toolbox_files_move,    0,            "move a file or directory, as mv does"},
	{"POST",   BOX "/api/mkdir",            toolbox_files_mkdir,   0,            "make a directory"},
	{"POST",   BOX "/api/list-files",       toolbox_files_list,    ROUTE_READONLY,   "the entries of a directory, or of a tree"},
	{"POST",   BOX "/api/exists",           toolbox_files_exists,  ROUTE_READONLY,   "is there such a file"},
	{"POST",   BOX "/api/stat",             toolbox_files_stat,    ROUTE_READONLY,   "type, size, rights and times of a file"},
	{"POST",   BOX "/api/chmod",            toolbox_files_chmod,   0,            "change the mode of a file or tree"},
	{"POST",   BOX "/api/find",             toolbox_files_find,    ROUTE_READONLY,   "files of a tree by name, type and size"},
	{"POST",   BOX "/api/grep",             toolbox_files_grep,    ROUTE_READONLY,   "lines in the files of a tree"},
	{"GET",    BOX "/api/files/{path*}",    toolbox_files_get,     0,            "a file as the body, or a range of it"},
	{"PUT",    BOX "/api/files/{path*}",    toolbox_files_put,     ROUTE_STREAM, "write a file from the body, all of it or nothing"},
	{"DELETE", BOX "/api/files/{path*}",    toolbox_files_drop,    0,            "delete a file, or with ?recursive=1 a tree"},
	{"GET",    BOX "/api/tar",              toolbox_files_pack,    0,            "a tree as a tar"},
	{"PUT",    BOX "/api/tar",              toolbox_files_unpack,  ROUTE_STREAM, "unpack a tar"},
	{"POST",   BOX "/api/tar",              toolbox_files_unpack,  ROUTE_STREAM, "unpack a tar"},
	{"POST",   BOX "/api/watch",            toolbox_watch,         ROUTE_READONLY,   "changes in a tree as events"},
	{"POST",   BOX "/api/watch/check",      toolbox_watch_check,   ROUTE_READONLY,   "has a tree changed since a version"},
	{0},
};
// clang-format on
