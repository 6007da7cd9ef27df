// Exit statuses: maps the end of a command, and errors of cove, to the status that shells and
// docker use, and notes on stderr what ended the command.
#include "cli/status.h"

#include <signal.h>

#include "cli/interrupt.h"
#include "cli/print.h"

static void status_report(const struct cove_result *result)
{
	static const struct {
		const char *word, *text;
	} endings[] = {
		{"oom", "the command exceeded its memory limit and was killed (see --memory)"},
		{"cpu_limit", "the command used up its CPU time and was killed (see --cpu-time)"},
		{"wall_limit", "the command ran out of time and was killed (see --timeout)"},
		{"killed_by_api", "the command was killed by request"},
		{"box_lost", "the sandbox was lost while the command ran"},
	};

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		if (strcmp(result->ended, endings[i].word) == 0)
			print_note("%s", endings[i].text);
}

fallible status_whole(const struct cove_result *result)
{
	if (!result->stdout_truncated && !result->stderr_truncated)
		return OK;
	if (!result->output_bytes)
		return err_hint(err_new(NO_SPACE, "output_incomplete", "the output is incomplete"),
				"more was written than is kept, see --output");
	return err_hint(err_new(NO_SPACE, "output_incomplete",
				"the output is incomplete: %llu of %llu bytes were not shown",
				(unsigned long long)result->missed_bytes,
				(unsigned long long)result->output_bytes),
			"more was written than is kept (see --output), or it was not read in time");
}

fallible status_take(struct call *call, const struct cove_result *result)
{
	if (!call_has(call, OPT_QUIET))
		status_report(result);
	if (strcmp(result->ended, "box_lost") == 0)
		return err_new(BAD_PEER, "box_lost", "the command has no exit status");
	TRY(status_whole(result));
	call->exit = result->exit_code;
	return OK;
}

fallible status_end(struct call *call, struct err *err)
{
	if (!err)
		return OK;
	if (interrupt_signal())
		call->exit = STATUS_SIGNALED + interrupt_signal();
	else if (strcmp(err_reason(err), "pipe_closed") == 0)
		call->exit = STATUS_SIGNALED + SIGPIPE;
	else if (strcmp(err_reason(err), "command_not_found") == 0)
		call->exit = STATUS_NOT_FOUND;
	else if (strcmp(err_reason(err), "not_executable") == 0)
		call->exit = STATUS_CANNOT_INVOKE;
	else if (strcmp(err_reason(err), "output_incomplete") == 0)
		call->exit = STATUS_OWN_FAILURE;
	return err;
}
