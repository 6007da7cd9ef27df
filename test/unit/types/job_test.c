#include "types/job.h"

#include "tap.h"

static fallible read_job(const char *text, struct job *out)
{
	return job_read(str_of(text), out);
}

static const char *reason_of(const char *text)
{
	static char word[64];
	auto_job job = {0};
	auto_err err = read_job(text, &job);

	snprintf(word, sizeof(word), "%s", err ? err_reason(err) : "");
	return word;
}

TEST(defaults, "what is not given has its default")
{
	auto_job job = {0};

	CHECK_OK(read_job("{\"command\":\"true\"}", &job));
	CHECK(job.queue && job.queue_ms == JOB_QUEUE_MS && job.retry == RETRY_INFRA);
	CHECK(!job.argv && !job.globs && !job.file_count && !job.context.at && !job.task.at);
}

TEST(context, "the context keeps its bytes, whatever its depth and integers")
{
	auto_job job = {0};

	CHECK_OK(read_job("{\"context\" : {\"a\": 123456789012345678901 } ,\"argv\":[\"a\"]}",
			  &job));
	CHECK(str_is(job.context, "{\"a\": 123456789012345678901 }"));
	CHECK_STR(reason_of("{\"command\":\"a\",\"x\":123456789012345678901}"), "bad_json");
	CHECK_STR(reason_of("{\"context\":1,\"context\":2}"), "bad_field");
	CHECK_STR(reason_of("{\"context\":[}"), "bad_json");
}

TEST(files, "files stay below /workspace")
{
	auto_job job = {0};

	CHECK_OK(read_job(
		"{\"files\":[{\"path\":\"./a//b\",\"content\":\"x\\u0000y\"},"
		"{\"path\":\"/workspace/c\",\"contentBase64\":\"AAE=\",\"mode\":\"0700\"}]}",
		&job));
	CHECK(job.file_count == 2);
	CHECK_STR(job.files[0].path, "/workspace/a/b");
	CHECK(job.files[0].bytes.len == 3 && job.files[0].mode == 0644);
	CHECK_STR(job.files[1].path, "/workspace/c");
	CHECK(job.files[1].bytes.len == 2 && job.files[1].mode == 0700);
	CHECK_STR(reason_of("{\"files\":[{\"path\":\"../a\",\"content\":\"\"}]}"), "path_outside");
	CHECK_STR(reason_of("{\"files\":[{\"path\":\"/a\",\"content\":\"\"}]}"), "path_outside");
	CHECK_STR(reason_of("{\"files\":[{\"path\":\"a/..\",\"content\":\"\"}]}"), "path_outside");
	CHECK_STR(reason_of("{\"files\":[{\"path\":\".\",\"content\":\"\"}]}"), "path_outside");
	CHECK_STR(reason_of("{\"files\":[{\"path\":\"a\"}]}"), "bad_field");
}

TEST(words, "a wrong field is named")
{
	CHECK_STR(reason_of("[]"), "bad_field");
	CHECK_STR(reason_of("{\"command\":\"a\",\"argv\":[\"b\"]}"), "bad_field");
	CHECK_STR(reason_of("{\"retry\":\"always\"}"), "bad_field");
	CHECK_STR(reason_of("{\"cats\":1}"), "unknown_field");
	CHECK_STR(reason_of("{\"image\":\"x y\"}"), "bad_reference");
	CHECK_STR(reason_of("{\"image\":\"x\",\"template\":\"host\"}"), "bad_field");
}

static void globs_of(struct buf *text, size_t last)
{
	text->len = 0;
	buf_text(text, "{\"command\":\"a\",\"artifacts\":{\"paths\":[");
	for (int i = 0; i < 16; i++)
		buf_fmt(text, "\"%04095d\",", i);
	buf_fmt(text, "\"%0*d\"]}}", (int)last, 0);
}

TEST(globs, "the globs of artifacts are bounded together")
{
	auto_buf text = BUF_INIT(1 << 20);
	auto_job within = {0}, past = {0};
	auto_err err = OK;

	globs_of(&text, 16);
	CHECK_OK(job_read(buf_view(&text), &within));
	globs_of(&text, 17);
	err = job_read(buf_view(&text), &past);
	CHECK(err);
	CHECK_STR(err_reason(err), "bad_field");
}
