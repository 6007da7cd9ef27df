// `cove verify`: compares the store's rows, the table, the warden's boxes, and the warden's
// inventory of kernel and disk. A difference is reported only if several comparisons in a row have
// seen it, and never for a box whose state is changing.
#include "manager/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "manager/build_steps.h"
#include "manager/pulled.h"
#include "manager/volumes.h"
#include "store/boxes.h"

#define LOOKS 8
#define LOOK_AGAIN_MS 250
#define ASK_MS 10000

struct look {
	struct manager *manager;
	struct verify found;
	struct map *held; // id to the warden's state + 1
};

static void __attribute__((format(printf, 4, 5)))
manager_verify_odd(struct verify *found, const char *what, const char *name, const char *fmt, ...)
{
	struct verify_odd *one;
	va_list args;

	found->at = mem_grow(found->at, found->count + 1, sizeof(*found->at));
	one = &found->at[found->count++];
	*one = (struct verify_odd){0};
	snprintf(one->what, sizeof(one->what), "%s", what);
	snprintf(one->name, sizeof(one->name), "%.*s", ID_BOX_LEN, name);
	va_start(args, fmt);
	vsnprintf(one->detail, sizeof(one->detail), fmt, args);
	va_end(args);
}

// True while the entry changes its state.
static bool is_moving(const struct entry *entry)
{
	return entry->moving || entry->destroying || entry->ending || entry->starting ||
	       entry->record.state == STATE_CREATING || entry->record.state == STATE_DELETING;
}

// ----------------------------------------------------------------------------------------- store

static void compare_rows(struct look *look, const struct store_boxes *rows)
{
	struct map *seen = map_new();

	for (size_t i = 0; i < rows->count; i++) {
		const struct record *row = &rows->at[i];
		const struct entry *entry = map_get(look->manager->by_id, str_of(row->id));

		map_put(seen, str_of(row->id), (void *)row);
		if (rows->unreadable[i])
			manager_verify_odd(&look->found, "row_unreadable", row->id,
					   "the store's row is damaged");
		else if (!entry)
			manager_verify_odd(&look->found, "row_without_sandbox", row->id,
					   "the store says %s", state_word(row->state));
		else if (!is_moving(entry) && entry->record.state != row->state)
			manager_verify_odd(&look->found, "row_differs", row->id,
					   "the store says %s, it is %s", state_word(row->state),
					   state_word(entry->record.state));
	}
	list_each (at, &look->manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (!is_moving(entry) && !map_get(seen, str_of(entry->record.id)))
			manager_verify_odd(&look->found, "sandbox_without_row", entry->record.id,
					   "it is %s", state_word(entry->record.state));
	}
	map_free(seen);
}

static fallible look_at_rows(struct look *look)
{
	struct store_boxes rows = {0};

	if (!look->manager->store)
		return OK;
	TRY(store_flush(look->manager->store));
	TRY(store_boxes_load(look->manager->store, &rows));
	look->found.rows = rows.count;
	compare_rows(look, &rows);
	store_boxes_done(&rows);
	return OK;
}

// ---------------------------------------------------------------------------------------- warden

static const char *box_word(enum order_box_state state)
{
	static const char *const words[] = {"alive", "frozen", "dead", "kept", "going", "archived"};

	return words[state];
}

static void verify_see_box(void *arg, const struct order_box *box)
{
	struct look *look = arg;

	look->found.warden_boxes++;
	map_put(look->held, str_of(box->box), (void *)((uintptr_t)box->state + 1));
	if (box->state != ORDER_BOX_GOING && !map_get(look->manager->by_id, str_of(box->box)))
		manager_verify_odd(&look->found, "box_without_sandbox", box->box,
				   "the warden says %s", box_word(box->state));
}

// The warden's state of a box that fits the entry's state; -1: none is needed.
static int box_due(const struct entry *entry)
{
	switch (entry->record.state) {
	case STATE_RUNNING:
		return ORDER_BOX_ALIVE;
	case STATE_PAUSED:
	case STATE_FROZEN:
		return ORDER_BOX_FROZEN;
	case STATE_STOPPED:
		return ORDER_BOX_KEPT;
	case STATE_ARCHIVED:
		return ORDER_BOX_ARCHIVED;
	default:
		return -1;
	}
}

static void compare_boxes(struct look *look)
{
	list_each (at, &look->manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);
		uintptr_t held = (uintptr_t)map_get(look->held, str_of(entry->record.id));
		int due = box_due(entry);

		look->found.boxes++;
		if (due < 0 || is_moving(entry))
			continue;
		if (!held)
			manager_verify_odd(&look->found, "sandbox_without_box", entry->record.id,
					   "it is %s, the warden does not know it",
					   state_word(entry->record.state));
		else if ((int)held - 1 != due)
			manager_verify_odd(&look->found, "box_differs", entry->record.id,
					   "it is %s, the warden says %s",
					   state_word(entry->record.state),
					   box_word((enum order_box_state)(held - 1)));
	}
}

static fallible look_at_kernel(struct look *look)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_INVENTORY};
	struct loop *loop = look->manager->loop;
	int none[ORDER_FDS_MAX];
	uint32_t count;

	TRY(ask_order(look->manager->ask, &order, answer, none, loop_now(loop) + ASK_MS));
	look->found.inventory = answer->inventory;
	count = answer->odd_count < ORDER_ODDS_MAX ? answer->odd_count : ORDER_ODDS_MAX;
	for (uint32_t i = 0; i < count; i++)
		manager_verify_odd(
			&look->found, answer->odds[i].what, answer->odds[i].name,
			"the kernel or the disk shows otherwise than the warden's table");
	if (answer->inventory.odd_count > count)
		manager_verify_odd(&look->found, "more", "", "and %u more",
				   answer->inventory.odd_count - count);
	return OK;
}

// ------------------------------------------------------------------------------------------ layers

// Reads the warden's layers into `seen`, and reports those without a row.
static fallible look_at_layers(struct look *look, struct map *seen)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_LIST, .name = ORDER_LAYERS};
	struct loop *loop = look->manager->loop;
	int none[ORDER_FDS_MAX];

	do {
		TRY(ask_order(look->manager->ask, &order, answer, none, loop_now(loop) + ASK_MS));
		for (uint32_t i = 0; i < answer->template_count; i++) {
			const char *name = answer->templates[i].name;

			map_put(seen, str_of(name), look);
			snprintf(order.name, sizeof(order.name), "%s", name);
			if (!pulled_layer(look->manager, name))
				manager_verify_odd(&look->found, "layer_without_row", name,
						   "no image can use it");
		}
	} while (answer->template_count == ORDER_LIST_PAGE);
	return OK;
}

static fallible compare_layers(struct look *look)
{
	struct map *seen = map_new();
	const struct pulled_layer *layer;
	struct err *err = look_at_layers(look, seen);

	for (size_t at = 0; !err && pulled_next_layer(look->manager, &at, &layer);)
		if (layer->is_ready && !layer->making && !map_get(seen, str_of(layer->name)))
			manager_verify_odd(&look->found, "row_without_layer", layer->name,
					   "its files are missing");
	map_free(seen);
	return err;
}

// ------------------------------------------------------------------------------------------- steps

static fallible look_at_steps(struct look *look, struct map *seen)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_LIST, .name = ORDER_STEPS};
	struct loop *loop = look->manager->loop;
	int none[ORDER_FDS_MAX];

	do {
		TRY(ask_order(look->manager->ask, &order, answer, none, loop_now(loop) + ASK_MS));
		for (uint32_t i = 0; i < answer->template_count; i++) {
			const char *name = answer->templates[i].name;

			map_put(seen, str_of(name), look);
			snprintf(order.name, sizeof(order.name), "%s", name);
			if (!build_steps_known(look->manager, name))
				manager_verify_odd(&look->found, "step_without_row", name,
						   "no build can use it");
		}
	} while (answer->template_count == ORDER_LIST_PAGE);
	return OK;
}

static fallible compare_steps(struct look *look)
{
	struct map *seen = map_new();
	const char *name;
	struct err *err = look_at_steps(look, seen);

	for (size_t at = 0; !err && build_steps_next(look->manager, &at, &name);)
		if (!map_get(seen, str_of(name)))
			manager_verify_odd(&look->found, "row_without_step", name,
					   "its files are missing");
	map_free(seen);
	return err;
}

// ----------------------------------------------------------------------------------------- volumes

struct volumes_seen {
	struct look *look;
	struct map *ids;
};

static void verify_see_volume(void *arg, const struct order_volume *row)
{
	struct volumes_seen *seen = arg;

	map_put(seen->ids, str_of(row->volume), seen);
	if (!volumes_known(seen->look->manager, row->volume))
		manager_verify_odd(&seen->look->found, "volume_without_row", row->volume,
				   "no tenant has it");
}

static fallible compare_volumes(struct look *look)
{
	struct manager *manager = look->manager;
	struct volumes_seen seen = {look, map_new()};
	struct err *err = ask_volumes(manager->ask, verify_see_volume, &seen,
				      loop_now(manager->loop) + ASK_MS);
	const struct volume *volume;

	for (size_t at = 0; !err && (volume = volumes_next(manager, &at));)
		if (volume->state == VOLUME_READY && !map_get(seen.ids, str_of(volume->id)))
			manager_verify_odd(&look->found, "row_without_volume", volume->id,
					   "its files are missing");
	map_free(seen.ids);
	return err;
}

// ------------------------------------------------------------------------------------------- all

static fallible look_once(struct manager *manager, struct verify *out)
{
	struct look look = {.manager = manager, .held = map_new()};
	struct err *err = look_at_rows(&look);

	if (!err)
		err = ask_boxes(manager->ask, verify_see_box, &look,
				loop_now(manager->loop) + ASK_MS);
	if (!err) {
		compare_boxes(&look);
		err = look_at_kernel(&look);
	}
	if (!err)
		err = compare_layers(&look);
	if (!err)
		err = compare_steps(&look);
	if (!err)
		err = compare_volumes(&look);
	map_free(look.held);
	if (err) {
		verify_done(&look.found);
		return err;
	}
	*out = look.found;
	return OK;
}

static bool verify_has(const struct verify *found, const struct verify_odd *one)
{
	for (size_t i = 0; i < found->count; i++)
		if (!strcmp(found->at[i].what, one->what) && !strcmp(found->at[i].name, one->name))
			return true;
	return false;
}

// Keeps in `now` only the differences that were there before, too.
static void verify_intersect(const struct verify *before, struct verify *now)
{
	size_t kept = 0;

	for (size_t i = 0; i < now->count; i++)
		if (verify_has(before, &now->at[i]))
			now->at[kept++] = now->at[i];
	now->count = kept;
}

// A difference counts when every comparison has seen it. A box that just ended may take a few.
fallible verify_all(struct manager *manager, struct verify *out)
{
	struct verify before = {0};

	if (!manager->settled)
		return err_new(UNAVAILABLE, "starting",
			       "cove is starting and adopting its sandboxes");
	TRY(look_once(manager, &before));
	for (int i = 1; i < LOOKS && before.count; i++) {
		struct verify now = {0};
		struct err *err = task_sleep_until(loop_now(manager->loop) + LOOK_AGAIN_MS);

		if (!err)
			err = look_once(manager, &now);
		if (err) {
			verify_done(&before);
			return err;
		}
		verify_intersect(&before, &now);
		verify_done(&before);
		before = now;
	}
	*out = before;
	return OK;
}

static const char *inventory_word(const char *field)
{
	return strcmp(field, "odd_count") ? field : "odd";
}

void verify_write(struct json_out *out, const struct verify *found)
{
	json_begin(out, '{');
	json_put_bool(out, "ok", !found->count);
	json_key(out, "differences");
	json_begin(out, '[');
	for (size_t i = 0; i < found->count; i++) {
		json_begin(out, '{');
		json_put_text(out, "what", found->at[i].what);
		json_put_text(out, "name", found->at[i].name);
		json_put_text(out, "detail", found->at[i].detail);
		json_end(out, '}');
	}
	json_end(out, ']');
	json_key(out, "counts");
	json_begin(out, '{');
	json_put_int(out, "sandboxes", (int64_t)found->boxes);
	json_put_int(out, "rows", (int64_t)found->rows);
	json_put_int(out, "boxes", (int64_t)found->warden_boxes);
#define X(field) json_put_int(out, inventory_word(#field), found->inventory.field);
	ORDER_INVENTORY_FIELDS(X)
#undef X
	json_end(out, '}');
	json_end(out, '}');
}

void verify_done(struct verify *found)
{
	free(found->at);
	*found = (struct verify){0};
}
