#include "cli/body.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/remote.h"
#include "wire/json.h"
#include "wire/text.h"

#define MIB ((uint64_t)1 << 20)

static fallible bad_value(const struct call *call, enum opt opt, const char *example)
{
	const struct option *o = call->grammar->options;

	while (o->opt != opt)
		o++;
	return err_hint(err_new(INVALID, "bad_value", "--%s '%s' is no %s", o->name,
				call_value(call, opt), o->arg),
			"for example --%s %s", o->name, example);
}

// Rounded up to whole MiB, in which the API counts.
static fallible put_mib(const struct call *call, struct json_out *out, enum opt opt,
			const char *key, const char *example)
{
	const char *text = call_value(call, opt);
	uint64_t bytes;

	if (!text)
		return OK;
	if (!str_to_bytes(str_of(text), &bytes))
		return bad_value(call, opt, example);
	if (bytes < MIB)
		return err_hint(err_new(INVALID, "bad_value", "%s bytes are less than 1 MiB", text),
				"give a unit: %sm", text);
	json_put_int(out, key, (int64_t)((bytes + MIB - 1) / MIB));
	return OK;
}

static fallible put_ms(const struct call *call, struct json_out *out, enum opt opt, const char *key)
{
	const char *text = call_value(call, opt);
	uint64_t ms;

	if (!text)
		return OK;
	if (str_to_u64(str_of(text), 1, UINT32_MAX, &ms)) // bare numbers are seconds, as elsewhere
		ms *= 1000;
	else if (!str_to_ms(str_of(text), &ms) || ms == 0)
		return bad_value(call, opt, "30s");
	json_put_int(out, key, (int64_t)ms);
	return OK;
}

static fallible put_count(const struct call *call, struct json_out *out, enum opt opt,
			  const char *key, const char *example)
{
	const char *text = call_value(call, opt);
	uint64_t count;

	if (!text)
		return OK;
	if (!str_to_u64(str_of(text), 1, INT32_MAX, &count))
		return bad_value(call, opt, example);
	json_put_int(out, key, (int64_t)count);
	return OK;
}

static fallible put_cpus(const struct call *call, struct json_out *out)
{
	const char *text = call_value(call, OPT_CPUS);
	char *end;
	double cpus;

	if (!text)
		return OK;
	cpus = strtod(text, &end);
	if (text[strspn(text, "0123456789.")] || *end || end == text || !(cpus > 0 && cpus < 1e6))
		return bad_value(call, OPT_CPUS, "0.5");
	json_key(out, "cpus");
	json_add_double(out, cpus);
	return OK;
}

static fallible put_limits(const struct call *call, struct json_out *out)
{
	json_key(out, "limits");
	json_begin(out, '{');
	TRY(put_mib(call, out, OPT_MEMORY, "memoryMB", "512m"));
	TRY(put_cpus(call, out));
	TRY(put_count(call, out, OPT_PIDS, "pids", "256"));
	TRY(put_mib(call, out, OPT_DISK, "diskMB", "2g"));
	TRY(put_count(call, out, OPT_INODES, "inodes", "131072"));
	TRY(put_mib(call, out, OPT_OUTPUT, "outputMB", "64m"));
	if (call->verb->id == VERB_CREATE) { // of every exec to come; run limits its own one
		TRY(put_ms(call, out, OPT_CPU_TIME, "cpuTimeMs"));
		TRY(put_ms(call, out, OPT_TIMEOUT, "wallTimeMs"));
	}
	json_end(out, '}');
	return OK;
}

// Pairs of a repeated option or a file. A later one of the same name wins, as JSON wants each once.
struct named {
	struct pair {
		char *name, *value;
	} * at;
	size_t count;
};

static void named_done(struct named *named)
{
	for (size_t i = 0; i < named->count; i++) {
		free(named->at[i].name);
		free(named->at[i].value);
	}
	free(named->at);
}
#define auto_named on_exit_call(named_done) struct named

static void named_put(struct named *named, struct str name, struct str value)
{
	size_t i = 0;

	while (i < named->count && !str_is(name, named->at[i].name))
		i++;
	if (i == named->count) {
		named->at = mem_grow(named->at, named->count + 1, sizeof(*named->at));
		named->at[named->count++] = (struct pair){.name = mem_dup(name.at, name.len)};
	}
	free(named->at[i].value);
	named->at[i].value = mem_dup(value.at, value.len);
}

// NAME=VALUE. A bare NAME takes its value from our own environment, and is left out if it has none.
static fallible named_env(struct named *named, struct str text)
{
	struct str rest = text, name;
	auto_free char *word = NULL;
	const char *own;

	str_cut(&rest, '=', &name);
	if (name.len == 0)
		return err_hint(err_new(INVALID, "bad_env", "'" STR_FMT "' names no variable",
					STR_ARG(text)),
				"write NAME=VALUE");
	if (rest.at) {
		named_put(named, name, rest);
		return OK;
	}
	word = mem_dup(name.at, name.len);
	own = getenv(word);
	if (own)
		named_put(named, name, str_of(own));
	return OK;
}

static fallible named_file(struct named *named, const char *path)
{
	FILE *file = fopen(path, "re");
	auto_free char *line = NULL;
	size_t room = 0;
	struct err *err = OK;

	if (!file)
		return err_hint(err_new(INVALID, "no_env_file", "cannot read '%s': %s", path,
					strerror(errno)),
				"--env-file names a file of NAME=VALUE lines");
	while (!err && getline(&line, &room, file) >= 0) {
		struct str text = str_trim((struct str){line, strcspn(line, "\r\n")});

		if (text.len && text.at[0] != '#')
			err = named_env(named, text);
	}
	fclose(file);
	return err;
}

static void put_named(struct json_out *out, const char *key, const struct named *named)
{
	if (named->count == 0)
		return;
	json_key(out, key);
	json_begin(out, '{');
	for (size_t i = 0; i < named->count; i++)
		json_put_text(out, named->at[i].name, named->at[i].value);
	json_end(out, '}');
}

static fallible put_env(const struct call *call, struct json_out *out)
{
	auto_named named = {0};
	const char *text;

	for (size_t at = 0; call_next(call, OPT_ENV_FILE, &at, &text);)
		TRY(named_file(&named, text));
	for (size_t at = 0; call_next(call, OPT_ENV, &at, &text);)
		TRY(named_env(&named, str_of(text)));
	put_named(out, "env", &named);
	return OK;
}

static fallible put_labels(const struct call *call, struct json_out *out)
{
	auto_named named = {0};
	const char *text;

	for (size_t at = 0; call_next(call, OPT_LABEL, &at, &text);) {
		struct str rest = str_of(text), name;

		if (!str_cut(&rest, '=', &name) || name.len == 0)
			return bad_value(call, OPT_LABEL, "team=web");
		named_put(&named, name, rest.at ? rest : STR(""));
	}
	put_named(out, "labels", &named);
	return OK;
}

fallible body_create(const struct call *call, struct buf *out)
{
	struct json_out json = json_to(out);
	const char *name = call_value(call, OPT_NAME), *from = call_value(call, OPT_TEMPLATE);

	json_begin(&json, '{');
	if (name)
		json_put_text(&json, "name", name);
	if (from)
		json_put_text(&json, "template", from);
	TRY(put_limits(call, &json));
	TRY(put_env(call, &json));
	TRY(put_labels(call, &json));
	json_end(&json, '}');
	return OK;
}

static fallible put_command(const struct call *call, struct json_out *out,
			    const struct body_exec *exec)
{
	const char *line = call_value(call, OPT_SHELL);

	if (line && exec->count)
		return err_hint(
			err_new(INVALID, "two_commands", "there is a command beside --shell"),
			"write either -c 'LINE' or COMMAND [ARG...]");
	if (line) {
		json_put_text(out, "command", line);
		return OK;
	}
	if (exec->count == 0)
		return err_hint(err_new(INVALID, "no_command", "there is no command to run"),
				"cove %s %s", call->verb->name, call->verb->words);
	json_key(out, "argv");
	json_begin(out, '[');
	for (int i = 0; i < exec->count; i++)
		json_add_text(out, exec->argv[i]);
	json_end(out, ']');
	return OK;
}

// Text goes as it is, all else as base64 with a word that says so.
static void put_input(struct json_out *out, struct str input)
{
	auto_buf coded = BUF_INIT(2 * BODY_MAX);

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

fallible body_execute(const struct call *call, const struct body_exec *exec, struct buf *out)
{
	struct json_out json = json_to(out);
	const char *cwd = call_value(call, OPT_WORKDIR), *user = call_value(call, OPT_USER);

	json_begin(&json, '{');
	TRY(put_command(call, &json, exec));
	json_put_text(&json, "sessionId", "__DISABLE_SESSION__");
	if (cwd)
		json_put_text(&json, "cwd", cwd);
	if (user)
		json_put_text(&json, "user", user);
	TRY(put_ms(call, &json, OPT_TIMEOUT, "timeoutMs"));
	TRY(put_ms(call, &json, OPT_CPU_TIME, "cpuTimeMs"));
	if (exec->with_env)
		TRY(put_env(call, &json));
	if (exec->streamed)
		json_put_text(&json, "encoding", "base64");
	put_input(&json, exec->input);
	json_end(&json, '}');
	if (!buf_ok(out) || out->len > BODY_MAX)
		return err_hint(err_new(TOO_LARGE, "stdin_too_large",
					"command and input together exceed 1 MiB"),
				"let the command fetch its input from a file of the sandbox");
	return OK;
}
