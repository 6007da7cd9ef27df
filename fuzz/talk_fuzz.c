// Messages from pid 1, which are hostile, and to it: what decodes encodes to the same bytes.
#include "protocol/talk.h"

#include "fuzz.h"

static const char *argv_room[TALK_ARGS_MAX + 1], *env_room[TALK_ARGS_MAX + 1];
static uint8_t room[TALK_SIZE_MAX];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct talk talk = {.exec = {.argv = argv_room, .env = env_room}};

	if (!talk_decode(bytes, len, &talk))
		return 0;
	MUST(talk.kind < TALK_KIND_COUNT);
	if (talk.kind == TALK_EXEC) {
		MUST(talk.exec.argc >= 1 && talk.exec.argc <= TALK_ARGS_MAX);
		MUST(!talk.exec.argv[talk.exec.argc] && !talk.exec.env[talk.exec.envc]);
		for (uint32_t i = 0; i < talk.exec.envc; i++)
			MUST(strchr(talk.exec.env[i], '=') > talk.exec.env[i]);
	}
	if (talk.kind == TALK_FAILED || talk.kind == TALK_BROKEN)
		MUST(strlen(talk_step_word(talk.failed.step)) > 0);
	if (talk.kind == TALK_EXEC && (talk.exec.flags & TALK_EXEC_PTY))
		MUST(talk.exec.cols && talk.exec.rows && !(talk.exec.flags & TALK_EXEC_STDIN));
	if (talk.kind == TALK_HELD) {
		MUST(talk.held.tag.len <= TALK_LABEL_MAX &&
		     talk.held.exec_cgroup < TALK_CGROUPS_MAX);
		MUST(len <= TALK_HELD_MAX && talk.held.pid > 1);
	}
	MUST(talk_is_heard((uint8_t)talk.kind) || talk_fds(&talk, 0) <= 0);
	MUST(talk_fds(&talk, TALK_EXEC_STDIN) <= 3 && talk_fds(&talk, TALK_EXEC_PTY) <= 3);
	MUST(talk_encode(&talk, room, sizeof(room)) == len && memcmp(room, bytes, len) == 0);
	MUST(talk_encode(&talk, room, len - 1) == 0);
	return 0;
}
