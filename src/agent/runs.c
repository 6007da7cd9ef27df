// Runs and their logs. A run is committed before a client is told, and so is its end. The log is
// for readers: one line of JSON per event, on its own tape, by byte offset; the line of type "end"
// is the last. A crash between the commit of an end and its line is repaired when the log is next
// opened.
//
// A line that finds no space still goes to attached readers, and the run goes on. The next stored
// line is preceded by one of type "truncated". The file may then end in half of a long line:
// "truncated" begins with a newline, and agent_log_line_is_whole() detects the half.
#include "agent/runs.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/logs.h"
#include "agent/persist.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "types/timers.h"

#define LOG_CAP (64ull << 20)
#define LINE_MAX (AGENT_INPUT_MAX * 2 + 4096)
#define TAIL (256 * 1024)
#define PAGE_BATCH 8
#define END_MARK "{\"type\":\"end\","

struct run *runs_new(struct agent_session *agent, const struct agent_run_spec *spec)
{
	struct run *run = mem_new_of(struct run);

	run->agent = agent;
	memcpy(run->id, "run_", 4);
	secret_hex(run->id + 4, 16);
	run->state = RUN_QUEUED;
	run->input = (struct str){mem_dup(spec->input.at, spec->input.len), spec->input.len};
	for (size_t i = 0; spec->env && i < spec->env->count; i++)
		env_map_set(&run->env, str_of(spec->env->at[i].name),
			    str_of(spec->env->at[i].value));
	run->timeout_ms = spec->timeout_ms;
	run->created_ms = agents_now(agent->agents);
	runs_weigh(run);
	return run;
}

struct run_before runs_mark(const struct run *run)
{
	return (struct run_before){run->state,		run->started_ms, run->ended_ms,
				   run->deadline_ms,	run->grace_ms,	 run->generation,
				   run->run_generation, run->tries,	 run->active};
}

void runs_undo(struct run *run, const struct run_before *before)
{
	run->state = before->state;
	run->started_ms = before->started_ms;
	run->ended_ms = before->ended_ms;
	run->deadline_ms = before->deadline_ms;
	run->grace_ms = before->grace_ms;
	run->generation = before->generation;
	run->run_generation = before->run_generation;
	run->tries = before->tries;
	run->active = before->active;
}

void runs_set_end(struct run *run, const struct run_end *end)
{
	run->state = end->state;
	run->ended_ms = agents_now(run->agent->agents);
	run->deadline_ms = run->grace_ms = 0;
	run->question[0] = '\0';
	snprintf(run->code, sizeof(run->code), "%s", end->code ? end->code : "");
	free(run->message);
	run->message = end->message ? mem_str(end->message) : NULL;
}

void runs_set_taken(struct run *run)
{
	struct agent_session *agent = run->agent;

	run->state = RUN_RUNNING;
	run->started_ms = agents_now(agent->agents);
	run->deadline_ms = run->timeout_ms ? run->started_ms + (int64_t)run->timeout_ms : 0;
	run->generation = agent->lease.generation;
	run->run_generation = agent->lease.run_generation;
	snprintf(run->instance, sizeof(run->instance), "%s", agent->lease.instance);
}

void runs_put_number(struct json_out *out, const char *key, int64_t value)
{
	json_key(out, key);
	if (value)
		json_add_int(out, value);
	else
		json_add_null(out);
}

static int64_t blocked_until(const struct run *run)
{
	const struct lease *lease = &run->agent->lease;

	return run->state == RUN_QUEUED && lease_is_fenced(lease) ? lease_deadline(lease) : 0;
}

static void runs_put_head(struct json_out *out, const struct run *run, const struct who *who)
{
	enum run_state state = run->stored; // a state is not shown before it is durable

	json_put_text(out, "id", run->id);
	json_put_text(out, "session", agent_name(run->agent, who));
	json_put_text(out, "state", runs_state_word(state));
	runs_put_number(out, "created_at", run->created_ms);
	runs_put_number(out, "started_at", state == RUN_QUEUED ? 0 : run->started_ms);
	runs_put_number(out, "ended_at", state >= RUN_COMPLETED ? run->ended_ms : 0);
	runs_put_number(out, "blocked_until", blocked_until(run));
	json_put_text(out, "instance_id", *run->instance ? run->instance : NULL);
	runs_put_number(out, "generation", (int64_t)run->generation);
}

static void runs_put_error(struct json_out *out, const struct run *run)
{
	json_key(out, "error");
	if (run->stored >= RUN_COMPLETED && run->code[0]) {
		json_begin(out, '{');
		json_put_text(out, "code", run->code);
		json_put_text(out, "message", run->message);
		json_end(out, '}');
	} else {
		json_add_null(out);
	}
}

void runs_write(struct json_out *out, const struct run *run, const struct who *who)
{
	json_begin(out, '{');
	runs_put_head(out, run, who);
	json_key(out, "question");
	if (run->question[0] && run->asked)
		json_add_raw(out, str_of(run->asked));
	else
		json_add_null(out);
	json_key(out, "result");
	if (run->stored >= RUN_COMPLETED && run->result.at)
		json_add_raw(out, run->result);
	else
		json_add_null(out);
	runs_put_error(out, run);
	json_end(out, '}');
}

// ------------------------------------------------------------------------------ the log

static char *log_name(const struct agent_session *agent, const char *id)
{
	return mem_fmt("%s/%s", agent->directory, id);
}

static void open_log(struct run *run)
{
	struct agent_sessions *agents = run->agent->agents;
	auto_free char *name = log_name(run->agent, run->id);
	struct tape_label label = {
		.id = str_of(run->id),
		.command = STR("run"),
		.started_ms = run->created_ms,
		.cap = LOG_CAP,
	};

	run->log = tape_new_named(agents->loop, agents->dir, name);
	tape_leave(run->log);
	tape_set_label(run->log, &label);
	logs_bind(run->agent, run->log);
	run->log_state = RUN_LOG_OPEN;
}

// The last lines of a log. A line that began before them is skipped: only the beginning of a line
// is written by cove; the rest is the runner's, and may imitate it.
static void read_tail(struct tape *tape, struct buf *out)
{
	uint64_t kept = tape_kept(tape), at = kept > TAIL ? kept - TAIL : 0;
	bool cut = at > 0;
	auto_free char *room = mem_new(32768);

	while (at < kept) {
		enum tape_stream stream;
		size_t got = 0;
		auto_err err = tape_read(tape, &at, &stream, room, 32768, &got, 0);

		if (err || !got)
			break;
		buf_add(out, room, got);
	}
	if (cut && out->len) {
		const char *end = memchr(out->at, '\n', out->len);

		buf_drop_front(out, end ? (size_t)(end + 1 - out->at) : out->len);
	}
}

// {"type":"…","time":…,"run":"…","seq":…: 0 without a seq.
static uint64_t seq_of(struct str line)
{
	static const char run[] = ",\"run\":\"", seq[] = "\",\"seq\":";
	const char *at = line.len ? memmem(line.at, line.len, run, strlen(run)) : NULL;
	struct str rest = at ? str_skip(line, (size_t)(at - line.at) + strlen(run)) : STR("");

	if (rest.len <= LEASE_RUN_LEN || !str_starts(str_skip(rest, LEASE_RUN_LEN), seq))
		return 0;
	return strtoull(rest.at + LEASE_RUN_LEN + strlen(seq), NULL, 10);
}

static uint64_t last_seq(struct tape *tape)
{
	auto_buf tail = BUF_INIT(TAIL + 65536);
	struct str rest, line;
	uint64_t last = 0;

	read_tail(tape, &tail);
	rest = buf_view(&tail);
	while (rest.len && str_cut(&rest, '\n', &line)) {
		uint64_t seq = seq_of(line);

		last = seq > last ? seq : last;
	}
	return last;
}

static bool has_end(struct tape *tape)
{
	auto_buf tail = BUF_INIT(TAIL + 65536);
	struct str rest, line;

	read_tail(tape, &tail);
	rest = buf_view(&tail);
	while (rest.len && str_cut(&rest, '\n', &line))
		if (str_starts(line, END_MARK))
			return true;
	return false;
}

// An unreadable log is not an empty one: it is not started again.
static fallible take_up_log(struct run *run)
{
	struct agent_session *agent = run->agent;
	auto_free char *name = log_name(agent, run->id);
	struct tape *tape = NULL;
	struct tape_label label;
	uint64_t seq = 0;

	run->log_state = RUN_LOG_OPENING;
	auto_err err = tape_open(agent->agents->loop, agent->agents->dir, name, &tape, &label);
	if (!err) {
		tape_leave(tape);
		logs_bind(agent, tape);
		seq = last_seq(tape);
		run->seq = seq > run->seq ? seq : run->seq;
		run->unkept = tape_truncated(tape, TAPE_STDOUT);
		run->log = tape;
		run->log_state = RUN_LOG_OPEN;
	} else if (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_INVALID) {
		err_free(take_ptr(err)); // nothing was written to it yet
		run->log_state = RUN_LOG_NONE;
	} else {
		run->log_state = RUN_LOG_CLOSED;
	}
	condition_signal(&agent->changed);
	return take_ptr(err);
}

// Only the actor may wait for another opener: no other task keeps the run alive.
fallible runs_log_resume(struct run *run)
{
	while (run->log_state == RUN_LOG_OPENING)
		condition_await(&run->agent->changed);
	if (run->log_state == RUN_LOG_CLOSED)
		TRY(take_up_log(run), "open the log of a run");
	if (run->log_state == RUN_LOG_NONE)
		open_log(run);
	return OK;
}

// False: half of a line, whose rest was not stored. The half consists of whole frames of the tape.
bool agent_log_line_is_whole(struct str line)
{
	auto_json json = NULL;

	if (!line.len || line.len % TAPE_FRAME_MAX)
		return line.len > 0;
	auto_err err = json_read_any(line, &json);

	return !err;
}

// Attached readers had the lines; later readers are told that some are missing.
static fallible mark_cut(struct run *run, struct tape *log)
{
	char text[128];
	int len;

	if (!run->unkept || !tape_takes(log))
		return OK;
	len = snprintf(text, sizeof(text), AGENT_CUT_MARK "\"time\":%lld,\"run\":\"%s\"}\n",
		       (long long)clock_wall_ms(), run->id);
	TRY(tape_add(log, TAPE_STDOUT, text, (size_t)len));
	run->unkept = tape_lacks_room(log);
	return OK;
}

static fallible runs_put_line(struct run *run, struct tape *log, const struct buf *line)
{
	TRY(mark_cut(run, log));
	if (buf_ok(line))
		TRY(tape_add(log, TAPE_STDOUT, line->at, line->len));
	if (tape_lacks_room(log) && !run->unkept)
		tape_mark_cut(log);
	run->unkept |= tape_lacks_room(log);
	return OK;
}

// A log with a write error is closed: readers reconnect, and the next line opens it again after its
// last complete line.
static fallible runs_add_line(struct run *run, const struct buf *line)
{
	struct err *err = OK;
	auto_tape log = NULL; // a failure elsewhere may close it meanwhile

	err = runs_log_resume(run);
	if (!err) {
		log = run->log;
		tape_ref(log);
	}
	if (!err)
		err = runs_put_line(run, log, line);
	if (!err)
		return OK;
	log_event(LOG_WARN, "run.log", "session", run->agent->id, "run", run->id, "trail",
		  err_trail(err), NULL);
	if (log && run->log == log) {
		tape_end(log);
		tape_unref(take_ptr(run->log));
		run->log_state = RUN_LOG_CLOSED;
	}
	return err;
}

fallible runs_log_line(struct run *run, const char *type, struct str more)
{
	auto_buf line = BUF_INIT(LINE_MAX);
	struct json_out out = json_to(&line);

	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	json_put_int(&out, "time", clock_wall_ms());
	json_put_text(&out, "run", run->id);
	if (more.len) {
		buf_char(&line, ',');
		buf_str(&line, more);
	}
	json_end(&out, '}');
	buf_char(&line, '\n');
	return runs_add_line(run, &line);
}

void runs_log(struct run *run, const char *type, struct str more)
{
	err_free(runs_log_line(run, type, more));
}

void runs_log_state(struct run *run)
{
	char more[64];

	snprintf(more, sizeof(more), "\"state\":\"%s\"", runs_state_word(run->state));
	runs_log(run, "state", str_of(more));
}

void runs_log_step(struct run *run, const char *step)
{
	char more[64];

	snprintf(more, sizeof(more), "\"step\":\"%s\"", step);
	runs_log(run, "step", str_of(more));
}

void runs_log_end(struct run *run)
{
	auto_buf more = BUF_INIT(LINE_MAX);
	struct json_out out = json_to(&more);

	json_put_text(&out, "state", runs_state_word(run->state));
	json_key(&out, "result");
	if (run->result.at)
		json_add_raw(&out, run->result);
	else
		json_add_null(&out);
	json_put_text(&out, "code", run->code[0] ? run->code : NULL);
	json_put_text(&out, "message", run->message);
	runs_log(run, "end", buf_view(&more));
	if (!run->log)
		return; // the next opener writes the end
	tape_end(run->log);
	if (run->unkept)
		return; // likewise
	err_free(tape_seal(run->log, &(struct tape_ending){.ended_ms = run->ended_ms}));
}

// A run of the store, in memory only; NULL: its record does not parse. The caller frees it.
static struct run *runs_past(struct agent_session *agent, const struct store_agent *row)
{
	struct run *run = mem_new_of(struct run);

	run->agent = agent;
	if (persist_agent_read_run(row, run))
		return run;
	runs_free(run);
	return NULL;
}

// Writes the last line of an ended run's log that was cut off before it.
static fallible finish_log(struct agent_session *agent, const char *id, struct tape *tape)
{
	auto_arena arena = arena_new();
	struct store_agent *row = NULL;
	struct run *run;

	if (tape_has_ended(tape))
		return OK;
	TRY(store_agent_get(agent->agents->store, STORE_RUN, id, arena, &row));
	run = row ? runs_past(agent, row) : NULL;
	if (run && runs_is_over(run)) {
		tape_ref(tape);
		run->log = tape;
		run->log_state = RUN_LOG_OPEN;
		run->unkept = tape_truncated(tape, TAPE_STDOUT);
		if (has_end(tape))
			tape_end(tape);
		else
			runs_log_end(run);
	}
	runs_free(run);
	return OK;
}

struct run *runs_find(const struct agent_session *agent, struct str id)
{
	list_each (at, &agent->runs) {
		struct run *run = link_of(at, struct run, link);

		if (str_is(id, run->id))
			return run;
	}
	return NULL;
}

fallible agent_log(struct agent_session *agent, struct str id, struct tape **out)
{
	auto_free char *name = NULL;
	auto_free char *key = mem_dup(id.at, id.len);
	struct tape_label label;
	struct tape *tape = NULL;
	struct run *run;
	struct err *err;

	while ((run = runs_find(agent, id)) && run->log_state == RUN_LOG_OPENING)
		TRY(condition_wait(&agent->changed, CLOCK_NEVER));
	if (run) {
		TRY(runs_log_resume(run));
		tape_ref(run->log);
		*out = run->log;
		return OK;
	}
	if (id.len != LEASE_RUN_LEN || !str_starts(id, "run_") || memchr(id.at, '/', id.len))
		return err_absent("no_run", "run", id);
	name = log_name(agent, key);
	err = tape_open(agent->agents->loop, agent->agents->dir, name, &tape, &label);
	if (err && (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_INVALID)) {
		err_free(err);
		return err_absent("no_run", "run", id);
	}
	TRY(err, "open the log of a run");
	tape_leave(tape);
	logs_bind(agent, tape);
	err = finish_log(agent, key, tape);
	if (err) {
		tape_unref(tape);
		return err;
	}
	*out = tape;
	return OK;
}

void runs_remove_logs(struct agent_session *agent)
{
	tape_remove_folder(agent->agents->loop, agent->agents->dir, agent->directory);
	logs_removed(agent);
}

// -------------------------------------------------------------------------------- shown

fallible agent_write_run(struct agent_session *agent, const struct who *who, struct str id,
			 struct json_out *out)
{
	const struct run *open = runs_find(agent, id);
	auto_arena arena = NULL;
	struct store_agent *row = NULL;
	struct run *past;

	if (open) {
		runs_write(out, open, who);
		return OK;
	}
	arena = arena_new();
	TRY(store_agent_get(agent->agents->store, STORE_RUN, arena_dup(arena, id.at, id.len), arena,
			    &row));
	if (!row || strcmp(row->session, agent->key) != 0)
		return err_absent("no_run", "run", id);
	past = runs_past(agent, row);
	if (!past)
		return err_new(INTERNAL, "run_unreadable", "the record of the run does not parse");
	runs_write(out, past, who);
	runs_free(past);
	return OK;
}

// A run that has not ended is shown from memory.
static void runs_write_row(struct json_out *out, struct agent_session *agent, const struct who *who,
			   const struct store_agent *row)
{
	const struct run *open = runs_find(agent, str_of(row->id));
	struct run *past = open ? NULL : runs_past(agent, row);

	if (open || past) {
		json_begin(out, '{');
		runs_put_head(out, open ? open : past, who);
		runs_put_error(out, open ? open : past);
		json_end(out, '}');
	}
	runs_free(past);
}

// Rows are read a few at a time, since each may hold a large input and result.
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
		size_t want = max - count < PAGE_BATCH ? max - count : PAGE_BATCH;

		got = 0;
		TRY(store_agent_runs_page(agent->agents->store, agent->key, last, want, arena,
					  &rows, &got));
		for (size_t i = 0; i < got; i++)
			runs_write_row(out, agent, who, &rows[i]);
		count += got;
		if (got) {
			free(last);
			last = mem_str(rows[got - 1].id);
		}
	} while (got == PAGE_BATCH && count < max);
	json_end(out, ']');
	json_put_text(out, "cursor", count == max ? last : NULL);
	json_end(out, '}');
	return OK;
}
