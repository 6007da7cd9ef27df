// The label that pid 1 keeps of a command: its purpose, limits and start, by which the next daemon
// recognizes it (exec_adopt.c). A label that a full socket does not take is sent later.
//
// syscalls: clock_gettime
#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_private.h"

struct str exec_make_label(struct exec *exec, const struct exec_spec *spec)
{
	static char room[TALK_LABEL_MAX]; // only the loop's thread is here
	struct exec_label label = spec->label ? *spec->label
					      : (struct exec_label){.kind = EXEC_LABEL_EXEC};

	if (!(exec->flags & TALK_EXEC_LABEL))
		return STR("");
	label.begun_us = exec->begun_us;
	label.cpu_ms = exec->cpu_ms;
	label.wall_ms = exec->wall_ms;
	label.meter_us = exec->meter_us;
	label.oom_kills = exec->oom_kills;
	label.sender = exec->sender;
	if (!label.started_ms)
		label.started_ms = clock_wall_ms();
	exec->label_len = exec_label_encode(&label, room, sizeof(room));
	if (label.kind == EXEC_LABEL_SESSION || label.kind == EXEC_LABEL_CONTEXT) {
		free(exec->label);
		exec->label = mem_dup(room, exec->label_len);
	}
	return (struct str){room, exec->label_len};
}

// A full socket takes it later (exec_pay()): pid 1 must get the last label.
static void send_label(struct exec *exec)
{
	static char room[TALK_LABEL_MAX + 64];
	struct str label = {exec->label, exec->label_len};
	struct talk talk = {.kind = TALK_LABEL, .conn = exec->conn, .tag = label};
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

void exec_relabel(struct exec *exec, const struct exec_spec *spec)
{
	struct str label = exec_make_label(exec, spec);

	if (!label.len)
		return;
	free(exec->label);
	exec->label = mem_dup(label.at, label.len);
	send_label(exec);
}

fallible exec_await_label(struct exec *exec, int64_t deadline)
{
	while (exec->owes_label && exec->phase == EXEC_RUNNING)
		TRY(condition_wait(&exec->condition, deadline),
		    "send the label of a command to pid 1");
	return OK;
}

void exec_label_flag(struct exec *exec, uint32_t flag, bool on)
{
	if (!exec->label || exec->phase != EXEC_RUNNING)
		return;
	exec->label[EXEC_LABEL_FLAGS_AT] = (char)(on ? exec->label[EXEC_LABEL_FLAGS_AT] | (int)flag
						     : exec->label[EXEC_LABEL_FLAGS_AT] &
								  ~(int)flag);
	send_label(exec);
}

void exec_label_sender(struct exec *exec, uint32_t sender)
{
	exec->sender = sender;
	if (exec->label && exec->phase == EXEC_RUNNING &&
	    exec_label_set_sender(exec->label, exec->label_len, sender))
		send_label(exec);
}
