// Agents by name: those that are known, and the sections [agent NAME] of
// ~/.config/cove/agents.conf.
#pragma once

#include "base/err.h"
#include "base/str.h"

struct agent_config {
	// Words with blanks between. {prompt}, {session} and {model} are replaced; words in [ ] are
	// left out if the one among them has no value.
	char *argv;
	char *template, *image; // NULL: not set, here and below
	char *setup;		// a file of this host
	char *install;		// the text of a setup
	char *roots;		// of [agent]
	char *session;		// member of its JSON lines that is the id of its session
	char **allow, **secrets;
};
void agent_config_done(struct agent_config *config);
#define auto_agent_config on_exit_call(agent_config_done) struct agent_config

// Changes `out` as the section says; *found: there is one. INVALID bad_agents. No I/O.
fallible agent_config_read(struct str text, const char *name, struct agent_config *out,
			   bool *found);
// A section of the file changes an agent that is known, or adds one. NOT_FOUND no_agent; INVALID
// bad_agents.
fallible agent_config_load(const char *name, struct agent_config *out);
// The line roots of [agent], directories with colons: the caller's, NULL: there is none.
fallible agent_config_roots(char **out);
// The command, NULL-ended, for mem_free_list(). `session` and `model` may be NULL.
char **agent_config_words(const struct agent_config *config, const char *prompt,
			  const char *session, const char *model);
