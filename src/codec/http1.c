// One pass over the bytes from the front, repeated whenever the caller has more: an error is found
// as soon as it arrives, and valid parts are sliced in place. A malformed head is refused rather
// than repaired, because a proxy in front that repairs it differently would see other requests than
// we do (RFC 9112, section 11.2).
#include "codec/http1.h"

#define CHUNK_LINE_MAX 1024
#define TRAILERS_MAX (8 * 1024)
#define METHOD_MAX 32

enum { TOKEN = 1, TARGET = 2, VALUE = 4, HOST = 8, HEX = 16 };

// Character classes. A value may contain a tab, and bytes of obsolete charsets.
static const uint8_t classes[256] = {
	['\t'] = VALUE,
	[' '] = VALUE,
	[0x80 ... 0xff] = VALUE,
	['!'] = TOKEN | TARGET | VALUE,
	['"'] = TARGET | VALUE,
	['#' ... '\''] = TOKEN | TARGET | VALUE,
	['(' ... ')'] = TARGET | VALUE,
	['*' ... '+'] = TOKEN | TARGET | VALUE,
	[','] = TARGET | VALUE,
	['-' ... '.'] = TOKEN | TARGET | VALUE | HOST,
	['/'] = TARGET | VALUE,
	['0' ... '9'] = TOKEN | TARGET | VALUE | HOST | HEX,
	[':'] = TARGET | VALUE | HOST,
	[';' ... '@'] = TARGET | VALUE,
	['A' ... 'F'] = TOKEN | TARGET | VALUE | HOST | HEX,
	['G' ... 'Z'] = TOKEN | TARGET | VALUE | HOST,
	['['] = TARGET | VALUE | HOST,
	['\\'] = TARGET | VALUE,
	[']'] = TARGET | VALUE | HOST,
	['^'] = TOKEN | TARGET | VALUE,
	['_'] = TOKEN | TARGET | VALUE | HOST,
	['`'] = TOKEN | TARGET | VALUE,
	['a' ... 'f'] = TOKEN | TARGET | VALUE | HOST | HEX,
	['g' ... 'z'] = TOKEN | TARGET | VALUE | HOST,
	['{'] = TARGET | VALUE,
	['|'] = TOKEN | TARGET | VALUE,
	['}'] = TARGET | VALUE,
	['~'] = TOKEN | TARGET | VALUE,
};

static bool is_class(char c, int class)
{
	return classes[(uint8_t)c] & class;
}

struct scan {
	const char *at, *end;
	struct http1_head *head;
	bool has_host, has_te;
};

static enum http1_verdict http1_bad(struct scan *scan, const char *fault)
{
	scan->head->fault = fault;
	return HTTP1_BAD;
}

// The run of bytes of one class from the current position.
static struct str http1_run(struct scan *scan, int class)
{
	const char *start = scan->at;

	while (scan->at < scan->end && is_class(*scan->at, class))
		scan->at++;
	return (struct str){start, (size_t)(scan->at - start)};
}

// Expects exactly this text, or as much of it as has arrived.
static enum http1_verdict http1_expect(struct scan *scan, struct str text, const char *fault)
{
	size_t left = (size_t)(scan->end - scan->at);
	size_t len = left < text.len ? left : text.len;

	if (memcmp(scan->at, text.at, len) != 0)
		return http1_bad(scan, fault);
	scan->at += len;
	return len == text.len ? HTTP1_DONE : HTTP1_MORE;
}

static enum http1_verdict http1_version(struct scan *scan)
{
	enum http1_verdict verdict = http1_expect(scan, STR("HTTP/1."),
						  "the version is not HTTP/1.0 or HTTP/1.1");

	if (verdict != HTTP1_DONE)
		return verdict;
	if (scan->at == scan->end)
		return HTTP1_MORE;
	if (*scan->at != '0' && *scan->at != '1')
		return http1_bad(scan, "the version is not HTTP/1.0 or HTTP/1.1");
	scan->head->minor = *scan->at++ - '0';
	return HTTP1_DONE;
}

static enum http1_verdict request_line(struct scan *scan)
{
	struct http1_head *head = scan->head;
	enum http1_verdict verdict;

	head->method = http1_run(scan, TOKEN);
	if (head->method.len > METHOD_MAX)
		return http1_bad(scan, "the method is too long");
	if (scan->at == scan->end)
		return HTTP1_MORE;
	if (head->method.len == 0 || *scan->at++ != ' ')
		return http1_bad(scan, "the request line does not start with a method and a space");
	head->target = http1_run(scan, TARGET);
	if (scan->at == scan->end)
		return HTTP1_MORE;
	if (head->target.len == 0 || *scan->at++ != ' ')
		return http1_bad(scan,
				 "the request target is not printable ASCII ended by a space");
	verdict = http1_version(scan);
	if (verdict != HTTP1_DONE)
		return verdict;
	return http1_expect(scan, STR("\r\n"), "the request line does not end in CR LF");
}

static enum http1_verdict status_line(struct scan *scan)
{
	enum http1_verdict verdict = http1_version(scan);
	int digits = 0;

	if (verdict != HTTP1_DONE)
		return verdict;
	verdict = http1_expect(scan, STR(" "), "no space behind the version");
	if (verdict != HTTP1_DONE)
		return verdict;
	scan->head->status = 0;
	for (; digits < 3 && scan->at < scan->end; digits++, scan->at++) {
		if (*scan->at < '0' || *scan->at > '9')
			return http1_bad(scan, "the status is not three digits");
		scan->head->status = scan->head->status * 10 + (*scan->at - '0');
	}
	if (digits < 3)
		return HTTP1_MORE;
	if (scan->head->status < 100 || scan->head->status > 599)
		return http1_bad(scan, "the status is not between 100 and 599");
	verdict = http1_expect(scan, STR(" "), "no space behind the status");
	if (verdict != HTTP1_DONE)
		return verdict;
	http1_run(scan, VALUE);
	return http1_expect(scan, STR("\r\n"), "the status line does not end in CR LF");
}

static void connection_tokens(struct http1_head *head, struct str value, bool *close, bool *keep)
{
	struct str token;

	while (str_cut(&value, ',', &token)) {
		token = str_trim(token);
		if (str_eq_nocase(token, STR("close")))
			*close = true;
		else if (str_eq_nocase(token, STR("keep-alive")))
			*keep = true;
		else if (str_eq_nocase(token, STR("upgrade")))
			head->upgrade = true;
	}
}

static bool http1_is_host(struct str value)
{
	for (size_t i = 0; i < value.len; i++)
		if (!is_class(value.at[i], HOST))
			return false;
	return value.len > 0;
}

// Content_Length and similar: servers that pass fields as environment variables confuse them with
// the real field.
static bool is_like(struct str name, struct str of)
{
	if (name.len != of.len || !memchr(name.at, '_', name.len))
		return false;
	for (size_t i = 0; i < of.len; i++) {
		char c = name.at[i] == '_' ? '-' : name.at[i];

		if (!str_eq_nocase((struct str){&c, 1}, (struct str){of.at + i, 1}))
			return false;
	}
	return true;
}

static bool is_twin(struct str name)
{
	return is_like(name, STR("content-length")) || is_like(name, STR("transfer-encoding"));
}

// The fields that determine the end of a message and its host. Each may occur once;
// Transfer-Encoding with Content-Length is the classic request smuggling.
static enum http1_verdict http1_weigh(struct scan *scan, struct http1_field field)
{
	struct http1_head *head = scan->head;

	if (is_twin(field.name))
		return http1_bad(scan, "a field that some servers take for a framing field");
	switch (field.name.len) {
	case 4:
		if (!str_eq_nocase(field.name, STR("host")))
			break;
		if (scan->has_host)
			return http1_bad(scan, "more than one Host");
		if (!http1_is_host(field.value))
			return http1_bad(scan, "the Host is malformed");
		scan->has_host = true;
		break;
	case 6:
		if (!str_eq_nocase(field.name, STR("expect")))
			break;
		if (!str_eq_nocase(field.value, STR("100-continue")))
			return http1_bad(scan, "an expectation other than 100-continue");
		head->expect_continue = head->minor == 1;
		break;
	case 14:
		if (!str_eq_nocase(field.name, STR("content-length")))
			break;
		if (head->has_length)
			return http1_bad(scan, "more than one Content-Length");
		if (!str_to_u64(field.value, 0, INT64_MAX, &head->length))
			return http1_bad(scan, "the Content-Length is not a number");
		head->has_length = true;
		break;
	case 17:
		if (!str_eq_nocase(field.name, STR("transfer-encoding")))
			break;
		if (scan->has_te || !str_is(field.value, "chunked"))
			return http1_bad(scan, "a Transfer-Encoding other than chunked");
		if (head->minor == 0)
			return http1_bad(scan, "a Transfer-Encoding in HTTP/1.0");
		scan->has_te = head->chunked = true;
		break;
	default:
		break;
	}
	return HTTP1_DONE;
}

static enum http1_verdict field_line(struct scan *scan, struct http1_field *field)
{
	enum http1_verdict verdict;

	field->name = http1_run(scan, TOKEN);
	if (scan->at == scan->end)
		return HTTP1_MORE;
	if (*scan->at != ':' || field->name.len == 0) {
		if (*scan->at == ' ' || *scan->at == '\t')
			return http1_bad(scan, field->name.len
						       ? "a blank before the colon of a field"
						       : "a folded field");
		return http1_bad(scan, "the name of a field is malformed");
	}
	scan->at++;
	field->value = http1_run(scan, VALUE);
	verdict = http1_expect(scan, STR("\r\n"),
			       "a control character in a field, or a line without CR LF");
	if (verdict == HTTP1_DONE)
		field->value = str_trim(field->value);
	return verdict;
}

static enum http1_verdict http1_fields(struct scan *scan)
{
	struct http1_head *head = scan->head;
	bool close = false, keep = false;

	for (;;) {
		struct http1_field *field = &head->fields[head->field_count];
		enum http1_verdict verdict;

		if (scan->at == scan->end)
			return HTTP1_MORE;
		if (*scan->at == '\r') {
			verdict = http1_expect(scan, STR("\r\n"), "a CR without LF");
			if (verdict != HTTP1_DONE)
				return verdict;
			break;
		}
		if (head->field_count == HTTP1_FIELDS_MAX)
			return HTTP1_TOO_LARGE;
		verdict = field_line(scan, field);
		if (verdict == HTTP1_DONE)
			verdict = http1_weigh(scan, *field);
		if (verdict != HTTP1_DONE)
			return verdict;
		if (str_eq_nocase(field->name, STR("connection")))
			connection_tokens(head, field->value, &close, &keep);
		head->field_count++;
	}
	if (head->chunked && head->has_length)
		return http1_bad(scan, "both Content-Length and Transfer-Encoding");
	head->keep_alive = !close && (head->minor == 1 || keep);
	return HTTP1_DONE;
}

static enum http1_verdict http1_whole(struct str bytes, struct http1_head *out, bool is_request)
{
	bool is_cut = bytes.len >= HTTP1_HEAD_MAX;
	struct scan scan = {
		.at = bytes.at,
		.end = bytes.at + (is_cut ? HTTP1_HEAD_MAX : bytes.len),
		.head = out,
	};
	enum http1_verdict verdict;

	// Clears all but the table of fields, of which only `field_count` entries are valid.
	out->method = out->target = (struct str){NULL, 0};
	out->status = out->minor = 0;
	out->field_count = 0;
	out->chunked = out->has_length = out->keep_alive = false;
	out->expect_continue = out->upgrade = false;
	out->length = 0;
	out->size = 0;
	out->fault = NULL;
	if (bytes.len == 0)
		return HTTP1_MORE;

	verdict = is_request ? request_line(&scan) : status_line(&scan);
	if (verdict == HTTP1_DONE)
		verdict = http1_fields(&scan);
	if (verdict == HTTP1_MORE && is_cut)
		return HTTP1_TOO_LARGE;
	if (verdict != HTTP1_DONE)
		return verdict;
	if (is_request && out->minor == 1 && !scan.has_host)
		return http1_bad(&scan, "no Host");
	out->size = (size_t)(scan.at - bytes.at);
	return HTTP1_DONE;
}

enum http1_verdict http1_request(struct str bytes, struct http1_head *out)
{
	return http1_whole(bytes, out, true);
}

enum http1_verdict http1_reply(struct str bytes, struct http1_head *out)
{
	return http1_whole(bytes, out, false);
}

static bool is_all(struct str text, int class)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_class(text.at[i], class))
			return false;
	return true;
}

bool http1_is_field(struct str name, struct str value)
{
	return name.len && is_all(name, TOKEN) && is_all(value, VALUE);
}

struct str http1_field(const struct http1_head *head, const char *name)
{
	struct str want = str_of(name);

	for (size_t i = 0; i < head->field_count; i++)
		if (str_eq_nocase(head->fields[i].name, want))
			return head->fields[i].value;
	return (struct str){NULL, 0};
}

// The chunked body. The state determines which byte may come next; `line` bounds each line of
// framing, and all trailers together. An error is final.
enum chunk_state {
	AT_SIZE, // the first digit: an empty size is invalid
	IN_SIZE,
	IN_EXTENSION,
	AT_SIZE_LF,
	IN_DATA,
	AT_DATA_CR,
	AT_DATA_LF,
	AT_TRAILER,
	IN_TRAILER_NAME,
	IN_TRAILER_VALUE,
	AT_TRAILER_LF,
	AT_LAST_LF,
	AT_END,
	REFUSED,
	REFUSED_SIZE,
};

// Transitions of a state: by a byte of a class, or by exactly this byte.
static const struct way {
	int class;
	char c;
	int next;
} ways[AT_END][3] = {
	[AT_SIZE] = {{HEX, 0, IN_SIZE}},
	[IN_SIZE] = {{HEX, 0, IN_SIZE}, {0, ';', IN_EXTENSION}, {0, '\r', AT_SIZE_LF}},
	[IN_EXTENSION] = {{VALUE, 0, IN_EXTENSION}, {0, '\r', AT_SIZE_LF}},
	[AT_SIZE_LF] = {{0, '\n', IN_DATA}},
	[AT_DATA_CR] = {{0, '\r', AT_DATA_LF}},
	[AT_DATA_LF] = {{0, '\n', AT_SIZE}},
	[AT_TRAILER] = {{TOKEN, 0, IN_TRAILER_NAME}, {0, '\r', AT_LAST_LF}},
	[IN_TRAILER_NAME] = {{TOKEN, 0, IN_TRAILER_NAME}, {0, ':', IN_TRAILER_VALUE}},
	[IN_TRAILER_VALUE] = {{VALUE, 0, IN_TRAILER_VALUE}, {0, '\r', AT_TRAILER_LF}},
	[AT_TRAILER_LF] = {{0, '\n', AT_TRAILER}},
	[AT_LAST_LF] = {{0, '\n', AT_END}},
};

static int way_by(int state, char c)
{
	for (const struct way *way = ways[state]; way < ways[state] + 3; way++)
		if (way->class ? is_class(c, way->class) : way->c && way->c == c)
			return way->next;
	return REFUSED;
}

// The state after one byte of framing.
static int http1_step(struct http1_chunks *chunks, char c)
{
	int next = way_by(chunks->state, c);

	if (chunks->state == AT_SIZE)
		chunks->left = 0;
	if (next == IN_SIZE) {
		int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;

		if (chunks->left > (uint64_t)INT64_MAX >> 4)
			return REFUSED;
		chunks->left = chunks->left << 4 | (uint64_t)digit;
	}
	if (next == IN_DATA && chunks->left == 0)
		next = AT_TRAILER; // the last chunk
	if (chunks->state == AT_SIZE_LF || chunks->state == AT_DATA_LF)
		chunks->line = 0;
	return next;
}

static enum http1_verdict http1_verdict_of(const struct http1_chunks *chunks)
{
	switch (chunks->state) {
	case AT_END:
		return HTTP1_DONE;
	case REFUSED:
		return HTTP1_BAD;
	case REFUSED_SIZE:
		return HTTP1_TOO_LARGE;
	default:
		return HTTP1_MORE;
	}
}

enum http1_verdict http1_unchunk(struct http1_chunks *chunks, struct str in, struct str *data,
				 size_t *used)
{
	size_t at = 0;

	*data = (struct str){in.at, 0};
	while (at < in.len && chunks->state < AT_END) {
		if (chunks->state == IN_DATA) {
			size_t len = in.len - at;

			if (len > chunks->left)
				len = (size_t)chunks->left;
			*data = (struct str){in.at + at, len};
			at += len;
			chunks->left -= len;
			if (chunks->left == 0)
				chunks->state = AT_DATA_CR;
			break;
		}
		chunks->state = http1_step(chunks, in.at[at++]);
		if (++chunks->line > (chunks->state < AT_TRAILER ? CHUNK_LINE_MAX : TRAILERS_MAX) &&
		    chunks->state < AT_END)
			chunks->state = REFUSED_SIZE;
	}
	*used = at;
	return http1_verdict_of(chunks);
}

// clang-format off
static const struct {
	int status;
	const char *text;
} statuses[] = {
	{100, "Continue"}, {101, "Switching Protocols"}, {200, "OK"}, {201, "Created"},
	{202, "Accepted"}, {204, "No Content"}, {206, "Partial Content"},
	{301, "Moved Permanently"}, {302, "Found"}, {303, "See Other"}, {304, "Not Modified"},
	{307, "Temporary Redirect"}, {308, "Permanent Redirect"}, {400, "Bad Request"},
	{401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"},
	{405, "Method Not Allowed"}, {408, "Request Timeout"}, {409, "Conflict"}, {410, "Gone"},
	{411, "Length Required"}, {412, "Precondition Failed"}, {413, "Content Too Large"},
	{414, "URI Too Long"}, {415, "Unsupported Media Type"}, {416, "Range Not Satisfiable"},
	{417, "Expectation Failed"}, {421, "Misdirected Request"}, {422, "Unprocessable Content"},
	{426, "Upgrade Required"}, {429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"}, {499, "Client Closed Request"},
	{500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"},
	{503, "Service Unavailable"}, {504, "Gateway Timeout"}, {507, "Insufficient Storage"},
};
// clang-format on

const char *http1_status_text(int status)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].status == status)
			return statuses[i].text;
	return "Unknown";
}
