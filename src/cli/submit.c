// submit: an execution from options. Files, context and standard input are read whole: they are
// part of one request, whose size the API bounds.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/executions.h"
#include "cli/image.h"
#include "cli/stdio.h"
#include "codec/json_scan.h"
#include "lib/fields.h"

#define FILES_BYTES_MAX ((size_t)32 << 20)
#define CONTEXT_MAX ((size_t)1 << 20)
#define CONTEXT_DEPTH 128

struct submission {
	struct cove_execution_spec spec;
	struct body body;
	struct cove_execution_file *files;
	size_t file_count, file_bytes;
	char **owned; // paths and contents of files
	size_t owned_count;
	const char **artifacts;
	struct buf context, input;
};

static void submission_done(struct submission *submission)
{
	for (size_t i = 0; i < submission->owned_count; i++)
		free(submission->owned[i]);
	free(submission->owned);
	free(submission->files);
	free(submission->artifacts);
	buf_done(&submission->context);
	buf_done(&submission->input);
	body_done(&submission->body);
}

static void *submission_own(struct submission *submission, char *what)
{
	submission->owned = mem_grow(submission->owned, submission->owned_count + 1,
				     sizeof(char *));
	submission->owned[submission->owned_count++] = what;
	return what;
}

// "-" is standard input.
static fallible submit_read(const char *path, struct buf *out, struct stat *st)
{
	bool is_stdin = strcmp(path, "-") == 0, fits = true;
	auto_fd fd = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC);

	if ((!is_stdin && fd < 0) || fstat(is_stdin ? STDIN_FILENO : fd, st))
		return err_new(INVALID, "no_source", "cannot read '%s': %s", path, strerror(errno));
	if (S_ISDIR(st->st_mode))
		return err_hint(
			err_new(INVALID, "no_source", "'%s' is a directory", path),
			"name its files, or pack them: tar c DIR | cove submit -i -- tar x");
	TRY(stdio_read_all(is_stdin ? STDIN_FILENO : fd, out, &fits), "read %s", path);
	if (!fits)
		return err_new(TOO_LARGE, "file_too_large", "'%s' is larger than %zu MiB", path,
			       out->ceiling >> 20);
	return OK;
}

// PATH or PATH:DEST; the whole word names a file that exists.
static fallible submit_add_file(struct submission *submission, const char *word)
{
	const char *colon = access(word, F_OK) == 0 ? NULL : strrchr(word, ':');
	char *path = colon ? mem_dup(word, (size_t)(colon - word)) : mem_str(word);
	const char *slash = strrchr(path, '/');
	struct cove_execution_file *file;
	struct buf bytes = BUF_INIT(FILES_BYTES_MAX - submission->file_bytes);
	struct err *err;
	struct stat st;

	submission_own(submission, path);
	err = submit_read(path, &bytes, &st);
	if (err) {
		buf_done(&bytes);
		return err;
	}
	submission->files = mem_grow(submission->files, submission->file_count + 1, sizeof(*file));
	file = &submission->files[submission->file_count++];
	submission->file_bytes += bytes.len;
	*file = (struct cove_execution_file){
		.path = colon && colon[1] ? colon + 1
			: slash		  ? slash + 1
					  : path,
		.len = bytes.len,
		.mode = st.st_mode & 0777,
	};
	file->bytes = submission_own(submission, bytes.len ? buf_take(&bytes) : mem_str(""));
	return OK;
}

static fallible submit_get_files(const struct call *call, struct submission *submission)
{
	const char *text;

	for (size_t at = 0; call_next(call, OPT_FILE, &at, &text);)
		TRY(submit_add_file(submission, text));
	submission->spec.files = submission->files;
	submission->spec.file_count = submission->file_count;
	return OK;
}

static fallible submit_get_inputs(const struct call *call, struct submission *submission)
{
	const char *context = call_value(call, OPT_CONTEXT);
	bool from_stdin = context && strcmp(context, "-") == 0;
	struct json_scan scan;
	struct stat st;

	if (from_stdin && call_has(call, OPT_INTERACTIVE))
		return err_new(INVALID, "two_ways", "--context - and -i both read standard input");
	if (context) {
		TRY(submit_read(context, &submission->context, &st));
		if (!json_scan_within(buf_view(&submission->context), CONTEXT_DEPTH, &scan))
			return err_new(INVALID, "bad_json", "'%s' is no JSON: %s, at byte %zu",
				       context, scan.fault, scan.at);
		submission->spec.context = submission->context.at;
	}
	if (call_has(call, OPT_INTERACTIVE)) {
		TRY(submit_read("-", &submission->input, &st));
		submission->spec.input = submission->input.len ? submission->input.at : "";
		submission->spec.input_len = submission->input.len;
	}
	return OK;
}

static fallible submit_get_count(const struct call *call, enum opt opt, uint64_t *out)
{
	const char *text = call_value(call, opt);

	if (text && !str_to_u64(str_of(text), 1, INT32_MAX, out))
		return err_hint(err_new(INVALID, "bad_value", "'%s' is no number", text),
				"for example --requests 20");
	return OK;
}

static fallible submit_get_queue(const struct call *call, struct cove_execution_spec *spec)
{
	const char *queue = call_value(call, OPT_QUEUE);

	if (queue && strcmp(queue, "true") != 0 && strcmp(queue, "false") != 0)
		return err_hint(err_new(INVALID, "bad_value", "--queue is true or false"),
				"for example --queue=false");
	spec->no_queue = queue && strcmp(queue, "false") == 0;
	return body_ms(call, OPT_QUEUE_TIMEOUT, "5m", &spec->queue_timeout_ms);
}

// All values of a repeated option, NULL-ended.
static const char **submit_words(const struct call *call, enum opt opt)
{
	const char **words = NULL, *word;
	size_t count = 0;

	for (size_t at = 0; call_next(call, opt, &at, &word);) {
		words = mem_grow(words, count + 2, sizeof(char *));
		words[count++] = word;
		words[count] = NULL;
	}
	return words;
}

static fallible submit_get(const struct call *call, struct submission *submission)
{
	struct cove_execution_spec *spec = &submission->spec;
	struct body *body = &submission->body;

	body->may_lack_command = true;
	TRY(body_box(call, body));
	TRY(body_command(call, call->words, false, body));
	submission->artifacts = submit_words(call, OPT_ARTIFACT);
	*spec = (struct cove_execution_spec){
		.task_id = call_value(call, OPT_TASK),
		.agent_type = call_value(call, OPT_TYPE),
		.profile = call_value(call, OPT_PROFILE),
		.line = body->command.line,
		.argv = body->command.argv,
		.env = body->box.env,
		.cwd = body->command.cwd,
		.artifacts = submission->artifacts,
		.artifacts_required = call_has(call, OPT_REQUIRED),
		.network = body->box.network,
		.allow = body->box.allow,
		.secrets = body->box.secrets,
		.memory_mb = body->box.memory_mb,
		.storage_mb = body->box.disk_mb,
		.pids = body->box.pids,
		.cpus = body->box.cpus,
		.cpu_time_ms = body->command.cpu_time_ms,
		.wall_time_ms = body->command.timeout_ms,
		.from = body->box.from,
		.image = body->box.image,
		.pull = body->box.pull,
		.labels = body->box.labels,
		.volumes = body->box.volumes,
		.retry = call_value(call, OPT_RETRY),
	};
	if (!spec->agent_type && !spec->profile && !spec->line && !spec->argv)
		return err_hint(err_new(INVALID, "no_command", "there is nothing to execute"),
				"cove submit -- COMMAND, or --type TYPE");
	TRY(submit_get_count(call, OPT_REQUESTS, &spec->network_requests));
	TRY(submit_get_queue(call, spec));
	TRY(submit_get_files(call, submission));
	return submit_get_inputs(call, submission);
}

// Limits that were not given, as past executions of the profile suggest them.
static fallible submit_get_suggested(const struct call *call, struct remote *remote,
				     struct cove_execution_spec *spec)
{
	const char *execution = call_value(call, OPT_SUGGESTED);
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	const struct json *suggested;
	auto_free char *path = NULL;
	auto_json answer = NULL;

	if (!execution)
		return OK;
	path = remote_path(EXECUTIONS_PATH, execution, "/suggestion");
	TRY(remote_ask(remote, "GET", path, NULL, &text, NULL));
	TRY(json_read(buf_view(&text), &answer));
	suggested = json_get(answer, "suggested");
	if (json_type(suggested) != JSON_OBJECT)
		return err_hint(
			err_new(INVALID, "no_suggestion",
				"there are too few executions of profile '%s' to suggest limits",
				fields_text(answer, "profile")),
			"20 must have completed; give the limits instead");
	if (!spec->memory_mb)
		spec->memory_mb = (uint64_t)fields_number(suggested, "memoryMB", 0);
	if (!spec->cpu_time_ms)
		spec->cpu_time_ms = fields_number(suggested, "cpuTimeMs", 0);
	if (!spec->wall_time_ms)
		spec->wall_time_ms = fields_number(suggested, "wallTimeMs", 0);
	return OK;
}

fallible cli_submit(struct call *call)
{
	on_exit_call(submission_done) struct submission submission = {
		.context = BUF_INIT(CONTEXT_MAX), .input = BUF_INIT(BODY_INPUT_MAX)};
	auto_cove_execution execution = NULL;
	auto_remote remote = {0};

	TRY(submit_get(call, &submission));
	TRY(image_prepare(call));
	TRY(remote_open(&remote, call));
	TRY(submit_get_suggested(call, &remote, &submission.spec));
	TRY(remote_did(&remote, cove_execution_submit(remote.cove, &submission.spec, &execution,
						      &remote.error)));
	return cli_executions_follow(call, &remote, execution,
				     !submission.spec.line && !submission.spec.argv);
}
