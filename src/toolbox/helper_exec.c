// Starts the program as an exec of the box, with the requester's rights, and reads its tape after
// it has ended. Each stream keeps its first `output_max` bytes. The exit status is in `result`; a
// program that fails is not an error here.
#include "toolbox/helper_exec.h"

fallible helper_exec_run(struct http *x, struct helper_exec *helper)
{
	size_t max = helper->output_max ? helper->output_max : HELPER_EXEC_OUTPUT_MAX;
	struct manager_exec_spec spec = {
		.argv = helper->argv,
		.env = helper->env,
		.cwd = helper->cwd,
		.wall_ms = helper->wall_ms,
	};
	auto_manager_exec run = NULL;

	helper->out = BUF_INIT(max);
	helper->err = BUF_INIT(max);
	TRY(manager_exec_start(gateway_of(x)->manager, gateway_who(x), x->params[0], &spec, &run));
	TRY(http_while_away(x, HTTP_PROBE_HEAD, manager_exec_wait(run, &helper->result)));
	return manager_exec_gather(run, &helper->out, &helper->err);
}

void helper_exec_done(struct helper_exec *helper)
{
	buf_done(&helper->out);
	buf_done(&helper->err);
}
