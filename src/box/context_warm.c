// Prewarmed interpreters. A spare is a context's process without a context: started, sent the
// driver, idle. The context that takes it sends its key, directory and variables. Properties of a
// running process that cannot change are compared first: variables that an interpreter reads at
// start and, for node, the directory from which it resolves modules. If a spare fails in any way,
// the context starts a process of its own.
//
// A spare does not survive adoption: the next daemon kills it.
#include "box/context_warm.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/context_private.h"

#define SOON_MS 20	       // from context_warm_want() to the start
#define KEEP_MS (5 * 60000)    // idle, then it is ended
#define SPARE_OUTPUT (1 << 16) // bytes of its output that are kept
#define WORDS_MAX (4 << 20)

struct spare {
	struct warm *warm;
	enum context_language language;
	bool wanted, making, leaving, stays, ready;
	char **env;
	char *cwd;
	uint32_t cpu_milli;
	struct bash *shell;
	struct tape *aside;
	struct timer timer; // starts or ends it
};

struct warm {
	struct box *box;
	struct context_warmth *host;
	bool over;
	struct spare spares[CONTEXT_LANGUAGES];
};

static void context_warm_forget(struct spare *spare)
{
	loop_drop_timer(spare->warm->box->loop, &spare->timer);
	mem_free_list(take_ptr(spare->env));
	free(take_ptr(spare->cwd));
	if (spare->aside) {
		tape_end(spare->aside);
		tape_unref(take_ptr(spare->aside));
	}
	if (spare->wanted)
		spare->warm->host->count--;
	spare->wanted = spare->ready = spare->stays = spare->leaving = false;
}

static void context_warm_leave(struct spare *spare)
{
	struct bash *shell = take_ptr(spare->shell);

	if (shell) {
		exec_filed(shell->exec); // nothing to record
		bash_drop(shell);
	}
	if (!spare->making)
		context_warm_forget(spare);
	else
		spare->leaving = true; // the task that starts it ends it
}

static void context_warm_on_ready(struct bash *shell)
{
	struct spare *spare = shell->owner;

	spare->ready = true;
	if (shell->box->features & TALK_CAN_RETURN)
		tape_files_prepare(&contexts_of(shell->box)->tapes); // for the first cell
}

static void on_lost(struct bash *shell)
{
	context_warm_leave(shell->owner);
}

static fallible context_warm_make(struct spare *spare, struct bash **out)
{
	struct box *box = spare->warm->box;
	struct exec_label label = {.kind = EXEC_LABEL_CONTEXT, .id = STR("spare")};
	char key[CELL_KEY + 1] = "";

	secret_hex(key, CELL_KEY / 2); // unused: the context that takes the spare sends its own
	spare->aside = tape_new(box->loop, box->tapes_dir, SPARE_OUTPUT);
	tape_bound(spare->aside, box_tape_budget(box));
	return context_spawn(&(struct context_launch){.box = box,
						      .language = spare->language,
						      .env = (const char *const *)spare->env,
						      .cwd = spare->cwd,
						      .cpu_milli = spare->cpu_milli,
						      .aside = spare->aside,
						      .key = key,
						      .label = &label},
			     out);
}

static void context_warm_make_task(void *arg)
{
	struct spare *spare = arg;
	struct box *box = spare->warm->box;
	struct bash *shell = NULL;

	task_shield(true);
	err_free(context_warm_make(spare, &shell)); // on failure there is no spare
	spare->making = false;
	if (shell) {
		shell->owner = spare;
		shell->ended = context_warm_on_ready;
		shell->lost = on_lost;
		spare->shell = shell;
	}
	if (!shell || spare->leaving || spare->warm->over)
		context_warm_leave(spare);
	else if (!spare->stays)
		loop_set_timer(box->loop, &spare->timer, loop_now(box->loop) + KEEP_MS);
	box_unref(box);
}

static void context_warm_on_timer(struct timer *timer)
{
	struct spare *spare = link_of(timer, struct spare, timer);
	struct box *box = spare->warm->box;

	if (spare->shell || !box_is_alive(box)) {
		context_warm_leave(spare);
		return;
	}
	spare->making = true;
	box_ref(box);
	task_start(box->loop, "context.warm", context_warm_make_task, spare);
}

static struct warm *warm_of(struct box *box)
{
	struct contexts *table = contexts_of(box);

	if (!table->warm) {
		table->warm = mem_new_of(struct warm);
		table->warm->box = box;
	}
	for (int i = 0; i < CONTEXT_LANGUAGES; i++) {
		struct spare *spare = &table->warm->spares[i];

		spare->warm = table->warm;
		spare->language = (enum context_language)i;
		spare->timer.due = context_warm_on_timer;
	}
	return table->warm;
}

static bool is_same(const char *const *env, const char *const *other)
{
	size_t at = 0;

	while (env[at] && other[at] && strcmp(env[at], other[at]) == 0)
		at++;
	return !env[at] && !other[at];
}

void context_warm_want(struct box *box, const struct context_spec *spec, bool stays,
		       struct context_warmth *warmth)
{
	struct warm *warm = box_is_alive(box) ? warm_of(box) : NULL;
	struct spare *spare = warm ? &warm->spares[spec->language] : NULL;

	if (!warm || warm->over)
		return;
	// The environment has changed since its start.
	if (spare->wanted && !spare->making && !is_same((const char *const *)spare->env, spec->env))
		context_warm_leave(spare);
	if (spare->wanted || warmth->count >= warmth->max)
		return;
	warm->host = warmth;
	warmth->count++;
	spare->wanted = true;
	spare->stays = stays;
	spare->env = context_copy_list(spec->env);
	spare->cwd = mem_str(spec->cwd);
	spare->cpu_milli = spec->cpu_milli;
	loop_set_timer(box->loop, &spare->timer, loop_now(box->loop) + SOON_MS);
}

uint32_t context_warm_count(const struct box *box)
{
	const struct warm *warm = box->contexts ? box->contexts->warm : NULL;
	uint32_t count = 0;

	for (int i = 0; warm && i < CONTEXT_LANGUAGES; i++)
		count += warm->spares[i].shell != NULL;
	return count;
}

void context_warm_end(struct box *box)
{
	struct warm *warm = box->contexts ? box->contexts->warm : NULL;

	for (int i = 0; warm && i < CONTEXT_LANGUAGES; i++)
		if (warm->spares[i].wanted)
			context_warm_leave(&warm->spares[i]);
}

void context_warm_free(struct box *box)
{
	if (!box->contexts || !box->contexts->warm)
		return;
	box->contexts->warm->over = true;
	context_warm_end(box);
	free(take_ptr(box->contexts->warm));
}

// ------------------------------------------------------------------------------------- taking

// Variables that an interpreter, or ld.so, reads only at start.
static bool is_read_at_start(const char *variable)
{
	static const char *const begin[] = {"PYTHON",  "NODE_",	   "LD_",   "LC_",   "GLIBC_",
					    "MALLOC_", "PATH=",	   "HOME=", "LANG=", "LANGUAGE=",
					    "TZ=",     "OPENSSL_", "SSL_"};

	for (size_t i = 0; i < sizeof(begin) / sizeof(*begin); i++)
		if (strncmp(variable, begin[i], strlen(begin[i])) == 0)
			return true;
	return false;
}

static bool context_warm_has(char *const *env, const char *variable)
{
	for (; *env; env++)
		if (strcmp(*env, variable) == 0)
			return true;
	return false;
}

// True if every variable of `env` that is read at start is in `other` too.
static bool agrees(char *const *env, char *const *other)
{
	for (; *env; env++)
		if (is_read_at_start(*env) && !context_warm_has(other, *env))
			return false;
	return true;
}

static bool suits(const struct spare *spare, const struct context *context)
{
	const struct bash *shell = spare->shell;

	return shell && spare->ready && !shell->done && shell->open &&
	       shell->phase == BASH_AT_REST && spare->cpu_milli == context->cpu_milli &&
	       (spare->language == CONTEXT_PYTHON || strcmp(spare->cwd, context->start_cwd) == 0) &&
	       agrees(spare->env, context->env) && agrees(context->env, spare->env);
}

// KEY NUL CWD NUL; then, if the environment differs, each variable with a NUL.
static void context_warm_put_words(const struct spare *spare, const struct context *context,
				   uint64_t mark, struct buf *words)
{
	auto_buf text = BUF_INIT(WORDS_MAX);

	buf_add(&text, context->key, CELL_KEY + 1);
	buf_add(&text, context->start_cwd, strlen(context->start_cwd) + 1);
	if (!is_same((const char *const *)spare->env, (const char *const *)context->env))
		for (char *const *at = context->env; *at; at++)
			buf_add(&text, *at, strlen(*at) + 1);
	buf_fmt(words, "take %llu %zu\n", (unsigned long long)mark, text.len);
	buf_str(words, buf_view(&text));
	words->failed |= !buf_ok(&text);
}

bool context_warm_take(struct context *context)
{
	struct warm *warm = context->box->contexts ? context->box->contexts->warm : NULL;
	struct spare *spare = warm ? &warm->spares[context->language] : NULL;
	struct buf words = BUF_INIT(WORDS_MAX);
	struct exec_label label = {
		.kind = EXEC_LABEL_CONTEXT, .file = context->state_file, .id = str_of(context->id)};
	struct bash *shell;
	uint64_t mark;

	if (!spare || !suits(spare, context))
		return false;
	secret_random(&mark, sizeof(mark));
	context_warm_put_words(spare, context, mark, &words);
	if (!buf_ok(&words)) {
		buf_done(&words);
		return false;
	}
	shell = take_ptr(spare->shell);
	context_warm_forget(spare);
	bash_turn_aside(shell, context->aside);
	if (context->state_file)
		exec_relabel(shell->exec, &(struct exec_spec){.label = &label});
	context_attach(context, shell);
	context->warmed = true;
	bash_tell_other(shell, &words, mark, context->aside);
	return true;
}
