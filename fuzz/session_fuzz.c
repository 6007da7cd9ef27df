// The dialogue with a shell. What is heard is bounded and tells of nothing that was not there; what
// is said keeps a hostile text inside its quotes, which a reader that knows only quotes takes apart
// again; the filter gives the same whatever the cuts.
#include "base/mem.h"
#include "fuzz.h"
#include "protocol/shell.h"

static void hear(struct str bytes)
{
	struct shell_end end;
	size_t used = 0;

	if (shell_parse(bytes, &end, &used) != SHELL_END)
		return;
	MUST(used > 0 && used <= bytes.len && bytes.at[used - 1] == 0);
	MUST(end.status >= 0 && end.status <= 255 && end.cwd.len < SHELL_END_MAX);
	MUST(!end.cwd.len ||
	     (end.cwd.at[0] == '/' && end.cwd.at + end.cwd.len == bytes.at + used - 1));
}

// As a shell reads one word of quotes and backslashes.
static void unquote(struct str word, struct buf *out)
{
	for (size_t i = 0; i < word.len; i++) {
		char quote = word.at[i];

		if (quote == '\\') {
			MUST(++i < word.len);
			buf_char(out, word.at[i]);
			continue;
		}
		MUST(quote == '\'' || quote == '"');
		for (i++; word.at[i] != quote; i++) {
			MUST(i + 1 < word.len);
			if (quote == '"' && word.at[i] == '\\')
				i++;
			buf_char(out, word.at[i]);
		}
	}
}

static void quote(struct str text)
{
	auto_buf word = BUF_INIT(8 * text.len + 16), back = BUF_INIT(text.len + 1);

	for (size_t i = 0; i < text.len; i++)
		if (!text.at[i])
			return;
	shell_quote(&word, text);
	MUST(buf_ok(&word));
	unquote(buf_view(&word), &back);
	MUST(buf_ok(&back) && str_eq(buf_view(&back), text));
}

static void keep(void *arg, const char *bytes, size_t len)
{
	buf_add(arg, bytes, len);
}

static void sift(struct str text, size_t piece, uint8_t flags, struct buf *out)
{
	struct shell_filter filter = {.remarks = flags & 1,
				      .jobs = flags & 2,
				      .left = flags & 4,
				      .give = keep,
				      .arg = out};

	for (size_t at = 0; at < text.len; at += piece)
		shell_sift(&filter, text.at + at, text.len - at < piece ? text.len - at : piece);
	shell_sift_end(&filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes + 1, len - 1};
	auto_buf whole = BUF_INIT(len + 1), parts = BUF_INIT(len + 1);

	if (!len)
		return 0;
	hear(text);
	quote(text);
	sift(text, text.len + 1, bytes[0], &whole);
	sift(text, 1 + bytes[0] % 7, bytes[0], &parts);
	MUST(buf_ok(&whole) && buf_ok(&parts) && str_eq(buf_view(&whole), buf_view(&parts)));
	MUST(whole.len <= text.len);
	return 0;
}
