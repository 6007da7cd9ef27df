// The providers by name. `local` has no isolation at all: a caller has to ask for it in so many
// words, so that no configuration of cove runs an agent on the host by mistake.
#include "cli/provider.h"

#include <string.h>

fallible provider_choose(const struct call *call, const struct provider **out)
{
	static const struct provider *const all[] = {&provider_cove, &provider_daytona,
						     &provider_local, NULL};
	const char *name = call_value(call, OPT_PROVIDER);

	*out = name ? NULL : &provider_cove;
	for (size_t i = 0; all[i] && !*out; i++)
		if (!strcmp(all[i]->name, name))
			*out = all[i];
	if (!*out)
		return err_new(INVALID, "bad_value",
			       "--provider '%s' is none of cove, daytona and local", name);
	if (*out == &provider_local && !call_has(call, OPT_ALLOW_LOCAL))
		return err_hint(err_new(INVALID, "no_local",
					"--provider local runs the command on this host, without "
					"a sandbox"),
				"--allow-local says that you want that");
	return OK;
}
