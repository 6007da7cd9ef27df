// Collects an attempt: the log is copied, with secrets masked, into a new tape that becomes a blob;
// artifacts become blobs; the caller's commit names them all. Blobs are held until the rows exist,
// so that nothing is removed in between. After a failure they are removed again, after a kill by
// the next daemon, which collects anew.
#include "agent/results.h"

#include <string.h>

#include "agent/log_reader.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/secret_text.h"
#include "codec/json.h"
#include "codec/pack.h"
#include "manager/publish.h"

#define WARN_PERCENT 80
#define RESULTS_WARNING "logs and artifacts of executions: past the cap the oldest are removed"
#define TIME_BYTES 16 // of a pair

// Values to be masked in the log of one attempt.
struct results_hidden {
	struct str *values;
	size_t count;
};

struct results {
	struct results_options options;
	struct blobs *blobs;
	struct map *hidden; // "TENANT/EXECUTION/ATTEMPT" -> struct results_hidden
	struct task *sweeper;
	struct condition swept;
	bool trimming, warned;
};

fallible results_open(const struct results_options *options, struct results **out)
{
	struct results *results = mem_new_of(struct results);
	struct blobs_options blobs = {
		.loop = options->loop,
		.store = options->store,
		.dir = options->dir,
		.output_of = options->output_of,
		.output_arg = options->output_arg,
	};

	results->options = *options;
	results->blobs = blobs_new(&blobs);
	results->hidden = map_new();
	condition_init(&results->swept);
	*out = results;
	return OK;
}

static void results_hidden_free(struct results_hidden *hidden)
{
	for (size_t i = 0; i < hidden->count; i++) {
		secret_text_free((char *)hidden->values[i].at);
	}
	free(hidden->values);
	free(hidden);
}

void results_free(struct results *results)
{
	struct str key;
	size_t at = 0;
	void *hidden;

	while (map_next(results->hidden, &at, &key, &hidden))
		results_hidden_free(hidden);
	map_free(results->hidden);
	blobs_free(results->blobs);
	free(results);
}

struct store *results_store(const struct results *results)
{
	return results->options.store;
}

struct blobs *results_blobs(const struct results *results)
{
	return results->blobs;
}

// ------------------------------------------------------------------------------- the cap

// Removes contents of the oldest attempts while all take more than the cap. One task at a time.
static void results_trim(struct results *results)
{
	uint64_t max = results->options.max;

	if (!max || results->trimming)
		return;
	results->trimming = true;
	if (blobs_bytes(results->blobs) > max / 100 * WARN_PERCENT && !results->warned) {
		alert_publish("results_near_cap", "warning", RESULTS_WARNING, NULL, NULL);
		results->warned = true;
	}
	while (max && blobs_bytes(results->blobs) > max) {
		auto_arena arena = arena_new();
		struct store_result oldest;
		struct store_blobs blobs;
		bool found = false;
		auto_err err = store_results_evict(results->options.store, arena, &oldest, &blobs,
						   &found);

		if (err || !found)
			break;
		log_event(LOG_INFO, "results.removed", "execution", oldest.execution, NULL);
		blobs_collect(results->blobs, blobs.at, blobs.count);
	}
	if (blobs_bytes(results->blobs) <= max / 100 * WARN_PERCENT && results->warned) {
		alert_clear("results_near_cap", RESULTS_WARNING, NULL);
		results->warned = false;
	}
	results->trimming = false;
}

static void results_sweep_task(void *arg)
{
	struct results *results = arg;

	task_shield(true);
	blobs_sweep(results->blobs);
	results_trim(results);
	results->sweeper = NULL;
	condition_signal(&results->swept);
}

void results_start(struct results *results)
{
	results->sweeper = task_start(results->options.loop, "results.sweep", results_sweep_task,
				      results);
}

void results_stop(struct results *results)
{
	while (results->sweeper)
		condition_await(&results->swept);
}

void results_configure(struct results *results, uint64_t max)
{
	results->options.max = max;
}

// ------------------------------------------------------------------------------- secrets

static char *results_key(const struct results_attempt *attempt)
{
	return mem_fmt("%s/%s/%u", attempt->tenant, attempt->execution, attempt->number);
}

static bool results_hidden_has(const struct results_hidden *hidden, struct str value)
{
	for (size_t i = 0; i < hidden->count; i++)
		if (str_eq(hidden->values[i], value))
			return true;
	return false;
}

void results_hide(struct results *results, const struct results_attempt *attempt,
		  const struct policy *policy)
{
	auto_free char *key = results_key(attempt);
	struct results_hidden *hidden = map_get(results->hidden, str_of(key));

	for (size_t i = 0; policy && i < policy->secret_count; i++) {
		struct str value = str_of(policy->secrets[i].value);

		if (!value.len || (hidden && (hidden->count == MASK_VALUES_MAX ||
					      results_hidden_has(hidden, value))))
			continue;
		if (!hidden) {
			hidden = mem_new_of(struct results_hidden);
			map_put(results->hidden, str_of(key), hidden);
		}
		hidden->values = mem_grow(hidden->values, hidden->count + 1,
					  sizeof(*hidden->values));
		hidden->values[hidden->count++] = (struct str){secret_text_new(value.at, value.len),
							       value.len};
	}
}

struct mask *results_mask(struct results *results, const struct results_attempt *attempt)
{
	auto_free char *key = results_key(attempt);
	const struct results_hidden *hidden = map_get(results->hidden, str_of(key));

	return hidden ? mask_new(hidden->values, hidden->count) : NULL;
}

static void results_unhide(struct results *results, const struct results_attempt *attempt)
{
	auto_free char *key = results_key(attempt);
	struct results_hidden *hidden = map_take(results->hidden, str_of(key));

	if (hidden)
		results_hidden_free(hidden);
}

// ------------------------------------------------------------------------------- the log

static struct str results_pack_times(const struct tape *tape, struct arena *arena)
{
	size_t count;
	const struct tape_time *times = tape_times(tape, &count);
	uint8_t *room = arena_take(arena, count * TIME_BYTES + 1);
	struct pack pack;

	pack_init(&pack, room, count * TIME_BYTES);
	for (size_t i = 0; i < count; i++) {
		pack_u64(&pack, times[i].offset);
		pack_u64(&pack, (uint64_t)times[i].ms);
	}
	return (struct str){(const char *)room, pack.len};
}

struct results_hashes {
	struct sha256 of[TAPE_STREAMS];
	uint64_t bytes[TAPE_STREAMS];
	struct buf last[TAPE_STREAMS];
};

static void results_keep_last(struct buf *last, struct str bytes)
{
	if (bytes.len > RESULTS_LAST)
		bytes = str_skip(bytes, bytes.len - RESULTS_LAST);
	if (last->len + bytes.len > RESULTS_LAST)
		buf_drop_front(last, last->len + bytes.len - RESULTS_LAST);
	buf_str(last, bytes);
}

static fallible results_copy_run(struct log_reader *reader, struct tape *to,
				 struct results_hashes *hashes)
{
	for (;;) {
		enum tape_stream stream = TAPE_STDOUT;
		struct str bytes;

		TRY(log_reader_next(reader, &stream, &bytes, CLOCK_NEVER));
		if (!bytes.len)
			return OK;
		sha256_add(&hashes->of[stream], bytes.at, bytes.len);
		hashes->bytes[stream] += bytes.len;
		results_keep_last(&hashes->last[stream], bytes);
		TRY(tape_add(to, stream, bytes.at, bytes.len));
	}
}

static fallible results_copy_log(struct tape *from, const struct mask *mask, struct tape *to,
				 struct results_hashes *hashes)
{
	struct tape_ending ending = {.ended_ms = clock_wall_ms()};
	struct err *err;
	auto_log_reader reader = {0};

	TRY(log_reader_begin(&reader, from, mask, 0, false));
	tape_begin(to);
	err = results_copy_run(&reader, to, hashes);
	tape_end(to);
	TRY(err);
	tape_ending_of(from, &ending);
	TRY(tape_seal(to, &ending));
	if (tape_kept(to) != tape_kept(from))
		return err_new(NO_SPACE, "no_space", "there is no room for the log");
	return OK;
}

// Makes the blob of the log; it is held.
static fallible results_make_log(struct results *results, const struct results_attempt *attempt,
				 struct tape *log, struct results_hashes *hashes,
				 char out_name[SHA256_HEX + 1], int64_t *out_bytes)
{
	struct tape_label label = {.id = str_of(attempt->execution),
				   .command = STR(""),
				   .started_ms = clock_wall_ms(),
				   .cap = UINT64_MAX};
	struct blob_upload *upload = NULL;
	uint64_t bytes = 0;
	struct mask *mask;
	struct tape *copy;
	struct err *err;

	TRY(blob_begin(results->blobs, false, &upload));
	mask = results_mask(results, attempt);
	copy = tape_new_named(results->options.loop, results->options.dir, blob_name(upload));
	tape_set_label(copy, &label);
	err = results_copy_log(log, mask, copy, hashes);
	tape_leave(copy); // its file is the blob
	tape_unref(copy);
	mask_free(mask);
	if (err) {
		blob_abort(upload);
		return err;
	}
	TRY(blob_finish(upload, attempt->tenant, out_name, &bytes));
	*out_bytes = (int64_t)bytes;
	return OK;
}

// Stores the log; a command without output needs no blob.
static fallible results_store_log(struct results *results, const struct results_attempt *attempt,
				  struct tape *log, struct arena *arena,
				  struct results_found *found)
{
	char *name = arena_take(arena, SHA256_HEX + 1), *hex[TAPE_STREAMS];
	struct store_result *out = &found->result;
	struct results_hashes hashes = {0};
	struct err *err = OK;

	for (int i = 0; i < TAPE_STREAMS; i++) {
		sha256_begin(&hashes.of[i]);
		hashes.last[i] = BUF_INIT(2 * RESULTS_LAST);
	}
	if (tape_kept(log))
		err = results_make_log(results, attempt, log, &hashes, name, &out->log_bytes);
	for (int i = TAPE_STREAMS - 1; i >= 0; i--) { // stderr comes first
		struct str last = buf_view(&hashes.last[i]);

		if (last.len && !found->last.len)
			found->last = (struct str){arena_dup(arena, last.at, last.len), last.len};
		buf_done(&hashes.last[i]);
	}
	TRY(err);
	for (int i = 0; i < TAPE_STREAMS; i++) {
		hex[i] = arena_take(arena, SHA256_HEX + 1);
		sha256_end(&hashes.of[i], hex[i]);
	}
	out->log = name;
	out->times = results_pack_times(log, arena);
	out->stdout_bytes = (int64_t)hashes.bytes[TAPE_STDOUT];
	out->stderr_bytes = (int64_t)hashes.bytes[TAPE_STDERR];
	out->stdout_written = (int64_t)tape_bytes(log, TAPE_STDOUT);
	out->stderr_written = (int64_t)tape_bytes(log, TAPE_STDERR);
	out->stdout_truncated = tape_truncated(log, TAPE_STDOUT);
	out->stderr_truncated = tape_truncated(log, TAPE_STDERR);
	out->stdout_sha256 = hex[TAPE_STDOUT];
	out->stderr_sha256 = hex[TAPE_STDERR];
	return OK;
}

fallible results_open_log(struct results *results, const struct store_result *result,
			  struct tape **out)
{
	auto_free char *path = NULL;
	struct tape_label label;
	struct err *err;

	if (!result->log[0] && result->removed)
		return err_hint(
			err_new(GONE, "results_removed",
				"the log was removed because all results took too much room"),
			"the operator sets the cap with `results_max`");
	if (!result->stdout_sha256[0])
		return err_new(NOT_FOUND, "no_log", "this attempt has no log");
	if (!result->log[0]) { // nothing was written
		*out = tape_new(results->options.loop, results->options.dir, 0);
		tape_end(*out);
		return OK;
	}
	blob_hold(results->blobs, result->tenant, result->log);
	path = blob_path(result->tenant, result->log);
	err = tape_open(results->options.loop, results->options.dir, path, out, &label);
	if (!err) {
		tape_leave(*out);
		return OK;
	}
	blob_release(results->blobs, result->tenant, result->log);
	if (err_kind(err) == ERR_NOT_FOUND)
		err = err_recast(err, ERR_INTERNAL, "log_lost", "the stored log is missing");
	return err;
}

void results_close_log(struct results *results, const struct store_result *result, struct tape *log)
{
	tape_unref(log);
	if (result->log[0])
		blob_release(results->blobs, result->tenant, result->log);
}

// ------------------------------------------------------------------------------- collect

static const char *results_missing(const char *const *globs, struct arena *arena)
{
	auto_buf text = BUF_INIT(8u << 20);
	struct json_out out = json_to(&text);

	json_begin(&out, '[');
	for (size_t i = 0; globs && globs[i]; i++)
		json_add_text(&out, globs[i]);
	json_end(&out, ']');
	return buf_ok(&text) ? arena_dup(arena, text.at, text.len) : "[]";
}

static fallible results_store_artifacts(struct results *results,
					const struct results_attempt *attempt, struct box *box,
					const struct results_spec *spec, struct arena *arena,
					struct artifacts *found, struct store_result *out)
{
	int64_t deadline = spec->deadline ? spec->deadline
					  : loop_now(results->options.loop) + RESULTS_DEADLINE_MS;
	struct files files = {.box = box,
			      .user = spec->user ? spec->user : "",
			      .base = spec->base,
			      .deadline = deadline};
	struct artifacts_spec of = {attempt->tenant, spec->globs, spec->max_bytes, deadline};

	if (!spec->globs || !spec->globs[0] || !box || !box_is_alive(box)) {
		out->missing = results_missing(spec->globs, arena);
		out->partial = spec->globs && spec->globs[0];
		return OK;
	}
	TRY(artifacts_collect(results->blobs, &files, &of, arena, found));
	out->missing = results_missing(found->missing, arena);
	out->files = (int64_t)found->count;
	out->bytes = (int64_t)found->bytes;
	out->partial = found->partial;
	return OK;
}

// Lets go of the blobs of a collection, and removes those that no row names.
static void results_let_go(struct results *results, const struct results_attempt *attempt,
			   const struct results_found *found, bool is_kept)
{
	const struct artifacts *artifacts = &found->artifacts;
	auto_free struct store_blob *blobs = mem_new((artifacts->count + 1) * sizeof(*blobs));
	size_t count = 0;

	if (found->result.log[0]) {
		blob_release(results->blobs, attempt->tenant, found->result.log);
		blobs[count++] = (struct store_blob){.tenant = attempt->tenant,
						     .name = found->result.log};
	}
	artifacts_release(results->blobs, attempt->tenant, artifacts);
	for (size_t i = 0; i < artifacts->count; i++)
		if (artifacts->files[i].sha256[0])
			blobs[count++] = (struct store_blob){.tenant = attempt->tenant,
							     .name = artifacts->files[i].sha256};
	if (!is_kept)
		blobs_collect(results->blobs, blobs, count);
}

fallible results_get(struct results *results, const struct results_attempt *attempt,
		     struct arena *arena, struct store_result *out)
{
	bool found = false;

	*out = (struct store_result){.tenant = attempt->tenant,
				     .execution = attempt->execution,
				     .attempt = attempt->number};
	TRY(store_results_get(results->options.store, arena, out, &found));
	return found ? OK : err_new(NOT_FOUND, "no_result", "nothing is stored of this attempt");
}

fallible results_collect(struct results *results, const struct results_attempt *attempt,
			 struct box *box, struct tape *log, const struct results_spec *spec,
			 struct arena *arena, struct results_found *out)
{
	struct store_result *result = &out->result;
	struct err *err = OK;

	*out = (struct results_found){.result = {
					      .tenant = attempt->tenant,
					      .execution = attempt->execution,
					      .attempt = attempt->number,
					      .log = "",
					      .stdout_sha256 = "",
					      .stderr_sha256 = "",
					      .times = STR(""),
					      .missing = "[]",
					      .ended_ms = clock_wall_ms(),
				      }};
	if (log)
		err = results_store_log(results, attempt, log, arena, out);
	if (!err)
		err = results_store_artifacts(results, attempt, box, spec, arena, &out->artifacts,
					      result);
	kill_point("daemon.results", "stored");
	if (err)
		results_let_go(results, attempt, out, false);
	return err;
}

struct store_result_rows results_rows(const struct results_found *found)
{
	return (struct store_result_rows){&found->result, found->artifacts.files,
					  found->artifacts.count};
}

void results_settle(struct results *results, const struct results_attempt *attempt,
		    const struct results_found *found, bool is_kept)
{
	kill_point("daemon.results", "committed");
	results_let_go(results, attempt, found, is_kept);
	if (!is_kept)
		return;
	results_unhide(results, attempt);
	results_trim(results);
}

fallible results_drop(struct results *results, const char *tenant, const char *execution)
{
	auto_free char *prefix = mem_fmt("%s/%s/", tenant, execution);
	auto_arena arena = arena_new();
	struct store_blobs blobs = {0};
	void *hidden;
	struct str key;
	size_t at = 0;

	while (map_next(results->hidden, &at, &key, &hidden))
		if (str_starts(key, prefix)) {
			results_hidden_free(map_take(results->hidden, key));
			at = 0;
		}
	TRY(store_results_drop(results->options.store, tenant, execution, arena, &blobs));
	kill_point("daemon.results", "dropped");
	blobs_collect(results->blobs, blobs.at, blobs.count);
	return OK;
}
