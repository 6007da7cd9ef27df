// Lists the runs of a session, newest first. Rows are read a few at a time, since each may hold a
// large input and result; runs that have not ended are shown from memory.
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/mem.h"

#define BATCH 8

static const struct run *living(const struct agent_session *agent, const char *id)
{
	list_each (at, &agent->runs) {
		const struct run *run = link_of(at, struct run, link);

		if (strcmp(run->id, id) == 0)
			return run;
	}
	return NULL;
}

static void agent_page_show(struct json_out *out, struct agent_session *agent,
			    const struct who *who, const struct store_agent *row)
{
	const struct run *run = living(agent, row->id);
	struct run *past;

	if (run) {
		runs_write_brief(out, run, who);
		return;
	}
	past = mem_new_of(struct run);
	past->agent = agent;
	if (persist_agent_read_run(row, past))
		runs_write_brief(out, past, who);
	runs_free(past);
}

fallible agent_write_runs(struct agent_session *agent, const struct who *who, struct str after,
			  size_t max, struct json_out *out)
{
	auto_free char *last = after.len ? mem_dup(after.at, after.len) : NULL;
	size_t count = 0, got;

	json_begin(out, '{');
	json_key(out, "items");
	json_begin(out, '[');
	do {
		auto_arena arena = arena_new();
		struct store_agent *rows = NULL;
		size_t want = max - count < BATCH ? max - count : BATCH;

		got = 0;
		TRY(store_agent_runs_page(agent->agents->store, agent->key, last, want, arena,
					  &rows, &got));
		for (size_t i = 0; i < got; i++)
			agent_page_show(out, agent, who, &rows[i]);
		count += got;
		if (got) {
			free(last);
			last = mem_str(rows[got - 1].id);
		}
	} while (got == BATCH && count < max);
	json_end(out, ']');
	json_put_text(out, "cursor", count == max ? last : NULL);
	json_end(out, '}');
	return OK;
}
