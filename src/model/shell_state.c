// `declare -p` prints one statement for each variable; a value may hold newlines, inside of quotes.
// What both shells print alike is left out; a name that only the first one has is unset; where the
// attributes differ it is unset as well, for a declaration only adds to them. The options are
// variables too, BASHOPTS and SHELLOPTS, so they need no printing of their own.
//
// No newlines between the statements: a message of the command's names its line, counted with
// those before it.
#include "model/shell_state.h"

#include <stdio.h>

#include "base/mem.h"
#include "model/shell.h"

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
		.soft = parts[5],
		.hard = parts[6],
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

// Both lists are in the order of their names, so it is most often the next one.
static const struct variable *find(const struct variables *list, struct str name, size_t *hint)
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

// What bash makes itself, anew with every command or whenever it is asked for, and would be none of
// its own any more once unset; and what is said otherwise.
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

// What is readonly cannot be taken away. The locale must not be: an understudy changes it to count.
static bool may_change(const struct variables *from, const struct variables *to)
{
	size_t hint = 0;

	for (size_t i = 0; i < from->count; i++) {
		const struct variable *old = &from->at[i], *now;

		if (is_passing(old->name) || !is_fixed(old))
			continue;
		now = find(to, old->name, &hint);
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
		if (!is_passing(from->at[i].name) && !find(to, from->at[i].name, &hint))
			unset(out, from->at[i].name);
	hint = 0;
	for (size_t i = 0; i < to->count; i++) {
		const struct variable *now = &to->at[i];
		const struct variable *old = find(from, now->name, &hint);

		if (is_passing(now->name) || (old && str_eq(old->whole, now->whole)))
			continue;
		if (old && !str_eq(old->flags, now->flags))
			unset(out, now->name);
		buf_str(out, now->whole);
		buf_char(out, ';');
	}
}

static struct str options_of(const struct variables *list, const char *name)
{
	size_t hint = 0;
	const struct variable *found = find(list, str_of(name), &hint);
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
	struct str old = options_of(from, "BASHOPTS"), now = options_of(to, "BASHOPTS");

	turn_options(old, now, "shopt -u", out);
	turn_options(now, old, "shopt -s", out);
	old = options_of(from, "SHELLOPTS");
	now = options_of(to, "SHELLOPTS");
	turn_options(old, now, "set +o", out_set);
	turn_options(now, old, "set -o", out_set);
}

// Without the function of that name, which is ours.
static void leave_out(struct buf *text, const char *name)
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

void shell_hide(struct buf *text)
{
	leave_out(text, "end");
	leave_out(text, "keep");
}

// The names of functions cannot be told from their text for sure, so none can be taken away.
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

// "open files                          (-n) 1024": the value of one letter.
static struct str limit_of(struct str told, char letter)
{
	const char mark[] = {'-', letter, ')', ' ', 0};
	struct str line, value;

	while (told.len && str_cut(&told, '\n', &line)) {
		const char *at = line.len ? memmem(line.at, line.len, mark, 4) : NULL;
		uint64_t number;

		if (!at)
			continue;
		value = str_trim(str_skip(line, (size_t)(at - line.at) + 4));
		if (str_is(value, "unlimited") || str_to_u64(value, 0, UINT64_MAX, &number))
			return value;
	}
	return STR("");
}

static bool is_more(struct str a, struct str b)
{
	uint64_t first = UINT64_MAX, second = UINT64_MAX;

	str_to_u64(a, 0, UINT64_MAX, &first);
	str_to_u64(b, 0, UINT64_MAX, &second);
	return first > second;
}

static void set_limit(struct buf *out, char which, char letter, struct str value)
{
	buf_fmt(out, "\\builtin ulimit -%c%c " STR_FMT "||:;", which, letter, STR_ARG(value));
}

// The soft one first: the hard one may be lower than what the soft one is now.
static bool change_limits(const struct shell_state *from, const struct shell_state *to,
			  struct buf *out)
{
	for (const char *letter = "cdefilnqrstuvx"; *letter; letter++) {
		struct str soft = limit_of(to->soft, *letter), hard = limit_of(to->hard, *letter);
		struct str top = limit_of(from->hard, *letter);
		bool same = str_eq(hard, top);

		if (!soft.len || !hard.len || (same && str_eq(soft, limit_of(from->soft, *letter))))
			continue;
		if (top.len && is_more(hard, top))
			return false;
		set_limit(out, 'S', *letter, soft);
		if (!same)
			set_limit(out, 'H', *letter, hard);
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
	str_cut(&told, 0, &state.soft);
	state.hard = told;
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
