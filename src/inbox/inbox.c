#include "inbox/inbox.h"

#include "inbox/backup.h"
#include "inbox/exec.h"
#include "inbox/files.h"
#include "inbox/git.h"
#include "inbox/interpreter.h"
#include "inbox/misc.h"
#include "inbox/parts.h"
#include "inbox/ports.h"
#include "inbox/process.h"
#include "inbox/rpc.h"
#include "inbox/session.h"
#include "inbox/stream.h"
#include "inbox/term.h"
#include "inbox/watch.h"
#include "inbox/ws.h"

#define BOX "/v1/sandboxes/{id}"

// A literal stands before a {name} that would match it.
// clang-format off
const struct route inbox_routes[] = {
	{"POST",   BOX "/api/execute",          inbox_exec_run,      0,            "run a command, answer when it has ended"},
	{"POST",   BOX "/api/execute/stream",   inbox_exec_stream,   0,            "run a command, its output as events"},
	{"POST",   BOX "/api/session/create",   inbox_session_create, 0,           "a session: a shell that keeps its state"},
	{"GET",    BOX "/api/session/list",     inbox_session_list,  0,            "the sessions whose shell lives"},
	{"POST",   BOX "/api/session/delete",   inbox_session_delete, 0,           "end a session and its background jobs"},
	{"GET",    BOX "/api/session/{session}", inbox_session_get,  0,            "where a session stands"},
	{"GET",    BOX "/api/session/{session}/output", inbox_session_output, 0,   "what its background jobs wrote between commands"},
	{"POST",   BOX "/api/env",              inbox_session_env,   0,            "environment of all that is run from now on"},
	{"POST",   BOX "/api/process/start",    inbox_process_start, 0,            "start a process that runs on its own"},
	{"GET",    BOX "/api/process/list",     inbox_process_list,  0,            "the processes, those that have ended too"},
	{"DELETE", BOX "/api/process/kill-all", inbox_process_kill_all, 0,         "end every process that runs"},
	{"DELETE", BOX "/api/process/completed", inbox_process_clean, 0,           "forget the processes that have ended"},
	{"GET",    BOX "/api/process/{process}", inbox_process_get,  0,            "one process"},
	{"DELETE", BOX "/api/process/{process}", inbox_process_delete, 0,          "end a process and all it has started"},
	{"GET",    BOX "/api/process/{process}/logs", inbox_process_logs, 0,       "its output so far"},
	{"GET",    BOX "/api/process/{process}/stream", inbox_process_stream, 0,   "its output as events, from any offset on"},
	{"GET",    BOX "/api/process/{process}/tape", inbox_process_tape, 0,       "its output as bytes, from any offset on"},
	{"GET",    BOX "/api/process/{process}/wait", inbox_process_wait, 0,       "wait for its end"},
	{"POST",   BOX "/api/process/{process}/wait-log", inbox_process_wait_log, ROUTE_MILD, "wait for a line of its output"},
	{"POST",   BOX "/api/process/{process}/signal", inbox_process_signal, 0,   "send it a signal, and all it has started"},
	{"POST",   BOX "/api/process/{process}/stdin", inbox_process_stdin, ROUTE_STREAM, "write to its stdin"},
	{"POST",   BOX "/api/git/checkout",     inbox_git_checkout,  0,            "clone a repository into the sandbox"},
	{"POST",   BOX "/api/backup/create",    inbox_backup_create, 0,            "pack a directory into an archive in the sandbox"},
	{"POST",   BOX "/api/backup/restore",   inbox_backup_restore, 0,           "put a directory back as an archive has it"},
	{"POST",   BOX "/api/backup/upload-parts", inbox_backup_upload, 0,         "an archive to URLs that were signed for it"},
	{"GET",    BOX "/",                     inbox_misc_greet,    0,            "a greeting: something answers here"},
	{"GET",    BOX "/ws",                   inbox_ws,            0,            "WebSocket: these routes, multiplexed"},
	{"GET",    BOX "/api/ws",               inbox_ws,            0,            "WebSocket: the same"},
	{"GET",    BOX "/ws/pty",               inbox_term_pty,      ROUTE_TOLD,   "WebSocket: a terminal"},
	{"GET",    BOX "/api/terminals",        inbox_term_list,     0,            "the terminals"},
	{"GET",    BOX "/api/terminals/{terminal}/log", inbox_term_log, 0,         "what a terminal has shown, raw"},
	{"DELETE", BOX "/api/terminals/{terminal}", inbox_term_kill, 0,            "end a terminal and all that runs in it"},
	{"GET",    BOX "/rpc",                  inbox_rpc,           0,            "WebSocket: remote calls, capnweb"},
	{"GET",    BOX "/api/ping",             inbox_misc_ping,     0,            "is the sandbox up"},
	{"GET",    BOX "/api/version",          inbox_misc_version,  0,            "the server's version, held against the client's"},
	{"GET",    BOX "/api/commands",         inbox_misc_commands, 0,            "the executables on its PATH"},
	{"GET",    BOX "/api/ports",            inbox_ports_list,    0,            "ports that somebody listens on"},
	{"POST",   BOX "/api/port-watch",       inbox_ports_watch,   ROUTE_MILD,   "until a port is ready, as events"},
	{"POST",   BOX "/api/expose-port",      inbox_ports_expose,  ROUTE_TOLD,   "enter a port into the register"},
	{"GET",    BOX "/api/exposed-ports",    inbox_ports_exposed, 0,            "the register of ports"},
	{"DELETE", BOX "/api/exposed-ports/{port}", inbox_ports_unexpose, ROUTE_TOLD, "take a port out of the register"},
	{"*",      BOX "/proxy/{port}",         inbox_ports_proxy,   ROUTE_STREAM | ROUTE_MILD, "pass a request on to a port"},
	{"*",      BOX "/proxy/{port}/",        inbox_ports_proxy,   ROUTE_STREAM | ROUTE_MILD, "pass a request on to a port"},
	{"*",      BOX "/proxy/{port}/{path*}", inbox_ports_proxy,   ROUTE_STREAM | ROUTE_MILD, "pass a request on to a port"},
	{"GET",    BOX "/api/desktop/{path*}",  inbox_misc_no_desktop, 0,          "not offered: a desktop"},
	{"POST",   BOX "/api/desktop/{path*}",  inbox_misc_no_desktop, ROUTE_MILD, "not offered: a desktop"},
	{"POST",   BOX "/api/tunnels/{path*}",  inbox_misc_no_tunnels, ROUTE_MILD, "not offered: tunnels"},
	{"POST",   BOX "/api/mount",            inbox_misc_no_buckets, ROUTE_MILD, "not offered: buckets as directories"},
	{"POST",   BOX "/api/unmount",          inbox_misc_no_buckets, ROUTE_MILD, "not offered: buckets as directories"},
	{"GET",    BOX "/api/interpreter/health", inbox_interpreter_health, 0,     "is the code interpreter up"},
	{"GET",    BOX "/api/contexts",         inbox_interpreter_list, 0,         "the contexts: interpreters that keep their state"},
	{"POST",   BOX "/api/contexts",         inbox_interpreter_create, 0,       "a new context, of python, javascript or typescript"},
	{"DELETE", BOX "/api/contexts/{context}", inbox_interpreter_delete, 0,     "end a context"},
	{"POST",   BOX "/api/contexts/{context}/interrupt", inbox_interpreter_interrupt, 0, "interrupt the cell that runs; the context lives on"},
	{"POST",   BOX "/api/contexts/{context}/restart", inbox_interpreter_restart, 0, "a new process for a context: its state is lost"},
	{"GET",    BOX "/api/contexts/{context}/cells", inbox_interpreter_cells, 0, "the cells of a context that can be read again"},
	{"GET",    BOX "/api/contexts/{context}/cells/{cell}", inbox_interpreter_cell, 0, "the events of a cell, from the beginning or from an id on"},
	{"POST",   BOX "/api/execute/code",     inbox_interpreter_run, 0,          "run a cell, its output and results as events"},
	{"POST",   BOX "/api/read",             inbox_files_read,    ROUTE_MILD,   "a file inside of JSON"},
	{"POST",   BOX "/api/read/stream",      inbox_files_stream,  ROUTE_MILD,   "a file of any size as events"},
	{"POST",   BOX "/api/write",            inbox_files_write,   ROUTE_STREAM, "write a file that comes inside of JSON"},
	{"POST",   BOX "/api/delete",           inbox_files_delete,  0,            "delete a file, or with recursive a tree"},
	{"POST",   BOX "/api/rename",           inbox_files_rename,  0,            "rename a file or directory"},
	{"POST",   BOX "/api/move",             inbox_files_move,    0,            "move a file or directory, as mv does"},
	{"POST",   BOX "/api/mkdir",            inbox_files_mkdir,   0,            "make a directory"},
	{"POST",   BOX "/api/list-files",       inbox_files_list,    ROUTE_MILD,   "the entries of a directory, or of a tree"},
	{"POST",   BOX "/api/exists",           inbox_files_exists,  ROUTE_MILD,   "is there such a file"},
	{"POST",   BOX "/api/stat",             inbox_files_stat,    ROUTE_MILD,   "type, size, rights and times of a file"},
	{"POST",   BOX "/api/chmod",            inbox_files_chmod,   0,            "change the mode of a file or tree"},
	{"POST",   BOX "/api/find",             inbox_files_find,    ROUTE_MILD,   "files of a tree by name, type and size"},
	{"POST",   BOX "/api/grep",             inbox_files_grep,    ROUTE_MILD,   "lines in the files of a tree"},
	{"GET",    BOX "/api/files/{path*}",    inbox_files_get,     0,            "a file as the body, or a range of it"},
	{"PUT",    BOX "/api/files/{path*}",    inbox_files_put,     ROUTE_STREAM, "write a file from the body, all of it or nothing"},
	{"DELETE", BOX "/api/files/{path*}",    inbox_files_drop,    0,            "delete a file, or with ?recursive=1 a tree"},
	{"GET",    BOX "/api/tar",              inbox_files_pack,    0,            "a tree as a tar"},
	{"PUT",    BOX "/api/tar",              inbox_files_unpack,  ROUTE_STREAM, "unpack a tar"},
	{"POST",   BOX "/api/tar",              inbox_files_unpack,  ROUTE_STREAM, "unpack a tar"},
	{"POST",   BOX "/api/watch",            inbox_watch,         ROUTE_MILD,   "changes in a tree as events"},
	{"POST",   BOX "/api/watch/check",      inbox_watch_check,   ROUTE_MILD,   "has a tree changed since a version"},
	{0},
};
// clang-format on
