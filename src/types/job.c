// The parts of a request. `context` and `files` are cut out before the rest becomes a tree: the
// context keeps its bytes, whatever depth and integers it has, and files may be large. Paths of
// files are below /workspace: no "..", no other absolute path.
#include "types/job.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "codec/base64.h"
#include "codec/json_part.h"
#include "codec/json_scan.h"
#include "types/reference.h"

#define WORKSPACE "/workspace"
#define REST_MAX (2u << 20)
#define PATH_MAX_LEN 4096
#define CONTEXT_DEPTH 128

const char *job_retry_word(enum job_retry retry)
{
	static const char *const words[] = {"infra", "notStarted", "never"};

	return words[retry];
}

static const char *job_text(struct job *out, struct str text)
{
	return arena_dup(out->arena, text.at, text.len);
}

// -------------------------------------------------------------------------------- fields

static fallible job_str(const struct json *tree, const char *key, size_t max, struct str *out)
{
	TRY(json_str(json_get(tree, key), key, out));
	if (out->len > max)
		return err_new(INVALID, "bad_field", "'%s' is longer than %zu bytes", key, max);
	return OK;
}

static fallible job_list(const struct json *value, const char *where, size_t max, struct job *out,
			 const char ***list)
{
	size_t count;

	if (!value)
		return OK;
	TRY(json_want(value, where, JSON_ARRAY));
	count = json_count(value);
	if (!count || count > max)
		return err_new(INVALID, "bad_field", "'%s' must have 1 to %zu strings", where, max);
	*list = arena_take(out->arena, (count + 1) * sizeof(**list));
	for (size_t i = 0; i < count; i++) {
		struct str word = {0};

		TRY(json_str(json_at(value, i), where, &word));
		if (!word.at || word.len > PATH_MAX_LEN * 32)
			return err_new(INVALID, "bad_field", "'%s' must be strings", where);
		(*list)[i] = job_text(out, word);
	}
	return OK;
}

static fallible job_read_command(const struct json *tree, struct job *out)
{
	TRY(json_str(json_get(tree, "command"), "command", &out->command));
	TRY(job_list(json_get(tree, "argv"), "argv", JOB_ARGS_MAX, out, &out->argv));
	if (out->command.at && out->argv)
		return err_new(INVALID, "bad_field", "'command' and 'argv' exclude each other");
	if (out->command.at && !str_trim(out->command).len)
		return err_new(INVALID, "bad_field", "'command' is empty");
	if (out->argv && !out->argv[0][0])
		return err_new(INVALID, "bad_field", "'argv' begins with an empty word");
	TRY(job_str(tree, "cwd", PATH_MAX_LEN, &out->cwd));
	TRY(json_str(json_get(tree, "stdin"), "stdin", &out->stdin_bytes));
	if (out->stdin_bytes.len > JOB_STDIN_MAX)
		return err_new(TOO_LARGE, "stdin_too_large", "'stdin' is larger than %u bytes",
			       JOB_STDIN_MAX);
	return OK;
}

static fallible job_read_artifacts(const struct json *object, struct job *out)
{
	static const char *const known[] = {"paths", "required", "maxMB", NULL};
	uint64_t max = 0;
	size_t bytes = 0;

	if (!object)
		return OK;
	TRY(json_want(object, "artifacts", JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(job_list(json_get(object, "paths"), "artifacts.paths", JOB_GLOBS_MAX, out,
		     &out->globs));
	for (const char **glob = out->globs; glob && *glob; glob++)
		bytes += strlen(*glob);
	if (bytes > JOB_GLOBS_BYTES)
		return err_hint(err_new(INVALID, "bad_field",
					"'artifacts.paths' has more than %u bytes",
					JOB_GLOBS_BYTES),
				"name directories: out/** has all that is below out");
	TRY(json_bool(json_get(object, "required"), "artifacts.required", &out->required));
	TRY(json_u64(json_get(object, "maxMB"), "artifacts.maxMB", 1, 1 << 20, &max));
	out->artifact_bytes = max << 20;
	return OK;
}

static fallible job_read_retry(const struct json *tree, enum job_retry *out)
{
	struct str word = {0};

	TRY(json_str(json_get(tree, "retry"), "retry", &word));
	for (int i = 0; word.at && i < RETRY_COUNT; i++) {
		if (str_is(word, job_retry_word((enum job_retry)i))) {
			*out = (enum job_retry)i;
			return OK;
		}
	}
	return word.at ? err_new(INVALID, "bad_field", "'retry' must be infra, notStarted or never")
		       : OK;
}

static fallible job_read_image(const struct json *tree, struct job *out)
{
	struct reference reference;

	TRY(json_str(json_get(tree, "image"), "image", &out->image));
	TRY(spec_read_pull(tree, &out->pull));
	if (!out->image.at)
		return OK;
	if (json_get(tree, "template"))
		return err_hint(
			err_new(INVALID, "bad_field", "'image' and 'template' exclude each other"),
			"a template that was pulled before is named by 'template'");
	return reference_read(out->image, &reference);
}

static fallible job_read_fields(const struct json *tree, struct job *out)
{
	static const char *const known[] = {
		"taskId", "agentType", "profile",	 "command", "argv",   "env",	  "cwd",
		"stdin",  "artifacts", "network",	 "secrets", "limits", "template", "image",
		"labels", "queue",     "queueTimeoutMs", "retry",   "pull",   "volumes",  NULL};

	TRY(json_want(tree, "body", JSON_OBJECT));
	TRY(json_only(tree, known));
	TRY(job_str(tree, "taskId", JOB_TASK_MAX, &out->task));
	TRY(job_str(tree, "agentType", PROFILE_NAME_MAX, &out->agent_type));
	TRY(job_str(tree, "profile", PROFILE_NAME_MAX, &out->profile));
	TRY(job_str(tree, "template", TEMPLATE_NAME_MAX - 1, &out->template));
	TRY(job_read_image(tree, out));
	TRY(job_read_command(tree, out));
	TRY(env_map_read_env(json_get(tree, "env"), &out->env));
	TRY(env_map_ask_labels(json_get(tree, "labels"), &out->labels));
	TRY(job_read_artifacts(json_get(tree, "artifacts"), out));
	out->network = json_get(tree, "network");
	out->secrets = json_get(tree, "secrets");
	out->limits = json_get(tree, "limits");
	TRY(volume_mounts_read(json_get(tree, "volumes"), &out->volumes));
	TRY(json_bool(json_get(tree, "queue"), "queue", &out->queue));
	TRY(json_u64(json_get(tree, "queueTimeoutMs"), "queueTimeoutMs", 1, JOB_QUEUE_MAX_MS,
		     &out->queue_ms));
	return job_read_retry(tree, &out->retry);
}

// --------------------------------------------------------------------------------- files

// Absolute, without "." and empty parts. False: it leaves /workspace.
static bool job_place(struct job *out, struct str path, const char **place)
{
	auto_buf buf = BUF_INIT(PATH_MAX_LEN + sizeof(WORKSPACE));
	bool some = false;
	struct str part;

	if (path.len && path.at[0] == '/') {
		if (!str_starts(path, WORKSPACE "/"))
			return false;
		path = str_skip(path, strlen(WORKSPACE));
	}
	buf_text(&buf, WORKSPACE);
	while (path.len && str_cut(&path, '/', &part)) {
		if (str_is(part, ".."))
			return false;
		if (!part.len || str_is(part, "."))
			continue;
		buf_char(&buf, '/');
		buf_str(&buf, part);
		some = true;
	}
	if (!some || !buf_ok(&buf))
		return false;
	*place = job_text(out, buf_view(&buf));
	return true;
}

static fallible job_read_content(const struct json *object, struct job *out, struct str *bytes)
{
	struct str plain = {0}, encoded = {0};
	struct base64 base64 = {0};
	auto_buf buf = BUF_INIT(JOB_FILES_BYTES);

	plain = json_chars(json_get(object, "content"));
	TRY(json_str(json_get(object, "contentBase64"), "contentBase64", &encoded));
	if (!json_get(object, "content") == !encoded.at)
		return err_new(INVALID, "bad_field",
			       "a file has either 'content' or 'contentBase64'");
	if (!encoded.at) {
		TRY(json_want(json_get(object, "content"), "content", JSON_STRING));
		*bytes = plain;
		return OK;
	}
	if (!base64_feed(&base64, encoded, &buf) || !base64_end(&base64, &buf))
		return err_new(INVALID, "bad_field", "'contentBase64' is malformed or too large");
	*bytes = (struct str){job_text(out, buf_view(&buf)), buf.len};
	return OK;
}

static fallible job_read_mode(const struct json *object, uint32_t *out)
{
	const struct json *value = json_get(object, "mode");
	struct str text = {0};
	uint64_t number = 0;
	uint32_t mode = 0644;

	if (value && json_type(value) == JSON_NUMBER) {
		TRY(json_u64(value, "mode", 0, 0777, &number));
		mode = (uint32_t)number;
	} else if (value) {
		TRY(json_str(value, "mode", &text));
		if (!str_to_mode(text, &mode) || mode > 0777)
			return err_new(INVALID, "bad_field", "'mode' is octal, like \"0644\"");
	}
	*out = mode;
	return OK;
}

static fallible job_read_file(const struct json *object, struct job *out, struct job_file *file)
{
	static const char *const known[] = {"path", "content", "contentBase64", "mode", NULL};
	struct str path = {0};

	TRY(json_want(object, "files", JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(job_str(object, "path", PATH_MAX_LEN, &path));
	if (!path.at || !job_place(out, path, &file->path))
		return err_hint(err_new(INVALID, "path_outside",
					"the path of a file is missing or leads out of " WORKSPACE),
				"a path is relative to " WORKSPACE " and has no '..'");
	TRY(job_read_content(object, out, &file->bytes));
	return job_read_mode(object, &file->mode);
}

static fallible job_bad_json(const struct json_scan *scan)
{
	return err_new(INVALID, "bad_json", "not JSON: %s, at byte %zu", scan->fault, scan->at);
}

static fallible job_read_files(struct str text, struct job *out)
{
	struct json_scan scan = {0};
	uint64_t bytes = 0;
	size_t count;

	if (!text.at || str_is(text, "null"))
		return OK;
	// Strings may be large, but a tree of many small values is not built.
	if (!json_scan(text, &scan) || scan.values > JOB_FILES_MAX * 8)
		return scan.fault ? job_bad_json(&scan)
				  : err_new(INVALID, "bad_field", "'files' has too many values");
	TRY(json_read_any(text, &out->file_tree));
	TRY(json_want(out->file_tree, "files", JSON_ARRAY));
	count = json_count(out->file_tree);
	if (count > JOB_FILES_MAX)
		return err_new(INVALID, "bad_field", "'files' has more than %d", JOB_FILES_MAX);
	out->files = arena_take(out->arena, (count + 1) * sizeof(*out->files));
	for (; out->file_count < count; out->file_count++) {
		struct job_file *file = &out->files[out->file_count];

		TRY(job_read_file(json_at(out->file_tree, out->file_count), out, file));
		bytes += file->bytes.len;
		if (bytes > JOB_FILES_BYTES)
			return err_new(TOO_LARGE, "files_too_large",
				       "the files have more than %u bytes", JOB_FILES_BYTES);
	}
	return OK;
}

// ---------------------------------------------------------------------------------- whole

// Checks the whole text leniently; everything but the context is checked strictly afterwards.
static fallible job_read_parts(struct str text, bool with_files, struct job *out)
{
	auto_buf rest = BUF_INIT(JOB_BODY_MAX);
	struct json_scan scan = {0};
	struct str files = {0};

	*out = (struct job){.arena = arena_new(),
			    .rest = BUF_INIT(REST_MAX),
			    .queue = true,
			    .queue_ms = JOB_QUEUE_MS};
	if (!json_scan_within(text, CONTEXT_DEPTH + 1, &scan))
		return job_bad_json(&scan);
	if (!json_part(scan.value, "context", &rest, &out->context))
		return err_new(INVALID, "bad_field",
			       "the body is not an object, or has 'context' twice");
	if (out->context.len > JOB_CONTEXT_MAX)
		return err_new(TOO_LARGE, "context_too_large", "'context' is larger than %u bytes",
			       JOB_CONTEXT_MAX);
	if (!json_part(buf_view(&rest), "files", &out->rest, &files))
		return err_new(INVALID, "bad_field", "the body has 'files' twice");
	if (!buf_ok(&out->rest))
		return err_new(TOO_LARGE, "body_too_large",
			       "the body without context and files is larger than %u bytes",
			       REST_MAX);
	if (with_files)
		TRY(job_read_files(files, out));
	TRY(json_read(buf_view(&out->rest), &out->tree));
	return job_read_fields(out->tree, out);
}

fallible job_read(struct str text, struct job *out)
{
	return job_read_parts(text, true, out);
}

fallible job_read_rest(struct str text, struct job *out)
{
	return job_read_parts(text, false, out);
}

void job_done(struct job *request)
{
	if (!request->arena)
		return;
	env_map_done(&request->env);
	env_map_done(&request->labels);
	volume_mounts_done(&request->volumes);
	json_free(request->tree);
	json_free(request->file_tree);
	buf_done(&request->rest);
	arena_free(request->arena);
	*request = (struct job){0};
}
