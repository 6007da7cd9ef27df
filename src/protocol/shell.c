// The shell is `bash --norc --noediting -i`. Its stdin is a socket, read line by line, and again at
// TALK_DIALOGUE_FD; its output pipes are at the numbers after it. The greeting moves all three
// below 64, so that a command may lower RLIMIT_NOFILE. A command is sent in two steps:
//	X='v' \eval '{ text
//	};{ __cove_r=$?;} >/dev/null 2>&1' </dev/null >&61 2>&62 60>&- 61>&- 62>&-
//	__cove_end "${__cove_r-u$?}" MARK && :
// The last line writes the end record, `status SP mark SP job SP cwd NUL`, to the socket. A
// malformed record, or a shell that cannot write one, ends the session. See the comment below for
// the reasons.
#include "protocol/shell.h"

#include "base/mem.h"
#include "protocol/talk.h"

// Because the shell is interactive, a command that is aborted (SIGINT, an unbound variable, a
// syntax error) is dropped and the line with the end record still runs: either the record comes, or
// the shell has exited. The braces make the text one command, because eval would continue with its
// next line. __cove_r stays unset after an abort: under set -u the shell then exits, like one that
// is not interactive, as clients expect. A shell that cannot write the record, because its builtins
// were disabled, exits too. bash restores the moved fds after each command.
//
// Processes of the command have neither the socket nor the pipes at these numbers. A subshell has
// the copies that bash saved of them, and may read the shell's input there, with the mark: so an
// end record counts only if the kernel says that the shell's own process wrote it (box/bash.c).
// Input that such a job reads is lost to the shell: the command then runs into its time limit.
//
// `&& :` keeps set -e and ERR traps away, and $? for the next command. Words are quoted against
// aliases; a command that redefines `builtin` or `eval` as a function deceives only itself.
//
// An interactive bash prints messages on stderr: "[1] 123" when a background job starts, "exit"
// when it exits, and a failed tcsetattr when a child dies of a signal. The filter drops them if
// they are on a line of their own.

#define PARTS_MAX 4096 // of a word, in single quotes
#define TEXT_(number) #number
#define TEXT(number) TEXT_(number)
#define SOCKET "60"
#define OUT "61"
#define ERR "62"
#define COPY_FDS                                                                                   \
	"\\exec " SOCKET ">&" TEXT(TALK_DIALOGUE_FD) " " OUT ">&" TEXT(                            \
		TALK_DIALOGUE_OUT) " " ERR ">&" TEXT(TALK_DIALOGUE_ERR)
#define CLOSE_FDS                                                                                  \
	" " TEXT(TALK_DIALOGUE_FD) ">&- " TEXT(TALK_DIALOGUE_OUT) ">&- " TEXT(                     \
		TALK_DIALOGUE_ERR) ">&-"
#define BEFORE "{ "
// Two newlines, for the text may end with a backslash.
#define BEHIND "\n\n};{ __cove_r=$?;} >/dev/null 2>&1"
#define ASIDE "</dev/null >&" OUT " 2>&" ERR " " SOCKET ">&- " OUT ">&- " ERR ">&-"

static size_t count_quotes(struct str text)
{
	size_t count = 0;

	for (size_t i = 0; i < text.len; i++)
		count += text.at[i] == '\'';
	return count;
}

// bash rescans a word at each single-quoted part of it, so a word of very many
// parts takes seconds; one double-quoted part does not.
static void quote_whole(struct buf *out, struct str text)
{
	buf_char(out, '"');
	for (size_t i = 0; i < text.len; i++) {
		if (strchr("$`\"\\", text.at[i]))
			buf_char(out, '\\');
		buf_char(out, text.at[i]);
	}
	buf_char(out, '"');
}

void shell_quote(struct buf *out, struct str text)
{
	if (text.len > PARTS_MAX && count_quotes(text) > PARTS_MAX) {
		quote_whole(out, text);
		return;
	}
	buf_char(out, '\'');
	while (text.len) {
		const char *quote = memchr(text.at, '\'', text.len);
		size_t len = quote ? (size_t)(quote - text.at) : text.len;

		buf_add(out, text.at, len);
		text = str_skip(text, len);
		if (quote) {
			buf_text(out, "'\\''");
			text = str_skip(text, 1);
		}
	}
	buf_char(out, '\'');
}

void shell_greet(struct buf *out, const char *cwd, uint64_t mark)
{
	buf_text(out, COPY_FDS CLOSE_FDS
		 ";"
		 "unset HISTFILE MAILCHECK;history -c;set +mH +o history;shopt -u checkwinsize;"
		 "PS1= PS2=;"
		 "__cove_keep(){ \\builtin unset __cove_s;\\builtin return \"$1\";};"
		 "__cove_end(){ [[ $1 = u1 && $- = *u* ]]&&\\builtin exit 1;"
		 "\\builtin set -- \"${1#u}\" \"${@:2}\";\\builtin unset __cove_r __cove_s;"
		 "if [[ ${3-} ]];then \\builtin cd -- \"$3\";OLDPWD=$__cove_o;"
		 "[[ $OLDPWD ]]||\\builtin unset OLDPWD;\\builtin unset __cove_o;"
		 "fi 2>/dev/null;"
		 "\\builtin printf '%d %s %s %s\\0' \"$1\" \"$2\" \"${!-}\" \"${PWD-}\" "
		 ">&" SOCKET "||\\exit 1;\\builtin return \"$1\";};"
		 "\\builtin readonly -f __cove_end __cove_keep;{ \\builtin cd -- ");
	shell_quote(out, str_of(cwd));
	buf_fmt(out,
		" ||\\builtin cd;\\builtin unset OLDPWD;} 2>/dev/null;"
		"__cove_end 0 %llu && :\n",
		(unsigned long long)mark);
}

void shell_greet_again(struct buf *out, const char *cwd, uint64_t mark)
{
	auto_buf greeting = BUF_INIT(SHELL_END_MAX);

	shell_greet(&greeting, cwd, mark);
	// A shell that an older daemon greeted has its fds only where pid 1 put them.
	buf_text(out, "__cove_s=$?;\\builtin declare -F __cove_end >/dev/null 2>&1&&"
		      "{ { \\builtin :; } >&" SOCKET "||" COPY_FDS ";} 2>/dev/null||\\eval ");
	shell_quote(out, buf_view(&greeting));
	buf_char(out, '\n');
}

void shell_export(struct buf *out, struct str name, const char *value)
{
	buf_text(out, value ? "\\builtin export " : "\\builtin unset ");
	buf_str(out, name);
	if (value) {
		buf_char(out, '=');
		shell_quote(out, str_of(value));
	}
	buf_text(out, " 2>/dev/null||:;");
}

void shell_offer(struct buf *out, struct str name, const char *was, const char *value)
{
	if (was) {
		buf_fmt(out, "if [[ ${" STR_FMT "+x}${" STR_FMT "-} = x", STR_ARG(name),
			STR_ARG(name));
		shell_quote(out, str_of(was));
	} else {
		buf_fmt(out, "if [[ ! ${" STR_FMT "+x}", STR_ARG(name));
	}
	buf_text(out, " ]];then ");
	shell_export(out, name, value);
	buf_text(out, "fi;");
}

// True if the text has no command: empty braces are a syntax error.
static bool is_nothing(struct str text)
{
	struct str line;

	while (str_cut(&text, '\n', &line)) {
		line = str_trim(line);
		if (line.len && line.at[0] != '#')
			return false;
	}
	return true;
}

static void say_text(struct buf *out, const struct shell_command *command)
{
	auto_buf whole = BUF_INIT(command->text.len + 128);

	if (command->aside || is_nothing(command->text)) {
		shell_quote(out, command->text);
		return;
	}
	buf_text(&whole, BEFORE);
	buf_str(&whole, command->text);
	buf_text(&whole, BEHIND);
	shell_quote(out, buf_view(&whole));
}

static void say_eval(struct buf *out, const struct shell_command *command)
{
	for (size_t i = 0; command->env && i < command->env->count; i++) {
		buf_text(out, command->env->at[i].name);
		buf_char(out, '=');
		shell_quote(out, str_of(command->env->at[i].value));
		buf_char(out, ' ');
	}
	buf_text(out, "\\eval ");
	say_text(out, command);
	buf_text(out, " " ASIDE);
}

// A relative directory is resolved in the shell's current directory alone: CDPATH and "-" have
// no effect.
static void say_cd(struct buf *out, const struct shell_command *command)
{
	auto_free char *said = mem_fmt("Failed to change directory to '%s'", command->cwd);
	auto_free char *place = mem_fmt("%s%s", command->cwd[0] == '/' ? "" : "./", command->cwd);

	buf_text(out, "__cove_o=${OLDPWD-};if \\builtin cd -- ");
	shell_quote(out, str_of(place));
	buf_text(out, " 2>/dev/null;then ");
	say_eval(out, command);
	buf_text(out, ";else \\builtin printf %s ");
	shell_quote(out, str_of(said));
	buf_text(out, " >&" ERR ";! :;fi");
}

void shell_say_changes(struct buf *out, struct str changes)
{
	buf_text(out, "__cove_s=$?;");
	buf_str(out, changes);
	buf_text(out, "__cove_keep \"$__cove_s\" && :\n");
}

void shell_say(struct buf *out, const struct shell_command *command)
{
	if (command->aside)
		buf_text(out, "__cove_s=$?;");
	if (command->cwd)
		say_cd(out, command);
	else
		say_eval(out, command);
	buf_char(out, '\n');
}

void shell_say_end(struct buf *out, bool aside, const char *back, uint64_t mark)
{
	buf_fmt(out, "__cove_end \"$%s\" %llu", aside ? "__cove_s" : "{__cove_r-u$?}",
		(unsigned long long)mark);
	if (back && back[0]) {
		buf_char(out, ' ');
		shell_quote(out, str_of(back));
	}
	buf_text(out, " && :\n");
}

enum shell_parsed shell_parse(struct str bytes, struct shell_end *out, size_t *out_used)
{
	const char *nul = bytes.len ? memchr(bytes.at, 0, bytes.len) : NULL;
	struct str rest = {bytes.at, nul ? (size_t)(nul - bytes.at) : 0}, word;
	struct shell_end end = {0};
	uint64_t number;

	if (!nul)
		return bytes.len < SHELL_END_MAX ? SHELL_MORE : SHELL_NONSENSE;
	if (!str_cut(&rest, ' ', &word) || !str_to_u64(word, 0, 255, &number))
		return SHELL_NONSENSE;
	end.status = (int)number;
	if (!str_cut(&rest, ' ', &word) || !str_to_u64(word, 0, UINT64_MAX, &end.mark))
		return SHELL_NONSENSE;
	if (!rest.at || !str_cut(&rest, ' ', &word))
		return SHELL_NONSENSE;
	if (word.len) {
		if (!str_to_u64(word, 1, UINT32_MAX, &number))
			return SHELL_NONSENSE;
		end.job = (uint32_t)number;
	}
	if (!rest.at || rest.len >= SHELL_END_MAX)
		return SHELL_NONSENSE;
	// PWD is an ordinary variable: a command may have set it to anything.
	if (rest.len && rest.at[0] == '/')
		end.cwd = rest;
	*out = end;
	*out_used = (size_t)(nul - bytes.at) + 1;
	return SHELL_END;
}

void shell_wrap(struct buf *out, struct str prelude, const struct env_map *env, const char *cwd,
		struct str command)
{
	if (!prelude.len) {
		buf_str(out, command);
		return;
	}
	// On one line, which bash has read before it may begin to echo lines (set -v).
	buf_text(out, "\\eval ");
	shell_quote(out, prelude);
	buf_text(out, " >/dev/null 2>&1;");
	for (size_t i = 0; env && i < env->count; i++)
		shell_export(out, str_of(env->at[i].name), env->at[i].value);
	if (cwd) {
		buf_text(out, "\\builtin cd -- ");
		shell_quote(out, str_of(cwd));
		buf_text(out, " >/dev/null 2>&1||:;");
	}
	buf_text(out, "\\eval ");
	shell_quote(out, command);
}

void shell_feed(struct buf *out, bool keep_stdin, struct str script)
{
	static const char *const first = "\\builtin unset -v __cove_n;\\builtin unset -f __cove_r;";
	static const char *const shut = "\\exec </dev/null;";

	buf_fmt(out, "%zu\n%s%s", strlen(first) + (keep_stdin ? 0 : strlen(shut)) + script.len,
		first, keep_stdin ? "" : shut);
	buf_str(out, script);
}

enum match { MATCH_NO, MATCH_SO_FAR, MATCH_WHOLE };

// '#' in a pattern matches a number.
static enum match remark_match(const char *pattern, const char *text, size_t len)
{
	size_t i = 0;

	for (; *pattern; pattern++) {
		size_t from = i;

		if (i == len)
			return MATCH_SO_FAR;
		if (*pattern != '#') {
			if (text[i++] != *pattern)
				return MATCH_NO;
			continue;
		}
		while (i < len && text[i] >= '0' && text[i] <= '9')
			i++;
		if (i == len)
			return MATCH_SO_FAR;
		if (i == from)
			return MATCH_NO;
	}
	return i == len ? MATCH_WHOLE : MATCH_NO;
}

#define REMARK_TTY "bash: [#: # (#)] tcsetattr: Inappropriate ioctl for device\n"
#define REMARK_JOB "[#] #\n"
#define REMARK_EXIT "exit\n"

static enum match is_remark(const struct shell_filter *filter)
{
	enum match best = remark_match(REMARK_TTY, filter->held, filter->len), next;

	next = filter->jobs ? remark_match(REMARK_JOB, filter->held, filter->len) : MATCH_NO;
	return next > best ? next : best;
}

static void filter_give(struct shell_filter *filter, const char *bytes, size_t len)
{
	if (!len)
		return;
	if (filter->newline)
		filter->give(filter->arg, "\n", 1);
	filter->newline = bytes[len - 1] == '\n';
	len -= filter->newline;
	if (len)
		filter->give(filter->arg, bytes, len);
}

static void filter_let_go(struct shell_filter *filter)
{
	size_t len = filter->len;

	filter->len = 0;
	filter->inside = len && filter->held[len - 1] != '\n';
	filter_give(filter, filter->held, len);
}

// One more byte of a line that may be a message of bash.
static void filter_hold_byte(struct shell_filter *filter, char byte)
{
	enum match is, exits = MATCH_NO;

	// "exit" was not the last line.
	if (filter->len && filter->held[filter->len - 1] == '\n')
		filter_let_go(filter);
	filter->held[filter->len++] = byte;
	is = is_remark(filter);
	if (filter->left)
		exits = remark_match(REMARK_EXIT, filter->held, filter->len);
	if (is == MATCH_WHOLE)
		filter->len = 0;
	else if ((is == MATCH_NO && exits == MATCH_NO) || filter->len == sizeof(filter->held))
		filter_let_go(filter);
}

// The byte at `at` of the shell's input.
static char told_at(struct str command, size_t at)
{
	if (at < strlen(BEFORE))
		return BEFORE[at];
	at -= strlen(BEFORE);
	return at < command.len ? command.at[at] : (BEHIND "\n")[at - command.len];
}

static void filter_show(struct shell_filter *filter, struct str bytes)
{
	struct str command = filter->command;

	filter->command = (struct str){0};
	shell_sift(filter, bytes.at, bytes.len);
	filter->command = command;
}

// Restores the text that looked like an echo of the command so far, and was not.
static void filter_unecho(struct shell_filter *filter)
{
	struct str command = filter->command, before = STR(BEFORE), behind = STR(BEHIND "\n");
	size_t left = filter->echoed;

	filter->no_echo = true;
	before.len = left < before.len ? left : before.len;
	left -= before.len;
	command.len = left < command.len ? left : command.len;
	behind.len = left - command.len;
	filter_show(filter, before);
	filter_show(filter, command);
	filter_show(filter, behind);
}

// Removes the echo from the front.
static struct str filter_echo(struct shell_filter *filter, struct str bytes)
{
	size_t whole = strlen(BEFORE BEHIND "\n") + filter->command.len;

	while (bytes.len && !filter->no_echo) {
		if (bytes.at[0] != told_at(filter->command, filter->echoed)) {
			filter_unecho(filter);
			break;
		}
		bytes = str_skip(bytes, 1);
		if (++filter->echoed == whole) {
			filter->no_echo = true;
			filter_show(filter, filter->command);
			filter_show(filter, STR("\n"));
		}
	}
	return bytes;
}

void shell_sift(struct shell_filter *filter, const char *bytes, size_t len)
{
	if (filter->command.len && filter->remarks && !filter->no_echo) {
		struct str rest = filter_echo(filter, (struct str){bytes, len});

		bytes = rest.at;
		len = rest.len;
	}
	if (!filter->remarks) {
		filter_give(filter, bytes, len);
		return;
	}
	while (len) {
		const char *end = filter->inside ? memchr(bytes, '\n', len) : NULL;
		size_t part = end ? (size_t)(end - bytes) + 1 : len;

		if (!filter->inside) {
			filter_hold_byte(filter, *bytes++);
			len--;
			continue;
		}
		filter_give(filter, bytes, part);
		filter->inside = !end;
		bytes += part;
		len -= part;
	}
}

void shell_sift_end(struct shell_filter *filter)
{
	if (filter->command.len && filter->remarks && !filter->no_echo)
		filter_unecho(filter);
	if (filter->left && remark_match(REMARK_EXIT, filter->held, filter->len) == MATCH_WHOLE)
		filter->len = 0;
	filter_let_go(filter);
	filter->newline = false;
}
