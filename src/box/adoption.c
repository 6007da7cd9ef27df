// Collects the HELD messages of pid 1 while a box is adopted (adopt.c), until each entry is taken
// by the kind that its exec label names. Input is hostile: too many entries, an entry twice, or one
// that was not asked for breaks the box.
#include "box/adoption.h"

#include <stdlib.h>

#include "base/mem.h"
#include "loop/closer.h"
#include "os/fd.h"

static void drop_fds(int *fds, int *count)
{
	closer_drop_all(fds, *count);
	*count = 0;
}

static void adoptee_free(struct adoptee *adoptee)
{
	link_drop(&adoptee->link);
	drop_fds(adoptee->fds, &adoptee->count);
	free(adoptee->bytes);
	free(adoptee);
}

void adoption_free(struct adoption *adoption)
{
	list_each (at, &adoption->helds)
		adoptee_free(link_of(at, struct adoptee, link));
	for (size_t i = 0; i < adoption->name_count; i++)
		free(adoption->names[i]);
	free(adoption->names);
	free(adoption);
}

static bool box_adopt_is_known(const struct adoption *adoption, uint32_t conn)
{
	list_each (at, &adoption->helds)
		if (link_of(at, struct adoptee, link)->talk.conn == conn)
			return true;
	return false;
}

static void add_held(struct adoption *adoption, const struct talk *talk, const int *fds, int count)
{
	struct adoptee *adoptee = mem_new_of(struct adoptee);
	struct str label = talk->held.tag;

	adoptee->talk = *talk;
	adoptee->bytes = mem_dup(label.at, label.len);
	adoptee->talk.held.tag.at = adoptee->bytes;
	if (!exec_label_decode(adoptee->talk.held.tag, &adoptee->label))
		adoptee->label = (struct exec_label){.kind = EXEC_LABEL_EXEC};
	memcpy(adoptee->fds, fds, (size_t)count * sizeof(*fds));
	adoptee->count = count;
	link_add(&adoption->helds, &adoptee->link);
	adoption->count++;
	if (talk->conn > adoption->box->last_conn)
		adoption->box->last_conn = talk->conn;
}

void box_held(struct box *box, const struct talk *talk, int *fds, int count)
{
	struct adoption *adoption = box->adoption;
	const char *wrong = NULL;

	if (!adoption || adoption->ended)
		wrong = "pid 1 lists commands unasked";
	else if (count != FD_LOST && count != talk_fds(talk, 0))
		wrong = "pid 1 sent a wrong number of fds";
	else if (talk->kind == TALK_HELD &&
		 (adoption->count == TALK_CONN_MAX || box_adopt_is_known(adoption, talk->conn)))
		wrong = "pid 1 lists too many commands";
	if (wrong) {
		drop_fds(fds, &count);
		box_break(box, wrong);
		return;
	}
	if (talk->kind == TALK_HELD && count == FD_LOST) {
		adoption->no_files = true;
	} else if (talk->kind == TALK_HELD) {
		add_held(adoption, talk, fds, count);
		return;
	} else {
		adoption->ended = true;
		channel_pause(&box->channel, true);
	}
	condition_signal(&adoption->condition);
}

struct adoptee *adoption_find(struct adoption *adoption, enum exec_label_kind kind, uint32_t file)
{
	list_each (at, &adoption->helds) {
		struct adoptee *adoptee = link_of(at, struct adoptee, link);

		if (adoptee->label.kind == kind && adoptee->label.file == file)
			return adoptee;
	}
	return NULL;
}

fallible adoptee_take(struct adoptee *adoptee, struct box *box, struct tape *tape,
		      struct exec **out)
{
	struct err *err;

	adoptee->count = 0; // the exec owns the fds, also on failure
	err = exec_adopt(box, &adoptee->talk, &adoptee->label, adoptee->exec_cgroup, tape,
			 adoptee->fds, out);
	adoptee_free(adoptee);
	return err;
}

// Parses a name of `letter` (0: none) and a number; false: another kind of name.
static bool adoption_number(const char *name, char letter, uint32_t *out)
{
	uint64_t number;

	if (letter && *name != letter)
		return false;
	if (!str_to_u64(str_of(name + (letter != 0)), 1, UINT32_MAX, &number))
		return false;
	*out = (uint32_t)number;
	return true;
}

static int adoption_compare(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return a < b ? 1 : a > b ? -1 : 0;
}

uint32_t *adoption_numbers(const struct adoption *adoption, char letter)
{
	uint32_t *numbers = mem_new((adoption->name_count + 1) * sizeof(*numbers));
	size_t count = 0;

	for (size_t i = 0; i < adoption->name_count; i++)
		count += adoption_number(adoption->names[i], letter, &numbers[count]);
	qsort(numbers, count, sizeof(*numbers), adoption_compare);
	numbers[count] = 0;
	return numbers;
}

struct adoption *adoption_new(struct box *box)
{
	struct adoption *adoption = mem_new_of(struct adoption);

	adoption->box = box;
	link_init(&adoption->helds);
	condition_init(&adoption->condition);
	box->adoption = adoption;
	return adoption;
}

void box_adoption_lost(struct box *box)
{
	if (box->adoption)
		condition_signal(&box->adoption->condition);
}
