// Starting a runner, step by step: the sandbox runs; there is disk space; the directories exist;
// the runner is launched and connected. Each step may wait and may fail; none changes the lease.
// A start that fails may begin again from the first step: a step that is done already is quick.
#include <stdio.h>

#include "agent/admission.h"
#include "agent/faults.h"
#include "agent/link.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "types/timers.h"

void launch_disconnect(struct agent_session *agent)
{
	link_end(take_ptr(agent->runner));
	agent->sent_on = 0;
	agent->pinged_at = 0;
	agent->port = 0;
}

// Takes the fd over.
static fallible launch_connect(struct agent_session *agent, int fd)
{
	launch_disconnect(agent);
	agent_note_alive(agent);
	return link_open(agent, fd, &agent->runner);
}

fallible launch_attach(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	int fd = -1;

	TRY(backend->attach(backend->arg, &local, &agent->lease, &fd));
	return launch_connect(agent, fd);
}

bool launch_is_early(const struct err *err)
{
	static const char *const reasons[] = {"no_warden", "starting", "box_starting"};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (err_kind(err) == ERR_UNAVAILABLE && !strcmp(err_reason(err), reasons[i]))
			return true;
	return false;
}

// Whether another try may help, and one is left.
bool launch_may_retry(const struct run *run, const struct err *err)
{
	enum err_kind kind = err_kind(err);

	if (launch_is_early(err))
		return true;
	return run->tries < RUN_TRIES_MAX && kind != ERR_INVALID && kind != ERR_NOT_FOUND &&
	       kind != ERR_FORBIDDEN && kind != ERR_NO_SPACE;
}

// -------------------------------------------------------------------------------- steps

static fallible launch_provision(struct agent_session *agent, const struct backend_site *local)
{
	const struct backend *backend = agent->agents->backend;
	int64_t until = loop_now(agent->agents->loop) + timer_ms(TIMER_STARTUP);
	bool cold = false;

	// While the lease is starting, its deadline is that of the start.
	if (agent->lease.state == LEASE_STARTING)
		until = loop_now(agent->agents->loop) + lease_deadline(&agent->lease) -
			agents_now(agent->agents);
	TRY(faults_meet_until(FAULT_LAUNCH, agent->id, until), "start in time");
	TRY(backend->provision(backend->arg, local, &cold), "provide a sandbox");
	return OK;
}

static fallible launch_check_disk(struct agent_session *agent, const struct backend_site *local)
{
	(void)local;
	return agent->prepared ? OK : admission_ask(agent);
}

static fallible launch_make_workspace(struct agent_session *agent, const struct backend_site *local)
{
	const struct backend *backend = agent->agents->backend;
	struct err *err = faults_meet_until(
		FAULT_PROBE, agent->id, loop_now(agent->agents->loop) + timer_ms(TIMER_INSPECTION));
	bool is_new = false;

	if (!err)
		err = backend->probe(backend->arg, local);
	TRY(admission_setup(agent, ADMISSION_PROBE, err), "probe the sandbox");
	TRY(admission_setup(agent, ADMISSION_WORKSPACE,
			    backend->prepare(backend->arg, local, &is_new)),
	    "prepare the workspace");
	if (is_new)
		TRY(backend->fill(backend->arg, local), "write the files");
	agent->prepared = true;
	return OK;
}

static fallible launch_start_runner(struct agent_session *agent, const struct backend_site *local)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_launch what = {
		.argv = (const char *const *)agent->argv,
		.env = &agent->env,
		.instance = agent->lease.instance,
		.generation = agent->lease.generation,
	};
	int fd = -1;

	TRY(backend->launch(backend->arg, local, &what, &agent->lease.place, &fd),
	    "start the runner");
	return launch_connect(agent, fd);
}

static const struct {
	const char *word; // in the log of the run
	fallible (*run)(struct agent_session *agent, const struct backend_site *local);
} launch_steps[LAUNCH_STEPS] = {
	[LAUNCH_PROVISION] = {"sandbox_provision", launch_provision},
	[LAUNCH_DISK] = {"disk_check", launch_check_disk},
	[LAUNCH_WORKSPACE] = {"workspace_setup", launch_make_workspace},
	[LAUNCH_RUNNER] = {"runner_start", launch_start_runner},
};

fallible launch_run(struct agent_session *agent, struct run *run, enum launch_step last)
{
	struct backend_site local = agent_local(agent);

	for (int step = 0; step <= (int)last; step++) {
		if (run)
			runs_log_step(run, launch_steps[step].word);
		TRY(launch_steps[step].run(agent, &local));
	}
	return OK;
}

void launch_log_steps(struct run *run)
{
	for (int step = 0; step < LAUNCH_STEPS; step++)
		runs_log_step(run, launch_steps[step].word);
}
