// Templates: the root file systems that boxes start from. The warden stores them.
#pragma once

#include "manager/table.h"
#include "types/who.h"

struct pulled_image;

struct template
{
	char name[TEMPLATE_NAME_MAX];
	const char *kind;	   // "host", "frozen", "imported", "image", "snapshot", "built"
	char note[ORDER_NOTE_MAX]; // of a snapshot: JSON, see manager/snapshot_note.h; "": none
	const struct pulled_image
		*image;	       // of manager/pulled, borrowed until the next wait; NULL: none
	uint64_t bytes, files; // 0: not measured
	int64_t created_ms;    // wall clock; 0: not yet
};

// All templates that `who` may use, "host" first if allowed; a tenant sees its own by their short
// names. The caller frees *out.
fallible templates_all(struct manager *manager, const struct who *who, struct template **out,
		       size_t *out_count);
// Fills in an empty name: the default template of the caller's tenant, else "host".
void templates_default(const struct manager *manager, const struct who *who,
		       char name[TEMPLATE_NAME_MAX]);
// Replaces `name` by the name under which the warden stores the template that `who` means: a
// tenant's own are stored as TENANT.NAME. FORBIDDEN host_not_allowed; NOT_FOUND no_template. May
// wait.
fallible templates_resolve(struct manager *manager, const struct who *who,
			   char name[TEMPLATE_NAME_MAX]);
// NOT_FOUND no_template.
fallible templates_get(struct manager *manager, const struct who *who, struct str name,
		       struct template *out);
fallible templates_forget(struct manager *manager, const struct who *who, struct str name);
// Removes all templates of a tenant. CONFLICT tenant_in_use: an import is running.
fallible templates_forget_all(struct manager *manager, const char *tenant);
// Updates the bytes of templates in every tenant's account. Waits.
fallible templates_count(struct manager *manager);
// Imports that one tenant may run at a time. The operator's are bounded by the host alone.
#define TEMPLATES_SHARE 2
// Copies the host's template once. Waits as long as that takes.
fallible templates_freeze(struct manager *manager, const struct who *who, struct str name,
			  struct template *out);

// The steps around an order that makes a template of the name `name` for `who`. Claim checks the
// name and the right, takes a share of the tenant's quota, and gives the stored name; settle gives
// the share back and removes a template that exceeds the quota. It takes the order's error.
fallible templates_claim(struct manager *manager, const struct who *who, struct str name,
			 char out[TEMPLATE_NAME_MAX], struct account **out_account);
fallible templates_settle(struct manager *manager, const struct who *who, struct str name,
			  const char *kept, struct account *account, uint64_t bytes,
			  struct err *failure);
// The share alone: EXHAUSTED too_many_imports. Give takes NULL.
fallible templates_take_share(struct manager *manager, const struct who *who, struct account **out);
void templates_give_share(struct account **account);
// The error of an order in the words of the tenant; takes NULL.
fallible templates_reword(struct err *err, const struct who *who, struct str name);

// An archive that comes in pieces: begin, write, end. Free at any point removes a template whose
// import did not end well. INVALID bad_template, CONFLICT template_exists, INVALID bad_archive,
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

// The configuration of a template's image (types/image.h), copied into the records of boxes that
// start from it.
// Fills the record of a new box with the image's settings that its create did not give, creates the
// working directory, and checks the user. The first box of a template reads the file, others use
// the cache. Waits. INVALID no_user.
fallible images_apply(struct entry *entry);
void images_done(struct manager *manager);
