// The body of an execute: read, checked, and made ready for the fleet.
#pragma once

#include "gateway/gateway.h"

enum exec_request_encoding {
	EXEC_REQUEST_AUTO, // text when the output is UTF-8, else base64
	EXEC_REQUEST_UTF8, // bad sequences become U+FFFD, NUL bytes vanish
	EXEC_REQUEST_BASE64,
};

// Whether output is told in base64, given whether it is text.
static inline bool exec_request_is_base64(enum exec_request_encoding encoding, bool is_text)
{
	return encoding == EXEC_REQUEST_BASE64 || (encoding == EXEC_REQUEST_AUTO && !is_text);
}

struct exec_request {
	struct manager_exec_spec use; // its texts live in the exchange's arena
	struct str session;	      // as it was named; at == NULL: not
	struct str seat;	      // the session that it belongs to; at == NULL: none
	bool background;	      // to be started as a process
	struct str shown;	      // the command, as answers repeat it
	enum exec_request_encoding encoding;
	struct env_map env;
	struct buf stdin_bytes;
	const char *field; // the field being read when reading failed
};

void exec_request_done(struct exec_request *request);
#define auto_exec_request on_exit_call(exec_request_done) struct exec_request

// Fields that are not known are ignored, as Cloudflare's server does. INVALID bad_command,
// bad_field, bad_env, blank_session. On failure job->field is set; exec_request_done() is due in
// any case.
//
// Which session: the one that is named, in the body, the header X-Session-Id or the query; none
// when that is "__DISABLE_SESSION__". When nothing is named it is none for what only a command of
// its own can have (argv, stdin, user, cpuTimeMs, encoding), else the session `default`. A relative
// cwd stays as it is for a session, which knows where it stands.
fallible exec_request_read(struct http *x, const struct json *json, struct exec_request *request);
// A command may be empty only where a shell waits for it.
fallible exec_request_not_blank(const struct exec_request *request);

// The session that a request names; at == NULL: none. `json` may be NULL.
fallible exec_request_session(struct http *x, const struct json *json, struct str *out);

// Answers what went wrong before the command ran, in Cloudflare's words.
void exec_request_fail(struct http *x, const struct exec_request *request, const char *operation,
		       struct err *err);
