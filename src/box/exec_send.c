// Messages of a running exec to pid 1: signals, the close of its stdin, its label. A message
// that a full socket does not take is sent later; of signals and labels pid 1 must get the last.
//
// syscalls: clock_gettime
#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_private.h"

static void exec_send_signal(struct exec *exec, int signal, bool alone)
{
	struct talk talk = {.kind = TALK_SIGNAL, .conn = exec->conn};

	if (!exec_runs(exec))
		return;
	talk.signal = signal;
	talk.alone = alone;
	exec->owes.signal = channel_say(&exec->box->channel, &talk) == CHANNEL_FULL ? signal : 0;
	exec->owes.alone = alone;
}

void exec_signal(struct exec *exec, int signal)
{
	exec_send_signal(exec, signal, false);
}

void exec_signal_alone(struct exec *exec, int signal)
{
	exec_send_signal(exec, signal, true);
}

// pid 1 has a copy of stdin and must close it too, or the command sees no end of file.
void exec_close_stdin(struct exec *exec)
{
	struct talk talk = {.kind = TALK_SHUT, .conn = exec->conn};

	if (!exec_runs(exec))
		return;
	if (exec->flags & TALK_EXEC_KEEP_IN)
		exec->owes.shut = channel_say(&exec->box->channel, &talk) == CHANNEL_FULL;
	pipes_close_in(&exec->pipes);
}

static void exec_send_label(struct exec *exec)
{
	struct str label = {exec->label, exec->label_len};
	struct talk talk = {.kind = TALK_LABEL, .conn = exec->conn, .tag = label};

	exec->owes.label = exec_runs(exec) &&
			   channel_say(&exec->box->channel, &talk) == CHANNEL_FULL;
}

void exec_keep_label(struct exec *exec, struct str label)
{
	free(exec->label);
	exec->label = mem_dup(label.at, label.len);
	exec->label_len = label.len;
}

bool exec_label_changes(enum exec_label_kind kind)
{
	return kind == EXEC_LABEL_SESSION || kind == EXEC_LABEL_CONTEXT;
}

struct str exec_make_label(struct exec *exec, const struct exec_spec *spec)
{
	static char room[TALK_LABEL_MAX]; // only the loop's thread is here
	struct exec_label label = spec->label ? *spec->label
					      : (struct exec_label){.kind = EXEC_LABEL_EXEC};
	struct str made = {room, 0};

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
	made.len = exec_label_encode(&label, room, sizeof(room));
	if (exec_label_changes(label.kind))
		exec_keep_label(exec, made);
	return made;
}

void exec_relabel(struct exec *exec, const struct exec_spec *spec)
{
	struct str label = exec_make_label(exec, spec);

	if (!label.len)
		return;
	exec_keep_label(exec, label);
	exec_send_label(exec);
}

fallible exec_await_label(struct exec *exec, int64_t deadline)
{
	while (exec->owes.label && exec_runs(exec))
		TRY(condition_wait(&exec->condition, deadline),
		    "send the label of a command to pid 1");
	return OK;
}

void exec_label_flag(struct exec *exec, uint32_t flag, bool on)
{
	char *flags;

	if (!exec->label || !exec_runs(exec))
		return;
	flags = exec->label + EXEC_LABEL_FLAGS_AT;
	*flags = (char)(on ? *flags | (int)flag : *flags & ~(int)flag);
	exec_send_label(exec);
}

void exec_label_sender(struct exec *exec, uint32_t sender)
{
	exec->sender = sender;
	if (exec->label && exec_runs(exec) &&
	    exec_label_set_sender(exec->label, exec->label_len, sender))
		exec_send_label(exec);
}

void exec_send_owed(struct exec *exec)
{
	if (exec->owes.signal)
		exec_send_signal(exec, exec->owes.signal, exec->owes.alone);
	if (exec->owes.shut)
		exec_close_stdin(exec);
	if (!exec->owes.label)
		return;
	exec_send_label(exec);
	if (!exec->owes.label)
		condition_signal(&exec->condition);
}
