// Handlers of the route table in toolbox.c, by the file that has them; those of processes are in
// process.h.
#pragma once

#include "toolbox/path_arg.h"

// agent_runs.c
route_fn toolbox_agent_runs_create, toolbox_agent_runs_list, toolbox_agent_runs_get,
	toolbox_agent_runs_stream, toolbox_agent_runs_stop, toolbox_agent_runs_changes;

// backup.c
route_fn toolbox_backup_create, toolbox_backup_restore;
path_arg_fn toolbox_backup_upload;

// exec.c
route_fn toolbox_exec_run, toolbox_exec_stream;

// files*.c
path_arg_fn toolbox_files_delete, toolbox_files_rename, toolbox_files_move, toolbox_files_mkdir,
	toolbox_files_exists, toolbox_files_stat, toolbox_files_chmod, toolbox_files_read,
	toolbox_files_write, toolbox_files_list, toolbox_files_find, toolbox_files_grep,
	toolbox_files_stream, toolbox_files_get, toolbox_files_put, toolbox_files_drop,
	toolbox_files_pack, toolbox_files_unpack;

// git.c
route_fn toolbox_git_checkout;

// interpreter.c: interpreter_serve() answers the error of a handler in the format of Cloudflare's
// interpreter.
fallible interpreter_serve(struct http *x, route_fn *work);
route_fn toolbox_interpreter_health, toolbox_interpreter_list, toolbox_interpreter_create,
	toolbox_interpreter_delete, toolbox_interpreter_interrupt, toolbox_interpreter_restart,
	toolbox_interpreter_run, toolbox_interpreter_cells, toolbox_interpreter_cell;

// misc.c
route_fn toolbox_misc_greet, toolbox_misc_ping, toolbox_misc_version, toolbox_misc_commands,
	toolbox_misc_no_desktop, toolbox_misc_no_tunnels, toolbox_misc_no_buckets;

// ports.c
route_fn toolbox_ports_list, toolbox_ports_expose, toolbox_ports_exposed, toolbox_ports_unexpose,
	toolbox_ports_watch, toolbox_ports_proxy;

// ps.c
route_fn toolbox_ps_list, toolbox_ps_signal;

// session.c
route_fn toolbox_session_create, toolbox_session_list, toolbox_session_get, toolbox_session_delete,
	toolbox_session_output, toolbox_session_env;

// term.c
route_fn toolbox_term_pty, toolbox_term_list, toolbox_term_log, toolbox_term_kill,
	toolbox_term_cast;

// watch.c
path_arg_fn toolbox_watch, toolbox_watch_check;
