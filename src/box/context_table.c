// The table of a box's contexts, and a context with its cells in memory: create, find, list, free.
// A context whose process has ended stays until it is deleted, restarted, or evicted for a new one.
// A context is freed at the end of the loop turn in which the last reference is dropped.
#include <signal.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/secret.h"
#include "box/box_file.h"
#include "box/context_private.h"

static const struct {
	const char *word, *others[3];
} languages[] = {
	[CONTEXT_PYTHON] = {"python", {"python3", "py"}},
	[CONTEXT_JAVASCRIPT] = {"javascript", {"js", "node"}},
	[CONTEXT_TYPESCRIPT] = {"typescript", {"ts"}},
};
#define LANGUAGES (sizeof(languages) / sizeof(*languages))

const char *context_word(enum context_language language)
{
	return languages[language].word;
}

bool context_language(struct str word, enum context_language *out)
{
	for (size_t i = 0; i < LANGUAGES; i++) {
		bool is = str_is(word, languages[i].word);

		for (size_t j = 0; languages[i].others[j]; j++)
			is |= str_is(word, languages[i].others[j]);
		if (is) {
			*out = (enum context_language)i;
			return true;
		}
	}
	return false;
}

void context_ref(struct context *context)
{
	context->refs++;
}

static void free_context(struct deferred *deferred)
{
	struct context *context = link_of(deferred, struct context, free_later);

	if (context->shell)
		exec_filed(context->shell->exec);
	bash_drop(context->shell);
	tape_end(context->aside);
	tape_unref(context->aside);
	err_free(context->failure);
	mem_free_list(context->env);
	free(context->start_cwd);
	free(context->cwd);
	box_unref(context->box);
	free(context);
}

// Freed at the end of the loop turn: callbacks of its process may be on the stack.
void context_unref(struct context *context)
{
	if (--context->refs == 0)
		loop_defer(context->box->loop, &context->free_later);
}

void context_run_let_go(struct context_run *run)
{
	if (--run->refs > 0)
		return;
	buf_done(&run->code);
	tape_unref(run->tape);
	err_free(run->failure);
	context_unref(run->context);
	free(run);
}

static void context_run_on_late(struct timer *timer)
{
	struct context_run *run = link_of(timer, struct context_run, timer);
	struct context *context = run->context;

	if (!context->shell)
		return;
	if (run->late) {
		bash_kill(context->shell);
		return;
	}
	run->late = true;
	exec_signal_alone(context->shell->exec, SIGINT);
	loop_set_timer(context->box->loop, timer, loop_now(context->box->loop) + CONTEXT_GRACE_MS);
}

struct context_run *context_run_new(struct context *context, uint64_t number, struct tape *tape)
{
	struct context_run *run = mem_new_of(struct context_run);

	context_ref(context);
	run->context = context;
	run->refs = 1; // the context's reference
	run->number = number;
	run->timer.due = context_run_on_late;
	condition_init(&run->condition);
	run->code = BUF_INIT(CONTEXT_CODE_MAX + 1);
	run->tape = tape;
	return run;
}

void context_past_forget(struct context_run *run)
{
	link_drop(&run->link);
	run->context->past_count--;
	if (run->context->left)
		tape_leave(run->tape);
	context_run_let_go(run);
}

void context_clear_past(struct context *context)
{
	list_each (at, &context->past)
		context_past_forget(link_of(at, struct context_run, link));
}

void context_unlist(struct context *context)
{
	if (!context->listed)
		return;
	context->listed = false;
	link_drop(&context->link);
	context->box->contexts->count--;
	condition_signal(&context->changed);
	context_clear_past(context); // ended runs hold the context
	context_unref(context);
}

struct contexts *contexts_of(struct box *box)
{
	if (!box->contexts) {
		box->contexts = mem_new_of(struct contexts);
		link_init(&box->contexts->all);
		tape_files_init(&box->contexts->tapes, box, CONTEXT_TAPE);
	}
	return box->contexts;
}

fallible contexts_make_room(struct contexts *table)
{
	struct context *dead = NULL;

	if (table->count < CONTEXT_MAX)
		return OK;
	list_each (at, &table->all) {
		struct context *context = link_of(at, struct context, link);

		if (!dead && !context->shell && !context->starting && context->refs == 1)
			dead = context;
	}
	if (!dead)
		return err_hint(err_new(EXHAUSTED, "too_many_contexts",
					"a sandbox has at most %d contexts", CONTEXT_MAX),
				"delete one with DELETE /api/contexts/{id}");
	if (dead->state_file)
		box_file_remove_later(dead->box, CONTEXT_STATE_FILE, dead->state_file);
	context_unlist(dead);
	return OK;
}

static void box_context_make_id(char out[CONTEXT_ID + 1])
{
	uint8_t b[16];

	secret_random(b, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); // RFC 9562: version 4
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	snprintf(out, CONTEXT_ID + 1,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		 b[15]);
}

char **context_copy_list(const char *const *list)
{
	size_t count = 0;
	char **copy;

	while (list[count])
		count++;
	copy = mem_new((count + 1) * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = mem_str(list[i]);
	return copy;
}

struct context *context_make(struct box *box, const struct context_spec *spec, const char *id,
			     const char *key)
{
	struct contexts *table = contexts_of(box);
	struct context *context = mem_new_of(struct context);

	box_ref(box);
	context->box = box;
	context->refs = 1;
	context->listed = true;
	if (id)
		memcpy(context->id, id, CONTEXT_ID);
	else
		box_context_make_id(context->id);
	if (key)
		memcpy(context->key, key, CELL_KEY);
	else
		secret_hex(context->key, CELL_KEY / 2);
	context->state_file = box->features & TALK_CAN_RETURN ? ++table->state_files : 0;
	context->language = spec->language;
	context->is_default = spec->is_default;
	context->env = context_copy_list(spec->env);
	context->start_cwd = mem_str(spec->cwd);
	context->cwd = mem_str(spec->cwd);
	context->timeout_ms = spec->timeout_ms;
	context->output_cap = spec->output_cap;
	context->cpu_milli = spec->cpu_milli;
	context->aside = tape_new(box->loop, box->tapes_dir, spec->output_cap);
	tape_bound(context->aside, box_tape_budget(box));
	context->free_later.run = free_context;
	link_init(&context->queue);
	link_init(&context->past);
	condition_init(&context->changed);
	link_add(&table->all, &context->link);
	table->count++;
	return context;
}

struct context *context_find(struct box *box, struct str id)
{
	if (!box->contexts)
		return NULL;
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		if (!str_is(id, context->id))
			continue;
		context_ref(context);
		return context;
	}
	return NULL;
}

struct context *context_default(struct box *box, enum context_language language)
{
	if (!box->contexts)
		return NULL;
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		if (!context->is_default || context->language != language ||
		    (!context->shell && !context->starting))
			continue;
		context_ref(context);
		return context;
	}
	return NULL;
}

void context_each(struct box *box, void (*each)(struct context *context, void *arg), void *arg)
{
	if (!box->contexts)
		return;
	list_each (at, &box->contexts->all)
		each(link_of(at, struct context, link), arg);
}

struct context_view context_view(const struct context *context)
{
	return (struct context_view){
		.id = context->id,
		.cwd = context->cwd,
		.language = context->language,
		.alive = context->shell || context->starting,
		.busy = context->run != NULL,
		.pid = context->shell ? exec_pid(context->shell->exec) : 0,
		.cells = context->cells,
	};
}
