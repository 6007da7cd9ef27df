// Interpreters of a box, for requests: fills in environment, directory, user and limits of the box,
// asks for admission, reports a limit that ended a cell, and decides which boxes get prewarmed
// interpreters. Prewarming is skipped without error when the box or the host is short of memory or
// pids.
#include "manager/contexts.h"

// Smaller boxes get no prewarmed interpreter.
#define WARM_PIDS 64
#define MEMORY_PYTHON (128u << 20)
#define MEMORY_NODE (384u << 20)
#define MEMORY_HOST (512u << 20) // above the mark at which creates are refused

static bool read_languages(struct str text, uint32_t *out)
{
	enum context_language language;
	struct str word;

	for (struct str rest = text; rest.len && str_cut(&rest, ',', &word);) {
		if (!context_language(str_trim(word), &language))
			return false;
		*out |= 1u << language;
	}
	return true;
}

fallible warm_read(const char *languages, uint32_t *out)
{
	uint32_t bits = 0;

	if (!read_languages(str_of(languages), &bits))
		return err_hint(err_new(INVALID, "bad_config",
					"warm names a language that cove does not know: %s",
					languages),
				"python, javascript and typescript, with commas");
	*out = bits;
	return OK;
}

static bool warm_has_room(const struct box_ref *ref, enum context_language language)
{
	const struct limits *limits = &ref->entry->record.limits;
	struct manager *manager = ref->entry->manager;
	struct admit_view host;

	if (limits->pids < WARM_PIDS ||
	    limits->memory < (language == CONTEXT_PYTHON ? MEMORY_PYTHON : MEMORY_NODE))
		return false;
	host = admit_look(manager->admit, loop_now(manager->loop));
	return host.memory_free > host.memory_mark + MEMORY_HOST;
}

static void warm_want(const struct box_ref *ref, enum context_language language, bool stays)
{
	struct manager_exec_spec run = {.command = ""};
	auto_exec_env exec_env = {0};

	if (!warm_has_room(ref, language))
		return;
	exec_env_make(ref, &run, &exec_env);
	context_warm_want(ref->box,
			  &(struct context_spec){.language = language,
						 .env = exec_env.spec.env,
						 .cwd = exec_env.spec.cwd,
						 .cpu_milli = exec_env.spec.cpu_milli},
			  stays, &ref->entry->manager->warmth);
}

static uint32_t hinted(const struct entry *entry)
{
	const char *label = env_map_get(&entry->record.labels, STR(WARM_LABEL));
	uint32_t bits = 0;

	if (label && !read_languages(str_of(label), &bits))
		bits = 0;
	return bits | entry->manager->warm_all;
}

static void warm_box(struct entry *entry)
{
	struct box_ref ref = {.entry = entry, .box = entry->box};
	uint32_t bits = entry->box ? hinted(entry) : 0;

	for (int i = 0; i < CONTEXT_LANGUAGES; i++)
		if (bits >> i & 1)
			warm_want(&ref, (enum context_language)i, true);
}

// A context of that language was created.
static void warm_next(const struct box_ref *ref, enum context_language language)
{
	warm_want(ref, language, hinted(ref->entry) >> language & 1);
}

void warm_set(struct manager *manager, uint32_t languages, uint32_t max)
{
	manager->warm_all = languages;
	manager->warmth.max = max;
	manager->made = warm_box;
}

// ----------------------------------------------------------------------------------- interpreters

fallible contexts_create(const struct box_ref *ref, const struct contexts_spec *spec,
			 struct context **out)
{
	struct manager_exec_spec run = {.command = "", .env = spec->env, .cwd = spec->cwd};
	auto_exec_env exec_env = {0};
	struct context_spec made;

	TRY(box_ref_admit(ref));
	exec_env_make(ref, &run, &exec_env);
	made = (struct context_spec){
		.language = spec->language,
		.env = exec_env.spec.env,
		.cwd = exec_env.spec.cwd,
		.output_cap = exec_env.spec.output_cap,
		.cpu_milli = exec_env.spec.cpu_milli,
		.timeout_ms = exec_tighter(spec->timeout_ms,
					   ref->entry->record.limits.wall_time_ms),
		.is_default = spec->is_default,
	};
	TRY(box_ref_explain(context_create(ref->box, &made, out)));
	warm_next(ref, spec->language);
	return OK;
}

fallible contexts_default(const struct box_ref *ref, enum context_language language,
			  struct context **out)
{
	struct contexts_spec spec = {.language = language, .is_default = true};
	struct context *context = context_default(ref->box, language);

	if (!context)
		return contexts_create(ref, &spec, out);
	*out = context;
	return OK;
}

fallible contexts_restart(const struct box_ref *ref, struct context *context)
{
	TRY(box_ref_explain(context_restart(context)));
	warm_next(ref, context_view(context).language);
	return OK;
}

fallible contexts_run(const struct box_ref *ref, struct context *context, struct str code,
		      uint64_t timeout_ms, struct context_run **out)
{
	uint64_t limit = ref->entry->record.limits.wall_time_ms;

	return box_ref_explain(
		context_run(context, code, timeout_ms ? exec_tighter(timeout_ms, limit) : 0, out));
}

void contexts_report(const struct box_ref *ref, const struct context_result *result)
{
	enum ending ending = result->timed_out ? ENDING_WALL_LIMIT : result->exec.ending;

	if (result->timed_out || (result->end == CONTEXT_DIED && ending == ENDING_OOM))
		ending_report(ending, ref->entry->record.id);
}
