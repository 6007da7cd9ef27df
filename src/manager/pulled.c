// Images and layers in memory, written through to the store. A layer's row is written before the
// warden is asked to make it: after a crash each directory of the warden has a row, and what
// nothing holds is removed by it.
//
// syscalls: lseek
#include "manager/pulled.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "loop/closer.h"
#include "manager/admit.h"
#include "manager/pull_settings.h"
#include "store/images.h"

#define LAYER_MS (3600 * 1000)
#define FORGET_MS 30000
#define ORDER_PAUSE_MS 200
#define ORDER_LINK_MS 60000
#define BODY_MAX (8u << 20)
#define DISK_SHARE 5 // of the disk that images may take before cached ones go

#define LAYERS_OF_TENANT 2 // that are unpacked at a time: the warden has few places for all

struct pulled {
	struct map *images, *layers; // by TENANT/NAME; by the layer's name
	struct condition unpacked;   // one was
	bool known;
};

static char *pulled_key(const char *tenant, struct str name)
{
	return mem_fmt("%s/%.*s", tenant, (int)name.len, name.at ? name.at : "");
}

void pulled_image_free(struct pulled_image *image)
{
	if (!image)
		return;
	free(image->tenant);
	free(image->name);
	free(image->reference);
	free(image->digest);
	free(image->platform);
	free(image->image);
	free(image->config);
	free(image->parts);
	free(image);
}

// ------------------------------------------------------------------------------------------- rows

static void image_write_body(const struct pulled_image *image, struct buf *body)
{
	struct json_out out = json_to(body);

	json_begin(&out, '{');
	json_put_text(&out, "reference", image->reference);
	json_put_text(&out, "digest", image->digest);
	json_put_text(&out, "platform", image->platform);
	json_put_text(&out, "image", image->image);
	json_put_text(&out, "config", image->config);
	json_put_bool(&out, "cache", image->is_cache);
	json_put_int(&out, "created", image->created_ms);
	json_put_int(&out, "resolved", image->resolved_ms);
	json_put_begin(&out, "parts", '[');
	for (size_t i = 0; i < image->count; i++) {
		json_begin(&out, '{');
		json_put_text(&out, "digest", image->parts[i].blob.digest);
		json_put_int(&out, "size", (int64_t)image->parts[i].blob.size);
		json_put_text(&out, "diffId", image->parts[i].diff_id);
		json_put_text(&out, "layer", image->parts[i].layer);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	json_end(&out, '}');
	buf_char(body, 0);
}

static char *image_text(const struct json *body, const char *key)
{
	struct str text = json_chars(json_get(body, key));

	return mem_dup(text.at ? text.at : "", text.len);
}

static void image_room(const struct json *body, const char *key, char *room, size_t size)
{
	struct str text = json_chars(json_get(body, key));

	snprintf(room, size, STR_FMT, STR_ARG(text));
}

static uint64_t image_number(const struct json *body, const char *key)
{
	uint64_t number = 0;

	err_free(json_u64(json_get(body, key), key, 0, 1ull << 53, &number));
	return number;
}

static struct pulled_image *image_read_row(const struct store_image *row)
{
	struct pulled_image *image;
	const struct json *parts;
	auto_json body = NULL;
	auto_err err = json_read(str_of(row->body), &body);

	parts = err ? NULL : json_get(body, "parts");
	if (!parts || json_type(parts) != JSON_ARRAY)
		return NULL;
	image = mem_new_of(struct pulled_image);
	image->tenant = mem_str(row->tenant);
	image->name = mem_str(row->name);
	image->reference = image_text(body, "reference");
	image->digest = image_text(body, "digest");
	image->platform = image_text(body, "platform");
	image->image = image_text(body, "image");
	image->config = image_text(body, "config");
	err_free(json_bool(json_get(body, "cache"), "cache", &image->is_cache));
	image->created_ms = (int64_t)image_number(body, "created");
	image->resolved_ms = (int64_t)image_number(body, "resolved");
	image->used_ms = row->used_ms;
	image->count = json_count(parts);
	image->parts = mem_new((image->count + 1) * sizeof(*image->parts));
	for (size_t i = 0; i < image->count; i++) {
		const struct json *part = json_at(parts, i);
		struct pulled_part *to = &image->parts[i];

		image_room(part, "digest", to->blob.digest, sizeof(to->blob.digest));
		image_room(part, "diffId", to->diff_id, sizeof(to->diff_id));
		image_room(part, "layer", to->layer, sizeof(to->layer));
		to->blob.size = image_number(part, "size");
	}
	return image;
}

static struct pulled_layer *layer_new(struct pulled *pulled, const char *tenant, const char *name)
{
	struct pulled_layer *layer = mem_new_of(struct pulled_layer);

	layer->name = mem_str(name);
	layer->tenant = mem_str(tenant);
	layer->dropped = mem_str("");
	condition_init(&layer->changed);
	map_put(pulled->layers, str_of(name), layer);
	return layer;
}

static void layer_free(struct pulled_layer *layer)
{
	free(layer->name);
	free(layer->tenant);
	free(layer->dropped);
	err_free(layer->failed);
	free(layer);
}

fallible pulled_open(struct manager *manager)
{
	auto_arena arena = arena_new();
	struct pulled *pulled = mem_new_of(struct pulled);
	struct store_pulled rows = {0};

	pulled->images = map_new();
	pulled->layers = map_new();
	condition_init(&pulled->unpacked);
	manager->pulled = pulled;
	if (manager->store)
		TRY(store_images_load(manager->store, arena, &rows));
	for (size_t i = 0; i < rows.image_count; i++) {
		struct pulled_image *image = image_read_row(&rows.images[i]);
		auto_free char *key = pulled_key(rows.images[i].tenant,
						 str_of(rows.images[i].name));

		// Its layers stay: what cannot be read proves nothing.
		if (!image)
			return err_new(UNAVAILABLE, "state_corrupt",
				       "the row of the image '%s' is damaged", key);
		map_put(pulled->images, str_of(key), image);
	}
	for (size_t i = 0; i < rows.layer_count; i++) {
		const struct store_layer *row = &rows.layers[i];
		struct pulled_layer *layer = layer_new(pulled, row->tenant, row->name);

		layer->is_ready = row->is_ready;
		layer->bytes = (uint64_t)row->bytes;
		layer->files = (uint64_t)row->files;
		free(layer->dropped);
		layer->dropped = mem_str(row->dropped);
	}
	pulled->known = true;
	return OK;
}

void pulled_done(struct manager *manager)
{
	struct str key;
	void *value;

	if (!manager->pulled)
		return;
	for (size_t at = 0; map_next(manager->pulled->images, &at, &key, &value);)
		pulled_image_free(value);
	for (size_t at = 0; map_next(manager->pulled->layers, &at, &key, &value);)
		layer_free(value);
	map_free(manager->pulled->images);
	map_free(manager->pulled->layers);
	free(manager->pulled);
	manager->pulled = NULL;
}

fallible pulled_ready(const struct manager *manager)
{
	if (manager->pulled && manager->pulled->known)
		return OK;
	return err_hint(err_new(UNAVAILABLE, "state_corrupt", "the images could not be read"),
			"the operator's log has the cause: manager.no_images");
}

// ----------------------------------------------------------------------------------------- images

struct pulled_image *pulled_find(const struct manager *manager, const char *tenant, struct str name)
{
	auto_free char *key = pulled_key(tenant, name);

	return manager->pulled ? map_get(manager->pulled->images, str_of(key)) : NULL;
}

bool pulled_next(const struct manager *manager, size_t *at, struct pulled_image **out)
{
	struct str key;
	void *value;

	if (!manager->pulled || !map_next(manager->pulled->images, at, &key, &value))
		return false;
	*out = value;
	return true;
}

bool pulled_is(const char *own, const char *digest, const char *reference)
{
	const char *at = strchr(reference, '@');
	size_t len = at ? (size_t)(at - reference) : 0;

	if (!strcmp(own, reference))
		return true;
	return at && !strcmp(at + 1, digest) && !strncmp(own, reference, len) &&
	       (own[len] == ':' || own[len] == '@');
}

struct pulled_image *pulled_reference(const struct manager *manager, const char *tenant,
				      const char *reference, const char *platform)
{
	struct pulled_image *image;

	for (size_t at = 0; pulled_next(manager, &at, &image);)
		if (!strcmp(image->tenant, tenant) && !strcmp(image->platform, platform) &&
		    pulled_is(image->reference, image->digest, reference))
			return image;
	return NULL;
}

// The tenant's bytes of templates are counted again by templates_count(); layers here.
static void image_account(struct manager *manager, const char *tenant)
{
	accounts_get(&manager->accounts, tenant)->used.images = pulled_tenant_bytes(manager,
										    tenant);
}

static fallible image_store(struct manager *manager, const struct pulled_image *image)
{
	auto_buf body = BUF_INIT(BODY_MAX);

	image_write_body(image, &body);
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "archive_too_large",
			       "the image's configuration is too long");
	if (!manager->store)
		return OK;
	return store_images_put(manager->store, &(struct store_image){.tenant = image->tenant,
								      .name = image->name,
								      .body = body.at,
								      .used_ms = image->used_ms});
}

fallible pulled_put(struct manager *manager, struct pulled_image *image)
{
	auto_free char *key = pulled_key(image->tenant, str_of(image->name));
	struct pulled_image *old;

	TRY(image_store(manager, image));
	old = map_take(manager->pulled->images, str_of(key));
	map_put(manager->pulled->images, str_of(key), image);
	pulled_image_free(old);
	image_account(manager, image->tenant);
	return OK;
}

fallible pulled_drop(struct manager *manager, struct pulled_image *image)
{
	auto_free char *key = pulled_key(image->tenant, str_of(image->name));
	auto_free char *tenant = mem_str(image->tenant);
	auto_free char *name = mem_str(image->name);

	if (manager->store)
		TRY(store_images_drop(manager->store, tenant, name));
	pulled_image_free(map_take(manager->pulled->images, str_of(key)));
	image_account(manager, tenant);
	return OK;
}

void pulled_touch(struct manager *manager, struct pulled_image *image)
{
	int64_t now = clock_wall_ms();

	if (now - image->used_ms < 60000)
		return;
	image->used_ms = now;
	if (manager->store)
		store_images_queue_use(manager->store, image->tenant, image->name, now);
}

static bool image_lists(const struct pulled_image *image, const char *layer)
{
	for (size_t i = 0; i < image->count; i++)
		if (!strcmp(image->parts[i].layer, layer))
			return true;
	return false;
}

uint64_t pulled_bytes(const struct manager *manager, const struct pulled_image *image)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < image->count; i++) {
		const struct pulled_layer *layer = pulled_layer(manager, image->parts[i].layer);

		sum += layer ? layer->bytes : 0;
	}
	return sum;
}

static bool layer_has_box(const struct manager *manager, const char *name)
{
	list_each (at, &manager->entries)
		if (!strcmp(link_of(at, struct entry, link)->record.root, name))
			return true;
	return false;
}

// A box holds its layer whole: with the files of those below.
uint64_t pulled_exclusive(const struct manager *manager, const struct pulled_image *image)
{
	uint64_t sum = 0;

	for (size_t i = image->count; i > 0; i--) {
		const char *name = image->parts[i - 1].layer;
		const struct pulled_layer *layer = pulled_layer(manager, name);
		struct pulled_image *other;
		bool shared = layer_has_box(manager, name) || (layer && layer->holds);

		for (size_t at = 0; !shared && pulled_next(manager, &at, &other);)
			shared = other != image && image_lists(other, name);
		if (shared)
			break; // and with it all below
		sum += layer ? layer->bytes : 0;
	}
	return sum;
}

static bool layer_is_held(const struct manager *manager, const struct pulled_layer *layer)
{
	struct pulled_image *image;

	if (layer->holds || layer->making || layer_has_box(manager, layer->name))
		return true;
	for (size_t at = 0; pulled_next(manager, &at, &image);)
		if (image_lists(image, layer->name))
			return true;
	return false;
}

uint64_t pulled_tenant_bytes(const struct manager *manager, const char *tenant)
{
	uint64_t sum = 0;
	struct str key;
	void *value;

	for (size_t at = 0;
	     manager->pulled && map_next(manager->pulled->layers, &at, &key, &value);) {
		const struct pulled_layer *layer = value;

		if (!strcmp(layer->tenant, tenant))
			sum += layer->bytes;
	}
	return sum;
}

static void image_put_dropped(struct json_out *out, const struct manager *manager,
			      const struct pulled_image *image)
{
	uint64_t sums[5] = {0};
	static const char *const words[] = {"devices", "fifos", "sockets", "xattrs", "ids"};

	for (size_t i = 0; i < image->count; i++) {
		const struct pulled_layer *layer = pulled_layer(manager, image->parts[i].layer);
		auto_json counts = NULL;
		auto_err err = layer && layer->dropped[0]
				       ? json_read(str_of(layer->dropped), &counts)
				       : OK;

		for (size_t j = 0; !err && counts && j < 5; j++)
			sums[j] += image_number(counts, words[j]);
	}
	json_put_begin(out, "dropped", '{');
	for (size_t j = 0; j < 5; j++)
		json_put_int(out, words[j], (int64_t)sums[j]);
	json_end(out, '}');
}

void pulled_put_json(struct json_out *out, const struct manager *manager,
		     const struct pulled_image *image)
{
	uint64_t files = 0;

	json_put_text(out, "name", image->name);
	json_put_text(out, "kind", "image");
	json_put_text(out, "image", image->reference);
	json_put_text(out, "digest", image->digest);
	json_put_text(out, "platform", image->platform);
	for (size_t i = 0; i < image->count; i++) {
		const struct pulled_layer *layer = pulled_layer(manager, image->parts[i].layer);

		files += layer ? layer->files : 0;
	}
	json_put_int(out, "bytes", (int64_t)pulled_bytes(manager, image));
	json_put_int(out, "exclusiveBytes", (int64_t)pulled_exclusive(manager, image));
	json_put_int(out, "files", (int64_t)files);
	json_put_begin(out, "layers", '[');
	for (size_t i = 0; i < image->count; i++) {
		const struct pulled_layer *layer = pulled_layer(manager, image->parts[i].layer);

		json_begin(out, '{');
		json_put_text(out, "digest", image->parts[i].blob.digest);
		json_put_text(out, "diffId", image->parts[i].diff_id);
		json_put_int(out, "bytes", layer ? (int64_t)layer->bytes : 0);
		json_end(out, '}');
	}
	json_end(out, ']');
	json_key(out, "config");
	json_add_raw(out, str_of(image->config));
	image_put_dropped(out, manager, image);
	json_put_bool(out, "cache", image->is_cache);
	json_put_time(out, "createdAt", image->created_ms);
	json_put_time(out, "resolvedAt", image->resolved_ms);
	if (image->used_ms)
		json_put_time(out, "lastUsedAt", image->used_ms);
	else
		json_put_text(out, "lastUsedAt", NULL);
}

// ----------------------------------------------------------------------------------------- layers

static void pulled_hash(const char *a, char between, const char *b, char out[2 * SECRET_HASH + 1])
{
	auto_free char *text = mem_fmt("%s%c%s", a, between, b);
	uint8_t sum[SECRET_HASH];

	secret_sha256(text, strlen(text), sum);
	for (int i = 0; i < SECRET_HASH; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

void pulled_chain(const char *parent, const char *diff_id, char out[REFERENCE_DIGEST + 1])
{
	char hex[2 * SECRET_HASH + 1];

	if (!parent) {
		snprintf(out, REFERENCE_DIGEST + 1, "%s", diff_id);
		return;
	}
	pulled_hash(parent, ' ', diff_id, hex);
	snprintf(out, REFERENCE_DIGEST + 1, "sha256:%s", hex);
}

void pulled_layer_name(const char *tenant, const char *chain, char out[TEMPLATE_NAME_MAX])
{
	char hex[2 * SECRET_HASH + 1];

	pulled_hash(tenant, '/', chain, hex);
	snprintf(out, TEMPLATE_NAME_MAX, ORDER_LAYERS "%.*s", ORDER_LAYER_HEX, hex);
}

struct pulled_layer *pulled_layer(const struct manager *manager, const char *name)
{
	return manager->pulled ? map_get(manager->pulled->layers, str_of(name)) : NULL;
}

bool pulled_next_layer(const struct manager *manager, size_t *at, const struct pulled_layer **out)
{
	struct str key;
	void *value;

	if (!manager->pulled || !map_next(manager->pulled->layers, at, &key, &value))
		return false;
	*out = value;
	return true;
}

void pulled_hold(struct manager *manager, const char *tenant, const char *name, bool on)
{
	struct pulled_layer *layer = pulled_layer(manager, name);

	if (!layer && on)
		layer = layer_new(manager->pulled, tenant, name);
	if (layer)
		layer->holds += on ? 1 : (uint32_t)-1;
}

static fallible layer_store(struct manager *manager, const struct pulled_layer *layer)
{
	if (!manager->store)
		return OK;
	return store_layers_put(manager->store, &(struct store_layer){
							.name = layer->name,
							.tenant = layer->tenant,
							.is_ready = layer->is_ready,
							.bytes = (int64_t)layer->bytes,
							.files = (int64_t)layer->files,
							.dropped = layer->dropped,
						});
}

static void layer_take_sums(struct pulled_layer *layer, const struct answer *answer)
{
	auto_buf text = BUF_INIT(512);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
#define X(field) json_put_int(&out, #field, answer->dropped.field);
	ORDER_DROPPED_FIELDS(X)
#undef X
	json_end(&out, '}');
	free(layer->dropped);
	layer->dropped = buf_take(&text);
	layer->bytes = answer->bytes;
	layer->files = answer->files;
	layer->is_ready = true;
}

// True if the warden was killed meanwhile, has not yet ended what an earlier daemon had ordered, or
// has as many children as it may: the order can be repeated, since a layer that is there is only
// described.
static bool layer_may_repeat(const struct err *err)
{
	static const char *const reasons[] = {"no_warden", "template_exists", "too_many_imports"};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (!strcmp(err_reason(err), reasons[i]))
			return true;
	return false;
}

static fallible layer_insist(struct manager *manager, struct order *order, int archive,
			     struct answer *answer)
{
	int64_t deadline = loop_now(manager->loop) + LAYER_MS;
	int none[ORDER_FDS_MAX];

	for (;;) {
		struct err *err;

		// The warden's jail reads by this same position.
		if (lseek(archive, 0, SEEK_SET))
			return err_sys(errno, "rewind a layer");
		err = ask_order_with(manager->ask, order, archive, answer, none, deadline);
		if (!err || loop_now(manager->loop) > deadline || !layer_may_repeat(err))
			return err;
		err_free(err);
		TRY(task_sleep_until(loop_now(manager->loop) + ORDER_PAUSE_MS));
		TRY(ask_wait_linked(manager->ask, loop_now(manager->loop) + ORDER_LINK_MS));
	}
}

static fallible layer_order(struct manager *manager, struct pulled_layer *layer, const char *parent,
			    const char *diff_id, int archive)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_LAYER};

	TRY(layer_store(manager, layer)); // before the deed
	snprintf(order.name, sizeof(order.name), "%s", layer->name);
	snprintf(order.parent, sizeof(order.parent), "%s", parent);
	snprintf(order.digest, sizeof(order.digest), "%s", diff_id + strlen("sha256:"));
	TRY(layer_insist(manager, &order, archive, answer));
	layer_take_sums(layer, answer);
	TRY(layer_store(manager, layer));
	image_account(manager, layer->tenant);
	return OK;
}

// A task of its own: a pull that is cancelled does not wait for the warden.
struct layer_work {
	struct manager *manager;
	struct pulled_layer *layer;
	char parent[TEMPLATE_NAME_MAX], diff_id[REFERENCE_DIGEST + 1];
	int archive;
};

static uint32_t layers_in_work(const struct pulled *pulled, const char *tenant)
{
	uint32_t count = 0;
	struct str key;
	void *value;

	for (size_t at = 0; map_next(pulled->layers, &at, &key, &value);) {
		const struct pulled_layer *layer = value;

		count += layer->ordered && !strcmp(layer->tenant, tenant);
	}
	return count;
}

static fallible layer_make_in_turn(const struct layer_work *work)
{
	struct pulled *pulled = work->manager->pulled;
	struct pulled_layer *layer = work->layer;
	struct err *err;

	while (layers_in_work(pulled, layer->tenant) >= LAYERS_OF_TENANT)
		TRY(condition_wait(&pulled->unpacked, CLOCK_NEVER));
	layer->ordered = true;
	err = layer_order(work->manager, layer, work->parent, work->diff_id, work->archive);
	layer->ordered = false;
	condition_signal(&pulled->unpacked);
	return err;
}

static void layer_make(void *arg)
{
	struct layer_work *work = arg;

	err_free(take_ptr(work->layer->failed));
	work->layer->failed = layer_make_in_turn(work);
	work->layer->making = false;
	condition_signal(&work->layer->changed);
	closer_drop(&work->archive);
	free(work);
}

// The error of the work, for one of those who wait for it.
static fallible layer_failure(const struct pulled_layer *layer)
{
	const struct err *err = layer->failed;

	if (layer->is_ready)
		return OK;
	if (!err)
		return err_new(UNAVAILABLE, "layer_gone", "the layer was removed meanwhile");
	return err_while(
		err_from(err_kind(err), err_reason(err), err_message(err), err_hint_of(err)), "%s",
		err_trail(err));
}

fallible pulled_make_layer(struct manager *manager, const char *name, const char *parent,
			   const char *diff_id, int archive)
{
	struct pulled_layer *layer = pulled_layer(manager, name);
	auto_closer_fd fd = archive;
	struct layer_work *work;

	while (layer->making)
		TRY(condition_wait(&layer->changed, CLOCK_NEVER));
	if (layer->is_ready)
		return OK;
	work = mem_new_of(struct layer_work);
	work->manager = manager;
	work->layer = layer;
	work->archive = take_fd(&fd);
	snprintf(work->parent, sizeof(work->parent), "%s", parent);
	snprintf(work->diff_id, sizeof(work->diff_id), "%s", diff_id);
	layer->making = true;
	task_start(manager->loop, "unpack", layer_make, work);
	while (layer->making)
		TRY(condition_wait(&layer->changed, CLOCK_NEVER));
	return layer_failure(layer);
}

// Asks the warden to remove it, then drops the row.
static fallible layer_forget(struct manager *manager, const char *name)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_FORGET};
	int none[ORDER_FDS_MAX];
	struct err *err;

	snprintf(order.name, sizeof(order.name), "%s", name);
	err = ask_order(manager->ask, &order, answer, none, loop_now(manager->loop) + FORGET_MS);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		err = OK;
	}
	TRY(err);
	return manager->store ? store_layers_drop(manager->store, name) : OK;
}

// One layer that has not been held for that long; NULL: none.
static struct pulled_layer *layer_unheld(struct manager *manager, const char *tenant,
					 int64_t age_ms)
{
	int64_t now = loop_now(manager->loop);
	struct pulled_layer *found = NULL;
	struct str key;
	void *value;

	for (size_t at = 0; map_next(manager->pulled->layers, &at, &key, &value);) {
		struct pulled_layer *layer = value;

		if (layer_is_held(manager, layer)) {
			layer->unheld_ms = 0;
			continue;
		}
		if (!layer->unheld_ms)
			layer->unheld_ms = now ? now : 1;
		if (now - layer->unheld_ms >= age_ms && (!tenant || !strcmp(layer->tenant, tenant)))
			found = layer;
	}
	return found;
}

fallible pulled_collect(struct manager *manager, const char *tenant, int64_t age_ms,
			uint64_t *out_bytes)
{
	struct pulled_layer *layer;

	*out_bytes = 0;
	// A sandbox that is not known yet may hold a layer.
	TRY(pulled_ready(manager));
	if (!manager->settled || manager->unknown)
		return OK;
	while ((layer = layer_unheld(manager, tenant, age_ms))) {
		struct err *err;

		layer->making = true; // a pull that wants it waits, and makes it anew
		err = layer_forget(manager, layer->name);
		layer->making = false;
		condition_signal(&layer->changed);
		if (err)
			return err;
		layer->is_ready = false;
		*out_bytes += layer->bytes;
		layer->bytes = layer->files = 0;
		if (!layer_is_held(manager, layer)) {
			auto_free char *owner = mem_str(layer->tenant);

			map_take(manager->pulled->layers, str_of(layer->name));
			layer_free(layer);
			image_account(manager, owner);
		}
	}
	return OK;
}

static struct pulled_image *image_unused(struct manager *manager, const char *tenant,
					 int64_t before_ms, bool cache_only)
{
	struct pulled_image *image;

	for (size_t at = 0; pulled_next(manager, &at, &image);) {
		int64_t used = image->used_ms > image->created_ms ? image->used_ms
								  : image->created_ms;

		if (!strcmp(image->tenant, tenant) && used <= before_ms &&
		    (image->is_cache || !cache_only))
			return image;
	}
	return NULL;
}

fallible pulled_prune(struct manager *manager, const char *tenant, int64_t unused_ms,
		      bool cache_only, size_t *out_images)
{
	int64_t before_ms = clock_wall_ms() - unused_ms;
	struct pulled_image *image;

	*out_images = 0;
	TRY(pulled_ready(manager));
	while ((image = image_unused(manager, tenant, before_ms, cache_only))) {
		TRY(pulled_drop(manager, image));
		++*out_images;
	}
	return OK;
}

// ------------------------------------------------------------------------------------------ cache

static uint64_t layers_bytes(const struct manager *manager)
{
	uint64_t sum = 0;
	struct str key;
	void *value;

	for (size_t at = 0; map_next(manager->pulled->layers, &at, &key, &value);)
		sum += ((const struct pulled_layer *)value)->bytes;
	return sum;
}

static int64_t image_last_ms(const struct pulled_image *image)
{
	return image->used_ms > image->created_ms ? image->used_ms : image->created_ms;
}

// NULL: none may go.
static struct pulled_image *image_oldest_cached(const struct manager *manager)
{
	struct pulled_image *image, *found = NULL;

	for (size_t at = 0; pulled_next(manager, &at, &image);)
		if (image->is_cache && image->count &&
		    !layer_has_box(manager, image->parts[image->count - 1].layer) &&
		    (!found || image_last_ms(image) < image_last_ms(found)))
			found = image;
	return found;
}

static uint64_t cache_room(const struct manager *manager)
{
	uint64_t room = manager->pull->cache_max;

	return room ? room : admit_disk(manager->admit) / DISK_SHARE;
}

fallible pulled_evict(struct manager *manager)
{
	struct pulled_image *image;
	uint64_t bytes = 0;

	if (!manager->pull || !manager->settled || manager->unknown)
		return OK;
	TRY(pulled_ready(manager));
	while (cache_room(manager) && layers_bytes(manager) > cache_room(manager)) {
		image = image_oldest_cached(manager);
		if (!image)
			return OK;
		log_event(LOG_INFO, "image.evicted", "tenant", image->tenant, "template",
			  image->name, "image", image->reference, NULL);
		event_publish(EVENT_TEMPLATE_GONE, "tenant", image->tenant, "template", image->name,
			      NULL);
		TRY(pulled_drop(manager, image));
		TRY(pulled_collect(manager, NULL, 0, &bytes));
	}
	return OK;
}
