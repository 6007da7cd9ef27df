// What an agent session chooses: read, kept, compared.
#include "agent/choices.h"

#include <stdio.h>
#include <string.h>

#include "tap.h"

static struct err *choose(const char *text, struct choices *out)
{
	auto_json json = NULL;
	struct err *err = json_read(str_of(text), &json);

	return err ? err : choices_read(json, out);
}

static const char *verdict(const char *text)
{
	static char reason[40];
	auto_choices choices = {0};
	auto_err err = choose(text, &choices);

	snprintf(reason, sizeof(reason), "%s", err ? err_reason(err) : "ok");
	return reason;
}

static struct err *take(void *arg, const struct choice_file *file)
{
	struct buf *out = arg;

	buf_fmt(out, STR_FMT " %o " STR_FMT ";", STR_ARG(file->path), file->mode,
		STR_ARG(file->bytes));
	return OK;
}

TEST(files, "files are read with their modes, as text or base64")
{
	auto_choices choices = {0};
	auto_buf text = BUF_INIT(1024);

	CHECK_OK(choose("{\"files\":[{\"path\":\"a\",\"content\":\"x\"},"
			"{\"path\":\"/b/c\",\"contentBase64\":\"eQ==\",\"mode\":\"0755\"}]}",
			&choices));
	CHECK_OK(choices_each_file(&choices, take, &text));
	CHECK_STR(text.at, "a 644 x;/b/c 755 y;");
}

TEST(escapes, "a path that leads out, and what is no file, are refused")
{
	CHECK_STR(verdict("{\"files\":[{\"path\":\"../a\",\"content\":\"\"}]}"), "bad_path");
	CHECK_STR(verdict("{\"files\":[{\"path\":\"a/./b\",\"content\":\"\"}]}"), "bad_path");
	CHECK_STR(verdict("{\"files\":[{\"path\":\"a/\",\"content\":\"\"}]}"), "bad_path");
	CHECK_STR(verdict("{\"files\":[{\"content\":\"\"}]}"), "bad_path");
	CHECK_STR(verdict("{\"files\":[{\"path\":\"a\"}]}"), "bad_field");
	CHECK_STR(verdict("{\"files\":[1]}"), "bad_field");
	CHECK_STR(verdict("{\"files\":{}}"), "bad_field");
	CHECK_STR(verdict("{\"files\":[{\"path\":\"a\",\"content\":\"\",\"mode\":\"8\"}]}"),
		  "bad_field");
}

TEST(values, "a secret is named, never sent")
{
	CHECK_STR(verdict("{\"network\":{\"secrets\":[\"A\"]}}"), "ok");
	CHECK_STR(verdict("{\"network\":{\"secrets\":[{\"name\":\"A\",\"value\":\"v\"}]}}"),
		  "bad_field");
	CHECK_STR(verdict("{\"network\":1}"), "bad_field");
}

TEST(joins, "who joins a sandbox gets what it is, and is refused if it wants another")
{
	auto_choices had = {0}, asked = {0}, none = {0}, other = {0}, out = {0}, never = {0};

	CHECK_OK(choose("{\"template\":\"a\",\"network\":{\"mode\":\"off\"}}", &had));
	CHECK_OK(choose("{\"template\":\"a\",\"files\":[]}", &asked));
	CHECK_OK(choose("{\"template\":\"b\"}", &other));
	CHECK_OK(choices_join(&asked, &had, &out));
	CHECK(choices_agree(&out, &had) && out.text[CHOICE_FILES] && !had.text[CHOICE_FILES]);
	CHECK(!choices_agree(&none, &had));
	CHECK_ERR(choices_join(&other, &had, &never), CONFLICT);
}
