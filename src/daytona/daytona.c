// The route table of Daytona's API, and what of it cove does not offer. Rows match in order: the
// last two answer 501 for every other path.
#include "daytona/daytona.h"

#include "daytona/handlers.h"
#include "gateway/gateway.h"

static const struct {
	const char *word, *hint;
} absent[] = {
	{"/build-logs", "logs are those of snapshots that are built"},
	{"/ssh-access", "'cove exec -it NAME bash' opens a shell"},
	{"/process/session/entrypoint", "a sandbox of cove has no entrypoint session"},
	{"/git/", "run git as a command"},
	{"/lsp/", "start the language server as a command"},
};

static fallible daytona_refuse(struct http *x)
{
	const char *hint = "docs/MIGRATING.md lists what cove offers of Daytona's API";

	for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
		if (memmem(x->url.path.at, x->url.path.len, absent[i].word,
			   strlen(absent[i].word))) {
			hint = absent[i].hint;
			break;
		}
	return err_hint(err_new(NOT_OFFERED, "not_offered",
				"cove does not offer this part of Daytona's API"),
			"%s", hint);
}

static fallible daytona_version(struct http *x)
{
	auto_buf body = BUF_INIT(256);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "version", gateway_of(x)->version);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible daytona_no_desktop(struct http *x)
{
	(void)x;
	return err_hint(err_new(UNAVAILABLE, "no_desktop", "this sandbox has no desktop"),
			"run a display server and a VNC server as commands");
}

// What a client asks before it signs in: nothing of it is secret.
static fallible daytona_config(struct http *x)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "version", gateway_of(x)->version);
	json_put_text(&out, "proxyToolboxUrl",
		      arena_fmt(x->arena, "%s/daytona/toolbox", gateway_origin(x)));
	json_put_text(&out, "proxyTemplateUrl", NULL);
	json_put_text(&out, "defaultSnapshot", "host");
	json_put_text(&out, "dashboardUrl", arena_fmt(x->arena, "%s/ui/", gateway_origin(x)));
	json_put_text(&out, "analyticsApiUrl", NULL);
	json_put_bool(&out, "maintananceMode", false); // upstream's spelling
	json_put_text(&out, "environment", "cove");
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible daytona_health(struct http *x)
{
	auto_buf body = BUF_INIT(256);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "status", "ok");
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

#define API "/daytona"
#define SANDBOX API "/sandbox/{id/}"
#define TOOLBOX API "/toolbox/{id/}"

// clang-format off
const struct route daytona_routes[] = {
	{"POST",   API "/sandbox",                        daytona_sandbox_create,      ROUTE_AUDITED,  "make a sandbox"},
	{"GET",    API "/sandbox",                        daytona_sandbox_list,        0,              "list sandboxes, newest first, with a cursor"},
	{"GET",    API "/sandbox/paginated",              daytona_sandbox_list_pages,  0,              "list sandboxes in numbered pages"},
	{"GET",    SANDBOX,                               daytona_sandbox_get,         0,              "get a sandbox by id or name"},
	{"DELETE", SANDBOX,                               daytona_sandbox_delete,      ROUTE_AUDITED,  "delete a sandbox"},
	{"GET",    SANDBOX "/toolbox-proxy-url",          daytona_sandbox_toolbox_url, 0,              "the base of the toolbox"},
	{"POST",   SANDBOX "/start",                      daytona_sandbox_start,       ROUTE_AUDITED,  "start a sandbox"},
	{"POST",   SANDBOX "/stop",                       daytona_sandbox_stop,        ROUTE_AUDITED,  "stop a sandbox"},
	{"POST",   SANDBOX "/archive",                    daytona_sandbox_archive,     ROUTE_AUDITED,  "pack the files of a stopped sandbox"},
	{"PUT",    SANDBOX "/labels",                     daytona_sandbox_labels,      ROUTE_AUDITED,  "replace all labels"},
	{"POST",   SANDBOX "/last-activity",              daytona_sandbox_activity,    ROUTE_READONLY, "count as activity"},
	{"POST",   SANDBOX "/autostop/{minutes}",         daytona_sandbox_interval,    ROUTE_AUDITED,  "stop after so much idleness"},
	{"POST",   SANDBOX "/autoarchive/{minutes}",      daytona_sandbox_interval,    ROUTE_AUDITED,  "archive so long after the stop"},
	{"POST",   SANDBOX "/autodelete/{minutes}",       daytona_sandbox_interval,    ROUTE_AUDITED,  "delete so long after the stop"},
	{"POST",   SANDBOX "/ttl/{minutes}",              daytona_sandbox_ttl,         ROUTE_AUDITED,  "delete after so much time"},
	{"POST",   SANDBOX "/resize",                     daytona_sandbox_resize,      ROUTE_AUDITED,  "change the limits of a sandbox"},
	{"POST",   SANDBOX "/recover",                    daytona_sandbox_recover,     ROUTE_AUDITED,  "start a failed sandbox with its files"},
	{"POST",   SANDBOX "/network-settings",           daytona_network_settings,    ROUTE_AUDITED,  "block the network, or allow lists"},
	{"POST",   SANDBOX "/pause",                      daytona_sandbox_pause,       ROUTE_AUDITED,  "freeze a sandbox until it is started"},
	{"POST",   SANDBOX "/snapshot",                   daytona_snapshots_of_sandbox, ROUTE_AUDITED, "make a snapshot of the files of a sandbox"},
	{"POST",   SANDBOX "/fork",                       daytona_snapshots_fork,      ROUTE_AUDITED,  "make a sandbox with the files of a sandbox"},
	{"GET",    API "/snapshots",                      daytona_snapshots_list,      0,              "list templates in numbered pages"},
	{"POST",   API "/snapshots",                      daytona_snapshots_create,    ROUTE_AUDITED,  "pull an image, or build a Dockerfile"},
	{"GET",    API "/snapshots/{name/}",               daytona_snapshots_get,       0,              "get a template"},
	{"DELETE", API "/snapshots/{name/}",               daytona_snapshots_delete,    ROUTE_AUDITED,  "remove a template"},
	{"POST",   API "/snapshots/{name/}/activate",      daytona_snapshots_get,       ROUTE_READONLY, "get a template: each is active"},
	{"GET",    API "/volumes",                        daytona_volumes_list,        0,              "list volumes"},
	{"POST",   API "/volumes",                        daytona_volumes_create,      ROUTE_AUDITED,  "make a volume"},
	{"GET",    API "/volumes/by-name/{name/}",         daytona_volumes_get,         0,              "get a volume by name"},
	{"GET",    API "/volumes/{name/}",                 daytona_volumes_get,         0,              "get a volume by id"},
	{"DELETE", API "/volumes/{name/}",                 daytona_volumes_delete,      ROUTE_AUDITED,  "delete a volume"},
	{"GET",    SANDBOX "/signing-key",                daytona_preview_signing_key, 0,              "the key of signed URLs of files"},
	{"POST",   SANDBOX "/signing-key/rotate",         daytona_preview_rotate_key,  ROUTE_AUDITED,  "replace that key"},
	{"GET",    API "/snapshots/{name/}/build-logs-url", daytona_snapshots_logs_url, 0,              "where the log of a build is"},
	{"GET",    API "/snapshots/{name/}/build-logs",    daytona_snapshots_logs,      0,              "the log of a build, also as it is written"},
	{"GET",    API "/object-storage/push-access",     daytona_storage_access,      0,              "a credential for files of builds"},
	{"*",      API "/storage/{path*}",                daytona_storage_request,     ROUTE_OPEN | ROUTE_STREAM, "S3: files of builds"},
	{"POST",   SANDBOX "/public/{flag}",              daytona_preview_public,      ROUTE_AUDITED,  "let visitors of previews in without a token"},
	{"GET",    SANDBOX "/ports/{port}/preview-url",   daytona_preview_url,         0,              "the address of a port, and the token of the sandbox"},
	{"GET",    SANDBOX "/ports/{port}/signed-preview-url", daytona_preview_sign,   0,              "an address of a port that needs no token, for a time"},
	{"POST",   SANDBOX "/ports/{port}/signed-preview-url/{token}/expire", daytona_preview_expire, ROUTE_AUDITED, "take a signed address back"},
	{"POST",   TOOLBOX "/process/execute",            daytona_process_execute,     0,              "run a command"},
	{"POST",   TOOLBOX "/process/code-run",           daytona_process_code_run,    0,              "run code"},
	{"*",      TOOLBOX "/process/session/entrypoint", daytona_refuse,              ROUTE_READONLY, "not offered"},
	{"*",      TOOLBOX "/process/session/entrypoint/{path*}", daytona_refuse,      ROUTE_READONLY, "not offered"},
	{"POST",   TOOLBOX "/process/session",            daytona_session_create,      0,              "make a session"},
	{"GET",    TOOLBOX "/process/session",            daytona_session_list,        0,              "list sessions and their commands"},
	{"GET",    TOOLBOX "/process/session/{session/}",  daytona_session_get,         0,              "a session and its commands"},
	{"DELETE", TOOLBOX "/process/session/{session/}",  daytona_session_delete,      0,              "end a session and what runs in it"},
	{"POST",   TOOLBOX "/process/session/{session/}/exec", daytona_session_exec,    0,              "run a command in a session"},
	{"GET",    TOOLBOX "/process/session/{session/}/command/{command}", daytona_session_command, 0, "a command and its exit code"},
	{"POST",   TOOLBOX "/process/session/{session/}/command/{command}/input", daytona_session_input, 0, "write to the stdin of a command"},
	{"GET",    TOOLBOX "/process/session/{session/}/command/{command}/logs", daytona_session_logs, 0, "the output of a command, once or by WebSocket"},
	{"POST",   TOOLBOX "/process/pty",                daytona_pty_create,          0,              "start a terminal"},
	{"GET",    TOOLBOX "/process/pty",                daytona_pty_list,            0,              "list terminals"},
	{"GET",    TOOLBOX "/process/pty/create-connect", daytona_pty_create_connect,  0,              "WebSocket: start a terminal and attach to it"},
	{"GET",    TOOLBOX "/process/pty/{pty/}",          daytona_pty_get,             0,              "get a terminal"},
	{"DELETE", TOOLBOX "/process/pty/{pty/}",          daytona_pty_delete,          0,              "kill what runs in a terminal"},
	{"POST",   TOOLBOX "/process/pty/{pty/}/resize",   daytona_pty_resize,          0,              "change the size of a terminal"},
	{"GET",    TOOLBOX "/process/pty/{pty/}/connect",  daytona_pty_connect,         0,              "WebSocket: attach to a terminal"},
	{"POST",   TOOLBOX "/process/interpreter/context", daytona_interpreter_create, 0,              "make a Python context"},
	{"GET",    TOOLBOX "/process/interpreter/context", daytona_interpreter_list,   0,              "list Python contexts"},
	{"DELETE", TOOLBOX "/process/interpreter/context/{context}", daytona_interpreter_delete, 0,    "end a Python context"},
	{"GET",    TOOLBOX "/process/interpreter/execute", daytona_interpreter_execute, 0,             "WebSocket: run code in a context"},
	{"POST",   TOOLBOX "/git/clone",              daytona_git_clone,           0,              "clone a repository"},
	{"GET",    TOOLBOX "/git/status",             daytona_git_status,          0,              "the branch and changed files"},
	{"GET",    TOOLBOX "/git/history",            daytona_git_history,         0,              "the last commits"},
	{"GET",    TOOLBOX "/git/branches",           daytona_git_branches,        0,              "list branches"},
	{"POST",   TOOLBOX "/git/branches",           daytona_git_branch_create,   0,              "make a branch and switch to it"},
	{"DELETE", TOOLBOX "/git/branches",           daytona_git_branch_delete,   0,              "delete a branch"},
	{"POST",   TOOLBOX "/git/checkout",           daytona_git_checkout,        0,              "switch to a branch or commit"},
	{"POST",   TOOLBOX "/git/add",                daytona_git_add,             0,              "stage files"},
	{"POST",   TOOLBOX "/git/commit",             daytona_git_commit,          0,              "commit what is staged"},
	{"POST",   TOOLBOX "/git/push",               daytona_git_push,            0,              "push a branch"},
	{"POST",   TOOLBOX "/git/pull",               daytona_git_pull,            0,              "pull a branch, fast-forward only"},
	{"POST",   TOOLBOX "/git/init",               daytona_git_init,            0,              "make a repository"},
	{"POST",   TOOLBOX "/git/reset",              daytona_git_reset,           0,              "move the branch, or unstage files"},
	{"POST",   TOOLBOX "/git/restore",            daytona_git_restore,         0,              "undo changes of files"},
	{"GET",    TOOLBOX "/git/remotes",            daytona_git_remotes,         0,              "list remotes"},
	{"POST",   TOOLBOX "/git/remotes",            daytona_git_remote_add,      0,              "add a remote"},
	{"GET",    TOOLBOX "/git/config",             daytona_git_config_get,      0,              "a value of the configuration"},
	{"POST",   TOOLBOX "/git/config",             daytona_git_config_set,      0,              "set a value of the configuration"},
	{"POST",   TOOLBOX "/git/config/user",        daytona_git_config_user,     0,              "set name and address of the author"},
	{"POST",   TOOLBOX "/git/credentials",        daytona_git_credentials,     0,              "store credentials in the sandbox"},
	{"GET",    TOOLBOX "/work-dir",                   daytona_process_work_dir,    0,              "the directory in which commands start"},
	{"GET",    TOOLBOX "/user-home-dir",              daytona_process_home_dir,    0,              "the home directory of the user of commands"},
	{"POST",   TOOLBOX "/env",                        daytona_system_env,          0,              "change the environment of commands started later"},
	{"GET",    TOOLBOX "/system/metrics",             daytona_system_metrics,      0,              "what the sandbox uses now"},
	{"GET",    TOOLBOX "/port",                       daytona_system_ports,        0,              "ports on which a process listens"},
	{"GET",    TOOLBOX "/port/{port}/in-use",         daytona_system_port_in_use,  0,              "whether a process listens on a port"},
	{"GET",    TOOLBOX "/version",                    daytona_version,             0,              "the version of cove"},
	{"GET",    TOOLBOX "/files",                      daytona_files_list,          0,              "list a directory"},
	{"DELETE", TOOLBOX "/files",                      daytona_files_delete,        0,              "delete a file, or a tree"},
	{"GET",    TOOLBOX "/files/info",                 daytona_files_info,          0,              "metadata of a file"},
	{"POST",   TOOLBOX "/files/folder",               daytona_files_folder,        0,              "make a directory and its parents"},
	{"POST",   TOOLBOX "/files/move",                 daytona_files_move,          0,              "move or rename"},
	{"POST",   TOOLBOX "/files/permissions",          daytona_files_permissions,   0,              "set owner, group and mode"},
	{"GET",    TOOLBOX "/files/find",                 daytona_files_find,          0,              "find lines that contain a text"},
	{"GET",    TOOLBOX "/files/search",               daytona_files_search,        0,              "find files by name"},
	{"POST",   TOOLBOX "/files/replace",              daytona_files_replace,       0,              "replace a text in files"},
	{"POST",   TOOLBOX "/files/bulk-upload",          daytona_transfer_upload_bulk, ROUTE_STREAM,  "write files of a form"},
	{"POST",   TOOLBOX "/files/upload",               daytona_transfer_upload_one, ROUTE_STREAM,   "write the body to a file"},
	{"POST",   TOOLBOX "/files/upload-v2",            daytona_transfer_upload_one, ROUTE_STREAM,   "write the body to a file"},
	{"POST",   TOOLBOX "/files/bulk-download",        daytona_transfer_download_bulk, ROUTE_READONLY, "read files as a form"},
	{"GET",    TOOLBOX "/files/download",             daytona_transfer_download_one, 0,            "read one file"},
	{"*",      TOOLBOX "/computeruse/{path*}",        daytona_no_desktop,          ROUTE_READONLY, "there is no desktop"},
	{"*",      TOOLBOX "/{path*}",                    daytona_refuse,              ROUTE_READONLY, "not offered"},
	{"GET",    API "/config",                         daytona_config,              ROUTE_OPEN,     "addresses of this cove"},
	{"GET",    API "/health",                         daytona_health,              ROUTE_OPEN,     "whether cove answers"},
	{"*",      API "/{path*}",                        daytona_refuse,              ROUTE_READONLY, "not offered"},
	{0},
};
// clang-format on
