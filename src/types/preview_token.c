// A check that fails does the same work always: a comparison of fixed length, one signature,
// another comparison, for a token or a link, exposed or not. So neither time nor text of the answer
// tells them apart. The right token needs no signature.
#include "types/preview_token.h"

#include <stdio.h>
#include <string.h>

#define END_LEN 7 // digits of base 36: seconds until the year 4453
#define SIGN_LEN (PREVIEW_TOKEN_LINK_LEN - END_LEN)
#define SECONDS_MAX 78364164095ll // 36^7 - 1

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";

void preview_token_make(char out[PREVIEW_TOKEN_TOKEN_MAX + 1])
{
	uint8_t byte;

	for (size_t i = 0; i < PREVIEW_TOKEN_TOKEN_MAX;) {
		secret_random(&byte, 1);
		if (byte < 252) // 7 times 36: uniform digits
			out[i++] = digits[byte % 36];
	}
	out[PREVIEW_TOKEN_TOKEN_MAX] = 0;
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_digit36(char c)
{
	return is_lower(c) || (c >= '0' && c <= '9');
}

bool preview_token_is_token(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_digit36(text.at[i]) && text.at[i] != '_')
			return false;
	return text.len > 0 && text.len <= PREVIEW_TOKEN_TOKEN_MAX;
}

bool preview_token_is_link(struct str text)
{
	if (text.len != PREVIEW_TOKEN_LINK_LEN)
		return false;
	for (size_t i = 0; i < text.len; i++)
		if (i < END_LEN ? !is_digit36(text.at[i])
				: !is_lower(text.at[i]) && (text.at[i] < '2' || text.at[i] > '7'))
			return false;
	return true;
}

static void preview_token_mac(const uint8_t key[SECRET_HASH], const char *text, size_t len,
			      char out[SIGN_LEN])
{
	uint8_t hash[SECRET_HASH];

	secret_hmac(key, text, len, hash);
	for (size_t i = 0; i < SIGN_LEN; i++) {
		size_t bit = i * 5;
		unsigned two = (unsigned)hash[bit / 8] << 8 | hash[bit / 8 + 1];

		out[i] = base32[two >> (11 - bit % 8) & 31];
	}
	secret_wipe(hash, sizeof(hash));
}

// The signature of everything that the link grants, 160 bits of it as text.
static void types_preview_token_sign(const uint8_t key[SECRET_HASH],
				     const struct preview_token *preview_token,
				     const char end[END_LEN], char out[SIGN_LEN])
{
	char text[256];
	int len = snprintf(text, sizeof(text), "preview\n%s\n%u\n%s\n%.*s", preview_token->box,
			   preview_token->port, preview_token->token, END_LEN, end);

	preview_token_mac(key, text, len < (int)sizeof(text) ? (size_t)len : sizeof(text) - 1, out);
	secret_wipe(text, sizeof(text));
}

void preview_token_sign(const uint8_t key[SECRET_HASH], const struct preview_token *preview_token,
			int64_t ends_ms, char out[PREVIEW_TOKEN_LINK_LEN + 1])
{
	int64_t seconds = ends_ms <= 0 ? 0 : ends_ms / 1000 + (ends_ms % 1000 != 0);

	if (seconds > SECONDS_MAX)
		seconds = SECONDS_MAX;
	for (size_t i = END_LEN; i-- > 0; seconds /= 36)
		out[i] = digits[seconds % 36];
	types_preview_token_sign(key, preview_token, out, out + END_LEN);
	out[PREVIEW_TOKEN_LINK_LEN] = 0;
}

static int64_t end_of(const char link[END_LEN])
{
	int64_t seconds = 0;

	for (size_t i = 0; i < END_LEN; i++)
		seconds = seconds * 36 + (strchr(digits, link[i]) - digits);
	return seconds * 1000;
}

void preview_token_of_box(const uint8_t key[SECRET_HASH], const char *box,
			  const struct env_map *labels, char out[PREVIEW_TOKEN_BOX_LEN + 1])
{
	const char *turn = env_map_get(labels, STR(PREVIEW_TOKEN_TURN));
	char text[512];
	int len = snprintf(text, sizeof(text), "sandbox\n%s\n%.255s", box, turn ? turn : "");

	_Static_assert(PREVIEW_TOKEN_BOX_LEN == SIGN_LEN, "160 bits of the signature");
	preview_token_mac(key, text, len < (int)sizeof(text) ? (size_t)len : sizeof(text) - 1, out);
	out[PREVIEW_TOKEN_BOX_LEN] = 0;
}

bool preview_token_is_box(struct str given, const char token[PREVIEW_TOKEN_BOX_LEN + 1])
{
	return given.len == PREVIEW_TOKEN_BOX_LEN &&
	       secret_equal(given.at, token, PREVIEW_TOKEN_BOX_LEN);
}

bool preview_token_is_void(const struct env_map *labels, struct str link)
{
	const char *list = env_map_get(labels, STR(PREVIEW_TOKEN_VOID));

	return list && link.len && memmem(list, strlen(list), link.at, link.len);
}

bool preview_token_add_void(const struct env_map *labels, struct str link, int64_t now_ms,
			    struct buf *out)
{
	const char *list = env_map_get(labels, STR(PREVIEW_TOKEN_VOID));
	struct str rest = str_of(list ? list : ""), one;
	size_t count = 1;

	buf_str(out, link);
	while (rest.len && str_cut(&rest, ',', &one)) {
		if (!preview_token_is_link(one) || end_of(one.at) <= now_ms ||
		    (one.len == link.len && !memcmp(one.at, link.at, one.len)))
			continue;
		buf_char(out, ',');
		buf_str(out, one);
		count++;
	}
	return count <= PREVIEW_TOKEN_VOID_MAX && buf_ok(out);
}

int64_t preview_token_end(const struct preview_token *preview_token, struct str given)
{
	int64_t end = preview_token_is_link(given) ? end_of(given.at) : 0;

	return end && (!preview_token->ends_ms || end < preview_token->ends_ms)
		       ? end
		       : preview_token->ends_ms;
}

enum preview_token_verdict preview_token_check(const uint8_t key[SECRET_HASH],
					       const struct preview_token *preview_token,
					       struct str given, int64_t now_ms)
{
	static const struct preview_token nothing = {
		.box = "box-000000000000000000000000000000000000000000000000",
		.token = "0000000000000000",
	};
	const struct preview_token *of = preview_token ? preview_token : &nothing;
	char token[PREVIEW_TOKEN_LINK_LEN] = {0}, link[PREVIEW_TOKEN_LINK_LEN],
	     have[PREVIEW_TOKEN_LINK_LEN] = {0};
	bool is_link = preview_token_is_link(given);
	bool is_right;

	// Tokens are compared zero-padded.
	memcpy(token, of->token, strnlen(of->token, PREVIEW_TOKEN_TOKEN_MAX));
	if (is_link || preview_token_is_token(given))
		memcpy(have, given.at, given.len);
	is_right = secret_equal(token, have, sizeof(token)) & (preview_token != NULL) &
		   (have[0] != 0);
	if (!is_right) {
		memcpy(link, is_link ? given.at : "0000000", END_LEN);
		types_preview_token_sign(key, of, link, link + END_LEN);
		is_right = secret_equal(link, have, sizeof(link)) & (preview_token != NULL) &
			   is_link;
		secret_wipe(link, sizeof(link));
	}
	secret_wipe(token, sizeof(token));
	if (!is_right)
		return PREVIEW_TOKEN_WRONG;
	if ((of->ends_ms && now_ms >= of->ends_ms) || (is_link && now_ms >= end_of(given.at)))
		return PREVIEW_TOKEN_OVER;
	return PREVIEW_TOKEN_GOOD;
}
