// Reads a Dockerfile: directives, logical lines with their continuations and here-documents, one
// instruction after the other. Words keep their quotes and variables: their values are known when
// the step runs. Only FROM is expanded here, by the arguments before the first stage.
#include "types/dockerfile.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "types/manifest.h"

#define LINE_MAX_BYTES (256 * 1024) // a logical line with its here-documents
#define FLAGS_MAX 16
#define HEREDOCS_MAX 8
#define HERE_NAME_MAX 64
#define HEALTH_MS_MAX (24 * 3600 * 1000ull)
#define HEALTH_RETRIES_MAX 1000

struct dockerfile {
	struct build_plan *plan;
	struct str rest; // unread lines
	uint32_t line;	 // of the last line that was read
	uint32_t first;	 // of the instruction
	char escape;
	struct buf text;	     // the instruction, continuations joined
	struct str flags[FLAGS_MAX]; // of the text
	size_t flag_count;
};

static fallible bad_line(const struct dockerfile *file, const char *what)
{
	return err_new(INVALID, "bad_dockerfile", "line %u: %s", file->first, what);
}

static fallible not_supported(const struct dockerfile *file, const char *what, const char *hint)
{
	return err_hint(err_new(INVALID, "bad_dockerfile", "line %u: %s is not supported",
				file->first, what),
			"%s", hint);
}

// An error of a part, with the line.
static fallible at_line(const struct dockerfile *file, struct err *err)
{
	if (!err)
		return OK;
	return err_recast(err, err_kind(err), "bad_dockerfile", "line %u: %s", file->first,
			  err_message(err));
}

// ------------------------------------------------------------------------------------------ lines

static bool line_next(struct dockerfile *file, struct str *out)
{
	if (!file->rest.len || !str_cut(&file->rest, '\n', out))
		return false;
	if (out->len && out->at[out->len - 1] == '\r')
		out->len--;
	file->line++;
	return true;
}

// "# escape=`" and others at the beginning; a line that is none ends them.
static fallible read_directives(struct dockerfile *file)
{
	for (;;) {
		struct str before = file->rest, line, name;
		uint32_t number = file->line;

		if (!line_next(file, &line))
			return OK;
		file->first = file->line;
		line = str_trim(line);
		if (!line.len || line.at[0] != '#' || !memchr(line.at, '=', line.len)) {
			file->rest = before;
			file->line = number;
			return OK;
		}
		line = str_skip(line, 1);
		str_cut(&line, '=', &name);
		name = str_trim(name);
		line = str_trim(line);
		if (str_eq_nocase(name, STR("escape"))) {
			if (!str_is(line, "\\") && !str_is(line, "`"))
				return bad_line(file, "escape is a backslash or a backtick");
			file->escape = line.at[0];
		}
	}
}

static bool is_comment(struct str line)
{
	line = str_trim(line);
	return line.len && line.at[0] == '#';
}

// Whether the line goes on; without its escape then.
static bool line_continues(const struct dockerfile *file, struct str *line)
{
	size_t len = line->len;

	while (len && (line->at[len - 1] == ' ' || line->at[len - 1] == '\t'))
		len--;
	if (!len || line->at[len - 1] != file->escape)
		return false;
	line->len = len - 1;
	return true;
}

// The next instruction in file->text. False: the end.
static bool instruction_next(struct dockerfile *file)
{
	struct str line;
	bool begun = false;

	buf_clear(&file->text);
	while (line_next(file, &line)) {
		bool more;

		if (is_comment(line) || !str_trim(line).len)
			continue; // also between continued lines
		if (!begun)
			file->first = file->line;
		begun = true;
		more = line_continues(file, &line);
		buf_str(&file->text, line);
		if (!more)
			break;
	}
	return begun;
}

static struct str word_next(struct str *rest)
{
	struct str word;

	*rest = str_trim(*rest);
	word = (struct str){rest->at, 0};
	while (word.len < rest->len && !isspace((unsigned char)rest->at[word.len]))
		word.len++;
	*rest = str_skip(*rest, word.len);
	*rest = str_trim(*rest);
	return word;
}

static fallible flags_read(struct dockerfile *file, struct str *rest)
{
	file->flag_count = 0;
	while (str_starts(*rest, "--")) {
		if (file->flag_count == FLAGS_MAX)
			return bad_line(file, "too many options");
		file->flags[file->flag_count++] = str_skip(word_next(rest), 2);
	}
	return OK;
}

// The value of --NAME=VALUE; at NULL: not given.
static struct str flag_value(const struct dockerfile *file, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = file->flag_count; i-- > 0;) {
		struct str flag = file->flags[i];

		if (str_starts(flag, name) && flag.len > len && flag.at[len] == '=')
			return str_skip(flag, len + 1);
	}
	return (struct str){0};
}

static fallible flags_only(const struct dockerfile *file, const char *const *known)
{
	for (size_t i = 0; i < file->flag_count; i++) {
		struct str rest = file->flags[i], name;
		bool found = false;

		str_cut(&rest, '=', &name);
		for (size_t k = 0; known[k]; k++)
			found |= str_is(name, known[k]);
		if (!found)
			return err_hint(
				err_new(INVALID, "bad_dockerfile",
					"line %u: the option --" STR_FMT " is not supported",
					file->first, (int)(name.len < 64 ? name.len : 64), name.at),
				"docs/API.md lists what a Dockerfile may contain");
	}
	return OK;
}

// ---------------------------------------------------------------------------------- here-documents

struct heredoc {
	char name[HERE_NAME_MAX];
	bool tabs; // of <<-: leading tabs are removed
};

// "<<NAME", "<<-NAME", "<<'NAME'", where a word begins. *rest is moved behind it.
static bool heredoc_read(struct str *rest, struct heredoc *out)
{
	struct str at = str_skip(*rest, 2);
	size_t len = 0;
	char quote = 0;

	*out = (struct heredoc){0};
	if (at.len && at.at[0] == '-') {
		out->tabs = true;
		at = str_skip(at, 1);
	}
	if (at.len && (at.at[0] == '"' || at.at[0] == '\'')) {
		quote = at.at[0];
		at = str_skip(at, 1);
	}
	while (len < at.len && len + 1 < sizeof(out->name) &&
	       (isalnum((unsigned char)at.at[len]) || at.at[len] == '_' ||
		(len && strchr(".-", at.at[len]))))
		len++;
	if (!len || (quote && (len == at.len || at.at[len] != quote)))
		return false;
	memcpy(out->name, at.at, len);
	*rest = str_skip(at, len + !!quote);
	return true;
}

// Here-documents that the text of a RUN begins.
static size_t heredocs_find(struct str text, struct heredoc out[HEREDOCS_MAX])
{
	size_t count = 0;
	char quote = 0;

	while (text.len && count < HEREDOCS_MAX) {
		if (quote || text.at[0] == '\'' || text.at[0] == '"') {
			quote = !quote ? text.at[0] : text.at[0] == quote ? 0 : quote;
		} else if (str_starts(text, "<<<")) {
			text = str_skip(text, 2);
		} else if (str_starts(text, "<<") && heredoc_read(&text, &out[count])) {
			count++;
			continue;
		}
		text = str_skip(text, 1);
	}
	return count;
}

static fallible heredoc_body(struct dockerfile *file, const struct heredoc *heredoc,
			     struct buf *out)
{
	struct str line;

	while (line_next(file, &line)) {
		while (heredoc->tabs && line.len && line.at[0] == '\t')
			line = str_skip(line, 1);
		if (str_is(line, heredoc->name))
			return OK;
		buf_str(out, line);
		buf_char(out, '\n');
	}
	return bad_line(file, "a here-document has no end");
}

// ------------------------------------------------------------------------------------------ words

// A list of strings in JSON; false: the text is none.
static bool list_read(struct str text, struct build_step *step, struct err **out_err)
{
	auto_json list = NULL;
	auto_err err = OK;

	if (!text.len || text.at[0] != '[')
		return false;
	err = json_read(text, &list);
	if (err || json_type(list) != JSON_ARRAY)
		return false;
	for (size_t i = 0; i < json_count(list); i++)
		if (json_type(json_at(list, i)) != JSON_STRING)
			return false;
	for (size_t i = 0; !*out_err && i < json_count(list); i++)
		*out_err = build_step_add_word(step, json_chars(json_at(list, i)));
	return true;
}

// Words as they are, or a list.
static fallible words_read(struct dockerfile *file, struct str rest, struct build_step *step)
{
	struct err *err = OK;

	if (list_read(rest, step, &err))
		return at_line(file, err);
	while (rest.len)
		TRY(at_line(file, build_step_add_word(step, word_next(&rest))));
	return OK;
}

// A word up to a blank outside of quotes.
static struct str quoted_next(const struct dockerfile *file, struct str *rest)
{
	struct str word;
	size_t len = 0;
	char quote = 0;

	*rest = str_trim(*rest);
	for (; len < rest->len; len++) {
		char c = rest->at[len];

		if (c == file->escape && quote != '\'')
			len++;
		else if (quote)
			quote = c == quote ? 0 : quote;
		else if (c == '"' || c == '\'')
			quote = c;
		else if (isspace((unsigned char)c))
			break;
	}
	if (len > rest->len)
		len = rest->len;
	word = (struct str){rest->at, len};
	*rest = str_trim(str_skip(*rest, len));
	return word;
}

static fallible pairs_read(struct dockerfile *file, struct str rest, struct build_step *step)
{
	struct str first = rest, word = quoted_next(file, &first);

	if (!word.len)
		return bad_line(file, "a name and a value are missing");
	if (!memchr(word.at, '=', word.len)) { // NAME the rest of the line
		word = word_next(&rest);
		if (!rest.len)
			return bad_line(file, "a value is missing: NAME=VALUE");
		TRY(at_line(file, build_step_add_word(step, word)));
		return at_line(file, build_step_add_word(step, rest));
	}
	while (rest.len) {
		struct str name;

		word = quoted_next(file, &rest);
		if (!memchr(word.at, '=', word.len) || word.at[0] == '=')
			return bad_line(file, "each pair is NAME=VALUE");
		str_cut(&word, '=', &name);
		TRY(at_line(file, build_step_add_word(step, name)));
		TRY(at_line(file, build_step_add_word(step, word)));
	}
	return OK;
}

// -------------------------------------------------------------------------------------- expansion

static const char *global_value(void *arg, struct str name)
{
	const struct build_plan *plan = arg;

	return env_map_get(&plan->globals, name);
}

static fallible global_expand(struct dockerfile *file, struct str word, char **out)
{
	auto_buf text = BUF_INIT(BUILD_WORD_MAX);

	TRY(at_line(file, build_expand(word, file->escape, global_value, file->plan, &text)));
	if (!buf_ok(&text))
		return bad_line(file, "a word is too long");
	*out = buf_take(&text);
	return OK;
}

static void set_platform(struct build_plan *plan)
{
	auto_buf text = BUF_INIT(64);
	struct platform platform;
	static const char *const sides[] = {"TARGET", "BUILD"};

	platform_host(&platform);
	platform_write(&platform, &text);
	for (size_t i = 0; i < 2; i++) {
		auto_free char *all = mem_fmt("%sPLATFORM", sides[i]);
		auto_free char *os = mem_fmt("%sOS", sides[i]);
		auto_free char *arch = mem_fmt("%sARCH", sides[i]);
		auto_free char *variant = mem_fmt("%sVARIANT", sides[i]);

		env_map_set(&plan->globals, str_of(all), str_of(text.at));
		env_map_set(&plan->globals, str_of(os), str_of(platform.os));
		env_map_set(&plan->globals, str_of(arch), str_of(platform.architecture));
		env_map_set(&plan->globals, str_of(variant), str_of(platform.variant));
	}
}

// ----------------------------------------------------------------------------------- instructions

static fallible from_platform(struct dockerfile *file)
{
	struct str word = flag_value(file, "platform");
	auto_free char *text = NULL;
	struct platform platform;

	if (!word.at)
		return OK;
	TRY(global_expand(file, word, &text));
	TRY(at_line(file, platform_read(str_of(text), &platform)));
	return platform_is_host(&platform)
		       ? OK
		       : not_supported(file, "another platform than this host's",
				       "leave --platform out");
}

static fallible from_name(struct dockerfile *file, struct str rest, char **out)
{
	struct str word, name;

	if (!rest.len)
		return OK;
	word = word_next(&rest);
	name = word_next(&rest);
	if (!str_eq_nocase(word, STR("as")) || !name.len || rest.len || name.len > 128)
		return bad_line(file, "FROM is FROM IMAGE [AS NAME]");
	if (str_eq_nocase(name, STR(BUILD_SCRATCH)))
		return bad_line(file, "'scratch' is no name for a stage");
	if (!isalpha((unsigned char)name.at[0]))
		return bad_line(file, "the name of a stage begins with a letter");
	*out = mem_dup(name.at, name.len);
	return OK;
}

static fallible read_from_line(struct dockerfile *file, struct str rest)
{
	static const char *const known[] = {"platform", NULL};
	struct build_plan *plan = file->plan;
	struct str word = word_next(&rest);
	auto_free char *name = NULL, *from = NULL;
	struct build_stage *stage;
	int64_t at;

	TRY(flags_only(file, known));
	TRY(from_platform(file));
	TRY(from_name(file, rest, &name));
	TRY(global_expand(file, word, &from));
	if (!from || !from[0])
		return bad_line(file, "FROM names no image");
	TRY(at_line(file, build_plan_add_stage(plan, &stage)));
	stage->line = file->first;
	stage->name = take_ptr(name);
	at = build_plan_find_stage(plan, plan->count - 1, str_of(from));
	if (at >= 0 && plan->stages[at].name &&
	    str_eq_nocase(str_of(plan->stages[at].name), str_of(from))) {
		stage->base = BUILD_FROM_STAGE;
		stage->from_at = (size_t)at;
	} else if (!strcmp(from, BUILD_SCRATCH)) {
		stage->base = BUILD_FROM_SCRATCH;
	} else if (str_starts(str_of(from), "cove://")) {
		stage->base = BUILD_FROM_TEMPLATE;
		memmove(from, from + strlen("cove://"), strlen(from) - strlen("cove://") + 1);
	}
	stage->from = take_ptr(from);
	return OK;
}

static fallible dockerfile_step(struct dockerfile *file, enum build_kind kind,
				struct build_step **out)
{
	struct str text = str_trim(buf_view(&file->text));

	TRY(at_line(file, build_plan_add_step(file->plan, kind, out)));
	(*out)->line = file->first;
	(*out)->text = mem_dup(text.at, text.len < 200 ? text.len : 200);
	return OK;
}

// NAME or NAME=DEFAULT, several of them a step each. Before the first stage they are for FROM.
static fallible read_arg_line(struct dockerfile *file, struct str rest)
{
	struct build_plan *plan = file->plan;

	if (!rest.len)
		return bad_line(file, "ARG names nothing");
	while (rest.len) {
		struct str word = quoted_next(file, &rest), name;
		bool has_default = memchr(word.at, '=', word.len) != NULL;
		auto_free char *value = NULL;
		struct build_step *step;

		str_cut(&word, '=', &name);
		if (!name.len)
			return bad_line(file, "ARG names nothing");
		if (plan->count) {
			TRY(dockerfile_step(file, BUILD_ARG, &step));
			TRY(at_line(file, build_step_add_word(step, name)));
			if (has_default)
				TRY(at_line(file, build_step_add_word(step, word)));
			continue;
		}
		if (plan->globals.count > BUILD_WORDS_MAX)
			return bad_line(file, "too many arguments");
		if (env_map_get(&plan->args, name))
			value = mem_str(env_map_get(&plan->args, name));
		else if (has_default)
			TRY(global_expand(file, word, &value));
		if (value)
			env_map_set(&plan->globals, name, str_of(value));
	}
	return OK;
}

// The line of a RUN with its here-documents. One that is all of the line is the script itself.
static fallible read_script(struct dockerfile *file, struct str rest, struct build_step *step)
{
	struct heredoc heredocs[HEREDOCS_MAX];
	size_t count = heredocs_find(rest, heredocs);
	struct str after = rest;
	bool alone = str_starts(rest, "<<") && heredoc_read(&after, &heredocs[0]) &&
		     !str_trim(after).len;
	auto_buf line = BUF_INIT(LINE_MAX_BYTES);

	if (alone) {
		TRY(heredoc_body(file, &heredocs[0], &line));
	} else {
		buf_str(&line, rest);
		for (size_t i = 0; i < count; i++) {
			buf_char(&line, '\n');
			TRY(heredoc_body(file, &heredocs[i], &line));
			buf_text(&line, heredocs[i].name);
		}
	}
	if (!buf_ok(&line))
		return bad_line(file, "a here-document is too large");
	return at_line(file, build_step_add_word(step, buf_view(&line)));
}

static fallible read_run_flags(struct dockerfile *file, struct build_step *step)
{
	struct str network = flag_value(file, "network");

	if (network.at && !str_is(network, "default"))
		return not_supported(file, "another network of a single RUN",
				     "the network of a build is that of its request");
	for (size_t i = 0; i < file->flag_count; i++)
		if (str_starts(file->flags[i], "mount="))
			TRY(at_line(file, build_step_add_mount(step, str_skip(file->flags[i],
									      strlen("mount=")))));
	return OK;
}

static fallible read_command_line(struct dockerfile *file, enum build_kind kind, struct str rest)
{
	static const char *const known[] = {"mount", "network", NULL}, *const none[] = {NULL};
	struct build_step *step;
	struct err *err = OK;

	TRY(flags_only(file, kind == BUILD_RUN ? known : none));
	TRY(dockerfile_step(file, kind, &step));
	TRY(read_run_flags(file, step));
	if (!rest.len)
		return bad_line(file, "there is no command");
	step->is_list = list_read(rest, step, &err);
	TRY(at_line(file, err));
	if (step->is_list)
		return step->count || kind != BUILD_RUN ? OK
							: bad_line(file, "there is no command");
	if (kind == BUILD_RUN)
		return read_script(file, rest, step);
	return at_line(file, build_step_add_word(step, rest));
}

static void flag_take(const struct dockerfile *file, const char *name, char **out)
{
	struct str value = flag_value(file, name);

	if (value.at)
		*out = mem_dup(value.at, value.len);
}

// "COPY a <<X <<'Y' /to": the words without the here-documents, which follow on the next lines.
static fallible read_copy_files(struct dockerfile *file, struct str rest, struct build_step *step)
{
	while (rest.len) {
		struct str word = word_next(&rest), at = word;
		struct heredoc heredoc;
		auto_buf body = BUF_INIT(LINE_MAX_BYTES);
		bool literal;

		if (!str_starts(word, "<<")) {
			TRY(at_line(file, build_step_add_word(step, word)));
			continue;
		}
		if (!heredoc_read(&at, &heredoc) || at.len)
			return bad_line(file, "a here-document has no name");
		literal = word.at[word.len - 1] == '"' || word.at[word.len - 1] == '\'';
		TRY(heredoc_body(file, &heredoc, &body));
		if (!buf_ok(&body))
			return bad_line(file, "a here-document is too large");
		TRY(at_line(file, build_step_add_file(step, str_of(heredoc.name), buf_view(&body),
						      literal)));
	}
	return OK;
}

static bool has_url(const struct build_step *step)
{
	for (size_t i = 0; i + 1 < step->count; i++)
		if (strstr(step->words[i], "://") || str_starts(str_of(step->words[i]), "git@"))
			return true;
	return false;
}

static fallible read_copy_line(struct dockerfile *file, enum build_kind kind, struct str rest)
{
	static const char *const copy[] = {"from", "chown", "chmod", "link", NULL}, *const add[] = {
											    "chown",
											    "chmod",
											    "link",
											    NULL};
	struct build_step *step;

	TRY(flags_only(file, kind == BUILD_COPY ? copy : add));
	TRY(dockerfile_step(file, kind, &step));
	flag_take(file, "from", &step->from);
	flag_take(file, "chown", &step->chown);
	flag_take(file, "chmod", &step->chmod);
	if (rest.len && rest.at[0] == '[')
		TRY(words_read(file, rest, step));
	else
		TRY(read_copy_files(file, rest, step));
	if (kind == BUILD_ADD && has_url(step))
		return not_supported(file, "ADD of a URL", "fetch it by RUN");
	return step->count && step->count + step->file_count >= 2
		       ? OK
		       : bad_line(file, "COPY and ADD have sources and a destination");
}

static fallible read_text_line(struct dockerfile *file, enum build_kind kind, struct str rest)
{
	struct build_step *step;

	TRY(dockerfile_step(file, kind, &step));
	if (!rest.len)
		return bad_line(file, "the instruction has no argument");
	return at_line(file, build_step_add_word(step, rest));
}

static fallible read_words_line(struct dockerfile *file, enum build_kind kind, struct str rest)
{
	struct build_step *step;

	TRY(dockerfile_step(file, kind, &step));
	TRY(words_read(file, rest, step));
	return step->count ? OK : bad_line(file, "the instruction has no argument");
}

static fallible read_shell_line(struct dockerfile *file, struct str rest)
{
	struct build_step *step;
	struct err *err = OK;

	TRY(dockerfile_step(file, BUILD_SHELL, &step));
	if (!list_read(rest, step, &err) || (!err && !step->count)) {
		err_free(err);
		return bad_line(file, "SHELL is a list: SHELL [\"/bin/bash\", \"-c\"]");
	}
	return at_line(file, err);
}

static fallible read_pairs_line(struct dockerfile *file, enum build_kind kind, struct str rest)
{
	struct build_step *step;

	TRY(dockerfile_step(file, kind, &step));
	return pairs_read(file, rest, step);
}

// What LABEL maintainer says.
static fallible read_maintainer_line(struct dockerfile *file, enum build_kind kind, struct str rest)
{
	struct build_step *step;

	TRY(dockerfile_step(file, kind, &step));
	if (!rest.len)
		return bad_line(file, "the instruction has no argument");
	TRY(at_line(file, build_step_add_word(step, STR("maintainer"))));
	return at_line(file, build_step_add_word(step, rest));
}

static fallible put_health_options(struct dockerfile *file, struct json_out *out)
{
	static const struct {
		const char *flag, *key;
	} spans[] = {{"interval", "Interval"},
		     {"timeout", "Timeout"},
		     {"start-period", "StartPeriod"},
		     {"start-interval", "StartInterval"}};
	struct str retries = flag_value(file, "retries");
	uint64_t number;

	for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++) {
		struct str value = flag_value(file, spans[i].flag);

		if (!value.at)
			continue;
		if (!str_to_ms(value, &number) || number > HEALTH_MS_MAX)
			return bad_line(file, "a time is a number with ms, s, m or h");
		json_put_int(out, spans[i].key, (int64_t)number * 1000000);
	}
	if (!retries.at)
		return OK;
	if (!str_to_u64(retries, 0, HEALTH_RETRIES_MAX, &number))
		return bad_line(file, "--retries is a number");
	json_put_int(out, "Retries", (int64_t)number);
	return OK;
}

// The words of CMD: a list, or a line for the shell.
static fallible put_health_test(struct dockerfile *file, struct json_out *out, struct str rest)
{
	struct build_step words = {0};
	struct err *err = OK;
	bool is_list = list_read(rest, &words, &err);

	json_add_text(out, is_list ? "CMD" : "CMD-SHELL");
	if (!is_list)
		json_add_str(out, rest);
	for (size_t i = 0; i < words.count; i++)
		json_add_text(out, words.words[i]);
	mem_free_list(words.words);
	return at_line(file, err);
}

static fallible read_healthcheck_line(struct dockerfile *file, enum build_kind kind,
				      struct str rest)
{
	static const char *const known[] = {"interval",	      "timeout", "start-period",
					    "start-interval", "retries", NULL};
	auto_buf text = BUF_INIT(BUILD_WORD_MAX);
	struct json_out json = json_to(&text);
	struct str word = word_next(&rest);
	struct build_step *step;

	TRY(flags_only(file, known));
	TRY(dockerfile_step(file, kind, &step));
	if (!(str_eq_nocase(word, STR("NONE")) && !rest.len) &&
	    !(str_eq_nocase(word, STR("CMD")) && rest.len))
		return bad_line(file, "HEALTHCHECK is HEALTHCHECK NONE or HEALTHCHECK CMD …");
	json_begin(&json, '{');
	json_put_begin(&json, "Test", '[');
	if (rest.len)
		TRY(put_health_test(file, &json, rest));
	else
		json_add_text(&json, "NONE");
	json_end(&json, ']');
	TRY(put_health_options(file, &json));
	json_end(&json, '}');
	if (!buf_ok(&text))
		return bad_line(file, "the instruction is too long");
	return at_line(file, build_step_add_word(step, buf_view(&text)));
}

// Instructions that are refused, and what to do.
static const struct {
	const char *word, *hint;
} refused[] = {
	{"ONBUILD", "write its instruction into the Dockerfile that needs it"},
};

static fallible read_instruction(struct dockerfile *file, struct str word, struct str rest)
{
	static const struct {
		const char *word;
		enum build_kind kind;
		fallible (*read)(struct dockerfile *, enum build_kind, struct str);
	} rows[] = {
		{"RUN", BUILD_RUN, read_command_line},
		{"COPY", BUILD_COPY, read_copy_line},
		{"ADD", BUILD_ADD, read_copy_line},
		{"CMD", BUILD_CMD, read_command_line},
		{"ENTRYPOINT", BUILD_ENTRYPOINT, read_command_line},
		{"ENV", BUILD_ENV, read_pairs_line},
		{"LABEL", BUILD_LABEL, read_pairs_line},
		{"WORKDIR", BUILD_WORKDIR, read_text_line},
		{"USER", BUILD_USER, read_text_line},
		{"STOPSIGNAL", BUILD_STOPSIGNAL, read_text_line},
		{"EXPOSE", BUILD_EXPOSE, read_words_line},
		{"VOLUME", BUILD_VOLUME, read_words_line},
		{"MAINTAINER", BUILD_LABEL, read_maintainer_line},
		{"HEALTHCHECK", BUILD_HEALTHCHECK, read_healthcheck_line},
	};

	if (str_eq_nocase(word, STR("FROM")))
		return read_from_line(file, rest);
	if (str_eq_nocase(word, STR("ARG")))
		return read_arg_line(file, rest);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (str_eq_nocase(word, str_of(refused[i].word)))
			return not_supported(file, refused[i].word, refused[i].hint);
	if (!file->plan->count)
		return bad_line(file, "a Dockerfile begins with FROM");
	if (str_eq_nocase(word, STR("SHELL")))
		return read_shell_line(file, rest);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (str_eq_nocase(word, str_of(rows[i].word)))
			return rows[i].read(file, rows[i].kind, rest);
	return err_hint(err_new(INVALID, "bad_dockerfile",
				"line %u: '" STR_FMT "' is no instruction", file->first,
				(int)(word.len < 40 ? word.len : 40), word.at),
			"docs/API.md lists what a Dockerfile may contain");
}

// Once all stages are known.
static fallible check_steps(struct dockerfile *file)
{
	const struct build_plan *plan = file->plan;

	for (size_t i = 0; i < plan->count; i++)
		for (size_t k = 0; k < plan->stages[i].count; k++) {
			file->first = plan->stages[i].steps[k].line;
			TRY(at_line(file,
				    build_plan_check_step(plan, i, &plan->stages[i].steps[k])));
		}
	return OK;
}

static fallible dockerfile_lines(struct dockerfile *file)
{
	TRY(read_directives(file));
	file->plan->escape = file->escape;
	while (instruction_next(file)) {
		struct str rest = str_trim(buf_view(&file->text)), word = word_next(&rest);

		if (!buf_ok(&file->text))
			return bad_line(file, "the instruction is too long");
		TRY(flags_read(file, &rest));
		TRY(read_instruction(file, word, rest));
	}
	if (!file->plan->count)
		return err_new(INVALID, "bad_dockerfile", "the Dockerfile has no FROM");
	return check_steps(file);
}

fallible dockerfile_read(struct str text, struct build_plan *out)
{
	struct dockerfile file = {
		.plan = out, .rest = text, .escape = '\\', .text = BUF_INIT(LINE_MAX_BYTES)};
	struct err *err;

	if (text.len > DOCKERFILE_MAX)
		return err_new(TOO_LARGE, "bad_dockerfile",
			       "the Dockerfile is larger than %d bytes", DOCKERFILE_MAX);
	if (text.len && memchr(text.at, 0, text.len))
		return err_new(INVALID, "bad_dockerfile", "the Dockerfile has a NUL");
	set_platform(out);
	err = dockerfile_lines(&file);
	buf_done(&file.text);
	return err;
}
