// Handlers of the route table in daytona.c, by the file that has them.
#pragma once

#include "http/router.h"

// files.c
route_fn daytona_files_list, daytona_files_info, daytona_files_folder, daytona_files_delete,
	daytona_files_move, daytona_files_permissions, daytona_files_find, daytona_files_search,
	daytona_files_replace;

// git.c
route_fn daytona_git_clone, daytona_git_status, daytona_git_history, daytona_git_branches,
	daytona_git_branch_create, daytona_git_branch_delete, daytona_git_checkout, daytona_git_add,
	daytona_git_commit, daytona_git_push, daytona_git_pull, daytona_git_init, daytona_git_reset,
	daytona_git_restore, daytona_git_remotes, daytona_git_remote_add, daytona_git_config_get,
	daytona_git_config_set, daytona_git_config_user, daytona_git_credentials;

// preview.c
route_fn daytona_preview_url, daytona_preview_sign, daytona_preview_expire, daytona_preview_public,
	daytona_preview_signing_key, daytona_preview_rotate_key;

// process.c
route_fn daytona_process_execute, daytona_process_code_run, daytona_process_work_dir,
	daytona_process_home_dir;

// interpreter.c
route_fn daytona_interpreter_create, daytona_interpreter_list, daytona_interpreter_delete,
	daytona_interpreter_execute;

// network.c
route_fn daytona_network_settings;

// pty.c
route_fn daytona_pty_create, daytona_pty_create_connect, daytona_pty_connect, daytona_pty_list,
	daytona_pty_get, daytona_pty_delete, daytona_pty_resize;

// sandbox.c
route_fn daytona_sandbox_create, daytona_sandbox_list, daytona_sandbox_list_pages,
	daytona_sandbox_get, daytona_sandbox_toolbox_url, daytona_sandbox_delete,
	daytona_sandbox_start, daytona_sandbox_stop, daytona_sandbox_archive,
	daytona_sandbox_labels, daytona_sandbox_activity, daytona_sandbox_interval,
	daytona_sandbox_pause, daytona_sandbox_resize, daytona_sandbox_recover, daytona_sandbox_ttl;

// snapshots.c
route_fn daytona_snapshots_list, daytona_snapshots_get, daytona_snapshots_create,
	daytona_snapshots_delete, daytona_snapshots_of_sandbox, daytona_snapshots_fork,
	daytona_snapshots_logs_url, daytona_snapshots_logs;

// session.c
route_fn daytona_session_create, daytona_session_list, daytona_session_get, daytona_session_delete,
	daytona_session_exec, daytona_session_command, daytona_session_input, daytona_session_logs;

// storage.c
route_fn daytona_storage_access, daytona_storage_request;

// system.c
route_fn daytona_system_env, daytona_system_metrics, daytona_system_ports,
	daytona_system_port_in_use;

// transfer.c
route_fn daytona_transfer_upload_bulk, daytona_transfer_upload_one, daytona_transfer_download_bulk,
	daytona_transfer_download_one;

// volumes.c
route_fn daytona_volumes_list, daytona_volumes_create, daytona_volumes_get, daytona_volumes_delete;
