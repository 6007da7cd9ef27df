// Making executions, and all of them together: create and repeat, load, start, settings. A create
// is durable before it is answered; if there is room it is written with its first attempt.
#include <stdio.h>
#include <stdlib.h>

#include "agent/artifacts.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "execution/private.h"
#include "manager/account.h"
#include "store/executions.h"
#include "types/event.h"

static fallible execution_draining(void)
{
	return err_new(UNAVAILABLE, "draining", "cove is shutting down");
}

// -------------------------------------------------------------------------------- create

static struct account *execution_account(const struct execution *execution)
{
	return accounts_get(&execution->all->options.manager->accounts, execution->tenant);
}

static fallible execution_find_profile(struct executions *executions, const struct job *request,
				       const struct profile **out)
{
	struct str name = request->profile.at ? request->profile : request->agent_type;

	*out = profiles_find(&executions->profiles, name.at ? name : STR(PROFILE_DEFAULT));
	if (*out)
		return OK;
	auto_err err = err_absent("no_profile", "profile", name);
	return err_hint(err_new(INVALID,
				request->profile.at ? "unknown_profile" : "unknown_agent_type",
				"%s", err_message(err)),
			"the five agent types of the seed, and [profile NAME] of the server's "
			"configuration");
}

static bool execution_has_command(const struct job *request, const struct profile *profile)
{
	return request->command.at || request->argv || (profile->argv && profile->argv[0]);
}

static char *execution_copy(struct str text)
{
	return text.at ? mem_dup(text.at, text.len) : NULL;
}

// The request's own words stand before the profile's.
static struct str execution_find_image(const struct job *request, const struct profile *profile)
{
	if (request->image.at || request->template.at || !profile->image)
		return request->image;
	return str_of(profile->image);
}

static struct execution *execution_draft(struct executions *executions, const struct who *who,
					 const struct job *request, const struct profile *profile)
{
	struct execution *execution = execution_new(executions);

	memcpy(execution->id, "exe-", 4);
	secret_hex(execution->id + 4, 16);
	snprintf(execution->tenant, sizeof(execution->tenant), "%s", who->tenant);
	snprintf(execution->profile, sizeof(execution->profile), "%s", profile->name);
	execution->agent_type = execution_copy(request->agent_type);
	execution->task_id = execution_copy(request->task);
	execution->limits = profile->limits;
	execution->has_command = execution_has_command(request, profile);
	execution->must_artifacts = request->required;
	execution->retry = request->retry;
	execution->want.image = execution_copy(execution_find_image(request, profile));
	execution->want.pull = request->pull;
	execution->never_pull = request->pull == SPEC_PULL_NEVER;
	execution->by_operator = who->role == WHO_OPERATOR;
	execution->created_ms = clock_steady_ms();
	execution->queue_at = execution->created_ms + (int64_t)request->queue_ms;
	env_map_add(&execution->labels, &request->labels);
	execution_note_state(execution, NULL);
	return execution;
}

// What can never fit into its tenant's quota is refused; what does not fit now waits.
static fallible executions_admit(struct execution *execution, const struct job *request)
{
	struct executions *executions = execution->all;
	struct limits limits = queue_limits(execution);

	if (executions->draining)
		return execution_draining();
	TRY(account_ask_alone(execution_account(execution), &limits));
	if (!request->queue) {
		auto_err err = queue_has_room(executions, execution);

		if (err)
			return err_hint(err_new(EXHAUSTED, "at_capacity",
						"there is no room for another execution now: %s",
						err_message(err)),
					"try again later, or let it wait with queue: true");
	}
	if (executions->queued >= executions->queue_max)
		return err_hint(err_new(EXHAUSTED, "queue_full", "%zu executions are waiting",
					executions->queued),
				"try again later, or raise executions-queue-max");
	return OK;
}

static fallible executions_keep(struct execution *execution, struct str body,
				struct execution **out)
{
	struct executions *executions = execution->all;
	struct err *err;

	if (body.len <= EXECUTION_REQUEST_KEPT)
		execution->request = (struct str){mem_dup(body.at, body.len), body.len};
	err = account_ask_disk(execution_account(execution), body.len);
	if (err) {
		execution_unref(execution);
		return err;
	}
	// While it is written: the bounds hold for many at once.
	execution_account(execution)->used.requests += body.len;
	executions->queued++;
	actor_prepare(execution);
	err = execution_commit(execution, &(struct execution_write){.request = body});
	executions->queued--;
	if (err) {
		execution->phase = EXECUTION_GONE;
		condition_signal(&execution->changed);
		execution_account(execution)->used.requests -= body.len;
		queue_give_back(execution);
		execution_unref(execution);
		return err;
	}
	execution_set_stored(execution);
	execution_list(execution, EXECUTION_LIVE);
	log_event(LOG_INFO, "execution.created", "execution", execution->id, "profile",
		  execution->profile, "tenant", execution->tenant, NULL);
	event_publish(EVENT_EXECUTION, "tenant", execution->tenant, "execution", execution->id,
		      "state", execution_state_word(execution->state), NULL);
	execution_ref(execution);
	*out = execution;
	actor_begin(execution);
	return OK;
}

// A repetition has the image of the first one, if its tenant may still have it.
static fallible execution_pin(struct execution *execution, const struct who *who, struct str image)
{
	struct manager *manager = execution->all->options.manager;

	TRY(pull_allowed(manager, who, str_of(execution->want.image)));
	free(execution->want.image);
	execution->want.image = mem_dup(image.at, image.len);
	execution->want.is_pinned = true;
	return OK;
}

fallible executions_create(struct executions *executions, const struct create_grant *grant,
			   struct str body, const struct execution_origin *origin,
			   struct execution **out)
{
	const struct profile *profile = NULL;
	struct profile_limits limits;
	struct execution *execution;
	auto_job request = {0};

	TRY(access_ask(grant->who, ACCESS_USE));
	TRY(execution_read_job(body, true, &request));
	TRY(execution_find_profile(executions, &request, &profile));
	if (!request.agent_type.at && !request.profile.at &&
	    !execution_has_command(&request, profile))
		return err_hint(err_new(INVALID, "no_command",
					"there is neither a command nor an agent type or profile"),
				"give command, argv, agentType or profile");
	if (origin->must && !execution_has_command(&request, profile))
		return err_hint(err_new(INVALID, "no_command",
					"profile %s has no argv, and the request no command",
					profile->name),
				"give command or argv, or set argv in [profile %s]", profile->name);
	for (const char **glob = request.globs; glob && *glob; glob++)
		TRY(artifacts_check_glob(str_of(*glob)));
	limits = profile->limits;
	TRY(profile_read_limits(profile, request.limits, &limits));
	execution = execution_draft(executions, grant->who, &request, profile);
	execution->limits = limits;
	execution->mark = mem_str(origin->mark ? origin->mark : "");
	execution->retry_of = origin->retry_of ? mem_str(origin->retry_of) : NULL;
	execution->replay_of = origin->replay_of ? mem_str(origin->replay_of) : NULL;
	struct err *err = executions_admit(execution, &request);
	if (!err && execution->want.image && origin->image.at)
		err = execution_pin(execution, grant->who, origin->image);
	if (!err)
		err = sandbox_check(execution, grant->who, &request, profile);
	if (err) {
		execution_unref(execution);
		return err;
	}
	return executions_keep(execution, body, out);
}

fallible executions_again(struct executions *executions, const struct create_grant *grant,
			  struct str id, bool is_replay, const char *mark, struct execution **out)
{
	auto_execution live = executions_live(executions, grant->who, id);
	auto_arena arena = arena_new();
	struct execution_origin origin = {.mark = mark};
	auto_free char *image = NULL;
	struct execution *first;
	char key[EXECUTION_ID_LEN + 1];
	struct store_execution row = {0};
	struct str text = {0};

	if (live && live->stored < EXECUTION_COMPLETED)
		return err_hint(err_new(CONFLICT, "not_ended", "the execution has not ended"),
				"wait for its end, or cancel it");
	TRY(executions_past(executions, grant->who, id, arena, &row));
	snprintf(key, sizeof(key), "%s", row.id);
	TRY(store_executions_request(executions->options.store, key, arena, &text));
	if (!text.at)
		return execution_absent(id);
	*(is_replay ? &origin.replay_of : &origin.retry_of) = key;
	first = execution_new(executions);
	if (execution_load(first, &row.record, &row.inner) && first->want.is_pinned)
		image = mem_str(first->want.image);
	execution_unref(first);
	origin.image = image ? str_of(image) : (struct str){0};
	return executions_create(executions, grant, text, &origin, out);
}

// ------------------------------------------------------------------------------- the whole

static void executions_on_timer(struct timer *timer)
{
	queue_dispatch(link_of(timer, struct executions, timer));
}

static void executions_count_request(void *arg, const char *tenant, uint64_t bytes)
{
	const struct executions *executions = arg;

	accounts_get(&executions->options.manager->accounts, tenant)->used.requests = bytes;
}

static fallible executions_load(struct executions *executions)
{
	auto_arena arena = arena_new();
	struct store_execution *rows = NULL;
	size_t count = 0;

	TRY(store_executions_live(executions->options.store, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct execution *execution = execution_new(executions);

		snprintf(execution->id, sizeof(execution->id), "%s", rows[i].id);
		snprintf(execution->tenant, sizeof(execution->tenant), "%s", rows[i].tenant);
		snprintf(execution->profile, sizeof(execution->profile), "%s", rows[i].profile);
		execution->version = rows[i].version;
		if (rows[i].unreadable ||
		    !execution_load(execution, &rows[i].record, &rows[i].inner)) {
			log_event(LOG_ERROR, "alert", "alert", "execution_unreadable", "severity",
				  "critical", "execution", execution->id, NULL);
			execution_unref(execution);
			continue;
		}
		execution_list(execution, EXECUTION_ADOPTING);
	}
	return OK;
}

fallible executions_open(const struct executions_options *options, struct executions **out)
{
	struct executions *executions = mem_new_of(struct executions);

	executions->options = *options;
	executions->loop = options->loop;
	executions->by_id = map_new();
	link_init(&executions->live);
	link_init(&executions->owners);
	condition_init(&executions->changed);
	condition_init(&executions->large_left);
	executions->timer.due = executions_on_timer;
	executions->queue_max = 1000;
	TRY(profiles_read(STR(""), &executions->profiles));
	*out = executions;
	TRY(store_executions_requests(options->store, executions_count_request, executions));
	return executions_load(executions);
}

fallible executions_marks(struct executions *executions, int64_t since_ms,
			  void (*each)(void *arg, const char *mark, const char *id), void *arg)
{
	auto_arena arena = arena_new();
	struct store_execution *rows = NULL;
	size_t count = 0;

	TRY(store_executions_marks(executions->options.store, since_ms, arena, &rows, &count));
	for (size_t i = 0; i < count; i++)
		each(arg, rows[i].mark, rows[i].id);
	return OK;
}

fallible executions_configure(struct executions *executions, struct str sections, uint64_t max,
			      uint64_t queue_max)
{
	struct profiles profiles;

	TRY(profiles_read(sections, &profiles));
	profiles_done(&executions->profiles);
	executions->profiles = profiles;
	executions->max = max;
	executions->queue_max = queue_max;
	queue_dispatch(executions);
	return OK;
}

void executions_start(struct executions *executions)
{
	executions->started = true;
	list_each (at, &executions->live)
		actor_begin(link_of(at, struct execution, link));
	queue_dispatch(executions);
}

void executions_drain(struct executions *executions)
{
	executions->draining = true;
}
