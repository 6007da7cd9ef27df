// Headers of tar members: ustar with pax records, GNU long names on reading. No I/O, no allocation:
// pid 1's program links this.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define TAR_BLOCK 512
#define TAR_NAME_MAX 4096
#define TAR_PAX_MAX (32 * 1024)				// pax records of one member
#define TAR_HEAD_MAX (2 * TAR_NAME_MAX + 4 * TAR_BLOCK) // largest output of tar_write()

enum tar_type { TAR_FILE, TAR_DIRECTORY, TAR_SYMLINK, TAR_HARDLINK, TAR_OTHER };

struct tar_head {
	enum tar_type type;
	struct str path, target; // NUL-terminated
	uint64_t size;		 // of the content that follows, padded to blocks
	uint32_t mode, uid, gid;
	int64_t mtime; // seconds
};

// Writes the blocks of a header, for a path and a target of at most TAR_NAME_MAX bytes. 0: they do
// not fit.
size_t tar_write(const struct tar_head *head, void *room, size_t size);
static inline size_t tar_padding(uint64_t size)
{
	return (size_t)(-size % TAR_BLOCK);
}

enum tar_step {
	TAR_MORE,  // feed the next block
	TAR_ENTRY, // *out is valid until the next feed; its content and padding follow, then a
		   // header
	TAR_END,
	TAR_BAD,
};
struct tar_in {
	char path[TAR_NAME_MAX + 1], target[TAR_NAME_MAX + 1];
	bool has_path, has_target, has_size, has_mtime, has_uid, has_gid;
	uint64_t size;
	int64_t mtime;
	uint32_t uid, gid;
	uint64_t left; // unread bytes of pax records or of a long name
	char kind;     // which of these
	size_t records_len;
	char records[TAR_PAX_MAX];
	const char *why; // BAD
};
void tar_begin(struct tar_in *in);
enum tar_step tar_feed(struct tar_in *in, const void *block, struct tar_head *out);
