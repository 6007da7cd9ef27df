// Executions in memory: those that have not ended, or whose sandbox is not verified gone yet. The
// others are in the store alone. Requests that look for one find it here first.
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "execution/private.h"
#include "loop/offload.h"
#include "manager/account.h"
#include "store/executions.h"
#include "types/timers.h"

#define SCAN_MAX 2000 // rows that one page looks at, for filters that the store does not have
#define SCAN_BATCH 50
#define PAGE_BYTES (4u << 20) // of records: past it a page ends early
#define GONE_MS 30000
#define SETTLE_MS 30000

fallible execution_absent(struct str id)
{
	return err_absent("no_execution", "execution", id);
}

const char *execution_id(const struct execution *execution)
{
	return execution->id;
}

const char *execution_box(const struct execution *execution)
{
	const struct execution_attempt *last = execution_attempt((struct execution *)execution);

	return last && lease_is_owned(&execution->lease) ? last->box : NULL;
}

// ------------------------------------------------------------------------------- objects

struct execution *execution_new(struct executions *executions)
{
	struct execution *execution = mem_new_of(struct execution);

	execution->all = executions;
	execution->refs = 1;
	execution->exit_code = -1;
	lease_init(&execution->lease);
	link_init(&execution->commands);
	condition_init(&execution->wake);
	condition_init(&execution->changed);
	return execution;
}

void execution_ref(struct execution *execution)
{
	execution->refs++;
}

void execution_unref(struct execution *execution)
{
	if (--execution->refs)
		return;
	if (execution->proc)
		proc_unref(execution->proc);
	err_free(execution->launch_err);
	free(execution->agent_type);
	free(execution->task_id);
	free(execution->retry_of);
	free(execution->replay_of);
	free(execution->mark);
	free(execution->want.image);
	err_free(execution->pull_err);
	free(execution->result);
	free(execution->last_output);
	free(execution->artifacts.missing);
	free((char *)execution->shown.at);
	free((char *)execution->request.at);
	env_map_done(&execution->labels);
	free(execution);
}

fallible execution_request(struct execution *execution, struct arena *arena, struct str *out)
{
	if (execution->request.at) {
		*out = execution->request;
		return OK;
	}
	TRY(store_executions_request(execution->all->options.store, execution->id, arena, out));
	return out->at ? OK : err_new(NOT_FOUND, "no_request", "the request is gone");
}

struct job_reading {
	struct str text;
	bool with_files;
	struct job *job;
	struct err *err;
};

static void job_reading_run(void *arg)
{
	struct job_reading *reading = arg;

	reading->err = reading->with_files ? job_read(reading->text, reading->job)
					   : job_read_rest(reading->text, reading->job);
}

fallible execution_read_job(struct str text, bool with_files, struct job *out)
{
	struct job_reading reading = {text, with_files, out, OK};

	if (text.len <= EXECUTION_REQUEST_KEPT)
		job_reading_run(&reading);
	else
		offload_run(job_reading_run, &reading);
	return reading.err;
}

void execution_list(struct execution *execution, enum execution_phase phase)
{
	map_put(execution->all->by_id, str_of(execution->id), execution);
	link_add(&execution->all->live, &execution->link);
	execution->phase = phase;
}

fallible execution_await_stored(struct execution *execution)
{
	int64_t until = loop_now(execution->all->loop) + timer_ms(TIMER_EXECUTION_START);

	while (execution->launch == LAUNCH_PREPARING && execution->phase != EXECUTION_GONE)
		TRY(condition_wait(&execution->changed, until), "wait for the record");
	return execution->launch == LAUNCH_RUNNING
		       ? OK
		       : err_new(CANCELLED, "late", "the start was given up");
}

void execution_unlist(struct execution *execution)
{
	if (execution->phase == EXECUTION_GONE)
		return;
	execution->phase = EXECUTION_GONE;
	queue_quit(execution);
	queue_give_back(execution);
	map_take(execution->all->by_id, str_of(execution->id));
	link_drop(&execution->link);
	condition_signal(&execution->changed);
	condition_signal(&execution->wake);
	condition_signal(&execution->all->changed);
	execution_unref(execution);
}

static struct execution_note *execution_note(struct execution *execution)
{
	struct execution_note *note;

	if (execution->note_count == EXECUTION_NOTES_MAX)
		return NULL;
	note = &execution->notes[execution->note_count++];
	*note = (struct execution_note){
		.at_ms = clock_steady_ms(),
		.duration_ms = -1,
		.attempt = execution->attempt_count,
	};
	return note;
}

static void execution_end_step(struct execution *execution)
{
	struct execution_note *last = execution->note_count
					      ? &execution->notes[execution->note_count - 1]
					      : NULL;

	if (last && last->is_step && last->duration_ms < 0)
		last->duration_ms = clock_steady_ms() - last->at_ms;
}

void execution_note_state(struct execution *execution, const char *reason)
{
	struct execution_note *note;

	execution_end_step(execution);
	note = execution_note(execution);
	if (!note)
		return;
	snprintf(note->name, sizeof(note->name), "%s", execution_state_word(execution->state));
	snprintf(note->reason, sizeof(note->reason), "%s", reason ? reason : "");
}

void execution_note_step(struct execution *execution, const char *step)
{
	struct execution_note *note;

	execution_end_step(execution);
	note = execution_note(execution);
	if (!note)
		return;
	note->is_step = true;
	snprintf(note->name, sizeof(note->name), "%s", step);
	condition_signal(&execution->changed);
}

struct executions_view executions_look(const struct executions *executions, const struct who *who)
{
	size_t counts[EXECUTION_STATE_COUNT] = {0};

	list_each (at, &executions->live) {
		const struct execution *execution = link_of(at, struct execution, link);

		if (!who || access_sees(who, execution->tenant, ""))
			counts[execution->state]++;
	}
	return (struct executions_view){counts[EXECUTION_QUEUED], counts[EXECUTION_INITIALIZING],
					counts[EXECUTION_READY], counts[EXECUTION_RUNNING]};
}

// -------------------------------------------------------------------------------- lookup

struct execution *executions_live(const struct executions *executions, const struct who *who,
				  struct str id)
{
	struct execution *execution = map_get(executions->by_id, id);

	if (!execution || !access_sees(who, execution->tenant, ""))
		return NULL;
	execution_ref(execution);
	return execution;
}

fallible executions_past(struct executions *executions, const struct who *who, struct str id,
			 struct arena *arena, struct store_execution *out)
{
	struct store_execution *row = NULL;

	TRY(access_ask(who, ACCESS_READ));
	if (id.len == EXECUTION_ID_LEN && str_starts(id, "exe-"))
		TRY(store_executions_get(executions->options.store, arena_dup(arena, id.at, id.len),
					 arena, &row));
	if (!row || !access_sees(who, row->tenant, ""))
		return execution_absent(id);
	if (row->unreadable)
		return err_new(UNAVAILABLE, "state_corrupt", "the record cannot be read");
	*out = *row;
	return OK;
}

// The position in the queue is of now; everything else was committed.
static void execution_write_shown(struct json_out *out, const struct execution *execution)
{
	if (execution->state == EXECUTION_QUEUED && execution->phase == EXECUTION_LIVE)
		execution_write(out, execution);
	else
		json_add_raw(out, execution->shown);
}

fallible executions_write(struct executions *executions, const struct who *who, struct str id,
			  struct json_out *out)
{
	auto_execution live = executions_live(executions, who, id);
	auto_arena arena = arena_new();
	struct store_execution row = {0};

	TRY(access_ask(who, ACCESS_READ));
	if (live) {
		execution_write_shown(out, live);
		return OK;
	}
	TRY(executions_past(executions, who, id, arena, &row));
	json_add_raw(out, row.record);
	return OK;
}

// After a restart the sandbox and its command are known in a moment; likewise at the start of a
// command.
static void execution_settle(struct execution *execution)
{
	int64_t until = loop_now(execution->all->loop) + SETTLE_MS;
	bool late = false;

	while (!late && (execution->phase == EXECUTION_ADOPTING ||
			 (execution->has_command && execution->lease.state == LEASE_ACTIVE &&
			  !execution->proc))) {
		auto_err err = condition_wait(&execution->changed, until);

		late = err != NULL;
	}
}

fallible executions_place(struct executions *executions, const struct who *who, struct str id,
			  struct execution_place *out)
{
	auto_execution live = executions_live(executions, who, id);
	auto_arena arena = arena_new();
	struct execution *past = NULL;
	struct store_execution row = {0};

	*out = (struct execution_place){0};
	TRY(access_ask(who, ACCESS_READ));
	if (live) {
		execution_settle(live);
		snprintf(out->tenant, sizeof(out->tenant), "%s", live->tenant);
		out->attempts = live->attempt_count;
		out->ended = live->stored >= EXECUTION_COMPLETED;
		out->unknown = live->phase == EXECUTION_ADOPTING;
		if (execution_box(live))
			snprintf(out->box, sizeof(out->box), "%s", execution_box(live));
		out->proc = live->proc;
		if (out->proc)
			proc_ref(out->proc);
		return OK;
	}
	TRY(executions_past(executions, who, id, arena, &row));
	snprintf(out->tenant, sizeof(out->tenant), "%s", row.tenant);
	past = execution_new(executions);
	if (execution_load(past, &row.record, &row.inner))
		out->attempts = past->attempt_count;
	out->ended = true;
	execution_unref(past);
	return OK;
}

static fallible executions_drop_row(struct executions *executions, const char *tenant,
				    const char *id)
{
	uint64_t bytes;

	if (executions->options.results)
		TRY(results_drop(executions->options.results, tenant, id));
	TRY(store_executions_drop(executions->options.store, id, &bytes));
	accounts_get(&executions->options.manager->accounts, tenant)->used.requests -= bytes;
	return OK;
}

fallible executions_delete(struct executions *executions, const struct who *who, struct str id)
{
	auto_execution live = executions_live(executions, who, id);
	int64_t until = loop_now(executions->loop) + GONE_MS;
	auto_arena arena = arena_new();
	struct store_execution row = {0};

	TRY(access_ask(who, ACCESS_MAKE));
	if (live && live->stored < EXECUTION_COMPLETED)
		return err_hint(err_new(CONFLICT, "not_ended", "the execution has not ended"),
				"cancel it first");
	while (live && live->phase != EXECUTION_GONE)
		TRY(condition_wait(&live->changed, until), "wait for the end of its sandbox");
	TRY(executions_past(executions, who, id, arena, &row));
	TRY(executions_drop_row(executions, row.tenant, row.id));
	log_event(LOG_INFO, "execution.deleted", "execution", row.id, NULL);
	return OK;
}

fallible executions_drop_tenant(struct executions *executions, const char *tenant)
{
	const struct store_executions_ask ask = {.tenant = tenant, .max = SCAN_BATCH};
	size_t count, live = 0;

	list_each (at, &executions->live)
		live += !strcmp(link_of(at, struct execution, link)->tenant, tenant);
	if (live)
		return err_hint(err_new(CONFLICT, "tenant_in_use",
					"the tenant has %zu executions that have not ended", live),
				"cancel them first");
	do {
		auto_arena arena = arena_new();
		struct store_execution *rows = NULL;

		TRY(store_executions_page(executions->options.store, &ask, arena, &rows, &count),
		    "list the executions of a tenant");
		for (size_t i = 0; i < count; i++)
			TRY(executions_drop_row(executions, tenant, rows[i].id),
			    "remove an execution of a tenant");
	} while (count);
	return OK;
}

// ---------------------------------------------------------------------------------- list

static const char *executions_text(struct arena *arena, struct str text)
{
	return text.len ? arena_dup(arena, text.at, text.len) : NULL;
}

// Filters that the store does not have.
static bool executions_matches(const struct executions_filter *filter, struct str record)
{
	struct str rest = filter->label, name, type;
	auto_json json = NULL;
	auto_err err = OK;

	if (!filter->label.len && !filter->agent_type.len)
		return true;
	err = json_read_any(record, &json);
	if (err)
		return false;
	type = json_chars(json_get(json, "agentType"));
	if (filter->agent_type.len && !str_eq(type, filter->agent_type))
		return false;
	if (!filter->label.len)
		return true;
	str_cut(&rest, '=', &name);
	auto_free char *key = mem_dup(name.at, name.len);
	const struct json *value = json_get(json_get(json, "labels"), key);

	return value && (!rest.at || str_eq(json_chars(value), rest));
}

// A key for one sandbox sees no execution, as executions_get() has it.
static fallible executions_ask_list(const struct who *who)
{
	TRY(access_ask(who, ACCESS_READ));
	if (access_sees(who, who->tenant, ""))
		return OK;
	return err_hint(err_new(FORBIDDEN, "not_allowed", "this key is for one sandbox"),
			"use a key of the tenant");
}

fallible executions_write_page(struct executions *executions, const struct who *who,
			       const struct executions_filter *filter, struct json_out *out)
{
	auto_arena texts = arena_new();
	struct store_executions_ask ask = {
		.tenant = who->role == WHO_OPERATOR ? NULL : who->tenant,
		.state = executions_text(texts, filter->state),
		.profile = executions_text(texts, filter->profile),
		.task = executions_text(texts, filter->task),
		.before = executions_text(texts, filter->cursor),
		.max = filter->max < SCAN_BATCH && !filter->label.len && !filter->agent_type.len
			       ? filter->max
			       : SCAN_BATCH,
	};
	size_t count = 0, scanned = 0, got;
	bool full = false;

	TRY(executions_ask_list(who));
	json_begin(out, '{');
	json_put_begin(out, "items", '[');
	do {
		auto_arena arena = arena_new();
		struct store_execution *rows = NULL;

		TRY(store_executions_page(executions->options.store, &ask, arena, &rows, &got));
		for (size_t i = 0; i < got && count < filter->max && !full; i++, scanned++) {
			const struct execution *live = map_get(executions->by_id,
							       str_of(rows[i].id));

			ask.before = executions_text(texts, str_of(rows[i].id));
			if (rows[i].unreadable || !executions_matches(filter, rows[i].record))
				continue;
			if (live)
				execution_write_shown(out, live);
			else
				json_add_raw(out, rows[i].record);
			count++;
			full = out->buf->len >= PAGE_BYTES;
		}
	} while (got == ask.max && count < filter->max && !full && scanned < SCAN_MAX);
	json_end(out, ']');
	json_put_text(out, "cursor",
		      got == ask.max || count == filter->max || full ? ask.before : NULL);
	json_end(out, '}');
	return OK;
}

// --------------------------------------------------------------------------- wait, events

static bool execution_is_at(const struct execution *execution, enum execution_until until)
{
	static const enum execution_state least[] = {
		[UNTIL_READY] = EXECUTION_READY,
		[UNTIL_RUNNING] = EXECUTION_RUNNING,
		[UNTIL_DONE] = EXECUTION_COMPLETED,
	};

	return execution->stored >= least[until];
}

fallible execution_wait(struct execution *execution, enum execution_until until, int64_t deadline)
{
	while (!execution_is_at(execution, until))
		TRY(condition_wait(&execution->changed, deadline));
	return OK;
}

void execution_await_gone(struct execution *execution, int64_t deadline)
{
	bool late = false;

	while (!late && execution->phase != EXECUTION_GONE && !execution->gone_ms) {
		auto_err err = condition_wait(&execution->changed, deadline);

		late = err != NULL;
	}
}

fallible executions_open_any(struct executions *executions, const struct who *who, struct str id,
			     struct execution **out)
{
	auto_arena arena = arena_new();
	struct store_execution row = {0};
	auto_execution past = NULL;

	*out = executions_live(executions, who, id);
	if (*out)
		return OK;
	TRY(executions_past(executions, who, id, arena, &row));
	past = execution_new(executions);
	past->phase = EXECUTION_GONE;
	if (!execution_load(past, &row.record, &row.inner))
		return err_new(UNAVAILABLE, "state_corrupt", "the record cannot be read");
	*out = take_ptr(past);
	return OK;
}

bool execution_next_event(const struct execution *execution, uint64_t after,
			  struct execution_event *out, struct json_out *json)
{
	const struct execution_note *note;

	if (after >= execution->note_count)
		return false;
	note = &execution->notes[after];
	*out = (struct execution_event){after + 1, note->is_step ? "step" : "state"};
	json_begin(json, '{');
	json_put_text(json, "type", out->type);
	json_put_int(json, "id", (int64_t)out->id);
	json_put_time(json, "at", note->at_ms);
	json_put_int(json, "attempt", note->attempt);
	json_put_text(json, note->is_step ? "name" : "state", note->name);
	if (!note->is_step)
		json_put_text(json, "reason", note->reason[0] ? note->reason : NULL);
	json_end(json, '}');
	return true;
}

fallible execution_await_event(struct execution *execution, uint64_t after, bool *out_more)
{
	while (after >= execution->note_count && execution->stored < EXECUTION_COMPLETED)
		TRY(condition_wait(&execution->changed, CLOCK_NEVER));
	*out_more = after < execution->note_count;
	return OK;
}
