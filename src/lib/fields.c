// Reads and writes the JSON that several calls share: commands, results, environment lists, paths.
// Missing or mistyped members of an answer become defaults, so that a newer server is no error.
#include "lib/fields.h"

#include <stdio.h>

#include "base/mem.h"
#include "codec/text.h"

#define SESSIONLESS "__DISABLE_SESSION__"

const char *fields_text(const struct json *object, const char *key)
{
	struct json *value = object ? json_get(object, key) : NULL;
	struct str text = STR("");

	if (value && json_type(value) == JSON_STRING)
		err_free(json_str(value, key, &text)); // its type was checked
	return text.at;
}

int64_t fields_number(const struct json *object, const char *key, int64_t otherwise)
{
	struct json *value = object ? json_get(object, key) : NULL;
	double number = 0;
	struct err *err;

	if (!value || json_type(value) != JSON_NUMBER)
		return otherwise;
	err = json_double(value, key, -9.1e15, 9.1e15, &number);
	if (!err)
		return (int64_t)number;
	err_free(err);
	return otherwise;
}

bool fields_flag(const struct json *object, const char *key)
{
	struct json *value = object ? json_get(object, key) : NULL;
	bool flag = false;

	if (value && json_type(value) == JSON_BOOL)
		err_free(json_bool(value, key, &flag));
	return flag;
}

// Whether a later entry has the same name: JSON keys are unique, and the last entry wins.
static bool is_superseded(const char *const *rest, struct str name)
{
	for (const char *const *at = rest; *at; at++)
		if (strncmp(*at, name.at, name.len) == 0 && (*at)[name.len] == '=')
			return true;
	return false;
}

fallible fields_pairs(struct json_out *out, const char *key, const char *const *env_map)
{
	if (!env_map || !*env_map)
		return OK;
	json_key(out, key);
	json_begin(out, '{');
	for (const char *const *at = env_map; *at; at++) {
		struct str rest = str_of(*at), name;
		auto_free char *word = NULL;

		if (!strchr(*at, '=') || **at == '=')
			return err_hint(
				err_new(INVALID, "bad_pair", "'%s' has no name and value", *at),
				"write NAME=VALUE");
		str_cut(&rest, '=', &name);
		if (is_superseded(at + 1, name))
			continue;
		word = mem_dup(name.at, name.len);
		json_put_str(out, word, rest.at ? rest : STR(""));
	}
	json_end(out, '}');
	return OK;
}

void fields_list(struct json_out *out, const char *key, const char *const *texts)
{
	if (!texts)
		return;
	json_key(out, key);
	json_begin(out, '[');
	for (; *texts; texts++)
		json_add_text(out, *texts);
	json_end(out, ']');
}

// Text is sent as it is, other bytes as base64 with an encoding field.
static void fields_put_input(struct json_out *out, struct str input)
{
	auto_buf coded = BUF_INIT(PRIVATE_BODY_MAX);

	if (!input.at)
		return;
	if (text_is_utf8(input) && !memchr(input.at, 0, input.len)) {
		json_put_str(out, "stdin", input);
		return;
	}
	text_base64(&coded, input.at, input.len);
	json_put_str(out, "stdin", buf_view(&coded));
	json_put_text(out, "stdinEncoding", "base64");
}

void fields_put_text(struct json_out *out, const char *key, const char *text)
{
	if (text)
		json_put_text(out, key, text);
}

void fields_put_number(struct json_out *out, const char *key, double number)
{
	if (number == 0)
		return;
	json_key(out, key);
	json_add_double(out, number);
}

fallible fields_ask(struct json_out *out, const struct cove_command *command)
{
	if (command->line && command->argv)
		return err_new(INVALID, "two_commands",
			       "both a line and a list of arguments are given");
	if (command->line)
		json_put_text(out, "command", command->line);
	else
		fields_list(out, "argv", command->argv);
	fields_put_text(out, "cwd", command->cwd);
	fields_put_text(out, "user", command->user);
	if (command->timeout_ms > 0)
		json_put_int(out, "timeoutMs", command->timeout_ms);
	if (command->cpu_time_ms > 0)
		json_put_int(out, "cpuTimeMs", command->cpu_time_ms);
	TRY(fields_pairs(out, "env", command->env));
	fields_put_input(out,
			 (struct str){command->input, command->input ? command->input_len : 0});
	return OK;
}

fallible fields_command(struct json_out *out, const struct cove_command *command,
			const char *session)
{
	if (!command->line && !(command->argv && *command->argv))
		return err_new(INVALID, "no_command", "there is no command to run");
	json_put_text(out, "sessionId", session ? session : SESSIONLESS);
	return fields_ask(out, command);
}

void fields_files(struct json_out *out, const struct cove_execution_file *files, size_t count)
{
	if (!count)
		return;
	json_key(out, "files");
	json_begin(out, '[');
	for (const struct cove_execution_file *file = files; file < files + count; file++) {
		struct str bytes = {file->bytes, file->len};
		auto_buf coded = BUF_INIT(PRIVATE_BODY_MAX);
		char mode[16];

		json_begin(out, '{');
		json_put_text(out, "path", file->path);
		if (text_is_utf8(bytes) && !memchr(bytes.len ? bytes.at : "", 0, bytes.len)) {
			json_put_str(out, "content", bytes.len ? bytes : STR(""));
		} else {
			text_base64(&coded, bytes.at, bytes.len);
			json_put_str(out, "contentBase64", buf_view(&coded));
		}
		snprintf(mode, sizeof(mode), "%04o", file->mode & 0777);
		if (file->mode)
			json_put_text(out, "mode", mode);
		json_end(out, '}');
	}
	json_end(out, ']');
}

void fields_network(struct json_out *out, const char *mode, const char *const *allow)
{
	if (!mode && !allow)
		return;
	json_key(out, "network");
	json_begin(out, '{');
	fields_put_text(out, "mode", mode);
	fields_names(out, "allow", allow);
	json_end(out, '}');
}

void fields_result(const struct json *event, struct cove_result *out)
{
	const char *ended = fields_text(event, "ended");

	*out = (struct cove_result){
		.exit_code = (int)fields_number(event, "exitCode", 0),
		.signal = (int)fields_number(event, "signal", 0),
		.stdout_truncated = fields_flag(event, "stdoutTruncated"),
		.stderr_truncated = fields_flag(event, "stderrTruncated"),
		.session_restarted = fields_flag(event, "sessionRestarted"),
		.duration_ms = fields_number(event, "durationMs", 0),
		.cpu_ms = fields_number(event, "cpuMs", 0),
		.max_rss = (uint64_t)fields_number(event, "maxRssBytes", 0),
		.output_bytes = (uint64_t)fields_number(event, "totalBytes", 0),
		.missed_bytes = (uint64_t)fields_number(event, "missedBytes", 0),
	};
	snprintf(out->ended, sizeof(out->ended), "%s", *ended ? ended : "exited");
}

fallible fields_bytes(const struct json *event, const char *key, struct buf *out)
{
	struct json *value = json_get(event, key);
	struct str data = STR("");

	TRY(json_str(value, key, &data));
	if (strcmp(fields_text(event, "encoding"), "base64") != 0) {
		buf_str(out, data);
		return OK;
	}
	if (!text_unbase64(out, data))
		return err_new(BAD_PEER, "bad_event", "the daemon sent output that is not base64");
	return OK;
}

void fields_path(struct json_out *out, const char *name, const char *path)
{
	auto_buf coded = BUF_INIT(1 << 20);
	auto_free char *key = NULL;

	if (text_is_utf8(str_of(path))) {
		json_put_text(out, name, path);
		return;
	}
	key = mem_fmt("%sBase64", name);
	text_base64(&coded, path, strlen(path));
	json_put_str(out, key, buf_view(&coded));
}

// A session reports it by the command's status, a separate command by an error.
fallible fields_no_cwd(struct err *err, struct cove *cove, const char *cwd)
{
	if (!cwd || strcmp(err_reason(err), "no_cwd") != 0)
		return err;
	private_begin(cove);
	err = err_recast(err, ERR_INVALID, "no_cwd", "cannot enter '%s'", cwd);
	return err_hint(err, "cwd must be a directory in the sandbox");
}

void fields_names(struct json_out *out, const char *key, const char *const *names)
{
	if (!names)
		return;
	json_key(out, key);
	json_begin(out, '[');
	for (; *names; names++)
		json_add_text(out, *names);
	json_end(out, ']');
}

fallible fields_volumes(struct json_out *out, const char *const *volumes)
{
	if (!volumes)
		return OK;
	json_put_begin(out, "volumes", '[');
	for (; *volumes; volumes++) {
		struct str rest = str_of(*volumes), name, path;

		if (!str_cut(&rest, ':', &name) || !str_cut(&rest, ':', &path) ||
		    (rest.at && !str_is(rest, "ro")))
			return err_hint(err_new(INVALID, "bad_value",
						"'%s' is no volume of a sandbox", *volumes),
					"NAME:PATH or NAME:PATH:ro");
		json_begin(out, '{');
		json_put_str(out, "name", name);
		json_put_str(out, "path", path);
		if (rest.at)
			json_put_bool(out, "readOnly", true);
		json_end(out, '}');
	}
	json_end(out, ']');
	return OK;
}
