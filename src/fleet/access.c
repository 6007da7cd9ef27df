#include "fleet/access.h"

#include <stddef.h>
#include <string.h>

fallible access_ask(const struct who *who, enum access what)
{
	static const char *const words[] = {
		[ACCESS_READ] = "see sandboxes",
		[ACCESS_MAKE] = "make or delete sandboxes",
		[ACCESS_USE] = "run commands",
		[ACCESS_TEMPLATES] = "change templates",
	};

	if (who && who->role == WHO_OPERATOR)
		return OK;
	if (who && who->role == WHO_BOX && what == ACCESS_USE)
		return OK;
	return err_hint(err_new(FORBIDDEN, "not_allowed", "this key may not %s", words[what]),
			"use the operator's key");
}

bool access_sees(const struct who *who, const char *box)
{
	return who &&
	       (who->role == WHO_OPERATOR || (who->role == WHO_BOX && strcmp(who->box, box) == 0));
}
