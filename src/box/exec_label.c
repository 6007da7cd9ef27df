// The label that pid 1 keeps of a command: its purpose, limits and start, by which the next daemon
// recognizes it (exec_adopt.c). A label that a full socket does not take is sent later.
//
// syscalls: clock_gettime
#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_private.h"

struct str exec_make_label(struct exec *exec, const struct exec_spec *spec)
{
	static char room[TALK_LABEL_MAX]; // one thread turns the loop
	struct exec_label tag = spec->tag ? *spec->tag
					  : (struct exec_label){.kind = EXEC_LABEL_EXEC};

	if (!(exec->flags & TALK_EXEC_LABEL))
		return STR("");
	tag.begun_us = exec->begun_us;
	tag.cpu_ms = exec->cpu_ms;
	tag.wall_ms = exec->wall_ms;
	tag.meter_us = exec->meter_us;
	tag.oom_kills = exec->oom_kills;
	tag.sender = exec->sender;
	if (!tag.started_ms)
		tag.started_ms = clock_wall_ms();
	exec->label_len = exec_label_encode(&tag, room, sizeof(room));
	if (tag.kind == EXEC_LABEL_SESSION || tag.kind == EXEC_LABEL_CONTEXT) {
		free(exec->tag);
		exec->tag = mem_dup(room, exec->label_len);
	}
	return (struct str){room, exec->label_len};
}

// A full socket takes it later (exec_pay): the next daemon must find the last tag.
static void send_label(struct exec *exec)
{
	static char room[TALK_LABEL_MAX + 64];
	struct str tag = {exec->tag, exec->label_len};
	struct talk talk = {.kind = TALK_LABEL, .conn = exec->conn, .tag = tag};
	size_t len = talk_encode(&talk, room, sizeof(room));

	exec->owes_label = len && exec->phase == EXEC_RUNNING &&
			   channel_send(&exec->box->channel, room, len, NULL, 0) == CHANNEL_FULL;
}

void exec_pay_label(struct exec *exec)
{
	if (!exec->owes_label)
		return;
	send_label(exec);
	if (!exec->owes_label)
		condition_signal(&exec->condition);
}

void exec_retag(struct exec *exec, const struct exec_spec *spec)
{
	struct str tag = exec_make_label(exec, spec);

	if (!tag.len)
		return;
	free(exec->tag);
	exec->tag = mem_dup(tag.at, tag.len);
	send_label(exec);
}

fallible exec_await_label(struct exec *exec, int64_t deadline)
{
	while (exec->owes_label && exec->phase == EXEC_RUNNING)
		TRY(condition_wait(&exec->condition, deadline), "tell pid 1 what a command is for");
	return OK;
}

void exec_label_flag(struct exec *exec, uint32_t flag, bool on)
{
	if (!exec->tag || exec->phase != EXEC_RUNNING)
		return;
	exec->tag[EXEC_LABEL_FLAGS_AT] = (char)(on ? exec->tag[EXEC_LABEL_FLAGS_AT] | (int)flag
						   : exec->tag[EXEC_LABEL_FLAGS_AT] & ~(int)flag);
	send_label(exec);
}

void exec_label_sender(struct exec *exec, uint32_t sender)
{
	exec->sender = sender;
	if (exec->tag && exec->phase == EXEC_RUNNING &&
	    exec_label_set_sender(exec->tag, exec->label_len, sender))
		send_label(exec);
}
