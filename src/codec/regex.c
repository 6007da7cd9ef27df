// Thompson's construction: the expression is compiled to a program of steps, and the text is read
// once with the set of all current steps. Jumps are relative, so a repetition is a copy.
//
// A branch leads to the next step and to `to`; a jump to `to`; a class takes one character.
#include "codec/regex.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/mem.h"

#define DEPTH_MAX 32
#define REPEAT_MAX 1000
#define RANGES_MAX 4096
#define WEIGHT_MAX 8192 // ranges that one character may be compared with
#define ENDLESS UINT32_MAX

enum op { OP_CLASS, OP_BRANCH, OP_JUMP, OP_START, OP_END, OP_EDGE, OP_NO_EDGE, OP_MATCH };

struct range {
	uint32_t low, high;
};

struct step {
	enum op op;
	int32_t to;	    // relative
	uint32_t at, count; // ranges of a class
	bool inverse;
};

struct regex {
	struct step *steps;
	uint32_t count;
	struct range *ranges;
	uint32_t range_count;
	bool ignore_case;
};

struct parse {
	struct regex *regex;
	struct str rest;
	int depth;
	uint32_t weight;
	const char *wrong; // the first fault
};

static void regex_blame(struct parse *parse, const char *what)
{
	if (!parse->wrong)
		parse->wrong = what;
	parse->rest.len = 0;
}

static uint32_t regex_emit(struct parse *parse, struct step step)
{
	struct regex *regex = parse->regex;

	parse->weight += step.count;
	if (regex->count >= REGEX_STEPS_MAX || parse->weight > WEIGHT_MAX) {
		regex_blame(parse, "it is too long with its repetitions written out");
		return 0;
	}
	regex->steps = mem_grow(regex->steps, regex->count + 1, sizeof(step));
	regex->steps[regex->count] = step;
	return regex->count++;
}

static void add_range(struct parse *parse, uint32_t low, uint32_t high)
{
	struct regex *regex = parse->regex;

	if (regex->range_count >= RANGES_MAX) {
		regex_blame(parse, "its classes are too long");
		return;
	}
	regex->ranges = mem_grow(regex->ranges, regex->range_count + 1, sizeof(struct range));
	regex->ranges[regex->range_count++] = (struct range){low, high};
}

// Reads the next character; an invalid byte gets a code above all characters.
static uint32_t regex_next(struct str *text)
{
	const uint8_t *at = (const uint8_t *)text->at;
	static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	size_t len = 1;
	uint32_t code;

	if (str_utf8(*text, &len) != STR_UTF8_GOOD) {
		code = 0x110000u + at[0];
		*text = str_skip(*text, 1);
		return code;
	}
	code = at[0] & masks[len];
	for (size_t i = 1; i < len; i++)
		code = code << 6 | (at[i] & 0x3f);
	*text = str_skip(*text, len);
	return code;
}

static bool regex_eat(struct parse *parse, char c)
{
	if (!parse->rest.len || parse->rest.at[0] != c)
		return false;
	parse->rest = str_skip(parse->rest, 1);
	return true;
}

// \d \w \s: their ranges. The opposites are the gaps.
static bool add_named(struct parse *parse, char name)
{
	static const struct {
		char name;
		struct range ranges[4];
	} classes[] = {
		{'d', {{'0', '9'}}},
		{'w', {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
		{'s', {{'\t', '\r'}, {' ', ' '}, {0xa0, 0xa0}, {0x2028, 0x2029}}},
	};
	uint32_t from = 0;

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		if (tolower((unsigned char)name) != classes[i].name)
			continue;
		for (size_t j = 0; j < 4 && classes[i].ranges[j].high; j++) {
			struct range range = classes[i].ranges[j];

			if (islower((unsigned char)name))
				add_range(parse, range.low, range.high);
			else
				add_range(parse, from, range.low - 1);
			from = range.high + 1;
		}
		if (isupper((unsigned char)name))
			add_range(parse, from, UINT32_MAX);
		return true;
	}
	return false;
}

// After a backslash: an escaped character. Named classes were checked before.
static uint32_t regex_escaped(struct parse *parse)
{
	static const char names[] = "tnrfv0", codes[] = "\t\n\r\f\v\0";
	uint32_t code;
	const char *at;

	if (!parse->rest.len) {
		regex_blame(parse, "it ends with a backslash");
		return 0;
	}
	code = regex_next(&parse->rest);
	at = code && code < 128 ? strchr(names, (int)code) : NULL;
	if (at)
		return (uint8_t)codes[at - names];
	if (code < 128 && isalnum((int)code))
		regex_blame(parse, "it has an escape that is not known");
	return code;
}

static void parse_bracket(struct parse *parse, struct step *step)
{
	bool first = true;

	step->inverse = regex_eat(parse, '^');
	while (!parse->wrong && (first || !regex_eat(parse, ']'))) {
		uint32_t low, high;

		first = false;
		if (!parse->rest.len) {
			regex_blame(parse, "a class has no end");
			return;
		}
		if (parse->rest.len > 1 && parse->rest.at[0] == '\\' &&
		    add_named(parse, parse->rest.at[1])) {
			parse->rest = str_skip(parse->rest, 2);
			continue;
		}
		low = regex_eat(parse, '\\') ? regex_escaped(parse) : regex_next(&parse->rest);
		high = low;
		if (parse->rest.len > 1 && parse->rest.at[0] == '-' && parse->rest.at[1] != ']') {
			parse->rest = str_skip(parse->rest, 1);
			high = regex_eat(parse, '\\') ? regex_escaped(parse)
						      : regex_next(&parse->rest);
		}
		if (high < low)
			regex_blame(parse, "a range runs backwards");
		add_range(parse, low, high);
	}
}

static void parse_either(struct parse *parse);

static void parse_group(struct parse *parse)
{
	if (regex_eat(parse, '?') && !regex_eat(parse, ':')) {
		regex_blame(parse, "it has a group of a sort that is not known");
		return;
	}
	if (++parse->depth > DEPTH_MAX) {
		regex_blame(parse, "its groups are too deep");
		return;
	}
	parse_either(parse);
	parse->depth--;
	if (!regex_eat(parse, ')'))
		regex_blame(parse, "a group has no end");
}

static void parse_escape(struct parse *parse, struct step *step)
{
	char c = parse->rest.len ? parse->rest.at[0] : 0;

	if (c == 'b' || c == 'B') {
		parse->rest = str_skip(parse->rest, 1);
		step->op = c == 'b' ? OP_EDGE : OP_NO_EDGE;
	} else if (c && add_named(parse, c)) {
		parse->rest = str_skip(parse->rest, 1);
	} else {
		uint32_t code = regex_escaped(parse);

		add_range(parse, code, code);
	}
}

static void parse_atom(struct parse *parse)
{
	struct step step = {.op = OP_CLASS, .at = parse->regex->range_count};

	if (regex_eat(parse, '(')) {
		parse_group(parse);
		return;
	}
	if (regex_eat(parse, '^')) {
		step.op = OP_START;
	} else if (regex_eat(parse, '$')) {
		step.op = OP_END;
	} else if (regex_eat(parse, '.')) {
		step.inverse = true;
		add_range(parse, '\n', '\n');
	} else if (regex_eat(parse, '[')) {
		parse_bracket(parse, &step);
	} else if (regex_eat(parse, '\\')) {
		parse_escape(parse, &step);
	} else if (memchr("*+?", parse->rest.at[0], 3)) {
		regex_blame(parse, "there is nothing to repeat");
	} else {
		uint32_t code = regex_next(&parse->rest);

		add_range(parse, code, code);
	}
	step.count = parse->regex->range_count - step.at;
	regex_emit(parse, step);
}

static bool regex_read_number(struct parse *parse, uint32_t *out)
{
	struct str digits = parse->rest;
	uint64_t value;

	digits.len = 0;
	while (digits.len < parse->rest.len && isdigit((unsigned char)digits.at[digits.len]))
		digits.len++;
	if (!str_to_u64(digits, 0, REPEAT_MAX, &value))
		return false;
	parse->rest = str_skip(parse->rest, digits.len);
	*out = (uint32_t)value;
	return true;
}

// {n}, {n,} and {n,m}; a brace that begins none of them is literal, and nothing is consumed.
static bool read_braces(struct parse *parse, uint32_t *least, uint32_t *most)
{
	struct str before = parse->rest;

	if (!regex_eat(parse, '{'))
		return false;
	if (regex_read_number(parse, least)) {
		*most = *least;
		if (regex_eat(parse, ',') && !regex_read_number(parse, most))
			*most = ENDLESS;
		if (regex_eat(parse, '}') && *least <= *most)
			return true;
	}
	parse->rest = before;
	return false;
}

// Repeats the atom that was emitted from `from` on.
static void regex_repeat(struct parse *parse, uint32_t from, uint32_t least, uint32_t most)
{
	struct regex *regex = parse->regex;
	uint32_t len = regex->count - from;
	auto_free struct step *atom = mem_grow(NULL, len ? len : 1, sizeof(*atom));

	if (len)
		memcpy(atom, regex->steps + from, len * sizeof(*atom));
	regex->count = from;
	for (uint32_t i = 0; i < least && !parse->wrong; i++)
		for (uint32_t j = 0; j < len; j++)
			regex_emit(parse, atom[j]);
	if (most == ENDLESS) {
		regex_emit(parse, (struct step){.op = OP_BRANCH, .to = (int32_t)len + 2});
		for (uint32_t j = 0; j < len; j++)
			regex_emit(parse, atom[j]);
		regex_emit(parse, (struct step){.op = OP_JUMP, .to = -(int32_t)len - 1});
		return;
	}
	for (uint32_t i = least; i < most && !parse->wrong; i++) {
		regex_emit(parse, (struct step){.op = OP_BRANCH, .to = (int32_t)len + 1});
		for (uint32_t j = 0; j < len; j++)
			regex_emit(parse, atom[j]);
	}
}

static void parse_piece(struct parse *parse)
{
	uint32_t from = parse->regex->count, least = 1, most = 1;

	parse_atom(parse);
	if (parse->wrong)
		return;
	if (regex_eat(parse, '*')) {
		least = 0;
		most = ENDLESS;
	} else if (regex_eat(parse, '+')) {
		most = ENDLESS;
	} else if (regex_eat(parse, '?')) {
		least = 0;
	} else if (!read_braces(parse, &least, &most)) {
		return;
	}
	regex_eat(parse, '?'); // non-greedy: makes no difference to whether it matches
	regex_repeat(parse, from, least, most);
}

static bool at_end(const struct parse *parse)
{
	return !parse->rest.len || parse->rest.at[0] == '|' || parse->rest.at[0] == ')';
}

static void parse_row(struct parse *parse)
{
	while (!parse->wrong && !at_end(parse))
		parse_piece(parse);
}

// a|b: branch to b, a, jump past b.
static void parse_either(struct parse *parse)
{
	struct regex *regex = parse->regex;
	uint32_t from = regex->count;

	parse_row(parse);
	while (!parse->wrong && regex_eat(parse, '|')) {
		uint32_t len = regex->count - from, jump;

		regex_emit(parse, (struct step){.op = OP_MATCH});
		regex_emit(parse, (struct step){.op = OP_MATCH});
		if (parse->wrong)
			return;
		memmove(regex->steps + from + 1, regex->steps + from, len * sizeof(struct step));
		regex->steps[from] = (struct step){.op = OP_BRANCH, .to = (int32_t)len + 2};
		jump = from + len + 1;
		parse_row(parse);
		regex->steps[jump] = (struct step){.op = OP_JUMP,
						   .to = (int32_t)(regex->count - jump)};
	}
}

fallible regex_compile(struct str text, bool ignore_case, struct regex **out)
{
	auto_regex regex = mem_new_of(struct regex);
	struct parse parse = {.regex = regex, .rest = text};

	regex->ignore_case = ignore_case;
	if (text.len > REGEX_TEXT_MAX)
		regex_blame(&parse, "it is too long");
	parse_either(&parse);
	if (!parse.wrong && parse.rest.len)
		regex_blame(&parse, "a group ends that was not begun");
	regex_emit(&parse, (struct step){.op = OP_MATCH});
	if (parse.wrong)
		return err_new(INVALID, "bad_pattern", "the regular expression is invalid: %s",
			       parse.wrong);
	*out = take_ptr(regex);
	return OK;
}

void regex_free(struct regex *regex)
{
	if (!regex)
		return;
	free(regex->steps);
	free(regex->ranges);
	free(regex);
}

// The set of current steps, each once.
struct crowd {
	uint32_t *steps;
	uint32_t count;
};

struct run {
	const struct regex *regex;
	uint32_t *stack;
	uint32_t *seen; // the position at which a step was last added
	uint32_t turn;
	bool at_start, at_end, at_edge;
	bool matched;
};

static void add_step(struct run *run, struct crowd *crowd, uint32_t first)
{
	uint32_t depth = 0;

	run->stack[depth++] = first;
	while (depth) {
		uint32_t at = run->stack[--depth];
		const struct step *step = &run->regex->steps[at];

		if (run->seen[at] == run->turn)
			continue;
		run->seen[at] = run->turn;
		switch (step->op) {
		case OP_BRANCH:
			run->stack[depth++] = at + (uint32_t)step->to;
			run->stack[depth++] = at + 1;
			break;
		case OP_JUMP:
			run->stack[depth++] = at + (uint32_t)step->to;
			break;
		case OP_START:
		case OP_END:
		case OP_EDGE:
		case OP_NO_EDGE:
			if (step->op == OP_START  ? run->at_start
			    : step->op == OP_END  ? run->at_end
			    : step->op == OP_EDGE ? run->at_edge
						  : !run->at_edge)
				run->stack[depth++] = at + 1;
			break;
		case OP_MATCH:
			run->matched = true;
			break;
		case OP_CLASS:
			crowd->steps[crowd->count++] = at;
			break;
		}
	}
}

static bool regex_is_listed(const struct regex *regex, const struct step *step, uint32_t code)
{
	for (uint32_t i = 0; i < step->count; i++) {
		const struct range *range = &regex->ranges[step->at + i];

		if (code >= range->low && code <= range->high)
			return true;
	}
	return false;
}

static bool regex_takes(const struct regex *regex, const struct step *step, uint32_t code)
{
	bool listed = regex_is_listed(regex, step, code);

	if (!listed && regex->ignore_case && code < 128 && isalpha((int)code))
		listed = regex_is_listed(regex, step, code ^ 0x20);
	return listed != step->inverse;
}

static bool is_word(uint32_t code)
{
	return code < 128 && (isalnum((int)code) || code == '_');
}

static void regex_settle(struct run *run, bool was_word, struct str rest)
{
	bool is_next = rest.len && is_word((unsigned char)rest.at[0]);

	run->at_end = rest.len == 0;
	run->at_edge = was_word != is_next;
	run->turn++;
}

bool regex_test(const struct regex *regex, struct str text)
{
	size_t count = regex->count;
	// A walk over the steps pushes at most two entries for each.
	auto_free uint32_t *room = mem_new((5 * count + 2) * sizeof(uint32_t));
	struct run run = {.regex = regex, .seen = room, .stack = room + 3 * count};
	struct crowd now = {.steps = room + count}, then = {.steps = room + 2 * count};

	run.at_start = true;
	regex_settle(&run, false, text);
	add_step(&run, &now, 0);
	while (!run.matched && text.len) {
		uint32_t code = regex_next(&text);
		struct crowd swap = now;

		run.at_start = false;
		regex_settle(&run, is_word(code), text);
		then.count = 0;
		for (uint32_t i = 0; i < now.count; i++)
			if (regex_takes(regex, &regex->steps[now.steps[i]], code))
				add_step(&run, &then, now.steps[i] + 1);
		add_step(&run, &then, 0); // a match may begin anywhere
		now = then;
		then = swap;
	}
	return run.matched;
}
