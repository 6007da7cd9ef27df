// What clients ask of a conversation: show it, list those they may see, run, interrupt, answer,
// enter, delete. A verb that changes a conversation leaves a wish for its keeper and waits; only a
// new run is committed here, for it touches nothing that the keeper decides on.
#include <stdlib.h>

#include "base/mem.h"
#include "conv/admission.h"
#include "conv/book.h"
#include "conv/inner.h"
#include "conv/runs.h"
#include "fleet/access.h"

// ------------------------------------------------------------------------------- shown

static void conv_put_number(struct json_out *out, const char *key, int64_t value)
{
	json_key(out, key);
	if (value)
		json_add_int(out, value);
	else
		json_add_null(out);
}

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static void write_lease(struct json_out *out, const struct lease *lease)
{
	json_begin(out, '{');
	json_put_text(out, "state", lease_state_word(lease->state));
	json_put_text(out, "instance_id", or_null(lease->instance));
	conv_put_number(out, "generation", (int64_t)lease->generation);
	conv_put_number(out, "deadline_at", lease_deadline(lease));
	json_put_text(out, "reason", or_null(lease_reason_word(lease->reason)));
	json_put_int(out, "attempts", lease->attempts);
	json_put_text(out, "attempt_id", or_null(lease->attempt));
	json_put_text(out, "last_error", or_null(lease->error));
	conv_put_number(out, "pid", lease->place.pid);
	json_key(out, "leaf");
	if (lease->place.leaf)
		json_add_int(out, lease->place.leaf - 1);
	else
		json_add_null(out);
	json_end(out, '}');
}

void conv_write(struct json_out *out, const struct conv *conv, const struct who *who)
{
	json_begin(out, '{');
	json_put_text(out, "id", conv_name(conv, who));
	if (conv->tenant[0])
		json_put_text(out, "tenant", conv->tenant);
	json_put_text(out, "status", conv->deleting ? "deleting" : "live");
	json_put_text(out, "org", conv->org);
	json_put_text(out, "user", conv->user);
	json_put_text(out, "bot", conv->bot);
	json_put_text(out, "sandbox", conv->sandbox);
	json_put_text(out, "sandbox_id", conv->box);
	json_put_text(out, "isolation", conv->route.kind == OWNER_SES ? "session" : "shared");
	json_put_text(out, "class", owner_class_word(conv->class));
	json_put_text(out, "directory", conv->directory);
	json_key(out, "aliases");
	json_begin(out, '[');
	for (size_t i = 0; i < conv->alias_count; i++)
		json_add_text(out, conv->aliases[i]);
	json_end(out, ']');
	json_put_int(out, "created_at", conv->created_ms);
	json_put_int(out, "used_at", conv->used_ms);
	json_key(out, "lease");
	write_lease(out, &conv->lease);
	json_key(out, "runs");
	json_begin(out, '[');
	list_each (at, &conv->runs)
		json_add_text(out, link_of(at, struct run, link)->id);
	json_end(out, ']');
	json_end(out, '}');
}

void convs_write_page(struct convs *convs, const struct who *who, struct str after, size_t max,
		      struct json_out *out)
{
	struct conv *start = after.len ? convs_named(convs, who, after) : NULL;
	bool begun = !after.len;

	// Another's is not there.
	if (start && !access_sees(who, start->tenant, ""))
		start = NULL;
	size_t count = 0;
	const char *last = NULL;

	json_begin(out, '{');
	json_key(out, "items");
	json_begin(out, '[');
	list_each (at, &convs->all) {
		struct conv *conv = link_of(at, struct conv, link);

		if (begun && conv->born && !conv->lone && access_sees(who, conv->tenant, "")) {
			if (count++ == max) {
				json_end(out, ']');
				json_put_text(out, "cursor", last);
				json_end(out, '}');
				return;
			}
			last = conv_name(conv, who);
			conv_write(out, conv, who);
		}
		begun |= conv == start;
	}
	json_end(out, ']');
	json_put_text(out, "cursor", NULL);
	json_end(out, '}');
}

size_t convs_owned(const struct convs *convs, const char *tenant)
{
	size_t count = 0;

	list_each (at, &convs->all)
		count += strcmp(link_of(at, struct conv, link)->tenant, tenant) == 0;
	return count;
}

struct convs_view convs_look(const struct convs *convs)
{
	struct convs_view view = {
		.sessions = convs->count,
		.attempts = convs->attempts,
		.alerts = convs->alerts,
		.rejected = convs->rejected,
		.cleaned = convs->cleaned,
		.skipped = convs->skipped,
	};
	int64_t now = convs_now(convs);

	list_each (at, &convs->all) {
		const struct conv *conv = link_of(at, struct conv, link);
		int64_t age = now - conv->lease.requested_ms;

		view.runs += conv->run_count;
		view.leases[conv->lease.state]++;
		if (conv->lease.state == LEASE_STOP_NEEDED && age > view.oldest_stop_ms)
			view.oldest_stop_ms = age;
	}
	return view;
}

// -------------------------------------------------------------------------------- verbs

fallible conv_run(struct conv *conv, const struct who *who, const struct conv_run_spec *spec,
		  struct json_out *out)
{
	struct run *run;
	struct err *err;

	if (conv->convs->closing || conv->convs->draining)
		return conv_draining();
	if (conv->run_count >= CONV_QUEUE_MAX)
		return err_hint(
			err_new(EXHAUSTED, "too_many_runs", "%d runs wait already", CONV_QUEUE_MAX),
			"wait for some of them to end");
	if (conv->share->bytes + spec->input.len > conv->convs->input_share)
		return err_hint(err_new(EXHAUSTED, "too_much_input",
					"the runs that wait have too much input already"),
				"wait for some of them to end");
	if (!conv->prepared && conv->lease.state == LEASE_NONE)
		TRY(admission_ask(conv));
	run = runs_new(conv, spec);
	conv->used_ms = convs_now(conv->convs);
	err = book_commit(conv, &(struct book_change){.runs = {run}, .run_count = 1});
	if (!err && conv->deleting)
		err = conv_absent(str_of(conv->id));
	if (err) {
		runs_free(run);
		return err;
	}
	runs_list(run);
	runs_log_state(run);
	conv->force = true;
	runs_write(out, run, who);
	bell_ring(&conv->wake);
	return OK;
}

fallible conv_write_run(struct conv *conv, const struct who *who, struct str id,
			struct json_out *out)
{
	auto_arena arena = NULL;
	struct store_conv *row = NULL;
	struct run *past;
	bool whole;

	list_each (at, &conv->runs) {
		struct run *run = link_of(at, struct run, link);

		if (str_is(id, run->id)) {
			runs_write(out, run, who);
			return OK;
		}
	}
	arena = arena_new();
	TRY(store_conv_get(conv->convs->store, STORE_RUN, arena_dup(arena, id.at, id.len), arena,
			   &row));
	if (!row || strcmp(row->session, conv->key) != 0)
		return err_absent("no_run", "run", id);
	past = mem_new_of(struct run);
	past->conv = conv;
	whole = book_read_run(row, past);
	if (whole)
		runs_write(out, past, who);
	runs_free(past);
	return whole ? OK
		     : err_new(INTERNAL, "run_unreadable", "the record of the run does not parse");
}

fallible conv_log(struct conv *conv, struct str run, struct tape **out)
{
	return runs_log_open(conv, run, out);
}

fallible conv_interrupt(struct conv *conv)
{
	struct wish wish = {.kind = WISH_INTERRUPT};

	return wish_ask(conv, &wish);
}

fallible conv_answer(struct conv *conv, struct str question, struct str answer)
{
	struct wish wish = {.kind = WISH_ANSWER, .question = question, .answer = answer};

	return wish_ask(conv, &wish);
}

#define ENTER_WAIT_MS 30000

fallible conv_enter(struct conv *conv)
{
	int64_t until = loop_now(conv->convs->loop) + ENTER_WAIT_MS;

	for (;;) {
		struct wish wish = {.kind = WISH_ENTER};
		auto_err err = wish_ask(conv, &wish);

		if (!err || strcmp(err_reason(err), "runner_stopping") != 0)
			return take_ptr(err);
		auto_err late = bell_wait(&conv->changed, until);
		if (late)
			return err_kind(late) == ERR_TIMEOUT ? take_ptr(err) : take_ptr(late);
	}
}

#define DELETE_WAIT_MS 2000

fallible conv_delete(struct conv *conv, bool *out_gone)
{
	struct wish wish = {.kind = WISH_DELETE};
	int64_t until = loop_now(conv->convs->loop) + DELETE_WAIT_MS;

	TRY(wish_ask(conv, &wish));
	while (conv->listed) {
		auto_err err = bell_wait(&conv->changed, until);

		if (err)
			break;
	}
	*out_gone = !conv->listed;
	return OK;
}

void conv_write_logs(struct conv *conv, const struct who *who, struct json_out *out)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);

	json_begin(out, '{');
	json_put_text(out, "session", conv_name(conv, who));
	seam->logs(seam->arg, &site, &conv->lease, out);
	json_end(out, '}');
}
