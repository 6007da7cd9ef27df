// Allocates id ranges (slots) and the user namespaces that map them. Free slots are on three
// stacks: with a namespace, without one, and resting until the files of their last box are deleted.
// Ranges in /etc/subuid and /etc/subgid are never used. A namespace outlives its box and serves the
// next box of the slot.
//
// syscalls: openat read write close clone3 waitid exit_group socketpair sendmsg recvmsg unshare
// syscalls: setresuid setresgid prctl capget capset dup2 dup3 fcntl close_range
#include "warden/ids.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/ns.h"

#define SUBIDS_MAX (256 * 1024) // bytes of /etc/subuid that are read

struct slot {
	int userns; // -1: not made yet
	bool used;
};

// Slot numbers: free with a namespace, free without, and resting.
struct stack {
	uint32_t *at;
	uint32_t count;
};

struct ids {
	struct slot *slots;
	uint32_t count, taken;
	uint32_t held; // namespaces of slots in use
	struct stack ready, bare, resting;
};

static void slot_push(struct stack *stack, uint32_t slot)
{
	stack->at[stack->count++] = slot;
}

static void put_free(struct ids *ids, uint32_t slot)
{
	if (ids->ready.count >= IDS_READY)
		fd_drop(&ids->slots[slot].userns);
	slot_push(ids->slots[slot].userns >= 0 ? &ids->ready : &ids->bare, slot);
}

uint32_t ids_base(uint32_t slot)
{
	return weak(USERNS) ? 0 : IDS_BASE + slot * NS_IDS;
}

bool ids_slot(uint32_t base, uint32_t *out_slot)
{
	if (base < IDS_BASE || (base - IDS_BASE) % NS_IDS)
		return false;
	*out_slot = (base - IDS_BASE) / NS_IDS;
	return true;
}

// Marks slots that overlap lines of "name:first:count".
static void ids_avoid(struct ids *ids, const char *path)
{
	auto_free char *text = mem_new(SUBIDS_MAX);
	ssize_t len = fd_get(AT_FDCWD, path, text, SUBIDS_MAX);
	struct str rest = {text, len > 0 ? (size_t)len : 0}, line, name, first, count;

	while (len > 0 && str_cut(&rest, '\n', &line)) {
		uint64_t from, many;

		if (!str_cut(&line, ':', &name) || !str_cut(&line, ':', &first) ||
		    !str_cut(&line, ':', &count) || !str_to_u64(first, 0, UINT32_MAX, &from) ||
		    !str_to_u64(count, 1, UINT32_MAX, &many))
			continue;
		for (uint32_t i = 0; i < ids->count; i++)
			if (from < (uint64_t)ids_base(i) + NS_IDS && from + many > ids_base(i))
				ids->slots[i].used = true;
	}
}

struct ids *ids_open(uint32_t count)
{
	struct ids *ids = mem_new_of(struct ids);
	struct stack *stacks[] = {&ids->ready, &ids->bare, &ids->resting};

	ids->count = count;
	ids->slots = mem_grow(NULL, count, sizeof(*ids->slots));
	for (uint32_t i = 0; i < count; i++)
		ids->slots[i] = (struct slot){.userns = -1};
	for (int i = 0; i < 3; i++)
		stacks[i]->at = mem_grow(NULL, count, sizeof(*stacks[i]->at));
	ids_avoid(ids, "/etc/subuid");
	ids_avoid(ids, "/etc/subgid");
	for (uint32_t i = count; i-- > 0;)
		if (!ids->slots[i].used)
			slot_push(&ids->bare, i);
	return ids;
}

void ids_close(struct ids *ids)
{
	if (!ids)
		return;
	for (uint32_t i = 0; i < ids->count; i++)
		fd_drop(&ids->slots[i].userns);
	free(ids->ready.at);
	free(ids->bare.at);
	free(ids->resting.at);
	free(ids->slots);
	free(ids);
}

// The stack of slots without a namespace is sorted descending until the first take or give.
bool ids_claim(struct ids *ids, uint32_t slot)
{
	uint32_t low = 0, high = ids->bare.count;

	if (slot >= ids->count || ids->slots[slot].used)
		return false;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ids->bare.at[middle] > slot)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == ids->bare.count || ids->bare.at[low] != slot)
		return false;
	ids->bare.count--;
	memmove(&ids->bare.at[low], &ids->bare.at[low + 1],
		(ids->bare.count - low) * sizeof(*ids->bare.at));
	ids->slots[slot].used = true;
	ids->taken++;
	return true;
}

uint32_t ids_taken(const struct ids *ids)
{
	return ids->taken;
}

uint32_t ids_resting(const struct ids *ids)
{
	return ids->resting.count;
}

fallible ids_take(struct ids *ids, uint32_t *out_slot, int *out_userns)
{
	uint32_t slot;

	// Resting slots are used only if there is no other. The files of their last boxes are still
	// being deleted then, but they lie unshifted on the disk and belong to no range.
	if (!ids->ready.count && !ids->bare.count)
		ids_rested(ids);
	if (!ids->ready.count && !ids->bare.count)
		return err_hint(err_new(EXHAUSTED, "no_ids", "all id ranges are in use"),
				"delete boxes first");
	if (ids->ready.count) {
		slot = ids->ready.at[--ids->ready.count];
	} else {
		slot = ids->bare.at[ids->bare.count - 1];
		TRY(ns_user(ids_base(slot), &ids->slots[slot].userns));
		ids->bare.count--;
	}
	ids->slots[slot].used = true;
	ids->taken++;
	ids->held++;
	*out_slot = slot;
	*out_userns = ids->slots[slot].userns;
	return OK;
}

void ids_built(struct ids *ids, uint32_t slot, int *userns)
{
	if (ids->held <= (ids->count / 4 < IDS_HELD ? ids->count / 4 : IDS_HELD) ||
	    ids->slots[slot].userns < 0)
		return;
	fd_drop(&ids->slots[slot].userns);
	ids->held--;
	*userns = -1;
}

void ids_give(struct ids *ids, uint32_t slot, bool clean)
{
	ids->slots[slot].used = false;
	ids->taken--;
	ids->held -= ids->slots[slot].userns >= 0;
	if (clean) {
		put_free(ids, slot);
		return;
	}
	if (ids->resting.count >= IDS_READY)
		fd_drop(&ids->slots[slot].userns);
	slot_push(&ids->resting, slot);
}

void ids_rested(struct ids *ids)
{
	while (ids->resting.count)
		put_free(ids, ids->resting.at[--ids->resting.count]);
}

bool ids_are_missing(const struct ids *ids)
{
	return ids->ready.count < IDS_READY && ids->bare.count > 0;
}

bool ids_are_few(const struct ids *ids)
{
	return ids->ready.count < IDS_READY / 2;
}

bool ids_refill(struct ids *ids)
{
	uint32_t slot;

	if (!ids_are_missing(ids))
		return false;
	slot = ids->bare.at[ids->bare.count - 1];
	auto_err err = ns_user(ids_base(slot), &ids->slots[slot].userns);

	if (err)
		return false; // the next ids_take() meets the same error and reports it
	ids->bare.count--;
	slot_push(&ids->ready, slot);
	return true;
}
