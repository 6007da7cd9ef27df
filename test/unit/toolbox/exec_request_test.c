#include "toolbox/exec_request.h"

#include "tap.h"

struct scene {
	struct http x;
	struct json *json;
	struct exec_request request;
};

static void scene_done(struct scene *scene)
{
	exec_request_done(&scene->request);
	json_free(scene->json);
	arena_free(scene->x.arena);
}
#define auto_scene on_exit_call(scene_done) struct scene

static struct err *read_exec_request(struct scene *scene, const char *text)
{
	struct err *err = json_read(str_of(text), &scene->json);

	scene->x.arena = arena_new();
	return err ? err : exec_request_read(&scene->x, scene->json, &scene->request);
}

// "reason field", or "ok".
static const char *verdict(const char *text)
{
	static char words[128];
	auto_scene scene = {0};
	auto_err err = read_exec_request(&scene, text);

	if (!err)
		return "ok";
	snprintf(words, sizeof(words), "%s %s", err_reason(err), scene.request.field);
	return words;
}

TEST(shell, "a command is for the shell, with the defaults of docs/API.md")
{
	auto_scene scene = {0};

	CHECK_OK(read_exec_request(&scene, "{\"command\":\"echo hi\",\"whatever\":[1]}"));
	CHECK_STR(scene.request.spec.command, "echo hi");
	CHECK(!scene.request.spec.argv && !scene.request.spec.cwd && !scene.request.spec.user);
	CHECK(!scene.request.spec.stdin_bytes.at && !scene.request.spec.wall_ms &&
	      !scene.request.spec.cpu_ms);
	CHECK(scene.request.encoding == EXEC_REQUEST_UTF8 && !scene.request.session.at);
	CHECK(str_is(scene.request.in_session, "default") && !scene.request.background);
}

// The session that a body is run in; "" for none.
static const char *terminal_command(const char *text)
{
	static char words[64];
	auto_scene scene = {0};

	words[0] = 0;
	err_free(read_exec_request(&scene, text));
	if (scene.request.in_session.at)
		snprintf(words, sizeof(words), STR_FMT, STR_ARG(scene.request.in_session));
	return words;
}

TEST(sessions, "a command is in the session that is named, in the default one, or in none")
{
	CHECK_STR(terminal_command("{\"command\":\"x\"}"), "default");
	CHECK_STR(terminal_command("{\"command\":\"x\",\"env\":{},\"cwd\":\"/\",\"timeoutMs\":1}"),
		  "default");
	CHECK_STR(terminal_command("{\"command\":\"x\",\"sessionId\":\"s\",\"encoding\":\"utf8\"}"),
		  "s");
	CHECK_STR(terminal_command("{\"command\":\"x\",\"sessionId\":\"__DISABLE_SESSION__\"}"),
		  "");
	CHECK_STR(terminal_command("{\"argv\":[\"x\"]}"), "");
	CHECK_STR(terminal_command("{\"command\":\"x\",\"stdin\":\"\"}"), "");
	CHECK_STR(terminal_command("{\"command\":\"x\",\"user\":\"u\"}"), "");
	CHECK_STR(terminal_command("{\"command\":\"x\",\"cpuTimeMs\":1}"), "");
	CHECK_STR(terminal_command("{\"command\":\"x\",\"encoding\":\"auto\"}"), "");
}

TEST(argv, "an argv is taken word by word")
{
	auto_scene scene = {0};

	CHECK_OK(read_exec_request(
		&scene, "{\"argv\":[\"a\",\"\",\"b c\"],\"user\":\"me\",\"timeoutMs\":5}"));
	CHECK(!scene.request.spec.command);
	CHECK_STR(scene.request.spec.argv[0], "a");
	CHECK_STR(scene.request.spec.argv[1], "");
	CHECK_STR(scene.request.spec.argv[2], "b c");
	CHECK(!scene.request.spec.argv[3]);
	CHECK(str_is(scene.request.shown, "a  b c"));
	CHECK_STR(scene.request.spec.user, "me");
	CHECK(scene.request.spec.wall_ms == 5);
}

TEST(cwd, "a relative cwd stays relative to the sandbox or session")
{
	auto_scene near = {0}, far = {0}, in_session = {0};

	CHECK_OK(read_exec_request(&near, "{\"argv\":[\"x\"],\"cwd\":\"src\"}"));
	CHECK_STR(near.request.spec.cwd, "src");
	CHECK_OK(read_exec_request(&far, "{\"command\":\"x\",\"cwd\":\"/tmp\"}"));
	CHECK_STR(far.request.spec.cwd, "/tmp");
	CHECK_OK(read_exec_request(&in_session, "{\"command\":\"x\",\"cwd\":\"src\"}"));
	CHECK_STR(in_session.request.spec.cwd, "src");
}

TEST(input, "stdin is text or base64, and an empty stdin is not a missing one")
{
	auto_scene text = {0}, coded = {0}, empty = {0};

	CHECK_OK(read_exec_request(&text, "{\"command\":\"x\",\"stdin\":\"hi\"}"));
	CHECK(str_is(text.request.spec.stdin_bytes, "hi"));
	CHECK_OK(read_exec_request(
		&coded, "{\"command\":\"x\",\"stdin\":\"aGk=\",\"stdinEncoding\":\"base64\"}"));
	CHECK(str_is(coded.request.spec.stdin_bytes, "hi"));
	CHECK_OK(read_exec_request(
		&empty, "{\"command\":\"x\",\"stdin\":\"\",\"stdinEncoding\":\"base64\"}"));
	CHECK(empty.request.spec.stdin_bytes.at && !empty.request.spec.stdin_bytes.len);
}

TEST(blank, "a blank command is refused outside a session")
{
	auto_scene blank = {0}, whole = {0};

	CHECK_OK(read_exec_request(&blank, "{\"command\":\" \\n\"}"));
	CHECK_ERR(exec_request_not_blank(&blank.request), INVALID);
	CHECK_OK(read_exec_request(&whole, "{\"command\":\"a\"}"));
	CHECK_OK(exec_request_not_blank(&whole.request));
}

TEST(faults, "an error names its field")
{
	CHECK_STR(verdict("{}"), "bad_field command");
	CHECK_STR(verdict("{\"command\":\"\"}"), "ok");
	CHECK_STR(verdict("{\"command\":\"a\",\"sessionId\":\" \\n\"}"), "blank_session sessionId");
	CHECK_STR(verdict("{\"argv\":[]}"), "bad_command argv");
	CHECK_STR(verdict("{\"argv\":[\"a\",null]}"), "bad_field argv");
	CHECK_STR(verdict("{\"argv\":\"a\"}"), "bad_field argv");
	CHECK_STR(verdict("{\"argv\":[\"a\"],\"command\":\"a\"}"), "bad_field command");
	CHECK_STR(verdict("{\"command\":\"a\",\"env\":{\"=\":\"\"}}"), "bad_env env");
	CHECK_STR(verdict("{\"command\":\"a\",\"stdin\":\"*\",\"stdinEncoding\":\"base64\"}"),
		  "bad_field stdin");
	CHECK_STR(verdict("{\"command\":\"a\",\"encoding\":\"x\"}"), "bad_field encoding");
	CHECK_STR(verdict("{\"command\":\"a\",\"timeoutMs\":0}"), "bad_field timeoutMs");
	CHECK_STR(verdict("{\"command\":\"a\",\"sessionId\":7}"), "bad_field sessionId");
	CHECK_STR(verdict("{\"command\":\"a\",\"background\":1}"), "bad_field background");
	CHECK_STR(verdict("{\"command\":\"a\",\"sessionId\":\"__DISABLE_SESSION__\"}"), "ok");
	CHECK_STR(verdict("{\"command\":\"a\",\"sessionId\":null,\"background\":false}"), "ok");
	CHECK_STR(verdict("[]"), "bad_field body");
}
