// Parses BOX:PATH. A word without a colon, or with a slash before it, is a path of this host.
// Memory only; the paths are not checked here.
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

fallible target_of_box(const char *verb, const char *word, struct target *out)
{
	target_read(word, out);
	if (out->box)
		return OK;
	if (!strchr(word, '/'))
		return err_hint(err_new(INVALID, "no_path",
					"'cove %s' needs a path in the sandbox, and '%s' has none",
					verb, word),
				"write BOX:PATH, for example 'cove %s %s:/etc/hosts'; '%s:' alone "
				"is the directory that its commands begin in",
				verb, word, word);
	return err_hint(err_new(INVALID, "no_box", "'%s' names no sandbox", word),
			"write BOX:PATH, for example web:/etc/hosts");
}
