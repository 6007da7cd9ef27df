// The list of what pid 1 holds while a box is adopted, for the files that take their part of it.
#pragma once

#include "box/exec_private.h"

struct adoptee {
	struct link link;
	struct talk talk;	 // HELD; its label lives in `bytes`
	struct exec_label label; // kind EXEC when pid 1 sent none, or an invalid one
	char *bytes;
	int fds[3];
	int count;			// of fds; 0: taken
	struct box_cgroup *exec_cgroup; // NULL: the command has ended
};

struct adoption {
	struct box *box;
	struct link helds;
	uint32_t count;
	bool ended;    // HELD_END
	bool no_files; // fds were lost: this process has none left
	struct condition condition;
	char **names; // files of the box's folder
	size_t name_count;
	uint64_t spent[TALK_CGROUPS_MAX / 64]; // cgroups, as cgroup_is_spent() reads them
};

struct adoption *adoption_new(struct box *box); // box->adoption
void adoption_free(struct adoption *adoption);
// The entry of that kind and file that is not taken yet; NULL: none.
struct adoptee *adoption_find(struct adoption *adoption, enum exec_label_kind kind, uint32_t file);
// Makes an exec of an entry: its output goes to `tape` (NULL: dropped). The caller holds *out.
fallible adoptee_take(struct adoptee *adoptee, struct box *box, struct tape *tape,
		      struct exec **out);
// The numbers of files with that letter (0: none), the highest first, ended by 0; the caller's.
uint32_t *adoption_numbers(const struct adoption *adoption, char letter);
