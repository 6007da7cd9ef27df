// Environment, user, directory and shell follow from the steps before, whose keys are in this one.
// An argument changes every step after it, since commands have it in their environment.
#include "manager/build_key.h"

#include <string.h>

#define NONE UINT64_MAX

static void key_add_number(struct sha256 *key, uint64_t number)
{
	sha256_add(key, &number, sizeof(number));
}

void build_key_add(struct sha256 *key, const char *text)
{
	uint64_t len = text ? strlen(text) : 0;

	key_add_number(key, text ? len : NONE);
	sha256_add(key, text ? text : "", len);
}

static void key_add_list(struct sha256 *key, char *const *list)
{
	for (; list && *list; list++)
		build_key_add(key, *list);
	build_key_add(key, NULL);
}

void build_key_begin(struct sha256 *key, const char *before, const struct build_plan *plan,
		     const struct build_step *step, const struct build_state *state)
{
	sha256_begin(key);
	build_key_add(key, before);
	build_key_add(key, build_kind_word(step->kind));
	key_add_number(key, (uint64_t)(unsigned char)plan->escape << 1 | step->is_list);
	key_add_list(key, step->words);
	key_add_list(key, step->mounts);
	build_key_add(key, step->from);
	build_key_add(key, step->chown);
	build_key_add(key, step->chmod);
	for (size_t i = 0; i < step->file_count; i++) {
		build_key_add(key, step->files[i].name);
		build_key_add(key, step->files[i].content);
		key_add_number(key, step->files[i].literal);
	}
	for (size_t i = 0; i < state->args.count; i++) {
		build_key_add(key, state->args.at[i].name);
		build_key_add(key, state->args.at[i].value);
	}
	build_key_add(key, NULL);
}
