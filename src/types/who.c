// Checks the name of a tenant. A tenant's name is part of file and template names, so it has no
// dot, slash or capital.
#include "types/who.h"

bool who_is_tenant(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && (c != '-' || i == 0))
			return false;
	}
	return name.len && name.len <= WHO_TENANT_MAX;
}
