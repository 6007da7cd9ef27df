#include "toolbox/stream_json.h"

#include <fcntl.h>

#include "codec/text.h"
#include "loop/offload.h"
#include "unit/loop/inside.h"

// Writes one stream of a tape that was written in the given pieces ('|' between them; a piece that
// begins with '!' goes to stderr), through a buffer of `size` bytes.
static void copy_pieces(const char *pieces, bool base64, size_t size, enum tape_stream stream,
			struct str tail, struct buf *out)
{
	auto_fd dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tape *tape = tape_new(inside_loop, dir, 1 << 20);
	struct str rest = str_of(pieces), piece;
	char room[64];
	struct stream_json writer = {.out = out, .base64 = base64, .room = room, .size = size};

	while (rest.at && str_cut(&rest, '|', &piece)) {
		bool err = piece.len && piece.at[0] == '!';

		if (err)
			piece = str_skip(piece, 1);
		CHECK_OK(tape_add(tape, err ? TAPE_STDERR : TAPE_STDOUT, piece.at, piece.len));
	}
	tape_end(tape);
	CHECK_OK(stream_json_member(&writer, tape, stream, tail));
	buf_drop_front(out, strlen(",\"stdout\":\"")); // the key, and the closing quote
	out->at[--out->len] = 0;
	tape_unref(tape);
}

TASK_TEST(apart, "each stream is written separately, in order")
{
	auto_buf one = BUF_INIT(4096), two = BUF_INIT(4096);

	copy_pieces("a|!x|b|!y\n|c", false, 64, TAPE_STDOUT, STR(""), &one);
	CHECK_STR(one.at, "abc");
	copy_pieces("a|!x|b|!y\n|c", false, 64, TAPE_STDERR, STR("end"), &two);
	CHECK_STR(two.at, "xy\\nend");
}

TASK_TEST(cut, "a UTF-8 sequence across two pieces is written once")
{
	auto_buf out = BUF_INIT(4096), broken = BUF_INIT(4096);

	copy_pieces("gr\xc3|\xbc\xc3|\x9f", false, 1, TAPE_STDOUT, STR(""), &out);
	CHECK_STR(out.at, "grüß");
	copy_pieces("a\xc3", false, 64, TAPE_STDOUT, STR(""), &broken);
	CHECK_STR(broken.at, "a\xef\xbf\xbd");
}

TASK_TEST(groups, "base64 runs on over the pieces, with padding only at the end")
{
	static const size_t rooms[] = {1, 2, 3, 4, 5, 64};

	for (size_t i = 0; i < sizeof(rooms) / sizeof(*rooms); i++) {
		auto_buf out = BUF_INIT(4096), back = BUF_INIT(4096);

		copy_pieces("a|bc|def|\xff|ghij", true, rooms[i], TAPE_STDOUT, STR("!"), &out);
		CHECK(text_unbase64(&back, buf_view(&out)));
		CHECK(str_is(buf_view(&back), "abcdef\xffghij!"));
	}
}

TASK_TEST(nothing, "a stream that wrote nothing is empty")
{
	auto_buf out = BUF_INIT(4096);

	copy_pieces("!x", false, 64, TAPE_STDOUT, STR(""), &out);
	CHECK(out.len == 0);
}
