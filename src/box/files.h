// Files, trees and ports of a box, through its file workers (box/file_worker.h). Every operation
// runs in a task and waits, at most until its deadline. Paths are bytes without NUL, resolved
// inside the box with the rights of the user. Returned texts are borrowed until the next call on
// the same walk.
//
// Errors of every operation: NOT_FOUND no_file; INVALID is_directory, not_directory, not_regular,
// bad_path, name_too_long, too_many_links; FORBIDDEN permission_denied, read_only; CONFLICT
// file_exists, not_empty, file_busy; TOO_LARGE file_too_large; NO_SPACE no_space; EXHAUSTED
// too_many_files, too_many_requests; INTERNAL fs_error (with the kernel's message),
// file_worker_lost (the worker was killed in the box); UNAVAILABLE box_lost; TIMEOUT; CANCELLED.
#pragma once

#include "base/buf.h"
#include "box/box.h"
#include "protocol/fileop.h"

// Box, user and base directory. Borrowed for each call.
struct files {
	struct box *box;
	const char *user; // "": root of the box
	const char *base; // base of relative paths; NULL: /workspace
	int64_t deadline; // loop time
	bool proc;	  // /proc may be read: for the daemon's own requests, never for a client's
};

// Whether pid 1 can be asked, and the root read: a new worker answers.
fallible files_probe(const struct files *files);
fallible files_stat(const struct files *files, const char *path, bool follow,
		    struct fileop_stat *out);
// As `test -e`: a dangling link does not exist; nor does what cannot be looked up.
fallible files_exists(const struct files *files, const char *path, bool *out);
// Reads a whole regular file. Up to FILEOP_SMALL bytes are appended to `out` and *out_fd is -1; a
// larger one is returned as an fd at its beginning. The box may change or shrink the file at any
// time, and its disk may be slow: read the fd in a worker. TOO_LARGE too when `out` has no room.
fallible files_read(const struct files *files, const char *path, struct buf *out, int *out_fd,
		    struct fileop_stat *stat);
fallible files_open(const struct files *files, const char *path, int *out_fd,
		    struct fileop_stat *stat); // always as an fd

// Atomic, by a rename; a final symlink is followed. `mode`: FILEOP_KEEP_MODE, or 07777. `flags`:
// FILEOP_PARENTS creates missing directories, FILEOP_EXCLUSIVE refuses to replace. At most
// FILEOP_SMALL bytes, else TOO_LARGE file_too_large.
fallible files_write(const struct files *files, const char *path, uint32_t flags, uint32_t mode,
		     struct str bytes);
// The same for any size. The caller writes to the fd (in a worker), then commits. Commit and abort
// free the upload; an abort or a crash leaves the old file intact.
struct files_upload;
fallible files_begin(const struct files *files, const char *path, uint32_t flags, uint32_t mode,
		     struct files_upload **out);
int files_upload_fd(const struct files_upload *upload); // borrowed
fallible files_commit(struct files_upload *upload, int64_t deadline, struct fileop_stat *stat);
void files_abort(struct files_upload *upload); // takes NULL; never waits

fallible files_mkdir(const struct files *files, const char *path, bool parents, uint32_t mode);
// Files and links; with `recursive` directories and all in them. INVALID is_directory.
fallible files_remove(const struct files *files, const char *path, bool recursive);
// As mv: into a directory, over files, across file systems. `exclusive`: CONFLICT file_exists.
fallible files_move(const struct files *files, const char *from, const char *to, bool exclusive);
fallible files_chmod(const struct files *files, const char *path, uint32_t mode, bool recursive);
fallible files_readlink(const struct files *files, const char *path, struct buf *out);
struct files_space {
	uint64_t total, free; // bytes
	uint64_t inodes, inodes_free;
};
fallible files_space(const struct files *files, const char *path, struct files_space *out);

// A walk: many answers, taken one by one. It holds a file worker until files_end().
struct files_walk;
struct files_total {
	uint64_t count, bytes;
	uint64_t skipped; // entries that could not be read, or were refused
	bool more;	  // the limit cut it short
	char note[256];	  // the first skipped entry; may be ""
};

// Entries of a directory in no order, paths beneath it. `flags`: FILEOP_RECURSIVE, FILEOP_HIDDEN
// (without it names that begin with a dot are left out, not what is in them). `limit` 0: none.
fallible files_list(const struct files *files, const char *path, uint32_t flags, uint64_t limit,
		    struct files_walk **out);
struct files_find {
	uint32_t flags; // FILEOP_HIDDEN: also look into hidden directories
	const char *const *include, *const *exclude; // globs, NULL-ended, or NULL. Excluded
						     // directories are not entered
	uint32_t types;				     // bits 1 << enum reach_type; 0: all
	uint64_t min_size, max_size;		     // max 0: none
	uint32_t depth;				     // 0: none
	uint64_t limit;				     // of results; 0: none
};
fallible files_find(const struct files *files, const char *path, const struct files_find *find,
		    struct files_walk **out);
struct files_grep {
	uint32_t flags;	    // FILEOP_FIXED, FILEOP_NO_CASE, FILEOP_HIDDEN
	struct str pattern; // extended regular expression; INVALID bad_pattern
	const char *const *include, *const *exclude;
	uint64_t limit;	   // of matches; 0: 10,000
	uint64_t max_size; // of a file that is read; 0: 64 MiB
};
// Text files only (no NUL in the first 8 KiB). `path` may be a file.
fallible files_grep(const struct files *files, const char *path, const struct files_grep *grep,
		    struct files_walk **out);
// *more = false at the end; then files_end() returns the total. Deadline: that of `files`.
fallible files_next_entry(struct files_walk *walk, struct fileop_entry *out, bool *more);
fallible files_next_match(struct files_walk *walk, struct fileop_match *out, bool *more);
// Frees the walk. Waits for the total only if `total` is not NULL and all items were taken; else
// cancels the rest. Accepts NULL.
fallible files_end(struct files_walk *walk, struct files_total *total);
void files_within(struct files_walk *walk, int64_t deadline); // of the calls that follow
void files_drop(struct files_walk *walk);		      // cancels; never waits

// A tree as a tar (ustar with pax), from a pipe: read *out_fd to its end (pipe_take(), or splice in
// a worker: pid 1 may change its flags), close it, then files_end() returns the result. Devices,
// sockets and FIFOs are left out. A file with several names is packed once, with hard links to it.
// NOT_OFFERED old_box: its pid 1 does not support ignore files, or lists.
struct files_pack {
	// Globs; with a slash they mean the path beneath, else any name in it. NULL-ended, or NULL.
	const char *const *exclude;
	bool stats;		    // a list without contents, as docs/API.md describes it
	bool gitignore;		    // leave out what git ignores (init/gitignore.h)
	const char *const *tracked; // paths that git tracks though a rule names them; as above
};
fallible files_pack(const struct files *files, const char *path, const struct files_pack *pack,
		    int *out_fd, struct files_walk **out);
// Unpacks: write the tar into *out_fd, close it, then files_end(). The directory is created.
// INVALID bad_archive; TOO_LARGE archive_too_large. Entries that lead out (dots, absolute names,
// symlinks on the way), devices and FIFOs are skipped and counted. `flags`: FILEOP_OWNERS keeps
// owners and set-id bits.
fallible files_unpack(const struct files *files, const char *path, uint32_t flags, int *out_fd,
		      struct files_walk **out);

// Unpacks of syncs: a worker unpacks what a killed client has sent, also after a newer sync began.
// files_sync_wait() returns when all that have begun have ended. TIMEOUT.
void files_sync_begin(struct box *box);
void files_sync_end(struct box *box);
fallible files_sync_wait(struct box *box, int64_t deadline);

// Returns when the watch is in place. Patterns as in docs/API.md: `include` or `exclude`, NULL-
// ended, or NULL. The walk's deadline no longer counts: files_next_event() has its own, and a
// TIMEOUT of it does no harm. Equal events within 75 ms are merged.
fallible files_watch(const struct files *files, const char *path, uint32_t flags,
		     const char *const *include, const char *const *exclude,
		     struct files_walk **out);
fallible files_next_event(struct files_walk *walk, int64_t deadline, struct fileop_event *out);
// The watch reports at once what it holds back, then FILEOP_CAUGHT_UP.
void files_nudge(struct files_walk *walk);

// Connects to 127.0.0.1, then ::1. BAD_PEER port_closed if nothing listens.
fallible files_dial(const struct files *files, uint16_t port, int *out_fd);
// An unconnected socket of the box's network namespace. For pid 1s with TALK_CAN_NET.
fallible files_socket(const struct files *files, int *out_fd);
// Listening ports except that of the egress listener, lowest first, each once. At most `room`;
// *count is how many there are.
fallible files_ports(const struct files *files, struct fileop_port *out, size_t room,
		     size_t *count);
// All processes of the box, in no order; files_end() tells `more` when there were too many. And a
// signal to one of them, by its pid and start. NOT_OFFERED old_box; CONFLICT process_gone.
fallible files_processes(const struct files *files, struct files_walk **out);
fallible files_next_process(struct files_walk *walk, struct fileop_process *out, bool *more);
fallible files_signal(const struct files *files, const struct fileop_process *process, int signal);
// Signals the descendants, session and cgroup of process `pid` that started since `since_ms`
// (CLOCK_BOOTTIME); not `pid` itself. Signal 0 only counts.
fallible files_sweep(const struct files *files, int pid, uint64_t since_ms, int signal,
		     uint32_t *out_count);
// Signals processes of an exec cgroup (box/exec_cgroup.h) that started since then, except `spared`;
// 0: none.
fallible files_sweep_cgroup(const struct files *files, uint32_t exec_cgroup, int spared,
			    uint64_t since_ms, int signal, uint32_t *out_count);
// Checks an fd from a box: a regular file on a file system of a type that boxes have. INVALID
// not_regular.
fallible files_check_fd(int fd);
