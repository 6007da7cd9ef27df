// Ids are PATH_ID_LEN random characters of the base32 alphabet. Paths are resolved without looking
// at any file system: the result is only a name that the sandbox resolves again. Buffers are
// bounded by the caller.
#include "cloudflare/path.h"

#include "base/id.h"
#include "base/secret.h"
#include "codec/text.h"

#define SESSION_MAX 128
#define ID_BYTES 16
#define ID_MOST 62

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";

void path_new_id(char out[PATH_ID_LEN + 1])
{
	uint8_t bytes[ID_BYTES + 1];

	do {
		secret_random(bytes, ID_BYTES);
		bytes[ID_BYTES] = 0;
		for (unsigned i = 0; i < PATH_ID_LEN; i++) {
			unsigned bit = 5 * i, pair = bytes[bit / 8] << 8 | bytes[bit / 8 + 1];

			out[i] = alphabet[pair >> (11 - bit % 8) & 31];
		}
		out[PATH_ID_LEN] = 0;
	} while (!id_is_name(str_of(out))); // rarely, it looks like a short id
}

bool path_is_base32(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!memchr(alphabet, text.at[i], 32))
			return false;
	return text.len && text.len <= ID_MOST;
}

bool path_is_id(struct str text)
{
	return path_is_base32(text) && id_is_name(text);
}

bool path_is_session(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!letter && !(c >= '0' && c <= '9') && !memchr("._-", c, 3))
			return false;
		if (i && c == '.' && text.at[i - 1] == '.')
			return false;
	}
	return text.len && text.len <= SESSION_MAX;
}

static void path_walk(struct str path, struct buf *out)
{
	struct str part;

	while (str_cut(&path, '/', &part)) {
		if (!part.len || str_is(part, "."))
			continue;
		if (str_is(part, "..")) {
			while (out->len && out->at[--out->len] != '/')
				;
			continue;
		}
		buf_char(out, '/');
		buf_str(out, part);
	}
}

bool path_resolve(struct str path, struct buf *out)
{
	const size_t root = strlen(PATH_WORKSPACE);

	if (!path.len || memchr(path.at, 0, path.len))
		return false;
	if (path.at[0] != '/')
		buf_text(out, PATH_WORKSPACE);
	path_walk(path, out);
	return buf_ok(out) && out->len >= root && !memcmp(out->at, PATH_WORKSPACE, root) &&
	       (out->len == root || out->at[root] == '/');
}

void path_escape(struct str path, struct buf *out)
{
	struct str part;

	for (bool first = true; str_cut(&path, '/', &part); first = false) {
		if (!first)
			buf_char(out, '/');
		text_percent(out, part);
	}
}

void path_quote(struct str word, struct buf *out)
{
	struct str part;

	buf_char(out, '\'');
	for (bool first = true; str_cut(&word, '\'', &part); first = false) {
		if (!first)
			buf_text(out, "'\\''");
		buf_str(out, part);
	}
	buf_char(out, '\'');
}
