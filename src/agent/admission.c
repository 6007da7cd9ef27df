// Admission of cold starts by free disk space. Fifty starts that see the same two free gigabytes
// must not all take them: starts in one sandbox are measured one after another, and each admitted
// start reserves the threshold on the host's file system, in the same turn of the loop, until its
// first run is over or it was unused for a while. By then its real usage is visible in statfs.
//
// Lack of space destroys nothing. Only a sandbox that proves unusable is rebuilt: by its own file
// system, or because it cannot be controlled or set up. And only if the file system below it is
// sound.
#include "agent/admission.h"

#include <errno.h>

#include "agent/faults.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "types/timers.h"

#define SIBLINGS_MS 5000
#define SIBLINGS_STEP_MS 10

struct admission_judgement admission_judge(const struct admission_facts *facts)
{
	bool proves = facts->errnum == ENOSPC || facts->errnum == EIO || facts->errnum == EROFS;
	bool low;

	if (proves)
		return (struct admission_judgement){ADMISSION_UNUSABLE, facts->host_sound};
	if (facts->no_workspace || facts->control_failed || facts->probe_hung)
		return (struct admission_judgement){ADMISSION_FAILED, facts->host_sound};
	if (!facts->measured)
		return (struct admission_judgement){ADMISSION_UNKNOWN, false};
	low = facts->available < facts->threshold || facts->host_free < facts->host_floor ||
	      (facts->inodes &&
	       facts->inodes_free < facts->inodes / 100 * ADMISSION_INODES_PERCENT);
	if (!low)
		return (struct admission_judgement){ADMISSION_ACCEPT, false};
	return (struct admission_judgement){facts->cleaned ? ADMISSION_REJECTED : ADMISSION_CLEAN,
					    false};
}

int admission_proof(const struct err *err)
{
	if (strcmp(err_reason(err), "read_only") == 0)
		return EROFS;
	return strcmp(err_reason(err), "io_error") == 0 ? EIO : 0;
}

// Drops reservations that were never used.
static void forget_old(struct agent_sessions *agents)
{
	int64_t now = loop_now(agents->loop);

	list_each (at, &agents->all) {
		struct agent_session *agent = link_of(at, struct agent_session, link);

		if (agent->reserved && now - agent->reserved_at >= timer_ms(TIMER_IDLE))
			agent_unreserve(agent);
	}
}

static fallible admission_measure(struct agent_session *agent, struct admission_facts *facts)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	struct backend_room room = {0};
	uint64_t promised;
	struct err *err = backend->capacity(backend->arg, &local, &room);

	// Measure the host first: an unmeasured host is not known to be sound.
	facts->host_free = room.host_free;
	facts->host_sound = room.host_free > facts->host_floor;
	if (!err)
		err = faults_meet_until(FAULT_CAPACITY, agent->id,
					loop_now(agent->agents->loop) + timer_ms(TIMER_CAPACITY));
	if (err && err_kind(err) == ERR_NO_SPACE)
		facts->errnum = ENOSPC;
	if (err)
		return err;
	// After the wait: includes reservations made meanwhile.
	promised = agent->agents->reserved - agent->reserved;
	facts->measured = true;
	facts->available = room.host_free > promised ? room.host_free - promised : 0;
	if (!room.cold && room.free < facts->available)
		facts->available = room.free;
	facts->inodes = room.cold ? 0 : room.inodes;
	facts->inodes_free = room.inodes_free;
	return OK;
}

static bool admission_is_used(const char *directory, void *of)
{
	const struct agent_session *asking = of;

	if (strcmp(directory, asking->directory) == 0)
		return true;
	list_each (at, &asking->agents->all) {
		const struct agent_session *agent = link_of(at, struct agent_session, link);

		if (strcmp(agent->directory, directory) == 0)
			return agent->lease.state != LEASE_NONE || agent->run_count > 0;
	}
	return false;
}

static void admission_clean(struct agent_session *agent, struct admission_facts *facts,
			    struct backend_cleaned *cleaned)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);

	backend->clean(backend->arg, &local, admission_is_used, agent, cleaned);
	facts->cleaned = true;
	facts->errnum = cleaned->errnum;
	agent->agents->cleaned += cleaned->cleaned;
	agent->agents->skipped += cleaned->skipped;
}

static unsigned long long mb(uint64_t bytes)
{
	return bytes >> 20;
}

static fallible admission_refuse(struct agent_session *agent, const struct admission_facts *facts,
				 const struct backend_cleaned *cleaned,
				 enum admission_verdict verdict)
{
	agent->agents->rejected++;
	agent->agents->refusal = agent->room = (struct agent_refusal){
		facts->available, facts->threshold, cleaned->cleaned, cleaned->skipped};
	if (verdict == ADMISSION_UNKNOWN)
		return err_new(UNAVAILABLE, "capacity_unknown",
			       "the free space of the sandbox could not be measured");
	if (verdict == ADMISSION_UNUSABLE)
		return err_new(NO_SPACE, "filesystem_unusable",
			       "the file system of the sandbox cannot be used");
	return err_hint(err_new(NO_SPACE, "capacity_rejected",
				"%llu MB are free, and a new workspace needs %llu",
				mb(facts->available), mb(facts->threshold)),
			"delete sessions or files that nobody needs");
}

static bool is_sibling(const struct agent_session *agent, const struct agent_session *other)
{
	return other != agent && strcmp(other->box, agent->box) == 0;
}

// Runs of other sessions in the sandbox end first, each by its own actor, with the reason.
static void end_siblings(struct agent_session *agent)
{
	struct loop *loop = agent->agents->loop;
	int64_t deadline = loop_now(loop) + SIBLINGS_MS;
	bool left = true;

	list_each (at, &agent->agents->all) {
		struct agent_session *other = link_of(at, struct agent_session, link);

		if (!is_sibling(agent, other) || !agent_running(other))
			continue;
		other->loss = LOSS_SANDBOX;
		condition_signal(&other->wake);
	}
	while (left && loop_now(loop) < deadline) {
		left = false;
		list_each (at, &agent->agents->all) {
			struct agent_session *other = link_of(at, struct agent_session, link);

			left |= is_sibling(agent, other) && other->loss == LOSS_SANDBOX &&
				agent_running(other);
		}
		if (left)
			err_free(task_sleep_until(loop_now(loop) + SIBLINGS_STEP_MS));
	}
}

// Removes an unusable sandbox: the next start creates a new one.
static void admission_rebuild(struct agent_session *agent)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);
	auto_err err = OK;

	end_siblings(agent);
	log_event(LOG_WARN, "sandbox.unusable", "sandbox", agent->box, "session", agent->id, NULL);
	err = backend->forget(backend->arg, &local, BACKEND_END_SANDBOX);
	list_each (at, &agent->agents->all) {
		struct agent_session *other = link_of(at, struct agent_session, link);

		if (strcmp(other->box, agent->box) == 0) {
			other->prepared = false;
			condition_signal(&other->wake);
		}
	}
	if (err)
		log_event(LOG_ERROR, "sandbox.not_rebuilt", "sandbox", agent->box, "trail",
			  err_trail(err), NULL);
}

static fallible agent_admission_ask(struct agent_session *agent)
{
	struct admission_facts facts = {
		.threshold = agent->agents->threshold,
		.host_floor = agent->agents->threshold / 8,
		.host_sound = true,
	};
	struct backend_cleaned cleaned = {0};
	struct admission_judgement judgement;
	auto_err err = admission_measure(agent, &facts);

	if (err)
		log_event(LOG_WARN, "capacity.unknown", "session", agent->id, "trail",
			  err_trail(err), NULL);
	judgement = admission_judge(&facts);
	if (judgement.verdict == ADMISSION_CLEAN) {
		admission_clean(agent, &facts, &cleaned);
		err_free(err);
		err = admission_measure(agent, &facts);
		facts.measured &= !err;
		judgement = admission_judge(&facts);
	}
	if (judgement.verdict == ADMISSION_UNUSABLE && judgement.may_destroy)
		admission_rebuild(agent);
	if (judgement.verdict != ADMISSION_ACCEPT)
		return admission_refuse(agent, &facts, &cleaned, judgement.verdict);
	agent_unreserve(agent);
	agent->reserved = facts.threshold;
	agent->reserved_at = loop_now(agent->agents->loop);
	agent->agents->reserved += agent->reserved;
	if (cleaned.cleaned || cleaned.skipped)
		agent->room = (struct agent_refusal){facts.available, facts.threshold,
						     cleaned.cleaned, cleaned.skipped};
	return OK;
}

void admission_classify(enum admission_step step, const struct err *failed,
			struct admission_facts *out)
{
	bool lost = !strcmp(err_reason(failed), "file_worker_lost");

	out->errnum = admission_proof(failed);
	switch (err_kind(failed)) {
	case ERR_TIMEOUT:
		out->probe_hung = step == ADMISSION_PROBE;
		break;
	case ERR_INTERNAL:
	case ERR_BAD_PEER:
		out->control_failed = step == ADMISSION_PROBE || lost;
		out->no_workspace = !out->control_failed;
		break;
	case ERR_INVALID:
	case ERR_CONFLICT:
	case ERR_FORBIDDEN:
		out->no_workspace = step == ADMISSION_WORKSPACE;
		break;
	default:
		break;
	}
}

static fallible admission_explain(const struct admission_facts *facts)
{
	static const char *const made_new = "and it was removed for a new one";

	if (facts->errnum)
		return err_new(UNAVAILABLE, "filesystem_unusable",
			       "the file system of the sandbox was unusable, %s", made_new);
	if (facts->probe_hung)
		return err_new(UNAVAILABLE, "sandbox_unreachable", "the sandbox did not answer, %s",
			       made_new);
	if (facts->control_failed)
		return err_new(UNAVAILABLE, "sandbox_failed",
			       "the sandbox could not be controlled, %s", made_new);
	return err_new(UNAVAILABLE, "workspace_failed",
		       "the sandbox had no room for a workspace, %s", made_new);
}

fallible admission_setup(struct agent_session *agent, enum admission_step step, struct err *failed)
{
	struct admission_facts facts = {.host_floor = agent->agents->threshold / 8};

	if (!failed)
		return OK;
	admission_classify(step, failed, &facts);
	if (!facts.errnum && !facts.no_workspace && !facts.control_failed && !facts.probe_hung)
		return failed;
	err_free(admission_measure(agent, &facts));
	if (!admission_judge(&facts).may_destroy)
		return failed;
	log_event(LOG_WARN, "sandbox.setup_failed", "sandbox", agent->box, "session", agent->id,
		  "trail", err_trail(failed), NULL);
	err_free(failed);
	admission_rebuild(agent);
	return admission_explain(&facts);
}

// True while another cold start is measured in the same sandbox. Different sandboxes are measured
// in parallel; their reservations on the host are counted when each is decided.
static bool is_measured(const struct agent_session *agent)
{
	list_each (at, &agent->agents->all) {
		const struct agent_session *other = link_of(at, struct agent_session, link);

		if (other->admitting && (other == agent || is_sibling(agent, other)))
			return true;
	}
	return false;
}

fallible admission_ask(struct agent_session *agent)
{
	struct agent_sessions *agents = agent->agents;
	struct err *err;

	while (is_measured(agent))
		TRY(condition_wait(&agents->admitted, CLOCK_NEVER), "wait for other cold starts");
	agent_ref(agent);
	agent->admitting = true;
	forget_old(agents);
	agents->refusal = agent->room = (struct agent_refusal){0};
	err = agent_admission_ask(agent);
	agent->admitting = false;
	condition_signal(&agents->admitted);
	agent_unref(agent);
	return err;
}
