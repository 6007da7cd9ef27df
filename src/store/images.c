// The tables of pulled images, layers and operations. What the daemon needs for lookups is a
// column, the rest is JSON in `body`.
#include "store/images.h"

// clang-format off
#define IMAGE(KEY, FIRST, NEXT) \
	KEY(1,   tenant,     "tenant",   TEXT) \
	FIRST(2, name,       "name",     TEXT) \
	NEXT(3,  body,       "body",     TEXT) \
	NEXT(4,  used_ms,    "used",     INT)
#define LAYER(KEY, FIRST, NEXT) \
	KEY(1,   name,       "name",     TEXT) \
	FIRST(2, tenant,     "tenant",   TEXT) \
	NEXT(3,  is_ready,   "ready",    INT) \
	NEXT(4,  bytes,      "bytes",    INT) \
	NEXT(5,  files,      "files",    INT) \
	NEXT(6,  dropped,    "dropped",  TEXT)
#define OPERATION(KEY, FIRST, NEXT) \
	KEY(1,   id,         "id",       TEXT) \
	FIRST(2, tenant,     "tenant",   TEXT) \
	NEXT(3,  created_ms, "created",  INT) \
	NEXT(4,  ended_ms,   "ended",    INT) \
	NEXT(5,  body,       "body",     TEXT)
// clang-format on
static const struct db_column image_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_image, field, type)
	IMAGE(F, F, F){0}
#undef F
};
static const struct db_column layer_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_layer, field, type)
	LAYER(F, F, F){0}
#undef F
};
static const struct db_column operation_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_operation, field, type)
	OPERATION(F, F, F){0}
#undef F
};

static struct err *images_put_row(struct db *db, void *arg)
{
	return db_put(db,
		      "INSERT INTO images (" DB_NAMES(IMAGE) ") VALUES (" DB_PLACES(
			      IMAGE) ") ON CONFLICT (tenant, name) DO UPDATE SET body ="
				     " excluded.body, used = excluded.used",
		      image_columns, arg, NULL);
}

fallible store_images_put(struct store *store, const struct store_image *image)
{
	return store_do(store, images_put_row, (void *)image);
}

static struct err *images_drop_row(struct db *db, void *arg)
{
	const struct store_image *image = arg;

	return db_run(db, "DELETE FROM images WHERE tenant = $1 AND name = $2",
		      DB_WITH(db_text(image->tenant), db_text(image->name)), NULL);
}

fallible store_images_drop(struct store *store, const char *tenant, const char *name)
{
	return store_do_last(store, images_drop_row,
			     &(struct store_image){.tenant = tenant, .name = name});
}

static struct err *images_write_use(struct db *db, void *arg)
{
	const struct store_image *image = arg;

	return db_run(db, "UPDATE images SET used = $1 WHERE tenant = $2 AND name = $3",
		      DB_WITH(db_int(image->used_ms), db_text(image->tenant), db_text(image->name)),
		      NULL);
}

static void images_free_use(void *arg)
{
	struct store_image *image = arg;

	free((char *)image->tenant);
	free((char *)image->name);
	free(image);
}

void store_images_queue_use(struct store *store, const char *tenant, const char *name,
			    int64_t used_ms)
{
	struct store_image *image = mem_new_of(struct store_image);

	image->tenant = mem_str(tenant);
	image->name = mem_str(name);
	image->used_ms = used_ms;
	store_queue(store, images_write_use, image, images_free_use);
}

static struct err *layers_put_row(struct db *db, void *arg)
{
	return db_put(db, DB_UPSERT("layers", "name", LAYER), layer_columns, arg, NULL);
}

fallible store_layers_put(struct store *store, const struct store_layer *layer)
{
	return store_do(store, layers_put_row, (void *)layer);
}

static struct err *layers_drop_row(struct db *db, void *arg)
{
	return db_run(db, "DELETE FROM layers WHERE name = $1", DB_WITH(db_text(arg)), NULL);
}

fallible store_layers_drop(struct store *store, const char *name)
{
	return store_do_last(store, layers_drop_row, (void *)name);
}

static struct err *operations_put_row(struct db *db, void *arg)
{
	return db_put(db, DB_UPSERT("operations", "id", OPERATION), operation_columns, arg, NULL);
}

fallible store_operations_put(struct store *store, const struct store_operation *operation)
{
	return store_do(store, operations_put_row, (void *)operation);
}

static struct err *operations_prune_rows(struct db *db, void *arg)
{
	return db_run(db, "DELETE FROM operations WHERE ended <> 0 AND ended < $1",
		      DB_WITH(db_int(*(const int64_t *)arg)), NULL);
}

fallible store_operations_prune(struct store *store, int64_t before_ms)
{
	return store_do_last(store, operations_prune_rows, &before_ms);
}

struct load {
	struct rows images, layers, operations;
};

static struct err *images_read_rows(struct db *db, void *arg)
{
	struct load *load = arg;

	TRY(db_rows(db, "SELECT " DB_NAMES(IMAGE) " FROM images ORDER BY tenant, name", NULL,
		    &(struct db_table){image_columns, sizeof(struct store_image), NULL},
		    &load->images));
	TRY(db_rows(db, "SELECT " DB_NAMES(LAYER) " FROM layers ORDER BY name", NULL,
		    &(struct db_table){layer_columns, sizeof(struct store_layer), NULL},
		    &load->layers));
	return db_rows(db, "SELECT " DB_NAMES(OPERATION) " FROM operations ORDER BY created, id",
		       NULL,
		       &(struct db_table){operation_columns, sizeof(struct store_operation), NULL},
		       &load->operations);
}

fallible store_images_load(struct store *store, struct arena *arena, struct store_pulled *out)
{
	struct load load = {{.arena = arena}, {.arena = arena}, {.arena = arena}};

	TRY(store_ask(store, images_read_rows, &load), "read the images");
	*out = (struct store_pulled){
		.images = load.images.at,
		.layers = load.layers.at,
		.operations = load.operations.at,
		.image_count = load.images.count,
		.layer_count = load.layers.count,
		.operation_count = load.operations.count,
	};
	return OK;
}
