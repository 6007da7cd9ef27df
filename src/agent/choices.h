// Choices in the create of an agent session beside its runner: template or image, network, secrets,
// volumes and profile of its sandbox, and files of its workspace. Kept as the JSON that was asked
// for, so that a sandbox that is made again is made the same way. Pure.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "codec/json.h"
#include "types/spec.h"

#define CHOICES_FILES_MAX 64
#define CHOICES_FILE_MAX (128 * 1024)  // bytes of one file
#define CHOICES_BYTES_MAX (512 * 1024) // of the text of all choices

// clang-format off
//	  CHOICE_   key         is it the sandbox's, which sessions may share?
#define CHOICE_ROWS(X) \
	X(TEMPLATE, "template", true) \
	X(IMAGE,    "image",    true) \
	X(NETWORK,  "network",  true) \
	X(SECRETS,  "secrets",  true) \
	X(PROFILE,  "profile",  true) \
	X(LIMITS,   "limits",   true) \
	X(VOLUMES,  "volumes",  true) \
	X(FILES,    "files",    false)
// clang-format on
enum choice {
#define X(name, key, shared) CHOICE_##name,
	CHOICE_ROWS(X)
#undef X
		CHOICE_COUNT
};

struct choices {
	char *text[CHOICE_COUNT]; // JSON; NULL: not chosen
};
void choices_done(struct choices *choices);
#define auto_choices on_exit_call(choices_done) struct choices

extern const char *const choice_keys[CHOICE_COUNT + 1]; // NULL-ended

// Reads the members of a create; others are ignored. INVALID bad_field, bad_path: names the member.
// TOO_LARGE. The caller owns *out.
fallible choices_read(const struct json *object, struct choices *out);
// The same from the store, which has what was read: unchecked.
void choices_load(const struct json *object, struct choices *out);
// As members of an object, without contents of files if they are `shown`.
void choices_put(struct json_out *out, const struct choices *choices, bool shown);
void choices_copy(const struct choices *from, struct choices *out);
void choices_set_template(struct choices *choices, const char *name);
void choices_set_image(struct choices *choices, const char *reference);
// Sets what a profile gives, as JSON, unless it was chosen.
void choices_offer(struct choices *choices, enum choice choice, struct str json);
size_t choices_bytes(const struct choices *choices); // of all but the two names

// What a session gets that asks for `asked` in a sandbox made by `had`: everything of the sandbox
// is as in `had`; files are its own. CONFLICT sandbox_differs if it asks for something else.
fallible choices_join(const struct choices *asked, const struct choices *had, struct choices *out);
fallible choices_differ(const char *key); // that error
// Whether both make the same sandbox.
bool choices_agree(const struct choices *one, const struct choices *other);
// The spec of the sandbox. INVALID as spec_read().
fallible choices_spec(const struct choices *choices, const struct spec_bounds *bounds,
		      struct spec *out);

struct choice_file {
	struct str path; // relative to the workspace, or absolute
	uint32_t mode;
	struct str bytes;
};
// Borrowed for the call.
typedef struct err *choices_file_fn(void *arg, const struct choice_file *file);
fallible choices_each_file(const struct choices *choices, choices_file_fn *each, void *arg);
