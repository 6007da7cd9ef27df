// The route table of one sandbox. Rows match in order. Authentication, audit and idempotency come
// before the handler (gateway/). The last column is shown by the API's documentation.
#include "toolbox/toolbox.h"

#include "toolbox/handlers.h"
#include "toolbox/process.h"

#define BOX "/v1/sandboxes/{id}"

// clang-format off
// Handlers of requests that name a path or a process: the operation, as errors show it, and its
// function.
#define SERVE(kind, name, operation) \
	static fallible serve_##name(struct http *x) { return kind##_serve(x, operation, toolbox_##name); }
SERVE(path_arg, backup_upload, "backup.create")
SERVE(path_arg, files_read, "file.read")
SERVE(path_arg, files_stream, "file.read")
SERVE(path_arg, files_write, "file.write")
SERVE(path_arg, files_delete, "file.delete")
SERVE(path_arg, files_rename, "file.rename")
SERVE(path_arg, files_move, "file.move")
SERVE(path_arg, files_mkdir, "directory.create")
SERVE(path_arg, files_list, "directory.list")
SERVE(path_arg, files_exists, "file.stat")
SERVE(path_arg, files_stat, "file.stat")
SERVE(path_arg, files_chmod, "file.chmod")
SERVE(path_arg, files_find, "file.find")
SERVE(path_arg, files_grep, "file.grep")
SERVE(path_arg, files_get, "file.read")
SERVE(path_arg, files_put, "file.write")
SERVE(path_arg, files_drop, "file.delete")
SERVE(path_arg, files_pack, "file.read")
SERVE(path_arg, files_unpack, "file.write")
SERVE(path_arg, watch, "file.watch")
SERVE(path_arg, watch_check, "file.watch")
SERVE(process, process_list, "process.list")
SERVE(process, process_get, "process.get")
SERVE(process, process_logs, "process.logs")
SERVE(process, process_delete, "process.kill")
SERVE(process, process_kill_all, "process.kill")
SERVE(process, process_clean, "process.list")
SERVE(process, process_signal, "process.kill")
SERVE(process, process_stdin, "process.stdin")
SERVE(process, process_tape, "process.logs")
SERVE(process, process_cast, "process.logs")
SERVE(process, process_stream, "process.logs")
SERVE(process, process_wait, "process.get")
SERVE(process, process_wait_log, "process.logs")
#define SERVE_CODE(name) \
	static fallible serve_##name(struct http *x) { return interpreter_serve(x, toolbox_##name); }
SERVE_CODE(interpreter_create)
SERVE_CODE(interpreter_delete)
SERVE_CODE(interpreter_interrupt)
SERVE_CODE(interpreter_restart)
SERVE_CODE(interpreter_run)
SERVE_CODE(interpreter_cells)
SERVE_CODE(interpreter_cell)

// A literal segment must come before a {name} that would match it.
const struct route toolbox_routes[] = {
	{"POST",   "/v1/agent-runs",                         toolbox_agent_runs_create,     ROUTE_AUDITED,                  "start a run in the sandbox of a worktree"},
	{"GET",    "/v1/agent-runs",                         toolbox_agent_runs_list,       0,                              "list agent runs, ended ones included"},
	{"GET",    "/v1/agent-runs/{id}",                    toolbox_agent_runs_get,        0,                              "get an agent run"},
	{"GET",    "/v1/agent-runs/{id}/stream",             toolbox_agent_runs_stream,     0,                              "stream the output of an agent run as events, from an offset on"},
	{"POST",   "/v1/agent-runs/{id}/stop",               toolbox_agent_runs_stop,       ROUTE_AUDITED,                  "end an agent run and its tree"},
	{"GET",    "/v1/agent-runs/{id}/changes",            toolbox_agent_runs_changes,    0,                              "the files of the sandbox of an agent run, as a tar"},
	{"POST",   BOX "/api/execute",                       toolbox_exec_run,              0,                              "run a command and wait for its end"},
	{"POST",   BOX "/api/execute/stream",                toolbox_exec_stream,           0,                              "run a command and stream its output as events"},
	{"POST",   BOX "/api/session/create",                toolbox_session_create,        0,                              "make a session: a shell that keeps its state"},
	{"GET",    BOX "/api/session/list",                  toolbox_session_list,          0,                              "list sessions whose shell lives"},
	{"POST",   BOX "/api/session/delete",                toolbox_session_delete,        0,                              "delete a session and its background jobs"},
	{"GET",    BOX "/api/session/{session}",             toolbox_session_get,           0,                              "get a session: its directory and state"},
	{"GET",    BOX "/api/session/{session}/output",      toolbox_session_output,        0,                              "output of background jobs between commands"},
	{"POST",   BOX "/api/env",                           toolbox_session_env,           0,                              "set variables for everything that is started later"},
	{"POST",   BOX "/api/process/start",                 toolbox_process_start,         0,                              "start a process that runs without a client"},
	{"GET",    BOX "/api/process/list",                  serve_process_list,            0,                              "list processes, ended ones included"},
	{"DELETE", BOX "/api/process/kill-all",              serve_process_kill_all,        0,                              "end all running processes"},
	{"DELETE", BOX "/api/process/completed",             serve_process_clean,           0,                              "remove records of ended processes"},
	{"GET",    BOX "/api/process/{process}",             serve_process_get,             0,                              "get a process"},
	{"DELETE", BOX "/api/process/{process}",             serve_process_delete,          0,                              "end a process and its tree"},
	{"GET",    BOX "/api/process/{process}/logs",        serve_process_logs,            0,                              "the output of a process so far"},
	{"GET",    BOX "/api/process/{process}/stream",      serve_process_stream,          0,                              "stream the output of a process as events, from an offset on"},
	{"GET",    BOX "/api/process/{process}/tape",        serve_process_tape,            0,                              "the output of a process as bytes, from an offset on"},
	{"GET",    BOX "/api/process/{process}/cast",        serve_process_cast,            0,                              "the output of a process as a recording, asciicast v2"},
	{"GET",    BOX "/api/process/{process}/wait",        serve_process_wait,            0,                              "wait for the end of a process"},
	{"POST",   BOX "/api/process/{process}/wait-log",    serve_process_wait_log,        ROUTE_READONLY,                 "wait for a line of output"},
	{"POST",   BOX "/api/process/{process}/signal",      serve_process_signal,          0,                              "send a signal to a process and its tree"},
	{"POST",   BOX "/api/process/{process}/stdin",       serve_process_stdin,           ROUTE_STREAM,                   "write to the stdin of a process"},
	{"POST",   BOX "/api/git/checkout",                  toolbox_git_checkout,          0,                              "clone a repository into the sandbox"},
	{"POST",   BOX "/api/backup/create",                 toolbox_backup_create,         0,                              "pack a directory into an archive in the sandbox"},
	{"POST",   BOX "/api/backup/restore",                toolbox_backup_restore,        0,                              "restore a directory from an archive"},
	{"POST",   BOX "/api/backup/upload-parts",           serve_backup_upload,           0,                              "upload an archive to signed URLs"},
	{"GET",    BOX "/",                                  toolbox_misc_greet,            0,                              "a greeting"},
	{"GET",    BOX "/ws/pty",                            toolbox_term_pty,              ROUTE_AUDITED,                  "WebSocket: a terminal"},
	{"GET",    BOX "/api/terminals",                     toolbox_term_list,             0,                              "list terminals"},
	{"GET",    BOX "/api/terminals/{terminal}/log",      toolbox_term_log,              0,                              "raw output of a terminal"},
	{"GET",    BOX "/api/terminals/{terminal}/cast",     toolbox_term_cast,             0,                              "the output of a terminal as a recording, asciicast v2"},
	{"DELETE", BOX "/api/terminals/{terminal}",          toolbox_term_kill,             0,                              "end a terminal and its processes"},
	{"GET",    BOX "/api/ping",                          toolbox_misc_ping,             0,                              "ping the sandbox"},
	{"GET",    BOX "/api/version",                       toolbox_misc_version,          0,                              "version of the server, compared with the client's"},
	{"GET",    BOX "/api/commands",                      toolbox_misc_commands,         0,                              "list executables on the sandbox's PATH"},
	{"GET",    BOX "/api/ports",                         toolbox_ports_list,            0,                              "list ports with a listener"},
	{"GET",    BOX "/ps",                                toolbox_ps_list,               0,                              "list all processes of the sandbox"},
	{"POST",   BOX "/ps/{pid}/signal",                   toolbox_ps_signal,             0,                              "send a signal to one process of the sandbox"},
	{"POST",   BOX "/api/port-watch",                    toolbox_ports_watch,           ROUTE_READONLY,                 "wait until a port is ready, as events"},
	{"POST",   BOX "/api/expose-port",                   toolbox_ports_expose,          ROUTE_AUDITED,                  "add a port to the register"},
	{"GET",    BOX "/api/exposed-ports",                 toolbox_ports_exposed,         0,                              "list the register of ports"},
	{"DELETE", BOX "/api/exposed-ports/{port}",          toolbox_ports_unexpose,        ROUTE_AUDITED,                  "remove a port from the register"},
	{"*",      BOX "/proxy/{port}",                      toolbox_ports_proxy,           ROUTE_STREAM | ROUTE_READONLY,  "pass a request on to a port"},
	{"*",      BOX "/proxy/{port}/",                     toolbox_ports_proxy,           ROUTE_STREAM | ROUTE_READONLY,  "pass a request on to a port"},
	{"*",      BOX "/proxy/{port}/{path*}",              toolbox_ports_proxy,           ROUTE_STREAM | ROUTE_READONLY,  "pass a request on to a port"},
	{"GET",    BOX "/api/desktop/{path*}",               toolbox_misc_no_desktop,       0,                              "not offered: a desktop"},
	{"POST",   BOX "/api/desktop/{path*}",               toolbox_misc_no_desktop,       ROUTE_READONLY,                 "not offered: a desktop"},
	{"POST",   BOX "/api/tunnels/{path*}",               toolbox_misc_no_tunnels,       ROUTE_READONLY,                 "not offered: tunnels"},
	{"POST",   BOX "/api/mount",                         toolbox_misc_no_buckets,       ROUTE_READONLY,                 "not offered: buckets as directories"},
	{"POST",   BOX "/api/unmount",                       toolbox_misc_no_buckets,       ROUTE_READONLY,                 "not offered: buckets as directories"},
	{"GET",    BOX "/api/interpreter/health",            toolbox_interpreter_health,    0,                              "health of the code interpreter"},
	{"GET",    BOX "/api/contexts",                      toolbox_interpreter_list,      0,                              "list contexts: interpreters that keep their state"},
	{"POST",   BOX "/api/contexts",                      serve_interpreter_create,      0,                              "make a context of python, javascript or typescript"},
	{"DELETE", BOX "/api/contexts/{context}",            serve_interpreter_delete,      0,                              "end a context"},
	{"POST",   BOX "/api/contexts/{context}/interrupt",  serve_interpreter_interrupt,   0,                              "interrupt the running cell; the context lives on"},
	{"POST",   BOX "/api/contexts/{context}/restart",    serve_interpreter_restart,     0,                              "restart a context with a new process; its state is lost"},
	{"GET",    BOX "/api/contexts/{context}/cells",      serve_interpreter_cells,       0,                              "list the kept cells of a context"},
	{"GET",    BOX "/api/contexts/{context}/cells/{cell}", serve_interpreter_cell,        0,                              "events of a cell, from the beginning or after an id"},
	{"POST",   BOX "/api/execute/code",                  serve_interpreter_run,         0,                              "run a cell and stream output and results as events"},
	{"POST",   BOX "/api/read",                          serve_files_read,              ROUTE_READONLY,                 "read a file as JSON"},
	{"POST",   BOX "/api/read/stream",                   serve_files_stream,            ROUTE_READONLY,                 "read a file of any size as events"},
	{"POST",   BOX "/api/write",                         serve_files_write,             ROUTE_STREAM,                   "write a file from JSON"},
	{"POST",   BOX "/api/delete",                        serve_files_delete,            0,                              "delete a file, or with recursive a tree"},
	{"POST",   BOX "/api/rename",                        serve_files_rename,            0,                              "rename a file or directory"},
	{"POST",   BOX "/api/move",                          serve_files_move,              0,                              "move a file or directory, as mv does"},
	{"POST",   BOX "/api/mkdir",                         serve_files_mkdir,             0,                              "make a directory"},
	{"POST",   BOX "/api/list-files",                    serve_files_list,              ROUTE_READONLY,                 "list a directory or a tree"},
	{"POST",   BOX "/api/exists",                        serve_files_exists,            ROUTE_READONLY,                 "whether a file exists"},
	{"POST",   BOX "/api/stat",                          serve_files_stat,              ROUTE_READONLY,                 "type, size, mode and times of a file"},
	{"POST",   BOX "/api/chmod",                         serve_files_chmod,             0,                              "change the mode of a file or tree"},
	{"POST",   BOX "/api/find",                          serve_files_find,              ROUTE_READONLY,                 "find files of a tree by name, type and size"},
	{"POST",   BOX "/api/grep",                          serve_files_grep,              ROUTE_READONLY,                 "search lines in the files of a tree"},
	{"GET",    BOX "/api/files/{path*}",                 serve_files_get,               0,                              "read a file as a body, or a range of it"},
	{"PUT",    BOX "/api/files/{path*}",                 serve_files_put,               ROUTE_STREAM,                   "write a file from the body, as a whole or not at all"},
	{"DELETE", BOX "/api/files/{path*}",                 serve_files_drop,              0,                              "delete a file, or with ?recursive=1 a tree"},
	{"GET",    BOX "/api/tar",                           serve_files_pack,              0,                              "pack a tree as a tar"},
	{"PUT",    BOX "/api/tar",                           serve_files_unpack,            ROUTE_STREAM,                   "unpack a tar"},
	{"POST",   BOX "/api/tar",                           serve_files_unpack,            ROUTE_STREAM,                   "unpack a tar"},
	{"POST",   BOX "/api/watch",                         serve_watch,                   ROUTE_READONLY,                 "watch a tree: changes as events"},
	{"POST",   BOX "/api/watch/check",                   serve_watch_check,             ROUTE_READONLY,                 "whether a tree has changed since a version"},
	{0},
};
// clang-format on
