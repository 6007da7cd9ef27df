// Translates an RPC call into an HTTP request of the same sandbox, by one row of the table.
// Arguments become members of the JSON body, parts of the path, or numbers of streams and
// functions. Everything else, rights included, is checked by the route itself.
#include "cloudflare/rpc_table.h"

#include "codec/text.h"

#define BODY_MAX (48u << 20)
#define TARGET_MAX (16 * 1024)

// clang-format off
static const struct rpc_table table[] = {
	{"commands",    "execute",           "POST",   "/api/execute",            "command,sessionId,*", RPC_TABLE_PLAIN, NULL},
	{"commands",    "executeStream",     "POST",   "/api/execute/stream",     "command,sessionId,*", RPC_TABLE_EVENTS, NULL},
	{"files",       "readFile",          "POST",   "/api/read",               "path,sessionId,*", RPC_TABLE_PLAIN, NULL},
	{"files",       "readFileStream",    "POST",   "/api/read/stream",        "path,sessionId", RPC_TABLE_STREAM, NULL},
	{"files",       "writeFile",         "POST",   "/api/write",              "path,content,sessionId,*", RPC_TABLE_WRITTEN, NULL},
	{"files",       "writeFileStream",   "PUT",    "/api/files",              NULL, RPC_TABLE_UPLOAD, NULL},
	{"files",       "deleteFile",        "POST",   "/api/delete",             "path,sessionId", RPC_TABLE_PLAIN, NULL},
	{"files",       "renameFile",        "POST",   "/api/rename",             "oldPath,newPath,sessionId", RPC_TABLE_PLAIN, NULL},
	{"files",       "moveFile",          "POST",   "/api/move",               "sourcePath,destinationPath,sessionId", RPC_TABLE_PLAIN, NULL},
	{"files",       "mkdir",             "POST",   "/api/mkdir",              "path,sessionId,*", RPC_TABLE_PLAIN, NULL},
	{"files",       "listFiles",         "POST",   "/api/list-files",         "path,sessionId,options", RPC_TABLE_PLAIN, NULL},
	{"files",       "exists",            "POST",   "/api/exists",             "path,sessionId", RPC_TABLE_PLAIN, NULL},
	{"processes",   "startProcess",      "POST",   "/api/process/start",      "command,sessionId,*", RPC_TABLE_PLAIN, NULL},
	{"processes",   "listProcesses",     "GET",    "/api/process/list",       NULL, RPC_TABLE_PLAIN, NULL},
	{"processes",   "getProcess",        "GET",    "/api/process/{0}",        NULL, RPC_TABLE_PLAIN, NULL},
	{"processes",   "killProcess",       "DELETE", "/api/process/{0}",        NULL, RPC_TABLE_PLAIN, NULL},
	{"processes",   "killAllProcesses",  "DELETE", "/api/process/kill-all",   NULL, RPC_TABLE_PLAIN, NULL},
	{"processes",   "getProcessLogs",    "GET",    "/api/process/{0}/logs",   NULL, RPC_TABLE_PLAIN, NULL},
	{"processes",   "streamProcessLogs", "GET",    "/api/process/{0}/stream", NULL, RPC_TABLE_LOGS, NULL},
	{"ports",       "watchPort",         "POST",   "/api/port-watch",         "*", RPC_TABLE_STREAM, NULL},
	{"git",         "checkout",          "POST",   "/api/git/checkout",       "repoUrl,sessionId,*", RPC_TABLE_PLAIN, NULL},
	{"interpreter", "createCodeContext", "POST",   "/api/contexts",           "*", RPC_TABLE_PLAIN, NULL},
	{"interpreter", "streamCode",        "POST",   "/api/execute/code",       "context_id,code,language", RPC_TABLE_STREAM, NULL},
	{"interpreter", "runCodeStream",     "POST",   "/api/execute/code",       "context_id,code,language,-,timeout_ms", RPC_TABLE_CALLS, NULL},
	{"interpreter", "listCodeContexts",  "GET",    "/api/contexts",           NULL, RPC_TABLE_PICK, "contexts"},
	{"interpreter", "deleteCodeContext", "DELETE", "/api/contexts/{0}",       NULL, RPC_TABLE_PLAIN, NULL},
	{"utils",       "ping",              "GET",    "/api/ping",               NULL, RPC_TABLE_PICK, "status"},
	{"utils",       "getVersion",        "GET",    "/api/version",            NULL, RPC_TABLE_PICK, "version"},
	{"utils",       "getCommands",       "GET",    "/api/commands",           NULL, RPC_TABLE_PICK, "availableCommands"},
	{"utils",       "createSession",     "POST",   "/api/session/create",     "*", RPC_TABLE_PLAIN, NULL},
	{"utils",       "deleteSession",     "POST",   "/api/session/delete",     "sessionId", RPC_TABLE_PLAIN, NULL},
	{"utils",       "listSessions",      "GET",    "/api/session/list",       NULL, RPC_TABLE_SESSIONS, NULL},
	{"backup",      "createArchive",     "POST",   "/api/backup/create",      "dir,archivePath,sessionId,*", RPC_TABLE_PLAIN, NULL},
	{"backup",      "restoreArchive",    "POST",   "/api/backup/restore",     "dir,archivePath,sessionId", RPC_TABLE_PLAIN, NULL},
	{"backup",      "uploadParts",       "POST",   "/api/backup/upload-parts", "*", RPC_TABLE_PLAIN, NULL},
	{"watch",       "watch",             "POST",   "/api/watch",              "*", RPC_TABLE_STREAM, NULL},
	{"watch",       "checkChanges",      "POST",   "/api/watch/check",        "*", RPC_TABLE_PLAIN, NULL},
	{"tunnels",     "runQuickTunnel",    "POST",   "/api/tunnels/quick",      NULL, RPC_TABLE_PLAIN, NULL},
	{"tunnels",     "runNamedTunnel",    "POST",   "/api/tunnels/named",      NULL, RPC_TABLE_PLAIN, NULL},
	{"tunnels",     "ensureTunnelRun",   "POST",   "/api/tunnels/run",        NULL, RPC_TABLE_PLAIN, NULL},
	{"tunnels",     "stopTunnelRun",     "POST",   "/api/tunnels/stop",       NULL, RPC_TABLE_PLAIN, NULL},
	{"tunnels",     "destroyTunnel",     "POST",   "/api/tunnels/destroy",    NULL, RPC_TABLE_PLAIN, NULL},
	{"tunnels",     "listTunnels",       "POST",   "/api/tunnels/list",       NULL, RPC_TABLE_PLAIN, NULL},
};
// clang-format on

const struct rpc_table *rpc_table_find(struct str object, struct str name)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (str_is(object, table[i].object) && str_is(name, table[i].name))
			return &table[i];
	return NULL;
}

void rpc_table_done(struct rpc_table_request *request)
{
	buf_done(&request->target);
	buf_done(&request->body);
}

// An argument that must be a string, for a path.
static fallible text_arg(const struct json *args, size_t index, struct str *out)
{
	const struct json *arg = json_at(args, index);

	if (!arg || json_type(arg) != JSON_STRING)
		return err_new(INVALID, "bad_field", "argument %zu must be a string", index);
	return json_str(arg, "argument", out);
}

static fallible rpc_table_put_body(const char *names, const struct json *args, struct buf *body)
{
	struct json_out out = json_to(body);
	struct str rest = str_of(names), name;

	json_begin(&out, '{');
	for (size_t i = 0; str_cut(&rest, ',', &name); i++) {
		const struct json *arg = json_at(args, i);
		struct rpc_value value = {0};

		if (i >= json_count(args) || !name.len)
			break;
		if (str_is(name, "-"))
			continue;
		TRY(rpc_value(arg, &value));
		if (value.type == RPC_UNDEFINED)
			continue;
		if (str_is(name, "*")) {
			if (value.type == RPC_PLAIN && arg && json_type(arg) == JSON_OBJECT)
				TRY(rpc_plain_members(arg, &out));
			continue;
		}
		buf_text(body, out.comma ? ",\"" : "\"");
		buf_str(body, name);
		buf_text(body, "\":");
		out.comma = false;
		TRY(rpc_plain(arg, &out));
	}
	json_end(&out, '}');
	return buf_ok(body) ? OK
			    : err_new(TOO_LARGE, "body_too_large", "the arguments are too large");
}

static fallible put_target(const struct rpc_table *row, const struct json *args, struct buf *target)
{
	const char *hole = strstr(row->path, "{0}");
	struct str id = {0};

	if (!hole) {
		buf_text(target, row->path);
		return OK;
	}
	TRY(text_arg(args, 0, &id));
	buf_add(target, row->path, (size_t)(hole - row->path));
	text_percent(target, id);
	buf_text(target, hole + 3);
	return id.len && buf_ok(target) ? OK : err_new(INVALID, "bad_field", "the id is malformed");
}

// Writes a file's path as the rest of a URL; a relative path starts at its session's directory.
static fallible rpc_table_put_file(const struct json *args, size_t session_at, struct buf *target)
{
	struct str path = {0}, session = STR(""), part;
	bool is_relative;

	TRY(text_arg(args, 0, &path));
	if (!path.len)
		return err_new(INVALID, "bad_path", "the path is empty");
	is_relative = path.at[0] != '/';
	if (is_relative && json_at(args, session_at) &&
	    json_type(json_at(args, session_at)) == JSON_STRING)
		TRY(text_arg(args, session_at, &session));
	buf_text(target, is_relative ? "/api/files/" : "/api/files");
	for (bool first = true; str_cut(&path, '/', &part); first = false) {
		if (!first)
			buf_char(target, '/');
		text_percent(target, part);
	}
	if (is_relative) {
		buf_text(target, "?relativeTo=");
		text_percent(target, session);
	}
	return buf_ok(target) ? OK : err_new(INVALID, "bad_path", "the path is too long");
}

static bool wants_raw(const struct rpc_table *row, const struct json *args)
{
	const struct json *options = json_at(args, 2);
	struct str encoding = {0};

	if (strcmp(row->name, "readFile") != 0 || !options || json_type(options) != JSON_OBJECT)
		return false;
	err_free(json_str(json_get(options, "encoding"), "encoding", &encoding));
	return str_is(encoding, "none");
}

static void count_written(const struct json *args, struct rpc_table_request *out)
{
	const struct json *options = json_at(args, 3);
	struct str content = json_chars(json_at(args, 1)), encoding = {0};

	if (options && json_type(options) == JSON_OBJECT)
		err_free(json_str(json_get(options, "encoding"), "encoding", &encoding));
	out->written = content.len;
	if (!str_is(encoding, "base64"))
		return;
	while (content.len && content.at[content.len - 1] == '=')
		content.len--;
	out->written = content.len * 3 / 4;
}

static fallible put_upload(const struct json *args, struct rpc_table_request *out)
{
	struct rpc_value value;

	TRY(rpc_value(json_at(args, 1), &value));
	if (value.type != RPC_READABLE)
		return err_new(INVALID, "bad_field", "argument 1 must be a stream");
	out->pipe = value.id;
	return rpc_table_put_file(args, 2, &out->target);
}

// The fourth argument is an object of functions.
static fallible take_functions(const struct json *args, int64_t *out)
{
	static const char *const names[RPC_TABLE_FUNCTIONS] = {"onStdout", "onStderr", "onResult",
							       "onError"};
	const struct json *given = json_at(args, 3);

	if (!given || json_type(given) != JSON_OBJECT)
		return OK;
	for (size_t i = 0; i < RPC_TABLE_FUNCTIONS; i++) {
		struct rpc_value value = {0};

		if (!json_get(given, names[i]))
			continue;
		TRY(rpc_value(json_get(given, names[i]), &value));
		if (value.type == RPC_EXPORT)
			out[i] = value.id;
	}
	return OK;
}

fallible rpc_table_write(const struct rpc_table *row, const struct json *args,
			 struct rpc_table_request *out)
{
	*out = (struct rpc_table_request){
		.shape = row->shape,
		.method = row->method,
		.target = BUF_INIT(TARGET_MAX),
		.body = BUF_INIT(BODY_MAX),
	};
	if (wants_raw(row, args)) {
		out->shape = RPC_TABLE_DOWNLOAD;
		out->method = "GET";
		return rpc_table_put_file(args, 1, &out->target);
	}
	if (row->shape == RPC_TABLE_UPLOAD)
		return put_upload(args, out);
	TRY(put_target(row, args, &out->target));
	if (row->shape == RPC_TABLE_WRITTEN) {
		if (!json_at(args, 1) || json_type(json_at(args, 1)) != JSON_STRING)
			return err_new(INVALID, "bad_field", "'content' must be a string");
		count_written(args, out);
	}
	if (row->shape == RPC_TABLE_CALLS)
		TRY(take_functions(args, out->functions));
	out->has_body = strcmp(row->method, "POST") == 0;
	return out->has_body ? rpc_table_put_body(row->args ? row->args : "", args, &out->body)
			     : OK;
}
