// The body of POST /v1/executions: parsed and checked, without I/O. Slices point into the text,
// which is kept as it was sent, for later attempts and for a repetition.
#pragma once

#include "codec/json.h"
#include "types/env_map.h"
#include "types/profile.h"
#include "types/spec.h"

#define JOB_BODY_MAX (48u << 20)
#define JOB_CONTEXT_MAX (1u << 20)
#define JOB_FILES_MAX 10000
#define JOB_FILES_BYTES (32u << 20) // of their contents together
#define JOB_STDIN_MAX (1u << 20)
#define JOB_ARGS_MAX 1024
#define JOB_GLOBS_MAX 256
#define JOB_GLOBS_BYTES (64u << 10) // together: those that match nothing are in the record
#define JOB_TASK_MAX 256
#define JOB_QUEUE_MS 600000
#define JOB_QUEUE_MAX_MS (24ull * 3600 * 1000)

enum job_retry { RETRY_INFRA, RETRY_NOT_STARTED, RETRY_NEVER, RETRY_COUNT };
const char *job_retry_word(enum job_retry retry);

struct job_file {
	const char *path; // absolute, below /workspace
	struct str bytes;
	uint32_t mode;
};

struct job {
	struct str task, agent_type, profile; // at == NULL: not given
	struct str template, image;	      // likewise: one of them, or neither
	enum spec_pull pull;		      // of the image
	struct str context;		      // as it was sent; at == NULL: none
	struct str command;		      // for a shell; at == NULL: none
	const char **argv;		      // NULL: none
	struct env_map env, labels;
	struct str cwd, stdin_bytes; // likewise
	struct job_file *files;
	size_t file_count;
	const char **globs;			       // of artifacts; NULL-ended
	bool required;				       // a glob that matches nothing is a failure
	uint64_t artifact_bytes;		       // 0: the default
	const struct json *network, *secrets, *limits; // NULL: not given
	struct volume_mounts volumes;		       // without ids
	bool queue;				       // may wait
	uint64_t queue_ms;
	enum job_retry retry;
	// What the slices point into.
	struct arena *arena;
	struct json *tree, *file_tree;
	struct buf rest;
};

// `text` must outlive the request. INVALID bad_json, bad_field, unknown_field, bad_env,
// path_outside, bad_reference; TOO_LARGE context_too_large, files_too_large. The caller calls
// job_done() in any case.
fallible job_read(struct str text, struct job *out);
// The same of a text that was read before, without context and files.
fallible job_read_rest(struct str text, struct job *out);
void job_done(struct job *request);
#define auto_job on_exit_call(job_done) struct job
