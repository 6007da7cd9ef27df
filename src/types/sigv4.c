// The canonical request is built from the bytes that were sent: the path as it is, the pairs of the
// query decoded, encoded again and sorted, the signed headers with blanks trimmed. The key of a day
// is derived by a chain of HMACs.
#include "types/sigv4.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/secret.h"
#include "codec/text.h"
#include "codec/url.h"

#define SCHEME "AWS4-HMAC-SHA256 "
#define TERMINAL "aws4_request"
#define TIME_LEN 16 // 20260131T080000Z
#define DAY_LEN 8
#define SIGNATURE_LEN (2 * SECRET_HASH)
#define SLACK_S (15 * 60)
#define CANONICAL_MAX (128 * 1024)
#define PAIR_MAX 4096
#define NAME_MAX_LEN 64

static bool sigv4_is_digits(struct str text, size_t from, size_t count)
{
	for (size_t i = from; i < from + count; i++)
		if (i >= text.len || text.at[i] < '0' || text.at[i] > '9')
			return false;
	return true;
}

static bool sigv4_read_scope(struct str scope, struct sigv4 *out)
{
	return str_cut(&scope, '/', &out->access_key) && out->access_key.len &&
	       str_cut(&scope, '/', &out->day) && out->day.len == DAY_LEN &&
	       sigv4_is_digits(out->day, 0, DAY_LEN) && str_cut(&scope, '/', &out->region) &&
	       out->region.len && str_cut(&scope, '/', &out->service) && out->service.len &&
	       str_is(scope, TERMINAL);
}

bool sigv4_read(struct str authorization, struct sigv4 *out)
{
	struct str rest, part;
	struct sigv4 sigv4 = {0};

	if (!str_starts(authorization, SCHEME))
		return false;
	rest = str_skip(authorization, strlen(SCHEME));
	while (rest.len && str_cut(&rest, ',', &part)) {
		part = str_trim(part);
		if (str_starts(part, "Credential=") &&
		    !sigv4_read_scope(str_skip(part, strlen("Credential=")), &sigv4))
			return false;
		if (str_starts(part, "SignedHeaders="))
			sigv4.headers = str_skip(part, strlen("SignedHeaders="));
		if (str_starts(part, "Signature="))
			sigv4.signature = str_skip(part, strlen("Signature="));
	}
	if (!sigv4.access_key.len || !sigv4.headers.len || sigv4.signature.len != SIGNATURE_LEN)
		return false;
	*out = sigv4;
	return true;
}

// ------------------------------------------------------------------------------- canonical request

struct sigv4_pair {
	char text[PAIR_MAX];
};

static int sigv4_compare(const void *a, const void *b)
{
	return strcmp(((const struct sigv4_pair *)a)->text, ((const struct sigv4_pair *)b)->text);
}

static bool sigv4_encode(struct str raw, struct buf *out)
{
	auto_buf plain = BUF_INIT(PAIR_MAX);

	if (raw.len && !text_unpercent(&plain, raw))
		return false;
	if (plain.len)
		text_percent(out, buf_view(&plain));
	return true;
}

static bool sigv4_put_query(struct str query, struct buf *out)
{
	auto_free struct sigv4_pair *pairs = calloc(SIGV4_QUERY_MAX, sizeof(*pairs));
	struct str pair, name;
	size_t count = 0;

	while (pairs && query.len && str_cut(&query, '&', &pair)) {
		auto_buf text = BUF_INIT(PAIR_MAX - 1);

		if (!pair.len)
			continue;
		if (count == SIGV4_QUERY_MAX || !str_cut(&pair, '=', &name) ||
		    !sigv4_encode(name, &text))
			return false;
		buf_char(&text, '=');
		if (!sigv4_encode(pair.at ? pair : STR(""), &text) || !buf_ok(&text))
			return false;
		memcpy(pairs[count++].text, text.at, text.len + 1);
	}
	if (pairs && count)
		qsort(pairs, count, sizeof(*pairs), sigv4_compare);
	for (size_t i = 0; i < count; i++)
		buf_fmt(out, "%s%s", i ? "&" : "", pairs[i].text);
	return pairs != NULL;
}

static void sigv4_put_value(struct str value, struct buf *out)
{
	char before = 0;

	value = str_trim(value);
	for (size_t i = 0; i < value.len; i++) {
		if (value.at[i] != ' ' || before != ' ')
			buf_char(out, value.at[i]);
		before = value.at[i];
	}
}

static bool sigv4_put_headers(const struct sigv4 *sigv4, const struct sigv4_request *request,
			      struct buf *out)
{
	static const char *const needed[] = {"host", "x-amz-date", "x-amz-content-sha256"};
	struct str rest = sigv4->headers, name;
	size_t found = 0, count = 0;

	while (rest.len && str_cut(&rest, ';', &name)) {
		char key[NAME_MAX_LEN + 1];
		struct str value;

		if (!name.len || name.len > NAME_MAX_LEN || ++count > SIGV4_HEADERS_MAX)
			return false;
		snprintf(key, sizeof(key), STR_FMT, STR_ARG(name));
		value = request->field(request->arg, key);
		if (!value.at)
			return false;
		for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
			found |= str_is(name, needed[i]) ? 1u << i : 0;
		buf_fmt(out, "%s:", key);
		sigv4_put_value(value, out);
		buf_char(out, '\n');
	}
	return found == 7;
}

bool sigv4_canonical(const struct sigv4 *sigv4, const struct sigv4_request *request,
		     struct buf *out)
{
	buf_str(out, request->method);
	buf_char(out, '\n');
	buf_str(out, request->path);
	buf_char(out, '\n');
	if (!sigv4_put_query(request->query, out))
		return false;
	buf_char(out, '\n');
	if (!sigv4_put_headers(sigv4, request, out))
		return false;
	buf_char(out, '\n');
	buf_str(out, sigv4->headers);
	buf_char(out, '\n');
	buf_str(out, request->field(request->arg, "x-amz-content-sha256"));
	return buf_ok(out);
}

// --------------------------------------------------------------------------------------- signature

// The time of the request, YYYYMMDDThhmmssZ, in ISO form for the reader of times.
static bool sigv4_is_now(const struct sigv4 *sigv4, struct str time, int64_t now_s)
{
	int64_t ms = 0;
	char iso[32];

	if (time.len != TIME_LEN || time.at[8] != 'T' || time.at[15] != 'Z' ||
	    !sigv4_is_digits(time, 0, 8) || !sigv4_is_digits(time, 9, 6) ||
	    memcmp(time.at, sigv4->day.at, DAY_LEN) != 0)
		return false;
	snprintf(iso, sizeof(iso), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", time.at, time.at + 4,
		 time.at + 6, time.at + 9, time.at + 11, time.at + 13);
	if (!text_read_time(str_of(iso), &ms))
		return false;
	return ms / 1000 > now_s - SLACK_S && ms / 1000 < now_s + SLACK_S;
}

static void sigv4_sign(const struct sigv4 *sigv4, struct str time, struct str canonical,
		       const char *secret, struct buf *out)
{
	const struct str chain[] = {sigv4->day, sigv4->region, sigv4->service, STR(TERMINAL)};
	uint8_t key[SECRET_HASH], next[SECRET_HASH];
	auto_buf text = BUF_INIT(CANONICAL_MAX);
	char first[SECRET_HASH + 1];

	secret_sha256(canonical.at, canonical.len, next);
	buf_fmt(&text, "AWS4-HMAC-SHA256\n" STR_FMT "\n" STR_FMT "/" STR_FMT "/" STR_FMT "/%s\n",
		STR_ARG(time), STR_ARG(sigv4->day), STR_ARG(sigv4->region), STR_ARG(sigv4->service),
		TERMINAL);
	text_hex(&text, next, sizeof(next));
	snprintf(first, sizeof(first), "AWS4%s", secret);
	memcpy(key, first, sizeof(key));
	for (size_t i = 0; i < sizeof(chain) / sizeof(*chain); i++) {
		secret_hmac(key, chain[i].at, chain[i].len, next);
		memcpy(key, next, sizeof(key));
	}
	secret_hmac(key, text.at, text.len, next);
	text_hex(out, next, sizeof(next));
	secret_wipe(key, sizeof(key));
	secret_wipe(first, sizeof(first));
}

bool sigv4_is_good(const struct sigv4 *sigv4, const struct sigv4_request *request,
		   const char secret[SIGV4_SECRET_LEN + 1], int64_t now_s)
{
	struct str time = request->field(request->arg, "x-amz-date");
	auto_buf canonical = BUF_INIT(CANONICAL_MAX), right = BUF_INIT(SIGNATURE_LEN);

	if (!time.at || !sigv4_canonical(sigv4, request, &canonical))
		return false;
	sigv4_sign(sigv4, time, buf_view(&canonical), secret, &right);
	return right.len == SIGNATURE_LEN &&
	       secret_equal(sigv4->signature.at, right.at, SIGNATURE_LEN) &&
	       sigv4_is_now(sigv4, time, now_s);
}
