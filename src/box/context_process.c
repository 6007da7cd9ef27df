// Starts the process of a context. Its command line is a short boot program that reads the driver
// from the dialogue, so that no file in the box holds the driver, where it could be changed. An
// interpreter that the box lacks is NOT_OFFERED.
#include "base/mem.h"
#include "base/secret.h"
#include "box/context_private.h"

#define WORDS_MAX (8 << 20)

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
	buf_str(words, code); // the driver as bytecode, for a python of the matching version
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

fallible context_spawn(const struct context_launch *launch, struct bash **out)
{
	bool is_python = launch->language == CONTEXT_PYTHON;
	struct str text = is_python ? FILE_OF(kernels_boot_py) : FILE_OF(kernels_boot_js);
	auto_free char *boot = mem_dup(text.at, text.len);
	const char *const python[] = {"python3", "-c", boot, NULL};
	const char *const node[] = {"node", "--expose-internals", "-e", boot, NULL};
	struct exec_spec spec = {
		.label = launch->label,
		.argv = is_python ? python : node,
		.env = launch->env,
		.cwd = launch->cwd,
		.user = "",
		.dialogue = true,
		.cpu_milli = launch->cpu_milli,
	};
	struct buf words = BUF_INIT(WORDS_MAX);
	struct exec *exec = NULL;
	struct err *err;
	uint64_t mark;

	secret_random(&mark, sizeof(mark));
	err = box_context_explain(is_python, exec_start(launch->box, &spec, &exec));
	if (err)
		return err;
	box_context_greet(launch->language, launch->key, &words, mark);
	exec_ref(exec);
	err = bash_open_other(exec, launch->aside, &words, mark, out);
	buf_done(&words);
	if (err)
		exec_filed(exec);
	exec_let_go(exec);
	return err;
}
