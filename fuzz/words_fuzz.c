// What a runner says, a line at a time, whatever the runner is. What is taken obeys the protocol,
// and everything that it holds lies within bounds.
#include "agent/runner_protocol.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char *line = malloc(len + 1); // so that a step too far is seen
	struct runner_message *words = NULL;

	memcpy(line, bytes, len);
	line[len] = 0;
	auto_err err = runner_read((struct str){line, len}, &words);

	free(line);
	if (err) {
		MUST(!words && err_http(err) == 400);
		return 0;
	}
	// The line is gone: all that is kept is the tree's.
	MUST(words && words->kind < RUNNER_KIND_COUNT && words->tree);
	MUST(words->connection <= 1ull << 53 && words->generation <= 1ull << 53);
	if (words->kind >= RUNNER_ACCEPTED && words->kind <= RUNNER_RESULT)
		MUST(words->run.len > 0 && words->run.len <= LEASE_RUN_LEN);
	if (words->kind >= RUNNER_OUTPUT && words->kind <= RUNNER_RESULT)
		MUST(words->seq > 0);
	if (words->kind == RUNNER_QUESTION)
		MUST(words->question.len > 0 && words->question.len <= RUNNER_ID_MAX);
	if (words->kind == RUNNER_RESULT)
		MUST(str_is(words->status, "completed") || str_is(words->status, "failed") ||
		     str_is(words->status, "interrupted"));
	for (size_t i = 0, sum = 0; i < words->session.len; i++)
		MUST((sum += (unsigned char)words->session.at[i]) < SIZE_MAX);
	runner_free(words);
	return 0;
}
