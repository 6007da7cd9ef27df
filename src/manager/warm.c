// Decides which boxes get prewarmed interpreters. Prewarming is skipped without error when the box
// or the host is short of memory or pids.
#include "manager/warm.h"

// Smaller boxes get no prewarmed interpreter.
#define PIDS_ENOUGH 64
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

	if (limits->pids < PIDS_ENOUGH ||
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

void warm_next(const struct box_ref *ref, enum context_language language)
{
	warm_want(ref, language, hinted(ref->entry) >> language & 1);
}

void warm_set(struct manager *manager, uint32_t languages, uint32_t max)
{
	manager->warm_all = languages;
	manager->warmth.max = max;
	manager->made = warm_box;
}
