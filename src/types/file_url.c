// The key is a MAC of the sandbox's id and its turn under the host's secret, so it is not stored. A
// signature is "v1_" and the base64url of HMAC-SHA256(key, "v1:files:METHOD:PATH:EXPIRES").
#include "types/file_url.h"

#include <stdio.h>

#include "codec/text.h"

#define TEXT_MAX (64 * 1024)
#define PREFIX "v1_"

void file_url_key(const uint8_t secret[SECRET_HASH], const char *box, const struct env_map *labels,
		  char out[FILE_URL_KEY_LEN + 1])
{
	const char *turn = env_map_get(labels, STR(FILE_URL_TURN));
	auto_buf text = BUF_INIT(1024), hex = BUF_INIT(2 * SECRET_HASH);
	uint8_t mac[SECRET_HASH];

	buf_fmt(&text, "files/%s/%s", box, turn ? turn : "");
	secret_hmac(secret, text.at, text.len, mac);
	text_hex(&hex, mac, sizeof(mac));
	snprintf(out, FILE_URL_KEY_LEN + 1, "%s", hex.at);
	secret_wipe(mac, sizeof(mac));
}

static void file_url_sign(const char key[FILE_URL_KEY_LEN + 1], const struct file_url *url,
			  struct buf *out)
{
	auto_buf text = BUF_INIT(TEXT_MAX), base64 = BUF_INIT(2 * SECRET_HASH);
	uint8_t mac[SECRET_HASH];

	buf_fmt(&text, "v1:files:" STR_FMT ":", STR_ARG(url->method));
	buf_str(&text, url->path);
	buf_fmt(&text, ":" STR_FMT, STR_ARG(url->expires));
	if (!buf_ok(&text))
		return;
	secret_hmac((const uint8_t *)key, text.at, text.len, mac);
	text_base64(&base64, mac, sizeof(mac));
	buf_text(out, PREFIX);
	for (size_t i = 0; i < base64.len && base64.at[i] != '='; i++)
		buf_char(out, base64.at[i] == '+' ? '-' : base64.at[i] == '/' ? '_' : base64.at[i]);
}

bool file_url_is_good(const char key[FILE_URL_KEY_LEN + 1], const struct file_url *url,
		      int64_t now_s)
{
	auto_buf right = BUF_INIT(2 * SECRET_HASH);
	uint64_t expires = 0;
	bool same;

	file_url_sign(key, url, &right);
	same = right.len && url->signature.len == right.len &&
	       secret_equal(url->signature.at, right.at, right.len);
	if (!same || !str_to_u64(url->expires, 0, INT64_MAX, &expires))
		return false;
	return !expires || (int64_t)expires >= now_s;
}
