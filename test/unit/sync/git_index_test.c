// Indexes as git writes them are in test/e2e/sync.t; here those that it does not write.
#include "sync/git_index.h"

#include "tap.h"

// Version 2 with names of one letter.
static void index_test_make(const char *letters, struct buf *out)
{
	static const char zeroes[64];
	size_t count = strlen(letters);

	buf_add(out, "DIRC\0\0\0\2\0\0\0", 11);
	buf_char(out, (char)count);
	for (size_t i = 0; i < count; i++) {
		buf_add(out, zeroes, 24);
		buf_add(out, "\0\0\201\244", 4); // 0100644
		buf_add(out, zeroes, 32);
		buf_add(out, "\0\1", 2);
		buf_char(out, letters[i]);
		buf_add(out, zeroes, 1);
	}
}

TEST(entries, "names are read in order")
{
	static const char sum[20];
	auto_buf text = BUF_INIT(4096);
	auto_file_list list = {0};

	index_test_make("ab", &text);
	buf_add(&text, sum, 20);
	CHECK_OK(git_index_read(buf_view(&text), &list));
	CHECK(list.count == 2);
	CHECK_STR(list.at[1].path, "b");
}

TEST(refused, "names out of order, a cut and a split index are refused")
{
	static const char sum[20];
	auto_buf text = BUF_INIT(4096);
	auto_file_list list = {0};

	index_test_make("ba", &text);
	buf_add(&text, sum, 20);
	CHECK_ERR(git_index_read(buf_view(&text), &list), INVALID);
	text.len -= 40;
	CHECK_ERR(git_index_read(buf_view(&text), &list), INVALID);
	buf_clear(&text);
	index_test_make("a", &text);
	buf_add(&text, "link\0\0\0\0", 8);
	buf_add(&text, sum, 20);
	CHECK_ERR(git_index_read(buf_view(&text), &list), NOT_OFFERED);
	CHECK(!list.count);
}
