// Images that were pulled by name, and the layers that they share. A layer is a whole root in the
// warden's store, named by its tenant and its OCI chain id: the files of its parent are hard links.
// Layers are shared within a tenant, never between two, so a digest alone opens nothing, and a
// layer that a hostile archive could damage is only its own tenant's.
//
// A layer is held by images that list it, by sandboxes that started from it, and by pulls that run.
#pragma once

#include "manager/table.h"
#include "types/manifest.h"

struct pulled_part {
	struct manifest_blob blob; // as the registry has it
	char diff_id[REFERENCE_DIGEST + 1];
	char layer[TEMPLATE_NAME_MAX]; // as the warden has it: with its parents
};

struct pulled_image {
	char *tenant, *name, *reference, *digest, *platform;
	char *image, *config; // for types/image.h; as the image has it: JSON
	struct pulled_part *parts;
	size_t count;
	bool is_cache; // a create pulled it: removed when space is short
	int64_t created_ms, resolved_ms, used_ms;
};
void pulled_image_free(struct pulled_image *image); // takes NULL

struct pulled_layer {
	char *name, *tenant, *dropped;
	bool is_ready, making;
	bool ordered; // the warden makes it
	uint64_t bytes, files;
	uint32_t holds;	    // of running pulls
	int64_t unheld_ms;  // loop time since when nothing holds it; 0: something does
	struct err *failed; // of the last try
	struct condition changed;
};

struct pulled;

// Reads the store. Waits. On failure nothing is known, and nothing is removed.
fallible pulled_open(struct manager *manager);
void pulled_done(struct manager *manager);
fallible pulled_ready(const struct manager *manager); // UNAVAILABLE state_corrupt, starting

// Borrowed until the next wait; NULL: absent.
struct pulled_image *pulled_find(const struct manager *manager, const char *tenant,
				 struct str name);
struct pulled_image *pulled_reference(const struct manager *manager, const char *tenant,
				      const char *reference, const char *platform);
bool pulled_next(const struct manager *manager, size_t *at, struct pulled_image **out);
// True if an image of the canonical name `own` with that digest is what `reference` names.
bool pulled_is(const char *own, const char *digest, const char *reference);
// Takes the image over; it replaces one of that name. Durable on return.
fallible pulled_put(struct manager *manager, struct pulled_image *image);
fallible pulled_drop(struct manager *manager, struct pulled_image *image);
void pulled_touch(struct manager *manager, struct pulled_image *image); // used now; does not wait
uint64_t pulled_bytes(const struct manager *manager, const struct pulled_image *image);
// Bytes that its removal would free now.
uint64_t pulled_exclusive(const struct manager *manager, const struct pulled_image *image);
uint64_t pulled_tenant_bytes(const struct manager *manager, const char *tenant);
// As members of an object.
void pulled_put_json(struct json_out *out, const struct manager *manager,
		     const struct pulled_image *image);

// The name of the layer with that chain id, and of the next one's chain id.
void pulled_layer_name(const char *tenant, const char *chain, char out[TEMPLATE_NAME_MAX]);
void pulled_chain(const char *parent, const char *diff_id, char out[REFERENCE_DIGEST + 1]);
struct pulled_layer *pulled_layer(const struct manager *manager, const char *name);
// Makes the layer from an archive, which is taken over, or waits until another pull has made it.
// The caller holds the layer. If the wait is cancelled the work goes on, and a later
// pulled_collect() removes its result.
fallible pulled_make_layer(struct manager *manager, const char *name, const char *parent,
			   const char *diff_id, int archive);
bool pulled_next_layer(const struct manager *manager, size_t *at, const struct pulled_layer **out);
// A hold of a pull; makes the entry if need be.
void pulled_hold(struct manager *manager, const char *tenant, const char *name, bool on);

// Removes layers of the tenant (NULL: of all) that nothing has held for `age_ms`. *out_bytes:
// freed.
fallible pulled_collect(struct manager *manager, const char *tenant, int64_t age_ms,
			uint64_t *out_bytes);
// Removes images of the tenant that no create has used for that time; `cache_only`: only those that
// a create has pulled. Waits.
fallible pulled_prune(struct manager *manager, const char *tenant, int64_t unused_ms,
		      bool cache_only, size_t *out_images);
// While all images take more than the operator has set: removes those that only creates have pulled
// and no sandbox stands on, oldest use first, and layers that nothing holds. Waits.
fallible pulled_evict(struct manager *manager);
