// Computes a script that brings one shell to the state of another. `declare -p` prints one
// statement per variable; a value may contain newlines, inside of quotes. Equal statements are left
// out; a name that only the first shell has is unset, and so is one whose attributes differ,
// because a declaration only adds attributes. Options are variables too: BASHOPTS and SHELLOPTS.
// There are no newlines between the statements: error messages of the command name their line,
// counted with those before it.
#include "protocol/shell_state.h"

#include <stdio.h>

#include "base/mem.h"
#include "protocol/shell.h"

#define OURS "__cove_"

struct variables {
	struct variable {
		struct str whole, flags, name;
	} * at;
	size_t count;
};

static void variables_done(struct variables *list)
{
	free(list->at);
}

bool shell_state_read(struct str text, struct shell_state *out)
{
	struct str parts[SHELL_STATE_MARKS];

	for (int i = 0; i < SHELL_STATE_MARKS; i++)
		if (!text.len || !memchr(text.at, 0, text.len) || !str_cut(&text, 0, &parts[i]))
			return false;
	if (text.len || !str_starts(parts[3], "/"))
		return false;
	*out = (struct shell_state){
		.variables = parts[0],
		.functions = parts[1],
		.rest = parts[2],
		.place = parts[3],
		.stands = str_is(parts[4], "y"),
		.limits = parts[5],
	};
	return true;
}

// The length of the first statement, without its newline.
static size_t statement_len(struct str text)
{
	char quote = 0; // the one we are in; '$' for $'…'
	size_t i = 0;

	for (; i < text.len; i++) {
		char c = text.at[i];

		if (c == '\\' && quote != '\'')
			i++;
		else if (!quote && c == '\n')
			break;
		else if (!quote && c == '"')
			quote = c;
		else if (!quote && c == '\'')
			quote = i && text.at[i - 1] == '$' ? '$' : c;
		else if (quote && c == (quote == '$' ? '\'' : quote))
			quote = 0;
	}
	return i < text.len ? i : text.len;
}

static bool read_variable(struct str whole, struct variable *out)
{
	struct str rest = whole, word;

	if (!str_cut(&rest, ' ', &word) || !str_is(word, "declare") ||
	    !str_cut(&rest, ' ', &out->flags) || !rest.len || !str_starts(out->flags, "-"))
		return false;
	str_cut(&rest, '=', &out->name);
	out->whole = whole;
	return true;
}

static bool read_variables(struct str text, struct variables *out)
{
	size_t room = 0;

	while (text.len) {
		size_t len = statement_len(text);
		struct variable next;

		if (!read_variable((struct str){text.at, len}, &next))
			return false;
		if (out->count == room) {
			room = room ? 2 * room : 128;
			out->at = mem_grow(out->at, room, sizeof(*out->at));
		}
		out->at[out->count++] = next;
		text = str_skip(text, len + 1 < text.len ? len + 1 : text.len);
	}
	return true;
}

// Both lists are sorted by name, so it is most often the next one.
static const struct variable *shell_state_find(const struct variables *list, struct str name,
					       size_t *hint)
{
	for (size_t i = 0; i < list->count; i++) {
		size_t at = (*hint + i) % list->count;

		if (str_eq(list->at[at].name, name)) {
			*hint = at + 1;
			return &list->at[at];
		}
	}
	return NULL;
}

// Variables that bash sets itself, with every command or on access, and that lose their meaning
// once unset; and those that are handled otherwise.
static bool is_passing(struct str name)
{
	static const char *const names[] = {
		"_",
		"BASHOPTS",
		"BASHPID",
		"BASH_ALIASES",
		"BASH_ARGC",
		"BASH_ARGV",
		"BASH_ARGV0",
		"BASH_CMDS",
		"BASH_COMMAND",
		"BASH_LINENO",
		"BASH_SOURCE",
		"BASH_SUBSHELL",
		"COMP_WORDBREAKS",
		"DIRSTACK",
		"EPOCHREALTIME",
		"EPOCHSECONDS",
		"FUNCNAME",
		"GROUPS",
		"HISTCMD",
		"LINENO",
		"PIPESTATUS",
		"RANDOM",
		"SECONDS",
		"SHELLOPTS",
		"SRANDOM",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (str_is(name, names[i]))
			return true;
	return str_starts(name, OURS);
}

static void unset(struct buf *out, struct str name)
{
	buf_fmt(out, "\\builtin unset -v " STR_FMT ";", STR_ARG(name));
}

static bool is_fixed(const struct variable *variable)
{
	return memchr(variable->flags.at, 'r', variable->flags.len);
}

// A readonly variable cannot be unset. The locale must not be readonly: a prewarmed shell changes
// it to count bytes.
static bool may_change(const struct variables *from, const struct variables *to)
{
	size_t hint = 0;

	for (size_t i = 0; i < from->count; i++) {
		const struct variable *old = &from->at[i], *now;

		if (is_passing(old->name) || !is_fixed(old))
			continue;
		now = shell_state_find(to, old->name, &hint);
		if (!now || !str_eq(now->whole, old->whole))
			return false;
	}
	for (size_t i = 0; i < to->count; i++)
		if (str_is(to->at[i].name, "LC_ALL") && is_fixed(&to->at[i]))
			return false;
	return true;
}

static void change_variables(const struct variables *from, const struct variables *to,
			     struct buf *out)
{
	size_t hint = 0;

	for (size_t i = 0; i < from->count; i++)
		if (!is_passing(from->at[i].name) && !shell_state_find(to, from->at[i].name, &hint))
			unset(out, from->at[i].name);
	hint = 0;
	for (size_t i = 0; i < to->count; i++) {
		const struct variable *now = &to->at[i];
		const struct variable *old = shell_state_find(from, now->name, &hint);

		if (is_passing(now->name) || (old && str_eq(old->whole, now->whole)))
			continue;
		if (old && !str_eq(old->flags, now->flags))
			unset(out, now->name);
		buf_str(out, now->whole);
		buf_char(out, ';');
	}
}

static struct str shell_state_options_of(const struct variables *list, const char *name)
{
	size_t hint = 0;
	const struct variable *found = shell_state_find(list, str_of(name), &hint);
	struct str value = found ? found->whole : (struct str){0}, before;

	if (!value.len || !str_cut(&value, '"', &before) || !str_ends(value, "\""))
		return STR("");
	value.len--;
	return value;
}

static bool has_option(struct str options, struct str wanted)
{
	struct str one;

	while (str_cut(&options, ':', &one))
		if (str_eq(one, wanted))
			return true;
	return false;
}

static void turn_options(struct str these, struct str but, const char *how, struct buf *out)
{
	struct str one;

	while (str_cut(&these, ':', &one))
		if (one.len && !has_option(but, one))
			buf_fmt(out, "\\builtin %s " STR_FMT ";", how, STR_ARG(one));
}

static void change_options(const struct variables *from, const struct variables *to,
			   struct buf *out, struct buf *out_set)
{
	struct str old = shell_state_options_of(from, "BASHOPTS"),
		   now = shell_state_options_of(to, "BASHOPTS");

	turn_options(old, now, "shopt -u", out);
	turn_options(now, old, "shopt -s", out);
	old = shell_state_options_of(from, "SHELLOPTS");
	now = shell_state_options_of(to, "SHELLOPTS");
	turn_options(old, now, "set +o", out_set);
	turn_options(now, old, "set -o", out_set);
}

// Removes the function of that name, which is ours.
static void shell_state_leave_out(struct buf *text, const char *name)
{
	char first[64], last[64];
	char *begin, *end;

	snprintf(first, sizeof(first), OURS "%s () ", name);
	snprintf(last, sizeof(last), "\n}\ndeclare -fr " OURS "%s\n", name);
	begin = text->len ? memmem(text->at, text->len, first, strlen(first)) : NULL;
	if (!begin || (begin != text->at && begin[-1] != '\n'))
		return;
	end = memmem(begin, text->len - (size_t)(begin - text->at), last, strlen(last));
	if (!end)
		return;
	end += strlen(last);
	text->len -= (size_t)(end - begin);
	memmove(begin, end, text->len - (size_t)(begin - text->at));
	text->at[text->len] = 0;
}

// Removes our own functions from the functions that a shell prints.
static void shell_hide(struct buf *text)
{
	shell_state_leave_out(text, "end");
	shell_state_leave_out(text, "keep");
}

// Names of functions cannot be parsed reliably from their text, so none can be removed.
static bool change_functions(struct str from, struct str to, struct buf *out)
{
	auto_buf text = BUF_INIT(to.len);

	buf_str(&text, to);
	shell_hide(&text);
	if (from.len == text.len && (!text.len || !memcmp(from.at, text.at, text.len)))
		return true;
	buf_str(out, buf_view(&text));
	return !from.len;
}

static const struct limit {
	char letter; // option of ulimit
	const char *name;
	uint64_t unit; // bytes per unit of ulimit
} limits[] = {
	{'c', "Max core file size ", 1024}, {'d', "Max data size ", 1024},
	{'e', "Max nice priority ", 1},	    {'f', "Max file size ", 1024},
	{'i', "Max pending signals ", 1},   {'l', "Max locked memory ", 1024},
	{'n', "Max open files ", 1},	    {'q', "Max msgqueue size ", 1},
	{'r', "Max realtime priority ", 1}, {'s', "Max stack size ", 1024},
	{'t', "Max cpu time ", 1},	    {'u', "Max processes ", 1},
	{'v', "Max address space ", 1024},  {'x', "Max file locks ", 1},
};
#define UNLIMITED UINT64_MAX

// "Max open files            1024                 4096                 files"
static bool limit_of(struct str told, const struct limit *limit, uint64_t *soft, uint64_t *hard)
{
	uint64_t *const values[] = {soft, hard};
	struct str line, word;

	while (told.len && str_cut(&told, '\n', &line)) {
		if (!str_starts(line, limit->name))
			continue;
		line = str_skip(line, strlen(limit->name));
		for (int i = 0; i < 2; i++) {
			line = str_trim(line);
			str_cut(&line, ' ', &word);
			if (str_is(word, "unlimited"))
				*values[i] = UNLIMITED;
			else if (str_to_u64(word, 0, UINT64_MAX - 1, values[i]))
				*values[i] /= limit->unit;
			else
				return false;
		}
		return true;
	}
	return false;
}

static void shell_state_set_limit(struct buf *out, char which, char letter, uint64_t value)
{
	buf_fmt(out, "\\builtin ulimit -%c%c ", which, letter);
	if (value == UNLIMITED)
		buf_text(out, "unlimited");
	else
		buf_fmt(out, "%llu", (unsigned long long)value);
	buf_text(out, "||:;");
}

// The soft limit first: the hard limit may be lower than the current soft one.
static bool change_limits(const struct shell_state *from, const struct shell_state *to,
			  struct buf *out)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		uint64_t soft = 0, hard = 0, was_soft = UNLIMITED, was_hard = UNLIMITED;
		bool known = limit_of(from->limits, &limits[i], &was_soft, &was_hard);

		if (!limit_of(to->limits, &limits[i], &soft, &hard) ||
		    (known && soft == was_soft && hard == was_hard))
			continue;
		if (hard > was_hard)
			return false;
		shell_state_set_limit(out, 'S', limits[i].letter, soft);
		if (!known || hard != was_hard)
			shell_state_set_limit(out, 'H', limits[i].letter, hard);
	}
	return true;
}

bool shell_read_dump(struct str told, struct buf *out)
{
	struct shell_state none = {0}, state = {0};
	struct str script;

	if (!told.len || !memchr(told.at, 0, told.len))
		return false;
	str_cut(&told, 0, &script);
	state.limits = told;
	buf_str(out, script);
	shell_hide(out);
	change_limits(&none, &state, out);
	buf_char(out, '\n');
	return true;
}

bool shell_state_change(const struct shell_state *from, const struct shell_state *to,
			struct buf *out, struct buf *out_options)
{
	on_exit_call(variables_done) struct variables old = {0};
	on_exit_call(variables_done) struct variables now = {0};

	if (!read_variables(from->variables, &old) || !read_variables(to->variables, &now) ||
	    !may_change(&old, &now))
		return false;
	change_variables(&old, &now, out);
	if (!change_functions(from->functions, to->functions, out))
		return false;
	if (!str_eq(from->rest, to->rest)) {
		buf_text(out, "\\builtin unalias -a;\\builtin set --;");
		buf_str(out, to->rest);
	}
	change_options(&old, &now, out, out_options);
	return change_limits(from, to, out_options);
}

void shell_rehearsal(struct buf *out, struct str place, struct str change)
{
	buf_text(out, "\\builtin cd -- ");
	shell_quote(out, place);
	buf_char(out, '\n');
	buf_str(out, change);
}

void shell_cue(struct buf *out, struct str place, struct str change, struct str script)
{
	auto_buf text = BUF_INIT(out->ceiling);

	buf_text(&text, "\\builtin cd -- ");
	shell_quote(&text, place);
	buf_text(&text, " 2>/dev/null||\\builtin exit 1;");
	if (change.len) {
		buf_text(&text, "\\builtin eval ");
		shell_quote(&text, change);
		buf_text(&text, " >/dev/null 2>&1;");
	}
	buf_str(&text, script);
	shell_feed(out, false, buf_view(&text));
	if (!buf_ok(&text))
		out->failed = true;
}
