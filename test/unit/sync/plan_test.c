// Rows of the three-way comparison: base, source, target, and what becomes of the target. A file is
// a letter, which is its content; '.' is absent, 'p' a part that an interrupted sync left.
#include "sync/plan.h"

#include "base/mem.h"
#include "tap.h"

static void plan_test_add(struct file_list *list, const char *path, char content)
{
	struct listed_file *file;

	if (content == '.')
		return;
	file = file_list_add(list, str_of(path));
	file->mode = content == 'p' ? 0600 : 0644;
	file->size = content == 'p' ? 1 : 8;
	file->hash[0] = content;
}

// "written deleted conflicts" of one path.
static const char *plan_test_of(const char *row, bool pending, enum plan_choice choice)
{
	static char text[32];
	auto_file_list base = {0}, source = {0}, target = {0};
	auto_plan plan = {0};

	plan_test_add(&base, "f", row[0]);
	plan_test_add(&source, "f", row[1]);
	plan_test_add(&target, "f", row[2]);
	plan_make(&base, pending ? &source : NULL, &source, &target, choice, &plan);
	snprintf(text, sizeof(text), "%zu %zu %zu", plan.written, plan.deleted,
		 plan.conflict_count);
	return text;
}

TEST(one_path, "a change on one side travels, one on both sides is a conflict")
{
	static const struct {
		const char *row, *want;
	} rows[] = {
		{"aaa", "0 0 0"}, {"aba", "1 0 0"}, {"a.a", "0 1 0"}, {".b.", "1 0 0"},
		{"aab", "0 0 0"}, {"aa.", "0 0 0"}, {"..b", "0 0 0"}, {"abb", "0 0 0"},
		{"abc", "0 0 1"}, {"a.c", "0 0 1"}, {"ab.", "0 0 1"}, {".bc", "0 0 1"},
		{"a..", "0 0 0"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		CHECK_STR(plan_test_of(rows[i].row, false, PLAN_REFUSE), rows[i].want);
}

TEST(choices, "a choice decides conflicts only; exact makes both sides equal")
{
	CHECK_STR(plan_test_of("abc", false, PLAN_SOURCE), "1 0 0");
	CHECK_STR(plan_test_of("abc", false, PLAN_TARGET), "0 0 0");
	CHECK_STR(plan_test_of("aab", false, PLAN_SOURCE), "0 0 0");
	CHECK_STR(plan_test_of("aab", false, PLAN_EXACT), "1 0 0");
	CHECK_STR(plan_test_of("..b", false, PLAN_EXACT), "0 1 0");
}

TEST(interrupted, "what an interrupted sync left is replaced, work of the sandbox is not")
{
	CHECK_STR(plan_test_of("abp", true, PLAN_REFUSE), "1 0 0");
	CHECK_STR(plan_test_of("ab.", true, PLAN_REFUSE), "1 0 0");
	CHECK_STR(plan_test_of("abc", true, PLAN_REFUSE), "0 0 1");
	CHECK_STR(plan_test_of("aap", true, PLAN_REFUSE), "0 0 0");
}

TEST(types, "a file where the other side keeps a directory is a conflict")
{
	auto_file_list base = {0}, source = {0}, target = {0};
	auto_plan plan = {0};

	plan_test_add(&base, "d/a", 'a');
	plan_test_add(&source, "d", 'b');
	plan_test_add(&target, "d/a", 'a');
	plan_test_add(&target, "d/new", 'n');
	plan_make(&base, NULL, &source, &target, PLAN_REFUSE, &plan);
	CHECK(plan.conflict_count == 1);
	CHECK_STR(plan.conflicts[0], "d");
	plan_done(&plan);
	free(target.at[--target.count].path);
	plan_make(&base, NULL, &source, &target, PLAN_REFUSE, &plan);
	CHECK(!plan.conflict_count && plan.written == 1 && plan.deleted == 1);
}
