// Help on the terminal and the man page (roff), generated from the grammar: overview, groups,
// verbs, options, examples. Knows no verb by name.
#include <stdio.h>

#include "base/mem.h"
#include "cli/call.h"

#define WIDTH 78
#define INDENT 26 // where the explanations begin
#define EXAMPLE_INDENT 6
#define OVERVIEW_EXAMPLES 6

static bool is_shown(const struct verb *verb)
{
	return !(verb->flags & VERB_HIDDEN);
}

// Wraps `text`; the first line starts at column `at`, others at `indent`.
static void help_wrap(struct buf *out, const char *text, size_t at, size_t indent)
{
	struct str rest = str_of(text), word;
	bool first = true;

	while (str_cut(&rest, ' ', &word)) {
		if (!first && at + 1 + word.len > WIDTH) {
			buf_fmt(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			buf_char(out, ' ');
			at++;
		}
		buf_str(out, word);
		at += word.len;
		first = false;
	}
	buf_char(out, '\n');
}

// " term explanation", with the explanation below a long term.
static void help_entry(struct buf *out, const char *term, const char *text)
{
	size_t len = strlen(term) + 2;

	buf_fmt(out, "  %s", term);
	if (len + 2 > INDENT) {
		buf_char(out, '\n');
		len = 0;
	}
	buf_fmt(out, "%*s", (int)(INDENT - len), "");
	help_wrap(out, text, INDENT, INDENT);
}

static void put_heading(const struct grammar *grammar, enum verb_id verb, struct buf *out)
{
	for (const struct heading *h = grammar->headings; h && h->title; h++)
		if (h->from == verb)
			buf_fmt(out, "\n%s:\n", h->title);
}

static void verbs(const struct grammar *grammar, const char *group, struct buf *out)
{
	for (const struct verb *v = grammar->verbs; v->name; v++) {
		if (!is_shown(v) || (group && !str_starts(str_of(v->name), group)))
			continue;
		if (!group)
			put_heading(grammar, v->id, out);
		help_entry(out, v->name, v->brief);
	}
}

// "cove run -it bash" is an example of "run".
static bool is_example_of(const struct verb *verb, const char *term)
{
	auto_free char *begin = mem_fmt("cove %s", verb->name);
	const char *at = strstr(term, begin);

	return at && strchr(" ", at[strlen(begin)]);
}

// The examples of a verb; NULL: the first few of all.
static void put_examples(const struct grammar *grammar, const struct verb *verb, struct buf *out)
{
	size_t count = 0;

	for (const struct remark *r = grammar->remarks; r->section; r++) {
		if (strcmp(r->section, "EXAMPLES") != 0 ||
		    (verb && !is_example_of(verb, r->term)) ||
		    (!verb && count == OVERVIEW_EXAMPLES))
			continue;
		if (!count++)
			buf_text(out, "\nExamples:\n");
		buf_fmt(out, "  %s\n%*s", r->term, EXAMPLE_INDENT, "");
		help_wrap(out, r->text, EXAMPLE_INDENT, EXAMPLE_INDENT);
	}
}

void help_overview(const struct grammar *grammar, struct buf *out)
{
	buf_text(out, "cove runs code that you do not trust in sandboxes of your own.\n\n"
		      "Usage: cove VERB [OPTIONS] [ARGUMENTS]\n");
	verbs(grammar, NULL, out);
	put_examples(grammar, NULL, out);
	buf_text(out, "\n'cove help VERB' describes a verb, 'man cove' everything.\n"
		      "First steps: 'cove doctor', then 'cove run -- echo hello'.\n");
}

void help_group(const struct grammar *grammar, const char *group, struct buf *out)
{
	auto_free char *prefix = mem_fmt("%s ", group);

	buf_fmt(out, "Usage: cove %s VERB [OPTIONS] [ARGUMENTS]\n\nVerbs:\n", group);
	verbs(grammar, prefix, out);
}

// "-m, --memory SIZE"
static void option_term(const struct option *option, struct buf *out)
{
	if (option->letter)
		buf_fmt(out, "-%c, ", option->letter);
	else
		buf_text(out, "    ");
	buf_fmt(out, "--%s", option->name);
	if (option->arg)
		buf_fmt(out, " %s", option->arg);
}

void help_verb(const struct grammar *grammar, const struct verb *verb, struct buf *out)
{
	struct str rest = str_of(verb->story), paragraph;

	buf_fmt(out, "Usage: cove %s [OPTIONS]%s%s\n\n", verb->name, *verb->words ? " " : "",
		verb->words);
	help_wrap(out, verb->brief, 0, 0);
	while (verb->story && str_cut(&rest, '\n', &paragraph) && paragraph.len) {
		auto_free char *text = mem_dup(paragraph.at, paragraph.len);

		buf_char(out, '\n');
		help_wrap(out, text, 0, 0);
	}
	buf_text(out, "\nOptions:\n");
	for (const struct option *o = grammar->options; o->name; o++) {
		auto_buf term = BUF_INIT(128);

		if (!call_takes(verb, o))
			continue;
		option_term(o, &term);
		help_entry(out, term.at, o->help);
	}
	put_examples(grammar, verb, out);
}

// roff: a line must not begin with a dot or a quote, a backslash is an escape, and a hyphen to be
// copied is written \-.
static void roff(struct buf *out, struct str text)
{
	if (text.len && (text.at[0] == '.' || text.at[0] == '\''))
		buf_text(out, "\\&");
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] == '-')
			buf_text(out, "\\-");
		else if (text.at[i] == '\\')
			buf_text(out, "\\e");
		else
			buf_char(out, text.at[i]);
	}
}

static void roff_text(struct buf *out, const char *text)
{
	roff(out, str_of(text));
	buf_char(out, '\n');
}

static void man_options(const struct grammar *grammar, const struct verb *verb, struct buf *out)
{
	for (const struct option *o = grammar->options; o->name; o++) {
		if (!call_takes(verb, o) || o->opt == OPT_HELP)
			continue;
		buf_text(out, ".TP\n");
		if (o->letter)
			buf_fmt(out, "\\fB\\-%c\\fR, ", o->letter);
		buf_text(out, "\\fB\\-\\-");
		roff(out, str_of(o->name));
		buf_text(out, "\\fR");
		if (o->arg)
			buf_fmt(out, " \\fI%s\\fR", o->arg);
		buf_char(out, '\n');
		roff_text(out, o->help);
	}
}

static void man_verb(const struct grammar *grammar, const struct verb *verb, struct buf *out)
{
	struct str rest = str_of(verb->story), paragraph;

	buf_fmt(out, ".SS \"cove %s [OPTIONS]%s%s\"\n", verb->name, *verb->words ? " " : "",
		verb->words);
	roff_text(out, verb->brief);
	while (verb->story && str_cut(&rest, '\n', &paragraph) && paragraph.len) {
		buf_text(out, ".PP\n");
		roff(out, paragraph);
		buf_char(out, '\n');
	}
	man_options(grammar, verb, out);
}

void help_man(const struct grammar *grammar, struct buf *out)
{
	const char *section = "";

	buf_text(out, ".TH COVE 1 \"\" \"cove\" \"User Commands\"\n"
		      ".SH NAME\ncove \\- sandboxes for code that you do not trust\n"
		      ".SH SYNOPSIS\n.B cove\n.I VERB\n[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n"
		      ".SH DESCRIPTION\n");
	roff_text(
		out,
		"cove runs untrusted code in sandboxes. A sandbox has its own files, processes and "
		"limits. It is created in milliseconds and removed completely. One daemon, 'cove "
		"serve', holds the sandboxes; every other verb calls its HTTP API. 'cove run' "
		"starts a daemon for itself when none runs.");
	buf_text(out, ".SH VERBS\n");
	for (const struct verb *v = grammar->verbs; v->name; v++)
		if (is_shown(v))
			man_verb(grammar, v, out);
	for (const struct remark *r = grammar->remarks; r->section; r++) {
		if (strcmp(section, r->section) != 0)
			buf_fmt(out, ".SH %s\n", r->section);
		section = r->section;
		buf_text(out, ".TP\n.B ");
		roff_text(out, r->term);
		roff_text(out, r->text);
	}
}
