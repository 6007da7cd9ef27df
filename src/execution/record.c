// The record of an execution: as clients see it (times in ISO 8601), and what the next daemon needs
// to go on. Both are written together, in one row; what clients are shown is always what was
// committed last.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/faults.h"
#include "base/mem.h"
#include "execution/private.h"
#include "store/executions.h"
#include "types/execution_end.h"

#define BODY_VERSION 1
#define RECORD_MAX (4u << 20)
#define NUMBER_MAX (1ull << 53)

const char *execution_state_word(enum execution_state state)
{
	static const char *const words[] = {
#define X(name, word) [EXECUTION_##name] = word,
		EXECUTION_STATES(X)
#undef X
	};

	return words[state];
}

const char *execution_outcome_word(enum execution_outcome outcome)
{
	static const char *const words[] = {
#define X(name, word) [OUTCOME_##name] = word,
		EXECUTION_OUTCOMES(X)
#undef X
	};

	return words[outcome];
}

// --------------------------------------------------------------------------------- shown

static const char *record_or_null(const char *text)
{
	return text && text[0] ? text : NULL;
}

static void record_put_moment(struct json_out *out, const char *key, int64_t at_ms)
{
	if (at_ms)
		json_put_time(out, key, at_ms);
	else
		json_put_text(out, key, NULL);
}

// A negative number is unknown.
static void record_put_number(struct json_out *out, const char *key, int64_t value)
{
	json_key(out, key);
	if (value >= 0)
		json_add_int(out, value);
	else
		json_add_null(out);
}

static void record_put_span(struct json_out *out, const char *key, int64_t from, int64_t to)
{
	record_put_number(out, key, from && to ? (to > from ? to - from : 0) : -1);
}

static void record_put_attempts(struct json_out *out, const struct execution *execution)
{
	json_put_begin(out, "attempts", '[');
	for (uint32_t i = 0; i < execution->attempt_count; i++) {
		const struct execution_attempt *attempt = &execution->attempts[i];

		json_begin(out, '{');
		json_put_int(out, "number", i + 1);
		json_put_text(out, "sandbox", attempt->box);
		record_put_moment(out, "startedAt", attempt->started_ms);
		record_put_moment(out, "endedAt", attempt->ended_ms);
		json_put_text(out, "outcome",
			      record_or_null(execution_outcome_word(attempt->outcome)));
		json_end(out, '}');
	}
	json_end(out, ']');
}

static void record_put_steps(struct json_out *out, const struct execution *execution)
{
	json_put_begin(out, "steps", '[');
	for (uint32_t i = 0; i < execution->note_count; i++) {
		const struct execution_note *note = &execution->notes[i];

		if (!note->is_step)
			continue;
		json_begin(out, '{');
		json_put_text(out, "name", note->name);
		json_put_time(out, "at", note->at_ms);
		record_put_number(out, "durationMs", note->duration_ms);
		json_end(out, '}');
	}
	json_end(out, ']');
}

static void record_put_usage(struct json_out *out, const struct execution *execution)
{
	const struct execution_usage *usage = &execution->usage;

	json_key(out, "usage");
	if (!execution->measured) {
		json_add_null(out);
		return;
	}
	json_begin(out, '{');
	json_put_int(out, "cpuMs", (int64_t)usage->cpu_ms);
	json_put_int(out, "memoryPeakBytes", (int64_t)usage->memory_peak);
	json_put_int(out, "networkRequests", (int64_t)usage->network_requests);
	json_put_int(out, "bytesIn", (int64_t)usage->bytes_in);
	json_put_int(out, "bytesOut", (int64_t)usage->bytes_out);
	json_put_int(out, "storageBytes", (int64_t)usage->storage);
	json_end(out, '}');
}

static void record_put_durations(struct json_out *out, const struct execution *execution)
{
	json_put_begin(out, "durations", '{');
	record_put_span(out, "queuedMs", execution->created_ms,
			execution->dispatched_ms ? execution->dispatched_ms : execution->ended_ms);
	record_put_span(out, "provisionMs", execution->provisioned_ms, execution->ready_ms);
	record_put_span(out, "runMs", execution->ready_ms, execution->ended_ms);
	record_put_span(out, "cleanupMs", execution->ended_ms, execution->gone_ms);
	json_end(out, '}');
}

static void record_put_artifacts(struct json_out *out, const struct execution *execution)
{
	json_key(out, "artifacts");
	if (!execution->artifacts.missing) {
		json_add_null(out);
		return;
	}
	json_begin(out, '{');
	json_put_int(out, "count", execution->artifacts.count);
	json_put_int(out, "bytes", execution->artifacts.bytes);
	json_put_bool(out, "partial", execution->artifacts.partial);
	json_key(out, "missing");
	json_add_raw(out, str_of(execution->artifacts.missing));
	json_end(out, '}');
}

static void record_put_queue(struct json_out *out, const struct execution *execution)
{
	json_key(out, "queue");
	if (execution->state != EXECUTION_QUEUED) {
		json_add_null(out);
		return;
	}
	json_begin(out, '{');
	json_put_int(out, "position", queue_position(execution));
	json_put_text(out, "reason", execution->wait_reason);
	json_end(out, '}');
}

static void record_tell_exit(struct buf *text, const struct execution *execution)
{
	// A shell ends with 128 and the signal that its command died of.
	int shell = execution->exit_code > 128 ? execution->exit_code - 128 : 0;
	const char *name = sigabbrev_np(execution->signal ? execution->signal : shell);

	if (execution->signal)
		buf_fmt(text, "the command was killed by signal %d%s%s", execution->signal,
			name ? ", SIG" : "", name ? name : "");
	else if (execution->reason[0])
		buf_fmt(text, "the command could not be started: %s", execution->reason);
	else
		buf_fmt(text, "the command ended with status %d", execution->exit_code);
	if (shell && name && !execution->signal && !execution->reason[0])
		buf_fmt(text, ", as after signal %d, SIG%s", shell, name);
}

static void record_tell_failure(struct buf *text, const struct execution *execution)
{
	const struct profile_limits *limits = &execution->limits;
	static const char *const words[OUTCOME_COUNT] = {
		[OUTCOME_ARTIFACTS] = "required artifacts are missing",
		[OUTCOME_CANCELLED] = "it was cancelled",
		[OUTCOME_QUEUE_TIMEOUT] = "there was no room for it in the time that it may wait",
		[OUTCOME_INFRA] = "cove could not carry it out",
		[OUTCOME_REPORTED] = "its client reported a failure",
	};

	switch (execution->outcome) {
	case OUTCOME_EXIT:
		record_tell_exit(text, execution);
		return;
	case OUTCOME_MEMORY:
		buf_fmt(text, "its processes needed more memory than %llu MB",
			(unsigned long long)(limits->memory >> 20));
		return;
	case OUTCOME_CPU_TIME:
		buf_fmt(text, "its processes used their CPU time of %llu ms",
			(unsigned long long)limits->cpu_time_ms);
		return;
	case OUTCOME_TIMEOUT:
		buf_fmt(text, "it did not end within %llu ms",
			(unsigned long long)limits->wall_time_ms);
		return;
	case OUTCOME_NETWORK:
		buf_fmt(text, "a request over its budget of %llu was refused",
			(unsigned long long)limits->network_requests);
		return;
	case OUTCOME_STORAGE:
		buf_fmt(text, "its files needed more than %llu MB",
			(unsigned long long)(limits->storage >> 20));
		return;
	default:
		buf_text(text, words[execution->outcome] ? words[execution->outcome] : "it failed");
	}
	if (execution->reason[0])
		buf_fmt(text, ": %s", execution->reason);
}

// The error for people: a sentence and the last output, where stack traces are.
static void record_put_error(struct json_out *out, const struct execution *execution)
{
	auto_buf text = BUF_INIT(1024);

	json_key(out, "error");
	if (execution->state != EXECUTION_FAILED) {
		json_add_null(out);
		return;
	}
	record_tell_failure(&text, execution);
	json_begin(out, '{');
	json_put_str(out, "message", buf_view(&text));
	json_put_text(out, "output", execution->last_output);
	json_end(out, '}');
}

void execution_write(struct json_out *out, const struct execution *execution)
{
	const struct execution_attempt *last = execution_attempt((struct execution *)execution);

	json_begin(out, '{');
	json_put_text(out, "id", execution->id);
	json_put_text(out, "taskId", execution->task_id);
	json_put_text(out, "agentType", execution->agent_type);
	json_put_text(out, "profile", execution->profile);
	json_put_text(out, "state", execution_state_word(execution->state));
	json_put_text(out, "outcome", record_or_null(execution_outcome_word(execution->outcome)));
	record_put_number(out, "exitCode", execution->exit_code);
	record_put_number(out, "signal", execution->signal ? execution->signal : -1);
	json_put_text(out, "reason", record_or_null(execution->reason));
	record_put_error(out, execution);
	json_put_int(out, "attempt", execution->attempt_count);
	record_put_attempts(out, execution);
	json_put_text(out, "sandbox", last ? last->box : NULL);
	json_put_text(out, "image", execution->want.image);
	record_put_queue(out, execution);
	record_put_steps(out, execution);
	record_put_usage(out, execution);
	record_put_durations(out, execution);
	record_put_artifacts(out, execution);
	json_key(out, "limits");
	profile_write_limits(out, &execution->limits);
	json_key(out, "result");
	if (execution->result)
		json_add_raw(out, str_of(execution->result));
	else
		json_add_null(out);
	record_put_moment(out, "createdAt", execution->created_ms);
	record_put_moment(out, "startedAt", execution->ready_ms);
	record_put_moment(out, "endedAt", execution->ended_ms);
	json_put_text(out, "retryOf", execution->retry_of);
	json_put_text(out, "replayOf", execution->replay_of);
	json_key(out, "labels");
	env_map_write(out, &execution->labels);
	json_end(out, '}');
}

// ------------------------------------------------------------------- for the next daemon

// Numbers and texts of `inner`, each once.
static const struct record_number {
	const char *key;
	size_t at;
} record_numbers[] = {
#define AT(field) offsetof(struct execution, field)
	{"created", AT(created_ms)},
	{"dispatched", AT(dispatched_ms)},
	{"provisioned", AT(provisioned_ms)},
	{"ready", AT(ready_ms)},
	{"ended", AT(ended_ms)},
	{"gone", AT(gone_ms)},
	{"wall", AT(wall_at)},
	{"queue", AT(queue_at)},
	{"next", AT(next_at)},
};
static const struct record_number record_texts[] = {
	{"agentType", AT(agent_type)},
	{"taskId", AT(task_id)},
	{"retryOf", AT(retry_of)},
	{"replayOf", AT(replay_of)},
	{"mark", AT(mark)},
	{"result", AT(result)},
	{"missing", AT(artifacts.missing)},
	{"image", AT(want.image)},
	{"lastOutput", AT(last_output)},
};
static const struct record_number record_flags[] = {
	{"hasCommand", AT(has_command)},
	{"mustArtifacts", AT(must_artifacts)},
	{"begun", AT(begun)},
	{"byOperator", AT(by_operator)},
	{"measured", AT(measured)},
	{"partial", AT(artifacts.partial)},
	{"imagePinned", AT(want.is_pinned)},
	{"pullNever", AT(never_pull)},
};
static const struct record_number record_usage[] = {
	{"cpu", AT(usage.cpu_ms)},
	{"memory", AT(usage.memory_peak)},
	{"requests", AT(usage.network_requests)},
	{"in", AT(usage.bytes_in)},
	{"out", AT(usage.bytes_out)},
	{"storage", AT(usage.storage)},
};
#define EACH(row, rows)                                                                            \
	for (const struct record_number *row = (rows);                                             \
	     row < (rows) + sizeof(rows) / sizeof(*(rows)); row++)

static void *record_at(const struct execution *execution, const struct record_number *row)
{
	return (char *)execution + row->at;
}

static void record_save_lists(struct json_out *out, const struct execution *execution)
{
	json_put_begin(out, "attempts", '[');
	for (uint32_t i = 0; i < execution->attempt_count; i++) {
		const struct execution_attempt *attempt = &execution->attempts[i];

		json_begin(out, '[');
		json_add_text(out, attempt->box);
		json_add_int(out, attempt->started_ms);
		json_add_int(out, attempt->ended_ms);
		json_add_text(out, execution_outcome_word(attempt->outcome));
		json_end(out, ']');
	}
	json_end(out, ']');
	json_put_begin(out, "notes", '[');
	for (uint32_t i = 0; i < execution->note_count; i++) {
		const struct execution_note *note = &execution->notes[i];

		json_begin(out, '[');
		json_add_bool(out, note->is_step);
		json_add_text(out, note->name);
		json_add_text(out, note->reason);
		json_add_int(out, note->at_ms);
		json_add_int(out, note->duration_ms + 1); // never negative
		json_add_int(out, note->attempt);
		json_end(out, ']');
	}
	json_end(out, ']');
}

static void record_save(struct buf *buf, const struct execution *execution)
{
	struct json_out out = json_to(buf);
	auto_buf lease = BUF_INIT(8192);

	json_begin(&out, '{');
	json_put_int(&out, "v", BODY_VERSION);
	EACH(row, record_numbers)
	json_put_int(&out, row->key, *(int64_t *)record_at(execution, row));
	EACH(row, record_usage)
	json_put_int(&out, row->key, (int64_t)(*(uint64_t *)record_at(execution, row)));
	EACH(row, record_flags)
	json_put_bool(&out, row->key, *(bool *)record_at(execution, row));
	EACH(row, record_texts)
	json_put_text(&out, row->key, *(char **)record_at(execution, row));
	json_put_text(&out, "state", execution_state_word(execution->state));
	json_put_text(&out, "outcome", execution_outcome_word(execution->outcome));
	json_put_int(&out, "exit", execution->exit_code + 1);
	json_put_int(&out, "signal", execution->signal);
	json_put_text(&out, "reason", execution->reason);
	json_put_text(&out, "intent", execution_outcome_word(execution->intent));
	json_put_text(&out, "intentReason", execution->intent_reason);
	json_put_text(&out, "retry", job_retry_word(execution->retry));
	json_put_int(&out, "count", execution->artifacts.count);
	json_put_int(&out, "bytes", execution->artifacts.bytes);
	json_key(&out, "labels");
	env_map_write(&out, &execution->labels);
	json_key(&out, "limits");
	profile_write_limits(&out, &execution->limits);
	record_save_lists(&out, execution);
	lease_write(&lease, &execution->lease);
	json_put_str(&out, "lease", buf_view(&lease));
	json_end(&out, '}');
}

static int64_t record_span(int64_t from, int64_t to)
{
	return from && to > from ? to - from : 0;
}

// For rates and quantiles. How long the sandbox takes to go is not known yet.
static struct execution_end execution_ending(const struct execution *execution)
{
	struct execution_end end = {
		.completed = execution->outcome == OUTCOME_COMPLETED,
		.infrastructure = execution->outcome == OUTCOME_INFRA,
		.counted = execution->outcome != OUTCOME_CANCELLED,
		.ended_ms = execution->ended_ms,
		.queued_ms = record_span(execution->created_ms, execution->dispatched_ms),
		.provision_ms = record_span(execution->provisioned_ms, execution->ready_ms),
		.run_ms = record_span(execution->ready_ms, execution->ended_ms),
		.cleanup_ms = -1,
		.cpu_ms = execution->measured ? (int64_t)execution->usage.cpu_ms : -1,
		.memory_peak = execution->measured ? (int64_t)execution->usage.memory_peak : -1,
	};

	snprintf(end.id, sizeof(end.id), "%s", execution->id);
	snprintf(end.tenant, sizeof(end.tenant), "%s", execution->tenant);
	snprintf(end.type, sizeof(end.type), "%.*s", EXECUTION_TYPE_MAX, execution->profile);
	snprintf(end.outcome, sizeof(end.outcome), "%s",
		 execution_outcome_word(execution->outcome));
	return end;
}

void execution_show(struct execution *execution, struct buf *record)
{
	size_t len = record->len;

	free((char *)execution->shown.at);
	execution->shown = (struct str){buf_take(record), len};
}

fallible execution_commit(struct execution *execution, const struct execution_write *write)
{
	const char *repository = env_map_get(&execution->labels, STR(EXECUTION_REPOSITORY));
	auto_buf record = BUF_INIT(RECORD_MAX), inner = BUF_INIT(RECORD_MAX);
	struct json_out out = json_to(&record);
	struct store_execution row = {
		.id = execution->id,
		.tenant = execution->tenant,
		.profile = execution->profile,
		.task = execution->task_id ? execution->task_id : "",
		.repository = repository ? repository : "",
		.state = execution_state_word(execution->state),
		.outcome = execution_outcome_word(execution->outcome),
		.mark = execution->mark ? execution->mark : "",
		.made_ms = execution->created_ms,
		.ended_ms = execution->ended_ms,
		.cpu_ms = (int64_t)execution->usage.cpu_ms,
		.memory = (int64_t)execution->usage.memory_peak,
		.live = !execution_is_over(execution) || execution->lease.state != LEASE_NONE,
		.version = execution->version,
		.ends = execution_is_over(execution) || execution->intent,
	};

	struct execution_end end;
	bool is_new;

	if (execution->ready_ms && execution->ended_ms > execution->ready_ms)
		row.run_ms = execution->ended_ms - execution->ready_ms;
	execution_write(&out, execution);
	record_save(&inner, execution);
	if (!buf_ok(&record) || !buf_ok(&inner))
		return err_new(TOO_LARGE, "record_too_large", "the record is too large to store");
	row.record = buf_view(&record);
	row.inner = buf_view(&inner);
	TRY(faults_meet(FAULT_PERSIST, execution->id));
	if (execution_is_over(execution))
		end = execution_ending(execution);
	TRY(store_executions_put(execution->all->options.store,
				 &(struct store_execution_put){
					 .row = &row,
					 .request = write->request,
					 .end = execution_is_over(execution) ? &end : NULL,
					 .results = write->results,
					 .soon = write->soon,
				 }));
	is_new = execution->stored < EXECUTION_COMPLETED && execution_is_over(execution);
	execution->version++;
	execution->stored = execution->state;
	execution_show(execution, &record);
	if (is_new)
		execution_end_publish(&end);
	return OK;
}

// ---------------------------------------------------------------------------------- read

static bool record_number(const struct json *value, uint64_t max, uint64_t *out)
{
	auto_err err = json_u64(value, "number", 0, max, out);

	return !err;
}

static bool record_chars(const struct json *value, char *room, size_t size)
{
	struct str text = json_chars(value);

	if (text.len >= size)
		return false;
	snprintf(room, size, STR_FMT, STR_ARG(text));
	return true;
}

static bool record_load_state(const struct json *value, enum execution_state *out)
{
	for (int i = 0; i < EXECUTION_STATE_COUNT; i++) {
		*out = (enum execution_state)i;
		if (str_is(json_chars(value), execution_state_word(*out)))
			return true;
	}
	return false;
}

static bool record_load_outcome(const struct json *value, enum execution_outcome *out)
{
	for (int i = 0; i < OUTCOME_COUNT; i++) {
		*out = (enum execution_outcome)i;
		if (str_is(json_chars(value), execution_outcome_word(*out)))
			return true;
	}
	return false;
}

static bool record_load_retry(const struct json *value, enum job_retry *out)
{
	for (int i = 0; i < RETRY_COUNT; i++) {
		*out = (enum job_retry)i;
		if (str_is(json_chars(value), job_retry_word(*out)))
			return true;
	}
	return false;
}

static bool record_load_rows(const struct json *inner, struct execution *execution)
{
	bool good = true;

	EACH(row, record_numbers)
	{
		uint64_t value = 0;

		good &= record_number(json_get(inner, row->key), NUMBER_MAX, &value);
		*(int64_t *)record_at(execution, row) = (int64_t)value;
	}
	EACH(row, record_usage)
	good &= record_number(json_get(inner, row->key), NUMBER_MAX, record_at(execution, row));
	EACH(row, record_flags)
	{
		auto_err err = json_bool(json_get(inner, row->key), row->key,
					 record_at(execution, row));

		good &= !err;
	}
	EACH(row, record_texts)
	{
		struct str text = json_chars(json_get(inner, row->key));
		char **at = record_at(execution, row);

		free(*at);
		*at = json_get(inner, row->key) ? mem_dup(text.at, text.len) : NULL;
	}
	return good;
}

static bool record_load_words(const struct json *inner, struct execution *execution)
{
	uint64_t code = 0, signal = 0, count = 0, bytes = 0;
	bool good = record_load_state(json_get(inner, "state"), &execution->state) &&
		    record_load_outcome(json_get(inner, "outcome"), &execution->outcome) &&
		    record_load_outcome(json_get(inner, "intent"), &execution->intent) &&
		    record_load_retry(json_get(inner, "retry"), &execution->retry) &&
		    record_number(json_get(inner, "exit"), 1 << 20, &code) &&
		    record_number(json_get(inner, "signal"), 128, &signal) &&
		    record_number(json_get(inner, "count"), NUMBER_MAX, &count) &&
		    record_number(json_get(inner, "bytes"), NUMBER_MAX, &bytes) &&
		    record_chars(json_get(inner, "reason"), execution->reason,
				 sizeof(execution->reason)) &&
		    record_chars(json_get(inner, "intentReason"), execution->intent_reason,
				 sizeof(execution->intent_reason));

	execution->stored = execution->state;
	if (execution->never_pull)
		execution->want.pull = SPEC_PULL_NEVER;
	execution->exit_code = (int)code - 1;
	execution->signal = (int)signal;
	execution->artifacts.count = (int64_t)count;
	execution->artifacts.bytes = (int64_t)bytes;
	return good;
}

static bool record_load_attempts(const struct json *list, struct execution *execution)
{
	size_t count = list ? json_count(list) : 0;

	if (count > EXECUTION_TRIES_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct execution_attempt *attempt = &execution->attempts[i];
		const struct json *item = json_at(list, i);
		uint64_t started = 0, ended = 0;

		if (json_type(item) != JSON_ARRAY || json_count(item) != 4 ||
		    !record_chars(json_at(item, 0), attempt->box, sizeof(attempt->box)) ||
		    !record_number(json_at(item, 1), NUMBER_MAX, &started) ||
		    !record_number(json_at(item, 2), NUMBER_MAX, &ended) ||
		    !record_load_outcome(json_at(item, 3), &attempt->outcome))
			return false;
		attempt->started_ms = (int64_t)started;
		attempt->ended_ms = (int64_t)ended;
		execution->attempt_count++;
	}
	return true;
}

static bool record_load_notes(const struct json *list, struct execution *execution)
{
	size_t count = list ? json_count(list) : 0;

	if (count > EXECUTION_NOTES_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct execution_note *note = &execution->notes[i];
		const struct json *item = json_at(list, i);
		uint64_t at = 0, duration = 0, attempt = 0;

		if (json_type(item) != JSON_ARRAY || json_count(item) != 6 ||
		    !record_chars(json_at(item, 1), note->name, sizeof(note->name)) ||
		    !record_chars(json_at(item, 2), note->reason, sizeof(note->reason)) ||
		    !record_number(json_at(item, 3), NUMBER_MAX, &at) ||
		    !record_number(json_at(item, 4), NUMBER_MAX, &duration) ||
		    !record_number(json_at(item, 5), UINT32_MAX, &attempt))
			return false;
		err_free(json_bool(json_at(item, 0), "step", &note->is_step));
		note->at_ms = (int64_t)at;
		note->duration_ms = (int64_t)duration - 1;
		note->attempt = (uint32_t)attempt;
		execution->note_count++;
	}
	return true;
}

bool execution_load(struct execution *execution, const struct str *record, const struct str *inner)
{
	auto_json json = NULL;
	auto_err err = json_read_any(*inner, &json);
	uint64_t version = 0;
	auto_err bad = OK;

	if (err || json_type(json) != JSON_OBJECT ||
	    !record_number(json_get(json, "v"), BODY_VERSION, &version))
		return false;
	execution->shown = (struct str){mem_dup(record->at, record->len), record->len};
	bad = env_map_read_labels(json_get(json, "labels"), &execution->labels);
	return !bad && record_load_rows(json, execution) && record_load_words(json, execution) &&
	       profile_load_limits(json_get(json, "limits"), &execution->limits) &&
	       record_load_attempts(json_get(json, "attempts"), execution) &&
	       record_load_notes(json_get(json, "notes"), execution) &&
	       lease_read(json_chars(json_get(json, "lease")), &execution->lease);
}
