#include "fleet/use.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fleet/access.h"
#include "fleet/life.h"

struct use {
	struct visit visit;
	struct exec *exec;
	uint64_t wall_ms;
};

fallible use_start(struct fleet *fleet, const struct who *who, struct str key,
		   const struct use_spec *spec, struct use **out)
{
	auto_visit visit = {0};
	auto_outfit outfit = {0};
	struct exec *exec = NULL;
	struct err *err;

	TRY(visit_begin(fleet, who, key, &visit));
	TRY(visit_admit(&visit));
	outfit_make(&visit, spec, &outfit);
	err = exec_start(visit.box, &outfit.spec, &exec);
	if (err)
		return visit_explain(err);
	*out = mem_new_of(struct use);
	(*out)->visit = visit;
	visit = (struct visit){0};
	(*out)->exec = exec;
	(*out)->wall_ms = outfit.spec.wall_ms;
	return OK;
}

void use_drop(struct use *use)
{
	exec_drop(use->exec);
	visit_end(&use->visit);
	free(use);
}

int use_pid(const struct use *use)
{
	return exec_pid(use->exec);
}

struct entry *use_entry(const struct use *use)
{
	return use->visit.entry;
}

uint64_t use_wall_ms(const struct use *use)
{
	return use->wall_ms;
}

struct tape *use_tape(const struct use *use)
{
	return exec_tape(use->exec);
}

static bool is_limit(enum ending ending)
{
	return ending == ENDING_OOM || ending == ENDING_CPU_LIMIT || ending == ENDING_WALL_LIMIT;
}

fallible use_wait(struct use *use, struct exec_result *out)
{
	struct exec_result result;

	TRY(exec_wait(use->exec, CLOCK_NEVER, &result));
	if (is_limit(result.ending))
		log_event_of(use->visit.entry->record.id, LOG_INFO, "security", "event",
			     "limit_hit", "severity", "low", "sandbox", use->visit.entry->record.id,
			     "limit", ending_word(result.ending), NULL);
	*out = result;
	return OK;
}
