// One run in memory: counted in its tenant's share from runs_weigh() on, listed in its session
// until it ends. runs_free() closes its log.
#include <stdlib.h>

#include "agent/runs.h"
#include "base/mem.h"

#define RUN_COST 1024 // bytes besides its input

const char *runs_state_word(enum run_state state)
{
	static const char *const message[] = {
#define X(name, word) [RUN_##name] = word,
		RUN_STATES(X)
#undef X
	};

	return message[state];
}

void runs_weigh(struct run *run)
{
	run->cost = run->input.len + RUN_COST;
	run->agent->share->bytes += run->cost;
}

void runs_free(struct run *run)
{
	if (!run)
		return;
	if (run->log)
		tape_unref(run->log);
	if (run->cost)
		run->agent->share->bytes -= run->cost;
	free((char *)run->input.at);
	free((char *)run->result.at);
	free(run->message);
	free(run->asked);
	env_map_done(&run->env);
	free(run);
}

void runs_list(struct run *run)
{
	link_add(&run->agent->runs, &run->link);
	run->agent->run_count++;
}

void runs_unlist(struct run *run)
{
	link_drop(&run->link);
	run->agent->run_count--;
	runs_free(run);
}
