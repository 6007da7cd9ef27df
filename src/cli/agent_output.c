// Turns pieces of output, cut anywhere, into lines of JSON. A character that is cut by the end of a
// piece is not text yet: its first bytes wait for the rest, at most three of them.
#include "cli/agent_output.h"

#include <string.h>

#include "codec/json.h"
#include "codec/text.h"

void agent_output_piece(struct agent_output *output, struct str bytes, bool last, struct buf *out)
{
	auto_buf coded = BUF_INIT(64u << 20);
	struct json_out json = json_to(out);
	struct str all, whole;

	buf_add(&output->held, bytes.at, bytes.len);
	all = whole = buf_view(&output->held);
	if (!last)
		whole.len = text_utf8_whole(all);
	if (!whole.len)
		return;
	json_begin(&json, '{');
	json_put_text(&json, "stream", output->stream);
	if (text_is_utf8(whole) && !memchr(whole.at, 0, whole.len)) {
		json_put_str(&json, "data", whole);
	} else {
		text_base64(&coded, whole.at, whole.len);
		json_put_str(&json, "data", buf_view(&coded));
		json_put_text(&json, "encoding", "base64");
	}
	json_end(&json, '}');
	buf_char(out, '\n');
	buf_drop_front(&output->held, whole.len);
}
