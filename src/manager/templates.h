// What boxes start from, as the fleet's callers see it. The warden keeps them.
#pragma once

#include "manager/table.h"
#include "types/who.h"

struct template
{
	char name[TEMPLATE_NAME_MAX];
	const char *kind;      // "host", "frozen", "imported": literals
	uint64_t bytes, files; // 0: not measured
	int64_t created_ms;    // wall clock; 0: not yet
};

// All that they may use, "host" first if they may use that; a tenant sees its own by their short
// names. The caller frees *out.
fallible templates_all(struct manager *manager, const struct who *who, struct template **out,
		       size_t *out_count);
// The name under which the warden keeps what `who` means by `name`, in its place: a tenant's own
// templates are kept as TENANT.NAME. FORBIDDEN host_not_allowed; NOT_FOUND no_template. May wait.
fallible templates_resolve(struct manager *manager, const struct who *who,
			   char name[TEMPLATE_NAME_MAX]);
// NOT_FOUND no_template.
fallible templates_get(struct manager *manager, const struct who *who, struct str name,
		       struct template *out);
fallible templates_forget(struct manager *manager, const struct who *who, struct str name);
// All of a tenant's own. CONFLICT tenant_in_use: one is being made.
fallible templates_forget_all(struct manager *manager, const char *tenant);
// Counts the bytes of every tenant's own templates in its account. Waits.
fallible templates_count(struct manager *manager);
// Of one tenant so many are made at a time, so that others have their turn. The operator's own are
// bounded by the host alone.
#define TEMPLATES_SHARE 2
// Copies the host's own template once. Waits as long as that takes.
fallible templates_freeze(struct manager *manager, const struct who *who, struct str name,
			  struct template *out);

// An archive that comes in pieces. Begin, write, end; free at any point, which forgets a template
// that was not ended well. INVALID bad_template, CONFLICT template_exists, INVALID bad_archive,
// EXHAUSTED too_many_imports, quota …
struct templates_import;
fallible templates_import_begin(struct manager *manager, const struct who *who, struct str name,
				struct templates_import **out);
fallible templates_import_write(struct templates_import *import, const void *bytes, size_t len);
fallible templates_import_end(struct templates_import *import, struct template *out);
void templates_import_free(struct templates_import *import);
static inline void auto_templates_import_(struct templates_import **import)
{
	templates_import_free(*import);
}
#define auto_templates_import on_exit_call(auto_templates_import_) struct templates_import *
