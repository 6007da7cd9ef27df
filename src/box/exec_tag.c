// The tag that pid 1 keeps of a command: what it is for, its limits and when it began, so that the
// next daemon knows it again (exec_adopt.c). A tag that a full socket does not take is owed, and
// said later.
//
// syscalls: clock_gettime
#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_inner.h"

struct str exec_make_tag(struct exec *exec, const struct exec_spec *spec)
{
	static char room[TALK_TAG_MAX]; // one thread turns the loop
	struct tag tag = spec->tag ? *spec->tag : (struct tag){.kind = TAG_EXEC};

	if (!(exec->flags & TALK_EXEC_TAG))
		return STR("");
	tag.begun_us = exec->begun_us;
	tag.cpu_ms = exec->cpu_ms;
	tag.wall_ms = exec->wall_ms;
	tag.meter_us = exec->meter_us;
	tag.oom_kills = exec->oom_kills;
	tag.sender = exec->sender;
	if (!tag.started_ms)
		tag.started_ms = clock_wall_ms();
	exec->tag_len = tag_encode(&tag, room, sizeof(room));
	if (tag.kind == TAG_SESSION || tag.kind == TAG_CONTEXT) {
		free(exec->tag);
		exec->tag = mem_dup(room, exec->tag_len);
	}
	return (struct str){room, exec->tag_len};
}

// A full socket takes it later (exec_pay): the next daemon must find the last tag.
static void say_tag(struct exec *exec)
{
	static char room[TALK_TAG_MAX + 64];
	struct str tag = {exec->tag, exec->tag_len};
	struct talk talk = {.kind = TALK_TAG, .conv = exec->conv, .tag = tag};
	size_t len = talk_encode(&talk, room, sizeof(room));

	exec->owes_tag = len && exec->phase == EXEC_RUNNING &&
			 channel_say(&exec->box->channel, room, len, NULL, 0) == CHANNEL_FULL;
}

void exec_pay_tag(struct exec *exec)
{
	if (!exec->owes_tag)
		return;
	say_tag(exec);
	if (!exec->owes_tag)
		bell_ring(&exec->bell);
}

void exec_retag(struct exec *exec, const struct exec_spec *spec)
{
	struct str tag = exec_make_tag(exec, spec);

	if (!tag.len)
		return;
	free(exec->tag);
	exec->tag = mem_dup(tag.at, tag.len);
	say_tag(exec);
}

fallible exec_await_tag(struct exec *exec, int64_t deadline)
{
	while (exec->owes_tag && exec->phase == EXEC_RUNNING)
		TRY(bell_wait(&exec->bell, deadline), "tell pid 1 what a command is for");
	return OK;
}

void exec_tag_flag(struct exec *exec, uint32_t flag, bool on)
{
	if (!exec->tag || exec->phase != EXEC_RUNNING)
		return;
	exec->tag[TAG_FLAGS_AT] = (char)(on ? exec->tag[TAG_FLAGS_AT] | (int)flag
					    : exec->tag[TAG_FLAGS_AT] & ~(int)flag);
	say_tag(exec);
}

void exec_tag_sender(struct exec *exec, uint32_t sender)
{
	exec->sender = sender;
	if (exec->tag && exec->phase == EXEC_RUNNING &&
	    tag_set_sender(exec->tag, exec->tag_len, sender))
		say_tag(exec);
}
