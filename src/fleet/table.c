#include "fleet/table.h"

#include <stdio.h>

#include "base/mem.h"

void entry_hold(struct entry *entry)
{
	entry->holds++;
}

void entry_drop(struct entry *entry)
{
	if (--entry->holds)
		return;
	if (entry->box)
		box_free(entry->box);
	record_done(&entry->record);
	portbook_done(&entry->ports);
	free(entry);
}

void entry_move(struct entry *entry, enum state state)
{
	entry->record.state = state;
	entry->fleet->changes++;
	bell_ring(&entry->changed);
}

// 48 random bits collide hardly ever, but a short id that names two boxes must not exist.
static void settle_short_id(struct fleet *fleet, struct entry *entry)
{
	struct record *record = &entry->record;
	const char *hex = record->id + strlen("box-");
	size_t len = ID_SHORT_LEN;

	while (!map_put(fleet->by_short, str_of(record->short_id), entry)) {
		len++;
		snprintf(record->short_id, sizeof(record->short_id), "%.*s", (int)len, hex);
	}
}

fallible table_add(struct fleet *fleet, struct spec *spec, struct entry **out)
{
	char id[ID_BOX_LEN + 1];
	struct entry *entry;

	if (spec->name[0] && map_get(fleet->by_name, str_of(spec->name)))
		return err_hint(err_new(CONFLICT, "name_taken", "there is a sandbox named '%s'",
					spec->name),
				"choose another name, or PUT /v1/sandboxes/%s to get that one",
				spec->name);
	entry = mem_new_of(struct entry);
	do
		id_box(id);
	while (!map_put(fleet->by_id, str_of(id), entry));
	record_init(&entry->record, spec, id);
	settle_short_id(fleet, entry);
	if (entry->record.name[0])
		map_put(fleet->by_name, str_of(entry->record.name), entry);
	bell_init(&entry->changed);
	entry->fleet = fleet;
	entry->record.seq = ++fleet->next_seq;
	entry->holds = 1;
	entry->listed = true;
	link_add(&fleet->entries, &entry->link);
	fleet->changes++;
	*out = entry;
	return OK;
}

void table_remove(struct entry *entry)
{
	struct fleet *fleet = entry->fleet;

	if (!entry->listed)
		return;
	entry->listed = false;
	map_take(fleet->by_id, str_of(entry->record.id));
	map_take(fleet->by_short, str_of(entry->record.short_id));
	if (entry->record.name[0])
		map_take(fleet->by_name, str_of(entry->record.name));
	link_drop(&entry->link);
	fleet->changes++;
	bell_ring(&entry->changed);
	bell_ring(&fleet->left);
	entry_drop(entry);
}

// Any beginning of an id that has at least the digits of its short id names the box.
static struct entry *find_short(const struct fleet *fleet, struct str key)
{
	for (size_t len = ID_SHORT_LEN; len <= key.len; len++) {
		struct entry *entry = map_get(fleet->by_short, (struct str){key.at, len});

		if (entry && !memcmp(entry->record.id + strlen("box-"), key.at, key.len))
			return entry;
	}
	return NULL;
}

struct entry *table_find(const struct fleet *fleet, struct str key)
{
	if (id_is_box(key))
		return map_get(fleet->by_id, key);
	if (id_is_short(key))
		return find_short(fleet, key);
	return map_get(fleet->by_name, key);
}
