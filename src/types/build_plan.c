// Reads and writes build plans, and expands the variables of their words. Plans come from tenants:
// stages, steps and words are counted, and their sizes bounded.
#include "types/build_plan.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "types/reference.h"

#define DEPTH_MAX 8   // of words within substitutions
#define FROM_MAX 1024 // bytes of a reference or name
#define ARGS_MAX 256
#define FILES_MAX 64 // of a step
#define TEMPLATE_MARK "cove://"
#define EXPANDED_MAX (1u << 20) // steps of an expansion: nested words are read again

static const char *const words_of_kinds[] = {
#define X(name, word) [BUILD_##name] = (word),
	BUILD_KINDS(X)
#undef X
};

const char *build_kind_word(enum build_kind kind)
{
	return words_of_kinds[kind];
}

static void step_done(struct build_step *step)
{
	for (size_t i = 0; i < step->file_count; i++) {
		free(step->files[i].name);
		free(step->files[i].content);
	}
	free(step->files);
	mem_free_list(step->mounts);
	mem_free_list(step->words);
	free(step->from);
	free(step->chown);
	free(step->chmod);
	free(step->text);
}

static void stage_done(struct build_stage *stage)
{
	for (size_t i = 0; i < stage->count; i++)
		step_done(&stage->steps[i]);
	free(stage->steps);
	free(stage->name);
	free(stage->from);
}

void build_plan_done(struct build_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		stage_done(&plan->stages[i]);
	free(plan->stages);
	env_map_done(&plan->globals);
	env_map_done(&plan->args);
	*plan = (struct build_plan){0};
}

static fallible too_long(const char *what, int max)
{
	return err_new(INVALID, "bad_plan", "the plan has more than %d %s", max, what);
}

fallible build_plan_add_stage(struct build_plan *plan, struct build_stage **out)
{
	if (plan->count == BUILD_STAGES_MAX)
		return too_long("stages", BUILD_STAGES_MAX);
	plan->stages = mem_grow(plan->stages, plan->count + 1, sizeof(*plan->stages));
	*out = &plan->stages[plan->count++];
	**out = (struct build_stage){0};
	return OK;
}

fallible build_plan_add_step(struct build_plan *plan, enum build_kind kind, struct build_step **out)
{
	struct build_stage *stage = &plan->stages[plan->count - 1];

	if (plan->steps == BUILD_STEPS_MAX)
		return too_long("steps", BUILD_STEPS_MAX);
	plan->steps++;
	stage->steps = mem_grow(stage->steps, stage->count + 1, sizeof(*stage->steps));
	*out = &stage->steps[stage->count++];
	**out = (struct build_step){.kind = kind};
	return OK;
}

fallible build_step_add_word(struct build_step *step, struct str word)
{
	if (step->count == BUILD_WORDS_MAX)
		return too_long("words in a step", BUILD_WORDS_MAX);
	if (word.len > BUILD_WORD_MAX || (word.len && memchr(word.at, 0, word.len)))
		return err_new(INVALID, "bad_plan", "a word has a NUL, or more than %d bytes",
			       BUILD_WORD_MAX);
	step->words = mem_grow(step->words, step->count + 2, sizeof(*step->words));
	step->words[step->count++] = mem_dup(word.at ? word.at : "", word.len);
	step->words[step->count] = NULL;
	return OK;
}

fallible build_step_add_file(struct build_step *step, struct str name, struct str content,
			     bool literal)
{
	if (step->file_count == FILES_MAX)
		return too_long("files in a step", FILES_MAX);
	if (!name.len || name.len > FROM_MAX || memchr(name.at, '/', name.len) ||
	    memchr(name.at, 0, name.len) || name.at[0] == '.')
		return err_new(INVALID, "bad_plan", "a file of a step has no proper name");
	if (content.len > BUILD_WORD_MAX || (content.len && memchr(content.at, 0, content.len)))
		return err_new(INVALID, "bad_plan", "a file has a NUL, or more than %d bytes",
			       BUILD_WORD_MAX);
	step->files = mem_grow(step->files, step->file_count + 1, sizeof(*step->files));
	step->files[step->file_count++] = (struct build_file){
		.name = mem_dup(name.at, name.len),
		.content = mem_dup(content.len ? content.at : "", content.len),
		.literal = literal,
	};
	return OK;
}

fallible build_step_add_mount(struct build_step *step, struct str text)
{
	auto_build_mount mount = {0};
	size_t count = 0;

	TRY(build_mount_read(text, &mount));
	while (step->mounts && step->mounts[count])
		count++;
	if (count == BUILD_MOUNTS_MAX)
		return too_long("mounts in a step", BUILD_MOUNTS_MAX);
	step->mounts = mem_grow(step->mounts, count + 2, sizeof(*step->mounts));
	step->mounts[count] = mem_dup(text.at, text.len);
	step->mounts[count + 1] = NULL;
	return OK;
}

int64_t build_plan_find_stage(const struct build_plan *plan, size_t before, struct str name)
{
	uint64_t number;

	for (size_t i = before; i-- > 0;)
		if (plan->stages[i].name && str_eq_nocase(str_of(plan->stages[i].name), name))
			return (int64_t)i;
	if (before && str_to_u64(name, 0, before - 1, &number))
		return (int64_t)number;
	return -1;
}

fallible build_plan_choose(struct build_plan *plan, struct str target)
{
	int64_t at = build_plan_find_stage(plan, plan->count, target);

	if (at < 0)
		return err_hint(err_new(INVALID, "no_stage", "there is no stage '" STR_FMT "'",
					STR_ARG(target)),
				"name a stage by FROM … AS NAME");
	while (plan->count > (size_t)at + 1)
		stage_done(&plan->stages[--plan->count]);
	return OK;
}

// Marks the stage of that name, if it is one.
static void plan_mark(const struct build_plan *plan, size_t before, const char *from, bool *needed)
{
	int64_t at = from ? build_plan_find_stage(plan, before, str_of(from)) : -1;

	if (at >= 0)
		needed[at] = true;
}

static void plan_mark_mounts(const struct build_plan *plan, size_t before, char *const *mounts,
			     bool *needed)
{
	for (; mounts && *mounts; mounts++) {
		auto_build_mount mount = {0};
		auto_err bad = build_mount_read(str_of(*mounts), &mount);

		if (!bad)
			plan_mark(plan, before, mount.from, needed);
	}
}

bool build_plan_needs(const struct build_plan *plan, size_t stage)
{
	bool needed[BUILD_STAGES_MAX] = {0};

	needed[plan->count - 1] = true;
	for (size_t i = plan->count; i-- > 0;) {
		const struct build_stage *at = &plan->stages[i];

		if (!needed[i])
			continue;
		if (at->base == BUILD_FROM_STAGE)
			needed[at->from_at] = true;
		for (size_t k = 0; k < at->count; k++) {
			plan_mark(plan, i, at->steps[k].from, needed);
			plan_mark_mounts(plan, i, at->steps[k].mounts, needed);
		}
	}
	return needed[stage];
}

// ------------------------------------------------------------------------------------------- JSON

static fallible plan_read_text(const struct json *object, const char *key, size_t max, char **out)
{
	struct str text = {0};

	TRY(json_str(json_get(object, key), key, &text));
	if (text.len > max)
		return err_new(INVALID, "bad_plan", "'%s' is too long", key);
	if (text.at)
		*out = mem_dup(text.at, text.len);
	return OK;
}

static fallible plan_read_words(const struct json *array, const char *key, struct build_step *step)
{
	TRY(json_want(array, key, JSON_ARRAY));
	for (size_t i = 0; i < json_count(array); i++) {
		struct str word = {0};

		TRY(json_str(json_at(array, i), key, &word));
		TRY(build_step_add_word(step, word));
	}
	return OK;
}

static fallible plan_read_pairs(const struct json *object, const char *key, struct build_step *step)
{
	struct json *value;
	struct str name;

	TRY(json_want(object, key, JSON_OBJECT));
	for (size_t at = 0; json_next(object, &at, &name, &value);) {
		struct str text = {0};

		TRY(json_str(value, key, &text));
		if (!name.len || memchr(name.at, '=', name.len))
			return err_new(INVALID, "bad_plan", "'%s' has a bad name", key);
		TRY(build_step_add_word(step, name));
		TRY(build_step_add_word(step, text));
	}
	return OK;
}

static fallible plan_read_file(const struct json *object, struct build_step *step)
{
	static const char *const known[] = {"name", "content", "literal", NULL};
	struct str name = {0}, content = {0};
	bool literal = false;

	TRY(json_want(object, "files", JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(json_str(json_get(object, "name"), "name", &name));
	TRY(json_str(json_get(object, "content"), "content", &content));
	TRY(json_bool(json_get(object, "literal"), "literal", &literal));
	return build_step_add_file(step, name, content, literal);
}

static fallible plan_read_copy(const struct json *object, struct build_step *step)
{
	static const char *const known[] = {"sources", "to",	"from", "chown",
					    "chmod",   "files", NULL};
	const struct json *files = json_get(object, "files");
	struct str to = {0};

	TRY(json_want(object, build_kind_word(step->kind), JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(plan_read_words(json_get(object, "sources"), "sources", step));
	TRY(json_str(json_get(object, "to"), "to", &to));
	if (files)
		TRY(json_want(files, "files", JSON_ARRAY));
	for (size_t i = 0; files && i < json_count(files); i++)
		TRY(plan_read_file(json_at(files, i), step));
	if (!to.len || !(step->count + step->file_count))
		return err_new(INVALID, "bad_plan", "'copy' has sources and to");
	TRY(build_step_add_word(step, to));
	TRY(plan_read_text(object, "from", FROM_MAX, &step->from));
	TRY(plan_read_text(object, "chown", FROM_MAX, &step->chown));
	return plan_read_text(object, "chmod", FROM_MAX, &step->chmod);
}

static fallible plan_read_mounts(const struct json *array, struct build_step *step)
{
	if (!array)
		return OK;
	if (step->kind != BUILD_RUN)
		return err_new(INVALID, "bad_plan", "'mounts' are for 'run'");
	TRY(json_want(array, "mounts", JSON_ARRAY));
	for (size_t i = 0; i < json_count(array); i++) {
		struct str text = {0};

		TRY(json_str(json_at(array, i), "mounts", &text));
		TRY(build_step_add_mount(step, text));
	}
	return OK;
}

static fallible plan_read_healthcheck(const struct json *object, struct build_step *step)
{
	static const char *const known[] = {"Test",	     "Interval", "Timeout", "StartPeriod",
					    "StartInterval", "Retries",	 NULL};
	auto_buf text = BUF_INIT(BUILD_WORD_MAX);
	struct json_out json = json_to(&text);

	TRY(json_want(object, "healthcheck", JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(json_want(json_get(object, "Test"), "Test", JSON_ARRAY));
	json_add_value(&json, object);
	return buf_ok(&text) ? build_step_add_word(step, buf_view(&text))
			     : err_new(INVALID, "bad_plan", "'healthcheck' is too long");
}

static fallible plan_read_arg(const struct json *object, struct build_step *step)
{
	struct str name = {0}, value = {0};

	TRY(json_want(object, "arg", JSON_OBJECT));
	TRY(json_str(json_get(object, "name"), "name", &name));
	TRY(json_str(json_get(object, "default"), "default", &value));
	if (!name.len)
		return err_new(INVALID, "bad_plan", "'arg' has a name");
	TRY(build_step_add_word(step, name));
	return value.at ? build_step_add_word(step, value) : OK;
}

static fallible plan_read_value(const struct json *value, struct build_step *step)
{
	const char *key = build_kind_word(step->kind);
	struct str text = {0};

	switch (step->kind) {
	case BUILD_COPY:
	case BUILD_ADD:
		return plan_read_copy(value, step);
	case BUILD_HEALTHCHECK:
		return plan_read_healthcheck(value, step);
	case BUILD_ENV:
	case BUILD_LABEL:
		return plan_read_pairs(value, key, step);
	case BUILD_ARG:
		return plan_read_arg(value, step);
	case BUILD_RUN:
	case BUILD_ENTRYPOINT:
	case BUILD_CMD:
		step->is_list = json_type(value) == JSON_ARRAY;
		if (step->is_list && (step->kind != BUILD_RUN || json_count(value)))
			return plan_read_words(value, key, step);
		break;
	case BUILD_EXPOSE:
	case BUILD_VOLUME:
	case BUILD_SHELL:
		TRY(plan_read_words(value, key, step));
		if (step->count)
			return OK;
		break;
	default:
		break;
	}
	TRY(json_str(value, key, &text));
	if (!text.len)
		return err_new(INVALID, "bad_plan", "'%s' of a step is empty", key);
	return build_step_add_word(step, text);
}

static fallible plan_read_step(const struct json *object, struct build_plan *plan)
{
	static const char *const known[] = {
#define X(name, word) word,
		BUILD_KINDS(X)
#undef X
			"noCache",
		"line", "mounts", NULL};
	struct build_step *step = NULL;
	uint64_t line = 0;

	TRY(json_want(object, "steps", JSON_OBJECT));
	TRY(json_only(object, known));
	for (enum build_kind i = 0; i < BUILD_KIND_COUNT; i++) {
		const struct json *value = json_get(object, build_kind_word(i));

		if (!value)
			continue;
		if (step)
			return err_new(INVALID, "bad_plan", "a step is one of %s and %s",
				       build_kind_word(step->kind), build_kind_word(i));
		TRY(build_plan_add_step(plan, i, &step));
		if (step)
			TRY(plan_read_value(value, step));
	}
	if (!step)
		return err_hint(err_new(INVALID, "bad_plan", "a step has nothing to do"),
				"a step is one of run, copy, env, workdir, user …");
	TRY(plan_read_mounts(json_get(object, "mounts"), step));
	TRY(json_u64(json_get(object, "line"), "line", 0, UINT32_MAX, &line));
	step->line = (uint32_t)line;
	return json_bool(json_get(object, "noCache"), "noCache", &step->no_cache);
}

static fallible plan_read_from(const struct json *from, const struct build_plan *plan,
			       struct build_stage *stage)
{
	static const char *const known[] = {"image", "template", "stage", "scratch", NULL};
	bool scratch = false;
	int64_t at;

	if (!from)
		return err_new(INVALID, "bad_plan", "'from' is missing");
	TRY(json_want(from, "from", JSON_OBJECT));
	TRY(json_only(from, known));
	for (size_t i = 0; known[i]; i++) {
		if (!json_get(from, known[i]))
			continue;
		if (stage->from)
			return err_new(INVALID, "bad_plan", "'from' names more than one thing");
		stage->base = (enum build_base)i;
		if (i != BUILD_FROM_SCRATCH)
			TRY(plan_read_text(from, known[i], FROM_MAX, &stage->from));
		else
			TRY(json_bool(json_get(from, known[i]), known[i], &scratch));
		if (scratch)
			stage->from = mem_str(BUILD_SCRATCH);
	}
	if (!stage->from || !stage->from[0])
		return err_new(INVALID, "bad_plan", "'from' has image, template, stage or scratch");
	if (stage->base != BUILD_FROM_STAGE)
		return OK;
	at = build_plan_find_stage(plan, plan->count - 1, str_of(stage->from));
	if (at < 0)
		return err_new(INVALID, "no_stage", "there is no earlier stage '%.80s'",
			       stage->from);
	stage->from_at = (size_t)at;
	return OK;
}

static fallible plan_read_stage(const struct json *object, struct build_plan *plan)
{
	const struct json *steps = json_get(object, "steps");
	struct build_stage *stage = NULL;
	uint64_t line = 0;

	TRY(build_plan_add_stage(plan, &stage));
	stage = &plan->stages[plan->count - 1];
	TRY(plan_read_from(json_get(object, "from"), plan, stage));
	TRY(json_u64(json_get(object, "line"), "line", 0, UINT32_MAX, &line));
	stage->line = (uint32_t)line;
	if (steps)
		TRY(json_want(steps, "steps", JSON_ARRAY));
	for (size_t i = 0; steps && i < json_count(steps); i++)
		TRY(plan_read_step(json_at(steps, i), plan));
	return OK;
}

// A stage, an image or a template.
static fallible check_source(const struct build_plan *plan, size_t stage, const char *from)
{
	struct reference reference;

	if (!from || build_plan_find_stage(plan, stage, str_of(from)) >= 0 ||
	    str_starts(str_of(from), TEMPLATE_MARK))
		return OK;
	if (build_plan_find_stage(plan, plan->count, str_of(from)) >= 0 ||
	    !strcmp(from, BUILD_SCRATCH) || strspn(from, "0123456789") == strlen(from))
		return err_hint(
			err_new(INVALID, "no_stage", "there is no earlier stage '%.80s'", from),
			"a stage is copied from by those after it");
	return reference_read(str_of(from), &reference);
}

fallible build_plan_check_step(const struct build_plan *plan, size_t stage,
			       const struct build_step *step)
{
	TRY(check_source(plan, stage, step->from));
	for (char **text = step->mounts; text && *text; text++) {
		auto_build_mount mount = {0};

		TRY(build_mount_read(str_of(*text), &mount));
		TRY(check_source(plan, stage, mount.from));
	}
	return OK;
}

static fallible check_sources(const struct build_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		for (size_t k = 0; k < plan->stages[i].count; k++)
			TRY(build_plan_check_step(plan, i, &plan->stages[i].steps[k]));
	return OK;
}

fallible build_plan_read(const struct json *object, struct build_plan *out)
{
	static const char *const known[] = {"name", "from", "steps", "line", NULL};
	const struct json *stages = json_get(object, "stages");
	struct str escape = {0};

	if (stages)
		TRY(json_want(stages, "stages", JSON_ARRAY));
	for (size_t i = 0; stages && i < json_count(stages); i++) {
		const struct json *stage = json_at(stages, i);

		TRY(json_want(stage, "stages", JSON_OBJECT));
		TRY(json_only(stage, known));
		TRY(plan_read_stage(stage, out));
		TRY(plan_read_text(stage, "name", FROM_MAX, &out->stages[out->count - 1].name));
	}
	TRY(plan_read_stage(object, out));
	TRY(json_str(json_get(object, "expand"), "expand", &escape));
	if (escape.at && !str_is(escape, "\\") && !str_is(escape, "`"))
		return err_new(INVALID, "bad_plan", "'expand' is a backslash or a backtick");
	out->escape = escape.at ? escape.at[0] : 0;
	if (json_get(object, "globals"))
		TRY(build_plan_read_args(json_get(object, "globals"), &out->globals));
	return check_sources(out);
}

fallible build_plan_read_args(const struct json *object, struct env_map *out)
{
	struct json *value;
	struct str name;

	if (!object)
		return OK;
	TRY(json_want(object, "args", JSON_OBJECT));
	if (json_count(object) > ARGS_MAX)
		return err_new(INVALID, "bad_field", "'args' has more than %d names", ARGS_MAX);
	for (size_t at = 0; json_next(object, &at, &name, &value);) {
		struct str text = {0};

		TRY(json_str(value, "args", &text));
		if (!name.len || !text.at || memchr(name.at, '=', name.len))
			return err_new(INVALID, "bad_field", "'args' are names with a text each");
		env_map_set(out, name, text);
	}
	return OK;
}

static void write_words(struct json_out *out, const char *key, const struct build_step *step,
			size_t count)
{
	json_put_begin(out, key, '[');
	for (size_t i = 0; i < count; i++)
		json_add_text(out, step->words[i]);
	json_end(out, ']');
}

static void write_copy(struct json_out *out, const struct build_step *step)
{
	json_begin(out, '{');
	write_words(out, "sources", step, step->count - 1);
	json_put_text(out, "to", step->words[step->count - 1]);
	if (step->file_count)
		json_put_begin(out, "files", '[');
	for (size_t i = 0; i < step->file_count; i++) {
		json_begin(out, '{');
		json_put_text(out, "name", step->files[i].name);
		json_put_text(out, "content", step->files[i].content);
		if (step->files[i].literal)
			json_put_bool(out, "literal", true);
		json_end(out, '}');
	}
	if (step->file_count)
		json_end(out, ']');
	if (step->from)
		json_put_text(out, "from", step->from);
	if (step->chown)
		json_put_text(out, "chown", step->chown);
	if (step->chmod)
		json_put_text(out, "chmod", step->chmod);
	json_end(out, '}');
}

// A repeated name of a step is written once: the later value counts.
static void write_pairs(struct json_out *out, const struct build_step *step)
{
	json_begin(out, '{');
	for (size_t i = 0; i + 1 < step->count; i += 2) {
		bool again = false;

		for (size_t k = i + 2; k + 1 < step->count; k += 2)
			again |= !strcmp(step->words[i], step->words[k]);
		if (!again)
			json_put_text(out, step->words[i], step->words[i + 1]);
	}
	json_end(out, '}');
}

static void write_step(struct json_out *out, const struct build_step *step)
{
	const char *key = build_kind_word(step->kind);
	bool copies = step->kind == BUILD_COPY || step->kind == BUILD_ADD;

	json_begin(out, '{');
	if (copies || step->kind == BUILD_ENV || step->kind == BUILD_LABEL ||
	    step->kind == BUILD_ARG || step->kind == BUILD_HEALTHCHECK)
		json_key(out, key);
	if (step->kind == BUILD_HEALTHCHECK) {
		json_add_raw(out, str_of(step->words[0]));
	} else if (copies) {
		write_copy(out, step);
	} else if (step->kind == BUILD_ENV || step->kind == BUILD_LABEL) {
		write_pairs(out, step);
	} else if (step->kind == BUILD_ARG) {
		json_begin(out, '{');
		json_put_text(out, "name", step->words[0]);
		if (step->count > 1)
			json_put_text(out, "default", step->words[1]);
		json_end(out, '}');
	} else if (step->is_list || step->kind == BUILD_EXPOSE || step->kind == BUILD_VOLUME ||
		   step->kind == BUILD_SHELL) {
		write_words(out, key, step, step->count);
	} else {
		json_put_text(out, key, step->words[0]);
	}
	if (step->mounts)
		json_put_begin(out, "mounts", '[');
	for (char **text = step->mounts; text && *text; text++)
		json_add_text(out, *text);
	if (step->mounts)
		json_end(out, ']');
	if (step->no_cache)
		json_put_bool(out, "noCache", true);
	if (step->line)
		json_put_int(out, "line", step->line);
	json_end(out, '}');
}

static void write_stage(struct json_out *out, const struct build_stage *stage)
{
	static const char *const words[] = {"image", "template", "stage", "scratch"};

	json_put_begin(out, "from", '{');
	if (stage->base == BUILD_FROM_SCRATCH)
		json_put_bool(out, words[stage->base], true);
	else
		json_put_text(out, words[stage->base], stage->from);
	json_end(out, '}');
	if (stage->line)
		json_put_int(out, "line", stage->line);
	json_put_begin(out, "steps", '[');
	for (size_t i = 0; i < stage->count; i++)
		write_step(out, &stage->steps[i]);
	json_end(out, ']');
}

void build_plan_write(struct json_out *out, const struct build_plan *plan)
{
	char escape[] = {plan->escape, 0};

	if (plan->escape)
		json_put_text(out, "expand", escape);
	if (plan->globals.count) {
		json_key(out, "globals");
		env_map_write(out, &plan->globals);
	}
	if (plan->count > 1)
		json_put_begin(out, "stages", '[');
	for (size_t i = 0; i + 1 < plan->count; i++) {
		json_begin(out, '{');
		if (plan->stages[i].name)
			json_put_text(out, "name", plan->stages[i].name);
		write_stage(out, &plan->stages[i]);
		json_end(out, '}');
	}
	if (plan->count > 1)
		json_end(out, ']');
	write_stage(out, &plan->stages[plan->count - 1]);
}

// -------------------------------------------------------------------------------------- expansion

struct expansion {
	char escape;
	build_lookup_fn *lookup;
	void *arg;
	struct buf *out;
	bool keeps_quotes; // they are text
	size_t work;
};

static fallible bad_substitution(struct str word)
{
	return err_hint(err_new(INVALID, "bad_substitution", "cannot expand '" STR_FMT "'",
				(int)(word.len < 200 ? word.len : 200), word.at),
			"$NAME, ${NAME}, ${NAME:-word}, ${NAME:+word}; quotes are closed");
}

static fallible expand_text(struct expansion *expansion, struct str text, int depth);

static size_t name_length(struct str text)
{
	size_t len = 0;

	while (len < text.len && (isalnum((unsigned char)text.at[len]) || text.at[len] == '_') &&
	       (len || !isdigit((unsigned char)text.at[0])))
		len++;
	return len;
}

// The closing brace of what begins after "${NAME"; text.len: none.
static size_t find_brace(const struct expansion *expansion, struct str text)
{
	int depth = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] == expansion->escape) {
			i++;
		} else if (text.at[i] == '{' && i && text.at[i - 1] == '$') {
			depth++;
		} else if (text.at[i] == '}' && depth-- == 0) {
			return i;
		}
	}
	return text.len;
}

// After the "${": *rest is moved behind the closing brace.
static fallible expand_brace(struct expansion *expansion, struct str *rest, int depth)
{
	struct str whole = *rest, name, word;
	size_t len = name_length(*rest), end;
	const char *value;
	bool colon, set;
	char op;

	name = (struct str){rest->at, len};
	*rest = str_skip(*rest, len);
	end = find_brace(expansion, *rest);
	if (!len || end == rest->len)
		return bad_substitution(whole);
	word = (struct str){rest->at, end};
	*rest = str_skip(*rest, end + 1);
	value = expansion->lookup(expansion->arg, name);
	if (!word.len) {
		buf_text(expansion->out, value ? value : "");
		return OK;
	}
	colon = word.at[0] == ':';
	word = str_skip(word, colon);
	op = word.len ? word.at[0] : 0;
	word = str_skip(word, 1);
	set = value && (!colon || value[0]);
	if (op == '+')
		return set ? expand_text(expansion, word, depth + 1) : OK;
	if (op != '-' && op != '?')
		return bad_substitution(whole);
	if (set) {
		buf_text(expansion->out, value);
		return OK;
	}
	if (op == '-')
		return expand_text(expansion, word, depth + 1);
	return err_new(INVALID, "bad_substitution", STR_FMT " is not set", STR_ARG(name));
}

// After the "$".
static fallible expand_dollar(struct expansion *expansion, struct str *rest, int depth)
{
	const char *value;
	size_t len;

	if (rest->len && rest->at[0] == '{') {
		*rest = str_skip(*rest, 1);
		return expand_brace(expansion, rest, depth);
	}
	len = name_length(*rest);
	if (!len) {
		buf_char(expansion->out, '$');
		return OK;
	}
	value = expansion->lookup(expansion->arg, (struct str){rest->at, len});
	buf_text(expansion->out, value ? value : "");
	*rest = str_skip(*rest, len);
	return OK;
}

static fallible expand_text(struct expansion *expansion, struct str text, int depth)
{
	struct str rest = text;
	char quote = 0;

	if (depth > DEPTH_MAX)
		return bad_substitution(text);
	while (rest.len) {
		char c = rest.at[0];
		bool is_plain = quote == '\'' && c != '\'';

		if (++expansion->work > EXPANDED_MAX)
			return bad_substitution(text);
		rest = str_skip(rest, 1);
		if ((c == '\'' || c == '"') && !expansion->keeps_quotes && (!quote || quote == c)) {
			quote = quote ? 0 : c;
		} else if (!is_plain && c == expansion->escape && rest.len) {
			// Within double quotes it is one before a quote, a dollar or itself alone.
			if ((quote && rest.at[0] != '"' && rest.at[0] != '$' && rest.at[0] != c) ||
			    (expansion->keeps_quotes && rest.at[0] != '$' && rest.at[0] != c))
				buf_char(expansion->out, c);
			buf_char(expansion->out, rest.at[0]);
			rest = str_skip(rest, 1);
		} else if (!is_plain && c == '$') {
			TRY(expand_dollar(expansion, &rest, depth));
		} else {
			buf_char(expansion->out, c);
		}
	}
	return quote ? bad_substitution(text) : OK;
}

fallible build_expand(struct str word, char escape, build_lookup_fn *lookup, void *arg,
		      struct buf *out)
{
	struct expansion expansion = {.escape = escape, .lookup = lookup, .arg = arg, .out = out};

	if (!escape) {
		buf_str(out, word);
		return OK;
	}
	buf_text(out, "");
	return expand_text(&expansion, word, 0);
}

fallible build_expand_text(struct str text, char escape, build_lookup_fn *lookup, void *arg,
			   struct buf *out)
{
	struct expansion expansion = {
		.escape = escape, .lookup = lookup, .arg = arg, .out = out, .keeps_quotes = true};

	if (!escape) {
		buf_str(out, text);
		return OK;
	}
	buf_text(out, "");
	return expand_text(&expansion, text, 0);
}
