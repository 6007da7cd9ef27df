// What a pid 1 holds, while a daemon takes it up: for the files that know what to do with it.
#pragma once

#include "box/exec_private.h"

struct adoptee {
	struct link link;
	struct talk talk;      // HELD; its tag lives in `bytes`
	struct exec_label tag; // kind EXEC when pid 1 told none, or nonsense
	char *bytes;
	int fds[3];
	int count;			// of fds; 0: they were taken
	struct box_cgroup *exec_cgroup; // NULL: it has ended
};

struct adoption {
	struct box *box;
	struct link helds;
	uint32_t count;
	bool ended;    // HELD_END
	bool no_files; // fds were lost on their way
	struct condition condition;
	char **names; // what lies in the box's folder
	size_t name_count;
	uint64_t spent[TALK_CGROUPS_MAX / 64]; // leaves, as cgroup_is_spent() reads them
};

struct adoption *adoption_new(struct box *box); // box->adoption
void adoption_free(struct adoption *adoption);
// The one of that kind and file that nobody has taken; NULL: there is none.
struct adoptee *adoption_find(struct adoption *adoption, enum exec_label_kind kind, uint32_t file);
// Makes an exec of it: its output goes to `tape` (NULL: nowhere). The caller holds *out.
fallible adoptee_take(struct adoptee *adoptee, struct box *box, struct tape *tape,
		      struct exec **out);
// The number in a name that is `letter` (0: none) and a number; false: it is another name.
bool adoption_number(const char *name, char letter, uint32_t *out);
// The highest number of such a name; 0: there is none. New files are numbered from there on, so it
// is asked before anything is taken up.
uint32_t adoption_highest(const struct adoption *adoption, char letter);

// Each takes up what is its own. They wait.
fallible procs_adopt(struct adoption *adoption);
fallible terms_adopt(struct adoption *adoption);
fallible sessions_adopt(struct adoption *adoption);
fallible contexts_adopt(struct adoption *adoption);
