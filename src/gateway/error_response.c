// Maps errors to status codes and JSON bodies. Below /v1/sandboxes/{id}/ codes and statuses are
// those of Cloudflare's container server, because its clients build their error classes from them;
// elsewhere the code is our own error kind. `reason`, `hint` and `retryable` are cove's own fields
// everywhere.
#include "gateway/error_response.h"

#include <ctype.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "codec/json.h"
#include "http/router.h"

#define BODY_MAX (64 * 1024)
#define RETRY_AFTER_S 1
#define ROOM "/v1/sandboxes/"
#define INVALID "VALIDATION_FAILED"
#define INVALID_URL "INVALID_GIT_URL"
#define NO_ENDPOINT "UNKNOWN_ERROR"

// Maps our reasons to Cloudflare's codes.
static const struct {
	const char *reason, *code;
	int status;
} codes[] = {
	{"command_not_found", "COMMAND_NOT_FOUND", 404},
	{"not_executable", "COMMAND_PERMISSION_DENIED", 403},
	{"no_cwd", "COMMAND_EXECUTION_ERROR", 500},
	{"bad_env", "COMMAND_EXECUTION_ERROR", 500},
	{"bad_command", "INVALID_COMMAND", 400},
	{"command_timeout", "COMMAND_EXECUTION_ERROR", 500},
	{"blank_session", "COMMAND_EXECUTION_ERROR", 500},
	{"no_bash", "COMMAND_EXECUTION_ERROR", 500},
	{"session_exists", "SESSION_ALREADY_EXISTS", 409},
	{"session_terminated", "SESSION_TERMINATED", 410},
	{"session_destroyed", "SESSION_DESTROYED", 410},
	{"no_session", "INTERNAL_ERROR", 500},
	{"bad_field", "VALIDATION_FAILED", 400},
	{"bad_json", "VALIDATION_FAILED", 400},
	{"bad_content_type", "VALIDATION_FAILED", 400},
	{"no_user", "VALIDATION_FAILED", 400},
	{"bad_git_url", "INVALID_GIT_URL", 400},
	{"git_network", "GIT_NETWORK_ERROR", 502},
	{"git_no_repository", "GIT_REPOSITORY_NOT_FOUND", 404},
	{"git_no_branch", "GIT_BRANCH_NOT_FOUND", 404},
	{"git_auth", "GIT_AUTH_FAILED", 401},
	{"git_clone", "GIT_CLONE_FAILED", 500},
	{"git_failed", "GIT_OPERATION_FAILED", 500},
	{"bad_backup", "INVALID_BACKUP_CONFIG", 400},
	{"not_global", "PERMISSION_DENIED", 403},
	{"backup_create", "BACKUP_CREATE_FAILED", 500},
	{"backup_restore", "BACKUP_RESTORE_FAILED", 500},
	{"no_file", "FILE_NOT_FOUND", 404},
	{"file_exists", "FILE_EXISTS", 409},
	{"file_too_large", "FILE_TOO_LARGE", 413},
	{"file_busy", "RESOURCE_BUSY", 409},
	{"is_directory", "IS_DIRECTORY", 400},
	{"not_directory", "NOT_DIRECTORY", 400},
	{"not_regular", "FILESYSTEM_ERROR", 400},
	{"not_empty", "FILESYSTEM_ERROR", 500},
	{"fs_error", "FILESYSTEM_ERROR", 500},
	{"io_error", "FILESYSTEM_ERROR", 500},
	{"permission_denied", "PERMISSION_DENIED", 403},
	{"read_only", "READ_ONLY", 403},
	{"name_too_long", "NAME_TOO_LONG", 400},
	{"too_many_files", "TOO_MANY_FILES", 500},
	{"too_many_links", "FILESYSTEM_ERROR", 500},
	{"too_deep", "FILESYSTEM_ERROR", 500},
	{"bad_path", "VALIDATION_FAILED", 400},
	{"bad_pattern", "VALIDATION_FAILED", 400},
	{"watch_start", "WATCH_START_ERROR", 500},
	{"bad_range", "VALIDATION_FAILED", 416},
	{"bad_archive", "VALIDATION_FAILED", 400},
	{"archive_too_large", "FILE_TOO_LARGE", 413},
	{"no_space", "NO_SPACE", 500},
	{"disk_full", "NO_SPACE", 500},
	{"box_starting", "CONTAINER_UNAVAILABLE", 503},
	{"no_warden", "CONTAINER_UNAVAILABLE", 503},
	{"bad_port", "INVALID_PORT_NUMBER", 400},
	{"port_exposed", "PORT_ALREADY_EXPOSED", 409},
	{"port_not_exposed", "PORT_NOT_EXPOSED", 404},
	{"no_interpreter", "PYTHON_NOT_AVAILABLE", 501},
	{"no_node", "JAVASCRIPT_NOT_AVAILABLE", 501},
	{"interpreter_failed", "INTERPRETER_NOT_READY", 503},
	{"no_context", "CONTEXT_NOT_FOUND", 404},
	{"no_cell", "CELL_NOT_FOUND", 404},
	{"wrong_language", "CODE_EXECUTION_ERROR", 500},
	{"context_died", "INTERNAL_ERROR", 500},
	{"no_process", "PROCESS_NOT_FOUND", 404},
	{"process_ended", "COMMAND_NOT_FOUND", 404},
	{"process_exists", "RESOURCE_BUSY", 409},
	{"stdin_closed", "RESOURCE_BUSY", 409},
	{"bad_process_id", "VALIDATION_FAILED", 400},
	{"bad_offset", "VALIDATION_FAILED", 400},
	{"bad_pattern", "VALIDATION_FAILED", 400},
	{"not_ready", "PROCESS_READY_TIMEOUT", 408},
	{"exited_before_ready", "PROCESS_EXITED_BEFORE_READY", 500},
	{"internal", "INTERNAL_ERROR", 500},
	{"no_route", NO_ENDPOINT, 404},
	{"bad_method", NO_ENDPOINT, 404},
};

// The `suggestion` of an error, which Cloudflare's clients show beside the message. Only for errors
// whose hint does not say more.
static const struct {
	const char *code, *text;
} suggestions[] = {
	{"BACKUP_NOT_FOUND", "Check the id of the backup; it may have expired"},
	{"COMMAND_NOT_FOUND", "Check that the command is installed and in PATH"},
	{"COMMAND_PERMISSION_DENIED", "Check that the file may be executed: chmod +x"},
	{"CONTEXT_NOT_FOUND", "Create a context first: POST /api/contexts"},
	{"FILE_EXISTS", "Choose another path, or delete the file first"},
	{"FILE_NOT_FOUND",
	 "Check that the path exists; a relative one begins where the session is"},
	{"FILE_TOO_LARGE", "Read or write it as a stream"},
	{"GIT_AUTH_FAILED", "Check the credentials, or use a public repository"},
	{"GIT_BRANCH_NOT_FOUND", "Check the name of the branch"},
	{"GIT_CLONE_FAILED", "Check the URL and the target directory"},
	{"GIT_NETWORK_ERROR", "Check that the network policy allows the host, or raise timeoutMs"},
	{"GIT_OPERATION_FAILED", "See what git says in context.stderr"},
	{"GIT_REPOSITORY_NOT_FOUND", "Check the URL, and whether it needs credentials"},
	{"INTERPRETER_NOT_READY", "Wait a moment and try again"},
	{"INVALID_COMMAND", "Send a command that is not empty"},
	{"INVALID_GIT_URL", "Use https://HOST/OWNER/NAME.git or git@HOST:OWNER/NAME.git"},
	{"INVALID_PORT_NUMBER", "Use a port from 1 to 65535 that is not reserved"},
	{"IS_DIRECTORY", "Name a file; /api/list-files lists a directory"},
	{"NOT_DIRECTORY", "Name a directory; /api/read reads a file"},
	{"NO_SPACE", "Delete files, or raise the sandbox's diskMB"},
	{"PERMISSION_DENIED", "Check the owner and the mode of the path"},
	{"PORT_ALREADY_EXPOSED", "Unexpose the port first, or use another one"},
	{"PORT_NOT_EXPOSED", "Expose the port first"},
	{"PROCESS_NOT_FOUND", "Check the id of the process; /api/process/list lists them"},
	{"PYTHON_NOT_AVAILABLE", "Use a template with python3"},
	{"SESSION_ALREADY_EXISTS", "Use the session, or delete it first"},
	{"SESSION_TERMINATED", "The next command starts a new shell"},
	{"VALIDATION_FAILED", "See context.validationErrors for the field that is wrong"},
};

struct face {
	char code[40];
	int status;
};

// Whether the path is below a sandbox, even if no route matches.
static bool is_below_box(const struct http *x, const char *place)
{
	struct str rest = x->url.path, id;

	if (!str_starts(rest, ROOM))
		return false;
	rest = str_skip(rest, strlen(ROOM));
	str_cut(&rest, '/', &id);
	return rest.at && str_starts(rest, place);
}

static bool is_inside(const struct http *x)
{
	return is_below_box(x, "");
}

// `not_ready` of a process that is waited for; another is that of the sandbox itself.
static bool is_of_route(const struct http *x, const char *reason)
{
	return strcmp(reason, "not_ready") != 0 || is_below_box(x, "api/process/");
}

// Cloudflare's bridge has its own ids, codes and errors.
static bool is_bridge(const struct http *x)
{
	return str_is(x->url.path, "/v1/sandbox") || str_starts(x->url.path, "/v1/sandbox/") ||
	       str_starts(x->url.path, "/v1/pool/");
}

// Daytona's API has its own errors: those of the control plane, and those of the toolbox, from
// whose codes its clients build error classes.
#define DAYTONA "/daytona/"
#define DAYTONA_TOOLBOX DAYTONA "toolbox/"

static bool is_daytona(const struct http *x)
{
	return str_starts(x->url.path, DAYTONA);
}

static const struct {
	const char *reason, *code;
	int status;
} daytona_codes[] = {
	{"command_timeout", "PROCESS_EXECUTION_TIMEOUT", 408},
	{"bad_json", "INVALID_REQUEST_BODY", 400},
	{"no_file", "FILE_NOT_FOUND", 404},
	{"permission_denied", "FILE_ACCESS_DENIED", 403},
	{"read_only", "FILE_ACCESS_DENIED", 403},
	{"is_directory", "INVALID_FILE_PATH", 400},
	{"not_directory", "INVALID_FILE_PATH", 400},
	{"not_regular", "INVALID_FILE_PATH", 400},
	{"bad_path", "INVALID_FILE_PATH", 400},
	{"name_too_long", "INVALID_FILE_PATH", 400},
	{"too_many_links", "INVALID_FILE_PATH", 400},
	{"fs_error", "FILE_READ_FAILED", 500},
	{"no_command", "PROCESS_NOT_FOUND", 404},
	{"git_no_repository", "GIT_REPO_NOT_FOUND", 404},
	{"git_no_branch", "GIT_BRANCH_NOT_FOUND", 404},
	{"git_auth", "GIT_AUTH_FAILED", 401},
	{"git_branch_exists", "GIT_BRANCH_EXISTS", 409},
	{"git_push_rejected", "GIT_PUSH_REJECTED", 409},
	{"git_remote_rejected", "GIT_REMOTE_REJECTED", 409},
	{"git_dirty", "GIT_DIRTY_WORKTREE", 409},
	{"git_conflict", "GIT_MERGE_CONFLICT", 409},
	{"git_transport", "GIT_TRANSPORT_FAILED", 500},
	{"command_ended", "COMMAND_ALREADY_COMPLETED", 410},
};

static const struct {
	int status;
	const char *code;
} daytona_words[] = {
	{400, "BAD_REQUEST"},
	{401, "UNAUTHORIZED"},
	{501, "NOT_IMPLEMENTED"},
	{500, "INTERNAL_SERVER_ERROR"},
};

static struct face daytona_face(const struct err *err)
{
	struct face face = {.status = err_http(err)};
	const char *word = err_word(err);

	for (size_t i = 0; i < sizeof(daytona_codes) / sizeof(*daytona_codes); i++)
		if (!strcmp(err_reason(err), daytona_codes[i].reason)) {
			face.status = daytona_codes[i].status;
			snprintf(face.code, sizeof(face.code), "%s", daytona_codes[i].code);
			return face;
		}
	for (size_t i = 0; i < sizeof(daytona_words) / sizeof(*daytona_words); i++)
		if (face.status == daytona_words[i].status)
			word = daytona_words[i].code;
	for (size_t i = 0; word[i] && i + 1 < sizeof(face.code); i++)
		face.code[i] = (char)toupper((unsigned char)word[i]);
	return face;
}

// The clients show nothing but the message: the hint is part of it.
static void daytona_write_body(struct buf *body, const struct http *x, const struct err *err,
			       const struct face *face)
{
	const char *hint = err_hint_of(err);
	auto_buf words = BUF_INIT(BODY_MAX / 8);
	struct json_out out = json_to(body);

	buf_fmt(&words, "%s%s%s%s", err_message(err), hint ? " (" : "", hint ? hint : "",
		hint ? ")" : "");
	json_begin(&out, '{');
	json_put_int(&out, "statusCode", face->status);
	json_put_str(&out, "message", buf_view(&words));
	if (str_starts(x->url.path, DAYTONA_TOOLBOX)) {
		json_put_text(&out, "code", face->code);
		json_put_str(&out, "method", x->head.method);
		json_put_text(&out, "source", "DAYTONA_DAEMON");
	} else {
		json_put_text(&out, "error", http1_status_text(face->status));
	}
	json_put_str(&out, "path", x->url.path);
	json_put_time(&out, "timestamp", clock_wall_ms());
	json_put_text(&out, "reason", err_reason(err));
	json_put_text(&out, "requestId", x->id);
	json_end(&out, '}');
}

void error_response_daytona(const struct http *x, const struct err *err, struct buf *out)
{
	struct face face = daytona_face(err);

	daytona_write_body(out, x, err, &face);
}

static const char *bridge_code(const struct err *err)
{
	switch (err_kind(err)) {
	case ERR_UNAUTHENTICATED:
		return "unauthorized";
	case ERR_INVALID:
		return "invalid_request";
	case ERR_TOO_LARGE:
		return "payload_too_large";
	default:
		return err_reason(err);
	}
}

static struct face face_of(const struct http *x, const struct err *err)
{
	struct face face = {.status = err_http(err)};
	const char *word = err_word(err);

	if (is_daytona(x))
		return daytona_face(err);
	for (size_t i = 0; is_inside(x) && i < sizeof(codes) / sizeof(*codes); i++) {
		if (strcmp(err_reason(err), codes[i].reason) != 0 ||
		    !is_of_route(x, codes[i].reason))
			continue;
		snprintf(face.code, sizeof(face.code), "%s", codes[i].code);
		face.status = codes[i].status;
		return face;
	}
	if (is_inside(x) && err_kind(err) == ERR_INTERNAL)
		word = "internal_error";
	for (size_t i = 0; word[i] && i + 1 < sizeof(face.code); i++)
		face.code[i] = (char)toupper((unsigned char)word[i]);
	return face;
}

static const char *message_of(const struct err *err, const struct face *face)
{
	return strcmp(face->code, NO_ENDPOINT) ? err_message(err)
					       : "The requested endpoint was not found";
}

// "'cwd' must be a string" is about the field cwd.
static struct str field_of(const struct err *err, const struct error_response_detail *detail)
{
	struct str rest = str_of(err_message(err)), field;

	if (detail && detail->field)
		return str_of(detail->field);
	if (!str_starts(rest, "'"))
		return STR("body");
	rest = str_skip(rest, 1);
	str_cut(&rest, '\'', &field);
	return field;
}

static void write_context(struct json_out *out, const struct err *err, const struct face *face,
			  const struct error_response_detail *detail)
{
	struct str context = detail && detail->context.at ? detail->context : STR("{}");
	struct str rest = str_skip(context, 1);

	json_key(out, "context");
	if (strcmp(face->code, INVALID) != 0 && strcmp(face->code, INVALID_URL) != 0) {
		json_add_raw(out, context);
		return;
	}
	json_begin(out, '{');
	json_put_begin(out, "validationErrors", '[');
	json_begin(out, '{');
	json_put_str(out, "field", field_of(err, detail));
	json_put_text(out, "message", err_message(err));
	json_put_text(out, "code", detail && detail->fault ? detail->fault : err_reason(err));
	json_end(out, '}');
	json_end(out, ']');
	// The members of the handler's context follow.
	if (rest.len > 1)
		buf_char(out->buf, ',');
	buf_str(out->buf, rest);
	out->comma = true;
}

static const char *suggestion_of(const struct err *err, const struct face *face)
{
	for (size_t i = 0; i < sizeof(suggestions) / sizeof(*suggestions); i++)
		if (!strcmp(face->code, suggestions[i].code))
			return err_hint_of(err) ? err_hint_of(err) : suggestions[i].text;
	return NULL;
}

static void write_body(struct buf *body, const struct http *x, const struct err *err,
		       const struct face *face, const struct error_response_detail *detail)
{
	struct json_out out = json_to(body);

	json_begin(&out, '{');
	if (is_bridge(x)) {
		json_put_text(&out, "error", err_message(err));
		json_put_text(&out, "code", bridge_code(err));
	} else {
		json_put_text(&out, "code", face->code);
	}
	json_put_text(&out, "message", message_of(err, face));
	if (detail && detail->twice) {
		json_put_text(&out, "error", message_of(err, face));
		json_put_text(&out, "details", err_hint_of(err) ? err_hint_of(err) : "");
	}
	write_context(&out, err, face, detail);
	if (detail && detail->operation)
		json_put_text(&out, "operation", detail->operation);
	json_put_int(&out, "httpStatus", face->status);
	json_put_time(&out, "timestamp", clock_wall_ms());
	json_put_text(&out, "reason", err_reason(err));
	if (err_hint_of(err))
		json_put_text(&out, "hint", err_hint_of(err));
	if (is_inside(x) && suggestion_of(err, face))
		json_put_text(&out, "suggestion", suggestion_of(err, face));
	json_put_bool(&out, "retryable", err_may_retry(err));
	if (err_may_retry(err))
		json_put_int(&out, "retryAfter", RETRY_AFTER_S);
	json_put_text(&out, "requestId", x->id);
	if (detail && detail->exit_code)
		json_put_int(&out, "exitCode", detail->exit_code);
	json_end(&out, '}');
}

static void tell_operator(const struct http *x, const struct err *err, int status)
{
	bool ours = err_kind(err) == ERR_INTERNAL;
	bool passing = err_kind(err) == ERR_UNAVAILABLE || err_kind(err) == ERR_TIMEOUT;
	enum log_level level = ours ? LOG_ERROR : passing ? LOG_WARN : LOG_DEBUG;
	char number[16];

	if (!log_wants(level))
		return;
	snprintf(number, sizeof(number), "%d", status);
	log_event(level, "request.failed", "request", x->id, "status", number, "reason",
		  err_reason(err), "trail", err_trail(err), NULL);
}

fallible error_response_answer(struct http *x, struct err *failure,
			       const struct error_response_detail *detail)
{
	auto_err err = failure;
	struct face face = face_of(x, err);
	auto_buf body = BUF_INIT(BODY_MAX + (detail ? detail->context.len : 0));
	char seconds[16];

	tell_operator(x, err, face.status);
	if (face.status == 429 || face.status == 503 || face.status == 507)
		metric_add(METRIC_REFUSALS, err_reason(err), NULL, 1);
	if (x->reply_begun)
		return OK;
	if (is_daytona(x))
		daytona_write_body(&body, x, err, &face);
	else
		write_body(&body, x, err, &face, detail);
	if (face.status == 401)
		http_set(x, "WWW-Authenticate", STR("Bearer realm=\"cove\""));
	if (err_may_retry(err)) {
		snprintf(seconds, sizeof(seconds), "%d", RETRY_AFTER_S);
		http_set(x, "Retry-After", str_of(seconds));
	}
	err_free(http_reply(x, face.status, NULL, buf_ok(&body) ? buf_view(&body) : STR("{}")));
	return OK;
}
