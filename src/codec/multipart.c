// The delimiter has one CR, at its start. So a match that breaks cannot have begun within the bytes
// held back, and these are content, followed by the byte that broke it. The first delimiter needs
// no CRLF before it.
#include "codec/multipart.h"

static struct str cut_word(struct str *rest)
{
	struct str word;

	str_cut(rest, ';', &word);
	return str_trim(word);
}

// The value of NAME=value or NAME="value" in a list that semicolons separate. Only the last value
// may have a semicolon inside of its quotes, as file names do: callers ask for those before.
static bool multipart_parameter(struct str list, const char *name, struct str *out)
{
	while (list.at) {
		struct str value = cut_word(&list), key;

		str_cut(&value, '=', &key);
		if (!value.at || !str_eq_nocase(str_trim(key), str_of(name)))
			continue;
		value = str_trim(value);
		if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"')
			value = (struct str){value.at + 1, value.len - 2};
		*out = value;
		return true;
	}
	return false;
}

bool multipart_open(struct multipart *multipart, struct str content_type)
{
	struct str boundary = {0};

	if (!str_eq_nocase(cut_word(&content_type), STR("multipart/form-data")) ||
	    !multipart_parameter(content_type, "boundary", &boundary) || !boundary.len ||
	    boundary.len > MULTIPART_BOUNDARY_MAX)
		return false;
	for (size_t i = 0; i < boundary.len; i++)
		if (boundary.at[i] <= ' ' || boundary.at[i] == 127)
			return false;
	memcpy(multipart->delimiter, "\r\n--", 4);
	memcpy(multipart->delimiter + 4, boundary.at, boundary.len);
	multipart->len = boundary.len + 4;
	multipart->matched = 2;
	multipart->head = BUF_INIT(MULTIPART_HEAD_MAX);
	return true;
}

void multipart_done(struct multipart *multipart)
{
	buf_done(&multipart->head);
}

// The name in "Content-Disposition: form-data; name=…".
static bool multipart_name(struct str head, struct str *out)
{
	struct str line;

	while (head.len && str_cut(&head, '\n', &line)) {
		struct str key;

		if (line.len && line.at[line.len - 1] == '\r')
			line.len--;
		str_cut(&line, ':', &key);
		if (!line.at || !str_eq_nocase(key, STR("Content-Disposition")))
			continue;
		return str_eq_nocase(cut_word(&line), STR("form-data")) &&
		       multipart_parameter(line, "name", out);
	}
	return false;
}

static enum multipart_step multipart_read_head(struct multipart *multipart, struct str *in,
					       struct str *out)
{
	struct buf *head = &multipart->head;

	while (in->len) {
		buf_char(head, in->at[0]);
		*in = str_skip(*in, 1);
		if (!buf_ok(head))
			return MULTIPART_BAD;
		if (head->len == 2 && !memcmp(head->at, "--", 2)) {
			multipart->place = MULTIPART_AFTER;
			return MULTIPART_END;
		}
		if (head->len < 4 || memcmp(head->at + head->len - 4, "\r\n\r\n", 4) != 0)
			continue;
		multipart->place = MULTIPART_INSIDE;
		if (memcmp(head->at, "\r\n", 2) != 0 || !multipart_name(buf_view(head), out))
			return MULTIPART_BAD;
		// The empty line is the CRLF of a delimiter that follows at once.
		multipart->matched = 2;
		multipart->begun = true;
		return MULTIPART_PART;
	}
	return MULTIPART_MORE;
}

// The bytes held back proved to be content.
static struct str multipart_give_back(struct multipart *multipart)
{
	size_t skip = multipart->begun ? 2 : 0; // the empty line was of the head
	struct str held = {multipart->delimiter + skip,
			   multipart->matched > skip ? multipart->matched - skip : 0};

	multipart->matched = 0;
	multipart->begun = false;
	return held;
}

static enum multipart_step multipart_found(struct multipart *multipart)
{
	bool ends = multipart->place == MULTIPART_INSIDE;

	multipart->place = MULTIPART_HEAD;
	multipart->matched = 0;
	multipart->begun = false;
	buf_clear(&multipart->head);
	return ends ? MULTIPART_PART_END : MULTIPART_MORE;
}

enum multipart_step multipart_read(struct multipart *multipart, struct str *in, struct str *out)
{
	while (in->len) {
		const char *at;

		if (multipart->place == MULTIPART_AFTER)
			return MULTIPART_BAD;
		if (multipart->place == MULTIPART_HEAD)
			return multipart_read_head(multipart, in, out);
		if (in->at[0] == multipart->delimiter[multipart->matched]) {
			*in = str_skip(*in, 1);
			if (++multipart->matched < multipart->len)
				continue;
			if (multipart_found(multipart) == MULTIPART_PART_END)
				return MULTIPART_PART_END;
			continue;
		}
		if (multipart->matched) {
			*out = multipart_give_back(multipart);
			if (out->len && multipart->place == MULTIPART_INSIDE)
				return MULTIPART_DATA;
			continue;
		}
		at = memchr(in->at, '\r', in->len);
		*out = (struct str){in->at, at ? (size_t)(at - in->at) : in->len};
		*in = str_skip(*in, out->len);
		if (out->len && multipart->place == MULTIPART_INSIDE)
			return MULTIPART_DATA;
	}
	return MULTIPART_MORE;
}
