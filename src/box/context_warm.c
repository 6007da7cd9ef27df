// Starts the process of a context. Its command line is a short boot program that reads the driver
// from the dialogue, so that no file in the box holds the driver, where it could be changed. An
// interpreter that the box lacks is NOT_OFFERED.
//
// A spare is a context's process without a context: started, sent the driver, idle. The context
// that takes it sends its key, directory and variables. Properties of a running process that cannot
// change are compared first: variables that an interpreter reads at start and, for node, the
// directory from which it resolves modules. A spare does not survive adoption: the next daemon
// kills it.
#include "box/context_warm.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/context_private.h"
#include "box/repl.h"
#include "box/tape_files.h"
#include "protocol/cell.h"

#define SOON_MS 20	       // from context_warm_want() to the start
#define KEEP_MS (5 * 60000)    // idle, then it is ended
#define SPARE_OUTPUT (1 << 16) // bytes of its output that are kept
#define WORDS_MAX (4 << 20)
#define GREETING_MAX (8 << 20)

enum spare_phase {
	SPARE_NONE,
	SPARE_WANTED,  // a timer starts it
	SPARE_MAKING,  // a task starts it
	SPARE_LEAVING, // the same, and ends it then
	SPARE_STARTED, // it has not answered yet
	SPARE_READY,
};

struct spare {
	struct contexts *contexts;
	enum spare_phase phase;
	bool stays;
	struct context_launch launch; // env, cwd and aside are its own
	char key[CELL_KEY + 1];	      // unused: the context that takes the spare sends its own
	struct bash *shell;
	struct timer timer; // starts or ends it
};

// The contexts of a box and their limits.
struct contexts {
	struct box *box;
	struct tape_files tapes;
	struct context_warmth *host;
	bool over;
	struct spare spares[CONTEXT_LANGUAGES];
};

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

// ------------------------------------------------------------------------------------- the process

// The files of src/kernels, embedded by tools/embed.S.
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

bool context_has_typescript(void)
{
	return FILE_OF(kernels_typescript_js).len > 0;
}

// The first message: the driver, its helpers, and the key.
static void context_greet(enum context_language language, const char *key, struct buf *words,
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
	buf_str(words, code); // the driver as bytecode, for a python of the matching version
	if (python)
		buf_fmt(words, "hello %llu %d\n%s", (unsigned long long)mark, CELL_KEY, key);
	else
		buf_fmt(words, "hello %llu %zu\n%s %s", (unsigned long long)mark,
			CELL_KEY + 1 + strlen(context_word(language)), key, context_word(language));
}

static fallible context_explain(bool python, struct err *err)
{
	if (!err || strcmp(err_reason(err), "command_not_found") != 0)
		return err;
	return err_hint(
		err_recast(err, ERR_NOT_OFFERED, python ? "no_interpreter" : "no_node",
			   python ? "the sandbox has no python3" : "the sandbox has no node"),
		"use a template that has it, or install it");
}

static struct exec_label context_label(const struct context_launch *launch)
{
	return (struct exec_label){
		.kind = EXEC_LABEL_CONTEXT,
		.file = launch->file,
		.id = str_of(launch->id),
	};
}

fallible context_spawn(const struct context_launch *launch, struct bash **out)
{
	bool is_python = launch->language == CONTEXT_PYTHON;
	struct str text = is_python ? FILE_OF(kernels_boot_py) : FILE_OF(kernels_boot_js);
	auto_free char *boot = mem_dup(text.at, text.len);
	const char *const python[] = {"python3", "-c", boot, NULL};
	const char *const node[] = {"node", "--expose-internals", "-e", boot, NULL};
	struct exec_label label = context_label(launch);
	struct exec_spec spec = {
		.label = launch->id ? &label : NULL,
		.argv = is_python ? python : node,
		.env = launch->env,
		.cwd = launch->cwd,
		.user = "",
		.dialogue = true,
		.cpu_milli = launch->cpu_milli,
	};
	struct buf words = BUF_INIT(GREETING_MAX);
	struct exec *exec = NULL;
	struct err *err;
	uint64_t mark;

	secret_random(&mark, sizeof(mark));
	err = context_explain(is_python, exec_start(launch->box, &spec, &exec));
	if (err)
		return err;
	context_greet(launch->language, launch->key, &words, mark);
	exec_ref(exec);
	err = bash_open_other(exec, launch->aside, &words, mark, out);
	buf_done(&words);
	if (err)
		exec_filed(exec);
	exec_let_go(exec);
	return err;
}

// ---------------------------------------------------------------------------------- prewarmed ones

static void spare_forget(struct spare *spare)
{
	loop_drop_timer(spare->contexts->box->loop, &spare->timer);
	mem_free_list((char **)take_ptr(spare->launch.env));
	free((char *)take_ptr(spare->launch.cwd));
	if (spare->launch.aside) {
		tape_end(spare->launch.aside);
		tape_unref(take_ptr(spare->launch.aside));
	}
	if (spare->phase != SPARE_NONE)
		spare->contexts->host->count--;
	spare->phase = SPARE_NONE;
}

static void spare_end(struct spare *spare)
{
	struct bash *shell = take_ptr(spare->shell);

	if (shell) {
		exec_filed(shell->exec); // nothing to record
		bash_drop(shell);
	}
	if (spare->phase == SPARE_MAKING || spare->phase == SPARE_LEAVING)
		spare->phase = SPARE_LEAVING;
	else
		spare_forget(spare);
}

static void spare_on_ready(struct bash *shell)
{
	struct spare *spare = shell->owner;

	spare->phase = SPARE_READY;
	if (shell->box->features & TALK_CAN_RETURN)
		tape_files_prepare(&spare->contexts->tapes); // for the first cell
}

static void spare_on_lost(struct bash *shell)
{
	spare_end(shell->owner);
}

static void spare_make_task(void *arg)
{
	struct spare *spare = arg;
	struct box *box = spare->contexts->box;
	struct bash *shell = NULL;
	bool leaves;

	task_shield(true);
	secret_hex(spare->key, CELL_KEY / 2);
	spare->launch.aside = tape_new(box->loop, box->tapes_dir, SPARE_OUTPUT);
	tape_bound(spare->launch.aside, box_tape_budget(box));
	err_free(context_spawn(&spare->launch, &shell)); // on failure there is no spare
	leaves = !shell || spare->phase == SPARE_LEAVING || spare->contexts->over;
	spare->phase = SPARE_STARTED;
	if (shell) {
		shell->owner = spare;
		shell->ended = spare_on_ready;
		shell->lost = spare_on_lost;
		spare->shell = shell;
	}
	if (leaves)
		spare_end(spare);
	else if (!spare->stays)
		loop_set_timer(box->loop, &spare->timer, loop_now(box->loop) + KEEP_MS);
	box_unref(box);
}

static void spare_on_timer(struct timer *timer)
{
	struct spare *spare = link_of(timer, struct spare, timer);
	struct box *box = spare->contexts->box;

	if (spare->shell || !box_is_alive(box)) {
		spare_end(spare);
		return;
	}
	spare->phase = SPARE_MAKING;
	box_ref(box);
	task_start(box->loop, "context.warm", spare_make_task, spare);
}

static struct contexts *contexts_of(struct box *box)
{
	struct contexts *contexts = box->contexts;

	if (contexts)
		return contexts;
	contexts = box->contexts = mem_new_of(struct contexts);
	contexts->box = box;
	tape_files_init(&contexts->tapes, box, CONTEXT_TAPE);
	for (int i = 0; i < CONTEXT_LANGUAGES; i++) {
		contexts->spares[i].contexts = contexts;
		contexts->spares[i].timer.due = spare_on_timer;
	}
	return contexts;
}

struct tape_files *context_tapes(struct box *box)
{
	return &contexts_of(box)->tapes;
}

static bool context_env_is_same(const char *const *env, const char *const *other)
{
	size_t at = 0;

	while (env[at] && other[at] && strcmp(env[at], other[at]) == 0)
		at++;
	return !env[at] && !other[at];
}

void context_warm_want(struct box *box, const struct context_spec *spec, bool stays,
		       struct context_warmth *warmth)
{
	struct contexts *contexts = box_is_alive(box) ? contexts_of(box) : NULL;
	struct spare *spare = contexts ? &contexts->spares[spec->language] : NULL;

	if (!contexts || contexts->over)
		return;
	// The environment has changed since its start.
	if (spare->phase != SPARE_NONE && spare->phase != SPARE_MAKING &&
	    spare->phase != SPARE_LEAVING && !context_env_is_same(spare->launch.env, spec->env))
		spare_end(spare);
	if (spare->phase != SPARE_NONE || warmth->count >= warmth->max)
		return;
	contexts->host = warmth;
	warmth->count++;
	spare->phase = SPARE_WANTED;
	spare->stays = stays;
	spare->launch = (struct context_launch){
		.box = box,
		.language = spec->language,
		.env = (const char *const *)repl_copy_env(spec->env),
		.cwd = mem_str(spec->cwd),
		.cpu_milli = spec->cpu_milli,
		.key = spare->key,
		.id = "spare",
	};
	loop_set_timer(box->loop, &spare->timer, loop_now(box->loop) + SOON_MS);
}

uint32_t context_warm_count(const struct box *box)
{
	uint32_t count = 0;

	for (int i = 0; box->contexts && i < CONTEXT_LANGUAGES; i++)
		count += box->contexts->spares[i].shell != NULL;
	return count;
}

void context_warm_end(struct box *box)
{
	for (int i = 0; box->contexts && i < CONTEXT_LANGUAGES; i++)
		if (box->contexts->spares[i].phase != SPARE_NONE)
			spare_end(&box->contexts->spares[i]);
}

void contexts_free(struct box *box)
{
	if (!box->contexts)
		return;
	box->contexts->over = true;
	context_warm_end(box);
	tape_files_done(&box->contexts->tapes);
	free(take_ptr(box->contexts));
}

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

static bool context_env_has(const char *const *env, const char *variable)
{
	for (; *env; env++)
		if (strcmp(*env, variable) == 0)
			return true;
	return false;
}

// True if every variable of `env` that is read at start is in `other` too.
static bool context_env_agrees(const char *const *env, const char *const *other)
{
	for (; *env; env++)
		if (is_read_at_start(*env) && !context_env_has(other, *env))
			return false;
	return true;
}

static bool spare_suits(const struct spare *spare, const struct context_launch *launch)
{
	const struct context_launch *has = &spare->launch;
	const struct bash *shell = spare->shell;

	return spare->phase == SPARE_READY && !shell->done && shell->open &&
	       shell->phase == BASH_AT_REST && has->cpu_milli == launch->cpu_milli &&
	       (launch->language == CONTEXT_PYTHON || strcmp(has->cwd, launch->cwd) == 0) &&
	       context_env_agrees(has->env, launch->env) &&
	       context_env_agrees(launch->env, has->env);
}

// KEY NUL CWD NUL; then, if the environment differs, each variable with a NUL.
static void spare_put_words(const struct spare *spare, const struct context_launch *launch,
			    uint64_t mark, struct buf *words)
{
	auto_buf text = BUF_INIT(WORDS_MAX);

	buf_add(&text, launch->key, CELL_KEY + 1);
	buf_add(&text, launch->cwd, strlen(launch->cwd) + 1);
	if (!context_env_is_same(spare->launch.env, launch->env))
		for (const char *const *at = launch->env; *at; at++)
			buf_add(&text, *at, strlen(*at) + 1);
	buf_fmt(words, "take %llu %zu\n", (unsigned long long)mark, text.len);
	buf_str(words, buf_view(&text));
	words->failed |= !buf_ok(&text);
}

struct bash *context_warm_take(const struct context_launch *launch)
{
	struct contexts *contexts = launch->box->contexts;
	struct spare *spare = contexts ? &contexts->spares[launch->language] : NULL;
	struct exec_label label = context_label(launch);
	struct buf words = BUF_INIT(WORDS_MAX);
	struct bash *shell;
	uint64_t mark;

	if (!spare || !spare_suits(spare, launch))
		return NULL;
	secret_random(&mark, sizeof(mark));
	spare_put_words(spare, launch, mark, &words);
	if (!buf_ok(&words)) {
		buf_done(&words);
		return NULL;
	}
	shell = take_ptr(spare->shell);
	spare_forget(spare);
	bash_turn_aside(shell, launch->aside);
	if (launch->id)
		exec_relabel(shell->exec, &(struct exec_spec){.label = &label});
	shell->ended = shell->lost = NULL;
	bash_send_other(shell, &words, mark, launch->aside);
	return shell;
}
