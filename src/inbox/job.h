// The body of an execute: read, checked, and made ready for the fleet.
#pragma once

#include "door/door.h"

enum job_encoding {
	JOB_AUTO, // text when the output is UTF-8, else base64
	JOB_UTF8, // bad sequences become U+FFFD
	JOB_BASE64,
};

struct job {
	struct use_spec use; // its texts live in the exchange's arena
	struct str session;  // as it was named; at == NULL: not
	struct str shown;    // the command, as answers repeat it
	enum job_encoding encoding;
	struct pairs env;
	struct buf stdin_bytes;
	const char *field; // the field being read when reading failed
};

void job_done(struct job *job);
#define auto_job on_exit_call(job_done) struct job

// Fields that are not known are ignored, as Cloudflare's server does. INVALID bad_command,
// bad_field, bad_env; NOT_OFFERED for sessions and background processes. On failure job->field is
// set; job_done() is due in any case.
fallible job_read(struct http *x, const struct json *json, struct job *job);

// Answers what went wrong before the command ran, in Cloudflare's words.
void job_fail(struct http *x, const struct job *job, const char *operation, struct err *err);
