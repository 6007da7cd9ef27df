#include "cli/target.h"

#include "base/auto.h"
#include "tap.h"

TEST(words, "a box comes before the first colon, unless a slash comes before that")
{
	static const struct {
		const char *word, *box, *path;
	} rows[] = {
		{"web:/etc/hosts", "web", "/etc/hosts"},
		{"web:a:b", "web", "a:b"},
		{"web:", "web", "."},
		{"./a:b", NULL, "./a:b"},
		{"/a:b", NULL, "/a:b"},
		{"file", NULL, "file"},
		{":x", NULL, ":x"},
		{"-", NULL, "-"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		auto_target target = {0};

		target_read(rows[i].word, &target);
		CHECK(!target.box == !rows[i].box);
		if (rows[i].box)
			CHECK_STR(target.box, rows[i].box);
		CHECK_STR(target.path, rows[i].path);
	}
}

TEST(no_box, "a file without a box is refused with a hint where a box is needed")
{
	auto_target target = {0};
	auto_err err = target_of_box("ls", "hosts", &target);

	CHECK(err && err_kind(err) == ERR_INVALID && err_hint_of(err));
}
