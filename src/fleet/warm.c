#include "fleet/warm.h"

// Boxes that are smaller keep what an interpreter would take.
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

static bool warm_has_room(const struct visit *visit, enum context_language language)
{
	const struct limits *limits = &visit->entry->record.limits;
	struct fleet *fleet = visit->entry->fleet;
	struct admit_view host;

	if (limits->pids < PIDS_ENOUGH ||
	    limits->memory < (language == CONTEXT_PYTHON ? MEMORY_PYTHON : MEMORY_NODE))
		return false;
	host = admit_look(fleet->admit, loop_now(fleet->loop));
	return host.memory_free > host.memory_mark + MEMORY_HOST;
}

static void warm_want(const struct visit *visit, enum context_language language, bool stays)
{
	struct use_spec use = {.command = ""};
	auto_outfit outfit = {0};

	if (!warm_has_room(visit, language))
		return;
	outfit_make(visit, &use, &outfit);
	context_warm_want(visit->box,
			  &(struct context_spec){.language = language,
						 .env = outfit.spec.env,
						 .cwd = outfit.spec.cwd,
						 .cpu_milli = outfit.spec.cpu_milli},
			  stays, &visit->entry->fleet->warmth);
}

static uint32_t hinted(const struct entry *entry)
{
	const char *label = pairs_get(&entry->record.labels, STR(WARM_LABEL));
	uint32_t bits = 0;

	if (label && !read_languages(str_of(label), &bits))
		bits = 0;
	return bits | entry->fleet->warm_all;
}

static void warm_box(struct entry *entry)
{
	struct visit visit = {.entry = entry, .box = entry->box};
	uint32_t bits = entry->box ? hinted(entry) : 0;

	for (int i = 0; i < CONTEXT_LANGUAGES; i++)
		if (bits >> i & 1)
			warm_want(&visit, (enum context_language)i, true);
}

void warm_next(const struct visit *visit, enum context_language language)
{
	warm_want(visit, language, hinted(visit->entry) >> language & 1);
}

void warm_set(struct fleet *fleet, uint32_t languages, uint32_t max)
{
	fleet->warm_all = languages;
	fleet->warmth.max = max;
	fleet->made = warm_box;
}
