// Each parked upload has a task that waits for its timeout, the end of its sandbox, or
// cancellation. Taking or replacing an upload cancels its task, which frees what is left. An upload
// that was taken is in no list.
#include "toolbox/parked_upload.h"

struct parked {
	struct link link; // in watches->uploads, oldest first; in no list: taken
	struct watch_state *watches;
	struct entry *entry;
	struct files_upload *upload;
	char *user, *path;
	uint64_t total;
	int64_t until;
	struct task *task;
};

static void parked_upload_unlist(struct parked *parked)
{
	link_drop(&parked->link);
	parked->watches->upload_count--;
}

static bool may_wait(const struct parked *parked)
{
	return parked->upload && entry_is_alive(parked->entry) &&
	       loop_now(parked->watches->loop) < parked->until;
}

static void wait_for_client(void *arg)
{
	struct parked *parked = arg;
	auto_err err = NULL;

	while (!err && may_wait(parked))
		err = condition_wait(&parked->entry->changed, parked->until);
	if (parked->upload)
		parked_upload_unlist(parked);
	files_abort(parked->upload);
	entry_unref(parked->entry);
	free(parked->user);
	free(parked->path);
	free(parked);
}

static struct files_upload *toolbox_parked_upload_take(struct parked *parked)
{
	parked_upload_unlist(parked);
	task_cancel(parked->task);
	return take_ptr(parked->upload);
}

// Drops the oldest uploads above the limits of this sandbox and of all.
static void parked_upload_make_room(struct watch_state *watches, const struct entry *entry)
{
	size_t of_box = 0;

	list_each (at, &watches->uploads)
		of_box += link_of(at, struct parked, link)->entry == entry;
	list_each (at, &watches->uploads) {
		struct parked *parked = link_of(at, struct parked, link);
		bool same = parked->entry == entry;

		if ((same && of_box >= PARKED_UPLOAD_BOX_MAX) ||
		    watches->upload_count >= PARKED_UPLOAD_MAX) {
			of_box -= same;
			files_abort(toolbox_parked_upload_take(parked));
		}
	}
}

void parked_upload_put(struct watch_state *watches, const struct box_ref *ref,
		       const struct parking *parking, struct files_upload *upload)
{
	struct parked *parked = mem_new_of(struct parked);

	files_abort(parked_upload_take(watches, ref, parking));
	parked_upload_make_room(watches, ref->entry);
	entry_ref(ref->entry);
	*parked = (struct parked){
		.watches = watches,
		.entry = ref->entry,
		.upload = upload,
		.user = mem_str(parking->user),
		.path = mem_str(parking->path),
		.total = parking->total,
		.until = loop_now(watches->loop) + PARKED_UPLOAD_MS,
	};
	link_add(&watches->uploads, &parked->link);
	watches->upload_count++;
	parked->task = task_start(watches->loop, "parked upload", wait_for_client, parked);
}

struct files_upload *parked_upload_take(struct watch_state *watches, const struct box_ref *ref,
					const struct parking *parking)
{
	list_each (at, &watches->uploads) {
		struct parked *parked = link_of(at, struct parked, link);

		if (parked->entry == ref->entry && parked->total == parking->total &&
		    !strcmp(parked->user, parking->user) && !strcmp(parked->path, parking->path))
			return toolbox_parked_upload_take(parked);
	}
	return NULL;
}
