// The body of an execute: read, checked, and made ready for the fleet.
#pragma once

#include "door/door.h"

enum job_encoding {
	JOB_AUTO, // text when the output is UTF-8, else base64
	JOB_UTF8, // bad sequences become U+FFFD, NUL bytes vanish
	JOB_BASE64,
};

// Whether output is told in base64, given whether it is text.
static inline bool job_is_base64(enum job_encoding encoding, bool is_text)
{
	return encoding == JOB_BASE64 || (encoding == JOB_AUTO && !is_text);
}

struct job {
	struct use_spec use; // its texts live in the exchange's arena
	struct str session;  // as it was named; at == NULL: not
	struct str seat;     // the session that it belongs to; at == NULL: none
	bool background;     // to be started as a process
	struct str shown;    // the command, as answers repeat it
	enum job_encoding encoding;
	struct pairs env;
	struct buf stdin_bytes;
	const char *field; // the field being read when reading failed
};

void job_done(struct job *job);
#define auto_job on_exit_call(job_done) struct job

// Fields that are not known are ignored, as Cloudflare's server does. INVALID bad_command,
// bad_field, bad_env, blank_session. On failure job->field is set; job_done() is due in any case.
//
// Which session: the one that is named, in the body, the header X-Session-Id or the query; none
// when that is "__DISABLE_SESSION__". When nothing is named it is none for what only a command of
// its own can have (argv, stdin, user, cpuTimeMs, encoding), else the session `default`. A relative
// cwd stays as it is for a session, which knows where it stands.
fallible job_read(struct http *x, const struct json *json, struct job *job);
// A command may be empty only where a shell waits for it.
fallible job_not_blank(const struct job *job);

// The session that a request names; at == NULL: none. `json` may be NULL.
fallible job_session(struct http *x, const struct json *json, struct str *out);

// Answers what went wrong before the command ran, in Cloudflare's words.
void job_fail(struct http *x, const struct job *job, const char *operation, struct err *err);
