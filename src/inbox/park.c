// Each parked upload has a task that waits: for the end of its time, of its sandbox, or of its
// parking. Whoever takes or replaces it cancels the task, which frees what is left.
#include "inbox/park.h"

struct parked {
	struct link link; // memory->uploads, longest waiting first; in no list: taken
	struct memory *memory;
	struct entry *entry;
	struct files_upload *upload;
	char *user, *path;
	uint64_t total;
	int64_t until;
	struct task *task;
};

static void unlist(struct parked *parked)
{
	link_drop(&parked->link);
	parked->memory->upload_count--;
}

static bool may_wait(const struct parked *parked)
{
	return parked->upload && entry_is_alive(parked->entry) &&
	       loop_now(parked->memory->loop) < parked->until;
}

static void wait_for_client(void *arg)
{
	struct parked *parked = arg;
	auto_err err = NULL;

	while (!err && may_wait(parked))
		err = bell_wait(&parked->entry->changed, parked->until);
	if (parked->upload)
		unlist(parked);
	files_abort(parked->upload);
	entry_drop(parked->entry);
	free(parked->user);
	free(parked->path);
	free(parked);
}

static struct files_upload *take(struct parked *parked)
{
	unlist(parked);
	task_cancel(parked->task);
	return take_ptr(parked->upload);
}

// Room for one more: of this sandbox, and in all.
static void park_make_room(struct memory *memory, const struct entry *entry)
{
	size_t of_box = 0;

	list_each (at, &memory->uploads)
		of_box += link_of(at, struct parked, link)->entry == entry;
	list_each (at, &memory->uploads) {
		struct parked *parked = link_of(at, struct parked, link);
		bool same = parked->entry == entry;

		if ((same && of_box >= PARK_BOX_MAX) || memory->upload_count >= PARK_MAX) {
			of_box -= same;
			files_abort(take(parked));
		}
	}
}

void park_put(struct memory *memory, const struct visit *visit, const struct parking *parking,
	      struct files_upload *upload)
{
	struct parked *parked = mem_new_of(struct parked);

	files_abort(park_take(memory, visit, parking));
	park_make_room(memory, visit->entry);
	entry_hold(visit->entry);
	*parked = (struct parked){
		.memory = memory,
		.entry = visit->entry,
		.upload = upload,
		.user = mem_str(parking->user),
		.path = mem_str(parking->path),
		.total = parking->total,
		.until = loop_now(memory->loop) + PARK_MS,
	};
	link_add(&memory->uploads, &parked->link);
	memory->upload_count++;
	parked->task = task_start(memory->loop, "parked upload", wait_for_client, parked);
}

struct files_upload *park_take(struct memory *memory, const struct visit *visit,
			       const struct parking *parking)
{
	list_each (at, &memory->uploads) {
		struct parked *parked = link_of(at, struct parked, link);

		if (parked->entry == visit->entry && parked->total == parking->total &&
		    !strcmp(parked->user, parking->user) && !strcmp(parked->path, parking->path))
			return take(parked);
	}
	return NULL;
}
