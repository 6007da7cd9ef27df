// A build plan: how a template is made, in steps. Read from JSON here, from a Dockerfile by
// types/dockerfile. Everything is bounded and copied. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/json.h"
#include "types/build_mount.h"
#include "types/env_map.h"

#define BUILD_SCRATCH "scratch" // a base without files
#define BUILD_STAGES_MAX 64
#define BUILD_STEPS_MAX 1000 // of all stages
#define BUILD_WORDS_MAX 1000 // of a step
#define BUILD_WORD_MAX (128 * 1024)

// clang-format off
//	  BUILD_      word           its words
#define BUILD_KINDS(X) \
	X(RUN,        "run")         /* arguments, or one line for the shell */ \
	X(COPY,       "copy")        /* sources, then the destination */ \
	X(ADD,        "add")         /* as of copy; archives are unpacked */ \
	X(ENV,        "env")         /* name, value, name, value, … */ \
	X(ARG,        "arg")         /* a name, and its default if it has one */ \
	X(WORKDIR,    "workdir")     /* a path */ \
	X(USER,       "user")        /* a user */ \
	X(LABEL,      "label")       /* as of env */ \
	X(EXPOSE,     "expose")      /* ports */ \
	X(VOLUME,     "volume")      /* paths */ \
	X(STOPSIGNAL, "stopsignal")  /* a signal */ \
	X(ENTRYPOINT, "entrypoint")  /* as of run */ \
	X(CMD,        "cmd")         /* as of run */ \
	X(SHELL,      "shell")       /* arguments */ \
	X(HEALTHCHECK, "healthcheck") /* OCI's Healthcheck, as JSON */
// clang-format on
enum build_kind {
#define X(name, word) BUILD_##name,
	BUILD_KINDS(X)
#undef X
		BUILD_KIND_COUNT
};
const char *build_kind_word(enum build_kind kind);

// A file of a step itself: a here-document of COPY.
struct build_file {
	char *name, *content;
	bool literal; // no variables are replaced
};

struct build_step {
	enum build_kind kind;
	uint32_t line; // of the Dockerfile; 0: none
	char **words;  // NULL-ended
	size_t count;
	bool is_list; // of run, entrypoint, cmd: arguments; else one line for the shell
	char *from;   // of copy: a stage, an image, or cove://TEMPLATE; NULL: the context
	struct build_file *files; // of copy; sources before those of `words`
	size_t file_count;
	char **mounts;	     // of run: options of types/build_mount, NULL-ended; NULL: none
	char *chown, *chmod; // of copy; NULL: 0:0, as it is
	char *text;	     // of the Dockerfile, for progress; NULL: none
	bool no_cache;
};

enum build_base { BUILD_FROM_IMAGE, BUILD_FROM_TEMPLATE, BUILD_FROM_STAGE, BUILD_FROM_SCRATCH };

struct build_stage {
	char *name; // NULL: none
	enum build_base base;
	char *from;	// reference, template, name of an earlier stage, or "scratch"
	size_t from_at; // of a stage: its index
	uint32_t line;	// of the Dockerfile; 0: none
	struct build_step *steps;
	size_t count;
};

struct build_plan {
	struct build_stage *stages; // the last one is the result
	size_t count, steps;
	char escape;		// of words that hold variables and quotes; 0: words are literal
	struct env_map globals; // values of ARGs before the first stage
	struct env_map args;	// as the request gives them
};

void build_plan_done(struct build_plan *plan);
#define auto_build_plan on_exit_call(build_plan_done) struct build_plan

// Reads {from, steps, stages} of the request. `args` are taken over before. INVALID bad_plan,
// bad_field, unknown_field.
fallible build_plan_read(const struct json *object, struct build_plan *out);
// As members of an object: what build_plan_read() reads.
void build_plan_write(struct json_out *out, const struct build_plan *plan);
// {NAME: value}: INVALID bad_field.
fallible build_plan_read_args(const struct json *object, struct env_map *out);

// For readers: a new stage, a new step of the last stage, a new word of the last step. INVALID
// bad_plan when there are too many.
fallible build_plan_add_stage(struct build_plan *plan, struct build_stage **out);
fallible build_plan_add_step(struct build_plan *plan, enum build_kind kind,
			     struct build_step **out);
fallible build_step_add_word(struct build_step *step, struct str word);
fallible build_step_add_file(struct build_step *step, struct str name, struct str content,
			     bool literal);
// INVALID bad_mount, bad_plan.
fallible build_step_add_mount(struct build_step *step, struct str text);
// An earlier stage by its name, in any case, or by its number; -1: there is none.
int64_t build_plan_find_stage(const struct build_plan *plan, size_t before, struct str name);
// What a step copies or mounts from: a stage before its own, an image, or cove://TEMPLATE. INVALID
// no_stage, bad_mount, bad_reference.
fallible build_plan_check_step(const struct build_plan *plan, size_t stage,
			       const struct build_step *step);
// Drops stages after `target`. INVALID no_stage.
fallible build_plan_choose(struct build_plan *plan, struct str target);
// Whether the last stage needs the stage of that index.
bool build_plan_needs(const struct build_plan *plan, size_t stage);

// The value of a variable; NULL: not set.
typedef const char *build_lookup_fn(void *arg, struct str name);
// Removes quotes and replaces $NAME, ${NAME}, ${NAME:-word}, ${NAME-word}, ${NAME:+word},
// ${NAME+word} and ${NAME:?word}. INVALID bad_substitution.
fallible build_expand(struct str word, char escape, build_lookup_fn *lookup, void *arg,
		      struct buf *out);
// The same for a here-document: its quotes are text.
fallible build_expand_text(struct str text, char escape, build_lookup_fn *lookup, void *arg,
			   struct buf *out);
