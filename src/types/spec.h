// The spec of a sandbox: the body of a create, checked against what this host can give.
#pragma once

#include "base/id.h"
#include "types/env_map.h"
#include "types/image.h"
#include "types/limits.h"
#include "types/policy.h"
#include "types/retention.h"
#include "types/volume.h"
#include "types/who.h"

// Upper bounds that depend on the host.
struct spec_bounds {
	uint64_t memory_max; // bytes
	uint32_t cpu_milli_max;
	uint64_t output_max; // bytes
};

#define RECORD_IDEMPOTENCY_MAX                                                                     \
	130 // two hashes in hex, with a colon between: of the key, of the request

#define SPEC_LOGIN_MAX 32

enum spec_pull { SPEC_PULL_MISSING, SPEC_PULL_ALWAYS, SPEC_PULL_NEVER };

struct spec {
	char tenant[WHO_TENANT_MAX + 1];  // set by manager/create: its owner
	char id[ID_BOX_LEN + 1];	  // "": a random one
	char name[ID_NAME_MAX + 1];	  // "": none
	char template[TEMPLATE_NAME_MAX]; // "": the owner's default
	char *image;			  // pull this instead of a template; NULL: none
	enum spec_pull pull;
	bool image_allowed;	      // the owner was allowed it before: it is pinned
	char root[TEMPLATE_NAME_MAX]; // of manager/pull: the image's layer
	char *image_digest;	      // likewise: its name with its digest
	char fork[TEMPLATE_NAME_MAX]; // set by manager/snapshots: the copy that it starts from; "":
				      // none
	bool filled;		      // set by manager/builds: template and root are final
	struct limits limits;
	uint32_t limits_said;			  // bits: limits that were given
	char idempotency[RECORD_IDEMPOTENCY_MAX]; // the idempotency key that it is asked under; "":
						  // none
	bool ephemeral;				  // its files need not outlast its processes
	bool disk_asked; // the limit was named: a host that cannot enforce it must refuse
	struct env_map env, labels;
	char user[IMAGE_USER_MAX + 1]; // of its commands; "": the image's, else root
	char *workdir;		       // start directory; NULL: the image's, else /workspace
	char *launch;		       // see types/launch.h; NULL: the template's, or none
	char login[SPEC_LOGIN_MAX];    // the user if neither names one: added where the image lacks
				       // it, see manager/login_user.h. "": root
	struct retention retention;
	struct volume_mounts volumes; // manager/volumes fills in their ids
	uint64_t ttl_ms;	      // 0: until deleted
	struct policy *network;	      // NULL: not given, use the owner's default
	bool mode_said;		      // the network's mode was given: by name, or by a list
};

void spec_done(struct spec *spec);
// `pull` of an object; *out is untouched without it. INVALID bad_field.
fallible spec_read_pull(const struct json *object, enum spec_pull *out);
#define auto_spec on_exit_call(spec_done) struct spec

// Reads {name, template, image, pull, limits, env, user, workdir, labels, network, secrets,
// volumes, start, ready} and types/retention. INVALID unknown_field, bad_field (naming the range),
// bad_name, bad_template, bad_env; NOT_OFFERED for features that this cove lacks. A NULL object is
// an empty one. The caller owns *out.
fallible spec_read(const struct json *object, const struct spec_bounds *bounds, struct spec *out);

// Changes to limits: those that `object` names are read into *limits, which holds the present ones,
// and as bits into *out_said. INVALID as above.
fallible spec_read_limits(const struct json *object, const struct spec_bounds *bounds,
			  struct limits *limits, uint32_t *out_said);

// The limits for clients: {memoryMB, cpus, …}; null means unlimited.
void spec_write_limits(struct json_out *out, const struct limits *limits);
