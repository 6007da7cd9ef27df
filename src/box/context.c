// The contexts of a box: a list, for they are few. A context is a process that is started with a
// few lines as its program, which read the driver from the dialogue: so the driver lies in no file
// of the box, where somebody could change it. From then on the process is told cells and answers as
// a session's shell does, and box/bash serves both.
//
// One whose process has ended stays in the list, so that whoever asks for it learns what became of
// it, until it is deleted, restarted, or in the way of a new one.
#include "box/context.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/context_private.h"
#include "box/exec_message.h"
#include "box/procs_private.h"

#define WORDS_MAX (8 << 20)
#define START_MS 60000
#define SETTLE_MS 5000

// The files of src/kernels, by tools/embed.S.
#define EMBEDDED(name) extern const unsigned char name##_start[], name##_end[]
EMBEDDED(kernels_boot_py);
EMBEDDED(kernels_python_py);
EMBEDDED(kernels_python_pyc);
EMBEDDED(kernels_figures_py);
EMBEDDED(kernels_boot_js);
EMBEDDED(kernels_node_js);
EMBEDDED(kernels_typescript_js);
#define FILE_OF(name)                                                                              \
	((struct str){(const char *)name##_start, (size_t)(name##_end - name##_start)})

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

// Freed at the end of the turn: callbacks of its process may be up the stack.
void context_unref(struct context *context)
{
	if (--context->refs == 0)
		loop_defer(context->box->loop, &context->free_later);
}

static void box_context_unlist(struct context *context)
{
	if (!context->listed)
		return;
	context->listed = false;
	link_drop(&context->link);
	context->box->contexts->count--;
	condition_signal(&context->changed);
	context_clear_past(context); // they hold it
	context_unref(context);
}

struct contexts *contexts_of(struct box *box)
{
	if (!box->contexts) {
		box->contexts = mem_new_of(struct contexts);
		link_init(&box->contexts->all);
		tape_files_init(&box->contexts->tapes, box, CONTEXT_TAPE);
		(void)procs_of(box); // which lets tapes go when there is no room
	}
	return box->contexts;
}

static fallible box_context_make_room(struct contexts *table)
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
		box_remove_file(dead->box, CONTEXT_STATE_FILE, dead->state_file);
	box_context_unlist(dead);
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
	context->state_file = box->features & TALK_CAN_RETURN ? ++table->cards : 0;
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

// What the process is told first: the driver, what it has beside it, and its key.
static void box_context_greet(enum context_language language, const char *key, struct buf *words,
			      uint64_t mark)
{
	bool python = language == CONTEXT_PYTHON;
	struct str driver = python ? FILE_OF(kernels_python_py) : FILE_OF(kernels_node_js);
	struct str beside = python ? FILE_OF(kernels_figures_py) : (struct str){0};
	struct str code = python ? FILE_OF(kernels_python_pyc) : (struct str){0};

	if (language == CONTEXT_TYPESCRIPT)
		beside = FILE_OF(kernels_typescript_js);
	buf_fmt(words, "%zu %zu %zu\n", driver.len, beside.len, code.len);
	buf_str(words, driver);
	buf_str(words, beside);
	buf_str(words, code); // the driver again, for those who can read it
	if (python)
		buf_fmt(words, "hello %llu %d\n%s", (unsigned long long)mark, CELL_KEY, key);
	else
		buf_fmt(words, "hello %llu %zu\n%s %s", (unsigned long long)mark,
			CELL_KEY + 1 + strlen(context_word(language)), key, context_word(language));
}

static fallible box_context_explain(bool python, struct err *err)
{
	if (!err || strcmp(err_reason(err), "command_not_found") != 0)
		return err;
	return err_hint(
		err_recast(err, ERR_NOT_OFFERED, python ? "no_interpreter" : "no_node",
			   python ? "the sandbox has no python3" : "the sandbox has no node"),
		"use a template that has it, or install it");
}

fallible context_bear(const struct context_birth *birth, struct bash **out)
{
	bool is_python = birth->language == CONTEXT_PYTHON;
	struct str text = is_python ? FILE_OF(kernels_boot_py) : FILE_OF(kernels_boot_js);
	auto_free char *boot = mem_dup(text.at, text.len);
	const char *const python[] = {"python3", "-c", boot, NULL};
	const char *const node[] = {"node", "--expose-internals", "-e", boot, NULL};
	struct exec_spec spec = {
		.tag = birth->tag,
		.argv = is_python ? python : node,
		.env = birth->env,
		.cwd = birth->cwd,
		.user = "",
		.dialogue = true,
		.cpu_milli = birth->cpu_milli,
	};
	struct buf words = BUF_INIT(WORDS_MAX);
	struct exec *exec = NULL;
	struct err *err;
	uint64_t mark;

	secret_random(&mark, sizeof(mark));
	err = box_context_explain(is_python, exec_start(birth->box, &spec, &exec));
	if (err)
		return err;
	box_context_greet(birth->language, birth->key, &words, mark);
	exec_ref(exec);
	err = bash_open_other(exec, birth->aside, &words, mark, out);
	buf_done(&words);
	if (err)
		exec_filed(exec);
	exec_let_go(exec);
	return err;
}

static fallible box_context_start(struct context *context, struct bash **out)
{
	struct exec_label tag = {
		.kind = EXEC_LABEL_CONTEXT,
		.file = context->state_file,
		.id = str_of(context->id),
	};

	return context_bear(&(struct context_birth){.box = context->box,
						    .language = context->language,
						    .env = (const char *const *)context->env,
						    .cwd = context->start_cwd,
						    .cpu_milli = context->cpu_milli,
						    .aside = context->aside,
						    .key = context->key,
						    .tag = context->state_file ? &tag : NULL},
			    out);
}

static void box_context_start_task(void *arg)
{
	struct context *context = arg;
	struct bash *shell = NULL;
	struct err *err;

	task_shield(true);
	err = box_context_start(context, &shell);
	context->starting = false;
	if (shell)
		context_attach(context, shell);
	if (shell && !context->listed)
		bash_kill(shell);
	if (err) {
		err_free(context->failure);
		context->failure = err;
		context_fail_all(context, err);
	}
	condition_signal(&context->changed);
	context_unref(context);
}

void context_start(struct context *context)
{
	context->starting = true;
	context_ref(context);
	task_start(context->box->loop, "context.start", box_context_start_task, context);
}

static fallible copy_err(const struct err *err)
{
	return err_from(err_kind(err), err_reason(err), err_message(err), err_hint_of(err));
}

static void set_off(struct context *context)
{
	if (context->shell || context->starting)
		return;
	err_free(take_ptr(context->failure));
	if (!context_warm_take(context))
		context_start(context);
	if (context->state_file)
		tape_files_prepare(&contexts_of(context->box)->tapes); // of its first cell
}

static fallible bring_up(struct context *context)
{
	int64_t deadline = loop_now(context->box->loop) + START_MS;

	set_off(context);
	while (context->listed && !context->ready) {
		if (context->failure)
			return box_is_alive(context->box) ? copy_err(context->failure)
							  : exec_message_box_lost();
		TRY(condition_wait(&context->changed, deadline), "wait for an interpreter");
	}
	if (context->listed)
		return context->shell ? exec_await_label(context->shell->exec, deadline) : OK;
	return box_is_alive(context->box)
		       ? err_new(NOT_FOUND, "no_context", "the context was deleted")
		       : exec_message_box_lost();
}

fallible context_create(struct box *box, const struct context_spec *spec, struct context **out)
{
	struct context *context;
	struct err *err;

	if (!box_is_alive(box))
		return exec_message_box_lost();
	if (spec->language == CONTEXT_TYPESCRIPT && !FILE_OF(kernels_typescript_js).len)
		return err_hint(err_new(NOT_OFFERED, "no_typescript",
					"this build of cove has no TypeScript"),
				"use javascript, or build cove where npm can be reached");
	TRY(box_context_make_room(contexts_of(box)));
	context = context_make(box, spec, NULL, NULL);
	context_ref(context);
	set_off(context);
	context_state_write(context); // while the process comes up
	err = bring_up(context);
	if (err) {
		context_delete(context);
		context_unref(context);
		return err;
	}
	*out = context;
	return OK;
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

static void kill_wait(struct context *context)
{
	task_shield(true);
	if (context->shell)
		bash_kill_wait(context->shell);
	task_shield(false);
}

void context_delete(struct context *context)
{
	auto_err gone = err_new(NOT_FOUND, "no_context", "the context was deleted");

	context_ref(context);
	if (context->run)
		context->run->result.deleted = true;
	box_context_unlist(context);
	context_fail_all(context, gone);
	context_state_erase(context);
	kill_wait(context);
	context_unref(context);
}

fallible context_restart(struct context *context)
{
	struct bash *old = context->shell;
	struct err *err = OK;

	if (context->run)
		context->run->result.deleted = true;
	context->restarting = true;
	kill_wait(context);
	// It is on its way: its last output is still being taken.
	while (old && context->listed && context->shell == old && !err)
		err = condition_wait(&context->changed, CLOCK_NEVER);
	context->restarting = false;
	// How a cell ended with its process is on disk before a later one can begin.
	tape_files_settle(&contexts_of(context->box)->tapes);
	return err ? err : bring_up(context);
}

void contexts_end(struct box *box)
{
	auto_err err = exec_message_box_lost();
	struct exec_result lost = {.ending = ENDING_BOX_LOST};

	if (!box->contexts)
		return;
	context_warm_end(box);
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		context_ref(context);
		context_fail_all(context, err);
		if (!context->shell) // else it is on its way: its last output is being taken
			context_end_run(context, &lost);
		context_unref(context);
	}
}

void contexts_close(struct box *box)
{
	auto_err err = exec_message_box_lost();
	struct exec_result lost = {.ending = ENDING_BOX_LOST};

	if (!box->contexts)
		return;
	context_warm_end(box);
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		context_ref(context);
		context->left = true;
		box_context_unlist(context);
		context_fail_all(context, err);
		context_end_run(context, &lost);
		context_unref(context);
	}
}

// One whose process has ended, and whose last output is being taken; held. NULL: there is none.
static struct context *find_ending(struct box *box)
{
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		if (!context->shell || !context->shell->done)
			continue;
		context_ref(context);
		return context;
	}
	return NULL;
}

void contexts_settle(struct box *box)
{
	int64_t deadline = loop_now(box->loop) + SETTLE_MS;
	struct context *context;

	if (!box->contexts)
		return;
	while (loop_now(box->loop) < deadline && (context = find_ending(box))) {
		err_free(condition_wait(&context->changed, deadline));
		context_unref(context);
	}
	tape_files_settle(&box->contexts->tapes);
}

void contexts_free(struct box *box)
{
	if (!box->contexts)
		return;
	context_warm_free(box);
	tape_files_done(&box->contexts->tapes);
	free(take_ptr(box->contexts));
}
