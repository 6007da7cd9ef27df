// Archives: the disk of a stopped box as one file packed by zstd, in place of the disk. Each is a
// directory .archive-BOX beside the templates, with the file and `meta`; .pack-N is being made. A
// directory of that name is complete: it is written, synced, read back and compared first. While
// it exists, a disk of the box is a copy that a killed warden has left, and is dropped.
#pragma once

#include "warden/box.h"

struct archives;

// After templates and disks, before snapshots. Boxes that have an archive join the table.
fallible archives_open(struct warden *warden, struct archives **out);
void archives_close(struct warden *warden);

// ARCHIVE: answered when the file is complete and the disk gone, or, with `again`, when the disk is
// back and the file gone: that ends a packing. Succeeds if that was so before.
fallible archive_order(struct warden *warden, const struct order *order);

// Fills a new disk of the box from its archive. `done` is called at the end, with an error that it
// frees or NULL: the disk is whole, and mounted nowhere. After a failure there is no disk. With
// `keep` the archive stays, and archive_drop_disk() ends the use of the disk; else it goes. The
// limits of the order hold, or where it has none those of the former disk.
typedef void archive_restored(struct warden *warden, const struct order *order, struct err *err);
fallible archive_restore(struct warden *warden, const struct order *order, bool keep,
			 archive_restored *done);
void archive_drop_disk(struct warden *warden, const char *box_id);
// True if a child packs or unpacks the disk of the box.
bool archive_is_busy(const struct warden *warden, const char *box);
// Bytes of the file; content: of the disk that it holds. False: there is no archive.
bool archive_sizes(const struct warden *warden, const char *box, uint64_t *out_file,
		   uint64_t *out_content);
// The box is destroyed: its archive goes.
fallible archive_drop(struct warden *warden, const char *box_id);
// DESTROY: ends what is under way for the box.
void archive_cancel(struct warden *warden, const char *box);
bool archives_at_work(const struct warden *warden);
int64_t archives_turn(struct warden *warden); // returns when to call again, like teardown_turn()
bool archive_reaped(struct warden *warden, int pid, int status);
void archives_forget(struct warden *warden); // the daemon is gone: what it has ordered ends
