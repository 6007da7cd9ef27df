// The body of an execute request: parsed, checked and turned into a manager_exec_spec.
#pragma once

#include "gateway/gateway.h"

enum exec_request_encoding {
	EXEC_REQUEST_AUTO, // text when the output is UTF-8, else base64
	EXEC_REQUEST_UTF8, // bad sequences become U+FFFD, NUL bytes are removed
	EXEC_REQUEST_BASE64,
};

// Whether output is sent as base64, given whether it is text.
static inline bool exec_request_is_base64(enum exec_request_encoding encoding, bool is_text)
{
	return encoding == EXEC_REQUEST_BASE64 || (encoding == EXEC_REQUEST_AUTO && !is_text);
}

struct exec_request {
	struct manager_exec_spec spec; // its strings live in the exchange's arena
	struct str session;	       // as the request names it; at == NULL: not named
	struct str in_session;	       // the session to run in; at == NULL: none
	bool background;	       // to be started as a process
	struct str shown;	       // the command, as answers repeat it
	enum exec_request_encoding encoding;
	struct env_map env;
	struct buf stdin_bytes;
	const char *field; // the field that was being read when reading failed
};

void exec_request_done(struct exec_request *request);
#define auto_exec_request on_exit_call(exec_request_done) struct exec_request

// Unknown fields are ignored, as Cloudflare's server does. INVALID bad_command, bad_field, bad_env,
// blank_session. On failure request->field is set; the caller calls exec_request_done() in any
// case.
//
// The session is the one named in the body, in the header X-Session-Id or in the query; none if
// that is "__DISABLE_SESSION__". If none is named: no session when the body has a field that only a
// separate command can have (argv, stdin, user, cpuTimeMs, encoding), else the session `default`.
// For a session a relative cwd is kept relative: only the session knows its directory.
fallible exec_request_read(struct http *x, const struct json *json, struct exec_request *request);
// An empty command is valid only in a session.
fallible exec_request_not_blank(const struct exec_request *request);

// The session that a request names; at == NULL: none. `json` may be NULL.
fallible exec_request_session(struct http *x, const struct json *json, struct str *out);

// Sends the error of a command that did not run, in Cloudflare's format.
fallible exec_request_fail(struct http *x, const struct exec_request *request,
			   const char *operation, struct err *err);
