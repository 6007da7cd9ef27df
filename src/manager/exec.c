// One command of one request: a box reference and an exec. Dropping it does not end the command. A
// limit that ended the command is logged as a security event.
#include "manager/exec.h"

#include "base/clock.h"
#include "base/mem.h"
#include "manager/access.h"
#include "manager/life.h"

struct manager_exec {
	struct box_ref ref;
	struct exec *exec;
	uint64_t wall_ms;
};

fallible manager_exec_start(struct manager *manager, const struct who *who, struct str key,
			    const struct manager_exec_spec *spec, struct manager_exec **out)
{
	auto_box_ref ref = {0};
	auto_exec_env exec_env = {0};
	struct exec *exec = NULL;
	struct err *err;

	TRY(box_ref_begin(manager, who, key, &ref));
	TRY(box_ref_admit(&ref));
	exec_env_make(&ref, spec, &exec_env);
	err = exec_start(ref.box, &exec_env.spec, &exec);
	if (err)
		return box_ref_explain(err);
	*out = mem_new_of(struct manager_exec);
	(*out)->ref = ref;
	ref = (struct box_ref){0};
	(*out)->exec = exec;
	(*out)->wall_ms = exec_env.spec.wall_ms;
	return OK;
}

void manager_exec_drop(struct manager_exec *run)
{
	exec_unref(run->exec);
	box_ref_end(&run->ref);
	free(run);
}

int manager_exec_pid(const struct manager_exec *run)
{
	return exec_pid(run->exec);
}

struct entry *manager_exec_entry(const struct manager_exec *run)
{
	return run->ref.entry;
}

uint64_t manager_exec_wall_ms(const struct manager_exec *run)
{
	return run->wall_ms;
}

struct tape *manager_exec_tape(const struct manager_exec *run)
{
	return exec_tape(run->exec);
}

fallible manager_exec_wait(struct manager_exec *run, struct exec_result *out)
{
	struct exec_result result;

	TRY(exec_wait(run->exec, CLOCK_NEVER, &result));
	ending_report(result.ending, run->ref.entry->record.id);
	*out = result;
	return OK;
}
