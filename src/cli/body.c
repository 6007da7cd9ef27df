// Converts options of a call to the specs of libcove: box, command, cell. A malformed value is
// INVALID with an example in the hint. Sizes are rounded up to MiB; bare numbers of times are
// seconds.
#include "cli/body.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "types/limits.h"

#define MIB ((uint64_t)1 << 20)

void body_done(struct body *body)
{
	for (size_t i = 0; i < body->env_count; i++)
		free(body->env[i]);
	for (size_t i = 0; i < body->label_count; i++)
		free(body->labels[i]);
	free(body->env);
	free(body->labels);
	free(body->allow);
	free(body->secrets);
	free(body->volumes);
	*body = (struct body){0};
}

static void add(char ***list, size_t *count, struct str name, struct str value)
{
	*list = mem_grow(*list, *count + 2, sizeof(char *));
	(*list)[*count] = mem_fmt(STR_FMT "=" STR_FMT, STR_ARG(name), STR_ARG(value));
	(*list)[++*count] = NULL;
}

static fallible bad_value(const struct call *call, enum opt opt, const char *example)
{
	const struct option *o = call->grammar->options;

	while (o->opt != opt)
		o++;
	return err_hint(err_new(INVALID, "bad_value", "--%s '%s' is no %s", o->name,
				call_value(call, opt), o->arg),
			"for example --%s %s", o->name, example);
}

// Rounded up to whole MiB, the unit of the API.
static fallible body_mib(const struct call *call, enum opt opt, const char *example, uint64_t *out)
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
	*out = (bytes + MIB - 1) / MIB;
	return OK;
}

static bool parse_ms(const char *text, uint64_t *out)
{
	if (!str_to_u64(str_of(text), 1, UINT32_MAX, out))
		return str_to_ms(str_of(text), out);
	*out *= 1000; // bare numbers are seconds, as elsewhere
	return true;
}

fallible body_ms(const struct call *call, enum opt opt, const char *example, int64_t *out)
{
	const char *text = call_value(call, opt);
	uint64_t ms;

	if (!text)
		return OK;
	if (!parse_ms(text, &ms) || ms == 0)
		return bad_value(call, opt, example);
	*out = (int64_t)ms;
	return OK;
}

static fallible body_count(const struct call *call, enum opt opt, const char *example,
			   uint64_t *out)
{
	const char *text = call_value(call, opt);

	if (text && !str_to_u64(str_of(text), 1, INT32_MAX, out))
		return bad_value(call, opt, example);
	return OK;
}

static bool parse_cpus(const char *text, double *out)
{
	char *end;
	double cpus = strtod(text, &end);

	if (text[strspn(text, "0123456789.")] || *end || end == text || !(cpus > 0 && cpus < 1e6))
		return false;
	*out = cpus;
	return true;
}

static fallible body_cpus(const struct call *call, enum opt opt, const char *example, double *out)
{
	const char *text = call_value(call, opt);

	return !text || parse_cpus(text, out) ? OK : bad_value(call, opt, example);
}

static bool parse_number(enum body_type type, const char *text, double *out)
{
	uint64_t number = 0;
	bool ok;

	switch (type) {
	case BODY_TIME:
		ok = parse_ms(text, &number);
		*out = (double)number / 1000;
		return ok;
	case BODY_MIB:
		ok = str_to_bytes(str_of(text), &number) && number >= MIB;
		number = (number + MIB - 1) / MIB;
		break;
	case BODY_CPUS:
		return parse_cpus(text, out);
	default:
		ok = str_to_u64(str_of(text), 1, UINT32_MAX, &number);
		break;
	}
	*out = (double)number;
	return ok;
}

fallible body_put(struct json_out *out, const struct call *call, const struct body_row *rows)
{
	static const struct {
		const char *what, *example;
	} numbers[] = {
		[BODY_TIME] = {"the time", "720h"},
		[BODY_COUNT] = {"the number", "10"},
		[BODY_MIB] = {"the size", "2g"},
		[BODY_CPUS] = {"the share of CPUs", "2.5"},
	};

	for (; rows->key; rows++) {
		const char *text = call_value(call, rows->opt);
		double number = 0;

		if (!call_has(call, rows->opt))
			continue;
		json_key(out, rows->key);
		if (rows->type == BODY_TEXT) {
			json_add_text(out, text);
		} else if (rows->type == BODY_FLAG) {
			json_add_bool(out, true);
		} else if (rows->type == BODY_LIST) {
			json_begin(out, '[');
			for (size_t at = 0; call_next(call, rows->opt, &at, &text);)
				json_add_text(out, text);
			json_end(out, ']');
		} else if (parse_number(rows->type, text, &number)) {
			json_add_double(out, number);
		} else {
			return err_hint(err_new(INVALID, "bad_value", "%s '%s' is malformed",
						numbers[rows->type].what, text),
					"for example %s", numbers[rows->type].example);
		}
	}
	return OK;
}

static fallible cli_body_get_limits(const struct call *call, struct cove_box_spec *box)
{
	bool of_every_exec = call->verb->id == VERB_CREATE; // `run` limits its own exec in time

#define F(field, key, unit, least, most, stored, client, option, reads, example)                   \
	if (of_every_exec || (OPT_##option != OPT_CPU_TIME && OPT_##option != OPT_TIMEOUT))        \
		TRY(body_##reads(call, OPT_##option, example, &box->client));
	LIMITS_FIELDS(F)
#undef F
	if (of_every_exec) {
		box->user = call_value(call, OPT_USER);
		box->workdir = call_value(call, OPT_WORKDIR);
		TRY(body_ms(call, OPT_SLEEP_AFTER, "30s", &box->sleep_after_ms));
		TRY(body_ms(call, OPT_ARCHIVE_AFTER, "30d", &box->archive_after_ms));
		TRY(body_ms(call, OPT_TTL, "30s", &box->ttl_ms));
		box->keep_alive = call_has(call, OPT_KEEP_ALIVE);
	}
	return OK;
}

// NAME=VALUE. A bare NAME takes its value from our environment, and is omitted if it has none.
static fallible cli_body_add_env(struct body *body, struct str text)
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
		add(&body->env, &body->env_count, name, rest);
		return OK;
	}
	word = mem_dup(name.at, name.len);
	own = getenv(word);
	if (own)
		add(&body->env, &body->env_count, name, str_of(own));
	return OK;
}

static fallible cli_body_add_file(struct body *body, const char *path)
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
			err = cli_body_add_env(body, text);
	}
	fclose(file);
	return err;
}

// Variables of files come first: of two with one name the later wins.
static fallible cli_body_get_env(const struct call *call, struct body *body)
{
	const char *text;

	for (size_t at = 0; call_next(call, OPT_ENV_FILE, &at, &text);)
		TRY(cli_body_add_file(body, text));
	for (size_t at = 0; call_next(call, OPT_ENV, &at, &text);)
		TRY(cli_body_add_env(body, str_of(text)));
	return OK;
}

static fallible get_labels(const struct call *call, struct body *body)
{
	const char *text;

	for (size_t at = 0; call_next(call, OPT_LABEL, &at, &text);) {
		struct str rest = str_of(text), name;

		if (!str_cut(&rest, '=', &name) || name.len == 0)
			return bad_value(call, OPT_LABEL, "team=web");
		add(&body->labels, &body->label_count, name, rest.at ? rest : STR(""));
	}
	return OK;
}

// All values of a repeated option; NULL: none was given.
static const char **get_words(const struct call *call, enum opt opt)
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

fallible body_network(const struct call *call, struct body *body)
{
	const char *secret;

	for (size_t at = 0; call_next(call, OPT_SECRET, &at, &secret);)
		if (strchr(secret, ':') && call->verb->id != VERB_AGENT_RUN)
			return err_hint(err_new(INVALID, "bad_value",
						"--secret '%s' is no name of a secret", secret),
					"a name has letters, digits and _; 'cove secret ls' lists "
					"them");
	body->box.network = call_value(call, OPT_NETWORK);
	body->box.allow = body->allow = get_words(call, OPT_ALLOW);
	body->box.secrets = body->secrets = get_words(call, OPT_SECRET);
	for (const char **from = body->secrets, **to = from; from; from++) {
		if (!*from || !strchr(*from, ':')) // others are files of an agent run
			*to++ = *from;
		if (!*from)
			break;
	}
	return OK;
}

fallible body_box(const struct call *call, struct body *out)
{
	out->box.name = call_value(call, OPT_NAME);
	out->box.from = call_value(call, OPT_TEMPLATE);
	out->box.image = call_value(call, OPT_IMAGE);
	out->box.pull = call_value(call, OPT_PULL);
	out->box.pool = call_value(call, OPT_POOL);
	out->box.start = call_value(call, OPT_START);
	out->box.ready = call_value(call, OPT_READY);
	TRY(cli_body_get_limits(call, &out->box));
	TRY(cli_body_get_env(call, out));
	TRY(get_labels(call, out));
	TRY(body_network(call, out));
	out->box.volumes = out->volumes = get_words(call, OPT_VOLUME);
	out->box.env = (const char *const *)out->env;
	out->box.labels = (const char *const *)out->labels;
	return OK;
}

fallible body_env(const struct call *call, struct body *out)
{
	TRY(cli_body_get_env(call, out));
	out->command.env = (const char *const *)out->env;
	return OK;
}

fallible body_cell(const struct call *call, struct body *out)
{
	out->command.cwd = call_value(call, OPT_WORKDIR);
	TRY(body_ms(call, OPT_TIMEOUT, "30s", &out->command.timeout_ms));
	return body_env(call, out);
}

fallible body_command(const struct call *call, char *const *argv, bool with_env, struct body *out)
{
	struct cove_command *command = &out->command;

	command->line = call_value(call, OPT_SHELL);
	if (command->line && *argv)
		return err_hint(
			err_new(INVALID, "two_commands", "there is a command beside --shell"),
			"write either -c 'LINE' or COMMAND [ARG...]");
	if (!command->line && !*argv && !out->may_lack_command)
		return err_hint(err_new(INVALID, "no_command", "there is no command to run"),
				"cove %s %s", call->verb->name, call->verb->words);
	if (*argv)
		command->argv = (const char *const *)argv;
	command->cwd = call_value(call, OPT_WORKDIR);
	command->user = call_value(call, OPT_USER);
	TRY(body_ms(call, OPT_TIMEOUT, "30s", &command->timeout_ms));
	TRY(body_ms(call, OPT_CPU_TIME, "30s", &command->cpu_time_ms));
	return with_env ? body_env(call, out) : OK;
}
