#include "agent/runner_protocol.h"

#include "base/mem.h"
#include "tap.h"

#define GOOD                                                                                       \
	"{\"type\":\"output\",\"run\":\"run_1\",\"run_generation\":2,\"connection\":3,\"seq\":4}"

TEST(reads, "a message is read with its fence")
{
	struct runner_message *message = NULL;

	CHECK_OK(runner_read(STR(GOOD), &message));
	CHECK(message->kind == RUNNER_OUTPUT && str_is(message->run, "run_1"));
	CHECK(message->run_generation == 2 && message->connection == 3 && message->seq == 4);
	runner_free(message);
}

TEST(refuses, "a malformed message is refused, whatever it lacks")
{
	static const char *const bad[] = {
		"",
		"1",
		"[]",
		"{}",
		"{\"type\":\"shout\"}",
		"{\"type\":\"output\"}",
		"{\"type\":\"output\",\"run\":\"r\"}",
		"{\"type\":\"output\",\"run\":\"\",\"seq\":1}",
		"{\"type\":\"result\",\"run\":\"r\",\"seq\":1}",
		"{\"type\":\"result\",\"run\":\"r\",\"seq\":1,\"status\":\"maybe\"}",
		"{\"type\":\"question\",\"run\":\"r\",\"seq\":1}",
		"{\"type\":\"hello\",\"generation\":\"1\"}",
		"{\"type\":\"hello\",\"port\":65536}",
		"{\"type\":\"output\",\"run\":\"r\",\"seq\":-1}",
		"{\"type\":\"pong\",\"number\":1.5}",
		(GOOD GOOD),
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct runner_message *message = NULL;

		CHECK_ERR(runner_read(str_of(bad[i]), &message), INVALID);
		CHECK(!message);
	}
}

TEST(says, "a message of the daemon is one line, after an empty one for an attach")
{
	struct agent_session agent = {.id = (char *)"s\n1"};
	struct run run = {.agent = &agent, .input = STR("{\"a\":1}"), .id = "run_1"};
	auto_buf out = BUF_INIT(4096);

	runner_attach(&out, &agent, 7, 9);
	CHECK(out.at[0] == '\n' && memchr(out.at + 1, '\n', out.len - 1) == out.at + out.len - 1);
	CHECK(strstr(out.at, "\"connection\":7") && strstr(out.at, "\"seq\":9"));
	buf_clear(&out);
	runner_run(&out, &run, 7);
	runner_ack(&out, &run, 3);
	runner_ping(&out, 1);
	runner_interrupt(&out, &run);
	runner_answer(&out, &run, STR("q"), STR("null"));
	CHECK(out.at[out.len - 1] == '\n');
	size_t lines = 0;
	for (size_t i = 0; i < out.len; i++)
		lines += out.at[i] == '\n';
	CHECK(lines == 5);
}
