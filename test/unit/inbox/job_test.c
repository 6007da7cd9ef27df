#include "inbox/job.h"

#include "tap.h"

struct scene {
	struct http x;
	struct json *json;
	struct job job;
};

static void scene_done(struct scene *scene)
{
	job_done(&scene->job);
	json_free(scene->json);
	arena_free(scene->x.arena);
}
#define auto_scene on_exit_call(scene_done) struct scene

static struct err *read_job(struct scene *scene, const char *text)
{
	struct err *err = json_read(str_of(text), &scene->json);

	scene->x.arena = arena_new();
	return err ? err : job_read(&scene->x, scene->json, &scene->job);
}

// "reason field", or "ok".
static const char *verdict(const char *text)
{
	static char words[128];
	auto_scene scene = {0};
	auto_err err = read_job(&scene, text);

	if (!err)
		return "ok";
	snprintf(words, sizeof(words), "%s %s", err_reason(err), scene.job.field);
	return words;
}

TEST(shell, "a command is for the shell, with the defaults of the contract")
{
	auto_scene scene = {0};

	CHECK_OK(read_job(&scene, "{\"command\":\"echo hi\",\"whatever\":[1]}"));
	CHECK_STR(scene.job.use.command, "echo hi");
	CHECK(!scene.job.use.argv && !scene.job.use.cwd && !scene.job.use.user);
	CHECK(!scene.job.use.stdin_bytes.at && !scene.job.use.wall_ms && !scene.job.use.cpu_ms);
	CHECK(scene.job.encoding == JOB_AUTO && !scene.job.session.at);
}

TEST(argv, "an argv is taken word by word")
{
	auto_scene scene = {0};

	CHECK_OK(read_job(&scene,
			  "{\"argv\":[\"a\",\"\",\"b c\"],\"user\":\"me\",\"timeoutMs\":5}"));
	CHECK(!scene.job.use.command);
	CHECK_STR(scene.job.use.argv[0], "a");
	CHECK_STR(scene.job.use.argv[1], "");
	CHECK_STR(scene.job.use.argv[2], "b c");
	CHECK(!scene.job.use.argv[3]);
	CHECK(str_is(scene.job.shown, "a  b c"));
	CHECK_STR(scene.job.use.user, "me");
	CHECK(scene.job.use.wall_ms == 5);
}

TEST(cwd, "a relative cwd begins in /workspace")
{
	auto_scene near = {0}, far = {0};

	CHECK_OK(read_job(&near, "{\"command\":\"x\",\"cwd\":\"src\"}"));
	CHECK_STR(near.job.use.cwd, "/workspace/src");
	CHECK_OK(read_job(&far, "{\"command\":\"x\",\"cwd\":\"/tmp\"}"));
	CHECK_STR(far.job.use.cwd, "/tmp");
}

TEST(input, "stdin is text or base64, and an empty one is not none")
{
	auto_scene text = {0}, coded = {0}, empty = {0};

	CHECK_OK(read_job(&text, "{\"command\":\"x\",\"stdin\":\"hi\"}"));
	CHECK(str_is(text.job.use.stdin_bytes, "hi"));
	CHECK_OK(read_job(&coded,
			  "{\"command\":\"x\",\"stdin\":\"aGk=\",\"stdinEncoding\":\"base64\"}"));
	CHECK(str_is(coded.job.use.stdin_bytes, "hi"));
	CHECK_OK(read_job(&empty,
			  "{\"command\":\"x\",\"stdin\":\"\",\"stdinEncoding\":\"base64\"}"));
	CHECK(empty.job.use.stdin_bytes.at && !empty.job.use.stdin_bytes.len);
}

TEST(faults, "what is wrong is named with its field")
{
	CHECK_STR(verdict("{}"), "bad_field command");
	CHECK_STR(verdict("{\"command\":\"\"}"), "bad_command command");
	CHECK_STR(verdict("{\"command\":\" \\n\"}"), "bad_command command");
	CHECK_STR(verdict("{\"argv\":[]}"), "bad_command argv");
	CHECK_STR(verdict("{\"argv\":[\"a\",null]}"), "bad_field argv");
	CHECK_STR(verdict("{\"argv\":\"a\"}"), "bad_field argv");
	CHECK_STR(verdict("{\"argv\":[\"a\"],\"command\":\"a\"}"), "bad_field command");
	CHECK_STR(verdict("{\"command\":\"a\",\"env\":{\"=\":\"\"}}"), "bad_env env");
	CHECK_STR(verdict("{\"command\":\"a\",\"stdin\":\"*\",\"stdinEncoding\":\"base64\"}"),
		  "bad_field stdin");
	CHECK_STR(verdict("{\"command\":\"a\",\"encoding\":\"x\"}"), "bad_field encoding");
	CHECK_STR(verdict("{\"command\":\"a\",\"timeoutMs\":0}"), "bad_field timeoutMs");
	CHECK_STR(verdict("{\"command\":\"a\",\"sessionId\":\"s\"}"), "not_offered sessionId");
	CHECK_STR(verdict("{\"command\":\"a\",\"background\":true}"), "not_offered background");
	CHECK_STR(verdict("{\"command\":\"a\",\"sessionId\":\"__DISABLE_SESSION__\"}"), "ok");
	CHECK_STR(verdict("{\"command\":\"a\",\"sessionId\":null,\"background\":false}"), "ok");
	CHECK_STR(verdict("[]"), "bad_field body");
}
