// What the steps of a build have set so far: environment, directory, user and the rest of an
// image's configuration. Steps that run nothing are applied here. No I/O.
#pragma once

#include "types/build_plan.h"
#include "types/image.h"

struct build_state {
	struct env_map env;		       // of commands
	struct env_map args;		       // visible ARGs, which ENV of the same name hides
	struct env_map labels, ports, volumes; // ports, volumes: names with ""
	char *user, *workdir, *stop_signal;    // NULL: none
	char *entrypoint, *cmd;		       // lists as JSON; NULL: none
	bool has_own_cmd;		       // a step of this stage has set it
	char *healthcheck;		       // an object as JSON; NULL: none
	char *launch;			       // see types/launch.h; NULL: none
	char **shell;			       // NULL-ended; NULL: /bin/sh -c
};

void build_state_done(struct build_state *state);
#define auto_build_state on_exit_call(build_state_done) struct build_state
void build_state_copy(const struct build_state *from, struct build_state *out);

// From the configuration of the base: OCI's "config", as JSON; an empty text is none. INVALID
// bad_image.
fallible build_state_read(struct str config, struct build_state *out);
// The same members, for IMAGE_FILE and for clients. INVALID bad_image: the next create would refuse
// it.
fallible build_state_write(const struct build_state *state, struct buf *out);

// A word of a step with its variables replaced. INVALID bad_substitution, bad_plan (too long). The
// caller frees *out.
fallible build_state_expand(const struct build_state *state, const struct build_plan *plan,
			    const char *word, char **out);
// The same for the content of a file of the step.
fallible build_state_expand_file(const struct build_state *state, const struct build_plan *plan,
				 const struct build_file *file, char **out);
// Applies any step but run, copy and add. INVALID bad_plan.
fallible build_state_apply(struct build_state *state, const struct build_plan *plan,
			   const struct build_step *step);
// A path of a step, relative to the directory. INVALID bad_plan. The caller frees *out.
fallible build_state_path(const struct build_state *state, const char *path, char **out);
