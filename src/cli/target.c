#include "cli/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void target_read(const char *word, struct target *out)
{
	size_t len = strcspn(word, ":/");

	if (word[len] != ':' || len == 0) {
		*out = (struct target){.path = mem_str(word)};
		return;
	}
	*out = (struct target){
		.box = mem_dup(word, len),
		.path = mem_str(word[len + 1] ? word + len + 1 : "."),
	};
}

void target_done(struct target *target)
{
	free(target->box);
	free(target->path);
	*target = (struct target){0};
}

fallible target_of_box(const char *word, struct target *out)
{
	target_read(word, out);
	if (out->box)
		return OK;
	return err_hint(err_new(INVALID, "no_box", "'%s' names no sandbox", word),
			"write BOX:PATH, for example web:/etc/hosts");
}
