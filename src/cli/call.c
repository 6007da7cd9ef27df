// Parses a command line. Options are `--name value`, `--name=value`, `-n value`, `-nvalue`; flags
// may be bundled (`-qi`). Options may stand anywhere, except for verbs that run a command: there
// the first word ends them. `--` always ends them.
#include "cli/call.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"

#define NEAR_ENOUGH 2 // wrong letters in a word that is still suggested

size_t call_distance(const char *a, const char *b)
{
	size_t row[32];
	size_t wide = strlen(b);

	if (wide >= 32 || strlen(a) >= 32)
		return 32;
	for (size_t j = 0; j <= wide; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= wide; j++) {
			size_t best = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			best = best < row[j] + 1 ? best : row[j] + 1;
			row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
		}
	}
	return row[wide];
}

// Sets *best to `candidate` if it is the nearest to `word` so far.
static void nearer(const char *word, const char *candidate, size_t *distance, const char **best)
{
	size_t d = call_distance(word, candidate);

	if (d < *distance && d < strlen(candidate)) {
		*distance = d;
		*best = candidate;
	}
}

static bool first_word_is(const char *name, const char *word)
{
	size_t len = strcspn(name, " ");

	return strlen(word) == len && strncmp(name, word, len) == 0;
}

static const struct verb *verb_of_alias(const struct grammar *grammar, const char *word)
{
	for (const struct alias *a = grammar->aliases; a && a->word; a++)
		for (const struct verb *v = grammar->verbs; strcmp(a->word, word) == 0 && v->name;
		     v++)
			if (strcmp(v->name, a->verb) == 0)
				return v;
	return NULL;
}

const struct verb *call_verb(const struct grammar *grammar, int argc, char **argv, int *out_used)
{
	if (argc == 0)
		return NULL;
	for (const struct verb *v = grammar->verbs; v->name; v++) {
		const char *blank = strchr(v->name, ' ');

		if (!first_word_is(v->name, argv[0]))
			continue;
		if (blank && (argc < 2 || strcmp(blank + 1, argv[1]) != 0))
			continue;
		*out_used = blank ? 2 : 1;
		return v;
	}
	*out_used = 1;
	return verb_of_alias(grammar, argv[0]);
}

static fallible unknown_verb(const struct grammar *grammar, int argc, char **argv)
{
	const char *best = NULL;
	size_t distance = NEAR_ENOUGH + 1;
	auto_buf group = BUF_INIT(512);

	for (const struct verb *v = grammar->verbs; v->name; v++) {
		const char *blank = strchr(v->name, ' ');

		if (blank && first_word_is(v->name, argv[0])) {
			buf_fmt(&group, "%s'cove %s'", group.len ? ", " : "", v->name);
			if (argc > 1 && argv[1][0] != '-')
				nearer(argv[1], blank + 1, &distance, &best);
		} else if (!(v->flags & VERB_HIDDEN) && !blank) {
			nearer(argv[0], v->name, &distance, &best);
		}
	}
	if (group.len)
		return err_hint(err_new(INVALID, "unknown_verb", "'cove %s' has no verb '%s'",
					argv[0], argc > 1 ? argv[1] : ""),
				"there are %s", group.at);
	if (best)
		return err_hint(err_new(INVALID, "unknown_verb", "there is no verb '%s'", argv[0]),
				"did you mean 'cove %s'?", best);
	return err_hint(err_new(INVALID, "unknown_verb", "there is no verb '%s'", argv[0]),
			"'cove help' lists the verbs");
}

bool call_takes(const struct verb *verb, const struct option *option)
{
	return (option->verbs & ON_ID(verb->id)) != 0;
}

// By letter when `name` is NULL.
static const struct option *call_find(const struct call *call, char letter, struct str name)
{
	for (const struct option *o = call->grammar->options; o->name; o++)
		if (call_takes(call->verb, o) &&
		    (name.at ? str_is(name, o->name) : o->letter == letter))
			return o;
	return NULL;
}

static fallible unknown_option(const struct call *call, const char *as_given, struct str name)
{
	const char *best = NULL;
	size_t distance = NEAR_ENOUGH + 1;
	auto_free char *word = mem_dup(name.at ? name.at : "", name.len);
	size_t given = strcspn(as_given, "=");

	for (const struct stranger *s = call->grammar->strangers; s && s->option; s++)
		if (strlen(s->option) == given && strncmp(s->option, as_given, given) == 0)
			return err_hint(err_new(INVALID, "unknown_option",
						"'cove %s' has no option '%s'", call->verb->name,
						s->option),
					"%s", s->hint);
	for (const struct option *o = call->grammar->options; o->name; o++)
		if (call_takes(call->verb, o))
			nearer(word, o->name, &distance, &best);
	if (best && name.len)
		return err_hint(err_new(INVALID, "unknown_option", "'cove %s' has no option '%s'",
					call->verb->name, as_given),
				"did you mean '--%s'?", best);
	return err_hint(err_new(INVALID, "unknown_option", "'cove %s' has no option '%s'",
				call->verb->name, as_given),
			"'cove help %s' lists them%s", call->verb->name,
			call->verb->flags & VERB_STOPS
				? "; the command's own options come after its name"
				: "");
}

static void note(struct call *call, enum opt opt, const char *value)
{
	call->given = mem_grow(call->given, call->given_count + 1, sizeof(*call->given));
	call->given[call->given_count++] = (struct given){opt, value};
}

static fallible no_value(const struct option *option)
{
	return err_hint(err_new(INVALID, "no_value", "option --%s needs a value", option->name),
			"--%s %s: %s", option->name, option->arg, option->help);
}

// "--name", "--name=value" or "--name" with its value in *next.
static fallible read_long(struct call *call, const char *word, char **next, int *used)
{
	const char *equals = strchr(word, '=');
	struct str name = {word + 2, equals ? (size_t)(equals - word - 2) : strlen(word) - 2};
	const struct option *option = call_find(call, 0, name);

	if (!option)
		return unknown_option(call, word, name);
	if (!option->arg) {
		if (equals)
			return err_new(INVALID, "needless_value", "option --%s takes no value",
				       option->name);
		note(call, option->opt, NULL);
		return OK;
	}
	if (!equals && !*next)
		return no_value(option);
	note(call, option->opt, equals ? equals + 1 : *next);
	*used += !equals;
	return OK;
}

// "-qi", "-m512m", or "-m" with its value in *next.
static fallible read_short(struct call *call, const char *word, char **next, int *used)
{
	for (const char *at = word + 1; *at; at++) {
		const struct option *option = call_find(call, *at, (struct str){0});

		if (!option) {
			const char shown[] = {'-', *at, 0};

			return unknown_option(call, shown, (struct str){0});
		}
		if (!option->arg) {
			note(call, option->opt, NULL);
			continue;
		}
		if (at[1]) {
			note(call, option->opt, at[1] == '=' ? at + 2 : at + 1);
		} else if (*next) {
			note(call, option->opt, *next);
			*used += 1;
		} else {
			return no_value(option);
		}
		return OK;
	}
	return OK;
}

static fallible count_words(const struct call *call)
{
	const struct verb *verb = call->verb;

	if (call_has(call, OPT_HELP))
		return OK;
	if (call->word_count < verb->min)
		return err_hint(err_new(INVALID, "bad_words", "'cove %s' needs %s", verb->name,
					verb->words),
				"'cove help %s' shows how", verb->name);
	if (verb->max >= 0 && call->word_count > verb->max)
		return err_hint(err_new(INVALID, "bad_words",
					"'%s' is one word too many for 'cove %s'",
					call->words[verb->max], verb->name),
				"usage: cove %s [OPTIONS] %s", verb->name, verb->words);
	return OK;
}

fallible call_read(struct call *call, const struct grammar *grammar, int argc, char **argv)
{
	int used = 0;

	*call = (struct call){.grammar = grammar};
	if (argc == 0)
		return OK;
	call->verb = call_verb(grammar, argc, argv, &used);
	if (!call->verb)
		return unknown_verb(grammar, argc, argv);
	call->words = mem_new(sizeof(char *) * (size_t)(argc + 1));
	for (int i = used; i < argc; i++) {
		char *word = argv[i];
		int taken = 0;

		if (strcmp(word, "--") == 0) {
			for (i++; i < argc; i++)
				call->words[call->word_count++] = argv[i];
		} else if (word[0] == '-' && word[1] == '-') {
			TRY(read_long(call, word, &argv[i + 1], &taken));
		} else if (word[0] == '-' && word[1]) {
			TRY(read_short(call, word, &argv[i + 1], &taken));
		} else if (call->verb->flags & VERB_STOPS) {
			for (; i < argc; i++)
				call->words[call->word_count++] = argv[i];
		} else {
			call->words[call->word_count++] = word;
		}
		i += taken;
	}
	return count_words(call);
}

void call_done(struct call *call)
{
	free(call->given);
	free(call->words);
	call->given = NULL;
	call->words = NULL;
}

bool call_has(const struct call *call, enum opt opt)
{
	for (size_t i = 0; i < call->given_count; i++)
		if (call->given[i].opt == opt)
			return true;
	return false;
}

const char *call_value(const struct call *call, enum opt opt)
{
	for (size_t i = call->given_count; i-- > 0;)
		if (call->given[i].opt == opt)
			return call->given[i].value;
	return NULL;
}

bool call_next(const struct call *call, enum opt opt, size_t *at, const char **out)
{
	while (*at < call->given_count) {
		const struct given *given = &call->given[(*at)++];

		if (given->opt == opt) {
			*out = given->value;
			return true;
		}
	}
	return false;
}
