// A body with one long string, read in pieces of every size and at once: the same content, the same
// rest, the same verdict. What the strict reader takes as a whole, this one takes, with the same
// content; and what this one takes, the strict reader takes too, unless the content has a NUL.
#include "codec/json_flow.h"

#include "codec/json.h"
#include "fuzz.h"

#define REST_MAX 4096

struct result {
	struct buf content, rest;
	bool good, seen;
};

static void read_by(struct str text, size_t step, size_t room, struct result *out)
{
	auto_buf piece = BUF_INIT(room);
	struct json_flow flow;

	out->content = BUF_INIT(1 << 24);
	out->rest = BUF_INIT(REST_MAX);
	json_flow_init(&flow, "content", &out->rest);
	out->good = true;
	while (text.len > 0 && out->good) {
		struct str part = {text.at, text.len < step ? text.len : step};
		enum json_flow_verdict verdict;

		text = str_skip(text, part.len);
		do {
			verdict = json_flow(&flow, &part, &piece);
			MUST(buf_ok(&piece));
			buf_str(&out->content, buf_view(&piece));
			buf_clear(&piece);
		} while (verdict == JSON_FLOW_FULL);
		MUST((verdict == JSON_FLOW_BAD) == (flow.fault != NULL));
		MUST(verdict == JSON_FLOW_BAD || part.len == 0);
		out->good = verdict == JSON_FLOW_MORE;
	}
	out->seen = flow.seen;
}

static void compare(struct str text, const struct result *got)
{
	auto_json whole = NULL;
	auto_json rest = NULL;
	auto_err strict = json_read(text, &whole);
	auto_err loose = json_read(buf_view(&got->rest), &rest);
	struct json *content = strict ? NULL : json_get(whole, "content");
	struct str string = {0};

	if (!strict && got->rest.failed)
		return; // too much beside the content
	if (!strict) {
		MUST(got->good && !loose);
		if (json_type(whole) != JSON_OBJECT || !got->seen)
			return;
		MUST(content);
		string = json_chars(content);
		MUST(str_eq(string, buf_view(&got->content)));
	} else if (got->good && !loose) {
		MUST(got->seen);
		MUST(got->content.len && memchr(got->content.at, 0, got->content.len));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	struct result at_once, in_pieces;

	read_by(text, len ? len : 1, 1 << 16, &at_once);
	read_by(text, len ? bytes[len / 2] % 5 + 1 : 1, 8, &in_pieces);
	MUST(at_once.good == in_pieces.good && at_once.seen == in_pieces.seen);
	if (at_once.good && len) {
		MUST(str_eq(buf_view(&at_once.content), buf_view(&in_pieces.content)));
		MUST(str_eq(buf_view(&at_once.rest), buf_view(&in_pieces.rest)));
		compare(text, &at_once);
	}
	buf_done(&at_once.content);
	buf_done(&at_once.rest);
	buf_done(&in_pieces.content);
	buf_done(&in_pieces.rest);
	return 0;
}
