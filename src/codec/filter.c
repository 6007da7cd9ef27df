// Reads a filter anew for each row: filters are short, and nothing is kept. What is no term of a
// known field is a word that occurs in the name, id, state, template or labels. Case is that of
// ASCII. No I/O.
#include "codec/filter.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILTER_FIELD_MAX 16
#define FILTER_NUMBER_MAX 32
#define FILTER_LABEL_MAX 1024

struct filter_row {
	const struct json *json;
	double age_s;
};

struct filter_number {
	double value;
	bool is_part; // of the limit
};

static bool filter_same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

// `*` is any characters. `anywhere`: the pattern may begin and end within the text.
static bool filter_like(struct str text, struct str pattern, bool anywhere)
{
	size_t at = 0, p = 0, restart = 0, mark = 0;
	bool has_star = anywhere;

	while (at < text.len) {
		if (p == pattern.len && anywhere)
			return true;
		if (p < pattern.len && pattern.at[p] == '*') {
			has_star = true;
			restart = ++p;
			mark = at;
		} else if (p < pattern.len && filter_same(pattern.at[p], text.at[at])) {
			p++;
			at++;
		} else if (has_star) {
			p = restart;
			at = ++mark;
		} else {
			return false;
		}
	}
	while (p < pattern.len && pattern.at[p] == '*')
		p++;
	return p == pattern.len;
}

static bool filter_is_of(const char *const *words, const char *field)
{
	for (; *words; words++)
		if (!strcmp(*words, field))
			return true;
	return false;
}

static const char *const filter_texts[] = {"name",   "id",    "state",	"template",
					   "tenant", "label", "reason", NULL};
static const char *const filter_numbers[] = {"cpu",	 "memory", "disk", "pids",
					     "requests", "age",	   NULL};
static const char *const filter_words[] = {"name", "id", "state", "template", "label", NULL};

static bool filter_label_like(const struct filter_row *row, struct str pattern, bool anywhere,
			      bool also_key)
{
	const struct json *labels = json_get(row->json, "labels");
	struct json *value;
	struct str key;

	for (size_t at = 0; labels && json_next(labels, &at, &key, &value);) {
		auto_buf pair = BUF_INIT(FILTER_LABEL_MAX);

		buf_str(&pair, key);
		buf_char(&pair, '=');
		buf_str(&pair, json_chars(value));
		if (filter_like(buf_view(&pair), pattern, anywhere) ||
		    (also_key && filter_like(key, pattern, anywhere)))
			return true;
	}
	return false;
}

static bool filter_field_like(const struct filter_row *row, const char *field, struct str pattern,
			      bool is_word)
{
	bool anywhere = is_word || !strcmp(field, "id");

	if (!strcmp(field, "label"))
		return filter_label_like(row, pattern, anywhere, !is_word);
	if (filter_like(json_chars(json_get(row->json, field)), pattern, anywhere))
		return true;
	return !strcmp(field, "id") &&
	       filter_like(json_chars(json_get(row->json, "shortId")), pattern, anywhere);
}

static bool filter_word_holds(const struct filter_row *row, struct str word)
{
	for (const char *const *field = filter_words; *field; field++)
		if (filter_field_like(row, *field, word, true))
			return true;
	return false;
}

// Of seconds for an age, of bytes for the others.
static bool filter_unit(const char *field, struct str unit, double *out)
{
	static const struct {
		char word;
		double bytes, seconds;
	} units[] = {{'k', 1024.0, 0},
		     {'m', 1048576.0, 60},
		     {'g', 1073741824.0, 0},
		     {'t', 1099511627776.0, 0},
		     {'s', 0, 1},
		     {'h', 0, 3600},
		     {'d', 0, 86400}};
	bool is_age = !strcmp(field, "age");

	if (unit.len && filter_same(unit.at[unit.len - 1], 'b')) {
		unit.len--;
		if (unit.len && filter_same(unit.at[unit.len - 1], 'i'))
			unit.len--;
	}
	*out = 1;
	if (!unit.len)
		return true;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units) && unit.len == 1; i++) {
		*out = is_age ? units[i].seconds : units[i].bytes;
		if (filter_same(units[i].word, unit.at[0]) && *out > 0)
			return true;
	}
	return false;
}

static bool filter_read_number(const char *field, struct str text, struct filter_number *out)
{
	char digits[FILTER_NUMBER_MAX];
	size_t len = 0, point = 0;
	double factor;

	while (len < text.len && len < sizeof(digits) - 1 &&
	       (isdigit((unsigned char)text.at[len]) || (text.at[len] == '.' && len && !point))) {
		if (text.at[len] == '.')
			point = len;
		digits[len] = text.at[len];
		len++;
	}
	digits[len] = 0;
	if (!len || digits[len - 1] == '.')
		return false;
	out->value = strtod(digits, NULL);
	text = str_skip(text, len);
	out->is_part = str_is(text, "%");
	if (out->is_part)
		out->value /= 100;
	else if (filter_unit(field, text, &factor))
		out->value *= factor;
	else
		return false;
	return true;
}

static double filter_amount(const struct json *value)
{
	double number = NAN;

	if (json_type(value) == JSON_NUMBER)
		err_free(json_double(value, "value", -HUGE_VAL, HUGE_VAL, &number));
	return number;
}

static bool filter_number_holds(const struct filter_row *row, const char *field, struct str sign,
				const struct filter_number *wanted)
{
	double amount = strcmp(field, "age") != 0 ? filter_amount(json_get(row->json, field))
						  : row->age_s;

	if (wanted->is_part) {
		double whole = filter_amount(json_get(json_get(row->json, "limits"), field));

		amount = whole > 0 ? amount / whole : NAN;
	}
	if (isnan(amount))
		return false;
	if (sign.len == 2 && amount == wanted->value)
		return true;
	return sign.at[0] == '<' ? amount < wanted->value : amount > wanted->value;
}

static bool filter_values_hold(const struct filter_row *row, const char *field, struct str values,
			       bool is_one)
{
	struct str value;
	bool more = true;

	while (more) {
		const char *comma = is_one ? NULL : memchr(values.at, ',', values.len);

		more = comma != NULL;
		value = more ? (struct str){values.at, (size_t)(comma - values.at)} : values;
		if (filter_field_like(row, field, value, false))
			return true;
		values = more ? str_skip(values, value.len + 1) : values;
	}
	return false;
}

// `term` without its minus; `plain` is room for as many bytes.
static bool filter_term_holds(const struct filter_row *row, struct str term, char *plain)
{
	char field[FILTER_FIELD_MAX] = "";
	struct filter_number number;
	struct str sign, word = {plain, 0}, value;
	size_t len = 0;

	while (len < term.len && isalpha((unsigned char)term.at[len]) && len < sizeof(field) - 1) {
		field[len] = (char)tolower((unsigned char)term.at[len]);
		len++;
	}
	field[len] = 0;
	sign = str_skip(term, len);
	for (size_t i = 0; i < term.len; i++)
		if (term.at[i] != '"')
			plain[word.len++] = term.at[i];
	if (!len || !sign.len || !strchr(":<>", sign.at[0]))
		return filter_word_holds(row, word);
	sign.len = sign.at[0] != ':' && sign.len > 1 && sign.at[1] == '=' ? 2 : 1;
	value = str_skip(word, len + sign.len);
	if (sign.at[0] == ':' && filter_is_of(filter_texts, field))
		return filter_values_hold(row, field, value,
					  len + 1 < term.len && term.at[len + 1] == '"');
	if (sign.at[0] != ':' && filter_is_of(filter_numbers, field) &&
	    filter_read_number(field, value, &number))
		return filter_number_holds(row, field, sign, &number);
	return filter_word_holds(row, word);
}

bool filter_matches(struct str filter, const struct json *json, double age_s)
{
	const struct filter_row row = {json, age_s};
	char plain[FILTER_MAX];

	filter.len = filter.len < FILTER_MAX ? filter.len : FILTER_MAX;
	while (filter.len) {
		bool is_quoted = false, is_not;
		struct str term = {filter.at, 0};

		while (term.len < filter.len &&
		       (is_quoted || !isspace((unsigned char)filter.at[term.len])))
			is_quoted ^= filter.at[term.len++] == '"';
		filter = str_skip(filter, term.len ? term.len : 1);
		if (!term.len)
			continue;
		is_not = term.len > 1 && term.at[0] == '-';
		if (filter_term_holds(&row, is_not ? str_skip(term, 1) : term, plain) == is_not)
			return false;
	}
	return true;
}
