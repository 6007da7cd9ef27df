// Pulled images, the layers that they share, and operations: long work with an id. Layers are held
// by the images that list them and by sandboxes that started from them, so there is no count that
// could be wrong.
#pragma once

#include "store/store.h"

struct store_image {
	const char *tenant, *name; // tenant "": the operator's
	const char *body;	   // JSON of manager/pulled
	int64_t used_ms;	   // wall clock
};
struct store_layer {
	const char *name; // as the warden knows it
	const char *tenant;
	int64_t is_ready; // 0: it was ordered, and may exist or not
	int64_t bytes, files;
	const char *dropped; // JSON; "" until it is ready
};
struct store_operation {
	const char *id, *tenant;
	int64_t created_ms, ended_ms; // wall clock; 0: running
	const char *body;	      // JSON of manager/operations
};

// Durable on return.
fallible store_images_put(struct store *store, const struct store_image *image);
fallible store_images_drop(struct store *store, const char *tenant, const char *name);
// Queued: the last use.
void store_images_queue_use(struct store *store, const char *tenant, const char *name,
			    int64_t used_ms);
fallible store_layers_put(struct store *store, const struct store_layer *layer);
fallible store_layers_drop(struct store *store, const char *name);
fallible store_operations_put(struct store *store, const struct store_operation *operation);
// Removes those that ended before.
fallible store_operations_prune(struct store *store, int64_t before_ms);

struct store_pulled {
	struct store_image *images;
	struct store_layer *layers;
	struct store_operation *operations;
	size_t image_count, layer_count, operation_count;
};
// All of them; texts are in the arena.
fallible store_images_load(struct store *store, struct arena *arena, struct store_pulled *out);
