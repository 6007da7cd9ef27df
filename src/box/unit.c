// The common part of processes, terminals, shell sessions and interpreters: the table of units by
// id, references, tapes, adoption. A unit is freed with its last reference. Adoption goes by the
// files of the box's folder, the latest first, then by what pid 1 holds and has no file: of two
// units with the same id the later one stands.
#include "box/unit.h"

#include <stdlib.h>

#include "base/mem.h"
#include "box/box_file.h"

#define UNIT_FILE_MAX (1u << 30) // numbers that pid 1 names

void unit_init(struct unit *unit, const struct unit_kind *kind, struct box *box, struct str id)
{
	unit->kind = kind;
	unit->box = box;
	unit->loop = box->loop;
	unit->refs = 1;
	unit->id = mem_dup(id.at, id.len);
	condition_init(&unit->changed);
	if (!kind->outlives_box)
		box_ref(box);
}

void unit_done(struct unit *unit)
{
	tape_unref(unit->tape);
	if (!unit->kind->outlives_box)
		box_unref(unit->box);
	free(unit->id);
	free(unit);
}

void unit_ref(struct unit *unit)
{
	unit->refs++;
}

void unit_unref(struct unit *unit)
{
	if (--unit->refs == 0)
		unit->kind->free(unit);
}

bool unit_list(struct unit *unit)
{
	struct units *units = &unit->box->units[unit->kind->type];

	if (!units->by_id)
		units->by_id = map_new();
	if (!map_put(units->by_id, str_of(unit->id), unit))
		return false;
	unit->listed = true;
	unit_ref(unit);
	if (unit->box->adoption)
		link_push(&units->all, &unit->link); // the latest is adopted first
	else
		link_add(&units->all, &unit->link);
	return true;
}

bool unit_unlist(struct unit *unit)
{
	if (!unit->listed)
		return false;
	unit->listed = false;
	map_take(unit->box->units[unit->kind->type].by_id, str_of(unit->id));
	link_drop(&unit->link);
	if (unit->kind->outlives_box)
		unit->box = NULL;
	condition_signal(&unit->changed);
	unit_unref(unit);
	return true;
}

uint32_t unit_next_file(struct box *box, const struct unit_kind *kind)
{
	return box->features & TALK_CAN_RETURN ? ++box->units[kind->type].files : 0;
}

struct unit *unit_find(struct box *box, const struct unit_kind *kind, struct str id)
{
	struct map *by_id = box->units[kind->type].by_id;
	struct unit *unit = by_id ? map_get(by_id, id) : NULL;

	if (unit)
		unit_ref(unit);
	return unit;
}

bool units_have_room(struct box *box, const struct unit_kind *kind)
{
	struct units *units = &box->units[kind->type];

	list_each (at, &units->all) {
		if (map_count(units->by_id) < kind->max)
			break;
		kind->evict(link_of(at, struct unit, link));
	}
	return !units->by_id || map_count(units->by_id) < kind->max;
}

struct tape *unit_new_tape(struct box *box, char letter, uint32_t number,
			   const struct tape_label *label)
{
	auto_free char *name = box_file_name(box, letter, number);
	struct tape *tape;

	if (number) {
		tape = tape_new_named(box->loop, box->tapes_dir, name);
		tape_set_label(tape, label);
		box->has_folder = true;
	} else {
		tape = tape_new(box->loop, box->tapes_dir, label->cap);
	}
	tape_bound(tape, box_tape_budget(box));
	return tape;
}

fallible unit_open_tape(struct box *box, char letter, uint32_t number, struct tape **out,
			struct tape_label *out_label)
{
	auto_free char *name = box_file_name(box, letter, number);
	struct tape *tape = NULL;
	auto_err err = tape_open(box->loop, box->tapes_dir, name, &tape, out_label);

	if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
		return take_ptr(err);
	if (tape)
		tape_bound(tape, box_tape_budget(box));
	*out = tape;
	return OK;
}

bool units_are_busy(const struct box *box, uint32_t *out_idle)
{
	*out_idle = 0;
	for (int i = 0; i < UNIT_TYPES; i++)
		list_each (at, &box->units[i].all) {
			const struct unit *unit = link_of(at, struct unit, link);
			enum unit_use use = unit->kind->use ? unit->kind->use(unit) : UNIT_OVER;

			if (use == UNIT_BUSY)
				return true;
			*out_idle += use == UNIT_IDLE;
		}
	return false;
}

// Files that are being removed in the background count too: their numbers are not reused.
static uint32_t unit_last_file(const struct adoption *adoption, const struct unit_kind *kind,
			       const uint32_t *numbers)
{
	auto_free uint32_t *tapes = kind->tape_letter
					    ? adoption_numbers(adoption, kind->tape_letter)
					    : NULL;
	uint32_t last = numbers[0];

	if (tapes && tapes[0] > last)
		last = tapes[0];
	list_each (at, &adoption->helds) {
		const struct exec_label *label = &link_of(at, struct adoptee, link)->label;

		if (label->kind == kind->label && label->file > last &&
		    label->file <= UNIT_FILE_MAX)
			last = label->file;
	}
	return last;
}

fallible units_adopt(struct adoption *adoption, const struct unit_kind *kind)
{
	auto_free uint32_t *numbers = adoption_numbers(adoption, kind->letter);
	struct link *at;

	adoption->box->units[kind->type].files = unit_last_file(adoption, kind, numbers);
	for (const uint32_t *number = numbers; *number; number++)
		TRY(kind->adopt(adoption, *number, adoption_find(adoption, kind->label, *number)));
	at = adoption->helds.next;
	while (at != &adoption->helds && !kind->needs_file) {
		struct adoptee *held = link_of(at, struct adoptee, link);

		at = at->next; // a taken entry leaves the list
		if (held->label.kind != kind->label)
			continue;
		if (held->label.file < 1 || held->label.file > UNIT_FILE_MAX)
			return err_new(BAD_PEER, "bad_label", "pid 1 names a file of no %s",
				       kind->name);
		TRY(kind->adopt(adoption, held->label.file, held));
	}
	return kind->adopt_rest ? kind->adopt_rest(adoption) : OK;
}
