// The files of a tree: what a sync compares. Paths are bytes, relative, sorted. Files and symbolic
// links are listed, directories exist for them only, as in git. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"

#define FILE_LIST_PATH_MAX 4095
#define FILE_LIST_NAME_MAX 255
#define FILE_LIST_FILES_MAX 1000000
#define FILE_LIST_NO_CONTENT UINT64_MAX
#define FILE_LIST_STAGE ".cove-sync." // directories of this prefix in the root are cove's own

// Of which side a stamp is.
enum file_side { FILE_HOST, FILE_BOX, FILE_SIDES };

struct listed_file {
	char *path;
	bool is_link;
	unsigned mode; // 0777; of a link 0
	uint64_t size;
	char hash[SHA256_HEX + 1]; // SHA-256 of the content, of a link of its target
	uint64_t content;	   // where the bytes are in the spool; or FILE_LIST_NO_CONTENT
	// file_stamp() of the file when it had this content; 0: not known, it has to be read. Never
	// of a file that could change later without a change of its stamp.
	uint64_t stamps[FILE_SIDES];
};

// Attributes that change with the content of a file. Times in nanoseconds.
struct file_times {
	uint64_t inode, size;
	int64_t mtime, ctime;
	unsigned mode;
};
uint64_t file_stamp(const struct file_times *times); // never 0

struct file_list {
	struct listed_file *at;
	size_t count, room;
};

// Relative, without empty, "." and ".." components, within the limits.
bool file_list_is_path(struct str path);
// Whether a component is ".git", in any case.
bool file_list_is_git(struct str path);

// Appends a file with a copy of the path. Sort before any search.
struct listed_file *file_list_add(struct file_list *manifest, struct str path);
void file_list_sort(struct file_list *manifest);
const struct listed_file *file_list_find(const struct file_list *manifest, const char *path);
// The index of the first path that is not less.
size_t file_list_from(const struct file_list *manifest, const char *path);
// Whether a file is beneath the directory.
bool file_list_has_beneath(const struct file_list *manifest, const char *directory);
bool file_list_same(const struct listed_file *a, const struct listed_file *b); // NULL: absent
void file_list_done(struct file_list *manifest);
#define auto_file_list on_exit_call(file_list_done) struct file_list

// What the server keeps of a sandbox that is synced.
struct sync_state {
	char *machine;	       // whose directory it is
	char *worktree;	       // bytes
	bool has_base;	       // a sync has succeeded
	bool is_pending;       // a sync in began and did not end
	char *commit;	       // state of .git there after the commit of `base`; NULL: not known
	struct file_list base; // of the last successful sync
	struct file_list pending;
};
void sync_state_done(struct sync_state *state);
#define auto_sync_state on_exit_call(sync_state_done) struct sync_state

void sync_state_write(const struct sync_state *state, struct buf *out);
// BAD_PEER bad_manifest. On failure *out is empty.
fallible sync_state_read(struct str text, struct sync_state *out);
