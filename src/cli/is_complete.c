// Guesses whether a cell is complete, by a scan over brackets, strings, comments and, for
// JavaScript, regular expressions. Wrong code counts as complete: the interpreter reports it.
#include "cli/is_complete.h"

#include <string.h>

struct scan {
	struct str text;
	size_t at;
	int depth;	// of brackets
	char quote;	// the quote that ends the current string; 0: outside
	bool triple;	// three of them end it
	bool joined;	// the last line ends with a backslash
	char last;	// the last character that is neither blank nor comment; 0: none yet
	bool has_block; // a line that ends with a colon, or a decorator
};

static char peek(const struct scan *scan, size_t ahead)
{
	size_t at = scan->at + ahead;

	return at < scan->text.len ? scan->text.at[at] : 0;
}

static bool has_three(const struct scan *scan, char c)
{
	return peek(scan, 0) == c && peek(scan, 1) == c && peek(scan, 2) == c;
}

static bool ends_blank(struct str cell, int lines)
{
	while (cell.len && lines) {
		char c = cell.at[--cell.len];

		if (c == '\n')
			lines--;
		else if (c != ' ' && c != '\t')
			return false;
	}
	return lines == 0;
}

static void skip_line(struct scan *scan)
{
	while (scan->at < scan->text.len && peek(scan, 0) != '\n')
		scan->at++;
}

static void is_complete_in_string(struct scan *scan)
{
	char c = peek(scan, 0);

	if (c == '\\') {
		scan->joined = scan->at + 1 >= scan->text.len;
		scan->at += 2;
	} else if (c == scan->quote && (!scan->triple || has_three(scan, c))) {
		scan->at += scan->triple ? 3 : 1;
		scan->quote = 0;
		scan->last = c;
	} else {
		if (c == '\n' && !scan->triple && scan->quote != '`')
			scan->quote = 0; // never closed: the interpreter will report it
		scan->at++;
	}
}

static void bracket(struct scan *scan, char c)
{
	if (strchr("([{", c))
		scan->depth++;
	else if (strchr(")]}", c) && scan->depth > 0)
		scan->depth--;
}

// One character of Python outside of strings and comments.
static void python_char(struct scan *scan, char c)
{
	if (c == '"' || c == '\'') {
		scan->quote = c;
		scan->triple = has_three(scan, c);
		scan->at += scan->triple ? 3 : 1;
		return;
	}
	if (c == '\n' && scan->last == ':' && !scan->depth)
		scan->has_block = true;
	if (c == '@' && (scan->at == 0 || scan->text.at[scan->at - 1] == '\n'))
		scan->has_block = true;
	scan->joined = c == '\\' && scan->at + 1 == scan->text.len;
	bracket(scan, c);
	if (!strchr(" \t\n\r", c))
		scan->last = c;
	scan->at++;
}

bool is_complete_python(struct str cell)
{
	struct scan scan = {.text = cell};

	while (scan.at < cell.len) {
		if (scan.quote)
			is_complete_in_string(&scan);
		else if (peek(&scan, 0) == '#')
			skip_line(&scan);
		else
			python_char(&scan, peek(&scan, 0));
	}
	if (ends_blank(cell, 2))
		return true;
	if ((scan.quote && scan.triple) || scan.depth || scan.joined)
		return false;
	if (scan.last == ':' || scan.has_block || str_starts(cell, "%%"))
		return ends_blank(cell, 1);
	return true;
}

// A slash begins a regular expression where no value precedes it.
static bool begins_regex(const struct scan *scan)
{
	return !scan->last || strchr("(,=:[!&|?{};+-*%<>~^", scan->last);
}

static void skip_regex(struct scan *scan)
{
	bool in_set = false;
	char c;

	for (scan->at++; (c = peek(scan, 0)) && c != '\n'; scan->at++) {
		if (c == '\\')
			scan->at++;
		else if (c == '[')
			in_set = true;
		else if (c == ']')
			in_set = false;
		else if (c == '/' && !in_set)
			break;
	}
	scan->at++;
	scan->last = '/';
}

// False: an unfinished comment.
static bool skip_comment(struct scan *scan)
{
	for (scan->at += 2; scan->at < scan->text.len; scan->at++) {
		if (peek(scan, 0) == '*' && peek(scan, 1) == '/') {
			scan->at += 2;
			return true;
		}
	}
	return false;
}

static void script_char(struct scan *scan, char c)
{
	if (strchr("\"'`", c)) {
		scan->quote = c;
	} else {
		bracket(scan, c);
		if (!strchr(" \t\n\r", c))
			scan->last = c;
	}
	scan->at++;
}

bool is_complete_script(struct str cell)
{
	struct scan scan = {.text = cell};
	char c;

	while (scan.at < cell.len) {
		c = peek(&scan, 0);
		if (scan.quote)
			is_complete_in_string(&scan);
		else if (c == '/' && peek(&scan, 1) == '/')
			skip_line(&scan);
		else if (c == '/' && peek(&scan, 1) == '*') {
			if (!skip_comment(&scan))
				return ends_blank(cell, 2);
		} else if (c == '/' && begins_regex(&scan))
			skip_regex(&scan);
		else
			script_char(&scan, c);
	}
	if (ends_blank(cell, 2))
		return true;
	return scan.quote != '`' && !scan.depth && !scan.joined;
}
