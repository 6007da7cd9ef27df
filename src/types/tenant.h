// A tenant: the unit of quotas.
#pragma once

#include "base/err.h"
#include "codec/json.h"
#include "types/limits.h"
#include "types/policy.h"
#include "types/reference.h"
#include "types/who.h"

// Upper bounds of a tenant at one time; 0: none.
struct quota {
	uint64_t boxes;	 // in any state
	uint64_t memory; // bytes: limits of those that are not stopped
	uint64_t cpu_milli;
	uint64_t disk; // bytes: limits of all
	uint64_t execs;
};

#define TENANT_TEMPLATES_MAX 64
#define TENANT_IMAGES_MAX 64

struct tenant {
	char name[WHO_TENANT_MAX + 1];
	struct quota quota;
	bool host;			  // may start from the template `host`
	char template[TEMPLATE_NAME_MAX]; // of its sandboxes that name none; "": host
	bool network_said;
	enum policy_mode network; // … else all: see tenant_network()
	bool all_templates;	  // of the operator's; else those of the list
	char (*templates)[TEMPLATE_NAME_MAX];
	size_t template_count;
	bool images_said;
	char **images; // patterns of reference_matches(); see tenant_may_pull()
	size_t image_count;
	int64_t created_ms; // wall clock
};

void tenant_done(struct tenant *tenant);
#define auto_tenant on_exit_call(tenant_done) struct tenant

// The default network mode of its boxes, and the most permissive one.
enum policy_mode tenant_network(const struct tenant *tenant);

// True if a pattern of `images` matches; every image if the operator gave none.
bool tenant_may_pull(const struct tenant *tenant, const struct reference *image);

// Reads {quota:{boxes, memoryMB, cpus, diskMB, execs}, host, network, templates:[name, …] or ["*"],
// defaultTemplate, images:[pattern, …]} into *out, whose name and time stay; absent fields are
// none, except network, which is then `all`, the default template, which is then `host`, and
// images, which are then ["*"]. INVALID bad_field, unknown_field.
fallible tenant_read(const struct json *object, struct tenant *out);
// The fields of tenant_read() as members of an object; then with name and time.
void tenant_put_rights(struct json_out *out, const struct tenant *tenant);
void tenant_put(struct json_out *out, const struct tenant *tenant); // members of an object
void quota_write(struct json_out *out, const struct quota *quota);
