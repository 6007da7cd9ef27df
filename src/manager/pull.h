// Pulls images by name: resolves, fetches, checks, has the layers unpacked, and names the result.
#pragma once

#include "manager/operations.h"
#include "manager/pull_settings.h"
#include "manager/pulled.h"
#include "types/spec.h"

struct pull_ask {
	struct str image, name, platform; // name, platform: may be empty
	bool is_cache;
	bool is_allowed;			// the tenant was allowed it before
	struct registry_credential *credential; // taken over; NULL: none
};

// Begins a pull, or finds one of the same image under way. The caller drops its hold of *out.
// FORBIDDEN not_allowed; INVALID bad_reference, bad_template; CONFLICT template_exists.
fallible pull_begin(struct manager *manager, const struct who *who, struct pull_ask *ask,
		    struct operation **out);
// Begins the pull of an image that a build needs, which the caller drops. *out NULL: it is there,
// and the registry need not be asked. Errors of pull_begin().
fallible pull_look(struct manager *manager, const struct who *who, const char *image, bool always,
		   struct operation **out);
// Starts those that an earlier daemon left, once all sandboxes are known.
void pull_resume(struct manager *manager);

// An image that a create asks for. Once it is pinned, its name has the digest that the tenant was
// allowed.
struct pull_want {
	char *image;
	enum spec_pull pull;
	bool is_pinned;
};
// NOT_FOUND, FORBIDDEN: the caller may not have it now.
fallible pull_allowed(struct manager *manager, const struct who *who, struct str image);
// For a create that answers before the pull has ended: begins the pull of the image unless that is
// there, and waits until the registry has described it, or the deadline. Pins it then.
// *out_present: it is there. Errors of pull_begin() and of the registry; NOT_FOUND no_image.
fallible pull_ahead(struct manager *manager, const struct who *who, struct pull_want *want,
		    int64_t deadline, bool *out_present);
// Waits until it is there, and pins it. TIMEOUT pull_wait: the pull goes on.
fallible pull_wanted(struct manager *manager, const struct who *who, struct pull_want *want,
		     int64_t deadline);
// Waits until it is there. TIMEOUT pull_wait: the pull goes on.
fallible pull_whole(struct manager *manager, const struct who *who, struct str image,
		    int64_t deadline);
// The same for an image that `tenant` was allowed before: its sandbox is made again.
fallible pull_again(struct manager *manager, const char *tenant, struct str image);

// For a create: `image` of the spec, or the image of the name `template`; fills root, image, and
// what the image says of env, user and workdir. *out_found: there is one. *out_pull: it must be
// pulled first, and `template` is the name that it gets; pull_finish() takes the operation.
// NOT_FOUND no_image.
fallible pull_fill(struct manager *manager, const struct who *who, struct spec *spec,
		   bool *out_found, struct operation **out_pull);
// Waits for a pull and fills the record as pull_fill() does the spec; drops the operation. TIMEOUT
// pull_wait: the pull goes on.
fallible pull_finish(struct manager *manager, struct operation *pull, struct record *record);
// Until when a create may wait for a pull; loop time.
int64_t pull_deadline(const struct manager *manager);
